/* meta_calls.c - calls about the server itself: health, version, numbers, description */
#include <pthread.h>

#include "run/handle.h"
#include "run/stats.h"
#include "run/stats_read.h"
#include "server/handlers.h"

static void answer_health(struct api_call *c, const char *status)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("status"));
    json_put_str(&w, str_from(status));
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* Whoever gets this answer has seen a thread of ours at work: that is all it says. */
void endpoint_livez(struct api_call *c)
{
    answer_health(c, "ok");
}

/* The engine is at work, the store can be written, and we are not about to go. */
void endpoint_readyz(struct api_call *c)
{
    struct qp_err err = {0};
    int rc;
    if (api_is_draining(c->api)) {
        api_refuse(c, PROBLEM_DRAINING, NULL, "the server is shutting down");
        return;
    }
    rc = ready_check(api_engine(c->api), &err);
    if (rc != QP_OK) {
        api_refuse(c, PROBLEM_NOT_READY, NULL, "%s", qp_code_text(rc));
        return;
    }
    answer_health(c, "ok");
}

void endpoint_version(struct api_call *c)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("version"));
    json_put_str(&w, str_from(qp_version()));
    json_key(&w, QP_STR("api"));
    json_put_str(&w, QP_STR("v1"));
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

static void answer_text(struct api_call *c, void (*write)(struct buf *out), const char *type)
{
    buf_reset(&c->out);
    write(&c->out);
    if (buf_rc(&c->out) != QP_OK) {
        api_fail(c, buf_rc(&c->out), NULL);
        return;
    }
    c->status = 200;
    c->content_type_out = type;
    api_answer(c);
}

void endpoint_openapi(struct api_call *c)
{
    answer_text(c, openapi_write, "application/json");
}

void endpoint_front(struct api_call *c)
{
    answer_text(c, front_write, "text/html; charset=utf-8");
}

void endpoint_docs(struct api_call *c)
{
    answer_text(c, page_write, "text/html; charset=utf-8");
}

/* Numbers of the store are read by the crew, for at most LIMIT_METRICS_MS: what this process has counted is told in any case.
 * A reading that comes too late is for the next who asks. */
struct collecting {
    struct crew_job job;
    struct timing timing;
    struct api *api;
    pthread_mutex_t lock;
    struct api_call *call; /* under the lock; NULL: it is answered */
    int users;             /* under the lock: the job, and the timing */
};

static void leave(struct collecting *k)
{
    bool last;
    (void)pthread_mutex_lock(&k->lock);
    last = --k->users == 0;
    (void)pthread_mutex_unlock(&k->lock);
    if (last) {
        (void)pthread_mutex_destroy(&k->lock);
        mem_free(api_env(k->api), k);
    }
}

static void set_gauge(struct api *api, const char *name, const char *help, int64_t value)
{
    const struct metric_spec spec = {.name = name, .help = help, .kind = METRIC_GAUGE};
    struct metric *gauge = NULL;
    if (metrics_open(stats_registry(api_engine(api)), &spec, NULL, 0, NULL, &gauge) == QP_OK) {
        metric_set(gauge, value);
    }
}

static void answer_metrics(struct api_call *c)
{
    struct api *api = c->api;
    set_gauge(api, "quipu_sse_clients", "Open streams of events", atomic_load(api_streams(api)));
    set_gauge(api, "quipu_ready", "1 when the store can be written, as /readyz says",
              ready_now(api_engine(api), NULL) == QP_OK);
    buf_reset(&c->out);
    metrics_text(stats_registry(api_engine(api)), &c->out);
    if (buf_rc(&c->out) != QP_OK) {
        api_fail(c, buf_rc(&c->out), NULL);
        return;
    }
    c->status = 200;
    c->content_type_out = "text/plain; version=0.0.4; charset=utf-8";
    api_answer(c);
}

/* Whoever is first answers. */
static void answer_once(struct collecting *k)
{
    struct api_call *c;
    (void)pthread_mutex_lock(&k->lock);
    c = k->call;
    k->call = NULL;
    (void)pthread_mutex_unlock(&k->lock);
    if (c != NULL) {
        answer_metrics(c);
    }
}

static void collect_late(struct timing *t)
{
    struct collecting *k = (struct collecting *)((char *)t - offsetof(struct collecting, timing));
    answer_once(k);
    leave(k);
}

static void collect(struct crew_job *job)
{
    struct collecting *k = (struct collecting *)job;
    int rc = stats_collect(api_engine(k->api), NULL);
    (void)rc; /* without it there are the numbers of before */
    answer_once(k);
    if (timing_stop(k->api, &k->timing)) {
        leave(k);
    }
    leave(k);
}

void endpoint_metrics(struct api_call *c)
{
    struct collecting *k = mem_alloc(api_env(c->api), sizeof *k);
    bool limited = api_options(c->api)->limited;
    if (k == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    k->api = c->api;
    k->call = c;
    k->users = 2;
    k->job.run = collect;
    (void)pthread_mutex_init(&k->lock, NULL);
    timing_start(k->api, &k->timing, limited ? LIMIT_METRICS_MS : LIMIT_WAIT_MS, collect_late);
    if (!crew_put(k->api, &k->job)) {
        answer_once(k);
        if (timing_stop(k->api, &k->timing)) {
            leave(k);
        }
        leave(k);
    }
}
