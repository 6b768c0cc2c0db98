/* task.h - what a worker elsewhere gets with a step of an external type, beside its input
 *
 *   input      what the item was born with: target, advice, kind, scope
 *   step       select-sync, select or resolve
 *   package    of RESOLVE: what is selected, "type:name@version"
 *   options    those of the request for the type; none: left out
 *
 * Read in a snapshot, on the thread that writes the answer to the worker.
 */
#ifndef QP_CARTO_TASK_H
#define QP_CARTO_TASK_H

#include "kernel/face.h"

/* face.task of traversals. */
int carto_task(void *state, const struct sight *sight, qp_str address, struct json_writer *w);

#endif
