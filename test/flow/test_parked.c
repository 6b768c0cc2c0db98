/* test_parked.c - names of flows, flows that are parked, retried and ended, and what the kernel refuses of a decision */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/program.h"
#include "support/graphrun.h"

#define JOB "j"
#define ONE_ACTIVITY                                                                               \
    "{\"base\":0,\"commands\":[{\"op\":\"activity\",\"loc\":\"{1}\",\"v\":1,\"name\":\"double\","  \
    "\"input\":1}]}"
#define RETURN_7 "{\"base\":%lld,\"commands\":[{\"op\":\"return\",\"output\":7}]}"

static struct graphrun run;
static bool fixed;        /* the code of the flow */
static int64_t decisions; /* that the worker was given */

static int64_t base_of(const char *id)
{
    const struct act_row *flow = graphrun_act(&run, id, "flow,0,0");
    assert_non_null(flow);
    return flow->base;
}

/* The first decision begins an activity, the second one ends the flow, or parks it while the code is wrong. */
static void work(struct graphcall *c)
{
    int64_t base;
    if (c->topic.p[0] != '@') {
        (void)snprintf(c->output, sizeof c->output, "2");
        return;
    }
    decisions++;
    base = base_of(JOB);
    if (base == 0) {
        (void)snprintf(c->output, sizeof c->output, ONE_ACTIVITY);
    } else if (fixed) {
        (void)snprintf(c->output, sizeof c->output, RETURN_7, (long long)base);
    } else {
        c->kind = RESULT_PARK;
        c->park = "history_diverged";
        (void)snprintf(c->output, sizeof c->output, "history and code differ at {1}");
    }
}

static void begin(int kind)
{
    fixed = false;
    decisions = 0;
    graphrun_init(&run, (enum storetest_kind)kind, "@f double", work);
    assert_int_equal(graphrun_announce(&run, "f"), QP_OK);
}

static void begin_parked(int kind)
{
    begin(kind);
    assert_int_equal(graphrun_start(&run, "f", JOB, "1"), QP_OK);
    graphrun_settle(&run);
    graphrun_expect(&run, JOB, "parked", NULL);
    assert_non_null(memmem(graphrun_job(&run, JOB)->parked.p, graphrun_job(&run, JOB)->parked.n,
                           "history_diverged: history and code differ at {1}", 48));
    assert_int_equal(decisions, 2);
    graphrun_check(&run);
}

/* A parked flow is given the same decision again after a fix, and completes; the park has written nothing. */
static void test_retried(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin_parked(kind);
        fixed = true;
        graphrun_kill(&run);
        graphrun_settle(&run);
        assert_int_equal(decisions, 2);
        assert_int_equal(graphrun_unpark(&run, JOB), QP_OK);
        graphrun_settle(&run);
        assert_int_equal(decisions, 3);
        graphrun_expect(&run, JOB, "completed", "7");
        assert_int_equal(graphrun_calls(&run, "double"), 1);
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

/* It can be ended with no worker. */
static void test_ended(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin_parked(kind);
        assert_int_equal(graphrun_end(&run, JOB, JOB_CANCELLED), QP_OK);
        graphrun_settle(&run);
        graphrun_expect(&run, JOB, "cancelled", NULL);
        assert_int_equal(decisions, 2);
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

/* A flow that waits for a decision is cancelled at once; what comes late changes nothing. */
static void test_cancelled(void **state)
{
    struct task *task;
    (void)state;
    begin(STORETEST_MEMORY);
    assert_int_equal(graphrun_start(&run, "f", JOB, "1"), QP_OK);
    graphrun_rest(&run);
    task = graphrun_take(&run, "flow,0,0");
    assert_int_equal(graphrun_end(&run, JOB, JOB_CANCELLED), QP_OK);
    assert_int_equal(graphrun_result(&run, task, ONE_ACTIVITY), QP_E_STALE);
    graphrun_forget(&run, task);
    graphrun_settle(&run);
    graphrun_expect(&run, JOB, "cancelled", NULL);
    assert_null(graphrun_act(&run, JOB, "@a1!"));
    graphrun_check(&run);
    graphrun_done(&run);
}

/* A decision that is refused has written nothing, and its task is still in hand: a good one is taken then. */
static void test_refused(void **state)
{
    static const char *const bad[] = {
        "{\"base\":0,\"commands\":[{\"op\":\"sleep\",\"loc\":\"{2}\",\"v\":1,\"until\":1}]}",
        "{\"base\":9,\"commands\":[]}",
        "{\"base\":0,\"commands\":[{\"op\":\"dance\"}]}",
        "[]",
    };
    struct task *task;
    (void)state;
    begin(STORETEST_MEMORY);
    fixed = true;
    assert_int_equal(graphrun_start(&run, "f", JOB, "1"), QP_OK);
    graphrun_rest(&run);
    task = graphrun_take(&run, "flow,0,0");
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(graphrun_result(&run, task, bad[i]), QP_E_SHAPE);
        assert_null(graphrun_act(&run, JOB, "@a2!"));
        graphrun_check(&run);
    }
    assert_int_equal(graphrun_result(&run, task, ONE_ACTIVITY), QP_OK);
    graphrun_forget(&run, task);
    graphrun_settle(&run);
    graphrun_expect(&run, JOB, "completed", "7");
    graphrun_check(&run);
    graphrun_done(&run);
}

/* ----------------------------------------------------------------------------------- long histories */

struct counting {
    struct job_ref ref;
    int64_t count;
};

static int count_in_commit(void *context, struct bundle *b)
{
    struct counting *counting = context;
    return flow_count_events(b, counting->ref, &counting->count);
}

/* The events of a long history are counted in the commit that takes a decision: the rows of the flow itself, which stand
 * behind them, are not counted, and the commit goes through. */
static void test_counted(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct counting counting = {.count = -1};
        struct commit c;
        struct bundle *b;
        begin_parked(kind);
        counting.ref = (struct job_ref){STORE_NS_DEFAULT, graphrun_job(&run, JOB)->job};
        assert_non_null(graphrun_act(&run, JOB, "@a1!"));
        assert_non_null(graphrun_act(&run, JOB, "trigger,0"));
        commit_init(&c, run.f.s);
        b = commit_decided(&c, "count", count_in_commit, &counting);
        assert_non_null(b);
        assert_int_equal(store_commit(run.f.s, &c), QP_OK);
        assert_int_equal(b->rc, QP_OK);
        assert_int_equal(counting.count, 1);
        commit_done(&c);
        graphrun_done(&run);
    }
}

/* ------------------------------------------------------------------------------------------ names */

/* A name means one thing: a graph's topic and a topic with open jobs are refused; the name of a flow twice is not. */
static void test_names(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin(kind);
        graphrun_deploy(&run, "app: {id: a, version: '1', graphs: [{subscribes: g.start, "
                              "activities: {t: {type: trigger}}}]}");
        assert_int_equal(graphrun_announce(&run, "f"), QP_OK);
        assert_int_equal(graphrun_announce(&run, "g.start"), QP_E_CONFLICT);
        assert_int_equal(graphrun_start(&run, "plain", "p", "1"), QP_OK);
        assert_int_equal(graphrun_announce(&run, "plain"), QP_E_CONFLICT);
        assert_int_equal(graphrun_end(&run, "p", JOB_CANCELLED), QP_OK);
        assert_int_equal(graphrun_announce(&run, "plain"), QP_OK);
        assert_int_equal(graphrun_announce(&run, "quipu:x"), QP_E_INVALID);
        graphrun_check(&run);
        graphrun_restart(&run);
        assert_int_equal(graphrun_start(&run, "f", JOB, "1"), QP_OK);
        assert_int_equal(graphrun_job(&run, JOB)->kind, 2);
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

/* A namespace has 10,000 names of flows, not one more. */
static void test_too_many_names(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY);
    for (int i = 0; i < LIMIT_FLOW_NAMES - 1; i++) {
        char name[16];
        struct op op = {.kind = OP_topic_put,
                        .topic_put = {.ns = STORE_NS_DEFAULT, .kind = APP_TOPIC_FLOW}};
        op.topic_put.topic = (qp_str){name, (size_t)snprintf(name, sizeof name, "n%d", i)};
        assert_int_equal(storetest_op(&run.f, &op), QP_OK);
    }
    assert_int_equal(graphrun_announce(&run, "n1"), QP_OK);
    assert_int_equal(graphrun_announce(&run, "one.more"), QP_E_LIMIT);
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retried),        cmocka_unit_test(test_ended),
        cmocka_unit_test(test_cancelled),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_counted),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_too_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
