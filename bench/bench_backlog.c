/* bench_backlog.c - claims from a backlog of 1,000 messages and of 1,000,000
 *
 * A stream is filled to its size and kept there: every claim of a hundred is acked, and as many new messages are
 * put, each in one commit. What is told is the speed of these rounds and the memory of the process: both
 * should not depend on how much waits. The sizes run in turns in one process, so that a noisy machine
 * is noisy for both. SQLite, synchronous=FULL, in $TMPDIR.
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "place.h"
#include "stream.h"

/* Resident memory, in MiB. */
static double resident_mib(void)
{
    char text[256] = {0};
    FILE *f = fopen("/proc/self/statm", "r");
    char *end;
    if (f == NULL || fgets(text, sizeof text, f) == NULL) {
        die("statm", "cannot be read");
    }
    (void)fclose(f);
    (void)strtoll(text, &end, 10);
    return (double)strtoll(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    static const int64_t sizes[] = {1000, 1000000};
    static struct stream streams[ARRAY_COUNT(sizes)];
    static char paths[ARRAY_COUNT(sizes)][320];
    double memory[ARRAY_COUNT(sizes)];
    int rounds = smoke ? 5 : 400;
    struct place place;
    place_make(&place);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        double before = resident_mib();
        (void)snprintf(paths[i], sizeof paths[i], "%s/%lld.db", place.dir, (long long)sizes[i]);
        stream_open(&streams[i], paths[i], smoke && sizes[i] > 10000 ? 10000 : sizes[i]);
        memory[i] = resident_mib() - before;
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
            stream_round(&streams[i]);
        }
    }
    printf("%12s %14s %22s %8s\n", "backlog", "messages/s", "memory of filling, MiB", "ratio");
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        const struct stream *s = &streams[i];
        double speed = (double)s->claimed / s->seconds;
        double first = (double)streams[0].claimed / streams[0].seconds;
        printf("%12lld %14.0f %22.1f %8.2f\n", (long long)sizes[i], speed, memory[i],
               speed / first);
    }
    printf("resident at the end: %.1f MiB\n", resident_mib());
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        stream_close(&streams[i]);
        file_remove(paths[i]);
    }
    place_remove(&place);
    return 0;
}
