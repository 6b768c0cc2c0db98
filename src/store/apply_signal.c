/* apply_signal.c - where a registration and a signal meet (H13)
 *
 * There is one hook row per (topic, key), and both sides change it, so they can never pass each
 * other unseen: the side that comes second finds the first.
 *
 *   I1  hook.waiting and hook.pending = the number of its hook_wait and hook_sig rows; the hook
 *       goes when both are 0
 *   I2  no activity waits while a signal is pending that it may take: a meeting empties one side at
 *       once. A retry or fork may not take a signal that was kept before it was started
 *   I3  a signal becomes one message, or a pending row, or nothing; never two of them. The GUID of
 *       the message is of this delivery alone: it follows from the signal's and the registration's
 *   I4  the GUID of a signal with an id stands for (topic, key, id), and has a record in `idem`: KEPT while
 *       the signal is pending, then the job that got it. The record is what makes two senders of one id
 *       meet: its key is unique, so the second finds the first, or its commit begins again and finds it. An
 *       id whose signal expired undelivered has no record, and may be sent again
 *
 *   (none) --an activity waits--> delivered                    apply_hook_signal
 *   (none) --none waits--> kept                                apply_hook_signal
 *   kept --a registration--> delivered                         apply_hook_open
 *   kept --its time is over--> (none)                          signal_expire
 *
 * The rows of a hook are in apply_hook.c, the records of ids in apply_signal_id.c, signals to one job by name in apply_signal_job.c.
 *
 * If we crash before the commit of either side, that side comes again and meets the other then. The
 * record commits with the message, so that a sender that asks again after a crash gets the answer
 * of the commit that happened.
 */
#include "store/apply_signal_job.h"

#include "base/failpoint.h"

/* -------------------------------------------------------------------------------------- the meeting */

static int pending_deliver(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w,
                           const struct hook_sig_row *sig)
{
    QP_TRY(signal_message(t, w, sig));
    QP_TRY(signal_record_delivered(t, sig, w->job));
    return signal_drop(t, hook, sig);
}

int signal_expire(struct txn *t, const struct hook_sig_row *sig)
{
    struct hook_row *hook = txn_edit(
        t, TABLE_hook, &(struct hook_row){.ns = sig->ns, .topic = sig->topic, .hkey = sig->hkey});
    if (hook == NULL) {
        return t->rc != QP_OK ? t->rc : txn_corrupt(t, TABLE_hook, "a kept signal has no hook");
    }
    QP_TRY(signal_record_drop(t, sig));
    QP_TRY(signal_drop(t, hook, sig));
    return hook_tidy(t, hook);
}

/* All pending signals of a hook: there are few, and LIMIT_SCAN_SIZE does not cut them. */
static int pending_of(struct txn *t, int64_t ns, qp_str topic, qp_str key,
                      struct bundle_rows *out_found)
{
    struct hook_sig_row prefix = {.ns = ns, .topic = topic, .hkey = key};
    static_assert(LIMIT_SIGNALS_PENDING_SIZE < LIMIT_SCAN_SIZE, "one scan has all of a key");
    return txn_scan(t,
                    &(struct scan){.table = TABLE_hook_sig,
                                   .index = -1,
                                   .prefix = &prefix,
                                   .prefix_count = 3,
                                   .limit = LIMIT_SIGNALS_PENDING_PER_KEY},
                    out_found);
}

/* The oldest signal that was kept at `since` or later, or none. */
static int pending_next(struct txn *t, const struct hook_row *hook, int64_t since,
                        const struct hook_sig_row **out_sig)
{
    struct hook_sig_row prefix = {.ns = hook->ns, .topic = hook->topic, .hkey = hook->hkey};
    struct bundle_rows found = {0};
    const void *first = NULL;
    *out_sig = NULL;
    if (hook->pending == 0) {
        return QP_OK;
    }
    if (since == 0) {
        QP_TRY(hook_first(t, TABLE_hook_sig, &prefix, &first));
        *out_sig = first;
        return first != NULL ? QP_OK
                             : txn_corrupt(t, TABLE_hook, "it counts a signal that is not there");
    }
    QP_TRY(pending_of(t, hook->ns, hook->topic, hook->hkey, &found));
    for (size_t i = 0; i < found.count && *out_sig == NULL; i++) {
        const struct hook_sig_row *sig = found.rows[i];
        *out_sig = sig->at >= since ? sig : NULL;
    }
    return QP_OK;
}

/* Since when signals are for this job: for a retry or fork, and for the jobs that it calls, since it was
 * started; else since ever. What was kept before was sent to the job that ended, not to this one. */
static int signals_since(struct txn *t, const struct job_row *job, int64_t *out_since)
{
    *out_since = 0;
    for (int depth = 0; job != NULL && depth < LIMIT_CALLERS; depth++) {
        struct job_row parent = {.ns = job->ns, .job = job->parent_job};
        if (!str_is_none(job->forked_from)) {
            *out_since = job->created_at;
            return QP_OK;
        }
        job = parent.job == 0 ? NULL : txn_peek(t, TABLE_job, &parent);
    }
    return t->rc;
}

/* Signals were here first: they become messages, the oldest first, until one ends the waiting. The
 * waiter stays if none did, so that a later signal never overtakes one that was kept. */
static int meet_pending(struct txn *t, struct hook_row *hook, const struct hook_wait_row *w,
                        int64_t since, bool *out_met)
{
    const struct hook_sig_row *sig = NULL;
    bool stays = true;
    QP_TRY(pending_next(t, hook, since, &sig));
    while (stays && sig != NULL) {
        QP_TRY(pending_deliver(t, hook, w, sig));
        *out_met = true;
        stays = (w->keep & WAIT_STAYS) != 0 || (sig->keep & SIGNAL_STAYS) != 0;
        QP_TRY(pending_next(t, hook, since, &sig));
    }
    if (stays) {
        QP_TRY(hook_wait_add(t, hook, w));
    }
    return hook_tidy(t, hook);
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
        .keep = op->keep ? WAIT_STAYS : 0,
        .at = t->now,
    };
    struct job_row *job;
    struct hook_row *hook;
    int64_t since = 0;
    int rc;
    if (op->name_count > 0) {
        return signal_listen(t, op);
    }
    QP_TRY(hook_check(op->topic, op->key, false));
    QP_TRY(hook_open_check(op));
    QP_TRY(job_find(t, op->ref, &job));
    hook = hook_edit(t, op->ref.ns, op->topic, op->key);
    /* From the store's own order: a hook that went and came again does not repeat a waiter's
     * number. */
    rc = hook == NULL ? t->rc : txn_number(t, SERIES_ORD, 1, &w.seq);
    if (rc != QP_OK) {
        return rc;
    }
    op->out_seq = w.seq;
    op->out_met = false;
    if (hook->pending == 0) {
        return hook_wait_add(t, hook, &w);
    }
    QP_TRY(signals_since(t, job, &since));
    return meet_pending(t, hook, &w, since, &op->out_met);
}

int apply_hook_close(struct txn *t, struct op_hook_close *op)
{
    const struct hook_wait_row *w = txn_get(
        t, TABLE_hook_wait,
        &(struct hook_wait_row){.ns = op->ns, .topic = op->topic, .hkey = op->key, .seq = op->seq});
    return w == NULL ? apply_missing(t, QP_E_NOT_FOUND) : hook_wait_remove(t, w);
}

/* A signal as the row that it has while it is pending. */
static struct hook_sig_row signal_row(const struct txn *t, const struct op_hook_signal *op)
{
    return (struct hook_sig_row){
        .ns = op->ns,
        .topic = op->topic,
        .hkey = op->key,
        .guid = op->guid,
        .payload = op->payload,
        .code = op->code,
        .keep = (op->keep ? SIGNAL_STAYS : 0) |
                (op->has_id && !PLANT(forgotten_signal) ? SIGNAL_HAS_ID : 0),
        .expire_at = t->now + op->ttl_ms,
        .at = t->now,
    };
}

/* Without one it is known only while it is pending. */
static int repeats_pending(struct txn *t, struct op_hook_signal *op)
{
    struct bundle_rows found = {0};
    QP_TRY(pending_of(t, op->ns, op->topic, op->key, &found));
    for (size_t i = 0; i < found.count && !op->out_repeats; i++) {
        op->out_repeats = str_equal(((const struct hook_sig_row *)found.rows[i])->guid, op->guid);
    }
    op->out_kept = op->out_repeats;
    return QP_OK;
}

/* Whether the signal was sent before. The hook is looked at first, as by a registration: the two take their rows in one
 * order. */
static int signal_repeats(struct txn *t, struct op_hook_signal *op, const struct hook_sig_row *sig)
{
    struct hook_row key = {.ns = op->ns, .topic = op->topic, .hkey = op->key};
    const struct hook_row *hook = txn_get(t, TABLE_hook, &key);
    if (t->rc != QP_OK) {
        return t->rc;
    }
    if ((sig->keep & SIGNAL_HAS_ID) != 0) {
        return signal_record_ask(t, op, sig);
    }
    return hook != NULL && hook->pending > 0 ? repeats_pending(t, op) : QP_OK;
}

/* Kept signals of a key are delivered in the order in which they were kept. Where many write, each takes its numbers from
 * a block of its own, so the number may be lower than that of a signal that another has kept: then it follows that one. */
static int signal_number(struct txn *t, const struct hook_row *hook, struct hook_sig_row *sig)
{
    struct bundle_rows found = {0};
    QP_TRY(txn_number(t, SERIES_ORD, 1, &sig->seq));
    if (!t->provider->shared || hook->pending == 0) {
        return QP_OK;
    }
    QP_TRY(pending_of(t, hook->ns, hook->topic, hook->hkey, &found));
    if (found.count > 0) {
        const struct hook_sig_row *last = found.rows[found.count - 1];
        sig->seq = sig->seq > last->seq ? sig->seq : last->seq + 1;
    }
    return QP_OK;
}

/* No activity waits: the signal does, for a while. */
static int signal_keep(struct txn *t, struct op_hook_signal *op, struct hook_sig_row *sig)
{
    struct hook_row *hook = hook_edit(t, op->ns, op->topic, op->key);
    if (hook == NULL) {
        return t->rc;
    }
    if (hook->pending >= LIMIT_SIGNALS_PENDING_PER_KEY ||
        hook->pending_size + (int64_t)op->payload.n > LIMIT_SIGNALS_PENDING_SIZE) {
        return QP_E_LIMIT;
    }
    QP_TRY(signal_number(t, hook, sig));
    if (txn_add(t, TABLE_hook_sig, sig) == NULL) {
        return t->rc;
    }
    hook->pending_size += (int64_t)op->payload.n;
    hook->pending++;
    op->out_kept = true;
    return signal_record_add(t, sig, RECORD_KEPT, sig->expire_at + LIMIT_IDEM_MS);
}

static int signal_deliver(struct txn *t, struct op_hook_signal *op, const struct hook_sig_row *sig,
                          const struct hook_wait_row *w)
{
    int rc = signal_message(t, w, sig);
    if (rc == QP_E_EXISTS) { /* this registration has got it, and stays: it was sent before */
        op->out_repeats = op->out_delivered = true;
        return op->once ? QP_OK : rc;
    }
    QP_TRY(rc);
    QP_TRY(signal_record_add(t, sig, w->job, t->now + LIMIT_IDEM_MS));
    op->out_delivered = true;
    op->out_job = (struct job_ref){w->ns, w->job};
    return (w->keep & WAIT_STAYS) != 0 || op->keep ? QP_OK : hook_wait_remove(t, w);
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
                                              : hook_first(t, TABLE_hook_wait, &key, out_wait);
}

static int signal_check(const struct op_hook_signal *op)
{
    QP_TRY(hook_check(op->topic, op->key, op->to.job > 0));
    if (op->guid.n != LIMIT_GUID_SIZE || op->ttl_ms < 0 || op->ttl_ms > LIMIT_TIMER_MS) {
        return QP_E_INVALID;
    }
    return op->payload.n > LIMIT_PAYLOAD_HARD_SIZE - (op->to.job > 0 ? LIMIT_ENVELOPE_SIZE : 0)
               ? QP_E_TOO_LARGE
               : QP_OK;
}

int apply_hook_signal(struct txn *t, struct op_hook_signal *op)
{
    struct hook_sig_row sig = signal_row(t, op);
    const void *wait = NULL;
    op->out_delivered = op->out_kept = op->out_repeats = false;
    op->out_refused = QP_OK;
    QP_TRY(signal_check(op));
    if (op->to.job > 0) {
        return signal_to_job(t, op, &sig);
    }
    QP_TRY(signal_repeats(t, op, &sig));
    if (op->out_repeats) {
        return op->once ? QP_OK : QP_E_EXISTS;
    }
    QP_TRY(signal_target(t, op, &wait));
    if (wait != NULL) {
        return signal_deliver(t, op, &sig, wait);
    }
    return op->ttl_ms > 0 ? signal_keep(t, op, &sig) : QP_OK;
}
