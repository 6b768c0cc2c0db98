/* test_script_edits.c - generated flows through the C API: crashes, answers in any order, edits while they run
 *
 * A program is a tree of steps that one function interprets with the durable calls (support/flowgen.h). Per seed:
 *
 *   - every decision is made twice before it is committed, as if the process had died: both are the same
 *   - every work is answered once, in random order, and the flow ends, with one output whatever that order was
 *   - edits that document 004 allows (insert with a fresh version, remove, check, wrap) never stop a flow, wherever it is
 *   - the history, replayed once more, gives the same output and writes nothing
 *
 * QP_SEED is the first seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "fakeflow.h"
#include "support/flowgen.h"

#define SEEDS 400
#define SEEDS_TORTURE 10000
#define WEIGHT 1000
#define EDIT_ROUNDS 40

static struct testenv t;
static struct fakeflow f;
static struct fakeflow again;
static struct arena arena; /* of the program */
static struct arena texts; /* of one run of the function */
static struct flowgen gen;
static struct flowgen_run run;
static int64_t ops_seen[FLOWGEN_OPS];
static int64_t edits_seen[FLOWGEN_EDITS];

static uint64_t below(uint64_t n)
{
    return testenv_random_below(&gen.random, n);
}

/* ------------------------------------------------------------------------------------------- runs */

static void must(enum script_kind kind, uint64_t seed)
{
    if (kind > SCRIPT_RETURNED) {
        fail_msg("seed %llu: %s %.*s\n%s", (unsigned long long)seed,
                 f.result.reason != NULL ? f.result.reason : "", STR_ARG(f.result.text),
                 fake_text(&f));
    }
}

static void answer_one(void)
{
    size_t which = below(fake_open_count(&f));
    for (size_t i = 0; i < f.count; i++) {
        char text[64];
        if (!fake_is_open(&f.rows[i]) || which-- > 0) {
            continue;
        }
        if (fake_listens(&f.rows[i])) {
            (void)snprintf(text, sizeof text, "%.*s", STR_ARG(f.rows[i].names));
            text[strlen(text) - 2] = '\0'; /* ["name"] */
            if (str_is_none(f.rows[i].got) || f.rows[i].event.key.n % 2 == 0) {
                fake_signal(&f, text + 2, "\"came\"");
                return;
            }
        }
        (void)snprintf(text, sizeof text, "\"of %.*s\"", STR_ARG(f.rows[i].event.name));
        fake_answer_at(&f, i, 200,
                       f.rows[i].event.type == HISTORY_SLEEP ? "{\"interrupted\":false}" : text);
        return;
    }
    fail_msg("nothing is open");
}

/* The decision that was lost is made again, to the letter; and an answer may come while it is on its way. */
static void decide(uint64_t seed)
{
    char *lost;
    size_t n;
    arena_reset(&texts);
    must(fake_run_lost(&f, flowgen_function, &run), seed);
    n = f.result.decision.n;
    lost = malloc(n + 1);
    assert_non_null(lost);
    memcpy(lost, f.result.decision.p, n);
    must(fake_run_lost(&f, flowgen_function, &run), seed);
    assert_int_equal(f.result.decision.n, n);
    assert_memory_equal(f.result.decision.p, lost, n);
    free(lost);
    if (f.result.kind == SCRIPT_WAITS && below(3) == 0 && fake_open_count(&f) > 0) {
        answer_one();
    }
    fake_commit(&f);
}

static void replay(uint64_t seed)
{
    fake_copy(&again, &f, &t);
    again.over = false;
    assert_int_equal(fake_run(&again, flowgen_function, &run), SCRIPT_RETURNED);
    if (again.commands != 1 || !str_equal(again.end, f.end)) {
        fail_msg("seed %llu: the replay has %zu commands, %.*s", (unsigned long long)seed,
                 again.commands, STR_ARG(again.result.decision));
    }
    fake_done(&again);
}

static void edit(void)
{
    if (flowgen_edit(&gen)) {
        run.version = gen.count - 1;
    }
}

static void run_flow(uint64_t seed, bool edits, uint64_t *out_sum)
{
    fake_init(&f, &t);
    testenv_log_reset(&t);
    for (int round = 0; !f.over; round++) {
        assert_true(round < 5000);
        if (edits && below(4) == 0 && round < EDIT_ROUNDS) {
            edit();
        }
        decide(seed);
        for (size_t count = below(3) + 1; count > 0 && !f.over && fake_open_count(&f) > 0;
             count--) {
            answer_one();
        }
    }
    for (size_t i = 0; i < f.count; i++) {
        assert_true(f.rows[i].used <= 1);
    }
    *out_sum = hash_bytes(1, f.end.p, f.end.n);
    replay(seed);
    if (t.log_size > 0) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, testenv_log(&t));
    }
    fake_done(&f);
}

static void begin(uint64_t seed, bool with_any, bool edits)
{
    flowgen_begin(&gen, &arena,
                  &(struct flowgen_options){
                      .seed = seed, .with_any = with_any, .strict = !edits, .weight = WEIGHT});
    run = (struct flowgen_run){.gen = &gen, .arena = &texts};
}

static void end(void)
{
    for (int i = 0; i < FLOWGEN_OPS; i++) {
        ops_seen[i] += gen.ops_seen[i];
    }
    for (int i = 0; i < FLOWGEN_EDITS; i++) {
        edits_seen[i] += gen.edits_seen[i];
    }
    arena_reset(&arena);
}

static uint64_t seed_count(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0 ? SEEDS_TORTURE : SEEDS;
}

/* Without edits, and without `any`, the output does not depend on crashes or on the order of answers. */
static void test_any_order_of_answers(void **state)
{
    uint64_t first = testenv_seed();
    (void)state;
    for (uint64_t seed = first; seed < first + seed_count() / 2; seed++) {
        uint64_t one;
        uint64_t two;
        begin(seed, false, false);
        run_flow(seed, false, &one);
        run_flow(seed, false, &two);
        assert_int_equal(one, two);
        end();
    }
}

/* The winner of `any` is the same in every later run, and so is all that is derived. */
static void test_the_first_stays_the_first(void **state)
{
    uint64_t first = testenv_seed();
    (void)state;
    for (uint64_t seed = first; seed < first + seed_count(); seed++) {
        uint64_t sum;
        begin(seed, true, false);
        run_flow(seed, false, &sum);
        end();
    }
}

static void test_edits_of_running_flows(void **state)
{
    uint64_t first = testenv_seed();
    (void)state;
    for (uint64_t seed = first; seed < first + seed_count(); seed++) {
        uint64_t sum;
        begin(seed, true, true);
        run_flow(seed, true, &sum);
        end();
    }
    for (int op = 0; op < FLOWGEN_OPS; op++) {
        assert_true(ops_seen[op] > 0);
    }
    for (int kind = 0; kind < FLOWGEN_EDITS; kind++) {
        assert_true(edits_seen[kind] > 50);
    }
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    arena_init(&texts, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&arena);
    arena_done(&texts);
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_order_of_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_first_stays_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_edits_of_running_flows, setup, teardown),
    };
    return cmocka_run_group_tests_name("script_edits", tests, NULL, NULL);
}
