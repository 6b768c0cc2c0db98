/* program.c - how an instance moves: the start, decisions, works and what they report (see program.h)
 *
 *   I1  the semaphore is 1 from the instance's Leg1 until the decision that finds all branches ended and the buffer empty:
 *       works have their obligations from it (ADR 51, decision 2)
 *   I2  at most one decision is out: a turn prepares one when none is ongoing, and the head says until when its task is due
 *   I3  entries of agent,0,0 are decisions, and nothing else is
 *
 * If we crash before a commit, nothing of it happened, and the message, the task or the question comes again. If we crash
 * between step 1 and step 2 of a decision, its works stand with ledger 0, and step 2 goes by the list that step 1 has kept;
 * what arrives meanwhile finds a decision ongoing, or the instance over.
 */
#include "agent/program.h"

#include <stdio.h>

#include "agent/attempt.h"
#include "agent/draft_text.h"
#include "agent/members.h"
#include "agent/start.h"
#include "base/failpoint.h"
#include "kernel/deciding.h"
#include "store/error.h"

static bool is_trigger(const struct turn *t)
{
    return t->act->category == 'D';
}

static bool is_instance(const struct turn *t)
{
    return str_equal(t->site.addr, AGENT_ADDRESS);
}

/* ------------------------------------------------------------------------------------------- Leg1 */

/* Rows of works are made by decisions: the instance, or the task that is a job, is described. */
static int describe(struct turn *t, struct op_act_create *row)
{
    struct agent_start start;
    QP_ASSERT(is_instance(t) || attempt_is_job(t));
    QP_TRY(acting_start(t, &start));
    row->category = 'A';
    if (is_instance(t)) {
        row->cyclic = CYCLIC_OPEN;
        row->policy = QP_STR(AGENT_POLICY);
    } else {
        row->policy = QP_STR(AGENT_TASK_POLICY);
        row->input = start.task;
    }
    return start_topic(turn_arena(t), &start, &row->topic);
}

static int enter_instance(struct turn *t)
{
    struct agent_start start;
    struct acting a;
    QP_TRY(acting_start(t, &start));
    QP_TRY(acting_begin(&a, t));
    QP_TRY(instance_start(&a.s, acting_now(t), start.input, start.properties));
    QP_TRY(acting_save(&a));
    return acting_settle(&a, NULL);
}

/* A wait that has not ended meanwhile gets its timer. By its event alone it needs none. */
static int enter_wait(struct turn *t, struct acting *a, const struct status *status)
{
    struct row_work work;
    qp_str name;
    qp_str text;
    int64_t end_ms = WORK_NO_END;
    QP_TRY(agent_row_name(turn_arena(t), AGENT_WAIT, status->number, 0, &name));
    QP_TRY(a->source.get(t, turn_arena(t), false, name, &text));
    if (str_is_none(text)) {
        return QP_OK;
    }
    QP_TRY(rows_get_wait(turn_arena(t), text, &work, &end_ms));
    bool has_timer = end_ms != WORK_NO_END && !acting_is_led(t);
    return has_timer ? turn_timer_at(t, QP_STR("wait"), end_ms) : QP_OK;
}

static int enter_work(struct turn *t)
{
    struct acting a;
    struct status *status = NULL;
    QP_TRY(acting_load(&a, t, 0));
    QP_TRY(acting_work(&a, t->site.addr, &status));
    QP_ASSERT(status != NULL);
    if (status->work.type == WORK_WAIT) {
        return enter_wait(t, &a, status);
    }
    return attempt_begin(t, status);
}

static int enter(struct turn *t)
{
    if (is_instance(t)) {
        return enter_instance(t);
    }
    return attempt_is_job(t) ? attempt_job_enter(t) : enter_work(t);
}

/* The timer of a wait that is gone does nothing. */
static int yields(struct turn *t, bool *out_yields)
{
    struct acting a;
    struct status *status = NULL;
    int64_t branch = 0;
    int64_t number = 0;
    *out_yields = false;
    if (!agent_work_of(t->site.addr, &branch, &number) || t->code == AGENT_AGAIN) {
        return QP_OK;
    }
    QP_TRY(acting_load(&a, t, 0));
    QP_TRY(stored_work(&a.source, &a.s, branch, number, &status));
    QP_ASSERT(status != NULL);
    *out_yields = status->work.type == WORK_WAIT && status->completed;
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------- step 1 */

/* {"made":["~a0a0",..]}: the works that step 2 enters. */
static int write_made(const struct acting *a, struct buf *out)
{
    size_t count = 0;
    buf_text(out, "{\"made\":[");
    for (size_t i = 0; i < a->s.statuses.count; i++) {
        const struct status *status = a->s.statuses.items[i];
        qp_str address;
        if (status->number >= a->stored.work_count) {
            QP_TRY(
                agent_work_address(turn_arena(a->t), status->branch_key, status->number, &address));
            deciding_put_made(out, count++, address);
        }
    }
    buf_text(out, "]}");
    return buf_rc(out);
}

static int keep_made(const struct acting *a, qp_str *out_text)
{
    struct buf out;
    buf_init(&out, turn_arena(a->t)->env, 0);
    int rc = write_made(a, &out);
    if (rc == QP_OK && !arena_copy(turn_arena(a->t), buf_slice(&out), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

/* That it fits was checked when it came; what it was made on has not changed, since no other decision is out. */
static int decided(struct turn *t, struct work *work)
{
    struct acting a;
    struct draft draft;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS | WINDOW_BUFFER | WINDOW_BATCH));
    QP_TRY(draft_read(turn_arena(t), work->output, &a.s, NULL, &draft));
    QP_TRY(instance_decided(&a.s, acting_now(t), &draft, NULL));
    QP_TRY(acting_save(&a));
    work->code = 200;
    return keep_made(&a, &work->output);
}

/* What an answer of code 400 or more says, which is an error of the kernel. */
static int read_kernel_error(struct turn *t, int64_t code, qp_str payload,
                             struct instance_report *out)
{
    struct error e;
    char text[24];
    qp_str number = {text, 0};
    QP_TRY(error_read(turn_arena(t), payload, &e));
    number.n = (size_t)snprintf(text, sizeof text, "%lld", (long long)code);
    out->hook = HOOK_FAILURE;
    return state_error_make(turn_arena(t), number, e.activity, e.message, &out->error);
}

static int read_failure(struct turn *t, qp_str error, struct instance_report *out)
{
    struct json *tree = NULL;
    QP_TRY(json_build(turn_arena(t)->env, error, NULL, &tree));
    int rc = state_error(turn_arena(t), tree, NULL, &out->error);
    json_free(tree);
    out->hook = HOOK_FAILURE;
    return rc == QP_E_SHAPE ? QP_E_CORRUPT : rc;
}

/* {"output":text} or {"failed":ERROR} of a task, with "attempt" where it is a job of its own; the output of a child is its text
 * alone. */
static int read_answer(struct turn *t, int64_t code, qp_str payload, struct instance_report *out)
{
    qp_str failed = QP_NONE;
    const struct member members[] = {TEXT("output", &out->output), RAW("failed", &failed),
                                     NUMBER("attempt", &out->attempt)};
    out->hook = HOOK_SUCCESS;
    if (code >= 400) {
        out->began = false; /* its job may have ended before */
        return read_kernel_error(t, code, payload, out);
    }
    if (raw_first(payload) != '{') {
        bool is_text = raw_text(turn_arena(t)->env, turn_arena(t), payload, &out->output);
        out->output = is_text ? out->output : QP_NONE;
        return QP_OK;
    }
    QP_TRY(members_read(turn_arena(t), payload, members, ARRAY_COUNT(members)));
    return str_is_none(failed) ? QP_OK : read_failure(t, failed, out);
}

/* A timer that has fired says that its time has come, whatever the clock of this commit is: it may be behind that of the commit
 * that made the timer due, and no other message would end the wait. */
static int64_t timer_now(const struct acting *a, const struct status *status)
{
    int64_t now_ms = acting_now(a->t);
    for (size_t i = 0; i < a->s.wait_count; i++) {
        const struct wait *wait = &a->s.waits[i];
        if (wait->status == status && wait->end_ms != WORK_NO_END && wait->end_ms > now_ms) {
            now_ms = wait->end_ms;
        }
    }
    return now_ms;
}

static int reported(struct turn *t, struct work *work)
{
    struct acting a;
    struct status *status = NULL;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS));
    QP_TRY(acting_work(&a, t->site.addr, &status));
    QP_ASSERT(status != NULL);
    if (status->work.type == WORK_WAIT) {
        QP_TRY(instance_timers(&a.s, timer_now(&a, status)));
    } else {
        struct instance_report report = {.branch_key = status->branch_key,
                                         .position = status->work.position,
                                         .began = attempt_began(t, status)};
        QP_TRY(read_answer(t, work->code, work->output, &report));
        QP_TRY(attempt_end(t, status));
        QP_TRY(instance_report(&a.s, acting_now(t), &report));
        if (PLANT(result_twice) && t->stepwise) {
            status->completed = false;
            QP_TRY(instance_report(&a.s, acting_now(t), &report));
        }
    }
    return acting_save(&a);
}

static int work(struct turn *t, struct work *work)
{
    if (is_trigger(t) || work->code == AGENT_AGAIN) {
        return QP_OK;
    }
    if (attempt_is_job(t)) {
        return attempt_job_work(t, work);
    }
    return is_instance(t) ? decided(t, work) : reported(t, work);
}

/* ----------------------------------------------------------------------------------------- step 2 */

static int enter_one(struct acting *a, qp_str address)
{
    qp_str guid;
    if (a->s.completed) {
        QP_TRY(step_guid(a->t->bundle, a->t->site.guid, address, &guid));
        QP_TRY(attempt_outlive(a, address, guid));
    }
    return turn_child_at(a->t, address);
}

static int enter_made(struct acting *a)
{
    struct raw_walk kept = {.rest = a->t->guid.output};
    qp_str address;
    while (raw_each(&kept)) {
        struct raw_walk made = {.rest = kept.value};
        while (deciding_made(&made, &address)) {
            QP_TRY(enter_one(a, address));
        }
    }
    return QP_OK;
}

static int spawn_decided(struct turn *t, struct spawn *spawn)
{
    struct acting a;
    bool waits = false;
    QP_TRY(acting_load(&a, t, 0));
    QP_TRY(enter_made(&a));
    spawn->given = true;
    spawn->delta = a.s.completed ? -1 : 0;
    if (a.s.completed) {
        return attempt_outlive_all(&a);
    }
    QP_TRY(acting_settle(&a, &waits));
    if (waits) {
        spawn->notify = (struct op_act_notify){.addr = AGENT_ADDRESS, .rests = true};
    }
    return QP_OK;
}

static int spawn_reported(struct turn *t, struct spawn *spawn)
{
    struct acting a;
    struct status *status = NULL;
    spawn->given = true;
    spawn->delta = 0;
    QP_TRY(acting_load(&a, t, 0));
    QP_TRY(acting_settle(&a, NULL));
    if (t->guid.code != AGENT_AGAIN) {
        return QP_OK;
    }
    QP_TRY(acting_work(&a, t->site.addr, &status));
    QP_ASSERT(status != NULL);
    return attempt_begin(t, status);
}

static int spawn_trigger(struct turn *t)
{
    struct agent_start start;
    QP_TRY(acting_start(t, &start));
    return turn_child(t, str_is_none(start.task) ? AGENT_ACTIVITY : AGENT_TASK_ACTIVITY, QP_NONE);
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    if (is_trigger(t)) {
        return spawn_trigger(t);
    }
    if (attempt_is_job(t)) {
        return attempt_job_spawn(t);
    }
    return is_instance(t) ? spawn_decided(t, spawn) : spawn_reported(t, spawn);
}

/* ----------------------------------------------------------------------------------------- the end */

/* The output of an instance is that of its first branch, a text. */
static int complete(struct turn *t, struct complete *complete)
{
    struct branch branch = {0};
    const struct data_row *row = NULL;
    qp_str name;
    if (t->job->state != JOB_COMPLETED || !is_instance(t)) {
        return QP_OK;
    }
    QP_TRY(agent_row_name(turn_arena(t), AGENT_BRANCH, 0, 0, &name));
    QP_TRY(turn_data(t, name, &row));
    QP_ASSERT(row != NULL);
    QP_TRY(rows_get_branch(turn_arena(t), row->value, &branch));
    return state_text(turn_arena(t), branch.output, &complete->output);
}

struct program agent_program(struct agents *agents)
{
    return (struct program){.kind = AGENT_KIND,
                            .name = AGENT_NAME,
                            .context = agents,
                            .describe = describe,
                            .enter = enter,
                            .yields = yields,
                            .work = work,
                            .again = attempt_again,
                            .claimed = attempt_claimed,
                            .notice = attempt_notice,
                            .spawn = spawn,
                            .complete = complete};
}
