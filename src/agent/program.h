/* program.h - instances of agent workflows as a program of the kernel (ADR 51)
 *
 *   trigger,0   D        its input is the start
 *   agent,0,0   A, open  Leg1 is the start; a decision is a task of it, its result a Leg2 entry
 *   ~a0b12      A, open  a work: Leg1 gives it a task, a timer or a job; its answers are reports to the instance
 *   task,0,0    A        a dispatched task, which is a job of its own: it ends with its answer
 *
 * Step 1 of an answer is the turn of the instance, whole; step 2 enters works, puts the decision that is due, or gives the
 * instance's obligation up. Owner: the face's state. Threads: the engine's own.
 */
#ifndef QP_AGENT_PROGRAM_H
#define QP_AGENT_PROGRAM_H

#include "agent/acting.h"

struct program agent_program(struct agents *agents);

#endif
