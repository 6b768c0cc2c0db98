/* rules.h - what must hold in every history of a flow, as rules of fsck
 *
 *   H3  of two neighbours in a branch the one behind was written later, unless the one before it has the higher version:
 *       only then is it an insertion
 *   H5  an event that waits has an answer exactly when step 1 of a GUID has brought it
 *   H7  the address is that of a location and the type is known; the branch, loop or closure above is there, with no
 *       higher version; the semaphore of an open flow counts the flow and its open works
 *
 *   H8  what M3 asks of other activities: a flow that decides has the task or the answer of its decision, one that waits has
 *       an open work
 *
 * H1 (the journal is dense) holds for every kind of job and is a rule of the kernel.
 */
#ifndef QP_FLOW_RULES_H
#define QP_FLOW_RULES_H

#include "kernel/face.h"

extern const struct face_rule flow_rules[];

#endif
