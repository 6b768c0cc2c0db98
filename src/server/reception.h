/* reception.h - where connections wait until the head of their first request is there
 *
 * A thread lets connections in, and looks at what they have sent without taking it. Who has sent
 * a whole head goes on to the HTTP library; who sends too much for one, or what the library would
 * see other lines in, or takes too long, is told so and goes. So a head that has no end costs nobody but its sender: the library would look at all
 * of it again for every few bytes, on a thread that others need (ADR 18, decision 7). And the end of
 * listening is a thread that ends.
 *
 *                       a whole head                     reception_left
 *      (let in) GUEST -----------------> handed over -------------------> (gone)
 *                |  too large, too late, malformed
 *                +-----------------> LEAVING: told, and read from until it goes, or a second
 *
 *   I1  everybody who was let in counts until he is gone: there are never more than `most`, nor more
 *       than `most_of_one` of one address. Who is one too many altogether waits in the system's
 *       queue; who is one too many of his address is closed
 *   I2  when reception_stop returns nothing more is handed over, and nobody is waiting here
 *   I3  guests belong to the thread; what is counted is under the lock
 *
 * Nothing here is durable, and nobody here was told anything: after a crash a peer connects and asks again.
 */
#ifndef QP_SERVER_RECEPTION_H
#define QP_SERVER_RECEPTION_H

#include <sys/socket.h>

#include "base/base.h"
#include "base/env.h"

enum guest_fault { GUEST_LATE, GUEST_LINE_SIZE, GUEST_HEAD_SIZE, GUEST_MALFORMED };

struct reception_rules {
    const struct qp_env *env;
    int fd; /* listens; stays the caller's */
    unsigned most;
    unsigned most_of_one; /* 0: any number */
    size_t head_size;     /* of a first line and its headers; 0: nobody waits, all go on at once */
    /* The connection is its own from then on. False: it is closed already. */
    bool (*hand_over)(void *context, int fd, const struct sockaddr *address, socklen_t size);
    /* Tells the peer why he has to go, without waiting. */
    void (*tell)(void *context, int fd, enum guest_fault fault);
    void *context;
};

struct reception;

int reception_open(const struct reception_rules *rules, struct reception **out_reception,
                   struct qp_err *err) QP_MUST_USE;
/* One that was handed over is gone. From any thread, until reception_close. */
void reception_left(struct reception *r, const struct sockaddr *address);
void reception_stop(struct reception *r); /* also once more */
void reception_close(struct reception *r);

#endif
