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
 * Ledgers are int64 and only grow. Every growth is guarded: struct guard (store.h) names the digit
 * and the values that it may have before, and the store refuses the bundle when it has another.
 */
#ifndef QP_KERNEL_LEDGER_H
#define QP_KERNEL_LEDGER_H

#include "store/store.h"

#define LEDGER_FINALIZED INT64_C(200000000000000)
#define LEDGER_FINAL_DIGIT INT64_C(100000000000000)
#define LEDGER_LEG1_ENTRY INT64_C(1000000000000)
#define LEDGER_LEG1_DONE INT64_C(100000000000)
#define LEDGER_LEG2_ENTRY INT64_C(1)
#define LEDGER_TRIGGER INT64_C(101100000000001) /* a trigger is born with it */
#define LEDGER_WAITING (LEDGER_LEG1_ENTRY + LEDGER_LEG1_DONE)

#define GUID_CLOSED INT64_C(100000000000)
#define GUID_WORK INT64_C(10000000000)
#define GUID_SPAWNED INT64_C(1000000000)
#define GUID_COMPLETED INT64_C(100000000)

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
