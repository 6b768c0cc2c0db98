/* functions_date.c - {@date...} and {@cron...}
 *
 * What is asked about a date is asked about the first operand: a date, milliseconds, or a string that date_parse reads, or
 * that is all digits: milliseconds again. With no operand at all it is now, which the scope says.
 */
#include <math.h>
#include <stdio.h>

#include "base/cron.h"
#include "mapping/date.h"
#include "mapping/functions.h"

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
static double take_time(const struct args *args)
{
    const struct value *v = args_operand(args, 0);

    if (args->count == 0) {
        return (double)args->scope->now;
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

int date_now(struct args *args)
{
    return give_integer(args, args->scope->now);
}

int date_from_iso(struct args *args)
{
    return give(args, &(struct value){.kind = VALUE_DATE, .real = take_time(args)});
}

int date_parse_text(struct args *args)
{
    qp_str text;
    int rc = args_text(args, 0, &text);

    return rc == QP_OK ? give_number(args, date_parse(text)) : rc;
}

int date_value_of(struct args *args)
{
    return give_number(args, take_time(args));
}

/* A year of two digits is one of the last century. */
int date_utc(struct args *args)
{
    double fields[DATE_FIELDS] = {NAN, 0, 1};
    double year;
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < args->count && i < DATE_FIELDS; i++) {
        rc = args_number(args, i, &fields[i]);
    }
    if (rc != QP_OK) {
        return rc;
    }
    year = trunc(fields[DATE_YEAR]);
    if (year >= 0 && year <= 99) {
        fields[DATE_YEAR] = 1900 + year;
    }
    return give_number(args, date_make(fields));
}

/* -------------------------------------------------------------------------------------- getting */

static int give_field(struct args *args, enum date_field field)
{
    double fields[DATE_FIELDS + 1];
    double time = take_time(args);

    if (isnan(time)) {
        return give_number(args, NAN);
    }
    date_split(time, fields);
    return give_number(args, fields[field]);
}

#define GET(name, field)                                                                           \
    int date_get_##name(struct args *args)                                                         \
    {                                                                                              \
        return give_field(args, field);                                                            \
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

int date_get_offset(struct args *args)
{
    return give_number(args, isnan(take_time(args)) ? NAN : 0);
}

/* -------------------------------------------------------------------------------------- setting */

/* Fields from `first` up to `last`, as far as operands were given. Of no date only the year can be set. */
static int set_fields(struct args *args, enum date_field first, enum date_field last)
{
    double fields[DATE_FIELDS + 1];
    double time = take_time(args);
    size_t given = args->count > 1 ? args->count - 1 : 0;
    int rc = QP_OK;

    if (given == 0 || (isnan(time) && first != DATE_YEAR)) {
        return give_number(args, NAN);
    }
    date_split(isnan(time) ? 0 : time, fields);
    for (size_t i = 0; rc == QP_OK && i < given && first + i <= last; i++) {
        rc = args_number(args, i + 1, &fields[first + i]);
    }
    return rc == QP_OK ? give_number(args, date_make(fields)) : rc;
}

#define SET(name, first, last)                                                                     \
    int date_set_##name(struct args *args)                                                         \
    {                                                                                              \
        return set_fields(args, first, last);                                                      \
    }
SET(year, DATE_YEAR, DATE_DAY)
SET(month, DATE_MONTH, DATE_DAY)
SET(day, DATE_DAY, DATE_DAY)
SET(hours, DATE_HOURS, DATE_MS)
SET(minutes, DATE_MINUTES, DATE_MS)
SET(seconds, DATE_SECONDS, DATE_MS)
SET(ms, DATE_MS, DATE_MS)
#undef SET

int date_set_time(struct args *args)
{
    double time;
    int rc = args_number(args, 1, &time);

    return rc == QP_OK ? give_number(args, date_clip(time)) : rc;
}

/* -------------------------------------------------------------------------------------- writing */

static int give_form(struct args *args, enum date_form form)
{
    char text[DATE_TEXT_SIZE];
    double time = take_time(args);

    if (isnan(time)) {
        return give_string(args, QP_STR("Invalid Date"));
    }
    return give_copy(args, text, date_format(time, form, text));
}

#define FORM(name, form)                                                                           \
    int date_to_##name(struct args *args)                                                          \
    {                                                                                              \
        return give_form(args, form);                                                              \
    }
FORM(string, DATE_FORM_STRING)
FORM(date, DATE_FORM_DATE)
FORM(time, DATE_FORM_TIME)
FORM(utc, DATE_FORM_UTC)
FORM(locale, DATE_FORM_LOCALE)
FORM(locale_date, DATE_FORM_LOCALE_DATE)
FORM(locale_time, DATE_FORM_LOCALE_TIME)
#undef FORM

int date_to_iso(struct args *args)
{
    char text[DATE_ISO_SIZE];
    double time = take_time(args);

    return isnan(time) ? give_undefined(args) : give_copy(args, text, date_iso(time, text));
}

int date_to_json(struct args *args)
{
    return isnan(take_time(args)) ? symbol_null(args) : date_to_iso(args);
}

/* The ISO form without its punctuation, but for the point. */
int date_to_isox(struct args *args)
{
    char text[DATE_ISO_SIZE];
    double time = take_time(args);
    size_t size;
    size_t n = 0;

    if (isnan(time)) {
        return give_undefined(args);
    }
    size = date_iso(time, text);
    for (size_t i = 0; i < size; i++) {
        if (strchr("-:TZ", text[i]) == NULL) {
            text[n++] = text[i];
        }
    }
    return give_copy(args, text, n);
}

int date_yyyymmdd(struct args *args)
{
    int rc = date_to_iso(args);

    if (rc == QP_OK && args->out->kind == VALUE_STRING) {
        args->out->text.n -= sizeof("Thh:mm:ss.mmmZ") - 1;
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------- cron */

int cron_next_delay(struct args *args)
{
    struct cron cron;
    qp_str text;
    qp_ms now = args->scope->now;
    int rc = args_text(args, 0, &text);

    if (rc != QP_OK) {
        return rc;
    }
    if (cron_parse(text, &cron, NULL) != QP_OK) {
        return give_integer(args, -1);
    }
    return give_integer(args, (cron_next(&cron, now) - now + 999) / 1000);
}
