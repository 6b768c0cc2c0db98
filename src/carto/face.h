/* face.h - the face of traversals (kernel/face.h)
 *
 * A start of the name CARTO_NAME is a request: its input is the body (plan.h), its version the universes that are current
 * when it is decided, so that an import changes nothing for a traversal that runs.
 */
#ifndef QP_CARTO_FACE_H
#define QP_CARTO_FACE_H

#include "kernel/face.h"

extern const struct face carto_face;

#endif
