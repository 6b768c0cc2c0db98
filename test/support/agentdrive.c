/* agentdrive.c - instances that live in an engine (see agentdrive.h) */
#include "support/agentdrive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/rows.h"
#include "support/enginetest.h"

#define STEPS_MAX 10000

void agentdrive_init(struct agentdrive *d, enum storetest_kind kind)
{
    d->stage.lives = true;
    agentstage_init(&d->stage, kind, AGENTDRIVE_ID);
    arena_init(&d->arena, &d->stage.run.f.t.env, 0);
}

void agentdrive_start(struct agentdrive *d, const char *workflow)
{
    struct tracestage on = agentstage_of(&d->stage);
    assert_int_equal(on.start(&d->stage, 0, str_from(workflow), QP_NONE, QP_STR("")), QP_OK);
}

void agentdrive_done(struct agentdrive *d)
{
    arena_done(&d->arena);
    agentstage_done(&d->stage);
}

/* ------------------------------------------------------------------------------------------- tasks */

static bool is_decision(const struct task *task)
{
    return str_equal(task->addr, AGENT_ADDRESS);
}

static qp_str name_of(struct agentdrive *d, const struct task *task)
{
    struct status status = {0};
    assert_int_equal(rows_get_definition(&d->arena, task->input, &status), QP_OK);
    return status.work.name;
}

static bool comes_before(const struct task *a, const struct task *b)
{
    int order;
    if (is_decision(a) != is_decision(b)) {
        return is_decision(a);
    }
    order = str_compare(a->workflow, b->workflow);
    return order != 0 ? order < 0 : str_compare(a->addr, b->addr) < 0;
}

static enum agentreply reply_of(struct agentdrive *d, const struct task *task)
{
    return is_decision(task) ? AGENTREPLY_DONE
                             : d->work(d->context, name_of(d, task), task->failures);
}

static const struct task *next_task(struct agentdrive *d)
{
    const struct task *next = NULL;
    for (const struct task *task = d->stage.run.first; task != NULL; task = task->next) {
        if (reply_of(d, task) != AGENTREPLY_KEEP && (next == NULL || comes_before(task, next))) {
            next = task;
        }
    }
    return next;
}

const struct task *agentdrive_task(struct agentdrive *d, const char *workflow)
{
    for (const struct task *task = d->stage.run.first; task != NULL; task = task->next) {
        if (!is_decision(task) && str_equal(task->workflow, str_from(workflow))) {
            return task;
        }
    }
    return NULL;
}

static void bring(struct agentdrive *d, const struct task *task)
{
    enum agentreply reply = reply_of(d, task);
    qp_str name = name_of(d, task);
    char text[200];
    if (reply == AGENTREPLY_DONE) {
        (void)snprintf(text, sizeof text, "{\"status\":\"completed\",\"output\":\"%.*s\"}",
                       STR_ARG(name));
    } else if (reply == AGENTREPLY_FAIL) {
        (void)snprintf(text, sizeof text, "{\"status\":\"failed\",\"error\":{\"name\":\"%.*s\"}}",
                       STR_ARG(name));
    } else {
        (void)snprintf(text, sizeof text,
                       "{\"status\":\"failed\",\"error\":{\"name\":\"%.*s\"},\"again\":%d}",
                       STR_ARG(name), AGENTDRIVE_AGAIN_MS);
    }
    agentstage_bring(&d->stage, task, str_from(text));
}

void agentdrive_settle(struct agentdrive *d)
{
    graphrun_rest(&d->stage.run);
    for (int i = 0;; i++) {
        const struct task *task = next_task(d);
        assert_true(i < STEPS_MAX);
        if (task == NULL) {
            break;
        }
        if (is_decision(task)) {
            agentstage_decide_one(&d->stage, task, d->script, d->context);
        } else {
            bring(d, task);
        }
        graphrun_rest(&d->stage.run);
    }
    (void)snprintf(d->stage.id, sizeof d->stage.id, "%s", AGENTDRIVE_ID);
}

void agentdrive_wait(struct agentdrive *d, qp_ms ms)
{
    struct testenv *t = &d->stage.run.f.t;
    qp_ms until = t->now_ms + ms;
    agentdrive_settle(d);
    while (t->now_ms < until) {
        qp_ms due = engine_deadline(d->stage.run.e);
        qp_ms step = due <= t->now_ms ? 1 : due < until ? due - t->now_ms : until - t->now_ms;
        testenv_advance_ms(t, step);
        agentdrive_settle(d);
    }
}

/* ------------------------------------------------------------------------------------------ clients */

int agentdrive_event(struct agentdrive *d, const char *name)
{
    struct tracestage on = agentstage_of(&d->stage);
    return on.event(&d->stage, 0, str_from(name), QP_NONE, NULL);
}

int agentdrive_retry(struct agentdrive *d, const char *part)
{
    return agentstage_retry(&d->stage, part);
}

/* ------------------------------------------------------------------------------------------ reading */

const struct instance *agentdrive_see(struct agentdrive *d)
{
    const struct instance *instance = NULL;
    struct tracestage on = agentstage_of(&d->stage);
    assert_int_equal(on.see(&d->stage, &d->arena, &instance), QP_OK);
    return instance;
}

static int show_job(void *context, const void *row)
{
    const struct job_row *job = row;
    buf_printf(context, "%.*s %lld %.*s\n", STR_ARG(job->workflow), (long long)job->status,
               STR_ARG(job->output));
    return QP_OK;
}

void agentdrive_show(struct agentdrive *d, struct buf *out)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    assert_int_equal(agentstage_show(&d->stage, out), QP_OK);
    buf_printf(out, "\n");
    assert_int_equal(store_scan(d->stage.run.f.s, &all, out, show_job, NULL), QP_OK);
}
