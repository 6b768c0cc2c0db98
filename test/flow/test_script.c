/* test_script.c - flows as C functions over histories in memory: what each durable call records and returns in replay, how
 * a run ends, and what becomes of mistakes
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fakeflow.h"

static struct testenv t;
static struct fakeflow f;

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    fake_init(&f, &t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_done(&f);
    testenv_done(&t);
    return 0;
}

static void assert_runs(enum script_kind kind, qp_flow_function function, void *context)
{
    enum script_kind was = fake_run(&f, function, context);
    if (was != kind) {
        fail_msg("%d, not %d: %s %.*s", (int)was, (int)kind,
                 f.result.reason != NULL ? f.result.reason : "", STR_ARG(f.result.text));
    }
}

static void assert_history(const char *text)
{
    assert_string_equal(fake_text(&f), text);
}

static void assert_end(const char *json)
{
    assert_true(f.over);
    assert_true(qp_str_is(f.end, json));
}

/* Over the history as it is, the function does the same and writes nothing. */
static void assert_replays(qp_flow_function function, void *context)
{
    static struct fakeflow again;
    bool was_over = f.over;
    fake_copy(&again, &f, &t);
    again.over = false;
    assert_int_equal(fake_run(&again, function, context),
                     was_over ? SCRIPT_RETURNED : SCRIPT_WAITS);
    assert_int_equal(again.commands, was_over ? 1 : 0);
    if (was_over) {
        assert_true(str_equal(again.end, f.end));
    }
    fake_done(&again);
}

/* ------------------------------------------------------------------------------------- one by one */

static int two_steps(qp_flow *flow, qp_str input, void *context)
{
    qp_str first;
    qp_str second;
    (void)context;
    QP_TRY(qp_activity(flow, "foo", input, NULL, &first));
    QP_TRY(qp_activity(flow, "bar", first, &(struct qp_step){.attempts = 3, .timeout_ms = 50},
                       &second));
    QP_TRY(qp_sleep(flow, QP_SECONDS(5)));
    return qp_return(flow, second);
}

/* A call that must wait suspends the function; its answer lets it go on; a run that was lost changes nothing. */
static void test_steps_in_sequence(void **state)
{
    (void)state;
    assert_runs(SCRIPT_WAITS, two_steps, NULL);
    assert_history("{1} activity foo");
    assert_true(str_equal(f.rows[0].entry.input, f.input));
    assert_runs(SCRIPT_WAITS, two_steps, NULL);
    assert_int_equal(f.commands, 0);
    fake_answer(&f, "foo", 200, "\"one\"");
    assert_int_equal(fake_run_lost(&f, two_steps, NULL), SCRIPT_WAITS);
    assert_runs(SCRIPT_WAITS, two_steps, NULL);
    assert_history("{1} activity foo; {2} activity bar");
    assert_true(qp_str_is(f.rows[1].entry.input, "\"one\""));
    fake_answer(&f, "bar", 200, "\"two\"");
    assert_runs(SCRIPT_WAITS, two_steps, NULL);
    fake_answer(&f, NULL, 200, "{\"interrupted\":false}");
    assert_runs(SCRIPT_RETURNED, two_steps, NULL);
    assert_history("{1} activity foo; {2} activity bar; {3} sleep");
    assert_end("\"two\"");
    assert_replays(two_steps, NULL);
}

/* The JSON of a decision: other languages write the same. */
static void test_the_json_of_commands(void **state)
{
    static const char want[] =
        "{\"base\":1,\"commands\":[{\"op\":\"activity\",\"loc\":\"{2}\",\"v\":1,\"name\":\"bar\",\"input\":1,"
        "\"retry\":{\"attempts\":3},\"timeout\":50}]}";
    (void)state;
    assert_runs(SCRIPT_WAITS, two_steps, NULL);
    f.seq = 0;
    fake_answer(&f, "foo", 200, "1");
    (void)fake_run_lost(&f, two_steps, NULL);
    assert_true(qp_str_is(f.result.decision, want));
}

static int failing(qp_flow *flow, qp_str input, void *context)
{
    struct qp_flow_error *seen = context;
    struct qp_flow_error error;
    int rc = qp_activity(flow, "charge", input, NULL, NULL);
    if (rc == QP_E_FAILED && seen != NULL) {
        qp_flow_error(flow, &error);
        assert_int_equal(error.code, 404);
        assert_true(qp_str_is(error.message, "no such card"));
        assert_true(qp_str_is(error.name, "charge"));
        assert_true(qp_str_is(error.location, "{1}"));
        *seen = error;
        QP_TRY(qp_activity(flow, "tell", QP_NONE, NULL, NULL));
        return qp_flow_fail(flow, "no money");
    }
    return rc;
}

/* An error that nothing handles is the job's; one that is handled lets the flow go on; qp_flow_fail gives another. */
static void test_errors_of_activities(void **state)
{
    struct qp_flow_error seen = {0};
    (void)state;
    assert_runs(SCRIPT_WAITS, failing, NULL);
    fake_answer(&f, "charge", 404, "{\"code\":404,\"message\":\"no such card\"}");
    assert_int_equal(fake_run_lost(&f, failing, NULL), SCRIPT_FAILED);
    assert_non_null(memmem(f.result.decision.p, f.result.decision.n, "\"op\":\"fail\"", 11));
    assert_runs(SCRIPT_WAITS, failing, &seen);
    assert_int_equal(seen.code, 404);
    fake_answer(&f, "tell", 200, "null");
    assert_runs(SCRIPT_FAILED, failing, &seen);
    assert_end("{\"code\":500,\"message\":\"no money\"}");
}

/* ------------------------------------------------------------------------------------ inline code */

struct inlined {
    int calls;
    bool fails;
};

static int count_calls(qp_flow *flow, void *context)
{
    struct inlined *in = context;
    in->calls++;
    return in->fails ? qp_flow_fail(flow, "not today") : qp_return(flow, QP_STR("[7]"));
}

static int with_inline(qp_flow *flow, qp_str input, void *context)
{
    qp_str value = QP_NONE;
    int rc = qp_inline(flow, "look", count_calls, context, &value);
    if (rc != QP_OK && rc != QP_E_FAILED) {
        return rc;
    }
    QP_TRY(qp_activity(flow, rc == QP_OK ? "good" : "bad", value, NULL, NULL));
    return qp_return(flow, value);
}

/* Inline code runs until its result is recorded, and not again; so does its error. */
static void test_inline_code_is_recorded(void **state)
{
    struct inlined in = {0};
    (void)state;
    assert_int_equal(fake_run_lost(&f, with_inline, &in), SCRIPT_WAITS);
    assert_int_equal(in.calls, 1);
    assert_runs(SCRIPT_WAITS, with_inline, &in);
    assert_int_equal(in.calls, 2);
    fake_answer(&f, "good", 200, "1");
    assert_runs(SCRIPT_RETURNED, with_inline, &in);
    assert_int_equal(in.calls, 2);
    assert_end("[7]");
    fake_done(&f);
    fake_init(&f, &t);
    in = (struct inlined){.fails = true};
    assert_runs(SCRIPT_WAITS, with_inline, &in);
    fake_answer(&f, "bad", 200, "1");
    assert_runs(SCRIPT_RETURNED, with_inline, &in);
    assert_int_equal(in.calls, 1);
    assert_history("{1} run look; {2} activity bad");
}

/* --------------------------------------------------------------------------------- several at once */

static int all_of_three(qp_flow *flow, qp_str input, void *context)
{
    static const char *const names[] = {"a", "b", "c"};
    qp_handle handles[4];
    qp_str last;
    for (size_t i = 0; i < 3; i++) {
        QP_TRY(qp_begin_activity(flow, names[i], input, NULL, &handles[i]));
    }
    QP_TRY(qp_begin_sleep(flow, 10, &handles[3]));
    QP_TRY(qp_all(flow, handles, 4));
    QP_TRY(qp_output(flow, handles[2], &last));
    return qp_return(flow, last);
}

/* All members are begun in one decision, which asks to be woken after the last of them; the first error counts. */
static void test_all(void **state)
{
    (void)state;
    assert_runs(SCRIPT_WAITS, all_of_three, NULL);
    assert_int_equal(f.commands, 4);
    assert_int_equal(f.after, 4);
    assert_history("{1} activity a; {2} activity b; {3} activity c; {4} sleep");
    fake_answer(&f, "c", 200, "3");
    assert_runs(SCRIPT_WAITS, all_of_three, NULL);
    assert_int_equal(f.after, 3);
    fake_answer(&f, "b", 500, "{\"code\":500,\"message\":\"b broke\"}");
    fake_answer(&f, NULL, 200, "{\"interrupted\":false}");
    assert_runs(SCRIPT_WAITS, all_of_three, NULL);
    fake_answer(&f, "a", 200, "1");
    assert_runs(SCRIPT_FAILED, all_of_three, NULL);
    assert_end("{\"code\":500,\"message\":\"b broke\",\"activity\":\"b\",\"address\":\"{2}\"}");
}

static int slow(qp_flow *flow, void *context)
{
    qp_str out;
    QP_TRY(qp_activity(flow, "s1", QP_NONE, NULL, NULL));
    QP_TRY(qp_activity(flow, "s2", QP_NONE, NULL, &out));
    return qp_return(flow, out);
}

static int any_of_three(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handles[3];
    size_t index;
    qp_str out;
    QP_TRY(qp_begin_activity(flow, "a", input, NULL, &handles[0]));
    QP_TRY(qp_begin_closure(flow, "slow", slow, NULL, &handles[1]));
    QP_TRY(qp_begin_listen(flow, "go", &(struct qp_listen){.timeout_ms = 100}, &handles[2]));
    QP_TRY(qp_any(flow, handles, 3, &index));
    QP_TRY(qp_output(flow, handles[index], &out));
    *(size_t *)context = index;
    QP_TRY(qp_activity(flow, "after", out, NULL, NULL));
    return qp_return(flow, out);
}

/* The first one in the order of completion wins, and still does when others have ended since; of a closure its last answer
 * counts. */
static void test_any(void **state)
{
    size_t index = 9;
    (void)state;
    assert_runs(SCRIPT_WAITS, any_of_three, &index);
    assert_history(
        "{1} activity a; {2} branch slow; {2, 1} activity s1; {3} branch go; {3, 1} sleep");
    fake_answer(&f, "s1", 200, "1");
    assert_runs(SCRIPT_WAITS, any_of_three, &index);
    assert_int_equal(index, 9);
    fake_signal(&f, "go", "\"went\"");
    fake_answer(&f, "s2", 200, "2");
    fake_answer(&f, "a", 200, "3");
    assert_runs(SCRIPT_WAITS, any_of_three, &index);
    assert_int_equal(index, 2);
    assert_history(
        "{1} activity a; {2} branch slow; {2, 1} activity s1; {2, 2} activity s2; {3} branch go; "
        "{3, 1} sleep; {3, 2} signals; {4} activity after");
    fake_answer(&f, "after", 200, "0");
    assert_runs(SCRIPT_RETURNED, any_of_three, &index);
    assert_end("\"went\"");
    assert_replays(any_of_three, &index);
}

/* ---------------------------------------------------------------------------------------- signals */

static int waiting(qp_flow *flow, qp_str input, void *context)
{
    static const char *const others[] = {"rejected"};
    qp_str answer;
    qp_str name = QP_NONE;
    qp_str several;
    QP_TRY(qp_listen(
        flow, "approved",
        &(struct qp_listen){
            .timeout_ms = QP_DAYS(3), .others = others, .other_count = 1, .out_name = &name},
        &answer));
    if (answer.p == NULL) {
        return qp_flow_fail(flow, "no approval within three days");
    }
    QP_TRY(qp_signal_flow(flow, QP_STR("job-2"), "seen", answer));
    QP_TRY(qp_listen(flow, "more", &(struct qp_listen){.limit = 10}, &several));
    *(qp_str *)context = several;
    return qp_return(flow, qp_str_is(name, "rejected") ? QP_STR("false") : QP_STR("true"));
}

/* A listen with a time limit takes the signal at the next location, and says which of its names came. */
static void test_a_signal_in_time(void **state)
{
    qp_str several = QP_NONE;
    (void)state;
    assert_runs(SCRIPT_WAITS, waiting, &several);
    assert_history("{1} sleep");
    assert_true(qp_str_is(f.rows[0].names, "[\"approved\",\"rejected\"]"));
    assert_true(qp_str_is(f.rows[0].got, "{2}"));
    fake_signal(&f, "rejected", "{\"why\":\"late\"}");
    assert_runs(SCRIPT_WAITS, waiting, &several);
    assert_history("{1} sleep; {2} signals; {3} signal seen; {4} signals");
    fake_signal(&f, "more", "1");
    assert_runs(SCRIPT_RETURNED, waiting, &several);
    assert_end("false");
    assert_true(several.n > 0 && several.p[0] == '[');
    assert_replays(waiting, &several);
}

static void test_no_signal_in_time(void **state)
{
    qp_str several = QP_NONE;
    (void)state;
    assert_runs(SCRIPT_WAITS, waiting, &several);
    fake_answer_at(&f, 0, 200, "{\"interrupted\":false}");
    assert_runs(SCRIPT_FAILED, waiting, &several);
    assert_end("{\"code\":500,\"message\":\"no approval within three days\"}");
    assert_history("{1} sleep");
}

/* ------------------------------------------------------------------------------------------ loops */

static int polling(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop track = {.name = "track", .state = QP_STR("0")};
    int *bodies = context;
    while (qp_loop_next(flow, &track)) {
        char state[16];
        qp_str place;
        ++*bodies;
        QP_TRY(qp_activity(flow, "where", track.state, NULL, &place));
        (void)snprintf(state, sizeof state, "%lld", (long long)track.iteration + 1);
        qp_loop_state(flow, &track, str_from(state));
        if (qp_str_is(place, "\"here\"")) {
            qp_loop_break(flow, &track, place);
            continue;
        }
        QP_TRY(qp_sleep(flow, QP_HOURS(6)));
    }
    QP_TRY(track.rc);
    assert_true(qp_str_is(track.state, "3"));
    assert_int_equal(track.iteration, 3);
    QP_TRY(qp_activity(flow, "end", track.state, NULL, NULL));
    return qp_return(flow, track.output);
}

/* Rounds stand in branches; the state goes from one to the next; a loop that has ended is not entered again. */
static void test_a_loop(void **state)
{
    int bodies = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_runs(SCRIPT_WAITS, polling, &bodies);
        fake_answer(&f, "where", 200, i == 2 ? "\"here\"" : "\"there\"");
        assert_runs(SCRIPT_WAITS, polling, &bodies);
        if (i < 2) {
            fake_answer(&f, NULL, 200, "{\"interrupted\":false}");
        }
    }
    assert_history(
        "{1} loop track; {1, 1} branch track; {1, 1, 1} activity where; {1, 1, 2} sleep; "
        "{1, 2} branch track; {1, 2, 1} activity where; {1, 2, 2} sleep; {1, 3} branch track; "
        "{1, 3, 1} activity where; {2} activity end");
    assert_true(f.rows[0].entry.broken);
    bodies = 0;
    fake_answer(&f, "end", 200, "null");
    assert_runs(SCRIPT_RETURNED, polling, &bodies);
    assert_int_equal(bodies, 0);
    assert_end("\"here\"");
    assert_replays(polling, &bodies);
}

static int many_rounds(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "l"};
    while (qp_loop_next(flow, &loop)) {
        QP_TRY(qp_inline(flow, "r", count_calls, context, NULL));
        if (loop.iteration == 49) {
            qp_loop_break(flow, &loop, QP_NONE);
        }
    }
    QP_TRY(loop.rc);
    return qp_return(flow, QP_NONE);
}

/* A loop that does not wait is one decision, and one command says how it ended. */
static void test_a_loop_in_one_run(void **state)
{
    struct inlined in = {0};
    (void)state;
    assert_runs(SCRIPT_RETURNED, many_rounds, &in);
    assert_int_equal(in.calls, 50);
    assert_int_equal(f.commands, 102);
    assert_int_equal(f.rows[0].entry.iteration, 50);
    assert_replays(many_rounds, &in);
}

/* -------------------------------------------------------------------------------------- derived */

struct derived {
    qp_ms now[2];
    uint64_t random[3];
    char uuid[QP_UUID_SIZE];
    bool more;
};

static int deriving(qp_flow *flow, qp_str input, void *context)
{
    struct derived *d = context;
    d->now[0] = qp_now(flow);
    d->random[0] = qp_random(flow);
    if (d->more) {
        QP_TRY(qp_activity(qp_v(flow, 2), "inserted", QP_NONE, NULL, NULL));
    }
    QP_TRY(qp_activity(flow, "a", input, NULL, NULL));
    d->now[1] = qp_now(flow);
    d->random[1] = qp_random(flow);
    d->random[2] = qp_random(flow);
    qp_uuid(flow, d->uuid);
    qp_log(flow, QP_LOG_INFO, "paid %d", 7);
    QP_TRY(qp_activity(flow, "b", input, NULL, NULL));
    return qp_return(flow, QP_NONE);
}

/* Time, random numbers and ids are the same in every run; an inserted call does not change those behind the next event; a
 * line of the log comes once. */
static void test_what_is_derived(void **state)
{
    struct derived first = {0};
    struct derived second = {0};
    (void)state;
    assert_runs(SCRIPT_WAITS, deriving, &first);
    fake_answer(&f, "a", 200, "1");
    assert_runs(SCRIPT_WAITS, deriving, &first);
    assert_int_equal(first.now[0], 1767225600000);
    assert_int_equal(first.now[1], 1767225601000);
    assert_true(first.random[0] != first.random[1] && first.random[1] != first.random[2]);
    assert_int_equal(first.uuid[14], '4');
    assert_non_null(strstr(testenv_log(&t), "paid 7"));
    testenv_log_reset(&t);
    fake_answer(&f, "b", 200, "1");
    assert_int_equal(fake_run_lost(&f, deriving, &second), SCRIPT_RETURNED);
    assert_memory_equal(&first, &second, sizeof first);
    second = (struct derived){.more = true};
    assert_runs(SCRIPT_WAITS, deriving, &second);
    fake_answer(&f, "inserted", 200, "1");
    assert_runs(SCRIPT_RETURNED, deriving, &second);
    assert_memory_equal(first.random, second.random, sizeof first.random);
    assert_string_equal(first.uuid, second.uuid);
    assert_null(strstr(testenv_log(&t), "paid 7"));
}

/* ------------------------------------------------------------------- edits of a flow that is running */

enum edition { ORIGINAL, AFTER_BAR, BAR_REMOVED, BAR_MISSING, BAR_RENAMED, BEFORE_BAR };

/* The flow of document 004, and the manipulations of its `1` branch. */
static int versioned(qp_flow *flow, qp_str input, void *context)
{
    enum edition edition = *(enum edition *)context;
    int64_t version = 1;
    QP_TRY(qp_activity(flow, "foo", input, NULL, NULL));
    if (edition != ORIGINAL) {
        QP_TRY(qp_check_version(flow, 2, &version));
    }
    if (version > 1) {
        QP_TRY(qp_activity(qp_v(flow, 2), "bar_fast", input, NULL, NULL));
    } else if (edition == BAR_REMOVED) {
        QP_TRY(qp_removed(flow, QP_EVENT_ACTIVITY, "bar"));
    } else if (edition == BAR_RENAMED) {
        QP_TRY(qp_activity(flow, "baz", input, NULL, NULL));
    } else if (edition != BAR_MISSING) {
        if (edition == BEFORE_BAR) {
            QP_TRY(qp_activity(qp_v(flow, 2), "new", input, NULL, NULL));
        }
        QP_TRY(qp_activity(flow, "bar", input, NULL, NULL));
    }
    if (edition == AFTER_BAR && version == 1) {
        QP_TRY(qp_activity(qp_v(flow, 2), "new", input, NULL, NULL));
    }
    QP_TRY(qp_sleep(flow, 10));
    return qp_return(flow, QP_STR("\"done\""));
}

static void run_original(enum edition edition)
{
    assert_runs(SCRIPT_WAITS, versioned, &edition);
    fake_answer(&f, "foo", 200, "1");
    assert_runs(SCRIPT_WAITS, versioned, &edition);
    if (edition == ORIGINAL) {
        fake_answer(&f, "bar", 200, "1");
    } else {
        fake_answer(&f, "bar_fast", 200, "1");
    }
    assert_runs(SCRIPT_WAITS, versioned, &edition);
}

/* A flow that is past bar gets the insertion behind it; the second replay writes nothing. */
static void test_an_insertion_after_bar(void **state)
{
    enum edition edition = AFTER_BAR;
    (void)state;
    run_original(ORIGINAL);
    assert_history("{1} activity foo; {2} activity bar; {3} sleep");
    assert_runs(SCRIPT_WAITS, versioned, &edition);
    assert_int_equal(f.commands, 1);
    assert_history("{1} activity foo; {2} activity bar; {2.1}v2 activity new; {3} sleep");
    fake_answer(&f, "new", 200, "1");
    assert_replays(versioned, &edition);
    fake_answer(&f, NULL, 200, "{\"interrupted\":false}");
    assert_runs(SCRIPT_RETURNED, versioned, &edition);
    assert_int_equal(f.commands, 1);
    assert_replays(versioned, &edition);
}

static void test_bar_is_removed(void **state)
{
    enum edition edition = BAR_REMOVED;
    (void)state;
    run_original(ORIGINAL);
    assert_runs(SCRIPT_WAITS, versioned, &edition);
    assert_int_equal(f.commands, 0);
    assert_replays(versioned, &edition);
    fake_answer(&f, NULL, 200, "{\"interrupted\":false}");
    assert_runs(SCRIPT_RETURNED, versioned, &edition);
    assert_history("{1} activity foo; {2} activity bar; {3} sleep");
    assert_replays(versioned, &edition);
}

/* A flow that begins with the new code has the version check, and the new activity. */
static void test_a_new_flow_takes_the_latest(void **state)
{
    enum edition edition = AFTER_BAR;
    (void)state;
    run_original(edition);
    assert_history("{1} activity foo; {2}v2 version; {3}v2 activity bar_fast; {4} sleep");
    assert_replays(versioned, &edition);
}

struct stop_case {
    enum edition edition;
    const char *reason;
    const char *text;
};

/* A wrong edit parks the flow with the location and both sides, and writes nothing; the old code still runs. */
static void test_wrong_edits_stop(void **state)
{
    static const struct stop_case cases[] = {
        {BAR_RENAMED, "history_diverged",
         "history and code differ at {2}: history has activity 'bar' v1, the code has activity 'baz' v1"},
        {BAR_MISSING, "history_diverged",
         "at {2}: history has activity 'bar' v1, the code has sleep v1"},
        {BEFORE_BAR, "insertion_refused", "directly behind a version check"},
    };
    enum edition original = ORIGINAL;
    (void)state;
    run_original(ORIGINAL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum edition edition = cases[i].edition;
        assert_runs(SCRIPT_STOPPED, versioned, &edition);
        assert_string_equal(f.result.reason, cases[i].reason);
        assert_non_null(
            memmem(f.result.text.p, f.result.text.n, cases[i].text, strlen(cases[i].text)));
        assert_replays(versioned, &original);
    }
}

static int only_foo(qp_flow *flow, qp_str input, void *context)
{
    QP_TRY(qp_activity(flow, "foo", input, NULL, NULL));
    return qp_return(flow, QP_NONE);
}

static void test_latent_history(void **state)
{
    (void)state;
    run_original(ORIGINAL);
    assert_runs(SCRIPT_STOPPED, only_foo, NULL);
    assert_string_equal(f.result.reason, "latent_history");
    assert_non_null(
        memmem(f.result.text.p, f.result.text.n, "{2} activity 'bar' v1; {3} sleep v1", 35));
}

static int nest(qp_flow *flow, void *context)
{
    int *depth = context;
    return --*depth == 0 ? QP_OK : qp_closure(flow, "deeper", nest, context, NULL);
}

static int too_deep(qp_flow *flow, qp_str input, void *context)
{
    int depth = 40;
    return qp_closure(flow, "deep", nest, &depth, NULL);
}

static void test_a_location_over_the_limits(void **state)
{
    (void)state;
    assert_runs(SCRIPT_STOPPED, too_deep, NULL);
    assert_string_equal(f.result.reason, "bad_location");
    assert_int_equal(f.count, 0);
}

static int many_steps(qp_flow *flow, qp_str input, void *context)
{
    for (int i = *(int *)context; i > 0; i--) {
        qp_handle handle;
        QP_TRY(qp_begin_activity(flow, "a", QP_NONE, NULL, &handle));
    }
    return qp_sleep(flow, 1);
}

static int large_steps(qp_flow *flow, qp_str input, void *context)
{
    static char text[LIMIT_PAYLOAD_SIZE];
    memset(text, ' ', sizeof text);
    text[0] = '1';
    for (int i = *(int *)context; i > 0; i--) {
        qp_handle handle;
        QP_TRY(qp_begin_activity(flow, "a", (qp_str){text, sizeof text}, NULL, &handle));
    }
    return qp_sleep(flow, 1);
}

/* Three inputs of the largest size are one decision; four, which are over 8 MiB with what is around them, are none. */
static void test_a_decision_of_too_many_bytes(void **state)
{
    int count = 4;
    assert_runs(SCRIPT_STOPPED, large_steps, &count);
    assert_string_equal(f.result.reason, "decision_too_large");
    assert_non_null(memmem(f.result.text.p, f.result.text.n, "8 MiB", 5));
    count--;
    assert_runs(SCRIPT_WAITS, large_steps, &count);
}

/* 2,000 commands are one decision; one more is none. */
static void test_a_decision_too_large(void **state)
{
    int count = LIMIT_FLOW_COMMANDS;
    (void)state;
    assert_runs(SCRIPT_STOPPED, many_steps, &count);
    assert_string_equal(f.result.reason, "decision_too_large");
    count--;
    assert_runs(SCRIPT_WAITS, many_steps, &count);
    assert_int_equal(f.commands, LIMIT_FLOW_COMMANDS);
}

/* The history of a flow that has run code inline `count` times. */
static void make_runs(struct flow_log *log, struct arena *a, size_t count)
{
    struct history_event *events = arena_alloc(a, count * sizeof *events);
    struct qp_err err;
    log->entries = arena_alloc(a, count * sizeof *log->entries);
    assert_non_null(events);
    assert_non_null(log->entries);
    for (size_t i = 0; i < count; i++) {
        const struct location root = {0};
        char key[LOCATION_KEY_SIZE];
        struct location at;
        assert_true(location_child(&root, (uint32_t)i + 1, &at));
        events[i] =
            (struct history_event){.name = QP_STR("look"), .version = 1, .type = HISTORY_RUN};
        assert_true(arena_copy(a, (qp_str){key, location_key(&at, key)}, &events[i].key));
        log->entries[i] = (struct log_entry){
            .code = 200, .output = QP_STR("null"), .done = (int64_t)i + 1, .at = 1767225600000};
    }
    if (history_init(&log->history, events, count, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static int look(qp_flow *flow, void *context)
{
    return qp_return(flow, QP_NONE);
}

static int looks(qp_flow *flow, qp_str input, void *context)
{
    for (int i = 0; i < LIMIT_FLOW_EVENTS; i++) {
        QP_TRY(qp_inline(flow, "look", look, NULL, NULL));
    }
    return qp_inline(flow, "last", look, NULL, NULL);
}

/* A history takes 200,000 events: the one behind them parks the job. */
static void test_a_full_history(void **state)
{
    struct flow_log log = {.job = QP_STR("j"), .workflow = QP_STR("w"), .base = LIMIT_FLOW_EVENTS};
    struct script_result result;
    struct arena arena;
    (void)state;
    for (size_t missing = 0; missing <= 1; missing++) {
        arena_init(&arena, &t.env, 0);
        make_runs(&log, &arena, LIMIT_FLOW_EVENTS - missing);
        assert_int_equal(script_run(
                             &(struct script_input){
                                 .env = &t.env, .arena = &arena, .log = &log, .function = looks},
                             &result),
                         QP_OK);
        assert_int_equal(result.kind, SCRIPT_STOPPED);
        assert_string_equal(result.reason, "history_too_large");
        assert_true(qp_str_is(
            result.text, "the history has 200000 events, and takes no more: let the flow return, "
                         "and go on in another job"));
        arena_done(&arena);
    }
}

static int looks_and_listens(qp_flow *flow, qp_str input, void *context)
{
    for (int i = 0; i < LIMIT_FLOW_EVENTS - *(int *)context; i++) {
        QP_TRY(qp_inline(flow, "look", look, NULL, NULL));
    }
    return qp_listen(flow, "a", &(struct qp_listen){.timeout_ms = 1000}, NULL);
}

/* A listen with a time limit may make two events: where the history has room for one, the job is parked. */
static void test_room_for_signals(void **state)
{
    struct flow_log log = {.job = QP_STR("j"), .workflow = QP_STR("w"), .base = LIMIT_FLOW_EVENTS};
    struct script_result result;
    struct arena arena;
    (void)state;
    for (int room = 1; room <= 2; room++) {
        arena_init(&arena, &t.env, 0);
        make_runs(&log, &arena, (size_t)(LIMIT_FLOW_EVENTS - room));
        assert_int_equal(script_run(&(struct script_input){.env = &t.env,
                                                           .arena = &arena,
                                                           .log = &log,
                                                           .function = looks_and_listens,
                                                           .context = &room},
                                    &result),
                         QP_OK);
        assert_int_equal(result.kind, room == 1 ? SCRIPT_STOPPED : SCRIPT_WAITS);
        arena_done(&arena);
    }
}

/* --------------------------------------------------------------------------------------- mistakes */

static int bad_v(qp_flow *flow, qp_str input, void *context)
{
    return qp_activity(qp_v(flow, 0), "a", input, NULL, NULL);
}

static int bad_check(qp_flow *flow, qp_str input, void *context)
{
    int64_t version;
    return qp_check_version(flow, 0, &version);
}

static int no_name(qp_flow *flow, qp_str input, void *context)
{
    return qp_activity(flow, "", input, NULL, NULL);
}

static int long_name(qp_flow *flow, qp_str input, void *context)
{
    static char name[LIMIT_NAME_SIZE + 2];
    memset(name, 'n', LIMIT_NAME_SIZE + 1);
    return qp_closure(flow, name, slow, NULL, NULL);
}

static int wrong_name(qp_flow *flow, qp_str input, void *context)
{
    return qp_listen(flow, "a b", NULL, NULL);
}

static int after_return(qp_flow *flow, qp_str input, void *context)
{
    QP_TRY(qp_return(flow, QP_STR("1")));
    return qp_sleep(flow, 10);
}

static int bad_output(qp_flow *flow, qp_str input, void *context)
{
    return qp_return(flow, QP_STR("{\"a\":"));
}

static int large_input(qp_flow *flow, qp_str input, void *context)
{
    static char text[LIMIT_PAYLOAD_SIZE + 1];
    memset(text, '1', sizeof text);
    return qp_activity(flow, "a", (qp_str){text, sizeof text}, NULL, NULL);
}

static int long_sleep(qp_flow *flow, qp_str input, void *context)
{
    return qp_sleep(flow, QP_DAYS(3654));
}

static int far_sleep(qp_flow *flow, qp_str input, void *context)
{
    return qp_sleep_until(flow, qp_now(flow) + QP_DAYS(4000));
}

static int unknown_code(qp_flow *flow, qp_str input, void *context)
{
    return 77;
}

static int not_failed(qp_flow *flow, qp_str input, void *context)
{
    return QP_E_FAILED;
}

static int durable_inside(qp_flow *flow, void *context)
{
    return qp_sleep(flow, 10);
}

static int in_inline(qp_flow *flow, qp_str input, void *context)
{
    return qp_inline(flow, "in", durable_inside, NULL, NULL);
}

static int around(qp_flow *flow, void *context)
{
    return qp_sleep(context, 10);
}

static int flow_around(qp_flow *flow, qp_str input, void *context)
{
    return qp_closure(flow, "c", around, flow, NULL);
}

static int keep_flow(qp_flow *flow, void *context)
{
    *(qp_flow **)context = flow;
    return QP_OK;
}

static int ended_flow(qp_flow *flow, qp_str input, void *context)
{
    qp_flow *kept;
    QP_TRY(qp_closure(flow, "c", keep_flow, &kept, NULL));
    return qp_sleep(kept, 10);
}

static int no_handle(qp_flow *flow, qp_str input, void *context)
{
    qp_handle handle = {0};
    return qp_output(flow, handle, NULL);
}

static int bad_limit(qp_flow *flow, qp_str input, void *context)
{
    return qp_listen(flow, "a", &(struct qp_listen){.limit = 101}, NULL);
}

static int bad_never(qp_flow *flow, qp_str input, void *context)
{
    static const int never[] = {404, 200};
    return qp_activity(flow, "a", input, &(struct qp_step){.never = never, .never_count = 2}, NULL);
}

static int bad_job(qp_flow *flow, qp_str input, void *context)
{
    return qp_signal_flow(flow, QP_STR(""), "a", QP_NONE);
}

static int not_a_loop(qp_flow *flow, qp_str input, void *context)
{
    struct qp_loop loop = {.name = "l"};
    qp_loop_break(flow, &loop, QP_NONE);
    return qp_sleep(flow, 10);
}

static int swallowed(qp_flow *flow, qp_str input, void *context)
{
    (void)!qp_sleep(flow, -1);
    return qp_return(flow, QP_NONE) == QP_E_INVALID ? QP_OK : 1;
}

static void *from_elsewhere(void *flow)
{
    assert_int_equal(qp_sleep(flow, 10), QP_E_INVALID);
    return NULL;
}

static int other_thread(qp_flow *flow, qp_str input, void *context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, from_elsewhere, flow), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return qp_return(flow, QP_NONE);
}

struct mistake {
    qp_flow_function function;
    int code;
    bool passes; /* it may be better the next time */
    const char *text;
};

/* Bad input: each has a code and a sentence, and nothing is written. */
static void test_mistakes(void **state)
{
    static const struct mistake mistakes[] = {
        {bad_v, QP_E_INVALID, false,
         "qp_v at the beginning of {}: n must be between 1 and 2147483647, got 0"},
        {bad_check, QP_E_INVALID, false,
         "qp_check_version at the beginning of {}: latest must be between 1"},
        {no_name, QP_E_INVALID, false, "qp_activity at the beginning of {}: name"},
        {long_name, QP_E_TOO_LARGE, false, "qp_closure at the beginning of {}: name"},
        {wrong_name, QP_E_INVALID, false, "qp_listen at the beginning of {}: name"},
        {after_return, QP_E_INVALID, false, "qp_sleep: called after qp_return, which ends 'order'"},
        {bad_output, QP_E_MALFORMED, false, "qp_return at the beginning of {}: output: "},
        {large_input, QP_E_TOO_LARGE, false, "input: 2097153 bytes, the limit is 2097152"},
        {long_sleep, QP_E_INVALID, false,
         "ms must be between 0 and 315619200000, got 315705600000"},
        {far_sleep, QP_E_INVALID, false,
         "qp_sleep_until at the beginning of {}: at must be between 0 and"},
        {unknown_code, 77, true, "the function of 'order' returned 77"},
        {not_failed, QP_E_FAILED, true, "which no durable call has returned"},
        {in_inline, QP_E_INVALID, false, "qp_sleep: called in the function of qp_inline 'in'"},
        {flow_around, QP_E_INVALID, false,
         "qp_sleep: called in the function of 'c' with the flow around it"},
        {ended_flow, QP_E_INVALID, false, "qp_sleep: the function of 'c' has returned"},
        {no_handle, QP_E_INVALID, false,
         "qp_output at the beginning of {}: the handle is none of this run"},
        {bad_limit, QP_E_INVALID, false, "limit must be between 0 and 100, got 101"},
        {bad_never, QP_E_INVALID, false, "never must be between 400 and 599, got 200"},
        {bad_job, QP_E_INVALID, false, "qp_signal_flow at the beginning of {}: job"},
        {not_a_loop, QP_E_INVALID, false, "qp_loop_break: the loop is not running"},
        {swallowed, QP_E_INVALID, false, "ms must be between 0 and"},
        {other_thread, QP_E_INVALID, false, "qp_sleep: called from another thread"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        const struct mistake *m = &mistakes[i];
        enum script_kind kind = fake_run(&f, m->function, NULL);
        if (kind != SCRIPT_ERROR || f.result.code != m->code || f.result.fatal == m->passes ||
            memmem(f.result.text.p, f.result.text.n, m->text, strlen(m->text)) == NULL) {
            fail_msg("%zu: %d, code %d: %.*s", i, (int)kind, f.result.code, STR_ARG(f.result.text));
        }
        assert_int_equal(f.count, 0);
    }
}

/* Calls without a flow do nothing. */
static void test_no_flow(void **state)
{
    char uuid[QP_UUID_SIZE];
    (void)state;
    assert_int_equal(qp_activity(NULL, "a", QP_NONE, NULL, NULL), QP_E_INVALID);
    assert_int_equal(qp_return(NULL, QP_NONE), QP_E_INVALID);
    assert_null(qp_v(NULL, 2));
    assert_int_equal(qp_now(NULL), 0);
    assert_int_equal(qp_random(NULL), 0);
    qp_uuid(NULL, uuid);
    qp_log(NULL, QP_LOG_INFO, "nothing");
}

/* ----------------------------------------------------------------------------------------- memory */

/* A run that has no memory says so and changes nothing; the next one is as the first. */
static void test_out_of_memory(void **state)
{
    size_t index = 9;
    (void)state;
    assert_runs(SCRIPT_WAITS, any_of_three, &index);
    fake_signal(&f, "go", "\"went\"");
    fake_answer(&f, "a", 500, "{\"code\":500,\"message\":\"x\"}");
    (void)fake_text(&f); /* puts them in order */
    for (int64_t n = 1;; n++) {
        static struct history_event events[16];
        static struct log_entry entries[16];
        struct flow_log log = {
            .entries = entries, .job = QP_STR("j"), .workflow = QP_STR("order"), .input = f.input};
        struct script_result result;
        struct arena arena;
        int rc;
        for (size_t i = 0; i < f.count; i++) {
            events[i] = f.rows[i].event;
            entries[i] = f.rows[i].entry;
        }
        assert_int_equal(history_init(&log.history, events, f.count, NULL), QP_OK);
        arena_init(&arena, &t.env, 0);
        testenv_fail_at(&t, n);
        rc = script_run(&(struct script_input){.env = &t.env,
                                               .arena = &arena,
                                               .log = &log,
                                               .now = f.now,
                                               .function = any_of_three,
                                               .context = &index},
                        &result);
        bool failed = testenv_failed(&t);
        testenv_fail_at(&t, 0);
        arena_done(&arena);
        if (!failed) {
            assert_int_equal(rc, QP_OK);
            break;
        }
        assert_true(rc == QP_E_NOMEM || rc == QP_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps_in_sequence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_json_of_commands, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_of_activities, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inline_code_is_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_any, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_signal_in_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_signal_in_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_loop_in_one_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_derived, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_insertion_after_bar, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bar_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_flow_takes_the_latest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_edits_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_latent_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_location_over_the_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_decision_too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_for_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_decision_of_too_many_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_flow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
    };
    return cmocka_run_group_tests_name("script", tests, NULL, NULL);
}
