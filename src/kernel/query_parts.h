/* query_parts.h - what the files of query.h share: a read of one job, all of it in one snapshot
 *
 * parts_begin begins a snapshot, parts_end ends it and frees the arena, whatever parts_begin has answered.
 */
#ifndef QP_KERNEL_QUERY_PARTS_H
#define QP_KERNEL_QUERY_PARTS_H

#include "kernel/query.h"

/* What a page needs of one job. */
struct parts {
    const struct query *q;
    struct arena arena;
    const struct job_row *job;
    struct qp_err *err;
    /* The entry that was told last, and the status that entries behind it begin with; -1: not known. */
    int64_t told_job;
    int64_t told_seq;
    int64_t status;
    int64_t kind; /* of its row; EVENT_NONE: an activity was entered or answered */
};

int parts_begin(struct parts *p, const struct query *q, qp_str id, struct qp_err *err) QP_MUST_USE;
/* `rc`, or what the end of the snapshot answers. */
int parts_end(struct parts *p, int rc) QP_MUST_USE;
/* A row by its key; *out_row is untouched when there is none. */
int parts_get(struct parts *p, struct arena *arena, enum table_id table, const void *key,
              const void **out_row) QP_MUST_USE;

#endif
