/* engine_op.c - one op in a commit of its own, between two rounds */
#include "kernel/engine_internal.h"

void rounds_commit(struct engine *e)
{
    if (e->open != NULL && e->open->commit.state == COMMIT_RUNNING) {
        store_write(e->store, &e->open->commit, false);
    }
    store_settle(e->store);
}

int engine_op(struct engine *e, struct op *op, struct qp_err *err)
{
    struct bundle *b;
    struct op *place;
    int rc;
    rounds_commit(e);
    commit_reset(&e->commit);
    b = commit_bundle(&e->commit, "system");
    place = bundle_op(b, op->kind);
    if (place != NULL) {
        *place = *op;
    }
    rc = store_commit(e->store, &e->commit);
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", commit_text(&e->commit, rc));
    }
    *op = *place;
    return b->rc == QP_OK ? QP_OK : err_set(err, b->rc, "%s", qp_code_text(b->rc));
}

int engine_number(struct engine *e, int64_t *out_number, struct qp_err *err)
{
    int rc = QP_OK;
    if (e->next_number > e->last_number) {
        struct op op = {.kind = OP_ids_reserve, .ids_reserve = {.count = LIMIT_IDS_PER_BLOCK}};
        rc = engine_op(e, &op, err);
        if (rc == QP_OK) {
            e->next_number = op.ids_reserve.out_first;
            e->last_number = op.ids_reserve.out_first + LIMIT_IDS_PER_BLOCK - 1;
        }
    }
    if (rc == QP_OK) {
        *out_number = e->next_number++;
    }
    return rc;
}
