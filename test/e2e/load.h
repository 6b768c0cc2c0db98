/* load.h - clients, workers and a deployer that go on whatever happens to the nodes
 *
 * Every request goes to a node by chance, and is repeated, on any node, until it is acknowledged. What was asked and what
 * was acknowledged goes into the record.
 */
#ifndef QP_TEST_E2E_LOAD_H
#define QP_TEST_E2E_LOAD_H

#include "e2e/record.h"

struct load;

/* The first version is active when it returns. */
struct load *load_start(struct record *r, uint64_t seed);
/* Clients and deployer finish what they have begun; then no job is open, and the workers end. False: some job is still
 * open after the time that leases take. */
bool load_stop(struct load *l);
/* The same, but jobs that are open stay open: those whose signals a store has lost never end. */
void load_abandon(struct load *l);

#endif
