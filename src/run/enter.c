/* enter.c - what every public function begins with (see enter.h) */
#include "run/enter.h"

#include <sys/mman.h>
#include <unistd.h>

#include "run/handle.h"

/* A page that the system clears in a child after fork: so each call sees whether it is in one, without a call of the
 * system. Systems that cannot do that are asked for the number of the process instead. */
void mark_make(qp *q)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    q->pid = getpid();
    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0) {
        (void)munmap(page, (size_t)sysconf(_SC_PAGESIZE)); /* it is ours */
        return;
    }
    q->mark = page;
    *q->mark = 1;
}

void mark_drop(qp *q)
{
    if (q->mark != NULL) {
        (void)munmap(q->mark, (size_t)sysconf(_SC_PAGESIZE)); /* likewise */
    }
}

bool handle_is_ours(const qp *q)
{
    return q != NULL && (q->mark != NULL ? *q->mark == 1 : q->pid == getpid());
}

/* Whether this process opened it. */
int process_check(const qp *q, const char *function, struct qp_err *err)
{
    return handle_is_ours(q)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "%s: process %ld opened the engine, and this is %ld: after fork, open the "
                         "store in the child",
                         function, (long)q->pid, (long)getpid());
}

int handle_enter(qp *q, bool complete, const char *function, const char *needs, qp **out_entered,
                 struct qp_err *err)
{
    if (q == NULL) {
        return err_set(err, QP_E_INVALID,
                       "%s: the handle is NULL, it needs an engine of qp_open, or a task in hand",
                       function);
    }
    if (!complete) {
        return err_set(err, QP_E_INVALID, "%s: an argument is NULL, it needs %s", function, needs);
    }
    QP_TRY(process_check(q, function, err));
    /* Counted first, then asked: either we see the seal, or qp_close sees us. In a callback of qp_close itself a call is
     * refused as in any other. */
    atomic_fetch_add(&q->inside, 1);
    *out_entered = q;
    return atomic_load(&q->driver.sealed) && !driver_is_this_thread(&q->driver)
               ? err_set(err, QP_E_CLOSED, "%s: the engine is being closed", function)
               : QP_OK;
}

void handle_leave(qp *const *entered)
{
    if (*entered != NULL) {
        atomic_fetch_sub(&(*entered)->inside, 1);
    }
}
