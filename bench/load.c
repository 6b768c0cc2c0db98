/* load.c - jobs through the whole engine (see load.h) */
#include "load.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
    row->topic = QP_STR("charge");
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

static struct program chain_of(void *state)
{
    (void)state;
    return chain_program;
}

static const struct face chain_face = {.kind = CHAIN_KIND,
                                       .name = "chain",
                                       .name_kind = NAMES_NONE,
                                       .hook_kind = NAMES_NONE,
                                       .start_name = "chain",
                                       .program = chain_of};

/* ---------------------------------------------------------------------------------------- graphs */

#define TEXT_SIZE 400000

static void add(char *text, size_t *size, const char *format, ...) QP_PRINTF(3, 4);
static void add(char *text, size_t *size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *size += (size_t)vsnprintf(text + *size, TEXT_SIZE - *size, format, arguments);
    va_end(arguments);
}

static void add_head(char *text, size_t *size, const char *topic)
{
    add(text, size, "    - subscribes: %s\n      activities:\n        t%s: { type: trigger }\n",
        topic, topic + 6);
}

static void add_worker(char *text, size_t *size, const char *graph, int index, const char *from,
                       bool last)
{
    add(text, size,
        "        w%s-%d:\n          type: worker\n          topic: charge\n          input: { maps: { order: "
        "'{%s.output.data.%s}' } }\n",
        graph, index, from, from[0] == 't' ? "order" : "reference");
    if (last) {
        add(text, size,
            "          job: { maps: { reference: '{$self.output.data.reference}' } }\n");
    }
}

/* A chain of workers, each fed by the one before. */
static void add_chain(char *text, size_t *size, const char *graph, int steps)
{
    char from[32];
    (void)snprintf(from, sizeof from, "t%s", graph);
    for (int i = 0; i < steps; i++) {
        add_worker(text, size, graph, i, from, i == steps - 1);
        (void)snprintf(from, sizeof from, "w%s-%d", graph, i);
    }
    add(text, size, "      transitions:\n        t%s: [{ to: w%s-0 }]\n", graph, graph);
    for (int i = 0; i + 1 < steps; i++) {
        add(text, size, "        w%s-%d: [{ to: w%s-%d }]\n", graph, i, graph, i + 1);
    }
}

static void add_fan(char *text, size_t *size)
{
    for (int i = 0; i < LOAD_FAN; i++) {
        add_worker(text, size, "fan", i, "tfan", false);
    }
    add(text, size,
        "        meet: { type: hook, job: { maps: { first: '{wfan-0.output.data.reference}' } } }\n");
    add(text, size, "      transitions:\n        tfan:\n");
    for (int i = 0; i < LOAD_FAN; i++) {
        add(text, size, "          - to: wfan-%d\n", i);
    }
    for (int i = 0; i < LOAD_FAN; i++) {
        add(text, size, "        wfan-%d: [{ to: meet }]\n", i);
    }
}

static void deploy(qp *q)
{
    static char text[TEXT_SIZE];
    size_t size = 0;
    struct qp_err err;
    add(text, &size, "app:\n  id: bench\n  version: '1'\n  graphs:\n");
    add_head(text, &size, "graph.one");
    add_chain(text, &size, "one", 1);
    add_head(text, &size, "graph.ten");
    add_chain(text, &size, "ten", 10);
    add_head(text, &size, "graph.fan");
    add_fan(text, &size);
    if (qp_deploy(q, &(struct qp_deploy){.text = {text, size}, .activate = true}, NULL, &err) !=
        QP_OK) {
        die("deploy", err.text);
    }
}

/* ----------------------------------------------------------------------------------------- flows */

/* Activities one after the other, each fed by the one before. */
static int flow_steps(qp_flow *flow, qp_str input, void *context)
{
    qp_str output = input;
    for (int i = 0; i < *(const int *)context; i++) {
        QP_TRY(qp_activity(flow, "charge", output, NULL, &output));
    }
    return qp_return(flow, output);
}

static void add_flow(qp *q, const char *name, int *steps)
{
    struct qp_err err;
    if (qp_flow_add(
            q,
            &(struct qp_flow_kind){
                .name = str_from(name), .function = flow_steps, .context = steps, .in_hand = 4096},
            &err) != QP_OK) {
        die("flow", err.text);
    }
}

static void add_flows(qp *q)
{
    static int one = 1;
    static int ten = 10;
    add_flow(q, "flow.one", &one);
    add_flow(q, "flow.ten", &ten);
}

/* ------------------------------------------------------------------------------------- the load */

struct load {
    qp *q;
    const char *topic;
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
    if (qp_job_start_async(l->q,
                           &(struct qp_start){.topic = str_from(l->topic),
                                              .input = QP_STR(INPUT),
                                              .context = l,
                                              .ended = on_ended},
                           &err) != QP_OK) {
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
    static const struct face *const faces[] = {&chain_face};
    struct qp_options options;
    struct qp_err err;
    qp *q;
    qp_options_init(&options);
    options.path = path;
    if (handle_open(&options, faces, ARRAY_COUNT(faces), &q, &err) != QP_OK ||
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

struct load_figures load_run(const char *path, int64_t jobs, int64_t in_flight, enum load_job job,
                             int64_t (*syncs_so_far)(void))
{
    static const char *const topics[] = {"charge",    "chain",    "graph.one", "graph.ten",
                                         "graph.fan", "flow.one", "flow.ten"};
    struct load l = {.topic = topics[job], .jobs = jobs};
    struct load_figures f = {0};
    struct qp_err err;
    int64_t syncs;
    double from;
    (void)pthread_mutex_init(&l.lock, NULL);
    (void)pthread_cond_init(&l.over, NULL);
    l.q = open_engine(path);
    if (job >= LOAD_GRAPH_ONE && job <= LOAD_GRAPH_FAN) {
        deploy(l.q);
    }
    if (job >= LOAD_FLOW_ONE) {
        add_flows(l.q);
    }
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
