/* flow_upgrade.c - the code of a flow changes while orders are on their way
 *
 * usage: flow_upgrade [FILE]      without a file, one in a temporary directory that is removed at the end
 *
 * One order waits for its approval when the program is replaced by one with other steps. It goes on with the new code from
 * where it stands. Then somebody makes a mistake: the order is parked, the reason says what does not fit, and when the mistake is
 * undone the order is finished. docs/flows.md explains it.
 */
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first version of the program. */
static int checkout_1(qp_flow *flow, qp_str order, void *context)
{
    (void)context;
    QP_TRY(qp_activity(flow, "charge", order, NULL, NULL));
    QP_TRY(qp_activity(flow, "print-label", order, NULL, NULL));
    QP_TRY(qp_listen(flow, "approved", NULL, NULL));
    QP_TRY(qp_activity(flow, "ship", order, NULL, NULL));
    QP_TRY(qp_listen(flow, "received", NULL, NULL));
    return qp_return(flow, QP_STR("\"by mail\""));
}

/* The second: orders are insured, labels are no longer printed, and a drone brings what was not shipped yet. */
static int checkout_2(qp_flow *flow, qp_str order, void *context)
{
    int64_t version;
    (void)context;
    QP_TRY(qp_activity(flow, "charge", order, NULL, NULL));
    QP_TRY(qp_activity(qp_v(flow, 2), "insure", order, NULL, NULL));
    QP_TRY(qp_removed(flow, QP_EVENT_ACTIVITY, "print-label"));
    QP_TRY(qp_listen(flow, "approved", NULL, NULL));
    QP_TRY(qp_check_version(flow, 2, &version));
    if (version < 2) {
        QP_TRY(qp_activity(flow, "ship", order, NULL, NULL));
    } else {
        QP_TRY(qp_activity(qp_v(flow, 2), "fly", order, NULL, NULL));
    }
    QP_TRY(qp_listen(flow, "received", NULL, NULL));
    return qp_return(flow, version < 2 ? QP_STR("\"by mail\"") : QP_STR("\"by air\""));
}

/* The mistake: another first step, and not a word about it. */
static int checkout_wrong(qp_flow *flow, qp_str order, void *context)
{
    (void)context;
    QP_TRY(qp_activity(flow, "greet", order, NULL, NULL));
    return checkout_2(flow, order, context);
}

static int say(void *context, qp_task *task)
{
    qp_str topic = qp_task_topic(task);
    (void)context;
    printf("%.*s\n", (int)topic.n, topic.p);
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

static int tell(qp *q, struct qp_err *err)
{
    struct qp_job job;
    qp_str text;
    QP_TRY(qp_job_get(q, QP_STR("order-1"), &job, err));
    text = job.output.p != NULL ? job.output : job.error;
    printf("order-1 is %s %.*s\n", job.status, (int)text.n, text.p != NULL ? text.p : "");
    qp_job_done(q, &job);
    return QP_OK;
}

/* One life of the program: this code, one action, all that follows from it. */
struct life {
    const char *title;
    qp_flow_function code;
    const char *signal; /* NULL: none is sent */
    bool starts;
    bool retries;
};

static int act(qp *q, const struct life *life, struct qp_err *err)
{
    if (life->starts) {
        QP_TRY(qp_job_start(q,
                            &(struct qp_start){.topic = QP_STR("checkout"),
                                               .id = QP_STR("order-1"),
                                               .input = QP_STR("{\"item\":\"quipu\"}")},
                            NULL, err));
    }
    if (life->retries) {
        QP_TRY(qp_job_retry(q, QP_STR("order-1"), err));
    }
    if (life->signal != NULL) {
        QP_TRY(qp_signal_send(q,
                              &(struct qp_signal){.job = QP_STR("order-1"),
                                                  .topic = {life->signal, strlen(life->signal)},
                                                  .payload = QP_STR("null")},
                              err));
    }
    return poll_all(q, err);
}

static int serve(qp *q, const struct life *life, struct qp_err *err)
{
    static const char *const topics[] = {"charge", "print-label", "insure", "ship", "fly", "greet"};
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        struct qp_worker worker = {.topic = {topics[i], strlen(topics[i])}, .work = say};
        QP_TRY(qp_worker_add(q, &worker, err));
    }
    QP_TRY(qp_flow_add(
        q, &(struct qp_flow_kind){.name = QP_STR("checkout"), .function = life->code}, err));
    QP_TRY(act(q, life, err));
    return tell(q, err);
}

static int live(const char *path, const struct life *life)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    int wrong;
    printf("-- %s\n", life->title);
    qp_options_init(&options);
    options.path = path;
    if (qp_open(&options, &q, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    wrong = serve(q, life, &err) != QP_OK;
    if (wrong) {
        fprintf(stderr, "%s\n", err.text);
    }
    return qp_close(q, &err) != QP_OK || wrong;
}

static int lives(const char *path)
{
    static const struct life all[] = {
        {.title = "the first version", .code = checkout_1, .starts = true},
        {.title = "the second version", .code = checkout_2, .signal = "approved"},
        {.title = "a mistake", .code = checkout_wrong, .signal = "received"},
        {.title = "undone", .code = checkout_2, .retries = true},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && rc == 0; i++) {
        rc = live(path, &all[i]);
    }
    return rc;
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock"};
    const char *tmp = getenv("TMPDIR");
    char dir[200];
    char path[256];
    int rc;
    if (argc > 1) {
        return lives(argv[1]);
    }
    (void)snprintf(dir, sizeof dir, "%s/quipu-upgrade.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return fprintf(stderr, "cannot make a directory like %s\n", dir), 1;
    }
    (void)snprintf(path, sizeof path, "%s/shop.db", dir);
    rc = lives(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[280];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(dir);
    return rc;
}
