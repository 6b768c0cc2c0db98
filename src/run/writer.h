/* writer.h - a thread that writes commits while the engine decides the next one (store.h) */
#ifndef QP_RUN_WRITER_H
#define QP_RUN_WRITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store.h"

struct writer {
    struct store_writer calls; /* for engine_use_writer */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    pthread_cond_t done;
    void (*work)(void *argument); /* under the lock; NULL: nothing to do */
    void *argument;
    atomic_bool busy; /* from begin to the end of the work */
    bool stop;        /* under the lock */
};

int writer_start(struct writer *w, struct qp_err *err) QP_MUST_USE;
/* Waits until the work is done, at most so long. */
void writer_wait_for(struct writer *w, int64_t us);
/* Nothing may be in its hands. */
void writer_stop(struct writer *w);

#endif
