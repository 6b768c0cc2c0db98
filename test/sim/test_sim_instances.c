/* test_sim_instances.c - the simulator with instances of agent workflows (scene_instances.c)
 *
 *   test_sim_instances   1,000 seeds in the check lane, 20,000 in torture; test_sim --scene instances runs others, and single ones
 *
 * It fails when a hook, a sort of work, or a way in which one may fail was met less often than once per 1,000 seeds.
 */
#include "sim/campaign.h"
#include "support/testenv.h"

#define SEEDS_CHECK 1000
#define SEEDS_TORTURE 20000
#define SEEDS_SANITIZED 20
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
    struct campaign c = {.options = {.scene = &scene_instances, .model = -1},
                         .first = 1,
                         .count = lane_seeds(),
                         .twice = TWICE_EVERY};
    c.single = c.count < SEEDS_CHECK; /* so few do not meet everything */
    return campaign_run(&c) ? 0 : 1;
}
