/* listener.c - sockets to listen on */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/http.h"

#define BACKLOG 1024

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    }
    return address->ss_family == AF_UNIX;
}

/* What the system says the socket is. */
static int describe(struct listener *l, struct qp_err *err)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = "";
    char port[NI_MAXSERV] = "";
    if (getsockname(l->fd, (struct sockaddr *)&address, &size) != 0) {
        return err_set(err, QP_E_INVALID, "listen: it is no socket");
    }
    l->is_unix = address.ss_family == AF_UNIX;
    l->is_loopback = is_loopback(&address);
    if (l->is_unix) {
        (void)snprintf(l->name, sizeof l->name, "unix:%s",
                       ((const struct sockaddr_un *)&address)->sun_path);
        return QP_OK;
    }
    if (getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return err_set(err, QP_E_INVALID, "listen: the socket has no address");
    }
    (void)snprintf(l->name, sizeof l->name,
                   address.ss_family == AF_INET6 ? "[%.60s]:%.8s" : "%.60s:%.8s", host, port);
    return QP_OK;
}

static int bound(int fd, const struct sockaddr *address, socklen_t size, const char *where,
                 struct qp_err *err)
{
    if (fd < 0) {
        return err_set(err, QP_E_LIMIT, "listen on %s: the system refuses another socket", where);
    }
    if (bind(fd, address, size) != 0 || listen(fd, BACKLOG) != 0) {
        int rc = err_set(err, errno == EADDRINUSE ? QP_E_LOCKED : QP_E_INVALID, "listen on %s: %s",
                         where, strerror(errno));
        (void)close(fd);
        return rc;
    }
    return QP_OK;
}

/* A socket that a dead process has left is in the way; one that somebody listens on is not ours
 * to take. */
static void remove_dead(const struct sockaddr_un *address)
{
    struct stat info;
    int fd;
    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        return;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(address->sun_path); /* bind says so if it is still there */
    }
    (void)close(fd);
}

/* Only its owner may connect: the mode is set before anybody can. */
static int open_unix(const char *path, struct listener *l, struct qp_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    mode_t before;
    int rc;
    if (strlen(path) >= sizeof address.sun_path) {
        return err_set(err, QP_E_INVALID, "listen: the path of a socket is shorter than %zu bytes",
                       sizeof address.sun_path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    remove_dead(&address);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    before = umask(0177);
    rc = bound(l->fd, (struct sockaddr *)&address, sizeof address, path, err);
    (void)umask(before);
    return rc;
}

/* Digits, and no more than a port may be: getaddrinfo takes what is left of it. */
static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n <= 5 && text[n] == '\0' && strtol(text, NULL, 10) <= 65535;
}

/* "host:port", split at the last colon; brackets around an IPv6 address. */
static int open_tcp(const char *where, struct listener *l, struct qp_err *err)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(where, ':');
    char host[80];
    int on = 1;
    int rc;
    if (colon == NULL || colon == where || (size_t)(colon - where) >= sizeof host ||
        !is_port(colon + 1)) {
        return err_set(err, QP_E_INVALID,
                       "listen on '%.80s': it is ADDRESS:PORT, with a port up to 65535, or "
                       "unix:PATH",
                       where);
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    if (host[0] == '[' && colon[-1] == ']') {
        (void)snprintf(host, sizeof host, "%.*s", (int)(colon - where) - 2, where + 1);
    }
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, colon + 1, &hints,
                    &found) != 0) {
        return err_set(err, QP_E_INVALID,
                       "listen on '%.80s': the address is a number, like 127.0.0.1:7700", where);
    }
    l->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* bind tells */
    rc = bound(l->fd, found->ai_addr, found->ai_addrlen, where, err);
    freeaddrinfo(found);
    return rc;
}

int listener_open(const char *where, struct listener *out_listener, struct qp_err *err)
{
    struct listener l = {.fd = -1};
    int rc =
        strncmp(where, "unix:", 5) == 0 ? open_unix(where + 5, &l, err) : open_tcp(where, &l, err);
    rc = rc == QP_OK ? describe(&l, err) : rc;
    if (rc == QP_OK) {
        *out_listener = l;
    }
    return rc;
}

int listener_adopt(int fd, struct listener *out_listener, struct qp_err *err)
{
    struct listener l = {.fd = fd, .is_adopted = true};
    int rc = describe(&l, err);
    int listens = 0;
    socklen_t size = sizeof listens;
    if (rc == QP_OK &&
        (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)) {
        rc = err_set(err, QP_E_INVALID, "listen: nobody listens on the socket %.100s", l.name);
    }
    if (rc == QP_OK) {
        *out_listener = l;
    }
    return rc;
}

void listener_close(struct listener *l)
{
    if (l->fd < 0) {
        return;
    }
    (void)close(l->fd);
    if (l->is_unix && !l->is_adopted) {
        (void)unlink(l->name + 5); /* it may be gone already */
    }
    l->fd = -1;
}
