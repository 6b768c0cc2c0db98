/* bench_latency.c - how long jobs take whose functions take 1 ms and 10 ms, on 4 threads
 *
 * SQLite, synchronous=FULL, in $TMPDIR. A function sleeps for its time. Each job has two times:
 *
 *   job      from its start to its end, with what waits before it
 *   result   from the return of its function to its end: what the engine adds
 *
 * In a closed loop a fixed number of jobs is in flight, and the start is when the caller starts the job. With many in
 * flight the first time is bound by the threads (in flight x time / 4); the second is the engine's alone. In the last
 * rows every hundredth job has priority 0 and the others 9: the times are those of priority 0.
 *
 * In an open loop jobs arrive at a fixed rate, a part of what the threads can do, whether earlier ones have ended or not,
 * and the start is when the job is on disk.
 *
 * BENCH_LOOP=open or BENCH_LOOP=closed runs one of them. BENCH_SMOKE=1 only shows that it runs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "place.h"

#define THREADS 4
#define URGENT_EVERY 100

struct job {
    struct load *load;
    double from;
    double returned;
    double to;
};

struct load {
    qp *q;
    int64_t function_us;
    bool urgent;
    int64_t jobs;
    int64_t in_flight; /* of a closed loop */
    int64_t rate;      /* of an open loop, per second; 0: it is a closed one */
    pthread_mutex_t lock;
    pthread_cond_t over;
    int64_t started;
    int64_t ended;
    struct job *of;
};

static bool is_urgent(const struct load *l, int64_t i)
{
    return l->urgent && i % URGENT_EVERY == URGENT_EVERY - 1;
}

static void start_next(struct load *l);

static void on_ended(void *context, const char *status)
{
    struct job *job = context;
    struct load *l = job->load;
    if (strcmp(status, "completed") != 0) {
        die("job", status);
    }
    job->to = now_s();
    (void)pthread_mutex_lock(&l->lock);
    l->ended++;
    if (l->ended == l->jobs) {
        (void)pthread_cond_signal(&l->over);
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (l->rate == 0) {
        start_next(l);
    }
}

static void on_started(void *context, int code, const char *id)
{
    struct job *job = context;
    (void)id;
    if (code != QP_OK) {
        die("start", qp_code_text(code));
    }
    if (job->load->rate > 0) {
        job->from = now_s();
    }
}

static void start_next(struct load *l)
{
    struct qp_err err;
    struct job *job;
    char input[32];
    int64_t i;
    (void)pthread_mutex_lock(&l->lock);
    i = l->started < l->jobs ? l->started++ : -1;
    (void)pthread_mutex_unlock(&l->lock);
    if (i < 0) {
        return;
    }
    job = &l->of[i];
    job->load = l;
    job->from = now_s();
    (void)snprintf(input, sizeof input, "%lld", (long long)i);
    if (qp_job_start_async(l->q,
                           &(struct qp_start){.topic = QP_STR("work"),
                                              .input = str_from(input),
                                              .priority = l->urgent && !is_urgent(l, i) ? 9 : 0,
                                              .context = job,
                                              .started = on_started,
                                              .ended = on_ended},
                           &err) != QP_OK) {
        die("start", err.text);
    }
}

static int work(void *context, qp_task *task)
{
    struct load *l = context;
    int64_t i = strtoll(qp_task_input(task).p, NULL, 10);
    (void)nanosleep(&(struct timespec){.tv_nsec = l->function_us * 1000}, NULL);
    l->of[i].returned = now_s();
    return qp_task_output(task, QP_STR("1"));
}

/* Jobs arrive at their times; should this thread be late, those that are due come at once. */
static void arrive(struct load *l)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    for (int64_t i = 0; i < l->jobs; i++) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        start_next(l);
        at.tv_nsec += 1000000000 / l->rate;
        if (at.tv_nsec >= 1000000000) {
            at.tv_sec++;
            at.tv_nsec -= 1000000000;
        }
    }
}

static void load_run(struct load *l, const char *path)
{
    struct qp_options options;
    struct qp_err err;
    qp_options_init(&options);
    options.path = path;
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->over, NULL);
    l->of = calloc((size_t)l->jobs, sizeof *l->of);
    if (l->of == NULL || qp_open(&options, &l->q, &err) != QP_OK ||
        qp_worker_add(l->q,
                      &(struct qp_worker){.topic = QP_STR("work"), .work = work, .context = l},
                      &err) != QP_OK ||
        qp_start_threads(l->q, THREADS, &err) != QP_OK) {
        die("open", err.text);
    }
    if (l->rate > 0) {
        arrive(l);
    }
    for (int64_t i = 0; i < l->in_flight; i++) {
        start_next(l);
    }
    (void)pthread_mutex_lock(&l->lock);
    while (l->ended < l->jobs) {
        (void)pthread_cond_wait(&l->over, &l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (qp_close(l->q, &err) != QP_OK) {
        die("close", err.text);
    }
    file_remove(path);
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(double *times, int64_t count)
{
    qsort(times, (size_t)count, sizeof *times, compare_double);
    printf(" %9.2f %9.2f", times[count / 2] * 1000, times[count * 99 / 100] * 1000);
}

/* Of those that count: all, or the urgent ones. */
static void print_row(const struct load *l)
{
    double *job = calloc((size_t)l->jobs, sizeof *job);
    double *result = calloc((size_t)l->jobs, sizeof *result);
    int64_t count = 0;
    if (job == NULL || result == NULL) {
        die("times", "out of memory");
    }
    for (int64_t i = 0; i < l->jobs; i++) {
        if (!l->urgent || is_urgent(l, i)) {
            job[count] = l->of[i].to - l->of[i].from;
            result[count++] = l->of[i].to - l->of[i].returned;
        }
    }
    printf("%8lld %9lld %9s", (long long)(l->function_us / 1000),
           (long long)(l->rate > 0 ? l->rate : l->in_flight), l->urgent ? "0 of 9" : "all 0");
    print_times(job, count);
    print_times(result, count);
    printf("\n");
    (void)fflush(stdout);
    free(job);
    free(result);
    free(l->of);
}

static const int64_t times_us[] = {1000, 10000};

static void print_head(const char *what)
{
    printf("%8s %9s %9s %9s %9s %9s %9s\n", "function", what, "priority", "job p50", "job p99",
           "res. p50", "res. p99");
    printf("%8s %9s %9s %9s %9s %9s %9s\n", "ms", "", "", "ms", "ms", "ms", "ms");
}

static void run_one(struct load *l, const struct place *place)
{
    load_run(l, place->path);
    print_row(l);
}

static int64_t jobs_of(size_t time)
{
    return (time == 0 ? 8000 : 2000) / (getenv("BENCH_SMOKE") != NULL ? 10 : 1);
}

static void closed_loops(const struct place *place)
{
    static const int64_t in_flight[] = {4, 40, 400};
    print_head("in flight");
    for (int urgent = 0; urgent < 2; urgent++) {
        for (size_t t = 0; t < ARRAY_COUNT(times_us); t++) {
            for (size_t i = urgent == 0 ? 0 : 2; i < ARRAY_COUNT(in_flight); i++) {
                struct load l = {.function_us = times_us[t],
                                 .urgent = urgent != 0,
                                 .in_flight = in_flight[i],
                                 .jobs = jobs_of(t) * (urgent + 1)};
                run_one(&l, place);
            }
        }
    }
}

static void open_loops(const struct place *place)
{
    static const int64_t percent[] = {50, 80};
    print_head("per s");
    for (size_t t = 0; t < ARRAY_COUNT(times_us); t++) {
        for (size_t i = 0; i < ARRAY_COUNT(percent); i++) {
            struct load l = {.function_us = times_us[t],
                             .rate = THREADS * 1000000 / times_us[t] * percent[i] / 100,
                             .jobs = jobs_of(t)};
            run_one(&l, place);
        }
    }
}

int main(void)
{
    const char *loop = getenv("BENCH_LOOP");
    struct place place;
    place_make(&place);
    if (loop == NULL || strcmp(loop, "closed") == 0) {
        closed_loops(&place);
    }
    if (loop == NULL || strcmp(loop, "open") == 0) {
        open_loops(&place);
    }
    place_remove(&place);
    return 0;
}
