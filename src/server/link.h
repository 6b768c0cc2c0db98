/* link.h - connections, and how long their peers may take
 *
 * A LINK is a connection as long as the HTTP library has it. It has a deadline whenever its peer has
 * to do something: send a head, send a body, read an answer, come again. A deadline is a moment, not a
 * silence, so dripping bytes does not move it. A thread looks for those that are over; it only shuts
 * a connection down, and the library, which owns it, notices.
 *
 * Who has not shown a token has one request of a link: what comes first was looked at by the
 * reception, what comes later only by the library.
 */
#ifndef QP_SERVER_LINK_H
#define QP_SERVER_LINK_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/env.h"

enum link_phase { PHASE_HEAD, PHASE_BODY, PHASE_CALL, PHASE_SEND, PHASE_IDLE };

struct link {
    struct link *next, *previous; /* under the lock */
    struct links *of;
    int fd;
    enum link_phase phase; /* under the lock */
    int64_t deadline_us;   /* under the lock; 0: none */
    int requests;
    bool known;  /* it has shown a token, or needs none */
    int64_t uid; /* of who is at a Unix socket; -1: unknown */
    char from[INET6_ADDRSTRLEN];
};

struct links {
    const struct qp_env *env;
    bool is_plain; /* who is late can be told without TLS */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct link *first; /* under the lock */
    bool stop;          /* under the lock */
};

int links_start(struct links *l, const struct qp_env *env, bool is_plain,
                struct qp_err *err) QP_MUST_USE;
void links_stop(struct links *l); /* there are none any more */

/* Without memory for it the connection is shut down, and NULL; link_close(NULL) does nothing. */
struct link *link_open(struct links *of, int fd, const struct sockaddr *address);
void link_close(struct link *l);
/* What the peer has to do next, and how long it may take; 0: as long as it takes. */
void link_expect(struct link *l, enum link_phase phase, qp_ms within_ms);

/* Bytes for a peer, without waiting: one that does not read is not told. */
void link_tell(int fd, const void *bytes, size_t size);
void link_tell_late(int fd);

#endif
