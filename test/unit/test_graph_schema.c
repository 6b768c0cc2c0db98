/* test_graph_schema.c - the part of JSON Schema that graphs may use: what is taken, what is refused, and where */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "graph/schema.h"
#include "support/arenatest.h"

static struct report report;

static const struct schema *compile(const char *text)
{
    struct node *root = NULL;
    arena_reset(&at_arena);
    report_init(&report, &at_arena);
    assert_int_equal(tree_read(&at_arena, str_from(text), &report, &root), QP_OK);
    return schema_compile(&at_arena, root, &report);
}

/* Each keyword, with a value that it takes and one that it does not. */
static void values(void **state)
{
    static const struct {
        const char *schema;
        const char *json;
        const char *refusal; /* NULL: taken */
    } cases[] = {
        {"{}", "[1, \"x\"]", NULL},
        {"{type: string}", "\"x\"", NULL},
        {"{type: string}", "1", "'': must be a string, not an integer"},
        {"{type: integer}", "1", NULL},
        {"{type: integer}", "1.0", NULL},
        {"{type: integer}", "99999999999999999999", NULL},
        {"{type: integer}", "1.5", "'': must be an integer, not a number"},
        {"{type: number}", "1", NULL},
        {"{type: boolean}", "null", "'': must be a boolean, not null"},
        {"{type: [object, 'null']}", "null", NULL},
        {"{type: [object, 'null']}", "[]", "'': must be null or an object, not an array"},
        {"{type: string, nullable: true, minLength: 1}", "null", NULL},
        {"{type: string, nullable: false}", "null", "'': must be a string, not null"},
        {"{enum: [a, 1, null, {x: [1, 2]}]}", "\"a\"", NULL},
        {"{enum: [a, 1, null, {x: [1, 2]}]}", "1.0", NULL},
        {"{enum: [a, 1, null, {x: [1, 2]}]}", "null", NULL},
        {"{enum: [a, 1, null, {x: [1, 2]}]}", "{\"x\": [1, 2]}", NULL},
        {"{enum: [a, 1, null, {x: [1, 2]}]}", "{\"x\": [1, 3]}",
         "'': must be one of the 4 values that the schema lists"},
        {"{enum: ['1']}", "1", "'': must be one of the 1 values that the schema lists"},
        {"{const: 9007199254740993}", "9007199254740993", NULL},
        {"{const: 9007199254740993}", "9007199254740992",
         "'': must be the one value that the schema has"},
        {"{const: true}", "false", "'': must be the one value that the schema has"},
        {"{const: {a: 1}}", "{\"a\": 1, \"b\": 2}",
         "'': must be the one value that the schema has"},
        {"{properties: {a: {type: number}}}", "{\"a\": 1, \"b\": 2}", NULL},
        {"{properties: {a: {type: number}}}", "{\"a\": true}",
         "'/a': must be a number, not a boolean"},
        {"{properties: {a: {properties: {b: {items: {type: string}}}}}}",
         "{\"a\": {\"b\": [\"x\", 1]}}", "'/a/b/1': must be a string, not an integer"},
        {"{properties: {'a/b~c': {type: number}}}", "{\"a/b~c\": \"\"}",
         "'/a~1b~0c': must be a number, not a string"},
        {"{required: [a, b]}", "{\"a\": null, \"b\": 1}", NULL},
        {"{required: [a, b]}", "{\"a\": 1}", "'/b': is missing"},
        {"{properties: {a: {}}, additionalProperties: false}", "{\"a\": 1}", NULL},
        {"{properties: {a: {}}, additionalProperties: false}", "{\"b\\n\": 1}",
         "'/b\\n': is no property that the schema has"},
        {"{properties: {a: {}}, additionalProperties: {type: string}}", "{\"a\": 1, \"b\": 2}",
         "'/b': must be a string, not an integer"},
        {"{minimum: 1}", "1", NULL},
        {"{minimum: 1}", "0.5", "'': must be at least 1"},
        {"{maximum: 2.5}", "2.5", NULL},
        {"{maximum: 2.5}", "99999999999999999999", "'': must be at most 2.5"},
        {"{exclusiveMinimum: 0}", "0", "'': must be more than 0"},
        {"{exclusiveMaximum: 10}", "10", "'': must be less than 10"},
        {"{exclusiveMinimum: 0, exclusiveMaximum: 10}", "5", NULL},
        {"{minimum: 1}", "\"0\"", NULL},
        {"{minLength: 2, maxLength: 2}", "\"\xC3\xA4\xC3\xB6\"", NULL},
        {"{minLength: 2}", "\"\xC3\xA4\"", "'': must have at least 2 characters"},
        {"{maxLength: 1}", "\"ab\"", "'': must have at most 1 characters"},
        {"{minItems: 1, maxItems: 1}", "[1]", NULL},
        {"{minItems: 1}", "[]", "'': must have at least 1 items"},
        {"{maxItems: 1}", "[1, 2]", "'': must have at most 1 items"},
        {"{title: x, description: y, default: 1, examples: [2]}", "\"z\"", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct schema *s = compile(cases[i].schema);
        struct qp_err err = {0};
        int rc;
        assert_non_null(s);
        assert_int_equal(report.count, 0);
        rc = schema_check(s, str_from(cases[i].json), JSON_UNCHECKED, &err);
        if (cases[i].refusal == NULL && rc != QP_OK) {
            fail_msg("%s refuses %s: %s", cases[i].schema, cases[i].json, err.text);
        } else if (cases[i].refusal != NULL) {
            assert_int_equal(rc, QP_E_SHAPE);
            assert_string_equal(err.text, cases[i].refusal);
        }
    }
}

/* What is no schema of ours is refused, with its place. */
static void refusals(void **state)
{
    static const struct {
        const char *schema;
        const char *code;
        int column;
    } cases[] = {
        {"[]", "schema_form", 1},
        {"{pattern: x}", "schema_keyword", 2},
        {"{properties: {a: {format: date}}}", "schema_keyword", 19},
        {"{type: text}", "schema_type", 8},
        {"{type: [string, 1]}", "schema_type", 17},
        {"{type: [string, [x]]}", "schema_type", 17},
        {"{type: {}}", "schema_form", 8},
        {"{type: []}", "schema_form", 8},
        {"{nullable: 1}", "schema_form", 12},
        {"{properties: [a]}", "schema_form", 14},
        {"{properties: {a: 1}}", "schema_form", 18},
        {"{required: a}", "schema_form", 12},
        {"{required: [1]}", "schema_form", 12},
        {"{additionalProperties: 1}", "schema_form", 24},
        {"{items: [1]}", "schema_form", 9},
        {"{enum: []}", "schema_form", 8},
        {"{enum: a}", "schema_form", 8},
        {"{minimum: a}", "schema_form", 11},
        {"{maximum: '1'}", "schema_form", 11},
        {"{exclusiveMinimum: true}", "schema_form", 20},
        {"{exclusiveMaximum: {}}", "schema_form", 20},
        {"{minLength: -1}", "schema_form", 13},
        {"{maxLength: 1.5}", "schema_form", 13},
        {"{minItems: x}", "schema_form", 12},
        {"{maxItems: []}", "schema_form", 12},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        (void)compile(cases[i].schema);
        if (report.count != 1) {
            fail_msg("%s: %zu findings", cases[i].schema, report.count);
        }
        assert_string_equal(report.first->code, cases[i].code);
        assert_int_equal(report.first->column, cases[i].column);
    }
}

/* What a mapping may write. */
static void declared(void **state)
{
    (void)state;
    assert_true(schema_declares(NULL, QP_STR("a")));
    assert_true(schema_declares(compile("{type: object}"), QP_STR("a")));
    assert_true(schema_declares(compile("{properties: {a: {}}}"), QP_STR("a")));
    assert_false(schema_declares(compile("{properties: {a: {}}}"), QP_STR("b")));
    assert_true(
        schema_declares(compile("{properties: {a: {}}, additionalProperties: true}"), QP_STR("b")));
    assert_true(
        schema_declares(compile("{properties: {a: {}}, additionalProperties: {}}"), QP_STR("b")));
    assert_false(schema_declares(compile("{additionalProperties: false}"), QP_STR("b")));
}

/* What is no JSON is no value of any schema; and the deepest schema, with a long way to the violation. */
static void edges(void **state)
{
    struct buf schema;
    struct buf json;
    struct qp_err err = {0};
    const struct schema *s;
    (void)state;
    assert_int_equal(schema_check(compile("{}"), QP_STR("{"), JSON_UNCHECKED, &err),
                     QP_E_MALFORMED);
    buf_init(&schema, &at_world.env, 0);
    buf_init(&json, &at_world.env, 0);
    for (int i = 0; i < LIMIT_YAML_DEPTH - 1; i++) {
        buf_text(&schema, "{items: ");
        buf_text(&json, "[");
    }
    buf_text(&schema, "{type: string}");
    buf_text(&json, "1");
    for (int i = 0; i < LIMIT_YAML_DEPTH - 1; i++) {
        buf_text(&schema, "}");
        buf_text(&json, "]");
    }
    buf_byte(&schema, '\0');
    s = compile(schema.p);
    assert_int_equal(report.count, 0);
    assert_int_equal(schema_check(s, buf_slice(&json), JSON_UNCHECKED, &err), QP_E_SHAPE);
    assert_memory_equal(err.text, "'/0/0/0/0/", 10);
    buf_done(&schema);
    buf_done(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(refusals),
        cmocka_unit_test(declared),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, at_setup, at_teardown);
}
