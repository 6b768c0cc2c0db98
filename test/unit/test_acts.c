/* test_acts.c - what is done with jobs that are there, one by one and many at once, on every kind of store */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/runtest.h"

#define ON_ALL_KINDS                                                                               \
    for (int kind = 0; kind < rt_kinds(); kind++) {                                                \
        qp *q;                                                                                     \
        rt_begin_on(kind);                                                                         \
        q = rt_open_as(rt_place, NULL, 1);
#define END_KIND                                                                                   \
    rt_close(q);                                                                                   \
    rt_end();                                                                                      \
    }

static int act(qp *q, enum qp_verb verb, const char *id, char out_id[QP_ID_SIZE])
{
    struct qp_err err = {0};
    return qp_job_act(q, &(struct qp_action){.verb = verb, .id = str_from(id)}, out_id, &err);
}

static void expect(qp *q, const char *id, const char *status)
{
    rt_expect(q, id, status, NULL);
}

/* Proves the plain ones, and what each refuses. */
static void test_plain(void **state)
{
    ON_ALL_KINDS
    char id[QP_ID_SIZE];
    rt_start(q, "a");
    rt_start(q, "b");
    assert_int_equal(act(q, QP_VERB_PAUSE, "a", id), QP_OK);
    assert_string_equal(id, "a");
    expect(q, "a", "paused");
    assert_int_equal(act(q, QP_VERB_RESUME, "a", id), QP_OK);
    expect(q, "a", "running");
    assert_int_equal(act(q, QP_VERB_RETRY, "a", id), QP_E_CONFLICT);
    assert_int_equal(act(q, QP_VERB_DELETE, "a", id), QP_E_CONFLICT);
    assert_int_equal(act(q, QP_VERB_CANCEL, "a", id), QP_OK);
    expect(q, "a", "cancelled");
    assert_int_equal(act(q, QP_VERB_CANCEL, "a", id), QP_E_CLOSED);
    assert_int_equal(act(q, QP_VERB_PAUSE, "a", id), QP_E_CLOSED);
    assert_int_equal(act(q, QP_VERB_KILL, "b", id), QP_OK);
    expect(q, "b", "interrupted");
    assert_int_equal(act(q, QP_VERB_DELETE, "b", id), QP_OK);
    assert_int_equal(act(q, QP_VERB_DELETE, "b", id), QP_E_NOT_FOUND);
    for (enum qp_verb verb = QP_VERB_CANCEL; verb <= QP_VERB_DELETE; verb++) {
        assert_int_equal(act(q, verb, "nobody", id), QP_E_NOT_FOUND);
    }
    assert_int_equal(act(q, (enum qp_verb)99, "a", id), QP_E_INVALID);
    assert_string_equal(qp_verb_word(QP_VERB_FORK), "fork");
    assert_string_equal(qp_verb_word((enum qp_verb)99), "unknown");
    if (kind != RT_MEMORY) {
        rt_check(rt_place, 1);
    }
    END_KIND
}

struct shown {
    char forked_from[64];
    char input[64];
    char custom_id[64];
    size_t attributes;
};

static int see(void *context, const struct qp_job_info *job)
{
    struct shown *s = context;
    (void)snprintf(s->forked_from, 64, "%.*s", STR_ARG(job->forked_from));
    (void)snprintf(s->input, 64, "%.*s", STR_ARG(job->input));
    (void)snprintf(s->custom_id, 64, "%.*s", STR_ARG(job->custom_id));
    s->attributes = job->attribute_count;
    return QP_OK;
}

static struct shown shown(qp *q, const char *id)
{
    struct shown s;
    struct qp_err err;
    assert_int_equal(qp_job_show(q, QP_NONE, str_from(id), &s, see, &err), QP_OK);
    return s;
}

/* Proves that a retry of an ended job, and a fork of any, is a new job that says where it came from, with what
 * the first one had. */
static void test_fork(void **state)
{
    ON_ALL_KINDS
    struct qp_attribute attribute = {QP_STR("a"), QP_STR("1")};
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    struct shown s;
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("first"),
                                        .input = QP_STR("[1]"),
                                        .custom_id = QP_STR("c"),
                                        .attributes = &attribute,
                                        .attribute_count = 1});
    assert_int_equal(act(q, QP_VERB_FORK, "first", id), QP_OK);
    s = shown(q, id);
    assert_string_equal(s.forked_from, "first");
    assert_string_equal(s.input, "[1]");
    assert_string_equal(s.custom_id, "");
    assert_int_equal(s.attributes, 1);
    assert_int_equal(act(q, QP_VERB_CANCEL, "first", NULL), QP_OK);
    assert_int_equal(act(q, QP_VERB_RETRY, "first", id), QP_OK);
    s = shown(q, id);
    assert_string_equal(s.forked_from, "first");
    assert_string_equal(s.custom_id, "c");
    assert_int_equal(qp_job_act(q,
                                &(struct qp_action){.verb = QP_VERB_FORK,
                                                    .id = QP_STR("first"),
                                                    .input = QP_STR("[2]"),
                                                    .new_id = QP_STR("second")},
                                id, &err),
                     QP_OK);
    assert_string_equal(id, "second");
    assert_string_equal(shown(q, "second").input, "[2]");
    assert_int_equal(qp_job_act(q,
                                &(struct qp_action){.verb = QP_VERB_FORK,
                                                    .id = QP_STR("first"),
                                                    .input = QP_STR("[3]"),
                                                    .new_id = QP_STR("second")},
                                id, &err),
                     QP_E_CONFLICT);
    assert_int_equal(
        qp_job_act(
            q,
            &(struct qp_action){.verb = QP_VERB_FORK, .id = QP_STR("first"), .input = QP_STR("{")},
            id, &err),
        QP_E_MALFORMED);
    END_KIND
}

static int take_retried(void *context, const struct qp_job_info *job)
{
    (void)snprintf(context, QP_ID_SIZE, "%.*s", STR_ARG(job->retried_as));
    return QP_OK;
}

/* Proves that a job which was retried says so, is not retried again, and is passed over by a retry of many; and that it may be
 * retried again when what came of it was deleted. */
static void test_retried(void **state)
{
    ON_ALL_KINDS
    struct qp_bulk all = {.where = QP_STR("status=cancelled"), .verb = QP_VERB_RETRY};
    struct qp_bulk_result result;
    struct qp_err err = {0};
    char said[QP_ID_SIZE] = "";
    char id[QP_ID_SIZE];
    char other[QP_ID_SIZE];
    int64_t count = -1;
    rt_start(q, "first");
    rt_start(q, "second");
    assert_int_equal(act(q, QP_VERB_CANCEL, "first", NULL), QP_OK);
    assert_int_equal(act(q, QP_VERB_CANCEL, "second", NULL), QP_OK);
    assert_int_equal(qp_bulk_count(q, &all, &count, &err), QP_OK);
    assert_int_equal(count, 2);
    assert_int_equal(act(q, QP_VERB_RETRY, "first", id), QP_OK);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("first"), said, take_retried, &err), QP_OK);
    assert_string_equal(said, id);
    assert_int_equal(shown(q, "first").attributes, 0); /* it is none that a person has given */
    assert_int_equal(act(q, QP_VERB_RETRY, "first", other), QP_E_CONFLICT);
    assert_int_equal(qp_bulk_count(q, &all, &count, &err), QP_OK);
    assert_int_equal(count, 1);
    assert_int_equal(qp_job_act_all(q, &all, &result, &err), QP_OK);
    assert_int_equal(result.done, 1);
    assert_int_equal(result.refused, 0);
    assert_int_equal(qp_job_act_all(q, &all, &result, &err), QP_OK);
    assert_int_equal(result.done + result.refused, 0);
    assert_int_equal(act(q, QP_VERB_CANCEL, id, NULL), QP_OK);
    assert_int_equal(act(q, QP_VERB_DELETE, id, NULL), QP_OK);
    assert_int_equal(act(q, QP_VERB_RETRY, "first", other), QP_OK);
    /* A job of one activity has one place to begin, and no versions. */
    assert_int_equal(
        qp_job_act(
            q,
            &(struct qp_action){.verb = QP_VERB_FORK, .id = QP_STR("first"), .at = QP_STR("run")},
            id, &err),
        QP_E_INVALID);
    assert_string_equal(err.pointer, "/at");
    assert_int_equal(qp_job_act(q,
                                &(struct qp_action){.verb = QP_VERB_FORK,
                                                    .id = QP_STR("first"),
                                                    .version = QP_STR("2")},
                                id, &err),
                     QP_E_INVALID);
    assert_string_equal(err.pointer, "/version");
    END_KIND
}

/* Proves that the retry of a parked job is done once by its key: when it is asked for again the job runs, or has
 * ended, and nothing happens to it. */
static void test_unpark_by_key(void **state)
{
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        bool by_key = true;
        struct qp_action retry = {.id = QP_STR("j"),
                                  .verb = QP_VERB_RETRY,
                                  .idem_key = QP_STR("k"),
                                  .idem_body = QP_STR("{}"),
                                  .out_by_key = &by_key};
        struct qp_err err = {0};
        qp_task *task = NULL;
        char id[QP_ID_SIZE];
        qp *q;
        rt_begin_on(kind);
        q = rt_open_as(rt_place, NULL, 1);
        rt_start(q, "j");
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
        rt_close(q);
        q = rt_open_as(rt_place, NULL, 1);
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
        expect(q, "j", "parked");
        assert_int_equal(qp_job_act(q, &retry, id, &err), QP_OK);
        assert_false(by_key);
        expect(q, "j", "running");
        assert_int_equal(qp_job_act(q, &retry, id, &err), QP_OK);
        assert_true(by_key);
        assert_int_equal(qp_job_interrupt(q, QP_STR("j"), NULL, &err), QP_OK);
        by_key = false;
        assert_int_equal(qp_job_act(q, &retry, id, &err), QP_OK);
        assert_true(by_key);
        assert_string_equal(id, "j"); /* and no new job */
        retry.idem_body = QP_STR("{ }");
        assert_int_equal(qp_job_act(q, &retry, id, &err), QP_E_CONFLICT);
        assert_true(by_key);
        rt_close(q);
        rt_end();
    }
}

/* Proves that a parked job goes on where it stands: it is no other job. */
static void test_unpark(void **state)
{
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        struct qp_err err = {0};
        qp_task *task = NULL;
        char id[QP_ID_SIZE];
        qp *q;
        rt_begin_on(kind);
        q = rt_open_as(rt_place, NULL, 1);
        rt_start(q, "j");
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
        rt_close(q); /* it was delivered as often as may be, and never answered */
        q = rt_open_as(rt_place, NULL, 1);
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_E_NOT_FOUND);
        expect(q, "j", "parked");
        assert_int_equal(act(q, QP_VERB_PAUSE, "j", id), QP_OK);
        assert_int_equal(act(q, QP_VERB_RESUME, "j", id), QP_OK);
        expect(q, "j", "parked");
        assert_int_equal(act(q, QP_VERB_RETRY, "j", id), QP_OK);
        assert_string_equal(id, "j");
        expect(q, "j", "running");
        assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
        rt_close(q);
        rt_end();
    }
}

struct told {
    struct rt_count count;
    int code;
    char id[QP_ID_SIZE];
};

static void on_done(void *context, int code, const char *id, const char *text)
{
    struct told *t = context;
    QP_ASSERT((code == QP_OK) == (text[0] == '\0'));
    t->code = code;
    (void)snprintf(t->id, sizeof t->id, "%s", id);
    rt_add(&t->count, 1);
}

/* Proves that async actions take copies of their texts and tell what became of them. */
static void test_async(void **state)
{
    ON_ALL_KINDS
    struct told told = {.count = RT_COUNT_INIT};
    char id[16] = "j";
    struct qp_err err = {0};
    struct qp_action action = {.verb = QP_VERB_CANCEL,
                               .id = str_from(id),
                               .reason = QP_STR("why not"),
                               .context = &told,
                               .done = on_done};
    rt_start(q, "j");
    assert_int_equal(qp_job_act_async(q, &action, &err), QP_OK);
    id[0] = 'X';
    rt_poll(q);
    rt_await(&told.count, 1);
    assert_int_equal(told.code, QP_OK);
    assert_string_equal(told.id, "j");
    rt_expect(q, "j", "cancelled",
              "{\"code\":500,\"message\":\"why not\",\"activity\":null,\"address\":null}");
    assert_int_equal(qp_job_act_async(q, &action, &err), QP_OK); /* there is no job X */
    rt_poll(q);
    assert_int_equal(told.code, QP_E_NOT_FOUND);
    action.id = QP_STR("");
    assert_int_equal(qp_job_act_async(q, &action, &err), QP_E_INVALID);
    END_KIND
}

/* Proves that a job that is started and cancelled in one round is counted before the start and its texts are gone. */
static void test_cancelled_as_it_starts(void **state)
{
    ON_ALL_KINDS
    struct told told = {.count = RT_COUNT_INIT};
    struct qp_err err = {0};
    char topic[40] = "a.topic.of.which.the.start.has.a.copy";
    struct qp_start start = {.topic = str_from(topic), .id = QP_STR("j"), .input = QP_STR("{}")};
    struct qp_action action = {
        .verb = QP_VERB_CANCEL, .id = QP_STR("j"), .context = &told, .done = on_done};
    assert_int_equal(qp_job_start_async(q, &start, &err), QP_OK);
    assert_int_equal(qp_job_act_async(q, &action, &err), QP_OK);
    rt_poll(q);
    rt_await(&told.count, 1);
    assert_int_equal(told.code, QP_OK);
    rt_expect(q, "j", "cancelled", NULL);
    END_KIND
}

static void note_acted(void *context, qp_str id, int code)
{
    int64_t *told = context;
    assert_true(code == QP_OK || code == QP_E_CLOSED);
    assert_int_equal(code == QP_E_CLOSED, str_equal(id, QP_STR("j3")));
    told[code == QP_OK ? 0 : 1]++;
}

/* Proves that a filter's jobs are acted on in pages, each once, that what does not allow it is
 * counted, and that each is told of. */
static void test_bulk(void **state)
{
    ON_ALL_KINDS
    struct qp_bulk bulk = {.verb = QP_VERB_CANCEL,
                           .where = QP_STR("topic=work"),
                           .reason = QP_STR("sweep"),
                           .limit = 4};
    struct qp_bulk_result result = {0};
    struct qp_err err = {0};
    struct qp_count count;
    int64_t done = 0;
    int64_t refused = 0;
    int64_t told[2] = {0};
    int pages = 0;
    bulk.context = told;
    bulk.acted = note_acted;
    for (int i = 0; i < 10; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_start(q, id);
    }
    assert_int_equal(act(q, QP_VERB_KILL, "j3", NULL), QP_OK);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("other"), .input = QP_STR("1")});
    do {
        char cursor[QP_CURSOR_SIZE];
        memcpy(cursor, result.cursor, sizeof cursor);
        bulk.cursor = str_from(cursor);
        if (qp_job_act_all(q, &bulk, &result, &err) != QP_OK) {
            fail_msg("%s", err.text);
        }
        done += result.done;
        refused += result.refused;
        pages++;
    } while (result.cursor[0] != '\0');
    assert_int_equal(done, 9);
    assert_int_equal(refused, 1);
    assert_int_equal(told[0], 9);
    assert_int_equal(told[1], 1);
    assert_true(pages >= 3);
    assert_int_equal(
        qp_job_count(q, QP_NONE, QP_STR("status=cancelled"), QP_COUNT_EXACT, &count, &err), QP_OK);
    assert_int_equal(count.count, 9);
    bulk.cursor = QP_NONE;
    bulk.where = QP_STR("nothing");
    assert_int_equal(qp_job_act_all(q, &bulk, &result, &err), QP_E_INVALID);
    bulk.where = QP_NONE;
    bulk.verb = QP_VERB_FORK;
    assert_int_equal(qp_job_act_all(q, &bulk, &result, &err), QP_E_INVALID);
    bulk.verb = QP_VERB_CANCEL;
    bulk.limit = 1001;
    assert_int_equal(qp_job_act_all(q, &bulk, &result, &err), QP_E_INVALID);
    END_KIND
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_fork),
        cmocka_unit_test(test_retried),       cmocka_unit_test(test_unpark),
        cmocka_unit_test(test_unpark_by_key), cmocka_unit_test(test_async),
        cmocka_unit_test(test_bulk),          cmocka_unit_test(test_cancelled_as_it_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
