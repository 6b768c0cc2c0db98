/* task.h - a decision as a worker elsewhere gets it: the flow's input and its history, page by page
 *
 *   "base":41,"since":0,"input":{..},"seed":"HEX16","started_at":ms,"log":[event..],"more":"cursor"
 *   event  {"loc":"{2}","v":1,"op":"activity","name":"charge","n":12,"at":ms,"done":15,"ok":..|"error":{..}}; that of a
 *          compensation has "shield":true. In front of them may stand the cancel of the flow, which has no location:
 *          {"op":"cancel","done":15,"at":ms,"reason":"..","thrown":"{3}"}
 *
 * Events come in the order of their locations; they are fed in the order of `done`, which one that is open has not. A page
 * ends after LIMIT_FLOW_PAGE_EVENTS events or LIMIT_FLOW_PAGE_SIZE bytes; `more` is then the cursor of the next. All pages
 * of a decision show the history as it was when the first was made: what has come since, beyond the journal's sequence
 * that stands in the cursor, is left out.
 *
 * In the snapshot of a read, on the reader's thread: one page costs its own events, whatever the history has.
 */
#ifndef QP_FLOW_TASK_H
#define QP_FLOW_TASK_H

#include "kernel/face.h"

/* face.task, face.task_kind, face.log */
int flow_task(void *state, const struct sight *sight, qp_str address, struct json_writer *w);
const char *flow_task_kind(void *state, qp_str address);
int flow_task_log(void *state, const struct sight *sight, qp_str cursor, struct json_writer *w);
/* face.export_data: `,"history":{..}`, the members of a task whose first page is all of it. */
int flow_export(void *state, const struct sight *sight, struct buf *out, bool *out_done);

#endif
