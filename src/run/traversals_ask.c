/* traversals_ask.c - questions about results (see traversals_ask.h) */
#include "run/traversals_ask.h"

#include "carto/format_output.h"
#include "carto/format_own.h"
#include "carto/result_diff.h"
#include "carto/result_kept.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/traversals_view.h"

/* To be closed after a failure, too. */
static int read_graph(struct viewing *v, struct result_graph *g, struct qp_err *err)
{
    struct result_source *source = NULL;
    struct carto_items items;
    int rc;
    result_graph_init(g, &v->q->env);
    QP_TRY(result_open(&v->q->env, v->store, v->job, err, &source));
    items = result_items(source);
    rc = result_graph_open(g, &v->q->env, &items);
    result_close(source);
    return rc;
}

static int open_graph(struct viewing *v, struct result_graph *g, struct qp_err *err)
{
    int rc = QP_E_NOT_FOUND;
    result_graph_init(g, &v->q->env);
    QP_TRY(traversal_has_result(v, err));
    if (kept_is_due(&v->state.head.counts)) {
        rc = kept_open(g, v->store, v->job, err);
    }
    if (rc == QP_E_CORRUPT) {
        return err_set(err, rc,
                       "the nodes and edges that are kept of '%.*s' cannot be read: run quipu fsck",
                       STR_ARG(v->id));
    }
    if (rc != QP_E_NOT_FOUND) {
        return rc;
    }
    result_graph_close(g);
    return read_graph(v, g, err);
}

/* The traversal that is meant: its id, universe and hash. */
static void put_traversal(struct json_writer *w, const struct viewing *v)
{
    member_put_text(w, "id", v->id);
    member_put_text(w, "universe", v->state.head.universe);
    member_put_text(w, "hash", v->state.hash);
}

/* ----------------------------------------------------------------------------------------------- why */

struct asking {
    const struct why_question *question;
    struct json_writer *w;
};

static int put_why(struct viewing *v, const struct result_graph *g, struct json_writer *w,
                   struct qp_err *err)
{
    const struct asking *a = v->context;
    int rc;
    json_begin_object(w);
    put_traversal(w, v);
    rc = why_write(g, a->question, w, err);
    json_end_object(w);
    return rc;
}

/* An answer with `formatted`: what the request's own mapping makes of each path. */
static int put_formatted(const struct viewing *v, const struct format_own *own, qp_str answer,
                         struct json_writer *w)
{
    struct raw_walk walk = {.rest = answer};
    qp_str paths = QP_STR("[]");
    int rc;
    json_begin_object(w);
    while (raw_each(&walk)) {
        json_key(w, walk.key);
        json_put_raw(w, walk.value);
        paths = str_equal(walk.key, QP_STR("paths")) ? walk.value : paths;
    }
    json_key(w, QP_STR("formatted"));
    rc = format_own_paths(own, &v->q->env, paths, w);
    json_end_object(w);
    return rc;
}

static int answer_why(struct viewing *v, const struct result_graph *g, struct qp_err *err)
{
    const struct asking *a = v->context;
    const struct format_own *own = NULL;
    struct json_writer plain;
    struct buf text;
    int rc;
    QP_TRY(traversal_format(v, &own, err));
    if (own == NULL || !format_own_has_path(own)) {
        return put_why(v, g, a->w, err);
    }
    buf_init(&text, &v->q->env, 0);
    json_writer_init(&plain, &text);
    rc = put_why(v, g, &plain, err);
    if (rc == QP_OK) {
        rc = json_writer_done(&plain);
    }
    if (rc == QP_OK) {
        rc = put_formatted(v, own, buf_slice(&text), a->w);
    }
    buf_done(&text);
    return rc;
}

static int write_why(struct viewing *v, struct qp_err *err)
{
    struct result_graph g;
    int rc = open_graph(v, &g, err);
    if (rc == QP_OK) {
        rc = answer_why(v, &g, err);
    }
    result_graph_close(&g);
    return rc;
}

int traversals_why(qp *q, qp_str ns, qp_str id, const struct why_question *question,
                   struct json_writer *w, struct qp_err *err)
{
    ENTER(q, question != NULL, err);
    struct asking a = {question, w};
    struct viewing v = {.q = q, .id = id, .context = &a, .body = write_why};
    QP_TRY(space_number(q, ns, &v.ns, err));
    return traversal_view(&v, err);
}

/* ---------------------------------------------------------------------------------------------- diff */

struct comparing {
    struct json_writer *w;
    const struct viewing *from;
    const struct result_graph *graph; /* of `from` */
    struct viewing *to;
};

static void put_sides(const struct comparing *c)
{
    json_begin_object(c->w);
    json_key(c->w, QP_STR("from"));
    json_begin_object(c->w);
    put_traversal(c->w, c->from);
    json_end_object(c->w);
    json_key(c->w, QP_STR("to"));
    json_begin_object(c->w);
    put_traversal(c->w, c->to);
    json_end_object(c->w);
}

static int write_diff(struct viewing *v, struct qp_err *err)
{
    struct comparing *c = v->context;
    struct result_graph g;
    bool is_same = false;
    int rc = open_graph(v, &g, err);
    if (rc == QP_OK) {
        put_sides(c);
        rc = result_diff(c->graph, &g, c->w, &is_same);
        json_end_object(c->w);
    }
    result_graph_close(&g);
    return rc;
}

static int look_from(struct viewing *v, struct qp_err *err)
{
    struct comparing *c = v->context;
    struct result_graph g;
    int rc = open_graph(v, &g, err);
    c->from = v;
    c->graph = &g;
    c->to->context = c;
    c->to->body = write_diff;
    if (rc == QP_OK) {
        rc = traversal_view_beside(v, c->to, err);
    }
    result_graph_close(&g);
    return rc;
}

int traversals_diff(qp *q, qp_str ns, qp_str from, qp_str to, struct json_writer *w,
                    struct qp_err *err)
{
    ENTER(q, w != NULL, err);
    struct viewing other = {.id = to};
    struct comparing c = {.w = w, .to = &other};
    struct viewing v = {.q = q, .id = from, .context = &c, .body = look_from};
    QP_TRY(space_number(q, ns, &v.ns, err));
    return traversal_view(&v, err);
}
