/* record.h - what clients asked and were told, and whether what came of it agrees
 *
 * The record is the only source of the verdict: it knows nothing of the store. Every promise that is checked here is one
 * that a client can see from outside:
 *
 *   R1  a start that was acknowledged is a job, and there is one of its id
 *   R2  it completes, with the output that follows from its input
 *   R3  a signal that was acknowledged is delivered once: a job that waits twice at one topic and key gets its two signals,
 *       each once and in the order in which they were acknowledged, however often each of them was sent
 *   R4  a start that was sent after an activation was acknowledged runs that version or a later one, on every node
 *   R5  a worker is called at least once for a task that counts, and no more often than once and once per fault
 *   R6  an answer is one that the documentation allows: what is repeated is neither refused nor in conflict
 *
 * Threads: the fields of one order belong to its client until all threads have ended; counters are atomic.
 */
#ifndef QP_TEST_E2E_RECORD_H
#define QP_TEST_E2E_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "e2e/nodes.h"

#define PLAIN_MOST 100000
#define ORDERS_MOST 20000

/* One run of the graph: it waits for two signals. */
struct order {
    bool started; /* acknowledged */
    int version;  /* the last activation that was acknowledged before the start was sent first */
    bool sent[2]; /* signals that were acknowledged */
};

struct record {
    struct nodes *nodes;
    atomic_int plain_count; /* ids below this were used */
    atomic_bool plain_started[PLAIN_MOST];
    atomic_int plain_calls[PLAIN_MOST]; /* of workers */
    atomic_int order_count;
    struct order orders[ORDERS_MOST];
    atomic_int order_calls[ORDERS_MOST];
    atomic_int activated; /* the last version whose activation was acknowledged */
    atomic_int deploying; /* the last one that was sent */
    atomic_int resent;    /* signals that were sent again after they had been acknowledged */
    atomic_int refused;   /* answers that must not be: R6 */
    atomic_int faults;    /* kills, stops and cuts */
};

/* The output of a worker for this input. */
int record_output(int input);

struct verdict {
    int violations; /* of all rules */
    int lost;       /* of R1: acknowledged starts whose job is not there */
};

/* Prints what is violated. The nodes run; a job that is still open violates R2. */
struct verdict record_check(struct record *r);

#endif
