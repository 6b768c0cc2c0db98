/* exclusions.h - sets of packages that a traversal leaves out, and what one context says about another
 *
 * A set is the text of its patterns, "type:name" each, in byte order, each once, with a newline behind each; the empty
 * set is the empty text. So equal sets are equal texts, and an item carries its set as it is. In a pattern '*' stands
 * for any number of characters; the type is never a pattern, except in "*:*" and "*", which mean everything.
 *
 * The context of an item is what its children depend on: its scope and its exclusions. Within a level, a context
 * dominates another when it reaches at least as much: its scope includes the other's, and its exclusions are a subset.
 * An item whose node was expanded in a dominating context is a duplicate; one that is not must be expanded again, or
 * the result would depend on the order of work. (Levels run one after the other, so depth need not be compared.)
 */
#ifndef QP_CARTO_EXCLUSIONS_H
#define QP_CARTO_EXCLUSIONS_H

#include "base/mem.h"

/* The patterns in any order. QP_E_NOMEM; QP_E_TOO_LARGE: more than LIMIT_CARTO_EXCLUSIONS. */
int exclusions_make(struct arena *a, const qp_str *patterns, size_t count,
                    qp_str *out_set) QP_MUST_USE;
int exclusions_union(struct arena *a, qp_str left, qp_str right, qp_str *out_set) QP_MUST_USE;
bool exclusions_are_subset(qp_str set, qp_str of);
bool exclusions_match(qp_str set, qp_str type, qp_str name);

/* Whether the pattern covers the name; both without a type. */
bool exclusions_pattern_match(qp_str pattern, qp_str name);

enum carto_scope { CARTO_RUNTIME, CARTO_BUILD_TIME, CARTO_EXTRA };

struct carto_context {
    enum carto_scope scope;
    qp_str exclusions;
};

bool context_dominates(const struct carto_context *a, const struct carto_context *b);
/* The scope that includes the other admits all its relationships: build time includes run time. */
bool carto_scope_admits(enum carto_scope item, enum carto_scope relationship);
/* "runtime", "build_time", "extra" */
const char *carto_scope_text(enum carto_scope scope);

#endif
