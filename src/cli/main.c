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

/* How many arguments in front of the command are common options and their values. */
static int count_leading(int argc, char **argv)
{
    int count = 0;
    while (count < argc && argv[count][0] == '-' && argv[count][1] != '\0') {
        enum option option = option_common(argv[count]);
        bool takes = option != OPTION_COUNT && option_at(option)->value != NULL &&
                     strchr(argv[count], '=') == NULL;
        if (option == OPTION_COUNT || option == OPT_help) {
            break;
        }
        count += takes ? 2 : 1;
    }
    return count < argc ? count : argc;
}

/* Moves what stands in front of the command's words behind them: quipu --db FILE ls is quipu ls --db FILE. */
static void put_behind(int leading, int words, char **argv)
{
    for (int i = 0; i < words; i++) {
        char *word = argv[leading + i];
        memmove(argv + i + 1, argv + i, (size_t)leading * sizeof *argv);
        argv[i] = word;
    }
}

int main(int argc, char **argv)
{
    const struct command *command;
    int used = 0;
    int leading = count_leading(argc - 1, argv + 1);
    int status;
    if (argc < 2) {
        help_list(stderr);
        return EXIT_USAGE;
    }
    if (leading == argc - 1) {
        return cli_usage("a command is missing behind '%s'; see quipu help", argv[argc - 1]);
    }
    command = command_find(argc - 1 - leading, argv + 1 + leading, &used);
    if (command == NULL && argv[1 + leading][0] == '-') {
        return cli_usage("'%s' is no option that stands in front of a command: its options stand "
                         "behind it; see quipu help",
                         argv[1 + leading]);
    }
    if (command == NULL) {
        return cli_usage("unknown command '%s' (nearest: %s); see quipu help", argv[1 + leading],
                         command_nearest(argv[1 + leading]));
    }
    put_behind(leading, used, argv + 1);
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
