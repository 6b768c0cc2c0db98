/* cond.h - a condition whose waits with a time limit go by the monotonic clock
 *
 * Whoever sets the clock of the machine makes nobody wait longer, or not at all. Inline, so that base
 * needs no thread.
 */
#ifndef QP_BASE_COND_H
#define QP_BASE_COND_H

#include <pthread.h>
#include <time.h>

static inline void cond_init_monotonic(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes); /* none of these can fail on Linux */
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

#endif
