/* carto.h - what the commands about traversals share */
#ifndef QP_CLI_CARTO_H
#define QP_CLI_CARTO_H

#include "cli/output.h"

/* The format of -o (carto/format.h); json is the default. */
int traversal_output(struct cli *c, const char **out_format);
/* The result of one that has ended, to stdout. */
int traversal_print(struct cli *c, const char *id, const char *format);

#endif
