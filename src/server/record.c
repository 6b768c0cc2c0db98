/* record.c - what is remembered of a call: numbers, the audit, and a line in the log when we failed
 *
 * Nothing of a request's texts but its route goes into numbers, so that nobody can make them
 * many; and no header goes anywhere.
 */
#include <stdio.h>

#include "base/log.h"
#include "run/access.h"
#include "server/api.h"

static void count(struct api_call *c, double seconds)
{
    static const double bounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 30};
    const struct metric_spec requests = {.name = "quipu_http_requests_total",
                                         .help = "Answers, by route, method and status.",
                                         .kind = METRIC_COUNTER};
    const struct metric_spec duration = {.name = "quipu_http_request_duration_seconds",
                                         .help = "From the request's body to its answer.",
                                         .kind = METRIC_HISTOGRAM,
                                         .bounds = bounds,
                                         .bound_count = ARRAY_COUNT(bounds)};
    struct metrics *metrics = api_options(c->api)->metrics;
    char code[16];
    struct metric *metric;
    qp_str route = str_from(c->route != NULL ? c->route->name : "none");
    (void)snprintf(code, sizeof code, "%d", c->late_status != 0 ? c->late_status : c->status);
    const qp_str labels[] = {QP_STR("route"),  route,
                             QP_STR("method"), str_from(method_word(c->method)),
                             QP_STR("code"),   str_from(code)};
    if (metrics_open(metrics, &requests, labels, ARRAY_COUNT(labels), NULL, &metric) == QP_OK) {
        metric_add(metric, 1);
    }
    if (metrics_open(metrics, &duration, labels, 2, NULL, &metric) == QP_OK) {
        metric_observe(metric, seconds);
    }
}

/* The audit is written with the next commit: an action that committed is followed by its line,
 * or the process ended in between, and then the job's own journal tells what happened to it. */
static void audit_call(struct api_call *c)
{
    char outcome[16];
    char detail[LIMIT_REQUEST_ID_SIZE + 80];
    struct audit line;
    struct qp_err err = {0};
    int rc;
    (void)snprintf(outcome, sizeof outcome, c->status < 400 ? "ok" : "%d", c->status);
    (void)snprintf(detail, sizeof detail, "%.*s %s", STR_ARG(c->from), c->request_id);
    line = (struct audit){.ns = c->ns,
                          .actor = str_from(c->who.token),
                          .action = str_from(c->route->name),
                          .target = str_is_none(c->target) ? c->parts[0] : c->target,
                          .outcome = str_from(outcome),
                          .detail = str_from(detail)};
    rc = audit_put(api_engine(c->api), &line, &err);
    if (rc == QP_E_NOT_FOUND) {
        line.ns =
            QP_NONE; /* there is no such namespace: who asked for it is told of in the store's */
        rc = audit_put(api_engine(c->api), &line, &err);
    }
    if (rc != QP_OK) {
        log_write(api_env(c->api), QP_LOG_ERROR, LOG_MSG("a line of the audit is lost"),
                  LOG_TEXT("action", c->route->name), LOG_TEXT("why", err.text));
    }
}

void api_finished(struct api_call *c)
{
    const struct qp_env *env = api_env(c->api);
    int64_t us = env->monotonic_us(env->context) - c->began_us;
    if (api_options(c->api)->metrics != NULL) {
        count(c, (double)us / 1e6);
    }
    if (c->route != NULL && (c->route->flags & ROUTE_AUDITED) != 0 && !c->audited &&
        c->who.token[0] != '\0') {
        audit_call(c);
    }
    if (c->status >= 500 && c->status != 503) {
        log_write(env, QP_LOG_ERROR, LOG_MSG("a request has failed"),
                  LOG_TEXT("route", c->route != NULL ? c->route->name : "none"),
                  LOG_I64("status", c->status), LOG_TEXT("request_id", c->request_id));
    }
}
