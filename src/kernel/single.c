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
static int describe_job(void *state, const struct sight *sight, struct qp_job_info *info)
{
    const struct job_row *job = sight->job;
    struct guid_row key = {
        .ns = job->ns, .job = job->job, .addr = QP_STR(SINGLE_ADDRESS), .guid = job->closed_by};
    struct guid_row closing = {0};
    int rc;
    (void)state;
    if (job->state != JOB_COMPLETED || job->output.p != NULL || job->closed_by.p == NULL) {
        return QP_OK;
    }
    rc = store_guid(sight->store, sight->arena, &key, &closing, sight->err);
    if (rc == QP_OK) {
        info->output = closing.output;
    }
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
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
                                 .describe_job = describe_job};

/* --------------------------------------------------------------------------------- without an engine */

/* The worker's activity, its Leg1 fused into the trigger's commit, and its task. */
static int start_worker(struct bundle *b, const struct single_start *s, qp_str task)
{
    struct op act = {.kind = OP_act_create,
                     .act_create = {.ref = s->ref,
                                    .addr = QP_STR(SINGLE_ADDRESS),
                                    .category = 'A',
                                    .ledger = LEDGER_WAITING,
                                    .parent_guid = s->owner_guid,
                                    .topic = s->topic,
                                    .input = s->input}};
    struct op put = {.kind = OP_msg_put,
                     .msg_put = {.ref = s->ref,
                                 .guid = task,
                                 .kind = MESSAGE_TASK,
                                 .topic = s->topic,
                                 .addr = QP_STR(SINGLE_ADDRESS),
                                 .parent_guid = s->owner_guid}};
    int rc = step_op(b, &act);
    return rc == QP_OK ? step_op(b, &put) : rc;
}

int single_start(struct bundle *b, const struct single_start *s)
{
    struct incept incept = {.addr = TRIGGER_ADDRESS,
                            .input = s->input,
                            .job = {.ref = s->ref,
                                    .jid = s->jid,
                                    .fresh = s->fresh_jid,
                                    .workflow = s->topic,
                                    .owner_guid = s->owner_guid}};
    struct site trigger = {.ref = s->ref, .addr = TRIGGER_ADDRESS, .guid = s->owner_guid};
    qp_str task;
    int rc = step_guid(b, s->owner_guid, QP_STR("task"), &task);
    rc = rc == QP_OK ? step_guid(b, s->topic, s->input, &incept.job.body_hash) : rc;
    rc = rc == QP_OK ? job_incept(b, &incept) : rc;
    rc = rc == QP_OK ? start_worker(b, s, task) : rc;
    return rc == QP_OK ? step_open(b, &trigger, 1) : rc;
}

/* Leg2, fused: entry, steps 1 and 2, and, since nothing else is open, the edge and step 3. */
int single_complete(struct bundle *b, const struct msg_ref *task, qp_str output)
{
    struct site worker = {.ref = {task->ns, task->job}, .addr = QP_STR(SINGLE_ADDRESS)};
    struct spawn none = {.n = 0, .delta = -1, .close_state = JOB_COMPLETED};
    struct op ack = {.kind = OP_msg_ack, .msg_ack = {.ref = *task}};
    int rc = step_guid(b, task->guid, QP_STR("response"), &worker.guid);
    rc = rc == QP_OK ? step_op(b, &ack) : rc;
    rc = rc == QP_OK ? leg2_enter(b, &worker, CEILINGS_DEFAULT) : rc;
    rc = rc == QP_OK ? step_work(b, &worker, 200, output) : rc;
    rc = rc == QP_OK ? step_spawn(b, &worker, &none) : rc;
    /* The job's output is the worker's, which stands on its row. */
    return rc == QP_OK ? step_complete(b, &worker, &(struct complete){0}) : rc;
}
