/* kinds.c - the list of all kinds of jobs (see kinds.h) */
#include "run/kinds.h"

#include "agent/face.h"
#include "carto/face.h"
#include "flow/face.h"
#include "graph/face.h"
#include "kernel/check.h"
#include "kernel/single.h"
#include "run/traversals.h"
#include "run/traversals_fetch.h"

static const struct face *const kinds[] = {
    &single_face, &graph_face, &flow_face, &carto_face, &agent_face,
};

int kinds_open(const struct face_options *options, const struct face *const *more,
               size_t more_count, struct faces **out_faces)
{
    const struct face *all[LIMIT_PROGRAMS];
    QP_ASSERT(more_count <= ARRAY_COUNT(all) - ARRAY_COUNT(kinds));
    memcpy(all, kinds, sizeof kinds);
    if (more_count > 0) {
        memcpy(all + ARRAY_COUNT(kinds), more, more_count * sizeof *more);
    }
    return faces_open(options, all, ARRAY_COUNT(kinds) + more_count, out_faces);
}

int kinds_serve(qp *q, const struct kinds_serving *serving, struct qp_err *err)
{
    QP_TRY(traversals_serve(q, serving->topics, err));
    return traversals_fetch(q, serving->topics, serving->registry, err);
}

int kinds_selftest(const struct qp_env *env, struct qp_err *err)
{
    QP_TRY(check_selftest(env, err));
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (kinds[i]->selftest != NULL) {
            QP_TRY(kinds[i]->selftest(env, err));
        }
    }
    return QP_OK;
}
