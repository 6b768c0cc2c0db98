/* strict.h - the option --strict: what no worker and no graph answers to is not sent */
#ifndef QP_CLI_STRICT_H
#define QP_CLI_STRICT_H

#include "cli/output.h"

/* With --strict: a topic that no worker serves and no graph answers to is refused before anything is sent. */
int strict_check(struct cli *c, const char *topic);

#endif
