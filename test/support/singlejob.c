/* singlejob.c - see singlejob.h */
#include "support/singlejob.h"

#include "kernel/message.h"

/* The worker's activity, its Leg1 fused into the trigger's commit, and its task. */
static int start_worker(struct bundle *b, const struct singlejob_start *s, qp_str task)
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

int singlejob_start(struct bundle *b, const struct singlejob_start *s)
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
int singlejob_complete(struct bundle *b, const struct msg_ref *task, qp_str output)
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
