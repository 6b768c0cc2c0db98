/* slice.c - how long a commit decides messages, so that commands beside them are answered soon (see engine.h)
 *
 * A traversal of a million items, a fan-out or a sweep is a row of messages of one job, each of which may fill a commit.
 * A command that comes meanwhile waits for the commit that is under way, and so does the result of the task that it
 * makes. So a commit decides messages for a SLICE of time. When it is over, a page ends, what follows it is a message
 * (turn_has_time), and the messages behind it come with the next commit.
 *
 *   I1  the first message of a round is decided, and a page does at least one of its rows: every round comes further
 *   I2  while commands come, the slice is as long as the commits without messages took, at least LIMIT_SLICE_US: so each
 *       side has about half of the time, and where a commit is slow (a disk, a network) the slice is worth it
 *   I3  after a slice that was not enough, commands have one commit for themselves, and only one: the messages wait
 *       for it once
 *   I4  without commands a slice is LIMIT_SLICE_MOST_US
 *   I5  time decides only where a page ends and what shares a commit, never what a message does
 *   I6  nothing more is claimed while messages in hand are put off
 *
 * Nothing of this is durable. If we crash, what was put off is in the stream like all other messages.
 */
#include "kernel/engine_internal.h"

static int64_t now_us(const struct engine *e)
{
    return e->env.monotonic_us(e->env.context);
}

/* Until when, for something that begins now. */
static int64_t end_of(const struct engine *e, int64_t now, int64_t slice_us)
{
    return e->options.slice_us < 0 ? INT64_MIN : now + slice_us;
}

static int64_t own_slice(const struct engine *e)
{
    return e->options.slice_us > 0 ? e->options.slice_us : LIMIT_SLICE_US;
}

static int64_t message_slice(const struct engine *e, const struct round *r, int64_t now)
{
    int64_t others_us = e->others_us + now - r->began_us;
    if (r->began_us - e->commands_us > LIMIT_SLICE_QUIET_US || others_us > LIMIT_SLICE_MOST_US) {
        return LIMIT_SLICE_MOST_US;
    }
    return others_us > own_slice(e) ? others_us : own_slice(e);
}

bool slice_waits(struct round *r)
{
    struct engine *e = r->engine;
    e->commands_us = r->commands != NULL ? r->began_us : e->commands_us;
    e->waited = r->commands != NULL && e->batch != NULL && e->kernel.was_cut && !e->waited;
    return e->waited;
}

/* A command has a slice of its own: what it begins may be as long as any message. */
void slice_command(struct engine *e)
{
    e->kernel.until_us = end_of(e, now_us(e), own_slice(e));
}

/* The first one of its round begins the slice, also when it is decided again. */
bool slice_message(struct engine *e, const struct delivery *d)
{
    struct round *r = e->open;
    int64_t now = now_us(e);
    if (r->batch == d) {
        e->kernel.until_us = end_of(e, now, message_slice(e, r, now));
        e->kernel.was_cut = false;
        r->postponed = false;
        return true;
    }
    e->kernel.was_cut = e->kernel.was_cut || now >= e->kernel.until_us;
    return now < e->kernel.until_us;
}

void slice_end(struct round *r)
{
    struct engine *e = r->engine;
    e->others_us = r->batch == NULL && e->waited ? now_us(e) - r->began_us : 0;
}
