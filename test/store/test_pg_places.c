/* test_pg_places.c - servers that are not what they were: a standby, and a cluster that got another
 * one's dump
 */
#include <fcntl.h>
#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/files.h"
#include "support/pgserver.h"
#include "support/storetest.h"

#define BURNT_IDS 3000

static int try_open(const char *url, struct store **out_store, struct qp_err *err)
{
    static struct qp_env env;
    qp_env_init(&env);
    env.log = NULL;
    return store_open(&env, &(struct store_options){.path = url}, out_store, err);
}

static struct store *open_at(const char *url)
{
    struct qp_err err = {0};
    struct store *s = NULL;
    if (try_open(url, &s, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
    return s;
}

static void add_job(struct store *s, const char *jid)
{
    struct commit c;
    struct bundle *b;
    struct op *reserve;
    struct job_ref ref = {STORE_NS_DEFAULT, 0};
    commit_init(&c, s);
    reserve = bundle_op(commit_bundle(&c, "number"), OP_ids_reserve);
    reserve->ids_reserve.count = 1;
    assert_int_equal(store_commit(s, &c), QP_OK);
    ref.job = reserve->ids_reserve.out_first;
    commit_reset(&c);
    b = commit_bundle(&c, "job");
    bundle_op(b, OP_job_create)->job_create = (struct op_job_create){
        .ref = ref, .jid = str_from(jid), .workflow = QP_STR("w"), .owner_guid = storetest_guid(1)};
    bundle_op(b, OP_event_add)->event_add = (struct op_event_add){.ref = ref, .kind = 1};
    assert_int_equal(store_commit(s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    commit_done(&c);
}

struct seen {
    int64_t last;
    int64_t count;
};

static int see(void *context, const struct feed_entry *entry)
{
    struct seen *seen = context;
    assert_true(entry->pos > seen->last);
    seen->last = entry->pos;
    seen->count++;
    return QP_OK;
}

/* Until there are as many: the feed waits for every older transaction of the cluster. */
static void follow(struct store *s, struct seen *seen, int64_t count)
{
    struct qp_err err = {0};
    for (int i = 0; i < 1000 && seen->count < count; i++) {
        assert_int_equal(store_feed(s, seen->last, 100, seen, see, &err), QP_OK);
        (void)usleep(seen->count < count ? 10000 : 0);
    }
    assert_int_equal(seen->count, count);
}

static void test_standby(void **state)
{
    struct pgserver *server = pgserver_start();
    const char *url = pgserver_url(server, "x");
    struct qp_err err = {0};
    struct store *s = open_at(url);
    char signal[512];
    (void)state;
    assert_int_equal(store_close(s, NULL), QP_OK);
    pgserver_halt(server, "fast");
    (void)snprintf(signal, sizeof signal, "%s/data/standby.signal", pgserver_directory(server));
    files_put(signal, (const unsigned char *)"", 0);
    assert_int_equal(chmod(signal, 0644), 0);
    pgserver_resume(server);
    assert_int_equal(try_open(url, &s, &err), QP_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "this is a standby"));
    assert_non_null(strstr(err.text, "target_session_attrs=read-write"));
    pgserver_stop(server);
}

/* "pg_dump from | psql to", without a shell. */
static void dump_to(const char *from, const char *to)
{
    int ends[2];
    int status;
    pid_t readers[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 2; i++) {
        readers[i] = fork();
        assert_true(readers[i] >= 0);
        if (readers[i] == 0) {
            int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
            (void)dup2(ends[1 - i], i == 0 ? STDOUT_FILENO : STDIN_FILENO);
            if (i == 1) {
                (void)dup2(sink, STDOUT_FILENO);
            }
            (void)execlp(i == 0 ? "pg_dump" : "psql", i == 0 ? "pg_dump" : "psql", "-d",
                         i == 0 ? from : to, i == 1 ? "-q" : "-Fp", (char *)NULL);
            _exit(127);
        }
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static int64_t newest_id(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, "SELECT pg_current_xact_id()");
    int64_t id;
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(conn);
    return id;
}

static void burn_ids(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    for (int i = 0; i < BURNT_IDS; i++) {
        PGresult *result = PQexec(conn, "SELECT pg_current_xact_id()");
        assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
        PQclear(result);
    }
    PQfinish(conn);
}

/* Positions are made of the cluster's transaction ids, which begin anew in another cluster. A reader that goes
 * on there with its last position misses nothing all the same. */
static void test_restored_dump(void **state)
{
    struct pgserver *old;
    struct pgserver *young;
    const char *from;
    const char *to;
    struct seen seen = {0};
    struct store *s;
    (void)state;
    pgserver_never_copy();
    old = pgserver_start();
    young = pgserver_start();
    from = pgserver_url(old, "x");
    to = pgserver_url(young, "x");
    burn_ids(from);
    s = open_at(from);
    add_job(s, "a");
    add_job(s, "b");
    follow(s, &seen, 2);
    assert_int_equal(store_close(s, NULL), QP_OK);
    dump_to(from, to);
    assert_true(newest_id(to) < newest_id(from) - BURNT_IDS / 2); /* else it proves nothing */
    s = open_at(to);
    add_job(s, "c");
    follow(s, &seen, 3);
    assert_int_equal(store_close(s, NULL), QP_OK);
    s = open_at(to); /* and once it was raised, it stays */
    add_job(s, "d");
    follow(s, &seen, 4);
    assert_int_equal(store_close(s, NULL), QP_OK);
    pgserver_stop(old);
    pgserver_stop(young);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standby),
        cmocka_unit_test(test_restored_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
