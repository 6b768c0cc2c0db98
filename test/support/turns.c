/* turns.c - see turns.h */
#include "support/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --------------------------------------------------------------------------------- the environment */

static struct testenv *env_of(void *context)
{
    return ((struct turns_player *)context)->t;
}

static void *player_resize(void *context, void *pointer, size_t size)
{
    struct testenv *t = env_of(context);
    return t->env.resize(t, pointer, size);
}

static qp_ms player_wall_ms(void *context)
{
    struct testenv *t = env_of(context);
    return t->env.wall_ms(t);
}

static int64_t player_monotonic_us(void *context)
{
    struct testenv *t = env_of(context);
    return t->env.monotonic_us(t);
}

static int player_entropy(void *context, void *out_bytes, size_t size)
{
    struct testenv *t = env_of(context);
    return t->env.entropy(t, out_bytes, size);
}

/* --------------------------------------------------------------------------------------- the world */

static enum model_fate world_call(void *context, enum model_call call)
{
    struct turns_player *p = context;
    enum model_fate fate;
    if (p->fiber == NULL || call == CALL_COMMITTED) {
        return FATE_NONE;
    }
    p->next = call;
    fiber_leave(p->fiber);
    fate = p->fate;
    p->fate = FATE_NONE;
    return fate;
}

static void world_wait(void *context)
{
    struct turns_player *p = context;
    QP_ASSERT(p->fiber != NULL); /* outside of a turn there is nothing to wait for */
    p->waits = true;
    fiber_leave(p->fiber);
}

static void world_pause(void *context, int64_t us)
{
    (void)context;
    (void)us; /* time stands still: it tries again in its next turn */
}

static void world_committing(void *context, const struct memory_provider *p)
{
    (void)context;
    (void)p;
}

static void world_nothing(void *context)
{
    (void)context;
}

static void world_late(void *context, struct model_late *late)
{
    (void)context;
    model_late_commit(late);
}

static qp_ms world_now_ms(void *context)
{
    return player_wall_ms(context);
}

void turns_open(struct turns_player *p, struct testenv *t, struct memory *m,
                struct model_server *server)
{
    struct store_options options = {.memory = m};
    struct qp_env env = t->env;
    struct qp_err err = {0};
    *p = (struct turns_player){.world = {.context = p,
                                         .call = world_call,
                                         .wait = world_wait,
                                         .pause = world_pause,
                                         .committing = world_committing,
                                         .committed = world_nothing,
                                         .ended = world_nothing,
                                         .late = world_late,
                                         .now_ms = world_now_ms,
                                         .hint = world_nothing,
                                         .server = server},
                               .t = t};
    env.context = p;
    env.resize = player_resize;
    env.wall_ms = player_wall_ms;
    env.monotonic_us = player_monotonic_us;
    env.entropy = player_entropy;
    env.log = NULL;
    if (store_open(&env, &options, &p->s, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
}

void turns_close(struct turns_player *p)
{
    assert_false(turns_is_running(p));
    assert_int_equal(store_close(p->s, NULL), QP_OK);
    fiber_done();
}

/* --------------------------------------------------------------------------------------- the turns */

static void run_commit(void *context)
{
    struct turns_player *p = context;
    (void)store_commit(p->s, p->commit); /* the commit keeps its code */
}

static void enter(struct turns_player *p)
{
    p->waits = false;
    if (!fiber_enter(p->fiber)) {
        fiber_drop(p->fiber);
        p->fiber = NULL;
    }
}

void turns_begin(struct turns_player *p, struct commit *c)
{
    assert_null(p->fiber);
    p->commit = c;
    p->fate = FATE_NONE;
    p->fiber = fiber_create(run_commit, p);
    enter(p);
}

bool turns_is_running(const struct turns_player *p)
{
    return p->fiber != NULL;
}

bool turns_go(struct turns_player *p)
{
    assert_non_null(p->fiber);
    enter(p);
    return !p->waits;
}

void turns_go_until(struct turns_player *p, enum model_call call)
{
    while (turns_is_running(p) && p->next != call && turns_go(p)) {}
}

void turns_finish(struct turns_player *p)
{
    while (turns_is_running(p)) {
        assert_true(turns_go(p));
    }
    assert_int_equal(p->commit->rc, QP_OK);
}
