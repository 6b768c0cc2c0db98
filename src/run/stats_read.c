/* stats_read.c - gauges of what is, read from the store when they are asked for (see stats.h)
 *
 * Nothing here is proportional to a backlog: jobs and topics are counted by the store as they change, the oldest
 * task of a topic is the first of an index, and what has to be counted row by row (timers, parked jobs) is counted
 * up to LIMIT_STATS_ROWS, once in LIMIT_STATS_KEEP_MS however often they are asked for.
 *
 * If we crash here, nothing has happened.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "kernel/query.h"
#include "run/handle.h"
#include "run/loop.h"
#include "run/presence.h"
#include "run/remote.h"
#include "run/stats_internal.h"
#include "run/stats_read.h"

#define SPACES 64

/* What one reading has found. Texts are in the arena. */
struct collecting {
    qp *q;
    struct stats *s;
    struct arena arena;
    qp_ms now;   /* by the store's clock */
    bool counts; /* rows are counted this time */
    int64_t timers;
    qp_ms lag_ms;
    struct space_stats {
        struct collecting *of;
        qp_str name;
        int64_t ns;
        int64_t by_status[STATUS_COUNT];
        struct qp_topic *topics;
        size_t topic_count;
    } spaces[SPACES];
    size_t count;
    struct qp_topic topics[LIMIT_METRIC_SERIES]; /* of all of them; further ones are not told */
    size_t topic_count;
};

/* ------------------------------------------------------------------------------------------ gauges */

static void set(struct stats *s, const struct metric_spec *spec, const qp_str *labels, size_t count,
                int64_t value)
{
    struct metric *metric = stats_series(s, spec, labels, count);
    if (metric != NULL) {
        metric_set(metric, value);
    }
}

/* A part of what a series will be. */
static void gauge_add(struct stats *s, struct gauges *g, const struct metric_spec *spec,
                      const qp_str *labels, size_t label_count, int64_t value)
{
    struct metric *metric = stats_series(s, spec, labels, label_count);
    size_t i = 0;
    while (i < g->count && g->all[i].metric != metric) {
        i++;
    }
    if (metric == NULL || i == ARRAY_COUNT(g->all)) {
        return;
    }
    g->count += i == g->count;
    g->all[i].metric = metric;
    g->all[i].value += value;
}

/* All at once, and what was not added to is 0; then it begins again. */
static void gauge_tell(struct gauges *g)
{
    for (size_t i = 0; i < g->count; i++) {
        metric_set(g->all[i].metric, g->all[i].value);
        g->all[i].value = 0;
    }
}

/* What a reading that failed has left. */
static void gauge_drop(struct gauges *g)
{
    for (size_t i = 0; i < g->count; i++) {
        g->all[i].value = 0;
    }
}

/* ------------------------------------------------------------------------------------------- reads */

static int each_counter(void *context, const void *row)
{
    struct space_stats *c = context;
    const struct counter_row *counter = row;
    if (counter->status >= 0 && counter->status < STATUS_COUNT) {
        c->by_status[counter->status] += counter->n;
    }
    return QP_OK;
}

static int read_counters(struct store *store, struct space_stats *c, struct qp_err *err)
{
    struct counter_row prefix = {.ns = c->ns};
    struct scan scan = {.table = TABLE_counter,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = SIZE_MAX};
    int rc = store_scan(store, &scan, c, each_counter, err);
    for (int i = 0; i < STATUS_COUNT && rc == QP_OK; i++) {
        qp_str labels[] = {QP_STR("namespace"), c->name, QP_STR("status"),
                           str_from(status_word(i))};
        set(c->of->s, &SPEC(GAUGE, "quipu_jobs", "Jobs by status"), labels, 4, c->by_status[i]);
    }
    return rc;
}

static int keep_topic(void *context, const struct qp_topic *t)
{
    struct space_stats *space = context;
    struct collecting *c = space->of;
    if (c->topic_count == ARRAY_COUNT(c->topics)) {
        return QP_OK;
    }
    c->topics[c->topic_count] = *t;
    if (!arena_copy(&c->arena, t->name, &c->topics[c->topic_count].name)) {
        return QP_E_NOMEM;
    }
    c->topic_count++;
    space->topic_count++;
    return QP_OK;
}

static int keep_name(void *context, const struct qp_space *space)
{
    struct collecting *c = context;
    if (c->count < SPACES) {
        c->spaces[c->count].of = c;
        if (!arena_copy(&c->arena, space->name, &c->spaces[c->count].name)) {
            return QP_E_NOMEM;
        }
        c->count++;
    }
    return QP_OK;
}

/* The word before a sentence, "decision_failed: ..", or all of a text that begins with no word: sentences of jobs must not
 * become values of a label. */
static qp_str parked_reason(qp_str parked)
{
    const char *colon = str_is_none(parked) ? NULL : memchr(parked.p, ':', parked.n);
    qp_str word = {parked.p, colon == NULL ? parked.n : (size_t)(colon - parked.p)};
    if (str_is_none(parked)) {
        return QP_STR("");
    }
    return word.n > 0 && memchr(word.p, ' ', word.n) == NULL ? word : parked;
}

static int each_parked(void *context, const void *row)
{
    struct collecting *c = context;
    const struct job_row *job = row;
    qp_str labels[] = {QP_STR("workflow"), job->workflow, QP_STR("reason"),
                       parked_reason(job->parked)};
    gauge_add(c->s, &c->s->parked,
              &SPEC(GAUGE, "quipu_parked_jobs", "Jobs that need a person, and why"), labels, 4, 1);
    return QP_OK;
}

static int read_parked(struct store *store, struct space_stats *space, struct qp_err *err)
{
    struct job_row prefix = {.ns = space->ns, .status = STATUS_PARKED};
    struct scan scan = {.table = TABLE_job,
                        .index = INDEX_job_status,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = LIMIT_STATS_ROWS};
    return space->of->counts ? store_scan(store, &scan, space->of, each_parked, err) : QP_OK;
}

static int each_timer(void *context, const void *row)
{
    struct collecting *c = context;
    const struct msg_row *m = row;
    qp_ms late = c->now - m->wake_at;
    c->timers += m->state == MSG_DELAYED;
    c->lag_ms = late > c->lag_ms ? late : c->lag_ms;
    return QP_OK;
}

/* In order of their time: the first is the latest. */
static int read_timers(struct store *store, struct collecting *c, struct qp_err *err)
{
    struct scan scan = {
        .table = TABLE_msg, .index = INDEX_msg_wake, .limit = c->counts ? LIMIT_STATS_ROWS : 1};
    return store_scan(store, &scan, c, each_timer, err);
}

static int read_space(struct store *store, struct space_stats *space, struct qp_err *err)
{
    struct query query = {.store = store, .ns_name = space->name};
    bool more;
    int rc = query_space(store, space->name, &space->ns, err);
    query.ns = space->ns;
    space->topics = space->of->topics + space->of->topic_count;
    rc = rc == QP_OK ? read_counters(store, space, err) : rc;
    rc = rc == QP_OK ? read_parked(store, space, err) : rc;
    return rc == QP_OK
               ? query_topics(&query, QP_NONE, LIMIT_PAGE_ROWS, space, keep_topic, &more, err)
               : rc;
}

static int read_store(void *context, struct store *store, struct qp_err *err)
{
    struct collecting *c = context;
    int rc = query_spaces(store, c, keep_name, err);
    for (size_t i = 0; i < c->count && rc == QP_OK; i++) {
        rc = read_space(store, &c->spaces[i], err);
    }
    return rc == QP_OK ? read_timers(store, c, err) : rc;
}

/* -------------------------------------------------------------------------------------------- tell */

static void tell_topic(struct collecting *c, const struct space_stats *space,
                       const struct qp_topic *t)
{
    struct stats *s = c->s;
    qp_str labels[] = {QP_STR("namespace"), space->name, QP_STR("topic"), t->name};
    qp_ms waited = t->oldest_at > 0 ? c->now - t->oldest_at : 0;
    gauge_add(s, &s->ready, &SPEC(GAUGE, "quipu_topic_ready", "Tasks that wait for a worker"),
              labels, 4, t->ready);
    gauge_add(s, &s->held, &SPEC(GAUGE, "quipu_topic_held", "Tasks in the hands of workers"),
              labels, 4, t->held);
    gauge_add(s, &s->oldest,
              &SPEC(GAUGE, "quipu_topic_oldest_seconds", "How long the oldest of them has waited"),
              labels, 4, waited > 0 ? waited / 1000 : 0);
    gauge_add(s, &s->pollers,
              &SPEC(GAUGE, "quipu_topic_pollers", "Workers that serve the topic, at all nodes"),
              labels, 4, t->workers);
}

static void tell_topics(struct collecting *c)
{
    struct stats *s = c->s;
    for (size_t i = 0; i < c->count; i++) {
        struct space_stats *space = &c->spaces[i];
        /* Without memory they count as not served; so do those of which nothing is known in time. */
        (void)!topics_served(c->q, space->ns, space->topics, space->topic_count, NULL);
        for (size_t k = 0; k < space->topic_count; k++) {
            tell_topic(c, space, &space->topics[k]);
        }
    }
    gauge_tell(&s->ready);
    gauge_tell(&s->held);
    gauge_tell(&s->oldest);
    gauge_tell(&s->pollers);
}

static void tell_counted(struct collecting *c)
{
    set(c->s, &SPEC(GAUGE, "quipu_timer_lag_seconds", "How late the first that is due is"), NULL, 0,
        c->lag_ms / 1000);
    if (c->counts) {
        set(c->s, &SPEC(GAUGE, "quipu_timers_pending", "Timers and delayed tasks"), NULL, 0,
            c->timers);
        gauge_tell(&c->s->parked);
        c->s->counted = true;
        c->s->counted_us = c->q->env.monotonic_us(c->q->env.context);
    }
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

struct remote_call {
    struct call call;
    int64_t waiting;
    int64_t workers;
    int64_t in_hand;
    const char *backend;
    qp_ms now;
};

static void remote_execute(qp *q, struct call *c)
{
    struct remote_call *d = (struct remote_call *)c;
    struct store_info info;
    store_info(q->store, &info);
    d->waiting = (int64_t)q->remote->heap_count;
    d->workers = (int64_t)q->remote->workers.count;
    d->in_hand = (int64_t)q->remote->in_hand.count;
    d->backend = info.provider;
    d->now = store_now(q->store);
    call_done(&q->driver, c, QP_OK);
}

static void tell_remote(qp *q, const struct remote_call *d)
{
    qp_str labels[] = {QP_STR("version"), QP_STR(QP_VERSION), QP_STR("backend"),
                       str_from(d->backend)};
    set(q->stats, &SPEC(GAUGE, "quipu_build_info", "Which version this is"), labels, 4, 1);
    set(q->stats, &SPEC(GAUGE, "quipu_work_calls_parked", "Calls of workers that wait for tasks"),
        NULL, 0, d->waiting);
    set(q->stats,
        &SPEC(GAUGE, "quipu_workers", "Workers elsewhere that are present at this process"), NULL,
        0, d->workers);
    set(q->stats, &SPEC(GAUGE, "quipu_work_tasks_in_hand", "Tasks in the hands of such workers"),
        NULL, 0, d->in_hand);
}

/* A number of a kind of jobs. */
static void tell_number(void *context, const char *name, const char *help, int64_t value)
{
    set(context, &SPEC(GAUGE, name, help), NULL, 0, value);
}

/* Under the lock. */
static int collect(qp *q, struct collecting *c, struct qp_err *err)
{
    struct remote_call d = {.call = {.execute = remote_execute, .q = q, .local = true}};
    int64_t now = q->env.monotonic_us(q->env.context);
    int rc = call_do(&q->driver, &d.call, err);
    c->now = d.now;
    c->counts = !c->s->counted || now - c->s->counted_us >= LIMIT_STATS_KEEP_MS * 1000LL;
    rc = rc == QP_OK ? reads_do(q, c, read_store, err) : rc;
    if (rc != QP_OK) {
        gauge_drop(&c->s->parked);
        return rc;
    }
    tell_remote(q, &d);
    tell_topics(c);
    tell_counted(c);
    faces_stats(q->faces, c->s, tell_number);
    if (q->path != NULL) {
        file_size(q, "", &SPEC(GAUGE, "quipu_db_bytes", "Size of the file"));
        file_size(q, "-wal", &SPEC(GAUGE, "quipu_wal_bytes", "Size of its log"));
    }
    return QP_OK;
}

int stats_collect(qp *q, struct qp_err *err)
{
    struct collecting *c = mem_alloc(&q->env, sizeof *c);
    int rc;
    if (c == NULL) {
        return err_set(err, QP_E_NOMEM, "metrics: out of memory");
    }
    c->q = q;
    c->s = q->stats;
    arena_init(&c->arena, &q->env, 0);
    (void)pthread_mutex_lock(&c->s->lock);
    rc = collect(q, c, err);
    (void)pthread_mutex_unlock(&c->s->lock);
    arena_done(&c->arena);
    mem_free(&q->env, c);
    return rc;
}
