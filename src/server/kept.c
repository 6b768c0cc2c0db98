/* kept.c - calls that are kept until something happens (see kept.h) */
#include "server/kept.h"

/* Room for the texts of most: there may be very many that wait, and each should be small. */
#define KEPT_TEXT_SIZE 256

void *kept_make(struct api *api, size_t size)
{
    struct arena arena;
    struct kept *k;
    QP_ASSERT(size >= sizeof *k);
    arena_init(&arena, api_env(api), 0);
    arena.first = size + KEPT_TEXT_SIZE;
    k = arena_alloc(&arena, size);
    if (k == NULL) {
        return NULL;
    }
    k->arena = arena;
    k->api = api;
    k->users = 2;
    (void)pthread_mutex_init(&k->lock, NULL);
    return k;
}

const char *kept_text(struct kept *k, qp_str text)
{
    char *copy = arena_bytes(&k->arena, text.n + 1);
    if (copy == NULL) {
        return NULL;
    }
    if (text.n > 0) {
        memcpy(copy, text.p, text.n);
    }
    copy[text.n] = '\0';
    return copy;
}

void kept_drop(struct kept *k)
{
    struct arena arena = k->arena; /* it stands in there itself */
    if (k->done != NULL) {
        k->done(k);
    }
    (void)pthread_mutex_destroy(&k->lock);
    arena_done(&arena);
}

void kept_leave(struct kept *k)
{
    bool last;
    (void)pthread_mutex_lock(&k->lock);
    QP_ASSERT(k->users > 0);
    last = --k->users == 0;
    (void)pthread_mutex_unlock(&k->lock);
    if (last) {
        kept_drop(k);
    }
}

void kept_start(struct kept *k, qp_ms within_ms, void (*late)(struct timing *t))
{
    timing_start(k->api, &k->timing, within_ms, late);
}

void kept_stop(struct kept *k)
{
    if (timing_stop(k->api, &k->timing)) {
        kept_leave(k);
    }
}

struct kept *kept_of_timing(struct timing *t)
{
    return (struct kept *)((char *)t - offsetof(struct kept, timing));
}

bool kept_claim(struct kept *k)
{
    bool put = !k->queued;
    k->again = true;
    k->queued = true;
    return put;
}

void kept_put(struct kept *k, void (*run)(struct crew_job *turn))
{
    k->turn = (struct crew_job){.run = run, .must = true};
    QP_ASSERT(crew_put(k->api, &k->turn)); /* it cannot be refused: it must */
}

struct kept *kept_of_turn(struct crew_job *turn)
{
    return (struct kept *)((char *)turn - offsetof(struct kept, turn));
}
