/* runtest.h - what tests of the public handle share: a world, engines in it, and waiting with a limit
 *
 * A test begins with rt_begin and ends with rt_end, which fails it when memory leaked. The clock is
 * virtual (RT_VIRTUAL: the test moves it, nothing sleeps) or the system's (RT_REAL: for threads).
 * Functions that are called on threads other than the test's own use QP_ASSERT, since cmocka's assertions
 * jump.
 */
#ifndef QP_TEST_RUNTEST_H
#define QP_TEST_RUNTEST_H

#include <pthread.h>
#include <quipu.h>

#include "support/testenv.h"

enum rt_clock { RT_VIRTUAL, RT_REAL };

extern struct testenv rt;
extern char rt_path[320]; /* a file of this test's own; it does not exist at first */

void rt_begin(enum rt_clock clock);
void rt_end(void);

/* The stores that a call must be the same on. A test goes through them, with the system's clock:
 *
 *     for (int kind = 0; kind < rt_kinds(); kind++) { rt_begin_on(kind); q = rt_open(rt_place); ... rt_end(); }
 */
enum rt_kind { RT_MEMORY, RT_FILE, RT_SERVER, RT_KINDS };
/* All, but without a server under the thread sanitizer of the check lane. */
int rt_kinds(void);
void rt_begin_on(int kind);
extern const char *rt_place; /* for rt_open, after rt_begin_on */

/* NULL: in memory. */
qp *rt_open(const char *file);
qp *rt_open_as(const char *file, const char *space, int64_t max_deliveries);
/* Closes it well. */
void rt_close(qp *q);
/* The file obeys every rule of the protocol, and holds so many jobs. */
void rt_check(const char *file, int64_t jobs);

/* A job of topic "work". */
void rt_start(qp *q, const char *id);
void rt_start_with(qp *q, const struct qp_start *start);
void rt_worker(qp *q, const char *topic, qp_work work, void *context);
/* Everything that is to be done now is done. */
void rt_poll(qp *q);
/* The same until a callback has set the flag or the count; fails the test after half a minute. */
void rt_poll_until(qp *q, const int *set);
/* Fails the test unless the job has this status; and, when it is not NULL, this output or error, or an
 * error of code 500 with this message. */
void rt_expect(qp *q, const char *id, const char *status, const char *text);
/* The job ends within a generous time, with this status. */
void rt_wait(qp *q, const char *id, const char *status);

/* A number that threads move and wait for. */
struct rt_count {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t value;
};
#define RT_COUNT_INIT                                                                              \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                     \
    }
void rt_add(struct rt_count *count, int64_t by);
int64_t rt_value(struct rt_count *count);
/* Until it is at least `value`; aborts after half a minute. */
void rt_await(struct rt_count *count, int64_t value);

/* Runs `body` with each number from 0 on so many threads, and waits for them. */
void rt_threads(int count, void (*body)(void *context, int index), void *context);

#endif
