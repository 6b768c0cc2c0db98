/* opening.h - what the files that open a SQLite store share: open.c, create.c, inspect.c
 *
 * An opening lives as long as sqlite_open; the provider that it fills is the caller's. One thread.
 */
#ifndef QP_STORE_SQLITE_OPENING_H
#define QP_STORE_SQLITE_OPENING_H

#include "store/sqlite/sqlite_internal.h"

struct opening {
    struct sqlite_provider *p;
    const struct store_options *options;
    char path[SQLITE_PATH_SIZE + 1];
    struct stat stat;
    bool exists;
    struct qp_err *err;
};

static inline int opening_refuse(const struct opening *o, int code, const char *text)
{
    return err_set(o->err, code, "'%s': %s", o->path, text);
}

#endif
