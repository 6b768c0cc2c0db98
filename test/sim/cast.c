/* cast.c - plans from a seed, and the interpreter that says what must come of them (see cast.h)
 *
 * The interpreter knows nothing of messages, ledgers or time: it walks the table from the trigger and adds up.
 */
#include "sim/cast.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const role_names[CAST_KINDS] = {
    "trigger", "task", "sleep", "hook",  "either", "pass",  "signal", "signal-all",
    "await",   "key",  "stop",  "pivot", "again",  "cycle", "join"};

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
    if (role->kind == CAST_EITHER) {
        role->fatal = role->ms % 3 == 0;
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

int64_t plan_round(int64_t plane)
{
    return plane > SCENE_AGE ? plane - SCENE_AGE : plane;
}

void plan_address(char out[128], const struct plan *p, int number, qp_str dad)
{
    int n = snprintf(out, 128, "n%d", number);
    int segment = 0;
    for (size_t from = 0, to; from < dad.n && n < 100; from = to) {
        bool is_round = (p->roles[number].planes >> ++segment & 1) != 0;
        to = from + 1;
        while (to < dad.n && dad.p[to] != ',') {
            to++;
        }
        n += snprintf(out + n, 128 - (size_t)n, ",%lld",
                      is_round ? (long long)plan_round(
                                     shape_number((qp_str){dad.p + from + 1, to - from - 1}))
                               : 0LL);
    }
}

void plan_draw(struct plan *p, struct sim_random *r)
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
        scene_signal(w->world->sim, random_below(w->random, 400), HOOK_TOPIC, key, "7", 200);
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

void plan_interpret(struct cast_world *world, struct cast_job *job, struct sim_random *random)
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
