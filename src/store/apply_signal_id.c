/* apply_signal_id.c - the record of a signal's id (see apply_signal.c, I4)
 *
 *   (none) --kept--> RECORD_KEPT                                        signal_record_add
 *   (none) --delivered--> the job that got it                           signal_record_add
 *   RECORD_KEPT --a registration takes the signal--> that job           signal_record_delivered
 *   RECORD_KEPT --the signal expires, or its job has ended--> (none)    signal_record_drop
 *   the job --due, and it is open--> the job                            signal_record_due
 *   the job --LIMIT_IDEM_MS after its end--> (none)                     signal_record_due
 *
 * Each commits with the row or the message that it speaks of, so there is no crash between the two.
 */
#include "store/apply_signal_id.h"

/* No idempotency key of a user begins with a space (id_check). */
#define RECORD_PREFIX " signal:"
#define RECORD_KEY_SIZE (sizeof RECORD_PREFIX - 1 + 2 * LIMIT_GUID_SIZE)

/* The key of a signal's record. It lives as long as the commit. */
static int record_key(struct txn *t, int64_t ns, qp_str guid, struct idem_row *out_key)
{
    static const char digits[] = "0123456789abcdef";
    char *text = arena_bytes(t->arena, RECORD_KEY_SIZE);
    char *hex;
    QP_ASSERT(guid.n == LIMIT_GUID_SIZE);
    if (text == NULL) {
        t->rc = QP_E_NOMEM;
        return t->rc;
    }
    memcpy(text, RECORD_PREFIX, sizeof RECORD_PREFIX - 1);
    hex = text + sizeof RECORD_PREFIX - 1;
    for (size_t i = 0; i < guid.n; i++) {
        hex[2 * i] = digits[(unsigned char)guid.p[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)guid.p[i] & 15];
    }
    *out_key = (struct idem_row){.ns = ns, .ikey = {text, RECORD_KEY_SIZE}};
    return QP_OK;
}

int signal_record_add(struct txn *t, const struct hook_sig_row *sig, int64_t status, int64_t until)
{
    struct idem_row record;
    if ((sig->keep & SIGNAL_HAS_ID) == 0) {
        return QP_OK;
    }
    QP_TRY(record_key(t, sig->ns, sig->guid, &record));
    record.status = status;
    record.at = t->now;
    record.expire_at = until;
    return txn_add(t, TABLE_idem, &record) == NULL ? t->rc : QP_OK;
}

/* The record of a pending signal, which goes on to be one of a delivered signal, or goes. */
static int record_edit(struct txn *t, const struct hook_sig_row *sig, struct idem_row **out_record)
{
    struct idem_row key;
    QP_TRY(record_key(t, sig->ns, sig->guid, &key));
    *out_record = txn_edit(t, TABLE_idem, &key);
    if (*out_record == NULL) {
        return t->rc != QP_OK ? t->rc
                              : txn_corrupt(t, TABLE_hook_sig, "its id is not recorded as kept");
    }
    return QP_OK;
}

bool signal_record_is(const struct idem_row *record)
{
    return record->ikey.n == RECORD_KEY_SIZE &&
           memcmp(record->ikey.p, RECORD_PREFIX, sizeof RECORD_PREFIX - 1) == 0;
}

/* Decided when it is due, so that neither a delivery nor the end of a job writes more than it must. When a job that was
 * deleted has ended is not known: its records stay one time more, and name no job from then on. */
int signal_record_due(struct txn *t, const struct idem_row *record)
{
    struct job_row key = {.ns = record->ns, .job = record->status};
    const struct job_row *job = key.job > 0 ? txn_peek(t, TABLE_job, &key) : NULL;
    bool ended = job != NULL && job->closed_at > 0;
    int64_t until = (ended ? job->closed_at : t->now) + LIMIT_IDEM_MS;
    struct idem_row *kept;
    if (t->rc != QP_OK) {
        return t->rc;
    }
    if (record->status == RECORD_OF_DELETED || until <= t->now) {
        txn_drop(t, TABLE_idem, record);
        return t->rc;
    }
    kept = txn_edit(t, TABLE_idem, record);
    if (kept == NULL) {
        return t->rc;
    }
    kept->expire_at = until;
    kept->status = job == NULL && key.job > 0 ? RECORD_OF_DELETED : kept->status;
    return QP_OK;
}

int signal_record_delivered(struct txn *t, const struct hook_sig_row *sig, int64_t job)
{
    struct idem_row *record;
    if ((sig->keep & SIGNAL_HAS_ID) == 0) {
        return QP_OK;
    }
    QP_TRY(record_edit(t, sig, &record));
    record->status = job;
    record->expire_at = t->now + LIMIT_IDEM_MS;
    return QP_OK;
}

int signal_record_drop(struct txn *t, const struct hook_sig_row *sig)
{
    struct idem_row *record;
    if ((sig->keep & SIGNAL_HAS_ID) == 0) {
        return QP_OK;
    }
    QP_TRY(record_edit(t, sig, &record));
    txn_drop(t, TABLE_idem, record);
    return t->rc;
}

int signal_record_ask(struct txn *t, struct op_hook_signal *op, const struct hook_sig_row *sig)
{
    const struct idem_row *record;
    struct idem_row key;
    QP_TRY(record_key(t, sig->ns, sig->guid, &key));
    record = txn_get(t, TABLE_idem, &key);
    if (record == NULL) {
        return t->rc;
    }
    op->out_repeats = true;
    op->out_kept = record->status == RECORD_KEPT;
    op->out_delivered = !op->out_kept;
    return QP_OK;
}
