/* script.h - a fixed sequence of commits, and the state that the store must have after each
 *
 * The script is the same in every run, down to the clock, so its states are known beforehand: they
 * are the dumps of a run without faults. Whatever a disk does, the file that is found afterwards
 * must be in one of these states, and a run says which one it had been promised:
 *
 *   state 0            the file that the script starts from
 *   state 1            opened by a writer (its mark is written)
 *   state 1 + k        step k is committed, 1 <= k <= SCRIPT_STEPS
 *   state SCRIPT_LAST  closed
 *
 * A step writes a job, activities, GUIDs, semaphores, messages, data, journal and audit rows in two
 * bundles; every few steps a job is deleted, and the log is checkpointed. A dump is equal or it is
 * not: half a commit is no state.
 */
#ifndef QP_TEST_SCRIPT_H
#define QP_TEST_SCRIPT_H

#include "store/store.h"
#include "support/testenv.h"

#define SCRIPT_STEPS 20
#define SCRIPT_LAST (SCRIPT_STEPS + 2)
#define SCRIPT_NO_STATE (-1)

struct script {
    struct testenv t;
    struct store *s; /* NULL: not open */
    char dir[256];
    char path[320];
    unsigned char *file; /* the file to start from */
    size_t file_size;
    char *states[SCRIPT_LAST + 1];
};

/* Makes the file to start from, and the states by a run without faults. */
void script_init(struct script *x);
/* Asserts that no memory is left. */
void script_done(struct script *x);

/* The file as it was at the start, nothing beside it. */
void script_place(struct script *x);
/* Nothing at all. */
void script_remove(struct script *x);

int script_open(struct script *x, const char *vfs, enum store_durability durability,
                struct qp_err *err);
/* The commit of step k; with a checkpoint behind it where the script has one (its code into
 * *out_idle when given). */
int script_step(struct script *x, int k, int *out_idle, struct qp_err *err);
bool script_has_checkpoint(int k);
int script_close(struct script *x, struct qp_err *err);

/* Opens the file read-only through the usual VFS, checks every page, and says which state it is in,
 * at or above `from`; SCRIPT_NO_STATE when none, or when it cannot be opened: `why` says so. _rows:
 * without the head row, which every open writes. */
int script_state(struct script *x, int from, struct qp_err *why);
int script_state_rows(struct script *x, int from, struct qp_err *why);
/* The same for a copy of the file and its log, as a crash at this moment would leave them to a
 * fresh process. */
int script_state_of_copy(struct script *x, int from, struct qp_err *why);

#endif
