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

/* create.c: the directory part of a path, into `out`. */
void sqlite_directory_of(const char *path, char out[SQLITE_PATH_SIZE + 1]);
/* Where there is no file yet: a new one, of this schema. The lock is ours. */
int opening_create(struct opening *o) QP_MUST_USE;
/* The steps from this schema to the one that this program knows. */
int opening_migrate(struct opening *o, int64_t version) QP_MUST_USE;

/* inspect.c: whose the file is, and of which version, from its first page. */
int opening_check_header(struct opening *o) QP_MUST_USE;
/* Whether this program knows the schema's version. */
int opening_check_version(struct opening *o) QP_MUST_USE;
int opening_check_encoding(struct opening *o) QP_MUST_USE;
/* Whether tables, indexes and triggers are those of this version, and no others. */
int opening_check_schema(struct opening *o) QP_MUST_USE;
/* Whether the commits that were answered are there (I3 of lock.c). */
int opening_check_position(struct opening *o) QP_MUST_USE;
/* With store_options.full_check: every page. */
int opening_check_pages(struct opening *o) QP_MUST_USE;

#endif
