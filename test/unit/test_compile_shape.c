/* test_compile_shape.c - dominators, gates and exits of random graphs, against a naive computation and against runs
 *
 * A graph is drawn at random: ways that part and join, pivots and cycles back to them. Then
 *
 *   - who dominates whom is found again by leaving an activity out and looking what cannot be reached, and the exits by
 *     counting transitions out of what is dominated;
 *   - runs with random decisions, rounds of cycles and pending replies are counted as graph.h says: at the
 *     end every gate that can have been reached has got exactly as many arrivals as were opened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "support/testenv.h"

#define MOST 24       /* activities */
#define MOST_RUNS 600 /* instances of activities and gates in one run */

static struct testenv t;
static uint64_t chance;

static bool one_in(uint64_t n)
{
    return testenv_random_below(&chance, n) == 0;
}

/* --------------------------------------------------------------------------------------- drawing a graph */

struct drawn {
    int count;
    bool leads[MOST][MOST]; /* from, to; from < to */
    bool pivot[MOST];
    int ancestor[MOST]; /* of a cycle; else -1 */
    bool any[MOST];
};

static int parents(const struct drawn *d, int to)
{
    int count = 0;
    for (int from = 0; from < to; from++) {
        count += d->leads[from][to];
    }
    return count;
}

/* Whether every way to `of` leads through `by`: with `by` left out, it is not reached. */
static bool dominates(const struct drawn *d, int by, int of)
{
    bool reached[MOST] = {by != 0};
    for (int to = 1; to < d->count; to++) {
        for (int from = 0; from < to; from++) {
            reached[to] = reached[to] || (reached[from] && d->leads[from][to] && to != by);
        }
    }
    return by == of || !reached[of];
}

static void draw_cycle(struct drawn *d)
{
    int pivot = (int)testenv_random_below(&chance, (uint64_t)d->count);
    int cycle = d->count;
    bool found = false;
    if (!d->pivot[pivot] || d->count == MOST) {
        return;
    }
    for (int from = pivot; from < cycle; from++) {
        if (d->ancestor[from] < 0 && dominates(d, pivot, from) && one_in(found ? 4 : 2)) {
            d->leads[from][cycle] = true;
            found = true;
        }
    }
    if (found) {
        d->ancestor[cycle] = pivot;
        d->count++;
    }
}

static void draw_graph(struct drawn *d)
{
    int plain = 2 + (int)testenv_random_below(&chance, MOST - 6);
    *d = (struct drawn){.count = plain};
    for (int i = 0; i < MOST; i++) {
        d->ancestor[i] = -1;
    }
    for (int to = 1; to < plain; to++) {
        int reach = one_in(2) ? 3 : to;
        do {
            int back = 1 + (int)testenv_random_below(&chance, (uint64_t)(reach < to ? reach : to));
            d->leads[to - back][to] = true;
        } while (one_in(3));
        d->pivot[to] = parents(d, to) == 1 && one_in(3);
        d->any[to] = parents(d, to) > 1 && one_in(4);
    }
    for (int i = 0; i < 6; i++) {
        draw_cycle(d);
    }
}

static void write_graph(struct buf *out, const struct drawn *d)
{
    buf_text(out,
             "app:\n  id: a\n  version: '1'\n  graphs:\n    - subscribes: a\n      activities:\n"
             "        n0: { type: trigger }\n");
    for (int i = 1; i < d->count; i++) {
        if (d->ancestor[i] >= 0) {
            buf_printf(out, "        n%d: { type: cycle, ancestor: n%d }\n", i, d->ancestor[i]);
        } else {
            buf_printf(out, "        n%d: { type: hook%s%s }\n", i,
                       d->pivot[i] ? ", cycle: true" : "", d->any[i] ? ", join: any" : "");
        }
    }
    buf_text(out, "      transitions:\n");
    for (int from = 0; from < d->count; from++) {
        const char *head = "        n%d:\n";
        for (int to = from + 1; to < d->count; to++) {
            if (d->leads[from][to]) {
                if (head != NULL) {
                    buf_printf(out, "        n%d:\n", from);
                    head = NULL;
                }
                buf_printf(out, "          - to: n%d\n", to);
            }
        }
    }
}

/* --------------------------------------------------------------------------------------- the naive computation */

static const struct activity *at(const struct graph *g, int i)
{
    return &g->activities[i];
}

/* Activities in the chain of dominators are exactly those that dominate, gates left out. */
static void check_dominators(const struct drawn *d, const struct graph *g)
{
    for (int i = 0; i < d->count; i++) {
        bool above[MOST] = {false};
        int64_t depth = 0;
        for (const struct activity *a = at(g, i); a != NULL; a = a->dominator) {
            depth++;
            if (a->type != ACTIVITY_GATE) {
                above[a->index] = true;
            }
        }
        assert_int_equal(at(g, i)->depth, depth);
        for (int j = 0; j < d->count; j++) {
            assert_int_equal(above[j], dominates(d, j, i));
        }
        assert_int_equal(at(g, i)->gate != NULL, parents(d, i) > 1);
        if (at(g, i)->gate != NULL) {
            assert_int_equal(at(g, i)->gate->ways, parents(d, i));
            assert_ptr_equal(at(g, i)->gate->joins, at(g, i));
            assert_ptr_equal(at(g, i)->parent, at(g, i)->gate);
        }
    }
}

static int64_t exits_to(const struct activity *a, const struct activity *gate)
{
    int64_t ways = 0;
    for (size_t i = 0; i < a->exit_count; i++) {
        assert_true(a->exits[i].ways > 0);
        ways += a->exits[i].gate == gate ? a->exits[i].ways : 0;
    }
    return ways;
}

static void check_exits(const struct drawn *d, const struct graph *g)
{
    for (int x = 0; x < d->count; x++) {
        for (int join = 0; join < d->count; join++) {
            int64_t ways = 0;
            bool inside = x != join && dominates(d, x, join);
            if (at(g, join)->gate == NULL) {
                continue;
            }
            for (int from = 0; from < join && !inside; from++) {
                ways += d->leads[from][join] && dominates(d, x, from);
            }
            assert_int_equal(exits_to(at(g, x), at(g, join)->gate), ways);
            if (at(g, x)->gate != NULL) {
                assert_int_equal(exits_to(at(g, x)->gate, at(g, join)->gate), ways);
            }
        }
    }
}

/* --------------------------------------------------------------------------------------- running */

struct instance {
    const struct activity *activity;
    int above;     /* of its dominator; -1: of the trigger */
    bool waiting;  /* to run */
    int64_t left;  /* of a gate: arrivals that are still to come */
    bool arrived;  /* something did */
    bool finished; /* its join has run or was skipped */
};

struct run {
    struct instance all[MOST_RUNS];
    int count;
    int rounds; /* of cycles and pending replies that may still be */
};

static void arrive(struct run *r, int from, const struct activity *gate, int64_t ways, bool alive);

static int add(struct run *r, const struct activity *a, int above)
{
    assert_true(r->count < MOST_RUNS);
    r->all[r->count] = (struct instance){.activity = a, .above = above};
    return r->count++;
}

/* The instance on the way up from `from` that is of this activity. */
static int instance_of(const struct run *r, int from, const struct activity *a)
{
    while (r->all[from].activity != a) {
        from = r->all[from].above;
        assert_true(from >= 0);
    }
    return from;
}

/* The gate's instance for who comes from `from`: below that of its dominator. */
static int gate_of(struct run *r, int from, const struct activity *gate)
{
    int above = instance_of(r, from, gate->dominator);
    for (int i = 0; i < r->count; i++) {
        if (r->all[i].activity == gate && r->all[i].above == above) {
            return i;
        }
    }
    int made = add(r, gate, above);
    r->all[made].left = gate->ways;
    return made;
}

static void pass_over(struct run *r, int from, const struct activity *a)
{
    for (size_t i = 0; i < a->exit_count; i++) {
        arrive(r, from, a->exits[i].gate, a->exits[i].ways, false);
    }
}

/* Another round of `a` is on its way. */
static void open_exits(struct run *r, int from, const struct activity *a)
{
    for (size_t i = 0; i < a->exit_count; i++) {
        r->all[gate_of(r, from, a->exits[i].gate)].left += a->exits[i].ways;
    }
}

/* An activity is spawned; a cycle is its ancestor's next round. */
static void spawn(struct run *r, int from, const struct activity *a)
{
    int made;
    if (a->type == ACTIVITY_CYCLE) {
        int before = instance_of(r, from, a->ancestor);
        open_exits(r, before, a->ancestor);
        made = add(r, a->ancestor, r->all[before].above);
    } else {
        made = add(r, a, from);
    }
    r->all[made].waiting = true;
}

static void arrive(struct run *r, int from, const struct activity *gate, int64_t ways, bool alive)
{
    int i = gate_of(r, from, gate);
    struct instance *g = &r->all[i];
    g->left -= ways;
    assert_true(g->left >= 0);
    g->arrived = g->arrived || alive;
    if (g->finished || (g->left > 0 && !(gate->any && g->arrived))) {
        return;
    }
    g->finished = true;
    if (g->arrived && !(gate->joins->type == ACTIVITY_CYCLE && r->rounds-- <= 0)) {
        spawn(r, i, gate->joins);
    } else {
        pass_over(r, i, gate->joins);
    }
}

static void take_transition(struct run *r, int from, const struct activity *to)
{
    bool back = to->type == ACTIVITY_CYCLE && to->gate == NULL;
    bool taken = !one_in(3) && !(back && r->rounds-- <= 0);
    if (to->gate != NULL) {
        arrive(r, from, to->gate, 1, taken);
    } else if (taken) {
        spawn(r, from, to);
    } else {
        pass_over(r, from, to);
    }
}

static void run_one(struct run *r, int i)
{
    const struct activity *a = r->all[i].activity;
    r->all[i].waiting = false;
    if (a->depth > 1 && one_in(6) && r->rounds-- > 0) {
        open_exits(r, i, a); /* a pending reply: the same again, in the next dimension */
        r->all[add(r, a, r->all[i].above)].waiting = true;
    }
    for (size_t k = 0; k < a->transition_count; k++) {
        take_transition(r, i, a->transitions[k].to);
    }
}

static bool has_gate(const struct run *r, int above, const struct activity *gate)
{
    for (int i = 0; i < r->count; i++) {
        if (r->all[i].activity == gate && r->all[i].above == above) {
            return r->all[i].left == 0 && r->all[i].finished;
        }
    }
    return false;
}

/* In an order drawn at random, until nothing is left to run. */
static void run_graph(const struct graph *g)
{
    static struct run r;
    int waiting = 1;
    r = (struct run){.rounds = 8};
    r.all[add(&r, g->trigger, -1)].waiting = true;
    while (waiting > 0) {
        int pick = (int)testenv_random_below(&chance, (uint64_t)waiting);
        int i = 0;
        for (; !r.all[i].waiting || pick-- > 0; i++) {}
        run_one(&r, i);
        waiting = 0;
        for (i = 0; i < r.count; i++) {
            waiting += r.all[i].waiting;
        }
    }
    for (int i = 0; i < r.count; i++) {
        for (size_t k = g->digit_count; k < g->activity_count; k++) {
            if (g->activities[k].dominator == r.all[i].activity) {
                assert_true(has_gate(&r, i, &g->activities[k]));
            }
        }
    }
}

static void random_graphs(void **state)
{
    int graphs =
        getenv("QP_LANE") != NULL && strcmp(getenv("QP_LANE"), "torture") == 0 ? 20000 : 1500;
    int joins = 0;
    int cycles = 0;
    (void)state;
    testenv_init(&t, 1);
    chance = testenv_seed();
    for (int i = 0; i < graphs; i++) {
        struct drawn d;
        struct buf text;
        struct arena arena;
        struct report report;
        struct app *app = NULL;
        buf_init(&text, &t.env, 0);
        arena_init(&arena, &t.env, 0);
        report_init(&report, &arena);
        draw_graph(&d);
        write_graph(&text, &d);
        if (app_compile(&t.env, buf_slice(&text), &report, &app) != QP_OK) {
            fail_msg("%.*s\n%d:%d %.*s", (int)text.n, text.p, report.first->line,
                     report.first->column, STR_ARG(report.first->message));
        }
        check_dominators(&d, &app->graphs[0]);
        check_exits(&d, &app->graphs[0]);
        for (int run = 0; run < 4; run++) {
            run_graph(&app->graphs[0]);
        }
        joins += (int)(app->graphs[0].activity_count - app->graphs[0].digit_count);
        for (int k = 0; k < d.count; k++) {
            cycles += d.ancestor[k] >= 0;
        }
        app_free(app);
        arena_done(&arena);
        buf_done(&text);
    }
    assert_true(joins > graphs && cycles > graphs / 2); /* the graphs are worth it */
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
