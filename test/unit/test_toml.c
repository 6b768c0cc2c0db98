/* test_toml.c - the configuration file's syntax: what is taken, what is refused and where */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/toml.h"
#include "support/arenatest.h"

/* All entries of a text as one line: "[a.b] key=text n=1 b=true ". An error ends it. */
static void told(qp_str text, struct buf *out)
{
    struct toml toml;
    struct toml_entry e;
    struct qp_err err = {0};
    int rc;
    toml_init(&toml, &at_arena, text);
    while ((rc = toml_next(&toml, &e, &err)) == QP_OK) {
        if (e.kind == TOML_TABLE) {
            buf_printf(out, "[%.*s%s%.*s] ", STR_ARG(e.table[0]),
                       str_is_none(e.table[1]) ? "" : ".", STR_ARG(e.table[1]));
            continue;
        }
        buf_printf(out, "%.*s=", STR_ARG(e.key));
        if (e.kind == TOML_TEXT) {
            buf_printf(out, "%.*s ", STR_ARG(e.text));
        } else if (e.kind == TOML_NUMBER) {
            buf_printf(out, "%lld ", (long long)e.number);
        } else {
            buf_text(out, e.truth ? "true " : "false ");
        }
    }
    if (rc != QP_E_NOT_FOUND) {
        buf_printf(out, "! %s", err.text);
    }
    buf_byte(out, '\0');
}

/* Proves what each text means, and that each error has its place. */
static void test_texts(void **state)
{
    static const struct {
        const char *text;
        const char *told;
    } cases[] = {
        {"", ""},
        {"\n \t\r\n# nothing\n", ""},
        {"a=1", "a=1 "},
        {"a = 'x' # why\nb = true\r\nc=false", "a=x b=true c=false "},
        {"a = \"\"\nb = ''", "a= b= "},
        {"[t]\na=\"1\"\n[t.u]\na=\"2\"\n[ t . \"v w\" ]", "[t] a=1 [t.u] a=2 [t.v w] "},
        {"\"a b\" = 1\n'c' = 2", "a b=1 c=2 "},
        {"a = \"\\\"\\\\\\u00e4\\U0001F600\"", "a=\"\\\xc3\xa4\xf0\x9f\x98\x80 "},
        {"a = 'C:\\temp'", "a=C:\\temp "},
        {"a = 1_000\nb = -17\nc = +0\nd = -0", "a=1000 b=-17 c=0 d=0 "},
        {"a = 9223372036854775807", "a=9223372036854775807 "},
        {"a = -9223372036854775808", "a=-9223372036854775808 "},
        {"a = 9223372036854775808", "! 1:24: it is no whole number"},
        {"a = 99999999999999999999", "! 1:23: the number has a leading zero, or is too large"},
        {"a = 01", "! 1:6: the number has a leading zero, or is too large"},
        {"a = 1_", "! 1:6: it is no whole number"},
        {"a = _1", "! 1:5: a value is a text in quotes, a whole number, true or false"},
        {"a = 1.5", "! 1:6: it is no whole number"},
        {"a = 0x10", "! 1:6: it is no whole number"},
        {"a = 10:30:00", "! 1:7: it is no whole number"},
        {"a = -", "! 1:6: it is no whole number"},
        {"a = [1]", "! 1:5: a value is a text in quotes, a whole number, true or false"},
        {"a = yes", "! 1:5: a value is a text in quotes, a whole number, true or false"},
        {"a =", "! 1:4: a value is a text in quotes, a whole number, true or false"},
        {"a", "! 1:2: a = is missing"},
        {"a.b = 1", "! 1:2: a = is missing"},
        {"= 1", "! 1:1: a name is missing: letters, digits, _ and -, or a text in quotes"},
        {"server: x", "! 1:7: a = is missing"},
        {"a = \"x", "! 1:7: the text does not end on its line"},
        {"a = \"x\ny\"", "! 1:7: the text does not end on its line"},
        {"a = \"\"\"x\"\"\"", "! 1:7: nothing more belongs on this line but a comment"},
        {"a = \"\\x\"", "! 1:7: there is no such escape"},
        {"a = \"\\u00\"", "! 1:10: a hexadecimal digit is missing"},
        {"a = \"\\u0000\"", "! 1:11: there is no such escape"},
        {"a = \"\\ud800\"", "! 1:11: there is no such escape"},
        {"a = \"\\U00110000\"", "! 1:15: there is no such escape"},
        {"a = 1 b = 2", "! 1:7: nothing more belongs on this line but a comment"},
        {"a = 1\n\n  a = 2", "a=1 ! 3:3: it comes a second time"},
        {"[t]\n[u]\n[t]", "[t] [u] ! 3:1: it comes a second time"},
        {"[t", "! 1:3: a ] is missing"},
        {"[]", "! 1:2: a name is missing: letters, digits, _ and -, or a text in quotes"},
        {"[a.b.c]", "! 1:6: a table has one name or two"},
        {"[[a]]", "! 1:2: a name is missing: letters, digits, _ and -, or a text in quotes"},
        {"[a] b = 1", "! 1:5: nothing more belongs on this line but a comment"},
        {"a = 1 # \x01", "! 1:9: a control character"},
        {"a = 1\rb = 2", "! 1:6: a control character"},
        {"\xc3\xa4 = 1", "! 1:1: a name is missing: letters, digits, _ and -, or a text in quotes"},
        {"'\xc3\xa4' : 1", "! 1:5: a = is missing"},
        {"a = 1\nb = '\xff'", "! 2:6: this is not UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, &at_world.env, 0);
        told(str_from(cases[i].text), &out);
        if (strcmp(out.p, cases[i].told) != 0) {
            fail_msg("case %zu: %s\ninstead of %s", i, out.p, cases[i].told);
        }
        buf_done(&out);
    }
}

/* Proves that a NUL is no end: what stands behind it is seen, and refused. */
static void test_nul(void **state)
{
    struct buf out;
    buf_init(&out, &at_world.env, 0);
    told((qp_str){"a = 1\0b", 7}, &out);
    assert_string_equal(out.p, "! 1:6: a control character");
    buf_done(&out);
}

/* Proves both limits. */
static void test_limits(void **state)
{
    struct buf text, out;
    buf_init(&text, &at_world.env, 0);
    buf_init(&out, &at_world.env, 0);
    for (int i = 0; i <= LIMIT_CONFIG_ENTRIES; i++) {
        buf_printf(&text, "k%d = 1\n", i);
    }
    told(buf_slice(&text), &out);
    assert_non_null(strstr(out.p, "k999=1 ! 1001:1: there are more than 1000 settings"));
    buf_reset(&text);
    buf_reset(&out);
    while (text.n <= LIMIT_CONFIG_SIZE) {
        buf_text(&text, "# nothing\n");
    }
    told(buf_slice(&text), &out);
    assert_string_equal(out.p, "! 1:1: the file has more than 65536 bytes");
    buf_done(&text);
    buf_done(&out);
}

/* Proves that want of memory is an error, wherever it comes. */
static void test_no_memory(void **state)
{
    static const char text[] = "a = \"text\"\n[t.'u']\nb = 1\n";
    for (int64_t n = 1;; n++) {
        struct toml toml;
        struct toml_entry e;
        struct arena scratch;
        struct qp_err err = {0};
        int rc;
        arena_init(&scratch, &at_world.env, 0);
        toml_init(&toml, &scratch, str_from(text));
        testenv_fail_at(&at_world, n);
        do {
            rc = toml_next(&toml, &e, &err);
        } while (rc == QP_OK);
        arena_done(&scratch);
        if (!testenv_failed(&at_world)) {
            assert_int_equal(rc, QP_E_NOT_FOUND);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
        assert_int_equal(err.code, rc);
    }
    testenv_fail_at(&at_world, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_texts, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_nul, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_limits, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, at_setup, at_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
