/* schema.h - the part of JSON Schema that graphs may use
 *
 *   type (one or a list; any), nullable, enum, const
 *   properties, required, additionalProperties (a boolean or a schema)
 *   patternProperties: accepted and not checked, which the report notes once
 *   items, minItems, maxItems
 *   minimum, maximum, exclusiveMinimum, exclusiveMaximum
 *   minLength, maxLength (in characters)
 *   title, description, default, examples: for people, not looked at
 *
 * Other keywords are refused when a graph is deployed: a check that is not made must not look as if it were. A
 * compiled schema is immutable and lives in its graph's arena; schema_check is in graph.h.
 */
#ifndef QP_GRAPH_SCHEMA_H
#define QP_GRAPH_SCHEMA_H

#include "mapping/tree.h"

struct schema;

/* What is wrong goes to the report; NULL then, or when memory is short (report->no_memory). The node must live as
 * long as the schema. */
const struct schema *schema_compile(struct arena *a, const struct node *node,
                                    struct report *report);

/* Whether something may be written under this key: it is declared, or nothing is, or others are
 * allowed in so many words (additionalProperties). NULL declares nothing. */
bool schema_declares(const struct schema *s, qp_str key);

#endif
