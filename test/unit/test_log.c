/* test_log.c - one safe line per event */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "support/testenv.h"

static struct testenv t;

/* Fields come in order, as key=value, quoted when they must be. */
static void fields_in_order(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    log_write(&t.env, QP_LOG_INFO, LOG_MSG("lease lost"), LOG_STR("stream", QP_STR("orders.v2")),
              LOG_I64("fence", -3), LOG_BOOL("dead", true), LOG_BOOL("new", false),
              LOG_TEXT("empty", ""), LOG_TEXT("none", NULL), LOG_I64("max", INT64_MAX));
    log_write(&t.env, QP_LOG_INFO, LOG_MSG("started"));
    assert_string_equal(testenv_log(&t), "msg=\"lease lost\" stream=orders.v2 fence=-3 dead=true "
                                         "new=false empty=\"\" none= max=9223372036854775807\n"
                                         "msg=started\n");
    testenv_done(&t);
}

/* Whatever a value holds, it cannot end the line, the quotes, or reach a terminal. */
static void values_cannot_break_out(void **state)
{
    static const struct {
        const char *value;
        const char *expected;
    } cases[] = {
        {"a b", "\"a b\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"x\nmsg=forged", "\"x\\nmsg=forged\""},
        {"\r\t", "\"\\r\\t\""},
        {"\x1B[31mred", "\"\\x1b[31mred\""},
        {"\x7F", "\"\\x7f\""},
        {"\xC2\x9B"
         "31m",
         "\"\\xc2\\x9b31m\""},
        {"\xE2\x80\xA8", "\"\\xe2\\x80\\xa8\""},
        {"\xE2\x80\xAE"
         "txt.exe",
         "\"\\xe2\\x80\\xaetxt.exe\""},
        {"\xE2\x81\xA6", "\"\\xe2\\x81\\xa6\""},
        {"\xFF\xFE", "\"\\xff\\xfe\""},
        {"cut\xE2\x82", "\"cut\\xe2\\x82\""},
        {"\xC3\xA9t\xC3\xA9 \xF0\x9F\xA7\xB6", "\"\xC3\xA9t\xC3\xA9 \xF0\x9F\xA7\xB6\""},
    };

    (void)state;
    testenv_init(&t, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const char *line;

        testenv_log_reset(&t);
        log_write(&t.env, QP_LOG_WARN, LOG_MSG("m"), LOG_TEXT("v", cases[i].value));
        line = testenv_log(&t);
        assert_memory_equal(line, "msg=m v=", 8);
        assert_memory_equal(line + 8, cases[i].expected, strlen(cases[i].expected));
        assert_string_equal(line + 8 + strlen(cases[i].expected), "\n");
    }
    testenv_done(&t);
}

/* Random bytes of random length: always one line of valid, printable UTF-8 within the limit. */
static void random_bytes_make_safe_lines(void **state)
{
    static char value[2 * LIMIT_LOG_LINE_SIZE];
    uint64_t random = testenv_seed();

    (void)state;
    testenv_init(&t, 1);
    for (int round = 0; round < 3000; round++) {
        size_t n = (size_t)testenv_random_below(&random, sizeof(value));
        int kind = (int)testenv_random_below(&random, 3);
        qp_str line;

        for (size_t i = 0; i < n; i++) {
            uint64_t byte = testenv_random(&random);

            value[i] = kind == 0 ? 'x' : kind == 1 ? "\xE2\x82\xAC"[i % 3] : (char)byte;
        }
        testenv_log_reset(&t);
        log_write(&t.env, QP_LOG_ERROR, LOG_MSG("m"), LOG_STR("v", ((qp_str){value, n})),
                  LOG_I64("n", round));
        line = str_from(testenv_log(&t));
        assert_true(line.n >= 2 && line.n - 1 <= LIMIT_LOG_LINE_SIZE);
        assert_int_equal(utf8_valid_prefix(line), line.n);
        for (size_t i = 0; i + 1 < line.n; i++) {
            assert_true((unsigned char)line.p[i] >= 0x20 && line.p[i] != 0x7F);
        }
        assert_int_equal(line.p[line.n - 1], '\n');
    }
    testenv_done(&t);
}

/* A line that is too long is cut between characters, says so, and closes its quotes. */
static void long_lines_are_cut(void **state)
{
    static char value[2 * LIMIT_LOG_LINE_SIZE];
    const char *line;
    size_t n;

    (void)state;
    testenv_init(&t, 1);
    memset(value, '\x01', sizeof(value));
    log_write(&t.env, QP_LOG_INFO, LOG_MSG("m"), LOG_STR("v", ((qp_str){value, sizeof(value)})),
              LOG_I64("never", 1));
    line = testenv_log(&t);
    n = strlen(line);
    assert_in_range(n, LIMIT_LOG_LINE_SIZE - 8, LIMIT_LOG_LINE_SIZE + 1);
    assert_string_equal(line + n - 9, "\\x01...\"\n");
    /* every length around the border, plain and quoted: what follows the value must not push
     * further */
    for (size_t size = LIMIT_LOG_LINE_SIZE - 40; size <= LIMIT_LOG_LINE_SIZE; size++) {
        memset(value, 'x', sizeof(value));
        for (int quoted = 0; quoted < 2; quoted++) {
            value[0] = quoted ? ' ' : 'x';
            testenv_log_reset(&t);
            log_write(&t.env, QP_LOG_INFO, LOG_MSG("m"), LOG_STR("v", ((qp_str){value, size})),
                      LOG_I64("n", INT64_MIN), LOG_TEXT("w", "a b"));
            n = strlen(testenv_log(&t));
            assert_true(n - 1 <= LIMIT_LOG_LINE_SIZE);
        }
    }
    testenv_done(&t);
}

static int evaluated;

static int64_t count_evaluation(void)
{
    return ++evaluated;
}

/* Without a log nothing is formatted, and no field is evaluated. */
static void no_log_no_work(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    log_write(&t.env, QP_LOG_INFO, LOG_MSG("m"), LOG_I64("n", count_evaluation()));
    assert_int_equal(evaluated, 1);
    t.env.log = NULL;
    log_write(&t.env, QP_LOG_INFO, LOG_MSG("m"), LOG_I64("n", count_evaluation()));
    assert_int_equal(evaluated, 1);
    testenv_done(&t);
}

/* Quoting for error sentences: escaped, cut to the room there is, ended by NUL. */
static void escaping_into_a_small_room(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        const char *expected;
    } cases[] = {
        {"", 8, ""},
        {"abcd", 8, "abcd"},
        {"abcde", 8, "abcd..."},
        {"a\n\n", 8, "a\\n..."},
        {"\x1B\x1B\x1B", 12, "\\x1b\\x1b..."},
        {"\xE2\x82\xAC\xE2\x82\xAC", 8, "\xE2\x82\xAC..."},
        {"\xE2\x82\xAC\xE2\x82\xAC", 10, "\xE2\x82\xAC\xE2\x82\xAC"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char out[16];

        assert_int_equal(log_escape(str_from(cases[i].text), out, cases[i].size),
                         strlen(cases[i].expected));
        assert_string_equal(out, cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_in_order),
        cmocka_unit_test(values_cannot_break_out),
        cmocka_unit_test(random_bytes_make_safe_lines),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(no_log_no_work),
        cmocka_unit_test(escaping_into_a_small_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
