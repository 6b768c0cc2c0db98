/* apply_status.c - a job's row, its journal, and the status that follows from both: what ops of every area share
 *
 * If we crash: nothing of this is done outside of an op (apply_*.c).
 */
#include "store/apply.h"
#include "store/event.h"

int job_find(struct txn *t, struct job_ref ref, struct job_row **out_job)
{
    struct job_row *job = txn_edit(t, TABLE_job, &(struct job_row){.ns = ref.ns, .job = ref.job});
    if (job == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    job->updated_at = t->now;
    *out_job = job;
    return QP_OK;
}

int journal_next(struct txn *t, struct job_ref ref, qp_str addr, qp_str guid,
                 struct journal *out_entry)
{
    struct job_row *job;
    int rc = job_find(t, ref, &job);
    rc = rc == QP_OK ? txn_number(t, SERIES_POS, 1, &out_entry->pos) : rc;
    if (rc == QP_OK) {
        out_entry->seq = ++job->seq;
        out_entry->at = t->now;
        rc = txn_journal(
            t,
            &(struct feed_entry){
                .ns = ref.ns, .job = ref.job, .seq = out_entry->seq, .addr = addr, .guid = guid});
    }
    return rc;
}

int event_note(struct txn *t, struct job_ref ref, int64_t kind, qp_str addr, qp_str detail,
               int64_t *out_seq)
{
    struct event_row row = {.ns = ref.ns, .job = ref.job, .addr = addr, .detail = detail};
    struct journal entry;
    struct job_row *job;
    QP_TRY(journal_next(t, ref, QP_NONE, QP_NONE, &entry));
    QP_TRY(job_find(t, ref, &job));
    row.kind = event_stamp(kind, job->status);
    row.seq = entry.seq;
    row.pos = entry.pos;
    row.at = entry.at;
    if (out_seq != NULL) {
        *out_seq = entry.seq;
    }
    return txn_add(t, TABLE_event, &row) == NULL ? t->rc : QP_OK;
}

int counter_add(struct txn *t, const struct job_row *job, int64_t status, int64_t n)
{
    struct counter_row key = {
        .ns = job->ns, .workflow = job->workflow, .status = status, .shard = t->provider->shard};
    struct counter_row *counter = txn_edit(t, TABLE_counter, &key);
    if (counter == NULL && t->rc == QP_OK) {
        counter = txn_add(t, TABLE_counter, &key);
    }
    if (counter == NULL) {
        return t->rc;
    }
    counter->n += n;
    return QP_OK;
}

int job_word_update(struct txn *t, struct job_row *job)
{
    int64_t word = job_word(job);
    if (job->status == word) {
        return QP_OK;
    }
    QP_TRY(counter_add(t, job, job->status, -1));
    QP_TRY(counter_add(t, job, word, 1));
    job->status = word;
    return QP_OK;
}

int job_state_close(struct txn *t, struct job_row *job, qp_str guid, int64_t state)
{
    if (!str_is_none(job->closed_by) || job->state != JOB_OPEN) {
        return txn_corrupt(t, TABLE_job, "it is closed by nobody, or open and closed");
    }
    job->closed_by = guid;
    job->state = state;
    job->paused = 0;    /* nobody could resume it: what comes now is late, not set aside */
    job->expire_at = 0; /* its own time is over; how long it is kept is said when it finishes */
    if (!str_is_none(job->custom_id)) {
        txn_drop(t, TABLE_job_custom,
                 &(struct job_custom_row){
                     .ns = job->ns, .workflow = job->workflow, .custom_id = job->custom_id});
    }
    return t->rc != QP_OK ? t->rc : job_word_update(t, job);
}
