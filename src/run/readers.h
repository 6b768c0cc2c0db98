/* readers.h - connections for reading, beside the engine's own
 *
 * A read takes one of at most LIMIT_READERS connections, which are opened when they are needed and kept, and runs on the
 * thread of its caller. So a read waits neither for the engine nor, mostly, for another read. The tables of a store in
 * memory belong to the engine: there a read is a call of the driver (calls.h).
 *
 *   I1  a read begins after its caller was answered, and sees all that was committed before: the caller's own writes
 *   I2  a thread that has set a limit (calls.h) does not wait for a connection beyond it
 *   I3  while the driver finds the database away, nothing is read: each attempt would occupy a thread until it finds
 *       the same
 *
 * The handle owns the connections; a read borrows one. From any thread.
 */
#ifndef QP_RUN_READERS_H
#define QP_RUN_READERS_H

#include <pthread.h>

#include "store/store.h"

/* A namespace whose number is known. */
struct known_space {
    struct known_space *next;
    int64_t ns;
    size_t size;
    char name[LIMIT_NAME_SIZE];
};

struct readers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct store *free[LIMIT_READERS];
    size_t free_count;
    size_t open_count;
    struct known_space *spaces;
};

int readers_init(struct readers *r) QP_MUST_USE;
/* Before the store is closed: only the last connection to a file leaves no log beside it. No read is running. */
void readers_close(struct readers *r);
void readers_done(struct readers *r, const struct qp_env *env);

/* Runs `body` with a connection for reading, on this thread; in memory with the engine's own, on the driver.
 * QP_E_INVALID: in a callback of the engine, where nothing may wait. QP_E_BUSY: the database is away. */
typedef int (*reads_body)(void *context, struct store *s, struct qp_err *err);
int reads_do(qp *q, void *context, reads_body body, struct qp_err *err) QP_MUST_USE;

/* The number of a namespace; none: the handle's own. Also in a callback of the engine. */
int space_number(qp *q, qp_str name, int64_t *out_ns, struct qp_err *err) QP_MUST_USE;

#endif
