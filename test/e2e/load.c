/* load.c - clients, workers and a deployer (see load.h) */
#include "e2e/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/httpclient.h"
#include "support/testenv.h"

#define STARTERS 2
#define ORDERERS 3
#define WORKERS 3
#define ACTORS (STARTERS + ORDERERS + WORKERS + 1)
#define TASKS 4          /* of one call */
#define ASK_AGAIN_MS 20  /* after an answer that was none */
#define DEPLOY_MS 150    /* between two versions */
#define SETTLE_MS 120000 /* leases of tasks whose node was killed, and a margin for slow machines */

/* One thread, and the node that it talks to. */
struct actor {
    struct load *load;
    pthread_t thread;
    uint64_t random;
    struct hc connection;
    int node;
    int number;
};

struct load {
    struct record *record;
    atomic_bool stop;         /* clients */
    atomic_bool workers_stop; /* when nothing is left to do */
    struct actor actors[ACTORS];
    int actor_count;
};

/* ----------------------------------------------------------------------------------------- requests */

/* One request to the actor's node; without an answer another node is next. */
static struct hc_answer ask(struct actor *a, const char *method, const char *path, const char *body)
{
    struct nodes *nodes = a->load->record->nodes;
    struct hc_answer answer = {0};
    if (a->connection.fd < 0) {
        a->node = (int)testenv_random_below(&a->random, (uint64_t)nodes->count);
        if (!hc_open(&a->connection, nodes->node[a->node].port)) {
            return answer;
        }
    }
    answer = hc_ask(&a->connection, NULL, method, path, NULL, body);
    if (answer.status == 0 || answer.status >= 500 ||
        testenv_random_below(&a->random, 16) == 0) { /* and now and then by chance */
        hc_close(&a->connection);
    }
    return answer;
}

/* R6: what a repeated request may be answered. */
static void note_refusal(struct actor *a, const char *path, const struct hc_answer *answer)
{
    if (atomic_fetch_add(&a->load->record->refused, 1) < 10) {
        (void)printf("R6: POST %s: %d %s\n", path, answer->status, answer->body);
    }
}

/* The same request until it is acknowledged. False: it was refused. */
static bool ask_until_acked(struct actor *a, const char *path, const char *body)
{
    for (;;) {
        struct hc_answer answer = ask(a, "POST", path, body);
        int status = answer.status;
        if (status >= 400 && status < 500 && status != 429) {
            note_refusal(a, path, &answer);
        }
        hc_done(&answer);
        if (status >= 200 && status < 300) {
            return true;
        }
        if (status >= 400 && status < 500 && status != 429) {
            return false;
        }
        nap_ms(ASK_AGAIN_MS);
    }
}

static bool stopped(const struct actor *a)
{
    return atomic_load(&a->load->stop);
}

/* ------------------------------------------------------------------------------------------ clients */

static void *starter(void *context)
{
    struct actor *a = context;
    struct record *r = a->load->record;
    while (!stopped(a)) {
        char body[160];
        int id = atomic_fetch_add(&r->plain_count, 1);
        if (id >= PLAIN_MOST) {
            (void)atomic_fetch_sub(&r->plain_count, 1);
            break;
        }
        (void)snprintf(body, sizeof body, "{\"topic\":\"plain\",\"id\":\"p%d\",\"input\":%d}", id,
                       id);
        atomic_store(&r->plain_started[id], ask_until_acked(a, "/v1/jobs", body));
        nap_ms((long)testenv_random_below(&a->random, 20));
    }
    hc_close(&a->connection);
    return NULL;
}

/* One of the two signals of an order. */
static bool send_signal(struct actor *a, int order, int which)
{
    char body[200];
    (void)snprintf(body, sizeof body,
                   "{\"topic\":\"bb.go\",\"key\":\"g%d\",\"id\":\"s%c\","
                   "\"payload\":{\"id\":\"g%d\",\"mark\":\"%c%d\"}}",
                   order, 'a' + which, order, 'a' + which, order);
    return ask_until_acked(a, "/v1/signals", body);
}

/* A signal of this client's orders of late that was acknowledged is sent again: that is harmless, whatever has become of
 * it. */
static void send_again(struct actor *a, const int *orders, int count)
{
    struct record *r = a->load->record;
    for (int i = 0; i < 2 && count > 0; i++) {
        int order = orders[testenv_random_below(&a->random, (uint64_t)count)];
        int which = (int)testenv_random_below(&a->random, 2);
        if (r->orders[order].sent[which]) {
            (void)send_signal(a, order, which); /* refusals are noted */
            (void)atomic_fetch_add(&r->resent, 1);
        }
    }
}

static void place_order(struct actor *a, int id)
{
    struct order *o = &a->load->record->orders[id];
    char body[200];
    (void)snprintf(body, sizeof body,
                   "{\"topic\":\"bb.order\",\"id\":\"g%d\",\"input\":{\"id\":\"g%d\",\"n\":%d}}",
                   id, id, id);
    o->version = atomic_load(&a->load->record->activated);
    o->started = ask_until_acked(a, "/v1/jobs", body);
}

#define ORDERS_RECENT 16

static void *orderer(void *context)
{
    struct actor *a = context;
    struct record *r = a->load->record;
    int recent[ORDERS_RECENT];
    int count = 0;
    while (!stopped(a)) {
        int id = atomic_fetch_add(&r->order_count, 1);
        if (id >= ORDERS_MOST) {
            (void)atomic_fetch_sub(&r->order_count, 1);
            break;
        }
        recent[count % ORDERS_RECENT] = id;
        count++;
        place_order(a, id);
        for (int which = 0; which < 2; which++) {
            r->orders[id].sent[which] = send_signal(a, id, which);
            send_again(a, recent, count < ORDERS_RECENT ? count : ORDERS_RECENT);
        }
        nap_ms((long)testenv_random_below(&a->random, 20));
    }
    hc_close(&a->connection);
    return NULL;
}

/* ----------------------------------------------------------------------------------------- deployer */

/* The body of a deployment: the text of the graph as a JSON string. */
static const char graph[] = "{\"activate\":true,\"text\":\"app:\\n"
                            "  id: bb\\n"
                            "  version: '%d'\\n"
                            "  graphs:\\n"
                            "    - subscribes: bb.order\\n"
                            "      activities:\\n"
                            "        begin: { type: trigger }\\n"
                            "        step:\\n"
                            "          type: worker\\n"
                            "          topic: bb.step\\n"
                            "          retry: { maximumAttempts: 1000, initialInterval: 1 }\\n"
                            "          input: { maps: { n: '{begin.output.data.n}' } }\\n"
                            "        first: { type: hook }\\n"
                            "        second:\\n"
                            "          type: hook\\n"
                            "          job:\\n"
                            "            maps:\\n"
                            "              version: %d\\n"
                            "              done: '{step.output.data.done}'\\n"
                            "              first: '{first.hook.data.mark}'\\n"
                            "              second: '{$self.hook.data.mark}'\\n"
                            "      transitions:\\n"
                            "        begin: [{ to: step }]\\n"
                            "        step: [{ to: first }]\\n"
                            "        first: [{ to: second }]\\n"
                            "      hooks:\\n"
                            "        bb.go:\\n"
                            "          - to: first\\n"
                            "            conditions:\\n"
                            "              match:\\n"
                            "                - expected: '{begin.output.data.id}'\\n"
                            "                  actual: '{$self.hook.data.id}'\\n"
                            "          - to: second\\n"
                            "            conditions:\\n"
                            "              match:\\n"
                            "                - expected: '{begin.output.data.id}'\\n"
                            "                  actual: '{$self.hook.data.id}'\\n\"}";

static void deploy(struct actor *a, int version)
{
    char text[sizeof graph + 32];
    struct record *r = a->load->record;
    (void)snprintf(text, sizeof text, graph, version, version);
    atomic_store(&r->deploying, version);
    if (ask_until_acked(a, "/v1/workflows", text)) {
        atomic_store(&r->activated, version);
    }
}

/* An old version goes, unless it is still needed: either answer will do, and so does none. */
static void delete_old(struct actor *a, int version)
{
    char path[64];
    struct hc_answer answer;
    (void)snprintf(path, sizeof path, "/v1/workflows/bb/versions/%d", version);
    answer = ask(a, "DELETE", path, NULL);
    hc_done(&answer);
}

static void *deployer(void *context)
{
    struct actor *a = context;
    for (int version = 2; !stopped(a); version++) {
        deploy(a, version);
        if (version > 3) {
            delete_old(a, version - 2);
        }
        nap_ms((long)testenv_random_below(&a->random, DEPLOY_MS));
    }
    hc_close(&a->connection);
    return NULL;
}

/* ------------------------------------------------------------------------------------------ workers */

/* A raw call of a task, before its result is sent. */
static void note_call(struct record *r, const char *job)
{
    long id = strtol(job + 1, NULL, 10);
    if (job[0] == 'p' && id < PLAIN_MOST) {
        (void)atomic_fetch_add(&r->plain_calls[id], 1);
    } else if (job[0] == 'g' && id < ORDERS_MOST) {
        (void)atomic_fetch_add(&r->order_calls[id], 1);
    }
}

static size_t put_result(struct record *r, const struct hc_answer *a, int i, char *out, size_t size,
                         bool first)
{
    char member[32];
    char *token, *job;
    size_t n = 0;
    (void)snprintf(member, sizeof member, "tasks.%d.token", i);
    token = hc_member(a, member);
    (void)snprintf(member, sizeof member, "tasks.%d.job", i);
    job = hc_member(a, member);
    if (token != NULL && job != NULL) {
        int output = record_output((int)strtol(job + 1, NULL, 10));
        note_call(r, job);
        n = (size_t)snprintf(out, size,
                             job[0] == 'p' ? "%s{\"token\":\"%s\",\"output\":%d}"
                                           : "%s{\"token\":\"%s\",\"output\":{\"done\":%d}}",
                             first ? "" : ",", token, output);
    }
    free(token);
    free(job);
    return n;
}

/* The next call: the results of all tasks of the last answer. */
static void next_call(struct actor *w, const struct hc_answer *a, char *body, size_t size)
{
    size_t head = (size_t)snprintf(
        body, size,
        "{\"worker\":\"w%d\",\"topics\":[\"plain\",\"bb.step\"],\"want\":%d,\"wait\":\"1s\","
        "\"results\":[",
        w->number, TASKS);
    size_t n = head;
    for (int i = 0; i < TASKS; i++) {
        n += put_result(w->load->record, a, i, body + n, size - n, n == head);
    }
    (void)snprintf(body + n, size - n, "]}");
}

static void *worker(void *context)
{
    struct actor *w = context;
    char body[4096];
    struct hc_answer none = {0};
    next_call(w, &none, body, sizeof body);
    while (!atomic_load(&w->load->workers_stop)) {
        struct hc_answer a = ask(w, "POST", "/v1/work", body);
        if (a.status == 200) {
            next_call(w, &a, body, sizeof body);
        } else {
            nap_ms(ASK_AGAIN_MS); /* the same results again: that is harmless */
        }
        hc_done(&a);
    }
    hc_close(&w->connection);
    return NULL;
}

/* --------------------------------------------------------------------------------- beginning and end */

static struct actor *add(struct load *l, uint64_t *random)
{
    struct actor *a = &l->actors[l->actor_count];
    *a = (struct actor){.load = l, .connection = {.fd = -1}, .number = l->actor_count};
    a->random = testenv_random(random);
    l->actor_count++;
    return a;
}

static void begin(struct load *l, uint64_t *random, void *(*body)(void *))
{
    struct actor *a = add(l, random);
    assert_int_equal(pthread_create(&a->thread, NULL, body, a), 0);
}

struct load *load_start(struct record *r, uint64_t seed)
{
    struct load *l = calloc(1, sizeof *l);
    struct actor first = {.load = l, .connection = {.fd = -1}, .random = seed};
    assert_non_null(l);
    l->record = r;
    deploy(&first, 1);
    hc_close(&first.connection);
    assert_int_equal(atomic_load(&r->activated), 1);
    begin(l, &seed, deployer);
    for (int i = 0; i < STARTERS; i++) {
        begin(l, &seed, starter);
    }
    for (int i = 0; i < ORDERERS; i++) {
        begin(l, &seed, orderer);
    }
    for (int i = 0; i < WORKERS; i++) {
        begin(l, &seed, worker);
    }
    assert_true(l->actor_count <= ACTORS);
    return l;
}

/* How many jobs have not ended; -1: no node says. */
static long open_jobs(const struct record *r, int i)
{
    struct hc_answer a = hc_call(r->nodes->node[i % r->nodes->count].port, NULL, "GET",
                                 "/v1/jobs?limit=1&count=exact&where=status%21%3Dcompleted", NULL);
    char *count = hc_member(&a, "count");
    long open = count == NULL ? -1 : strtol(count, NULL, 10);
    free(count);
    hc_done(&a);
    return open;
}

static void join(struct load *l, int first, int end)
{
    for (int i = first; i < end; i++) {
        assert_int_equal(pthread_join(l->actors[i].thread, NULL), 0);
    }
}

static void clients_end(struct load *l)
{
    atomic_store(&l->stop, true);
    join(l, 0, l->actor_count - WORKERS);
}

static void workers_end(struct load *l)
{
    atomic_store(&l->workers_stop, true);
    join(l, l->actor_count - WORKERS, l->actor_count);
    free(l);
}

bool load_stop(struct load *l)
{
    int64_t waited = 0;
    long open = -1;
    clients_end(l);
    for (int i = 0; open != 0 && waited < SETTLE_MS; i++, waited += 200) {
        open = open_jobs(l->record, i);
        nap_ms(200);
    }
    workers_end(l);
    return open == 0;
}

void load_abandon(struct load *l)
{
    clients_end(l);
    workers_end(l);
}
