/* provider.c - the PostgreSQL provider: rows in, rows out, many handles at once
 *
 *   I1  a commit is one transaction, READ COMMITTED; every statement that changes a row compares its
 *       revision and fails when it is another, and COMMIT is sent behind it: it does not happen then
 *   I2  rows of a job are protected by the lock on its row, which this transaction takes once, before
 *       it looks at any of them; other rows are locked when they are loaded
 *   I3  not locked: what is peeked at, rows with SUM columns, and the jobs of messages that a claim
 *       meets. A lane with a limit is locked by everybody who looks at it, since the limit must hold
 *   I4  a position is (transaction id, entry), so it needs no lock; a reader goes no further than the
 *       oldest transaction that is still open, so that nothing can come before what it has seen
 *   I5  a commit shares the lock of the store, which a copy has alone, and then looks at the head row:
 *       nothing is committed while a store is copied, nor by an old handle after it was moved
 *
 *   begin .. expect -> load, scan | write (sent, not waited for) -> commit (all answers)
 *
 * If the connection is lost before COMMIT was sent, the transaction never was: QP_E_BUSY, the next
 * begin connects again. If it is lost after that, the server knows: by the transaction's id
 * (pg_xact_status), and by its feed row, which is there or not. Only when neither can be learned it is
 * QP_E_UNKNOWN_OUTCOME. If the server crashes, its log decides, and the answer is the same.
 */
#include "store/postgres/postgres_internal.h"

#define STATUS_COMMITTED 1
#define STATUS_ABORTED 2
#define STATUS_IN_PROGRESS 3
#define STATUS_TRIES (LIMIT_RESOLVE_MS / STATUS_PAUSE_MS)
#define STATUS_PAUSE_MS 100
#define LOCKED_MIN 256

/* What the steps of a job read. A job with a short journal has few of each; of named data it may have any
 * number. */
const bool fetched_tables[TABLE_COUNT] = {
    [TABLE_act] = true,  [TABLE_guid] = true, [TABLE_sem] = true,
    [TABLE_move] = true, [TABLE_msg] = true,
};

static struct postgres_provider *self(struct provider *base)
{
    return (struct postgres_provider *)base;
}

/* ---------------------------------------------------------------------------------- round trips */

int postgres_send(struct postgres_provider *p, enum plain_statement kind, struct wire_answer answer,
                  struct qp_err *err)
{
    struct wire_statement *s;
    int rc = postgres_plain_statement(p, kind, &s, err);
    return rc == QP_OK ? wire_send(&p->wire, s, NULL, answer, err) : rc;
}

/* A connection that is lost is worth another try: begin connects again. */
static int lost_is_busy(struct postgres_provider *p, int rc, struct qp_err *err)
{
    if (rc == QP_OK || !p->wire.lost) {
        return rc;
    }
    if (err != NULL) {
        err->code = QP_E_BUSY; /* the detail is of this failure, and err_wrap keeps it */
    }
    return err_wrap(err, QP_E_BUSY, "%s", p->place);
}

int postgres_wait(struct postgres_provider *p, struct qp_err *err)
{
    int rc = wire_wait(&p->wire, err);
    if (rc == QP_E_CORRUPT) {
        p->base.failure = rc;
    }
    return lost_is_busy(p, rc, err);
}

int postgres_take_i64(void *context, const PGresult *result, struct qp_err *err)
{
    int64_t *out = context;
    (void)err;
    if (PQntuples(result) > 0 && PQgetisnull(result, 0, 0) == 0) {
        *out = wire_i64(result, 0, 0);
    }
    return QP_OK;
}

static int take_entry(void *context, const PGresult *result, struct qp_err *err)
{
    const struct postgres_provider *p = context;
    int64_t may_enter = 0;
    int rc = postgres_take_i64(&may_enter, result, err);
    return rc == QP_OK && may_enter == 0
               ? err_set(err, QP_E_BUSY, "%s: is being moved or filled by quipu migrate", p->place)
               : rc;
}

/* Only a copy gives the head row another revision (batch.c). Whoever was opened before that is done
 * for: its numbers are those of a store that is not there any more. */
static int take_state(void *context, const PGresult *result, struct qp_err *err)
{
    struct postgres_provider *p = context;
    if (PQntuples(result) != 1 || (wire_i64(result, 0, 2) != p->head_rev && !p->moving)) {
        p->base.failure = QP_E_READONLY;
        return err_set(err, QP_E_READONLY,
                       "%s: was moved, or filled by a copy, since it was opened; open it again",
                       p->place);
    }
    p->base.server_ms = p->host_clock ? 0 : wire_i64(result, 0, 0);
    p->base.server_us = p->base.env->monotonic_us(p->base.env->context);
    p->pos_base = wire_i64(result, 0, 1);
    p->base.definitions = wire_i64(result, 0, 3);
    return QP_OK;
}

static int send_state(struct postgres_provider *p, struct qp_err *err)
{
    return postgres_send(p, PLAIN_STATE, (struct wire_answer){take_state, p, false}, err);
}

/* Between transactions: the connection is there. */
static int check_ready(struct postgres_provider *p, struct qp_err *err)
{
    int rc;
    if (p->wire.lost && p->in_snapshot) {
        return err_set(err, QP_E_BUSY, "%s: the connection was lost, and the snapshot with it",
                       p->place);
    }
    if (p->active || !p->wire.lost) {
        return QP_OK;
    }
    rc = postgres_reconnect(p, LIMIT_RECONNECT_MOST_MS, err);
    return p->moving ? rc : lost_is_busy(p, rc, err);
}

static int postgres_connect(struct provider *base, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    QP_ASSERT(!p->active);
    return !p->wire.lost ? QP_OK : lost_is_busy(p, postgres_reconnect(p, 0, err), err);
}

/* ---------------------------------------------------------------------------------- jobs locked */

static size_t locked_place(const struct postgres_locked *l, int64_t job)
{
    size_t i = (size_t)((uint64_t)job * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (l->size - 1);
    while (l->jobs[i] != 0 && l->jobs[i] != job) {
        i = (i + 1) & (l->size - 1);
    }
    return i;
}

static bool locked_has(const struct postgres_locked *l, int64_t job)
{
    return l->size > 0 && l->jobs[locked_place(l, job)] == job;
}

static int locked_grow(struct postgres_provider *p, struct qp_err *err)
{
    struct postgres_locked *l = &p->locked;
    struct postgres_locked larger = {.size = l->size == 0 ? LOCKED_MIN : l->size * 2,
                                     .count = l->count};
    larger.jobs = mem_alloc(p->base.env, larger.size * sizeof *larger.jobs);
    if (larger.jobs == NULL) {
        return err_set(err, QP_E_NOMEM, "lock: out of memory");
    }
    for (size_t i = 0; i < l->size; i++) {
        if (l->jobs[i] != 0) {
            larger.jobs[locked_place(&larger, l->jobs[i])] = l->jobs[i];
        }
    }
    mem_free(p->base.env, l->jobs);
    *l = larger;
    return QP_OK;
}

static int locked_add(struct postgres_provider *p, int64_t job, struct qp_err *err)
{
    struct postgres_locked *l = &p->locked;
    int rc = l->count * 2 >= l->size ? locked_grow(p, err) : QP_OK;
    if (rc == QP_OK) {
        size_t i = locked_place(l, job);
        l->count += l->jobs[i] == 0;
        l->jobs[i] = job;
    }
    return rc;
}

static void locked_clear(struct postgres_locked *l)
{
    if (l->count > 0) {
        memset(l->jobs, 0, l->size * sizeof *l->jobs);
    }
    l->count = 0;
}

/* The lock goes ahead of what is asked of the job's rows, in the same round trip. */
static int lock_job(struct postgres_provider *p, int64_t ns, int64_t job, struct qp_err *err)
{
    struct wire_statement *s;
    int rc;
    if (!p->active || job <= 0 || locked_has(&p->locked, job)) {
        return QP_OK;
    }
    rc = postgres_plain_statement(p, PLAIN_LOCK_JOB, &s, err);
    wire_params_reset(&p->params);
    wire_param_i64(&p->params, ns);
    wire_param_i64(&p->params, job);
    rc = rc == QP_OK ? wire_send(&p->wire, s, &p->params, (struct wire_answer){0}, err) : rc;
    return rc == QP_OK ? locked_add(p, job, err) : rc;
}

/* --------------------------------------------------------------------------------- transactions */

static int postgres_begin(struct provider *base, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc = check_ready(p, err);
    QP_ASSERT(!p->active);
    rc = rc == QP_OK ? postgres_send(p, PLAIN_BEGIN, (struct wire_answer){0}, err) : rc;
    if (rc == QP_OK && !p->moving) { /* a copy has the lock already */
        rc = postgres_send(p, PLAIN_ENTER, (struct wire_answer){take_entry, p, false}, err);
    }
    rc = rc == QP_OK ? send_state(p, err) : rc;
    p->active = rc == QP_OK;
    p->xid = 0;
    p->feed_pos = 0;
    p->had_host = false;
    locked_clear(&p->locked);
    return lost_is_busy(p, rc, err);
}

/* Until nothing is open: a failure among the answers that are still to come keeps the first ROLLBACK
 * from being heard. */
static void rollback(struct postgres_provider *p)
{
    for (int i = 0; i < 3 && !p->wire.lost; i++) {
        int rc = postgres_send(p, PLAIN_ROLLBACK, (struct wire_answer){0}, NULL);
        rc = rc == QP_OK || wire_is_waiting(&p->wire) ? wire_wait(&p->wire, NULL) : rc;
        if (rc == QP_OK || PQtransactionStatus(p->wire.conn) == PQTRANS_IDLE) {
            return;
        }
    }
    p->wire.lost = true; /* in whatever state it is: another one is better */
}

static void postgres_rollback(struct provider *base)
{
    struct postgres_provider *p = self(base);
    if (p->active) {
        rollback(p);
    }
    p->active = false;
}

/* None the first time, then up to twice as long each time, by chance: two that met would else meet
 * again. */
static void postgres_let_pass(struct provider *base, int tries)
{
    unsigned char chance = 0;
    int most_ms = tries < 2 ? 0 : 1 << (tries < 9 ? tries : 8);
    if (base->env->entropy(base->env->context, &chance, sizeof chance) == QP_OK && most_ms > 0) {
        wire_pause(1 + most_ms * chance / 256);
    }
}

struct outcome {
    int64_t status;
    int64_t proof;
};

static int take_outcome(void *context, const PGresult *result, struct qp_err *err)
{
    struct outcome *o = context;
    (void)err;
    if (PQntuples(result) == 1) {
        *o = (struct outcome){wire_i64(result, 0, 0), wire_i64(result, 0, 1)};
    }
    return QP_OK;
}

static int ask_outcome(struct postgres_provider *p, struct outcome *out, struct qp_err *err)
{
    struct wire_statement *s;
    int rc = p->wire.lost ? postgres_reconnect(p, LIMIT_RESOLVE_MS, err) : QP_OK;
    rc = rc == QP_OK ? postgres_plain_statement(p, PLAIN_STATUS, &s, err) : rc;
    wire_params_reset(&p->params);
    wire_param_i64(&p->params, p->xid);
    wire_param_i64(&p->params, p->feed_pos);
    wire_param_i64(&p->params, p->feed_at);
    rc = rc == QP_OK ? wire_send(&p->wire, s, &p->params,
                                 (struct wire_answer){take_outcome, out, false}, err)
                     : rc;
    return rc == QP_OK ? wire_wait(&p->wire, err) : rc;
}

/* COMMIT was sent and its answer did not come. The old server process may still be at it.
 *
 * A server that crashed before the transaction was on disk has forgotten its id, too, and gives it to
 * another one: that this one is committed says nothing. So what was written is looked for: the feed row, at
 * its position and with its time, which another of the same id cannot have. What has none changes nothing
 * that is not compared again, claims by their token and leases by their run; but for the writes of a host
 * that stand alone, of which then nobody knows. */
static int resolve(struct postgres_provider *p, struct qp_err *err)
{
    struct outcome o = {.status = STATUS_IN_PROGRESS};
    int rc = QP_OK;
    p->active = false;
    for (int i = 0; i < STATUS_TRIES && o.status == STATUS_IN_PROGRESS; i++) {
        if (i > 0) {
            wire_pause(STATUS_PAUSE_MS);
        }
        rc = ask_outcome(p, &o, err);
        if (rc != QP_OK && (!p->wire.lost || p->base.away)) {
            break; /* it does not know such a transaction, or is away */
        }
    }
    if (rc == QP_OK &&
        (p->feed_pos == 0 ? o.status == STATUS_COMMITTED && !p->had_host : o.proof > 0)) {
        return QP_OK;
    }
    if (rc == QP_OK &&
        (o.status == STATUS_ABORTED || (o.status == STATUS_COMMITTED && p->feed_pos != 0))) {
        return err_set(err, QP_E_BUSY, "%s: the connection was lost before the commit", p->place);
    }
    return err_set(err, QP_E_UNKNOWN_OUTCOME,
                   "%s: the connection was lost during the commit, and the server does not say "
                   "how it ended",
                   p->place);
}

static int know_xid(struct postgres_provider *p, struct qp_err *err)
{
    int rc = p->xid != 0
                 ? QP_OK
                 : postgres_send(p, PLAIN_XID,
                                 (struct wire_answer){postgres_take_i64, &p->xid, false}, err);
    return rc == QP_OK && p->xid == 0 ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
}

/* By its id the outcome can be learned; so it is known before COMMIT is sent. */
static int postgres_commit(struct provider *base, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc = know_xid(p, err);
    rc = rc == QP_OK ? postgres_send(p, PLAIN_COMMIT, (struct wire_answer){0}, err) : rc;
    if (rc != QP_OK) {
        return lost_is_busy(p, rc, err);
    }
    rc = wire_wait(&p->wire, err);
    if (rc != QP_OK && p->wire.lost) {
        return resolve(p, err);
    }
    if (rc == QP_OK && PQtransactionStatus(p->wire.conn) != PQTRANS_IDLE) {
        return err_set(err, QP_E_BUSY, "%s: the commit did not happen", p->place);
    }
    p->active = rc != QP_OK;
    return rc;
}

static int postgres_snapshot(struct provider *base, bool begin, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc;
    if (!begin) {
        rc = p->in_snapshot && !p->wire.lost
                 ? postgres_send(p, PLAIN_COMMIT, (struct wire_answer){0}, err)
                 : QP_OK;
        rc = rc == QP_OK && p->in_snapshot && !p->wire.lost ? postgres_wait(p, err) : rc;
        p->in_snapshot = false;
        return rc;
    }
    rc = check_ready(p, err);
    rc = rc == QP_OK ? postgres_send(p, PLAIN_SNAPSHOT, (struct wire_answer){0}, err) : rc;
    rc = rc == QP_OK ? postgres_wait(p, err) : rc;
    p->in_snapshot = rc == QP_OK;
    return rc;
}

int postgres_keep_clock(struct postgres_provider *p, struct qp_err *err)
{
    struct wire_statement *s;
    int rc = postgres_plain_statement(p, PLAIN_KEEP_CLOCK, &s, err);
    wire_params_reset(&p->params);
    wire_param_i64(&p->params, p->base.clock_ms);
    wire_param_i64(&p->params, p->head_rev);
    rc = rc == QP_OK ? wire_send(&p->wire, s, &p->params, (struct wire_answer){0}, err) : rc;
    return rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
}

static int send_removal(struct postgres_provider *p, enum plain_statement kind, struct qp_err *err)
{
    struct wire_statement *s;
    int rc = postgres_plain_statement(p, kind, &s, err);
    wire_params_reset(&p->params);
    wire_param_i64(&p->params, LIMIT_HUSK_ROWS);
    return rc == QP_OK ? wire_send(&p->wire, s, &p->params, (struct wire_answer){0}, err) : rc;
}

/* One node at a time keeps the clock and takes husks and zeroes away; the others do not wait for it. */
static int postgres_idle(struct provider *base, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int64_t now_us = base->env->monotonic_us(base->env->context);
    int rc = check_ready(p, err);
    if (rc != QP_OK || base->read_only ||
        now_us - p->idle_us < LIMIT_CLOCK_KEEP_MS * INT64_C(1000)) {
        return rc;
    }
    p->idle_us = now_us;
    rc = send_state(p, err);
    rc = rc == QP_OK ? postgres_keep_clock(p, err) : lost_is_busy(p, rc, err);
    rc = rc == QP_OK ? send_removal(p, PLAIN_HUSKS, err) : rc;
    rc = rc == QP_OK ? send_removal(p, PLAIN_ZEROES, err) : rc;
    return rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
}

static int postgres_tidies(struct provider *base, bool *out_may, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int64_t may = 0;
    int rc =
        postgres_send(p, PLAIN_TIDIES, (struct wire_answer){postgres_take_i64, &may, false}, err);
    rc = rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
    *out_may = may != 0;
    return rc;
}

/* -------------------------------------------------------------------------------------- numbers */

static int block_take(struct postgres_provider *p, enum txn_series series, struct qp_err *err)
{
    struct provider_block *b = &p->base.blocks[series];
    int64_t size = series == SERIES_ID ? POSTGRES_IDS_PER_BLOCK : POSTGRES_ORDERS_PER_BLOCK;
    int64_t first = 0;
    int rc = postgres_send(p, series == SERIES_ID ? PLAIN_IDS : PLAIN_ORDERS,
                           (struct wire_answer){postgres_take_i64, &first, false}, err);
    rc = rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
    if (rc == QP_OK && first == b->end) {
        b->end += size; /* nobody came between: it goes on */
    } else if (rc == QP_OK) {
        *b = (struct provider_block){first, first, first + size};
    }
    return rc;
}

/* Blocks of a sequence are a handle's own; a block is large enough for every request, and what is left
 * of it when a larger one comes is lost. */
static int postgres_number(struct provider *base, enum txn_series series, int64_t count,
                           int64_t *out_first, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    struct provider_block *b = &base->blocks[series];
    int rc;
    if (series == SERIES_POS) {
        rc = know_xid(p, err);
        *out_first = p->pos_base + (p->xid << POSTGRES_POS_BITS);
        return rc;
    }
    rc = b->end - b->next < count ? block_take(p, series, err) : QP_OK;
    if (rc == QP_OK && b->end - b->next < count) {
        rc = err_set(err, QP_E_LIMIT, "so many numbers are not given out at once");
    }
    if (rc == QP_OK) {
        *out_first = b->next;
        b->next += count;
    }
    return rc;
}

static int postgres_settled(struct provider *base, int64_t *out_pos, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc = check_ready(p, err);
    rc = rc == QP_OK ? postgres_send(p, PLAIN_SETTLED,
                                     (struct wire_answer){postgres_take_i64, out_pos, false}, err)
                     : rc;
    return rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
}

/* ----------------------------------------------------------------------------------------- rows */

/* Texts stay in the answer. */
static int row_read(struct postgres_provider *p, const PGresult *r, int place, enum table_id table,
                    void *row, struct qp_err *err)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        if (c->kind == KIND_I64) {
            row_set_i64(c, row, wire_i64(r, place, (int)i));
        } else {
            row_set_str(c, row, wire_str(r, place, (int)i));
        }
    }
    if (row_is_sound(table, row)) {
        return QP_OK;
    }
    p->base.failure = QP_E_CORRUPT;
    return err_set(err, QP_E_CORRUPT,
                   "%s: a row of %s cannot be what it says: the store is damaged", p->place,
                   t->name);
}

union any_row {
    int64_t align;
    char bytes[1024];
};

struct loading {
    struct postgres_provider *p;
    struct arena *arena;
    enum table_id table;
    void *row;
};

static int take_row(void *context, const PGresult *result, struct qp_err *err)
{
    struct loading *l = context;
    union any_row row;
    int rc;
    QP_ASSERT(tables[l->table].row_size <= sizeof row);
    if (PQntuples(result) == 0) {
        return QP_OK;
    }
    rc = row_read(l->p, result, 0, l->table, &row, err);
    l->row = rc == QP_OK ? row_copy(l->arena, l->table, &row) : NULL;
    return rc == QP_OK && l->row == NULL
               ? err_set(err, QP_E_NOMEM, "load %s: out of memory", tables[l->table].name)
               : rc;
}

static int load_send(struct loading *l, enum table_statement kind, const void *key,
                     struct qp_err *err)
{
    struct postgres_provider *p = l->p;
    const struct table *t = &tables[l->table];
    struct wire_statement *s;
    int rc = postgres_table_statement(p, l->table, kind, &s, err);
    wire_params_reset(&p->params);
    for (size_t i = 0; i < t->key_count; i++) {
        const struct column *c = &t->columns[i];
        if (c->kind == KIND_I64) {
            wire_param_i64(&p->params, row_i64(c, key));
        } else {
            wire_param_str(&p->params, row_str(c, key));
        }
    }
    return rc == QP_OK
               ? wire_send(&p->wire, s, &p->params, (struct wire_answer){take_row, l, false}, err)
               : rc;
}

static int load_by(struct loading *l, enum table_statement kind, const void *key,
                   struct qp_err *err)
{
    int rc = load_send(l, kind, key, err);
    return rc == QP_OK ? postgres_wait(l->p, err) : lost_is_busy(l->p, rc, err);
}

/* Outside of a transaction a lost connection is connected again, and what was asked is asked
 * again. */
static int load_free(struct loading *l, const void *key, struct qp_err *err)
{
    struct postgres_provider *p = l->p;
    int rc = check_ready(p, err);
    rc = rc == QP_OK ? load_by(l, STATEMENT_LOAD, key, err) : rc;
    if (rc == QP_E_BUSY && p->wire.lost && !p->active && !p->in_snapshot) {
        rc = check_ready(p, err);
        rc = rc == QP_OK ? load_by(l, STATEMENT_LOAD, key, err) : rc;
    }
    return rc;
}

static bool has_limit(enum table_id table, const void *row)
{
    return table == TABLE_lane && row != NULL && ((const struct lane_row *)row)->max > 0;
}

static int postgres_load(struct provider *base, struct arena *arena, enum table_id table,
                         const void *key, void **out_row, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    const struct table *t = &tables[table];
    struct loading l = {p, arena, table, NULL};
    int rc = QP_OK;
    if (!p->active) {
        rc = load_free(&l, key, err);
    } else if (t->additive) {
        rc = load_by(&l, STATEMENT_LOAD, key, err);
        if (rc == QP_OK && has_limit(table, l.row)) {
            l.row = NULL;
            rc = load_by(&l, STATEMENT_LOAD_LOCK, key, err);
        }
    } else {
        if (t->keyed_by_job && table != TABLE_job) {
            rc = lock_job(p, row_i64(&t->columns[0], key), row_i64(&t->columns[1], key), err);
        } else if (table == TABLE_job) {
            rc = locked_add(p, ((const struct job_row *)key)->job, err);
        }
        rc = rc == QP_OK ? load_by(&l, STATEMENT_LOAD_LOCK, key, err) : lost_is_busy(p, rc, err);
    }
    if (rc == QP_OK) {
        *out_row = l.row;
    }
    return rc;
}

static int postgres_peek(struct provider *base, struct arena *arena, enum table_id table,
                         const void *key, void **out_row, struct qp_err *err)
{
    struct loading l = {self(base), arena, table, NULL};
    int rc = load_free(&l, key, err);
    if (rc == QP_OK) {
        *out_row = l.row;
    }
    return rc;
}

/* All are asked for before the first answer is read. */
static int load_all_once(struct loading *all, const void *const *keys, size_t count,
                         struct qp_err *err)
{
    struct postgres_provider *p = all[0].p;
    int rc = check_ready(p, err);
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        all[i].row = NULL;
        rc = load_send(&all[i], STATEMENT_LOAD_SLIM, keys[i], err);
    }
    if (rc == QP_OK) {
        return postgres_wait(p, err);
    }
    if (wire_wait(&p->wire, NULL) != QP_OK) { /* what was sent is answered into `all` */
        p->wire.lost = true;
    }
    return lost_is_busy(p, rc, err);
}

static int postgres_load_all(struct provider *base, struct arena *arena, enum table_id table,
                             const void *const *keys, size_t count, void **out_rows,
                             struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    struct loading *all = mem_alloc(base->env, (count + 1) * sizeof *all);
    int rc = all == NULL ? err_set(err, QP_E_NOMEM, "load: out of memory") : QP_OK;
    QP_ASSERT(!p->active);
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        all[i] = (struct loading){p, arena, table, NULL};
    }
    rc = rc == QP_OK && count > 0 ? load_all_once(all, keys, count, err) : rc;
    if (rc == QP_E_BUSY && p->wire.lost && !p->in_snapshot) {
        rc = load_all_once(all, keys, count, err); /* as load_free */
    }
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        out_rows[i] = all[i].row;
    }
    mem_free(base->env, all);
    return rc;
}

/* ---------------------------------------------------------------------------------------- scans */

struct scanning {
    struct postgres_provider *p;
    enum table_id table;
    PGresult *result;
};

/* The answer is kept: visits may ask for other rows. */
static int take_result(void *context, const PGresult *result, struct qp_err *err)
{
    struct scanning *s = context;
    s->result = PQcopyResult(result, PG_COPYRES_TUPLES);
    return s->result == NULL ? err_set(err, QP_E_NOMEM, "scan: out of memory") : QP_OK;
}

static enum scan_lock lock_of_scan(const struct postgres_provider *p, const struct scan *scan)
{
    const struct table *t = &tables[scan->table];
    bool of_job = t->keyed_by_job && scan->index < 0 && scan->prefix_count >= 2;
    if (!p->active || t->additive || of_job || scan->peek || scan->table == TABLE_head) {
        return SCAN_FREE;
    }
    return scan->skip_locked ? SCAN_SKIP : SCAN_LOCK;
}

static int scan_once(struct scanning *sc, const struct scan *scan, size_t limit, struct qp_err *err)
{
    struct postgres_provider *p = sc->p;
    const struct table *t = &tables[scan->table];
    enum scan_lock lock = lock_of_scan(p, scan);
    struct wire_statement *s;
    int rc = QP_OK;
    if (t->keyed_by_job && scan->index < 0 && scan->prefix_count >= 2) {
        rc = lock_job(p, row_i64(&t->columns[0], scan->prefix),
                      row_i64(&t->columns[1], scan->prefix), err);
    }
    rc = rc == QP_OK ? postgres_scan_statement(p, scan, lock, &s, err) : rc;
    wire_params_reset(&p->params);
    postgres_scan_params(&p->params, scan, limit);
    rc = rc == QP_OK
             ? wire_send(&p->wire, s, &p->params, (struct wire_answer){take_result, sc, false}, err)
             : rc;
    if (rc == QP_OK && lock != SCAN_FREE && p->xid == 0) {
        rc = postgres_send(p, PLAIN_XID_IF_ANY,
                           (struct wire_answer){postgres_take_i64, &p->xid, false}, err);
    }
    return rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
}

/* As load_free: a page that was asked for by nobody's transaction is asked for again. */
static int scan_send(struct scanning *sc, const struct scan *scan, size_t limit, struct qp_err *err)
{
    struct postgres_provider *p = sc->p;
    int rc = scan_once(sc, scan, limit, err);
    if (rc == QP_E_BUSY && p->wire.lost && !p->active && !p->in_snapshot) {
        PQclear(sc->result);
        sc->result = NULL;
        rc = check_ready(p, err);
        rc = rc == QP_OK ? scan_once(sc, scan, limit, err) : rc;
    }
    return rc;
}

/* A lane with a limit counts only what it is while we hold it; one that another holds is passed
 * over. */
static int lane_lock(struct postgres_provider *p, struct arena *arena, const struct lane_row *lane,
                     void **out_row, struct qp_err *err)
{
    struct scan one = {.table = TABLE_lane,
                       .index = -1,
                       .prefix = lane,
                       .prefix_count = 3,
                       .limit = 1,
                       .skip_locked = true};
    struct scanning sc = {p, TABLE_lane, NULL};
    struct loading l = {p, arena, TABLE_lane, NULL};
    struct wire_statement *s;
    int rc = postgres_scan_statement(p, &one, SCAN_SKIP, &s, err);
    wire_params_reset(&p->params);
    postgres_scan_params(&p->params, &one, 1);
    rc = rc == QP_OK ? wire_send(&p->wire, s, &p->params,
                                 (struct wire_answer){take_result, &sc, false}, err)
                     : rc;
    rc = rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
    rc = rc == QP_OK ? take_row(&l, sc.result, err) : rc;
    PQclear(sc.result);
    *out_row = l.row;
    return rc;
}

static int visit_lane(struct postgres_provider *p, const struct lane_row *lane, void *context,
                      store_visit visit, struct qp_err *err)
{
    struct arena arena;
    void *held = NULL;
    int rc;
    if (!p->active || lane->max == 0) {
        return visit(context, lane);
    }
    arena_init(&arena, p->base.env, 0);
    rc = lane_lock(p, &arena, lane, &held, err);
    rc = rc == QP_OK && held != NULL ? visit(context, held) : rc;
    arena_done(&arena);
    return rc;
}

/* One page; the last row of it is where the next one begins. */
static int scan_page(struct postgres_provider *p, const struct scan *scan, size_t limit,
                     void *context, store_visit visit, struct scanning *sc, union any_row *last,
                     struct qp_err *err)
{
    int rc = scan_send(sc, scan, limit, err);
    int count = rc == QP_OK ? PQntuples(sc->result) : 0;
    for (int i = 0; i < count && rc == QP_OK; i++) {
        rc = row_read(p, sc->result, i, scan->table, last, err);
        if (rc == QP_OK) {
            rc = scan->table == TABLE_lane
                     ? visit_lane(p, (const struct lane_row *)last, context, visit, err)
                     : visit(context, last);
        }
    }
    return rc;
}

static int scan_pages(struct postgres_provider *p, const struct scan *scan, void *context,
                      store_visit visit, struct qp_err *err)
{
    struct scan page = *scan;
    struct scanning sc = {p, scan->table, NULL};
    PGresult *former = NULL; /* `after` points into it */
    union any_row last[2];
    size_t left = scan->limit;
    size_t want = SCAN_PAGE_ROWS;
    size_t got = want;
    int which = 0;
    int rc = QP_OK;
    QP_ASSERT(tables[scan->table].row_size <= sizeof last[0]);
    while (rc == QP_OK && left > 0 && got == want) {
        want = left < SCAN_PAGE_ROWS ? left : SCAN_PAGE_ROWS;
        sc.result = NULL;
        rc = scan_page(p, &page, want, context, visit, &sc, &last[which], err);
        got = sc.result == NULL ? 0 : (size_t)PQntuples(sc.result);
        left -= got;
        PQclear(former);
        former = sc.result;
        page.after = &last[which];
        which = 1 - which;
        /* All columns of the order are fixed: there is one such row, and it was found. */
        got = page.prefix_count >= tables[scan->table].key_count && scan->index < 0 ? 0 : got;
    }
    PQclear(former);
    return rc;
}

static int postgres_scan(struct provider *base, const struct scan *scan, void *context,
                         store_visit visit, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc = check_ready(p, err);
    return rc == QP_OK ? scan_pages(p, scan, context, visit, err) : rc;
}

/* ------------------------------------------------------------------------------- whole jobs ahead */

struct fetching {
    struct postgres_provider *p;
    enum table_id table;
    void *context;
    provider_visit visit;
    bool *left;
};

static int take_rows(void *context, const PGresult *result, struct qp_err *err)
{
    const struct fetching *f = context;
    union any_row row;
    int flag = (int)tables[f->table].column_count;
    int rc = QP_OK;
    for (int i = 0; i < PQntuples(result) && rc == QP_OK; i++) {
        if (wire_i64(result, i, flag) != 0) {
            *f->left = true;
            continue;
        }
        rc = row_read(f->p, result, i, f->table, &row, err);
        rc = rc == QP_OK ? f->visit(f->context, f->table, &row) : rc;
    }
    return rc;
}

static void put_jobs(struct wire_params *out, const struct job_list *list)
{
    wire_params_reset(out);
    wire_array_begin(out, false, list->count);
    for (size_t i = 0; i < list->count; i++) {
        wire_array_i64(out, list->jobs[i].ns);
    }
    wire_array_end(out);
    wire_array_begin(out, false, list->count);
    for (size_t i = 0; i < list->count; i++) {
        wire_array_i64(out, list->jobs[i].job);
    }
    wire_array_end(out);
}

static int fetch_send(struct postgres_provider *p, struct fetching *f, struct qp_err *err)
{
    struct wire_statement *s;
    int rc = postgres_table_statement(p, f->table, STATEMENT_FETCH, &s, err);
    return rc == QP_OK
               ? wire_send(&p->wire, s, &p->params, (struct wire_answer){take_rows, f, false}, err)
               : rc;
}

/* The jobs are locked by the first statement, in order; those behind it see what was committed before
 * it had the locks. */
static int postgres_expect(struct provider *base, const struct job_list *locked,
                           const struct job_list *fetched, void *context, provider_visit visit,
                           bool *out_left, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    struct fetching fetches[TABLE_COUNT];
    int rc = QP_OK;
    *out_left = false;
    for (int i = 0; i < TABLE_COUNT && rc == QP_OK; i++) {
        const struct job_list *list = i == TABLE_job || i == TABLE_msg ? locked : fetched;
        if ((i == TABLE_job || fetched_tables[i]) && list->count > 0) {
            fetches[i] = (struct fetching){p, (enum table_id)i, context, visit, out_left};
            put_jobs(&p->params, list);
            rc = fetch_send(p, &fetches[i], err);
        }
    }
    for (size_t i = 0; i < locked->count && rc == QP_OK; i++) {
        rc = locked_add(p, locked->jobs[i].job, err);
    }
    if (rc == QP_OK && locked->count > 0 && p->xid == 0) {
        rc = postgres_send(p, PLAIN_XID, (struct wire_answer){postgres_take_i64, &p->xid, false},
                           err);
    }
    return rc == QP_OK ? postgres_wait(p, err) : lost_is_busy(p, rc, err);
}

/* ------------------------------------------------------------------------------- host callbacks */

/* The host gets the connection in its usual state: no pipeline, and a planner that may do anything. */
static int postgres_host_begin(struct provider *base, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    int rc = postgres_wait(p, err);
    rc = rc == QP_OK ? wire_leave(&p->wire, err) : rc;
    rc = rc == QP_OK ? wire_exec(&p->wire,
                                 "SAVEPOINT qp_host; SET LOCAL enable_seqscan=on;"
                                 "SET LOCAL enable_hashjoin=on; SET LOCAL enable_mergejoin=on",
                                 NULL, NULL, err)
                     : rc;
    p->in_host = rc == QP_OK;
    p->had_host = true;
    return lost_is_busy(p, rc, err);
}

/* PostgreSQL takes nothing more after a statement that failed: a callback that went on all the same
 * has not done what it believes. */
static int postgres_host_check(struct provider *base)
{
    return PQtransactionStatus(self(base)->wire.conn) == PQTRANS_INTRANS ? QP_OK : QP_E_ABORTED;
}

static int postgres_host_end(struct provider *base, bool keep, struct qp_err *err)
{
    struct postgres_provider *p = self(base);
    PGTransactionStatusType status = PQtransactionStatus(p->wire.conn);
    int rc;
    p->in_host = false;
    if (PQstatus(p->wire.conn) != CONNECTION_OK) {
        p->wire.lost = true; /* it broke under the callback, whose fault it is not */
        return err_set(err, QP_E_BUSY, "%s: the connection was lost in a host callback", p->place);
    }
    if (status != PQTRANS_INTRANS && status != PQTRANS_INERROR) {
        p->wire.lost = true; /* whatever it left there: another one is better */
        return err_set(err, QP_E_ABORTED, "%s: a host callback ended the transaction", p->place);
    }
    rc = wire_exec(&p->wire,
                   keep ? "RELEASE qp_host; SET LOCAL enable_seqscan=off;"
                          "SET LOCAL enable_hashjoin=off; SET LOCAL enable_mergejoin=off"
                        : "ROLLBACK TO qp_host; RELEASE qp_host",
                   NULL, NULL, err);
    if (rc != QP_OK && p->wire.lost) {
        return lost_is_busy(p, rc, err);
    }
    if (rc != QP_OK) {
        p->wire.lost = true;
        return err_set(err, QP_E_ABORTED, "%s: a host callback left the savepoint", p->place);
    }
    return wire_enter(&p->wire, err);
}

static void *postgres_native(struct provider *base)
{
    return self(base)->wire.conn;
}

static int64_t schema_version(const struct provider *base)
{
    return ((const struct postgres_provider *)base)->schema_version;
}

const struct provider_calls postgres_calls = {
    .name = "postgres",
    .connect = postgres_connect,
    .begin = postgres_begin,
    .load = postgres_load,
    .peek = postgres_peek,
    .load_all = postgres_load_all,
    .scan = postgres_scan,
    .expect = postgres_expect,
    .number = postgres_number,
    .settled = postgres_settled,
    .write = postgres_write,
    .write_all = postgres_write_all,
    .commit = postgres_commit,
    .wait = postgres_let_pass,
    .rollback = postgres_rollback,
    .host_begin = postgres_host_begin,
    .host_check = postgres_host_check,
    .host_end = postgres_host_end,
    .native = postgres_native,
    .snapshot = postgres_snapshot,
    .tidies = postgres_tidies,
    .wake_fd = postgres_wake_fd,
    .wake_take = postgres_wake_take,
    .wake_others = postgres_wake_others,
    .idle = postgres_idle,
    .schema_version = schema_version,
    .close = postgres_close,
};
