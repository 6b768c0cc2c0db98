/* query.h - what people ask of a store: jobs and their parts, by pages
 *
 * Reads of committed state through a store handle of the caller's, for reading or for writing; they change
 * nothing. Memory is bounded by a page, and the work of one call by LIMIT_LIST_ROWS and
 * LIMIT_LIST_SIZE unless it says otherwise. Contracts are those of quipu.h; here namespaces are numbers,
 * and whoever calls tells their names.
 *
 * What is told lives until its visit returns. A visit does not use the same handle.
 */
#ifndef QP_KERNEL_QUERY_H
#define QP_KERNEL_QUERY_H

#include "kernel/face.h"
#include "kernel/filter.h"

struct query {
    struct store *store;
    int64_t ns;
    qp_str ns_name;
    const struct faces
        *faces;     /* what kinds of jobs tell beside their rows; NULL: nothing is added */
    bool unretried; /* lists and counts leave out jobs that were retried */
};

/* The number of a namespace. QP_E_NOT_FOUND. */
int query_space(struct store *s, qp_str name, int64_t *out_ns, struct qp_err *err) QP_MUST_USE;
int query_spaces(struct store *s, void *context, qp_space_visit visit,
                 struct qp_err *err) QP_MUST_USE;

/* query.c: one job. */
int query_resolve(const struct query *q, qp_str id_or_prefix, char out_id[QP_ID_SIZE],
                  struct qp_err *err) QP_MUST_USE;
/* The row of an id, in `arena`. QP_E_NOT_FOUND. */
int query_find(const struct query *q, struct arena *arena, qp_str id,
               const struct job_row **out_job, struct qp_err *err) QP_MUST_USE;
/* Whether it has ended: two rows, without payloads. QP_E_NOT_FOUND. */
int query_ended(const struct query *q, qp_str id, bool *out_ended, struct qp_err *err) QP_MUST_USE;
/* What became of a job, all of it at one moment. Texts live in the arena. */
struct query_outcome {
    const struct job_row *job;
    qp_str output; /* of a completed job */
    qp_str error;  /* in the one shape (kernel/error.h): why it failed, was parked or ended; none */
    int64_t ledger;   /* of its activity, where its kind has one; else 0 */
    int64_t failures; /* attempts that failed, of all its activities */
};
int query_outcome(const struct query *q, struct arena *arena, qp_str id,
                  struct query_outcome *out_outcome, struct qp_err *err) QP_MUST_USE;
/* unserved_topic is the topic at which a task of the job waits; whether it is served is not known here. */
int query_show(const struct query *q, qp_str id_or_prefix, void *context, qp_job_visit visit,
               struct qp_err *err) QP_MUST_USE;

/* query_list.c: many jobs. */
int query_list(const struct query *q, const struct qp_list *list, void *context, qp_job_visit visit,
               char out_cursor[QP_CURSOR_SIZE], struct qp_err *err) QP_MUST_USE;
/* QP_COUNT_EXACT looks at as many jobs as there are. */
int query_count(const struct query *q, qp_str where, enum qp_count_how how,
                struct qp_count *out_count, struct qp_err *err) QP_MUST_USE;
/* Whether a job fits a filter, attributes included. */
int query_fits(const struct query *q, struct arena *arena, const struct filter *f,
               const struct job_row *job, bool *out_fits, struct qp_err *err) QP_MUST_USE;

/* Where a task is, in a word: msg_row.state as struct qp_activity tells it. */
const char *task_word(int64_t state);

/* query_activities.c, query_parts.c: what a job is made of. The journal is gathered from the rows that its entries stand on: one
 * call looks at all activities of the job. */
int query_activities(const struct query *q, qp_str id, qp_str after, int64_t limit, void *context,
                     qp_activity_visit visit, bool *out_more, struct qp_err *err) QP_MUST_USE;
int query_journal(const struct query *q, qp_str id, int64_t after, int64_t limit, void *context,
                  qp_event_visit visit, bool *out_more, struct qp_err *err) QP_MUST_USE;
/* QP_E_NOT_FOUND: `after` is so long ago that the feed does not go back to it (feed_page). */
int query_feed(const struct query *q, const struct qp_feed *feed, void *context,
               qp_event_visit visit, int64_t *out_after, bool *out_more,
               struct qp_err *err) QP_MUST_USE;
/* Whether what came after the position is not in the feed any more; 0 is its beginning, wherever that is. */
int query_feed_behind(struct store *s, int64_t after, bool *out_behind,
                      struct qp_err *err) QP_MUST_USE;
int query_feed_position(struct store *s, int64_t *out_position, struct qp_err *err) QP_MUST_USE;
typedef int (*query_data_visit)(void *context, qp_str name, qp_str value);
int query_data(const struct query *q, qp_str id, void *context, query_data_visit visit,
               struct qp_err *err) QP_MUST_USE;

/* query_topics.c: streams. workers and served_at are left 0. */
int query_topics(const struct query *q, qp_str after, int64_t limit, void *context,
                 qp_topic_visit visit, bool *out_more, struct qp_err *err) QP_MUST_USE;

/* A page's size: 0 is the default, else 1 to LIMIT_PAGE_ROWS. QP_E_INVALID. */
int query_limit(int64_t limit, size_t *out_limit, struct qp_err *err) QP_MUST_USE;

/* The face of the job's kind; NULL: there is none. */
static inline const struct faced *query_face(const struct query *q, const struct job_row *job)
{
    return q->faces == NULL ? NULL : faces_of(q->faces, job->kind);
}

/* The row as people see it, without what qp_job_show alone tells. */
struct qp_job_info query_info(const struct query *q, const struct job_row *job);

/* The name under which the progress of an activity is kept among a job's data. */
#define PROGRESS_PREFIX "quipu:progress:"
int progress_name(struct arena *arena, qp_str addr, qp_str *out_name) QP_MUST_USE;

#endif
