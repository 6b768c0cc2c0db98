/* test_sim_carto.c - the simulator with traversals of generated graphs, fused and split (scene_traversals.c)
 *
 *   test_sim_carto      400 seeds in the check lane, 10,000 in torture; test_sim --scene traversals runs others, and single ones
 */
#include "sim/campaign.h"
#include "support/testenv.h"

#define SEEDS_CHECK 400
#define SEEDS_TORTURE 10000
#define SEEDS_SANITIZED 10
#define TWICE_EVERY 100

static int64_t lane_seeds(void)
{
    if (testenv_is_torture()) {
        return testenv_is_sanitized() ? SEEDS_CHECK : SEEDS_TORTURE;
    }
    return testenv_is_sanitized() ? SEEDS_SANITIZED : SEEDS_CHECK;
}

int main(void)
{
    struct campaign c = {.options = {.scene = &scene_traversals, .model = -1},
                         .first = 1,
                         .count = lane_seeds(),
                         .twice = TWICE_EVERY};
    c.single = c.count < SEEDS_CHECK; /* so few do not meet everything */
    return campaign_run(&c) ? 0 : 1;
}
