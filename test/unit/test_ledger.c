/* test_ledger.c - ledgers as the document prints them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernel/ledger.h"

/* Fifteen digits, zeros in front, for the values of the document's examples. */
static void test_text(void **state)
{
    static const struct {
        int64_t ledger;
        const char *text;
    } cases[] = {
        {0, "000000000000000"},
        {LEDGER_TRIGGER, "101100000000001"},
        {LEDGER_LEG1_ENTRY, "001000000000000"},
        {LEDGER_WAITING, "001100000000000"},
        {LEDGER_FINALIZED + LEDGER_WAITING + LEDGER_LEG2_ENTRY, "201100000000001"},
        {GUID_WORK + 1, "000010000000001"},
        {GUID_WORK + GUID_SPAWNED + 1, "000011000000001"},
        {GUID_CLOSED + GUID_WORK + GUID_SPAWNED + GUID_COMPLETED + 1, "000111100000001"},
        {LIMIT_LEDGER, "999999999999999"},
    };
    char text[16];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        ledger_text(cases[i].ledger, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* A guard on a digit names exactly that digit. */
static void test_guard(void **state)
{
    struct guard g = guard_digit(GUID_SPAWNED, 1);
    (void)state;
    assert_int_equal(INT64_C(1000000000) / g.weight % g.radix, 1);
    assert_int_equal(INT64_C(10000000000) / g.weight % g.radix, 0);
    assert_int_equal(g.min, 1);
    assert_int_equal(g.max, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_guard)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
