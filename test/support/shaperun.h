/* shaperun.h - runs a job of a shape on a store: an engine, workers without threads, a sink that counts
 *
 *   shaperun_init  ->  shaperun_step until shaperun_is_done  ->  shaperun_verify  ->  shaperun_done
 *                        |        ^
 *                        v kill   |  the engine is dropped as it stands, the store opened again by
 *                      shaperun_resume  the caller, a new engine begins
 *
 * Deterministic under virtual time. Every execution of a task is one raw call to the sink, which
 * never deduplicates, under the key (job, address, GUID); then its result is submitted. A call whose
 * result was not committed when the engine died is `lost`: the only reason for another one. With
 * `host` the result also writes a row of the host's own table, in the same commit.
 *
 * What goes wrong fails the test, or in a child process (life > 0) ends it with abort().
 */
#ifndef QP_TEST_SHAPERUN_H
#define QP_TEST_SHAPERUN_H

#include "base/omap.h"
#include "kernel/request.h"
#include "support/shapes.h"
#include "support/testenv.h"

#define SHAPERUN_SIGNALS_MAX 9

struct shaperun_key {
    int64_t calls;
    int64_t lost;
};

struct shaperun_signal {
    struct request_signal request;
    struct shaperun *run;
    char name[8];
    unsigned char guid[LIMIT_GUID_SIZE];
    enum { SIGNAL_WAITS, SIGNAL_SENT, SIGNAL_DONE } state;
    bool delivered;
};

struct shaperun {
    /* set by the caller, before shaperun_init */
    const struct shape *shape;
    struct store *store;
    struct testenv *time; /* NULL: real time */
    const char *input;    /* NULL: the shape's */
    bool stepwise;
    bool host;
    int64_t workers;     /* tasks that are executed per step */
    int64_t check_every; /* commits between two checks of the store; 0: none */
    int64_t extra_at;    /* the step at which a flow is sent its extra event; 0: never */
    int life;            /* of a child process, from 1; it goes into the log and the host's rows */
    int log_fd;          /* one line per call is appended here before its result is submitted */
    /* the run */
    struct qp_env kept; /* the store's, which outlives its handle */
    const struct qp_env *env;
    struct engine *engine;
    struct service services[SHAPE_TOPICS_MAX];
    struct task *first; /* in hand, and not executed */
    struct task *last;
    struct shaperun_call *calls; /* executed, and not answered */
    struct omap sink;            /* of struct shaperun_key */
    struct request_start start;
    bool started;
    struct shaperun_signal signals[SHAPERUN_SIGNALS_MAX];
    int signal_count;
    int64_t steps;
    int64_t kills;
    int64_t late; /* messages that came when all was over, of all engines */
    int64_t checks;
    int64_t decisions_max; /* decisions in hand at once, at most */
};

void shaperun_init(struct shaperun *r);
/* Submits and executes what there is: half a step. */
void shaperun_work(struct shaperun *r);
/* One round of the engine, then time goes on if nothing else does. */
void shaperun_round(struct shaperun *r);
bool shaperun_is_done(struct shaperun *r);
/* Steps until it is done and nothing is left to do. */
void shaperun_finish(struct shaperun *r);

void shaperun_kill(struct shaperun *r);
/* r->store is open again. */
void shaperun_resume(struct shaperun *r);

/* fsck finds nothing; with `strict` no warning either. */
void shaperun_check(struct shaperun *r, bool strict);
/* The expected output; every call is accounted for; one row of the host per key. */
void shaperun_verify(struct shaperun *r);
/* The job's output, NUL-terminated. */
void shaperun_output(struct shaperun *r, char out_text[SHAPE_TEXT_SIZE]);
/* Closes the engine. */
void shaperun_done(struct shaperun *r);

_Noreturn void shaperun_fail(const struct shaperun *r, const char *format, ...) QP_PRINTF(2, 3);

#endif
