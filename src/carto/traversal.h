/* traversal.h - what the turns of a traversal share: the state of its face, its plan, its sums, gates and births
 *
 * On the engine's thread.
 */
#ifndef QP_CARTO_TRAVERSAL_H
#define QP_CARTO_TRAVERSAL_H

#include "carto/atlas.h"
#include "carto/rows.h"
#include "kernel/program.h"

/* What a traversal's functions share: program.context. */
struct traversals {
    struct qp_env env;
    struct atlas *atlas;
    int64_t item_limit; /* LIMIT_CARTO_ITEMS; a test may lower it */
};
int traversals_open(const struct qp_env *env, const struct plan_types *types,
                    struct traversals **out_state) QP_MUST_USE;
void traversals_close(struct traversals *s);

/* The plan of the turn's job. */
int turn_plan(struct turn *t, const struct carto_plan **out_plan) QP_MUST_USE;

/* The sums of the job, as they stand in this turn. */
int turn_sums(struct turn *t, struct carto_sums *out_sums) QP_MUST_USE;
/* More of them; past item_limit the job ends. */
int turn_count(struct turn *t, const struct carto_counts *counts, int64_t made) QP_MUST_USE;
/* The job ends in ERROR: step 2. */
int turn_refuse(struct turn *t, qp_str word, qp_str sentence) QP_MUST_USE;

/* At the gate of a level; `purpose` none: its own scope, whose first arrival makes the gate. */
struct gate_visit {
    uint64_t level;
    qp_str purpose;
    int64_t ways;
    int64_t delta;
};
int gate_arrive(struct turn *t, const struct gate_visit *visit) QP_MUST_USE;

/* Step 2: an item of the next level, or of a root. */
int item_born(struct turn *t, const struct carto_item *item) QP_MUST_USE;

#endif
