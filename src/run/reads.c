/* reads.c - the calls of quipu.h that read jobs and their parts, each with a connection of its own (readers.h)
 *
 * If we crash here, nothing has happened: nothing is written.
 */
#include <stdio.h>

#include "kernel/query.h"
#include "kernel/query_limits.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/presence.h"

/* ------------------------------------------------------------------------------------- namespaces */

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
        qp_limit_visit limit;
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

/* A job whose task waits somewhere is read twice: which workers serve the topic is known to the driver, and no thread waits
 * for that with a reader in hand. */
struct showing {
    void *context;
    qp_job_visit visit;
    struct qp_topic topic;          /* name none: not asked yet */
    char name[LIMIT_NAME_SIZE + 1]; /* with its mark */
    bool again;
};

/* A task that waits where a worker asks for tasks is not unserved. */
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
    sq->query.unretried = ((const struct qp_list *)sq->what)->unretried;
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

static int bulk_count_body(struct space_query *sq, struct qp_err *err)
{
    sq->query.unretried = sq->number == QP_VERB_RETRY;
    return query_count(&sq->query, sq->id, QP_COUNT_EXACT, sq->context, err);
}

int qp_bulk_count(qp *q, const struct qp_bulk *bulk, int64_t *out_count, struct qp_err *err)
{
    ENTER(q, bulk != NULL && out_count != NULL, err);
    struct qp_count count = {0};
    struct space_query sq = {
        .body = bulk_count_body, .id = bulk->where, .number = bulk->verb, .context = &count};
    QP_TRY(query_do(q, bulk->ns, &sq, err));
    *out_count = count.count;
    return QP_OK;
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

static int limits_body(struct space_query *sq, struct qp_err *err)
{
    return query_limits(&sq->query, sq->after, sq->limit, sq->context, sq->visit.limit,
                        sq->out_text, err);
}

int qp_limit_list(qp *q, qp_str ns, qp_str cursor, int64_t limit, void *context,
                  qp_limit_visit visit, char out_cursor[QP_LIMIT_CURSOR_SIZE], struct qp_err *err)
{
    ENTER(q, visit != NULL && out_cursor != NULL, err);
    struct space_query sq = {.body = limits_body,
                             .after = cursor,
                             .limit = limit,
                             .context = context,
                             .visit.limit = visit,
                             .out_text = out_cursor};
    return query_do(q, ns, &sq, err);
}
