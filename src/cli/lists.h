/* lists.h - lists of the API, page by page, in the way that was asked for */
#ifndef QP_CLI_LISTS_H
#define QP_CLI_LISTS_H

#include "cli/output.h"

struct list {
    const char *path;
    const char *query; /* beside limit and cursor; "" */
    const struct table_column *columns;
    size_t column_count;
    const char *name; /* the member that -q prints */
    bool whole;       /* it has no pages */
    output_line line; /* for people: a line for each item, and no table; NULL: a table */
    void *line_context;
};

/* Reads as many items as --limit, --all and --cursor say, and prints them. */
int list_run(struct cli *c, const struct list *list);

#endif
