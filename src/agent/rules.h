/* rules.h - the rules of fsck about instances of agent workflows
 *
 *   B1  every row of an instance is there, and every key in `executions` is that of a branch
 *   B2  an open decision has its task, its answer or an entry that is not settled; and there is none without it
 *   B3  what waits is a work of type wait that is scheduled
 *   B4  a work is successful exactly when it has a completion_index, which is an index of `executions`
 *   B5  the keys of properties rise from 0 to at most the count of executions, and the head has their number
 *
 * A rule whose rows are not there at all leaves it to B1.
 */
#ifndef QP_AGENT_RULES_H
#define QP_AGENT_RULES_H

#include "kernel/face.h"

extern const struct face_rule agent_rules[];

#endif
