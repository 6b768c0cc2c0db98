/* starts.c - the jobs of a file in the order of their starts, mostly without an index
 *
 * Lists go by start time and number. The one writer of a file gives out the numbers of jobs in ascending
 * order, and its clock never goes back, so the order of numbers is that order: the key serves, and a
 * job costs no entry of a further index.
 *
 *   I1  while the file has no index of starts, of two jobs the one with the lower number was not
 *       started after the other one
 *   I2  and no job was started after the clock of the head row, so jobs to come keep I1
 *
 * Jobs that come from elsewhere may break both: several nodes of one database take their numbers from
 * blocks. So a file that a copy has filled, or that an older version has written, is looked through
 * once, and gets the index if it needs it; from then on it has it.
 *
 * If we crash before the commit that ends the filling (or the step of the migration), there is no index,
 * and the filling or the step is done again.
 */
#include "store/sqlite/sqlite_internal.h"

#define OUT_OF_ORDER                                                                               \
    "SELECT EXISTS(SELECT 1 FROM (SELECT created_at AS this, lag(created_at) OVER (ORDER BY job)"  \
    " AS last FROM qp_job) WHERE this<last) OR EXISTS(SELECT 1 FROM qp_head WHERE ns=0 AND"        \
    " clock<(SELECT max(created_at) FROM qp_job))"

int sqlite_starts_settle(struct sqlite_provider *p, struct qp_err *err)
{
    int64_t is_out_of_order = 0;
    QP_TRY(sqlite_query(p, OUT_OF_ORDER, &is_out_of_order, NULL, 0, err));
    if (is_out_of_order == 0 || p->has_starts) {
        return QP_OK;
    }
    QP_TRY(sqlite_exec(p, SQLITE_STARTS_INDEX, err));
    p->has_starts = true;
    return QP_OK;
}

int sqlite_starts_look(struct sqlite_provider *p, struct qp_err *err)
{
    int64_t count = 0;
    QP_TRY(sqlite_query(
        p, "SELECT count(*) FROM sqlite_schema WHERE type='index' AND name='qp_job_started'",
        &count, NULL, 0, err));
    p->has_starts = count > 0;
    return QP_OK;
}

bool sqlite_has_index(const struct sqlite_provider *p, int index)
{
    return index >= 0 && (index != INDEX_job_started || p->has_starts);
}
