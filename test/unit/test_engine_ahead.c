/* test_engine_ahead.c - rounds that overlap: one is decided while the one before it is written
 *
 * The writer writes when the test says so. Nobody hears of anything before its own commit, answers
 * come in order, and what was decided on a commit that fails fails with it.
 */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/enginetest.h"

#define JOBS 128 /* what a round takes at a time, and no fewer than are written elsewhere */

static const struct actor cast[] = {
    {.name = "trigger", .category = 'D', .next = "pay"},
    {.name = "pay", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static struct enginetest x;

/* ---------------------------------------------------------------------------------- the writer */

static struct {
    void (*work)(void *argument);
    void *argument;
    bool done;
} writer;

static void write_begin(void *context, void (*work)(void *argument), void *argument)
{
    (void)context;
    assert_null(writer.work);
    writer.work = work;
    writer.argument = argument;
}

/* Done with its work, but nobody has been told. */
static void write_now(void *context)
{
    void (*work)(void *argument) = writer.work;
    (void)context;
    writer.work = NULL;
    if (work != NULL) {
        work(writer.argument);
    }
}

static bool write_is_busy(void *context)
{
    (void)context;
    return writer.work != NULL;
}

static const struct store_writer calls = {NULL, write_begin, write_is_busy, write_now};

/* ---------------------------------------------------------------------------------- commands */

struct asked {
    struct request_start start;
    char jid[32];
    int number;
    int rc;
};

static struct asked asked[4 * JOBS];
static int asked_count;
static int answered; /* in order */

static void on_answer(struct engine *e, struct command *c, int rc, const char *why)
{
    struct asked *a = (struct asked *)c;
    (void)e;
    (void)why;
    assert_int_equal(a->number, answered);
    a->rc = rc;
    answered++;
}

static void ask(int count)
{
    for (int i = 0; i < count; i++) {
        struct asked *a = &asked[asked_count];
        (void)snprintf(a->jid, sizeof a->jid, "job-%d", asked_count);
        enginetest_fill_start(&x, &a->start, a->jid, "{}");
        a->start.start.fresh = true;
        a->start.command.answer = on_answer;
        a->number = asked_count++;
        a->rc = QP_E_BUSY;
        engine_submit(x.e, &a->start.command);
    }
}

static int round_now(void)
{
    struct qp_err err = {0};
    bool busy;
    return engine_round(x.e, &busy, &err);
}

static int rest(void)
{
    struct qp_err err = {0};
    return engine_rest(x.e, &err);
}

static void count_answers(int from, int to, int rc)
{
    for (int i = from; i < to; i++) {
        assert_int_equal(asked[i].rc, rc);
    }
}

static size_t jobs_stored(void)
{
    return storetest_count(&x.f, TABLE_job);
}

static int set_up(void **state)
{
    (void)state;
    asked_count = 0;
    answered = 0;
    enginetest_init(&x, STORETEST_SQLITE, cast);
    x.service.room = 4 * JOBS;
    enginetest_open(&x);
    enginetest_settle(&x);
    engine_use_writer(x.e, &calls);
    /* The counters and lanes of this workflow become known. */
    ask(1);
    assert_int_equal(round_now(), QP_OK);
    assert_int_equal(rest(), QP_OK);
    assert_int_equal(answered, 1);
    assert_int_equal(jobs_stored(), 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(failpoint_set(NULL), QP_OK);
    (void)rest();
    engine_use_writer(x.e, NULL);
    enginetest_settle(&x);
    enginetest_check(&x);
    enginetest_done(&x);
    return 0;
}

/* ------------------------------------------------------------------------------------- the tests */

static void test_nobody_hears_before_the_commit(void **state)
{
    (void)state;
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    assert_true(engine_is_writing(x.e));
    assert_int_equal(answered, 1);
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK); /* decided, and left open: the writer is not done */
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK); /* these join it */
    assert_int_equal(answered, 1);
    write_now(NULL);
    assert_int_equal(answered, 1);        /* it is on disk, and nobody was told */
    assert_int_equal(round_now(), QP_OK); /* now they are, and the open round goes to the writer */
    assert_int_equal(answered, 1 + JOBS);
    write_now(NULL);
    assert_int_equal(round_now(), QP_OK);
    assert_int_equal(answered, 1 + 3 * JOBS);
    assert_false(engine_is_writing(x.e));
    count_answers(1, asked_count, QP_OK);
    assert_int_equal(jobs_stored(), 1 + 3 * JOBS);
    assert_int_equal(x.service.room, JOBS - 1); /* every task is in hand, and counted once */
}

static void test_few_are_written_at_once(void **state)
{
    (void)state;
    ask(2);
    assert_int_equal(round_now(), QP_OK);
    assert_false(engine_is_writing(x.e));
    assert_int_equal(answered, 3);
}

static void test_the_second_fails_with_the_first(void **state)
{
    (void)state;
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    assert_int_equal(failpoint_set("commit.before=error"), QP_OK);
    write_now(NULL);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_not_equal(round_now(), QP_OK); /* the first */
    count_answers(1, 1 + JOBS, QP_E_IO);
    (void)rest(); /* the second */
    count_answers(1 + JOBS, asked_count, QP_E_IO);
    assert_int_equal(answered, asked_count);
    assert_int_equal(jobs_stored(), 1);
    assert_int_equal(x.service.room,
                     4 * JOBS - 1); /* nothing was handed out, nothing is promised */
    assert_null(x.tasks->next);
}

/* A place at a worker is promised once, whichever round it is promised in. */
static void test_room_is_promised_once(void **state)
{
    (void)state;
    x.service.room = JOBS + 5;
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    assert_int_equal(rest(), QP_OK);
    assert_int_equal(x.service.room, 0);
    count_answers(1, asked_count, QP_OK);
}

/* A single op, for numbers or the run, stands on nothing that may still fail. */
static void test_a_single_op_waits(void **state)
{
    struct op reserve = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
    struct qp_err err = {0};
    (void)state;
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    assert_int_equal(engine_op(x.e, &reserve, &err), QP_OK);
    assert_int_equal(answered, 1); /* both are committed, and answered by the next round */
    assert_int_equal(jobs_stored(), 1 + 2 * JOBS);
    assert_int_equal(round_now(), QP_OK);
    assert_int_equal(answered, asked_count);
    count_answers(1, asked_count, QP_OK);
}

/* A round that could not begin is answered, and the one before it stands. */
static void test_a_round_that_is_given_up(void **state)
{
    (void)state;
    ask(JOBS);
    assert_int_equal(round_now(), QP_OK);
    ask(JOBS);
    assert_int_equal(failpoint_set("engine.collected=error"), QP_OK);
    assert_int_not_equal(round_now(), QP_OK);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    count_answers(1, 1 + JOBS, QP_OK);
    count_answers(1 + JOBS, asked_count, QP_E_IO);
    assert_int_equal(jobs_stored(), 1 + JOBS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nobody_hears_before_the_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_are_written_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_second_fails_with_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room_is_promised_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_single_op_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_round_that_is_given_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
