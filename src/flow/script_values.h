/* script_values.h - the properties that a run of a flow's function sets, and which of them it sees (qp_set, qp_get)
 *
 * Nothing of them is read from the store: a run sets them again, so that they follow from code and history like everything else.
 * A frame sees what it has set itself, what the frames around it had set when it began, and what came of closures once it has
 * awaited them, as if those had been set at that place. So it does not matter how far parallel closures have come. A loop
 * that has ended is not entered again: what its rounds have set stands with its event (log_entry.properties).
 *
 * People see all of it, also what a closure has set that goes on: of two values the one that was set behind the later answer,
 * else the later one in the order of the code.
 */
#ifndef QP_FLOW_SCRIPT_VALUES_H
#define QP_FLOW_SCRIPT_VALUES_H

#include "flow/script_frame.h"

/* The frame has set it, now: in itself, in the rounds that it is in, and for people. */
int values_set(struct frame *f, qp_str name, qp_str value) QP_MUST_USE;
/* All of an object: a loop's. */
int values_set_all(struct frame *f, qp_str object) QP_MUST_USE;
/* What a round's loop has set becomes visible behind it. */
int values_leave(struct frame *f, const struct values *of) QP_MUST_USE;
/* The answer of a work was consumed that the code has awaited. What a closure has set is seen from now on; to await it once more
 * changes nothing. */
int values_await(struct frame *f, const struct work *work) QP_MUST_USE;

/* As a JSON object; of a loop with the names that were removed, as null. */
void values_write(struct json_writer *w, const struct values *of, bool removed);

#endif
