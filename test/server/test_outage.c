/* test_outage.c - the drill: PostgreSQL goes away under load, and comes back
 *
 * Two servers share one database. Clients of both start jobs with ids of their own, make namespaces, read, and serve tasks;
 * others ask whether the servers are ready and for their numbers. Then the database is stopped, or stalls behind a proxy, and
 * comes back after a while. Proves:
 *
 *   every request has its answer within 6 s; /readyz and /metrics within 1 s
 *   what was acknowledged is there in the end, and every acknowledged job completes
 *   what was answered with 503 was not executed
 *   each server logs the loss and the return once
 *
 * In the check lane the database is away for 8 s; with the thread sanitizer it stalls, without it it is stopped. In torture
 * it is away for 30 s in both ways, and for 8 s three times in a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "server/server.h"
#include "support/files.h"
#include "support/httpclient.h"
#include "support/pgproxy.h"
#include "support/pgserver.h"
#include "support/testenv.h"

#define NODES 2
#define STARTERS 3 /* of each node, and so on */
#define MAKERS 1
#define READERS 2
#define WORKERS 2
#define LOOKERS 2
#define ANSWER_MS 6000
#define BRIEF_MS 1000
#define ASKED_MOST 20000
#define LOG_SIZE (512 * 1024)

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

struct node {
    struct server *server;
    struct server_options options;
    struct qp_env env;
    char dir[320];
    int port;
    pthread_mutex_t lock;
    size_t log_size;
    char log[LOG_SIZE];
};

/* A request that makes something of its own name, and what came of it. */
struct asked {
    int status;
    bool job; /* or a namespace */
    char name[40];
};

static struct {
    struct node nodes[NODES];
    char token[TOKEN_TEXT_SIZE];
    atomic_bool stop;    /* no more starts */
    atomic_bool over;    /* nor workers */
    atomic_int slowest;  /* ms */
    atomic_int briefest; /* the slowest of those that are to be brief */
    atomic_int good;     /* answers by status */
    atomic_int refused;
    atomic_int unknown;
    atomic_int unready; /* /readyz that said no */
    pthread_mutex_t lock;
    struct asked asked[ASKED_MOST]; /* under the lock */
    size_t asked_count;
} drill;

/* ------------------------------------------------------------------------------------------ nodes */

static void keep_log(void *context, enum qp_log_level level, const char *line, size_t size)
{
    struct node *n = context;
    (void)level;
    (void)pthread_mutex_lock(&n->lock);
    if (n->log_size + size + 2 < sizeof n->log) {
        memcpy(n->log + n->log_size, line, size);
        n->log_size += size;
        n->log[n->log_size++] = '\n';
    }
    (void)pthread_mutex_unlock(&n->lock);
}

static int lines_with(struct node *n, const char *text)
{
    int count = 0;
    (void)pthread_mutex_lock(&n->lock);
    n->log[n->log_size] = '\0';
    for (const char *at = n->log; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return count;
}

static void read_token(const struct node *n)
{
    char file[400];
    size_t size = 0;
    unsigned char *text;
    (void)snprintf(file, sizeof file, "%s/admin.token", n->dir);
    text = files_get(file, &size);
    assert_non_null(text);
    assert_true(size > 1 && size <= sizeof drill.token);
    memcpy(drill.token, text, size - 1);
    free(text);
}

static void node_open(struct node *n, const char *url)
{
    struct qp_err err = {0};
    memset(n, 0, sizeof *n);
    (void)pthread_mutex_init(&n->lock, NULL);
    qp_env_init(&n->env);
    n->env.context = n;
    n->env.log = keep_log;
    files_temporary(n->dir, sizeof n->dir, "outage");
    n->options = (struct server_options){.env = &n->env,
                                         .data = n->dir,
                                         .store = url,
                                         .listen = {"127.0.0.1:0"},
                                         .listen_count = 1,
                                         .drain_ms = 10000};
    if (server_open(&n->options, &n->server, &err) != QP_OK) {
        fail_msg("a server does not start: %s", err.text);
    }
    n->port = (int)strtol(strrchr(server_name(n->server, 0), ':') + 1, NULL, 10);
    if (server_token_file(n->server) != NULL) {
        read_token(n);
    }
}

static void node_close(struct node *n)
{
    char backups[400];
    assert_true(server_close(n->server));
    (void)snprintf(backups, sizeof backups, "%s/backups", n->dir);
    files_remove(backups);
    files_remove(n->dir);
    (void)pthread_mutex_destroy(&n->lock);
}

/* ---------------------------------------------------------------------------------------- clients */

static void raise_to(atomic_int *most, int value)
{
    int before = atomic_load(most);
    while (before < value && !atomic_compare_exchange_weak(most, &before, value)) {}
}

/* One request on a connection of its own, and how long its answer took. */
static struct hc_answer ask(struct node *n, const char *method, const char *path, const char *body,
                            atomic_int *slowest)
{
    int64_t from = now_ms();
    struct hc_answer a = hc_call(n->port, drill.token, method, path, body);
    raise_to(slowest, (int)(now_ms() - from));
    QP_ASSERT(a.status >= 200 && a.status < 600); /* there is an answer */
    atomic_fetch_add(&drill.good, a.status < 300);
    atomic_fetch_add(&drill.refused, a.status == 503);
    atomic_fetch_add(&drill.unknown, a.status == 504);
    return a;
}

static void note(const char *name, bool job, int status)
{
    struct asked *x;
    (void)pthread_mutex_lock(&drill.lock);
    QP_ASSERT(drill.asked_count < ASKED_MOST);
    x = &drill.asked[drill.asked_count++];
    x->status = status;
    x->job = job;
    (void)snprintf(x->name, sizeof x->name, "%s", name);
    (void)pthread_mutex_unlock(&drill.lock);
}

/* Each name is asked for once: so what is there in the end comes from that request. */
static void make_one(struct node *n, bool job, int index, int count)
{
    char name[40];
    char body[160];
    struct hc_answer a;
    (void)snprintf(name, sizeof name, "%c-%d-%d-%d", job ? 'j' : 'n', (int)(n - drill.nodes), index,
                   count);
    (void)snprintf(body, sizeof body,
                   job ? "{\"topic\":\"work\",\"id\":\"%s\"}" : "{\"name\":\"%s\"}", name);
    a = ask(n, "POST", job ? "/v1/jobs" : "/v1/namespaces", body, &drill.slowest);
    note(name, job, a.status);
    if (a.status == 503) {
        char *after = hc_header(&a, "Retry-After");
        QP_ASSERT(after != NULL);
        free(after);
    }
    hc_done(&a);
}

static void read_one(struct node *n, int count)
{
    struct hc_answer a =
        ask(n, "GET", count % 2 == 0 ? "/v1/jobs?limit=5" : "/v1/namespaces", NULL, &drill.slowest);
    QP_ASSERT(a.status == 200 || a.status == 503);
    hc_done(&a);
}

static void look_one(struct node *n, int count)
{
    bool ready = count % 2 == 0;
    struct hc_answer a = ask(n, "GET", ready ? "/readyz" : "/metrics", NULL, &drill.briefest);
    QP_ASSERT(a.status == 200 || a.status == 503);
    atomic_fetch_add(&drill.unready, ready && a.status == 503);
    hc_done(&a);
}

/* The results of the tasks in an answer, as the next call brings them. */
static void put_results(const struct hc_answer *a, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < 20; i++) {
        char path[40];
        char *token;
        (void)snprintf(path, sizeof path, "tasks.%d.token", i);
        token = hc_member(a, path);
        if (token == NULL) {
            break;
        }
        n += (size_t)snprintf(out + n, size - n, "%s{\"token\":\"%s\",\"output\":1}",
                              i > 0 ? "," : "", token);
        QP_ASSERT(n < size - 2);
        free(token);
    }
    (void)snprintf(out + n, size - n, "]");
}

/* Brings what it has until it is taken: then it is not brought again. */
static void work_for(struct node *n, int index)
{
    char results[8192] = "[]";
    char body[9000];
    while (!atomic_load(&drill.over)) {
        struct hc_answer a;
        (void)snprintf(body, sizeof body,
                       "{\"worker\":\"w%d\",\"topics\":[\"work\"],\"want\":20,\"wait\":\"200ms\","
                       "\"results\":%s}",
                       index, results);
        a = ask(n, "POST", "/v1/work", body, &drill.slowest);
        QP_ASSERT(a.status == 200 || a.status == 503 || a.status == 504);
        if (a.status == 200) {
            put_results(&a, results, sizeof results);
        } else {
            pause_ms(100);
        }
        hc_done(&a);
    }
}

enum { THREADS = STARTERS + MAKERS + READERS + WORKERS + LOOKERS };

struct client {
    pthread_t thread;
    struct node *node;
    int index;
};

static void *client_main(void *context)
{
    struct client *c = context;
    int role = c->index;
    for (int count = 0; !atomic_load(&drill.stop); count++) {
        if (role < STARTERS) {
            make_one(c->node, true, role, count);
            pause_ms(15);
        } else if (role < STARTERS + MAKERS) {
            make_one(c->node, false, role, count);
            pause_ms(100);
        } else if (role < STARTERS + MAKERS + READERS) {
            read_one(c->node, count);
            pause_ms(20);
        } else if (role < STARTERS + MAKERS + READERS + WORKERS) {
            work_for(c->node, role);
        } else {
            look_one(c->node, count);
            pause_ms(150);
        }
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------------- proofs */

static bool has_completed(struct node *n, const char *job)
{
    char path[80];
    char *status;
    struct hc_answer a;
    bool completed;
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", job);
    a = ask(n, "GET", path, NULL, &drill.slowest);
    status = hc_member(&a, "status");
    completed = a.status == 200 && status != NULL && strcmp(status, "completed") == 0;
    free(status);
    hc_done(&a);
    return completed;
}

static bool is_there(struct node *n, const struct asked *x)
{
    char path[120];
    struct hc_answer a;
    bool there;
    (void)snprintf(path, sizeof path, x->job ? "/v1/jobs/%s" : "/v1/jobs?namespace=%s", x->name);
    a = ask(n, "GET", path, NULL, &drill.slowest);
    there = a.status == 200;
    assert_true(there || a.status == 404);
    hc_done(&a);
    return there;
}

/* Every job that was acknowledged ends within a generous time. */
static void await_jobs(struct node *n)
{
    int64_t until = now_ms() + 60000;
    for (size_t i = 0; i < drill.asked_count; i++) {
        const struct asked *x = &drill.asked[i];
        while (x->job && x->status < 300 && !has_completed(n, x->name)) {
            if (now_ms() > until) {
                fail_msg("%s was acknowledged and does not complete", x->name);
            }
            pause_ms(50);
        }
    }
}

static void prove(void)
{
    int refused = 0;
    for (size_t i = 0; i < drill.asked_count; i++) {
        const struct asked *x = &drill.asked[i];
        struct node *n = &drill.nodes[i % NODES];
        if (x->status < 300 && !is_there(n, x)) {
            fail_msg("%s was acknowledged with %d and is lost", x->name, x->status);
        }
        if (x->status == 503) {
            refused++;
            if (is_there(n, x)) {
                fail_msg("%s was answered with 503 and executed", x->name);
            }
        }
        assert_true(x->status < 300 || x->status == 503 || x->status == 504);
    }
    assert_true(refused > 0);
}

/* ------------------------------------------------------------------------------------------ drill */

enum outage { OUTAGE_HALT, OUTAGE_STALL };

struct way {
    struct pgserver *server;
    struct pgproxy *proxy; /* of a stall */
    enum outage outage;
};

static void take_away(struct way *w)
{
    if (w->outage == OUTAGE_HALT) {
        pgserver_halt(w->server, "immediate");
    } else {
        pgproxy_arm(w->proxy, &(struct pgproxy_fault){.kind = PGPROXY_STALL});
    }
}

static void bring_back(struct way *w)
{
    if (w->outage == OUTAGE_HALT) {
        pgserver_resume(w->server);
    } else {
        pgproxy_arm(w->proxy, &(struct pgproxy_fault){.kind = PGPROXY_NONE});
    }
}

static bool is_worker(int index)
{
    int first = STARTERS + MAKERS + READERS;
    return index >= first && index < first + WORKERS;
}

static void join(struct client clients[NODES][THREADS], bool workers)
{
    for (int i = 0; i < NODES * THREADS; i++) {
        if (is_worker(i % THREADS) == workers) {
            (void)pthread_join(clients[i / THREADS][i % THREADS].thread, NULL);
        }
    }
}

static void run_drill(enum outage outage, int away_ms, int times)
{
    struct way w = {.server = pgserver_start(), .outage = outage};
    struct client clients[NODES][THREADS];
    const char *url = pgserver_url(w.server, "outage");
    memset(&drill, 0, sizeof drill);
    (void)pthread_mutex_init(&drill.lock, NULL);
    if (outage == OUTAGE_STALL) {
        w.proxy = pgproxy_start(pgserver_port(w.server));
        url = pgproxy_url(w.proxy, "outage");
    }
    for (int i = 0; i < NODES; i++) {
        node_open(&drill.nodes[i], url);
    }
    for (int i = 0; i < NODES * THREADS; i++) {
        struct client *c = &clients[i / THREADS][i % THREADS];
        *c = (struct client){.node = &drill.nodes[i / THREADS], .index = i % THREADS};
        assert_int_equal(pthread_create(&c->thread, NULL, client_main, c), 0);
    }
    for (int i = 0; i < times; i++) {
        pause_ms(testenv_is_torture() ? 1500 : 700);
        take_away(&w);
        pause_ms(away_ms);
        bring_back(&w);
        pause_ms(testenv_is_torture() ? 5000 : 2000);
    }
    atomic_store(&drill.stop, true);
    join(clients, false);
    await_jobs(&drill.nodes[0]);
    atomic_store(&drill.over, true);
    join(clients, true);
    prove();
    print_message("%zu asked; answers: %d 2xx, %d 503, %d 504; slowest %d ms, of the brief %d ms\n",
                  drill.asked_count, atomic_load(&drill.good), atomic_load(&drill.refused),
                  atomic_load(&drill.unknown), atomic_load(&drill.slowest),
                  atomic_load(&drill.briefest));
    assert_true(atomic_load(&drill.slowest) <= ANSWER_MS);
    assert_true(atomic_load(&drill.briefest) <= BRIEF_MS);
    assert_true(atomic_load(&drill.unready) > 0);
    for (int i = 0; i < NODES; i++) {
        if (outage == OUTAGE_HALT) {
            assert_int_equal(lines_with(&drill.nodes[i], "the database is away"), times);
            assert_int_equal(lines_with(&drill.nodes[i], "the database is back"), times);
        }
        node_close(&drill.nodes[i]);
    }
    pgproxy_stop(w.proxy);
    pgserver_stop(w.server);
}

static bool has_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}

static void the_database_is_stopped(void **state)
{
    (void)state;
    if (!testenv_is_torture() && has_thread_sanitizer()) {
        skip();
    }
    run_drill(OUTAGE_HALT, testenv_is_torture() ? 30000 : 8000, 1);
}

static void the_database_stalls(void **state)
{
    (void)state;
    if (!testenv_is_torture() && !has_thread_sanitizer()) {
        skip();
    }
    run_drill(OUTAGE_STALL, testenv_is_torture() ? 30000 : 8000, 1);
}

static void it_goes_away_again(void **state)
{
    (void)state;
    if (!testenv_is_torture()) {
        skip();
    }
    run_drill(OUTAGE_HALT, 8000, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_database_is_stopped),
                                       cmocka_unit_test(the_database_stalls),
                                       cmocka_unit_test(it_goes_away_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
