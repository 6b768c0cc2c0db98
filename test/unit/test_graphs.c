/* test_graphs.c - applications behind quipu.h, on every kind of store
 *
 *   deploying      all or nothing; the same text again is harmless, another one is refused
 *   activating     new jobs begin with it, those of before keep theirs, also across a restart
 *   topics         belong to one application
 *   reading        versions, differences, states; also through a handle that only reads
 *   deleting       neither what is active nor what a job needs; hidden at once, and its text goes an hour later
 *   sharing        what one process was told, another one acts by at once: starts, signals, awaits, forks
 *   memory         an allocation that fails: done, or not done and said so
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/limits.h"
#include "support/runtest.h"

/* A job that waits for a signal, and then says which version it is of. */
#define WAITS                                                                                      \
    "app:\n"                                                                                       \
    "  id: %s\n"                                                                                   \
    "  version: '%s'\n"                                                                            \
    "  graphs:\n"                                                                                  \
    "    - subscribes: %s\n"                                                                       \
    "      activities:\n"                                                                          \
    "        begin: {type: trigger}\n"                                                             \
    "        wait: {type: hook, job: {maps: {version: '%s', said: '{$self.hook.data.say}'}}}\n"    \
    "      transitions: {begin: [{to: wait}]}\n"                                                   \
    "      hooks:\n"                                                                               \
    "        %s.go:\n"                                                                             \
    "          - to: wait\n"                                                                       \
    "            conditions:\n"                                                                    \
    "              match: [{expected: '{$job.metadata.jid}', actual: '{$self.hook.data.id}'}]\n"

static const char *waits(const char *app, const char *version, const char *topic)
{
    static char text[2048];
    (void)snprintf(text, sizeof text, WAITS, app, version, topic, version, topic);
    return text;
}

static int deploy(qp *q, const char *text, bool activate, struct qp_deployed *out_deployed)
{
    struct qp_err err = {0};
    int rc = qp_deploy(q, &(struct qp_deploy){.text = str_from(text), .activate = activate},
                       out_deployed, &err);
    if (rc != QP_OK && err.text[0] == '\0') {
        fail_msg("an error without a sentence: %s", qp_code_word(rc));
    }
    return rc;
}

static void start(qp *q, const char *topic, const char *id)
{
    rt_start_with(
        q, &(struct qp_start){.topic = str_from(topic), .id = str_from(id), .input = QP_STR("{}")});
    rt_poll(q);
}

static void go(qp *q, const char *topic, const char *id)
{
    char payload[128];
    struct qp_err err = {0};
    (void)snprintf(payload, sizeof payload, "{\"id\":\"%s\",\"say\":\"hello\"}", id);
    if (qp_signal_send(q,
                       &(struct qp_signal){.topic = str_from(topic), .payload = str_from(payload)},
                       &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    rt_poll(q);
}

/* What is shown of a job. */
struct shown {
    char version[64];
    char state[64];
    char data[256];
    char error[256];
};

static int keep_shown(void *context, const struct qp_job_info *job)
{
    struct shown *s = context;
    (void)snprintf(s->version, sizeof s->version, "%.*s", STR_ARG(job->version));
    (void)snprintf(s->state, sizeof s->state, "%.*s", STR_ARG(job->state));
    (void)snprintf(s->data, sizeof s->data, "%.*s", STR_ARG(job->data));
    (void)snprintf(s->error, sizeof s->error, "%.*s", STR_ARG(job->error));
    return QP_OK;
}

static struct shown show(qp *q, const char *id)
{
    struct shown s = {0};
    struct qp_err err = {0};
    if (qp_job_show(q, QP_NONE, str_from(id), &s, keep_shown, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

static void count_findings(void *context, const struct qp_graph_error *error)
{
    assert_true(error->line > 0 && error->column > 0 && error->message.n > 0);
    ++*(int *)context;
}

static void test_deploy(void **state)
{
    struct qp_deployed d;
    struct qp_err err = {0};
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        int findings = 0;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(deploy(q, waits("a", "1", "t"), false, &d), QP_OK);
        assert_string_equal(d.app, "a");
        assert_string_equal(d.version, "1");
        assert_string_equal(d.was, "");
        assert_false(d.existed);
        assert_int_equal(deploy(q, waits("a", "1", "t"), false, &d), QP_OK);
        assert_true(d.existed);
        assert_int_equal(deploy(q, waits("a", "1", "other"), false, &d), QP_E_CONFLICT);
        /* Nothing of a broken text is there, and all that is wrong is told. */
        assert_int_equal(
            qp_deploy(
                q,
                &(struct qp_deploy){
                    .text = QP_STR("app: {id: b, version: '1', graphs: [{subscribes: t}, 7]}"),
                    .activate = true,
                    .context = &findings,
                    .found = count_findings},
                &d, &err),
            QP_E_SHAPE);
        assert_true(findings >= 2);
        assert_int_equal(qp_activate(q, QP_NONE, QP_STR("b"), QP_STR("1"), &d, &err),
                         QP_E_NOT_FOUND);
        /* It is not active: the topic is that of a single task. */
        start(q, "t", "single");
        assert_string_equal(show(q, "single").version, "");
        assert_string_equal(show(q, "single").state, "");
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, &d), QP_OK);
        start(q, "t", "graph");
        assert_string_equal(show(q, "graph").version, "a/1");
        assert_string_equal(show(q, "graph").state, "650000000000000");
        assert_string_equal(show(q, "graph").data, "");
        rt_close(q);
        rt_end();
    }
}

/* A job that began with version 1 ends with it, though 2 is active, and though nobody is left of who began it. */
static void test_pinned(void **state)
{
    struct qp_deployed d;
    struct qp_err err = {0};
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, &d), QP_OK);
        start(q, "t", "old");
        assert_int_equal(deploy(q, waits("a", "2", "t"), true, &d), QP_OK);
        assert_string_equal(d.was, "1");
        if (kind != RT_MEMORY) {
            rt_close(q);
            q = rt_open(rt_place);
        }
        start(q, "t", "new");
        go(q, "t.go", "old");
        go(q, "t.go", "new");
        rt_expect(q, "old", "completed", "{\"version\":\"1\",\"said\":\"hello\"}");
        rt_expect(q, "new", "completed", "{\"version\":\"2\",\"said\":\"hello\"}");
        assert_string_equal(show(q, "old").version, "a/1");
        assert_string_equal(show(q, "old").state, "640000000000000");
        assert_string_equal(show(q, "old").data, "{\"version\":\"1\",\"said\":\"hello\"}");
        /* And back. */
        assert_int_equal(qp_activate(q, QP_NONE, QP_STR("a"), QP_STR("1"), &d, &err), QP_OK);
        assert_string_equal(d.was, "2");
        start(q, "t", "again");
        assert_string_equal(show(q, "again").version, "a/1");
        rt_close(q);
        rt_end();
    }
}

/* What a job has gathered is seen while it waits, and when it was ended, too. */
static void test_ended(void **state)
{
    struct qp_deployed d;
    struct qp_err err = {0};
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(deploy(q,
                                "app:\n"
                                "  id: a\n"
                                "  version: '1'\n"
                                "  graphs:\n"
                                "    - subscribes: t\n"
                                "      activities:\n"
                                "        begin: {type: trigger, job: {maps: {got: 1}}}\n"
                                "        wait: {type: hook, sleep: 3600}\n"
                                "      transitions: {begin: [{to: wait}]}\n",
                                true, &d),
                         QP_OK);
        start(q, "t", "j");
        assert_string_equal(show(q, "j").data, "{\"got\":1}");
        assert_int_equal(qp_job_cancel(q, QP_STR("j"), "enough", &err), QP_OK);
        assert_string_equal(show(q, "j").data, "{\"got\":1}");
        rt_close(q);
        rt_end();
    }
}

/* A topic is one application's, until a version without it is active. */
static void test_topics(void **state)
{
    struct qp_deployed d;
    struct qp_err err = {0};
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, &d), QP_OK);
        assert_int_equal(deploy(q, waits("b", "1", "t"), true, &d), QP_E_CONFLICT);
        assert_int_equal(deploy(q, waits("b", "1", "t"), false, &d), QP_OK);
        assert_false(d.existed); /* what was refused was not deployed either */
        assert_int_equal(deploy(q, waits("a", "2", "u"), true, &d), QP_OK);
        assert_int_equal(qp_activate(q, QP_NONE, QP_STR("b"), QP_STR("1"), &d, &err), QP_OK);
        start(q, "t", "j");
        assert_string_equal(show(q, "j").version, "b/1");
        assert_int_equal(qp_activate(q, QP_NONE, QP_STR("a"), QP_STR("1"), &d, &err),
                         QP_E_CONFLICT);
        rt_close(q);
        rt_end();
    }
}

static int count_apps(void *context, const struct qp_app *app)
{
    assert_true(app->text.n > 0 && app->created_at > 0);
    assert_int_equal(app->active, str_equal(app->version, QP_STR("2")));
    ++*(int *)context;
    return QP_OK;
}

static int same_text(void *context, const struct qp_app *app)
{
    return str_equal(app->text, str_from(context)) ? QP_OK : QP_E_CORRUPT;
}

static int append(void *context, qp_str piece)
{
    char *text = context;
    assert_true(strlen(text) + piece.n < 1024);
    strncat(text, piece.p, piece.n);
    return QP_OK;
}

static void expect_read(qp *q)
{
    struct qp_err err = {0};
    char text[2048];
    char diff[1024] = "";
    int count = 0;
    assert_int_equal(qp_apps(q, QP_NONE, &count, count_apps, &err), QP_OK);
    assert_int_equal(count, 2);
    (void)snprintf(text, sizeof text, "%s", waits("a", "1", "t"));
    assert_int_equal(qp_app_show(q, QP_NONE, QP_STR("a"), QP_STR("1"), text, same_text, &err),
                     QP_OK);
    assert_int_equal(qp_app_show(q, QP_NONE, QP_STR("a"), QP_STR("3"), text, same_text, &err),
                     QP_E_NOT_FOUND);
    assert_int_equal(
        qp_app_diff(q, QP_NONE, QP_STR("a"), QP_STR("1"), QP_STR("2"), diff, append, &err), QP_OK);
    assert_non_null(strstr(diff, "\"changed\":[\"wait\"]"));
    assert_int_equal(
        qp_app_diff(q, QP_NONE, QP_STR("a"), QP_STR("1"), QP_STR("3"), diff, append, &err),
        QP_E_NOT_FOUND);
    assert_string_equal(show(q, "j").state, "650000000000000");
}

/* Whoever only reads sees the same. */
static void test_reading(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_options options;
        struct qp_err err = {0};
        qp *reader = NULL;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(deploy(q, waits("a", "1", "t"), false, NULL), QP_OK);
        assert_int_equal(deploy(q, waits("a", "2", "t"), true, NULL), QP_OK);
        start(q, "t", "j");
        expect_read(q);
        if (kind != RT_MEMORY) {
            qp_options_init(&options);
            options.path = rt_place;
            options.env = &rt.env;
            assert_int_equal(qp_open_readonly(&options, &reader, &err), QP_OK);
            expect_read(reader);
            assert_int_equal(deploy(reader, waits("a", "3", "t"), false, NULL), QP_E_READONLY);
            rt_close(reader);
        }
        rt_close(q);
        rt_end();
    }
}

static int count_app(void *context, const struct qp_app *app)
{
    (void)app;
    if (context != NULL) {
        ++*(int *)context;
    }
    return QP_OK;
}

static int versions(qp *q)
{
    struct qp_err err = {0};
    int count = 0;
    assert_int_equal(qp_apps(q, QP_NONE, &count, count_app, &err), QP_OK);
    return count;
}

/* The version of the job is gone: its fork begins with the one that is active. */
static void expect_fork_of(qp *q, const char *id, const char *version)
{
    struct qp_err err = {0};
    char forked[QP_ID_SIZE];
    struct qp_action fork = {.id = str_from(id), .verb = QP_VERB_FORK};
    assert_int_equal(qp_job_act(q, &fork, forked, &err), QP_OK);
    assert_string_equal(show(q, forked).version, version);
    fork.version = QP_STR("1");
    assert_int_equal(qp_job_act(q, &fork, forked, &err), QP_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "version: there is no 'a/1', or it was deleted"));
    assert_string_equal(err.pointer, "/version");
}

static void test_deleting(void **state)
{
    struct qp_err err = {0};
    qp_str a = QP_STR("a");
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, NULL), QP_OK);
        start(q, "t", "j");
        assert_int_equal(qp_app_delete(q, QP_NONE, a, QP_STR("9"), &err), QP_E_NOT_FOUND);
        assert_int_equal(qp_app_delete(q, QP_NONE, a, QP_STR("1"), &err), QP_E_CONFLICT);
        assert_non_null(strstr(err.text, "active"));
        assert_int_equal(deploy(q, waits("a", "2", "t"), true, NULL), QP_OK);
        assert_int_equal(qp_app_delete(q, QP_NONE, a, QP_STR("1"), &err), QP_E_CONFLICT);
        assert_non_null(strstr(err.text, "job 'j'"));
        go(q, "t.go", "j");
        /* A job that has ended needs it, too, as long as it is kept. */
        assert_int_equal(qp_app_delete(q, QP_NONE, a, QP_STR("1"), &err), QP_E_CONFLICT);
        assert_non_null(strstr(err.text, "job 'j' needs it"));
        assert_int_equal(qp_app_delete_needed(q, QP_NONE, a, QP_STR("1"), &err), QP_OK);
        assert_int_equal(qp_app_delete_needed(q, QP_NONE, a, QP_STR("1"), &err), QP_E_NOT_FOUND);
        assert_int_equal(qp_app_delete(q, QP_NONE, a, QP_STR("1"), &err), QP_E_NOT_FOUND);
        assert_int_equal(qp_activate(q, QP_NONE, a, QP_STR("1"), NULL, &err), QP_E_NOT_FOUND);
        assert_int_equal(versions(q), 1);
        assert_int_equal(qp_app_show(q, QP_NONE, a, QP_STR("1"), NULL, count_app, &err),
                         QP_E_NOT_FOUND);
        expect_fork_of(q, "j", "a/2");
        /* What its job has done stands. */
        assert_string_equal(show(q, "j").version, "a/1");
        rt_expect(q, "j", "completed", "{\"version\":\"1\",\"said\":\"hello\"}");
        rt_close(q);
        rt_end();
    }
}

static void delete_job(qp *q, const char *id)
{
    struct qp_err err = {0};
    struct qp_action action = {.id = str_from(id), .verb = QP_VERB_DELETE};
    assert_int_equal(qp_job_act(q, &action, NULL, &err), QP_OK);
}

/* A deleted version comes again with its own text; with another one only when it was collected, an hour later, and not
 * while a job needs it. */
static void test_collected(void **state)
{
    struct qp_err err = {0};
    struct qp_deployed d;
    (void)state;
    for (int file = 0; file < 2; file++) { /* a server has its own clock */
        qp *q;
        rt_begin(RT_VIRTUAL);
        q = rt_open(file != 0 ? rt_path : NULL);
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, NULL), QP_OK);
        start(q, "t", "j");
        go(q, "t.go", "j");
        assert_int_equal(deploy(q, waits("a", "2", "t"), true, NULL), QP_OK);
        assert_int_equal(qp_app_delete_needed(q, QP_NONE, QP_STR("a"), QP_STR("1"), &err), QP_OK);
        assert_int_equal(deploy(q, waits("a", "1", "other"), true, NULL), QP_E_CONFLICT);
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, &d), QP_OK);
        assert_false(d.existed);
        assert_string_equal(d.was, "2");
        start(q, "t", "k");
        assert_string_equal(show(q, "k").version, "a/1");
        go(q, "t.go", "k");
        testenv_advance_ms(&rt, LIMIT_APP_KEEP_MS / 2);
        assert_int_equal(qp_activate(q, QP_NONE, QP_STR("a"), QP_STR("2"), NULL, &err), QP_OK);
        assert_int_equal(qp_app_delete_needed(q, QP_NONE, QP_STR("a"), QP_STR("1"), &err), QP_OK);
        /* The hour of the first deletion is over, and not that of the second. */
        testenv_advance_ms(&rt, LIMIT_APP_KEEP_MS / 2 + 1000);
        rt_poll(q);
        assert_int_equal(deploy(q, waits("a", "1", "other"), true, NULL), QP_E_CONFLICT);
        testenv_advance_ms(&rt, LIMIT_APP_KEEP_MS / 2);
        rt_poll(q);
        assert_int_equal(deploy(q, waits("a", "1", "other"), true, NULL), QP_E_CONFLICT);
        rt_expect(q, "k", "completed", "{\"version\":\"1\",\"said\":\"hello\"}");
        delete_job(q, "j");
        delete_job(q, "k");
        testenv_advance_ms(&rt, LIMIT_APP_KEEP_MS);
        rt_poll(q);
        assert_int_equal(deploy(q, waits("a", "1", "other"), true, NULL), QP_OK);
        start(q, "other", "l");
        assert_string_equal(show(q, "l").version, "a/1");
        rt_close(q);
        rt_end();
    }
}

/* No text is an error, and not the end of the process. */
static void test_no_text(void **state)
{
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(qp_graph_check(QP_NONE, NULL, NULL, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "text"));
    assert_int_equal(qp_deploy(q, &(struct qp_deploy){.activate = true}, NULL, &err), QP_E_INVALID);
    assert_int_not_equal(qp_graph_check(QP_STR(""), NULL, NULL, &err), QP_OK);
    rt_close(q);
    rt_end();
}

/* Begins a child whose id its input says, and ends when that has begun. */
#define PARENT                                                                                     \
    "app: {id: p, version: '1', graphs: [{subscribes: p, activities: {begin: {type: trigger}, "    \
    "call: {type: await, topic: c, await: false, input: {maps: {id: "                              \
    "'{begin.output.data.child}'}}}}, transitions: {begin: [{to: call}]}}]}"
#define CHILD                                                                                      \
    "app: {id: c, version: '%s', graphs: [{subscribes: c, activities: {begin: {type: trigger, "    \
    "stats: {id: '{$self.output.data.id}'}}}}]}"

static const char *child(const char *version)
{
    static char text[512];
    (void)snprintf(text, sizeof text, CHILD, version);
    return text;
}

static void start_parent(qp *q, const char *id, const char *input)
{
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("p"), .id = str_from(id), .input = str_from(input)});
    rt_poll(q);
}

static qp *one;
static qp *two;

/* Two handles on one database, as two processes have them. The second has looked just now, and does not look again
 * by itself for a second. */
static bool begin_sharing(void)
{
    if (rt_kinds() <= RT_SERVER) {
        return false;
    }
    rt_begin_on(RT_SERVER);
    one = rt_open(rt_place);
    two = rt_open(rt_place);
    rt_poll(two);
    return true;
}

static void end_sharing(void)
{
    rt_close(two);
    rt_close(one);
    rt_end();
}

/* A start is never a plain job of a topic that has a graph, and never one of a version before. */
static void test_sharing_starts(void **state)
{
    struct qp_err err = {0};
    (void)state;
    if (!begin_sharing()) {
        skip();
    }
    assert_int_equal(deploy(one, waits("a", "1", "t"), true, NULL), QP_OK);
    start(two, "t", "j1");
    assert_string_equal(show(two, "j1").version, "a/1");
    assert_int_equal(deploy(one, waits("a", "2", "t"), true, NULL), QP_OK);
    start(two, "t", "j2");
    assert_string_equal(show(two, "j2").version, "a/2");
    /* Nor one of a version that was deleted. */
    go(one, "t.go", "j1");
    assert_int_equal(qp_activate(two, QP_NONE, QP_STR("a"), QP_STR("1"), NULL, &err), QP_OK);
    start(two, "t", "j3");
    go(two, "t.go", "j3");
    assert_int_equal(qp_activate(one, QP_NONE, QP_STR("a"), QP_STR("2"), NULL, &err), QP_OK);
    assert_int_equal(qp_app_delete_needed(one, QP_NONE, QP_STR("a"), QP_STR("1"), &err), QP_OK);
    start(two, "t", "j4");
    assert_string_equal(show(two, "j4").version, "a/2");
    assert_int_equal(versions(two), 1);
    end_sharing();
}

static void test_sharing_signals(void **state)
{
    (void)state;
    if (!begin_sharing()) {
        skip();
    }
    assert_int_equal(deploy(one, waits("a", "1", "t"), true, NULL), QP_OK);
    start(one, "t", "j");
    go(two, "t.go", "j");
    rt_poll(one);
    rt_expect(two, "j", "completed", "{\"version\":\"1\",\"said\":\"hello\"}");
    end_sharing();
}

static void test_sharing_awaits(void **state)
{
    (void)state;
    if (!begin_sharing()) {
        skip();
    }
    assert_int_equal(deploy(two, PARENT, true, NULL), QP_OK);
    rt_poll(two);
    assert_int_equal(deploy(one, child("1"), true, NULL), QP_OK);
    start_parent(two, "a", "{\"child\":\"a1\"}");
    assert_string_equal(show(two, "a1").version, "c/1");
    assert_int_equal(deploy(one, child("2"), true, NULL), QP_OK);
    start_parent(two, "b", "{\"child\":\"b1\"}");
    assert_string_equal(show(two, "b1").version, "c/2");
    end_sharing();
}

static void test_sharing_forks(void **state)
{
    struct qp_err err = {0};
    char forked[QP_ID_SIZE];
    (void)state;
    if (!begin_sharing()) {
        skip();
    }
    start(two, "t", "plain");
    assert_int_equal(qp_job_cancel(two, QP_STR("plain"), "", &err), QP_OK);
    assert_int_equal(deploy(one, waits("a", "1", "t"), true, NULL), QP_OK);
    /* What was a plain job is by now what its name means. */
    assert_int_equal(qp_job_act(two,
                                &(struct qp_action){.id = QP_STR("plain"), .verb = QP_VERB_FORK},
                                forked, &err),
                     QP_OK);
    assert_string_equal(show(two, forked).version, "a/1");
    assert_int_equal(qp_job_cancel(two, str_from(forked), "", &err), QP_OK);
    assert_int_equal(deploy(one, waits("a", "2", "t"), true, NULL), QP_OK);
    /* A graph's job keeps its version, as long as that is there. */
    assert_int_equal(qp_job_act(two,
                                &(struct qp_action){.id = str_from(forked), .verb = QP_VERB_RETRY},
                                forked, &err),
                     QP_OK);
    assert_string_equal(show(two, forked).version, "a/1");
    assert_int_equal(qp_job_cancel(two, str_from(forked), "", &err), QP_OK);
    assert_int_equal(qp_app_delete_needed(one, QP_NONE, QP_STR("a"), QP_STR("1"), &err), QP_OK);
    expect_fork_of(two, forked, "a/2");
    end_sharing();
}

/* The n-th allocation fails: it is deployed or not, and nothing leaks; then it is. */
static void test_memory(void **state)
{
    struct qp_deployed d;
    bool done = false;
    (void)state;
    for (int64_t n = 1; !done; n++) {
        struct qp_err err = {0};
        int rc;
        qp *q;
        assert_true(n < 5000);
        rt_begin(RT_VIRTUAL);
        q = rt_open(NULL);
        testenv_fail_at(&rt, n);
        rc = qp_deploy(
            q, &(struct qp_deploy){.text = str_from(waits("a", "1", "t")), .activate = true}, &d,
            &err);
        done = !testenv_failed(&rt);
        testenv_fail_at(&rt, 0);
        assert_true(rc == QP_OK || (!done && rc == QP_E_NOMEM));
        assert_int_equal(versions(q), rc == QP_OK ? 1 : 0);
        assert_int_equal(deploy(q, waits("a", "1", "t"), true, &d), QP_OK);
        assert_int_equal(d.existed, rc == QP_OK);
        start(q, "t", "j");
        assert_string_equal(show(q, "j").version, "a/1");
        rt_close(q);
        rt_end();
    }
}

/* The same of a deletion. */
static void test_memory_deleting(void **state)
{
    bool done = false;
    (void)state;
    for (int64_t n = 1; !done; n++) {
        struct qp_err err = {0};
        int rc;
        qp *q;
        assert_true(n < 5000);
        rt_begin(RT_VIRTUAL);
        q = rt_open(NULL);
        assert_int_equal(deploy(q, waits("a", "1", "t"), false, NULL), QP_OK);
        testenv_fail_at(&rt, n);
        rc = qp_app_delete(q, QP_NONE, QP_STR("a"), QP_STR("1"), &err);
        done = !testenv_failed(&rt);
        testenv_fail_at(&rt, 0);
        assert_true(rc == QP_OK || (!done && rc == QP_E_NOMEM));
        assert_int_equal(versions(q), rc == QP_OK ? 0 : 1);
        rt_close(q);
        rt_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deploy),         cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_ended),          cmocka_unit_test(test_topics),
        cmocka_unit_test(test_reading),        cmocka_unit_test(test_deleting),
        cmocka_unit_test(test_collected),      cmocka_unit_test(test_no_text),
        cmocka_unit_test(test_sharing_starts), cmocka_unit_test(test_sharing_signals),
        cmocka_unit_test(test_sharing_awaits), cmocka_unit_test(test_sharing_forks),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_memory_deleting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
