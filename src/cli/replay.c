/* replay.c - quipu replay: does the code of a flow still fit the histories that were made with older code?
 *
 * For each history a server in memory, on a port and with a token of its own, offers one decision (replay_kind.h); the command
 * of --worker is started with QUIPU_URL and QUIPU_TOKEN, and what it says is judged. No activity runs, and nothing is kept.
 *
 * Exit codes: 0 every event was replayed, and nothing new stands before the last one of its branch; 4 history and code do
 * not fit, and both are printed side by side; 1 the command failed, or said nothing for LIMIT_REPLAY_MS.
 */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/replay_kind.h"
#include "flow/location.h"
#include "server/server.h"

#define SLICE_MS 100
#define END_MS 5000 /* that a worker has to end when it is asked to */

struct replay {
    struct cli *c;
    const char *path;
    const char *worker;
    struct json *exported;
    const char *workflow;
    const struct json *log; /* of the history */
    char dir[256];
    char place[PATH_MAX]; /* `path` from the root: the worker's server reads it */
    struct face face;
    struct server *server;
    pid_t pid;
};

/* --------------------------------------------------------------------------------------- history */

static const char *text_of(struct cli *c, const struct json *json)
{
    qp_str text = QP_NONE;
    return json_as_str(json, &text) ? cli_text(c, "%.*s", STR_ARG(text)) : NULL;
}

static int read_history(struct replay *r)
{
    struct cli *c = r->c;
    struct qp_err err = {0};
    qp_str text;
    int status = input_file(c, r->path, LIMIT_JSON_SIZE, &text);
    if (status != EXIT_OK) {
        return status;
    }
    if (realpath(r->path, r->place) == NULL ||
        json_parse(&c->env, text, &err, &r->exported) != QP_OK) {
        return cli_fail(c, EXIT_USAGE, "'%s': it is no JSON: %s", r->path, err.text);
    }
    r->workflow = text_of(c, json_get(json_get(r->exported, QP_STR("job")), QP_STR("workflow")));
    r->log = json_get(json_get(r->exported, QP_STR("history")), QP_STR("log"));
    return r->workflow != NULL && r->log != NULL
               ? EXIT_OK
               : cli_fail_next(c, EXIT_NOT_FOUND, "quipu export JOB > FILE",
                               "'%s': it is no export of a flow's job that has begun", r->path);
}

/* ---------------------------------------------------------------------------------------- judging */

/* "activity 'charge' v1" */
static const char *words(struct cli *c, const struct json *event)
{
    const char *op = text_of(c, json_get(event, QP_STR("op")));
    const char *name = text_of(c, json_get(event, QP_STR("name")));
    int64_t version = 1;
    if (!json_as_i64(json_get(event, QP_STR("v")), &version) || op == NULL) {
        return "-";
    }
    return name == NULL ? cli_text(c, "%s v%lld", op, (long long)version)
                        : cli_text(c, "%s '%s' v%lld", op, name, (long long)version);
}

static int differ(struct replay *r, const char *what, const char *at, const char *history,
                  const char *code)
{
    printf("%s: %s %s\n    history  %s\n    code     %s\n", r->path, what, at, history, code);
    return EXIT_CONFLICT;
}

static int judge_latent(struct replay *r, const struct json *said)
{
    const struct json *left = json_get(said, QP_STR("left"));
    int status = EXIT_CONFLICT;
    for (size_t i = 0; i < json_count(left); i++) {
        const char *at = text_of(r->c, json_get(json_at(left, i), QP_STR("loc")));
        status = differ(r, "latent at", at == NULL ? "?" : at, words(r->c, json_at(left, i)), "-");
    }
    return status;
}

static bool location_of(const struct json *event, struct location *out_at)
{
    qp_str text;
    return json_as_str(json_get(event, QP_STR("loc")), &text) &&
           location_parse(text, out_at, NULL) == QP_OK && out_at->depth > 0;
}

/* An event of the history that stands at the location or, in the same branch, behind it; NULL: none does. */
static const struct json *stands_behind(const struct replay *r, const struct location *at)
{
    struct location branch = location_parent(at);
    for (size_t i = 0; i < json_count(r->log); i++) {
        struct location other;
        struct location its;
        if (!location_of(json_at(r->log, i), &other)) {
            continue;
        }
        its = location_parent(&other);
        if (location_compare(&its, &branch) == 0 && location_compare(&other, at) >= 0) {
            return json_at(r->log, i);
        }
    }
    return NULL;
}

/* A loop says its state again at the place where it stands. */
static bool is_loop(const struct json *command)
{
    qp_str op;
    return json_as_str(json_get(command, QP_STR("op")), &op) && str_equal(op, QP_STR("loop"));
}

static int judge_command(struct replay *r, const struct json *command)
{
    const struct json *behind;
    struct location at;
    struct location other;
    char text[LOCATION_TEXT_SIZE];
    if (!location_of(command, &at)) {
        return EXIT_OK; /* the end, or properties */
    }
    behind = stands_behind(r, &at);
    if (behind == NULL ||
        (location_of(behind, &other) && location_compare(&other, &at) == 0 && is_loop(command))) {
        return EXIT_OK;
    }
    (void)location_print(&at, text);
    return differ(r, "new step at", text, words(r->c, behind), words(r->c, command));
}

/* Without the cancel, which stands at no location. */
static size_t count_events(const struct json *log)
{
    struct location at;
    size_t count = 0;
    for (size_t i = 0; i < json_count(log); i++) {
        count += location_of(json_at(log, i), &at);
    }
    return count;
}

static int judge_commands(struct replay *r, const struct json *commands)
{
    for (size_t i = 0; i < json_count(commands); i++) {
        int status = judge_command(r, json_at(commands, i));
        if (status != EXIT_OK) {
            return status;
        }
    }
    printf("%s: %zu events of '%s' were replayed\n", r->path, count_events(r->log), r->workflow);
    return EXIT_OK;
}

static int judge(struct replay *r, qp_str output)
{
    struct json *said = NULL;
    const char *status;
    int code;
    if (json_parse(&r->c->env, output, NULL, &said) != QP_OK) {
        return cli_fail(r->c, EXIT_ERROR, "%s: the worker's answer cannot be read", r->path);
    }
    status = text_of(r->c, json_get(said, QP_STR("status")));
    if (status != NULL && strcmp(status, "diverged") == 0) {
        const char *at = text_of(r->c, json_get(said, QP_STR("at")));
        code = differ(r, "diverged at", at == NULL ? "?" : at,
                      words(r->c, json_get(said, QP_STR("history"))),
                      words(r->c, json_get(said, QP_STR("code"))));
    } else if (status != NULL && strcmp(status, "latent") == 0) {
        code = judge_latent(r, said);
    } else {
        code = judge_commands(r, json_get(said, QP_STR("commands")));
    }
    json_free(said);
    return code;
}

/* ---------------------------------------------------------------------------------------- worker */

static int start_server(struct replay *r)
{
    struct qp_err err = {0};
    const struct face *faces[] = {&r->face};
    const char *base = getenv("TMPDIR");
    struct server_options options = {.env = &r->c->env,
                                     .data = r->dir,
                                     .store = "memory",
                                     .listen = {"127.0.0.1:0"},
                                     .listen_count = 1,
                                     .token_rate = -1,
                                     .faces = faces,
                                     .face_count = 1};
    (void)snprintf(r->dir, sizeof r->dir, "%s/quipu-replay.XXXXXX",
                   base != NULL && *base != '\0' && strlen(base) < 200 ? base : "/tmp");
    if (mkdtemp(r->dir) == NULL) {
        r->dir[0] = '\0';
        return cli_fail(r->c, EXIT_ERROR, "a directory in /tmp: %s", strerror(errno));
    }
    r->face = replay_face(r->workflow);
    return server_open(&options, &r->server, &err) == QP_OK
               ? EXIT_OK
               : cli_fail(r->c, EXIT_ERROR, "%s", err.text);
}

static int start_job(struct replay *r)
{
    struct qp_err err = {0};
    struct buf text;
    struct json_writer w;
    int rc;
    buf_init(&text, &r->c->env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    json_key(&w, QP_STR("file"));
    json_put_str(&w, str_from(r->place));
    json_end_object(&w);
    rc = json_writer_done(&w);
    if (rc == QP_OK) {
        rc = qp_job_start(server_engine(r->server),
                          &(struct qp_start){.topic = str_from(r->workflow),
                                             .id = QP_STR("replay"),
                                             .input = buf_slice(&text)},
                          NULL, &err);
    }
    buf_done(&text);
    return rc == QP_OK ? EXIT_OK : cli_fail(r->c, EXIT_ERROR, "%s: %s", r->path, err.text);
}

/* In the child. Its output is for people: stdout is ours. */
static void become(const struct replay *r, const char *token)
{
    char url[200];
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0);
    (void)snprintf(url, sizeof url, "http://%s", server_name(r->server, 0));
    (void)setenv("QUIPU_URL", url, 1);
    (void)setenv("QUIPU_TOKEN", token, 1);
    if (dup2(2, 1) < 0) {
        _exit(127);
    }
    (void)execl("/bin/sh", "sh", "-c", r->worker, (char *)NULL);
    _exit(127);
}

static int start_worker(struct replay *r)
{
    char token[256] = "";
    const char *path = server_token_file(r->server);
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    if (file == NULL || fgets(token, sizeof token, file) == NULL) {
        token[0] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    token[strcspn(token, "\r\n")] = '\0';
    (void)fflush(stdout);
    r->pid = fork();
    if (r->pid == 0) {
        become(r, token);
    }
    return r->pid > 0 ? EXIT_OK : cli_fail(r->c, EXIT_ERROR, "%s: %s", r->worker, strerror(errno));
}

/* The worker is asked to end, and then it is ended, with all that it has started. */
static void end_worker(struct replay *r)
{
    int64_t until_us = cli_now_us(r->c) + END_MS * 1000;
    if (r->pid <= 0) {
        return;
    }
    (void)kill(-r->pid, SIGTERM);
    while (waitpid(r->pid, NULL, WNOHANG) == 0 && cli_now_us(r->c) < until_us) {
        cli_sleep_ms(10);
    }
    (void)kill(-r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0);
    r->pid = 0;
}

static bool worker_has_ended(struct replay *r)
{
    int status = 0;
    if (waitpid(r->pid, &status, WNOHANG) != r->pid) {
        return false;
    }
    (void)kill(-r->pid, SIGKILL);
    r->pid = 0;
    return true;
}

static int judge_job(struct replay *r, const struct qp_job *job)
{
    return strcmp(job->status, "completed") == 0
               ? judge(r, job->output)
               : cli_fail(r->c, EXIT_ERROR, "%s: the worker has failed: %.*s", r->path,
                          STR_ARG(job->error));
}

static int await_answer(struct replay *r)
{
    qp *q = server_engine(r->server);
    int64_t until_us = cli_now_us(r->c) + LIMIT_REPLAY_MS * 1000;
    while (cli_now_us(r->c) < until_us) {
        struct qp_err err = {0};
        struct qp_job job;
        int rc = qp_job_wait(q, QP_STR("replay"), SLICE_MS, &job, &err);
        if (rc == QP_OK) {
            int status = judge_job(r, &job);
            qp_job_done(q, &job);
            return status;
        }
        if (rc != QP_E_TIMEOUT) {
            return cli_fail(r->c, EXIT_ERROR, "%s: %s", r->path, err.text);
        }
        if (worker_has_ended(r)) {
            return cli_fail(r->c, EXIT_ERROR, "%s: the worker ended before it said anything: %s",
                            r->path, r->worker);
        }
    }
    return cli_fail(r->c, EXIT_ERROR,
                    "%s: the worker has said nothing of the flow '%s' for %d s: %s", r->path,
                    r->workflow, LIMIT_REPLAY_MS / 1000, r->worker);
}

/* ------------------------------------------------------------------------------------------- all */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void clean_up(struct replay *r)
{
    end_worker(r);
    if (r->server != NULL) {
        (void)server_close(r->server);
    }
    if (r->dir[0] != '\0' && nftw(r->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        cli_say("quipu: replay: %s could not be removed", r->dir);
    }
    json_free(r->exported);
}

static int replay_one(struct cli *c, const char *path)
{
    static int (*const stages[])(struct replay *) = {read_history, start_server, start_job,
                                                     start_worker, await_answer};
    struct replay *r = ARENA_NEW(&c->arena, struct replay);
    int status = EXIT_OK;
    if (r == NULL) {
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    *r = (struct replay){.c = c, .path = path, .worker = c->values[OPT_worker]};
    for (size_t i = 0; i < ARRAY_COUNT(stages) && status == EXIT_OK; i++) {
        status = stages[i](r);
    }
    clean_up(r);
    (void)fflush(stdout);
    return status;
}

static int is_json(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot != NULL && strcmp(dot, ".json") == 0;
}

/* A failure of the worker weighs more than a history that does not fit, and each more than none. */
static int worse(int a, int b)
{
    return a == EXIT_OK || (a == EXIT_CONFLICT && b != EXIT_OK) ? b : a;
}

static int replay_directory(struct cli *c, const char *directory)
{
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, is_json, alphasort);
    int status = EXIT_OK;
    if (count < 0) {
        return cli_fail(c, EXIT_USAGE, "'%s': %s", directory, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        status = worse(status, replay_one(c, cli_text(c, "%s/%s", directory, entries[i]->d_name)));
        free(entries[i]);
    }
    free(entries);
    return count > 0 ? status
                     : cli_fail_next(c, EXIT_USAGE, "quipu export JOB > FILE.json",
                                     "'%s': there is no file *.json in it", directory);
}

int command_replay(struct cli *c)
{
    struct stat info;
    int status = cli_expect(c, 1, 1);
    if (status != EXIT_OK) {
        return status;
    }
    if (!cli_has(c, OPT_worker)) {
        return cli_usage("replay: --worker is missing: the command that serves the flow");
    }
    return stat(c->arguments[0], &info) == 0 && S_ISDIR(info.st_mode)
               ? replay_directory(c, c->arguments[0])
               : replay_one(c, c->arguments[0]);
}
