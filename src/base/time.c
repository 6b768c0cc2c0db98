/* time.c - times and spans of time as text (see time.h)
 *
 * Days are counted in the proleptic Gregorian calendar, with years that begin in March, so that the
 * leap day is the last of its year and a month's first day is a linear function of its number.
 */
#include "base/time.h"

#include <stdio.h>

#include "base/log.h"

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define ERA_DAYS 146097  /* 400 years */
#define EPOCH_DAY 719468 /* 1970-01-01, from 0000-03-01 */
#define FIRST_MS INT64_C(-62135596800000)
#define LAST_MS INT64_C(253402300799999)

/* Division that rounds down, for times before the epoch and years before 1. */
static int64_t floor_divide(int64_t number, int64_t by)
{
    return number / by - (number % by < 0);
}

int64_t civil_to_days(struct civil d)
{
    int64_t year = d.month > 2 ? d.year : d.year - 1;
    int64_t era = floor_divide(year, 400);
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (d.month > 2 ? d.month - 3 : d.month + 9) + 2) / 5 + d.day - 1;
    return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAY;
}

struct civil civil_from_days(int64_t days)
{
    int64_t shifted = days + EPOCH_DAY;
    int64_t era = floor_divide(shifted, ERA_DAYS);
    int64_t of_era = shifted - era * ERA_DAYS;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    return (struct civil){.year = year + era * 400 + (month >= 10),
                          .month = month < 10 ? month + 3 : month - 9,
                          .day = of_year - (153 * month + 2) / 5 + 1};
}

void rfc3339_format(qp_ms at, char out_text[RFC3339_SIZE])
{
    qp_ms within = at < FIRST_MS ? FIRST_MS : at > LAST_MS ? LAST_MS : at;
    int64_t days = floor_divide(within, DAY_MS);
    int64_t ms = within - days * DAY_MS;
    struct civil d = civil_from_days(days);
    int n = snprintf(out_text, RFC3339_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)d.year,
                     (int)d.month, (int)d.day, (int)(ms / HOUR_MS), (int)(ms / MINUTE_MS % 60),
                     (int)(ms / SECOND_MS % 60), (int)(ms % SECOND_MS));
    QP_ASSERT(n == RFC3339_SIZE - 1);
}

/* ---------------------------------------------------------------------------------------- reading */

static bool is_digit(qp_str s, size_t at)
{
    return at < s.n && s.p[at] >= '0' && s.p[at] <= '9';
}

/* `count` digits, taken off the front. */
static bool take_digits(qp_str *rest, size_t count, int64_t *out_number)
{
    int64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_digit(*rest, i)) {
            return false;
        }
        number = number * 10 + (rest->p[i] - '0');
    }
    *rest = (qp_str){rest->p + count, rest->n - count};
    *out_number = number;
    return true;
}

/* One character of `these`, taken off the front; 0: it is none of them. */
static char take_one(qp_str *rest, const char *these)
{
    char c = rest->n > 0 ? rest->p[0] : '\0';
    if (c == '\0' || strchr(these, c) == NULL) {
        return '\0';
    }
    *rest = (qp_str){rest->p + 1, rest->n - 1};
    return c;
}

static bool take_date(qp_str *rest, struct civil *out_date)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct civil d;
    bool leap;
    if (!take_digits(rest, 4, &d.year) || take_one(rest, "-") == 0 ||
        !take_digits(rest, 2, &d.month) || take_one(rest, "-") == 0 ||
        !take_digits(rest, 2, &d.day) || d.year < 1 || d.month < 1 || d.month > 12) {
        return false;
    }
    leap = d.year % 4 == 0 && (d.year % 100 != 0 || d.year % 400 == 0);
    *out_date = d;
    return d.day >= 1 && d.day <= days[d.month - 1] + (leap && d.month == 2);
}

/* The digits behind the point: milliseconds, the rest is cut. */
static bool take_fraction(qp_str *rest, int64_t *out_ms)
{
    int64_t weight = 100;
    *out_ms = 0;
    if (take_one(rest, ".,") == 0) {
        return true;
    }
    if (!is_digit(*rest, 0)) {
        return false;
    }
    while (is_digit(*rest, 0)) {
        *out_ms += weight * (rest->p[0] - '0');
        weight /= 10;
        *rest = (qp_str){rest->p + 1, rest->n - 1};
    }
    return true;
}

static bool take_clock(qp_str *rest, qp_ms *out_ms)
{
    int64_t hour;
    int64_t minute;
    int64_t second;
    int64_t ms;
    if (!take_digits(rest, 2, &hour) || take_one(rest, ":") == 0 ||
        !take_digits(rest, 2, &minute) || take_one(rest, ":") == 0 ||
        !take_digits(rest, 2, &second) || !take_fraction(rest, &ms)) {
        return false;
    }
    *out_ms = hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + (second == 60 ? 0 : ms);
    return hour < 24 && minute < 60 && second <= 60;
}

static bool take_offset(qp_str *rest, qp_ms *out_ms)
{
    char sign = take_one(rest, "Zz+-");
    int64_t hour = 0;
    int64_t minute = 0;
    if (sign == 'Z' || sign == 'z') {
        *out_ms = 0;
        return true;
    }
    if (sign == '\0' || !take_digits(rest, 2, &hour) || take_one(rest, ":") == 0 ||
        !take_digits(rest, 2, &minute)) {
        return false;
    }
    *out_ms = (hour * HOUR_MS + minute * MINUTE_MS) * (sign == '-' ? -1 : 1);
    return hour < 24 && minute < 60;
}

static int refuse(struct qp_err *err, qp_str text, const char *what)
{
    char shown[64];
    (void)log_escape(text, shown, sizeof shown); /* its length does not matter */
    return err_set(err, QP_E_INVALID, "'%s' is no %s", shown, what);
}

int rfc3339_parse(qp_str text, qp_ms *out_at, struct qp_err *err)
{
    qp_str rest = text;
    struct civil date;
    qp_ms clock;
    qp_ms offset;
    if (!take_date(&rest, &date) || take_one(&rest, "Tt ") == 0 || !take_clock(&rest, &clock) ||
        !take_offset(&rest, &offset) || rest.n > 0) {
        return refuse(err, text, "time: write it as 2026-01-31T09:08:07Z");
    }
    *out_at = civil_to_days(date) * DAY_MS + clock - offset;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ spans */

/* The unit that stands at the front; 0: there is none. `iso`: as ISO 8601 has it. */
static int64_t take_unit(qp_str *rest, bool iso)
{
    static const struct {
        const char *text;
        const char *iso;
        int64_t ms;
    } units[] = {{"ms", NULL, 1},     {"s", "S", SECOND_MS}, {"m", "M", MINUTE_MS},
                 {"h", "H", HOUR_MS}, {"d", "D", DAY_MS},    {"w", "W", 7 * DAY_MS}};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        const char *name = iso ? units[i].iso : units[i].text;
        size_t n = name == NULL ? 0 : strlen(name);
        if (n > 0 && rest->n >= n && memcmp(rest->p, name, n) == 0) {
            *rest = (qp_str){rest->p + n, rest->n - n};
            return units[i].ms;
        }
    }
    return 0;
}

/* One number and its unit, added to the sum. */
static bool take_part(qp_str *rest, bool iso, int64_t *sum)
{
    int64_t number = 0;
    int64_t thousandths = 0;
    int64_t unit;
    size_t digits = 0;
    for (; is_digit(*rest, 0) && number <= LIMIT_TIMER_MS; digits++) {
        int64_t digit = 0;
        if (!take_digits(rest, 1, &digit)) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (digits == 0 || !take_fraction(rest, &thousandths)) {
        return false;
    }
    unit = take_unit(rest, iso);
    if (unit == 0 || number > LIMIT_TIMER_MS / unit) {
        return false;
    }
    *sum += number * unit + thousandths * unit / 1000;
    return *sum <= LIMIT_TIMER_MS;
}

int span_parse(qp_str text, qp_ms *out_ms, struct qp_err *err)
{
    qp_str rest = text;
    bool iso = take_one(&rest, "P") != 0;
    bool timed = false;
    bool good = rest.n > 0;
    int64_t sum = 0;
    while (good && rest.n > 0) {
        if (iso && !timed && take_one(&rest, "T") != 0) {
            timed = true;
            good = rest.n > 0;
        } else {
            /* Before the T an M would be a month, which has no length. */
            good = take_part(&rest, iso, &sum) && !(iso && !timed && rest.p[-1] == 'M');
        }
    }
    if (!good) {
        return refuse(err, text, "span of time up to ten years: write it as 10s, 1h30m or PT10S");
    }
    *out_ms = sum;
    return QP_OK;
}

int moment_parse(qp_str text, qp_ms now, qp_ms *out_at)
{
    qp_ms span = 0;
    int rc;
    if (text.n == 0 || text.p[0] != '-') {
        return rfc3339_parse(text, out_at, NULL);
    }
    rc = span_parse((qp_str){text.p + 1, text.n - 1}, &span, NULL);
    if (rc == QP_OK) {
        *out_at = now - span;
    }
    return rc;
}
