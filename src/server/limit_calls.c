/* limit_calls.c - calls about limits: how many jobs of a topic and limit key are worked on at once */
#include "run/show.h"
#include "server/fields.h"
#include "server/handlers.h"

static int limit_visit(void *context, const struct qp_limit_info *limit)
{
    show_limit(context, limit);
    return QP_OK;
}

void endpoint_limit_list(struct api_call *c)
{
    char cursor[QP_LIMIT_CURSOR_SIZE] = "";
    struct json_writer w;
    struct qp_err err = {0};
    int64_t limit;
    int rc;
    if (!api_number(c, "limit", LIMIT_PAGE_ROWS, 0, &limit)) {
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("items"));
    json_begin_array(&w);
    rc = qp_limit_list(api_engine(c->api), c->ns, api_parameter(c, "cursor"), limit, &w,
                       limit_visit, cursor, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_array(&w);
    show_text(&w, "next_cursor", *cursor != '\0' ? cursor : NULL);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

void endpoint_limit_set(struct api_call *c)
{
    struct body_LimitSet body;
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, LimitSet, c->body, "", &body)) {
        return;
    }
    c->target = body.topic;
    rc = qp_limit_set(
        api_engine(c->api),
        &(struct qp_limit){.ns = c->ns, .topic = body.topic, .key = body.key, .max = body.max},
        &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    show_str(&w, "topic", body.topic);
    show_str(&w, "key", body.key.n == 0 ? QP_NONE : body.key);
    show_count(&w, "max", body.max);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

void endpoint_limit_remove(struct api_call *c)
{
    struct qp_limit limit = {.ns = c->ns, .topic = c->parts[0], .key = api_parameter(c, "key")};
    struct json_writer w;
    struct qp_err err = {0};
    int rc = qp_limit_remove(api_engine(c->api), &limit, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("accepted"));
    json_put_bool(&w, true);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}
