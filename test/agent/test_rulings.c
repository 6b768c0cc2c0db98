/* test_rulings.c - the rulings on branches and decisions, one test each, by their numbers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/instance.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena arena;
static struct instance s;
static struct draft d;

static int setup(void **state)
{
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    instance_init(&s, &arena, QP_STR("i"), QP_STR("flow"));
    assert_int_equal(instance_start(&s, 0, QP_NONE, QP_STR("p0")), QP_OK);
    return 0;
}

static int teardown(void **state)
{
    arena_done(&arena);
    testenv_done(&t);
    return 0;
}

/* The next execution is that of this branch, with these properties. */
static void run(int64_t branch_key, const char *properties)
{
    const struct branch *branch = NULL;
    qp_str given;
    assert_int_equal(draft_branch(&d, NULL, &branch, &given), QP_OK);
    assert_non_null(branch);
    assert_int_equal(branch->key, branch_key);
    assert_true(str_equal(given, str_from(properties)));
}

static struct draft_reply execute(struct agent_work work)
{
    struct draft_reply reply;
    assert_int_equal(draft_execute(&d, &work, 1, NULL, &reply), QP_OK);
    return reply;
}

static struct agent_work task(const char *position)
{
    return (struct agent_work){.name = QP_STR("A"), .position = str_from(position), .sync = true};
}

static struct agent_work wait_for(const char *position, const char *event, int64_t duration_ms)
{
    return (struct agent_work){.name = QP_STR("_Wait"),
                               .position = str_from(position),
                               .event = str_from(event),
                               .type = WORK_WAIT,
                               .end = duration_ms < 0 ? WORK_END_NONE : WORK_END_AFTER,
                               .end_ms = duration_ms,
                               .sync = true};
}

static void leave(const char *properties)
{
    assert_int_equal(draft_post(&d, str_from(properties), NULL, NULL), QP_OK);
}

static void end(const char *properties)
{
    qp_str output = QP_NONE;
    assert_int_equal(draft_post(&d, str_from(properties), &output, NULL), QP_OK);
}

static void begin(void)
{
    draft_init(&d, &arena, &s);
}

static void decided(int64_t now_ms)
{
    assert_int_equal(instance_decided(&s, now_ms, &d, NULL), QP_OK);
}

/* handle asks for one work, and is left. */
static void first_decision(int64_t now_ms, struct agent_work work)
{
    begin();
    run(0, "p0");
    assert_int_equal(execute(work).status, REPLY_SCHEDULED);
    leave("p0");
    decided(now_ms);
}

/* Every branch of the decision ends and changes nothing, but for branch 0, which is left. */
static void end_hooks(int64_t now_ms)
{
    const struct branch *branch = NULL;
    qp_str given;
    for (begin();;) {
        assert_int_equal(draft_branch(&d, NULL, &branch, &given), QP_OK);
        if (branch == NULL) {
            break;
        }
        assert_int_equal(draft_post(&d, given, branch->key == 0 ? NULL : &QP_NONE, NULL), QP_OK);
    }
    decided(now_ms);
}

static bool report(int64_t now_ms, enum hook hook, bool retries)
{
    struct instance_report r = {.hook = hook, .position = QP_STR("1"), .retries = retries};
    if (hook == HOOK_FAILURE) {
        assert_int_equal(state_error_make(&arena, QP_NONE, QP_STR("Boom"), QP_NONE, &r.error),
                         QP_OK);
    }
    assert_int_equal(instance_report(&s, now_ms, &r), QP_OK);
    return !s.ignored;
}

static void event(int64_t now_ms, const char *name)
{
    assert_int_equal(instance_event(&s, now_ms, str_from(name), QP_STR("x"), NULL), QP_OK);
}

static struct status *work_at(const char *position)
{
    struct status *status = status_find(&s.statuses, 0, str_from(position));
    assert_non_null(status);
    return status;
}

/* I1, I2, I3: the owner sees what onSuccess changed; an execution that only replays does not write. */
static void test_i1_i2_i3_properties(void **state)
{
    first_decision(1, task("1"));
    assert_true(report(2, HOOK_SUCCESS, false));
    assert_int_equal(work_at("1")->completion_index, 2);
    begin();
    run(1, "p0");
    end("p1");
    run(0, "p0");
    struct draft_reply reply = execute(task("1"));
    assert_int_equal(reply.status, REPLY_COMPLETED);
    assert_true(str_equal(reply.properties, QP_STR("p1")));
    leave("p2");
    decided(3);
    assert_int_equal(s.property_count, 3);
    assert_int_equal(s.properties[1].key, 2);
    assert_int_equal(s.properties[2].key, 3);
    event(4, "E");
    end_hooks(5);
    assert_int_equal(s.property_count, 3);
}

/* I3: properties of a base that is old are dropped. */
static void test_i3_stale_base(void **state)
{
    struct agent_work both[] = {task("1"), task("2")};
    struct draft_reply reply;
    begin();
    run(0, "p0");
    assert_int_equal(draft_execute(&d, both, 2, NULL, &reply), QP_OK);
    leave("p0");
    decided(1);
    assert_true(report(2, HOOK_SUCCESS, false));
    begin();
    run(1, "p0");
    end("p1");
    run(0, "p0");
    assert_int_equal(draft_execute(&d, both, 2, NULL, &reply), QP_OK);
    assert_int_equal(reply.status, REPLY_SCHEDULED);
    leave("old");
    decided(3);
    assert_int_equal(s.property_count, 2);
}

/* I7, I8: null is an output; the instance completes when all have ended and the buffer is empty. */
static void test_i7_i8_completes(void **state)
{
    begin();
    run(0, "p0");
    event(1, "E");
    end("p0");
    decided(2);
    assert_false(s.completed);
    end_hooks(3);
    assert_true(s.completed);
    event(4, "E");
    assert_true(s.ignored);
}

/* I9: an end in the past is not earlier than the trigger. I15: ten years are no end. */
static void test_i9_i15_ends(void **state)
{
    struct agent_work past = wait_for("1", NULL, 0);
    past.end = WORK_END_AT;
    past.end_ms = -5;
    begin();
    run(0, "p0");
    assert_int_equal(execute(past).status, REPLY_SCHEDULED);
    assert_int_equal(execute(wait_for("2", NULL, LIMIT_INSTANCE_WAIT_MS + 1)).status,
                     REPLY_SCHEDULED);
    leave("p0");
    decided(1);
    assert_int_equal(s.wait_count, 1);
    assert_int_equal(s.waits[0].end_ms, WORK_NO_END);
    assert_int_equal(state_branch(&s, 2)->call.hook, HOOK_SUCCESS);
    assert_int_equal(state_branch(&s, 2)->timestamp_ms, 0);
}

/* I11: one event ends all waits for it, and wins against the time when both are the same. */
static void test_i11_all_waits(void **state)
{
    begin();
    run(0, "p0");
    (void)execute(wait_for("1", "E", 100));
    (void)execute(wait_for("2", "E", -1));
    (void)execute(wait_for("3", "F", 100));
    leave("p0");
    decided(1);
    end_hooks(2);
    event(100, "E");
    assert_int_equal(s.wait_count, 1);
    assert_true(work_at("1")->output.n > 4);
    assert_true(work_at("2")->output.n > 4);
    assert_int_equal(work_at("3")->state, WORK_SCHEDULED);
}

/* I12: a failed decision applies nothing and can be retried; late results of an earlier attempt are refused. */
static void test_i12_failed(void **state)
{
    struct state_error error;
    assert_int_equal(state_error_make(&arena, QP_NONE, QP_STR("x"), QP_NONE, &error), QP_OK);
    begin();
    run(0, "p0");
    (void)execute(task("1"));
    assert_int_equal(instance_failed(&s, 1, &error, NULL), QP_OK);
    assert_true(s.parked && s.decision_ongoing);
    assert_int_equal(s.statuses.count, 0);
    leave("p0");
    assert_int_equal(instance_decided(&s, 2, &d, NULL), QP_E_CONFLICT);
    assert_int_equal(instance_retry(&s, 3, NULL), QP_OK);
    assert_int_equal(s.triggered_ms, 0);
    assert_int_equal(s.decision_attempt, 2);
    assert_int_equal(instance_decided(&s, 4, &d, NULL), QP_E_CONFLICT);
    first_decision(5, task("1"));
    assert_int_equal(s.statuses.count, 1);
}

/* I14: times are not hashed, everything that names the work is. */
static void test_i14_hash(void **state)
{
    struct agent_work a = wait_for("1", "E", 5);
    struct agent_work b = wait_for("1", "E", 6);
    char x[WORK_HASH_SIZE];
    char y[WORK_HASH_SIZE];
    work_hash(&a, 0, x);
    work_hash(&b, 0, y);
    assert_memory_equal(x, y, sizeof(x));
    work_hash(&b, 1, y);
    assert_memory_not_equal(x, y, sizeof(x));
    b.input = QP_STR("");
    work_hash(&b, 0, y);
    assert_memory_not_equal(x, y, sizeof(x));
    assert_memory_equal(x, "1-", 2);
}

/* I16, I17: attempts count reported errors; each has one onStart and one onTimeout; a retry by hand needs a failed work. */
static void test_i16_i17_attempts(void **state)
{
    first_decision(1, task("1"));
    assert_true(report(2, HOOK_START, false));
    assert_false(report(3, HOOK_START, false));
    assert_true(report(4, HOOK_TIMEOUT, false));
    assert_false(report(4, HOOK_TIMEOUT, false));
    assert_true(report(5, HOOK_FAILURE, true));
    assert_int_equal(work_at("1")->attempt, 2);
    assert_true(report(6, HOOK_START, false));
    assert_int_equal(instance_retry(&s, 6, NULL), QP_OK);
    assert_true(s.ignored);
    assert_true(report(7, HOOK_FAILURE, false));
    assert_int_equal(work_at("1")->state, WORK_SCHEDULED);
    assert_int_equal(instance_retry(&s, 8, NULL), QP_OK);
    end_hooks(9);
    assert_int_equal(work_at("1")->state, WORK_SCHEDULED);
    assert_int_equal(work_at("1")->attempt, 3);
    assert_int_equal(work_at("1")->retry_index, 0);
}

/* I20: another turn ends the waits that ended before it, in order, each at its own time. */
static void test_i20_late_waits(void **state)
{
    begin();
    run(0, "p0");
    (void)execute(wait_for("1", NULL, 300));
    (void)execute(wait_for("2", NULL, 100));
    leave("p0");
    decided(1);
    event(300, "E");
    assert_int_equal(s.buffer_count, 2);
    assert_int_equal(s.buffer[0].timestamp_ms, 100);
    assert_int_equal(s.buffer[1].timestamp_ms, 300);
    assert_int_equal(instance_timers(&s, 300), QP_OK);
    assert_int_equal(s.buffer_count, 3);
    assert_int_equal(s.wait_count, 0);
}

/* The buffer: one decision takes the oldest 500; when it is full events are refused, other actions are not. */
static void test_buffer_limits(void **state)
{
    first_decision(1, task("1"));
    assert_true(report(2, HOOK_START, false));
    for (int i = 0; i < LIMIT_INSTANCE_BUFFER; i++) {
        event(3, "E");
    }
    assert_int_equal(instance_event(&s, 3, QP_STR("E"), QP_NONE, NULL), QP_E_LIMIT);
    assert_true(report(4, HOOK_SUCCESS, false));
    end_hooks(5);
    assert_int_equal(s.execution_count - s.ongoing_index, LIMIT_INSTANCE_BATCH);
    assert_int_equal(s.buffer_count, LIMIT_INSTANCE_BUFFER + 1 - LIMIT_INSTANCE_BATCH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_i1_i2_i3_properties),
        TEST(test_i3_stale_base),
        TEST(test_i7_i8_completes),
        TEST(test_i9_i15_ends),
        TEST(test_i11_all_waits),
        TEST(test_i12_failed),
        TEST(test_i14_hash),
        TEST(test_i16_i17_attempts),
        TEST(test_i20_late_waits),
        TEST(test_buffer_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
