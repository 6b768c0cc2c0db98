/* test_waiting.c - the word that people see of a job is what it waits for, after every commit
 *
 * On every store, fused and step by step. The rules of fsck recount after each case, and in one of them after every
 * single commit (S5, X1): the count on the job's row, its status, and the counters by status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <postgresql/libpq-fe.h>
#include <sqlite3.h>

#include "support/graphrun.h"

#define SLEEP_MS 60000

static struct graphrun run;

/* do.flaky fails until it was told to stop. */
static bool fails;

static void work(struct graphcall *c)
{
    if (str_equal(c->topic, QP_STR("do.flaky")) && fails) {
        c->kind = RESULT_ERROR;
        c->code = 500;
    }
}

static const char graph[] =
    "app:\n"
    "  id: waits\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: hook\n"
    "      activities: { t1: { type: trigger }, h1: { type: hook }, n1: { type: worker, topic: do.next },\n"
    "                    m1: { type: worker, topic: do.next } }\n"
    "      transitions: { t1: [{ to: h1 }], h1: [{ to: m1, conditions: { code: 200 } },\n"
    "                                            { to: n1, conditions: { code: 202 } }] }\n"
    "      hooks: { go: [{ to: h1, conditions: { match: [{ expected: '{t1.output.data.key}',\n"
    "                                                      actual: '{$self.hook.data.key}' }] } }] }\n"
    "    - subscribes: sleep\n"
    "      activities: { t2: { type: trigger }, s2: { type: hook, sleep: 60 }, r2: { type: hook, sleep: 60 } }\n"
    "      transitions: { t2: [{ to: s2 }], s2: [{ to: r2 }] }\n"
    "    - subscribes: parent\n"
    "      activities: { t3: { type: trigger }, a3: { type: await, topic: child } }\n"
    "      transitions: { t3: [{ to: a3 }] }\n"
    "    - subscribes: child\n"
    "      activities: { t4: { type: trigger }, w4: { type: worker, topic: do.next }, s4: { type: hook, sleep: 60 } }\n"
    "      transitions: { t4: [{ to: w4 }], w4: [{ to: s4 }] }\n"
    "    - subscribes: fan\n"
    "      activities: { t5: { type: trigger }, s5: { type: hook, sleep: 60 }, w5: { type: worker, topic: do.next } }\n"
    "      transitions: { t5: [{ to: s5 }, { to: w5 }] }\n"
    "    - subscribes: join\n"
    "      activities: { t6: { type: trigger }, s6: { type: hook, sleep: 60 }, p6: { type: hook }, j6: { type: hook } }\n"
    "      transitions: { t6: [{ to: s6 }, { to: p6 }], s6: [{ to: j6 }], p6: [{ to: j6 }] }\n"
    "    - subscribes: cycle\n"
    "      activities: { t7: { type: trigger }, v7: { type: hook, cycle: true }, s7: { type: hook, sleep: 60 },\n"
    "                    c7: { type: cycle, ancestor: v7 } }\n"
    "      transitions: { t7: [{ to: v7 }], v7: [{ to: s7 }], s7: [{ to: c7 }] }\n"
    "    - subscribes: retry\n"
    "      activities: { t9: { type: trigger }, s9: { type: hook, sleep: 3600 },\n"
    "                    w9: { type: worker, topic: do.flaky, retry: { '500': [9] } } }\n"
    "      transitions: { t9: [{ to: s9 }, { to: w9 }] }\n"
    "    - subscribes: limits\n"
    "      activities: { tb: { type: trigger }, ub: { type: worker, topic: do.never, startTimeout: 2s },\n"
    "                    wb: { type: worker, topic: do.next, timeout: 3, heartbeat: 1.5, retry: { '408': [2] } },\n"
    "                    nb: { type: worker, topic: do.next } }\n"
    "      transitions: { tb: [{ to: ub }], ub: [{ to: wb, conditions: { code: 408 } }],\n"
    "                     wb: [{ to: nb, conditions: { code: 408 } }] }\n"
    "    - subscribes: stop\n"
    "      activities: { ta: { type: trigger }, ia: { type: interrupt, target: '{ta.output.data.id}', throw: false } }\n"
    "      transitions: { ta: [{ to: ia }] }\n";

static void start(const char *topic, const char *id, const char *input)
{
    assert_int_equal(graphrun_start(&run, topic, id, input), QP_OK);
}

static void expect(const char *id, const char *status)
{
    graphrun_expect(&run, id, status, NULL);
}

/* A worker has its task until the test says so. */
static void answer(const char *addr)
{
    struct task *task = graphrun_take(&run, addr);
    assert_non_null(task);
    assert_int_equal(graphrun_result(&run, task, "{}"), QP_OK);
    graphrun_forget(&run, task);
    graphrun_rest(&run);
}

/* A signal ends the waiting, one of code 202 does not; what follows is work. */
static void at_a_hook(void)
{
    start("hook", "h", "{\"key\":\"k\"}");
    graphrun_rest(&run);
    expect("h", "waiting");
    assert_int_equal(graphrun_signal(&run, "go", "{\"key\":\"k\"}", 202), QP_OK);
    graphrun_rest(&run);
    expect("h", "running");
    answer("n1,0,0,0");
    expect("h", "waiting");
    assert_int_equal(graphrun_signal(&run, "go", "{\"key\":\"k\"}", 200), QP_OK);
    graphrun_rest(&run);
    expect("h", "running");
    answer("m1,0,1,0");
    expect("h", "completed");
}

static void asleep(void)
{
    start("sleep", "s", "{}");
    graphrun_settle(&run);
    expect("s", "waiting");
    graphrun_wait(&run, SLEEP_MS);
    expect("s", "waiting"); /* the second one */
    graphrun_wait(&run, SLEEP_MS);
    expect("s", "completed");
}

/* Whatever the child does: who awaits it waits. */
static void for_a_child(void)
{
    start("parent", "p", "{}");
    graphrun_rest(&run);
    expect("p", "waiting");
    graphrun_settle(&run);
    expect("p", "waiting");
    graphrun_wait(&run, SLEEP_MS);
    expect("p", "completed");
}

/* A task that no worker takes is an error with code 408, and a transition takes it. */
static void not_taken(void)
{
    start("limits", "l", "{}");
    graphrun_rest(&run);
    expect("l", "running");
    graphrun_wait(&run, 1999);
    expect("l", "running");
    graphrun_wait(&run, 1);
    assert_int_equal(graphrun_act(&run, "l", "ub,0,0")->code, 408);
    expect("l", "completed");
}

/* One branch waits, another one runs: the job runs, until all wait. */
static void in_one_branch(void)
{
    start("fan", "f", "{}");
    graphrun_rest(&run);
    expect("f", "running");
    answer("w5,0,0");
    expect("f", "waiting");
    graphrun_wait(&run, SLEEP_MS);
    expect("f", "completed");
}

/* A join that waits for a branch that waits. */
static void at_a_join(void)
{
    start("join", "j", "{}");
    graphrun_settle(&run);
    expect("j", "waiting");
    assert_int_equal(graphrun_job(&run, "j")->waits, 2);
    graphrun_wait(&run, SLEEP_MS);
    expect("j", "completed");
    assert_int_equal(graphrun_job(&run, "j")->waits, 0);
}

/* Every round of a cycle waits again. */
static void in_cycles(void)
{
    start("cycle", "c", "{}");
    for (int i = 0; i < 4; i++) {
        graphrun_settle(&run);
        expect("c", "waiting");
        assert_int_equal(graphrun_job(&run, "c")->waits, 1);
        graphrun_wait(&run, SLEEP_MS);
    }
    assert_int_equal(graphrun_end(&run, "c", JOB_CANCELLED), QP_OK);
    graphrun_settle(&run);
    expect("c", "cancelled");
}

/* An activity that failed and is tried again comes before those that wait; when it is done, the others are seen. */
static void between_tries(void)
{
    fails = true;
    start("retry", "r", "{}");
    graphrun_settle(&run);
    expect("r", "retrying");
    assert_int_equal(graphrun_job(&run, "r")->retries, 1);
    graphrun_wait(&run, 1000);
    expect("r", "retrying");
    fails = false;
    graphrun_wait(&run, 60000);
    expect("r", "waiting");
    graphrun_wait(&run, 3600000);
    expect("r", "completed");
}

/* What a job waited for is over when it is ended. */
static void until_it_ends(void)
{
    start("sleep", "i", "{}");
    graphrun_settle(&run);
    start("stop", "x", "{\"id\":\"i\"}");
    graphrun_settle(&run);
    expect("i", "interrupted");
    start("sleep", "e", "{}");
    graphrun_settle(&run);
    assert_int_equal(graphrun_end(&run, "e", JOB_FAILED), QP_OK);
    graphrun_settle(&run);
    expect("e", "failed");
}

static void change(const char *id, enum op_kind kind)
{
    const struct job_row *job = graphrun_job(&run, id);
    struct op op = {.kind = kind};
    if (kind == OP_job_pause) {
        op.job_pause.ref = (struct job_ref){job->ns, job->job};
    } else {
        op.job_resume = (struct op_job_resume){{job->ns, job->job}, .limit = LIMIT_SWEEP_ROWS};
    }
    assert_int_equal(storetest_op(&run.f, &op), QP_OK);
}

/* A pause hides what it waits for, and the end of the pause shows what has become of it. */
static void behind_a_pause(void)
{
    start("sleep", "b", "{}");
    graphrun_settle(&run);
    change("b", OP_job_pause);
    expect("b", "paused");
    change("b", OP_job_resume);
    expect("b", "waiting");
    graphrun_restart(&run);
    graphrun_wait(&run, 2 * SLEEP_MS);
    expect("b", "completed");
}

static const struct {
    const char *name;
    void (*script)(void);
} cases[] = {{"hook", at_a_hook},       {"sleep", asleep},      {"child", for_a_child},
             {"branch", in_one_branch}, {"join", at_a_join},    {"cycle", in_cycles},
             {"retry", between_tries},  {"end", until_it_ends}, {"pause", behind_a_pause},
             {"limits", not_taken}};

static void recount(struct graphrun *r)
{
    graphrun_check(r);
}

static void run_all(enum storetest_kind kind, bool stepwise, bool always)
{
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        print_message("%s, %s, %s\n", storetest_name(kind), stepwise ? "stepwise" : "fused",
                      cases[i].name);
        fails = false;
        run.stepwise = stepwise;
        graphrun_init(&run, kind, "do.next do.flaky", work);
        run.after_round = always ? recount : NULL;
        graphrun_deploy(&run, graph);
        cases[i].script();
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

static void test_fused(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        run_all((enum storetest_kind)kind, false, false);
    }
}

static void test_stepwise(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        run_all((enum storetest_kind)kind, true, false);
    }
}

/* After every commit the counts are what a recount gives. */
static void test_after_every_commit(void **state)
{
    (void)state;
    run_all(STORETEST_MEMORY, false, true);
    run_all(STORETEST_MEMORY, true, true);
}

/* ------------------------------------------------------------------------------ a store of the version before */

/* What the version before has not, and the words and counters as it had them: a job at a hook, a timer or a child was
 * running. */
#define OLD_WORDS(job, counter)                                                                    \
    "UPDATE " job " SET status=0 WHERE state=0 AND status=2 AND opened<>0;"                        \
    "DELETE FROM " counter ";"                                                                     \
    "INSERT INTO " counter "(ns,workflow,status,shard,n,rev)"                                      \
    " SELECT ns,workflow,status,0,count(*),1 FROM " job " GROUP BY ns,workflow,status;"

static const char sqlite_before[] = OLD_WORDS(
    "qp_job",
    "qp_counter") "DROP INDEX qp_job_started; DROP INDEX qp_job_status; DROP INDEX qp_attr_value;"
                  "ALTER TABLE qp_job DROP COLUMN retries; ALTER TABLE qp_job DROP COLUMN waits;"
                  "ALTER TABLE qp_act DROP COLUMN waits; ALTER TABLE qp_attr DROP COLUMN started;"
                  "ALTER TABLE qp_node DROP COLUMN serving; DROP INDEX qp_hook_sig_job;"
                  "ALTER TABLE qp_act DROP COLUMN version; ALTER TABLE qp_act DROP COLUMN base;"
                  "ALTER TABLE qp_act DROP COLUMN \"after\"; ALTER TABLE qp_job DROP COLUMN kept; ALTER TABLE qp_job DROP COLUMN kept_size;"
                  "ALTER TABLE qp_job DROP COLUMN kept_seq;"
                  "ALTER TABLE qp_job DROP COLUMN close; ALTER TABLE qp_job DROP COLUMN calls;"
                  "ALTER TABLE qp_msg DROP COLUMN limits; ALTER TABLE qp_msg DROP COLUMN deadline;"
                  "ALTER TABLE qp_hook_sig DROP COLUMN job; DROP TABLE qp_universe; DROP TABLE qp_fact;"
                  "CREATE INDEX qp_job_status ON qp_job(ns,status) WHERE status NOT IN (0,5);"
                  "CREATE INDEX qp_attr_value ON qp_attr(ns,name,\"value\");"
                  "PRAGMA user_version=4";

static const char postgres_before[] = "SET search_path TO quipu;" OLD_WORDS(
    "job",
    "counter") "DROP INDEX job_started; DROP INDEX job_status; DROP INDEX attr_value;"
               "ALTER TABLE job DROP COLUMN retries, DROP COLUMN waits;"
               "ALTER TABLE act DROP COLUMN waits; ALTER TABLE attr DROP COLUMN started;"
               "ALTER TABLE node DROP COLUMN serving; DROP INDEX hook_sig_job;"
               "ALTER TABLE act DROP COLUMN version, DROP COLUMN base, DROP COLUMN \"after\";"
               "ALTER TABLE job DROP COLUMN kept, DROP COLUMN kept_size, DROP COLUMN kept_seq;"
               "ALTER TABLE job DROP COLUMN close, DROP COLUMN calls;"
               "ALTER TABLE hook_sig DROP COLUMN job; DROP TABLE universe; DROP TABLE fact;"
               "ALTER TABLE msg DROP COLUMN limits, DROP COLUMN deadline;"
               "CREATE INDEX job_status ON job(ns,status,job) WHERE status NOT IN (0,5);"
               "CREATE INDEX attr_value ON attr(ns,name,\"value\",job);"
               "UPDATE meta SET version=7";

static void make_old(struct storetest *f)
{
    if (f->kind == STORETEST_POSTGRES) {
        PGconn *c = PQconnectdb(f->path);
        PGresult *r = PQexec(c, postgres_before);
        if (PQresultStatus(r) != PGRES_COMMAND_OK) {
            fail_msg("%s", PQerrorMessage(c));
        }
        PQclear(r);
        PQfinish(c);
    } else {
        sqlite3 *db = NULL;
        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        if (sqlite3_exec(db, sqlite_before, NULL, NULL, NULL) != SQLITE_OK) {
            fail_msg("%s", sqlite3_errmsg(db));
        }
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
}

/* Jobs in every state that a count or a word follows from, in a store of the version before: when it is opened, what
 * they wait for is recounted, and they go on. */
static void migrate(enum storetest_kind kind)
{
    static const struct {
        const char *id;
        const char *status;
        int64_t waits;
        int64_t retries;
    } jobs[] = {{"h", "waiting", 1, 0}, {"s", "waiting", 1, 0},  {"p", "waiting", 1, 0},
                {"f", "running", 1, 0}, {"j", "waiting", 2, 0},  {"r", "retrying", 1, 1},
                {"b", "paused", 1, 0},  {"i", "cancelled", 1, 0}};
    run.stepwise = false;
    fails = true;
    graphrun_init(&run, kind, "do.next do.flaky", work);
    graphrun_deploy(&run, graph);
    start("hook", "h", "{\"key\":\"k\"}");
    start("sleep", "s", "{}");
    start("parent", "p", "{}");
    start("join", "j", "{}");
    start("retry", "r", "{}");
    start("sleep", "b", "{}");
    start("sleep", "i", "{}");
    graphrun_settle(&run);
    start("fan", "f", "{}");
    graphrun_rest(&run);
    change("b", OP_job_pause);
    assert_int_equal(graphrun_end(&run, "i", JOB_CANCELLED), QP_OK);
    graphrun_rest(&run);
    for (int old = 0; old < 2; old++) {
        for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
            const struct job_row *job = graphrun_job(&run, jobs[i].id);
            expect(jobs[i].id, jobs[i].status);
            job = graphrun_job(&run, jobs[i].id);
            if (job->state == JOB_OPEN) {
                assert_int_equal(job->waits, jobs[i].waits);
                assert_int_equal(job->retries, jobs[i].retries);
            }
        }
        graphrun_check(&run);
        if (old == 0) {
            graphrun_restart_after(&run, make_old);
            graphrun_rest(&run);
        }
    }
    fails = false;
    change("b", OP_job_resume);
    graphrun_restart(&run);
    assert_int_equal(graphrun_signal(&run, "go", "{\"key\":\"k\"}", 200), QP_OK);
    graphrun_wait(&run, 2 * 3600 * 1000);
    for (size_t i = 0; i + 1 < ARRAY_COUNT(jobs); i++) {
        expect(jobs[i].id, "completed");
    }
    graphrun_check(&run);
    graphrun_done(&run);
}

static void test_version_before(void **state)
{
    (void)state;
    migrate(STORETEST_SQLITE);
    if (storetest_kinds() > STORETEST_POSTGRES) {
        migrate(STORETEST_POSTGRES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused), cmocka_unit_test(test_stepwise),
        cmocka_unit_test(test_after_every_commit), cmocka_unit_test(test_version_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
