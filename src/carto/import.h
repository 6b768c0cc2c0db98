/* import.h - facts come into the store: a page per command, and whole or not at all
 *
 *   request_import, any number of times, each with facts .. the last one with `complete`
 *
 * A page is one commit. The universe is made by the first page and becomes the current one with the last, if it has as
 * many facts as that says; until then no traversal sees it. A page that comes twice changes nothing. If an import is cut
 * off, the next import of the same lists goes on with it. An import of lists that are current already has nothing to do:
 * `is_current` says so after its first page.
 *
 * A page of facts that were fetched `grows` a universe (fetch.h): it never becomes current, and its facts count at once.
 *
 * Universes that are neither current nor needed by an open traversal are dropped by request_universes_tidy, in pages.
 */
#ifndef QP_CARTO_IMPORT_H
#define QP_CARTO_IMPORT_H

#include "carto/facts.h"
#include "kernel/request.h"

struct request_import {
    struct command command;
    int64_t ns;
    qp_str type;
    qp_str universe; /* its name */
    const struct import_fact *facts;
    size_t fact_count; /* at most LIMIT_CARTO_PAGE_FACTS */
    bool grows;        /* these were fetched */
    int64_t complete;  /* > 0: this is the last page, and the universe has this number of facts */
    bool is_current;   /* after: it is current */
    struct refusal refusal;
};
/* QP_E_CONFLICT: it has another number of facts; QP_E_SHAPE: a fact that is none. */
void request_import(struct request_import *r);

struct request_tidy {
    struct command command;
    int64_t ns;
    bool more; /* after: ask again */
};
void request_universes_tidy(struct request_tidy *r);

#endif
