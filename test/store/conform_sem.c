/* conform_sem.c - semaphores: the compound primitive of step 2, its edge, further scopes, folding
 * (H4, H9, H10) */
#include "store/conform.h"

#define ADDR QP_STR("w")

/* A job of `count` obligations and `answers` GUIDs 1, 2, ... that have run step 1. */
static void prepare(struct storetest *f, int64_t count, unsigned answers)
{
    conform_job_open(f, 100, count);
    conform_worker(f, 100, ADDR);
    for (unsigned i = 1; i <= answers; i++) {
        conform_answer(f, 100, ADDR, i);
    }
}

static struct op move(unsigned guid, int64_t delta)
{
    struct op op = conform_step2(100, ADDR, guid, 0, false);
    op.sem_move.delta = delta;
    return op;
}

/* Proves section 18.3: 5 and two children make 6; n and delta stand on the GUID; no edge. */
static void test_18_3_spawn_two(void **state)
{
    struct storetest *f = *state;
    struct op op;
    prepare(f, 5, 1);
    op = conform_run(f, conform_step2(100, ADDR, 1, 2, false), __FILE__, __LINE__);
    assert_false(op.sem_move.out_edge);
    assert_int_equal(op.sem_move.out_count, 6);
    assert_int_equal(conform_job_row(f, 100)->sem, 6);
    assert_int_equal(conform_guid_row(f, 100, ADDR, 1)->n, 2);
    assert_int_equal(conform_guid_row(f, 100, ADDR, 1)->delta, 1);
    assert_ledger(conform_guid_row(f, 100, ADDR, 1)->ledger, "000011000000001");
    assert_ledger(conform_act_row(f, 100, ADDR)->ledger, "001100000000001");
}

/* Proves section 18.4: 1 and no child make 0, and the GUID that did it owns the edge. */
static void test_18_4_close(void **state)
{
    struct storetest *f = *state;
    struct op op;
    prepare(f, 1, 1);
    op = conform_run(f, conform_step2(100, ADDR, 1, 0, false), __FILE__, __LINE__);
    assert_true(op.sem_move.out_edge);
    assert_int_equal(op.sem_move.out_count, 0);
    assert_str(conform_job_row(f, 100)->closed_by, G(1));
    assert_int_equal(conform_job_row(f, 100)->state, JOB_COMPLETED);
    assert_int_equal(conform_job_row(f, 100)->status, STATUS_COMPLETED);
    assert_int_equal(conform_job_row(f, 100)->completions, 0);
    assert_ledger(conform_guid_row(f, 100, ADDR, 1)->ledger, "000111000000001");
}

/* Proves that a GUID moves a scope once: a second step 2 is stopped, whether it brings guards or
 * not. */
static void test_once(void **state)
{
    struct storetest *f = *state;
    struct op blind = move(1, -1);
    struct stop stop;
    prepare(f, 5, 1);
    DO(f, move(1, -1));
    stop = REFUSED(f, QP_E_DONE, move(1, -1));
    assert_int_equal(stop.weight, W_SPAWN);
    assert_ledger(stop.found, "000011000000001");
    blind.sem_move.guard_count = 0;
    (void)REFUSED(f, QP_E_DONE, blind);
    assert_int_equal(conform_job_row(f, 100)->sem, 4);
}

/* Proves that the guards stand on the GUID's ledger: without step 1 there is no step 2 (H1). */
static void test_guarded(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    prepare(f, 5, 0);
    DO(f, OP(guid_enter, .ref = JOB(100), .addr = ADDR, .guid = G(1),
             .ordinal_ceiling = LIMIT_LEG2_ENTRIES));
    stop = REFUSED(f, QP_E_DIGIT, move(1, -1));
    assert_int_equal(stop.weight, W_WORK);
    assert_ledger(stop.found, "000000000000001");
    (void)REFUSED(f, QP_E_NOT_FOUND, move(2, -1));
}

/* Proves that the count never falls below zero and never overflows. */
static void test_underflow(void **state)
{
    static const int64_t deltas[] = {-3, INT64_MIN, INT64_MAX};
    struct storetest *f = *state;
    prepare(f, 2, 1);
    for (size_t i = 0; i < ARRAY_COUNT(deltas); i++) {
        (void)REFUSED(f, QP_E_UNDERFLOW, move(1, deltas[i]));
    }
    DO(f, move(1, -2));
    assert_int_equal(conform_job_row(f, 100)->sem, 0);
}

/* Proves H10 with a threshold of 2: the edge is a crossing, by a step of any size; it is not hit
 * again by standing still, nor by going up and down once more. */
static void test_edge_is_a_crossing(void **state)
{
    static const struct {
        int64_t opening;
        int64_t deltas[5]; /* of GUIDs 1 .. */
        int edge;          /* which of them is the edge; 0: the opening */
    } cases[] = {
        {3, {0, 0, -1, 1, -1}, 3}, {5, {-4, 4, -4, 0, 0}, 1}, {4, {-1, -1, 0, 1, -1}, 2},
        {2, {0, 1, -1, 0, 0}, 0},  {0, {5, -5, 0, 0, 0}, 0},
    };
    static const char *const jids[] = {"a", "b", "c", "d", "e"};
    struct storetest *f = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct job_ref ref = JOB(100 + (int64_t)i);
        DO(f,
           OP(job_create, .ref = ref, .jid = str_from(jids[i]), .workflow = QP_STR("order"),
              .threshold = 2),
           OP(act_create, .ref = ref, .addr = ADDR));
        for (unsigned g = 0; g <= 5; g++) {
            struct op op = move(g, g == 0 ? cases[i].opening : cases[i].deltas[g - 1]);
            DO(f, OP(guid_enter, .ref = ref, .addr = ADDR, .guid = G(g), .ledger = W_WORK));
            op.sem_move.ref = ref;
            op.sem_move.open = g == 0;
            op = conform_run(f, op, __FILE__, __LINE__);
            assert_int_equal(op.sem_move.out_edge, (int)g == cases[i].edge);
        }
        assert_str(conform_job_row(f, ref.job)->closed_by, G((unsigned)cases[i].edge));
    }
}

/* Proves that a scope 0 is opened once, before it is moved; and what else sem_move does not
 * take. */
static void test_open_once(void **state)
{
    struct storetest *f = *state;
    struct op op;
    conform_job(f, 100);
    conform_worker(f, 100, ADDR);
    conform_answer(f, 100, ADDR, 1);
    (void)REFUSED(f, QP_E_INVALID, move(1, 1)); /* not open yet */
    op = move(100, 3);
    op.sem_move.addr = QP_STR("t");
    op.sem_move.open = true;
    DO(f, op);
    op = move(1, 3);
    op.sem_move.open = true;
    (void)REFUSED(f, QP_E_INVALID, op);
    op = move(1, -1);
    op.sem_move.n = -1;
    (void)REFUSED(f, QP_E_INVALID, op);
    op = move(1, -1);
    op.sem_move.close_state = JOB_OPEN;
    (void)REFUSED(f, QP_E_INVALID, op);
    op.sem_move.close_state = JOB_STATES;
    (void)REFUSED(f, QP_E_INVALID, op);
}

/* Proves that a job which was ended before it was opened takes a move by nothing, from whoever ended it, and
 * no other; it does not count as opened by that. */
static void test_closed_before_opened(void **state)
{
    struct storetest *f = *state;
    struct op op = move(1, 0);
    conform_job(f, 100);
    conform_worker(f, 100, ADDR);
    conform_answer(f, 100, ADDR, 1);
    (void)REFUSED(f, QP_E_INVALID, op); /* it is open */
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(1), .state = JOB_CANCELLED));
    (void)REFUSED(f, QP_E_INVALID, move(1, 1));
    op.sem_move.n = 1;
    (void)REFUSED(f, QP_E_INVALID, op);
    op.sem_move.n = 0;
    DO(f, op);
    assert_int_equal(conform_job_row(f, 100)->sem, 0);
    assert_int_equal(conform_job_row(f, 100)->opened, 0);
    assert_ledger(conform_guid_row(f, 100, ADDR, 1)->ledger, "000011000000001");
}

/* Proves H9: deltas after the close are counted to the last and are no edge; the digit of the edge
 * is on nobody else. */
static void test_after_the_close(void **state)
{
    struct storetest *f = *state;
    prepare(f, 2, 2);
    DO(f, OP(job_close, .ref = JOB(100), .guid = G(7), .state = JOB_INTERRUPTED));
    DO(f, move(1, -1));
    DO(f, move(2, -1));
    assert_int_equal(conform_job_row(f, 100)->sem, 0);
    assert_int_equal(conform_job_row(f, 100)->state, JOB_INTERRUPTED);
    assert_str(conform_job_row(f, 100)->closed_by, G(7));
    assert_ledger(conform_guid_row(f, 100, ADDR, 2)->ledger, "000011000000002");
}

/* Proves H4: finalized by step 2 when there is no edge; and only from 0, so that it happens once: whoever comes
 * second moves nothing, also when that would be the edge. */
static void test_finalize(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    prepare(f, 3, 3);
    DO(f, conform_step2(100, ADDR, 1, 0, true));
    assert_ledger(conform_act_row(f, 100, ADDR)->ledger, "201100000000003");
    stop = REFUSED(f, QP_E_DIGIT, conform_step2(100, ADDR, 2, 0, true));
    assert_int_equal(stop.weight, W_FINAL);
    assert_ledger(stop.found, "201100000000003");
    DO(f, conform_step2(100, ADDR, 2, 0, false));
    (void)REFUSED(f, QP_E_DIGIT, conform_step2(100, ADDR, 3, 0, true));
    assert_int_equal(conform_job_row(f, 100)->sem, 1);
    assert_true(conform_job_row(f, 100)->state == JOB_OPEN);
}

/* Proves H4: at the edge finalizing is left to step 3. */
static void test_finalize_at_the_edge(void **state)
{
    struct storetest *f = *state;
    prepare(f, 1, 1);
    DO(f, conform_step2(100, ADDR, 1, 0, true));
    assert_true(conform_job_row(f, 100)->state == JOB_COMPLETED);
    assert_ledger(conform_act_row(f, 100, ADDR)->ledger, "001100000000001");
}

/* Proves that finalizing compares the whole digit with 0 (H4): an activity that was seeded with 1
 * there is refused. */
static void test_finalize_seeded(void **state)
{
    struct storetest *f = *state;
    struct stop stop;
    conform_job_open(f, 100, 3);
    DO(f, OP(guid_enter, .ref = JOB(100), .addr = QP_STR("t"), .guid = G(1), .ledger = W_WORK));
    stop = REFUSED(f, QP_E_DIGIT, conform_step2(100, QP_STR("t"), 1, 0, true));
    assert_int_equal(stop.weight, W_FINAL);
    assert_ledger(stop.found, "101100000000001");
}

/* Proves that folding forgets a GUID and keeps the sum: count and delta go to the activity's
 * row. */
static void test_fold(void **state)
{
    struct storetest *f = *state;
    struct op fold = OP(guid_fold, .ref = JOB(100), .addr = ADDR, .guid = G(1));
    prepare(f, 2, 4);
    assert_ledger(REFUSED(f, QP_E_CONFLICT, fold).found, "000010000000001"); /* step 2 is to come */
    DO(f, move(1, 3));
    DO(f, fold);
    (void)REFUSED(f, QP_E_NOT_FOUND, fold);
    assert_null(conform_guid_row(f, 100, ADDR, 1));
    assert_int_equal(conform_act_row(f, 100, ADDR)->folded_n, 1);
    assert_int_equal(conform_act_row(f, 100, ADDR)->folded_delta, 3);
    DO(f, move(2, -1));
    fold.guid_fold.guid = G(2);
    DO(f, fold);
    assert_int_equal(conform_act_row(f, 100, ADDR)->folded_n, 2);
    assert_int_equal(conform_act_row(f, 100, ADDR)->folded_delta, 2);
    assert_int_equal(conform_job_row(f, 100)->sem, 4);
    DO(f, move(3, -4));
    fold.guid_fold.guid = G(3);
    assert_ledger(REFUSED(f, QP_E_CONFLICT, fold).found, "000111000000003"); /* owns the edge */
    fold.guid_fold.ref = JOB(101);
    (void)REFUSED(f, QP_E_NOT_FOUND, fold);
}

static struct op scope_move(unsigned guid, int64_t scope, int64_t delta)
{
    return OP(sem_move, .ref = JOB(100), .addr = ADDR, .guid = G(guid), .scope = scope,
              .delta = delta);
}

static struct op scope_open(int64_t scope, int64_t opening, int64_t threshold)
{
    return OP(sem_open, .ref = JOB(100), .scope = scope, .opening = opening, .threshold = threshold,
              .owner_addr = QP_STR("owner"), .guid = G(50), .topic = TOPIC);
}

static const struct sem_row *sem_row(struct storetest *f, int64_t scope)
{
    return storetest_row(f, TABLE_sem, &(struct sem_row){.ns = NS, .job = 100, .scope = scope});
}

/* Proves that a further scope sends its one message when its count first falls to the threshold,
 * and that a GUID moves it once, without a digit of its own. */
static void test_scope(void **state)
{
    struct storetest *f = *state;
    const struct msg_row *m;
    struct op op;
    prepare(f, 5, 4);
    DO(f, scope_open(1, 2, 0));
    op = conform_run(f, scope_move(1, 1, -1), __FILE__, __LINE__);
    assert_false(op.sem_move.out_edge);
    assert_int_equal(op.sem_move.out_count, 1);
    (void)REFUSED(f, QP_E_DONE, scope_move(1, 1, -1));
    op = conform_run(f, scope_move(2, 1, -1), __FILE__, __LINE__);
    assert_true(op.sem_move.out_edge);
    m = conform_msg_row(f, 100, 50);
    assert_int_equal(m->state, MSG_READY);
    assert_str(m->addr, QP_STR("owner"));
    assert_str(m->parent_guid, G(2));
    assert_str(sem_row(f, 1)->closed_by, G(2));
    DO(f, scope_move(3, 1, 2));
    op = conform_run(f, scope_move(4, 1, -2), __FILE__, __LINE__);
    assert_false(op.sem_move.out_edge);
    assert_int_equal(storetest_count(f, TABLE_msg), 1);
    assert_int_equal(conform_job_row(f, 100)->sem, 5);
    assert_ledger(conform_guid_row(f, 100, ADDR, 1)->ledger, "000010000000001");
}

/* Proves the comparisons of a further scope: it is there, it does not fall below zero, its guards
 * hold. */
static void test_scope_refused(void **state)
{
    struct storetest *f = *state;
    struct op op = scope_move(1, 1, -1);
    prepare(f, 5, 1);
    DO(f, scope_open(1, 2, 1));
    (void)REFUSED(f, QP_E_NOT_FOUND, scope_move(1, 2, -1));
    (void)REFUSED(f, QP_E_NOT_FOUND, scope_move(9, 1, -1));
    (void)REFUSED(f, QP_E_UNDERFLOW, scope_move(1, 1, -3));
    op.sem_move.guards[0] = (struct guard)GUARD_SET(W_SPAWN);
    op.sem_move.guard_count = 1;
    assert_int_equal(REFUSED(f, QP_E_DIGIT, op).weight, W_SPAWN);
    DO(f, scope_move(1, 1, -2)); /* over the threshold in one step */
    assert_int_equal(sem_row(f, 1)->count, 0);
    assert_non_null(conform_msg_row(f, 100, 50));
}

/* Proves the contract of sem_open: once, above its threshold, with somebody to tell. */
static void test_scope_open(void **state)
{
    struct storetest *f = *state;
    struct op op;
    prepare(f, 5, 0);
    DO(f, scope_open(1, 1, 0));
    (void)REFUSED(f, QP_E_DONE, scope_open(1, 1, 0));
    (void)REFUSED(f, QP_E_INVALID, scope_open(2, 0, 0));
    (void)REFUSED(f, QP_E_INVALID, scope_open(2, 3, 3));
    (void)REFUSED(f, QP_E_INVALID, scope_open(2, 1, -1));
    (void)REFUSED(f, QP_E_INVALID, scope_open(0, 1, 0));
    op = scope_open(2, 1, 0);
    op.sem_open.guid = QP_NONE;
    (void)REFUSED(f, QP_E_INVALID, op);
    op = scope_open(2, 1, 0);
    op.sem_open.topic = QP_NONE; /* its one message could never be sent */
    (void)REFUSED(f, QP_E_INVALID, op);
    op = scope_open(2, 1, 0);
    op.sem_open.ref = JOB(101);
    (void)REFUSED(f, QP_E_NOT_FOUND, op);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_18_3_spawn_two),
    CONFORM(test_18_4_close),
    CONFORM(test_once),
    CONFORM(test_guarded),
    CONFORM(test_underflow),
    CONFORM(test_edge_is_a_crossing),
    CONFORM(test_open_once),
    CONFORM(test_closed_before_opened),
    CONFORM(test_after_the_close),
    CONFORM(test_finalize),
    CONFORM(test_finalize_at_the_edge),
    CONFORM(test_finalize_seeded),
    CONFORM(test_fold),
    CONFORM(test_scope),
    CONFORM(test_scope_refused),
    CONFORM(test_scope_open),
};
CONFORM_TOPIC(sem);
