/* agentrows.h - the rows of one instance in two ordered maps, for tests without a store */
#ifndef QP_TEST_AGENTROWS_H
#define QP_TEST_AGENTROWS_H

#include "agent/stored.h"
#include "base/omap.h"

struct agentrows {
    struct omap data;  /* name -> value */
    struct omap works; /* address -> definition */
    int64_t written;   /* rows, so far */
    int64_t read;
};

void agentrows_init(struct agentrows *rows, const struct qp_env *env);
void agentrows_done(struct agentrows *rows);
struct row_source agentrows_source(struct agentrows *rows);
struct row_sink agentrows_sink(struct agentrows *rows);

#endif
