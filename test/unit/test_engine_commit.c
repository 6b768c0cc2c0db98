/* test_engine_commit.c - rulings H14 to H18: seeds, fifteen digits, acks, unknown outcomes, one bundle */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/enginetest.h"
#include "support/statetext.h"

#define SAMPLE_STRIDE 5 /* of the points that fail on PostgreSQL in the check lane */

static struct enginetest x;

#define TRIGGER(children)                                                                          \
    {                                                                                              \
        .name = "trigger", .category = 'D', .next = (children)                                     \
    }
#define TASK(actor, children)                                                                      \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_TASK, .topic = "t", .next = (children)      \
    }

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
static const struct actor story[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'A', .deed = DEED_SLEEP, .ms = 1000, .next = "p w"},
    {.name = "p", .category = 'B', .next = "q"},
    {.name = "q", .category = 'B'},
    TASK("w", NULL),
    {0}};

static const struct job_row *job(void)
{
    return enginetest_job(&x, x.job);
}

/* --------------------------------------------------------------------------------------------- H14 */

static void first_round_again(void)
{
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(enginetest_act(&x, x.job, "p,0,0")->ledger % 100, 1);
    assert_int_equal(enginetest_work(&x), 2);
    /* each round has written where it belongs, and none over another's rows */
    assert_non_null(enginetest_act(&x, x.job, "w,0,0,0"));
    assert_non_null(enginetest_act(&x, x.job, "w,0,1,0"));
    assert_string_equal(enginetest_digits(&x, "w,0,0,0"), "201100000000001 000011000000001");
    assert_string_equal(enginetest_digits(&x, "w,0,1,0"), "201100000000001 000011000000001");
    assert_string_equal(enginetest_digits(&x, "c,0,0,0,0"), "001100000000001");
}

/* Pivot and cycle are both seeded, so that the first round again has a plane of its own. */
static void test_H14_preseed(void **state)
{
    (void)state;
    enginetest_each(&x, loop, false, first_round_again);
    enginetest_each(&x, loop, true, first_round_again);
}

/* --------------------------------------------------------------------------------------------- H15 */

/* A ledger has fifteen digits: what would be sixteen is refused, by the activity's and by the GUID's; and
 * digits 5 to 7 of an activity stay 0 through a whole run. */
static void test_H15_fifteen_digits(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct op op = {.kind = OP_act_create};
        enginetest_init(&x, (enum storetest_kind)kind, loop);
        x.options.stepwise = true;
        enginetest_open(&x);
        assert_int_equal(enginetest_start(&x, "a"), QP_OK);
        (void)enginetest_work(&x);
        assert_int_equal(enginetest_act(&x, x.job, "p,0,0")->ledger / 100000000 % 1000, 0);
        assert_int_equal(enginetest_act(&x, x.job, "w,0,0,0")->ledger / 100000000 % 1000, 0);
        op.act_create = (struct op_act_create){.ref = {STORE_NS_DEFAULT, x.job},
                                               .addr = QP_STR("z,0,0"),
                                               .category = 'A',
                                               .ledger = LIMIT_LEDGER + 1};
        assert_int_equal(storetest_op(&x.f, &op), QP_E_INVALID);
        op = (struct op){.kind = OP_act_add,
                         .act_add = {.ref = {STORE_NS_DEFAULT, x.job},
                                     .addr = QP_STR("w,0,0,0"),
                                     .weight = LIMIT_LEDGER,
                                     .attempt = -1}};
        assert_int_equal(storetest_op(&x.f, &op), QP_E_CEILING);
        op.act_add.weight = LEDGER_FINALIZED * 4; /* five blind finalizes would be sixteen digits */
        assert_int_equal(storetest_op(&x.f, &op), QP_E_CEILING);
        assert_string_equal(enginetest_digits(&x, "w,0,0,0"), "201100000000001 000011000000001");
        enginetest_done(&x);
    }
}

/* --------------------------------------------------------------------------------------------- H16 */

/* The message is there while its GUID has steps left, and gone with the commit of the last one. */
static void ack_with_last_step(void)
{
    struct qp_err err;
    bool busy = true;
    bool seen = false;
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    testenv_advance_ms(&x.f.t, 1000);
    while (busy) {
        struct act_row act;
        size_t messages;
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
        act = *enginetest_act(&x, x.job, "s,0,0");
        if (act.guid.p == NULL || seen) {
            continue;
        }
        messages = enginetest_rows(&x, TABLE_msg, x.job);
        if (step_next(act.guid_ledger) == STEP_ACK) {
            seen = true;
            /* stepwise its two children are messages now; fused, the worker's task is left */
            assert_int_equal(messages, x.options.stepwise ? 2 : 1);
        } else {
            assert_int_equal(messages, 1);
        }
    }
    assert_true(seen);
    (void)enginetest_work(&x);
    assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
}

static void test_H16_ack_with_last_step(void **state)
{
    (void)state;
    enginetest_each(&x, story, true, ack_with_last_step);
    enginetest_each(&x, story, false, ack_with_last_step);
}

static int fail_work(void *context, struct turn *t, const char *function)
{
    (void)context;
    return strcmp(function, "work") == 0 && str_equal(t->at.name, QP_STR("s")) ? QP_E_INTERNAL
                                                                               : QP_OK;
}

/* A dead letter is never dropped: it survives restarts, its job says so, and it can be sent again. */
static void dead_letter(void)
{
    struct request_unpark unpark = {.ns = STORE_NS_DEFAULT, .jid = QP_STR("a")};
    x.cast.trouble = fail_work;
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    for (int i = 0; i < 4; i++) {
        enginetest_wait(&x, LIMIT_BACKOFF_MS * 2);
    }
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_DEAD);
    enginetest_crash(&x);
    enginetest_wait(&x, LIMIT_BACKOFF_MS * 2);
    assert_int_equal(enginetest_message(&x, x.job)->state, MSG_DEAD);
    assert_non_null(job()->parked.p);
    x.cast.trouble = NULL;
    request_unpark(&unpark);
    assert_int_equal(enginetest_ask(&x, &unpark.command), QP_OK);
    assert_null(job()->parked.p);
    assert_int_equal(enginetest_ask(&x, &unpark.command), QP_E_CONFLICT);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(job()->state, JOB_COMPLETED);
}

static void test_H16_dead_letter(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        enginetest_init(&x, (enum storetest_kind)kind, story);
        x.options.max_deliveries = 2;
        enginetest_open(&x);
        dead_letter();
        enginetest_done(&x);
    }
}

/* ---------------------------------------------------------------------------------------- H17, H18 */

/* The whole story, round by round, until the point strikes. */
struct play {
    struct request_start start;
    struct request_result result;
};

static int64_t open_answers;
static int64_t steps_left;

static void play_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    (void)why;
    open_answers--;
    enginetest_answer = rc;
}

/* One round with what it needs; false when everything is over. */
static bool play_step(struct play *p, int *out_rc)
{
    struct qp_err err = {0};
    bool busy;
    if (open_answers == 0 && x.tasks != NULL) {
        p->result = (struct request_result){.task = x.tasks, .output = QP_STR("ok")};
        request_result(&p->result);
        p->result.command.answer = play_answered;
        open_answers++;
        engine_submit(x.e, &p->result.command);
    }
    assert_true(steps_left-- > 0);
    *out_rc = engine_round(x.e, &busy, &err);
    x.job = p->start.job.job; /* of the job that was there before, when it was asked for again */
    if (*out_rc == QP_OK && open_answers == 0 && x.tasks != NULL && p->result.task == x.tasks) {
        enginetest_forget(&x, x.tasks);
        p->result.task = NULL;
        return true;
    }
    if (*out_rc == QP_OK && !busy && x.tasks == NULL) {
        const struct job_row *row = enginetest_job(&x, x.job);
        testenv_advance_ms(&x.f.t, 1000);
        return row == NULL || row->completions == 0;
    }
    return true;
}

static void play_submit(struct play *p)
{
    enginetest_fill_start(&x, &p->start, "a", "{}");
    p->start.command.answer = play_answered;
    x.job = p->start.start.job.ref.job;
    open_answers = 1;
    steps_left = 1000;
    engine_submit(x.e, &p->start.command);
}

/* What every run must have come to, whatever happened in between. */
static void assert_story_told(void)
{
    assert_int_equal(job()->completions, 1);
    assert_int_equal(job()->state, JOB_COMPLETED);
    assert_int_equal(job()->sem, 0);
    assert_int_equal(enginetest_rows(&x, TABLE_act, x.job), 5);
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
    assert_string_equal(enginetest_digits(&x, "s,0,0"), "201100000000001 000011000000001");
}

/* The engine and its store are gone without a word. */
static void abandon(void)
{
    struct qp_err err;
    engine_abandon(x.e);
    while (x.tasks != NULL) {
        enginetest_forget(&x, x.tasks);
    }
    (void)store_close(x.f.s, &err); /* it is finished, and says so */
    x.f.s = NULL;
}

/* After a restart: the start is asked for again, as whoever was not answered does. */
static void play_again(struct play *p)
{
    int rc;
    play_submit(p);
    while (play_step(p, &rc)) {
        assert_int_equal(rc, QP_OK);
    }
}

/* The answer to the n-th commit is lost: the engine stops, and does not repeat it. Opened again it goes on
 * by the digits, and everything has happened once. */
static void unknown_outcome(enum storetest_kind kind)
{
    bool struck = true;
    for (int n = 1; struck; n++) {
        struct play p = {0};
        struct qp_err err;
        char spec[64];
        int rc = QP_OK;
        bool busy;
        assert_true(n < 60);
        enginetest_init(&x, kind, story);
        x.options.stepwise = n % 3 == 0;
        enginetest_open(&x);
        play_submit(&p);
        (void)snprintf(spec, sizeof spec, "commit.after=error@%d", n);
        assert_int_equal(failpoint_set(spec), QP_OK);
        while (play_step(&p, &rc) && rc == QP_OK) {}
        assert_int_equal(failpoint_set(NULL), QP_OK);
        struck = rc != QP_OK;
        if (struck) {
            assert_int_equal(rc, QP_E_UNKNOWN_OUTCOME);
            assert_int_equal(engine_round(x.e, &busy, &err), QP_E_UNKNOWN_OUTCOME);
            assert_int_equal(open_answers, 0); /* whoever waited was told, too */
            abandon();
            storetest_reopen(&x.f);
            enginetest_open(&x);
            play_again(&p);
        }
        assert_story_told();
        enginetest_done(&x);
    }
}

static void test_H17_unknown_outcome(void **state)
{
    (void)state;
    unknown_outcome(STORETEST_MEMORY);
    unknown_outcome(STORETEST_SQLITE);
    if (storetest_kinds() == STORETEST_ALL) {
        unknown_outcome(STORETEST_POSTGRES);
    }
}

/* The rounds of a story in which the n-th point fails; how many rounds failed. Each of them has left the
 * store as it was. */
static int play_with_error(struct play *p, int *out_rc)
{
    struct buf before;
    struct buf after;
    bool more = true;
    int failed = 0;
    buf_init(&before, &x.f.t.env, 0);
    buf_init(&after, &x.f.t.env, 0);
    while (more && *out_rc != QP_E_UNKNOWN_OUTCOME) {
        int64_t committed = failpoint_hits("commit.after");
        statetext_print(x.f.s, STATETEXT_NO_CLOCK | STATETEXT_NO_NUMBERS, &before);
        more = play_step(p, out_rc);
        if (*out_rc != QP_OK && failpoint_hits("commit.after") == committed) {
            failed++;
            assert_int_equal(*out_rc, QP_E_IO);
            statetext_print(x.f.s, STATETEXT_NO_CLOCK | STATETEXT_NO_NUMBERS, &after);
            assert_true(statetext_equal(&before, &after));
            p->result.task = NULL;
            if (storetest_count(&x.f, TABLE_job) == 0) {
                play_submit(p); /* it was told, and asks again */
            }
        }
    }
    buf_done(&before);
    buf_done(&after);
    return failed;
}

/* Every point inside a commit fails once, at the first op, between any two, in every write: nothing of
 * the whole round is there, the engine goes on, and everything happens once. */
static void one_transaction(enum storetest_kind kind, size_t first, size_t stride)
{
    static const char *const points[] = {
        "commit.begin", "commit.before",   "op.job_create", "op.act_create", "op.guid_enter",
        "op.guid_add",  "op.sem_move",     "op.msg_put",    "op.msg_ack",    "op.msg_claim",
        "op.wake",      "op.job_finish",   "op.job_sweep",  "op.act_add",    "write.job",
        "write.act",    "engine.collected"};
    for (size_t i = first; i < ARRAY_COUNT(points); i += stride) {
        int failed = 1;
        for (int n = 1; failed > 0; n++) {
            struct play p = {0};
            char spec[64];
            int rc = QP_OK;
            assert_true(n < 200);
            enginetest_init(&x, kind, story);
            enginetest_open(&x);
            (void)snprintf(spec, sizeof spec, "%s=error@%d", points[i], n);
            play_submit(&p);
            assert_int_equal(failpoint_set(spec), QP_OK);
            failed = play_with_error(&p, &rc);
            assert_int_equal(failpoint_set(NULL), QP_OK);
            assert_true(failed > 0 || n > 1); /* every point is there to be hit */
            assert_story_told();
            enginetest_done(&x);
        }
    }
}

static void test_H18_one_transaction(void **state)
{
    const char *lane = getenv("QP_LANE");
    size_t stride = lane != NULL && strcmp(lane, "torture") == 0 ? 1 : SAMPLE_STRIDE;
    (void)state;
    one_transaction(STORETEST_MEMORY, 0, 1);
    if (storetest_kinds() == STORETEST_ALL) {
        one_transaction(STORETEST_POSTGRES, testenv_seed() % stride, stride);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_H14_preseed),
        cmocka_unit_test(test_H15_fifteen_digits),
        cmocka_unit_test(test_H16_ack_with_last_step),
        cmocka_unit_test(test_H16_dead_letter),
        cmocka_unit_test(test_H17_unknown_outcome),
        cmocka_unit_test(test_H18_one_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
