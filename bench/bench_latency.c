/* bench_latency.c - how long jobs take whose functions take 1 ms and 10 ms, on 4 threads
 *
 * SQLite, synchronous=FULL, in $TMPDIR. A fixed number of jobs is in flight; a function sleeps for its time. Each job has
 * two times:
 *
 *   job      from its start to its end, with what waits before it
 *   result   from the return of its function to its end: what the engine adds
 *
 * With many in flight the first is bound by the threads (in flight x time / 4); the second is the engine's alone. In the
 * last rows every hundredth job has priority 0 and the others 9: the times are those of priority 0.
 *
 * BENCH_SMOKE=1 only shows that it runs.
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
    start_next(l);
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

static void load_run(struct load *l, const char *path, int64_t in_flight)
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
    for (int64_t i = 0; i < in_flight; i++) {
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
static void print_row(const struct load *l, int64_t in_flight)
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
    printf("%8lld %9lld %9s", (long long)(l->function_us / 1000), (long long)in_flight,
           l->urgent ? "0 of 9" : "all 0");
    print_times(job, count);
    print_times(result, count);
    printf("\n");
    (void)fflush(stdout);
    free(job);
    free(result);
    free(l->of);
}

int main(void)
{
    static const int64_t times_us[] = {1000, 10000};
    static const int64_t in_flight[] = {4, 40, 400};
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    struct place place;
    place_make(&place);
    printf("%8s %9s %9s %9s %9s %9s %9s\n", "function", "in flight", "priority", "job p50",
           "job p99", "res. p50", "res. p99");
    printf("%8s %9s %9s %9s %9s %9s %9s\n", "ms", "", "", "ms", "ms", "ms", "ms");
    for (int urgent = 0; urgent < 2; urgent++) {
        for (size_t t = 0; t < ARRAY_COUNT(times_us); t++) {
            for (size_t i = urgent == 0 ? 0 : 2; i < ARRAY_COUNT(in_flight); i++) {
                struct load l = {.function_us = times_us[t],
                                 .urgent = urgent != 0,
                                 .jobs = (t == 0 ? 8000 : 2000) * (urgent + 1) / (smoke ? 10 : 1)};
                load_run(&l, place.path, in_flight[i]);
                print_row(&l, in_flight[i]);
            }
        }
    }
    place_remove(&place);
    return 0;
}
