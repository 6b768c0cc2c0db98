/* reads.c - the calls of quipu.h that read
 *
 * A read takes one of at most LIMIT_READERS connections, which are opened when they are needed and kept,
 * and runs on the caller's own thread. So reads wait neither for the engine nor, mostly, for each other. The
 * tables of a store in memory are the engine's own: there a read is a call like others.
 *
 * A thread that has set a limit (calls.h) does not wait for a reader beyond it; and while the driver finds the database
 * away, nothing is read: each try would take a thread for as long as it takes to find the same.
 *
 * If we crash here, nothing has happened: readers write nothing.
 */
#include <stdio.h>
#include <time.h>

#include "base/cond.h"
#include "kernel/query.h"
#include "run/handle.h"

/* ---------------------------------------------------------------------------------------- readers */

int readers_init(struct readers *r)
{
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        return QP_E_NOMEM;
    }
    cond_init_monotonic(&r->changed);
    return QP_OK;
}

void readers_close(qp *q)
{
    struct readers *r = &q->readers;
    QP_ASSERT(r->open_count == r->free_count); /* nobody reads while the handle closes */
    while (r->free_count > 0) {
        (void)store_close(r->free[--r->free_count], NULL); /* nothing was written */
        r->open_count--;
    }
}

void readers_done(qp *q)
{
    struct readers *r = &q->readers;
    readers_close(q);
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->lock);
}

/* Under the readers' lock, which is released meanwhile: until one is given back, or the time (0: any) is over, which
 * is false. */
static bool reader_await(const qp *q, struct readers *r, int64_t until_us)
{
    struct timespec until;
    int64_t left_us = until_us - q->env.monotonic_us(q->env.context);
    if (until_us == 0) {
        return pthread_cond_wait(&r->changed, &r->lock) == 0;
    }
    if (left_us <= 0) {
        return false;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += left_us % 1000000 * 1000;
    until.tv_sec += left_us / 1000000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&r->changed, &r->lock, &until); /* or less */
    return true;
}

/* One that is free, or NULL: another may be opened. */
static int reader_take(qp *q, struct store **out_store, struct qp_err *err)
{
    struct readers *r = &q->readers;
    int64_t until_us = asker_until_us(q);
    bool in_time = true;
    struct store *s = NULL;
    (void)pthread_mutex_lock(&r->lock);
    while (in_time && r->free_count == 0 && r->open_count == LIMIT_READERS) {
        in_time = reader_await(q, r, until_us);
    }
    if (in_time) {
        s = r->free_count > 0 ? r->free[--r->free_count] : NULL;
        r->open_count += s == NULL;
    }
    (void)pthread_mutex_unlock(&r->lock);
    *out_store = s;
    return in_time ? QP_OK : err_set(err, QP_E_TIMEOUT, "%s", call_late_text());
}

/* Whether the driver knows that there is no database to read from. Without one nobody would notice its return. */
static bool is_away(qp *q)
{
    bool away;
    (void)pthread_mutex_lock(&q->lock);
    away = q->running && q->away;
    (void)pthread_mutex_unlock(&q->lock);
    return away;
}

/* NULL: it is gone, and another may be opened in its place. */
static void reader_give(struct readers *r, struct store *s)
{
    (void)pthread_mutex_lock(&r->lock);
    if (s != NULL) {
        r->free[r->free_count++] = s;
    } else {
        r->open_count--;
    }
    (void)pthread_cond_signal(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
}

/* A database that cannot be connected to is worth another try later. */
static int err_again(struct qp_err *err, int rc)
{
    if (err != NULL) {
        err->code = rc;
    }
    return rc;
}

static int read_here(qp *q, void *context, reads_body body, struct qp_err *err)
{
    struct store_options options = {
        .path = q->path, .read_only = true, .must_exist = true, .accept_loss = q->accept_loss};
    struct store *s = NULL;
    struct store_info info;
    int rc;
    if (is_away(q)) {
        return err_set(err, QP_E_BUSY, "the database is away");
    }
    QP_TRY(reader_take(q, &s, err));
    rc = s == NULL ? store_open(&q->env, &options, &s, err) : QP_OK;
    if (rc != QP_OK) {
        reader_give(&q->readers, NULL);
        return rc == QP_E_IO && q->shared ? err_again(err, QP_E_BUSY) : rc;
    }
    rc = body(context, s, err);
    store_info(s, &info);
    if (info.refusing) {
        (void)store_close(s, NULL); /* nothing was written */
        s = NULL;
    }
    reader_give(&q->readers, s);
    return rc;
}

struct reading_call {
    struct call call;
    void *context;
    reads_body body;
};

static void reading_run(qp *q, struct call *c)
{
    struct reading_call *r = (struct reading_call *)c;
    call_done(q, c, r->body(r->context, q->store, c->err));
}

/* A callback of the engine may not wait. */
static bool in_callback(qp *q)
{
    bool inside;
    (void)pthread_mutex_lock(&q->lock);
    inside = am_driver(q) && q->in_engine;
    (void)pthread_mutex_unlock(&q->lock);
    return inside;
}

int reads_do(qp *q, void *context, reads_body body, struct qp_err *err)
{
    struct reading_call r = {
        .call = {.run = reading_run, .q = q}, .context = context, .body = body};
    if (in_callback(q)) {
        return err_set(err, QP_E_INVALID,
                       "called from a callback of the engine, where nothing may wait");
    }
    return q->path == NULL ? call_do(q, &r.call, err) : read_here(q, context, body, err);
}

/* ------------------------------------------------------------------------------------- namespaces */

static bool space_known(qp *q, qp_str name, int64_t *out_ns)
{
    struct known_space *space;
    (void)pthread_mutex_lock(&q->lock);
    space = q->spaces;
    while (space != NULL && !str_equal((qp_str){space->name, space->size}, name)) {
        space = space->next;
    }
    if (space != NULL) {
        *out_ns = space->ns;
    }
    (void)pthread_mutex_unlock(&q->lock);
    return space != NULL;
}

/* Without memory it is asked for again next time. Names are for good, so none is ever wrong. */
static void space_learn(qp *q, qp_str name, int64_t ns)
{
    struct known_space *space = mem_alloc(&q->env, sizeof *space);
    if (space == NULL) {
        return;
    }
    *space = (struct known_space){.ns = ns, .size = name.n};
    memcpy(space->name, name.p, name.n);
    (void)pthread_mutex_lock(&q->lock);
    space->next = q->spaces;
    q->spaces = space;
    (void)pthread_mutex_unlock(&q->lock);
}

struct space_read {
    qp_str name;
    int64_t ns;
};

static int read_space(void *context, struct store *s, struct qp_err *err)
{
    struct space_read *r = context;
    return query_space(s, r->name, &r->ns, err);
}

int space_number(qp *q, qp_str name, int64_t *out_ns, struct qp_err *err)
{
    struct space_read r = {.name = name};
    int rc;
    if (str_is_none(name) || (q->ns != 0 && str_equal(name, str_from(q->ns_name)))) {
        *out_ns = q->ns;
        return QP_OK;
    }
    if (space_known(q, name, out_ns)) {
        return QP_OK;
    }
    /* In a callback the store is ours, and what was committed can be read. */
    rc = in_callback(q) ? read_space(&r, q->store, err) : reads_do(q, &r, read_space, err);
    if (rc == QP_OK) {
        space_learn(q, name, r.ns);
        *out_ns = r.ns;
    }
    return rc;
}

struct spaces_read {
    void *context;
    qp_space_visit visit;
};

static int read_spaces(void *context, struct store *s, struct qp_err *err)
{
    struct spaces_read *r = context;
    return query_spaces(s, r->context, r->visit, err);
}

int qp_space_list(qp *q, void *context, qp_space_visit visit, struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct spaces_read r = {context, visit};
    return reads_do(q, &r, read_spaces, err);
}

/* ------------------------------------------------------------------------------------------- jobs */

/* What all reads of a namespace have in common; `what` are the arguments of one. */
struct space_query {
    qp *q;
    struct query query;
    const void *what;
    void *context;
    int (*body)(struct space_query *sq, struct qp_err *err);
    /* arguments and results, as the body uses them */
    qp_str id;
    qp_str after;
    int64_t number;
    int64_t limit;
    int64_t out_number;
    bool more;
    char *out_text;
    union {
        qp_job_visit job;
        qp_activity_visit activity;
        qp_event_visit event;
    } visit;
};

static int read_query(void *context, struct store *s, struct qp_err *err)
{
    struct space_query *sq = context;
    sq->query.store = s;
    return sq->body(sq, err);
}

static int query_do(qp *q, qp_str ns, struct space_query *sq, struct qp_err *err)
{
    int rc = space_number(q, ns, &sq->query.ns, err);
    sq->q = q;
    sq->query.ns_name = str_is_none(ns) ? str_from(q->ns_name) : ns;
    sq->query.faces = q->faces;
    return rc == QP_OK ? reads_do(q, sq, read_query, err) : rc;
}

/* A job whose task waits somewhere is read twice: who serves the topic is known to the driver, and nobody waits
 * for that with a reader in hand. */
struct showing {
    void *context;
    qp_job_visit visit;
    struct qp_topic topic; /* name none: not asked yet */
    char name[LIMIT_NAME_SIZE];
    bool again;
};

/* A task that waits where somebody asks for tasks does not need to be told of. */
static bool is_served(const qp *q, const struct qp_topic *topic)
{
    return q->engine == NULL || topic->workers > 0 ||
           topic->served_at + LIMIT_UNSERVED_MS > q->env.wall_ms(q->env.context);
}

static int show_job(void *context, const struct qp_job_info *job)
{
    const struct space_query *sq = context;
    struct showing *s = sq->context;
    struct qp_job_info told = *job;
    s->again = !str_is_none(job->unserved_topic) && str_is_none(s->topic.name);
    if (s->again) {
        QP_ASSERT(job->unserved_topic.n <= sizeof s->name);
        memcpy(s->name, job->unserved_topic.p, job->unserved_topic.n);
        s->topic.name = (qp_str){s->name, job->unserved_topic.n};
        return QP_OK;
    }
    told.unserved_since = s->topic.served_at;
    if (is_served(sq->q, &s->topic)) {
        told.unserved_topic = QP_NONE;
        told.unserved_since = 0;
    }
    return s->visit(s->context, &told);
}

static int show_body(struct space_query *sq, struct qp_err *err)
{
    return query_show(&sq->query, sq->id, sq, show_job, err);
}

int qp_job_show(qp *q, qp_str ns, qp_str id_or_prefix, void *context, qp_job_visit visit,
                struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct showing s = {.context = context, .visit = visit};
    struct space_query sq = {.body = show_body, .id = id_or_prefix, .context = &s};
    QP_TRY(query_do(q, ns, &sq, err));
    if (!s.again) {
        return QP_OK;
    }
    QP_TRY(topics_served(q, sq.query.ns, &s.topic, 1, err));
    return query_do(q, ns, &sq, err);
}

static int resolve_body(struct space_query *sq, struct qp_err *err)
{
    return query_resolve(&sq->query, sq->id, sq->out_text, err);
}

int qp_job_resolve(qp *q, qp_str ns, qp_str id_or_prefix, char out_id[QP_ID_SIZE],
                   struct qp_err *err)
{
    ENTER(q, out_id != NULL, err);
    struct space_query sq = {.body = resolve_body, .id = id_or_prefix, .out_text = out_id};
    return query_do(q, ns, &sq, err);
}

static int ended_body(struct space_query *sq, struct qp_err *err)
{
    return query_ended(&sq->query, sq->id, sq->context, err);
}

int qp_job_ended(qp *q, qp_str ns, qp_str id, bool *out_ended, struct qp_err *err)
{
    ENTER(q, out_ended != NULL, err);
    struct space_query sq = {.body = ended_body, .id = id, .context = out_ended};
    return query_do(q, ns, &sq, err);
}

static int list_body(struct space_query *sq, struct qp_err *err)
{
    return query_list(&sq->query, sq->what, sq->context, sq->visit.job, sq->out_text, err);
}

int qp_job_list(qp *q, const struct qp_list *list, void *context, qp_job_visit visit,
                char out_cursor[QP_CURSOR_SIZE], struct qp_err *err)
{
    ENTER(q, list != NULL && visit != NULL && out_cursor != NULL, err);
    struct space_query sq = {.body = list_body,
                             .what = list,
                             .context = context,
                             .visit.job = visit,
                             .out_text = out_cursor};
    return query_do(q, list->ns, &sq, err);
}

static int count_body(struct space_query *sq, struct qp_err *err)
{
    return query_count(&sq->query, sq->id, (enum qp_count_how)sq->number, sq->context, err);
}

int qp_job_count(qp *q, qp_str ns, qp_str where, enum qp_count_how how, struct qp_count *out_count,
                 struct qp_err *err)
{
    ENTER(q, out_count != NULL, err);
    struct space_query sq = {.body = count_body, .id = where, .number = how, .context = out_count};
    return query_do(q, ns, &sq, err);
}

/* ------------------------------------------------------------------------------------------ parts */

static int activities_body(struct space_query *sq, struct qp_err *err)
{
    return query_activities(&sq->query, sq->id, sq->after, sq->limit, sq->context,
                            sq->visit.activity, &sq->more, err);
}

int qp_activity_list(qp *q, qp_str ns, qp_str id, qp_str after, int64_t limit, void *context,
                     qp_activity_visit visit, bool *out_more, struct qp_err *err)
{
    ENTER(q, visit != NULL && out_more != NULL, err);
    struct space_query sq = {.body = activities_body,
                             .id = id,
                             .after = after,
                             .limit = limit,
                             .context = context,
                             .visit.activity = visit};
    int rc = query_do(q, ns, &sq, err);
    if (rc == QP_OK) {
        *out_more = sq.more;
    }
    return rc;
}

static int journal_body(struct space_query *sq, struct qp_err *err)
{
    return query_journal(&sq->query, sq->id, sq->number, sq->limit, sq->context, sq->visit.event,
                         &sq->more, err);
}

int qp_job_journal(qp *q, qp_str ns, qp_str id, int64_t after, int64_t limit, void *context,
                   qp_event_visit visit, bool *out_more, struct qp_err *err)
{
    ENTER(q, visit != NULL && out_more != NULL, err);
    struct space_query sq = {.body = journal_body,
                             .id = id,
                             .number = after,
                             .limit = limit,
                             .context = context,
                             .visit.event = visit};
    int rc = query_do(q, ns, &sq, err);
    if (rc == QP_OK) {
        *out_more = sq.more;
    }
    return rc;
}

static int feed_body(struct space_query *sq, struct qp_err *err)
{
    return query_feed(&sq->query, sq->what, sq->context, sq->visit.event, &sq->out_number,
                      &sq->more, err);
}

int qp_feed_read(qp *q, const struct qp_feed *feed, void *context, qp_event_visit visit,
                 int64_t *out_after, bool *out_more, struct qp_err *err)
{
    ENTER(q, feed != NULL && visit != NULL && out_after != NULL && out_more != NULL, err);
    struct space_query sq = {
        .body = feed_body, .what = feed, .context = context, .visit.event = visit};
    int rc = query_do(q, feed->ns, &sq, err);
    if (rc == QP_OK) {
        *out_after = sq.out_number;
        *out_more = sq.more;
    }
    return rc;
}

static int read_position(void *context, struct store *s, struct qp_err *err)
{
    return query_feed_position(s, context, err);
}

int qp_feed_position(qp *q, int64_t *out_position, struct qp_err *err)
{
    ENTER(q, out_position != NULL, err);
    int64_t position = 0;
    int rc = reads_do(q, &position, read_position, err);
    if (rc == QP_OK) {
        *out_position = position;
    }
    return rc;
}

/* A page of topics: read, then asked for who serves them, then told. */
struct topic_page {
    struct arena arena;
    struct qp_topic topics[LIMIT_PAGE_ROWS];
    size_t count;
};

static int keep_topic(void *context, const struct qp_topic *topic)
{
    struct topic_page *p = context;
    struct qp_topic *kept = &p->topics[p->count++];
    QP_ASSERT(p->count <= LIMIT_PAGE_ROWS);
    *kept = *topic;
    return arena_copy(&p->arena, topic->name, &kept->name) ? QP_OK : QP_E_NOMEM;
}

static int topics_body(struct space_query *sq, struct qp_err *err)
{
    return query_topics(&sq->query, sq->after, sq->limit, sq->context, keep_topic, &sq->more, err);
}

static int topics_tell(qp *q, struct space_query *sq, qp_str ns, void *context,
                       qp_topic_visit visit, struct qp_err *err)
{
    struct topic_page *p = sq->context;
    int rc = query_do(q, ns, sq, err);
    if (rc == QP_OK && p->count > 0) {
        rc = topics_served(q, sq->query.ns, p->topics, p->count, err);
    }
    for (size_t i = 0; i < p->count && rc == QP_OK; i++) {
        rc = visit(context, &p->topics[i]);
    }
    return rc;
}

int qp_topic_list(qp *q, qp_str ns, qp_str after, int64_t limit, void *context,
                  qp_topic_visit visit, bool *out_more, struct qp_err *err)
{
    ENTER(q, visit != NULL && out_more != NULL, err);
    struct topic_page *p = mem_alloc(&q->env, sizeof *p);
    struct space_query sq = {.body = topics_body, .after = after, .limit = limit, .context = p};
    int rc;
    if (p == NULL) {
        return err_set(err, QP_E_NOMEM, "topics: out of memory");
    }
    arena_init(&p->arena, &q->env, 0);
    rc = topics_tell(q, &sq, ns, context, visit, err);
    arena_done(&p->arena);
    mem_free(&q->env, p);
    if (rc == QP_OK) {
        *out_more = sq.more;
    }
    return rc;
}
