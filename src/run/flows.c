/* flows.c - flows of this process: a worker of decisions per name, whose function runs over the job's history
 *
 *   qp_flow_add --> the name is announced, one commit (flow/face.h) --> the worker is added
 *
 *   task of the topic @name --pool--> log_read on a reader's connection --> script_run --> the task's result
 *
 * A decision is a task like any other: it is given to the pool, or runs on the driver where there are no threads, and its result
 * is committed by the engine. No lock and no connection is held while the flow's function runs.
 *
 *   script says          the result of the task
 *   WAITS, RETURNED,     done, with the decision as output
 *   FAILED
 *   ERROR                an error: tried again as the policy of decisions says, then parked; `fatal`: at once
 *   STOPPED              parked for the reason (RESULT_PARK)
 *
 * A history that is beyond its limits cannot be read: then the job is parked, too (history_too_large). A decision that makes it
 * LIMIT_FLOW_EVENTS_WARN long is logged as a warning.
 *
 * If we crash before the result is committed, nothing has happened, and the task is delivered again. If we crash between
 * the announcement and the first start, the name is a flow's all the same: its jobs wait for a process that adds it.
 */
#include "base/log.h"
#include "flow/face.h"
#include "flow/flow.h"
#include "flow/script.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"
#include "run/workers.h"
#include "store/error.h"

#define ARENA_SIZE (2 * LIMIT_FLOW_SIZE) /* a history, and what the function is given of it */

/* ---------------------------------------------------------------------------------------- deciding */

struct deciding {
    struct job_ref job;
    struct arena arena;
    struct flow_log log;
    qp_ms now;
};

static int read_log(void *context, struct store *s, struct qp_err *err)
{
    struct deciding *d = context;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    rc = log_read(s, &d->arena, d->job, &d->log, err);
    d->now = store_now(s);
    (void)store_snapshot_end(s, NULL); /* what was read is in the arena */
    return rc;
}

static int fail(qp_task *t, qp_str text, bool fatal)
{
    buf_reset(&t->error);
    buf_str(&t->error, error_cut(text));
    t->code = 500;
    t->fatal = fatal;
    t->reported = true;
    return QP_E_ABORTED;
}

/* The decision may be larger than a payload: its parts are checked one by one when it is applied. */
static int report(qp_task *t, const struct script_result *r)
{
    if (r->kind == SCRIPT_ERROR) {
        return fail(t, r->text, r->fatal);
    }
    if (r->kind == SCRIPT_STOPPED) {
        t->parked = r->reason;
        return fail(t, r->text, true);
    }
    buf_done(&t->output);
    buf_init(&t->output, &t->q->env, LIMIT_FLOW_DECISION_SIZE);
    buf_str(&t->output, r->decision);
    return buf_rc(&t->output);
}

/* Said once, by the decision that makes it so long: each one reads all of it. */
static void warn(const struct deciding *d, const qp_task *t, const struct script_result *r)
{
    size_t before = d->log.history.count;
    size_t after = before + r->made;
    if (r->kind <= SCRIPT_FAILED && before < LIMIT_FLOW_EVENTS_WARN &&
        after >= LIMIT_FLOW_EVENTS_WARN) {
        log_write(&t->q->env, QP_LOG_WARN, LOG_MSG("the history of a flow is long"),
                  LOG_STR("job", d->log.job), LOG_I64("events", (int64_t)after),
                  LOG_I64("most", LIMIT_FLOW_EVENTS));
    }
}

static int decide(struct deciding *d, qp_task *t)
{
    struct script_result result;
    struct qp_err err = {0};
    int rc = reads_do(t->q, d, read_log, &err);
    if (rc == QP_E_LIMIT) {
        t->parked = FLOW_TOO_LARGE;
        return fail(t, str_from(err.text), true);
    }
    if (rc != QP_OK) {
        return fail(t, str_from(err.text), false);
    }
    QP_TRY(script_run(&(struct script_input){.env = &t->q->env,
                                             .arena = &d->arena,
                                             .log = &d->log,
                                             .now = d->now,
                                             .function = t->worker->flow,
                                             .context = t->worker->context},
                      &result));
    warn(d, t, &result);
    return report(t, &result);
}

static int work(void *context, qp_task *t)
{
    struct deciding d = {.job = {t->task->ref.ns, t->task->ref.job}};
    int rc;
    (void)context; /* it is the function's own */
    arena_init(&d.arena, &t->q->env, ARENA_SIZE);
    rc = decide(&d, t);
    arena_done(&d.arena);
    return rc;
}

/* ----------------------------------------------------------------------------------------- adding */

struct announcing {
    struct call call;
    struct request_announce request;
};

static void announce_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_announce *r = (struct request_announce *)c;
    struct announcing *a = (struct announcing *)((char *)r - offsetof(struct announcing, request));
    qp *q = a->call.q;
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(a->call.err, rc, "%s", refusal_text(&r->refusal, rc, why));
    } else if (r->changed) {
        faces_changed(q->faces, q->store);
    }
    call_done(&q->driver, &a->call, rc);
}

static void announce_execute(qp *q, struct call *c)
{
    struct announcing *a = (struct announcing *)c;
    request_announce(&a->request);
    a->request.command.answer = announce_answered;
    engine_submit(q->engine, &a->request.command);
}

static int announce(qp *q, qp_str name, struct qp_err *err)
{
    struct announcing a = {.call = {.execute = announce_execute, .q = q},
                           .request = {.ns = q->ns, .name = name}};
    return call_do(&q->driver, &a.call, err);
}

static int check(const struct qp_flow_kind *kind, struct qp_err *err)
{
    QP_TRY(topic_check(kind->name, err));
    if (kind->function == NULL) {
        return err_set(err, QP_E_INVALID, "function: missing; pass the function of the flow");
    }
    if (kind->in_hand < 0 || kind->in_hand > LIMIT_TASKS_IN_HAND_HARD) {
        return err_set(err, QP_E_INVALID, "in_hand must be between 0 and %d, got %lld",
                       LIMIT_TASKS_IN_HAND_HARD, (long long)kind->in_hand);
    }
    return QP_OK;
}

static int add(qp *q, const struct qp_flow_kind *kind, struct qp_err *err)
{
    char topic[LIMIT_NAME_SIZE + 1] = {FLOW_TOPIC_MARK};
    struct qp_worker worker = {.topic = {topic, kind->name.n + 1},
                               .work = work,
                               .context = kind->context,
                               .in_hand = kind->in_hand};
    memcpy(topic + 1, kind->name.p, kind->name.n);
    QP_TRY(announce(q, kind->name, err));
    return workers_add(q, &worker, kind->function, err);
}

int qp_flow_add(qp *q, const struct qp_flow_kind *kind, struct qp_err *err)
{
    ENTER(q, kind != NULL, err);
    int rc = check(kind, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "flow");
    }
    rc = add(q, kind, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "flow '%.*s'", STR_ARG(kind->name));
}
