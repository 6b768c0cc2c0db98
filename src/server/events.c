/* events.c - streams of events (SSE): of one job, or of all that fit a filter; or of these only what is published on a topic
 *
 *   engine: "something has changed" --> crew: reads the next page of the journal into `out`
 *                                   --> carrier: reads `out`
 *
 * The id of an event is its sequence in the job, or its position in the feed, so that a reader
 * who comes back with Last-Event-ID misses nothing and sees nothing twice. While nothing
 * happens, nothing is asked of the store.
 *
 *   I1  at most one fill is queued or going on (kept.h)
 *   I2  once `closed`, the carrier is never woken, and a last fill takes everything apart
 *   I3  no more than STREAM_HIGH_SIZE is read ahead of a slow reader
 */
#include <stdio.h>

#include "run/show.h"
#include "server/handlers.h"
#include "server/kept.h"

#define STREAM_PAGE 50
#define STREAM_HIGH_SIZE ((size_t)256 * 1024)
#define STREAM_MOST_SIZE ((size_t)160 * 1024 * 1024)

struct events {
    struct kept kept;
    struct api_stream stream;
    qp_follower *follower;
    struct buf scratch; /* the crew's: one event */
    int64_t after;      /* likewise: the last that was read */
    bool one_job;
    const char *ns;
    const char *text;  /* the job's id, or the filter */
    const char *topic; /* only publications on it; NULL: all events */
    /* under the lock */
    struct buf out;
    size_t sent;
    bool closed;
    bool ended;
};

static void fill(struct crew_job *turn);

static struct events *events_of(struct api_stream *s)
{
    return (struct events *)((char *)s - offsetof(struct events, stream));
}

static void events_done(struct kept *k)
{
    struct events *e = (struct events *)k;
    atomic_fetch_sub(api_streams(k->api), 1);
    buf_done(&e->out);
    buf_done(&e->scratch);
}

/* Under the lock. */
static void wake(struct events *e)
{
    if (!e->closed) {
        e->stream.call->carrier->stream_wake(e->stream.call);
    }
}

/* On the engine's thread. */
static void changed(void *context)
{
    struct events *e = context;
    bool put;
    (void)pthread_mutex_lock(&e->kept.lock);
    put = kept_claim(&e->kept);
    (void)pthread_mutex_unlock(&e->kept.lock);
    if (put) {
        kept_put(&e->kept, fill);
    }
}

/* On the clock's thread: a sign of life; and the end, when the server goes. */
static void tick(struct timing *t)
{
    struct events *e = (struct events *)kept_of_timing(t);
    bool over;
    (void)pthread_mutex_lock(&e->kept.lock);
    over = e->closed || api_is_draining(e->kept.api);
    e->ended = e->ended || over;
    if (!over && e->out.n == e->sent) {
        buf_text(&e->out, ": ping\n\n");
    }
    wake(e);
    if (!over) {
        kept_start(&e->kept, LIMIT_STREAM_PING_MS, tick);
    }
    (void)pthread_mutex_unlock(&e->kept.lock);
    if (over) {
        kept_leave(&e->kept);
    }
}

/* ----------------------------------------------------------------------------------- the reader */

static long stream_read(struct api_stream *s, char *out, size_t size)
{
    struct events *e = events_of(s);
    size_t n;
    bool put = false;
    bool ended;
    (void)pthread_mutex_lock(&e->kept.lock);
    n = e->out.n - e->sent;
    n = n < size ? n : size;
    if (n > 0) {
        memcpy(out, e->out.p + e->sent, n);
        e->sent += n;
    }
    if (n > 0 && e->sent == e->out.n) {
        buf_reset(&e->out);
        e->sent = 0;
        put = !e->ended && kept_claim(&e->kept); /* there may be more where that came from */
    }
    ended = e->ended;
    (void)pthread_mutex_unlock(&e->kept.lock);
    if (put) {
        kept_put(&e->kept, fill);
    }
    return n > 0 ? (long)n : ended ? -1 : 0;
}

static void stream_close(struct api_stream *s)
{
    struct events *e = events_of(s);
    bool put;
    (void)pthread_mutex_lock(&e->kept.lock);
    e->closed = true;
    put = kept_claim(&e->kept);
    (void)pthread_mutex_unlock(&e->kept.lock);
    if (put) {
        kept_put(&e->kept, fill);
    }
}

/* ----------------------------------------------------------------------------------- the events */

/* Payloads may have line ends, and every line of an event says what it is. */
static void put_data(struct buf *out, qp_str text)
{
    size_t from = 0;
    buf_text(out, "data: ");
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n' || text.p[i] == '\r') {
            buf_add(out, text.p + from, i - from);
            buf_text(out, "\ndata: ");
            from = i + 1;
        }
    }
    buf_add(out, text.p + from, text.n - from);
    buf_text(out, "\n\n");
}

/* What is passed over is not read again. */
static bool is_wanted(const struct events *e, const struct qp_event *event)
{
    return e->topic == NULL ||
           (strcmp(event->kind, "published") == 0 && str_equal(event->topic, str_from(e->topic)));
}

static int event_visit(void *context, const struct qp_event *event)
{
    struct events *e = context;
    struct json_writer w;
    int rc;
    e->after = e->one_job ? event->seq : event->pos;
    if (!is_wanted(e, event)) {
        return QP_OK;
    }
    buf_reset(&e->scratch);
    json_writer_init(&w, &e->scratch);
    show_event(&w, event);
    rc = json_writer_done(&w);
    if (rc != QP_OK) {
        return rc;
    }
    (void)pthread_mutex_lock(&e->kept.lock);
    buf_printf(&e->out, "id: %lld\nevent: %s\n", (long long)e->after, event->kind);
    put_data(&e->out, buf_slice(&e->scratch));
    rc = buf_rc(&e->out);
    (void)pthread_mutex_unlock(&e->kept.lock);
    return rc;
}

struct ending {
    struct events *events;
    bool over;
};

/* A job that has ended, and all of whose journal was told, has no more events. */
static int ending_visit(void *context, const struct qp_job_info *job)
{
    struct ending *x = context;
    struct events *e = x->events;
    if (job->closed_at != 0 && job->seq <= e->after) {
        (void)pthread_mutex_lock(&e->kept.lock);
        buf_printf(&e->out, "event: end\ndata: {\"status\":\"%s\"}\n\n", job->status);
        (void)pthread_mutex_unlock(&e->kept.lock);
        x->over = true;
    }
    return QP_OK;
}

/* The reader was away for too long: what it missed is not in the feed any more. It is told, reads the list of
 * jobs again, and hears of what came after the position that the event names. */
static int begin_again(struct events *e)
{
    int64_t position = 0;
    int rc = qp_feed_position(api_engine(e->kept.api), &position, NULL);
    if (rc == QP_OK) {
        e->after = position;
        (void)pthread_mutex_lock(&e->kept.lock);
        buf_printf(&e->out, "id: %lld\nevent: reset\ndata: {}\n\n", (long long)position);
        (void)pthread_mutex_unlock(&e->kept.lock);
    }
    return rc;
}

static int read_page(struct events *e, bool *out_more, bool *out_over)
{
    qp *q = api_engine(e->kept.api);
    qp_str ns = str_from(e->ns);
    struct ending x = {.events = e};
    int rc;
    if (!e->one_job) {
        struct qp_feed feed = {.ns = ns,
                               .where = str_from(e->text),
                               .after = e->after,
                               .limit = STREAM_PAGE,
                               .topic = str_from(e->topic)};
        rc = qp_feed_read(q, &feed, e, event_visit, &e->after, out_more, NULL);
        return rc == QP_E_NOT_FOUND ? begin_again(e) : rc;
    }
    rc = qp_job_journal(q, ns, str_from(e->text), e->after, STREAM_PAGE, e, event_visit, out_more,
                        NULL);
    if (rc == QP_OK && !*out_more) {
        rc = qp_job_show(q, ns, str_from(e->text), &x, ending_visit, NULL);
    }
    *out_over = x.over;
    return rc;
}

static void take_apart(struct events *e)
{
    qp_follow_end(api_engine(e->kept.api), e->follower);
    kept_stop(&e->kept);
    kept_leave(&e->kept);
}

/* Whether there is room for another page, and a reason for it. Under the lock. */
static bool goes_on(struct events *e, bool more)
{
    bool room = e->out.n - e->sent < STREAM_HIGH_SIZE;
    return e->closed || (!e->ended && room && (more || e->kept.again));
}

/* On the crew: a page, and another one if there is more. When the reader is slow, it goes on
 * when he has read. */
static void fill(struct crew_job *turn)
{
    struct events *e = (struct events *)kept_of_turn(turn);
    bool more = false;
    bool over = false;
    bool closed;
    bool put;
    int rc;
    (void)pthread_mutex_lock(&e->kept.lock);
    closed = e->closed;
    e->kept.again = false;
    (void)pthread_mutex_unlock(&e->kept.lock);
    if (closed) {
        take_apart(e);
        return;
    }
    rc = read_page(e, &more, &over);
    (void)pthread_mutex_lock(&e->kept.lock);
    e->ended = e->ended || over || rc != QP_OK;
    put = goes_on(e, more);
    e->kept.queued = put;
    wake(e);
    (void)pthread_mutex_unlock(&e->kept.lock);
    if (put) {
        kept_put(&e->kept, fill);
    }
}

/* ---------------------------------------------------------------------------------------- begin */

bool wants_events(const struct api_call *c)
{
    static const char type[] = "text/event-stream";
    return c->carrier->stream_wake != NULL && c->accept.n >= sizeof type - 1 &&
           memmem(c->accept.p, c->accept.n, type, sizeof type - 1) != NULL;
}

/* NULL: no memory. */
static struct events *events_make(struct api_call *c, qp_str text, bool one_job, qp_str topic)
{
    struct events *e = kept_make(c->api, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    e->stream = (struct api_stream){.call = c, .read = stream_read, .close = stream_close};
    e->one_job = one_job;
    buf_init(&e->out, api_env(c->api), STREAM_MOST_SIZE);
    buf_init(&e->scratch, api_env(c->api), STREAM_MOST_SIZE);
    atomic_fetch_add(api_streams(c->api), 1);
    e->kept.done = events_done;
    e->kept.queued = true; /* the first page */
    e->ns = kept_text(&e->kept, c->ns);
    e->text = kept_text(&e->kept, text);
    e->topic = str_is_none(topic) ? NULL : kept_text(&e->kept, topic);
    if (e->ns == NULL || e->text == NULL || (e->topic == NULL && !str_is_none(topic))) {
        kept_drop(&e->kept);
        return NULL;
    }
    return e;
}

/* Where the reader left off. */
static bool read_last_id(struct api_call *c, int64_t otherwise, int64_t *out_after)
{
    int64_t number = 0;
    *out_after = otherwise;
    if (str_is_none(c->last_event_id) || c->last_event_id.n == 0) {
        return true;
    }
    for (size_t i = 0; i < c->last_event_id.n; i++) {
        char digit = c->last_event_id.p[i];
        if (digit < '0' || digit > '9' || i >= 18) {
            api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "Last-Event-ID is not an id of these events");
            return false;
        }
        number = number * 10 + (digit - '0');
    }
    *out_after = number;
    return true;
}

static void begin(struct api_call *c, qp_str text, bool one_job, qp_str topic, int64_t after)
{
    struct events *e = NULL;
    struct qp_err err = {0};
    int rc = QP_E_NOMEM;
    if (atomic_load(api_streams(c->api)) >= LIMIT_STREAMS) {
        api_refuse(c, PROBLEM_BUSY, NULL, "%d streams are open already", LIMIT_STREAMS);
        return;
    }
    e = events_make(c, text, one_job, topic);
    if (e != NULL) {
        struct qp_follow follow = {.ns = str_from(e->ns),
                                   .id = one_job ? str_from(e->text) : QP_NONE,
                                   .context = e,
                                   .changed = changed};
        e->after = after;
        rc = qp_follow_begin(api_engine(c->api), &follow, &e->follower, &err);
    }
    if (rc != QP_OK) {
        if (e != NULL) {
            kept_drop(&e->kept);
        }
        api_fail(c, rc, &err);
        return;
    }
    kept_start(&e->kept, LIMIT_STREAM_PING_MS, tick);
    c->stream = &e->stream;
    c->status = 200;
    c->content_type_out = "text/event-stream";
    kept_put(&e->kept, fill); /* before the answer: after it the stream may be gone */
    api_answer(c);
}

static int exists_visit(void *context, const struct qp_job_info *job)
{
    const qp_str *id = context;
    return str_equal(job->id, *id) ? QP_OK : QP_E_NOT_FOUND;
}

static void follow_one(struct api_call *c, qp_str id, qp_str topic)
{
    struct qp_err err = {0};
    int64_t after;
    int rc = qp_job_show(api_engine(c->api), c->ns, id, &id, exists_visit, &err);
    if (rc != QP_OK) {
        api_fail(c, rc == QP_E_CONFLICT ? QP_E_NOT_FOUND : rc, NULL);
        return;
    }
    if (read_last_id(c, 0, &after)) {
        begin(c, id, true, topic, after);
    }
}

/* From now on, unless the reader says where he was. A bad filter is told at once. */
static void follow_all(struct api_call *c, qp_str where, qp_str topic)
{
    struct qp_err err = {0};
    struct qp_count count;
    int64_t position = 0;
    int64_t after;
    int rc = qp_job_count(api_engine(c->api), c->ns, where, QP_COUNT_ESTIMATE, &count, &err);
    if (rc == QP_OK) {
        rc = qp_feed_position(api_engine(c->api), &position, &err);
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    if (read_last_id(c, position, &after)) {
        begin(c, where, false, topic, after);
    }
}

void follow_job(struct api_call *c, qp_str id)
{
    follow_one(c, id, QP_NONE);
}

void follow_jobs(struct api_call *c, qp_str where)
{
    follow_all(c, where, QP_NONE);
}

void follow_topic(struct api_call *c, qp_str topic, qp_str job)
{
    if (str_is_none(job)) {
        follow_all(c, QP_STR(""), topic);
    } else {
        follow_one(c, job, topic);
    }
}
