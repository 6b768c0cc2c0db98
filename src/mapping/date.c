/* date.c - times of ECMAScript: from fields and back, from text and back (see date.h) */
#include "mapping/date.h"

#include <math.h>
#include <stdio.h>

#include "base/time.h"

#define SECOND_MS 1000.0
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define TIME_MOST 8.64e15
#define YEAR_MOST 400000 /* further off than any time */

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char weekdays[] = "SunMonTueWedThuFriSat";

static double iso_parse(qp_str text);
static double loose_parse(qp_str text);

/* --------------------------------------------------------------------------------------- fields */

double date_clip(double time)
{
    if (!isfinite(time) || fabs(time) > TIME_MOST) {
        return NAN;
    }
    return trunc(time) + 0.0;
}

static double days_of(double year, double month, double day)
{
    double whole = year + floor(month / 12);
    double within = month - floor(month / 12) * 12;

    if (!(fabs(whole) <= YEAR_MOST)) {
        return NAN;
    }
    return (double)civil_to_days((struct civil){(int64_t)whole, (int64_t)within + 1, 1}) + day - 1;
}

double date_make(const double fields[DATE_FIELDS])
{
    double f[DATE_FIELDS];
    double clock;

    for (int i = 0; i < DATE_FIELDS; i++) {
        if (!isfinite(fields[i])) {
            return NAN;
        }
        f[i] = trunc(fields[i]);
    }
    clock = f[DATE_HOURS] * HOUR_MS + f[DATE_MINUTES] * MINUTE_MS + f[DATE_SECONDS] * SECOND_MS +
            f[DATE_MS];
    return date_clip(days_of(f[DATE_YEAR], f[DATE_MONTH], f[DATE_DAY]) * DAY_MS + clock);
}

void date_split(double time, double out_fields[DATE_FIELDS + 1])
{
    double days = floor(time / DAY_MS);
    double clock = time - days * DAY_MS;
    struct civil d;
    double weekday;

    QP_ASSERT(fabs(time) <= TIME_MOST);
    d = civil_from_days((int64_t)days);
    weekday = fmod(days + 4, 7); /* 1970 began on a Thursday */
    out_fields[DATE_YEAR] = (double)d.year;
    out_fields[DATE_MONTH] = (double)d.month - 1;
    out_fields[DATE_DAY] = (double)d.day;
    out_fields[DATE_HOURS] = floor(clock / HOUR_MS);
    out_fields[DATE_MINUTES] = fmod(floor(clock / MINUTE_MS), 60);
    out_fields[DATE_SECONDS] = fmod(floor(clock / SECOND_MS), 60);
    out_fields[DATE_MS] = fmod(clock, SECOND_MS);
    out_fields[DATE_WEEKDAY] = weekday < 0 ? weekday + 7 : weekday + 0.0; /* and not -0 */
}

/* -------------------------------------------------------------------------------------- writing */

/* The fields as integers, for printf. */
struct split {
    int year;
    int month;
    int day;
    int hours;
    int minutes;
    int seconds;
    int ms;
    const char *weekday; /* three letters, not ended; as month_name */
    const char *month_name;
};

static struct split split_of(double time)
{
    double f[DATE_FIELDS + 1];

    date_split(time, f);
    return (struct split){.year = (int)f[DATE_YEAR],
                          .month = (int)f[DATE_MONTH] + 1,
                          .day = (int)f[DATE_DAY],
                          .hours = (int)f[DATE_HOURS],
                          .minutes = (int)f[DATE_MINUTES],
                          .seconds = (int)f[DATE_SECONDS],
                          .ms = (int)f[DATE_MS],
                          .weekday = weekdays + 3 * (int)f[DATE_WEEKDAY],
                          .month_name = months + 3 * (int)f[DATE_MONTH]};
}

size_t date_iso(double time, char out_text[DATE_ISO_SIZE])
{
    struct split s = split_of(time);
    int n = s.year >= 0 && s.year <= 9999 ? snprintf(out_text, DATE_ISO_SIZE, "%04d", s.year)
                                          : snprintf(out_text, DATE_ISO_SIZE, "%+07d", s.year);

    n += snprintf(out_text + n, DATE_ISO_SIZE - (size_t)n, "-%02d-%02dT%02d:%02d:%02d.%03dZ",
                  s.month, s.day, s.hours, s.minutes, s.seconds, s.ms);
    QP_ASSERT(n < DATE_ISO_SIZE);
    return (size_t)n;
}

static int put_year(int year, char *out, size_t size)
{
    return snprintf(out, size, "%s%04d", year < 0 ? "-" : "", year < 0 ? -year : year);
}

static int put_date(const struct split *s, char *out, size_t size)
{
    int n = snprintf(out, size, "%.3s %.3s %02d ", s->weekday, s->month_name, s->day);

    return n + put_year(s->year, out + n, size - (size_t)n);
}

static int put_time(const struct split *s, char *out, size_t size)
{
    return snprintf(out, size, "%02d:%02d:%02d GMT+0000 (Coordinated Universal Time)", s->hours,
                    s->minutes, s->seconds);
}

static int put_utc(const struct split *s, char *out, size_t size)
{
    int n = snprintf(out, size, "%.3s, %02d %.3s ", s->weekday, s->day, s->month_name);

    n += put_year(s->year, out + n, size - (size_t)n);
    return n + snprintf(out + n, size - (size_t)n, " %02d:%02d:%02d GMT", s->hours, s->minutes,
                        s->seconds);
}

static int put_locale_date(const struct split *s, char *out, size_t size)
{
    return snprintf(out, size, "%d/%d/%d", s->month, s->day, s->year);
}

static int put_locale_time(const struct split *s, char *out, size_t size)
{
    return snprintf(out, size, "%d:%02d:%02d %s", s->hours % 12 == 0 ? 12 : s->hours % 12,
                    s->minutes, s->seconds, s->hours < 12 ? "AM" : "PM");
}

size_t date_format(double time, enum date_form form, char out_text[DATE_TEXT_SIZE])
{
    struct split s = split_of(time);
    int n = 0;

    switch (form) {
    case DATE_FORM_UTC:
        return (size_t)put_utc(&s, out_text, DATE_TEXT_SIZE);
    case DATE_FORM_STRING:
    case DATE_FORM_DATE:
        n = put_date(&s, out_text, DATE_TEXT_SIZE);
        break;
    case DATE_FORM_LOCALE:
    case DATE_FORM_LOCALE_DATE:
        n = put_locale_date(&s, out_text, DATE_TEXT_SIZE);
        break;
    case DATE_FORM_TIME:
    case DATE_FORM_LOCALE_TIME:
        break;
    }
    if (form == DATE_FORM_STRING) {
        out_text[n++] = ' ';
    } else if (form == DATE_FORM_LOCALE) {
        out_text[n++] = ',';
        out_text[n++] = ' ';
    }
    if (form == DATE_FORM_STRING || form == DATE_FORM_TIME) {
        n += put_time(&s, out_text + n, DATE_TEXT_SIZE - (size_t)n);
    } else if (form == DATE_FORM_LOCALE || form == DATE_FORM_LOCALE_TIME) {
        n += put_locale_time(&s, out_text + n, DATE_TEXT_SIZE - (size_t)n);
    }
    return (size_t)n;
}

/* -------------------------------------------------------------------------------------- reading */

/* What has been read, and what is left of the text. */
struct reading {
    qp_str rest;
    double fields[DATE_FIELDS];
    double offset_ms; /* of the time zone */
    bool dated;
    bool timed;
    bool noon; /* PM */
    bool half; /* AM or PM */
};

static bool take_char(struct reading *r, char c)
{
    if (r->rest.n == 0 || r->rest.p[0] != c) {
        return false;
    }
    r->rest = (qp_str){r->rest.p + 1, r->rest.n - 1};
    return true;
}

/* Digits: exactly `count`, or any number of them up to nine for 0. */
static bool take_number(struct reading *r, size_t count, double *out_number)
{
    double number = 0;
    size_t n = 0;

    while (n < r->rest.n && n < 9 && r->rest.p[n] >= '0' && r->rest.p[n] <= '9' &&
           (count == 0 || n < count)) {
        number = number * 10 + (r->rest.p[n] - '0');
        n++;
    }
    if (n == 0 || (count != 0 && n != count)) {
        return false;
    }
    r->rest = (qp_str){r->rest.p + n, r->rest.n - n};
    *out_number = number;
    return true;
}

/* Behind the point: milliseconds, further digits are cut. */
static bool take_fraction(struct reading *r)
{
    double weight = 100;
    size_t n = 0;

    r->fields[DATE_MS] = 0;
    while (n < r->rest.n && r->rest.p[n] >= '0' && r->rest.p[n] <= '9') {
        r->fields[DATE_MS] += floor(weight) * (r->rest.p[n] - '0');
        weight /= 10;
        n++;
    }
    r->rest = (qp_str){r->rest.p + n, r->rest.n - n};
    return n > 0;
}

/* hh:mm, with seconds and a fraction where they are; the hours have been read where `hours` says so. */
static bool take_clock(struct reading *r, size_t digits, bool hours)
{
    if ((!hours && !take_number(r, digits, &r->fields[DATE_HOURS])) || !take_char(r, ':') ||
        !take_number(r, 2, &r->fields[DATE_MINUTES])) {
        return false;
    }
    if (take_char(r, ':') && (!take_number(r, 2, &r->fields[DATE_SECONDS]) ||
                              (take_char(r, '.') && !take_fraction(r)))) {
        return false;
    }
    r->timed = true;
    return true;
}

/* +hh:mm or, where it is not ISO, +hhmm. */
static bool take_offset(struct reading *r, bool iso)
{
    double sign = r->rest.n > 0 && r->rest.p[0] == '-' ? -1 : 1;
    double hours;
    double minutes;

    if ((!take_char(r, '+') && !take_char(r, '-')) || !take_number(r, 2, &hours) ||
        (!take_char(r, ':') && iso) || !take_number(r, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    r->offset_ms = sign * (hours * HOUR_MS + minutes * MINUTE_MS);
    return true;
}

static double days_in_month(const struct reading *r)
{
    return days_of(r->fields[DATE_YEAR], r->fields[DATE_MONTH] + 1, 1) -
           days_of(r->fields[DATE_YEAR], r->fields[DATE_MONTH], 1);
}

/* All fields in their ranges; midnight may be the end of its day. */
static double finish(const struct reading *r)
{
    const double *f = r->fields;
    bool midnight =
        f[DATE_HOURS] == 24 && f[DATE_MINUTES] == 0 && f[DATE_SECONDS] == 0 && f[DATE_MS] == 0;

    if (f[DATE_MONTH] < 0 || f[DATE_MONTH] > 11 || f[DATE_DAY] < 1 ||
        f[DATE_DAY] > days_in_month(r) || (f[DATE_HOURS] > 23 && !midnight) ||
        f[DATE_MINUTES] > 59 || f[DATE_SECONDS] > 59) {
        return NAN;
    }
    return date_clip(date_make(f) - r->offset_ms);
}

double date_parse(qp_str text)
{
    double time = iso_parse(text);

    return isnan(time) ? loose_parse(text) : time;
}

static bool take_iso_year(struct reading *r)
{
    bool negative = r->rest.n > 0 && r->rest.p[0] == '-';
    double *year = &r->fields[DATE_YEAR];

    if (!take_char(r, '+') && !take_char(r, '-')) {
        return take_number(r, 4, year);
    }
    if (!take_number(r, 6, year) || (negative && *year == 0)) {
        return false;
    }
    *year = negative ? -*year : *year;
    return true;
}

static bool take_iso_day(struct reading *r)
{
    if (!take_iso_year(r)) {
        return false;
    }
    if (take_char(r, '-')) {
        if (!take_number(r, 2, &r->fields[DATE_MONTH])) {
            return false;
        }
        r->fields[DATE_MONTH]--;
        if (take_char(r, '-') && !take_number(r, 2, &r->fields[DATE_DAY])) {
            return false;
        }
    }
    return true;
}

static double iso_parse(qp_str text)
{
    struct reading r = {.rest = text, .fields = {[DATE_DAY] = 1}};

    if (!take_iso_day(&r)) {
        return NAN;
    }
    if (take_char(&r, 'T') && (!take_clock(&r, 2, false) ||
                               (!take_char(&r, 'Z') && r.rest.n > 0 && !take_offset(&r, true)))) {
        return NAN;
    }
    return r.rest.n > 0 ? NAN : finish(&r);
}

/* Where three letters stand in a list of such, counted from 0; -1: nowhere. */
static int name_index(const char *names, qp_str word)
{
    for (int i = 0; word.n >= 3 && names[3 * i] != '\0'; i++) {
        if (strncasecmp(names + 3 * (ptrdiff_t)i, word.p, 3) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_word(qp_str word, const char *text)
{
    return word.n == strlen(text) && strncasecmp(word.p, text, word.n) == 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool take_word(struct reading *r)
{
    qp_str word = {r->rest.p, 0};
    int month;

    while (word.n < r->rest.n && is_letter(word.p[word.n])) {
        word.n++;
    }
    r->rest = (qp_str){r->rest.p + word.n, r->rest.n - word.n};
    month = name_index(months, word);
    if (month >= 0 && r->fields[DATE_MONTH] < 0) {
        r->fields[DATE_MONTH] = month;
        return true;
    }
    if (is_word(word, "AM") || is_word(word, "PM")) {
        r->noon = is_word(word, "PM");
        r->half = true;
        return r->timed && r->fields[DATE_HOURS] >= 1 && r->fields[DATE_HOURS] <= 12;
    }
    return name_index(weekdays, word) >= 0 || is_word(word, "GMT") || is_word(word, "UTC") ||
           is_word(word, "Z");
}

/* A time of day, a date with slashes, a day, or a year behind the day. */
static bool take_loose_number(struct reading *r)
{
    double *f = r->fields;
    double number;

    if (!take_number(r, 0, &number)) {
        return false;
    }
    if (r->rest.n > 0 && r->rest.p[0] == ':') {
        f[DATE_HOURS] = number;
        return !r->timed && take_clock(r, 0, true);
    }
    if (take_char(r, '/')) {
        f[DATE_MONTH] = number - 1;
        r->dated = true;
        return take_number(r, 0, &f[DATE_DAY]) && take_char(r, '/') &&
               take_number(r, 4, &f[DATE_YEAR]);
    }
    if (f[DATE_DAY] < 0) {
        f[DATE_DAY] = number;
        return true;
    }
    f[DATE_YEAR] = number;
    return !r->dated && (r->dated = true) && number >= 1000;
}

static bool take_comment(struct reading *r)
{
    const char *end = memchr(r->rest.p, ')', r->rest.n);

    if (end == NULL) {
        return false;
    }
    r->rest = (qp_str){end + 1, r->rest.n - (size_t)(end + 1 - r->rest.p)};
    return true;
}

static bool take_part(struct reading *r)
{
    char c = r->rest.p[0];

    if (c == ' ' || c == ',') {
        return take_char(r, c);
    }
    if (c == '(') {
        return take_comment(r);
    }
    if (c == '+' || c == '-') {
        return r->timed && take_offset(r, false);
    }
    return is_letter(c) ? take_word(r) : take_loose_number(r);
}

static double loose_parse(qp_str text)
{
    struct reading r = {.rest = text, .fields = {[DATE_MONTH] = -1, [DATE_DAY] = -1}};

    while (r.rest.n > 0) {
        if (!take_part(&r)) {
            return NAN;
        }
    }
    if (!r.dated || r.fields[DATE_DAY] < 0) {
        return NAN;
    }
    if (r.half) {
        r.fields[DATE_HOURS] = fmod(r.fields[DATE_HOURS], 12) + (r.noon ? 12 : 0);
    }
    return finish(&r);
}
