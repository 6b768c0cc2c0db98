/* fuzz_dbfile.c - a store's file with bytes replaced: opening and reading it ends in a code and a
 * sentence
 *
 * The input is a list of patches of four bytes: an offset (three bytes, the lowest first; modulo
 * the size of the file) and the byte to put there. The first patch's offset also says, in its
 * highest bit, whether every page is checked when opening. The file is a small valid one, the same
 * in every run.
 *
 * Promises: no fault; an error has a code that opening may have, and a sentence that names the
 * file; the file is not changed; and without patches it is what it was.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/env.h"
#include "store/store.h"

#define PATCH_SIZE 4
#define PATCHES_MAX 64
#define CHECK_BIT 0x80

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char dir[512];
static char path[600];
static unsigned char *good;
static unsigned char *patched;
static unsigned char *after;
static size_t good_size;
static uint64_t good_hash;
static struct qp_env env;

/* ------------------------------------------------------------------------------------- the file */

static qp_ms fixed_time(void *context)
{
    (void)context;
    return 1767225600000;
}

static int fixed_bytes(void *context, void *out_bytes, size_t size)
{
    (void)context;
    memset(out_bytes, 7, size);
    return QP_OK;
}

static void write_all(const unsigned char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    QP_ASSERT(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    (void)close(fd); /* nobody waits for it to be on disk */
}

static size_t read_all(unsigned char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, out, room);
    QP_ASSERT(fd >= 0 && n >= 0);
    (void)close(fd); /* opened for reading */
    return (size_t)n;
}

static void remove_one(const char *suffix)
{
    char name[700];
    (void)snprintf(name, sizeof name, "%s%s", path, suffix); /* fits */
    (void)unlink(name);                                      /* it may not be there */
}

static void remove_all(void)
{
    remove_one("");
    remove_one("-wal");
    remove_one("-shm");
    remove_one("-journal");
    remove_one("-qplock");
    (void)rmdir(dir); /* at the end of the process */
}

/* Jobs with activities, GUIDs, messages, data. */
static void add_rows(struct bundle *b)
{
    static const qp_str guid = {"0123456789abcdef", LIMIT_GUID_SIZE};
    static const qp_str names[] = {{"one", 3}, {"two", 3}, {"three", 5}};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct job_ref ref = {STORE_NS_DEFAULT, 100 + (int64_t)i};
        bundle_op(b, OP_job_create)->job_create = (struct op_job_create){
            .ref = ref, .jid = names[i], .workflow = QP_STR("w"), .owner_guid = guid};
        bundle_op(b, OP_act_create)->act_create = (struct op_act_create){
            .ref = ref, .addr = QP_STR("a"), .category = 'B', .input = names[i]};
        bundle_op(b, OP_guid_enter)->guid_enter =
            (struct op_guid_enter){.ref = ref, .addr = QP_STR("a"), .guid = guid};
        bundle_op(b, OP_msg_put)->msg_put =
            (struct op_msg_put){.ref = ref, .guid = guid, .topic = QP_STR("t")};
        bundle_op(b, OP_data_put)->data_put =
            (struct op_data_put){.ref = ref, .name = names[i], .value = names[i]};
    }
}

static void make_file(void)
{
    struct store_options options = {.path = path};
    struct store *s;
    struct commit c;
    struct bundle *b;
    struct qp_err err;
    sqlite3 *db;
    int rc = store_open(&env, &options, &s, &err);
    QP_ASSERT(rc == QP_OK);
    commit_init(&c, s);
    b = commit_bundle(&c, "rows");
    add_rows(b);
    rc = store_commit(s, &c);
    QP_ASSERT(rc == QP_OK && b->rc == QP_OK);
    commit_done(&c);
    QP_ASSERT(store_close(s, &err) == QP_OK);
    /* Without a log: readers then leave nothing beside it, and a run takes half the time. */
    QP_ASSERT(sqlite3_open(path, &db) == SQLITE_OK);
    QP_ASSERT(sqlite3_exec(db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL) == SQLITE_OK);
    QP_ASSERT(sqlite3_close(db) == SQLITE_OK);
}

static uint64_t hash_of(const char *bytes, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    }
    return hash;
}

/* ------------------------------------------------------------------------------------ one input */

/* QP_OK and the hash of the dump, or the code that says why not. */
static int read_store(bool full_check, uint64_t *out_hash)
{
    struct store_options options = {.path = path, .read_only = true, .full_check = full_check};
    struct store *s = NULL;
    struct qp_err err = {0};
    struct buf out;
    int rc = store_open(&env, &options, &s, &err);
    QP_ASSERT((rc == QP_OK) == (s != NULL));
    if (rc != QP_OK) {
        QP_ASSERT(err.code == rc && strstr(err.text, path) != NULL);
        QP_ASSERT(rc == QP_E_CORRUPT || rc == QP_E_FOREIGN || rc == QP_E_NEWER || rc == QP_E_IO ||
                  rc == QP_E_READONLY || rc == QP_E_NOMEM || rc == QP_E_BUSY ||
                  rc == QP_E_TOO_LARGE || rc == QP_E_INTERNAL);
        return rc;
    }
    buf_init(&out, &env, 0);
    rc = store_dump(s, &out, &err);
    *out_hash = hash_of(out.p, out.n);
    buf_done(&out);
    (void)store_close(s, &err); /* a reader has nothing to say */
    return rc;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *tmp = getenv("TMPDIR");
    (void)argc;
    (void)argv;
    qp_env_init(&env);
    env.wall_ms = fixed_time;
    env.entropy = fixed_bytes;
    (void)snprintf(dir, sizeof dir, "%s/fuzz.XXXXXX", tmp != NULL ? tmp : "/tmp");
    QP_ASSERT(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/store.db", dir); /* fits */
    (void)atexit(remove_all);                              /* what cannot be removed stays */
    make_file();
    good = malloc(1 << 20);
    patched = malloc(1 << 20);
    after = malloc(1 << 20);
    QP_ASSERT(good != NULL && patched != NULL && after != NULL);
    good_size = read_all(good, 1 << 20);
    QP_ASSERT(good_size > 4096 && good_size < 1 << 20);
    QP_ASSERT(read_store(true, &good_hash) == QP_OK);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = size / PATCH_SIZE < PATCHES_MAX ? size / PATCH_SIZE : PATCHES_MAX;
    bool full_check = count == 0 || (data[2] & CHECK_BIT) != 0;
    uint64_t hash = 0;
    int rc;
    memcpy(patched, good, good_size);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *p = data + i * PATCH_SIZE;
        size_t at = (size_t)p[0] + ((size_t)p[1] << 8) + ((size_t)(p[2] & ~CHECK_BIT) << 16);
        patched[at % good_size] = p[3];
    }
    remove_one("-wal");
    write_all(patched, good_size);
    rc = read_store(full_check, &hash);
    QP_ASSERT(memcmp(patched, good, good_size) != 0 || (rc == QP_OK && hash == good_hash));
    QP_ASSERT(read_all(after, 1 << 20) == good_size && memcmp(after, patched, good_size) == 0);
    return 0;
}
