/* auth.h - tokens: who may ask for what
 *
 * A token is qp_<role>_<id>_<secret>: the role is for people, the id finds the record, the
 * secret is 256 random bits of which only the SHA-256 is kept (there is nothing to guess, so
 * nothing to slow down). Records are in the store; those that were used lately are kept here for
 * AUTH_KEEP_MS, so that the usual call asks nobody. A revoked token is refused at once by the
 * process that revoked it, and after that time by others that share the database.
 *
 * Threads: all functions from any thread.
 */
#ifndef QP_SERVER_AUTH_H
#define QP_SERVER_AUTH_H

#include "base/hash.h"
#include "server/call.h"

struct auth;

#define TOKEN_TEXT_SIZE 128
#define AUTH_BURST_S 2

/* `rate`: requests per second that one token may make, with AUTH_BURST_S of them at once; 0: any. */
int auth_create(qp *engine, const struct qp_env *env, int64_t rate,
                struct auth **out_auth) QP_MUST_USE;
void auth_destroy(struct auth *a);

/* The principal of "Bearer qp_...", as far as it is known without asking the store: QP_OK;
 * QP_E_NOT_FOUND: it is no token, or a wrong one; QP_E_LIMIT: it has asked too often, and may
 * again within a second; QP_E_BUSY: the store has to be asked, with auth_ask, which may wait. Other
 * errors of auth_ask are those of the store, and say nothing about the token. */
int auth_known(struct auth *a, qp_str authorization, struct principal *out_who) QP_MUST_USE;
int auth_ask(struct auth *a, qp_str authorization, struct principal *out_who) QP_MUST_USE;

/* A record was changed: what is known of it is forgotten. */
void auth_forget(struct auth *a, qp_str id);

/* A new token, as text that is shown once. `scopes` of its role. */
struct token_wish {
    qp_str role;
    qp_str namespaces; /* glob; none: all */
    qp_str topics;     /* glob; none: all */
    qp_str name;       /* for people; none allowed */
    qp_ms expires_at;  /* 0: never */
};
int auth_issue(struct auth *a, const struct token_wish *wish, char out_token[TOKEN_TEXT_SIZE],
               char out_id[LIMIT_TOKEN_ID_SIZE + 1], struct qp_err *err) QP_MUST_USE;
/* Makes sure that there is a token for an administrator. A new one is given to `keep` first, and is good for something
 * only afterwards: if we crash between the two, nobody is locked out by a token that nobody has, and the next
 * start makes another. With a code of keep's there is none. */
typedef int (*auth_keep)(void *context, const char *token, struct qp_err *err);
int auth_first(struct auth *a, void *context, auth_keep keep, struct qp_err *err) QP_MUST_USE;

/* The tokens of tasks are made with a key that nobody but the servers of a store has: it is a record among the
 * others, which no token fits and no list shows. auth_load reads it, or makes it, before anybody is served;
 * auth_task_key is the part of it that is for this caller alone. */
#define AUTH_KEY_ID "task-key"
int auth_load(struct auth *a, struct qp_err *err) QP_MUST_USE;
void auth_task_key(const struct auth *a, const struct principal *who,
                   unsigned char out_key[HASH_KEYED_SIZE]);

/* Named sets of scopes: 0 when there is no such role. */
int role_scopes(qp_str role);
const char *scope_word(int scope); /* of one scope */

/* Does the text match the glob? */
bool glob_match(const char *glob, qp_str text);

#endif
