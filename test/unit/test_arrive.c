/* test_arrive.c - gates: who arrives, who does not, and what the gate knows of it
 *
 * A plan says what each child of the trigger says in its step 2. The children answer one after the other,
 * by hand, so the order is the test's. The gate leaves what it knows in the job's data when its scope has
 * closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"
#include "support/shapes.h"

#define GATE QP_STR("gate,0,0")
#define OTHER QP_STR("other,0,0")
#define CHILDREN_MAX 6
#define SAYS_MAX 4

struct says {
    int64_t delta;
    bool live;
    bool other; /* of the second gate */
};

#define DEAD(k)                                                                                    \
    {                                                                                              \
        .delta = -(k)                                                                              \
    }
#define LIVE(k)                                                                                    \
    {                                                                                              \
        .delta = -(k), .live = true                                                                \
    }
#define MORE(k)                                                                                    \
    {                                                                                              \
        .delta = (k)                                                                               \
    }
#define PART(...)                                                                                  \
    {                                                                                              \
        .says = { __VA_ARGS__ }                                                                    \
    }

/* What a child says when it is answered for the last time, and with a pending answer before; `passes`: it has
 * a child that arrives in the same commit, before it. */
struct part {
    struct says says[SAYS_MAX];
    struct says pending;
    bool passes;
};

struct plan {
    const char *what;
    int64_t ways;
    bool any;
    struct part parts[CHILDREN_MAX];
    const char *order; /* in which children answer: digits, 'p' in front: pending */
    int closes;        /* after so many answers the gate is reached */
    const char *gate;  /* and knows: "live", "dead" */
    size_t marks;      /* data rows that say that somebody live came later */
};

static const struct plan plans[] = {
    {"all arrive", 2, false, {PART(LIVE(1)), PART(LIVE(1))}, "01", 2, "live", 0},
    {"the last is dead", 2, false, {PART(LIVE(1)), PART(DEAD(1))}, "01", 2, "live", 0},
    {"the first is dead", 2, false, {PART(LIVE(1)), PART(DEAD(1))}, "10", 2, "live", 1},
    {"all are dead", 2, false, {PART(DEAD(1)), PART(DEAD(1))}, "01", 2, "dead", 0},
    {"one mark", 3, false, {PART(DEAD(1)), PART(LIVE(1)), PART(LIVE(1))}, "012", 3, "live", 1},
    {"two ways in one call", 3, false, {PART(DEAD(2)), PART(LIVE(1))}, "01", 2, "live", 1},
    {"two calls in one step", 2, false, {PART(DEAD(1), LIVE(1))}, "0", 1, "live", 0},
    {"nothing", 2, false, {PART(MORE(0)), PART(LIVE(1)), PART(DEAD(1))}, "012", 3, "live", 0},
    {"a pending reply opens it",
     1,
     false,
     {{.says = {LIVE(1)}, .pending = MORE(1)}, PART(DEAD(1))},
     "p001",
     3,
     "live",
     1},
    {"more come to be",
     2,
     false,
     {PART(LIVE(1)), PART(MORE(1)), PART(DEAD(2))},
     "012",
     3,
     "live",
     0},
    {"they come and go", 2, false, {PART(DEAD(1), MORE(1)), PART(LIVE(2))}, "01", 2, "live", 1},
    {"with a child",
     3,
     false,
     {{.says = {DEAD(1)}, .passes = true}, PART(DEAD(1))},
     "01",
     2,
     "live",
     1},
    {"any: the first", 3, true, {PART(LIVE(1)), PART(LIVE(1)), PART(DEAD(1))}, "012", 1, "live", 0},
    {"any: the last", 3, true, {PART(DEAD(1)), PART(DEAD(1)), PART(LIVE(1))}, "012", 3, "live", 1},
    {"any: nobody", 3, true, {PART(DEAD(1)), PART(DEAD(2))}, "01", 2, "dead", 0},
    {"any: more after the end", 2, true, {PART(LIVE(1)), PART(MORE(1))}, "01", 1, "live", 0},
    {"any: with a child",
     3,
     true,
     {{.says = {LIVE(1)}, .passes = true}, PART(LIVE(1))},
     "01",
     1,
     "live",
     0},
    {"two gates",
     2,
     false,
     {PART(LIVE(1), {.delta = -1, .other = true}),
      PART(DEAD(1), {.delta = -1, .live = true, .other = true})},
     "01",
     2,
     "live",
     1},
};

static const struct plan *plan;
static struct enginetest x;

static bool is_gate(const struct turn *t)
{
    return str_equal(t->at.name, QP_STR("gate")) || str_equal(t->at.name, QP_STR("other"));
}

static bool is_pass(const struct turn *t)
{
    return str_equal(t->at.name, QP_STR("pass"));
}

static int describe(struct turn *t, struct op_act_create *row)
{
    row->category = is_pass(t) ? 'B' : 'A';
    row->topic = is_gate(t) || is_pass(t) ? QP_NONE : QP_STR("t");
    return QP_OK;
}

static int enter(struct turn *t)
{
    return is_gate(t) ? QP_OK : turn_task(t, QP_STR("t"));
}

static int say(struct turn *t, const struct says *says)
{
    return turn_arrive(t, &(struct arrival){.addr = says->other ? OTHER : GATE,
                                            .ways = plan->ways,
                                            .delta = says->delta,
                                            .live = says->live,
                                            .any = plan->any,
                                            .input = says->live ? QP_STR("live") : QP_STR("dead")});
}

static int spawn_all(struct turn *t)
{
    int rc = QP_OK;
    for (int i = 0; i < CHILDREN_MAX && rc == QP_OK; i++) {
        qp_str name;
        rc = shape_print(t, &name, "c%d", i);
        rc = rc == QP_OK ? turn_child(t, name, QP_STR("1")) : rc;
    }
    return rc;
}

/* What the gate knows: its input, or that somebody live came later. */
static int gate_tell(struct turn *t)
{
    const struct data_row *live = NULL;
    qp_str name;
    int rc = shape_print(t, &name, ARRIVED_LIVE "%.*s", STR_ARG(t->site.addr));
    rc = rc == QP_OK ? turn_data(t, name, &live) : rc;
    return rc == QP_OK ? turn_data_put(t, t->at.name, live == NULL ? t->act->input : QP_STR("live"))
                       : rc;
}

static int spawn(struct turn *t, struct spawn *out_spawn)
{
    const struct part *part;
    int rc = QP_OK;
    (void)out_spawn;
    if (t->act->category == 'D') {
        return spawn_all(t);
    }
    if (is_gate(t)) {
        return gate_tell(t);
    }
    if (is_pass(t)) {
        return say(t, &(struct says)LIVE(1));
    }
    part = &plan->parts[t->at.name.p[1] - '0'];
    if (t->guid.code == 202) {
        return say(t, &part->pending);
    }
    for (int i = 0; i < SAYS_MAX && rc == QP_OK; i++) {
        rc = say(t, &part->says[i]);
    }
    return rc == QP_OK && part->passes ? turn_child(t, QP_STR("pass"), QP_STR("1")) : rc;
}

static const struct program program = {
    .kind = CAST_KIND, .name = "gates", .describe = describe, .enter = enter, .spawn = spawn};

static const char *known(const char *name)
{
    static char text[32];
    const struct data_row *row = storetest_row(
        &x.f, TABLE_data,
        &(struct data_row){.ns = STORE_NS_DEFAULT, .job = x.job, .name = str_from(name)});
    (void)snprintf(text, sizeof text, "%.*s", row == NULL ? 0 : (int)row->value.n,
                   row == NULL ? "" : row->value.p);
    return text;
}

static void answer(char child, bool pending)
{
    char addr[16];
    struct task *task;
    (void)snprintf(addr, sizeof addr, "c%c,0,0", child);
    task = enginetest_task(&x, "a", addr);
    assert_non_null(task);
    assert_int_equal(enginetest_result(&x, task, pending ? RESULT_PENDING : RESULT_DONE, "1"),
                     QP_OK);
    if (!pending) {
        enginetest_forget(&x, task);
    }
}

static bool says_other(void)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        for (size_t j = 0; j < SAYS_MAX; j++) {
            if (plan->parts[i].says[j].other) {
                return true;
            }
        }
    }
    return false;
}

static int count_mark(void *context, const void *row)
{
    const struct data_row *data = row;
    size_t *marks = context;
    *marks += data->name.n > 5 && memcmp(data->name.p, ARRIVED_LIVE, 5) == 0;
    return QP_OK;
}

static size_t marks(void)
{
    struct scan all = {.table = TABLE_data, .index = -1, .limit = SIZE_MAX};
    size_t count = 0;
    assert_int_equal(store_scan(x.f.s, &all, &count, count_mark, NULL), QP_OK);
    return count;
}

/* Every answer of the plan; after each of them the engine dies, if it is to, and the store is sound. */
static void run_plan(enum storetest_kind kind, bool stepwise, bool dies)
{
    int answers = 0;
    enginetest_init(&x, kind, NULL);
    x.programs[0] = &program;
    x.options.stepwise = stepwise;
    enginetest_open(&x);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    enginetest_settle(&x);
    for (const char *p = plan->order; *p != '\0'; p++) {
        bool pending = *p == 'p';
        p += pending;
        answer(*p, pending);
        if (dies) {
            enginetest_crash(&x);
        }
        enginetest_wait(&x,
                        1000); /* an edge that comes before its gate has entered is tried again */
        enginetest_check(&x);
        answers++;
        if ((known("gate")[0] != '\0') != (answers >= plan->closes)) {
            fail_msg("%s: answer %d, the gate knows '%s'", plan->what, answers, known("gate"));
        }
    }
    assert_string_equal(known("gate"), plan->gate);
    assert_string_equal(known("other"), says_other() ? "live" : "");
    assert_int_equal(marks(), plan->marks);
    enginetest_done(&x);
}

/* Proves for every plan when the gate is reached, what it knows, and that it is reached once: on every
 * provider, step by step, and with an engine that dies after every answer. */
static void test_plans(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(plans); i++) {
        plan = &plans[i];
        for (int kind = 0; kind < storetest_kinds(); kind++) {
            run_plan((enum storetest_kind)kind, false, false);
        }
        run_plan(STORETEST_MEMORY, true, false);
        run_plan(STORETEST_MEMORY, false, true);
        run_plan(STORETEST_MEMORY, true, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
