/* agentcase.c - one instance that meets all that works can do (see agentcase.h) */
#include "agentcase.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/failpoint.h"

#define PHASE_MS 60000

static struct agentdrive drive;
static bool held; /* works that take long */
static bool mended;
static bool outlives;

/* --------------------------------------------------------------------------------------- the scripts */

static bool is_named(qp_str name, const char *expected)
{
    return str_equal(name, str_from(expected));
}

/* Reaches a work; false: it is left here. */
static bool reach(struct draft *d, struct agent_work work, qp_str *properties)
{
    struct draft_reply reply;
    assert_int_equal(draft_execute(d, &work, 1, NULL, &reply), QP_OK);
    if (reply.status == REPLY_COMPLETED && work.sync) {
        *properties = reply.properties;
    }
    return !work.sync || reply.status == REPLY_COMPLETED;
}

static struct agent_work named(const char *name, bool sync)
{
    return (struct agent_work){.name = str_from(name), .position = str_from(name), .sync = sync};
}

static struct agent_work limited(const char *name, bool sync, int64_t max_ms)
{
    struct agent_work work = named(name, sync);
    work.max_processing_ms = max_ms;
    return work;
}

static struct agent_work wait_for(const char *name)
{
    struct agent_work work = named(name, true);
    work.type = WORK_WAIT;
    work.event = work.name;
    return work;
}

static struct agent_work child(const char *name)
{
    struct agent_work work = named(name, true);
    work.type = WORK_WORKFLOW;
    return work;
}

static bool handle(struct draft *d, qp_str *properties)
{
    return reach(d, limited("A", true, 10000), properties) &&
           reach(d, limited("D", false, 2000), properties) && reach(d, wait_for("W"), properties) &&
           reach(d, named("F", true), properties) && reach(d, child("C"), properties) &&
           reach(d, wait_for("V"), properties) && reach(d, named("O", false), properties);
}

static void append(struct draft *d, const struct branch *branch, qp_str *properties)
{
    static const char marks[] = {[HOOK_EVENT] = 'e',
                                 [HOOK_START] = 's',
                                 [HOOK_SUCCESS] = '+',
                                 [HOOK_FAILURE] = '-',
                                 [HOOK_TIMEOUT] = 't'};
    char text[256];
    int n = snprintf(text, sizeof text, "%.*s%c%.*s ", STR_ARG(*properties),
                     marks[branch->call.hook], STR_ARG(branch->call.name));
    assert_true(n > 0 && (size_t)n < sizeof text);
    assert_true(arena_copy(d->arena, (qp_str){text, (size_t)n}, properties));
}

static bool script(void *context, struct draft *d, const struct branch *branch, qp_str *properties)
{
    (void)context;
    if (branch->call.hook != HOOK_HANDLE) {
        append(d, branch, properties);
        return true;
    }
    return is_named(d->instance->workflow_name, "flow") ? handle(d, properties)
                                                        : reach(d, named("K", true), properties);
}

static enum agentreply answer(void *context, qp_str name, int64_t failures)
{
    (void)context;
    if (is_named(name, "A") || is_named(name, "D")) {
        return failures == 0 ? AGENTREPLY_AGAIN : held ? AGENTREPLY_KEEP : AGENTREPLY_DONE;
    }
    if (is_named(name, "F")) {
        return mended ? AGENTREPLY_DONE : AGENTREPLY_FAIL;
    }
    return is_named(name, "O") && outlives ? AGENTREPLY_KEEP : AGENTREPLY_DONE;
}

/* ---------------------------------------------------------------------------------------- the phases */

/* What takes long is told to do so, and then lets go. */
static void take_long(void)
{
    held = true;
    agentdrive_wait(&drive, PHASE_MS);
    held = false;
}

static void phases(void)
{
    agentdrive_start(&drive, "flow");
    take_long(); /* A */
    agentdrive_settle(&drive);
    take_long(); /* D */
    agentdrive_wait(&drive, PHASE_MS);
    assert_int_equal(agentdrive_event(&drive, "W"), QP_OK);
    agentdrive_wait(&drive, PHASE_MS);
    mended = true;
    assert_int_equal(agentdrive_retry(&drive, NULL), QP_OK);
    agentdrive_wait(&drive, PHASE_MS);
    assert_int_equal(agentdrive_event(&drive, "V"), QP_OK);
    agentdrive_wait(&drive, PHASE_MS);
    graphrun_expect(&drive.stage.run, AGENTDRIVE_ID, "completed", NULL);
    outlives = false;
    agentdrive_wait(&drive, PHASE_MS);
}

static int64_t commits_that_stand(void)
{
    return failpoint_hits("engine.committed");
}

static void disturb(const struct agentcase *c)
{
    char spec[64];
    drive.stage.run.kill_at = c->kill_at;
    if (c->fail_at > 0) {
        (void)snprintf(spec, sizeof spec, "*=error@%lld", (long long)c->fail_at);
        drive.stage.run.faults = true;
        drive.stage.run.committed = commits_that_stand;
        drive.stage.run.dies = c->dies;
        assert_int_equal(failpoint_set(spec), QP_OK);
    }
}

static void check_end(struct buf *out)
{
    const struct instance *s = agentdrive_see(&drive);
    const struct property *last = &s->properties[s->property_count - 1];
    if (!str_equal(last->values, QP_STR(AGENTCASE_LOG))) {
        fail_msg("the log is '%.*s'", STR_ARG(last->values));
    }
    assert_true(s->completed);
    agentdrive_show(&drive, out);
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_job), 4);
    assert_int_equal(storetest_count(&drive.stage.run.f, TABLE_msg), 0);
    graphrun_check(&drive.stage.run);
}

struct agentcase_end agentcase_run(const struct agentcase *c, struct buf *out)
{
    struct agentcase_end end;
    memset(&drive, 0, sizeof drive);
    held = false;
    mended = false;
    outlives = true;
    drive.script = script;
    drive.work = answer;
    drive.stage.run.stepwise = c->stepwise;
    agentdrive_init(&drive, c->kind);
    disturb(c);
    phases();
    assert_int_equal(failpoint_set(NULL), QP_OK);
    check_end(out);
    end = (struct agentcase_end){.commits = drive.stage.run.commits,
                                 .disturbed = drive.stage.run.kills + drive.stage.run.failed > 0};
    agentdrive_done(&drive);
    return end;
}
