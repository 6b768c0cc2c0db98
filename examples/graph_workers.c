/* graph_workers.c - a graph, its workers in C, and one job of it, in one process
 *
 * usage: graph_workers [FILE.db GRAPH.yaml TOPIC INPUT]
 *
 * Without arguments it is the order saga, in memory, from the top of the source tree.
 *
 * Deploys the application, serves the topics of examples/graphs/order-saga.yaml and the built-in ones, starts a job, and prints what
 * came of it. Run it again: the application is there already, and another job is done.
 */
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 65536

static int say(void *context, qp_task *task) /* reserve, release, ship: they cannot fail */
{
    (void)context;
    printf("%.*s %.*s\n", (int)qp_task_topic(task).n, qp_task_topic(task).p,
           (int)qp_task_input(task).n, qp_task_input(task).p);
    return qp_task_output(task, qp_task_input(task));
}

static int charge(void *context, qp_task *task) /* {"amount":42} */
{
    qp_str input = qp_task_input(task);
    char text[256];
    const char *colon;
    (void)context;
    snprintf(text, sizeof text, "%.*s", (int)input.n, input.p);
    colon = strchr(text, ':');
    if (colon != NULL && strtol(colon + 1, NULL, 10) > 100) {
        return qp_task_fail(
            task,
            &(struct qp_failure){.message = "the card is good for 100", .code = 402, .fatal = 1});
    }
    return say(context, task);
}

static void wrong(void *context, const struct qp_graph_error *e)
{
    fprintf(stderr, "%s:%d:%d: %.*s\n", (const char *)context, e->line, e->column,
            (int)e->message.n, e->message.p);
}

static int add_workers(qp *q, struct qp_err *err)
{
    static const struct qp_worker workers[] = {
        {.topic = {"stock.reserve", 13}, .work = say},
        {.topic = {"stock.release", 13}, .work = say},
        {.topic = {"parcel.ship", 11}, .work = say},
        {.topic = {"card.charge", 11}, .work = charge},
    };
    int rc = qp_builtin_serve(q, &(struct qp_builtin){.shell_count = 0}, err);
    for (size_t i = 0; i < sizeof workers / sizeof workers[0] && rc == QP_OK; i++) {
        rc = qp_worker_add(q, &workers[i], err);
    }
    return rc;
}

static int run(qp *q, char *path, qp_str text, char **argv, struct qp_err *err)
{
    struct qp_deploy deploy = {.text = text, .activate = true, .context = path, .found = wrong};
    struct qp_start start = {.topic = {argv[3], strlen(argv[3])},
                             .input = {argv[4], strlen(argv[4])}};
    char id[QP_ID_SIZE];
    struct qp_job job;
    int rc = qp_deploy(q, &deploy, NULL, err);
    rc = rc == QP_OK ? add_workers(q, err) : rc;
    rc = rc == QP_OK ? qp_start_threads(q, 2, err) : rc;
    rc = rc == QP_OK ? qp_job_start(q, &start, id, err) : rc;
    rc = rc == QP_OK ? qp_job_wait(q, (qp_str){id, strlen(id)}, 30000, &job, err) : rc;
    if (rc == QP_OK) {
        qp_str said = job.output.p != NULL ? job.output : job.error;
        printf("%s: %.*s\n", job.status, (int)said.n, said.p != NULL ? said.p : "");
        qp_job_done(q, &job);
    }
    return rc;
}

static char *saga[] = {NULL, NULL, "examples/graphs/order-saga.yaml", "order.placed",
                       "{\"item\":\"quipu\",\"amount\":42}"};

int main(int argc, char **argv)
{
    static char text[TEXT_SIZE];
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    FILE *file = NULL;
    size_t n;
    int rc;
    argv = argc == 1 ? saga : argv;
    file = argc == 1 || argc == 5 ? fopen(argv[2], "r") : NULL;
    n = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file == NULL || fclose(file) != 0) {
        return fprintf(stderr, "usage: graph_workers [FILE.db GRAPH.yaml TOPIC INPUT]\n"), 2;
    }
    qp_options_init(&options);
    options.path = argv[1];
    rc = qp_open(&options, &q, &err);
    rc = rc == QP_OK ? run(q, argv[2], (qp_str){text, n}, argv, &err) : rc;
    if (rc != QP_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    return qp_close(q, NULL) == QP_OK && rc == QP_OK ? 0 : 1;
}
