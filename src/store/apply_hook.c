/* apply_hook.c - the rows of one hook: registrations, kept signals, and what counts them (see apply_signal.c)
 *
 *   I1  hook.waiting and hook.pending are the number of its hook_wait and hook_sig rows, hook.pending_size the bytes of
 *       the latter; the hook goes when both are 0
 *   I2  job.kept and job.kept_size are the number of hook_sig rows with the job's number, and the bytes of their payloads
 *
 * Each row and its counts change in one op. If we crash before its commit, none of them has changed.
 */
#include "store/apply_hook.h"

#include <stdio.h>

#include "base/hash.h"

struct hook_row *hook_edit(struct txn *t, int64_t ns, qp_str topic, qp_str key)
{
    struct hook_row row = {.ns = ns, .topic = topic, .hkey = key};
    struct hook_row *hook = txn_edit(t, TABLE_hook, &row);
    return hook == NULL && t->rc == QP_OK ? txn_add(t, TABLE_hook, &row) : hook;
}

int hook_tidy(struct txn *t, const struct hook_row *hook)
{
    if (hook->waiting < 0 || hook->pending < 0) {
        return txn_corrupt(t, TABLE_hook, "it counts fewer than there are");
    }
    if (hook->waiting == 0 && hook->pending == 0) {
        txn_drop(t, TABLE_hook, hook);
    }
    return t->rc;
}

int hook_check(qp_str topic, qp_str key, bool named)
{
    size_t mark = named ? 1 : 0;
    return topic.n <= mark || topic.n > LIMIT_NAME_SIZE + mark ||
                   (topic.p[0] == SIGNAL_NAME_MARK) != named || key.p == NULL ||
                   key.n > LIMIT_ID_SIZE
               ? QP_E_INVALID
               : QP_OK;
}

int hook_open_check(const struct op_hook_open *op)
{
    return op->msg_topic.n == 0 || op->msg_topic.n > LIMIT_NAME_SIZE || op->addr.n == 0 ||
                   op->addr.n > LIMIT_ADDRESS_SIZE
               ? QP_E_INVALID /* no signal could ever be sent to it */
               : QP_OK;
}

int hook_wait_remove(struct txn *t, const struct hook_wait_row *w)
{
    struct hook_row *hook = hook_edit(t, w->ns, w->topic, w->hkey);
    if (hook == NULL) {
        return t->rc;
    }
    hook->waiting--;
    txn_drop(t, TABLE_hook_wait, w);
    return t->rc != QP_OK ? t->rc : hook_tidy(t, hook);
}

int hook_first(struct txn *t, enum table_id table, const void *prefix, const void **out_row)
{
    struct bundle_rows found;
    int rc =
        txn_scan(t,
                 &(struct scan){
                     .table = table, .index = -1, .prefix = prefix, .prefix_count = 3, .limit = 1},
                 &found);
    if (rc == QP_OK) {
        *out_row = found.count > 0 ? found.rows[0] : NULL;
    }
    return rc;
}

int hook_wait_add(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w)
{
    if (txn_add(t, TABLE_hook_wait, w) == NULL) {
        return t->rc;
    }
    hook->waiting++;
    return QP_OK;
}

int signal_kept_count(struct txn *t, const struct hook_sig_row *sig, int64_t sign)
{
    struct job_row *job;
    QP_ASSERT(sig->job > 0);
    QP_TRY(job_find(t, (struct job_ref){sig->ns, sig->job}, &job));
    job->kept += sign;
    job->kept_size += sign * (int64_t)sig->payload.n;
    return job->kept < 0 || job->kept_size < 0
               ? txn_corrupt(t, TABLE_job, "it counts fewer kept signals than there are")
               : QP_OK;
}

int signal_drop(struct txn *t, struct hook_row *hook, const struct hook_sig_row *sig)
{
    txn_drop(t, TABLE_hook_sig, sig);
    hook->pending--;
    hook->pending_size -= (int64_t)sig->payload.n;
    return sig->job > 0 ? signal_kept_count(t, sig, -1) : t->rc;
}

int signal_message(struct txn *t, const struct hook_wait_row *w, const struct hook_sig_row *sig)
{
    char *guid = arena_bytes(t->arena, LIMIT_GUID_SIZE);
    char seq[24];
    int n = snprintf(seq, sizeof seq, "%lld", (long long)w->seq);
    if (guid == NULL) {
        t->rc = QP_E_NOMEM;
        return t->rc;
    }
    hash_guid(sig->guid.p, sig->guid.n, seq, (size_t)n, (unsigned char *)guid);
    return msg_insert(t, &(struct op_msg_put){.ref = {w->ns, w->job},
                                              .guid = {guid, LIMIT_GUID_SIZE},
                                              .topic = w->msg_topic,
                                              .addr = w->addr,
                                              .parent_guid = w->parent_guid,
                                              .payload = sig->payload,
                                              .code = sig->code});
}
