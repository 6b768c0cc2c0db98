/* test_face.c - kinds of jobs in a set: found by kind and by name, asked in the commit that decides, by fsck, by collecting */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/check.h"
#include "kernel/request.h"
#include "kernel/single.h"
#include "support/storetest.h"
#include "support/toyface.h"

static struct storetest f;
static struct faces *faces;

static void put_version(const char *version)
{
    static const char hash[LIMIT_GUID_SIZE] = "0123456789abcdef";
    struct op op = {.kind = OP_app_put,
                    .app_put = {.ns = STORE_NS_DEFAULT,
                                .app = QP_STR("toys"),
                                .version = str_from(version),
                                .source = QP_STR("a toy"),
                                .hash = {hash, sizeof hash}}};
    assert_int_equal(storetest_op(&f, &op), QP_OK);
}

static void begin(void)
{
    static const struct face *const list[] = {&single_face, &toy_defined_face};
    struct face_options options = {.env = &f.t.env};
    storetest_init(&f, STORETEST_MEMORY, 1);
    assert_int_equal(faces_open(&options, list, ARRAY_COUNT(list), &faces), QP_OK);
    put_version("1");
    put_version("2");
}

static void end(void)
{
    faces_close(faces);
    storetest_done(&f);
}

static void define(int64_t kind, const char *topic, const char *version)
{
    struct op op = {.kind = OP_topic_put,
                    .topic_put = {.ns = STORE_NS_DEFAULT,
                                  .kind = kind,
                                  .topic = str_from(topic),
                                  .app = QP_STR("toys"),
                                  .version = version == NULL ? QP_NONE : str_from(version)}};
    assert_int_equal(storetest_op(&f, &op), QP_OK);
}

/* ------------------------------------------------------------------------------------------- names */

struct asking {
    struct naming naming;
    struct op_hook_signal signal; /* topic none: the start is asked about */
    qp_str key;
    struct qp_err err;
    char version[32];
};

static int ask(void *context, struct bundle *b)
{
    struct asking *a = context;
    int rc = str_is_none(a->signal.topic)
                 ? faces_start(faces, b, &a->naming, &a->err)
                 : faces_signal_key(faces, b, &a->signal, &a->key, &a->err);
    (void)snprintf(a->version, sizeof a->version, "%.*s", STR_ARG(a->naming.version));
    return rc;
}

static void in_commit(struct asking *a, int expected)
{
    struct commit c;
    struct bundle *b;
    commit_init(&c, f.s);
    b = commit_decided(&c, "test", ask, a);
    assert_non_null(b);
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(b->rc, expected);
    commit_done(&c);
}

static void expect_start(const char *name, const char *input, int64_t kind, const char *version)
{
    struct asking a = {
        .naming = {.ns = STORE_NS_DEFAULT, .name = str_from(name), .input = str_from(input)}};
    in_commit(&a, QP_OK);
    assert_int_equal(a.naming.kind, kind);
    assert_string_equal(a.version, version);
}

/* Proves that a row of definitions gives its name to the one face whose rows they are, from the next commit on, that every
 * other name is a plain topic, and that the face can refuse a start. */
static void test_names(void **state)
{
    struct asking refused = {
        .naming = {.ns = STORE_NS_DEFAULT, .name = QP_STR("bear"), .input = QP_STR("1")}};
    (void)state;
    begin();
    expect_start("bear", "1", SINGLE_KIND, "");
    define(APP_TOPIC_START, "bear", "2");
    expect_start("bear", "{}", TOY_KIND, "toys/2");
    expect_start("bears", "1", SINGLE_KIND, "");
    in_commit(&refused, QP_E_SHAPE);
    assert_string_equal(refused.err.text, "a toy wants an object, got '1'");
    define(APP_TOPIC_START, "bear", NULL);
    expect_start("bear", "1", SINGLE_KIND, "");
    end();
}

/* Proves that a fork begins with the version and the kind of its source, and that a kind without a face is refused. */
static void test_pinned(void **state)
{
    struct asking a = {.naming = {.ns = STORE_NS_DEFAULT,
                                  .name = QP_STR("bear"),
                                  .input = QP_STR("{}"),
                                  .pinned = QP_STR("toys/1"),
                                  .pinned_kind = TOY_KIND}};
    (void)state;
    begin();
    define(APP_TOPIC_START, "bear", "2");
    in_commit(&a, QP_OK);
    assert_string_equal(a.version, "toys/1");
    a.naming.pinned_kind = TOY_KIND + 1;
    in_commit(&a, QP_E_UNSUPPORTED);
    end();
}

/* Proves that the key of a signal is what the face of its topic's hooks says, and that a topic without hooks needs one. */
static void test_signal_key(void **state)
{
    struct asking a = {
        .signal = {.ns = STORE_NS_DEFAULT, .topic = QP_STR("hug"), .payload = QP_STR("{}")}};
    (void)state;
    begin();
    in_commit(&a, QP_E_NOT_FOUND);
    define(APP_TOPIC_HOOK, "hug", "2");
    in_commit(&a, QP_OK);
    assert_true(str_equal(a.key, QP_STR("toys")));
    a.signal.payload = QP_STR("1");
    in_commit(&a, QP_E_SHAPE);
    assert_string_equal(a.err.text, "toys/2 wants an object");
    end();
}

/* Proves that what a job needs is its face's to say, and the kernel's where the face has nothing to say. */
static void test_needs(void **state)
{
    struct job_row toy = {.kind = TOY_KIND, .state = JOB_COMPLETED, .version = QP_STR("toys/1")};
    struct job_row single = {.kind = SINGLE_KIND, .state = JOB_OPEN, .version = QP_STR("toys/1")};
    (void)state;
    begin();
    assert_true(faces_need(faces, &toy, QP_STR("toys/1")));
    assert_false(faces_need(faces, &toy, QP_STR("toys/2")));
    assert_true(faces_need(faces, &single, QP_STR("toys/1")));
    single.state = JOB_COMPLETED;
    assert_false(faces_need(faces, &single, QP_STR("toys/1")));
    end();
}

/* -------------------------------------------------------------------------------------------- fsck */

static int hear(void *context, const struct qp_finding *finding)
{
    char *rules = context;
    size_t used = strlen(rules);
    (void)snprintf(rules + used, 64 - used, "%s %.*s: %s; ", finding->rule, STR_ARG(finding->job),
                   finding->text);
    return QP_OK;
}

static void answered(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    assert_int_equal(rc, QP_OK);
    (void)why;
}

static void start_toy(struct engine *e, const char *id)
{
    static struct request_start r;
    struct qp_err err = {0};
    r = (struct request_start){
        .start = {
            .job = {.ref.ns = STORE_NS_DEFAULT, .jid = str_from(id), .workflow = QP_STR("bear")},
            .input = QP_STR("{}")}};
    assert_int_equal(engine_number(e, &r.start.job.ref.job, &err), QP_OK);
    request_start(&r);
    r.command.answer = answered;
    engine_submit(e, &r.command);
    assert_int_equal(engine_settle(e, &err), QP_OK);
}

static void expect_found(const char *rules, const char *expected)
{
    struct check_options options = {.rules = str_from(rules), .faces = faces};
    struct qp_check_result result;
    struct qp_err err = {0};
    char heard[64] = "";
    assert_int_equal(check_run(f.s, &options, heard, hear, &result, &err), QP_OK);
    assert_string_equal(heard, expected);
}

/* Proves that fsck asks the rules of a job's own kind, beside its own or alone, and that without faces they are none. */
static void test_rules(void **state)
{
    struct engine_options o = {.store = f.s, .name = "toys"};
    struct check_options none = {.rules = QP_STR("TOY1")};
    struct qp_check_result result;
    struct qp_err err = {0};
    struct engine *e;
    char heard[64] = "";
    (void)state;
    begin();
    define(APP_TOPIC_START, "bear", "1");
    o.store = f.s;
    o.faces = faces;
    assert_int_equal(engine_open(&o, &e, &err), QP_OK);
    start_toy(e, "whole");
    expect_found(NULL, "");
    start_toy(e, "broken");
    expect_found(NULL, "TOY1 broken: the toy is broken; ");
    expect_found("TOY1", "TOY1 broken: the toy is broken; ");
    expect_found("A1,S", "");
    assert_int_equal(check_run(f.s, &none, heard, hear, &result, &err), QP_E_INVALID);
    assert_int_equal(engine_close(e, &err), QP_OK);
    end();
}

/* Proves that without memory a set is not opened, and that nothing leaks. */
static void test_memory(void **state)
{
    static const struct face *const list[] = {&single_face, &toy_defined_face};
    struct face_options options = {.env = &f.t.env};
    bool done = false;
    (void)state;
    begin();
    for (int64_t n = 1; !done; n++) {
        struct faces *set = NULL;
        int rc;
        assert_true(n < 100);
        testenv_fail_at(&f.t, n);
        rc = faces_open(&options, list, ARRAY_COUNT(list), &set);
        done = !testenv_failed(&f.t);
        testenv_fail_at(&f.t, 0);
        assert_int_equal(rc, done ? QP_OK : QP_E_NOMEM);
        faces_close(set);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_signal_key), cmocka_unit_test(test_needs),
        cmocka_unit_test(test_rules),      cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
