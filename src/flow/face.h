/* face.h - the face of flows (kernel/face.h), and the announcement of their names
 *
 * A flow's name is durable from its first announcement: a row of app_topic, which the table of names finds (names.h). A
 * start of the name is a job of the flow's kind from then on, whether a worker is there or not.
 */
#ifndef QP_FLOW_FACE_H
#define QP_FLOW_FACE_H

#include "kernel/face.h"

extern const struct face flow_face;

#endif
