/* idempotency.c - which Idempotency-Keys are being answered */
#include "server/idempotency.h"

#include <pthread.h>

#include "base/hash.h"
#include "base/omap.h"
#include "server/route.h"

struct idempotency {
    const struct qp_env *env;
    pthread_mutex_t lock;
    struct omap busy; /* under the lock: keys as guid_of makes them */
};

int idempotency_create(const struct qp_env *env, struct idempotency **out_all)
{
    struct idempotency *all = mem_alloc(env, sizeof *all);
    if (all == NULL) {
        return QP_E_NOMEM;
    }
    all->env = env;
    (void)pthread_mutex_init(&all->lock, NULL);
    omap_init(&all->busy, env);
    *out_all = all;
    return QP_OK;
}

void idempotency_destroy(struct idempotency *all)
{
    if (all != NULL) {
        omap_done(&all->busy);
        (void)pthread_mutex_destroy(&all->lock);
        mem_free(all->env, all);
    }
}

/* Callers, namespaces and routes have keys of their own. */
static void guid_of(const struct api_call *c, unsigned char out_guid[LIMIT_GUID_SIZE])
{
    unsigned char owner[LIMIT_GUID_SIZE];
    unsigned char place[2 * LIMIT_GUID_SIZE];
    hash_guid(c->who.token, strlen(c->who.token), c->ns.p, c->ns.n, owner);
    memcpy(place, owner, sizeof owner);
    hash_guid(c->route->name, strlen(c->route->name), c->parts[0].p, c->parts[0].n,
              place + LIMIT_GUID_SIZE);
    hash_guid(place, sizeof place, c->idempotency_key.p, c->idempotency_key.n, out_guid);
}

int idempotency_begin(struct idempotency *all, struct api_call *c, struct qp_err *err)
{
    qp_str key = {(const char *)c->idempotency_guid, LIMIT_GUID_SIZE};
    bool busy;
    int rc = QP_OK;
    QP_ASSERT(!c->in_flight && c->route != NULL);
    QP_TRY(id_check(c->idempotency_key, "Idempotency-Key", err));
    guid_of(c, c->idempotency_guid);
    (void)pthread_mutex_lock(&all->lock);
    busy = omap_get(&all->busy, key) != NULL;
    if (!busy) {
        rc = omap_put(&all->busy, key, c, NULL);
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (busy) {
        return err_set(err, QP_E_BUSY, "the first request with this key is not answered yet");
    }
    c->in_flight = rc == QP_OK;
    return rc == QP_OK ? QP_OK : err_set(err, rc, "Idempotency-Key: out of memory");
}

void idempotency_end(struct idempotency *all, struct api_call *c)
{
    qp_str key = {(const char *)c->idempotency_guid, LIMIT_GUID_SIZE};
    c->in_flight = false;
    (void)pthread_mutex_lock(&all->lock);
    (void)omap_delete(&all->busy, key); /* it is there */
    (void)pthread_mutex_unlock(&all->lock);
}

qp_str idempotency_text(struct api_call *c)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *guid = c->idempotency_guid;
    char *text;
    if (str_is_none(c->idempotency_key)) {
        return QP_NONE;
    }
    text = arena_bytes(&c->arena, IDEMPOTENCY_TEXT_SIZE);
    if (text == NULL) {
        return QP_NONE;
    }
    for (size_t i = 0; i < LIMIT_GUID_SIZE; i++) {
        text[2 * i] = digits[guid[i] >> 4];
        text[2 * i + 1] = digits[guid[i] & 15];
    }
    text[IDEMPOTENCY_TEXT_SIZE - 1] = '\0';
    return (qp_str){text, IDEMPOTENCY_TEXT_SIZE - 1};
}
