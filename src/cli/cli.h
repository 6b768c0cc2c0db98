/* cli.h - what the commands of the program share
 *
 * A command is a row of commands.def and a function command_<name>. It gets a struct cli with its
 * arguments and options, which were checked against the table, and returns an exit code. Data goes
 * to stdout, talk to stderr. What could control a terminal is escaped, whatever it comes from.
 * Every error says which command to run next.
 */
#ifndef QP_CLI_CLI_H
#define QP_CLI_CLI_H

#include <quipu.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/json.h"

/* Exit codes are an interface: scripts depend on them. A number is never used again for something
 * else. X(NAME, number, meaning, next command) */
#define CLI_EXITS(X)                                                                               \
    X(OK, 0, "it was done", "")                                                                    \
    X(ERROR, 1, "an error", "quipu doctor")                                                        \
    X(USAGE, 2, "usage: the command, or what was given to it, is wrong", "quipu help")             \
    X(NOT_FOUND, 3, "there is no such job, store or thing", "quipu ls")                            \
    X(CONFLICT, 4, "what is there does not allow it", "quipu show JOB")                            \
    X(AUTH, 5, "no valid token, or it does not allow this", "quipu whoami --token-file FILE")      \
    X(UNREACHABLE, 6, "the server cannot be reached", "quipu doctor")                              \
    X(TIMEOUT, 7, "the time for waiting is over", "quipu watch JOB")                               \
    X(FAILED, 10, "the job has failed", "quipu show JOB")                                          \
    X(CANCELLED, 11, "the job was cancelled or interrupted", "quipu show JOB")                     \
    X(PARKED, 12, "the job is parked: it needs a person", "quipu parked")                          \
    X(VIOLATIONS, 13, "fsck found what must not be", "see docs/fsck.md")                           \
    X(INTERRUPTED, 130, "SIGINT: the command was interrupted", "")

enum cli_exit {
#define CLI_EXIT_NAME(name, number, meaning, next) EXIT_##name = (number),
    CLI_EXITS(CLI_EXIT_NAME)
#undef CLI_EXIT_NAME
};

/* ------------------------------------------------------------------------------ the table */

enum option_flags { MANY = 1, SETTING = 2 };

enum option {
#define OPTION(name, letter, value, flags, about) OPT_##name,
#include "cli/options.def"
#undef OPTION
    OPTION_COUNT
};

struct option_row {
    const char *name; /* with _ where - is typed: see option_text */
    char letter;
    const char *value; /* NULL: it takes none */
    int flags;
    const char *about;
};
const struct option_row *option_at(enum option option);

enum command_flags { ASKS = 1, WRITES = 2, SETTINGS = 4, WORKS = 8 };

struct cli;

struct command {
    const char *words;
    const char *arguments;
    const char *options; /* names, separated by spaces */
    int flags;
    const char *summary; /* one line, lower case, no full stop */
    const char *about;
};
const struct command *command_at(size_t index); /* NULL past the end */
/* By its words, or by the arguments that begin with them; *out_used: how many arguments its words
 * are. */
const struct command *command_find(int argc, char *const *argv, int *out_used);
/* Walks over the paragraphs and examples of `about`: false past the end. An example is without its
 * "$ ". */
struct about_walk {
    const char *rest;
    const char *text;
    int size;
    bool is_example;
};
bool about_each(struct about_walk *w);

/* The words that are nearest to what was typed. */
const char *command_nearest(const char *typed);
bool command_takes(const struct command *command, enum option option);
/* One that every command takes that asks, or --help, as it is typed, perhaps with =VALUE; OPTION_COUNT: none. */
enum option option_common(const char *typed);
/* The name of an option, of those that the command takes, that is nearest to what was typed. */
const char *option_nearest(const struct command *command, const char *typed);
/* The setting that is nearest to what stands in a variable or in the configuration file. */
enum option setting_nearest(const char *typed);
/* "--dry-run" of "dry_run". */
#define OPTION_TEXT_SIZE 32
const char *option_text(const char *name, char out_text[OPTION_TEXT_SIZE]);

/* ----------------------------------------------------------------------------- an invocation */

#define CLI_MANY 32 /* of one option */

struct ask;

struct cli {
    const struct command *command;
    const char *const *arguments; /* without options */
    size_t argument_count;
    const char *values[OPTION_COUNT]; /* NULL: it was not given; of one without a value: "" */
    const char *many[OPTION_COUNT][CLI_MANY];
    size_t many_count[OPTION_COUNT];
    /* Where settings come from: "--db", "QUIPU_DB", "config.toml:3". After cli_settings. */
    const char *origins[OPTION_COUNT]; /* NULL: the default holds */
    bool unset[OPTION_COUNT];          /* of one without a value: it was said to be no */
    const char *config;                /* the configuration file; NULL: nobody knows where */
    bool config_read;
    bool settled;
    struct qp_env env;
    struct arena arena;             /* until the command ends */
    struct ask *ask;                /* opened by the first question */
    int (*open_ask)(struct cli *c); /* how (ask_open.c) */
};

static inline bool cli_has(const struct cli *c, enum option option)
{
    return c->values[option] != NULL;
}

/* Options and arguments of a command; `room` has space for argc arguments. */
int cli_parse(struct cli *c, int argc, char **argv, const char **room);
/* At least and at most so many arguments, else a usage error. */
int cli_expect(const struct cli *c, size_t least, size_t most);
/* A duration of an option; *out_ms is untouched when it was not given. */
int cli_duration(struct cli *c, enum option option, qp_ms *out_ms);
int cli_number(struct cli *c, enum option option, int64_t least, int64_t most, int64_t *out_number);

/* Prints "quipu: " and the message on stderr and returns EXIT_USAGE. Bytes that could control a
 * terminal are shown as \xNN, whatever they come from; the message is cut at a fixed length. */
int cli_usage(const char *format, ...) QP_PRINTF(1, 2);
/* Prints "quipu: COMMAND: message; next: ..." and returns the exit code. */
int cli_fail(const struct cli *c, enum cli_exit code, const char *format, ...) QP_PRINTF(3, 4);
/* The same with a next command that fits better than the usual one. */
int cli_fail_next(const struct cli *c, enum cli_exit code, const char *next, const char *format,
                  ...) QP_PRINTF(4, 5);
/* An error of the library: what went wrong, and where to look. */
void cli_error(const char *command, const struct qp_err *err, int rc);
/* Talk that is no error: a line on stderr. */
void cli_say(const char *format, ...) QP_PRINTF(1, 2);

/* Text in the arena of the invocation; it lives as long as the command. */
const char *cli_text(struct cli *c, const char *format, ...) QP_PRINTF(2, 3);
/* A copy that may be changed. */
char *cli_copy(struct cli *c, const char *text);

/* ------------------------------------------------------------------------------------ settings */

/* Options of the kind SETTING that were not given get their values: from variables, from the
 * profile, from the top of the configuration file. A second call does nothing. */
int cli_settings(struct cli *c);
/* An option as an error names it: "--keep", "--keep (QUIPU_KEEP)", "--keep (config.toml:3)". */
const char *cli_named(struct cli *c, enum option option);

/* --------------------------------------------------------------------------------------- input */

/* What is in a file, or comes from stdin (-). */
int input_file(struct cli *c, const char *path, size_t limit, qp_str *out_text);
/* Arguments as JSON: name=text, name:=JSON, name=@FILE, name:=@FILE; or one that is a JSON text,
 * @FILE, or - for stdin. None: `otherwise`. */
int input_read(struct cli *c, const char *const *arguments, size_t count, const char *otherwise,
               qp_str *out_json);
/* All that can be read, at most `limit` bytes; `name` is for the error. */
int input_stream(struct cli *c, FILE *file, const char *name, size_t limit, qp_str *out_text);
/* A text as it is: itself, @FILE, or - for stdin. */
int input_text(struct cli *c, const char *argument, qp_str *out_text);

/* --------------------------------------------------------------------------------------- places */

/* A place is where a store is: FILE, sqlite:FILE, or the URL of a database. */
bool cli_place_is_url(const char *place);
/* What store_open takes: the file without its prefix, or the URL as it is. */
const char *cli_place_path(const char *place);
/* The name by which people may see it: a whole path, so that one file has one name, or the URL
 * without a password. `size` is enough for any path. */
void cli_place_name(const char *place, char *out_name, size_t size);

/* ------------------------------------------------------------------------------------- commands */

#define COMMAND(function, words, arguments, options, flags, summary, about)                        \
    int command_##function(struct cli *c);
#include "cli/commands.def"
#undef COMMAND

#endif
