/* plot.c - generated graphs: what is drawn, and what will come of it (see plot.h) */
#include "sim/plot.h"

#include <stdio.h>

#include "sim/sim.h"

#define DEPTH_MAX 4

const char *const plot_kind_names[PLOT_KINDS] = {
#define PLOT_TEXT(name) #name,
    PLOT_LIST(PLOT_TEXT)
#undef PLOT_TEXT
};

/* -------------------------------------------------------------------------------------------- drawing */

struct drawing {
    struct plot *plot;
    enum plot_role role;
    struct sim_random *random;
    int *acts;
    int budget; /* parts */
    int cycles; /* around here */
    int pivot;
    bool races; /* in a branch that others do not wait for: rounds may overlap */
};

static int draw_list(struct drawing *d, int depth, bool is_branch);

static int acts_of(enum plot_kind kind)
{
    switch (kind) {
    case PLOT_pending:
        return 5;
    case PLOT_errors:
    case PLOT_skip:
    case PLOT_cycle:
        return 4;
    case PLOT_keep:
        return 3;
    case PLOT_fed:
    case PLOT_stop:
        return 2;
    default:
        return 1;
    }
}

/* A key is waited at by one activity at a time, and a child's id is its plane's; what does not fit here becomes
 * something that does. */
static bool fits(const struct drawing *d, enum plot_kind kind, int depth, bool begins)
{
    switch (kind) {
    case PLOT_keep: /* its signals of 202 would meet any round */
        return d->role == PLOT_MAIN && !d->races && d->cycles == 0;
    case PLOT_web:
    case PLOT_both:
    case PLOT_listen:
        return d->role == PLOT_MAIN && !d->races;
    case PLOT_fed:
        return d->role == PLOT_MAIN && !d->races && !begins;
    case PLOT_skip:
    case PLOT_stop:
    case PLOT_pending:
        return !begins;
    case PLOT_again:
    case PLOT_call:
    case PLOT_detach:
    case PLOT_early:
        return d->role == PLOT_MAIN && d->cycles < 2;
    case PLOT_tell:
    case PLOT_end:
        return d->role == PLOT_MAIN;
    case PLOT_all:
    case PLOT_any:
    case PLOT_cycle:
        return depth < DEPTH_MAX && d->budget > 1 && (!begins || kind == PLOT_cycle);
    default:
        return true;
    }
}

/* Those that end the job are rare, or little else would be seen. */
static enum plot_kind draw_kind(struct drawing *d, int depth, bool begins)
{
    enum plot_kind kind = (enum plot_kind)random_below(d->random, PLOT_KINDS);
    if (random_chance(d->random, 25)) {
        static const enum plot_kind often[] = {PLOT_all, PLOT_cycle, PLOT_any, PLOT_work};
        kind = often[random_below(d->random, ARRAY_COUNT(often))];
    }
    if (d->cycles > 0 && random_chance(d->random, 20)) {
        kind = PLOT_cycle;
    }
    if ((kind == PLOT_fail || kind == PLOT_stop) &&
        random_chance(d->random, d->role == PLOT_MAIN ? 50 : 10)) {
        kind = PLOT_work;
    }
    return fits(d, kind, depth, begins) ? kind : PLOT_pass;
}

static void draw_branches(struct drawing *d, struct plot_part *part, int depth)
{
    bool races = d->races;
    d->races = d->races || part->kind == PLOT_any;
    part->branch_count = 2 + (int)random_below(d->random, PLOT_BRANCHES_MAX - 1);
    for (int i = 0; i < part->branch_count; i++) {
        part->when[i] = random_chance(d->random, 50)
                            ? WHEN_ALWAYS
                            : (enum plot_when)(1 + random_below(d->random, 2));
        part->branches[i] = draw_list(d, depth + 1, true);
    }
    d->races = races;
}

static void draw_cycle(struct drawing *d, struct plot_part *part, int depth)
{
    int pivot = d->pivot;
    part->n = d->cycles == 0 ? 2 + random_below(d->random, 3) : 2;
    d->cycles++;
    d->pivot = part->act;
    part->branch_count = 1;
    part->branches[0] = draw_list(d, depth + 1, false);
    d->cycles--;
    d->pivot = pivot;
}

static int draw_part(struct drawing *d, int depth, bool begins)
{
    int number = d->plot->part_count++;
    struct plot_part *part = &d->plot->parts[number];
    QP_ASSERT(number < PLOT_PARTS_MAX);
    d->budget--;
    *part = (struct plot_part){.kind = draw_kind(d, depth, begins),
                               .next = -1,
                               .act = *d->acts,
                               .pivot = d->pivot,
                               .c = 1 + random_below(d->random, 9),
                               .n = 1 + random_below(d->random, 3),
                               .joined = random_chance(d->random, 50)};
    *d->acts += acts_of(part->kind);
    QP_ASSERT(*d->acts < PLOT_ACTS_MAX);
    d->plot->ends_other = d->plot->ends_other || part->kind == PLOT_end;
    if (part->kind == PLOT_all || part->kind == PLOT_any) {
        draw_branches(d, part, depth);
    } else if (part->kind == PLOT_cycle) {
        draw_cycle(d, part, depth);
    }
    return number;
}

/* A branch begins with what has one way in, since that is under a condition. */
static int draw_list(struct drawing *d, int depth, bool is_branch)
{
    int first = draw_part(d, depth, is_branch);
    int last = first;
    while (d->budget > 0 && random_chance(d->random, depth == 0 ? 75 : 45)) {
        int next = draw_part(d, depth, false);
        d->plot->parts[last].next = next;
        last = next;
    }
    return first;
}

void plot_draw(struct plot *p, enum plot_role role, int *acts, struct sim_random *random)
{
    int begin = *acts;
    struct plot_end end;
    do {
        struct drawing d = {.plot = p,
                            .role = role,
                            .random = random,
                            .acts = acts,
                            .pivot = -1,
                            .budget = role == PLOT_MAIN ? 4 + (int)random_below(random, 6) : 3};
        *acts = begin;
        p->part_count = 0;
        p->ends_other = false;
        p->trigger = (*acts)++;
        p->last = (*acts)++;
        p->first = draw_list(&d, 0, false);
        plot_interpret(p, 0, false, &end);
    } while (end.run_count > PLOT_RUNS_MAX || end.calls > 6);
}

/* -------------------------------------------------------------------------------------- interpreting */

struct walk {
    const struct plot *plot;
    struct plot_end *end;
    bool cover;
    int cycles;
};

static bool walk_list(struct walk *w, int part, int64_t x, int64_t *out_x);

static void met(const struct walk *w, const char *what)
{
    char name[64];
    if (w->cover) {
        (void)snprintf(name, sizeof name, "graph.%s", what);
        sim_cover(name);
    }
}

/* An activity runs, and adds something between these to its sum. */
static void run_between(struct walk *w, int act, int64_t least, int64_t most)
{
    w->end->least[act] += least;
    w->end->most[act] += most;
    w->end->runs[act]++;
    w->end->run_count++;
}

static int64_t run(struct walk *w, int act, int64_t x)
{
    run_between(w, act, x, x);
    return x;
}

static int64_t work(struct walk *w, int act, int64_t x)
{
    w->end->tasks++;
    return run(w, act, x);
}

static bool is_taken(enum plot_when when, int64_t x)
{
    return when == WHEN_ALWAYS || (when == WHEN_EVEN) == (x % 2 == 0);
}

static int64_t walk_errors(struct walk *w, const struct plot_part *part, int64_t x)
{
    bool fails = x % 2 == 0;
    w->end->tasks++;
    met(w, fails ? "branch of an error" : "branch of no error");
    if (fails) { /* its own output is the error's: it has no x */
        w->end->run_count++;
        x = run(w, part->act + 1, x + part->c);
    } else {
        x = run(w, part->act, x + part->c);
        x = run(w, part->act + 2, x + 1);
    }
    return run(w, part->act + 3, x + 1);
}

static int64_t walk_pending(struct walk *w, const struct plot_part *part, int64_t from)
{
    int64_t x = from + part->c;
    w->end->tasks++;
    for (int64_t i = 0; i < part->n; i++) {
        (void)run(w, part->act, x);
        (void)run(w, part->act + 1, x + 1);
    }
    (void)run(w, part->act, x);
    x = run(w, part->act + 2, x + 1);
    met(w, part->joined ? "pending.joined" : "pending.open");
    if (part->joined) { /* with one that comes from before the worker: once for all replies */
        (void)run(w, part->act + 3, from + 1);
        x = run(w, part->act + 4, x + 1);
    }
    return x;
}

/* As many of the signals of code 202 as come before the last one. */
static int64_t walk_keep(struct walk *w, const struct plot_part *part, int64_t x)
{
    x += part->c + 3;
    run_between(w, part->act, x, x * (part->n + 1));
    w->end->most[part->act + 1] += (x + 1) * part->n;
    return run(w, part->act + 2, x + 1);
}

static bool walk_branches(struct walk *w, const struct plot_part *part, int64_t x, int64_t *out_x)
{
    int64_t sum = 0;
    int came = 0;
    for (int i = 0; i < part->branch_count; i++) {
        int64_t y = 0;
        if (!is_taken(part->when[i], x)) {
            met(w, "way not taken");
        } else if (walk_list(w, part->branches[i], x, &y)) {
            came++;
            sum += y;
        }
    }
    met(w, came == 0 ? "gate.dead" : came == part->branch_count ? "gate.whole" : "gate.part");
    if (came > 0) {
        *out_x = run(w, part->act, (part->kind == PLOT_all ? sum : x) + part->c);
    }
    return came > 0;
}

static bool walk_cycle(struct walk *w, const struct plot_part *part, int64_t x, int64_t *out_x)
{
    static const char *const depths[] = {"", "cycle.1", "cycle.2", "cycle.3", "cycle.4"};
    bool goes_on = true;
    x += part->c;
    w->cycles++;
    met(w, depths[w->cycles]);
    for (int64_t i = 1; i <= part->n && goes_on; i++) {
        (void)run(w, part->act, x);
        goes_on = walk_list(w, part->branches[0], x, &x);
        if (goes_on) {
            x = run(w, part->act + 1, x + 1);
            w->end->run_count++;
        }
    }
    w->cycles--;
    if (goes_on) {
        *out_x = run(w, part->act + 3, x + 1);
    } else {
        met(w, "cycle that ends inside");
    }
    return goes_on;
}

static bool walk_call(struct walk *w, const struct plot_part *part, int64_t x, int64_t *out_x)
{
    struct plot_end child;
    w->end->calls++;
    plot_interpret(w->plot->child, x, false, &child);
    if (part->kind == PLOT_detach) {
        *out_x = run(w, part->act, x + part->c);
        return true;
    }
    if (child.stops) {
        w->end->stops = true;
        met(w, "child that fails");
        return false;
    }
    *out_x = run(w, part->act, (child.has_result ? child.result : 0) + part->c);
    return true;
}

static bool walk_part(struct walk *w, const struct plot_part *part, int64_t x, int64_t *out_x)
{
    int64_t y = x + part->c;
    met(w, plot_kind_names[part->kind]);
    switch (part->kind) {
    case PLOT_fail:
        w->end->tasks++;
        w->end->stops = true;
        return false;
    case PLOT_stop:
        w->end->stops = true;
        *out_x = run(w, part->act + 1, y);
        return true;
    case PLOT_all:
    case PLOT_any:
        return walk_branches(w, part, x, out_x);
    case PLOT_cycle:
        return walk_cycle(w, part, x, out_x);
    case PLOT_call:
    case PLOT_detach:
        return walk_call(w, part, x, out_x);
    case PLOT_work:
    case PLOT_flaky:
        *out_x = work(w, part->act, y);
        return true;
    case PLOT_errors:
        *out_x = walk_errors(w, part, x);
        return true;
    case PLOT_pending:
        *out_x = walk_pending(w, part, x);
        return true;
    case PLOT_keep:
        *out_x = walk_keep(w, part, x);
        return true;
    case PLOT_web:
        *out_x = run(w, part->act, y + 3);
        return true;
    case PLOT_fed:
        (void)run(w, part->act, y);
        *out_x = run(w, part->act + 1, y + 3);
        return true;
    case PLOT_both:
    case PLOT_listen:
        run_between(w, part->act, y, y + 3);
        *out_x = y;
        return true;
    case PLOT_again:
    case PLOT_early:
        w->end->calls += part->kind == PLOT_again ? part->n + 1 : 1;
        *out_x = run(w, part->act, y + 1);
        return true;
    case PLOT_skip:
        x = run(w, part->act + 2, y);
        *out_x = run(w, part->act + 3, x + 1);
        return true;
    default:
        *out_x = run(w, part->act, y);
        return true;
    }
}

static bool walk_list(struct walk *w, int part, int64_t x, int64_t *out_x)
{
    bool goes_on = true;
    for (; part >= 0 && goes_on; part = w->plot->parts[part].next) {
        goes_on = walk_part(w, &w->plot->parts[part], x, &x);
    }
    *out_x = x;
    return goes_on;
}

void plot_interpret(const struct plot *p, int64_t x, bool cover, struct plot_end *out_end)
{
    struct walk w = {.plot = p, .end = out_end, .cover = cover};
    *out_end = (struct plot_end){0};
    (void)run(&w, p->trigger, x);
    out_end->has_result = walk_list(&w, p->first, x, &x);
    if (out_end->has_result) {
        out_end->result = run(&w, p->last, x);
    }
}
