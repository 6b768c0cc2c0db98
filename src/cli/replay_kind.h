/* replay_kind.h - the kind of job that quipu replay offers: one decision of a flow, over a history from a file
 *
 * A job of it is started by the flow's name, with {"file":PATH} as its input, PATH being what quipu export wrote. It has one
 * activity, a task at the topic of the flow's decisions: to a worker it looks like a decision of that flow, with all of the
 * history. What the worker says of it, whatever it is, is the job's output; an error of the worker fails the job.
 */
#ifndef QP_CLI_REPLAY_KIND_H
#define QP_CLI_REPLAY_KIND_H

#include "kernel/face.h"

#define REPLAY_KIND 99 /* job_row.kind, in a store that nobody keeps */

/* The face for jobs of this flow; `name` outlives it. */
struct face replay_face(const char *name);

#endif
