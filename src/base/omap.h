/* omap.h - an ordered map from byte strings to pointers (a skip list)
 *
 * Keys are compared with memcmp, shorter first when one is a prefix of the other; the map copies
 * the key, the value belongs to the caller. Insert, find and delete take O(log n) steps; walking is
 * one pointer per step. The levels come from a seeded generator inside the map, so that equal
 * histories give equal maps. Not thread-safe.
 */
#ifndef QP_BASE_OMAP_H
#define QP_BASE_OMAP_H

#include "base/mem.h"

struct omap_node;

struct omap {
    const struct qp_env *env;
    struct omap_node *head; /* NULL until the first insert */
    size_t count;
    uint64_t random;
};

void omap_init(struct omap *m, const struct qp_env *env);
void omap_done(struct omap *m);

/* Sets key to value. *out_old (may be NULL) gets the value that was there, or NULL. QP_OK or
 * QP_E_NOMEM. */
int omap_put(struct omap *m, qp_str key, void *value, void **out_old) QP_MUST_USE;
void *omap_get(const struct omap *m, qp_str key);
void *omap_delete(struct omap *m, qp_str key); /* the value that was there, or NULL */

/* The first node whose key is >= key (an empty key gives the first of all); the next one; the last
 * one whose key is < key. NULL at the end. A node stays valid until its key is deleted. */
struct omap_node *omap_seek(const struct omap *m, qp_str key);
struct omap_node *omap_seek_before(const struct omap *m, qp_str key);
struct omap_node *omap_last(const struct omap *m);
struct omap_node *omap_next(const struct omap_node *node);
qp_str omap_key(const struct omap_node *node);
void *omap_value(const struct omap_node *node);

#endif
