/* stats.c - counters of what happens (see stats.h); gauges of what is are in stats_read.c
 *
 * A number that cannot be kept for want of memory is left out: nothing here can make anything else fail.
 */
#include "run/stats.h"

#include "base/hash.h"
#include "kernel/address.h"
#include "run/handle.h"
#include "run/jobs.h"
#include "run/stats_internal.h"

static const double seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                 0.25,   0.5,   1,      2.5,   5,    10,    60,   600};
static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

struct metric *stats_series(struct stats *s, const struct metric_spec *spec, const qp_str *labels,
                            size_t count)
{
    struct metric *metric = NULL;
    return metrics_open(s->registry, spec, labels, count, NULL, &metric) == QP_OK ? metric : NULL;
}

/* A series that is used often, by one label or two. */
static struct metric *series_known(struct stats *s, const struct metric_spec *spec,
                                   const qp_str *labels, size_t count)
{
    uint64_t hash = hash_bytes(3, spec->name, strlen(spec->name));
    struct known_series *k;
    for (size_t i = 1; i < count; i += 2) {
        hash = hash_bytes(hash, labels[i].p, labels[i].n);
    }
    k = &s->known[hash % KNOWN_SERIES];
    if (k->metric == NULL || k->hash != hash) {
        k->metric = stats_series(s, spec, labels, count);
        k->hash = hash;
    }
    return k->metric;
}

int stats_create(qp *q)
{
    struct stats *s = mem_alloc(&q->env, sizeof *s);
    if (s == NULL || metrics_create(&q->env, &s->registry) != QP_OK) {
        mem_free(&q->env, s);
        return QP_E_NOMEM;
    }
    (void)pthread_mutex_init(&s->lock, NULL);
    s->commit_duration = stats_series(
        s,
        &SPEC_OF("quipu_commit_duration_seconds", "How long a round took to be committed", seconds),
        NULL, 0);
    s->commit_size = stats_series(
        s, &SPEC_OF("quipu_commit_batch_size", "Bundles that shared one commit", sizes), NULL, 0);
    s->leases = stats_series(
        s, &SPEC(COUNTER, "quipu_leases_expired_total", "Tasks whose workers were silent too long"),
        NULL, 0);
    for (enum time_limit l = TIME_LIMIT_START; l < TIME_LIMITS; l++) {
        qp_str labels[] = {QP_STR("limit"), time_limit_word(l)};
        s->timeouts[l] = stats_series(
            s, &SPEC(COUNTER, "quipu_task_timeouts_total", "Time limits of tasks that were over"),
            labels, 2);
    }
    s->payload = stats_series(
        s, &SPEC(COUNTER, "quipu_payload_bytes_total", "Inputs of jobs and results of tasks"), NULL,
        0);
    s->leader = stats_series(
        s, &SPEC(GAUGE, "quipu_leader", "1: this process does the housekeeping of the store"), NULL,
        0);
    q->stats = s;
    return QP_OK;
}

void stats_destroy(qp *q)
{
    if (q->stats != NULL) {
        metrics_destroy(q->stats->registry);
        (void)pthread_mutex_destroy(&q->stats->lock);
        mem_free(&q->env, q->stats);
        q->stats = NULL;
    }
}

struct metrics *stats_registry(qp *q)
{
    return q->stats == NULL ? NULL : q->stats->registry;
}

/* --------------------------------------------------------------------------------- what happens */

static void add(struct metric *metric, int64_t n)
{
    if (metric != NULL) {
        metric_add(metric, n);
    }
}

void stats_started(qp *q, qp_str workflow, qp_str input)
{
    qp_str labels[] = {QP_STR("workflow"), workflow};
    add(q->stats->payload, (int64_t)input.n);
    add(series_known(q->stats,
                     &SPEC(COUNTER, "quipu_jobs_started_total", "Jobs that were started here"),
                     labels, 2),
        1);
}

void stats_finished(void *context, const struct outcome *outcome, qp_ms now)
{
    qp *q = context;
    qp_str labels[] = {QP_STR("workflow"), outcome->ended_workflow, QP_STR("status"),
                       str_from(state_word(outcome->ended_state))};
    struct metric *duration;
    add(series_known(q->stats,
                     &SPEC(COUNTER, "quipu_jobs_finished_total", "Jobs that have ended here"),
                     labels, 4),
        1);
    duration = series_known(
        q->stats,
        &SPEC_OF("quipu_job_duration_seconds", "From the start of a job to its end", seconds),
        labels, 0);
    if (duration != NULL) {
        metric_observe(duration, (double)(now - outcome->ended_since) / 1000);
    }
}

void stats_handed(qp *q, const struct task *task)
{
    qp_str labels[] = {QP_STR("topic"), task->topic};
    struct metric *metric;
    if (task->tries > 1) {
        return; /* it waited for other reasons, too */
    }
    metric = series_known(q->stats,
                          &SPEC_OF("quipu_task_schedule_to_start_seconds",
                                   "How long a task was ready before a worker had it", seconds),
                          labels, 2);
    if (metric != NULL) {
        metric_observe(metric, (double)task->waited_ms / 1000);
    }
}

/* What became of an attempt, in a word. */
static const char *outcome_word(const struct request_result *r)
{
    switch (r->kind) {
    case RESULT_DONE:
        return "success";
    case RESULT_PENDING:
        return "pending";
    default:
        return r->retry_ms >= 0 ? "retried" : "failed";
    }
}

/* The name of an activity, without where it is. An item behind a gate has no name: its topic says which step it was; a worker
 * elsewhere does not tell it. */
static qp_str activity_of(const struct request_result *r)
{
    qp_str addr = r->of.addr;
    const char *comma = addr.n > 0 ? memchr(addr.p, ',', addr.n) : NULL;
    if (addr.n > 0 && addr.p[0] == GATE_MARK) {
        return r->task != NULL ? r->task->topic : QP_STR("item");
    }
    return comma == NULL ? addr : (qp_str){addr.p, (size_t)(comma - addr.p)};
}

void stats_attempted(qp *q, const struct request_result *r, qp_ms since)
{
    qp_str labels[] = {QP_STR("workflow"), r->workflow,       QP_STR("activity"),
                       activity_of(r),     QP_STR("outcome"), str_from(outcome_word(r))};
    struct metric *duration;
    add(q->stats->payload, (int64_t)r->output.n);
    add(series_known(q->stats, &SPEC(COUNTER, "quipu_activity_attempts_total", "Results of tasks"),
                     labels, 6),
        1);
    duration = series_known(q->stats,
                            &SPEC_OF("quipu_activity_duration_seconds",
                                     "From a task's hand-out to its result", seconds),
                            labels, 4);
    if (duration != NULL && since > 0 && r->kind != RESULT_PENDING) {
        metric_observe(duration, (double)(store_now(q->store) - since) / 1000);
    }
}

void stats_round(qp *q, int64_t duration_us, const struct engine_stats *before,
                 const struct engine_stats *after)
{
    struct stats *s = q->stats;
    if (s->commit_duration != NULL && s->commit_size != NULL) {
        metric_observe(s->commit_duration, (double)duration_us / 1e6);
        metric_observe(s->commit_size, (double)(after->bundles - before->bundles));
    }
    if (after->leases > before->leases) {
        add(s->leases, after->leases - before->leases);
    }
    for (enum time_limit l = TIME_LIMIT_START; l < TIME_LIMITS; l++) {
        if (after->timeouts[l] > before->timeouts[l]) {
            add(s->timeouts[l], after->timeouts[l] - before->timeouts[l]);
        }
    }
    if (s->leader != NULL) {
        metric_set(s->leader, after->tidies || !q->shared);
    }
}
