/* place.c - what every benchmark needs (see place.h) */
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

_Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

void place_make(struct place *p)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(p->dir, sizeof p->dir, "%s/quipu-bench.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(p->dir) == NULL) {
        die("temporary directory", p->dir);
    }
    (void)snprintf(p->path, sizeof p->path, "%s/x.db", p->dir);
}

void file_remove(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock"};
    char name[512];
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

void place_remove(struct place *p)
{
    file_remove(p->path);
    (void)rmdir(p->dir);
}
