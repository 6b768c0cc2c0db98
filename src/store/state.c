/* state.c - what a store handle knows of itself, for all who work on it (see store_internal.h) */
#include "store/store_internal.h"

const struct qp_env *store_env(const struct store *s)
{
    return &s->env;
}

struct provider *store_provider(struct store *s)
{
    return s->provider;
}

int64_t store_serial(struct store *s)
{
    return ++s->serial;
}

int64_t *store_definitions(struct store *s)
{
    return &s->definitions;
}

void store_forget(struct store *s)
{
    cache_clear(s->cache);
    s->definitions = -1;
}

const struct cache *store_cache(const struct store *s)
{
    return s->cache;
}

int store_stopped_by(const struct store *s)
{
    return s->refusing != QP_OK || s->written != NULL ? s->refusing : s->provider->failure;
}
