/* scene_flows.c - generated flows (support/flowgen.h), whose code is edited while they run
 *
 * Every node runs the real function over the real history. In most worlds the code changes at all nodes at once, and no
 * flow may be stopped by it; in rolling ones each node has the new code a little later, so that an old node may find a
 * history that is newer than its code: then it parks the flow, which goes on when all nodes are new. Some activities are done
 * by children, flows of a name that no node announces: the first call does.
 *
 * What must come of a job flowgen_accepts says, step after step: every result was committed by a worker and is used once,
 * every signal was sent to this job by this name and was received once, errors are those that the activity may have. The
 * history, replayed once more, gives the same output and writes nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "flow/flow.h"
#include "kernel/single.h"
#include "sim/scene.h"
#include "sim/scene_faces.h"
#include "store/error.h"
#include "support/flowgen.h"

#define FLOW "gen"
#define GENS_MAX 2
#define JOBS_MAX 3
#define EDITS_MAX 4
#define WEIGHT 24
#define SPAN_MS 400
#define LAG_MS 300
#define NUMBERS_MAX 8192
#define SIGNALS_MAX 400
#define SLOW_MS 60 /* longer than a run limit, and than a start limit */
#define SILENT_MS 3000
#define BEATS_MS 400
#define TRIES_MAX                                                                                  \
    6 /* then it is fast: nodes whose clocks differ may take all that is slow from each other */

struct flows_job {
    char jid[16];
    int gen;
    int first_version; /* of the first decision; -1: none was made */
};

/* A signal that a client sends. */
struct sent {
    int job;
    char name[FLOWGEN_NAME_SIZE];
    bool received;
};

struct flows_world {
    struct sim *sim;
    struct arena arena;
    struct qp_env
        env; /* of runs: a line in its log is a warning, and there is nothing to warn of */
    struct flowgen gens[GENS_MAX];
    qp_ms changes_ms[GENS_MAX][FLOWGEN_VERSIONS]; /* when a version comes, from 1 */
    int gen_count;
    bool rolling;
    qp_ms lags_ms[SIM_NODES_MAX];
    struct flows_job jobs[JOBS_MAX];
    int job_count;
    struct sent signals[SIGNALS_MAX];
    int signal_count;
    int64_t numbers; /* of results that workers gave */
    bool committed[NUMBERS_MAX];
    bool used[NUMBERS_MAX];
    struct scene_faces nodes[SIM_NODES_MAX];
};

/* ---------------------------------------------------------------------------------------------- nodes */

static struct faces *flows_faces(void *world, int node, const struct qp_env *env)
{
    struct flows_world *w = world;
    return scene_faces_open(&w->nodes[node], env);
}

static void flows_turn(void *world, int node, struct store *store)
{
    struct flows_world *w = world;
    scene_faces_turn(&w->nodes[node], store);
}

static void flows_leave(void *world, int node)
{
    struct flows_world *w = world;
    scene_faces_close(&w->nodes[node]);
}

/* Before it is announced the name is a plain topic. */
static bool flows_started(void *world, int node, struct arena *arena, struct op_job_create *job)
{
    const struct flows_world *w = world;
    (void)node;
    (void)arena;
    job->kind = SINGLE_KIND;
    return scene_was_announced(w->sim);
}

/* ------------------------------------------------------------------------------------------ decisions */

static struct flows_job *job_of(struct flows_world *w, qp_str jid)
{
    for (int i = 0; i < w->job_count; i++) {
        if (str_equal(str_from(w->jobs[i].jid), jid)) {
            return &w->jobs[i];
        }
    }
    return NULL;
}

static int version_at(const struct flows_world *w, int gen, int node)
{
    qp_ms now = scene_now_ms(w->sim) - w->lags_ms[node];
    int version = 0;
    while (version + 1 < w->gens[gen].count && w->changes_ms[gen][version + 1] <= now) {
        version++;
    }
    return version;
}

/* Only an older node may find that history and code differ; only a child, or a flow that was cancelled, fails. */
static void take_result(struct flows_world *w, const struct flow_log *log,
                        const struct script_result *r, struct scene_answer *out)
{
    bool may_fail = log->cancel.done > 0 || str_equal(log->workflow, QP_STR(FLOWGEN_KID));
    char text[SCENE_TEXT_SIZE];
    *out = (struct scene_answer){.kind = RESULT_DONE};
    if (r->kind == SCRIPT_WAITS || r->kind == SCRIPT_RETURNED ||
        (r->kind == SCRIPT_FAILED && may_fail)) {
        QP_ASSERT(r->decision.n < sizeof out->output);
        memcpy(out->output, r->decision.p, r->decision.n);
        return;
    }
    out->kind = RESULT_PARK;
    out->park = r->reason == NULL ? "wrong" : r->reason;
    (void)snprintf(out->output, sizeof out->output, "%.*s", STR_ARG(error_cut(r->text)));
    sim_cover("flow.parked by an old node");
    if (!w->rolling || r->kind != SCRIPT_STOPPED) {
        (void)snprintf(text, sizeof text, "a run ended as %d: %.1000s", (int)r->kind, out->output);
        scene_violate(w->sim, "replay", text);
    }
}

static int run_version(struct flows_world *w, struct arena *arena, const struct flows_job *job,
                       const struct flow_log *log, int version, struct script_result *out_result)
{
    struct flowgen_run run = {.gen = &w->gens[job->gen], .version = version, .arena = arena};
    return script_run(&(struct script_input){.env = &w->env,
                                             .arena = arena,
                                             .log = log,
                                             .now = store_now(scene_store(w->sim)),
                                             .function = flowgen_function,
                                             .context = &run},
                      out_result);
}

/* The code of a child never changes. */
static int run_kid(const struct flows_world *w, struct arena *arena, const struct flow_log *log,
                   struct script_result *out_result)
{
    return script_run(&(struct script_input){.env = &w->env,
                                             .arena = arena,
                                             .log = log,
                                             .now = store_now(scene_store(w->sim)),
                                             .function = flowgen_kid},
                      out_result);
}

/* Which code a node has for the job. */
static int node_version(const struct flows_world *w, struct flows_job *job, int node)
{
    int version = version_at(w, job->gen, node);
    job->first_version = job->first_version < 0 ? version : job->first_version;
    return version;
}

/* A task may be in hand whose job is over and gone: then what is said of it is refused. */
static void decide(struct flows_world *w, int node, const struct task *task,
                   struct scene_answer *out)
{
    struct flows_job *job = job_of(w, task->jid);
    struct arena arena;
    struct flow_log log;
    struct script_result result;
    struct qp_err err = {0};
    int rc;
    arena_init(&arena, scene_env(w->sim), 0);
    if (log_read(scene_store(w->sim), &arena, (struct job_ref){task->ref.ns, task->ref.job}, &log,
                 &err) != QP_OK) {
        *out = (struct scene_answer){.kind = RESULT_ERROR, .code = 500};
    } else {
        rc = job == NULL ? run_kid(w, &arena, &log, &result)
                         : run_version(w, &arena, job, &log, node_version(w, job, node), &result);
        QP_ASSERT(rc == QP_OK);
        take_result(w, &log, &result, out);
    }
    arena_done(&arena);
}

/* -------------------------------------------------------------------------------------------- workers */

static void work(struct flows_world *w, const struct task *task, struct scene_answer *out)
{
    static const qp_ms takes[FLOWGEN_FATES] = {[FLOWGEN_SLOW] = SLOW_MS,
                                               [FLOWGEN_KEYED] = SLOW_MS,
                                               [FLOWGEN_SILENT] = SILENT_MS,
                                               [FLOWGEN_BEATS] = SILENT_MS};
    enum flowgen_fate fate = flowgen_fate_of(task->input);
    char value[FLOWGEN_VALUE_SIZE];
    *out = (struct scene_answer){.kind = RESULT_DONE};
    if (fate == FLOWGEN_FATAL || (fate == FLOWGEN_FLAKY && task->failures < 2)) {
        out->kind = RESULT_ERROR;
        out->code = fate == FLOWGEN_FATAL ? 404 : 500;
        (void)snprintf(out->output, sizeof out->output, "no");
        return;
    }
    QP_ASSERT(w->numbers + 1 < NUMBERS_MAX);
    flowgen_value(task->input, ++w->numbers, value);
    (void)snprintf(out->output, sizeof out->output, "\"%s\"", value);
    out->takes_ms = task->tries < TRIES_MAX ? takes[fate] : 0;
    out->beats_ms = fate == FLOWGEN_BEATS ? BEATS_MS : 0;
}

static void flows_execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    if (task->topic.p[0] == FLOW_TOPIC_MARK) {
        decide(world, node, task, out);
    } else {
        work(world, task, out);
    }
}

/* -------------------------------------------------------------------------------------------- clients */

static void signal_play(struct flows_world *w, int job, const char *name, struct sim_random *r)
{
    struct sent *s = &w->signals[w->signal_count];
    char payload[16];
    QP_ASSERT(w->signal_count < SIGNALS_MAX);
    s->job = job;
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    (void)snprintf(payload, sizeof payload, "\"s%d\"", w->signal_count++);
    scene_signal_job(w->sim, random_below(r, SPAN_MS), w->jobs[job].jid, name, payload,
                     (int)random_below(r, 3));
}

/* As many as it may listen for; those that it need not get come or do not. */
static void signals_play(struct flows_world *w, int job, struct sim_random *r)
{
    const struct flowgen *g = &w->gens[w->jobs[job].gen];
    for (size_t i = 0; i < g->listen_count; i++) {
        const struct flowgen_listen *l = &g->listens[i];
        for (int64_t k = 0; k < l->most; k++) {
            if (!l->timed || random_chance(r, 50)) {
                signal_play(w, job, l->name, r);
            }
        }
    }
}

static void job_play(struct flows_world *w, int number, struct sim_random *r)
{
    struct flows_job *job = &w->jobs[number];
    qp_ms at = random_below(r, SPAN_MS / 2);
    (void)snprintf(job->jid, sizeof job->jid, "f%d", number);
    job->gen = (int)random_below(r, w->gen_count);
    job->first_version = -1;
    scene_start(
        w->sim, at,
        &(struct scene_job){.jid = job->jid, .kind = SINGLE_KIND, .workflow = FLOW, .input = "{}"});
    signals_play(w, number, r);
    if (random_chance(r, 6)) {
        scene_end_job(w->sim, at + random_below(r, 300), job->jid,
                      random_chance(r, 50) ? JOB_INTERRUPTED : JOB_CANCELLED);
    }
    if (random_chance(r, 8)) {
        scene_pause(w->sim, at + random_below(r, 100), 1 + random_below(r, 200), job->jid);
    }
}

static void gen_draw(struct flows_world *w, int number, struct sim_random *r)
{
    struct flowgen *g = &w->gens[number];
    int64_t edits = random_chance(r, 30) ? 0 : 1 + random_below(r, EDITS_MAX);
    qp_ms at = 0;
    flowgen_begin(g, &w->arena,
                  &(struct flowgen_options){.seed = random_next(r),
                                            .with_any = true,
                                            .with_fates = true,
                                            .with_children = true,
                                            .strict = edits == 0,
                                            .weight = WEIGHT});
    for (int64_t i = 0; i < edits; i++) {
        if (flowgen_edit(g)) {
            at += random_below(r, SPAN_MS / 2);
            w->changes_ms[number][g->count - 1] = at;
        }
    }
}

/* The world that runs: the context of its environment is that of the memory. */
static struct flows_world *playing;

static void warn(void *context, enum qp_log_level level, const char *line, size_t size)
{
    char text[SCENE_TEXT_SIZE];
    (void)context;
    (void)level;
    (void)snprintf(text, sizeof text, "%.*s", (int)size, line);
    scene_violate(playing->sim, "replay", text);
}

static void flows_create(void *world, struct sim *sim, struct sim_random *r)
{
    struct flows_world *w = world;
    w->sim = sim;
    w->env = *scene_env(sim);
    w->env.log = warn;
    playing = w;
    arena_init(&w->arena, scene_env(sim), 0);
    w->gen_count = 1 + (int)random_below(r, GENS_MAX);
    for (int i = 0; i < w->gen_count; i++) {
        gen_draw(w, i, r);
    }
    w->rolling = random_chance(r, 40);
    for (int i = 0; i < SIM_NODES_MAX; i++) {
        w->lags_ms[i] = w->rolling ? random_below(r, LAG_MS) : 0;
    }
    scene_announce(sim, random_below(r, 20), FLOW);
    w->job_count = 1 + (int)random_below(r, JOBS_MAX);
    for (int i = 0; i < w->job_count; i++) {
        job_play(w, i, r);
    }
}

static void flows_destroy(void *world)
{
    struct flows_world *w = world;
    arena_done(&w->arena);
}

/* -------------------------------------------------------------------------------------------- the end */

struct judging {
    struct flows_world *w;
    int job;
    bool swept; /* its rows are gone */
};

/* A result is used in one place, and it was committed. */
static bool number_may_be(void *context, int64_t number)
{
    struct judging *j = context;
    if (number <= 0 || number > j->w->numbers || j->w->used[number] ||
        (!j->swept && !j->w->committed[number])) {
        return false;
    }
    j->w->used[number] = true;
    return true;
}

/* "s12", which was sent to this job by this name, and received nowhere else. */
static bool signal_may_be(void *context, qp_str name, qp_str data)
{
    struct judging *j = context;
    char text[16];
    long number;
    (void)snprintf(text, sizeof text, "%.*s", (int)(data.n < sizeof text ? data.n : 0), data.p);
    number = text[0] == 's' ? strtol(text + 1, NULL, 10) : -1;
    if (number < 0 || number >= j->w->signal_count || j->w->signals[number].received ||
        j->w->signals[number].job != j->job ||
        !str_equal(str_from(j->w->signals[number].name), name)) {
        return false;
    }
    j->w->signals[number].received = true;
    return true;
}

static void error_seen(void *context, enum flowgen_fate fate, qp_str word)
{
    char name[64];
    (void)context;
    (void)snprintf(name, sizeof name, "flow.%s.%.*s", flowgen_fate_names[fate], STR_ARG(word));
    sim_cover(name);
}

/* The numbers of results that stand in the history. */
static void note_committed(struct flows_world *w, const struct flow_log *log)
{
    for (size_t i = 0; i < log->history.count; i++) {
        const struct log_entry *e = &log->entries[i];
        enum history_type type = log->history.events[i].type;
        if ((type == HISTORY_ACTIVITY || type == HISTORY_CHILD) && e->done > 0 && e->code < 400) {
            const char *dot = memchr(e->output.p, '.', e->output.n);
            long number = dot == NULL ? 0 : strtol(dot + 1, NULL, 10);
            QP_ASSERT(number > 0 && number < NUMBERS_MAX);
            w->committed[number] = true;
        }
    }
}

/* A closure that was begun and not waited for goes on when its answers come, unless the flow has returned. */
static bool has_loose_ends(const struct flowgen_step *first)
{
    for (const struct flowgen_step *s = first; s != NULL; s = s->next) {
        for (const struct flowgen_step *m = s->body; m != NULL && s->op == FLOWGEN_ANY;
             m = m->next) {
            if (m->op == FLOWGEN_CLOSURE) {
                return true;
            }
        }
        if (has_loose_ends(s->body)) {
            return true;
        }
    }
    return false;
}

/* Once more over the history as it is: the same output, and nothing is written. */
static bool replays(struct flows_world *w, const struct flows_job *job, struct arena *arena,
                    const struct flow_log *log, const char *output)
{
    struct script_result result;
    int version = flowgen_version_of(str_from(output));
    bool loose = has_loose_ends(w->gens[job->gen].programs[version]);
    char expected[SCENE_ANSWER_SIZE];
    int n = snprintf(expected, sizeof expected, "%s{\"op\":\"return\",\"output\":%s}]",
                     loose ? "" : "\"commands\":[", output);
    QP_ASSERT(n > 0 && (size_t)n < sizeof expected);
    return run_version(w, arena, job, log, version, &result) == QP_OK &&
           result.kind == SCRIPT_RETURNED &&
           memmem(result.decision.p, result.decision.n, expected, (size_t)n) != NULL;
}

static void cover_steps(const struct flowgen_step *first)
{
    for (const struct flowgen_step *s = first; s != NULL; s = s->next) {
        char name[64];
        (void)snprintf(name, sizeof name, "flow.%s", s->child ? "child" : flowgen_op_names[s->op]);
        if (!s->removed) {
            sim_cover(name);
            cover_steps(s->body);
            cover_steps(s->fast);
        }
    }
}

/* What the job has met: the calls of the version that ended it, and the edits since its first decision. */
static void cover_job(const struct flowgen *g, const struct flows_job *job, int version)
{
    cover_steps(g->programs[version]);
    for (int i = job->first_version + 1; i <= version; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "flow.edit.%s", flowgen_edit_names[g->edits[i]]);
        sim_cover(name);
    }
}

/* Reads the history; false: the job is gone. */
static bool read_history(struct flows_world *w, const char *jid, struct arena *arena,
                         struct flow_log *out_log)
{
    struct qp_err err = {0};
    int64_t number = scene_job_number(w->sim, jid);
    return log_read(scene_store(w->sim), arena, (struct job_ref){STORE_NS_DEFAULT, number}, out_log,
                    &err) == QP_OK;
}

static bool is_right(struct flows_world *w, int number, const struct scene_end *end,
                     char out_text[SCENE_TEXT_SIZE])
{
    const struct flows_job *job = &w->jobs[number];
    const struct flowgen *g = &w->gens[job->gen];
    struct judging j = {w, number, false};
    struct flowgen_visit visit = {&j, number_may_be, signal_may_be, error_seen};
    const char *rest = "";
    struct arena arena;
    struct flow_log log;
    bool good;
    arena_init(&arena, scene_env(w->sim), 0);
    j.swept = !read_history(w, job->jid, &arena, &log);
    if (!j.swept) {
        note_committed(w, &log);
    }
    good = flowgen_accepts(g, job->jid, str_from(end->output), &visit, &rest);
    if (!good) {
        (void)snprintf(out_text, SCENE_TEXT_SIZE, "%s: '%.900s' is wrong at '%.80s'", job->jid,
                       end->output, rest);
    } else if (!j.swept && !replays(w, job, &arena, &log, end->output)) {
        (void)snprintf(out_text, SCENE_TEXT_SIZE, "%s: another replay differs from '%.900s'",
                       job->jid, end->output);
        good = false;
    } else {
        cover_job(g, job, flowgen_version_of(str_from(end->output)));
    }
    arena_done(&arena);
    return good;
}

static bool flows_verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    struct flows_world *w = world;
    for (int i = 0; i < w->job_count; i++) {
        const char *jid = w->jobs[i].jid;
        struct scene_end end;
        scene_outcome(sim, jid, &end);
        if (end.ended && end.state != JOB_COMPLETED && scene_was_ended(sim, jid)) {
            sim_cover("flow.ended");
        } else if (!end.ended || end.state != JOB_COMPLETED) {
            (void)snprintf(out_text, SCENE_TEXT_SIZE, "%s: ended %d as %d with '%.150s'", jid,
                           end.ended, (int)end.state, end.output);
            return false;
        } else if (!is_right(w, i, &end, out_text)) {
            return false;
        }
    }
    return true;
}

static const char *const flows_topics[] = {
    "@" FLOW, "@" FLOWGEN_KID, "a0", "a1", "a2", "a3", "a4", "a5", NULL};

static const char *const flows_needs[] = {"model.alone",
                                          "model.serial",
                                          "model.rows",
                                          "flow.activity",
                                          "flow.child",
                                          "flow.inline",
                                          "flow.sleep",
                                          "flow.signal",
                                          "flow.listen",
                                          "flow.timed",
                                          "flow.tell",
                                          "flow.closure",
                                          "flow.loop",
                                          "flow.all",
                                          "flow.any",
                                          "flow.check",
                                          "flow.edit.insert",
                                          "flow.edit.remove",
                                          "flow.edit.check",
                                          "flow.edit.wrap",
                                          "flow.edit.wrap in a loop",
                                          "flow.fatal.404",
                                          "flow.unstarted.408s",
                                          "flow.keyed.408s",
                                          "flow.slow.408r",
                                          "flow.silent.408b",
                                          "flow.parked by an old node",
                                          "flow.ended",
                                          "beat",
                                          "beat.refused",
                                          "limits.full",
                                          NULL};

const struct scene scene_flows = {.name = "flows",
                                  .size = sizeof(struct flows_world),
                                  .create = flows_create,
                                  .faces = flows_faces,
                                  .topics = flows_topics,
                                  .turn = flows_turn,
                                  .leave = flows_leave,
                                  .start = flows_started,
                                  .destroy = flows_destroy,
                                  .stays_young = true,
                                  .spare_signals = true,
                                  .execute = flows_execute,
                                  .verify = flows_verify,
                                  .needs = flows_needs};
