/* parts.c - what the parts of a handle do in a turn of its driver (see parts.h)
 *
 *   the driver        prepare --> calls --> submit --> engine_round --> settle --> hand_out
 *   the parts         faces,                results,                    ready,     tasks to threads,
 *                     leases                followers,                  remote,    workers that leave,
 *                                           proof                       stats      functions
 */
#include "run/parts.h"

#include "run/handle.h"
#include "run/stats.h"
#include "run/work.h"
#include "run/workers.h"

static void prepare(qp *q)
{
    if (!engine_is_writing(q->engine)) {
        faces_turn(q->faces, q->store, q->env.wall_ms(q->env.context), q->shared);
    }
    tasks_renew(q, store_now(q->store));
}

static void submit(qp *q)
{
    tasks_submit(q);
    follow_turn(q);
    ready_prove(q);
}

static void settle(qp *q, const struct turn_report *t)
{
    ready_note(q, t->rc, t->err, t->committed);
    work_turn(q);
    if (t->committed) {
        stats_round(q, t->duration_us, &t->before, &t->after);
    }
}

static void hand_out(qp *q, bool functions)
{
    pool_flush(&q->tasks.pool);
    workers_turn(q);
    if (functions) {
        tasks_run_here(q);
    }
}

static void note(qp *q, int rc, const struct qp_err *err)
{
    ready_note(q, rc, err, false);
}

static qp_ms due(const qp *q)
{
    qp_ms at = tasks_due(q);
    at = work_due(q) < at ? work_due(q) : at;
    return follow_due(q) < at ? follow_due(q) : at;
}

static size_t backlog(qp *q)
{
    return pool_waiting(&q->tasks.pool);
}

const struct driver_parts handle_parts = {.begin = ready_begin,
                                          .prepare = prepare,
                                          .submit = submit,
                                          .settle = settle,
                                          .hand_out = hand_out,
                                          .note = note,
                                          .failed = work_end,
                                          .due = due,
                                          .has_results = tasks_has_results,
                                          .has_unsent = tasks_has_unsent,
                                          .has_tasks = tasks_has_any,
                                          .backlog = backlog};
