/* face.c - the face of flows (see face.h) */
#include "flow/face.h"

#include "flow/flow.h"
#include "flow/program.h"
#include "flow/rules.h"
#include "flow/rules_selftest.h"
#include "flow/view.h"

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

/* Results of activities are anything; those of decisions are commands. */
static int result(void *state, struct turn *t, qp_str output, struct qp_err *err)
{
    (void)state;
    return str_equal(t->site.addr, FLOW_ADDRESS) ? flow_decided(t, output, err) : QP_OK;
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

static int refuse_graph(const struct request_flow *r, qp_str version, struct qp_err *err)
{
    return err_set(err, QP_E_CONFLICT,
                   "'%.*s' is the topic of a graph of '%.*s': give the flow another name, or the "
                   "graph another topic",
                   STR_ARG(r->name), STR_ARG(version));
}

static int refuse_jobs(const struct request_flow *r, int64_t count, struct qp_err *err)
{
    return err_set(err, QP_E_CONFLICT,
                   "'%.*s' is a topic with %lld open jobs, which are no flows: let them end, or "
                   "give the flow another name",
                   STR_ARG(r->name), (long long)count);
}

/* Whether the name may become a flow's. */
static int check_name(struct engine *e, const struct request_flow *r, struct bundle *b,
                      bool *out_known, struct qp_err *err)
{
    struct meaning meaning;
    int64_t count = 0;
    bool left = false;
    QP_TRY(topic_check(r->name, err));
    if (r->name.n > LIMIT_FLOW_NAME_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "the name of a flow must have 1 to %d bytes, got %zu",
                       LIMIT_FLOW_NAME_SIZE, r->name.n);
    }
    QP_TRY(names_find(engine_kernel(e)->faces->names, b, &b->commit->arena, r->ns, NAME_START,
                      r->name, &meaning));
    *out_known = meaning.kind == FLOW_KIND;
    if (*out_known) {
        return QP_OK;
    }
    if (meaning.kind != MEANS_NOTHING) {
        return refuse_graph(r, meaning.version, err);
    }
    QP_TRY(open_jobs(b, r->ns, r->name, &count));
    if (count > 0) {
        return refuse_jobs(r, count, err);
    }
    QP_TRY(names_left(b, r->ns, &left));
    return left ? QP_OK
                : err_set(err, QP_E_LIMIT,
                          "the namespace has 10000 names of flows already: LIMIT_FLOW_NAMES");
}

static int flow_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_flow *r = (struct request_flow *)c;
    struct op op = {.kind = OP_topic_put,
                    .topic_put = {.ns = r->ns, .kind = APP_TOPIC_FLOW, .topic = r->name}};
    struct qp_err err = {0};
    bool known = false;
    int rc = check_name(e, r, b, &known, &err);
    r->changed = rc == QP_OK && !known;
    QP_TRY(refusal_keep(&r->refusal, b, rc, &err));
    return known ? QP_OK : step_op(b, &op);
}

void request_flow(struct request_flow *r)
{
    r->command.label = "flow";
    r->command.decide = flow_decide;
}

const struct face flow_face = {.kind = FLOW_KIND,
                               .name = "flow",
                               .name_kind = APP_TOPIC_FLOW,
                               .hook_kind = NAMES_NONE,
                               .program = program_of,
                               .resolve_start = resolve_start,
                               .result = result,
                               .describe_job = flow_describe_job,
                               .describe_activity = flow_describe_activity,
                               .describe_history = flow_describe_history,
                               .rules = flow_rules,
                               .selftest = flow_rules_selftest};
