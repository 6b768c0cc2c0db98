/* opgen.h - random commits, seeded: every op of ops.def over a small domain, so that they meet
 *
 * A commit is 1..8 bundles of 1..10 ops. The generator looks at the store that it is told to look
 * at, picks what is there (jobs, tokens of claimed messages, tokens of keys, waiters), and spoils
 * some of it: stale tokens, duplicates, wrong guards, underflows, closed jobs, invalid arguments.
 * So a good half of the bundles succeed, and the rest fail for all the reasons that there are.
 * Within one commit later bundles do not know what earlier ones do: that is part of it. Some of the
 * bundles are decided inside the transaction (commit_decided), on the same ops.
 *
 *     opgen_next(&g, store);             what comes next, given what is in the store
 *     advance the clock by g.advance_ms
 *     opgen_fill(&g, &commit);           the same ops for as many stores as one likes
 *
 * The same seed and equal states give equal commits. Slices point to constants or into the
 * generator: they live until the next opgen_next or opgen_done. The first commit makes the second
 * namespace, the numbers and the nodes.
 */
#ifndef QP_TEST_OPGEN_H
#define QP_TEST_OPGEN_H

#include "store/store.h"

#define OPGEN_BUNDLES_MAX 8
#define OPGEN_OPS_MAX 10

struct opgen_bundle {
    size_t run_every; /* 0: its ops are given with it; else it is decided, and carries them out
                         so many at a time */
    size_t op_count;
    struct op ops[OPGEN_OPS_MAX];
};

struct opgen_rows {
    const void **rows;
    size_t count;
};

struct opgen {
    uint64_t random;
    bool no_steps_back; /* the clock only goes forward */
    bool is_skipped
        [OP_COUNT]; /* never generated: for tests in which its answer cannot be compared */
    size_t bundles_max;
    bool plain; /* opgen_fill decides no bundle: the same ops must give the same answer */
    /* the commit */
    int64_t advance_ms;
    size_t bundle_count;
    struct opgen_bundle bundles[OPGEN_BUNDLES_MAX];
    /* what the store has, in the arena */
    struct arena arena;
    struct opgen_rows seen[TABLE_COUNT];
    int64_t first_number; /* the block of numbers that the first commit reserved */
    int64_t next_number;
};

void opgen_init(struct opgen *g, const struct qp_env *env, uint64_t seed);
void opgen_done(struct opgen *g);

/* A second generator for the same store: as `first`, once that has made its first commit, but with
 * numbers of its own. */
void opgen_init_second(struct opgen *g, const struct opgen *first, uint64_t seed);

void opgen_next(struct opgen *g, struct store *look_at);
void opgen_fill(struct opgen *g, struct commit *c);

/* Fills a commit, runs it to its end and returns c->rc. The caller does commit_init and
 * commit_done. */
int opgen_commit(struct opgen *g, struct store *s, struct commit *c);

#endif
