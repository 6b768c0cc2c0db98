/* main.c - the program `quipu`: finds the command and runs it
 *
 * A name that is not there is answered with the nearest one that is. The program fails when its
 * output could not be written: a script that redirects to a full disk must notice.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/ask.h"
#include "cli/help.h"

static int run(const struct command *command, int argc, char **argv);

int main(int argc, char **argv)
{
    const struct command *command;
    int used = 0;
    int status;
    if (argc < 2) {
        help_list(stderr);
        return EXIT_USAGE;
    }
    command = command_find(argc - 1, argv + 1, &used);
    if (command == NULL && argv[1][0] == '-') {
        return cli_usage("options stand behind the command, as in quipu ls %s; see quipu help",
                         argv[1]);
    }
    if (command == NULL) {
        return cli_usage("unknown command '%s' (nearest: %s); see quipu help", argv[1],
                         command_nearest(argv[1]));
    }
    status = run(command, argc - 1 - used, argv + 1 + used);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fputs("quipu: cannot write the output; next: df -h\n",
                    stderr); /* nobody is left to tell */
        return EXIT_ERROR;
    }
    return status;
}

/* Some bytes of the arena: without them a program of a few kilobytes cannot go on, and nobody can
 * help. */
static char *room_for(struct cli *c, size_t size)
{
    char *room = arena_bytes(&c->arena, size);
    if (room == NULL) {
        (void)fputs("quipu: out of memory\n", stderr);
        exit(EXIT_ERROR);
    }
    return room;
}

const char *cli_text(struct cli *c, const char *format, ...)
{
    va_list arguments;
    char *text;
    int size;
    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    QP_ASSERT(size >= 0);
    text = room_for(c, (size_t)size + 1);
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)size + 1, format, arguments); /* there is room */
    va_end(arguments);
    return text;
}

char *cli_copy(struct cli *c, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(room_for(c, size), text, size);
}

/* --help among the arguments, wherever it stands. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int run_parsed(struct cli *c, int argc, char **argv)
{
    const char **room = calloc((size_t)argc + 1, sizeof *room);
    int status = room == NULL ? cli_fail(c, EXIT_ERROR, "out of memory") : EXIT_OK;
    qp_env_init(&c->env);
    env_complete(&c->env);
    arena_init(&c->arena, &c->env, 0);
    status = status == EXIT_OK ? cli_parse(c, argc, argv, room) : status;
    status = status == EXIT_OK ? c->command->run(c) : status;
    ask_close(c);
    arena_done(&c->arena);
    free(room);
    return status;
}

static int run(const struct command *command, int argc, char **argv)
{
    static struct cli c; /* it has room for many options */
    if (wants_help(argc, argv)) {
        help_command(stdout, command);
        return EXIT_OK;
    }
    c = (struct cli){.command = command};
    return run_parsed(&c, argc, argv);
}
