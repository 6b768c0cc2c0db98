/* traversals_view.c - a traversal in one snapshot (see traversals_view.h) */
#include "run/traversals_view.h"

#include "carto/atlas.h"
#include "carto/fetch.h"
#include "carto/format_own.h"
#include "carto/registry.h"
#include "carto/stored.h"
#include "carto/types.h"
#include "run/handle.h"

static int find_job(struct viewing *v, struct qp_err *err)
{
    struct job_name_row name = {.ns = v->ns, .jid = v->id};
    struct job_row key = {.ns = v->ns, .job = v->number};
    const void *row = NULL;
    int rc = QP_OK;
    if (v->number == 0) {
        rc = store_get(v->store, &v->arena, TABLE_job_name, &name, &row, err);
        key.job = rc == QP_OK ? ((const struct job_name_row *)row)->job : 0;
    }
    if (rc == QP_OK) {
        rc = store_get(v->store, &v->arena, TABLE_job, &key, &row, err);
    }
    if (rc == QP_OK && ((const struct job_row *)row)->kind != CARTO_KIND) {
        rc = QP_E_NOT_FOUND;
    }
    if (rc == QP_E_NOT_FOUND) {
        return err_set(err, rc, "no traversal '%.*s'", STR_ARG(v->id));
    }
    QP_TRY(rc);
    v->job = row;
    return QP_OK;
}

static int view_parts(struct viewing *v, struct qp_err *err)
{
    QP_TRY(find_job(v, err));
    QP_TRY(result_state(v->store, &v->arena, v->job, &v->state, err));
    return v->body(v, err);
}

static int view_in(void *context, struct store *s, struct qp_err *err)
{
    struct viewing *v = context;
    int rc;
    v->store = s;
    QP_TRY(store_snapshot_begin(s, err));
    rc = view_parts(v, err);
    (void)store_snapshot_end(s, NULL); /* nothing was written */
    return rc;
}

int traversal_view(struct viewing *v, struct qp_err *err)
{
    int rc;
    arena_init(&v->arena, &v->q->env, 0);
    rc = reads_do(v->q, v, view_in, err);
    arena_done(&v->arena);
    return rc;
}

int traversal_has_result(const struct viewing *v, struct qp_err *err)
{
    return v->job->state == JOB_COMPLETED
               ? QP_OK
               : err_set(err, QP_E_BUSY, "the traversal '%.*s' has no result %s",
                         STR_ARG(v->job->jid),
                         v->job->state == JOB_OPEN ? "yet" : "because it ended in ERROR");
}

int traversal_view_beside(const struct viewing *v, struct viewing *other, struct qp_err *err)
{
    int rc;
    other->q = v->q;
    other->ns = v->ns;
    other->store = v->store;
    arena_init(&other->arena, &v->q->env, 0);
    rc = view_parts(other, err);
    arena_done(&other->arena);
    return rc;
}

int traversal_input(struct viewing *v, qp_str addr, qp_str *out_input, struct qp_err *err)
{
    struct act_row key = {.ns = v->job->ns, .job = v->job->job, .addr = addr};
    const void *row = NULL;
    QP_TRY(store_get(v->store, &v->arena, TABLE_act, &key, &row, err));
    *out_input = ((const struct act_row *)row)->input;
    return QP_OK;
}

/* Of a universe whose facts are fetched there may be none yet, and its name is what the job calls it. */
static int set_facts(struct viewing *v, struct carto_use *use, qp_str universe, struct qp_err *err)
{
    struct stored_facts *stored = ARENA_NEW(&v->arena, struct stored_facts);
    struct carto_facts *facts = ARENA_NEW(&v->arena, struct carto_facts);
    struct stored_of of = {
        .ns = v->job->ns, .type = str_from(use->type->name), .universe = universe};
    int rc;
    if (stored == NULL || facts == NULL) {
        return QP_E_NOMEM;
    }
    use->is_fetched = use->type->is_fetched != NULL && use->type->is_fetched(universe);
    of.universe = use->is_fetched ? CARTO_FETCHED : universe;
    rc = stored_open(stored, v->store, &v->arena, &of, err);
    if (rc != QP_OK && (rc != QP_E_NOT_FOUND || !use->is_fetched)) {
        return rc;
    }
    *facts = stored_reader(stored);
    facts->universe = universe;
    use->facts = facts;
    return QP_OK;
}

static int look_pin(void *context, struct carto_id id, struct carto_pin *out)
{
    struct viewing *v = context;
    struct data_row key = {.ns = v->job->ns, .job = v->job->job};
    const void *row = NULL;
    int rc;
    QP_TRY(pin_name(&v->arena, id, &key.name));
    rc = store_get(v->store, &v->arena, TABLE_data, &key, &row, NULL);
    if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
        return rc;
    }
    return pin_read(&v->q->env, &v->arena,
                    rc == QP_OK ? ((const struct data_row *)row)->value : QP_NONE, out);
}

int traversal_plan(struct viewing *v, struct carto_plan *plan, struct qp_err *err)
{
    struct registry r = {.arena = &v->arena, .ns = v->job->ns, .store = v->store};
    struct plan_types types = carto_types;
    qp_str body;
    if (!str_is_none(v->job->version)) {
        QP_TRY(registry_types(&r, &carto_types, v->job->version, &types, err));
    }
    QP_TRY(traversal_input(v, QP_STR("trigger,0"), &body, err));
    QP_TRY(plan_read(&v->q->env, &v->arena, &types, body, plan, err));
    for (size_t i = 0; i < plan->request.use_count; i++) {
        qp_str universe = atlas_universe_of(v->job->version, plan->uses[i].type->name);
        if (!str_is_none(universe) && plan->uses[i].type->external == NULL) {
            QP_TRY(set_facts(v, &plan->uses[i], universe, err));
        }
    }
    plan->request.pinned = look_pin;
    plan->request.pinned_context = v;
    return QP_OK;
}

int traversal_format(struct viewing *v, const struct format_own **out_own, struct qp_err *err)
{
    struct json *body = NULL;
    const struct json *given;
    qp_str text;
    int rc;
    QP_TRY(traversal_input(v, QP_STR("trigger,0"), &text, err));
    QP_TRY(json_parse(&v->q->env, text, err, &body));
    given = json_get(body, QP_STR("format"));
    *out_own = NULL;
    rc = given == NULL ? QP_OK : format_own_read(&v->arena, given, out_own, err);
    json_free(body);
    return rc;
}
