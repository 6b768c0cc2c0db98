/* talk.c - what goes to stderr: errors, hints, and talk */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"

static const struct {
    int code;
    const char *next;
} exits[] = {
#define CLI_EXIT_ROW(name, number, meaning, next) {number, next},
    CLI_EXITS(CLI_EXIT_ROW)
#undef CLI_EXIT_ROW
};

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

/* Whether the text is one command that asks a server or a store. */
static bool asks(const char *next)
{
    char copy[96];
    char *words[4];
    char *rest = copy;
    const struct command *command;
    int count = 0;
    int used;
    if (strncmp(next, "quipu ", 6) != 0 || strpbrk(next, ",()") != NULL ||
        strstr(next, " --db") != NULL || strstr(next, " --server") != NULL) {
        return false;
    }
    (void)snprintf(copy, sizeof copy, "%s", next + 6); /* the words stand at its front */
    while (count < 4 && (words[count] = strsep(&rest, " ")) != NULL) {
        count++;
    }
    command = command_find(count, words, &used);
    return command != NULL && (command->flags & ASKS) != 0;
}

/* The next command is to work for the target that was named on the command line. */
static void print_target(const struct cli *c, const char *next)
{
    static const enum option all[] = {OPT_db, OPT_server, OPT_token_file, OPT_namespace};
    char text[OPTION_TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_COUNT(all) && asks(next); i++) {
        const char *origin = c->origins[all[i]];
        (void)option_text(option_at(all[i])->name, text);
        if (cli_has(c, all[i]) && (origin == NULL || strcmp(origin, text) == 0)) {
            (void)fprintf(stderr, " %s ", text);
            print_safe(c->values[all[i]]);
        }
    }
}

static int fail(const struct cli *c, enum cli_exit code, const char *next, const char *format,
                va_list arguments)
{
    char text[QP_ERR_TEXT_SIZE];
    (void)vsnprintf(text, sizeof text, format, arguments); /* a cut message is good enough */
    (void)fprintf(stderr, "quipu: %s: ", c->command->words);
    print_safe(text);
    (void)fputs("; next: ", stderr);
    print_safe(next);
    print_target(c, next);
    if (code == EXIT_USAGE) {
        (void)fprintf(stderr, " %s", c->command->words);
    }
    (void)fputc('\n', stderr);
    return (int)code;
}

int cli_fail(const struct cli *c, enum cli_exit code, const char *format, ...)
{
    const char *next = "quipu help";
    va_list arguments;
    for (size_t i = 0; i < ARRAY_COUNT(exits); i++) {
        next = exits[i].code == (int)code ? exits[i].next : next;
    }
    va_start(arguments, format);
    (void)fail(c, code, next, format, arguments);
    va_end(arguments);
    return (int)code;
}

int cli_fail_next(const struct cli *c, enum cli_exit code, const char *next, const char *format,
                  ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fail(c, code == EXIT_USAGE ? EXIT_ERROR : code, next, format, arguments);
    va_end(arguments);
    return (int)code;
}

void cli_error(const char *command, const struct qp_err *err, int rc)
{
    (void)fprintf(stderr, "quipu: %s: ", command); /* stderr is the last place */
    print_safe(err->text[0] != '\0' ? err->text : qp_code_text(rc));
    (void)fprintf(stderr, "; see quipu help %s\n", command);
}

void cli_say(const char *format, ...)
{
    char text[QP_ERR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments); /* a cut message is good enough */
    va_end(arguments);
    (void)fflush(
        stdout); /* what was printed before stands before; main asks whether it went well */
    print_safe(text);
    (void)fputc('\n', stderr);
}
