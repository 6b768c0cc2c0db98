/* demo.h - the parts of quipu demo: the graph of an order, its worker, and a server that can be killed
 *
 * The demo is three processes, each a child of the one before it: the story (demo.c), the server
 * and the worker. They share a directory of their own and nothing else.
 */
#ifndef QP_CLI_DEMO_H
#define QP_CLI_DEMO_H

#include <sys/types.h>

#include "cli/output.h"

#define DEMO_WORKFLOW "order"
#define DEMO_APPROVE "approve"         /* the activity that waits */
#define DEMO_APPROVED "order.approved" /* for this signal */
#define DEMO_STEPS 4                   /* that a worker does */

struct demo_step {
    const char *name; /* of the activity, and of its topic */
    qp_ms takes_ms;
};
extern const struct demo_step demo_steps[DEMO_STEPS];

extern const char demo_graph[]; /* YAML */

/* In a child of its own: serves until SIGTERM. A byte into `ready` when it can be asked. Its exit
 * code. */
int demo_server(const char *dir, int ready);
/* Likewise: does the steps until SIGTERM; every call that it gets goes to the file `calls` before
 * it is answered. */
int demo_worker(struct cli *c, const char *dir);

#endif
