/* run.c - quipu run: works on a store until nothing is left to do
 *
 * The engine and its workers are this one thread. A worker is a program: the task's input is its
 * stdin, its stdout the output, and when it fails, its stderr is the error. It ends when nothing
 * is due any more, now or later: every job that is still open waits for somebody else.
 *
 * If we crash while a program runs, its task is ready again for the next run, with a higher
 * attempt.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ask.h"

#define DEFAULT_FILE "quipu.db"
#define ERROR_SIZE 4096

struct program_worker {
    struct cli *c;
    const char *program;
};

/* ------------------------------------------------------------------------------------ a program */

static void set_number(const char *name, int64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    (void)setenv(name, text, 1);
}

static void set_text(const char *name, qp_str value)
{
    char text[QP_ID_SIZE];
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(value)); /* ids and topics fit */
    (void)setenv(name, text, 1);
}

/* In the child. */
static void become(const char *program, qp_task *task, const int fds[3])
{
    char key[QP_TASK_KEY_SIZE];
    qp_task_key(task, key);
    set_text("QUIPU_JOB", qp_task_job(task));
    set_text("QUIPU_TOPIC", qp_task_topic(task));
    set_text("QUIPU_KEY", str_from(key));
    set_number("QUIPU_ATTEMPT", qp_task_attempt(task));
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0) {
            _exit(127);
        }
    }
    (void)execl("/bin/sh", "sh", "-c", program, (char *)NULL);
    _exit(127);
}

/* All of a memory file; false: more than `most`. */
static bool read_back(int fd, struct buf *out, size_t most)
{
    ssize_t n = 1;
    (void)lseek(fd, 0, SEEK_SET);
    while (n > 0 && out->n <= most) {
        char *room = buf_room(out, 4096);
        n = room == NULL ? -1 : read(fd, room, 4096);
        buf_took(out, n > 0 ? (size_t)n : 0);
    }
    while (out->n > 0 && strchr(" \t\r\n", out->p[out->n - 1]) != NULL) {
        out->n--;
    }
    return n == 0 && out->n <= most;
}

/* Its exit code; -1: it could not be started, or died by a signal. */
static int run_program(const char *program, qp_task *task, const int fds[3])
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        become(program, task, fds);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int answer(struct program_worker *w, qp_task *task, int code, const int fds[3])
{
    struct buf text;
    char message[ERROR_SIZE];
    struct qp_err err = {0};
    int rc;
    buf_init(&text, &w->c->env, 0);
    if (code == 0) {
        rc =
            read_back(fds[1], &text, LIMIT_PAYLOAD_SIZE)
                ? json_check(&w->c->env, text.n > 0 ? buf_slice(&text) : QP_STR("null"), NULL, &err)
                : err_set(&err, QP_E_TOO_LARGE, "more than %d bytes", LIMIT_PAYLOAD_SIZE);
        rc = rc == QP_OK ? qp_task_output(task, text.n > 0 ? buf_slice(&text) : QP_STR("null"))
                         : qp_task_fail(task, &(struct qp_failure){.message = err.text});
    } else {
        (void)read_back(fds[2], &text, ERROR_SIZE); /* what is longer is cut */
        (void)snprintf(message, sizeof message, "exit code %d: %.*s", code, (int)text.n,
                       text.p != NULL ? text.p : "");
        rc = qp_task_fail(task, &(struct qp_failure){.message = message});
    }
    buf_done(&text);
    return rc;
}

static int work(void *context, qp_task *task)
{
    struct program_worker *w = context;
    qp_str input = qp_task_input(task);
    int fds[3];
    bool good = true;
    int rc = QP_E_IO;
    for (int i = 0; i < 3; i++) {
        fds[i] = memfd_create("quipu-run", MFD_CLOEXEC);
        good = good && fds[i] >= 0;
    }
    good = good && write(fds[0], input.p, input.n) == (ssize_t)input.n;
    if (good) {
        (void)lseek(fds[0], 0, SEEK_SET);
        rc = answer(w, task, run_program(w->program, task, fds), fds);
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- the loop */

static int add_workers(struct cli *c, qp *q, struct program_worker *workers)
{
    struct qp_err err = {0};
    for (size_t i = 0; i < c->many_count[OPT_exec]; i++) {
        const char *typed = c->many[OPT_exec][i];
        const char *equals = strchr(typed, '=');
        struct qp_worker worker = {.work = work, .context = &workers[i], .in_hand = 1};
        if (equals == NULL || equals == typed || equals[1] == '\0') {
            return cli_usage("run: --exec is TOPIC=PROGRAM, not '%s'; see quipu help run", typed);
        }
        workers[i] = (struct program_worker){.c = c, .program = equals + 1};
        worker.topic = (qp_str){typed, (size_t)(equals - typed)};
        if (qp_worker_add(q, &worker, &err) != QP_OK) {
            return cli_fail(c, EXIT_USAGE, "%s", err.text);
        }
    }
    return EXIT_OK;
}

/* Until nothing is due, or the time is over. */
static int drive(struct cli *c, qp *q, int64_t deadline_us)
{
    struct qp_err err = {0};
    for (;;) {
        int rc = qp_poll(q, &err);
        int64_t next_ms = qp_next_deadline(q);
        int64_t left_ms = deadline_us == 0 ? INT64_MAX : (deadline_us - cli_now_us(c)) / 1000;
        struct pollfd fd = {.fd = qp_fd(q), .events = POLLIN};
        if (rc != QP_OK) {
            return cli_fail_next(c, EXIT_ERROR, "quipu fsck", "%s", err.text);
        }
        if (next_ms < 0) {
            return EXIT_OK;
        }
        if (left_ms <= 0) {
            return cli_fail_next(c, EXIT_TIMEOUT, "quipu ls",
                                 "the time is over, and something is left to do");
        }
        next_ms = next_ms < left_ms ? next_ms : left_ms;
        (void)poll(&fd, 1, next_ms < 60000 ? (int)next_ms : 60000); /* another turn does no harm */
    }
}

static int say_topic(void *context, const struct qp_topic *topic)
{
    (void)context;
    if (topic->ready > 0 && topic->workers == 0) {
        cli_say(
            "no worker for the topic '%.*s': %lld tasks wait; next: quipu run --exec %.*s=PROGRAM",
            STR_ARG(topic->name), (long long)topic->ready, STR_ARG(topic->name));
    }
    return QP_OK;
}

int command_run(struct cli *c)
{
    struct program_worker workers[CLI_MANY];
    struct qp_options options;
    struct qp_err err = {0};
    qp_ms timeout = -1;
    qp *q = NULL;
    bool more;
    int rc;
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? cli_settings(c) : status;
    status = status == EXIT_OK ? cli_duration(c, OPT_timeout, &timeout) : status;
    if (status != EXIT_OK) {
        return status;
    }
    if (cli_has(c, OPT_db) && cli_place_is_url(c->values[OPT_db])) {
        return cli_fail_next(
            c, EXIT_USAGE, "quipu serve --store URL",
            "of a database that others share nobody knows when nothing is left to do");
    }
    qp_options_init(&options);
    options.path = cli_place_path(cli_has(c, OPT_db) ? c->values[OPT_db] : DEFAULT_FILE);
    options.env = &c->env;
    rc = access(options.path, F_OK) != 0
             ? err_set(&err, QP_E_NOT_FOUND, "%s: there is no such store", options.path)
             : qp_open(&options, &q, &err);
    if (rc == QP_E_NOT_FOUND) {
        return cli_fail_next(c, EXIT_NOT_FOUND,
                             cli_text(c, "quipu start TOPIC --db %s", options.path), "%s",
                             err.text);
    }
    if (rc != QP_OK) {
        return cli_fail_next(c, rc == QP_E_LOCKED ? EXIT_CONFLICT : EXIT_ERROR, "quipu doctor",
                             "%s", err.text);
    }
    status = qp_builtin_serve(q,
                              &(struct qp_builtin){.shell = c->many[OPT_shell],
                                                   .shell_count = c->many_count[OPT_shell]},
                              &err) == QP_OK
                 ? add_workers(c, q, workers)
                 : cli_fail(c, EXIT_USAGE, "%s", err.text);
    status = status == EXIT_OK ? drive(c, q, timeout < 0 ? 0 : cli_now_us(c) + timeout * 1000 + 1)
                               : status;
    if (status == EXIT_OK &&
        qp_topic_list(q, QP_NONE, QP_NONE, 0, NULL, say_topic, &more, &err) != QP_OK) {
        cli_say("quipu: run: %s", err.text);
    }
    return qp_close(q, &err) == QP_OK ? status : cli_fail(c, EXIT_ERROR, "%s", err.text);
}
