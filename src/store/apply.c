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
    QP_ASSERT(op->kind < OP_COUNT);
    t->rc = FP(op_points[op->kind]);
    if (t->rc != QP_OK) {
        return err_set(t->err, t->rc, "%s: failpoint", op_points[op->kind]);
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
