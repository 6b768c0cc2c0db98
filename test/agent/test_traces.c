/* test_traces.c - every trace of test/agent/traces agrees with the engine, array by array; wrong ones are found */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"
#include "support/agenttrace.h"
#include "support/files.h"
#include "support/testenv.h"

#define DIRECTORY "test/agent/traces"

static struct testenv t;

static int setup(void **state)
{
    testenv_init(&t, 1);
    return 0;
}

static int teardown(void **state)
{
    testenv_done(&t);
    return 0;
}

struct outcome {
    int rc;
    size_t differences;
    struct buf out;
    struct qp_err err;
};

static void play(qp_str text, struct outcome *out)
{
    *out = (struct outcome){0};
    buf_init(&out->out, &t.env, 0);
    out->rc = agenttrace_play(&t.env, text, &out->out, NULL, &out->err, &out->differences);
}

static qp_str trace_get(const char *name)
{
    char path[300];
    size_t size = 0;
    (void)snprintf(path, sizeof(path), DIRECTORY "/%s", name);
    unsigned char *bytes = files_get(path, &size);
    assert_non_null(bytes);
    return (qp_str){(char *)bytes, size};
}

/* Calls `visit` for each trace of the directory. */
static void each_trace(void (*visit)(const char *name, qp_str text))
{
    size_t count = 0;
    struct dirent *entry;
    DIR *directory = opendir(DIRECTORY);
    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        if (files_ends_with(entry->d_name, ".json")) {
            qp_str text = trace_get(entry->d_name);
            visit(entry->d_name, text);
            free((void *)(uintptr_t)text.p);
            count++;
        }
    }
    (void)closedir(directory);
    assert_true(count >= 14);
}

static void agrees(const char *name, qp_str text)
{
    struct outcome o;
    play(text, &o);
    if (o.rc != QP_OK || o.differences > 0) {
        print_message("%s: %d %s %s\n%.*s", name, o.rc, o.err.pointer, o.err.text,
                      STR_ARG(buf_slice(&o.out)));
    }
    assert_int_equal(o.rc, QP_OK);
    assert_int_equal(o.differences, 0);
    buf_done(&o.out);
}

/* The traces of the document and of the rulings. */
static void test_002_traces(void **state)
{
    each_trace(agrees);
}

/* No allocation that fails leaves anything behind or passes for a result. */
static void survives_shortage(const char *name, qp_str text)
{
    for (int64_t n = 1;; n++) {
        struct outcome o;
        testenv_fail_at(&t, n);
        play(text, &o);
        bool failed = testenv_failed(&t);
        testenv_fail_at(&t, 0);
        buf_done(&o.out);
        if (!failed) {
            assert_int_equal(o.rc, QP_OK);
            return;
        }
        assert_int_equal(o.rc, QP_E_NOMEM);
    }
}

static void test_no_memory(void **state)
{
    each_trace(survives_shortage);
}

#define FIRST                                                                                      \
    "{\"name\":\"x\",\"properties\":\"{}\",\"input\":\"[7]\",\"steps\":[{\"t\":0,\"do\":\"start\",\"state\":"
#define SECOND                                                                                        \
    "{}},{\"t\":1,\"do\":\"decision\",\"runs\":[{\"index\":0,\"branch\":0,\"type\":\"handle\","       \
    "\"given\":\"{}\",\"execute\":[{\"works\":[{\"name\":\"W\",\"position\":\"1\",\"type\":\"wait\"," \
    "\"event\":\"E\",\"duration\":5}],\"reply\":{\"status\":\"scheduled\"}}]}],\"state\":"

/* One wrong value in each array, and in each scalar: each is named with what was expected and what is. */
static void test_wrong_values(void **state)
{
    static const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {FIRST "{\"branches\":[{\"type\":\"onEvent\"}]}}]}",
         "step 1: /branches/0/type: expected \"onEvent\", got \"handle\"\n"},
        {FIRST "{\"branches\":[{\"input\":\"[8]\"}]}}]}",
         "step 1: /branches/0/input: expected \"[8]\", got \"[7]\"\n"},
        {FIRST "{\"executions\":[1]}}]}", "step 1: /executions/0: expected 1, got 0\n"},
        {FIRST "{\"executions\":[0,1]}}]}", "step 1: /executions: expected [0,1], got [0]\n"},
        {FIRST "{\"properties\":[{\"key\":1}]}}]}",
         "step 1: /properties/0/key: expected 1, got 0\n"},
        {FIRST "{\"buffer\":[{}]}}]}", "step 1: /buffer: expected [{}], got []\n"},
        {FIRST "{\"ongoing_index\":null}}]}", "step 1: /ongoing_index: expected null, got 0\n"},
        {FIRST "{\"decision_mode\":\"pause\"}}]}",
         "step 1: /decision_mode: expected \"pause\", got \"run\"\n"},
        {FIRST "{\"decision\":{\"attempt\":2}}}]}",
         "step 1: /decision/attempt: expected 2, got 1\n"},
        {FIRST "{\"status\":\"completed\"}}]}",
         "step 1: /status: expected \"completed\", got \"running\"\n"},
        {FIRST "{\"output\":null}}]}", "step 1: /output: expected null, got nothing\n"},
        {FIRST SECOND "{\"statuses\":[{\"status\":\"failed\"}]}}]}",
         "step 2: /statuses/0/status: expected \"failed\", got \"scheduled\"\n"},
        {FIRST SECOND "{\"waits\":[{\"timestamp\":5001,\"event\":\"E\"}]}}]}",
         "step 2: /waits/0/timestamp: expected 5001, got 5000\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct outcome o;
        play(str_from(cases[i].text), &o);
        buf_byte(&o.out, '\0');
        assert_int_equal(o.rc, QP_OK);
        assert_int_equal(o.differences, 1);
        assert_string_equal(o.out.p, cases[i].line);
        buf_done(&o.out);
    }
}

/* ------------------------------------------------------------------------ every value of every trace */

/* A trace that is written anew, with one value of its states changed. */
struct changing {
    struct json_writer *w;
    size_t left; /* values of states to pass before the one that is changed */
    bool is_done;
    char path[256]; /* of it, in its state */
    size_t step;    /* and its step, from 1 */
};

static void write_changed(struct changing *c, const struct json *value)
{
    int64_t number = 0;
    bool truth = false;
    qp_str text = QP_NONE;
    if (json_as_i64(value, &number)) {
        json_put_i64(c->w, number + 1);
    } else if (json_as_bool(value, &truth)) {
        json_put_bool(c->w, !truth);
    } else if (json_as_str(value, &text)) {
        json_put_str(c->w, text.n > 0 ? QP_STR("") : QP_STR("x"));
    } else {
        json_put_i64(c->w, 1); /* instead of null */
    }
    c->is_done = true;
}

static void write_state(struct changing *c, const struct json *value, size_t path_size);

static void write_below(struct changing *c, qp_str key, const struct json *value, size_t path_size)
{
    size_t room = sizeof c->path - path_size;
    size_t size = path_size;
    if (!c->is_done) {
        size += (size_t)snprintf(c->path + path_size, room, "/%.*s", STR_ARG(key));
    }
    assert_true(size < sizeof c->path);
    write_state(c, value, size);
}

static void write_items(struct changing *c, const struct json *array, size_t path_size)
{
    json_begin_array(c->w);
    for (size_t i = 0; i < json_count(array); i++) {
        char index[24];
        (void)snprintf(index, sizeof index, "%zu", i);
        write_below(c, str_from(index), json_at(array, i), path_size);
    }
    json_end_array(c->w);
}

static void write_state(struct changing *c, const struct json *value, size_t path_size)
{
    struct json_walk walk = {0};
    if (json_is(value, JSON_KIND_OBJECT)) {
        json_begin_object(c->w);
        while (json_each(value, &walk)) {
            json_key(c->w, walk.key);
            write_below(c, walk.key, walk.value, path_size);
        }
        json_end_object(c->w);
    } else if (json_is(value, JSON_KIND_ARRAY)) {
        write_items(c, value, path_size);
    } else if (!c->is_done && c->left-- == 0) {
        write_changed(c, value);
    } else {
        json_write_tree(c->w, value);
    }
}

static void write_step(struct changing *c, const struct json *step)
{
    struct json_walk walk = {0};
    json_begin_object(c->w);
    while (json_each(step, &walk)) {
        json_key(c->w, walk.key);
        if (str_equal(walk.key, QP_STR("state"))) {
            write_state(c, walk.value, 0);
        } else {
            json_write_tree(c->w, walk.value);
        }
    }
    json_end_object(c->w);
}

static void write_trace(struct changing *c, const struct json *trace)
{
    struct json_walk walk = {0};
    json_begin_object(c->w);
    while (json_each(trace, &walk)) {
        json_key(c->w, walk.key);
        if (!str_equal(walk.key, QP_STR("steps"))) {
            json_write_tree(c->w, walk.value);
            continue;
        }
        json_begin_array(c->w);
        for (size_t i = 0; i < json_count(walk.value); i++) {
            c->step += c->is_done ? 0 : 1;
            write_step(c, json_at(walk.value, i));
        }
        json_end_array(c->w);
    }
    json_end_object(c->w);
}

/* False: the trace has fewer values. */
static bool is_reported(const char *name, const struct json *trace, size_t number)
{
    struct json_writer w;
    struct changing c = {.w = &w, .left = number};
    struct buf text;
    struct outcome o;
    char line[320];
    buf_init(&text, &t.env, 0);
    json_writer_init(&w, &text);
    write_trace(&c, trace);
    assert_int_equal(json_writer_done(&w), QP_OK);
    if (c.is_done) {
        play(buf_slice(&text), &o);
        buf_byte(&o.out, '\0');
        (void)snprintf(line, sizeof line, "step %zu: %s: expected ", c.step, c.path);
        if (o.rc != QP_OK || o.differences != 1 || strncmp(o.out.p, line, strlen(line)) != 0) {
            fail_msg("%s, value %zu: not '%s', but %s", name, number, line, o.out.p);
        }
        buf_done(&o.out);
    }
    buf_done(&text);
    return c.is_done;
}

/* Each wrong value is reported once, with its step and its place. */
static void reports_changes(const char *name, qp_str text)
{
    size_t stride = testenv_is_torture() ? 1 : 7;
    struct json *trace = NULL;
    size_t number = 0;
    assert_int_equal(json_build(&t.env, text, NULL, &trace), QP_OK);
    while (is_reported(name, trace, number)) {
        number += stride;
    }
    assert_true(number > 0);
    json_free(trace);
}

static void test_002_each_wrong_value(void **state)
{
    each_trace(reports_changes);
}

#define STEP FIRST "{}},{\"t\":1,"
#define WORKS(list) STEP "\"do\":\"decision\",\"runs\":[{\"execute\":[{\"works\":" list "}]}]}]}"

/* A bad file, and bad works, say where. */
static void test_bad_files(void **state)
{
    static const struct {
        const char *text;
        const char *pointer;
    } cases[] = {
        {"{", ""},
        {"{}", "/name"},
        {"{\"name\":\"x\"}", "/steps"},
        {"{\"name\":\"x\",\"steps\":[1]}", "/steps/0"},
        {"{\"name\":\"x\",\"steps\":[{\"t\":-1}]}", "/steps/0/t"},
        {"{\"name\":\"x\",\"steps\":[{\"t\":1,\"do\":\"timers\"}]}", "/steps/0/do"},
        {STEP "\"do\":\"start\"}]}", "/steps/1/do"},
        {STEP "\"do\":\"nothing\"}]}", "/steps/1/do"},
        {STEP "\"do\":\"mode\",\"mode\":\"stop\"}]}", "/steps/1/mode"},
        {STEP "\"do\":\"onEvent\"}]}", "/steps/1/name"},
        {STEP "\"do\":\"onEvent\",\"name\":\"E\",\"input\":1}]}", "/steps/1/input"},
        {STEP "\"do\":\"onStart\",\"work\":\"0/1\"}]}", "/steps/1/work"},
        {STEP "\"do\":\"onStart\",\"work\":\"b/1\"}]}", "/steps/1/work"},
        {STEP "\"do\":\"fail\",\"error\":1}]}", "/steps/1/error"},
        {STEP "\"do\":\"decision\"}]}", "/steps/1/runs"},
        {WORKS("[]"), "/steps/1/runs/0/execute/0/works"},
        {WORKS("[1]"), "/steps/1/runs/0/execute/0/works/0"},
        {WORKS("[{\"position\":\"1\"}]"), "/steps/1/runs/0/execute/0/works/0/name"},
        {WORKS("[{\"name\":\"A\"}]"), "/steps/1/runs/0/execute/0/works/0/position"},
        {WORKS("[{\"name\":\"A\",\"position\":\"1\",\"type\":\"x\"}]"),
         "/steps/1/runs/0/execute/0/works/0/type"},
        {WORKS("[{\"name\":\"A\",\"position\":\"1\",\"type\":\"wait\",\"duration\":-1}]"),
         "/steps/1/runs/0/execute/0/works/0/duration"},
        {WORKS("[{\"name\":\"A\",\"position\":\"1\"},{\"name\":\"A\",\"position\":\"1\"}]"),
         "/steps/1/runs/0/execute/0/works"},
        {WORKS("[{\"name\":\"A\",\"position\":\"1\"},"
               "{\"name\":\"A\",\"position\":\"2\",\"sync\":false}]"),
         "/steps/1/runs/0/execute/0/works/1/sync"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct outcome o;
        play(str_from(cases[i].text), &o);
        assert_int_not_equal(o.rc, QP_OK);
        assert_string_equal(o.err.pointer, cases[i].pointer);
        assert_true(o.err.text[0] != '\0');
        buf_done(&o.out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_002_traces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_002_each_wrong_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
