/* test_deb_relation.c - relationship fields: what is read, what is left out, what is refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "carto/deb_relation.h"
#include "support/testenv.h"

static struct testenv t;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testenv_done(&t);
    return 0;
}

/* All atoms of a field as text, groups separated by ", ", alternatives by " | ". */
static int read_all(const char *field, struct buf *out, struct qp_err *err)
{
    struct deb_reader r = {.field = str_from(field), .arch = QP_STR("amd64")};
    struct deb_atom atom = {0};
    bool is_found = true;
    buf_reset(out);
    for (bool is_first = true;; is_first = false) {
        bool was_more = atom.more;
        QP_TRY(deb_reader_next(&r, &is_found, &atom, err));
        if (!is_found) {
            return buf_rc(out);
        }
        buf_text(out, is_first ? "" : was_more ? " | " : ", ");
        deb_atom_write(out, &atom);
    }
}

/* The canonical text of what is read; architecture lists are resolved for amd64. */
static void test_reading(void **state)
{
    static const struct {
        const char *field;
        const char *text;
    } cases[] = {
        {"", ""},
        {" , ,", ""},
        {"a", "a"},
        {"libc6(>=2.34),b", "libc6 (>= 2.34), b"},
        {"a ( << 1:2-3 ) | b:any\n (= 1)", "a (<< 1:2-3) | b:any (= 1)"},
        {"a (< 1), b (> 2)", "a (<= 1), b (>= 2)"},
        {"a [amd64], b [i386]", "a"},
        {"a [!amd64] | b", "b"},
        {"a | b [i386]", "a"},
        {"a | b [i386] | c", "a | c"},
        {"a [linux-any] , b [any-amd64], c [!linux-any], d [linux-amd64 i386]", "a, b, d"},
        {"gcc:i386 | g++", "gcc:i386 | g++"},
    };
    struct buf text;
    (void)state;
    buf_init(&text, &t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};
        if (read_all(cases[i].field, &text, &err) != QP_OK) {
            fail_msg("%s: %s", cases[i].field, err.text);
        }
        buf_byte(&text, '\0');
        assert_string_equal(text.p, cases[i].text);
    }
    buf_done(&text);
}

/* What is refused, with the byte and what was expected. */
static void test_refused(void **state)
{
    static const struct {
        const char *field;
        const char *sentence;
    } cases[] = {{"|a", "byte 0 of the field: expected the name"},
                 {"a |", "byte 3 of the field: expected an alternative"},
                 {"a b", "byte 2 of the field: expected ','"},
                 {"a (1)", "byte 3 of the field: expected one of"},
                 {"a (>= )", "byte 6 of the field: expected a version"},
                 {"a (>= 1", "')' behind the version"},
                 {"a (>= 1-)", "expected a revision"},
                 {"a:", "an architecture behind"},
                 {"a [", "an architecture or ']'"},
                 {"a [!x y]", "either all or no"},
                 {"a <!nocheck>", "expected ','"},
                 {"-a", "the name of a package"}};
    struct buf text;
    (void)state;
    buf_init(&text, &t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct qp_err err = {0};
        assert_int_equal(read_all(cases[i].field, &text, &err), QP_E_INVALID);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("'%s': %s", cases[i].field, err.text);
        }
    }
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
