/* apply_misc.c - namespaces, numbers, nodes, the sweep of what is due, and what else a bundle can
 * carry */
#include "store/apply.h"

#include "base/failpoint.h"
#include "store/event.h"

int apply_space_create(struct txn *t, struct op_space_create *op)
{
    struct space_row row = {.name = op->name, .created_at = t->now};
    struct bundle_rows found;
    int rc = txn_scan(t,
                      &(struct scan){.table = TABLE_space,
                                     .index = INDEX_space_name,
                                     .prefix = &row,
                                     .prefix_count = 1,
                                     .limit = 1},
                      &found);
    if (rc == QP_OK && found.count > 0) {
        op->out_ns = ((const struct space_row *)found.rows[0])->ns;
        return QP_E_EXISTS;
    }
    if (rc == QP_OK && (op->name.n == 0 || op->name.n > LIMIT_NAME_SIZE)) {
        rc = QP_E_INVALID;
    }
    rc = rc == QP_OK ? txn_number(t, SERIES_ID, 1, &row.ns) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    op->out_ns = row.ns;
    return txn_add(t, TABLE_space, &row) == NULL ? t->rc : QP_OK;
}

int apply_ids_reserve(struct txn *t, struct op_ids_reserve *op)
{
    return op->count <= 0 || op->count > LIMIT_IDS_PER_BLOCK
               ? QP_E_INVALID
               : txn_number(t, SERIES_ID, op->count, &op->out_first);
}

static int node_enter(struct txn *t, struct op_node_put *op)
{
    struct node_row row = {
        .name = op->name,
        .started_at = t->now,
        .lease_until = op->lease_ms > 0 ? t->now + op->lease_ms : 0,
        .state = NODE_RUNNING,
        .intent = op->intent,
        .serving = op->serving,
    };
    int rc = txn_number(t, SERIES_ID, 1, &row.epoch);
    if (rc != QP_OK) {
        return rc;
    }
    op->out_epoch = row.epoch;
    return txn_add(t, TABLE_node, &row) == NULL ? t->rc : QP_OK;
}

int apply_node_put(struct txn *t, struct op_node_put *op)
{
    struct node_row *node;
    if (op->lease_ms < 0 || op->lease_ms > LIMIT_LEASE_MS || op->state < NODE_RUNNING ||
        op->state > NODE_ENDING) {
        return QP_E_INVALID;
    }
    if (op->epoch == 0) {
        return node_enter(t, op);
    }
    node = txn_edit(t, TABLE_node, &(struct node_row){.epoch = op->epoch});
    if (node == NULL || (node->state != NODE_RUNNING && op->state == NODE_RUNNING)) {
        return apply_missing(t, QP_E_STALE);
    }
    op->out_epoch = op->epoch;
    if (op->state == NODE_ENDING) {
        node->state = NODE_ENDING;
        return QP_OK;
    }
    if (op->state != NODE_RUNNING) {
        txn_drop(t, TABLE_node, node); /* a run that is over has no row: they would add up */
        return t->rc;
    }
    node->lease_until = op->lease_ms > 0 ? t->now + op->lease_ms : node->lease_until;
    node->intent = op->intent;
    node->serving = str_is_none(op->serving) ? node->serving : op->serving;
    return QP_OK;
}

/* ---------------------------------------------------------------------------------- what is due */

/* A message whose holder was silent for too long is told of, and one whose time limit is over; a timer is not. */
static int lease_note(struct txn *t, struct op_wake *op, const struct msg_row *m,
                      enum time_limit limit)
{
    if (op->out_lost == NULL) {
        op->out_lost = arena_alloc(t->arena, (size_t)op->limit * sizeof *op->out_lost);
    }
    if (op->out_lost == NULL) {
        t->rc = err_set(t->err, QP_E_NOMEM, "wake: out of memory");
        return t->rc;
    }
    op->out_lost[op->out_leases++] = (struct lost_message){m, limit};
    return QP_OK;
}

/* No worker is to blame for a limit of start, and no beat could have moved the end of run. */
static bool is_settled_later(const struct op_wake *op, const struct msg_row *m,
                             enum time_limit limit)
{
    bool excused =
        (limit == TIME_LIMIT_NONE || limit == TIME_LIMIT_BEAT) && m->wake_at < op->lost_from;
    return op->lost_ms > 0 && !excused;
}

static int wake_ready(struct txn *t, struct op_wake *op, struct msg_row *m)
{
    QP_TRY(msg_unstarted(t, m, op->lost_ms));
    return m->state == MSG_HELD ? lease_note(t, op, m, TIME_LIMIT_START) : QP_OK;
}

static int wake_held(struct txn *t, struct op_wake *op, struct msg_row *m)
{
    enum time_limit limit = msg_limit_over(t, m);
    QP_TRY(lease_note(t, op, m, limit));
    if (is_settled_later(op, m, limit)) {
        m->wake_at = t->now + op->lost_ms;
        return QP_OK;
    }
    return msg_give_up(t, m, op->lost_kind);
}

static int wake_msg(struct txn *t, struct op_wake *op, const void *row)
{
    struct msg_row *m = txn_edit(t, TABLE_msg, row);
    if (m == NULL) {
        return t->rc;
    }
    switch (m->state) {
    case MSG_READY:
        return wake_ready(t, op, m);
    case MSG_HELD:
        return wake_held(t, op, m);
    default:
        return msg_release(t, m);
    }
}

static int wake_hold(struct txn *t, struct op_wake *op, const void *row)
{
    (void)op;
    return key_hold_remove(t, row);
}

static int wake_signal(struct txn *t, struct op_wake *op, const void *row)
{
    (void)op;
    return signal_expire(t, row);
}

static int wake_idem(struct txn *t, struct op_wake *op, const void *row)
{
    (void)op;
    if (signal_record_is(row)) {
        return signal_record_due(t, row);
    }
    txn_drop(t, TABLE_idem, row);
    return t->rc;
}

/* What can be due, by the index whose first column says when. */
static const struct {
    enum index_id index;
    size_t when; /* offset of that column */
    int (*act)(struct txn *t, struct op_wake *op, const void *row);
} dues[] = {
    {INDEX_msg_wake, offsetof(struct msg_row, wake_at), wake_msg},
    {INDEX_key_hold_lease, offsetof(struct key_hold_row, lease_until), wake_hold},
    {INDEX_hook_sig_expire, offsetof(struct hook_sig_row, expire_at), wake_signal},
    {INDEX_idem_expire, offsetof(struct idem_row, expire_at), wake_idem},
};

#define WAKE_FIRST_PAGE 4

/* One kind: the rows come in order of their time, so the first that is not due ends it. Pages grow
 * from a few, since mostly nothing is due and the rest would be read for nothing. */
static int wake_kind(struct txn *t, struct op_wake *op, size_t kind, bool *out_cut)
{
    size_t page = WAKE_FIRST_PAGE;
    bool due = true;
    int rc = QP_OK;
    while (rc == QP_OK && due && !*out_cut && op->out_count < op->limit) {
        size_t left = (size_t)(op->limit - op->out_count);
        struct bundle_rows found;
        struct scan scan = {.table = indexes[dues[kind].index].table,
                            .index = (int)dues[kind].index,
                            .limit = page < left ? page : left,
                            .skip_locked = true};
        rc = txn_scan(t, &scan, &found);
        due = found.count > 0;
        *out_cut = found.cut;
        for (size_t i = 0; rc == QP_OK && i < found.count && due; i++) {
            int64_t when;
            memcpy(&when, (const char *)found.rows[i] + dues[kind].when, sizeof when);
            due = when <= t->now + (PLANT(early_timer) ? 20 : 0);
            rc = due ? dues[kind].act(t, op, found.rows[i]) : QP_OK;
            op->out_count += due;
        }
        page *= 8;
    }
    return rc;
}

int apply_wake(struct txn *t, struct op_wake *op)
{
    bool cut = false;
    int rc = QP_OK;
    if (op->limit <= 0 || op->limit > LIMIT_WAKE_MESSAGES || op->lost_ms < 0 ||
        op->lost_ms > LIMIT_LEASE_MS) {
        return QP_E_INVALID;
    }
    op->out_count = op->out_leases = 0;
    op->out_lost = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(dues) && rc == QP_OK && !cut && op->out_count < op->limit;
         i++) {
        rc = wake_kind(t, op, i, &cut);
    }
    op->out_more = cut || op->out_count == op->limit;
    return rc;
}

/* ------------------------------------------------------------------------------- what else goes */

int apply_data_put(struct txn *t, struct op_data_put *op)
{
    struct data_row row = {.ns = op->ref.ns,
                           .job = op->ref.job,
                           .name = op->name,
                           .value = op->value,
                           .updated_at = t->now};
    struct job_row *job;
    struct data_row *data;
    int rc = job_find(t, op->ref, &job);
    if (rc == QP_OK && (op->name.n == 0 || op->name.n > LIMIT_ADDRESS_SIZE)) {
        rc = QP_E_INVALID;
    }
    if (rc == QP_OK && op->value.n > LIMIT_PAYLOAD_HARD_SIZE) {
        rc = QP_E_TOO_LARGE;
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (str_is_none(op->value)) {
        txn_drop(t, TABLE_data, &row);
        return t->rc;
    }
    data = txn_edit(t, TABLE_data, &row);
    if (data == NULL) {
        return t->rc != QP_OK || txn_add(t, TABLE_data, &row) == NULL ? t->rc : QP_OK;
    }
    data->value = op->value;
    data->updated_at = t->now;
    return QP_OK;
}

int apply_event_add(struct txn *t, struct op_event_add *op)
{
    if (op->detail.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_TOO_LARGE;
    }
    if (op->kind <= -EVENT_STATUS_RADIX / 2 || op->kind >= EVENT_STATUS_RADIX / 2) {
        return QP_E_INVALID;
    }
    return event_note(t, op->ref, op->kind, op->addr, op->detail, &op->out_seq);
}

int apply_feed_trim(struct txn *t, struct op_feed_trim *op)
{
    struct feed_row prefix = {.ns = 0};
    struct bundle_rows found;
    size_t dropped = 0;
    int rc;
    if (op->limit <= 0 || op->limit > LIMIT_SWEEP_ROWS) {
        return QP_E_INVALID;
    }
    rc = txn_scan(t,
                  &(struct scan){.table = TABLE_feed,
                                 .index = -1,
                                 .prefix = &prefix,
                                 .prefix_count = 1,
                                 .limit = (size_t)op->limit},
                  &found);
    for (; rc == QP_OK && dropped < found.count; dropped++) {
        const struct feed_row *row = found.rows[dropped];
        if (row->pos > op->upto) {
            break;
        }
        txn_drop(t, TABLE_feed, row);
        rc = t->rc;
    }
    op->out_more = dropped == (size_t)op->limit;
    return rc;
}

int apply_audit_add(struct txn *t, struct op_audit_add *op)
{
    struct audit_row row = {
        .ns = op->ns,
        .at = t->now,
        .actor = op->actor,
        .action = op->action,
        .target = op->target,
        .outcome = op->outcome,
        .detail = op->detail,
    };
    int rc =
        op->detail.n > LIMIT_PAYLOAD_SIZE ? QP_E_TOO_LARGE : txn_number(t, SERIES_ID, 1, &row.id);
    return rc != QP_OK ? rc : txn_add(t, TABLE_audit, &row) == NULL ? t->rc : QP_OK;
}

int apply_idem_put(struct txn *t, struct op_idem_put *op)
{
    struct idem_row row = {
        .ns = op->ns,
        .ikey = op->key,
        .body_hash = op->body_hash,
        .status = op->status,
        .answer = op->answer,
        .at = t->now,
    };
    const struct idem_row *there = txn_get(t, TABLE_idem, &row);
    if (there != NULL && str_equal(there->body_hash, op->body_hash)) {
        op->out_status = there->status;
        op->out_answer = there->answer;
        return QP_E_EXISTS;
    }
    if (there != NULL) {
        return QP_E_CONFLICT;
    }
    if (op->key.n == 0 || op->key.n > LIMIT_ID_SIZE || op->ttl_ms <= 0 ||
        op->ttl_ms > LIMIT_TIMER_MS || op->answer.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_INVALID;
    }
    row.expire_at = t->now + op->ttl_ms;
    return t->rc != QP_OK || txn_add(t, TABLE_idem, &row) == NULL ? t->rc : QP_OK;
}

static bool access_is_sound(const struct op_access_put *op)
{
    return op->id.n > 0 && op->id.n <= LIMIT_NAME_SIZE && op->hash.n == LIMIT_ACCESS_HASH_SIZE &&
           op->name.n <= LIMIT_ID_SIZE && op->role.n > 0 && op->role.n <= LIMIT_NAME_SIZE &&
           op->scopes.n <= LIMIT_PATTERN_SIZE && op->spaces.n <= LIMIT_PATTERN_SIZE &&
           op->topics.n <= LIMIT_PATTERN_SIZE && op->expire_ms >= 0 &&
           op->expire_ms <= LIMIT_TIMER_MS;
}

int apply_access_put(struct txn *t, struct op_access_put *op)
{
    struct access_row row = {
        .id = op->id,
        .hash = op->hash,
        .name = op->name,
        .role = op->role,
        .scopes = op->scopes,
        .spaces = op->spaces,
        .topics = op->topics,
        .created_at = t->now,
        .expire_at = op->expire_ms > 0 ? t->now + op->expire_ms : 0,
    };
    if (!access_is_sound(op)) {
        return QP_E_INVALID;
    }
    if (txn_get(t, TABLE_access, &row) != NULL) {
        return QP_E_EXISTS;
    }
    return t->rc != QP_OK || txn_add(t, TABLE_access, &row) == NULL ? t->rc : QP_OK;
}

int apply_access_set(struct txn *t, struct op_access_set *op)
{
    struct access_row *row = txn_edit(t, TABLE_access, &(struct access_row){.id = op->id});
    if (row == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    row->revoked_at = op->revoke && row->revoked_at == 0 ? t->now : row->revoked_at;
    row->used_at = op->used ? t->now : row->used_at;
    return QP_OK;
}

/* The bundle's last act, whatever its place in the list; see bundle_host_calls in store.c. */
int apply_host_call(struct txn *t, struct op_host_call *op)
{
    (void)t;
    return op->call == NULL ? QP_E_INVALID : QP_OK;
}
