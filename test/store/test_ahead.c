/* test_ahead.c - deciding a commit while the one before it is being written
 *
 * The writer of these tests is late on purpose: it writes when somebody waits for it, and not before.
 * So whatever the second commit finds, it finds in what is known of the first. Random commits must
 * have the same answers and leave the same rows as without a writer.
 *
 * QP_SEED=n repeats a run.
 */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "support/opgen.h"
#include "support/opresult.h"
#include "support/statetext.h"
#include "support/storetest.h"

#define COMMITS 800
#define COMPARE_EVERY 10

/* ------------------------------------------------------------------------------- the late writer */

static struct {
    void (*work)(void *argument);
    void *argument;
    int writes;
} late;

static void late_begin(void *context, void (*work)(void *argument), void *argument)
{
    (void)context;
    assert_null(late.work);
    late.work = work;
    late.argument = argument;
}

static bool late_is_busy(void *context)
{
    (void)context;
    return late.work != NULL;
}

static void late_wait(void *context)
{
    void (*work)(void *argument) = late.work;
    (void)context;
    if (work != NULL) {
        work(late.argument);
        late.work = NULL;
        late.writes++;
    }
}

static const struct store_writer late_writer = {NULL, late_begin, late_is_busy, late_wait};

static struct storetest f;

static int set_up(void **state)
{
    (void)state;
    storetest_init(&f, STORETEST_SQLITE, 1);
    assert_true(store_use_writer(f.s, &late_writer));
    late.writes = 0;
    return 0;
}

static int set_up_small(void **state)
{
    (void)state;
    storetest_init(&f, STORETEST_SQLITE_SMALL, 1);
    assert_true(store_use_writer(f.s, &late_writer));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(failpoint_set(NULL), QP_OK);
    store_settle(f.s);
    assert_false(store_use_writer(f.s, NULL));
    storetest_done(&f);
    return 0;
}

/* --------------------------------------------------------------------------------- two commits */

static const struct job_ref job = {.ns = STORE_NS_DEFAULT, .job = 1};

static void add_job(struct commit *c)
{
    struct op *op = bundle_op(commit_bundle(c, "job"), OP_job_create);
    op->job_create = (struct op_job_create){.ref = job,
                                            .jid = QP_STR("a"),
                                            .workflow = QP_STR("w"),
                                            .owner_guid = storetest_guid(1),
                                            .body_hash = storetest_guid(2),
                                            .fresh = true};
}

/* The job first, as whoever works on one does: of what is not there it then is known that it is not. */
static struct bundle *add_activity(struct commit *c, const char *addr)
{
    struct bundle *b = commit_bundle(c, "activity");
    bundle_op(b, OP_job_set)->job_set = (struct op_job_set){.ref = job};
    bundle_op(b, OP_act_create)->act_create = (struct op_act_create){
        .ref = job, .addr = str_from(addr), .category = 'A', .topic = QP_STR("t")};
    return b;
}

/* A job is created and being written; an activity of it is decided. */
static void begin_two(struct commit *first, struct commit *second)
{
    commit_init(first, f.s);
    commit_init(second, f.s);
    add_job(first);
    assert_int_equal(store_decide(f.s, first), QP_OK);
    store_write(f.s, first, true);
    assert_int_equal(first->state, COMMIT_RUNNING);
    (void)add_activity(second, "0");
    assert_int_equal(store_decide(f.s, second), QP_OK);
    assert_int_equal(second->first->rc, QP_OK);
}

static void end_two(struct commit *first, struct commit *second)
{
    commit_done(first);
    commit_done(second);
}

static size_t count(enum table_id table)
{
    return storetest_count(&f, table);
}

/* The second stands on a row that no file has yet, and needs nothing of the store for it. */
static void test_decided_on_what_is_being_written(void **state)
{
    struct commit first;
    struct commit second;
    (void)state;
    /* The head row is known from the commits before. */
    assert_int_equal(storetest_op(&f, &(struct op){.kind = OP_ids_reserve, .ids_reserve.count = 1}),
                     QP_OK);
    begin_two(&first, &second);
    assert_true(store_is_writing(f.s));
    assert_false(store_has_reached(&second));
    assert_int_equal(late.writes, 0);
    store_write(f.s, &second, true);
    assert_int_equal(first.state, COMMIT_DONE);
    assert_int_equal(first.rc, QP_OK);
    assert_int_equal(second.state, COMMIT_RUNNING);
    assert_int_equal(count(TABLE_act), 1); /* which waits for it */
    assert_int_equal(second.state, COMMIT_DONE);
    assert_int_equal(second.rc, QP_OK);
    end_two(&first, &second);
}

/* More bundles may join until it is written. */
static void test_bundles_join(void **state)
{
    struct commit first;
    struct commit second;
    struct bundle *again;
    (void)state;
    begin_two(&first, &second);
    again = add_activity(&second, "0");
    (void)add_activity(&second, "1");
    assert_int_equal(store_decide(f.s, &second), QP_OK);
    assert_int_equal(again->rc, QP_E_DONE); /* by the bundle that came earlier */
    assert_int_equal(second.last->rc, QP_OK);
    store_write(f.s, &second, false);
    assert_int_equal(second.rc, QP_OK);
    assert_int_equal(count(TABLE_act), 2);
    end_two(&first, &second);
}

/* What was decided on a commit that failed fails with it, and nothing of either is there. */
static void test_the_second_fails_with_the_first(void **state)
{
    static const char *const points[] = {"commit.before", "write.job"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        struct commit first;
        struct commit second;
        char spec[64];
        (void)snprintf(spec, sizeof spec, "%s=error", points[i]);
        begin_two(&first, &second);
        assert_int_equal(failpoint_set(spec), QP_OK);
        store_write(f.s, &second, true);
        assert_int_equal(failpoint_set(NULL), QP_OK);
        assert_int_equal(first.rc, QP_E_IO);
        assert_int_equal(first.first->rc, QP_E_IO);
        assert_int_equal(second.state, COMMIT_DONE);
        assert_int_equal(second.rc, QP_E_IO);
        assert_int_equal(second.first->rc, QP_E_IO);
        assert_false(store_is_writing(f.s));
        assert_int_equal(count(TABLE_job), 0);
        assert_int_equal(count(TABLE_act), 0);
        end_two(&first, &second);
    }
}

static int ask(void *context, struct bundle *b)
{
    return bundle_definitions(b, context);
}

/* The first changes what a name means. */
static void begin_defining(struct commit *first, struct commit *second, struct definitions *found)
{
    commit_init(first, f.s);
    commit_init(second, f.s);
    bundle_op(commit_bundle(first, "put"), OP_app_put)->app_put = (struct op_app_put){
        .ns = STORE_NS_DEFAULT, .app = QP_STR("a"), .version = QP_STR("1"), .hash = QP_STR("h")};
    bundle_op(commit_bundle(first, "topic"), OP_topic_put)->topic_put = (struct op_topic_put){
        .ns = STORE_NS_DEFAULT, .topic = QP_STR("t"), .app = QP_STR("a"), .version = QP_STR("1")};
    assert_int_equal(store_decide(f.s, first), QP_OK);
    store_write(f.s, first, true);
    (void)commit_decided(second, "ask", ask, found);
    assert_int_equal(store_decide(f.s, second), QP_OK);
}

/* The number of definitions is that of the commit that is being written, and asks nothing of the store; when that commit
 * fails, it is what it was. */
static void test_definitions(void **state)
{
    struct commit first;
    struct commit second;
    struct definitions found = {-1, -1};
    struct op reserve = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
    (void)state;
    commit_init(&first, f.s); /* it is asked for once; from then on it is known */
    (void)commit_decided(&first, "ask", ask, &found);
    assert_int_equal(store_commit(f.s, &first), QP_OK);
    assert_int_equal(found.number, 0);
    commit_done(&first);
    assert_int_equal(storetest_op(&f, &reserve), QP_OK);
    begin_defining(&first, &second, &found);
    assert_false(store_has_reached(&second));
    assert_int_equal(found.number, 1);
    assert_int_equal(found.serial, 0);
    assert_int_equal(failpoint_set("commit.before=error"), QP_OK);
    store_write(f.s, &second, true);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(first.rc, QP_E_IO);
    assert_int_equal(second.rc, QP_E_IO);
    end_two(&first, &second);
    commit_init(&first, f.s);
    (void)commit_decided(&first, "ask", ask, &found);
    assert_int_equal(store_commit(f.s, &first), QP_OK);
    assert_int_equal(found.number, 0);
    commit_done(&first);
}

/* Also when it is found out in the middle, by a row that is not known. */
static void test_reaching_finds_the_failure(void **state)
{
    struct commit first;
    struct commit second;
    (void)state;
    begin_two(&first, &second);
    assert_int_equal(failpoint_set("commit.before=error"), QP_OK);
    bundle_op(commit_bundle(&second, "name"), OP_space_create)->space_create =
        (struct op_space_create){.name = QP_STR("other")};
    assert_int_equal(store_decide(f.s, &second), QP_E_IO);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(first.rc, QP_E_IO);
    assert_int_equal(second.state, COMMIT_DONE);
    assert_int_equal(count(TABLE_act), 0);
    end_two(&first, &second);
}

/* A row that is not known is asked for when the commit before is through. */
static void test_reaching_waits(void **state)
{
    struct commit first;
    struct commit second;
    (void)state;
    begin_two(&first, &second);
    bundle_op(commit_bundle(&second, "name"), OP_space_create)->space_create =
        (struct op_space_create){.name = QP_STR("other")};
    assert_int_equal(store_decide(f.s, &second), QP_OK);
    assert_true(store_has_reached(&second));
    assert_int_equal(first.state, COMMIT_DONE);
    assert_int_equal(first.rc, QP_OK);
    store_write(f.s, &second, true);
    store_settle(f.s);
    assert_int_equal(second.rc, QP_OK);
    assert_int_equal(count(TABLE_act), 1);
    end_two(&first, &second);
}

/* Refused by what is being written, and that fails: the refusal was for nothing, and is not told. */
static void refused_for_nothing(bool elsewhere, bool settled_before)
{
    struct commit first;
    struct commit second;
    commit_init(&first, f.s);
    commit_init(&second, f.s);
    add_job(&first);
    bundle_op(first.first, OP_act_create)->act_create = (struct op_act_create){
        .ref = job, .addr = QP_STR("0"), .category = 'A', .topic = QP_STR("t")};
    assert_int_equal(store_decide(f.s, &first), QP_OK);
    store_write(f.s, &first, true);
    (void)add_activity(&second, "0");
    assert_int_equal(store_decide(f.s, &second), QP_OK);
    assert_int_equal(second.first->rc, QP_E_DONE);
    assert_int_equal(failpoint_set("commit.before=error"), QP_OK);
    if (settled_before) {
        store_settle(f.s);
    }
    store_write(f.s, &second, elsewhere);
    store_settle(f.s);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    assert_int_equal(first.rc, QP_E_IO);
    assert_int_equal(second.rc, QP_E_IO);
    assert_int_equal(second.first->rc, QP_E_IO);
    end_two(&first, &second);
}

static void test_a_refusal_fails_with_the_first(void **state)
{
    (void)state;
    refused_for_nothing(true, false);
    refused_for_nothing(false, false);
    refused_for_nothing(true, true);
}

/* The failure is known, and a bundle joins all the same. */
static void test_joining_what_has_failed(void **state)
{
    struct commit first;
    struct commit second;
    (void)state;
    begin_two(&first, &second);
    assert_int_equal(failpoint_set("commit.before=error"), QP_OK);
    store_settle(f.s);
    assert_int_equal(failpoint_set(NULL), QP_OK);
    bundle_op(commit_bundle(&second, "audit"), OP_audit_add)->audit_add =
        (struct op_audit_add){.ns = STORE_NS_DEFAULT, .action = QP_STR("a")};
    assert_int_equal(store_decide(f.s, &second), QP_E_IO);
    assert_int_equal(second.rc, QP_E_IO);
    assert_int_equal(count(TABLE_audit), 0);
    end_two(&first, &second);
}

/* Nothing of it happens, and what it stood on stays. */
static void test_giving_up(void **state)
{
    struct commit first;
    struct commit second;
    (void)state;
    begin_two(&first, &second);
    store_give_up(f.s, &second, QP_E_ABORTED);
    assert_int_equal(second.rc, QP_E_ABORTED);
    assert_int_equal(second.first->rc, QP_E_ABORTED);
    assert_int_equal(count(TABLE_job), 1);
    assert_int_equal(count(TABLE_act), 0);
    end_two(&first, &second);
}

/* A commit of its own, as an engine's single op, waits as well. */
static void test_a_whole_commit_waits(void **state)
{
    struct commit first;
    struct op reserve = {.kind = OP_ids_reserve, .ids_reserve.count = 1};
    (void)state;
    commit_init(&first, f.s);
    add_job(&first);
    assert_int_equal(store_decide(f.s, &first), QP_OK);
    store_write(f.s, &first, true);
    assert_int_equal(storetest_op(&f, &reserve), QP_OK);
    assert_int_equal(first.rc, QP_OK);
    commit_done(&first);
}

/* And stands on nothing of what it has waited for, should that have failed. */
static void test_a_whole_commit_after_a_failure(void **state)
{
    struct commit first;
    struct op activity = {.kind = OP_act_create,
                          .act_create = {.ref = job, .addr = QP_STR("0"), .category = 'A'}};
    (void)state;
    commit_init(&first, f.s);
    add_job(&first);
    assert_int_equal(store_decide(f.s, &first), QP_OK);
    store_write(f.s, &first, true);
    assert_int_equal(failpoint_set("commit.before=error"), QP_OK);
    assert_int_equal(storetest_op(&f, &activity), QP_E_NOT_FOUND);
    assert_int_equal(first.rc, QP_E_IO);
    commit_done(&first);
}

/* -------------------------------------------------------------------------- a commit in many parts */

static void decide_part(struct commit *c)
{
    assert_int_equal(store_decide(f.s, c), QP_OK);
    assert_int_equal(c->state, COMMIT_RUNNING);
    store_prepare(f.s, c);
}

static void write_parts(struct commit *c)
{
    store_write(f.s, c, true);
    store_settle(f.s);
    assert_int_equal(c->rc, QP_OK);
    commit_done(c);
}

/* The cache is told after each part. In the end it has every row as the file has it: those that two parts
 * changed, one that a failed bundle touched between them, and the head row, whose clock comes last. */
static void test_kept_in_parts(void **state)
{
    struct commit c;
    struct bundle *fails;
    (void)state;
    testenv_advance_ms(&f.t, 10);
    commit_init(&c, f.s);
    add_job(&c);
    decide_part(&c);
    (void)add_activity(&c, "0");
    decide_part(&c);
    fails = add_activity(&c, "0");
    decide_part(&c);
    assert_int_equal(fails->rc, QP_E_DONE);
    (void)add_activity(&c, "1");
    decide_part(&c);
    write_parts(&c);
    assert_in_range(storetest_cache_check(&f), 5, 6); /* head, job, activities, counter */
}

#define OTHERS 24 /* jobs: several times what the small cache has room for */

/* More jobs, one part for each: the cache turns meanwhile. */
static void add_others(struct commit *c)
{
    static char names[OTHERS][8];
    for (int64_t i = 0; i < OTHERS; i++) {
        struct op *op = bundle_op(commit_bundle(c, "other"), OP_job_create);
        (void)snprintf(names[i], sizeof names[i], "j%d", (int)i);
        op->job_create = (struct op_job_create){.ref = {STORE_NS_DEFAULT, 100 + i},
                                                .jid = str_from(names[i]),
                                                .workflow = QP_STR("w"),
                                                .owner_guid = storetest_guid(1),
                                                .body_hash = storetest_guid(2),
                                                .fresh = true};
        decide_part(c);
    }
}

/* A job that is born in one part and changes in a later one is as old as its first row: the cache has
 * dropped what it knew of the activity, and does not take it for absent. */
static void test_born_in_an_early_part(void **state)
{
    struct commit c;
    struct bundle *again;
    (void)state;
    commit_init(&c, f.s);
    add_job(&c);
    (void)add_activity(&c, "0");
    decide_part(&c);
    add_others(&c);
    bundle_op(commit_bundle(&c, "set"), OP_job_set)->job_set = (struct op_job_set){.ref = job};
    decide_part(&c);
    write_parts(&c);
    commit_init(&c, f.s);
    again = add_activity(&c, "0");
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(again->rc, QP_E_DONE);
    commit_done(&c);
    (void)storetest_cache_check(&f);
}

/* ------------------------------------------------------------------------------------- at random */

static struct storetest model; /* memory, one commit after the other */

struct turn {
    struct opgen g;
    struct commit c;
    struct buf expected;
    bool in_hand;
};

static void compare(const struct buf *a, const struct buf *b, uint64_t seed, int commit)
{
    if (!statetext_equal(a, b)) {
        statetext_show(a, b);
        fail_msg("QP_SEED=%llu: commit %d differs", (unsigned long long)seed, commit);
    }
}

static void print_answers(struct buf *out, struct commit *c)
{
    buf_reset(out);
    opresult_print(out, c);
    buf_byte(out, '\0');
    assert_int_equal(buf_rc(out), QP_OK);
}

static void turn_end(struct turn *t, uint64_t seed, int commit)
{
    struct buf answers;
    if (!t->in_hand) {
        return;
    }
    assert_int_equal(t->c.state, COMMIT_DONE);
    assert_int_equal(t->c.rc, QP_OK);
    buf_init(&answers, &f.t.env, 0);
    print_answers(&answers, &t->c);
    compare(&t->expected, &answers, seed, commit);
    buf_done(&answers);
    commit_done(&t->c);
    t->in_hand = false;
}

static void turn_begin(struct turn *t, const struct turn *before)
{
    struct commit on_model;
    if (before != NULL) {
        t->g.random = before->g.random;
        t->g.first_number = before->g.first_number;
        t->g.next_number = before->g.next_number;
    }
    opgen_next(&t->g, model.s);
    testenv_advance_ms(&model.t, t->g.advance_ms);
    testenv_advance_ms(&f.t, t->g.advance_ms);
    commit_init(&on_model, model.s);
    assert_int_equal(opgen_commit(&t->g, model.s, &on_model), QP_OK);
    print_answers(&t->expected, &on_model);
    commit_done(&on_model);
    commit_init(&t->c, f.s);
    opgen_fill(&t->g, &t->c);
    assert_int_equal(store_decide(f.s, &t->c), QP_OK);
    if (t->g.bundle_count > 1) {
        store_prepare(f.s, &t->c);
    }
    t->in_hand = true;
}

static void compare_states(uint64_t seed, int commit)
{
    struct buf a;
    struct buf b;
    buf_init(&a, &model.t.env, 0);
    buf_init(&b, &f.t.env, 0);
    statetext_print(model.s, STATETEXT_NO_MARK, &a);
    statetext_print(f.s, STATETEXT_NO_MARK, &b);
    compare(&a, &b, seed, commit);
    (void)storetest_cache_check(&f);
    buf_done(&a);
    buf_done(&b);
}

static void test_random_commits(void **state)
{
    static struct turn turns[2];
    uint64_t seed = testenv_seed();
    uint64_t random = seed;
    int ahead = 0;
    (void)state;
    storetest_init(&model, STORETEST_MEMORY, 1);
    for (int i = 0; i < 2; i++) {
        opgen_init(&turns[i].g, &model.t.env, seed);
        turns[i].g.no_steps_back = true;
        turns[i].g.bundles_max = 2;
        buf_init(&turns[i].expected, &model.t.env, 0);
    }
    for (int k = 0; k < COMMITS; k++) {
        struct turn *t = &turns[k % 2];
        struct turn *before = &turns[1 - k % 2];
        turn_begin(t, k == 0 ? NULL : before);
        ahead += before->in_hand && before->c.state == COMMIT_RUNNING;
        store_write(f.s, &t->c, testenv_random_below(&random, 5) > 0);
        if (before->in_hand && before->c.state == COMMIT_RUNNING) {
            store_settle(f.s); /* the second was empty, and did not wait */
        }
        turn_end(before, seed, k - 1);
        if (k % COMPARE_EVERY == 0) {
            store_settle(f.s);
            turn_end(t, seed, k);
            compare_states(seed, k);
        }
    }
    store_settle(f.s);
    turn_end(&turns[0], seed, COMMITS);
    turn_end(&turns[1], seed, COMMITS);
    compare_states(seed, COMMITS);
    /* Most random commits ask for something; some are decided ahead from their first op to the last. */
    printf("%d commits were decided wholly ahead\n", ahead);
    assert_true(ahead > 0);
    for (int i = 0; i < 2; i++) {
        opgen_done(&turns[i].g);
        buf_done(&turns[i].expected);
    }
    storetest_done(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_decided_on_what_is_being_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bundles_join, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_second_fails_with_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reaching_finds_the_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reaching_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_definitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_refusal_fails_with_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_joining_what_has_failed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_giving_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_whole_commit_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_whole_commit_after_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kept_in_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_born_in_an_early_part, set_up_small, tear_down),
        cmocka_unit_test_setup_teardown(test_random_commits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
