/* carto_import.h - sending facts of a universe */
#ifndef QP_CLI_CARTO_IMPORT_H
#define QP_CLI_CARTO_IMPORT_H

#include "carto/facts.h"
#include "cli/ask.h"

/* Sends all facts of a universe in pages; it is current with the last one. */
int carto_send_facts(struct cli *c, const char *type, const struct facts_table *table,
                     int64_t *out_sent);

#endif
