/* format_items.h - formats that follow the items: JSON lines, and tree text
 *
 * See format.h for what they write and how they read. Both stream: nothing of the result is kept but one line and, for
 * the tree, the ancestors of it.
 */
#ifndef QP_CARTO_FORMAT_ITEMS_H
#define QP_CARTO_FORMAT_ITEMS_H

#include "carto/format.h"

int format_jsonl(const struct qp_env *env, const struct carto_items *items, void *context,
                 carto_sink sink) QP_MUST_USE;
int format_tree(const struct qp_env *env, const struct carto_items *items, void *context,
                carto_sink sink) QP_MUST_USE;

#endif
