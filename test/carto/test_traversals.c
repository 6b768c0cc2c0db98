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
#include "carto/face.h"
#include "carto/format_items.h"
#include "carto/format_own.h"
#include "carto/import.h"
#include "carto/plan.h"
#include "carto/result.h"
#include "carto/split.h"
#include "carto/traversal.h"
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

/* The item that no worker gets through a step. */
static struct {
    enum carto_step step;
    const char *name; /* NULL: none */
    bool is_silent;   /* the worker's lease runs out; else it reports an error */
} failing;

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
    if (failing.name != NULL && step == failing.step &&
        str_equal(item.item.target.name, str_from(failing.name))) {
        c->silent = failing.is_silent;
        c->kind = RESULT_ERROR;
        c->code = 500;
        (void)snprintf(c->output, sizeof c->output, "{\"code\":500,\"message\":\"disk on fire\"}");
        arena_done(&a);
        return;
    }
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

/* A format that a request could bring. */
static const char own_format[] =
    "{\"node\":{\"n\":\"{$index}\",\"id\":\"{$item.purl}\",\"at\":\"{$item.depth}\",\"asked\":\"{$item.requirement}\","
    "\"scopes\":\"{$item.scopes}\",\"errors\":\"{$item.errors}\"}}";

static const struct format_own *read_own(struct arena *a)
{
    const struct format_own *format = NULL;
    struct json *json = NULL;
    assert_int_equal(json_parse(a->env, str_from(own_format), NULL, &json), QP_OK);
    assert_int_equal(format_own_read(a, json, &format, NULL), QP_OK);
    json_free(json);
    return format;
}

static void write_formats(const struct carto_items *items, const struct carto_result_head *head,
                          struct carto_items (*again)(void *), void *context, struct buf *out)
{
    struct format_digest digest;
    struct carto_items next = *items;
    const struct format_own *brought;
    struct arena a;
    arena_init(&a, &own.env, 0);
    brought = read_own(&a);
    buf_reset(out);
    assert_int_equal(format_hash(&own.env, &next, head, &digest), QP_OK);
    for (enum carto_format f = CARTO_JSON; f < CARTO_FORMATS; f++) {
        struct format_of of = {&own.env, again(context), *head, str_from(digest.hash), f, brought};
        assert_int_equal(format_write(&of, out, keep), QP_OK);
    }
    arena_done(&a);
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
    static const int64_t strides[2][3] = {{5, 17, 61}, {31, 127, 251}};
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

/* The steps of the specification, and the first commit that shows each of them to have happened to the root. */
enum spec_step {
    REGISTER,
    END_DETECT,
    SELECT_SYNC,
    SELECT,
    RESOLVE_SYNC,
    RESOLVE,
    TRAVERSE,
    FORMAT,
    STEPS
};
static const char *const step_names[STEPS] = {"REGISTER", "END-DETECT",   "SELECT-SYNC",
                                              "SELECT",   "RESOLVE-SYNC", "RESOLVE",
                                              "TRAVERSE", "FORMAT"};
static struct {
    int64_t last;          /* commits at the end of the round before */
    int64_t before[STEPS]; /* commits when it had not happened yet */
    int64_t after[STEPS];  /* and when it had; 0: not seen */
} watch;

static bool is_answered(struct arena *a, int64_t job, qp_str addr)
{
    struct act_row key = {.ns = STORE_NS_DEFAULT, .job = job, .addr = addr};
    const struct act_row *act = row_of(a, TABLE_act, &key);
    return act != NULL && act->guid_at != 0;
}

/* A row of data of the root; none: there is none. */
static qp_str root_data(struct arena *a, int64_t job, char step)
{
    struct data_row key = {.ns = STORE_NS_DEFAULT, .job = job};
    const struct data_row *row;
    qp_str path;
    assert_int_equal(path_root(a, 0, &path), QP_OK);
    assert_int_equal(pending_name(a, step, path, &key.name), QP_OK);
    row = row_of(a, TABLE_data, &key);
    return row == NULL ? QP_NONE : row->value;
}

static void look(struct arena *a, const struct job_row *job, bool happened[STEPS])
{
    struct result_state state;
    qp_str path;
    qp_str root;
    qp_str resolved = root_data(a, job->job, 'r');
    assert_int_equal(path_root(a, 0, &path), QP_OK);
    assert_int_equal(address_of_item(a, path, &root), QP_OK);
    assert_int_equal(result_state(run.f.s, a, job, &state, NULL), QP_OK);
    happened[REGISTER] = state.sums.made > 0;
    happened[END_DETECT] = is_answered(a, job->job, QP_STR("#a0"));
    happened[SELECT_SYNC] = is_answered(a, job->job, root);
    happened[SELECT] = !str_is_none(root_data(a, job->job, 'p'));
    happened[RESOLVE_SYNC] = !str_is_none(resolved);
    happened[RESOLVE] = !str_is_none(resolved) && !str_equal(resolved, QP_STR("{}"));
    happened[TRAVERSE] = state.sums.counts.items > 0;
    happened[FORMAT] = is_answered(a, job->job, CARTO_FORMAT_ADDRESS);
}

static void watch_steps(struct graphrun *r)
{
    bool happened[STEPS] = {false};
    const struct job_row *found = graphrun_job(r, ID);
    struct job_row job;
    struct arena a;
    if (found != NULL) {
        job = *found;
        arena_init(&a, &own.env, 0);
        look(&a, &job, happened);
        arena_done(&a);
    }
    for (enum spec_step s = REGISTER; s < STEPS; s++) {
        if (happened[s] && watch.after[s] == 0) {
            watch.before[s] = watch.last;
            watch.after[s] = r->commits;
        }
    }
    watch.last = r->commits;
}

/* Killed before and after each of the eight steps, every step a message and a commit of its own. */
static void test_killed_around_every_step(void **state)
{
    static const char body[] = BODY("\"deb:strict\"", CLOSURE("A") ",\"split\":true");
    struct buf expected;
    int64_t begins;
    (void)state;
    buf_init(&expected, &own.env, 0);
    expect(body, &expected);
    for (int kind = STORETEST_SQLITE; kind < storetest_kinds();
         kind += STORETEST_POSTGRES - STORETEST_SQLITE) {
        bool is_sampled = kind != STORETEST_SQLITE && !testenv_is_torture();
        memset(&watch, 0, sizeof watch);
        begin(kind, true);
        begins = run.commits;
        run.after_round = watch_steps;
        assert_int_equal(graphrun_start(&run, "carto", ID, body), QP_OK);
        graphrun_wait(&run, 60000);
        compare(&expected);
        graphrun_done(&run);
        for (int i = 0; i < 2 * STEPS; i += is_sampled ? 3 : 1) {
            int64_t at = i % 2 == 0 ? watch.before[i / 2] : watch.after[i / 2];
            print_message("%s: killed %s %s, at commit %lld\n", storetest_name(kind),
                          i % 2 == 0 ? "before" : "after", step_names[i / 2],
                          (long long)(at - begins));
            assert_true(watch.after[i / 2] > watch.before[i / 2]);
            assert_true(killed_run(kind, true, body, at > begins ? at - begins : 1, &expected));
        }
    }
    buf_done(&expected);
}

/* --------------------------------------------------------------------------------------- limits and losses */

#define SMALL_LIMIT 12

static int open_small(const struct face_options *options, void **out_state)
{
    struct traversals *s = NULL;
    QP_TRY(traversals_open(options->env, &known, &s));
    s->item_limit = SMALL_LIMIT;
    *out_state = s;
    return QP_OK;
}

/* No message is left, and the check of the store finds no row that is open. */
static void expect_nothing_open(void)
{
    assert_int_equal(storetest_count(&run.f, TABLE_msg), 0);
    graphrun_check(&run);
}

/* One run past the limit that is killed after its n-th commit (0: never); false: it had fewer. */
static bool limited_run(int kind, bool stepwise, const char *body, int64_t commit)
{
    bool was_killed;
    begin(kind, stepwise);
    run.too_late = true;
    run.kill_at = commit == 0 ? 0 : run.commits + commit;
    assert_true(graphrun_start(&run, "carto", ID, body) == QP_OK || run.kills > 0);
    graphrun_wait(&run, 600000);
    graphrun_expect(&run, ID, "failed",
                    "ITEM_LIMIT: the traversal has more than 12 items (LIMIT_CARTO_ITEMS): set a "
                    "depth or exclusions");
    expect_nothing_open();
    assert_int_equal(graphrun_calls(&run, "carto.format"), 0);
    was_killed = run.kills > 0;
    graphrun_done(&run);
    return was_killed;
}

/* Past the limit of items the request ends in ERROR, however it runs and whatever is killed, and nothing is left open: neither
 * in REGISTER, nor in the middle of a level, nor with tasks in the hands of workers. */
static void test_item_limit(void **state)
{
    static const char *const limited[] = {
        BODY("\"deb:app\"", CLOSURE("A")),
        BODY("\"deb:app\"", CLOSURE("A") ",\"page\":1"),
        BODY("\"deb:*\"", CLOSURE("S") ",\"page\":4"),
        BODY("\"deb:app\"", CLOSURE("A") ",\"split\":true"),
    };
    static struct face face;
    (void)state;
    face = carto_face;
    face.open = open_small;
    run.traversals = &face;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        int64_t stride = testenv_is_torture()         ? 1
                         : kind == STORETEST_MEMORY   ? 19
                         : kind == STORETEST_POSTGRES ? 127
                                                      : 61;
        for (size_t i = 0; i < ARRAY_COUNT(limited); i++) {
            for (int64_t at = 0; limited_run(kind, i % 2 != 0, limited[i], at) || at == 0;) {
                at += stride;
            }
        }
    }
    run.traversals = NULL;
}

/* The failed items, "name FAILURE: sentence" each. */
static void expect_failures(const char *expected)
{
    struct job_row job = *graphrun_job(&run, ID);
    struct carto_items items = from_rows(&job);
    struct buf text;
    buf_init(&text, &own.env, 0);
    for (uint64_t level = 0; level < 8; level++) {
        const struct carto_item *item = NULL;
        for (size_t i = 0; items.get(items.context, level, i, &item) == QP_OK; i++) {
            if (item->state == CARTO_FAILED_ITEM) {
                buf_printf(&text, "%.*s %s: %.*s\n", STR_ARG(item->target.name),
                           carto_failure_text(item->failure), STR_ARG(item->error));
            }
        }
    }
    buf_byte(&text, '\0');
    assert_string_equal(text.p, expected);
    buf_done(&text);
    result_close(source);
    source = NULL;
}

/* A step that its worker fails every time, or whose lease is lost every time, is an error of its item. The job is not parked, and
 * all other items are as they would be. */
static void test_worker_lost(void **state)
{
    static const char body[] = BODY("\"deb:exim\",\"deb:docs\"", CLOSURE("A") ",\"split\":true");
    (void)state;
    for (int i = 0; i < 2 * CARTO_STEPS; i++) {
        char topic[64];
        begin(i % 4 == 3 ? STORETEST_SQLITE : STORETEST_MEMORY, i % 3 == 0);
        failing.step = (enum carto_step)(i / 2);
        failing.name = "libc";
        failing.is_silent = i % 2 != 0;
        for (size_t s = 0; s < GRAPHRUN_TOPICS; s++) {
            run.services[s].lease_ms = failing.is_silent ? 30000 : 0;
        }
        assert_int_equal(graphrun_start(&run, "carto", ID, body), QP_OK);
        graphrun_wait(&run, 3600 * 1000);
        failing.name = NULL;
        graphrun_expect(&run, ID, "completed", NULL);
        expect_failures(i % 2 == 0 ? "libc WORKER_LOST: disk on fire\n"
                                   : "libc WORKER_LOST: the lease ran out: the worker neither "
                                     "answered nor sent a beat\n");
        (void)snprintf(topic, sizeof topic, "carto.%s.deb",
                       carto_step_text((enum carto_step)(i / 2)));
        assert_int_equal(graphrun_calls(&run, topic), 4 + 5); /* of the other items, and of libc */
        assert_int_equal(graphrun_calls(&run, "carto.format"), 1);
        expect_nothing_open();
        graphrun_done(&run);
    }
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
        cmocka_unit_test_setup_teardown(test_killed_around_every_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_item_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_row_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
