/* time_limits.c - time limits of tasks as text (see time_limits.h) */
#include "store/time_limits.h"

#include <stdio.h>

qp_str time_limit_word(enum time_limit limit)
{
    static const char *const words[TIME_LIMITS] = {"", "start", "run", "beat"};
    QP_ASSERT(limit > TIME_LIMIT_NONE && limit < TIME_LIMITS);
    return str_from(words[limit]);
}

/* "word=" at the front of the text. */
static bool word_take(qp_str *rest, enum time_limit limit)
{
    qp_str word = time_limit_word(limit);
    if (rest->n <= word.n || memcmp(rest->p, word.p, word.n) != 0 || rest->p[word.n] != '=') {
        return false;
    }
    *rest = (qp_str){rest->p + word.n + 1, rest->n - word.n - 1};
    return true;
}

/* A whole number of milliseconds, and the comma behind it, which another limit must follow. */
static int number_take(qp_str *rest, qp_ms *out_ms)
{
    qp_ms ms = 0;
    size_t n = 0;
    while (n < rest->n && rest->p[n] >= '0' && rest->p[n] <= '9' && ms <= LIMIT_TIMER_MS) {
        ms = ms * 10 + (rest->p[n++] - '0');
    }
    if (ms < 1 || ms > LIMIT_TIMER_MS) {
        return QP_E_INVALID;
    }
    if (n < rest->n && (rest->p[n] != ',' || n + 1 == rest->n)) {
        return QP_E_INVALID;
    }
    n += n < rest->n;
    *rest = (qp_str){rest->p + n, rest->n - n};
    *out_ms = ms;
    return QP_OK;
}

int time_limits_parse(qp_str text, struct time_limits *out_limits)
{
    struct time_limits limits = {{0}};
    for (enum time_limit l = TIME_LIMIT_START; l < TIME_LIMITS && text.n > 0; l++) {
        if (word_take(&text, l)) {
            QP_TRY(number_take(&text, &limits.ms[l]));
        }
    }
    if (text.n > 0) {
        return QP_E_INVALID;
    }
    *out_limits = limits;
    return QP_OK;
}

size_t time_limits_format(const struct time_limits *limits, char out_text[TIME_LIMITS_TEXT_SIZE])
{
    size_t n = 0;
    out_text[0] = '\0';
    for (enum time_limit l = TIME_LIMIT_START; l < TIME_LIMITS; l++) {
        if (limits->ms[l] > 0) {
            n += (size_t)snprintf(out_text + n, TIME_LIMITS_TEXT_SIZE - n, "%s%.*s=%lld",
                                  n > 0 ? "," : "", STR_ARG(time_limit_word(l)),
                                  (long long)limits->ms[l]);
        }
    }
    QP_ASSERT(n < TIME_LIMITS_TEXT_SIZE);
    return n;
}
