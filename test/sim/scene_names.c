/* scene_names.c - versions that are deployed, activated and deleted at all nodes, while jobs begin by their name
 *
 * Clients ask any node for anything, and another one when no answer comes. The rules are those of watch.c ("names"): what
 * a start becomes is the version that was active when it was asked for, or one that became so later; never a plain job,
 * never one of a version that was gone by then. A fork begins with its own version, or is refused. Whatever has begun
 * ends, also when its version was deleted meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graph/face.h"
#include "graph/program.h"
#include "kernel/single.h"
#include "sim/scene.h"
#include "sim/scene_faces.h"

#define VERSIONS 3
#define STARTS 8
#define FORKS 3
#define MOVES_MAX 8
#define SPAN_MS 400

struct names_world {
    struct sim *sim;
    struct app *apps[VERSIONS];
    struct scene_faces nodes[SIM_NODES_MAX];
};

static struct faces *names_faces(void *world, int node, const struct qp_env *env)
{
    struct names_world *w = world;
    return scene_faces_open(&w->nodes[node], env);
}

static void names_turn(void *world, int node, struct store *store)
{
    struct names_world *w = world;
    scene_faces_turn(&w->nodes[node], store);
}

static void names_leave(void *world, int node)
{
    struct names_world *w = world;
    scene_faces_close(&w->nodes[node]);
}

/* Before the first version a name is a plain topic, and rightly so. */
static bool names_started(void *world, int node, struct arena *arena, struct op_job_create *job)
{
    const struct names_world *w = world;
    (void)node;
    (void)arena;
    (void)job;
    return scene_was_activated(w->sim);
}

static void names_execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    (void)node;
    (void)world;
    (void)task;
    *out = (struct scene_answer){.kind = RESULT_DONE};
    (void)snprintf(out->output, sizeof out->output, "{}");
}

static struct app *app_of(const struct qp_env *env, int version)
{
    char text[512];
    struct arena arena;
    struct report report;
    struct app *app = NULL;
    (void)snprintf(text, sizeof text,
                   "app: {id: named, version: '%d', graphs: [{subscribes: named, activities: "
                   "{begin: {type: trigger}, do: {type: worker, topic: names.work, input: {maps: "
                   "{version: '%d'}}}}, transitions: {begin: [{to: do}]}}]}",
                   version, version);
    arena_init(&arena, env, 0);
    report_init(&report, &arena);
    QP_ASSERT(app_compile(env, str_from(text), &report, &app) == QP_OK);
    arena_done(&arena);
    return app;
}

static void move_play(struct names_world *w, struct sim_random *r)
{
    const struct app *app = w->apps[random_below(r, VERSIONS)];
    qp_ms at = 20 + random_below(r, SPAN_MS);
    switch (random_below(r, 3)) {
    case 0:
        scene_deploy(w->sim, at, app);
        sim_cover("names.deploy");
        break;
    case 1:
        scene_activate(w->sim, at, app);
        sim_cover("names.activate");
        break;
    default:
        scene_delete(w->sim, at, app);
        sim_cover("names.delete");
        break;
    }
}

static void starts_play(struct names_world *w, struct sim_random *r)
{
    char jid[16];
    char pinned[16];
    for (int i = 0; i < STARTS; i++) {
        (void)snprintf(jid, sizeof jid, "n%d", i);
        scene_start(w->sim, random_below(r, SPAN_MS),
                    &(struct scene_job){
                        .jid = jid, .kind = SINGLE_KIND, .workflow = "named", .input = "{}"});
    }
    for (int i = 0; i < FORKS; i++) {
        (void)snprintf(jid, sizeof jid, "f%d", i);
        (void)snprintf(pinned, sizeof pinned, "named/%d", 1 + (int)random_below(r, VERSIONS));
        scene_start(w->sim, random_below(r, SPAN_MS),
                    &(struct scene_job){.jid = jid,
                                        .kind = GRAPH_KIND,
                                        .workflow = "named",
                                        .input = "{}",
                                        .pinned = pinned});
    }
}

static void scene_names_create(void *world, struct sim *sim, struct sim_random *r)
{
    struct names_world *w = world;
    int64_t moves = 2 + random_below(r, MOVES_MAX - 1);
    w->sim = sim;
    for (int i = 0; i < VERSIONS; i++) {
        w->apps[i] = app_of(scene_env(sim), i + 1);
    }
    scene_deploy(sim, 0, w->apps[0]);
    for (int64_t i = 0; i < moves; i++) {
        move_play(w, r);
    }
    starts_play(w, r);
}

static void scene_names_destroy(void *world)
{
    struct names_world *w = world;
    for (int i = 0; i < VERSIONS; i++) {
        app_free(w->apps[i]);
    }
}

static bool names_verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    struct scene_end end;
    char jid[16];
    (void)world;
    for (int i = 0; i < STARTS; i++) {
        (void)snprintf(jid, sizeof jid, "n%d", i);
        scene_outcome(sim, jid, &end);
        if (!end.ended || end.state != JOB_COMPLETED || end.tasks != 1) {
            (void)snprintf(out_text, SCENE_TEXT_SIZE, "%s: ended %d as %d with %lld tasks", jid,
                           end.ended, (int)end.state, (long long)end.tasks);
            return false;
        }
    }
    return true;
}

static const char *const names_topics[] = {"names.work", NULL};

const struct scene scene_names = {.name = "names",
                                  .size = sizeof(struct names_world),
                                  .create = scene_names_create,
                                  .faces = names_faces,
                                  .topics = names_topics,
                                  .turn = names_turn,
                                  .leave = names_leave,
                                  .start = names_started,
                                  .destroy = scene_names_destroy,
                                  .stays_young = true,
                                  .execute = names_execute,
                                  .verify = names_verify};
