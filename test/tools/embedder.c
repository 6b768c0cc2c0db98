/* embedder.c - a service with the engine inside, as somebody who has only quipu.h would write it
 *
 * usage: embedder FILE threads|poll run LIFE     takes orders until it is killed; LIFE makes their ids its own
 *        embedder FILE threads|poll drain        takes no more, works off what is there, and closes
 *        embedder FILE check                     own tables against jobs: exit code 0 when they agree
 *
 * An order is a row of the shop and a job, in one commit. Its charge is a row of the shop and the proof of the task, in
 * one commit. Charging a customer takes a moment and sends heartbeats; of one customer at most LIMIT orders are charged
 * at a time, which is counted where it happens. The test kills the service at any moment and starts it again; in the end
 * there is one job and one charge per order, and none without one.
 *
 * Two ways to live: threads of the engine's own, or one thread with a poll(2) loop.
 */
#include <poll.h>
#include <quipu.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CUSTOMERS 8
#define LIMIT 2
#define THREADS 6
#define IN_FLIGHT 64
#define LEASE_MS 5000

static struct {
    qp *q;
    bool polls;
    const char *life; /* of the ids of its orders */
    long next;        /* number of the next order */
    atomic_long in_flight;
    atomic_int at_once[CUSTOMERS];
} shop;

/* An order on its way to the disk. */
struct order {
    char id[48];
    char input[64];
    int customer;
};

static void die(const char *what, const struct qp_err *err)
{
    (void)fprintf(stderr, "embedder: %s: %s\n", what, err == NULL ? "it should not be" : err->text);
    exit(3);
}

static qp_str text_of(const char *text)
{
    return (qp_str){text, strlen(text)};
}

/* ---------------------------------------------------------------------------------------- own tables */

static int run_sql(void *native, const char *sql, qp_str text)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(native, sql, -1, &s, NULL);
    if (code == SQLITE_OK && text.n > 0) {
        code = sqlite3_bind_text(s, 1, text.p, (int)text.n, SQLITE_STATIC);
    }
    code = code == SQLITE_OK ? sqlite3_step(s) : code;
    (void)sqlite3_finalize(s);
    return code == SQLITE_DONE ? QP_OK : QP_E_IO;
}

static int make_tables(void *context, void *native)
{
    (void)context;
    if (run_sql(native, "CREATE TABLE IF NOT EXISTS shop_order(id TEXT PRIMARY KEY)", QP_NONE)) {
        return QP_E_IO;
    }
    return run_sql(native, "CREATE TABLE IF NOT EXISTS shop_charge(id TEXT PRIMARY KEY)", QP_NONE);
}

static int insert_order(void *context, void *native)
{
    return run_sql(native, "INSERT INTO shop_order VALUES(?1)",
                   text_of(((struct order *)context)->id));
}

/* The charge of an order: twice would break the key, and the commit with it. A task lives until it is answered. */
static int insert_charge(void *context, void *native)
{
    return run_sql(native, "INSERT INTO shop_charge VALUES(?1)", qp_task_job(context));
}

/* --------------------------------------------------------------------------------------------- work */

static void nap_us(long us)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static int charge(void *context, qp_task *task)
{
    int customer = (int)strtol(qp_task_input(task).p + 1, NULL, 10) % CUSTOMERS; /* "[3]" */
    struct qp_err err;
    int rc;
    (void)context;
    if (atomic_fetch_add(&shop.at_once[customer], 1) >= LIMIT) {
        die("more than the limit at once", NULL);
    }
    nap_us(300 + 100L * customer);
    rc = qp_task_heartbeat(task, &err);
    (void)atomic_fetch_sub(&shop.at_once[customer], 1);
    if (rc != QP_OK) {
        return rc; /* it is not ours any more */
    }
    qp_task_tx(task, insert_charge, task);
    return qp_task_output(task, QP_STR("\"charged\""));
}

/* -------------------------------------------------------------------------------------------- orders */

static void order_ended(void *context, const char *status)
{
    struct order *o = context;
    if (strcmp(status, "completed") != 0) {
        die(status, NULL);
    }
    (void)atomic_fetch_sub(&shop.in_flight, 1);
    free(o);
}

/* The first one is said, for a test that waits for it. */
static void order_started(void *context, int code, const char *id)
{
    static atomic_bool said;
    (void)context;
    if (code != QP_OK) {
        die(qp_code_text(code), NULL);
    }
    if (!atomic_exchange(&said, true)) {
        printf("%s\n", id);
        (void)fflush(stdout);
    }
}

static struct order *order_new(void)
{
    struct order *o = calloc(1, sizeof *o);
    if (o == NULL) {
        die("out of memory", NULL);
    }
    o->customer = (int)(shop.next % CUSTOMERS);
    (void)snprintf(o->id, sizeof o->id, "o-%s-%ld", shop.life, shop.next++);
    (void)snprintf(o->input, sizeof o->input, "[%d]", o->customer);
    return o;
}

static void place_order(void)
{
    static const char *const keys[CUSTOMERS] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    struct order *o = order_new();
    struct qp_err err;
    struct qp_start start = {.topic = QP_STR("charge"),
                             .id = text_of(o->id),
                             .input = text_of(o->input),
                             .limit_key = text_of(keys[o->customer]),
                             .priority = o->customer,
                             .tx = insert_order,
                             .tx_context = o,
                             .context = o,
                             .started = order_started,
                             .ended = order_ended};
    (void)atomic_fetch_add(&shop.in_flight, 1);
    if (qp_job_start_async(shop.q, &start, &err) != QP_OK) {
        die("start", &err);
    }
}

/* ----------------------------------------------------------------------------------------- two lives */

/* One turn of a loop of the host's own. */
static void turn(void)
{
    struct qp_err err;
    int64_t wait_ms = qp_next_deadline(shop.q);
    struct pollfd ready = {.fd = qp_fd(shop.q), .events = POLLIN};
    if (!shop.polls) {
        nap_us(1000);
        return;
    }
    (void)poll(&ready, 1, wait_ms < 0 || wait_ms > 100 ? 100 : (int)wait_ms);
    if (qp_poll(shop.q, &err) != QP_OK) {
        die("poll", &err);
    }
}

static void run(void)
{
    for (;;) {
        while (atomic_load(&shop.in_flight) < IN_FLIGHT) {
            place_order();
        }
        turn();
    }
}

static long count_jobs(const char *where)
{
    struct qp_count count = {0};
    struct qp_err err;
    if (qp_job_count(shop.q, QP_NONE, text_of(where), QP_COUNT_EXACT, &count, &err) != QP_OK) {
        die("count", &err);
    }
    return (long)count.count;
}

static void drain(void)
{
    struct qp_err err;
    while (count_jobs("status!=completed") > 0) {
        for (int i = 0; i < 20; i++) {
            turn();
        }
    }
    if (qp_close(shop.q, &err) != QP_OK) {
        die("close", &err);
    }
}

static void open_shop(const char *path)
{
    struct qp_options options;
    struct qp_err err;
    qp_options_init(&options);
    options.path = path;
    if (qp_open(&options, &shop.q, &err) != QP_OK ||
        qp_exec(shop.q, make_tables, NULL, &err) != QP_OK ||
        qp_limit_set(
            shop.q, &(struct qp_limit){.topic = QP_STR("charge"), .key = QP_STR("*"), .max = LIMIT},
            &err) != QP_OK ||
        qp_worker_add(
            shop.q,
            &(struct qp_worker){.topic = QP_STR("charge"), .work = charge, .lease_ms = LEASE_MS},
            &err) != QP_OK ||
        (!shop.polls && qp_start_threads(shop.q, THREADS, &err) != QP_OK)) {
        die("open", &err);
    }
}

/* --------------------------------------------------------------------------------------------- check */

static long number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    long number = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        number = (long)sqlite3_column_int64(s, 0);
    }
    (void)sqlite3_finalize(s);
    return number;
}

struct agreed {
    long orders;
    long charges;
    long apart; /* rows of one table that the other has not */
};

static int read_tables(void *context, void *native)
{
    struct agreed *a = context;
    a->orders = number_of(native, "SELECT count(*) FROM shop_order");
    a->charges = number_of(native, "SELECT count(*) FROM shop_charge");
    a->apart = number_of(
        native,
        "SELECT (SELECT count(*) FROM shop_order WHERE id NOT IN (SELECT id FROM shop_charge))"
        " + (SELECT count(*) FROM shop_charge WHERE id NOT IN (SELECT id FROM shop_order))");
    return QP_OK;
}

static int check(void)
{
    struct agreed a = {0};
    long jobs = count_jobs("workflow=charge");
    long open = count_jobs("status!=completed");
    struct qp_err err;
    if (qp_exec(shop.q, read_tables, &a, &err) != QP_OK) {
        die("read", &err);
    }
    printf("%ld orders, %ld charges, %ld apart, %ld jobs, %ld open\n", a.orders, a.charges, a.apart,
           jobs, open);
    if (qp_close(shop.q, &err) != QP_OK) {
        die("close", &err);
    }
    return a.orders > 0 && a.orders == a.charges && a.apart == 0 && jobs == a.orders && open == 0
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 3 ? argv[3] : argc == 3 ? argv[2] : "";
    if (argc < 3) {
        return fprintf(stderr, "usage: embedder FILE threads|poll run LIFE|drain, or check\n"), 2;
    }
    shop.polls = strcmp(argv[2], "threads") != 0;
    shop.life = argc > 4 ? argv[4] : "";
    open_shop(argv[1]);
    if (strcmp(verb, "run") == 0) {
        run();
    } else if (strcmp(verb, "drain") == 0) {
        drain();
    } else {
        return check();
    }
    return 0;
}
