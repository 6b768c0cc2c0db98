/* query_limits.c - the settings of limits (see query_limits.h)
 *
 * A setting is a lane with the mark `own`. Lanes stand by topic and key; those without a setting come and go with their
 * messages, and are passed over, at most LIMIT_LIST_ROWS of them in one call.
 */
#include "kernel/query_limits.h"

#include <stdio.h>

static_assert(QP_LIMIT_CURSOR_SIZE > LIMIT_NAME_SIZE + 1 + LIMIT_ID_SIZE, "a cursor holds both");

struct limits {
    size_t limit;
    size_t told;
    size_t looked;
    void *context;
    qp_limit_visit visit;
    char last[QP_LIMIT_CURSOR_SIZE]; /* "topic key" of the lane that was looked at last */
    bool more;
};

#define LIMITS_FULL QP_E_LIMIT /* ends the scan */

static int each_lane(void *context, const void *row)
{
    struct limits *l = context;
    const struct lane_row *lane = row;
    if (l->told == l->limit || l->looked == LIMIT_LIST_ROWS) {
        l->more = true;
        return LIMITS_FULL;
    }
    l->looked++;
    (void)snprintf(l->last, sizeof l->last, "%.*s %.*s", STR_ARG(lane->topic),
                   STR_ARG(lane->limit_key)); /* it fits */
    if (lane->own == 0) {
        return QP_OK;
    }
    l->told++;
    return l->visit(l->context, &(struct qp_limit_info){.topic = lane->topic,
                                                        .key = lane->limit_key,
                                                        .max = lane->max,
                                                        .ready = lane->ready,
                                                        .held = lane->held});
}

/* A topic has no space in it. */
static int place_of(qp_str cursor, struct lane_row *place, struct qp_err *err)
{
    const char *space = cursor.n == 0 ? NULL : memchr(cursor.p, ' ', cursor.n);
    if (cursor.n > 0 && (space == NULL || cursor.n >= QP_LIMIT_CURSOR_SIZE)) {
        return err_set(err, QP_E_INVALID, "cursor: it is of no list of limits");
    }
    if (space != NULL) {
        place->topic = (qp_str){cursor.p, (size_t)(space - cursor.p)};
        place->limit_key = (qp_str){space + 1, cursor.n - place->topic.n - 1};
    }
    return QP_OK;
}

int query_limits(const struct query *q, qp_str cursor, int64_t limit, void *context,
                 qp_limit_visit visit, char out_cursor[QP_LIMIT_CURSOR_SIZE], struct qp_err *err)
{
    struct limits l = {.context = context, .visit = visit};
    struct lane_row place = {.ns = q->ns};
    struct scan scan = {.table = TABLE_lane,
                        .index = -1,
                        .prefix = &place,
                        .prefix_count = 1,
                        .after = cursor.n == 0 ? NULL : &place,
                        .limit = SIZE_MAX};
    int rc;
    QP_TRY(query_limit(limit, &l.limit, err));
    QP_TRY(place_of(cursor, &place, err));
    rc = store_scan(q->store, &scan, &l, each_lane, err);
    if (rc != QP_OK && rc != LIMITS_FULL) {
        return rc;
    }
    (void)snprintf(out_cursor, QP_LIMIT_CURSOR_SIZE, "%s", l.more ? l.last : "");
    return QP_OK;
}
