/* test_check.c - the check finds nothing in what ops made, and what was changed behind their back;
 * it bears want of memory and a store that moves */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/check.h"
#include "kernel/ledger.h"
#include "store/txn.h"
#include "support/singlejob.h"
#include "support/storetest.h"

static struct storetest f;

/* What a check found, by its visits. */
struct heard {
    int64_t count;
    char rules[256]; /* each name with a blank behind it */
    char job[32];    /* of the last one */
    int rc;          /* what to answer */
};

static int hear(void *context, const struct qp_finding *finding)
{
    struct heard *h = context;
    size_t used = strlen(h->rules);
    assert_non_null(finding->rule);
    assert_true(strlen(finding->text) > 0);
    assert_true(strlen(finding->next) > 0);
    h->count++;
    (void)snprintf(h->job, sizeof h->job, "%.*s", STR_ARG(finding->job));
    (void)snprintf(h->rules + used, sizeof h->rules - used, "%s ", finding->rule);
    return h->rc;
}

static struct heard check_with(const struct check_options *options, struct qp_check_result *result)
{
    struct heard h = {0};
    struct qp_err err = {0};
    int rc = check_run(f.s, options, &h, hear, result, &err);
    if (rc != QP_OK) {
        fail_msg("check: %s", err.text);
    }
    return h;
}

static void assert_clean(int64_t jobs)
{
    struct qp_check_result result = {0};
    struct heard h = check_with(&(struct check_options){0}, &result);
    if (h.count != 0) {
        fail_msg("%s: found %s", storetest_name(f.kind), h.rules);
    }
    assert_int_equal(result.jobs, jobs);
    assert_int_equal(result.errors + result.warnings, 0);
    assert_false(result.truncated);
}

static void start(unsigned number)
{
    char jid[32];
    struct singlejob_start s = {.ref = {STORE_NS_DEFAULT, 100 + (int64_t)number},
                                .topic = QP_STR("charge"),
                                .input = QP_STR("{}"),
                                .owner_guid = storetest_guid(number)};
    struct commit c;
    struct bundle *b;
    (void)snprintf(jid, sizeof jid, "order-%u", number);
    s.jid = str_from(jid);
    commit_init(&c, f.s);
    b = commit_bundle(&c, "start");
    assert_int_equal(singlejob_start(b, &s), QP_OK);
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
}

/* Claims a task; its GUID is kept in `guid`. */
static struct msg_ref claim(char guid[LIMIT_GUID_SIZE])
{
    struct msg_ref task;
    struct commit c;
    struct op *op;
    commit_init(&c, f.s);
    op = bundle_op(commit_bundle(&c, "claim"), OP_msg_claim);
    op->msg_claim = (struct op_msg_claim){
        .ns = STORE_NS_DEFAULT, .topic = QP_STR("charge"), .want = 1, .lease_ms = 1000};
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(op->msg_claim.out_count, 1);
    memcpy(guid, op->msg_claim.out_messages[0]->guid.p, LIMIT_GUID_SIZE);
    task = (struct msg_ref){STORE_NS_DEFAULT,
                            op->msg_claim.out_messages[0]->job,
                            {guid, LIMIT_GUID_SIZE},
                            op->msg_claim.out_messages[0]->token};
    commit_done(&c);
    return task;
}

static void complete(void)
{
    char guid[LIMIT_GUID_SIZE];
    struct msg_ref task = claim(guid);
    struct commit c;
    struct bundle *b;
    commit_init(&c, f.s);
    b = commit_bundle(&c, "complete");
    assert_int_equal(singlejob_complete(b, &task, QP_STR("42")), QP_OK);
    assert_int_equal(store_commit(f.s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
}

/* Every rule finds its seeds and nothing else. */
static void test_selftest(void **state)
{
    static struct testenv t;
    struct qp_err err = {0};
    testenv_init(&t, 1);
    if (check_selftest(&t.env, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    testenv_done(&t);
}

/* What singlejob_start and singlejob_complete leave is clean at every commit, on every provider. */
static void test_clean(void **state)
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        char guid[LIMIT_GUID_SIZE];
        storetest_init(&f, (enum storetest_kind)kind, 1);
        assert_clean(0);
        start(1);
        assert_clean(1);
        start(2);
        complete();
        assert_clean(2);
        (void)claim(guid); /* held from now on */
        assert_clean(2);
        storetest_reopen(&f);
        assert_clean(2);
        storetest_done(&f);
    }
}

/* More jobs than a page. */
static void test_pages(void **state)
{
    const unsigned jobs = 2 * LIMIT_CHECK_PAGE_JOBS;
    storetest_init(&f, STORETEST_SQLITE, 1);
    for (unsigned i = 0; i <= jobs; i++) {
        if (i == LIMIT_CHECK_PAGE_JOBS || i == jobs) {
            assert_clean(i);
        }
        start(i);
    }
    assert_clean(jobs + 1);
    storetest_done(&f);
}

/* Rows of one job, more than are read ahead, between jobs that have few: it is whole, and so are they. */
static void test_large(void **state)
{
    enum { EVENTS = 2 * LIMIT_CHECK_PAGE_ROWS + 1 };
    static struct op ops[EVENTS];
    for (int i = 0; i < EVENTS; i++) {
        ops[i] = (struct op){.kind = OP_event_add,
                             .event_add = {.ref = {STORE_NS_DEFAULT, 102}, .kind = 1}};
    }
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct qp_check_result result = {0};
        struct heard h;
        storetest_init(&f, (enum storetest_kind)kind, 1);
        start(1);
        start(2);
        start(3);
        assert_int_equal(storetest_bundle(&f, ops, EVENTS, NULL), QP_OK);
        complete();
        assert_clean(3);
        h = check_with(&(struct check_options){.job = QP_STR("order-2")}, &result);
        assert_int_equal(h.count, 0);
        assert_int_equal(result.jobs, 1);
        storetest_done(&f);
    }
}

/* How often a store was asked. */
static struct {
    const struct provider_calls *real;
    struct provider_calls calls;
    int64_t count;
} asked;

static int count_load(struct provider *p, struct arena *arena, enum table_id table, const void *key,
                      void **out_row, struct qp_err *err)
{
    asked.count++;
    return asked.real->load(p, arena, table, key, out_row, err);
}

static int count_load_all(struct provider *p, struct arena *arena, enum table_id table,
                          const void *const *keys, size_t count, void **out_rows,
                          struct qp_err *err)
{
    int rc = QP_OK;
    asked.count++;
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = asked.real->load(p, arena, table, keys[i], &out_rows[i], err);
    }
    return rc;
}

static int count_scan(struct provider *p, const struct scan *scan, void *context, store_visit visit,
                      struct qp_err *err)
{
    asked.count++;
    return asked.real->scan(p, scan, context, visit, err);
}

/* A page of jobs costs a few questions, however many jobs it has: where the store is a server, each is a
 * round trip. */
static void test_questions(void **state)
{
    const unsigned jobs = 8 * LIMIT_CHECK_PAGE_JOBS;
    struct provider *p;
    storetest_init(&f, STORETEST_MEMORY, 1);
    for (unsigned i = 0; i < jobs; i++) {
        start(i);
    }
    p = store_provider(f.s);
    asked.real = p->calls;
    asked.calls = *p->calls;
    asked.calls.load = count_load;
    asked.calls.load_all = count_load_all;
    asked.calls.scan = count_scan;
    asked.count = 0;
    p->calls = &asked.calls;
    assert_clean(jobs);
    p->calls = asked.real;
    assert_in_range(asked.count, 1, jobs / 10);
    storetest_done(&f);
}

/* A GUID that was folded has left its delta and its place in the journal on the activity. */
static void test_folded(void **state)
{
    struct job_ref ref = {STORE_NS_DEFAULT, 101};
    qp_str addr = QP_STR(SINGLE_ADDRESS);
    struct op enter[] = {{.kind = OP_guid_enter,
                          .guid_enter = {.ref = ref,
                                         .addr = addr,
                                         .guid = storetest_guid(9),
                                         .ordinal_ceiling = 99,
                                         .ledger = GUID_WORK}},
                         {.kind = OP_sem_move,
                          .sem_move = {.ref = ref,
                                       .addr = addr,
                                       .guid = storetest_guid(9),
                                       .spawn_weight = GUID_SPAWNED,
                                       .close_state = JOB_COMPLETED}}};
    struct op fold = {.kind = OP_guid_fold,
                      .guid_fold = {.ref = ref, .addr = addr, .guid = storetest_guid(9)}};
    storetest_init(&f, STORETEST_MEMORY, 1);
    start(1);
    assert_int_equal(storetest_bundle(&f, enter, 2, NULL), QP_OK);
    assert_clean(1);
    assert_int_equal(storetest_op(&f, &fold), QP_OK);
    assert_clean(1);
    complete();
    assert_clean(1);
    storetest_done(&f);
}

/* A job that was ended out of its turn: its GUID closed and completed it without having spawned. */
static void test_ended(void **state)
{
    struct job_ref ref = {STORE_NS_DEFAULT, 101};
    qp_str addr = QP_STR(SINGLE_ADDRESS);
    qp_str guid = storetest_guid(9);
    struct op ops[] = {
        {.kind = OP_guid_enter,
         .guid_enter = {.ref = ref, .addr = addr, .guid = guid, .ordinal_ceiling = 99}},
        {.kind = OP_job_close, .job_close = {.ref = ref, .guid = guid, .state = JOB_FAILED}},
        {.kind = OP_guid_add,
         .guid_add =
             {.ref = ref, .addr = addr, .guid = guid, .weight = GUID_CLOSED + GUID_COMPLETED}},
        {.kind = OP_act_add,
         .act_add = {.ref = ref, .addr = addr, .weight = LEDGER_FINALIZED, .attempt = -1}},
        {.kind = OP_job_finish, .job_finish = {.ref = ref, .guid = guid}},
    };
    storetest_init(&f, STORETEST_MEMORY, 1);
    start(1);
    assert_int_equal(storetest_bundle(&f, ops, ARRAY_COUNT(ops), NULL), QP_OK);
    assert_clean(1);
    storetest_done(&f);
}

/* The parent of a child that has not answered is woken by it. */
static void test_child(void **state)
{
    struct op child = {.kind = OP_job_create,
                       .job_create = {.ref = {STORE_NS_DEFAULT, 200},
                                      .jid = QP_STR("child"),
                                      .workflow = QP_STR("charge"),
                                      .parent_job = 101,
                                      .parent_addr = QP_STR(SINGLE_ADDRESS),
                                      .parent_guid = storetest_guid(8),
                                      .owner_guid = storetest_guid(7),
                                      .body_hash = storetest_guid(6)}};
    struct op waits = {.kind = OP_act_add,
                       .act_add = {.ref = {STORE_NS_DEFAULT, 101},
                                   .addr = QP_STR(SINGLE_ADDRESS),
                                   .attempt = -1,
                                   .waits = ACT_WAITS}};
    char guid[LIMIT_GUID_SIZE];
    struct op ack = {.kind = OP_msg_ack};
    struct qp_check_result result = {0};
    struct heard h;
    storetest_init(&f, STORETEST_MEMORY, 1);
    start(1);
    ack.msg_ack.ref = claim(guid);
    assert_int_equal(storetest_op(&f, &ack), QP_OK);
    h = check_with(&(struct check_options){0}, &result);
    assert_string_equal(h.rules, "M3 ");
    assert_int_equal(storetest_op(&f, &child), QP_OK);
    h = check_with(&(struct check_options){0}, &result);
    assert_string_equal(h.rules, "S5 "); /* it is awaited, and nothing counts it */
    assert_int_equal(storetest_op(&f, &waits), QP_OK);
    assert_clean(2);
    /* One whose parent has no such activity is found from both ends, and told as the child's. */
    child.job_create.ref.job = 201;
    child.job_create.jid = QP_STR("lost");
    child.job_create.parent_addr = QP_STR("nowhere,0");
    child.job_create.owner_guid = storetest_guid(5);
    assert_int_equal(storetest_op(&f, &child), QP_OK);
    h = check_with(&(struct check_options){.rules = QP_STR("O6")}, &result);
    assert_string_equal(h.rules, "O6 ");
    assert_string_equal(h.job, "lost");
    h = check_with(&(struct check_options){.rules = QP_STR("O6"), .job = QP_STR("lost")}, &result);
    assert_string_equal(h.rules, "O6 ");
    h = check_with(&(struct check_options){.rules = QP_STR("O6"), .job = QP_STR("order-1")},
                   &result);
    assert_string_equal(h.rules, "");
    storetest_done(&f);
}

/* The first row of a table, changed behind the back of the ops. */
struct mutation {
    enum table_id table;
    const char *column;
    struct provider *provider;
};

static int mutate_row(void *context, const void *row)
{
    struct mutation *m = context;
    const struct table *t = &tables[m->table];
    struct qp_err err = {0};
    void *after = row_clone(&f.t.env, m->table, row);
    int rc;
    for (size_t i = 0; i < t->column_count; i++) {
        if (strcmp(t->columns[i].name, m->column) == 0) {
            row_set_i64(&t->columns[i], after, row_i64(&t->columns[i], row) + 1);
        }
    }
    rc = m->provider->calls->write(m->provider, m->table, row, after, &err);
    mem_free(&f.t.env, after);
    return rc;
}

static void mutate(enum table_id table, const char *column)
{
    struct store_options options = {.memory = f.memory};
    struct mutation m = {table, column, NULL};
    struct scan first = {.table = table, .index = -1, .limit = 1};
    struct qp_err err = {0};
    assert_int_equal(memory_open(&f.t.env, &options, &m.provider, &err), QP_OK);
    assert_int_equal(m.provider->calls->begin(m.provider, &err), QP_OK);
    assert_int_equal(m.provider->calls->scan(m.provider, &first, &m, mutate_row, &err), QP_OK);
    assert_int_equal(m.provider->calls->commit(m.provider, &err), QP_OK);
    m.provider->calls->close(m.provider);
}

/* One more in a number that the protocol keeps is found, in an open job and in a closed one. */
static void test_mutations(void **state)
{
    enum { OPEN = 1, CLOSED = 2 };
    static const struct {
        enum table_id table;
        const char *column;
        int when; /* a threshold matters until the edge, an answer from then on */
    } rows[] = {
        {TABLE_job, "sem", OPEN | CLOSED},
        {TABLE_job, "threshold", OPEN},
        {TABLE_job, "seq", OPEN | CLOSED},
        {TABLE_job, "completions", OPEN | CLOSED},
        {TABLE_job, "state", OPEN | CLOSED},
        {TABLE_job, "status", OPEN | CLOSED},
        {TABLE_act, "guid_rows", OPEN | CLOSED},
        {TABLE_act, "folded_n", OPEN | CLOSED},
        {TABLE_act, "folded_delta", OPEN | CLOSED},
        {TABLE_act, "seq", OPEN | CLOSED},
        {TABLE_act, "guid_seq", CLOSED},
        {TABLE_act, "delta", CLOSED},
        {TABLE_act, "n", CLOSED},
        {TABLE_act, "guid_ledger", CLOSED},
        {TABLE_counter, "n", OPEN | CLOSED},
        {TABLE_counter, "status", OPEN},
        {TABLE_lane, "ready", OPEN | CLOSED},
        {TABLE_lane, "held", OPEN | CLOSED},
        {TABLE_job_name, "job", OPEN | CLOSED},
    };
    for (size_t i = 0; i < 2 * ARRAY_COUNT(rows); i++) {
        struct qp_check_result result = {0};
        bool closed = i % 2 != 0;
        if ((rows[i / 2].when & (closed ? CLOSED : OPEN)) == 0) {
            continue;
        }
        storetest_init(&f, STORETEST_MEMORY, 1);
        start(1);
        if (closed) {
            complete();
        }
        mutate(rows[i / 2].table, rows[i / 2].column);
        (void)check_with(&(struct check_options){0}, &result);
        if (result.errors == 0) {
            fail_msg("%s.%s was not found", tables[rows[i / 2].table].name, rows[i / 2].column);
        }
        storetest_done(&f);
    }
}

/* The options narrow what is asked. */
static void test_options(void **state)
{
    struct qp_check_result result = {0};
    struct heard h;
    storetest_init(&f, STORETEST_MEMORY, 1);
    start(1);
    start(2);
    mutate(TABLE_job, "sem"); /* of order-1: S1 and S4 */
    h = check_with(&(struct check_options){0}, &result);
    assert_string_equal(h.rules, "S1 S4 ");
    h = check_with(&(struct check_options){.rules = QP_STR("A,S4,X1")}, &result);
    assert_string_equal(h.rules, "S4 ");
    h = check_with(&(struct check_options){.rules = QP_STR("S")}, &result);
    assert_string_equal(h.rules, "S1 S4 ");
    h = check_with(&(struct check_options){.job = QP_STR("order-2")}, &result);
    assert_string_equal(h.rules, "");
    assert_int_equal(result.jobs, 1);
    h = check_with(
        &(struct check_options){.job = QP_STR("order-1"), .namespace_name = QP_STR("default")},
        &result);
    assert_string_equal(h.rules, "S1 S4 ");
    h = check_with(&(struct check_options){.limit = 1}, &result);
    assert_string_equal(h.rules, "S1 ");
    assert_true(result.truncated);
    storetest_done(&f);
}

/* What cannot be asked is refused, and a visit can end it. */
static void test_refusals(void **state)
{
    static const struct {
        struct check_options options;
        int rc;
    } cases[] = {
        {{.rules = {"A9", 2}}, QP_E_INVALID},
        {{.rules = {"", 0}}, QP_E_INVALID},
        {{.rules = {"A1,", 3}}, QP_E_INVALID},
        {{.rules = {"A1x", 3}}, QP_E_INVALID},
        {{.limit = -1}, QP_E_INVALID},
        {{.job = {"nobody", 6}}, QP_E_NOT_FOUND},
        {{.namespace_name = {"x", 1}}, QP_E_NOT_FOUND},
    };
    struct heard h = {.rc = QP_E_TIMEOUT};
    struct qp_check_result result = {.jobs = -1};
    struct qp_err err = {0};
    storetest_init(&f, STORETEST_MEMORY, 1);
    start(1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(check_run(f.s, &cases[i].options, &h, hear, &result, &err), cases[i].rc);
        assert_true(strlen(err.text) > 0);
    }
    mutate(TABLE_job, "sem");
    assert_int_equal(check_run(f.s, &(struct check_options){0}, &h, hear, &result, &err),
                     QP_E_TIMEOUT);
    assert_int_equal(result.jobs, -1);
    storetest_done(&f);
}

/* A job whose retention time is over may be half deleted: that is no violation. */
static void test_fading(void **state)
{
    struct op events[] = {{.kind = OP_event_add, .event_add = {.ref = {STORE_NS_DEFAULT, 101}}},
                          {.kind = OP_event_add, .event_add = {.ref = {STORE_NS_DEFAULT, 101}}}};
    struct op delete = {.kind = OP_job_delete,
                        .job_delete = {.ref = {STORE_NS_DEFAULT, 101}, .limit = 2}};
    struct qp_check_result result = {0};
    storetest_init(&f, STORETEST_MEMORY, 1);
    start(1);
    assert_int_equal(storetest_bundle(&f, events, 2, NULL), QP_OK);
    complete();
    assert_int_equal(storetest_op(&f, &delete), QP_OK);
    assert_true(delete.job_delete.out_more);
    (void)check_with(&(struct check_options){0}, &result);
    assert_true(result.errors > 0); /* nobody said that it may go */
    mutate(TABLE_job, "expire_at"); /* 0 -> 1 */
    assert_clean(0);
    assert_int_equal(storetest_op(&f, &delete), QP_OK);
    assert_int_equal(storetest_op(&f, &delete), QP_OK);
    assert_clean(0);
    storetest_done(&f);
}

/* A world in which another handle commits whenever this one asks for memory. */
static struct {
    bool busy;
    bool armed;
    bool odd;
    struct op op;
    int64_t jobs[2]; /* in turns */
} other;

static void *resize_and_commit(void *context, void *pointer, size_t size)
{
    if (other.armed && !other.busy && size > 0) {
        other.busy = true;
        other.odd = !other.odd;
        other.op.event_add.ref = (struct job_ref){STORE_NS_DEFAULT, other.jobs[other.odd]};
        assert_int_equal(storetest_op(&f, &other.op), QP_OK);
        other.busy = false;
    }
    return f.t.env.resize(context, pointer, size);
}

/* A file is read in snapshots: whoever writes meanwhile does not disturb, be it to a job of the first page
 * or to one whose rows were read ahead with it. */
static void test_moving(void **state)
{
    struct qp_env env;
    struct store_options options = {0};
    struct store *reader = NULL;
    struct heard h = {0};
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    storetest_init(&f, STORETEST_SQLITE, 1);
    for (unsigned i = 1; i <= LIMIT_CHECK_PAGE_JOBS + 2; i++) {
        start(i);
    }
    env = f.t.env;
    env.resize = resize_and_commit;
    options.path = f.path;
    options.read_only = true;
    other.op = (struct op){.kind = OP_event_add, .event_add = {.kind = 1}};
    other.jobs[0] = 101;
    other.jobs[1] = 100 + LIMIT_CHECK_PAGE_JOBS + 2;
    assert_int_equal(store_open(&env, &options, &reader, &err), QP_OK);
    other.armed = true;
    assert_int_equal(check_run(reader, &(struct check_options){0}, &h, hear, &result, &err), QP_OK);
    other.armed = false;
    assert_int_equal(h.count, 0);
    assert_int_equal(result.jobs, LIMIT_CHECK_PAGE_JOBS + 2);
    assert_int_equal(store_close(reader, &err), QP_OK);
    assert_clean(LIMIT_CHECK_PAGE_JOBS + 2);
    storetest_done(&f);
}

/* Want of memory is an error at every place, and nothing leaks. */
static void test_no_memory(void **state)
{
    static const enum storetest_kind kinds[] = {STORETEST_MEMORY, STORETEST_SQLITE};
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        storetest_init(&f, kinds[k], 1);
        start(1);
        start(2);
        complete();
        for (int64_t n = 1;; n++) {
            struct heard h = {0};
            struct qp_check_result result = {.jobs = -1};
            struct qp_err err = {0};
            int rc;
            testenv_fail_at(&f.t, n);
            rc = check_run(f.s, &(struct check_options){0}, &h, hear, &result, &err);
            if (!testenv_failed(&f.t)) {
                assert_int_equal(rc, QP_OK);
                assert_int_equal(h.count, 0);
                break;
            }
            assert_int_equal(rc, QP_E_NOMEM);
            assert_int_equal(result.jobs, -1);
        }
        testenv_fail_at(&f.t, 0);
        storetest_done(&f);
    }
}

/* The selftest too, at some of its many places. */
static void test_selftest_no_memory(void **state)
{
    static struct testenv t;
    testenv_init(&t, 1);
    for (int64_t n = 1;; n += 1009) {
        struct qp_err err = {0};
        int rc;
        testenv_fail_at(&t, n);
        rc = check_selftest(&t.env, &err);
        if (!testenv_failed(&t)) {
            assert_int_equal(rc, QP_OK);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
    }
    testenv_fail_at(&t, 0);
    testenv_done(&t);
}

/* The public call opens the file for reading only, beside the one that writes to it. */
static void test_public(void **state)
{
    struct qp_check_options options = {0};
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    storetest_init(&f, STORETEST_SQLITE, 1);
    start(1);
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_E_INVALID);
    qp_check_options_init(&options);
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_E_INVALID);
    options.path = "no-such-file.db";
    options.env = &f.t.env;
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_E_NOT_FOUND);
    options.path = f.path;
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_OK);
    assert_int_equal(result.jobs, 1);
    assert_int_equal(result.errors + result.warnings, 0);
    options.rules = "Z";
    assert_int_equal(qp_check(&options, NULL, NULL, &result, &err), QP_E_INVALID);
    storetest_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selftest),  cmocka_unit_test(test_clean),
        cmocka_unit_test(test_pages),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_questions), cmocka_unit_test(test_folded),
        cmocka_unit_test(test_ended),     cmocka_unit_test(test_child),
        cmocka_unit_test(test_mutations), cmocka_unit_test(test_options),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_fading),
        cmocka_unit_test(test_moving),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_public),    cmocka_unit_test(test_selftest_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
