/* type.h - package types: the table of functions of one, and the work items that they move
 *
 * Carto traverses a dependency graph (document 003). A request is a job. A work item is one visit of a package in it:
 * a target (type, name) with the advice of the relationship that led there. Its eight steps are stages:
 *
 *   REGISTER      a root becomes an item                                   type->root, stage_root
 *   SELECT-SYNC   is a version chosen already, or must the item wait?      by the mode of the type, or a worker's answer
 *   SELECT        target + advice -> one package version                   type->select
 *   RESOLVE-SYNC  are its relationships known?                             type->resolve answers CARTO_WANTS
 *   RESOLVE       package version -> relationships, in their order         type->resolve
 *   TRAVERSE      relationships -> next items, filtered                    stage_traverse
 *   END-DETECT    per level; stage_end gives the reason                    counts of all items
 *   FORMAT        items -> bytes                                           format.h
 *
 * How the face of carto uses this. Everything here is a pure function of (item, request, facts): no clock, no store, no
 * state. So the face calls stages inside a decision and writes what they answer in the same bundle; called again after
 * a crash, with another page size or on another node, they answer the same. The gate of a level does, in address order:
 *
 *   1  for each item: stage_select. CARTO_DONE or CARTO_AVOIDED: `selected` is set. CARTO_FAILED: the item ends.
 *      CARTO_WANTS: the named fact has to be fetched first; the item waits on the key of that fact, the holder of the
 *      key fetches and releases it with `all`. Of an ordered type the first item of a target holds the selecting key.
 *   2  in canonical order: is the node's context dominated by one that was expanded (context_dominates)? Then the item
 *      is DUPLICATE and remembers of which. The first item of a node has is_first set: formats rely on it.
 *   3  for each item that is not: stage_resolve, stage_traverse. The children are rows of the next level.
 *   4  the sums of struct carto_counts go to the job in the same commit; when a level has no items, or all further ones
 *      were cut, stage_end has the reason and FORMAT follows.
 *
 * A type with `external` is served by workers (external.h): the face sends the item to its topics and takes the same structs
 * from the answers. `--split` does this for built-in types as well. Of an external type without a topic for SELECT-SYNC that
 * step is the default of its mode. Items of an external ordered type are sent to SELECT at once, all of a level: the answer
 * to the first item of a target decides for all of them, so the result is the same as if the others had waited.
 *
 * Names: an id is "type:name", a package version "type:name@version". Strings in outputs live in the arena that is
 * given, in the facts, or in the request.
 */
#ifndef QP_CARTO_TYPE_H
#define QP_CARTO_TYPE_H

#include "base/json.h"
#include "carto/exclusions.h"
#include "carto/facts.h"
#include "carto/path.h"

/* CARTO_PURE: what is selected depends on the relationship alone, so items never wait for each other. CARTO_ORDERED:
 * the canonical-first item of a target decides for all of them. */
enum carto_mode { CARTO_PURE, CARTO_ORDERED };

struct carto_id {
    qp_str type;
    qp_str name;
};

struct carto_package {
    struct carto_id id;
    qp_str version; /* none: a name without a version of its own (virtual) */
};

/* What an item or a request failed of: X(NAME) */
#define CARTO_FAILURES(X)                                                                          \
    X(METADATA_ERROR)                                                                              \
    X(METADATA_MISSING)                                                                            \
    X(OVERCONSTRAINED_VERSION)                                                                     \
    X(UNDERCONSTRAINED_VERSION)                                                                    \
    X(UNSUPPORTED_SPEC)                                                                            \
    X(UNKNOWN_TYPE)                                                                                \
    X(LEVEL_LIMIT)                                                                                 \
    X(ITEM_LIMIT)                                                                                  \
    X(WORKER_LOST)
enum carto_failure {
    CARTO_NO_FAILURE,
#define CARTO_FAILURE_NAME(name) CARTO_##name,
    CARTO_FAILURES(CARTO_FAILURE_NAME)
#undef CARTO_FAILURE_NAME
        CARTO_FAILURE_COUNT
};
const char *carto_failure_text(enum carto_failure failure); /* "METADATA_MISSING"; "" for none */

/* States of an item that formats tell apart. The steps before the end are stages on the activity's row. */
enum carto_state { CARTO_OPEN, CARTO_ENDED, CARTO_DUPLICATE, CARTO_PRUNED, CARTO_FAILED_ITEM };
const char *carto_state_text(enum carto_state state);

/* One relationship, as a type resolves it. `via` is set when the item stands for another name: the edge then goes from
 * there (deb: a provider, via the name that it provides). */
struct carto_relation {
    uint64_t ordinal; /* its number among all of its source: the same whatever is filtered */
    struct carto_id target;
    qp_str advice;
    qp_str kind; /* of the edge: "depends", "provides"; the type's own word */
    qp_str via;
    enum carto_scope scope;
    bool is_optional;  /* when it fails that is no error of the result */
    qp_str exclusions; /* of what is below the target */
};

/* A WorkItem of document 003. Its id is the request's id and `path`; parent, ordinal and depth are in the path. */
struct carto_item {
    qp_str path; /* its key, path.h */
    struct carto_id target;
    qp_str advice;
    qp_str kind;
    qp_str via;
    struct carto_context context; /* traverse scope and exclusions */
    bool is_optional;
    bool is_selected;
    bool is_virtual;     /* a name that no package of its own has */
    bool advice_ignored; /* an override or the history has chosen against it */
    struct carto_package selected;
    enum carto_state state;
    bool is_first;       /* the first item of its node in canonical order */
    bool is_frontier;    /* it has relationships that the depth limit has cut */
    qp_str duplicate_of; /* path of the item that was expanded in its place */
    enum carto_failure failure;
    qp_str error; /* a sentence */
};

/* What a stage answers. A code other than QP_OK of the function itself means that the stage could not run (memory, a
 * damaged fact, the store): nothing about the item. */
enum carto_result { CARTO_DONE, CARTO_AVOIDED, CARTO_FAILED, CARTO_WANTS };

struct carto_outcome {
    enum carto_result result;
    enum carto_failure failure; /* of CARTO_FAILED */
    qp_str text; /* of CARTO_FAILED: a sentence; of CARTO_WANTS: the name of the fact */
};

struct carto_selection {
    struct carto_package package;
    bool is_virtual;
    bool advice_ignored;
};

struct carto_relations {
    struct carto_relation *rows;
    size_t count;
};

/* What a request has seen of a package whose facts are fetched: it never changes while the request is there. */
struct carto_pin {
    bool is_known;
    qp_str fact; /* names it; none: it could not be fetched */
    enum carto_failure failure;
    qp_str message;
};

struct carto_override {
    struct carto_id id;
    struct carto_package package; /* version none: the best one of that name */
};

struct carto_request;

struct carto_external;
struct carto_type {
    const char *name;
    const struct carto_external *external; /* NULL: it is built in */
    enum carto_mode mode;
    bool has_facts; /* of a universe, which must have been imported before a request can use it */

    /* The universe of a request that is made now; NULL: the one that is current. A universe `is_fetched` (NULL: none is)
     * when facts come into it as they are asked for. */
    int (*universe)(struct arena *a, const void *options, qp_ms now, qp_str *out_name);
    bool (*is_fetched)(qp_str universe);
    /* The package whose fact SELECT needs of such a universe; none: it needs nothing. */
    int (*wants)(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                 struct carto_id *out_id);

    /* Reads the type's own members of a request (NULL: none are given) into what its stages get. QP_E_SHAPE with a
     * pointer for what it does not take, also a scope that it has no data for. */
    int (*options)(struct arena *a, const struct json *given, enum carto_scope scope,
                   const void **out_options, struct qp_err *err);
    /* QP_E_INVALID: not a name of this type; `is_pattern` allows '*'. */
    int (*check_name)(qp_str name, bool is_pattern, struct qp_err *err);
    /* A root behind "type:", as people write it (curl, curl=7.88.1-10): the item's target, advice and, where a version
     * is given, its selection. QP_E_NOT_FOUND, with the nearest names: there is no such package, or no such version. */
    int (*root)(const struct carto_request *r, struct arena *a, qp_str text, struct carto_item *out,
                struct qp_err *err);
    /* A root "type:*": the next package behind `after` by name, none: the first. NULL: the type takes no such root. */
    int (*next_root)(const struct carto_request *r, qp_str after, bool *out_found, qp_str *out_name,
                     struct qp_err *err);
    /* Whether the package of an override exists. */
    int (*check_override)(const struct carto_request *r, struct arena *a,
                          const struct carto_override *override, struct qp_err *err);

    /* CARTO_WANTS of an external type: a worker is to be asked. */
    int (*select)(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                  struct carto_selection *out, struct carto_outcome *outcome, struct qp_err *err);
    int (*resolve)(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                   struct carto_relations *out, struct carto_outcome *outcome, struct qp_err *err);
};

/* One type as a request uses it. */
struct carto_use {
    const struct carto_type *type;
    const struct carto_facts
        *facts; /* of the pinned universe; NULL: the type has none of its own */
    const void *options;
    bool is_fetched; /* which fact of a package counts is what `pinned` says */
    bool is_named;   /* by the request */
};

#define CARTO_NO_DEPTH (-1)

struct carto_request {
    const struct carto_use *uses; /* the known types */
    size_t use_count;
    int64_t depth; /* the deepest level that has items, or CARTO_NO_DEPTH */
    struct carto_context context;
    const struct carto_override *overrides;
    size_t override_count;
    /* What an earlier item has selected for a target, for ordered types; NULL: there is no history. */
    int (*history)(void *context, struct carto_id id, bool *out_found, struct carto_package *out);
    void *history_context;
    /* What the request has seen of a package; NULL: no facts are fetched. */
    int (*pinned)(void *context, struct carto_id id, struct carto_pin *out);
    void *pinned_context;
};

const struct carto_use *carto_use_of(const struct carto_request *r, qp_str type);
/* The package that an override, or else the history, gives for a target. */
int carto_chosen(const struct carto_request *r, struct carto_id id, bool *out_found,
                 struct carto_package *out) QP_MUST_USE;
/* "deb, npm": for errors about a type that is not known. */
int carto_known_types(const struct carto_request *r, struct arena *a, qp_str *out) QP_MUST_USE;

/* A copy in the arena of a formatted text; QP_E_NOMEM. */
int carto_print(struct arena *a, qp_str *out, const char *format, ...) QP_PRINTF(3, 4) QP_MUST_USE;

#endif
