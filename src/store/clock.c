/* clock.c - the store's clock, and what a step of the wall clock does to it
 *
 *   I1  it never goes back. The highest time that was committed is in the head row, so that a store that is
 *       opened under a clock that was set back goes on from where it was
 *   I2  between two looks at the wall it advances by the monotonic clock
 *   I3  when the wall is ahead or behind, it moves towards it by one part in LIMIT_CLOCK_SLEW of the time that
 *       passes: a day is absorbed in some months, a second in two minutes. So a step, forward or back, neither
 *       ends a lease early nor makes a timer late by more than that part of it
 *   I4  a store that many share has one clock, the server's. Forward it is followed at once: handles that
 *       followed it each at a speed of its own would judge each other's leases wrongly
 *
 * A file that is opened after the step begins with the wall, if that is ahead: I2 and I3 hold while it is open.
 */
#include "store/store_internal.h"

#define CLOCK_MOST_MS INT64_C(253402300799999) /* the end of the year 9999 */

/* The server's, where there is one: as it was told last, and what has passed since. A wall clock that
 * says nonsense stays within what can be counted. */
static int64_t wall_now_us(const struct store *s, int64_t us)
{
    const struct provider *p = s->provider;
    qp_ms wall = p->server_ms > 0 ? p->server_ms + (us - p->server_us) / 1000
                                  : s->env.wall_ms(s->env.context);
    wall = wall < 0 ? 0 : wall;
    return (wall < CLOCK_MOST_MS ? wall : CLOCK_MOST_MS) * 1000;
}

/* How far the clock moves towards the wall, which is ahead by `off_us`: as far as the time that has passed
 * since the two agreed allows. */
static int64_t slew_us(struct store *s, int64_t off_us)
{
    int64_t most = s->slack_us / LIMIT_CLOCK_SLEW;
    int64_t by = off_us > most ? most : off_us < -most ? -most : off_us;
    if (by == off_us) {
        s->slack_us = 0;
    } else {
        s->slack_us -= (by < 0 ? -by : by) * LIMIT_CLOCK_SLEW;
    }
    return by;
}

qp_ms store_now(struct store *s)
{
    int64_t us = s->env.monotonic_us(s->env.context);
    int64_t passed_us = us - s->clock_set_us;
    int64_t off_us;
    QP_ASSERT(passed_us >= 0);
    s->clock_us += passed_us;
    s->slack_us += passed_us;
    s->clock_set_us = us;
    off_us = wall_now_us(s, us) - s->clock_us;
    if (off_us > -1000 && off_us < 1000) {
        s->slack_us = 0; /* the wall counts milliseconds: they agree */
    } else if (off_us > 0 && s->provider->shared) {
        s->clock_us += off_us; /* all handles follow the one clock that they share */
        s->slack_us = 0;
    } else {
        s->clock_us += slew_us(s, off_us);
    }
    return s->clock_us / 1000;
}

void clock_begin(struct store *s)
{
    s->clock_set_us = s->env.monotonic_us(s->env.context);
    s->clock_us = wall_now_us(s, s->clock_set_us);
}

void clock_heed(struct store *s, qp_ms committed)
{
    int64_t committed_us = (committed < CLOCK_MOST_MS ? committed : CLOCK_MOST_MS) * 1000;
    s->clock_us = committed_us > s->clock_us ? committed_us : s->clock_us;
}
