/* campaign.h - many seeds: the same twice, those that were kept, the smallest trace of one that fails, coverage */
#ifndef QP_TEST_CAMPAIGN_H
#define QP_TEST_CAMPAIGN_H

#include "sim/scene.h"

struct campaign {
    struct sim_options options; /* of every seed */
    uint64_t first;
    int64_t count;
    bool single;      /* one seed that was asked for: no coverage is asked of it */
    const char *kept; /* a file of seeds that once failed; NULL: none */
    int64_t twice;    /* every n-th runs twice and must give the same trace */
};

/* From the command line and QP_LANE; false: it was told what is wrong. */
bool campaign_parse(struct campaign *c, int argc, char **argv);
/* Prints what it finds, coverage, and "N passed, N failed". */
bool campaign_run(const struct campaign *c);

/* The faults that a violation does not need, left out one by one. */
uint64_t campaign_shrink(const struct sim_options *options, const struct sim_result *found);

#endif
