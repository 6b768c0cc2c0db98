/* fiber.h - a function on a stack of its own, which goes on when it is told to
 *
 * One thread. fiber_enter runs a fiber until it calls fiber_leave or its function returns; a fiber that is
 * dropped in the middle is gone as if its process had died: nothing of it runs any more, and what it had in
 * memory is its owner's to take away.
 */
#ifndef QP_TEST_FIBER_H
#define QP_TEST_FIBER_H

#include <stdbool.h>

struct fiber;

struct fiber *fiber_create(void (*run)(void *context), void *context);
/* Between two runs, or when it has ended. NULL is allowed. The stack is kept for the next one. */
void fiber_drop(struct fiber *f);
/* Stacks that were kept. */
void fiber_done(void);

/* False: it has ended. */
bool fiber_enter(struct fiber *f);
/* On the fiber itself: back to whoever entered it. */
void fiber_leave(struct fiber *f);

#endif
