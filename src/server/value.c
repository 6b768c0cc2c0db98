/* value.c - what stands in queries and answers: parameters, durations, times */
#include <stdio.h>
#include <time.h>

#include "server/api.h"

qp_str api_parameter(struct api_call *c, const char *name)
{
    qp_str rest = c->query;
    qp_str text;
    size_t size = strlen(name);
    while (rest.n > 0) {
        const char *end = memchr(rest.p, '&', rest.n);
        size_t n = end == NULL ? rest.n : (size_t)(end - rest.p);
        if (n > size && memcmp(rest.p, name, size) == 0 && rest.p[size] == '=' &&
            percent_decode(&c->arena, (qp_str){rest.p + size + 1, n - size - 1}, true, &text)) {
            return text;
        }
        rest = end == NULL ? (qp_str){rest.p + n, 0} : (qp_str){end + 1, rest.n - n - 1};
    }
    return QP_NONE;
}

/* Digits off the front; false when there are none, or too many. */
static bool take_digits(qp_str *rest, int64_t *out_number)
{
    int64_t number = 0;
    size_t n = 0;
    while (n < rest->n && rest->p[n] >= '0' && rest->p[n] <= '9' && n < 12) {
        number = number * 10 + (rest->p[n] - '0');
        n++;
    }
    rest->p += n;
    rest->n -= n;
    *out_number = number;
    return n > 0;
}

/* One number and its unit, or several from large to small: 90s, 1h30m, PT1H30M, P1D. */
bool duration_read(qp_str text, qp_ms *out_ms)
{
    static const struct {
        const char *word;
        int64_t ms;
    } units[] = {{"ms", 1}, {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}};
    qp_str rest = text;
    int64_t sum = 0;
    int64_t last = INT64_MAX;
    bool iso = rest.n > 1 && rest.p[0] == 'P';
    if (iso) {
        rest = (qp_str){rest.p + 1, rest.n - 1};
    }
    if (rest.n == 0) {
        return false;
    }
    while (rest.n > 0) {
        int64_t number;
        size_t u;
        if (iso && rest.n > 1 && rest.p[0] == 'T') {
            rest = (qp_str){rest.p + 1, rest.n - 1};
        }
        if (!take_digits(&rest, &number)) {
            return false;
        }
        for (u = 0; u < ARRAY_COUNT(units); u++) {
            size_t n = strlen(units[u].word);
            if (rest.n >= n && strncasecmp(rest.p, units[u].word, n) == 0) {
                rest = (qp_str){rest.p + n, rest.n - n};
                break;
            }
        }
        if (u == ARRAY_COUNT(units) || units[u].ms >= last || number > LIMIT_TIMER_MS / units[u].ms) {
            return false;
        }
        last = units[u].ms;
        sum += number * units[u].ms;
    }
    *out_ms = sum;
    return sum <= LIMIT_TIMER_MS;
}

bool api_duration(struct api_call *c, const char *name, qp_ms most, qp_ms otherwise, qp_ms *out_ms)
{
    qp_str text = api_parameter(c, name);
    qp_ms ms = otherwise;
    if (!str_is_none(text) && !duration_read(text, &ms)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, name, "it is a duration like 10s or PT10S");
        return false;
    }
    *out_ms = ms < most ? ms : most;
    return true;
}

bool api_number(struct api_call *c, const char *name, int64_t most, int64_t otherwise,
                int64_t *out_number)
{
    qp_str text = api_parameter(c, name);
    int64_t number = otherwise;
    if (!str_is_none(text) && (!take_digits(&text, &number) || text.n > 0)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, name, "it is a number, and not negative");
        return false;
    }
    *out_number = number < most ? number : most;
    return true;
}

void time_format(qp_ms at, char out_text[TIME_TEXT_SIZE])
{
    struct tm parts;
    time_t seconds = (time_t)(at / 1000);
    out_text[0] = '\0';
    if (at > 0 && gmtime_r(&seconds, &parts) != NULL && parts.tm_year < 8100) {
        (void)snprintf(out_text, TIME_TEXT_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
                       (unsigned)(parts.tm_year + 1900) % 10000, (unsigned)(parts.tm_mon + 1) % 100,
                       (unsigned)parts.tm_mday % 100, (unsigned)parts.tm_hour % 100,
                       (unsigned)parts.tm_min % 100, (unsigned)parts.tm_sec % 100,
                       (unsigned)(at % 1000));
    }
}

void json_put_time(struct json_writer *w, const char *key, qp_ms at)
{
    char text[TIME_TEXT_SIZE];
    time_format(at, text);
    if (text[0] != '\0') {
        json_key(w, str_from(key));
        json_put_str(w, str_from(text));
    }
}
