/* types.h - the package types that are built in */
#ifndef QP_CARTO_TYPES_H
#define QP_CARTO_TYPES_H

#include "carto/plan.h"

extern const struct plan_types carto_types;

#endif
