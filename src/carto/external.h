/* external.h - package types that workers serve, made from a definition
 *
 *   PUT /v1/traversals/types/pypi  {"mode": "pure", "select": TOPIC, "resolve": TOPIC, "select-sync": TOPIC}
 *
 * All but `mode` may be left out: TOPIC is carto.STEP.pypi then, and without `select-sync` SELECT-SYNC is the default of
 * the mode. A topic of one's own does not begin with "carto.", so that no worker of another type gets the tasks.
 *
 * What they answer: external_answer.h. Pure; any thread. What is made lives in the arena.
 */
#ifndef QP_CARTO_EXTERNAL_H
#define QP_CARTO_EXTERNAL_H

#include "carto/type.h"

struct carto_external {
    struct carto_type type; /* whose `external` is this */
    qp_str name;
    qp_str universe;    /* of its definition: names it, as long as it is the same */
    qp_str select_sync; /* the topic; none: the default of the mode */
    qp_str select;
    qp_str resolve;
};

/* QP_E_INVALID: [a-z][a-z0-9.+-]*, at most LIMIT_CARTO_TYPE_SIZE bytes. */
int external_check_name(qp_str name, struct qp_err *err) QP_MUST_USE;
/* Names of packages (patterns of them may have '*') and versions. */
bool external_word_is_good(qp_str word, bool is_pattern);
/* A definition, as it is sent or was stored. QP_E_SHAPE, with a pointer. */
int external_read(struct arena *a, qp_str name, qp_str definition,
                  const struct carto_external **out_external, struct qp_err *err) QP_MUST_USE;
/* All that it says, as it is stored. */
int external_write(struct arena *a, const struct carto_external *e, qp_str *out_text) QP_MUST_USE;

/* The options of a request for the type, as JSON; none: it has none. */
qp_str external_options(const struct carto_use *use);

#endif
