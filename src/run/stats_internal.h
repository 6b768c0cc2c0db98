/* stats_internal.h - the numbers of an engine, between who counts and who reads (see stats.h)
 *
 * The series that are used often are the driver's; gauges belong to the thread that holds the lock.
 */
#ifndef QP_RUN_STATS_INTERNAL_H
#define QP_RUN_STATS_INTERNAL_H

#include <pthread.h>

#include "run/stats.h"

/* Series that were used last, so that the registry is seldom asked. */
#define KNOWN_SERIES 64

struct known_series {
    uint64_t hash;
    struct metric *metric;
};

/* The series of a gauge, of which some come and go: what is not there any more is 0. */
struct gauges {
    struct gauge {
        struct metric *metric;
        int64_t value;
    } all[LIMIT_METRIC_SERIES + 1];
    size_t count;
};

struct stats {
    struct metrics *registry;
    struct metric *commit_duration;
    struct metric *commit_size;
    struct metric *leases;
    struct metric *timeouts[TIME_LIMITS]; /* by the limit; the first is not used */
    struct metric *payload;
    struct metric *leader;
    struct known_series known[KNOWN_SERIES];
    pthread_mutex_t lock; /* of who reads the store */
    /* under the lock */
    bool counted;
    int64_t counted_us; /* when timers and parked jobs were last counted */
    struct gauges ready, held, oldest, pollers, parked;
};

#define SPEC(of_kind, of_name, of_help)                                                            \
    (const struct metric_spec)                                                                     \
    {                                                                                              \
        .name = (of_name), .help = (of_help), .kind = METRIC_##of_kind                             \
    }
#define SPEC_OF(of_name, of_help, of_bounds)                                                       \
    (const struct metric_spec)                                                                     \
    {                                                                                              \
        .name = (of_name), .help = (of_help), .kind = METRIC_HISTOGRAM, .bounds = (of_bounds),     \
        .bound_count = ARRAY_COUNT(of_bounds)                                                      \
    }

/* A series of the registry; NULL: there is no memory for it. */
struct metric *stats_series(struct stats *s, const struct metric_spec *spec, const qp_str *labels,
                            size_t count);

#endif
