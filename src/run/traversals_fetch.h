/* traversals_fetch.h - fetching packuments of npm: tasks of carto.fetch.npm (carto/fetch.h)
 *
 * The library makes no HTTP requests: the program gives it a registry, which asks. What is here is everything else: what is
 * asked, what is kept of the answer, and what an answer that is none means. A packument is kept for all traversals:
 *
 *   asked within LIMIT_NPM_FRESH_MS   nothing is asked
 *   later                             with If-None-Match and If-Modified-Since; 304: what is kept is good
 *
 * A request with a date needs the times of versions: the whole packument is asked for. Without one the short form will do,
 * unless the package was changed after the traversal began.
 */
#ifndef QP_RUN_TRAVERSALS_FETCH_H
#define QP_RUN_TRAVERSALS_FETCH_H

#include "run/registry.h"

/* Serves the topic, if it is one of `topics` (traversals_serve) and there is a registry; that stays the caller's, and there while the engine is open. */
int traversals_fetch(qp *q, const char *topics, const struct registry *registry,
                     struct qp_err *err) QP_MUST_USE;

#endif
