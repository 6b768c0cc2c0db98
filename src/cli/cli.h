/* cli.h - what the commands of the program share
 *
 * A command is one file, src/cli/<name>.c, that defines one function, and one row of the table in
 * main.c. It gets its own name as argv[0] and returns an exit code. Data goes to stdout, talk to
 * stderr.
 */
#ifndef QP_CLI_CLI_H
#define QP_CLI_CLI_H

#include <quipu.h>
#include <stdbool.h>
#include <stddef.h>

/* Exit codes are an interface: scripts depend on them. A number is never used again for something
 * else. */
enum cli_exit {
    EXIT_OK = 0,
    EXIT_ERROR = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3,
    EXIT_CONFLICT = 4,    /* what is there does not allow it */
    EXIT_VIOLATIONS = 13, /* fsck found what must not be */
};

struct command {
    const char *name;
    const char *arguments; /* for the usage line; "" when there are none */
    const char *summary;   /* one line, lower case, no full stop */
    int (*run)(int argc, char **argv);
};

/* Prints "quipu: " and the message on stderr and returns EXIT_USAGE. Bytes that could control a
 * terminal are shown as \xNN, whatever they come from; the message is cut at a fixed length. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints what went wrong, with the same care, and where to look. */
void cli_error(const char *command, const struct qp_err *err, int rc);

/* A place is where a store is: FILE, sqlite:FILE, or the URL of a database. */
bool cli_place_is_url(const char *place);
/* What store_open takes: the file without its prefix, or the URL as it is. */
const char *cli_place_path(const char *place);
/* The name by which people may see it: a whole path, so that one file has one name, or the URL without
 * a password. `size` is enough for any path. */
void cli_place_name(const char *place, char *out_name, size_t size);

int command_fsck(int argc, char **argv);
int command_migrate(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_version(int argc, char **argv);
int command_help(int argc, char **argv);

#endif
