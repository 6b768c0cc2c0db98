/* lost.c - leases that ran out: a worker took a task, and neither answered nor sent a beat
 *
 * A lost lease is a failed attempt, with code 504, under the activity's retry policy: as if the worker had reported it.
 * So the engine reports it, by the same command that a worker's error is (request.h):
 *
 *                wake: it ran out on its worker           result: error 504
 *   HELD, leased --------------------------> HELD, leased ------------------> DELAYED, or answered
 *                \  wake: nobody could have answered in time
 *                 +------------------------------------------> READY, a try more
 *
 *   I1  a lease is its worker's affair only if this run could take a beat for the whole of its last period: not when it
 *       ran out before the run began or shortly after, while the store could not be written, after another node had
 *       died, or so long ago that this process must have been stopped
 *   I2  between the two commits the message is held by the same token, under a lease of LIMIT_LOST_MS
 *   I3  every lost lease has its line in the log
 *   I4  a beat that is accepted between the two moves the end of that lease: the report is stale then
 *
 * If we crash between the two commits, the short lease runs out in the next run, which blames nobody (I1). If the second
 * commit fails, the short lease runs out here, and the loss is reported again. An answer that is committed between the
 * two, by another node, counts: the token is still its worker's, and the report is stale then.
 *
 * Where several nodes share a store, the one that wakes a lease knows only those deaths that it has found itself.
 */
#include "kernel/engine_internal.h"
#include "kernel/request.h"
#include "store/error.h"

struct loss {
    struct request_result result; /* the command is its first member */
    struct loss *next;
    unsigned char guid[LIMIT_GUID_SIZE];
    char worker[LIMIT_ID_SIZE];
};

void lost_blame_later(struct engine *e)
{
    e->blame_from = store_now(e->store) + LIMIT_WORK_LEASE_MS;
}

qp_ms lost_blame_from(const struct engine *e, qp_ms now)
{
    qp_ms here = now - LIMIT_LOST_MS;
    return e->blame_from > here ? e->blame_from : here;
}

static void loss_free(struct engine *e, struct loss *loss)
{
    struct loss **link = &e->losses;
    while (*link != loss) {
        link = &(*link)->next;
    }
    *link = loss->next;
    mem_free(&e->env, loss);
}

void losses_done(struct engine *e)
{
    while (e->losses != NULL) {
        loss_free(e, e->losses);
    }
}

/* Stale: the worker was faster after all, or its job is over. Of a failure the short lease takes care. */
static void reported(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)rc;
    (void)why;
    loss_free(e, (struct loss *)c);
}

/* Without memory the short lease runs out, and it is reported then. */
static void report(struct engine *e, const struct msg_row *m)
{
    struct loss *loss = mem_alloc(&e->env, sizeof *loss);
    if (loss == NULL) {
        return;
    }
    QP_ASSERT(m->guid.n == LIMIT_GUID_SIZE);
    QP_ASSERT(m->worker.n <= sizeof loss->worker);
    memcpy(loss->guid, m->guid.p, sizeof loss->guid);
    if (m->worker.n > 0) {
        memcpy(loss->worker, m->worker.p, m->worker.n);
    }
    loss->result = (struct request_result){
        .of.ref = {m->ns, m->job, {(const char *)loss->guid, sizeof loss->guid}, m->token},
        .kind = RESULT_ERROR,
        .code = ERROR_CODE_LOST,
        .lost = true,
        .lost_until = m->wake_at,
        .worker = {m->worker.n > 0 ? loss->worker : NULL, m->worker.n},
        .error = QP_STR("the lease ran out: the worker neither answered nor sent a beat")};
    request_result(&loss->result);
    loss->result.command.answer = reported;
    loss->next = e->losses;
    e->losses = loss;
    engine_submit(e, &loss->result.command);
}

void lost_note(struct engine *e, const struct op_wake *wake)
{
    for (int64_t i = 0; i < wake->out_leases; i++) {
        const struct msg_row *m = wake->out_lost[i];
        bool blamed = m->state == MSG_HELD;
        log_write(&e->env, QP_LOG_WARN, LOG_MSG("a lease ran out"), LOG_I64("job", m->job),
                  LOG_STR("addr", m->addr), LOG_STR("topic", m->topic), LOG_I64("try", m->tries),
                  LOG_TEXT("counts", blamed ? "as an error 504" : "as nobody's fault"));
        if (blamed) {
            report(e, m);
        }
    }
}
