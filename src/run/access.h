/* access.h - records of access tokens, and of who did what
 *
 * The library keeps the records; making secrets, comparing them, and knowing what a role may do is up to
 * the server. Of a secret only a hash comes here.
 *
 *   I1  an id is given once; what a record says never changes, but for when it was revoked and last used
 *   I2  the audit only grows
 *
 * Calls that write return when it is on disk. None of them in the engine's callbacks, but audit_put.
 */
#ifndef QP_RUN_ACCESS_H
#define QP_RUN_ACCESS_H

#include "base/base.h"

struct access_token {
    qp_str id;     /* a name: [A-Za-z0-9._~:-]+ */
    qp_str hash;   /* of the secret, LIMIT_ACCESS_HASH_SIZE bytes */
    qp_str name;   /* for people; may be none */
    qp_str role;   /* a name */
    qp_str scopes; /* what it may do, as its owner writes it; may be none */
    qp_str spaces; /* pattern of namespaces; none: all */
    qp_str topics; /* pattern of topics; none: all */
    qp_ms created_at;
    qp_ms expire_at;  /* 0: never */
    qp_ms revoked_at; /* 0: not */
    qp_ms used_at;    /* 0: never */
};

/* A new record; created_at, revoked_at and used_at are not looked at. QP_E_EXISTS: the id is taken. */
int access_create(qp *q, const struct access_token *token, struct qp_err *err) QP_MUST_USE;
/* QP_E_NOT_FOUND. Doing it twice is no error; the first time stays. */
int access_revoke(qp *q, qp_str id, struct qp_err *err) QP_MUST_USE;
/* It was used, about now: written with some later commit. */
int access_used(qp *q, qp_str id, struct qp_err *err) QP_MUST_USE;

typedef int (*access_visit)(void *context, const struct access_token *token);
/* QP_E_NOT_FOUND. */
int access_get(qp *q, qp_str id, void *context, access_visit visit, struct qp_err *err) QP_MUST_USE;
/* All, revoked ones too, by id from the one after `after` (none: from the first). limit as in quipu.h. */
int access_list(qp *q, qp_str after, int64_t limit, void *context, access_visit visit,
                bool *out_more, struct qp_err *err) QP_MUST_USE;

/* One line of the audit. */
struct audit {
    qp_str ns;      /* none: about the whole store */
    qp_str actor;   /* id of a token, a user's name */
    qp_str action;  /* "job.cancel", "token.create", ... */
    qp_str target;  /* may be none */
    qp_str outcome; /* "ok", or the word of a code */
    qp_str detail;  /* where from, and what else; may be none */
};
/* Returns when it is on disk. */
int audit_add(qp *q, const struct audit *audit, struct qp_err *err) QP_MUST_USE;
/* Copies and queues it: it is written with the next commit. From any thread. QP_E_LIMIT. */
int audit_put(qp *q, const struct audit *audit, struct qp_err *err) QP_MUST_USE;

struct audit_entry {
    int64_t id;
    qp_ms at;
    struct audit audit;
};
typedef int (*audit_visit)(void *context, const struct audit_entry *entry);
/* The newest first, from the one before `before` (0: the newest). Of one namespace; none: what is about the
 * whole store. */
int audit_list(qp *q, qp_str ns, int64_t before, int64_t limit, void *context, audit_visit visit,
               bool *out_more, struct qp_err *err) QP_MUST_USE;

#endif
