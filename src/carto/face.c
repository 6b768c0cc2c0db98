/* face.c - the face of traversals (see face.h) */
#include "carto/face.h"

#include "carto/program.h"
#include "carto/rules.h"
#include "carto/rules_selftest.h"
#include "carto/task.h"
#include "carto/types.h"
#include "carto/view.h"

/* ------------------------------------------------------------------------------------------ its life */

static int open_built_in(const struct face_options *options, void **out_state)
{
    struct traversals *s = NULL;
    QP_TRY(traversals_open(options->env, &carto_types, &s));
    *out_state = s;
    return QP_OK;
}

static void close_state(void *state)
{
    traversals_close(state);
}

static struct program program_of(void *state)
{
    return carto_program(state);
}

static void turn(void *state)
{
    atlas_tidy(((struct traversals *)state)->atlas);
}

/* ------------------------------------------------------------------------------------------ deciding */

static int resolve_start(void *state, struct bundle *b, struct naming *n, struct qp_err *err)
{
    struct traversals *s = state;
    struct arena *a = &b->commit->arena;
    struct carto_plan plan;
    struct plan_types types;
    if (!str_is_none(n->policy)) {
        return err_set(err, QP_E_INVALID,
                       "retry: a traversal has policies of its own; leave it out");
    }
    QP_TRY(atlas_types(s->atlas, b, n->ns, n->version, &types, err));
    QP_TRY(plan_read(&s->env, a, &types, n->input, &plan, err));
    if (str_is_none(n->version)) { /* no fork */
        QP_TRY(atlas_current(s->atlas, b, n->ns, &plan, &n->version));
    }
    QP_TRY(atlas_pin(s->atlas, b, n->ns, n->version, &plan, err));
    return plan_check(&plan, a, err);
}

const struct face carto_face = {.kind = CARTO_KIND,
                                .name = CARTO_NAME,
                                .name_kind = NAMES_NONE,
                                .hook_kind = NAMES_NONE,
                                .start_name = CARTO_NAME,
                                .open = open_built_in,
                                .close = close_state,
                                .program = program_of,
                                .turn = turn,
                                .resolve_start = resolve_start,
                                .describe_activity = carto_describe_activity,
                                .describe_history = carto_describe_history,
                                .export_data = carto_export,
                                .task = carto_task,
                                .rules = carto_rules,
                                .selftest = carto_rules_selftest};
