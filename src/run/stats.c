/* stats.c - counters of what happens, gauges of what is (see stats.h)
 *
 * A number that cannot be kept for want of memory is left out: nothing here can make anything else fail.
 */
#include "run/stats.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "kernel/query.h"
#include "run/handle.h"
#include "run/work_internal.h"

/* Series that were used last, so that the registry is seldom asked. */
#define KNOWN_SERIES 64

struct known_series {
    uint64_t hash;
    struct metric *metric;
};

struct stats {
    struct metrics *registry;
    struct metric *commit_duration;
    struct metric *commit_size;
    struct known_series known[KNOWN_SERIES];
};

static const double seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                 0.25,   0.5,   1,      2.5,   5,    10,    60,   600};
static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

#define SPEC(of_kind, of_name, of_help)                                                            \
    (const struct metric_spec)                                                                     \
    {                                                                                              \
        .name = (of_name), .help = (of_help), .kind = METRIC_##of_kind                             \
    }
#define SPEC_OF(of_name, of_help, of_bounds)                                                       \
    (const struct metric_spec)                                                                     \
    {                                                                                              \
        .name = (of_name), .help = (of_help), .kind = METRIC_HISTOGRAM, .bounds = (of_bounds),     \
        .bound_count = ARRAY_COUNT(of_bounds)                                                      \
    }

static struct metric *series(struct stats *s, const struct metric_spec *spec, const qp_str *labels,
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
        k->metric = series(s, spec, labels, count);
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
    s->commit_duration = series(
        s,
        &SPEC_OF("quipu_commit_duration_seconds", "How long a round took to be committed", seconds),
        NULL, 0);
    s->commit_size = series(
        s, &SPEC_OF("quipu_commit_batch_size", "Bundles that shared one commit", sizes), NULL, 0);
    q->stats = s;
    return QP_OK;
}

void stats_destroy(qp *q)
{
    if (q->stats != NULL) {
        metrics_destroy(q->stats->registry);
        mem_free(&q->env, q->stats);
        q->stats = NULL;
    }
}

struct metrics *stats_registry(qp *q)
{
    return q->stats == NULL ? NULL : q->stats->registry;
}

/* --------------------------------------------------------------------------------- what happens */

static void add_one(struct metric *metric)
{
    if (metric != NULL) {
        metric_add(metric, 1);
    }
}

void stats_started(qp *q, qp_str workflow)
{
    qp_str labels[] = {QP_STR("workflow"), workflow};
    add_one(series_known(q->stats,
                         &SPEC(COUNTER, "quipu_jobs_started_total", "Jobs that were started here"),
                         labels, 2));
}

void stats_finished(void *context, const struct outcome *outcome, qp_ms now)
{
    qp *q = context;
    qp_str labels[] = {QP_STR("workflow"), outcome->ended_workflow, QP_STR("status"),
                       str_from(state_word(outcome->ended_state))};
    struct metric *duration;
    add_one(series_known(q->stats,
                         &SPEC(COUNTER, "quipu_jobs_finished_total", "Jobs that have ended here"),
                         labels, 4));
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

void stats_round(qp *q, int64_t duration_us, int64_t bundles)
{
    struct stats *s = q->stats;
    if (s->commit_duration != NULL && s->commit_size != NULL) {
        metric_observe(s->commit_duration, (double)duration_us / 1e6);
        metric_observe(s->commit_size, (double)bundles);
    }
}

/* --------------------------------------------------------------------------------------- what is */

static void set(struct stats *s, const struct metric_spec *spec, const qp_str *labels, size_t count,
                int64_t value)
{
    struct metric *metric = series(s, spec, labels, count);
    if (metric != NULL) {
        metric_set(metric, value);
    }
}

/* One namespace while its numbers are read. */
struct space_stats {
    struct stats *s;
    qp_str name;
    int64_t by_status[STATUS_COUNT];
};

static int each_counter(void *context, const void *row)
{
    struct space_stats *c = context;
    const struct counter_row *counter = row;
    if (counter->status >= 0 && counter->status < STATUS_COUNT) {
        c->by_status[counter->status] += counter->n;
    }
    return QP_OK;
}

static int read_counters(struct store *store, int64_t ns, struct space_stats *c, struct qp_err *err)
{
    struct counter_row prefix = {.ns = ns};
    struct scan scan = {.table = TABLE_counter,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = SIZE_MAX};
    int rc = store_scan(store, &scan, c, each_counter, err);
    for (int i = 0; i < STATUS_COUNT && rc == QP_OK; i++) {
        qp_str labels[] = {QP_STR("namespace"), c->name, QP_STR("status"),
                           str_from(status_word(i))};
        set(c->s, &SPEC(GAUGE, "quipu_jobs", "Jobs by status"), labels, 4, c->by_status[i]);
    }
    return rc;
}

static int see_topic(void *context, const struct qp_topic *t)
{
    struct space_stats *c = context;
    qp_str labels[] = {QP_STR("namespace"), c->name, QP_STR("topic"), t->name};
    set(c->s, &SPEC(GAUGE, "quipu_topic_ready", "Tasks that wait for a worker"), labels, 4,
        t->ready);
    set(c->s, &SPEC(GAUGE, "quipu_topic_held", "Tasks in the hands of workers"), labels, 4,
        t->held);
    return QP_OK;
}

struct collecting {
    qp *q;
    char names[64][LIMIT_NAME_SIZE + 1];
    size_t count;
};

static int keep_name(void *context, const struct qp_space *space)
{
    struct collecting *c = context;
    if (c->count < ARRAY_COUNT(c->names)) {
        memcpy(c->names[c->count], space->name.p, space->name.n);
        c->names[c->count++][space->name.n] = '\0';
    }
    return QP_OK;
}

static int read_spaces(void *context, struct store *store, struct qp_err *err)
{
    struct collecting *c = context;
    int rc = query_spaces(store, c, keep_name, err);
    for (size_t i = 0; i < c->count && rc == QP_OK; i++) {
        struct space_stats of = {.s = c->q->stats, .name = str_from(c->names[i])};
        struct query query = {.store = store, .ns_name = of.name};
        bool more;
        rc = query_space(store, of.name, &query.ns, err);
        rc = rc == QP_OK ? read_counters(store, query.ns, &of, err) : rc;
        rc = rc == QP_OK
                 ? query_topics(&query, QP_NONE, LIMIT_PAGE_ROWS, &of, see_topic, &more, err)
                 : rc;
    }
    return rc;
}

static void file_size(qp *q, const char *suffix, const struct metric_spec *spec)
{
    char name[LIMIT_STORE_NAME_SIZE];
    struct stat file;
    (void)snprintf(name, sizeof name, "%s%s", q->path, suffix);
    if (!q->shared && stat(name, &file) == 0) {
        set(q->stats, spec, NULL, 0, (int64_t)file.st_size);
    }
}

struct desk_call {
    struct call call;
    int64_t waiting;
    int64_t workers;
    int64_t in_hand;
    const char *backend;
};

static void desk_run(qp *q, struct call *c)
{
    struct desk_call *d = (struct desk_call *)c;
    struct store_info info;
    store_info(q->store, &info);
    d->waiting = (int64_t)q->work->heap_count;
    d->workers = (int64_t)q->work->workers.count;
    d->in_hand = (int64_t)q->work->in_hand.count;
    d->backend = info.provider;
    call_done(q, c, QP_OK);
}

int stats_collect(qp *q, struct qp_err *err)
{
    struct desk_call d = {.call = {.run = desk_run, .q = q}};
    struct collecting *c = mem_alloc(&q->env, sizeof *c);
    int rc =
        c == NULL ? err_set(err, QP_E_NOMEM, "metrics: out of memory") : call_do(q, &d.call, err);
    if (rc == QP_OK) {
        qp_str labels[] = {QP_STR("version"), QP_STR(QP_VERSION), QP_STR("backend"),
                           str_from(d.backend)};
        c->q = q;
        set(q->stats, &SPEC(GAUGE, "quipu_build_info", "Which version this is"), labels, 4, 1);
        set(q->stats,
            &SPEC(GAUGE, "quipu_work_calls_parked", "Calls of workers that wait for tasks"), NULL,
            0, d.waiting);
        set(q->stats, &SPEC(GAUGE, "quipu_workers", "Workers elsewhere that have called lately"),
            NULL, 0, d.workers);
        set(q->stats,
            &SPEC(GAUGE, "quipu_work_tasks_in_hand", "Tasks in the hands of such workers"), NULL, 0,
            d.in_hand);
        rc = reads_do(q, c, read_spaces, err);
    }
    if (rc == QP_OK && q->path != NULL) {
        file_size(q, "", &SPEC(GAUGE, "quipu_db_bytes", "Size of the file"));
        file_size(q, "-wal", &SPEC(GAUGE, "quipu_wal_bytes", "Size of its log"));
    }
    mem_free(&q->env, c);
    return rc;
}
