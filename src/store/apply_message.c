/* apply_message.c - the one queue: messages, timers, leases, lanes
 *
 * A lane is all messages of one (topic, limit key). Its counters are what claims obey, so
 *
 *   I1  lane.ready and lane.held = the number of its READY and HELD messages: msg_move is the only
 *       writer of either
 *   I2  a HELD message has exactly one of wake_at (a lease) and holder (an epoch); a DELAYED one
 *       has wake_at; others none. Time limits (time_limits.h) add a wake_at: to a READY message the end of its start
 *       limit, which begins again whenever it becomes READY; to a HELD one the first end of beat and run
 *   I3  token changes with every claim and never otherwise, and no token is given twice, to whatever
 *       message: whoever acts on a message shows the token of its claim
 *   I4  held <= max, where max > 0, for every claim made since max was set; a message that is put into the
 *       hands of a worker at its birth is claimed by that, so it obeys the limit too. A message that no worker
 *       started in time is HELD for the engine, which reports it: no worker has it, so its lane is not asked
 *   I5  a commit says for which topics something has become claimable (ready_topics): a message became READY, or
 *       a lane with a limit that has READY ones was given a place back. Claims look again only then
 *
 * The states and who moves between them are drawn at enum msg_state in rows.h; the table below is
 * that picture.
 *
 * If we crash while a message is HELD, its row says so: a lease ends by itself (wake), an epoch's
 * are adopted. Either way the message is READY again, the next claim's token is higher, and the
 * former holder is refused by I3.
 */
#include "store/apply.h"

#include "base/failpoint.h"
#include "store/error.h"
#include "store/event.h"

/* Which state may follow which. */
static const bool may_follow[MSG_STATES][MSG_STATES] = {
    [MSG_NONE] = {[MSG_READY] = true, [MSG_DELAYED] = true, [MSG_HELD] = true, [MSG_ASIDE] = true},
    [MSG_READY] = {[MSG_NONE] = true, [MSG_HELD] = true, [MSG_ASIDE] = true},
    [MSG_DELAYED] = {[MSG_NONE] = true, [MSG_READY] = true, [MSG_ASIDE] = true},
    [MSG_HELD] = {[MSG_NONE] = true,
                  [MSG_READY] = true,
                  [MSG_DELAYED] = true,
                  [MSG_ASIDE] = true,
                  [MSG_DEAD] = true},
    [MSG_ASIDE] = {[MSG_NONE] = true, [MSG_READY] = true},
    [MSG_DEAD] = {[MSG_NONE] = true, [MSG_READY] = true, [MSG_ASIDE] = true},
};

/* What a lane gets as its limit when it has no setting of its own. */
static int64_t lane_default_max(struct txn *t, const struct msg_row *m)
{
    const struct lane_row *any =
        m->limit_key.n == 0
            ? NULL /* the setting is for keys */
            : txn_get(t, TABLE_lane,
                      &(struct lane_row){.ns = m->ns, .topic = m->topic, .limit_key = QP_STR("*")});
    return any == NULL ? 0 : any->max;
}

/* There is something to claim that was not there before, or not allowed. */
static void note_claimable(struct txn *t, qp_str topic)
{
    t->ready_count++;
    t->ready_topics |= topic_bit(topic);
}

/* The lane of a message, made when it is not there. One without a setting of its own follows the
 * setting for all keys. */
static struct lane_row *lane_edit(struct txn *t, const struct msg_row *m)
{
    struct lane_row key = {.ns = m->ns, .topic = m->topic, .limit_key = m->limit_key};
    struct lane_row *lane;
    /* The setting first: where others write, those who make the same lane wait for each other there. */
    int64_t max = lane_default_max(t, m);
    lane = t->rc == QP_OK ? txn_edit(t, TABLE_lane, &key) : NULL;
    if (lane == NULL && t->rc == QP_OK) {
        /* At the end of the rotation: a key that drains and fills again overtakes nobody. */
        t->rc = txn_number(t, SERIES_ORD, 1, &key.served);
        lane = t->rc == QP_OK ? txn_add(t, TABLE_lane, &key) : NULL;
    }
    if (lane != NULL && lane->own == 0 && lane->max != max) {
        lane->max = max;
        if (lane->ready > 0) {
            note_claimable(t, m->topic);
        }
    }
    return t->rc == QP_OK ? lane : NULL;
}

/* A lane of a limit key that is empty goes, so that keys that come and go leave nothing behind.
 * Settings stay, and so does the lane without a key. */
static int lane_tidy(struct txn *t, const struct lane_row *lane)
{
    if (lane->ready == 0 && lane->held == 0 && lane->limit_key.n > 0 && lane->own == 0) {
        txn_drop(t, TABLE_lane, lane);
    }
    return t->rc;
}

/* `lane`: that of the message, as lane_edit gave it; NULL: it is looked for when it is needed. */
static int lane_count(struct txn *t, struct lane_row *lane, const struct msg_row *m,
                      enum msg_state from, enum msg_state to)
{
    int64_t ready = (to == MSG_READY) - (from == MSG_READY);
    int64_t held = (to == MSG_HELD) - (from == MSG_HELD);
    if (ready == 0 && held == 0) {
        return QP_OK;
    }
    lane = lane != NULL ? lane : lane_edit(t, m);
    if (lane == NULL) {
        return t->rc;
    }
    lane->ready += ready;
    lane->held += held;
    if (ready > 0 || (held < 0 && lane->max > 0 && lane->ready > 0 && !PLANT(limit_forgotten))) {
        note_claimable(t, m->topic);
    }
    /* What many write is a hint here; the server compares the sum. */
    if (!t->provider->shared && (lane->ready < 0 || lane->held < 0)) {
        return txn_corrupt(t, TABLE_lane, "it counts fewer messages than there are");
    }
    return lane_tidy(t, lane);
}

/* What was checked when it was put, and when it was read. */
static struct time_limits limits_of(const struct msg_row *m)
{
    struct time_limits limits = {{0}};
    if (!str_is_none(m->limits)) {
        int rc = time_limits_parse(m->limits, &limits);
        QP_ASSERT(rc == QP_OK);
    }
    return limits;
}

/* Until when a worker must claim it: the limit begins whenever it becomes READY. 0: there is no such limit. */
static int64_t start_until(const struct txn *t, const struct msg_row *m)
{
    qp_ms ms = limits_of(m).ms[TIME_LIMIT_START];
    return ms > 0 ? t->now + ms : 0;
}

/* Until when its holder must send a beat: the lease, or the beat limit in its place, and no later than the end of the
 * attempt. 0: without end. */
static int64_t held_until(const struct txn *t, const struct msg_row *m, int64_t lease_ms)
{
    qp_ms beat_ms = limits_of(m).ms[TIME_LIMIT_BEAT];
    qp_ms silence_ms = beat_ms > 0 ? beat_ms : lease_ms;
    int64_t until = silence_ms > 0 ? t->now + silence_ms : 0;
    return m->deadline > 0 && (until == 0 || m->deadline < until) ? m->deadline : until;
}

static int64_t attempt_until(const struct msg_row *m, int64_t begun_at)
{
    qp_ms run_ms = limits_of(m).ms[TIME_LIMIT_RUN];
    return run_ms > 0 ? begun_at + run_ms : 0;
}

enum time_limit msg_limit_over(const struct txn *t, const struct msg_row *m)
{
    if (m->state == MSG_READY || m->deadline == DEADLINE_UNSTARTED) {
        return TIME_LIMIT_START;
    }
    if (m->deadline > 0 && m->deadline <= t->now) {
        return TIME_LIMIT_RUN;
    }
    return limits_of(m).ms[TIME_LIMIT_BEAT] > 0 ? TIME_LIMIT_BEAT : TIME_LIMIT_NONE;
}

static int msg_move_in(struct txn *t, struct lane_row *lane, struct msg_row *m,
                       enum msg_state state, int64_t wake_at, int64_t holder)
{
    enum msg_state from = (enum msg_state)m->state;
    if (!may_follow[from][state]) {
        return txn_corrupt(t, TABLE_msg, "an index led to a row that does not fit it");
    }
    QP_ASSERT((state == MSG_HELD) == (holder > 0) || wake_at > 0);
    m->state = state;
    m->wake_at = state == MSG_READY ? start_until(t, m) : wake_at;
    m->holder = holder;
    m->deadline = state == MSG_HELD ? m->deadline : 0;
    if (state == MSG_NONE) {
        txn_drop(t, TABLE_msg, m);
    }
    return t->rc != QP_OK ? t->rc : lane_count(t, lane, m, from, state);
}

int msg_move(struct txn *t, struct msg_row *m, enum msg_state state, int64_t wake_at,
             int64_t holder)
{
    return msg_move_in(t, NULL, m, state, wake_at, holder);
}

/* 1 paused, 0 not (or nobody's job), or a negative code. That it is not is a hint, where others write:
 * a message that becomes READY after all is set aside by the claim that meets it. A claim that waited
 * for the job here, with messages in its hands, would be waited for by whoever has the job. */
static bool is_set_aside(const struct job_row *job, const struct msg_row *m)
{
    return job != NULL && (job->paused == PAUSE_ALL ||
                           (job->paused == PAUSE_TASKS && !str_equal(m->topic, ENGINE_TOPIC)));
}

static int job_is_paused(struct txn *t, const struct msg_row *m)
{
    const struct job_row key = {.ns = m->ns, .job = m->job};
    const struct job_row *row = NULL;
    if (m->owner == OWNER_JOB) {
        row = txn_peek(t, TABLE_job, &key);
    }
    if (is_set_aside(row, m)) {
        /* Whoever sets a message aside holds the job: its resumption must find it. */
        row = txn_get(t, TABLE_job, &key);
    }
    return t->rc != QP_OK ? t->rc : is_set_aside(row, m);
}

/* Into the hands of a worker, or of a run: the attempt begins. */
static int msg_hold(struct txn *t, struct lane_row *lane, struct msg_row *m, int64_t lease_ms,
                    int64_t holder)
{
    m->deadline = attempt_until(m, t->now);
    return msg_move_in(t, lane, m, MSG_HELD, held_until(t, m, lease_ms), holder);
}

/* The try is counted, as the failure will be that the engine reports: what is left of the two stays the number of
 * deliveries without an answer. */
int msg_unstarted(struct txn *t, struct msg_row *m, int64_t hold_ms)
{
    int paused = job_is_paused(t, m);
    QP_ASSERT(m->state == MSG_READY);
    if (paused < 0) {
        return paused;
    }
    if (paused) {
        return msg_move(t, m, MSG_ASIDE, 0, 0);
    }
    if (hold_ms == 0) {
        m->wake_at = start_until(t, m);
        return QP_OK;
    }
    QP_TRY(txn_number(t, SERIES_ORD, 1, &m->token));
    m->tries++;
    m->worker = QP_NONE;
    m->deadline = DEADLINE_UNSTARTED;
    return msg_move(t, m, MSG_HELD, t->now + hold_ms, 0);
}

int msg_release(struct txn *t, struct msg_row *m)
{
    int paused = job_is_paused(t, m);
    return paused < 0 ? paused : msg_move(t, m, paused ? MSG_ASIDE : MSG_READY, 0, 0);
}

/* The entry of a delivery that got no answer. A job that is gone or over gets none. This locks the job while it
 * holds the message, in the opposite order to a commit that brings an answer: where many write, the server detects
 * the deadlock, and one of the two commits is repeated. */
static int lost_note(struct txn *t, const struct msg_row *m)
{
    const struct job_row *job =
        txn_get(t, TABLE_job, &(struct job_row){.ns = m->ns, .job = m->job});
    struct event_facts facts = {.delivery = m->tries,
                                .worker = m->worker,
                                .code = ERROR_CODE_LOST,
                                .error = QP_STR("lease expired"),
                                .address = m->addr};
    qp_str detail;
    if (t->rc != QP_OK || job == NULL || job->state != JOB_OPEN) {
        return t->rc;
    }
    QP_TRY(event_write(t->provider->env, t->arena, &facts, &detail));
    return event_note(t, (struct job_ref){m->ns, m->job}, EVENT_LOST, m->addr, detail, NULL);
}

int msg_give_up(struct txn *t, struct msg_row *m, int64_t lost_kind)
{
    QP_ASSERT(m->state == MSG_HELD);
    if (lost_kind != 0 && m->kind == lost_kind && m->owner == OWNER_JOB) {
        QP_TRY(lost_note(t, m));
    }
    return msg_release(t, m);
}

static int put_check(const struct op_msg_put *put)
{
    struct time_limits limits;
    if (!str_is_none(put->limits)) {
        QP_TRY(time_limits_parse(put->limits, &limits));
    }
    if (put->guid.n != LIMIT_GUID_SIZE || put->topic.n == 0 || put->topic.n > LIMIT_NAME_SIZE ||
        put->limit_key.n > LIMIT_ID_SIZE || str_equal(put->limit_key, QP_STR("*")) ||
        put->priority < 0 || put->priority > LIMIT_PRIORITY || put->addr.n > LIMIT_ADDRESS_SIZE ||
        put->delay_ms < 0 || put->delay_ms > LIMIT_TIMER_MS || put->lease_ms < 0 ||
        put->lease_ms > LIMIT_LEASE_MS || put->holder < 0 ||
        (put->delay_ms > 0) + (put->holder > 0) + (put->lease_ms > 0) > 1) {
        return QP_E_INVALID;
    }
    return put->payload.n > LIMIT_PAYLOAD_HARD_SIZE ? QP_E_TOO_LARGE : QP_OK;
}

static struct msg_row msg_new(const struct txn *t, const struct op_msg_put *put, int64_t ord)
{
    return (struct msg_row){
        .ns = put->ref.ns,
        .job = put->ref.job,
        .guid = put->guid,
        .owner = put->owner,
        .kind = put->kind,
        .topic = put->topic,
        .addr = put->addr,
        .parent_guid = put->parent_guid,
        .payload = put->payload,
        .code = put->code,
        .priority = put->priority,
        .limit_key = put->limit_key.n == 0 ? QP_STR("") : put->limit_key,
        .limits = put->limits.n == 0 ? QP_NONE : put->limits,
        .ord = ord,
        .at = t->now,
    };
}

/* Claimed at its birth, if its lane allows it. Where there is a limit, those that are READY come first. */
static int msg_born_held(struct txn *t, struct msg_row *m, const struct op_msg_put *put)
{
    struct lane_row *lane = lane_edit(t, m);
    if (lane == NULL) {
        return t->rc;
    }
    if (lane->max > 0 && (lane->held >= lane->max || lane->ready > 0) && !PLANT(limit_ignored)) {
        return msg_move_in(t, lane, m, MSG_READY, 0, 0);
    }
    m->token = m->ord; /* from the same series as all tokens */
    m->tries = 1;
    m->worker = put->worker;
    return msg_hold(t, lane, m, put->lease_ms, put->holder);
}

/* From nothing into its first state. */
static int msg_place(struct txn *t, struct msg_row *m, const struct op_msg_put *put)
{
    int paused;
    if (put->delay_ms > 0) {
        return msg_move(t, m, MSG_DELAYED, t->now + put->delay_ms, 0);
    }
    paused = job_is_paused(t, m);
    if (paused < 0) {
        return paused;
    }
    if ((put->holder > 0 || put->lease_ms > 0) && !paused) {
        return msg_born_held(t, m, put);
    }
    return msg_move(t, m, paused ? MSG_ASIDE : MSG_READY, 0, 0);
}

/* A run that is over holds nothing more, whatever it believes of itself. */
static int holder_check(struct txn *t, int64_t epoch)
{
    const struct node_row *node =
        epoch > 0 ? txn_get(t, TABLE_node, &(struct node_row){.epoch = epoch}) : NULL;
    return epoch > 0 && (node == NULL || node->state != NODE_RUNNING) ? apply_missing(t, QP_E_STALE)
                                                                      : QP_OK;
}

/* The row of a message, as far as this commit may look: one that a claim puts beside the claimed one must not wait for the job. */
static const struct msg_row *msg_look(struct txn *t, const struct op_msg_put *put,
                                      const struct msg_row *key)
{
    return put->by.token > 0 ? txn_peek(t, TABLE_msg, key) : txn_get(t, TABLE_msg, key);
}

int msg_insert(struct txn *t, struct op_msg_put *put)
{
    struct msg_row key = {.ns = put->ref.ns, .job = put->ref.job, .guid = put->guid};
    struct msg_row row;
    struct msg_row *m;
    int64_t ord;
    int rc = put_check(put);
    rc = rc == QP_OK ? holder_check(t, put->holder) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    if (msg_look(t, put, &key) != NULL) {
        return put->once ? QP_OK : QP_E_EXISTS;
    }
    rc = t->rc == QP_OK ? txn_number(t, SERIES_ORD, 1, &ord) : t->rc;
    if (rc != QP_OK) {
        return rc;
    }
    row = msg_new(t, put, ord);
    m = put->by.token > 0 ? txn_add_beside(t, TABLE_msg, &row) : txn_add(t, TABLE_msg, &row);
    rc = m == NULL ? t->rc : msg_place(t, m, put);
    put->out_token = rc == QP_OK ? m->token : 0;
    put->out_until = rc == QP_OK && m->token > 0 ? m->wake_at : 0;
    return rc;
}

/* The claim that a message is put beside stands. */
static int check_by(struct txn *t, const struct op_msg_put *op)
{
    struct msg_row key = {.ns = op->by.ns, .job = op->by.job, .guid = op->by.guid};
    const struct msg_row *m;
    if (op->owner != OWNER_JOB || op->by.ns != op->ref.ns || op->by.job != op->ref.job) {
        return QP_E_INVALID;
    }
    m = txn_peek(t, TABLE_msg, &key);
    if (t->rc != QP_OK) {
        return t->rc;
    }
    return m != NULL && m->state == MSG_HELD && m->token == op->by.token ? QP_OK : QP_E_STALE;
}

int apply_msg_put(struct txn *t, struct op_msg_put *op)
{
    struct job_row *job;
    int rc = QP_OK;
    if (op->owner < OWNER_JOB || op->owner > OWNER_SYSTEM || op->by.token < 0) {
        return QP_E_INVALID;
    }
    if (op->by.token > 0) {
        rc = check_by(t, op);
    } else if (op->owner == OWNER_JOB) {
        rc = job_find(t, op->ref, &job);
    }
    return rc == QP_OK ? msg_insert(t, op) : rc;
}

/* --------------------------------------------------------------------------------------- claims */

struct claim {
    struct op_msg_claim *op;
    const struct msg_row **messages; /* room for op->want */
    size_t aside_count;              /* of paused jobs, that were set aside */
    bool full;                       /* as many bytes as one op may read */
};

static int claim_one(struct txn *t, struct claim *c, const struct msg_row *found)
{
    struct op_msg_claim *op = c->op;
    struct msg_row *m;
    int paused = job_is_paused(t, found);
    int rc;
    if (paused < 0) {
        return paused;
    }
    m = txn_edit(t, TABLE_msg, found);
    if (m == NULL) {
        return t->rc;
    }
    if (paused) {
        c->aside_count++;
        return msg_move(t, m, MSG_ASIDE, 0, 0);
    }
    rc = txn_number(t, SERIES_ORD, 1, &m->token);
    if (rc != QP_OK) {
        return rc;
    }
    m->tries++;
    m->worker = op->worker;
    rc = msg_hold(t, NULL, m, op->lease_ms, op->holder);
    if (rc == QP_OK) {
        c->messages[op->out_count++] = m;
    }
    return rc;
}

/* How many of a lane may be held. One without a setting of its own follows that for all keys, whatever it was when
 * the lane was last written. */
static int64_t lane_max(struct txn *t, const struct lane_row *lane)
{
    struct msg_row of = {.ns = lane->ns, .topic = lane->topic, .limit_key = lane->limit_key};
    return lane->own != 0 || lane->limit_key.n == 0 ? lane->max : lane_default_max(t, &of);
}

static size_t size_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Up to `share` messages of a lane, as many as its limit allows. Those that are set aside on the
 * way do not count, so the loop runs until the share is had or the lane is exhausted; each message
 * is set aside at most once. */
static int claim_lane(struct txn *t, struct claim *c, const struct lane_row *key, size_t share)
{
    struct msg_row prefix = {.ns = key->ns, .topic = key->topic, .limit_key = key->limit_key};
    size_t before = c->op->out_count;
    int rc = QP_OK;
    while (rc == QP_OK && !c->full && c->op->out_count - before < share) {
        const struct lane_row *lane = txn_get(t, TABLE_lane, key);
        size_t room = share - (c->op->out_count - before);
        int64_t max = lane == NULL ? 0 : lane_max(t, lane);
        struct bundle_rows found;
        if (max > 0) {
            room = lane->held < max ? size_least(room, (size_t)(max - lane->held)) : 0;
        }
        if (lane == NULL || lane->ready == 0 || room == 0) {
            return t->rc;
        }
        rc = txn_scan(t,
                      &(struct scan){.table = TABLE_msg,
                                     .index = INDEX_msg_ready,
                                     .prefix = &prefix,
                                     .prefix_count = 3,
                                     .limit = room,
                                     .skip_locked = true},
                      &found);
        for (size_t i = 0; i < found.count && rc == QP_OK; i++) {
            rc = claim_one(t, c, found.rows[i]);
        }
        c->full = found.cut;
        if (rc == QP_OK && found.count == 0) {
            return QP_OK; /* another commit is at the ones that are left */
        }
    }
    return rc;
}

/* Whoever is served goes to the end of the rotation. */
static int lane_served(struct txn *t, const struct lane_row *key)
{
    struct lane_row *lane = txn_edit(t, TABLE_lane, key);
    if (lane == NULL) {
        return t->rc;
    }
    lane->max = lane_max(t, lane);
    return t->rc != QP_OK ? t->rc : txn_number(t, SERIES_ORD, 1, &lane->served);
}

/* Two rounds over the open lanes, in the order in which they were served last: equal shares first,
 * then what is left. */
static int claim_lanes(struct txn *t, struct claim *c, const struct bundle_rows *lanes)
{
    size_t want = (size_t)c->op->want;
    size_t share = lanes->count == 0 ? 0 : (want + lanes->count - 1) / lanes->count;
    int rc = QP_OK;
    for (int round = 0; round < 2 && rc == QP_OK; round++) {
        for (size_t i = 0; i < lanes->count && rc == QP_OK && c->op->out_count < want; i++) {
            const struct lane_row *lane = lanes->rows[i];
            size_t left = want - c->op->out_count;
            rc = claim_lane(t, c, lane, round == 0 ? size_least(share, left) : left);
            rc = rc == QP_OK && round == 0 ? lane_served(t, lane) : rc;
        }
    }
    return rc;
}

int apply_msg_claim(struct txn *t, struct op_msg_claim *op)
{
    struct lane_row prefix = {.ns = op->ns, .topic = op->topic};
    struct scan scan = {.table = TABLE_lane,
                        .index = op->ns == 0 ? INDEX_lane_open : INDEX_lane_open_ns,
                        .prefix = &prefix,
                        .prefix_count = op->ns == 0 ? 1 : 2,
                        .limit = (size_t)op->want,
                        .skip_locked = true};
    struct claim c = {.op = op};
    struct bundle_rows lanes;
    int rc;
    if (op->want <= 0 || op->want > LIMIT_CLAIM_MESSAGES ||
        (op->lease_ms > 0) == (op->holder > 0) || op->lease_ms > LIMIT_LEASE_MS || op->holder < 0) {
        return QP_E_INVALID;
    }
    rc = holder_check(t, op->holder);
    if (rc != QP_OK) {
        return rc;
    }
    op->out_count = 0;
    c.messages = arena_alloc(t->arena, (size_t)op->want * sizeof *c.messages);
    if (c.messages == NULL) {
        t->rc = err_set(t->err, QP_E_NOMEM, "claim: out of memory");
        return t->rc;
    }
    rc = txn_scan(t, &scan, &lanes);
    rc = rc == QP_OK ? claim_lanes(t, &c, &lanes) : rc;
    op->out_messages = c.messages;
    op->out_more = rc == QP_OK && (c.full || (c.aside_count > 0 && lanes.count == scan.limit));
    return rc;
}

/* ------------------------------------------------------------------------- with a claim's token */

static int msg_fenced(struct txn *t, const struct msg_ref *ref, struct msg_row **out_message)
{
    struct msg_row *m = txn_edit(
        t, TABLE_msg, &(struct msg_row){.ns = ref->ns, .job = ref->job, .guid = ref->guid});
    if (m == NULL) {
        return apply_missing(t, QP_E_STALE); /* an unknown token is always stale */
    }
    if (m->state != MSG_HELD || (m->token != ref->token && !PLANT(unfenced))) {
        return QP_E_STALE;
    }
    *out_message = m;
    return QP_OK;
}

int apply_msg_fence(struct txn *t, struct op_msg_fence *op)
{
    const struct msg_row *m =
        txn_get(t, TABLE_msg,
                &(struct msg_row){.ns = op->ref.ns, .job = op->ref.job, .guid = op->ref.guid});
    struct msg_row *edit;
    int rc;
    if (t->rc != QP_OK) {
        return t->rc;
    }
    if (op->tries == 0 && str_is_none(op->worker)) { /* the common case writes nothing */
        return m != NULL && m->state == MSG_HELD && m->token == op->ref.token ? QP_OK : QP_E_STALE;
    }
    rc = msg_fenced(t, &op->ref, &edit);
    if (rc == QP_OK && edit->tries + op->tries < 0) {
        rc = QP_E_INVALID;
    }
    if (rc == QP_OK) {
        edit->tries += op->tries;
        edit->worker = str_is_none(op->worker) ? edit->worker : op->worker;
    }
    return rc;
}

int apply_msg_extend(struct txn *t, struct op_msg_extend *op)
{
    struct msg_row *m;
    QP_TRY(msg_fenced(t, &op->ref, &m));
    if (op->lease_ms < 0 || op->lease_ms > LIMIT_LEASE_MS || op->begun_at < 0 ||
        op->begun_at > t->now ||
        (op->lease_ms == 0 && (m->holder == 0 || op->leases || str_is_none(m->limits)))) {
        return QP_E_INVALID;
    }
    if (op->begun_at > 0) {
        m->deadline = attempt_until(m, op->begun_at);
    }
    if (m->deadline != 0 && m->deadline <= t->now) {
        return QP_E_STALE; /* it is about to be reported, or was never begun */
    }
    m->holder = op->leases ? 0 : m->holder;
    m->wake_at = held_until(t, m, m->holder > 0 ? 0 : op->lease_ms); /* an epoch needs no lease */
    op->out_until = m->wake_at;
    return QP_OK;
}

int apply_msg_ack(struct txn *t, struct op_msg_ack *op)
{
    struct msg_row *m;
    int rc = msg_fenced(t, &op->ref, &m);
    return rc == QP_OK ? msg_move(t, m, MSG_NONE, 0, 0) : rc;
}

int apply_msg_retry(struct txn *t, struct op_msg_retry *op)
{
    struct msg_row *m;
    int rc = msg_fenced(t, &op->ref, &m);
    if (rc == QP_OK && (op->delay_ms < 0 || op->delay_ms > LIMIT_TIMER_MS)) {
        rc = QP_E_INVALID;
    }
    rc = rc == QP_OK ? error_check(op->error) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    m->error = op->untry && str_is_none(op->error) ? m->error : op->error;
    m->tries -= op->untry && m->tries > 0 ? 1 : 0; /* a fence may have taken it back already */
    return op->delay_ms > 0 ? msg_move(t, m, MSG_DELAYED, t->now + op->delay_ms, 0)
                            : msg_release(t, m);
}

int apply_msg_dead_letter(struct txn *t, struct op_msg_dead_letter *op)
{
    struct msg_row *m;
    int rc = msg_fenced(t, &op->ref, &m);
    rc = rc == QP_OK ? error_check(op->error) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    m->error = op->error;
    return msg_move(t, m, MSG_DEAD, 0, 0);
}

int apply_msg_revive(struct txn *t, struct op_msg_revive *op)
{
    struct msg_row *m =
        txn_edit(t, TABLE_msg,
                 &(struct msg_row){.ns = op->ref.ns, .job = op->ref.job, .guid = op->ref.guid});
    if (m == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (m->state != MSG_DEAD) {
        return QP_E_CONFLICT;
    }
    m->tries = 0;
    return msg_release(t, m);
}

int apply_msg_withdraw(struct txn *t, struct op_msg_withdraw *op)
{
    struct msg_row *m =
        txn_edit(t, TABLE_msg,
                 &(struct msg_row){.ns = op->ref.ns, .job = op->ref.job, .guid = op->ref.guid});
    if (op->ref.guid.n != LIMIT_GUID_SIZE) {
        return QP_E_INVALID;
    }
    op->out_gone = m != NULL && m->state != MSG_HELD && m->state != MSG_DEAD;
    if (m == NULL) {
        return t->rc;
    }
    return op->out_gone ? msg_move(t, m, MSG_NONE, 0, 0) : QP_OK;
}

int apply_msg_adopt(struct txn *t, struct op_msg_adopt *op)
{
    struct msg_row after = {.ns = op->after.ns, .job = op->after.job, .guid = op->after.guid};
    struct scan page = {.table = TABLE_msg,
                        .index = -1,
                        .after = str_is_none(op->after.guid) ? NULL : &after,
                        .limit = (size_t)op->limit};
    struct bundle_rows found;
    int rc;
    if (op->epoch <= 0 || op->limit <= 0 || op->limit > LIMIT_CLAIM_MESSAGES) {
        return QP_E_INVALID;
    }
    rc = txn_scan(t, &page, &found);
    op->out_count = 0;
    for (size_t i = 0; rc == QP_OK && i < found.count; i++) {
        const struct msg_row *m = found.rows[i];
        if (m->state == MSG_HELD && m->holder == op->epoch) {
            struct msg_row *edit = txn_edit(t, TABLE_msg, m);
            rc = edit == NULL ? t->rc : msg_give_up(t, edit, op->lost_kind);
            op->out_count++;
        }
        op->out_after = (struct msg_ref){.ns = m->ns, .job = m->job, .guid = m->guid};
    }
    op->out_more = rc == QP_OK && (found.cut || found.count == (size_t)op->limit);
    return rc;
}

/* The lane stays where messages are; it follows the setting for all keys from now on. */
static int lane_forget(struct txn *t, const struct msg_row *of)
{
    struct lane_row key = {.ns = of->ns, .topic = of->topic, .limit_key = of->limit_key};
    const struct lane_row *there = txn_get(t, TABLE_lane, &key);
    struct lane_row *lane;
    if (t->rc != QP_OK || there == NULL || there->own == 0) {
        return t->rc != QP_OK ? t->rc : QP_E_NOT_FOUND;
    }
    lane = lane_edit(t, of);
    if (lane == NULL) {
        return t->rc;
    }
    lane->own = 0;
    lane->max = str_equal(of->limit_key, QP_STR("*")) ? 0 : lane_default_max(t, of);
    if (lane->ready > 0) {
        note_claimable(t, of->topic);
    }
    return lane_tidy(t, lane);
}

int apply_lane_limit(struct txn *t, struct op_lane_limit *op)
{
    struct msg_row of = {.ns = op->ns,
                         .topic = op->topic,
                         .limit_key = op->limit_key.n == 0 ? QP_STR("") : op->limit_key};
    struct lane_row *lane;
    if (op->max < 0 || op->topic.n == 0 || op->topic.n > LIMIT_NAME_SIZE ||
        op->limit_key.n > LIMIT_ID_SIZE) {
        return QP_E_INVALID;
    }
    if (op->forget) {
        return lane_forget(t, &of);
    }
    lane = lane_edit(t, &of);
    if (lane == NULL) {
        return t->rc;
    }
    lane->max = op->max;
    lane->own = 1;
    if (lane->ready > 0) {
        note_claimable(t, op->topic);
    }
    return QP_OK;
}
