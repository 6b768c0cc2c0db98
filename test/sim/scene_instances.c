/* scene_instances.c - instances of agent workflows: generated scripts (instances.h), works that are late, fail and come again, events
 * that come at any time, also beside the decision that ends an instance
 *
 * A decision is drafted from what is committed, as an agent would; some fail, or are given back. What a work comes to follows from its
 * name and the number of its attempt. Some events are planned; others are sent while a decision is out, so that many meet the
 * closing one.
 *
 * What must come of an instance says the reading, array by array: every result was given by a worker and is used once, every event
 * that was acknowledged is in one branch, and no other. Of those that a client has ended nothing is asked but the rules of fsck.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/draft_text.h"
#include "agent/face.h"
#include "agent/members.h"
#include "agent/rows.h"
#include "kernel/single.h"
#include "sim/instances.h"

#define TOPIC "quipu:agent:dev:javascript"
#define JOBS_MAX 2
#define EVENTS_MAX 64
#define RESULTS_MAX 4096
#define SPAN_MS 300
#define EVENTS_OUT_MAX 12 /* that are sent while a decision is out, to one instance */
#define AGAIN_MS 20
#define LATE_MS 30

/* An event that a client sends. */
struct sent {
    int job;
    char name[8];
    int number; /* scene_was_taken */
    bool seen;
};

/* A result that a worker gave. */
struct given {
    char name[DRAWN_NAME_SIZE];
    bool used;
};

struct instances_world {
    struct sim *sim;
    uint64_t seed;
    char jids[JOBS_MAX][16];
    int event_counts[JOBS_MAX];
    int job_count;
    struct sent events[EVENTS_MAX];
    int event_count;
    struct given results[RESULTS_MAX];
    int result_count;
    struct faces *nodes[SIM_NODES_MAX];
};

/* ---------------------------------------------------------------------------------------------- nodes */

static struct faces *open_faces(void *world, int node, const struct qp_env *env)
{
    static const struct face *const kinds[] = {&single_face, &agent_face};
    struct instances_world *w = world;
    int rc =
        faces_open(&(struct face_options){.env = env}, kinds, ARRAY_COUNT(kinds), &w->nodes[node]);
    QP_ASSERT(rc == QP_OK);
    return w->nodes[node];
}

static void leave(void *world, int node)
{
    struct instances_world *w = world;
    faces_close(w->nodes[node]);
    w->nodes[node] = NULL;
}

/* An instance is pinned to the concrete name of its workflow. */
static bool started(void *world, int node, struct arena *arena, struct op_job_create *job)
{
    (void)world;
    (void)node;
    (void)arena;
    job->version = job->workflow;
    return true;
}

/* ------------------------------------------------------------------------------------------- clients */

static void send_event(struct instances_world *w, int job, qp_ms at_ms, int64_t which)
{
    struct sent *e = &w->events[w->event_count];
    char input[16];
    QP_ASSERT(w->event_count < EVENTS_MAX);
    e->job = job;
    (void)snprintf(e->name, sizeof e->name, "%s", drawn_event(which));
    (void)snprintf(input, sizeof input, "e%d", w->event_count++);
    e->number = scene_event(w->sim, at_ms, w->jids[job], e->name, input);
    w->event_counts[job]++;
}

static void job_play(struct instances_world *w, int number, struct sim_random *r)
{
    char *jid = w->jids[number];
    qp_ms at = random_below(r, SPAN_MS / 2);
    (void)snprintf(jid, sizeof w->jids[number], "i%d", number);
    scene_start(
        w->sim, at,
        &(struct scene_job){
            .jid = jid, .kind = AGENT_KIND, .workflow = jid, .input = "{\"properties\":\"0\"}"});
    for (int64_t n = random_below(r, 8); n > 0; n--) {
        send_event(w, number, at + random_below(r, SPAN_MS), random_below(r, DRAWN_EVENTS));
    }
    if (random_chance(r, 6)) {
        scene_end_job(w->sim, at + random_below(r, SPAN_MS), jid, JOB_INTERRUPTED);
    }
    if (random_chance(r, 15)) {
        scene_pause(w->sim, at + random_below(r, 100), 1 + random_below(r, 200), jid);
        sim_cover("instance.paused");
    }
    if (random_chance(r, 30)) {
        scene_retry(w->sim, at + random_below(r, SPAN_MS), jid);
    }
}

static void create(void *world, struct sim *sim, struct sim_random *r)
{
    struct instances_world *w = world;
    w->sim = sim;
    w->seed = random_next(r);
    w->job_count = 1 + (int)random_below(r, JOBS_MAX);
    for (int i = 0; i < w->job_count; i++) {
        job_play(w, i, r);
    }
}

/* ----------------------------------------------------------------------------------------- decisions */

/* The row of a job, by its number; NULL: it is gone. */
static const struct job_row *job_row_of(struct instances_world *w, struct arena *arena,
                                        int64_t number)
{
    struct job_row key = {.ns = STORE_NS_DEFAULT, .job = number};
    const void *row = NULL;
    return store_get(scene_store(w->sim), arena, TABLE_job, &key, &row, NULL) == QP_OK ? row : NULL;
}

static void say(struct scene_answer *out, const char *text)
{
    *out = (struct scene_answer){.kind = RESULT_OTHER};
    (void)snprintf(out->output, sizeof out->output, "%s", text);
}

/* An event that is sent while the decision is out. */
static void send_beside(struct instances_world *w, qp_str jid, uint64_t r)
{
    for (int i = 0; i < w->job_count; i++) {
        if (str_equal(str_from(w->jids[i]), jid) && r % 4 == 0 &&
            w->event_counts[i] < EVENTS_OUT_MAX) {
            send_event(w, i, scene_now_ms(w->sim), (int64_t)(r / 4 % DRAWN_EVENTS));
        }
    }
}

static void draft(struct instances_world *w, struct arena *arena, const struct instance *i,
                  struct scene_answer *out)
{
    struct drawn s = {w->seed, i->workflow_name};
    const struct branch *branch = NULL;
    struct draft d;
    qp_str text;
    char value[DRAWN_VALUE_SIZE];
    draft_init(&d, arena, i);
    while (!draft_is_finished(&d)) {
        qp_str given;
        QP_ASSERT(draft_branch(&d, NULL, &branch, &given) == QP_OK);
        bool ends = drawn_run(&s, &d, branch, given, value);
        qp_str posted = str_from(value);
        QP_ASSERT(draft_post(&d, posted, ends ? &posted : NULL, NULL) == QP_OK);
    }
    QP_ASSERT(draft_write(arena, &d, &text) == QP_OK && text.n < sizeof out->output);
    *out = (struct scene_answer){.kind = RESULT_DONE};
    memcpy(out->output, text.p, text.n);
}

/* The first attempt of some decisions fails, that of others is given back. One whose instance has gone on since is refused,
 * whatever is said. */
static void decide(struct instances_world *w, const struct task *task, struct scene_answer *out)
{
    struct arena arena;
    struct instance i;
    struct qp_err err = {0};
    arena_init(&arena, scene_env(w->sim), 0);
    struct sight sight = {.store = scene_store(w->sim),
                          .arena = &arena,
                          .job = job_row_of(w, &arena, task->ref.job),
                          .err = &err};
    if (sight.job == NULL || agent_decision(&sight, &i) != QP_OK) {
        say(out, "{\"status\":\"lost\"}");
        arena_done(&arena);
        return;
    }
    uint64_t r = drawn_choice(w->seed, i.workflow_name, 1000 + (uint64_t)i.ongoing_index);
    send_beside(w, task->jid, r);
    if (i.decision_attempt == 1 && r / 8 % 16 == 0) {
        say(out, "{\"status\":\"failed\",\"error\":{\"name\":\"Oops\"}}");
        sim_cover("instance.decision.failed");
    } else if (i.decision_attempt == 1 && r / 8 % 16 == 1) {
        say(out, "{\"status\":\"lost\"}");
        sim_cover("instance.decision.lost");
    } else {
        draft(w, &arena, &i, out);
    }
    arena_done(&arena);
}

/* ------------------------------------------------------------------------------------------- workers */

/* Which attempt of its work a task is, as its rows say; 0: they are gone. */
static int64_t attempt_of(struct instances_world *w, struct arena *arena, const struct task *task)
{
    struct data_row key = {
        .ns = STORE_NS_DEFAULT, .job = task->ref.job, .name = AGENT_TASK_ATTEMPT};
    struct status status = {0};
    const void *row = NULL;
    int64_t branch = 0;
    int64_t number = 0;
    bool is_here = agent_work_of(task->addr, &branch, &number);
    if (is_here) {
        QP_ASSERT(agent_row_name(arena, AGENT_WORK, branch, number, &key.name) == QP_OK);
    }
    if (store_get(scene_store(w->sim), arena, TABLE_data, &key, &row, NULL) != QP_OK) {
        return 0;
    }
    qp_str text = ((const struct data_row *)row)->value;
    bool reads =
        is_here ? rows_get_work(arena, text, &status) == QP_OK : members_i64(text, &status.attempt);
    return reads ? status.attempt : 0;
}

static void give_result(struct instances_world *w, qp_str name, struct scene_answer *out)
{
    char text[64];
    QP_ASSERT(w->result_count < RESULTS_MAX);
    (void)snprintf(w->results[w->result_count].name, DRAWN_NAME_SIZE, "%.*s", STR_ARG(name));
    (void)snprintf(text, sizeof text, "{\"status\":\"completed\",\"output\":\"n%d\"}",
                   w->result_count++);
    say(out, text);
}

/* By the name of the work: one attempt in four fails, for good or to come again, or takes long. */
static void work(struct instances_world *w, const struct task *task, struct scene_answer *out)
{
    struct arena arena;
    struct status status = {0};
    char text[128];
    arena_init(&arena, scene_env(w->sim), 0);
    QP_ASSERT(rows_get_definition(&arena, task->input, &status) == QP_OK);
    int64_t attempt = attempt_of(w, &arena, task);
    uint64_t fate = drawn_choice(w->seed, status.work.name, 2) % 12;
    if (fate == 0 && attempt <= 1) {
        say(out, "{\"status\":\"failed\",\"error\":{\"name\":\"No\"}}");
        sim_cover("instance.work.failed");
    } else if (fate <= 2 && attempt <= 2) {
        (void)snprintf(text, sizeof text,
                       "{\"status\":\"failed\",\"error\":{\"name\":\"Later\"},\"again\":%d}",
                       fate == 1 ? 0 : AGAIN_MS);
        say(out, text);
        sim_cover("instance.work.again");
    } else {
        give_result(w, status.work.name, out);
    }
    out->takes_ms = fate >= 10 && task->tries < 4 ? LATE_MS : 0;
    arena_done(&arena);
}

static void execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    (void)node;
    if (str_equal(task->addr, AGENT_ADDRESS)) {
        decide(world, task, out);
    } else {
        work(world, task, out);
    }
}

/* -------------------------------------------------------------------------------------------- the end */

/* One instance that is judged. */
struct judging {
    struct instances_world *w;
    const struct job_row *job;
    char *text;
};

static void each_job(struct instances_world *w, void *context, store_visit visit)
{
    struct scan all = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    int rc = store_scan(scene_store(w->sim), &all, context, visit, &err);
    QP_ASSERT(rc == QP_OK);
}

/* The child of a work, which gave this. */
struct child_search {
    qp_str workflow;
    qp_str output;
    bool found;
    bool is_there; /* else it was swept */
};

static int see_child(void *context, const void *row)
{
    struct child_search *c = context;
    const struct job_row *job = row;
    c->is_there |= str_equal(job->workflow, c->workflow);
    c->found |= job->state == JOB_COMPLETED && str_equal(job->workflow, c->workflow) &&
                str_equal(job->output, c->output);
    return QP_OK;
}

static bool child_gave(struct instances_world *w, qp_str workflow, qp_str output)
{
    struct child_search c = {.workflow = workflow, .output = output};
    each_job(w, &c, see_child);
    return c.found || !c.is_there;
}

/* "n12", which a worker gave for this work, and no other branch has used. */
static bool result_may_be(void *context, const struct agent_work *work, qp_str output)
{
    struct judging *j = context;
    char text[24];
    if (work->type == WORK_WORKFLOW) {
        return child_gave(j->w, work->name, output);
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)(output.n < sizeof text ? output.n : 0),
                   output.p);
    long number = text[0] == '"' && text[1] == 'n' ? strtol(text + 2, NULL, 10) : -1;
    if (number < 0 || number >= j->w->result_count || j->w->results[number].used ||
        !str_equal(str_from(j->w->results[number].name), work->name)) {
        return false;
    }
    j->w->results[number].used = true;
    return true;
}

static bool event_may_be(void *context, qp_str name, qp_str input)
{
    struct judging *j = context;
    char text[16];
    (void)snprintf(text, sizeof text, "%.*s", (int)(input.n < sizeof text ? input.n : 0), input.p);
    long number = text[0] == 'e' ? strtol(text + 1, NULL, 10) : -1;
    if (number < 0 || number >= j->w->event_count) {
        return false;
    }
    struct sent *e = &j->w->events[number];
    if (e->seen || !str_equal(str_from(e->name), name) ||
        !str_equal(str_from(j->w->jids[e->job]), j->job->jid)) {
        return false;
    }
    e->seen = true;
    return true;
}

/* What was acknowledged is there. */
static bool events_are_seen(const struct judging *j)
{
    for (int i = 0; i < j->w->event_count; i++) {
        const struct sent *e = &j->w->events[i];
        const char *jid = j->w->jids[e->job];
        if (str_equal(str_from(jid), j->job->jid) && !e->seen &&
            scene_was_taken(j->w->sim, e->number)) {
            (void)snprintf(j->text, SCENE_TEXT_SIZE,
                           "%s: the event e%d was acknowledged, and is lost", jid, i);
            return false;
        }
    }
    return true;
}

static void cover_instance(const struct instance *i)
{
    static const char *const types[] = {
        [WORK_TASK] = "task", [WORK_WORKFLOW] = "child", [WORK_WAIT] = "wait"};
    for (size_t k = 0; k < i->statuses.count; k++) {
        const struct status *status = i->statuses.items[k];
        char name[64];
        (void)snprintf(name, sizeof name, "instance.%s%s", types[status->work.type],
                       status->work.sync ? "" : ".dispatched");
        sim_cover(name);
        if (status->state != WORK_SUCCESSFUL) {
            sim_cover("instance.outlived");
        }
    }
    for (int64_t k = 0; k < i->branch_count; k++) {
        char name[64];
        (void)snprintf(name, sizeof name, "instance.%s", hook_name(state_branch(i, k)->call.hook));
        sim_cover(name);
    }
}

static bool is_right(struct judging *j)
{
    struct reading_facts facts = {j, result_may_be, event_may_be};
    struct drawn s = {j->w->seed, j->job->workflow};
    struct instance i;
    struct arena arena;
    struct qp_err err = {0};
    struct sight sight = {
        .store = scene_store(j->w->sim), .arena = &arena, .job = j->job, .err = &err};
    char text[SCENE_TEXT_SIZE];
    arena_init(&arena, scene_env(j->w->sim), 0);
    int rc = agent_instance(&sight, &i);
    bool good = rc == QP_OK && reading_agrees(&s, &i, &facts, text);
    if (!good) {
        (void)snprintf(j->text, SCENE_TEXT_SIZE, "%.*s: %.3000s", STR_ARG(j->job->jid),
                       rc == QP_OK ? text : qp_code_word(rc));
    } else {
        cover_instance(&i);
    }
    arena_done(&arena);
    return good && events_are_seen(j);
}

/* The jobs that are instances, and completed. A job of the kind may be a task, too. */
struct instance_list {
    int64_t numbers[SIM_JOBS_MAX];
    int count;
};

static int see_instance(void *context, const void *row)
{
    struct instance_list *list = context;
    const struct job_row *job = row;
    bool is_instance = job->workflow.p[0] == 'i' || drawn_is_child(job->workflow);
    if (is_instance && job->state == JOB_COMPLETED && list->count < SIM_JOBS_MAX) {
        list->numbers[list->count++] = job->job;
    }
    return QP_OK;
}

static bool all_are_right(struct instances_world *w, char out_text[SCENE_TEXT_SIZE])
{
    struct instance_list list = {.count = 0};
    bool good = true;
    each_job(w, &list, see_instance);
    for (int i = 0; i < list.count && good; i++) {
        struct arena arena;
        arena_init(&arena, scene_env(w->sim), 0);
        struct judging j = {
            .w = w, .job = job_row_of(w, &arena, list.numbers[i]), .text = out_text};
        good = is_right(&j);
        arena_done(&arena);
    }
    return good;
}

static bool verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    struct instances_world *w = world;
    for (int i = 0; i < w->job_count; i++) {
        struct scene_end end;
        scene_outcome(sim, w->jids[i], &end);
        if (end.ended && end.state != JOB_COMPLETED && scene_was_ended(sim, w->jids[i])) {
            sim_cover("instance.ended");
        } else if (!end.ended || end.state != JOB_COMPLETED) {
            (void)snprintf(out_text, SCENE_TEXT_SIZE, "%s: ended %d as %d with '%.150s'",
                           w->jids[i], end.ended, (int)end.state, end.output);
            return false;
        }
    }
    return all_are_right(w, out_text);
}

static const char *const topics[] = {TOPIC, NULL};

static const char *const needs[] = {"model.alone",
                                    "model.serial",
                                    "model.rows",
                                    "instance.handle",
                                    "instance.onEvent",
                                    "instance.onStart",
                                    "instance.onSuccess",
                                    "instance.onFailure",
                                    "instance.onTimeout",
                                    "instance.task",
                                    "instance.task.dispatched",
                                    "instance.child",
                                    "instance.child.dispatched",
                                    "instance.wait",
                                    "instance.wait.dispatched",
                                    "instance.outlived",
                                    "instance.work.failed",
                                    "instance.work.again",
                                    "instance.decision.failed",
                                    "instance.decision.lost",
                                    "instance.paused",
                                    "instance.ended",
                                    "limits.full",
                                    NULL};

const struct scene scene_instances = {.name = "instances",
                                      .size = sizeof(struct instances_world),
                                      .create = create,
                                      .faces = open_faces,
                                      .leave = leave,
                                      .start = started,
                                      .topics = topics,
                                      .stays_young = true,
                                      .execute = execute,
                                      .verify = verify,
                                      .needs = needs};
