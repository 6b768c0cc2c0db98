/* date.h - times as ECMAScript computes with them
 *
 * A time is a double: milliseconds since 1970 in UTC, an integer of at most 8.64e15 either way, or NaN for one that
 * is none. Local time is UTC, so that a mapping gives the same on every machine. Pure and thread-safe.
 */
#ifndef QP_MAPPING_DATE_H
#define QP_MAPPING_DATE_H

#include "base/base.h"

#define DATE_FIELDS 7
enum date_field {
    DATE_YEAR,
    DATE_MONTH, /* 0 .. 11 */
    DATE_DAY,   /* 1 .. 31 */
    DATE_HOURS,
    DATE_MINUTES,
    DATE_SECONDS,
    DATE_MS,
    DATE_WEEKDAY /* 0: Sunday; not of date_make */
};

/* The fields may be any numbers: month 12 is January of the next year. */
double date_make(const double fields[DATE_FIELDS]);
/* The time is not NaN. */
void date_split(double time, double out_fields[DATE_FIELDS + 1]);
double date_clip(double time);

/* What Date.parse reads of ISO 8601, what toString, toUTCString and toLocaleString write, and forms that are alike:
 * "31 Jan 2026 09:08 GMT", "Jan 31, 2026", "1/31/2026, 9:08:07 AM". NaN: it is none of these. */
double date_parse(qp_str text);

/* The time is not NaN. All return the length. */
#define DATE_ISO_SIZE 32
size_t date_iso(double time, char out_text[DATE_ISO_SIZE]);

enum date_form {
    DATE_FORM_STRING,      /* Sat Jan 31 2026 09:08:07 GMT+0000 (Coordinated Universal Time) */
    DATE_FORM_DATE,        /* Sat Jan 31 2026 */
    DATE_FORM_TIME,        /* 09:08:07 GMT+0000 (Coordinated Universal Time) */
    DATE_FORM_UTC,         /* Sat, 31 Jan 2026 09:08:07 GMT */
    DATE_FORM_LOCALE,      /* 1/31/2026, 9:08:07 AM */
    DATE_FORM_LOCALE_DATE, /* 1/31/2026 */
    DATE_FORM_LOCALE_TIME  /* 9:08:07 AM */
};
#define DATE_TEXT_SIZE 80
size_t date_format(double time, enum date_form form, char out_text[DATE_TEXT_SIZE]);

#endif
