/* carto.h - what the commands about traversals share */
#ifndef QP_CLI_CARTO_H
#define QP_CLI_CARTO_H

#include "cli/output.h"

/* The format of -o (carto/format.h); json is the default. */
int traversal_output(struct cli *c, const char **out_format);
/* Traverses from the roots that the arguments name, as the options say, and waits. EXIT_FAILED with --strict: it has a
 * result, with errors in it. */
int traversal_run(struct cli *c, const char **out_id);
/* The result of one that has ended: its text, or to stdout. */
int traversal_ask(struct cli *c, const char *id, const char *format, struct reply *out_reply);
int traversal_print(struct cli *c, const char *id, const char *format);

#endif
