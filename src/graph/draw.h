/* draw.h - a compiled application as a picture in words: dot, mermaid, plain text, and as JSON
 *
 * Activities are boxes, gates of joins diamonds, the way back of a cycle is dashed. With the digits of a job's collation key
 * (one per activity, at activity->digit) boxes have the colour, or the digit, of their state. What people wrote
 * into titles and names is escaped for the form that it goes into.
 */
#ifndef QP_GRAPH_DRAW_H
#define QP_GRAPH_DRAW_H

#include "graph/graph.h"

enum draw_form { DRAW_DOT, DRAW_MERMAID, DRAW_TEXT };

/* All graphs of an application. Errors stick in the buffer. */
void draw_app(struct buf *out, const struct app *app, enum draw_form form);
/* One graph; `digits` has graph->digit_count of them, or is NULL. */
void draw_graph(struct buf *out, const struct graph *g, enum draw_form form, const char *digits);
/* What was compiled, as one JSON object. */
void draw_json(struct buf *out, const struct app *app);

/* "worker"; of a gate "join" */
const char *activity_type_name(enum activity_type type);

#endif
