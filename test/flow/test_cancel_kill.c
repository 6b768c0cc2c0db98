/* test_cancel_kill.c - flows over HTTP that are asked to end, while the server and its workers are killed
 *
 * The flows of flowcases.c, two compensations around each, run at workers that are processes of their own (flowremote.h), against
 * a server that is one, too. At random moments jobs are started and asked to end, and the server or a worker is killed with
 * SIGKILL. In the end
 *
 *   each job is cancelled, or has ended as it would have
 *   one whose code had begun, and that was cancelled or has failed, was undone: both compensations, the last one first, each
 *   under one idempotency key; one that completed was not
 *   one that was parked, since its decision was lost three times, goes on when it is retried; when it is asked to end, its error
 *   names what was not undone
 *   no more calls were made than deaths explain
 *   the store obeys the rules of the protocol
 *
 * With each new server the clock jumps ahead, beyond what a dead worker's leases and the flows' sleeps have left; on PostgreSQL,
 * whose clock is the server's own, the torture lane waits for them. QP_SEED chooses the moments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "flow/flow.h"
#include "flowcases.h"
#include "server/server.h"
#include "support/files.h"
#include "support/flowremote.h"
#include "support/httpclient.h"
#include "support/pgserver.h"

#define WORKERS 2
#define JUMP_MS 31000 /* of the clock, with each server: more than a lease */
#define JOBS_MOST 2000
#define WAIT_MOST_MS 240000
#define TOPICS "\"double\",\"serial\",\"refuse\",\"slow\",\"undo\""

struct drill_job {
    qp_ms cancel_at; /* when it is to be asked to end; 0: never, or it was */
    bool cancelled;  /* it was */
    int64_t calls;   /* of activities but compensations */
    int64_t undone[2];
    char keys[2][QP_TASK_KEY_SIZE]; /* of the compensations */
    int64_t others;                 /* further keys: there must be none */
    bool in_reverse;
};

static struct {
    char dir[320];
    char calls[360]; /* a line per call of an activity */
    const char *url; /* NULL: a file */
    struct listener listener;
    int port;
    pid_t server;
    pid_t workers[WORKERS];
    int64_t ahead_ms;
    int kills;
    int retried;
    int count; /* jobs */
    struct drill_job jobs[JOBS_MOST];
} t;

static void nap(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static qp_ms wall_ms(void *context)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000 +
           (context == NULL ? 0 : *(const int64_t *)context);
}

/* ------------------------------------------------------------------------------------- the server */

/* argv: name, --serve, directory, socket, store, milliseconds ahead */
static int serve(char **argv)
{
    static int64_t ahead_ms;
    struct server *server = NULL;
    struct qp_err err = {0};
    struct qp_env env;
    int fd = (int)strtol(argv[3], NULL, 10);
    sigset_t set;
    int number;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    qp_env_init(&env);
    ahead_ms = strtoll(argv[5], NULL, 10);
    env.context = &ahead_ms;
    env.wall_ms = wall_ms;
    if (server_open(&(struct server_options){.env = &env,
                                             .data = argv[2],
                                             .store = argv[4][0] == '\0' ? NULL : argv[4],
                                             .adopted = &fd,
                                             .adopted_count = 1,
                                             .no_auth = true},
                    &server, &err) != QP_OK) {
        (void)fprintf(stderr, "serve: %s\n", err.text);
        return 1;
    }
    (void)sigwait(&set, &number);
    return server_close(server) ? 0 : 1;
}

static void server_start(void)
{
    t.server = fork();
    if (t.server == 0) {
        char fd[16];
        char ahead[24];
        (void)snprintf(fd, sizeof fd, "%d", t.listener.fd);
        (void)snprintf(ahead, sizeof ahead, "%lld", (long long)t.ahead_ms);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)fcntl(t.listener.fd, F_SETFD, 0);
        (void)execl("/proc/self/exe", "server", "--serve", t.dir, fd, t.url == NULL ? "" : t.url,
                    ahead, (char *)NULL);
        _exit(127);
    }
    assert_true(t.server > 0);
}

static void server_end(int number)
{
    int status = 0;
    assert_int_equal(kill(t.server, number), 0);
    assert_int_equal(waitpid(t.server, &status, 0), t.server);
    assert_true(number == SIGKILL || status == 0);
}

static void server_again(void)
{
    server_end(SIGKILL);
    t.ahead_ms += t.url == NULL ? JUMP_MS : 0;
    t.kills++;
    server_start();
}

/* ------------------------------------------------------------------------------------- the worker */

static struct {
    struct qp_env env;
    struct hc c;
    int port;
    int calls;
    uint64_t random;
    struct arena arena; /* of one round */
    struct buf body;
    const struct flow_case *now;
} w;

static struct hc_answer ask(const char *method, const char *path, const char *body)
{
    struct hc_answer a = {0};
    if (w.c.fd < 0 && !hc_open(&w.c, w.port)) {
        return a;
    }
    a = hc_ask(&w.c, NULL, method, path, NULL, body);
    if (a.status == 0 || a.status >= 500) {
        hc_close(&w.c);
    }
    return a;
}

static qp_str unquoted(qp_str json)
{
    QP_ASSERT(json.n >= 2 && json.p[0] == '"');
    return (qp_str){json.p + 1, json.n - 2};
}

/* The raw call, before its result is brought: one write, so that a kill leaves a line or none. */
static void note_call(qp_str task)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%.*s %.*s %.*s %.*s\n",
                     STR_ARG(unquoted(flow_member(task, "job"))),
                     STR_ARG(unquoted(flow_member(task, "name"))),
                     STR_ARG(unquoted(flow_member(task, "idempotency_key"))),
                     STR_ARG(flow_member(task, "input")));
    QP_ASSERT(n > 0 && n < (int)sizeof line && write(w.calls, line, (size_t)n) == n);
}

static void act(qp_str task)
{
    qp_str name = unquoted(flow_member(task, "name"));
    note_call(task);
    nap((long)testenv_random_below(&w.random,
                                   8)); /* so that there is a time to be asked in, and to die */
    if (str_equal(name, QP_STR("refuse"))) {
        buf_text(&w.body,
                 "\"status\":\"error\",\"error\":{\"code\":404,\"message\":\"no such thing\"}");
    } else {
        buf_printf(&w.body, "\"output\":%lld",
                   2 * (long long)real_parse(flow_member(task, "input")));
    }
}

static int guarded(qp_flow *flow, qp_str input, void *context)
{
    QP_TRY(qp_defer(flow, "undo", QP_STR("1")));
    QP_TRY(qp_defer(flow, "undo", QP_STR("2")));
    return w.now->function(flow, input, context);
}

/* Further pages until all is there; false: the server is gone. */
static bool read_pages(struct flowremote *r)
{
    bool good = true;
    while (good && !str_is_none(r->more)) {
        char path[512];
        struct hc_answer a;
        (void)snprintf(path, sizeof path, "/v1/jobs/%.*s/log?cursor=%.*s", STR_ARG(r->log.job),
                       STR_ARG(unquoted(r->more)));
        a = ask("GET", path, NULL);
        good = a.status == 200;
        if (good) {
            flowremote_read(r, (qp_str){a.body, a.body_size});
        }
        hc_done(&a);
    }
    return good;
}

static void decide(qp_str task)
{
    struct flowremote r;
    struct script_result result;
    flowremote_init(&r, &w.env, &w.arena);
    flowremote_read(&r, task);
    if (!read_pages(&r)) {
        buf_text(&w.body, "\"status\":\"miss\"");
        return;
    }
    w.now = &flow_cases[(size_t)real_parse((qp_str){r.log.workflow.p + 1, r.log.workflow.n - 1})];
    flowremote_decide(&r, guarded, wall_ms(NULL), &result);
    if (result.kind == SCRIPT_ERROR || result.kind == SCRIPT_STOPPED) {
        (void)fprintf(stderr, "%s: %.*s\n%.*s\n", w.now->name, STR_ARG(result.text), STR_ARG(task));
        abort();
    }
    buf_str(&w.body, (qp_str){result.decision.p + 1, result.decision.n - 2});
}

/* What was brought counts, or did before, or its job is over; nothing is refused. */
static void check_acks(qp_str answer)
{
    struct raw_walk each = {.rest = flow_member(answer, "acks")};
    while (raw_each(&each)) {
        qp_str status = flow_member(each.value, "status");
        if (str_equal(status, QP_STR("\"refused\""))) {
            (void)fprintf(stderr, "%.*s\n%.*s\n", STR_ARG(each.value), STR_ARG(buf_slice(&w.body)));
            abort();
        }
    }
}

static void ask_for_tasks(void)
{
    buf_reset(&w.body);
    buf_printf(&w.body,
               "{\"worker\":\"w%d\",\"want\":4,\"wait\":\"1s\",\"topics\":[" TOPICS "],\"flows\":[",
               (int)getpid());
    for (size_t i = 0; i < flow_case_count; i++) {
        buf_printf(&w.body, "%s{\"name\":\"f%zu\"}", i > 0 ? "," : "", i);
    }
    buf_text(&w.body, "],\"results\":[");
}

/* The next request: results of all tasks of the answer. */
static void do_tasks(qp_str answer)
{
    struct raw_walk each = {.rest = flow_member(answer, "tasks")};
    ask_for_tasks();
    while (raw_each(&each)) {
        buf_printf(&w.body, "%s{\"token\":%.*s,", each.index > 0 ? "," : "",
                   STR_ARG(flow_member(each.value, "token")));
        if (str_equal(flow_member(each.value, "kind"), QP_STR("\"flow\""))) {
            decide(each.value);
        } else {
            act(each.value);
        }
        buf_byte(&w.body, '}');
    }
    buf_text(&w.body, "]}");
    buf_byte(&w.body, '\0');
    QP_ASSERT(buf_rc(&w.body) == QP_OK);
}

/* argv: name, --work, port, file of calls. Until it is killed. */
static int work(char **argv)
{
    qp_env_init(&w.env);
    w.c.fd = -1;
    w.port = (int)strtol(argv[2], NULL, 10);
    w.random = (uint64_t)getpid();
    w.calls = open(argv[3], O_WRONLY | O_APPEND | O_CLOEXEC);
    QP_ASSERT(w.calls >= 0);
    buf_init(&w.body, &w.env, 0);
    do_tasks(QP_STR("{\"tasks\":[]}"));
    for (;;) {
        struct hc_answer a = ask("POST", "/v1/work", w.body.p);
        if (a.status == 200) {
            qp_str answer = {a.body, a.body_size};
            arena_init(&w.arena, &w.env, 0);
            check_acks(answer);
            do_tasks(answer);
            arena_done(&w.arena);
        } else {
            QP_ASSERT(a.status == 0 || a.status >= 500);
            nap(5); /* the same results again: they are harmless */
        }
        hc_done(&a);
    }
}

static void worker_start(int i)
{
    t.workers[i] = fork();
    if (t.workers[i] == 0) {
        char port[16];
        (void)snprintf(port, sizeof port, "%d", t.port);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execl("/proc/self/exe", "worker", "--work", port, t.calls, (char *)NULL);
        _exit(127);
    }
    assert_true(t.workers[i] > 0);
}

/* It must not have ended by itself. */
static void worker_kill(int i)
{
    int status = 0;
    assert_int_equal(kill(t.workers[i], SIGKILL), 0);
    assert_int_equal(waitpid(t.workers[i], &status, 0), t.workers[i]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* -------------------------------------------------------------------------------------- the client */

/* Until it is answered; the status. */
static int insist(const char *method, const char *path, const char *body)
{
    for (int tries = 0; tries < 2000; tries++) {
        struct hc_answer a = ask(method, path, body);
        int status = a.status;
        if (status > 0 && status < 500) {
            if (status != 200 && status != 201 && status != 202 && status != 404 && status != 409) {
                fail_msg("%s %s %s: %d %s", method, path, body, status, a.body);
            }
            hc_done(&a);
            return status;
        }
        hc_done(&a);
        nap(5);
    }
    fail_msg("%s %s is never answered", method, path);
    return 0;
}

static void start(int i)
{
    int which = i % (int)flow_case_count;
    char body[96];
    (void)snprintf(body, sizeof body, "{\"workflow\":\"f%d\",\"id\":\"j%d\",\"input\":1}", which,
                   i);
    assert_true(insist("POST", "/v1/jobs", body) < 300);
    if (flow_cases[which].script != NULL) {
        char path[64];
        (void)snprintf(path, sizeof path, "/v1/jobs/j%d/signals", i);
        (void)insist("POST", path, "{\"topic\":\"go\",\"payload\":5}");
        (void)insist("POST", path, "{\"topic\":\"b\",\"payload\":1}");
        (void)insist("POST", path, "{\"topic\":\"a\",\"payload\":2}");
    }
}

static void cancel(int i)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/v1/jobs/j%d/cancel", i);
    t.jobs[i].cancelled = true;
    (void)insist("POST", path, "{\"reason\":\"changed my mind\"}");
}

/* Three in four are asked to end: soon, or later. */
static qp_ms draw_cancel(uint64_t *random)
{
    uint64_t most = UINT64_C(1) << testenv_random_below(random, 11);
    return testenv_random_below(random, 4) == 0
               ? 0
               : wall_ms(NULL) + (qp_ms)testenv_random_below(random, most);
}

static void cancel_due(int count)
{
    qp_ms now = wall_ms(NULL);
    for (int i = 0; i < count; i++) {
        if (t.jobs[i].cancel_at > 0 && t.jobs[i].cancel_at <= now) {
            t.jobs[i].cancel_at = 0;
            cancel(i);
        }
    }
}

static void kill_one(uint64_t *random)
{
    int i = (int)testenv_random_below(random, WORKERS + 1);
    if (i == WORKERS) {
        server_again();
        return;
    }
    worker_kill(i);
    t.kills++;
    worker_start(i);
}

/* Jobs are started one after the other, and deaths are spread over that. */
static void disturb(int kills, uint64_t *random)
{
    int started = 0;
    while (started < t.count || t.kills < kills) {
        bool kills_now = testenv_random_below(random, (uint64_t)t.count) < (uint64_t)kills;
        if (t.kills < kills && (kills_now || started == t.count)) {
            kill_one(random);
        }
        if (started < t.count) {
            start(started);
            t.jobs[started++].cancel_at = draw_cancel(random);
        }
        cancel_due(started);
        nap((long)testenv_random_below(random, 20));
    }
}

static void cancel_rest(void)
{
    for (int i = 0; i < t.count; i++) {
        while (t.jobs[i].cancel_at > 0) {
            nap(1);
            cancel_due(t.count);
        }
    }
}

static long open_count(void)
{
    struct hc_answer a = ask("GET", "/v1/jobs?limit=1&count=exact&where=status%3Dopen", NULL);
    char *count = hc_member(&a, "count");
    long open = count == NULL ? -1 : strtol(count, NULL, 10);
    free(count);
    hc_done(&a);
    return open;
}

/* Those whose decision was delivered too often without an answer: a person looks, and lets them go on. */
static void retry_parked(void)
{
    struct hc_answer a = ask("GET", "/v1/jobs?limit=100&where=status%3Dparked", NULL);
    qp_str answer = {a.body, a.body_size};
    struct raw_walk each = {.rest = a.status == 200 ? flow_member(answer, "items") : QP_NONE};
    while (!str_is_none(each.rest) && raw_each(&each)) {
        char path[96];
        (void)snprintf(path, sizeof path, "/v1/jobs/%.*s/retry",
                       STR_ARG(unquoted(flow_member(each.value, "id"))));
        (void)insist("POST", path, "{}");
        t.retried++;
    }
    hc_done(&a);
}

/* What dead workers had comes again when its lease is over; a file's server gets there by its clock. */
static void wait_until_done(void)
{
    long open = open_count();
    for (int i = 1; i < WAIT_MOST_MS / 50 && open != 0; i++) {
        nap(50);
        open = open_count();
        if (i % 20 == 0) {
            retry_parked();
        }
        if (t.url == NULL && i % 100 == 0) {
            server_again();
        }
    }
    if (open != 0) {
        struct hc_answer a = ask("GET", "/v1/jobs?limit=10&where=status%3Dopen", NULL);
        fail_msg("%ld jobs are open: %s", open, a.body);
    }
}

/* --------------------------------------------------------------------------------------- the end */

static void take_undo(struct drill_job *j, const char *key, int which)
{
    j->in_reverse = j->in_reverse || (which == 1 && j->undone[0] == 0);
    if (j->undone[which]++ == 0) {
        (void)snprintf(j->keys[which], sizeof j->keys[which], "%s", key);
    }
    j->others += strcmp(j->keys[which], key) != 0;
}

/* The word at the front of the rest of a line, with a NUL. */
static char *next_word(char **rest)
{
    char *word = *rest;
    size_t n = strcspn(word, " \n");
    assert_true(n > 0 && word[n] != '\0');
    word[n] = '\0';
    *rest = word + n + 1;
    return word;
}

static void read_calls(void)
{
    char line[256];
    FILE *f = fopen(t.calls, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        char *rest = line + 1;
        long job = strtol(next_word(&rest), NULL, 10);
        bool undoes = strcmp(next_word(&rest), "undo") == 0;
        const char *key = next_word(&rest);
        assert_in_range(job, 0, t.count - 1);
        if (undoes) {
            take_undo(&t.jobs[job], key, *next_word(&rest) == '2');
        } else {
            t.jobs[job].calls++;
        }
    }
    (void)fclose(f);
}

/* The code had begun when it was asked to end, and had not returned: it was neither parked nor waiting for works alone. */
static bool has_met_cancel(int i, const char *error)
{
    return t.jobs[i].undone[0] > 0 ||
           (t.jobs[i].calls > 0 && !flow_cases[i % (int)flow_case_count].leaves &&
            strstr(error, "compensations that were not run: undo, undo") == NULL);
}

static void expect_undone(int i, const char *status, const char *error)
{
    const struct drill_job *j = &t.jobs[i];
    bool undone = j->undone[0] > 0;
    bool needed = strcmp(status, "failed") == 0 ||
                  (strcmp(status, "cancelled") == 0 && has_met_cancel(i, error));
    if ((j->undone[1] > 0) != undone || undone != needed || j->others > 0 ||
        (undone && !j->in_reverse) || j->undone[0] + j->undone[1] > 2 + t.kills) {
        fail_msg("%s, j%d, %s, %lld calls: undone %lld and %lld times%s, %lld other keys",
                 flow_cases[i % (int)flow_case_count].name, i, status, (long long)j->calls,
                 (long long)j->undone[0], (long long)j->undone[1],
                 j->in_reverse ? " in reverse" : "", (long long)j->others);
    }
}

/* Timers that the clock has jumped over are all due at once, and which of them is the first is not said; a time limit may be
 * over before its signal is sent. */
static bool is_output(const struct flow_case *c, qp_str output)
{
    if (strcmp(c->name, "signal in time") == 0 && str_equal(output, QP_STR("\"too late\""))) {
        return true;
    }
    if (strcmp(c->name, "any of three") == 0) {
        return output.n == 1 && output.p[0] >= '0' && output.p[0] <= '2';
    }
    return c->output == NULL || str_equal(output, str_from(c->output)) ||
           (c->or_output != NULL && str_equal(output, str_from(c->or_output)));
}

static bool is_expected(const struct flow_case *c, qp_str job, const char *status)
{
    return c->error != NULL
               ? strcmp(status, "failed") == 0
               : strcmp(status, "completed") == 0 && is_output(c, flow_member(job, "output"));
}

/* True: it was cancelled. */
static bool check_job(int i)
{
    const struct flow_case *c = &flow_cases[i % (int)flow_case_count];
    char path[64];
    struct hc_answer a;
    char *status;
    bool cancelled;
    (void)snprintf(path, sizeof path, "/v1/jobs/j%d", i);
    a = ask("GET", path, NULL);
    status = hc_member(&a, "status");
    if (a.status != 200 || status == NULL) {
        fail_msg("j%d: %d %s", i, a.status, a.body);
    }
    cancelled = strcmp(status, "cancelled") == 0;
    if (cancelled ? !t.jobs[i].cancelled : !is_expected(c, (qp_str){a.body, a.body_size}, status)) {
        fail_msg("%s, j%d: %s", c->name, i, a.body);
    }
    expect_undone(i, status, a.body);
    if (!cancelled) {
        assert_in_range(t.jobs[i].calls, c->calls, c->calls + t.kills);
    }
    free(status);
    hc_done(&a);
    return cancelled;
}

static void check_store(void)
{
    char path[400];
    struct qp_check_options check;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/quipu.db", t.dir);
    qp_check_options_init(&check);
    check.path = t.url == NULL ? path : t.url;
    if (qp_check(&check, NULL, NULL, &result, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(result.errors, 0);
}

static void check_all(void)
{
    int cancelled = 0;
    read_calls();
    for (int i = 0; i < t.count; i++) {
        cancelled += check_job(i);
    }
    print_message("%s: %d jobs, %d cancelled, %d kills, %d times retried\n",
                  t.url == NULL ? "a file" : "PostgreSQL", t.count, cancelled, t.kills, t.retried);
    assert_true(cancelled > 0);
}

static void begin(const char *url, int count)
{
    int fd;
    memset(&t, 0, sizeof t);
    t.url = url;
    t.count = count;
    assert_in_range(count, 1, JOBS_MOST);
    files_temporary(t.dir, sizeof t.dir, "cancel");
    (void)snprintf(t.calls, sizeof t.calls, "%s/calls", t.dir);
    fd = open(t.calls, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(listener_open("127.0.0.1:0", &t.listener, NULL), QP_OK);
    t.port = w.port = (int)strtol(strrchr(t.listener.name, ':') + 1, NULL, 10);
    w.c.fd = -1;
    server_start();
    for (int i = 0; i < WORKERS; i++) {
        worker_start(i);
    }
}

static void end(void)
{
    char backups[400];
    hc_close(&w.c);
    for (int i = 0; i < WORKERS; i++) {
        worker_kill(i);
    }
    server_end(SIGTERM);
    check_store();
    listener_close(&t.listener);
    (void)snprintf(backups, sizeof backups, "%s/backups", t.dir);
    files_remove(backups);
    files_remove(t.dir);
}

static void drill(const char *url, int rounds, int kills)
{
    uint64_t random = testenv_seed();
    begin(url, rounds * (int)flow_case_count);
    disturb(kills, &random);
    cancel_rest();
    wait_until_done();
    check_all();
    end();
}

static void test_file(void **state)
{
    (void)state;
    drill(NULL, testenv_is_torture() ? 40 : 2, testenv_is_torture() ? 200 : 4);
}

static void test_database(void **state)
{
    (void)state;
    if (testenv_is_torture()) {
        drill(pgserver_shared(), 20, 60);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_database),
    };
    if (argc == 6 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv);
    }
    if (argc == 4 && strcmp(argv[1], "--work") == 0) {
        return work(argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
