/* test_outside.c - messages that an application put into the engine's stream, on every provider
 *
 * The functions that write them are PostgreSQL's (test_pg_functions.c); what an engine makes of the
 * messages is the same everywhere, so they are written here by ops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernel/outside.h"
#include "kernel/single.h"
#include "support/enginetest.h"

static const struct actor cast[] = {
    {.name = "trigger", .category = 'D', .next = "wait"},
    {.name = "wait", .category = 'A', .deed = DEED_HOOK, .topic = "news", .key = "k"},
    {0}};

static struct enginetest x;

static void begin(enum storetest_kind kind, bool stepwise)
{
    enginetest_init(&x, kind, cast);
    x.programs[1] = &single_program;
    x.options.program_count = 2;
    x.options.stepwise = stepwise;
}

/* Fused and stepwise, on every provider that needs no server. */
static void on_each(void (*test)(void))
{
    for (int i = 0; i < 2 * STORETEST_KINDS; i++) {
        begin((enum storetest_kind)(i / 2), i % 2 == 1);
        test();
        enginetest_done(&x);
    }
}

/* The signal's payload, into its parts; or not. */
static void test_signal_parse(void **state)
{
    static const struct {
        const char *text;
        qp_ms ttl_ms; /* 0: it is refused */
        const char *key;
        const char *payload;
        bool has_id;
    } cases[] = {
        {"60000 3\nkey{}", 60000, "key", "{}", false},
        {"1 0\n1", 1, "", "1", false},
        {"60000 3 id\nkey{}", 60000, "key", "{}", true},
        {"60000 3 id", 0, NULL, NULL, false},
        {"60000 3 ib\nkey{}", 0, NULL, NULL, false},
        {"60000 3id\nkey{}", 0, NULL, NULL, false},
        {"315619200000 1\n12", 315619200000, "1", "2", false},
        {"315619200001 1\n12", 0, NULL, NULL, false},
        {"99999999999999999999999 1\n12", 0, NULL, NULL, false},
        {"1 99999999999999999999999\n12", 0, NULL, NULL, false},
        {"0 1\n12", 0, NULL, NULL, false},
        {"1 3\n12", 0, NULL, NULL, false},
        {"1 256\n", 0, NULL, NULL, false},
        {"-1 1\n12", 0, NULL, NULL, false},
        {" 1 1\n12", 0, NULL, NULL, false},
        {"1  1\n12", 0, NULL, NULL, false},
        {"1 1", 0, NULL, NULL, false},
        {"1 1 \n12", 0, NULL, NULL, false},
        {"1\n12", 0, NULL, NULL, false},
        {"1 ", 0, NULL, NULL, false},
        {"", 0, NULL, NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct outside_signal s = {.ttl_ms = -1};
        int rc = outside_signal_parse(str_from(cases[i].text), &s);
        assert_int_equal(rc, cases[i].ttl_ms > 0 ? QP_OK : QP_E_MALFORMED);
        assert_int_equal(s.ttl_ms, cases[i].ttl_ms > 0 ? cases[i].ttl_ms : -1);
        if (rc == QP_OK) {
            assert_true(str_equal(s.key, str_from(cases[i].key)));
            assert_true(str_equal(s.payload, str_from(cases[i].payload)));
            assert_int_equal(s.has_id, cases[i].has_id);
        }
    }
}

/* What quipu.start writes: the job, and its START. */
static void write_start(int64_t number, const char *jid, const char *input)
{
    unsigned char body[LIMIT_GUID_SIZE];
    unsigned char owner[LIMIT_GUID_SIZE];
    struct op ops[] = {{.kind = OP_job_create,
                        .job_create = {.ref = {STORE_NS_DEFAULT, number},
                                       .jid = str_from(jid),
                                       .kind = SINGLE_KIND,
                                       .workflow = QP_STR("t"),
                                       .owner_guid = {(const char *)owner, sizeof owner},
                                       .body_hash = {(const char *)body, sizeof body}}},
                       {.kind = OP_msg_put,
                        .msg_put = {.ref = {STORE_NS_DEFAULT, number},
                                    .guid = {(const char *)owner, sizeof owner},
                                    .kind = MESSAGE_START,
                                    .topic = ENGINE_TOPIC,
                                    .addr = TRIGGER_ADDRESS,
                                    .payload = str_from(input)}}};
    hash_guid("t", 1, input, strlen(input), body);
    hash_guid(jid, strlen(jid), body, sizeof body, owner);
    assert_int_equal(storetest_bundle(&x.f, ops, ARRAY_COUNT(ops), NULL), QP_OK);
}

static int64_t reserve(void)
{
    struct op op = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
    assert_int_equal(storetest_op(&x.f, &op), QP_OK);
    return op.ids_reserve.out_first;
}

/* A job that has its row and its START only is begun by whoever delivers that: a crash after any round
 * leaves a sound store, and the job is done once. */
static void start_is_resumed(void)
{
    int64_t job = reserve();
    write_start(job, "a", "{\"n\":1}");
    for (int rounds = 0; rounds < 6; rounds++) {
        struct qp_err err = {0};
        bool busy = true;
        if (x.e == NULL) {
            enginetest_open(&x);
        } else {
            enginetest_crash(&x);
        }
        enginetest_check(&x);
        for (int i = 0; i < rounds && busy; i++) {
            assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
        }
    }
    enginetest_settle(&x);
    assert_true(str_equal(enginetest_task(&x, "a", NULL)->input, QP_STR("{\"n\":1}")));
    assert_int_equal(enginetest_work(&x), 1);
    assert_int_equal(enginetest_job(&x, job)->state, JOB_COMPLETED);
    assert_int_equal(x.ended, 1);
    assert_null(enginetest_message(&x, job));
}

static void test_start_is_resumed(void **state)
{
    (void)state;
    on_each(start_is_resumed);
}

/* A job that is ended before it was begun has ended: its START is gone, nothing was opened, and who starts it
 * again is told that it is there. */
static void end_before_begin(void)
{
    struct request_start again;
    int64_t job = reserve();
    struct op pause = {.kind = OP_job_pause, .job_pause.ref = {STORE_NS_DEFAULT, job}};
    write_start(job, "a", "{}");
    assert_int_equal(storetest_op(&x.f, &pause), QP_OK); /* so that nobody begins it */
    enginetest_open(&x);
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_OK);
    assert_int_equal(enginetest_job(&x, job)->state, JOB_CANCELLED);
    assert_int_equal(enginetest_job(&x, job)->opened, 0);
    assert_int_equal(enginetest_job(&x, job)->completions, 1);
    assert_null(enginetest_message(&x, job));
    enginetest_fill_start(&x, &again, "a", "{}");
    again.start.job.kind = SINGLE_KIND;
    again.start.job.workflow = QP_STR("t");
    assert_int_equal(enginetest_ask(&x, &again.command), QP_E_EXISTS);
    assert_null(x.tasks);
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_E_CLOSED);
    assert_int_equal(x.ended, 1);
}

static void test_end_before_begin(void **state)
{
    (void)state;
    on_each(end_before_begin);
}

/* A START or RESULT that is not JSON is a dead letter after one delivery, and its job is parked. */
static void malformed_is_a_dead_letter(void)
{
    int64_t job = reserve();
    write_start(job, "a", "{\"n\":");
    enginetest_open(&x);
    enginetest_settle(&x);
    assert_int_equal(enginetest_message(&x, job)->state, MSG_DEAD);
    assert_int_equal(enginetest_job(&x, job)->status, STATUS_PARKED);
    assert_int_equal(engine_stats(x.e).dead_letters, 1);
    enginetest_check(&x);
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_OK);
    assert_null(enginetest_message(&x, job));
}

static void test_malformed_is_a_dead_letter(void **state)
{
    (void)state;
    on_each(malformed_is_a_dead_letter);
}

static void write_signal(unsigned guid, const char *payload)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {STORE_NS_DEFAULT, 0},
                                .owner = OWNER_SYSTEM,
                                .guid = storetest_guid(guid),
                                .kind = MESSAGE_SIGNAL,
                                .topic = ENGINE_TOPIC,
                                .addr = QP_STR("news"),
                                .payload = str_from(payload)}};
    assert_int_equal(storetest_op(&x.f, &op), QP_OK);
}

/* A signal is kept once, however often it comes, and wakes who waits; a malformed one does nothing. */
static void signals_arrive(void)
{
    write_signal(1, "60000 1\nk1");
    write_signal(9, "60000 1\nk[");
    enginetest_open(&x);
    enginetest_settle(&x);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    write_signal(1, "60000 1\nk1");
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    assert_int_equal(storetest_count(&x.f, TABLE_msg), 1); /* the dead letter */
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    enginetest_settle(&x);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    assert_int_equal(enginetest_start(&x, "b"), QP_OK);
    enginetest_settle(&x);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_OPEN);
    write_signal(2, "60000 1\nk2");
    enginetest_crash(&x);
    enginetest_settle(&x);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    assert_int_equal(x.ended, 2);
}

static void test_signals_arrive(void **state)
{
    (void)state;
    on_each(signals_arrive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signal_parse),     cmocka_unit_test(test_start_is_resumed),
        cmocka_unit_test(test_end_before_begin), cmocka_unit_test(test_malformed_is_a_dead_letter),
        cmocka_unit_test(test_signals_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
