/* test_turn.c - the digits of the document's examples, as the engine commits them
 *
 * Every example of sections 18, 20 and 21 of the document is a small cast that a real engine runs,
 * stepwise (every step of the protocol is a commit) and fused (as few commits as can be), on every
 * provider. What is compared is the line of digits after each commit that changed it: the
 * activity's ledger, then the ledgers of its GUIDs in the order in which they entered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/enginetest.h"

static struct enginetest x;

/* ------------------------------------------------------------------------------------- the casts */

#define TRIGGER(children)                                                                          \
    {                                                                                              \
        .name = "trigger", .category = 'D', .next = (children)                                     \
    }
#define TASK(actor, children)                                                                      \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_TASK, .topic = "t", .next = (children)      \
    }
#define HOOK(actor, children)                                                                      \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_HOOK, .topic = "h", .key = "k",             \
        .next = (children)                                                                         \
    }
#define PASS(actor, children)                                                                      \
    {                                                                                              \
        .name = (actor), .category = 'B', .next = (children)                                       \
    }

static const struct actor nobody[] = {TRIGGER(""), {0}};
static const struct actor worker[] = {TRIGGER("w"), TASK("w", NULL), {0}};
static const struct actor family[] = {TRIGGER("w v"),  TASK("w", "c d"), HOOK("v", NULL),
                                      TASK("c", NULL), TASK("d", NULL),  {0}};
static const struct actor awaits[] = {
    TRIGGER("a"),
    {.name = "a", .category = 'A', .deed = DEED_AWAIT, .key = "child", .next = "w"},
    TASK("w", NULL),
    {0}};
static const struct actor sleeper[] = {
    TRIGGER("s"), {.name = "s", .category = 'A', .deed = DEED_SLEEP, .ms = 5000}, {0}};
static const struct actor webhook[] = {TRIGGER("h"), HOOK("h", "w"), TASK("w", NULL), {0}};
static const struct actor pass[] = {TRIGGER("p"), PASS("p", "w"), TASK("w", NULL), {0}};
static const struct actor pass_last[] = {TRIGGER("p"), PASS("p", NULL), {0}};
static const struct actor sends[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL, .topic = "h", .key = "k", .next = "w"},
    TASK("w", NULL),
    {0}};
static const struct actor sends_all[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL_ALL, .topic = "h", .next = "w"},
    TASK("w", NULL),
    {0}};
static const struct actor loop[] = {
    TRIGGER("p"),
    {.name = "p", .category = 'B', .cyclic = CYCLIC_PIVOT, .rounds = 2, .next = "w"},
    TASK("w", "c"),
    {.name = "c",
     .category = 'C',
     .cyclic = CYCLIC_PIVOT,
     .deed = DEED_CYCLE,
     .key = "p",
     .depth = 2},
    {0}};
static const struct actor suicide[] = {
    TRIGGER("i w"), {.name = "i", .category = 'C', .deed = DEED_END}, HOOK("w", NULL), {0}};
static const struct actor killer[] = {
    TRIGGER("i"),
    {.name = "i", .category = 'B', .deed = DEED_INTERRUPT, .key = "victim", .next = "w"},
    TASK("w", NULL),
    {0}};

/* ------------------------------------------------------------------------- what happens to the job */

static void start(void)
{
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
}

static void start_and_work(void)
{
    start();
    (void)enginetest_work(&x);
}

static void start_and_sleep(void)
{
    start();
    enginetest_wait(&x, 4999);
    assert_int_equal(x.ended, 0);
    enginetest_wait(&x, 1);
}

static void start_and_signal(void)
{
    start();
    assert_int_equal(enginetest_signal(&x, "h", "k", 1, 0), QP_OK);
    (void)enginetest_work(&x);
}

/* The awaited job has a worker; when that has ended it, the parent goes on. */
static void start_and_await(void)
{
    start();
    assert_string_equal(enginetest_digits(&x, "a,0,0"), "001100000000000");
    (void)enginetest_work(&x);
}

/* A second job, waiting, which the first one interrupts. */
static void start_and_kill(void)
{
    struct request_start r;
    enginetest_fill_start(&x, &r, "victim", "{}");
    r.start.job.kind = CAST_SECOND;
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    start();
    (void)enginetest_work(&x);
    assert_int_equal(enginetest_job(&x, r.job.job)->state, JOB_INTERRUPTED);
    assert_int_equal(enginetest_job(&x, r.job.job)->completions, 1);
}

struct example {
    const char *section;
    const struct actor *cast;
    void (*play)(void);
    const char *addr;
    const char *stepwise; /* lines */
    const char *fused;
    enum job_state ends;
};

static const struct example examples[] = {
    /* 20.1, with H10: whoever opens at the threshold owns the edge */
    {"20.1", nobody, start, "trigger,0",
     "101100000000001 000010000000000\n"
     "101100000000001 000111000000000\n"
     "101100000000001 000111100000000\n",
     "101100000000001 000111100000000\n", JOB_COMPLETED},
    {"20.1", worker, start, "trigger,0",
     "101100000000001 000010000000000\n"
     "101100000000001 000011000000000\n",
     "101100000000001 000011000000000\n", JOB_OPEN},
    /* 18.1, 20.2: Leg1 of a worker */
    {"20.2 Leg1", worker, start, "w,0,0",
     "001000000000000\n"
     "001100000000000\n",
     "001100000000000\n", JOB_OPEN},
    /* 18.4, 20.2: the answer that closes the job */
    {"18.4", worker, start_and_work, "w,0,0",
     "001000000000000\n"
     "001100000000000\n"
     "001100000000001 000000000000001\n"
     "001100000000001 000010000000001\n"
     "001100000000001 000111000000001\n"
     "201100000000001 000111100000001\n",
     "001100000000000\n"
     "201100000000001 000111100000001\n",
     JOB_COMPLETED},
    /* 18.2, 18.3, 20.2: two children, no edge, and finalized with its last step (H4) */
    {"18.3", family, start_and_work, "w,0,0",
     "001000000000000\n"
     "001100000000000\n"
     "001100000000001 000000000000001\n"
     "001100000000001 000010000000001\n"
     "201100000000001 000011000000001\n",
     "001100000000000\n"
     "201100000000001 000011000000001\n",
     JOB_OPEN},
    /* 20.3: an await is a worker to the digits */
    {"20.3", awaits, start_and_await, "a,0,0",
     "001000000000000\n"
     "001100000000000\n"
     "001100000000001 000000000000001\n"
     "001100000000001 000010000000001\n"
     "201100000000001 000011000000001\n",
     "001100000000000\n"
     "201100000000001 000011000000001\n",
     JOB_COMPLETED},
    /* 20.4: time hook, web hook, passthrough */
    {"20.4 sleep", sleeper, start_and_sleep, "s,0,0",
     "001000000000000\n"
     "001100000000000\n"
     "001100000000001 000000000000001\n"
     "001100000000001 000010000000001\n"
     "001100000000001 000111000000001\n"
     "201100000000001 000111100000001\n",
     "001100000000000\n"
     "201100000000001 000111100000001\n",
     JOB_COMPLETED},
    {"20.4 web", webhook, start_and_signal, "h,0,0",
     "001000000000000\n"
     "001100000000000\n"
     "001100000000001 000000000000001\n"
     "001100000000001 000010000000001\n"
     "201100000000001 000011000000001\n",
     "001100000000000\n"
     "201100000000001 000011000000001\n",
     JOB_COMPLETED},
    {"20.4 passthrough", pass, start, "p,0,0",
     "001000000000000 000000000000000\n"
     "001100000000000 000010000000000\n"
     "201100000000000 000011000000000\n",
     "201100000000000 000011000000000\n", JOB_OPEN},
    {"20.4 passthrough, closing", pass_last, start, "p,0,0",
     "001000000000000 000000000000000\n"
     "001100000000000 000010000000000\n"
     "001100000000000 000111000000000\n"
     "201100000000000 000111100000000\n",
     "201100000000000 000111100000000\n", JOB_COMPLETED},
    /* 20.5: the signal is sent in step A, one or all */
    {"20.5 one", sends, start, "s,0,0",
     "001000000000000 000000000000000\n"
     "001100000000000 000010000000000\n"
     "201100000000000 000011000000000\n",
     "201100000000000 000011000000000\n", JOB_OPEN},
    {"20.5 all", sends_all, start, "s,0,0",
     "001000000000000 000000000000000\n"
     "001100000000000 000010000000000\n"
     "201100000000000 000011000000000\n",
     "201100000000000 000011000000000\n", JOB_OPEN},
    /* 20.4 cycle re-entry, 20.6, with H14: the pivot is seeded too, and never finalized */
    {"20.6 pivot", loop, start_and_work, "p,0,0",
     "001000000000000 000000000000000\n"
     "001100000000001 000010000000000\n"
     "001100000000001 000011000000000\n"
     "001100000000002 000011000000000 000000000000002\n"
     "001100000000002 000011000000000 000010000000002\n"
     "001100000000002 000011000000000 000011000000002\n"
     "001100000000003 000011000000000 000011000000002 000000000000003\n"
     "001100000000003 000011000000000 000011000000002 000010000000003\n"
     "001100000000003 000011000000000 000011000000002 000111000000003\n"
     "001100000000003 000011000000000 000011000000002 000111100000003\n",
     "001100000000001 000011000000000\n"
     "001100000000002 000011000000000 000011000000002\n"
     "001100000000003 000011000000000 000011000000002 000111100000003\n",
     JOB_COMPLETED},
    {"20.6 cycle", loop, start_and_work, "c,0,0,0,0",
     "001000000000000\n"
     "001100000000001\n",
     "001100000000001\n", JOB_COMPLETED},
    /* 20.7, with H9: whoever ends its own job has a GUID that owns the edge */
    {"20.7 self", suicide, start, "i,0,0",
     "001000000000000 000000000000000\n"
     "001100000000000 000010000000000\n"
     "001100000000000 000111000000000\n"
     "001100000000000 000111100000000\n",
     "001100000000000 000111100000000\n", JOB_INTERRUPTED},
    {"20.7 another", killer, start_and_kill, "i,0,0",
     "001000000000000 000000000000000\n"
     "001100000000000 000010000000000\n"
     "201100000000000 000011000000000\n",
     "201100000000000 000011000000000\n", JOB_COMPLETED},
};

/* ------------------------------------------------------------------------------------ the examples */

static const struct actor victim[] = {TRIGGER("h"), HOOK("h", NULL), {0}};
static struct cast second; /* of the second kind: who is interrupted, or awaited */

static void play(const struct example *example, enum storetest_kind kind, bool stepwise)
{
    const char *expected = stepwise ? example->stepwise : example->fused;
    enginetest_init(&x, kind, example->cast);
    x.options.stepwise = stepwise;
    cast_init(&second, CAST_SECOND, example->cast == awaits ? worker : victim);
    x.programs[1] = &second.program;
    x.options.program_count = 2;
    enginetest_open(&x);
    enginetest_watch(&x, example->addr);
    example->play();
    if (strcmp(x.watches[0].text, expected) != 0) {
        print_error("%s %s on %s:\n", example->section, stepwise ? "stepwise" : "fused",
                    storetest_name(kind));
    }
    assert_string_equal(x.watches[0].text, expected);
    assert_int_equal(enginetest_job(&x, x.job)->state, example->ends);
    assert_int_equal(enginetest_job(&x, x.job)->completions, example->ends != JOB_OPEN);
    enginetest_done(&x);
}

/* Sections 18 and 20: the digits after every commit, stepwise and fused, on every provider. */
static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(examples); i++) {
        for (int kind = 0; kind < storetest_kinds(); kind++) {
            play(&examples[i], (enum storetest_kind)kind, true);
            play(&examples[i], (enum storetest_kind)kind, false);
        }
    }
}

/* ------------------------------------------------------------------------------------ 18.1, 18.2 */

/* The ENTER message of the worker, as it was published, once more. */
static void publish_again(unsigned guid)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {STORE_NS_DEFAULT, x.job},
                                .kind = MESSAGE_ENTER,
                                .topic = ENGINE_TOPIC,
                                .addr = QP_STR("w,0,0"),
                                .guid = storetest_guid(guid)}};
    struct request_op r = {.op = op};
    request_op(&r);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
}

static void replay(void)
{
    enginetest_watch(&x, "w,0,0");
    start();
    assert_non_null(x.tasks);
    publish_again(1);
    assert_null(x.tasks->next); /* no second task */
    assert_int_equal(engine_stats(x.e).late, 1);
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 1); /* acked; the task is left */
    assert_true(strstr(x.watches[0].text, "002100000000000\n") != NULL);
}

/* 18.1: a replayed Leg1 message leaves its mark, and is acked; nothing else happens. */
static void test_18_1_replay(void **state)
{
    (void)state;
    enginetest_each(&x, worker, true, replay);
    enginetest_each(&x, worker, false, replay);
}

/* Rounds until the watched activity has these digits. */
static void until(const char *digits)
{
    struct qp_err err;
    bool busy = true;
    for (int i = 0; i < 50 && strcmp(enginetest_digits(&x, x.watches[0].addr), digits) != 0; i++) {
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    }
    assert_string_equal(enginetest_digits(&x, x.watches[0].addr), digits);
}

static struct request_result answer_of(struct task *task)
{
    struct request_result r = {.task = task, .output = QP_STR("ok")};
    task->tries = 2;
    request_result(&r);
    r.command.answer = enginetest_answered;
    return r;
}

/* Crashes after each commit of the answer in turn; what is left is done, what is done is not. */
static void resume(const struct actor *cast, const char *const *stops, const char *end)
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; stops[i] != NULL; i++) {
            struct request_result r;
            enginetest_init(&x, (enum storetest_kind)kind, cast);
            x.options.stepwise = true;
            enginetest_open(&x);
            enginetest_watch(&x, "w,0,0");
            start();
            r = answer_of(enginetest_task(&x, NULL, "w,0,0"));
            engine_submit(x.e, &r.command);
            until(stops[i]);
            enginetest_crash(&x);
            enginetest_settle(&x);
            assert_string_equal(enginetest_digits(&x, "w,0,0"), end);
            (void)enginetest_work(&x);
            assert_int_equal(enginetest_job(&x, x.job)->completions, cast == worker);
            enginetest_done(&x);
        }
    }
}

/* 18.2 to 18.4, 20.2 crash recovery: found between any two steps, the same GUID goes on. */
static void test_18_2_resume(void **state)
{
    static const char *const open_stops[] = {"001100000000001 000000000000001",
                                             "001100000000001 000010000000001",
                                             "201100000000001 000011000000001", NULL};
    static const char *const closing_stops[] = {
        "001100000000001 000000000000001", "001100000000001 000010000000001",
        "001100000000001 000111000000001", "201100000000001 000111100000001", NULL};
    (void)state;
    resume(family, open_stops, "201100000000001 000011000000001");
    resume(worker, closing_stops, "201100000000001 000111100000001");
}

/* ---------------------------------------------------------------------------------------- 21, 15 */

static const struct actor deep[] = {
    TRIGGER("p"),
    {.name = "p", .category = 'B', .cyclic = CYCLIC_PIVOT, .rounds = 2, .next = "q"},
    PASS("q", "r"),
    PASS("r", "c"),
    {.name = "c",
     .category = 'C',
     .cyclic = CYCLIC_PIVOT,
     .deed = DEED_CYCLE,
     .key = "p",
     .depth = 2},
    {0}};

static void addresses(void)
{
    /* the table of section 21; the pivot's own row is where its first entry was */
    static const char *const there[] = {"trigger,0",   "p,0,0",   "q,0,0,0",   "r,0,0,0,0",
                                        "c,0,0,0,0,0", "q,0,1,0", "r,0,1,0,0", "c,0,1,0,0,0"};
    static const char *const absent[] = {"p,0,1", "q,0,2,0", "q,0,0,1", "p,0,0,0"};
    start();
    for (size_t i = 0; i < ARRAY_COUNT(there); i++) {
        assert_non_null(enginetest_act(&x, x.job, there[i]));
    }
    for (size_t i = 0; i < ARRAY_COUNT(absent); i++) {
        assert_null(enginetest_act(&x, x.job, absent[i]));
    }
    assert_int_equal(enginetest_rows(&x, TABLE_act, x.job), ARRAY_COUNT(there));
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
}

/* 21: where everybody stands, and that a cycle's next round stands beside the last one. */
static void test_21_addresses(void **state)
{
    (void)state;
    enginetest_each(&x, deep, true, addresses);
    enginetest_each(&x, deep, false, addresses);
}

static int note(void *context, struct turn *t, const char *function)
{
    (void)context;
    return strcmp(function, "work") == 0 ? turn_event(t, 5, QP_STR("what happened")) : QP_OK;
}

/* A program's own journal entry is one with the step that makes it. */
static void noted(void)
{
    const struct event_row *event;
    struct event_row key = {.ns = STORE_NS_DEFAULT};
    int64_t last;
    x.cast.trouble = note;
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(storetest_count(&x.f, TABLE_event), 1);
    key.job = x.job;
    last = enginetest_job(&x, x.job)->seq;
    for (event = NULL; event == NULL && key.seq <= last; key.seq++) {
        event = storetest_row(&x.f, TABLE_event, &key);
    }
    assert_non_null(event);
    assert_int_equal(event_kind(event), 5);
    assert_true(str_equal(event->addr, QP_STR("w,0,0")));
    assert_true(str_equal(event->detail, QP_STR("what happened")));
    enginetest_check(&x);
}

static void test_event(void **state)
{
    (void)state;
    enginetest_each(&x, worker, false, noted);
    enginetest_each(&x, worker, true, noted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),    cmocka_unit_test(test_18_1_replay),
        cmocka_unit_test(test_18_2_resume), cmocka_unit_test(test_21_addresses),
        cmocka_unit_test(test_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
