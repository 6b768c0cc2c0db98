/* agentstage.c - a trace on a store (see agentstage.h) */
#include "support/agentstage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/draft_text.h"
#include "agent/start.h"

#define TOPIC "quipu:agent:dev:javascript"

void agentstage_init(struct agentstage *s, enum storetest_kind kind, const char *id)
{
    s->now_ms = 0;
    s->asked = 0;
    (void)snprintf(s->id, sizeof s->id, "%s", id);
    s->run.lead_ms = s->lives ? NULL : &s->now_ms;
    graphrun_init(&s->run, kind, TOPIC, NULL);
}

void agentstage_done(struct agentstage *s)
{
    graphrun_done(&s->run);
}

/* ------------------------------------------------------------------------------------------ reading */

/* In the arena; its rows are read between two commits, and nothing else writes. */
static int find_job(struct agentstage *s, struct arena *arena, struct qp_err *err,
                    struct sight *out_sight)
{
    struct job_name_row name = {.ns = STORE_NS_DEFAULT, .jid = str_from(s->id)};
    struct job_row key = {.ns = STORE_NS_DEFAULT};
    const void *row = NULL;
    QP_TRY(store_get(s->run.f.s, arena, TABLE_job_name, &name, &row, err));
    key.job = ((const struct job_name_row *)row)->job;
    QP_TRY(store_get(s->run.f.s, arena, TABLE_job, &key, &row, err));
    *out_sight = (struct sight){.store = s->run.f.s, .arena = arena, .job = row, .err = err};
    return QP_OK;
}

static int read_instance(struct agentstage *s, struct arena *arena, struct instance *out)
{
    struct sight sight;
    struct qp_err err = {0};
    QP_TRY(find_job(s, arena, &err, &sight));
    return agent_instance(&sight, out);
}

static int give(void *context, struct arena *arena, const struct instance **out_instance)
{
    struct agentstage *s = context;
    struct sight sight;
    struct qp_err err = {0};
    QP_TRY(find_job(s, arena, &err, &sight));
    QP_TRY(agent_decision(&sight, &s->given));
    *out_instance = &s->given;
    return QP_OK;
}

static int see(void *context, struct arena *arena, const struct instance **out_instance)
{
    struct agentstage *s = context;
    graphrun_rest(&s->run);
    QP_TRY(read_instance(s, arena, &s->seen));
    *out_instance = &s->seen;
    return QP_OK;
}

int agentstage_show(struct agentstage *s, struct buf *out)
{
    struct json_writer w;
    struct arena arena;
    struct sight sight;
    struct qp_err err = {0};
    graphrun_rest(&s->run);
    arena_init(&arena, &s->run.f.t.env, 0);
    json_writer_init(&w, out);
    int rc = find_job(s, &arena, &err, &sight);
    if (rc == QP_OK) {
        rc = agent_face.view(NULL, &sight, "decisions", &w);
    }
    if (rc == QP_OK) {
        rc = json_writer_done(&w);
    }
    arena_done(&arena);
    return rc;
}

/* ------------------------------------------------------------------------------------------- asking */

/* What is over, or has nothing to be tried again, changes nothing. */
static int settled(int rc)
{
    return rc == QP_E_CLOSED || rc == QP_E_EXISTS || rc == QP_E_CONFLICT ? QP_OK : rc;
}

#define KEY_SIZE 96

/* The key of one question, the same when it is asked again. */
static struct request_keyed key_of(struct agentstage *s, char text[KEY_SIZE])
{
    int n = snprintf(text, KEY_SIZE, "%s-%u", s->id, s->asked);
    return (struct request_keyed){.idem = {.ns = STORE_NS_DEFAULT,
                                           .key = {text, (size_t)n},
                                           .body_hash = {text, (size_t)n},
                                           .answer = str_from(s->id),
                                           .ttl_ms = 1000000}};
}

static int ask(struct agentstage *s, const struct kind_question *asking)
{
    bool answered = false;
    char text[KEY_SIZE];
    s->asked++;
    while (!answered) {
        struct request_ask request = {.ns = STORE_NS_DEFAULT,
                                      .jid = str_from(s->id),
                                      .question = *asking,
                                      .keyed = key_of(s, text)};
        request_ask(&request);
        answered = graphrun_ask(&s->run, &request.command);
    }
    return s->run.answer;
}

/* The result of a task in hand, until it was heard. QP_E_NOT_FOUND: no such task is in hand. */
static int bring(struct agentstage *s, qp_str addr, const struct request_result *result)
{
    unsigned char guid[LIMIT_GUID_SIZE];
    bool begun = false;
    for (;;) {
        graphrun_rest(&s->run);
        const struct task *task = graphrun_find(&s->run, s->id, addr);
        if (task == NULL || (begun && memcmp(guid, task->guid, sizeof guid) != 0)) {
            return begun ? QP_OK : QP_E_NOT_FOUND; /* it was heard before the engine died */
        }
        memcpy(guid, task->guid, sizeof guid);
        int64_t kills = s->run.kills;
        begun = true;
        struct request_result request = *result;
        request.task = task;
        request_result(&request);
        if (graphrun_ask(&s->run, &request.command)) {
            int rc = s->run.answer;
            if (s->run.kills == kills) { /* else it went with its engine */
                graphrun_drop(&s->run, task);
            }
            return rc == QP_E_STALE ? QP_OK : rc; /* the task went with its job */
        }
    }
}

static int bring_told(struct agentstage *s, qp_str addr, qp_str told)
{
    struct request_result result = {.told = told, .said = RESULT_OTHER};
    return bring(s, addr, &result);
}

/* ------------------------------------------------------------------------------------------- steps */

static int start(void *context, int64_t now_ms, qp_str name, qp_str input, qp_str properties)
{
    struct agentstage *s = context;
    struct agent_start begin = {
        .input = input, .properties = properties, .is_unnamed = s->is_unnamed};
    struct arena arena;
    struct qp_err err = {0};
    bool answered = false;
    int asked = 0;
    qp_str text;
    s->now_ms = now_ms;
    arena_init(&arena, &s->run.f.t.env, 0);
    assert_int_equal(start_write(&arena, &begin, &text), QP_OK);
    for (; !answered; asked++) {
        struct request_start request = {.start = {.job = {.ref.ns = STORE_NS_DEFAULT,
                                                          .jid = str_from(s->id),
                                                          .kind = AGENT_KIND,
                                                          .workflow = name,
                                                          .version = name},
                                                  .input = text}};
        if (engine_number(s->run.e, &request.start.job.ref.job, &err) != QP_OK) {
            assert_true(s->run.faults);
            s->run.failed++;
            continue;
        }
        request_start(&request);
        answered = graphrun_ask(&s->run, &request.command);
    }
    arena_done(&arena);
    return asked > 1 ? settled(s->run.answer) : s->run.answer;
}

static int decided(void *context, int64_t now_ms, const struct draft *draft, struct qp_err *err)
{
    struct agentstage *s = context;
    struct request_result result = {.kind = RESULT_DONE};
    struct arena arena;
    (void)err;
    s->now_ms = now_ms;
    arena_init(&arena, &s->run.f.t.env, 0);
    assert_int_equal(draft_write(&arena, draft, &result.output), QP_OK);
    int rc = bring(s, AGENT_ADDRESS, &result);
    arena_done(&arena);
    return rc;
}

static void put_error(struct json_writer *w, const struct state_error *error)
{
    if (!str_is_none(error->json)) {
        json_key(w, QP_STR("error"));
        json_put_raw(w, error->json);
    }
}

static int failed(void *context, int64_t now_ms, const struct state_error *error, bool modified,
                  struct qp_err *err)
{
    struct agentstage *s = context;
    struct buf told;
    struct json_writer w;
    (void)err;
    s->now_ms = now_ms;
    buf_init(&told, &s->run.f.t.env, 0);
    json_writer_init(&w, &told);
    json_begin_object(&w);
    json_key(&w, QP_STR("status"));
    json_put_str(&w, modified ? QP_STR("modified") : QP_STR("failed"));
    put_error(&w, error);
    json_end_object(&w);
    assert_int_equal(json_writer_done(&w), QP_OK);
    int rc = bring_told(s, AGENT_ADDRESS, buf_slice(&told));
    buf_done(&told);
    return rc == QP_E_NOT_FOUND ? QP_E_CONFLICT : rc;
}

int agentstage_retry(struct agentstage *s, const char *part)
{
    bool answered = false;
    char text[KEY_SIZE];
    s->asked++;
    while (!answered) {
        struct request_unpark request = {.ns = STORE_NS_DEFAULT,
                                         .jid = str_from(s->id),
                                         .part = str_from(part),
                                         .keyed = key_of(s, text)};
        request_unpark(&request);
        answered = graphrun_ask(&s->run, &request.command);
    }
    return settled(s->run.answer);
}

static int retry(void *context, int64_t now_ms)
{
    struct agentstage *s = context;
    s->now_ms = now_ms;
    return agentstage_retry(s, NULL);
}

static int lost(void *context)
{
    struct agentstage *s = context;
    int rc = bring_told(s, AGENT_ADDRESS, QP_STR("{\"status\":\"lost\"}"));
    graphrun_rest(&s->run);
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int restart(void *context)
{
    struct agentstage *s = context;
    graphrun_restart(&s->run);
    graphrun_rest(&s->run);
    return QP_OK;
}

static int event(void *context, int64_t now_ms, qp_str name, qp_str input, struct qp_err *err)
{
    struct agentstage *s = context;
    (void)err;
    s->now_ms = now_ms;
    return settled(
        ask(s, &(struct kind_question){.what = AGENT_EVENT, .name = name, .text = input}));
}

static void put_told(struct json_writer *w, const struct instance_report *report)
{
    json_begin_object(w);
    json_key(w, QP_STR("status"));
    json_put_str(w, report->hook == HOOK_SUCCESS ? QP_STR("completed") : QP_STR("failed"));
    if (report->hook == HOOK_SUCCESS && !str_is_none(report->output)) {
        json_key(w, QP_STR("output"));
        json_put_str(w, report->output);
    }
    if (report->hook == HOOK_FAILURE) {
        put_error(w, &report->error);
    }
    if (report->retries) {
        json_key(w, QP_STR("again"));
        json_put_i64(w, report->retry_delay_ms);
    }
    json_end_object(w);
}

/* The address of the work that the report is of; none: the instance has no such work. */
static qp_str address_of(struct agentstage *s, struct arena *arena,
                         const struct instance_report *report)
{
    const struct instance *instance = NULL;
    qp_str address = QP_NONE;
    assert_int_equal(see(s, arena, &instance), QP_OK);
    const struct status *status =
        status_find(&instance->statuses, report->branch_key, report->position);
    if (status != NULL) {
        assert_int_equal(agent_work_address(arena, status->branch_key, status->number, &address),
                         QP_OK);
    }
    return address;
}

/* The result of a task in hand; else, and of what is no result, the report alone. */
static int report(void *context, int64_t now_ms, const struct instance_report *r)
{
    struct agentstage *s = context;
    struct kind_question asking = {.what = AGENT_REPORT, .more = r};
    int rc = QP_E_NOT_FOUND;
    s->now_ms = now_ms;
    if (r->hook == HOOK_SUCCESS || r->hook == HOOK_FAILURE) {
        struct arena arena;
        struct buf told;
        struct json_writer w;
        arena_init(&arena, &s->run.f.t.env, 0);
        buf_init(&told, &s->run.f.t.env, 0);
        json_writer_init(&w, &told);
        put_told(&w, r);
        qp_str address = address_of(s, &arena, r);
        rc = str_is_none(address) ? rc : bring_told(s, address, buf_slice(&told));
        buf_done(&told);
        arena_done(&arena);
    }
    return rc == QP_E_NOT_FOUND ? settled(ask(s, &asking)) : rc;
}

static int timers(void *context, int64_t now_ms)
{
    struct agentstage *s = context;
    s->now_ms = now_ms;
    return settled(ask(s, &(struct kind_question){.what = AGENT_TIMERS}));
}

/* Page by page, and again when the engine died: a second time changes nothing. */
static int change(struct agentstage *s, enum job_change what)
{
    bool answered = false;
    struct request_change request = {.more = true};
    while (!answered || request.more) {
        request =
            (struct request_change){.ns = STORE_NS_DEFAULT, .jid = str_from(s->id), .change = what};
        request_change(&request);
        answered = graphrun_ask(&s->run, &request.command);
    }
    return s->run.answer;
}

static int mode(void *context, int64_t now_ms, enum instance_mode mode)
{
    struct agentstage *s = context;
    s->now_ms = now_ms;
    if (mode == MODE_KILL) {
        return settled(graphrun_end(&s->run, s->id, JOB_INTERRUPTED));
    }
    return settled(change(s, mode == MODE_RUN ? JOB_CHANGE_RESUME : JOB_CHANGE_PAUSE));
}

struct tracestage agentstage_of(struct agentstage *s)
{
    return (struct tracestage){.context = s,
                               .start = start,
                               .see = see,
                               .give = give,
                               .decided = decided,
                               .failed = failed,
                               .retry = retry,
                               .lost = lost,
                               .restart = restart,
                               .event = event,
                               .report = report,
                               .timers = timers,
                               .mode = mode};
}

/* ---------------------------------------------------------------------------------- many decisions */

struct deciding {
    struct request_result result;
    struct arena arena;
    const struct task *task;
    int rc;
    bool answered;
};

static struct deciding decisions[AGENTSTAGE_DECISIONS];

static void note_decided(struct engine *e, struct command *c, int rc, const char *why)
{
    struct deciding *d = (struct deciding *)((char *)c - offsetof(struct deciding, result.command));
    (void)e;
    (void)why;
    d->rc = rc;
    d->answered = true;
}

static void run_script(struct agentstage *s, struct deciding *d, agentscript script, void *context)
{
    const struct instance *instance = NULL;
    const struct branch *branch = NULL;
    struct draft draft;
    qp_str properties;
    (void)snprintf(s->id, sizeof s->id, "%.*s", STR_ARG(d->task->jid));
    assert_int_equal(give(s, &d->arena, &instance), QP_OK);
    draft_init(&draft, &d->arena, instance);
    while (!draft_is_finished(&draft)) {
        qp_str output = QP_NONE;
        assert_int_equal(draft_branch(&draft, NULL, &branch, &properties), QP_OK);
        bool ends = script(context, &draft, branch, &properties);
        assert_int_equal(draft_post(&draft, properties, ends ? &output : NULL, NULL), QP_OK);
    }
    assert_int_equal(draft_write(&d->arena, &draft, &d->result.output), QP_OK);
}

static size_t submit_decisions(struct agentstage *s, agentscript script, void *context)
{
    size_t count = 0;
    for (const struct task *task = s->run.first; task != NULL && count < AGENTSTAGE_DECISIONS;
         task = task->next) {
        struct deciding *d = &decisions[count];
        if (!str_equal(task->addr, AGENT_ADDRESS)) {
            continue;
        }
        *d = (struct deciding){.task = task, .result = {.kind = RESULT_DONE, .task = task}};
        arena_init(&d->arena, &s->run.f.t.env, 0);
        run_script(s, d, script, context);
        request_result(&d->result);
        d->result.command.answer = note_decided;
        engine_submit(s->run.e, &d->result.command);
        count++;
    }
    return count;
}

size_t agentstage_decide(struct agentstage *s, agentscript script, void *context)
{
    graphrun_rest(&s->run);
    size_t count = submit_decisions(s, script, context);
    graphrun_rest(&s->run);
    for (size_t i = 0; i < count; i++) {
        assert_true(decisions[i].answered);
        assert_int_equal(decisions[i].rc, QP_OK);
        graphrun_drop(&s->run, decisions[i].task);
        arena_done(&decisions[i].arena);
    }
    return count;
}

/* ------------------------------------------------------------------------------------ one by one */

/* A task that went with its job, or with the run that had it, has no answer of its own. */
static void bring_once(struct agentstage *s, const struct task *task,
                       struct request_result *request)
{
    int64_t kills = s->run.kills;
    request->task = task;
    request_result(request);
    if (graphrun_ask(&s->run, &request->command) && s->run.kills == kills) {
        assert_true(s->run.answer == QP_OK || s->run.answer == QP_E_STALE);
        graphrun_drop(&s->run, task);
    }
}

void agentstage_bring(struct agentstage *s, const struct task *task, qp_str told)
{
    struct request_result request = {.told = told, .said = RESULT_OTHER};
    bring_once(s, task, &request);
}

void agentstage_decide_one(struct agentstage *s, const struct task *task, agentscript script,
                           void *context)
{
    struct deciding d = {.task = task, .result = {.kind = RESULT_DONE}};
    arena_init(&d.arena, &s->run.f.t.env, 0);
    run_script(s, &d, script, context);
    bring_once(s, task, &d.result);
    arena_done(&d.arena);
}
