/* help.c - quipu help: the commands, and how to use one */
#include "cli/help.h"

#include <string.h>
#include <unistd.h>

#include "cli/option_notes.h"
#include "cli/words.h"

#define SUMMARY_COLUMN 22
#define ABOUT_COLUMN 26 /* where the explanation of an option begins */

/* The rest of a line; on a terminal it is wrapped. */
static void print_about(FILE *out, const char *about, int column)
{
    if (out == stdout) {
        print_wrapped(str_from(about), column);
    } else {
        (void)fprintf(out, "%s\n", about);
    }
}

static void print_option(FILE *out, const struct command *command, enum option option)
{
    const struct option_row *row = option_at(option);
    const char *about = option_about(command, option);
    char text[OPTION_TEXT_SIZE];
    char shown[80];
    char letter[8] = "    ";
    if (row->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
    }
    (void)snprintf(shown, sizeof shown, "  %s%s%s%s", letter, option_text(row->name, text),
                   row->value != NULL ? " " : "", row->value != NULL ? row->value : "");
    if (strlen(shown) < ABOUT_COLUMN + 6) {
        (void)fprintf(out, "%-*s ", ABOUT_COLUMN + 5, shown);
    } else {
        (void)fprintf(out, "%s\n%*s ", shown, ABOUT_COLUMN + 5, "");
    }
    print_about(out, about, ABOUT_COLUMN + 6);
}

/* A paragraph in lines that fit a terminal. */
static void print_paragraph(FILE *out, const char *text, int size)
{
    int width = 96;
    if (isatty(STDOUT_FILENO) != 0) {
        int columns = 0;
        (void)terminal_size(&columns);
        width = columns < width ? columns : width;
    }
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

static void print_options(FILE *out, const struct command *command);

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
            print_paragraph(out, w.text, w.size);
            (void)fputc('\n', out);
        }
    }
    (void)fputs(examples ? "\n" : "", out);
    print_options(out, command);
}

/* Those of the command first, then those that most commands take. */
static void print_options(FILE *out, const struct command *command)
{
    bool own = false;
    for (enum option i = OPT_help + 1; i < OPTION_COUNT; i++) {
        if (command_takes(command, i)) {
            (void)fputs(own ? "" : "options:\n", out);
            print_option(out, command, i);
            own = true;
        }
    }
    (void)fputs(own ? "\ncommon options:\n" : "options:\n", out);
    for (enum option i = 0; i <= OPT_help; i++) {
        if (command_takes(command, i)) {
            print_option(out, command, i);
        }
    }
}

/* What a command is for, by its first word. What is not named is about operating a store. */
static const struct {
    const char *title;
    const char *words;
} groups[] = {
    {"run", " start signal wait run serve dev demo new "},
    {"look", " ls show history watch parked topics workers stats export sql graph "},
    {"act", " cancel kill pause resume retry fork delete batches limits "},
    {"define", " deploy workflows carto replay "},
    {"operate", ""},
};

static size_t group_of(const struct command *command)
{
    size_t i = 0;
    char word[32];
    (void)snprintf(word, sizeof word, " %.*s ", (int)strcspn(command->words, " "), command->words);
    while (i + 1 < ARRAY_COUNT(groups) && strstr(groups[i].words, word) == NULL) {
        i++;
    }
    return i;
}

void help_list(FILE *out)
{
    const struct command *command;
    (void)fputs("usage: quipu COMMAND [arguments]\n\ncommands:\n",
                out); /* main checks the stream */
    for (size_t g = 0; g < ARRAY_COUNT(groups); g++) {
        (void)fprintf(out, " %s\n", groups[g].title);
        for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
            if (group_of(command) == g) {
                (void)fprintf(out, "  %-19s ", command->words);
                print_about(out, command->summary, SUMMARY_COLUMN);
            }
        }
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
        return cli_usage(
            "help: --output must be text, man or markdown, got '%s'; see quipu help help", format);
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
