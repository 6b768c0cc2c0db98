/* test_step.c - the steps of the ledger protocol, digit for digit, one commit each, on every provider */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernel/step.h"
#include "support/storetest.h"

static struct storetest f;
static const struct job_ref ref = {STORE_NS_DEFAULT, 100};

static const struct site trigger = {
    .ref = {STORE_NS_DEFAULT, 100}, .addr = {"trigger,0", 9}, .never_final = true};
static const struct op_act_create worker_row = {.category = 'A', .topic = {"t", 1}};

/* One bundle of what a function adds, committed; its code. */
#define RUN(call)                                                                                  \
    __extension__({                                                                                \
        struct commit c_;                                                                          \
        struct bundle *b;                                                                          \
        int rc_;                                                                                   \
        commit_init(&c_, f.s);                                                                     \
        b = commit_bundle(&c_, "step");                                                            \
        assert_int_equal((call), QP_OK);                                                           \
        assert_int_equal(store_commit(f.s, &c_), QP_OK);                                           \
        rc_ = b->rc;                                                                               \
        commit_done(&c_);                                                                          \
        rc_;                                                                                       \
    })

static struct site at(const char *addr, unsigned guid)
{
    return (struct site){.ref = ref, .addr = str_from(addr), .guid = storetest_guid(guid)};
}

static struct site trigger_site(void)
{
    struct site site = trigger;
    site.guid = storetest_guid(1);
    return site;
}

static int incept(struct bundle *b, unsigned guid)
{
    return job_incept(b, &(struct incept){.job = {.ref = ref,
                                                  .jid = QP_STR("j"),
                                                  .workflow = QP_STR("w"),
                                                  .owner_guid = storetest_guid(guid)},
                                          .addr = trigger.addr,
                                          .input = QP_STR("{}")});
}

/* A job with `n` obligations. */
static void open_job(int64_t n)
{
    struct site site = trigger_site();
    assert_int_equal(RUN(incept(b, 1)), QP_OK);
    assert_int_equal(RUN(step_open(b, &site, n)), QP_OK);
}

static void assert_act(const char *addr, const char *digits)
{
    char text[16];
    const struct act_row *act = storetest_row(
        &f, TABLE_act, &(struct act_row){.ns = ref.ns, .job = ref.job, .addr = str_from(addr)});
    assert_non_null(act);
    ledger_text(act->ledger, text);
    assert_string_equal(text, digits);
}

static int64_t guid_ledger(const struct site *site)
{
    struct guid_row key = {.ns = ref.ns, .job = ref.job, .addr = site->addr, .guid = site->guid};
    struct guid_row row;
    struct arena arena;
    struct qp_err err;
    arena_init(&arena, &f.t.env, 0);
    assert_int_equal(store_guid(f.s, &arena, &key, &row, &err), QP_OK);
    arena_done(&arena);
    return row.ledger;
}

static void assert_guid(const struct site *site, const char *digits, enum step next)
{
    char text[16];
    ledger_text(guid_ledger(site), text);
    assert_string_equal(text, digits);
    assert_int_equal(step_next(guid_ledger(site)), next);
}

static const struct job_row *job(void)
{
    return storetest_row(&f, TABLE_job, &(struct job_row){.ns = ref.ns, .job = ref.job});
}

/* Every test runs on every provider. */
static void each_kind(void (*test)(void))
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        storetest_init(&f, (enum storetest_kind)kind, 1);
        test();
        storetest_done(&f);
    }
}

static void leg1(void)
{
    struct site w = at("w,0,0", 2);
    open_job(1);
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, false, CEILINGS_DEFAULT)), QP_OK);
    assert_act("w,0,0", "001000000000000");
    assert_int_equal(RUN(leg1_done(b, &w, false)), QP_OK);
    assert_act("w,0,0", "001100000000000");
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, true, CEILINGS_DEFAULT)), QP_OK);
    assert_act("w,0,0", "002100000000000");
    assert_int_equal(RUN(leg1_done(b, &w, false)), QP_E_DIGIT); /* H6: the work is out already */
    assert_act("w,0,0", "002100000000000");
}

/* Spec 18.1: entry, completion, a stale entry; the second completion is refused. */
static void test_18_1(void **state)
{
    (void)state;
    each_kind(leg1);
}

/* A worker that waits for its answer. */
static void waiting(const struct site *w)
{
    assert_int_equal(RUN(leg1_enter(b, w, &worker_row, false, CEILINGS_DEFAULT)), QP_OK);
    assert_int_equal(RUN(leg1_done(b, w, false)), QP_OK);
}

static void leg2(void)
{
    struct site w = at("w,0,0", 2);
    struct spawn two = {.n = 2, .delta = 1, .close_state = JOB_COMPLETED};
    struct site late = at("w,0,0", 3);
    open_job(5);
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, false, CEILINGS_DEFAULT)), QP_OK);
    assert_int_equal(RUN(leg2_enter(b, &w, CEILINGS_DEFAULT)), QP_E_DIGIT); /* Leg1 is not done */
    assert_int_equal(RUN(leg1_done(b, &w, false)), QP_OK);
    assert_int_equal(RUN(leg2_enter(b, &w, CEILINGS_DEFAULT)), QP_OK);
    assert_act("w,0,0", "001100000000001");
    assert_guid(&w, "000000000000001", STEP_WORK);
    assert_int_equal(RUN(step_spawn(b, &w, &two)), QP_E_DIGIT); /* step 1 comes first */
    assert_int_equal(RUN(step_work(b, &w, 200, QP_STR("1"))), QP_OK);
    assert_guid(&w, "000010000000001", STEP_SPAWN);
    assert_act("w,0,0", "001100000000001");
    assert_int_equal(RUN(leg2_enter(b, &w, CEILINGS_DEFAULT)), QP_E_DONE); /* H8: a redelivery */
    assert_int_equal(RUN(step_work(b, &w, 200, QP_STR("2"))), QP_E_DIGIT); /* H1 */
    assert_act("w,0,0", "001100000000001");
    assert_int_equal(RUN(step_spawn(b, &w, &two)), QP_OK);
    assert_int_equal(job()->sem, 6);
    assert_guid(&w, "000011000000001", STEP_ACK);
    assert_act("w,0,0", "201100000000001"); /* H4: finalized with its last step */
    assert_int_equal(RUN(step_spawn(b, &w, &two)), QP_E_DONE);
    assert_int_equal(RUN(leg2_enter(b, &late, CEILINGS_DEFAULT)),
                     QP_E_DIGIT); /* H4: closed to new ones */
    assert_int_equal(job()->sem, 6);
}

/* Spec 18.2, 18.3, 20.2: entry, steps, resume; each step once, in order; finalized when it does not close. */
static void test_18_2_and_18_3(void **state)
{
    (void)state;
    each_kind(leg2);
}

static void closing(void)
{
    struct site w = at("w,0,0", 2);
    struct complete done = {.output = QP_STR("42")};
    open_job(1);
    waiting(&w);
    assert_int_equal(RUN(leg2_enter(b, &w, CEILINGS_DEFAULT)), QP_OK);
    assert_int_equal(RUN(step_work(b, &w, 200, QP_STR("42"))), QP_OK);
    assert_int_equal(RUN(step_complete(b, &w, &done)), QP_E_DIGIT); /* it did not close the job */
    assert_int_equal(
        RUN(step_spawn(b, &w, &(struct spawn){.delta = -1, .close_state = JOB_COMPLETED})), QP_OK);
    assert_int_equal(job()->sem, 0);
    assert_guid(&w, "000111000000001", STEP_COMPLETE);
    assert_act("w,0,0", "001100000000001");
    storetest_reopen(&f); /* H2: found closed, and still to be completed by this GUID */
    assert_int_equal(RUN(step_complete(b, &w, &done)), QP_OK);
    assert_guid(&w, "000111100000001", STEP_ACK);
    assert_act("w,0,0", "201100000000001");
    assert_int_equal(job()->completions, 1);
    assert_int_equal(RUN(step_complete(b, &w, &done)), QP_E_DIGIT);
}

/* Spec 18.4 and 20.2 with H4: the closing GUID, a crash before step 3, completion once. */
static void test_18_4(void **state)
{
    (void)state;
    each_kind(closing);
}

static void inception(void)
{
    struct site site = trigger_site();
    assert_int_equal(RUN(incept(b, 1)), QP_OK);
    assert_act("trigger,0", "101100000000001");
    assert_guid(&site, "000010000000000", STEP_SPAWN);
    assert_int_equal(RUN(incept(b, 2)), QP_E_EXISTS); /* H3: another's attempt */
    assert_int_equal(RUN(step_open(b, &site, 0)), QP_OK);
    assert_guid(&site, "000111000000000", STEP_COMPLETE); /* H10: nothing to wait for is the edge */
    assert_int_equal(RUN(step_complete(b, &site, &(struct complete){.output = QP_STR("{}")})),
                     QP_OK);
    assert_guid(&site, "000111100000000", STEP_ACK);
    assert_act("trigger,0", "101100000000001");
    assert_int_equal(job()->completions, 1);
}

/* Spec 20.1 with H3 and H10: the trigger's digits, its duplicate, a job without children. */
static void test_20_1(void **state)
{
    (void)state;
    each_kind(inception);
}

static void passthrough(void)
{
    struct site h = at("h,0,0", 2);
    open_job(2);
    assert_int_equal(
        RUN(leg1_enter(b, &h, &(struct op_act_create){.category = 'B'}, false, CEILINGS_DEFAULT)),
        QP_OK);
    assert_int_equal(RUN(guid_seed(b, &h)), QP_OK);
    assert_guid(&h, "000000000000000", STEP_WORK);
    assert_int_equal(RUN(leg1_work(b, &h, 0, QP_STR("{}"), false)), QP_OK);
    assert_guid(&h, "000010000000000", STEP_SPAWN);
    assert_act("h,0,0", "001100000000000");
    assert_int_equal(step_dimension(guid_ledger(&h)), 0);
    assert_int_equal(RUN(step_spawn(b, &h, &(struct spawn){.n = 1, .close_state = JOB_COMPLETED})),
                     QP_OK);
    assert_guid(&h, "000011000000000", STEP_ACK);
    assert_act("h,0,0", "201100000000000");
    assert_int_equal(job()->sem, 2);
}

/* Spec 20.4, 20.5 (category B): the three steps in Leg1, with a GUID of ordinal 0. */
static void test_category_b(void **state)
{
    (void)state;
    each_kind(passthrough);
}

static void cycles(void)
{
    struct site pivot = at("p,0,0", 2);
    struct site again = at("p,0,0", 3);
    struct site cycle = at("c,0,0,0", 4);
    pivot.never_final = true;
    again.never_final = true;
    open_job(1);
    assert_int_equal(
        RUN(leg1_enter(b, &pivot, &(struct op_act_create){.category = 'B', .cyclic = 1}, false,
                       CEILINGS_DEFAULT)),
        QP_OK);
    assert_int_equal(RUN(leg1_done(b, &pivot, true)), QP_OK); /* H14: the pivot is seeded, too */
    assert_act("p,0,0", "001100000000001");
    assert_int_equal(RUN(leg1_enter(b, &cycle, &(struct op_act_create){.category = 'C'}, false,
                                    CEILINGS_DEFAULT)),
                     QP_OK);
    assert_int_equal(RUN(leg1_done(b, &cycle, true)), QP_OK);
    assert_act("c,0,0,0", "001100000000001");
    assert_int_equal(RUN(leg2_enter(b, &again, CEILINGS_DEFAULT)), QP_OK);
    assert_act("p,0,0", "001100000000002");
    assert_int_equal(step_dimension(guid_ledger(&again)), 1); /* not the original plane */
    assert_int_equal(RUN(step_work(b, &again, 0, QP_STR("{}"))), QP_OK);
    assert_int_equal(
        RUN(step_spawn(b, &again, &(struct spawn){.n = 1, .close_state = JOB_COMPLETED})), QP_OK);
    assert_act("p,0,0", "001100000000002"); /* a cycle is never finalized */
}

/* Spec 20.6 and 15 with H14 and H8: both are pre-seeded, the first round again is in plane 1. */
static void test_cycle(void **state)
{
    (void)state;
    each_kind(cycles);
}

static void interrupting(void)
{
    struct site i = at("i,0,0", 2);
    struct site other = at("w,0,0", 3);
    open_job(2);
    waiting(&other);
    assert_int_equal(RUN(leg2_enter(b, &other, CEILINGS_DEFAULT)), QP_OK);
    assert_int_equal(
        RUN(leg1_enter(b, &i, &(struct op_act_create){.category = 'C'}, false, CEILINGS_DEFAULT)),
        QP_OK);
    assert_int_equal(RUN(guid_seed(b, &i)), QP_OK);
    assert_int_equal(RUN(leg1_work(b, &i, 0, QP_STR("{}"), false)), QP_OK);
    assert_act("i,0,0", "001100000000000");
    assert_int_equal(RUN(job_end(b, &i, JOB_INTERRUPTED, QP_STR("410"))), QP_OK);
    assert_int_equal(job()->state, JOB_INTERRUPTED);
    assert_int_equal(RUN(job_end(b, &other, JOB_FAILED, QP_STR("late"))), QP_E_CLOSED);
    assert_int_equal(RUN(step_work(b, &other, 200, QP_STR("1"))), QP_OK);
    assert_int_equal(
        RUN(step_spawn(b, &other, &(struct spawn){.delta = -1, .close_state = JOB_COMPLETED})),
        QP_OK);
    assert_guid(&other, "000011000000001", STEP_ACK); /* counted, and no edge */
    assert_int_equal(job()->sem, 1);
    assert_int_equal(job()->state, JOB_INTERRUPTED);
}

/* H9: whoever ends a job out of its turn owns the edge; later deltas count and close nothing. */
static void test_interrupt(void **state)
{
    (void)state;
    each_kind(interrupting);
}

static void ceilings(void)
{
    struct ceilings low = {.leg1 = 3, .leg2 = 2};
    struct site w = at("w,0,0", 2);
    struct site v = at("v,0,0", 3);
    open_job(2);
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, false, low)), QP_OK);
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, true, low)), QP_OK);
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, true, low)), QP_OK);
    assert_int_equal(RUN(leg1_enter(b, &w, &worker_row, true, low)), QP_E_CEILING);
    assert_act("w,0,0", "003000000000000");
    assert_int_equal(RUN(leg1_escalate(b, &w, QP_STR("too many entries"))), QP_OK);
    assert_int_equal(RUN(leg1_escalate(b, &w, QP_STR("again"))), QP_E_DIGIT);
    assert_int_equal(RUN(leg1_done(b, &w, false)), QP_E_DIGIT); /* escalated or done, never both */
    waiting(&v);
    assert_int_equal(RUN(leg1_escalate(b, &v, QP_STR("late"))), QP_E_DIGIT);
    for (unsigned i = 0; i < 3; i++) {
        struct site entry = at("v,0,0", 10 + i);
        assert_int_equal(RUN(leg2_enter(b, &entry, low)), i < 2 ? QP_OK : QP_E_CEILING);
    }
    assert_act("v,0,0", "001100000000002");
}

/* H7 and spec 3: ceilings by comparison, escalation terminal and only instead of completion. */
static void test_ceilings(void **state)
{
    (void)state;
    each_kind(ceilings);
}

static void pending(void)
{
    struct site first = at("w,0,0", 2);
    struct site second = at("w,0,0", 3);
    open_job(1);
    waiting(&first);
    assert_int_equal(RUN(leg2_enter(b, &first, CEILINGS_DEFAULT)), QP_OK);
    assert_int_equal(RUN(step_work(b, &first, 202, QP_STR("1"))), QP_OK);
    assert_int_equal(
        RUN(step_spawn(
            b, &first,
            &(struct spawn){.n = 1, .delta = 1, .pending = true, .close_state = JOB_COMPLETED})),
        QP_OK);
    assert_act("w,0,0", "001100000000001");
    assert_int_equal(job()->sem, 2);
    assert_int_equal(RUN(leg2_enter(b, &second, CEILINGS_DEFAULT)), QP_OK);
    assert_int_equal(step_dimension(guid_ledger(&second)), 1);
}

/* H4: a pending reply keeps Leg2 open; the next one runs in the next dimension. */
static void test_pending(void **state)
{
    (void)state;
    each_kind(pending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_18_1),       cmocka_unit_test(test_18_2_and_18_3),
        cmocka_unit_test(test_18_4),       cmocka_unit_test(test_20_1),
        cmocka_unit_test(test_category_b), cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_interrupt),  cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
