/* ready.c - whether the store can be written, without a commit for everybody who asks
 *
 * A commit of the last LIMIT_READY_MS is proof enough, and where others share the store the lease of our
 * run is renewed more often than that. Only when there was none is one made, a tiny one, for all that ask
 * meanwhile; it fails as any other would: the disk is full, the server is gone, our run is over.
 *
 * If we crash here, a number that nobody uses was reserved, or a lease was renewed.
 */
#include <time.h>

#include "run/handle.h"

struct probing {
    struct call call;
    struct request_op op;
};

static void probed(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    struct probing *p = (struct probing *)((char *)r - offsetof(struct probing, op));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(p->call.err, rc, "%s", why);
    }
    call_done(p->call.q, &p->call, rc);
}

/* Alone on its store, the run's row says nothing new. */
static void probe_run(qp *q, struct call *c)
{
    struct probing *p = (struct probing *)c;
    if (q->shared) {
        p->op.op = (struct op){
            .kind = OP_node_put,
            .node_put = {.epoch = engine_kernel(q->engine)->epoch, .lease_ms = q->lease_ms}};
    } else {
        p->op.op = (struct op){.kind = OP_ids_reserve, .ids_reserve = {.count = 1}};
    }
    request_op(&p->op);
    p->op.command.answer = probed;
    engine_submit(q->engine, &p->op.command);
}

static bool is_fresh(qp *q)
{
    int64_t at = atomic_load(&q->ready.committed_us);
    return at != 0 && q->env.monotonic_us(q->env.context) - at < LIMIT_READY_MS * 1000LL;
}

/* One asks the store; the others wait for what it hears, but not for ever. */
static bool may_probe(struct ready *r)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_READY_WAIT_MS / 1000;
    return pthread_mutex_timedlock(&r->lock, &until) == 0;
}

int handle_ready(qp *q, struct qp_err *err)
{
    struct probing p = {.call = {.run = probe_run, .q = q}};
    int rc = QP_OK;
    if (!handle_alive(q)) {
        return err_set(err, QP_E_CLOSED, "the engine has stopped");
    }
    if (is_fresh(q)) {
        return QP_OK;
    }
    if (!may_probe(&q->ready)) {
        return err_set(err, QP_E_TIMEOUT, "a commit is being waited for");
    }
    if (!is_fresh(q)) {
        rc = call_do(q, &p.call, err);
    }
    (void)pthread_mutex_unlock(&q->ready.lock);
    return rc;
}
