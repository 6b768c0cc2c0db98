/* query_topics.c - streams: what waits at each topic (see query.h)
 *
 * Lanes know how many messages of a topic and limit key are ready and held. A topic is the sum of its
 * lanes; the oldest of its ready messages is looked for at the head of each, in at most LANES_LOOKED.
 */
#include "kernel/message.h"
#include "kernel/query.h"

#define LANES_LOOKED 100

struct topics {
    const struct query *q;
    struct arena arena;
    size_t limit;
    size_t told;
    size_t lanes; /* of the topic at hand */
    bool more;
    struct qp_topic topic; /* name none: there is none at hand */
    qp_str lane_keys[LANES_LOOKED];
    void *context;
    qp_topic_visit visit;
    struct qp_err *err;
};

static int oldest_row(void *context, const void *row)
{
    *(qp_ms *)context = ((const struct msg_row *)row)->at;
    return QP_OK;
}

/* Since when the head of a lane waits; 0: it is empty. */
static int lane_oldest(struct topics *t, qp_str key, qp_ms *out_at)
{
    struct msg_row prefix = {.ns = t->q->ns, .topic = t->topic.name, .limit_key = key};
    struct scan scan = {.table = TABLE_msg,
                        .index = INDEX_msg_ready,
                        .prefix = &prefix,
                        .prefix_count = 3,
                        .limit = 1};
    *out_at = 0;
    return store_scan(t->q->store, &scan, out_at, oldest_row, t->err);
}

/* The topic at hand is complete. */
static int topic_tell(struct topics *t)
{
    int rc = QP_OK;
    if (str_is_none(t->topic.name)) {
        return QP_OK;
    }
    for (size_t i = 0; i < t->lanes && i < LANES_LOOKED && rc == QP_OK && t->topic.ready > 0; i++) {
        qp_ms at = 0;
        rc = lane_oldest(t, t->lane_keys[i], &at);
        if (at > 0 && (t->topic.oldest_at == 0 || at < t->topic.oldest_at)) {
            t->topic.oldest_at = at;
        }
    }
    t->told++;
    return rc == QP_OK ? t->visit(t->context, &t->topic) : rc;
}

#define TOPICS_FULL QP_E_LIMIT /* ends a scan */

/* The lanes of one topic; the row after them ends it. */
struct lane_walk {
    struct topics *t;
    bool next; /* there is another topic behind it */
};

static int each_lane(void *context, const void *row)
{
    struct lane_walk *w = context;
    struct topics *t = w->t;
    const struct lane_row *lane = row;
    if (str_is_none(t->topic.name)) {
        t->topic = (struct qp_topic){0};
        t->lanes = 0;
        if (!arena_copy(&t->arena, lane->topic, &t->topic.name)) {
            return QP_E_NOMEM;
        }
    } else if (!str_equal(t->topic.name, lane->topic)) {
        w->next = true;
        return TOPICS_FULL;
    }
    t->topic.ready += lane->ready;
    t->topic.held += lane->held;
    if (t->lanes < LANES_LOOKED &&
        !arena_copy(&t->arena, lane->limit_key, &t->lane_keys[t->lanes])) {
        return QP_E_NOMEM;
    }
    t->lanes++;
    return QP_OK;
}

/* Goes on behind all lanes of the last topic: after the greatest key there can be. */
static int topics_next(struct topics *t, struct lane_walk *w, qp_str after)
{
    char greatest[LIMIT_ID_SIZE + 1];
    struct lane_row key = {
        .ns = t->q->ns, .topic = after, .limit_key = {greatest, sizeof greatest}};
    struct scan scan = {.table = TABLE_lane,
                        .index = -1,
                        .prefix = &key,
                        .prefix_count = 1,
                        .after = str_is_none(after) ? NULL : &key,
                        .limit = SIZE_MAX};
    int rc;
    memset(greatest, 0xff, sizeof greatest);
    t->topic.name = QP_NONE;
    w->next = false;
    rc = store_scan(t->q->store, &scan, w, each_lane, t->err);
    return rc == TOPICS_FULL ? QP_OK : rc;
}

/* The engine's own streams are no topics. */
static bool is_of_engine(qp_str topic)
{
    return topic.n >= 6 && memcmp(topic.p, "quipu:", 6) == 0;
}

static int topics_run(struct topics *t, qp_str after)
{
    struct lane_walk w = {.t = t};
    bool over = false;
    int rc = QP_OK;
    while (rc == QP_OK && !over) {
        rc = topics_next(t, &w, after);
        over = rc != QP_OK || str_is_none(t->topic.name);
        after = t->topic.name;
        if (!over && t->told == t->limit) {
            t->more = !is_of_engine(after) || w.next;
            return QP_OK;
        }
        rc = over || is_of_engine(after) ? rc : topic_tell(t);
        over = over || !w.next;
    }
    return rc;
}

int query_topics(const struct query *q, qp_str after, int64_t limit, void *context,
                 qp_topic_visit visit, bool *out_more, struct qp_err *err)
{
    struct topics *t = mem_alloc(store_env(q->store), sizeof *t);
    bool more = false;
    int rc = t == NULL ? err_set(err, QP_E_NOMEM, "topics: out of memory") : QP_OK;
    rc = rc == QP_OK ? query_limit(limit, &t->limit, err) : rc;
    if (rc == QP_OK) {
        t->q = q;
        t->context = context;
        t->visit = visit;
        t->err = err;
        arena_init(&t->arena, store_env(q->store), 0);
        rc = topics_run(t, after);
        arena_done(&t->arena);
        more = t->more;
    }
    mem_free(store_env(q->store), t);
    if (rc == QP_OK) {
        *out_more = more;
    }
    return rc;
}
