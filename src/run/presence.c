/* presence.c - which workers there are, here and at the other nodes (see presence.h)
 *
 * The row of a run holds JSON: one object per worker. It is read by those who ask for workers and topics only, never on
 * the way of a task.
 */
#include "run/presence.h"

#include "base/json.h"
#include "run/loop.h"
#include "run/remote_topics.h"
#include "run/remote_workers.h"

/* A worker as it was told by one process or by several. */
struct present {
    struct work_worker told;
    qp_ms left_at; /* 0: it did not say so */
};

struct presence {
    struct call call;
    qp *q;
    int64_t ns;
    qp_str ns_name;
    int64_t epoch; /* of our own run: what it says is known better */
    qp_ms now;
    struct arena arena;
    struct omap workers;
    int rc;
};

/* ---------------------------------------------------------------------------------------- gathering */

/* Functions have no name: they are one per topic. */
static bool key_of(struct presence *p, const struct work_worker *w, qp_str *out_key)
{
    bool named = !str_is_none(w->name);
    qp_str first = named ? w->caller : QP_STR("\001");
    qp_str second = named ? w->name : w->topics[0];
    char *text = arena_bytes(&p->arena, first.n + 1 + second.n);
    if (text == NULL) {
        return false;
    }
    if (first.n > 0) {
        memcpy(text, first.p, first.n);
    }
    text[first.n] = '\0';
    memcpy(text + first.n + 1, second.p, second.n);
    *out_key = (qp_str){text, first.n + 1 + second.n};
    return true;
}

static bool copy_topics(struct presence *p, const struct work_worker *w, struct work_worker *out)
{
    qp_str *topics = arena_alloc(&p->arena, (w->topic_count + 1) * sizeof *topics);
    bool done = topics != NULL;
    for (size_t i = 0; i < w->topic_count && done; i++) {
        done = arena_copy(&p->arena, w->topics[i], &topics[i]);
    }
    out->topics = topics;
    out->topic_count = w->topic_count;
    return done;
}

static int note_new(struct presence *p, qp_str key, const struct work_worker *w, qp_ms left_at)
{
    struct present *x = ARENA_NEW(&p->arena, struct present);
    bool done = x != NULL;
    if (done) {
        *x = (struct present){.told = *w, .left_at = left_at};
        x->told.ns = p->ns_name;
        done = copy_topics(p, w, &x->told) && arena_copy(&p->arena, w->name, &x->told.name) &&
               arena_copy(&p->arena, w->build, &x->told.build) &&
               arena_copy(&p->arena, w->caller, &x->told.caller);
    }
    return done ? omap_put(&p->workers, key, x, NULL) : QP_E_NOMEM;
}

/* A worker whose calls go to several processes is one: it serves what it said last. */
static void note_known(struct presence *p, struct present *x, const struct work_worker *w,
                       qp_ms left_at)
{
    if (w->seen_at > x->told.seen_at && !copy_topics(p, w, &x->told)) {
        p->rc = QP_E_NOMEM;
    }
    x->told.in_hand += w->in_hand;
    x->told.waiting += w->waiting;
    x->told.since = w->since < x->told.since ? w->since : x->told.since;
    x->told.seen_at = w->seen_at > x->told.seen_at ? w->seen_at : x->told.seen_at;
    x->left_at = left_at > x->left_at ? left_at : x->left_at;
}

static void note(struct presence *p, const struct work_worker *w, qp_ms left_at)
{
    struct present *x;
    qp_str key;
    if (p->rc != QP_OK || !key_of(p, w, &key)) {
        p->rc = p->rc != QP_OK ? p->rc : QP_E_NOMEM;
        return;
    }
    x = omap_get(&p->workers, key);
    if (x != NULL) {
        note_known(p, x, w, left_at);
    } else {
        p->rc = note_new(p, key, w, left_at);
    }
}

/* ------------------------------------------------------------------------------ those of this process */

/* Calls `each` for every worker of the process that is present or has left lately. `until`: when that is over by itself;
 * 0: not while this process lives. */
static void each_here(qp *q, qp_ms now, void *context,
                      void (*each)(void *context, int64_t ns, const struct work_worker *w,
                                   qp_ms until, qp_ms left_at))
{
    for (const struct worker *worker = q->tasks.workers; worker != NULL; worker = worker->next) {
        struct work_worker told = {.ns = str_from(q->ns_name),
                                   .topics = &worker->service.topic,
                                   .topic_count = 1,
                                   .in_hand = worker->service.whole - worker->service.room};
        each(context, worker->service.ns, &told, 0, 0);
    }
    for (struct omap_node *n = omap_seek(&q->remote->workers, QP_STR("")); n != NULL;
         n = omap_next(n)) {
        const struct remote_worker *r = omap_value(n);
        qp_str topics[LIMIT_WORK_TOPICS];
        struct work_worker told = {.ns = r->ns_name,
                                   .name = r->name,
                                   .build = str_from(r->build),
                                   .caller = r->caller,
                                   .topics = topics,
                                   .topic_count = r->topic_count,
                                   .in_hand = r->task_count,
                                   .waiting = r->waiting,
                                   .since = r->since,
                                   .seen_at = r->seen_at};
        size_t at = 0;
        for (size_t i = 0; i < r->topic_count; i++) {
            topics[i] = str_from(r->topics + at);
            at += topics[i].n + 1;
        }
        if (r->left_at > 0 || remote_worker_until(r) >= now) {
            each(context, r->ns, &told, r->waiting > 0 ? 0 : remote_worker_until(r), r->left_at);
        }
    }
}

static void gather_here(void *context, int64_t ns, const struct work_worker *w, qp_ms until,
                        qp_ms left_at)
{
    struct presence *p = context;
    (void)until;
    if (ns == p->ns) {
        note(p, w, left_at);
    }
}

static void gather_execute(qp *q, struct call *c)
{
    struct presence *p = (struct presence *)c;
    p->epoch = engine_kernel(q->engine)->epoch;
    p->now = store_now(q->store);
    each_here(q, p->now, p, gather_here);
    call_done(&q->driver, c, p->rc);
}

/* --------------------------------------------------------------------------------- what a row says */

struct writing {
    struct json_writer w;
    struct buf text;
};

static void put_text(struct json_writer *w, const char *name, qp_str text)
{
    if (!str_is_none(text)) {
        json_key(w, str_from(name));
        json_put_str(w, text);
    }
}

static void put_number(struct json_writer *w, const char *name, int64_t number)
{
    if (number != 0) {
        json_key(w, str_from(name));
        json_put_i64(w, number);
    }
}

static void write_worker(void *context, int64_t ns, const struct work_worker *worker, qp_ms until,
                         qp_ms left_at)
{
    struct writing *x = context;
    struct json_writer *w = &x->w;
    if (x->text.n > LIMIT_PRESENCE_SIZE) {
        return; /* the others are known at their own node only */
    }
    json_begin_object(w);
    put_number(w, "ns", ns);
    put_text(w, "name", worker->name);
    put_text(w, "build", worker->build);
    put_text(w, "caller", worker->caller);
    json_key(w, QP_STR("topics"));
    json_begin_array(w);
    for (size_t i = 0; i < worker->topic_count; i++) {
        json_put_str(w, worker->topics[i]);
    }
    json_end_array(w);
    put_number(w, "in_hand", worker->in_hand);
    put_number(w, "waiting", worker->waiting);
    put_number(w, "since", worker->since);
    put_number(w, "seen", worker->seen_at);
    put_number(w, "until", until);
    put_number(w, "left", left_at);
    json_end_object(w);
}

int presence_write(void *context, struct arena *arena, qp_str *out_bytes)
{
    qp *q = context;
    struct writing x;
    int rc;
    buf_init(&x.text, &q->env, 0);
    json_writer_init(&x.w, &x.text);
    json_begin_array(&x.w);
    each_here(q, store_now(q->store), &x, write_worker);
    json_end_array(&x.w);
    rc = json_writer_done(&x.w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&x.text), out_bytes)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&x.text);
    return rc;
}

static qp_str read_text(const struct json *object, const char *name)
{
    qp_str text = QP_NONE;
    return json_as_str(json_get(object, str_from(name)), &text) ? text : QP_NONE;
}

static int64_t read_number(const struct json *object, const char *name)
{
    int64_t number = 0;
    return json_as_i64(json_get(object, str_from(name)), &number) ? number : 0;
}

static void read_worker(struct presence *p, const struct json *object)
{
    const struct json *list = json_get(object, QP_STR("topics"));
    qp_str topics[LIMIT_WORK_TOPICS];
    struct work_worker w = {.name = read_text(object, "name"),
                            .build = read_text(object, "build"),
                            .caller = read_text(object, "caller"),
                            .topics = topics,
                            .in_hand = read_number(object, "in_hand"),
                            .waiting = read_number(object, "waiting"),
                            .since = read_number(object, "since"),
                            .seen_at = read_number(object, "seen")};
    qp_ms until = read_number(object, "until");
    qp_ms left_at = read_number(object, "left");
    while (w.topic_count < LIMIT_WORK_TOPICS &&
           json_as_str(json_at(list, w.topic_count), &topics[w.topic_count])) {
        w.topic_count++;
    }
    if (read_number(object, "ns") == p->ns && (left_at > 0 || until == 0 || until >= p->now) &&
        (w.name.n > 0 || w.topic_count > 0)) {
        note(p, &w, left_at);
    }
}

static int read_node(void *context, const void *row)
{
    struct presence *p = context;
    const struct node_row *node = row;
    struct json *json = NULL;
    if (node->epoch == p->epoch || node->state != NODE_RUNNING || node->lease_until < p->now ||
        str_is_none(node->serving)) {
        return QP_OK;
    }
    if (json_parse(&p->q->env, node->serving, NULL, &json) != QP_OK) {
        return QP_OK; /* of another version: that node's own answer is what there is */
    }
    for (size_t i = 0; i < json_count(json); i++) {
        read_worker(p, json_at(json, i));
    }
    json_free(json);
    return p->rc;
}

static int gather_others(void *context, struct store *s, struct qp_err *err)
{
    struct scan nodes = {.table = TABLE_node, .index = -1, .limit = SIZE_MAX};
    return store_scan(s, &nodes, context, read_node, err);
}

/* Of all processes, one entry per worker. */
static int gather(struct presence *p, struct qp_err *err)
{
    p->call = (struct call){.execute = gather_execute, .q = p->q, .local = true};
    QP_TRY(call_do(&p->q->driver, &p->call, err));
    return p->q->shared ? reads_do(p->q, p, gather_others, err) : QP_OK;
}

static void presence_init(struct presence *p, qp *q, int64_t ns, qp_str ns_name)
{
    *p = (struct presence){.q = q, .ns = ns, .ns_name = ns_name};
    arena_init(&p->arena, &q->env, 0);
    omap_init(&p->workers, &q->env);
}

static void presence_done(struct presence *p)
{
    omap_done(&p->workers);
    arena_done(&p->arena);
}

/* Nothing was seen of it since it left. */
static bool has_left(const struct present *x)
{
    return x->left_at > 0 && x->left_at >= x->told.seen_at;
}

int work_list(qp *q, qp_str ns, void *context, work_visit visit, struct qp_err *err)
{
    struct presence p;
    int64_t number = 0;
    int rc = space_number(q, ns, &number, err);
    if (rc != QP_OK) {
        return rc;
    }
    presence_init(&p, q, number, str_is_none(ns) ? str_from(q->ns_name) : ns);
    rc = gather(&p, err);
    for (struct omap_node *n = omap_seek(&p.workers, QP_STR("")); n != NULL && rc == QP_OK;
         n = omap_next(n)) {
        const struct present *x = omap_value(n);
        rc = has_left(x) ? QP_OK : visit(context, &x->told);
    }
    presence_done(&p);
    return rc;
}

/* ------------------------------------------------------------------------------------ who serves what */

/* Every topic that a worker serves and that was asked for has one more. */
static void count_workers(const struct presence *p, const struct omap *topics)
{
    for (struct omap_node *n = omap_seek(&p->workers, QP_STR("")); n != NULL; n = omap_next(n)) {
        const struct present *x = omap_value(n);
        for (size_t i = 0; i < x->told.topic_count && !has_left(x); i++) {
            struct qp_topic *topic = omap_get(topics, x->told.topics[i]);
            if (topic != NULL) {
                topic->workers++;
                topic->served_at = p->now;
            }
        }
    }
}

struct serving {
    struct call call;
    int64_t ns;
    struct qp_topic *topics;
    size_t count;
};

/* When a worker last asked this process. */
static void serving_execute(qp *q, struct call *c)
{
    struct serving *s = (struct serving *)c;
    for (size_t i = 0; i < s->count; i++) {
        const struct work_topic *t = topic_find(q->remote, s->ns, s->topics[i].name);
        s->topics[i].served_at = t == NULL ? 0 : t->served_at;
    }
    call_done(&q->driver, c, QP_OK);
}

int topics_served(qp *q, int64_t ns, struct qp_topic *topics, size_t count, struct qp_err *err)
{
    struct serving s = {.call = {.execute = serving_execute, .q = q, .local = true},
                        .ns = ns,
                        .topics = topics,
                        .count = count};
    struct presence p;
    struct omap wanted;
    int rc = QP_OK;
    if (q->engine == NULL) {
        return QP_OK;
    }
    presence_init(&p, q, ns, QP_NONE);
    omap_init(&wanted, &q->env);
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = omap_put(&wanted, topics[i].name, &topics[i], NULL);
    }
    (void)call_do(&q->driver, &s.call, NULL); /* late: then nothing is known of them */
    rc = rc == QP_OK ? gather(&p, NULL) : rc;
    count_workers(&p, &wanted); /* what is not known is not served */
    omap_done(&wanted);
    presence_done(&p);
    return rc == QP_E_NOMEM ? err_set(err, rc, "topics: out of memory") : QP_OK;
}

/* ----------------------------------------------------------------------------------------- when it is written */

void presence_turn(qp *q, qp_ms now)
{
    struct remote *w = q->remote;
    if (w->presence_at > 0 && now >= w->presence_at) {
        w->presence_at = 0;
        w->presence_written = now;
        engine_renew(q->engine);
    }
}

qp_ms presence_due(const qp *q)
{
    return q->remote->presence_at > 0 ? q->remote->presence_at : INT64_MAX;
}
