/* test_cost.c - rows that a turn reads and writes: constant however long an instance lives, and however full its buffer is
 *
 * On rows in memory, which are those of every store (agentrows.h). Each event changes 1 KiB of properties.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/instance.h"
#include "support/agentrows.h"
#include "support/testenv.h"

#define EVENTS 3000
#define TEXT_SIZE 1024

static struct testenv t;
static struct agentrows rows;
static struct arena arena; /* of one turn */
static struct instance s;
static struct stored stored;
static char text[TEXT_SIZE];

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    agentrows_init(&rows, &t.env);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agentrows_done(&rows);
    testenv_done(&t);
    return 0;
}

static void load(unsigned windows)
{
    struct row_source source = agentrows_source(&rows);
    arena_init(&arena, &t.env, 0);
    assert_int_equal(stored_load(&source, &arena, windows, &s, &stored), QP_OK);
}

static void save(void)
{
    struct row_sink sink = agentrows_sink(&rows);
    assert_int_equal(stored_save(&stored, &sink, &s), QP_OK);
    arena_done(&arena);
}

static void start(void)
{
    struct row_source source = agentrows_source(&rows);
    arena_init(&arena, &t.env, 0);
    instance_init(&s, &arena, QP_STR("i"), QP_STR("flow"));
    stored_begin(&source, &stored);
    assert_int_equal(instance_start(&s, 0, QP_NONE, QP_STR("{}")), QP_OK);
    save();
}

/* What is read and written meanwhile. */
struct cost {
    int64_t read;
    int64_t written;
};

static struct cost cost_since(struct cost before)
{
    return (struct cost){rows.read - before.read, rows.written - before.written};
}

static struct cost now(void)
{
    return (struct cost){rows.read, rows.written};
}

static int event(int64_t at, struct cost *out_cost)
{
    struct cost before = now();
    load(WINDOW_WAITS);
    int rc = instance_event(&s, at, QP_STR("E"), QP_NONE, NULL);
    if (rc == QP_OK) {
        save();
    } else {
        arena_done(&arena);
    }
    *out_cost = cost_since(before);
    return rc;
}

/* Every branch of the batch ends, but for handle, which is left; each changes the properties. */
static struct cost decide(int64_t at)
{
    struct draft draft;
    struct cost before = now();
    load(WINDOW_WAITS | WINDOW_BUFFER | WINDOW_BATCH);
    draft_init(&draft, &arena, &s);
    for (int64_t i = s.ongoing_index; i < s.execution_count; i++) {
        qp_str output = QP_NONE;
        const struct branch *branch = state_branch(&s, state_execution(&s, i));
        draft.in_hand = true;
        draft.base_index = i;
        (void)snprintf(text, sizeof text, "%lld", (long long)i);
        assert_int_equal(draft_post(&draft, (qp_str){text, sizeof text},
                                    branch->key == 0 ? NULL : &output, NULL),
                         QP_OK);
    }
    assert_int_equal(instance_decided(&s, at, &draft, NULL), QP_OK);
    save();
    return cost_since(before);
}

/* Each event is decided before the next one comes: one branch each, and every turn costs the same. */
static void test_002_each_event_costs_the_same(void **state)
{
    static struct cost events[EVENTS];
    static struct cost decisions[EVENTS];
    (void)state;
    start();
    (void)decide(1);
    for (int64_t i = 0; i < EVENTS; i++) {
        assert_int_equal(event(2 * i + 2, &events[i]), QP_OK);
        decisions[i] = decide(2 * i + 3);
    }
    for (int64_t i = 100 + AGENT_CHUNK; i < EVENTS; i++) { /* at the same place of a chunk */
        assert_int_equal(events[i].read, events[i - AGENT_CHUNK].read);
        assert_int_equal(events[i].written, events[i - AGENT_CHUNK].written);
        assert_int_equal(decisions[i].read, decisions[i - AGENT_CHUNK].read);
        assert_int_equal(decisions[i].written, decisions[i - AGENT_CHUNK].written);
    }
    assert_true(events[1000].read <= 3 && events[1000].written <= 4);
    assert_true(decisions[1000].read <= 4 && decisions[1000].written <= 4);
    print_message("an event reads %lld rows and writes %lld, its decision %lld and %lld\n",
                  (long long)events[1000].read, (long long)events[1000].written,
                  (long long)decisions[1000].read, (long long)decisions[1000].written);
    load(0);
    assert_int_equal(s.branch_count, EVENTS + 1);
    arena_done(&arena);
}

/* 10,001 events while a decision is out: the last is refused, and the others run in order, 500 per decision. */
static void test_002_events_while_a_decision_is_out(void **state)
{
    struct cost first;
    struct cost last;
    int64_t at = 1;
    (void)state;
    start();
    assert_int_equal(event(at++, &first), QP_OK);
    for (int i = 2; i <= LIMIT_INSTANCE_BUFFER; i++) {
        assert_int_equal(event(at++, &last), QP_OK);
    }
    assert_int_equal(last.read, first.read);
    assert_int_equal(last.written, first.written);
    assert_int_equal(event(at, &last), QP_E_LIMIT);
    for (int i = 0; i < LIMIT_INSTANCE_BUFFER / LIMIT_INSTANCE_BATCH; i++) {
        (void)decide(at++);
        load(WINDOW_BATCH);
        assert_int_equal(s.execution_count - s.ongoing_index, LIMIT_INSTANCE_BATCH);
        for (size_t b = 0; b < s.branches_held; b++) {
            assert_int_equal(s.branches[b].key, 1 + i * LIMIT_INSTANCE_BATCH + (int)b);
            assert_int_equal(s.branches[b].timestamp_ms, s.branches[b].key);
        }
        arena_done(&arena);
    }
    (void)decide(at);
    load(0);
    assert_false(s.decision_ongoing);
    assert_int_equal(s.open_count, 1); /* handle */
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_002_each_event_costs_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(test_002_events_while_a_decision_is_out, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
