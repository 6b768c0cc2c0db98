/* demo_parts.c - the server and the worker of the demo, each in a process of its own
 *
 * The worker is what a worker in any language is: a loop around POST /v1/work. When the server is
 * gone it asks again until it is back, with the same results; a result that was taken before is
 * answered so, and happens once.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "cli/demo.h"
#include "server/server.h"
#include "server/sink.h"

#define WORKER_PATIENCE_MS 60000

/* --------------------------------------------------------------------------------------- server */

int demo_server(const char *dir, int ready)
{
    struct server_options options = {0};
    struct sink sink = {.format = SINK_LOGFMT, .least = QP_LOG_INFO};
    struct server *server = NULL;
    struct qp_env env;
    struct qp_err err = {0};
    char data[256], place[256], log[256];
    sigset_t signals;
    int got;
    (void)snprintf(data, sizeof data, "%s/data", dir);
    (void)snprintf(place, sizeof place, "unix:%s/quipu.sock", dir);
    (void)snprintf(log, sizeof log, "%s/server.log", dir);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    sink.fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    qp_env_init(&env);
    env.context = &sink;
    env.log = sink_write;
    options.env = &env;
    options.data = data;
    options.listen[options.listen_count++] = place;
    env_complete(&env);
    if (server_open(&options, &server, &err) != QP_OK) {
        (void)fprintf(stderr, "quipu: demo: %s; next: quipu doctor\n", err.text);
        return EXIT_ERROR;
    }
    if (write(ready, "r", 1) == 1) {
        (void)sigwait(&signals, &got);
    }
    return server_close(server) ? EXIT_OK : EXIT_ERROR;
}

/* --------------------------------------------------------------------------------------- worker */

static const struct demo_step *step_of(qp_str name)
{
    for (size_t i = 0; i < DEMO_STEPS; i++) {
        if (str_equal(name, str_from(demo_steps[i].name))) {
            return &demo_steps[i];
        }
    }
    return NULL;
}

/* One line for every call, written before anything is done: what a service outside would have
 * seen. */
static void log_call(int calls, const struct json *task)
{
    char line[QP_ID_SIZE + 128];
    qp_str name = member_text(task, "name");
    qp_str job = member_text(task, "job");
    int n = snprintf(line, sizeof line, "%.*s %.*s attempt %lld\n", STR_ARG(name), STR_ARG(job),
                     (long long)member_number(task, "attempt"));
    if (write(calls, line, (size_t)n) != n) {
        _exit(EXIT_ERROR); /* a call that is not counted would make the story a lie */
    }
}

/* Does the task, and writes its result. */
static void do_task(int calls, const struct json *task, struct json_writer *w)
{
    const struct demo_step *step = step_of(member_text(task, "name"));
    log_call(calls, task);
    cli_sleep_ms(step == NULL ? 0 : step->takes_ms);
    json_begin_object(w);
    json_key(w, QP_STR("token"));
    json_put_str(w, member_text(task, "token"));
    json_key(w, QP_STR("output"));
    json_begin_object(w);
    json_key(w, QP_STR("done"));
    json_put_str(w, member_text(task, "name"));
    json_end_object(w);
    json_end_object(w);
}

static void begin_body(struct buf *body, struct json_writer *w)
{
    buf_reset(body);
    json_writer_init(w, body);
    json_begin_object(w);
    json_key(w, QP_STR("worker"));
    json_put_str(w, QP_STR("demo-worker"));
    json_key(w, QP_STR("topics"));
    json_begin_array(w);
    for (size_t i = 0; i < DEMO_STEPS; i++) {
        json_put_str(w, str_from(demo_steps[i].name));
    }
    json_end_array(w);
    json_key(w, QP_STR("want"));
    json_put_i64(w, 1);
    json_key(w, QP_STR("wait"));
    json_put_str(w, QP_STR("5s"));
    json_key(w, QP_STR("results"));
    json_begin_array(w);
}

static void end_body(struct json_writer *w)
{
    json_end_array(w);
    json_end_object(w);
}

/* One call; the results of its tasks are in the next body. */
static int work_once(struct cli *c, int calls, struct buf *body, struct buf *next)
{
    struct reply reply = {0};
    struct json *json = NULL;
    struct json_writer w;
    const struct json *tasks;
    int status = ask_well(c,
                          &(struct question){.method = API_POST,
                                             .path = "/v1/work",
                                             .body = buf_slice(body),
                                             .patience_ms = WORKER_PATIENCE_MS},
                          &reply);
    begin_body(next, &w);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        tasks = json_get(json, QP_STR("tasks"));
        for (size_t i = 0; i < json_count(tasks); i++) {
            do_task(calls, json_at(tasks, i), &w);
        }
    }
    end_body(&w);
    json_free(json);
    reply_done(&reply);
    return status;
}

int demo_worker(struct cli *c, const char *dir)
{
    char path[256];
    struct buf bodies[2];
    struct json_writer w;
    int calls;
    int status = EXIT_OK;
    (void)snprintf(path, sizeof path, "%s/calls", dir);
    calls = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    buf_init(&bodies[0], &c->env, 0);
    buf_init(&bodies[1], &c->env, 0);
    begin_body(&bodies[0], &w);
    end_body(&w);
    for (int i = 0; calls >= 0 && status == EXIT_OK; i = 1 - i) {
        status = work_once(c, calls, &bodies[i], &bodies[1 - i]);
    }
    return status;
}
