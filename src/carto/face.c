/* face.c - the face of traversals (see face.h)
 *
 * A request that comes without an id gets one that follows from its body and the universes that it is pinned to (ADR 67). So an
 * equal request is the same job as long as that is there: its result is used, or waited for.
 */
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

/* An id that has ended without a result is used no more. */
static int is_usable(struct bundle *b, int64_t ns, qp_str jid, bool *out_usable)
{
    struct job_name_row name = {.ns = ns, .jid = jid};
    struct job_row key = {.ns = ns};
    const void *row = NULL;
    QP_TRY(bundle_get(b, TABLE_job_name, &name, &row));
    if (row != NULL) {
        key.job = ((const struct job_name_row *)row)->job;
        QP_TRY(bundle_get(b, TABLE_job, &key, &row));
    }
    *out_usable = row == NULL || ((const struct job_row *)row)->state == JOB_OPEN ||
                  ((const struct job_row *)row)->state == JOB_COMPLETED;
    return QP_OK;
}

/* The caller's own id comes before it (naming.jid). A job that calls a traversal gets one of its own; without a universe, or with workers
 * of a type, nothing says that the world is still the same. */
static int name_request(struct bundle *b, const struct carto_plan *plan, struct naming *n)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[LIMIT_GUID_SIZE];
    char jid[6 + 2 * LIMIT_GUID_SIZE] = "carto-";
    bool is_usable_id = false;
    if (plan->is_fresh || plan->is_external || n->version.n == 0 || !str_is_none(n->caller)) {
        return QP_OK;
    }
    hash_guid(n->version.p, n->version.n, n->input.p, n->input.n, hash);
    for (size_t i = 0; i < LIMIT_GUID_SIZE; i++) {
        jid[6 + 2 * i] = digits[hash[i] >> 4];
        jid[7 + 2 * i] = digits[hash[i] & 15];
    }
    QP_TRY(is_usable(b, n->ns, (qp_str){jid, sizeof jid}, &is_usable_id));
    return !is_usable_id || arena_copy(&b->commit->arena, (qp_str){jid, sizeof jid}, &n->jid)
               ? QP_OK
               : QP_E_NOMEM;
}

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
        QP_TRY(name_request(b, &plan, n));
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
