/* conform_ledger.c - ledgers digit for digit, as the document writes them (001, sections 18 and 20;
 * rulings H1, H6 to H8)
 *
 * Every expected value is the fifteen-digit text of the document.
 */
#include "store/conform.h"

#define ADDR QP_STR("w")
#define WORK_ONCE                                                                                  \
    {                                                                                              \
        .weight = W_WORK, .radix = 10, .min = 0, .max = 0                                          \
    }
#define ENTRIES_BELOW_99                                                                           \
    {                                                                                              \
        .weight = W_ENTRY, .radix = 100, .min = 0, .max = LIMIT_LEG1_ENTRIES - 1                   \
    }

static void create(struct storetest *f, int64_t ledger)
{
    DO(f, OP(act_create, .ref = JOB(100), .addr = ADDR, .category = 'A', .ledger = ledger,
             .input = QP_STR("in")));
}

static struct op entry(void)
{
    return OP(act_add, .ref = JOB(100), .addr = ADDR, .weight = W_ENTRY,
              .guards = {ENTRIES_BELOW_99}, .guard_count = 1, .attempt = -1);
}

static struct op leg1(void)
{
    return OP(act_add, .ref = JOB(100), .addr = ADDR, .weight = W_LEG1,
              .guards = {GUARD_CLEAR(W_LEG1)}, .guard_count = 1, .attempt = -1);
}

static struct op enter(unsigned guid, int64_t ceiling)
{
    return OP(guid_enter, .ref = JOB(100), .addr = ADDR, .guid = G(guid),
              .ordinal_ceiling = ceiling, .guards = {GUARD_SET(W_LEG1), GUARD_CLEAR(W_FINAL / 2)},
              .guard_count = 2);
}

static struct op step1(unsigned guid)
{
    return OP(guid_add, .ref = JOB(100), .addr = ADDR, .guid = G(guid), .weight = W_WORK,
              .guards = {WORK_ONCE}, .guard_count = 1);
}

static int64_t act_ledger(struct storetest *f)
{
    return conform_act_row(f, 100, ADDR)->ledger;
}

static int64_t guid_ledger(struct storetest *f, unsigned guid)
{
    return conform_guid_row(f, 100, ADDR, guid)->ledger;
}

/* Proves section 18.1 with H6: entry, completion, a replayed entry, and that leg 1 completes
 * once. */
static void test_18_1_leg1(void **state)
{
    struct storetest *f = *state;
    struct op op;
    struct stop stop;
    conform_job(f, 100);
    create(f, 0);
    assert_ledger(act_ledger(f), "000000000000000");
    op = entry();
    DO(f, op);
    assert_ledger(act_ledger(f), "001000000000000");
    DO(f, leg1());
    assert_ledger(act_ledger(f), "001100000000000");
    stop = REFUSED(f, QP_E_DIGIT, leg1());
    assert_int_equal(stop.weight, W_LEG1);
    assert_ledger(stop.found, "001100000000000");
    op = conform_run(f, entry(), __FILE__, __LINE__);
    assert_ledger(op.act_add.out_ledger, "002100000000000");
    assert_ledger(act_ledger(f), "002100000000000");
}

/* Proves section 18.2: the activity counts, the GUID copies the ordinal once, step 1 marks the GUID
 * alone; and H1: a zombie that repeats the step is stopped by the digit. */
static void test_18_2_leg2(void **state)
{
    struct storetest *f = *state;
    struct op op;
    struct stop stop;
    conform_job_open(f, 100, 1);
    create(f, LEDGER("001100000000000"));
    op = conform_run(f, enter(1, LIMIT_LEG2_ENTRIES), __FILE__, __LINE__);
    assert_int_equal(op.guid_enter.out_ordinal, 1);
    assert_ledger(op.guid_enter.out_ledger, "000000000000001");
    assert_ledger(act_ledger(f), "001100000000001");
    assert_ledger(guid_ledger(f, 1), "000000000000001");
    op = conform_run(f, step1(1), __FILE__, __LINE__);
    assert_ledger(op.guid_add.out_ledger, "000010000000001");
    assert_ledger(act_ledger(f), "001100000000001");
    stop = REFUSED(f, QP_E_DIGIT, step1(1));
    assert_int_equal(stop.weight, W_WORK);
    assert_ledger(stop.found, "000010000000001");
    op =
        enter(1, LIMIT_LEG2_ENTRIES); /* the crash, and the same GUID again: resume by its digits */
    stop = REFUSED(f, QP_E_DONE, op);
    assert_ledger(stop.found, "000010000000001");
    op = conform_refused_op(f, QP_E_DONE, enter(1, LIMIT_LEG2_ENTRIES));
    assert_ledger(op.guid_enter.out_ledger, "000010000000001");
    assert_int_equal(op.guid_enter.out_ordinal, 1);
    assert_ledger(act_ledger(f), "001100000000001");
}

/* Proves section 20.1: the trigger's pre-seeded activity, and its GUID from inception through work
 * to completion; with N = 0 the edge is the trigger's own, and the GUID ends as H10 says. */
static void test_20_1_trigger(void **state)
{
    struct storetest *f = *state;
    qp_str t = QP_STR("t");
    conform_job(f, 100);
    assert_ledger(conform_act_row(f, 100, t)->ledger, "101100000000001");
    assert_ledger(conform_guid_row(f, 100, t, 100)->ledger, "000010000000000");
    conform_job_open(f, 101, 2);
    assert_ledger(conform_guid_row(f, 101, t, 101)->ledger, "000011000000000");
    assert_int_equal(conform_job_row(f, 101)->sem, 2);
    conform_job_open(f, 102, 0);
    assert_ledger(conform_guid_row(f, 102, t, 102)->ledger, "000111000000000");
    DO(f,
       OP(guid_add, .ref = JOB(102), .addr = t, .guid = G(102), .weight = W_DONE,
          .guards = {GUARD_SET(W_CLOSED), GUARD_SET(W_SPAWN), GUARD_CLEAR(W_DONE)},
          .guard_count = 3),
       OP(job_finish, .ref = JOB(102), .guid = G(102)));
    assert_ledger(conform_guid_row(f, 102, t, 102)->ledger, "000111100000000");
}

/* Proves section 20.2 with H4: a worker that does not close the job is finalized by its step 2; a
 * new GUID is refused from then on. */
static void test_20_2_worker(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    conform_job_open(f, 100, 5);
    create(f, 0);
    DO(f, entry());
    DO(f, leg1());
    assert_ledger(act_ledger(f), "001100000000000");
    DO(f, enter(1, LIMIT_LEG2_ENTRIES), step1(1));
    DO(f, conform_step2(100, ADDR, 1, 2, true));
    assert_ledger(guid_ledger(f, 1), "000011000000001");
    assert_ledger(act_ledger(f), "201100000000001");
    assert_int_equal(conform_job_row(f, 100)->sem, 6); /* 18.3: 5 + (2 - 1) */
    stop = REFUSED(f, QP_E_DIGIT, enter(2, LIMIT_LEG2_ENTRIES));
    assert_int_equal(stop.weight, W_FINAL / 2);
    assert_ledger(stop.found, "201100000000001");
}

/* Proves H4 and section 18.4 for the closing worker: between step 2 and step 3 the activity is not
 * final; step 3 marks the GUID and finalizes, in one. */
static void test_20_2_closing(void **state)
{
    struct storetest *f = *state;
    conform_job_open(f, 100, 1);
    create(f, LEDGER("001100000000000"));
    DO(f, enter(1, LIMIT_LEG2_ENTRIES), step1(1));
    DO(f, conform_step2(100, ADDR, 1, 0, true));
    assert_ledger(guid_ledger(f, 1), "000111000000001");
    assert_ledger(act_ledger(f), "001100000000001");
    DO(f,
       OP(guid_add, .ref = JOB(100), .addr = ADDR, .guid = G(1), .weight = W_DONE,
          .guards = {GUARD_SET(W_CLOSED), GUARD_CLEAR(W_DONE)}, .guard_count = 2),
       OP(act_add, .ref = JOB(100), .addr = ADDR, .weight = W_FINAL,
          .guards = {GUARD_CLEAR(W_FINAL / 2)}, .guard_count = 1, .attempt = -1),
       OP(job_finish, .ref = JOB(100), .guid = G(1)));
    assert_ledger(guid_ledger(f, 1), "000111100000001");
    assert_ledger(act_ledger(f), "201100000000001");
}

/* Proves the contract of act_create: once, with its input and a journal entry; what is there is
 * found. */
static void test_act_create(void **state)
{
    static char long_text[LIMIT_ADDRESS_SIZE + 1];
    struct storetest *f = *state;
    struct op op;
    memset(long_text, 'x', sizeof long_text);
    conform_job(f, 100);
    create(f, LEDGER("001100000000000"));
    assert_str(conform_act_row(f, 100, ADDR)->input, QP_STR("in"));
    assert_int_equal(conform_act_row(f, 100, ADDR)->seq, 2);
    assert_int_equal(REFUSED(f, QP_E_DONE, OP(act_create, .ref = JOB(100), .addr = ADDR)).found,
                     LEDGER("001100000000000"));
    op = conform_refused_op(f, QP_E_DONE, OP(act_create, .ref = JOB(100), .addr = ADDR));
    assert_ledger(op.act_create.out_found, "001100000000000");
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(act_create, .ref = JOB(101), .addr = ADDR));
    (void)REFUSED(f, QP_E_INVALID, OP(act_create, .ref = JOB(100)));
    (void)REFUSED(f, QP_E_INVALID,
                  OP(act_create, .ref = JOB(100), .addr = {long_text, sizeof long_text}));
    (void)REFUSED(f, QP_E_INVALID,
                  OP(act_create, .ref = JOB(100), .addr = QP_STR("x"), .ledger = -1));
    (void)REFUSED(f, QP_E_INVALID,
                  OP(act_create, .ref = JOB(100), .addr = QP_STR("x"), .ledger = LIMIT_LEDGER + 1));
    (void)REFUSED(f, QP_E_INVALID,
                  OP(act_create, .ref = JOB(100), .addr = QP_STR("x"), .waits = ACT_RETRIES));
    DO(f, OP(act_create, .ref = JOB(100), .addr = {long_text, LIMIT_ADDRESS_SIZE},
             .ledger = LIMIT_LEDGER));
}

/* Proves that a row can be born waiting: its job counts it, and the answer that takes its obligation ends that. */
static void test_born_waiting(void **state)
{
    struct storetest *f = *state;
    int64_t waits;
    conform_job(f, 100);
    (void)REFUSED(f, QP_E_INVALID,
                  OP(act_create, .ref = JOB(100), .addr = ADDR, .category = 'A',
                     .waits = ACT_WAITS)); /* it is not open */
    conform_job_open(f, 101, 2);
    waits = conform_job_row(f, 101)->waits;
    DO(f, OP(act_create, .ref = JOB(101), .addr = ADDR, .category = 'A', .waits = ACT_WAITS,
             .ledger = LEDGER("001100000000000")));
    assert_int_equal(conform_act_row(f, 101, ADDR)->waits, ACT_WAITS);
    assert_int_equal(conform_job_row(f, 101)->waits, waits + 1);
    (void)REFUSED(f, QP_E_DONE, OP(act_create, .ref = JOB(101), .addr = ADDR, .waits = ACT_WAITS));
    assert_int_equal(conform_job_row(f, 101)->waits, waits + 1);
    for (int i = 0; i < 2; i++) { /* it is worked on: once, or said again */
        DO(f, OP(act_add, .ref = JOB(101), .addr = ADDR, .attempt = -1, .works = true));
        assert_int_equal(conform_act_row(f, 101, ADDR)->waits, ACT_BUSY);
        assert_int_equal(conform_job_row(f, 101)->waits, waits);
    }
}

/* Proves that a guard on one digit stops with QP_E_DIGIT and one on a counter with QP_E_CEILING,
 * each naming its weight and the ledger that was found, and that the first guard that fails is the
 * one reported. */
static void test_guards(void **state)
{
    static const struct {
        struct guard guard;
        int code;
    } cases[] = {
        {GUARD_SET(W_FINAL / 2), QP_E_DIGIT},
        {GUARD_CLEAR(W_LEG1), QP_E_DIGIT},
        {{.weight = W_LEG1, .radix = 10, .min = 2, .max = 9}, QP_E_DIGIT},
        {{.weight = W_ENTRY, .radix = 100, .min = 0, .max = 41}, QP_E_CEILING},
        {{.weight = W_ENTRY, .radix = 100, .min = 43, .max = 99}, QP_E_CEILING},
        {{.weight = 1, .radix = 100000000, .min = 0, .max = 6}, QP_E_CEILING},
        {GUARD_SET(W_LEG1), QP_OK},
        {{.weight = W_ENTRY, .radix = 100, .min = 42, .max = 42}, QP_OK},
        {{.weight = 1, .radix = 100000000, .min = 7, .max = 7}, QP_OK},
    };
    struct storetest *f = *state;
    conform_job(f, 100);
    create(f, LEDGER("042100000000007"));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct op op = OP(act_add, .ref = JOB(100), .addr = ADDR, .attempt = -1, .guard_count = 2);
        op.act_add.guards[0] = (struct guard)GUARD_SET(W_LEG1);
        op.act_add.guards[1] = cases[i].guard;
        if (cases[i].code == QP_OK) {
            DO(f, op);
        } else {
            struct stop stop = REFUSED(f, cases[i].code, op);
            assert_int_equal(stop.weight, cases[i].guard.weight);
            assert_ledger(stop.found, "042100000000007");
        }
    }
    assert_ledger(act_ledger(f), "042100000000007");
}

/* Proves H7: the 99th entry is the last, also for two who read 98; nothing carries into position
 * 1. */
static void test_ceiling_99(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    conform_job(f, 100);
    create(f, LEDGER("098100000000003"));
    DO(f, entry());
    assert_ledger(act_ledger(f), "099100000000003");
    stop = REFUSED(f, QP_E_CEILING, entry());
    assert_int_equal(stop.weight, W_ENTRY);
    assert_ledger(stop.found, "099100000000003");
}

/* Proves H8 and carry isolation: the 99,999,999th GUID is the last; the digits above the counter
 * never move. */
static void test_ceiling_ordinals(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    conform_job(f, 100);
    create(f, LEDGER("001199999999998") - LEDGER("000099900000000"));
    assert_ledger(act_ledger(f), "001100099999998");
    DO(f, enter(1, LIMIT_LEG2_ENTRIES));
    assert_ledger(act_ledger(f), "001100099999999");
    assert_ledger(guid_ledger(f, 1), "000000099999999");
    stop = REFUSED(f, QP_E_CEILING, enter(2, LIMIT_LEG2_ENTRIES));
    assert_int_equal(stop.weight, 1);
    assert_ledger(stop.found, "001100099999999");
}

/* Proves that a lower ceiling of the caller's own holds too, and that ordinals are dense and never
 * given twice. */
static void test_ordinals(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    create(f, LEDGER("001100000000000"));
    for (unsigned i = 1; i <= 5; i++) {
        struct op op = conform_run(f, enter(i, 5), __FILE__, __LINE__);
        assert_int_equal(op.guid_enter.out_ordinal, i);
        (void)REFUSED(f, QP_E_DONE, enter(i, 5));
    }
    assert_int_equal(REFUSED(f, QP_E_CEILING, enter(6, 5)).weight, 1);
    (void)REFUSED(f, QP_E_DONE, enter(5, 5)); /* one that is there resumes also at the ceiling */
    DO(f, enter(6, 6));
    assert_ledger(guid_ledger(f, 6), "000000000000006");
}

/* Proves that fifteen digits are all there are: a weight that would pass them, or is negative, is
 * refused. */
static void test_fifteen_digits(void **state)
{
    static const int64_t weights[] = {1, W_LEG1, LIMIT_LEDGER, INT64_MAX, -1, INT64_MIN};
    struct storetest *f = *state;
    conform_job(f, 100);
    create(f, LIMIT_LEDGER);
    DO(f, OP(guid_enter, .ref = JOB(100), .addr = ADDR, .guid = G(1),
             .ledger = LEDGER("999990900000000")));
    for (size_t i = 0; i < ARRAY_COUNT(weights); i++) {
        int64_t guid_weight = weights[i] == 1 ? W_ENTRY : weights[i];
        (void)REFUSED(
            f, QP_E_CEILING,
            OP(act_add, .ref = JOB(100), .addr = ADDR, .weight = weights[i], .attempt = -1));
        (void)REFUSED(
            f, QP_E_CEILING,
            OP(guid_add, .ref = JOB(100), .addr = ADDR, .guid = G(1), .weight = guid_weight));
    }
}

static struct op notify(bool rests, int64_t seen, int64_t after)
{
    return OP(act_notify, .ref = JOB(100), .addr = QP_STR("f"), .rests = rests, .seen = seen,
              .after = after);
}

/* Proves that an activity that decides is out or waits, and that only the change from one to the other says so: what it has
 * seen is not decided on again, what it has not seen is, `after` counts plain notifications, and an urgent one ends it. On a closed job no decision follows. */
static void test_act_notify(void **state)
{
    static const struct {
        bool rests;
        bool urgent;
        bool out_task;
        int64_t seen; /* of a rest: before or after the entry that was made last */
        int64_t after;
        enum act_wait waits;
    } cases[] = {
        {false, false, false, 0, 0, ACT_BUSY}, /* a decision is out */
        {true, false, true, 0, 0, ACT_BUSY},   /* and has not seen this */
        {true, false, false, 1000, 0, ACT_WAITS}, {false, false, true, 0, 0, ACT_BUSY},
        {true, false, false, 1000, 2, ACT_WAITS}, {false, false, false, 0, 0, ACT_WAITS},
        {false, false, true, 0, 0, ACT_BUSY},     {true, false, false, 1000, 9, ACT_WAITS},
        {false, true, true, 0, 0, ACT_BUSY},      {true, true, true, 1000, 0, ACT_BUSY},
        {true, false, false, 1000, 1, ACT_WAITS},
    };
    struct storetest *f = *state;
    struct act_row key = {.ns = NS, .job = 100, .addr = QP_STR("f")};
    struct op op = notify(false, 0, 0);
    conform_job_open(f, 100, 2);
    create(f, 0);
    assert_int_equal(storetest_op(f, &op), QP_E_NOT_FOUND);
    DO(f, OP(act_create, .ref = JOB(100), .addr = QP_STR("f"), .category = 'A', .cyclic = 1));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        op = notify(cases[i].rests, cases[i].seen, cases[i].after);
        op.act_notify.urgent = cases[i].urgent;
        assert_int_equal(storetest_op(f, &op), QP_OK);
        assert_int_equal(op.act_notify.out_task, cases[i].out_task);
        assert_int_equal(((const struct act_row *)storetest_row(f, TABLE_act, &key))->waits,
                         cases[i].waits);
    }
    op = notify(true, -1, 0);
    assert_int_equal(storetest_op(f, &op), QP_E_INVALID);
    op = notify(true, 0, -1);
    assert_int_equal(storetest_op(f, &op), QP_E_INVALID);
    op = OP(act_notify, .ref = JOB(100), .addr = ADDR);
    assert_int_equal(storetest_op(f, &op), QP_E_INVALID); /* it is not cyclic */
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_CANCELLED));
    op = notify(false, 0, 0); /* it waits, and its job is over: no decision */
    assert_int_equal(storetest_op(f, &op), QP_OK);
    assert_false(op.act_notify.out_task);
}

/* Proves what act_add writes beside the digit: attempt and error when they are given, and
 * escalation once (H7). */
static void test_act_add_extras(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    struct op escalate = OP(act_add, .ref = JOB(100), .addr = ADDR, .attempt = -1, .escalate = true,
                            .guards = {GUARD_CLEAR(W_LEG1)}, .guard_count = 1);
    conform_job(f, 100);
    create(f, LEDGER("001000000000000"));
    DO(f, OP(act_add, .ref = JOB(100), .addr = ADDR, .attempt = 3, .error = QP_STR("e")));
    DO(f, OP(act_add, .ref = JOB(100), .addr = ADDR, .attempt = -1));
    assert_int_equal(conform_act_row(f, 100, ADDR)->attempt, 3);
    assert_str(conform_act_row(f, 100, ADDR)->error, QP_STR("e"));
    assert_int_equal(conform_act_row(f, 100, ADDR)->escalated, 0);
    DO(f, escalate);
    assert_int_equal(conform_act_row(f, 100, ADDR)->escalated, 1);
    stop = REFUSED(f, QP_E_DIGIT, escalate);
    assert_int_equal(stop.weight, 0);
    assert_ledger(stop.found, "001000000000000");
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(act_add, .ref = JOB(100), .addr = QP_STR("none")));
}

/* Proves that escalation and completion exclude each other: a leg 1 that is complete is not
 * escalated (H7). */
static void test_escalate_completed(void **state)
{
    struct storetest *f = *state;
    conform_job(f, 100);
    create(f, LEDGER("001100000000000"));
    assert_int_equal(REFUSED(f, QP_E_DIGIT,
                             OP(act_add, .ref = JOB(100), .addr = ADDR, .escalate = true,
                                .guards = {GUARD_CLEAR(W_LEG1)}, .guard_count = 1))
                         .weight,
                     W_LEG1);
}

/* Proves the rest of guid_enter: Leg1 GUIDs have ordinal 0 and move no counter; fused steps; what
 * it does not take. */
static void test_guid_enter_rest(void **state)
{
    struct storetest *f = *state;
    struct op op;
    conform_job(f, 100);
    create(f, LEDGER("001100000000000"));
    DO(f, enter(1, 0));
    assert_ledger(guid_ledger(f, 1), "000000000000000");
    assert_ledger(act_ledger(f), "001100000000000");
    op = enter(2, LIMIT_LEG2_ENTRIES);
    op.guid_enter.ledger = W_WORK;
    op.guid_enter.code = 200;
    op.guid_enter.output = QP_STR("out");
    DO(f, op);
    assert_ledger(guid_ledger(f, 2), "000010000000001");
    assert_int_equal(conform_guid_row(f, 100, ADDR, 2)->n, -1);
    assert_int_equal(conform_guid_row(f, 100, ADDR, 2)->code, 200);
    assert_str(conform_guid_row(f, 100, ADDR, 2)->output, QP_STR("out"));
    op = enter(3, LIMIT_LEG2_ENTRIES);
    op.guid_enter.addr = QP_STR("none");
    (void)REFUSED(f, QP_E_NOT_FOUND, op);
    op = enter(3, LIMIT_LEG2_ENTRIES + 1);
    (void)REFUSED(f, QP_E_INVALID, op);
    (void)REFUSED(f, QP_E_INVALID, enter(3, -1));
    op = enter(3, LIMIT_LEG2_ENTRIES);
    op.guid_enter.guid.n = LIMIT_GUID_SIZE - 1;
    (void)REFUSED(f, QP_E_INVALID, op);
    for (size_t i = 0; i < 3; i++) {
        static const int64_t ledgers[] = {-1, 1, LIMIT_LEDGER + 1};
        op = enter(3, LIMIT_LEG2_ENTRIES);
        op.guid_enter.ledger = ledgers[i];
        (void)REFUSED(f, QP_E_INVALID, op);
    }
}

/* Proves the rest of guid_add: an output is written when there is one, kept when there is none. */
static void test_guid_add_rest(void **state)
{
    struct storetest *f = *state;
    struct op op = step1(1);
    conform_job(f, 100);
    create(f, LEDGER("001100000000000"));
    (void)REFUSED(f, QP_E_NOT_FOUND, op);
    DO(f, enter(1, LIMIT_LEG2_ENTRIES));
    op.guid_add.code = 200;
    op.guid_add.output = QP_STR("out");
    DO(f, op);
    DO(f, OP(guid_add, .ref = JOB(100), .addr = ADDR, .guid = G(1), .code = 500));
    assert_int_equal(conform_guid_row(f, 100, ADDR, 1)->code, 200);
    assert_str(conform_guid_row(f, 100, ADDR, 1)->output, QP_STR("out"));
}

/* Proves that a guard without weight or radix is bad input, not a division by zero. */
static void test_guard_without_weight(void **state)
{
    struct storetest *f = *state;
    conform_job_open(f, 100, 1);
    conform_worker(f, 100, ADDR);
    (void)REFUSED(f, QP_E_INVALID,
                  OP(act_add, .ref = JOB(100), .addr = ADDR, .weight = 1, .guard_count = 1));
}

/* Proves that a GUID whose message is still there is not forgotten: it would enter as a new one. */
static void test_fold_needs_no_message(void **state)
{
    struct storetest *f = *state;
    conform_job_open(f, 100, 9);
    conform_worker(f, 100, ADDR);
    conform_answer(f, 100, ADDR, 1);
    DO(f, conform_step2(100, ADDR, 1, 1, false));
    DO(f, OP(msg_put, .ref = JOB(100), .guid = G(1), .topic = QP_STR("t")));
    (void)REFUSED(f, QP_E_CONFLICT, OP(guid_fold, .ref = JOB(100), .addr = ADDR, .guid = G(1)));
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_guard_without_weight),
    CONFORM(test_fold_needs_no_message),
    CONFORM(test_18_1_leg1),
    CONFORM(test_18_2_leg2),
    CONFORM(test_20_1_trigger),
    CONFORM(test_20_2_worker),
    CONFORM(test_20_2_closing),
    CONFORM(test_act_create),
    CONFORM(test_born_waiting),
    CONFORM(test_guards),
    CONFORM(test_ceiling_99),
    CONFORM(test_ceiling_ordinals),
    CONFORM(test_ordinals),
    CONFORM(test_fifteen_digits),
    CONFORM(test_act_add_extras),
    CONFORM(test_act_notify),
    CONFORM(test_escalate_completed),
    CONFORM(test_guid_enter_rest),
    CONFORM(test_guid_add_rest),
};
CONFORM_TOPIC(ledger);
