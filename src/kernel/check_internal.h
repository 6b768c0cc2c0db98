/* check_internal.h - what the rules of the check share: the loaded job, and how a finding is told
 *
 * A rule reads c->job and c->rows and calls found() for what is wrong; it changes nothing. Failures
 * of memory or of the store stick in c->rc, and the walk ends with them. Everything hangs off the
 * two arenas: `arena` is emptied with every job, `scratch` with every lookup.
 */
#ifndef QP_KERNEL_CHECK_INTERNAL_H
#define QP_KERNEL_CHECK_INTERNAL_H

#include "kernel/check.h"
#include "kernel/ledger.h"

struct check_rows {
    const void **rows;
    size_t count;
    size_t capacity;
};

/* A finding before it is told: a job that moved while it was loaded takes its findings back. */
struct check_found {
    const struct check_rule *rule;
    int64_t ns;
    qp_str jid;
    const char *text;
    const char *evidence;
    struct check_found *next;
};

struct check {
    struct store *store;
    const struct check_options *options;
    struct qp_err *err;
    int rc;
    qp_ms now; /* the clock of the last commit: by it lags are judged, so that rest is no lag */
    qp_ms fades_at; /* jobs whose retention time was over by then may be half deleted */
    int64_t ns;     /* 0: all */
    const struct check_rule *rule; /* the one that is asked */
    struct arena arena;
    struct arena scratch;
    /* of the job */
    const struct job_row *job;
    struct check_rows
        rows[TABLE_COUNT];   /* guid: also those that stand on an activity; by address */
    struct check_rows wakes; /* addresses (qp_str) that something will wake, in order */
    int64_t run;             /* that was asked for last, and whether it is there */
    bool has_run;
    /* findings that are not told yet */
    struct check_found *first;
    struct check_found *last;
};

struct check_rule {
    const char *name;
    enum qp_severity severity;
    bool whole_store;
    const char *text;
    const char *next;
    void (*ask)(struct check *c);
};

extern const struct check_rule check_rules[];
extern const size_t check_rule_count;

#define RULE(name, severity, reach, text, next) void rule_##name(struct check *c);
#include "kernel/check_rules.def"
#undef RULE

/* One violation of c->rule, on c->job, on another job, or (found_in) on what `ns` and `jid` say. */
void found(struct check *c, const char *evidence, const char *format, ...) QP_PRINTF(3, 4);
void found_on(struct check *c, const struct job_row *job, const char *evidence, const char *format,
              ...) QP_PRINTF(4, 5);
void found_in(struct check *c, int64_t ns, qp_str jid, const char *format, ...) QP_PRINTF(4, 5);
/* Text in the job's arena; "" when memory is short, and c->rc says so. */
const char *evidence(struct check *c, const char *format, ...) QP_PRINTF(2, 3);
const char *evidence_ledger(struct check *c, int64_t ledger);
const char *evidence_guid(struct check *c, const struct guid_row *guid);

/* One row more; the row is copied, without its payloads. */
void rows_take(struct check *c, struct check_rows *rows, enum table_id table, const void *row);
/* The same in another arena than the job's, all of `rows`. */
void rows_take_into(struct check *c, struct arena *arena, struct check_rows *rows,
                    enum table_id table, const void *row);
void rows_push(struct check *c, struct check_rows *rows, const void *item);
typedef int (*rows_order)(const void *a, const void *b);
void rows_sort(struct check_rows *rows, rows_order order);
/* The first place whose item is not before `key`. */
size_t rows_seek(const struct check_rows *rows, const void *key, rows_order order);

/* A row by its key, in `scratch`; NULL when there is none, or when c->rc says why it is not known.
 * */
const void *check_get(struct check *c, enum table_id table, const void *key);
/* The message of the loaded job with this GUID, or NULL; and the order in which they are kept. */
const struct msg_row *check_message(const struct check *c, qp_str guid);
int rows_by_guid(const void *a, const void *b);

/* The rows of the loaded job, as pointers of their own type. */
#define EACH_ROW(c, table, var)                                                                    \
    for (size_t var##_i = 0; var##_i < (c)->rows[TABLE_##table].count; var##_i++)                  \
        for (const struct table##_row *var = (c)->rows[TABLE_##table].rows[var##_i]; var != NULL;  \
             var = NULL)

/* For printf("%.*s"): foreign text in a sentence, cut. */
#define CHECK_ECHO(s) (int)((s).n < LIMIT_LOG_ECHO_SIZE ? (s).n : LIMIT_LOG_ECHO_SIZE), (s).p

#endif
