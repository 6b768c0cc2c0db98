/* face.h - the face of flows (kernel/face.h), and the announcement of their names
 *
 * A flow's name is durable from its first announcement: a row of app_topic, which the table of names finds (names.h). A
 * start of the name is a job of the flow's kind from then on, whether a worker is there or not.
 */
#ifndef QP_FLOW_FACE_H
#define QP_FLOW_FACE_H

#include "kernel/face.h"
#include "kernel/request.h"

extern const struct face flow_face;

/* The name is that of a flow from now on. QP_OK, also when it was before. QP_E_CONFLICT: it is a graph's, or plain jobs of
 * the name are open; QP_E_LIMIT: the namespace has LIMIT_FLOW_NAMES of them; QP_E_INVALID: it is no name. The refusal says
 * which. After QP_OK with `changed` the caller lets readers know (faces_changed). */
struct request_flow {
    struct command command;
    int64_t ns;
    qp_str name;
    bool changed;           /* after */
    struct refusal refusal; /* as in request_start */
};
void request_flow(struct request_flow *r);

#endif
