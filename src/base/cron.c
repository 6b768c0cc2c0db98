/* cron.c - cron expressions as sets of minutes, hours and days (see cron.h) */
#include "base/cron.h"

#include <strings.h>

#include "base/time.h"

#define MINUTE_MS INT64_C(60000)
#define DAY_MINUTES INT64_C(1440)
/* The 29th of February may be eight years away; behind that everything has been seen. */
#define DAYS_MOST (9 * 366)

struct cron_field {
    const char *name;
    int64_t least;
    int64_t most;
    const char *names; /* of three letters each, from `least` on; or NULL */
};

static const struct cron_field fields[] = {
    {"minute", 0, 59, NULL},
    {"hour", 0, 23, NULL},
    {"day of the month", 1, 31, NULL},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    {"day of the week", 0, 7, "sunmontuewedthufrisat"},
};

static bool take_char(qp_str *s, char c)
{
    if (s->n == 0 || s->p[0] != c) {
        return false;
    }
    *s = (qp_str){s->p + 1, s->n - 1};
    return true;
}

static bool take_name(qp_str *s, const struct cron_field *f, int64_t *out_number)
{
    for (size_t i = 0; f->names != NULL && f->names[i] != '\0'; i += 3) {
        if (s->n >= 3 && strncasecmp(s->p, f->names + i, 3) == 0) {
            *s = (qp_str){s->p + 3, s->n - 3};
            *out_number = f->least + (int64_t)(i / 3);
            return true;
        }
    }
    return false;
}

static bool take_number(qp_str *s, int64_t *out_number)
{
    int64_t number = 0;
    size_t n = 0;

    while (n < s->n && n < 3 && s->p[n] >= '0' && s->p[n] <= '9') {
        number = number * 10 + (s->p[n++] - '0');
    }
    *s = (qp_str){s->p + n, s->n - n};
    *out_number = number;
    return n > 0;
}

/* One of a list: star, number or range, with a step. */
static bool take_entry(qp_str *s, const struct cron_field *f, uint64_t *bits)
{
    int64_t first = f->least;
    int64_t last = f->most;
    int64_t step = 1;

    if (!take_char(s, '*')) {
        if (!take_name(s, f, &first) && !take_number(s, &first)) {
            return false;
        }
        last = first;
        if (take_char(s, '-')) {
            if (!take_name(s, f, &last) && !take_number(s, &last)) {
                return false;
            }
        } else if (s->n > 0 && s->p[0] == '/') {
            last = f->most;
        }
    }
    if (take_char(s, '/') && (!take_number(s, &step) || step == 0)) {
        return false;
    }
    if (first < f->least || last > f->most || first > last) {
        return false;
    }
    for (int64_t i = first; i <= last; i += step) {
        *bits |= UINT64_C(1) << i;
    }
    return true;
}

static bool take_field(qp_str *s, const struct cron_field *f, uint64_t *out_bits)
{
    while (take_char(s, ' ') || take_char(s, '\t')) {}
    *out_bits = 0;
    do {
        if (!take_entry(s, f, out_bits)) {
            return false;
        }
    } while (take_char(s, ','));
    return s->n == 0 || s->p[0] == ' ' || s->p[0] == '\t';
}

static bool has(uint64_t bits, int64_t number)
{
    return (bits >> number & 1) != 0;
}

/* Whether a day is due; when both of its fields are restricted, either is enough. */
static bool day_fits(const struct cron *c, int64_t days)
{
    struct civil d = civil_from_days(days);
    bool day = has(c->days, d.day);
    bool weekday = has(c->weekdays, (days % 7 + 11) % 7); /* 1970 began on a Thursday */

    if (!has(c->months, d.month)) {
        return false;
    }
    return c->any_day || c->any_weekday ? day && weekday : day || weekday;
}

/* The first minute of the day at or after `minute` that is due; -1: there is none. */
static int64_t minute_fits(const struct cron *c, int64_t minute)
{
    for (; minute < DAY_MINUTES; minute++) {
        if (has(c->hours, minute / 60) && has(c->minutes, minute % 60)) {
            return minute;
        }
    }
    return -1;
}

static int64_t next_day(const struct cron *c, int64_t day)
{
    for (int64_t i = 0; i < DAYS_MOST; i++) {
        if (day_fits(c, day + i)) {
            return day + i;
        }
    }
    return -1;
}

int cron_parse(qp_str text, struct cron *out_cron, struct qp_err *err)
{
    struct cron c = {0};
    uint64_t *bits[] = {&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays};
    qp_str rest = text;

    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        qp_str before = rest;

        if (!take_field(&rest, &fields[i], bits[i])) {
            return err_set(err, QP_E_INVALID, "cron: the %s is wrong", fields[i].name);
        }
        while (take_char(&before, ' ') || take_char(&before, '\t')) {}
        c.any_day = c.any_day || (i == 2 && before.p[0] == '*');
        c.any_weekday = c.any_weekday || (i == 4 && before.p[0] == '*');
    }
    while (take_char(&rest, ' ') || take_char(&rest, '\t')) {}
    if (rest.n > 0) {
        return err_set(err, QP_E_INVALID, "cron: there are five fields, and no more");
    }
    c.weekdays |= c.weekdays >> 7 & 1; /* Sunday is 7, too */
    if (next_day(&c, 0) < 0) {
        return err_set(err, QP_E_INVALID, "cron: no day of these months is ever due");
    }
    *out_cron = c;
    return QP_OK;
}

qp_ms cron_next(const struct cron *c, qp_ms after)
{
    int64_t minute = (after > 0 ? after : 0) / MINUTE_MS + 1;
    int64_t day = minute / DAY_MINUTES;

    if (day_fits(c, day)) {
        int64_t found = minute_fits(c, minute % DAY_MINUTES);

        if (found >= 0) {
            return (day * DAY_MINUTES + found) * MINUTE_MS;
        }
    }
    day = next_day(c, day + 1);
    QP_ASSERT(day >= 0); /* cron_parse has found one in every nine years */
    return (day * DAY_MINUTES + minute_fits(c, 0)) * MINUTE_MS;
}
