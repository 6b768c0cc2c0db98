/* campaign.c - see campaign.h */
#include "sim/campaign.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/fiber.h"
#include "support/testenv.h"

#define SEEDS_CHECK 2000
#define SEEDS_TORTURE 100000
#define SEEDS_SANITIZED 60
#define TWICE_EVERY 100
#define FAILURES_MAX 5
#define COVER_PER 1000 /* seeds, in which each of these is seen */

/* What a campaign must have met, or it says nothing. */
static const char *const needed[] = {"model.alone",
                                     "model.serial",
                                     "model.rows",
                                     "fault.crash",
                                     "fault.pause",
                                     "fault.slow",
                                     "fault.abort",
                                     "fault.unknown",
                                     "fault.clock",
                                     "fault.slow-worker",
                                     "fault.result-twice",
                                     "fault.request-twice",
                                     "fault.request-late",
                                     "fault.answer-lost",
                                     "fault.leave",
                                     "rare.lease",
                                     "rare.ceiling",
                                     "rare.batch",
                                     "sliced",
                                     "rare.counter",
                                     "writer",
                                     "lock.wait",
                                     "limits",
                                     "limits.full",
                                     "retention",
                                     "result.refused",
                                     "cast.task",
                                     "cast.sleep",
                                     "cast.hook",
                                     "cast.either",
                                     "cast.pass",
                                     "cast.signal",
                                     "cast.signal-all",
                                     "cast.await",
                                     "cast.key",
                                     "cast.stop",
                                     "cast.pivot",
                                     "cast.again",
                                     "cast.cycle",
                                     "cast.join",
                                     "cast.end",
                                     "cast.pause",
                                     "cast.error",
                                     "cast.fatal",
                                     "cast.overdue",
                                     "cast.stopped",
                                     "graph.pass",
                                     "graph.emit",
                                     "graph.sleep",
                                     "graph.work",
                                     "graph.flaky",
                                     "graph.fail",
                                     "graph.errors",
                                     "graph.pending",
                                     "graph.web",
                                     "graph.keep",
                                     "graph.fed",
                                     "graph.both",
                                     "graph.listen",
                                     "graph.tell",
                                     "graph.call",
                                     "graph.again",
                                     "graph.detach",
                                     "graph.early",
                                     "graph.stop",
                                     "graph.end",
                                     "graph.skip",
                                     "graph.all",
                                     "graph.any",
                                     "graph.cycle",
                                     "graph.completed",
                                     "graph.failed",
                                     "graph.cancelled",
                                     "graph.interrupted",
                                     "graph.second version",
                                     "graph.gate.dead",
                                     "graph.gate.part",
                                     "graph.gate.whole",
                                     "graph.way not taken",
                                     "graph.branch of an error",
                                     "graph.branch of no error",
                                     "graph.pending.joined",
                                     "graph.pending.open",
                                     "graph.cycle.1",
                                     "graph.cycle.2",
                                     "graph.cycle.3",
                                     "graph.child that fails",
                                     "graph.cycle that ends inside",
                                     "crash.trigger",
                                     "crash.work",
                                     "crash.flaky",
                                     "crash.again",
                                     "crash.call",
                                     "crash.detach",
                                     "crash.early",
                                     "crash.both",
                                     "crash.web",
                                     "crash.keep",
                                     "crash.sleep",
                                     "crash.fed",
                                     "crash.end",
                                     "crash.stop",
                                     "crash.cycle",
                                     "crash.pending",
                                     "crash.errors",
                                     "crash.join:all",
                                     "crash.join:any",
                                     "shape.tree",
                                     "shape.flow",
                                     "shape.carto",
                                     "shape.kin",
                                     "signals.once",
                                     "signals.named",
                                     "signals.repeated",
                                     "crash.A.leg1",
                                     "crash.A.work",
                                     "crash.A.spawn",
                                     "crash.A.ack",
                                     "crash.A.complete",
                                     "crash.B.complete",
                                     "fault.crash-edge",
                                     "fault.unknown-late",
                                     "crash.B.work",
                                     "crash.B.spawn",
                                     "crash.B.ack",
                                     "crash.C.leg1",
                                     "crash.D.ack",
                                     NULL};

/* -------------------------------------------------------------------------------------------- one seed */

static void print_command(const struct sim_options *o)
{
    printf("  make sim SEED=%" PRIu64, o->seed);
    if (o->without != 0) {
        printf(" WITHOUT=");
        for (int i = 0, n = 0; i < SIM_FAULTS_MAX; i++) {
            if ((o->without >> i & 1) != 0) {
                printf("%s%d", n++ > 0 ? "," : "", i);
            }
        }
    }
    if (o->scene != NULL) {
        printf(" SCENE=%s", o->scene->name);
    }
    printf(" PRINT=1\n");
}

uint64_t campaign_shrink(const struct sim_options *options, const struct sim_result *found)
{
    struct sim_options o = *options;
    o.print = false;
    for (int i = 0; i < found->fault_count; i++) {
        uint64_t kept = o.without;
        struct sim_result r;
        o.without |= UINT64_C(1) << i;
        sim_run(&o, &r);
        if (r.ok || strcmp(r.check, found->check) != 0) {
            o.without = kept;
        }
    }
    return o.without;
}

static void tell(const struct sim_options *options, const struct sim_result *r)
{
    struct sim_options o = *options;
    printf("seed %" PRIu64 ": VIOLATION by %s: %s\n", o.seed, r->check, r->text);
    o.without = campaign_shrink(options, r);
    print_command(&o);
    sim_print_faults(&o);
    (void)fflush(stdout);
}

static bool run_one(const struct campaign *c, uint64_t seed, bool twice)
{
    struct sim_options o = c->options;
    struct sim_result first;
    struct sim_result second;
    o.seed = seed;
    sim_run(&o, &first);
    if (!first.ok) {
        tell(&o, &first);
        return false;
    }
    if (!twice) {
        return true;
    }
    sim_run(&o, &second);
    if (second.trace != first.trace || second.calls != first.calls) {
        printf("seed %" PRIu64 ": two runs differ: %016" PRIx64 " and %016" PRIx64 "\n", seed,
               first.trace, second.trace);
        return false;
    }
    return true;
}

/* --------------------------------------------------------------------------------------------- many seeds */

struct score {
    int64_t passed;
    int64_t failed;
};

static void count(struct score *s, bool ok)
{
    s->passed += ok;
    s->failed += !ok;
}

/* By its name; NULL: there is none. */
static const struct scene *parse_scene(const char *name)
{
    static const struct scene *const apart[] = {&scene_flows, &scene_traversals, &scene_instances};
    for (size_t i = 0; name != NULL && scenes[i] != NULL; i++) {
        if (strcmp(scenes[i]->name, name) == 0) {
            return scenes[i];
        }
    }
    for (size_t i = 0; name != NULL && i < ARRAY_COUNT(apart); i++) {
        if (strcmp(apart[i]->name, name) == 0) {
            return apart[i];
        }
    }
    return NULL;
}

/* Lines "seed scene  what it found"; the others are for people. */
static void run_kept(const struct campaign *c, struct score *s)
{
    char line[256];
    FILE *f = fopen(c->kept, "r");
    if (f == NULL) {
        printf("%s: cannot be read\n", c->kept);
        count(s, false);
        return;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);
        if (end != line) {
            struct campaign one = *c;
            one.options.scene = parse_scene(strtok_r(end, " ", &end));
            count(s, one.options.scene != NULL && run_one(&one, seed, false));
        }
    }
    (void)fclose(f); /* opened for reading */
}

static void run_range(const struct campaign *c, struct score *s)
{
    for (int64_t i = 0; i < c->count && s->failed < FAILURES_MAX; i++) {
        count(s, run_one(c, c->first + (uint64_t)i, c->twice > 0 && i % c->twice == 0));
        if (c->count >= 10 * COVER_PER && (i + 1) % (5 * COVER_PER) == 0) {
            (void)fprintf(stderr, "%" PRId64 " seeds\n", i + 1);
        }
    }
}

/* One scene alone does not meet it all. */
static const char *const *needs_of(const struct scene *scene)
{
    static const char *const nothing[] = {NULL};
    if (scene == NULL) {
        return needed;
    }
    return scene->needs != NULL ? scene->needs : nothing;
}

bool campaign_run(const struct campaign *c)
{
    struct score s = {0, 0};
    if (c->kept != NULL) {
        run_kept(c, &s);
    }
    run_range(c, &s);
    if (!c->single) {
        count(&s, sim_print_cover(needs_of(c->options.scene), c->count / COVER_PER));
    }
    fiber_done();
    printf("seeds %" PRIu64 " to %" PRIu64 "\n", c->first, c->first + (uint64_t)c->count - 1);
    printf("%" PRId64 " passed, %" PRId64 " failed\n", s.passed, s.failed);
    return s.failed == 0;
}

/* --------------------------------------------------------------------------------------- command line */

static int64_t lane_seeds(void)
{
    if (testenv_is_torture()) {
        return testenv_is_sanitized() ? SEEDS_CHECK : SEEDS_TORTURE;
    }
    return testenv_is_sanitized() ? SEEDS_SANITIZED : SEEDS_CHECK;
}

static uint64_t parse_without(const char *text)
{
    uint64_t bits = 0;
    char *end = NULL;
    while (*text != '\0') {
        uint64_t i = strtoull(text, &end, 10);
        bits |= i < SIM_FAULTS_MAX ? UINT64_C(1) << i : 0;
        text = *end == ',' ? end + 1 : "";
    }
    return bits;
}

static bool take_option(struct campaign *c, const char *name, const char *value, bool *out_seeds)
{
    if (strcmp(name, "--seed") == 0) {
        c->first = strtoull(value, NULL, 10);
        c->single = !*out_seeds;
    } else if (strcmp(name, "--seeds") == 0) {
        c->count = strtoll(value, NULL, 10);
        *out_seeds = true;
        c->single = false;
    } else if (strcmp(name, "--without") == 0) {
        c->options.without = parse_without(value);
    } else if (strcmp(name, "--scene") == 0) {
        c->options.scene = parse_scene(value);
        return c->options.scene != NULL;
    } else if (strcmp(name, "--model") == 0) {
        c->options.model = (int)strtol(value, NULL, 10);
        return c->options.model >= 0 && c->options.model < MODEL_COUNT;
    } else {
        return false;
    }
    return true;
}

bool campaign_parse(struct campaign *c, int argc, char **argv)
{
    bool seeds = false;
    *c = (struct campaign){.options.model = -1,
                           .first = 1,
                           .count = lane_seeds(),
                           .kept = "test/sim/seeds.txt",
                           .twice = TWICE_EVERY};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--print") == 0) {
            c->options.print = true;
        } else if (i + 1 >= argc || !take_option(c, argv[i], argv[i + 1], &seeds)) {
            (void)fprintf(stderr,
                          "usage: test_sim [--seed S] [--seeds N] [--without I,..] [--scene NAME] "
                          "[--model 0|1|2] [--print]\n");
            return false;
        } else {
            i++;
        }
    }
    if (c->single) {
        c->count = 1;
        c->twice = 0;
    }
    if (argc > 1) {
        c->kept = NULL;
    }
    c->single = c->single || c->count < COVER_PER;
    return true;
}
