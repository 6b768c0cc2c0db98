/* apply_job.c - jobs: inception, flags, closing, finishing, pausing, sweeping, deleting
 *
 *   I1  status is what job_word says, and moves with the counters of (workflow, status) in one bundle:
 *       job_word_update is the only writer of either, and runs after every change of what it follows from.
 *   I2  closed_by is set once, by the semaphore's edge (apply_ledger.c) or by job_close, never
 *       again; state leaves OPEN with it.
 *   I3  completions goes 0 -> 1 once, only with closed_by = the GUID that asks.
 *   I4  a custom id has a row exactly while its job is open.
 *
 *             job_create                edge or job_close              job_finish
 *                                       job_delete
 *   (none) --------------> OPEN ------------------------> closed_by ------------> finished ------------> (none)
 *                          |  ^
 *                 job_pause|  |job_resume    (paused, cancelled and parked are flags of an open job)
 */
#include "store/apply.h"

#include "store/event.h"

/* A change of the job itself. */
static int job_note(struct txn *t, struct job_ref ref, enum event_kind kind, qp_str detail)
{
    return event_note(t, ref, kind, QP_NONE, detail, NULL);
}

/* The id is taken: by the same request, or by another. */
static int job_duplicate(struct txn *t, struct op_job_create *op, int64_t number)
{
    const struct job_row *job =
        txn_get(t, TABLE_job, &(struct job_row){.ns = op->ref.ns, .job = number});
    if (job == NULL) {
        return t->rc != QP_OK ? t->rc : txn_corrupt(t, TABLE_job_name, "an id has no job");
    }
    op->out_job = number;
    op->out_owner = str_equal(job->owner_guid, op->owner_guid);
    return str_equal(job->body_hash, op->body_hash) ? QP_E_EXISTS : QP_E_CONFLICT;
}

static int job_custom_take(struct txn *t, struct op_job_create *op)
{
    const struct job_custom_row *taken;
    struct job_custom_row row = {
        .ns = op->ref.ns, .workflow = op->workflow, .custom_id = op->custom_id, .job = op->ref.job};
    if (str_is_none(op->custom_id)) {
        return QP_OK;
    }
    taken = txn_get(t, TABLE_job_custom, &row);
    if (taken != NULL) {
        return job_duplicate(t, op, taken->job);
    }
    return txn_add(t, TABLE_job_custom, &row) == NULL ? t->rc : QP_OK;
}

static struct job_row job_new(const struct txn *t, const struct op_job_create *op)
{
    struct job_row row = {
        .ns = op->ref.ns,
        .job = op->ref.job,
        .jid = op->jid,
        .kind = op->kind,
        .workflow = op->workflow,
        .version = op->version,
        .custom_id = op->custom_id,
        .parent_job = op->parent_job,
        .parent_addr = op->parent_addr,
        .parent_guid = op->parent_guid,
        .close = op->close,
        .forked_from = op->forked_from,
        .owner_guid = op->owner_guid,
        .body_hash = op->body_hash,
        .priority = op->priority,
        .limit_key = op->limit_key,
        .threshold = op->threshold,
        .expire_at = op->expire_ms > 0 ? t->now + op->expire_ms : 0,
        .created_at = t->now,
        .updated_at = t->now,
        .waits = op->later ? 1 : 0,
        .state = JOB_OPEN,
    };
    row.status = job_word(&row);
    return row;
}

/* What keys and counters are made of must be there. */
static bool job_create_is_sound(const struct op_job_create *op)
{
    return op->ref.ns > 0 && op->ref.job > 0 && op->version.n <= LIMIT_NAME_SIZE &&
           op->forked_from.n <= LIMIT_ID_SIZE && op->parent_addr.n <= LIMIT_ADDRESS_SIZE &&
           op->limit_key.n <= LIMIT_ID_SIZE && op->jid.n > 0 && op->jid.n <= LIMIT_ID_SIZE &&
           op->workflow.n > 0 && op->workflow.n <= LIMIT_NAME_SIZE &&
           op->custom_id.n <= LIMIT_ID_SIZE && op->close >= CLOSE_ABANDON &&
           op->close < CLOSE_POLICIES;
}

static int job_open(struct txn *t, struct job_ref ref, struct job_row **out_job);

/* The one that calls it counts it, when it does not outlive that one. */
static int job_count_call(struct txn *t, const struct op_job_create *op)
{
    struct job_row *parent;
    if (op->close == CLOSE_ABANDON) {
        return QP_OK;
    }
    QP_TRY(job_open(t, (struct job_ref){op->ref.ns, op->parent_job}, &parent));
    parent->calls++;
    return QP_OK;
}

int apply_job_create(struct txn *t, struct op_job_create *op)
{
    struct job_name_row name = {.ns = op->ref.ns, .jid = op->jid, .job = op->ref.job};
    const struct job_name_row *taken = op->fresh ? NULL : txn_get(t, TABLE_job_name, &name);
    struct job_row row = job_new(t, op);
    if (taken != NULL) {
        return job_duplicate(t, op, taken->job);
    }
    if (!job_create_is_sound(op)) {
        return QP_E_INVALID;
    }
    QP_TRY(t->rc);
    QP_TRY(job_count_call(t, op));
    QP_TRY(job_custom_take(t, op));
    if (txn_add_new(t, TABLE_job_name, &name) == NULL || txn_add_new(t, TABLE_job, &row) == NULL) {
        return apply_missing(t, QP_E_INVALID); /* in use: not reserved, or not fresh */
    }
    op->out_job = op->ref.job;
    op->out_owner = true;
    return counter_add(t, &row, row.status, 1);
}

static int job_open(struct txn *t, struct job_ref ref, struct job_row **out_job)
{
    struct job_row *job;
    int rc = job_find(t, ref, &job);
    if (rc == QP_OK && job->state != JOB_OPEN) {
        return QP_E_CLOSED;
    }
    if (rc == QP_OK) {
        *out_job = job;
    }
    return rc;
}

int apply_job_set(struct txn *t, struct op_job_set *op)
{
    struct job_row *job;
    int rc = job_open(t, op->ref, &job);
    rc = rc == QP_OK && (op->what & JOB_SET_ERROR) != 0 ? error_check(op->error) : rc;
    rc = rc == QP_OK && (op->expire_ms < 0 || op->expire_ms > LIMIT_TIMER_MS) ? QP_E_INVALID : rc;
    if (rc != QP_OK) {
        return rc;
    }
    if ((op->what & JOB_SET_EXPIRE) != 0) {
        job->expire_at = op->expire_ms > 0 ? t->now + op->expire_ms : 0;
    }
    if ((op->what & JOB_SET_CANCELLED) != 0) {
        job->cancelled = op->cancelled;
    }
    if ((op->what & JOB_SET_PARKED) != 0) {
        job->parked = op->parked;
    }
    if ((op->what & JOB_SET_ERROR) != 0) {
        job->error = op->error;
        job->fingerprint = op->fingerprint;
    }
    QP_TRY(job_word_update(t, job));
    return (op->what & JOB_SET_CANCELLED) != 0 ? job_note(t, op->ref, EVENT_JOB_ASKED, op->reason)
                                               : job_note(t, op->ref, EVENT_JOB_SET, job->parked);
}

int apply_job_close(struct txn *t, struct op_job_close *op)
{
    struct job_row *job;
    int rc = job_find(t, op->ref, &job);
    if (rc == QP_OK && !str_is_none(job->closed_by)) {
        rc = QP_E_CLOSED;
    }
    if (rc == QP_OK &&
        (op->state <= JOB_OPEN || op->state >= JOB_STATES || op->guid.n != LIMIT_GUID_SIZE)) {
        rc = QP_E_INVALID;
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (error_check(op->error) != QP_OK) {
        return QP_E_TOO_LARGE;
    }
    job->error = op->error;
    job->fingerprint = op->fingerprint;
    rc = job_state_close(t, job, op->guid, op->state);
    return rc == QP_OK ? job_note(t, op->ref, EVENT_JOB_CLOSED, op->error) : rc;
}

int apply_job_finish(struct txn *t, struct op_job_finish *op)
{
    struct job_row *job;
    int rc = job_find(t, op->ref, &job);
    if (rc != QP_OK) {
        return rc;
    }
    if (str_is_none(job->closed_by) || !str_equal(job->closed_by, op->guid)) {
        return QP_E_CONFLICT;
    }
    if (job->completions != 0) {
        return QP_E_DONE;
    }
    if (op->keep_ms < 0 || op->keep_ms > LIMIT_TIMER_MS) {
        return QP_E_INVALID;
    }
    if (op->output.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_TOO_LARGE;
    }
    job->completions = 1;
    job->closed_at = t->now;
    job->output = op->output;
    job->expire_at = op->keep_ms > 0 ? t->now + op->keep_ms : 0;
    return QP_OK;
}

int apply_job_pause(struct txn *t, struct op_job_pause *op)
{
    struct job_row *job;
    int rc = job_open(t, op->ref, &job);
    if (rc != QP_OK || job->paused != 0) {
        return rc;
    }
    job->paused = op->tasks ? PAUSE_TASKS : PAUSE_ALL;
    QP_TRY(job_word_update(t, job));
    return job_note(t, op->ref, EVENT_JOB_PAUSED, QP_NONE);
}

/* Brings back what was set aside. A job's messages lie together, so this reads only its own. */
static int messages_bring_back(struct txn *t, struct op_job_resume *op)
{
    struct msg_row prefix = {.ns = op->ref.ns, .job = op->ref.job};
    struct bundle_rows found;
    int64_t budget = op->limit;
    const void *after = NULL;
    int rc = QP_OK;
    do {
        struct scan scan = {.table = TABLE_msg,
                            .index = -1,
                            .prefix = &prefix,
                            .prefix_count = 2,
                            .after = after,
                            .limit = LIMIT_SWEEP_ROWS};
        rc = txn_scan(t, &scan, &found);
        for (size_t i = 0; i < found.count && rc == QP_OK && budget > 0; i++) {
            const struct msg_row *m = found.rows[i];
            if (m->state == MSG_ASIDE) {
                struct msg_row *edit = txn_edit(t, TABLE_msg, m);
                rc = edit == NULL ? t->rc : msg_move(t, edit, MSG_READY, 0, 0);
                budget--;
            }
        }
        after = found.count > 0 ? found.rows[found.count - 1] : NULL;
    } while (rc == QP_OK && budget > 0 && found.count == LIMIT_SWEEP_ROWS);
    op->out_more = budget == 0 || found.cut;
    return rc;
}

int apply_job_resume(struct txn *t, struct op_job_resume *op)
{
    struct job_row *job;
    int rc = job_open(t, op->ref, &job);
    if (rc != QP_OK) {
        return rc;
    }
    if (op->limit <= 0 || op->limit > LIMIT_BUNDLE_OPS) {
        return QP_E_INVALID;
    }
    if (job->paused != 0) {
        job->paused = 0;
        rc = job_word_update(t, job);
        rc = rc == QP_OK ? job_note(t, op->ref, EVENT_JOB_RESUMED, QP_NONE) : rc;
    }
    return rc == QP_OK ? messages_bring_back(t, op) : rc;
}

/* One kind of row that a closed job leaves behind: where to find them by job, and how one goes. */
struct sweep {
    enum table_id table;
    int index;
    int (*remove)(struct txn *t, const void *row);
};

static int sweep_msg(struct txn *t, const void *row)
{
    struct msg_row *m = txn_edit(t, TABLE_msg, row);
    return m == NULL ? t->rc : msg_move(t, m, MSG_NONE, 0, 0);
}

static int sweep_hook_wait(struct txn *t, const void *row)
{
    return hook_wait_remove(t, row);
}

static int sweep_hook_sig(struct txn *t, const void *row)
{
    return signal_expire(t, row);
}

static int sweep_key_wait(struct txn *t, const void *row)
{
    return key_wait_remove(t, row);
}

static int sweep_key_hold(struct txn *t, const void *row)
{
    return key_hold_remove(t, row);
}

/* In this order: giving up a place can pass a key on to the job itself, and passing one on makes a
 * message. */
static const struct sweep sweeps[] = {
    {TABLE_hook_wait, INDEX_hook_wait_job, sweep_hook_wait},
    {TABLE_hook_sig, INDEX_hook_sig_job, sweep_hook_sig},
    {TABLE_key_wait, INDEX_key_wait_job, sweep_key_wait},
    {TABLE_key_hold, INDEX_key_hold_job, sweep_key_hold},
    {TABLE_msg, -1, sweep_msg},
};

/* A row that begins with (ns, job) in the order of the table's key or index, for use as a scan's
 * prefix. */
static void *prefix_of_job(struct txn *t, enum table_id table, struct job_ref ref)
{
    const struct table *d = &tables[table];
    void *row = arena_alloc(t->arena, d->row_size);
    for (size_t i = 0; row != NULL && i < d->column_count; i++) {
        if (strcmp(d->columns[i].name, "ns") == 0) {
            row_set_i64(&d->columns[i], row, ref.ns);
        } else if (strcmp(d->columns[i].name, "job") == 0) {
            row_set_i64(&d->columns[i], row, ref.job);
        }
    }
    if (row == NULL) {
        t->rc = err_set(t->err, QP_E_NOMEM, "sweep: out of memory");
    }
    return row;
}

/* Removes up to *budget rows of one kind; *budget is what is left of it. */
static int sweep_kind(struct txn *t, const struct sweep *s, struct job_ref ref, int64_t *budget)
{
    struct bundle_rows found;
    struct scan scan = {.table = s->table,
                        .index = s->index,
                        .prefix = prefix_of_job(t, s->table, ref),
                        .prefix_count = 2,
                        .limit = (size_t)*budget};
    int rc = scan.prefix == NULL ? t->rc : txn_scan(t, &scan, &found);
    for (size_t i = 0; rc == QP_OK && i < found.count; i++) {
        const void *row =
            txn_get(t, s->table, found.rows[i]); /* removing one may have removed another */
        rc = row == NULL ? t->rc : s->remove(t, row);
        --*budget;
    }
    *budget = rc == QP_OK && found.cut ? 0 : *budget;
    return rc;
}

int apply_job_sweep(struct txn *t, struct op_job_sweep *op)
{
    struct job_row *job;
    int64_t budget = op->limit;
    int rc = job_find(t, op->ref, &job);
    if (rc == QP_OK && (budget <= 0 || budget > LIMIT_BUNDLE_OPS || job->state == JOB_OPEN)) {
        rc = budget <= 0 || budget > LIMIT_BUNDLE_OPS ? QP_E_INVALID : QP_E_CONFLICT;
    }
    for (size_t i = 0; i < ARRAY_COUNT(sweeps) && rc == QP_OK && budget > 0; i++) {
        rc = sweep_kind(t, &sweeps[i], op->ref, &budget);
    }
    op->out_more = budget == 0;
    return rc;
}

static int delete_rows(struct txn *t, enum table_id table, struct job_ref ref, int64_t *budget)
{
    struct bundle_rows found;
    struct scan scan = {.table = table,
                        .index = -1,
                        .prefix = prefix_of_job(t, table, ref),
                        .prefix_count = 2,
                        .limit = (size_t)*budget};
    int rc = scan.prefix == NULL ? t->rc : txn_scan(t, &scan, &found);
    for (size_t i = 0; rc == QP_OK && i < found.count; i++) {
        txn_drop(t, table, found.rows[i]);
        rc = t->rc;
        --*budget;
    }
    *budget = rc == QP_OK && found.cut ? 0 : *budget;
    return rc;
}

static int delete_job_row(struct txn *t, const struct job_row *job)
{
    int rc = counter_add(t, job, job->status, -1);
    if (rc == QP_OK) {
        txn_drop(t, TABLE_job_name, &(struct job_name_row){.ns = job->ns, .jid = job->jid});
        txn_drop(t, TABLE_job, job);
        rc = t->rc;
    }
    return rc;
}

int apply_job_delete(struct txn *t, struct op_job_delete *op)
{
    /* GUIDs before their activities: what is left in between still hangs together */
    static const enum table_id owned[] = {TABLE_attr, TABLE_guid,  TABLE_act, TABLE_move,
                                          TABLE_sem,  TABLE_event, TABLE_data};
    struct job_row *job;
    int64_t budget = op->limit;
    int rc = job_find(t, op->ref, &job);
    if (rc == QP_OK && (budget <= 0 || budget > LIMIT_BUNDLE_OPS || job->completions != 1)) {
        rc = budget <= 0 || budget > LIMIT_BUNDLE_OPS ? QP_E_INVALID : QP_E_CONFLICT;
    }
    for (size_t i = 0; i < ARRAY_COUNT(sweeps) && rc == QP_OK && budget > 0; i++) {
        rc = sweep_kind(t, &sweeps[i], op->ref, &budget);
    }
    for (size_t i = 0; i < ARRAY_COUNT(owned) && rc == QP_OK && budget > 0; i++) {
        rc = delete_rows(t, owned[i], op->ref, &budget);
    }
    op->out_more = budget == 0;
    return rc == QP_OK && budget > 0 ? delete_job_row(t, job) : rc;
}

int apply_attr_put(struct txn *t, struct op_attr_put *op)
{
    struct attr_row row = {
        .ns = op->ref.ns, .job = op->ref.job, .name = op->name, .value = op->value};
    struct job_row *job;
    struct attr_row *attr;
    int rc = job_find(t, op->ref, &job);
    if (rc != QP_OK) {
        return rc;
    }
    if (op->name.n == 0 || op->name.n > LIMIT_NAME_SIZE) {
        return QP_E_INVALID;
    }
    if (op->value.n > LIMIT_ATTRIBUTE_SIZE) {
        return QP_E_TOO_LARGE;
    }
    if (str_is_none(op->value)) {
        txn_drop(t, TABLE_attr, &row);
        return t->rc;
    }
    row.started = job->created_at;
    attr = txn_edit(t, TABLE_attr, &row);
    if (attr != NULL) {
        attr->value = op->value;
        return QP_OK;
    }
    return t->rc != QP_OK || txn_add(t, TABLE_attr, &row) == NULL ? t->rc : QP_OK;
}
