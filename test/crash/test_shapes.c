/* test_shapes.c - programs of all shapes come to the same end, undisturbed and killed anywhere
 *
 * For every shape (shapes.h), on every provider, with steps fused and with every step in a commit of
 * its own, it proves:
 *
 *   undisturbed            the expected output; every task called exactly once; fsck clean after
 *                          every commit
 *   killed at any commit   the engine dies after its n-th commit, or between the calls of its workers and
 *                          the next commit: the same output, one call more for every result that was lost and
 *                          none otherwise, one row of the host per task, fsck clean. n goes on until a run
 *                          ends before it is killed.
 *   the closing race       an event that a flow can do without is sent at every step: a decision sees it,
 *                          and then counts it, or it is late and leaves nothing. Both happen.
 *
 * The check lane takes every so many kills, from a place that QP_SEED chooses, and fewer on PostgreSQL,
 * where a run takes long; torture takes all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/shaperun.h"
#include "support/storetest.h"

#define WORKERS 2
#define FIRST_MAX 20 /* half steps: every run is longer, so at least one is killed */

static struct storetest f;
static struct shaperun run;
static bool torture;
static uint64_t seed;

struct shape_case {
    const struct shape *shape;
    const char *input;
    int64_t stride; /* of kills in the check lane */
};

static const struct shape_case cases[] = {{&shape_tree, "7", 15},
                                          {&shape_flow, "0", 21},
                                          {&shape_carto, "36", 45},
                                          {&shape_children, "9", 9}};

static void begin(const struct shape_case *c, enum storetest_kind kind, bool stepwise)
{
    storetest_init(&f, kind, 1);
    run = (struct shaperun){.shape = c->shape,
                            .store = f.s,
                            .time = &f.t,
                            .input = c->input,
                            .stepwise = stepwise,
                            .host = true,
                            .workers = WORKERS};
}

static void end(void)
{
    shaperun_done(&run);
    storetest_done(&f);
}

/* A check asks for every row: over a line that takes as long as a run. */
static int64_t check_every(enum storetest_kind kind)
{
    if (torture) {
        return 1;
    }
    if (kind == STORETEST_POSTGRES) {
        return run.stepwise ? 97 : 5; /* fused runs have 14 commits and more */
    }
    return !run.stepwise ? 1 : run.shape == &shape_carto ? 29 : 5;
}

static void undisturbed(enum storetest_kind kind)
{
    for (size_t i = 0; i < 2 * ARRAY_COUNT(cases); i++) {
        begin(&cases[i / 2], kind, i % 2 != 0);
        run.check_every = check_every(kind);
        shaperun_init(&run);
        shaperun_finish(&run);
        shaperun_verify(&run);
        assert_true(run.checks > (kind == STORETEST_POSTGRES ? 1 : 5));
        printf("%s on %s%s: %lld commits, %lld checks\n", run.shape->program->name,
               storetest_name(kind), run.stepwise ? ", stepwise" : "", (long long)run.steps,
               (long long)run.checks);
        end();
    }
}

static void undisturbed_on_memory(void **state)
{
    undisturbed(STORETEST_MEMORY);
}

static void undisturbed_on_rows(void **state)
{
    undisturbed(STORETEST_MEMORY_ROWS);
}

static void undisturbed_on_sqlite(void **state)
{
    undisturbed(STORETEST_SQLITE);
}

static void undisturbed_on_postgres(void **state)
{
    undisturbed(STORETEST_POSTGRES);
}

/* Dies at its n-th half step: behind a commit, or behind the calls that come before the next one. False
 * when it was done before. */
static bool run_killed(int64_t n)
{
    bool alive = true;
    shaperun_init(&run);
    for (int64_t i = 0; i < n && alive; i++) {
        if (i % 2 == 0) {
            shaperun_work(&run);
        } else {
            shaperun_round(&run);
        }
        alive = !shaperun_is_done(&run);
    }
    shaperun_kill(&run);
    storetest_reopen(&f);
    run.store = f.s;
    shaperun_check(&run, false);
    shaperun_resume(&run);
    shaperun_finish(&run);
    shaperun_verify(&run);
    return alive;
}

static void killed_everywhere(const struct shape_case *c, enum storetest_kind kind, bool stepwise)
{
    int64_t slower = kind == STORETEST_POSTGRES ? 3 : kind == STORETEST_SQLITE ? 2 : 1;
    int64_t wider = (stepwise ? 4 : 1) * slower;
    int64_t stride = torture ? 1 : (c->stride * wider) | 1; /* odd: kills of both kinds */
    int64_t first = stride < FIRST_MAX ? stride : FIRST_MAX;
    int64_t runs = 0;
    int64_t lost = 0;
    bool alive = true;
    for (int64_t n = 1 + (int64_t)(seed % (uint64_t)first); alive; n += stride) {
        begin(c, kind, stepwise);
        alive = run_killed(n);
        for (struct omap_node *k = omap_seek(&run.sink, QP_NONE); k != NULL; k = omap_next(k)) {
            lost += ((const struct shaperun_key *)omap_value(k))->lost;
        }
        end();
        runs++;
    }
    assert_true(runs > 1);
    printf("%s on %s%s: %lld runs, %lld results lost\n", c->shape->program->name,
           storetest_name(kind), stepwise ? ", stepwise" : "", (long long)runs, (long long)lost);
}

static void killed(enum storetest_kind kind)
{
    for (size_t i = 0; i < 2 * ARRAY_COUNT(cases); i++) {
        killed_everywhere(&cases[i / 2], kind, i % 2 != 0);
    }
}

static void killed_on_memory(void **state)
{
    killed(STORETEST_MEMORY);
}

static void killed_on_rows(void **state)
{
    killed(STORETEST_MEMORY_ROWS);
}

static void killed_on_sqlite(void **state)
{
    killed(STORETEST_SQLITE);
}

static void killed_on_postgres(void **state)
{
    killed(STORETEST_POSTGRES);
}

/* The number behind a word of the output. */
static int64_t output_number(const char *word)
{
    char text[SHAPE_TEXT_SIZE];
    const char *at;
    shaperun_output(&run, text);
    at = strstr(text, word);
    assert_non_null(at);
    return strtoll(at + strlen(word), NULL, 10);
}

/* 1: the extra event is in the output. */
static int64_t extras_counted(void)
{
    int64_t extras = output_number("extras ");
    assert_int_equal(output_number("events "), 2 * FLOW_SIGNALS + extras);
    return extras;
}

static int64_t number_of(const char *name)
{
    struct data_row key = {
        .ns = STORE_NS_DEFAULT, .job = run.start.job.job, .name = str_from(name)};
    const struct data_row *row = storetest_row(&f, TABLE_data, &key);
    return row == NULL ? 0 : shape_number(row->value);
}

/* How many steps a run takes that nothing disturbs. */
static int64_t count_steps(bool stepwise)
{
    int64_t steps;
    begin(&cases[1], STORETEST_MEMORY, stepwise);
    shaperun_init(&run);
    shaperun_finish(&run);
    steps = run.steps;
    end();
    return steps;
}

static void race(bool stepwise, int64_t outcomes[2])
{
    int64_t steps = count_steps(stepwise);
    for (int64_t at = 1; at <= steps + 2; at += torture || !stepwise ? 1 : 7) {
        int64_t counted;
        begin(&cases[1], STORETEST_MEMORY, stepwise);
        run.extra_at = at;
        run.check_every = torture ? 1 : 17;
        shaperun_init(&run);
        shaperun_finish(&run);
        shaperun_verify(&run);
        counted = extras_counted();
        assert_in_range(counted, 0, 1);
        /* Seen by a decision, or late: for the flow, or for the job, whose sweep takes the message. */
        assert_true(counted == 0 || run.signals[FLOW_SIGNALS].delivered);
        assert_in_range(counted + number_of("late"), 0, 1);
        assert_null(storetest_row(&f, TABLE_data,
                                  &(struct data_row){.ns = STORE_NS_DEFAULT,
                                                     .job = run.start.job.job,
                                                     .name = QP_STR("buffer")}));
        outcomes[counted]++;
        end();
    }
}

static void the_closing_race(void **state)
{
    int64_t outcomes[2] = {0, 0};
    race(false, outcomes);
    race(true, outcomes);
    printf("the extra event: %lld times part of it, %lld times late\n", (long long)outcomes[1],
           (long long)outcomes[0]);
    assert_true(outcomes[0] > 0);
    assert_true(outcomes[1] > 0);
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    seed = testenv_seed();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_on_memory), cmocka_unit_test(undisturbed_on_rows),
        cmocka_unit_test(undisturbed_on_sqlite), cmocka_unit_test(undisturbed_on_postgres),
        cmocka_unit_test(killed_on_memory),      cmocka_unit_test(killed_on_rows),
        cmocka_unit_test(killed_on_sqlite),      cmocka_unit_test(killed_on_postgres),
        cmocka_unit_test(the_closing_race),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
