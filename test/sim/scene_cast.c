/* scene_cast.c - generated programs, and a naive interpreter that says what must come of them
 *
 * A PLAN is a program as a table of roles, drawn from the seed:
 *
 *   trigger +- block - block - ...        sequences side by side, which end on their own
 *           +- block - ...
 *
 *   block = one role (task, sleep, hook, either, pass, signal, signal-all, await, key)
 *         | fork: a pass, two or three sequences, their join
 *         | loop: a pivot, one or two sequences, the join that decides, the way back or the way out
 *
 * So trees, joins of branches of different length, cycles in cycles and joins in cycles come up. A job's
 * output is a sum over what its workers answered and counts of what its steps did: a step that is lost or done
 * twice shows. The interpreter knows nothing of messages, ledgers or time: it walks the table from the trigger
 * and adds up. A job that somebody ends, or whose task fails for good, has no such output: it must end as one of
 * the ways that are possible.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/scene.h"
#include "support/shapes.h"

#define ROLES_MAX 40
#define PLANS_MAX 3
#define JOBS_MAX 5
#define CHILDREN_MAX 4
#define SEGMENTS_MAX 24
#define WALK_MAX 400
#define KIND_FIRST 300
#define ALL_TOPIC "cast-all"
#define HOOK_TOPIC "cast-hook"

enum role_kind {
    CAST_TRIGGER,
    CAST_TASK,
    CAST_SLEEP,
    CAST_HOOK,   /* a signal that a client or another role sends, early or late */
    CAST_EITHER, /* a signal or a time, whatever comes first */
    CAST_PASS,
    CAST_SIGNAL,     /* to the hook of another role of its job */
    CAST_SIGNAL_ALL, /* to all that wait at a topic: nobody has to */
    CAST_AWAIT,      /* another job */
    CAST_KEY,        /* a task under a key */
    CAST_STOP,       /* ends the job itself, or another one */
    CAST_PIVOT,
    CAST_AGAIN, /* the join of a loop, which decides */
    CAST_CYCLE,
    CAST_JOIN,
    CAST_KINDS
};

static const char *const role_names[CAST_KINDS] = {
    "trigger", "task", "sleep", "hook",  "either", "pass",  "signal", "signal-all",
    "await",   "key",  "stop",  "pivot", "again",  "cycle", "join"};

struct role {
    enum role_kind kind;
    int children[CHILDREN_MAX];
    int child_count;
    int join; /* the role that it arrives at; 0: none */
    int up;   /* how many generations above it the join stands */
    int ways;
    int pivot; /* of again and cycle */
    int pivot_up;
    int out; /* of again: the way out */
    int rounds;
    int target; /* of a signal */
    bool in_loop;
    uint64_t planes; /* the segments of its address that are rounds of a pivot, a bit each */
    bool by_role;    /* a hook whose signal comes from a role */
    int64_t errors;
    int64_t pending;
    bool fatal;
    qp_ms ms;
    int64_t key;
};

struct plan {
    struct cast_world *world;
    int number;
    struct program program;
    struct role roles[ROLES_MAX];
    int count;
    bool may_stop; /* a role ends it, or a task fails */
    bool has_await;
};

/* What the interpreter finds. */
struct tally {
    int64_t sum;
    int64_t enters;
    int64_t steps;
    int64_t spawns;
    int64_t tasks;
};

struct cast_job {
    char jid[64];
    int plan;
    int64_t input;
    bool child; /* started by another job */
    bool may_stop;
    struct tally expected;
};

struct cast_world {
    struct sim *sim;
    struct plan plans[PLANS_MAX + 1]; /* the last one is that of children */
    const struct program *programs[PLANS_MAX + 2];
    int plan_count;
    struct cast_job jobs[SIM_JOBS_MAX];
    int job_count;
};

/* -------------------------------------------------------------------------------------- addresses */

/* Of the interpreter: segments as numbers. */
struct path {
    int64_t segments[SEGMENTS_MAX];
    int count;
};

static struct path below(struct path p)
{
    if (p.count >= SEGMENTS_MAX) {
        abort();
    }
    p.segments[p.count++] = 0;
    return p;
}

static struct path above(struct path p, int up)
{
    p.count -= up;
    if (up > 0) {
        p.segments[p.count - 1] = 0;
    }
    return p;
}

static void path_print(char *out, size_t size, int role, const struct path *p)
{
    int n = role == 0 ? snprintf(out, size, "trigger") : snprintf(out, size, "n%d", role);
    for (int i = 0; i < p->count; i++) {
        n += snprintf(out + n, size - (size_t)n, ",%lld", (long long)p->segments[i]);
    }
}

/* ------------------------------------------------------------------------------------- drawing plans */

static int role_new(struct plan *p, enum role_kind kind, bool in_loop)
{
    if (p->count >= ROLES_MAX) {
        return 0;
    }
    p->roles[p->count] = (struct role){.kind = kind, .in_loop = in_loop};
    return p->count++;
}

static void link_child(struct plan *p, int parent, int child)
{
    struct role *r = &p->roles[parent];
    r->children[r->child_count++] = child;
}

/* The first role of something and the last one, and how many generations lie between. */
struct span {
    int first;
    int last;
    int depth;
};

static struct span draw_sequence(struct plan *p, struct sim_random *r, int blocks, int nesting,
                                 bool in_loop);

static enum role_kind draw_kind(const struct plan *p, struct sim_random *r, bool in_loop)
{
    static const enum role_kind kinds[] = {
        CAST_TASK, CAST_TASK,   CAST_TASK, CAST_SLEEP,      CAST_HOOK,  CAST_HOOK, CAST_EITHER,
        CAST_PASS, CAST_SIGNAL, CAST_KEY,  CAST_SIGNAL_ALL, CAST_AWAIT, CAST_STOP};
    enum role_kind kind = kinds[random_below(r, ARRAY_COUNT(kinds))];
    bool child_plan = p->number == PLANS_MAX;
    if (kind == CAST_STOP && !random_chance(r, 15)) {
        kind = CAST_TASK;
    }
    if ((kind == CAST_AWAIT && (child_plan || in_loop || p->has_await)) ||
        (kind == CAST_SIGNAL && in_loop)) {
        kind = CAST_PASS;
    }
    return kind;
}

static void fill_role(struct plan *p, struct sim_random *r, int number)
{
    struct role *role = &p->roles[number];
    role->ms = 1 + random_below(r, random_chance(r, 80) ? 50 : 3000);
    role->key = random_below(r, 3);
    if (role->kind == CAST_TASK) {
        role->errors = random_chance(r, 20) ? 1 + random_below(r, 2) : 0;
        role->pending = random_chance(r, 10) ? 1 + random_below(r, 2) : 0;
        role->fatal = random_chance(r, 2);
    }
    if (role->kind == CAST_STOP || role->fatal) {
        p->may_stop = true;
    }
    p->has_await = p->has_await || role->kind == CAST_AWAIT;
}

static struct span draw_one(struct plan *p, struct sim_random *r, bool in_loop)
{
    int role = role_new(p, draw_kind(p, r, in_loop), in_loop);
    fill_role(p, r, role);
    return (struct span){role, role, 0};
}

/* A signal that this plan sends itself: the hook is below it, so it may come early or late. */
static struct span draw_pair(struct plan *p, struct sim_random *r)
{
    int sender = role_new(p, CAST_SIGNAL, false);
    int hook = role_new(p, CAST_HOOK, false);
    (void)r;
    p->roles[sender].target = hook;
    p->roles[hook].by_role = true;
    link_child(p, sender, hook);
    return (struct span){sender, hook, 1};
}

/* `count` sequences side by side, children of `parent`, that arrive at `join`, which is a child of the same
 * generation. */
static void draw_ways(struct plan *p, struct sim_random *r, int parent, int join, int count,
                      int nesting, bool in_loop)
{
    p->roles[join].ways = count;
    for (int i = 0; i < count; i++) {
        struct span way = draw_sequence(p, r, 1 + (int)random_below(r, 2), nesting - 1, in_loop);
        struct role *last = &p->roles[way.last];
        link_child(p, parent, way.first);
        last->join = join;
        last->up = way.depth;
    }
}

static struct span draw_fork(struct plan *p, struct sim_random *r, int nesting, bool in_loop)
{
    int first = role_new(p, CAST_PASS, in_loop);
    int join = role_new(p, CAST_JOIN, in_loop);
    draw_ways(p, r, first, join, 1 + (int)random_below(r, 3), nesting, in_loop);
    return (struct span){first, join, 1};
}

static struct span draw_loop(struct plan *p, struct sim_random *r, int nesting)
{
    int pivot = role_new(p, CAST_PIVOT, true);
    int again = role_new(p, CAST_AGAIN, true);
    int back = role_new(p, CAST_CYCLE, true);
    int out = role_new(p, CAST_PASS, true);
    draw_ways(p, r, pivot, again, 1 + (int)random_below(r, 2), nesting, true);
    p->roles[again].rounds = 1 + (int)random_below(r, 3);
    p->roles[again].pivot = pivot;
    p->roles[again].out = out;
    p->roles[back].pivot = pivot;
    p->roles[back].pivot_up = 2;
    link_child(p, again, back);
    return (struct span){pivot, out, 2};
}

static struct span draw_block(struct plan *p, struct sim_random *r, int nesting, bool in_loop)
{
    bool room = p->count + 12 < ROLES_MAX;
    int64_t what = random_below(r, 10);
    if (nesting > 0 && room && what < 2) {
        return draw_fork(p, r, nesting, in_loop);
    }
    if (nesting > 0 && room && what < 4) {
        return draw_loop(p, r, nesting);
    }
    if (room && what == 4 && !in_loop) {
        return draw_pair(p, r);
    }
    return draw_one(p, r, in_loop);
}

/* In a loop everything behind the pivot is in it, so a sequence after a loop is, too. */
static struct span draw_sequence(struct plan *p, struct sim_random *r, int blocks, int nesting,
                                 bool in_loop)
{
    struct span all = draw_block(p, r, nesting, in_loop);
    for (int i = 1; i < blocks; i++) {
        struct span next;
        if (p->count + 6 >= ROLES_MAX || p->roles[all.last].kind == CAST_STOP) {
            break;
        }
        next = draw_block(p, r, nesting, in_loop || p->roles[all.last].in_loop);
        link_child(p, all.last, next.first);
        all.depth += 1 + next.depth;
        all.last = next.last;
    }
    return all;
}

/* Which generations above each role are pivots: the others' planes depend on how many answers came before
 * (a key that was waited for, a pending reply), so nothing that is compared may. */
static void mark_planes(struct plan *p, int number, int depth, uint64_t planes)
{
    struct role *role = &p->roles[number];
    uint64_t below = planes | (role->kind == CAST_PIVOT ? UINT64_C(1) << depth : 0);
    role->planes = planes;
    for (int i = 0; i < role->child_count; i++) {
        mark_planes(p, role->children[i], depth + 1, below);
    }
    if (role->kind == CAST_AGAIN) {
        mark_planes(p, role->out, depth + 1, below);
    }
    if (role->join > 0) {
        int there = depth - role->up;
        mark_planes(p, role->join, there, planes & ((UINT64_C(1) << there) - 1));
    }
}

/* The round of a plane. */
static int64_t young(int64_t plane)
{
    return plane > SCENE_AGE ? plane - SCENE_AGE : plane;
}

/* The address with 0 for every plane that is no round. */
static void plain_address(char out[128], const struct plan *p, int number, qp_str dad)
{
    int n = snprintf(out, 128, "n%d", number);
    int segment = 0;
    for (size_t from = 0, to; from < dad.n && n < 100; from = to) {
        bool is_round = (p->roles[number].planes >> ++segment & 1) != 0;
        to = from + 1;
        while (to < dad.n && dad.p[to] != ',') {
            to++;
        }
        n += snprintf(
            out + n, 128 - (size_t)n, ",%lld",
            is_round ? (long long)young(shape_number((qp_str){dad.p + from + 1, to - from - 1}))
                     : 0LL);
    }
}

static void draw_plan(struct plan *p, struct sim_random *r)
{
    int ways = 1 + (int)random_below(r, 3);
    int nesting = p->number == PLANS_MAX ? 1 : 2;
    (void)role_new(p, CAST_TRIGGER, false);
    for (int i = 0; i < ways; i++) {
        if (p->count + 8 < ROLES_MAX) {
            link_child(p, 0,
                       draw_sequence(p, r, 1 + (int)random_below(r, 3), nesting, false).first);
        }
    }
    mark_planes(p, 0, 1, 0);
}

/* -------------------------------------------------------------------------------------- the interpreter */

struct walk {
    struct cast_world *world;
    const struct cast_job *job;
    const struct plan *plan;
    struct tally tally;
    struct {
        char addr[128];
        int count;
    } joins[WALK_MAX];
    int join_count;
    int visits;
    bool plans_signals; /* the first time: clients' signals are planned */
    struct sim_random *random;
};

static void walk_role(struct walk *w, int number, struct path at);

static void walk_children(struct walk *w, const struct role *role, struct path plane)
{
    for (int i = 0; i < role->child_count; i++) {
        walk_role(w, role->children[i], below(plane));
    }
}

/* One more has arrived: true when it was the last one. */
static bool walk_arrive(struct walk *w, const struct role *join, const char *addr)
{
    int i = 0;
    while (i < w->join_count && strcmp(w->joins[i].addr, addr) != 0) {
        i++;
    }
    if (i == w->join_count) {
        if (i >= WALK_MAX) {
            abort();
        }
        (void)snprintf(w->joins[i].addr, sizeof w->joins[i].addr, "%s", addr);
        w->join_count++;
    }
    return ++w->joins[i].count == join->ways;
}

static void walk_join(struct walk *w, const struct role *role, struct path at)
{
    const struct role *join = &w->plan->roles[role->join];
    struct path there = above(at, role->up);
    char addr[128];
    if (role->join == 0) {
        return;
    }
    path_print(addr, sizeof addr, role->join, &there);
    if (walk_arrive(w, join, addr)) {
        walk_role(w, role->join, there);
    }
}

static void walk_pivot(struct walk *w, int number, struct path at, int64_t round)
{
    const struct role *role = &w->plan->roles[number];
    w->tally.steps++;
    w->tally.spawns++;
    at.segments[at.count - 1] = round;
    walk_children(w, role, at);
}

static void walk_again(struct walk *w, const struct role *role, struct path at)
{
    int64_t round = at.segments[at.count - 2];
    if (round + 1 < role->rounds) {
        walk_children(w, role, at);
    } else {
        walk_role(w, role->out, below(at));
    }
}

static void walk_wait(struct walk *w, const struct role *role, const char *addr)
{
    char key[192];
    if (!w->plans_signals || role->by_role) {
        return;
    }
    (void)snprintf(key, sizeof key, "%s/%s", w->job->jid, addr);
    if (role->kind == CAST_HOOK || random_chance(w->random, 50)) {
        scene_signal(w->world->sim, random_below(w->random, 400), HOOK_TOPIC, key, "7");
    }
}

static void walk_role(struct walk *w, int number, struct path at)
{
    const struct role *role = &w->plan->roles[number];
    char addr[128];
    char name[64];
    if (++w->visits > WALK_MAX) {
        abort();
    }
    path_print(addr, sizeof addr, number, &at);
    (void)snprintf(name, sizeof name, "cast.%s", role_names[role->kind]);
    if (w->plans_signals) {
        sim_cover(name);
    }
    switch (role->kind) {
    case CAST_PIVOT:
        walk_pivot(w, number, at, 0);
        return;
    case CAST_CYCLE:
        w->tally.enters++;
        {
            struct path pivot = above(at, role->pivot_up);
            walk_pivot(w, role->pivot, pivot, at.segments[pivot.count - 1] + 1);
        }
        return;
    case CAST_TRIGGER:
        w->tally.spawns++;
        walk_children(w, role, at);
        return;
    case CAST_TASK:
    case CAST_KEY:
        w->tally.sum += shape_value(str_from(addr)) + w->job->input;
        w->tally.tasks++;
        break;
    case CAST_HOOK:
    case CAST_EITHER:
        walk_wait(w, role, addr);
        break;
    default:
        break;
    }
    w->tally.steps += role->kind != CAST_EITHER;
    w->tally.spawns++;
    w->tally.enters += role->kind != CAST_PASS && role->kind != CAST_SIGNAL &&
                       role->kind != CAST_SIGNAL_ALL && role->kind != CAST_STOP;
    if (role->kind == CAST_AGAIN) {
        walk_again(w, role, at);
        return;
    }
    walk_children(w, role, at);
    walk_join(w, role, at);
}

static void interpret(struct cast_world *world, struct cast_job *job, struct sim_random *random)
{
    static struct walk w;
    w = (struct walk){.world = world,
                      .job = job,
                      .plan = &world->plans[job->plan],
                      .plans_signals = true,
                      .random = random};
    walk_role(&w, 0, (struct path){.segments = {0}, .count = 1});
    job->expected = w.tally;
}

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
    return rc == QP_OK ? turn_start(&child, t->kernel, t->bundle, t->outcome, &start) : rc;
}

static int cast_hook(struct turn *t)
{
    const struct plan *p = t->program->context;
    char addr[128];
    qp_str key;
    int rc;
    plain_address(addr, p, (int)(role_of(t) - p->roles), t->at.dad);
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
    plain_address(addr, t->program->context, role->target, dad);
    rc = shape_print(t, &key, "%.*s/%s", STR_ARG(t->job->jid), addr);
    return rc == QP_OK ? turn_signal(t, QP_STR(HOOK_TOPIC), key, QP_STR("7"), 3600000) : rc;
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
        rc = turn_signal_all(t, QP_STR(ALL_TOPIC), QP_STR("7"));
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
    return rc == QP_OK ? turn_join(t, addr, p->roles[role->join].ways, t->act->input) : rc;
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
    return young(shape_number((qp_str){dad.p + from, end - from}));
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
        interpret(w, child, r);
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
        draw_plan(p, r);
    }
}

static void job_play(struct cast_world *w, struct cast_job *job, struct sim_random *r)
{
    char input[32];
    qp_ms at = random_below(r, 300);
    (void)snprintf(input, sizeof input, "%lld", (long long)job->input);
    interpret(w, job, r);
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

static const struct program *const *cast_programs(void *world)
{
    struct cast_world *w = world;
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

static void cast_execute(void *world, const struct task *task, struct scene_answer *out)
{
    struct cast_world *w = world;
    const struct cast_job *job = job_of(w, task->jid);
    qp_str addr = task->addr;
    int64_t number = shape_number((qp_str){addr.p + 1, addr.n - 1});
    const struct role *role;
    char plain[128];
    QP_ASSERT(job != NULL);
    role = &w->plans[job->plan].roles[number];
    *out = (struct scene_answer){.kind = RESULT_DONE, .pending = role->pending};
    if (role->fatal || task->failures < role->errors) {
        *out = (struct scene_answer){.kind = RESULT_ERROR, .code = 500, .fatal = role->fatal};
        (void)snprintf(out->output, sizeof out->output, "{\"code\":500}");
        sim_cover(role->fatal ? "cast.fatal" : "cast.error");
        return;
    }
    plain_address(plain, &w->plans[job->plan], (int)number, address_split(addr).dad);
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
