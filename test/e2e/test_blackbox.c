/* test_blackbox.c - clients that log what they were told, while nodes are killed, stopped and cut off
 *
 * Clients start jobs and send signals, each of them also again and again; workers do the work; a deployer activates one
 * version after the other and deletes old ones; all of it over HTTP, on any node. The nodes are killed with SIGKILL and
 * stopped with SIGSTOP at random moments; the database is restarted, and connections to it are cut, also in the answer to
 * a COMMIT. In the end what clients were told is held against what came of it (record.h), and the store against the
 * rules of the protocol.
 *
 * The control: the store is rolled back behind the server, to what it was a moment ago. That must be found out.
 *
 * In the check lane it is a sample; in torture more than 200 kills.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "e2e/load.h"
#include "support/files.h"
#include "support/pgproxy.h"
#include "support/pgserver.h"
#include "support/testenv.h"

#define KILLS_FILE_TORTURE 120
#define KILLS_FILE_CHECK 5
#define KILLS_DATABASE_TORTURE 100
#define STARTS_LEAST                                                                               \
    5 /* acknowledged between two faults: a fault that meets nothing shows nothing */

static struct record record;

static void begin(struct nodes *nodes)
{
    memset(&record, 0, sizeof record);
    record.nodes = nodes;
    for (int i = 0; i < nodes->count; i++) {
        nodes_start(nodes, i);
    }
}

/* Until clients have got somewhere, however slow the machine is. */
static void await_progress(void)
{
    int before = atomic_load(&record.plain_count);
    for (int i = 0; i < 600 && atomic_load(&record.plain_count) < before + STARTS_LEAST; i++) {
        nap_ms(50);
        (void)nodes_tend(record.nodes);
    }
    assert_true(atomic_load(&record.plain_count) >= before + STARTS_LEAST);
}

static void check_store(const char *path)
{
    struct qp_check_options check;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    qp_check_options_init(&check);
    check.path = path;
    assert_int_equal(qp_check(&check, NULL, NULL, &result, &err), QP_OK);
    assert_int_equal(result.errors, 0);
}

/* ------------------------------------------------------------------------------------------- faults */

static void kill_one(int i)
{
    nodes_kill(record.nodes, i);
    nodes_start(record.nodes, i);
    (void)atomic_fetch_add(&record.faults, 1);
}

static void stop_one(int i, long ms)
{
    assert_int_equal(kill(record.nodes->node[i].pid, SIGSTOP), 0);
    nap_ms(ms);
    assert_int_equal(kill(record.nodes->node[i].pid, SIGCONT), 0);
    (void)atomic_fetch_add(&record.faults, 1);
}

/* A kill, and now and then a stop before it. */
static void strike(uint64_t *random)
{
    int i = (int)testenv_random_below(random, (uint64_t)record.nodes->count);
    if (testenv_random_below(random, 4) == 0) {
        stop_one(i, 100 + (long)testenv_random_below(random, 1500));
    }
    nap_ms((long)testenv_random_below(random, 300));
    kill_one(i);
}

static void strike_database(struct pgserver *server, struct pgproxy *proxy, uint64_t *random)
{
    static const enum pgproxy_kind kinds[] = {PGPROXY_RESET, PGPROXY_DROP_COMMIT};
    switch (testenv_random_below(random, 8)) {
    case 0:
        pgserver_restart(server, "immediate");
        break;
    case 1:
        pgserver_restart(server, "fast");
        break;
    default:
        pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = kinds[testenv_random_below(random, 2)],
                                                   .after_commits =
                                                       (int64_t)testenv_random_below(random, 20)});
    }
    (void)atomic_fetch_add(&record.faults, 1);
}

/* -------------------------------------------------------------------------------------------- tests */

static void a_file_under_kills(void **state)
{
    int kills = testenv_is_torture() ? KILLS_FILE_TORTURE : KILLS_FILE_CHECK;
    uint64_t random = testenv_seed();
    struct nodes nodes;
    struct load *load;
    char file[400];
    (void)state;
    nodes_open(&nodes, 1, NULL);
    begin(&nodes);
    load = load_start(&record, testenv_random(&random));
    for (int i = 0; i < kills; i++) {
        await_progress();
        strike(&random);
    }
    await_progress();
    assert_true(load_stop(load));
    assert_int_equal(record_check(&record).violations, 0);
    nodes_end(&nodes, 0);
    nodes_file(&nodes, file, sizeof file);
    check_store(file);
    nodes_close(&nodes);
}

static void three_nodes_and_a_database(void **state)
{
    uint64_t random;
    struct pgserver *server;
    struct pgproxy *proxy;
    struct nodes nodes;
    struct load *load;
    char url[256];
    (void)state;
    if (!testenv_is_torture()) {
        skip();
    }
    random = testenv_seed();
    server = pgserver_start();
    proxy = pgproxy_start(pgserver_port(server));
    (void)pgserver_url(server, "blackbox");
    (void)snprintf(url, sizeof url, "%s", pgproxy_url(proxy, "blackbox"));
    nodes_open(&nodes, NODES_MOST, url);
    begin(&nodes);
    load = load_start(&record, testenv_random(&random));
    for (int i = 0; i < KILLS_DATABASE_TORTURE; i++) {
        await_progress();
        strike_database(server, proxy, &random);
        nap_ms((long)testenv_random_below(&random, 300));
        strike(&random);
    }
    pgproxy_arm(proxy, &(struct pgproxy_fault){.kind = PGPROXY_NONE});
    await_progress();
    assert_true(load_stop(load));
    assert_int_equal(record_check(&record).violations, 0);
    for (int i = 0; i < nodes.count; i++) {
        nodes_end(&nodes, i);
    }
    check_store(pgserver_url(server, "blackbox"));
    nodes_close(&nodes);
    pgproxy_stop(proxy);
    pgserver_stop(server);
}

/* ------------------------------------------------------------------------------------------ control */

#define PARTS 2
static const char *const parts[PARTS] = {"", "-wal"};

struct copy {
    unsigned char *bytes[PARTS];
    size_t size[PARTS];
};

static void part_name(const char *file, int part, char *out, size_t size)
{
    (void)snprintf(out, size, "%s%s", file, parts[part]);
}

/* The store as it is; no node runs. */
static void copy_take(struct copy *c, const char *file)
{
    for (int i = 0; i < PARTS; i++) {
        char name[420];
        part_name(file, i, name, sizeof name);
        c->bytes[i] = files_get(name, &c->size[i]);
    }
}

/* And back, with no trace of what was there since: as a snapshot of a machine would do it. */
static void copy_restore(struct copy *c, const char *file)
{
    static const char *const traces[] = {"-shm", "-qplock"};
    char name[420];
    for (int i = 0; i < PARTS; i++) {
        part_name(file, i, name, sizeof name);
        (void)unlink(name); /* it may not be there */
        if (c->bytes[i] != NULL) {
            files_put(name, c->bytes[i], c->size[i]);
        }
        free(c->bytes[i]);
    }
    for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", file, traces[i]);
        (void)unlink(name); /* likewise */
    }
}

static void a_store_that_was_rolled_back_is_found_out(void **state)
{
    uint64_t random = testenv_seed();
    struct nodes nodes;
    struct copy copy;
    struct load *load;
    char file[400];
    (void)state;
    nodes_open(&nodes, 1, NULL);
    nodes_file(&nodes, file, sizeof file);
    begin(&nodes);
    load = load_start(&record, testenv_random(&random));
    await_progress();
    nodes_kill(&nodes, 0);
    copy_take(&copy, file);
    nodes_start(&nodes, 0);
    await_progress();
    await_progress();
    nodes_kill(&nodes, 0);
    copy_restore(&copy, file);
    nodes_start(&nodes, 0);
    (void)atomic_fetch_add(&record.faults, 2);
    await_progress();
    load_abandon(load);
    assert_true(record_check(&record).lost > 0);
    nodes_close(&nodes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_under_kills),
        cmocka_unit_test(three_nodes_and_a_database),
        cmocka_unit_test(a_store_that_was_rolled_back_is_found_out),
    };
    if (nodes_is_serve(argc, argv)) {
        return nodes_serve(argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
