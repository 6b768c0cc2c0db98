/* inspect.h - whether a file is a SQLite store of ours, and whole
 *
 * The steps belong to one sqlite_open (opening.h), on its thread.
 */
#ifndef QP_STORE_SQLITE_INSPECT_H
#define QP_STORE_SQLITE_INSPECT_H

#include "store/sqlite/opening.h"

/* Whose the file is, and of which version, from its first page. */
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
