/* charger.c - a process with a C function as a worker, on a database that it shares with servers
 *
 * usage: charger URL make      the table of charges
 *        charger URL run       charges until it is killed
 *        charger URL count     prints the charges, and how many jobs have one
 *
 * A charge is a row in the commit of the task's result (qp_task_tx), without a constraint: one that was made twice would be
 * counted. Written as somebody who has only quipu.h would.
 */
#include <postgresql/libpq-fe.h>
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS 1000 /* of this process: when it is dead for so long, another one does its tasks */

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "charger: %s: %s\n", what, why);
    exit(3);
}

static int run_sql(void *native, const char *sql)
{
    PGresult *r = PQexec(native, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status == PGRES_TUPLES_OK) {
        printf("%s %s\n", PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1));
    }
    PQclear(r);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? QP_OK : QP_E_IO;
}

static int make_table(void *context, void *native)
{
    (void)context;
    return run_sql(native, "CREATE TABLE public.charge(job TEXT NOT NULL)");
}

static int count_charges(void *context, void *native)
{
    (void)context;
    return run_sql(native, "SELECT count(*), count(DISTINCT job) FROM public.charge");
}

static int insert_charge(void *context, void *native)
{
    qp_str job = qp_task_job(context);
    char sql[256];
    (void)snprintf(sql, sizeof sql, "INSERT INTO public.charge VALUES('%.*s')", (int)job.n, job.p);
    return run_sql(native, sql);
}

static int charge(void *context, qp_task *task)
{
    (void)context;
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    qp_task_tx(task, insert_charge, task);
    return qp_task_output(task, (qp_str){"{\"charged\":true}", 16});
}

int main(int argc, char **argv)
{
    struct qp_options options;
    struct qp_err err;
    qp *q = NULL;
    int rc;
    qp_options_init(&options);
    if (argc != 3) {
        die("usage", "charger URL make|run|count");
    }
    options.path = argv[1];
    options.lease_ms = LEASE_MS;
    if (qp_open(&options, &q, &err) != QP_OK) {
        die("open", err.text);
    }
    if (strcmp(argv[2], "run") != 0) {
        qp_tx tx = strcmp(argv[2], "make") == 0 ? make_table : count_charges;
        rc = qp_exec(q, tx, NULL, &err);
        return rc == QP_OK && qp_close(q, &err) == QP_OK ? 0 : (die(argv[2], err.text), 1);
    }
    if (qp_worker_add(q, &(struct qp_worker){.topic = {"charge", 6}, .work = charge}, &err) !=
            QP_OK ||
        qp_start_threads(q, 2, &err) != QP_OK) {
        die("run", err.text);
    }
    for (;;) {
        (void)pause();
    }
}
