/* ledger.h - the two fifteen-digit ledgers: where each digit stands and what it may be
 *
 * Activity ledger                              GUID ledger (one per transition message)
 *
 *   1      100T  2 when finalized                4   100B  this message closed the job
 *   2-3      1T  Leg1 entries, 0..99             5    10B  step 1: work done
 *   4      100B  Leg1 complete                   6     1B  step 2: children spawned
 *   5-7          0                               7   100M  step 3: completion tasks done
 *   8-15      1  Leg2 entries, 0..99,999,999     8-15   1  ordinal: the Leg2 entry that it was
 *
 * Ledgers are int64 and only grow. Every growth is guarded: struct guard (ops.h) names the digit
 * and the values that it may have before, and the store refuses the bundle when it has another.
 * What a ledger says is read by the functions below, and nowhere taken apart by hand.
 */
#ifndef QP_KERNEL_LEDGER_H
#define QP_KERNEL_LEDGER_H

#include "store/store.h"

#define LEDGER_FINALIZED INT64_C(200000000000000)
#define LEDGER_FINAL_DIGIT INT64_C(100000000000000)
#define LEDGER_LEG1_ENTRY INT64_C(1000000000000)
#define LEDGER_LEG1_DONE INT64_C(100000000000)
#define LEDGER_LEG2_ENTRY INT64_C(1)
#define LEDGER_LEG2_RADIX INT64_C(100000000) /* the last eight digits: Leg2 entries, ordinals */
static_assert(LEDGER_LEG2_RADIX == LIMIT_LEG2_ENTRIES + 1, "Leg2 entries have eight digits");
#define LEDGER_TRIGGER INT64_C(101100000000001) /* a trigger is born with it */
#define LEDGER_WAITING (LEDGER_LEG1_ENTRY + LEDGER_LEG1_DONE)

#define GUID_CLOSED INT64_C(100000000000)
#define GUID_WORK INT64_C(10000000000)
#define GUID_SPAWNED INT64_C(1000000000)
#define GUID_COMPLETED INT64_C(100000000)

/* One digit, by its weight. A ledger of a damaged file may be negative, and then so may its digits be. */
static inline int64_t ledger_digit(int64_t ledger, int64_t weight)
{
    return ledger / weight % 10;
}

/* ------------------------------------------------------------------------- what an activity's says */

static inline int64_t ledger_leg1_entries(int64_t ledger)
{
    return ledger / LEDGER_LEG1_ENTRY % 100;
}

static inline bool ledger_leg1_is_done(int64_t ledger)
{
    return ledger_digit(ledger, LEDGER_LEG1_DONE) != 0;
}

static inline int64_t ledger_leg2_entries(int64_t ledger)
{
    return ledger % LEDGER_LEG2_RADIX;
}

/* It takes no further answers. The digit of a trigger is 1, since it never took any. */
static inline bool ledger_is_finalized(int64_t ledger)
{
    return ledger / LEDGER_FINAL_DIGIT == LEDGER_FINALIZED / LEDGER_FINAL_DIGIT;
}

/* Digit 1 is 0: it was not finalized, and it is no trigger. */
static inline bool ledger_is_open(int64_t ledger)
{
    return ledger / LEDGER_FINAL_DIGIT == 0;
}

/* Digits 5 to 7: an activity has no steps, so they are 0. */
static inline int64_t ledger_reserved(int64_t ledger)
{
    return ledger / LEDGER_LEG2_RADIX % 1000;
}

/* ------------------------------------------------------------------------------- what a GUID's says */

static inline bool guid_work_is_done(int64_t guid_ledger)
{
    return ledger_digit(guid_ledger, GUID_WORK) != 0;
}

static inline bool guid_has_spawned(int64_t guid_ledger)
{
    return ledger_digit(guid_ledger, GUID_SPAWNED) != 0;
}

/* This message closed the job: step 3 is its own. */
static inline bool guid_owns_edge(int64_t guid_ledger)
{
    return ledger_digit(guid_ledger, GUID_CLOSED) != 0;
}

static inline bool guid_is_completed(int64_t guid_ledger)
{
    return ledger_digit(guid_ledger, GUID_COMPLETED) != 0;
}

/* Which Leg2 entry of its activity it was, from 1; 0: it was none. */
static inline int64_t guid_ordinal(int64_t guid_ledger)
{
    return guid_ledger % LEDGER_LEG2_RADIX;
}

/* As it stood before step 3. */
static inline int64_t guid_without_completion(int64_t guid_ledger)
{
    return guid_ledger - ledger_digit(guid_ledger, GUID_COMPLETED) * GUID_COMPLETED;
}

/* Digits 1 to 3: a GUID has no legs, so they are 0. */
static inline int64_t guid_reserved(int64_t guid_ledger)
{
    return guid_ledger / LEDGER_LEG1_ENTRY;
}

/* --------------------------------------------------------------------------------- guards and texts */

/* One digit must be this before. */
static inline struct guard guard_digit(int64_t weight, int64_t value)
{
    return (struct guard){.weight = weight, .radix = 10, .min = value, .max = value};
}

/* A ledger as the document prints it; `out` has room for fifteen digits and a NUL. */
void ledger_text(int64_t ledger, char out[16]);

/* What the digits of an activity's or a GUID's ledger say, for people:
 *
 *   201100000000001   Leg1 entered once, complete; 1 Leg2 entry; finalized
 *   000111100000003   ordinal 3: work done, children spawned, closed the job, completion done
 *
 * Any number has words: one that no protocol can have made is called impossible, with the reason. */
#define LEDGER_WORDS_SIZE 128
void ledger_words(int64_t ledger, char out[LEDGER_WORDS_SIZE]);
void guid_words(int64_t ledger, char out[LEDGER_WORDS_SIZE]);

#endif
