/* instances_reading.c - what the arrays of an instance must be, by the document and its rulings (see instances.h)
 *
 * One walk over the branches. A branch is executed when it begins; behind the success of an awaited work its owner is executed once
 * more. Each execution is run here as its script says, with the properties of the index that the document names (I1 to I3), and what
 * was completed up to its own index is what it sees.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "sim/instances.h"

#define WORKS_MAX 200
#define CHANGES_MAX 400

struct read_work {
    char name[DRAWN_NAME_SIZE];
    struct agent_work work;
    int64_t branch;
    int64_t asked;      /* the execution that asked for it */
    int64_t completion; /* NO_INDEX: none */
    int64_t begin_ms;   /* of its first onStart */
    int64_t starts, successes, failures, timeouts;
    const struct branch *success;
};

struct read_change {
    int64_t key;
    char value[DRAWN_VALUE_SIZE];
};

struct reading {
    const struct drawn *script;
    const struct instance *i;
    const struct reading_facts *facts;
    struct read_work works[WORKS_MAX];
    size_t work_count;
    struct read_change changes[CHANGES_MAX];
    size_t change_count;
    int64_t executed;
    int64_t ended; /* branches */
    char *text;
    bool differs;
};

static void differ(struct reading *r, const char *format, ...) QP_PRINTF(2, 3);

/* Keeps the first sentence. */
static void differ(struct reading *r, const char *format, ...)
{
    va_list args;
    if (r->differs) {
        return;
    }
    r->differs = true;
    va_start(args, format);
    (void)vsnprintf(r->text, SCENE_TEXT_SIZE, format, args);
    va_end(args);
}

/* ----------------------------------------------------------------------------------------- executions */

static struct read_work *find(struct reading *r, qp_str name)
{
    for (size_t i = 0; i < r->work_count; i++) {
        if (str_equal(str_from(r->works[i].name), name)) {
            return &r->works[i];
        }
    }
    return NULL;
}

static const char *value_at(const struct reading *r, int64_t index)
{
    const char *value = "";
    for (size_t i = 0; i < r->change_count; i++) {
        value = r->changes[i].key <= index ? r->changes[i].value : value;
    }
    return value;
}

static void change(struct reading *r, int64_t key, const char *value)
{
    QP_ASSERT(r->change_count < CHANGES_MAX);
    r->changes[r->change_count].key = key;
    (void)snprintf(r->changes[r->change_count++].value, DRAWN_VALUE_SIZE, "%s", value);
}

static void ask(struct reading *r, const struct agent_work *work, int64_t branch, int64_t index)
{
    struct read_work *w = &r->works[r->work_count++];
    QP_ASSERT(r->work_count < WORKS_MAX);
    *w =
        (struct read_work){.work = *work, .branch = branch, .asked = index, .completion = NO_INDEX};
    (void)snprintf(w->name, sizeof w->name, "%.*s", STR_ARG(work->name));
    w->work.name = str_from(w->name);
}

/* A group of works; *base is the index of the properties that are handed. False: the branch is left here. */
static bool meet_group(struct reading *r, const struct drawn_group *g, int64_t branch,
                       int64_t index, int64_t *base)
{
    bool all = true;
    int64_t last = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct read_work *w = find(r, g->works[i].name);
        if (w == NULL) {
            ask(r, &g->works[i], branch, index);
            all = false;
        } else if (w->completion == NO_INDEX || w->completion > index) {
            all = false;
        } else {
            last = w->completion > last ? w->completion : last;
        }
    }
    *base = all && g->works[0].sync ? last : *base;
    return all || !g->works[0].sync;
}

static void execute(struct reading *r, const struct branch *branch, int64_t start)
{
    int64_t index = r->executed++;
    int64_t steps = drawn_steps(r->script, branch);
    int64_t base = start;
    int64_t passed = 0;
    bool goes_on = true;
    char value[DRAWN_VALUE_SIZE];
    struct drawn_group g;
    if (index >= r->i->execution_count || state_execution(r->i, index) != branch->key) {
        differ(r, "execution %" PRId64 " must be of branch %" PRId64, index, branch->key);
        return;
    }
    for (; passed < steps && goes_on; passed += goes_on) {
        drawn_group(r->script, branch, passed, &g);
        goes_on = meet_group(r, &g, branch->key, index, &base);
    }
    drawn_value(r->script, branch->key, passed, str_from(value_at(r, base)), value);
    if (base == index && strcmp(value, value_at(r, index)) != 0) {
        change(r, index + 1, value);
    }
    r->ended += goes_on;
    if (goes_on && !str_equal(branch->output, str_from(value))) {
        differ(r, "branch %" PRId64 " must have the output %s, and has %.*s", branch->key, value,
               STR_ARG(branch->output));
    }
}

/* ------------------------------------------------------------------------------------------- branches */

static void take_success(struct reading *r, struct read_work *w, const struct branch *branch)
{
    if (w->successes++ > 0) {
        differ(r, "%s succeeds twice", w->name);
    }
    if (w->work.type == WORK_TASK && w->starts == 0) {
        differ(r, "%s succeeds, and has not begun", w->name);
    }
    if (w->work.type != WORK_WAIT &&
        !r->facts->result(r->facts->context, &w->work, branch->call.output)) {
        differ(r, "%s has the result %.*s, which nothing gave", w->name,
               STR_ARG(branch->call.output));
    }
    w->success = branch;
    w->completion = r->executed + (w->work.sync ? 1 : 0);
}

/* The owner of an awaited work that succeeds with the branch; NULL: none. */
static const struct branch *take_branch(struct reading *r, const struct branch *branch)
{
    struct read_work *w;
    if (branch->call.hook == HOOK_HANDLE) {
        return NULL;
    }
    if (branch->call.hook == HOOK_EVENT) {
        if (!r->facts->event(r->facts->context, branch->call.name, branch->call.input)) {
            differ(r, "the event %.*s was not sent, or is there twice",
                   STR_ARG(branch->call.input));
        }
        return NULL;
    }
    w = find(r, branch->call.name);
    if (w == NULL) {
        differ(r, "branch %" PRId64 " is of a work that was not asked for", branch->key);
        return NULL;
    }
    if (w->starts == 0) {
        w->begin_ms = branch->timestamp_ms;
    }
    w->starts += branch->call.hook == HOOK_START;
    w->failures += branch->call.hook == HOOK_FAILURE;
    w->timeouts += branch->call.hook == HOOK_TIMEOUT;
    if (branch->call.hook != HOOK_SUCCESS) {
        return NULL;
    }
    take_success(r, w, branch);
    return w->work.sync ? state_branch(r->i, w->branch) : NULL;
}

static void walk(struct reading *r)
{
    for (int64_t key = 0; key < r->i->branch_count && !r->differs; key++) {
        const struct branch *branch = state_branch(r->i, key);
        const struct branch *owner = take_branch(r, branch);
        if (branch->start_index != r->executed) {
            differ(r, "branch %" PRId64 " must start at %" PRId64, key, r->executed);
        }
        execute(r, branch, r->executed);
        if (owner != NULL && !r->differs) {
            execute(r, owner, owner->start_index);
        }
    }
    if (r->executed != r->i->execution_count || r->ended < r->i->branch_count) {
        differ(r,
               "there are %" PRId64 " executions and %" PRId64 " ends, and must be %" PRId64
               " and %" PRId64,
               r->i->execution_count, r->ended, r->executed, r->i->branch_count);
    }
}

/* ---------------------------------------------------------------------------------------------- waits */

/* I10, I11: the first event behind the execution that asked for the wait. */
static const struct branch *event_for(const struct reading *r, const struct read_work *w)
{
    for (int64_t key = 0; key < r->i->branch_count; key++) {
        const struct branch *b = state_branch(r->i, key);
        if (b->call.hook == HOOK_EVENT && b->start_index > w->asked &&
            str_equal(b->call.name, w->work.event)) {
            return b;
        }
    }
    return NULL;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of a tie the event wins, unless the timer had its turn before it came. */
static bool ends_by_event(const struct read_work *w, const struct branch *event, int64_t event_ms,
                          int64_t end_ms)
{
    bool timer_first = event != NULL && w->success != NULL && event_ms == end_ms &&
                       w->success->start_index < event->start_index;
    return event_ms <= end_ms && !timer_first;
}

/* I9: no end is before the beginning. Without a success the instance ended before the wait. */
static void check_wait(struct reading *r, const struct read_work *w)
{
    const struct branch *event = str_is_none(w->work.event) ? NULL : event_for(r, w);
    int64_t end_ms = w->begin_ms + w->work.end_ms;
    int64_t event_ms = event == NULL ? INT64_MAX : later(event->timestamp_ms, w->begin_ms);
    bool by_event = ends_by_event(w, event, event_ms, end_ms);
    char input[DRAWN_NAME_SIZE];
    if (w->starts != 1) {
        differ(r, "%s begins %" PRId64 " times", w->name, w->starts);
    }
    if (w->success == NULL) {
        if (by_event) {
            differ(r, "%s missed the event %.*s", w->name, STR_ARG(event->call.input));
        }
        return;
    }
    if (w->success->timestamp_ms != (by_event ? event_ms : end_ms)) {
        differ(r, "%s must end at %" PRId64 ", and ended at %" PRId64, w->name,
               by_event ? event_ms : end_ms, w->success->timestamp_ms);
    }
    if (by_event != !str_equal(w->success->call.output, QP_STR("null"))) {
        differ(r,
               "%s has the output %.*s, and its event %s: it began at %" PRId64
               " and ended at %" PRId64 ", the event came at %" PRId64,
               w->name, STR_ARG(w->success->call.output), by_event ? "came" : "did not come",
               w->begin_ms, end_ms, event == NULL ? 0 : event->timestamp_ms);
    }
    if (by_event) {
        (void)snprintf(input, sizeof input, "\"%.*s\"}", STR_ARG(event->call.input));
        if (memmem(w->success->call.output.p, w->success->call.output.n, input, strlen(input)) ==
            NULL) {
            differ(r, "%s has the output %.*s, and its event is %s", w->name,
                   STR_ARG(w->success->call.output), input);
        }
    }
}

/* --------------------------------------------------------------------------------------------- arrays */

static void check_attempts(struct reading *r, const struct read_work *w,
                           const struct status *status)
{
    if (w->starts > status->attempt || w->starts < status->attempt - 1) {
        differ(r, "%s begins %" PRId64 " times in %" PRId64 " attempts", w->name, w->starts,
               status->attempt);
    }
    if (w->timeouts > (w->work.max_processing_ms > 0 ? status->attempt : 0)) {
        differ(r, "%s has %" PRId64 " timeouts in %" PRId64 " attempts", w->name, w->timeouts,
               status->attempt);
    }
    if (w->failures >= status->attempt && status->state == WORK_SUCCESSFUL) {
        differ(r, "%s has failed as often as it was tried, and succeeds", w->name);
    }
}

static void check_status(struct reading *r, const struct read_work *w, const struct status *status)
{
    bool is_done = status->state == WORK_SUCCESSFUL;
    if (!str_equal(status->work.name, str_from(w->name)) || status->branch_key != w->branch ||
        status->completion_index != w->completion || is_done != (w->completion != NO_INDEX)) {
        differ(r,
               "work %s must be completed at %" PRId64 ", and %.*s is at %" PRId64 " with state %d",
               w->name, w->completion, STR_ARG(status->work.name), status->completion_index,
               (int)status->state);
    } else if (is_done && !str_equal(status->output, w->success->call.output)) {
        differ(r, "work %s has another output than its onSuccess", w->name);
    } else if (w->work.type == WORK_WAIT) {
        check_wait(r, w);
    } else {
        check_attempts(r, w, status);
    }
}

static void check_arrays(struct reading *r)
{
    const struct instance *i = r->i;
    if (i->statuses.count != r->work_count || i->property_count != r->change_count) {
        differ(r, "there are %zu works and %zu properties, and must be %zu and %zu",
               i->statuses.count, i->property_count, r->work_count, r->change_count);
        return;
    }
    for (size_t k = 0; k < r->work_count; k++) {
        check_status(r, &r->works[k], i->statuses.items[k]);
    }
    for (size_t k = 0; k < r->change_count; k++) {
        if (i->properties[k].key != r->changes[k].key ||
            !str_equal(i->properties[k].values, str_from(r->changes[k].value))) {
            differ(r, "properties %zu must be %" PRId64 ": %s, and are %" PRId64 ": %.*s", k,
                   r->changes[k].key, r->changes[k].value, i->properties[k].key,
                   STR_ARG(i->properties[k].values));
        }
    }
    if (i->buffer_count > 0 || i->wait_count > 0) {
        differ(r, "it is over, with %zu actions and %zu waits", i->buffer_count, i->wait_count);
    }
}

bool reading_agrees(const struct drawn *s, const struct instance *i,
                    const struct reading_facts *facts, char out_text[SCENE_TEXT_SIZE])
{
    static struct reading r; /* large */
    r = (struct reading){.script = s, .i = i, .facts = facts, .text = out_text};
    change(&r, 0, "0");
    walk(&r);
    if (!r.differs) {
        check_arrays(&r);
    }
    return !r.differs;
}
