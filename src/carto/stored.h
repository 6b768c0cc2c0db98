/* stored.h - the facts of a universe, read from the store one by one (facts.h)
 *
 * For questions that need few facts: a whole universe in memory is what an engine has (atlas.h). The reader keeps what it
 * has read until it is done. One thread.
 */
#ifndef QP_CARTO_STORED_H
#define QP_CARTO_STORED_H

#include "carto/facts.h"
#include "store/store.h"

/* The sources that were asked for last. */
struct stored_sources {
    qp_str target;
    qp_str lines;
};

struct stored_facts {
    struct store *store;
    struct arena *arena;
    int64_t ns;
    int64_t universe;
    struct qp_err *err;
    struct stored_sources *sources;
};

/* A universe of a type by its name; none: the current one. QP_E_NOT_FOUND. */
struct stored_of {
    int64_t ns;
    qp_str type;
    qp_str universe;
};
int stored_open(struct stored_facts *f, struct store *s, struct arena *a,
                const struct stored_of *of, struct qp_err *err) QP_MUST_USE;
struct carto_facts stored_reader(struct stored_facts *f);

#endif
