/* conform_sweep.c - what a closed job leaves behind, and what is left of a deleted one: nothing */
#include "store/conform.h"

static struct op acquire(int64_t job, unsigned guid, qp_str name)
{
    return OP(key_acquire, .ns = NS, .name = name, .capacity = 1, .units = 1, .holder = JOB(job),
              .addr = QP_STR("a"), .guid = G(guid), .msg_topic = TOPIC, .wait = true);
}

/* Something of every kind that a job can wait for or hold; another job waits for its key. */
static void encumber(struct storetest *f, int64_t job, int64_t rival)
{
    conform_put(f, job, 11);
    DO(f, OP(msg_put, .ref = JOB(job), .guid = G(12), .topic = TOPIC, .delay_ms = 1000));
    DO(f, OP(msg_put, .ref = JOB(job), .guid = G(13), .topic = TOPIC, .holder = conform_epoch(f)));
    DO(f, OP(hook_open, .ref = JOB(job), .topic = QP_STR("hook"), .key = QP_STR("k"),
             .addr = QP_STR("a"), .msg_topic = TOPIC));
    DO(f, acquire(job, 14, QP_STR("mine")));
    DO(f, acquire(job, 15, QP_STR("mine"))); /* waits for itself */
    DO(f, acquire(rival, 16, QP_STR("mine")));
    DO(f, acquire(rival, 17, QP_STR("theirs")));
    DO(f, acquire(job, 18, QP_STR("theirs")));
}

/* Proves that a sweep takes messages, timers, hooks, places and holds, and passes keys on to their
 * next waiters, whatever the size of its steps. */
static void test_sweep(void **state)
{
    static const int64_t limits[] = {1, 3, 100};
    struct storetest *f = *state;
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        int64_t job = 100 + 2 * (int64_t)i;
        int64_t rival = job + 1;
        conform_job_open(f, job, 1);
        conform_job_open(f, rival, 1);
        encumber(f, job, rival);
        (void)REFUSED(f, QP_E_CONFLICT, OP(job_sweep, .ref = JOB(job), .limit = 10));
        DO(f, OP(job_close, .ref = JOB(job), .guid = G(7), .state = JOB_FAILED));
        for (int steps = 0; RUN(f, job_sweep, .ref = JOB(job), .limit = limits[i]).out_more;) {
            assert_true(++steps < 20);
        }
        assert_int_equal(storetest_count(f, TABLE_hook), 0);
        assert_int_equal(storetest_count(f, TABLE_key_wait), 0);
        assert_int_equal(storetest_count(f, TABLE_msg), 1); /* the rival hears of its key */
        assert_int_equal(conform_msg_row(f, rival, 16)->state, MSG_READY);
        assert_int_equal(storetest_count(f, TABLE_key_hold), 2); /* both are the rival's */
        assert_false(RUN(f, job_sweep, .ref = JOB(job), .limit = 1).out_more);
        DO(f, OP(job_close, .ref = JOB(rival), .guid = G(7), .state = JOB_FAILED));
        DO(f, OP(job_sweep, .ref = JOB(rival), .limit = 100));
        assert_int_equal(storetest_count(f, TABLE_msg), 0);
        assert_int_equal(storetest_count(f, TABLE_key), 0);
    }
}

/* Proves what a sweep does not take. */
static void test_sweep_refused(void **state)
{
    struct storetest *f = *state;
    conform_job_closed(f, 100, false);
    (void)REFUSED(f, QP_E_NOT_FOUND, OP(job_sweep, .ref = JOB(101), .limit = 10));
    (void)REFUSED(f, QP_E_INVALID, OP(job_sweep, .ref = JOB(100), .limit = 0));
}

struct search {
    int64_t job;
    enum table_id table;
};

/* A row of the job, in a table that has a column for it. */
static int find_job(void *context, const void *row)
{
    const struct search *s = context;
    const struct table *t = &tables[s->table];
    for (size_t i = 0; i < t->column_count; i++) {
        if (strcmp(t->columns[i].name, "job") == 0 && row_i64(&t->columns[i], row) == s->job) {
            return QP_E_EXISTS;
        }
    }
    return QP_OK;
}

static bool has_rows(struct storetest *f, int64_t job)
{
    bool found = false;
    for (int i = 0; i < TABLE_COUNT; i++) {
        struct search s = {job, (enum table_id)i};
        struct scan all = {.table = s.table, .index = -1, .limit = SIZE_MAX};
        struct qp_err err;
        int rc = store_scan(f->s, &all, &s, find_job, &err);
        assert_true(rc == QP_OK || rc == QP_E_EXISTS);
        found = found || rc == QP_E_EXISTS;
    }
    return found;
}

/* One row in every table that can have rows of a job. */
static void furnish(struct storetest *f, int64_t job)
{
    qp_str addr = QP_STR("w");
    conform_job_open(f, job, 2);
    conform_worker(f, job, addr);
    conform_answer(f, job, addr, 1);
    conform_answer(f, job, addr, 2);
    conform_answer(f, job, addr, 3);
    DO(f, OP(sem_open, .ref = JOB(job), .scope = 1, .opening = 2, .owner_addr = QP_STR("o"),
             .guid = G(4), .topic = TOPIC));
    DO(f, OP(sem_move, .ref = JOB(job), .addr = addr, .guid = G(1), .scope = 1, .delta = -1));
    DO(f, OP(attr_put, .ref = JOB(job), .name = QP_STR("n"), .value = QP_STR("v")));
    DO(f, OP(data_put, .ref = JOB(job), .name = QP_STR("n"), .value = QP_STR("v")));
    DO(f, OP(event_add, .ref = JOB(job), .kind = 1));
    DO(f, conform_step2(job, addr, 1, 0, false), conform_step2(job, addr, 2, 0, false));
}

/* Proves that retention takes a finished job away in steps of any size until there is no row of it
 * in any table, its own last, and that its id is free afterwards. */
static void test_delete(void **state)
{
    static const int64_t limits[] = {1, 4, 1000};
    struct storetest *f = *state;
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        int64_t job = 100 + 2 * (int64_t)i;
        bool more = true;
        furnish(f, job);
        conform_job_open(f, job + 1, 1);
        encumber(f, job, job + 1);
        (void)REFUSED(f, QP_E_CONFLICT, OP(job_delete, .ref = JOB(job), .limit = 10));
        DO(f, OP(job_finish, .ref = JOB(job), .guid = G(2)));
        (void)REFUSED(f, QP_E_INVALID, OP(job_delete, .ref = JOB(job), .limit = 0));
        for (int steps = 0; more; steps++) {
            assert_true(steps < 50);
            assert_non_null(conform_job_row(f, job)); /* the last of its rows */
            more = RUN(f, job_delete, .ref = JOB(job), .limit = limits[i]).out_more;
        }
        assert_false(has_rows(f, job));
        assert_null(conform_job_row(f, job));
        (void)REFUSED(f, QP_E_NOT_FOUND, OP(job_delete, .ref = JOB(job), .limit = 10));
        DO(f, OP(job_close, .ref = JOB(job + 1), .guid = G(7), .state = JOB_FAILED),
           OP(job_finish, .ref = JOB(job + 1), .guid = G(7)));
        DO(f, OP(job_delete, .ref = JOB(job + 1), .limit = 100));
        assert_false(has_rows(f, job + 1));
    }
    assert_int_equal(storetest_count(f, TABLE_hook), 0);
    assert_int_equal(storetest_count(f, TABLE_key), 0);
    assert_int_equal(storetest_count(f, TABLE_job_name), 0);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_sweep),
    CONFORM(test_sweep_refused),
    CONFORM(test_delete),
};
CONFORM_TOPIC(sweep);
