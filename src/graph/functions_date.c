/* functions_date.c - {@date...} and {@cron...}
 *
 * What is asked about a date is asked about the first operand: a date, milliseconds, or a string that date_parse reads, or
 * that is all digits: milliseconds again. With no operand at all it is now, which the scope says.
 */
#include <math.h>
#include <stdio.h>

#include "base/cron.h"
#include "graph/date.h"
#include "graph/functions.h"

static bool is_digits(qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return false;
        }
    }
    return text.n > 0;
}

static double time_of_text(qp_str text)
{
    double time = date_parse(text);

    return isnan(time) && is_digits(text) ? date_clip(number_of(text)) : time;
}

/* NaN: it is no date. */
static double take_time(const struct call *c)
{
    const struct value *v = call_operand(c, 0);

    if (c->count == 0) {
        return (double)c->scope->now;
    }
    switch (v->kind) {
    case VALUE_DATE:
        return v->real;
    case VALUE_INT:
        return date_clip((double)v->integer);
    case VALUE_REAL:
        return date_clip(v->real);
    case VALUE_STRING:
        return time_of_text(v->text);
    default:
        return NAN;
    }
}

int date_now(struct call *c)
{
    return give_integer(c, c->scope->now);
}

int date_from_iso(struct call *c)
{
    return give(c, &(struct value){.kind = VALUE_DATE, .real = take_time(c)});
}

int date_parse_text(struct call *c)
{
    qp_str text;
    int rc = call_text(c, 0, &text);

    return rc == QP_OK ? give_number(c, date_parse(text)) : rc;
}

int date_value_of(struct call *c)
{
    return give_number(c, take_time(c));
}

/* A year of two digits is one of the last century. */
int date_utc(struct call *c)
{
    double fields[DATE_FIELDS] = {NAN, 0, 1};
    double year;
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < c->count && i < DATE_FIELDS; i++) {
        rc = call_number(c, i, &fields[i]);
    }
    if (rc != QP_OK) {
        return rc;
    }
    year = trunc(fields[DATE_YEAR]);
    if (year >= 0 && year <= 99) {
        fields[DATE_YEAR] = 1900 + year;
    }
    return give_number(c, date_make(fields));
}

/* -------------------------------------------------------------------------------------- getting */

static int give_field(struct call *c, enum date_field field)
{
    double fields[DATE_FIELDS + 1];
    double time = take_time(c);

    if (isnan(time)) {
        return give_number(c, NAN);
    }
    date_split(time, fields);
    return give_number(c, fields[field]);
}

#define GET(name, field)                                                                           \
    int date_get_##name(struct call *c)                                                            \
    {                                                                                              \
        return give_field(c, field);                                                               \
    }
GET(year, DATE_YEAR)
GET(month, DATE_MONTH)
GET(day, DATE_DAY)
GET(weekday, DATE_WEEKDAY)
GET(hours, DATE_HOURS)
GET(minutes, DATE_MINUTES)
GET(seconds, DATE_SECONDS)
GET(ms, DATE_MS)
#undef GET

int date_get_offset(struct call *c)
{
    return give_number(c, isnan(take_time(c)) ? NAN : 0);
}

/* -------------------------------------------------------------------------------------- setting */

/* Fields from `first` up to `last`, as far as operands were given. Of no date only the year can be set. */
static int set_fields(struct call *c, enum date_field first, enum date_field last)
{
    double fields[DATE_FIELDS + 1];
    double time = take_time(c);
    size_t given = c->count > 1 ? c->count - 1 : 0;
    int rc = QP_OK;

    if (given == 0 || (isnan(time) && first != DATE_YEAR)) {
        return give_number(c, NAN);
    }
    date_split(isnan(time) ? 0 : time, fields);
    for (size_t i = 0; rc == QP_OK && i < given && first + i <= last; i++) {
        rc = call_number(c, i + 1, &fields[first + i]);
    }
    return rc == QP_OK ? give_number(c, date_make(fields)) : rc;
}

#define SET(name, first, last)                                                                     \
    int date_set_##name(struct call *c)                                                            \
    {                                                                                              \
        return set_fields(c, first, last);                                                         \
    }
SET(year, DATE_YEAR, DATE_DAY)
SET(month, DATE_MONTH, DATE_DAY)
SET(day, DATE_DAY, DATE_DAY)
SET(hours, DATE_HOURS, DATE_MS)
SET(minutes, DATE_MINUTES, DATE_MS)
SET(seconds, DATE_SECONDS, DATE_MS)
SET(ms, DATE_MS, DATE_MS)
#undef SET

int date_set_time(struct call *c)
{
    double time;
    int rc = call_number(c, 1, &time);

    return rc == QP_OK ? give_number(c, date_clip(time)) : rc;
}

/* -------------------------------------------------------------------------------------- writing */

static int give_form(struct call *c, enum date_form form)
{
    char text[DATE_TEXT_SIZE];
    double time = take_time(c);

    if (isnan(time)) {
        return give_string(c, QP_STR("Invalid Date"));
    }
    return give_copy(c, text, date_format(time, form, text));
}

#define FORM(name, form)                                                                           \
    int date_to_##name(struct call *c)                                                             \
    {                                                                                              \
        return give_form(c, form);                                                                 \
    }
FORM(string, DATE_FORM_STRING)
FORM(date, DATE_FORM_DATE)
FORM(time, DATE_FORM_TIME)
FORM(utc, DATE_FORM_UTC)
FORM(locale, DATE_FORM_LOCALE)
FORM(locale_date, DATE_FORM_LOCALE_DATE)
FORM(locale_time, DATE_FORM_LOCALE_TIME)
#undef FORM

int date_to_iso(struct call *c)
{
    char text[DATE_ISO_SIZE];
    double time = take_time(c);

    return isnan(time) ? give_undefined(c) : give_copy(c, text, date_iso(time, text));
}

int date_to_json(struct call *c)
{
    return isnan(take_time(c)) ? symbol_null(c) : date_to_iso(c);
}

/* The ISO form without its punctuation, but for the point. */
int date_to_isox(struct call *c)
{
    char text[DATE_ISO_SIZE];
    double time = take_time(c);
    size_t size;
    size_t n = 0;

    if (isnan(time)) {
        return give_undefined(c);
    }
    size = date_iso(time, text);
    for (size_t i = 0; i < size; i++) {
        if (strchr("-:TZ", text[i]) == NULL) {
            text[n++] = text[i];
        }
    }
    return give_copy(c, text, n);
}

int date_yyyymmdd(struct call *c)
{
    int rc = date_to_isox(c);

    if (rc == QP_OK && c->out->kind == VALUE_STRING) {
        c->out->text.n -= sizeof("hhmmss.mmm") - 1;
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------- cron */

int cron_next_delay(struct call *c)
{
    struct cron cron;
    qp_str text;
    qp_ms now = c->scope->now;
    int rc = call_text(c, 0, &text);

    if (rc != QP_OK) {
        return rc;
    }
    if (cron_parse(text, &cron, NULL) != QP_OK) {
        return give_integer(c, -1);
    }
    return give_integer(c, (cron_next(&cron, now) - now + 999) / 1000);
}
