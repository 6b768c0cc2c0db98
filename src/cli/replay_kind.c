/* replay_kind.c - a decision over a history from a file, as a kind of job (see replay_kind.h) */
#include "cli/replay_kind.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "flow/flow.h"

/* ----------------------------------------------------------------------------------------- program */

static int describe(struct turn *t, struct op_act_create *row)
{
    row->category = 'A';
    row->policy = QP_STR("attempts=1");
    return flow_topic(turn_arena(t), t->job->workflow, &row->topic);
}

static int enter(struct turn *t)
{
    return turn_task(t, t->act->topic);
}

/* The name is a flow's from the first commit on: a worker that announces it finds it so. */
static int begin(struct turn *t)
{
    struct op op = {
        .kind = OP_topic_put,
        .topic_put = {.ns = t->job->ns, .kind = APP_TOPIC_FLOW, .topic = t->job->workflow}};
    QP_TRY(turn_op(t, &op));
    return turn_child(t, FLOW_ACTIVITY, QP_NONE);
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    (void)spawn;
    return t->act->category == 'D' ? begin(t) : turn_spawn_nothing(t);
}

static int complete(struct turn *t, struct complete *complete)
{
    complete->output = t->guid.output;
    return QP_OK;
}

static struct program program_of(void *state)
{
    (void)state;
    return (struct program){.kind = REPLAY_KIND,
                            .name = "replay",
                            .describe = describe,
                            .enter = enter,
                            .spawn = spawn,
                            .complete = complete};
}

/* -------------------------------------------------------------------------------------------- face */

/* Whatever the worker has said is the output. */
static int take_result(void *state, struct turn *t, struct bringing *brought, struct qp_err *err)
{
    (void)state;
    (void)t;
    if (str_is_none(brought->told)) {
        return err_set(err, QP_E_SHAPE,
                       "the task is a decision: its result has commands, or status "
                       "diverged or latent");
    }
    brought->kind = RESULT_DONE;
    brought->output = brought->told;
    return QP_OK;
}

static int read_all(qp_str place, struct buf *out)
{
    char path[PATH_MAX];
    FILE *file;
    size_t n = 1;
    (void)snprintf(path, sizeof path, "%.*s", STR_ARG(place)); /* it was one of realpath */
    file = fopen(path, "re");
    if (file == NULL) {
        return QP_E_IO;
    }
    while (n > 0) {
        char *room = buf_room(out, 65536);
        n = room == NULL ? 0 : fread(room, 1, 65536, file);
        buf_took(out, n);
    }
    (void)fclose(file);
    return buf_rc(out);
}

/* The members of the exported history are those of a decision's task. */
static void put_history(struct json_writer *w, qp_str exported)
{
    struct raw_walk members = {.rest = flow_member(exported, "history")};
    while (raw_each(&members)) {
        json_key(w, members.key);
        json_put_raw(w, members.value);
    }
}

static int put_task(void *state, const struct sight *sight, qp_str address, struct json_writer *w)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = TRIGGER_ADDRESS};
    const struct qp_env *env = store_env(sight->store);
    const void *row = NULL;
    struct buf text;
    qp_str path;
    int rc;
    (void)state;
    (void)address;
    QP_TRY(store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err));
    if (!raw_text(env, sight->arena, flow_member(((const struct act_row *)row)->input, "file"),
                  &path)) {
        return QP_E_NOMEM;
    }
    buf_init(&text, env, 0);
    rc = read_all(path, &text);
    if (rc == QP_OK) {
        put_history(w, buf_slice(&text));
    }
    buf_done(&text);
    return rc;
}

static const char *task_kind(void *state, qp_str address)
{
    (void)state;
    (void)address;
    return "flow";
}

struct face replay_face(const char *name)
{
    return (struct face){.kind = REPLAY_KIND,
                         .name = "replay",
                         .name_kind = NAMES_NONE,
                         .hook_kind = NAMES_NONE,
                         .start_name = name,
                         .program = program_of,
                         .result = take_result,
                         .task = put_task,
                         .task_kind = task_kind};
}
