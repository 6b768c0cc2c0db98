/* test_backup.c - a copy of a store in use: whole, checked, or none */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/files.h"
#include "support/runtest.h"

static char copy[400];

static void name_copy(void)
{
    (void)snprintf(copy, sizeof copy, "%s.backup", rt_path);
}

static bool is_there(const char *suffix)
{
    char name[420];
    (void)snprintf(name, sizeof name, "%s%s", copy, suffix);
    return access(name, F_OK) == 0;
}

/* How many copies that are not whole lie beside it, with what readers of them left. */
static size_t parts(void)
{
    char pattern[440];
    glob_t found;
    size_t count;
    (void)snprintf(pattern, sizeof pattern, "%s.*part*", copy);
    count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* Proves that the copy is a store with all that was committed, that it works, and that nothing else is left
 * beside it. */
static void test_whole(void **state)
{
    struct qp_err err = {0};
    struct stat file;
    qp *q;
    rt_begin(RT_REAL);
    name_copy();
    q = rt_open(rt_path);
    for (int i = 0; i < 100; i++) {
        rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"), .input = QP_STR("{}")});
    }
    if (qp_backup(q, copy, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    rt_start(q, "later");
    assert_int_equal(parts(), 0);
    assert_int_equal(stat(copy, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_int_equal(qp_backup(q, copy, &err), QP_E_EXISTS);
    rt_close(q);
    rt_check(copy, 100);
    q = rt_open(copy);
    rt_start(q, "in the copy");
    rt_close(q);
    rt_check(copy, 101);
    rt_check(rt_path, 101);
    rt_end();
}

struct loading {
    qp *q;
    struct rt_count stop;
    struct rt_count started;
};

static void load_or_copy(void *context, int index)
{
    struct loading *l = context;
    struct qp_err err;
    if (index == 0) {
        rt_await(&l->started, 50);
        QP_ASSERT(qp_backup(l->q, copy, &err) == QP_OK);
        rt_add(&l->stop, 1);
        return;
    }
    while (rt_value(&l->stop) == 0) {
        QP_ASSERT(qp_job_start(l->q,
                               &(struct qp_start){.topic = QP_STR("work"), .input = QP_STR("{}")},
                               NULL, &err) == QP_OK);
        rt_add(&l->started, 1);
    }
}

static int see_nothing(void *context, const struct qp_finding *f)
{
    (void)context;
    print_error("%s: %s\n", f->rule, f->text);
    return QP_OK;
}

/* Proves that a copy made under load is whole, and has at least what was told before it began. */
static void test_under_load(void **state)
{
    struct loading l = {.stop = RT_COUNT_INIT, .started = RT_COUNT_INIT};
    struct qp_check_options options;
    struct qp_check_result result;
    struct qp_err err;
    rt_begin(RT_REAL);
    name_copy();
    l.q = rt_open(rt_path);
    assert_int_equal(qp_start_threads(l.q, 0, &err), QP_OK);
    rt_threads(4, load_or_copy, &l);
    rt_close(l.q);
    qp_check_options_init(&options);
    options.path = copy;
    assert_int_equal(qp_check(&options, NULL, see_nothing, &result, &err), QP_OK);
    assert_int_equal(result.errors, 0);
    assert_in_range(result.jobs, 50, rt_value(&l.started));
    rt_end();
}

/* Proves what is refused: a name that is taken, none, one that cannot be, a store that is no file; nothing is
 * left. */
static void test_refused(void **state)
{
    struct qp_err err;
    qp *q;
    rt_begin(RT_REAL);
    name_copy();
    q = rt_open(rt_path);
    rt_start(q, "a");
    assert_int_equal(qp_backup(q, "", &err), QP_E_INVALID);
    assert_int_equal(qp_backup(q, rt_path, &err), QP_E_EXISTS);
    assert_int_equal(qp_backup(q, "/nowhere/at/all/x.db", &err), QP_E_IO);
    assert_int_equal(parts(), 0);
    assert_false(is_there(""));
    rt_close(q);
    q = rt_open(NULL);
    assert_int_equal(qp_backup(q, copy, &err), QP_E_UNSUPPORTED);
    rt_close(q);
    rt_end();
}

/* Proves that a copy that fails on its way is none, and that the next one is made all the same. */
static void test_fault(void **state)
{
    struct qp_err err;
    char part[420];
    qp *q;
    rt_begin(RT_REAL);
    name_copy();
    q = rt_open(rt_path);
    rt_start(q, "a");
    assert_int_equal(failpoint_set("backup.step=error"), QP_OK);
    assert_int_equal(qp_backup(q, copy, &err), QP_E_IO);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_false(is_there(""));
    assert_int_equal(parts(), 0);
    /* what a crash has left behind is in nobody's way */
    (void)snprintf(part, sizeof part, "%s.00000000.part", copy);
    files_put(part, "half", 4);
    assert_int_equal(qp_backup(q, copy, &err), QP_OK);
    assert_int_equal(parts(), 1);
    rt_close(q);
    rt_check(copy, 1);
    rt_end();
}

/* Proves that a database server is left to its own tools. */
static void test_server(void **state)
{
    struct qp_err err;
    qp *q;
    if (rt_kinds() <= RT_SERVER) {
        skip();
    }
    rt_begin(RT_REAL);
    name_copy();
    rt_end();
    rt_begin_on(RT_SERVER);
    q = rt_open(rt_place);
    assert_int_equal(qp_backup(q, copy, &err), QP_E_UNSUPPORTED);
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),   cmocka_unit_test(test_under_load),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_fault),
        cmocka_unit_test(test_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
