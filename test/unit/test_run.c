/* test_run.c - runs of nodes: entering, leaving, dying, and who takes up what they held */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"

static struct enginetest x;

static const struct actor worker[] = {
    {.name = "trigger", .category = 'D', .next = "w"},
    {.name = "w", .category = 'A', .deed = DEED_TASK, .topic = "t"},
    {0}};

static void start_many(int count)
{
    static char names[1500][16];
    static struct request_start requests[1500];
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "job%d", i);
        enginetest_fill_start(&x, &requests[i], names[i], "{}");
        requests[i].command.answer = enginetest_answered;
        engine_submit(x.e, &requests[i].command);
    }
    enginetest_settle(&x);
}

static size_t in_hand(void)
{
    size_t count = 0;
    for (struct task *t = x.tasks; t != NULL; t = t->next) {
        count++;
    }
    return count;
}

static void open_engine(enum storetest_kind kind)
{
    enginetest_init(&x, kind, worker);
    x.service.room = 2000;
    enginetest_open(&x);
}

/* A run is a row while it lasts; leaving gives back all that it held, without a try lost. */
static void test_leave(void **state)
{
    struct qp_err err;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        open_engine((enum storetest_kind)kind);
        start_many(3);
        assert_int_equal(storetest_count(&x.f, TABLE_node), 1);
        assert_int_equal(in_hand(), 3);
        assert_int_equal(engine_close(x.e, &err), QP_OK);
        assert_int_equal(storetest_count(&x.f, TABLE_node), 0);
        while (x.tasks != NULL) {
            enginetest_forget(&x, x.tasks);
        }
        enginetest_open(&x);
        assert_int_equal(engine_stats(x.e).runs_ended, 0);
        assert_int_equal(enginetest_work(&x), 3);
        assert_int_equal(x.ended, 3);
        enginetest_done(&x);
    }
}

/* More is held than one page has: a run that died is taken over whole, and its row goes last. */
static void test_take_over_pages(void **state)
{
    (void)state;
    open_engine(STORETEST_MEMORY);
    start_many(LIMIT_CLAIM_MESSAGES + 100);
    assert_int_equal(in_hand(), LIMIT_CLAIM_MESSAGES + 100);
    enginetest_crash(&x);
    assert_int_equal(storetest_count(&x.f, TABLE_node), 1); /* the new one */
    assert_int_equal(engine_stats(x.e).runs_ended, 1);
    assert_int_equal(enginetest_work(&x), LIMIT_CLAIM_MESSAGES + 100);
    assert_int_equal(x.ended, LIMIT_CLAIM_MESSAGES + 100);
    enginetest_done(&x);
}

/* Tasks that dead runs had in hand come together again, but for their last try: that is made alone, so
 * that only one of them can be what kills. */
static void test_last_try_alone(void **state)
{
    (void)state;
    enginetest_init(&x, STORETEST_SQLITE, worker);
    x.options.max_deliveries = 3;
    enginetest_open(&x);
    start_many(5);
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_int_equal(in_hand(), 5);
    enginetest_crash(&x);
    for (int left = 5; left > 0; left--) {
        enginetest_settle(&x);
        assert_int_equal(in_hand(), 1);
        assert_int_equal(x.tasks->tries, 3);
        if (left == 3) { /* a new one does not wait for them */
            assert_int_equal(enginetest_start(&x, "new"), QP_OK);
            assert_int_equal(in_hand(), 2);
            assert_int_equal(
                enginetest_result(&x, enginetest_task(&x, "new", NULL), RESULT_DONE, "ok"), QP_OK);
            enginetest_forget(&x, enginetest_task(&x, "new", NULL));
            assert_int_equal(in_hand(), 1);
        }
        assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "ok"), QP_OK);
        enginetest_forget(&x, x.tasks);
    }
    enginetest_settle(&x);
    assert_int_equal(x.ended, 6);
    enginetest_done(&x);
}

/* What a run that is over puts in its own name is refused. */
static void test_over_holds_nothing(void **state)
{
    struct op put = {.kind = OP_msg_put};
    struct op claim = {.kind = OP_msg_claim};
    (void)state;
    open_engine(STORETEST_MEMORY);
    start_many(1);
    put.msg_put = (struct op_msg_put){.ref = {STORE_NS_DEFAULT, 0},
                                      .owner = OWNER_SYSTEM,
                                      .topic = QP_STR("t"),
                                      .guid = storetest_guid(1),
                                      .holder = engine_kernel(x.e)->epoch};
    claim.msg_claim =
        (struct op_msg_claim){.topic = QP_STR("t"), .want = 1, .holder = put.msg_put.holder};
    enginetest_crash(&x);
    assert_int_equal(storetest_op(&x.f, &put), QP_E_STALE);
    assert_int_equal(storetest_op(&x.f, &claim), QP_E_STALE);
    assert_int_equal(enginetest_work(&x), 1);
    enginetest_done(&x);
}

/* ---------------------------------------------------------------------------------- several nodes */

static struct enginetest y; /* only its engine is used: it works on the store of x */

static void second_node(qp_ms lease_ms)
{
    struct qp_err err;
    cast_init(&y.cast, CAST_KIND, worker);
    y.programs[0] = &y.cast.program;
    y.options = x.options;
    y.options.programs = y.programs;
    y.options.name = "second";
    y.options.lease_ms = lease_ms;
    y.options.store = x.f.s;
    assert_int_equal(engine_open(&y.options, &y.e, &err), QP_OK);
}

/* A node whose lease is over is ended by the next one that looks; one that renews is not. */
static void test_lease(void **state)
{
    struct qp_err err;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    x.options.lease_ms = 3000;
    enginetest_open(&x);
    second_node(3000);
    start_many(2);
    for (int i = 0; i < 10; i++) { /* both look after their leases */
        testenv_advance_ms(&x.f.t, 1000);
        enginetest_settle(&x);
        assert_int_equal(engine_settle(y.e, &err), QP_OK);
    }
    assert_int_equal(storetest_count(&x.f, TABLE_node), 2);
    assert_int_equal(engine_stats(y.e).runs_ended, 0);
    for (int i = 0; i < 4; i++) { /* only one of them does */
        testenv_advance_ms(&x.f.t, 1000);
        assert_int_equal(engine_settle(y.e, &err), QP_OK);
    }
    assert_int_equal(engine_stats(y.e).runs_ended, 1);
    assert_int_equal(storetest_count(&x.f, TABLE_node), 1);
    assert_int_equal(enginetest_result(&x, x.tasks, RESULT_DONE, "late"), QP_E_STALE);
    enginetest_settle(&x); /* and enters a new run */
    assert_int_equal(storetest_count(&x.f, TABLE_node), 2);
    assert_int_equal(engine_close(y.e, &err), QP_OK);
    while (x.tasks != NULL && x.tasks->tries == 1) { /* those of the former run */
        enginetest_forget(&x, x.tasks);
    }
    enginetest_wait(&x, 1000);
    (void)enginetest_work(&x);
    assert_int_equal(x.ended, 2);
    enginetest_done(&x);
}

/* A start whose task would be held by a run that another node has ended is decided again, in the next run: its
 * caller asked for a job, and knows nothing of runs. */
static void test_command_of_an_ended_run(void **state)
{
    static const enum node_state over[] = {NODE_ENDING, NODE_DEAD};
    int64_t ended;
    struct qp_err err;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    x.service.room = 2000;
    x.options.lease_ms = 3000;
    enginetest_open(&x);
    second_node(3000);
    enginetest_settle(&x); /* its lease need not be renewed soon */
    ended = engine_kernel(x.e)->epoch;
    for (size_t i = 0; i < ARRAY_COUNT(over); i++) {
        struct op op = {.kind = OP_node_put, .node_put = {.epoch = ended, .state = over[i]}};
        assert_int_equal(storetest_op(&x.f, &op), QP_OK);
    }
    assert_int_equal(enginetest_start(&x, "job"), QP_OK);
    assert_true(engine_kernel(x.e)->epoch > ended);
    assert_int_equal(engine_close(y.e, &err), QP_OK);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(x.ended, 1);
    enginetest_done(&x);
}

/* A run without a lease had its store for itself: found where nodes have leases, it came with a copy
 * (store/copy.h), and what it held is taken up. */
static void test_run_without_lease(void **state)
{
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    enginetest_open(&x);
    start_many(2);
    x.options.lease_ms = 3000;
    enginetest_crash(&x);
    assert_int_equal(engine_stats(x.e).runs_ended, 1);
    assert_int_equal(storetest_count(&x.f, TABLE_node), 1);
    assert_int_equal(enginetest_work(&x), 2);
    assert_int_equal(x.ended, 2);
    enginetest_done(&x);
}

/* A task that one node has put is found by another that serves its topic, though it heard nothing of it. */
static void test_tasks_of_another_node(void **state)
{
    struct request_start r;
    struct qp_err err;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    x.options.lease_ms = 3000;
    enginetest_open(&x);
    enginetest_settle(&x); /* it looks, and finds nothing */
    second_node(3000);
    enginetest_fill_start(&x, &r, "a", "{}");
    r.command.answer = enginetest_answered;
    engine_submit(y.e, &r.command); /* the second one has no worker */
    assert_int_equal(engine_settle(y.e, &err), QP_OK);
    assert_null(x.tasks);
    enginetest_wait(&x, 1000);
    assert_non_null(x.tasks);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(engine_close(y.e, &err), QP_OK);
    enginetest_done(&x);
}

static void start_elsewhere(struct request_start *r, const char *jid)
{
    struct qp_err err;
    enginetest_fill_start(&x, r, jid, "{}");
    r->command.answer = enginetest_answered;
    engine_submit(y.e, &r->command);
    assert_int_equal(engine_settle(y.e, &err), QP_OK);
}

/* However long the lease, what others put is found within LIMIT_LOOK_MS; at once by who is told to look. */
static void test_look(void **state)
{
    static struct request_start r[2];
    struct qp_err err;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    x.options.lease_ms = 600000;
    enginetest_open(&x);
    enginetest_settle(&x);
    second_node(600000);
    start_elsewhere(&r[0], "a");
    enginetest_wait(&x, LIMIT_LOOK_MS - 1);
    assert_null(x.tasks);
    assert_int_equal(engine_deadline(x.e), store_now(x.f.s) + 1);
    enginetest_wait(&x, 1);
    assert_int_equal(enginetest_work(&x), 1);
    start_elsewhere(&r[1], "b");
    enginetest_settle(&x);
    assert_null(x.tasks);
    engine_look_again(x.e);
    enginetest_settle(&x);
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(engine_close(y.e, &err), QP_OK);
    enginetest_done(&x);
}

/* An engine that has nothing to do makes one round per look, and one per renewal of its lease. */
static void test_idle(void **state)
{
    const qp_ms lease_ms = 30000;
    int64_t rounds;
    qp_ms until;
    (void)state;
    enginetest_init(&x, STORETEST_MEMORY, worker);
    x.options.lease_ms = lease_ms;
    enginetest_open(&x);
    enginetest_settle(&x);
    rounds = engine_stats(x.e).rounds;
    until = store_now(x.f.s) + lease_ms;
    while (engine_deadline(x.e) <= until) {
        enginetest_wait(&x, engine_deadline(x.e) - store_now(x.f.s));
    }
    assert_in_range(engine_stats(x.e).rounds - rounds, lease_ms / LIMIT_LOOK_MS,
                    lease_ms / LIMIT_LOOK_MS + 3);
    enginetest_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_take_over_pages),
        cmocka_unit_test(test_last_try_alone),
        cmocka_unit_test(test_over_holds_nothing),
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_command_of_an_ended_run),
        cmocka_unit_test(test_tasks_of_another_node),
        cmocka_unit_test(test_run_without_lease),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
