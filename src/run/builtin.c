/* builtin.c - workers that come with the engine: quipu.echo, quipu.fail, quipu.shell
 *
 * They are worker functions like a host's own, on the engine's worker threads. quipu.shell starts a program of the
 * operator's list by its path, with arguments from the task and no shell in between, an environment of PATH and LANG alone, and
 * in a process group of its own, which is ended when its time is over or its job has ended.
 *
 * If we crash while a program runs, it is on its own; its task is delivered again, as any other's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "run/enter.h"
#include "run/handle.h"

/* A member, or what it is otherwise. */
static int64_t number_of(const struct json *object, const char *name, int64_t otherwise)
{
    int64_t number;
    return json_as_i64(json_get(object, str_from(name)), &number) ? number : otherwise;
}

static qp_str text_of(const struct json *object, const char *name, qp_str otherwise)
{
    qp_str text;
    return json_as_str(json_get(object, str_from(name)), &text) ? text : otherwise;
}

/* ------------------------------------------------------------------------------------ echo and fail */

static int work_echo(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, qp_task_input(task));
}

static int work_fail(void *context, qp_task *task)
{
    const struct qp_env *env = &task->q->env;
    struct json *input = NULL;
    char message[LIMIT_ERROR_TEXT_SIZE];
    qp_str text = QP_STR("it was asked to fail");
    int64_t code = 500;
    int64_t times = INT64_MAX;
    (void)context;
    if (json_parse(env, qp_task_input(task), NULL, &input) == QP_OK) {
        code = number_of(input, "code", code);
        times = number_of(input, "times", times);
        text = text_of(input, "message", text);
    }
    (void)snprintf(message, sizeof message, "%.*s", STR_ARG(text));
    json_free(input);
    if (task->task->failures >= times) {
        return qp_task_output(task, qp_task_input(task));
    }
    return qp_task_fail(task, &(struct qp_failure){.message = message, .code = (int)code});
}

/* --------------------------------------------------------------------------------------------- shell */

/* A program that runs, and what it says. */
struct running {
    pid_t pid; /* 0: it was waited for */
    int in;
    int out;
    int err;
    size_t written;
    struct buf said;
    struct buf complained;
};

/* What a task asks for. */
struct asked {
    struct json *json;
    char path[LIMIT_STORE_NAME_SIZE];
    char *arguments[LIMIT_SHELL_ARGUMENTS + 2];
    qp_str in;
    qp_ms timeout_ms;
};

struct shell {
    size_t count;
    char *list[]; /* "name=/the/program" */
};

static const char *program_of(const struct shell *shell, qp_str name)
{
    for (size_t i = 0; i < shell->count; i++) {
        const char *equals = strchr(shell->list[i], '=');
        if (str_equal(name, (qp_str){shell->list[i], (size_t)(equals - shell->list[i])})) {
            return equals + 1;
        }
    }
    return NULL;
}

static int refuse(qp_task *task, const char *why)
{
    return qp_task_fail(task, &(struct qp_failure){.message = why, .code = 422, .fatal = 1});
}

static_assert(LIMIT_SHELL_ARGUMENTS == 64 && LIMIT_SHELL_MOST_MS == 3600000 &&
                  LIMIT_SHELL_OUTPUT_SIZE == 256 * 1024,
              "sentences below name them");

static int ask_arguments(qp_task *task, struct asked *a)
{
    const struct json *list = json_get(a->json, QP_STR("arguments"));
    size_t n = json_count(list);
    if (list != NULL && !json_is(list, JSON_KIND_ARRAY)) {
        return refuse(task, "arguments: a list of texts");
    }
    if (n > LIMIT_SHELL_ARGUMENTS) {
        return refuse(task, "arguments: there are more than 64");
    }
    for (size_t i = 0; i < n; i++) {
        qp_str text;
        if (!json_as_str(json_at(list, i), &text)) {
            return refuse(task, "arguments: they are texts");
        }
        a->arguments[i + 1] = mem_alloc(&task->q->env, text.n + 1);
        if (a->arguments[i + 1] == NULL) {
            return QP_E_NOMEM;
        }
        memcpy(a->arguments[i + 1], text.p, text.n);
    }
    return QP_OK;
}

/* A field that is misspelt would else be a setting that is silently not there. */
static int ask_fields(qp_task *task, const struct asked *a)
{
    static const char *const known[] = {"command", "arguments", "stdin", "timeout_ms"};
    struct json_walk w = {0};
    char why[LIMIT_LOG_ECHO_SIZE];
    while (json_each(a->json, &w)) {
        bool found = false;
        for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
            found = found || str_equal(w.key, str_from(known[i]));
        }
        if (!found) {
            (void)snprintf(why, sizeof why,
                           "quipu.shell: no field '%.*s'; there are command, arguments, stdin, "
                           "timeout_ms",
                           (int)(w.key.n < 60 ? w.key.n : 60), w.key.p);
            return refuse(task, why);
        }
    }
    return QP_OK;
}

static int ask_rest(qp_task *task, struct asked *a)
{
    const struct json *in = json_get(a->json, QP_STR("stdin"));
    const struct json *timeout = json_get(a->json, QP_STR("timeout_ms"));
    int64_t timeout_ms = LIMIT_SHELL_MS;
    if (in != NULL && !json_as_str(in, &a->in)) {
        return refuse(task, "stdin: a text");
    }
    if (timeout != NULL && (!json_as_i64(timeout, &timeout_ms) || timeout_ms < 1 ||
                            timeout_ms > LIMIT_SHELL_MOST_MS)) {
        return refuse(task, "timeout_ms: a whole number from 1 to 3600000");
    }
    a->timeout_ms = timeout_ms;
    return ask_arguments(task, a);
}

static int ask(const struct shell *shell, qp_task *task, struct asked *a)
{
    qp_str name = QP_NONE;
    const char *path;
    int rc = json_parse(&task->q->env, qp_task_input(task), NULL, &a->json);
    if (rc != QP_OK || !json_as_str(json_get(a->json, QP_STR("command")), &name)) {
        return refuse(task, "quipu.shell: name the command: {\"command\":\"...\"}");
    }
    path = program_of(shell, name);
    if (path == NULL) {
        return refuse(task, "quipu.shell: the command is not on the operator's list; see --shell");
    }
    (void)snprintf(a->path, sizeof a->path, "%s", path);
    a->arguments[0] = a->path;
    QP_TRY(ask_fields(task, a));
    return ask_rest(task, a);
}

static void asked_done(qp_task *task, struct asked *a)
{
    for (size_t i = 1; i < ARRAY_COUNT(a->arguments); i++) {
        mem_free(&task->q->env, a->arguments[i]);
    }
    json_free(a->json);
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* The program's ends and ours. Its input is a socket: a write to one that has no reader can go without the signal. */
static int pipes_open(int theirs[3], struct running *r)
{
    int pairs[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    bool good = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[0]) == 0 &&
                pipe2(pairs[1], O_CLOEXEC) == 0 && pipe2(pairs[2], O_CLOEXEC) == 0;
    theirs[0] = pairs[0][0];
    theirs[1] = pairs[1][1];
    theirs[2] = pairs[2][1];
    r->in = pairs[0][1];
    r->out = pairs[1][0];
    r->err = pairs[2][0];
    if (good) {
        (void)fcntl(r->out, F_SETFL, O_NONBLOCK); /* a pipe takes any flag of this kind */
        (void)fcntl(r->err, F_SETFL, O_NONBLOCK);
    }
    return good ? QP_OK : QP_E_LIMIT;
}

static int launch(const struct asked *a, const int theirs[3], struct running *r)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    static char language[] = "LANG=C.UTF-8";
    char *environment[] = {path, language, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all; /* what a server blocks and ignores is not meant for others */
    int failed = posix_spawn_file_actions_init(&actions);
    failed = failed != 0 ? failed : posix_spawnattr_init(&attributes);
    for (int i = 0; i < 3 && failed == 0; i++) {
        failed = posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
    }
    failed = failed != 0 ? failed : posix_spawnattr_setpgroup(&attributes, 0);
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    failed = failed != 0 ? failed : posix_spawnattr_setsigmask(&attributes, &none);
    failed = failed != 0 ? failed : posix_spawnattr_setsigdefault(&attributes, &all);
    failed = failed != 0 ? failed
                         : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                                                     POSIX_SPAWN_SETSIGMASK |
                                                                     POSIX_SPAWN_SETSIGDEF);
    failed = failed != 0
                 ? failed
                 : posix_spawn(&r->pid, a->path, &actions, &attributes, a->arguments, environment);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return failed == 0 ? QP_OK : QP_E_NOT_FOUND;
}

/* What is there to read; the end closes it. */
static void take_output(int *fd, struct buf *into)
{
    char bytes[4096];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n > 0) {
        buf_add(into, bytes, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_one(fd);
    }
}

static void give_input(struct running *r, qp_str in)
{
    ssize_t n = r->written < in.n
                    ? send(r->in, in.p + r->written, in.n - r->written, MSG_NOSIGNAL | MSG_DONTWAIT)
                    : 0;
    r->written += n > 0 ? (size_t)n : 0;
    if (r->written == in.n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close_one(&r->in);
    }
}

static bool has_ended(struct running *r, int *status)
{
    if (waitpid(r->pid, status, WNOHANG) != r->pid) {
        return false;
    }
    r->pid = 0;
    return true;
}

enum ending { ENDED, OVERDUE, TALKATIVE };

/* Until both outputs are closed and it has ended: a program may close them and go on. `status` is that of its end. */
static enum ending listen_to(qp_task *task, const struct asked *a, struct running *r, int *status)
{
    const struct qp_env *env = &task->q->env;
    int64_t until = env->monotonic_us(env->context) + a->timeout_ms * 1000;
    bool silent = false;
    while (!silent || !has_ended(r, status)) {
        struct pollfd fds[] = {{r->in, POLLOUT, 0}, {r->out, POLLIN, 0}, {r->err, POLLIN, 0}};
        if (env->monotonic_us(env->context) > until || qp_task_is_cancelled(task) != 0) {
            return OVERDUE;
        }
        if (buf_rc(&r->said) != QP_OK || buf_rc(&r->complained) != QP_OK) {
            return TALKATIVE;
        }
        (void)poll(fds, 3, silent ? 2 : 50); /* whatever it says, they are looked at */
        if (fds[0].revents != 0) {
            give_input(r, a->in);
        }
        if (fds[1].revents != 0) {
            take_output(&r->out, &r->said);
        }
        if (fds[2].revents != 0) {
            take_output(&r->err, &r->complained);
        }
        silent = r->out < 0 && r->err < 0;
    }
    return buf_rc(&r->said) == QP_OK && buf_rc(&r->complained) == QP_OK ? ENDED : TALKATIVE;
}

static int tell(qp_task *task, const struct running *r, int status)
{
    struct buf out;
    struct json_writer w;
    char message[LIMIT_ERROR_TEXT_SIZE];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    int rc;
    if (code != 0) {
        (void)snprintf(
            message, sizeof message, "it ended with %d: %.*s", code,
            STR_ARG(r->complained.n > 0 ? buf_slice(&r->complained) : buf_slice(&r->said)));
        return qp_task_fail(task, &(struct qp_failure){.message = message});
    }
    buf_init(&out, &task->q->env, LIMIT_PAYLOAD_SIZE);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("code"));
    json_put_i64(&w, code);
    json_key(&w, QP_STR("stdout"));
    json_put_str(&w, r->said.n > 0 ? buf_slice(&r->said) : QP_STR(""));
    json_key(&w, QP_STR("stderr"));
    json_put_str(&w, r->complained.n > 0 ? buf_slice(&r->complained) : QP_STR(""));
    json_end_object(&w);
    rc = json_writer_done(&w);
    rc = rc == QP_OK ? qp_task_output(task, buf_slice(&out)) : rc;
    buf_done(&out);
    return rc;
}

/* Its whole group, which is ours: the number is its own until it was waited for. */
static void end_group(const struct running *r)
{
    int status;
    (void)kill(-r->pid, SIGKILL); /* perhaps all of it is gone already */
    while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR) {}
}

static int execute_program(qp_task *task, const struct asked *a, struct running *r)
{
    char message[LIMIT_ERROR_TEXT_SIZE];
    int theirs[3];
    int status = 0;
    enum ending ending;
    int rc = pipes_open(theirs, r);
    rc = rc == QP_OK ? launch(a, theirs, r) : rc;
    for (int i = 0; i < 3; i++) {
        close_one(&theirs[i]);
    }
    if (rc != QP_OK) {
        (void)snprintf(message, sizeof message, "quipu.shell: '%.200s' cannot be started", a->path);
        return qp_task_fail(task, &(struct qp_failure){.message = message});
    }
    ending = listen_to(task, a, r, &status);
    if (ending == ENDED) {
        return tell(task, r, status);
    }
    if (r->pid != 0) {
        end_group(r);
    }
    return ending == TALKATIVE
               ? refuse(task, "it said more than 256 KiB")
               : qp_task_fail(task, &(struct qp_failure){.message = "its time was over, or its job",
                                                         .code = 504});
}

static int work_shell(void *context, qp_task *task)
{
    struct asked a = {.timeout_ms = LIMIT_SHELL_MS};
    struct running r = {.in = -1, .out = -1, .err = -1};
    int rc;
    buf_init(&r.said, &task->q->env, LIMIT_SHELL_OUTPUT_SIZE);
    buf_init(&r.complained, &task->q->env, LIMIT_SHELL_OUTPUT_SIZE);
    rc = ask(context, task, &a);
    rc = rc == QP_OK ? execute_program(task, &a, &r) : rc;
    close_one(&r.in);
    close_one(&r.out);
    close_one(&r.err);
    buf_done(&r.said);
    buf_done(&r.complained);
    asked_done(task, &a);
    return rc;
}

/* --------------------------------------------------------------------------------------------- serving */

/* It may go later: then its tasks say so. */
static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static int list_check(const struct qp_builtin *b, size_t *out_size, struct qp_err *err)
{
    *out_size = sizeof(struct shell) + b->shell_count * sizeof(char *);
    if (b->shell_count > LIMIT_SHELL_COMMANDS) {
        return err_set(err, QP_E_TOO_LARGE, "quipu.shell: %zu commands, the limit is %d",
                       b->shell_count, LIMIT_SHELL_COMMANDS);
    }
    for (size_t i = 0; i < b->shell_count; i++) {
        const char *equals = strchr(b->shell[i], '=');
        if (equals == NULL || equals == b->shell[i] || equals[1] != '/' ||
            strlen(equals) > LIMIT_STORE_NAME_SIZE) {
            return err_set(err, QP_E_INVALID,
                           "quipu.shell: '%.200s' is not of the form name=/the/program",
                           b->shell[i]);
        }
        if (!is_program(equals + 1)) {
            return err_set(err, QP_E_NOT_FOUND,
                           "quipu.shell: '%.200s' is no program that can be started", b->shell[i]);
        }
        *out_size += strlen(b->shell[i]) + 1;
    }
    return QP_OK;
}

/* A copy in one block, which the handle frees. */
static int shell_keep(qp *q, const struct qp_builtin *b, struct shell **out_shell,
                      struct qp_err *err)
{
    size_t size = 0;
    char *place;
    int rc = list_check(b, &size, err);
    if (rc != QP_OK) {
        return rc;
    }
    *out_shell = mem_alloc(&q->env, size);
    if (*out_shell == NULL) {
        return err_set(err, QP_E_NOMEM, "quipu.shell: out of memory");
    }
    place = (char *)((*out_shell)->list + b->shell_count);
    for (size_t i = 0; i < b->shell_count; i++) {
        size_t n = strlen(b->shell[i]) + 1;
        memcpy(place, b->shell[i], n);
        (*out_shell)->list[(*out_shell)->count++] = place;
        place += n;
    }
    return QP_OK;
}

int qp_builtin_serve(qp *q, const struct qp_builtin *b, struct qp_err *err)
{
    ENTER(q, b != NULL, err);
    struct qp_worker echo = {.topic = QP_STR("quipu.echo"), .work = work_echo};
    struct qp_worker fails = {.topic = QP_STR("quipu.fail"), .work = work_fail};
    struct qp_worker shell = {.topic = QP_STR("quipu.shell"), .work = work_shell, .in_hand = 16};
    struct shell *list = NULL;
    int rc = b->shell_count > 0 ? shell_keep(q, b, &list, err) : QP_OK;
    rc = rc == QP_OK ? qp_worker_add(q, &echo, err) : rc;
    rc = rc == QP_OK ? qp_worker_add(q, &fails, err) : rc;
    shell.context = list;
    rc = rc == QP_OK && list != NULL ? qp_worker_add(q, &shell, err) : rc;
    if (rc != QP_OK) {
        mem_free(&q->env, list);
        return rc;
    }
    q->shell = list;
    return QP_OK;
}
