/* test_sim.c - the simulator's program: many seeds, or one
 *
 *   test_sim                          the seeds of the lane: some in check, many in torture, and those kept in seeds.txt
 *   test_sim --seeds N [--seed S]     N seeds from S on
 *   test_sim --seed S [--print]       one; --print shows the trace
 *            [--without 1,5] [--scene NAME] [--model 0|1|2]
 *
 * A seed that fails prints one line that shows it again, and with as few faults as it needs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/campaign.h"

int main(int argc, char **argv)
{
    struct campaign c;
    if (!campaign_parse(&c, argc, argv)) {
        return 2;
    }
    return campaign_run(&c) ? 0 : 1;
}
