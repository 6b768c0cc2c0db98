/* test_location.c - locations of document 004: their forms, their order, the ways from one to the next */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/location.h"
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

static struct location at(const char *text)
{
    struct location location;
    struct qp_err err = {0};
    if (location_parse(str_from(text), &location, &err) != QP_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    return location;
}

static void assert_text(const struct location *location, const char *expected)
{
    char text[LOCATION_TEXT_SIZE];
    assert_int_equal(location_print(location, text), strlen(expected));
    assert_string_equal(text, expected);
}

static qp_str key_of(const struct location *location, char out_key[LOCATION_KEY_SIZE])
{
    return (qp_str){out_key, location_key(location, out_key)};
}

/* -1, 0 or 1. */
static int sign(int order)
{
    return (order > 0) - (order < 0);
}

/* ------------------------------------------------------------------------------------------ forms */

/* Document 004, Location, and the cases P1 to P10: text, JSON and key of the same location, and back. */
static void test_004_forms(void **state)
{
    static const struct {
        const char *text;
        const char *json;
        const char *key;
    } cases[] = {{"{}", "[]", ""},
                 {"{1}", "[[1]]", "a1!"},
                 {"{0.1}", "[[0,1]]", "a0a1!"},
                 {"{0.0.1}", "[[0,0,1]]", "a0a0a1!"},
                 {"{1.1}", "[[1,1]]", "a1a1!"},
                 {"{1.0.1}", "[[1,0,1]]", "a1a0a1!"},
                 {"{1, 1}", "[[1],[1]]", "a1!a1!"},
                 {"{1, 4}", "[[1],[4]]", "a1!a4!"},
                 {"{2, 11, 4.1}", "[[2],[11],[4,1]]", "a2!b11!a4a1!"},
                 {"{4, 0.3.1, 0.6}", "[[4],[0,3,1],[0,6]]", "a4!a0a3a1!a0a6!"},
                 {"{2, 256}", "[[2],[256]]", "a2!c256!"},
                 {"{2147483647}", "[[2147483647]]", "j2147483647!"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct location location = at(cases[i].text);
        struct location back = at("{9}");
        char key[LOCATION_KEY_SIZE];
        char addr[LOCATION_ADDRESS_SIZE];
        struct json *json = NULL;
        struct json_writer w;
        struct buf out;
        size_t n;
        assert_text(&location, cases[i].text);
        assert_true(str_equal(key_of(&location, key), str_from(cases[i].key)));
        assert_true(location_from_key(str_from(cases[i].key), &back));
        assert_int_equal(location_compare(&location, &back), 0);
        n = location_address(&location, addr);
        assert_int_equal(addr[0], '@');
        assert_true(str_equal((qp_str){addr + 1, n - 1}, str_from(cases[i].key)));
        back = at("{9}");
        assert_true(location_from_address((qp_str){addr, n}, &back));
        assert_text(&back, cases[i].text);
        buf_init(&out, &t.env, 0);
        json_writer_init(&w, &out);
        location_write_json(&w, &location);
        assert_int_equal(json_writer_done(&w), QP_OK);
        assert_true(str_equal(buf_slice(&out), str_from(cases[i].json)));
        back = at("{9}");
        assert_int_equal(json_parse(&t.env, buf_slice(&out), NULL, &json), QP_OK);
        assert_int_equal(location_read_json(json, &back, NULL), QP_OK);
        assert_text(&back, cases[i].text);
        json_free(json);
        buf_done(&out);
    }
}

/* A version stands behind the location, with a space or without; without one it is 0. */
static void test_version(void **state)
{
    static const struct {
        const char *text;
        int64_t version; /* -1: refused */
    } cases[] = {{"{2}v1", 1},   {"{2} v1", 1}, {"{2}", 0},     {"{2}v12", 12},
                 {"{2}v0", -1},  {"{2}v", -1},  {"{2}v01", -1}, {"{2}  v1", -1},
                 {"{2}v1 ", -1}, {"{2}x", -1},  {"{2} ", -1},   {"{2}v9007199254740992", -1},
                 {"{2}v-1", -1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct location location = at("{9}");
        int64_t version = 77;
        int rc = location_parse_version(str_from(cases[i].text), &location, &version, NULL);
        assert_int_equal(rc, cases[i].version < 0 ? QP_E_INVALID : QP_OK);
        assert_int_equal(version, cases[i].version < 0 ? 77 : cases[i].version);
        assert_text(&location, cases[i].version < 0 ? "{9}" : "{2}");
    }
}

/* What is no location is refused, with the byte; the output stays as it was. */
static void test_refused(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } cases[] = {{"", "expected '{' at byte 0"},
                 {"1", "expected '{' at byte 0"},
                 {"{", "expected a digit at byte 1"},
                 {"{0}", "expected a last ordinate above 0 at byte 1"},
                 {"{1.0}", "expected a last ordinate above 0 at byte 3"},
                 {"{0.0}", "expected a last ordinate above 0 at byte 3"},
                 {"{01}", "expected a number without leading zeros at byte 1"},
                 {"{1.00.1}", "expected a number without leading zeros at byte 3"},
                 {"{1,}", "expected one space behind the comma at byte 3"},
                 {"{1,2}", "expected one space behind the comma at byte 3"},
                 {"{1, }", "expected a digit at byte 4"},
                 {"{1,  2}", "expected a digit at byte 4"},
                 {"{ 1}", "expected a digit at byte 1"},
                 {"{1 }", "expected '.', ', ' or '}' at byte 2"},
                 {"{-1}", "expected a digit at byte 1"},
                 {"{+1}", "expected a digit at byte 1"},
                 {"{1..2}", "expected a digit at byte 3"},
                 {"{.1}", "expected a digit at byte 1"},
                 {"{1.}", "expected a digit at byte 3"},
                 {"{1} ", "expected the end at byte 3"},
                 {"{1}{2}", "expected the end at byte 3"},
                 {"{\xd9\xa1}", "expected a digit at byte 1"}, /* another script's 1 */
                 {"{2147483648}", "beyond the limits at byte 1"},
                 {"{1, 99999999999999999999}", "beyond the limits at byte 4"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct location location = at("{9}");
        struct qp_err err = {0};
        assert_int_equal(location_parse(str_from(cases[i].text), &location, &err), QP_E_INVALID);
        if (strstr(err.text, cases[i].error) == NULL || strstr(err.text, "bad_location") == NULL) {
            fail_msg("%s: %s", cases[i].text, err.text);
        }
        assert_text(&location, "{9}");
    }
}

/* So is what is too deep or too long, in every form. */
static void test_limits(void **state)
{
    char text[1024];
    struct location location;
    struct location more;
    size_t n = 0;
    (void)state;
    n += (size_t)snprintf(text, sizeof text, "{1");
    for (int i = 1; i < LIMIT_LOCATION_COORDINATES; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ", 1");
    }
    (void)snprintf(text + n, sizeof text - n, "}");
    location = at(text);
    assert_false(location_child(&location, 1, &more));
    (void)snprintf(text + n, sizeof text - n, ", 1}");
    assert_int_equal(location_parse(str_from(text), &location, NULL), QP_E_INVALID);

    n = (size_t)snprintf(text, sizeof text, "{1");
    for (int i = 1; i < LIMIT_LOCATION_ORDINATES; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ".1");
    }
    (void)snprintf(text + n, sizeof text - n, "}");
    location = at(text);
    assert_false(location_child(&location, 1, &more)); /* in all its coordinates */
    (void)snprintf(text + n, sizeof text - n, ".1}");
    assert_int_equal(location_parse(str_from(text), &location, NULL), QP_E_INVALID);
}

/* Keys that no location has. */
static void test_bad_keys(void **state)
{
    static const char *const keys[] = {
        "a",   "a1",  "!",    "a1!!",         "a0!",          "a1a0!", "b1!", "b01!", "a12!",
        "k1!", "`1!", "a1!x", "j2147483648!", "j9999999999!", "a1 !",  "A1!", "aa1!"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct location location = at("{9}");
        assert_false(location_from_key(str_from(keys[i]), &location));
        assert_text(&location, "{9}");
    }
    assert_false(location_from_address(QP_STR("a1!"), &(struct location){0}));
    assert_false(location_from_address(QP_STR(""), &(struct location){0}));
    assert_false(location_from_address(QP_STR("flow,0,0"), &(struct location){0}));
}

static void test_bad_json(void **state)
{
    static const char *const texts[] = {
        "1",      "{}",      "[1]",       "[[]]",           "[[0]]",     "[[1,0]]",
        "[[-1]]", "[[1.5]]", "[[\"1\"]]", "[[2147483648]]", "[[1],null]"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct location location = at("{9}");
        struct json *json = NULL;
        struct qp_err err = {0};
        assert_int_equal(json_parse(&t.env, str_from(texts[i]), NULL, &json), QP_OK);
        assert_int_equal(location_read_json(json, &location, &err), QP_E_INVALID);
        assert_non_null(strstr(err.text, "bad_location"));
        assert_text(&location, "{9}");
        json_free(json);
    }
}

/* ------------------------------------------------------------------------------------------ order */

/* Document 004 and the cases O1 to O5: ascending, and so are the keys. */
static void test_004_order(void **state)
{
    static const char *const ascending[] = {
        "{}",        "{0.0.0.1}", "{0.0.1}",   "{0.1}",     "{1}",         "{1, 0.1}",
        "{1, 1}",    "{1, 2, 1}", "{1.0.0.1}", "{1.0.1}",   "{1.1}",       "{1.1, 1}",
        "{1.1.0.1}", "{1.1.1}",   "{1.2}",     "{2}",       "{2, 255}",    "{2, 256}",
        "{9}",       "{10}",      "{99}",      "{99, 100}", "{2147483647}"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ascending); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(ascending); j++) {
            struct location a = at(ascending[i]);
            struct location b = at(ascending[j]);
            char x[LOCATION_KEY_SIZE];
            char y[LOCATION_KEY_SIZE];
            assert_int_equal(location_compare(&a, &b), (i > j) - (i < j));
            assert_int_equal(sign(str_compare(key_of(&a, x), key_of(&b, y))), (i > j) - (i < j));
        }
    }
}

static struct location random_location(uint64_t *random)
{
    /* Few values, so that prefixes and equal ones are met; some with more digits. */
    static const uint32_t values[] = {0, 0, 1, 1, 2, 9, 10, 99, 100, 2147483647};
    struct location l = {0};
    uint32_t depth = (uint32_t)testenv_random_below(random, 4);
    uint32_t count = 0;
    for (uint32_t c = 0; c < depth; c++) {
        for (uint64_t more = testenv_random_below(random, 4); more > 0; more--) {
            l.ordinates[count++] = values[testenv_random_below(random, ARRAY_COUNT(values))];
        }
        l.ordinates[count++] = 1 + (uint32_t)testenv_random_below(random, 12);
        l.ends[c] = (uint8_t)count;
    }
    l.depth = depth;
    return l;
}

/* Key order is location order; what was printed reads back; a subtree is the range of its keys. */
static void test_order_of_keys(void **state)
{
    uint64_t random = testenv_seed();
    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct location a = random_location(&random);
        struct location b = random_location(&random);
        struct location back;
        char x[LOCATION_KEY_SIZE];
        char y[LOCATION_KEY_SIZE];
        char z[LOCATION_KEY_SIZE];
        char text[LOCATION_TEXT_SIZE];
        qp_str key = key_of(&b, y);
        bool below;
        assert_int_equal(sign(str_compare(key_of(&a, x), key)), location_compare(&a, &b));
        assert_true(location_from_key(key, &back));
        assert_int_equal(location_compare(&back, &b), 0);
        assert_int_equal(location_parse((qp_str){text, location_print(&b, text)}, &back, NULL),
                         QP_OK);
        assert_int_equal(location_compare(&back, &b), 0);
        if (a.depth > 0) {
            qp_str from = key_of(&a, x);
            qp_str to = {z, location_behind(&a, z)};
            back = b;
            back.depth = b.depth > a.depth ? a.depth : b.depth;
            below = location_compare(&back, &a) == 0;
            assert_int_equal(str_compare(from, key) <= 0 && str_compare(key, to) < 0, below);
        }
    }
}

/* The scan of a history meets no other activity of the job. */
static void test_range_of_history(void **state)
{
    static const char *const others[] = {"trigger,0", "flow,0,0", "pay,0,1,0", "0,0",   "Z,0",
                                         "A,0",       "~,0",      "-,0",       "#1@a1!"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        qp_str addr = str_from(others[i]);
        assert_true(str_compare(addr, LOCATION_FIRST) < 0 || str_compare(addr, LOCATION_END) >= 0);
    }
    assert_true(str_compare(LOCATION_FIRST, QP_STR("@a0a0a1!")) < 0);
    assert_true(str_compare(QP_STR("@j2147483647!"), LOCATION_END) < 0);
}

/* ------------------------------------------------------------------------------------------- ways */

/* Document 004, Inserting Events, and the cases I1 to I18. `0` is where a branch begins. */
static void test_004_between(void **state)
{
    static const struct {
        const char *before; /* NULL: the beginning */
        const char *after;
        const char *between;
    } cases[] = {{NULL, "{1}", "{0.1}"},          {"{0.1}", "{1}", "{0.2}"},
                 {NULL, "{0.1}", "{0.0.1}"},      {"{0.0.1}", "{0.1}", "{0.0.2}"},
                 {NULL, "{0.0.1}", "{0.0.0.1}"},  {"{1}", "{2}", "{1.1}"},
                 {"{1}", "{3}", "{1.1}"},         {"{2.1}", "{3}", "{2.2}"},
                 {"{2.2}", "{3}", "{2.3}"},       {"{2.1}", "{2.2}", "{2.1.1}"},
                 {"{2.1.1}", "{2.2}", "{2.1.2}"}, {"{2.1}", "{2.1.1}", "{2.1.0.1}"},
                 {"{1}", "{1.1}", "{1.0.1}"},     {"{1.0.1}", "{1.1}", "{1.0.2}"},
                 {"{1}", "{1.0.1}", "{1.0.0.1}"}, {"{1.0.1}", "{1.0.2}", "{1.0.1.1}"},
                 {"{1}", "{2.1}", "{1.0.1}"},     {"{1.3.1}", "{1.4}", "{1.3.2}"},
                 {"{1.1}", "{2.1}", "{1.1.1}"},   {"{2, 11, 4}", "{2, 11, 5}", "{2, 11, 4.1}"}};
    struct location root = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct location before =
            cases[i].before == NULL ? location_start(&root) : at(cases[i].before);
        struct location after = at(cases[i].after);
        struct location between;
        assert_true(location_between(&before, &after, &between));
        assert_text(&between, cases[i].between);
    }
}

/* Every pair of coordinates of up to three ordinates from 0 to 3: the result lies between. */
static void test_between_all_pairs(void **state)
{
    struct location all[128];
    struct location between;
    struct location root = {0};
    size_t count = 0;
    int64_t pairs = 0;
    (void)state;
    for (uint32_t code = 0; code < 4 + 16 + 64; code++) {
        struct location l = {.depth = 1};
        uint32_t size = code < 4 ? 1 : code < 20 ? 2 : 3;
        uint32_t digits = code < 4 ? code : code < 20 ? code - 4 : code - 20;
        for (uint32_t i = 0; i < size; i++, digits /= 4) {
            l.ordinates[i] = digits % 4;
        }
        l.ends[0] = (uint8_t)size;
        if (l.ordinates[size - 1] != 0) {
            all[count++] = l;
        }
    }
    all[count++] = location_start(&root);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (location_compare(&all[i], &all[j]) < 0) {
                assert_true(location_between(&all[i], &all[j], &between));
                assert_true(location_compare(&all[i], &between) < 0);
                assert_true(location_compare(&between, &all[j]) < 0);
                pairs++;
            }
        }
    }
    assert_int_equal(pairs, (int64_t)(count * (count - 1) / 2));
}

/* Inserting at random places, again and again: all are different and in order until a limit says no. */
static void test_between_again_and_again(void **state)
{
    enum { MOST = 400 };
    static struct location list[MOST + 1];
    uint64_t random = testenv_seed();
    struct location root = {0};
    (void)state;
    for (int round = 0; round < 100; round++) {
        size_t count = 2;
        size_t refused = 0;
        list[0] = location_start(&root);
        assert_true(location_next(&list[0], &list[1]));
        while (count < MOST && refused == 0) {
            struct location new;
            size_t i = round % 4 == 0                ? count - 2
                       : round % 4 == 1              ? 0
                       : round % 4 == 2 && count > 4 ? count / 2
                                                     : testenv_random_below(&random, count - 1);
            if (!location_between(&list[i], &list[i + 1], &new)) {
                refused++;
                continue;
            }
            assert_true(location_compare(&list[i], &new) < 0);
            assert_true(location_compare(&new, &list[i + 1]) < 0);
            memmove(&list[i + 2], &list[i + 1], (count - i - 1) * sizeof list[0]);
            list[i + 1] = new;
            count++;
        }
        assert_true(count > 60);
    }
}

/* Document 004, Calculating Location and Branches, and the cases E1 to E4. */
static void test_004_next(void **state)
{
    struct location root = {0};
    struct location l = location_start(&root);
    struct location child;
    (void)state;
    assert_true(location_next(&l, &l));
    assert_text(&l, "{1}");
    assert_true(location_next(&l, &l));
    assert_text(&l, "{2}");
    assert_true(location_child(&l, 1, &child));
    assert_text(&child, "{2, 1}");
    l = at("{2, 4.1.7}");
    assert_true(location_next(&l, &l));
    assert_text(&l, "{2, 5}");
    l = location_parent(&l);
    assert_text(&l, "{2}");
    l = location_start(&l);
    assert_true(location_next(&l, &l));
    assert_text(&l, "{2, 1}");
    l = at("{2147483647.1}");
    assert_false(location_next(&l, &child));
    assert_text(&child, "{2, 1}");
    l = at("{1.2147483647}");
    child = at("{2}");
    assert_false(location_between(&l, &child, &child));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_004_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_of_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_range_of_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_between_all_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_between_again_and_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_004_next, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
