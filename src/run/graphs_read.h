/* graphs_read.h - what is told of applications, for the server: without what graphs are made of (run/graphs.h) */
#ifndef QP_RUN_GRAPHS_READ_H
#define QP_RUN_GRAPHS_READ_H

#include <quipu.h>

#include "base/json.h"

/* All applications of a namespace, as items of an array that is begun: name, versions, the active one, its graphs. */
int graphs_list(qp *q, qp_str ns, struct json_writer *w, struct qp_err *err) QP_MUST_USE;

#endif
