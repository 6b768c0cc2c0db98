/* atlas.h - what an engine keeps in memory for its traversals: universes of facts, and requests as they were read
 *
 * Both are made from rows that never change (a universe that was sealed; a trigger's input), so what is kept is always
 * what the rows say, whichever commit asks. They are loaded inside the commit that needs them first. Of a universe whose
 * facts are fetched, those are kept that were asked for: their names are hashes of what they are (npm_fact.h).
 *
 *   I1  a plan is found by its job, and only if the body is the same text: numbers of jobs that never came to be may be
 *       given out again
 *   I2  nothing goes while a commit may still hold slices of it: atlas_tidy runs between two rounds
 *
 * On the engine's thread alone.
 */
#ifndef QP_CARTO_ATLAS_H
#define QP_CARTO_ATLAS_H

#include "carto/plan.h"
#include "store/store.h"

struct atlas;

int atlas_open(const struct qp_env *env, const struct plan_types *types,
               struct atlas **out_atlas) QP_MUST_USE;
void atlas_close(struct atlas *l);
/* The types that a request may use: those that are built in, and of the registry those of the version; of no version all that
 * are registered now. In the arena of the commit. */
int atlas_types(const struct atlas *l, struct bundle *b, int64_t ns, qp_str version,
                struct plan_types *out_types, struct qp_err *err) QP_MUST_USE;

/* The universes of a request that is made now: the current ones, and of types that say which one theirs is that one, if the
 * plan uses the type; of a plan that names an external type all definitions of the registry: "type@name", with commas
 * between; none: there are none. */
int atlas_current(struct atlas *l, struct bundle *b, int64_t ns, const struct carto_plan *plan,
                  qp_str *out_version) QP_MUST_USE;
/* The name of a type's universe in a version; none: it has none. */
qp_str atlas_universe_of(qp_str version, const char *type);
/* Sets the facts of a plan's types to those of the version's universes, for this commit. QP_E_NOT_FOUND: one of them is
 * gone. */
int atlas_pin(struct atlas *l, struct bundle *b, int64_t ns, qp_str version,
              struct carto_plan *plan, struct qp_err *err) QP_MUST_USE;
/* The plan of a job, whose version and body are given. */
struct plan_of {
    struct job_ref job;
    qp_str version;
    qp_str body;
};
int atlas_plan(struct atlas *l, struct bundle *b, const struct plan_of *of,
               const struct carto_plan **out_plan) QP_MUST_USE;
/* Lets go of what is beyond LIMIT_CARTO_PLANS and LIMIT_CARTO_UNIVERSES, the oldest first. */
void atlas_tidy(struct atlas *l);

#endif
