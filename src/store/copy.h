/* copy.h - a whole store into another one, of whatever provider, with its jobs in flight
 *
 * Every row goes as it is: numbers, positions, tokens, digits and revisions are kept, so whoever
 * holds a token, waits at a hook or reads the feed goes on at the destination where it was. Runs of
 * nodes go too, and what they held: the next engine there takes it up, as after an unclean stop.
 * copy.c says what a crash leaves.
 *
 * The three handles belong to the caller, and to one thread.
 */
#ifndef QP_STORE_COPY_H
#define QP_STORE_COPY_H

#include "store/store.h"

struct copy_progress {
    int tables; /* done, of TABLE_COUNT */
    int64_t rows;
    int64_t size; /* bytes of rows, as they lie in memory */
    int64_t table_rows[TABLE_COUNT];
};

/* After each transaction. */
typedef void (*copy_report)(void *context, const struct copy_progress *progress);
/* All rows are there, nothing is promised yet: another code than QP_OK is the end of it. */
typedef int (*copy_verify)(void *context, struct store *from, struct store *to, struct qp_err *err);

struct copy_options {
    struct store *from;   /* opened for writing, with store_options.moving */
    struct store *reader; /* the same store opened for reading, where others can write to it; NULL:
                             `from` has it for itself */
    struct store *to;     /* likewise for writing and moving; empty, or half of an earlier copy */
    const char *to_name;  /* what the source will say about where it went; no secrets */
    bool keep_source;     /* it can still be used: then there are two that go on from here */
    void *context;
    copy_report report; /* NULL: nobody wants to know */
    copy_verify verify; /* NULL: nobody wants to look */
};

/* QP_OK: `to` is what `from` was, `from` is refused for writing from now on (but with keep_source).
 *
 * QP_E_LOCKED: an engine is at work on the source. QP_E_READONLY: the source was moved already.
 * QP_E_EXISTS: the destination is not empty. QP_E_CONFLICT: source or destination were written to
 * meanwhile, or the source is itself half of a copy. After any other code than QP_OK the source is what it was, or says that
 * it was moved to this destination; the same copy can be made again, and finishes it, also into a new
 * destination when the first one is lost. */
int store_copy(const struct copy_options *options, struct copy_progress *out_progress,
               struct qp_err *err) QP_MUST_USE;

/* Whether the source alone allows it, with the codes of store_copy: to be asked before a destination is
 * made. */
int copy_allowed(struct store *from, struct store *reader, const char *to_name,
                 struct qp_err *err) QP_MUST_USE;

#endif
