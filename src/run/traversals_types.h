/* traversals_types.h - the registry of package types, for the server and the command line (carto/registry.h)
 *
 * From any thread.
 */
#ifndef QP_RUN_TRAVERSALS_TYPES_H
#define QP_RUN_TRAVERSALS_TYPES_H

#include "carto/external.h"

/* A type lives until its visit returns. */
typedef void (*type_visit)(void *context, const struct carto_type *type);
/* Those that are built in, then those that are registered, by name. */
int traversals_types(qp *q, qp_str ns, void *context, type_visit visit,
                     struct qp_err *err) QP_MUST_USE;
/* One of them. QP_E_NOT_FOUND. */
int traversals_type(qp *q, qp_str ns, qp_str name, void *context, type_visit visit,
                    struct qp_err *err) QP_MUST_USE;

/* Registers a type, in place of the one of its name: new traversals use it. QP_E_SHAPE, with a pointer; QP_E_INVALID: the name;
 * QP_E_CONFLICT: it is built in; QP_E_LIMIT: there are too many. */
int traversals_type_put(qp *q, qp_str ns, qp_str name, qp_str definition,
                        struct qp_err *err) QP_MUST_USE;
/* Traversals that run go on with it. QP_E_NOT_FOUND. */
int traversals_type_delete(qp *q, qp_str ns, qp_str name, struct qp_err *err) QP_MUST_USE;

#endif
