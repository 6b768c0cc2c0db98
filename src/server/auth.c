/* auth.c - tokens
 *
 *   I1  a secret is compared in constant time, by its hash, and is written nowhere
 *   I2  what is known of a token is at most AUTH_KEEP_US old, or as old as the last time that the store could be
 *       asked; what this process revoked is forgotten at once
 *   I3  what a token's holder knows is not enough to make the token of a task: the hash of his
 *       secret he can work out, the store's key he cannot
 *   I4  a token that is known pays for its request in the same look under the lock: `paid_until_us`
 *       goes on by a request's share of a second, and may be AUTH_BURST_S ahead of the clock
 *
 * The known tokens are a table without lists: a token's slot follows from its id, and who comes
 * later takes it. With more tokens in use than slots the store is asked more often, and that is
 * all. Those that share a slot share what they may ask for, so nobody gets more by making others go.
 */
#include "server/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "run/access.h"
#include "run/handle.h"

#define AUTH_KEEP_US (5 * 1000000LL)
#define AUTH_USED_US (15 * 60 * 1000000LL) /* between two notes that a token was used */
#define SECRET_SIZE 32
#define ID_BYTES 8

struct known {
    struct principal who;
    qp_ms expire_at; /* 0: never */
    int64_t until_us;
    int64_t used_us; /* when the store was last told; 0: not yet */
    int64_t paid_until_us;
};

struct auth {
    qp *engine;
    const struct qp_env *env;
    uint64_t seed;
    unsigned char key[TOKEN_HASH_SIZE]; /* of tasks; as auth_load has left it */
    int64_t rate;                       /* 0: any */
    pthread_mutex_t lock;
    struct known *slots; /* under the lock */
};

/* --------------------------------------------------------------------------------------- roles */

static const struct {
    const char *name;
    int scopes;
} roles[] = {
    {"admin", SCOPE_ALL},
    {"operator", SCOPE_READ | SCOPE_START | SCOPE_SIGNAL | SCOPE_DEPLOY},
    {"viewer", SCOPE_READ},
    {"worker", SCOPE_WORK},
    {"trigger", SCOPE_START | SCOPE_SIGNAL},
};

/* The row of a role; ARRAY_COUNT(roles): there is none. */
static size_t role_index(qp_str role)
{
    size_t i = 0;
    while (i < ARRAY_COUNT(roles) && !str_equal(role, str_from(roles[i].name))) {
        i++;
    }
    return i;
}

int role_scopes(qp_str role)
{
    size_t i = role_index(role);
    return i < ARRAY_COUNT(roles) ? roles[i].scopes : 0;
}

const char *scope_word(int scope)
{
    static const struct {
        int scope;
        const char *word;
    } words[] = {{SCOPE_READ, "read"}, {SCOPE_START, "start"},   {SCOPE_SIGNAL, "signal"},
                 {SCOPE_WORK, "work"}, {SCOPE_DEPLOY, "deploy"}, {SCOPE_ADMIN, "admin"},
                 {SCOPE_ANY, "any"}};
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (words[i].scope == scope) {
            return words[i].word;
        }
    }
    return "none";
}

/* The last star is remembered, and takes one byte more whenever the rest does not fit: no
 * recursion, and at most n * m steps. */
bool glob_match(const char *glob, qp_str text)
{
    const char *star = NULL;
    size_t from = 0;
    size_t i = 0;
    while (i < text.n) {
        if (*glob == '*') {
            star = ++glob;
            from = i;
        } else if (*glob != '\0' && *glob == text.p[i]) {
            glob++;
            i++;
        } else if (star != NULL) {
            glob = star;
            i = ++from;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

/* -------------------------------------------------------------------------------------- tokens */

/* A token as it was sent, taken apart. */
struct parsed {
    qp_str id;
    unsigned char hash[TOKEN_HASH_SIZE];
};

static bool hash_secret(const void *secret, size_t size, unsigned char out_hash[TOKEN_HASH_SIZE])
{
    unsigned int length = TOKEN_HASH_SIZE;
    return EVP_Digest(secret, size, out_hash, &length, EVP_sha256(), NULL) == 1;
}

/* Takes the text up to the next underscore off the front. */
static qp_str take_part(qp_str *rest)
{
    const char *end = rest->n == 0 ? NULL : memchr(rest->p, '_', rest->n);
    qp_str part = {rest->p, end == NULL ? rest->n : (size_t)(end - rest->p)};
    size_t skip = end == NULL ? part.n : part.n + 1;
    rest->p += skip;
    rest->n -= skip;
    return part;
}

/* "Bearer qp_role_id_secret" */
static bool parse(qp_str authorization, struct parsed *out)
{
    static const qp_str bearer = {"Bearer ", 7};
    qp_str rest = authorization;
    qp_str mark;
    if (rest.n < bearer.n || strncasecmp(rest.p, bearer.p, bearer.n) != 0) {
        return false;
    }
    rest = (qp_str){rest.p + bearer.n, rest.n - bearer.n};
    mark = take_part(&rest);
    (void)take_part(&rest); /* the role: the record knows it better */
    out->id = take_part(&rest);
    return str_equal(mark, QP_STR("qp")) && out->id.n > 0 && out->id.n <= LIMIT_TOKEN_ID_SIZE &&
           rest.n > 0 && rest.n <= TOKEN_TEXT_SIZE && hash_secret(rest.p, rest.n, out->hash);
}

static int64_t now_us(const struct auth *a)
{
    return a->env->monotonic_us(a->env->context);
}

static struct known *slot_of(struct auth *a, qp_str id)
{
    return &a->slots[hash_bytes(a->seed, id.p, id.n) % LIMIT_TOKENS_KNOWN];
}

static bool is_expired(const struct auth *a, qp_ms expire_at)
{
    return expire_at != 0 && expire_at <= a->env->wall_ms(a->env->context);
}

/* Whether the slot is about this token, and new enough. While the store cannot be asked, what it said last holds: a
 * peer with a good token is told that the store is away, and not kept waiting for it. Under the lock. */
static bool is_fresh(const struct auth *a, const struct known *slot, qp_str id)
{
    return str_equal(str_from(slot->who.token), id) &&
           (slot->until_us > now_us(a) || ready_now(a->engine, NULL) != QP_OK);
}

/* Whether the token is the one that is known. */
static bool is_same(const struct auth *a, const struct known *known, const struct parsed *token)
{
    return CRYPTO_memcmp(known->who.hash, token->hash, TOKEN_HASH_SIZE) == 0 &&
           !is_expired(a, known->expire_at);
}

/* A request of a known token; false: one too many. Of a slot under the lock. */
static bool pay(const struct auth *a, struct known *slot)
{
    int64_t now = now_us(a);
    if (a->rate == 0) {
        return true;
    }
    if (slot->paid_until_us < now) {
        slot->paid_until_us = now;
    }
    if (slot->paid_until_us - now >= AUTH_BURST_S * 1000000LL) {
        return false;
    }
    slot->paid_until_us += 1000000 / a->rate;
    return true;
}

int auth_known(struct auth *a, qp_str authorization, struct principal *out_who)
{
    struct parsed token;
    struct known known;
    struct known *slot;
    bool fresh;
    bool good;
    bool paid = true;
    if (!parse(authorization, &token)) {
        return QP_E_NOT_FOUND;
    }
    (void)pthread_mutex_lock(&a->lock);
    slot = slot_of(a, token.id);
    fresh = is_fresh(a, slot, token.id);
    known = *slot;
    good = fresh && is_same(a, &known, &token);
    if (good) {
        paid = pay(a, slot);
    }
    (void)pthread_mutex_unlock(&a->lock);
    if (!fresh) {
        return QP_E_BUSY;
    }
    if (!good) {
        return QP_E_NOT_FOUND;
    }
    if (!paid) {
        return QP_E_LIMIT;
    }
    *out_who = known.who;
    return QP_OK;
}

static bool copy_text(char *out, size_t size, qp_str text, const char *otherwise)
{
    text = str_is_none(text) ? str_from(otherwise) : text;
    if (text.n >= size) {
        return false;
    }
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
    return true;
}

/* What the store says. A record that does not fit what we can keep is as good as none. */
static int learn(void *context, const struct access_token *token)
{
    struct known *out = context;
    size_t role = role_index(token->role);
    bool good = role < ARRAY_COUNT(roles) && token->revoked_at == 0 &&
                token->hash.n == TOKEN_HASH_SIZE &&
                copy_text(out->who.token, sizeof out->who.token, token->id, "") &&
                copy_text(out->who.namespaces, sizeof out->who.namespaces, token->spaces, "*") &&
                copy_text(out->who.topics, sizeof out->who.topics, token->topics, "*");
    if (!good) {
        return QP_E_NOT_FOUND;
    }
    out->who.role = roles[role].name;
    out->who.scopes = roles[role].scopes;
    out->expire_at = token->expire_at;
    memcpy(out->who.hash, token->hash.p, TOKEN_HASH_SIZE);
    return QP_OK;
}

/* Once in a while the record learns that its token is in use. */
static void note_use(struct auth *a, qp_str id)
{
    int64_t now = now_us(a);
    bool due;
    (void)pthread_mutex_lock(&a->lock);
    struct known *slot = slot_of(a, id);
    due = slot->used_us == 0 || now - slot->used_us > AUTH_USED_US;
    slot->used_us = due ? now : slot->used_us;
    (void)pthread_mutex_unlock(&a->lock);
    if (due && access_used(a->engine, id, NULL) != QP_OK) {
        log_write(a->env, QP_LOG_WARN, LOG_MSG("the use of a token was not noted"),
                  LOG_STR("id", id));
    }
}

int auth_ask(struct auth *a, qp_str authorization, struct principal *out_who)
{
    struct parsed token;
    struct known known = {0};
    bool good;
    bool paid;
    int rc;
    if (!parse(authorization, &token)) {
        return QP_E_NOT_FOUND;
    }
    rc = access_get(a->engine, token.id, &known, learn, NULL);
    if (rc != QP_OK) {
        return rc == QP_E_INVALID ? QP_E_NOT_FOUND : rc; /* no record has such an id */
    }
    known.until_us = now_us(a) + AUTH_KEEP_US;
    (void)pthread_mutex_lock(&a->lock);
    struct known *slot = slot_of(a, token.id);
    known.used_us = strcmp(slot->who.token, known.who.token) == 0 ? slot->used_us : 0;
    known.paid_until_us = slot->paid_until_us;
    good = is_same(a, &known, &token);
    *slot = known;
    paid = good && pay(a, slot);
    (void)pthread_mutex_unlock(&a->lock);
    if (!paid) {
        return good ? QP_E_LIMIT : QP_E_NOT_FOUND;
    }
    *out_who = known.who;
    note_use(a, token.id);
    return QP_OK;
}

void auth_forget(struct auth *a, qp_str id)
{
    (void)pthread_mutex_lock(&a->lock);
    struct known *slot = slot_of(a, id);
    *slot = (struct known){.paid_until_us = slot->paid_until_us};
    (void)pthread_mutex_unlock(&a->lock);
}

/* --------------------------------------------------------------------------------- new ones */

static void to_hex(const unsigned char *bytes, size_t size, char *out_text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out_text[2 * i] = digits[bytes[i] >> 4];
        out_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    out_text[2 * size] = '\0';
}

/* A token that is not recorded yet. */
struct minted {
    char id[2 * ID_BYTES + 1];
    char token[TOKEN_TEXT_SIZE];
    unsigned char hash[TOKEN_HASH_SIZE];
};
static_assert(2 * ID_BYTES <= LIMIT_TOKEN_ID_SIZE, "an id has room in what names it");

static int mint(struct auth *a, qp_str role, struct minted *out_minted, struct qp_err *err)
{
    unsigned char random[ID_BYTES + SECRET_SIZE];
    char secret[2 * SECRET_SIZE + 1];
    int rc = a->env->entropy(a->env->context, random, sizeof random);
    if (rc != QP_OK) {
        return err_set(err, rc, "token: the source of chance fails");
    }
    if (role_scopes(role) == 0) {
        return err_set(err, QP_E_INVALID, "role: admin, operator, viewer, worker or trigger");
    }
    to_hex(random, ID_BYTES, out_minted->id);
    to_hex(random + ID_BYTES, SECRET_SIZE, secret);
    if (!hash_secret(secret, strlen(secret), out_minted->hash)) {
        rc = err_set(err, QP_E_INTERNAL, "token: it cannot be hashed");
    }
    (void)snprintf(out_minted->token, sizeof out_minted->token, "qp_%.*s_%s_%s", STR_ARG(role),
                   out_minted->id, secret);
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(random, sizeof random);
    return rc;
}

/* From now on it is one. */
static int record(struct auth *a, const struct token_wish *wish, const struct minted *m,
                  struct qp_err *err)
{
    return access_create(a->engine,
                         &(struct access_token){.id = str_from(m->id),
                                                .hash = {(const char *)m->hash, sizeof m->hash},
                                                .name = wish->name,
                                                .role = wish->role,
                                                .spaces = wish->namespaces,
                                                .topics = wish->topics,
                                                .expire_at = wish->expires_at},
                         err);
}

int auth_issue(struct auth *a, const struct token_wish *wish, char out_token[TOKEN_TEXT_SIZE],
               char out_id[LIMIT_TOKEN_ID_SIZE + 1], struct qp_err *err)
{
    struct minted m;
    int rc = mint(a, wish->role, &m, err);
    rc = rc == QP_OK ? record(a, wish, &m, err) : rc;
    if (rc == QP_OK) {
        memcpy(out_token, m.token, sizeof m.token);
        memcpy(out_id, m.id, sizeof m.id);
    }
    explicit_bzero(&m, sizeof m);
    return rc;
}

/* An administrator who may still ask: one is enough. */
static int look_for_admin(void *context, const struct access_token *token)
{
    bool *there = context;
    *there = *there || (token->revoked_at == 0 && token->expire_at == 0 &&
                        str_equal(token->role, QP_STR("admin")));
    return QP_OK;
}

int auth_first(struct auth *a, void *context, auth_keep keep, struct qp_err *err)
{
    struct token_wish wish = {.role = QP_STR("admin"), .name = QP_STR("first token")};
    struct minted m;
    bool there = false;
    bool more = false;
    int rc = access_list(a->engine, QP_NONE, LIMIT_PAGE_ROWS, &there, look_for_admin, &more, err);
    if (rc != QP_OK || there || more) {
        return rc;
    }
    rc = mint(a, wish.role, &m, err);
    rc = rc == QP_OK ? keep(context, m.token, err) : rc;
    rc = rc == QP_OK ? record(a, &wish, &m, err) : rc;
    explicit_bzero(&m, sizeof m);
    return rc;
}

/* ------------------------------------------------------------------------------ the key of tasks */

static int take_key(void *context, const struct access_token *token)
{
    struct auth *a = context;
    if (token->hash.n != sizeof a->key) {
        return QP_E_CORRUPT;
    }
    memcpy(a->key, token->hash.p, sizeof a->key);
    return QP_OK;
}

/* Another server of the same store may be quicker: then its key is the key. */
static int make_key(struct auth *a, struct qp_err *err)
{
    unsigned char random[TOKEN_HASH_SIZE];
    struct access_token record = {.id = QP_STR(AUTH_KEY_ID),
                                  .hash = {(const char *)random, sizeof random},
                                  .name = QP_STR("the key of task tokens"),
                                  .role = QP_STR("none")};
    int rc = a->env->entropy(a->env->context, random, sizeof random);
    rc = rc == QP_OK ? access_create(a->engine, &record, err)
                     : err_set(err, rc, "key of tasks: the source of chance fails");
    explicit_bzero(random, sizeof random);
    return rc == QP_E_EXISTS ? QP_OK : rc;
}

int auth_load(struct auth *a, struct qp_err *err)
{
    int rc = access_get(a->engine, QP_STR(AUTH_KEY_ID), a, take_key, err);
    if (rc == QP_E_NOT_FOUND) {
        rc = make_key(a, err);
        rc = rc == QP_OK ? access_get(a->engine, QP_STR(AUTH_KEY_ID), a, take_key, err) : rc;
    }
    return rc;
}

void auth_task_key(const struct auth *a, const struct principal *who,
                   unsigned char out_key[HASH_KEYED_SIZE])
{
    hash_keyed(a->key, sizeof a->key, who->hash, sizeof who->hash, out_key);
}

int auth_create(qp *engine, const struct qp_env *env, int64_t rate, struct auth **out_auth)
{
    struct auth *a = mem_alloc(env, sizeof *a);
    if (a == NULL) {
        return QP_E_NOMEM;
    }
    a->engine = engine;
    a->env = env;
    a->rate = rate;
    a->slots = mem_alloc(env, LIMIT_TOKENS_KNOWN * sizeof *a->slots);
    if (a->slots == NULL || env->entropy(env->context, &a->seed, sizeof a->seed) != QP_OK) {
        mem_free(env, a->slots);
        mem_free(env, a);
        return QP_E_NOMEM;
    }
    (void)pthread_mutex_init(&a->lock, NULL);
    *out_auth = a;
    return QP_OK;
}

void auth_destroy(struct auth *a)
{
    if (a != NULL) {
        (void)pthread_mutex_destroy(&a->lock);
        explicit_bzero(a->key, sizeof a->key);
        explicit_bzero(a->slots, LIMIT_TOKENS_KNOWN * sizeof *a->slots);
        mem_free(a->env, a->slots);
        mem_free(a->env, a);
    }
}
