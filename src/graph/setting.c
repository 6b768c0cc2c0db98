/* setting.c - what the keys of an activity say once they are computed: sleep, await, code and others (see action.h)
 *
 * A key of an activity may be a reference or a pipe. It is computed when the activity is entered, and a result of another
 * type than the key has is an error of the activity with code 422, which a transition can take. A result that is undefined
 * or null is as if the key were not there, except where that would mean another job (target). A literal was checked when
 * the text was compiled, so what is refused here has always been computed.
 */
#include <math.h>
#include <stdio.h>

#include "base/time.h"
#include "graph/action.h"

#define GRANULARITY_DEFAULT_MS (5 * 60 * 1000)

static const char *kind_words(const struct value *v)
{
    switch (v->kind) {
    case VALUE_BOOL:
        return v->truth ? "true" : "false";
    case VALUE_INT:
    case VALUE_REAL:
        return "a number";
    case VALUE_STRING:
        return "a text";
    case VALUE_ARRAY:
        return "a list";
    case VALUE_OBJECT:
        return "an object";
    case VALUE_UNDEFINED:
    case VALUE_NULL:
    case VALUE_DATE:
    case VALUE_RAW:
        break;
    }
    return v->kind == VALUE_DATE ? "a date" : "nothing";
}

/* "sleep must be a number of seconds, at most 315619200, and is a text". */
static int refuse(struct action *s, const char *name, const char *wanted, const struct value *v)
{
    char why[LIMIT_LOG_ECHO_SIZE];
    double number = 0;
    qp_str copy;
    bool is_number = (v->kind == VALUE_INT || v->kind == VALUE_REAL) && value_as_number(v, &number);
    int n =
        is_number
            ? snprintf(why, sizeof why, "%s must be %s, and is %.15g", name, wanted, number)
            : snprintf(why, sizeof why, "%s must be %s, and is %s", name, wanted, kind_words(v));
    QP_ASSERT(n > 0 && (size_t)n < sizeof why);
    if (!arena_copy(action_arena(s), (qp_str){why, (size_t)n + 1}, &copy)) {
        return QP_E_NOMEM;
    }
    s->why = copy.p;
    return QP_E_INVALID;
}

/* *out_given: there is something, which is open. */
static int given(struct action *s, const struct mapping *m, struct value *out_value,
                 bool *out_given)
{
    QP_TRY(action_value(s, m, out_value));
    QP_TRY(value_open(action_arena(s), out_value));
    *out_given = out_value->kind != VALUE_UNDEFINED && out_value->kind != VALUE_NULL;
    return QP_OK;
}

int setting_bool(struct action *s, const struct mapping *m, const char *name, bool otherwise,
                 bool *out_truth)
{
    struct value v;
    bool is_given = false;
    QP_TRY(given(s, m, &v, &is_given));
    if (is_given && v.kind != VALUE_BOOL) {
        return refuse(s, name, "true or false", &v);
    }
    *out_truth = is_given ? v.truth : otherwise;
    return QP_OK;
}

int setting_code(struct action *s, int64_t otherwise, int64_t *out_code)
{
    struct value v;
    double code = NAN;
    bool is_given = false;
    QP_TRY(given(s, s->activity->code, &v, &is_given));
    if (!is_given) {
        *out_code = otherwise;
        return QP_OK;
    }
    if (!value_as_number(&v, &code) || floor(code) != code || code < LIMIT_CODE_LEAST ||
        code > LIMIT_CODE) {
        return refuse(s, "code", "a whole number from 100 to 599", &v);
    }
    *out_code = (int64_t)code;
    return QP_OK;
}

/* What is computed as the time until something may have become negative meanwhile: that is due now. */
int setting_sleep(struct action *s, qp_ms *out_ms)
{
    struct value v;
    double seconds = NAN;
    bool is_given = false;
    QP_TRY(given(s, s->activity->sleep, &v, &is_given));
    *out_ms = 0;
    if (!is_given) {
        return QP_OK;
    }
    if (!value_as_number(&v, &seconds) || !(seconds * 1000 <= (double)LIMIT_TIMER_MS)) {
        return refuse(s, "sleep", "a number of seconds, at most 315619200", &v);
    }
    *out_ms = seconds > 0 ? (qp_ms)ceil(seconds * 1000) : 0;
    return QP_OK;
}

int setting_threshold(struct action *s, int64_t *out_threshold)
{
    struct value v;
    double threshold = NAN;
    bool is_given = false;
    QP_TRY(given(s, s->activity->threshold, &v, &is_given));
    *out_threshold = -1;
    if (!is_given) {
        return QP_OK;
    }
    if (!value_as_number(&v, &threshold) || floor(threshold) != threshold || threshold < 0 ||
        threshold > (double)NUMBER_EXACT) {
        return refuse(s, "statusThreshold", "a whole number, 0 or more", &v);
    }
    *out_threshold = (int64_t)threshold;
    return QP_OK;
}

int setting_target(struct action *s, qp_str *out_jid)
{
    struct value v;
    bool is_given = false;
    *out_jid = QP_NONE;
    if (s->activity->target == NULL) {
        return QP_OK;
    }
    QP_TRY(given(s, s->activity->target, &v, &is_given));
    if (!is_given || !value_as_text(action_arena(s), &v, out_jid)) {
        return refuse(s, "target", "the id of a job", &v);
    }
    return QP_OK;
}

bool granularity_parse(qp_str text, qp_ms *out_ms)
{
    if (str_is_none(text)) {
        *out_ms = GRANULARITY_DEFAULT_MS;
        return true;
    }
    if (str_equal(text, QP_STR("infinity"))) {
        *out_ms = GRANULARITY_INFINITY;
        return true;
    }
    return span_parse(text, out_ms, NULL) == QP_OK && *out_ms > 0;
}

int setting_granularity(struct action *s)
{
    struct value v;
    qp_str text = QP_NONE;
    qp_ms ms;
    bool is_given = false;
    QP_TRY(given(s, s->activity->granularity, &v, &is_given));
    if (!is_given || (value_as_text(action_arena(s), &v, &text) && granularity_parse(text, &ms))) {
        return QP_OK;
    }
    return refuse(s, "granularity", "a span of time like 5m, or infinity", &v);
}
