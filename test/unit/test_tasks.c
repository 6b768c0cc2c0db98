/* test_tasks.c - what a worker's function says, and what becomes of it
 *
 * The engine is driven by qp_poll under a clock that the test moves: nothing here depends on time.
 * Every case runs in memory and on a file.
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
#include "support/runtest.h"

/* What a scripted function does, and what it saw. */
struct script {
    int rc;             /* what it returns */
    const char *output; /* given to qp_task_output first */
    int output_rc;      /* what that must answer */
    const struct qp_failure *failure;
    int fail_times; /* it fails so often, then brings the output */
    qp_tx tx;
    void *tx_context;
    int calls;
    int64_t attempts[16];
    qp_ms at[16];
    char keys[16][QP_TASK_KEY_SIZE];
};

static int play(void *context, qp_task *task)
{
    struct script *s = context;
    int call = s->calls++;
    QP_ASSERT(call < 16);
    s->attempts[call] = qp_task_attempt(task);
    s->at[call] = rt.now_ms;
    qp_task_key(task, s->keys[call]);
    if (s->failure != NULL && (s->fail_times == 0 || call < s->fail_times)) {
        return qp_task_fail(task, s->failure);
    }
    if (s->tx != NULL) {
        qp_task_tx(task, s->tx, s->tx_context);
    }
    if (s->output != NULL) {
        int rc = qp_task_output(task, str_from(s->output));
        assert_int_equal(rc, s->output_rc);
    }
    return s->rc;
}

static const char *file; /* of this round: NULL, in memory, or rt_path */

/* Runs a test twice: in memory and on a file; afterwards nothing leaks and the file is sound. */
static void on_both(void (*test)(qp *q), int64_t jobs)
{
    for (int i = 0; i < 2; i++) {
        qp *q;
        rt_begin(RT_VIRTUAL);
        file = i == 0 ? NULL : rt_path;
        q = rt_open(file);
        test(q);
        rt_close(q);
        if (i == 1) {
            rt_check(rt_path, jobs);
        }
        rt_end();
    }
}

/* ------------------------------------------------------------------------------------- results */

static void results(qp *q)
{
    struct qp_failure fatal = {.message = "no such account", .code = 404, .fatal = 1};
    struct qp_failure silent = {.code = 410, .fatal = 1};
    struct script scripts[] = {
        {.output = "{\"a\":[1,2]}"},
        {.output = NULL},
        {.failure = &fatal},
        {.failure = &silent},
        {.output = "{\"a\":", .output_rc = QP_E_MALFORMED, .rc = QP_OK},
        {.output = "nonsense", .output_rc = QP_E_MALFORMED, .rc = QP_E_MALFORMED},
    };
    static const struct {
        const char *status;
        const char *text;
    } expected[] = {
        {"completed", "{\"a\":[1,2]}"},
        {"completed", "null"},
        {"failed", NULL},
        {"failed", NULL},
        {"failed", NULL},
        {"failed", NULL},
    };
    char name[16];
    for (size_t i = 0; i < ARRAY_COUNT(scripts); i++) {
        (void)snprintf(name, sizeof name, "t%zu", i);
        rt_worker(q, name, play, &scripts[i]);
        rt_start_with(q, &(struct qp_start){
                             .topic = str_from(name), .id = str_from(name), .input = QP_STR("1")});
    }
    rt_poll(q);
    for (size_t i = 0; i < ARRAY_COUNT(scripts); i++) {
        (void)snprintf(name, sizeof name, "t%zu", i);
        rt_expect(q, name, expected[i].status, expected[i].text);
        assert_int_equal(scripts[i].calls, 1);
    }
}

/* An output, none, a failure for good with and without words, and outputs that are no JSON, whatever the
 * function returns afterwards: each once, each as told. */
static void test_results(void **state)
{
    (void)state;
    on_both(results, 6);
}

static char *large; /* a JSON string of one byte more than is allowed */

static int bring_large(void *context, qp_task *task)
{
    bool pending = context != NULL;
    struct qp_err err = {0};
    int rc = pending ? qp_task_pending(task, (qp_str){large, LIMIT_PAYLOAD_SIZE + 1}, &err)
                     : qp_task_output(task, (qp_str){large, LIMIT_PAYLOAD_SIZE + 1});
    assert_int_equal(rc, QP_E_TOO_LARGE);
    return pending ? QP_OK : rc;
}

static void too_large(qp *q)
{
    struct qp_job job;
    struct qp_err err = {0};
    rt_worker(q, "last", bring_large, NULL);
    rt_worker(q, "pending", bring_large, q);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("last"), .id = QP_STR("a"), .input = QP_STR("1")});
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("pending"), .id = QP_STR("b"), .input = QP_STR("1")});
    rt_poll(q);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
    assert_string_equal(job.status, "failed");
    assert_non_null(memmem(job.error.p, job.error.n, "the limit is 2097152", 20));
    qp_job_done(q, &job);
    rt_expect(q, "b", "completed", "null");
}

/* More than the limit is refused with a sentence that names it; a refused pending output changes
 * nothing. */
static void test_too_large(void **state)
{
    (void)state;
    large = malloc(LIMIT_PAYLOAD_SIZE + 1);
    assert_non_null(large);
    memset(large, 'x', LIMIT_PAYLOAD_SIZE + 1);
    large[0] = large[LIMIT_PAYLOAD_SIZE] = '"';
    on_both(too_large, 2);
    free(large);
}

static int return_code(void *context, qp_task *task)
{
    (void)task;
    return *(const int *)context;
}

static void codes(qp *q)
{
    int rc = QP_E_NOT_FOUND;
    struct qp_job job;
    struct qp_err err = {0};
    rt_worker(q, "work", return_code, &rc);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("a"),
                                        .input = QP_STR("1"),
                                        .retry = {.attempts = 2, .backoff_ms = 10}});
    rt_poll(q);
    rt_expect(q, "a", "retrying", NULL);
    testenv_advance_ms(&rt, 10);
    rt_poll(q);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
    assert_string_equal(job.status, "failed");
    assert_non_null(memmem(job.error.p, job.error.n, "not found", 9));
    assert_non_null(memmem(job.error.p, job.error.n, "500", 3));
    qp_job_done(q, &job);
}

/* A function that returns a code and says nothing has failed with the code's sentence, as code 500, and
 * is tried again. */
static void test_a_code_without_words(void **state)
{
    (void)state;
    on_both(codes, 1);
}

/* ------------------------------------------------------------------------------------- retries */

static void backoff(qp *q)
{
    struct qp_failure failure = {.message = "busy", .code = 503};
    struct script s = {.failure = &failure};
    static const qp_ms waits[] = {100, 300, 500, 500}; /* times 3, at most 500 */
    struct qp_job job;
    struct qp_err err = {0};
    rt_worker(q, "work", play, &s);
    rt_start_with(q, &(struct qp_start){
                         .topic = QP_STR("work"),
                         .id = QP_STR("a"),
                         .input = QP_STR("1"),
                         .retry = {.attempts = 5, .backoff_ms = 100, .factor = 3, .cap_ms = 500}});
    rt_poll(q);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s.calls, i + 1);
        assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
        assert_string_equal(job.status, "retrying");
        assert_int_equal(job.failures, i + 1);
        assert_int_equal(job.open, 1);
        qp_job_done(q, &job);
        testenv_advance_ms(&rt, waits[i] - 1);
        rt_poll(q);
        assert_int_equal(s.calls, i + 1);
        assert_int_equal(qp_next_deadline(q), 1);
        testenv_advance_ms(&rt, 1);
        rt_poll(q);
    }
    assert_int_equal(s.calls, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(s.attempts[i], i + 1);
        assert_string_equal(s.keys[i], s.keys[0]);
    }
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
    assert_string_equal(job.status, "failed");
    assert_non_null(memmem(job.error.p, job.error.n, "busy", 4));
    assert_non_null(memmem(job.error.p, job.error.n, "503", 3));
    assert_int_equal(job.open, 0);
    qp_job_done(q, &job);
}

/* The waits grow by the factor up to the cap, not a millisecond less; after the last attempt the job has
 * failed, and says why; the key is the same for all attempts. */
static void test_backoff(void **state)
{
    (void)state;
    on_both(backoff, 1);
}

static void defaults(qp *q)
{
    struct qp_failure failure = {.message = "x"};
    struct script s = {.failure = &failure, .fail_times = 4, .output = "7"};
    rt_worker(q, "work", play, &s);
    rt_start(q, "a");
    rt_poll(q);
    for (int i = 0; i < 4; i++) {
        testenv_advance_ms(&rt, 1000 << i);
        rt_poll(q);
    }
    assert_int_equal(s.calls, 5);
    rt_expect(q, "a", "completed", "7");
}

/* Nothing said: five attempts, after 1, 2, 4 and 8 seconds; the last one may still succeed. */
static void test_default_policy(void **state)
{
    (void)state;
    on_both(defaults, 1);
}

static void one_attempt(qp *q)
{
    struct qp_failure failure = {.message = "x"};
    struct script s = {.failure = &failure};
    rt_worker(q, "work", play, &s);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("a"),
                                        .input = QP_STR("1"),
                                        .retry = {.attempts = 1}});
    rt_poll(q);
    assert_int_equal(s.calls, 1);
    rt_expect(q, "a", "failed", NULL);
}

/* attempts = 1: no second one. */
static void test_one_attempt(void **state)
{
    (void)state;
    on_both(one_attempt, 1);
}

/* ------------------------------------------------------------------------------------- pending */

struct pender {
    int calls;
    int fail_first; /* the first call fails after its pending outputs */
};

static int pend(void *context, qp_task *task)
{
    struct pender *p = context;
    struct qp_err err = {0};
    p->calls++;
    for (int i = 0; i < 3; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        if (qp_task_pending(task, str_from(text), &err) != QP_OK) {
            fail_msg("pending %d: %s", i, err.text);
        }
    }
    return p->calls <= p->fail_first ? QP_E_BUSY : qp_task_output(task, QP_STR("3"));
}

/* The second leg's entries in the ledger: how many responses were taken. */
static int64_t responses(qp *q, const char *id)
{
    struct qp_job job;
    struct qp_err err = {0};
    int64_t ledger;
    assert_int_equal(qp_job_get(q, str_from(id), &job, &err), QP_OK);
    ledger = job.ledger;
    qp_job_done(q, &job);
    return ledger % 100000000;
}

static void pending(qp *q)
{
    struct pender once = {0};
    struct pender twice = {.fail_first = 1};
    rt_worker(q, "once", pend, &once);
    rt_worker(q, "twice", pend, &twice);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("once"), .id = QP_STR("a"), .input = QP_STR("1")});
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("twice"), .id = QP_STR("b"), .input = QP_STR("1")});
    rt_poll(q);
    rt_expect(q, "a", "completed", "3");
    rt_expect(q, "b", "retrying", NULL);
    testenv_advance_ms(&rt, 1000);
    rt_poll(q);
    rt_expect(q, "b", "completed", "3");
    assert_int_equal(twice.calls, 2);
    assert_int_equal(responses(q, "a"), 4);
    assert_int_equal(responses(q, "b"), 4);
}

/* Three outputs before the last one are four responses; when the function fails after them and runs
 * again, they are still four. */
static void test_pending(void **state)
{
    (void)state;
    on_both(pending, 2);
}

/* --------------------------------------------------------------------------------------- leases */

struct holder {
    qp *q;
    bool beat;       /* it sends heartbeats */
    int beats_ok;    /* that were taken */
    int beats_stale; /* that were refused */
    int calls;
    int cancelled;       /* seen by qp_task_is_cancelled at the end */
    const char *end_job; /* it has its own job cancelled */
    char key[QP_TASK_KEY_SIZE];
};

/* Takes five seconds with a lease of two. Others meanwhile look for the task. */
static int hold(void *context, qp_task *task)
{
    struct holder *h = context;
    struct qp_err err = {0};
    qp_task *other = NULL;
    if (h->calls++ > 0) {
        return qp_task_output(task, QP_STR("\"second\""));
    }
    qp_task_key(task, h->key);
    for (int i = 0; i < 5; i++) {
        testenv_advance_ms(&rt, 1000);
        if (h->beat) {
            int rc = qp_task_heartbeat(task, &err);
            h->beats_ok += rc == QP_OK;
            h->beats_stale += rc == QP_E_STALE;
        }
        if (h->end_job != NULL && i == 2) {
            assert_int_equal(qp_task_is_cancelled(task), 0);
            assert_int_equal(qp_job_cancel(h->q, str_from(h->end_job), "enough", &err), QP_OK);
        }
    }
    h->cancelled = qp_task_is_cancelled(task);
    if (qp_task_claim(h->q, QP_STR("work"), &other, &err) == QP_OK) {
        char key[QP_TASK_KEY_SIZE];
        qp_task_key(other, key);
        assert_string_equal(key, h->key);
        assert_int_equal(qp_task_attempt(other), 2);
        assert_int_equal(qp_task_complete(other, QP_STR("\"other\""), &err), QP_OK);
        assert_int_equal(qp_task_heartbeat(task, &err), QP_E_STALE);
        assert_int_equal(qp_task_pending(task, QP_STR("1"), &err), QP_E_STALE);
    }
    return qp_task_output(task, QP_STR("\"first\""));
}

static void serve(qp *q, struct holder *h, qp_ms lease_ms)
{
    struct qp_err err = {0};
    h->q = q;
    assert_int_equal(qp_worker_add(q,
                                   &(struct qp_worker){.topic = QP_STR("work"),
                                                       .work = hold,
                                                       .context = h,
                                                       .lease_ms = lease_ms},
                                   &err),
                     QP_OK);
    rt_start(q, "a");
    rt_poll(q);
}

static void beats(qp *q)
{
    struct holder h = {.beat = true};
    serve(q, &h, 2000);
    assert_int_equal(h.beats_ok, 5);
    assert_int_equal(h.calls, 1);
    rt_expect(q, "a", "completed", "\"first\"");
}

/* Heartbeats keep a lease that is shorter than the work. */
static void test_heartbeats_keep_a_lease(void **state)
{
    (void)state;
    on_both(beats, 1);
}

static void silence(qp *q)
{
    struct holder h = {0};
    serve(q, &h, 2000);
    assert_int_equal(h.calls, 1);
    assert_int_equal(engine_stats(q->engine).stale, 3); /* beat, pending, and the result */
    rt_expect(q, "a", "completed", "\"other\"");
}

/* Who is silent loses the task: another claims and completes it, and nothing of the first counts. */
static void test_silence_loses_a_lease(void **state)
{
    (void)state;
    on_both(silence, 1);
}

/* Sleeps through its lease once. */
static int oversleep(void *context, qp_task *task)
{
    int *calls = context;
    if ((*calls)++ == 0) {
        testenv_advance_ms(&rt, 3000);
        return qp_task_output(task, QP_STR("\"late\""));
    }
    assert_int_equal(qp_task_attempt(task), 2);
    return qp_task_output(task, QP_STR("\"second\""));
}

static void late(qp *q)
{
    int calls = 0;
    struct qp_err err = {0};
    assert_int_equal(qp_worker_add(q,
                                   &(struct qp_worker){.topic = QP_STR("work"),
                                                       .work = oversleep,
                                                       .context = &calls,
                                                       .lease_ms = 2000},
                                   &err),
                     QP_OK);
    rt_start(q, "a");
    rt_poll(q);
    /* The late result comes before anybody has seen that the lease is over: it still counts. Or
     * the lease was swept first: then the second delivery counts. Never both. */
    assert_in_range(calls, 1, 2);
    rt_expect(q, "a", "completed", calls == 1 ? "\"late\"" : "\"second\"");
    assert_int_equal(engine_stats(q->engine).stale, calls - 1);
    assert_int_equal(responses(q, "a"), 1);
}

/* A result after the lease, and a second delivery of the same process: one of them counts. */
static void test_a_late_result(void **state)
{
    (void)state;
    on_both(late, 1);
}

/* Takes half of its lease. */
static int take_a_second(void *context, qp_task *task)
{
    (*(int *)context)++;
    testenv_advance_ms(&rt, 1000);
    return qp_task_output(task, QP_STR("1"));
}

static void queued(qp *q)
{
    int calls = 0;
    struct qp_err err = {0};
    char id[8];
    assert_int_equal(qp_worker_add(q,
                                   &(struct qp_worker){.topic = QP_STR("work"),
                                                       .work = take_a_second,
                                                       .context = &calls,
                                                       .lease_ms = 2000},
                                   &err),
                     QP_OK);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        rt_start(q, id);
    }
    rt_poll(q);
    assert_int_equal(calls, 10);
    assert_int_equal(engine_stats(q->engine).stale, 0);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        rt_expect(q, id, "completed", "1");
    }
}

/* Ten tasks of half a lease each, all fetched at once: those that wait their turn do not lose it. */
static void test_waiting_is_not_silence(void **state)
{
    (void)state;
    on_both(queued, 10);
}

static void no_lease(qp *q)
{
    struct holder h = {.beat = true};
    serve(q, &h, 0);
    assert_int_equal(h.beats_ok, 5);
    rt_expect(q, "a", "completed", "\"first\"");
}

/* Without a lease the task stays ours however long it takes, and a heartbeat says so. */
static void test_no_lease(void **state)
{
    (void)state;
    on_both(no_lease, 1);
}

/* ---------------------------------------------------------------------------------- time limits */

struct slow {
    int calls;
    int stale_at;     /* the second in which a beat was refused; 0: never */
    int cancelled_at; /* and in which qp_task_is_cancelled said so */
};

/* Takes five seconds the first time, with a beat every second. */
static int be_slow(void *context, qp_task *task)
{
    struct slow *s = context;
    struct qp_err err = {0};
    if (s->calls++ > 0) {
        return qp_task_output(task, QP_STR("\"second\""));
    }
    for (int i = 1; i <= 5; i++) {
        testenv_advance_ms(&rt, 1000);
        if (qp_task_heartbeat(task, &err) == QP_E_STALE && s->stale_at == 0) {
            s->stale_at = i;
        }
        if (qp_task_is_cancelled(task) && s->cancelled_at == 0) {
            s->cancelled_at = i;
        }
    }
    return qp_task_output(task, QP_STR("\"late\""));
}

static void limited(qp *q, struct slow *s, struct qp_retry retry)
{
    rt_worker(q, "work", be_slow, s);
    rt_start_with(
        q, &(struct qp_start){
               .topic = QP_STR("work"), .id = QP_STR("a"), .input = QP_STR("{}"), .retry = retry});
    rt_poll(q);
}

static void runs_too_long(qp *q)
{
    struct slow s = {0};
    limited(q, &s, (struct qp_retry){.run_timeout_ms = 3000, .heartbeat_ms = 1500});
    assert_int_equal(s.stale_at, 3);
    assert_in_range(s.cancelled_at, 3, 4);
    testenv_advance_ms(&rt, 1000);
    rt_poll(q);
    assert_int_equal(s.calls, 2);
    rt_expect(q, "a", "completed", "\"second\"");
}

static void beats_in_time(qp *q)
{
    struct slow s = {0};
    limited(q, &s, (struct qp_retry){.run_timeout_ms = 6000, .heartbeat_ms = 1001});
    assert_int_equal(s.stale_at, 0);
    assert_int_equal(s.cancelled_at, 0);
    rt_expect(q, "a", "completed", "\"late\"");
}

/* Proves that a function that runs over its time is told so, that its result is not used, and that the attempt after it is;
 * and that one that sends its beats in time keeps its task. */
static void test_time_limits(void **state)
{
    (void)state;
    on_both(runs_too_long, 1);
    on_both(beats_in_time, 1);
}

static void never_started(qp *q)
{
    struct qp_err err = {0};
    struct qp_start start = {.topic = QP_STR("work"),
                             .id = QP_STR("a"),
                             .input = QP_STR("{}"),
                             .retry = {.attempts = 1, .start_timeout_ms = 2000}};
    rt_start_with(q, &start);
    rt_poll(q);
    testenv_advance_ms(&rt, 2000);
    rt_poll(q);
    rt_expect(q, "a", "failed", NULL);
    start.retry.heartbeat_ms = -1;
    assert_int_equal(qp_job_start(q, &start, NULL, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "heartbeat_ms must be between 0 (no limit) and"));
}

/* Proves that a task that no worker takes fails in time, and that a limit out of its range is refused by name. */
static void test_start_limit(void **state)
{
    (void)state;
    on_both(never_started, 1);
}

static void cancelled(qp *q)
{
    struct holder h = {.beat = true, .end_job = "a"};
    serve(q, &h, 60000);
    assert_int_equal(h.cancelled, 1);
    assert_int_equal(h.beats_ok, 3);
    assert_int_equal(h.beats_stale, 2);
    assert_int_equal(h.calls, 1);
    rt_expect(q, "a", "cancelled",
              "{\"code\":500,\"message\":\"enough\",\"activity\":null,\"address\":null}");
}

/* A job that is cancelled while its function runs: qp_task_is_cancelled and heartbeats tell it, and its
 * result is refused. */
static void test_cancelled_while_running(void **state)
{
    (void)state;
    on_both(cancelled, 1);
}

/* ----------------------------------------------------------------------------- keys and topics */

static void topics(qp *q)
{
    struct script red = {.output = "\"red\""};
    struct script blue = {.output = "\"blue\""};
    struct qp_err err = {0};
    rt_worker(q, "red", play, &red);
    rt_worker(q, "blue", play, &blue);
    assert_int_equal(
        qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("red"), .work = play}, &err),
        QP_E_EXISTS);
    for (int i = 0; i < 6; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_start_with(q, &(struct qp_start){.topic = i % 2 == 0 ? QP_STR("red") : QP_STR("blue"),
                                            .id = str_from(id),
                                            .input = QP_STR("1")});
    }
    rt_start(q, "nobody");
    rt_poll(q);
    assert_int_equal(red.calls, 3);
    assert_int_equal(blue.calls, 3);
    for (int i = 0; i < 6; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_expect(q, id, "completed", i % 2 == 0 ? "\"red\"" : "\"blue\"");
    }
    rt_expect(q, "nobody", "running", NULL);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            assert_true((i == j) == (strcmp(red.keys[i], red.keys[j]) == 0));
            assert_string_not_equal(red.keys[i], blue.keys[j]);
        }
    }
}

/* Each topic's tasks go to its worker, those of none stay; no two tasks have the same key. */
static void test_topics_and_keys(void **state)
{
    (void)state;
    on_both(topics, 7);
}

/* A worker sees the tasks of its own namespace alone. */
static void test_namespaces(void **state)
{
    static const char *const spaces[] = {"red", "blue", "default"};
    struct script s[3] = {{0}};
    (void)state;
    rt_begin(RT_VIRTUAL);
    for (size_t i = 0; i < 3; i++) {
        qp *q = rt_open_as(rt_path, spaces[i], 0);
        rt_start(q, "a");
        rt_close(q);
    }
    for (size_t i = 0; i < 3; i++) {
        qp *q = rt_open_as(rt_path, spaces[i], 0);
        rt_worker(q, "work", play, &s[i]);
        rt_expect(q, "a", "running", NULL);
        rt_poll(q);
        assert_int_equal(s[i].calls, 1);
        rt_expect(q, "a", "completed", "null");
        rt_close(q);
    }
    rt_check(rt_path, 3);
    rt_end();
}

/* --------------------------------------------------------------------------- the host's writes */

struct host {
    int calls;
    int rc;
    bool saw_connection;
};

static int write_row(void *context, void *native)
{
    struct host *h = context;
    h->calls++;
    h->saw_connection = native != NULL;
    if (native != NULL &&
        sqlite3_exec(native, "INSERT INTO host VALUES(1)", NULL, NULL, NULL) != SQLITE_OK) {
        return QP_E_IO;
    }
    return h->rc;
}

static int make_table(void *context, void *native)
{
    (void)context;
    return native == NULL || sqlite3_exec(native, "CREATE TABLE IF NOT EXISTS host(x)", NULL, NULL,
                                          NULL) == SQLITE_OK
               ? QP_OK
               : QP_E_IO;
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

/* The host's rows; as many as expected when it is in memory, where there are none. */
static void expect_rows(qp *q, int expected)
{
    struct qp_err err = {0};
    int count = expected;
    if (file != NULL) {
        assert_int_equal(qp_exec(q, count_rows, &count, &err), QP_OK);
    }
    assert_int_equal(count, expected);
}

static void host_writes(qp *q)
{
    struct qp_err err = {0};
    struct host good = {0};
    struct host bad = {.rc = QP_E_LIMIT};
    struct script s = {.output = "1", .tx = write_row, .tx_context = &good};
    struct script refused = {.output = "1", .tx = write_row, .tx_context = &bad};
    assert_int_equal(qp_exec(q, make_table, NULL, &err), QP_OK);
    rt_worker(q, "good", play, &s);
    rt_worker(q, "bad", play, &refused);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("good"), .id = QP_STR("a"), .input = QP_STR("1")});
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("bad"),
                                        .id = QP_STR("b"),
                                        .input = QP_STR("1"),
                                        .retry = {.attempts = 2, .backoff_ms = 10}});
    rt_poll(q);
    assert_int_equal(good.calls, 1);
    assert_int_equal(good.saw_connection, file != NULL);
    rt_expect(q, "a", "completed", "1");
    rt_expect(q, "b", "retrying", NULL);
    expect_rows(q, 1);
    bad.rc = QP_OK;
    testenv_advance_ms(&rt, 10);
    rt_poll(q);
    assert_int_equal(refused.calls, 2);
    rt_expect(q, "b", "completed", "1");
    expect_rows(q, 2);
}

/* The host's row and the proof are one commit: when the callback refuses, neither is there, the task has
 * failed, and is tried again as the policy says. */
static void test_host_writes(void **state)
{
    (void)state;
    on_both(host_writes, 2);
}

static void host_refuses_for_good(qp *q)
{
    struct qp_err err = {0};
    struct host bad = {.rc = QP_E_LIMIT};
    struct script s = {.output = "1", .tx = write_row, .tx_context = &bad};
    assert_int_equal(qp_exec(q, make_table, NULL, &err), QP_OK);
    rt_worker(q, "work", play, &s);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("a"),
                                        .input = QP_STR("1"),
                                        .retry = {.attempts = 1}});
    rt_poll(q);
    assert_int_equal(s.calls, 1);
    assert_int_equal(bad.calls, 1);
    rt_expect(q, "a", "failed", NULL);
    expect_rows(q, 0);
}

/* Refused at the last attempt: the job has failed, and the row is not there. */
static void test_host_refuses_for_good(void **state)
{
    (void)state;
    on_both(host_refuses_for_good, 1);
}

static void host_when_stale(qp *q)
{
    struct qp_err err = {0};
    struct host h = {0};
    qp_task *task;
    assert_int_equal(qp_exec(q, make_table, NULL, &err), QP_OK);
    rt_start(q, "a");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    qp_task_tx(task, write_row, &h);
    assert_int_equal(qp_job_cancel(q, QP_STR("a"), NULL, &err), QP_OK);
    assert_int_equal(qp_task_is_cancelled(task), 1);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_E_STALE);
    assert_int_equal(h.calls, 0);
    expect_rows(q, 0);
}

/* A task that was lost does not run the host's callback. */
static void test_host_when_stale(void **state)
{
    (void)state;
    on_both(host_when_stale, 1);
}

static void host_by_hand(qp *q)
{
    struct qp_err err = {0};
    struct host h = {.rc = QP_E_BUSY};
    qp_task *task;
    assert_int_equal(qp_exec(q, make_table, NULL, &err), QP_OK);
    rt_start(q, "a");
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    qp_task_tx(task, write_row, &h);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_E_ABORTED);
    rt_expect(q, "a", "running", NULL);
    expect_rows(q, 0);
    h.rc = QP_OK;
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    rt_expect(q, "a", "completed", "1");
    expect_rows(q, 1);
}

/* By hand, after a refusal the task is still ours: the same again commits both. */
static void test_host_by_hand(void **state)
{
    (void)state;
    on_both(host_by_hand, 1);
}

/* ------------------------------------------------------------------------------------- by hand */

static void by_hand(qp *q)
{
    struct qp_err err = {0};
    struct qp_job job;
    qp_task *task;
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("a"),
                                        .input = QP_STR("{}"),
                                        .retry = {.attempts = 2, .backoff_ms = 50}});
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_true(str_equal(qp_task_topic(task), QP_STR("work")));
    assert_int_equal(qp_task_heartbeat(task, &err), QP_OK);
    assert_int_equal(qp_task_pending(task, QP_STR("[1]"), &err), QP_OK);
    assert_int_equal(qp_task_pending(task, QP_STR("[1"), &err), QP_E_MALFORMED);
    assert_non_null(strstr(err.text, "output"));
    assert_int_equal(qp_task_error(task, &(struct qp_failure){.message = "once"}, &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
    testenv_advance_ms(&rt, 50);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(
        qp_task_error(task, &(struct qp_failure){.message = "twice", .code = 451}, &err), QP_OK);
    assert_int_equal(qp_job_get(q, QP_STR("a"), &job, &err), QP_OK);
    assert_string_equal(job.status, "failed");
    assert_non_null(memmem(job.error.p, job.error.n, "451", 3));
    qp_job_done(q, &job);
}

/* Without a function: heartbeats, pending outputs and errors, by the same policy. */
static void test_by_hand(void **state)
{
    (void)state;
    on_both(by_hand, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_a_code_without_words),
        cmocka_unit_test(test_backoff),
        cmocka_unit_test(test_default_policy),
        cmocka_unit_test(test_one_attempt),
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_heartbeats_keep_a_lease),
        cmocka_unit_test(test_silence_loses_a_lease),
        cmocka_unit_test(test_a_late_result),
        cmocka_unit_test(test_waiting_is_not_silence),
        cmocka_unit_test(test_no_lease),
        cmocka_unit_test(test_time_limits),
        cmocka_unit_test(test_start_limit),
        cmocka_unit_test(test_cancelled_while_running),
        cmocka_unit_test(test_topics_and_keys),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_host_writes),
        cmocka_unit_test(test_host_refuses_for_good),
        cmocka_unit_test(test_host_when_stale),
        cmocka_unit_test(test_host_by_hand),
        cmocka_unit_test(test_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
