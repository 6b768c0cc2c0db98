/* execute.c - from a commit's bundles to one transaction
 *
 * A commit runs bundle by bundle, op by op, on rows in memory (txn.h), and ends in one flush and
 * one commit of the provider:
 *
 *   begin -> for each bundle { ops; host calls | undo } -> flush -> commit
 *      |                                                     |        |
 *      +------- any failure that is not a bundle's own ------+--------+--> rollback; every bundle gets that code
 *
 *   I1  at most one commit is in the writer's hands (s->written), and one is decided in front of it
 *       (s->ahead); with a writer the provider's transaction begins when something is asked of it, or when
 *       the rows are written (txn.begun)
 *   I2  whoever asks the provider for anything has settled what is written first: the connection is used
 *       by one thread at a time
 *   I3  what was decided on a commit that failed fails with its code, also when it writes nothing
 *   I4  where others write, a commit that met them is run again from its start, a bounded number of times
 *
 * If we crash anywhere before the provider's commit returns, either nothing of it exists or all of
 * it does; that is the provider's promise (I1 of store.h), and this file adds no state of its own
 * to it. What was decided in front of it never was.
 */
#include "store/store_internal.h"

#include "base/failpoint.h"

static void bundle_begin(struct txn *t, struct bundle *b);
static int reach(struct txn *t);

static void bundles_fail(struct commit *c, int rc, bool only_done)
{
    for (struct bundle *b = c->first; b != NULL; b = b->next) {
        if (!only_done || b->rc == QP_OK) {
            b->rc = rc;
        }
    }
}

static void commit_end(struct commit *c, int rc)
{
    if (c->txn != NULL) {
        c->ready_count = c->txn->ready_count;
        c->ready_topics = c->txn->ready_topics;
        c->due_at = c->txn->due_at;
        if (rc == QP_OK) {
            buf_done(&c->journal);
            c->journal = c->txn->feed;
            buf_init(&c->txn->feed, c->journal.env, 0);
        }
        txn_done(c->txn);
    }
    c->rc = rc;
    c->state = COMMIT_DONE;
    c->txn = NULL;
}

/* A failure of the store itself: nothing of this commit exists, or, after a lost commit, nobody
 * knows. */
static void commit_abort(struct store *s, struct commit *c, int rc)
{
    if (c->txn != NULL && c->txn->begun) {
        s->provider->calls->rollback(s->provider);
    }
    if (c->txn != NULL && rc != QP_E_UNKNOWN_OUTCOME) {
        txn_give_back(c->txn);
    }
    /* What it was told is not so, and what went wrong may be what it knows. */
    store_forget(s);
    bundles_fail(c, rc, rc == QP_E_UNKNOWN_OUTCOME);
    if (qp_code_class(rc) == QP_CLASS_FATAL ||
        (rc == QP_E_UNKNOWN_OUTCOME && !s->provider->shared)) {
        s->refusing = rc == QP_E_UNKNOWN_OUTCOME ? QP_E_FSYNC : rc;
    }
    commit_end(c, rc);
}

/* The job of an op that begins by naming one: all but those that make it, or have none. */
static struct job_ref job_of_op(const struct op *op)
{
    switch (op->kind) {
    case OP_space_create:
    case OP_ids_reserve:
    case OP_node_put:
    case OP_job_create:
    case OP_msg_claim:
    case OP_msg_adopt:
    case OP_lane_limit:
    case OP_hook_close:
    case OP_hook_signal:
    case OP_key_acquire:
    case OP_key_extend:
    case OP_key_release:
    case OP_wake:
    case OP_feed_trim:
    case OP_audit_add:
    case OP_idem_put:
    case OP_access_put:
    case OP_access_set:
    case OP_app_put:
    case OP_app_activate:
    case OP_app_delete:
    case OP_app_collect:
    case OP_topic_put:
    case OP_universe_open:
    case OP_fact_put:
    case OP_universe_seal:
    case OP_universe_retire:
    case OP_universe_drop:
    case OP_host_call:
    case OP_COUNT:
        return (struct job_ref){0, 0};
    default:
        return op->job_set.ref; /* which all others begin with, those of messages too */
    }
}

static struct job_ref job_of_bundle(const struct bundle *b)
{
    struct op_place place;
    struct job_ref ref = b->job;
    struct op *op = b->decide == NULL ? bundle_first(b, &place) : NULL;
    for (; op != NULL && ref.job == 0; op = bundle_next(&place)) {
        ref = job_of_op(op);
    }
    return ref;
}

/* Tells the provider which jobs the commit is about, as far as that is known. */
static int commit_expect(struct commit *c)
{
    struct job_ref *jobs;
    size_t count = 0;
    if (c->txn->provider->calls->expect == NULL) {
        return QP_OK;
    }
    jobs = arena_room(&c->arena, (c->bundle_count + 1) * sizeof *jobs);
    if (jobs == NULL) {
        return err_set(&c->err, QP_E_NOMEM, "commit: out of memory");
    }
    for (const struct bundle *b = c->first; b != NULL; b = b->next) {
        jobs[count] = job_of_bundle(b);
        count += jobs[count].job > 0;
    }
    return txn_expect(c->txn, jobs, count);
}

static int commit_start(struct store *s, struct commit *c)
{
    int rc = FP("commit.begin");
    if (rc == QP_OK && s->writer == NULL) {
        rc = s->provider->calls->begin(s->provider, &c->err);
    }
    if (rc != QP_OK) {
        return rc;
    }
    c->txn = ARENA_NEW(&c->arena, struct txn);
    rc = c->txn == NULL ? err_set(&c->err, QP_E_NOMEM, "commit: out of memory")
                        : txn_init(c->txn, s, s->provider, &c->arena, s->entries, &c->err);
    if (rc != QP_OK && s->writer == NULL) {
        s->provider->calls->rollback(s->provider);
    }
    if (rc != QP_OK) {
        return rc;
    }
    c->txn->begun = s->writer == NULL;
    c->txn->reach = reach;
    c->txn->hash_seed = s->hash_seed;
    c->txn->cache = s->cache;
    rc = commit_expect(c);
    c->txn->now = store_now(s);
    bundle_begin(c->txn, c->first);
    return rc;
}

/* Whether others were in the way, and there is a try left, and time for it: somebody waits for this commit. A
 * server that cannot be reached is not waited for here. */
static bool commit_may_try(const struct store *s, struct commit *c, int rc)
{
    int64_t took_us = s->env.monotonic_us(s->env.context) - c->began_us;
    return s->provider->shared && !s->provider->away &&
           (rc == QP_E_BUSY || rc == QP_E_CONFLICT || rc == QP_E_TIMEOUT) &&
           ++c->tries < LIMIT_COMMIT_TRIES && took_us < LIMIT_COMMIT_MS * INT64_C(1000);
}

/* From the start, a little later each time. The memory of the former try stays until the end, since ops may
 * point into it. */
static bool commit_again(struct store *s, struct commit *c, int rc)
{
    if (!commit_may_try(s, c, rc)) {
        return false;
    }
    if (c->txn != NULL) { /* else there is no transaction yet */
        s->provider->calls->rollback(s->provider);
        txn_give_back(c->txn);
        txn_done(c->txn);
        c->txn = NULL;
    }
    store_forget(s); /* what it was told is not so */
    for (struct bundle *b = c->first; b != NULL; b = b->next) {
        b->rc = QP_E_BUSY;
        b->stop = (struct stop){0};
    }
    s->provider->calls->wait(s->provider, c->tries);
    return true;
}

/* One callback, within its time. */
static int host_call(struct store *s, const struct op_host_call *op)
{
    int64_t from = s->env.monotonic_us(s->env.context);
    int rc = op->call(op->context, s->provider->calls->native(s->provider));
    int64_t took_us = s->env.monotonic_us(s->env.context) - from;
    if (rc == QP_OK && s->provider->calls->host_check != NULL) {
        rc = s->provider->calls->host_check(s->provider);
    }
    if (rc != QP_OK) {
        return QP_E_ABORTED;
    }
    return took_us > LIMIT_HOST_CALLBACK_MS * INT64_C(1000) ? QP_E_TIMEOUT : QP_OK;
}

/* Runs the bundle's host calls, inside a nested transaction of the provider, so that a refusal
 * takes back what they wrote. */
static int bundle_host_calls(struct store *s, struct commit *c, struct bundle *b)
{
    struct provider *p = s->provider;
    struct op_place place;
    size_t index = 0;
    int rc = c->txn->begun ? QP_OK : reach(c->txn);
    int end;
    rc = rc == QP_OK ? p->calls->host_begin(p, &c->err) : rc;
    /* It has the connection: what it may do there is not ours to know. */
    store_forget(s);
    c->txn->cache = NULL;
    if (rc != QP_OK) {
        c->txn->rc = rc;
        return rc;
    }
    for (struct op *op = bundle_first(b, &place); op != NULL && rc == QP_OK;
         op = bundle_next(&place)) {
        if (op->kind == OP_host_call) {
            rc = host_call(s, &op->host_call);
            c->txn->op_index = index;
        }
        index++;
    }
    end = p->calls->host_end(p, rc == QP_OK, &c->err);
    c->txn->rc = end;
    return end != QP_OK ? end : rc;
}

static void bundle_begin(struct txn *t, struct bundle *b)
{
    t->bundle = b;
    t->last_bundle = b != NULL ? b : t->last_bundle;
    t->op_index = 0;
    txn_begin_bundle(t);
}

/* The bundle is over, one way or the other; the next one begins. */
static void bundle_end(struct commit *c, int rc)
{
    struct txn *t = c->txn;
    t->bundle->rc = rc;
    if (rc != QP_OK) {
        t->stop.op_index = t->op_index;
        t->bundle->stop = t->stop;
        txn_undo_bundle(t);
    }
    bundle_begin(t, t->bundle->next);
}

/* ------------------------------------------------------------------------------ decided bundles */

int bundle_run(struct bundle *b)
{
    struct txn *t = b->commit->txn;
    int rc = t->bundle_rc;
    for (struct op *op = rc == QP_OK && t->rc == QP_OK ? bundle_take(b) : NULL; op != NULL;
         op = bundle_take(b)) {
        txn_begin_op(t);
        rc = apply_op(t, op);
        rc = rc == QP_OK && t->bundle_size > LIMIT_BUNDLE_SIZE ? QP_E_TOO_LARGE : rc;
        rc = t->bundle_rc != QP_OK ? t->bundle_rc : rc;
        if (rc != QP_OK || t->rc != QP_OK) {
            t->bundle_rc = rc; /* whatever the decision does next, the bundle has ended */
            break;
        }
        t->op_index++;
    }
    return t->rc != QP_OK ? t->rc : rc;
}

int bundle_get(struct bundle *b, enum table_id table, const void *key, const void **out_row)
{
    struct txn *t = b->commit->txn;
    const void *row = t->rc == QP_OK ? txn_get(t, table, key) : NULL;
    if (t->rc != QP_OK) {
        return t->rc;
    }
    *out_row = row;
    return t->bundle_rc;
}

int bundle_peek(struct bundle *b, enum table_id table, const void *key, const void **out_row)
{
    struct txn *t = b->commit->txn;
    const void *row = t->rc == QP_OK ? txn_peek(t, table, key) : NULL;
    if (t->rc != QP_OK) {
        return t->rc;
    }
    *out_row = row;
    return t->bundle_rc;
}

int bundle_guid(struct bundle *b, const struct guid_row *key, struct guid_row *out_guid,
                bool *out_found)
{
    const void *row = NULL;
    struct guid_row first;
    int rc = bundle_get(b, TABLE_act,
                        &(struct act_row){.ns = key->ns, .job = key->job, .addr = key->addr}, &row);
    *out_found = false;
    if (rc != QP_OK || row == NULL) {
        return rc;
    }
    if (act_first_guid(row, &first) && str_equal(first.guid, key->guid)) {
        *out_guid = first;
        *out_found = true;
        return QP_OK;
    }
    if (((const struct act_row *)row)->guid_rows == 0) {
        return QP_OK;
    }
    rc = bundle_get(b, TABLE_guid, key, &row);
    if (rc == QP_OK && row != NULL) {
        *out_guid = *(const struct guid_row *)row;
        *out_found = true;
    }
    return rc;
}

int bundle_scan(struct bundle *b, const struct scan *scan, struct bundle_rows *out_rows)
{
    struct txn *t = b->commit->txn;
    int rc = t->rc != QP_OK ? t->rc : t->bundle_rc;
    return rc != QP_OK ? rc : txn_scan(t, scan, out_rows);
}

int bundle_each(struct bundle *b, const struct scan *scan, void *context, store_visit visit)
{
    struct txn *t = b->commit->txn;
    int rc = t->rc != QP_OK ? t->rc : t->bundle_rc;
    return rc != QP_OK ? rc : txn_each(t, scan, context, visit);
}

int bundle_definitions(struct bundle *b, struct definitions *out_definitions)
{
    return txn_definitions(b->commit->txn, out_definitions);
}

int bundle_tidies(struct bundle *b, bool *out_may)
{
    struct txn *t = b->commit->txn;
    if (t->rc == QP_OK && t->provider->calls->tidies != NULL) {
        t->rc = t->provider->calls->tidies(t->provider, out_may, t->err);
    } else {
        *out_may = true;
    }
    return t->rc;
}

size_t bundle_size(const struct bundle *b)
{
    return b->commit->txn->bundle_size;
}

qp_ms bundle_now(const struct bundle *b)
{
    return b->commit->txn->now;
}

/* The bundle's ops: those that it was given, or what it decides now; from the start, whenever its commit begins
 * again. */
static int bundle_fill(struct bundle *b)
{
    if (b->decide == NULL) {
        b->taken = (struct op_place){NULL, 0};
        return QP_OK;
    }
    bundle_clear(b);
    return b->decide(b->context, b);
}

/* Fills the bundle and carries it out; then the next one begins. A code is that of a commit that cannot go on. */
static int commit_decide(struct store *s, struct commit *c)
{
    struct txn *t = c->txn;
    struct bundle *b = t->bundle;
    int rc = bundle_fill(b);
    QP_ASSERT(b->rc == QP_E_BUSY);
    if (rc == QP_OK) {
        rc = bundle_run(b);
    }
    if (rc == QP_OK && c->rc != QP_OK) {
        rc = c->rc; /* it could not be filled */
    }
    c->rc = QP_OK;
    if (rc == QP_OK && b->host_call_count > 0) {
        rc = bundle_host_calls(s, c, b);
    }
    if (t->rc != QP_OK) {
        return t->rc;
    }
    if (b->transient) {
        size_t host_calls = b->host_call_count; /* commit_has_work asks for it */
        bundle_clear(b);                        /* a thousand bundles use the memory of one */
        b->host_call_count = host_calls;
    }
    bundle_end(c, rc);
    return QP_OK;
}

/* The clock goes with everything else that is written, so that it never falls behind a time that
 * somebody saw. */
static int clock_keep(struct txn *t)
{
    struct head_row *head;
    txn_begin_op(t);
    if (t->provider->shared) {
        t->provider->clock_ms = t->now;
        return QP_OK; /* it would be a row that all wait for: housekeeping keeps the clock */
    }
    head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    if (head != NULL && head->clock < t->now) { /* another handle may have been here later */
        head->clock = t->now;
    }
    return t->rc;
}

/* True when there is something to commit: rows of a bundle that went through, or what its host
 * wrote. Rows of bundles that failed do not count, even if a scan has shown them to the provider:
 * the rollback takes them back. */
static bool commit_has_work(const struct commit *c)
{
    bool dirty = txn_is_dirty(c->txn);
    for (const struct bundle *b = c->first; b != NULL; b = b->next) {
        if (b->rc == QP_OK && (dirty || b->host_call_count > 0)) {
            return true;
        }
    }
    return false;
}

/* All ops are done: what is left of the commit is to be written. */
static int commit_close(struct commit *c)
{
    struct txn *t = c->txn;
    int rc = clock_keep(t);
    rc = rc == QP_OK ? txn_define_close(t) : rc;
    rc = rc == QP_OK ? txn_feed_close(t) : rc;
    rc = rc == QP_OK ? txn_touch(t) : rc;
    if (rc == QP_OK) {
        txn_keep(t);
    }
    return rc;
}

/* On the writer's thread, or on ours. */
static int commit_write(struct commit *c)
{
    struct txn *t = c->txn;
    struct provider *p = t->provider;
    int rc = QP_OK;
    if (p->failure != QP_OK) { /* a checkpoint behind the commit before this one */
        return err_set(&c->err, p->failure, "the store has stopped working; open it again");
    }
    rc = t->begun ? QP_OK : p->calls->begin(p, &c->err);
    t->begun = rc == QP_OK;
    rc = rc == QP_OK ? txn_flush(t) : rc;
    rc = rc == QP_OK ? FP("commit.before") : rc;
    return rc == QP_OK ? p->calls->commit(p, &c->err) : rc;
}

/* The provider has it. */
static void commit_through(struct store *s, struct commit *c)
{
    int rc;
    s->commits++;
    s->rows_written += c->txn->rows_written;
    s->entries = c->txn->entry_count;
    rc = FP("commit.after");
    if (rc != QP_OK) {
        store_forget(s);
        bundles_fail(c, QP_E_UNKNOWN_OUTCOME,
                     true); /* a test plays a lost answer: it is committed, and nobody knows */
        rc = QP_E_UNKNOWN_OUTCOME;
    }
    commit_end(c, rc);
}

/* True when nothing is to be written: then it is done. */
static bool commit_is_empty(struct store *s, struct commit *c)
{
    struct provider *p = c->txn->provider;
    if (commit_has_work(c)) {
        return false;
    }
    store_settle(s); /* its refusals stand on what is being written, too */
    if (c->txn->rc != QP_OK) {
        return false;
    }
    if (c->txn->begun) {
        p->calls->rollback(p);
    }
    commit_end(c, QP_OK);
    return true;
}

static int commit_finish(struct store *s, struct commit *c)
{
    int rc;
    if (commit_is_empty(s, c)) {
        return QP_OK;
    }
    rc = commit_close(c);
    store_settle(s);
    rc = rc == QP_OK ? c->txn->rc : rc; /* of the commit that this one stands on */
    rc = rc == QP_OK ? commit_write(c) : rc;
    if (rc == QP_OK) {
        commit_through(s, c);
    }
    return rc;
}

/* Who met others too often has done nothing wrong: it is worth another try later, and no conflict of its own. */
static int commit_code(const struct store *s, struct commit *c, int rc)
{
    if (!s->provider->shared || rc != QP_E_CONFLICT) {
        return rc;
    }
    c->err.code = QP_E_BUSY; /* the detail is of this failure, and err_wrap keeps it */
    return QP_E_BUSY;
}

/* Its transaction begins. */
static void commit_advance_start(struct store *s, struct commit *c)
{
    int rc = commit_start(s, c);
    if (rc == QP_OK || commit_again(s, c, rc)) {
        return;
    }
    rc = commit_code(s, c, rc);
    if (c->txn != NULL) {
        commit_abort(s, c, rc);
        return;
    }
    bundles_fail(c, rc, false);
    commit_end(c, rc);
}

/* One step: the begin, a bundle, or the end. The outcome is in c->rc. */
static void commit_advance(struct store *s, struct commit *c)
{
    int rc;
    QP_ASSERT(c->state == COMMIT_RUNNING);
    if (c->txn == NULL) {
        commit_advance_start(s, c);
        return;
    }
    rc = c->txn->bundle == NULL ? commit_finish(s, c) : commit_decide(s, c);
    if (rc != QP_OK && !commit_again(s, c, rc)) {
        commit_abort(s, c, commit_code(s, c, rc));
    }
}

static int commit_refuse(struct commit *c, int rc)
{
    bundles_fail(c, rc, false);
    c->rc = rc;
    c->state = COMMIT_DONE;
    return rc;
}

/* From the caller's hands into ours, if it can be carried out at all. */
static int commit_take(struct store *s, struct commit *c)
{
    QP_ASSERT(c->store == s && c->state == COMMIT_FILLING);
    if (c->rc != QP_OK) {
        return commit_refuse(c, c->rc);
    }
    if (store_stopped_by(s) != QP_OK) {
        return commit_refuse(
            c,
            err_set(&c->err, store_stopped_by(s),
                    "the store has stopped working and refuses all further work; open it again"));
    }
    if (!s->writable) {
        return commit_refuse(
            c, err_set(&c->err, QP_E_READONLY, "the store is opened for reading only"));
    }
    c->state = COMMIT_RUNNING;
    c->began_us = s->env.monotonic_us(s->env.context);
    return QP_OK;
}

int store_commit(struct store *s, struct commit *c)
{
    QP_ASSERT(s->ahead == NULL);
    store_settle(s); /* it stands on nothing that may still fail */
    QP_TRY(commit_take(s, c));
    while (c->state == COMMIT_RUNNING) {
        commit_advance(s, c);
    }
    return c->rc;
}

/* ------------------------------------------------------------------- deciding while others write */

bool store_use_writer(struct store *s, const struct store_writer *writer)
{
    QP_ASSERT(s->written == NULL && s->ahead == NULL);
    s->writer = s->provider->exclusive ? writer : NULL;
    return s->writer != NULL;
}

bool store_is_writing(const struct store *s)
{
    return s->written != NULL && s->writer->is_busy(s->writer->context);
}

bool store_has_reached(const struct commit *c)
{
    return c->txn != NULL && c->txn->begun;
}

/* What was decided on a commit that failed was decided on rows that are not there. */
static void ahead_fail(struct store *s, const struct commit *failed)
{
    if (s->ahead != NULL && s->ahead->txn != NULL && s->ahead->txn->rc == QP_OK) {
        s->ahead->txn->rc = failed->rc;
        s->ahead->err = failed->err;
    }
}

void store_settle(struct store *s)
{
    struct commit *c = s->written;
    if (c == NULL) {
        return;
    }
    s->writer->wait(s->writer->context);
    s->written = NULL;
    if (c->write_rc == QP_OK) {
        commit_through(s, c);
    } else {
        commit_abort(s, c, c->write_rc);
    }
    if (c->rc != QP_OK) {
        ahead_fail(s, c);
    }
}

/* txn.reach: the commit before this one is through, and the provider's transaction begins. */
static int reach(struct txn *t)
{
    struct store *s = t->store;
    QP_ASSERT(!t->begun);
    store_settle(s);
    if (t->rc == QP_OK) {
        t->rc = s->provider->calls->begin(s->provider, t->err);
        t->begun = t->rc == QP_OK;
    }
    return t->rc;
}

/* The bundles that were added since the last time. */
static void commit_go_on(struct txn *t, const struct commit *c)
{
    struct bundle *next = t->last_bundle == NULL ? c->first : t->last_bundle->next;
    if (t->bundle == NULL && next != NULL) {
        bundle_begin(t, next);
    }
}

int store_decide(struct store *s, struct commit *c)
{
    int rc = c->state == COMMIT_FILLING ? commit_take(s, c) : QP_OK;
    QP_ASSERT(s->ahead == NULL || s->ahead == c);
    if (rc != QP_OK) {
        return rc;
    }
    s->ahead = c;
    if (c->rc != QP_OK) {
        commit_abort(s, c, c->rc); /* a bundle could not be added */
    } else if (c->txn != NULL) {
        commit_go_on(c->txn, c);
    }
    while (c->state == COMMIT_RUNNING && (c->txn == NULL || c->txn->bundle != NULL)) {
        commit_advance(s, c);
    }
    s->ahead = c->state == COMMIT_RUNNING ? c : NULL;
    return c->state == COMMIT_RUNNING ? QP_OK : c->rc;
}

static void write_elsewhere(void *argument)
{
    struct commit *c = argument;
    c->write_rc = commit_write(c);
}

void store_prepare(struct store *s, struct commit *c)
{
    QP_ASSERT(s->ahead == c && c->state == COMMIT_RUNNING);
    if (c->txn->rc == QP_OK && commit_has_work(c)) {
        txn_keep(c->txn);
    }
}

void store_give_up(struct store *s, struct commit *c, int rc)
{
    QP_ASSERT(c->state != COMMIT_DONE);
    s->ahead = NULL;
    commit_abort(s, c, rc);
}

void store_write(struct store *s, struct commit *c, bool elsewhere)
{
    int rc;
    QP_ASSERT(s->ahead == c && c->state == COMMIT_RUNNING);
    if (!elsewhere || s->writer == NULL || commit_is_empty(s, c)) {
        while (c->state == COMMIT_RUNNING) {
            commit_advance(s, c);
        }
        s->ahead = NULL;
        return;
    }
    rc = commit_close(c);
    store_settle(s);
    rc = rc == QP_OK ? c->txn->rc : rc; /* of the commit that this one stands on */
    if (rc != QP_OK) {
        store_give_up(s, c, rc);
        return;
    }
    s->ahead = NULL;
    s->written = c;
    s->writer->begin(s->writer->context, write_elsewhere, c);
}
