/* arrive.c - where several ways meet: arrivals at a gate, counted by its scope (see program.h)
 *
 *   I1  the scope of a gate follows from its address, so that all who arrive mean the same one
 *   I2  whoever finds no scope opens it and spawns the gate, in one bundle: a scope has its gate, and a gate
 *       its scope
 *   I3  a GUID moves a scope once, by the sum of all that it says of it in its step 2
 *   I4  that somebody arrived who brings something is known when the scope closes: it stands in the gate's
 *       input when the first did, which the scope's GUID tells, and in a data row of the job when a later one
 *       did
 *
 *            the first arrival: ways, then its delta          the edge: a message to the gate
 *     (none) ------------------------------------> OPEN ----------------------------------> CLOSED
 *                                                  |  ^
 *                                                  +--+ further arrivals, ways that come to be
 *
 * If we crash before the commit of a step, none of its arrivals happened. After it, the GUID's spawn digit says
 * that all of them did.
 */
#include "kernel/turn_internal.h"

struct visit {
    struct visit *next;
    struct arrival sum;
    bool opens;         /* the scope was not there */
    struct child *gate; /* which it spawns, with its own scope; else NULL */
    int64_t scope;
    qp_str guid; /* of the edge, in a scope that was opened live */
};

int scope_guid(struct turn *t, qp_str gate, qp_str purpose, qp_str *out_guid)
{
    return step_guid(t->bundle, gate, str_is_none(purpose) ? QP_STR("join") : purpose, out_guid);
}

static int visit_name(struct turn *t, struct visit *v)
{
    QP_TRY(scope_guid(t, v->sum.addr, v->sum.purpose, &v->guid));
    memcpy(&v->scope, v->guid.p, sizeof v->scope);
    v->scope = (v->scope & INT64_MAX) | 1;
    return QP_OK;
}

/* The scope as it stands; NULL: there is none. */
static int scope_find(struct turn *t, const struct visit *v, const struct sem_row **out_sem)
{
    struct sem_row key = {.ns = t->site.ref.ns, .job = t->site.ref.job, .scope = v->scope};
    const void *row = NULL;
    int rc = bundle_get(t->bundle, TABLE_sem, &key, &row);
    *out_sem = row;
    return rc;
}

static void visit_add(struct visit *v, const struct arrival *a)
{
    if (a->live && !v->sum.live && v->gate != NULL) {
        v->gate->input = a->input;
    }
    v->sum.live = v->sum.live || a->live;
    v->sum.delta += a->delta;
}

static struct visit *visit_find(const struct turn *t, const struct arrival *a)
{
    struct visit *v = t->visits;
    while (v != NULL &&
           (!str_equal(v->sum.addr, a->addr) || !str_equal(v->sum.purpose, a->purpose))) {
        v = v->next;
    }
    return v;
}

static int visit_new(struct turn *t, const struct arrival *a)
{
    struct visit *v = ARENA_NEW(turn_arena(t), struct visit);
    const struct sem_row *sem = NULL;
    if (v == NULL) {
        return QP_E_NOMEM;
    }
    *v = (struct visit){.next = t->visits, .sum = *a};
    QP_TRY(visit_name(t, v));
    QP_TRY(scope_find(t, v, &sem));
    v->opens = sem == NULL;
    if (v->opens && str_is_none(a->purpose)) {
        QP_TRY(child_add(t, a->addr, a->input));
        v->gate = t->last_child;
    }
    t->visits = v;
    return QP_OK;
}

int turn_arrive(struct turn *t, const struct arrival *a)
{
    struct visit *v = visit_find(t, a);
    QP_ASSERT(a->ways > 0);
    if (a->delta == 0) {
        return QP_OK;
    }
    if (v == NULL) {
        return visit_new(t, a);
    }
    visit_add(v, a);
    return QP_OK;
}

int arrivals_open(struct turn *t)
{
    int rc = QP_OK;
    for (const struct visit *v = t->visits; v != NULL && rc == QP_OK; v = v->next) {
        struct op op = {.kind = OP_sem_open,
                        .sem_open = {.ref = t->site.ref,
                                     .scope = v->scope,
                                     .opening = v->sum.ways,
                                     .owner_addr = v->sum.addr,
                                     .guid = v->guid,
                                     .topic = ENGINE_TOPIC}};
        if (!v->opens) {
            continue;
        }
        rc = v->sum.live ? QP_OK : step_guid(t->bundle, v->guid, QP_STR("dead"), &op.sem_open.guid);
        rc = rc == QP_OK ? turn_op(t, &op) : rc;
    }
    return rc;
}

/* The first who brings something after all, at a gate whose input says that nobody does. */
static int tell_live(struct turn *t, const struct visit *v)
{
    size_t n = sizeof ARRIVED_LIVE - 1 + v->sum.addr.n;
    char *name = arena_bytes(turn_arena(t), n);
    const struct data_row *there = NULL;
    int rc;
    if (name == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(name, ARRIVED_LIVE, sizeof ARRIVED_LIVE - 1);
    memcpy(name + sizeof ARRIVED_LIVE - 1, v->sum.addr.p, v->sum.addr.n);
    rc = turn_data(t, (qp_str){name, n}, &there);
    return rc == QP_OK && there == NULL ? turn_data_put(t, (qp_str){name, n}, QP_STR("1")) : rc;
}

/* The scope is looked at here, and not when the program spoke: children of this very step may have arrived
 * before it. */
static int visit_move(struct turn *t, const struct visit *v)
{
    struct op op = {.kind = OP_sem_move,
                    .sem_move = {.ref = t->site.ref,
                                 .addr = t->site.addr,
                                 .guid = t->site.guid,
                                 .scope = v->scope,
                                 .delta = v->sum.delta}};
    const struct sem_row *sem = NULL;
    int rc = bundle_run(t->bundle);
    rc = rc == QP_OK ? scope_find(t, v, &sem) : rc;
    if (rc != QP_OK || (v->sum.any && !str_is_none(sem->closed_by))) {
        return rc;
    }
    if (v->sum.any && v->sum.live) {
        op.sem_move.delta = sem->threshold - sem->count;
    }
    if (v->sum.live && !str_equal(sem->owner_guid, v->guid)) {
        rc = tell_live(t, v);
    }
    return rc == QP_OK ? turn_op(t, &op) : rc;
}

int arrivals_move(struct turn *t)
{
    int rc = QP_OK;
    for (const struct visit *v = t->visits; v != NULL && rc == QP_OK; v = v->next) {
        rc = visit_move(t, v);
    }
    return rc;
}
