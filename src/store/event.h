/* event.h - journal entries that have a row of their own: their kind, and what they say
 *
 * An entry says what happened and what stood there then, and never changes:
 *
 *   kind     event_row.kind is the op's kind and, in its thousands, the status that the job had when the
 *            entry was written, plus one. 0 thousands: an entry of an older version, which kept no status.
 *   detail   of the kinds that are about an attempt, a wait or another job: the facts below as one JSON
 *            object, with the keys in this order, those that are none left out:
 *
 *              {"attempt":2,"delivery":3,"worker":"w","topic":"t","key":"k","job":"id","until":ms,
 *               "error":{"code":503,"message":"...","activity":"pay","address":"pay,0,0"}}
 *
 *            of a publication: {"topic":"t","code":202,"data":...}; at the end of a job without the data.
 *            of all other kinds: the text or JSON that the op was given.
 */
#ifndef QP_STORE_EVENT_H
#define QP_STORE_EVENT_H

#include "store/rows.h"

#define EVENT_STATUS_RADIX 1000 /* kinds are less, on both sides of 0 */

static inline int64_t event_stamp(int64_t kind, int64_t status)
{
    QP_ASSERT(kind > -EVENT_STATUS_RADIX / 2 && kind < EVENT_STATUS_RADIX / 2);
    QP_ASSERT(status >= 0 && status < STATUS_COUNT);
    return kind + (status + 1) * EVENT_STATUS_RADIX;
}

/* The status of the job; -1: it is not known. */
static inline int64_t event_status(const struct event_row *row)
{
    return (row->kind + EVENT_STATUS_RADIX / 2) / EVENT_STATUS_RADIX - 1;
}

static inline int64_t event_kind(const struct event_row *row)
{
    return row->kind - (event_status(row) + 1) * EVENT_STATUS_RADIX;
}

/* The status of a job that has ended so; of an open one RUNNING. */
int64_t status_of_state(int64_t state);

struct event_facts {
    int64_t attempt;  /* of the worker's attempts that failed, this one; 0: none */
    int64_t delivery; /* of the task's deliveries, this one; 0: none */
    qp_str worker;
    qp_str topic;
    qp_str key;
    qp_str job;     /* the id of another job */
    qp_ms until;    /* 0: none */
    int64_t code;   /* of the error; 0: there is none */
    qp_str error;   /* written: the sentence; read: the whole object as JSON */
    qp_str address; /* written: of the activity that failed */
};

/* What a job publishes: the detail of its entry is {"topic":..,"code":..,"data":..}. */
struct publication {
    qp_str topic;
    int64_t
        code; /* 202: more will come; 200: the job is completed, and its data are its output; else that of its error */
    qp_str
        data; /* JSON; none: there are none, or they are the job's output. Read: in the text that was read */
    bool at_end; /* the data are not written: those of a job that has ended are its output */
};
int publication_write(const struct qp_env *env, struct arena *arena, const struct publication *p,
                      qp_str *out_json) QP_MUST_USE;
int publication_read(const struct qp_env *env, struct arena *arena, qp_str json,
                     struct publication *out_publication) QP_MUST_USE;

/* The facts as JSON, in the arena. */
int event_write(const struct qp_env *env, struct arena *arena, const struct event_facts *facts,
                qp_str *out_json) QP_MUST_USE;
/* What the detail of an entry says; texts are the arena's. Facts that are not there are none. */
int event_read(const struct qp_env *env, struct arena *arena, qp_str json,
               struct event_facts *out_facts) QP_MUST_USE;

#endif
