/* ledger.c - ledgers as digits and as words */
#include "kernel/ledger.h"

#include <stdio.h>

void ledger_text(int64_t ledger, char out[16])
{
    QP_ASSERT(ledger >= 0 && ledger <= LIMIT_LEDGER);
    for (int i = 14; i >= 0; i--) {
        out[i] = (char)('0' + ledger % 10);
        ledger /= 10;
    }
    out[15] = '\0';
}

static const char *not_fifteen_digits(int64_t ledger)
{
    if (ledger < 0) {
        return "it is negative";
    }
    return ledger > LIMIT_LEDGER ? "it has more than fifteen digits" : NULL;
}

static void say_impossible(const char *why, char out[LEDGER_WORDS_SIZE])
{
    (void)snprintf(out, LEDGER_WORDS_SIZE, "impossible: %s", why);
}

/* ---------------------------------------------------------------------------------- of an activity */

/* NULL, or why no activity can have this ledger. */
static const char *ledger_flaw(int64_t ledger)
{
    int64_t final = ledger_digit(ledger, LEDGER_FINAL_DIGIT);
    int64_t done = ledger_digit(ledger, LEDGER_LEG1_DONE);
    if (not_fifteen_digits(ledger) != NULL) {
        return not_fifteen_digits(ledger);
    }
    if (final != 0 && final != 2) {
        return "digit 1 is neither 0 nor 2";
    }
    if (done > 1) {
        return "digit 4 is neither 0 nor 1";
    }
    if (ledger_reserved(ledger) != 0) {
        return "digits 5 to 7 are not 0";
    }
    if (done == 1 && ledger_leg1_entries(ledger) == 0) {
        return "Leg1 is complete and was never entered";
    }
    if (done == 0 && (final != 0 || ledger_leg2_entries(ledger) != 0)) {
        return "Leg1 is not complete, and something came after it";
    }
    return NULL;
}

void ledger_words(int64_t ledger, char out[LEDGER_WORDS_SIZE])
{
    const char *flaw = ledger == LEDGER_TRIGGER ? NULL : ledger_flaw(ledger);
    int64_t entries = ledger_leg1_entries(ledger);
    int64_t answers = ledger_leg2_entries(ledger);
    char times[40];
    if (flaw != NULL) {
        say_impossible(flaw, out);
    } else if (ledger == LEDGER_TRIGGER) {
        (void)snprintf(out, LEDGER_WORDS_SIZE, "a trigger");
    } else if (ledger == 0) {
        (void)snprintf(out, LEDGER_WORDS_SIZE, "Leg1 not entered");
    } else {
        (void)snprintf(times, sizeof times, entries == 1 ? "once" : "%lld times",
                       (long long)entries);
        (void)snprintf(out, LEDGER_WORDS_SIZE, "Leg1 entered %s, %s; %lld Leg2 %s%s", times,
                       ledger_leg1_is_done(ledger) ? "complete" : "not complete",
                       (long long)answers, answers == 1 ? "entry" : "entries",
                       ledger_is_finalized(ledger) ? "; finalized" : "");
    }
}

/* -------------------------------------------------------------------------------------- of a GUID */

static const struct {
    int64_t weight;
    const char *words;
} guid_steps[] = {{GUID_WORK, "work done"},
                  {GUID_SPAWNED, "children spawned"},
                  {GUID_CLOSED, "closed the job"},
                  {GUID_COMPLETED, "completion done"}};

/* NULL, or why no GUID can have this ledger. */
static const char *guid_flaw(int64_t ledger)
{
    if (not_fifteen_digits(ledger) != NULL) {
        return not_fifteen_digits(ledger);
    }
    if (guid_reserved(ledger) != 0) {
        return "digits 1 to 3 are not 0";
    }
    for (size_t i = 0; i < ARRAY_COUNT(guid_steps); i++) {
        if (ledger_digit(ledger, guid_steps[i].weight) > 1) {
            return "a step is marked more than once";
        }
    }
    if (ledger_digit(ledger, GUID_SPAWNED) > ledger_digit(ledger, GUID_WORK)) {
        return "children were spawned before the work was done";
    }
    return ledger_digit(ledger, GUID_COMPLETED) > ledger_digit(ledger, GUID_CLOSED)
               ? "completion ran, and it did not close the job"
               : NULL;
}

void guid_words(int64_t ledger, char out[LEDGER_WORDS_SIZE])
{
    const char *flaw = guid_flaw(ledger);
    const char *between = "";
    size_t used;
    if (flaw != NULL) {
        say_impossible(flaw, out);
        return;
    }
    used =
        (size_t)snprintf(out, LEDGER_WORDS_SIZE, "ordinal %lld: ", (long long)guid_ordinal(ledger));
    for (size_t i = 0; i < ARRAY_COUNT(guid_steps); i++) {
        if (ledger_digit(ledger, guid_steps[i].weight) != 0) {
            used += (size_t)snprintf(out + used, LEDGER_WORDS_SIZE - used, "%s%s", between,
                                     guid_steps[i].words);
            between = ", ";
        }
    }
    if (*between == '\0') {
        (void)snprintf(out + used, LEDGER_WORDS_SIZE - used, "entered, nothing done");
    }
}
