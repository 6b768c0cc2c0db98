/* path.h - where a work item stands in its traversal: its Dewey path, as text and as an ordered key
 *
 *   text  0.3.12       root 0, its relationship 3, the relationship 12 of that one; people see this
 *   key   a2a0a3b12    the level (0 for a root), then the ordinals; each a letter for the number of its digits (a is
 *                      one) and the digits
 *
 * The byte order of keys is the canonical order of a traversal: by level, then by path. So the items of a level are one
 * range of keys, and the children of an item are one range inside of the next level. A key is the text of the item's
 * address in its job behind the mark of carto; it is never longer than PATH_KEY_SIZE.
 *
 * Pure functions; texts are made in the arena or buffer that is given.
 */
#ifndef QP_CARTO_PATH_H
#define QP_CARTO_PATH_H

#include "base/mem.h"

#define PATH_KEY_SIZE (LIMIT_ADDRESS_SIZE - 1) /* one byte is the mark */

int path_root(struct arena *a, uint64_t ordinal, qp_str *out_key) QP_MUST_USE;
/* QP_E_TOO_LARGE: beyond LIMIT_CARTO_LEVELS or PATH_KEY_SIZE, which is the item's error LEVEL_LIMIT. */
int path_child(struct arena *a, qp_str key, uint64_t ordinal, qp_str *out_key) QP_MUST_USE;

/* Whether bytes are a key: numbers without leading zeros, as many ordinals as the level says and one more. */
bool path_is_valid(qp_str key);

/* Of a key that is valid. */
uint64_t path_level(qp_str key);
uint64_t path_ordinal(qp_str key); /* the last one */
/* The ordinals without the level: what a child's begin with. */
qp_str path_ordinals(qp_str key);
bool path_is_parent(qp_str key, qp_str child);
void path_print(struct buf *out, qp_str key); /* 0.3.12 */

#endif
