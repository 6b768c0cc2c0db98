/* detached.c - activities that complete later, without a thread: a slow service, and tasks that wait for its answers
 *
 * usage: detached [FILE]      without a file, in memory
 *
 * One thread does it all. The worker's function only sends a request and gives the task to the loop, which completes it
 * when the answer has come. The service is a timer here, so that the example needs nothing else; sockets, libcurl's multi
 * interface and libuv fit in the same way.
 */
#include <poll.h>
#include <quipu.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MOST 8 /* under way at a time: also the worker's in_hand */

/* What is under way; task NULL: a free place. */
struct request {
    qp_task *task;
    int fd; /* readable when the answer has come */
};
static struct request requests[MOST];

/* Sends a request, and returns at once. There is a free place, since no more than in_hand tasks are given. */
static int begin(void *context, qp_task *task)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = 20 * 1000 * 1000}};
    struct request *r = requests;
    struct qp_err err;
    (void)context;
    while (r->task != NULL) {
        r++;
    }
    r->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (r->fd < 0 || timerfd_settime(r->fd, 0, &soon, NULL) != 0) {
        return qp_task_fail(task, &(struct qp_failure){.message = "no timer", .code = 503});
    }
    r->task = task;
    return qp_task_detach(task, &err);
}

/* The service has answered: so has the task. QP_E_STALE: its job was ended meanwhile, and that is all. */
static int complete(struct request *r, struct qp_err *err)
{
    char answer[64];
    qp_task *task = r->task;
    qp_str input = qp_task_input(task);
    int rc;
    (void)snprintf(answer, sizeof answer, "[%.*s]", (int)input.n, input.p);
    (void)close(r->fd);
    r->task = NULL;
    rc = qp_task_complete(task, (qp_str){answer, strlen(answer)}, err);
    return rc == QP_E_STALE ? QP_OK : rc;
}

/* The engine and all that is under way, in one poll. */
static int turn(qp *q, bool *out_left, struct qp_err *err)
{
    struct pollfd fds[MOST + 1];
    int64_t wait_ms;
    int rc = qp_poll(q, err);
    for (int i = 0; i < MOST; i++) {
        fds[i] =
            (struct pollfd){.fd = requests[i].task != NULL ? requests[i].fd : -1, .events = POLLIN};
    }
    fds[MOST] = (struct pollfd){.fd = qp_fd(q), .events = POLLIN};
    wait_ms = qp_next_deadline(q);
    rc = rc == QP_OK ? qp_work_left(q, out_left, err) : rc;
    if (rc != QP_OK || !*out_left || poll(fds, MOST + 1, (int)wait_ms) < 0) {
        return rc;
    }
    for (int i = 0; i < MOST && rc == QP_OK; i++) {
        rc = fds[i].revents != 0 ? complete(&requests[i], err) : QP_OK;
    }
    return rc;
}

static int run(qp *q, struct qp_err *err)
{
    static const char *const inputs[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
    struct qp_worker worker = {.topic = QP_STR("ask"), .work = begin, .in_hand = MOST};
    bool left = true;
    int rc = qp_worker_add(q, &worker, err);
    for (size_t i = 0; i < 10 && rc == QP_OK; i++) {
        qp_str input = {inputs[i], strlen(inputs[i])};
        struct qp_start start = {.topic = QP_STR("ask"), .id = input, .input = input};
        rc = qp_job_start(q, &start, NULL, err);
    }
    while (rc == QP_OK && left) {
        rc = turn(q, &left, err);
    }
    for (size_t i = 0; i < 10 && rc == QP_OK; i++) {
        struct qp_job job;
        rc = qp_job_get(q, (qp_str){inputs[i], strlen(inputs[i])}, &job, err);
        if (rc == QP_OK) {
            printf("%s: %s %.*s\n", inputs[i], job.status, (int)job.output.n, job.output.p);
            rc = strcmp(job.status, "completed") == 0 ? QP_OK : QP_E_INTERNAL;
            qp_job_done(q, &job);
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct qp_options options;
    struct qp_err err = {0};
    int rc;
    qp *q;
    qp_options_init(&options);
    options.path = argc > 1 ? argv[1] : NULL;
    if (qp_open(&options, &q, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    rc = run(q, &err);
    if (rc != QP_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    return qp_close(q, &err) != QP_OK || rc != QP_OK;
}
