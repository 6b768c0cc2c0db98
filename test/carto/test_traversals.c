/* test_traversals.c - traversals as jobs: the same bytes as in memory, whatever runs them and whatever is killed
 *
 * The list is a small Debian with alternatives, providers, cycles, what is missing and what is too old. A traversal of it
 * runs on every provider, fused and step by step, with pages of 1, 7 and 500 items, and is killed after every commit. Its
 * rows give the canonical JSON, the JSON lines and the tree that the stages give in memory (support/cartorun.h), byte by
 * byte; FORMAT answers once; a check of the store finds nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/deb.h"
#include "carto/deb_import.h"
#include "carto/format_items.h"
#include "carto/import.h"
#include "carto/plan.h"
#include "carto/result.h"
#include "carto/split.h"
#include "support/cartorun.h"
#include "support/graphrun.h"

#define ID "t"
#define TOPICS "carto.format carto.select.deb carto.resolve.deb carto.traverse.deb"
#define STANZA(name, version, rest)                                                                \
    "Package: " name "\nVersion: " version "\nArchitecture: amd64\n" rest "\n"

static const char list[] = STANZA("app", "1",
                                  "Depends: libc (>= 2), mta-default | mta, perl:any, tools\n"
                                  "Recommends: docs\n") STANZA("libc", "2.1", "Depends: libgcc\n")
    STANZA("libgcc", "12", "Depends: libc\n") STANZA("exim", "4", "Provides: mta\nDepends: libc\n")
        STANZA("postfix", "3", "Provides: mta (= 9)\nDepends: libc, ssl\n") STANZA("ssl", "3", "")
            STANZA("perl", "5", "Multi-Arch: allowed\nDepends: libc\n")
                STANZA("docs", "1", "Depends: viewer | web\n") STANZA("viewer", "1", "")
                    STANZA("old", "1", "") STANZA("strict", "1", "Depends: old (>= 2), gone\n")
                        STANZA("tools", "1", "Depends: a, b, c, strict\n")
                            STANZA("a", "1", "Depends: b, libc\n")
                                STANZA("b", "1", "Depends: c, ssl (>= 9)\n")
                                    STANZA("c", "1", "Depends: a, perl\n");

static struct graphrun run;
static struct testenv own; /* of what is made in memory */
static struct facts_table table;
static struct carto_facts facts;
static struct import_fact rows[64];

/* A row of the job, in the arena. */
static const void *row_of(struct arena *a, enum table_id in, const void *key)
{
    const void *row = NULL;
    int rc = store_get(run.f.s, a, in, key, &row, NULL);
    assert_true(rc == QP_OK || rc == QP_E_NOT_FOUND);
    return rc == QP_OK ? row : NULL;
}

static const struct carto_type *const types[] = {&deb_type};
static const struct plan_types known = {types, 1};

/* A step of an item, as run/traversals.c does it. */
static void work_step(struct graphcall *c, enum carto_step step)
{
    struct job_row job = *graphrun_job(&run, ID);
    struct act_row key = {.ns = job.ns, .job = job.job, .addr = c->addr};
    struct act_row trigger = {.ns = job.ns, .job = job.job, .addr = QP_STR("trigger,0")};
    struct data_row pending = {.ns = job.ns, .job = job.job};
    struct carto_plan plan;
    struct split_item item = {.env = &own.env, .request = &plan.request};
    const struct data_row *data;
    struct arena a;
    qp_str answer;
    arena_init(&a, &own.env, 0);
    assert_int_equal(plan_read(&own.env, &a, &known,
                               ((const struct act_row *)row_of(&a, TABLE_act, &trigger))->input,
                               &plan, NULL),
                     QP_OK);
    plan.uses[0].facts = &facts;
    assert_int_equal(item_read(&own.env, &a, path_of(c->addr),
                               ((const struct act_row *)row_of(&a, TABLE_act, &key))->input,
                               &item.item),
                     QP_OK);
    assert_int_equal(pending_name(&a, 'p', path_of(c->addr), &pending.name), QP_OK);
    data = row_of(&a, TABLE_data, &pending);
    item.pending = data == NULL ? QP_NONE : data->value;
    assert_int_equal(split_run(&item, &a, step, &answer, NULL), QP_OK);
    assert_true(answer.n < sizeof c->output);
    memcpy(c->output, answer.p, answer.n);
    c->output[answer.n] = '\0';
    arena_done(&a);
}

static void work_format(struct graphcall *c);

static void work(struct graphcall *c)
{
    for (enum carto_step step = CARTO_STEP_SELECT; step < CARTO_STEPS; step++) {
        char topic[64];
        (void)snprintf(topic, sizeof topic, "carto.%s.deb", carto_step_text(step));
        if (str_equal(c->topic, str_from(topic))) {
            work_step(c, step);
            return;
        }
    }
    work_format(c);
}

/* FORMAT, likewise. */
static void work_format(struct graphcall *c)
{
    struct arena arena;
    struct result_source *source = NULL;
    struct result_state state;
    struct format_digest digest;
    const struct job_row *job = graphrun_job(&run, ID);
    struct carto_items items;
    assert_true(str_equal(c->topic, CARTO_FORMAT_TOPIC));
    arena_init(&arena, &own.env, 0);
    assert_int_equal(result_state(run.f.s, &arena, job, &state, NULL), QP_OK);
    assert_int_equal(result_open(&own.env, run.f.s, job, NULL, &source), QP_OK);
    items = result_items(source);
    assert_int_equal(format_hash(&own.env, &items, &state.head, &digest), QP_OK);
    (void)snprintf(c->output, sizeof c->output, "{\"hash\":\"%s\"}", digest.hash);
    result_close(source);
    arena_done(&arena);
}

static void import_list(void)
{
    struct request_import import = {
        .type = QP_STR("deb"), .universe = str_from(table.universe), .facts = rows};
    for (size_t i = 0; i < table.fact_count; i++) {
        assert_true(i < ARRAY_COUNT(rows));
        rows[i] = (struct import_fact){FACT_VALUE, table.facts[i].name, table.facts[i].value};
    }
    import.fact_count = table.fact_count;
    import.complete = (int64_t)table.fact_count;
    assert_int_equal(graphrun_import(&run, &import), QP_OK);
}

static void begin(int kind, bool stepwise)
{
    run.stepwise = stepwise;
    graphrun_init(&run, (enum storetest_kind)kind, TOPICS, work);
    import_list();
}

static int setup(void **state)
{
    struct deb_import i;
    (void)state;
    testenv_init(&own, 1);
    deb_import_init(&i, &own.env);
    facts_table_init(&table, &own.env);
    assert_int_equal(deb_import_feed(&i, str_from(list), NULL), QP_OK);
    assert_int_equal(deb_import_end_list(&i, NULL), QP_OK);
    assert_int_equal(deb_import_finish(&i, &table, NULL), QP_OK);
    deb_import_done(&i);
    facts = facts_table_reader(&table);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    facts_table_done(&table);
    testenv_done(&own);
    return 0;
}

/* ------------------------------------------------------------------------------------- results as text */

static int keep(void *context, const char *bytes, size_t size)
{
    buf_add(context, bytes, size);
    return buf_rc(context);
}

static void write_formats(const struct carto_items *items, const struct carto_result_head *head,
                          struct carto_items (*again)(void *), void *context, struct buf *out)
{
    struct format_digest digest;
    struct carto_items next = *items;
    buf_reset(out);
    assert_int_equal(format_hash(&own.env, &next, head, &digest), QP_OK);
    next = again(context);
    assert_int_equal(format_json(&own.env, &next, head, str_from(digest.hash), out, keep), QP_OK);
    next = again(context);
    assert_int_equal(format_jsonl(&own.env, &next, out, keep), QP_OK);
    next = again(context);
    assert_int_equal(format_tree(&own.env, &next, out, keep), QP_OK);
}

static struct carto_items in_memory(void *context)
{
    return cartorun_items(context);
}

/* What the stages give without an engine. */
static void expect(const char *body, struct buf *out)
{
    struct carto_plan plan;
    struct arena arena;
    struct carto_run memory;
    struct carto_result_head head;
    struct carto_items items;
    struct qp_err err = {0};
    char universe[300];
    arena_init(&arena, &own.env, 0);
    if (plan_read(&own.env, &arena, &known, str_from(body), &plan, &err) != QP_OK) {
        fail_msg("%s: %s", body, err.text);
    }
    plan.uses[0].facts = &facts;
    cartorun_init(&memory, &own.env, &plan.request);
    assert_int_equal(cartorun_traverse(&memory, plan.roots, plan.root_count, &err), QP_OK);
    (void)snprintf(universe, sizeof universe, "deb@%s", table.universe);
    head = (struct carto_result_head){str_from(universe), stage_end(&memory.counts), memory.counts};
    items = cartorun_items(&memory);
    write_formats(&items, &head, in_memory, &memory, out);
    cartorun_done(&memory);
    arena_done(&arena);
}

static struct result_source *source;

static struct carto_items from_rows(void *context)
{
    result_close(source);
    assert_int_equal(result_open(&own.env, run.f.s, context, NULL, &source), QP_OK);
    return result_items(source);
}

/* The rows of the job give these bytes, and the hash that FORMAT has answered is theirs. */
static void compare(const struct buf *expected)
{
    struct buf got;
    struct arena arena;
    struct result_state state;
    struct carto_items items;
    struct job_row job = *graphrun_job(&run, ID);
    assert_int_equal(job.state, JOB_COMPLETED);
    arena_init(&arena, &own.env, 0);
    buf_init(&got, &own.env, 0);
    assert_int_equal(result_state(run.f.s, &arena, &job, &state, NULL), QP_OK);
    assert_int_equal(state.sums.made, state.sums.counts.items);
    assert_true(state.has_ended);
    /* rows of storetest's job live until its next call: the version is copied by the state's arena */
    items = from_rows(&job);
    write_formats(&items, &state.head, from_rows, &job, &got);
    if (got.n != expected->n || memcmp(got.p, expected->p, got.n) != 0) {
        fail_msg("got:\n%.*s\nexpected:\n%.*s", (int)got.n, got.p, (int)expected->n, expected->p);
    }
    assert_non_null(memmem(expected->p, expected->n, state.hash.p, state.hash.n));
    result_close(source);
    source = NULL;
    buf_done(&got);
    arena_done(&arena);
}

/* -------------------------------------------------------------------------------------------- tests */

#define BODY(roots, more) "{\"roots\":[" roots "]" more "}"
#define CLOSURE(name) ",\"deb\":{\"closure\":\"" name "\"}"

static const char *const bodies[] = {
    BODY("\"deb:app\"", CLOSURE("A")),
    BODY("\"deb:app\"", CLOSURE("A") ",\"page\":1"),
    BODY("\"deb:app\"", CLOSURE("A") ",\"page\":7"),
    BODY("\"deb:app\"", CLOSURE("F") ",\"depth\":1"),
    BODY("\"deb:app\",\"deb:strict\",\"deb:libc=2.1\"", CLOSURE("FR") ",\"page\":2"),
    BODY("\"deb:app\"", CLOSURE("R") ",\"depth\":0"),
    BODY("\"deb:*\"", CLOSURE("S") ",\"page\":3"),
    BODY("\"deb:app\"", CLOSURE("S") ",\"exclusions\":[\"deb:lib*\"],\"page\":4"),
    BODY("\"deb:app\"", CLOSURE("A") ",\"versions\":{\"deb:mta-default\":\"deb:exim@4\"}"),
    BODY("\"deb:app\"", CLOSURE("A") ",\"split\":true"),
    BODY("\"deb:app\",\"deb:libc=2.1\"", CLOSURE("FR") ",\"page\":2,\"split\":true"),
    BODY("\"deb:app\"", CLOSURE("A") ",\"split\":true,\"depth\":2,\"exclusions\":[\"deb:ssl\"]"),
};

/* In memory deb:* is a list of roots. */
static const char *listed(const char *body)
{
    return strstr(body, "deb:*") == NULL
               ? body
               : BODY("\"deb:a\",\"deb:app\",\"deb:b\",\"deb:c\",\"deb:docs\",\"deb:exim\","
                      "\"deb:libc\",\"deb:libgcc\",\"deb:old\",\"deb:perl\",\"deb:postfix\","
                      "\"deb:ssl\",\"deb:strict\",\"deb:tools\",\"deb:viewer\"",
                      CLOSURE("S"));
}

/* A server takes every fifth: each commit is a way there and back. */
static size_t step_of(int kind)
{
    return kind == STORETEST_POSTGRES ? 5 : 1;
}

static void test_same_bytes(void **state)
{
    struct buf expected;
    (void)state;
    buf_init(&expected, &own.env, 0);
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(bodies) * 2; i += step_of(kind)) {
            begin(kind, i % 2 != 0);
            expect(listed(bodies[i / 2]), &expected);
            assert_int_equal(graphrun_start(&run, "carto", ID, bodies[i / 2]), QP_OK);
            graphrun_wait(&run, 60000);
            compare(&expected);
            assert_int_equal(graphrun_calls(&run, "carto.format"), 1);
            graphrun_check(&run);
            graphrun_done(&run);
        }
    }
    buf_done(&expected);
}

/* One run that is killed after its n-th commit; false: it had fewer. */
static bool killed_run(int kind, bool stepwise, const char *body, int64_t commit,
                       const struct buf *expected)
{
    bool was_killed;
    begin(kind, stepwise);
    run.kill_at = run.commits + commit;
    assert_true(graphrun_start(&run, "carto", ID, body) == QP_OK || run.kills > 0);
    graphrun_wait(&run, 600000);
    was_killed = run.kills > 0;
    compare(expected);
    graphrun_check(&run);
    graphrun_done(&run);
    return was_killed;
}

/* Fused with a few items on a page, and step by step; the long lane kills after every commit of all of them. */
static const char *const killed[] = {
    BODY("\"deb:tools\"", CLOSURE("A") ",\"page\":5"),
    BODY("\"deb:*\"", CLOSURE("S") ",\"page\":7"),
    BODY("\"deb:strict\",\"deb:docs\"", CLOSURE("FR") ",\"page\":1"),
    BODY("\"deb:strict\",\"deb:docs\"", CLOSURE("A") ",\"page\":2,\"split\":true"),
};

static void test_killed_at_every_commit(void **state)
{
    /* in the short lane: in memory, on a file, on a server; fused and step by step */
    static const int64_t strides[2][3] = {{2, 7, 31}, {17, 61, 127}};
    bool is_long = testenv_is_torture();
    struct buf expected;
    int64_t kills = 0;
    (void)state;
    buf_init(&expected, &own.env, 0);
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(killed) * 2; i++) {
            bool stepwise = i % 2 != 0;
            int64_t stride = is_long ? 1
                                     : strides[stepwise][kind == STORETEST_MEMORY     ? 0
                                                         : kind == STORETEST_POSTGRES ? 2
                                                                                      : 1];
            expect(listed(killed[i / 2]), &expected);
            for (int64_t commit = 1; killed_run(kind, stepwise, killed[i / 2], commit, &expected);
                 commit += stride) {
                kills++;
            }
        }
    }
    print_message("%lld kills\n", (long long)kills);
    assert_true(kills > 20);
    buf_done(&expected);
}

/* At most three row writes per item: its birth, its end, and the mark of its node. */
static void test_row_writes(void **state)
{
    enum { PACKAGES = 1200, NEEDS = 5 };
    static struct import_fact large[PACKAGES + 10];
    struct deb_import i;
    struct facts_table all;
    struct store_info before;
    struct store_info after;
    struct request_import import = {.type = QP_STR("deb"), .facts = large};
    struct result_state r;
    struct arena arena;
    struct buf text;
    (void)state;
    buf_init(&text, &own.env, 0);
    for (int n = 0; n < PACKAGES; n++) {
        buf_printf(&text, "Package: p%d\nVersion: 1\nArchitecture: amd64\nDepends: p%d", n,
                   (n + 1) % PACKAGES);
        for (int k = 1; k < NEEDS; k++) {
            buf_printf(&text, ", p%d", (n * (k + 1) + k) % PACKAGES);
        }
        buf_text(&text, "\n\n");
    }
    deb_import_init(&i, &own.env);
    facts_table_init(&all, &own.env);
    assert_int_equal(deb_import_feed(&i, buf_slice(&text), NULL), QP_OK);
    assert_int_equal(deb_import_end_list(&i, NULL), QP_OK);
    assert_int_equal(deb_import_finish(&i, &all, NULL), QP_OK);
    for (size_t k = 0; k < all.fact_count; k++) {
        large[k] = (struct import_fact){FACT_VALUE, all.facts[k].name, all.facts[k].value};
    }
    import.universe = str_from(all.universe);
    import.fact_count = all.fact_count;
    import.complete = (int64_t)all.fact_count;
    run.stepwise = false;
    graphrun_init(&run, STORETEST_SQLITE, TOPICS, work);
    assert_int_equal(graphrun_import(&run, &import), QP_OK);
    store_info(run.f.s, &before);
    assert_int_equal(graphrun_start(&run, "carto", ID, BODY("\"deb:*\"", "")), QP_OK);
    graphrun_wait(&run, 60000);
    store_info(run.f.s, &after);
    arena_init(&arena, &own.env, 0);
    assert_int_equal(result_state(run.f.s, &arena, graphrun_job(&run, ID), &r, NULL), QP_OK);
    print_message("%lld items, %lld rows\n", (long long)r.sums.made,
                  (long long)(after.rows_written - before.rows_written));
    assert_int_equal(r.sums.made, PACKAGES * (NEEDS + 1));
    assert_true(after.rows_written - before.rows_written <= 3 * r.sums.made);
    arena_done(&arena);
    graphrun_check(&run);
    graphrun_done(&run);
    facts_table_done(&all);
    deb_import_done(&i);
    buf_done(&text);
}

/* What a request is refused with: code and a part of the sentence is the face's own. */
static void test_refused(void **state)
{
    static const struct {
        const char *body;
        int rc;
    } cases[] = {
        {"{\"roots\":[]}", QP_E_SHAPE},
        {"{}", QP_E_SHAPE},
        {"[]", QP_E_SHAPE},
        {BODY("\"app\"", ""), QP_E_SHAPE},
        {BODY("\"rpm:app\"", ""), QP_E_SHAPE},
        {BODY("\"deb:apq\"", ""), QP_E_SHAPE},
        {BODY("\"deb:app=2\"", ""), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"depth\":-1"), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"page\":501"), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"scope\":\"build_time\""), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"exclusions\":[\"deb:a b\"]"), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"exclusions\":[\"rpm:a\"]"), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"versions\":{\"deb:libc\":\"9\"}"), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"deb\":{\"closure\":\"Z\"}"), QP_E_SHAPE},
        {BODY("\"deb:app\"", ",\"colour\":1"), QP_E_SHAPE},
    };
    (void)state;
    begin(STORETEST_MEMORY, false);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int rc = graphrun_start(&run, "carto", ID, cases[i].body);
        if (rc != cases[i].rc) {
            fail_msg("%s: %s", cases[i].body, qp_code_word(rc));
        }
    }
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_at_every_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_row_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
