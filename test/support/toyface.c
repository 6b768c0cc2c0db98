/* toyface.c - a third kind of job (see toyface.h) */
#include "support/toyface.h"

#include <stdatomic.h>

#include "base/mem.h"

#define TOY_STEP QP_STR("toy.one") /* data: what step one has brought */
#define TOY_AT QP_STR("toy.at")    /* data: the address of the open step */
#define TOY_ASKED (KERNEL_EVENTS + 7)

struct toys {
    struct qp_env env;
    atomic_llong turns;
    atomic_llong looks;
};

/* ----------------------------------------------------------------------------------------- program */

static int toy_describe(struct turn *t, struct op_act_create *row)
{
    (void)t;
    row->category = 'A';
    row->topic = QP_STR("toy.work");
    return QP_OK;
}

static int toy_enter(struct turn *t)
{
    QP_TRY(turn_data_put(t, TOY_AT, t->site.addr));
    return turn_task(t, t->act->topic);
}

static int toy_spawn(struct turn *t, struct spawn *spawn)
{
    const struct data_row *one = NULL;
    (void)spawn;
    QP_TRY(turn_data(t, TOY_STEP, &one));
    if (t->act->category == 'D') {
        return turn_child(t, one == NULL ? QP_STR("one") : QP_STR("two"), t->act->input);
    }
    if (str_equal(t->at.name, QP_STR("one")) && t->guid.code == 200) {
        QP_TRY(turn_data_put(t, TOY_STEP, t->guid.output));
        return turn_child(t, QP_STR("two"), t->guid.output);
    }
    return turn_spawn_nothing(t);
}

static int toy_complete(struct turn *t, struct complete *complete)
{
    complete->output = t->guid.output;
    return QP_OK;
}

static struct program toy_program(void *state)
{
    return (struct program){.kind = TOY_KIND,
                            .name = "toy",
                            .context = state,
                            .takes_signals = true,
                            .describe = toy_describe,
                            .enter = toy_enter,
                            .spawn = toy_spawn,
                            .complete = toy_complete};
}

/* -------------------------------------------------------------------------------------------- life */

static int toy_open(const struct face_options *options, void **out_state)
{
    struct toys *toys = mem_alloc(options->env, sizeof *toys);
    if (toys == NULL) {
        return QP_E_NOMEM;
    }
    toys->env = *options->env;
    *out_state = toys;
    return QP_OK;
}

static void toy_close(void *state)
{
    struct qp_env env = ((struct toys *)state)->env;
    mem_free(&env, state);
}

static int toy_refresh(void *state, const struct look *at)
{
    (void)at;
    atomic_fetch_add(&((struct toys *)state)->looks, 1);
    return QP_OK;
}

static void toy_turn(void *state)
{
    atomic_fetch_add(&((struct toys *)state)->turns, 1);
}

/* ---------------------------------------------------------------------------------------- deciding */

static bool is_object(qp_str json)
{
    return json.n > 0 && json.p[0] == '{';
}

static int toy_resolve(void *state, struct bundle *b, struct naming *n, struct qp_err *err)
{
    (void)state;
    (void)b;
    return is_object(n->input)
               ? QP_OK
               : err_set(err, QP_E_SHAPE, "a toy wants an object, got '%.*s'", STR_ARG(n->input));
}

static int toy_signal_key(void *state, struct bundle *b, const struct op_hook_signal *signal,
                          qp_str version, qp_str *out_key, struct qp_err *err)
{
    (void)state;
    (void)b;
    if (!is_object(signal->payload)) {
        return err_set(err, QP_E_SHAPE, "%.*s wants an object", STR_ARG(version));
    }
    *out_key = QP_STR("toys");
    return QP_OK;
}

/* It ends itself: its open step gets an answer. */
static int toy_cancel(void *state, struct turn *t, qp_str *error, bool *out_ends)
{
    const struct data_row *at = NULL;
    qp_str addr;
    (void)state;
    QP_TRY(turn_data(t, TOY_AT, &at));
    if (at == NULL || !arena_copy(turn_arena(t), at->value, &addr)) {
        return at == NULL ? QP_OK : QP_E_NOMEM;
    }
    *out_ends = false;
    QP_TRY(turn_event(t, TOY_ASKED, *error));
    return turn_send(t, addr, QP_STR("cancel"), 299, QP_STR("{\"cancelled\":true}"));
}

static int toy_fork(void *state, struct turn *t, const struct fork *fork, struct qp_err *err)
{
    const struct job_row *from = fork->from;
    struct data_row key = {.ns = from->ns, .job = from->job, .name = TOY_STEP};
    const void *row = NULL;
    (void)state;
    QP_ASSERT(from->kind == TOY_KIND);
    QP_TRY(bundle_get(t->bundle, TABLE_data, &key, &row));
    if (row == NULL) {
        return err_set(err, QP_E_CONFLICT, "step one has brought nothing yet");
    }
    return turn_data_put(t, TOY_STEP, ((const struct data_row *)row)->value);
}

static int toy_result(void *state, struct turn *t, struct bringing *brought, struct qp_err *err)
{
    (void)state;
    (void)t;
    return is_object(brought->output)
               ? QP_OK
               : err_point(err, err_set(err, QP_E_SHAPE, "a toy brings an object"), "/output");
}

static bool toy_needs(void *state, const struct job_row *job, qp_str version)
{
    (void)state;
    return str_equal(job->version, version); /* also when it has ended */
}

/* ----------------------------------------------------------------------------------------- reading */

static void toy_stats(void *state, void *context, face_number number)
{
    number(context, "quipu_toy_turns", "Turns of toys",
           atomic_load(&((struct toys *)state)->turns));
}

static int toy_describe_job(void *state, const struct sight *sight, struct qp_job_info *info)
{
    struct data_row key = {.ns = sight->job->ns, .job = sight->job->job, .name = TOY_STEP};
    const void *row = NULL;
    int rc = store_get(sight->store, sight->arena, TABLE_data, &key, &row, sight->err);
    (void)state;
    info->state = QP_STR("toy");
    info->data = rc == QP_OK ? ((const struct data_row *)row)->value : QP_STR("{}");
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int toy_describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                                 struct qp_activity *told)
{
    (void)state;
    (void)sight;
    told->type = act->category == 'D' ? "toybox" : "toy";
    return QP_OK;
}

static int toy_describe_history(void *state, const struct sight *sight, int64_t kind,
                                struct qp_event *event)
{
    (void)state;
    (void)sight;
    event->kind = kind == TOY_ASKED ? "asked" : event->kind;
    return QP_OK;
}

static int toy_export(void *state, const struct sight *sight, struct buf *out, bool *out_done)
{
    (void)state;
    (void)sight;
    buf_text(out, ",\"toy\":true");
    *out_done = true;
    return buf_rc(out);
}

static int toy_view(void *state, const struct sight *sight, const char *name, struct json_writer *w)
{
    (void)state;
    if (strcmp(name, "decisions") != 0) {
        return QP_E_NOT_FOUND;
    }
    json_begin_object(w);
    json_key(w, QP_STR("toy"));
    json_put_str(w, sight->job->jid);
    json_end_object(w);
    return QP_OK;
}

static int toy_task(void *state, const struct sight *sight, qp_str address, struct json_writer *w)
{
    (void)state;
    json_key(w, QP_STR("toy"));
    json_begin_object(w);
    json_key(w, QP_STR("box"));
    json_put_str(w, sight->job->jid);
    json_key(w, QP_STR("at"));
    json_put_str(w, address);
    json_end_object(w);
    return QP_OK;
}

/* A toy whose id says so is broken. */
static int toy_is_whole(void *state, const struct sight *sight, qp_str *out_wrong)
{
    (void)state;
    *out_wrong =
        str_equal(sight->job->jid, QP_STR("broken")) ? QP_STR("the toy is broken") : QP_NONE;
    return QP_OK;
}

static const struct face_rule toy_rules[] = {
    {.name = "TOY1", .severity = QP_SEVERITY_ERROR, .next = "glue it", .ask = toy_is_whole},
    {.name = NULL},
};

#define TOY_FUNCTIONS                                                                              \
    .kind = TOY_KIND, .name = "toy", .open = toy_open, .close = toy_close, .program = toy_program, \
    .refresh = toy_refresh, .turn = toy_turn, .resolve_start = toy_resolve,                        \
    .signal_key = toy_signal_key, .cancel = toy_cancel, .fork = toy_fork, .result = toy_result,    \
    .needs = toy_needs, .stats = toy_stats, .describe_job = toy_describe_job,                      \
    .describe_activity = toy_describe_activity, .describe_history = toy_describe_history,          \
    .export_data = toy_export, .view = toy_view, .task = toy_task, .rules = toy_rules

const struct face toy_face = {TOY_FUNCTIONS, .name_kind = NAMES_NONE, .hook_kind = NAMES_NONE,
                              .start_name = "toy"};
const struct face toy_defined_face = {TOY_FUNCTIONS, .name_kind = APP_TOPIC_START,
                                      .hook_kind = APP_TOPIC_HOOK};
