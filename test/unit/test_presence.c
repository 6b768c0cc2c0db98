/* test_presence.c - which workers there are: busy ones, those that left, those whose lease is over, and those at other nodes
 *
 * Handles share nothing but the database, so two of them are as good as two processes; one that dies is a process.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/handle.h"
#include "run/presence.h"
#include "run/work.h"
#include "support/pgserver.h"
#include "support/runtest.h"

#define LEASE_MS 1000
#define SOON_MS                                                                                    \
    20000 /* a change is known elsewhere after a second; a loaded machine takes longer */

struct caller {
    struct work_call call;
    qp_str topics[2];
    int answers;
    int rc;
};

static void on_answer(void *context, struct work_call *call, int rc, const char *why)
{
    struct caller *c = context;
    (void)call;
    (void)why;
    c->answers++;
    c->rc = rc;
}

static void make(struct caller *c, const char *name, const char *topic, int64_t want, qp_ms wait_ms)
{
    *c = (struct caller){.topics = {str_from(topic)}};
    c->call = (struct work_call){.worker = str_from(name),
                                 .caller = {QP_STR("token-1"), QP_STR("secret")},
                                 .topics = c->topics,
                                 .topic_count = want > 0 ? 1 : 0,
                                 .want = want,
                                 .wait_ms = wait_ms,
                                 .context = c,
                                 .answer = on_answer};
}

static void submit(qp *q, struct caller *c)
{
    struct qp_err err = {0};
    if (work_submit(q, &c->call, &err) != QP_OK) {
        fail_msg("submit: %s", err.text);
    }
    rt_poll(q);
}

static void await(qp *q, struct caller *c)
{
    rt_poll_until(q, &c->answers);
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->rc, QP_OK);
    work_done(q, &c->call, WORK_TOLD);
}

static void leave(qp *q, const char *name)
{
    struct caller c;
    make(&c, name, "", 0, 0);
    c.call.leave = true;
    submit(q, &c);
    await(q, &c);
}

/* ------------------------------------------------------------------------------------------ what is said */

struct said {
    char text[1024];
};

static int say_worker(void *context, const struct work_worker *w)
{
    struct said *s = context;
    size_t n = strlen(s->text);
    n += (size_t)snprintf(s->text + n, sizeof s->text - n, "%.*s:", STR_ARG(w->name));
    for (size_t i = 0; i < w->topic_count; i++) {
        n += (size_t)snprintf(s->text + n, sizeof s->text - n, " %.*s", STR_ARG(w->topics[i]));
    }
    (void)snprintf(s->text + n, sizeof s->text - n, "; ");
    return QP_OK;
}

static const char *workers(qp *q)
{
    static struct said s;
    struct qp_err err = {0};
    s.text[0] = '\0';
    rt_poll(q);
    if (work_list(q, QP_NONE, &s, say_worker, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    return s.text;
}

struct wanted {
    const char *topic;
    int64_t workers;
};

static int see_topic(void *context, const struct qp_topic *topic)
{
    struct wanted *w = context;
    if (str_equal(topic->name, str_from(w->topic))) {
        w->workers = topic->workers;
    }
    return QP_OK;
}

/* How many serve it, as the list of topics says; -1: it is not in it. */
static int64_t serving(qp *q, const char *topic)
{
    struct wanted w = {topic, -1};
    struct qp_err err = {0};
    bool more;
    assert_int_equal(qp_topic_list(q, QP_NONE, QP_NONE, 100, &w, see_topic, &more, &err), QP_OK);
    return w.workers;
}

static int see_unserved(void *context, const struct qp_job_info *job)
{
    *(bool *)context = !str_is_none(job->unserved_topic);
    return QP_OK;
}

static bool is_unserved(qp *q, const char *id)
{
    struct qp_err err = {0};
    bool unserved = false;
    assert_int_equal(qp_job_show(q, QP_NONE, str_from(id), &unserved, see_unserved, &err), QP_OK);
    return unserved;
}

static void start(qp *q, const char *topic, const char *id)
{
    rt_start_with(
        q, &(struct qp_start){.topic = str_from(topic), .id = str_from(id), .input = QP_STR("{}")});
}

/* ----------------------------------------------------------------------------------------- one node */

/* Takes the task that is there, and keeps it. */
static void keep_one(qp *q, const char *name, const char *topic)
{
    struct caller c;
    make(&c, name, topic, 1, 0);
    submit(q, &c);
    await(q, &c);
    assert_int_equal(c.call.task_count, 1);
}

/* Proves that a worker with a task in hand serves its topics: a second task that waits there is not told of as one that
 * nobody serves; and that it is gone when it leaves, and when its lease is over. Time is the test's. */
static void one_node(const char *place)
{
    struct testenv *t = &rt;
    qp *q = rt_open(place);
    start(q, "busy", "a");
    start(q, "busy", "b");
    keep_one(q, "w", "busy");
    testenv_advance_ms(t, LIMIT_UNSERVED_MS + 1);
    assert_string_equal(workers(q), "w: busy; ");
    assert_int_equal(serving(q, "busy"), 1);
    assert_false(is_unserved(q, "b"));
    testenv_advance_ms(t, LIMIT_WORK_LEASE_MS);
    assert_string_equal(workers(q), "");
    assert_int_equal(serving(q, "busy"), 0);
    assert_true(is_unserved(q, "b"));
    keep_one(q, "v", "busy");
    assert_string_equal(workers(q), "v: busy; ");
    leave(q, "v");
    assert_string_equal(workers(q), "");
    assert_int_equal(serving(q, "busy"), 0);
    keep_one(q, "v", "busy"); /* it comes again */
    assert_string_equal(workers(q), "v: busy; ");
    rt_close(q);
}

static void test_one_node(void **state)
{
    (void)state;
    rt_begin(RT_VIRTUAL);
    one_node(NULL);
    rt_end();
    rt_begin(RT_VIRTUAL);
    one_node(rt_path);
    rt_end();
}

/* A peer that is gone does not count as one that was seen. */
static void test_aborted(void **state)
{
    struct caller c;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    make(&c, "w", "t", 1, 60000);
    submit(q, &c);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS + 1000);
    assert_string_equal(workers(q), "w: t; ");
    work_abort(q, &c.call);
    rt_poll(q);
    assert_int_equal(c.answers, 1);
    work_done(q, &c.call, WORK_GIVEN_BACK);
    assert_string_equal(workers(q), "");
    rt_close(q);
    rt_end();
}

/* ---------------------------------------------------------------------------------------- two nodes */

static qp *open_shared(const struct qp_env *env)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    int rc;
    qp_options_init(&options);
    options.path = rt_path;
    options.env = env;
    options.lease_ms = LEASE_MS;
    rc = qp_open(&options, &q, &err);
    QP_ASSERT(rc == QP_OK);
    return q;
}

/* Both nodes say the same, and it is this. Both are driven on. */
static void expect_both(qp *here, qp *there, const char *text)
{
    char first[1024] = "";
    for (int i = 0; i < SOON_MS / 20; i++) {
        rt_poll(there);
        (void)snprintf(first, sizeof first, "%s", workers(here));
        if (strcmp(first, text) == 0 && strcmp(workers(there), text) == 0) {
            return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
    fail_msg("here '%s', there '%s', expected '%s'", first, workers(there), text);
}

static int nothing(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    return QP_OK;
}

static void begin(void)
{
    rt_begin(RT_REAL);
    (void)snprintf(rt_path, sizeof rt_path, "%s", pgserver_shared());
}

/* Proves that workers and who serves a topic are the same from both nodes: a busy one, a function, one that leaves, also
 * at the other node than the one that knows it. */
static void test_two_nodes(void **state)
{
    qp *here;
    qp *there;
    (void)state;
    begin();
    here = open_shared(&rt.env);
    there = open_shared(&rt.env);
    start(here, "t", "a");
    start(here, "t", "b");
    keep_one(here, "w", "t");
    expect_both(here, there, "w: t; ");
    assert_int_equal(serving(here, "t"), 1);
    assert_int_equal(serving(there, "t"), 1);
    assert_false(is_unserved(there, "b"));
    keep_one(there, "v", "t");
    expect_both(here, there, "v: t; w: t; ");
    assert_int_equal(serving(here, "t"), 2);
    assert_int_equal(serving(there, "t"), 2);
    leave(here, "w");
    expect_both(here, there, "v: t; ");
    leave(here, "v"); /* whom only the other one knows */
    expect_both(here, there, "");
    assert_int_equal(serving(there, "t"), 0);
    rt_worker(there, "f", nothing, NULL);
    expect_both(here, there, ": f; ");
    rt_close(there);
    assert_string_equal(workers(here), "");
    rt_close(here);
    rt_end();
}

static int told[2];

static _Noreturn void node_main(void)
{
    qp *q = open_shared(NULL);
    struct qp_err err;
    struct caller c;
    make(&c, "w", "t", 1, 60000);
    QP_ASSERT(work_submit(q, &c.call, &err) == QP_OK);
    QP_ASSERT(write(told[1], "", 1) == 1);
    QP_ASSERT(qp_run(q, &err) == QP_OK);
    _exit(1);
}

/* Proves that the workers of a node that was killed are gone when its lease is over. */
static void test_dead_node(void **state)
{
    char byte;
    pid_t child;
    qp *q;
    (void)state;
    begin();
    assert_int_equal(pipe(told), 0);
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        node_main();
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    q = open_shared(&rt.env);
    expect_both(q, q, "w: t; ");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    expect_both(q, q, "");
    (void)close(told[0]);
    (void)close(told[1]);
    rt_close(q);
    rt_end();
}

/* ---------------------------------------------------------------------------------------------- lists */

struct listed {
    char text[1024];
    qp_ms before;
};

static int see_job(void *context, const struct qp_job_info *job)
{
    struct listed *l = context;
    size_t n = strlen(l->text);
    assert_true(l->before == 0 || job->created_at <= l->before);
    l->before = job->created_at;
    (void)snprintf(l->text + n, sizeof l->text - n, "%.*s ", STR_ARG(job->id));
    return QP_OK;
}

static const char *list(qp *q, const char *where, int64_t limit)
{
    static struct listed l;
    struct qp_list what = {.where = str_from(where), .limit = limit};
    char cursor[QP_CURSOR_SIZE] = "";
    struct qp_err err = {0};
    l = (struct listed){.before = 0};
    do {
        char next[QP_CURSOR_SIZE];
        what.cursor = str_from(cursor);
        assert_int_equal(qp_job_list(q, &what, &l, see_job, next, &err), QP_OK);
        memcpy(cursor, next, sizeof cursor);
    } while (cursor[0] != '\0');
    return l.text;
}

/* Proves that lists are newest first from both nodes, though each numbers its jobs in a range of its own: by the whole
 * table, by status and by attribute, in pages of any size. */
static void test_lists(void **state)
{
    static const char *const filters[] = {"", "status=parked or status=open", "attr.a=1",
                                          "status=waiting", "started>-1h"};
    qp *nodes[2];
    (void)state;
    begin();
    nodes[0] = open_shared(&rt.env);
    nodes[1] = open_shared(&rt.env);
    for (int i = 0; i < 8; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_start_with(
            nodes[i % 2],
            &(struct qp_start){.topic = QP_STR("t"),
                               .id = str_from(id),
                               .input = QP_STR("{}"),
                               .delay_ms = 3600000,
                               .attributes = &(struct qp_attribute){QP_STR("a"), QP_STR("1")},
                               .attribute_count = 1});
        (void)nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
    }
    for (size_t i = 0; i < ARRAY_COUNT(filters); i++) {
        for (int64_t limit = 1; limit < 10; limit++) {
            assert_string_equal(list(nodes[0], filters[i], limit), "j7 j6 j5 j4 j3 j2 j1 j0 ");
            assert_string_equal(list(nodes[1], filters[i], limit), "j7 j6 j5 j4 j3 j2 j1 j0 ");
        }
    }
    rt_close(nodes[0]);
    rt_close(nodes[1]);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_node), cmocka_unit_test(test_aborted),
        cmocka_unit_test(test_two_nodes), cmocka_unit_test(test_dead_node),
        cmocka_unit_test(test_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
