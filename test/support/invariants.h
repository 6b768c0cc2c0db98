/* invariants.h - what must be true of a store after every commit, whatever the commit was
 *
 * Every rule has a short name; the message of a violation begins with it:
 *
 *   lane      ready and held = its READY and HELD messages
 *   msg       HELD has exactly one of lease and holder, DELAYED has a time, others neither; ord is
 *             unique and was given out
 *   hook      waiting and pending = its rows, not both 0; no row without its hook
 *   key       held = the units of its holds, waiting = its waiters, not both 0; no row without its
 *             key; the first waiter does not fit (else somebody forgot to wake it)
 *   counter   jobs of a workflow by status = the sum of its shards
 *   job       closed_by, state and status say the same; the job's number was given out; its id's
 *             row leads to it
 *   custom    a custom id has a row exactly while its job is open
 *   journal   sequences are 1..seq, each once, but for folded GUIDs; positions grow with them and
 *             are unique
 *   sem       scope 0 = deltas of GUIDs + folded deltas; other scopes = opening + moves; never
 *             negative
 *   ledger    within its fifteen digits
 *
 * and against the state before, for rows that live on:
 *
 *   grows     ledgers, tokens of messages, completions, the head's numbers never fall
 *   once      closed_by never changes when it is set; nothing written before stands behind a later
 *             position
 *
 * A job that is finished may be in the middle of its deletion, so its sums are not checked any
 * more.
 */
#ifndef QP_TEST_INVARIANTS_H
#define QP_TEST_INVARIANTS_H

#include "store/store.h"

struct invariants_rows {
    const void **rows;
    size_t count;
    size_t capacity;
};

struct invariants_state {
    struct arena arena;
    struct invariants_rows tables[TABLE_COUNT];
};

struct invariants {
    struct invariants_state states[2];
    int now; /* which of them is the latest */
    bool has_former;
    char text[1024]; /* the first violation */
};

void invariants_init(struct invariants *v, const struct qp_env *env);
void invariants_done(struct invariants *v);
/* Forgets the former state: what comes next is another store. */
void invariants_reset(struct invariants *v);

/* NULL when all rules hold, else the first violation as text. The state becomes the former one of
 * the next call. */
const char *invariants_check(struct invariants *v, struct store *s);

#endif
