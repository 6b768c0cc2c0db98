/* program.c - graphs as a program of the kernel: finds the activity, and calls its type (see action.h) */
#include "graph/program.h"

#include <math.h>
#include <stdio.h>

#include "graph/action.h"
#include "graph/fork.h"
#include "store/error.h"

#define CODE_BROKEN 422 /* of what cannot be computed */
static_assert(LIMIT_ID_SIZE == 255, "a sentence below names it");

static const struct type *const types[ACTIVITY_TYPES] = {
    [ACTIVITY_TRIGGER] = &type_trigger,     [ACTIVITY_WORKER] = &type_worker,
    [ACTIVITY_AWAIT] = &type_await,         [ACTIVITY_HOOK] = &type_hook,
    [ACTIVITY_SIGNAL] = &type_signal,       [ACTIVITY_CYCLE] = &type_cycle,
    [ACTIVITY_INTERRUPT] = &type_interrupt, [ACTIVITY_GATE] = &type_gate};

static const struct type *type_of(const struct action *s)
{
    return types[s->activity->type];
}

/* Why something cannot be computed: the limit and its value, where it is one. */
static int broken_error(struct action *s, int rc, const char *undefined, qp_str *out_error)
{
    char why[128];
    if (rc == QP_E_TOO_LARGE && s->too_large > 0) {
        (void)snprintf(why, sizeof why, "what it maps is too large: %s is %zu bytes",
                       s->too_large == LIMIT_PAYLOAD_SIZE ? "LIMIT_PAYLOAD_SIZE"
                                                          : "LIMIT_JOB_DATA_SIZE",
                       s->too_large);
        return action_error(s, CODE_BROKEN, why, out_error);
    }
    return action_error(s, CODE_BROKEN,
                        s->scope.error != NULL ? s->scope.error
                        : s->why != NULL       ? s->why
                        : rc == QP_E_INVALID   ? undefined
                                               : "what it maps is too large",
                        out_error);
}

/* What cannot be computed becomes the input of a broken activity, in a category that has a GUID, so that it has an
 * answer. */
static int break_off(struct action *s, struct op_act_create *row, int rc)
{
    *row = (struct op_act_create){
        .parent_guid = row->parent_guid, .category = 'C', .kind = ACT_BROKEN};
    return broken_error(s, rc, "its topic is undefined, or none that a graph may name",
                        &row->input);
}

static int is_below_threshold(struct action *s, bool *out_below)
{
    int64_t threshold = -1;
    QP_TRY(setting_threshold(s, &threshold));
    *out_below = s->turn->job->sem <= threshold;
    return QP_OK;
}

static int describe_usual(struct action *s, struct op_act_create *row)
{
    bool below = false;
    QP_TRY(is_below_threshold(s, &below));
    if (below) {
        row->category = 'B';
        row->kind = ACT_SKIPPED;
        row->input = QP_NONE;
        return QP_OK;
    }
    if (s->activity->type != ACTIVITY_GATE) {
        row->input = QP_NONE;
    }
    return type_of(s)->describe(s, row);
}

static int describe(struct turn *t, struct op_act_create *row)
{
    struct action s;
    int rc = action_init(&s, t);
    if (rc != QP_OK) {
        return rc;
    }
    rc = describe_usual(&s, row);
    if (is_broken(rc)) {
        return break_off(&s, row, rc);
    }
    QP_TRY(rc);
    return row->kind == ACT_SKIPPED || str_is_none(t->job->forked_from) ? QP_OK
                                                                        : fork_describe(&s, row);
}

/* A hook's key that is undefined shows only here: the activity is there already, so the job ends by a message. */
static int enter_broken(struct action *s)
{
    qp_str error;
    int rc = action_error(
        s, CODE_BROKEN,
        s->why != NULL ? s->why : "the key of its hook is undefined, or longer than 255 bytes",
        &error);
    return rc == QP_OK
               ? turn_send(s->turn, s->turn->site.addr, QP_STR("broken"), CODE_BROKEN, error)
               : rc;
}

static int enter(struct turn *t)
{
    struct action s;
    int rc;
    QP_TRY(action_init(&s, t));
    if (t->act->kind == ACT_KEPT) {
        return fork_enter(&s);
    }
    rc = type_of(&s)->enter != NULL ? type_of(&s)->enter(&s) : QP_OK;
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

/* Step 1 of what cannot be computed keeps the error in place of the output; step 2 goes by its code. */
static int work_broken(struct action *s, struct work *work, int rc)
{
    work->code = CODE_BROKEN;
    return broken_error(s, rc, "something that it needs is undefined", &work->output);
}

static int work(struct turn *t, struct work *work)
{
    struct action s;
    int rc;
    QP_TRY(action_init(&s, t));
    if (t->act->kind == ACT_BROKEN) {
        *work = (struct work){.code = CODE_BROKEN, .output = t->act->input};
    }
    if (t->act->kind == ACT_KEPT && t->act->category == 'B') {
        return fork_work(&s, work);
    }
    if (t->act->kind != ACT_USUAL || type_of(&s)->work == NULL) {
        return QP_OK;
    }
    rc = type_of(&s)->work(&s, work);
    return is_broken(rc) ? work_broken(&s, work, rc) : rc;
}

/* The GUID's answer is the error from now on, in the commit of its step 2. */
static int answer_is(struct turn *t, qp_str error)
{
    struct op op = {.kind = OP_guid_add,
                    .guid_add = {.ref = t->site.ref,
                                 .addr = t->site.addr,
                                 .guid = t->site.guid,
                                 .code = CODE_BROKEN,
                                 .output = error}};
    QP_TRY(turn_op(t, &op));
    QP_TRY(turn_failed(t, CODE_BROKEN, error));
    QP_TRY(bundle_run(t->bundle));
    t->guid.code = CODE_BROKEN;
    t->guid.output = error;
    return QP_OK;
}

/* Step 2 that cannot be computed has spawned nothing, and goes by the code of its error. What has no transitions, and
 * an answer with more to come, ends the job. */
static int spawn_broken(struct action *s, struct spawn *spawn, int rc)
{
    struct turn *t = s->turn;
    bool pending = t->guid.code == CODE_PENDING;
    qp_str error;
    turn_forget(t);
    spawn->pending = pending;
    QP_TRY(broken_error(s, rc, "something that it needs is undefined", &error));
    QP_TRY(answer_is(t, error));
    rc = pending ? QP_E_LIMIT : advance_broken(s);
    if (is_broken(rc)) {
        turn_forget(t);
        turn_fail(t, JOB_FAILED, error);
        return QP_OK;
    }
    return rc;
}

static int spawn_one(struct action *s, struct spawn *spawn)
{
    switch ((enum act_kind)s->turn->act->kind) {
    case ACT_SKIPPED:
        return advance_nowhere(s);
    case ACT_BROKEN:
        return advance(s, spawn);
    case ACT_KEPT:
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
    return is_broken(rc) ? spawn_broken(&s, spawn, rc) : rc;
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

/* The end of the job is what its graph publishes last. */
static int publish_end(struct action *s, qp_str output)
{
    const struct job_row *job = s->turn->job;
    struct publication p = {
        .topic = s->graph->publishes, .code = 200, .data = output, .at_end = true};
    if (str_is_none(p.topic)) {
        return QP_OK;
    }
    if (job->state != JOB_COMPLETED) {
        struct error e;
        QP_TRY(error_read(action_arena(s), job->error, &e));
        p.code = e.code >= 400 ? e.code : ERROR_CODE;
    }
    return turn_publish(s->turn, &p);
}

static int complete(struct turn *t, struct complete *complete)
{
    struct action s;
    QP_TRY(action_init(&s, t));
    QP_TRY(action_job_data(t, s.graph, &complete->output));
    QP_TRY(keep_for(&s, complete));
    complete->clean = !s.graph->leaves_timers;
    QP_TRY(publish_end(&s, complete->output));
    return clear_data(&s);
}

struct program graph_program(struct library *l)
{
    return (struct program){.kind = GRAPH_KIND,
                            .name = "quipu:graph",
                            .context = l,
                            .keeps_output = true,
                            .describe = describe,
                            .enter = enter,
                            .yields = yields,
                            .work = work,
                            .spawn = spawn,
                            .complete = complete};
}
