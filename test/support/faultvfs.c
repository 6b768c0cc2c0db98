/* faultvfs.c - a disk that counts, fails, lies and loses power (see faultvfs.h)
 *
 *   I1  an image's `durable` bytes are what the disk has for certain; `dirty` marks the bytes that
 *       were written or cut off since: a byte that is not dirty is the same on disk and in the file
 *   I2  an entry (the name in its directory) is durable since the first sync of a log or journal
 *       that was created, since SQLite syncs the directory with it; that sync makes all deletions
 *       before it durable as well
 *   I3  after the stop no call changes anything
 *   I4  counts, the fault and the stop are under `disk_lock`: threads that read have connections of their own. Images are not,
 *       so a test that records uses one thread
 */
#include "support/faultvfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/testenv.h"

#define SECTOR_SIZE 512
#define PATH_SIZE 512

struct image {
    char path[PATH_SIZE];
    dev_t device;
    ino_t inode;
    bool live;    /* the name is there now */
    bool entry;   /* the name is durable */
    bool created; /* and was made by us: its first sync makes it so */
    unsigned char *durable;
    size_t durable_size;
    size_t durable_room;
    unsigned char *dirty; /* one per byte */
    size_t dirty_room;
    size_t dirty_from; /* all that are marked lie between these two */
    size_t dirty_to;
    unsigned char *last; /* of a deleted file: what it had */
    size_t last_size;
    struct image *next;
};

struct file {
    sqlite3_file base;
    struct image *image; /* NULL: not recorded */
    sqlite3_file *real;  /* behind this struct */
};

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    enum faultvfs_sync sync;
    bool record;
    int64_t counts[FAULT_KINDS];
    struct fault fault;
    int64_t fault_calls;
    int64_t failures;
    int64_t changes;
    int64_t stop_at;
    bool stopped;
    struct image *images;
} disk;

static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t read_locked(const int64_t *number)
{
    int64_t value;
    (void)pthread_mutex_lock(&disk_lock);
    value = *number;
    (void)pthread_mutex_unlock(&disk_lock);
    return value;
}

/* ------------------------------------------------------------------------- counting and failing */

const char *faultvfs_kind_name(enum fault_kind kind)
{
    static const char *const names[FAULT_KINDS] = {"read", "write",   "sync", "truncate",
                                                   "lock", "shm map", "open", "delete"};
    return names[kind];
}

int64_t faultvfs_count(enum fault_kind kind)
{
    return read_locked(&disk.counts[kind]);
}

int64_t faultvfs_changes(void)
{
    return read_locked(&disk.changes);
}

void faultvfs_fail(const struct fault *fault)
{
    (void)pthread_mutex_lock(&disk_lock);
    disk.fault = *fault;
    disk.fault_calls = 0;
    disk.failures = 0;
    (void)pthread_mutex_unlock(&disk_lock);
}

int64_t faultvfs_failures(void)
{
    return read_locked(&disk.failures);
}

void faultvfs_heal(void)
{
    (void)pthread_mutex_lock(&disk_lock);
    disk.fault = (struct fault){0};
    (void)pthread_mutex_unlock(&disk_lock);
}

void faultvfs_stop_at(int64_t n)
{
    (void)pthread_mutex_lock(&disk_lock);
    disk.stop_at = n;
    disk.changes = 0;
    disk.stopped = false;
    (void)pthread_mutex_unlock(&disk_lock);
}

bool faultvfs_stopped(void)
{
    bool stopped;
    (void)pthread_mutex_lock(&disk_lock);
    stopped = disk.stopped;
    (void)pthread_mutex_unlock(&disk_lock);
    return stopped;
}

/* Under the lock. */
static int call_locked(enum fault_kind kind)
{
    const struct fault *f = &disk.fault;
    disk.counts[kind]++;
    if (disk.stopped) {
        return SQLITE_IOERR;
    }
    if (f->at == 0 || f->kind != kind) {
        return SQLITE_OK;
    }
    disk.fault_calls++;
    if (disk.fault_calls < f->at || (disk.fault_calls > f->at && !f->for_good)) {
        return SQLITE_OK;
    }
    disk.failures++;
    return f->code;
}

/* SQLITE_OK, or the code that this call fails with. */
static int call(enum fault_kind kind)
{
    int code;
    (void)pthread_mutex_lock(&disk_lock);
    code = call_locked(kind);
    (void)pthread_mutex_unlock(&disk_lock);
    return code;
}

/* A call that changes the disk has been made. At the last one the power goes, and nobody hears how
 * it ended. */
static int changed(int code)
{
    (void)pthread_mutex_lock(&disk_lock);
    disk.changes++;
    if (disk.stop_at > 0 && disk.changes >= disk.stop_at) {
        disk.stopped = true;
        code = SQLITE_IOERR;
    }
    (void)pthread_mutex_unlock(&disk_lock);
    return code;
}

/* --------------------------------------------------------------------------------------- images */

static void *grown(void *bytes, size_t from, size_t to)
{
    unsigned char *p = realloc(bytes, to);
    assert_non_null(p);
    memset(p + from, 0, to - from);
    return p;
}

static unsigned char *file_bytes(const char *path, size_t *out_size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *bytes;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    *out_size = (size_t)st.st_size;
    bytes = grown(NULL, 0, *out_size + 1);
    assert_int_equal(pread(fd, bytes, *out_size, 0), *out_size);
    (void)close(fd); /* opened for reading */
    return bytes;
}

static void image_free(struct image *image)
{
    free(image->durable);
    free(image->dirty);
    free(image->last);
    free(image);
}

static void images_free(void)
{
    while (disk.images != NULL) {
        struct image *image = disk.images;
        disk.images = image->next;
        image_free(image);
    }
}

/* At least `need` bytes, the new ones zero; twice as many as before, so that a file may grow frame
 * by frame. */
static void make_room(unsigned char **bytes, size_t *room, size_t need)
{
    if (need > *room) {
        size_t more = need > 2 * *room ? need : 2 * *room;
        *bytes = grown(*bytes, *room, more);
        *room = more;
    }
}

static void mark_dirty(struct image *image, size_t from, size_t to)
{
    if (to <= from) {
        return;
    }
    make_room(&image->dirty, &image->dirty_room, to);
    memset(image->dirty + from, 1, to - from);
    image->dirty_from = image->dirty_to == 0 || from < image->dirty_from ? from : image->dirty_from;
    image->dirty_to = to > image->dirty_to ? to : image->dirty_to;
}

static size_t size_of(const struct image *image)
{
    struct stat st;
    assert_int_equal(stat(image->path, &st), 0);
    return (size_t)st.st_size;
}

static struct image *image_find(const char *path)
{
    struct image *image = disk.images;
    while (image != NULL && !(image->live && strcmp(image->path, path) == 0)) {
        image = image->next;
    }
    return image;
}

/* By inode, so that a file that was renamed since is recognised. */
static struct image *image_of(const char *path, bool was_there)
{
    struct stat st;
    struct image *image = disk.images;
    assert_int_equal(stat(path, &st), 0);
    while (image != NULL &&
           !(image->live && image->inode == st.st_ino && image->device == st.st_dev)) {
        image = image->next;
    }
    if (image == NULL) {
        image = grown(NULL, 0, sizeof *image);
        *image = (struct image){.device = st.st_dev, .inode = st.st_ino, .live = true};
        image->entry = was_there;
        image->created = !was_there;
        image->durable = file_bytes(path, &image->durable_size);
        image->durable_room = image->durable_size;
        image->next = disk.images;
        disk.images = image;
    }
    assert_true(strlen(path) < PATH_SIZE);
    (void)snprintf(image->path, PATH_SIZE, "%s", path);
    return image;
}

/* A directory was synced: every name in it is as it is now. */
static void entries_settle(void)
{
    struct image **at = &disk.images;
    while (*at != NULL) {
        struct image *image = *at;
        if (image->live) {
            image->entry = true;
            at = &image->next;
        } else {
            *at = image->next;
            image_free(image);
        }
    }
}

/* What is dirty is on disk now. */
static void image_sync(struct image *image, sqlite3_file *real)
{
    size_t size = size_of(image);
    size_t to = image->dirty_to < size ? image->dirty_to : size;
    make_room(&image->durable, &image->durable_room, size);
    if (to > image->dirty_from) {
        int code =
            real->pMethods->xRead(real, image->durable + image->dirty_from,
                                  (int)(to - image->dirty_from), (sqlite3_int64)image->dirty_from);
        assert_int_equal(code, SQLITE_OK);
    }
    if (image->dirty_to > 0) {
        memset(image->dirty + image->dirty_from, 0, image->dirty_to - image->dirty_from);
    }
    image->dirty_from = 0;
    image->dirty_to = 0;
    image->durable_size = size;
    if (image->created) {
        image->created = false;
        entries_settle();
    }
}

/* ------------------------------------------------------------------------------ calls on a file */

static struct file *self(sqlite3_file *base)
{
    return (struct file *)base;
}

static int file_close(sqlite3_file *base)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xClose(real);
}

static int file_read(sqlite3_file *base, void *bytes, int size, sqlite3_int64 at)
{
    sqlite3_file *real = self(base)->real;
    int code = call(FAULT_READ);
    if (code == SQLITE_IOERR_SHORT_READ) {
        memset(bytes, 0, (size_t)size); /* as if the file had ended before */
    }
    return code != SQLITE_OK ? code : real->pMethods->xRead(real, bytes, size, at);
}

static int file_write(sqlite3_file *base, const void *bytes, int size, sqlite3_int64 at)
{
    struct file *f = self(base);
    int code = call(FAULT_WRITE);
    if (code != SQLITE_OK) {
        return code;
    }
    code = f->real->pMethods->xWrite(f->real, bytes, size, at);
    if (f->image != NULL && code == SQLITE_OK) {
        mark_dirty(f->image, (size_t)at, (size_t)at + (size_t)size);
    }
    return changed(code);
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct file *f = self(base);
    int code = call(FAULT_TRUNCATE);
    if (code != SQLITE_OK) {
        return code;
    }
    if (f->image != NULL) {
        mark_dirty(f->image, (size_t)size, size_of(f->image));
    }
    code = f->real->pMethods->xTruncate(f->real, size);
    return changed(code);
}

static int file_sync(sqlite3_file *base, int flags)
{
    struct file *f = self(base);
    int code = call(FAULT_SYNC);
    if (code == SQLITE_OK) {
        code = changed(SQLITE_OK); /* the power goes before the sync is done */
    }
    if (code != SQLITE_OK || disk.sync == FAULTVFS_SYNC_DROPPED) {
        return code;
    }
    if (f->image != NULL) {
        image_sync(f->image, f->real);
    }
    return disk.sync == FAULTVFS_SYNC_REAL ? f->real->pMethods->xSync(f->real, flags) : SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *out_size)
{
    sqlite3_file *real = self(base)->real;
    return faultvfs_stopped() ? SQLITE_IOERR_FSTAT : real->pMethods->xFileSize(real, out_size);
}

static int file_lock(sqlite3_file *base, int lock)
{
    sqlite3_file *real = self(base)->real;
    int code = call(FAULT_LOCK);
    return code != SQLITE_OK ? code : real->pMethods->xLock(real, lock);
}

static int file_unlock(sqlite3_file *base, int lock)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xUnlock(real, lock);
}

static int file_reserved(sqlite3_file *base, int *out_reserved)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xCheckReservedLock(real, out_reserved);
}

static int file_control(sqlite3_file *base, int op, void *arg)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xFileControl(real, op, arg);
}

static int file_sector_size(sqlite3_file *base)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xSectorSize(real);
}

static int file_characteristics(sqlite3_file *base)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xDeviceCharacteristics(real);
}

static int file_shm_map(sqlite3_file *base, int region, int size, int extend, void volatile **out)
{
    sqlite3_file *real = self(base)->real;
    int code = call(FAULT_SHM_MAP);
    if (code != SQLITE_OK) {
        *out = NULL;
        return code;
    }
    return real->pMethods->xShmMap(real, region, size, extend, out);
}

static int file_shm_lock(sqlite3_file *base, int offset, int n, int flags)
{
    sqlite3_file *real = self(base)->real;
    int code = (flags & SQLITE_SHM_LOCK) != 0 ? call(FAULT_LOCK) : SQLITE_OK;
    return code != SQLITE_OK ? code : real->pMethods->xShmLock(real, offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *base)
{
    sqlite3_file *real = self(base)->real;
    real->pMethods->xShmBarrier(real);
}

static int file_shm_unmap(sqlite3_file *base, int delete_it)
{
    sqlite3_file *real = self(base)->real;
    return real->pMethods->xShmUnmap(real, delete_it);
}

/* Version 2: no mapped files, so every read and write comes through here. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* ---------------------------------------------------------------------------- calls on the disk */

static bool is_recorded(const char *path, int flags)
{
    return disk.record && path != NULL &&
           (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
}

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags,
                     int *out_flags)
{
    struct file *f = self(base);
    bool recorded = is_recorded(path, flags);
    bool was_there = recorded && access(path, F_OK) == 0;
    int code = call(FAULT_OPEN);
    (void)vfs;
    f->base.pMethods = NULL; /* SQLite then does not close it */
    f->image = NULL;
    f->real = (sqlite3_file *)(f + 1);
    code = code != SQLITE_OK ? code : disk.real->xOpen(disk.real, path, f->real, flags, out_flags);
    if (code != SQLITE_OK) {
        return code;
    }
    f->base.pMethods = &methods;
    if (recorded) {
        f->image = image_of(path, was_there);
    }
    return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int sync_directory)
{
    struct image *image = image_find(path);
    int code = call(FAULT_DELETE);
    (void)vfs;
    if (code != SQLITE_OK) {
        return code;
    }
    if (image != NULL) {
        image->last = file_bytes(path, &image->last_size);
        image->live = false;
    }
    code = changed(disk.real->xDelete(disk.real, path, 0));
    if (code == SQLITE_OK && sync_directory != 0 && disk.sync != FAULTVFS_SYNC_DROPPED) {
        entries_settle();
    }
    return code;
}

static int disk_access(sqlite3_vfs *vfs, const char *path, int flags, int *out_answer)
{
    (void)vfs;
    return faultvfs_stopped() ? SQLITE_IOERR_ACCESS
                              : disk.real->xAccess(disk.real, path, flags, out_answer);
}

static int disk_full_path(sqlite3_vfs *vfs, const char *path, int size, char *out_path)
{
    (void)vfs;
    return disk.real->xFullPathname(disk.real, path, size, out_path);
}

static int disk_random(sqlite3_vfs *vfs, int size, char *out_bytes)
{
    (void)vfs;
    return disk.real->xRandomness(disk.real, size, out_bytes);
}

static int disk_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds;
}

static int disk_time(sqlite3_vfs *vfs, sqlite3_int64 *out_time)
{
    (void)vfs;
    return disk.real->xCurrentTimeInt64(disk.real, out_time);
}

static int disk_last_error(sqlite3_vfs *vfs, int size, char *out_text)
{
    (void)vfs;
    return disk.real->xGetLastError(disk.real, size, out_text);
}

void faultvfs_init(enum faultvfs_sync sync, bool record)
{
    images_free();
    if (disk.real == NULL) {
        disk.real = sqlite3_vfs_find(NULL);
        assert_non_null(disk.real);
        disk.vfs = (sqlite3_vfs){
            .iVersion = 2,
            .szOsFile = (int)sizeof(struct file) + disk.real->szOsFile,
            .mxPathname = disk.real->mxPathname,
            .zName = FAULTVFS_NAME,
            .xOpen = disk_open,
            .xDelete = disk_delete,
            .xAccess = disk_access,
            .xFullPathname = disk_full_path,
            .xRandomness = disk_random,
            .xSleep = disk_sleep,
            .xGetLastError = disk_last_error,
            .xCurrentTimeInt64 = disk_time,
        };
        assert_int_equal(sqlite3_vfs_register(&disk.vfs, 0), SQLITE_OK);
    }
    disk.sync = sync;
    disk.record = record;
    memset(disk.counts, 0, sizeof disk.counts);
    disk.failures = 0;
    faultvfs_heal();
    faultvfs_stop_at(0);
}

/* ----------------------------------------------------------------------------------- power loss */

/* One loss: chance, and how many sectors of sixteen get to the disk. */
struct loss {
    uint64_t random;
    uint64_t kept;
};

#define KEPT_ALL 16

static bool reaches_disk(struct loss *loss)
{
    return testenv_random_below(&loss->random, KEPT_ALL) < loss->kept;
}

/* One sector: its dirty bytes become the new ones, stay the old ones, a bit of both, or rubbish. */
static void sector_damage(const struct image *image, size_t from, size_t to,
                          const unsigned char *now, unsigned char *out, struct loss *loss)
{
    bool kept = reaches_disk(loss);
    uint64_t fate = testenv_random_below(&loss->random, 4);
    size_t torn = from + (size_t)testenv_random_below(&loss->random, to - from + 1);
    for (size_t i = from; i < to; i++) {
        if (i >= image->dirty_to || image->dirty[i] == 0) {
            continue;
        }
        if (kept || (fate == 0 && i < torn && loss->kept > 0)) {
            out[i] = now[i];
        } else if (fate == 1 && loss->kept > 0) {
            out[i] = (unsigned char)testenv_random(&loss->random);
        }
    }
}

/* What the file holds now, with the size that it will have: old bytes, and new ones where the disk
 * got to them. */
static unsigned char *image_damage(const struct image *image, const unsigned char *now,
                                   size_t now_size, size_t size, struct loss *loss)
{
    unsigned char *padded = grown(NULL, 0, size + 1);
    unsigned char *out = grown(NULL, 0, size + 1);
    memcpy(padded, now, now_size < size ? now_size : size);
    memcpy(out, image->durable, image->durable_size < size ? image->durable_size : size);
    for (size_t from = 0; from < size; from += SECTOR_SIZE) {
        size_t to = from + SECTOR_SIZE < size ? from + SECTOR_SIZE : size;
        sector_damage(image, from, to, padded, out, loss);
    }
    free(padded);
    return out;
}

static void file_replace(const char *path, const unsigned char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    assert_int_equal(close(fd), 0);
}

static void image_restore(const struct image *image, struct loss *loss)
{
    size_t now_size = image->last_size;
    unsigned char *now = image->live ? file_bytes(image->path, &now_size) : image->last;
    size_t size = reaches_disk(loss) ? now_size : image->durable_size;
    unsigned char *bytes = image_damage(image, now, now_size, size, loss);
    file_replace(image->path, bytes, size);
    free(bytes);
    if (image->live) {
        free(now);
    }
}

/* Another image that has the name, or had it before. */
static const struct image *former_of(const struct image *image)
{
    const struct image *other = image->next; /* older ones come later */
    while (other != NULL && !(other->entry && strcmp(other->path, image->path) == 0)) {
        other = other->next;
    }
    return other;
}

static bool has_newer(const struct image *image)
{
    const struct image *other = disk.images;
    while (other != image && strcmp(other->path, image->path) != 0) {
        other = other->next;
    }
    return other != image;
}

/* The newest image of a name decides; a change of the name itself that was not synced may be lost.
 * A file that went without our knowing (the store removes a half-made one itself) stays away. */
static void name_restore(const struct image *image, struct loss *loss)
{
    bool settled = image->live && image->entry;
    const struct image *former = image->entry ? image : former_of(image);
    if (image->live && access(image->path, F_OK) != 0) {
        return;
    }
    if (settled || (image->live && reaches_disk(loss))) {
        image_restore(image, loss);
    } else if (former != NULL && (image->live || !reaches_disk(loss))) {
        image_restore(former, loss);
    } else {
        (void)unlink(image->path); /* it may be gone already */
    }
}

/* Shared memory is nothing that lasts; a reboot leaves anything, or nothing. */
static void shm_restore(const char *path, uint64_t *random)
{
    char name[PATH_SIZE + 8];
    unsigned char rubbish[4096];
    (void)snprintf(name, sizeof name, "%s-shm", path); /* fits */
    if (testenv_random_below(random, 2) == 0) {
        (void)unlink(name); /* it may not be there */
        return;
    }
    for (size_t i = 0; i < sizeof rubbish; i++) {
        rubbish[i] = (unsigned char)testenv_random(random);
    }
    file_replace(name, rubbish, sizeof rubbish);
}

static bool is_log(const char *path)
{
    size_t n = strlen(path);
    return (n > 4 && strcmp(path + n - 4, "-wal") == 0) ||
           (n > 8 && strcmp(path + n - 8, "-journal") == 0);
}

void faultvfs_power_loss(uint64_t seed)
{
    static const uint64_t kept[] = {0, 6, 12, 15, KEPT_ALL};
    struct loss loss = {.random = seed};
    assert_true(disk.record);
    loss.kept = kept[testenv_random_below(&loss.random, sizeof kept / sizeof kept[0])];
    if (seed == FAULTVFS_KEEP_ALL || seed == FAULTVFS_DROP_ALL) {
        loss.kept = seed == FAULTVFS_KEEP_ALL ? KEPT_ALL : 0;
    }
    for (const struct image *image = disk.images; image != NULL; image = image->next) {
        if (!has_newer(image)) {
            name_restore(image, &loss);
        }
        if (!is_log(image->path)) {
            shm_restore(image->path, &loss.random);
        }
    }
    faultvfs_init(disk.sync, true);
}
