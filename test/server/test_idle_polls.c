/* test_idle_polls.c - workers that wait cost next to nothing: memory, processor, and no question
 * to the store
 *
 * A thousand calls are parked; bench/bench_http.c does the same with ten thousand. Client and
 * server are one process here, so what is measured is the upper bound of what the server takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "servertest.h"

#define POLLS 1000
#define BYTES_PER_POLL (20 * 1024)
#define QUIET_MS 2000

static struct hc polls[POLLS];

static void nap(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* A number of a file in /proc/self, by the name before it. */
static long long proc_number(const char *file, const char *name)
{
    char line[256];
    long long number = -1;
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            number = strtoll(line + strlen(name), NULL, 10);
        }
    }
    (void)fclose(f);
    return number;
}

static long long cpu_us(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static void park_all(void)
{
    static const char body[] = "{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"60s\"}";
    char request[512];
    int n =
        snprintf(request, sizeof request,
                 "POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 sizeof body - 1, body);
    for (int i = 0; i < POLLS; i++) {
        assert_true(hc_open(&polls[i], st.port));
        assert_true(hc_send(&polls[i], request, (size_t)n));
    }
    for (;;) {
        char *waiting = st_expect("GET", "/v1/workers", NULL, 200, "items.0.waiting");
        bool all = strtol(waiting, NULL, 10) == POLLS;
        free(waiting);
        if (all) {
            return;
        }
        nap(20);
    }
}

static void idle(void **state)
{
    long long rss, cpu, reads, writes;
    struct rlimit files;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    st_begin(ST_FILE, ST_OPEN);
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"other\"}", 201, "id"));
    rss = proc_number("/proc/self/status", "VmRSS:") * 1024;
    park_all();
    rss = proc_number("/proc/self/status", "VmRSS:") * 1024 - rss;
    nap(1500); /* what is tidied up after the last commit */
    cpu = cpu_us();
    reads = proc_number("/proc/self/io", "syscr:");
    writes = proc_number("/proc/self/io", "syscw:");
    nap(QUIET_MS);
    cpu = cpu_us() - cpu;
    reads = proc_number("/proc/self/io", "syscr:") - reads;
    writes = proc_number("/proc/self/io", "syscw:") - writes;
    print_message("%d polls: %lld bytes each, %.2f %% of a processor, %lld reads, %lld writes\n",
                  POLLS, rss / POLLS, (double)cpu / (QUIET_MS * 10.0), reads, writes);
#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
    assert_true(rss / POLLS < BYTES_PER_POLL);
    assert_true(cpu < QUIET_MS * 1000 / 20);
#endif
#endif
    assert_true(reads <= 4); /* our own of /proc */
    assert_int_equal(writes, 0);
    for (int i = 0; i < POLLS; i++) {
        hc_close(&polls[i]);
    }
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(idle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
