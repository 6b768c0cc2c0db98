/* test_compile.c - graphs from text: every rule has its message at its place, and good graphs become what they say
 *
 * Each file of test/graph/broken begins with what must be found in it, as comments: code, line:column and message; below
 * a line with the hint, if there is one. Everything that is found must stand there, in that order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena arena;
static struct report report;
static struct buf text;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    buf_init(&text, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&arena);
    buf_done(&text);
    testenv_done(&t);
    return 0;
}

static int compile(qp_str source, struct app **out_app)
{
    arena_reset(&arena);
    report_init(&report, &arena);
    return app_compile(&t.env, source, &report, out_app);
}

static void read_file(const char *directory, const char *name)
{
    char path[512];
    char piece[4096];
    size_t n;
    FILE *f;
    (void)snprintf(path, sizeof path, "test/graph/%s/%s", directory, name);
    f = fopen(path, "rb");
    assert_non_null(f);
    buf_reset(&text);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) {
        buf_add(&text, piece, n);
    }
    assert_int_equal(fclose(f), 0);
}

/* Calls for every graph of a directory; how many there are. */
static int each_file(const char *directory, void (*visit)(const char *name))
{
    char path[512];
    struct dirent *entry;
    int count = 0;
    DIR *dir;
    (void)snprintf(path, sizeof path, "test/graph/%s", directory);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".yaml") != NULL) {
            read_file(directory, entry->d_name);
            visit(entry->d_name);
            count++;
        }
    }
    (void)closedir(dir); /* it was only read */
    return count;
}

/* --------------------------------------------------------------------------------------- the rules */

static const char *const codes[] = {
#define FINDING(code, meaning) code,
#include "graph/findings.def"
#undef FINDING
};
static bool code_seen[ARRAY_COUNT(codes)];

static void see_code(const char *code)
{
    size_t i = 0;
    while (i < ARRAY_COUNT(codes) && strcmp(codes[i], code) != 0) {
        i++;
    }
    if (i == ARRAY_COUNT(codes)) {
        fail_msg("%s is not in findings.def", code);
    }
    code_seen[i] = true;
}

static void check_broken(const char *name)
{
    struct app *app = NULL;
    struct buf found;
    buf_init(&found, &t.env, 0);
    assert_int_equal(compile(buf_slice(&text), &app), QP_E_INVALID);
    assert_null(app);
    for (const struct finding *f = report.first; f != NULL; f = f->next) {
        buf_printf(&found, "# %s %d:%d %.*s\n", f->code, f->line, f->column, STR_ARG(f->message));
        if (!str_is_none(f->hint)) {
            buf_printf(&found, "#   %.*s\n", STR_ARG(f->hint));
        }
        see_code(f->code);
    }
    assert_true(report.count > 0);
    if (found.n >= text.n || memcmp(found.p, text.p, found.n) != 0 || text.p[found.n] == '#') {
        fail_msg("%s: found\n%.*s", name, (int)found.n, found.p);
    }
    buf_done(&found);
}

static const char *const level_words[] = {[FINDING_WRONG] = "wrong",
                                          [FINDING_WARNING] = "warning",
                                          [FINDING_NOTE] = "note",
                                          [FINDING_STRICT] = "strict"};

/* It compiles, and exactly the notes at its beginning are left. */
static void check_noted(const char *name)
{
    struct app *app = NULL;
    struct buf found;
    buf_init(&found, &t.env, 0);
    assert_int_equal(compile(buf_slice(&text), &app), QP_OK);
    for (const struct finding *f = report.first_note; f != NULL; f = f->next) {
        buf_printf(&found, "# %s %s %d:%d %.*s\n", level_words[f->level], f->code, f->line,
                   f->column, STR_ARG(f->message));
        if (!str_is_none(f->hint)) {
            buf_printf(&found, "#   %.*s\n", STR_ARG(f->hint));
        }
        see_code(f->code);
    }
    assert_true(report.note_count > 0);
    if (found.n >= text.n || memcmp(found.p, text.p, found.n) != 0 || text.p[found.n] == '#') {
        fail_msg("%s: found\n%.*s", name, (int)found.n, found.p);
    }
    buf_done(&found);
    app_free(app);
}

/* What stops nothing, and should be known. */
static void noted(void **state)
{
    (void)state;
    assert_true(each_file("noted", check_noted) >= 9);
}

/* Notes have a limit of their own: those that come first in the text stay, and the text is taken. */
static void limit_of_notes(void **state)
{
    struct app *app = NULL;
    size_t count = 0;
    (void)state;
    buf_reset(&text);
    buf_text(&text, "app: {id: a, version: '1', graphs: [{subscribes: a, input: {");
    for (int i = LIMIT_FINDINGS + 5; i > 0; i--) {
        buf_printf(&text, "'%d': 1,\n", i + 100);
    }
    buf_text(&text, "}, activities: {t: {type: trigger}}}]}\n");
    assert_int_equal(compile(buf_slice(&text), &app), QP_OK);
    assert_int_equal(report.note_count, LIMIT_FINDINGS + 5);
    for (const struct finding *f = report.first_note; f != NULL; f = f->next) {
        assert_int_equal(f->line, (int)++count);
    }
    assert_int_equal(count, LIMIT_FINDINGS);
    app_free(app);
}

/* Every rule: a graph that breaks it, and nothing else is found. */
static void broken(void **state)
{
    (void)state;
    assert_true(each_file("broken", check_broken) >= 80);
}

static void check_good(const char *name)
{
    struct app *app = NULL;
    if (compile(buf_slice(&text), &app) != QP_OK) {
        fail_msg("%s:%d:%d: %.*s", name, report.first->line, report.first->column,
                 STR_ARG(report.first->message));
    }
    for (size_t i = 0; i < app->graph_count; i++) {
        const struct graph *g = &app->graphs[i];
        assert_ptr_equal(app_graph(app, g->subscribes), g);
        for (size_t j = 0; j < g->activity_count; j++) {
            assert_ptr_equal(graph_activity(g, g->activities[j].id), &g->activities[j]);
        }
        assert_null(graph_activity(g, QP_STR("nobody")));
        assert_null(graph_activity(g, QP_STR("join:nobody")));
    }
    assert_null(app_graph(app, QP_STR("nobody")));
    app_free(app);
}

/* Graphs of all kinds are taken, and found again by their names. */
static void good(void **state)
{
    (void)state;
    assert_true(each_file("good", check_good) >= 7);
    app_free(NULL);
}

/* --------------------------------------------------------------------------------------- limits */

static void begin(const char *activities)
{
    buf_reset(&text);
    buf_printf(
        &text,
        "app: {id: a, version: '1', graphs: [{subscribes: a, activities: {t: {type: trigger}%s",
        activities);
}

static void expect_code(const char *code)
{
    struct app *app = NULL;
    assert_int_equal(buf_rc(&text), QP_OK);
    assert_int_equal(compile(buf_slice(&text), &app), QP_E_INVALID);
    assert_string_equal(report.first->code, code);
    see_code(code);
}

static void expect_good(void)
{
    struct app *app = NULL;
    assert_int_equal(compile(buf_slice(&text), &app), QP_OK);
    app_free(app);
}

/* `count` hooks: the trigger leads to as many as it may, each of them to one of the rest */
static void fan(size_t count)
{
    begin("");
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, ", a%zu: {type: hook}", i);
    }
    buf_text(&text, "}, transitions: {t: [");
    for (size_t i = 0; i < count && i < LIMIT_SPAWN; i++) {
        buf_printf(&text, "{to: a%zu}, ", i);
    }
    buf_text(&text, "]");
    for (size_t i = LIMIT_SPAWN; i < count; i++) {
        buf_printf(&text, ", a%zu: [{to: a%zu}]", i - LIMIT_SPAWN, i);
    }
    buf_text(&text, "}}]}\n");
}

/* At each limit a graph is taken, past it refused. */
static void limits(void **state)
{
    (void)state;
    fan(LIMIT_APP_ACTIVITIES - 1);
    expect_good();
    fan(LIMIT_APP_ACTIVITIES);
    expect_code("activities_limit");

    begin("");
    for (size_t i = 0; i <= LIMIT_SPAWN; i++) {
        buf_printf(&text, ", a%zu: {type: hook}", i);
    }
    buf_text(&text, "}, transitions: {t: [");
    for (size_t i = 0; i <= LIMIT_SPAWN; i++) {
        buf_printf(&text, "{to: a%zu}, ", i);
    }
    buf_text(&text, "]}}]}\n");
    expect_code("spawn_limit");
}

/* Two activities whose maps of job have so many keys together; the second has one that the first has not, and most others. */
static void job_keys(size_t count)
{
    begin("");
    for (size_t id = 0; id < 2; id++) {
        buf_printf(&text, ", %c: {type: hook, job: {maps: {", "ab"[id]);
        for (size_t i = id; i + 1 < count + id; i++) {
            buf_printf(&text, "k%zu: 1, ", i);
        }
        buf_text(&text, "}}}");
    }
    buf_text(&text, "}, transitions: {t: [{to: a}], a: [{to: b}]}}]}\n");
}

/* A hook with so many pipes in its maps of a section; four steps each. */
static void pipes(const char *section, size_t count)
{
    begin("");
    buf_printf(&text, ", a: {type: hook, %s: {maps: {", section);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "k%zu: {'@pipe': [['{t.output.data.x}', 1], ['{@math.add}']]}, ", i);
    }
    buf_text(&text, "}}}}, transitions: {t: [{to: a}]}}]}\n");
}

/* What one evaluation cannot do however little it finds. The job's data are computed entry by entry. */
static void limits_of_steps(void **state)
{
    (void)state;
    pipes("input", (LIMIT_MAPPING_STEPS - 1) / 4);
    expect_good();
    pipes("input", LIMIT_MAPPING_STEPS / 4);
    expect_code("steps_limit");
    pipes("output", LIMIT_MAPPING_STEPS / 4);
    expect_code("steps_limit");
    pipes("job", LIMIT_MAPPING_STEPS / 4);
    expect_good();
    begin(", a: {type: hook, input: {maps: {k: {k: 1");
    for (size_t i = 0; i < LIMIT_JSON_KEYS; i++) {
        buf_printf(&text, ", k%zu: 1", i);
    }
    buf_text(&text, "}}}}}, transitions: {t: [{to: a}]}}]}\n");
    expect_code("map_limit");
}

static void limits_of_data(void **state)
{
    struct app *app = NULL;
    (void)state;
    job_keys(LIMIT_JSON_KEYS);
    assert_int_equal(compile(buf_slice(&text), &app), QP_OK);
    assert_int_equal(app->graphs[0].job_key_count, LIMIT_JSON_KEYS);
    assert_int_equal(graph_job_key(&app->graphs[0], QP_STR("k0")), 0);
    assert_int_equal(graph_job_key(&app->graphs[0], QP_STR("k10")), 10);
    assert_int_equal(graph_job_key(&app->graphs[0], QP_STR("k9999")), 9999);
    assert_int_equal(graph_job_key(&app->graphs[0], QP_STR("x")), LIMIT_JSON_KEYS);
    app_free(app);
    job_keys(LIMIT_JSON_KEYS + 1);
    expect_code("job_keys_limit");
}

/* `width` activities that all lead to all of the next row, in `rows` rows */
static void rows(size_t width, size_t row_count)
{
    begin("");
    for (size_t i = 0; i < width * row_count; i++) {
        buf_printf(&text, ", a%zu: {type: hook}", i);
    }
    buf_text(&text, "}, transitions: {t: [");
    for (size_t i = 0; i < width; i++) {
        buf_printf(&text, "{to: a%zu}, ", i);
    }
    buf_text(&text, "]");
    for (size_t i = 0; i < width * (row_count - 1); i++) {
        buf_printf(&text, ", a%zu: [", i);
        for (size_t j = 0; j < width; j++) {
            buf_printf(&text, "{to: a%zu}, ", (i / width + 1) * width + j);
        }
        buf_text(&text, "]");
    }
    buf_text(&text, "}}]}\n");
}

static void to_joins(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "{to: j%zu}, ", i);
    }
}

/* Hooks in chains of `length`, from whose ends ways lead to `count` joins that the trigger leads to as well. */
static void out_of_chains(size_t hooks, size_t length, size_t count)
{
    begin("");
    for (size_t i = 0; i < hooks; i++) {
        buf_printf(&text, ", c%zu: {type: hook}", i);
    }
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, ", j%zu: {type: hook}", i);
    }
    buf_text(&text, "}, transitions: {t: [");
    for (size_t i = 0; i < hooks; i += length) {
        buf_printf(&text, "{to: c%zu}, ", i);
    }
    to_joins(count);
    for (size_t i = 0; i < hooks; i++) {
        buf_printf(&text, "], c%zu: [", i);
        if (i % length == length - 1 || i == hooks - 1) {
            to_joins(count);
        } else {
            buf_printf(&text, "{to: c%zu}", i + 1);
        }
    }
    buf_text(&text, "]}}]}\n");
}

/* A chain of hooks, the last one with an id of this size, the first one a pivot or none. */
static void chain(size_t count, size_t id_size, bool pivot)
{
    begin(", a0: {type: hook");
    buf_printf(&text, "%s}", pivot ? ", cycle: true" : "");
    for (size_t i = 1; i < count; i++) {
        buf_printf(&text, ", %0*zu: {type: hook}", i == count - 1 ? (int)id_size : 1, i);
    }
    buf_text(&text, "}, transitions: {t: [{to: a0}], a0: [{to: '1'}]");
    for (size_t i = 1; i < count - 1; i++) {
        buf_printf(&text, ", %zu: [{to: '%0*zu'}]", i, i == count - 2 ? (int)id_size : 1, i + 1);
    }
    buf_text(&text, "}}]}\n");
}

/* A graph that is deeper could be deployed, and its jobs would end where the address is too long. */
static void limits_of_depth(void **state)
{
    (void)state;
    chain(LIMIT_GRAPH_DEPTH - 1, 24, false);
    expect_good();
    chain(LIMIT_GRAPH_DEPTH - 1, 25, false);
    expect_code("depth_limit");
    chain(LIMIT_GRAPH_DEPTH - 1, 20, true);
    expect_good();
    chain(LIMIT_GRAPH_DEPTH - 1, 21, true);
    expect_code("depth_limit");
    chain(LIMIT_GRAPH_DEPTH, 3, false);
    expect_code("depth_limit");
    assert_int_equal(report.count, 1);
}

static void limits_of_shape(void **state)
{
    (void)state;
    rows(70, 3); /* 70 + 2 x 4,900 */
    expect_good();
    rows(71, 3);
    expect_code("transitions_limit");
    out_of_chains(1000, 334, 1000);
    expect_good();
    out_of_chains(1001, 334, 1000);
    expect_code("exits_limit");

    buf_reset(&text);
    buf_text(&text, "app: {id: a, version: '1', graphs: [");
    for (size_t i = 0; i <= LIMIT_APP_GRAPHS; i++) {
        buf_printf(&text, "{subscribes: a%zu, activities: {t%zu: {type: trigger}}}, ", i, i);
    }
    buf_text(&text, "]}\n");
    expect_code("graphs_limit");
}

/* What no small file can show, so that every code of the table has been seen. */
static void other_codes(void **state)
{
    (void)state;
    buf_reset(&text);
    for (size_t i = 0; i <= LIMIT_YAML_SIZE; i++) {
        buf_byte(&text, '#');
    }
    expect_code("yaml_size");
    buf_reset(&text);
    buf_text(&text, "[");
    for (size_t i = 0; i < LIMIT_YAML_NODES; i++) {
        buf_text(&text, "1,");
    }
    buf_text(&text, "]");
    expect_code("yaml_nodes");
    begin(", a: {type: hook, job: {maps: {x: {'@pipe': [['");
    for (size_t i = 0; i <= LIMIT_EXPRESSION_SIZE; i++) {
        buf_byte(&text, 'x');
    }
    buf_text(&text, "']]}}}}}, transitions: {t: [{to: a}]}}]}\n");
    expect_code("expression_too_large");
    for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
        if (!code_seen[i]) {
            fail_msg("no test has %s", codes[i]);
        }
    }
}

/* --------------------------------------------------------------------------------------- what comes of it */

static const struct activity *find(const struct app *app, const char *id)
{
    for (size_t i = 0; i < app->graph_count; i++) {
        const struct activity *a = graph_activity(&app->graphs[i], str_from(id));
        if (a != NULL) {
            return a;
        }
    }
    fail_msg("no activity %s", id);
    return NULL;
}

static struct app *good_app(const char *name)
{
    struct app *app = NULL;
    read_file("good", name);
    assert_int_equal(compile(buf_slice(&text), &app), QP_OK);
    return app;
}

static void assert_str(qp_str s, const char *expected)
{
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

/* The keys of activities arrive in their fields. */
static void fields(void **state)
{
    struct app *app = good_app("chain.yaml");
    const struct activity *a = find(app, "order");
    qp_ms span = 0;
    (void)state;
    assert_str(app->id, "bakery");
    assert_str(app->version, "2.1");
    assert_str(app->source, (buf_byte(&text, '\0'), text.p));
    assert_str(app->graphs[0].publishes, "bread.baked");
    assert_non_null(app->graphs[0].expire);
    assert_non_null(app->graphs[0].input);
    assert_str(a->title, "An order comes in");
    assert_non_null(a->job_id);
    assert_non_null(a->job_key);
    assert_true(granularity_parse(mapping_literal(a->granularity)->text, &span));
    assert_int_equal(span, 3600 * 1000);
    assert_int_equal(a->measure_count, 2);
    assert_int_equal(a->measures[1].kind, MEASURE_SUM);
    assert_str(a->measures[1].name, "loaves");
    a = find(app, "knead");
    assert_str(a->policy, "attempts=4,backoff=2000,factor=3,cap=30000");
    assert_null(a->awaits);
    assert_null(a->threshold);
    assert_int_equal(a->digit, 1);
    assert_ptr_equal(a->parent, find(app, "order"));
    a = find(app, "bake");
    assert_str(a->policy, "attempts=3,backoff=2000,factor=2,cap=60000,code=500");
    assert_int_equal(a->digit, 0);
    assert_int_equal(a->depth, 3);
    assert_non_null(a->emit);
    assert_null(a->persist);
    app_free(app);
}

static void fields_of_ways(void **state)
{
    struct app *app = good_app("branches.yaml");
    const struct activity *a = find(app, "weigh");
    (void)state;
    assert_int_equal(a->transition_count, 4);
    assert_ptr_equal(a->transitions[3].to, find(app, "refused"));
    assert_true(a->transitions[0].any);
    assert_int_equal(a->transitions[0].match_count, 2);
    assert_int_equal(a->transitions[0].code_count, 1);
    assert_int_equal(a->transitions[0].codes[0], 200);
    assert_false(a->transitions[1].any);
    assert_int_equal(a->transitions[2].codes[0], 202);
    assert_int_equal(a->transitions[3].code_count, 3);
    assert_int_equal(a->transitions[3].codes[1], 422);
    assert_true(find(app, "handed_in")->transitions[0].always);
    app_free(app);
    app = good_app("waits.yaml");
    assert_int_equal(app->hook_count, 3);
    assert_str(app->hooks[0].topic, "approval.decided");
    assert_ptr_equal(app->hooks[0].to, find(app, "decision"));
    assert_ptr_equal(app->hooks[1].to, find(app, "boss"));
    assert_ptr_equal(find(app, "boss")->hook, &app->hooks[1]);
    assert_int_equal(find(app, "reminder")->hook->match_count, 2);
    assert_true(find(app, "tell_all")->all);
    assert_true(find(app, "tell_all")->scrub);
    assert_false(find(app, "tell")->all);
    assert_int_equal(mapping_literal(find(app, "boss")->threshold)->integer, 1);
    app_free(app);
    app = good_app("cycles.yaml");
    assert_ptr_equal(find(app, "again")->ancestor, find(app, "inner"));
    assert_true(find(app, "inner")->pivot);
    assert_int_equal(find(app, "again")->depth, find(app, "both")->depth + 1);
    app_free(app);
    app = good_app("children.yaml");
    assert_false(mapping_literal(find(app, "letter")->awaits)->truth);
    assert_non_null(find(app, "quiet")->target);
    app_free(app);
}

static void show_shape(struct buf *out, const struct app *app)
{
    for (size_t i = 0; i < app->graphs[0].activity_count; i++) {
        const struct activity *a = &app->graphs[0].activities[i];
        buf_printf(out, "%.*s %lld", STR_ARG(a->id), (long long)a->depth);
        if (a->dominator != NULL) {
            buf_printf(out, " <%.*s", STR_ARG(a->dominator->id));
        }
        if (a->type == ACTIVITY_GATE) {
            buf_printf(out, " %lld%s", (long long)a->ways, a->any ? " any" : "");
        }
        for (size_t j = 0; j < a->exit_count; j++) {
            buf_printf(out, " %.*s+%lld", STR_ARG(a->exits[j].gate->id),
                       (long long)a->exits[j].ways);
        }
        buf_byte(out, '\n');
    }
    buf_byte(out, '\0');
}

/* Depths, dominators, gates and exits of a graph with joins in joins, written out by hand. */
static void shape_by_hand(void **state)
{
    struct app *app = good_app("joins.yaml");
    struct buf out;
    (void)state;
    buf_init(&out, &t.env, 0);
    show_shape(&out, app);
    assert_string_equal(out.p, "plan 1\n"
                               "walls 2 <plan join:party+1 join:done+1\n"
                               "pipes 3 <walls join:plaster+1\n"
                               "wires 3 <walls join:plaster+1\n"
                               "plaster 4 <join:plaster join:party+1 join:done+1\n"
                               "garden 2 <plan join:party+1 join:done+1\n"
                               "party 3 <join:party join:done+1\n"
                               "keys 3 <walls\n"
                               "done 3 <join:done\n"
                               "join:plaster 3 <walls 2 join:party+1 join:done+1\n"
                               "join:party 2 <plan 2 any join:done+1\n"
                               "join:done 2 <plan 3\n");
    buf_done(&out);
    app_free(app);
}

/* Every allocation may fail: that is all that is said, and nothing leaks. */
static void no_memory(void **state)
{
    static const char *const names[] = {"joins.yaml", "waits.yaml", "cycles.yaml"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        read_file("good", names[i]);
        for (int64_t n = 1;; n++) {
            struct app *app = NULL;
            int rc;
            arena_done(&arena);
            arena_init(&arena, &t.env, 0);
            testenv_fail_at(&t, n);
            rc = compile(buf_slice(&text), &app);
            if (!testenv_failed(&t)) {
                assert_int_equal(rc, QP_OK);
                app_free(app);
                break;
            }
            assert_int_equal(rc, QP_E_NOMEM);
            assert_null(app);
        }
        testenv_fail_at(&t, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken),          cmocka_unit_test(noted),
        cmocka_unit_test(limit_of_notes),  cmocka_unit_test(good),
        cmocka_unit_test(limits),          cmocka_unit_test(limits_of_shape),
        cmocka_unit_test(limits_of_depth), cmocka_unit_test(limits_of_data),
        cmocka_unit_test(limits_of_steps), cmocka_unit_test(other_codes),
        cmocka_unit_test(fields),          cmocka_unit_test(fields_of_ways),
        cmocka_unit_test(shape_by_hand),   cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
