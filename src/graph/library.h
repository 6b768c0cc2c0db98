/* library.h - the applications of a store, compiled
 *
 * An application's text is compiled once per process and version; what came out never changes, so a job that is
 * pinned to a version is served from here. Which version a name means now is the kernel's to say (kernel/names.h);
 * with each of its looks library_confirm finds the versions whose rows are gone: what was compiled of them is used no
 * more.
 *
 * Threads: a mutex inside. What the engine's thread gets is good until library_tidy, which only that thread calls
 * and only between rounds; other threads pin what they use.
 */
#ifndef QP_GRAPH_LIBRARY_H
#define QP_GRAPH_LIBRARY_H

#include "graph/graph.h"
#include "kernel/names.h"
#include "store/store.h"

struct library;

/* How rows are read: inside of a commit, or between two. *out_row NULL: there is none. */
struct row_reader {
    void *context;
    int (*get)(void *context, enum table_id table, const void *key, const void **out_row);
    struct bundle *bundle; /* NULL: between two commits */
};
struct row_reader reader_in(struct bundle *bundle);

/* Between two commits, with any handle of the store; what is read lives in the arena. `between` lives as long as the
 * reader. */
struct between {
    struct store *store;
    struct arena *arena;
};
struct row_reader reader_between(struct between *between);

int library_create(const struct qp_env *env, struct library **out_library) QP_MUST_USE;
void library_destroy(struct library *l);
const struct qp_env *library_env(const struct library *l);

/* The compiled application of a version. QP_E_NOT_FOUND: it is not in the store; QP_E_INVALID: its text does not
 * compile here (an older program with a newer text). */
int library_app(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                const struct app **out_app) QP_MUST_USE;
/* The same for other threads than the engine's: until library_unpin. */
int library_pin(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                const struct app **out_app) QP_MUST_USE;
void library_unpin(struct library *l, const struct app *app);

/* Whether a job may begin with this version: it is there, and was not deleted. */
int library_is_open(const struct row_reader *reader, int64_t ns, qp_str name,
                    bool *out_open) QP_MUST_USE;

/* Versions whose rows are gone, or are those of a later deployment under the same name, are used no more. A look that
 * fails changes nothing. */
int library_confirm(struct library *l, const struct look *at) QP_MUST_USE;
/* The engine is at rest: versions that were not used lately go, if there are too many. */
void library_tidy(struct library *l);

#endif
