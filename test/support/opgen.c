/* opgen.c - random commits: what is in the store, what time it is, how many bundles of what length
 * (see opgen.h) */
#include "support/opgen.h"

#include "support/opgen_ops.h"
#include "support/storetest.h"
#include "support/testenv.h"

#define NUMBERS 65536
#define PICK_TRIES 16

static void look(struct opgen *g, struct store *s);
static void make_first(struct opgen *g);
static void make_bundle(struct opgen *g, struct opgen_bundle *b);
static int64_t make_advance(struct opgen *g);
static enum op_kind make_kind(struct opgen *g);

void opgen_init(struct opgen *g, const struct qp_env *env, uint64_t seed)
{
    *g = (struct opgen){.random = seed, .bundles_max = OPGEN_BUNDLES_MAX};
    arena_init(&g->arena, env, 0);
}

void opgen_done(struct opgen *g)
{
    arena_done(&g->arena);
}

void opgen_init_second(struct opgen *g, const struct opgen *first, uint64_t seed)
{
    opgen_init(g, first->arena.env, seed);
    g->no_steps_back = first->no_steps_back;
    g->bundles_max = first->bundles_max;
    g->first_number = first->first_number;
    g->next_number = first->first_number + NUMBERS / 2;
}

uint64_t opgen_below(struct opgen *g, uint64_t n)
{
    return testenv_random_below(&g->random, n);
}

bool opgen_chance(struct opgen *g, unsigned percent)
{
    return opgen_below(g, 100) < percent;
}

const void *opgen_pick(struct opgen *g, enum table_id table, opgen_like like)
{
    const struct opgen_rows *r = &g->seen[table];
    const void *row = NULL;
    for (int i = 0; i < PICK_TRIES && r->count > 0; i++) {
        row = r->rows[opgen_below(g, r->count)];
        if (like == NULL || like(row)) {
            break;
        }
    }
    return row;
}

void opgen_next(struct opgen *g, struct store *look_at)
{
    memset(g->bundles, 0, sizeof g->bundles);
    look(g, look_at);
    if (g->seen[TABLE_space].count == 1) {
        make_first(g);
        return;
    }
    g->advance_ms = make_advance(g);
    g->bundle_count = 1 + opgen_below(g, g->bundles_max);
    for (size_t i = 0; i < g->bundle_count; i++) {
        make_bundle(g, &g->bundles[i]);
    }
}

static void add_op(struct bundle *b, const struct op *from)
{
    struct op *op = bundle_op(b, from->kind);
    if (op != NULL) { /* else the commit says why, when it is submitted or the bundle is over */
        *op = *from;
    }
}

/* Does not look at what the ops answer, and leaves the last ones to the store: none of that may
 * make a difference. */
static int decide(void *context, struct bundle *b)
{
    const struct opgen_bundle *from = context;
    for (size_t i = 0; i < from->op_count; i++) {
        add_op(b, &from->ops[i]);
        if ((i + 1) % from->run_every == 0 && bundle_run(b) != QP_OK) {
            continue; /* the others are added all the same */
        }
    }
    return QP_OK;
}

void opgen_fill(struct opgen *g, struct commit *c)
{
    for (size_t i = 0; i < g->bundle_count; i++) {
        struct opgen_bundle *from = &g->bundles[i];
        if (from->run_every > 0 && !g->plain) {
            (void)commit_decided(c, "random", decide, from); /* NULL: the commit says so */
            continue;
        }
        struct bundle *b = commit_bundle(c, "random");
        for (size_t k = 0; k < from->op_count; k++) {
            add_op(b, &from->ops[k]);
        }
    }
}

int opgen_commit(struct opgen *g, struct store *s, struct commit *c)
{
    opgen_fill(g, c);
    return store_commit(s, c);
}

/* -------------------------------------------------------------------------------- what is there */

struct looking {
    struct opgen *g;
    enum table_id table;
    size_t capacity;
};

static int look_row(void *context, const void *row)
{
    struct looking *l = context;
    struct opgen_rows *r = &l->g->seen[l->table];
    if (l->table == TABLE_job && ((const struct job_row *)row)->job == l->g->first_number) {
        return QP_OK; /* nobody touches the keeper */
    }
    if (r->count == l->capacity) {
        size_t capacity = l->capacity * 2 + 16;
        const void **rows = arena_alloc(&l->g->arena, capacity * sizeof *rows);
        QP_ASSERT(rows != NULL);
        if (r->count > 0) {
            memcpy(rows, r->rows, r->count * sizeof *rows);
        }
        r->rows = rows;
        l->capacity = capacity;
    }
    r->rows[r->count] = row_copy(&l->g->arena, l->table, row);
    QP_ASSERT(r->rows[r->count] != NULL);
    r->count++;
    return QP_OK;
}

static void look(struct opgen *g, struct store *s)
{
    static const enum table_id of_use[] = {
        TABLE_space, TABLE_node,      TABLE_job,      TABLE_act, TABLE_guid,    TABLE_sem,
        TABLE_msg,   TABLE_hook_wait, TABLE_key_hold, TABLE_app, TABLE_universe};
    struct qp_err err = {0};
    arena_reset(&g->arena);
    memset(g->seen, 0, sizeof g->seen);
    for (size_t i = 0; i < ARRAY_COUNT(of_use); i++) {
        struct looking l = {.g = g, .table = of_use[i]};
        struct scan all = {.table = of_use[i], .index = -1, .limit = SIZE_MAX};
        int rc = store_scan(s, &all, &l, look_row, &err);
        QP_ASSERT(rc == QP_OK);
        for (size_t j = 0; of_use[i] == TABLE_guid && j < g->seen[TABLE_act].count; j++) {
            struct guid_row first; /* a GUID on its activity's row is one like the others */
            if (act_first_guid(g->seen[TABLE_act].rows[j], &first)) {
                (void)look_row(&l, &first); /* always QP_OK */
            }
        }
    }
}

/* ----------------------------------------------------------------------------------- the commit */

/* On an empty store the numbers are known: the namespace takes 2, then come the block and the
 * nodes. One job keeps its number for good, so that there is always one that is taken. */
static void make_first(struct opgen *g)
{
    struct opgen_bundle *b = &g->bundles[0];
    g->advance_ms = 1;
    g->bundle_count = 1;
    b->op_count = 5;
    b->ops[0] = (struct op){.kind = OP_space_create, .space_create.name = QP_STR("other")};
    b->ops[1] = (struct op){.kind = OP_ids_reserve, .ids_reserve.count = NUMBERS};
    for (size_t i = 2; i < 4; i++) {
        b->ops[i] = (struct op){.kind = OP_node_put,
                                .node_put = {.name = QP_STR("node"), .lease_ms = 1000}};
    }
    g->first_number = STORE_NS_DEFAULT + 2;
    g->next_number = g->first_number + 1;
    b->ops[4] = (struct op){.kind = OP_job_create,
                            .job_create = {.ref = {STORE_NS_DEFAULT, g->first_number},
                                           .jid = QP_STR("keeper"),
                                           .workflow = QP_STR("keeper")}};
}

/* Mostly none or little; now and then past leases and timers, and sometimes a clock that was set
 * back. */
static int64_t make_advance(struct opgen *g)
{
    static const int64_t steps[] = {0,  0,  0,  0,    0,    0,     1,      1,      1,
                                    10, 10, 50, 1000, 2000, 30000, 120000, 3600000};
    if (!g->no_steps_back && opgen_chance(g, 2)) {
        return -(int64_t)opgen_below(g, 20000);
    }
    return steps[opgen_below(g, ARRAY_COUNT(steps))];
}

/* Short ones more often: a bundle of many random ops nearly always meets one that stops it. */
static size_t make_length(struct opgen *g)
{
    static const size_t lengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 5, 7, 10};
    return lengths[opgen_below(g, ARRAY_COUNT(lengths))];
}

/* Leaves out what the test does not want, in place. */
static void bundle_strip(const struct opgen *g, struct opgen_bundle *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->op_count; i++) {
        if (!g->is_skipped[b->ops[i].kind]) {
            b->ops[kept++] = b->ops[i];
        }
    }
    b->op_count = kept;
}

static void make_bundle(struct opgen *g, struct opgen_bundle *b)
{
    uint64_t recipe = opgen_below(g, 100);
    b->run_every = opgen_chance(g, 40) ? 1 + opgen_below(g, 4) : 0;
    if (recipe < 8) {
        opgen_make_start(g, b);
    } else if (recipe < 18) {
        opgen_make_answer(g, b);
    } else if (recipe < 21) {
        opgen_make_end(g, b);
    } else if (recipe < 28) {
        opgen_make_task(g, b);
    } else {
        b->op_count = make_length(g);
        for (size_t i = 0; i < b->op_count; i++) {
            opgen_make(g, &b->ops[i], make_kind(g));
        }
    }
    bundle_strip(g, b);
}

/* How often which op; those that end things come seldom, or there would be nothing to work on. */
static const unsigned weights[OP_COUNT] = {
    [OP_space_create] = 1, [OP_ids_reserve] = 2,     [OP_node_put] = 3,
    [OP_job_create] = 4,   [OP_job_set] = 4,         [OP_job_close] = 1,
    [OP_job_finish] = 2,   [OP_job_pause] = 2,       [OP_job_resume] = 3,
    [OP_job_sweep] = 2,    [OP_job_delete] = 2,      [OP_attr_put] = 4,
    [OP_act_create] = 6,   [OP_act_add] = 6,         [OP_act_notify] = 4,
    [OP_guid_enter] = 8,   [OP_guid_add] = 6,        [OP_guid_fold] = 3,
    [OP_sem_open] = 3,     [OP_sem_move] = 8,        [OP_msg_put] = 14,
    [OP_msg_claim] = 10,   [OP_msg_fence] = 3,       [OP_msg_extend] = 3,
    [OP_msg_ack] = 4,      [OP_msg_retry] = 4,       [OP_msg_dead_letter] = 3,
    [OP_msg_revive] = 3,   [OP_msg_adopt] = 3,       [OP_lane_limit] = 3,
    [OP_hook_open] = 6,    [OP_hook_close] = 2,      [OP_hook_signal] = 6,
    [OP_key_acquire] = 12, [OP_key_extend] = 2,      [OP_key_release] = 4,
    [OP_wake] = 4,         [OP_data_put] = 4,        [OP_event_add] = 4,
    [OP_feed_trim] = 2,    [OP_audit_add] = 2,       [OP_idem_put] = 3,
    [OP_host_call] = 3,    [OP_access_put] = 2,      [OP_access_set] = 2,
    [OP_app_put] = 4,      [OP_app_activate] = 3,    [OP_app_delete] = 2,
    [OP_topic_put] = 4,    [OP_app_collect] = 2,     [OP_universe_open] = 4,
    [OP_fact_put] = 6,     [OP_universe_seal] = 4,   [OP_universe_drop] = 2,
    [OP_msg_withdraw] = 2, [OP_universe_retire] = 2,
};

static enum op_kind make_kind(struct opgen *g)
{
    uint64_t sum = 0;
    uint64_t at;
    size_t kind = 0;
    for (size_t i = 0; i < OP_COUNT; i++) {
        QP_ASSERT(weights[i] > 0); /* a new op must be generated, too */
        sum += weights[i];
    }
    at = opgen_below(g, sum);
    while (at >= weights[kind]) {
        at -= weights[kind++];
    }
    return (enum op_kind)kind;
}
