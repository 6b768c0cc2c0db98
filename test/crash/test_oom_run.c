/* test_oom_run.c - memory runs out at the n-th allocation of a call: a clean answer, no leak, and the same call
 * succeeds afterwards
 *
 * Every call of quipu.h and run/ that takes memory goes through it, in memory and on a file: n goes on until
 * nothing is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/access.h"
#include "run/stats.h"
#include "run/stats_read.h"
#include "run/work.h"
#include "support/runtest.h"

#define TRIES_MAX 5000

static int64_t serial; /* for ids that are new */
static bool strict; /* what was refused must be told: not where a reader does without some memory */
static bool refused; /* before memory came back */

/* There is memory again. */
static void end_shortage(void)
{
    refused = refused || testenv_failed(&rt);
    testenv_fail_at(&rt, 0);
}

static int see_job(void *context, const struct qp_job_info *job)
{
    (void)context;
    (void)job;
    return QP_OK;
}

static int see_activity(void *context, const struct qp_activity *a)
{
    (void)context;
    (void)a;
    return QP_OK;
}

static int see_event(void *context, const struct qp_event *e)
{
    (void)context;
    (void)e;
    return QP_OK;
}

static int see_topic(void *context, const struct qp_topic *t)
{
    (void)context;
    (void)t;
    return QP_OK;
}

static int see_token(void *context, const struct access_token *t)
{
    (void)context;
    (void)t;
    return QP_OK;
}

static int see_line(void *context, const struct audit_entry *e)
{
    (void)context;
    (void)e;
    return QP_OK;
}

static int see_piece(void *context, qp_str piece)
{
    (void)context;
    (void)piece;
    return QP_OK;
}

static int do_list(qp *q, struct qp_err *err)
{
    char cursor[QP_CURSOR_SIZE];
    return qp_job_list(q, &(struct qp_list){.where = QP_STR("attr.a=\"1\" and id!=\"x\"")}, NULL,
                       see_job, cursor, err);
}

static int do_count(qp *q, struct qp_err *err)
{
    struct qp_count count;
    return qp_job_count(q, QP_NONE, QP_STR("started>-1h"), QP_COUNT_EXACT, &count, err);
}

static int do_show(qp *q, struct qp_err *err)
{
    return qp_job_show(q, QP_NONE, QP_STR("fir"), NULL, see_job, err);
}

static int do_activities(qp *q, struct qp_err *err)
{
    bool more;
    return qp_activity_list(q, QP_NONE, QP_STR("first"), QP_NONE, 0, NULL, see_activity, &more,
                            err);
}

static int do_journal(qp *q, struct qp_err *err)
{
    bool more;
    return qp_job_journal(q, QP_NONE, QP_STR("first"), 0, 0, NULL, see_event, &more, err);
}

static int do_feed(qp *q, struct qp_err *err)
{
    bool more;
    int64_t after;
    return qp_feed_read(q, &(struct qp_feed){.where = QP_STR("status=running")}, NULL, see_event,
                        &after, &more, err);
}

static int do_topics(qp *q, struct qp_err *err)
{
    bool more;
    return qp_topic_list(q, QP_NONE, QP_NONE, 0, NULL, see_topic, &more, err);
}

static int do_export(qp *q, struct qp_err *err)
{
    return qp_job_export(q, QP_NONE, QP_STR("first"), NULL, see_piece, err);
}

static void new_id(char id[32])
{
    (void)snprintf(id, 32, "n%lld", (long long)++serial);
}

static struct qp_attribute attribute = {{"a", 1}, {"1", 1}};

static int do_start(qp *q, struct qp_err *err)
{
    char id[32];
    new_id(id);
    return qp_job_start(q,
                        &(struct qp_start){.topic = QP_STR("work"),
                                           .id = str_from(id),
                                           .input = QP_STR("{}"),
                                           .delay_ms = serial % 2 == 0 ? 1000 : 0,
                                           .custom_id = str_from(id),
                                           .attributes = &attribute,
                                           .attribute_count = 1,
                                           .idem_key = str_from(id)},
                        NULL, err);
}

static int started_code;

static void on_started(void *context, int code, const char *id)
{
    (void)context;
    (void)id;
    started_code = code;
}

static int do_start_async(qp *q, struct qp_err *err)
{
    char id[32];
    struct qp_signal signal = {
        .topic = QP_STR("s"), .key = QP_STR("k"), .payload = QP_STR("1"), .ttl_ms = 1};
    int rc;
    new_id(id);
    started_code = 1;
    rc = qp_job_start_async(q,
                            &(struct qp_start){.topic = QP_STR("work"),
                                               .id = str_from(id),
                                               .input = QP_STR("{}"),
                                               .attributes = &attribute,
                                               .attribute_count = 1,
                                               .signal = serial % 8 == 0 ? &signal : NULL,
                                               .started = on_started},
                            err);
    if (rc == QP_OK) {
        (void)(qp_poll(q, err) == QP_OK); /* what fails is told to the start */
        rc = started_code == 1 ? QP_E_NOMEM : started_code;
        end_shortage();
        rt_poll(q);
    }
    return rc;
}

static int do_pause(qp *q, struct qp_err *err)
{
    return qp_job_act(q, &(struct qp_action){.verb = QP_VERB_PAUSE, .id = QP_STR("first")}, NULL,
                      err);
}

static int do_fork(qp *q, struct qp_err *err)
{
    return qp_job_act(q, &(struct qp_action){.verb = QP_VERB_FORK, .id = QP_STR("first")}, NULL,
                      err);
}

static int do_bulk(qp *q, struct qp_err *err)
{
    struct qp_bulk_result result;
    return qp_job_act_all(q, &(struct qp_bulk){.verb = QP_VERB_RESUME, .where = QP_STR("id=first")},
                          &result, err);
}

static int do_access(qp *q, struct qp_err *err)
{
    char id[32];
    bool more;
    int rc;
    new_id(id);
    rc = access_create(q,
                       &(struct access_token){.id = str_from(id),
                                              .hash = QP_STR("0123456789abcdef0123456789abcdef"),
                                              .role = QP_STR("r")},
                       err);
    return rc == QP_OK ? access_list(q, QP_NONE, 0, NULL, see_token, &more, err) : rc;
}

static int do_audit(qp *q, struct qp_err *err)
{
    bool more;
    int rc = audit_add(q, &(struct audit){.actor = QP_STR("a"), .action = QP_STR("b")}, err);
    return rc == QP_OK ? audit_list(q, QP_NONE, 0, 0, NULL, see_line, &more, err) : rc;
}

static void on_change(void *context)
{
    (void)context;
}

static int do_follow(qp *q, struct qp_err *err)
{
    qp_follower *f = NULL;
    int rc = qp_follow_begin(q, &(struct qp_follow){.id = QP_STR("first"), .changed = on_change},
                             &f, err);
    qp_follow_end(q, f);
    return rc;
}

static int do_stats(qp *q, struct qp_err *err)
{
    return stats_collect(q, err);
}

static int answer_code;

static void on_answer(void *context, struct work_call *call, int rc, const char *why)
{
    (void)context;
    (void)call;
    (void)why;
    answer_code = rc;
}

/* Whatever the call is told, it is told once, and its task is not lost. */
static int do_work(qp *q, struct qp_err *err)
{
    qp_str topic = QP_STR("elsewhere");
    struct work_call call = {.worker = QP_STR("w"),
                             .build = QP_STR("b"),
                             .topics = &topic,
                             .topic_count = 1,
                             .want = 1,
                             .answer = on_answer};
    int rc = work_submit(q, &call, err);
    if (rc != QP_OK) {
        return rc;
    }
    answer_code = 1;
    for (int i = 0; i < 100 && answer_code == 1; i++) {
        (void)(qp_poll(q, err) == QP_OK); /* it may fail, and go on */
    }
    end_shortage();
    assert_int_not_equal(answer_code, 1);
    work_done(q, &call, WORK_GIVEN_BACK);
    rt_poll(q);
    return answer_code;
}

static const struct {
    const char *name;
    int (*body)(qp *q, struct qp_err *err);
    bool strict;
} cases[] = {
    {"list", do_list, true},       {"count", do_count, true},
    {"show", do_show, true},       {"activities", do_activities, true},
    {"journal", do_journal, true}, {"feed", do_feed, true},
    {"topics", do_topics, true},   {"export", do_export, true},
    {"start", do_start, true},     {"start_async", do_start_async, false},
    {"pause", do_pause, true},     {"fork", do_fork, true},
    {"bulk", do_bulk, true},       {"access", do_access, true},
    {"audit", do_audit, true},     {"follow", do_follow, true},
    {"stats", do_stats, false},    {"work", do_work, false},
};

static void run_case(qp *q, size_t i)
{
    struct qp_err err = {0};
    bool failed = true;
    int64_t n = 1;
    for (; n < TRIES_MAX && failed; n++) {
        int rc;
        refused = false;
        testenv_fail_at(&rt, n);
        rc = cases[i].body(q, &err);
        end_shortage();
        failed = refused;
        if (failed && strict && rc != QP_E_NOMEM) {
            fail_msg("%s: allocation %lld was refused: %s", cases[i].name, (long long)n,
                     qp_code_word(rc));
        }
        if (!failed && rc != QP_OK) {
            fail_msg("%s: nothing was refused: %s", cases[i].name, err.text);
        }
        rt_poll(q);
    }
    assert_true(n < TRIES_MAX);
}

static void each_call(const char *place)
{
    qp *q;
    q = rt_open(place);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("first"),
                                        .input = QP_STR("{}"),
                                        .attributes = &attribute,
                                        .attribute_count = 1});
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("elsewhere"), .input = QP_STR("{}")});
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        strict = cases[i].strict && place == NULL;
        run_case(q, i);
    }
    work_shut(q);
    rt_close(q);
}

static void test_in_memory(void **state)
{
    rt_begin(RT_REAL);
    each_call(NULL);
    rt_end();
}

static void test_on_a_file(void **state)
{
    rt_begin(RT_REAL);
    each_call(rt_path);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_memory),
                                       cmocka_unit_test(test_on_a_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
