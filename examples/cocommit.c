/* cocommit.c - exactly once with your own tables: they live in the same file, and commit with the engine
 *
 * usage: cocommit [FILE]      without a file, one in a temporary directory that is removed at the end
 *
 * An order is a row of ours and a job of the engine's: qp_start.tx makes them one commit, so there is
 * never one without the other. Its payment is a row of ours and the proof that the task is done: qp_task_tx
 * makes them one commit, so however often the task is tried, the money moves once.
 *
 * The program does everything twice, as if it had been started again, and then counts.
 */
#include <quipu.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_sql(void *native, const char *sql)
{
    return sqlite3_exec(native, sql, NULL, NULL, NULL) == SQLITE_OK ? QP_OK : QP_E_IO;
}

static int make_tables(void *context, void *native)
{
    (void)context;
    return run_sql(native, "CREATE TABLE IF NOT EXISTS orders(id TEXT PRIMARY KEY, amount INTEGER);"
                           "CREATE TABLE IF NOT EXISTS account(id INTEGER PRIMARY KEY,"
                           " balance INTEGER CHECK(balance >= 0));"
                           "INSERT OR IGNORE INTO account VALUES(1, 100)");
}

struct order {
    const char *id;
    int amount;
};

/* Inside the commit that starts the job. It is not run when the job is there already. */
static int insert_order(void *context, void *native)
{
    const struct order *order = context;
    char sql[128];
    (void)snprintf(sql, sizeof sql, "INSERT INTO orders VALUES('%s', %d)", order->id,
                   order->amount);
    return run_sql(native, sql);
}

/* Inside the commit that proves the task. When the account would be overdrawn, SQLite refuses, we
 * refuse, and neither the row nor the proof is written. */
static int take_money(void *context, void *native)
{
    const int *amount = context;
    char sql[128];
    (void)snprintf(sql, sizeof sql, "UPDATE account SET balance = balance - %d WHERE id = 1",
                   *amount);
    return run_sql(native, sql);
}

static int amounts[8]; /* by order: what a tx reads must live until the commit */

static int pay(void *context, qp_task *task)
{
    qp_str input = qp_task_input(task);
    char text[16];
    int order;
    (void)context;
    (void)snprintf(text, sizeof text, "%.*s", (int)input.n, input.p);
    order = (int)strtol(text, NULL, 10);
    if (order < 0 || order >= 8) {
        return qp_task_fail(task, &(struct qp_failure){.message = "no such order", .fatal = 1});
    }
    qp_task_tx(task, take_money, &amounts[order]);
    return qp_task_output(task, QP_STR("\"paid\""));
}

static int read_balance(void *context, void *native)
{
    sqlite3_stmt *select = NULL;
    int *out = context;
    if (sqlite3_prepare_v2(native,
                           "SELECT (SELECT balance FROM account), (SELECT count(*) FROM orders)",
                           -1, &select, NULL) == SQLITE_OK &&
        sqlite3_step(select) == SQLITE_ROW) {
        out[0] = sqlite3_column_int(select, 0);
        out[1] = sqlite3_column_int(select, 1);
    }
    return sqlite3_finalize(select) == SQLITE_OK ? QP_OK : QP_E_IO;
}

static int one_life(const char *path, int *out_balance_and_orders)
{
    static const struct order orders[] = {{"order-0", 30}, {"order-1", 50}, {"order-2", 500}};
    static const char *const inputs[] = {"0", "1", "2"};
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    int rc;
    qp_options_init(&options);
    options.path = path;
    rc = qp_open(&options, &q, &err);
    rc = rc == QP_OK ? qp_exec(q, make_tables, NULL, &err) : rc;
    rc = rc == QP_OK
             ? qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("pay"), .work = pay}, &err)
             : rc;
    for (size_t i = 0; i < 3 && rc == QP_OK; i++) {
        struct order order = orders[i];
        amounts[i] = order.amount;
        rc = qp_job_start(q,
                          &(struct qp_start){.topic = QP_STR("pay"),
                                             .id = {order.id, strlen(order.id)},
                                             .input = {inputs[i], 1},
                                             .retry = {.attempts = 2, .backoff_ms = 10},
                                             .tx = insert_order,
                                             .tx_context = &order},
                          NULL, &err);
    }
    for (size_t i = 0; i < 3 && rc == QP_OK; i++) {
        struct qp_job job;
        rc = qp_job_wait(q, (qp_str){orders[i].id, strlen(orders[i].id)}, -1, &job, &err);
        if (rc == QP_OK) {
            printf("%s of %3d: %s %.*s\n", orders[i].id, orders[i].amount, job.status,
                   (int)job.error.n, job.error.n > 0 ? job.error.p : "");
            qp_job_done(q, &job);
        }
    }
    rc = rc == QP_OK ? qp_exec(q, read_balance, out_balance_and_orders, &err) : rc;
    if (rc != QP_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    return qp_close(q, &err) != QP_OK || rc != QP_OK;
}

static int both_lives(const char *path)
{
    int found[2] = {0};
    for (int life = 1; life <= 2; life++) {
        if (one_life(path, found) != 0) {
            return 1;
        }
        printf("life %d: balance %d, %d orders\n", life, found[0], found[1]);
    }
    return found[0] == 20 && found[1] == 3 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock"};
    const char *tmp = getenv("TMPDIR");
    char dir[200];
    char path[256];
    int rc;
    if (argc > 1) {
        return both_lives(argv[1]);
    }
    (void)snprintf(dir, sizeof dir, "%s/quipu-cocommit.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return fprintf(stderr, "cannot make a directory like %s\n", dir), 1;
    }
    (void)snprintf(path, sizeof path, "%s/orders.db", dir);
    rc = both_lives(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[280];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(dir);
    return rc;
}
