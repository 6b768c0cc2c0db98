/* manual.c - the manual page and docs/cli.md, both from the table */
#include <string.h>

#include "cli/help.h"
#include "cli/option_notes.h"

static const struct {
    int code;
    const char *meaning;
} exits[] = {
#define CLI_EXIT_MEANING(name, number, meaning, next) {number, meaning},
    CLI_EXITS(CLI_EXIT_MEANING)
#undef CLI_EXIT_MEANING
};

static const char *const intro[] = {
    "A command asks a server (--server, or the variable QUIPU_SERVER), or a store itself "
    "(--db): the output is the same. These options, and the others that are common, may also stand in "
    "front of the command. Without either it asks the store in ./quipu-data, through the server that works on it "
    "or, when there is none, itself; else the file ./quipu.db; else a server of the same user on the default port.",
    "A job is named by its id, or by the beginning of its id when no other job begins so.",
    "Data goes to stdout, talk to stderr. With -o json the output has the shape of the HTTP "
    "API.",
};

static const char *const files[] = {
    "The configuration file is quipu/config.toml in XDG_CONFIG_HOME, or in ~/.config, or what "
    "--config says. It is TOML: settings as name = \"value\", at its top for all, or in a table "
    "[profile.NAME], which --profile chooses; [profile.default] holds without it. The names are "
    "those of the options: --token-file is token_file there, and QUIPU_TOKEN_FILE as a variable. "
    "Options win over variables, variables over the profile, the profile over the top of the "
    "file; `quipu config show --origin` tells. QUIPU_TOKEN is the token itself; tokens are never "
    "options.",
};

/* ------------------------------------------------------------------------------------------ man */

/* Text for troff: a minus that can be copied, no control lines by accident. */
static void man_text(FILE *out, const char *text, int size)
{
    if (size > 0 && (text[0] == '.' || text[0] == '\'')) {
        (void)fputs("\\&", out);
    }
    for (int i = 0; i < size; i++) {
        if (text[i] == '-') {
            (void)fputs("\\-", out);
        } else if (text[i] == '\\') {
            (void)fputs("\\e", out);
        } else {
            (void)fputc(text[i], out);
        }
    }
}

static void man_line(FILE *out, const char *before, const char *text)
{
    (void)fputs(before, out);
    man_text(out, text, (int)strlen(text));
    (void)fputc('\n', out);
}

static void man_option(FILE *out, enum option option, const char *about)
{
    const struct option_row *row = option_at(option);
    char text[OPTION_TEXT_SIZE];
    (void)fputs(".TP\n.B ", out);
    if (row->letter != 0) {
        (void)fprintf(out, "\\-%c, ", row->letter);
    }
    (void)option_text(row->name, text);
    man_text(out, text, (int)strlen(text));
    if (row->value != NULL) {
        (void)fputc(' ', out);
        man_text(out, row->value, (int)strlen(row->value));
    }
    (void)fputc('\n', out);
    man_line(out, "", about);
}

static void man_command(FILE *out, const struct command *command)
{
    struct about_walk w = {.rest = command->about};
    (void)fprintf(out, ".SS quipu %s ", command->words);
    man_line(out, "", command->arguments);
    man_line(out, "", command->summary);
    while (about_each(&w)) {
        (void)fputs(w.is_example ? ".PP\n.RS 4\n.nf\n" : ".PP\n", out);
        man_text(out, w.text, w.size);
        (void)fputs(w.is_example ? "\n.fi\n.RE\n" : "\n", out);
    }
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if (command_takes(command, i) && i > OPT_help) {
            man_option(out, i, option_about(command, i));
        }
    }
}

void manual_man(FILE *out)
{
    const struct command *command;
    (void)fprintf(out, ".TH QUIPU 1 \"\" \"quipu %s\" \"User Commands\"\n", qp_version());
    (void)fputs(".SH NAME\nquipu \\- durable workflows in a file, or in a database\n"
                ".SH SYNOPSIS\n.B quipu\n.I COMMAND\n[arguments]\n.SH DESCRIPTION\n",
                out);
    for (size_t i = 0; i < ARRAY_COUNT(intro); i++) {
        man_line(out, ".PP\n", intro[i]);
    }
    (void)fputs(".SH COMMON OPTIONS\nOf all commands that ask a server or a store:\n", out);
    for (enum option i = 0; i <= OPT_help; i++) {
        man_option(out, i, option_at(i)->about);
    }
    (void)fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        man_command(out, command);
    }
    (void)fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < ARRAY_COUNT(exits); i++) {
        (void)fprintf(out, ".TP\n.B %d\n%s\n", exits[i].code, exits[i].meaning);
    }
    man_line(out, ".SH FILES AND VARIABLES\n", files[0]);
}

/* ------------------------------------------------------------------------------------- markdown */

static void markdown_option(FILE *out, enum option option, const char *about)
{
    const struct option_row *row = option_at(option);
    char text[OPTION_TEXT_SIZE];
    (void)fputs("| `", out);
    if (row->letter != 0) {
        (void)fprintf(out, "-%c`, `", row->letter);
    }
    (void)fprintf(out, "%s%s%s` | %s |\n", option_text(row->name, text),
                  row->value != NULL ? " " : "", row->value != NULL ? row->value : "", about);
}

static void markdown_command(FILE *out, const struct command *command)
{
    struct about_walk w = {.rest = command->about};
    bool table = false;
    (void)fprintf(out, "\n### quipu %s\n\n`quipu %s%s%s`: %s.\n", command->words, command->words,
                  command->arguments[0] != '\0' ? " " : "", command->arguments, command->summary);
    while (about_each(&w)) {
        (void)fprintf(out, w.is_example ? "\n    %.*s\n" : "\n%.*s\n", w.size, w.text);
    }
    for (enum option i = OPT_help + 1; i < OPTION_COUNT; i++) {
        if (command_takes(command, i)) {
            (void)fputs(table ? "" : "\n| option | |\n|---|---|\n", out);
            markdown_option(out, i, option_about(command, i));
            table = true;
        }
    }
}

void manual_markdown(FILE *out)
{
    const struct command *command;
    (void)fputs(
        "# The command line\n\nThis page is `quipu help -o markdown`; `man quipu` says the same.\n",
        out);
    for (size_t i = 0; i < ARRAY_COUNT(intro); i++) {
        (void)fprintf(out, "\n%s\n", intro[i]);
    }
    (void)fprintf(out, "\n%s\n", files[0]);
    (void)fputs("\n## Exit codes\n\n| code | meaning |\n|---|---|\n", out);
    for (size_t i = 0; i < ARRAY_COUNT(exits); i++) {
        (void)fprintf(out, "| %d | %s |\n", exits[i].code, exits[i].meaning);
    }
    (void)fputs("\n## Common options\n\nOf all commands that ask a server or a store.\n\n"
                "| option | |\n|---|---|\n",
                out);
    for (enum option i = 0; i <= OPT_help; i++) {
        markdown_option(out, i, option_at(i)->about);
    }
    (void)fputs("\n## Commands\n", out);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        markdown_command(out, command);
    }
}
