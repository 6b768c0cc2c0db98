/* test_jobs_api.c - calls about jobs: starting once, waiting, lists, actions, and streams of
 * events */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/failpoint.h"
#include "kernel/single.h"
#include "kernel/turn.h"
#include "servertest.h"

/* Works off one task of topic "work". */
static void work_once(void)
{
    struct hc_answer a = st_work("{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"10s\"}");
    char *token = hc_member(&a, "tasks.0.token");
    char body[512];
    if (token == NULL) {
        fail_msg("no task: %s", a.body);
    }
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\",\"output\":42}]}", token);
    hc_done(&a);
    a = st_work(body);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    free(token);
}

/* The same id and input mean the same job; another input is a conflict. */
static void once_by_id(void **state)
{
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("same", "{\"a\":1}");
    assert_true(st_call("POST", "/v1/jobs",
                        "{\"topic\":\"work\",\"id\":\"same\",\"input\":{\"a\":1}}", NULL) < 300);
    assert_int_equal(
        st_call("POST", "/v1/jobs", "{\"topic\":\"work\",\"id\":\"same\",\"input\":2}", NULL), 409);
    st_end();
}

/* The same key and body mean the same job, also after a restart; another body is refused. */
static void once_by_key(void **state)
{
    static const char body[] = "{\"topic\":\"work\",\"input\":1}";
    struct hc c;
    struct hc_answer a;
    char *first, *second;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    assert_true(hc_open(&c, st.port));
    a = hc_ask(&c, NULL, "POST", "/v1/jobs", "Idempotency-Key: k1\r\n", body);
    assert_int_equal(a.status, 201);
    first = hc_member(&a, "id");
    hc_done(&a);
    hc_close(&c);
    st_reopen();
    assert_true(hc_open(&c, st.port));
    a = hc_ask(&c, NULL, "POST", "/v1/jobs", "Idempotency-Key: k1\r\n", body);
    assert_int_equal(a.status, 201);
    second = hc_member(&a, "id");
    assert_string_equal(first, second);
    free(second);
    second = hc_header(&a, "Idempotency-Replayed");
    assert_non_null(second);
    hc_done(&a);
    a = hc_ask(&c, NULL, "POST", "/v1/jobs", "Idempotency-Key: k1\r\n",
               "{\"topic\":\"work\",\"input\":2}");
    assert_int_equal(a.status, 422);
    hc_done(&a);
    a = hc_ask(&c, NULL, "POST", "/v1/jobs", "Idempotency-Key: k2\r\n", body);
    assert_int_equal(a.status, 201);
    free(second);
    second = hc_member(&a, "id");
    assert_string_not_equal(first, second);
    hc_done(&a);
    hc_close(&c);
    free(first);
    free(second);
    st_end();
}

/* A keyed request; fails the test unless the status is this, and the answer says whether it is one of before.
 * The id in it, to be freed; NULL when there is none. */
static char *ask_keyed(const char *path, const char *key, const char *body, int status,
                       bool replayed)
{
    char header[64];
    struct hc c;
    struct hc_answer a;
    char *id, *again;
    (void)snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", key);
    assert_true(hc_open(&c, st.port));
    a = hc_ask(&c, NULL, "POST", path, header, body);
    again = hc_header(&a, "Idempotency-Replayed");
    if (a.status != status || (again != NULL) != replayed) {
        fail_msg("%s %s: %d, %s: %s", path, body, a.status, again == NULL ? "new" : "replayed",
                 a.body);
    }
    id = hc_member(&a, "id");
    free(again);
    hc_done(&a);
    hc_close(&c);
    return id;
}

/* So do actions that make a job. */
static void actions_by_key(void **state)
{
    char *first, *second;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("origin", "1");
    first = ask_keyed("/v1/jobs/origin/fork", "f", "{\"input\":2}", 201, false);
    st_reopen();
    second = ask_keyed("/v1/jobs/origin/fork", "f", "{\"input\":2}", 201, true);
    assert_string_equal(first, second);
    free(second);
    free(ask_keyed("/v1/jobs/origin/fork", "f", "{\"input\":3}", 422, false));
    second = ask_keyed("/v1/jobs/origin/fork", "g", "{\"input\":2}", 201, false);
    assert_string_not_equal(first, second);
    free(second);
    free(first);
    assert_int_equal(st_call("POST", "/v1/jobs/origin/kill", NULL, NULL), 200);
    first = ask_keyed("/v1/jobs/origin/retry", "r", "{}", 200, false);
    second = ask_keyed("/v1/jobs/origin/retry", "r", "{}", 200, true);
    assert_string_equal(first, second);
    free(second);
    free(first);
    free(ask_keyed("/v1/jobs?wait=1ms", "w", "{\"topic\":\"work\"}", 202, false));
    free(ask_keyed("/v1/jobs?wait=1ms", "w", "{\"topic\":\"work\"}", 202, true));
    st_end();
}

/* A job of two steps: each waits for the signal (go, id of the job). */
static int twice_describe(struct turn *t, struct op_act_create *row)
{
    row->category = str_equal(t->at.name, QP_STR("trigger")) ? 'D' : 'A';
    return QP_OK;
}

static int twice_enter(struct turn *t)
{
    return turn_hook(t, QP_STR("go"), t->job->jid, false);
}

static int twice_spawn(struct turn *t, struct spawn *spawn)
{
    (void)spawn;
    if (str_equal(t->at.name, QP_STR("second"))) {
        return turn_spawn_nothing(t);
    }
    return turn_child(t,
                      str_equal(t->at.name, QP_STR("trigger")) ? QP_STR("first") : QP_STR("second"),
                      t->act->input);
}

static int twice_complete(struct turn *t, struct complete *complete)
{
    complete->output = t->guid.output;
    return QP_OK;
}

static const struct program twice_program = {.kind = 101,
                                             .name = "twice",
                                             .describe = twice_describe,
                                             .enter = twice_enter,
                                             .spawn = twice_spawn,
                                             .complete = twice_complete};

static struct program twice_of(void *state)
{
    (void)state;
    return twice_program;
}

static const struct face twice_face = {.kind = 101,
                                       .name = "twice",
                                       .name_kind = NAMES_NONE,
                                       .hook_kind = NAMES_NONE,
                                       .start_name = "twice",
                                       .program = twice_of};

/* Waits until the job has entered this step. */
static void await_step(const char *id, const char *step)
{
    char path[64];
    bool there = false;
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/activities", id);
    while (!there) {
        struct hc_answer a;
        st_call("GET", path, NULL, &a);
        there = strstr(a.body, step) != NULL;
        hc_done(&a);
    }
}

/* A signal is sent once by its key, also when it was delivered long ago: the second step must not take what the
 * first one has had. */
static void signals_by_key(void **state)
{
    static const struct face *const faces[] = {&twice_face};
    static const char path[] = "/v1/jobs/job/signals";
    char *status;
    (void)state;
    st_init(ST_FILE, ST_OPEN);
    st.options.faces = faces;
    st.options.face_count = ARRAY_COUNT(faces);
    st_open();
    free(st_expect("POST", "/v1/jobs", "{\"topic\":\"twice\",\"id\":\"job\"}", 201, "id"));
    await_step("job", "\"first,");
    free(ask_keyed(path, "s", "{\"topic\":\"go\",\"payload\":1}", 202, false));
    await_step("job", "\"second,");
    free(ask_keyed(path, "s", "{\"topic\":\"go\",\"payload\":1}", 202, true));
    free(ask_keyed(path, "s", "{\"topic\":\"go\",\"payload\":2}", 422, false));
    free(ask_keyed(path, "s", "{\"topic\":\"stop\",\"payload\":1}", 422, false));
    assert_int_equal(st_call("GET", "/v1/jobs/job/result?wait=200ms", NULL, NULL), 202);
    free(ask_keyed(path, "t", "{\"topic\":\"go\",\"payload\":1}", 202, false));
    status = st_expect("GET", "/v1/jobs/job/result?wait=20s", NULL, 200, "status");
    assert_string_equal(status, "completed");
    free(status);
    st_end();
}

/* The beginning of an id is none, at no address of a job. */
static void whole_ids(void **state)
{
    static const char *const rests[] = {"",        "/result", "/activities", "/history",
                                        "/events", "/export", "/signals"};
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("alone-1", "1");
    st_start("pair-1", "1");
    st_start("pair-2", "1");
    for (size_t i = 0; i < ARRAY_COUNT(rests); i++) {
        bool posts = strcmp(rests[i], "/signals") == 0;
        char path[64];
        (void)snprintf(path, sizeof path, "/v1/jobs/alone%s", rests[i]);
        free(st_expect(posts ? "POST" : "GET", path, posts ? "{\"topic\":\"t\"}" : NULL, 404,
                       "code"));
        (void)snprintf(path, sizeof path, "/v1/jobs/pair%s", rests[i]);
        free(st_expect(posts ? "POST" : "GET", path, posts ? "{\"topic\":\"t\"}" : NULL, 404,
                       "code"));
    }
    st_end();
}

/* Who asks for a namespace that is not there is in the audit, too, and nothing of it is an error of ours. */
static void audited_nowhere(void **state)
{
    char *action;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    free(st_expect("POST", "/v1/jobs/x/cancel?namespace=nowhere", "{}", 404, "code"));
    do {
        struct hc_answer a;
        st_call("GET", "/v1/audit?store=1", NULL, &a);
        action = hc_member(&a, "items.0.action"); /* it is written with the next commit */
        hc_done(&a);
    } while (action == NULL);
    assert_string_equal(action, "job_cancel");
    assert_null(strstr(st_log(), "lost"));
    free(action);
    st_end();
}

#define KEYED_BODY "{\"topic\":\"work\",\"id\":\"keyed\"}"

static void *start_keyed(void *context)
{
    struct hc c;
    QP_ASSERT(hc_open(&c, st.port));
    *(struct hc_answer *)context =
        hc_ask(&c, NULL, "POST", "/v1/jobs?wait=20s", "Idempotency-Key: busy\r\n", KEYED_BODY);
    hc_close(&c);
    return NULL;
}

/* While the first request with a key is being answered, a second one is told to wait; a key that
 * is none is refused. */
static void key_in_flight(void **state)
{
    struct hc_answer first;
    struct hc_answer a;
    struct hc c;
    pthread_t thread;
    char *code;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    assert_int_equal(pthread_create(&thread, NULL, start_keyed, &first), 0);
    while (st_call("GET", "/v1/jobs/keyed", NULL, NULL) != 200) {}
    assert_true(hc_open(&c, st.port));
    a = hc_ask(&c, NULL, "POST", "/v1/jobs?wait=20s", "Idempotency-Key: busy\r\n", KEYED_BODY);
    assert_int_equal(a.status, 409);
    code = hc_member(&a, "code");
    assert_string_equal(code, "idempotency_in_flight");
    free(code);
    hc_done(&a);
    work_once();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first.status, 200);
    hc_done(&first);
    a = hc_ask(&c, NULL, "POST", "/v1/jobs?wait=20s", "Idempotency-Key: busy\r\n", KEYED_BODY);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    a = hc_ask(&c, NULL, "POST", "/v1/jobs", "Idempotency-Key: \r\n", KEYED_BODY);
    assert_int_equal(a.status, 400);
    hc_done(&a);
    hc_close(&c);
    st_end();
}

static void *wait_on_thread(void *context)
{
    st_call("GET", "/v1/jobs/slow/result?wait=20s", NULL, context);
    return NULL;
}

/* Waiting ends with the job, or with its time: 202. */
static void waiting(enum st_kind kind)
{
    struct hc_answer a;
    pthread_t thread;
    char *text;
    st_begin(kind, ST_OPEN);
    assert_int_equal(st_call("GET", "/v1/jobs/slow/result?wait=1s", NULL, NULL), 404);
    st_start("slow", "1");
    text = st_expect("GET", "/v1/jobs/slow/result?wait=50ms", NULL, 202, "status");
    assert_string_equal(text, "running");
    free(text);
    assert_int_equal(pthread_create(&thread, NULL, wait_on_thread, &a), 0);
    work_once();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(a.status, 200);
    text = hc_member(&a, "output");
    assert_string_equal(text, "42");
    free(text);
    hc_done(&a);
    free(
        st_expect("POST", "/v1/jobs?wait=50ms", "{\"topic\":\"work\",\"id\":\"call\"}", 202, "id"));
    st_end();
}

/* Whoever waits asks whether the job has ended, however often it changes; the job is read for the answer alone. */
static void waiting_reads_once(void **state)
{
    struct hc_answer a;
    pthread_t thread;
    int64_t shown;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("slow", "1");
    shown = failpoint_hits("query.show");
    assert_int_equal(pthread_create(&thread, NULL, wait_on_thread, &a), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(st_call("POST", "/v1/jobs/slow/pause", "{}", NULL), 200);
        assert_int_equal(st_call("POST", "/v1/jobs/slow/resume", "{}", NULL), 200);
    }
    work_once();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(a.status, 200);
    assert_int_equal(failpoint_hits("query.show") - shown, 1);
    hc_done(&a);
    st_end();
}

static void waiting_on_a_file(void **state)
{
    (void)state;
    waiting(ST_FILE);
}

static void waiting_on_a_database(void **state)
{
    (void)state;
    waiting(ST_DATABASE);
}

/* Pages of a list have every job once, in order; a cursor that was tampered with is refused, as
 * are filters that make no sense. */
static void lists(void **state)
{
    char path[256] = "/v1/jobs?limit=3&order=oldest";
    char seen[10] = {0};
    int pages = 0;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    for (int i = 0; i < 10; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "job-%d", i);
        st_start(id, "1");
    }
    while (path[0] != '\0') {
        struct hc_answer a;
        char *cursor;
        assert_int_equal(st_call("GET", path, NULL, &a), 200);
        for (int i = 0; i < 4; i++) {
            char member[32];
            char *id;
            (void)snprintf(member, sizeof member, "items.%d.id", i);
            id = hc_member(&a, member);
            if (id != NULL) {
                assert_int_equal(seen[id[4] - '0']++, 0);
            }
            free(id);
        }
        cursor = hc_member(&a, "next_cursor");
        if (cursor != NULL) {
            (void)snprintf(path, sizeof path, "/v1/jobs?limit=3&order=oldest&cursor=%s", cursor);
        } else {
            path[0] = '\0';
        }
        free(cursor);
        hc_done(&a);
        assert_true(++pages < 20);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_int_equal(st_call("GET", "/v1/jobs?cursor=forged", NULL, NULL), 400);
    assert_int_equal(st_call("GET", "/v1/jobs?where=colour%3Dred", NULL, NULL), 400);
    free(st_expect("GET", "/v1/jobs?where=id%5E%3D%22job-3%22", NULL, 200, "items.0.id"));
    st_end();
}

/* What is done to jobs, and what cannot be. */
static void actions(void **state)
{
    char *text;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("a", "1");
    st_start("ab", "1");
    assert_int_equal(st_call("POST", "/v1/jobs/b/cancel", "{}", NULL), 404);
    free(st_expect("POST", "/v1/jobs/a/pause", NULL, 200, "id"));
    text = st_expect("GET", "/v1/jobs/a", NULL, 200, "status");
    assert_string_equal(text, "paused");
    free(text);
    free(st_expect("POST", "/v1/jobs/a/resume", NULL, 200, "id"));
    free(st_expect("POST", "/v1/jobs/a/cancel", "{\"reason\":\"enough\"}", 200, "id"));
    assert_int_equal(st_call("POST", "/v1/jobs/a/cancel", "{}", NULL), 409);
    text = st_expect("GET", "/v1/jobs/ab", NULL, 200, "status");
    assert_string_equal(text, "running");
    free(text);
    free(st_expect("POST", "/v1/jobs/a/retry", "{}", 200, "id"));
    free(st_expect("POST", "/v1/batches", "{\"action\":\"kill\",\"where\":\"status=running\"}", 200,
                   "done"));
    text = st_expect("GET", "/v1/jobs/ab", NULL, 200, "status");
    assert_string_equal(text, "interrupted");
    free(text);
    st_end();
}

/* A job of one namespace is not there for another. */
static void namespaces(void **state)
{
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    free(st_expect("POST", "/v1/namespaces", "{\"name\":\"tenant\"}", 201, "name"));
    assert_int_equal(st_call("POST", "/v1/namespaces", "{\"name\":\"tenant\"}", NULL), 409);
    free(st_expect("POST", "/v1/jobs?namespace=tenant", "{\"topic\":\"work\",\"id\":\"x\"}", 201,
                   "id"));
    free(st_expect("GET", "/v1/jobs/x?namespace=tenant", NULL, 200, "id"));
    assert_int_equal(st_call("GET", "/v1/jobs/x", NULL, NULL), 404);
    assert_int_equal(st_call("GET", "/v1/jobs/x?namespace=nobody", NULL, NULL), 404);
    st_end();
}

/* --------------------------------------------------------------------------------------- events */

static void open_stream(struct hc *c, const char *path, const char *last)
{
    char request[512];
    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s%s%s\r\n",
                   path, last == NULL ? "" : "Last-Event-ID: ", last == NULL ? "" : last,
                   last == NULL ? "" : "\r\n");
    assert_true(hc_open(c, st.port));
    assert_true(hc_text(c, request));
}

static bool saw(struct hc *c, const char *text)
{
    while (c->size == 0 || memmem(c->in, c->size, text, strlen(text)) == NULL) {
        if (!hc_more(c, 10000)) {
            return false;
        }
    }
    return true;
}

/* A stream tells a job's events as they happen, ends with the job, and goes on where a reader
 * has left off. */
static void events_of_a_job(void **state)
{
    struct hc c;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    open_stream(&c, "/v1/jobs/none/events", NULL);
    assert_true(saw(&c, "404"));
    hc_close(&c);
    st_start("e", "{\n\"lines\":\n2}");
    open_stream(&c, "/v1/jobs/e/events", NULL);
    assert_true(saw(&c, "text/event-stream"));
    assert_true(saw(&c, "event: entered"));
    assert_null(memmem(c.in, c.size, "event: end\n", 11));
    work_once();
    assert_true(saw(&c, "event: end\n"));
    assert_true(saw(&c, "id: 1\n"));
    hc_close(&c);
    open_stream(&c, "/v1/jobs/e", "1");
    assert_true(saw(&c, "event: end\n"));
    assert_null(memmem(c.in, c.size, "id: 1\n", 6));
    assert_non_null(memmem(c.in, c.size, "id: 2\n", 6));
    hc_close(&c);
    open_stream(&c, "/v1/jobs/e/history", "many");
    assert_true(saw(&c, " 400 "));
    hc_close(&c);
    st_end();
}

/* A stream of a list tells of those that fit, from now on. */
static void events_of_a_list(void **state)
{
    struct hc c;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("before", "1");
    open_stream(&c, "/v1/jobs?where=id%5E%3D%22in%22", NULL);
    assert_true(saw(&c, "text/event-stream"));
    st_start("out", "1");
    st_start("in-1", "1");
    assert_true(saw(&c, "\"in-1\""));
    assert_null(memmem(c.in, c.size, "\"out\"", 5));
    assert_null(memmem(c.in, c.size, "\"before\"", 8));
    hc_close(&c);
    open_stream(&c, "/v1/jobs?where=nonsense", NULL);
    assert_true(saw(&c, " 400 "));
    hc_close(&c);
    st_end();
}

static atomic_llong ahead_ms;
static qp_ms (*system_wall_ms)(void *context);
static int64_t (*system_us)(void *context);

static qp_ms later_wall_ms(void *context)
{
    return system_wall_ms(context) + atomic_load(&ahead_ms);
}

/* Time passes: a step of the wall clock alone would be absorbed. */
static int64_t later_us(void *context)
{
    return system_us(context) + atomic_load(&ahead_ms) * 1000;
}

/* The feed goes back for a week: a reader that was away for longer is told to begin again, and hears of what
 * comes after that; one that was not goes on. */
static void events_of_a_feed_that_was_cut(void **state)
{
    struct hc c;
    (void)state;
    st_init(ST_FILE, ST_OPEN);
    system_wall_ms = st.env.wall_ms;
    st.env.wall_ms = later_wall_ms;
    system_us = st.env.monotonic_us;
    st.env.monotonic_us = later_us;
    atomic_store(&ahead_ms, 0);
    st_open();
    for (int i = 0; i < 5; i++) {
        free(st_expect("POST", "/v1/jobs", "{\"topic\":\"work\"}", 201, "id"));
    }
    open_stream(&c, "/v1/jobs", "1");
    assert_true(saw(&c, "event: entered"));
    assert_null(memmem(c.in, c.size, "reset", 5));
    hc_close(&c);
    atomic_store(&ahead_ms, LIMIT_FEED_MS + 2 * LIMIT_FEED_LOOK_MS);
    st_start("first", "1");
    st_start("second", "1");
    open_stream(&c, "/v1/jobs", "1");
    assert_true(saw(&c, "event: reset\n"));
    st_start("third", "1");
    assert_true(saw(&c, "\"third\""));
    assert_null(memmem(c.in, c.size, "\"second\"", 8));
    hc_close(&c);
    st_end();
}

/* The end of the server ends its streams. */
static void events_at_the_end(void **state)
{
    struct hc c;
    (void)state;
    st_begin(ST_FILE, ST_OPEN);
    st_start("e", "1");
    open_stream(&c, "/v1/jobs/e/events", NULL);
    assert_true(saw(&c, "event: entered"));
    st_end();
    assert_true(hc_closed(&c, 5000));
    hc_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_by_id),
        cmocka_unit_test(once_by_key),
        cmocka_unit_test(actions_by_key),
        cmocka_unit_test(signals_by_key),
        cmocka_unit_test(whole_ids),
        cmocka_unit_test(audited_nowhere),
        cmocka_unit_test(key_in_flight),
        cmocka_unit_test(waiting_reads_once),
        cmocka_unit_test(waiting_on_a_file),
        cmocka_unit_test(waiting_on_a_database),
        cmocka_unit_test(lists),
        cmocka_unit_test(actions),
        cmocka_unit_test(namespaces),
        cmocka_unit_test(events_of_a_job),
        cmocka_unit_test(events_of_a_list),
        cmocka_unit_test(events_of_a_feed_that_was_cut),
        cmocka_unit_test(events_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
