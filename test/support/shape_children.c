/* shape_children.c - a program of jobs that call others (see shapes.h)
 *
 *   kin        trigger -- a0, a1, a2: each calls a kin-low, and arrives at the gate with what it was answered;
 *                 |       the last one brings nothing
 *                 |            gate -- end: ends the job that "far" waits for
 *                 +---- far: calls a kin-idle, and hears in the end that it was interrupted
 *   kin-low    trigger -- work: a task; a1's answers before its end, too
 *   kin-idle   trigger -- more: calls another one, while its input is above 0; waits for what never comes
 */
#include "support/shapes.h"

#include <stdio.h>

#define CALLS 3
#define GATE QP_STR("gate,0,0")
#define IDLE QP_STR("idle")
#define CODE_ENDED 410

static bool is(const struct turn *t, const char *name)
{
    return str_equal(t->at.name, str_from(name));
}

static bool is_caller(const struct turn *t)
{
    return t->at.name.n == 2 && t->at.name.p[0] == 'a';
}

static int children_describe(struct turn *t, struct op_act_create *row)
{
    row->category = is(t, "end") ? 'B' : 'A';
    row->topic = is(t, "work") ? QP_STR("kin") : QP_NONE;
    return QP_OK;
}

static int call(struct turn *t, qp_str workflow, qp_str jid, int64_t input)
{
    struct call_job call = {
        .workflow = workflow, .jid = jid, .kind = t->job->kind, .purpose = QP_STR("call")};
    int rc = shape_print(t, &call.input, "%lld", (long long)input);
    return rc == QP_OK ? turn_call(t, &call) : rc;
}

static int children_enter(struct turn *t)
{
    int64_t input = shape_number(t->act->input);
    if (is_caller(t)) {
        return call(t, QP_STR("kin-low"), QP_NONE, input + t->at.name.p[1] - '0');
    }
    if (is(t, "far")) {
        return call(t, QP_STR("kin-idle"), IDLE, 1);
    }
    if (is(t, "more")) {
        return input > 0 ? call(t, QP_STR("kin-idle"), QP_NONE, input - 1)
                         : turn_hook(t, QP_STR("kin"), t->job->jid, false);
    }
    return is(t, "work") ? turn_task(t, QP_STR("kin")) : QP_OK;
}

/* An end that comes before its job is for nobody: it has to wait until "far" has called it. */
static int end_idle(struct turn *t)
{
    const struct act_row *far = NULL;
    int rc = turn_act(t, QP_STR("far,0,0"), &far);
    if (rc == QP_OK && (far == NULL || far->ledger / LEDGER_LEG1_DONE % 10 == 0)) {
        return QP_E_DIGIT; /* again later */
    }
    return rc == QP_OK ? turn_end_other(t, IDLE, JOB_INTERRUPTED, QP_STR("{\"code\":410}"), true)
                       : rc;
}

static int children_work(struct turn *t, struct work *work)
{
    int rc = shape_add(t, "steps", 1);
    if (rc == QP_OK && (is_caller(t) || is(t, "work"))) {
        rc = shape_add(t, "sum", shape_number(work->output));
    }
    if (rc == QP_OK && is(t, "far")) {
        rc = shape_add(t, "sum", work->code);
    }
    return rc == QP_OK && is(t, "end") ? end_idle(t) : rc;
}

static int spawn_first(struct turn *t)
{
    static const char *const names[] = {"a0", "a1", "a2", "far"};
    int rc = QP_OK;
    if (!str_equal(t->job->workflow, QP_STR("kin"))) {
        return turn_child(
            t, str_equal(t->job->workflow, QP_STR("kin-low")) ? QP_STR("work") : QP_STR("more"),
            t->act->input);
    }
    for (size_t i = 0; i < ARRAY_COUNT(names) && rc == QP_OK; i++) {
        rc = turn_child(t, str_from(names[i]), t->act->input);
    }
    return rc;
}

static int children_spawn(struct turn *t, struct spawn *spawn)
{
    (void)spawn;
    if (t->act->category == 'D') {
        return spawn_first(t);
    }
    if (is_caller(t)) {
        return turn_arrive(t, &(struct arrival){.addr = GATE,
                                                .ways = CALLS,
                                                .delta = -1,
                                                .live = !is(t, "a2"),
                                                .input = t->act->input});
    }
    if (is(t, "work") && str_equal(t->job->parent_addr, QP_STR("a1,0,0"))) {
        return turn_answer_parent(t, 200, t->guid.output);
    }
    return is(t, "gate") ? turn_child(t, QP_STR("end"), t->act->input) : QP_OK;
}

static int children_complete(struct turn *t, struct complete *complete)
{
    int64_t sum = 0;
    int64_t steps = 0;
    int rc = shape_read(t, "sum", &sum);
    rc = rc == QP_OK ? shape_read(t, "steps", &steps) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    return str_equal(t->job->workflow, QP_STR("kin"))
               ? shape_print(t, &complete->output, "sum %lld steps %lld", (long long)sum,
                             (long long)steps)
               : shape_print(t, &complete->output, "%lld", (long long)sum);
}

static const struct program children_program = {.kind = 104,
                                                .name = "kin",
                                                .describe = children_describe,
                                                .enter = children_enter,
                                                .work = children_work,
                                                .spawn = children_spawn,
                                                .complete = children_complete};

static void children_execute(qp_str addr, qp_str input, char out_text[SHAPE_TEXT_SIZE])
{
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "%lld",
                   (long long)(shape_value(addr) + shape_number(input)));
}

static void children_expect(int64_t input, char out_text[SHAPE_TEXT_SIZE])
{
    int64_t sum = CODE_ENDED;
    for (int64_t i = 0; i < CALLS; i++) {
        sum += shape_value(QP_STR("work,0,0")) + input + i;
    }
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "sum %lld steps %d", (long long)sum, CALLS + 3);
}

static int64_t children_tasks(int64_t input)
{
    (void)input;
    return CALLS;
}

const struct shape shape_children = {.program = &children_program,
                                     .topics = {"kin"},
                                     .input = "9",
                                     .execute = children_execute,
                                     .expect = children_expect,
                                     .task_count = children_tasks};
