/* parts.h - what the parts of a handle do in a turn of its driver
 *
 * The one place that names them in the order in which they take part.
 */
#ifndef QP_RUN_PARTS_H
#define QP_RUN_PARTS_H

#include "run/driver.h"

extern const struct driver_parts handle_parts;

#endif
