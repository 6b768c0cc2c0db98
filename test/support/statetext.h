/* statetext.h - the whole state of a store as text, but for what a test says may differ
 *
 * Made for comparing stores with each other. What is left out prints as 0, so that lines stay
 * lines.
 */
#ifndef QP_TEST_STATETEXT_H
#define QP_TEST_STATETEXT_H

#include "store/store.h"

enum statetext_without {
    /* head.clean and head.rev: the clean-shutdown marker, which shared memory does not have, and
     * that it was written */
    STATETEXT_NO_MARK = 1,
    /* head.clock: writing the marker also keeps the clock */
    STATETEXT_NO_CLOCK = 2,
    /* the revision of every row: how often it was written, not what it says */
    STATETEXT_NO_REV = 4,
    /* head.pos, head.ord and head.next_id: where many write, a number that was taken by a commit
     * that failed is gone */
    STATETEXT_NO_NUMBERS = 8,
};

/* Replaces what is in `out`; the text ends with a NUL that is counted in out->n. */
void statetext_print(struct store *s, int without, struct buf *out);

/* The same, of rows as `translate` makes them: it may change a copy of each. */
typedef void (*statetext_translate)(void *context, enum table_id table, void *row);
void statetext_print_as(struct store *s, int without, void *context, statetext_translate translate,
                        struct buf *out);

bool statetext_equal(const struct buf *a, const struct buf *b);
/* Prints the first line of each that differs, to stderr. */
void statetext_show(const struct buf *a, const struct buf *b);

#endif
