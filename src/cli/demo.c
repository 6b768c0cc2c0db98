/* demo.c - quipu demo: one command that tells the story
 *
 * An order goes through its steps; the server is killed with SIGKILL in the middle of one, and
 * started again. What had been finished is not repeated, which the file of raw calls shows, and
 * the digits prove. Then the order waits for a person, goes on, completes, and the store is held
 * against the rules. It fails, with exit code 1, when anything of this is not so: it is a test as
 * well.
 *
 * Everything is in one directory of its own, which is removed at the end. Server and worker die
 * with this process.
 */
#include "cli/demo.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/job_show.h"
#include "cli/jobs.h"
#include "cli/workflows.h"

#define JOB "order-1001"
#define INPUT "{\"item\":\"quipu, wool, 3 cords\",\"amount\":42}"
#define STAGE_MS 30000 /* no stage may take longer */
#define LOOK_MS 20
#define APPROVAL_MS 60000 /* a person who does not answer is not there */

struct demo {
    struct cli *c;
    char dir[128];
    pid_t server;
    pid_t worker;
    int64_t began_us;
    int stage;
};

/* ------------------------------------------------------------------------------------- telling */

/* Time to read, for whoever does. */
static void pause_for(const struct demo *d, qp_ms ms)
{
    (void)fflush(stdout);
    if (!cli_has(d->c, OPT_fast)) {
        cli_sleep_ms(ms);
    }
}

static void title(struct demo *d, const char *text)
{
    bool colors = output_colors(d->c);
    double seconds = (double)(cli_now_us(d->c) - d->began_us) / 1e6;
    printf("\n%s%d. %s%s  [%.1f s]\n", colors ? "\033[1m" : "", ++d->stage, text,
           colors ? "\033[0m" : "", seconds);
    pause_for(d, 1200);
}

static int fail(struct demo *d, const char *text)
{
    return cli_fail_next(
        d->c, EXIT_ERROR,
        cli_text(d->c, "see %s/server.log (quipu demo --keep-files keeps it)", d->dir), "%s", text);
}

/* ----------------------------------------------------------------------------------- processes */

/* A child that dies with us; in the child it is 0. */
static pid_t child(void)
{
    pid_t pid;
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return pid;
}

/* Starts the server, and returns when it can be asked. *out_us: how long that took. */
static int start_server(struct demo *d, int64_t *out_us)
{
    int64_t began_us = cli_now_us(d->c);
    struct pollfd fd = {.events = POLLIN};
    int ends[2];
    char byte;
    bool ready;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail(d, "no pipe");
    }
    d->server = child();
    if (d->server == 0) {
        (void)close(ends[0]);
        _exit(demo_server(d->dir, ends[1]));
    }
    (void)close(ends[1]);
    fd.fd = ends[0];
    ready = d->server > 0 && poll(&fd, 1, STAGE_MS) == 1 && read(ends[0], &byte, 1) == 1;
    (void)close(ends[0]);
    *out_us = cli_now_us(d->c) - began_us;
    return ready ? EXIT_OK : fail(d, "the server does not start");
}

static int start_worker(struct demo *d)
{
    d->worker = child();
    if (d->worker == 0) {
        struct cli *c = d->c;
        c->ask = NULL; /* the connection is our parent's */
        _exit(ask_open(c) == EXIT_OK ? demo_worker(c, d->dir) : EXIT_ERROR);
    }
    return d->worker > 0 ? EXIT_OK : fail(d, "the worker does not start");
}

static int end_child(pid_t *pid, int number)
{
    int status = 0;
    if (*pid <= 0) {
        return 0;
    }
    (void)kill(*pid, number);
    while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {}
    *pid = 0;
    return status;
}

/* ------------------------------------------------------------------------------------ the calls */

/* How often the worker was called for a step: lines of the file that begin with its name. */
static int count_calls(const struct demo *d, const char *step)
{
    char path[160];
    char line[512];
    FILE *file;
    int count = 0;
    size_t n = strlen(step);
    (void)snprintf(path, sizeof path, "%s/calls", d->dir);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        count += strncmp(line, step, n) == 0 && line[n] == ' ';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return count;
}

static int wait_for_call(struct demo *d, const char *step)
{
    int64_t until_us = cli_now_us(d->c) + STAGE_MS * 1000;
    while (count_calls(d, step) == 0) {
        if (cli_now_us(d->c) > until_us) {
            return fail(d, cli_text(d->c, "the worker is not called for '%s'", step));
        }
        cli_sleep_ms(LOOK_MS);
    }
    return EXIT_OK;
}

/* ------------------------------------------------------------------------------------- the job */

static struct json *get(struct demo *d, const char *rest)
{
    struct reply reply = {0};
    struct json *json = NULL;
    if (ask_well(d->c,
                 &(struct question){.path = job_path(d->c, JOB, rest), .patience_ms = STAGE_MS},
                 &reply) == EXIT_OK &&
        json_parse(&d->c->env, buf_slice(&reply.body), NULL, &json) != QP_OK) {
        json = NULL;
    }
    reply_done(&reply);
    return json;
}

/* One digit for each activity, by name: all of the order at a glance. */
static int print_state(struct demo *d)
{
    struct json *json = get(d, "");
    printf("   the order as one number, for approve, charge, pack, receive, reserve, ship: ");
    (void)print_value(stdout, json_get(json, QP_STR("state")));
    (void)fputc('\n', stdout);
    json_free(json);
    return json == NULL ? fail(d, "the order cannot be read") : EXIT_OK;
}

/* The digits of every activity: what is done, as the store has it. */
static int print_digits(struct demo *d)
{
    int status = print_state(d);
    struct json *json = status == EXIT_OK ? get(d, "/activities") : NULL;
    const struct json *items[2 * DEMO_STEPS] = {NULL};
    size_t count = job_activities(json, items, ARRAY_COUNT(items));
    for (size_t i = 0; i < count; i++) {
        qp_str address = member_text(items[i], "address");
        qp_str ledger = member_text(items[i], "ledger");
        qp_str digit = member_text(items[i], "digit");
        qp_str word = member_text(items[i], "status");
        printf("     %-24.*s %.*s  %.*s %.*s\n", STR_ARG(address), STR_ARG(ledger), STR_ARG(digit),
               STR_ARG(word));
    }
    json_free(json);
    pause_for(d, 1200);
    return json == NULL ? fail(d, "the activities cannot be read") : EXIT_OK;
}

/* Is there an activity of this name, and is it so? */
static bool activity_is(struct demo *d, const char *name, const char *word)
{
    struct json *json = get(d, "/activities");
    const struct json *items = json_get(json, QP_STR("items"));
    bool is = false;
    for (size_t i = 0; i < json_count(items); i++) {
        qp_str address = member_text(json_at(items, i), "address");
        is = is || (address.n > strlen(name) && memcmp(address.p, name, strlen(name)) == 0 &&
                    address.p[strlen(name)] == ',' &&
                    str_equal(member_text(json_at(items, i), "status"), str_from(word)));
    }
    json_free(json);
    return is;
}

static int wait_for_activity(struct demo *d, const char *name, const char *word)
{
    int64_t until_us = cli_now_us(d->c) + STAGE_MS * 1000;
    while (!activity_is(d, name, word)) {
        if (cli_now_us(d->c) > until_us) {
            return fail(d, cli_text(d->c, "'%s' is not %s in time", name, word));
        }
        cli_sleep_ms(LOOK_MS);
    }
    return EXIT_OK;
}

static int post(struct demo *d, const char *path, const char *body)
{
    struct reply reply = {0};
    int status = ask_well(
        d->c, &(struct question){.method = API_POST, .path = path, .body = str_from(body)}, &reply);
    reply_done(&reply);
    return status;
}

/* --------------------------------------------------------------------------------------- stages */

static int deploy(struct demo *d)
{
    struct reply reply = {0};
    int status = deploy_text(d->c, str_from(demo_graph), true, &reply);
    if (status == EXIT_OK && reply.status != 201) {
        status = ask_refused(d->c, &reply);
    }
    reply_done(&reply);
    return status;
}

static int stage_start(struct demo *d)
{
    int64_t took_us = 0;
    int status;
    title(d, "A server and a worker start, in two processes");
    status = start_server(d, &took_us);
    status = status == EXIT_OK ? start_worker(d) : status;
    if (status == EXIT_OK) {
        printf("   server: process %d, on %s\n   worker: process %d, a loop around POST /v1/work\n",
               (int)d->server, d->c->values[OPT_server], (int)d->worker);
    }
    return status;
}

static int stage_order(struct demo *d)
{
    int64_t began_us;
    int status;
    title(d, "A graph is deployed, and an order comes in: reserve, charge, pack, approve, ship");
    status = deploy(d);
    began_us = cli_now_us(d->c);
    status = status == EXIT_OK
                 ? post(d, "/v1/jobs",
                        "{\"topic\":\"" DEMO_WORKFLOW "\",\"id\":\"" JOB "\",\"input\":" INPUT "}")
                 : status;
    if (status == EXIT_OK) {
        printf("   %s is on disk, %.1f ms after it was asked for\n", JOB,
               (double)(cli_now_us(d->c) - began_us) / 1e3);
        status = wait_for_call(d, "pack");
    }
    if (status == EXIT_OK) {
        printf(
            "   reserve and charge are done; the worker is packing. The digits, a row for each:\n");
        status = print_digits(d);
    }
    return status;
}

static int stage_kill(struct demo *d)
{
    title(d, "SIGKILL: the server dies while the worker packs");
    (void)end_child(&d->server, SIGKILL);
    printf("   no goodbye, nothing was closed\n");
    pause_for(d, 800);
    return EXIT_OK;
}

/* The steps that had been finished were called once, and are called no more. */
static int stage_recover(struct demo *d)
{
    int64_t took_us = 0;
    int status;
    title(d, "The server starts again");
    status = start_server(d, &took_us);
    if (status == EXIT_OK) {
        printf(
            "   it recovered in %.1f ms: the store was opened, and the order is where it stood\n",
            (double)took_us / 1e3);
        status = wait_for_activity(d, "pack", "completed");
    }
    if (status == EXIT_OK) {
        printf("   the worker, which had gone on packing, brought its result; it was taken\n");
        status = print_digits(d);
    }
    if (status == EXIT_OK && (count_calls(d, "reserve") != 1 || count_calls(d, "charge") != 1)) {
        status = fail(d, "a finished step was repeated");
    }
    return status;
}

/* A person says yes, or is not there. */
static int stage_approve(struct demo *d)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[64];
    int status;
    title(d, "The order waits for an approval; that could take days");
    status = wait_for_activity(d, DEMO_APPROVE, "paused");
    if (status != EXIT_OK) {
        return status;
    }
    status = print_state(d);
    printf("   quipu signal %s order=%s --server %s\n", DEMO_APPROVED, JOB,
           d->c->values[OPT_server]);
    if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
        printf("   press Enter to approve it here: ");
        (void)fflush(stdout);
        if (poll(&fd, 1, APPROVAL_MS) == 1 && fgets(line, sizeof line, stdin) == NULL) {
            printf("\n");
        }
    } else {
        printf("   no person is at a terminal: the demo approves it itself\n");
        pause_for(d, 1500);
    }
    return status != EXIT_OK ? status
                             : post(d, "/v1/signals",
                                    "{\"topic\":\"" DEMO_APPROVED "\",\"payload\":{\"order\":\"" JOB
                                    "\",\"by\":\"demo\"},\"id\":\"" JOB "-approval\"}");
}

static int stage_complete(struct demo *d)
{
    struct json *json;
    bool completed;
    int status;
    title(d, "It goes on, and completes");
    status = wait_for_activity(d, "ship", "completed");
    json = status == EXIT_OK ? get(d, "") : NULL;
    completed = str_equal(member_text(json, "status"), QP_STR("completed"));
    if (completed) {
        printf("   %s is completed, with the output ", JOB);
        (void)print_value(stdout, json_get(json, QP_STR("output")));
        printf("; its semaphore is %lld\n", (long long)member_number(json, "open"));
        status = print_digits(d);
    }
    json_free(json);
    return status == EXIT_OK && !completed ? fail(d, "the order has not completed") : status;
}

static int stage_calls(struct demo *d)
{
    title(d, "What the world outside has seen, call by call");
    for (size_t i = 0; i < DEMO_STEPS; i++) {
        int count = count_calls(d, demo_steps[i].name);
        printf("   %-8s called %d time%s\n", demo_steps[i].name, count, count == 1 ? "" : "s");
        if (count == 0) {
            return fail(d, cli_text(d->c, "'%s' was never called", demo_steps[i].name));
        }
    }
    if (count_calls(d, "reserve") != 1 || count_calls(d, "charge") != 1) {
        return fail(d, "a finished step was repeated");
    }
    printf("   no finished step was repeated\n");
    pause_for(d, 1200);
    return EXIT_OK;
}

static int stage_check(struct demo *d)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    char path[160];
    int rc;
    title(d, "quipu fsck holds the store against the rules of the protocol");
    (void)end_child(&d->worker, SIGTERM);
    if (end_child(&d->server, SIGTERM) != 0) {
        return fail(d, "the server did not end well");
    }
    (void)snprintf(path, sizeof path, "%s/data/quipu.db", d->dir);
    qp_check_options_init(&options);
    options.path = path;
    rc = qp_check(&options, NULL, NULL, &result, &err);
    if (rc != QP_OK) {
        return fail(d, err.text);
    }
    printf("   %lld jobs, %lld errors, %lld warnings\n", (long long)result.jobs,
           (long long)result.errors, (long long)result.warnings);
    return result.errors == 0 ? EXIT_OK
                              : fail(d, "the store is not what the protocol can have made");
}

/* ------------------------------------------------------------------------------------ the whole */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void clean_up(struct demo *d)
{
    ask_close(d->c);
    (void)end_child(&d->worker, SIGKILL);
    (void)end_child(&d->server, SIGKILL);
    if (cli_has(d->c, OPT_keep_files)) {
        printf("\nthe files are in %s\n", d->dir);
    } else if (nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        cli_say("quipu: demo: %s could not be removed", d->dir);
    }
}

static int make_directory(struct demo *d)
{
    const char *base = getenv("TMPDIR");
    base = base != NULL && *base != '\0' && strlen(base) < 60
               ? base
               : "/tmp"; /* a socket has a short name */
    (void)snprintf(d->dir, sizeof d->dir, "%s/quipu-demo.XXXXXX", base);
    if (mkdtemp(d->dir) == NULL) {
        return cli_fail(d->c, EXIT_ERROR, "%s: %s", d->dir, strerror(errno));
    }
    d->c->values[OPT_server] = cli_text(d->c, "unix:%s/quipu.sock", d->dir);
    return EXIT_OK;
}

int command_demo(struct cli *c)
{
    static int (*const stages[])(struct demo * d) = {stage_start,   stage_order,   stage_kill,
                                                     stage_recover, stage_approve, stage_complete,
                                                     stage_calls,   stage_check};
    struct demo d = {.c = c};
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? make_directory(&d) : status;
    if (status != EXIT_OK) {
        return status;
    }
    d.began_us = cli_now_us(c);
    printf("quipu demo: an order, a crash, and what is left of it\n");
    for (size_t i = 0; i < ARRAY_COUNT(stages) && status == EXIT_OK; i++) {
        status = stages[i](&d);
    }
    clean_up(&d);
    if (status == EXIT_OK) {
        printf(
            "\nNothing was lost, and nothing was done twice. Next: quipu serve; see README.md\n");
    }
    return status;
}
