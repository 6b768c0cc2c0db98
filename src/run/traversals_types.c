/* traversals_types.c - package types that workers serve: registered, listed, taken out (see traversals_types.h) */
#include "run/traversals_types.h"

#include "carto/registry.h"
#include "carto/types.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"
#include "run/traversals.h"

/* ------------------------------------------------------------------------------------------- reading */

struct listing {
    qp *q;
    int64_t ns;
    qp_str name; /* none: all */
    void *context;
    type_visit visit;
    size_t count;
};

static int list_types(struct listing *l, struct store *s, struct arena *a, struct qp_err *err)
{
    struct registry r = {.arena = a, .ns = l->ns, .store = s};
    struct plan_types types;
    QP_TRY(registry_types(&r, &carto_types, QP_NONE, &types, err));
    for (size_t i = 0; i < types.count; i++) {
        if (str_is_none(l->name) || str_equal(l->name, str_from(types.list[i]->name))) {
            l->visit(l->context, types.list[i]);
            l->count++;
        }
    }
    return QP_OK;
}

static int list_in(void *context, struct store *s, struct qp_err *err)
{
    struct listing *l = context;
    struct arena a;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    arena_init(&a, &l->q->env, 0);
    rc = list_types(l, s, &a, err);
    arena_done(&a);
    (void)store_snapshot_end(s, NULL); /* nothing was written */
    return rc;
}

int traversals_types(qp *q, qp_str ns, void *context, type_visit visit, struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct listing l = {.q = q, .context = context, .visit = visit};
    QP_TRY(space_number(q, ns, &l.ns, err));
    return reads_do(q, &l, list_in, err);
}

int traversals_type(qp *q, qp_str ns, qp_str name, void *context, type_visit visit,
                    struct qp_err *err)
{
    ENTER(q, visit != NULL, err);
    struct listing l = {.q = q, .name = name, .context = context, .visit = visit};
    QP_TRY(space_number(q, ns, &l.ns, err));
    QP_TRY(reads_do(q, &l, list_in, err));
    return l.count > 0
               ? QP_OK
               : err_set(err, QP_E_NOT_FOUND,
                         "no package type '%.*s': quipu carto types lists them", STR_ARG(name));
}

/* ------------------------------------------------------------------------------------------ changing */

struct typing {
    struct call call;
    struct request_type request;
};

static void type_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_type *r = (struct request_type *)c;
    struct typing *t = (struct typing *)((char *)r - offsetof(struct typing, request));
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(t->call.err, rc, "%s", refusal_text(&r->refusal, rc, why));
    }
    call_done(&t->call.q->driver, &t->call, rc);
}

static void type_execute(qp *q, struct call *c)
{
    struct typing *t = (struct typing *)c;
    request_type(&t->request);
    t->request.command.answer = type_answered;
    engine_submit(q->engine, &t->request.command);
}

static bool is_built_in(qp_str name)
{
    for (size_t i = 0; i < carto_types.count; i++) {
        if (str_equal(str_from(carto_types.list[i]->name), name)) {
            return true;
        }
    }
    return false;
}

/* What was former goes when no traversal needs it. */
static int change(qp *q, qp_str ns, qp_str name, const struct carto_external *definition,
                  struct qp_err *err)
{
    struct typing t = {.call = {.execute = type_execute, .q = q},
                       .request = {.name = name, .definition = definition}};
    QP_TRY(external_check_name(name, err));
    if (plan_has_member(name)) {
        return err_set(err, QP_E_INVALID,
                       "no package type can have the name '%.*s': requests have a member of it",
                       STR_ARG(name));
    }
    if (is_built_in(name)) {
        return err_set(err, QP_E_CONFLICT, "the package type '%.*s' is built in", STR_ARG(name));
    }
    QP_TRY(space_number(q, ns, &t.request.ns, err));
    QP_TRY(call_do(&q->driver, &t.call, err));
    return traversals_tidy(q, ns, err);
}

int traversals_type_put(qp *q, qp_str ns, qp_str name, qp_str definition, struct qp_err *err)
{
    ENTER(q, true, err);
    const struct carto_external *external = NULL;
    struct arena a;
    int rc;
    arena_init(&a, &q->env, 0);
    rc = external_read(&a, name, definition, &external, err);
    if (rc == QP_OK) {
        rc = change(q, ns, name, external, err);
    }
    arena_done(&a);
    return rc;
}

int traversals_type_delete(qp *q, qp_str ns, qp_str name, struct qp_err *err)
{
    ENTER(q, true, err);
    return change(q, ns, name, NULL, err);
}
