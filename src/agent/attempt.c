/* attempt.c - attempts of works, and the notices that tell of them (see attempt.h)
 *
 *   I1  a notice names its attempt. One that is of an attempt which is over is ignored, and one that shows that others were
 *       before it brings what was missing of those (instance_report)
 *   I2  an attempt that has ended has begun: its end puts the onStart that has not come yet before itself
 *   I3  a dispatched task has its attempts in its own job, which tells the instance of each and answers once; it goes on when the
 *       instance has ended, whose job then drops the notices
 *
 *     claim            STARTED n --> onStart          \
 *       + limit        LATE n -----> onTimeout         >  one buffer, each once per attempt
 *     worker's error   n is over, n + 1 will come      |
 *     result           onSuccess, onFailure           /
 *
 * If we crash before the commit of a claim, an error or a result, it comes again with its task. Behind it the notice is in the
 * stream of the job, and what it tells commits with its ack.
 */
#include "agent/attempt.h"

#include <stdio.h>

#include "agent/members.h"
#include "agent/start.h"
#include "kernel/message.h"

/* An attempt has failed, and its worker says when the next one is: {"attempt":n,"delay":ms}. */
#define NOTICE_AGAIN NOTICE_KINDS

bool attempt_is_job(const struct turn *t)
{
    return str_equal(t->site.addr, AGENT_TASK_ADDRESS);
}

static bool is_job_here(const struct turn *t, const struct status *status)
{
    return !acting_is_led(t) && (status->work.type == WORK_WORKFLOW || !status->work.sync);
}

bool attempt_began(const struct turn *t, const struct status *status)
{
    return !acting_is_led(t) && status->work.type == WORK_TASK;
}

static int number_text(struct arena *arena, int64_t number, qp_str *out_text)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)number);
    return arena_copy(arena, (qp_str){text, (size_t)n}, out_text) ? QP_OK : QP_E_NOMEM;
}

/* -------------------------------------------------------------------------------------- an attempt */

/* A job of its own: a child, or a task that is not awaited. */
static int call_job(struct turn *t, const struct status *status)
{
    struct agent_start start;
    struct agent_start child = {0};
    struct call_job call = {.workflow = status->work.name,
                            .kind = AGENT_KIND,
                            .version = status->work.name,
                            .purpose = QP_STR("call")};
    QP_TRY(acting_start(t, &start));
    child.language = start.language;
    child.environment = start.environment;
    if (status->work.type == WORK_WORKFLOW) {
        child.input = child.properties = status->work.input;
        child.is_unnamed = true; /* a work names what it wants, and may do so without a version */
    } else {
        child.task = t->act->input;
        child.attempt = status->attempt;
    }
    QP_TRY(start_write(turn_arena(t), &child, &call.input));
    return turn_call(t, &call);
}

/* What a report is, once its work is known. Nothing is written of one that is ignored. */
static int report(struct turn *t, struct instance_report *report, enum agent_event event)
{
    struct acting a;
    struct status *status = NULL;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS));
    QP_TRY(acting_work(&a, t->site.addr, &status));
    QP_ASSERT(status != NULL);
    report->branch_key = status->branch_key;
    report->position = status->work.position;
    report->began = attempt_began(t, status);
    QP_TRY(instance_report(&a.s, acting_now(t), report));
    if (a.s.ignored) {
        return QP_OK;
    }
    return acting_conclude(&a, event, status->work.name);
}

/* A child has started as soon as its job is there (I18). */
static int child_started(struct turn *t, const struct status *status)
{
    struct instance_report started = {.hook = HOOK_START, .attempt = status->attempt};
    QP_TRY(turn_late_set(t, status->attempt, status->work.max_processing_ms));
    return report(t, &started, AGENT_STARTED);
}

int attempt_begin(struct turn *t, const struct status *status)
{
    struct task_for task = {.act = t->act, .topic = t->act->topic, .behind = true};
    QP_ASSERT(status->work.type != WORK_WAIT);
    if (is_job_here(t, status)) {
        QP_TRY(call_job(t, status));
        return status->work.type == WORK_WORKFLOW ? child_started(t, status) : QP_OK;
    }
    QP_TRY(step_guid(t->bundle, t->site.guid, QP_STR("task"), &task.guid));
    return turn_task_for(t, &task);
}

int attempt_outlive(struct acting *a, qp_str address, qp_str guid)
{
    struct turn at = *a->t;
    struct status *status = NULL;
    QP_TRY(acting_work(a, address, &status));
    QP_ASSERT(status != NULL);
    if (status->work.sync || !is_job_here(a->t, status)) {
        return QP_OK;
    }
    at.site.addr = address;
    at.site.guid = guid;
    QP_TRY(turn_act(a->t, address, &at.act));
    QP_ASSERT(at.act != NULL);
    return call_job(&at, status);
}

/* A work that is to be entered. */
struct entering {
    struct entering *next;
    qp_str address;
    qp_str guid;
};

struct entering_list {
    struct arena *arena;
    struct entering *first;
};

static int see_entering(void *context, const void *row)
{
    struct entering_list *list = context;
    const struct msg_row *m = row;
    struct entering *one;
    int64_t branch = 0;
    int64_t number = 0;
    if (m->kind != MESSAGE_ENTER || !agent_work_of(m->addr, &branch, &number)) {
        return QP_OK;
    }
    one = ARENA_NEW(list->arena, struct entering);
    if (one == NULL || !arena_copy(list->arena, m->addr, &one->address) ||
        !arena_copy(list->arena, m->guid, &one->guid)) {
        return QP_E_NOMEM;
    }
    one->next = list->first;
    list->first = one;
    return QP_OK;
}

int attempt_outlive_all(struct acting *a)
{
    struct msg_row job = {.ns = a->t->site.ref.ns, .job = a->t->site.ref.job};
    struct scan all = {
        .table = TABLE_msg, .index = -1, .prefix = &job, .prefix_count = 2, .limit = SIZE_MAX};
    struct entering_list list = {.arena = turn_arena(a->t)};
    QP_TRY(bundle_each(a->t->bundle, &all, &list, see_entering));
    for (const struct entering *one = list.first; one != NULL; one = one->next) {
        QP_TRY(attempt_outlive(a, one->address, one->guid));
    }
    return QP_OK;
}

int attempt_end(struct turn *t, const struct status *status)
{
    bool measured = !acting_is_led(t) && status->work.max_processing_ms > 0 &&
                    (status->work.sync || status->work.type == WORK_WORKFLOW);
    return measured ? turn_late_clear(t, status->attempt) : QP_OK;
}

/* --------------------------------------------------------------------------------------- its claim */

/* Which attempt of a work runs; 0: its row does not say, which fsck finds, and no other task waits for that. */
static int peek_attempt(struct bundle *b, const struct act_row *act, int64_t branch, int64_t number,
                        int64_t *out_attempt)
{
    struct data_row key = {.ns = act->ns, .job = act->job};
    struct status status = {0};
    const void *row = NULL;
    QP_TRY(agent_row_name(&b->commit->arena, AGENT_WORK, branch, number, &key.name));
    QP_TRY(bundle_peek(b, TABLE_data, &key, &row));
    if (row == NULL) {
        return QP_OK;
    }
    int rc = rows_get_work(&b->commit->arena, ((const struct data_row *)row)->value, &status);
    *out_attempt = rc == QP_OK ? status.attempt : 0;
    return rc == QP_E_CORRUPT ? QP_OK : rc;
}

static int peek_job_attempt(struct bundle *b, const struct act_row *act, int64_t *out_attempt)
{
    struct data_row key = {.ns = act->ns, .job = act->job, .name = AGENT_TASK_ATTEMPT};
    const void *row = NULL;
    QP_TRY(bundle_peek(b, TABLE_data, &key, &row));
    if (row == NULL || !members_i64(((const struct data_row *)row)->value, out_attempt)) {
        *out_attempt = 0;
    }
    return QP_OK;
}

int attempt_claimed(void *context, struct bundle *b, const struct act_row *act,
                    struct claim_notices *out_notices)
{
    const struct agents *agents = context;
    struct status status = {0};
    int64_t branch = 0;
    int64_t number = 0;
    if (agents->lead_ms != NULL) {
        return QP_OK;
    }
    if (agent_work_of(act->addr, &branch, &number)) {
        QP_TRY(peek_attempt(b, act, branch, number, &out_notices->attempt));
    } else if (str_equal(act->addr, AGENT_TASK_ADDRESS)) {
        QP_TRY(peek_job_attempt(b, act, &out_notices->attempt));
    }
    if (out_notices->attempt == 0) {
        return QP_OK;
    }
    QP_TRY(rows_get_definition(&b->commit->arena, act->input, &status));
    out_notices->late_ms = status.work.max_processing_ms;
    out_notices->lease_ms = attempt_lease(agents, &status);
    return QP_OK;
}

qp_ms attempt_lease(const struct agents *agents, const struct status *status)
{
    qp_ms limit = status->work.max_processing_ms;
    qp_ms lease = limit > LIMIT_LEASE_MS / 2 ? LIMIT_LEASE_MS : 2 * limit;
    return lease > agents->lease_ms ? lease : agents->lease_ms;
}

/* ----------------------------------------------------------------------------------------- notices */

static int read_notice(struct turn *t, struct instance_report *out, enum agent_event *out_event)
{
    const struct member members[] = {NUMBER("attempt", &out->attempt),
                                     NUMBER("delay", &out->retry_delay_ms)};
    switch ((int)t->code) {
    case NOTICE_STARTED:
        out->hook = HOOK_START;
        *out_event = AGENT_STARTED;
        break;
    case NOTICE_LATE:
        out->hook = HOOK_TIMEOUT;
        *out_event = AGENT_LATE;
        break;
    case NOTICE_AGAIN:
        out->hook = HOOK_FAILURE;
        out->retries = true;
        *out_event = AGENT_AGAIN_LATER;
        return members_read(turn_arena(t), t->payload, members, ARRAY_COUNT(members));
    default:
        return QP_E_CORRUPT;
    }
    return members_i64(t->payload, &out->attempt) ? QP_OK : QP_E_CORRUPT;
}

/* The purpose of a notice to the instance: which one, and of which attempt. */
static int tell(struct turn *t, int64_t code, int64_t attempt, qp_str payload)
{
    struct parent_notice notice = {.code = code, .payload = payload};
    char purpose[48];
    int n = snprintf(purpose, sizeof purpose, "%lld of %lld", (long long)code, (long long)attempt);
    notice.purpose = (qp_str){purpose, (size_t)n};
    return turn_tell_parent(t, &notice);
}

static int job_attempt(struct turn *t, int64_t *out_attempt)
{
    const struct data_row *row = NULL;
    QP_TRY(turn_data(t, AGENT_TASK_ATTEMPT, &row));
    return row != NULL && members_i64(row->value, out_attempt) ? QP_OK : QP_E_CORRUPT;
}

/* In the job of a dispatched task: the instance gets the notice. */
static int pass_on(struct turn *t, const struct instance_report *r)
{
    int64_t attempt = 0;
    QP_TRY(job_attempt(t, &attempt));
    return r->attempt == attempt ? tell(t, t->code, attempt, t->payload) : QP_OK;
}

int attempt_notice(struct turn *t)
{
    struct instance_report r = {0};
    enum agent_event event = AGENT_STARTED;
    QP_TRY(read_notice(t, &r, &event));
    return attempt_is_job(t) ? pass_on(t, &r) : report(t, &r, event);
}

/* ------------------------------------------------------------------------------------- another one */

static int put_job_attempt(struct turn *t, int64_t attempt)
{
    qp_str text;
    QP_TRY(number_text(turn_arena(t), attempt, &text));
    return turn_data_put(t, AGENT_TASK_ATTEMPT, text);
}

static int job_again(struct turn *t, qp_ms delay_ms)
{
    int64_t attempt = 0;
    int64_t delay = delay_ms;
    const struct member members[] = {NUMBER("attempt", &attempt), NUMBER("delay", &delay)};
    qp_str payload;
    QP_TRY(job_attempt(t, &attempt));
    QP_TRY(members_write(turn_arena(t), members, ARRAY_COUNT(members), &payload));
    QP_TRY(turn_late_clear(t, attempt));
    QP_TRY(put_job_attempt(t, attempt + 1));
    return tell(t, NOTICE_AGAIN, attempt, payload);
}

int attempt_again(struct turn *t, qp_ms delay_ms)
{
    struct acting a;
    struct status *status = NULL;
    int64_t branch = 0;
    int64_t number = 0;
    if (attempt_is_job(t)) {
        return job_again(t, delay_ms);
    }
    if (!agent_work_of(t->site.addr, &branch, &number)) {
        return QP_OK;
    }
    QP_TRY(acting_load(&a, t, WINDOW_WAITS));
    QP_TRY(acting_work(&a, t->site.addr, &status));
    QP_ASSERT(status != NULL);
    struct instance_report failed = {.hook = HOOK_FAILURE,
                                     .branch_key = branch,
                                     .position = status->work.position,
                                     .retries = true,
                                     .retry_delay_ms = delay_ms,
                                     .began = attempt_began(t, status)};
    QP_TRY(attempt_end(t, status));
    QP_TRY(instance_report(&a.s, acting_now(t), &failed));
    QP_TRY(acting_save(&a));
    return acting_settle(&a, NULL);
}

/* -------------------------------------------------------------------------- the job of a dispatched task */

int attempt_job_enter(struct turn *t)
{
    struct task_for task = {.act = t->act, .topic = t->act->topic, .behind = true};
    struct agent_start start;
    QP_TRY(acting_start(t, &start));
    QP_TRY(put_job_attempt(t, start.attempt));
    t->works = true;
    QP_TRY(step_guid(t->bundle, t->site.guid, QP_STR("task"), &task.guid));
    return turn_task_for(t, &task);
}

int attempt_job_work(struct turn *t, struct work *work)
{
    qp_str output = QP_NONE;
    qp_str failed = QP_NONE;
    int64_t attempt = 0;
    const struct member members[] = {TEXT("output", &output), RAW("failed", &failed),
                                     NUMBER("attempt", &attempt)};
    if (work->code >= 400) {
        return QP_OK;
    }
    QP_TRY(members_read(turn_arena(t), work->output, members, ARRAY_COUNT(members)));
    QP_TRY(job_attempt(t, &attempt));
    return members_write(turn_arena(t), members, ARRAY_COUNT(members), &work->output);
}

/* Its caller gets what its worker said, also of an error. */
int attempt_job_spawn(struct turn *t)
{
    qp_str failed = QP_NONE;
    const struct member members[] = {RAW("failed", &failed)};
    if (t->guid.code >= 400) {
        return turn_spawn_nothing(t);
    }
    QP_TRY(members_read(turn_arena(t), t->guid.output, members, ARRAY_COUNT(members)));
    if (str_is_none(failed)) {
        return QP_OK;
    }
    QP_TRY(turn_answer_parent(t, 200, t->guid.output));
    turn_fail(t, JOB_FAILED, failed);
    return QP_OK;
}
