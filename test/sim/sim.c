/* sim.c - from a seed to a world, and who runs next (see sim.h)
 *
 *   set up -> faults strike, until all that was asked for is done or the time for it is over
 *          -> healed: no more faults; until nothing is under way
 *          -> nodes leave -> checks
 */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>

#define FAULTS_US 20000000 /* then they stop */
#define FAULTS_CALLS 60000 /* or after so many calls: a lease of 1 ms is no life */
#define REST_US 600000000  /* and this is how long it may take to come to rest */
#define CALLS_MAX 300000   /* of all nodes: more is no progress */
#define RETENTION_MS 10000
#define LOOK_US 20000
#define FOLLOW_PERCENT 3

void sim_bug(const char *what)
{
    (void)fprintf(stderr, "sim: %s\n", what);
    abort();
}

void sim_violate(struct sim *s, const char *check, const char *format, ...)
{
    struct sim_result *r = s->result;
    va_list arguments;
    if (!r->ok) {
        return;
    }
    r->ok = false;
    (void)snprintf(r->check, sizeof r->check, "%s", check);
    va_start(arguments, format);
    (void)vsnprintf(r->text, sizeof r->text, format, arguments);
    va_end(arguments);
    sim_trace(s, "VIOLATION by %s: %s", r->check, r->text);
    watch_print(s);
}

void sim_trace(struct sim *s, const char *format, ...)
{
    va_list arguments;
    if (!s->options.print) {
        return;
    }
    (void)fprintf(stderr, "%10lld us  ", (long long)s->now_us);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}

/* ------------------------------------------------------------------------------------------- coverage */

#define COVER_MAX 256

static struct {
    char name[64];
    int64_t count;
} covers[COVER_MAX];
static int cover_count;

static int cover_find(const char *name)
{
    for (int i = 0; i < cover_count; i++) {
        if (strcmp(covers[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

void sim_cover(const char *name)
{
    int i = cover_find(name);
    if (i < 0) {
        if (cover_count >= COVER_MAX) {
            sim_bug("too many coverage counters");
        }
        i = cover_count++;
        (void)snprintf(covers[i].name, sizeof covers[i].name, "%s", name);
    }
    covers[i].count++;
}

int64_t sim_covered(const char *name)
{
    int i = cover_find(name);
    return i < 0 ? 0 : covers[i].count;
}

static int cover_compare(const void *a, const void *b)
{
    return strcmp(a, b); /* the name comes first */
}

bool sim_print_cover(const char *const *needed, int64_t least)
{
    bool ok = true;
    qsort(covers, (size_t)cover_count, sizeof covers[0], cover_compare);
    for (int i = 0; i < cover_count; i++) {
        printf("%-24s %9lld%s", covers[i].name, (long long)covers[i].count,
               i % 4 == 3 || i == cover_count - 1 ? "\n" : "  ");
    }
    for (; *needed != NULL; needed++) {
        if (sim_covered(*needed) < least) {
            printf("not covered: %s, %lld times of %lld\n", *needed,
                   (long long)sim_covered(*needed), (long long)least);
            ok = false;
        }
    }
    return ok;
}

/* ---------------------------------------------------------------------------------------------- sizes */

static qp_ms draw_lease(struct sim_random *r)
{
    static const qp_ms leases[] = {20, 100, 500, 2000};
    if (random_chance(r, 4)) {
        sim_cover("rare.lease");
        return 1;
    }
    return leases[random_below(r, ARRAY_COUNT(leases))];
}

static void draw_sizes(struct sim *s, struct sim_random *r)
{
    s->model = (enum sim_model)random_below(r, MODEL_COUNT);
    if (s->options.model >= 0) {
        s->model = (enum sim_model)s->options.model;
    }
    s->node_count = s->model == MODEL_ALONE ? 1 : 1 + (int)random_below(r, SIM_NODES_MAX);
    s->lease_ms = draw_lease(r);
    s->lease_ms = s->model == MODEL_ALONE ? 0 : s->lease_ms;
    s->task_lease_ms = random_chance(r, 30) ? 1 + random_below(r, 200) : 0;
    /* A minute of short leases is many renewals. */
    s->keep_ms = random_chance(r, 40) && (s->lease_ms == 0 || s->lease_ms >= 500) ? 60000 : 0;
    s->room = random_chance(r, 20) ? 1 : 8;
    s->stepwise = random_chance(r, 35);
    s->has_writer = random_chance(r, 70) && s->model == MODEL_ALONE;
    s->ceilings =
        random_chance(r, 10) ? (struct ceilings){3, LIMIT_LEG2_ENTRIES} : CEILINGS_DEFAULT;
    s->max_deliveries = random_chance(r, 20) ? 0 : 40;
    s->batch = random_chance(r, 20) ? 1 : 0;
    s->aged = random_chance(r, 10) && s->model != MODEL_ALONE; /* where no cache knows better */
    s->switch_percent = 5 + (int)random_below(r, 80);
    s->sliced = random_chance(r, 20);
    if (s->ceilings.leg1 == 3) {
        sim_cover("rare.ceiling");
    }
    if (s->batch == 1) {
        sim_cover("rare.batch");
    }
    if (s->sliced) {
        sim_cover("sliced");
    }
}

/* ----------------------------------------------------------------------------------------- the world */

/* What a limit key may have, at every topic; before anybody works. */
static void set_limits(struct sim *s)
{
    struct store *store;
    struct qp_err err = {0};
    if (s->limit_max == 0) {
        return;
    }
    if (store_open(&s->outside.env, &(struct store_options){.memory = s->memory}, &store, &err) !=
        QP_OK) {
        sim_bug(err.text);
    }
    for (size_t i = 0; s->scene->topics[i] != NULL; i++) {
        struct commit c;
        struct op *op;
        commit_init(&c, store);
        op = bundle_op(commit_bundle(&c, "limit"), OP_lane_limit);
        QP_ASSERT(op != NULL);
        op->lane_limit = (struct op_lane_limit){.ns = STORE_NS_DEFAULT,
                                                .topic = str_from(s->scene->topics[i]),
                                                .limit_key = QP_STR("*"),
                                                .max = s->limit_max};
        if (store_commit(store, &c) != QP_OK) {
            sim_bug(c.err.text);
        }
        commit_done(&c);
    }
    if (store_close(store, &err) != QP_OK) {
        sim_bug(err.text);
    }
}

static void world_create(struct sim *s)
{
    static const char *const names[MODEL_COUNT] = {"model.alone", "model.serial", "model.rows"};
    struct memory_options options = {.mode = s->model == MODEL_ROWS ? MEMORY_ROWS : MEMORY_SERIAL,
                                     .calls = s->model == MODEL_ROWS ? &model_rows_calls
                                                                     : &model_serial_calls,
                                     .shared = s->model == MODEL_ROWS,
                                     .exclusive = s->model == MODEL_ALONE};
    sim_cover(names[s->model]);
    s->server =
        (struct model_server){.next_xid = 1, .next_ord = 1, .next_id = STORE_NS_DEFAULT + 1};
    if (memory_create(&s->env, &options, &s->memory) != QP_OK) {
        sim_bug("no memory");
    }
    for (int i = 0; i < s->node_count; i++) {
        node_init(&s->nodes[i], s, i);
    }
    watch_init(s);
    set_limits(s);
}

static void sim_init(struct sim *s, const struct sim_options *options, struct sim_result *result)
{
    struct sim_random sizes;
    struct sim_random plan;
    struct sim_random play;
    struct sim_random limits;
    size_t scene_count = 0;
    *s = (struct sim){.options = *options, .result = result};
    *result = (struct sim_result){.ok = true};
    random_init(&sizes, options->seed, 1);
    random_init(&plan, options->seed, 2);
    random_init(&play, options->seed, 3);
    random_init(&s->choice, options->seed, 4);
    random_init(&s->network, options->seed, 5);
    random_init(&limits, options->seed, 6);
    draw_sizes(s, &sizes);
    while (scenes[scene_count] != NULL) {
        scene_count++;
    }
    s->scene = scenes[random_below(&sizes, (int64_t)scene_count)];
    s->scene = options->scene != NULL ? options->scene : s->scene;
    s->aged = s->aged && !s->scene->stays_young;
    faults_plan(s, &plan);
    result->fault_count = s->fault_count;
    node_init(&s->outside, s, SIM_NODES_MAX);
    s->outside.no_yield = true;
    s->env = s->outside.env;
    s->stage = mem_alloc(&s->env, s->scene->size);
    QP_ASSERT(s->stage != NULL);
    s->scene->create(s->stage, s, &play);
    client_limit(s, &limits);
    world_create(s);
}

const struct qp_env *scene_env(const struct sim *s)
{
    return &s->env;
}

void scene_say(struct sim *s, const char *text)
{
    sim_trace(s, "%s", text);
}

void scene_violate(struct sim *s, const char *check, const char *text)
{
    sim_violate(s, check, "%s", text);
}

struct store *scene_store(struct sim *s)
{
    return s->checker;
}

qp_ms scene_now_ms(const struct sim *s)
{
    return s->now_us / 1000;
}

/* The commits whose time has come; all of them, when `all`. */
static void late_commits(struct sim *s, bool all)
{
    for (int i = 0; i < s->late_count;) {
        struct late late = s->late[i];
        if (!all && late.at_us > s->now_us) {
            i++;
            continue;
        }
        s->late[i] = s->late[--s->late_count];
        sim_trace(s, "a commit that was given up happens");
        model_late_commit(late.commit);
    }
}

static void sim_done(struct sim *s)
{
    for (int i = 0; i < s->node_count; i++) {
        if (s->nodes[i].up && !s->nodes[i].closed) {
            node_down(&s->nodes[i]);
        }
    }
    late_commits(s, true);
    watch_done(s);
    memory_destroy(s->memory);
    if (s->scene->destroy != NULL) {
        s->scene->destroy(s->stage);
    }
    mem_free(&s->env, s->stage);
    if (s->outside.blocks != NULL && s->result->ok) {
        sim_violate(s, "leak", "memory is left when all is over");
    }
    node_free(&s->outside);
}

/* ------------------------------------------------------------------------------------------ scheduling */

/* Everybody who can go on now: node i, the writer of node i, the clients. */
struct ready {
    void (*go_on[2 * SIM_NODES_MAX + 1])(struct node *n);
    struct node *node[2 * SIM_NODES_MAX + 1];
    int count;
};

static void ready_add(struct ready *r, void (*go_on)(struct node *n), struct node *n)
{
    r->go_on[r->count] = go_on;
    r->node[r->count++] = n;
}

static void clients_go_on(struct node *n)
{
    client_go_on(n->sim);
}

static void ready_find(struct sim *s, struct ready *out)
{
    out->count = 0;
    for (int i = 0; i < s->node_count; i++) {
        struct node *n = &s->nodes[i];
        if (!n->up && n->restart_us <= s->now_us) {
            node_start(n);
        }
        if (node_is_ready(n)) {
            ready_add(out, node_go_on, n);
        }
        if (writer_is_ready(n)) {
            ready_add(out, writer_go_on, n);
        }
    }
    if (client_next_us(s) <= s->now_us) {
        ready_add(out, clients_go_on, &s->outside);
    }
}

/* To the next moment at which somebody can go on; false: nobody can, or not before `until`. */
static bool pass_time(struct sim *s, int64_t until_us)
{
    int64_t next = client_next_us(s);
    for (int i = 0; i < s->node_count; i++) {
        int64_t at = node_next_us(&s->nodes[i]);
        next = at < next ? at : next;
    }
    for (int i = 0; i < s->late_count; i++) {
        next = s->late[i].at_us < next ? s->late[i].at_us : next;
    }
    if (next >= until_us) {
        return false;
    }
    s->now_us = next > s->now_us ? next : s->now_us + 1;
    return true;
}

/* One thing happens. False: nothing can, before `until`. */
static bool step(struct sim *s, int64_t until_us)
{
    struct ready ready;
    int64_t chosen;
    late_commits(s, false);
    ready_find(s, &ready);
    if (ready.count == 0) {
        return pass_time(s, until_us);
    }
    chosen = random_below(&s->choice, ready.count);
    ready.go_on[chosen](ready.node[chosen]);
    if (random_chance(&s->choice, FOLLOW_PERCENT)) {
        watch_follow(s);
    }
    return s->result->ok;
}

static bool all_ended(const struct sim *s)
{
    for (int i = 0; i < s->job_count; i++) {
        if (!s->jobs[i].end.ended) {
            return false;
        }
    }
    return client_is_done(s);
}

static bool is_busy(struct sim *s, int64_t until_us)
{
    return s->result->ok && s->now_us < until_us && s->result->calls < CALLS_MAX &&
           step(s, until_us);
}

static void heal(struct sim *s)
{
    sim_trace(s, "healed");
    s->healed = true;
    for (int i = 0; i < s->node_count; i++) {
        struct node *n = &s->nodes[i];
        n->pause_us = 0;
        n->skew_ms = 0;
        n->commit_fate = FATE_NONE;
        for (int j = 0; j < TOPICS_MAX; j++) {
            n->services[j].lease_ms = 0; /* it may have been shorter than any work */
        }
        if (n->up && s->lease_ms == 1) {
            node_down(n); /* so short a lease is no life: it comes again with a longer one */
        }
        n->restart_us = n->up ? NEVER : s->now_us;
    }
}

/* Nothing is under way, and stays so. */
static bool is_at_rest(struct sim *s)
{
    if (s->late_count > 0) {
        return false;
    }
    for (int i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].up || node_has_work(&s->nodes[i])) {
            return false;
        }
    }
    return watch_is_quiet(s) && all_ended(s);
}

static void come_to_rest(struct sim *s)
{
    int64_t until = s->now_us + REST_US;
    int64_t look_us = 0;
    bool stuck = false;
    while (s->result->ok && s->now_us < until && s->result->calls < CALLS_MAX) {
        if (stuck || s->now_us >= look_us) {
            if (is_at_rest(s)) {
                return;
            }
            look_us = s->now_us + LOOK_US;
        }
        if (stuck && client_next_us(s) >= until) {
            break; /* no client helps it on in time */
        }
        stuck = !step(s, until);
    }
    if (s->result->ok && !is_at_rest(s)) {
        sim_violate(s, "liveness", "it does not come to rest within %lld s and %lld calls",
                    (long long)(s->now_us / 1000000), (long long)s->result->calls);
    }
}

/* Jobs are kept for a while, and then they go, whatever strikes meanwhile. */
static void forget_jobs(struct sim *s)
{
    int64_t until = s->now_us + (s->keep_ms + RETENTION_MS) * 1000;
    int64_t calls = s->result->calls + FAULTS_CALLS;
    s->healed = false; /* what faults are left may strike now */
    while (watch_has_jobs(s) && s->result->calls < calls && is_busy(s, until)) {}
    heal(s);
    until = s->now_us + REST_US;
    while (watch_has_jobs(s) && is_busy(s, until)) {}
    if (s->result->ok && watch_has_jobs(s)) {
        sim_violate(s, "retention", "jobs are there whose time is over");
    }
    sim_cover("retention");
}

static bool all_closed(const struct sim *s)
{
    for (int i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].closed) {
            return false;
        }
    }
    return true;
}

static void close_nodes(struct sim *s)
{
    int64_t until = s->now_us + REST_US;
    for (int i = 0; i < s->node_count; i++) {
        s->nodes[i].closing = true;
        s->nodes[i].wake_us = s->now_us;
    }
    while (!all_closed(s) && is_busy(s, until)) {}
    if (!all_closed(s) && s->result->ok) {
        sim_violate(s, "liveness", "a node does not close");
    }
}

void sim_run(const struct sim_options *options, struct sim_result *out_result)
{
    static struct sim world; /* large */
    struct sim *s = &world;
    sim_init(s, options, out_result);
    for (int i = 0; i < s->node_count; i++) {
        node_start(&s->nodes[i]);
    }
    while (s->result->calls < FAULTS_CALLS && is_busy(s, FAULTS_US) &&
           !(all_ended(s) && s->job_count > 0)) {}
    if (s->result->ok) {
        heal(s);
        come_to_rest(s);
    }
    if (s->result->ok) {
        watch_end(s);
    }
    if (s->result->ok && s->keep_ms > 0) {
        forget_jobs(s);
    }
    if (s->result->ok) {
        close_nodes(s);
    }
    if (s->result->ok) {
        watch_store(s);
    }
    out_result->trace = s->trace;
    sim_done(s);
}

void sim_print_faults(const struct sim_options *options)
{
    static struct sim world;
    struct sim_result result;
    sim_init(&world, options, &result);
    for (int i = 0; i < world.fault_count; i++) {
        char text[96];
        fault_print(&world.faults[i], text, sizeof text);
        if (!world.faults[i].done) {
            printf("  fault %2d: %s\n", i, text);
        }
    }
    sim_done(&world);
}
