/* registry.h - a registry of packages, as the program asks it
 *
 * The library makes no HTTP requests: whoever opens an engine that fetches packages gives it one of these.
 */
#ifndef QP_RUN_REGISTRY_H
#define QP_RUN_REGISTRY_H

#include "base/mem.h"

#define REGISTRY_TAG_SIZE 256

struct registry_question {
    qp_str package;
    bool whole;                            /* with the times of versions */
    char etag[REGISTRY_TAG_SIZE];          /* of what is kept; empty: nothing is, or it had none */
    char last_modified[REGISTRY_TAG_SIZE]; /* likewise */
};

struct registry_reply {
    int status;      /* of HTTP; 0: there was no answer, and `why` says it */
    bool is_refused; /* `why` is final: asking again would not help */
    bool is_html;
    struct buf body;
    char etag[REGISTRY_TAG_SIZE];
    char last_modified[REGISTRY_TAG_SIZE];
    char why[QP_ERR_TEXT_SIZE];
};

/* From any of the threads that work. Codes other than QP_OK: it could not even ask; the task fails, and is tried again. */
struct registry {
    void *context;
    int (*get)(void *context, const struct registry_question *question,
               struct registry_reply *reply);
    /* Names the registry that a package comes from: what is kept of another one is not used. */
    int (*source)(void *context, qp_str package, char out_source[REGISTRY_TAG_SIZE],
                  struct qp_err *err);
};

#endif
