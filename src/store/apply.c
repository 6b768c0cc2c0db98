/* apply.c - from an op to the function that means it */
#include "store/apply.h"

#include "base/failpoint.h"

static const char *const op_points[OP_COUNT] = {
#define OP(name) "op." #name,
#include "store/ops.def"
#undef OP
};

int apply_op(struct txn *t, struct op *op)
{
    int rc;
    QP_ASSERT(op->kind < OP_COUNT);
    rc = FP(op_points[op->kind]);
    if (t->rc != QP_OK) {
        return t->rc; /* of the commit that this one stands on */
    }
    if (rc != QP_OK) {
        t->rc = err_set(t->err, rc, "%s: failpoint", op_points[op->kind]);
        return rc;
    }
    switch (op->kind) {
#define OP(name)                                                                                   \
    case OP_##name:                                                                                \
        return apply_##name(t, &op->name);
#include "store/ops.def"
#undef OP
    case OP_COUNT:
        break;
    }
    return QP_E_INTERNAL;
}
