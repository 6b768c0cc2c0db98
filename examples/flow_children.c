/* flow_children.c - flows that start flows: an order that goes out in two parcels, each a job of its own
 *
 * usage: flow_children FILE                  does what there is to do now
 *        flow_children FILE WORKFLOW ID      starts a job before that
 *        flow_children                       the same with order-1, in memory
 *
 * docs/flows.md explains it, and docs/graphs.md has a graph that starts the same parcels.
 */
#include <quipu.h>
#include <stdio.h>
#include <string.h>

/* A parcel is picked up, and waits for its delivery. One that is called back is fetched. */
static int parcel(qp_flow *flow, qp_str address, void *context)
{
    (void)context;
    QP_TRY(qp_activity(flow, "pick-up", address, NULL, NULL));
    QP_TRY(qp_defer(flow, "fetch-back", address));
    QP_TRY(qp_listen(flow, "delivered", NULL, NULL));
    return qp_return(flow, address);
}

/* An order in two parcels, and a survey that it does not wait for. */
static int order(qp_flow *flow, qp_str input, void *context)
{
    qp_str job = qp_flow_job(flow);
    char first[80];
    char second[80];
    qp_handle parcels[2];
    (void)context;
    (void)snprintf(first, sizeof first, "%.*s-1", (int)job.n, job.p);
    (void)snprintf(second, sizeof second, "%.*s-2", (int)job.n, job.p);
    QP_TRY(qp_begin_child(flow, "parcel", QP_STR("\"Cusco\""), &(struct qp_child){.id = first},
                          &parcels[0]));
    QP_TRY(qp_begin_child(flow, "parcel", QP_STR("\"Lima\""), &(struct qp_child){.id = second},
                          &parcels[1]));
    QP_TRY(qp_all(flow, parcels, 2));
    QP_TRY(qp_child(flow, "survey", input, &(struct qp_child){.detached = true}, NULL));
    return qp_return(flow, QP_STR("\"delivered\""));
}

static int survey(qp_flow *flow, qp_str input, void *context)
{
    (void)context;
    return qp_activity(flow, "ask", input, NULL, NULL);
}

static int say(void *context, qp_task *task)
{
    qp_str topic = qp_task_topic(task);
    qp_str input = qp_task_input(task);
    (void)context;
    printf("%.*s %.*s\n", (int)topic.n, topic.p, (int)input.n, input.p);
    return QP_OK;
}

static int add_all(qp *q, struct qp_err *err)
{
    static const char *const topics[] = {"pick-up", "fetch-back", "ask"};
    static const struct qp_flow_kind flows[] = {{.name = {"parcel", 6}, .function = parcel},
                                                {.name = {"order", 5}, .function = order},
                                                {.name = {"survey", 6}, .function = survey}};
    for (size_t i = 0; i < 3; i++) {
        struct qp_worker worker = {.topic = {topics[i], strlen(topics[i])}, .work = say};
        QP_TRY(qp_worker_add(q, &worker, err));
        QP_TRY(qp_flow_add(q, &flows[i], err));
    }
    return QP_OK;
}

/* Does what there is to do now. */
static int poll_all(qp *q, struct qp_err *err)
{
    do {
        QP_TRY(qp_poll(q, err));
    } while (qp_next_deadline(q) == 0);
    return QP_OK;
}

static int serve(qp *q, const char *workflow, const char *id, struct qp_err *err)
{
    QP_TRY(add_all(q, err));
    if (workflow != NULL) {
        struct qp_start start = {.topic = {workflow, strlen(workflow)},
                                 .id = {id, strlen(id)},
                                 .input = QP_STR("{\"item\":\"quipu\"}")};
        QP_TRY(qp_job_start(q, &start, NULL, err));
    }
    return poll_all(q, err);
}

int main(int argc, char **argv)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    const char *workflow;
    int wrong;
    if (argc == 3 || argc > 4) {
        return fprintf(stderr, "usage: flow_children [FILE [WORKFLOW ID]]\n"), 2;
    }
    qp_options_init(&options);
    options.path = argc > 1 ? argv[1] : NULL;
    if (qp_open(&options, &q, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    workflow = argc == 1 ? "order" : argv[2]; /* NULL behind the last argument */
    wrong = serve(q, workflow, argc == 4 ? argv[3] : "order-1", &err) != QP_OK;
    if (wrong) {
        fprintf(stderr, "%s\n", err.text);
    }
    return qp_close(q, &err) != QP_OK || wrong;
}
