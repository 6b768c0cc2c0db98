/* test_load.c - an agent workflow under load: what a turn costs stays the same, and readers see one commit
 *
 * In the check lane few of everything, and rows are counted; in torture the numbers of the issue, where time is bounded, too.
 * Rows are counted where the store calls its provider (support/countrows.h).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/env.h"
#include "run/job_view.h"
#include "support/agentagree.h"
#include "support/agentstage.h"
#include "support/countrows.h"

#define TEXT_SIZE 1024
#define EVENTS_MAX 10000

static const enum storetest_kind kinds[] = {STORETEST_SQLITE, STORETEST_POSTGRES};
static struct agentstage stage;
static struct tracestage on;
static struct arena arena;

static void begin(enum storetest_kind kind, bool lives)
{
    memset(&stage, 0, sizeof stage);
    stage.lives = lives;
    agentstage_init(&stage, kind, "i0");
    on = agentstage_of(&stage);
    arena_init(&arena, &stage.run.f.t.env, 0);
}

static void finish(void)
{
    graphrun_rest(&stage.run);
    graphrun_check(&stage.run);
    arena_done(&arena);
    agentstage_done(&stage);
}

static void start(const char *id)
{
    (void)snprintf(stage.id, sizeof stage.id, "%s", id);
    assert_int_equal(on.start(&stage, 0, QP_STR("flow"), QP_NONE, QP_STR("{}")), QP_OK);
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int64_t lane(int64_t check, int64_t torture)
{
    return testenv_is_torture() ? torture : check;
}

/* ------------------------------------------------------------------------------------------ readers */

/* Threads that read `decisions` of the instances i0, i1, ... until they are told to stop. */
#define READERS 8

static struct reading {
    pthread_t threads[READERS];
    char path[320];
    int64_t instances;
    atomic_bool stop;
    atomic_llong reads;
    const char *_Atomic wrong;
} reading;

static void judge(const struct qp_env *env, qp_str text)
{
    struct json *tree = NULL;
    const char *wrong = json_build(env, text, NULL, &tree) == QP_OK ? agentagree(tree) : "no JSON";
    if (wrong != NULL) {
        reading.wrong = wrong;
    }
    json_free(tree);
    reading.reads++;
}

static void read_one(qp *q, const struct qp_env *env, uint64_t *random)
{
    char id[32];
    struct buf out;
    struct json_writer w;
    struct qp_err err = {0};
    (void)snprintf(id, sizeof id, "i%llu",
                   (unsigned long long)testenv_random_below(random, (uint64_t)reading.instances));
    buf_init(&out, env, 0);
    json_writer_init(&w, &out);
    int rc = job_view(q, &(struct job_view){.id = str_from(id), .name = "decisions"}, &w, &err);
    if (rc == QP_OK && json_writer_done(&w) == QP_OK) {
        judge(env, buf_slice(&out));
    } else if (rc != QP_E_NOT_FOUND) { /* it has not begun */
        reading.wrong = qp_code_word(rc);
    }
    buf_done(&out);
}

static void *reader(void *context)
{
    struct qp_env env;
    struct qp_options options;
    struct qp_err err = {0};
    uint64_t random = (uint64_t)(uintptr_t)context;
    qp *q = NULL;
    qp_env_init(&env);
    env_complete(&env);
    qp_options_init(&options);
    options.path = reading.path;
    if (qp_open_readonly(&options, &q, &err) != QP_OK) {
        reading.wrong = "the store cannot be opened";
        return NULL;
    }
    while (!reading.stop) {
        read_one(q, &env, &random);
    }
    (void)qp_close(q, &err);
    return NULL;
}

static void readers_begin(int64_t instances)
{
    reading.instances = instances;
    reading.stop = false;
    reading.reads = 0;
    reading.wrong = NULL;
    (void)snprintf(reading.path, sizeof reading.path, "%s", stage.run.f.path);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(
            pthread_create(&reading.threads[i], NULL, reader, (void *)(uintptr_t)(i + 1)), 0);
    }
}

static void readers_stop(void)
{
    reading.stop = true;
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(reading.threads[i], NULL), 0);
    }
    if (reading.wrong != NULL) {
        fail_msg("arrays that disagree: %s", reading.wrong);
    }
    assert_true(reading.reads > 0);
}

/* --------------------------------------------------------------------------- events one after another */

static char text[TEXT_SIZE + 1];

/* handle waits for what never comes; each event writes another KiB of properties. */
static bool takes_events(void *context, struct draft *draft, const struct branch *branch,
                         qp_str *properties)
{
    const struct agent_work never = {.name = QP_STR("_Wait"),
                                     .position = QP_STR("1"),
                                     .type = WORK_WAIT,
                                     .event = QP_STR("never"),
                                     .sync = true};
    struct draft_reply reply;
    (void)context;
    if (branch->call.hook == HOOK_HANDLE) {
        assert_int_equal(draft_execute(draft, &never, 1, NULL, &reply), QP_OK);
        return false;
    }
    if (branch->call.hook == HOOK_EVENT) {
        (void)snprintf(text, sizeof text, "%-*lld", TEXT_SIZE, (long long)draft->index);
        *properties = (qp_str){text, TEXT_SIZE};
    }
    return true;
}

/* Of one event and its decision. */
struct cost {
    struct countrows rows;
    double seconds;
};
static struct cost costs[EVENTS_MAX];

static void one_event(int64_t number, struct cost *out_cost)
{
    char input[24];
    struct countrows before = countrows_now();
    double began = now_s();
    (void)snprintf(input, sizeof input, "%lld", (long long)number);
    assert_int_equal(on.event(&stage, number, QP_STR("E"), str_from(input), NULL), QP_OK);
    assert_int_equal(agentstage_decide(&stage, takes_events, NULL), 1);
    struct countrows after = countrows_now();
    *out_cost =
        (struct cost){{after.read - before.read, after.written - before.written}, now_s() - began};
}

static struct cost sum_of(int64_t first, int64_t end)
{
    struct cost sum = {0};
    for (int64_t i = first; i < end; i++) {
        sum.rows.read += costs[i].rows.read;
        sum.rows.written += costs[i].rows.written;
        sum.seconds += costs[i].seconds;
    }
    return sum;
}

/* Each event is in exactly one onEvent branch, in the order in which they came. */
static void check_events(int64_t count)
{
    const struct instance *s = NULL;
    int64_t met = 0;
    assert_int_equal(on.see(&stage, &arena, &s), QP_OK);
    for (size_t i = 0; i < s->branches_held; i++) {
        const struct branch *branch = &s->branches[i];
        if (branch->call.hook == HOOK_EVENT) {
            char input[24];
            (void)snprintf(input, sizeof input, "%lld", (long long)met++);
            assert_true(str_equal(branch->call.input, str_from(input)));
            assert_true(branch->ended);
        }
    }
    assert_int_equal(met, count);
}

/* Events from 100 on, and the last ones. A turn that begins a chunk of executions writes as many rows as others. */
static void check_costs(const char *store, int64_t count)
{
    int64_t n = lane(40, 1000);
    struct cost first = sum_of(100, 100 + n);
    struct cost last = sum_of(count - n, count);
    print_message("%s: an event and its decision read %.2f rows and write %.2f; of %lld the last "
                  "%lld %.2f and %.2f\n",
                  store, (double)first.rows.read / (double)n,
                  (double)first.rows.written / (double)n, (long long)count, (long long)n,
                  (double)last.rows.read / (double)n, (double)last.rows.written / (double)n);
    assert_true(last.rows.read * 100 <= first.rows.read * 101);
    assert_true(last.rows.written * 100 <= first.rows.written * 101);
}

static void check_times(const char *store)
{
    double first = sum_of(100, 1100).seconds;
    double last = sum_of(9000, 10000).seconds;
    print_message("%s: events 100 to 1,100 take %.3f s, 9,000 to 10,000 %.3f s: %.2f times\n",
                  store, first, last, last / first);
    assert_true(last <= 1.5 * first);
}

static void test_002_events_one_after_another(void **state)
{
    int64_t count = lane(180, EVENTS_MAX);
    (void)state;
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        const char *store = storetest_name(kinds[k]);
        begin(kinds[k], false);
        start("i0");
        while (agentstage_decide(&stage, takes_events, NULL) > 0) {}
        countrows_begin(stage.run.f.s);
        for (int64_t i = 0; i < count; i++) {
            one_event(i, &costs[i]);
        }
        countrows_end(stage.run.f.s);
        check_events(count);
        check_costs(store, count);
        if (count == EVENTS_MAX) {
            check_times(store);
        }
        finish();
    }
}

/* -------------------------------------------------------------------------- events while a decision is out */

/* What one decision took of the burst. */
struct batch {
    int64_t taken;
    int64_t next; /* event */
};

static bool counts_events(void *context, struct draft *draft, const struct branch *branch,
                          qp_str *properties)
{
    struct batch *b = context;
    char input[24];
    if (branch->call.hook == HOOK_EVENT) {
        (void)snprintf(input, sizeof input, "%lld", (long long)b->next++);
        assert_true(str_equal(branch->call.input, str_from(input)));
        b->taken++;
    }
    return takes_events(NULL, draft, branch, properties);
}

static void burst(int64_t count)
{
    struct batch b = {0};
    start("i0");
    graphrun_rest(&stage.run);
    for (int64_t i = 0; i < count; i++) {
        char input[24];
        (void)snprintf(input, sizeof input, "%lld", (long long)i);
        assert_int_equal(on.event(&stage, i, QP_STR("E"), str_from(input), NULL), QP_OK);
    }
    if (count == LIMIT_INSTANCE_BUFFER) {
        assert_int_equal(on.event(&stage, count, QP_STR("E"), QP_NONE, NULL), QP_E_LIMIT);
        assert_int_equal(qp_code_http(QP_E_LIMIT), 429);
    }
    assert_int_equal(agentstage_decide(&stage, counts_events, &b), 1); /* handle */
    while (b.next < count) {
        int64_t wait_starts = b.next == 0; /* beside the first 499 events */
        int64_t left = count - b.next + wait_starts;
        b.taken = wait_starts;
        assert_int_equal(agentstage_decide(&stage, counts_events, &b), 1);
        assert_int_equal(b.taken, left < LIMIT_INSTANCE_BATCH ? left : LIMIT_INSTANCE_BATCH);
    }
    assert_int_equal(agentstage_decide(&stage, counts_events, &b), 0);
    check_events(count);
}

static void test_002_events_while_a_decision_is_out(void **state)
{
    (void)state;
    for (size_t k = 0; k < (testenv_is_torture() ? ARRAY_COUNT(kinds) : 1); k++) {
        begin(kinds[k], false);
        burst(lane(LIMIT_INSTANCE_BATCH + 100, LIMIT_INSTANCE_BUFFER));
        finish();
    }
}

/* ------------------------------------------------------------------------- waits that end in one second */

#define WAIT_MS 60000

static int64_t begun_ms;
static int64_t ended_count;

/* When the wait of instance i<n> ends. */
static int64_t end_of(const char *id)
{
    return begun_ms + WAIT_MS + strtoll(id + 1, NULL, 10) * 7 % 1000;
}

static bool waits(void *context, struct draft *draft, const struct branch *branch,
                  qp_str *properties)
{
    int64_t end_ms = end_of(stage.id);
    struct agent_work work = {.name = QP_STR("_Wait"),
                              .position = QP_STR("1"),
                              .type = WORK_WAIT,
                              .end = WORK_END_AT,
                              .end_ms = end_ms,
                              .sync = true};
    struct draft_reply reply;
    (void)context;
    (void)properties;
    if (branch->call.hook == HOOK_SUCCESS) {
        assert_int_equal(branch->timestamp_ms, end_ms);
        assert_true(stage.run.f.t.now_ms >= end_ms);
        ended_count++;
    }
    if (branch->call.hook != HOOK_HANDLE) {
        return true;
    }
    assert_int_equal(draft_execute(draft, &work, 1, NULL, &reply), QP_OK);
    return reply.status == REPLY_COMPLETED;
}

static void start_all(int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char id[24];
        (void)snprintf(id, sizeof id, "i%lld", (long long)i);
        start(id);
        if (i % 400 == 399 || i == count - 1) {
            while (agentstage_decide(&stage, waits, NULL) > 0) {}
        }
    }
    assert_int_equal(ended_count, 0);
}

/* The clock goes as the wall does where time is judged, else from moment to moment. */
static void let_time_pass(double *last_s)
{
    double now = now_s();
    int64_t ms = lane(10, (int64_t)((now - *last_s) * 1000));
    if (ms > 0) {
        *last_s = now;
        testenv_advance_ms(&stage.run.f.t, ms);
    }
}

/* Returns how long after the first end all have been decided. */
static double until_all_ended(int64_t count)
{
    int64_t first_ms = begun_ms + WAIT_MS;
    testenv_advance_ms(&stage.run.f.t, first_ms - 1 - stage.run.f.t.now_ms);
    assert_int_equal(agentstage_decide(&stage, waits, NULL), 0);
    double began = now_s();
    double last = began;
    while (ended_count < count) {
        let_time_pass(&last);
        (void)agentstage_decide(&stage, waits, NULL);
    }
    return now_s() - began;
}

static void check_all_ended(int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        static const int64_t executions[] = {0, 1, 2, 0};
        const struct instance *s = NULL;
        (void)snprintf(stage.id, sizeof stage.id, "i%lld", (long long)i);
        arena_reset(&arena);
        assert_int_equal(on.see(&stage, &arena, &s), QP_OK);
        assert_true(s->completed);
        assert_int_equal(s->execution_count, ARRAY_COUNT(executions));
        assert_memory_equal(s->executions, executions, sizeof executions);
    }
}

static void test_002_waits_that_end_in_one_second(void **state)
{
    int64_t count = lane(30, 10000);
    (void)state;
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        begin(kinds[k], true);
        begun_ms = stage.run.f.t.now_ms;
        ended_count = 0;
        start_all(count);
        readers_begin(count);
        double seconds = until_all_ended(count);
        readers_stop();
        print_message("%s: %lld instances whose waits end in one second: all decided after %.2f s, "
                      "beside %lld reads of decisions\n",
                      storetest_name(kinds[k]), (long long)count, seconds,
                      (long long)reading.reads);
        assert_int_equal(ended_count, count);
        assert_true(!testenv_is_torture() || seconds <= 10);
        check_all_ended(count);
        finish();
    }
}

/* ---------------------------------------------------------------------------- arrays while they are read */

#define STEP_WORKS 2

/* Step by step a task and a wait for an event; each hook changes the properties. */
static bool mixes(void *context, struct draft *draft, const struct branch *branch,
                  qp_str *properties)
{
    int64_t steps = *(const int64_t *)context;
    (void)snprintf(text, sizeof text, "%lld", (long long)draft->index);
    if (branch->call.hook != HOOK_HANDLE) {
        *properties = str_from(text);
        return true;
    }
    for (int64_t i = 0; i < steps; i++) {
        char positions[STEP_WORKS][32];
        struct agent_work works[STEP_WORKS] = {
            {.name = QP_STR("A"), .sync = true},
            {.name = QP_STR("_Wait"), .type = WORK_WAIT, .event = QP_STR("E"), .sync = true}};
        struct draft_reply reply;
        for (int j = 0; j < STEP_WORKS; j++) {
            (void)snprintf(positions[j], sizeof positions[j], "%lldp%d", (long long)i, j);
            works[j].position = str_from(positions[j]);
        }
        assert_int_equal(draft_execute(draft, works, STEP_WORKS, NULL, &reply), QP_OK);
        if (reply.status != REPLY_COMPLETED) {
            return false;
        }
    }
    return true;
}

static void report(int64_t now_ms, int64_t step, enum hook hook)
{
    char position[32];
    (void)snprintf(position, sizeof position, "%lldp0", (long long)step);
    struct instance_report r = {
        .hook = hook, .position = str_from(position), .output = QP_STR("1")};
    assert_int_equal(on.report(&stage, now_ms, &r), QP_OK);
}

static void test_002_readers(void **state)
{
    int64_t steps = lane(6, 300);
    (void)state;
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        begin(kinds[k], false);
        start("i0");
        readers_begin(1);
        for (int64_t i = 0; i < steps; i++) {
            while (agentstage_decide(&stage, mixes, &steps) > 0) {}
            report(4 * i + 1, i, HOOK_START);
            assert_int_equal(on.event(&stage, 4 * i + 2, QP_STR("E"), QP_NONE, NULL), QP_OK);
            assert_int_equal(agentstage_decide(&stage, mixes, &steps), 1);
            report(4 * i + 3, i, HOOK_SUCCESS);
        }
        while (agentstage_decide(&stage, mixes, &steps) > 0) {}
        readers_stop();
        graphrun_expect(&stage.run, "i0", "completed", "null");
        print_message("%s: %lld steps beside %lld reads of decisions\n", storetest_name(kinds[k]),
                      (long long)steps, (long long)reading.reads);
        finish();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_002_events_one_after_another),
        cmocka_unit_test(test_002_events_while_a_decision_is_out),
        cmocka_unit_test(test_002_waits_that_end_in_one_second),
        cmocka_unit_test(test_002_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
