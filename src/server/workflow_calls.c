/* workflow_calls.c - calls about applications of graphs: deploy, activate, versions, what differs, measures */
#include <stdio.h>

#include "run/graphs_read.h"
#include "run/show.h"
#include "server/fields.h"
#include "server/handlers.h"

static int write_piece(void *context, qp_str piece)
{
    struct buf *out = context;
    buf_str(out, piece);
    return buf_rc(out);
}

/* --------------------------------------------------------------------------------------------- deploying */

/* All that is said of a text, in the call's memory. */
struct findings {
    struct api_call *call;
    struct api_error errors[LIMIT_FINDINGS];
    size_t count;
    struct api_error notes[LIMIT_FINDINGS];
    size_t note_count;
};

/* `noted` NULL: nothing is known of the text. */
static void answer_deployed(struct api_call *c, const struct qp_deployed *deployed,
                            const struct findings *noted, int status)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    show_text(&w, "name", deployed->app);
    show_text(&w, "version", deployed->version);
    json_key(&w, QP_STR("active"));
    json_put_bool(&w, deployed->active);
    show_text(&w, "was", deployed->was[0] == '\0' ? NULL : deployed->was);
    if (noted != NULL) {
        api_put_errors(&w, "warnings", noted->notes, noted->note_count);
    }
    json_end_object(&w);
    api_json_end(c, &w, status);
}

static void keep(struct findings *f, const struct qp_graph_error *error, struct api_error *list,
                 size_t *count)
{
    struct api_error *e = &list[*count];
    if (*count == LIMIT_FINDINGS) {
        return; /* a report has no more */
    }
    *e = (struct api_error){.code = error->code, .line = error->line, .column = error->column};
    if (arena_copy(&f->call->arena, error->message, &e->detail) &&
        arena_copy(&f->call->arena, error->hint, &e->hint)) {
        ++*count;
    }
}

static void found(void *context, const struct qp_graph_error *error)
{
    struct findings *f = context;
    keep(f, error, f->errors, &f->count);
}

static void noted(void *context, const struct qp_graph_error *error)
{
    struct findings *f = context;
    keep(f, error, f->notes, &f->note_count);
}

static void deploy(struct api_call *c, qp_str text, bool activate)
{
    struct findings *f = ARENA_NEW(&c->arena, struct findings);
    struct qp_deployed deployed;
    struct qp_err err = {0};
    int rc;
    if (f == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    f->call = c;
    rc = qp_deploy(api_engine(c->api),
                   &(struct qp_deploy){.ns = c->ns,
                                       .text = text,
                                       .activate = activate,
                                       .context = f,
                                       .found = found,
                                       .noted = noted},
                   &deployed, &err);
    if (rc != QP_OK) {
        api_fail_at(c, rc, &err, f->errors, f->count);
        return;
    }
    if (!arena_copy(&c->arena, str_from(deployed.app), &c->target)) {
        c->target = QP_NONE;
    }
    answer_deployed(c, &deployed, f, deployed.existed ? 200 : 201);
}

/* ?activate=true or false; false: the call is refused. */
static bool read_truth(struct api_call *c, const char *name, bool *out_truth)
{
    qp_str text = api_parameter(c, name);
    *out_truth = str_equal(text, QP_STR("true"));
    if (!str_is_none(text) && !*out_truth && !str_equal(text, QP_STR("false"))) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, name, "it is true or false");
        return false;
    }
    return true;
}

void endpoint_workflow_deploy(struct api_call *c)
{
    struct body_Deploy body = {.text = c->body};
    bool activate;
    if (!read_truth(c, "activate", &activate)) {
        return;
    }
    if (!api_has_type(c, "application/yaml") && !BODY_READ(c, Deploy, c->body, "", &body)) {
        return;
    }
    deploy(c, body.text, activate || body.activate);
}

void endpoint_version_activate(struct api_call *c)
{
    struct body_Empty body;
    struct qp_deployed deployed;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, Empty, c->body, "", &body)) {
        return;
    }
    rc = qp_activate(api_engine(c->api), c->ns, c->parts[0], c->parts[1], &deployed, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    answer_deployed(c, &deployed, NULL, 200);
}

void endpoint_version_delete(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    bool force = false;
    int rc;
    if (!read_truth(c, "force", &force)) {
        return;
    }
    rc = force ? qp_app_delete_needed(api_engine(c->api), c->ns, c->parts[0], c->parts[1], &err)
               : qp_app_delete(api_engine(c->api), c->ns, c->parts[0], c->parts[1], &err);
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

/* ------------------------------------------------------------------------------------------------ reading */

static void list_begin(struct api_call *c, struct json_writer *w)
{
    api_json(c, w);
    json_begin_object(w);
    json_key(w, QP_STR("items"));
    json_begin_array(w);
}

static void list_end(struct api_call *c, struct json_writer *w)
{
    json_end_array(w);
    json_end_object(w);
    api_json_end(c, w, 200);
}

void endpoint_workflow_list(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    list_begin(c, &w);
    rc = graphs_list(api_engine(c->api), c->ns, &w, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    list_end(c, &w);
}

struct versions {
    struct json_writer w;
    qp_str app;
    int64_t count;
};

static int version_visit(void *context, const struct qp_app *app)
{
    struct versions *v = context;
    struct qp_app told = *app;
    if (str_equal(app->app, v->app)) {
        told.text = QP_NONE;
        show_app(&v->w, &told);
        v->count++;
    }
    return QP_OK;
}

void endpoint_version_list(struct api_call *c)
{
    struct versions v = {.app = c->parts[0]};
    struct qp_err err = {0};
    int rc;
    list_begin(c, &v.w);
    rc = qp_apps(api_engine(c->api), c->ns, &v, version_visit, &err);
    if (rc == QP_OK && v.count == 0) {
        rc = err_set(&err, QP_E_NOT_FOUND, "there is no application '%.*s'", STR_ARG(v.app));
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    list_end(c, &v.w);
}

static int show_visit(void *context, const struct qp_app *app)
{
    show_app(context, app);
    return QP_OK;
}

static int text_visit(void *context, const struct qp_app *app)
{
    return write_piece(context, app->text);
}

static bool wants_yaml(const struct api_call *c)
{
    static const char type[] = "application/yaml";
    return c->accept.n >= sizeof type - 1 &&
           memmem(c->accept.p, c->accept.n, type, sizeof type - 1) != NULL;
}

void endpoint_version_show(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    bool yaml = wants_yaml(c);
    int rc;
    api_json(c, &w);
    rc = qp_app_show(api_engine(c->api), c->ns, c->parts[0], c->parts[1],
                     yaml ? (void *)&c->out : (void *)&w, yaml ? text_visit : show_visit, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
    } else if (yaml) {
        c->status = 200;
        c->content_type_out = "application/yaml";
        api_answer(c);
    } else {
        api_json_end(c, &w, 200);
    }
}

void endpoint_workflow_diff(struct api_call *c)
{
    qp_str from = api_parameter(c, "from");
    qp_str to = api_parameter(c, "to");
    struct buf graphs;
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (str_is_none(from) || str_is_none(to)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, str_is_none(from) ? "from" : "to", "it is missing");
        return;
    }
    buf_init(&graphs, api_env(c->api), 0);
    rc = qp_app_diff(api_engine(c->api), c->ns, c->parts[0], from, to, &graphs, write_piece, &err);
    if (rc != QP_OK) {
        buf_done(&graphs);
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    show_str(&w, "name", c->parts[0]);
    show_str(&w, "from", from);
    show_str(&w, "to", to);
    show_json(&w, "graphs", buf_slice(&graphs));
    json_end_object(&w);
    buf_done(&graphs);
    api_json_end(c, &w, 200);
}

/* ----------------------------------------------------------------------------------------------- measures */

void endpoint_stats(struct api_call *c)
{
    struct qp_measures query = {.ns = c->ns, .topic = api_parameter(c, "topic")};
    struct qp_err err = {0};
    int rc;
    if (!api_duration(c, "range", LIMIT_TIMER_MS, 60 * 60 * 1000, &query.range_ms) ||
        !api_moment(c, "end", &query.end_at)) {
        return;
    }
    if (str_is_none(query.topic)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "topic", "it is missing");
        return;
    }
    query.data = api_parameter(c, "data");
    query.data = str_is_none(query.data) ? QP_STR("{}") : query.data;
    buf_reset(&c->out);
    rc = qp_measures_read(api_engine(c->api), &query, &c->out, write_piece, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    c->status = 200;
    c->content_type_out = "application/json";
    api_answer(c);
}
