/* worker.c - a whole worker program: threads, a retry policy, a lease with heartbeats, a clean end
 *
 * usage: worker [FILE]      without a file, one in a temporary directory that is removed at the end
 *
 * It starts three jobs, does them on two threads, and prints what became of them. Kill it at any moment
 * and run it again on the same file: it goes on where it was.
 */
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 30000

/* Resizes a picture in ten steps. After each it says that it is alive: if the process hangs, the lease ends
 * and somebody else does the work. */
static int resize(void *context, qp_task *task)
{
    char output[64];
    (void)context;
    for (int step = 0; step < 10; step++) {
        struct qp_err err;
        if (qp_task_is_cancelled(task)) {
            return qp_task_fail(task, &(struct qp_failure){.message = "cancelled", .fatal = 1});
        }
        if (qp_task_heartbeat(task, &err) != QP_OK) {
            return err.code; /* it is somebody else's now: nothing that we do counts */
        }
    }
    (void)snprintf(output, sizeof output, "{\"attempt\":%lld}", (long long)qp_task_attempt(task));
    return qp_task_output(task, (qp_str){output, strlen(output)});
}

/* Sends a letter through a service that is down at first. The key is the same at every attempt, so that the
 * service can tell a repeated letter. */
static int mail(void *context, qp_task *task)
{
    char key[QP_TASK_KEY_SIZE];
    (void)context;
    qp_task_key(task, key);
    if (qp_task_attempt(task) < 3) {
        return qp_task_fail(task,
                            &(struct qp_failure){.message = "the service is down", .code = 503});
    }
    return qp_task_output(task, QP_STR("\"sent\""));
}

/* Some input can never work: then trying again would not help. */
static int parse(void *context, qp_task *task)
{
    (void)context;
    return qp_task_fail(task,
                        &(struct qp_failure){.message = "not a date", .code = 422, .fatal = 1});
}

static int add_workers(qp *q, struct qp_err *err)
{
    const struct qp_worker workers[] = {
        {.topic = QP_STR("resize"), .work = resize, .lease_ms = LEASE_MS, .in_hand = 4},
        {.topic = QP_STR("mail"), .work = mail},
        {.topic = QP_STR("parse"), .work = parse},
    };
    int rc = QP_OK;
    for (size_t i = 0; i < sizeof workers / sizeof workers[0] && rc == QP_OK; i++) {
        rc = qp_worker_add(q, &workers[i], err);
    }
    return rc;
}

/* The same id again is the same job: whoever starts the program twice starts each job once. */
static int start_jobs(qp *q, struct qp_err *err)
{
    const struct qp_start starts[] = {
        {.topic = QP_STR("resize"),
         .id = QP_STR("resize-1"),
         .input = QP_STR("{\"file\":\"a.png\"}")},
        {.topic = QP_STR("mail"),
         .id = QP_STR("mail-1"),
         .input = QP_STR("{\"to\":\"ada\"}"),
         .retry = {.attempts = 5, .backoff_ms = 20, .factor = 2, .cap_ms = 1000}},
        {.topic = QP_STR("parse"), .id = QP_STR("parse-1"), .input = QP_STR("\"31 February\"")},
    };
    int rc = QP_OK;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0] && rc == QP_OK; i++) {
        rc = qp_job_start(q, &starts[i], NULL, err);
    }
    return rc;
}

/* Waits for them, and tells what became of them. */
static int tell_results(qp *q, struct qp_err *err)
{
    static const char *const ids[] = {"resize-1", "mail-1", "parse-1"};
    static const char *const expected[] = {"completed", "completed", "failed"};
    int rc = QP_OK;
    for (size_t i = 0; i < 3 && rc == QP_OK; i++) {
        struct qp_job job;
        rc = qp_job_wait(q, (qp_str){ids[i], strlen(ids[i])}, -1, &job, err);
        if (rc == QP_OK) {
            qp_str text = job.output.n > 0 ? job.output : job.error;
            printf("%-9s %-10s %.*s\n", ids[i], job.status, (int)text.n, text.p);
            rc = strcmp(job.status, expected[i]) == 0 ? QP_OK : QP_E_INTERNAL;
            qp_job_done(q, &job);
        }
    }
    return rc;
}

static int work(const char *path)
{
    struct qp_options options;
    struct qp_err err = {0};
    qp *q = NULL;
    int wrong;
    qp_options_init(&options);
    options.path = path;
    if (qp_open(&options, &q, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    wrong = add_workers(q, &err) != QP_OK || qp_start_threads(q, 2, &err) != QP_OK ||
            start_jobs(q, &err) != QP_OK || tell_results(q, &err) != QP_OK;
    if (wrong) {
        fprintf(stderr, "%s\n", err.text);
    }
    /* Waits for functions that run, commits what they brought, gives the rest back. */
    return qp_close(q, &err) != QP_OK || wrong;
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-qplock"};
    const char *tmp = getenv("TMPDIR");
    char dir[200];
    char path[256];
    int rc;
    if (argc > 1) {
        return work(argv[1]);
    }
    (void)snprintf(dir, sizeof dir, "%s/quipu-worker.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return fprintf(stderr, "cannot make a directory like %s\n", dir), 1;
    }
    (void)snprintf(path, sizeof path, "%s/work.db", dir);
    rc = work(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[280];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(dir);
    return rc;
}
