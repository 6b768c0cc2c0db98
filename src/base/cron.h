/* cron.h - when a cron expression is due next, in UTC
 *
 * Five fields: minute, hour, day of the month, month, day of the week. A field is a star, a number, a range a-b, each
 * with a step /n where wanted, or a list of these; months and weekdays have names of three letters too, and Sunday
 * is 0 or 7. When both days are restricted, either is enough. Pure and thread-safe.
 */
#ifndef QP_BASE_CRON_H
#define QP_BASE_CRON_H

#include "base/base.h"

struct cron {
    uint64_t minutes; /* a bit for each that is due */
    uint64_t hours;
    uint64_t days;
    uint64_t months;
    uint64_t weekdays;
    bool any_day;     /* days begins with a star */
    bool any_weekday; /* so does weekdays */
};

/* QP_E_INVALID: it is none, or no day ever fits it; the sentence names the field. */
int cron_parse(qp_str text, struct cron *out_cron, struct qp_err *err) QP_MUST_USE;
/* The first full minute after `after` that is due; a time before 1970 counts as its beginning. */
qp_ms cron_next(const struct cron *c, qp_ms after);

#endif
