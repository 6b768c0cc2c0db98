/* opgen_ops.c - random ops: for each kind what makes sense now, and how to spoil it (see
 * opgen.h) */
#include "support/opgen_ops.h"

#include <stdio.h>

#include "support/storetest.h"

#define BAD 4     /* percent of ops that are spoilt on purpose */
#define ORDINAL 1 /* weights of the ledgers, as the protocol has them */
#define DIGIT_A 100000000LL
#define DIGIT_B 1000000000LL
#define DIGIT_C 10000000000LL
#define ATTEMPT 1000000000000LL
#define FINAL 100000000000000LL

static const qp_str topics[] = {{"t0", 2}, {"t1", 2}, {"t2", 2}};
static const qp_str addresses[] = {{"a0", 2}, {"a1", 2}, {"a2", 2}, {"a3,0", 4}};
static const qp_str workflows[] = {{"wf-a", 4}, {"wf-b", 4}};
static const qp_str limit_keys[] = {{NULL, 0}, {"", 0}, {"k0", 2}, {"k1", 2}, {"k2", 2}};
static const qp_str key_names[] = {{"key0", 4}, {"key1", 4}, {"key2", 4}};
static const qp_str hook_keys[] = {{"h0", 2}, {"h1", 2}, {"h2", 2}};
static const qp_str names[] = {{"n0", 2}, {"n1", 2}, {"n2", 2}};
static const qp_str hashes[] = {{"hash-a", 6}, {"hash-b", 6}};
static const qp_str texts[] = {
    {NULL, 0}, {"", 0}, {"text", 4}, {"a\0b", 3}, {"\xc3\xa4\xc3\xb6", 4}};
static char long_text[LIMIT_ATTRIBUTE_SIZE + 1];

#define ONE_OF(g, array) ((array)[opgen_below((g), ARRAY_COUNT(array))])

static bool bad(struct opgen *g)
{
    return opgen_chance(g, BAD);
}

static qp_str any_guid(struct opgen *g)
{
    return storetest_guid((unsigned)opgen_below(g, OPGEN_GUIDS));
}

static int64_t any_ns(struct opgen *g)
{
    const struct space_row *space = opgen_pick(g, TABLE_space, NULL);
    return opgen_chance(g, 3) ? 99 : space->ns;
}

/* A run that was there when the generator looked; spoilt, one that never was. */
static int64_t any_epoch(struct opgen *g)
{
    const struct node_row *node = opgen_pick(g, TABLE_node, NULL);
    return node == NULL || bad(g) ? 1 : node->epoch;
}

static bool job_is_open(const void *row)
{
    return ((const struct job_row *)row)->state == JOB_OPEN;
}

static bool job_is_closed(const void *row)
{
    const struct job_row *job = row;
    return job->state != JOB_OPEN && job->completions == 0;
}

static bool job_is_finished(const void *row)
{
    return ((const struct job_row *)row)->completions != 0;
}

/* A job that is there and is liked; spoilt, any number at all. */
static struct job_ref job_of(struct opgen *g, opgen_like like)
{
    const struct job_row *job = opgen_pick(g, TABLE_job, bad(g) ? NULL : like);
    if (job == NULL || opgen_chance(g, 3)) {
        return (struct job_ref){any_ns(g), g->first_number + 60000};
    }
    return (struct job_ref){job->ns, job->job};
}

static const struct job_row *job_row_of(const struct opgen *g, struct job_ref ref)
{
    for (size_t i = 0; i < g->seen[TABLE_job].count; i++) {
        const struct job_row *job = g->seen[TABLE_job].rows[i];
        if (job->ns == ref.ns && job->job == ref.job) {
            return job;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------- namespaces, numbers, nodes */

static void make_space_create(struct opgen *g, struct op_space_create *op)
{
    static const qp_str spaces[] = {{"default", 7}, {"other", 5}, {"", 0}, {NULL, 0}};
    op->name = ONE_OF(g, spaces);
}

static void make_ids_reserve(struct opgen *g, struct op_ids_reserve *op)
{
    op->count = bad(g) ? (opgen_chance(g, 50) ? 0 : LIMIT_IDS_PER_BLOCK + 1)
                       : (int64_t)opgen_below(g, 5) + 1;
}

static bool node_is_running(const void *row)
{
    return ((const struct node_row *)row)->state == NODE_RUNNING;
}

static void make_node_put(struct opgen *g, struct op_node_put *op)
{
    const struct node_row *node = opgen_pick(g, TABLE_node, bad(g) ? NULL : node_is_running);
    bool enters = node == NULL || !node_is_running(node) || opgen_chance(g, 10);
    op->epoch = bad(g) ? 1 : enters && g->seen[TABLE_node].count < 12 ? 0 : any_epoch(g);
    op->name = QP_STR("node");
    op->lease_ms = bad(g) ? -1 : (int64_t)opgen_below(g, 3) * 1000;
    op->state = opgen_chance(g, 15) ? NODE_DEAD : opgen_chance(g, 10) ? NODE_LEFT : NODE_RUNNING;
    op->intent = ONE_OF(g, texts);
}

/* ----------------------------------------------------------------------------------------- jobs */

static const qp_str jids[] = {{"job-0", 5}, {"job-1", 5}, {"job-2", 5},
                              {"job-3", 5}, {"job-4", 5}, {"job-5", 5}};

static bool jid_is_taken(const struct opgen *g, int64_t ns, qp_str jid)
{
    for (size_t i = 0; i < g->seen[TABLE_job].count; i++) {
        const struct job_row *job = g->seen[TABLE_job].rows[i];
        if (job->ns == ns && str_equal(job->jid, jid)) {
            return true;
        }
    }
    return false;
}

static void make_job_create(struct opgen *g, struct op_job_create *op)
{
    static const qp_str custom_ids[] = {{NULL, 0}, {NULL, 0}, {"c0", 2}, {"c1", 2}, {"c2", 2}};
    const struct job_row *parent = opgen_pick(g, TABLE_job, NULL);
    op->ref.ns = any_ns(g);
    op->jid = ONE_OF(g, jids);
    for (int i = 0; i < 8 && !bad(g) && jid_is_taken(g, op->ref.ns, op->jid); i++) {
        op->jid = ONE_OF(g, jids);
    }
    op->ref.job = g->next_number++;
    if (opgen_chance(g, 3)) {
        op->ref.job = 0; /* not a number that could have been reserved */
    }
    if (opgen_chance(g, 2)) {
        op->jid = opgen_chance(g, 50) ? QP_NONE : QP_STR("");
    }
    op->kind = (int64_t)opgen_below(g, 2);
    op->workflow = ONE_OF(g, workflows);
    op->version = QP_STR("1");
    op->custom_id = ONE_OF(g, custom_ids);
    op->parent_job = parent != NULL && opgen_chance(g, 30) ? parent->job : 0;
    op->parent_addr = op->parent_job > 0 ? ONE_OF(g, addresses) : QP_NONE;
    op->close =
        op->parent_job > 0 ? (enum close_policy)opgen_below(g, CLOSE_POLICIES) : CLOSE_ABANDON;
    op->owner_guid = any_guid(g);
    op->body_hash = ONE_OF(g, hashes);
    op->priority = (int64_t)opgen_below(g, LIMIT_PRIORITY + 1);
    op->limit_key = ONE_OF(g, limit_keys);
    op->threshold = opgen_chance(g, 20) ? 1 : 0;
}

static void make_job_set(struct opgen *g, struct op_job_set *op)
{
    op->ref = job_of(g, job_is_open);
    op->what = (int)opgen_below(g, 16);
    op->expire_ms = opgen_chance(g, 50) ? 0 : 100;
    op->cancelled = (int64_t)opgen_below(g, 2);
    op->reason = ONE_OF(g, texts);
    op->parked = ONE_OF(g, texts);
    op->error = ONE_OF(g, texts);
    op->fingerprint = ONE_OF(g, texts);
}

static void make_job_close(struct opgen *g, struct op_job_close *op)
{
    op->ref = job_of(g, job_is_open);
    op->guid = any_guid(g);
    op->state = bad(g) ? (opgen_chance(g, 50) ? JOB_OPEN : JOB_STATES)
                       : (int64_t)opgen_below(g, JOB_STATES - 1) + 1;
    op->error = ONE_OF(g, texts);
    op->fingerprint = ONE_OF(g, texts);
}

static void make_job_finish(struct opgen *g, struct op_job_finish *op)
{
    const struct job_row *job;
    op->ref = job_of(g, job_is_closed);
    job = job_row_of(g, op->ref);
    op->guid = job == NULL || bad(g) ? any_guid(g) : job->closed_by;
    op->output = ONE_OF(g, texts);
    op->keep_ms = opgen_chance(g, 50) ? 0 : 1000;
}

static void make_job_pause(struct opgen *g, struct op_job_pause *op)
{
    op->ref = job_of(g, job_is_open);
    op->tasks = opgen_chance(g, 50);
}

static bool job_is_paused(const void *row)
{
    const struct job_row *job = row;
    return job->state == JOB_OPEN && job->paused != 0;
}

static int64_t any_limit(struct opgen *g)
{
    return opgen_chance(g, 8) ? 0 : opgen_chance(g, 60) ? 100 : (int64_t)opgen_below(g, 4) + 1;
}

static void make_job_resume(struct opgen *g, struct op_job_resume *op)
{
    op->ref = job_of(g, job_is_paused);
    op->limit = any_limit(g);
}

static void make_job_sweep(struct opgen *g, struct op_job_sweep *op)
{
    op->ref = job_of(g, job_is_closed);
    op->limit = any_limit(g);
}

static void make_job_delete(struct opgen *g, struct op_job_delete *op)
{
    op->ref = job_of(g, job_is_finished);
    op->limit = any_limit(g);
}

static void make_attr_put(struct opgen *g, struct op_attr_put *op)
{
    op->ref = job_of(g, NULL);
    op->name = opgen_chance(g, 3) ? QP_NONE : ONE_OF(g, names);
    op->value = ONE_OF(g, texts);
    if (opgen_chance(g, 3)) {
        memset(long_text, 'x', sizeof long_text);
        op->value = (qp_str){long_text, sizeof long_text};
    }
}

/* -------------------------------------------------------------------------------------- ledgers */

/* A guard that often holds: one digit that is still 0 (or 0 and 1), or a counter below a small
 * ceiling. */
static int make_guards(struct opgen *g, struct guard guards[GUARDS_MAX], int64_t weight)
{
    int count = (int)opgen_below(g, 3);
    for (int i = 0; i < count; i++) {
        bool counter = opgen_chance(g, 25);
        guards[i] = counter ? (struct guard){ATTEMPT, 100, 0, 3}
                            : (struct guard){weight > 0 ? weight : DIGIT_A, 10, 0, 4};
        if (bad(g)) {
            guards[i].min = guards[i].max;
        }
    }
    return count;
}

static int64_t any_weight(struct opgen *g)
{
    static const int64_t weights[] = {0, DIGIT_A, DIGIT_B, DIGIT_C, ATTEMPT, ATTEMPT};
    return opgen_chance(g, 4) ? LIMIT_LEDGER : opgen_chance(g, 2) ? -1 : ONE_OF(g, weights);
}

static void make_act_create(struct opgen *g, struct op_act_create *op)
{
    op->ref = job_of(g, job_is_open);
    op->addr = opgen_chance(g, 3) ? QP_NONE : ONE_OF(g, addresses);
    op->kind = 1;
    op->category = 'A' + (int64_t)opgen_below(g, 4);
    op->cyclic = (int64_t)opgen_below(g, 2);
    op->parent_guid = opgen_chance(g, 50) ? QP_NONE : any_guid(g);
    op->topic = ONE_OF(g, topics);
    op->policy = ONE_OF(g, texts);
    op->input = ONE_OF(g, texts);
    op->ledger = opgen_chance(g, 3) ? LIMIT_LEDGER + 1 : opgen_chance(g, 20) ? ATTEMPT : 0;
    op->waits = opgen_chance(g, 2) ? ACT_RETRIES : opgen_chance(g, 25) ? ACT_WAITS : ACT_BUSY;
}

/* An activity that is there and is as `like` says; NULL: any. */
static struct job_ref act_like(struct opgen *g, qp_str *out_addr, opgen_like like)
{
    const struct act_row *act = opgen_pick(g, TABLE_act, like);
    *out_addr = ONE_OF(g, addresses);
    if (act == NULL || bad(g)) {
        return job_of(g, NULL);
    }
    *out_addr = act->addr;
    return (struct job_ref){act->ns, act->job};
}

static struct job_ref act_of(struct opgen *g, qp_str *out_addr)
{
    return act_like(g, out_addr, NULL);
}

static bool act_is_cyclic(const void *row)
{
    return ((const struct act_row *)row)->cyclic != 0;
}

static void make_act_add(struct opgen *g, struct op_act_add *op)
{
    op->ref = act_of(g, &op->addr);
    op->weight = any_weight(g);
    op->guard_count = make_guards(g, op->guards, op->weight);
    op->attempt = (int64_t)opgen_below(g, 4) - 1;
    op->error = ONE_OF(g, texts);
    op->works = opgen_chance(g, 15);
    op->escalate = opgen_chance(g, 15);
}

static void make_act_notify(struct opgen *g, struct op_act_notify *op)
{
    op->ref = act_like(g, &op->addr, opgen_chance(g, 10) ? NULL : act_is_cyclic);
    op->rests = opgen_chance(g, 50);
    op->seen = bad(g) ? -1 : (int64_t)opgen_below(g, 40);
    op->after = bad(g) ? -1 : (int64_t)opgen_below(g, 4);
    op->urgent = opgen_chance(g, 20);
}

static void make_guid_enter(struct opgen *g, struct op_guid_enter *op)
{
    static const int64_t ceilings[] = {0, 4, 99, LIMIT_LEG2_ENTRIES};
    op->ref = act_of(g, &op->addr);
    op->guid = opgen_chance(g, 3) ? QP_STR("short") : any_guid(g);
    op->ordinal_ceiling = opgen_chance(g, 2) ? -1 : ONE_OF(g, ceilings);
    op->ledger = opgen_chance(g, 2)    ? DIGIT_A + 1
                 : opgen_chance(g, 1)  ? (LIMIT_LEDGER / DIGIT_A + 1) * DIGIT_A
                 : opgen_chance(g, 30) ? DIGIT_C
                                       : 0;
    op->guard_count = make_guards(g, op->guards, DIGIT_B);
    op->code = 200;
    op->output = ONE_OF(g, texts);
}

static struct job_ref guid_of(struct opgen *g, qp_str *out_addr, qp_str *out_guid, opgen_like like)
{
    const struct guid_row *guid = opgen_pick(g, TABLE_guid, like);
    if (guid == NULL || bad(g)) {
        *out_guid = any_guid(g);
        return act_of(g, out_addr);
    }
    *out_addr = guid->addr;
    *out_guid = guid->guid;
    return (struct job_ref){guid->ns, guid->job};
}

static void make_guid_add(struct opgen *g, struct op_guid_add *op)
{
    op->ref = guid_of(g, &op->addr, &op->guid, NULL);
    op->weight = any_weight(g);
    op->guard_count = make_guards(g, op->guards, op->weight);
    op->code = (int64_t)opgen_below(g, 600);
    op->output = ONE_OF(g, texts);
}

static bool guid_has_spawned(const void *row)
{
    return ((const struct guid_row *)row)->n >= 0;
}

static bool guid_has_not_spawned(const void *row)
{
    return !guid_has_spawned(row);
}

static void make_guid_fold(struct opgen *g, struct op_guid_fold *op)
{
    op->ref = guid_of(g, &op->addr, &op->guid, guid_has_spawned);
}

static void make_sem_open(struct opgen *g, struct op_sem_open *op)
{
    op->ref = job_of(g, job_is_open);
    op->scope = (int64_t)opgen_below(g, 8) + (bad(g) ? 0 : 1);
    op->threshold = (int64_t)opgen_below(g, 2);
    op->opening = op->threshold + (int64_t)opgen_below(g, 3) + (bad(g) ? 0 : 1);
    op->owner_addr = ONE_OF(g, addresses);
    op->guid = any_guid(g);
    op->topic = ONE_OF(g, topics);
}

static int64_t any_delta(struct opgen *g, const struct job_row *job, bool open)
{
    if (opgen_chance(g, 4)) {
        return opgen_chance(g, 50) ? -1000 : INT64_MIN;
    }
    if (open) {
        return (int64_t)opgen_below(g, 5);
    }
    return job != NULL && job->sem > 0 && opgen_chance(g, 60) ? -1 : (int64_t)opgen_below(g, 3);
}

/* A further scope of this job, or 0 when it has none. */
static int64_t scope_of(struct opgen *g, struct job_ref ref)
{
    int64_t scope = opgen_chance(g, 3) ? 77 : 0;
    for (size_t i = 0; i < g->seen[TABLE_sem].count; i++) {
        const struct sem_row *sem = g->seen[TABLE_sem].rows[i];
        if (sem->ns == ref.ns && sem->job == ref.job && (scope == 0 || opgen_chance(g, 50))) {
            scope = sem->scope;
        }
    }
    return scope;
}

static void make_sem_move(struct opgen *g, struct op_sem_move *op)
{
    const struct job_row *job;
    op->ref = guid_of(g, &op->addr, &op->guid, guid_has_not_spawned);
    job = job_row_of(g, op->ref);
    op->scope = opgen_chance(g, 40) ? scope_of(g, op->ref) : 0;
    if (op->scope > 0) {
        op->delta = opgen_chance(g, 4) ? -1000 : opgen_chance(g, 60) ? -1 : 1;
    } else {
        op->open = (job != NULL && job->opened == 0) != opgen_chance(g, 3);
        op->delta = any_delta(g, job, op->open);
    }
    op->n = opgen_chance(g, 2) ? -1 : (int64_t)opgen_below(g, 4);
    op->spawn_weight = DIGIT_B;
    op->edge_weight = DIGIT_A;
    op->close_state = bad(g) && bad(g) ? JOB_OPEN : JOB_COMPLETED;
    op->guard_count = make_guards(g, op->guards, DIGIT_B);
    op->finalize = opgen_chance(g, 15);
    op->final_weight = FINAL;
}

/* ------------------------------------------------------------------------------------- messages */

/* Ready at once, later, or born claimed, by a run or for a time; spoilt, two of them at once. */
static void make_first_state(struct opgen *g, struct op_msg_put *op)
{
    uint64_t first = opgen_below(g, 100);
    op->delay_ms = first < 30 ? (int64_t)opgen_below(g, 3000) : 0;
    op->holder = first >= 30 && first < 45 ? any_epoch(g) : 0;
    op->lease_ms = first >= 45 && first < 60 ? (int64_t)opgen_below(g, 5000) + 1 : 0;
    if (opgen_chance(g, 2)) {
        op->lease_ms = op->lease_ms > 0 ? LIMIT_LEASE_MS + 1 : 1000;
    }
}

/* Good ones, and three that are refused. */
static const qp_str time_limit_texts[] = {{"start=700", 9},
                                          {"run=900", 7},
                                          {"beat=400", 8},
                                          {"start=300,run=2000,beat=600", 27},
                                          {"run=1500,beat=500", 17}};
static const qp_str bad_limit_texts[] = {{"start=0", 7}, {"beat=5,run=5", 12}, {"stop=1", 6}};

static void make_msg_put(struct opgen *g, struct op_msg_put *op)
{
    uint64_t owner = opgen_below(g, 10);
    op->owner = owner == 0 ? OWNER_SYSTEM : owner == 1 ? OWNER_SCHEDULE : OWNER_JOB;
    op->ref = job_of(g, job_is_open);
    if (op->owner != OWNER_JOB) {
        op->ref.job = op->owner == OWNER_SYSTEM ? 0 : g->first_number + 60001;
    }
    op->guid = opgen_chance(g, 2) ? QP_NONE : any_guid(g);
    op->kind = (int64_t)opgen_below(g, 3);
    op->topic = opgen_chance(g, 2) ? QP_STR("") : ONE_OF(g, topics);
    op->addr = ONE_OF(g, addresses);
    op->parent_guid = opgen_chance(g, 50) ? QP_NONE : any_guid(g);
    op->payload = ONE_OF(g, texts);
    op->code = 200;
    op->priority = opgen_chance(g, 2) ? LIMIT_PRIORITY + 1 : (int64_t)opgen_below(g, 3);
    op->limit_key = opgen_chance(g, 2) ? QP_STR("*") : ONE_OF(g, limit_keys);
    op->limits = opgen_chance(g, 70)  ? QP_NONE
                 : opgen_chance(g, 8) ? ONE_OF(g, bad_limit_texts)
                                      : ONE_OF(g, time_limit_texts);
    make_first_state(g, op);
    op->once = opgen_chance(g, 40);
}

static void make_msg_claim(struct opgen *g, struct op_msg_claim *op)
{
    op->ns = opgen_chance(g, 40) ? 0 : any_ns(g);
    op->topic = ONE_OF(g, topics);
    op->want = opgen_chance(g, 4) ? 0 : (int64_t)opgen_below(g, 5) + 1;
    if (opgen_chance(g, 70)) {
        op->lease_ms = (int64_t)opgen_below(g, 5000) + 1;
    } else {
        op->holder = any_epoch(g);
    }
    if (opgen_chance(g, 4)) {
        op->lease_ms = op->lease_ms > 0 ? 0 : LIMIT_LEASE_MS + 1;
    }
    op->worker = ONE_OF(g, names);
}

static bool msg_is_held(const void *row)
{
    return ((const struct msg_row *)row)->state == MSG_HELD;
}

static bool msg_is_dead(const void *row)
{
    return ((const struct msg_row *)row)->state == MSG_DEAD;
}

/* The claim of a message; spoilt, an older or a later one, or one of a message that nobody
 * holds. */
static struct msg_ref claim_of(struct opgen *g, opgen_like like)
{
    const struct msg_row *m = opgen_pick(g, TABLE_msg, bad(g) ? NULL : like);
    if (m == NULL) {
        struct job_ref ref = job_of(g, NULL);
        return (struct msg_ref){ref.ns, ref.job, any_guid(g), 1};
    }
    return (struct msg_ref){m->ns, m->job, m->guid,
                            m->token + (bad(g) ? 1 - 2 * (int64_t)opgen_below(g, 2) : 0)};
}

static void make_msg_fence(struct opgen *g, struct op_msg_fence *op)
{
    op->ref = claim_of(g, msg_is_held);
    op->tries = (int64_t)opgen_below(g, 3) - 2; /* -2 is more than many have */
}

static void make_msg_extend(struct opgen *g, struct op_msg_extend *op)
{
    op->ref = claim_of(g, msg_is_held);
    op->lease_ms = opgen_chance(g, 5) ? 0 : (int64_t)opgen_below(g, 60000) + 1;
    op->begun_at = opgen_chance(g, 70)  ? 0
                   : opgen_chance(g, 5) ? INT64_MAX / 2
                                        : (int64_t)opgen_below(g, 1000000000) + 1;
    op->leases = opgen_chance(g, 20);
}

static void make_msg_ack(struct opgen *g, struct op_msg_ack *op)
{
    op->ref = claim_of(g, msg_is_held);
}

static void make_msg_retry(struct opgen *g, struct op_msg_retry *op)
{
    op->ref = claim_of(g, msg_is_held);
    op->delay_ms = opgen_chance(g, 4) ? -1 : opgen_chance(g, 50) ? 0 : 1500;
    op->error = ONE_OF(g, texts);
    op->untry = opgen_chance(g, 30);
}

static void make_msg_dead_letter(struct opgen *g, struct op_msg_dead_letter *op)
{
    op->ref = claim_of(g, msg_is_held);
    op->error = ONE_OF(g, texts);
}

static void make_msg_revive(struct opgen *g, struct op_msg_revive *op)
{
    op->ref = claim_of(g, msg_is_dead);
}

static bool msg_is_free(const void *row)
{
    int64_t state = ((const struct msg_row *)row)->state;
    return state == MSG_READY || state == MSG_DELAYED || state == MSG_ASIDE;
}

static void make_msg_withdraw(struct opgen *g, struct op_msg_withdraw *op)
{
    op->ref = claim_of(g, opgen_chance(g, 20) ? msg_is_held : msg_is_free);
    op->ref.guid.n -= opgen_chance(g, 5) && op->ref.guid.n > 0 ? 1 : 0;
}

static bool msg_has_holder(const void *row)
{
    return ((const struct msg_row *)row)->holder > 0;
}

static void make_msg_adopt(struct opgen *g, struct op_msg_adopt *op)
{
    const struct msg_row *held = opgen_pick(g, TABLE_msg, msg_has_holder);
    op->epoch = opgen_chance(g, 5) ? 0 : held == NULL || held->holder == 0 ? 1 : held->holder;
    op->limit = any_limit(g);
    op->lost_kind = (int64_t)opgen_below(g, 3);
}

static void make_lane_limit(struct opgen *g, struct op_lane_limit *op)
{
    op->ns = any_ns(g);
    op->topic = ONE_OF(g, topics);
    op->limit_key = opgen_chance(g, 25) ? QP_STR("*") : ONE_OF(g, limit_keys);
    op->max = opgen_chance(g, 8) ? -1 : opgen_chance(g, 30) ? 0 : (int64_t)opgen_below(g, 4) + 1;
    op->forget = op->max == 0 && op->limit_key.n == 1; /* no draw: workloads of seeds stay */
}

/* ----------------------------------------------------------------------------- signals and keys */

static const qp_str signal_names[] = {{"@s0", 3}, {"@s1", 3}, {"@s2", 3}};

/* Some listen for signals to their job. By what the op has already: the workloads of fixed seeds stay as they are. */
static void make_listen(const struct opgen *g, struct op_hook_open *op)
{
    const struct job_row *job = job_row_of(g, op->ref);
    size_t at = (size_t)(op->addr.p[1] - '0'); /* 0 to 3 */
    if (op->topic.n == 0 || op->addr.n != 2 || op->key.p[1] == '0') {
        return;
    }
    op->names = signal_names + at;
    op->name_count = op->key.p[1] == '1' ? 1 : ARRAY_COUNT(signal_names) - at;
    op->limit = op->keep ? 2 : 1;
    op->key = job == NULL ? op->key : job->jid;
}

static void make_hook_open(struct opgen *g, struct op_hook_open *op)
{
    op->ref = job_of(g, job_is_open);
    op->topic = opgen_chance(g, 3) ? QP_STR("") : QP_STR("hook");
    op->key = ONE_OF(g, hook_keys);
    op->addr = ONE_OF(g, addresses);
    op->parent_guid = opgen_chance(g, 50) ? QP_NONE : any_guid(g);
    op->msg_topic = ONE_OF(g, topics);
    op->keep = opgen_chance(g, 20);
    make_listen(g, op);
}

static void make_hook_close(struct opgen *g, struct op_hook_close *op)
{
    const struct hook_wait_row *w = opgen_pick(g, TABLE_hook_wait, NULL);
    op->ns = w == NULL ? any_ns(g) : w->ns;
    op->topic = QP_STR("hook");
    op->key = w == NULL ? ONE_OF(g, hook_keys) : w->hkey;
    op->seq = w == NULL || bad(g) ? 999999 : w->seq;
}

/* Half of them are for one job, by a name; also for one that has ended. */
static void make_signal_to(const struct opgen *g, struct op_hook_signal *op)
{
    size_t pick = op->guid.n == LIMIT_GUID_SIZE ? (size_t)(unsigned char)op->guid.p[9] : 0;
    const struct job_row *job;
    if (pick % 2 == 0 || g->seen[TABLE_job].count == 0) {
        return;
    }
    job = g->seen[TABLE_job].rows[pick / 2 % g->seen[TABLE_job].count];
    op->ns = job->ns;
    op->to = (struct job_ref){job->ns, job->job};
    op->topic = signal_names[pick % ARRAY_COUNT(signal_names)];
    op->key = job->jid;
}

static void make_hook_signal(struct opgen *g, struct op_hook_signal *op)
{
    const struct hook_wait_row *w = opgen_pick(g, TABLE_hook_wait, NULL);
    bool aimed = w != NULL && opgen_chance(g, 60);
    op->ns = aimed ? w->ns : any_ns(g);
    op->topic = QP_STR("hook");
    op->key = aimed ? w->hkey : ONE_OF(g, hook_keys);
    op->seq = aimed && opgen_chance(g, 30) ? w->seq : opgen_chance(g, 3) ? 999999 : 0;
    op->guid = opgen_chance(g, 3) ? QP_STR("short") : any_guid(g);
    op->payload = ONE_OF(g, texts);
    op->code = 202;
    op->ttl_ms = opgen_chance(g, 3) ? -1 : opgen_chance(g, 25) ? 0 : 5000;
    op->keep = opgen_chance(g, 15);
    /* By the GUID, which stands for an id or does not; the workloads of fixed seeds stay as they are. */
    op->has_id = op->guid.n == LIMIT_GUID_SIZE && op->guid.p[9] % 5 < 2; /* its last digit */
    op->once = op->has_id && op->keep;
    make_signal_to(g, op);
}

static void make_key_acquire(struct opgen *g, struct op_key_acquire *op)
{
    struct job_ref holder = job_of(g, job_is_open);
    op->ns = holder.ns;
    op->holder = (struct job_ref){holder.ns, opgen_chance(g, 20) ? 0 : holder.job};
    op->scope = opgen_chance(g, 10) ? holder.job : 0;
    op->name = opgen_chance(g, 2)    ? QP_STR("")
               : opgen_chance(g, 60) ? key_names[0]
                                     : ONE_OF(g, key_names);
    op->capacity = opgen_chance(g, 80) ? 2 : (int64_t)opgen_below(g, 4) + 1;
    op->units = opgen_chance(g, 70) ? 1 : (int64_t)opgen_below(g, (uint64_t)op->capacity) + 1;
    if (opgen_chance(g, 3)) {
        op->units = op->capacity + 1;
    } else if (opgen_chance(g, 1)) {
        op->units = op->capacity = INT64_MAX;
    }
    op->addr = ONE_OF(g, addresses);
    op->guid = any_guid(g);
    op->msg_topic = ONE_OF(g, topics);
    op->lease_ms =
        op->holder.job == 0 || opgen_chance(g, 60) ? (int64_t)opgen_below(g, 9000) + 1 : 0;
    op->wait = opgen_chance(g, 70);
}

static void make_key_extend(struct opgen *g, struct op_key_extend *op)
{
    const struct key_hold_row *h = opgen_pick(g, TABLE_key_hold, NULL);
    op->ns = h == NULL ? any_ns(g) : h->ns;
    op->scope = h == NULL ? 0 : h->scope;
    op->name = h == NULL ? ONE_OF(g, key_names) : h->name;
    op->token = h == NULL ? 1 : bad(g) ? h->token + 1 : h->token;
    op->lease_ms = opgen_chance(g, 5) ? 0 : 20000;
}

static void make_key_release(struct opgen *g, struct op_key_release *op)
{
    struct op_key_extend of;
    make_key_extend(g, &of);
    *op =
        (struct op_key_release){.ns = of.ns, .scope = of.scope, .name = of.name, .token = of.token};
    op->all = opgen_chance(g, 30);
    op->limit = any_limit(g);
}

static void make_wake(struct opgen *g, struct op_wake *op)
{
    op->limit = any_limit(g);
    op->lost_kind = (int64_t)opgen_below(g, 3);
    op->lost_ms = opgen_chance(g, 40) ? 500 : 0;
}

/* ------------------------------------------------------------------------------- what else goes */

static void make_data_put(struct opgen *g, struct op_data_put *op)
{
    op->ref = job_of(g, NULL);
    op->name = opgen_chance(g, 3) ? QP_STR("") : ONE_OF(g, names);
    op->value = ONE_OF(g, texts);
}

static void make_event_add(struct opgen *g, struct op_event_add *op)
{
    op->ref = job_of(g, NULL);
    op->kind = (int64_t)opgen_below(g, 5);
    op->addr = ONE_OF(g, addresses);
    op->detail = ONE_OF(g, texts);
}

static void make_audit_add(struct opgen *g, struct op_audit_add *op)
{
    op->ns = any_ns(g);
    op->actor = ONE_OF(g, names);
    op->action = ONE_OF(g, names);
    op->target = ONE_OF(g, texts);
    op->outcome = ONE_OF(g, texts);
    op->detail = ONE_OF(g, texts);
}

static void make_access_put(struct opgen *g, struct op_access_put *op)
{
    static const char hash[LIMIT_ACCESS_HASH_SIZE] = "a hash";
    op->id = ONE_OF(g, names);
    op->hash = (qp_str){hash, opgen_chance(g, 5) ? 3 : sizeof hash};
    op->role = QP_STR("viewer");
    op->spaces = ONE_OF(g, texts);
    op->expire_ms = opgen_chance(g, 50) ? 0 : 2000;
}

static void make_access_set(struct opgen *g, struct op_access_set *op)
{
    op->id = ONE_OF(g, names);
    op->revoke = opgen_chance(g, 50);
    op->used = opgen_chance(g, 50);
}

/* Few names, so that most meet something. */
static const qp_str apps[] = {{"a", 1}, {"b", 1}};
static const qp_str versions[] = {{"1", 1}, {"2", 1}, {"3", 1}};

static void make_app_put(struct opgen *g, struct op_app_put *op)
{
    op->ns = any_ns(g);
    op->app = opgen_chance(g, 3) ? QP_STR("") : ONE_OF(g, apps);
    op->version = ONE_OF(g, versions);
    op->source = ONE_OF(g, texts);
    op->hash = opgen_chance(g, 50) ? QP_STR("hash") : QP_STR("other");
}

static void make_app_activate(struct opgen *g, struct op_app_activate *op)
{
    op->ns = any_ns(g);
    op->app = ONE_OF(g, apps);
    op->version = ONE_OF(g, versions);
}

static bool app_may_be_deleted(const void *row)
{
    const struct app_row *a = row;
    return a->state != APP_ACTIVE && a->state != APP_DELETED;
}

static void make_app_delete(struct opgen *g, struct op_app_delete *op)
{
    const struct app_row *a = opgen_pick(g, TABLE_app, bad(g) ? NULL : app_may_be_deleted);
    op->ns = a == NULL ? any_ns(g) : a->ns;
    op->app = a == NULL ? ONE_OF(g, apps) : a->app;
    op->version = a == NULL ? ONE_OF(g, versions) : a->version;
}

static void make_universe_open(struct opgen *g, struct op_universe_open *op)
{
    op->ns = any_ns(g);
    op->type = opgen_chance(g, 3) ? QP_NONE : ONE_OF(g, apps);
    op->name = ONE_OF(g, versions);
    op->grows = opgen_chance(g, 20);
}

static int64_t universe_of(struct opgen *g, int64_t *out_ns)
{
    const struct universe_row *u = opgen_pick(g, TABLE_universe, NULL);
    *out_ns = u == NULL ? any_ns(g) : u->ns;
    return u == NULL || bad(g) ? 1 : u->universe;
}

static void make_fact_put(struct opgen *g, struct op_fact_put *op)
{
    op->universe = universe_of(g, &op->ns);
    op->fact_kind = opgen_chance(g, 2) ? FACT_KINDS : (int64_t)opgen_below(g, FACT_KINDS);
    op->name = ONE_OF(g, names);
    op->value = ONE_OF(g, texts);
    op->ttl_ms = opgen_chance(g, 70) ? 0 : (int64_t)opgen_below(g, 1000);
}

static void make_universe_seal(struct opgen *g, struct op_universe_seal *op)
{
    const struct universe_row *u = opgen_pick(g, TABLE_universe, NULL);
    op->ns = u == NULL ? any_ns(g) : u->ns;
    op->universe = u == NULL ? 1 : u->universe;
    op->facts = u == NULL || bad(g) ? 1 : u->facts;
}

static void make_universe_retire(struct opgen *g, struct op_universe_retire *op)
{
    op->universe = universe_of(g, &op->ns);
}

static void make_universe_drop(struct opgen *g, struct op_universe_drop *op)
{
    op->universe = universe_of(g, &op->ns);
    op->limit = any_limit(g);
}

static bool app_is_deleted(const void *row)
{
    return ((const struct app_row *)row)->state == APP_DELETED;
}

static void make_app_collect(struct opgen *g, struct op_app_collect *op)
{
    const struct app_row *a = opgen_pick(g, TABLE_app, bad(g) ? NULL : app_is_deleted);
    op->ns = a == NULL ? any_ns(g) : a->ns;
    op->app = a == NULL ? ONE_OF(g, apps) : a->app;
    op->version = a == NULL ? ONE_OF(g, versions) : a->version;
    op->at = a == NULL ? 1 : bad(g) ? a->activated_at + 1 : a->activated_at;
}

static bool app_is_there(const void *row)
{
    return ((const struct app_row *)row)->state != APP_DELETED;
}

static void make_topic_put(struct opgen *g, struct op_topic_put *op)
{
    const struct app_row *a = opgen_pick(g, TABLE_app, bad(g) ? NULL : app_is_there);
    op->ns = a == NULL ? any_ns(g) : a->ns;
    op->kind = (int64_t)opgen_below(g, APP_TOPIC_KINDS);
    op->topic = opgen_chance(g, 3) ? QP_STR("") : ONE_OF(g, names);
    op->app = a == NULL ? ONE_OF(g, apps) : a->app;
    op->version = opgen_chance(g, 30) ? QP_NONE : a == NULL ? ONE_OF(g, versions) : a->version;
}

static void make_idem_put(struct opgen *g, struct op_idem_put *op)
{
    op->ns = any_ns(g);
    op->key = opgen_chance(g, 3) ? QP_STR("") : ONE_OF(g, names);
    op->body_hash = ONE_OF(g, hashes);
    op->status = 201;
    op->answer = ONE_OF(g, texts);
    op->ttl_ms = opgen_chance(g, 3) ? 0 : opgen_chance(g, 2) ? INT64_MAX : 2000;
}

static void make_feed_trim(struct opgen *g, struct op_feed_trim *op)
{
    op->upto = (int64_t)opgen_below(g, 200);
    op->limit = any_limit(g);
}

static int host_answer(void *context, void *native)
{
    (void)native;
    return *(const int *)context;
}

static void make_host_call(struct opgen *g, struct op_host_call *op)
{
    static int answers[] = {QP_OK, QP_E_INVALID};
    op->call = opgen_chance(g, 3) ? NULL : host_answer;
    op->context = &answers[opgen_chance(g, 20)];
}

void opgen_make(struct opgen *g, struct op *op, enum op_kind kind)
{
    *op = (struct op){.kind = kind};
    switch (kind) {
#define OP(name)                                                                                   \
    case OP_##name:                                                                                \
        make_##name(g, &op->name);                                                                 \
        break;
#include "store/ops.def"
#undef OP
    case OP_COUNT:
        break;
    }
}

/* -------------------------------------------------------------------------------- whole bundles */

static struct op *bundle_add(struct opgen *g, struct opgen_bundle *b, enum op_kind kind)
{
    QP_ASSERT(b->op_count < OPGEN_OPS_MAX);
    opgen_make(g, &b->ops[b->op_count], kind);
    return &b->ops[b->op_count++];
}

/* Inception: a job with its trigger, which opens the semaphore, and the messages that it counts. */
void opgen_make_start(struct opgen *g, struct opgen_bundle *b)
{
    struct job_ref ref;
    qp_str guid = any_guid(g);
    int64_t n = (int64_t)opgen_below(g, 4);
    if (g->seen[TABLE_job].count > ARRAY_COUNT(jids) && opgen_chance(g, 70)) {
        opgen_make_end(g, b); /* room for others first */
        return;
    }
    bundle_add(g, b, OP_job_create);
    ref = b->ops[0].job_create.ref;
    bundle_add(g, b, OP_act_create)->act_create = (struct op_act_create){
        .ref = ref, .addr = addresses[0], .kind = 1, .category = 'A', .ledger = ORDINAL};
    bundle_add(g, b, OP_guid_enter)->guid_enter =
        (struct op_guid_enter){.ref = ref, .addr = addresses[0], .guid = guid, .ledger = DIGIT_C};
    bundle_add(g, b, OP_sem_move)->sem_move = (struct op_sem_move){.ref = ref,
                                                                   .addr = addresses[0],
                                                                   .guid = guid,
                                                                   .delta = n,
                                                                   .n = n,
                                                                   .open = true,
                                                                   .spawn_weight = DIGIT_B,
                                                                   .edge_weight = DIGIT_A,
                                                                   .close_state = JOB_COMPLETED};
    for (int64_t i = 0; i < n; i++) {
        struct op_msg_put *put = &bundle_add(g, b, OP_msg_put)->msg_put;
        put->ref = ref;
        put->owner = OWNER_JOB;
    }
}

/* A held message is answered: its GUID enters, works, moves the semaphore by -1, and the message
 * goes. */
void opgen_make_answer(struct opgen *g, struct opgen_bundle *b)
{
    struct op_guid_enter *enter = &bundle_add(g, b, OP_guid_enter)->guid_enter;
    struct op_sem_move *move;
    if (opgen_chance(g, 50)) {
        bundle_add(g, b, OP_guid_add)->guid_add = (struct op_guid_add){
            .ref = enter->ref, .addr = enter->addr, .guid = enter->guid, .weight = DIGIT_C};
    }
    move = &bundle_add(g, b, OP_sem_move)->sem_move;
    move->ref = enter->ref;
    move->addr = enter->addr;
    move->guid = enter->guid;
    if (move->scope == 0) {
        const struct job_row *job = job_row_of(g, enter->ref);
        move->open = job != NULL && job->opened == 0;
        move->delta = any_delta(g, job, move->open);
    }
    if (opgen_chance(g, 30)) {
        bundle_add(g, b, OP_msg_ack);
    }
}

/* A job that is finished goes; or an open one is closed and finished by one GUID, and sometimes
 * swept and deleted at once. */
void opgen_make_end(struct opgen *g, struct opgen_bundle *b)
{
    const struct job_row *finished = opgen_pick(g, TABLE_job, job_is_finished);
    if (finished != NULL && job_is_finished(finished)) {
        bundle_add(g, b, OP_job_delete)->job_delete.limit = opgen_chance(g, 70) ? 1000 : 3;
        b->ops[0].job_delete.ref = (struct job_ref){finished->ns, finished->job};
        return;
    }
    struct op_job_close *close;
    bundle_add(g, b, OP_job_close);
    close = &b->ops[0].job_close;
    bundle_add(g, b, OP_job_finish)->job_finish =
        (struct op_job_finish){.ref = close->ref, .guid = close->guid, .output = ONE_OF(g, texts)};
    if (opgen_chance(g, 50)) {
        bundle_add(g, b, OP_job_sweep)->job_sweep =
            (struct op_job_sweep){.ref = close->ref, .limit = 2};
    }
    if (opgen_chance(g, 30)) {
        bundle_add(g, b, OP_job_delete)->job_delete =
            (struct op_job_delete){.ref = close->ref, .limit = 1000};
    }
}

/* A worker's completion: fenced, noted, gone. */
void opgen_make_task(struct opgen *g, struct opgen_bundle *b)
{
    const struct msg_row *held = opgen_pick(g, TABLE_msg, msg_is_held);
    struct op_msg_fence *fence;
    struct job_ref ref;
    if (held == NULL || !msg_is_held(held)) {
        bundle_add(g, b, OP_msg_claim); /* nobody works: somebody should */
        return;
    }
    fence = &bundle_add(g, b, OP_msg_fence)->msg_fence;
    ref = (struct job_ref){fence->ref.ns, fence->ref.job};
    bundle_add(g, b, OP_audit_add);
    if (ref.job != 0) {
        bundle_add(g, b, OP_data_put)->data_put =
            (struct op_data_put){.ref = ref, .name = names[0], .value = ONE_OF(g, texts)};
    }
    bundle_add(g, b, OP_msg_ack)->msg_ack.ref = fence->ref;
}
