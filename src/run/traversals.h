/* traversals.h - traversals of dependency graphs, for the server and the command line: imports, FORMAT, results
 *
 * A traversal is a job of the name `carto` (carto/face.h): it is started, cancelled and deleted as any other. What is here
 * is what only traversals have. From any thread.
 */
#ifndef QP_RUN_TRAVERSALS_H
#define QP_RUN_TRAVERSALS_H

#include "carto/result.h"

/* Adds the workers of the steps that this process serves: topics with commas, like "carto.resolve.deb,carto.format"; NULL:
 * all. */
int traversals_serve(qp *q, const char *topics, struct qp_err *err) QP_MUST_USE;
/* Whether a list of topics with commas has this one; NULL has all. */
bool traversals_serves(const char *topics, qp_str topic);

/* A page of facts (carto/import.h). */
struct traversal_page {
    qp_str ns; /* none: the handle's own */
    qp_str type;
    qp_str universe;
    const struct import_fact *facts;
    size_t fact_count;
    int64_t complete;
    bool grows; /* these were fetched */
    bool out_current;
};
int traversals_import(qp *q, struct traversal_page *page, struct qp_err *err) QP_MUST_USE;
/* The same in a namespace by its number; `ns` of the page is not read. */
int traversals_import_in(qp *q, int64_t ns, struct traversal_page *page,
                         struct qp_err *err) QP_MUST_USE;
/* Lets go of lists that no traversal needs any more. */
int traversals_tidy(qp *q, qp_str ns, struct qp_err *err) QP_MUST_USE;

/* The state of a traversal, in one read. QP_E_NOT_FOUND: no such job, or it is no traversal. */
typedef int (*traversal_visit)(void *context, const struct job_row *job,
                               const struct result_state *state);
int traversals_state(qp *q, qp_str ns, qp_str id, void *context, traversal_visit visit,
                     struct qp_err *err) QP_MUST_USE;

/* The result as bytes. QP_E_BUSY: it is not there yet; QP_E_CORRUPT: its rows have changed since FORMAT. */
int traversals_result(qp *q, qp_str ns, qp_str id, enum carto_format format, void *context,
                      carto_sink sink, struct qp_err *err) QP_MUST_USE;

/* What has happened, a line each: what stands there never changes, and a traversal that runs adds to it. */
int traversals_log(qp *q, qp_str ns, qp_str id, struct buf *out, struct qp_err *err) QP_MUST_USE;

/* Packages of deb that name this one in a relationship, by name; recursively also those that name them, breadth first.
 * QP_E_NOT_FOUND: nothing is imported, or the package is not known. */
struct traversal_rdepends {
    qp_str ns;
    qp_str name;
    qp_str arch;     /* none: amd64 */
    unsigned fields; /* DEB_FIELDS_NEEDED or DEB_FIELDS_ALL */
    bool is_recursive;
};
typedef int (*rdepends_visit)(void *context, qp_str on, qp_str name);
int traversals_rdepends(qp *q, const struct traversal_rdepends *of, void *context,
                        rdepends_visit visit, struct qp_err *err) QP_MUST_USE;

#endif
