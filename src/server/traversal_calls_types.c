/* traversal_calls_types.c - calls about package types that workers serve: register, list, take out */
#include <stdio.h>

#include "run/traversals_types.h"
#include "server/fields.h"
#include "server/handlers.h"

static void put_text(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

/* Topics of a built-in type: those that --split uses. */
static void put_topic(struct json_writer *w, const char *step, const char *type)
{
    char topic[LIMIT_CARTO_TYPE_SIZE + 32];
    int n = snprintf(topic, sizeof topic, "carto.%s.%s", step, type);
    put_text(w, step, (qp_str){topic, (size_t)n});
}

static void show_type(void *context, const struct carto_type *type)
{
    struct json_writer *w = context;
    const struct carto_external *e = type->external;
    json_begin_object(w);
    put_text(w, "type", str_from(type->name));
    put_text(w, "mode", type->mode == CARTO_ORDERED ? QP_STR("ordered") : QP_STR("pure"));
    if (e != NULL && !str_is_none(e->select_sync)) {
        put_text(w, "select-sync", e->select_sync);
    }
    if (e != NULL) {
        put_text(w, "select", e->select);
        put_text(w, "resolve", e->resolve);
    } else {
        put_topic(w, "select", type->name);
        put_topic(w, "resolve", type->name);
    }
    json_key(w, QP_STR("built_in"));
    json_put_bool(w, e == NULL);
    json_end_object(w);
}

void endpoint_traversal_types(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("items"));
    json_begin_array(&w);
    rc = traversals_types(api_engine(c->api), c->ns, &w, show_type, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_array(&w);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

static void answer_type(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    api_json(c, &w);
    rc = traversals_type(api_engine(c->api), c->ns, c->parts[0], &w, show_type, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json_end(c, &w, 200);
}

void endpoint_traversal_type(struct api_call *c)
{
    answer_type(c);
}

void endpoint_traversal_type_put(struct api_call *c)
{
    struct body_TraversalTypeGiven body;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, TraversalTypeGiven, c->body, "", &body)) {
        return;
    }
    rc = traversals_type_put(api_engine(c->api), c->ns, c->parts[0], c->body, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    answer_type(c);
}

void endpoint_traversal_type_delete(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    int rc = traversals_type_delete(api_engine(c->api), c->ns, c->parts[0], &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    put_text(&w, "type", c->parts[0]);
    put_text(&w, "action", QP_STR("deleted"));
    json_end_object(&w);
    api_json_end(c, &w, 200);
}
