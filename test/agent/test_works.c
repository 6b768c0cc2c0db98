/* test_works.c - works of instances that live: what claims, dispatched tasks and children bring by themselves (I16 to I18)
 *
 * On every store, on the store's time. Contract: each attempt that was claimed has one onStart, whatever is faster, and at most one
 * onTimeout, measured from there; an attempt that is delivered again is the same; dispatched tasks and children reach the instance
 * until it ends, and go on behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agentcase.h"

/* ------------------------------------------------------------------------- the case, whole and killed */

static struct buf undisturbed;
static struct testenv keeper;

static void agrees(const struct agentcase *c)
{
    struct buf out;
    buf_init(&out, &keeper.env, 0);
    (void)agentcase_run(c, &out);
    if (!str_equal(buf_slice(&out), buf_slice(&undisturbed))) {
        fail_msg("on %s%s, killed at %lld:\n%.*s\nnot\n%.*s", storetest_name(c->kind),
                 c->stepwise ? ", stepwise" : "", (long long)c->kill_at, STR_ARG(buf_slice(&out)),
                 STR_ARG(buf_slice(&undisturbed)));
    }
    buf_done(&out);
}

static void test_002_works_on_stores(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        agrees(&(struct agentcase){.kind = (enum storetest_kind)kind});
    }
    agrees(&(struct agentcase){.kind = STORETEST_MEMORY, .stepwise = true});
}

static void survives(enum storetest_kind kind, bool stepwise, int64_t step)
{
    struct agentcase c = {.kind = kind, .stepwise = stepwise};
    struct buf out;
    buf_init(&out, &keeper.env, 0);
    int64_t commits = agentcase_run(&c, &out).commits;
    buf_done(&out);
    for (c.kill_at = 1 + (int64_t)kind; c.kill_at < commits; c.kill_at += step) {
        agrees(&c);
    }
}

/* Every commit in the long lane; in the short one a sample, which is another one on each store. */
static void test_killed_at_commits(void **state)
{
    bool all = testenv_is_torture();
    (void)state;
    survives(STORETEST_MEMORY, false, all ? 1 : 7);
    survives(STORETEST_MEMORY, true, all ? 1 : 29);
    for (int kind = STORETEST_MEMORY_ROWS; kind < storetest_kinds(); kind++) {
        survives((enum storetest_kind)kind, false, all ? 1 : 67);
    }
}

/* ------------------------------------------------------------------------------------ what is faster */

static struct agentdrive drive;
static struct agent_work asked; /* handle asks for this one, and ends behind it */
static enum agentreply reply;
static char log_text[256];

static enum agentreply answer(void *context, qp_str name, int64_t failures)
{
    (void)context;
    (void)name;
    (void)failures;
    return reply;
}

static bool script(void *context, struct draft *d, const struct branch *branch, qp_str *properties)
{
    static const char *const marks[] = {"", "e", "s", "+", "-", "t"};
    struct draft_reply got;
    (void)context;
    (void)properties;
    if (!str_equal(d->instance->workflow_name, QP_STR("flow"))) {
        return !str_equal(d->instance->workflow_name, QP_STR("stays")) ||
               branch->call.hook != HOOK_HANDLE;
    }
    if (branch->call.hook != HOOK_HANDLE) {
        size_t n = strlen(log_text);
        (void)snprintf(log_text + n, sizeof log_text - n, "%s", marks[branch->call.hook]);
        return true;
    }
    assert_int_equal(draft_execute(d, &asked, 1, NULL, &got), QP_OK);
    return got.status == REPLY_COMPLETED;
}

static struct agent_work task(bool sync, int64_t max_ms)
{
    return (struct agent_work){
        .name = QP_STR("A"), .position = QP_STR("1"), .sync = sync, .max_processing_ms = max_ms};
}

static void begin(enum storetest_kind kind, struct agent_work work, enum agentreply first)
{
    memset(&drive, 0, sizeof drive);
    log_text[0] = '\0';
    asked = work;
    reply = first;
    drive.script = script;
    drive.work = answer;
    agentdrive_init(&drive, kind);
    agentdrive_start(&drive, "flow");
    agentdrive_settle(&drive);
}

static void finish(const char *expected)
{
    assert_string_equal(log_text, expected);
    graphrun_check(&drive.stage.run);
    agentdrive_done(&drive);
}

static const struct status *work_of(void)
{
    return agentdrive_see(&drive)->statuses.items[0];
}

static void each_store(void (*test)(enum storetest_kind kind))
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        test((enum storetest_kind)kind);
    }
}

/* The worker is faster than the notice of its claim: the result is decided in the very next commit. */
static void fast(enum storetest_kind kind)
{
    memset(&drive, 0, sizeof drive);
    log_text[0] = '\0';
    asked = task(true, 1000);
    reply = AGENTREPLY_DONE;
    drive.script = script;
    drive.work = answer;
    agentdrive_init(&drive, kind);
    agentdrive_start(&drive, "flow");
    graphrun_rest(&drive.stage.run);
    agentstage_decide_one(&drive.stage, drive.stage.run.first, script, NULL);
    assert_non_null(agentdrive_task(&drive, "flow"));
    agentstage_bring(&drive.stage, agentdrive_task(&drive, "flow"),
                     QP_STR("{\"status\":\"completed\"}"));
    agentdrive_wait(&drive, 5000);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "completed", NULL);
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_msg), 0);
    finish("s+");
}

static void test_result_before_its_notice(void **state)
{
    (void)state;
    each_store(fast);
}

/* The run that has the task ends: the next delivery is the same attempt. */
static void delivered_again(enum storetest_kind kind)
{
    begin(kind, task(true, 1000), AGENTREPLY_KEEP);
    assert_int_equal(work_of()->started, true);
    graphrun_kill(&drive.stage.run);
    agentdrive_wait(&drive, 5000);
    assert_int_equal(work_of()->attempt, 1);
    assert_int_equal(drive.stage.run.first->tries, 2);
    reply = AGENTREPLY_DONE;
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "completed", NULL);
    finish("st+");
}

static void test_delivered_again(void **state)
{
    (void)state;
    each_store(delivered_again);
}

/* Leases run out, and are their worker's fault: silent attempts of the kernel are no attempts of the work (I17). */
static void leased(enum storetest_kind kind)
{
    memset(&drive, 0, sizeof drive);
    log_text[0] = '\0';
    asked = task(true, 2500);
    reply = AGENTREPLY_KEEP;
    drive.script = script;
    drive.work = answer;
    agentdrive_init(&drive, kind);
    agentdrive_wait(&drive, 2 * LIMIT_WORK_LEASE_MS);
    drive.stage.run.services[0].lease_ms = 1000;
    agentdrive_start(&drive, "flow");
    agentdrive_wait(&drive, 2499);
    assert_string_equal(log_text, "s");
    agentdrive_wait(&drive, 10000);
    assert_int_equal(work_of()->attempt, 1);
    assert_int_equal(work_of()->retry_index, 0);
    assert_true(graphrun_act(&drive.stage.run, AGENTDRIVE_ID, "~a0a0")->attempt >= 2);
    reply = AGENTREPLY_DONE;
    agentdrive_wait(&drive, 60000); /* the longest time between two deliveries */
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "completed", NULL);
    finish("st+");
}

static void test_leases_run_out(void **state)
{
    (void)state;
    each_store(leased);
}

/* The id of the open job of a workflow. */
struct named_job {
    const char *workflow;
    char id[LIMIT_ID_SIZE + 1];
};

static int find_open(void *context, const void *row)
{
    struct named_job *f = context;
    const struct job_row *job = row;
    if (job->state == JOB_OPEN && str_equal(job->workflow, str_from(f->workflow))) {
        (void)snprintf(f->id, sizeof f->id, "%.*s", STR_ARG(job->jid));
    }
    return QP_OK;
}

static struct named_job open_job(const char *workflow)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct named_job f = {.workflow = workflow};
    assert_int_equal(store_scan(drive.stage.run.f.s, &all, &f, find_open, NULL), QP_OK);
    return f;
}

static void kill_until_given_up(void)
{
    for (int i = 0; i < LIMIT_DELIVERIES; i++) {
        assert_non_null(drive.stage.run.first);
        graphrun_kill(&drive.stage.run);
        agentdrive_wait(&drive, 1000);
    }
    assert_null(drive.stage.run.first);
}

/* Engines die with a task until it is a dead letter: its job is parked for that, whatever else happens to the instance, until a retry
 * gives the task again. It is the same attempt, with no second onStart. */
static void delivered_too_often(enum storetest_kind kind)
{
    static const char why[] = "delivered too often";
    begin(kind, task(true, 0), AGENTREPLY_KEEP);
    kill_until_given_up();
    const struct job_row *job = graphrun_job(&drive.stage.run, AGENTDRIVE_ID);
    assert_true(job->parked.n > strlen(why) && memcmp(job->parked.p, why, strlen(why)) == 0);
    assert_int_equal(agentdrive_event(&drive, "E"), QP_OK);
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "parked", NULL);
    assert_int_equal(agentdrive_retry(&drive, kind % 2 == 0 ? NULL : "b0/1"), QP_OK);
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "running", NULL);
    assert_int_equal(work_of()->attempt, 1);
    reply = AGENTREPLY_DONE;
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "completed", NULL);
    finish("se+");
}

static void test_delivered_too_often(void **state)
{
    (void)state;
    each_store(delivered_too_often);
}

/* The same of a task that is a job of its own: it is that job which is parked. */
static void dispatched_too_often(enum storetest_kind kind)
{
    char id[64]; /* a UUID */
    begin(kind, task(false, 0), AGENTREPLY_KEEP);
    (void)snprintf(id, sizeof id, "%.60s", open_job("A").id);
    kill_until_given_up();
    graphrun_expect(&drive.stage.run, id, "parked", NULL);
    (void)snprintf(drive.stage.id, sizeof drive.stage.id, "%s", id);
    assert_int_equal(agentdrive_retry(&drive, NULL), QP_OK);
    reply = AGENTREPLY_DONE;
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, id, "completed", NULL);
    finish("s+");
}

static void test_dispatched_too_often(void **state)
{
    (void)state;
    each_store(dispatched_too_often);
}

/* A dispatched task that fails for good: the instance is parked for it, though it has ended nothing else; its next attempt is
 * another job, and begins where the first has stopped. */
static void dispatched_fails(enum storetest_kind kind)
{
    struct agent_work both = task(false, 0);
    begin(kind, both, AGENTREPLY_AGAIN);
    assert_int_equal(work_of()->attempt, 2);
    assert_int_equal(work_of()->retry_index, 1);
    reply = AGENTREPLY_FAIL;
    agentdrive_wait(&drive, 1000);
    assert_int_equal(work_of()->state, WORK_FAILED);
    assert_int_equal(work_of()->attempt, 2);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "parked", NULL);
    reply = AGENTREPLY_KEEP;
    assert_int_equal(agentdrive_retry(&drive, "b0/1"), QP_OK);
    agentdrive_settle(&drive);
    assert_int_equal(work_of()->attempt, 3);
    assert_int_equal(work_of()->retry_index, 0);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "waiting", NULL);
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_job), 3);
    reply = AGENTREPLY_DONE;
    agentdrive_settle(&drive);
    assert_int_equal(work_of()->state, WORK_SUCCESSFUL);
    finish("ss-s+");
}

static void test_dispatched_fails(void **state)
{
    (void)state;
    each_store(dispatched_fails);
}

static struct agent_work child(const char *workflow, int64_t max_ms)
{
    struct agent_work work = task(true, max_ms);
    work.name = str_from(workflow);
    work.type = WORK_WORKFLOW;
    return work;
}

/* A child that is killed has failed; another attempt is another child. The time of each is measured from its call. */
static void child_killed(enum storetest_kind kind)
{
    struct named_job first;
    begin(kind, child("stays", 1000), AGENTREPLY_DONE);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "waiting", NULL);
    first = open_job("stays");
    agentdrive_wait(&drive, 999);
    assert_string_equal(log_text, "s");
    agentdrive_wait(&drive, 2000);
    assert_string_equal(log_text, "st");
    assert_int_equal(graphrun_end(&drive.stage.run, first.id, JOB_INTERRUPTED), QP_OK);
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "parked", NULL);
    assert_int_equal(agentdrive_retry(&drive, NULL), QP_OK);
    agentdrive_settle(&drive);
    assert_string_equal(log_text, "st-s");
    assert_string_not_equal(open_job("stays").id, first.id);
    assert_int_equal(work_of()->attempt, 2);
    agentdrive_wait(&drive, 2000);
    finish("st-st");
}

static void test_child_killed(void **state)
{
    (void)state;
    each_store(child_killed);
}

static void child_ends(enum storetest_kind kind)
{
    begin(kind, child("ends", 0), AGENTREPLY_DONE);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "completed", NULL);
    finish("s+");
}

static void test_child_ends(void **state)
{
    (void)state;
    each_store(child_ends);
}

/* More works are dispatched than one commit enters, and the next decision ends the instance before the others are: each has its
 * job. */
#define MANY 1500

static bool dispatch_many(void *context, struct draft *d, const struct branch *branch,
                          qp_str *properties)
{
    static struct agent_work works[MANY];
    static char positions[MANY][8];
    struct draft_reply got;
    (void)context;
    (void)properties;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(positions[i], sizeof positions[i], "%d", i);
        works[i] = task(false, 0);
        works[i].position = str_from(positions[i]);
    }
    if (branch->call.hook == HOOK_HANDLE) {
        assert_int_equal(draft_execute(d, works, MANY, NULL, &got), QP_OK);
    }
    return true;
}

static void decide_now(void)
{
    const struct task *task = graphrun_find(&drive.stage.run, AGENTDRIVE_ID, AGENT_ADDRESS);
    assert_non_null(task);
    agentstage_decide_one(&drive.stage, task, dispatch_many, NULL);
}

static void test_ends_before_all_are_entered(void **state)
{
    (void)state;
    memset(&drive, 0, sizeof drive);
    log_text[0] = '\0';
    reply = AGENTREPLY_KEEP;
    drive.script = dispatch_many;
    drive.work = answer;
    agentdrive_init(&drive, STORETEST_MEMORY);
    agentdrive_start(&drive, "flow");
    graphrun_rest(&drive.stage.run);
    assert_int_equal(agentdrive_event(&drive, "E"), QP_OK);
    decide_now();
    decide_now();
    assert_int_equal(graphrun_job(&drive.stage.run, AGENTDRIVE_ID)->state, JOB_COMPLETED);
    graphrun_rest(&drive.stage.run);
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_job), MANY + 1);
    finish("");
}

/* An instance that is killed takes nothing with it: its child and its dispatched task go on, and end. */
static void killed(enum storetest_kind kind, struct agent_work work)
{
    begin(kind, work, AGENTREPLY_KEEP);
    assert_int_equal(graphrun_end(&drive.stage.run, AGENTDRIVE_ID, JOB_INTERRUPTED), QP_OK);
    agentdrive_wait(&drive, 5000);
    reply = AGENTREPLY_DONE;
    agentdrive_settle(&drive);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "interrupted", NULL);
}

static void instance_killed(enum storetest_kind kind)
{
    killed(kind, child("stays", 1000));
    assert_string_not_equal(open_job("stays").id, "");
    finish("s");
    killed(kind, task(false, 1000));
    assert_string_equal(open_job("A").id, "");
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_job), 2);
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_msg), 0);
    finish("s");
}

static void test_instance_killed(void **state)
{
    (void)state;
    each_store(instance_killed);
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&keeper, 1);
    buf_init(&undisturbed, &keeper.env, 0);
    (void)agentcase_run(&(struct agentcase){.kind = STORETEST_MEMORY}, &undisturbed);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_done(&undisturbed);
    testenv_done(&keeper);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_002_works_on_stores),
        cmocka_unit_test(test_killed_at_commits),
        cmocka_unit_test(test_result_before_its_notice),
        cmocka_unit_test(test_delivered_again),
        cmocka_unit_test(test_leases_run_out),
        cmocka_unit_test(test_delivered_too_often),
        cmocka_unit_test(test_dispatched_too_often),
        cmocka_unit_test(test_dispatched_fails),
        cmocka_unit_test(test_child_ends),
        cmocka_unit_test(test_child_killed),
        cmocka_unit_test(test_instance_killed),
        cmocka_unit_test(test_ends_before_all_are_entered),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
