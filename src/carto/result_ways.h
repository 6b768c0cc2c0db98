/* result_ways.h - the shortest ways through a result, from any of some nodes to any of some others
 *
 * A way is a list of nodes that follow each other by edges. It has no node twice, and ends at the first target that it
 * comes to. Ways are in order: shorter ones first, those of one length by the places of their nodes in the result. So
 * the first `limit` of them are the same for the same result. They are searched one by one: the number of all ways is
 * exponential, and they are never expanded.
 *
 * Cost: a search per node of each way that is found, over the nodes that are no further from a target than the way is long.
 */
#ifndef QP_CARTO_RESULT_WAYS_H
#define QP_CARTO_RESULT_WAYS_H

#include "carto/result_graph.h"

/* Indexes in `nodes` of a graph, in ascending order. */
struct way_ends {
    const uint32_t *nodes;
    size_t count;
};

struct ways_question {
    const struct result_graph *graph;
    struct way_ends sources;
    struct way_ends targets;
    size_t limit; /* 1 to LIMIT_CARTO_WAYS */
};

struct way {
    const uint32_t *nodes;
    size_t count; /* at least 1: a source that is a target itself */
};

struct ways {
    struct way *rows;
    size_t count;
    bool has_more; /* there are further ones */
};

/* The ways are in the arena. */
int ways_find(struct arena *a, const struct ways_question *q, struct ways *out) QP_MUST_USE;

#endif
