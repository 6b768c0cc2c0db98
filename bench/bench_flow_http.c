/* bench_flow_http.c - flows over HTTP: one activity (W1), and ten in a row (W2), by a client in C and by the worker of docs
 *
 * The server is a process of its own, on a file with synchronous=FULL. The client in C is one thread with fifty connections, each
 * a worker for the flow and its activity that asks for eight tasks at a time and looks at their text: it costs next to
 * nothing. The other one is docs/worker.py, one task at a time, run from the root of the repository; four of them.
 *
 *   many    jobs are all started, then workers come: jobs per second until the last has completed
 *   alone   one job after the other, at one worker: its time from the start to its end, and counted by the server, how many calls
 *           of workers and how many commits a step takes (of which the start of the job is one)
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/limits.h"
#include "flow/flow.h"
#include "lanes.h"
#include "served.h"
#include "support/httpclient.h"

#define LANES 50
#define WANT 8
#define PYTHONS 4
#define PER_CONNECTION (LIMIT_REQUESTS_PER_CONNECTION / 2)

static bool smoke;

struct figures {
    double jobs_per_s;
    double p50_ms;
    double calls_per_step;
    double commits_per_step;
};

/* ------------------------------------------------------------------------------------ the server's numbers */

/* The sum of all series that begin so. */
static long long metric(int port, const char *name)
{
    struct hc_answer a = hc_call(port, NULL, "GET", "/metrics", NULL);
    long long sum = 0;
    check(a.status == 200, "no metrics");
    for (char *line = a.body; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0) {
            sum += strtoll(line + strcspn(line, " \n"), NULL, 10);
        }
    }
    hc_done(&a);
    return sum;
}

struct counts {
    long long calls;
    long long commits;
};

static struct counts counts_of(int port)
{
    return (struct counts){metric(port, "quipu_http_requests_total{route=\"work\""),
                           metric(port, "quipu_commit_duration_seconds_count")};
}

static long completed(int port)
{
    struct hc_answer a =
        hc_call(port, NULL, "GET", "/v1/jobs?limit=1&count=exact&where=status%3Dcompleted", NULL);
    char *count = hc_member(&a, "count");
    long done = count == NULL ? 0 : strtol(count, NULL, 10);
    free(count);
    hc_done(&a);
    return done;
}

/* ----------------------------------------------------------------------------------- the client in C */

static struct {
    int steps;
    long done; /* results that count */
    long wanted;
    char request[2 * LANE_BUFFER];
    char body[LANE_BUFFER];
    size_t n;
    int results;
} load;

static void put(const char *format, ...) QP_PRINTF(1, 2);
static void put(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    load.n += (size_t)vsnprintf(load.body + load.n, sizeof load.body - load.n, format, arguments);
    va_end(arguments);
    check(load.n < sizeof load.body, "a request is too large");
}

/* The next step of a flow: its events are as many as there were steps, and all are answered. */
static void decide(qp_str task)
{
    struct raw_walk events = {.rest = flow_member(task, "log")};
    int made = 0;
    while (raw_each(&events)) {
        made++;
    }
    put("\"base\":%.*s,\"commands\":[", STR_ARG(flow_member(task, "base")));
    if (made < load.steps) {
        put("{\"op\":\"activity\",\"loc\":\"{%d}\",\"v\":1,\"name\":\"charge\",\"input\":{\"n\":1}}]",
            made + 1);
    } else {
        put("{\"op\":\"return\",\"output\":1}]");
    }
}

static void add_result(qp_str task)
{
    put("%s{\"token\":%.*s,", load.results++ > 0 ? "," : "", STR_ARG(flow_member(task, "token")));
    if (str_equal(flow_member(task, "kind"), QP_STR("\"flow\""))) {
        decide(task);
    } else {
        put("\"output\":{\"charged\":true}");
    }
    put("}");
}

static void send_body(struct lane *l)
{
    int n =
        snprintf(load.request, sizeof load.request,
                 "POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 load.n, load.body);
    lane_send(l, load.request, (size_t)n);
}

/* Results for all tasks of an answer; without any, none is ready at the moment. */
static bool next_call(struct lane *l, char *body, size_t size)
{
    qp_str answer = {body, size};
    struct raw_walk tasks = {.rest = size == 0 ? QP_STR("[]") : flow_member(answer, "tasks")};
    struct raw_walk acks = {.rest = size == 0 ? QP_STR("[]") : flow_member(answer, "acks")};
    while (raw_each(&acks)) {
        check(str_equal(flow_member(acks.value, "status"), QP_STR("\"ok\"")),
              "a result is refused");
        load.done++;
    }
    load.n = 0;
    load.results = 0;
    put("{\"worker\":\"c\",\"topics\":[\"charge\"],\"flows\":[{\"name\":\"bench\"}],\"want\":%d,"
        "\"wait\":\"100ms\",\"results\":[",
        WANT);
    while (raw_each(&tasks)) {
        add_result(tasks.value);
    }
    put("]}");
    send_body(l);
    return load.done < load.wanted;
}

static void drive(int port, int lanes)
{
    struct lane *all = calloc((size_t)lanes, sizeof *all);
    check(all != NULL, "out of memory");
    for (int i = 0; i < lanes; i++) {
        char none[1] = "";
        lane_open(&all[i], port);
        (void)next_call(&all[i], none, 0);
    }
    lanes_drive(all, lanes, next_call);
    for (int i = 0; i < lanes; i++) {
        (void)close(all[i].fd);
    }
    free(all);
}

/* -------------------------------------------------------------------------------- the worker of docs */

static const char python[] = "import sys\n"
                             "sys.path.insert(0, 'docs')\n"
                             "import worker\n"
                             "def bench(ctx, input):\n"
                             "    for i in range(int(sys.argv[1])):\n"
                             "        yield ctx.activity('charge', input)\n"
                             "    return 1\n"
                             "worker.flows['bench'] = bench\n"
                             "worker.activities['charge'] = lambda input, task: {'charged': True}\n"
                             "worker.main('py')\n";

static pid_t python_start(int port)
{
    pid_t pid = fork();
    if (pid == 0) {
        char url[64];
        char steps[16];
        (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
        (void)snprintf(steps, sizeof steps, "%d", load.steps);
        (void)setenv("QUIPU_URL", url, 1);
        (void)execlp("python3", "python3", "-c", python, steps, (char *)NULL);
        _exit(127);
    }
    check(pid > 0, "no Python");
    return pid;
}

static void python_end(pid_t pid)
{
    int status = 0;
    check(
        kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status),
        "a worker in Python has ended by itself: python3 is needed, in the root of the repository");
}

/* ----------------------------------------------------------------------------------------- the runs */

static void start_job(struct hc *c, const char *query)
{
    char path[64];
    struct hc_answer a;
    (void)snprintf(path, sizeof path, "/v1/jobs%s", query);
    a = hc_ask(c, NULL, "POST", path, NULL, "{\"workflow\":\"bench\",\"input\":{\"n\":1}}");
    check(a.status == 201 || a.status == 200, "a job cannot be started");
    hc_done(&a);
}

/* A server closes a connection after so many requests. */
static void start_jobs(int port, long jobs)
{
    struct hc c;
    while (jobs > 0) {
        long count = jobs < PER_CONNECTION ? jobs : PER_CONNECTION;
        check(hc_open(&c, port), "no connection");
        for (long i = 0; i < count; i++) {
            start_job(&c, "");
        }
        hc_close(&c);
        jobs -= count;
    }
}

static void await(int port, long jobs)
{
    while (completed(port) < jobs) {
        nap(5);
    }
}

static double many(const char *dir, bool in_c, long jobs)
{
    struct served s;
    pid_t workers[PYTHONS];
    double from;
    served_start(&s, dir);
    start_jobs(s.port, jobs);
    load.done = 0;
    load.wanted = jobs * (2 * load.steps + 1);
    from = now_s();
    for (int i = 0; i < PYTHONS && !in_c; i++) {
        workers[i] = python_start(s.port);
    }
    if (in_c) {
        drive(s.port, LANES);
    }
    await(s.port, jobs);
    from = now_s() - from;
    for (int i = 0; i < PYTHONS && !in_c; i++) {
        python_end(workers[i]);
    }
    served_end(&s);
    return (double)jobs / from;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In a process of its own: until it is killed. */
static pid_t client_start(int port)
{
    pid_t pid = fork();
    if (pid == 0) {
        load.done = 0;
        load.wanted = 1L << 40;
        drive(port, 1);
        _exit(0);
    }
    return pid;
}

static void alone(const char *dir, bool in_c, int jobs, struct figures *out)
{
    double *times = calloc((size_t)jobs, sizeof *times);
    struct counts before, after;
    struct served s;
    struct hc c;
    pid_t worker;
    check(times != NULL, "out of memory");
    served_start(&s, dir);
    check(hc_open(&c, s.port), "no connection");
    worker = in_c ? client_start(s.port) : python_start(s.port);
    start_job(&c, "?wait=60s"); /* the worker is there */
    before = counts_of(s.port);
    for (int i = 0; i < jobs; i++) {
        double from = now_s();
        start_job(&c, "?wait=60s");
        times[i] = now_s() - from;
    }
    after = counts_of(s.port);
    hc_close(&c);
    python_end(worker);
    served_end(&s);
    qsort(times, (size_t)jobs, sizeof *times, compare_double);
    out->p50_ms = times[jobs / 2] * 1000;
    out->calls_per_step = (double)(after.calls - before.calls) / jobs / load.steps;
    out->commits_per_step = (double)(after.commits - before.commits) / jobs / load.steps;
    free(times);
}

static void run(const char *dir, const char *name, bool in_c, int steps, long jobs)
{
    struct figures f = {0};
    load.steps = steps;
    f.jobs_per_s = many(dir, in_c, smoke ? 20 : jobs);
    alone(dir, in_c, smoke ? 3 : 2000 / steps / 10, &f);
    printf("%-20s %-12s %9.0f %12.0f %12.2f %12.2f %14.2f\n", name, in_c ? "C" : "docs/worker.py",
           f.jobs_per_s, f.jobs_per_s * steps, f.p50_ms, f.calls_per_step, f.commits_per_step);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct place place;
    if (served_is(argc, argv)) {
        return served_main(argv);
    }
    smoke = getenv("BENCH_SMOKE") != NULL;
    place_make(&place);
    printf("%-20s %-12s %9s %12s %12s %12s %14s\n", "flows over HTTP", "worker", "jobs/s",
           "activities/s", "alone p50 ms", "calls/step", "commits/step");
    run(place.dir, "W1, one activity", true, 1, 10000);
    run(place.dir, "W2, ten activities", true, 10, 2000);
    run(place.dir, "W1, one activity", false, 1, 2000);
    run(place.dir, "W2, ten activities", false, 10, 300);
    place_remove(&place);
    return 0;
}
