/* runtest.c - worlds, engines and waiting for tests of the public handle */
#include "support/runtest.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/files.h"
#include "support/pgserver.h"
#include "support/storetest.h"

#define WAIT_S 30

/* cmocka's own message is lost when another one comes before it. */
#define RT_FAIL(...)                                                                               \
    do {                                                                                           \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        fail();                                                                                    \
    } while (0)

struct testenv rt;
char rt_path[320];
static char dir[256];

void rt_begin(enum rt_clock clock)
{
    testenv_init(&rt, 1);
    if (clock == RT_REAL) {
        rt.env.wall_ms = NULL;
        rt.env.monotonic_us = NULL;
    }
    files_temporary(dir, sizeof dir, "run");
    (void)snprintf(rt_path, sizeof rt_path, "%s/x.db", dir);
}

const char *rt_place;

int rt_kinds(void)
{
    return storetest_kinds() > STORETEST_KINDS ? RT_KINDS : RT_SERVER;
}

void rt_begin_on(int kind)
{
    rt_begin(RT_REAL);
    if (kind == RT_SERVER) {
        (void)snprintf(rt_path, sizeof rt_path, "%s", pgserver_shared());
    }
    rt_place = kind == RT_MEMORY ? NULL : rt_path;
}

void rt_end(void)
{
    testenv_done(&rt);
    files_remove(dir);
}

qp *rt_open_as(const char *file, const char *space, int64_t max_deliveries)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    qp_options_init(&options);
    options.path = file;
    options.env = &rt.env;
    options.namespace_name = space;
    options.max_deliveries = max_deliveries;
    if (qp_open(&options, &q, &err) != QP_OK) {
        RT_FAIL("open: %s", err.text);
    }
    return q;
}

qp *rt_open(const char *file)
{
    return rt_open_as(file, NULL, 0);
}

void rt_close(qp *q)
{
    struct qp_err err = {0};
    if (qp_close(q, &err) != QP_OK) {
        RT_FAIL("close: %s", err.text);
    }
}

static int print_finding(void *context, const struct qp_finding *f)
{
    (void)context;
    printf("%s: job '%.*s': %s (%s)\n", f->rule, STR_ARG(f->job), f->text, f->evidence);
    return QP_OK;
}

void rt_check(const char *file, int64_t jobs)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    qp_check_options_init(&options);
    options.path = file;
    if (qp_check(&options, NULL, print_finding, &result, &err) != QP_OK) {
        RT_FAIL("check: %s", err.text);
    }
    assert_int_equal(result.errors, 0);
    assert_int_equal(result.warnings, 0);
    assert_int_equal(result.jobs, jobs);
}

void rt_start_with(qp *q, const struct qp_start *start)
{
    struct qp_err err = {0};
    if (qp_job_start(q, start, NULL, &err) != QP_OK) {
        RT_FAIL("%s", err.text);
    }
}

void rt_start(qp *q, const char *id)
{
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("work"), .id = str_from(id), .input = QP_STR("{}")});
}

void rt_worker(qp *q, const char *topic, qp_work work, void *context)
{
    struct qp_err err = {0};
    if (qp_worker_add(
            q, &(struct qp_worker){.topic = str_from(topic), .work = work, .context = context},
            &err) != QP_OK) {
        RT_FAIL("%s", err.text);
    }
}

void rt_poll(qp *q)
{
    struct qp_err err = {0};
    do {
        if (qp_poll(q, &err) != QP_OK) {
            RT_FAIL("poll: %s", err.text);
        }
    } while (qp_next_deadline(q) == 0);
}

void rt_poll_until(qp *q, const int *set)
{
    for (int i = 0; i < WAIT_S * 100; i++) {
        rt_poll(q);
        if (*set != 0) {
            return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    RT_FAIL("nothing was answered in %d s", WAIT_S);
}

/* The whole text, or the sentence of an error. */
static bool is_said(qp_str said, const char *text)
{
    char message[256];
    int n = snprintf(message, sizeof message, "{\"code\":500,\"message\":\"%.200s\",", text);
    return str_equal(said, str_from(text)) ||
           (said.n > (size_t)n && memcmp(said.p, message, (size_t)n) == 0);
}

static void expect_job(qp *q, const char *id, struct qp_job *job, const char *status,
                       const char *text)
{
    bool same = strcmp(job->status, status) == 0;
    qp_str said = job->output.p != NULL ? job->output : job->error;
    bool says = text == NULL || is_said(said, text);
    if (!same || !says) {
        RT_FAIL("job '%s' is %s: %.*s", id, job->status, STR_ARG(said));
    }
    qp_job_done(q, job);
}

void rt_expect(qp *q, const char *id, const char *status, const char *text)
{
    struct qp_err err = {0};
    struct qp_job job;
    if (qp_job_get(q, str_from(id), &job, &err) != QP_OK) {
        RT_FAIL("%s", err.text);
    }
    expect_job(q, id, &job, status, text);
}

void rt_wait(qp *q, const char *id, const char *status)
{
    struct qp_err err = {0};
    struct qp_job job;
    if (qp_job_wait(q, str_from(id), WAIT_S * 1000, &job, &err) != QP_OK) {
        RT_FAIL("%s", err.text);
    }
    expect_job(q, id, &job, status, NULL);
}

void rt_add(struct rt_count *c, int64_t by)
{
    (void)pthread_mutex_lock(&c->lock);
    c->value += by;
    (void)pthread_cond_broadcast(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
}

int64_t rt_value(struct rt_count *c)
{
    int64_t value;
    (void)pthread_mutex_lock(&c->lock);
    value = c->value;
    (void)pthread_mutex_unlock(&c->lock);
    return value;
}

/* A slow machine may take long for all of it, but not for any of it. */
void rt_await(struct rt_count *c, int64_t value)
{
    int rc = 0;
    (void)pthread_mutex_lock(&c->lock);
    while (c->value < value && rc == 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += WAIT_S;
        rc = pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &until);
    }
    QP_ASSERT(c->value >= value);
    (void)pthread_mutex_unlock(&c->lock);
}

struct one_thread {
    pthread_t thread;
    void (*body)(void *context, int index);
    void *context;
    int index;
};

static void *one_thread_main(void *context)
{
    struct one_thread *t = context;
    t->body(t->context, t->index);
    return NULL;
}

void rt_threads(int count, void (*body)(void *context, int index), void *context)
{
    struct one_thread threads[64];
    assert_in_range(count, 1, ARRAY_COUNT(threads));
    for (int i = 0; i < count; i++) {
        threads[i] = (struct one_thread){.body = body, .context = context, .index = i};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, one_thread_main, &threads[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
    }
}
