/* library.h - the applications of a store, compiled, for whoever needs them
 *
 * An application's text is compiled once per process and version; what came out never changes, so a job that is
 * pinned to a version is served from here. What each topic means now, the graph that a start of it begins or the
 * hooks that wait there, is kept whole in memory, with the number of definitions that it is of. A commit that asks
 * compares its own number (bundle_definitions), and when that is higher all topics are read again inside of it: so a
 * commit never acts on less than what was committed when it began, and a start reads no row. What a commit has
 * learned after changing definitions itself counts for this commit alone. The same look finds versions whose rows are
 * gone: what was compiled of them is used no more.
 *
 * Readers outside of commits get what is known; library_refresh looks again for them now and then. A look that fails
 * changes nothing, and the next one is made all the same.
 *
 * Threads: a mutex inside. What the engine's thread gets is good until library_tidy, which only that thread calls
 * and only between rounds; other threads pin what they use.
 */
#ifndef QP_GRAPH_LIBRARY_H
#define QP_GRAPH_LIBRARY_H

#include "graph/graph.h"
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

/* A version's name, as it stands on its jobs: "app/version". */
int version_name(struct arena *a, qp_str app, qp_str version, qp_str *out_name) QP_MUST_USE;
/* Its two parts; false: it is no such name. */
bool version_split(qp_str name, qp_str *out_app, qp_str *out_version);

/* The compiled application of a version. QP_E_NOT_FOUND: it is not in the store; QP_E_INVALID: its text does not
 * compile here (an older program with a newer text). */
int library_app(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                const struct app **out_app) QP_MUST_USE;
/* The same for other threads than the engine's: until library_unpin. */
int library_pin(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                const struct app **out_app) QP_MUST_USE;
void library_unpin(struct library *l, const struct app *app);

enum topic_kind { TOPIC_GRAPH, TOPIC_HOOK };

/* The name of the version that a topic belongs to now; none: to none. A copy in the arena. Inside of a commit: as it
 * says itself. */
int library_topic(struct library *l, const struct row_reader *reader, struct arena *a, int64_t ns,
                  enum topic_kind kind, qp_str topic, qp_str *out_name) QP_MUST_USE;

/* Whether a job may begin with this version: it is there, and was not deleted. */
int library_is_open(const struct row_reader *reader, int64_t ns, qp_str name,
                    bool *out_open) QP_MUST_USE;

/* Whether that many topics more are within LIMIT_APP_TOPICS, as the bundle's commit has them. */
int library_has_room(struct library *l, struct bundle *b, size_t topics,
                     bool *out_room) QP_MUST_USE;

/* Reads what all topics mean. Between commits, with any handle of the store; while there is an engine, on its thread
 * alone, since a commit must not lose what it has just learned. */
int library_refresh(struct library *l, struct store *s, struct qp_err *err) QP_MUST_USE;
/* The engine is at rest: versions that were not used lately go, if there are too many. */
void library_tidy(struct library *l);

#endif
