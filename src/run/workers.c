/* workers.c - who serves a topic: functions that are given tasks, and callers that claim them by hand */
#include "run/workers.h"

#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"
#include "run/remote.h"

static struct worker *worker_find(const qp *q, qp_str topic)
{
    struct worker *w = q->tasks.workers;
    while (w != NULL && !str_equal(w->service.topic, topic)) {
        w = w->next;
    }
    return w;
}

static struct worker *worker_make(qp *q, const struct qp_worker *worker, qp_flow_function flow)
{
    struct worker *w = mem_alloc(&q->env, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    memcpy(w->topic, worker->topic.p, worker->topic.n);
    w->q = q;
    w->work = worker->work;
    w->flow = flow;
    w->context = worker->context;
    w->service =
        (struct service){.ns = q->ns,
                         .topic = {w->topic, worker->topic.n},
                         .lease_ms = worker->lease_ms,
                         .room = worker->in_hand > 0 ? worker->in_hand : LIMIT_TASKS_IN_HAND,
                         .context = w,
                         .give = tasks_give,
                         .extra_size = sizeof(struct qp_task)};
    w->next = q->tasks.workers;
    q->tasks.workers = w;
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
    qp_flow_function flow;
};

static void adding_execute(qp *q, struct call *c)
{
    const struct qp_worker *worker = ((struct adding *)c)->worker;
    struct worker *w = worker_find(q, worker->topic);
    int rc = QP_OK;
    if (w != NULL) {
        rc = err_set(c->err, QP_E_EXISTS, "worker: the topic '%.*s' has one",
                     STR_ARG(worker->topic));
    } else {
        w = worker_make(q, worker, ((struct adding *)c)->flow);
        rc = w == NULL ? err_set(c->err, QP_E_NOMEM, "worker: out of memory") : QP_OK;
    }
    if (rc == QP_OK) {
        engine_serve(q->engine, &w->service);
        remote_changed(q);
    }
    call_done(&q->driver, c, rc);
}

int workers_add(qp *q, const struct qp_worker *worker, qp_flow_function flow, struct qp_err *err)
{
    struct adding a = {
        .call = {.execute = adding_execute, .q = q, .local = true}, .worker = worker, .flow = flow};
    return call_do(&q->driver, &a.call, err);
}

int qp_worker_add(qp *q, const struct qp_worker *worker, struct qp_err *err)
{
    ENTER(q, worker != NULL, err);
    int rc = worker_check(worker, err);
    return rc == QP_OK ? workers_add(q, worker, NULL, err) : err_wrap(err, rc, "worker");
}

/* ------------------------------------------------------------------------------------- removal */

struct removing {
    struct call call;
    qp_str topic;
};

static void worker_unlink(struct worker **list, const struct worker *w)
{
    while (*list != w) {
        list = &(*list)->next;
    }
    *list = w->next;
}

static void removing_execute(qp *q, struct call *c)
{
    qp_str topic = ((struct removing *)c)->topic;
    struct worker *w = worker_find(q, topic);
    if (w == NULL) {
        call_done(&q->driver, c,
                  err_set(c->err, QP_E_NOT_FOUND, "remove: the topic '%.*s' has no worker",
                          STR_ARG(topic)));
        return;
    }
    worker_unlink(&q->tasks.workers, w);
    w->next = q->tasks.leaving;
    q->tasks.leaving = w;
    w->removal = c;
    w->service.room = INT64_MIN / 2; /* nothing more */
    (void)atomic_fetch_add(&q->tasks.leaving_count, 1);
    remote_changed(q);
}

/* Whether the engine, a function or a commit has anything of it. What is detached is its owner's. */
static bool is_at_work(qp *q, const struct worker *w)
{
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        if (w->service.promised[i] > 0) {
            return true;
        }
    }
    for (const qp_task *t = q->tasks.held; t != NULL; t = t->next_held) {
        if (t->worker == w && !atomic_load(&t->detached)) {
            return true;
        }
    }
    return pool_runs(&q->tasks.pool, w);
}

/* On its way out for as long as functions run, or commits are under way. */
static void worker_leave(qp *q, struct worker *w)
{
    for (qp_task *t = pool_take_of(&q->tasks.pool, w); t != NULL;
         t = pool_take_of(&q->tasks.pool, w)) {
        task_give_back(t, TASK_NOT_BEGUN);
    }
    if (is_at_work(q, w)) {
        return;
    }
    engine_unserve(q->engine, &w->service);
    call_done(&q->driver, w->removal, QP_OK);
    w->removal = NULL;
    w->removed = true;
    (void)atomic_fetch_sub(&q->tasks.leaving_count, 1);
    if (w->tasks == 0) {
        worker_forget(w);
    }
}

void workers_turn(qp *q)
{
    struct worker *next;
    for (struct worker *w = q->tasks.leaving; w != NULL; w = next) {
        next = w->next;
        if (!w->removed) {
            worker_leave(q, w);
        }
    }
}

/* Whether this thread runs a function of the topic. */
static bool is_inside(qp *q, qp_str topic)
{
    const struct worker *w = pool_inside(&q->tasks.pool, driver_is_this_thread(&q->driver));
    return w != NULL && str_equal(w->service.topic, topic);
}

int qp_worker_remove(qp *q, qp_str topic, struct qp_err *err)
{
    ENTER(q, true, err);
    struct removing r = {.call = {.execute = removing_execute, .q = q, .local = true},
                         .topic = topic};
    int rc = topic_check(topic, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "remove");
    }
    if (is_inside(q, topic)) {
        return err_set(err, QP_E_INVALID,
                       "remove: called inside a function of the topic '%.*s', which it would wait "
                       "for",
                       STR_ARG(topic));
    }
    return call_do(&q->driver, &r.call, err);
}

/* -------------------------------------------------------------------------------- claims by hand */

struct claiming {
    struct call call;
    struct request_claim request;
    struct service service; /* of this claim alone: several may share a round */
    qp_task *task;
};

/* The task goes to the caller that asked for it, and outlives the call. */
static void give_by_hand(void *context, struct task *task)
{
    struct claiming *c = context;
    task->service = &c->call.q->tasks.by_hand;
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
    call_done(&claiming->call.q->driver, &claiming->call, rc);
}

static void claim_execute(qp *q, struct call *c)
{
    struct claiming *claiming = (struct claiming *)c;
    request_claim(&claiming->request);
    claiming->request.command.answer = claim_answered;
    engine_submit(q->engine, &claiming->request.command);
}

int qp_task_claim(qp *q, qp_str topic, qp_task **out_task, struct qp_err *err)
{
    ENTER(q, out_task != NULL, err);
    struct claiming c = {.call = {.execute = claim_execute, .q = q},
                         .request = {.service = &c.service, .want = 1},
                         .service = {.ns = q->ns,
                                     .topic = topic,
                                     .context = &c,
                                     .give = give_by_hand,
                                     .extra_size = sizeof(struct qp_task)}};
    int rc = topic_check(topic, err);
    rc = rc == QP_OK ? call_do(&q->driver, &c.call, err) : err_wrap(err, rc, "claim");
    if (rc == QP_OK) {
        *out_task = c.task;
    }
    return rc;
}
