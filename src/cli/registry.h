/* registry.h - the registry that the npm client on this machine is configured for (run/registry.h)
 *
 * What npm itself would use: `npm config list` says the registry, those of scopes, proxy and certificates; tokens stand in
 * the npmrc files that it names, and are sent to no other place than the one that they stand for. All of it is read
 * once, when a package is asked for first. A redirect to another host is refused.
 *
 * From any thread.
 */
#ifndef QP_CLI_REGISTRY_H
#define QP_CLI_REGISTRY_H

#include "run/registry.h"

/* NULL: no memory. It is closed behind the engine that uses it; NULL is ignored. */
const struct registry *registry_open(const struct qp_env *env);
void registry_close(const struct registry *registry);

#endif
