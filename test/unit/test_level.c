/* test_level.c - gates that run levels of items, on every provider
 *
 * A traversal in miniature. The job's input is "ITEMS PAGE MODE": so many roots, so many items on a page. An item is at
 * its level and ordinals, "#a1a0a2"; its node is the sum of its ordinals. The first item of a node, in canonical order,
 * has two children, until level LEVELS; the others are duplicates. So which items there are depends on the order in which
 * they are judged, and on nothing else.
 *
 *     mode r   an item is answered once, and ends
 *     mode t   an item whose node is a multiple of 3 has a task first: its gate goes on without it, the next one waits
 *     mode s   as t, but the tasks belong to a first phase, "select": the second one, "run", begins when all are through
 *     mode f   the item of node 4 ends the job
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/check.h"
#include "store/txn.h"
#include "support/enginetest.h"

#define LEVELS 4
#define SELECT QP_STR("select")
#define RUN QP_STR("run")

static struct enginetest x;
static const struct actor no_actors[] = {{0}};

struct plan {
    long items;
    long page;
    char mode;
};

static int plan_of(struct turn *t, struct plan *out)
{
    const struct act_row *trigger = NULL;
    char text[64];
    char *rest = NULL;
    QP_TRY(turn_act(t, TRIGGER_ADDRESS, &trigger));
    assert_true(trigger->input.n < sizeof text);
    memcpy(text, trigger->input.p, trigger->input.n);
    text[trigger->input.n] = '\0';
    out->items = strtol(text, &rest, 10);
    out->page = strtol(rest, &rest, 10);
    out->mode = rest[1];
    return QP_OK;
}

static bool is_gate(const struct turn *t)
{
    return str_equal(address_gate(t->site.addr), t->site.addr);
}

/* Levels have one digit here, ordinals one or two. */
static int level_of(qp_str addr)
{
    return addr.p[2] - '0';
}

static long node_of(qp_str addr)
{
    long sum = 0;
    for (size_t i = 3; i < addr.n;) {
        long number = 0;
        size_t end = i + 2 + (size_t)(addr.p[i] - 'a');
        for (i++; i < end; i++) {
            number = number * 10 + addr.p[i] - '0';
        }
        sum += number;
    }
    return sum;
}

static int item_born(struct turn *t, int level, qp_str above, long ordinal)
{
    struct op_act_create row = {.category = 'A', .kind = 1, .input = QP_STR("{}")};
    char text[64];
    int n = snprintf(text, sizeof text, "#a%d%.*s%c%ld", level, STR_ARG(above),
                     ordinal > 99  ? 'c'
                     : ordinal > 9 ? 'b'
                                   : 'a',
                     ordinal);
    assert_true(arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, &row.addr));
    return turn_born(t, &row);
}

/* At the gate of a level; `purpose` none: its own scope, whose first arrival makes the gate. */
static int arrive(struct turn *t, int level, qp_str purpose, int64_t ways, int64_t delta)
{
    struct arrival a = {.purpose = purpose, .ways = ways, .delta = delta, .live = true};
    QP_TRY(address_of_gate(turn_arena(t), (uint64_t)level, &a.addr));
    return turn_arrive(t, &a);
}

static int describe(struct turn *t, struct op_act_create *row)
{
    assert_true(is_gate(t)); /* items have their rows */
    row->category = 'A';
    return QP_OK;
}

/* -------------------------------------------------------------------------------------------- gates */

/* An edge begins a phase, unless the level has no items at all: that is the last gate. */
static int gate_work(struct turn *t, const struct plan *plan, struct work *work)
{
    bool selected = false;
    struct bundle_rows first;
    qp_str phase;
    char text[64];
    int n;
    if (!str_is_none(t->payload)) {
        return QP_OK;
    }
    QP_TRY(turn_is_edge(t, SELECT, &selected));
    QP_TRY(turn_range(t, t->site.addr, QP_NONE, 1, &first));
    phase = plan->mode == 's' && !selected ? SELECT : RUN;
    n = snprintf(text, sizeof text, "{\"phase\":\"%.*s\",\"after\":\"%.*s\"}", STR_ARG(phase),
                 STR_ARG(t->site.addr));
    work->code = first.count > 0 ? CODE_PENDING : 204;
    assert_true(arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, &work->output));
    return QP_OK;
}

/* The text of a member; the tests' payloads have no escapes. */
static qp_str member(qp_str json, const char *name)
{
    char text[200];
    const char *at;
    assert_true(json.n < sizeof text);
    memcpy(text, json.p, json.n);
    text[json.n] = '\0';
    at = strstr(text, name);
    assert_non_null(at);
    at += strlen(name) + 3;
    return (qp_str){json.p + (at - text), strcspn(at, "\"")};
}

static int gate_spawn(struct turn *t, const struct plan *plan, struct spawn *spawn)
{
    qp_str phase = member(t->guid.output, "phase");
    int level = level_of(t->site.addr);
    struct level_page page = {
        .phase = phase, .after = member(t->guid.output, "after"), .limit = (size_t)plan->page};
    if (t->guid.code == 204) {
        return QP_OK;
    }
    if (t->guid.code == 200 && str_equal(phase, RUN)) {
        return arrive(t, level + 1, QP_NONE, 2, -1);
    }
    if (t->guid.code == 200) {
        spawn->pending = true;
        return arrive(t, level, SELECT, 1, -1);
    }
    if (guid_ordinal(t->guid.ledger) == 1) { /* the next gate is there before its first item */
        QP_TRY(arrive(t, level + 1, QP_NONE, 2, -1));
    }
    return turn_level(t, &page);
}

/* -------------------------------------------------------------------------------------------- items */

static int first_of_node(struct turn *t, bool *out_first)
{
    const struct data_row *data = NULL;
    char text[32];
    qp_str name;
    int n = snprintf(text, sizeof text, "n:%ld", node_of(t->site.addr));
    assert_true(arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, &name));
    QP_TRY(turn_data(t, name, &data));
    *out_first = data == NULL;
    return data == NULL ? turn_data_put(t, name, t->site.addr) : QP_OK;
}

static bool wants_task(const struct turn *t, const struct plan *plan)
{
    qp_str phase = plan->mode == 's' ? SELECT : RUN;
    return (plan->mode == 's' || plan->mode == 't') && node_of(t->site.addr) % 3 == 0 &&
           str_equal(t->payload, phase);
}

/* What becomes of the item: "task" waits for a worker, "selected" for the next phase, the others are its end. */
static int item_work(struct turn *t, const struct plan *plan, struct work *work)
{
    bool first = false;
    if (wants_task(t, plan)) {
        *work = (struct work){CODE_PENDING, QP_STR("task")};
        return QP_OK;
    }
    if (plan->mode == 's' && !str_equal(t->payload, RUN)) {
        *work = (struct work){200, QP_STR("selected")};
        return QP_OK;
    }
    QP_TRY(first_of_node(t, &first));
    work->output = first ? QP_STR("expand") : QP_STR("duplicate");
    return QP_OK;
}

static int item_expand(struct turn *t)
{
    qp_str above = {t->site.addr.p + 3, t->site.addr.n - 3};
    int level = level_of(t->site.addr) + 1;
    QP_TRY(level < LEVELS ? item_born(t, level, above, 0) : QP_OK);
    return level < LEVELS ? item_born(t, level, above, 2) : QP_OK;
}

/* An answer of its task. */
static bool came_back(const struct turn *t)
{
    return !str_equal(t->payload, SELECT) && !str_equal(t->payload, RUN) &&
           t->act->guid_rows + !str_is_none(t->act->guid) > 1;
}

static int item_spawn(struct turn *t, const struct plan *plan, struct spawn *spawn)
{
    qp_str said = t->guid.output;
    int level = level_of(t->site.addr) + (plan->mode == 't');
    qp_str scope = plan->mode == 't' ? QP_NONE : SELECT;
    if (plan->mode == 'f' && node_of(t->site.addr) == 4) {
        turn_fail(t, JOB_FAILED, QP_STR("{\"code\":422,\"message\":\"four\"}"));
        return QP_OK;
    }
    if (str_equal(said, QP_STR("task"))) {
        QP_TRY(turn_task(t, QP_STR("t")));
        return arrive(t, level, scope, 1, 1);
    }
    if (came_back(t)) {
        QP_TRY(arrive(t, level, scope, 1, -1));
    }
    spawn->pending = str_equal(said, QP_STR("selected"));
    return str_equal(said, QP_STR("expand")) ? item_expand(t) : QP_OK;
}

/* ------------------------------------------------------------------------------------------ program */

static int work(struct turn *t, struct work *work)
{
    struct plan plan;
    if (t->act->category == 'D') {
        return QP_OK;
    }
    QP_TRY(plan_of(t, &plan));
    return is_gate(t) ? gate_work(t, &plan, work) : item_work(t, &plan, work);
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    struct plan plan;
    QP_TRY(plan_of(t, &plan));
    if (t->act->category != 'D') {
        return is_gate(t) ? gate_spawn(t, &plan, spawn) : item_spawn(t, &plan, spawn);
    }
    for (long i = 0; i < plan.items; i++) {
        QP_TRY(item_born(t, 0, QP_NONE, i));
    }
    return arrive(t, 0, QP_NONE, 1, -1);
}

/* `slice_us` as in engine_options. */
static void open_sliced(enum storetest_kind kind, bool stepwise, int64_t slice_us)
{
    enginetest_init(&x, kind, no_actors);
    x.cast.program = (struct program){
        .kind = CAST_KIND, .name = "level", .describe = describe, .work = work, .spawn = spawn};
    x.options.stepwise = stepwise;
    x.options.slice_us = slice_us;
    enginetest_open(&x);
}

static void open_program(enum storetest_kind kind, bool stepwise)
{
    open_sliced(kind, stepwise, 0);
}

static void start(const char *jid, const char *input)
{
    struct request_start r;
    enginetest_fill_start(&x, &r, jid, input);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    x.job = r.job.job;
}

/* ------------------------------------------------------------------------------------------ results */

/* The addresses of all items, in order. */
struct listing {
    char text[64 * 1024];
    size_t n;
    long items;
    long open;
};

static int list_item(void *context, const void *row)
{
    struct listing *l = context;
    const struct act_row *act = row;
    qp_str gate = address_gate(act->addr);
    if (str_is_none(gate) || str_equal(gate, act->addr)) {
        return QP_OK;
    }
    l->items++;
    l->open += !ledger_is_finalized(act->ledger);
    if (l->n + act->addr.n + 2 < sizeof l->text) {
        l->n +=
            (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%.*s\n", STR_ARG(act->addr));
    }
    return QP_OK;
}

static void list_items(struct listing *out)
{
    struct act_row prefix = {.ns = STORE_NS_DEFAULT, .job = x.job};
    struct scan scan = {
        .table = TABLE_act, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
    *out = (struct listing){0};
    assert_int_equal(store_scan(x.f.s, &scan, out, list_item, NULL), QP_OK);
}

static struct listing expected;
static struct listing got;

/* Until the job is over. Stepwise, an edge may come before its gate has entered, and is tried again later. */
static void finish(void)
{
    for (int i = 0; enginetest_job(&x, x.job)->state == JOB_OPEN; i++) {
        assert_true(i < 100);
        (void)enginetest_work(&x);
        enginetest_wait(&x, 60000);
    }
}

/* The job is completed with the items that the first run had. */
static void expect_same(void)
{
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    assert_int_equal(enginetest_job(&x, x.job)->waits, 0);
    list_items(&got);
    assert_int_equal(got.open, 0);
    if (expected.n == 0) {
        expected = got;
    }
    assert_string_equal(got.text, expected.text);
    enginetest_check(&x);
}

/* -------------------------------------------------------------------------------------------- tests */

static const char *const inputs[] = {"12 1 r", "12 7 r",   "12 500 r", "12 1 t",
                                     "12 5 t", "12 500 t", "12 3 s",   "12 500 s"};

/* A server takes every third of them: each commit is a way there and back. */
static size_t step_of(int kind)
{
    return kind == STORETEST_POSTGRES ? 3 : 1;
}

/* Fused, step by step, and fused with pages that have no time for more than one item. */
static void open_variant(int kind, size_t variant)
{
    open_sliced((enum storetest_kind)kind, variant == 1, variant == 2 ? -1 : 0);
}

/* Whatever the size of a page, the mode of waiting and the provider, fused, step by step or sliced: the same items. */
static void test_same_items(void **state)
{
    (void)state;
    expected = (struct listing){0};
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(inputs) * 3; i += step_of(kind)) {
            open_variant(kind, (i + i / 3) % 3); /* so that every third is each of them */
            start("a", inputs[i / 3]);
            finish();
            expect_same();
            enginetest_done(&x);
        }
    }
    assert_true(expected.n > 0);
}

static void one_round(void)
{
    struct qp_err err = {0};
    bool busy = false;
    assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
}

/* As start, but the engine does no more than that. */
static void submit(const char *text)
{
    static struct request_start r;
    enginetest_fill_start(&x, &r, "a", text);
    r.command.answer = enginetest_answered;
    enginetest_answers = 0;
    engine_submit(x.e, &r.command);
    while (enginetest_answers == 0) {
        one_round();
    }
    x.job = r.job.job;
}

/* An engine that dies after every commit leaves the same items, and a store that is sound in between. Every fifth engine
 * lives until its tasks are answered: tasks that die with each engine would be given up. */
static void test_killed_at_every_commit(void **state)
{
    (void)state;
    expected = (struct listing){0};
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(inputs); i += step_of(kind)) {
            open_variant(kind, i % 3);
            submit(inputs[i]);
            for (int round = 0; enginetest_job(&x, x.job)->state == JOB_OPEN; round++) {
                assert_true(round < 2000);
                one_round();
                if (round % 5 == 4) {
                    (void)enginetest_work(&x);
                }
                enginetest_crash(&x);
                testenv_advance_ms(&x.f.t, 60000); /* what a dead engine held comes again */
                enginetest_check(&x);
            }
            expect_same();
            enginetest_done(&x);
        }
    }
}

/* An item that ends the job ends the page: nothing of the level is left to wake, and the rest of it brings nothing. */
static void test_job_ends_within_a_page(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            open_program((enum storetest_kind)kind, stepwise != 0);
            start("a", "12 500 f");
            finish();
            assert_int_equal(enginetest_job(&x, x.job)->state, JOB_FAILED);
            assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 0);
            enginetest_check(&x);
            enginetest_done(&x);
        }
    }
}

/* A page ends by its bundle's own limit as well; an item costs two row writes, and a node one. */
static void test_row_writes(void **state)
{
    struct store_info before;
    struct store_info after;
    int64_t nodes;
    (void)state;
    open_program(STORETEST_SQLITE, false);
    store_info(x.f.s, &before);
    start("a", "900 500 r");
    finish();
    store_info(x.f.s, &after);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    list_items(&got);
    nodes = (int64_t)enginetest_rows(&x, TABLE_data, x.job);
    print_message("%ld items, %lld nodes, %lld rows\n", got.items, (long long)nodes,
                  (long long)(after.rows_written - before.rows_written));
    assert_true(after.rows_written - before.rows_written <= 2 * got.items + nodes + 200);
    enginetest_check(&x);
    enginetest_done(&x);
}

static int count_M3(void *context, const struct qp_finding *finding)
{
    *(int *)context += strcmp(finding->rule, "M3") == 0;
    return QP_OK;
}

static int findings_M3(void)
{
    struct qp_check_result result;
    int count = 0;
    assert_int_equal(check_run(x.f.s, &(struct check_options){0}, &count, count_M3, &result, NULL),
                     QP_OK);
    return count;
}

static int lose_task(void *context, struct txn *t)
{
    const struct task *task = context;
    struct msg_row key = {.ns = STORE_NS_DEFAULT,
                          .job = x.job,
                          .guid = {(const char *)task->guid, sizeof task->guid}};
    txn_drop(t, TABLE_msg, &key);
    return t->rc;
}

static int end_gate(void *context, struct txn *t)
{
    struct act_row key = {.ns = STORE_NS_DEFAULT, .job = x.job, .addr = QP_STR("#a1")};
    struct act_row *gate = txn_edit(t, TABLE_act, &key);
    (void)context;
    assert_non_null(gate);
    gate->ledger += LEDGER_FINALIZED;
    return t->rc;
}

/* Proves that a check takes an open gate for the wake source of what waits for it, but not of an item that waits for
 * something else: if that is gone, it is found; and so are the items of a gate that has ended without them. */
static void test_check(void **state)
{
    struct qp_err err;
    (void)state;
    open_program(STORETEST_MEMORY, false);
    start("a", "12 1 t");
    enginetest_settle(&x);
    assert_non_null(x.tasks);
    assert_int_equal(findings_M3(), 0);
    assert_int_equal(store_transact(x.f.s, x.tasks, lose_task, NULL), QP_OK);
    assert_int_equal(findings_M3(), 1);
    assert_int_equal(store_transact(x.f.s, NULL, end_gate, NULL), QP_OK);
    assert_true(findings_M3() > 2);
    while (x.tasks != NULL) { /* not enginetest_done: the store would not pass its check */
        enginetest_forget(&x, x.tasks);
    }
    assert_int_equal(engine_close(x.e, &err), QP_OK);
    storetest_done(&x.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_items),
        cmocka_unit_test(test_killed_at_every_commit),
        cmocka_unit_test(test_job_ends_within_a_page),
        cmocka_unit_test(test_row_writes),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
