/* route.h - the one list of what can be asked
 *
 * routes.def has a row for every address and method: who may ask (a row without a scope does not
 * compile), the handler, the parameters of its query, the schemas of its body and of its answer,
 * and a sentence. It drives dispatch, the check of tokens, /openapi.json, the tests' matrix of
 * permissions and the command line.
 */
#ifndef QP_SERVER_ROUTE_H
#define QP_SERVER_ROUTE_H

#include "server/call.h"

enum route_flags {
    ROUTE_SPACED = 1,   /* is about one namespace: takes ?namespace= */
    ROUTE_BODY = 2,     /* has a JSON body */
    ROUTE_BLOCKS = 4,   /* its handler waits for the store: it runs on a thread of the crew */
    ROUTE_STREAMS = 8,  /* also answers Accept: text/event-stream */
    ROUTE_REPEATS = 16, /* takes an Idempotency-Key */
    ROUTE_RAW = 32,     /* answers something else than an object of a schema */
    ROUTE_AUDITED = 64, /* goes into the audit, whatever comes of it */
    ROUTE_WHOLE = 128,  /* is about the whole store: not for a token of some namespaces */
    ROUTE_YAML = 256,   /* its body may be YAML as well, and is checked by the handler then */
    ROUTE_BRIEF = 512,  /* is answered within a second, whatever the store does */
    /* What the items of its lists bring is checked one by one, by the handler. */
    ROUTE_PARTS = 1024,
    ROUTE_DRY = 2048, /* with "dry_run": true in its body it needs the scope read, and no other */
    ROUTE_FOREIGN =
        4096, /* is for clients of others: parameters that it does not know are passed over */
};
#define ROUTE_FRAME 3 /* levels of such a body: the object, the list, its item */

struct route {
    const char *name; /* operationId */
    enum api_method method;
    const char *path; /* "/v1/jobs/{id}" */
    int scope;        /* enum api_scope, or SCOPE_OPEN */
    int flags;
    const char *parameters; /* of the query, separated by spaces: names of parameters.def */
    const char *body;       /* name of a schema, or NULL */
    const char *answer;     /* likewise */
    int status;             /* of success */
    const char *summary;
    void (*endpoint)(struct api_call *c);
};

/* All that one listener can be asked. */
struct route_table {
    const struct route *routes;
    size_t count;
};
extern const struct route_table api_routes; /* those of routes.def */

const struct route *route_at(size_t index); /* of api_routes; NULL past the end */

/* The route of a method and path. NULL with *out_allow NULL: there is no such address; NULL with
 * the methods that it takes: not this one. `parts` get what stands at the {places}, as it was
 * sent. */
const struct route *route_find(const struct route_table *table, enum api_method method, qp_str path,
                               qp_str parts[CALL_PARTS], const char **out_allow);

const char *method_word(enum api_method method);
enum api_method method_from(qp_str word);

/* "%2F" and the like become bytes, in the arena. False: a malformed escape, a NUL, or invalid
 * UTF-8. `plus`: a plus sign is a space. */
bool percent_decode(struct arena *a, qp_str text, bool plus, qp_str *out_text) QP_MUST_USE;

#endif
