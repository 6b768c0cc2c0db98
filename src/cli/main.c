/* main.c - the program `quipu`: finds the command and runs it
 *
 * All commands are rows of one const table. A name that is not there is answered with the nearest
 * one that is. The program fails when its output could not be written: a script that redirects to a
 * full disk must notice.
 */
#include "cli/cli.h"

#include <quipu.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static const struct command commands[] = {
    {"help", "[command]", "list the commands, or show the usage of one", command_help},
    {"fsck",
     "[--db PLACE] [PLACE] [--ns NAME] [--job ID] [--rule A1,S,..] [--limit N] [--max-tries N] "
     "[-o text|json] [--selftest]",
     "check a store against the rules of the protocol", command_fsck},
    {"migrate",
     "--from PLACE --to PLACE [--keep-source] [--no-check] [-o text|json] | --dump-sql [--to URL]",
     "move a store to another file or database, with its jobs in flight", command_migrate},
    {"serve",
     "[--data-dir DIR] [--store PLACE] [--listen ADDRESS:PORT] [--socket PATH] [--no-auth] ..; "
     "see quipu serve --help",
     "serve the API over HTTP", command_serve},
    {"version", "[-o text|json]", "print the version", command_version},
};

/* Spellings that people try because other programs have them. */
static const struct {
    const char *flag;
    const char *name;
} aliases[] = {
    {"--help", "help"},
    {"-h", "help"},
    {"--version", "version"},
};

static const struct command *find_command(const char *name);
static const char *nearest_command(const char *name);
static void print_list(FILE *out);
static void print_safe(const char *text);

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_list(stderr);
        return EXIT_USAGE;
    }

    const struct command *command = find_command(argv[1]);
    if (command == NULL) {
        return cli_usage("unknown command '%s' (nearest: %s); see quipu help", argv[1],
                         nearest_command(argv[1]));
    }

    int status = command->run(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fputs("quipu: cannot write the output\n", stderr); /* nobody is left to tell */
        return EXIT_ERROR;
    }
    return status;
}

int command_help(int argc, char **argv)
{
    if (argc > 2) {
        return cli_usage("help takes one command at most");
    }
    if (argc < 2) {
        print_list(stdout);
        return EXIT_OK;
    }

    const struct command *command = find_command(argv[1]);
    if (command == NULL) {
        return cli_usage("unknown command '%s' (nearest: %s); see quipu help", argv[1],
                         nearest_command(argv[1]));
    }
    printf("usage: quipu %s %s\n\n%s\n", command->name, command->arguments, command->summary);
    return EXIT_OK;
}

int cli_usage(const char *format, ...)
{
    char text[LIMIT_LOG_ECHO_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments); /* a cut message is good enough */
    va_end(arguments);

    (void)fputs("quipu: ", stderr);
    print_safe(text);
    (void)fputc('\n', stderr);
    return EXIT_USAGE;
}

void cli_error(const char *command, const struct qp_err *err, int rc)
{
    (void)fprintf(stderr, "quipu: %s: ", command); /* nobody is left to tell */
    print_safe(err->text[0] != '\0' ? err->text : qp_code_text(rc));
    (void)fprintf(stderr, "; see quipu help %s\n", command);
}

/* Foreign text on a terminal. */
static void print_safe(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char byte = (unsigned char)*p;
        if (byte < 0x20 || byte >= 0x7f) {
            (void)fprintf(stderr, "\\x%02x", byte);
        } else {
            (void)fputc(byte, stderr);
        }
    }
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(aliases); i++) {
        if (strcmp(name, aliases[i].flag) == 0) {
            name = aliases[i].name;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void print_list(FILE *out)
{
    (void)fputs("usage: quipu <command> [arguments]\n\ncommands:\n",
                out); /* main checks the stream */
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        (void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
}

/* Insertions, deletions and replacements that turn `typed` into `name`. Names of commands are
 * short; of what was typed only the beginning is compared, so one row of fixed length is enough. */
static size_t distance(const char *typed, const char *name)
{
    enum { COMPARED = 32 };
    size_t row[COMPARED + 1];
    size_t name_size = strnlen(name, COMPARED);
    size_t typed_size = strnlen(typed, COMPARED);

    for (size_t j = 0; j <= name_size; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= typed_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= name_size; j++) {
            size_t above = row[j];
            size_t best = diagonal + (typed[i - 1] == name[j - 1] ? 0 : 1);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[name_size];
}

static const char *nearest_command(const char *name)
{
    const char *nearest = commands[0].name;
    for (size_t i = 1; i < ARRAY_COUNT(commands); i++) {
        if (distance(name, commands[i].name) < distance(name, nearest)) {
            nearest = commands[i].name;
        }
    }
    return nearest;
}
