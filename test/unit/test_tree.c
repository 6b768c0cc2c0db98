/* test_tree.c - YAML becomes a tree with places; what is not taken is told with its place, all at once */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "mapping/tree.h"
#include "support/arenatest.h"

static struct report report;

static int read_text(qp_str text, struct node **out_root)
{
    arena_reset(&at_arena);
    report_init(&report, &at_arena);
    return tree_read(&at_arena, text, &report, out_root);
}

/* A tree as text: kind, place, content. Recursion is bounded by the depth of trees. */
static void show(struct buf *out, const struct node *node)
{
    static const char *const kinds[] = {"null", "bool", "num", "str", "[", "{"};
    if (!str_is_none(node->key)) {
        buf_printf(out, "%.*s@%d:%d=", STR_ARG(node->key), node->key_line, node->key_column);
    }
    buf_printf(out, "%s@%d:%d", kinds[node->kind], node->line, node->column);
    if (node->kind == NODE_BOOL) {
        buf_text(out, node->truth ? "(yes)" : "(no)");
    } else if (node->kind < NODE_LIST) {
        buf_printf(out, "(%.*s)", STR_ARG(node->text));
    }
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        buf_byte(out, ' ');
        show(out, child);
    }
    if (node->kind >= NODE_LIST) {
        buf_text(out, node->kind == NODE_LIST ? " ]" : " }");
    }
}

/* Both styles, all kinds, with the places where they stood. */
static void trees(void **state)
{
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"a: 1", "{@1:1 a@1:1=num@1:4(1) }"},
        {"- x\n- 'true'\n- \"1\"\n", "[@1:1 str@1:3(x) str@2:3(true) str@3:3(1) ]"},
        {"{\"a\": [1, -2.5e3, true], b: ~}",
         "{@1:1 a@1:2=[@1:7 num@1:8(1) num@1:11(-2.5e3) bool@1:19(yes) ] b@1:26=null@1:29(~) }"},
        {"---\na:\n  b: False\n  c: null\n",
         "{@2:1 a@2:1={@3:3 b@3:3=bool@3:6(no) c@4:3=null@4:6(null) } }"},
        {"a: |\n  x\n  \ty\nb: yes\n", "{@1:1 a@1:1=str@1:4(x\n\ty\n) b@4:1=str@4:4(yes) }"},
        {"\xC3\xA4: \xC3\xB6\n\xC3\xBC: [\xC3\xB6, z]\n",
         "{@1:1 \xC3\xA4@1:1=str@1:4(\xC3\xB6) \xC3\xBC@2:1=[@2:4 str@2:5(\xC3\xB6) str@2:8(z) ] }"},
        {"500: 2024-01-31\n'': x\n", "{@1:1 500@1:1=str@1:6(2024-01-31) @2:1=str@2:5(x) }"},
        {"[1e5, 1.2.3, -, '-', 1e, 0, -0, 1_0]",
         "[@1:1 num@1:2(1e5) str@1:7(1.2.3) str@1:14(-) str@1:17(-) str@1:22(1e) num@1:26(0) "
         "num@1:29(-0) str@1:33(1_0) ]"},
        {"plain", "str@1:1(plain)"},
        {"a: 1\r\nb: 2\r\n", "{@1:1 a@1:1=num@1:4(1) b@2:1=num@2:4(2) }"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct node *root = NULL;
        struct buf out;
        int rc = read_text(str_from(cases[i].text), &root);
        if (rc != QP_OK) {
            fail_msg("<%s>: %.*s", cases[i].text, STR_ARG(report.first->message));
        }
        buf_init(&out, &at_world.env, 0);
        show(&out, root);
        buf_byte(&out, '\0');
        assert_string_equal(out.p, cases[i].shown);
        buf_done(&out);
    }
}

static void show_findings(struct buf *out)
{
    for (const struct finding *f = report.first; f != NULL; f = f->next) {
        buf_printf(out, "%s%s %d:%d %.*s", f == report.first ? "" : "; ", f->code, f->line,
                   f->column, STR_ARG(f->message));
    }
    buf_byte(out, '\0');
}

/* What is not taken, each with its place; what does not break the text, together. */
static void refusals(void **state)
{
    static const struct {
        const char *text;
        const char *findings;
    } cases[] = {
        {"", "yaml_empty 1:1 the text is empty"},
        {"# only words\n", "yaml_empty 1:1 the text is empty"},
        {"a: [1,\nb: 2\n",
         "yaml_syntax 3:1 not YAML: did not find expected ',' or ']', while parsing a flow "
         "sequence from 1:4 on"},
        {"a: 1\n b: 2\n",
         "yaml_syntax 2:3 not YAML: mapping values are not allowed in this context"},
        {"a: 1\n---\nb: 1\n", "yaml_documents 2:1 a second document begins here"},
        {"%YAML 1.1\n---\na: 1\n", "yaml_directive 1:1 directives are not taken"},
        {"a: &x 1\nb: *x\nc: !!str 1\n",
         "yaml_anchor 1:4 anchors (&name) are not taken; yaml_anchor 2:4 aliases (*name) are not "
         "taken; yaml_tag 3:4 tags (!name) are not taken"},
        {"a: &x {b: 1}\nc:\n  <<: *x\n",
         "yaml_anchor 1:4 anchors (&name) are not taken; yaml_anchor 3:3 merge keys (<<) are not "
         "taken; yaml_anchor 3:7 aliases (*name) are not taken"},
        {"*x : 1\n", "yaml_anchor 1:1 aliases (*name) are not taken"},
        {"a: !x [1]\nb: !y {}\n",
         "yaml_tag 1:4 tags (!name) are not taken; yaml_tag 2:4 tags (!name) are not taken"},
        {"a: 1\nb: 2\na: 3\nb: 4\n",
         "yaml_twice 3:1 the key 'a' is there twice; yaml_twice 4:1 the key 'b' is there twice"},
        {"a: 1\n\"a\": 2\n", "yaml_twice 2:1 the key 'a' is there twice"},
        {"a: 010\nb: 0x1F\nc: .5\nd: +1\ne: 1.\nf: .inf\ng: -.NaN\nh: 0o7\n",
         "yaml_number 1:4 010 is a number in some kinds of YAML and none in others; "
         "yaml_number 2:4 0x1F is a number in some kinds of YAML and none in others; "
         "yaml_number 3:4 .5 is a number in some kinds of YAML and none in others; "
         "yaml_number 4:4 +1 is a number in some kinds of YAML and none in others; "
         "yaml_number 5:4 1. is a number in some kinds of YAML and none in others; "
         "yaml_number 6:4 .inf is a number in some kinds of YAML and none in others; "
         "yaml_number 7:4 -.NaN is a number in some kinds of YAML and none in others; "
         "yaml_number 8:4 0o7 is a number in some kinds of YAML and none in others"},
        {"a: 1e999", "yaml_number 1:4 the number 1e999 is too large"},
        {"? [a]\n: 1\n", "yaml_key 1:3 a list or map as a key"},
        {"? \n: 1\n", "yaml_key 1:2 a key without a name"},
        {"a:\n\tb: 1\n",
         "yaml_syntax 2:1 not YAML: found character that cannot start any token, while scanning "
         "for the next token from 2:1 on"},
        {"a: [\n\t1,\n \t2, \t3]\n",
         "yaml_tab 2:1 a tab as indentation; yaml_tab 3:2 a tab as indentation"},
        {"\xEF\xBB\xBF"
         "a: 1",
         "yaml_bytes 1:1 the text begins with a byte order mark"},
        {"a: 1\nb: \xFF\n", "yaml_bytes 2:4 these bytes are not UTF-8"},
        {"a: '\x07'\n", "yaml_bytes 1:5 a control character"},
        {"\xC3\xA4: '\xE2\x80\xA8'\n", "yaml_bytes 1:5 a control character"},
        {"a: '\xC2\x85'\n", "yaml_bytes 1:5 a control character"},
        {"a: \"x\\0\"\n", "yaml_bytes 1:4 a NUL in a string"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct node *root = NULL;
        struct buf out;
        assert_int_equal(read_text(str_from(cases[i].text), &root), QP_E_MALFORMED);
        buf_init(&out, &at_world.env, 0);
        show_findings(&out);
        assert_string_equal(out.p, cases[i].findings);
        buf_done(&out);
    }
    assert_int_equal(read_text((qp_str){"a: x\0y", 6}, &(struct node *){NULL}), QP_E_MALFORMED);
    assert_string_equal(report.first->code, "yaml_bytes");
}

/* What could be read to its end is there for whoever looks for more; what could not, is not. */
static void tree_of_the_wrong(void **state)
{
    struct node *root = NULL;
    (void)state;
    assert_int_equal(read_text(QP_STR("a: 1\na: 2\n"), &root), QP_E_MALFORMED);
    assert_non_null(root);
    assert_int_equal(root->count, 2);
    assert_int_equal(read_text(QP_STR("a: [1"), &root), QP_E_MALFORMED);
    assert_null(root);
}

/* Each limit holds, and its neighbour does not. */
static void limits(void **state)
{
    static char text[LIMIT_YAML_SIZE + 2];
    struct node *root = NULL;
    size_t n = 0;
    (void)state;
    memset(text, '[', LIMIT_YAML_DEPTH);
    memset(text + LIMIT_YAML_DEPTH, ']', LIMIT_YAML_DEPTH);
    assert_int_equal(read_text((qp_str){text, 2 * LIMIT_YAML_DEPTH}, &root), QP_OK);
    memset(text, '[', sizeof text);
    assert_int_equal(read_text((qp_str){text, LIMIT_YAML_SIZE}, &root), QP_E_MALFORMED);
    assert_string_equal(report.first->code, "yaml_depth");
    assert_int_equal(report.first->column, LIMIT_YAML_DEPTH + 1);
    assert_int_equal(read_text((qp_str){text, LIMIT_YAML_SIZE + 1}, &root), QP_E_MALFORMED);
    assert_string_equal(report.first->code, "yaml_size");

    text[n++] = '[';
    for (size_t i = 1; i < LIMIT_YAML_NODES; i++) {
        text[n++] = '1';
        text[n++] = ',';
    }
    text[n] = ']';
    assert_int_equal(read_text((qp_str){text, n + 1}, &root), QP_OK);
    assert_int_equal(root->count, LIMIT_YAML_NODES - 1);
    memcpy(text + n, "1]", 2);
    assert_int_equal(read_text((qp_str){text, n + 2}, &root), QP_E_MALFORMED);
    assert_string_equal(report.first->code, "yaml_nodes");
}

/* The first fifty in the order of the text are kept, whatever the order they are found in; all are counted. */
static void reports(void **state)
{
    int line = 1;
    (void)state;
    report_init(&report, &at_arena);
    for (int i = 0; i < 200; i++) {
        report_add(&report, "x", 1 + i * 37 % 200, 1, NULL, "%d", i);
    }
    report_add(&report, "y", 3, 1, "hint\n", "second \x1b[31m");
    assert_int_equal(report.count, 201);
    for (const struct finding *f = report.first; f != NULL; f = f->next) {
        assert_int_equal(f->line, line);
        if (line == 3 && f->code[0] == 'x') {
            f = f->next;
            assert_string_equal(f->code, "y");
            assert_memory_equal(f->message.p, "second \\x1b[31m", f->message.n);
            assert_memory_equal(f->hint.p, "hint\\n", f->hint.n);
        }
        line++;
    }
    assert_int_equal(line - 1, LIMIT_FINDINGS - 1);
    assert_int_equal(report.last->line, LIMIT_FINDINGS - 1);
}

/* Numbers are read exactly, in every locale. */
static void numbers(void **state)
{
    struct node *root = NULL;
    const struct node *node;
    int64_t integer = 0;
    double real = 0;
    (void)state;
    assert_int_equal(read_text(QP_STR("[9223372036854775807, -9223372036854775808, "
                                      "9223372036854775808, 1.5, '1', -0]"),
                               &root),
                     QP_OK);
    node = root->first;
    assert_true(node_as_i64(node, &integer) && integer == INT64_MAX);
    node = node->next;
    assert_true(node_as_i64(node, &integer) && integer == INT64_MIN);
    node = node->next;
    assert_false(node_as_i64(node, &integer));
    assert_true(node_as_real(node, &real) && real == 9223372036854775808.0);
    node = node->next;
    assert_false(node_as_i64(node, &integer));
    (void)setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where it is installed */
    assert_true(node_as_real(node, &real) && real == 1.5);
    (void)setlocale(LC_NUMERIC, "C");
    node = node->next;
    assert_false(node_as_i64(node, &integer));
    assert_false(node_as_real(node, &real));
    assert_false(node_as_i64(NULL, &integer));
    assert_null(node_get(root, "x"));
    assert_null(node_get(NULL, "x"));
}

/* Every allocation may fail; nothing is lost and nothing crashes. */
static void no_memory(void **state)
{
    struct node *root = NULL;
    (void)state;
    for (int64_t n = 1;; n++) {
        int rc;
        arena_done(&at_arena);
        arena_init(&at_arena, &at_world.env, 0);
        testenv_fail_at(&at_world, n);
        rc = read_text(QP_STR("a: [1, {b: 2, b: 3}, 010]\nc: &x y\n"), &root);
        if (!testenv_failed(&at_world)) {
            assert_int_equal(rc, QP_E_MALFORMED);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
    }
    testenv_fail_at(&at_world, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),
        cmocka_unit_test(refusals),
        cmocka_unit_test(tree_of_the_wrong),
        cmocka_unit_test(limits),
        cmocka_unit_test(reports),
        cmocka_unit_test(numbers),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, at_setup, at_teardown);
}
