/* test_start.c - what a start can carry: delay, attributes, keys, signals, idempotency; on every kind of store */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "kernel/single.h"
#include "run/handle.h"
#include "support/runtest.h"
#include "support/shapes.h"

#define ON_ALL_KINDS                                                                               \
    for (int kind = 0; kind < rt_kinds(); kind++) {                                                \
        qp *q;                                                                                     \
        rt_begin_on(kind);                                                                         \
        q = rt_open(rt_place);
#define END_KIND                                                                                   \
    rt_close(q);                                                                                   \
    rt_end();                                                                                      \
    }

static int start(qp *q, struct qp_start s, char id[QP_ID_SIZE])
{
    struct qp_err err = {0};
    s.topic = s.topic.p == NULL ? QP_STR("work") : s.topic;
    s.input = s.input.p == NULL ? QP_STR("{}") : s.input;
    return qp_job_start(q, &s, id, &err);
}

static int see_waiting(void *context, const struct qp_job_info *job)
{
    assert_string_equal(job->status, "waiting");
    assert_true(job->begin_at > job->created_at);
    assert_true(str_equal(job->input, QP_STR("[7]")));
    ++*(int *)context;
    return QP_OK;
}

static int answer(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, qp_task_input(task));
}

/* Proves that a delayed job is there and waits, begins when its time has come, with its policy, and is
 * known to fsck all the while. */
static void test_delay(void **state)
{
    ON_ALL_KINDS
    struct qp_err err = {0};
    int seen = 0;
    assert_int_equal(
        start(q,
              (struct qp_start){
                  .id = QP_STR("j"), .input = QP_STR("[7]"), .delay_ms = 300, .retry.attempts = 2},
              NULL),
        QP_OK);
    assert_int_equal(
        start(q, (struct qp_start){.id = QP_STR("j"), .input = QP_STR("[7]"), .delay_ms = 300},
              NULL),
        QP_OK); /* the same */
    assert_int_equal(start(q, (struct qp_start){.id = QP_STR("j"), .delay_ms = 300}, NULL),
                     QP_E_CONFLICT);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("j"), &seen, see_waiting, &err), QP_OK);
    assert_int_equal(seen, 1);
    if (kind == RT_FILE) {
        rt_check(rt_place, 1);
    }
    rt_worker(q, "work", answer, NULL);
    rt_wait(q, "j", "completed");
    rt_expect(q, "j", "completed", "[7]");
    if (kind != RT_MEMORY) {
        rt_check(rt_place, 1);
    }
    END_KIND
}

/* Proves that a delayed job is cancelled, paused and resumed like any other. */
static void test_delay_and_end(void **state)
{
    ON_ALL_KINDS
    struct qp_err err = {0};
    assert_int_equal(start(q, (struct qp_start){.id = QP_STR("j"), .delay_ms = 3600000}, NULL),
                     QP_OK);
    assert_int_equal(qp_job_pause(q, QP_STR("j"), &err), QP_OK);
    rt_expect(q, "j", "paused", NULL);
    assert_int_equal(qp_job_resume(q, QP_STR("j"), &err), QP_OK);
    rt_expect(q, "j", "waiting", NULL);
    assert_int_equal(qp_job_cancel(q, QP_STR("j"), "no", &err), QP_OK);
    rt_expect(q, "j", "cancelled", "no");
    rt_poll(q);
    if (kind != RT_MEMORY) {
        rt_check(rt_place, 1);
    }
    END_KIND
}

/* Proves that a custom id is one open job's: the same start is the same job, another one a conflict, and it
 * is free again when the job has ended. */
static void test_custom_id(void **state)
{
    ON_ALL_KINDS
    char first[QP_ID_SIZE];
    char second[QP_ID_SIZE];
    struct qp_err err = {0};
    assert_int_equal(start(q, (struct qp_start){.custom_id = QP_STR("c")}, first), QP_OK);
    assert_int_equal(start(q, (struct qp_start){.custom_id = QP_STR("c")}, second), QP_OK);
    assert_string_equal(first, second);
    assert_int_equal(
        start(q, (struct qp_start){.custom_id = QP_STR("c"), .input = QP_STR("1")}, second),
        QP_E_CONFLICT);
    assert_int_equal(
        start(q, (struct qp_start){.custom_id = QP_STR("c"), .topic = QP_STR("other")}, second),
        QP_OK);
    assert_string_not_equal(first, second);
    assert_int_equal(qp_job_cancel(q, str_from(first), NULL, &err), QP_OK);
    assert_int_equal(start(q, (struct qp_start){.custom_id = QP_STR("c")}, second), QP_OK);
    assert_string_not_equal(first, second);
    END_KIND
}

/* Proves that an idempotency key answers with the first job, and commits with it or not at all. */
static void test_idempotency(void **state)
{
    ON_ALL_KINDS
    char first[QP_ID_SIZE];
    char second[QP_ID_SIZE];
    struct qp_count count;
    struct qp_err err = {0};
    assert_int_equal(start(q, (struct qp_start){.idem_key = QP_STR("k")}, first), QP_OK);
    assert_int_equal(start(q, (struct qp_start){.idem_key = QP_STR("k")}, second), QP_OK);
    assert_string_equal(first, second);
    assert_int_equal(
        start(q, (struct qp_start){.idem_key = QP_STR("k"), .input = QP_STR("1")}, second),
        QP_E_CONFLICT);
    assert_int_equal(
        start(q, (struct qp_start){.idem_key = QP_STR("b"), .idem_body = QP_STR("x")}, first),
        QP_OK);
    assert_int_equal(start(q,
                           (struct qp_start){.idem_key = QP_STR("b"),
                                             .idem_body = QP_STR("x"),
                                             .input = QP_STR("[1]")},
                           second),
                     QP_OK); /* the body is what the caller says */
    assert_string_equal(first, second);
    assert_int_equal(
        start(q, (struct qp_start){.idem_key = QP_STR("b"), .idem_body = QP_STR("y")}, second),
        QP_E_CONFLICT);
    /* A start that is refused leaves no record of its key. */
    assert_int_equal(start(q, (struct qp_start){.id = QP_STR("taken")}, NULL), QP_OK);
    assert_int_equal(
        start(
            q,
            (struct qp_start){.id = QP_STR("taken"), .input = QP_STR("2"), .idem_key = QP_STR("z")},
            NULL),
        QP_E_CONFLICT);
    assert_int_equal(start(q, (struct qp_start){.idem_key = QP_STR("z")}, NULL), QP_OK);
    assert_int_equal(qp_job_count(q, QP_NONE, QP_NONE, QP_COUNT_EXACT, &count, &err), QP_OK);
    assert_int_equal(count.count, 4);
    END_KIND
}

/* Proves that a signal commits with the start, or goes alone when the job is there. */
static void test_signal_with_start(void **state)
{
    ON_ALL_KINDS
    struct qp_signal signal = {
        .topic = QP_STR("s"), .key = QP_STR("k"), .payload = QP_STR("1"), .id = QP_STR("first")};
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    assert_int_equal(start(q, (struct qp_start){.id = QP_STR("j"), .signal = &signal}, id), QP_OK);
    assert_int_equal(qp_signal_send(q, &signal, &err), QP_E_EXISTS); /* it is kept there */
    signal.id = QP_STR("second");
    assert_int_equal(
        start(
            q,
            (struct qp_start){.id = QP_STR("j"), .input = QP_STR("[\"other\"]"), .signal = &signal},
            id),
        QP_OK);
    assert_string_equal(id, "j");
    assert_int_equal(qp_signal_send(q, &signal, &err), QP_E_EXISTS);
    signal.payload = QP_STR("{");
    assert_int_equal(start(q, (struct qp_start){.id = QP_STR("j2"), .signal = &signal}, id),
                     QP_E_MALFORMED);
    END_KIND
}

static int see_one(void *context, const struct qp_job_info *job)
{
    (void)snprintf(context, QP_ID_SIZE, "%.*s", STR_ARG(job->id));
    return QP_OK;
}

/* Proves that of jobs with one limit key no more are handed out than allowed. */
static void test_limit_key(void **state)
{
    ON_ALL_KINDS
    struct qp_err err = {0};
    qp_task *task = NULL;
    qp_task *second = NULL;
    assert_int_equal(
        qp_limit_set(q,
                     &(struct qp_limit){.topic = QP_STR("work"), .key = QP_STR("tenant"), .max = 1},
                     &err),
        QP_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start(q, (struct qp_start){.limit_key = QP_STR("tenant")}, NULL), QP_OK);
    }
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &task, &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &second, &err), QP_E_NOT_FOUND);
    assert_int_equal(qp_task_complete(task, QP_STR("1"), &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("work"), &second, &err), QP_OK);
    assert_int_equal(qp_task_complete(second, QP_STR("1"), &err), QP_OK);
    assert_int_equal(qp_limit_set(q, &(struct qp_limit){.topic = QP_STR("work"), .max = -1}, &err),
                     QP_E_INVALID);
    assert_int_equal(
        qp_limit_set(q, &(struct qp_limit){.topic = QP_STR("no topic"), .max = 1}, &err),
        QP_E_INVALID);
    END_KIND
}

struct told {
    struct rt_count count;
    int code;
    char id[QP_ID_SIZE];
};

static void on_started(void *context, int code, const char *id)
{
    struct told *t = context;
    t->code = code;
    (void)snprintf(t->id, sizeof t->id, "%s", id);
    rt_add(&t->count, 1);
}

/* Proves that an async start takes copies of everything that it was given. */
static void test_async_copies(void **state)
{
    ON_ALL_KINDS
    struct told told = {.count = RT_COUNT_INIT};
    char texts[8][16] = {"work", "[1]", "default", "custom", "key", "name", "value", "idem"};
    struct qp_attribute attribute = {str_from(texts[5]), str_from(texts[6])};
    struct qp_signal signal = {
        .topic = QP_STR("s"), .key = str_from(texts[3]), .payload = str_from(texts[1])};
    struct qp_start s = {.topic = str_from(texts[0]),
                         .input = str_from(texts[1]),
                         .ns = str_from(texts[2]),
                         .custom_id = str_from(texts[3]),
                         .limit_key = str_from(texts[4]),
                         .attributes = &attribute,
                         .attribute_count = 1,
                         .signal = &signal,
                         .idem_key = str_from(texts[7]),
                         .context = &told,
                         .started = on_started};
    struct qp_err err = {0};
    char found[QP_ID_SIZE] = "";
    char cursor[QP_CURSOR_SIZE];
    assert_int_equal(qp_job_start_async(q, &s, &err), QP_OK);
    memset(texts, 'X', sizeof texts);
    memset(&attribute, 0, sizeof attribute);
    memset(&signal, 0, sizeof signal);
    rt_poll(q);
    rt_await(&told.count, 1);
    assert_int_equal(told.code, QP_OK);
    assert_int_equal(
        qp_job_list(q, &(struct qp_list){.where = QP_STR("attr.name=value and topic=work")}, found,
                    see_one, cursor, &err),
        QP_OK);
    assert_string_equal(found, told.id);
    END_KIND
}

/* Proves that what is out of range is refused, with the name of it. */
static void test_refused(void **state)
{
    static const char large[LIMIT_ATTRIBUTE_SIZE + 1] = {[0] = 'x'};
    struct qp_attribute bad_name = {QP_STR("no name"), QP_STR("x")};
    struct qp_attribute too_large = {QP_STR("n"), {large, sizeof large}};
    struct qp_attribute no_utf8 = {QP_STR("n"), QP_STR("\xff")};
    struct qp_attribute none = {QP_STR("n"), QP_NONE};
    struct {
        struct qp_start start;
        const char *says;
    } cases[] = {
        {{.delay_ms = -1}, "delay_ms"},
        {{.delay_ms = LIMIT_TIMER_MS + 1}, "delay_ms"},
        {{.idem_ms = -1}, "idem_ms"},
        {{.custom_id = QP_STR(" x")}, "custom id"},
        {{.limit_key = QP_STR("")}, "limit key"},
        {{.idem_key = QP_STR("\n")}, "idempotency key"},
        {{.attributes = &bad_name, .attribute_count = 1}, "attribute"},
        {{.attributes = &too_large, .attribute_count = 1}, "attribute"},
        {{.attributes = &no_utf8, .attribute_count = 1}, "attribute"},
        {{.attributes = &none, .attribute_count = 1}, "attribute"},
        {{.attributes = &none, .attribute_count = LIMIT_START_ATTRIBUTES + 1}, "attributes"},
    };
    struct qp_err err;
    qp *q;
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        cases[i].start.topic = QP_STR("work");
        cases[i].start.input = QP_STR("1");
        if (qp_job_start(q, &cases[i].start, NULL, &err) == QP_OK ||
            strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%zu: %s", i, err.text);
        }
        assert_int_not_equal(qp_job_start_async(q, &cases[i].start, &err), QP_OK);
    }
    rt_close(q);
    rt_end();
}

static int see_address(void *context, const struct qp_activity *activity)
{
    bool *seen = context;
    *seen = *seen || str_equal(activity->address, QP_STR("a1,0,0"));
    return QP_OK;
}

static struct program tree_program(void *state)
{
    (void)state;
    return *shape_tree.program;
}

/* Proves that a start whose name is that of a kind of the handle is a job of that kind, and that
 * any other name is the topic of a single task. */
static void test_kind_by_name(void **state)
{
    const struct face tree_face = {.kind = shape_tree.program->kind,
                                   .name = "tree",
                                   .name_kind = NAMES_NONE,
                                   .hook_kind = NAMES_NONE,
                                   .start_name = "tree",
                                   .program = tree_program};
    const struct face *const faces[] = {&tree_face};
    struct qp_options options;
    struct qp_err err = {0};
    bool more;
    bool tree = false;
    bool single = false;
    qp *q;
    rt_begin(RT_REAL);
    qp_options_init(&options);
    options.env = &rt.env;
    assert_int_equal(handle_open(&options, faces, ARRAY_COUNT(faces), &q, &err), QP_OK);
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("tree"), .id = QP_STR("t"), .input = QP_STR("7")});
    rt_start_with(
        q, &(struct qp_start){.topic = QP_STR("trees"), .id = QP_STR("s"), .input = QP_STR("7")});
    assert_int_equal(
        qp_activity_list(q, QP_NONE, QP_STR("t"), QP_NONE, 0, &tree, see_address, &more, &err),
        QP_OK);
    assert_int_equal(
        qp_activity_list(q, QP_NONE, QP_STR("s"), QP_NONE, 0, &single, see_address, &more, &err),
        QP_OK);
    assert_true(tree);
    assert_false(single);
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kind_by_name),  cmocka_unit_test(test_delay),
        cmocka_unit_test(test_delay_and_end), cmocka_unit_test(test_custom_id),
        cmocka_unit_test(test_idempotency),   cmocka_unit_test(test_signal_with_start),
        cmocka_unit_test(test_limit_key),     cmocka_unit_test(test_async_copies),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
