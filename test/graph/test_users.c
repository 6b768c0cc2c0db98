/* test_users.c - graphs as users of the format write them: each construct is accepted or refused as docs/graphs.md says, and runs
 *
 * Each file of test/graph/users begins with its script, one command per line of comment:
 *
 *   refused CODE..               it does not compile, for these reasons
 *   noted CODE..                 it compiles, and these notes are left (none of --strict)
 *   start TOPIC ID JSON          and all that is to be done now is done
 *   refuses TOPIC JSON           a start is refused for its input
 *   conflict TOPIC ID JSON       a start is refused for its id
 *   signal TOPIC JSON [CODE]     by the rule of the topic
 *   wait SECONDS                 of virtual time
 *   expect ID STATUS [JSON]      the job's output, or its error
 *   code ID ADDRESS CODE         of an activity's answer
 *   published TOPIC ID CODE..    what the job has published there
 *   started TOPIC COUNT          jobs of this workflow
 *
 * Workers: do.echo answers its input; do.reply what its input says (status, code, output); do.count the round that it is in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dirent.h>

#include "base/json.h"
#include "store/event.h"
#include "support/graphrun.h"

#define WORDS_MAX 8

static struct graphrun run;
static struct buf text;

/* ---------------------------------------------------------------------------------------- workers */

/* The member of the input, as it stands there; none: it has none. */
static qp_str member(qp_str input, const char *name)
{
    struct raw_walk w = {.rest = input};
    while (raw_each(&w)) {
        if (str_equal(w.key, str_from(name))) {
            return w.value;
        }
    }
    return QP_NONE;
}

static void reply(struct graphcall *c)
{
    qp_str code = member(c->input, "code");
    qp_str output = member(c->input, "output");
    c->code = code.n == 0 ? 0 : strtoll(code.p, NULL, 10);
    c->kind =
        str_equal(member(c->input, "status"), QP_STR("\"error\"")) ? RESULT_ERROR : RESULT_DONE;
    (void)snprintf(c->output, sizeof c->output, "%.*s", (int)output.n,
                   output.n == 0 ? "" : output.p);
}

/* From 1: the second segment of the address says it. */
static int64_t round_of(qp_str addr)
{
    const char *comma = memchr(addr.p, ',', addr.n);
    comma = memchr(comma + 1, ',', addr.n - (size_t)(comma + 1 - addr.p));
    return strtoll(comma + 1, NULL, 10) + 1;
}

static void work(struct graphcall *c)
{
    if (str_equal(c->topic, QP_STR("do.reply"))) {
        reply(c);
    } else if (str_equal(c->topic, QP_STR("do.count"))) {
        (void)snprintf(c->output, sizeof c->output, "{\"counter\":%lld}",
                       (long long)round_of(c->addr));
    } else {
        (void)snprintf(c->output, sizeof c->output, "%.*s", STR_ARG(c->input));
    }
}

/* ---------------------------------------------------------------------------------------- commands */

/* The words of a line; the last one takes the rest when there are `most`. */
static size_t split(char *line, char *words[WORDS_MAX], size_t most)
{
    size_t n = 0;
    for (char *p = line; *p != '\0' && n < most; n++) {
        words[n] = p;
        p += n + 1 < most ? strcspn(p, " ") : strlen(p);
        if (*p != '\0') {
            *p++ = '\0';
        }
    }
    return n;
}

/* "a b c": the codes of a list of findings. */
static void expect_codes(const char *name, const struct finding *first, char *const *words,
                         size_t count)
{
    size_t n = 0;
    for (const struct finding *f = first; f != NULL; f = f->next) {
        if (f->level == FINDING_STRICT) {
            continue;
        }
        if (n >= count || strcmp(words[n++], f->code) != 0) {
            fail_msg("%s:%d:%d: %s %.*s", name, f->line, f->column, f->code, STR_ARG(f->message));
        }
    }
    if (n != count) {
        fail_msg("%s: %zu findings, not %zu", name, n, count);
    }
}

struct told {
    char *const *codes;
    size_t count;
    size_t seen;
    const char *topic;
};

static int see_event(void *context, const void *row)
{
    struct told *told = context;
    const struct event_row *e = row;
    struct arena arena;
    struct publication p;
    if (event_kind(e) != EVENT_PUBLISHED) {
        return QP_OK;
    }
    arena_init(&arena, &run.f.t.env, 0);
    assert_int_equal(publication_read(&run.f.t.env, &arena, e->detail, &p), QP_OK);
    if (str_equal(p.topic, str_from(told->topic))) {
        assert_true(told->seen < told->count);
        assert_int_equal(p.code, strtoll(told->codes[told->seen++], NULL, 10));
    }
    arena_done(&arena);
    return QP_OK;
}

static void published(const char *topic, const char *id, char *const *codes, size_t count)
{
    const struct job_row *job = graphrun_job(&run, id);
    struct told told = {codes, count, 0, topic};
    struct event_row prefix;
    struct scan scan = {.table = TABLE_event, .index = -1, .prefix_count = 2, .limit = SIZE_MAX};
    assert_non_null(job);
    prefix = (struct event_row){.ns = job->ns, .job = job->job};
    scan.prefix = &prefix;
    assert_int_equal(store_scan(run.f.s, &scan, &told, see_event, NULL), QP_OK);
    assert_int_equal(told.seen, count);
}

struct counting {
    const char *workflow;
    int64_t count;
};

static int see_job(void *context, const void *row)
{
    struct counting *c = context;
    c->count += str_equal(((const struct job_row *)row)->workflow, str_from(c->workflow));
    return QP_OK;
}

static void started(const char *topic, int64_t count)
{
    struct counting c = {topic, 0};
    struct job_row prefix = {.ns = STORE_NS_DEFAULT};
    struct scan scan = {
        .table = TABLE_job, .index = -1, .prefix = &prefix, .prefix_count = 1, .limit = SIZE_MAX};
    assert_int_equal(store_scan(run.f.s, &scan, &c, see_job, NULL), QP_OK);
    assert_int_equal(c.count, count);
}

static void start(const char *topic, const char *id, const char *input, int expected)
{
    int rc = graphrun_start(&run, topic, id, input);
    if (rc != expected) {
        fail_msg("start %s %s %s: %s", topic, id, input, qp_code_text(rc));
    }
    graphrun_settle(&run);
}

static bool is_command(char *const *words, size_t count, const char *word, size_t needed)
{
    return count >= needed + 1 && strcmp(words[0], word) == 0;
}

/* One line, in the words that it has when its last one takes the rest. */
static bool command_of(char *const *w, size_t n)
{
    if (is_command(w, n, "start", 3)) {
        start(w[1], w[2], w[3], QP_OK);
    } else if (is_command(w, n, "conflict", 3)) {
        start(w[1], w[2], w[3], QP_E_CONFLICT);
    } else if (is_command(w, n, "expect", 2)) {
        graphrun_expect(&run, w[1], w[2], n > 3 ? w[3] : NULL);
    } else if (is_command(w, n, "wait", 1)) {
        graphrun_wait(&run, strtoll(w[1], NULL, 10) * 1000);
    } else if (is_command(w, n, "code", 3)) {
        const struct act_row *act = graphrun_act(&run, w[1], w[2]);
        assert_non_null(act);
        assert_int_equal(act->code, strtoll(w[3], NULL, 10));
    } else if (is_command(w, n, "started", 2)) {
        started(w[1], strtoll(w[2], NULL, 10));
    } else {
        return false;
    }
    return true;
}

static void command(const char *name, const char *line)
{
    char copy[1024];
    char *w[WORDS_MAX];
    size_t n;
    assert_true(strlen(line) < sizeof copy);
    (void)snprintf(copy, sizeof copy, "%s", line);
    n = split(copy, w, 4);
    if (command_of(w, n)) {
        return;
    }
    (void)snprintf(copy, sizeof copy, "%s", line);
    n = split(copy, w, strncmp(line, "published", 9) == 0 ? WORDS_MAX : 3);
    if (is_command(w, n, "refuses", 2)) {
        start(w[1], "never", w[2], QP_E_SHAPE);
    } else if (is_command(w, n, "signal", 2)) {
        assert_int_equal(graphrun_signal(&run, w[1], w[2], 200), QP_OK);
        graphrun_settle(&run);
    } else if (is_command(w, n, "published", 2)) {
        published(w[1], w[2], w + 3, n - 3);
    } else {
        fail_msg("%s: no command '%s'", name, line);
    }
}

/* ------------------------------------------------------------------------------------------- files */

static void read_file(const char *name)
{
    char path[512];
    char piece[4096];
    size_t n;
    FILE *f;
    (void)snprintf(path, sizeof path, "test/graph/users/%s", name);
    f = fopen(path, "rb");
    assert_non_null(f);
    buf_reset(&text);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) {
        buf_add(&text, piece, n);
    }
    assert_int_equal(fclose(f), 0);
    buf_byte(&text, '\0');
    assert_int_equal(buf_rc(&text), QP_OK);
}

/* What the first line says of the text. False: there is nothing to run. */
static bool compiles(const char *name, const char *line)
{
    char copy[1024];
    char *w[WORDS_MAX];
    struct arena arena;
    struct report report;
    struct app *app = NULL;
    size_t n;
    bool good;
    (void)snprintf(copy, sizeof copy, "%s", line);
    n = split(copy, w, WORDS_MAX);
    good = strcmp(w[0], "noted") == 0;
    assert_true(good || strcmp(w[0], "refused") == 0);
    arena_init(&arena, &run.f.t.env, 0);
    report_init(&report, &arena);
    if (app_compile(&run.f.t.env, (qp_str){text.p, text.n - 1}, &report, &app) == QP_OK) {
        assert_true(good);
        expect_codes(name, report.first_note, w + 1, n - 1);
    } else {
        expect_codes(name, report.first, w + 1, good ? 0 : n - 1);
    }
    app_free(app);
    arena_done(&arena);
    return good;
}

static void run_file(const char *name, enum storetest_kind kind)
{
    const char *at = text.p;
    bool first = true;
    graphrun_init(&run, kind, "do.echo do.reply do.count", work);
    while (at[0] == '#') {
        char line[1024];
        size_t n = strcspn(at, "\n");
        assert_true(n > 2 && n < sizeof line);
        (void)snprintf(line, sizeof line, "%.*s", (int)n - 2, at + 2);
        at += n + 1;
        if (first && !compiles(name, line)) {
            break;
        }
        if (first) {
            graphrun_deploy(&run, text.p);
        } else {
            command(name, line);
        }
        first = false;
    }
    graphrun_check(&run);
    graphrun_done(&run);
}

/* All files; how many there are. */
static int run_all(enum storetest_kind kind, bool stepwise)
{
    DIR *dir = opendir("test/graph/users");
    struct dirent *entry;
    int count = 0;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".yaml") != NULL) {
            print_message("%s on %s, %s\n", entry->d_name, storetest_name(kind),
                          stepwise ? "stepwise" : "fused");
            run.stepwise = stepwise;
            read_file(entry->d_name);
            run_file(entry->d_name, kind);
            count++;
        }
    }
    (void)closedir(dir); /* it was only read */
    return count;
}

static int setup(void **state)
{
    static struct qp_env env;
    (void)state;
    qp_env_init(&env);
    buf_init(&text, &env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_done(&text);
    return 0;
}

/* The short lane has one store of each sort. */
static bool is_run(enum storetest_kind kind)
{
    const char *lane = getenv("QP_LANE");
    return kind == STORETEST_MEMORY || kind == STORETEST_SQLITE ||
           (lane != NULL && strcmp(lane, "torture") == 0);
}

static void test_fused(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        if (is_run((enum storetest_kind)kind)) {
            assert_true(run_all((enum storetest_kind)kind, false) >= 40);
        }
    }
}

static void test_stepwise(void **state)
{
    (void)state;
    assert_true(run_all(STORETEST_MEMORY, true) >= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fused),
                                       cmocka_unit_test(test_stepwise)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
