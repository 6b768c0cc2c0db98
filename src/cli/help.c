/* help.c - quipu help: the commands, and how to use one */
#include "cli/help.h"

#include <string.h>

#define ABOUT_COLUMN 26 /* where the explanation of an option begins */

static void print_option(FILE *out, enum option option)
{
    const struct option_row *row = option_at(option);
    char text[OPTION_TEXT_SIZE];
    char shown[80];
    char letter[8] = "    ";
    if (row->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
    }
    (void)snprintf(shown, sizeof shown, "  %s%s%s%s", letter, option_text(row->name, text),
                   row->value != NULL ? " " : "", row->value != NULL ? row->value : "");
    if (strlen(shown) < ABOUT_COLUMN + 6) {
        (void)fprintf(out, "%-*s %s\n", ABOUT_COLUMN + 5, shown, row->about);
    } else {
        (void)fprintf(out, "%s\n%*s %s\n", shown, ABOUT_COLUMN + 5, "", row->about);
    }
}

/* A paragraph in lines that fit a terminal. */
static void print_wrapped(FILE *out, const char *text, int size)
{
    const int width = 96;
    while (size > 0) {
        int n = size;
        int step;
        if (n > width) {
            for (n = width; n > 0 && text[n] != ' '; n--) {}
            n = n == 0 ? width : n;
        }
        (void)fprintf(out, "%.*s\n", n, text);
        step = n + (n < size && text[n] == ' ');
        text += step;
        size -= step;
    }
}

void help_command(FILE *out, const struct command *command)
{
    struct about_walk w = {.rest = command->about};
    bool examples = false;
    (void)fprintf(out, "usage: quipu %s [options]%s%s\n\n%s\n\n", command->words,
                  command->arguments[0] != '\0' ? " " : "", command->arguments, command->summary);
    while (about_each(&w)) {
        if (w.is_example) {
            (void)fprintf(out, "%s  %.*s\n", examples ? "" : "examples:\n", w.size, w.text);
            examples = true;
        } else {
            print_wrapped(out, w.text, w.size);
            (void)fputc('\n', out);
        }
    }
    (void)fprintf(out, "%soptions:\n", examples ? "\n" : "");
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if (command_takes(command, i)) {
            print_option(out, i);
        }
    }
}

void help_list(FILE *out)
{
    const struct command *command;
    (void)fputs("usage: quipu COMMAND [arguments]\n\ncommands:\n",
                out); /* main checks the stream */
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        (void)fprintf(out, "  %-18s %s\n", command->words, command->summary);
    }
    (void)fputs("\nquipu help COMMAND shows how to use one; quipu demo shows what it is about\n",
                out);
}

int command_help(struct cli *c)
{
    const struct command *command;
    const char *format = cli_has(c, OPT_output) ? c->values[OPT_output] : "text";
    char *words[2];
    int used = 0;
    int status = cli_expect(c, 0, 2);
    if (status != EXIT_OK) {
        return status;
    }
    if (strcmp(format, "man") == 0) {
        manual_man(stdout);
        return EXIT_OK;
    }
    if (strcmp(format, "markdown") == 0) {
        manual_markdown(stdout);
        return EXIT_OK;
    }
    if (strcmp(format, "text") != 0) {
        return cli_usage("help: output is text, man or markdown, not '%s'; see quipu help help",
                         format);
    }
    if (c->argument_count == 0) {
        help_list(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; i < c->argument_count; i++) {
        words[i] = (char *)(uintptr_t)c->arguments[i]; /* only looked at */
    }
    command = command_find((int)c->argument_count, words, &used);
    if (command == NULL) {
        return cli_usage("unknown command '%s' (nearest: %s); see quipu help", c->arguments[0],
                         command_nearest(c->arguments[0]));
    }
    help_command(stdout, command);
    return EXIT_OK;
}
