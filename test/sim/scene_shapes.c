/* scene_shapes.c - the shapes of the kernel's own tests (support/shapes.h), in the simulator */
#include <stdio.h>

#include "sim/scene.h"
#include "support/shapes.h"

#define ITEMS "24" /* of a carto */

struct shapes_world {
    const struct shape *shape;
    const struct program *programs[2];
    int64_t input;
};

static void shapes_create(void *world, struct sim *sim, struct sim_random *r)
{
    static const struct shape *const shapes[] = {&shape_tree, &shape_flow, &shape_carto,
                                                 &shape_children};
    static const char *const names[] = {"shape.tree", "shape.flow", "shape.carto", "shape.kin"};
    struct shapes_world *w = world;
    int64_t which = random_below(r, ARRAY_COUNT(shapes));
    const char *input = which == 2 ? ITEMS : shapes[which]->input;
    w->shape = shapes[which];
    w->programs[0] = w->shape->program;
    w->input = shape_number(str_from(input));
    sim_cover(names[which]);
    scene_start(sim, random_below(r, 50),
                &(struct scene_job){.jid = "shape",
                                    .kind = w->shape->program->kind,
                                    .workflow = w->shape->program->name,
                                    .input = input});
    for (int i = 0; i < w->shape->signals; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        scene_signal(sim, random_below(r, 300), "flow-events", "shape", name, 200);
    }
}

static const struct program *const *shapes_programs(void *world, int node, const struct qp_env *env)
{
    struct shapes_world *w = world;
    (void)node;
    (void)env;
    return w->programs;
}

static void shapes_execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    const struct shapes_world *w = world;
    char text[SHAPE_TEXT_SIZE];
    (void)node;
    *out = (struct scene_answer){.kind = RESULT_DONE};
    w->shape->execute(task->addr, task->input, text);
    QP_ASSERT(strlen(text) < sizeof out->output);
    memcpy(out->output, text, strlen(text) + 1);
}

static bool shapes_verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    const struct shapes_world *w = world;
    char expected[SHAPE_TEXT_SIZE];
    /* Those of a kin are of the jobs that it calls. */
    int64_t tasks = w->shape == &shape_children ? 0 : w->shape->task_count(w->input);
    struct scene_end end;
    scene_outcome(sim, "shape", &end);
    w->shape->expect(w->input, expected);
    if (end.ended && end.state == JOB_COMPLETED && strcmp(end.output, expected) == 0 &&
        (tasks < 0 || end.tasks == tasks)) {
        return true;
    }
    if (end.ended && scene_was_ended(sim, "shape")) {
        return true; /* it was given up */
    }
    (void)snprintf(out_text, SCENE_TEXT_SIZE,
                   "ended %d as %d with '%.150s' of %lld tasks, not '%.150s'", end.ended,
                   (int)end.state, end.output, (long long)end.tasks, expected);
    return false;
}

static const char *const shapes_topics[] = {"tree", "decide", "carto", "work", "kin", NULL};

const struct scene scene_shapes = {.name = "shapes",
                                   .size = sizeof(struct shapes_world),
                                   .create = shapes_create,
                                   .programs = shapes_programs,
                                   .topics = shapes_topics,
                                   .execute = shapes_execute,
                                   .verify = shapes_verify};

const struct scene *const scenes[] = {&scene_cast,  &scene_cast,    &scene_cast,  &scene_shapes,
                                      &scene_graph, &scene_signals, &scene_names, NULL};
