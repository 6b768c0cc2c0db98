/* args.c - the arguments of a command, checked against the table */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/cli.h"

/* The option that is typed so; OPTION_COUNT: none. *out_value: what stands behind its = sign, or
 * NULL. */
static enum option find_option(const struct cli *c, const char *typed, const char **out_value)
{
    size_t n = strcspn(typed, "=");
    *out_value = typed[n] == '=' ? typed + n + 1 : NULL;
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        char text[OPTION_TEXT_SIZE];
        if (!command_takes(c->command, i)) {
            continue;
        }
        (void)option_text(option_at(i)->name, text);
        if (strlen(text) == n && memcmp(text, typed, n) == 0) {
            return i;
        }
        if (option_at(i)->letter != 0 && typed[1] == option_at(i)->letter && n == 2) {
            return i;
        }
    }
    return OPTION_COUNT;
}

static int keep(struct cli *c, enum option option, const char *typed, const char *value)
{
    const struct option_row *row = option_at(option);
    bool many = (row->flags & MANY) != 0;
    if (c->values[option] != NULL && !many) {
        return cli_usage("%s: %s is given twice; see quipu help %s", c->command->words, typed,
                         c->command->words);
    }
    if (many && c->many_count[option] == CLI_MANY) {
        return cli_usage("%s: %s is given more than %d times; see quipu help %s", c->command->words,
                         typed, CLI_MANY, c->command->words);
    }
    c->values[option] = value;
    if (many) {
        c->many[option][c->many_count[option]++] = value;
    }
    return EXIT_OK;
}

static int take_option(struct cli *c, int argc, char **argv, int *at)
{
    const char *typed = argv[*at];
    const char *value;
    enum option option = find_option(c, typed, &value);
    char nearest[OPTION_TEXT_SIZE];
    if (option == OPTION_COUNT) {
        return cli_usage(
            "%s: unknown option '%s' (nearest: %s); see quipu help %s", c->command->words, typed,
            option_text(option_nearest(c->command, typed + 2), nearest), c->command->words);
    }
    if (option_at(option)->value == NULL) {
        return value == NULL ? keep(c, option, typed, "")
                             : cli_usage("%s: %s takes no value; see quipu help %s",
                                         c->command->words, typed, c->command->words);
    }
    if (value == NULL && *at + 1 < argc) {
        value = argv[++*at];
    }
    if (value == NULL) {
        return cli_usage("%s: %s needs a value; see quipu help %s", c->command->words, typed,
                         c->command->words);
    }
    return keep(c, option, typed, value);
}

/* A single dash is stdin, and what begins with a dash and a digit is a number. */
static bool looks_like_option(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0' && (argument[1] < '0' || argument[1] > '9');
}

int cli_parse(struct cli *c, int argc, char **argv, const char **room)
{
    int status = EXIT_OK;
    bool only_arguments = false;
    for (int i = 0; i < argc && status == EXIT_OK; i++) {
        if (!only_arguments && strcmp(argv[i], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && looks_like_option(argv[i])) {
            status = take_option(c, argc, argv, &i);
        } else {
            room[c->argument_count++] = argv[i];
        }
    }
    c->arguments = room;
    return status;
}

int cli_expect(const struct cli *c, size_t least, size_t most)
{
    if (c->argument_count < least) {
        return cli_usage("%s: %s is missing; see quipu help %s", c->command->words,
                         c->command->arguments, c->command->words);
    }
    if (c->argument_count > most) {
        return cli_usage("%s: unexpected argument '%s'; see quipu help %s", c->command->words,
                         c->arguments[most], c->command->words);
    }
    return EXIT_OK;
}

int cli_duration(struct cli *c, enum option option, qp_ms *out_ms)
{
    if (!cli_has(c, option) || span_parse(str_from(c->values[option]), out_ms, NULL) == QP_OK) {
        return EXIT_OK;
    }
    return cli_usage("%s: %s must be a duration like 30s or 1h30m, got '%s'; see quipu help %s",
                     c->command->words, cli_named(c, option), c->values[option], c->command->words);
}

int cli_number(struct cli *c, enum option option, int64_t least, int64_t most, int64_t *out_number)
{
    const char *typed = c->values[option];
    char *end = NULL;
    long long number;
    if (typed == NULL) {
        return EXIT_OK;
    }
    errno = 0;
    number = strtoll(typed, &end, 10);
    if (*typed < '0' || *typed > '9' || *end != '\0' || errno != 0 || number < least ||
        number > most) {
        return cli_usage("%s: %s must be between %lld and %lld, got '%s'; see quipu help %s",
                         c->command->words, cli_named(c, option), (long long)least, (long long)most,
                         typed, c->command->words);
    }
    *out_number = number;
    return EXIT_OK;
}
