/* check_world.c - a small healthy store in memory, damaged on purpose (see check_world.h) */
#include "kernel/check_world.h"

#include "kernel/check_internal.h"
#include "store/provider.h"

#define WORLD_MAX_TRIES 20
#define WORLD_LEASE_MS 60000

/* ---------------------------------------------------------------------------------------- turns */

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
    struct msg_ref task;      /* of a result */
    qp_str addr;
    qp_str output; /* of a start its input */
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
    struct commit c;
    struct bundle *b;
    int rc;
    turn->kernel = (struct kernel){.programs = &w->program,
                                   .program_count = 1,
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
    t.payload = str_is_none(turn->output) ? QP_STR("{}") : turn->output;
    return turn_begin(&t);
}

int world_start(struct world *w, const struct op_job_create *job)
{
    struct world_turn turn = {.job = *job, .output = w->input};
    w->jobs++;
    return world_decide(w, &turn, decide_start);
}

int world_claim(struct world *w, qp_str topic, struct msg_ref *out_task)
{
    struct commit c;
    struct bundle *b;
    struct op *op;
    int rc;
    commit_init(&c, w->store);
    b = commit_bundle(&c, "claim");
    op = bundle_op(b, OP_msg_claim);
    if (op != NULL) {
        op->msg_claim = (struct op_msg_claim){
            .ns = STORE_NS_DEFAULT, .topic = topic, .want = 1, .lease_ms = WORLD_LEASE_MS};
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

int world_ops(struct world *w, const struct op *ops, size_t count)
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

/* The result of a task. */
static int decide_result(void *context, struct bundle *b)
{
    struct world_turn *turn = context;
    struct site worker = {.ref = {turn->task.ns, turn->task.job}, .addr = turn->addr};
    struct op ack = {.kind = OP_msg_ack, .msg_ack = {.ref = turn->task}};
    struct turn t = {.stepwise = false};
    QP_TRY(step_guid(b, turn->task.guid, QP_STR("response"), &worker.guid));
    QP_TRY(turn_init(&t, &turn->kernel, b, &turn->outcome, &worker));
    QP_TRY(turn_op(&t, &ack));
    t.code = 200;
    t.payload = turn->output;
    return turn_answer(&t);
}

int world_answer(struct world *w, const struct msg_ref *task, qp_str addr, qp_str output)
{
    struct world_turn turn = {.task = *task, .addr = addr, .output = output};
    return world_decide(w, &turn, decide_result);
}

/* --------------------------------------------------------------------------------------- a world */

int world_open(struct world *w)
{
    struct memory_options of_memory = {.mode = MEMORY_SERIAL};
    struct store_options of_store = {0};
    int rc;
    arena_init(&w->arena, w->env, 0);
    rc = memory_create(w->env, &of_memory, &w->memory);
    if (rc != QP_OK) {
        return err_set(w->err, rc, "out of memory");
    }
    of_store.memory = w->memory;
    return store_open(w->env, &of_store, &w->store, w->err);
}

void world_close(struct world *w)
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
    const struct column *addr = column_named(e->table, e->table == TABLE_data ? "name" : "addr");
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

int world_edit(struct world *w, const struct edit *edits)
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

int world_expect(struct world *w, const char *rule)
{
    struct check_options options = {.max_tries = WORLD_MAX_TRIES, .faces = w->faces};
    struct expectation e = {w, rule};
    struct qp_check_result result = {0};
    int rc = check_run(w->store, &options, &e, expect_visit, &result, w->err);
    int64_t found_count = result.errors + result.warnings;
    if (rc == QP_OK && (found_count > 0) != (rule[0] != '\0')) {
        rc = err_set(w->err, QP_E_INTERNAL, "nothing was found");
    }
    if (rc == QP_OK && result.jobs != w->jobs) {
        rc = err_set(w->err, QP_E_INTERNAL, "%lld jobs were checked", (long long)result.jobs);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- selftests */

static bool is_seeded(const struct world_selftest *test, const char *rule)
{
    for (size_t i = 0; i < test->seed_count; i++) {
        if (strcmp(test->seeds[i].rule, rule) == 0) {
            return true;
        }
    }
    return false;
}

static const char *rule_without_seed(const struct world_selftest *test)
{
    for (size_t i = 0; test->face == NULL && i < check_rule_count; i++) {
        if (!is_seeded(test, check_rules[i].name)) {
            return check_rules[i].name;
        }
    }
    for (size_t i = 0; test->face != NULL && test->face->rules[i].name != NULL; i++) {
        if (!is_seeded(test, test->face->rules[i].name)) {
            return test->face->rules[i].name;
        }
    }
    return NULL;
}

static int find_seeded(struct world *w, const struct world_selftest *test, const struct seed *seed)
{
    QP_TRY(world_open(w));
    QP_TRY(test->build(w));
    QP_TRY(world_edit(w, seed->edits));
    return world_expect(w, seed->rule);
}

static int seed_run(const struct qp_env *env, const struct world_selftest *test,
                    const struct seed *seed, struct qp_err *err)
{
    struct faces faces = {.env = *env, .count = 1, .all = {{.face = test->face}}};
    struct world w = {.env = env,
                      .program = test->program,
                      .faces = test->face == NULL ? NULL : &faces,
                      .input = test->input,
                      .err = err};
    int rc = find_seeded(&w, test, seed);
    world_close(&w);
    return rc;
}

int world_selftest(const struct qp_env *env, const struct world_selftest *test, struct qp_err *err)
{
    const char *missing = rule_without_seed(test);
    if (missing != NULL) {
        return err_set(err, QP_E_INTERNAL, "rule %s has no seed", missing);
    }
    for (size_t i = 0; i < test->seed_count; i++) {
        int rc = seed_run(env, test, &test->seeds[i], err);
        if (rc != QP_OK) {
            return err_wrap(err, rc, "selftest of %s, seed %zu for rule '%s'",
                            test->face == NULL ? "the kernel" : test->face->name, i,
                            test->seeds[i].rule);
        }
    }
    return QP_OK;
}
