/* ask_open.c - whom to ask: a server or a store, by the settings */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/ask.h"
#include "server/auth.h"

#define DEFAULT_SOCKET "quipu-data/quipu.sock"
#define DEFAULT_FILE "quipu.db"

/* A file of a secret, which only its owner may read. */
static int read_token(struct cli *c, const char *path, const char **out_token)
{
    char text[TOKEN_TEXT_SIZE + 2] = "";
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 || fstat(fd, &info) != 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n < 0) {
        return cli_fail_next(c, EXIT_AUTH, "quipu help whoami", "token file '%s': %s", path,
                             strerror(errno));
    }
    if ((info.st_mode & 077) != 0) {
        return cli_fail_next(c, EXIT_AUTH, cli_text(c, "chmod 600 %s", path),
                             "token file '%s': others may read it", path);
    }
    text[strcspn(text, "\r\n")] = '\0';
    *out_token = cli_text(c, "%s", text);
    explicit_bzero(text, sizeof text);
    return EXIT_OK;
}

static int open_server(struct cli *c, const char *server)
{
    const char *token = getenv("QUIPU_TOKEN");
    int status = EXIT_OK;
    if (cli_has(c, OPT_token_file)) {
        status = read_token(c, c->values[OPT_token_file], &token);
    }
    return status == EXIT_OK ? ask_server_open(c, server, token) : status;
}

const char *ask_file_place(const struct cli *c)
{
    struct stat info;
    if (cli_has(c, OPT_db)) {
        return c->values[OPT_db];
    }
    return cli_has(c, OPT_server) || stat(DEFAULT_SOCKET, &info) == 0 ? NULL : DEFAULT_FILE;
}

int ask_open(struct cli *c)
{
    int status = c->ask != NULL ? EXIT_OK : cli_settings(c);
    const char *place;
    if (c->ask != NULL || status != EXIT_OK) {
        return status;
    }
    place = ask_file_place(c);
    if (place != NULL) {
        return ask_file_open(c, place);
    }
    return open_server(c, cli_has(c, OPT_server) ? c->values[OPT_server] : "unix:" DEFAULT_SOCKET);
}
