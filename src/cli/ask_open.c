/* ask_open.c - whom to ask: a server or a store, by the settings */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/note.h"
#include "server/auth.h"

#define DATA_SOCKET "quipu-data/quipu.sock"
#define DATA_FILE "quipu-data/quipu.db"
#define OTHER_FILE "quipu.db"

int ask_token_file(struct cli *c, const char *path, const char **out_token)
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
        status = ask_token_file(c, c->values[OPT_token_file], &token);
    }
    return status == EXIT_OK ? ask_server_open(c, server, token) : status;
}

/* A server answers at this socket: one that was killed leaves it behind. */
static bool is_served(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool served = fd >= 0 && strlen(path) < sizeof address.sun_path;
    if (served) {
        memcpy(address.sun_path, path, strlen(path));
        served = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return served;
}

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* The order in which a target is looked for: the one that was named; the store in ./quipu-data, by its server, or itself
 * when none works on it; the file ./quipu.db; a server of the same user on the default port. Without any it is ./quipu.db,
 * which is not there: so an error says. */
struct target {
    const char *file; /* NULL: a server */
    const char *server;
};

static struct target find_target(struct cli *c)
{
    const char *socket;
    if (cli_has(c, OPT_db)) {
        return (struct target){.file = c->values[OPT_db]};
    }
    if (cli_has(c, OPT_server)) {
        return (struct target){.server = c->values[OPT_server]};
    }
    if (is_served(DATA_SOCKET)) {
        return (struct target){.server = "unix:" DATA_SOCKET};
    }
    if (is_there(DATA_FILE) || is_there(OTHER_FILE)) {
        return (struct target){.file = is_there(DATA_FILE) ? DATA_FILE : OTHER_FILE};
    }
    socket = note_read(c);
    return socket != NULL && is_served(socket)
               ? (struct target){.server = cli_text(c, "unix:%s", socket)}
               : (struct target){.file = OTHER_FILE};
}

const char *ask_file_place(struct cli *c)
{
    return find_target(c).file;
}

int ask_open(struct cli *c)
{
    int status = c->ask != NULL ? EXIT_OK : cli_settings(c);
    struct target target;
    if (c->ask != NULL || status != EXIT_OK) {
        return status;
    }
    target = find_target(c);
    return target.file != NULL ? ask_file_open(c, target.file) : open_server(c, target.server);
}
