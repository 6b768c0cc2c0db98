/* graph_file.h - the text of an application, from a file and what it refers to
 *
 * A map with the one key $ref stands for what it names: 'parts/charge.yaml' a file, 'parts.yaml#/activities/charge' a part of one,
 * '#/definitions/charge' a part of the same file. A file is named from the directory of the file that refers to it, or from that of
 * the application's file, and lies in the latter or below. A top key `definitions` of the application's file is for such parts, and is left out.
 */
#ifndef QP_CLI_GRAPH_FILE_H
#define QP_CLI_GRAPH_FILE_H

#include "cli/cli.h"
#include "graph/graph.h"

/* The text of an application. One without references is as it stands in the file. Of one with references a text is made, in
 * JSON, whose lines are those of the file; what a reference has brought stands in the line of the reference, and `places` say
 * where everything was written. */
struct graph_place;
struct graph_text {
    const char *path;
    qp_str text;
    const struct graph_place *places; /* the last one first; NULL: it is the file's own text */
};

/* What is wrong was said. */
int graph_file_read(struct cli *c, const char *path, struct graph_text *out_text);

/* Compiles it, and says all that is wrong, each where it was written: EXIT_ERROR. The app is to be freed. */
int graph_file_compile(struct cli *c, const struct graph_text *text, struct app **out_app);

/* The same text with another version. */
int graph_file_with_version(struct cli *c, qp_str text, const char *version, qp_str *out_text);

#endif
