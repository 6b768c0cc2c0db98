/* story.c - what Quipu is for, in a few seconds: jobs run, the process kills itself half-way, the
 * second start finishes
 *
 * The first process starts ten orders and charges them one by one. After the fifth it sends itself
 * SIGKILL: no clean-up, no flush, nothing. The second opens the same file and goes on. Every charge
 * is also written to a plain file that nobody deduplicates, so that a repeated one would show. The
 * program exits 0 only if each order was charged once and every job is completed.
 */
#include <quipu.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ORDERS 10
#define KILL_AFTER 5

struct story {
    char dir[256];
    char db[300];
    char effects[300];
};

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static _Noreturn void die(const char *what, const struct qp_err *err)
{
    printf("%s: %s\n", what, err->text);
    exit(1);
}

static qp *open_engine(const struct story *s)
{
    struct qp_options options;
    struct qp_err err;
    qp *q;
    qp_options_init(&options);
    options.path = s->db;
    if (qp_open(&options, &q, &err) != QP_OK) {
        die("open", &err);
    }
    return q;
}

/* The outside world: a line per charge, for good. */
static void charge(const struct story *s, qp_str order)
{
    FILE *f = fopen(s->effects, "a");
    if (f == NULL || fprintf(f, "%.*s\n", (int)order.n, order.p) < 0 || fclose(f) != 0) {
        printf("cannot write %s\n", s->effects);
        exit(1);
    }
}

static void start_orders(qp *q)
{
    struct qp_err err;
    for (int i = 1; i <= ORDERS; i++) {
        char id[32];
        char input[64];
        (void)snprintf(id, sizeof id, "order-%d", i);
        (void)snprintf(input, sizeof input, "{\"order\":%d,\"amount\":%d}", i, 10 * i);
        if (qp_job_start(q,
                         &(struct qp_start){.topic = QP_STR("charge"),
                                            .id = {id, strlen(id)},
                                            .input = {input, strlen(input)}},
                         NULL, &err) != QP_OK) {
            die("start", &err);
        }
    }
}

/* Charges what there is to charge; kills this process after `kill_after` of them (0: never).
 * Returns how many. */
static int work(qp *q, const struct story *s, int kill_after)
{
    struct qp_err err;
    qp_task *task;
    int done = 0;
    while (qp_task_claim(q, QP_STR("charge"), &task, &err) == QP_OK) {
        char job[QP_ID_SIZE];
        (void)snprintf(job, sizeof job, "%.*s", (int)qp_task_job(task).n, qp_task_job(task).p);
        charge(s, qp_task_job(task));
        if (qp_task_complete(task, QP_STR("{\"charged\":true}"), &err) != QP_OK) {
            die("complete", &err);
        }
        printf("    %-9s charged, committed\n", job);
        (void)fflush(stdout);
        if (++done == kill_after) {
            printf("    SIGKILL, now\n");
            (void)fflush(stdout);
            (void)raise(SIGKILL);
        }
    }
    return done;
}

static void first_run(const struct story *s)
{
    qp *q = open_engine(s);
    start_orders(q);
    printf("    %d orders are on disk\n", ORDERS);
    (void)work(q, s, KILL_AFTER);
}

static void second_run(const struct story *s)
{
    struct qp_err err;
    double before = now_ms();
    qp *q = open_engine(s);
    printf("    open again after %.1f ms; nothing to repair\n", now_ms() - before);
    start_orders(
        q); /* the program starts as it always does: the ids say that these orders are known */
    (void)work(q, s, 0);
    if (qp_close(q, &err) != QP_OK) {
        die("close", &err);
    }
}

static int run_child(const struct story *s, void (*run)(const struct story *s))
{
    int status = 0;
    pid_t child;
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        run(s);
        (void)fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        printf("cannot run a process\n");
        exit(1);
    }
    return status;
}

static int charges_of(const struct story *s, const char *order)
{
    char line[64];
    int count = 0;
    FILE *f = fopen(s->effects, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        count += strcmp(line, order) == 0;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return count;
}

/* True when every order is completed and was charged once. */
static bool tell_result(const struct story *s)
{
    struct qp_err err;
    qp *q = open_engine(s);
    bool fine = true;
    printf("    %-9s %-10s %-7s %s\n", "job", "status", "charges", "ledger of its activity");
    for (int i = 1; i <= ORDERS; i++) {
        char id[32];
        struct qp_job job;
        (void)snprintf(id, sizeof id, "order-%d", i);
        if (qp_job_get(q, (qp_str){id, strlen(id)}, &job, &err) != QP_OK) {
            die("read", &err);
        }
        printf("    %-9s %-10s %-7d %015lld\n", id, job.status, charges_of(s, id),
               (long long)job.ledger);
        fine = fine && strcmp(job.status, "completed") == 0 && charges_of(s, id) == 1;
        qp_job_done(q, &job);
    }
    return qp_close(q, &err) == QP_OK && fine;
}

static void clean_up(const struct story *s)
{
    static const char *const names[] = {"", "-wal", "-shm", "-qplock"};
    char name[320];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", s->db, names[i]);
        (void)unlink(name);
    }
    (void)unlink(s->effects);
    (void)rmdir(s->dir);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    struct story s;
    int status;
    bool fine;
    (void)snprintf(s.dir, sizeof s.dir, "%s/quipu-story.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(s.dir) == NULL) {
        printf("cannot make a directory like %s\n", s.dir);
        return 1;
    }
    (void)snprintf(s.db, sizeof s.db, "%s/orders.db", s.dir);
    (void)snprintf(s.effects, sizeof s.effects, "%s/charges.txt", s.dir);
    printf("1. A process starts %d orders and charges them, one by one.\n", ORDERS);
    status = run_child(&s, first_run);
    fine = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    printf("2. It is dead (signal %d). A second process opens the same file.\n",
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    status = run_child(&s, second_run);
    fine = fine && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("3. What became of it:\n");
    fine = tell_result(&s) && fine;
    printf(fine ? "Every result was committed exactly once.\n"
                : "Something is wrong: see above.\n");
    clean_up(&s);
    return fine ? 0 : 1;
}
