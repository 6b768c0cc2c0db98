/* job_view.c - a view of a job (see job_view.h)
 *
 *   I1  all of it is read in one snapshot, so its parts are those of one commit
 */
#include "run/job_view.h"

#include "kernel/properties.h"
#include "kernel/query.h"

struct viewing {
    qp *q;
    const struct job_view *view;
    struct query query;
    struct json_writer *w;
};

static int properties_write(const struct viewing *v, const struct sight *sight)
{
    qp_str json = QP_NONE;
    QP_TRY(properties_read(sight->store, sight->arena, sight->job, &json, sight->err));
    json_put_raw(v->w, str_is_none(json) ? QP_STR("{}") : json);
    return QP_OK;
}

static int view_write(const struct viewing *v, struct sight *sight)
{
    const struct faced *of;
    QP_TRY(query_find(&v->query, sight->arena, v->view->id, &sight->job, sight->err));
    if (strcmp(v->view->name, JOB_PROPERTIES) == 0) {
        return properties_write(v, sight);
    }
    of = faces_of(v->q->faces, sight->job->kind);
    if (of == NULL || of->face->view == NULL) {
        return err_set(sight->err, QP_E_NOT_FOUND, "job '%.*s': jobs of its kind have no %s",
                       STR_ARG(v->view->id), v->view->name);
    }
    return of->face->view(of->state, sight, v->view->name, v->w);
}

static int view_read(void *context, struct store *s, struct qp_err *err)
{
    struct viewing *v = context;
    struct arena arena;
    struct sight sight = {.store = s, .arena = &arena, .err = err};
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    v->query.store = s;
    arena_init(&arena, &v->q->env, 0);
    rc = view_write(v, &sight);
    arena_done(&arena);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

int job_view(qp *q, const struct job_view *view, struct json_writer *w, struct qp_err *err)
{
    struct viewing v = {.q = q, .view = view, .w = w};
    QP_TRY(space_number(q, view->ns, &v.query.ns, err));
    v.query.ns_name = str_is_none(view->ns) ? str_from(q->ns_name) : view->ns;
    v.query.faces = q->faces;
    return reads_do(q, &v, view_read, err);
}
