/* load.c - jobs through the whole engine (see load.h) */
#include "load.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernel/single.h"
#include "place.h"
#include "run/handle.h"

#define INPUT "{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}"
#define OUTPUT "{\"charged\":true,\"reference\":\"tx-0001\"}"
#define CHAIN_KIND 100

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

struct load_figures load_run(const char *path, int64_t jobs, int64_t in_flight, int steps,
                             int64_t (*syncs_so_far)(void))
{
    struct load l = {.kind = steps == 1 ? SINGLE_KIND : CHAIN_KIND, .jobs = jobs};
    struct load_figures f = {0};
    struct qp_err err;
    int64_t syncs;
    double from;
    (void)pthread_mutex_init(&l.lock, NULL);
    (void)pthread_cond_init(&l.over, NULL);
    l.q = open_engine(path);
    l.latencies = in_flight == 1 ? calloc((size_t)jobs, sizeof *l.latencies) : NULL;
    syncs = syncs_so_far == NULL ? 0 : syncs_so_far();
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
    f.syncs_per_job = syncs_so_far == NULL ? 0 : (double)(syncs_so_far() - syncs) / (double)jobs;
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
