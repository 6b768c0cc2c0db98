/* check_selftest.c - the check is checked: every rule must find what is seeded for it, and nothing else
 *
 * The world is six jobs of one activity (single.h), made by turns and ops, so that it is healthy by construction:
 *
 *   101  its task waits in its topic     104  its task was given back, and waits for its time
 *   102  completed                       105  parked, with a dead letter
 *   103  its task is held, by a lease    106  has a further scope, an event, a hook and a key
 *
 * Every seed (check_seeds.def) gets a world of its own in memory. Its edits go to the provider directly, since
 * no op would write them.
 */
#include "kernel/check_internal.h"
#include "kernel/single.h"
#include "kernel/turn.h"
#include "store/memory.h"
#include "store/provider.h"

#define WORLD_FIRST 101
#define WORLD_JOBS 6
#define WORLD_MAX_TRIES 20
#define WORLD_LEASE_MS 60000
#define WORLD_DELAY_MS 3600000
#define SEED_GUID QP_STR("seeded-guid-0000")
#define EDITS_MAX 5

enum edit_kind { EDIT_NONE, EDIT_SET, EDIT_PUT, EDIT_ADD, EDIT_DEL };

struct edit {
    enum edit_kind kind;
    enum table_id table;
    int64_t job; /* 0: any */
    const char *addr;
    const char *column;
    int64_t number;
    qp_str text;
    const void *row;
};

struct seed {
    const char *rule;
    struct edit edits[EDITS_MAX];
};

#define SET(t, j, a, c, v)                                                                         \
    {                                                                                              \
        .kind = EDIT_SET, .table = TABLE_##t, .job = (j), .addr = (a), .column = #c, .number = (v) \
    }
#define PUT(t, j, a, c, v)                                                                         \
    {                                                                                              \
        .kind = EDIT_PUT, .table = TABLE_##t, .job = (j), .addr = (a), .column = #c, .text = v     \
    }
#define ADD(t, j, ...)                                                                             \
    {                                                                                              \
        .kind = EDIT_ADD, .table = TABLE_##t, .row = &(const struct t##_row)                       \
        {                                                                                          \
            .ns = STORE_NS_DEFAULT, .job = (j), .rev = 1, __VA_ARGS__                              \
        }                                                                                          \
    }
#define ADD_ROW(t, ...)                                                                            \
    {                                                                                              \
        .kind = EDIT_ADD, .table = TABLE_##t, .row = &(const struct t##_row)                       \
        {                                                                                          \
            .ns = STORE_NS_DEFAULT, .rev = 1, __VA_ARGS__                                          \
        }                                                                                          \
    }
#define DEL(t, j)                                                                                  \
    {                                                                                              \
        .kind = EDIT_DEL, .table = TABLE_##t, .job = (j)                                           \
    }
#define ONE_MORE(j) SET(job, j, NULL, sem, 2), SET(act, j, "trigger,0", delta, 2)
#define SEED(rule, ...) {rule, {__VA_ARGS__}},

struct world {
    const struct qp_env *env;
    struct memory *memory;
    struct store *store;
    struct arena arena;
    struct qp_err *err;
};

static int world_open(struct world *w, const struct qp_env *env, struct qp_err *err);
static void world_close(struct world *w);
static int world_edit(struct world *w, const struct edit *edits);
static int world_expect(struct world *w, const char *rule);

static int seed_run(const struct qp_env *env, const struct seed *seed, struct qp_err *err)
{
    struct world w = {0};
    int rc = world_open(&w, env, err);
    rc = rc == QP_OK ? world_edit(&w, seed->edits) : rc;
    rc = rc == QP_OK ? world_expect(&w, seed->rule) : rc;
    world_close(&w);
    return rc;
}

/* No rule without a seed, so that a new one cannot be forgotten. */
static int seeds_cover(const struct seed *seeds, size_t count, struct qp_err *err)
{
    for (size_t i = 0; i < check_rule_count; i++) {
        bool seeded = false;
        for (size_t j = 0; j < count; j++) {
            seeded = seeded || strcmp(seeds[j].rule, check_rules[i].name) == 0;
        }
        if (!seeded) {
            return err_set(err, QP_E_INTERNAL, "rule %s has no seed", check_rules[i].name);
        }
    }
    return QP_OK;
}

int check_selftest(const struct qp_env *env, struct qp_err *err)
{
    const struct seed seeds[] = {
        {"", {{.kind = EDIT_NONE}}}, /* the healthy world: nothing is found */
#include "kernel/check_seeds.def"
    };
    int rc = seeds_cover(seeds, ARRAY_COUNT(seeds), err);
    for (size_t i = 0; i < ARRAY_COUNT(seeds) && rc == QP_OK; i++) {
        rc = seed_run(env, &seeds[i], err);
        if (rc != QP_OK) {
            rc = err_wrap(err, rc, "selftest, seed %zu for rule '%s'", i, seeds[i].rule);
        }
    }
    return rc;
}

/* -------------------------------------------------------------------------------------- a world */

/* Numbered GUIDs, the same in every world. */
static qp_str world_guid(int64_t number)
{
    static const char guids[][LIMIT_GUID_SIZE + 1] = {
        "world-guid-00001", "world-guid-00002", "world-guid-00003", "world-guid-00004",
        "world-guid-00005", "world-guid-00006", "world-guid-00007", "world-guid-00008"};
    QP_ASSERT(number >= 0 && (size_t)number < ARRAY_COUNT(guids));
    return (qp_str){guids[number], LIMIT_GUID_SIZE};
}

/* A topic per job, so that each task can be claimed alone. */
static qp_str world_topic(int64_t number)
{
    static const char topics[] = "t1t2t3t4t5t6";
    return (qp_str){topics + 2 * number, 2};
}

static struct job_ref world_ref(int64_t number)
{
    return (struct job_ref){STORE_NS_DEFAULT, WORLD_FIRST + number};
}

static int world_commit(struct world *w, struct commit *c, const struct bundle *b)
{
    int rc = store_commit(w->store, c);
    rc = rc == QP_OK ? b->rc : rc;
    return rc == QP_OK ? QP_OK : err_set(w->err, rc, "build: %s", qp_code_text(rc));
}

/* One turn of a job, in a commit of its own. */
struct world_turn {
    struct kernel kernel;
    struct outcome outcome;
    struct op_job_create job; /* of a start */
    struct msg_ref task;      /* of a response */
};

/* No worker is here: every task goes into its stream. */
static void *no_worker(void *context, int64_t ns, qp_str topic, struct reservation *out_reserved)
{
    (void)context;
    (void)ns;
    (void)topic;
    (void)out_reserved;
    return NULL;
}

static int world_decide(struct world *w, struct world_turn *turn, bundle_decide decide)
{
    static const struct program *const programs[] = {&single_program};
    struct commit c;
    struct bundle *b;
    int rc;
    turn->kernel = (struct kernel){.programs = programs,
                                   .program_count = ARRAY_COUNT(programs),
                                   .ceilings = CEILINGS_DEFAULT,
                                   .reserve = no_worker};
    commit_init(&c, w->store);
    b = commit_decided(&c, "turn", decide, turn);
    rc = b == NULL ? c.rc : world_commit(w, &c, b);
    commit_done(&c);
    return rc;
}

/* The job's row, and from there on as a START message does: so the GUIDs are those of the world. */
static int decide_start(void *context, struct bundle *b)
{
    struct world_turn *turn = context;
    struct site trigger = {
        .ref = turn->job.ref, .addr = TRIGGER_ADDRESS, .guid = turn->job.owner_guid};
    struct op create = {.kind = OP_job_create, .job_create = turn->job};
    struct turn t = {.stepwise = false};
    QP_TRY(step_op(b, &create));
    QP_TRY(bundle_run(b));
    QP_TRY(turn_init(&t, &turn->kernel, b, &turn->outcome, &trigger));
    t.payload = QP_STR("{}");
    return turn_begin(&t);
}

static int world_start(struct world *w, int64_t number)
{
    struct world_turn turn = {.job = {.ref = world_ref(number),
                                      .jid = world_topic(number),
                                      .kind = SINGLE_KIND,
                                      .workflow = world_topic(number),
                                      .owner_guid = world_guid(number),
                                      .body_hash = world_guid(number)}};
    return world_decide(w, &turn, decide_start);
}

/* Claims the task of a job; its GUID is kept in the world's arena. */
static int world_claim(struct world *w, int64_t number, struct msg_ref *out_task)
{
    struct commit c;
    struct bundle *b;
    struct op *op;
    int rc;
    commit_init(&c, w->store);
    b = commit_bundle(&c, "claim");
    op = bundle_op(b, OP_msg_claim);
    if (op != NULL) {
        op->msg_claim = (struct op_msg_claim){.ns = STORE_NS_DEFAULT,
                                              .topic = world_topic(number),
                                              .want = 1,
                                              .lease_ms = WORLD_LEASE_MS};
    }
    rc = op == NULL ? c.rc : world_commit(w, &c, b);
    if (rc == QP_OK && op->msg_claim.out_count != 1) {
        rc = err_set(w->err, QP_E_INTERNAL, "build: there is no task to claim");
    }
    if (rc == QP_OK) {
        const struct msg_row *m = op->msg_claim.out_messages[0];
        *out_task = (struct msg_ref){m->ns, m->job, QP_NONE, m->token};
        rc = arena_copy(&w->arena, m->guid, &out_task->guid) ? QP_OK : QP_E_NOMEM;
    }
    commit_done(&c);
    return rc;
}

static int world_ops(struct world *w, const struct op *ops, size_t count)
{
    struct commit c;
    struct bundle *b;
    int rc;
    commit_init(&c, w->store);
    b = commit_bundle(&c, "build");
    for (size_t i = 0; i < count; i++) {
        struct op *op = bundle_op(b, ops[i].kind);
        if (op != NULL) {
            *op = ops[i];
        }
    }
    rc = b == NULL ? c.rc : world_commit(w, &c, b);
    commit_done(&c);
    return rc;
}

/* The response to a task. */
static int decide_response(void *context, struct bundle *b)
{
    struct world_turn *turn = context;
    struct site worker = {.ref = {turn->task.ns, turn->task.job}, .addr = QP_STR(SINGLE_ADDRESS)};
    struct op ack = {.kind = OP_msg_ack, .msg_ack = {.ref = turn->task}};
    struct turn t = {.stepwise = false};
    QP_TRY(step_guid(b, turn->task.guid, QP_STR("response"), &worker.guid));
    QP_TRY(turn_init(&t, &turn->kernel, b, &turn->outcome, &worker));
    QP_TRY(turn_op(&t, &ack));
    t.code = 200;
    t.payload = QP_STR("42");
    return turn_answer(&t);
}

static int build_completed(struct world *w, int64_t number)
{
    struct world_turn turn = {.task = {0}};
    QP_TRY(world_claim(w, number, &turn.task));
    return world_decide(w, &turn, decide_response);
}

static int build_held(struct world *w, int64_t number)
{
    struct msg_ref task;
    return world_claim(w, number, &task);
}

static int build_timer(struct world *w, int64_t number)
{
    struct op op = {.kind = OP_msg_retry, .msg_retry = {.delay_ms = WORLD_DELAY_MS}};
    int rc = world_claim(w, number, &op.msg_retry.ref);
    return rc == QP_OK ? world_ops(w, &op, 1) : rc;
}

static int build_parked(struct world *w, int64_t number)
{
    struct op ops[] = {{.kind = OP_msg_dead_letter, .msg_dead_letter = {.error = QP_STR("no")}},
                       {.kind = OP_job_set,
                        .job_set = {.ref = world_ref(number),
                                    .what = JOB_SET_PARKED,
                                    .parked = QP_STR("dead letter")}}};
    int rc = world_claim(w, number, &ops[0].msg_dead_letter.ref);
    return rc == QP_OK ? world_ops(w, ops, ARRAY_COUNT(ops)) : rc;
}

static int build_scope(struct world *w, int64_t number)
{
    struct job_ref ref = world_ref(number);
    qp_str addr = QP_STR(SINGLE_ADDRESS);
    struct op ops[] = {
        {.kind = OP_sem_open,
         .sem_open = {.ref = ref,
                      .scope = 1,
                      .opening = 2,
                      .owner_addr = addr,
                      .guid = world_guid(WORLD_JOBS),
                      .topic = QP_STR("edge")}},
        {.kind = OP_sem_move,
         .sem_move = {.ref = ref,
                      .addr = QP_STR("trigger,0"),
                      .guid = world_guid(number),
                      .scope = 1,
                      .delta = -1}},
        {.kind = OP_event_add, .event_add = {.ref = ref, .kind = 1}},
        {.kind = OP_hook_open,
         .hook_open = {.ref = ref,
                       .topic = QP_STR("h"),
                       .key = QP_STR("k"),
                       .addr = addr,
                       .msg_topic = QP_STR("signal")}},
        {.kind = OP_key_acquire,
         .key_acquire = {.ns = ref.ns,
                         .name = QP_STR("lock"),
                         .capacity = 1,
                         .units = 1,
                         .holder = ref,
                         .addr = addr,
                         .guid = world_guid(WORLD_JOBS + 1),
                         .msg_topic = QP_STR("granted")}},
    };
    return world_ops(w, ops, ARRAY_COUNT(ops));
}

static int build_ready(struct world *w, int64_t number)
{
    (void)w;
    (void)number;
    return QP_OK;
}

static int world_build(struct world *w)
{
    static int (*const builders[WORLD_JOBS])(struct world * w, int64_t number) = {
        build_ready, build_completed, build_held, build_timer, build_parked, build_scope};
    int rc = QP_OK;
    for (int64_t i = 0; i < WORLD_JOBS && rc == QP_OK; i++) {
        rc = world_start(w, i);
        rc = rc == QP_OK ? builders[i](w, i) : rc;
    }
    return rc;
}

static int world_open(struct world *w, const struct qp_env *env, struct qp_err *err)
{
    struct memory_options of_memory = {.mode = MEMORY_SERIAL};
    struct store_options of_store = {0};
    int rc;
    w->env = env;
    w->err = err;
    arena_init(&w->arena, env, 0);
    rc = memory_create(env, &of_memory, &w->memory);
    if (rc != QP_OK) {
        return err_set(err, rc, "out of memory");
    }
    of_store.memory = w->memory;
    rc = store_open(env, &of_store, &w->store, err);
    return rc == QP_OK ? world_build(w) : rc;
}

static void world_close(struct world *w)
{
    (void)store_close(w->store, NULL); /* nothing of it is kept */
    memory_destroy(w->memory);
    arena_done(&w->arena);
}

/* ---------------------------------------------------------------------------------------- edits */

/* Looks for the first row of a job and an address. */
struct search {
    struct world *w;
    const struct edit *edit;
    void *row; /* a copy, in the world's arena */
};

static const struct column *column_named(enum table_id table, const char *name)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i < t->column_count; i++) {
        if (strcmp(t->columns[i].name, name) == 0) {
            return &t->columns[i];
        }
    }
    return NULL;
}

static int search_row(void *context, const void *row)
{
    struct search *s = context;
    const struct edit *e = s->edit;
    const struct column *job = column_named(e->table, "job");
    const struct column *addr = column_named(e->table, "addr");
    if (s->row != NULL || (e->job != 0 && row_i64(job, row) != e->job) ||
        (e->addr != NULL && !str_equal(row_str(addr, row), str_from(e->addr)))) {
        return QP_OK;
    }
    s->row = row_copy(&s->w->arena, e->table, row);
    return s->row == NULL ? QP_E_NOMEM : QP_OK;
}

/* The row after the edit, in the arena; NULL when it goes. */
static int edit_after(struct world *w, const struct edit *e, const void *before, void **out_after)
{
    const struct column *column;
    void *after;
    if (e->kind == EDIT_DEL) {
        *out_after = NULL;
        return QP_OK;
    }
    after = row_copy(&w->arena, e->table, e->kind == EDIT_ADD ? e->row : before);
    if (after == NULL) {
        return err_set(w->err, QP_E_NOMEM, "edit: out of memory");
    }
    column = e->kind == EDIT_ADD ? NULL : column_named(e->table, e->column);
    if (e->kind == EDIT_SET) {
        row_set_i64(column, after, e->number);
    } else if (e->kind == EDIT_PUT) {
        row_set_str(column, after, e->text);
    }
    *out_after = after;
    return QP_OK;
}

static int edit_one(struct world *w, struct provider *p, const struct edit *e)
{
    struct scan all = {.table = e->table, .index = -1, .limit = SIZE_MAX};
    struct search s = {w, e, NULL};
    void *after = NULL;
    int rc = e->kind == EDIT_ADD ? QP_OK : p->calls->scan(p, &all, &s, search_row, w->err);
    if (rc == QP_OK && e->kind != EDIT_ADD && s.row == NULL) {
        rc = err_set(w->err, QP_E_INTERNAL, "edit: %s has no such row", tables[e->table].name);
    }
    rc = rc == QP_OK ? edit_after(w, e, s.row, &after) : rc;
    return rc == QP_OK ? p->calls->write(p, e->table, s.row, after, w->err) : rc;
}

static int world_edit(struct world *w, const struct edit *edits)
{
    struct store_options options = {.memory = w->memory};
    struct provider *p = NULL;
    int rc = memory_open(w->env, &options, &p, w->err);
    if (rc != QP_OK) {
        return rc;
    }
    rc = p->calls->begin(p, w->err);
    for (size_t i = 0; i < EDITS_MAX && rc == QP_OK; i++) {
        rc = edits[i].kind == EDIT_NONE ? QP_OK : edit_one(w, p, &edits[i]);
    }
    rc = rc == QP_OK ? p->calls->commit(p, w->err) : rc;
    p->calls->close(p); /* rolls back what is not committed */
    return rc;
}

/* --------------------------------------------------------------------------------- expectations */

struct expectation {
    struct world *w;
    const char *rule;
};

/* Only the rule that is meant may find something. */
static int expect_visit(void *context, const struct qp_finding *finding)
{
    struct expectation *e = context;
    return strcmp(finding->rule, e->rule) == 0
               ? QP_OK
               : err_set(e->w->err, QP_E_INTERNAL, "rule %s found something: %s (%s)",
                         finding->rule, finding->text, finding->evidence);
}

static int world_expect(struct world *w, const char *rule)
{
    struct check_options options = {.max_tries = WORLD_MAX_TRIES};
    struct expectation e = {w, rule};
    struct qp_check_result result = {0};
    int rc = check_run(w->store, &options, &e, expect_visit, &result, w->err);
    int64_t found_count = result.errors + result.warnings;
    if (rc == QP_OK && (found_count > 0) != (rule[0] != '\0')) {
        rc = err_set(w->err, QP_E_INTERNAL, "nothing was found");
    }
    if (rc == QP_OK && result.jobs != WORLD_JOBS) {
        rc = err_set(w->err, QP_E_INTERNAL, "%lld jobs were checked", (long long)result.jobs);
    }
    return rc;
}
