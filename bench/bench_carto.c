/* bench_carto.c - traversals of all of Debian: beside apt's own tools, items per second, and what another job feels of it
 *
 * The lists are apt's own of this machine. SQLite, synchronous=FULL, in $TMPDIR; the engine and its workers in this process.
 *
 *   import     all lists, in pages, each a commit
 *   gnome      closure A from the start of its job to its end, FORMAT included; a new job per run, five runs in turns with
 *              apt-cache depends --recurse -i gnome and apt-rdepends gnome, whose output goes nowhere; medians
 *   W1         a job of one activity whose function does nothing, one in flight: alone
 *   Debian     closure S of all names as one job; and W1 beside it, as long as it runs
 *   why, diff  questions about that result, seven times each: 3 and 100 paths from gnome to libc6; against the result without
 *              libx11-6. Medians
 *
 * BENCH_PAGE=N: of Debian at most N items are in one commit (default 500). BENCH_SMOKE=1 only shows that it runs, with a list of its own and without apt.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "carto/deb_import.h"
#include "carto/import.h"
#include "place.h"
#include "run/handle.h"
#include "run/traversals.h"
#include "run/traversals_ask.h"

#define LISTS "/var/lib/apt/lists"
#define RUNS 5
#define W1_ALONE 500
#define W1_MOST 100000

extern char **environ;

static void must(const char *what, int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        die(what, err->text);
    }
}

/* ------------------------------------------------------------------------------------ other programs */

/* A program with its output in `out`; what it says on stderr goes nowhere. */
static pid_t launch(const char *const *arguments, int out)
{
    posix_spawn_file_actions_t actions;
    char *words[8] = {NULL};
    pid_t pid = 0;
    for (size_t i = 0; arguments[i] != NULL; i++) {
        words[i] = strdup(arguments[i]);
    }
    (void)posix_spawn_file_actions_init(&actions); /* these do not fail on Linux */
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, words[0], &actions, NULL, words, environ) != 0) {
        die(words[0], strerror(errno));
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; words[i] != NULL; i++) {
        free(words[i]);
    }
    return pid;
}

static void await(pid_t pid, const char *name)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        die(name, "it failed");
    }
}

static double time_of(const char *const *arguments)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    double from = now_s();
    await(launch(arguments, nowhere), arguments[0]);
    (void)close(nowhere);
    return now_s() - from;
}

/* --------------------------------------------------------------------------------------------- lists */

static void read_list(struct deb_import *import, const char *name)
{
    static char bytes[256 * 1024];
    char path[600];
    const char *const arguments[] = {"/usr/lib/apt/apt-helper", "cat-file", path, NULL};
    struct qp_err err = {0};
    int ends[2];
    pid_t pid;
    ssize_t n;
    (void)snprintf(path, sizeof path, "%s/%s", LISTS, name);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe", strerror(errno));
    }
    pid = launch(arguments, ends[1]);
    (void)close(ends[1]);
    while ((n = read(ends[0], bytes, sizeof bytes)) > 0) {
        must("list", deb_import_feed(import, (qp_str){bytes, (size_t)n}, &err), &err);
    }
    must("list", deb_import_end_list(import, &err), &err);
    (void)close(ends[0]);
    await(pid, arguments[0]);
}

static void read_machine(struct deb_import *import)
{
    DIR *dir = opendir(LISTS);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, "_Packages") != NULL) {
            read_list(import, entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static void make_list(struct deb_import *import, const struct qp_env *env)
{
    struct qp_err err = {0};
    struct buf text;
    buf_init(&text, env, 0);
    for (int i = 0; i < 1000; i++) {
        buf_printf(&text, "Package: %s%d\nVersion: 1\nArchitecture: amd64\nDepends: p%d, p%d\n\n",
                   "p", i, (i + 1) % 1000, (i * 7 + 3) % 1000);
    }
    buf_text(&text, "Package: gnome\nVersion: 1\nArchitecture: amd64\nDepends: p1\n\n");
    must("list", deb_import_feed(import, buf_slice(&text), &err), &err);
    must("list", deb_import_end_list(import, &err), &err);
    buf_done(&text);
}

static void import_facts(qp *q, const struct facts_table *table)
{
    static struct import_fact rows[LIMIT_CARTO_PAGE_FACTS];
    struct traversal_page page = {
        .type = QP_STR("deb"), .universe = str_from(table->universe), .facts = rows};
    struct qp_err err = {0};
    for (size_t i = 0; i < table->fact_count; i++) {
        rows[page.fact_count++] =
            (struct import_fact){FACT_VALUE, table->facts[i].name, table->facts[i].value};
        if (page.fact_count == ARRAY_COUNT(rows)) {
            must("import", traversals_import(q, &page, &err), &err);
            page.fact_count = 0;
        }
    }
    page.complete = (int64_t)table->fact_count;
    must("import", traversals_import(q, &page, &err), &err);
}

static void import_lists(qp *q, bool smoke)
{
    struct deb_import import;
    struct facts_table table;
    struct qp_err err = {0};
    double from = now_s();
    deb_import_init(&import, &q->env);
    facts_table_init(&table, &q->env);
    if (smoke) {
        make_list(&import, &q->env);
    } else {
        read_machine(&import);
    }
    must("import", deb_import_finish(&import, &table, &err), &err);
    import_facts(q, &table);
    printf("import: %lld packages, %.1f s\n", (long long)import.package_count, now_s() - from);
    facts_table_done(&table);
    deb_import_done(&import);
}

/* -------------------------------------------------------------------------------------------- figures */

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that this share of all is not above. */
static double quantile(double *values, int64_t count, int64_t percent)
{
    qsort(values, (size_t)count, sizeof *values, compare_double);
    return values[count * percent / 100];
}

static int note_items(void *context, const struct job_row *job, const struct result_state *state)
{
    (void)job;
    *(int64_t *)context = state->sums.counts.items;
    return QP_OK;
}

/* Runs a traversal; how long it took, and how many items it had. */
static double traverse(qp *q, const char *id, const char *body, int64_t *out_items)
{
    struct qp_start start = {.topic = QP_STR("carto"), .id = str_from(id), .input = str_from(body)};
    struct qp_err err = {0};
    struct qp_job job;
    double from = now_s();
    double took;
    must("start", qp_job_start(q, &start, NULL, &err), &err);
    must("wait", qp_job_wait(q, start.id, 600 * 1000, &job, &err), &err);
    took = now_s() - from;
    if (strcmp(job.status, "completed") != 0) {
        die(id, job.status);
    }
    qp_job_done(q, &job);
    must("state", traversals_state(q, QP_NONE, start.id, out_items, note_items, &err), &err);
    return took;
}

static void gnome(qp *q, bool smoke)
{
    static const char *const cache[] = {"apt-cache", "depends", "--recurse", "-i", "gnome", NULL};
    static const char *const rdepends[] = {"apt-rdepends", "gnome", NULL};
    double times[3][RUNS] = {0};
    int64_t items = 0;
    int runs = smoke ? 1 : RUNS;
    for (int i = 0; i < runs; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "gnome%d", i);
        times[0][i] =
            traverse(q, id, "{\"roots\":[\"deb:gnome\"],\"deb\":{\"closure\":\"A\"}}", &items);
        times[1][i] = smoke ? 0 : time_of(cache);
        times[2][i] = smoke ? 0 : time_of(rdepends);
    }
    printf("gnome, closure A: %lld items; quipu %.2f s, apt-cache %.2f s, apt-rdepends %.2f s\n",
           (long long)items, quantile(times[0], runs, 50), quantile(times[1], runs, 50),
           quantile(times[2], runs, 50));
    (void)fflush(stdout);
}

/* ------------------------------------------------------------------------------------------------- W1 */

struct w1 {
    qp *q;
    const char *name;
    double *times; /* W1_MOST */
    int64_t count;
    int64_t most;
    atomic_bool over;
};

static int do_nothing(void *context, qp_task *task)
{
    (void)context;
    return qp_task_output(task, QP_STR("1"));
}

/* One after the other, until there are as many as wanted or it is over. */
static void *run_w1(void *context)
{
    struct w1 *w = context;
    while (w->count < w->most && !atomic_load(&w->over)) {
        char id[32];
        struct qp_start start = {.topic = QP_STR("w1"), .input = QP_STR("1"), .id.p = id};
        struct qp_err err = {0};
        struct qp_job job;
        double from = now_s();
        start.id.n = (size_t)snprintf(id, sizeof id, "%s%lld", w->name, (long long)w->count);
        must("W1", qp_job_start(w->q, &start, NULL, &err), &err);
        must("W1", qp_job_wait(w->q, start.id, 60 * 1000, &job, &err), &err);
        qp_job_done(w->q, &job);
        w->times[w->count++] = now_s() - from;
    }
    return NULL;
}

static double print_w1(struct w1 *w)
{
    double p99 = quantile(w->times, w->count, 99) * 1000;
    printf("W1 %s: %lld jobs, p50 %.2f ms, p99 %.2f ms\n", w->name, (long long)w->count,
           quantile(w->times, w->count, 50) * 1000, p99);
    (void)fflush(stdout);
    return p99;
}

static void debian(qp *q, const char *id)
{
    struct store_info before;
    struct store_info after;
    const char *page = getenv("BENCH_PAGE");
    char body[128];
    int64_t items = 0;
    double took;
    store_info(q->store, &before);
    (void)snprintf(body, sizeof body,
                   "{\"roots\":[\"deb:*\"],\"deb\":{\"closure\":\"S\"},\"page\":%s}",
                   page == NULL ? "500" : page);
    took = traverse(q, id, body, &items);
    store_info(q->store, &after);
    printf("%s: all of Debian, closure S: %lld items in %.1f s, %.0f items/s, %.2f rows per item\n",
           id, (long long)items, took, (double)items / took,
           (double)(after.rows_written - before.rows_written) / (double)items);
    (void)fflush(stdout);
}

static void beside(qp *q, bool smoke)
{
    struct w1 alone = {.q = q, .name = "alone", .most = smoke ? 10 : W1_ALONE};
    struct w1 with = {.q = q, .name = "beside", .most = W1_MOST};
    pthread_t thread;
    double p99;
    alone.times = calloc(W1_MOST, sizeof *alone.times);
    with.times = calloc(W1_MOST, sizeof *with.times);
    if (alone.times == NULL || with.times == NULL) {
        die("times", "out of memory");
    }
    (void)run_w1(&alone);
    p99 = print_w1(&alone);
    if (pthread_create(&thread, NULL, run_w1, &with) != 0) {
        die("thread", "none");
    }
    debian(q, "with W1");
    atomic_store(&with.over, true);
    (void)pthread_join(thread, NULL);
    printf("W1 beside, p99 of alone: %.2f times\n", print_w1(&with) / p99);
    free(alone.times);
    free(with.times);
}

/* ------------------------------------------------------------------------------------------ questions */

#define QUESTIONS 7

/* limit 0: a difference */
static double ask(qp *q, size_t limit, bool smoke, size_t *out_size)
{
    struct why_question why = {.from = QP_STR("deb:gnome"),
                               .to = smoke ? QP_STR("deb:p7") : QP_STR("deb:libc6"),
                               .limit = limit};
    struct qp_err err = {0};
    struct json_writer w;
    struct buf text;
    double from = now_s();
    buf_init(&text, &q->env, 0);
    json_writer_init(&w, &text);
    must("question",
         limit > 0 ? traversals_why(q, QP_NONE, QP_STR("with W1"), &why, &w, &err)
                   : traversals_diff(q, QP_NONE, QP_STR("with W1"), QP_STR("less"), &w, &err),
         &err);
    *out_size = text.n;
    buf_done(&text);
    return now_s() - from;
}

static void questions(qp *q, bool smoke)
{
    static const struct {
        const char *name;
        size_t limit;
    } asked[] = {{"why, 3 paths", 3}, {"why, 100 paths", 100}, {"diff", 0}};
    int64_t items = 0;
    (void)traverse(q, "less", "{\"roots\":[\"deb:*\"],\"exclusions\":[\"deb:libx11-6\"]}", &items);
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        double times[QUESTIONS];
        size_t size = 0;
        for (int n = 0; n < QUESTIONS; n++) {
            times[n] = ask(q, asked[i].limit, smoke, &size);
        }
        printf("%s: %.0f ms, the longest %.0f ms, an answer of %zu KiB\n", asked[i].name,
               quantile(times, QUESTIONS, 50) * 1000, quantile(times, QUESTIONS, 99) * 1000,
               size / 1024);
    }
    (void)fflush(stdout);
}

static int print_finding(void *context, const struct qp_finding *f)
{
    (void)context;
    printf("%s: job '%.*s': %s\n", f->rule, STR_ARG(f->job), f->text);
    return QP_OK;
}

static void check(const char *path)
{
    struct qp_check_options options;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    double from = now_s();
    qp_check_options_init(&options);
    options.path = path;
    must("check", qp_check(&options, NULL, print_finding, &result, &err), &err);
    printf("check: %lld jobs, %lld errors, %.1f s\n", (long long)result.jobs,
           (long long)result.errors, now_s() - from);
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    struct qp_options options;
    struct qp_err err = {0};
    struct rusage used;
    struct place place;
    qp *q = NULL;
    place_make(&place);
    qp_options_init(&options);
    options.path = place.path;
    must("open", qp_open(&options, &q, &err), &err);
    must("serve", traversals_serve(q, NULL, &err), &err);
    must("worker",
         qp_worker_add(q, &(struct qp_worker){.topic = QP_STR("w1"), .work = do_nothing}, &err),
         &err);
    must("threads", qp_start_threads(q, 2, &err), &err);
    import_lists(q, smoke);
    if (getenv("BENCH_PAGE") == NULL) {
        gnome(q, smoke);
        debian(q, "alone");
    }
    beside(q, smoke);
    questions(q, smoke);
    must("close", qp_close(q, &err), &err);
    (void)getrusage(RUSAGE_SELF, &used);
    printf("memory: %ld MiB\n", used.ru_maxrss / 1024);
    check(place.path);
    place_remove(&place);
    return 0;
}
