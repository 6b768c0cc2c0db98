/* run.c - quipu run: works on a store until nothing is left to do
 *
 * The engine and its workers (program.h) are this one thread. It ends when every job that is still open waits for somebody
 * else: what the store keeps for a while only (qp_work_left) is not waited for.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/program.h"

#define DEFAULT_FILE "quipu.db"

#define SLEEP_MOST_MS 60000 /* another turn does no harm */

/* Until the engine asks for a turn, or the time is over. */
static void rest(qp *q, int64_t left_ms)
{
    struct pollfd fd = {.fd = qp_fd(q), .events = POLLIN};
    int64_t ms = qp_next_deadline(q);
    ms = ms < 0 || ms > SLEEP_MOST_MS ? SLEEP_MOST_MS : ms;
    (void)poll(&fd, 1,
               (int)(ms < left_ms ? ms : left_ms)); /* a signal only makes it look earlier */
}

/* Until nothing is left to do, or the time is over. */
static int drive(struct cli *c, qp *q, int64_t deadline_us)
{
    struct qp_err err = {0};
    for (;;) {
        bool left = false;
        int rc = qp_poll(q, &err);
        int64_t left_ms = deadline_us == 0 ? INT64_MAX : (deadline_us - cli_now_us(c)) / 1000;
        rc = rc == QP_OK ? qp_work_left(q, &left, &err) : rc;
        if (rc != QP_OK) {
            return cli_fail_next(c, EXIT_ERROR, "quipu fsck", "%s", err.text);
        }
        if (!left) {
            return EXIT_OK;
        }
        if (left_ms <= 0) {
            return cli_fail_next(c, EXIT_TIMEOUT, "quipu ls",
                                 "the time is over, and something is left to do");
        }
        rest(q, left_ms);
    }
}

static int say_topic(void *context, const struct qp_topic *topic)
{
    struct cli *c = context;
    const char *next = str_equal(topic->name, QP_STR("quipu.shell"))
                           ? "--shell NAME=/PROGRAM"
                           : cli_text(c, "--exec %.*s=PROGRAM", STR_ARG(topic->name));
    if (topic->ready > 0 && topic->workers == 0) {
        cli_say("no worker for the topic '%.*s': %lld tasks wait; next: quipu run %s",
                STR_ARG(topic->name), (long long)topic->ready, next);
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
            "a database that others share may get new work at any time, so this would not end");
    }
    qp_options_init(&options);
    options.path = cli_place_path(cli_has(c, OPT_db) ? c->values[OPT_db] : DEFAULT_FILE);
    options.env = &c->env;
    options.accept_loss = cli_has(c, OPT_accept_loss);
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
                 ? programs_add(c, q, workers)
                 : cli_fail(c, EXIT_USAGE, "%s", err.text);
    status = status == EXIT_OK ? drive(c, q, timeout < 0 ? 0 : cli_now_us(c) + timeout * 1000 + 1)
                               : status;
    if (status == EXIT_OK &&
        qp_topic_list(q, QP_NONE, QP_NONE, 0, c, say_topic, &more, &err) != QP_OK) {
        cli_say("quipu: run: %s", err.text);
    }
    return qp_close(q, &err) == QP_OK ? status : cli_fail(c, EXIT_ERROR, "%s", err.text);
}
