/* times.c - times of kept calls, and what the clock does about deadlines (see api.h, due.c) */
#include <time.h>

#include "run/calls.h"
#include "server/api_internal.h"

/* How much later than LIMIT_CALL_MS a call in hand is given up. */
#define DUE_GRACE_US (LIMIT_LATE_MS * INT64_C(1000))

/* ------------------------------------------------------------------------------------ deadlines */

/* The first call of a list whose time to wait is over: out of the crew's queue, or on to the second list. True: there
 * was one. */
static bool due_waiting(struct api *api, int list, int64_t now)
{
    struct api_call *c = api->dues[list].first;
    bool kept;
    bool taken_back;
    if (due_look_us(c) > now) {
        return false;
    }
    kept = c->due.kept;
    due_unlink(api, c);
    if (kept) {
        return true; /* the inbox is looked at, and that is all */
    }
    taken_back = crew_take_back(api, &c->job);
    if (!taken_back && list == DUE_WAITING) {
        due_link(api, c, DUE_IN_HAND, now + DUE_GRACE_US);
        return true;
    }
    if (!taken_back) {
        if (!api_call_late(c)) {
            due_link(api, c, list, now + DUE_LOOK_US);
        }
        return true;
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
    c->not_run(c);
    (void)pthread_mutex_lock(&api->clock_lock);
    return true;
}

/* The first call that has been in hand for too long: answered, if the store is to blame. */
static bool due_in_hand(struct api *api, int64_t now, bool ready)
{
    struct api_call *c = api->dues[DUE_IN_HAND].first;
    if (c == NULL || c->due.at_us > now) {
        return false;
    }
    due_unlink(api, c);
    if (ready || !api_call_late(c)) {
        due_link(api, c, DUE_IN_HAND, now + DUE_GRACE_US);
    }
    return true;
}

/* Under the clock's lock, which is released meanwhile. */
static void dues_look(struct api *api)
{
    int64_t now = api_now_us(api);
    bool moved = false;
    while (due_waiting(api, DUE_SHORT, now)) {}
    while (due_waiting(api, DUE_WAITING, now)) {
        moved = true;
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
    if (moved) {
        calls_expire(&api->options.engine->driver, CALLS_OVER);
    }
    moved = ready_now(api->options.engine, NULL) == QP_OK;
    (void)pthread_mutex_lock(&api->clock_lock);
    while (due_in_hand(api, now, moved)) {}
    api->look_us = INT64_MAX;
    for (int i = DUE_NONE + 1; i < DUE_LISTS; i++) {
        int64_t at_us = due_look_us(api->dues[i].first);
        api->look_us = at_us < api->look_us ? at_us : api->look_us;
    }
}

/* ---------------------------------------------------------------------------------------- times */

static void unlink_timing(struct api *api, struct timing *t)
{
    if (t->previous != NULL) {
        t->previous->next = t->next;
    } else {
        api->times = t->next;
    }
    if (t->next != NULL) {
        t->next->previous = t->previous;
    } else {
        api->last_time = t->previous;
    }
    t->next = t->previous = NULL;
    t->armed = false;
}

/* From the end: most wait equally long, so the new one is the last. */
static void link_timing(struct api *api, struct timing *t)
{
    struct timing *after = api->last_time;
    while (after != NULL && after->at_us > t->at_us) {
        after = after->previous;
    }
    t->previous = after;
    t->next = after != NULL ? after->next : api->times;
    if (t->next != NULL) {
        t->next->previous = t;
    } else {
        api->last_time = t;
    }
    if (after != NULL) {
        after->next = t;
    } else {
        api->times = t;
    }
    t->armed = true;
}

void timing_start(struct api *api, struct timing *t, qp_ms within_ms, void (*late)(struct timing *))
{
    t->late = late;
    (void)pthread_mutex_lock(&api->clock_lock);
    t->at_us = api_is_draining(api) ? 0 : api_now_us(api) + within_ms * 1000;
    link_timing(api, t);
    if (api->times == t) {
        (void)pthread_cond_signal(&api->clock_changed);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
}

bool timing_stop(struct api *api, struct timing *t)
{
    bool stopped;
    (void)pthread_mutex_lock(&api->clock_lock);
    stopped = t->armed;
    if (stopped) {
        unlink_timing(api, t);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
    return stopped;
}

/* Until the first time or the first deadline comes, or a list changes. Under the clock's lock. */
static void clock_sleep(struct api *api)
{
    struct timespec until;
    int64_t at_us = api->look_us;
    int64_t left_us;
    at_us = api->times != NULL && api->times->at_us < at_us ? api->times->at_us : at_us;
    if (at_us == INT64_MAX) {
        (void)pthread_cond_wait(&api->clock_changed, &api->clock_lock);
        return;
    }
    left_us = at_us - api_now_us(api);
    left_us = left_us > 0 ? left_us : 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_us / 1000000;
    until.tv_nsec += left_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&api->clock_changed, &api->clock_lock, &until);
}

void *clock_main(void *context)
{
    struct api *api = context;
    (void)pthread_mutex_lock(&api->clock_lock);
    while (!api->clock_stop) {
        struct timing *t;
        if (api->look_us <= api_now_us(api)) {
            dues_look(api);
        }
        t = api->times;
        if (t == NULL || (t->at_us > api_now_us(api) && !api_is_draining(api))) {
            clock_sleep(api);
            continue;
        }
        unlink_timing(api, t);
        (void)pthread_mutex_unlock(&api->clock_lock);
        t->late(t);
        (void)pthread_mutex_lock(&api->clock_lock);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
    return NULL;
}
