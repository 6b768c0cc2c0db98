/* test_serve_kill.c - a server that is killed again and again under load
 *
 * Clients start jobs and workers do them over HTTP, all of them trying again whenever the server
 * is gone. The server is a process of its own (this program, started with --serve) and is killed
 * with SIGKILL at random moments. The sockets' backlog is ours, so that the port stays the same.
 * In the end:
 *
 *   every start that was acknowledged is a job, and completed
 *   a sink that logs every raw call of a worker has each of them at least once, and no more often than once and once for
 *   every kill
 *   the file obeys all rules of the protocol
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/server.h"
#include "support/files.h"
#include "support/httpclient.h"
#include "support/testenv.h"

#define CLIENTS 3
#define WORKERS 3
#define JOBS_MOST 500000
#ifdef __SANITIZE_THREAD__
#define KILLS_CHECK 5 /* races of one process are what is looked for: they need no kills */
#else
#define KILLS_CHECK 20
#endif
#define KILLS_TORTURE 100

static struct {
    char dir[320];
    struct listener listener;
    int port;
    pid_t server;
    atomic_bool clients_stop;
    atomic_bool workers_stop;
    atomic_int started;           /* ids are numbers below this */
    atomic_bool acked[JOBS_MOST]; /* the start was acknowledged */
    atomic_int calls[JOBS_MOST];  /* what the sink has logged */
} t;

/* ----------------------------------------------------------------------------------- the server */

static int serve(const char *dir, int fd)
{
    struct server *server = NULL;
    struct qp_err err = {0};
    struct qp_env env;
    struct server_options options;
    sigset_t set;
    int number;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    qp_env_init(&env);
    options = (struct server_options){
        .env = &env, .data = dir, .adopted = &fd, .adopted_count = 1, .no_auth = true};
    if (server_open(&options, &server, &err) != QP_OK) {
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
        (void)snprintf(fd, sizeof fd, "%d", t.listener.fd);
        (void)fcntl(t.listener.fd, F_SETFD, 0);
        (void)execl("/proc/self/exe", "test_serve_kill", "--serve", t.dir, fd, (char *)NULL);
        _exit(127);
    }
    assert_true(t.server > 0);
}

static int server_end(int number)
{
    int status = 0;
    assert_int_equal(kill(t.server, number), 0);
    assert_int_equal(waitpid(t.server, &status, 0), t.server);
    return status;
}

/* ------------------------------------------------------------------------------------- the load */

static void nap(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* One request on a connection that is kept while it works. */
static struct hc_answer ask(struct hc *c, const char *path, const char *body)
{
    struct hc_answer a = {0};
    if (c->fd < 0 && !hc_open(c, t.port)) {
        return a;
    }
    a = hc_ask(c, NULL, "POST", path, NULL, body);
    if (a.status == 0 || a.status == 503) {
        hc_close(c);
    }
    return a;
}

/* The same start until it is acknowledged. */
static void start_until_acked(struct hc *c, int id)
{
    char body[128];
    int status = 0;
    (void)snprintf(body, sizeof body, "{\"topic\":\"work\",\"id\":\"j%d\",\"input\":%d}", id, id);
    while (status < 200 || status >= 300) {
        struct hc_answer a = ask(c, "/v1/jobs", body);
        status = a.status;
        QP_ASSERT(status != 409 && status != 400); /* it is the same start every time */
        hc_done(&a);
        if (status < 200 || status >= 300) {
            nap(5);
        }
    }
    atomic_store(&t.acked[id], true);
}

static void *client(void *context)
{
    struct hc c = {.fd = -1};
    (void)context;
    while (!atomic_load(&t.clients_stop)) {
        int id = atomic_fetch_add(&t.started, 1);
        if (id >= JOBS_MOST) {
            break;
        }
        start_until_acked(&c, id);
    }
    hc_close(&c);
    return NULL;
}

/* The next worker call: results of all tasks of the last answer. Every task is a raw call at the
 * sink. */
static int next_body(const struct hc_answer *a, char *body, size_t size)
{
    size_t n = 0;
    int count = 0;
    n += (size_t)snprintf(
        body, size,
        "{\"worker\":\"w\",\"topics\":[\"work\"],\"want\":8,\"wait\":\"1s\",\"results\":[");
    for (int i = 0; i < 8; i++) {
        char member[32];
        char *token, *job;
        (void)snprintf(member, sizeof member, "tasks.%d.token", i);
        token = hc_member(a, member);
        (void)snprintf(member, sizeof member, "tasks.%d.job", i);
        job = hc_member(a, member);
        if (token != NULL && job != NULL) {
            int id = (int)strtol(job + 1, NULL, 10);
            atomic_fetch_add(&t.calls[id], 1);
            count++;
            n += (size_t)snprintf(body + n, size - n, "%s{\"token\":\"%s\",\"output\":%d}",
                                  count > 1 ? "," : "", token, id);
        }
        free(token);
        free(job);
    }
    (void)snprintf(body + n, size - n, "]}");
    return count;
}

/* Every result of a call is answered: it counts, or one that was sent before does. */
static void check_acks(const struct hc_answer *a, int count)
{
    for (int i = 0; i < count; i++) {
        char member[32];
        char *status;
        (void)snprintf(member, sizeof member, "acks.%d.status", i);
        status = hc_member(a, member);
        QP_ASSERT(status != NULL && (strcmp(status, "ok") == 0 || strcmp(status, "stale") == 0));
        free(status);
    }
}

static void *worker(void *context)
{
    struct hc c = {.fd = -1};
    static _Thread_local char body[8192];
    struct hc_answer none = {0};
    int count = next_body(&none, body, sizeof body);
    (void)context;
    while (!atomic_load(&t.workers_stop)) {
        struct hc_answer a = ask(&c, "/v1/work", body);
        if (a.status == 200) {
            check_acks(&a, count);
            count = next_body(&a, body, sizeof body);
        } else {
            nap(5); /* the same results again: they are harmless */
        }
        hc_done(&a);
    }
    hc_close(&c);
    return NULL;
}

/* -------------------------------------------------------------------------------------- the end */

static void check_jobs(int kills)
{
    int started = atomic_load(&t.started);
    int repeated = 0;
    for (int id = 0; id < started && id < JOBS_MOST; id++) {
        int calls = atomic_load(&t.calls[id]);
        char path[64];
        struct hc_answer a;
        char *status;
        if (!atomic_load(&t.acked[id])) {
            continue;
        }
        (void)snprintf(path, sizeof path, "/v1/jobs/j%d", id);
        a = hc_call(t.port, NULL, "GET", path, NULL);
        status = hc_member(&a, "status");
        if (a.status != 200 || status == NULL || strcmp(status, "completed") != 0) {
            fail_msg("job %d was acknowledged: %d %s", id, a.status, a.body);
        }
        free(status);
        hc_done(&a);
        assert_in_range(calls, 1, 1 + kills);
        repeated += calls > 1;
    }
    print_message("%d jobs, %d of them with a repeated call\n", started, repeated);
}

static void check_file(void)
{
    char path[400];
    struct qp_check_options check;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/quipu.db", t.dir);
    qp_check_options_init(&check);
    check.path = path;
    assert_int_equal(qp_check(&check, NULL, NULL, &result, &err), QP_OK);
    assert_int_equal(result.errors, 0);
}

/* Until no job is open; what was claimed and never told comes again when its lease is over. */
static void wait_until_done(void)
{
    long open = -1;
    for (int i = 0; i < 300 && open != 0; i++) {
        struct hc_answer a = hc_call(
            t.port, NULL, "GET", "/v1/jobs?limit=1&count=exact&where=status%21%3Dcompleted", NULL);
        char *count = hc_member(&a, "count");
        open = count == NULL ? -1 : strtol(count, NULL, 10);
        free(count);
        hc_done(&a);
        nap(200);
    }
    assert_int_equal(open, 0);
}

/* A server that is killed before it has done anything shows nothing: a slow machine gets the time that it needs. */
static void await_progress(int before)
{
    for (int i = 0; i < 300 && atomic_load(&t.started) <= before; i++) {
        nap(100);
    }
}

static void killed_under_load(void **state)
{
    const char *lane = getenv("QP_LANE");
    int kills = lane != NULL && strcmp(lane, "torture") == 0 ? KILLS_TORTURE : KILLS_CHECK;
    uint64_t random = testenv_seed();
    pthread_t clients[CLIENTS], workers[WORKERS];
    char backups[400];
    (void)state;
    files_temporary(t.dir, sizeof t.dir, "kill");
    assert_int_equal(listener_open("127.0.0.1:0", &t.listener, NULL), QP_OK);
    t.port = (int)strtol(strrchr(t.listener.name, ':') + 1, NULL, 10);
    server_start();
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&clients[i], NULL, client, NULL), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_create(&workers[i], NULL, worker, NULL), 0);
    }
    for (int i = 0; i < kills; i++) {
        await_progress(atomic_load(&t.started));
        nap(100 + (long)testenv_random_below(&random, 500));
        (void)server_end(SIGKILL);
        server_start();
    }
    nap(300);
    atomic_store(&t.clients_stop, true);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    }
    wait_until_done();
    atomic_store(&t.workers_stop, true);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    }
    assert_true(atomic_load(&t.started) > kills);     /* something went on between the kills */
    assert_true(atomic_load(&t.started) < JOBS_MOST); /* until the last one */
    check_jobs(kills);
    assert_int_equal(server_end(SIGTERM), 0);
    check_file();
    listener_close(&t.listener);
    (void)snprintf(backups, sizeof backups, "%s/backups", t.dir);
    files_remove(backups);
    files_remove(t.dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_under_load)};
    if (argc == 4 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2], (int)strtol(argv[3], NULL, 10));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
