/* due.c - calls with a deadline, in lists (see api.h)
 *
 * Each list is in the order in which calls joined it and so by time. The clock looks at them when the first of a list is
 * due (times.c):
 *
 *   WAITING   LIMIT_CALL_MS after the request: the crew's queue and the engine's inbox are rid of what waits there. What is
 *             not answered by that goes to
 *   IN_HAND   and is answered with 504 as soon as the store is found not to answer; unless its handler keeps its time
 *   SHORT     in place of both, for numbers, which are asked for within a second
 *
 *   I1  a call is in a list from due_start to its answer, which takes it out before anything else: so a call that
 *       the clock finds there, under its lock, is not gone
 */
#include "server/api_internal.h"

void due_link(struct api *api, struct api_call *c, int list, int64_t at_us)
{
    struct dues *d = &api->dues[list];
    c->due = (struct due){.previous = d->last, .at_us = at_us, .list = list};
    *(d->last != NULL ? &d->last->due.next : &d->first) = c;
    d->last = c;
}

void due_unlink(struct api *api, struct api_call *c)
{
    struct dues *d = &api->dues[c->due.list];
    *(c->due.previous != NULL ? &c->due.previous->due.next : &d->first) = c->due.next;
    *(c->due.next != NULL ? &c->due.next->due.previous : &d->last) = c->due.previous;
    c->due = (struct due){0};
}

int64_t due_look_us(const struct api_call *c)
{
    return c == NULL ? INT64_MAX : c->due.at_us + (c->due.list == DUE_WAITING ? DUE_LOOK_US : 0);
}

void due_start(struct api_call *c)
{
    struct api *api = c->api;
    bool brief = c->route != NULL && (c->route->flags & ROUTE_BRIEF) != 0;
    if (c->carrier->drop == NULL || !api->options.limited || c->deadline_us != 0) {
        return;
    }
    c->deadline_us = api_now_us(api) + (brief ? LIMIT_BRIEF_MS : LIMIT_CALL_MS) * INT64_C(1000);
    (void)pthread_mutex_lock(&api->clock_lock);
    due_link(api, c, brief ? DUE_SHORT : DUE_WAITING, c->deadline_us);
    if (due_look_us(c) < api->look_us) {
        api->look_us = due_look_us(c);
        (void)pthread_cond_signal(&api->clock_changed);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
}

void due_stop(struct api_call *c)
{
    struct api *api = c->api;
    if (c->deadline_us == 0) {
        return;
    }
    (void)pthread_mutex_lock(&api->clock_lock);
    if (c->due.list != DUE_NONE) {
        due_unlink(api, c);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
}

void due_leave(struct api_call *c)
{
    struct api *api = c->api;
    (void)pthread_mutex_lock(&api->clock_lock);
    if (c->due.list == DUE_WAITING) {
        c->due.kept = true;
    } else if (c->due.list != DUE_NONE) {
        due_unlink(api, c); /* it has had that time */
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
}
