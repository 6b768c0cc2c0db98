/* settings.c - what a setting is, and where it comes from
 *
 * A setting is an option of the kind SETTING. It is given as an option, else by its variable
 * (--data-dir is QUIPU_DATA_DIR), else by the profile in the configuration file, else by the top of
 * that file, else it has its default. Of each the origin is kept, for errors and `config show`.
 *
 * A setting that is silently not heeded is worse than none: an unknown key in the file is an error
 * with its place, an unknown variable a warning, since it may be another program's. Both name the
 * nearest that there is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/toml.h"
#include "cli/cli.h"

#define VARIABLE_SIZE (OPTION_TEXT_SIZE + 8)

static bool is_place(enum option option)
{
    return option == OPT_db || option == OPT_server;
}

/* Of an option that may come several times: one text, at whose commas they are divided. */
static void set_many(struct cli *c, enum option option, const char *value)
{
    char *rest = cli_copy(c, value);
    while (rest != NULL && c->many_count[option] < CLI_MANY) {
        c->many[option][c->many_count[option]++] = strsep(&rest, ",");
    }
}

/* Whoever names a server does not mean the file of the profile, and the other way round. */
static void set(struct cli *c, enum option option, const char *value, const char *origin)
{
    bool other = is_place(option) && (cli_has(c, OPT_db) || cli_has(c, OPT_server));
    if (*value != '\0' && !cli_has(c, option) && !other && !c->unset[option] &&
        command_takes(c->command, option)) {
        c->values[option] = value;
        c->origins[option] = origin;
        if ((option_at(option)->flags & MANY) != 0) {
            set_many(c, option, value);
        }
    }
}

/* A flag that is no is not set by anybody who comes later. */
static void set_flag(struct cli *c, enum option option, bool truth, const char *origin)
{
    if (truth) {
        set(c, option, "1", origin);
    } else if (!cli_has(c, option) && !c->unset[option]) {
        c->unset[option] = true;
        c->origins[option] = origin;
    }
}

/* ----------------------------------------------------------------------------------- variables */

/* "QUIPU_DATA_DIR" of "data_dir". */
static const char *variable_of(enum option option, char out_name[VARIABLE_SIZE])
{
    (void)snprintf(out_name, VARIABLE_SIZE, "QUIPU_%s",
                   option_at(option)->name); /* names are short */
    for (char *p = out_name; *p != '\0'; p++) {
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    }
    return out_name;
}

/* An option without a value is set by 1, true or yes, and not by 0, false or no. */
static int from_flag(struct cli *c, enum option option, const char *name, const char *value)
{
    static const char *const words[] = {"0", "false", "no", "1", "true", "yes"};
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (strcmp(value, words[i]) == 0) {
            set_flag(c, option, i >= 3, name);
            return EXIT_OK;
        }
    }
    return cli_fail(c, EXIT_USAGE, "the variable %s is 1 or 0, not '%s'", name, value);
}

static int from_variables(struct cli *c)
{
    int status = EXIT_OK;
    for (enum option i = 0; i < OPTION_COUNT && status == EXIT_OK; i++) {
        char name[VARIABLE_SIZE];
        const char *value;
        if ((option_at(i)->flags & SETTING) == 0 || !command_takes(c->command, i)) {
            continue;
        }
        value = getenv(variable_of(i, name));
        if (value == NULL || *value == '\0') {
            continue;
        }
        if (option_at(i)->value == NULL) {
            status = from_flag(c, i, cli_text(c, "%s", name), value);
        } else {
            set(c, i, value, cli_text(c, "%s", name));
        }
    }
    return status;
}

/* Variables of other meanings: the token, and what a program of `run --exec` is told. */
static bool is_other(const char *name, size_t n)
{
    static const char *const others[] = {"TOKEN", "URL", "JOB", "TOPIC", "KEY", "ATTEMPT"};
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        if (strlen(others[i]) == n && memcmp(others[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_variable(const char *name, size_t n)
{
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        char text[VARIABLE_SIZE];
        if ((option_at(i)->flags & SETTING) != 0 && strlen(variable_of(i, text)) == n &&
            memcmp(text, name, n) == 0) {
            return true;
        }
    }
    return false;
}

/* A variable that means nothing is most likely a slip of the fingers. */
static void warn_unknown(void)
{
    for (char **p = environ; *p != NULL; p++) {
        size_t n = strcspn(*p, "=");
        char typed[VARIABLE_SIZE] = "";
        char name[VARIABLE_SIZE];
        if (strncmp(*p, "QUIPU_", 6) != 0 || is_variable(*p, n) || is_other(*p + 6, n - 6)) {
            continue;
        }
        for (size_t i = 6; i < n && i - 6 < sizeof typed - 1; i++) {
            typed[i - 6] = (char)((*p)[i] >= 'A' && (*p)[i] <= 'Z' ? (*p)[i] - 'A' + 'a' : (*p)[i]);
        }
        cli_say("quipu: warning: the variable %.*s means nothing (nearest: %s); next: quipu config "
                "show",
                (int)n, *p, variable_of(setting_nearest(typed), name));
    }
}

/* ------------------------------------------------------------------------------------ the file */

struct file {
    const char *path;
    const char *wanted; /* the profile */
    bool named;         /* it has to be there */
    bool has_wanted;
    struct toml_entry *entries;
    size_t count;
};

/* What decides which file is read, and what of it, cannot stand in it. */
static bool is_for_files(enum option option)
{
    return (option_at(option)->flags & SETTING) != 0 && option != OPT_profile &&
           option != OPT_config;
}

static enum option setting_of(qp_str key)
{
    enum option i = 0;
    while (i < OPTION_COUNT && !(is_for_files(i) && str_equal(key, str_from(option_at(i)->name)))) {
        i++;
    }
    return i;
}

static const char *home_path(struct cli *c, qp_str value)
{
    const char *home = getenv("HOME");
    bool at_home = value.n >= 2 && memcmp(value.p, "~/", 2) == 0 && home != NULL;
    return at_home ? cli_text(c, "%s/%.*s", home, (int)value.n - 2, value.p + 2)
                   : cli_text(c, "%.*s", STR_ARG(value));
}

static int wrong(struct cli *c, const struct file *f, const struct toml_entry *e, const char *what)
{
    return cli_fail(c, EXIT_USAGE, "%s:%zu:%zu: %s", f->path, e->line, e->column, what);
}

/* Every entry is checked, also of profiles that are not meant. */
static int check_entry(struct cli *c, struct file *f, const struct toml_entry *e)
{
    bool is_profile = str_equal(e->table[0], QP_STR("profile")) && e->table[1].n > 0;
    enum option option = setting_of(e->key);
    if (!str_is_none(e->table[0]) && !is_profile) {
        return wrong(c, f, e, "a table is [profile.NAME]");
    }
    f->has_wanted = f->has_wanted || str_equal(e->table[1], str_from(f->wanted));
    if (e->kind == TOML_TABLE) {
        return EXIT_OK;
    }
    if (option == OPTION_COUNT) {
        const char *typed = cli_text(c, "%.*s", STR_ARG(e->key));
        return wrong(c, f, e,
                     cli_text(c, "there is no setting '%s' (nearest: %s)", typed,
                              option_at(setting_nearest(typed))->name));
    }
    if ((option_at(option)->value == NULL) != (e->kind == TOML_TRUTH)) {
        return wrong(c, f, e,
                     cli_text(c, "%s is %s", option_at(option)->name,
                              option_at(option)->value == NULL ? "true or false"
                                                               : "a text in quotes, or a number"));
    }
    return EXIT_OK;
}

static void take_entry(struct cli *c, const struct file *f, const struct toml_entry *e)
{
    const char *origin = cli_text(c, "%s:%zu", f->path, e->line);
    enum option option = setting_of(e->key);
    if (e->kind == TOML_TRUTH) {
        set_flag(c, option, e->truth, origin);
    } else {
        set(c, option,
            e->kind == TOML_NUMBER ? cli_text(c, "%lld", (long long)e->number)
                                   : home_path(c, e->text),
            origin);
    }
}

/* The profile first: it wins over the top of the file. */
static void take_entries(struct cli *c, const struct file *f)
{
    for (int top = 0; top < 2; top++) {
        for (size_t i = 0; i < f->count; i++) {
            const struct toml_entry *e = &f->entries[i];
            bool ours =
                top == 1 ? str_is_none(e->table[0]) : str_equal(e->table[1], str_from(f->wanted));
            if (e->kind != TOML_TABLE && ours) {
                take_entry(c, f, e);
            }
        }
    }
}

static int read_entries(struct cli *c, struct file *f, qp_str text)
{
    struct toml t;
    struct qp_err err = {0};
    int status = EXIT_OK;
    int rc = QP_OK;
    toml_init(&t, &c->arena, text);
    f->entries = arena_alloc(&c->arena, LIMIT_CONFIG_ENTRIES * sizeof *f->entries);
    if (f->entries == NULL) {
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    while (status == EXIT_OK && rc == QP_OK) {
        rc = toml_next(&t, &f->entries[f->count], &err);
        status = rc == QP_OK ? check_entry(c, f, &f->entries[f->count++]) : status;
    }
    if (status == EXIT_OK && rc != QP_E_NOT_FOUND) {
        return cli_fail(c, EXIT_USAGE, "%s:%s", f->path, err.text);
    }
    if (status == EXIT_OK && !f->has_wanted && cli_has(c, OPT_profile)) {
        return cli_fail(c, EXIT_USAGE, "%s: there is no [profile.%s]", f->path, f->wanted);
    }
    return status;
}

static int read_file(struct cli *c, struct file *f, FILE *stream)
{
    qp_str text;
    int status = input_stream(c, stream, f->path, LIMIT_CONFIG_SIZE, &text);
    status = status == EXIT_OK ? read_entries(c, f, text) : status;
    if (status == EXIT_OK) {
        take_entries(c, f);
    }
    return status;
}

static const char *default_path(struct cli *c)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (base != NULL && *base != '\0') {
        return cli_text(c, "%s/quipu/config.toml", base);
    }
    return home != NULL ? cli_text(c, "%s/.config/quipu/config.toml", home) : NULL;
}

static int from_file(struct cli *c)
{
    struct file f = {.path = c->values[OPT_config],
                     .wanted = cli_has(c, OPT_profile) ? c->values[OPT_profile] : "default",
                     .named = cli_has(c, OPT_config) || cli_has(c, OPT_profile)};
    FILE *stream;
    int status;
    f.path = f.path != NULL ? f.path : default_path(c);
    c->config = f.path;
    stream = f.path == NULL ? NULL : fopen(f.path, "re");
    if (stream == NULL) {
        bool absent = f.path == NULL || errno == ENOENT || errno == ENOTDIR;
        return absent && !f.named
                   ? EXIT_OK
                   : cli_fail(c, EXIT_USAGE, "'%s': %s", f.path == NULL ? "config.toml" : f.path,
                              f.path == NULL ? "HOME is not set" : strerror(errno));
    }
    c->config_read = true;
    status = read_file(c, &f, stream);
    (void)fclose(stream);
    return status;
}

int cli_settings(struct cli *c)
{
    int status;
    if (c->settled) {
        return EXIT_OK;
    }
    if (cli_has(c, OPT_db) && cli_has(c, OPT_server)) {
        return cli_usage("%s: --db and --server: one of them; see quipu help %s", c->command->words,
                         c->command->words);
    }
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        c->origins[i] = cli_has(c, i) ? cli_named(c, i) : NULL;
    }
    status = from_variables(c);
    if (status == EXIT_OK) {
        warn_unknown();
        status = from_file(c);
    }
    c->settled = status == EXIT_OK;
    return status;
}
