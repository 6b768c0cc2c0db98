/* instance.c - the turns: buffer, prepare, trigger, apply */
#include "agent/instance.h"

#include <stdlib.h>

#include "base/failpoint.h"

void instance_init(struct instance *s, struct arena *arena, qp_str id, qp_str workflow_name)
{
    *s = (struct instance){
        .arena = arena, .id = id, .workflow_name = workflow_name, .ongoing_index = NO_INDEX};
}

/* ---------------------------------------------------------------------------------- small parts */

static int add_effect(struct instance *s, struct effect effect)
{
    QP_TRY(STATE_GROW(s->arena, s->effects, s->effect_count, s->effect_room));
    s->effects[s->effect_count++] = effect;
    return QP_OK;
}

/* A finished instance ignores what arrives. */
static bool turn_begins(struct instance *s)
{
    s->effect_count = 0;
    s->ignored = state_is_over(s);
    return !s->ignored;
}

static int64_t turn_time(const struct instance *s, int64_t now_ms)
{
    return now_ms > s->last_ms ? now_ms : s->last_ms;
}

static int64_t call_size(const struct hook_call *call)
{
    return (int64_t)(call->name.n + call->input.n + call->output.n + call->error.json.n);
}

static int push(struct instance *s, struct action action)
{
    QP_TRY(STATE_GROW(s->arena, s->buffer, s->buffer_count, s->buffer_room));
    action.order = s->next_order++;
    s->buffer_size += call_size(&action.call);
    s->buffer[s->buffer_count++] = action;
    return QP_OK;
}

static struct action action_of(struct status *status, enum hook hook, int64_t timestamp_ms)
{
    return (struct action){
        .timestamp_ms = timestamp_ms,
        .call = {.hook = hook, .name = status->work.name, .input = status->work.input},
        .status = status,
        .attempt = status->attempt};
}

/* ---------------------------------------------------------------------------------------- waits */

/* The end of a wait enters the buffer: by an event, whose output is given, or by time. */
static int push_wait_end(struct instance *s, struct status *status, int64_t timestamp_ms,
                         qp_str output)
{
    struct action action = action_of(status, HOOK_SUCCESS, timestamp_ms);
    QP_ASSERT(status->work.type == WORK_WAIT);
    QP_ASSERT(!status->completed);
    action.call.output = output;
    status->completed = true;
    status->changed = true;
    return push(s, action);
}

static int end_wait(struct instance *s, const struct wait *wait, int64_t timestamp_ms,
                    qp_str output)
{
    QP_TRY(push_wait_end(s, wait->status, timestamp_ms, output));
    return add_effect(s, (struct effect){.kind = EFFECT_WAIT_END, .status = wait->status});
}

/* Waits are in the order of their beginning; those that end at one time stay in it. */
struct due_wait {
    struct wait wait;
    size_t place;
};

static int by_end(const void *a, const void *b)
{
    const struct due_wait *x = a;
    const struct due_wait *y = b;
    if (x->wait.end_ms != y->wait.end_ms) {
        return x->wait.end_ms < y->wait.end_ms ? -1 : 1;
    }
    return x->place < y->place ? -1 : 1;
}

/* Takes the waits with an end up to last_ms out of the array; *out_due has room for all. */
static size_t take_due(struct instance *s, int64_t last_ms, struct due_wait *out_due)
{
    size_t due_count = 0;
    size_t kept = 0;
    for (size_t i = 0; i < s->wait_count; i++) {
        if (s->waits[i].end_ms <= last_ms) {
            out_due[due_count++] = (struct due_wait){.wait = s->waits[i], .place = i};
        } else {
            s->waits[kept++] = s->waits[i];
        }
    }
    s->wait_count = kept;
    return due_count;
}

/* I20: each with its own time, sorted. */
static int end_waits_until(struct instance *s, int64_t last_ms)
{
    if (s->wait_count == 0) {
        return QP_OK;
    }
    struct due_wait *due = arena_alloc(s->arena, s->wait_count * sizeof(*due));
    if (due == NULL) {
        return QP_E_NOMEM;
    }
    size_t count = take_due(s, last_ms, due);
    qsort(due, count, sizeof(*due), by_end);
    for (size_t i = 0; i < count; i++) {
        QP_TRY(end_wait(s, &due[i].wait, due[i].wait.end_ms, QP_STR("null")));
    }
    return QP_OK;
}

/* I11: an event ends all running waits for it. */
static int end_waits_for(struct instance *s, int64_t now_ms, qp_str name, qp_str input)
{
    qp_str output;
    size_t kept = 0;
    QP_TRY(state_event(s->arena, name, input, &output));
    for (size_t i = 0; i < s->wait_count; i++) {
        struct wait wait = s->waits[i];
        if (!str_is_none(wait.status->work.event) && str_equal(wait.status->work.event, name)) {
            QP_TRY(end_wait(s, &wait, now_ms, output));
        } else {
            s->waits[kept++] = wait;
        }
    }
    s->wait_count = kept;
    return QP_OK;
}

/* -------------------------------------------------------------------------- prepare and trigger */

static int by_time(const void *a, const void *b)
{
    const struct action *x = *(struct action *const *)a;
    const struct action *y = *(struct action *const *)b;
    if (x->timestamp_ms != y->timestamp_ms) {
        return x->timestamp_ms < y->timestamp_ms ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

static int push_execution(struct instance *s, int64_t key)
{
    size_t held = (size_t)(s->execution_count - s->executions_first);
    QP_TRY(STATE_GROW(s->arena, s->executions, held, s->executions_room));
    s->executions[held] = key;
    s->execution_count++;
    return QP_OK;
}

static int push_branch(struct instance *s, const struct action *action)
{
    QP_TRY(STATE_GROW(s->arena, s->branches, s->branches_held, s->branches_room));
    s->branches[s->branches_held++] = (struct branch){.key = s->branch_count,
                                                      .start_index = s->execution_count,
                                                      .timestamp_ms = action->timestamp_ms,
                                                      .call = action->call,
                                                      .changed = true};
    s->open_count++;
    return push_execution(s, s->branch_count++);
}

/* The work moves into the state, and the counts with it. */
static void count_state(struct instance *s, struct status *status, enum work_state state)
{
    bool is_task = state_has_task(status);
    s->open_task_count += is_task && state == WORK_SCHEDULED;
    s->open_task_count -= is_task && status->state == WORK_SCHEDULED;
    s->failed_count += state == WORK_FAILED;
    s->failed_count -= status->state == WORK_FAILED;
    QP_ASSERT(s->open_task_count >= 0);
    QP_ASSERT(s->failed_count >= 0);
    status->state = state;
}

/* I2: what onSuccess changed is seen behind an awaited work, so it is completed at the index of its owner's execution. */
static int prepare_success(struct instance *s, const struct action *action)
{
    struct status *status = action->status;
    QP_ASSERT(status->state != WORK_SUCCESSFUL || PLANT(result_twice));
    QP_ASSERT(status->completed);
    count_state(s, status, WORK_SUCCESSFUL);
    status->output = action->call.output;
    status->error = (struct state_error){0};
    status->changed = true;
    if (!status->work.sync) {
        status->completion_index = s->execution_count - 1;
        return QP_OK;
    }
    status->completion_index = s->execution_count;
    return push_execution(s, status->branch_key);
}

/* A retry that came before has given the work another attempt: then it has not failed. */
static void prepare_failure(struct instance *s, const struct action *action)
{
    struct status *status = action->status;
    if (action->attempt == status->attempt) {
        QP_ASSERT(status->state == WORK_SCHEDULED);
        count_state(s, status, WORK_FAILED);
        status->failing = false;
        status->error = action->call.error;
        status->changed = true;
    }
}

static int prepare_action(struct instance *s, struct action *action)
{
    QP_TRY(push_branch(s, action));
    if (action->call.hook == HOOK_SUCCESS) {
        QP_TRY(prepare_success(s, action));
    } else if (action->call.hook == HOOK_FAILURE) {
        prepare_failure(s, action);
    }
    action->taken = true;
    s->buffer_size -= call_size(&action->call);
    return add_effect(s, (struct effect){.kind = EFFECT_TAKE, .order = action->order});
}

static void drop_taken(struct instance *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->buffer_count; i++) {
        if (!s->buffer[i].taken) {
            s->buffer[kept++] = s->buffer[i];
        }
    }
    s->buffer_count = kept;
}

static int prepare(struct instance *s)
{
    struct action **sorted = arena_alloc(s->arena, s->buffer_count * sizeof(*sorted));
    if (sorted == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < s->buffer_count; i++) {
        sorted[i] = &s->buffer[i];
    }
    qsort(sorted, s->buffer_count, sizeof(*sorted), by_time);
    s->ongoing_index = s->execution_count;
    for (size_t i = 0; i < s->buffer_count && i < LIMIT_INSTANCE_BATCH; i++) {
        QP_TRY(prepare_action(s, sorted[i]));
    }
    drop_taken(s);
    return QP_OK;
}

static int try_trigger(struct instance *s, int64_t now_ms)
{
    QP_ASSERT(!state_is_over(s));
    if (s->decision_ongoing || s->mode != MODE_RUN || s->buffer_count == 0) {
        return QP_OK;
    }
    QP_ASSERT(s->buffer_absent == 0);
    QP_TRY(prepare(s));
    s->decision_ongoing = true;
    s->decision_due = true;
    s->decision_attempt = 1;
    s->triggered_ms = now_ms;
    s->last_ms = now_ms;
    return add_effect(s, (struct effect){.kind = EFFECT_DECISION});
}

/* --------------------------------------------------------------------------- start, event, report */

int instance_start(struct instance *s, int64_t now_ms, qp_str input, qp_str properties)
{
    struct action action = {.timestamp_ms = now_ms, .call = {.hook = HOOK_HANDLE}};
    QP_ASSERT(s->property_count == 0);
    s->effect_count = 0;
    QP_TRY(STATE_GROW(s->arena, s->properties, s->property_count, s->property_room));
    struct property *property = &s->properties[s->property_count++];
    property->changed = true;
    if (!arena_copy(s->arena, properties, &property->values) ||
        !arena_copy(s->arena, input, &action.call.input)) {
        return QP_E_NOMEM;
    }
    s->last_ms = now_ms;
    QP_TRY(push(s, action));
    return try_trigger(s, now_ms);
}

static int check_room(const struct instance *s, qp_str name, qp_str input, struct qp_err *err)
{
    int64_t waiting = (int64_t)s->buffer_count + s->buffer_absent;
    if (waiting >= LIMIT_INSTANCE_BUFFER) {
        return err_set(
            err, QP_E_LIMIT,
            "%lld actions wait for a decision, at most %d may; send the event again later",
            (long long)waiting, LIMIT_INSTANCE_BUFFER);
    }
    if (s->buffer_size + (int64_t)(name.n + input.n) > LIMIT_INSTANCE_BUFFER_SIZE) {
        return err_set(err, QP_E_LIMIT,
                       "the actions that wait for a decision hold %lld bytes, at most %d may; send "
                       "the event again later",
                       (long long)s->buffer_size, LIMIT_INSTANCE_BUFFER_SIZE);
    }
    return QP_OK;
}

int instance_event(struct instance *s, int64_t now_ms, qp_str name, qp_str input,
                   struct qp_err *err)
{
    int64_t at_ms = turn_time(s, now_ms);
    struct action action = {.timestamp_ms = at_ms, .call = {.hook = HOOK_EVENT}};
    if (!turn_begins(s)) {
        return QP_OK;
    }
    QP_TRY(check_room(s, name, input, err));
    if (!arena_copy(s->arena, name, &action.call.name) ||
        !arena_copy(s->arena, input, &action.call.input)) {
        return QP_E_NOMEM;
    }
    s->last_ms = at_ms;
    QP_TRY(end_waits_until(s, at_ms - 1));
    QP_TRY(push(s, action));
    QP_TRY(end_waits_for(s, at_ms, action.call.name, action.call.input));
    return try_trigger(s, at_ms);
}

/* Of an attempt before the one that runs: only a success still counts (I16). */
static bool is_of_past(const struct status *status, const struct instance_report *report)
{
    return report->attempt != 0 && report->attempt < status->attempt &&
           report->hook != HOOK_SUCCESS;
}

/* I16, I17, I23: what is said once per attempt, and what comes behind the end of a work. */
static bool is_news(const struct status *status, const struct instance_report *report)
{
    bool has_failed = status->failing || status->state == WORK_FAILED;
    bool is_next = report->attempt > status->attempt;
    if (status->completed) {
        return false;
    }
    switch (report->hook) {
    case HOOK_START:
        return !has_failed && (is_next || !status->started);
    case HOOK_TIMEOUT:
        return !has_failed && (is_next || !status->timed_out);
    case HOOK_FAILURE:
        return !has_failed;
    case HOOK_SUCCESS:
        return true;
    case HOOK_HANDLE:
    case HOOK_EVENT:
        break;
    }
    QP_ASSERT(false);
    return false;
}

static void next_attempt(struct status *status)
{
    status->attempt++;
    status->started = false;
    status->timed_out = false;
    status->changed = true;
}

/* I17: an attempt that has ended has begun, whether that was reported or not. */
static int push_start(struct instance *s, int64_t at_ms, struct status *status)
{
    status->started = true;
    status->changed = true;
    return push(s, action_of(status, HOOK_START, at_ms));
}

/* What the report shows of what came before it. */
static int catch_up(struct instance *s, int64_t at_ms, struct status *status,
                    const struct instance_report *report)
{
    bool starts = report->hook == HOOK_START;
    while (status->attempt < report->attempt) {
        if (!status->started) {
            QP_TRY(push_start(s, at_ms, status));
        }
        next_attempt(status);
        status->retry_index++;
    }
    return starts || !report->began || status->started ? QP_OK : push_start(s, at_ms, status);
}

static int issue_attempt(struct instance *s, struct status *status, int64_t delay_ms)
{
    enum effect_kind kind = status->work.type == WORK_WORKFLOW ? EFFECT_CHILD : EFFECT_TASK;
    QP_ASSERT(status->work.type != WORK_WAIT);
    return add_effect(s, (struct effect){.kind = kind, .status = status, .delay_ms = delay_ms});
}

static int retry_task(struct instance *s, struct status *status, int64_t delay_ms)
{
    next_attempt(status);
    status->retry_index++;
    return issue_attempt(s, status, delay_ms);
}

static int copy_error(struct arena *arena, const struct state_error *error,
                      struct state_error *out_error)
{
    if (!arena_copy(arena, error->name, &out_error->name) ||
        !arena_copy(arena, error->json, &out_error->json) ||
        !arena_copy(arena, error->rest, &out_error->rest)) {
        return QP_E_NOMEM;
    }
    return QP_OK;
}

static int push_report(struct instance *s, int64_t at_ms, struct status *status,
                       const struct instance_report *report)
{
    struct action action = action_of(status, report->hook, at_ms);
    status->changed = true;
    status->started |= report->hook == HOOK_START;
    status->timed_out |= report->hook == HOOK_TIMEOUT;
    status->failing |= report->hook == HOOK_FAILURE;
    status->completed |= report->hook == HOOK_SUCCESS;
    if (report->hook == HOOK_FAILURE) {
        QP_TRY(copy_error(s->arena, &report->error, &action.call.error));
    }
    if (report->hook == HOOK_SUCCESS) {
        QP_TRY(state_text(s->arena, report->output, &action.call.output));
    }
    return push(s, action);
}

int instance_report(struct instance *s, int64_t now_ms, const struct instance_report *report)
{
    int64_t at_ms = turn_time(s, now_ms);
    if (!turn_begins(s)) {
        return QP_OK;
    }
    struct status *status = status_find(&s->statuses, report->branch_key, report->position);
    if (status == NULL || status->work.type == WORK_WAIT || is_of_past(status, report) ||
        !is_news(status, report)) {
        s->ignored = true;
        return QP_OK;
    }
    s->last_ms = at_ms;
    QP_TRY(end_waits_until(s, at_ms - 1));
    QP_TRY(catch_up(s, at_ms, status, report));
    if (report->hook == HOOK_FAILURE && report->retries && status->work.type == WORK_TASK) {
        QP_TRY(retry_task(s, status, report->retry_delay_ms));
    } else {
        QP_TRY(push_report(s, at_ms, status, report));
    }
    return try_trigger(s, at_ms);
}

int instance_timers(struct instance *s, int64_t now_ms)
{
    int64_t at_ms = turn_time(s, now_ms);
    if (!turn_begins(s)) {
        return QP_OK;
    }
    s->last_ms = at_ms; /* an event that a clock behind this one receives comes behind these ends */
    QP_TRY(end_waits_until(s, at_ms));
    return try_trigger(s, at_ms);
}

/* ---------------------------------------------------------------------------------------- apply */

/* The first event for the wait behind the execution that scheduled it: in its batch, then in the buffer (I10). */
struct wait_event {
    const struct hook_call *call; /* NULL: none */
    int64_t timestamp_ms;
};

static struct wait_event find_in_batch(const struct instance *s, qp_str name, int64_t index)
{
    for (int64_t i = index + 1; i < s->execution_count; i++) {
        const struct branch *branch = state_branch(s, state_execution(s, i));
        if (branch->start_index == i && branch->call.hook == HOOK_EVENT &&
            str_equal(branch->call.name, name)) {
            return (struct wait_event){&branch->call, branch->timestamp_ms};
        }
    }
    return (struct wait_event){0};
}

static struct wait_event find_in_buffer(const struct instance *s, qp_str name)
{
    struct wait_event found = {0};
    for (size_t i = 0; i < s->buffer_count; i++) {
        const struct action *action = &s->buffer[i];
        if (action->call.hook == HOOK_EVENT && str_equal(action->call.name, name) &&
            (found.call == NULL || action->timestamp_ms < found.timestamp_ms)) {
            found = (struct wait_event){&action->call, action->timestamp_ms};
        }
    }
    return found;
}

static struct wait_event find_event(const struct instance *s, qp_str name, int64_t index)
{
    if (str_is_none(name)) {
        return (struct wait_event){0};
    }
    struct wait_event found =
        PLANT(event_missed) ? (struct wait_event){0} : find_in_batch(s, name, index);
    return found.call != NULL ? found : find_in_buffer(s, name);
}

static int64_t not_before(int64_t ms, int64_t least_ms)
{
    return ms > least_ms ? ms : least_ms;
}

static int begin_wait(struct instance *s, struct status *status, int64_t end_ms)
{
    QP_TRY(STATE_GROW(s->arena, s->waits, s->wait_count, s->wait_room));
    s->waits[s->wait_count++] = (struct wait){.status = status, .end_ms = end_ms};
    return add_effect(s, (struct effect){.kind = EFFECT_WAIT, .status = status, .end_ms = end_ms});
}

/* I9: a wait begins when its decision was triggered, and no end of it is earlier. Event and time are compared behind that. */
static int schedule_wait(struct instance *s, int64_t now_ms, struct status *status, int64_t index)
{
    int64_t begin_ms = s->triggered_ms;
    int64_t end_ms = work_end_ms(&status->work, begin_ms);
    int64_t by_time_ms = not_before(end_ms, begin_ms);
    struct wait_event event = find_event(s, status->work.event, index);
    int64_t by_event_ms = not_before(event.timestamp_ms, begin_ms);
    qp_str output;
    QP_TRY(push(s, action_of(status, HOOK_START, begin_ms)));
    status->started = true;
    if (event.call != NULL && by_event_ms <= by_time_ms) {
        QP_TRY(state_event(s->arena, event.call->name, event.call->input, &output));
        return push_wait_end(s, status, by_event_ms, output);
    }
    if (end_ms < now_ms) {
        return push_wait_end(s, status, by_time_ms, QP_STR("null"));
    }
    return begin_wait(s, status, end_ms);
}

static int copy_status(struct arena *arena, const struct status *from, struct status **out_status)
{
    struct status *status = ARENA_NEW(arena, struct status);
    if (status == NULL) {
        return QP_E_NOMEM;
    }
    *status = *from;
    if (!arena_copy(arena, from->work.name, &status->work.name) ||
        !arena_copy(arena, from->work.input, &status->work.input) ||
        !arena_copy(arena, from->work.position, &status->work.position) ||
        !arena_copy(arena, from->work.event, &status->work.event)) {
        return QP_E_NOMEM;
    }
    status->changed = true;
    *out_status = status;
    return QP_OK;
}

static int apply_works(struct instance *s, int64_t now_ms, const struct draft *draft)
{
    for (size_t i = 0; i < draft->work_count; i++) {
        struct status *status = NULL;
        QP_TRY(copy_status(s->arena, draft->works[i].status, &status));
        struct branch *branch = state_branch(s, status->branch_key);
        status->number = s->work_count++;
        s->open_task_count += state_has_task(status);
        branch->work_count++;
        branch->changed = true;
        QP_TRY(status_add(s->arena, &s->statuses, status));
        if (status->work.type == WORK_WAIT) {
            QP_TRY(schedule_wait(s, now_ms, status, draft->works[i].index));
        } else {
            QP_TRY(issue_attempt(s, status, 0));
        }
    }
    return QP_OK;
}

static int apply_properties(struct instance *s, const struct draft *draft)
{
    for (size_t i = 0; i < draft->property_count; i++) {
        QP_TRY(STATE_GROW(s->arena, s->properties, s->property_count, s->property_room));
        struct property *property = &s->properties[s->property_count];
        QP_ASSERT(draft->properties[i].key > property[-1].key);
        property->key = draft->properties[i].key;
        property->changed = true;
        if (!arena_copy(s->arena, draft->properties[i].values, &property->values)) {
            return QP_E_NOMEM;
        }
        s->property_count++;
    }
    return QP_OK;
}

/* I7: a branch has ended when an output is there, null among them. */
static int apply_outputs(struct instance *s, const struct draft *draft)
{
    for (size_t i = 0; i < draft->output_count; i++) {
        struct branch *branch = state_branch(s, draft->outputs[i].branch_key);
        s->open_count -= branch->ended ? 0 : 1;
        branch->ended = true;
        branch->changed = true;
        if (!arena_copy(s->arena, draft->outputs[i].output, &branch->output)) {
            return QP_E_NOMEM;
        }
        if (branch->key == 0) {
            s->output = branch->output;
        }
    }
    QP_ASSERT(s->open_count >= 0);
    return QP_OK;
}

/* A pinned name stays. */
static int apply_name(struct instance *s, const struct draft *draft)
{
    if (str_is_none(draft->name) || !str_is_none(s->pinned_name)) {
        return QP_OK;
    }
    return arena_copy(s->arena, draft->name, &s->pinned_name) ? QP_OK : QP_E_NOMEM;
}

static int drop_waits(struct instance *s)
{
    for (size_t i = 0; i < s->wait_count; i++) {
        QP_TRY(
            add_effect(s, (struct effect){.kind = EFFECT_WAIT_END, .status = s->waits[i].status}));
    }
    s->wait_count = 0;
    return QP_OK;
}

/* I8: works that run go on; what they report is ignored. */
static int complete(struct instance *s)
{
    QP_TRY(drop_waits(s));
    s->completed = true;
    return add_effect(s, (struct effect){.kind = EFFECT_COMPLETE});
}

static int check_decision(const struct instance *s, struct qp_err *err)
{
    if (!s->decision_ongoing || s->parked) {
        return err_set(err, QP_E_CONFLICT, "no decision of this instance is out");
    }
    return QP_OK;
}

int instance_decided(struct instance *s, int64_t now_ms, const struct draft *draft,
                     struct qp_err *err)
{
    int64_t at_ms = turn_time(s, now_ms);
    s->effect_count = 0;
    s->ignored = false;
    QP_TRY(check_decision(s, err));
    if (draft->ongoing_index != s->ongoing_index || draft->attempt != s->decision_attempt) {
        return err_set(err, QP_E_CONFLICT, "the decision was issued again; this attempt is over");
    }
    QP_ASSERT(draft_is_finished(draft));
    s->last_ms = at_ms;
    QP_TRY(end_waits_until(s, at_ms - 1));
    QP_TRY(apply_works(s, at_ms, draft));
    QP_TRY(apply_properties(s, draft));
    QP_TRY(apply_outputs(s, draft));
    QP_TRY(apply_name(s, draft));
    s->decision_ongoing = false;
    if (s->open_count == 0 && (s->buffer_count == 0 || PLANT(event_lost))) {
        return complete(s);
    }
    return try_trigger(s, at_ms);
}

int instance_failed(struct instance *s, int64_t now_ms, const struct state_error *error,
                    struct qp_err *err)
{
    s->effect_count = 0;
    s->ignored = false;
    QP_TRY(check_decision(s, err));
    QP_TRY(end_waits_until(s, turn_time(s, now_ms) - 1));
    QP_TRY(copy_error(s->arena, error, &s->error));
    s->parked = true;
    return add_effect(s, (struct effect){.kind = EFFECT_PARK});
}

/* --------------------------------------------------------------------------- retry, issue, mode */

static int retry_work(struct instance *s, struct status *status)
{
    if (status->completed || (!status->failing && status->state != WORK_FAILED)) {
        return QP_OK;
    }
    next_attempt(status);
    status->retry_index = 0;
    status->failing = false;
    count_state(s, status, WORK_SCHEDULED);
    status->error = (struct state_error){0};
    return issue_attempt(s, status, 0);
}

/* I9: the trigger time stays. */
static int issue_again(struct instance *s)
{
    s->parked = false;
    s->error = (struct state_error){0};
    s->decision_attempt++;
    return add_effect(s, (struct effect){.kind = EFFECT_DECISION});
}

int instance_retry(struct instance *s, int64_t now_ms, struct status *status)
{
    if (!turn_begins(s)) {
        return QP_OK;
    }
    s->last_ms = turn_time(s, now_ms);
    if (status != NULL) {
        QP_TRY(retry_work(s, status));
    } else {
        for (size_t i = 0; i < s->statuses.count; i++) {
            QP_TRY(retry_work(s, s->statuses.items[i]));
        }
        if (s->parked) {
            QP_TRY(issue_again(s));
        }
    }
    s->ignored = s->effect_count == 0;
    return QP_OK;
}

int instance_reissue(struct instance *s)
{
    if (!turn_begins(s) || !s->decision_ongoing || s->parked) {
        s->ignored = true;
        return QP_OK;
    }
    return issue_again(s);
}

static int kill_instance(struct instance *s)
{
    QP_TRY(drop_waits(s));
    for (size_t i = 0; i < s->buffer_count; i++) {
        QP_TRY(add_effect(s, (struct effect){.kind = EFFECT_TAKE, .order = s->buffer[i].order}));
    }
    s->buffer_count = 0;
    s->buffer_size = 0;
    s->decision_ongoing = false;
    s->parked = false;
    return add_effect(s, (struct effect){.kind = EFFECT_KILL});
}

int instance_set_mode(struct instance *s, int64_t now_ms, enum instance_mode mode)
{
    int64_t at_ms = turn_time(s, now_ms);
    if (!turn_begins(s) || s->mode == mode) {
        s->ignored = true;
        return QP_OK;
    }
    s->mode = mode;
    if (mode == MODE_KILL) {
        return kill_instance(s);
    }
    if (mode == MODE_PAUSE) {
        return QP_OK;
    }
    QP_TRY(end_waits_until(s, at_ms - 1));
    return try_trigger(s, at_ms);
}
