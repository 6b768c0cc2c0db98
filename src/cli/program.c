/* program.c - workers that are programs (see program.h) */
#include "cli/program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ask.h"

#define ERROR_SIZE 4096

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
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* what a server blocks, a program does not */
    (void)signal(SIGPIPE, SIG_DFL);
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
static int execute_program(const char *program, qp_task *task, const int fds[3])
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        become(program, task, fds);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* "exit code 1: the card is good for 100" */
static int fail(qp_task *task, const char *what, qp_str why)
{
    char message[ERROR_SIZE];
    (void)snprintf(message, sizeof message, "%s%s%.*s", what, why.n > 0 ? ": " : "", (int)why.n,
                   why.n > 0 ? why.p : ""); /* what is longer is cut */
    return qp_task_fail(task, &(struct qp_failure){.message = message});
}

static int answer(struct program_worker *w, qp_task *task, int code, const int fds[3])
{
    struct buf text;
    char ended[32];
    struct qp_err err = {0};
    int rc;
    buf_init(&text, &w->c->env, 0);
    if (code == 0) {
        rc =
            read_back(fds[1], &text, LIMIT_PAYLOAD_SIZE)
                ? json_check(&w->c->env, text.n > 0 ? buf_slice(&text) : QP_STR("null"), NULL, &err)
                : err_set(&err, QP_E_TOO_LARGE, "more than %d bytes", LIMIT_PAYLOAD_SIZE);
        rc = rc == QP_OK ? qp_task_output(task, text.n > 0 ? buf_slice(&text) : QP_STR("null"))
                         : fail(task, "its output cannot be taken", str_from(err.text));
    } else {
        (void)read_back(fds[2], &text, ERROR_SIZE); /* what is longer is cut */
        (void)snprintf(ended, sizeof ended, "exit code %d", code);
        rc = fail(task, ended, buf_slice(&text));
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
        rc = answer(w, task, execute_program(w->program, task, fds), fds);
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    return rc;
}

int programs_add(struct cli *c, qp *q, struct program_worker workers[CLI_MANY])
{
    struct qp_err err = {0};
    for (size_t i = 0; i < c->many_count[OPT_exec]; i++) {
        const char *typed = c->many[OPT_exec][i];
        const char *equals = strchr(typed, '=');
        struct qp_worker worker = {.work = work, .context = &workers[i], .in_hand = 1};
        if (equals == NULL || equals == typed || equals[1] == '\0') {
            return cli_usage("%s: --exec is TOPIC=PROGRAM, not '%s'; see quipu help %s",
                             c->command->words, typed, c->command->words);
        }
        workers[i] = (struct program_worker){.c = c, .program = equals + 1};
        worker.topic = (qp_str){typed, (size_t)(equals - typed)};
        if (qp_worker_add(q, &worker, &err) != QP_OK) {
            return cli_fail(c, EXIT_USAGE, "%s", err.text);
        }
    }
    return EXIT_OK;
}
