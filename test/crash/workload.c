/* workload.c - a fixed list of commits and the state after each of them (see workload.h) */
#include "workload.h"

#include "support/opresult.h"

void workload_init(struct workload *w, struct testenv *t)
{
    w->t = t;
    opgen_init(&w->g, &t->env, WORKLOAD_SEED);
    w->g.no_steps_back = true;
}

void workload_done(struct workload *w)
{
    opgen_done(&w->g);
}

void workload_next(struct workload *w, struct store *s)
{
    opgen_next(&w->g, s);
    testenv_advance_ms(w->t, w->g.advance_ms);
}

static bool all_succeeded(const struct opcover *cover)
{
    for (size_t op = 0; op < OP_COUNT; op++) {
        if (cover->fine[op] == 0) {
            return false;
        }
    }
    return true;
}

void workload_record(struct workload_record *r, const struct qp_env *keeper, struct testenv *t,
                     struct store *s, bool (*is_enough)(void))
{
    struct opcover cover = {0};
    struct workload w;
    workload_init(&w, t);
    r->commit_count = 0;
    buf_init(&r->states[0], keeper, 0);
    statetext_print(s, WORKLOAD_WITHOUT, &r->states[0]);
    while (!all_succeeded(&cover) || !is_enough()) {
        struct commit c;
        int rc;
        QP_ASSERT(r->commit_count < WORKLOAD_COMMITS_MAX);
        workload_next(&w, s);
        commit_init(&c, s);
        rc = opgen_commit(&w.g, s, &c);
        QP_ASSERT(rc == QP_OK);
        opcover_add(&cover, &c);
        commit_done(&c);
        r->commit_count++;
        buf_init(&r->states[r->commit_count], keeper, 0);
        statetext_print(s, WORKLOAD_WITHOUT, &r->states[r->commit_count]);
    }
    workload_done(&w);
}

void workload_record_done(struct workload_record *r)
{
    for (size_t i = 0; i <= r->commit_count; i++) {
        buf_done(&r->states[i]);
    }
}
