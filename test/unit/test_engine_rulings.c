/* test_engine_rulings.c - the rulings on the ledger protocol, H1 to H11, each held by an engine
 *
 * Each test says what its ruling forbids, brings it about, and shows that it does not happen. The
 * guards that it rests on are named in test/mutants.txt: without them these tests fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"
#include "support/enginetest.h"
#include "support/turns.h"

static struct enginetest x;

#define TRIGGER(children)                                                                          \
    {                                                                                              \
        .name = "trigger", .category = 'D', .next = (children)                                     \
    }
#define TASK(actor, children)                                                                      \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_TASK, .topic = "t", .next = (children)      \
    }
#define SLEEP(actor, time, children)                                                               \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_SLEEP, .ms = (time), .next = (children)     \
    }
#define HOOK(actor, children)                                                                      \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_HOOK, .topic = "h", .key = "k",             \
        .next = (children)                                                                         \
    }

static const struct actor sleeper[] = {
    TRIGGER("s v"), SLEEP("s", 1000, "w"), HOOK("v", NULL), TASK("w", NULL), {0}};
static const struct actor worker[] = {TRIGGER("w"), TASK("w", NULL), {0}};
static const struct actor three[] = {
    TRIGGER("a b c"), TASK("a", NULL), TASK("b", NULL), TASK("c", NULL), {0}};

static void start(void)
{
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
}

static const struct job_row *job(void)
{
    return enginetest_job(&x, x.job);
}

static void assert_digits(const char *addr, const char *digits)
{
    assert_string_equal(enginetest_digits(&x, addr), digits);
}

/* Rounds until an activity has these digits. */
static void until(const char *addr, const char *digits)
{
    struct qp_err err;
    bool busy = true;
    for (int i = 0; i < 50 && strcmp(enginetest_digits(&x, addr), digits) != 0; i++) {
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    }
    assert_digits(addr, digits);
}

/* Rounds until the engine's stream has a message that is held: it is in the engine's batch. */
static void until_held(void)
{
    struct qp_err err;
    bool busy = true;
    while (enginetest_message(&x, x.job) == NULL ||
           enginetest_message(&x, x.job)->state != MSG_HELD) {
        assert_true(busy);
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    }
}

/* ---------------------------------------------------------------------------------------------- H1 */

/* A second engine on the same store, which ends the run of the first and does its work. */
static void another_engine_works(void)
{
    struct engine *other;
    struct engine_options o = x.options;
    struct qp_err err;
    o.name = "other";
    assert_int_equal(engine_open(&o, &other, &err), QP_OK);
    assert_int_equal(engine_settle(other, &err), QP_OK);
    assert_int_equal(engine_close(other, &err), QP_OK);
}

static void stolen(void)
{
    struct engine_stats before;
    start();
    testenv_advance_ms(&x.f.t, 1000);
    until_held();
    another_engine_works();
    assert_digits("s,0,0", "201100000000001 000011000000001");
    assert_int_equal(job()->sem, 2);
    before = engine_stats(x.e);
    enginetest_settle(&x);
    assert_int_equal(engine_stats(x.e).stale, before.stale + 1);
    assert_digits("s,0,0", "201100000000001 000011000000001");
    assert_int_equal(job()->sem, 2);
    enginetest_crash(&x);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(job()->sem, 1);
}

/* An engine that stalled in the possession of a message finds its token stale, and does nothing. */
static void test_H1_stale_token(void **state)
{
    (void)state;
    enginetest_each(&x, sleeper, false, stolen);
    enginetest_each(&x, sleeper, true, stolen);
}

typedef int (*add_step)(struct bundle *b, const struct site *site);

static int add_work(struct bundle *b, const struct site *site)
{
    return step_work(b, site, 200, QP_STR("ok"));
}

static int add_spawn(struct bundle *b, const struct site *site)
{
    return step_spawn(b, site, &(struct spawn){.n = 1, .close_state = JOB_COMPLETED});
}

static int add_leg1(struct bundle *b, const struct site *site)
{
    return leg1_done(b, site, false);
}

static int add_entry(struct bundle *b, const struct site *site)
{
    return leg2_enter(b, site, CEILINGS_DEFAULT);
}

/* Two handles carry out the same step, one after the other: each has read the digits before. Returns the code of
 * the one that came second. */
static int both_in_turn(add_step add, const struct site *site)
{
    struct store *second = storetest_second(&x.f);
    struct commit one;
    struct commit two;
    struct qp_err err;
    int rc;
    commit_init(&one, x.f.s);
    commit_init(&two, second);
    assert_int_equal(add(commit_bundle(&one, "one"), site), QP_OK);
    assert_int_equal(add(commit_bundle(&two, "two"), site), QP_OK);
    assert_int_equal(store_commit(x.f.s, &one), QP_OK);
    assert_int_equal(store_commit(second, &two), QP_OK);
    assert_int_equal(one.first->rc, QP_OK);
    rc = two.first->rc;
    commit_done(&one);
    commit_done(&two);
    assert_int_equal(store_close(second, &err), QP_OK);
    return rc;
}

/* The same, in turns from call to call: the second one waits for the rows of the first. */
static int both_at_once(add_step add, const struct site *site)
{
    static struct turns_player players[2];
    struct model_server server = {0};
    struct commit commits[2];
    int rc;
    if (x.f.memory == NULL) {
        return both_in_turn(add, site);
    }
    x.f.memory->options.calls = &model_locks_calls; /* of the handles that are opened now */
    for (int i = 0; i < 2; i++) {
        turns_open(&players[i], &x.f.t, x.f.memory, &server);
        commit_init(&commits[i], players[i].s);
        assert_int_equal(add(commit_bundle(&commits[i], "step"), site), QP_OK);
        turns_begin(&players[i], &commits[i]);
    }
    assert_true(turns_go(&players[0])); /* comes first */
    while (turns_is_running(&players[0])) {
        assert_true(turns_is_running(&players[1])); /* it cannot end before the first */
        (void)turns_go(&players[1]);                /* false: it waits */
        assert_true(turns_go(&players[0]));
    }
    turns_finish(&players[1]);
    assert_int_equal(commits[0].rc, QP_OK);
    assert_int_equal(commits[0].first->rc, QP_OK);
    rc = commits[1].first->rc;
    for (int i = 0; i < 2; i++) {
        commit_done(&commits[i]);
        turns_close(&players[i]);
    }
    x.f.memory->options.calls = NULL;
    return rc;
}

/* Two engines that hold one message with the same token, and have read the same digits: each step is
 * committed by one of them, and the bundle of the other rolls back as a whole. H6 is the same for
 * Leg1, which has no GUID. */
static void two_hold_it(enum storetest_kind kind)
{
    struct site w = {.ref = {STORE_NS_DEFAULT, 0}, .addr = QP_STR("w,0,0")};
    struct op enter = {.kind = OP_act_create};
    enginetest_init(&x, kind, three);
    enginetest_open(&x);
    start();
    w.ref.job = x.job;
    w.guid = storetest_guid(1);
    enter.act_create = (struct op_act_create){
        .ref = w.ref, .addr = w.addr, .category = 'A', .ledger = LEDGER_LEG1_ENTRY};
    assert_int_equal(storetest_op(&x.f, &enter), QP_OK);
    assert_int_equal(both_at_once(add_leg1, &w), QP_E_DIGIT);
    assert_digits("w,0,0", "001100000000000");
    assert_int_equal(both_at_once(add_entry, &w), QP_E_DONE);
    assert_digits("w,0,0", "001100000000001 000000000000001");
    assert_int_equal(both_at_once(add_work, &w), QP_E_DIGIT);
    assert_digits("w,0,0", "001100000000001 000010000000001");
    assert_int_equal(both_at_once(add_spawn, &w), QP_E_DONE);
    assert_digits("w,0,0", "201100000000001 000011000000001");
    assert_int_equal(job()->sem, 3);
    engine_abandon(x.e); /* the activity came from nowhere: a check would say so */
    while (x.tasks != NULL) {
        enginetest_forget(&x, x.tasks);
    }
    storetest_done(&x.f);
}

static void test_H1_H6_H8_two_hold_it(void **state)
{
    (void)state;
    two_hold_it(STORETEST_MEMORY_ROWS);
    if (storetest_kinds() == STORETEST_ALL) {
        two_hold_it(STORETEST_POSTGRES); /* one after the other */
    }
}

/* ---------------------------------------------------------------------------------------------- H2 */

static struct request_result result_of(struct task *task)
{
    struct request_result r = {.task = task, .output = QP_STR("ok")};
    task->tries = 2; /* its response is a message */
    request_result(&r);
    r.command.answer = enginetest_answered;
    return r;
}

static void closed_half_way(void)
{
    struct request_result r;
    start();
    r = result_of(x.tasks);
    engine_submit(x.e, &r.command);
    until("w,0,0", "001100000000001 000111000000001");
    assert_non_null(job()->closed_by.p);
    assert_int_equal(job()->completions, 0);
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_int_equal(job()->completions, 1);
    assert_digits("w,0,0", "201100000000001 000111100000001");
}

/* The job is closed by step 2, and the engine dies: the redelivery still completes it. */
static void test_H2_closed_between_steps(void **state)
{
    (void)state;
    enginetest_each(&x, worker, true, closed_half_way);
}

static void too_late(void)
{
    const struct msg_row *timer;
    struct op again = {.kind = OP_msg_put};
    char guid[LIMIT_GUID_SIZE];
    int64_t acts;
    start();
    timer = enginetest_message(&x, x.job);
    memcpy(guid, timer->guid.p, sizeof guid);
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_OK);
    assert_null(enginetest_message(&x, x.job)); /* swept */
    acts = (int64_t)enginetest_rows(&x, TABLE_act, x.job);
    again.msg_put = (struct op_msg_put){.ref = {STORE_NS_DEFAULT, x.job},
                                        .topic = ENGINE_TOPIC,
                                        .addr = QP_STR("s,0,0"),
                                        .guid = {guid, sizeof guid}};
    assert_int_equal(storetest_op(&x.f, &again), QP_OK);
    enginetest_crash(&x); /* so that it looks into its stream */
    enginetest_settle(&x);
    assert_int_equal(engine_stats(x.e).late, 1);
    assert_null(enginetest_message(&x, x.job));
    assert_digits("s,0,0", "001100000000000");
    assert_int_equal(enginetest_rows(&x, TABLE_act, x.job), acts);
}

/* A GUID that never entered finds the job closed: the message is acked and leaves nothing. */
static void test_H2_late_message(void **state)
{
    (void)state;
    enginetest_each(&x, sleeper, false, too_late);
    enginetest_each(&x, sleeper, true, too_late);
}

/* ---------------------------------------------------------------------------------------------- H3 */

static int inception_only(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_start *r = (struct request_start *)c;
    struct turn t = {.stepwise = true};
    int rc = turn_start(&t, engine_kernel(e), b, &c->outcome, &r->start);
    r->job = t.site.ref;
    return rc;
}

static int ask_start(struct request_start *r, const char *input)
{
    enginetest_fill_start(&x, r, "a", input);
    return enginetest_ask(&x, &r->command);
}

static void duplicates(void)
{
    struct request_start r;
    int64_t first;
    assert_int_equal(ask_start(&r, "1"), QP_OK);
    first = r.job.job;
    assert_int_equal(ask_start(&r, "1"), QP_E_EXISTS);
    assert_int_equal(r.job.job, first);
    assert_int_equal(ask_start(&r, "2"), QP_E_CONFLICT);
    assert_int_equal(r.job.job, first);
    x.job = first;
    assert_int_equal(job()->sem, 1);
    assert_digits("trigger,0", "101100000000001 000011000000000");
    assert_non_null(x.tasks);
    assert_null(x.tasks->next);
}

/* A start that comes twice is the same job, also when it comes ten times; another body is refused. */
static void test_H3_duplicate_start(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, duplicates);
}

static void half_incepted(void)
{
    struct request_start r;
    enginetest_fill_start(&x, &r, "a", "1");
    r.command.decide = inception_only;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    x.job = r.job.job;
    assert_digits("trigger,0", "101100000000001 000010000000000");
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_digits("trigger,0", "101100000000001 000010000000000");
    assert_int_equal(ask_start(&r, "2"), QP_E_CONFLICT); /* not its owner */
    assert_digits("trigger,0", "101100000000001 000010000000000");
    assert_int_equal(ask_start(&r, "1"), QP_OK);
    assert_int_equal(r.job.job, x.job);
    assert_digits("trigger,0", "101100000000001 000011000000000");
    assert_int_equal(ask_start(&r, "1"), QP_E_EXISTS);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(job()->completions, 1);
}

/* A job that was incepted and not opened is opened by its owner, and by nobody else. */
static void test_H3_half_incepted(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, half_incepted);
}

static const struct actor awaits[] = {
    TRIGGER("a"), {.name = "a", .category = 'A', .deed = DEED_AWAIT, .key = "child"}, {0}};
static struct cast second;

/* A child that another parent has started: whoever awaits it hears so, and does not wait for ever. */
static void test_H3_await_of_anothers_child(void **state)
{
    struct request_start r;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, awaits);
    cast_init(&second, CAST_SECOND, worker);
    x.programs[1] = &second.program;
    x.options.program_count = 2;
    enginetest_open(&x);
    enginetest_fill_start(&x, &r, "child", "own");
    r.start.job.kind = CAST_SECOND;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    start();
    assert_int_equal(job()->state, JOB_FAILED);
    assert_int_equal(enginetest_job(&x, r.job.job)->state, JOB_OPEN);
    enginetest_done(&x);
}

/* ---------------------------------------------------------------------------------------------- H4 */

static const struct actor either[] = {
    TRIGGER("e v"),
    {.name = "e", .category = 'A', .deed = DEED_BOTH, .ms = 1000, .topic = "g", .key = "k"},
    HOOK("v", NULL),
    {0}};

static void timer_and_signal(void)
{
    start();
    assert_int_equal(enginetest_signal(&x, "g", "k", 1, 0), QP_OK);
    assert_digits("e,0,0", "201100000000001 000011000000001");
    assert_int_equal(job()->sem, 1);
    enginetest_wait(&x, 1000);
    assert_int_equal(engine_stats(x.e).late, 1);
    assert_digits("e,0,0", "201100000000001 000011000000001");
    assert_int_equal(job()->sem, 1);
    assert_int_equal(job()->state, JOB_OPEN);
}

/* Timer and signal of one activity both come: the first finalizes, the second is late, and the
 * sibling's obligation is not used up. */
static void test_H4_first_answer_finalizes(void **state)
{
    (void)state;
    enginetest_each(&x, either, false, timer_and_signal);
    enginetest_each(&x, either, true, timer_and_signal);
}

/* An answer of `e` that was entered and worked by a run that went no further: its message is still there. */
static void half_answered(unsigned guid, int64_t code)
{
    struct site e = {.ref = {STORE_NS_DEFAULT, x.job}, .addr = QP_STR("e,0,0")};
    struct op put = {.kind = OP_msg_put,
                     .msg_put = {.ref = e.ref,
                                 .kind = MESSAGE_ANSWER,
                                 .topic = ENGINE_TOPIC,
                                 .addr = e.addr,
                                 .guid = storetest_guid(guid),
                                 .code = code}};
    struct commit c;
    struct bundle *b;
    e.guid = storetest_guid(guid);
    commit_init(&c, x.f.s);
    b = commit_bundle(&c, "half");
    assert_int_equal(step_op(b, &put), QP_OK);
    assert_int_equal(leg2_enter(b, &e, CEILINGS_DEFAULT), QP_OK);
    assert_int_equal(step_work(b, &e, code, QP_STR("{}")), QP_OK);
    assert_int_equal(store_commit(x.f.s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
}

/* Step 2 of an answer that fails the job, and nothing after it. */
static void fail_by(unsigned guid)
{
    struct site e = {.ref = {STORE_NS_DEFAULT, x.job}, .addr = QP_STR("e,0,0")};
    struct spawn ends = {.delta = -1, .close_state = JOB_COMPLETED, .ends = true};
    struct commit c;
    struct bundle *b;
    e.guid = storetest_guid(guid);
    commit_init(&c, x.f.s);
    b = commit_bundle(&c, "fail");
    assert_int_equal(job_end(b, &e, JOB_FAILED, QP_STR("{}")), QP_OK);
    assert_int_equal(step_spawn(b, &e, &ends), QP_OK);
    assert_int_equal(store_commit(x.f.s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
}

static void beaten_before_step_3(void)
{
    start();
    half_answered(1, 200);
    half_answered(2, 500);
    fail_by(2);
    assert_digits("e,0,0",
                  "001100000000002 000010000000001 000111000000002"); /* the run dies here */
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_digits("e,0,0", "201100000000002 000010000000001 000111100000002");
    assert_int_equal(job()->state, JOB_FAILED);
    assert_int_equal(job()->completions, 1);
    assert_int_equal(engine_stats(x.e).late, 1);
}

/* Two answers have entered, one of them closes the job, and before its step 3 the other one is delivered: it
 * must not finalize the activity, or step 3 could never be done. */
static void test_H4_beaten_before_step_3(void **state)
{
    (void)state;
    enginetest_each(&x, either, false, beaten_before_step_3);
    enginetest_each(&x, either, true, beaten_before_step_3);
}

static void pending_then_done(void)
{
    start();
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_PENDING, "half"), QP_OK);
    assert_digits("w,0,0", "001100000000001 000011000000001");
    assert_int_equal(job()->sem, 1);
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "all"), QP_OK);
    assert_digits("w,0,0", "201100000000002 000011000000001 000111100000002");
    assert_int_equal(job()->completions, 1);
}

/* A pending reply does not finalize: the task's answer still comes. */
static void test_H4_pending_keeps_open(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, pending_then_done);
}

/* ---------------------------------------------------------------------------------------------- H5 */

static void zombie(void)
{
    struct task old;
    unsigned char response[LIMIT_GUID_SIZE];
    start();
    old = *x.tasks;
    old.addr = QP_STR("w,0,0");
    old.ref.guid = (qp_str){(const char *)old.guid, LIMIT_GUID_SIZE};
    hash_guid(old.guid, LIMIT_GUID_SIZE, "response", 8, response);
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_int_equal(x.tasks->tries, 2);
    assert_memory_equal(x.tasks->guid, old.guid, LIMIT_GUID_SIZE);
    assert_int_equal(enginetest_result(&x, &old, RESULT_DONE, "zombie"), QP_E_STALE);
    assert_int_equal(enginetest_result(&x, &old, RESULT_PENDING, "zombie"), QP_E_STALE);
    assert_int_equal(enginetest_result(&x, &old, RESULT_ERROR, "zombie"), QP_E_STALE);
    assert_int_equal(engine_stats(x.e).stale, 3);
    assert_digits("w,0,0", "001100000000000");
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_E_STALE);
    assert_digits("w,0,0", "201100000000001 000111100000001");
    assert_memory_equal(enginetest_act(&x, x.job, "w,0,0")->guid.p, response, LIMIT_GUID_SIZE);
    assert_int_equal(job()->completions, 1);
}

/* A task is taken up again after a crash: the first worker's answer is refused without effect, the second's
 * counts once, and the response has the identity that the first one's would have had. */
static void test_H5_zombie(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, zombie);
}

static void done_twice(void)
{
    struct task *a;
    start();
    a = enginetest_task(&x, NULL, "a,0,0");
    assert_int_equal(enginetest_result(&x, a, RESULT_DONE, "ok"), QP_OK);
    assert_int_equal(enginetest_result(&x, a, RESULT_DONE, "ok"), QP_E_STALE);
    assert_int_equal(job()->sem, 2);
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 2); /* the tasks of the other two */
}

/* The task goes with the commit that takes its answer. */
static void test_H5_done_twice(void **state)
{
    (void)state;
    enginetest_each(&x, three, false, done_twice);
    enginetest_each(&x, three, true, done_twice);
}

/* ---------------------------------------------------------------------------------------------- H6 */

static int64_t entries_left;

/* The first deliveries fail when they come to the work of Leg1. */
static int fail_enter(void *context, struct turn *t, const char *function)
{
    (void)context;
    return strcmp(function, "enter") == 0 && str_equal(t->at.name, QP_STR("w")) &&
                   entries_left-- > 0
               ? QP_E_INTERNAL
               : QP_OK;
}

static void leg1_again(void)
{
    entries_left = 12;
    x.cast.trouble = fail_enter;
    start();
    for (int i = 0; i < 12; i++) {
        enginetest_wait(&x, LIMIT_BACKOFF_MS * 2);
    }
    assert_digits("w,0,0", "013100000000000"); /* thirteen entries are two digits (H7) */
    assert_non_null(x.tasks);
    assert_null(x.tasks->next);
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 1);
}

/* However often Leg1 is entered, its work is published once; ten and more entries are counted. */
static void test_H6_H7_leg1_entered_again(void **state)
{
    (void)state;
    enginetest_each(&x, worker, true, leg1_again);
}

/* ---------------------------------------------------------------------------------------------- H7 */

static void ceiling(void)
{
    struct request_unpark unpark = {.ns = STORE_NS_DEFAULT, .jid = QP_STR("a")};
    const struct msg_row *letter;
    start();
    for (int i = 0; i < 5; i++) {
        enginetest_wait(&x, LIMIT_BACKOFF_MS * 2);
    }
    assert_digits("w,0,0", "003000000000000");
    assert_int_equal(enginetest_act(&x, x.job, "w,0,0")->escalated, 1);
    letter = enginetest_message(&x, x.job);
    assert_int_equal(letter->state, MSG_DEAD);
    assert_int_equal(job()->status, STATUS_PARKED);
    assert_int_equal(engine_stats(x.e).dead_letters, 1);
    /* it is escalated for good: whoever tries again is told the same again */
    request_unpark(&unpark);
    assert_int_equal(enginetest_ask(&x, &unpark.command), QP_OK);
    enginetest_wait(&x, LIMIT_BACKOFF_MS * 2);
    assert_digits("w,0,0", "003000000000000");
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_DEAD);
    assert_int_equal(job()->status, STATUS_PARKED);
}

/* At the ceiling of entries the activity is escalated, its message a dead letter and the job parked; it
 * can never complete as well. */
static void test_H7_ceiling_escalates(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        enginetest_init(&x, (enum storetest_kind)kind, worker);
        x.options.stepwise = true;
        x.options.ceilings = (struct ceilings){.leg1 = 3, .leg2 = 3};
        entries_left = 1000;
        x.cast.trouble = fail_enter;
        enginetest_open(&x);
        ceiling();
        enginetest_done(&x);
    }
}

static const struct actor listener[] = {TRIGGER("l"),
                                        {.name = "l",
                                         .category = 'A',
                                         .cyclic = CYCLIC_OPEN,
                                         .deed = DEED_HOOK,
                                         .topic = "h",
                                         .key = "k",
                                         .keep = true,
                                         .next = "w"},
                                        TASK("w", NULL),
                                        {0}};

/* The same for Leg2: the entry that would be one too many is kept, and the job parked. */
static void test_H7_leg2_ceiling(void **state)
{
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, listener);
    x.options.ceilings = (struct ceilings){.leg1 = 3, .leg2 = 2};
    enginetest_open(&x);
    start();
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(job()->parked.p == NULL, true);
        assert_int_equal(enginetest_signal(&x, "h", "k", i, 0), QP_OK);
    }
    assert_digits("l,0,0", "001100000000002 000011000000001 000011000000002");
    assert_non_null(job()->parked.p);
    assert_int_equal(engine_stats(x.e).dead_letters, 1);
    enginetest_done(&x);
}

static int fail_work(void *context, struct turn *t, const char *function)
{
    (void)context;
    (void)t;
    return strcmp(function, "work") == 0 ? QP_E_INTERNAL : QP_OK;
}

/* The n-th wait between two deliveries, in terms of 0.5 s x 1.5^(n-1). */
static double wait_of(int64_t n)
{
    double ms = 500;
    while (--n > 0 && ms < LIMIT_BACKOFF_MS) {
        ms *= 1.5;
    }
    return ms < LIMIT_BACKOFF_MS ? ms : LIMIT_BACKOFF_MS;
}

static void poisoned(int64_t deliveries)
{
    int64_t tries = 1;
    start();
    enginetest_wait(&x, 1000);
    for (; enginetest_message(&x, x.job)->state == MSG_DELAYED; tries++) {
        struct msg_row m = *enginetest_message(&x, x.job);
        double wait = (double)(m.wake_at - store_now(x.f.s));
        assert_int_equal(m.tries, tries);
        assert_true(wait >= wait_of(tries) * 0.74 && wait <= wait_of(tries) * 1.26);
        assert_null(job()->parked.p);
        enginetest_wait(&x, m.wake_at - store_now(x.f.s) - 1);
        assert_true(store_now(x.f.s) < m.wake_at);
        assert_int_equal(enginetest_message(&x, x.job)->tries, tries); /* not before */
        enginetest_wait(&x, 1);
    }
    assert_int_equal(tries - 1, deliveries);
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_DEAD);
    assert_int_equal(job()->status, STATUS_PARKED);
    assert_non_null(job()->parked.p);
    assert_int_equal(job()->state, JOB_OPEN);
}

static const struct actor bad[] = {TRIGGER("s"), SLEEP("s", 1000, NULL), {0}};

/* A message that fails comes later each time, up to five minutes, and after max_deliveries it is a
 * dead letter with its job parked. */
static void test_H7_backoff_and_dead_letter(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        int64_t deliveries = kind == STORETEST_MEMORY ? 20 : 3;
        enginetest_init(&x, (enum storetest_kind)kind, bad);
        x.options.max_deliveries = kind == STORETEST_MEMORY ? 0 : deliveries; /* 0: 20 */
        x.cast.trouble = fail_work;
        enginetest_open(&x);
        poisoned(deliveries);
        enginetest_done(&x);
    }
}

/* ---------------------------------------------------------------------------------------------- H8 */

static const struct actor loop[] = {
    TRIGGER("p"),
    {.name = "p", .category = 'B', .cyclic = CYCLIC_PIVOT, .rounds = 2, .next = "w"},
    SLEEP("w", 0, "c"),
    {.name = "c",
     .category = 'C',
     .cyclic = CYCLIC_PIVOT,
     .deed = DEED_CYCLE,
     .key = "p",
     .depth = 2},
    {0}};

/* A job that is started in steps; the engine dies after so many rounds of what follows its inception.
 * False: it ended before. */
static bool run_with_crash(int64_t rounds)
{
    struct request_start r;
    struct qp_err err;
    bool busy = true;
    bool crashed = false;
    enginetest_fill_start(&x, &r, "a", "{}");
    r.command.decide = inception_only;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    x.job = r.job.job;
    engine_submit(x.e, &r.command); /* the same again opens it */
    x.rounds = 0;
    while (busy) {
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
        if (x.rounds == rounds) {
            enginetest_crash(&x);
            crashed = busy;
            busy = true;
        }
    }
    return crashed;
}

/* Killed after any commit, a re-entry keeps its ordinal, and so its plane; the counter counts GUIDs and
 * not deliveries. */
static void test_H8_plane_on_redelivery(void **state)
{
    static const char *const there[] = {"trigger,0", "p,0,0",   "w,0,0,0",
                                        "c,0,0,0,0", "w,0,1,0", "c,0,1,0,0"};
    bool crashed = true;
    (void)state;
    for (int64_t n = 1; crashed; n++) {
        assert_true(n < 200);
        enginetest_init(&x, STORETEST_MEMORY, loop);
        x.options.stepwise = true;
        enginetest_open(&x);
        crashed = run_with_crash(n);
        assert_digits("p,0,0", "001100000000003 000011000000000 000011000000002 000111100000003");
        for (size_t i = 0; i < ARRAY_COUNT(there); i++) {
            assert_non_null(enginetest_act(&x, x.job, there[i]));
        }
        assert_int_equal(enginetest_rows(&x, TABLE_act, x.job), ARRAY_COUNT(there));
        assert_int_equal(job()->completions, 1);
        enginetest_done(&x);
    }
}

/* --------------------------------------------------------------------------------------- H9 to H11 */

static const struct actor suicide[] = {
    TRIGGER("a i"), TASK("a", NULL), {.name = "i", .category = 'C', .deed = DEED_END}, {0}};

/* Whoever ends its job out of turn owns the edge. Killed after any commit, completion runs once; what the
 * job still waits for goes, and the answer of a sibling is refused. */
static void test_H9_self_interrupt(void **state)
{
    bool crashed = true;
    char owner[LIMIT_GUID_SIZE];
    (void)state;
    for (int64_t n = 1; crashed; n++) {
        assert_true(n < 100);
        enginetest_init(&x, n % 2 == 0 ? STORETEST_MEMORY : STORETEST_SQLITE, suicide);
        x.options.stepwise = true;
        enginetest_open(&x);
        crashed = run_with_crash(n);
        assert_string_equal(enginetest_digits(&x, "i,0,0") + 16, "000111100000000");
        assert_int_equal(job()->state, JOB_INTERRUPTED);
        assert_int_equal(job()->completions, 1);
        assert_int_equal(job()->sem, 1); /* one less, and a is still counted */
        memcpy(owner, job()->closed_by.p, sizeof owner);
        assert_memory_equal(enginetest_act(&x, x.job, "i,0,0")->guid.p, owner, sizeof owner);
        assert_null(enginetest_message(&x, x.job));
        if (x.tasks != NULL) {
            assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "late"), QP_E_STALE);
        }
        enginetest_done(&x);
    }
}

static const struct actor race[] = {TRIGGER("h i"),
                                    HOOK("h", NULL),
                                    SLEEP("i", 10, "e"),
                                    {.name = "e", .category = 'C', .deed = DEED_END},
                                    {0}};

static void swept_half_way(void)
{
    struct request_signal r = {.signal = {.ns = STORE_NS_DEFAULT,
                                          .topic = QP_STR("h"),
                                          .key = QP_STR("k"),
                                          .guid = storetest_guid(1),
                                          .code = 200}};
    start();
    request_signal(&r);
    r.command.answer = enginetest_answered;
    engine_submit(x.e, &r.command);
    until("h,0,0", "001100000000001 000000000000001");
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_OK);
    assert_int_equal(engine_stats(x.e).stale, 1);
    assert_digits("h,0,0", "001100000000001 000000000000001");
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
    assert_int_equal(job()->sem, 2);
    assert_int_equal(job()->state, JOB_CANCELLED);
    assert_int_equal(job()->completions, 1);
}

/* The job is cancelled while a message is between two steps: it goes with all that the job waited for, and
 * who held it finds it gone. */
static void test_H9_end_between_steps(void **state)
{
    (void)state;
    enginetest_each(&x, race, true, swept_half_way);
}

static void threshold(void)
{
    struct request_start r;
    enginetest_fill_start(&x, &r, "a", "{}");
    r.start.job.threshold = 1;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    x.job = r.job.job;
    assert_int_equal(job()->sem, 3);
    assert_int_equal(enginetest_result(&x, enginetest_task(&x, NULL, "a,0,0"), RESULT_DONE, "1"),
                     QP_OK);
    assert_int_equal(job()->state, JOB_OPEN);
    assert_int_equal(enginetest_result(&x, enginetest_task(&x, NULL, "b,0,0"), RESULT_DONE, "2"),
                     QP_OK);
    assert_int_equal(job()->state, JOB_COMPLETED);
    assert_digits("a,0,0", "201100000000001 000011000000001");
    assert_digits("b,0,0", "201100000000001 000111100000001");
    assert_int_equal(job()->completions, 1);
    assert_int_equal(x.ended, 1);
}

/* The edge is the crossing of the threshold, whatever it is, and happens once. */
static void test_H10_threshold(void **state)
{
    (void)state;
    enginetest_each(&x, three, false, threshold);
}

static void two_failures(void)
{
    struct request_result r[2];
    start();
    for (int i = 0; i < 2; i++) {
        r[i] =
            (struct request_result){.task = enginetest_task(&x, NULL, i == 0 ? "a,0,0" : "b,0,0"),
                                    .kind = RESULT_ERROR,
                                    .fatal = true,
                                    .output = QP_STR("broken"),
                                    .error = QP_STR("broken")};
        ((struct task *)(uintptr_t)r[i].task)->tries = 2; /* both responses are messages */
        request_result(&r[i]);
        r[i].command.answer = enginetest_answered;
        engine_submit(x.e, &r[i].command);
    }
    enginetest_settle(&x);
    assert_int_equal(job()->state, JOB_FAILED);
    assert_int_equal(job()->completions, 1);
    assert_int_equal(x.ended, 1);
    assert_digits("a,0,0", "201100000000001 000111100000001");
    assert_digits("c,0,0", "001100000000000");
    if (x.options.stepwise) { /* they took turns: the delta of the second counts, and is no edge */
        assert_digits("b,0,0", "201100000000001 000011000000001");
        assert_int_equal(job()->sem, 1);
    } else { /* the first one's sweep took the message of the second */
        assert_digits("b,0,0", "001100000000000");
        assert_int_equal(job()->sem, 2);
    }
}

/* Two activities fail at once: one of them ends the job, completion runs once, and only the GUID that
 * closed the job may run it. What comes after the end is counted (H9). */
static void test_H11_one_completion(void **state)
{
    struct op finish = {.kind = OP_job_finish};
    (void)state;
    enginetest_each(&x, three, false, two_failures);
    enginetest_each(&x, three, true, two_failures);
    enginetest_init(&x, STORETEST_MEMORY, three);
    enginetest_open(&x);
    start();
    finish.job_finish =
        (struct op_job_finish){.ref = {STORE_NS_DEFAULT, x.job}, .guid = storetest_guid(1)};
    assert_int_equal(storetest_op(&x.f, &finish), QP_E_CONFLICT);
    enginetest_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_H1_stale_token),
        cmocka_unit_test(test_H1_H6_H8_two_hold_it),
        cmocka_unit_test(test_H2_closed_between_steps),
        cmocka_unit_test(test_H2_late_message),
        cmocka_unit_test(test_H3_duplicate_start),
        cmocka_unit_test(test_H3_half_incepted),
        cmocka_unit_test(test_H3_await_of_anothers_child),
        cmocka_unit_test(test_H4_first_answer_finalizes),
        cmocka_unit_test(test_H4_beaten_before_step_3),
        cmocka_unit_test(test_H4_pending_keeps_open),
        cmocka_unit_test(test_H5_zombie),
        cmocka_unit_test(test_H5_done_twice),
        cmocka_unit_test(test_H6_H7_leg1_entered_again),
        cmocka_unit_test(test_H7_ceiling_escalates),
        cmocka_unit_test(test_H7_leg2_ceiling),
        cmocka_unit_test(test_H7_backoff_and_dead_letter),
        cmocka_unit_test(test_H8_plane_on_redelivery),
        cmocka_unit_test(test_H9_self_interrupt),
        cmocka_unit_test(test_H9_end_between_steps),
        cmocka_unit_test(test_H10_threshold),
        cmocka_unit_test(test_H11_one_completion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
