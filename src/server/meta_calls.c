/* meta_calls.c - calls about the server itself: health, version, numbers, description */
#include "run/handle.h"
#include "run/stats.h"
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
void handle_livez(struct api_call *c)
{
    answer_health(c, "ok");
}

/* The engine is at work, the store can be written, and we are not about to go. */
void handle_readyz(struct api_call *c)
{
    struct qp_err err = {0};
    int rc;
    if (api_is_draining(c->api)) {
        api_refuse(c, PROBLEM_DRAINING, NULL, "the server is shutting down");
        return;
    }
    rc = handle_ready(api_engine(c->api), &err);
    if (rc != QP_OK) {
        api_refuse(c, PROBLEM_NOT_READY, NULL, "%s", qp_code_text(rc));
        return;
    }
    answer_health(c, "ok");
}

void handle_version(struct api_call *c)
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

void handle_openapi(struct api_call *c)
{
    answer_text(c, openapi_write, "application/json");
}

void handle_docs(struct api_call *c)
{
    answer_text(c, page_write, "text/html; charset=utf-8");
}

void handle_metrics(struct api_call *c)
{
    struct metrics *metrics = stats_registry(api_engine(c->api));
    struct qp_err err = {0};
    const struct metric_spec streams = {
        .name = "quipu_sse_clients", .help = "Open streams of events", .kind = METRIC_GAUGE};
    struct metric *open = NULL;
    int rc = stats_collect(api_engine(c->api), &err);
    if (metrics_open(metrics, &streams, NULL, 0, NULL, &open) == QP_OK) {
        metric_set(open, atomic_load(api_streams(c->api)));
    }
    buf_reset(&c->out);
    if (rc == QP_OK) {
        metrics_text(metrics, &c->out);
        rc = buf_rc(&c->out);
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    c->status = 200;
    c->content_type_out = "text/plain; version=0.0.4; charset=utf-8";
    api_answer(c);
}
