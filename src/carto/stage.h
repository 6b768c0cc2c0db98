/* stage.h - the generic stages of a work item, as pure functions (see type.h for how they follow each other)
 *
 * Each takes an item as it stands and answers what becomes of it. Nothing is kept between calls. */
#ifndef QP_CARTO_STAGE_H
#define QP_CARTO_STAGE_H

#include "carto/type.h"

/* Sums over the items of a request. Every item is in `items` and in exactly one of done, duplicate, pruned, failed. */
struct carto_counts {
    int64_t items;
    int64_t done;
    int64_t duplicate;
    int64_t pruned; /* at the depth limit, with relationships that were cut */
    int64_t failed; /* optional ones included */
    int64_t optional;
    int64_t excluded; /* relationships, not items */
    int64_t cut;      /* relationships beyond the depth limit */
};
void carto_counts_add(struct carto_counts *sum, const struct carto_counts *more);

/* REGISTER: the item of the root with this index. `text` is "type:name" or more, as the type reads it. QP_E_INVALID,
 * QP_E_NOT_FOUND; an unknown type is QP_E_SHAPE and names the known ones. */
int stage_root(const struct carto_request *r, struct arena *a, uint64_t index, qp_str text,
               struct carto_item *out, struct qp_err *err) QP_MUST_USE;

/* SELECT-SYNC and SELECT: sets what is selected, or the failure. An override or the history comes before the type's own
 * choice. outcome->failure CARTO_UNKNOWN_TYPE ends the whole request. */
int stage_select(const struct carto_request *r, struct arena *a, struct carto_item *item,
                 struct carto_outcome *outcome, struct qp_err *err) QP_MUST_USE;

/* RESOLVE-SYNC and RESOLVE: the relationships of what is selected; CARTO_FAILED sets the item's failure. */
int stage_resolve(const struct carto_request *r, struct arena *a, struct carto_item *item,
                  struct carto_relations *out, struct carto_outcome *outcome,
                  struct qp_err *err) QP_MUST_USE;

struct carto_children {
    struct carto_item *rows;
    size_t count;
};

/* TRAVERSE: filters the relationships by scope, exclusions and depth, and ends the item. Only `counts` of this item are
 * added. A child whose path is beyond the limits stands there as failed with LEVEL_LIMIT at its parent: the parent
 * itself gets that failure, since no row can be made for the child. */
int stage_traverse(const struct carto_request *r, struct arena *a, struct carto_item *item,
                   const struct carto_relations *relations, struct carto_children *out,
                   struct carto_counts *counts) QP_MUST_USE;

/* Ends an item in CARTO_FAILED_ITEM and CARTO_DUPLICATE. */
void stage_fail(struct carto_item *item, const struct carto_outcome *outcome,
                struct carto_counts *counts);
void stage_duplicate(struct carto_item *item, qp_str of, struct carto_counts *counts);

/* END-DETECT, when no item is open: "MAX_DEPTH_REACHED" when the depth limit has cut a relationship, else
 * "TRAVERSE_COMPLETE". */
const char *stage_end(const struct carto_counts *counts);

#endif
