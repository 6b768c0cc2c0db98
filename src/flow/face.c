/* face.c - the face of flows (see face.h) */
#include "flow/face.h"

#include "flow/cancel.h"
#include "flow/copy.h"
#include "flow/flow.h"
#include "flow/program.h"
#include "flow/rules.h"
#include "flow/rules_selftest.h"
#include "flow/task.h"
#include "flow/told.h"
#include "flow/view.h"
#include "kernel/step.h"

static_assert(LIMIT_FLOW_NAMES == 10000, "a sentence below names it");

static struct program program_of(void *state)
{
    (void)state;
    return flow_program;
}

/* ---------------------------------------------------------------------------------------- deciding */

/* A flow runs on whatever code serves its name: its job has no version. */
static int resolve_start(void *state, struct bundle *b, struct naming *n, struct qp_err *err)
{
    (void)state;
    (void)b;
    n->version = QP_NONE;
    return str_is_none(n->policy)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "retry: '%.*s' is a flow, whose activities have policies of their own; "
                         "leave it out",
                         STR_ARG(n->name));
}

/* ------------------------------------------------------------------------------------------ names */

/* How many names of flows the namespace has, up to the limit. */
static int count_name(void *context, const void *row)
{
    (void)row;
    ++*(int64_t *)context;
    return QP_OK;
}

static int names_left(struct bundle *b, int64_t ns, bool *out_left)
{
    struct app_topic_row of = {.ns = ns, .kind = APP_TOPIC_FLOW};
    struct scan scan = {.table = TABLE_app_topic,
                        .index = -1,
                        .prefix = &of,
                        .prefix_count = 2,
                        .limit = LIMIT_FLOW_NAMES};
    int64_t count = 0;
    QP_TRY(bundle_each(b, &scan, &count, count_name));
    *out_left = count < LIMIT_FLOW_NAMES;
    return QP_OK;
}

/* Jobs of this name that have not ended: counted by status, in every shard. */
static int count_open(void *context, const void *row)
{
    const struct counter_row *counter = row;
    *(int64_t *)context += counter->status < STATUS_COMPLETED ? counter->n : 0;
    return QP_OK;
}

static int open_jobs(struct bundle *b, int64_t ns, qp_str name, int64_t *out_count)
{
    struct counter_row of = {.ns = ns, .workflow = name};
    struct scan scan = {.table = TABLE_counter,
                        .index = -1,
                        .prefix = &of,
                        .prefix_count = 2,
                        .limit = LIMIT_SWEEP_ROWS};
    *out_count = 0;
    return bundle_each(b, &scan, out_count, count_open);
}

static int refuse_graph(qp_str name, qp_str version, struct qp_err *err)
{
    return err_set(err, QP_E_CONFLICT,
                   "'%.*s' is the topic of a graph of '%.*s': give the flow another name, or the "
                   "graph another topic",
                   STR_ARG(name), STR_ARG(version));
}

static int refuse_jobs(qp_str name, int64_t count, struct qp_err *err)
{
    return err_set(err, QP_E_CONFLICT,
                   "'%.*s' is a topic with %lld open jobs, which are no flows: let them end, or "
                   "give the flow another name",
                   STR_ARG(name), (long long)count);
}

/* Whether the name may become a flow's. */
static int check_name(const struct faces *faces, struct bundle *b, int64_t ns, qp_str name,
                      bool *out_known, struct qp_err *err)
{
    struct meaning meaning;
    int64_t count = 0;
    bool left = false;
    QP_TRY(topic_check(name, err));
    if (name.n > LIMIT_FLOW_NAME_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "the name of a flow must have 1 to %d bytes, got %zu",
                       LIMIT_FLOW_NAME_SIZE, name.n);
    }
    QP_TRY(names_find(faces->names, b, &b->commit->arena, ns, NAME_START, name, &meaning));
    *out_known = meaning.kind == FLOW_KIND;
    if (*out_known) {
        return QP_OK;
    }
    if (meaning.kind != MEANS_NOTHING) {
        return refuse_graph(name, meaning.version, err);
    }
    QP_TRY(open_jobs(b, ns, name, &count));
    if (count > 0) {
        return refuse_jobs(name, count, err);
    }
    QP_TRY(names_left(b, ns, &left));
    return left ? QP_OK
                : err_set(err, QP_E_LIMIT,
                          "the namespace has 10000 names of flows already: LIMIT_FLOW_NAMES");
}

static int announce(void *state, const struct faces *faces, struct bundle *b, int64_t ns,
                    qp_str name, bool *out_changed, struct qp_err *err)
{
    struct op op = {.kind = OP_topic_put,
                    .topic_put = {.ns = ns, .kind = APP_TOPIC_FLOW, .topic = name}};
    bool known = false;
    (void)state;
    QP_TRY(check_name(faces, b, ns, name, &known, err));
    *out_changed = !known;
    return known ? QP_OK : step_op(b, &op);
}

const struct face flow_face = {.kind = FLOW_KIND,
                               .name = "flow",
                               .name_kind = APP_TOPIC_FLOW,
                               .hook_kind = NAMES_NONE,
                               .program = program_of,
                               .resolve_start = resolve_start,
                               .fork = flow_fork,
                               .cancel = flow_cancel,
                               .result = told_result,
                               .takes = told_takes,
                               .announce = announce,
                               .task = flow_task,
                               .task_kind = flow_task_kind,
                               .log = flow_task_log,
                               .export_data = flow_export,
                               .describe_note = told_note,
                               .describe_job = flow_describe_job,
                               .describe_activity = flow_describe_activity,
                               .describe_history = flow_describe_history,
                               .rules = flow_rules,
                               .selftest = flow_rules_selftest};
