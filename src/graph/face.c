/* face.c - the face of graphs (see face.h) */
#include "graph/face.h"

#include "base/mem.h"
#include "graph/action.h"
#include "graph/draw.h"
#include "graph/fork.h"
#include "graph/nest.h"
#include "graph/program.h"
#include "graph/start.h"
#include "graph/view.h"

struct graphs {
    struct library *library;
    bool read_only; /* there is no engine: readers tidy up */
    struct qp_env env;
};

/* -------------------------------------------------------------------------------------------- life */

static int graphs_open(const struct face_options *options, void **out_state)
{
    struct graphs *g = mem_alloc(options->env, sizeof *g);
    int rc;
    if (g == NULL) {
        return QP_E_NOMEM;
    }
    g->env = *options->env;
    g->read_only = options->read_only;
    rc = library_create(&g->env, &g->library);
    if (rc != QP_OK) {
        mem_free(options->env, g);
        return rc;
    }
    *out_state = g;
    return QP_OK;
}

static void graphs_close(void *state)
{
    struct graphs *g = state;
    struct qp_env env = g->env;
    library_destroy(g->library);
    mem_free(&env, g);
}

static struct program program_of(void *state)
{
    return graph_program(((struct graphs *)state)->library);
}

static int graphs_refresh(void *state, const struct look *at)
{
    return library_confirm(((struct graphs *)state)->library, at);
}

static void graphs_turn(void *state)
{
    library_tidy(((struct graphs *)state)->library);
}

struct library *graph_library(const struct faces *f)
{
    return ((struct graphs *)faces_state(f, &graph_face))->library;
}

/* ---------------------------------------------------------------------------------------- deciding */

static int resolve_start(void *state, struct bundle *b, struct naming *n, struct qp_err *err)
{
    return graph_start(((struct graphs *)state)->library, b, n, err);
}

static int key_of_signal(void *state, struct bundle *b, const struct op_hook_signal *signal,
                         qp_str version, qp_str *out_key, struct qp_err *err)
{
    return graph_signal_key(((struct graphs *)state)->library, b, signal, version, out_key, err);
}

static int take_over(void *state, struct turn *t, const struct fork *fork, struct qp_err *err)
{
    return fork_begin(((struct graphs *)state)->library, t, fork, err);
}

/* ----------------------------------------------------------------------------------------- reading */

/* Also one that has ended: it is shown by its graph, and can be retried. */
static bool needs(void *state, const struct job_row *job, qp_str version)
{
    (void)state;
    return str_equal(job->version, version);
}

/* A job's graph, while it is looked at. */
struct seen {
    const struct app *app;     /* pinned */
    const struct graph *graph; /* NULL: its version cannot be had */
};

static int see(struct graphs *g, const struct sight *sight, struct seen *out_seen)
{
    const struct job_row *job = sight->job;
    struct between between = {sight->store, sight->arena};
    struct row_reader reader = reader_between(&between);
    int rc = library_pin(g->library, &reader, job->ns, job->version, &out_seen->app);
    QP_ASSERT(job->kind == GRAPH_KIND);
    if (rc == QP_OK) {
        out_seen->graph = app_graph(out_seen->app, job->workflow);
    }
    return rc == QP_E_NOT_FOUND || rc == QP_E_INVALID ? QP_OK : rc;
}

/* Where there is no engine, no other thread tidies, and none has anything that is not pinned. */
static void see_no_more(struct graphs *g, const struct seen *seen)
{
    if (seen->app == NULL) {
        return;
    }
    library_unpin(g->library, seen->app);
    if (g->read_only) {
        library_tidy(g->library);
    }
}

/* Step 3 makes the data the output, however the job ended. */
static int data_of(const struct seen *seen, const struct sight *sight, qp_str *out_data)
{
    struct between between = {sight->store, sight->arena};
    struct row_reader reader = reader_between(&between);
    if (sight->job->completions > 0) {
        *out_data = sight->job->output;
        return QP_OK;
    }
    return job_data(sight->arena, &reader, seen->graph, sight->job, out_data);
}

static int add_job(struct graphs *g, const struct seen *seen, const struct sight *sight,
                   struct qp_job_info *info)
{
    struct arena *arena = sight->arena;
    struct store *s = sight->store;
    qp_str digits = QP_NONE;
    QP_TRY(view_digits(arena, s, seen->graph, sight->job, &digits, sight->err));
    QP_TRY(view_key(arena, digits, &info->state));
    QP_TRY(view_skipped(arena, seen->graph, digits, &info->skipped));
    QP_TRY(view_composition(arena, s, g->library, sight->job, &info->compositional, sight->err));
    return data_of(seen, sight, &info->data);
}

static int describe_job(void *state, const struct sight *sight, struct qp_job_info *info)
{
    struct seen seen = {0};
    int rc = see(state, sight, &seen);
    if (rc == QP_OK && seen.graph != NULL) {
        rc = add_job(state, &seen, sight, info);
    }
    see_no_more(state, &seen);
    return rc == QP_E_NOMEM ? err_set(sight->err, rc, "job: out of memory") : rc;
}

/* The person that the hook waits for, or has waited for. */
static int add_escalation(const struct sight *sight, const struct act_row *act,
                          struct qp_activity *told)
{
    struct between between = {sight->store, sight->arena};
    struct row_reader reader = reader_between(&between);
    struct data_row key = {.ns = act->ns, .job = act->job};
    const void *row = NULL;
    QP_TRY(escalation_name(sight->arena, act->addr, &key.name));
    QP_TRY(reader.get(reader.context, TABLE_data, &key, &row));
    told->escalation = row == NULL ? QP_NONE : ((const struct data_row *)row)->value;
    return QP_OK;
}

static int add_activity(const struct graph *g, const struct sight *sight, const struct act_row *act,
                        struct qp_activity *told)
{
    const struct activity *x = view_activity(g, act->addr);
    if (x == NULL) {
        return QP_OK;
    }
    QP_TRY(view_act_read(sight->arena, sight->store, x, act, &told->digit, &told->dad, sight->err));
    told->type = activity_type_name(x->type);
    if (!arena_copy(sight->arena, x->type == ACTIVITY_GATE ? x->joins->id : x->id, &told->name)) {
        return QP_E_NOMEM;
    }
    told->status = digit_word(told->digit);
    if (x->type == ACTIVITY_GATE) {
        told->input = QP_NONE; /* which way came first: the kernel's own note */
    }
    if (x->escalation != NULL) {
        QP_TRY(add_escalation(sight, act, told));
    }
    return x->type == ACTIVITY_AWAIT
               ? view_child(sight->arena, sight->store, sight->job, act, &told->child, sight->err)
               : QP_OK;
}

static int describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                             struct qp_activity *told)
{
    struct seen seen = {0};
    int rc = see(state, sight, &seen);
    if (rc == QP_OK && seen.graph != NULL) {
        rc = add_activity(seen.graph, sight, act, told);
    }
    see_no_more(state, &seen);
    return rc == QP_E_NOMEM ? err_set(sight->err, rc, "activity: out of memory") : rc;
}

/* An entry about an activity has its name, as an activity has. */
static int describe_history(void *state, const struct sight *sight, int64_t kind,
                            struct qp_event *event)
{
    struct seen seen = {0};
    const struct activity *x;
    int rc;
    (void)kind;
    if (str_is_none(event->address)) {
        return QP_OK;
    }
    rc = see(state, sight, &seen);
    x = rc == QP_OK && seen.graph != NULL ? view_activity(seen.graph, event->address) : NULL;
    if (x != NULL) {
        event->type = activity_type_name(x->type);
        if (!arena_copy(sight->arena, x->type == ACTIVITY_GATE ? x->joins->id : x->id,
                        &event->name)) {
            rc = QP_E_NOMEM;
        }
    }
    see_no_more(state, &seen);
    return rc == QP_E_NOMEM ? err_set(sight->err, rc, "history: out of memory") : rc;
}

/* `,"data":{..},"tree":{..}`: what the job has put together so far, and its activities nested by where they ran. */
static int write_parts(const struct seen *seen, const struct sight *sight, struct buf *out)
{
    qp_str data = QP_NONE;
    QP_TRY(data_of(seen, sight, &data));
    if (!str_is_none(data)) {
        buf_text(out, ",\"data\":");
        buf_str(out, data);
    }
    buf_text(out, ",\"tree\":");
    QP_TRY(nest_write(sight->arena, sight->store, seen->graph, sight->job, out, sight->err));
    return buf_rc(out);
}

static int export_data(void *state, const struct sight *sight, struct buf *out, bool *out_done)
{
    struct seen seen = {0};
    int rc = see(state, sight, &seen);
    *out_done = seen.graph != NULL;
    if (rc == QP_OK && seen.graph != NULL) {
        rc = write_parts(&seen, sight, out);
    }
    see_no_more(state, &seen);
    return rc;
}

const struct face graph_face = {.kind = GRAPH_KIND,
                                .name = "graph",
                                .name_kind = APP_TOPIC_START,
                                .hook_kind = APP_TOPIC_HOOK,
                                .open = graphs_open,
                                .close = graphs_close,
                                .program = program_of,
                                .refresh = graphs_refresh,
                                .turn = graphs_turn,
                                .resolve_start = resolve_start,
                                .signal_key = key_of_signal,
                                .fork = take_over,
                                .needs = needs,
                                .describe_job = describe_job,
                                .describe_activity = describe_activity,
                                .describe_history = describe_history,
                                .export_data = export_data};
