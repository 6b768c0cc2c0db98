/* filter.h - which jobs a list is about: a text of conditions, compiled to a predicate and to the best way in
 *
 *   filter    = [ all { "or" all } ]                              `and` binds more closely than `or`
 *   all       = condition { "and" condition }
 *   condition = field op value
 *   field     = "status" | "workflow" | "topic" | "id" | "started" | "updated" | "ended" | "attr." name | "properties." name
 *   op        = "=" | "!=" | "^=" | "<" | "<=" | ">" | ">="       (which field takes which: quipu.h)
 *   value     = word | '"' { character | '\"' | '\\' } '"'        word: letters, digits, . _ ~ : + -
 *
 * A compiled filter owns nothing: its texts are those of the source and of the arena that it was compiled
 * with. Pure and thread-safe.
 */
#ifndef QP_KERNEL_FILTER_H
#define QP_KERNEL_FILTER_H

#include "store/store.h"

enum filter_field {
    FILTER_STATUS,
    FILTER_OPEN, /* status=open: any that has not ended */
    FILTER_WORKFLOW,
    FILTER_ID,
    FILTER_STARTED,
    FILTER_UPDATED,
    FILTER_ENDED,
    FILTER_ATTR,
    FILTER_PROPERTY
};

enum filter_op {
    FILTER_EQUAL,
    FILTER_OTHER,
    FILTER_BEGINS,
    FILTER_LESS,
    FILTER_AT_MOST,
    FILTER_MORE,
    FILTER_AT_LEAST
};

struct filter_condition {
    bool is_first; /* of an alternative: `or` stands before it, or nothing */
    enum filter_field field;
    enum filter_op op;
    qp_str name;    /* of an attribute */
    qp_str text;    /* workflow, id, attribute */
    int64_t number; /* status, time */
};

struct filter {
    struct filter_condition conditions[LIMIT_FILTER_CONDITIONS];
    size_t count;
};

/* QP_E_INVALID, with "at character N" (from 1), QP_E_NOMEM. `now`: what relative times are back from. */
int filter_compile(struct arena *arena, qp_str where, qp_ms now, struct filter *out_filter,
                   struct qp_err *err) QP_MUST_USE;

/* The conditions of one alternative, [*from, to); the next one begins at `to`. False: there are no more. A filter
 * without conditions has one alternative, which has none. */
struct filter_range {
    size_t from;
    size_t to;
};
bool filter_next(const struct filter *f, struct filter_range *r);
/* All conditions of an alternative but those on attributes and properties. */
bool filter_range_takes(const struct filter *f, const struct filter_range *r,
                        const struct job_row *job);
/* The same of any alternative. */
bool filter_takes(const struct filter *f, const struct job_row *job);
/* One condition on an attribute; `value` is none when the job does not have it. */
bool filter_takes_attr(const struct filter_condition *c, qp_str value);
/* One on a property: `value` is its JSON, none when the job does not have it, and `text` what a string among them says. Numbers
 * are compared as such, everything else as texts. */
bool filter_takes_property(const struct filter_condition *c, qp_str value, qp_str text);

/* The condition by which the fewest rows are looked at: an attribute or a status that an index finds, or an
 * id; NULL: all jobs, by when they were started. */
const struct filter_condition *filter_way_in(const struct filter *f);

/* Whether status and workflow are all that it asks for: then counters know how many there are. */
bool filter_is_counted(const struct filter *f);
bool filter_takes_counter(const struct filter *f, const struct counter_row *counter);

/* Going through jobs by when they were started: none after this one can fit. */
bool filter_is_past(const struct filter *f, const struct job_row *job, bool backwards);

/* The attribute of a job that was retried: the id of the job that was made of it. People see it beside their own. */
#define RETRIED_AS QP_STR("quipu:retried_as")

/* The word of a status that people see, and back (STATUS_COUNT: it is none). */
const char *status_word(int64_t status);
enum job_status status_of_word(qp_str word);

#endif
