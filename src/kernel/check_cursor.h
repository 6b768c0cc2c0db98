/* check_cursor.h - the rows of a table, read ahead in pages: what lies beside the jobs of a walk
 *
 * The tables that belong to jobs have an order in which the rows of a job lie together, job after job, as
 * the jobs do. So whoever walks the jobs has a cursor in each of them and moves it along: a page of jobs
 * costs as many round trips as its rows have pages, however many jobs it has.
 *
 *   I1  what is read ahead is of the snapshot that it was read in: cursor_renew forgets it, and the
 *       next page begins behind the last row that was passed
 *   I2  a cursor has at most LIMIT_CHECK_PAGE_ROWS rows in memory, without their payloads
 *
 * Failures stick in c->rc, and a cursor is at its end then.
 */
#ifndef QP_KERNEL_CHECK_CURSOR_H
#define QP_KERNEL_CHECK_CURSOR_H

#include "kernel/check_internal.h"

/* A table, and the order in which the rows of a job lie together. */
struct check_part {
    enum table_id table;
    int index;          /* as in struct scan */
    const char *column; /* the one that has the job's number; NULL: its rows are no job's */
};

struct check_cursor {
    struct check *c;
    enum table_id table;
    int index;
    size_t job_column;
    struct job_ref
        only; /* of this job alone; of this namespace, when job is 0; of all, when ns is */
    struct arena arena; /* of the page */
    struct check_rows page;
    size_t at;    /* of the page: the next row */
    size_t taken; /* rows passed since it was renewed */
    size_t want;  /* of the next page */
    bool over;    /* nothing is behind the page */
    void *last;   /* the last row that was passed, of pages that are gone; NULL: none was */
};

void cursor_init(struct check_cursor *k, struct check *c, const struct check_part *part,
                 struct job_ref only);
void cursor_done(struct check_cursor *k);

/* Another snapshot has begun. */
void cursor_renew(struct check_cursor *k);

/* The next row, NULL at the end. It lives until the one behind it is asked for. */
const void *cursor_peek(struct check_cursor *k);
/* That one is done with. */
void cursor_pass(struct check_cursor *k);
/* All rows of a page at once, all of them passed; none at the end. They live until the next page. */
const struct check_rows *cursor_page(struct check_cursor *k);

struct job_ref cursor_job(const struct check_cursor *k, const void *row);
/* The next row, if it is the job's: what comes before the job is passed. */
const void *cursor_of_job(struct check_cursor *k, struct job_ref ref);

/* In the table of jobs, by its key: the job, NULL when it is not there. The next one that is asked for
 * comes behind it. What lies between is not read, but for the rest of a page. */
const struct job_row *cursor_find_job(struct check_cursor *k, struct job_ref ref);

/* <0, 0, >0: in the order of the walk. */
static inline int job_ref_compare(struct job_ref a, struct job_ref b)
{
    return a.ns != b.ns ? (a.ns > b.ns) - (a.ns < b.ns) : (a.job > b.job) - (a.job < b.job);
}

#endif
