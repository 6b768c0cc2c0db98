/* npm_config.h - what the npm client on this machine is configured for
 *
 * `npm config list --long --json` gives the merged configuration without secrets; the npmrc files that it names, the one in
 * the working directory and variables npm_config_//... have those. A token belongs to a place, "//host/path/", and is for
 * URLs below it. Owner: the caller; after npm_config_read any thread may read it.
 */
#ifndef QP_CLI_NPM_CONFIG_H
#define QP_CLI_NPM_CONFIG_H

#include "base/json.h"

struct npm_secret {
    struct npm_secret *next;
    qp_str place;  /* "//host/path/" */
    qp_str member; /* "_authToken", "_auth", "username", "_password" */
    qp_str value;
};

struct npm_scope {
    struct npm_scope *next;
    qp_str scope; /* "@scope" */
    const char *url;
};

struct npm_config {
    struct arena arena;
    const char *registry; /* with a '/' at its end */
    struct npm_scope *scopes;
    struct npm_secret *secrets; /* the first of a place and member counts */
    const char *cafile;         /* NULL: the system's */
    const char *proxy;          /* "": none */
    const char *https_proxy;
    const char *noproxy; /* with commas */
    bool is_strict;      /* certificates are checked */
};

/* To be closed after a failure, too. */
int npm_config_read(struct npm_config *c, const struct qp_env *env, struct qp_err *err) QP_MUST_USE;
void npm_config_done(struct npm_config *c);

/* Where a package comes from. */
const char *npm_config_registry(const struct npm_config *c, qp_str package);
/* The value of the header Authorization for a URL, in `out`; empty: there is none. */
void npm_config_authorization(const struct npm_config *c, const char *url, struct buf *out);

#endif
