/* table.c - commands.def and options.def as arrays, and what is looked up in them */
#include <string.h>

#include "cli/cli.h"

static const struct option_row options[] = {
#define OPTION(name, letter, value, flags, about) {#name, letter, value, flags, about},
#include "cli/options.def"
#undef OPTION
};

static const struct command commands[] = {
#define COMMAND(function, words, arguments, options, flags, summary, about)                        \
    {words, arguments, options, flags, summary, about},
#include "cli/commands.def"
#undef COMMAND
};

/* Spellings that people try because other programs have them. */
static const struct {
    const char *typed;
    const char *words;
} aliases[] = {
    {"--help", "help"},
    {"-h", "help"},
    {"--version", "version"},
    {"list", "ls"},
    {"jobs", "ls"},
    {"ps", "ls"},
    {"namespaces", "namespaces ls"},
    {"tokens", "tokens ls"},
    {"interrupt", "kill"},
    {"config", "config show"},
    {"batches", "batches show"},
    {"workflows", "workflows ls"},
    {"limits", "limits ls"},
};

const struct option_row *option_at(enum option option)
{
    return &options[option];
}

const struct command *command_at(size_t index)
{
    return index < ARRAY_COUNT(commands) ? &commands[index] : NULL;
}

/* How many of the arguments the words are; 0: they are others. */
static int words_match(const char *words, int argc, char *const *argv)
{
    int used = 0;
    const char *p = words;
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (used >= argc || strlen(argv[used]) != n || memcmp(argv[used], p, n) != 0) {
            return 0;
        }
        used++;
        p += n;
        p += *p == ' ';
    }
    return used;
}

static const struct command *find_words(const char *words)
{
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strcmp(commands[i].words, words) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

const struct command *command_find(int argc, char *const *argv, int *out_used)
{
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        *out_used = words_match(commands[i].words, argc, argv);
        if (*out_used > 0) {
            return &commands[i];
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(aliases) && argc > 0; i++) {
        if (strcmp(argv[0], aliases[i].typed) == 0) {
            *out_used = 1;
            return find_words(aliases[i].words);
        }
    }
    return NULL;
}

static size_t distance(const char *typed, const char *name)
{
    return str_distance(str_from(typed), str_from(name));
}

const char *command_nearest(const char *typed)
{
    const char *nearest = commands[ARRAY_COUNT(commands) - 1].words; /* help */
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (distance(typed, commands[i].words) < distance(typed, nearest)) {
            nearest = commands[i].words;
        }
    }
    return nearest;
}

const char *option_nearest(const struct command *command, const char *typed)
{
    enum option nearest = OPT_help;
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if (command_takes(command, i) &&
            distance(typed, options[i].name) < distance(typed, options[nearest].name)) {
            nearest = i;
        }
    }
    return options[nearest].name;
}

enum option setting_nearest(const char *typed)
{
    enum option nearest = OPT_db;
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if ((options[i].flags & SETTING) != 0 &&
            distance(typed, options[i].name) < distance(typed, options[nearest].name)) {
            nearest = i;
        }
    }
    return nearest;
}

/* What every command takes that asks somebody. */
static bool is_common(enum option option)
{
    return option <= OPT_no_color;
}

/* "--dry-run" is dry_run, and so is its letter. */
static bool is_typed(const struct option_row *row, const char *typed, size_t n)
{
    size_t size = strlen(row->name);
    size_t i = 0;
    if (row->letter != 0 && n == 2 && typed[1] == row->letter) {
        return true;
    }
    if (n != size + 2 || strncmp(typed, "--", 2) != 0) {
        return false;
    }
    while (i < size && (row->name[i] == '_' ? '-' : row->name[i]) == typed[i + 2]) {
        i++;
    }
    return i == size;
}

enum option option_common(const char *typed)
{
    size_t n = strcspn(typed, "=");
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if ((is_common(i) || i == OPT_help) && is_typed(&options[i], typed, n)) {
            return i;
        }
    }
    return OPTION_COUNT;
}

bool command_takes(const struct command *command, enum option option)
{
    const char *p = command->options;
    const char *name = options[option].name;
    if (option == OPT_help || ((command->flags & ASKS) != 0 && is_common(option)) ||
        ((command->flags & SETTINGS) != 0 && (options[option].flags & SETTING) != 0)) {
        return true;
    }
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (strlen(name) == n && memcmp(name, p, n) == 0) {
            return true;
        }
        p += n;
        p += *p == ' ';
    }
    return false;
}

bool about_each(struct about_walk *w)
{
    size_t n = strcspn(w->rest, "\n");
    if (*w->rest == '\0') {
        return false;
    }
    w->is_example = strncmp(w->rest, "$ ", 2) == 0;
    w->text = w->rest + (w->is_example ? 2 : 0);
    w->size = (int)(n - (w->is_example ? 2 : 0));
    w->rest += n;
    w->rest += *w->rest == '\n';
    return true;
}
