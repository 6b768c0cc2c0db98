/* test_mapping.c - mappings: references, pipes, reducers, rulings, limits, and what does not compile */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "mapping/functions.h"
#include "mapping/mapping.h"
#include "support/arenatest.h"

#define NOW INT64_C(1769850487123) /* 2026-01-31T09:08:07.123Z */

/* What is known of the job: "self" and "job" stand for $self and $job. */
#define WORLD                                                                                      \
    "{\"a\":{\"input\":{\"data\":{\"in\":1}},\"hook\":{\"data\":{\"id\":\"h1\"}},"                 \
    "\"output\":{\"data\":{\"x\":\"hello\",\"n\":5,\"list\":[3,1,2],\"deep\":{\"k\":[{\"v\":7}]}," \
    "\"null\":null,\"big\":12345678901234567890,\"spaced\":{ \"p\" : 1 },\"slash\":\"/tree\","     \
    "\"empty\":\"\"},\"metadata\":{\"code\":200}}},"                                               \
    "\"b.c\":{\"output\":{\"data\":{\"output\":{\"data\":9}}}},"                                   \
    "\"self\":{\"output\":{\"data\":{\"y\":true}}},"                                               \
    "\"job\":{\"data\":{\"total\":10},\"metadata\":{\"jid\":\"j1\"}}}"

static struct report report;

static int setup(void **state)
{
    (void)at_setup(state);
    report_init(&report, &at_arena);
    return 0;
}

/* The world as references see it. */
static int find(void *context, const struct reference *r, struct value *out_value)
{
    static const char *const sides[][2] = {
        [PART_INPUT_DATA] = {"input", "data"}, [PART_OUTPUT_DATA] = {"output", "data"},
        [PART_HOOK_DATA] = {"hook", "data"},   [PART_OUTPUT_METADATA] = {"output", "metadata"},
        [PART_JOB_DATA] = {"data", NULL},      [PART_JOB_METADATA] = {"metadata", NULL},
    };
    qp_str path[3];
    struct value v;
    size_t n = 0;

    path[n++] = r->root == ROOT_SELF  ? QP_STR("self")
                : r->root == ROOT_JOB ? QP_STR("job")
                                      : r->name;
    path[n++] = str_from(sides[r->part][0]);
    if (sides[r->part][1] != NULL) {
        path[n++] = str_from(sides[r->part][1]);
    }
    v = value_at(*(qp_str *)context, path, n);
    *out_value = value_inside(&v, r->path, r->path_count, &(size_t){0});
    return QP_OK;
}

static qp_str world = {WORLD, sizeof(WORLD) - 1};

static struct scope scope_new(void)
{
    return (struct scope){
        .context = &world, .find = find, .arena = &at_arena, .env = &at_world.env, .now = NOW};
}

static struct mapping *compiled(const char *yaml)
{
    struct node *node;
    struct mapping *m;
    int rc = tree_read(&at_arena, str_from(yaml), &report, &node);

    assert_int_equal(rc, QP_OK);
    m = mapping_compile(&at_arena, node, &report);
    if (m == NULL) {
        fail_msg("%s: %.*s", yaml,
                 STR_ARG(report.first == NULL ? QP_STR("?") : report.first->message));
    }
    return m;
}

static const char *written(const struct value *v)
{
    return v->kind == VALUE_UNDEFINED ? "undefined" : at_written(v);
}

static const char *result(const char *yaml)
{
    struct mapping *m = compiled(yaml);
    struct scope scope = scope_new();
    struct value v;
    int rc = mapping_evaluate(m, &scope, &v);

    if (rc != QP_OK) {
        fail_msg("%s: %s %s", yaml, qp_code_text(rc), scope.error == NULL ? "" : scope.error);
    }
    return written(&v);
}

struct mapping_case {
    const char *yaml;
    const char *json;
};

static void check_cases(const struct mapping_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *json = result(cases[i].yaml);

        if (strcmp(json, cases[i].json) != 0) {
            fail_msg("%s\n  gives  %s\n  and not  %s", cases[i].yaml, json, cases[i].json);
        }
    }
}

/* Proves the vectors P1 of pipes, each a graph's text of our own. */
static void test_vectors(void **state)
{
    static const struct mapping_case cases[] = {
        {"'@pipe': [[John, 0], ['{@string.charAt}', Doe], ['{@string.concat}'], "
         "['{@string.toLowerCase}']]",
         "\"jdoe\""},
        {"'@pipe': [[30, 40], ['{@number.gte}', Senior, Junior], ['{@conditional.ternary}']]",
         "\"Junior\""},
        {"'@pipe': [['[\"ke\",\"bab\",\"case\"]'], ['{@json.parse}', '-'], ['{@array.join}']]",
         "\"ke-bab-case\""},
        {"'@pipe': [[[1, 2, 3], 0], {'@reduce': [{'@pipe': [['{$output}']]}, "
         "{'@pipe': [['{$item}']]}, ['{@math.add}']]}]",
         "6"},
        {"'@pipe': [[{x: 1, y: 2}, {}], {'@reduce': [{'@pipe': [['{$output}']]}, "
         "{'@pipe': [['{$key}']]}, {'@pipe': [['{$index}']]}, ['{@object.set}']]}]",
         "{\"x\":0,\"y\":1}"},
        {"'@pipe': [[a, '{a.output.data.missing}', null, 1], ['{@string.concat}']]", "\"a1\""},
        {"'@pipe': [['{a.output.data.missing}', a, b], ['{@conditional.ternary}']]", "\"b\""},
        {"'@pipe': [[5, 2], ['{@math.pow}', 10], ['{@math.max}']]", "25"},
        {"'@pipe': [['hi {a}']]", "\"hi {a}\""},
        {"'@pipe': [{'@pipe': [{'@pipe': [[2, 2], ['{@math.pow}']]}, {'@pipe': [[3]]}, "
         "['{@math.multiply}']]}, {'@pipe': [[120]]}, ['{@math.min}']]",
         "12"},
    };

    check_cases(cases, ARRAY_COUNT(cases));
}

/* Proves every root and part of references, and that a value is handed on as it came. */
static void test_references(void **state)
{
    static const struct mapping_case cases[] = {
        {"'{a.output.data.x}'", "\"hello\""},
        {"'{a.output.data}'",
         "{\"x\":\"hello\",\"n\":5,\"list\":[3,1,2],\"deep\":{\"k\":[{\"v\":7}]},"
         "\"null\":null,\"big\":12345678901234567890,\"spaced\":{ \"p\" : 1 },"
         "\"slash\":\"/tree\",\"empty\":\"\"}"},
        {"'{a.output.data.list.0}'", "3"},
        {"'{a.output.data.deep.k.0.v}'", "7"},
        {"'{a.output.data.big}'", "12345678901234567890"},
        {"'{a.output.data.spaced}'", "{ \"p\" : 1 }"},
        {"'{a.input.data.in}'", "1"},
        {"'{a.hook.data.id}'", "\"h1\""},
        {"'@pipe': [[-0, 0], ['{@object.is}']]", "false"},
        {"'@pipe': [[-0, '{@symbol.negInfinity}'], ['{@math.atan2}', 0], ['{@conditional.less_than}']]",
         "true"},
        {"'{a.output.metadata.code}'", "200"},
        {"'{b.c.output.data.output.data}'", "9"},
        {"'{$self.output.data.y}'", "true"},
        {"'{$job.data.total}'", "10"},
        {"'{$job.metadata.jid}'", "\"j1\""},
        {"'{a.output.data.null}'", "null"},
        {"'{a.output.data.missing}'", "undefined"},
        {"'{a.output.data.x.y}'", "undefined"},
        {"'{nobody.output.data.x}'", "undefined"},
        {"{p: '{a.output.data.x}', q: '{a.output.data.missing}', r: null}",
         "{\"p\":\"hello\",\"r\":null}"},
        {"['{a.output.data.n}', '{a.output.data.missing}', {z: '{a.output.data.list}'}]",
         "[5,null,{\"z\":[3,1,2]}]"},
        {"{a: {b: ['{@date.now}']}}", "{\"a\":{\"b\":[1769850487123]}}"},
    };

    check_cases(cases, ARRAY_COUNT(cases));
}

/* Proves what is a literal although it has braces, and that literals stay what they are. */
static void test_literals(void **state)
{
    static const struct mapping_case cases[] = {
        {"'hi {a}'", "\"hi {a}\""},
        {"'{a} {b}'", "\"{a} {b}\""},
        {"'{}'", "\"{}\""},
        {"'{\"a\": 1}'", "\"{\\\"a\\\": 1}\""},
        {"'{hello world}'", "\"{hello world}\""},
        {"'{ a.output.data.x }'", "\"{ a.output.data.x }\""},
        {"'/tree'", "\"/tree\""},
        {"''", "\"\""},
        {"'12'", "\"12\""},
        {"12", "12"},
        {"-1.50", "-1.5"},
        {"1.0", "1"},
        {"9223372036854775807", "9223372036854775807"},
        {"true", "true"},
        {"null", "null"},
        {"[1, [a, {b: c}]]", "[1,[\"a\",{\"b\":\"c\"}]]"},
    };

    check_cases(cases, ARRAY_COUNT(cases));
    assert_non_null(mapping_literal(compiled("{a: [1, {b: x}]}")));
    assert_null(mapping_literal(compiled("{a: [1, {b: '{@date.now}'}]}")));
}

/* Proves how rows are fed: by the row before, by sub-pipes in place of it, by $output in a reducer. */
static void test_rows(void **state)
{
    static const struct mapping_case cases[] = {
        {"'@pipe': [[1, 2]]", "1"},
        {"'@pipe': [[1, 2], ['{@math.add}', 3], ['{@math.add}', 4], ['{@math.multiply}']]", "24"},
        {"'@pipe': [['{@symbol.whitespace}', x], ['{@string.concat}']]", "\" x\""},
        {"'@pipe': [[9], {'@pipe': [[2]]}, {'@pipe': [[3]]}, ['{@math.add}']]", "5"},
        {"'@pipe': [{'@pipe': [[2]]}, ['{@math.add}', 7], ['{@math.add}']]", "9"},
        {"'@pipe': [{'@pipe': [[[1, 2]]]}, {'@pipe': [[10]]}, {'@reduce': [['{$output}', '{$item}'], "
         "['{@math.add}']]}, ['{@math.add}', 100], ['{@math.add}']]",
         "113"},
        {"'@pipe': [[[1, 2, 3], x], {'@reduce': [['{@string.concat}', '{$item}'], "
         "['{@string.concat}']]}]",
         "\"x123\""},
        {"'@pipe': [['{a.output.data.list}', []], {'@reduce': [{'@pipe': [['{$output}']]}, "
         "{'@pipe': [{'@pipe': [[v]]}, {'@pipe': [['{$item}', '{$index}'], ['{@math.add}']]}, "
         "['{@object.create}']]}, ['{@array.push}']]}]",
         "[{\"v\":3},{\"v\":2},{\"v\":4}]"},
        {"'@pipe': [[[{p: 1}, {p: 5}], 0], {'@reduce': [['{$output}', '{$item.p}'], "
         "['{@math.add}']]}]",
         "6"},
        {"'@pipe': [[[[1, 2], [3]], 0], {'@reduce': [{'@pipe': [['{$item}', '{$output}'], "
         "{'@reduce': [['{$output}', '{$item}'], ['{@math.add}']]}]}, ['{@unary.positive}']]}]",
         "6"},
        {"'@pipe': [[[4, 5], 0], {'@reduce': [['{$output}', '{$key}', '{$index}', "
         "'{$input.length}'], ['{@math.add}']]}]",
         "null"},
        {"'@pipe': [[7, init], {'@reduce': [['{$item}']]}]", "\"init\""},
        {"'@pipe': [['{a.output.data.missing}'], {'@reduce': [['{$item}']]}]", "undefined"},
        {"'@pipe': [[{f: '{a.output.data.n}', g: [1]}, f], ['{@object.get}']]", "5"},
    };

    check_cases(cases, ARRAY_COUNT(cases));
}

/* Proves the rulings where our functions are meant to differ from the ECMAScript ones, or where those throw. */
static void test_rulings(void **state)
{
    static const struct mapping_case cases[] = {
        {"'{@math.add}'", "0"},
        {"'@pipe': [[1, 0], ['{@math.divide}']]", "null"},
        {"'@pipe': [[[1, 2, 3]], ['{@math.add}']]", "6"},
        {"'@pipe': [[[1, 2], 3], ['{@math.max}']]", "3"},
        {"'@pipe': [[[8, 9]], ['{@array.get}']]", "8"},
        {"'@pipe': [[[1], 2, [3]], ['{@array.push}']]", "[1,2,[3]]"},
        {"'@pipe': [[9007199254740993, 1], ['{@math.add}']]", "9007199254740994"},
        {"'@pipe': [[3037000499, 3037000497], ['{@math.multiply}']]", "9223372024852248003"},
        {"'@pipe': [[9223372036854775807, 1], ['{@math.add}']]", "9223372036854776000"},
        {"'@pipe': [[a.b, ., -], ['{@string.replace}']]", "\"a-b\""},
        {"'@pipe': [[a.b, .], ['{@string.search}']]", "1"},
        {"'@pipe': [[[1, {a: 2}], [1, {a: 2}]], ['{@conditional.strict_equality}']]", "true"},
        {"'@pipe': [['{\"a\":1,\"a\":2}'], ['{@json.parse}']]", "undefined"},
        {"'@pipe': [[abc], ['{@json.parse}']]", "undefined"},
        {"'@pipe': [[x, -1], ['{@string.repeat}']]", "undefined"},
        {"'@pipe': [[null], ['{@string.trim}']]", "undefined"},
        {"'@pipe': [[{b: 1, '2': 2, '1': 3}], ['{@object.keys}']]", "[\"b\",\"2\",\"1\"]"},
        {"'@pipe': [[a, 1, b], ['{@object.create}']]", "{\"a\":1}"},
        {"'{@date.toISOXString}'", "\"20260131090807.123\""},
        {"'{@date.yyyymmdd}'", "\"2026-01-31\""},
        {"'@pipe': [[[10, 9, 1, b, A, null]], ['{@array.sort}']]", "[1,9,10,\"A\",\"b\",null]"},
        {"'@pipe': [[[10, 9, 1], ASCENDING], ['{@array.sort}']]", "[1,9,10]"},
        {"'@pipe': [[[10, 9, 1, b], DESCENDING], ['{@array.sort}']]", "[\"b\",10,9,1]"},
        {"'{@date.toLocaleString}'", "\"1/31/2026, 9:08:07 AM\""},
        {"'{@symbol.date}'", "\"2026-01-31T09:08:07.123Z\""},
        {"'@pipe': [['*/5 * * * *'], ['{@cron.nextDelay}']]", "113"},
        {"'@pipe': [['nonsense'], ['{@cron.nextDelay}']]", "-1"},
        {"'@pipe': [[\"\\U0001F600\", 1], ['{@string.charAt}']]", "\"\xEF\xBF\xBD\""},
        {"'@pipe': [[{a: {b: 1}}, x, 2], ['{@json.stringify}']]",
         "\"{\\n  \\\"a\\\": {\\n    \\\"b\\\": 1\\n  }\\n}\""},
    };

    check_cases(cases, ARRAY_COUNT(cases));
}

/* Proves that what a function changes is another value: the first one stays as it was. */
static void test_values_stay(void **state)
{
    static const struct mapping_case cases[] = {
        {"'@pipe': [[[1, 2], []], {'@reduce': [{'@pipe': [['{$output}', '{$item}'], "
         "['{@array.push}']]}, {'@pipe': [['{$output}', x], ['{@array.push}']]}, "
         "['{@array.concat}']]}]",
         "[1,\"x\",2,1,\"x\",\"x\"]"},
        {"'@pipe': [[{k: 1}, k, 2], ['{@object.set}', other, 3], ['{@object.set}']]",
         "{\"k\":2,\"other\":3}"},
    };
    struct mapping *m = compiled("'@pipe': [[[3, 1, 2]], ['{@array.sort}']]");
    struct scope scope = scope_new();
    struct value v;

    check_cases(cases, ARRAY_COUNT(cases));
    for (int i = 0; i < 2; i++) { /* a literal of the graph is the same for every evaluation */
        assert_int_equal(mapping_evaluate(m, &scope, &v), QP_OK);
        assert_string_equal(written(&v), "[1,2,3]");
    }
}

/* Proves what others ask of a mapping: its kind, its entries, its references with their places. */
static void test_asked(void **state)
{
    struct mapping *m = compiled("p: '{b.c.output.data.x.y}'\n"
                                 "q:\n"
                                 "  '@pipe':\n"
                                 "    - ['{$self.hook.data.z}']\n");
    const struct reference *r = mapping_references(m);

    assert_true(mapping_is_map(m));
    assert_int_equal(mapping_count(m), 2);
    assert_true(str_equal(mapping_key(m, 1), QP_STR("q")));
    assert_false(mapping_is_map(mapping_entry(m, 1)));
    assert_int_equal(mapping_count(mapping_entry(m, 0)), 0);
    assert_int_equal(r->root, ROOT_SELF);
    assert_int_equal(r->part, PART_HOOK_DATA);
    assert_int_equal(r->line, 4);
    assert_int_equal(r->column, 8);
    r = r->next;
    assert_int_equal(r->root, ROOT_ACTIVITY);
    assert_true(str_equal(r->name, QP_STR("b.c")));
    assert_int_equal(r->path_count, 2);
    assert_true(str_equal(r->path[1], QP_STR("y")));
    assert_null(r->target);
    assert_null(r->next);
}

/* The next box of a kind in the page; *at moves behind it. False: there is none. */
static bool next_box(const char **at, const char *kind, char *out_text, size_t size)
{
    char fence[16];
    const char *first;
    const char *last;

    (void)snprintf(fence, sizeof(fence), "\n```%s\n", kind);
    first = strstr(*at, fence);
    if (first == NULL) {
        return false;
    }
    first += strlen(fence);
    last = strstr(first, "\n```\n");
    assert_non_null(last);
    assert_true((size_t)(last - first) < size);
    (void)snprintf(out_text, size, "%.*s", (int)(last - first), first);
    *at = last;
    return true;
}

/* Proves that what docs/mapping.md shows is so: every box of YAML gives the box of JSON behind it. */
static void test_page(void **state)
{
    static char page[128 * 1024];
    static char job[8192];
    static char yaml[8192];
    static char json[8192];
    FILE *f = fopen("docs/mapping.md", "r");
    const char *at = page;
    qp_str before = world;
    int boxes = 0;

    assert_non_null(f);
    assert_true(fread(page, 1, sizeof(page) - 1, f) < sizeof(page) - 1);
    (void)fclose(f);
    assert_true(next_box(&at, "json", job, sizeof(job)));
    world = str_from(job);
    while (next_box(&at, "yaml", yaml, sizeof(yaml))) {
        assert_true(next_box(&at, "json", json, sizeof(json)));
        assert_string_equal(result(yaml), json);
        boxes++;
    }
    assert_true(boxes >= 6);
    world = before;
}

/* ---------------------------------------------------------------------------------------- errors */

/* Proves every error of compiling, with its place. */
static void test_refused(void **state)
{
    static const struct {
        const char *yaml;
        const char *code;
        int line;
        int column;
        const char *message;
    } cases[] = {
        {"x: '{missing}'", "bad_reference", 1, 4, "{missing} says nothing that can be looked up"},
        {"'{a.output}'", "bad_reference", 1, 1, "{a.output} says nothing that can be looked up"},
        {"'{a.x.data.y}'", "bad_reference", 1, 1,
         "{a.x.data.y} says nothing that can be looked up"},
        {"'{$job.x}'", "bad_reference", 1, 1, "{$job.x} says nothing that can be looked up"},
        {"'{$other.output.data}'", "bad_reference", 1, 1,
         "{$other.output.data} says nothing that can be looked up"},
        {"'{a.output.data..x}'", "bad_reference", 1, 1, "{a.output.data..x} has an empty part"},
        {"'{a.output.data.}'", "bad_reference", 1, 1, "{a.output.data.} has an empty part"},
        {"- 1\n- '{$item}'", "bad_reference", 2, 3, "{$item} stands outside of a @reduce"},
        {"'{@math.ad}'", "unknown_function", 1, 1, "there is no function math.ad"},
        {"'{@maths.add}'", "unknown_function", 1, 1, "there is no function maths.add"},
        {"'{@math}'", "unknown_function", 1, 1, "there is no function math."},
        {"'@pipe':\n  - [1]\n  - ['{@nope.nope}']", "unknown_function", 3, 6,
         "there is no function nope.nope"},
        {"'@pipe':\n  - [1]\n  - [2]", "bad_pipe", 3, 6,
         "the first cell of this row has to name a function"},
        {"'@pipe':\n  - {'@pipe': [[1]]}\n  - ['{a.output.data.x}']", "bad_pipe", 3, 6,
         "the first cell of this row has to name a function"},
        {"'@pipe': []", "bad_pipe", 1, 10, "this has to be a list of rows"},
        {"'@pipe': 5", "bad_pipe", 1, 10, "this has to be a list of rows"},
        {"'@pipe': ['{@date.now}']", "bad_pipe", 1, 11, "this is no row of a pipe"},
        {"'@pipe': [[]]", "bad_pipe", 1, 11, "this is no row of a pipe"},
        {"'@pipe': [[1], {a: 1}]", "bad_pipe", 1, 16, "this is no row of a pipe"},
        {"'@pipe': [[1]]\nmore: 1", "bad_pipe", 1, 1,
         "@pipe stands alone in its map; here are 2 keys"},
        {"'@pipe': [[1], {'@pipe': [[2]]}]", "bad_pipe", 1, 10,
         "behind a sub-pipe there has to be a row that takes its result"},
        {"'@pipe': [{'@reduce': [['{$item}']]}]", "bad_pipe", 1, 11,
         "before @reduce there has to be a row: collection, first value"},
        {"'@pipe': [[1], {'@reduce': 5}]", "bad_pipe", 1, 28, "this has to be a list of rows"},
        {"'@reduce': [['{$item}']]", "bad_reduce", 1, 1,
         "@reduce is a row of a @pipe, and stands nowhere else"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct node *node;

        report_init(&report, &at_arena);
        assert_int_equal(tree_read(&at_arena, str_from(cases[i].yaml), &report, &node), QP_OK);
        assert_null(mapping_compile(&at_arena, node, &report));
        assert_int_equal(report.count, 1);
        if (strcmp(report.first->code, cases[i].code) != 0 ||
            !str_equal(report.first->message, str_from(cases[i].message)) ||
            report.first->line != cases[i].line || report.first->column != cases[i].column) {
            fail_msg("%s: %s at %d:%d: %.*s", cases[i].yaml, report.first->code, report.first->line,
                     report.first->column, STR_ARG(report.first->message));
        }
        assert_true(report.first->hint.n > 0);
    }
}

/* Proves that everything that is wrong is told at once, and that a wrong name is guessed. */
static void test_all_at_once(void **state)
{
    struct node *node;

    assert_int_equal(tree_read(&at_arena,
                               QP_STR("a: '{x}'\nb: '{@math.ad}'\nc: ['{$item}', "
                                      "{'@pipe': [[1], ['{@string.trimm}']]}]"),
                               &report, &node),
                     QP_OK);
    assert_null(mapping_compile(&at_arena, node, &report));
    assert_int_equal(report.count, 4);
    assert_true(str_equal(report.first->next->hint, QP_STR("Did you mean {@math.add}?")));
    assert_true(str_equal(report.last->hint, QP_STR("Did you mean {@string.trim}?")));
}

/* Proves the limits of compiling, which nodes that no YAML could hold reach. */
static void test_compile_limits(void **state)
{
    struct node *nodes = arena_alloc(&at_arena, (LIMIT_EXPRESSION_DEPTH + 1) * sizeof(*nodes));
    char *text = arena_alloc(&at_arena, LIMIT_EXPRESSION_SIZE + 1);
    struct node cell = {.kind = NODE_STRING, .line = 1, .column = 1};
    struct node row = {.kind = NODE_LIST, .line = 1, .column = 1, .first = &cell, .count = 1};
    struct node rows = {.kind = NODE_LIST, .line = 1, .column = 1, .first = &row, .count = 1};
    struct node pipe = {.kind = NODE_MAP, .line = 3, .column = 4, .first = &rows, .count = 1};

    assert_true(nodes != NULL && text != NULL);
    for (size_t i = 0; i <= LIMIT_EXPRESSION_DEPTH; i++) {
        nodes[i] = (struct node){.kind = NODE_LIST, .line = 2, .column = 5};
        if (i < LIMIT_EXPRESSION_DEPTH) {
            nodes[i].first = &nodes[i + 1];
            nodes[i].count = 1;
        }
    }
    assert_null(mapping_compile(&at_arena, &nodes[0], &report));
    assert_string_equal(report.first->code, "expression_too_deep");
    report_init(&report, &at_arena);
    assert_non_null(mapping_compile(&at_arena, &nodes[1], &report));

    memset(text, 'x', LIMIT_EXPRESSION_SIZE + 1);
    rows.key = QP_STR("@pipe");
    cell.text = (qp_str){text, LIMIT_EXPRESSION_SIZE - 1};
    assert_non_null(mapping_compile(&at_arena, &pipe, &report));
    cell.text.n = LIMIT_EXPRESSION_SIZE;
    assert_null(mapping_compile(&at_arena, &pipe, &report));
    assert_string_equal(report.first->code, "expression_too_large");
    assert_int_equal(report.first->line, 3);
    cell.text.n = LIMIT_EXPRESSION_SIZE + 1; /* a literal by itself is no expression */
    report_init(&report, &at_arena);
    assert_non_null(mapping_compile(&at_arena, &cell, &report));
}

/* Forty arrays, each with the one before in it twice: as large as 2^40 to whoever goes over all of it. */
#define DOUBLED                                                                                    \
    "{'@pipe': [[x, 40], ['{@string.repeat}', ''], ['{@string.split}', []], "                      \
    "{'@reduce': [[[], '{$output}', '{$output}'], ['{@array.push}']]}]}"
/* One long text, 8,192 times in an array, which costs next to nothing to make. */
#define REPEATED                                                                                   \
    "{'@pipe': [{'@pipe': [[x, 13], ['{@string.repeat}', ''], ['{@string.split}']]}, "             \
    "{'@pipe': [{'@pipe': [[[]]]}, {'@pipe': [[1, 1000000], ['{@string.repeat}']]}, "              \
    "['{@array.push}']]}, {'@reduce': [['{$output}', '{$output}'], ['{@array.concat}']]}]}"

/* What is written is bounded by what it may be, also when it would be far more. */
static void test_doubled(void **state)
{
    struct mapping *m = compiled("'@pipe': [" DOUBLED ", ['{@array.reverse}']]");
    struct scope scope = scope_new();
    struct value v;
    struct buf out;

    (void)state;
    assert_int_equal(mapping_evaluate(m, &scope, &v), QP_OK);
    buf_init(&out, scope.env, 10000);
    assert_int_equal(value_write(&out, &v), QP_E_TOO_LARGE);
    buf_done(&out);
}

/* Proves the limits of evaluation: each is reached, told by its name, and nothing is given. */
static void test_limits(void **state)
{
    static const struct {
        const char *yaml;
        const char *limit;
    } cases[] = {
        {"'@pipe': [[x, 1000000000000], ['{@string.repeat}']]", "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [[x, 1048577], ['{@string.repeat}']]", "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [[x, 1e300], ['{@string.padStart}']]", "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [[x, 1048577], ['{@string.padEnd}']]", "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [[x, 1048576], ['{@string.repeat}', ''], ['{@string.split}']]",
         "LIMIT_MAPPING_SIZE"},
        {"'@pipe': [[x, 10000], ['{@string.repeat}', ''], ['{@string.split}', 0], "
         "{'@reduce': [['{$output}', 1], ['{@math.add}']]}]",
         "LIMIT_MAPPING_STEPS"},
        {"'@pipe': [[x, 1000], ['{@string.repeat}', ''], ['{@string.split}', []], "
         "{'@reduce': [{'@pipe': [[[]]]}, {'@pipe': [['{$output}']]}, ['{@array.push}']]}]",
         "LIMIT_JSON_DEPTH"},
        {"'@pipe': [[x, 1000], ['{@string.repeat}', ''], ['{@string.split}', ab], "
         "{'@reduce': [['{$output}', '{$output}'], ['{@string.concat}']]}]",
         "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [[x, 1000], ['{@string.repeat}', ''], ['{@string.split}', [1]], "
         "{'@reduce': [['{$output}', '{$output}'], ['{@array.concat}']]}]",
         "LIMIT_MAPPING_SIZE"},
        {"'@pipe': [{'@pipe': [[x, 1000], ['{@string.repeat}', ''], ['{@string.split}']]}, "
         "{'@pipe': [[x, 1048576], ['{@string.repeat}']]}, {'@reduce': [['{$output}', y], "
         "['{@string.includes}', '{$output}'], ['{@logical.and}']]}]",
         NULL},
        {"'@pipe': [[x, 1000], ['{@string.repeat}', ''], ['{@string.split}', 0], "
         "{'@reduce': [{'@pipe': [['{a.output.data.long}', y], ['{@string.includes}']]}, "
         "['{@unary.not}']]}]",
         "LIMIT_MAPPING_LOOK_SIZE"},
        {"'@pipe': [" DOUBLED ", " DOUBLED ", ['{@conditional.strict_equality}']]",
         "LIMIT_MAPPING_SIZE"},
        {"'@pipe': [" DOUBLED ", ['{@json.stringify}']]", "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [" DOUBLED ", ['{@array.join}']]", "LIMIT_JSON_STRING_SIZE"},
        {"'@pipe': [" REPEATED ", ['{@array.sort}']]", "LIMIT_MAPPING_LOOK_SIZE"},
        {"'@pipe': [" REPEATED ", ['{@math.max}']]", "LIMIT_MAPPING_LOOK_SIZE"},
        {"'@pipe': [" REPEATED ", {'@pipe': [{'@pipe': [[1, 999999], ['{@string.repeat}']]}, "
         "{'@pipe': [[2]]}, ['{@string.concat}']]}, ['{@array.indexOf}']]",
         "LIMIT_MAPPING_SIZE"},
        {"'@pipe': [[x, 1000], ['{@string.repeat}', ''], ['{@string.split}', "
         "{k: '{a.output.data}'}], {'@reduce': [['{$output}', '{$output.k.none}']]}]",
         "LIMIT_MAPPING_LOOK_SIZE"},
    };
    size_t size = sizeof("{\"a\":{\"output\":{\"data\":{\"long\":\"\"}}}}") - 1 + 1000000;
    char *json = arena_alloc(&at_arena, size + 1);
    qp_str before = world;

    assert_non_null(json);
    (void)snprintf(json, size + 1, "{\"a\":{\"output\":{\"data\":{\"long\":\"%01000000d\"}}}}", 7);
    world = (qp_str){json, size};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct mapping *m = compiled(cases[i].yaml);
        struct scope scope = scope_new();
        struct value v = {.kind = VALUE_BOOL, .truth = true};
        int rc = mapping_evaluate(m, &scope, &v);

        if (rc != (cases[i].limit == NULL ? QP_OK : QP_E_LIMIT) ||
            (cases[i].limit != NULL && strcmp(scope.limit, cases[i].limit) != 0)) {
            fail_msg("%s: %s, %s", cases[i].yaml, qp_code_text(rc),
                     scope.error == NULL ? "no limit" : scope.error);
        }
        assert_true(cases[i].limit == NULL || v.kind == VALUE_BOOL); /* untouched */
        assert_true(scope.made <= LIMIT_MAPPING_SIZE);
    }
    world = before;
}

static int find_fails(void *context, const struct reference *r, struct value *out_value)
{
    return QP_E_IO;
}

/* An array of so many numbers. */
static int find_wide(void *context, const struct reference *r, struct value *out_value)
{
    size_t count = *(size_t *)context;
    char *json = arena_bytes(&at_arena, 2 * count + 1);

    assert_non_null(json);
    for (size_t i = 0; i < count; i++) {
        memcpy(json + 2 * i, i == 0 ? "[1" : ",1", 2);
    }
    json[2 * count] = ']';
    *out_value = value_raw((qp_str){json, 2 * count + 1});
    return QP_OK;
}

/* Proves that what a comparison opens is counted, too: of two arrays that each could be opened. */
static void test_same_limit(void **state)
{
    struct mapping *m = compiled("'@pipe': [['{a.output.data.x}', '{b.output.data.x}'], "
                                 "['{@conditional.strict_equality}']]");
    struct scope scope = scope_new();
    size_t count = 20000;
    struct value v;

    scope.find = find_wide;
    scope.context = &count;
    assert_int_equal(mapping_evaluate(m, &scope, &v), QP_OK);
    assert_true(v.kind == VALUE_BOOL && v.truth);
    count = LIMIT_MAPPING_SIZE / (sizeof(struct value) + sizeof(struct member)) * 3 / 4;
    assert_int_equal(mapping_evaluate(m, &scope, &v), QP_E_LIMIT);
    assert_string_equal(scope.limit, "LIMIT_MAPPING_SIZE");
    assert_string_equal(scope.error, "a mapping is over its limit: LIMIT_MAPPING_SIZE is 8388608");
}

static int find_counts(void *context, const struct reference *r, struct value *out_value)
{
    (*(int *)context)++;
    *out_value = value_raw(QP_STR("[1,2,3]"));
    return QP_OK;
}

/* Proves that a reference in a reducer is looked up once, whatever the number of items. */
static void test_find_once(void **state)
{
    struct mapping *m = compiled("'@pipe': [['{a.output.data.x}', 0], {'@reduce': "
                                 "[['{$output}', '{b.output.data.x}'], ['{@math.add}']]}]");
    struct scope scope = scope_new();
    struct value v;
    int count = 0;

    scope.find = find_counts;
    scope.context = &count;
    assert_int_equal(mapping_evaluate(m, &scope, &v), QP_OK);
    assert_string_equal(written(&v), "18");
    assert_int_equal(count, 2);
}

/* Proves that what find answers ends the evaluation. */
static void test_find_fails(void **state)
{
    struct mapping *m = compiled("{a: 1, b: ['{a.output.data.x}']}");
    struct scope scope = scope_new();
    struct value v;

    scope.find = find_fails;
    assert_int_equal(mapping_evaluate(m, &scope, &v), QP_E_IO);
}

/* Proves that every function takes no operands, and one of every kind, and as many as any has, without a fault, and
 * that every one of the table can be named. */
static void test_all_functions(void **state)
{
    const struct function *f;
    size_t count = 0;

    for (size_t i = 0; (f = function_at(i)) != NULL; i++) {
        assert_ptr_equal(function_find(str_from(f->space), str_from(f->name)), f);
        for (int kind = VALUE_UNDEFINED; kind <= VALUE_RAW; kind++) {
            struct value operands[4];
            struct scope scope = scope_new();
            struct value v;

            for (size_t n = 0; n <= ARRAY_COUNT(operands); n++) {
                for (size_t k = 0; k < ARRAY_COUNT(operands); k++) {
                    operands[k] = (struct value){.kind = (enum value_kind)kind,
                                                 .text = QP_STR("[1,{\"a\":\"b\"}]")};
                }
                assert_int_equal(function_call(f, &scope, operands, n, &v), QP_OK);
            }
        }
        count++;
    }
    assert_true(count >= 190);
    assert_null(function_find(QP_STR("math"), QP_STR("")));
    assert_true(function_space_exists(QP_STR("math")));
    assert_false(function_space_exists(QP_STR("maths")));
}

/* Proves that math.random is from 0 up to 1, and comes from the environment, which may fail. */
static void test_random(void **state)
{
    struct mapping *m = compiled("'{@math.random}'");
    struct scope scope = scope_new();
    struct value v;
    double number;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(mapping_evaluate(m, &scope, &v), QP_OK);
        assert_true(value_as_number(&v, &number) && number >= 0 && number < 1);
    }
    at_world.entropy_rc = QP_E_IO;
    assert_int_equal(mapping_evaluate(m, &scope, &v), QP_E_IO);
}

/* Proves that the n-th failing allocation is told, whichever it is: compiling, then evaluating. */
static void test_no_memory(void **state)
{
    static const char yaml[] =
        "{a: {b: ['{a.output.data.list}', {c: '{@symbol.object}'}]}, d: {'@pipe': [[[1, 2], []], "
        "{'@reduce': [{'@pipe': [['{$output}']]}, {'@pipe': [[k, '{$item}'], "
        "['{@object.create}', '{@date.toString}'], ['{@object.assign}'], ['{@json.stringify}']]}, "
        "['{@array.push}']]}, ['{@array.sort}', '-'], ['{@array.join}', b, $&$&], "
        "['{@string.replace}', 9999], ['{@string.padStart}']]}}";
    struct node *node;

    assert_int_equal(tree_read(&at_arena, str_from(yaml), &report, &node), QP_OK);
    for (int64_t n = 1;; n++) {
        struct arena small;
        struct report r;
        struct mapping *m;
        struct scope scope = scope_new();
        struct value v;
        int rc = QP_E_NOMEM;

        testenv_fail_at(&at_world, n);
        arena_init(&small, &at_world.env, 0);
        report_init(&r, &small);
        m = mapping_compile(&small, node, &r);
        assert_true(m != NULL || r.no_memory);
        scope.arena = &small;
        if (m != NULL) {
            rc = mapping_evaluate(m, &scope, &v);
        }
        arena_done(&small);
        if (!testenv_failed(&at_world)) {
            assert_int_equal(rc, QP_OK);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
    }
    testenv_fail_at(&at_world, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_vectors, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_references, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_literals, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_rows, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_rulings, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_values_stay, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_asked, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_page, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_all_at_once, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_compile_limits, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_doubled, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_same_limit, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_find_once, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_find_fails, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_all_functions, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, at_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
