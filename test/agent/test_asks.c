/* test_asks.c - what is asked of an instance (request_ask, face.retry), and what a result may bring, on every store
 *
 * Contract: a question is decided in the commit that answers it; what is refused has written nothing; a key makes it
 * repeatable; a closed job, an unknown one, and one of another kind are told apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/draft_text.h"
#include "support/agentstage.h"
#include "support/enginetest.h"

static struct agentstage stage;
static struct tracestage on;
static struct arena arena;
static bool is_unnamed;  /* the instance is started so */
static const char *said; /* the concrete name that scripts bring; NULL: none */

static void begin_as(enum storetest_kind kind, bool lives)
{
    memset(&stage, 0, sizeof stage);
    stage.lives = lives;
    agentstage_init(&stage, kind, "i");
    stage.is_unnamed = is_unnamed;
    on = agentstage_of(&stage);
    arena_init(&arena, &stage.run.f.t.env, 0);
    assert_int_equal(on.start(&stage, 1, QP_STR("flow"), QP_NONE, QP_STR("{}")), QP_OK);
}

static void begin(enum storetest_kind kind)
{
    begin_as(kind, false);
}

static void finish(void)
{
    graphrun_rest(&stage.run);
    graphrun_check(&stage.run);
    arena_done(&arena);
    agentstage_done(&stage);
}

/* Runs a test on every store. */
static void each_store(void (*test)(void))
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin((enum storetest_kind)kind);
        test();
        finish();
    }
}

static const struct instance *see(void)
{
    const struct instance *instance = NULL;
    assert_int_equal(on.see(&stage, &arena, &instance), QP_OK);
    return instance;
}

struct answer {
    int rc;
    bool refused;
};

static struct answer ask(const char *id, const char *key, struct kind_question question)
{
    struct request_ask request = {.ns = STORE_NS_DEFAULT,
                                  .jid = str_from(id),
                                  .question = question,
                                  .keyed = {.idem = {.ns = STORE_NS_DEFAULT,
                                                     .key = str_from(key),
                                                     .body_hash = question.name,
                                                     .answer = str_from(id),
                                                     .ttl_ms = 1000000}}};
    struct answer answer;
    request_ask(&request);
    assert_true(graphrun_ask(&stage.run, &request.command));
    answer.rc = stage.run.answer;
    answer.refused = request.refusal.rc != QP_OK;
    return answer;
}

static int unpark(const char *id, const char *part)
{
    struct request_unpark request = {
        .ns = STORE_NS_DEFAULT, .jid = str_from(id), .part = str_from(part)};
    request_unpark(&request);
    assert_true(graphrun_ask(&stage.run, &request.command));
    return stage.run.answer;
}

static struct kind_question event(const char *name)
{
    return (struct kind_question){.what = AGENT_EVENT, .name = str_from(name)};
}

/* The decision that is out: every branch ends; the first, if it is in hand, asks for a task and is left. */
static void decide(int64_t now_ms, bool asks)
{
    const struct instance *s = see();
    const struct branch *branch = NULL;
    struct draft draft;
    qp_str given;
    draft_init(&draft, &arena, s);
    assert_int_equal(said == NULL ? QP_OK : draft_name(&draft, str_from(said), NULL), QP_OK);
    for (int64_t i = s->ongoing_index; i < s->execution_count; i++) {
        qp_str output = QP_NONE;
        bool leaves = false;
        assert_int_equal(draft_branch(&draft, NULL, &branch, &given), QP_OK);
        if (branch->key == 0 && asks) {
            struct agent_work work = {.name = QP_STR("A"), .position = QP_STR("1"), .sync = true};
            struct draft_reply reply;
            assert_int_equal(draft_execute(&draft, &work, 1, NULL, &reply), QP_OK);
            leaves = reply.status == REPLY_SCHEDULED;
        }
        assert_int_equal(draft_post(&draft, given, leaves ? NULL : &output, NULL), QP_OK);
    }
    assert_int_equal(on.decided(&stage, now_ms, &draft, NULL), QP_OK);
}

/* ------------------------------------------------------------------------------------------ events */

static void events(void)
{
    assert_int_equal(graphrun_start(&stage.run, "plain", "p", "{}"), QP_OK);
    assert_int_equal(ask("none", NULL, event("E")).rc, QP_E_NOT_FOUND);
    assert_int_equal(ask("p", NULL, event("E")).rc, QP_E_UNSUPPORTED);
    assert_int_equal(ask("i", "k", event("E")).rc, QP_OK);
    assert_int_equal(ask("i", "k", event("E")).rc, QP_E_EXISTS);
    assert_int_equal(ask("i", "k", event("F")).rc, QP_E_CONFLICT);
    assert_int_equal(see()->buffer_count, 1);
    decide(2, false);
    assert_int_equal(see()->branch_count, 2);
    assert_int_equal(see()->ongoing_index, 1);
    decide(3, false);
    assert_true(see()->completed);
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_E_CLOSED);
    assert_int_equal(see()->branch_count, 2);
    graphrun_expect(&stage.run, "i", "completed", "null");
}

static void test_002_events(void **state)
{
    (void)state;
    each_store(events);
}

/* What an instance is called, and in what its script is written. */
static void names(void)
{
    const struct instance *s = see();
    assert_true(str_equal(s->id, QP_STR("i")));
    assert_true(str_equal(s->workflow_name, QP_STR("flow")));
    assert_true(str_equal(s->programming_language, QP_STR("Javascript")));
    assert_true(str_equal(s->environment, QP_STR("dev")));
}

static void test_002_names(void **state)
{
    (void)state;
    each_store(names);
}

static bool is_called(const char *name)
{
    return str_equal(see()->workflow_name, str_from(name));
}

/* An instance that was started without a concrete name is pinned by the first decision that brings one; what later ones say is
 * passed over. */
static void pinned(void)
{
    said = NULL;
    decide(2, true);
    assert_true(see()->is_unnamed && is_called("flow"));
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    said = "flow_v1";
    decide(3, true);
    assert_true(!see()->is_unnamed && is_called("flow_v1"));
    on.restart(&stage);
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    said = "flow_v2";
    decide(4, true);
    assert_true(is_called("flow_v1"));
    said = NULL;
}

static void test_002_pinned_name(void **state)
{
    (void)state;
    is_unnamed = true;
    each_store(pinned);
    is_unnamed = false;
}

/* One that has a concrete name keeps it; and what is no name is refused. */
static void named(void)
{
    struct draft draft;
    char large[LIMIT_ID_SIZE + 1];
    memset(large, 'x', sizeof large);
    draft_init(&draft, &arena, see());
    assert_int_equal(draft_name(&draft, QP_STR(""), NULL), QP_E_SHAPE);
    assert_int_equal(draft_name(&draft, (qp_str){large, sizeof large}, NULL), QP_E_SHAPE);
    assert_int_equal(draft_name(&draft, (qp_str){large, LIMIT_ID_SIZE}, NULL), QP_OK);
    said = "flow_v1";
    decide(2, true);
    assert_true(is_called("flow"));
    said = NULL;
}

static void test_002_name_of_the_start(void **state)
{
    (void)state;
    each_store(named);
}

/* An event in the commit before the closing decision's keeps the instance open; one behind it finds it closed. */
static void closing(void)
{
    const struct instance *s;
    struct draft draft;
    const struct branch *branch = NULL;
    qp_str given;
    qp_str output = QP_NONE;
    struct request_result result = {.kind = RESULT_DONE};
    struct request_ask before = {
        .ns = STORE_NS_DEFAULT, .jid = QP_STR("i"), .question = event("E")};
    struct request_ask behind = before;
    s = see();
    draft_init(&draft, &arena, s);
    assert_int_equal(draft_branch(&draft, NULL, &branch, &given), QP_OK);
    assert_int_equal(draft_post(&draft, given, &output, NULL), QP_OK);
    assert_int_equal(draft_write(&arena, &draft, &result.output), QP_OK);
    result.task = graphrun_find(&stage.run, "i", AGENT_ADDRESS);
    assert_non_null(result.task);
    request_ask(&before);
    request_ask(&behind);
    request_result(&result);
    before.command.answer = result.command.answer = enginetest_answered;
    engine_submit(stage.run.e, &before.command);
    engine_submit(stage.run.e, &result.command);
    assert_true(graphrun_ask(&stage.run, &behind.command));
    assert_int_equal(stage.run.answer, QP_OK);
    graphrun_drop(&stage.run, result.task);
    s = see();
    assert_false(s->completed);
    assert_int_equal(s->branch_count, 2);
    assert_int_equal(s->buffer_count, 1);
}

static void test_beside_the_closing_decision(void **state)
{
    (void)state;
    each_store(closing);
}

/* Texts of a buffer that is full by its bytes; actions of works enter all the same. */
static void full_buffer(void)
{
    static char text[LIMIT_INSTANCE_TEXT_SIZE];
    struct kind_question question = event("E");
    struct answer answer = {QP_OK};
    int taken = 0;
    memset(text, 'x', sizeof text);
    question.text = (qp_str){text, sizeof text};
    decide(2, true);
    assert_int_equal(ask("i", NULL, event("first")).rc, QP_OK);
    for (; answer.rc == QP_OK && taken < 100; taken++) {
        answer = ask("i", NULL, question);
    }
    assert_int_equal(answer.rc, QP_E_LIMIT);
    assert_true(answer.refused);
    assert_int_equal(taken, LIMIT_INSTANCE_BUFFER_SIZE / (int)sizeof text);
    assert_int_equal(see()->buffer_count, taken - 1);
    struct instance_report report = {
        .hook = HOOK_SUCCESS, .position = QP_STR("1"), .output = QP_STR("ok")};
    assert_int_equal(on.report(&stage, 3, &report), QP_OK);
    assert_int_equal(see()->buffer_count, taken);
}

static void test_full_buffer(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY);
    full_buffer();
    finish();
}

/* ------------------------------------------------------------------------------------------ retries */

static void fail_work(int64_t now_ms)
{
    struct instance_report report = {.hook = HOOK_FAILURE, .position = QP_STR("1")};
    assert_int_equal(
        state_error_make(&arena, QP_STR("1"), QP_STR("Oops"), QP_STR("no"), &report.error), QP_OK);
    assert_int_equal(on.report(&stage, now_ms, &report), QP_OK);
}

static const char *parked(void)
{
    static char text[100];
    const struct job_row *job = graphrun_job(&stage.run, "i");
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(job->parked));
    return text;
}

/* The work "1" of branch 0, if its task is in the hands of a worker. */
static const struct task *task_in_hand(void)
{
    qp_str address;
    graphrun_rest(&stage.run);
    assert_int_equal(agent_work_address(&arena, 0, 0, &address), QP_OK);
    return graphrun_find(&stage.run, "i", address);
}

/* A work that failed parks the job, which goes on; another attempt is given once, and has its own task. */
static void retries(void)
{
    decide(2, true);
    assert_int_equal(unpark("i", NULL), QP_E_CONFLICT);
    fail_work(3);
    assert_int_equal(see()->statuses.items[0]->state, WORK_FAILED);
    assert_string_equal(parked(), "work_failed A");
    decide(4, true);
    assert_int_equal(unpark("i", "b0/2"), QP_E_NOT_FOUND);
    assert_int_equal(unpark("i", "0/1"), QP_E_NOT_FOUND);
    assert_null(task_in_hand());
    assert_int_equal(unpark("i", "b0/1"), QP_OK);
    assert_non_null(task_in_hand());
    assert_int_equal(unpark("i", "b0/1"), QP_E_CONFLICT);
    assert_int_equal(unpark("i", NULL), QP_E_CONFLICT);
    assert_string_equal(parked(), "");
    assert_int_equal(see()->statuses.items[0]->attempt, 2);
    assert_int_equal(see()->statuses.items[0]->state, WORK_SCHEDULED);
    graphrun_expect(&stage.run, "i", "running", NULL);
    struct instance_report report = {
        .hook = HOOK_SUCCESS, .position = QP_STR("1"), .output = QP_STR("ok")};
    assert_int_equal(on.report(&stage, 5, &report), QP_OK);
    decide(6, true);
    graphrun_expect(&stage.run, "i", "completed", "null");
    assert_int_equal(unpark("i", NULL), QP_E_CLOSED);
}

static void test_retries(void **state)
{
    (void)state;
    each_store(retries);
}

/* A decision that failed parks the job: events wait, and the same decision is issued again. */
static void failed_decisions(void)
{
    struct state_error error;
    assert_int_equal(state_error_make(&arena, QP_STR("1"), QP_STR("Broken"), QP_STR("no"), &error),
                     QP_OK);
    assert_int_equal(on.failed(&stage, 2, &error, false, NULL), QP_OK);
    assert_string_equal(parked(), "decision_failed: Broken");
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    assert_true(see()->parked);
    assert_int_equal(see()->buffer_count, 1);
    assert_int_equal(unpark("i", NULL), QP_OK);
    assert_false(see()->parked);
    assert_int_equal(see()->decision_attempt, 2);
    assert_string_equal(parked(), "");
    decide(3, false);
    decide(4, false);
    graphrun_expect(&stage.run, "i", "completed", "null");
}

static void test_failed_decisions(void **state)
{
    (void)state;
    each_store(failed_decisions);
}

/* What no commit can hold parks the job, and nothing of it is applied; the most that one can hold is applied, and each of its works
 * has a job of its own when the next decision ends the instance. */
static void ask_for(struct draft *d, int64_t works, qp_str input)
{
    static struct agent_work some[LIMIT_INSTANCE_WORKS];
    static char positions[LIMIT_INSTANCE_WORKS][24];
    for (int64_t first = 0; first < works; first += LIMIT_INSTANCE_WORKS) {
        size_t count = 0;
        struct draft_reply reply;
        while (count < LIMIT_INSTANCE_WORKS && first + (int64_t)count < works) {
            (void)snprintf(positions[count], sizeof positions[0], "%lld",
                           (long long)(first + (int64_t)count));
            some[count] = (struct agent_work){
                .name = QP_STR("A"), .input = input, .position = str_from(positions[count])};
            count++;
        }
        assert_int_equal(draft_execute(d, some, count, NULL, &reply), QP_OK);
    }
}

static void decide_for(int64_t works, qp_str input)
{
    struct request_result request = {.said = RESULT_OTHER};
    const struct branch *branch = NULL;
    struct draft d;
    struct buf told;
    qp_str output = QP_NONE;
    qp_str text;
    graphrun_rest(&stage.run);
    draft_init(&d, &arena, see());
    while (!draft_is_finished(&d)) {
        assert_int_equal(draft_branch(&d, NULL, &branch, &text), QP_OK);
        if (branch->key == 0) {
            ask_for(&d, works, input);
        }
        assert_int_equal(draft_post(&d, text, &output, NULL), QP_OK);
    }
    assert_int_equal(draft_write(&arena, &d, &text), QP_OK);
    buf_init(&told, &stage.run.f.t.env, 0);
    buf_printf(&told, "{\"status\":\"decided\",\"decision\":%.*s}", STR_ARG(text));
    request.told = buf_slice(&told);
    request.task = graphrun_find(&stage.run, "i", AGENT_ADDRESS);
    request_result(&request);
    assert_true(graphrun_ask(&stage.run, &request.command));
    assert_int_equal(stage.run.answer, QP_OK);
    graphrun_drop(&stage.run, request.task);
    graphrun_rest(&stage.run);
    buf_done(&told);
}

static void expect_too_large(const char *what)
{
    static const char reason[] = "decision_too_large: ";
    assert_memory_equal(parked(), reason, strlen(reason));
    assert_non_null(strstr(parked(), what));
    assert_true(see()->parked);
    assert_int_equal(see()->work_count, 0);
    assert_int_equal(unpark("i", NULL), QP_OK);
    assert_string_equal(parked(), "");
}

static void test_decisions_too_large(void **state)
{
    static char input[LIMIT_INSTANCE_TEXT_SIZE];
    (void)state;
    memset(input, 'x', sizeof input);
    begin_as(STORETEST_MEMORY, true);
    decide_for(AGENT_DECISION_WORKS + 1, QP_NONE);
    expect_too_large("3126 works");
    decide_for(8, (qp_str){input, sizeof input});
    expect_too_large(" bytes");
    assert_int_equal(see()->decision_attempt, 3);
    decide_for(AGENT_DECISION_WORKS, QP_NONE);
    assert_int_equal(see()->work_count, AGENT_DECISION_WORKS);
    assert_true(see()->completed);
    assert_int_equal(storetest_count(&stage.run.f, TABLE_job), 1 + AGENT_DECISION_WORKS);
    finish();
}

/* A result that brings the delay of its retry: the task comes again then, and no hook runs. */
static void delays(void)
{
    decide(2, true);
    struct instance_report report = {
        .hook = HOOK_FAILURE, .position = QP_STR("1"), .retries = true, .retry_delay_ms = 700};
    assert_int_equal(state_error_make(&arena, QP_STR("1"), QP_NONE, QP_STR("later"), &report.error),
                     QP_OK);
    assert_int_equal(on.report(&stage, 3, &report), QP_OK);
    const struct instance *s = see();
    qp_str address;
    assert_int_equal(agent_work_address(&arena, 0, 0, &address), QP_OK);
    assert_int_equal(s->statuses.items[0]->attempt, 2);
    assert_int_equal(s->statuses.items[0]->retry_index, 1);
    assert_int_equal(s->branch_count, 1);
    assert_null(graphrun_find(&stage.run, "i", address));
    testenv_advance_ms(&stage.run.f.t, 699);
    graphrun_rest(&stage.run);
    assert_null(graphrun_find(&stage.run, "i", address));
    testenv_advance_ms(&stage.run.f.t, 1);
    graphrun_rest(&stage.run);
    assert_non_null(graphrun_find(&stage.run, "i", address));
}

static void test_delays(void **state)
{
    (void)state;
    each_store(delays);
}

/* `waiting` is exact: no decision is out, and no task is open. */
static void statuses(void)
{
    graphrun_expect(&stage.run, "i", "running", NULL);
    decide(2, true);
    graphrun_expect(&stage.run, "i", "running", NULL);
    struct instance_report started = {.hook = HOOK_START, .position = QP_STR("1")};
    assert_int_equal(on.report(&stage, 3, &started), QP_OK);
    decide(4, true);
    graphrun_expect(&stage.run, "i", "running", NULL);
    fail_work(5);
    decide(6, true);
    assert_int_equal(graphrun_job(&stage.run, "i")->waits, 1);
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    assert_int_equal(graphrun_job(&stage.run, "i")->waits, 0);
    decide(7, true);
    assert_int_equal(graphrun_job(&stage.run, "i")->waits, 1);
}

static void test_statuses(void **state)
{
    (void)state;
    each_store(statuses);
}

/* ------------------------------------------------------------------------------------------- pauses */

static void change(enum job_change what)
{
    struct request_change request = {.ns = STORE_NS_DEFAULT, .jid = QP_STR("i"), .change = what};
    request_change(&request);
    assert_true(graphrun_ask(&stage.run, &request.command));
    assert_int_equal(stage.run.answer, QP_OK);
    assert_false(request.more);
}

/* I22: a decision that is out is applied, events are taken in; no task is handed out, and nothing is triggered until resume. */
static void pauses(void)
{
    change(JOB_CHANGE_PAUSE);
    graphrun_expect(&stage.run, "i", "paused", NULL);
    assert_int_equal(see()->mode, MODE_PAUSE);
    decide(2, true);
    assert_int_equal(see()->statuses.count, 1);
    assert_false(see()->decision_ongoing);
    assert_null(task_in_hand());
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    assert_int_equal(see()->buffer_count, 1);
    change(JOB_CHANGE_PAUSE);
    change(JOB_CHANGE_RESUME);
    graphrun_expect(&stage.run, "i", "running", NULL);
    assert_int_equal(see()->mode, MODE_RUN);
    assert_int_equal(see()->buffer_count, 0);
    assert_true(see()->decision_ongoing);
    assert_non_null(task_in_hand());
    change(JOB_CHANGE_RESUME);
    decide(3, true);
    assert_int_equal(see()->branch_count, 2);
}

/* What a worker has in hand when the job is paused may be reported, also that it failed; a retry waits, too. */
static void pauses_with_results(void)
{
    struct instance_report done = {
        .hook = HOOK_SUCCESS, .position = QP_STR("1"), .output = QP_STR("ok")};
    decide(2, true);
    assert_non_null(task_in_hand());
    change(JOB_CHANGE_PAUSE);
    fail_work(3);
    assert_int_equal(see()->statuses.items[0]->state, WORK_SCHEDULED);
    assert_int_equal(see()->buffer_count, 1);
    assert_int_equal(unpark("i", "b0/1"), QP_OK);
    assert_null(task_in_hand());
    change(JOB_CHANGE_RESUME);
    assert_int_equal(see()->statuses.items[0]->attempt, 2);
    assert_non_null(task_in_hand());
    decide(4, true);
    change(JOB_CHANGE_PAUSE);
    assert_int_equal(on.report(&stage, 5, &done), QP_OK);
    assert_int_equal(see()->buffer_count, 1);
    assert_false(see()->decision_ongoing);
    change(JOB_CHANGE_RESUME);
    decide(6, true);
    graphrun_expect(&stage.run, "i", "completed", "null");
}

/* A decision whose task no worker had when the job was paused is not handed out, and goes on as it was prepared. */
static void pauses_before_a_decision(void)
{
    graphrun_restart(&stage.run);
    change(JOB_CHANGE_PAUSE);
    graphrun_rest(&stage.run);
    assert_true(see()->decision_ongoing);
    assert_null(graphrun_find(&stage.run, "i", AGENT_ADDRESS));
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    change(JOB_CHANGE_RESUME);
    assert_int_equal(see()->ongoing_index, 0);
    assert_int_equal(see()->buffer_count, 1);
    decide(2, false);
    decide(3, false);
    graphrun_expect(&stage.run, "i", "completed", "null");
}

static void test_002_pauses(void **state)
{
    (void)state;
    each_store(pauses);
    each_store(pauses_with_results);
    each_store(pauses_before_a_decision);
}

/* An end is an end, paused or not: what comes later is refused. */
static void kills(void)
{
    decide(2, true);
    change(JOB_CHANGE_PAUSE);
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_OK);
    assert_int_equal(graphrun_end(&stage.run, "i", JOB_INTERRUPTED), QP_OK);
    graphrun_expect(&stage.run, "i", "interrupted", NULL);
    assert_int_equal(see()->mode, MODE_KILL);
    assert_int_equal(see()->buffer_count, 0);
    assert_int_equal(ask("i", NULL, event("E")).rc, QP_E_CLOSED);
    assert_int_equal(unpark("i", NULL), QP_E_CLOSED);
}

static void test_002_kills(void **state)
{
    (void)state;
    each_store(kills);
}

static bool waits_a_while(void *context, struct draft *draft, const struct branch *branch,
                          qp_str *properties)
{
    struct agent_work work = {.name = QP_STR("_Wait"),
                              .position = QP_STR("1"),
                              .type = WORK_WAIT,
                              .end = WORK_END_AFTER,
                              .end_ms = 100,
                              .sync = true};
    struct draft_reply reply;
    (void)context;
    (void)properties;
    if (branch->call.hook != HOOK_HANDLE) {
        return true;
    }
    assert_int_equal(draft_execute(draft, &work, 1, NULL, &reply), QP_OK);
    return reply.status == REPLY_COMPLETED;
}

/* The timer of a wait fires while its instance is paused: the end is taken in with its own time. */
static void test_002_waits_while_paused(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        memset(&stage, 0, sizeof stage);
        stage.lives = true;
        agentstage_init(&stage, (enum storetest_kind)kind, "i");
        on = agentstage_of(&stage);
        arena_init(&arena, &stage.run.f.t.env, 0);
        assert_int_equal(on.start(&stage, 1, QP_STR("flow"), QP_NONE, QP_STR("{}")), QP_OK);
        while (agentstage_decide(&stage, waits_a_while, NULL) > 0) {}
        int64_t end_ms = see()->waits[0].end_ms;
        change(JOB_CHANGE_PAUSE);
        testenv_advance_ms(&stage.run.f.t, 500);
        assert_int_equal(agentstage_decide(&stage, waits_a_while, NULL), 0);
        assert_int_equal(see()->wait_count, 0);
        assert_int_equal(see()->buffer_count, 1);
        assert_int_equal(see()->buffer[0].timestamp_ms, end_ms);
        change(JOB_CHANGE_RESUME);
        assert_int_equal(agentstage_decide(&stage, waits_a_while, NULL), 1);
        graphrun_expect(&stage.run, "i", "completed", "null");
        finish();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_002_events),
        cmocka_unit_test(test_002_names),
        cmocka_unit_test(test_002_pinned_name),
        cmocka_unit_test(test_002_name_of_the_start),
        cmocka_unit_test(test_beside_the_closing_decision),
        cmocka_unit_test(test_full_buffer),
        cmocka_unit_test(test_retries),
        cmocka_unit_test(test_failed_decisions),
        cmocka_unit_test(test_decisions_too_large),
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_002_pauses),
        cmocka_unit_test(test_002_kills),
        cmocka_unit_test(test_002_waits_while_paused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
