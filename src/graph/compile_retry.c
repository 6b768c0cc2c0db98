/* compile_retry.c - the retry key of workers and awaits, and the time limits of workers
 *
 * Two forms. {'404': [2], '500': [5]}: the number of attempts, for errors of these codes. {maximumAttempts, backoffCoefficient,
 * initialInterval, maximumInterval}: any error. Intervals are seconds, or texts like "30s". Before attempt k + 1, after k
 * failures, the wait is initialInterval x backoffCoefficient^(k - 1), at most maximumInterval. Without initialInterval the first
 * wait is backoffCoefficient seconds.
 *
 * startTimeout, timeout, heartbeat: seconds, or texts like "30s". They stand behind the rest of the policy.
 */
#include <stdio.h>

#include "base/time.h"
#include "graph/compile.h"
#include "kernel/retry.h"

static const struct {
    int64_t attempts;
    double coefficient;
    qp_ms most_ms;
} defaults = {5, 2, 60 * 1000};

static const char *const keys[] = {"maximumAttempts", "backoffCoefficient", "initialInterval",
                                   "maximumInterval", NULL};

struct plan {
    int64_t attempts;
    double coefficient;
    qp_ms initial_ms; /* -1: not given */
    qp_ms most_ms;
    struct retry_code codes[LIMIT_RETRY_CODES]; /* that are tried again; none: all */
};

static void wrong(struct compiler *c, const struct node *node, const char *what)
{
    report_add(c->report, "retry_wrong", node->line, node->column, NULL, "'%.*s' of retry %s",
               STR_ARG(text_shown(node->key)), what);
}

static void read_attempts(struct compiler *c, const struct node *node, const struct node *number,
                          int64_t *out_attempts)
{
    int64_t attempts = 0;
    if (!node_as_i64(number, &attempts) || attempts < 1 || attempts > LIMIT_ATTEMPTS) {
        report_add(c->report, "retry_wrong", number->line, number->column, NULL,
                   "'%.*s' of retry must be a whole number of attempts from 1 to %d",
                   STR_ARG(text_shown(node->key)), LIMIT_ATTEMPTS);
        return;
    }
    *out_attempts = attempts;
}

static void read_interval(struct compiler *c, const struct node *node, qp_ms *out_ms)
{
    double seconds = 0;
    qp_ms ms = 0;
    if (node == NULL) {
        return;
    }
    if (node_as_real(node, &seconds) && seconds >= 0 && seconds * 1000 <= (double)LIMIT_TIMER_MS) {
        *out_ms = (qp_ms)(seconds * 1000);
    } else if (node->kind == NODE_STRING && span_parse(node->text, &ms, NULL) == QP_OK) {
        *out_ms = ms;
    } else {
        wrong(c, node, "must be a number of seconds, or a text like 30s");
    }
}

static void read_policy(struct compiler *c, const struct node *node, struct plan *p)
{
    const struct node *attempts = node_get(node, keys[0]);
    const struct node *coefficient = node_get(node, keys[1]);
    entries_known(c, node, keys, "retry");
    if (attempts != NULL) {
        read_attempts(c, attempts, attempts, &p->attempts);
    }
    if (coefficient != NULL && (!node_as_real(coefficient, &p->coefficient) || p->coefficient < 1 ||
                                p->coefficient > 1000)) {
        wrong(c, coefficient, "must be a number from 1 to 1000");
        p->coefficient = defaults.coefficient;
    }
    read_interval(c, node_get(node, keys[2]), &p->initial_ms);
    read_interval(c, node_get(node, keys[3]), &p->most_ms);
}

/* {'404': [2], '500': [5]} */
static void read_code(struct compiler *c, const struct node *entry, struct retry_code *out_code)
{
    struct node code = {.kind = NODE_NUMBER,
                        .line = entry->key_line,
                        .column = entry->key_column,
                        .text = entry->key};
    if (!node_code(c, &code, &out_code->code)) {
        return;
    }
    if (entry->kind != NODE_LIST || entry->count != 1) {
        wrong(c, entry, "must be a list of one number, the attempts");
        return;
    }
    read_attempts(c, entry, entry->first, &out_code->attempts);
}

static void read_codes(struct compiler *c, const struct node *node, struct plan *p)
{
    size_t n = 0;
    for (const struct node *entry = node->first; entry != NULL; entry = entry->next, n++) {
        if (n == LIMIT_RETRY_CODES) {
            report_add(c->report, "retry_wrong", entry->key_line, entry->key_column,
                       "write {maximumAttempts: 5} to try all of them again",
                       "retry has more codes than the limit of %d", LIMIT_RETRY_CODES);
            return;
        }
        p->codes[n].attempts = defaults.attempts;
        read_code(c, entry, &p->codes[n]);
    }
}

static bool is_code(qp_str key)
{
    return key.n > 0 && key.p[0] >= '0' && key.p[0] <= '9';
}

static qp_str policy_text(struct compiler *c, const struct plan *p)
{
    char text[RETRY_TEXT_SIZE];
    double first = p->initial_ms < 0 ? 1000 * p->coefficient : (double)p->initial_ms;
    struct retry retry = {.attempts = p->attempts,
                          .backoff_ms = first < (double)p->most_ms ? (qp_ms)first : p->most_ms,
                          .factor = p->coefficient,
                          .cap_ms = p->most_ms};
    qp_str copy = QP_NONE;
    memcpy(retry.codes, p->codes, sizeof retry.codes);
    if (p->codes[0].code != 0 && p->codes[1].code == 0) { /* one is as `code` says it */
        retry.code = p->codes[0].code;
        retry.attempts = p->codes[0].attempts;
        retry.codes[0] = (struct retry_code){0};
    }
    if (!arena_copy(c->arena, (qp_str){text, retry_format(&retry, text)}, &copy)) {
        c->report->no_memory = true;
    }
    return copy;
}

void retry_read(struct making *m, const struct node *node, struct activity *a)
{
    struct plan p = {.attempts = defaults.attempts,
                     .coefficient = defaults.coefficient,
                     .initial_ms = -1,
                     .most_ms = defaults.most_ms};
    if (node->kind != NODE_MAP || node->count == 0) {
        report_add(m->c->report, "retry_wrong", node->line, node->column,
                   "write {maximumAttempts: 5} or {'500': [5]}", "retry must be a map, not %s",
                   node->kind == NODE_MAP ? "an empty one" : node_words(node));
        return;
    }
    if (is_code(node->first->key)) {
        read_codes(m->c, node, &p);
    } else {
        read_policy(m->c, node, &p);
    }
    a->policy = policy_text(m->c, &p);
}

/* ------------------------------------------------------------------------------------- time limits */

static const struct {
    const char *key;
    enum time_limit limit;
} time_keys[] = {{"startTimeout", TIME_LIMIT_START},
                 {"timeout", TIME_LIMIT_RUN},
                 {"heartbeat", TIME_LIMIT_BEAT}};

static void read_limit(struct compiler *c, const struct node *node, qp_ms *out_ms)
{
    double seconds = 0;
    qp_ms ms = 0;
    if (node_as_real(node, &seconds) && seconds * 1000 <= (double)LIMIT_TIMER_MS) {
        ms = seconds > 0 ? (qp_ms)(seconds * 1000) : 0;
    } else if (node->kind == NODE_STRING && span_parse(node->text, &ms, NULL) != QP_OK) {
        ms = 0;
    }
    if (ms < 1 || ms > LIMIT_TIMER_MS) {
        report_add(c->report, "time_limit_wrong", node->line, node->column,
                   "write a number of seconds, or a text like 30s; leave the key out for no limit",
                   "'%.*s' must be a time from 1 ms to ten years", STR_ARG(text_shown(node->key)));
        return;
    }
    *out_ms = ms;
}

void time_limits_read(struct making *m, const struct node *node, struct activity *a)
{
    struct time_limits limits = {{0}};
    char text[RETRY_TEXT_SIZE];
    char limits_text[TIME_LIMITS_TEXT_SIZE];
    qp_str before = str_is_none(a->policy) ? POLICY_ONCE : a->policy;
    int n;
    for (size_t i = 0; i < ARRAY_COUNT(time_keys); i++) {
        const struct node *entry = node_get(node, time_keys[i].key);
        if (entry != NULL) {
            read_limit(m->c, entry, &limits.ms[time_keys[i].limit]);
        }
    }
    if (time_limits_format(&limits, limits_text) == 0) {
        return;
    }
    n = snprintf(text, sizeof text, "%.*s,%s", STR_ARG(before), limits_text);
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    if (!arena_copy(m->c->arena, (qp_str){text, (size_t)n}, &a->policy)) {
        m->c->report->no_memory = true;
    }
}
