/* store_internal.h - a store handle, as store.c, state.c, clock.c, execute.c and reads.c know it */
#ifndef QP_STORE_STORE_INTERNAL_H
#define QP_STORE_STORE_INTERNAL_H

#include "store/apply.h"

struct store {
    struct qp_env env;
    struct provider *provider;
    struct cache *cache;  /* NULL: this handle has none (cache.h) */
    int64_t clock_us;     /* store time; its milliseconds were given out */
    int64_t clock_set_us; /* monotonic time at which it was that */
    int64_t slack_us; /* monotonic time since the wall agreed with it, or since it was used up */
    int refusing;     /* QP_OK, or the code that every further call gets; see store_stopped_by */
    uint64_t hash_seed;
    int64_t commits;
    size_t entries; /* of the last commit: the next one will probably know as many rows */
    int64_t rows_written;
    int64_t serial;      /* given out last: store_serial */
    int64_t definitions; /* see store_definitions */
    const struct store_writer *writer;
    struct commit *written; /* in the writer's hands */
    struct commit *ahead;   /* decided in front of it */
    bool writable;
    bool owns_mark; /* may keep the clean-shutdown marker: not where handles share the store */
    bool marks;     /* keeps it: not in a store that was moved, or is half of a copy */
};

/* clock.c: begins with the wall; and is never behind a time that was committed. */
void clock_begin(struct store *s);
void clock_heed(struct store *s, qp_ms committed);

/* What is known of rows may not be so: the cache, and the number of definitions. */
void store_forget(struct store *s);

/* QP_OK, or why the handle refuses all further work: what a commit found, or what the provider did on
 * its own account. */
int store_stopped_by(const struct store *s);

#endif
