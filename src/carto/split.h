/* split.h - steps of work items as tasks of workers, one message per step (`split` of a request)
 *
 *   carto.select.TYPE     the item -> what is selected, or a failure
 *   carto.resolve.TYPE    what is selected -> its relationships, or a failure
 *   carto.traverse.TYPE   relationships -> how many next items there are, what was excluded and cut
 *
 * Of a type that workers serve (external.h), SELECT and RESOLVE are tasks in every request, on the topics that its definition
 * names, and SELECT-SYNC is if it names one for that; TRAVERSE is the engine's.
 *
 * The engine keeps what a step has answered as data of the job until the item ends (pending_name), and checks what
 * TRAVERSE says against its own count: so a worker that is wrong makes an item fail, not the result. SELECT-SYNC, the pass over
 * the level, RESOLVE-SYNC and END-DETECT are the engine's own.
 *
 * Answers are JSON objects, which a worker makes with split_run and an item reads with split_selected and split_relations.
 * Pure; any thread.
 */
#ifndef QP_CARTO_SPLIT_H
#define QP_CARTO_SPLIT_H

#include "carto/rows.h"

enum carto_step { CARTO_STEP_SELECT, CARTO_STEP_RESOLVE, CARTO_STEP_TRAVERSE, CARTO_STEPS };
const char *carto_step_text(enum carto_step step); /* "select", ... */

int split_topic(struct arena *a, enum carto_step step, qp_str type, qp_str *out_topic) QP_MUST_USE;

/* One step of an item, which stands as `pending` says (none: nothing was answered yet). */
struct split_item {
    const struct qp_env *env;
    const struct carto_request *request;
    struct carto_item item; /* as item_read gives it */
    qp_str pending;
};
int split_run(const struct split_item *s, struct arena *a, enum carto_step step, qp_str *out_answer,
              struct qp_err *err) QP_MUST_USE;

/* What SELECT has answered, into the item; a failure sets its outcome. QP_E_CORRUPT: it is no such answer. */
int split_selected(const struct qp_env *env, struct arena *a, qp_str answer,
                   struct carto_item *item, struct carto_outcome *out_outcome) QP_MUST_USE;
/* The same answers, of what a worker of an external type has said (external.h). */
int split_write_selected(struct arena *a, const struct carto_item *item,
                         qp_str *out_answer) QP_MUST_USE;
int split_write_relations(struct arena *a, const struct carto_relations *relations,
                          qp_str *out_answer) QP_MUST_USE;
/* What RESOLVE has answered. */
int split_relations(const struct qp_env *env, struct arena *a, qp_str answer,
                    struct carto_relations *out_relations,
                    struct carto_outcome *out_outcome) QP_MUST_USE;
/* Whether TRAVERSE says what these are. */
bool split_agrees(qp_str answer, size_t children, const struct carto_counts *counts);

#endif
