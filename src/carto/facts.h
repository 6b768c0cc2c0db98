/* facts.h - what is known of packages: immutable facts of one universe, and how stages read them
 *
 * A fact is (name, value): the value is the type's own format (deb_fact.h). All facts of a type that belong together
 * are a universe; its hash names it, a request pins it, and so two requests of one universe read the same whatever is
 * imported meanwhile. Beside the facts stands the reverse index: pairs (target, source), "the fact `source` names
 * `target` in a relationship".
 *
 * Stages read through struct carto_facts: rows of a store, or a table in memory, are the same to them. A stage that
 * needs a fact which is not there answers which one (struct carto_outcome, type.h); it never waits.
 *
 * struct facts_table is a whole universe in memory: made by an import, or filled from the rows of a store. It never
 * changes once it is sealed, so any number of threads may read it.
 */
#ifndef QP_CARTO_FACTS_H
#define QP_CARTO_FACTS_H

#include "base/hash.h"
#include "base/mem.h"

struct carto_facts {
    const void *context;
    qp_str universe;
    /* QP_E_NOT_FOUND, without a sentence: there is none of this name. The value lives as long as the reader says,
     * at least until the stage returns. */
    int (*get)(const void *context, qp_str name, qp_str *out_value);
    /* The first name behind `after` in byte order, the first of all behind none; QP_E_NOT_FOUND at the end. */
    int (*next)(const void *context, qp_str after, qp_str *out_name);
    /* The first source behind `after` that names `target`; QP_E_NOT_FOUND at the end. */
    int (*source)(const void *context, qp_str target, qp_str after, qp_str *out_source);
};

struct fact {
    qp_str name;
    qp_str value;
};

/* A row of an import. */
struct import_fact {
    int64_t kind; /* enum fact_kind of the store */
    qp_str name;
    qp_str value;
};

struct fact_ref {
    qp_str target;
    qp_str source;
};

struct facts_table {
    const struct qp_env *env;
    struct arena memory;
    struct fact *facts; /* by name */
    size_t fact_count;
    size_t fact_room;
    struct fact_ref *refs; /* by (target, source), each once */
    size_t ref_count;
    size_t ref_room;
    char universe[LIMIT_ID_SIZE + 1]; /* its name; empty: it has none yet */
    bool is_sealed;
};

void facts_table_init(struct facts_table *t, const struct qp_env *env);
void facts_table_done(struct facts_table *t);
/* Names come in byte order, each once; names and values are copied. QP_E_NOMEM. */
int facts_table_add(struct facts_table *t, qp_str name, qp_str value) QP_MUST_USE;
/* In any order; copied. */
int facts_table_refer(struct facts_table *t, qp_str target, qp_str source) QP_MUST_USE;
/* Puts the references in order and takes the hash of all facts. Nothing is added afterwards. */
void facts_table_seal(struct facts_table *t);
/* The same for a table that was filled from rows, whose universe has its name already; references are not asked for. */
void facts_table_name(struct facts_table *t, qp_str universe);

struct carto_facts facts_table_reader(const struct facts_table *t);

/* The names nearest to one that is not there, as "curl, curl-doc": at most LIMIT_CARTO_NEAREST, none further away than
 * a third of its length; none: QP_NONE. Reads every name of the universe: for an error that is reported once. */
int facts_nearest(const struct carto_facts *f, struct arena *a, qp_str name,
                  qp_str *out_names) QP_MUST_USE;

#endif
