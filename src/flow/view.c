/* view.c - what people see of a flow (see view.h)
 *
 * What an open flow waits for is found from its messages and registrations, not from its history: the work follows what is
 * open, not what was done. Each of them names an activity, whose row says the rest.
 */
#include "flow/view.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "base/uuid.h"
#include "flow/flow.h"
#include "kernel/ledger.h"
#include "kernel/message.h"
#include "kernel/program.h"
#include "kernel/query.h"
#include "store/error.h"

#define ANSWERED "answered"

/* Where the task of an event is. */
struct task_seen {
    const char *word; /* as in struct qp_activity; or ANSWERED: its answer waits for an engine */
    qp_ms wake_at;
};

/* A note that is being written. */
struct note {
    const struct sight *sight;
    const struct act_row *act;
    struct task_seen task;
    struct buf text;
};

/* --------------------------------------------------------------------------------------- words */

static void say_time(struct note *n, const char *before, qp_ms at)
{
    char text[RFC3339_SIZE];
    rfc3339_format(at, text);
    buf_printf(&n->text, "%s%s", before, text);
}

/* "approved" as 'approved'; names have no escapes. */
static void say_quoted(struct note *n, qp_str json)
{
    if (json.n >= 2) {
        buf_printf(&n->text, "'%.*s'", (int)(json.n - 2), json.p + 1);
    }
}

/* "the signal 'a'", "one of the signals 'a', 'b'" */
static void say_names(struct note *n, qp_str names)
{
    struct raw_walk w = {.rest = names};
    struct raw_walk count = {.rest = names};
    size_t many = 0;
    while (raw_each(&count)) {
        many++;
    }
    buf_text(&n->text, many == 1 ? "waits for the signal " : "waits for one of the signals ");
    while (raw_each(&w)) {
        buf_text(&n->text, w.index == 0 ? "" : ", ");
        say_quoted(n, w.value);
    }
}

/* ---------------------------------------------------------------------------------- what is open */

/* Why the attempt before failed. */
static int say_failure(struct note *n)
{
    struct error error = {0};
    if (n->act->attempt == 0 || str_is_none(n->act->error)) {
        return QP_OK;
    }
    QP_TRY(error_read(n->sight->arena, n->act->error, &error));
    buf_printf(&n->text, "; attempt %lld failed: %.*s", (long long)n->act->attempt,
               STR_ARG(error.message));
    return QP_OK;
}

static bool task_is(const struct note *n, const char *word)
{
    return strcmp(n->task.word, word) == 0;
}

/* Of an activity, and of a decision; `unserved` when no worker has taken it. */
static int say_task(struct note *n, const char *unserved)
{
    long long next = (long long)n->act->attempt + 1;
    if (task_is(n, "held")) {
        buf_printf(&n->text, "attempt %lld is running", next);
    } else if (task_is(n, "delayed")) {
        buf_printf(&n->text, "attempt %lld begins", next);
        say_time(n, " at ", n->task.wake_at);
    } else if (task_is(n, "aside")) {
        buf_text(&n->text, "set aside until the job is resumed");
    } else if (task_is(n, "dead")) {
        buf_text(&n->text, "given up until the job is retried");
    } else if (task_is(n, "ready") && next > 1) {
        buf_printf(&n->text, "attempt %lld is due", next);
    } else if (task_is(n, "ready")) {
        buf_text(&n->text, unserved);
    }
    return say_failure(n);
}

static void say_until(struct note *n, const char *before)
{
    qp_str until = flow_member(n->act->input, "until");
    if (!str_is_none(until)) {
        say_time(n, before, (qp_ms)real_parse(until));
    }
}

static void say_wait(struct note *n)
{
    qp_str names = flow_member(n->act->input, "names");
    if (str_is_none(names)) {
        say_until(n, "until ");
        return;
    }
    say_names(n, names);
    say_until(n, ", until ");
}

static int find_job(const struct sight *sight, qp_str jid, int64_t *out_job)
{
    struct job_name_row key = {.ns = sight->job->ns, .jid = jid};
    const void *row = NULL;
    int rc = store_get(sight->store, sight->arena, TABLE_job_name, &key, &row, sight->err);
    *out_job = rc == QP_OK ? ((const struct job_name_row *)row)->job : 0;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* The id of a child: the one that was made for it, when that job is there or the event gives none. */
static int child_id(const struct note *n, qp_str *out_id)
{
    const struct sight *sight = n->sight;
    char text[UUID_TEXT_SIZE];
    struct flow_child child;
    int64_t job = 0;
    QP_TRY(flow_child(store_env(sight->store), sight->arena, n->act->input, &child));
    call_made_id(n->act, FLOW_CALL, text);
    *out_id = (qp_str){text, sizeof text};
    if (!str_is_none(child.id)) {
        QP_TRY(find_job(sight, *out_id, &job));
        *out_id = job == 0 ? child.id : *out_id;
    }
    return arena_copy(sight->arena, *out_id, out_id) ? QP_OK : QP_E_NOMEM;
}

static int say_child(struct note *n, const char *before)
{
    qp_str id;
    QP_TRY(child_id(n, &id));
    buf_printf(&n->text, "%s'%.*s'", before, STR_ARG(id));
    return QP_OK;
}

static int say_open(struct note *n)
{
    if (task_is(n, ANSWERED)) {
        buf_text(&n->text, "its answer has come, and is not recorded yet");
        return QP_OK;
    }
    if (n->act->kind == HISTORY_ACTIVITY) {
        return say_task(n, "no worker has taken it yet");
    }
    if (n->act->kind == HISTORY_CHILD) {
        return ledger_leg1_is_done(n->act->ledger) ? say_child(n, "waits for job ") : QP_OK;
    }
    say_wait(n);
    return QP_OK;
}

/* ---------------------------------------------------------------------------------- what is over */

/* [{"name":..},..]: which signals came. */
static void say_received(struct note *n, qp_str signals)
{
    struct raw_walk w = {.rest = signals};
    buf_text(&n->text, "received ");
    while (raw_each(&w)) {
        buf_text(&n->text, w.index == 0 ? "" : ", ");
        say_quoted(n, flow_member(w.value, "name"));
    }
}

static void say_slept(struct note *n)
{
    qp_str got = flow_member(n->act->input, "got");
    if (str_is_none(got)) {
        say_until(n, "until ");
    } else if (str_equal(flow_member(n->act->output, "interrupted"), QP_STR("true"))) {
        buf_printf(&n->text, "received at %.*s", (int)(got.n - 2), got.p + 1);
    } else {
        buf_text(&n->text, "no signal came in time");
    }
}

/* What the data row of a loop says; "{}": there is none yet. */
static int loop_data(const struct sight *sight, const struct act_row *act, qp_str *out_value)
{
    struct data_row key = {.ns = act->ns, .job = act->job};
    const void *row = NULL;
    int rc;
    *out_value = QP_STR("{}");
    QP_TRY(flow_loop_name(sight->arena, act->addr, &key.name));
    rc = store_get(sight->store, sight->arena, TABLE_data, &key, &row, sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    *out_value = ((const struct data_row *)row)->value;
    return QP_OK;
}

static int say_loop(struct note *n)
{
    qp_str data;
    qp_str iteration;
    long long count;
    QP_TRY(loop_data(n->sight, n->act, &data));
    iteration = flow_member(data, "iteration");
    count = str_is_none(iteration) ? 0 : (long long)real_parse(iteration);
    if (count > 0) {
        buf_printf(&n->text, "%s %lld iteration%s",
                   raw_has(data, "output") ? "ended after" : "recorded up to", count,
                   count == 1 ? "" : "s");
    }
    return QP_OK;
}

static int say_sent(struct note *n)
{
    const struct qp_env *env = store_env(n->sight->store);
    qp_str to = QP_NONE;
    if (!raw_text(env, n->sight->arena, flow_member(n->act->input, "to"), &to)) {
        return QP_E_NOMEM;
    }
    buf_printf(&n->text, "sent to job '%.*s'", STR_ARG(to));
    return QP_OK;
}

/* Only a run that failed has something to say. */
static int say_run(struct note *n)
{
    struct error error = {0};
    qp_str text = flow_member(n->act->input, "error");
    if (str_is_none(text)) {
        return QP_OK;
    }
    QP_TRY(error_read(n->sight->arena, text, &error));
    buf_str(&n->text, error.message);
    return QP_OK;
}

/* The error that is its answer: of a child that could be started, with its job; of others, that the flow was cancelled. */
static int say_error(struct note *n)
{
    struct error error = {0};
    QP_TRY(error_read(n->sight->arena, n->act->output, &error));
    if (!str_is_none(error.job)) {
        buf_printf(&n->text, "job '%.*s': ", STR_ARG(error.job));
    }
    buf_str(&n->text, error.message);
    return QP_OK;
}

static int say_done(struct note *n)
{
    const struct act_row *act = n->act;
    if (act->code >= 400) {
        return act->kind == HISTORY_ACTIVITY && act->code != ERROR_CODE_CANCELLED ? say_failure(n)
                                                                                  : say_error(n);
    }
    switch ((enum history_type)act->kind) {
    case HISTORY_RUN:
        return say_run(n);
    case HISTORY_SLEEP:
        say_slept(n);
        return QP_OK;
    case HISTORY_SIGNALS:
        say_received(n, flow_is_born_complete(act) ? act->input : act->output);
        return QP_OK;
    case HISTORY_SIGNAL:
        return say_sent(n);
    case HISTORY_CHILD:
        return say_child(n, "job ");
    case HISTORY_LOOP:
        return say_loop(n);
    case HISTORY_REMOVED:
        buf_printf(&n->text, "the code no longer has this %.*s", STR_ARG(act->policy));
        return QP_OK;
    default:
        return QP_OK;
    }
}

/* -------------------------------------------------------------------------------------- an event */

static bool is_done(const struct act_row *act)
{
    return flow_is_born_complete(act) || act->guid_seq > 0;
}

/* A run that failed has its error where its value would be. */
static bool has_failed(const struct act_row *act)
{
    return act->code >= 400 || (act->kind == HISTORY_RUN && raw_has(act->input, "error"));
}

static const char *status_of(const struct act_row *act)
{
    return !is_done(act)     ? ledger_leg1_is_done(act->ledger) ? "started" : "pending"
           : has_failed(act) ? "errored"
                             : "completed";
}

/* The row of a branch or a loop is complete as soon as it stands, whatever runs below it: a branch has no status (NULL),
 * and a loop has started until its data row has its output. */
static int find_status(const struct sight *sight, const struct act_row *act,
                       const char **out_status)
{
    qp_str data;
    if (act->kind != HISTORY_LOOP) {
        *out_status = act->kind == HISTORY_BRANCH ? NULL : status_of(act);
        return QP_OK;
    }
    QP_TRY(loop_data(sight, act, &data));
    *out_status = raw_has(data, "output") ? "completed" : "started";
    return QP_OK;
}

/* What `say` says, in the sight's arena; none: nothing. */
static int note_write(struct note *n, int (*say)(struct note *n), qp_str *out_note)
{
    qp_str text;
    int rc;
    buf_init(&n->text, store_env(n->sight->store), 0);
    rc = say(n);
    if (rc == QP_OK) {
        rc = buf_rc(&n->text);
    }
    text = buf_slice(&n->text);
    if (rc == QP_OK && text.n > 2 && memcmp(text.p, "; ", 2) == 0) {
        text = (qp_str){text.p + 2, text.n - 2};
    }
    if (rc == QP_OK && text.n > 0 && !arena_copy(n->sight->arena, text, out_note)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&n->text);
    return rc;
}

static int location_text(struct arena *arena, qp_str addr, qp_str *out_text)
{
    char text[LOCATION_TEXT_SIZE];
    struct location at;
    if (!flow_is_event(addr) || !location_from_address(addr, &at)) {
        return QP_OK; /* fsck H7 finds it */
    }
    return arena_copy(arena, (qp_str){text, location_print(&at, text)}, out_text) ? QP_OK
                                                                                  : QP_E_NOMEM;
}

static const char *type_of(const struct act_row *act)
{
    return act->kind > 0 && act->kind < HISTORY_TYPES ? history_word((enum history_type)act->kind)
                                                      : NULL;
}

static int64_t attempts_of(const struct act_row *act, const char *task)
{
    bool another = act->guid_seq > 0 ? act->code < 400 : strcmp(task, "held") == 0;
    return act->kind == HISTORY_ACTIVITY ? act->attempt + (another ? 1 : 0) : 0;
}

/* What the flow's own row says: its next decision. */
static int say_decision(struct note *n)
{
    return say_task(n, "no process that runs the flow has taken it yet");
}

/* Names of the signals, as say_names tells them, without the words around them. */
static int signal_names(const struct sight *sight, qp_str names, qp_str *out_text)
{
    struct raw_walk w = {.rest = names};
    struct buf text;
    int rc;
    buf_init(&text, store_env(sight->store), 0);
    while (raw_each(&w)) {
        buf_printf(&text, "%s%.*s", w.index == 0 ? "" : ", ",
                   (int)(w.value.n < 2 ? 0 : w.value.n - 2), w.value.p + 1);
    }
    rc = buf_rc(&text);
    if (rc == QP_OK && !arena_copy(sight->arena, buf_slice(&text), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&text);
    return rc;
}

/* What an event waits for, and the job that it has called. The kernel knows registrations by their topics alone. */
static int find_waits(const struct note *n, struct qp_activity *told)
{
    qp_str names;
    told->signal = QP_NONE;
    told->key = QP_NONE;
    if (n->act->kind == HISTORY_CHILD) {
        return ledger_leg1_is_done(n->act->ledger) ? child_id(n, &told->child) : QP_OK;
    }
    if (n->act->kind != HISTORY_SLEEP && n->act->kind != HISTORY_SIGNALS) {
        return QP_OK; /* its input is what the code gave, any JSON */
    }
    names = flow_member(n->act->input, "names");
    return is_done(n->act) || str_is_none(names) ? QP_OK
                                                 : signal_names(n->sight, names, &told->signal);
}

int flow_describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                           struct qp_activity *told)
{
    struct note note = {.sight = sight, .act = act, .task = {told->task, told->wake_at}};
    (void)state;
    if (str_equal(act->addr, FLOW_ADDRESS)) {
        told->type = "flow";
        return note_write(&note, say_decision, &told->note);
    }
    if (!flow_is_event(act->addr)) {
        told->type = "trigger";
        return QP_OK;
    }
    told->type = type_of(act);
    told->name = act->topic;
    told->version = act->version;
    QP_TRY(find_waits(&note, told));
    QP_TRY(find_status(sight, act, &told->status));
    told->attempts = attempts_of(act, told->task);
    told->answered_at = flow_is_born_complete(act) ? 0 : told->answered_at;
    QP_TRY(location_text(sight->arena, act->addr, &told->location));
    return note_write(&note, is_done(act) ? say_done : say_open, &told->note);
}

/* ------------------------------------------------------------------------------------- the journal */

int flow_describe_history(void *state, const struct sight *sight, int64_t kind,
                          struct qp_event *event)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = event->address};
    const void *row = NULL;
    const struct act_row *act;
    int rc;
    (void)state;
    (void)kind; /* every entry that has an address */
    if (str_is_none(event->address) || !flow_is_event(event->address)) {
        return QP_OK;
    }
    QP_TRY(location_text(sight->arena, event->address, &event->location));
    rc = store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    act = row;
    event->version = act->version;
    event->type = type_of(act);
    event->name = act->topic;
    return QP_OK;
}

/* ------------------------------------------------------------------------------- what it waits for */

struct open_work {
    qp_str addr;
    struct task_seen task;
};

/* Up to a page of what is open; of a job that has more, the number says the rest. */
struct opened {
    const struct sight *sight;
    struct open_work works[LIMIT_PAGE_ROWS];
    size_t count;
    size_t said;
    struct json_writer w;
};

static int keep_work(struct opened *o, qp_str addr, struct task_seen task)
{
    if (o->count == ARRAY_COUNT(o->works)) {
        return QP_OK;
    }
    o->works[o->count].task = task;
    return arena_copy(o->sight->arena, addr, &o->works[o->count++].addr) ? QP_OK : QP_E_NOMEM;
}

static int each_message(void *context, const void *row)
{
    const struct msg_row *m = row;
    struct task_seen task = {"none", m->wake_at};
    if (m->kind == MESSAGE_TASK) {
        task.word = task_word(m->state);
    } else if (m->kind != MESSAGE_ANSWER && m->kind != MESSAGE_RESULT) {
        return QP_OK;
    } else if (m->state != MSG_DELAYED) {
        task.word = ANSWERED;
    }
    return str_is_none(m->addr) ? QP_OK : keep_work(context, m->addr, task);
}

static int each_registration(void *context, const void *row)
{
    return keep_work(context, ((const struct hook_wait_row *)row)->addr,
                     (struct task_seen){"none", 0});
}

/* Tasks and answers before timers and registrations of the same activity. */
static int by_address(const void *a, const void *b)
{
    const struct open_work *left = a;
    const struct open_work *right = b;
    int order = str_compare(left->addr, right->addr);
    bool left_task = strcmp(left->task.word, "none") != 0;
    bool right_task = strcmp(right->task.word, "none") != 0;
    return order != 0 ? order : (int)right_task - (int)left_task;
}

/* A child that is open keeps its event open, unless that is detached or was cancelled. */
static int each_child(void *context, const void *row)
{
    const struct job_row *child = row;
    bool answers = child->state == JOB_OPEN && !str_is_none(child->parent_guid);
    return answers ? keep_work(context, child->parent_addr, (struct task_seen){"none", 0}) : QP_OK;
}

/* From the latest on: those that are open are mostly among them. */
static int read_children(struct opened *o)
{
    struct job_row parent = {.ns = o->sight->job->ns, .parent_job = o->sight->job->job};
    struct scan children = {.table = TABLE_job,
                            .index = INDEX_job_parent,
                            .prefix = &parent,
                            .prefix_count = 2,
                            .limit = LIMIT_PAGE_ROWS,
                            .slim = true,
                            .backwards = true};
    return store_scan(o->sight->store, &children, o, each_child, o->sight->err);
}

static int read_open(struct opened *o)
{
    const struct job_row *job = o->sight->job;
    struct msg_row message = {.ns = job->ns, .job = job->job};
    struct hook_wait_row registration = {.ns = job->ns, .job = job->job};
    struct scan messages = {.table = TABLE_msg,
                            .index = -1,
                            .prefix = &message,
                            .prefix_count = 2,
                            .limit = LIMIT_PAGE_ROWS};
    struct scan registrations = {.table = TABLE_hook_wait,
                                 .index = INDEX_hook_wait_job,
                                 .prefix = &registration,
                                 .prefix_count = 2,
                                 .limit = LIMIT_PAGE_ROWS};
    QP_TRY(store_scan(o->sight->store, &messages, o, each_message, o->sight->err));
    QP_TRY(store_scan(o->sight->store, &registrations, o, each_registration, o->sight->err));
    QP_TRY(read_children(o));
    qsort(o->works, o->count, sizeof o->works[0], by_address);
    return QP_OK;
}

/* What is open: a listen is a sleep where it has a time limit. */
static const char *word_of(const struct act_row *act)
{
    return act->kind != HISTORY_ACTIVITY && !str_is_none(flow_member(act->input, "names"))
               ? "listen"
               : type_of(act);
}

/* "activity 'charge' at {1}: attempt 2 is running" */
static int sentence_of(struct opened *o, const struct act_row *act, qp_str note)
{
    struct buf text;
    qp_str location = QP_NONE;
    QP_TRY(location_text(o->sight->arena, act->addr, &location));
    buf_init(&text, store_env(o->sight->store), 0);
    if (str_equal(act->addr, FLOW_ADDRESS)) {
        buf_text(&text, "the next decision");
    } else {
        buf_text(&text, word_of(act));
        if (!str_is_none(act->topic)) {
            buf_printf(&text, " '%.*s'", STR_ARG(act->topic));
        }
        buf_printf(&text, " at %.*s", STR_ARG(location));
    }
    if (!str_is_none(note)) {
        buf_printf(&text, ": %.*s", STR_ARG(note));
    }
    json_put_str(&o->w, buf_slice(&text));
    if (buf_rc(&text) != QP_OK) {
        o->w.out->rc = buf_rc(&text);
    }
    buf_done(&text);
    return QP_OK;
}

static int say_work(struct opened *o, const struct open_work *work)
{
    struct act_row key = {.ns = o->sight->job->ns, .job = o->sight->job->job, .addr = work->addr};
    struct note note = {.sight = o->sight, .task = work->task};
    const void *row = NULL;
    qp_str text = QP_NONE;
    bool decides = str_equal(work->addr, FLOW_ADDRESS);
    int rc = store_get(o->sight->store, o->sight->arena, TABLE_act, &key, &row, o->sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    note.act = row;
    if (!decides && is_done(note.act)) {
        return QP_OK; /* the timer of a listen that has ended */
    }
    QP_TRY(note_write(&note, decides ? say_decision : say_open, &text));
    o->said += decides ? 0 : 1;
    return sentence_of(o, note.act, text);
}

int flow_has_returned(const struct sight *sight, bool *out_returned)
{
    struct data_row key = {.ns = sight->job->ns, .job = sight->job->job, .name = FLOW_RETURN};
    const void *row = NULL;
    int rc = store_get(sight->store, sight->arena, TABLE_data, &key, &row, sight->err);
    *out_returned = rc == QP_OK;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* How many works are open beside those that were named: the semaphore counts them, and the flow itself until it has
 * returned. */
static void say_others(struct opened *o, bool returned)
{
    int64_t open = o->sight->job->sem - (returned ? 0 : 1) - (int64_t)o->said;
    char text[64];
    if (open > 0) {
        int n = snprintf(text, sizeof text, "%lld more", (long long)open);
        json_put_str(&o->w, (qp_str){text, (size_t)n});
    }
}

/* The reason is "word: sentence". A history at its limits is as large when the job is retried. */
static const char *advice_of(qp_str parked)
{
    const char word[] = FLOW_TOO_LARGE ":";
    size_t n = sizeof word - 1;
    return parked.n >= n && memcmp(parked.p, word, n) == 0
               ? "a person: the history is at its limit, so a retry cannot help; cancel the job"
               : "a person: correct the code and retry the job, or cancel it";
}

static int say_all(struct opened *o)
{
    bool returned = false;
    QP_TRY(flow_has_returned(o->sight, &returned));
    if (o->sight->job->paused != 0) {
        json_put_str(&o->w, QP_STR("a person: the job is paused until it is resumed"));
    }
    if (!str_is_none(o->sight->job->parked)) {
        json_put_str(&o->w, str_from(advice_of(o->sight->job->parked)));
    }
    if (returned) {
        json_put_str(&o->w, QP_STR("the end of what it has begun: the flow has returned"));
    }
    for (size_t i = 0; i < o->count && o->said < LIMIT_WAITS_SHOWN; i++) {
        if (i == 0 || !str_equal(o->works[i].addr, o->works[i - 1].addr)) {
            QP_TRY(say_work(o, &o->works[i]));
        }
    }
    say_others(o, returned);
    return QP_OK;
}

int flow_describe_job(void *state, const struct sight *sight, struct qp_job_info *info)
{
    struct opened *o = NULL;
    struct buf text;
    int rc;
    (void)state;
    if (sight->job->state != JOB_OPEN) {
        return QP_OK;
    }
    o = arena_alloc(sight->arena, sizeof *o);
    if (o == NULL) {
        return err_set(sight->err, QP_E_NOMEM, "flow: out of memory");
    }
    o->sight = sight;
    QP_TRY(read_open(o));
    buf_init(&text, store_env(sight->store), 0);
    json_writer_init(&o->w, &text);
    json_begin_array(&o->w);
    rc = say_all(o);
    json_end_array(&o->w);
    if (rc == QP_OK) {
        rc = json_writer_done(&o->w);
    }
    if (rc == QP_OK && text.n > 2 &&
        !arena_copy(sight->arena, buf_slice(&text), &info->waits_for)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&text);
    return rc;
}
