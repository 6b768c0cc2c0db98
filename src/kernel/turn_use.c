/* turn_use.c - what a program can read and do in its turn (see program.h)
 *
 * Everything is an op of the turn's bundle, and commits with the digit that proves it (turn.c).
 *
 *   I1  the GUID of whatever is sent follows from the activity's and a purpose (H5): a step that runs again
 *       sends nothing that is not recognised
 */
#include <stdio.h>

#include "kernel/retry.h"
#include "kernel/turn_internal.h"
#include "store/error.h"

struct arena *turn_arena(struct turn *t)
{
    return &t->bundle->commit->arena;
}

struct faces *turn_faces(struct turn *t)
{
    return t->kernel->faces;
}

bool turn_has_time(struct turn *t)
{
    const struct qp_env *env = store_env(t->bundle->commit->store);
    struct kernel *k = t->kernel;
    int64_t now_us = k->until_us == 0 ? 0 : env->monotonic_us(env->context);
    if (k->until_us == 0 || now_us < k->until_us) {
        return true;
    }
    kernel_cut(k, now_us);
    return false;
}

/* ------------------------------------------------------------------------------------------ reads */

int turn_act(struct turn *t, qp_str addr, const struct act_row **out_act)
{
    const void *row = NULL;
    int rc = bundle_get(
        t->bundle, TABLE_act,
        &(struct act_row){.ns = t->site.ref.ns, .job = t->site.ref.job, .addr = addr}, &row);
    if (rc == QP_OK) {
        *out_act = row;
    }
    return rc;
}

int turn_data(struct turn *t, qp_str name, const struct data_row **out_data)
{
    const void *row = NULL;
    int rc = bundle_get(
        t->bundle, TABLE_data,
        &(struct data_row){.ns = t->site.ref.ns, .job = t->site.ref.job, .name = name}, &row);
    if (rc == QP_OK) {
        *out_data = row;
    }
    return rc;
}

int turn_plane(struct turn *t, qp_str *out_dad)
{
    int64_t index = t->has_guid ? step_dimension(t->guid.ledger) : 0;
    return dad_plane(turn_arena(t), t->at.dad, index, out_dad);
}

/* ----------------------------------------------------------------------------------------- writes */

int turn_op(struct turn *t, const struct op *op)
{
    return step_op(t->bundle, op);
}

/* A message of this job to an activity of it. */
int turn_put(struct turn *t, enum message_kind kind, qp_str addr, qp_str guid,
             const struct op_msg_put *more)
{
    struct op op = {.kind = OP_msg_put, .msg_put = *more};
    op.msg_put.ref = t->site.ref;
    op.msg_put.kind = kind;
    op.msg_put.addr = addr;
    op.msg_put.guid = guid;
    op.msg_put.priority = t->job->priority;
    if (op.msg_put.topic.p == NULL) {
        op.msg_put.topic = ENGINE_TOPIC;
    }
    return turn_op(t, &op);
}

int turn_data_put(struct turn *t, qp_str name, qp_str value)
{
    struct op op = {.kind = OP_data_put,
                    .data_put = {.ref = t->site.ref, .name = name, .value = value}};
    return turn_op(t, &op);
}

int turn_event(struct turn *t, int64_t kind, qp_str detail)
{
    struct op op = {
        .kind = OP_event_add,
        .event_add = {.ref = t->site.ref, .kind = kind, .addr = t->site.addr, .detail = detail}};
    QP_ASSERT(kind >= 0);
    return turn_op(t, &op);
}

int turn_note(struct turn *t, enum kernel_event kind, const struct event_facts *facts)
{
    struct op op = {.kind = OP_event_add, .event_add = {.ref = t->site.ref, .kind = kind}};
    if (kind != EVENT_FORKED) {
        op.event_add.addr = t->site.addr;
    }
    QP_TRY(event_write(store_env(t->bundle->commit->store), turn_arena(t), facts,
                       &op.event_add.detail));
    return turn_op(t, &op);
}

int turn_note_wait(struct turn *t, qp_str topic, qp_str key, qp_ms delay_ms)
{
    qp_ms until = delay_ms > 0 ? bundle_now(t->bundle) + delay_ms : 0;
    return turn_note(t, EVENT_WAITS,
                     &(struct event_facts){.topic = topic, .key = key, .until = until});
}

void turn_wait(struct turn *t)
{
    t->waits = true;
}

int turn_timer(struct turn *t, qp_str purpose, qp_ms delay_ms)
{
    qp_str guid;
    int rc = step_guid(t->bundle, t->site.guid, purpose, &guid);
    /* A timer of no length is due now. */
    struct op_msg_put put = {.parent_guid = t->site.guid, .delay_ms = delay_ms};
    turn_wait(t);
    return rc == QP_OK ? turn_put(t, MESSAGE_ANSWER, t->site.addr, guid, &put) : rc;
}

int turn_key(struct turn *t, const struct op_key_acquire *key, int64_t *out_token)
{
    struct op *op = bundle_op(t->bundle, OP_key_acquire);
    int rc;
    if (op == NULL) {
        return t->bundle->commit->rc;
    }
    op->key_acquire = *key;
    op->key_acquire.holder = t->site.ref;
    op->key_acquire.addr = t->site.addr;
    op->key_acquire.msg_topic = ENGINE_TOPIC;
    rc = step_guid(t->bundle, t->site.guid, key->name, &op->key_acquire.guid);
    rc = rc == QP_OK ? bundle_run(t->bundle) : rc;
    if (rc == QP_OK) {
        *out_token = op->key_acquire.out_token;
    }
    return rc;
}

int answer_add(struct turn *t, const struct answer_at *at, enum message_kind kind)
{
    struct pending_answer *a = ARENA_NEW(turn_arena(t), struct pending_answer);
    if (a == NULL) {
        return QP_E_NOMEM;
    }
    *a = (struct pending_answer){.at = *at, .kind = kind};
    if (t->last_answer == NULL) {
        t->answers = a;
    } else {
        t->last_answer->next = a;
    }
    t->last_answer = a;
    return QP_OK;
}

int turn_answer_at(struct turn *t, const struct answer_at *answer)
{
    return answer_add(t, answer, MESSAGE_ANSWER);
}

int turn_send(struct turn *t, qp_str addr, qp_str purpose, int64_t code, qp_str payload)
{
    return turn_answer_at(
        t, &(struct answer_at){.addr = addr, .purpose = purpose, .code = code, .payload = payload});
}

int turn_cycle(struct turn *t, qp_str ancestor, int64_t depth, qp_str input)
{
    struct answer_at at = {.purpose = QP_STR("cycle"), .code = 200, .payload = input};
    qp_str dad;
    QP_TRY(dad_ancestor(turn_arena(t), t->at.dad, depth, &dad));
    QP_TRY(address_make(turn_arena(t), ancestor, dad, &at.addr));
    return answer_add(t, &at, MESSAGE_CYCLE);
}

int turn_guid(struct turn *t, qp_str purpose, qp_str *out_guid)
{
    char job[24];
    int n = snprintf(job, sizeof job, "%lld", (long long)t->site.ref.job);
    int rc = step_guid(t->bundle, t->site.guid, purpose, out_guid);
    return rc == QP_OK ? step_guid(t->bundle, *out_guid, (qp_str){job, (size_t)n}, out_guid) : rc;
}

void turn_fail(struct turn *t, enum job_state state, qp_str error)
{
    QP_ASSERT(state != JOB_OPEN && state < JOB_STATES);
    t->ends = true;
    t->end_state = state;
    t->end_error = error;
}

int turn_failed(struct turn *t, int64_t code, qp_str error)
{
    struct error e = {.code = code,
                      .message = QP_STR("its answer has the code of an error, and no reason"),
                      .addr = t->site.addr};
    const struct act_row *act = NULL;
    struct op op = {.kind = OP_act_add, .act_add = {.ref = t->site.ref, .addr = t->site.addr}};
    QP_TRY(turn_act(t, t->site.addr, &act));
    QP_ASSERT(act != NULL);
    QP_TRY(error_shape(turn_arena(t), error, &e, &op.act_add.error));
    op.act_add.attempt = act->attempt + 1;
    return turn_op(t, &op);
}

void turn_forget(struct turn *t)
{
    t->children = t->last_child = NULL;
    t->answers = t->last_answer = NULL;
    t->level = NULL;
    t->visits = NULL;
    t->child_count = 0;
    t->waits = false;
    t->works = false;
}

void turn_descend(struct turn *t)
{
    t->descends = true;
}

/* ------------------------------------------------------------------------------------------ tasks */

/* Whether it was born claimed says the op, when it has run; what its claim tells the activity commits with it. */
static int born_claimed(struct turn *t, const struct task_for *task, const struct reservation *at,
                        const struct op_msg_put *put)
{
    struct task_claim claim = {.kind = t->job->kind,
                               .act = task->act,
                               .priority = put->priority,
                               .program_leases = at->program_leases};
    if (t->program->claimed == NULL) {
        return QP_OK;
    }
    QP_TRY(bundle_run(t->bundle));
    claim.by = (struct msg_ref){t->site.ref.ns, t->site.ref.job, put->guid, put->out_token};
    return put->out_token == 0 ? QP_OK : turn_claimed(t->kernel, t->bundle, &claim);
}

static int64_t priority_of(const struct turn *t, const struct task_for *task)
{
    int64_t priority = t->job->priority;
    return task->behind && priority < LIMIT_PRIORITY ? priority + 1 : priority;
}

/* The task goes to a worker at once when one has a place and its lane allows it, else into the stream: which it is
 * says the op (outcome_seal). */
int turn_task_for(struct turn *t, const struct task_for *task)
{
    struct op *op = bundle_op(t->bundle, OP_msg_put);
    struct handed *handed = ARENA_NEW(turn_arena(t), struct handed);
    struct reservation at = {0};
    void *place = t->kernel->reserve(t->kernel->context, t->site.ref.ns, task->topic, &at);
    qp_str limits;
    qp_str limit_key;
    retry_task(task->act->policy, &limits, &limit_key);
    if (op == NULL || handed == NULL || !arena_copy(turn_arena(t), at.worker, &at.worker)) {
        return QP_E_NOMEM;
    }
    op->msg_put =
        (struct op_msg_put){.ref = t->site.ref,
                            .kind = MESSAGE_TASK,
                            .topic = task->topic,
                            .addr = task->act->addr,
                            .parent_guid = t->site.guid,
                            .priority = priority_of(t, task),
                            .limit_key = str_is_none(limit_key) ? t->job->limit_key : limit_key,
                            .limits = limits,
                            .holder = place != NULL && at.lease_ms == 0 ? t->kernel->epoch : 0,
                            .lease_ms = at.lease_ms,
                            .worker = at.worker};
    op->msg_put.guid = task->guid;
    if (place != NULL) {
        *handed = (struct handed){.next = t->outcome->handed,
                                  .place = place,
                                  .seat = at.seat,
                                  .put = &op->msg_put,
                                  .topic = task->topic,
                                  .guid = op->msg_put.guid,
                                  .tries = 1,
                                  .priority = op->msg_put.priority,
                                  .act = task->act,
                                  .jid = t->job->jid,
                                  .workflow = t->job->workflow,
                                  .kind = t->job->kind};
        t->outcome->handed = handed;
    }
    return place == NULL ? QP_OK : born_claimed(t, task, &at, &op->msg_put);
}

int turn_task(struct turn *t, qp_str topic)
{
    struct task_for task = {.act = t->act, .topic = topic};
    t->works = true;
    QP_TRY(step_guid(t->bundle, t->site.guid, QP_STR("task"), &task.guid));
    return turn_task_for(t, &task);
}

int turn_guid_of(struct turn *t, const struct act_row *act, qp_str purpose, qp_str *out_guid)
{
    QP_TRY(step_guid(t->bundle, act->parent_guid, act->addr, out_guid));
    return step_guid(t->bundle, *out_guid, purpose, out_guid);
}

static int tell(struct turn *t, const struct msg_row *m)
{
    struct told_task *told = ARENA_NEW(turn_arena(t), struct told_task);
    if (told == NULL) {
        return QP_E_NOMEM;
    }
    *told = (struct told_task){t->outcome->told, t->site.ref, m->guid};
    t->outcome->told = told;
    return QP_OK;
}

int turn_withdraw(struct turn *t, qp_str guid, bool *out_gone)
{
    struct msg_row key = {.ns = t->site.ref.ns, .job = t->site.ref.job, .guid = guid};
    struct op *op = bundle_op(t->bundle, OP_msg_withdraw);
    const void *row = NULL;
    const struct msg_row *m;
    if (op == NULL) {
        return t->bundle->commit->rc;
    }
    op->msg_withdraw.ref = (struct msg_ref){key.ns, key.job, guid, 0};
    QP_TRY(bundle_run(t->bundle));
    *out_gone = op->msg_withdraw.out_gone;
    QP_TRY(bundle_get(t->bundle, TABLE_msg, &key, &row));
    m = row;
    return m != NULL && m->state == MSG_HELD && m->kind == MESSAGE_TASK ? tell(t, m) : QP_OK;
}

/* --------------------------------------------------------------------------------------- children */

int child_add(struct turn *t, qp_str addr, qp_str input)
{
    struct child *c = ARENA_NEW(turn_arena(t), struct child);
    if (c == NULL) {
        return QP_E_NOMEM;
    }
    *c = (struct child){.addr = addr, .input = input};
    if (t->last_child == NULL) {
        t->children = c;
    } else {
        t->last_child->next = c;
    }
    t->last_child = c;
    t->child_count++;
    return QP_OK;
}

int turn_child(struct turn *t, qp_str name, qp_str input)
{
    qp_str dad;
    qp_str addr;
    int rc = turn_plane(t, &dad);
    rc = rc == QP_OK ? dad_below(turn_arena(t), dad, &dad) : rc;
    rc = rc == QP_OK ? address_make(turn_arena(t), name, dad, &addr) : rc;
    return rc == QP_OK ? child_add(t, addr, input) : rc;
}

int turn_row(struct turn *t, const struct op_act_create *row)
{
    struct op op = {.kind = OP_act_create, .act_create = *row};
    op.act_create.ref = t->site.ref;
    op.act_create.parent_guid = t->site.guid;
    op.act_create.ledger = 0;
    return turn_op(t, &op);
}

int turn_child_at(struct turn *t, qp_str addr)
{
    return child_add(t, addr, QP_NONE);
}

/* What a program without an opinion does: an error that nobody takes fails the job. */
int turn_spawn_nothing(struct turn *t)
{
    if (t->guid.code >= 400) {
        turn_fail(t, JOB_FAILED, t->guid.output);
    }
    return QP_OK;
}
