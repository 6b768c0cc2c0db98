/* test_faults.c - a disk that is full, one that fails for good, and a store that does not answer: what peers of a server
 * hear of it, and when */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "servertest.h"
#include "support/faultvfs.h"
#include "support/files.h"

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void begin_on_bad_disk(void)
{
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
    st_begin(ST_FILE, ST_OPEN);
}

static void heal_disk(void)
{
    faultvfs_heal();
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 0), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1), SQLITE_OK);
}

/* On the engine's thread, as the disk is its. */
static int set_fault(void *context, void *native)
{
    (void)native;
    if (context == NULL) {
        faultvfs_heal();
    } else {
        faultvfs_fail(context);
    }
    return QP_OK;
}

static size_t lines_with(const char *text)
{
    size_t count = 0;
    for (const char *at = st_log(); (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

/* A worker that waits for tasks meanwhile. */
static const char poll_body[] = "{\"worker\":\"w\",\"topics\":[\"none\"],\"wait\":\"50s\"}";

struct polling {
    pthread_t thread;
    int status;
    int64_t ended_ms;
};

static void *poll_main(void *context)
{
    struct polling *p = context;
    struct hc_answer a = st_work(poll_body);
    p->status = a.status;
    p->ended_ms = now_ms();
    hc_done(&a);
    return NULL;
}

/* Until the worker's call is parked. */
static void poll_begin(struct polling *p)
{
    bool parked = false;
    assert_int_equal(pthread_create(&p->thread, NULL, poll_main, p), 0);
    while (!parked) {
        struct hc_answer a = {0};
        assert_int_equal(st_call("GET", "/v1/workers", NULL, &a), 200);
        parked = strstr(a.body, "\"waiting\":1") != NULL;
        hc_done(&a);
    }
}

static void poll_end(struct polling *p, int status, int64_t since_ms, int64_t within_ms)
{
    (void)pthread_join(p->thread, NULL);
    assert_int_equal(p->status, status);
    assert_true(p->ended_ms - since_ms < within_ms);
}

/* With the first commit that fails for it all are told: who waits for tasks and who asks for them gets 507, /readyz says
 * so at once. When there is room again, that is known without a request that writes. Both are logged once. */
static void a_full_disk(void **state)
{
    struct fault fault = {.kind = FAULT_WRITE, .at = 1, .for_good = true, .code = SQLITE_FULL};
    struct polling p = {0};
    struct qp_err err;
    struct hc_answer a = {0};
    int64_t from;
    char *detail;
    (void)state;
    begin_on_bad_disk();
    free(st_expect("GET", "/readyz", NULL, 200, NULL));
    poll_begin(&p);
    assert_int_equal(qp_exec(server_engine(st.server), set_fault, &fault, &err), QP_E_FULL);
    from = now_ms();
    detail = st_expect("GET", "/readyz", NULL, 503, "detail");
    assert_string_equal(detail, "the disk is full");
    free(detail);
    poll_end(&p, 507, from, 3000);
    for (int i = 0; i < 3; i++) {
        from = now_ms();
        assert_int_equal(st_call("POST", "/v1/work", poll_body, &a), 507);
        hc_done(&a);
        free(st_expect("POST", "/v1/jobs", "{\"topic\":\"work\"}", 507, NULL));
        assert_true(now_ms() - from < 3000);
    }
    assert_int_equal(qp_exec(server_engine(st.server), set_fault, NULL, &err), QP_OK);
    assert_true(st_await_log("can be written again", 10000));
    free(st_expect("GET", "/readyz", NULL, 200, NULL));
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"work\"}", 201, NULL));
    assert_int_equal(lines_with("the disk is full"), 1);
    assert_int_equal(lines_with("can be written again"), 1);
    st_end();
    heal_disk();
}

/* A sync that fails ends the engine: whoever waits gets 500 at once, also who comes later, and nobody waits for the end of
 * the drain. */
static void a_disk_that_fails(void **state)
{
    static struct fault fault = {
        .kind = FAULT_SYNC, .at = 1, .for_good = true, .code = SQLITE_IOERR_FSYNC};
    struct polling p = {0};
    struct qp_err err;
    struct hc_answer a = {0};
    int64_t from;
    (void)state;
    begin_on_bad_disk();
    poll_begin(&p);
    from = now_ms();
    assert_true(qp_exec(server_engine(st.server), set_fault, &fault, &err) != QP_OK);
    poll_end(&p, 500, from, 3000);
    assert_true(st_await_log("the engine has stopped", 3000)); /* by the thread that drives */
    assert_false(server_alive(st.server));
    free(st_expect("GET", "/readyz", NULL, 503, NULL));
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"work\"}", 500, NULL));
    free(st_expect("POST", "/v1/namespaces", "{\"name\":\"x\"}", 500, NULL));
    assert_int_equal(st_call("POST", "/v1/work", poll_body, &a), 500);
    hc_done(&a);
    assert_false(server_close(st.server)); /* it was not closed well */
    assert_true(now_ms() - from < 8000);
    heal_disk();
    st_open();
    st_end();
}

/* Keeps the driver inside the store until the test lets it go. */
struct holding {
    pthread_t thread;
    int begun[2]; /* pipes */
    int end[2];
};

static int hold(void *context, void *native)
{
    const struct holding *h = context;
    char byte = 0;
    (void)native;
    QP_ASSERT(write(h->begun[1], &byte, 1) == 1);
    QP_ASSERT(read(h->end[0], &byte, 1) == 1);
    return QP_OK;
}

static void *hold_main(void *context)
{
    struct qp_err err;
    QP_ASSERT(qp_exec(server_engine(st.server), hold, context, &err) == QP_E_TIMEOUT);
    return NULL;
}

static void hold_begin(struct holding *h)
{
    char byte;
    assert_int_equal(pipe(h->begun), 0);
    assert_int_equal(pipe(h->end), 0);
    assert_int_equal(pthread_create(&h->thread, NULL, hold_main, h), 0);
    assert_int_equal(read(h->begun[0], &byte, 1), 1);
}

static void hold_end(struct holding *h)
{
    assert_int_equal(write(h->end[1], "", 1), 1);
    (void)pthread_join(h->thread, NULL);
    for (int i = 0; i < 2; i++) {
        (void)close(h->begun[i]);
        (void)close(h->end[i]);
    }
}

/* While the store does not answer, a worker's call that nobody has looked at is answered with 503 when its time is over,
 * however long it would wait for tasks, and though there is no other request. */
static void a_store_that_hangs(void **state)
{
    struct holding h;
    struct hc_answer a = {0};
    int64_t from;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    hold_begin(&h);
    from = now_ms();
    assert_int_equal(st_call("POST", "/v1/work", poll_body, &a), 503);
    assert_true(now_ms() - from < LIMIT_CALL_MS + 1000);
    hc_done(&a);
    hold_end(&h);
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_full_disk),
                                       cmocka_unit_test(a_disk_that_fails),
                                       cmocka_unit_test(a_store_that_hangs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
