/* instances_script.c - generated scripts of agent workflows (see instances.h)
 *
 *   work "t:i0:2.0.1"     task 1 of the first step of branch 2 of workflow i0;  c: a child, v: a wait
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "sim/instances.h"

#define LONG_MS 5000
#define SHORT_MS 60

uint64_t drawn_choice(uint64_t seed, qp_str name, uint64_t salt)
{
    return hash_bytes(seed ^ salt * UINT64_C(0x9E3779B97F4A7C15), name.p, name.n);
}

static uint64_t choice(const struct drawn *s, int64_t branch, int64_t step, int64_t what)
{
    int64_t numbers[] = {branch, step, what};
    return hash_bytes(drawn_choice(s->seed, s->workflow, 1), numbers, sizeof numbers);
}

const char *drawn_event(int64_t number)
{
    static const char *const names[DRAWN_EVENTS] = {"E0", "E1"};
    return names[number % DRAWN_EVENTS];
}

bool drawn_is_child(qp_str workflow)
{
    return workflow.n > 1 && workflow.p[0] == 'c' && workflow.p[1] == ':';
}

/* Whether the branch is of a work that handle asked for, or of an event: else hooks of hooks would have no end. */
static bool is_near(const struct hook_call *call)
{
    const char *dot = NULL;
    if (call->hook == HOOK_EVENT) {
        return true;
    }
    for (size_t i = 0; i < call->name.n; i++) {
        dot = call->name.p[i] == ':' ? call->name.p + i + 1 : dot;
    }
    return dot != NULL && dot[0] == '0' && dot[1] == '.';
}

int64_t drawn_steps(const struct drawn *s, const struct branch *branch)
{
    uint64_t r = choice(s, branch->key, 0, 1);
    if (branch->call.hook == HOOK_HANDLE) {
        return 1 + (int64_t)(r % (drawn_is_child(s->workflow) ? 2 : DRAWN_STEPS_MAX));
    }
    return !drawn_is_child(s->workflow) && is_near(&branch->call) && r % 5 == 0 ? 1 : 0;
}

static void draw_wait(uint64_t r, struct agent_work *out)
{
    out->type = WORK_WAIT;
    out->event = r % 3 == 0 ? QP_NONE : str_from(drawn_event((int64_t)(r / 3 % DRAWN_EVENTS)));
    out->end = WORK_END_AFTER;
    out->end_ms = r / 16 % 3 == 0 ? LONG_MS : (int64_t)(r / 64 % SHORT_MS);
}

static void draw_work(const struct drawn *s, const struct branch *branch, int64_t step, size_t item,
                      struct drawn_group *g)
{
    uint64_t r = choice(s, branch->key, step, 10 + (int64_t)item);
    struct agent_work *w = &g->works[item];
    bool is_handle = branch->call.hook == HOOK_HANDLE;
    bool has_jobs = is_handle && !drawn_is_child(s->workflow);
    char mark = r % 10 < 4 ? 'v' : has_jobs && r % 10 == 9 ? 'c' : 't';
    int n = snprintf(g->names[item], DRAWN_NAME_SIZE, "%c:%.*s:%" PRId64 ".%" PRId64 ".%zu", mark,
                     STR_ARG(s->workflow), branch->key, step, item);
    QP_ASSERT(n > 0 && n < DRAWN_NAME_SIZE);
    *w = (struct agent_work){.name = {g->names[item], (size_t)n},
                             .sync = !has_jobs || choice(s, branch->key, step, 3) % 4 != 0};
    n = snprintf(g->positions[item], sizeof g->positions[item], "%" PRId64 "p%zu", step, item);
    w->position = (qp_str){g->positions[item], (size_t)n};
    if (mark == 'v') {
        draw_wait(r / 16, w);
        return;
    }
    w->type = mark == 'c' ? WORK_WORKFLOW : WORK_TASK;
    w->input = mark == 'c' ? QP_STR("0") : QP_NONE; /* its properties */
    w->max_processing_ms = r / 16 % 3 == 0 ? 5 + (int64_t)(r / 64 % 20) : 0;
}

void drawn_group(const struct drawn *s, const struct branch *branch, int64_t step,
                 struct drawn_group *out)
{
    uint64_t r = choice(s, branch->key, step, 2);
    out->count = branch->call.hook == HOOK_HANDLE ? 1 + r % DRAWN_ITEMS_MAX : 1;
    for (size_t i = 0; i < out->count; i++) {
        draw_work(s, branch, step, i, out);
    }
}

void drawn_value(const struct drawn *s, int64_t branch, int64_t passed, qp_str handed,
                 char out[DRAWN_VALUE_SIZE])
{
    uint64_t r = choice(s, branch, passed, 4);
    if (r % 3 == 0) {
        (void)snprintf(out, DRAWN_VALUE_SIZE, "%016" PRIx64, hash_bytes(r, handed.p, handed.n));
    } else {
        (void)snprintf(out, DRAWN_VALUE_SIZE, "%.*s", STR_ARG(handed));
    }
}

bool drawn_run(const struct drawn *s, struct draft *d, const struct branch *branch, qp_str given,
               char out_value[DRAWN_VALUE_SIZE])
{
    int64_t steps = drawn_steps(s, branch);
    int64_t passed = 0;
    bool goes_on = true;
    for (; passed < steps && goes_on; passed += goes_on) {
        struct drawn_group g;
        struct draft_reply reply;
        drawn_group(s, branch, passed, &g);
        QP_ASSERT(draft_execute(d, g.works, g.count, NULL, &reply) == QP_OK);
        QP_ASSERT(reply.status != REPLY_MODIFIED);
        goes_on = reply.status == REPLY_COMPLETED || !g.works[0].sync;
        if (reply.status == REPLY_COMPLETED && g.works[0].sync) {
            given = reply.properties;
        }
    }
    drawn_value(s, branch->key, passed, given, out_value);
    return goes_on;
}
