/* test_jobs.c - starting, reading, waiting for and ending jobs; signals; the host's own writes; input that
 * is refused
 *
 * Under a clock that the test moves, in memory and on a file where that may differ.
 */
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"
#include "run/handle.h"
#include "run/loop.h"
#include "support/runtest.h"

static struct qp_start start_of(const char *id)
{
    return (struct qp_start){
        .topic = QP_STR("work"), .id = id == NULL ? QP_NONE : str_from(id), .input = QP_STR("1")};
}

static void complete_one(qp *q, const char *output)
{
    struct qp_err err = {0};
    qp_task *task;
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_complete(task, str_from(output), &err), QP_OK);
}

/* -------------------------------------------------------------------------------------- start */

/* The same start again is the same job, before and after its end; another input is a conflict, and the
 * sentence says so. Over a restart as well. */
static void test_start_is_idempotent(void **state)
{
    const char *files[] = {NULL, NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct qp_err err = {0};
        struct qp_start start = start_of("a");
        char id[QP_ID_SIZE];
        qp *q;
        rt_begin(RT_VIRTUAL);
        files[1] = rt_path;
        q = rt_open(files[i]);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(qp_job_start(q, &start, id, &err), QP_OK);
            assert_string_equal(id, "a");
            start.input = QP_STR("2");
            assert_int_equal(qp_job_start(q, &start, id, &err), QP_E_CONFLICT);
            assert_non_null(strstr(err.text, "another input"));
            assert_non_null(strstr(err.text, "'a'"));
            start.input = QP_STR("1");
            if (round == 0) {
                complete_one(q, "7");
            } else if (i == 1) {
                rt_close(q);
                q = rt_open(files[i]);
            }
            rt_expect(q, "a", "completed", "7");
        }
        rt_close(q);
        rt_end();
    }
}

/* ------------------------------------------------------------------------------ async starts */

struct heard {
    qp *q;
    int started;
    int ended;
    int code;
    char id[QP_ID_SIZE];
    char status[32];
    int refused; /* calls inside the callback that were refused, as they should be */
    int chained; /* starts from inside */
    struct qp_start *again;
};

/* Everything that would have to wait. */
static int calls_refused(qp *q)
{
    struct qp_err err = {0};
    struct qp_job job;
    struct qp_start start = start_of("never");
    struct qp_worker worker = {.topic = QP_STR("never"), .work = (qp_work)abort};
    qp_task *task;
    int refused = 0;
    refused += qp_job_start(q, &start, NULL, &err) == QP_E_INVALID;
    assert_non_null(strstr(err.text, "callback"));
    refused += qp_job_get(q, QP_STR("a"), &job, &err) == QP_E_INVALID;
    refused += qp_job_wait(q, QP_STR("a"), 1, &job, &err) == QP_E_INVALID;
    refused += qp_job_cancel(q, QP_STR("a"), NULL, &err) == QP_E_INVALID;
    refused += qp_task_claim(q, QP_STR("work"), &task, &err) == QP_E_INVALID;
    refused += qp_worker_add(q, &worker, &err) == QP_E_INVALID;
    refused += qp_poll(q, &err) == QP_E_INVALID;
    refused += qp_run(q, &err) == QP_E_INVALID;
    return refused;
}
#define CALLS_REFUSED 8

static void on_started(void *context, int code, const char *id)
{
    struct heard *h = context;
    h->started++;
    h->code = code;
    (void)snprintf(h->id, sizeof h->id, "%s", id);
    if (h->q != NULL) {
        h->refused += calls_refused(h->q);
    }
    if (h->again != NULL) {
        h->chained += qp_job_start_async(h->q, h->again, NULL) == QP_OK;
    }
}

static void on_ended(void *context, const char *status)
{
    struct heard *h = context;
    h->ended++;
    (void)snprintf(h->status, sizeof h->status, "%s", status);
    if (h->q != NULL) {
        h->refused += calls_refused(h->q);
    }
}

static struct qp_start async_of(const char *id, struct heard *h)
{
    struct qp_start start = start_of(id);
    start.context = h;
    start.started = on_started;
    start.ended = on_ended;
    return start;
}

static void start_async(qp *q, const struct qp_start *start)
{
    struct qp_err err = {0};
    assert_int_equal(qp_job_start_async(q, start, &err), QP_OK);
}

/* New, there and running, there and ended, in conflict: each is told once what is true of it. */
static void test_async_start(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct heard first = {0};
        struct heard running = {0};
        struct heard other = {0};
        struct heard over = {0};
        struct heard nameless = {0};
        struct qp_start start;
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(i == 0 ? NULL : rt_path);
        start = async_of("a", &first);
        start_async(q, &start);
        assert_int_equal(first.started, 0); /* nobody drives */
        rt_poll(q);
        assert_int_equal(first.started, 1);
        assert_int_equal(first.code, QP_OK);
        assert_string_equal(first.id, "a");
        start = async_of("a", &running);
        start_async(q, &start);
        start = async_of("a", &other);
        start.input = QP_STR("2");
        start_async(q, &start);
        start = async_of(NULL, &nameless);
        start_async(q, &start);
        rt_poll(q);
        assert_int_equal(running.code, QP_OK);
        assert_int_equal(other.code, QP_E_CONFLICT);
        assert_int_equal(nameless.code, QP_OK);
        assert_int_equal(strlen(nameless.id), 36);
        complete_one(q, "7");
        assert_int_equal(first.ended, 1);
        assert_string_equal(first.status, "completed");
        assert_int_equal(running.ended, 1);
        assert_string_equal(running.status, "completed");
        start = async_of("a", &over);
        start_async(q, &start);
        rt_poll(q);
        assert_int_equal(over.code, QP_OK);
        assert_int_equal(over.ended, 1);
        assert_string_equal(over.status, "completed");
        assert_int_equal(first.ended + running.ended, 2);
        assert_int_equal(first.started + running.started + other.started + over.started, 4);
        assert_int_equal(other.ended, 0);
        assert_int_equal(nameless.ended, 0); /* it has not; closing does not say so either */
        rt_close(q);
        assert_int_equal(nameless.ended, 0);
        rt_end();
    }
}

/* Every way to end is told by its word. */
static void test_async_ends(void **state)
{
    struct heard cancelled = {0};
    struct heard interrupted = {0};
    struct heard failed = {0};
    struct qp_start start;
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    start = async_of("c", &cancelled);
    start_async(q, &start);
    start = async_of("i", &interrupted);
    start_async(q, &start);
    rt_poll(q);
    assert_int_equal(qp_job_cancel(q, QP_STR("c"), NULL, &err), QP_OK);
    assert_int_equal(qp_job_interrupt(q, QP_STR("i"), NULL, &err), QP_OK);
    start = async_of("f", &failed);
    start_async(q, &start);
    rt_poll(q);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_error(task, &(struct qp_failure){.fatal = 1}, &err), QP_OK);
    assert_string_equal(cancelled.status, "cancelled");
    assert_string_equal(interrupted.status, "interrupted");
    assert_string_equal(failed.status, "failed");
    rt_close(q);
    rt_end();
}

/* In a callback nothing may wait, and a start is allowed; also in those that come while the engine
 * closes. */
static void test_calls_inside_callbacks(void **state)
{
    struct heard told = {0};
    struct heard second = {0};
    struct heard closing = {0};
    struct qp_start start;
    struct qp_start chained;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    told.q = q;
    chained = async_of("b", &second);
    told.again = &chained;
    start = async_of("a", &told);
    start_async(q, &start);
    rt_poll(q);
    assert_int_equal(told.refused, CALLS_REFUSED);
    assert_int_equal(told.chained, 1);
    assert_int_equal(second.started, 1);
    complete_one(q, "1");
    assert_int_equal(told.ended, 1);
    assert_int_equal(told.refused, 2 * CALLS_REFUSED);
    closing.q = q;
    closing.again = &chained;
    start = async_of("z", &closing);
    start_async(q, &start);
    rt_close(q);
    assert_int_equal(closing.started, 1);
    assert_int_equal(closing.code, QP_OK);
    assert_int_equal(closing.refused, CALLS_REFUSED);
    assert_int_equal(closing.chained, 0); /* the engine takes nothing new then */
    rt_end();
}

/* LIMIT_COMMANDS starts wait; one more is refused with the number, and there is room again when they
 * were answered. Those that wait when the engine closes are committed. */
static void test_too_many_wait(void **state)
{
    struct heard h = {0};
    struct qp_start start;
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    start = start_of("same");
    start.context = &h;
    start.started = on_started;
    for (int i = 0; i < LIMIT_COMMANDS; i++) {
        start_async(q, &start);
    }
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_E_LIMIT);
    assert_non_null(strstr(err.text, "65536"));
    /* One turn takes a part of them: the rest still counts. */
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_OK);
    assert_in_range(h.started, LIMIT_ROUND_COMMANDS, LIMIT_COMMANDS);
    for (int room = h.started; room > 0; room--) {
        start_async(q, &start);
    }
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_E_LIMIT);
    rt_close(q);
    assert_in_range(h.started, LIMIT_COMMANDS + LIMIT_ROUND_COMMANDS, 2 * LIMIT_COMMANDS);
    rt_end();
}

/* --------------------------------------------------------------------------------------- wait */

/* A job that has ended is told at once, one that has not after the time; no time is too long to be
 * understood. */
static void test_wait(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp *q;
    (void)state;
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    assert_int_equal(qp_job_wait(q, QP_STR("a"), 0, &job, &err), QP_E_NOT_FOUND);
    rt_start(q, "a");
    assert_int_equal(qp_job_wait(q, QP_STR("a"), 0, &job, &err), QP_E_TIMEOUT);
    assert_int_equal(qp_job_wait(q, QP_STR("a"), 5, &job, &err), QP_E_TIMEOUT);
    assert_non_null(strstr(err.text, "'a'"));
    assert_non_null(strstr(err.text, "in time"));
    complete_one(q, "[2]");
    assert_int_equal(qp_job_wait(q, QP_STR("a"), 0, &job, &err), QP_OK);
    assert_true(str_equal(job.output, QP_STR("[2]")));
    qp_job_done(q, &job);
    assert_int_equal(qp_job_wait(q, QP_STR("a"), INT64_MAX, &job, &err), QP_OK);
    qp_job_done(q, &job);
    assert_int_equal(qp_job_wait(q, QP_STR("a"), -1, &job, &err), QP_OK);
    qp_job_done(q, &job);
    rt_close(q);
    rt_end();
}

/* -------------------------------------------------------------------------------------- ends */

/* Cancelled and interrupted jobs say why, end once, and their tasks are nobody's. */
static void test_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct qp_err err = {0};
        qp_task *task;
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(i == 0 ? NULL : rt_path);
        rt_start(q, "a");
        rt_start(q, "b");
        rt_start(q, "c");
        assert_int_equal(qp_job_cancel(q, QP_STR("a"), "not wanted", &err), QP_OK);
        rt_expect(q, "a", "cancelled", "not wanted");
        assert_int_equal(qp_job_cancel(q, QP_STR("a"), "again", &err), QP_E_CLOSED);
        assert_int_equal(qp_job_interrupt(q, QP_STR("a"), "again", &err), QP_E_CLOSED);
        rt_expect(q, "a", "cancelled", "not wanted");
        assert_int_equal(qp_job_interrupt(q, QP_STR("b"), NULL, &err), QP_OK);
        rt_expect(q, "b", "interrupted", NULL);
        complete_one(q, "3"); /* the third one's task is the only one */
        rt_expect(q, "c", "completed", "3");
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
        assert_int_equal(qp_job_cancel(q, QP_STR("c"), NULL, &err), QP_E_CLOSED);
        assert_int_equal(qp_job_cancel(q, QP_STR("none"), NULL, &err), QP_E_NOT_FOUND);
        assert_non_null(strstr(err.text, "'none'"));
        rt_close(q);
        if (i == 1) {
            rt_check(rt_path, 3);
        }
        rt_end();
    }
}

/* A paused job hands out nothing, before and after a restart, until it is resumed. */
static void test_pause(void **state)
{
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    rt_start(q, "a");
    assert_int_equal(qp_job_pause(q, QP_STR("a"), &err), QP_OK);
    assert_int_equal(qp_job_pause(q, QP_STR("a"), &err), QP_OK);
    rt_expect(q, "a", "paused", NULL);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    rt_close(q);
    q = rt_open(rt_path);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    assert_int_equal(qp_job_resume(q, QP_STR("a"), &err), QP_OK);
    rt_expect(q, "a", "running", NULL);
    complete_one(q, "1");
    rt_expect(q, "a", "completed", "1");
    assert_int_equal(qp_job_pause(q, QP_STR("none"), &err), QP_E_NOT_FOUND);
    assert_int_equal(qp_job_resume(q, QP_STR("none"), &err), QP_E_NOT_FOUND);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* A task that nobody answers, delivery after delivery, parks its job; a retry sets it free. */
static void test_parked(void **state)
{
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open_as(rt_path, NULL, 2);
    rt_start(q, "a");
    assert_int_equal(qp_job_retry(q, QP_STR("a"), &err), QP_E_CONFLICT);
    assert_int_equal(qp_job_retry(q, QP_STR("none"), &err), QP_E_NOT_FOUND);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
        assert_int_equal(qp_task_attempt(task), i + 1);
        rt_close(q); /* whoever had it is gone */
        q = rt_open_as(rt_path, NULL, 2);
    }
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    rt_expect(q, "a", "parked", "delivered too often without an answer: it may crash its worker");
    assert_non_null(strstr(testenv_log(&rt), "msg=\"a job is parked: it needs a person\" job=a"));
    assert_int_equal(qp_job_retry(q, QP_STR("a"), &err), QP_OK);
    rt_expect(q, "a", "running", NULL);
    complete_one(q, "1");
    rt_expect(q, "a", "completed", "1");
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* Tasks come by priority, and among equals in the order of their starts. */
static void test_priority(void **state)
{
    static const int priorities[] = {9, 0, 5, 0, 9, 5, 1};
    static const char *const order[] = {"1", "3", "6", "2", "5", "0", "4"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct qp_err err = {0};
        qp_task *task;
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(i == 0 ? NULL : rt_path);
        for (size_t j = 0; j < ARRAY_COUNT(priorities); j++) {
            char id[8];
            struct qp_start start;
            (void)snprintf(id, sizeof id, "%zu", j);
            start = start_of(id);
            start.priority = priorities[j];
            rt_start_with(q, &start);
        }
        for (size_t j = 0; j < ARRAY_COUNT(order); j++) {
            assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
            assert_true(str_equal(qp_task_job(task), str_from(order[j])));
            assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
        }
        rt_close(q);
        rt_end();
    }
}

/* ------------------------------------------------------------------------------------ signals */

static int count_one(void *context, const void *row)
{
    (void)row;
    (*(int64_t *)context)++;
    return QP_OK;
}

static int64_t kept_signals(qp *q)
{
    struct scan all = {.table = TABLE_hook_sig, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    int64_t count = 0;
    assert_int_equal(store_scan(q->store, &all, &count, count_one, &err), QP_OK);
    return count;
}

/* Nobody waits: a signal is kept, one with the same id is refused while the first is there, one without an
 * id is always another; after their time they are gone. */
static void test_signals_are_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct qp_signal s = {.topic = QP_STR("paid"),
                              .key = QP_STR("order 1"),
                              .payload = QP_STR("{}"),
                              .id = QP_STR("once"),
                              .ttl_ms = 1000};
        struct qp_err err = {0};
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(i == 0 ? NULL : rt_path);
        assert_int_equal(qp_signal_send(q, &s, &err), QP_OK);
        assert_int_equal(qp_signal_send(q, &s, &err), QP_E_EXISTS);
        assert_int_equal(kept_signals(q), 1);
        s.id = QP_STR("twice");
        assert_int_equal(qp_signal_send(q, &s, &err), QP_OK);
        s.id = QP_NONE;
        s.ttl_ms = 0; /* a week */
        assert_int_equal(qp_signal_send(q, &s, &err), QP_OK);
        assert_int_equal(qp_signal_send(q, &s, &err), QP_OK);
        assert_int_equal(kept_signals(q), 4);
        testenv_advance_ms(&rt, 1001);
        rt_poll(q);
        assert_int_equal(kept_signals(q), 2);
        testenv_advance_ms(&rt, LIMIT_SIGNAL_TTL_MS);
        rt_poll(q);
        assert_int_equal(kept_signals(q), 0);
        rt_close(q);
        rt_end();
    }
}

/* ------------------------------------------------------------------------------------- host */

static int run_sql(void *context, void *native)
{
    const char *sql = context;
    return sqlite3_exec(native, sql, NULL, NULL, NULL) == SQLITE_OK ? QP_OK : QP_E_IO;
}

static int refuse(void *context, void *native)
{
    (void)run_sql(context, native);
    return QP_E_LIMIT;
}

static int count_rows(void *context, void *native)
{
    sqlite3_stmt *select = NULL;
    int *out = context;
    *out = -1;
    if (sqlite3_prepare_v2(native, "SELECT count(*) FROM host", -1, &select, NULL) == SQLITE_OK &&
        sqlite3_step(select) == SQLITE_ROW) {
        *out = sqlite3_column_int(select, 0);
    }
    (void)sqlite3_finalize(select);
    return *out < 0 ? QP_E_IO : QP_OK;
}

static void expect_rows(qp *q, int expected)
{
    struct qp_err err = {0};
    int count = -1;
    assert_int_equal(qp_exec(q, count_rows, &count, &err), QP_OK);
    assert_int_equal(count, expected);
}

static char create[] = "CREATE TABLE host(x)";
static char insert[] = "INSERT INTO host VALUES(1)";
static char wrong[] = "INSERT INTO qp_job SELECT * FROM qp_job";

/* qp_exec commits what its function wrote, over a restart; what it refuses, and what touches the
 * engine's tables, leaves nothing. */
static void test_exec(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    assert_int_equal(qp_exec(q, run_sql, create, &err), QP_OK);
    assert_int_equal(qp_exec(q, run_sql, insert, &err), QP_OK);
    expect_rows(q, 1);
    assert_int_equal(qp_exec(q, refuse, insert, &err), QP_E_ABORTED);
    assert_int_equal(qp_exec(q, run_sql, wrong, &err), QP_E_ABORTED);
    expect_rows(q, 1);
    assert_int_equal(qp_exec(q, NULL, NULL, &err), QP_E_INVALID);
    rt_close(q);
    q = rt_open(rt_path);
    expect_rows(q, 1);
    rt_close(q);
    rt_end();
}

/* The host's row and the start are one commit: refused, neither is there; started again, the row is not
 * written twice. */
static void test_start_with_host_writes(void **state)
{
    struct qp_err err = {0};
    struct qp_job job;
    struct qp_start start = start_of("a");
    struct heard h = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    assert_int_equal(qp_exec(q, run_sql, create, &err), QP_OK);
    start.tx = refuse;
    start.tx_context = insert;
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_E_ABORTED);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_E_NOT_FOUND);
    expect_rows(q, 0);
    start.context = &h;
    start.started = on_started;
    start_async(q, &start);
    rt_poll(q);
    assert_int_equal(h.code, QP_E_ABORTED);
    start.tx = run_sql;
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_OK);
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_OK);
    expect_rows(q, 1);
    rt_expect(q, "a", "running", NULL);
    rt_close(q);
    rt_check(rt_path, 1);
    rt_end();
}

/* -------------------------------------------------------------------------------- bad input */

static char long_text[5000];

/* Every parameter of a start: the code, and what the sentence names. */
static void test_bad_starts(void **state)
{
    const qp_str large = {long_text, LIMIT_PAYLOAD_SIZE + 1}; /* never read: its size is enough */
    const struct {
        struct qp_start start;
        int rc;
        const char *names;
        const char *limit;
    } cases[] = {
        {{.topic = QP_NONE, .input = QP_STR("1")}, QP_E_INVALID, "topic", ""},
        {{.topic = QP_STR(""), .input = QP_STR("1")}, QP_E_INVALID, "topic", ""},
        {{.topic = QP_STR("a b"), .input = QP_STR("1")}, QP_E_INVALID, "topic", "0x20"},
        {{.topic = QP_STR("quipu:engine"), .input = QP_STR("1")}, QP_E_INVALID, "topic", "quipu:"},
        {{.topic = {long_text, 256}, .input = QP_STR("1")}, QP_E_TOO_LARGE, "topic", "255"},
        {{.id = QP_STR(""), .input = QP_STR("1")}, QP_E_INVALID, "job id", ""},
        {{.id = QP_STR(" a"), .input = QP_STR("1")}, QP_E_INVALID, "job id", "white space"},
        {{.id = QP_STR("a\nb"), .input = QP_STR("1")}, QP_E_INVALID, "job id", "control"},
        {{.id = QP_STR("\xff"), .input = QP_STR("1")}, QP_E_INVALID, "job id", "UTF-8"},
        {{.id = {long_text, 256}, .input = QP_STR("1")}, QP_E_TOO_LARGE, "job id", "255"},
        {{.input = QP_NONE}, QP_E_MALFORMED, "input", ""},
        {{.input = QP_STR("{")}, QP_E_MALFORMED, "input", ""},
        {{.input = large}, QP_E_TOO_LARGE, "input", "2097152"},
        {{.input = QP_STR("1"), .priority = 10}, QP_E_INVALID, "priority", "0 and 9"},
        {{.input = QP_STR("1"), .priority = -1}, QP_E_INVALID, "priority", "0 and 9"},
        {{.input = QP_STR("1"), .retry.attempts = -1}, QP_E_INVALID, "attempts", "1000000000"},
        {{.input = QP_STR("1"), .retry.attempts = 1000000001}, QP_E_INVALID, "attempts", ""},
        {{.input = QP_STR("1"), .retry.backoff_ms = -1}, QP_E_INVALID, "backoff_ms", "ten years"},
        {{.input = QP_STR("1"), .retry.backoff_ms = INT64_MAX}, QP_E_INVALID, "backoff_ms", ""},
        {{.input = QP_STR("1"), .retry.cap_ms = -1}, QP_E_INVALID, "cap_ms", "ten years"},
        {{.input = QP_STR("1"), .retry.cap_ms = INT64_MAX}, QP_E_INVALID, "cap_ms", ""},
        {{.input = QP_STR("1"), .retry.factor = 0.5}, QP_E_INVALID, "factor", "1 to 1000"},
        {{.input = QP_STR("1"), .retry.factor = 1001}, QP_E_INVALID, "factor", "1 to 1000"},
        {{.input = QP_STR("1"), .retry.factor = -1}, QP_E_INVALID, "factor", ""},
        {{.input = QP_STR("1"), .retry.factor = NAN}, QP_E_INVALID, "factor", ""},
    };
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_start start = cases[i].start;
        struct qp_err err = {0};
        struct qp_err async = {0};
        start.topic = i < 5 ? start.topic : QP_STR("work");
        assert_int_equal(qp_job_start(q, &start, NULL, &err), cases[i].rc);
        assert_int_equal(qp_job_start_async(q, &start, &async), cases[i].rc);
        assert_non_null(strstr(err.text, cases[i].names));
        assert_non_null(strstr(err.text, cases[i].limit));
        assert_string_equal(err.text, async.text);
        assert_int_equal(err.code, cases[i].rc);
    }
    rt_close(q);
    rt_end();
}

/* The largest policy that is taken at the start is understood when the task fails. */
static void test_largest_policy(void **state)
{
    struct qp_start start = start_of("a");
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    start.retry = (struct qp_retry){.attempts = 1000000000,
                                    .backoff_ms = LIMIT_TIMER_MS,
                                    .factor = 1000,
                                    .cap_ms = LIMIT_TIMER_MS};
    rt_start_with(q, &start);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_error(task, &(struct qp_failure){.message = "x"}, &err), QP_OK);
    rt_expect(q, "a", "retrying", NULL);
    rt_close(q);
    rt_end();
}

static void test_bad_signals(void **state)
{
    const qp_str good = QP_STR("x");
    const qp_str json = QP_STR("1");
    const qp_str large = {long_text, LIMIT_PAYLOAD_SIZE + 1};
    const struct {
        struct qp_signal signal;
        int rc;
        const char *names;
        const char *limit;
    } cases[] = {
        {{.topic = QP_NONE, .key = good, .payload = json}, QP_E_INVALID, "topic", ""},
        {{.topic = QP_STR("a b"), .key = good, .payload = json}, QP_E_INVALID, "topic", "0x20"},
        {{.topic = good, .key = QP_NONE, .payload = json}, QP_E_NOT_FOUND, "key", "hook"},
        {{.topic = good, .key = QP_STR(""), .payload = json}, QP_E_INVALID, "key", ""},
        {{.topic = good, .key = good, .payload = json, .code = 600}, QP_E_INVALID, "code", "599"},
        {{.topic = good, .key = {long_text, 256}, .payload = json}, QP_E_TOO_LARGE, "key", "255"},
        {{.topic = good, .key = good, .payload = QP_STR("x")}, QP_E_MALFORMED, "payload", ""},
        {{.topic = good, .key = good, .payload = large}, QP_E_TOO_LARGE, "payload", "2097152"},
        {{.topic = good, .key = good, .payload = json, .id = QP_STR("")}, QP_E_INVALID, "id", ""},
        {{.topic = good, .key = good, .payload = json, .ttl_ms = -1}, QP_E_INVALID, "ttl_ms", "0"},
        {{.topic = good, .key = good, .payload = json, .ttl_ms = LIMIT_TIMER_MS + 1},
         QP_E_INVALID,
         "ttl_ms",
         "ten years"},
    };
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};
        assert_int_equal(qp_signal_send(q, &cases[i].signal, &err), cases[i].rc);
        assert_non_null(strstr(err.text, "signal"));
        assert_non_null(strstr(err.text, cases[i].names));
        assert_non_null(strstr(err.text, cases[i].limit));
    }
    assert_int_equal(kept_signals(q), 0);
    rt_close(q);
    rt_end();
}

static int nothing(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    return QP_OK;
}

static void test_bad_workers(void **state)
{
    const struct {
        struct qp_worker worker;
        const char *names;
        const char *limit;
    } cases[] = {
        {{.topic = QP_NONE, .work = nothing}, "topic", ""},
        {{.topic = QP_STR("a b"), .work = nothing}, "topic", "0x20"},
        {{.topic = QP_STR("quipu:engine"), .work = nothing}, "topic", "quipu:"},
        {{.topic = QP_STR("x")}, "function", ""},
        {{.topic = QP_STR("x"), .work = nothing, .lease_ms = -1}, "lease_ms", "24 h"},
        {{.topic = QP_STR("x"), .work = nothing, .lease_ms = LIMIT_LEASE_MS + 1}, "lease_ms", ""},
        {{.topic = QP_STR("x"), .work = nothing, .in_hand = -1}, "in_hand", "65536"},
        {{.topic = QP_STR("x"), .work = nothing, .in_hand = 65537}, "in_hand", "65536"},
    };
    struct qp_err err = {0};
    qp_task *task;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(qp_worker_add(q, &cases[i].worker, &err), QP_E_INVALID);
        assert_non_null(strstr(err.text, cases[i].names));
        assert_non_null(strstr(err.text, cases[i].limit));
    }
    assert_int_equal(qp_task_claim(q, QP_STR("quipu:engine"), &task, &err), QP_E_INVALID);
    assert_int_equal(qp_task_claim(q, QP_STR(""), &task, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "topic"));
    rt_close(q);
    rt_end();
}

/* Ids and reasons of every call that takes one. */
static void test_bad_ids(void **state)
{
    const qp_str bad[] = {
        QP_NONE, QP_STR(""), {long_text, 256}, QP_STR("\xff\xfe"), QP_STR("a\x01")};
    qp *q;
    struct qp_err err = {0};
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        const int rc = i == 2 ? QP_E_TOO_LARGE : QP_E_INVALID;
        struct qp_job job;
        assert_int_equal(qp_job_get(q, bad[i], &job, &err), rc);
        assert_non_null(strstr(err.text, "job id"));
        assert_int_equal(qp_job_wait(q, bad[i], 0, &job, &err), rc);
        assert_int_equal(qp_job_cancel(q, bad[i], NULL, &err), rc);
        assert_int_equal(qp_job_interrupt(q, bad[i], NULL, &err), rc);
        assert_int_equal(qp_job_pause(q, bad[i], &err), rc);
        assert_int_equal(qp_job_resume(q, bad[i], &err), rc);
        assert_int_equal(qp_job_retry(q, bad[i], &err), rc);
        assert_non_null(strstr(err.text, "job id"));
    }
    rt_start(q, "a");
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), long_text, &err), QP_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "4096"));
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), "\xff", &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "reason"));
    rt_expect(q, "a", "running", NULL);
    rt_close(q);
    rt_end();
}

/* Without chance no id can be made: an error with a sentence, and nothing started. */
static void test_without_entropy(void **state)
{
    struct qp_start start = start_of(NULL);
    struct qp_signal signal = {.topic = QP_STR("x"), .key = QP_STR("y"), .payload = QP_STR("1")};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    rt.entropy_rc = QP_E_IO;
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_E_IO);
    assert_non_null(strstr(err.text, "no id"));
    err.text[0] = '\0';
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_E_IO);
    assert_non_null(strstr(err.text, "no id"));
    err.text[0] = '\0';
    assert_int_equal(qp_signal_send(q, &signal, &err), QP_E_IO);
    assert_non_null(strstr(err.text, "no id"));
    rt.entropy_rc = QP_OK;
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_is_idempotent),
        cmocka_unit_test(test_async_start),
        cmocka_unit_test(test_async_ends),
        cmocka_unit_test(test_calls_inside_callbacks),
        cmocka_unit_test(test_too_many_wait),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_parked),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_signals_are_kept),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_start_with_host_writes),
        cmocka_unit_test(test_bad_starts),
        cmocka_unit_test(test_largest_policy),
        cmocka_unit_test(test_bad_signals),
        cmocka_unit_test(test_bad_workers),
        cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_without_entropy),
    };
    memset(long_text, 'x', sizeof long_text - 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
