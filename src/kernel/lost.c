/* lost.c - leases and time limits of tasks that ran out
 *
 * A worker that takes a task and neither answers nor sends a beat has lost its lease. That is a failed attempt, with code
 * 504, under the activity's retry policy. A time limit of a task (store/time_limits.h) that is over is one with code 408:
 * no worker started it in time, the attempt took too long, or the worker sent no beat in time. The engine reports either
 * as if the worker had reported it, by the same command (request.h):
 *
 *                wake: it ran out on its worker           result: error 504 or 408
 *   HELD         --------------------------> HELD, leased -----------------------> DELAYED, or answered
 *   READY        --------------------------> HELD, leased, DEADLINE_UNSTARTED ---> likewise
 *                 wake: its start limit is over
 *   HELD         --------------------------> READY, a try more
 *                 wake: no worker could have answered in time
 *
 *   I1  a lease or a beat limit is its worker's affair only if this run could take a beat for the whole of its last
 *       period: not when it ran out before the run began or shortly after, while the store could not be written, after
 *       another node had died, or so long ago that this process must have been stopped. The limits of start and run need
 *       no beat: when they are over, they are over
 *   I2  between the two commits the message is held by the same token, under a lease of LIMIT_LOST_MS
 *   I3  every lost lease and every limit that is over has its line in the log
 *   I4  a beat that is accepted between the two moves the end of that lease: the report is stale then. None is accepted
 *       after the end of the attempt
 *   I5  silence is tried again as a lost lease is (retry_of_lost), whichever of lease and beat limit found it; start and
 *       run as errors of code 408 are
 *
 * If we crash between the two commits, the short lease runs out in the next run. That one excuses a lease or a
 * beat (I1), and reports a limit of start or run, which its row still tells. If the second commit fails, the short lease
 * runs out here, and the loss is reported again. An answer that is committed between the two, by another node, counts:
 * the token is still its worker's, and the report is stale then.
 *
 * Where several nodes share a store, the one that wakes a lease knows only those deaths that it has found itself.
 */
#include <stdio.h>

#include "kernel/engine_internal.h"
#include "kernel/request.h"
#include "store/error.h"

struct loss {
    struct request_result result; /* the command is its first member */
    struct loss *next;
    unsigned char guid[LIMIT_GUID_SIZE];
    char worker[LIMIT_ID_SIZE];
    char text[128]; /* of the error */
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
    struct loss *loss = (struct loss *)c;
    (void)why;
    if (rc == QP_OK && e->options.lost != NULL) {
        e->options.lost(e->options.context, &loss->result.of.ref);
    }
    loss_free(e, loss);
}

/* What an error says of a limit that is over, and its value. */
static int limit_text(char *out_text, size_t size, const struct msg_row *m, enum time_limit limit)
{
    struct time_limits limits = {{0}};
    int rc = time_limits_parse(m->limits, &limits);
    long long ms = (long long)limits.ms[limit];
    QP_ASSERT(rc == QP_OK);
    switch (limit) {
    case TIME_LIMIT_START:
        return snprintf(out_text, size, "start timeout: no worker took the task within %lld ms",
                        ms);
    case TIME_LIMIT_RUN:
        return snprintf(out_text, size,
                        "timeout: the attempt did not end within %lld ms of its start", ms);
    case TIME_LIMIT_BEAT:
        return snprintf(out_text, size,
                        "heartbeat timeout: the worker sent no heartbeat for %lld ms", ms);
    default:
        return snprintf(out_text, size,
                        "the lease ran out: the worker neither answered nor sent a beat");
    }
}

static struct request_result report_of(const struct msg_row *m, enum time_limit limit)
{
    return (struct request_result){.of.ref = {m->ns, m->job, QP_NONE, m->token},
                                   .kind = RESULT_ERROR,
                                   .code = limit == TIME_LIMIT_NONE ? ERROR_CODE_LOST
                                                                    : ERROR_CODE_TIMEOUT,
                                   .lost = true,
                                   .lost_until = m->wake_at,
                                   .silent = limit == TIME_LIMIT_NONE || limit == TIME_LIMIT_BEAT};
}

/* Without memory the short lease runs out, and it is reported then. */
static void report(struct engine *e, const struct msg_row *m, enum time_limit limit)
{
    struct loss *loss = mem_alloc(&e->env, sizeof *loss);
    int n;
    if (loss == NULL) {
        return;
    }
    QP_ASSERT(m->guid.n == LIMIT_GUID_SIZE);
    QP_ASSERT(m->worker.n <= sizeof loss->worker);
    memcpy(loss->guid, m->guid.p, sizeof loss->guid);
    if (m->worker.n > 0) {
        memcpy(loss->worker, m->worker.p, m->worker.n);
    }
    n = limit_text(loss->text, sizeof loss->text, m, limit);
    QP_ASSERT(n > 0 && (size_t)n < sizeof loss->text);
    loss->result = report_of(m, limit);
    loss->result.of.ref.guid = (qp_str){(const char *)loss->guid, sizeof loss->guid};
    loss->result.worker = (qp_str){m->worker.n > 0 ? loss->worker : NULL, m->worker.n};
    loss->result.error = (qp_str){loss->text, (size_t)n};
    request_result(&loss->result);
    loss->result.command.answer = reported;
    loss->next = e->losses;
    e->losses = loss;
    engine_submit(e, &loss->result.command);
}

static const char *counts_as(enum time_limit limit, bool blamed)
{
    return !blamed                    ? "as nobody's fault"
           : limit == TIME_LIMIT_NONE ? "as an error 504"
                                      : "as an error 408";
}

void lost_note(struct engine *e, const struct op_wake *wake)
{
    for (int64_t i = 0; i < wake->out_leases; i++) {
        const struct msg_row *m = wake->out_lost[i].message;
        enum time_limit limit = wake->out_lost[i].limit;
        bool blamed = m->state == MSG_HELD;
        e->stats.leases += limit == TIME_LIMIT_NONE;
        e->stats.timeouts[limit] += limit != TIME_LIMIT_NONE;
        log_write(&e->env, QP_LOG_WARN,
                  LOG_TEXT("msg", limit == TIME_LIMIT_NONE ? "a lease ran out"
                                                           : "a time limit of a task is over"),
                  LOG_I64("job", m->job), LOG_STR("addr", m->addr), LOG_STR("topic", m->topic),
                  LOG_I64("try", m->tries), LOG_TEXT("counts", counts_as(limit, blamed)));
        if (blamed) {
            report(e, m, limit);
        }
    }
}
