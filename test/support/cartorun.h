/* cartorun.h - a traversal in memory: the stages of src/carto, level by level, without an engine
 *
 * What the gate of a level does, in the order that type.h gives: select, one pass that finds duplicates, resolve and
 * traverse. `shuffle` runs the items of each step in a random order, and `again` runs every stage twice: the result
 * must not depend on either.
 */
#ifndef QP_TEST_CARTORUN_H
#define QP_TEST_CARTORUN_H

#include "base/omap.h"
#include "carto/format.h"
#include "carto/stage.h"

struct carto_run {
    const struct qp_env *env;
    const struct carto_request *request;
    struct arena memory;
    struct carto_item **levels; /* per level, in the order of paths */
    size_t *sizes;
    size_t level_count;
    struct omap nodes; /* to the contexts in which a node was expanded */
    struct carto_counts counts;
    uint64_t shuffle; /* 0: in order, else the state of the generator */
    bool again;
};

void cartorun_init(struct carto_run *run, const struct qp_env *env,
                   const struct carto_request *request);
void cartorun_done(struct carto_run *run);
/* Traverses from the roots. What REGISTER refuses is returned; all else fails the program. */
int cartorun_traverse(struct carto_run *run, const qp_str *roots, size_t count, struct qp_err *err);
/* Its items, for formats. */
struct carto_items cartorun_items(struct carto_run *run);

#endif
