/* script_commands.h - what a run of a flow's function wants to have recorded, as the JSON of a decision
 *
 *   {"base":41,"commands":[{"op":"activity","loc":"{2}","v":1,"name":"charge","input":{..}}, ..],"after":2}
 *
 * Every command but return and fail has its location and its version, which counts from the root. A loop has one command per
 * decision, the last word about it: {"op":"loop",..,"iteration":20,"state":..}, and with "output" when it has ended. Times
 * are milliseconds.
 */
#ifndef QP_FLOW_SCRIPT_COMMANDS_H
#define QP_FLOW_SCRIPT_COMMANDS_H

#include "flow/script_frame.h"

/* One command: begin, add keys to s->writer, end. */
void command_begin(struct script *s, const char *op, const struct cursor_found *found);
int command_end(struct script *s) QP_MUST_USE;
/* The same for a listen with `got`: it may make another event, and the history needs room for both. */
int command_end_got(struct script *s) QP_MUST_USE;
/* What the run says of the loop, once: a later word takes the place of the earlier. */
int command_loop(struct script *s, struct round *round, qp_str state) QP_MUST_USE;
/* The decision, with what ends it (return or fail), or none. */
int commands_write(struct script *s, const char *op, const char *key, qp_str value,
                   qp_str *out_decision) QP_MUST_USE;

#endif
