/* test_single.c - a job of one activity goes through the documented digits, once, on every
 * provider */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/ledger.h"
#include "support/singlejob.h"
#include "support/storetest.h"

static struct storetest f;
static const struct job_ref ref = {STORE_NS_DEFAULT, 100};

static int start(const char *input, unsigned owner)
{
    struct singlejob_start s = {.ref = ref,
                                .jid = QP_STR("order-1"),
                                .topic = QP_STR("charge"),
                                .input = {input, strlen(input)},
                                .owner_guid = storetest_guid(owner)};
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, f.s);
    b = commit_bundle(&c, "start");
    assert_int_equal(singlejob_start(b, &s), QP_OK);
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    rc = b->rc;
    commit_done(&c);
    return rc;
}

static int complete(const struct msg_ref *task)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, f.s);
    b = commit_bundle(&c, "complete");
    assert_int_equal(singlejob_complete(b, task, QP_STR("42")), QP_OK);
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    rc = b->rc;
    commit_done(&c);
    return rc;
}

/* Claims the task; its GUID is kept in `guid`. */
static struct msg_ref claim(char guid[LIMIT_GUID_SIZE])
{
    struct msg_ref task = {0};
    struct commit c;
    struct op *op;
    commit_init(&c, f.s);
    op = bundle_op(commit_bundle(&c, "claim"), OP_msg_claim);
    op->msg_claim = (struct op_msg_claim){
        .ns = ref.ns, .topic = QP_STR("charge"), .want = 10, .lease_ms = 1000};
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(op->msg_claim.out_count, 1);
    memcpy(guid, op->msg_claim.out_messages[0]->guid.p, LIMIT_GUID_SIZE);
    task = (struct msg_ref){
        ref.ns, ref.job, {guid, LIMIT_GUID_SIZE}, op->msg_claim.out_messages[0]->token};
    commit_done(&c);
    return task;
}

static void assert_act(const char *addr, const char *ledger, const char *guid_ledger)
{
    char text[16];
    const struct act_row *act = storetest_row(
        &f, TABLE_act, &(struct act_row){.ns = ref.ns, .job = ref.job, .addr = str_from(addr)});
    assert_non_null(act);
    ledger_text(act->ledger, text);
    assert_string_equal(text, ledger);
    ledger_text(act->guid_ledger, text);
    assert_string_equal(text, guid_ledger);
}

static void assert_job(int64_t sem, int64_t status, int64_t completions)
{
    const struct job_row *job =
        storetest_row(&f, TABLE_job, &(struct job_row){.ns = ref.ns, .job = ref.job});
    assert_non_null(job);
    assert_int_equal(job->sem, sem);
    assert_int_equal(job->status, status);
    assert_int_equal(job->completions, completions);
}

/* The digits of the trigger (spec 20.1) and of a closing worker (20.2, with H4), at each stage; the
 * semaphore 1, then 0. */
static void test_digits(void **state)
{
    char guid[LIMIT_GUID_SIZE];
    struct msg_ref task;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        storetest_init(&f, (enum storetest_kind)kind, 1);
        assert_int_equal(start("{}", 1), QP_OK);
        assert_job(1, STATUS_RUNNING, 0);
        assert_act("trigger,0", "101100000000001", "000011000000000");
        assert_act(SINGLE_ADDRESS, "001100000000000", "000000000000000");
        storetest_reopen(&f);
        task = claim(guid);
        assert_int_equal(complete(&task), QP_OK);
        assert_job(0, STATUS_COMPLETED, 1);
        assert_act(SINGLE_ADDRESS, "201100000000001", "000111100000001");
        assert_int_equal(storetest_count(&f, TABLE_msg), 0);
        storetest_done(&f);
    }
}

/* The same start again is the same job; another input is a conflict; a late or repeated completion
 * changes nothing. */
static void test_duplicates(void **state)
{
    char first_guid[LIMIT_GUID_SIZE];
    char second_guid[LIMIT_GUID_SIZE];
    struct msg_ref first;
    struct msg_ref second;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct op wake = {.kind = OP_wake, .wake = {.limit = 10}};
        storetest_init(&f, (enum storetest_kind)kind, 1);
        assert_int_equal(start("{}", 1), QP_OK);
        assert_int_equal(start("{}", 2), QP_E_EXISTS);
        assert_int_equal(start("[]", 3), QP_E_CONFLICT);
        first = claim(first_guid);
        testenv_advance_ms(&f.t, 1001);
        assert_int_equal(storetest_op(&f, &wake), QP_OK);
        second = claim(second_guid);
        assert_int_equal(complete(&first), QP_E_STALE); /* a zombie's answer */
        assert_job(1, STATUS_RUNNING, 0);
        assert_int_equal(complete(&second), QP_OK);
        assert_int_equal(complete(&second), QP_E_STALE);
        assert_job(0, STATUS_COMPLETED, 1);
        storetest_done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_digits),
                                       cmocka_unit_test(test_duplicates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
