/* show.h - an instance as JSON: the arrays of document 002, by its names
 *
 *   {id, custom_id, workflow_name, canonical_name, programming_language, environment, status, parked?, output?, error?,
 *    branches, executions, statuses, waits, properties, buffer, ongoing_index, decision_mode, decision_ongoing, decision}
 *
 * Times in milliseconds. The state is whole, not a window. Reads only; errors stick in the writer's buffer.
 */
#ifndef QP_AGENT_SHOW_H
#define QP_AGENT_SHOW_H

#include "agent/state.h"

void show_instance(struct json_writer *w, const struct instance *s);
/* A branch as scripts get it: type, input, event_*, task_*, error_*. */
void show_branch(struct json_writer *w, const struct branch *branch);

#endif
