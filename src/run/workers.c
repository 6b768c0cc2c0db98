/* workers.c - who serves a topic: functions that are given tasks, and callers that claim them by hand */
#include "run/handle.h"
#include "run/presence.h"

/* The names that begin so are the engine's: nobody else starts, claims or serves them. */
static struct worker *worker_find(const qp *q, qp_str topic)
{
    struct worker *w = q->workers;
    while (w != NULL && !str_equal(w->service.topic, topic)) {
        w = w->next;
    }
    return w;
}

static struct worker *worker_make(qp *q, const struct qp_worker *worker)
{
    struct worker *w = mem_alloc(&q->env, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    memcpy(w->topic, worker->topic.p, worker->topic.n);
    w->q = q;
    w->work = worker->work;
    w->context = worker->context;
    w->service =
        (struct service){.ns = q->ns,
                         .topic = {w->topic, worker->topic.n},
                         .lease_ms = worker->lease_ms,
                         .room = worker->in_hand > 0 ? worker->in_hand : LIMIT_TASKS_IN_HAND,
                         .context = w,
                         .give = pool_give,
                         .extra_size = sizeof(struct qp_task)};
    w->next = q->workers;
    q->workers = w;
    return w;
}

static int worker_check(const struct qp_worker *worker, struct qp_err *err)
{
    int rc = topic_check(worker->topic, err);
    if (rc == QP_OK && worker->work == NULL) {
        rc = err_set(err, QP_E_INVALID, "no function");
    }
    if (rc == QP_OK && (worker->lease_ms < 0 || worker->lease_ms > LIMIT_LEASE_MS)) {
        rc = err_set(err, QP_E_INVALID, "lease_ms: %lld, it is 0 to %lld (24 h)",
                     (long long)worker->lease_ms, (long long)LIMIT_LEASE_MS);
    }
    if (rc == QP_OK && (worker->in_hand < 0 || worker->in_hand > LIMIT_TASKS_IN_HAND_HARD)) {
        rc = err_set(err, QP_E_INVALID, "in_hand: %lld, it is 0 to %d", (long long)worker->in_hand,
                     LIMIT_TASKS_IN_HAND_HARD);
    }
    return rc;
}

struct adding {
    struct call call;
    const struct qp_worker *worker;
};

static void adding_run(qp *q, struct call *c)
{
    const struct qp_worker *worker = ((struct adding *)c)->worker;
    struct worker *w = worker_find(q, worker->topic);
    int rc = QP_OK;
    if (w != NULL) {
        rc = err_set(c->err, QP_E_EXISTS, "worker: the topic '%.*s' has one",
                     STR_ARG(worker->topic));
    } else {
        w = worker_make(q, worker);
        rc = w == NULL ? err_set(c->err, QP_E_NOMEM, "worker: out of memory") : QP_OK;
    }
    if (rc == QP_OK) {
        engine_serve(q->engine, &w->service);
        presence_touch(q);
    }
    call_done(q, c, rc);
}

int qp_worker_add(qp *q, const struct qp_worker *worker, struct qp_err *err)
{
    ENTER(q, worker != NULL, err);
    struct adding a = {.call = {.run = adding_run, .q = q, .local = true}, .worker = worker};
    int rc = worker_check(worker, err);
    return rc == QP_OK ? call_do(q, &a.call, err) : err_wrap(err, rc, "worker");
}

/* -------------------------------------------------------------------------------- claims by hand */

struct claiming {
    struct call call;
    struct request_claim request;
    struct service service; /* of this claim alone: several may share a round */
    qp_task *task;
};

/* The task goes to whoever asked for it, and outlives the asking. */
static void give_by_hand(void *context, struct task *task)
{
    struct claiming *c = context;
    task->service = &c->call.q->by_hand;
    c->task = task_make(c->call.q, NULL, task);
}

static void claim_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_claim *r = (struct request_claim *)c;
    struct claiming *claiming = (struct claiming *)((char *)r - offsetof(struct claiming, request));
    (void)e;
    if (rc == QP_OK && claiming->task == NULL) {
        rc = err_set(claiming->call.err, QP_E_NOT_FOUND, "no task of topic '%.*s' is ready",
                     STR_ARG(claiming->service.topic));
    } else if (rc != QP_OK) {
        (void)err_set(claiming->call.err, rc, "claim: %s", why);
    }
    call_done(claiming->call.q, &claiming->call, rc);
}

static void claim_run(qp *q, struct call *c)
{
    struct claiming *claiming = (struct claiming *)c;
    request_claim(&claiming->request);
    claiming->request.command.answer = claim_answered;
    engine_submit(q->engine, &claiming->request.command);
}

int qp_task_claim(qp *q, qp_str topic, qp_task **out_task, struct qp_err *err)
{
    ENTER(q, out_task != NULL, err);
    struct claiming c = {.call = {.run = claim_run, .q = q},
                         .request = {.service = &c.service, .want = 1},
                         .service = {.ns = q->ns,
                                     .topic = topic,
                                     .context = &c,
                                     .give = give_by_hand,
                                     .extra_size = sizeof(struct qp_task)}};
    int rc = topic_check(topic, err);
    rc = rc == QP_OK ? call_do(q, &c.call, err) : err_wrap(err, rc, "claim");
    if (rc == QP_OK) {
        *out_task = c.task;
    }
    return rc;
}
