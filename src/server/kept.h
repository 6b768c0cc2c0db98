/* kept.h - a call that is kept until something happens
 *
 * The first member of what a handler keeps of such a call: its time, its turns on the crew, its texts. It has two users,
 * the call (or its stream) and the timing; the one that leaves last frees it, with the arena in which it stands and all
 * that was put there.
 *
 *             kept_claim, kept_put                  it runs
 *     IDLE --------------------------> QUEUED ------------------> ON -----> IDLE
 *                                        ^                        |  again
 *                                        +------------------------+
 *
 *   I1  at most one turn is queued or going on; a poke meanwhile makes another one follow
 *   I2  nothing of it is touched after the last kept_leave
 *
 * Threads: any; fields say what guards them. The lock may be held around timing_start, not around kept_stop.
 */
#ifndef QP_SERVER_KEPT_H
#define QP_SERVER_KEPT_H

#include <pthread.h>

#include "server/api.h"

struct kept {
    struct timing timing;
    struct crew_job turn;
    struct api *api;
    struct arena arena;              /* who makes it puts texts in, before the timing starts */
    void (*done)(struct kept *kept); /* frees what is not in the arena; NULL: nothing */
    pthread_mutex_t lock;
    /* under the lock */
    bool queued; /* a turn is queued, or going on */
    bool again;  /* something has happened since it began */
    int users;
};

/* What is kept, `size` bytes that begin with a struct kept, all else zero. NULL: no memory. */
void *kept_make(struct api *api, size_t size) QP_MUST_USE;
/* With a NUL behind it; NULL: no memory. */
const char *kept_text(struct kept *k, qp_str text) QP_MUST_USE;
/* One user less. kept_drop is for one that was never shared: both are gone. */
void kept_leave(struct kept *k);
void kept_drop(struct kept *k);

/* Its time (timing_start); `late` ends with kept_leave, or starts it again. */
void kept_start(struct kept *k, qp_ms within_ms, void (*late)(struct timing *t));
/* The time is over, or stopped. */
void kept_stop(struct kept *k);
struct kept *kept_of_timing(struct timing *t);

/* Turns: `run` on a thread of the crew. Under the lock: true when one has to be put there, with kept_put, outside of it. */
bool kept_claim(struct kept *k) QP_MUST_USE;
void kept_put(struct kept *k, void (*run)(struct crew_job *turn));
struct kept *kept_of_turn(struct crew_job *turn);

#endif
