/* apply_ledger.c - activity ledgers, GUID ledgers and the semaphores they prove
 *
 *   I1  a ledger only grows, by a weight, and only when every guard holds for the value that is
 *       being replaced
 *   I2  count of a scope = its opening + the deltas stored with its GUIDs; it is never negative
 *   I3  n and delta stand on a GUID's row exactly when its spawn digit does: sem_move writes both,
 *       nothing else does
 *   I4  the edge, before > threshold >= after, happens once: closed_by is set with it
 *   I5  a GUID's ordinal is the activity's counter at its birth, so ordinals are dense and unique
 *       per activity
 *   I6  a GUID has its journal entry exactly when its spawn digit stands: both are of one bundle. So the
 *       entry's digits, code and status are those of that commit, whether the steps before were others or not
 *   I7  job.waits and job.retries count the job's activities whose `waits` says so: act_wait_set is the only writer
 *       of all three, but for the 1 of a job that begins later, which its opening takes
 *
 * If we crash before the commit, no digit moved and the message comes again. If we crash after it,
 * the digits say how far it came: a redelivery's guid_enter answers QP_E_DONE with the ledger, and
 * the steps that are marked are skipped.
 */
#include "store/apply.h"

#include "base/failpoint.h"

#define ORDINAL_RADIX 100000000 /* the last eight digits of a ledger */
#define DIGIT_RADIX 10

static int guards_check(struct txn *t, int64_t ledger, const struct guard *guards, int count)
{
    QP_ASSERT(count >= 0 && count <= GUARDS_MAX);
    for (int i = 0; i < count; i++) {
        const struct guard *g = &guards[i];
        int64_t value;
        if (g->weight <= 0 || g->radix <= 0) {
            return QP_E_INVALID;
        }
        value = ledger / g->weight % g->radix;
        if (value < g->min || value > g->max) {
            return txn_stop(t, g->radix > DIGIT_RADIX ? QP_E_CEILING : QP_E_DIGIT, g->weight,
                            ledger);
        }
    }
    return QP_OK;
}

/* The ledger after `weight`, or the stop: fifteen digits and not one more. */
static int ledger_add(struct txn *t, int64_t *ledger, int64_t weight)
{
    int64_t sum;
    if (weight < 0 || !i64_add(*ledger, weight, &sum) || sum > LIMIT_LEDGER) {
        return txn_stop(t, QP_E_CEILING, weight, *ledger);
    }
    *ledger = sum;
    return QP_OK;
}

static struct act_row *act_edit(struct txn *t, struct job_ref ref, qp_str addr)
{
    return txn_edit(t, TABLE_act, &(struct act_row){.ns = ref.ns, .job = ref.job, .addr = addr});
}

/* A GUID's ledger and what belongs to it, wherever it stands: on its activity's row, or on a row of
 * its own. */
struct guid_slot {
    int64_t *ledger;
    int64_t *n;
    int64_t *delta;
    int64_t *code;
    qp_str *output;
    int64_t *seq;
    int64_t *pos;
    bool on_activity;
};

static struct guid_row guid_key(struct job_ref ref, qp_str addr, qp_str guid)
{
    return (struct guid_row){.ns = ref.ns, .job = ref.job, .addr = addr, .guid = guid};
}

static bool stands_on(const struct act_row *act, qp_str guid)
{
    return !str_is_none(act->guid) && str_equal(act->guid, guid);
}

static struct guid_slot slot_of_act(struct act_row *act)
{
    return (struct guid_slot){&act->guid_ledger, &act->n,        &act->delta,    &act->code,
                              &act->output,      &act->guid_seq, &act->guid_pos, true};
}

static struct guid_slot slot_of_row(struct guid_row *row)
{
    return (struct guid_slot){&row->ledger, &row->n,   &row->delta, &row->code,
                              &row->output, &row->seq, &row->pos,   false};
}

/* The GUID, to be changed in place; QP_E_NOT_FOUND when it never entered, or was folded. */
static int guid_find(struct txn *t, struct job_ref ref, qp_str addr, qp_str guid,
                     struct guid_slot *out_slot)
{
    const struct act_row *act =
        txn_get(t, TABLE_act, &(struct act_row){.ns = ref.ns, .job = ref.job, .addr = addr});
    struct guid_row key = guid_key(ref, addr, guid);
    struct guid_row *row;
    if (act != NULL && stands_on(act, guid)) {
        struct act_row *edit = act_edit(t, ref, addr);
        if (edit != NULL) {
            *out_slot = slot_of_act(edit);
        }
        return t->rc;
    }
    row = act != NULL && act->guid_rows > 0 ? txn_edit(t, TABLE_guid, &key) : NULL;
    if (row == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    *out_slot = slot_of_row(row);
    return QP_OK;
}

/* What the activity's obligation is about from now on, and with it the counts of its job. The job's status follows
 * when the op is through. Before a job is open its count is about its beginning alone, and no activity of it waits. */
static int act_wait_set(struct txn *t, struct act_row *act, enum act_wait waits)
{
    struct job_row *job;
    if (act->waits == (int64_t)waits) {
        return QP_OK;
    }
    QP_TRY(job_find(t, (struct job_ref){act->ns, act->job}, &job));
    if (job->opened == 0 && waits == ACT_WAITS) {
        return QP_E_INVALID;
    }
    job->waits += (waits == ACT_WAITS) - (act->waits == ACT_WAITS);
    job->retries += (waits == ACT_RETRIES) - (act->waits == ACT_RETRIES);
    if (job->waits < 0 || job->retries < 0) {
        return txn_corrupt(t, TABLE_job, "it counts fewer activities that wait than there are");
    }
    act->waits = waits;
    return QP_OK;
}

/* The obligation of an activity is about something else from now on, and its job's status follows. */
static int act_wait_move(struct txn *t, struct act_row *act, enum act_wait waits)
{
    struct job_row *job;
    QP_TRY(act_wait_set(t, act, waits));
    QP_TRY(job_find(t, (struct job_ref){act->ns, act->job}, &job));
    return job_word_update(t, job);
}

static bool birth_is_sound(const struct op_act_create *op)
{
    return op->addr.n > 0 && op->addr.n <= LIMIT_ADDRESS_SIZE && op->ledger >= 0 &&
           op->ledger <= LIMIT_LEDGER && op->version >= 0 &&
           (op->waits == ACT_BUSY || op->waits == ACT_WAITS);
}

int apply_act_create(struct txn *t, struct op_act_create *op)
{
    struct act_row row = {
        .ns = op->ref.ns,
        .job = op->ref.job,
        .addr = op->addr,
        .kind = op->kind,
        .category = op->category,
        .cyclic = op->cyclic,
        .version = op->version,
        .parent_guid = op->parent_guid,
        .topic = op->topic,
        .policy = op->policy,
        .input = op->input,
        .ledger = op->ledger,
        .n = -1,
    };
    const struct act_row *there = txn_get(t, TABLE_act, &row);
    struct act_row *act;
    struct journal entry;
    if (there != NULL) {
        op->out_found = there->ledger;
        return txn_stop(t, QP_E_DONE, 0, there->ledger);
    }
    if (!birth_is_sound(op)) {
        return QP_E_INVALID;
    }
    if (op->input.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_TOO_LARGE;
    }
    QP_TRY(t->rc);
    QP_TRY(journal_next(t, op->ref, op->addr, QP_NONE, &entry));
    row.seq = entry.seq;
    row.pos = entry.pos;
    row.at = op->at > 0 ? op->at : entry.at;
    act = txn_add(t, TABLE_act, &row);
    if (act == NULL) {
        return t->rc;
    }
    return op->waits == ACT_BUSY ? QP_OK : act_wait_move(t, act, op->waits);
}

int apply_act_add(struct txn *t, struct op_act_add *op)
{
    struct act_row *act = act_edit(t, op->ref, op->addr);
    int rc;
    if (act == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    rc = guards_check(t, act->ledger, op->guards, op->guard_count);
    if (rc == QP_OK && act->escalated != 0) {
        rc = txn_stop(t, QP_E_DIGIT, 0, act->ledger); /* escalation is terminal (H7) */
    }
    rc = rc == QP_OK ? error_check(op->error) : rc;
    if (rc == QP_OK) {
        rc = ledger_add(t, &act->ledger, op->weight);
    }
    if (rc != QP_OK) {
        return rc;
    }
    act->escalated = op->escalate ? 1 : act->escalated;
    act->attempt = op->attempt >= 0 ? op->attempt : act->attempt;
    act->error = str_is_none(op->error) ? act->error : op->error;
    op->out_ledger = act->ledger;
    if (op->works ? act->waits == ACT_BUSY
                  : op->waits == ACT_BUSY || act->waits == (int64_t)op->waits) {
        return QP_OK;
    }
    return act_wait_move(t, act, op->works ? ACT_BUSY : op->waits);
}

/* Something has happened that it can see: whether it decides on it now. */
static bool notify_wakes(struct act_row *act, const struct op_act_notify *op)
{
    if (act->waits != ACT_WAITS) {
        return false; /* a decision is out: its rest compares `base` */
    }
    if (!op->urgent && act->after > 1) {
        act->after--;
        return false;
    }
    return true;
}

int apply_act_notify(struct txn *t, struct op_act_notify *op)
{
    struct act_row *act = act_edit(t, op->ref, op->addr);
    struct job_row *job;
    enum act_wait waits;
    op->out_task = false;
    if (act == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    QP_TRY(job_find(t, op->ref, &job));
    if (act->cyclic == 0 || op->seen < 0 || op->after < 0) {
        return QP_E_INVALID;
    }
    if (!str_is_none(job->closed_by) || act->escalated != 0) {
        return QP_OK;
    }
    waits = (enum act_wait)act->waits;
    if (op->rests) {
        op->out_task = op->urgent || act->base > op->seen;
        waits = op->out_task ? ACT_BUSY : ACT_WAITS;
        act->after = op->out_task ? 0 : op->after;
    } else {
        act->base = job->seq;
        op->out_task = notify_wakes(act, op);
        waits = op->out_task ? ACT_BUSY : waits;
        act->after = op->out_task ? 0 : act->after;
    }
    QP_TRY(act_wait_set(t, act, waits));
    return job_word_update(t, job);
}

/* The activity's next ordinal, below the ceiling; with no ceiling, ordinal 0 and the counter
 * stays. */
static int ordinal_take(struct txn *t, const struct op_guid_enter *op, struct act_row *act,
                        int64_t *out_ordinal)
{
    int rc = act->escalated != 0 ? txn_stop(t, QP_E_DIGIT, 0, act->ledger)
                                 : guards_check(t, act->ledger, op->guards, op->guard_count);
    if (rc != QP_OK || op->ordinal_ceiling == 0) {
        *out_ordinal = 0;
        return rc;
    }
    if (act->ledger % ORDINAL_RADIX >= op->ordinal_ceiling) {
        return txn_stop(t, QP_E_CEILING, 1, act->ledger);
    }
    act->ledger++;
    *out_ordinal = act->ledger % ORDINAL_RADIX;
    QP_ASSERT(*out_ordinal > 0);
    return QP_OK;
}

/* The first GUID of an activity stands on its row. */
static void enter_on_activity(struct act_row *act, const struct op_guid_enter *op, qp_ms at)
{
    act->guid = op->guid;
    act->guid_ledger = op->out_ledger;
    act->n = -1;
    act->delta = 0;
    act->code = op->code;
    act->output = op->output;
    act->guid_at = at;
    act->guid_seq = act->guid_pos = 0;
}

static int enter_on_row(struct txn *t, struct act_row *act, const struct op_guid_enter *op)
{
    struct guid_row row = guid_key(op->ref, op->addr, op->guid);
    row.at = op->at > 0 ? op->at : t->now;
    row.ledger = op->out_ledger;
    row.n = -1;
    row.code = op->code;
    row.output = op->output;
    act->guid_rows++;
    return txn_add(t, TABLE_guid, &row) == NULL ? t->rc : QP_OK;
}

static int enter_new(struct txn *t, struct op_guid_enter *op)
{
    struct act_row *act = act_edit(t, op->ref, op->addr);
    if (act == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    QP_TRY(ordinal_take(t, op, act, &op->out_ordinal));
    op->out_ledger = op->ledger + op->out_ordinal;
    if (str_is_none(act->guid)) {
        enter_on_activity(act, op, op->at > 0 ? op->at : t->now);
        return QP_OK;
    }
    return enter_on_row(t, act, op);
}

int apply_guid_enter(struct txn *t, struct op_guid_enter *op)
{
    struct guid_slot there;
    int rc = guid_find(t, op->ref, op->addr, op->guid, &there);
    if (rc == QP_OK) {
        op->out_ledger = *there.ledger;
        op->out_ordinal = *there.ledger % ORDINAL_RADIX;
        return txn_stop(t, QP_E_DONE, 0, *there.ledger);
    }
    if (t->rc != QP_OK) {
        return t->rc;
    }
    if (op->output.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_TOO_LARGE;
    }
    if (op->guid.n != LIMIT_GUID_SIZE || op->ledger < 0 || op->ledger > LIMIT_LEDGER ||
        op->ledger % ORDINAL_RADIX != 0 || op->ordinal_ceiling < 0 ||
        op->ordinal_ceiling >= ORDINAL_RADIX) {
        return QP_E_INVALID;
    }
    return enter_new(t, op);
}

/* The entry "answered", once. */
static int guid_journal(struct txn *t, struct job_ref ref, qp_str addr, qp_str guid,
                        const struct guid_slot *slot)
{
    struct journal entry;
    if (*slot->seq != 0) {
        return QP_OK;
    }
    QP_TRY(journal_next(t, ref, addr, guid, &entry));
    *slot->seq = entry.seq;
    *slot->pos = entry.pos;
    return QP_OK;
}

int apply_guid_add(struct txn *t, struct op_guid_add *op)
{
    struct guid_slot guid;
    int rc = guid_find(t, op->ref, op->addr, op->guid, &guid);
    rc = rc == QP_OK ? guards_check(t, *guid.ledger, op->guards, op->guard_count) : rc;
    rc = rc == QP_OK && op->output.n > LIMIT_PAYLOAD_HARD_SIZE ? QP_E_TOO_LARGE : rc;
    rc = rc == QP_OK ? ledger_add(t, guid.ledger, op->weight) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    if (!str_is_none(op->output)) {
        *guid.code = op->code;
        *guid.output = op->output;
    }
    op->out_ledger = *guid.ledger;
    return op->journal ? guid_journal(t, op->ref, op->addr, op->guid, &guid) : QP_OK;
}

/* Takes the GUID off its place. */
static int guid_remove(struct txn *t, const struct op_guid_fold *op, struct act_row *act,
                       bool on_activity)
{
    struct guid_row key = guid_key(op->ref, op->addr, op->guid);
    if (on_activity) {
        enter_on_activity(act, &(struct op_guid_enter){.guid = QP_NONE}, 0);
        return QP_OK;
    }
    act->guid_rows--;
    txn_drop(t, TABLE_guid, &key);
    return t->rc;
}

int apply_guid_fold(struct txn *t, struct op_guid_fold *op)
{
    struct guid_slot guid;
    struct act_row *act;
    struct job_row *job;
    int rc = guid_find(t, op->ref, op->addr, op->guid, &guid);
    rc = rc == QP_OK ? job_find(t, op->ref, &job) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    if (*guid.n < 0 || (!str_is_none(job->closed_by) && str_equal(job->closed_by, op->guid))) {
        return txn_stop(t, QP_E_CONFLICT, 0, *guid.ledger);
    }
    if (txn_get(t, TABLE_msg,
                &(struct msg_row){.ns = op->ref.ns, .job = op->ref.job, .guid = op->guid}) !=
        NULL) {
        return QP_E_CONFLICT; /* its message would enter again, as if it were new */
    }
    act = t->rc == QP_OK ? act_edit(t, op->ref, op->addr) : NULL;
    if (act == NULL) {
        return apply_missing(t, QP_E_CORRUPT);
    }
    act->folded_n++;
    act->folded_delta += *guid.delta;
    return guid_remove(t, op, act, guid.on_activity);
}

int apply_sem_open(struct txn *t, struct op_sem_open *op)
{
    struct sem_row row = {
        .ns = op->ref.ns,
        .job = op->ref.job,
        .scope = op->scope,
        .opening = op->opening,
        .threshold = op->threshold,
        .owner_addr = op->owner_addr,
        .owner_guid = op->guid,
        .topic = op->topic,
        .count = op->opening,
    };
    struct job_row *job;
    int rc = job_find(t, op->ref, &job);
    if (rc != QP_OK) {
        return rc;
    }
    /* Its one message is sent when nobody can mend it any more: so it must be sound now. */
    if (op->scope <= 0 || op->opening <= op->threshold || op->threshold < 0 ||
        op->guid.n != LIMIT_GUID_SIZE || op->topic.n == 0 || op->topic.n > LIMIT_NAME_SIZE ||
        op->owner_addr.n > LIMIT_ADDRESS_SIZE) {
        return QP_E_INVALID;
    }
    if (txn_get(t, TABLE_sem, &row) != NULL) {
        return QP_E_DONE;
    }
    return t->rc != QP_OK || txn_add(t, TABLE_sem, &row) == NULL ? t->rc : QP_OK;
}

/* before > threshold >= after. An opening move also is an edge when it opens at or below the
 * threshold (H10, N = 0). */
static bool is_edge(const struct op_sem_move *op, int64_t before, int64_t after, int64_t threshold)
{
    return after <= threshold && (before > threshold || op->open);
}

static int scope_count(int64_t before, int64_t delta, int64_t *out_after)
{
    return i64_add(before, delta, out_after) && *out_after >= 0 ? QP_OK : QP_E_UNDERFLOW;
}

/* The weight of the digit that a weight adds to: 100T for 200T. */
static int64_t digit_of(int64_t weight)
{
    int64_t digit = 1;
    while (weight / digit >= DIGIT_RADIX) {
        digit *= DIGIT_RADIX;
    }
    return digit;
}

/* The activity is closed to new GUIDs with the last step that this one runs: here, when there is no
 * edge (H4), and else in step 3. In both cases no other GUID may have closed it: that one has moved the
 * semaphore by what the activity owed. */
static int move_finalize(struct txn *t, const struct op_sem_move *op)
{
    struct act_row *act = act_edit(t, op->ref, op->addr);
    if (act == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (op->final_weight <= 0 ||
        (act->ledger / digit_of(op->final_weight) % DIGIT_RADIX != 0 && !PLANT(dropped_compare))) {
        return txn_stop(t, QP_E_DIGIT, op->final_weight, act->ledger);
    }
    return op->out_edge ? QP_OK : ledger_add(t, &act->ledger, op->final_weight);
}

/* Opened once, and moved after that only; but a job that was ended before it was opened is moved by nothing, by
 * the GUID that ended it. */
static bool may_move(const struct job_row *job, const struct op_sem_move *op)
{
    if (op->open) {
        return job->opened == 0;
    }
    return job->opened != 0 || (!str_is_none(job->closed_by) && op->delta == 0 && op->n == 0);
}

/* The move takes what the activity owed, or its last attempt was no failure. */
static int move_rests(struct txn *t, const struct op_sem_move *op)
{
    const struct act_row *act = txn_get(
        t, TABLE_act, &(struct act_row){.ns = op->ref.ns, .job = op->ref.job, .addr = op->addr});
    struct act_row *edit;
    if (act == NULL ||
        !(act->waits == ACT_RETRIES || (act->waits == ACT_WAITS && op->n > op->delta))) {
        return t->rc;
    }
    edit = act_edit(t, op->ref, op->addr);
    return edit == NULL ? t->rc : act_wait_set(t, edit, ACT_BUSY);
}

/* Of a plant: the delta of the move before this one. */
static int64_t owed(int64_t delta)
{
    static int64_t before;
    int64_t result = before;
    before = delta;
    return result;
}

/* Scope 0: the count, the GUID's digits and the job's closing are one. */
static int move_job(struct txn *t, struct op_sem_move *op, const struct guid_slot *guid)
{
    struct job_row *job;
    int64_t before;
    int rc = job_find(t, op->ref, &job);
    if (rc != QP_OK) {
        return rc;
    }
    if (!may_move(job, op) || op->n < 0 || op->close_state <= JOB_OPEN ||
        op->close_state >= JOB_STATES) {
        return QP_E_INVALID;
    }
    before = job->sem;
    rc = scope_count(before, PLANT(loose_semaphore) ? owed(op->delta) : op->delta, &job->sem);
    rc = rc == QP_OK ? ledger_add(t, guid->ledger, op->spawn_weight) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    *guid->n = op->n;
    *guid->delta = op->delta;
    if (op->open) {
        job->opened = 1;
        job->waits = 0;
    }
    op->out_count = job->sem;
    op->out_edge = str_is_none(job->closed_by) && is_edge(op, before, job->sem, job->threshold);
    rc = move_rests(t, op);
    rc = rc == QP_OK && op->finalize ? move_finalize(t, op) : rc;
    if (rc == QP_OK && op->out_edge) {
        rc = job_state_close(t, job, op->guid, op->close_state);
        rc = rc == QP_OK ? ledger_add(t, guid->ledger, op->edge_weight) : rc;
    }
    return rc == QP_OK ? job_word_update(t, job) : rc;
}

/* A further scope: the delta has a row of its own, the once-flag is the scope's, and its owner gets
 * a message. */
static int move_scope(struct txn *t, struct op_sem_move *op)
{
    struct move_row row = {.ns = op->ref.ns,
                           .job = op->ref.job,
                           .scope = op->scope,
                           .guid = op->guid,
                           .addr = op->addr,
                           .delta = op->delta};
    struct sem_row *sem = txn_edit(
        t, TABLE_sem, &(struct sem_row){.ns = op->ref.ns, .job = op->ref.job, .scope = op->scope});
    int64_t before;
    int rc;
    if (sem == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (txn_get(t, TABLE_move, &row) != NULL) {
        return QP_E_DONE;
    }
    before = sem->count;
    rc = t->rc == QP_OK ? scope_count(before, op->delta, &sem->count) : t->rc;
    if (rc != QP_OK || txn_add(t, TABLE_move, &row) == NULL) {
        return rc != QP_OK ? rc : t->rc;
    }
    op->out_count = sem->count;
    op->out_edge =
        str_is_none(sem->closed_by) && before > sem->threshold && sem->count <= sem->threshold;
    if (!op->out_edge) {
        return QP_OK;
    }
    sem->closed_by = op->guid;
    return msg_insert(t, &(struct op_msg_put){.ref = op->ref,
                                              .guid = sem->owner_guid,
                                              .topic = sem->topic,
                                              .addr = sem->owner_addr,
                                              .parent_guid = op->guid});
}

int apply_sem_move(struct txn *t, struct op_sem_move *op)
{
    struct guid_slot guid;
    int rc = guid_find(t, op->ref, op->addr, op->guid, &guid);
    if (rc != QP_OK) {
        return rc;
    }
    if (op->scope == 0 && *guid.n >= 0) {
        return txn_stop(t, QP_E_DONE, op->spawn_weight, *guid.ledger);
    }
    rc = guards_check(t, *guid.ledger, op->guards, op->guard_count);
    if (rc != QP_OK) {
        return rc;
    }
    if (op->scope != 0) {
        return move_scope(t, op);
    }
    QP_TRY(move_job(t, op, &guid));
    return guid_journal(t, op->ref, op->addr, op->guid, &guid);
}
