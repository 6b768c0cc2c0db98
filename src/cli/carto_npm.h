/* carto_npm.h - files of npm for quipu carto */
#ifndef QP_CLI_CARTO_NPM_H
#define QP_CLI_CARTO_NPM_H

#include "cli/output.h"

/* What files of npm say for a request. */
struct npm_given {
    const char *universe; /* of the packuments of --packuments, or of a lock; NULL: the registry */
    const char *root;     /* what the argument that names a file stands for; NULL: none does */
    qp_str manifest;      /* a package.json; none: there is none */
    struct json *overrides; /* of it: of a package the text that is taken; NULL: none */
};
/* Reads them, and sends facts. The overrides are freed with json_free. */
int carto_npm_files(struct cli *c, struct npm_given *out);
/* Whether an argument names a file: npm:./package.json, npm:/a/package-lock.json. */
bool carto_npm_is_file(const char *argument);

#endif
