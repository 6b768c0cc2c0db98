/* names.h - what a name means: the one table of names of a handle
 *
 * (namespace, name) -> the kind of job that a start of it begins, and the version of its definition; and the same for
 * the topics of hooks, by which a signal finds its key. A name that is not in the table is a plain topic. The table is
 * loaded from the rows of app_topic and kept whole in memory, with the number of definitions that it is of.
 *
 * Inside of a commit names_find compares the commit's own number of definitions (bundle_definitions) with the known
 * one, and only when that is higher all rows are read again: so a commit never acts on less than what was committed
 * when it began, and a start reads no row. What a commit has learned after changing definitions itself counts for
 * this commit alone. A commit may be decided twice: each run compares again.
 *
 * Readers outside of commits get what is known; names_refresh looks again for them now and then. A look that fails
 * changes nothing, and the next one is made all the same. With every look each face drops what it keeps of definitions
 * that are gone (face.h, refresh).
 *
 * Owner: struct faces. Threads: a mutex inside; names_find without a bundle is for any thread, all others are for the
 * engine's, or for the only thread where there is no engine.
 */
#ifndef QP_KERNEL_NAMES_H
#define QP_KERNEL_NAMES_H

#include "store/store.h"

struct faces;
struct names;

/* Rows of definitions, in a commit or between two. */
struct look {
    struct bundle *bundle; /* NULL: between two commits, by `store` */
    struct store *store;
    struct qp_err *err;
};
int look_each(const struct look *at, const struct scan *scan, void *context,
              store_visit visit) QP_MUST_USE;

/* A start and a hook may have the same name: they are told apart. */
enum name_use { NAME_START, NAME_HOOK };

#define MEANS_NOTHING (-1)

struct meaning {
    int64_t kind;   /* of the face; MEANS_NOTHING: the name is not in the table */
    qp_str version; /* "app/version", as it stands on jobs; in the arena of the question */
};

/* The faces say which rows are theirs (face.name_kind, face.hook_kind); they outlive the table. */
int names_create(const struct qp_env *env, const struct faces *faces,
                 struct names **out_names) QP_MUST_USE;
void names_destroy(struct names *n);

/* What the name means: in a commit as that commit says, without a bundle as it is known. QP_E_UNSUPPORTED: the name
 * belongs to a kind that has no face here. */
int names_find(struct names *n, struct bundle *b, struct arena *a, int64_t ns, enum name_use use,
               qp_str name, struct meaning *out_meaning) QP_MUST_USE;

/* Whether that many names more are within LIMIT_APP_TOPICS, as the bundle's commit has them. */
int names_have_room(struct names *n, struct bundle *b, size_t count, bool *out_room) QP_MUST_USE;

/* Reads all names. Between commits, with any handle of the store; while there is an engine, on its thread alone, since
 * a commit must not lose what it has just learned. */
int names_refresh(struct names *n, struct store *s, struct qp_err *err) QP_MUST_USE;

/* A version's name, as it stands on its jobs: "app/version". */
int version_name(struct arena *a, qp_str app, qp_str version, qp_str *out_name) QP_MUST_USE;
/* Its two parts; false: it is no such name. */
bool version_split(qp_str name, qp_str *out_app, qp_str *out_version);

#endif
