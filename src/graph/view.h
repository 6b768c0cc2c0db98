/* view.h - the state of a graph's job as digits (spec 000), read from its ledgers
 *
 * The collation key has one digit per activity of the graph, in the order of their ids:
 *
 *   9 pending   8 started   7 errored   6 completed   5 paused   4 released   3 skipped
 *
 * padded with 0 to fifteen; of a graph with more activities it has as many digits as there are. It is derived from the
 * rows in the same read and stands nowhere. An activity that ran in several dimensions shows the latest.
 *
 * The compositional key has behind the digit of an await, between 1 and 2, the key of the job that it called, without
 * padding, and so on down.
 */
#ifndef QP_GRAPH_VIEW_H
#define QP_GRAPH_VIEW_H

#include "graph/library.h"
#include "kernel/program.h"

enum activity_digit {
    DIGIT_SKIPPED = '3',
    DIGIT_RELEASED = '4',
    DIGIT_PAUSED = '5',
    DIGIT_COMPLETED = '6',
    DIGIT_ERRORED = '7',
    DIGIT_STARTED = '8',
    DIGIT_PENDING = '9'
};

#define COLLATION_DIGITS 15 /* at least */

/* "completed", ... */
const char *digit_word(char digit);

/* One read of a job: as many digits as the graph has activities, in the order of activity.digit, in the arena. */
int view_digits(struct arena *a, struct store *s, const struct graph *g, const struct job_row *job,
                qp_str *out_digits, struct qp_err *err) QP_MUST_USE;

/* The collation key: padded. */
int view_key(struct arena *a, qp_str digits, qp_str *out_key) QP_MUST_USE;

/* The names of the activities whose digit says skipped, as a JSON array; none: there are none. */
int view_skipped(struct arena *a, const struct graph *g, qp_str digits,
                 qp_str *out_json) QP_MUST_USE;

/* One activity of a graph: the one that an address is of. NULL: the graph has none such. */
const struct activity *view_activity(const struct graph *g, qp_str addr);
/* Its digit in one dimension: by its row, its latest GUID (NULL: it has none) and, of a gate, whether anybody who arrived
 * brought something. */
char view_digit(const struct activity *x, const struct act_row *act, const struct guid_row *latest,
                bool live);
/* Where its latest dimension is: ",0,2" of one at ",0,0" that ran three times. */
#define DAD_TEXT_SIZE (LIMIT_ADDRESS_SIZE + 24)
void view_dad(const struct act_row *act, const struct guid_row *latest,
              char out_dad[DAD_TEXT_SIZE]);
/* Both with a read of what is not on the row; the dad is in the arena. */
int view_act_read(struct arena *a, struct store *s, const struct activity *x,
                  const struct act_row *act, char *out_digit, qp_str *out_dad,
                  struct qp_err *err) QP_MUST_USE;

/* The id of the job that an await has called last; none: it has called none. */
int view_child(struct arena *a, struct store *s, const struct job_row *job,
               const struct act_row *act, qp_str *out_id, struct qp_err *err) QP_MUST_USE;

/* The compositional key; `reader` reads versions of the jobs below. At most LIMIT_COMPOSITION_JOBS of them. */
int view_composition(struct arena *a, struct store *s, struct library *l, const struct job_row *job,
                     qp_str *out_key, struct qp_err *err) QP_MUST_USE;

#endif
