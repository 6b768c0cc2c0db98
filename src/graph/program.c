/* program.c - graphs as a program of the kernel: finds the activity, and calls its type (see action.h) */
#include "graph/program.h"

#include <math.h>

#include "graph/action.h"

static const struct type *const types[ACTIVITY_TYPES] = {
    [ACTIVITY_TRIGGER] = &type_trigger,     [ACTIVITY_WORKER] = &type_worker,
    [ACTIVITY_AWAIT] = &type_await,         [ACTIVITY_HOOK] = &type_hook,
    [ACTIVITY_SIGNAL] = &type_signal,       [ACTIVITY_CYCLE] = &type_cycle,
    [ACTIVITY_INTERRUPT] = &type_interrupt, [ACTIVITY_GATE] = &type_gate};

static const struct type *type_of(const struct action *s)
{
    return types[s->activity->type];
}

int action_output(struct action *s, qp_str brought, qp_str *out_output)
{
    int rc;
    *out_output = brought;
    if (s->activity->output == NULL) {
        return QP_OK;
    }
    s->has_self = true;
    s->self_output = brought;
    rc = action_merge(s, s->activity->output, brought, out_output);
    s->has_self = false;
    return rc;
}

/* What cannot be computed becomes the input of a broken activity, in a category that has a GUID, so that its step 2
 * can end the job. */
static int break_off(struct action *s, struct op_act_create *row, int rc)
{
    const char *why = rc == QP_E_INVALID ? "its topic is undefined, or none that a graph may name"
                      : s->scope.error != NULL ? s->scope.error
                                               : "what it maps is too large";
    *row = (struct op_act_create){
        .parent_guid = row->parent_guid, .category = 'C', .kind = ACT_BROKEN};
    return action_error(s, 422, why, &row->input);
}

static bool is_below_threshold(const struct action *s)
{
    return s->activity->threshold >= 0 && s->turn->job->sem <= s->activity->threshold;
}

static int describe(struct turn *t, struct op_act_create *row)
{
    struct action s;
    int rc = action_init(&s, t);
    if (rc != QP_OK) {
        return rc;
    }
    if (is_below_threshold(&s)) {
        row->category = 'B';
        row->kind = ACT_SKIPPED;
        row->input = QP_NONE;
        return QP_OK;
    }
    if (s.activity->type != ACTIVITY_GATE) {
        row->input = QP_NONE;
    }
    rc = type_of(&s)->describe(&s, row);
    return is_broken(rc) ? break_off(&s, row, rc) : rc;
}

/* A hook's key that is undefined shows only here: the activity is there already, so the job ends by a message. */
static int enter_broken(struct action *s)
{
    qp_str error;
    int rc = action_error(s, 422, "the key of its hook is undefined or too long", &error);
    return rc == QP_OK ? turn_send(s->turn, s->turn->site.addr, QP_STR("broken"), 422, error) : rc;
}

static int enter(struct turn *t)
{
    struct action s;
    int rc = action_init(&s, t);
    rc = rc == QP_OK && type_of(&s)->enter != NULL ? type_of(&s)->enter(&s) : rc;
    return is_broken(rc) ? enter_broken(&s) : rc;
}

static int yields(struct turn *t, bool *out_yields)
{
    struct action s;
    int rc = action_init(&s, t);
    *out_yields = false;
    return rc == QP_OK && t->act->kind == ACT_USUAL && type_of(&s)->yields != NULL
               ? type_of(&s)->yields(&s, out_yields)
               : rc;
}

/* Step 1 of what cannot be computed keeps the error in place of the output; step 2 then ends the job. */
static int work_broken(struct action *s, struct work *work, int rc)
{
    work->code = 422;
    return action_error(s, 422,
                        s->scope.error != NULL ? s->scope.error
                        : rc == QP_E_INVALID   ? "something that it needs is undefined"
                                               : "what it maps is too large",
                        &work->output);
}

static int work(struct turn *t, struct work *work)
{
    struct action s;
    int rc = action_init(&s, t);
    if (rc != QP_OK || t->act->kind != ACT_USUAL || type_of(&s)->work == NULL) {
        return rc;
    }
    rc = type_of(&s)->work(&s, work);
    return is_broken(rc) ? work_broken(&s, work, rc) : rc;
}

static int fail(struct action *s, int rc)
{
    qp_str error;
    int failed = action_error(
        s, 422, s->scope.error != NULL ? s->scope.error : "what it maps is too large", &error);
    (void)rc;
    turn_fail(s->turn, JOB_FAILED, error);
    return failed;
}

static int spawn_one(struct action *s, struct spawn *spawn)
{
    switch ((enum act_kind)s->turn->act->kind) {
    case ACT_SKIPPED:
        return advance_nowhere(s);
    case ACT_BROKEN:
        turn_fail(s->turn, JOB_FAILED, s->turn->act->input);
        return QP_OK;
    case ACT_USUAL:
        break;
    }
    return type_of(s)->spawn == NULL ? QP_OK : type_of(s)->spawn(s, spawn);
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    struct action s;
    int rc = action_init(&s, t);
    rc = rc == QP_OK ? spawn_one(&s, spawn) : rc;
    return is_broken(rc) ? fail(&s, rc) : rc;
}

/* How long the job is kept: the graph's word, or what is usual. <= 0 is for ever. */
static int keep_for(struct action *s, struct complete *complete)
{
    double seconds = NAN;
    int rc = s->graph->expire == NULL ? QP_OK : action_number(s, s->graph->expire, &seconds);
    if (rc == QP_OK && !isnan(seconds)) {
        complete->keep_ms = seconds <= 0                              ? 0
                            : seconds * 1000 < (double)LIMIT_TIMER_MS ? (qp_ms)ceil(seconds * 1000)
                                                                      : LIMIT_TIMER_MS;
    }
    return is_broken(rc) ? QP_OK : rc;
}

/* The shelves become the output. */
static int clear_data(struct action *s)
{
    int rc = QP_OK;
    for (size_t i = 0; i * JOB_SHELF_KEYS < s->graph->job_key_count && rc == QP_OK; i++) {
        const struct data_row *row = NULL;
        qp_str name;
        rc = job_shelf(s->turn, i, &name, &row);
        rc = rc == QP_OK && row != NULL ? turn_data_put(s->turn, name, QP_NONE) : rc;
    }
    if (rc == QP_OK && s->graph->job_key_count > JOB_SHELF_KEYS) {
        rc = turn_data_put(s->turn, JOB_SIZE, QP_NONE);
    }
    return rc;
}

static int complete(struct turn *t, struct complete *complete)
{
    struct action s;
    int rc = action_init(&s, t);
    rc = rc == QP_OK ? action_job_data(t, s.graph, &complete->output) : rc;
    rc = rc == QP_OK ? keep_for(&s, complete) : rc;
    complete->clean = rc == QP_OK && !s.graph->leaves_timers;
    return rc == QP_OK ? clear_data(&s) : rc;
}

struct program graph_program(struct library *l)
{
    return (struct program){.kind = GRAPH_KIND,
                            .name = "quipu:graph",
                            .context = l,
                            .describe = describe,
                            .enter = enter,
                            .yields = yields,
                            .work = work,
                            .spawn = spawn,
                            .complete = complete};
}
