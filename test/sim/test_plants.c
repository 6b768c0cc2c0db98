/* test_plants.c - the simulator finds bugs: each plant of failpoint.h within so many seeds, and says by which check
 *
 *   test_plants             all of them
 *   test_plants NAME        one
 *
 * With a sanitizer, in the check lane, each gets a few seeds only: most are found by then, and whether the others are is judged
 * without.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/failpoint.h"
#include "sim/scene.h"
#include "support/fiber.h"
#include "support/testenv.h"

#define SEEDS_MAX 2000
#define SEEDS_SANITIZED 3

static uint64_t seeds_max(void)
{
    return testenv_is_sanitized() && !testenv_is_torture() ? SEEDS_SANITIZED : SEEDS_MAX;
}

static const char *const names[] = {"none",
#define PLANT_TEXT(name) #name,
                                    PLANT_LIST(PLANT_TEXT)
#undef PLANT_TEXT
};

/* By this scene; NULL: by those that the seeds draw. */
static bool is_found(enum plant plant, const struct scene *scene)
{
    struct sim_result r = {.ok = true};
    uint64_t seed = 0;
    plant_set = plant;
    while (r.ok && seed < seeds_max()) {
        seed++;
        sim_run(&(struct sim_options){.seed = seed, .scene = scene, .model = -1}, &r);
    }
    plant_set = PLANT_none;
    if (r.ok) {
        printf("%-18s not found in %" PRIu64 " seeds%s\n", names[plant], seeds_max(),
               scene == NULL ? "" : " of one scene");
        return false;
    }
    printf("%-18s seed %4" PRIu64 ", by %s: %.90s\n", names[plant], seed, r.check, r.text);
    (void)fflush(stdout);
    return true;
}

static bool is_of_decisions(enum plant plant)
{
    return plant == PLANT_decision_twice || plant == PLANT_decision_hole;
}

/* The scene that finds the plant; NULL: those that the seeds draw. */
static const struct scene *scene_of(enum plant plant)
{
    switch (plant) {
    case PLANT_node_alone:
    case PLANT_lost_way:
        return &scene_traversals;
    case PLANT_stale_properties:
    case PLANT_result_twice:
    case PLANT_event_lost:
    case PLANT_event_missed:
        return &scene_instances;
    default:
        return NULL;
    }
}

int main(int argc, char **argv)
{
    int passed = 0;
    int failed = 0;
    for (int plant = PLANT_none + 1; plant < PLANT_COUNT; plant++) {
        if (argc < 2 || strcmp(argv[1], names[plant]) == 0) {
            bool found = is_of_decisions((enum plant)plant) ||
                         is_found((enum plant)plant, scene_of((enum plant)plant));
            if (is_of_decisions((enum plant)plant) || plant == PLANT_signal_twice) {
                found = found && is_found((enum plant)plant, &scene_flows);
            }
            passed += found;
            failed += !found && seeds_max() == SEEDS_MAX;
        }
    }
    fiber_done();
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
