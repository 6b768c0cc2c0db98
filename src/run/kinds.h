/* kinds.h - the list of all kinds of jobs: the one place above the kinds that names them all
 *
 * A new kind is one line in kinds.c.
 */
#ifndef QP_RUN_KINDS_H
#define QP_RUN_KINDS_H

#include "kernel/face.h"
#include "run/registry.h"

/* Opens the faces of all kinds, and `more` of the caller's, which outlive them. QP_E_NOMEM. */
int kinds_open(const struct face_options *options, const struct face *const *more,
               size_t more_count, struct faces **out_faces) QP_MUST_USE;
/* Adds the workers of the steps that kinds bring along, so that this process serves them. QP_E_INVALID: a topic is no
 * step of any kind. */
struct kinds_serving {
    const char *topics; /* with commas, like "carto.resolve.deb,carto.format"; NULL: all */
    const struct registry *registry; /* of packages; NULL: this process fetches none */
};
int kinds_serve(qp *q, const struct kinds_serving *serving, struct qp_err *err) QP_MUST_USE;
/* The selftests of all rules, the kernel's and the kinds'. */
int kinds_selftest(const struct qp_env *env, struct qp_err *err) QP_MUST_USE;

#endif
