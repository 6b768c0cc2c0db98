/* bench_http.c - what HTTP costs: ten thousand workers that wait, and a hundred that are busy
 *
 * The server is a process of its own (this program with --serve), so that its memory and its
 * processor time are its own. Busy workers are a hundred connections that one thread drives;
 * each asks for eight tasks and brings eight results. Beside them, in the same run: a bare
 * libmicrohttpd that says hello to the same hundred connections, and worker functions in the
 * process of the engine.
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lanes.h"
#include "served.h"
#include "support/httpclient.h"

#define CONNECTIONS 100
#define WANT 8

static bool smoke;

/* A number of a file of the server's in /proc, by the name before it. */
static long long proc_number(pid_t pid, const char *file, const char *name)
{
    char path[64];
    char line[256];
    long long number = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    FILE *f = fopen(path, "r");
    check(f != NULL, path);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            number = strtoll(line + strlen(name), NULL, 10);
        }
    }
    (void)fclose(f);
    return number;
}

/* Processor time of the process, in seconds: fields 14 and 15 of stat, in ticks. */
static double proc_cpu_s(pid_t pid)
{
    char path[64];
    char text[1024] = "";
    char *p;
    long long ticks = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    check(f != NULL && fgets(text, sizeof text, f) != NULL, path);
    (void)fclose(f);
    p = strrchr(text, ')');
    for (int field = 2; field < 13 && p != NULL; field++) {
        p = strchr(p + 1, ' ');
    }
    check(p != NULL, path);
    ticks = strtoll(p, &p, 10);
    ticks += strtoll(p, &p, 10);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* ------------------------------------------------------------------------------------- the idle */

static void idle(const char *dir)
{
    int count = smoke ? 200 : 10000;
    struct hc *polls = calloc((size_t)count, sizeof *polls);
    struct served s;
    static const char body[] = "{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"60s\"}";
    char request[512];
    int n =
        snprintf(request, sizeof request,
                 "POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 sizeof body - 1, body);
    check(polls != NULL, "out of memory");
    served_start(&s, dir);
    for (int i = 0; i < count; i++) {
        check(hc_open(&polls[i], s.port) && hc_send(&polls[i], request, (size_t)n),
              "a poll cannot be made");
    }
    for (long long waiting = 0; waiting < count;) {
        struct hc_answer a = hc_call(s.port, NULL, "GET", "/v1/workers", NULL);
        char *text = hc_member(&a, "items.0.waiting");
        waiting = text == NULL ? 0 : strtoll(text, NULL, 10);
        free(text);
        hc_done(&a);
        nap(50);
    }
    nap(1500);
    double cpu = proc_cpu_s(s.pid);
    double from = now_s();
    long long reads = proc_number(s.pid, "io", "syscr:");
    long long writes = proc_number(s.pid, "io", "syscw:");
    nap(smoke ? 500 : 10000);
    cpu = (proc_cpu_s(s.pid) - cpu) / (now_s() - from);
    printf("idle   %6d polls   %6.1f MiB   %5.2f %% of a processor   %lld reads and %lld writes\n",
           count, (double)proc_number(s.pid, "status", "VmRSS:") / 1024, cpu * 100,
           proc_number(s.pid, "io", "syscr:") - reads, proc_number(s.pid, "io", "syscw:") - writes);
    for (int i = 0; i < count; i++) {
        hc_close(&polls[i]);
    }
    free(polls);
    served_end(&s);
}

/* ------------------------------------------------------------------------------------- the busy */

static struct {
    long long done;
    long long wanted;
    char request[LANE_BUFFER];
} load;

static size_t request_text(const char *method, const char *path, const char *body)
{
    return (size_t)snprintf(
        load.request, sizeof load.request,
        "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        method, path, strlen(body), body);
}

/* Results for all tasks of an answer, by a look at the text: the client is not what is measured. A call with results does
 * not wait, or the last ones would wait for tasks that never come. */
static bool next_work(struct lane *l, char *body, size_t size)
{
    static char results[LANE_BUFFER];
    size_t n = (size_t)snprintf(
        results, sizeof results,
        "{\"worker\":\"w\",\"topics\":[\"work\"],\"want\":%d,\"wait\":\"%s\",\"results\":[", WANT,
        strstr(body, "\"token\":\"") == NULL ? "1s" : "0s");
    char *end = strstr(body, "\"acks\"");
    int count = 0;
    body[size] = '\0';
    for (char *p = strstr(body, "\"token\":\""); p != NULL && p < end;
         p = strstr(p + 1, "\"token\":\"")) {
        n += (size_t)snprintf(results + n, sizeof results - n, "%s{\"token\":\"%.*s\"}",
                              count++ > 0 ? "," : "", (int)strcspn(p + 9, "\""), p + 9);
    }
    (void)snprintf(results + n, sizeof results - n, "]}");
    for (char *p = end == NULL ? NULL : strstr(end, "\"ok\""); p != NULL;
         p = strstr(p + 1, "\"ok\"")) {
        load.done++;
    }
    lane_send(l, load.request, request_text("POST", "/v1/work", results));
    return load.done < load.wanted;
}

static bool next_hello(struct lane *l, char *body, size_t size)
{
    (void)body;
    (void)size;
    load.done++;
    lane_send(l, load.request, request_text("POST", "/", ""));
    return load.done < load.wanted;
}

static bool next_start(struct lane *l, char *body, size_t size)
{
    (void)body;
    (void)size;
    load.done++;
    lane_send(l, load.request,
              request_text("POST", "/v1/jobs", "{\"topic\":\"work\",\"input\":{\"n\":1}}"));
    return load.done < load.wanted;
}

static double run_lanes(int port, long long wanted, bool (*next)(struct lane *, char *, size_t))
{
    struct lane *lanes = calloc(CONNECTIONS, sizeof *lanes);
    double from;
    check(lanes != NULL, "out of memory");
    load.done = -CONNECTIONS;
    load.wanted = wanted;
    if (next == next_work) {
        load.done = 0;
    }
    from = now_s();
    for (int i = 0; i < CONNECTIONS; i++) {
        char none[1] = "";
        lane_open(&lanes[i], port);
        (void)next(&lanes[i], none, 0);
    }
    lanes_drive(lanes, CONNECTIONS, next);
    from = now_s() - from;
    for (int i = 0; i < CONNECTIONS; i++) {
        (void)close(lanes[i].fd);
    }
    free(lanes);
    return (double)wanted / from;
}

static enum MHD_Result hello(void *context, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *data,
                             size_t *size, void **state)
{
    static char text[] = "{\"hello\":\"world\"}";
    static int seen;
    struct MHD_Response *r;
    enum MHD_Result result;
    (void)context, (void)url, (void)method, (void)version, (void)data;
    if (*state == NULL) {
        *state = &seen;
        return MHD_YES;
    }
    if (*size > 0) {
        *size = 0;
        return MHD_YES;
    }
    r = MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    result = MHD_queue_response(connection, 200, r);
    MHD_destroy_response(r);
    return result;
}

static double run_hello(long long requests)
{
    const union MHD_DaemonInfo *info;
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, hello, NULL, MHD_OPTION_END);
    double rate;
    check(d != NULL, "hello does not start");
    info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
    rate = run_lanes(info->port, requests, next_hello);
    MHD_stop_daemon(d);
    return rate;
}

static int work(void *context, qp_task *task)
{
    (void)task;
    atomic_fetch_add((atomic_llong *)context, 1);
    return QP_OK;
}

/* The same jobs, done by functions in the engine's process: all are started, then workers come. */
static double run_inside(const char *path, long long jobs)
{
    struct qp_options options;
    struct qp_err err = {0};
    atomic_llong done = 0;
    qp *q = NULL;
    double from;
    qp_options_init(&options);
    options.path = path;
    check(qp_open(&options, &q, &err) == QP_OK && qp_start_threads(q, 2, &err) == QP_OK, err.text);
    for (long long i = 0; i < jobs; i++) {
        struct qp_start start = {.topic = QP_STR("work"), .input = QP_STR("{\"n\":1}")};
        while (qp_job_start_async(q, &start, &err) == QP_E_LIMIT) {
            nap(1);
        }
    }
    nap(500); /* the last of them are on their way to the disk */
    from = now_s();
    check(qp_worker_add(
              q, &(struct qp_worker){.topic = QP_STR("work"), .work = work, .context = &done},
              &err) == QP_OK,
          err.text);
    while (atomic_load(&done) < jobs) {
        nap(1);
    }
    check(qp_close(q, &err) == QP_OK, err.text);
    return (double)jobs / (now_s() - from);
}

static void busy(const struct place *place, const char *dir)
{
    long long jobs = smoke ? 500 : 40000;
    struct served s;
    double hello_rate = run_hello(smoke ? 1000 : 100000);
    double inside = run_inside(place->path, jobs);
    double starts, rate;
    file_remove(place->path);
    served_start(&s, dir);
    starts = run_lanes(s.port, jobs, next_start);
    rate = run_lanes(s.port, jobs, next_work);
    served_end(&s);
    printf(
        "busy   %6d workers of %d   %8.0f activities/s   in process %8.0f/s (%.2f)   bare hello %8.0f requests/s\n",
        CONNECTIONS, WANT, rate, inside, rate / inside, hello_rate);
    printf("start  %6d clients        %8.0f starts/s\n", CONNECTIONS, starts);
}

int main(int argc, char **argv)
{
    struct place place;
    char dir[300];
    struct rlimit files;
    if (served_is(argc, argv)) {
        return served_main(argv);
    }
    smoke = getenv("BENCH_SMOKE") != NULL;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    place_make(&place);
    (void)snprintf(dir, sizeof dir, "%s", place.dir);
    busy(&place, dir);
    idle(dir);
    place_remove(&place);
    return 0;
}
