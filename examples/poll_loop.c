/* poll_loop.c - a host with a poll(2) loop of its own: one thread, and the engine is one descriptor among others
 *
 * usage: poll_loop [FILE]      without a file, in memory
 *
 * Orders come in through a pipe, a digit each. The loop starts a job for each, does them when the engine says so, and ends when
 * the pipe is closed and no job has anything left to do.
 */
#include <poll.h>
#include <quipu.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int shipped;

static int ship(void *context, qp_task *task)
{
    qp_str order = qp_task_input(task);
    (void)context;
    printf("shipped %.*s\n", (int)order.n, order.p);
    shipped++;
    return qp_task_output(task, QP_STR("\"shipped\""));
}

/* On the loop's own thread, inside of qp_poll: the job is on disk, or not. */
static void started(void *context, int code, const char *id)
{
    (void)context;
    if (code != QP_OK) {
        fprintf(stderr, "%s: %s\n", id, qp_code_text(code));
    }
}

/* What the pipe has. False: it is closed. */
static bool take_orders(qp *q, int pipe_fd)
{
    char orders[16];
    struct qp_err err;
    ssize_t n = read(pipe_fd, orders, sizeof orders);
    for (ssize_t i = 0; i < n; i++) {
        struct qp_start start = {.topic = QP_STR("ship"),
                                 .id = {&orders[i], 1}, /* the same order again is the same job */
                                 .input = {&orders[i], 1},
                                 .started = started};
        if (qp_job_start_async(q, &start, &err) != QP_OK) {
            fprintf(stderr, "%s\n", err.text);
        }
    }
    return n > 0;
}

/* The loop: the engine's descriptor stands beside those of the host, and its deadline is the timeout. */
static int loop(qp *q, int orders_fd, struct qp_err *err)
{
    struct pollfd fds[] = {{.fd = qp_fd(q), .events = POLLIN}, {.fd = orders_fd, .events = POLLIN}};
    bool left = true;
    while (left) {
        int64_t wait_ms = qp_next_deadline(q);
        if (poll(fds, 2, (int)(wait_ms < 1000 ? wait_ms : 1000)) < 0) {
            return QP_E_IO;
        }
        if (fds[1].revents != 0 && !take_orders(q, orders_fd)) {
            fds[1].fd = -1; /* closed: poll passes it over */
        }
        if (qp_poll(q, err) != QP_OK || qp_work_left(q, &left, err) != QP_OK) {
            return err->code;
        }
        left = left || fds[1].fd >= 0;
    }
    return QP_OK;
}

int main(int argc, char **argv)
{
    struct qp_options options;
    struct qp_err err = {0};
    int ends[2];
    int rc;
    qp *q;
    qp_options_init(&options);
    options.path = argc > 1 ? argv[1] : NULL;
    if (pipe(ends) != 0 || write(ends[1], "12345", 5) != 5 || close(ends[1]) != 0) {
        return fprintf(stderr, "no pipe\n"), 1;
    }
    if (qp_open(&options, &q, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    rc = qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("ship"), .work = ship}, &err);
    rc = rc == QP_OK ? loop(q, ends[0], &err) : rc;
    if (rc != QP_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    (void)close(ends[0]);
    printf("%d orders shipped\n", shipped);
    return qp_close(q, &err) != QP_OK || rc != QP_OK;
}
