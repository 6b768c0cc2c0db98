/* files.c - whole files in and out of memory, and what has changed in a directory (see files.h) */
#include "support/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"

void files_put(const char *name, const void *bytes, size_t size)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
}

unsigned char *files_get(const char *name, size_t *out_size)
{
    struct stat st;
    unsigned char *bytes;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    assert_int_equal(fstat(fd, &st), 0);
    bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    (void)close(fd); /* opened for reading */
    *out_size = (size_t)st.st_size;
    return bytes;
}

void files_temporary(char *out, size_t size, const char *prefix)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(out, size, "%s/%s.XXXXXX", tmp != NULL ? tmp : "/tmp", prefix);
    assert_true(n > 0 && (size_t)n < size);
    assert_non_null(mkdtemp(out));
}

/* Calls `visit` with every name in a directory. */
static void each_name(const char *dir, void *context,
                      void (*visit)(void *context, const char *name))
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            visit(context, e->d_name);
        }
    }
    (void)closedir(d); /* opened for reading */
}

static void remove_one(void *context, const char *name)
{
    const char *dir = context;
    char path[1000];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (unlink(path) != 0) {
        (void)rmdir(path); /* a directory, then */
    }
}

void files_remove(const char *dir)
{
    char name[400];
    (void)snprintf(name, sizeof name, "%s", dir);
    each_name(name, name, remove_one);
    assert_int_equal(rmdir(name), 0);
}

static uint64_t hash_of(const char *name)
{
    size_t size = 0;
    unsigned char *bytes = files_get(name, &size);
    uint64_t hash = hash_bytes(size, bytes, size);
    free(bytes);
    return hash;
}

static void note_one(void *context, const char *name)
{
    struct files_snapshot *out = context;
    struct files_entry *entry = &out->entries[out->count];
    struct stat st;
    char path[1000];
    (void)snprintf(path, sizeof path, "%s/%s", out->dir, name);
    assert_true(out->count < FILES_ENTRIES_MAX);
    assert_int_equal(lstat(path, &st), 0);
    out->count++;
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->mode = st.st_mode;
    entry->size = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    entry->hash = S_ISREG(st.st_mode) ? hash_of(path) : 0;
}

void files_snapshot(struct files_snapshot *out, const char *dir)
{
    memset(out, 0, sizeof *out);
    (void)snprintf(out->dir, sizeof out->dir, "%s", dir);
    each_name(out->dir, out, note_one);
}

static const struct files_entry *find(const struct files_snapshot *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++) {
        if (strcmp(in->entries[i].name, name) == 0) {
            return &in->entries[i];
        }
    }
    return NULL;
}

bool files_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name);
    size_t m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool same(const struct files_entry *a, const struct files_entry *b)
{
    return a->hash == b->hash && a->size == b->size && a->mode == b->mode;
}

void files_untouched(const struct files_snapshot *before, const char *what,
                     bool (*may_come)(const struct files_entry *entry))
{
    static struct files_snapshot after;
    files_snapshot(&after, before->dir);
    for (size_t i = 0; i < before->count; i++) {
        const struct files_entry *was = &before->entries[i];
        const struct files_entry *is = find(&after, was->name);
        if (!files_ends_with(was->name, "-shm") && (is == NULL || !same(was, is))) {
            fail_msg("%s: '%s' was changed", what, was->name);
        }
    }
    for (size_t i = 0; i < after.count; i++) {
        const struct files_entry *is = &after.entries[i];
        if (find(before, is->name) == NULL && !files_ends_with(is->name, "-shm") && !may_come(is)) {
            fail_msg("%s: '%s' was left there", what, is->name);
        }
    }
}
