/* opworld.h - a store prepared so that one op of every kind succeeds, and those ops
 *
 * For loops that fail the n-th of something under each op: the preparation is fixed, and so is what
 * the op does to it.
 */
#ifndef QP_TEST_OPWORLD_H
#define QP_TEST_OPWORLD_H

#include "store/store.h"
#include "support/testenv.h"

/* What the preparation was given by the store. The same for every store that was prepared. */
#define OPWORLD_HELD 6

struct opworld {
    int64_t epoch;
    int64_t waiter_seq;
    int64_t held_token;               /* of a key that nobody waits for */
    int64_t wanted_token;             /* of a key that somebody waits for */
    qp_ms deleted_at;                 /* of a version of an application */
    int64_t filling;                  /* a universe that takes facts */
    int64_t former;                   /* one that may go */
    int64_t current;                  /* of another type */
    int64_t msg_tokens[OPWORLD_HELD]; /* of the messages that are held */
};

/* Moves the clock so that something is due. */
void opworld_prepare(struct store *s, struct testenv *t, struct opworld *out_world);
/* The op of this kind; `op` is zeroed and has its kind. */
void opworld_fill(const struct opworld *w, struct op *op);
const char *opworld_name(enum op_kind kind);

#endif
