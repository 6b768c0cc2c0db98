/* agentagree.h - whether the arrays of one answer of `decisions` fit together: all of them are those of one commit
 *
 *   A1  executions are keys of branches, and a branch starts where it says
 *   A2  there is an execution per branch, and one per awaited work that is successful; as many onSuccess as works that are
 *   A3  a work is successful exactly when it has a completion_index, where its owner runs if it is awaited
 *   A4  what waits, and what the buffer names, is a work; a wait is scheduled
 *   A5  keys of properties rise from 0 to at most the count of executions
 *   A6  there is a decision exactly when decision_ongoing; it has the branches and works of executions[ongoing_index..]
 *   A7  when none is ongoing in mode run, nothing is in the buffer
 *
 * Pure; any thread.
 */
#ifndef QP_TEST_AGENTAGREE_H
#define QP_TEST_AGENTAGREE_H

#include "base/json.h"

/* NULL: they do; else what does not. */
const char *agentagree(const struct json *decisions);

#endif
