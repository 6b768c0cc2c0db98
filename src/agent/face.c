/* face.c - the face of agent workflows (see face.h) */
#include "agent/face.h"

#include <stdio.h>

#include "agent/acting.h"
#include "agent/attempt.h"
#include "agent/draft_text.h"
#include "agent/members.h"
#include "agent/program.h"
#include "agent/retry.h"
#include "agent/rules.h"
#include "agent/rules_selftest.h"
#include "agent/show.h"
#include "agent/start.h"
#include "base/mem.h"
#include "kernel/deciding.h"
#include "store/error.h"

/* ------------------------------------------------------------------------------------------ its life */

static int open_state(const struct face_options *options, void **out_state)
{
    struct agents *agents = mem_alloc(options->env, sizeof *agents);
    if (agents == NULL) {
        return QP_E_NOMEM;
    }
    agents->env = *options->env;
    agents->lease_ms = LIMIT_AGENT_LEASE_MS;
    *out_state = agents;
    return QP_OK;
}

static void close_state(void *state)
{
    struct qp_env env = ((struct agents *)state)->env;
    mem_free(&env, state);
}

static struct program program_of(void *state)
{
    return agent_program(state);
}

void agents_lead(struct agents *agents, const int64_t *now_ms)
{
    agents->lead_ms = now_ms;
}

void agents_lease(struct agents *agents, qp_ms least_ms)
{
    QP_ASSERT(least_ms > 0);
    QP_ASSERT(least_ms <= LIMIT_LEASE_MS);
    agents->lease_ms = least_ms;
}

/* ------------------------------------------------------------------------------------------ questions */

static int take_event(struct turn *t, const struct kind_question *asking, struct qp_err *err)
{
    struct acting a;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS));
    QP_TRY(instance_event(&a.s, acting_now(t), asking->name, asking->text, err));
    if (a.s.ignored) { /* step 1 of the closing decision stands, and its step 2 closes the job */
        return QP_E_CLOSED;
    }
    return acting_conclude(&a, AGENT_EVENT_CAME, asking->name);
}

static int take_report(struct turn *t, const struct kind_question *asking)
{
    struct acting a;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS | WINDOW_WORKS));
    QP_TRY(instance_report(&a.s, acting_now(t), asking->more));
    return acting_conclude(&a, AGENT_REPORTED, QP_NONE);
}

static int take_timers(struct turn *t)
{
    struct acting a;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS));
    QP_TRY(instance_timers(&a.s, acting_now(t)));
    return acting_conclude(&a, AGENT_REPORTED, QP_NONE);
}

static int ask(void *state, struct turn *t, const struct kind_question *asking, struct qp_err *err)
{
    (void)state;
    switch ((enum agent_question)asking->what) {
    case AGENT_EVENT:
        return take_event(t, asking, err);
    case AGENT_REPORT:
        return take_report(t, asking);
    case AGENT_TIMERS:
        return take_timers(t);
    }
    return QP_E_UNSUPPORTED;
}

/* What came while it was paused is decided now (I22). A task that is a job of its own has no more to do, nor an instance that is
 * still to begin. The journal has the resumption already. */
static int resume(void *state, struct turn *t)
{
    struct acting a;
    int rc = acting_load(&a, t, WINDOW_WAITS | WINDOW_BUFFER);
    (void)state;
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    QP_ASSERT(a.s.mode == MODE_RUN);
    a.s.mode = MODE_PAUSE;
    QP_TRY(instance_set_mode(&a.s, acting_now(t), MODE_RUN));
    QP_TRY(acting_save(&a));
    return acting_settle(&a, NULL);
}

/* ------------------------------------------------------------------------------------------- results */

static int refuse(struct qp_err *err, const char *pointer, const char *text)
{
    (void)err_set(err, QP_E_SHAPE, "%s", text);
    return err_point(err, QP_E_SHAPE, "%s", pointer);
}

/* The members that `told` may have. */
struct told {
    qp_str status;
    qp_str output;
    qp_str error;
    qp_str decision;
    int64_t again; /* + 1 */
    bool tries_again;
};

static int read_told(struct turn *t, const struct bringing *x, struct told *out, struct qp_err *err)
{
    struct raw_walk w = {.rest = x->told};
    const struct member members[] = {TEXT("status", &out->status), TEXT("output", &out->output),
                                     RAW("error", &out->error), RAW("decision", &out->decision),
                                     NUMBER("again", &out->again)};
    *out = (struct told){0};
    if (members_read(turn_arena(t), x->told, members, ARRAY_COUNT(members)) != QP_OK) {
        return refuse(err, "", "a result has status, output, error, decision and again");
    }
    while (raw_each(&w)) {
        out->tries_again |= str_equal(w.key, QP_STR("again"));
    }
    return QP_OK;
}

static int read_error(struct turn *t, qp_str text, struct state_error *out, struct qp_err *err)
{
    struct json *tree = NULL;
    if (str_is_none(text)) {
        return state_error_make(turn_arena(t), QP_NONE, QP_NONE, QP_NONE, out);
    }
    QP_TRY(json_parse(turn_arena(t)->env, text, err, &tree));
    int rc = state_error(turn_arena(t), tree, err, out);
    json_free(tree);
    return rc == QP_E_SHAPE ? err_point(err, rc, "/error") : rc;
}

/* What people see of an error, as long as an error may be. */
static qp_str error_name(const struct state_error *error)
{
    return str_is_none(error->name) ? QP_STR("its code reported an error") : error_cut(error->name);
}

/* Nothing of the decision is applied; the job is parked, and the reason stands with the instance (I12). */
static int park_decision(struct turn *t, const struct state_error *error, const char *reason,
                         struct bringing *x, struct qp_err *err)
{
    struct acting a;
    QP_TRY(acting_load(&a, t, WINDOW_WAITS));
    QP_TRY(instance_failed(&a.s, acting_now(t), error, err));
    QP_TRY(acting_save(&a));
    x->kind = RESULT_PARK;
    x->reason = str_from(reason);
    x->error = error_name(error);
    return QP_OK;
}

/* Whether the decision fits is asked before it counts. QP_E_TOO_LARGE: its commit would be too large. */
static int check_decision(struct turn *t, qp_str text, struct qp_err *err)
{
    struct acting a;
    struct draft draft;
    if (text.n > LIMIT_FLOW_DECISION_SIZE) {
        return err_set(err, QP_E_TOO_LARGE,
                       "the decision has %zu bytes, at most %d are allowed: let it change smaller "
                       "properties, or ask for works step by step",
                       text.n, LIMIT_FLOW_DECISION_SIZE);
    }
    QP_TRY(acting_load(&a, t, WINDOW_WAITS | WINDOW_BATCH));
    if (!a.s.decision_ongoing || a.s.parked) {
        return QP_E_STALE; /* it was taken, or the instance is over; the fence of the task is compared later */
    }
    QP_TRY(draft_read(turn_arena(t), text, &a.s, err, &draft));
    return draft.work_count <= AGENT_DECISION_WORKS
               ? QP_OK
               : err_set(err, QP_E_TOO_LARGE,
                         "the decision asks for %zu works, at most %d are allowed: ask for them "
                         "step by step",
                         draft.work_count, AGENT_DECISION_WORKS);
}

/* What no commit can hold is no fault of the task: a person must change the code. */
static int take_decision(struct turn *t, qp_str text, struct bringing *x, struct qp_err *err)
{
    struct state_error error;
    int rc = check_decision(t, text, err);
    if (rc != QP_E_TOO_LARGE) {
        x->kind = RESULT_DONE;
        x->output = text;
        return rc;
    }
    qp_str why = str_from(err->text);
    QP_TRY(state_error_make(turn_arena(t), QP_STR("decision_too_large"), QP_STR("DecisionTooLarge"),
                            why, &error));
    QP_TRY(park_decision(t, &error, "decision_too_large", x, err));
    return arena_copy(turn_arena(t), why, &x->error) ? QP_OK : QP_E_NOMEM;
}

static int decision_told(struct turn *t, const struct told *told, struct bringing *x,
                         struct qp_err *err)
{
    struct state_error error;
    if (str_equal(told->status, QP_STR("decided")) && !str_is_none(told->decision)) {
        return take_decision(t, told->decision, x, err);
    }
    if (str_equal(told->status, QP_STR("lost"))) {
        x->kind = RESULT_BACK;
        x->counts = true;
        return QP_OK;
    }
    if (str_equal(told->status, QP_STR("modified"))) {
        QP_TRY(state_error_make(turn_arena(t), QP_STR("modified"), QP_STR("ModifiedDecider"),
                                QP_STR("the code of a known work has changed"), &error));
        return park_decision(t, &error, "modified", x, err);
    }
    if (!str_equal(told->status, QP_STR("failed"))) {
        return refuse(err, "/status",
                      "of a decision the status is decided, failed, modified or lost");
    }
    QP_TRY(read_error(t, told->error, &error, err));
    return park_decision(t, &error, "decision_failed", x, err);
}

static int work_told(struct turn *t, const struct told *told, struct bringing *x,
                     struct qp_err *err)
{
    struct state_error error = {0};
    struct told copy = *told;
    const struct member members[] = {TEXT("output", &copy.output), RAW("failed", &error.json)};
    x->kind = RESULT_DONE;
    if (!str_equal(told->status, QP_STR("completed"))) {
        if (!str_equal(told->status, QP_STR("failed"))) {
            return refuse(err, "/status", "of a task the status is completed or failed");
        }
        QP_TRY(read_error(t, told->error, &error, err));
        copy.output = QP_NONE;
    }
    if (told->tries_again && !str_is_none(error.json)) {
        x->kind = RESULT_ERROR;
        x->error = error_name(&error);
        x->again = true;
        x->again_ms = told->again;
        return QP_OK;
    }
    return members_write(turn_arena(t), members, ARRAY_COUNT(members), &x->output);
}

static int result(void *state, struct turn *t, struct bringing *x, struct qp_err *err)
{
    struct told told;
    bool decides = str_equal(t->site.addr, AGENT_ADDRESS);
    (void)state;
    if (decides && x->kind == RESULT_DONE) {
        return check_decision(t, x->output, err);
    }
    if (x->kind != RESULT_OTHER) {
        return refuse(err, "/status", "a result of an agent says its own status");
    }
    QP_TRY(read_told(t, x, &told, err));
    return decides ? decision_told(t, &told, x, err) : work_told(t, &told, x, err);
}

/* ------------------------------------------------------------------------------------------- reading */

/* The attempt is one more for each time that the task was given to a holder since it was put, or revived. */
static int count_attempts(const struct sight *sight, const struct act_row *act, struct instance *s)
{
    const void *row = NULL;
    unsigned char guid[LIMIT_GUID_SIZE];
    deciding_guid(sight->job, act, guid);
    struct msg_row key = {.ns = sight->job->ns,
                          .job = sight->job->job,
                          .guid = {(const char *)guid, LIMIT_GUID_SIZE}};
    int rc = store_get(sight->store, sight->arena, TABLE_msg, &key, &row, sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    const struct msg_row *m = row;
    s->decision_attempt += m->tries > 1 ? m->tries - 1 : 0;
    return QP_OK;
}

/* What ended with the job: the rest of its rows is there until the job is deleted. */
static void end_instance(const struct job_row *job, struct instance *s)
{
    if (job->state == JOB_OPEN || s->completed) {
        return;
    }
    s->mode = MODE_KILL;
    s->decision_ongoing = false;
    s->parked = false;
    s->wait_count = 0;
    s->buffer_count = 0;
}

static int fill_names(const struct sight *sight, struct instance *s)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = TRIGGER_ADDRESS};
    struct agent_start start;
    const void *row = NULL;
    QP_TRY(store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err));
    QP_TRY(start_read(sight->arena, ((const struct act_row *)row)->input, &start));
    s->mode = acting_mode(sight->job);
    s->id = sight->job->jid;
    s->custom_id = sight->job->custom_id;
    s->is_unnamed = start.is_unnamed && str_is_none(s->pinned_name);
    /* The concrete name, to which it is pinned. */
    s->workflow_name = start.is_unnamed && !s->is_unnamed ? s->pinned_name : sight->job->version;
    s->canonical_name = start.canonical_name;
    s->programming_language = start.language;
    s->environment = start.environment;
    return QP_OK;
}

/* What does not stand in its rows: names, and attempts. */
static int complete_instance(const struct sight *sight, struct instance *s)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = AGENT_ADDRESS};
    const void *act = NULL;
    QP_TRY(store_get(sight->store, sight->arena, TABLE_act, &key, &act, sight->err));
    QP_TRY(fill_names(sight, s));
    return count_attempts(sight, act, s);
}

int agent_decision(const struct sight *sight, struct instance *out_instance)
{
    struct row_source source = acting_sight(sight);
    QP_TRY(stored_load_draft(&source, sight->arena, out_instance));
    if (!out_instance->decision_ongoing || out_instance->parked || sight->job->state != JOB_OPEN) {
        return err_set(sight->err, QP_E_CONFLICT, "no decision of this instance is out");
    }
    return complete_instance(sight, out_instance);
}

int agent_instance(const struct sight *sight, struct instance *out_instance)
{
    struct row_source source = acting_sight(sight);
    QP_TRY(stored_load_whole(&source, sight->arena, out_instance));
    QP_TRY(complete_instance(sight, out_instance));
    end_instance(sight->job, out_instance);
    out_instance->output = state_branch(out_instance, 0)->output;
    return QP_OK;
}

static int view(void *state, const struct sight *sight, const char *name, struct json_writer *w)
{
    struct instance s;
    int rc = strcmp(name, "decisions") == 0 ? agent_instance(sight, &s) : QP_E_NOT_FOUND;
    (void)state;
    if (rc == QP_E_NOT_FOUND) {
        return err_set(sight->err, rc, "job '%.*s' is no instance that has begun: it has no %s",
                       STR_ARG(sight->job->jid), name);
    }
    QP_TRY(rc);
    show_instance(w, &s);
    return QP_OK;
}

/* ------------------------------------------------------------------------------- tasks for agents */

/* A decision's task has no input: its holder reads the instance (agent_decision). */
static const char *task_kind(void *state, qp_str address)
{
    (void)state;
    return str_equal(address, AGENT_ADDRESS) ? "decision" : NULL;
}

static int read_row(const struct sight *sight, enum table_id table, const void *key,
                    const void **out_row)
{
    int rc = store_get(sight->store, sight->arena, table, key, out_row, sight->err);
    *out_row = rc == QP_OK ? *out_row : NULL;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int read_data(const struct sight *sight, qp_str name, qp_str *out_value)
{
    const void *row = NULL;
    QP_TRY(read_row(sight, TABLE_data,
                    &(struct data_row){.ns = sight->job->ns, .job = sight->job->job, .name = name},
                    &row));
    *out_value = row == NULL ? QP_NONE : ((const struct data_row *)row)->value;
    return QP_OK;
}

/* Automatic retries since the last one by hand. A job of its own begins with an attempt by hand. */
static int read_retries(const struct sight *sight, qp_str address, struct status *status)
{
    struct act_row trigger = {
        .ns = sight->job->ns, .job = sight->job->job, .addr = TRIGGER_ADDRESS};
    struct agent_start start;
    int64_t branch = 0;
    int64_t number = 0;
    qp_str text;
    const void *row = NULL;
    if (agent_work_of(address, &branch, &number)) {
        QP_TRY(agent_row_name(sight->arena, AGENT_WORK, branch, number, &text));
        QP_TRY(read_data(sight, text, &text));
        return str_is_none(text) ? QP_E_CORRUPT : rows_get_work(sight->arena, text, status);
    }
    QP_TRY(read_row(sight, TABLE_act, &trigger, &row));
    QP_TRY(read_data(sight, AGENT_TASK_ATTEMPT, &text));
    if (row == NULL || !members_i64(text, &status->attempt)) {
        return QP_E_CORRUPT;
    }
    QP_TRY(start_read(sight->arena, ((const struct act_row *)row)->input, &start));
    status->retry_index = status->attempt - start.attempt;
    return QP_OK;
}

static int write_task(const struct sight *sight, qp_str address, struct json_writer *w)
{
    struct status status = {0};
    const void *row = NULL;
    QP_TRY(read_row(
        sight, TABLE_act,
        &(struct act_row){.ns = sight->job->ns, .job = sight->job->job, .addr = address}, &row));
    if (row == NULL) {
        return QP_OK; /* it went with its job */
    }
    QP_TRY(rows_get_definition(sight->arena, ((const struct act_row *)row)->input, &status));
    QP_TRY(read_retries(sight, address, &status));
    json_key(w, QP_STR("name"));
    json_put_str(w, status.work.name);
    json_key(w, QP_STR("input"));
    json_put_str(w, status.work.input);
    json_key(w, QP_STR("hash"));
    json_put_str(w, (qp_str){status.hash, WORK_HASH_SIZE});
    json_key(w, QP_STR("retryIndex"));
    json_put_i64(w, status.retry_index + 1); /* from 1: clients take 0 for none */
    return QP_OK;
}

static int write_decision(const struct sight *sight, struct json_writer *w)
{
    struct instance s = {.arena = sight->arena};
    struct row_counts counts;
    qp_str text;
    QP_TRY(agent_row_name(sight->arena, AGENT_HEAD, 0, 0, &text));
    QP_TRY(read_data(sight, text, &text));
    if (str_is_none(text)) {
        return QP_OK; /* it went with its job */
    }
    QP_TRY(rows_get_head(sight->arena, text, &s, &counts));
    QP_TRY(fill_names(sight, &s));
    json_key(w, QP_STR("name"));
    json_put_str(w, s.workflow_name);
    return QP_OK;
}

static int task(void *state, const struct sight *sight, qp_str address, struct json_writer *w)
{
    (void)state;
    return str_equal(address, AGENT_ADDRESS) ? write_decision(sight, w)
                                             : write_task(sight, address, w);
}

int agent_lease(const struct agents *agents, struct arena *arena, qp_str definition,
                qp_ms *out_lease_ms)
{
    struct status status = {0};
    QP_TRY(rows_get_definition(arena, definition, &status));
    *out_lease_ms = attempt_lease(agents, &status);
    return QP_OK;
}

static bool is_work(qp_str addr)
{
    return addr.n > 0 && addr.p[0] == AGENT_WORK_MARK;
}

/* What the last answer of a work says: it succeeded, or failed, and why. */
static int describe_result(const struct sight *sight, const struct act_row *act,
                           struct qp_activity *told)
{
    qp_str failed = QP_NONE;
    qp_str name = QP_NONE;
    const struct member members[] = {RAW("failed", &failed)};
    const struct member reasons[] = {RAW("name", &name)};
    if (act->code >= 400) {
        told->mark = "failed";
        return QP_OK;
    }
    QP_TRY(members_read(sight->arena, act->output, members, ARRAY_COUNT(members)));
    told->mark = str_is_none(failed) ? "done" : "failed";
    if (!str_is_none(failed)) {
        QP_TRY(members_read(sight->arena, failed, reasons, ARRAY_COUNT(reasons)));
        told->note = name.n > 2 && name.p[0] == '"' ? (qp_str){name.p + 1, name.n - 2} : QP_NONE;
    }
    return QP_OK;
}

static int describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                             struct qp_activity *told)
{
    struct status status = {0};
    bool tried = strcmp(told->task, "none") != 0; /* another attempt is on its way */
    (void)state;
    if (str_equal(act->addr, AGENT_ADDRESS)) {
        told->type = "decisions";
        told->name = QP_STR("decisions");
    } else if (is_work(act->addr)) {
        QP_TRY(rows_get_definition(sight->arena, act->input, &status));
        told->type = work_type_name(status.work.type);
        told->name = status.work.name;
        return tried || act->guid_at == 0 ? QP_OK : describe_result(sight, act, told);
    }
    return QP_OK;
}

/* An entry about a work has its name. */
static int name_entry(const struct sight *sight, struct qp_event *event)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = event->address};
    struct status status = {0};
    const void *row = NULL;
    int rc;
    if (str_equal(event->address, AGENT_ADDRESS)) {
        event->name = QP_STR("decisions");
    }
    if (!is_work(event->address)) {
        return QP_OK;
    }
    rc = store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    QP_TRY(rows_get_definition(sight->arena, ((const struct act_row *)row)->input, &status));
    event->type = work_type_name(status.work.type);
    event->name = status.work.name;
    return QP_OK;
}

static int describe_history(void *state, const struct sight *sight, int64_t kind,
                            struct qp_event *event)
{
    static const char *const words[] = {
        [AGENT_EVENT_CAME] = "event", [AGENT_REPORTED] = "reported",
        [AGENT_RETRIED] = "retried",  [AGENT_STARTED] = "started",
        [AGENT_LATE] = "late",        [AGENT_AGAIN_LATER] = "failed"};
    (void)state;
    if (kind >= KERNEL_EVENTS && kind - KERNEL_EVENTS < (int64_t)ARRAY_COUNT(words)) {
        event->kind = words[kind - KERNEL_EVENTS];
    }
    return name_entry(sight, event);
}

static int resolve_start(void *state, struct bundle *b, struct naming *n, struct qp_err *err)
{
    struct agent_start start;
    (void)state;
    if (str_is_none(n->version)) {
        return err_set(err, QP_E_INVALID, "an instance needs the concrete name of its workflow");
    }
    return start_read(&b->commit->arena, n->input, &start) == QP_OK
               ? QP_OK
               : err_set(err, QP_E_SHAPE,
                         "the input of an instance must be an object with input, properties, "
                         "language, environment and canonical_name, each a string or null");
}

const struct face agent_face = {.kind = AGENT_KIND,
                                .name = AGENT_NAME,
                                .name_kind = NAMES_NONE,
                                .hook_kind = NAMES_NONE,
                                .open = open_state,
                                .close = close_state,
                                .program = program_of,
                                .resolve_start = resolve_start,
                                .ask = ask,
                                .resume = resume,
                                .retry = agent_retry,
                                .result = result,
                                .describe_activity = describe_activity,
                                .describe_history = describe_history,
                                .task = task,
                                .task_kind = task_kind,
                                .view = view,
                                .rules = agent_rules,
                                .selftest = agent_rules_selftest};
