/* retry.c - retry policies (see retry.h) */
#include "kernel/retry.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/error.h"

const struct retry retry_default = {
    .attempts = 5, .backoff_ms = 1000, .factor = 2, .cap_ms = 60 * 1000};

/* The number after "key=", which must be in its range. */
static int number_of(qp_str value, double min, double max, double *out_number, struct qp_err *err)
{
    char text[32] = {0};
    char *end = text;
    double number = 0;
    if (value.n > 0 && value.n < sizeof text) {
        memcpy(text, value.p, value.n);
        number = strtod(text, &end);
    }
    if (end == text || end != text + value.n || /* also when a NUL stands in it */
        !(number >= min && number <= max)) {
        return err_set(err, QP_E_INVALID, "retry policy: '%.*s' is not a number from %g to %g",
                       STR_ARG(value), min, max);
    }
    *out_number = number;
    return QP_OK;
}

static int set_one(struct retry *r, qp_str key, qp_str value, struct qp_err *err)
{
    double number = 0;
    int rc;
    if (str_equal(key, QP_STR("attempts"))) {
        rc = number_of(value, 1, 1e9, &number, err);
        r->attempts = (int64_t)number;
    } else if (str_equal(key, QP_STR("backoff"))) {
        rc = number_of(value, 0, (double)LIMIT_TIMER_MS, &number, err);
        r->backoff_ms = (qp_ms)number;
    } else if (str_equal(key, QP_STR("factor"))) {
        rc = number_of(value, 1, 1000, &number, err);
        r->factor = number;
    } else if (str_equal(key, QP_STR("cap"))) {
        rc = number_of(value, 0, (double)LIMIT_TIMER_MS, &number, err);
        r->cap_ms = (qp_ms)number;
    } else if (str_equal(key, QP_STR("code"))) {
        rc = number_of(value, 0, 999, &number, err);
        r->code = (int64_t)number;
    } else if (str_equal(key, QP_STR("lost"))) {
        rc = number_of(value, 1, 1e9, &number, err);
        r->lost = (int64_t)number;
    } else {
        rc = err_set(err, QP_E_INVALID,
                     "retry policy: no key '%.*s'; there are attempts, backoff, factor, cap, code, "
                     "lost",
                     STR_ARG(key));
    }
    return rc;
}

/* What is before the first `mark`, and what is after it. */
static qp_str cut(qp_str *rest, char mark)
{
    const char *at = rest->n > 0 ? memchr(rest->p, mark, rest->n) : NULL;
    qp_str head = {rest->p, at == NULL ? rest->n : (size_t)(at - rest->p)};
    size_t used = at == NULL ? head.n : head.n + 1;
    *rest = (qp_str){rest->p + used, rest->n - used};
    return head;
}

int retry_parse(qp_str text, struct retry *out_retry, struct qp_err *err)
{
    struct retry r = retry_default;
    int rc = QP_OK;
    while (text.n > 0 && rc == QP_OK) {
        qp_str value = cut(&text, ',');
        qp_str key = cut(&value, '=');
        rc = set_one(&r, key, value, err);
    }
    if (rc == QP_OK) {
        *out_retry = r;
    }
    return rc;
}

size_t retry_format(const struct retry *r, char out_text[RETRY_TEXT_SIZE])
{
    int n =
        snprintf(out_text, RETRY_TEXT_SIZE, "attempts=%lld,backoff=%lld,factor=%g,cap=%lld",
                 (long long)r->attempts, (long long)r->backoff_ms, r->factor, (long long)r->cap_ms);
    if (r->code != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",code=%lld", (long long)r->code);
    }
    if (r->lost != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",lost=%lld", (long long)r->lost);
    }
    QP_ASSERT(n > 0 && n < RETRY_TEXT_SIZE);
    return (size_t)n;
}

bool retry_is_for(const struct retry *r, int64_t code)
{
    return r->code == 0 || r->code == code;
}

struct retry retry_of_lost(const struct retry *r)
{
    bool silent = r->lost == 0 && r->code != 0 && r->code != ERROR_CODE_LOST;
    struct retry lost = *r;
    if (r->lost > 0 || silent) {
        lost.attempts = silent ? retry_default.attempts : r->lost;
        lost.code = 0;
    }
    return lost;
}

qp_ms retry_delay(const struct retry *r, int64_t failures)
{
    double ms = (double)r->backoff_ms;
    QP_ASSERT(failures >= 1);
    if (failures >= r->attempts) {
        return -1;
    }
    for (int64_t i = 1; i < failures && ms < (double)r->cap_ms && r->factor > 1; i++) {
        ms *= r->factor;
    }
    return ms < (double)r->cap_ms ? (qp_ms)ms : r->cap_ms;
}
