/* single.c - jobs of one activity (see single.h)
 *
 * If we crash before the first commit, there is no job and nobody was told of one. If we crash
 * between the two, the task's row says who held it, and the next run takes it up again with a
 * higher token; a completion that still carries the old one is refused by msg_ack. If we crash
 * after the second, the job is closed and nothing is left to do.
 */
#include "kernel/single.h"

#include "base/hash.h"
#include "kernel/ledger.h"

#define TRIGGER_ADDRESS QP_STR("trigger,0")

/* A GUID that follows from another: whoever derives it again gets the same one (H5). */
static int guid_derive(struct bundle *b, qp_str from, qp_str purpose, qp_str *out_guid)
{
    char *bytes = arena_bytes(&b->commit->arena, LIMIT_GUID_SIZE);
    if (bytes == NULL) {
        return QP_E_NOMEM;
    }
    hash_guid(from.p, from.n, purpose.p, purpose.n, (unsigned char *)bytes);
    *out_guid = (qp_str){bytes, LIMIT_GUID_SIZE};
    return QP_OK;
}

static bool add(struct bundle *b, const struct op *op)
{
    struct op *place = bundle_op(b, op->kind);
    if (place != NULL) {
        *place = *op;
    }
    return place != NULL;
}

static bool start_job(struct bundle *b, const struct single_start *s, qp_str hash)
{
    return add(b, &(struct op){.kind = OP_job_create,
                               .job_create = {.ref = s->ref,
                                              .jid = s->jid,
                                              .workflow = s->topic,
                                              .owner_guid = s->owner_guid,
                                              .body_hash = hash}}) &&
           add(b, &(struct op){.kind = OP_act_create,
                               .act_create = {.ref = s->ref,
                                              .addr = TRIGGER_ADDRESS,
                                              .category = 'D',
                                              .ledger = LEDGER_TRIGGER,
                                              .input = s->input}}) &&
           add(b, &(struct op){.kind = OP_guid_enter,
                               .guid_enter = {.ref = s->ref,
                                              .addr = TRIGGER_ADDRESS,
                                              .guid = s->owner_guid,
                                              .ledger = GUID_WORK}});
}

static bool start_worker(struct bundle *b, const struct single_start *s, qp_str task)
{
    return add(b, &(struct op){.kind = OP_act_create,
                               .act_create = {.ref = s->ref,
                                              .addr = QP_STR(SINGLE_ADDRESS),
                                              .category = 'A',
                                              .ledger = LEDGER_WAITING,
                                              .parent_guid = s->owner_guid,
                                              .topic = s->topic,
                                              .input = s->input}}) &&
           add(b, &(struct op){.kind = OP_msg_put,
                               .msg_put = {.ref = s->ref,
                                           .guid = task,
                                           .topic = s->topic,
                                           .addr = QP_STR(SINGLE_ADDRESS),
                                           .parent_guid = s->owner_guid}}) &&
           add(b, &(struct op){.kind = OP_sem_move,
                               .sem_move = {.ref = s->ref,
                                            .addr = TRIGGER_ADDRESS,
                                            .guid = s->owner_guid,
                                            .delta = 1,
                                            .n = 1,
                                            .open = true,
                                            .spawn_weight = GUID_SPAWNED,
                                            .edge_weight = GUID_CLOSED,
                                            .close_state = JOB_COMPLETED,
                                            .guards = {guard_digit(GUID_WORK, 1),
                                                       guard_digit(GUID_SPAWNED, 0)},
                                            .guard_count = 2}});
}

int single_start(struct bundle *b, const struct single_start *s)
{
    qp_str task;
    qp_str hash;
    int rc = guid_derive(b, s->owner_guid, QP_STR("task"), &task);
    rc = rc == QP_OK ? guid_derive(b, s->topic, s->input, &hash) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    return start_job(b, s, hash) && start_worker(b, s, task) ? QP_OK : b->commit->rc;
}

/* Leg2, fused: entry, steps 1 and 2, and, since nothing else is open, the edge and step 3. */
static bool complete_steps(struct bundle *b, struct job_ref ref, qp_str guid, qp_str output)
{
    qp_str addr = QP_STR(SINGLE_ADDRESS);
    return add(b, &(struct op){.kind = OP_guid_enter,
                               .guid_enter = {.ref = ref,
                                              .addr = addr,
                                              .guid = guid,
                                              .ordinal_ceiling = LIMIT_LEG2_ENTRIES,
                                              .ledger = GUID_WORK,
                                              .guards = {guard_digit(LEDGER_LEG1_DONE, 1),
                                                         guard_digit(LEDGER_FINAL_DIGIT, 0)},
                                              .guard_count = 2,
                                              .code = 200,
                                              .output = output}}) &&
           add(b, &(struct op){.kind = OP_sem_move,
                               .sem_move = {.ref = ref,
                                            .addr = addr,
                                            .guid = guid,
                                            .delta = -1,
                                            .spawn_weight = GUID_SPAWNED,
                                            .edge_weight = GUID_CLOSED,
                                            .close_state = JOB_COMPLETED,
                                            .guards = {guard_digit(GUID_WORK, 1),
                                                       guard_digit(GUID_SPAWNED, 0)},
                                            .guard_count = 2}}) &&
           add(b, &(struct op){.kind = OP_guid_add,
                               .guid_add = {.ref = ref,
                                            .addr = addr,
                                            .guid = guid,
                                            .weight = GUID_COMPLETED,
                                            .guards = {guard_digit(GUID_CLOSED, 1),
                                                       guard_digit(GUID_COMPLETED, 0)},
                                            .guard_count = 2}}) &&
           add(b, &(struct op){.kind = OP_act_add,
                               .act_add = {.ref = ref,
                                           .addr = addr,
                                           .weight = LEDGER_FINALIZED,
                                           .guards = {guard_digit(LEDGER_FINAL_DIGIT, 0)},
                                           .guard_count = 1,
                                           .attempt = -1}}) &&
           add(b, &(struct op){.kind = OP_job_finish,
                               .job_finish = {.ref = ref, .guid = guid, .output = output}});
}

int single_complete(struct bundle *b, const struct msg_ref *task, qp_str output)
{
    struct job_ref ref = {task->ns, task->job};
    qp_str guid;
    int rc = guid_derive(b, task->guid, QP_STR("response"), &guid);
    if (rc != QP_OK) {
        return rc;
    }
    return add(b, &(struct op){.kind = OP_msg_ack, .msg_ack = {.ref = *task}}) &&
                   complete_steps(b, ref, guid, output)
               ? QP_OK
               : b->commit->rc;
}
