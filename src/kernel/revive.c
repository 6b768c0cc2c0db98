/* revive.c - dead letters go back into their streams, all in one commit (see revive.h) */
#include "kernel/revive.h"

#include "kernel/step.h"

static int revive_one(struct bundle *b, const struct msg_row *m, qp_str addr, struct revived *out)
{
    struct op op = {.kind = OP_msg_revive, .msg_revive = {.ref = {m->ns, m->job, m->guid, 0}}};
    if (!str_is_none(addr) && !str_equal(m->addr, addr)) {
        out->left++;
        return QP_OK;
    }
    out->count++;
    return step_op(b, &op);
}

int job_revive(struct bundle *b, struct job_ref ref, qp_str addr, struct revived *out_revived)
{
    struct msg_row prefix = {.ns = ref.ns, .job = ref.job};
    struct scan scan = {.table = TABLE_msg,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = LIMIT_CLAIM_MESSAGES};
    struct bundle_rows found;
    *out_revived = (struct revived){0};
    QP_TRY(bundle_scan(b, &scan, &found));
    while (found.count > 0) {
        for (size_t i = 0; i < found.count; i++) {
            const struct msg_row *m = found.rows[i];
            if (m->state == MSG_DEAD) {
                QP_TRY(revive_one(b, m, addr, out_revived));
            }
            scan.after = m;
        }
        QP_TRY(bundle_scan(b, &scan, &found));
    }
    return QP_OK;
}
