/* query.c - the parameters of a query */
#include "base/time.h"
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

bool api_duration(struct api_call *c, const char *name, qp_ms most, qp_ms otherwise, qp_ms *out_ms)
{
    qp_str text = api_parameter(c, name);
    qp_ms ms = otherwise;
    if (!str_is_none(text) && span_parse(text, &ms, NULL) != QP_OK) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, name, "it is a duration like 10s or PT10S");
        return false;
    }
    *out_ms = ms < most ? ms : most;
    return true;
}

bool api_moment(struct api_call *c, const char *name, qp_ms *out_at)
{
    const struct qp_env *env = api_env(c->api);
    qp_str text = api_parameter(c, name);
    qp_ms now = env->wall_ms(env->context);
    qp_ms at = now;
    if (!str_is_none(text) && (moment_parse(text, now, &at) != QP_OK || at <= 0)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, name,
                   "it is a time like 2026-01-31T09:00:00Z, or one before now, like -2h");
        return false;
    }
    *out_at = at;
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
