/* time.h - times and spans of time as text, both ways
 *
 * A time is RFC 3339 in UTC with milliseconds when it is written; when it is read it may have any offset and
 * fraction. A span is "250ms", "10s", "1h30m", "2d", or ISO 8601 without years and months: "PT1H30M", "P2D".
 * Pure and thread-safe.
 */
#ifndef QP_BASE_TIME_H
#define QP_BASE_TIME_H

#include "base/base.h"

/* "2026-01-31T09:08:07.123Z" and a NUL. A time outside of the years 0001 to 9999 is the nearest one inside. */
#define RFC3339_SIZE 25
void rfc3339_format(qp_ms at, char out_text[RFC3339_SIZE]);

/* QP_E_INVALID: it is none. A leap second is the first millisecond after it. */
int rfc3339_parse(qp_str text, qp_ms *out_at, struct qp_err *err) QP_MUST_USE;

/* 0 to LIMIT_TIMER_MS. QP_E_INVALID: it is none, or longer. */
int span_parse(qp_str text, qp_ms *out_ms, struct qp_err *err) QP_MUST_USE;

/* A time, or "-" and a span: so long before now. QP_E_INVALID. */
int moment_parse(qp_str text, qp_ms now, qp_ms *out_at) QP_MUST_USE;

/* A day of the proleptic Gregorian calendar, and the same as days since 1970-01-01. The year before 1 is 0. */
struct civil {
    int64_t year;
    int64_t month; /* 1 .. 12 */
    int64_t day;   /* 1 .. 31; civil_to_days takes any: day 0 is the last of the month before */
};
int64_t civil_to_days(struct civil d);
struct civil civil_from_days(int64_t days);

#endif
