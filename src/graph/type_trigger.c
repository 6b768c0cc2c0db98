/* type_trigger.c - the trigger: category D, the job itself
 *
 *   inception   the job, the trigger's row with the job's input: activity 101100000000001, GUID 000010000000000
 *   step 2      job data, facets, first children; the semaphore opens at their number: GUID +1B
 *   step 3      only when there are no children: the trigger's GUID owns the edge and completes the job
 *
 * If we crash after inception, whoever starts the job again, or the START message, finds the GUID's ledger and goes on
 * with step 2. Its input was checked before the job was made (start.c); of a job that was started where nobody could
 * check it, it is checked here.
 */
#include "graph/action.h"
#include "graph/program.h"

/* What is written when the activity's maps say so; else its output is its input. */
static int put_output(struct action *s)
{
    qp_str output = QP_NONE;
    int rc = s->activity->output == NULL ? QP_OK : action_output(s, s->turn->act->input, &output);
    struct op op = {.kind = OP_guid_add,
                    .guid_add = {.ref = s->turn->site.ref,
                                 .addr = s->turn->site.addr,
                                 .guid = s->turn->site.guid,
                                 .code = 200,
                                 .output = output}};
    if (rc != QP_OK || str_is_none(output)) {
        return rc;
    }
    rc = turn_op(s->turn, &op);
    rc = rc == QP_OK ? bundle_run(s->turn->bundle) : rc;
    s->turn->guid.output = output;
    return rc;
}

static int put_facet(struct action *s, qp_str name, const struct mapping *m)
{
    struct op op = {.kind = OP_attr_put, .attr_put = {.ref = s->turn->site.ref, .name = name}};
    int rc = action_text(s, m, &op.attr_put.value);
    if (rc != QP_OK || str_is_none(op.attr_put.value)) {
        return rc;
    }
    if (op.attr_put.value.n > LIMIT_ATTRIBUTE_SIZE) {
        return QP_E_TOO_LARGE;
    }
    return turn_op(s->turn, &op);
}

/* What jobs are found and counted by: the key, and one facet per measure. */
static int put_facets(struct action *s)
{
    const struct activity *x = s->activity;
    int rc = x->job_key == NULL ? QP_OK : put_facet(s, STATS_KEY, x->job_key);
    for (size_t i = 0; i < x->measure_count && rc == QP_OK; i++) {
        rc = put_facet(s, x->measures[i].name, x->measures[i].target);
    }
    return rc;
}

static int check_input(struct action *s, bool *out_fails)
{
    struct qp_err err;
    qp_str error;
    int rc = s->graph->input == NULL
                 ? QP_OK
                 : schema_check(s->graph->input, s->turn->act->input, JSON_CHECKED, &err);
    *out_fails = rc == QP_E_SHAPE;
    if (!*out_fails) {
        return rc;
    }
    rc = action_error(s, 422, err.text, &error);
    turn_fail(s->turn, JOB_FAILED, error);
    return rc;
}

static int spawn(struct action *s, struct spawn *spawn)
{
    bool fails = false;
    int rc = check_input(s, &fails);
    if (rc != QP_OK || fails) {
        return rc;
    }
    QP_TRY(setting_granularity(s));
    rc = put_output(s);
    rc = rc == QP_OK ? put_facets(s) : rc;
    return rc == QP_OK ? advance(s, spawn) : rc;
}

const struct type type_trigger = {.word = "trigger", .spawn = spawn};
