/* apply_signal.c - where a registration and a signal meet (H13)
 *
 * There is one hook row per (topic, key), and both sides change it, so they can never pass each
 * other unseen: whoever comes second finds the first.
 *
 *   I1  hook.waiting and hook.pending = the number of its hook_wait and hook_sig rows; the hook
 *       goes when both are 0
 *   I2  nobody waits while a signal is pending: a meeting empties one side at once
 *   I3  a signal becomes a message with its own GUID, or a pending row, or nothing; never two of
 *       them
 *
 * If we crash before the commit of either side, that side comes again and meets the other then.
 */
#include "store/apply.h"

static struct hook_row *hook_edit(struct txn *t, int64_t ns, qp_str topic, qp_str key)
{
    struct hook_row row = {.ns = ns, .topic = topic, .hkey = key};
    struct hook_row *hook = txn_edit(t, TABLE_hook, &row);
    return hook == NULL && t->rc == QP_OK ? txn_add(t, TABLE_hook, &row) : hook;
}

static int hook_tidy(struct txn *t, const struct hook_row *hook)
{
    if (hook->waiting < 0 || hook->pending < 0) {
        return txn_corrupt(t, TABLE_hook, "it counts fewer than there are");
    }
    if (hook->waiting == 0 && hook->pending == 0) {
        txn_drop(t, TABLE_hook, hook);
    }
    return t->rc;
}

static int hook_check(qp_str topic, qp_str key)
{
    return topic.n == 0 || topic.n > LIMIT_NAME_SIZE || key.p == NULL || key.n > LIMIT_ID_SIZE
               ? QP_E_INVALID
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

/* The message that a signal becomes. */
static int signal_send(struct txn *t, const struct hook_wait_row *w, qp_str guid, qp_str payload,
                       int64_t code)
{
    return msg_insert(t, &(struct op_msg_put){.ref = {w->ns, w->job},
                                              .guid = guid,
                                              .topic = w->msg_topic,
                                              .addr = w->addr,
                                              .parent_guid = w->parent_guid,
                                              .payload = payload,
                                              .code = code});
}

/* The first row of one side of a hook, or none. */
static int first_of(struct txn *t, enum table_id table, const void *prefix, const void **out_row)
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

static int wait_add(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w)
{
    if (txn_add(t, TABLE_hook_wait, w) == NULL) {
        return t->rc;
    }
    hook->waiting++;
    return QP_OK;
}

/* The oldest pending signal becomes the waiter's message. QP_E_EXISTS: the job has that message, so
 * this is a copy of a signal that it was sent before; it goes like any other. */
static int take_pending(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w,
                        bool *out_keep)
{
    struct hook_sig_row prefix = {.ns = hook->ns, .topic = hook->topic, .hkey = hook->hkey};
    const void *row;
    const struct hook_sig_row *sig;
    int rc = first_of(t, TABLE_hook_sig, &prefix, &row);
    if (rc != QP_OK) {
        return rc;
    }
    sig = row;
    if (sig == NULL) {
        return txn_corrupt(t, TABLE_hook, "it counts a signal that is not there");
    }
    rc = signal_send(t, w, sig->guid, sig->payload, sig->code);
    if (rc == QP_OK || rc == QP_E_EXISTS) {
        txn_drop(t, TABLE_hook_sig, sig);
        hook->pending--;
        hook->pending_size -= (int64_t)sig->payload.n;
        *out_keep = sig->keep != 0;
    }
    return t->rc != QP_OK ? t->rc : rc;
}

/* Signals were here first: they become messages, the oldest first, until one ends the waiting. The
 * waiter stays if none did, so that a later signal never overtakes one that was kept. */
static int meet_pending(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w,
                        bool *out_met)
{
    bool stays = true;
    int rc = QP_OK;
    while (rc == QP_OK && stays && hook->pending > 0) {
        bool keep = false;
        rc = take_pending(t, hook, w, &keep);
        if (rc == QP_OK) {
            *out_met = true;
            stays = w->keep != 0 || keep;
        }
        rc = rc == QP_E_EXISTS ? QP_OK : rc;
    }
    rc = rc == QP_OK && stays ? wait_add(t, hook, w) : rc;
    return rc == QP_OK ? hook_tidy(t, hook) : rc;
}

int apply_hook_open(struct txn *t, struct op_hook_open *op)
{
    struct hook_wait_row w = {
        .ns = op->ref.ns,
        .topic = op->topic,
        .hkey = op->key,
        .job = op->ref.job,
        .addr = op->addr,
        .parent_guid = op->parent_guid,
        .msg_topic = op->msg_topic,
        .keep = op->keep,
        .at = t->now,
    };
    struct job_row *job;
    struct hook_row *hook;
    int rc = hook_check(op->topic, op->key);
    if (rc == QP_OK && (op->msg_topic.n == 0 || op->msg_topic.n > LIMIT_NAME_SIZE ||
                        op->addr.n == 0 || op->addr.n > LIMIT_ADDRESS_SIZE)) {
        rc = QP_E_INVALID; /* no signal could ever be sent to it */
    }
    rc = rc == QP_OK ? job_find(t, op->ref, &job) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    hook = hook_edit(t, op->ref.ns, op->topic, op->key);
    /* From the store's own order: a hook that went and came again does not repeat a waiter's
     * number. */
    rc = hook == NULL ? t->rc : txn_number(t, SERIES_ORD, 1, &w.seq);
    if (rc != QP_OK) {
        return rc;
    }
    op->out_seq = w.seq;
    op->out_met = false;
    return hook->pending > 0 ? meet_pending(t, hook, &w, &op->out_met) : wait_add(t, hook, &w);
}

int apply_hook_close(struct txn *t, struct op_hook_close *op)
{
    const struct hook_wait_row *w = txn_get(
        t, TABLE_hook_wait,
        &(struct hook_wait_row){.ns = op->ns, .topic = op->topic, .hkey = op->key, .seq = op->seq});
    return w == NULL ? apply_missing(t, QP_E_NOT_FOUND) : hook_wait_remove(t, w);
}

static int signal_is_pending(struct txn *t, const struct op_hook_signal *op)
{
    struct hook_sig_row prefix = {.ns = op->ns, .topic = op->topic, .hkey = op->key};
    struct bundle_rows found;
    int rc = txn_scan(t,
                      &(struct scan){.table = TABLE_hook_sig,
                                     .index = -1,
                                     .prefix = &prefix,
                                     .prefix_count = 3,
                                     .limit = LIMIT_SIGNALS_PENDING_PER_KEY},
                      &found);
    for (size_t i = 0; rc == QP_OK && i < found.count; i++) {
        const struct hook_sig_row *sig = found.rows[i];
        if (str_equal(sig->guid, op->guid)) {
            return QP_E_EXISTS;
        }
    }
    return rc == QP_OK && found.count == LIMIT_SIGNALS_PENDING_PER_KEY ? QP_E_LIMIT : rc;
}

/* Nobody waits: the signal does, for a while. */
static int signal_keep(struct txn *t, struct op_hook_signal *op)
{
    struct hook_sig_row sig = {
        .ns = op->ns,
        .topic = op->topic,
        .hkey = op->key,
        .guid = op->guid,
        .payload = op->payload,
        .code = op->code,
        .keep = op->keep,
        .expire_at = t->now + op->ttl_ms,
        .at = t->now,
    };
    struct hook_row *hook;
    int rc = signal_is_pending(t, op);
    if (rc != QP_OK) {
        return rc;
    }
    hook = hook_edit(t, op->ns, op->topic, op->key);
    if (hook != NULL && hook->pending_size + (int64_t)op->payload.n > LIMIT_SIGNALS_PENDING_SIZE) {
        return QP_E_LIMIT;
    }
    rc = hook == NULL ? t->rc : txn_number(t, SERIES_ORD, 1, &sig.seq);
    if (rc != QP_OK || txn_add(t, TABLE_hook_sig, &sig) == NULL) {
        return rc != QP_OK ? rc : t->rc;
    }
    hook->pending_size += (int64_t)op->payload.n;
    hook->pending++;
    op->out_kept = true;
    return QP_OK;
}

static int signal_deliver(struct txn *t, struct op_hook_signal *op, const struct hook_wait_row *w)
{
    int rc = signal_send(t, w, op->guid, op->payload, op->code);
    if (rc != QP_OK) {
        return rc;
    }
    op->out_delivered = true;
    op->out_job = (struct job_ref){w->ns, w->job};
    return w->keep != 0 || op->keep ? QP_OK : hook_wait_remove(t, w);
}

/* The waiter that the signal is for, or none. */
static int signal_target(struct txn *t, const struct op_hook_signal *op, const void **out_wait)
{
    struct hook_wait_row key = {.ns = op->ns, .topic = op->topic, .hkey = op->key, .seq = op->seq};
    const struct hook_row *hook;
    if (op->seq != 0) {
        *out_wait = txn_get(t, TABLE_hook_wait, &key);
        return apply_missing(t, *out_wait == NULL ? QP_E_NOT_FOUND : QP_OK);
    }
    hook = txn_get(t, TABLE_hook,
                   &(struct hook_row){.ns = op->ns, .topic = op->topic, .hkey = op->key});
    *out_wait = NULL;
    return hook == NULL || hook->waiting == 0 ? t->rc
                                              : first_of(t, TABLE_hook_wait, &key, out_wait);
}

int apply_hook_signal(struct txn *t, struct op_hook_signal *op)
{
    const void *wait = NULL;
    int rc = hook_check(op->topic, op->key);
    if (rc == QP_OK &&
        (op->guid.n != LIMIT_GUID_SIZE || op->ttl_ms < 0 || op->ttl_ms > LIMIT_TIMER_MS)) {
        rc = QP_E_INVALID;
    }
    if (rc == QP_OK && op->payload.n > LIMIT_PAYLOAD_HARD_SIZE) {
        rc = QP_E_TOO_LARGE;
    }
    op->out_delivered = false;
    op->out_kept = false;
    rc = rc == QP_OK ? signal_target(t, op, &wait) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    if (wait != NULL) {
        return signal_deliver(t, op, wait);
    }
    return op->ttl_ms > 0 ? signal_keep(t, op) : QP_OK;
}
