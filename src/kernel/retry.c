/* retry.c - retry policies (see retry.h) */
#include "kernel/retry.h"

#include <stdio.h>
#include <stdlib.h>

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

/* What is before the first `mark`, and what is after it. */
static qp_str cut(qp_str *rest, char mark)
{
    const char *at = rest->n > 0 ? memchr(rest->p, mark, rest->n) : NULL;
    qp_str head = {rest->p, at == NULL ? rest->n : (size_t)(at - rest->p)};
    size_t used = at == NULL ? head.n : head.n + 1;
    *rest = (qp_str){rest->p + used, rest->n - used};
    return head;
}

/* "400+404". */
static int never_of(struct retry *r, qp_str value, struct qp_err *err)
{
    bool more = true;
    for (size_t count = 0; more; count++) {
        double code = 0;
        more = value.n > 0 && memchr(value.p, '+', value.n) != NULL;
        if (count == LIMIT_RETRY_NEVER) {
            return err_set(err, QP_E_INVALID, "retry policy: never has more than %d codes",
                           LIMIT_RETRY_NEVER);
        }
        QP_TRY(number_of(cut(&value, '+'), 400, 999, &code, err));
        r->never[count] = (int64_t)code;
    }
    return QP_OK;
}

/* "404:2+500:3". */
static int codes_of(struct retry *r, qp_str value, struct qp_err *err)
{
    bool more = true;
    for (size_t count = 0; more; count++) {
        qp_str attempts;
        qp_str code;
        double number = 0;
        more = value.n > 0 && memchr(value.p, '+', value.n) != NULL;
        if (count == LIMIT_RETRY_CODES) {
            return err_set(err, QP_E_INVALID, "retry policy: codes has more than %d codes",
                           LIMIT_RETRY_CODES);
        }
        attempts = cut(&value, '+');
        code = cut(&attempts, ':');
        QP_TRY(number_of(code, 100, 999, &number, err));
        r->codes[count].code = (int64_t)number;
        QP_TRY(number_of(attempts, 1, 1e9, &number, err));
        r->codes[count].attempts = (int64_t)number;
    }
    return QP_OK;
}

static int set_one(struct retry *r, qp_str key, qp_str value, struct qp_err *err)
{
    const struct {
        const char *key;
        double min;
        double max;
        int64_t *whole; /* NULL: it is the factor */
    } known[] = {
        {"attempts", 1, 1e9, &r->attempts}, {"backoff", 0, (double)LIMIT_TIMER_MS, &r->backoff_ms},
        {"factor", 1, 1000, NULL},          {"cap", 0, (double)LIMIT_TIMER_MS, &r->cap_ms},
        {"code", 0, 999, &r->code},         {"lost", 1, 1e9, &r->lost},
        {"park", 0, 1, &r->park},           {"deliveries", 1, 1e9, &r->deliveries},
        {"shield", 0, 1, &r->shield}};
    if (str_equal(key, QP_STR("never"))) {
        return never_of(r, value, err);
    }
    if (str_equal(key, QP_STR("codes"))) {
        return codes_of(r, value, err);
    }
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        double number = 0;
        if (!str_equal(key, str_from(known[i].key))) {
            continue;
        }
        QP_TRY(number_of(value, known[i].min, known[i].max, &number, err));
        *(known[i].whole != NULL ? known[i].whole : &(int64_t){0}) = (int64_t)number;
        r->factor = known[i].whole == NULL ? number : r->factor;
        return QP_OK;
    }
    return err_set(
        err, QP_E_INVALID,
        "retry policy: no key '%.*s'; there are attempts, backoff, factor, cap, code, codes, "
        "lost, park, deliveries, never, shield, start, run, beat, limit",
        STR_ARG(key));
}

/* Where the time limits of a policy begin, or its limit key; at its end: it has neither. */
static size_t task_part(qp_str policy)
{
    qp_str rest = policy;
    while (rest.n > 0) {
        size_t at = policy.n - rest.n;
        qp_str value = cut(&rest, ',');
        qp_str key = cut(&value, '=');
        if (str_equal(key, QP_STR("start")) || str_equal(key, QP_STR("run")) ||
            str_equal(key, QP_STR("beat")) || str_equal(key, QP_STR("limit"))) {
            return at;
        }
    }
    return policy.n;
}

void retry_task(qp_str policy, qp_str *out_limits, qp_str *out_limit_key)
{
    static const char mark[] = "limit=";
    size_t mark_n = sizeof mark - 1;
    size_t from = task_part(policy);
    size_t end = from;
    *out_limits = *out_limit_key = QP_NONE;
    while (end < policy.n &&
           (policy.n - end < mark_n || memcmp(policy.p + end, mark, mark_n) != 0)) {
        const char *comma = memchr(policy.p + end, ',', policy.n - end);
        end = comma == NULL ? policy.n : (size_t)(comma - policy.p) + 1;
    }
    if (end > from) {
        *out_limits = (qp_str){policy.p + from, end - from - (end < policy.n)};
    }
    if (end < policy.n) {
        *out_limit_key = (qp_str){policy.p + end + mark_n, policy.n - end - mark_n};
    }
}

/* The limits of tasks, behind the rest. */
static int set_task(struct retry *r, qp_str policy, struct qp_err *err)
{
    qp_str limits;
    retry_task(policy, &limits, &r->limit_key);
    if (time_limits_parse(limits, &r->limits) != QP_OK) {
        return err_set(err, QP_E_INVALID,
                       "retry policy: '%.*s' must be start, run, beat in this order, each a whole "
                       "number of milliseconds from 1 to %lld",
                       STR_ARG(limits), (long long)LIMIT_TIMER_MS);
    }
    if (!str_is_none(r->limit_key) && (r->limit_key.n == 0 || r->limit_key.n > LIMIT_ID_SIZE ||
                                       str_equal(r->limit_key, QP_STR("*")))) {
        return err_set(err, QP_E_INVALID,
                       "retry policy: the limit key has %zu bytes; it must have 1 to %d, and '*' "
                       "stands for all keys",
                       r->limit_key.n, LIMIT_ID_SIZE);
    }
    return QP_OK;
}

int retry_parse(qp_str text, struct retry *out_retry, struct qp_err *err)
{
    struct retry r = retry_default;
    qp_str rest = {text.p, task_part(text)};
    QP_TRY(set_task(&r, text, err));
    while (rest.n > 0) {
        qp_str value = cut(&rest, ',');
        qp_str key = cut(&value, '=');
        QP_TRY(set_one(&r, key, value, err));
    }
    *out_retry = r;
    return QP_OK;
}

size_t retry_format(const struct retry *r, char out_text[RETRY_TEXT_SIZE])
{
    char limits[TIME_LIMITS_TEXT_SIZE];
    int n =
        snprintf(out_text, RETRY_TEXT_SIZE, "attempts=%lld,backoff=%lld,factor=%g,cap=%lld",
                 (long long)r->attempts, (long long)r->backoff_ms, r->factor, (long long)r->cap_ms);
    if (r->code != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",code=%lld", (long long)r->code);
    }
    for (size_t i = 0; i < LIMIT_RETRY_CODES && r->codes[i].code != 0; i++) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, "%s%lld:%lld",
                      i == 0 ? ",codes=" : "+", (long long)r->codes[i].code,
                      (long long)r->codes[i].attempts);
    }
    if (r->lost != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",lost=%lld", (long long)r->lost);
    }
    if (r->park != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",park=1");
    }
    if (r->deliveries != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",deliveries=%lld",
                      (long long)r->deliveries);
    }
    for (size_t i = 0; i < LIMIT_RETRY_NEVER && r->never[i] != 0; i++) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, "%s%lld", i == 0 ? ",never=" : "+",
                      (long long)r->never[i]);
    }
    if (r->shield != 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",shield=1");
    }
    if (time_limits_format(&r->limits, limits) > 0) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",%s", limits);
    }
    if (!str_is_none(r->limit_key)) {
        n += snprintf(out_text + n, RETRY_TEXT_SIZE - (size_t)n, ",limit=%.*s",
                      STR_ARG(r->limit_key));
    }
    QP_ASSERT(n > 0 && n < RETRY_TEXT_SIZE);
    return (size_t)n;
}

/* NULL: it is not among them. */
static const struct retry_code *retry_code(const struct retry *r, int64_t code)
{
    size_t i = 0;
    while (i < LIMIT_RETRY_CODES && r->codes[i].code != 0 && r->codes[i].code != code) {
        i++;
    }
    return i < LIMIT_RETRY_CODES && r->codes[i].code != 0 ? &r->codes[i] : NULL;
}

bool retry_is_for(const struct retry *r, int64_t code)
{
    for (size_t i = 0; i < LIMIT_RETRY_NEVER && r->never[i] != 0; i++) {
        if (r->never[i] == code) {
            return false;
        }
    }
    if (r->codes[0].code != 0) {
        return retry_code(r, code) != NULL;
    }
    return r->code == 0 || r->code == code;
}

struct retry retry_of_lost(const struct retry *r, int64_t code)
{
    bool by_code = r->code != 0 || r->codes[0].code != 0;
    bool silent = r->lost == 0 && by_code && !retry_is_for(r, code);
    struct retry lost = *r;
    if (r->lost > 0 || silent) {
        lost.attempts = silent ? retry_default.attempts : r->lost;
        lost.code = 0;
        memset(lost.codes, 0, sizeof lost.codes);
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

qp_ms retry_after(const struct retry *r, int64_t code, int64_t failures)
{
    const struct retry_code *own = retry_code(r, code);
    struct retry of_code = *r;
    if (!retry_is_for(r, code)) {
        return -1;
    }
    of_code.attempts = own != NULL ? own->attempts : r->attempts;
    return retry_delay(&of_code, failures);
}
