/* env.h - the outside world, made complete
 *
 * A caller fills in the functions of struct qp_env that it wants to replace; a handle copies the
 * struct and completes the copy, so that the code below never asks whether a function is there.
 * Only env.c knows the operating system.
 */
#ifndef QP_BASE_ENV_H
#define QP_BASE_ENV_H

#include "base/base.h"

/* Replaces every zero function pointer with the usual one; `log` stays zero: no log. */
void env_complete(struct qp_env *env);

/* The `size` of a struct of quipu.h, which its _init function sets: QP_E_INVALID says whether that was not called, or
 * was compiled with the header of another version. */
int size_check(size_t size, size_t expected, const char *name, struct qp_err *err) QP_MUST_USE;

#endif
