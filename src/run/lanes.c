/* lanes.c - how many jobs of a topic and limit key are worked on at once: set and removed
 *
 * A setting is a mark on the row of its lane (store/rows.def, LANE_ROW), which stays as long as it has one. Setting and
 * removing are one commit each; the next claim heeds it.
 */
#include "run/enter.h"
#include "run/host.h"
#include "run/readers.h"

static int limit_do(qp *q, const struct qp_limit *limit, bool forget, struct qp_err *err)
{
    struct op op = {.kind = OP_lane_limit,
                    .lane_limit = {.topic = limit->topic,
                                   .limit_key = limit->key,
                                   .max = forget ? 0 : limit->max,
                                   .forget = forget}};
    QP_TRY(topic_check(limit->topic, err));
    if (limit->key.n > 0) {
        QP_TRY(id_check(limit->key, "limit key", err));
    }
    if (op.lane_limit.max < 0 || op.lane_limit.max > INT32_MAX) {
        return err_set(err, QP_E_INVALID, "max must be between 0 and %d, got %lld", INT32_MAX,
                       (long long)limit->max);
    }
    QP_TRY(space_number(q, limit->ns, &op.lane_limit.ns, err));
    return op_do(q, &op, "limit", err);
}

int qp_limit_set(qp *q, const struct qp_limit *limit, struct qp_err *err)
{
    ENTER(q, limit != NULL, err);
    int rc = limit_do(q, limit, false, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "limit");
}

int qp_limit_remove(qp *q, const struct qp_limit *limit, struct qp_err *err)
{
    ENTER(q, limit != NULL, err);
    int rc = limit_do(q, limit, true, err);
    if (rc == QP_E_NOT_FOUND) {
        return err_set(err, rc, "limit: topic '%.*s' has no limit for %s%.*s%s",
                       STR_ARG(limit->topic), limit->key.n > 0 ? "key '" : "jobs without a key",
                       STR_ARG(limit->key), limit->key.n > 0 ? "'" : "");
    }
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "limit");
}
