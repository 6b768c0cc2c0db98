/* external_answer.h - what workers of external types answer, read and checked
 *
 * Every reader gives an outcome of CARTO_FAILED, METADATA_ERROR and a sentence for
 * what it cannot take, and QP_OK. What they give is checked: names that a row can have, no more than LIMIT_CARTO_RELATIONS.
 *
 *   SELECT-SYNC   {"status": "UNKNOWN"}: SELECT is asked; or an answer of SELECT with "status": "DONE"
 *   SELECT        {"selected": "pypi:flask@3.0"}; of a name without a version of its own also "virtual": true
 *   RESOLVE       {"relations": [{"target": "pypi:jinja2", "advice": ">=3", "scope": "runtime", "optional": true,
 *                                 "kind": "depends", "exclusions": ["pypi:x*"]}]}; all but `target` may be left out
 *   any           {"failure": "METADATA_MISSING", "message": "no such package"}
 *
 * Ordinals are the places in the list. Pure; any thread. What is made lives in the arena.
 */
#ifndef QP_CARTO_EXTERNAL_ANSWER_H
#define QP_CARTO_EXTERNAL_ANSWER_H

#include "carto/external.h"

/* *out_known false: SELECT is to be asked. */
int external_synced(struct arena *a, qp_str answer, struct carto_item *item, bool *out_known,
                    struct carto_outcome *outcome) QP_MUST_USE;
int external_selected(struct arena *a, qp_str answer, struct carto_item *item,
                      struct carto_outcome *outcome) QP_MUST_USE;
int external_relations(struct arena *a, qp_str answer, struct carto_relations *out,
                       struct carto_outcome *outcome) QP_MUST_USE;

#endif
