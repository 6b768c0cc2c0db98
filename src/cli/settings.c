/* settings.c - options that were not given: from variables, and from the profile in the
 * configuration file
 *
 * The file is the small part of TOML that settings need: sections [profile.NAME] and lines name =
 * "value". Anything else in it is an error with its line: a setting that is silently not heeded is
 * worse than none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define LINE_SIZE 4096
#define VARIABLE_SIZE (OPTION_TEXT_SIZE + 8)

static bool is_place(enum option option)
{
    return option == OPT_db || option == OPT_server;
}

/* Whoever names a server does not mean the file of the profile, and the other way round. */
static void set(struct cli *c, enum option option, const char *value)
{
    bool other = is_place(option) && (cli_has(c, OPT_db) || cli_has(c, OPT_server));
    if (value != NULL && *value != '\0' && !cli_has(c, option) && !other &&
        command_takes(c->command, option)) {
        c->values[option] = value;
    }
}

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
            set(c, option, i < 3 ? NULL : "1");
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
            status = from_flag(c, i, name, value);
        } else {
            set(c, i, value);
        }
    }
    return status;
}

/* A variable that means nothing is most likely a slip of the fingers. */
static void warn_unknown(void)
{
    static const char *const others[] = {"TOKEN", "URL", "JOB", "TOPIC", "KEY", "ATTEMPT"};
    for (char **p = environ; *p != NULL; p++) {
        size_t n = strcspn(*p, "=");
        bool known = strncmp(*p, "QUIPU_", 6) != 0;
        for (enum option i = 0; i < OPTION_COUNT && !known; i++) {
            char name[VARIABLE_SIZE];
            known = (option_at(i)->flags & SETTING) != 0 && strlen(variable_of(i, name)) == n &&
                    memcmp(name, *p, n) == 0;
        }
        for (size_t i = 0; i < ARRAY_COUNT(others) && !known; i++) {
            known = strlen(others[i]) == n - 6 && memcmp(others[i], *p + 6, n - 6) == 0;
        }
        if (!known) {
            cli_say("quipu: warning: the variable %.*s means nothing; next: man quipu", (int)n, *p);
        }
    }
}

/* ------------------------------------------------------------------------------------ the file */

static char *trim(char *text)
{
    size_t n;
    text += strspn(text, " \t");
    n = strlen(text);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        text[--n] = '\0';
    }
    return text;
}

/* "[profile.NAME]" -> NAME; NULL: it is none. */
static char *section_name(char *line)
{
    size_t n = strlen(line);
    if (strncmp(line, "[profile.", 9) != 0 || line[n - 1] != ']') {
        return NULL;
    }
    line[n - 1] = '\0';
    return line + 9;
}

static const char *home_path(struct cli *c, const char *value)
{
    const char *home = getenv("HOME");
    return strncmp(value, "~/", 2) == 0 && home != NULL ? cli_text(c, "%s/%s", home, value + 2)
                                                        : cli_text(c, "%s", value);
}

/* name = "value" */
static bool take_line(struct cli *c, char *line, bool ours)
{
    char *equals = strchr(line, '=');
    char *name, *value;
    size_t n;
    if (equals == NULL) {
        return false;
    }
    *equals = '\0';
    name = trim(line);
    value = trim(equals + 1);
    n = strlen(value);
    if (n < 2 || value[0] != '"' || value[n - 1] != '"' || strpbrk(value, "\\") != NULL) {
        return false;
    }
    value[n - 1] = '\0';
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if ((option_at(i)->flags & SETTING) != 0 && i < OPT_profile &&
            strcmp(option_at(i)->name, name) == 0) {
            if (ours) {
                set(c, i, home_path(c, value + 1));
            }
            return true;
        }
    }
    return false;
}

static int read_file(struct cli *c, FILE *file, const char *path, const char *wanted)
{
    char line[LINE_SIZE];
    bool found = false;
    bool ours = false;
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        char *text = trim(line);
        char *name = section_name(text);
        if (name != NULL) {
            ours = strcmp(name, wanted) == 0;
            found = found || ours;
        } else if (*text != '\0' && *text != '#' && !take_line(c, text, ours)) {
            return cli_fail(c, EXIT_USAGE,
                            "%s:%d: neither [profile.NAME] nor a setting as name = \"value\"", path,
                            number);
        }
    }
    return found || !cli_has(c, OPT_profile)
               ? EXIT_OK
               : cli_fail(c, EXIT_USAGE, "%s: there is no [profile.%s]", path, wanted);
}

static const char *config_path(struct cli *c)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (base != NULL && *base != '\0') {
        return cli_text(c, "%s/quipu/config.toml", base);
    }
    return home != NULL ? cli_text(c, "%s/.config/quipu/config.toml", home) : NULL;
}

int cli_settings(struct cli *c)
{
    const char *path = config_path(c);
    const char *wanted;
    FILE *file;
    int status;
    if (cli_has(c, OPT_db) && cli_has(c, OPT_server)) {
        return cli_usage("%s: --db and --server: one of them; see quipu help %s", c->command->words,
                         c->command->words);
    }
    status = from_variables(c);
    if (status != EXIT_OK) {
        return status;
    }
    warn_unknown();
    wanted = cli_has(c, OPT_profile) ? c->values[OPT_profile] : "default";
    file = path == NULL ? NULL : fopen(path, "re");
    if (file == NULL) {
        return cli_has(c, OPT_profile) ? cli_fail(c, EXIT_USAGE, "profile '%s': %s: %s", wanted,
                                                  path == NULL ? "no HOME" : path, strerror(errno))
                                       : EXIT_OK;
    }
    status = read_file(c, file, path, wanted);
    (void)fclose(file);
    return status;
}
