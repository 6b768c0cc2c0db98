/* test_idle.c - housekeeping between commits: the file gives back what deletions left free */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "support/storetest.h"

#define JOBS 40

static struct storetest f;

static long long file_size(void)
{
    struct stat st;
    assert_int_equal(stat(f.path, &st), 0);
    return (long long)st.st_size;
}

static void idle(void)
{
    struct qp_err err = {0};
    for (int i = 0; i < 40; i++) {
        assert_int_equal(store_idle(f.s, &err), QP_OK);
    }
}

static void fill(void)
{
    static char payload[100000];
    for (int64_t i = 0; i < JOBS; i++) {
        struct job_ref ref = {STORE_NS_DEFAULT, 100 + i};
        char jid[16] = {(char)('a' + i % 26), (char)('a' + i / 26), 0};
        struct op ops[] = {
            {.kind = OP_job_create,
             .job_create = {.ref = ref, .jid = str_from(jid), .workflow = QP_STR("w")}},
            {.kind = OP_data_put,
             .data_put = {.ref = ref, .name = QP_STR("d"), .value = {payload, sizeof payload}}},
            {.kind = OP_job_close,
             .job_close = {.ref = ref, .guid = storetest_guid(1), .state = JOB_FAILED}},
            {.kind = OP_job_finish, .job_finish = {.ref = ref, .guid = storetest_guid(1)}},
        };
        assert_int_equal(storetest_bundle(&f, ops, ARRAY_COUNT(ops), NULL), QP_OK);
    }
}

/* Jobs of four megabytes come and go: what they took is given back, in idle moments. */
static void test_the_file_shrinks(void **state)
{
    long long full;
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    fill();
    idle();
    full = file_size();
    for (int64_t i = 0; i < JOBS; i++) {
        struct op gone = {.kind = OP_job_delete,
                          .job_delete = {.ref = {STORE_NS_DEFAULT, 100 + i}, .limit = 100}};
        assert_int_equal(storetest_op(&f, &gone), QP_OK);
    }
    idle();
    assert_true(full > 4000000);
    assert_true(file_size() < full / 4);
    storetest_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_file_shrinks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
