/* create.h - a new file of a SQLite store, and the steps from an older schema
 *
 * The steps belong to one sqlite_open (opening.h), on its thread.
 */
#ifndef QP_STORE_SQLITE_CREATE_H
#define QP_STORE_SQLITE_CREATE_H

#include "store/sqlite/opening.h"

/* The directory part of a path, into `out`. */
void sqlite_directory_of(const char *path, char out[SQLITE_PATH_SIZE + 1]);
/* Where there is no file yet: a new one, of this schema. The lock is ours. */
int opening_create(struct opening *o) QP_MUST_USE;
/* The steps from this schema to the one that this program knows. */
int opening_migrate(struct opening *o, int64_t version) QP_MUST_USE;

#endif
