/* scene_cast.c - generated programs (cast.h) as jobs of the kernel
 *
 * A job's output is a sum over what its workers answered and counts of what its steps did: a step that is lost or
 * done twice shows. A job that somebody ends, or whose task fails for good, has no such output: it must end as
 * one of the ways that are possible.
 */
#include <stdio.h>

#include "sim/cast.h"

/* ----------------------------------------------------------------------------------------- the program */

static struct role *role_of(struct turn *t)
{
    struct plan *p = t->program->context;
    int64_t number =
        t->at.name.p[0] == 't' ? 0 : shape_number((qp_str){t->at.name.p + 1, t->at.name.n - 1});
    QP_ASSERT(number >= 0 && number < p->count);
    return &p->roles[number];
}

static int64_t category_of(const struct role *role)
{
    switch (role->kind) {
    case CAST_TRIGGER:
        return 'D';
    case CAST_PASS:
    case CAST_SIGNAL:
    case CAST_SIGNAL_ALL:
    case CAST_STOP:
    case CAST_PIVOT:
        return 'B';
    case CAST_CYCLE:
        return 'C';
    default:
        return 'A';
    }
}

static int cast_describe(struct turn *t, struct op_act_create *row)
{
    const struct role *role = role_of(t);
    bool pivots = role->kind == CAST_PIVOT || role->kind == CAST_CYCLE;
    row->category = category_of(role);
    row->cyclic = pivots ? CYCLIC_PIVOT : CYCLIC_NO;
    row->topic = role->kind == CAST_TASK || role->kind == CAST_KEY ? QP_STR("cast") : QP_NONE;
    row->policy =
        role->kind == CAST_TASK ? QP_STR("attempts=5,backoff=10,factor=2,cap=100") : QP_NONE;
    return QP_OK;
}

/* The id of the job that a role starts. */
static int await_jid(struct turn *t, qp_str *out_jid)
{
    return shape_print(t, out_jid, "%.*s.%.*s", STR_ARG(t->job->jid), STR_ARG(t->at.name));
}

static int cast_await(struct turn *t)
{
    const struct plan *p = t->program->context;
    struct turn child = {.stepwise = false};
    struct start start = {.job = {.ref = {.ns = t->site.ref.ns},
                                  .kind = KIND_FIRST + PLANS_MAX,
                                  .workflow = QP_STR("cast"),
                                  .parent_job = t->site.ref.job,
                                  .parent_addr = t->site.addr},
                          .input = t->act->input};
    char name[64];
    int rc = await_jid(t, &start.job.jid);
    if (rc != QP_OK) {
        return rc;
    }
    (void)snprintf(name, sizeof name, "%.*s", STR_ARG(start.job.jid));
    start.job.ref.job = scene_number(p->world->sim, name);
    rc = step_guid(t->bundle, t->site.guid, QP_STR("await"), &start.job.parent_guid);
    turn_wait(t);
    return rc == QP_OK ? turn_start(&child, t->kernel, t->bundle, t->outcome, &start) : rc;
}

static int cast_hook(struct turn *t)
{
    const struct plan *p = t->program->context;
    char addr[128];
    qp_str key;
    int rc;
    plan_address(addr, p, (int)(role_of(t) - p->roles), t->at.dad);
    rc = shape_print(t, &key, "%.*s/%s", STR_ARG(t->job->jid), addr);
    return rc == QP_OK ? turn_hook(t, QP_STR(HOOK_TOPIC), key, false) : rc;
}

static int key_name(struct turn *t, const struct role *role, struct op_key_acquire *out)
{
    *out = (struct op_key_acquire){.ns = t->site.ref.ns,
                                   .scope = role->key == 2 ? t->site.ref.job : 0,
                                   .capacity = 1 + role->key % 2,
                                   .units = 1,
                                   .wait = true};
    return shape_print(t, &out->name, "key-%lld", (long long)role->key);
}

/* The key is ours: its token is kept where the answer finds it, and the task goes out. */
static int key_go(struct turn *t, int64_t token)
{
    qp_str text;
    int rc = shape_print(t, &text, "%lld", (long long)token);
    rc = rc == QP_OK ? turn_data_put(t, t->site.addr, text) : rc;
    return rc == QP_OK ? turn_task(t, QP_STR("cast")) : rc;
}

static int key_ask(struct turn *t, const struct role *role)
{
    struct op_key_acquire key;
    int64_t token = 0;
    int rc = key_name(t, role, &key);
    rc = rc == QP_OK ? turn_key(t, &key, &token) : rc;
    return rc == QP_OK && token > 0 ? key_go(t, token) : rc;
}

static int cast_enter(struct turn *t)
{
    const struct role *role = role_of(t);
    struct plan *p = t->program->context;
    int rc = shape_add(t, "enters", 1);
    if (rc != QP_OK) {
        return rc;
    }
    switch (role->kind) {
    case CAST_TASK:
        return turn_task(t, QP_STR("cast"));
    case CAST_KEY:
        return key_ask(t, role);
    case CAST_SLEEP:
        return turn_timer(t, QP_STR("sleep"), role->ms);
    case CAST_HOOK:
        return cast_hook(t);
    case CAST_EITHER:
        rc = turn_timer(t, QP_STR("sleep"), role->ms);
        return rc == QP_OK ? cast_hook(t) : rc;
    case CAST_AWAIT:
        return cast_await(t);
    case CAST_CYCLE: {
        qp_str name;
        rc = shape_print(t, &name, "n%d", role->pivot);
        QP_ASSERT(role->pivot < p->count);
        return rc == QP_OK
                   ? turn_cycle(t, name, dad_depth(t->at.dad) - role->pivot_up, t->act->input)
                   : rc;
    }
    default:
        return QP_OK;
    }
}

/* The key's own message has no code; a worker's answer has. */
static bool is_between(const struct role *role, int64_t code)
{
    return code == 202 || (role->kind == CAST_KEY && code == 0);
}

static int cast_signal(struct turn *t, const struct role *role)
{
    char addr[128];
    qp_str key;
    qp_str dad;
    int rc = dad_below(turn_arena(t), t->at.dad, &dad);
    if (rc != QP_OK) {
        return rc;
    }
    plan_address(addr, t->program->context, role->target, dad);
    rc = shape_print(t, &key, "%.*s/%s", STR_ARG(t->job->jid), addr);
    return rc == QP_OK ? turn_signal(t, &(struct turn_signal){.topic = QP_STR(HOOK_TOPIC),
                                                              .key = key,
                                                              .payload = QP_STR("7"),
                                                              .ttl_ms = 3600000})
                       : rc;
}

static int cast_work(struct turn *t, struct work *work)
{
    const struct role *role = role_of(t);
    int rc;
    if (is_between(role, work->code) || role->kind == CAST_EITHER) {
        return QP_OK; /* two that race may both do step 1: only one of them spawns */
    }
    rc = shape_add(t, "steps", 1);
    if (rc == QP_OK && work->code < 400 && (role->kind == CAST_TASK || role->kind == CAST_KEY)) {
        rc = shape_add(t, "sum", shape_number(work->output));
    }
    if (rc == QP_OK && role->kind == CAST_SIGNAL && role->target > 0) {
        rc = cast_signal(t, role);
    }
    if (rc == QP_OK && role->kind == CAST_SIGNAL_ALL) {
        rc = turn_signal_all(
            t, &(struct turn_signal_all){.topic = QP_STR(ALL_TOPIC), .payload = QP_STR("7")});
    }
    return rc;
}

static int key_release(struct turn *t, const struct role *role)
{
    const struct data_row *token = NULL;
    struct op_key_acquire key;
    struct op op = {.kind = OP_key_release};
    int rc = turn_data(t, t->site.addr, &token);
    rc = rc == QP_OK ? key_name(t, role, &key) : rc;
    if (rc != QP_OK || token == NULL) {
        return rc != QP_OK ? rc : QP_E_INTERNAL;
    }
    op.key_release = (struct op_key_release){
        .ns = key.ns, .scope = key.scope, .name = key.name, .token = shape_number(token->value)};
    rc = turn_op(t, &op);
    return rc == QP_OK ? turn_data_put(t, t->site.addr, QP_NONE) : rc;
}

static int spawn_role(struct turn *t, int number)
{
    qp_str name;
    int rc = shape_print(t, &name, "n%d", number);
    return rc == QP_OK ? turn_child(t, name, t->act->input) : rc;
}

static int spawn_children(struct turn *t, const struct role *role)
{
    int rc = QP_OK;
    for (int i = 0; i < role->child_count && rc == QP_OK; i++) {
        rc = spawn_role(t, role->children[i]);
    }
    return rc;
}

static int spawn_join(struct turn *t, const struct role *role)
{
    const struct plan *p = t->program->context;
    qp_str name;
    qp_str dad;
    qp_str addr;
    int rc = shape_print(t, &name, "n%d", role->join);
    rc = rc == QP_OK ? dad_ancestor(turn_arena(t), t->at.dad, dad_depth(t->at.dad) - role->up, &dad)
                     : rc;
    rc = rc == QP_OK ? address_make(turn_arena(t), name, dad, &addr) : rc;
    return rc == QP_OK ? turn_arrive(t, &(struct arrival){.addr = addr,
                                                          .ways = p->roles[role->join].ways,
                                                          .delta = -1,
                                                          .live = true,
                                                          .input = t->act->input})
                       : rc;
}

/* The round is the plane of the pivot: the segment before the last one. */
static int64_t round_of(const struct turn *t)
{
    qp_str dad = t->at.dad;
    size_t end = dad.n;
    size_t from;
    while (dad.p[end - 1] != ',') {
        end--;
    }
    from = --end;
    while (dad.p[from - 1] != ',') {
        from--;
    }
    return plan_round(shape_number((qp_str){dad.p + from, end - from}));
}

static int cast_spawn(struct turn *t, struct spawn *spawn)
{
    const struct role *role = role_of(t);
    int rc;
    if (role->kind == CAST_KEY && is_between(role, t->guid.code)) {
        spawn->pending = true; /* the answer is still to come */
        return key_go(t, shape_number(t->guid.output));
    }
    if (t->guid.code == 202 && t->has_guid) {
        return QP_OK;
    }
    if (t->guid.code >= 400) {
        return turn_spawn_nothing(t);
    }
    if (role->kind == CAST_EITHER && role->fatal && t->guid.code == 0) { /* the timer's has none */
        turn_fail(t, JOB_FAILED, QP_STR("{\"reason\":\"time\"}"));
        sim_cover("cast.overdue");
        return QP_OK;
    }
    rc = shape_add(t, "spawns", 1);
    if (rc == QP_OK && role->kind == CAST_KEY) {
        rc = key_release(t, role);
    }
    if (rc == QP_OK && role->kind == CAST_STOP) {
        turn_fail(t, JOB_INTERRUPTED, QP_STR("{\"reason\":\"role\"}"));
        return QP_OK;
    }
    if (rc == QP_OK && role->kind == CAST_AGAIN && round_of(t) + 1 >= role->rounds) {
        return spawn_role(t, role->out);
    }
    rc = rc == QP_OK ? spawn_children(t, role) : rc;
    return rc == QP_OK && role->join > 0 ? spawn_join(t, role) : rc;
}

static void tally_print(char *out, size_t size, const struct tally *tally)
{
    (void)snprintf(out, size, "sum %lld enters %lld steps %lld spawns %lld", (long long)tally->sum,
                   (long long)tally->enters, (long long)tally->steps, (long long)tally->spawns);
}

static int cast_complete(struct turn *t, struct complete *complete)
{
    struct tally tally = {0};
    char text[128];
    int rc = shape_read(t, "sum", &tally.sum);
    rc = rc == QP_OK ? shape_read(t, "enters", &tally.enters) : rc;
    rc = rc == QP_OK ? shape_read(t, "steps", &tally.steps) : rc;
    rc = rc == QP_OK ? shape_read(t, "spawns", &tally.spawns) : rc;
    tally_print(text, sizeof text, &tally);
    return rc == QP_OK ? shape_print(t, &complete->output, "%s", text) : rc;
}

/* ------------------------------------------------------------------------------------------- the scene */

static struct cast_job *job_new(struct cast_world *w, const char *jid, int plan, int64_t input)
{
    struct cast_job *job = &w->jobs[w->job_count++];
    QP_ASSERT(w->job_count <= SIM_JOBS_MAX);
    *job = (struct cast_job){.plan = plan, .input = input};
    (void)snprintf(job->jid, sizeof job->jid, "%s", jid);
    return job;
}

/* A job of a plan that awaits another has that one, too. */
static void child_new(struct cast_world *w, struct cast_job *parent, struct sim_random *r)
{
    const struct plan *p = &w->plans[parent->plan];
    for (int i = 0; i < p->count; i++) {
        char jid[80];
        struct cast_job *child;
        if (p->roles[i].kind != CAST_AWAIT) {
            continue;
        }
        (void)snprintf(jid, sizeof jid, "%s.n%d", parent->jid, i);
        child = job_new(w, jid, PLANS_MAX, parent->input);
        child->child = true;
        child->may_stop = w->plans[PLANS_MAX].may_stop;
        parent->may_stop = parent->may_stop || child->may_stop;
        scene_reserve(w->sim, jid);
        plan_interpret(w, child, r);
    }
}

static void plans_draw(struct cast_world *w, struct sim_random *r)
{
    w->plan_count = 1 + (int)random_below(r, PLANS_MAX);
    for (int i = 0; i <= PLANS_MAX; i++) {
        struct plan *p = &w->plans[i];
        p->world = w;
        p->number = i;
        p->program = (struct program){.kind = KIND_FIRST + i,
                                      .name = "cast",
                                      .context = p,
                                      .describe = cast_describe,
                                      .enter = cast_enter,
                                      .work = cast_work,
                                      .spawn = cast_spawn,
                                      .complete = cast_complete};
        w->programs[i] = &p->program;
        plan_draw(p, r);
    }
}

static void job_play(struct cast_world *w, struct cast_job *job, struct sim_random *r)
{
    char input[32];
    qp_ms at = random_below(r, 300);
    (void)snprintf(input, sizeof input, "%lld", (long long)job->input);
    plan_interpret(w, job, r);
    scene_start(
        w->sim, at,
        &(struct scene_job){
            .jid = job->jid, .kind = KIND_FIRST + job->plan, .workflow = "cast", .input = input});
    if (random_chance(r, 8)) {
        scene_end_job(w->sim, at + random_below(r, 300), job->jid,
                      random_chance(r, 50) ? JOB_INTERRUPTED : JOB_CANCELLED);
        sim_cover("cast.end");
    }
    if (random_chance(r, 8)) {
        scene_pause(w->sim, at + random_below(r, 100), 1 + random_below(r, 200), job->jid);
        sim_cover("cast.pause");
    }
}

static void cast_create(void *world, struct sim *sim, struct sim_random *r)
{
    struct cast_world *w = world;
    int64_t count = 1 + random_below(r, JOBS_MAX);
    w->sim = sim;
    plans_draw(w, r);
    for (int64_t i = 0; i < count; i++) {
        char jid[32];
        struct cast_job *job;
        int plan = (int)random_below(r, w->plan_count);
        (void)snprintf(jid, sizeof jid, "j%lld", (long long)i);
        job = job_new(w, jid, plan, random_below(r, 100));
        job->may_stop = w->plans[plan].may_stop;
        child_new(w, job, r);
        job_play(w, &w->jobs[job - w->jobs], r);
    }
}

static const struct program *const *cast_programs(void *world, int node, const struct qp_env *env)
{
    struct cast_world *w = world;
    (void)node;
    (void)env;
    return w->programs;
}

static const struct cast_job *job_of(const struct cast_world *w, qp_str jid)
{
    for (int i = 0; i < w->job_count; i++) {
        if (str_equal(str_from(w->jobs[i].jid), jid)) {
            return &w->jobs[i];
        }
    }
    return NULL;
}

static void cast_execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    struct cast_world *w = world;
    const struct cast_job *job = job_of(w, task->jid);
    qp_str addr = task->addr;
    int64_t number = shape_number((qp_str){addr.p + 1, addr.n - 1});
    const struct role *role;
    char plain[128];
    (void)node;
    QP_ASSERT(job != NULL);
    role = &w->plans[job->plan].roles[number];
    *out = (struct scene_answer){.kind = RESULT_DONE, .pending = role->pending};
    if (role->fatal || task->failures < role->errors) {
        *out = (struct scene_answer){.kind = RESULT_ERROR, .code = 500, .fatal = role->fatal};
        (void)snprintf(out->output, sizeof out->output, "{\"code\":500}");
        sim_cover(role->fatal ? "cast.fatal" : "cast.error");
        return;
    }
    plan_address(plain, &w->plans[job->plan], (int)number, address_split(addr).dad);
    (void)snprintf(out->output, sizeof out->output, "%lld",
                   (long long)(shape_value(str_from(plain)) + shape_number(task->input)));
}

static bool job_is_right(struct cast_world *w, const struct cast_job *job, char *text)
{
    struct scene_end end;
    char expected[128];
    scene_outcome(w->sim, job->jid, &end);
    tally_print(expected, sizeof expected, &job->expected);
    if (end.ended && end.state == JOB_COMPLETED) {
        if (strcmp(end.output, expected) == 0 && end.tasks == job->expected.tasks) {
            return true;
        }
        (void)snprintf(text, SCENE_TEXT_SIZE, "%s: '%.150s' of %lld tasks instead of '%s' of %lld",
                       job->jid, end.output, (long long)end.tasks, expected,
                       (long long)job->expected.tasks);
        return false;
    }
    if (end.ended && (job->may_stop || scene_was_ended(w->sim, job->jid)) &&
        end.tasks <= job->expected.tasks) {
        sim_cover("cast.stopped");
        return true;
    }
    (void)snprintf(text, SCENE_TEXT_SIZE, "%s: ended %d as %d with '%.150s'", job->jid, end.ended,
                   (int)end.state, end.output);
    return false;
}

static bool cast_verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    struct cast_world *w = world;
    (void)sim;
    for (int i = 0; i < w->job_count; i++) {
        const struct cast_job *job = &w->jobs[i];
        struct scene_end end;
        scene_outcome(w->sim, job->jid, &end);
        if (job->child && !end.ended) {
            continue; /* whoever was to start it ended before */
        }
        if (!job_is_right(w, job, out_text)) {
            return false;
        }
    }
    return true;
}

static const char *const cast_topics[] = {"cast", NULL};

const struct scene scene_cast = {.name = "cast",
                                 .size = sizeof(struct cast_world),
                                 .create = cast_create,
                                 .programs = cast_programs,
                                 .topics = cast_topics,
                                 .execute = cast_execute,
                                 .verify = cast_verify};
