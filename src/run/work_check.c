/* work_check.c - whether what a worker elsewhere says can be worked with (see work_check.h) */
#include "run/work_check.h"

#include <stdio.h>

#include "base/json.h"
#include "run/handle.h"

static int range_check(int64_t value, int64_t most, const char *pointer, struct qp_err *err)
{
    if (value >= 0 && value <= most) {
        return QP_OK;
    }
    (void)err_set(err, QP_E_INVALID, "%s must be between 0 and %lld, got %lld", pointer + 1,
                  (long long)most, (long long)value);
    return err_point(err, QP_E_INVALID, "%s", pointer);
}

/* An id of the call itself. */
static int own_id_check(qp_str id, const char *pointer, struct qp_err *err)
{
    int rc = id_check(id, pointer + 1, err);
    return rc == QP_OK ? QP_OK : err_point(err, rc, "%s", pointer);
}

static int topics_check(const struct work_call *c, struct qp_err *err)
{
    QP_TRY(range_check((int64_t)c->topic_count, LIMIT_WORK_TOPICS, "/topics", err));
    for (size_t i = 0; i < c->topic_count && !c->inner; i++) {
        int rc = topic_check(c->topics[i], err);
        if (rc != QP_OK) {
            return err_point(err, rc, "/topics/%zu", i);
        }
    }
    if (c->want > 0 && c->topic_count + c->name_count == 0) {
        (void)err_set(err, QP_E_INVALID,
                      "a call that wants tasks must name at least one topic or flow");
        return err_point(err, QP_E_INVALID, "/topics");
    }
    return QP_OK;
}

static int names_check(const struct work_call *c, struct qp_err *err)
{
    QP_TRY(
        range_check((int64_t)(c->topic_count + c->name_count), LIMIT_WORK_TOPICS, "/flows", err));
    for (size_t i = 0; i < c->name_count; i++) {
        int rc = topic_check(c->names[i], err);
        if (rc != QP_OK) {
            return err_point(err, rc, "/flows/%zu/name", i);
        }
    }
    return QP_OK;
}

static int json_is_good(const qp *q, const char *field, qp_str json, size_t most,
                        struct qp_err *err)
{
    int rc;
    if (str_is_none(json)) {
        return QP_OK;
    }
    rc = json.n > most ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %zu", json.n, most)
                       : json_check(&q->env, json, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "%s", field);
}

static int result_check(const qp *q, const struct work_result *r, struct qp_err *err)
{
    QP_TRY(json_is_good(q, "output", r->output, LIMIT_PAYLOAD_SIZE, err));
    if (r->told.n > LIMIT_FLOW_DECISION_SIZE) { /* its parts are checked when it is applied */
        return err_set(err, QP_E_TOO_LARGE, "result: %zu bytes, the limit is %d", r->told.n,
                       LIMIT_FLOW_DECISION_SIZE);
    }
    if ((unsigned)r->kind > WORK_OTHER || (r->kind == WORK_OTHER && str_is_none(r->told))) {
        return err_set(err, QP_E_INVALID, "status: success, pending or error");
    }
    if (r->kind == WORK_ERROR && r->code != 0 && (r->code < 400 || r->code > 599)) {
        return err_set(err, QP_E_INVALID, "code: it is 400 to 599, got %lld", (long long)r->code);
    }
    if (r->kind == WORK_SUCCESS && r->code != 0 &&
        (r->code < LIMIT_CODE_LEAST || r->code > LIMIT_CODE || r->code == CODE_PENDING)) {
        return err_set(err, QP_E_INVALID,
                       "code: that of a success must be 100 to 599, and 202 is that of a result "
                       "with the status pending; got %lld",
                       (long long)r->code);
    }
    if (utf8_valid_prefix(r->message) < r->message.n) {
        return err_set(err, QP_E_INVALID, "error: not valid UTF-8");
    }
    return r->pending_index >= 0 && r->pending_index <= LIMIT_LEG2_ENTRIES
               ? QP_OK
               : err_set(err, QP_E_INVALID, "index: it is 1 to %d", LIMIT_LEG2_ENTRIES);
}

static void why_set(char out_why[WORK_WHY_SIZE], int rc, const struct qp_err *err)
{
    (void)snprintf(out_why, WORK_WHY_SIZE, "%.*s", WORK_WHY_SIZE - 1,
                   err->text[0] != '\0' ? err->text : qp_code_text(rc));
}

/* What is wrong with one result or beat is its own affair: it is refused, and the others are taken. A call that was
 * refused for one of them would come again, with the same one, without end. */
void work_check_brought(const qp *q, struct work_call *c)
{
    struct qp_err err = {0};
    for (size_t i = 0; i < c->result_count; i++) {
        struct work_result *r = &c->results[i];
        r->rc = result_check(q, r, &err);
        r->status = r->rc == QP_OK ? WORK_OK : WORK_REFUSED;
        if (r->rc != QP_OK) {
            why_set(r->why, r->rc, &err);
        }
    }
    for (size_t i = 0; i < c->beat_count; i++) {
        struct work_beat *b = &c->beats[i];
        b->rc = json_is_good(q, "progress", b->progress, LIMIT_PROGRESS_SIZE, &err);
        b->status = b->rc == QP_OK ? WORK_OK : WORK_REFUSED;
        if (b->rc != QP_OK) {
            why_set(b->why, b->rc, &err);
        }
    }
}

static int counts_check(const struct work_call *c, struct qp_err *err)
{
    QP_TRY(range_check((int64_t)c->result_count, LIMIT_WORK_RESULTS, "/results", err));
    return range_check((int64_t)c->beat_count, LIMIT_WORK_RESULTS, "/beats", err);
}

int work_check(const struct work_call *c, struct qp_err *err)
{
    QP_TRY(own_id_check(c->worker, "/worker", err));
    if (!str_is_none(c->build)) {
        QP_TRY(own_id_check(c->build, "/build", err));
    }
    QP_TRY(range_check(c->want, LIMIT_WORK_TASKS, "/want", err));
    QP_TRY(range_check(c->wait_ms, LIMIT_WORK_WAIT_MS, "/wait", err));
    QP_TRY(topics_check(c, err));
    QP_TRY(names_check(c, err));
    return counts_check(c, err);
}
