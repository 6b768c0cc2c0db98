/* view.h - what people see of a traversal's rows (kernel/face.h): stages of items, END-DETECT, sums */
#ifndef QP_CARTO_VIEW_H
#define QP_CARTO_VIEW_H

#include "kernel/face.h"

int carto_describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                            struct qp_activity *told) QP_MUST_USE;
int carto_describe_history(void *state, const struct sight *sight, int64_t kind,
                           struct qp_event *event) QP_MUST_USE;
/* Its sums; marks of nodes are the engine's own. */
int carto_export(void *state, const struct sight *sight, struct buf *out,
                 bool *out_done) QP_MUST_USE;

#endif
