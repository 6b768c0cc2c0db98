/* deciding.c - decisions as tasks and Leg2 entries of one activity (see deciding.h)
 *
 *   I1  the GUID of decision k follows from the job and k: it is put once, whatever commit puts it again
 */
#include "kernel/deciding.h"

#include <stdio.h>

#include "base/hash.h"
#include "kernel/face.h"
#include "kernel/message.h"
#include "kernel/turn_internal.h"

void deciding_guid(const struct job_row *job, const struct act_row *act,
                   unsigned char out_guid[LIMIT_GUID_SIZE])
{
    char number[32];
    int n =
        snprintf(number, sizeof number, "decide %lld", (long long)ledger_leg2_entries(act->ledger));
    hash_guid(job->owner_guid.p, job->owner_guid.n, number, (size_t)n, out_guid);
}

int turn_decision(struct turn *t, qp_str addr)
{
    struct task_for task = {0};
    unsigned char guid[LIMIT_GUID_SIZE];
    QP_TRY(turn_act(t, addr, &task.act));
    QP_ASSERT(task.act != NULL);
    QP_ASSERT(task.act->cyclic == CYCLIC_OPEN);
    deciding_guid(t->job, task.act, guid);
    if (!arena_copy(turn_arena(t), (qp_str){(const char *)guid, sizeof guid}, &task.guid)) {
        return QP_E_NOMEM;
    }
    task.topic = task.act->topic;
    return turn_task_for(t, &task);
}

int turn_timer_at(struct turn *t, qp_str purpose, qp_ms at_ms)
{
    qp_ms now_ms = bundle_now(t->bundle);
    return turn_timer(t, purpose, at_ms > now_ms ? at_ms - now_ms : 0);
}

/* ------------------------------------------------------------------------------------ what was made */

void deciding_put_made(struct buf *out, size_t count, qp_str addr)
{
    buf_printf(out, "%s\"%.*s\"", count > 0 ? "," : "", STR_ARG(addr));
}

/* Addresses have no escapes. */
bool deciding_made(struct raw_walk *made, qp_str *out_addr)
{
    if (!raw_each(made)) {
        return false;
    }
    *out_addr = (qp_str){made->value.p + 1, made->value.n - 2};
    return true;
}

/* ---------------------------------------------------------------------------------------- what there is */

struct seeing {
    qp_str addr;
    struct deciding_seen *out;
    unsigned char answer[LIMIT_GUID_SIZE]; /* the GUID of the answer that is in the stream */
};

static int see_message(void *context, const void *row)
{
    struct seeing *s = context;
    const struct msg_row *m = row;
    if (!str_equal(m->addr, s->addr)) {
        return QP_OK;
    }
    s->out->has_task |= m->kind == MESSAGE_TASK && m->state != MSG_DEAD;
    s->out->is_dead |= m->kind == MESSAGE_TASK && m->state == MSG_DEAD;
    if (m->kind == MESSAGE_ANSWER || m->kind == MESSAGE_RESULT) {
        QP_ASSERT(m->guid.n == sizeof s->answer);
        memcpy(s->answer, m->guid.p, m->guid.n);
        s->out->has_answer = true;
    }
    return QP_OK;
}

static void see_entry(struct seeing *s, qp_str addr, qp_str guid, int64_t ledger)
{
    bool is_answer = s->out->has_answer && str_equal(addr, s->addr) &&
                     str_equal(guid, (qp_str){(const char *)s->answer, sizeof s->answer});
    s->out->is_due |= !guid_has_spawned(ledger);
    s->out->is_applied |= is_answer && guid_work_is_done(ledger);
}

static int see_guid(void *context, const void *row)
{
    const struct guid_row *guid = row;
    see_entry(context, guid->addr, guid->guid, guid->ledger);
    return QP_OK;
}

static int see_act(void *context, const void *row)
{
    const struct act_row *act = row;
    if (!str_is_none(act->guid)) {
        see_entry(context, act->addr, act->guid, act->guid_ledger);
    }
    return QP_OK;
}

int deciding_see(const struct sight *sight, qp_str addr, struct deciding_seen *out_seen)
{
    struct seeing s = {.addr = addr, .out = out_seen};
    struct job_ref ref = {sight->job->ns, sight->job->job};
    struct msg_row messages = {.ns = ref.ns, .job = ref.job};
    struct guid_row guids = {.ns = ref.ns, .job = ref.job};
    struct act_row acts = {.ns = ref.ns, .job = ref.job};
    struct scan scan = {
        .index = -1, .table = TABLE_msg, .prefix = &messages, .prefix_count = 2, .limit = SIZE_MAX};
    scan.slim = true;
    *out_seen = (struct deciding_seen){0};
    QP_TRY(store_scan(sight->store, &scan, &s, see_message, sight->err));
    scan.table = TABLE_guid;
    scan.prefix = &guids;
    QP_TRY(store_scan(sight->store, &scan, &s, see_guid, sight->err));
    scan.table = TABLE_act;
    scan.prefix = &acts;
    return store_scan(sight->store, &scan, &s, see_act, sight->err);
}
