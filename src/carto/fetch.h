/* fetch.h - facts that are fetched while a traversal runs
 *
 * Of a type whose universe is fetched, SELECT needs one fact per package. In phase `select` of a level the first item of a
 * package that the request has not seen gets a task on the topic carto.fetch.TYPE; the barrier behind the phase lets the level
 * run when all of them have answered (ADR 46). What a task has answered is the package's pin, a row of the job's data:
 *
 *   {"fact": NAME}                       its fact, in the universe CARTO_FETCHED of the type
 *   {"failure": KIND, "message": TEXT}   it cannot be had
 *   ?                                    it was asked for
 *
 * A pin is written once: whatever the registry says later, this request has seen that. The universe grows; its facts are
 * named by what they are, so requests share them and none changes.
 *
 *   I1  a fact is in the store before its task answers, so a pin never names one that is not there
 *   I2  the universe goes only while no traversal is open (import.h)
 *
 * If we crash before the answer is committed, the task is delivered again; what it has stored is there.
 */
#ifndef QP_CARTO_FETCH_H
#define QP_CARTO_FETCH_H

#include "carto/rows.h"

#define CARTO_FETCHED QP_STR("fetched") /* the name of the universe that grows */
#define PIN_ASKED QP_STR("?")

int fetch_topic(struct arena *a, qp_str type, qp_str *out_topic) QP_MUST_USE;
/* The name of the row of a package's pin. */
int pin_name(struct arena *a, struct carto_id id, qp_str *out_name) QP_MUST_USE;
/* A pin as its row says; none: there is no row. QP_E_CORRUPT. */
int pin_read(const struct qp_env *env, struct arena *a, qp_str text,
             struct carto_pin *out) QP_MUST_USE;
/* What a task answers. */
int pin_write(struct arena *a, const struct carto_pin *pin, qp_str *out_text) QP_MUST_USE;

/* The package that an item needs a fact of, before it can be selected; no name: none. */
int fetch_wants(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                struct carto_id *out_id) QP_MUST_USE;

#endif
