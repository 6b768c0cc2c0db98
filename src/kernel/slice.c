/* slice.c - how long a commit decides messages, so that commands beside them are answered soon (see engine.h)
 *
 * A traversal of a million items, a fan-out or a sweep is a row of messages of one job, each of which may fill a commit.
 * A command that comes meanwhile waits for the commit that is under way, and so does the result of the task that it
 * makes. So a commit decides messages for a SLICE of time. When it is over, a page ends, what follows it is a message
 * (turn_has_time), and the messages behind it come with the next commit.
 *
 *   I1  the first message of a round is decided, and a page does at least one of its rows: every round comes further
 *   I2  while commands come, a commit with messages takes as long as the commits without messages since the last one
 *       took, at least LIMIT_SLICE_US: so each side has about half of the time, and where a commit is slow (a disk, a
 *       network) the slice is worth it. Deciding gets the share of that time that it had in the commits before; the
 *       rest is for the writing
 *   I3  after a slice that was not enough, commands have LIMIT_SLICE_TURNS commits for themselves, and no more: a start
 *       and the result of the task that it makes. The driver lingers between them, for a moment
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

/* Of `SHARE_WHOLE` parts of a commit with messages, those that deciding takes. */
#define SHARE_WHOLE 1024
#define SHARE_LEAST (SHARE_WHOLE / 8)

static int64_t message_slice(const struct engine *e, const struct round *r, int64_t now)
{
    int64_t others_us = e->others_us + now - r->began_us;
    int64_t commit_us = others_us > own_slice(e) ? others_us : own_slice(e);
    if (r->began_us - e->commands_us > LIMIT_SLICE_QUIET_US) {
        return LIMIT_SLICE_MOST_US;
    }
    commit_us = commit_us < LIMIT_SLICE_MOST_US ? commit_us : LIMIT_SLICE_MOST_US;
    return commit_us * (e->slice_share > 0 ? e->slice_share : SHARE_WHOLE) / SHARE_WHOLE;
}

/* What was cut may not be in hand again yet: then the round of the commands claims it. */
bool slice_waits(struct round *r)
{
    struct engine *e = r->engine;
    bool waits = r->commands != NULL && e->kernel.was_cut && e->turns < LIMIT_SLICE_TURNS;
    e->commands_us = r->commands != NULL ? r->began_us : e->commands_us;
    e->turns = waits ? e->turns + 1 : 0;
    return waits;
}

int64_t engine_linger_us(const struct engine *e)
{
    bool may_come = e->turns > 0 && e->turns < LIMIT_SLICE_TURNS && e->commands == NULL;
    return may_come && e->batch != NULL ? e->turn_ended_us + LIMIT_SLICE_LINGER_US - now_us(e) : 0;
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
        e->slice_from_us = now;
        r->postponed = false;
        return true;
    }
    if (now >= e->kernel.until_us) {
        kernel_cut(&e->kernel, now);
    }
    return now < e->kernel.until_us;
}

/* What deciding had of this commit counts as much as all before. */
static void share_note(struct engine *e, int64_t decided_us, int64_t commit_us)
{
    int64_t share = commit_us > 0 ? decided_us * SHARE_WHOLE / commit_us : SHARE_WHOLE;
    int64_t mean = e->slice_share > 0 ? (e->slice_share + share) / 2 : share;
    e->slice_share = mean > SHARE_LEAST ? mean : SHARE_LEAST;
}

void slice_end(struct round *r)
{
    struct engine *e = r->engine;
    int64_t took_us = now_us(e) - r->began_us;
    e->turn_ended_us = r->began_us + took_us;
    if (r->batch == NULL) {
        e->others_us = e->turns > 0 ? e->others_us + took_us : 0;
        return;
    }
    e->others_us = 0;
    if (e->kernel.was_cut) {
        share_note(e, e->kernel.cut_us - e->slice_from_us, took_us);
    }
}
