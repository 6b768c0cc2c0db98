/* apply_signal_job.c - signals to one job by name, and the activities of it that listen for them
 *
 * The hook of such a signal is (SIGNAL_NAME_MARK and the name, the job's id). Every op here takes the job's row first, so
 * ops on one job come one after the other, whatever their names are.
 *
 *   I1  no row of a kept signal has another job than that of its key
 *   I2  no activity listens while a signal of one of its names is kept: the side that comes second takes the other
 *   I3  signals are taken in the order of hook_sig.seq, over all names of a job: the order in which they were kept.
 *       job.kept_seq is the number of the last one
 *   I4  one message ends the waiting of an activity. The registrations of all its names go in that commit, so that no
 *       second signal reaches an activity that is over
 *
 *   (none) --an activity listens--> delivered            signal_to_job
 *   (none) --none listens--> kept                        signal_to_job
 *   kept --an activity listens--> delivered              signal_listen
 *   kept --its job has ended--> (none)                   signal_expire, by job_sweep
 *
 * If we crash before a commit, the signal was not sent, or is still kept. After it the message is there, and the signal is
 * not kept any more: both are in one commit.
 */
#include "store/apply_signal_job.h"

#include "base/failpoint.h"
#include "base/json.h"

static_assert(LIMIT_LISTEN_SIZE + LIMIT_LISTEN_SIGNALS * LIMIT_ENVELOPE_SIZE <
                  LIMIT_PAYLOAD_HARD_SIZE,
              "what comes at once fits into a message");

/* ---------------------------------------------------------------------------------------- envelopes */

static void envelope_put(struct json_writer *w, const struct hook_sig_row *sig)
{
    QP_ASSERT(sig->topic.n > 1 && sig->topic.p[0] == SIGNAL_NAME_MARK);
    json_begin_object(w);
    json_key(w, QP_STR("name"));
    json_put_str(w, (qp_str){sig->topic.p + 1, sig->topic.n - 1});
    json_key(w, QP_STR("at"));
    json_put_i64(w, sig->at);
    json_key(w, QP_STR("data"));
    json_put_raw(w, sig->payload.n == 0 ? QP_STR("null") : sig->payload);
    json_end_object(w);
}

/* The payload of the message that these signals become. */
static int envelope_write(struct txn *t, const struct hook_sig_row *const *sigs, size_t count,
                          qp_str *out_payload)
{
    struct json_writer w;
    struct buf text;
    int rc;
    buf_init(&text, store_env(t->store), 0);
    json_writer_init(&w, &text);
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        envelope_put(&w, sigs[i]);
    }
    json_end_array(&w);
    rc = json_writer_done(&w);
    if (rc == QP_OK && !arena_copy(t->arena, buf_slice(&text), out_payload)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&text);
    t->rc = rc == QP_E_NOMEM ? rc : t->rc;
    return rc;
}

/* One message for all of them. Its GUID follows from the first signal's and the registration's. */
static int envelope_send(struct txn *t, const struct hook_wait_row *w,
                         const struct hook_sig_row *const *sigs, size_t count)
{
    struct hook_sig_row all = *sigs[0];
    QP_ASSERT(count > 0 && (w->keep & WAIT_ENVELOPE) != 0);
    all.code = 200;
    QP_TRY(envelope_write(t, sigs, count, &all.payload));
    return signal_message(t, w, &all);
}

/* ---------------------------------------------------------------------------------------- listening */

static int listen_check(const struct op_hook_open *op)
{
    QP_TRY(hook_open_check(op));
    if (op->name_count > LIMIT_LISTEN_NAMES || op->limit < 1 || op->limit > LIMIT_LISTEN_SIGNALS) {
        return QP_E_INVALID;
    }
    for (size_t i = 0; i < op->name_count; i++) {
        QP_TRY(hook_check(op->names[i], op->key, true));
        for (size_t k = 0; k < i; k++) {
            if (str_equal(op->names[i], op->names[k])) {
                return QP_E_INVALID;
            }
        }
    }
    return QP_OK;
}

/* The oldest kept signal of each name, and those that were taken of them, the oldest first. */
struct taking {
    const struct hook_sig_row *heads[LIMIT_LISTEN_NAMES]; /* NULL: no more of this name */
    const struct hook_sig_row *taken[LIMIT_LISTEN_SIGNALS];
    size_t count;
    size_t size; /* of their payloads */
};

static int head_next(struct txn *t, const struct op_hook_open *op, size_t name,
                     struct taking *taking)
{
    struct hook_sig_row prefix = {.ns = op->ref.ns, .topic = op->names[name], .hkey = op->key};
    struct scan scan = {.table = TABLE_hook_sig,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 3,
                        .after = taking->heads[name],
                        .limit = 1};
    struct bundle_rows found = {0};
    QP_TRY(txn_scan(t, &scan, &found));
    taking->heads[name] = found.count > 0 ? found.rows[0] : NULL;
    return QP_OK;
}

static int heads_find(struct txn *t, const struct op_hook_open *op, struct taking *taking)
{
    for (size_t i = 0; i < op->name_count; i++) {
        struct hook_row key = {.ns = op->ref.ns, .topic = op->names[i], .hkey = op->key};
        const struct hook_row *hook = txn_get(t, TABLE_hook, &key);
        if (hook == NULL || hook->pending == 0) {
            QP_TRY(t->rc);
            continue;
        }
        QP_TRY(head_next(t, op, i, taking));
        if (taking->heads[i] == NULL) {
            return txn_corrupt(t, TABLE_hook, "it counts a signal that is not there");
        }
    }
    return QP_OK;
}

/* The name whose oldest signal is the oldest of all; name_count: nothing is kept. */
static size_t head_oldest(const struct op_hook_open *op, const struct taking *taking)
{
    size_t oldest = op->name_count;
    for (size_t i = 0; i < op->name_count; i++) {
        const struct hook_sig_row *head = taking->heads[i];
        if (head != NULL && (oldest == op->name_count || head->seq < taking->heads[oldest]->seq)) {
            oldest = i;
        }
    }
    return oldest;
}

/* Reads only: a scan between two changes would write the first of them twice. */
static int take_kept(struct txn *t, const struct op_hook_open *op, struct taking *taking)
{
    QP_TRY(heads_find(t, op, taking));
    while (taking->count < (size_t)op->limit) {
        size_t name = head_oldest(op, taking);
        const struct hook_sig_row *sig = name < op->name_count ? taking->heads[name] : NULL;
        if (sig == NULL ||
            (taking->count > 0 && taking->size + sig->payload.n > LIMIT_LISTEN_SIZE)) {
            return QP_OK;
        }
        taking->taken[taking->count++] = sig;
        taking->size += sig->payload.n;
        if (taking->count < (size_t)op->limit) {
            QP_TRY(head_next(t, op, name, taking));
        }
    }
    return QP_OK;
}

/* A kept signal was given to the job: it is not kept any more. */
static int kept_end(struct txn *t, const struct hook_sig_row *sig)
{
    struct hook_row *hook = hook_edit(t, sig->ns, sig->topic, sig->hkey);
    if (hook == NULL || PLANT(signal_twice)) {
        return t->rc;
    }
    QP_TRY(signal_record_delivered(t, sig, sig->job));
    QP_TRY(signal_drop(t, hook, sig));
    return hook_tidy(t, hook);
}

static int listen_meet(struct txn *t, const struct hook_wait_row *w, const struct taking *taking)
{
    QP_TRY(envelope_send(t, w, taking->taken, taking->count));
    for (size_t i = 0; i < taking->count; i++) {
        QP_ASSERT(taking->taken[i]->job == w->job);
        QP_TRY(kept_end(t, taking->taken[i]));
    }
    return QP_OK;
}

static int listen_wait(struct txn *t, const struct op_hook_open *op, struct hook_wait_row *w)
{
    for (size_t i = 0; i < op->name_count; i++) {
        struct hook_row *hook = hook_edit(t, op->ref.ns, op->names[i], op->key);
        if (hook == NULL) {
            return t->rc;
        }
        w->topic = op->names[i];
        QP_TRY(hook_wait_add(t, hook, w));
    }
    return QP_OK;
}

int signal_listen(struct txn *t, struct op_hook_open *op)
{
    struct hook_wait_row w = {.ns = op->ref.ns,
                              .hkey = op->key,
                              .job = op->ref.job,
                              .addr = op->addr,
                              .parent_guid = op->parent_guid,
                              .msg_topic = op->msg_topic,
                              .keep = WAIT_ENVELOPE | (op->name_count > 1 ? WAIT_GROUP : 0),
                              .at = t->now};
    struct taking taking = {0};
    struct job_row *job;
    QP_TRY(listen_check(op));
    QP_TRY(job_find(t, op->ref, &job));
    QP_TRY(str_equal(op->key, job->jid) ? QP_OK : QP_E_INVALID);
    QP_TRY(job->kept > 0 ? take_kept(t, op, &taking) : QP_OK);
    QP_TRY(
        txn_number(t, SERIES_ORD, 1, &w.seq)); /* one for the group: topics keep its rows apart */
    op->out_seq = w.seq;
    op->out_met = taking.count > 0;
    return op->out_met ? listen_meet(t, &w, &taking) : listen_wait(t, op, &w);
}

/* ------------------------------------------------------------------------------------------ sending */

/* All registrations of the activity: those of its other names, and this one. */
static int group_find(struct txn *t, const struct hook_wait_row *w, struct bundle_rows *out_found)
{
    struct scan scan = {.table = TABLE_hook_wait,
                        .index = INDEX_hook_wait_job,
                        .prefix = w,
                        .prefix_count = 3, /* ns, job, addr */
                        .limit = LIMIT_LISTEN_NAMES};
    return txn_scan(t, &scan, out_found);
}

static int group_end(struct txn *t, const struct bundle_rows *group)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct hook_wait_row *w = group->rows[i];
        QP_TRY((w->keep & WAIT_GROUP) != 0 ? hook_wait_remove(t, w) : QP_OK);
    }
    return QP_OK;
}

static int deliver(struct txn *t, struct op_hook_signal *op, const struct hook_sig_row *sig,
                   const struct hook_wait_row *w)
{
    struct bundle_rows group = {0};
    bool grouped = (w->keep & WAIT_GROUP) != 0;
    QP_ASSERT(w->job == op->to.job);
    QP_TRY(grouped ? group_find(t, w, &group) : QP_OK); /* before the changes, as in take_kept */
    QP_TRY(envelope_send(t, w, &sig, 1));
    QP_TRY(signal_record_add(t, sig, w->job, t->now + LIMIT_IDEM_MS));
    op->out_delivered = true;
    op->out_job = op->to;
    return grouped ? group_end(t, &group) : hook_wait_remove(t, w);
}

/* Behind all that were kept for the job (I3). Where many write, each takes its numbers from a block of its own, so the
 * number may be lower than that of a signal that another has kept: then it follows that one. */
static int keep_number(struct txn *t, struct job_row *job, struct hook_sig_row *sig)
{
    QP_TRY(txn_number(t, SERIES_ORD, 1, &sig->seq));
    sig->seq = sig->seq > job->kept_seq ? sig->seq : job->kept_seq + 1;
    job->kept_seq = sig->seq;
    return QP_OK;
}

static int keep(struct txn *t, struct op_hook_signal *op, struct job_row *job,
                struct hook_sig_row *sig)
{
    struct hook_row *hook;
    QP_TRY(keep_number(t, job, sig));
    hook = hook_edit(t, op->ns, op->topic, op->key);
    if (hook == NULL || txn_add(t, TABLE_hook_sig, sig) == NULL) {
        return t->rc;
    }
    hook->pending++;
    hook->pending_size += (int64_t)sig->payload.n;
    op->out_kept = true;
    QP_TRY(signal_record_add(t, sig, RECORD_KEPT, t->now + LIMIT_IDEM_MS));
    return signal_kept_count(t, sig, 1);
}

static bool is_full(const struct job_row *job, const struct hook_sig_row *sig)
{
    return job->kept >= LIMIT_SIGNALS_KEPT_PER_JOB ||
           job->kept_size + (int64_t)sig->payload.n > LIMIT_SIGNALS_KEPT_SIZE;
}

static int refuse(struct op_hook_signal *op, int code)
{
    op->out_refused = code;
    return op->once ? QP_OK : code;
}

int signal_to_job(struct txn *t, struct op_hook_signal *op, struct hook_sig_row *sig)
{
    struct hook_wait_row of = {.ns = op->ns, .topic = op->topic, .hkey = op->key};
    struct hook_row key = {.ns = op->ns, .topic = op->topic, .hkey = op->key};
    const struct hook_row *hook;
    const void *wait = NULL;
    struct job_row *job;
    int rc = job_find(t, op->to, &job);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? refuse(op, rc) : rc;
    }
    if (op->ns != op->to.ns || !str_equal(op->key, job->jid)) {
        return QP_E_INVALID;
    }
    sig->job = op->to.job;
    sig->expire_at = 0;
    QP_TRY(op->has_id ? signal_record_ask(t, op, sig) : QP_OK);
    if (op->out_repeats) {
        return op->once ? QP_OK : QP_E_EXISTS;
    }
    if (job->state != JOB_OPEN) {
        return refuse(op, QP_E_CLOSED);
    }
    hook = txn_get(t, TABLE_hook, &key);
    if (hook != NULL && hook->waiting > 0) {
        QP_TRY(hook_first(t, TABLE_hook_wait, &of, &wait));
        return wait != NULL ? deliver(t, op, sig, wait)
                            : txn_corrupt(t, TABLE_hook, "it counts a waiter that is not there");
    }
    QP_TRY(t->rc);
    return is_full(job, sig) ? refuse(op, QP_E_LIMIT) : keep(t, op, job, sig);
}
