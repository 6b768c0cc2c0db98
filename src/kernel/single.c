/* single.c - jobs of one activity (see single.h)
 *
 * If we crash before the first commit, there is no job and nobody was told of one. If we crash
 * between the two, the task's row says who held it, and the next run takes it up again with a
 * higher token; a completion that still carries the old one is refused by msg_ack. If we crash
 * after the second, the job is closed and nothing is left to do.
 */
#include "kernel/single.h"

/* ---------------------------------------------------------------------------------------- program */

static int single_describe(struct turn *t, struct op_act_create *row)
{
    const struct act_row *trigger = NULL;
    int rc = turn_act(t, TRIGGER_ADDRESS, &trigger);
    row->category = 'A';
    row->topic = t->job->workflow;
    row->policy = rc == QP_OK && trigger != NULL ? trigger->policy : QP_NONE;
    return rc;
}

static int single_enter(struct turn *t)
{
    return turn_task(t, t->act->topic);
}

static int single_spawn(struct turn *t, struct spawn *spawn)
{
    (void)spawn;
    return t->act->category == 'D' ? turn_child(t, QP_STR("run"), t->act->input)
                                   : turn_spawn_nothing(t);
}

const struct program single_program = {.kind = SINGLE_KIND,
                                       .name = "single",
                                       .leaves_nothing = true,
                                       .describe = single_describe,
                                       .enter = single_enter,
                                       .spawn = single_spawn};

/* ------------------------------------------------------------------------------------------- face */

/* The output of a single task is that of the response which closed it: it stands once, on that row. */
static int closing_output(const struct sight *sight, qp_str *out_output)
{
    const struct job_row *job = sight->job;
    struct guid_row key = {
        .ns = job->ns, .job = job->job, .addr = QP_STR(SINGLE_ADDRESS), .guid = job->closed_by};
    struct guid_row closing = {0};
    int rc;
    if (job->state != JOB_COMPLETED || job->output.p != NULL || job->closed_by.p == NULL) {
        return QP_OK;
    }
    rc = store_guid(sight->store, sight->arena, &key, &closing, sight->err);
    if (rc == QP_OK) {
        *out_output = closing.output;
    }
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int describe_job(void *state, const struct sight *sight, struct qp_job_info *info)
{
    (void)state;
    return closing_output(sight, &info->output);
}

/* Its one activity is named by its topic. */
static int describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                             struct qp_activity *told)
{
    (void)state;
    (void)sight;
    told->name = act->topic;
    return QP_OK;
}

static int describe_history(void *state, const struct sight *sight, int64_t kind,
                            struct qp_event *event)
{
    (void)state;
    (void)kind;
    if (str_equal(event->address, QP_STR(SINGLE_ADDRESS))) {
        event->name = sight->job->workflow;
    }
    return QP_OK;
}

static int outcome(void *state, const struct sight *sight, qp_str *out_output, int64_t *out_ledger)
{
    struct act_row key = {
        .ns = sight->job->ns, .job = sight->job->job, .addr = QP_STR(SINGLE_ADDRESS)};
    const void *row = NULL;
    int rc = store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err);
    (void)state;
    if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
        return rc;
    }
    *out_ledger = rc == QP_OK ? ((const struct act_row *)row)->ledger : 0;
    return closing_output(sight, out_output);
}

static struct program program_of(void *state)
{
    (void)state;
    return single_program;
}

const struct face single_face = {.kind = SINGLE_KIND,
                                 .name = "single",
                                 .name_kind = NAMES_PLAIN,
                                 .hook_kind = NAMES_NONE,
                                 .program = program_of,
                                 .describe_job = describe_job,
                                 .describe_activity = describe_activity,
                                 .describe_history = describe_history,
                                 .outcome = outcome};
