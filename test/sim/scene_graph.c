/* scene_graph.c - generated graphs (plot.h) as jobs: deployed, started, signalled, ended, and deployed anew meanwhile
 *
 * Every node has a library of its own, as a process would: its commits look when the number of definitions says so. What must come
 * of a job the plot's interpreter says; a job that somebody may end, or that ends itself, has no such output: it must
 * end as one of the ways that are possible.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "graph/face.h"
#include "graph/program.h"
#include "kernel/single.h"
#include "sim/plot.h"
#include "sim/scene.h"
#include "sim/scene_faces.h"

#define MAINS_MAX 2
#define JOBS_MAX 3
#define TRIES_MAX 64 /* of children that fail first */
#define VERSIONS 2

struct graph_job {
    char jid[16];
    int plot;
    int64_t x;
    bool red;
    struct plot_end expected;
};

/* A child that was seen by a worker, and for whom. */
struct seen_try {
    char who[96];
    char jid[96];
};

struct graph_world {
    struct sim *sim;
    struct plot plots[MAINS_MAX + 1]; /* the last one is that of children */
    int main_count;
    struct graph_job jobs[JOBS_MAX];
    int job_count;
    struct app *apps[VERSIONS];
    char text[PLOT_TEXT_SIZE];
    struct scene_faces nodes[SIM_NODES_MAX];
    struct seen_try tries[TRIES_MAX];
    int try_count;
};

/* --------------------------------------------------------------------------------------------- nodes */

static struct faces *graph_faces(void *world, int node, const struct qp_env *env)
{
    struct graph_world *w = world;
    return scene_faces_open(&w->nodes[node], env);
}

static void graph_turn(void *world, int node, struct store *store)
{
    struct graph_world *w = world;
    scene_faces_turn(&w->nodes[node], store);
}

static void graph_leave(void *world, int node)
{
    struct graph_world *w = world;
    scene_faces_close(&w->nodes[node]);
}

/* Its name says what it is, once there is a version at all. */
static bool graph_started(void *world, int node, struct arena *arena, struct op_job_create *job)
{
    const struct graph_world *w = world;
    (void)node;
    (void)arena;
    job->kind = SINGLE_KIND;
    return scene_was_activated(w->sim);
}

/* -------------------------------------------------------------------------------------------- workers */

static void member(const struct json *input, const char *name, char *out_text, size_t size)
{
    qp_str text = QP_STR("");
    if (!json_as_str(json_get(input, str_from(name)), &text)) {
        text = QP_STR("");
    }
    (void)snprintf(out_text, size, "%.*s", STR_ARG(text));
}

static int64_t number(const struct json *json, const char *name)
{
    int64_t value = 0;
    return json_as_i64(json_get(json, str_from(name)), &value) ? value : 0;
}

/* How many other children were seen before this one, for the same activity of the same parent. */
static int64_t tries_before(struct graph_world *w, const char *who, qp_str jid)
{
    int64_t before = 0;
    for (int i = 0; i < w->try_count; i++) {
        if (strcmp(w->tries[i].who, who) == 0) {
            if (str_equal(str_from(w->tries[i].jid), jid)) {
                return before;
            }
            before++;
        }
    }
    QP_ASSERT(w->try_count < TRIES_MAX);
    (void)snprintf(w->tries[w->try_count].who, sizeof w->tries[0].who, "%s", who);
    (void)snprintf(w->tries[w->try_count].jid, sizeof w->tries[0].jid, "%.*s", STR_ARG(jid));
    w->try_count++;
    return before;
}

static bool work_fails(struct graph_world *w, const struct json *input, const struct task *task,
                       const char *kind, bool *out_fatal)
{
    char who[96];
    *out_fatal = strcmp(kind, "flaky") != 0;
    if (strcmp(kind, "flaky") == 0) {
        return task->failures < number(input, "n");
    }
    if (strcmp(kind, "errors") == 0) {
        return number(input, "x") % 2 == 0;
    }
    if (strcmp(kind, "again") == 0) {
        member(input, "who", who, sizeof who);
        return tries_before(w, who, task->jid) < number(input, "n");
    }
    return strcmp(kind, "fail") == 0;
}

static void graph_execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    struct graph_world *w = world;
    struct qp_err err = {0};
    struct json *input = NULL;
    char kind[32];
    bool fatal = false;
    (void)node;
    QP_ASSERT(json_parse(scene_env(w->sim), task->input, &err, &input) == QP_OK);
    member(input, "k", kind, sizeof kind);
    *out = (struct scene_answer){.kind = RESULT_DONE,
                                 .pending = strcmp(kind, "pending") == 0 ? number(input, "n") : 0};
    (void)snprintf(out->output, sizeof out->output, "{\"x\":%lld}",
                   (long long)(number(input, "x") + number(input, "c")));
    if (work_fails(w, input, task, kind, &fatal)) {
        *out = (struct scene_answer){.kind = RESULT_ERROR, .code = 500, .fatal = fatal};
        (void)snprintf(out->output, sizeof out->output, "{\"code\":500}");
    }
    json_free(input);
}

/* -------------------------------------------------------------------------------------------- clients */

static void signal_one(struct graph_world *w, const struct graph_job *job,
                       const struct plot_part *part, const char *topic, int64_t code,
                       struct sim_random *r)
{
    char name[32];
    char key[64];
    plot_name(name, part->kind, part->act);
    (void)snprintf(key, sizeof key, "[\"%s\",\"%s\"]", job->jid, name);
    scene_signal(w->sim, random_below(r, 600), topic, key, "{\"y\":3}", code);
}

/* As many as its hooks will wait for. */
static void signals_play(struct graph_world *w, const struct graph_job *job, struct sim_random *r)
{
    const struct plot *p = &w->plots[job->plot];
    for (int i = 0; i < p->part_count; i++) {
        const struct plot_part *part = &p->parts[i];
        for (int64_t k = 0; k < job->expected.runs[part->act]; k++) {
            if (part->kind == PLOT_web || part->kind == PLOT_keep) {
                signal_one(w, job, part, "plot.web", 200, r);
            }
            for (int64_t m = 0; part->kind == PLOT_keep && m < part->n; m++) {
                signal_one(w, job, part, "plot.web", 202, r);
            }
            if (part->kind == PLOT_both && random_chance(r, 60)) {
                signal_one(w, job, part, "plot.both", 200, r);
            }
        }
    }
}

static void job_play(struct graph_world *w, struct graph_job *job, struct sim_random *r)
{
    char input[96];
    qp_ms at = random_below(r, 300);
    plot_interpret(&w->plots[job->plot], job->x, true, &job->expected);
    (void)snprintf(input, sizeof input, "{\"x\":%lld,\"color\":\"%s\"}", (long long)job->x,
                   job->red ? "red" : "blue");
    scene_start(w->sim, at,
                &(struct scene_job){.jid = job->jid,
                                    .kind = GRAPH_KIND,
                                    .workflow = w->plots[job->plot].topic,
                                    .input = input});
    signals_play(w, job, r);
    if (random_chance(r, 8)) {
        scene_end_job(w->sim, at + random_below(r, 300), job->jid,
                      random_chance(r, 50) ? JOB_INTERRUPTED : JOB_CANCELLED);
    }
    if (random_chance(r, 8)) {
        scene_pause(w->sim, at + random_below(r, 100), 1 + random_below(r, 200), job->jid);
    }
}

static void app_make(struct graph_world *w, const struct qp_env *env, int version)
{
    const struct plot *plots[MAINS_MAX + 1];
    struct arena arena;
    struct report report;
    size_t count = 0;
    for (int i = 0; i < w->main_count; i++) {
        plots[count++] = &w->plots[i];
    }
    plots[count++] = &w->plots[MAINS_MAX];
    plot_write(plots, count, version, w->text);
    arena_init(&arena, env, 0);
    report_init(&report, &arena);
    if (app_compile(env, str_from(w->text), &report, &w->apps[version - 1]) != QP_OK) {
        (void)fprintf(stderr, "%s\nline %d:%d: %.*s\n", w->text,
                      report.first == NULL ? 0 : report.first->line,
                      report.first == NULL ? 0 : report.first->column,
                      STR_ARG(report.first == NULL ? QP_STR("?") : report.first->message));
        abort();
    }
    arena_done(&arena);
}

static void plots_draw(struct graph_world *w, struct sim_random *r)
{
    static const char *const topics[MAINS_MAX + 1] = {"first", "second", "child"};
    static const char *const others[MAINS_MAX] = {"j0", "j2"};
    int acts = 0;
    w->main_count = 1 + (int)random_below(r, MAINS_MAX);
    w->plots[MAINS_MAX].topic = topics[MAINS_MAX];
    plot_draw(&w->plots[MAINS_MAX], PLOT_CHILD, &acts, r);
    for (int i = 0; i < w->main_count; i++) {
        w->plots[i].topic = topics[i];
        w->plots[i].child = &w->plots[MAINS_MAX];
        w->plots[i].other = others[random_below(r, MAINS_MAX)];
        plot_draw(&w->plots[i], PLOT_MAIN, &acts, r);
    }
}

static void graph_create(void *world, struct sim *sim, struct sim_random *r)
{
    struct graph_world *w = world;
    w->sim = sim;
    plots_draw(w, r);
    w->job_count = 1 + (int)random_below(r, JOBS_MAX);
    for (int version = 1; version <= VERSIONS; version++) {
        app_make(w, scene_env(sim), version);
    }
    scene_say(sim, w->text);
    scene_deploy(sim, 0, w->apps[0]);
    if (random_chance(r, 50)) {
        scene_deploy(sim, 20 + random_below(r, 300), w->apps[1]);
        sim_cover("graph.second version");
    }
    for (int i = 0; i < w->job_count; i++) {
        struct graph_job *job = &w->jobs[i];
        (void)snprintf(job->jid, sizeof job->jid, "j%d", i);
        job->plot = (int)random_below(r, w->main_count);
        job->x = random_below(r, 10);
        job->red = random_chance(r, 50);
        job_play(w, job, r);
    }
}

static void graph_destroy(void *world)
{
    struct graph_world *w = world;
    for (int i = 0; i < VERSIONS; i++) {
        app_free(w->apps[i]);
    }
}

/* ------------------------------------------------------------------------------------------ the end */

/* Whether another job, or one that was asked to, may have ended this one. */
static bool may_be_ended(const struct graph_world *w, const struct graph_job *job)
{
    bool may =
        scene_was_ended(w->sim, job->jid) || (job->expected.calls > 0 && scene_gave_up(w->sim));
    for (int i = 0; i < w->job_count; i++) {
        const struct plot *p = &w->plots[w->jobs[i].plot];
        may = may || (p->ends_other && strcmp(p->other, job->jid) == 0);
    }
    return may;
}

static bool sums_are_right(const struct graph_job *job, const struct json *output, char *text)
{
    for (int i = 0; i < PLOT_ACTS_MAX; i++) {
        char key[16];
        int64_t sum;
        (void)snprintf(key, sizeof key, "s%d", i);
        sum = number(output, key);
        if (sum < job->expected.least[i] || sum > job->expected.most[i]) {
            (void)snprintf(text, SCENE_TEXT_SIZE, "%s: %s is %lld, not %lld to %lld", job->jid, key,
                           (long long)sum, (long long)job->expected.least[i],
                           (long long)job->expected.most[i]);
            return false;
        }
    }
    if (number(output, "u") == 0 || number(output, "u") != number(output, "v")) {
        (void)snprintf(text, SCENE_TEXT_SIZE, "%s: began as version %lld, ended as %lld", job->jid,
                       (long long)number(output, "u"), (long long)number(output, "v"));
        return false;
    }
    return true;
}

static bool is_complete_as_it_must(struct graph_world *w, const struct graph_job *job,
                                   const struct scene_end *end, char *text)
{
    struct json *output = NULL;
    struct qp_err err = {0};
    bool right;
    if (job->expected.stops || end->tasks != job->expected.tasks) {
        (void)snprintf(text, SCENE_TEXT_SIZE, "%s: complete with %lld tasks, not %lld%s", job->jid,
                       (long long)end->tasks, (long long)job->expected.tasks,
                       job->expected.stops ? ", though it cannot be" : "");
        return false;
    }
    if (json_parse(scene_env(w->sim), str_from(end->output), &err, &output) != QP_OK) {
        (void)snprintf(text, SCENE_TEXT_SIZE, "%s: '%.150s'", job->jid, end->output);
        return false;
    }
    right = sums_are_right(job, output, text);
    json_free(output);
    return right;
}

static bool job_is_right(struct graph_world *w, const struct graph_job *job, char *text)
{
    static const char *const covers[] = {[JOB_COMPLETED] = "graph.completed",
                                         [JOB_FAILED] = "graph.failed",
                                         [JOB_CANCELLED] = "graph.cancelled",
                                         [JOB_INTERRUPTED] = "graph.interrupted"};
    struct scene_end end;
    scene_outcome(w->sim, job->jid, &end);
    if (end.ended && end.state == JOB_COMPLETED) {
        sim_cover(covers[end.state]);
        return is_complete_as_it_must(w, job, &end, text);
    }
    if (end.ended && (job->expected.stops || may_be_ended(w, job)) &&
        end.tasks <= job->expected.tasks) {
        sim_cover(covers[end.state]);
        return true;
    }
    (void)snprintf(text, SCENE_TEXT_SIZE, "%s: ended %d as %d with '%.150s'", job->jid, end.ended,
                   (int)end.state, end.output);
    return false;
}

static bool graph_verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    struct graph_world *w = world;
    (void)sim;
    for (int i = 0; i < w->job_count; i++) {
        if (!job_is_right(w, &w->jobs[i], out_text)) {
            return false;
        }
    }
    return true;
}

static const char *const graph_topics[] = {"plot", NULL};

const struct scene scene_graph = {.name = "graph",
                                  .size = sizeof(struct graph_world),
                                  .create = graph_create,
                                  .faces = graph_faces,
                                  .topics = graph_topics,
                                  .turn = graph_turn,
                                  .leave = graph_leave,
                                  .start = graph_started,
                                  .destroy = graph_destroy,
                                  .stays_young = true,
                                  .execute = graph_execute,
                                  .verify = graph_verify};
