/* faultvfs.h - a disk that counts, fails, lies and loses power
 *
 * A SQLite VFS named "qpfault" around the default one. Give its name to store_options.vfs. It
 *
 *   counts   calls per kind; a benchmark reads how many syncs a commit cost
 *   fails    the n-th call of a kind, once or for good, with a SQLite code of the test's choice
 *   lies     FAULTVFS_SYNC_DROPPED: a sync says yes and does nothing
 *   records  what was written to each file since its last sync, so that a loss of power can be
 *            played: from the n-th call that changes the disk on, everything fails (that call
 *            itself still reaches the cache); then, when the handles are closed,
 *            faultvfs_power_loss leaves the files as a disk might have them
 *
 * What a disk may do to bytes that were not synced: by sector of 512 bytes, keep them, drop them,
 * keep the first part, or leave rubbish. A changed size may be lost, a file that was created may be
 * gone, one that was deleted may be back. What was synced is never touched: not even its neighbours
 * in a sector, which is SQLite's own assumption (powersafe overwrite).
 *
 * Busy handlers do not really sleep under this VFS. Its state is the process's: one test at a time;
 * one thread, where it records.
 */
#ifndef QP_TEST_FAULTVFS_H
#define QP_TEST_FAULTVFS_H

#include <stdbool.h>
#include <stdint.h>

#define FAULTVFS_NAME "qpfault"

enum fault_kind {
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_TRUNCATE,
    FAULT_LOCK, /* of the file and of the shared memory; unlocking does not count */
    FAULT_SHM_MAP,
    FAULT_OPEN,
    FAULT_DELETE,
    FAULT_KINDS
};

enum faultvfs_sync {
    FAULTVFS_SYNC_REAL,
    FAULTVFS_SYNC_PLAYED, /* recorded as synced, without the time that it takes */
    FAULTVFS_SYNC_DROPPED
};

/* Forgets everything: counts, faults, records. Registers the VFS at the first call. record: power
 * loss can be played. */
void faultvfs_init(enum faultvfs_sync sync, bool record);

int64_t faultvfs_count(enum fault_kind kind); /* calls since the start, failed ones included */
int64_t faultvfs_changes(void); /* calls that change the disk: what faultvfs_stop_at counts */
const char *faultvfs_kind_name(enum fault_kind kind);

/* The n-th call of this kind from now on fails with `code`, once or for good.
 * SQLITE_IOERR_SHORT_READ is a read behind the end of a file that was cut off: zeros. One fault at
 * a time. */
struct fault {
    enum fault_kind kind;
    int64_t at;
    bool for_good;
    int code;
};
void faultvfs_fail(const struct fault *fault);
int64_t faultvfs_failures(void); /* calls failed since faultvfs_fail */
void faultvfs_heal(void);        /* no more failures */

void faultvfs_stop_at(int64_t n); /* 0: never */
bool faultvfs_stopped(void);
/* The files as they are found after the power came back. No handle may be open. Afterwards the VFS
 * is as new. Two seeds are no chance: everything that was written had reached the disk, or nothing
 * that was not synced. */
#define FAULTVFS_KEEP_ALL 0
#define FAULTVFS_DROP_ALL 1
void faultvfs_power_loss(uint64_t seed);

#endif
