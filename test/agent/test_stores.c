/* test_stores.c - every trace of test/agent/traces on every store, in an engine: array by array; fused and step by step; killed at
 * its commits, where the arrays behind each step and at the end are those of the undisturbed run
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/properties.h"
#include "support/agentstage.h"
#include "support/files.h"

#define DIRECTORY "test/agent/traces"
#define TRACES_MAX 64
#define END_SIZE (256 * 1024)

static struct agentstage stage;
static char *names[TRACES_MAX];
static size_t name_count;

static qp_str trace_get(const char *name)
{
    char path[300];
    size_t size = 0;
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    unsigned char *bytes = files_get(path, &size);
    assert_non_null(bytes);
    return (qp_str){(char *)bytes, size};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int setup(void **state)
{
    struct dirent *entry;
    DIR *directory = opendir(DIRECTORY);
    (void)state;
    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        if (files_ends_with(entry->d_name, ".json")) {
            assert_true(name_count < TRACES_MAX);
            names[name_count++] = strdup(entry->d_name);
        }
    }
    (void)closedir(directory);
    qsort(names, name_count, sizeof names[0], by_name);
    assert_true(name_count >= 14);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < name_count; i++) {
        free(names[i]);
    }
    return 0;
}

/* One trace on one store, and the store is sound behind it. With kill_at the engine dies after that commit. Returns how many
 * commits there were; `out_end` gets the arrays at the end. */
struct way {
    enum storetest_kind kind;
    bool stepwise;
    int64_t kill_at;
};

/* A decision that was out when its engine died is issued again: its attempt is one more. */
static size_t attempts_in(qp_str lines)
{
    static const char what[] = "/decision/attempt: ";
    size_t count = 0;
    for (size_t i = 0; i + sizeof what <= lines.n; i++) {
        count += memcmp(lines.p + i, what, sizeof what - 1) == 0;
    }
    return count;
}

/* What people see as its properties is the last of them: an object as it is, any other text as a string. */
static void check_properties(qp_str shown)
{
    const struct qp_env *env = &stage.run.f.t.env;
    const struct job_row *job = graphrun_job(&stage.run, stage.id);
    struct json *tree = NULL;
    struct arena arena;
    struct qp_err err = {0};
    qp_str last = QP_NONE;
    qp_str json;
    qp_str text;
    arena_init(&arena, env, 0);
    assert_int_equal(json_parse(env, shown, NULL, &tree), QP_OK);
    const struct json *all = json_get(tree, QP_STR("properties"));
    (void)!json_as_str(json_get(json_at(all, json_count(all) - 1), QP_STR("values")), &last);
    assert_int_equal(properties_read(stage.run.f.s, &arena, job, &json, &err), QP_OK);
    if (str_is_none(last) || raw_first(json) != '"') {
        assert_true(str_is_none(last) ? str_is_none(json) : str_equal(json, last));
    } else {
        assert_true(raw_text(env, &arena, json, &text) && str_equal(text, last));
    }
    json_free(tree);
    arena_done(&arena);
}

static int64_t play(const char *name, struct way way, char out_end[END_SIZE])
{
    qp_str text = trace_get(name);
    struct tracestage on = agentstage_of(&stage);
    struct qp_err err = {0};
    struct buf out;
    size_t differences = 0;
    memset(&stage, 0, sizeof stage);
    stage.run.stepwise = way.stepwise;
    agentstage_init(&stage, way.kind, "trace");
    stage.run.kill_at = way.kill_at;
    buf_init(&out, &stage.run.f.t.env, 0);
    int rc = agenttrace_play_on(&on, &stage.run.f.t.env, text, &out, NULL, &err, &differences);
    differences -= way.kill_at > 0 ? attempts_in(buf_slice(&out)) : 0;
    if (rc != QP_OK || differences > 0) {
        print_message("%s on %s%s, killed at %lld: %s %s %s\n%.*s", name, storetest_name(way.kind),
                      way.stepwise ? ", stepwise" : "", (long long)way.kill_at, qp_code_word(rc),
                      err.pointer, err.text, STR_ARG(buf_slice(&out)));
    }
    assert_int_equal(rc, QP_OK);
    assert_int_equal(differences, 0);
    graphrun_rest(&stage.run);
    graphrun_check(&stage.run);
    buf_reset(&out);
    assert_int_equal(agentstage_show(&stage, &out), QP_OK);
    assert_true(out.n < END_SIZE);
    check_properties(buf_slice(&out));
    memcpy(out_end, out.p, out.n);
    out_end[out.n] = '\0';
    int64_t commits = stage.run.commits;
    assert_int_equal(stage.run.kills, way.kill_at > 0);
    buf_done(&out);
    agentstage_done(&stage);
    free((void *)(uintptr_t)text.p);
    return commits;
}

static void agrees(const char *name, enum storetest_kind kind, bool stepwise)
{
    static char end[END_SIZE];
    (void)play(name, (struct way){.kind = kind, .stepwise = stepwise}, end);
}

/* One boundary in `step` of each trace; which ones differs from trace to trace. */
static void survives(enum storetest_kind kind, bool stepwise, int64_t step)
{
    static char undisturbed[END_SIZE];
    static char killed[END_SIZE];
    for (size_t i = 0; i < name_count; i++) {
        struct way way = {.kind = kind, .stepwise = stepwise};
        int64_t commits = play(names[i], way, undisturbed);
        for (way.kill_at = 1 + (int64_t)i % step; way.kill_at < commits; way.kill_at += step) {
            (void)play(names[i], way, killed);
            assert_string_equal(killed, undisturbed);
        }
    }
}

static void test_002_traces_on_stores(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (size_t i = 0; i < name_count; i++) {
            agrees(names[i], (enum storetest_kind)kind, false);
        }
    }
}

static void test_002_traces_stepwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < name_count; i++) {
        agrees(names[i], STORETEST_MEMORY, true);
    }
}

/* After every fifth commit in memory in the short lane; elsewhere the same rows are written, so that fewer are enough. */
static void test_killed_at_commits(void **state)
{
    bool all = testenv_is_torture();
    (void)state;
    survives(STORETEST_MEMORY, false, all ? 1 : 5);
    survives(STORETEST_MEMORY, true, all ? 1 : 19);
    for (int kind = STORETEST_MEMORY_ROWS; kind < storetest_kinds(); kind++) {
        survives((enum storetest_kind)kind, false, all ? 1 : 101);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_002_traces_on_stores),
        cmocka_unit_test(test_002_traces_stepwise),
        cmocka_unit_test(test_killed_at_commits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
