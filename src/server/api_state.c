/* api_state.c - what an API has, for the files that work in it (see api.h) */
#include "server/api_internal.h"

qp *api_engine(const struct api *api)
{
    return api->options.engine;
}

const struct qp_env *api_env(const struct api *api)
{
    return api->options.env;
}

const struct api_options *api_options(const struct api *api)
{
    return &api->options;
}

struct idempotency *api_idempotency(struct api *api)
{
    return api->idempotency;
}

struct auth *api_auth(struct api *api)
{
    return api->auth;
}

atomic_int *api_streams(struct api *api)
{
    return &api->streams;
}

bool api_hold(struct api *api, size_t size)
{
    size_t most = api->options.bodies_size > 0 ? api->options.bodies_size : LIMIT_BODIES_SIZE;
    bool room = atomic_fetch_add(&api->held, size) + size <= most;
    if (!room) {
        atomic_fetch_sub(&api->held, size);
    }
    return room;
}

void api_let_go(struct api *api, size_t size)
{
    atomic_fetch_sub(&api->held, size);
}

bool api_is_draining(const struct api *api)
{
    return atomic_load(&api->draining);
}
