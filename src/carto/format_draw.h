/* format_draw.h - a result as a picture in words: Graphviz's dot, and Mermaid
 *
 * Packages are boxes, virtual names are round, a package with an error is red or a hexagon, one whose relationships the
 * depth limit has cut ends with "...". Edges have the requirement. Comments at the top name universe, hash and reason, and in
 * Mermaid the number of edges when it is more than MERMAID_EDGES. What is in names is escaped for the form.
 */
#ifndef QP_CARTO_FORMAT_DRAW_H
#define QP_CARTO_FORMAT_DRAW_H

#include "carto/format_output.h"
#include "carto/result_graph.h"

#define MERMAID_EDGES 500 /* what Mermaid draws, unless its page is configured otherwise */

int format_dot(const struct result_graph *g, const struct format_of *of,
               struct format_output *o) QP_MUST_USE;
int format_mermaid(const struct result_graph *g, const struct format_of *of,
                   struct format_output *o) QP_MUST_USE;

#endif
