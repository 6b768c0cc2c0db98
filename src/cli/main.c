/* main.c - the program `quipu`: finds the command and runs it
 *
 * A name that is not there is answered with the nearest one that is. The program fails when its
 * output could not be written: a script that redirects to a full disk must notice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/ask.h"
#include "cli/help.h"

static int run(const struct command *command, int argc, char **argv);

/* What each row of commands.def does; in the order of command_at. */
static int (*const functions[])(struct cli *c) = {
#define COMMAND(function, words, arguments, options, flags, summary, about) command_##function,
#include "cli/commands.def"
#undef COMMAND
};

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

static int execute_parsed(struct cli *c, int argc, char **argv)
{
    const char **room = calloc((size_t)argc + 1, sizeof *room);
    int status = room == NULL ? cli_fail(c, EXIT_ERROR, "out of memory") : EXIT_OK;
    qp_env_init(&c->env);
    env_complete(&c->env);
    arena_init(&c->arena, &c->env, 0);
    status = status == EXIT_OK ? cli_parse(c, argc, argv, room) : status;
    status = status == EXIT_OK ? functions[c->command - command_at(0)](c) : status;
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
    c = (struct cli){.command = command, .open_ask = ask_open};
    return execute_parsed(&c, argc, argv);
}
