/* result.h - the items of a traversal as its rows have them, and what is said of the traversal as a whole
 *
 * A source reads a job level by level, a page of rows at a time, on one connection; formats ask it (format.h). The
 * connection sees one state from begin to end, so a job that still runs has a result so far.
 *
 * Memory: a page of rows per level that is asked for. One thread.
 */
#ifndef QP_CARTO_RESULT_H
#define QP_CARTO_RESULT_H

#include "carto/format.h"
#include "carto/rows.h"
#include "store/store.h"

struct result_source;

int result_open(const struct qp_env *env, struct store *s, const struct job_row *job,
                struct qp_err *err, struct result_source **out_source) QP_MUST_USE;
void result_close(struct result_source *r);
struct carto_items result_items(struct result_source *r);

/* The traversal: its sums, its reason, and where it is. Texts are in the arena. */
struct result_state {
    struct carto_sums sums;
    struct carto_result_head head;
    uint64_t level;   /* that runs, or was the last */
    bool has_ended;   /* END-DETECT was DONE */
    qp_str formatted; /* what FORMAT has answered: {"hash",..}; none: nothing yet */
    qp_str hash;      /* out of it */
    int64_t waiting;  /* items that wait for a worker or a key */
};
int result_state(struct store *s, struct arena *a, const struct job_row *job,
                 struct result_state *out_state, struct qp_err *err) QP_MUST_USE;

#endif
