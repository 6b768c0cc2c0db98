/* single.h - jobs of one activity: the smallest thing that goes through all digits
 *
 * Its first commit starts it, the response to its task ends it. Between the two the job looks like this, which is
 * also what a crash leaves behind:
 *
 *   job        semaphore 1: one open obligation
 *   trigger    activity 101100000000001, GUID 000011000000000 (inception and spawn in one commit)
 *   worker     activity 001100000000000, its input on the row, its task in the stream
 *
 * and after the second commit like this:
 *
 *   job        semaphore 0, closed by the response's GUID, completions 1
 *   worker     activity 201100000000001, GUID 000111100000001
 */
#ifndef QP_KERNEL_SINGLE_H
#define QP_KERNEL_SINGLE_H

#include "kernel/face.h"

#define SINGLE_ADDRESS "run,0,0"

/* Jobs of kind 0: the workflow's name is the topic, the policy of retries the trigger's. */
#define SINGLE_KIND 0
extern const struct program single_program;
/* Their face: every name that is not in the table of names. */
extern const struct face single_face;

#endif
