/* files.h - whole files in and out of memory, and what has changed in a directory
 *
 * What cannot be read or written fails the test, except where it says otherwise.
 */
#ifndef QP_TEST_FILES_H
#define QP_TEST_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Mode 0600. */
void files_put(const char *name, const void *bytes, size_t size);
/* NULL when there is no such file; else to be freed. */
unsigned char *files_get(const char *name, size_t *out_size);
/* A new directory below $TMPDIR, its name into out. */
void files_temporary(char *out, size_t size, const char *prefix);
/* All that is in a directory, except that a directory in it must be empty; and the directory
 * itself. */
void files_remove(const char *dir);

#define FILES_ENTRIES_MAX 16

struct files_entry {
    char name[400];
    mode_t mode;
    size_t size;
    uint64_t hash; /* of the content */
};

struct files_snapshot {
    char dir[400];
    struct files_entry entries[FILES_ENTRIES_MAX];
    size_t count;
};

void files_snapshot(struct files_snapshot *out, const char *dir);
/* Fails the test when a file of the snapshot is gone or changed, or when one has come for which
 * may_come says no. A file "...-shm" may do what it likes: it is memory. */
void files_untouched(const struct files_snapshot *before, const char *what,
                     bool (*may_come)(const struct files_entry *entry));
bool files_ends_with(const char *name, const char *end);

#endif
