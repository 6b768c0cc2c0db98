/* apply_key.c - only so many at a time: counted, leased, fenced keys with a durable queue
 *
 *   I1  key.held = the units of its key_hold rows <= capacity (unless capacity was lowered since);
 *       key.waiting = the number of its key_wait rows; the key goes when both are 0
 *   I2  FIFO: while somebody waits, nobody else acquires; units that are released go to the waiters
 *       in order
 *   I3  a token is never given twice, in any key: it comes from the store's own order, so a late
 *       release cannot hit another
 *   I4  a waiter leaves the queue, as a holder or because all are released, in the commit that puts its message: no wake-up
 *       is lost
 *
 * If we crash while a key is held, the hold's row says until when: its lease ends (wake) and passes
 * it on. A hold without a lease belongs to a job and goes with the job's sweep.
 */
#include "store/apply.h"

#include <stdio.h>

#include "base/failpoint.h"

static struct key_row *key_edit(struct txn *t, int64_t ns, int64_t scope, qp_str name)
{
    return txn_edit(t, TABLE_key, &(struct key_row){.ns = ns, .scope = scope, .name = name});
}

static int key_tidy(struct txn *t, const struct key_row *key)
{
    if (key->held < 0 || key->waiting < 0) {
        return txn_corrupt(t, TABLE_key, "it counts fewer than there are");
    }
    if (key->held == 0 && key->waiting == 0) {
        txn_drop(t, TABLE_key, key);
    }
    return t->rc;
}

static int hold_add(struct txn *t, struct key_row *key, const struct key_wait_row *of,
                    int64_t *out_token)
{
    struct key_hold_row hold = {
        .ns = key->ns,
        .scope = key->scope,
        .name = key->name,
        .job = of->job,
        .addr = of->addr,
        .guid = of->guid,
        .units = of->units,
        .at = t->now,
        .lease_until = of->lease_ms > 0 ? t->now + of->lease_ms : 0,
    };
    int rc = txn_number(t, SERIES_ORD, 1, &hold.token);
    if (rc != QP_OK || txn_add(t, TABLE_key_hold, &hold) == NULL) {
        return rc != QP_OK ? rc : t->rc;
    }
    key->held += of->units;
    *out_token = hold.token;
    return QP_OK;
}

/* The token as text, in the commit's memory. */
static int token_text(struct txn *t, int64_t token, qp_str *out_text)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)token);
    if (!arena_copy(t->arena, (qp_str){text, (size_t)n}, out_text)) {
        t->rc = err_set(t->err, QP_E_NOMEM, "key: out of memory");
    }
    return t->rc;
}

/* A waiter leaves the queue, and gets its message. */
static int wake_waiter(struct txn *t, struct key_row *key, const struct key_wait_row *w,
                       qp_str payload)
{
    if (!PLANT(double_wake)) {
        key->waiting--;
        txn_drop(t, TABLE_key_wait, w);
    }
    if (PLANT(lost_wake)) {
        return t->rc;
    }
    return msg_insert(t, &(struct op_msg_put){.ref = {w->ns, w->job},
                                              .owner = w->job > 0 ? OWNER_JOB : OWNER_SYSTEM,
                                              .guid = w->guid,
                                              .topic = w->msg_topic,
                                              .addr = w->addr,
                                              .payload = payload,
                                              .once = true});
}

/* A waiter becomes a holder; its message has the token. */
static int grant(struct txn *t, struct key_row *key, const struct key_wait_row *w)
{
    int64_t token;
    qp_str payload;
    QP_TRY(hold_add(t, key, w, &token));
    QP_TRY(token_text(t, token, &payload));
    return wake_waiter(t, key, w, payload);
}

/* The first waiters of a key that has some. */
static int first_waiters(struct txn *t, const struct key_row *key, size_t limit,
                         struct bundle_rows *out_found)
{
    struct key_wait_row prefix = {.ns = key->ns, .scope = key->scope, .name = key->name};
    struct scan scan = {
        .table = TABLE_key_wait, .index = -1, .prefix = &prefix, .prefix_count = 3, .limit = limit};
    QP_ASSERT(key->waiting > 0);
    QP_TRY(txn_scan(t, &scan, out_found));
    return out_found->count > 0 ? QP_OK
                                : txn_corrupt(t, TABLE_key, "it counts a waiter that is not there");
}

static int grant_waiters(struct txn *t, struct key_row *key)
{
    while (key->waiting > 0 && key->held < key->capacity) {
        struct bundle_rows found;
        const struct key_wait_row *w;
        QP_TRY(first_waiters(t, key, 1, &found));
        w = found.rows[0];
        if (w->units > key->capacity - key->held) {
            break; /* the first in the queue does not fit yet: nobody overtakes it */
        }
        QP_TRY(grant(t, key, w));
    }
    return key_tidy(t, key);
}

int key_hold_remove(struct txn *t, const struct key_hold_row *h)
{
    struct key_row *key = key_edit(t, h->ns, h->scope, h->name);
    if (key == NULL) {
        return t->rc != QP_OK ? t->rc : txn_corrupt(t, TABLE_key, "a holder or waiter has no key");
    }
    key->held -= h->units;
    txn_drop(t, TABLE_key_hold, h);
    return t->rc != QP_OK ? t->rc : grant_waiters(t, key);
}

int key_wait_remove(struct txn *t, const struct key_wait_row *w)
{
    struct key_row *key = key_edit(t, w->ns, w->scope, w->name);
    if (key == NULL) {
        return t->rc != QP_OK ? t->rc : txn_corrupt(t, TABLE_key, "a holder or waiter has no key");
    }
    key->waiting--;
    txn_drop(t, TABLE_key_wait, w);
    /* It may have been the one that did not fit: those behind it may. */
    return t->rc != QP_OK ? t->rc : grant_waiters(t, key);
}

/* Has this very asker a hold or a place already? Sets *out_found; a hold's token goes into
 * *out_token, 0 for a place. */
static int find_own(struct txn *t, const struct op_key_acquire *op, bool *out_found,
                    int64_t *out_token)
{
    struct key_hold_row hold = {.ns = op->ns,
                                .scope = op->scope,
                                .name = op->name,
                                .job = op->holder.job,
                                .guid = op->guid};
    struct key_wait_row wait = {.ns = op->ns,
                                .scope = op->scope,
                                .name = op->name,
                                .job = op->holder.job,
                                .guid = op->guid};
    bool job = op->holder.job > 0; /* else no index has it: look through the key's own rows */
    struct bundle_rows rows;
    int rc = txn_scan(t,
                      &(struct scan){.table = TABLE_key_hold,
                                     .index = job ? INDEX_key_hold_job : -1,
                                     .prefix = &hold,
                                     .prefix_count = 3,
                                     .limit = LIMIT_PAGE_ROWS},
                      &rows);
    for (size_t i = 0; rc == QP_OK && i < rows.count; i++) {
        const struct key_hold_row *h = rows.rows[i];
        if (h->job == op->holder.job && str_equal(h->guid, op->guid) && h->scope == op->scope &&
            str_equal(h->name, op->name) && str_equal(h->addr, op->addr)) {
            *out_found = true;
            *out_token = h->token;
            return QP_OK;
        }
    }
    if (rc == QP_OK) {
        rc = txn_scan(t,
                      &(struct scan){.table = TABLE_key_wait,
                                     .index = job ? INDEX_key_wait_job : -1,
                                     .prefix = &wait,
                                     .prefix_count = 3,
                                     .limit = LIMIT_PAGE_ROWS},
                      &rows);
    }
    for (size_t i = 0; rc == QP_OK && i < rows.count; i++) {
        const struct key_wait_row *w = rows.rows[i];
        if (w->job == op->holder.job && str_equal(w->guid, op->guid) && w->scope == op->scope &&
            str_equal(w->name, op->name) && str_equal(w->addr, op->addr)) {
            *out_found = true;
            *out_token = 0;
        }
    }
    return rc;
}

static int acquire_check(const struct op_key_acquire *op)
{
    bool bad = op->name.n == 0 || op->name.n > LIMIT_ID_SIZE || op->capacity <= 0 ||
               op->units <= 0 || op->units > op->capacity || op->guid.n != LIMIT_GUID_SIZE ||
               op->lease_ms < 0 || op->lease_ms > LIMIT_LEASE_MS || op->holder.ns != op->ns ||
               op->scope < 0 || (op->wait && op->msg_topic.n == 0) ||
               op->msg_topic.n > LIMIT_NAME_SIZE || op->addr.n > LIMIT_ADDRESS_SIZE ||
               (op->lease_ms == 0 && op->holder.job == 0);
    return bad ? QP_E_INVALID : QP_OK;
}

/* The key's row, made when it is not there; a later asker's capacity replaces an earlier one's. */
static struct key_row *key_for(struct txn *t, const struct op_key_acquire *op)
{
    struct key_row row = {.ns = op->ns, .scope = op->scope, .name = op->name};
    struct key_row *key = txn_edit(t, TABLE_key, &row);
    if (key == NULL && t->rc == QP_OK) {
        key = txn_add(t, TABLE_key, &row);
    }
    if (key != NULL) {
        key->capacity = op->capacity;
    }
    return key;
}

static int acquire_new(struct txn *t, struct op_key_acquire *op)
{
    struct key_wait_row w = {
        .ns = op->ns,
        .scope = op->scope,
        .name = op->name,
        .job = op->holder.job,
        .addr = op->addr,
        .guid = op->guid,
        .units = op->units,
        .lease_ms = op->lease_ms,
        .msg_topic = op->msg_topic,
        .at = t->now,
    };
    struct key_row *key = key_for(t, op);
    int rc;
    if (key == NULL) {
        return t->rc;
    }
    if (key->waiting == 0 && op->units <= key->capacity - key->held) {
        return hold_add(t, key, &w, &op->out_token);
    }
    if (!op->wait) {
        return QP_E_BUSY;
    }
    rc = txn_number(t, SERIES_ORD, 1, &w.seq);
    if (rc != QP_OK || txn_add(t, TABLE_key_wait, &w) == NULL) {
        return rc != QP_OK ? rc : t->rc;
    }
    key->waiting++;
    op->out_token = 0;
    return grant_waiters(t, key); /* with the new capacity those in front may fit now */
}

int apply_key_acquire(struct txn *t, struct op_key_acquire *op)
{
    struct job_row *job;
    bool found = false;
    int rc = acquire_check(op);
    if (rc == QP_OK && op->holder.job > 0) {
        rc = job_find(t, op->holder, &job);
    }
    rc = rc == QP_OK ? find_own(t, op, &found, &op->out_token) : rc;
    return rc == QP_OK && !found ? acquire_new(t, op) : rc;
}

int apply_key_extend(struct txn *t, struct op_key_extend *op)
{
    struct key_hold_row *hold =
        txn_edit(t, TABLE_key_hold,
                 &(struct key_hold_row){
                     .ns = op->ns, .scope = op->scope, .name = op->name, .token = op->token});
    if (hold == NULL) {
        return apply_missing(t, QP_E_STALE);
    }
    if (op->lease_ms <= 0 || op->lease_ms > LIMIT_LEASE_MS) {
        return QP_E_INVALID;
    }
    hold->lease_until = t->now + op->lease_ms;
    return QP_OK;
}

/* One page of waiters goes; the hold with the last of them. */
static int release_all(struct txn *t, const struct key_hold_row *hold, struct op_key_release *op)
{
    struct key_row *key = key_edit(t, hold->ns, hold->scope, hold->name);
    struct bundle_rows found = {0};
    if (key == NULL) {
        return t->rc != QP_OK ? t->rc : txn_corrupt(t, TABLE_key, "a holder or waiter has no key");
    }
    if (key->waiting > 0) {
        QP_TRY(first_waiters(t, key, (size_t)op->limit, &found));
    }
    for (size_t i = 0; i < found.count; i++) {
        QP_TRY(wake_waiter(t, key, found.rows[i], QP_NONE));
    }
    op->out_more = key->waiting > 0;
    return op->out_more ? t->rc : key_hold_remove(t, hold);
}

int apply_key_release(struct txn *t, struct op_key_release *op)
{
    const struct key_hold_row *hold =
        txn_get(t, TABLE_key_hold,
                &(struct key_hold_row){
                    .ns = op->ns, .scope = op->scope, .name = op->name, .token = op->token});
    struct key_row *key;
    int rc;
    op->out_lost = false;
    op->out_more = false;
    if (op->all && op->limit < 1) {
        return QP_E_INVALID;
    }
    if (op->all) {
        op->out_lost = hold == NULL && t->rc == QP_OK;
        return hold == NULL ? t->rc : release_all(t, hold, op);
    }
    rc = hold == NULL ? apply_missing(t, QP_E_STALE) : key_hold_remove(t, hold);
    key = PLANT(double_release) && rc == QP_OK ? key_edit(t, op->ns, op->scope, op->name) : NULL;
    if (key != NULL && key->held > 0) {
        key->held--;
        rc = grant_waiters(t, key);
    }
    return rc;
}
