/* bench_engine.c - jobs of 1 and 10 steps through the whole engine, beside the fixed reference
 *
 * The engine has a thread of its own and two worker threads, whose function does nothing; a job's next
 * one is started when it ends, so that as many as the column says are in flight all the time. SQLite,
 * synchronous=FULL, in $TMPDIR. The reference (reference.h) runs in turns with it, in the same process,
 * so that a noisy machine is noisy for both. fdatasync is counted by the VFS under both.
 *
 * BENCH_SMOKE=1 only shows that it runs. BENCH_ONE=steps:in-flight:jobs runs the engine alone, once: for
 * a profiler.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel/single.h"
#include "place.h"
#include "reference.h"
#include "run/handle.h"
#include "support/faultvfs.h"

#define INPUT "{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}"
#define OUTPUT "{\"charged\":true,\"reference\":\"tx-0001\"}"
#define CHAIN_KIND 100
#define ROUNDS 3

/* ------------------------------------------------------------------------- a chain of ten steps */

/* Activities s1 to s10, one below the other; the depth of an address says which it is. */
static int chain_describe(struct turn *t, struct op_act_create *row)
{
    row->category = 'A';
    row->topic = t->job->workflow;
    return QP_OK;
}

static int chain_enter(struct turn *t)
{
    return turn_task(t, t->act->topic);
}

static int chain_spawn(struct turn *t, struct spawn *spawn)
{
    (void)spawn;
    return dad_depth(t->at.dad) <= 10
               ? turn_child(t, QP_STR("s"),
                            t->act->category == 'D' ? t->act->input : t->guid.output)
               : turn_spawn_nothing(t);
}

static const struct program chain_program = {.kind = CHAIN_KIND,
                                             .name = "chain",
                                             .leaves_nothing = true,
                                             .describe = chain_describe,
                                             .enter = chain_enter,
                                             .spawn = chain_spawn};

/* ------------------------------------------------------------------------------------- the load */

struct load {
    qp *q;
    int64_t kind;
    int64_t started;
    int64_t ended;
    int64_t jobs;
    double *latencies; /* of each job, when one is in flight at a time */
    double from;
    pthread_mutex_t lock;
    pthread_cond_t over;
};

static void start_next(struct load *l);

static void on_ended(void *context, const char *status)
{
    struct load *l = context;
    if (strcmp(status, "completed") != 0) {
        die("job", status);
    }
    (void)pthread_mutex_lock(&l->lock);
    if (l->latencies != NULL) {
        l->latencies[l->ended] = now_s() - l->from;
    }
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
    if (l->started >= l->jobs) {
        return;
    }
    l->started++;
    l->from = now_s();
    if (job_start_async(
            l->q,
            &(struct qp_start){
                .topic = QP_STR("charge"), .input = QP_STR(INPUT), .context = l, .ended = on_ended},
            l->kind, &err) != QP_OK) {
        die("start", err.text);
    }
}

static int charge(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR(OUTPUT));
}

struct figures {
    double jobs_per_s;
    double syncs_per_job;
    double p50_ms;
    double p99_ms;
};

static qp *open_engine(const char *path)
{
    static const struct program *const programs[] = {&single_program, &chain_program};
    struct qp_options options;
    struct qp_err err;
    qp *q;
    qp_options_init(&options);
    options.path = path;
    if (handle_open(&options, programs, 2, &q, &err) != QP_OK ||
        qp_worker_add(
            q, &(struct qp_worker){.topic = QP_STR("charge"), .work = charge, .in_hand = 4096},
            &err) != QP_OK ||
        qp_start_threads(q, 2, &err) != QP_OK) {
        die("open", err.text);
    }
    return q;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct figures engine_run(const char *path, int64_t jobs, int64_t in_flight, int steps)
{
    struct load l = {.kind = steps == 1 ? SINGLE_KIND : CHAIN_KIND, .jobs = jobs};
    struct figures f = {0};
    struct qp_err err;
    int64_t syncs;
    double from;
    (void)pthread_mutex_init(&l.lock, NULL);
    (void)pthread_cond_init(&l.over, NULL);
    l.q = open_engine(path);
    l.latencies = in_flight == 1 ? calloc((size_t)jobs, sizeof *l.latencies) : NULL;
    syncs = faultvfs_count(FAULT_SYNC);
    from = now_s();
    /* The first ones from here; every further one when another ends. */
    for (int64_t i = 0, first = in_flight < jobs ? in_flight : jobs; i < first; i++) {
        (void)pthread_mutex_lock(&l.lock);
        bool more = l.started < l.jobs;
        (void)pthread_mutex_unlock(&l.lock);
        if (more) {
            start_next(&l);
        }
    }
    (void)pthread_mutex_lock(&l.lock);
    while (l.ended < jobs) {
        (void)pthread_cond_wait(&l.over, &l.lock);
    }
    (void)pthread_mutex_unlock(&l.lock);
    f.jobs_per_s = (double)jobs / (now_s() - from);
    f.syncs_per_job = (double)(faultvfs_count(FAULT_SYNC) - syncs) / (double)jobs;
    if (l.latencies != NULL) {
        qsort(l.latencies, (size_t)jobs, sizeof *l.latencies, compare_double);
        f.p50_ms = l.latencies[jobs / 2] * 1000;
        f.p99_ms = l.latencies[jobs * 99 / 100] * 1000;
        free(l.latencies);
    }
    if (qp_close(l.q, &err) != QP_OK) {
        die("close", err.text);
    }
    return f;
}

/* -------------------------------------------------------------------------------------- the table */

static void table(const struct place *place, int steps, bool smoke)
{
    static const int64_t in_flight[] = {1, 10, 100, 1000};
    static const int64_t jobs_of[] = {1000, 8000, 40000, 60000};
    const char *path = place->path;
    for (size_t i = 0; i < ARRAY_COUNT(in_flight); i++) {
        double reference = 0;
        struct figures f = {0};
        int64_t jobs = jobs_of[i] / (steps > 1 ? 5 : 1) / (smoke ? 20 : 1);
        int rounds = smoke ? 1 : ROUNDS;
        jobs = jobs > in_flight[i] ? jobs : in_flight[i];
        for (int round = 0; round < rounds; round++) {
            reference += reference_run(path, FAULTVFS_NAME, jobs, in_flight[i], steps) / rounds;
            file_remove(path);
            struct figures one = engine_run(path, jobs, in_flight[i], steps);
            file_remove(path);
            f.jobs_per_s += one.jobs_per_s / rounds;
            f.syncs_per_job += one.syncs_per_job / rounds;
            f.p50_ms += one.p50_ms / rounds;
            f.p99_ms += one.p99_ms / rounds;
        }
        printf("%5d %9lld %12.0f %12.0f %7.2f %14.3f", steps, (long long)in_flight[i], reference,
               f.jobs_per_s, f.jobs_per_s / reference, f.syncs_per_job);
        if (in_flight[i] == 1) {
            printf(" %9.2f %9.2f", f.p50_ms, f.p99_ms);
        }
        printf("\n");
        (void)fflush(stdout);
    }
}

/* The engine alone, once, as BENCH_ONE says. */
static void one(struct place *place, const char *what)
{
    char *end;
    int steps = (int)strtol(what, &end, 10);
    int64_t in_flight = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    int64_t jobs = *end == ':' ? strtoll(end + 1, &end, 10) : 0;
    struct figures f;
    if ((steps != 1 && steps != 10) || in_flight < 1 || jobs < 1) {
        die("BENCH_ONE", "steps (1 or 10):in flight:jobs");
    }
    f = engine_run(place->path, jobs, in_flight, steps);
    printf("%.0f jobs/s, %.4f fdatasync per job\n", f.jobs_per_s, f.syncs_per_job);
    place_remove(place);
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    struct place place;
    place_make(&place);
    faultvfs_init(FAULTVFS_SYNC_REAL, false);
    (void)sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1);
    if (getenv("BENCH_ONE") != NULL) {
        one(&place, getenv("BENCH_ONE"));
        return 0;
    }
    printf("SQLite %s, synchronous=FULL, in-process workers\n", sqlite3_libversion());
    printf("%5s %9s %12s %12s %7s %14s %9s %9s\n", "steps", "in flight", "reference", "engine",
           "ratio", "fdatasync", "p50", "p99");
    printf("%5s %9s %12s %12s %7s %14s %9s %9s\n", "", "", "jobs/s", "jobs/s", "", "per job", "ms",
           "ms");
    table(&place, 1, smoke);
    table(&place, 10, smoke);
    place_remove(&place);
    return 0;
}
