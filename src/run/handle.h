/* handle.h - the engine handle behind quipu.h: its parts, held together
 *
 *   driver   which thread drives the engine, the inbox of calls, turns            driver.h, calls.h, loop.h, drive.c
 *   tasks    worker functions in this process, and the pool that runs them        tasks.h, pool.h, workers.c
 *   remote   workers elsewhere                                                    work.h, remote.h, presence.h
 *   readers  connections for reading                                              readers.h
 *   follow   subscribers that are notified of commits                             follow.h
 *   ready    whether the store can be written                                     ready.h
 *
 * Each part has a struct and, where threads share it, a lock of its own. No part calls one above it: what the driver does
 * for others in a turn comes in through driver_parts (parts.c), what the pool does with a task through pool_hooks.
 *
 * qp_open makes the handle, qp_close frees it; in between it belongs to its caller, and any thread may use it.
 */
#ifndef QP_RUN_HANDLE_H
#define QP_RUN_HANDLE_H

#include <sys/types.h>

#include "base/mem.h"
#include "kernel/face.h"
#include "run/driver.h"
#include "run/follow.h"
#include "run/ids.h"
#include "run/readers.h"
#include "run/ready.h"
#include "run/tasks.h"

struct remote;
struct shell;
struct stats;

struct qp {
    struct qp_env env;
    pid_t pid;           /* of the process that opened it */
    unsigned char *mark; /* 1, and 0 in a child after fork; NULL: the system cannot do that */
    atomic_llong inside; /* public calls that are running */
    char *path;          /* NULL: in memory */
    bool accept_loss;    /* of the options; readers are opened so, too */
    int64_t ns;
    char ns_name[LIMIT_NAME_SIZE + 1]; /* of `ns` */
    struct store *store;
    struct engine *engine; /* NULL: for reading only */
    bool shared;           /* other processes work on the store, too */
    qp_ms lease_ms;        /* of the run, then; else 0 */
    struct driver driver;
    struct tasks tasks;
    struct remote *remote;
    struct readers readers;
    struct follow follow;
    struct ready ready;
    struct ids ids;
    struct faces *faces; /* of all kinds of jobs (kernel/face.h) */
    struct stats *stats;
    struct shell *shell; /* what quipu.shell may run (builtin.c); NULL: nothing */
    /* under the driver's lock */
    int live;      /* threads of our own: the engine's, and those of the pool */
    bool orphaned; /* qp_close_within has left: the last of them closes */
};

/* qp_open with kinds of jobs beside those of kinds.h. They outlive the handle. */
int handle_open(const struct qp_options *options, const struct face *const *more, size_t more_count,
                qp **out_engine, struct qp_err *err) QP_MUST_USE;
/* Frees a handle whose store is closed. */
void handle_free(qp *q);

#endif
