/* test_ledger.c - ledgers as the document prints them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernel/ledger.h"
#include "support/testenv.h"

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

struct words {
    int64_t ledger;
    const char *words;
};

/* Every example of the document, and each digit by itself. */
static void test_activity_words(void **state)
{
    static const struct words cases[] = {
        {0, "Leg1 not entered"},
        {101100000000001, "a trigger"},
        {1000000000000, "Leg1 entered once, not complete; 0 Leg2 entries"},
        {1100000000000, "Leg1 entered once, complete; 0 Leg2 entries"},
        {2100000000000, "Leg1 entered 2 times, complete; 0 Leg2 entries"},
        {1100000000001, "Leg1 entered once, complete; 1 Leg2 entry"},
        {13100000000002, "Leg1 entered 13 times, complete; 2 Leg2 entries"},
        {201100000000001, "Leg1 entered once, complete; 1 Leg2 entry; finalized"},
        {201100000000000, "Leg1 entered once, complete; 0 Leg2 entries; finalized"},
        {299100099999999, "Leg1 entered 99 times, complete; 99999999 Leg2 entries; finalized"},
        {99000000000000, "Leg1 entered 99 times, not complete; 0 Leg2 entries"},
        {-1, "impossible: it is negative"},
        {INT64_MIN, "impossible: it is negative"},
        {LIMIT_LEDGER + 1, "impossible: it has more than fifteen digits"},
        {INT64_MAX, "impossible: it has more than fifteen digits"},
        {101100000000002, "impossible: digit 1 is neither 0 nor 2"},
        {301100000000000, "impossible: digit 1 is neither 0 nor 2"},
        {1200000000000, "impossible: digit 4 is neither 0 nor 1"},
        {1110000000000, "impossible: digits 5 to 7 are not 0"},
        {1101000000000, "impossible: digits 5 to 7 are not 0"},
        {1100100000000, "impossible: digits 5 to 7 are not 0"},
        {100000000000, "impossible: Leg1 is complete and was never entered"},
        {1000000000001, "impossible: Leg1 is not complete, and something came after it"},
        {201000000000000, "impossible: Leg1 is not complete, and something came after it"},
    };
    char text[LEDGER_WORDS_SIZE];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        ledger_words(cases[i].ledger, text);
        assert_string_equal(text, cases[i].words);
    }
}

/* All sixteen combinations of the step digits, and what else can be wrong. */
static void test_guid_words(void **state)
{
    static const struct words cases[] = {
        {0, "ordinal 0: entered, nothing done"},
        {3, "ordinal 3: entered, nothing done"},
        {10000000001, "ordinal 1: work done"},
        {11000000001, "ordinal 1: work done, children spawned"},
        {111000000001, "ordinal 1: work done, children spawned, closed the job"},
        {111100000003, "ordinal 3: work done, children spawned, closed the job, completion done"},
        {110000000000, "ordinal 0: work done, closed the job"},
        {110100000000, "ordinal 0: work done, closed the job, completion done"},
        {100000000000, "ordinal 0: closed the job"},
        {100100000000, "ordinal 0: closed the job, completion done"},
        {111100000000 + 99999999,
         "ordinal 99999999: work done, children spawned, closed the job, completion done"},
        {1000000000, "impossible: children were spawned before the work was done"},
        {101000000000, "impossible: children were spawned before the work was done"},
        {101100000000, "impossible: children were spawned before the work was done"},
        {1100000000, "impossible: children were spawned before the work was done"},
        {100000000, "impossible: completion ran, and it did not close the job"},
        {10100000000, "impossible: completion ran, and it did not close the job"},
        {11100000000, "impossible: completion ran, and it did not close the job"},
        {20000000000, "impossible: a step is marked more than once"},
        {12000000000, "impossible: a step is marked more than once"},
        {311000000000, "impossible: a step is marked more than once"},
        {111900000000, "impossible: a step is marked more than once"},
        {1000000000000, "impossible: digits 1 to 3 are not 0"},
        {200000000000000, "impossible: digits 1 to 3 are not 0"},
        {-5, "impossible: it is negative"},
        {INT64_MAX, "impossible: it has more than fifteen digits"},
    };
    char text[LEDGER_WORDS_SIZE];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        guid_words(cases[i].ledger, text);
        assert_string_equal(text, cases[i].words);
    }
}

/* Any number has words, and they fit: half of these have fifteen digits. */
static void test_words_are_total(void **state)
{
    uint64_t random = testenv_seed();
    char text[LEDGER_WORDS_SIZE];
    (void)state;
    for (int i = 0; i < 100000; i++) {
        int64_t ledger = (int64_t)testenv_random(&random);
        ledger = i % 2 == 0 ? ledger : (int64_t)((uint64_t)ledger % (LIMIT_LEDGER + 1));
        ledger_words(ledger, text);
        assert_true(strlen(text) > 0 && strlen(text) < LEDGER_WORDS_SIZE - 1);
        guid_words(ledger, text);
        assert_true(strlen(text) > 0 && strlen(text) < LEDGER_WORDS_SIZE - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_activity_words),
        cmocka_unit_test(test_guid_words),
        cmocka_unit_test(test_words_are_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
