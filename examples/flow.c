/* flow.c - an order as a flow: an ordinary function that survives the end of its process
 *
 * usage: flow                      the whole story, in a temporary directory that is removed at the end
 *        flow FILE order ID        starts the order, and works until it waits for the approval
 *        flow FILE approve ID      sends the approval
 *        flow FILE work ID         works until the order has ended, and prints its output
 *
 * Kill it at any moment and run it again on the same file: the order goes on where it was. docs/flows.md explains it.
 */
#include <poll.h>
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------- the flow */

/* Asks where the parcel is until it is there. What the next round has to know is the state of the loop. */
static int track(qp_flow *flow, void *context)
{
    const qp_str *order = context;
    struct qp_loop loop = {.name = "track", .state = QP_STR("0")};
    while (qp_loop_next(flow, &loop)) {
        qp_str place;
        QP_TRY(qp_activity(flow, "where-is-it", *order, NULL, &place));
        if (qp_str_is(place, "\"delivered\"")) {
            qp_loop_break(flow, &loop, place);
            continue;
        }
        QP_TRY(qp_sleep(flow, 20)); /* of a real parcel: QP_HOURS(6) */
    }
    QP_TRY(loop.rc);
    return qp_return(flow, loop.output);
}

/* No approval: the money goes back, and the order has failed. */
static int give_back(qp_flow *flow, qp_str paid)
{
    QP_TRY(qp_activity(flow, "refund", paid, NULL, NULL));
    return qp_flow_fail(flow, "no approval within three days");
}

/* An order: pay, reserve and insure at once, wait for a person, ship, track. */
static int checkout(qp_flow *flow, qp_str order, void *context)
{
    struct qp_step patient = {.attempts = 5, .backoff_ms = 20, .timeout_ms = QP_SECONDS(30)};
    qp_str paid;
    qp_str answer;
    qp_str place;
    qp_handle parts[2];
    (void)context;
    QP_TRY(qp_activity(flow, "charge", order, &patient, &paid));
    QP_TRY(qp_begin_activity(flow, "reserve", order, NULL, &parts[0]));
    QP_TRY(qp_begin_activity(flow, "insure", order, NULL, &parts[1]));
    QP_TRY(qp_all(flow, parts, 2));
    QP_TRY(qp_listen(flow, "approved", &(struct qp_listen){.timeout_ms = QP_DAYS(3)}, &answer));
    if (answer.p == NULL) {
        return give_back(flow, paid);
    }
    QP_TRY(qp_activity(flow, "ship", order, NULL, NULL));
    QP_TRY(qp_closure(flow, "parcel", track, &order, &place));
    return qp_return(flow, place);
}

/* ---------------------------------------------------------------------------------------- the workers */

/* Takes the money, from a bank that is down at first. */
static int charge(void *context, qp_task *task)
{
    (void)context;
    if (qp_task_attempt(task) < 3) {
        return qp_task_fail(task, &(struct qp_failure){.message = "the bank is down", .code = 503});
    }
    printf("charged\n");
    return qp_task_output(task, QP_STR("{\"charge\":\"c-1\"}"));
}

/* Everything else: says what it does. */
static int say(void *context, qp_task *task)
{
    qp_str topic = qp_task_topic(task);
    (void)context;
    printf("%.*s\n", (int)topic.n, topic.p);
    return qp_task_output(task, qp_task_input(task));
}

/* On its way, until it was asked for three times. */
static int where_is_it(void *context, qp_task *task)
{
    int *asked = context;
    return qp_task_output(task, ++*asked < 3 ? QP_STR("\"on its way\"") : QP_STR("\"delivered\""));
}

static int add_all(qp *q, struct qp_err *err)
{
    static int asked;
    const struct qp_worker workers[] = {
        {.topic = QP_STR("charge"), .work = charge},
        {.topic = QP_STR("reserve"), .work = say},
        {.topic = QP_STR("insure"), .work = say},
        {.topic = QP_STR("ship"), .work = say},
        {.topic = QP_STR("refund"), .work = say},
        {.topic = QP_STR("where-is-it"), .work = where_is_it, .context = &asked},
    };
    for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        QP_TRY(qp_worker_add(q, &workers[i], err));
    }
    return qp_flow_add(q, &(struct qp_flow_kind){.name = QP_STR("checkout"), .function = checkout},
                       err);
}

/* -------------------------------------------------------------------------------------- what is done */

/* Drives the engine, on this thread, while the order has something to do. */
static int work_until_it_waits(qp *q, qp_str id, struct qp_err *err)
{
    struct pollfd fd = {.fd = qp_fd(q), .events = POLLIN};
    bool busy = true;
    while (busy) {
        struct qp_job job;
        QP_TRY(qp_poll(q, err));
        QP_TRY(qp_job_get(q, id, &job, err));
        busy = strcmp(job.status, "running") == 0 || strcmp(job.status, "retrying") == 0;
        if (!busy) {
            printf("%.*s is %s\n", (int)id.n, id.p, job.status);
        }
        qp_job_done(q, &job);
        if (busy && poll(&fd, 1, (int)qp_next_deadline(q)) < 0) {
            return QP_E_IO;
        }
    }
    return QP_OK;
}

/* The same id again is the same order. */
static int order(qp *q, qp_str id, struct qp_err *err)
{
    struct qp_start start = {.topic = QP_STR("checkout"),
                             .id = id,
                             .input = QP_STR("{\"item\":\"quipu\",\"price\":42}")};
    QP_TRY(add_all(q, err));
    QP_TRY(qp_job_start(q, &start, NULL, err));
    return work_until_it_waits(q, id, err);
}

/* A signal is on disk when this returns, whether the order waits for it yet or not. */
static int approve(qp *q, qp_str id, struct qp_err *err)
{
    return qp_signal_send(q,
                          &(struct qp_signal){.job = id,
                                              .topic = QP_STR("approved"),
                                              .payload = QP_STR("{\"by\":\"Ada\"}")},
                          err);
}

static int work(qp *q, qp_str id, struct qp_err *err)
{
    struct qp_job job;
    QP_TRY(add_all(q, err));
    QP_TRY(qp_start_threads(q, 1, err));
    QP_TRY(qp_job_wait(q, id, -1, &job, err));
    printf("%.*s is %s: %.*s\n", (int)id.n, id.p, job.status, (int)job.output.n, job.output.p);
    qp_job_done(q, &job);
    return QP_OK;
}

/* Opens the file, does one of these, and closes it: each is a life of its own. */
static int live(const char *path, const char *id, int (*part)(qp *, qp_str, struct qp_err *))
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    int wrong;
    qp_options_init(&options);
    options.path = path;
    if (qp_open(&options, &q, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    wrong = part(q, (qp_str){id, strlen(id)}, &err) != QP_OK;
    if (wrong) {
        fprintf(stderr, "%s\n", err.text);
    }
    return qp_close(q, &err) != QP_OK || wrong;
}

static int story(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock"};
    const char *tmp = getenv("TMPDIR");
    char dir[200];
    char path[256];
    int rc;
    (void)snprintf(dir, sizeof dir, "%s/quipu-flow.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return fprintf(stderr, "cannot make a directory like %s\n", dir), 1;
    }
    (void)snprintf(path, sizeof path, "%s/shop.db", dir);
    rc = live(path, "order-1", order) || live(path, "order-1", approve) ||
         live(path, "order-1", work);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[280];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(dir);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*part)(qp *, qp_str, struct qp_err *);
    } parts[] = {{"order", order}, {"approve", approve}, {"work", work}};
    for (size_t i = 0; argc == 4 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[2], parts[i].name) == 0) {
            return live(argv[1], argv[3], parts[i].part);
        }
    }
    if (argc == 1) {
        return story();
    }
    return fprintf(stderr, "usage: flow [FILE order|approve|work ID]\n"), 1;
}
