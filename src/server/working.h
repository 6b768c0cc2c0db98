/* working.h - a call of a worker elsewhere, kept while the engine has it (run/work.h)
 *
 *   request --> work_submit --> (parked in the engine) --> answered on its thread
 *           --> rendered on the carrier's --> told, or given back
 *
 * A call that brings nothing may be parked for long, and there may be very many: it is one small arena (kept.h), and gives
 * back body and texts. What a call brings is in the arena of its api_call, until it is answered.
 *
 * A handler fills in `work`, and a function of its own renders the answer. Threads: see struct working.
 */
#ifndef QP_SERVER_WORKING_H
#define QP_SERVER_WORKING_H

#include "run/work.h"
#include "server/kept.h"

/* A call of a worker. Its time is for the end of the server, and for a store that does not answer: else the engine keeps
 * the time of the call. */
struct working {
    struct kept kept;
    struct work_call work;
    struct api_call *call;
    void (*render)(struct api_call *c); /* the answer, on the carrier's thread; c->kept is this */
    void (*answered)(
        struct working *
            k); /* before that, once, on the engine's thread or that of working_submit, which the engine has refused; NULL: nothing */
    void (*ended)(struct working *k,
                  bool given); /* on the carrier's thread, once it was submitted; NULL: nothing */
    int rc;
    char why[LIMIT_LOG_ECHO_SIZE];
    unsigned char key[HASH_KEYED_SIZE]; /* of the caller */
    /* under the lock */
    bool over;      /* work_done comes */
    bool done;      /* the engine has answered */
    bool reprieved; /* it was late once, and the store is at work */
};

/* `size` bytes that begin with a struct working, all else zero; kept_drop gives it back. NULL: no memory. */
void *working_make(struct api_call *c, size_t size, void (*render)(struct api_call *c)) QP_MUST_USE;
/* The call is answered from now on, and k is not the caller's any more. */
void working_submit(struct api_call *c, struct working *k);

#endif
