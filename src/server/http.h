/* http.h - HTTP/1.1: calls from the network
 *
 * The only file that knows libmicrohttpd is http.c. A thread lets connections in (reception.h);
 * event threads (epoll) take requests apart and write answers, each those of its connections.
 * They never wait: a call that is not answered at once is parked, its connection suspended, and
 * whoever answers it wakes it.
 *
 * What one peer can do to others is bounded: sizes, numbers, and time for headers, for the body
 * and between requests (limits.h).
 */
#ifndef QP_SERVER_HTTP_H
#define QP_SERVER_HTTP_H

#include "server/api.h"

/* Where to listen: "127.0.0.1:7700", "[::1]:7700", "unix:/path". */
struct listener {
    int fd;
    bool is_unix;
    bool is_loopback; /* or a Unix socket: nobody from elsewhere gets here */
    bool is_adopted;  /* its file is not ours to remove: who opened it listens on */
    char name[160];   /* as people may use it; with the port that the system chose when it was 0 */
};
int listener_open(const char *where, struct listener *out_listener, struct qp_err *err) QP_MUST_USE;
/* A socket that was opened by who started us. */
int listener_adopt(int fd, struct listener *out_listener, struct qp_err *err) QP_MUST_USE;
void listener_close(struct listener *l); /* also of one that somebody else has now: fd -1 */

struct http_options {
    struct api *api;
    struct listener
        listener; /* belongs to the server from now on, also to one that does not open */
    const char *const *hosts; /* further names that it answers to */
    size_t host_count;
    size_t body_size;     /* 0: LIMIT_BODY_SIZE */
    unsigned connections; /* 0: LIMIT_CONNECTIONS */
    int threads;          /* 0: LIMIT_HTTP_THREADS */
    bool behind_proxy;    /* the peer's address is what the proxy says */
    const char *tls_key;  /* PEM texts; NULL: no TLS */
    const char *tls_certificate;
};

struct http;

int http_open(const struct http_options *options, struct http **out_http,
              struct qp_err *err) QP_MUST_USE;
/* Another one in its place, on the same socket and with other keys: new connections are its own.
 * The old one is quiesced, and closed by its owner when it has nothing more to answer. */
int http_renew(struct http *h, const char *tls_key, const char *tls_certificate,
               struct http **out_http, struct qp_err *err) QP_MUST_USE;
/* No new connections; those that are there are told to go after their next answer. */
void http_quiesce(struct http *h);
/* Until all answers are written, at most within_ms. False: some are not even answered. */
bool http_wait(struct http *h, qp_ms within_ms);
/* After http_wait said true. */
void http_close(struct http *h);

#endif
