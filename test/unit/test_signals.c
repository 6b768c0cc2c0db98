/* test_signals.c - signals of the public handle: what an id covers, what the answer says, who takes what was kept
 *
 * On every kind of store, with jobs of three graphs: two hooks in a row, a hook in a cycle, and two hooks side by side
 * with keys of their own; all wait at one topic.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/failpoint.h"
#include "support/runtest.h"

#define HOOK(to, trigger, part)                                                                    \
    "          - to: " to "\n"                                                                     \
    "            conditions:\n"                                                                    \
    "              match: [{expected: '{" trigger ".output.data." part                             \
    "}', actual: '{$self.hook.data.key}'}]\n"

static const char graphs[] =
    "app:\n"
    "  id: waits\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: row\n"
    "      activities:\n"
    "        want_row: {type: trigger}\n"
    "        first: {type: hook, job: {maps: {first: '{$self.hook.data.n}'}}}\n"
    "        second: {type: hook, job: {maps: {second: '{$self.hook.data.n}'}}}\n"
    "      transitions: {want_row: [{to: first}], first: [{to: second}]}\n"
    "      hooks:\n"
    "        go:\n" HOOK("first", "want_row", "key")
        HOOK("second", "want_row",
             "key") "    - subscribes: cycle\n"
                    "      activities:\n"
                    "        want_cycle: {type: trigger}\n"
                    "        round: {type: hook, cycle: true}\n"
                    "        wait: {type: hook, job: {maps: {last: '{$self.hook.data.n}'}}}\n"
                    "        again: {type: cycle, ancestor: round}\n"
                    "      transitions:\n"
                    "        want_cycle: [{to: round}]\n"
                    "        round: [{to: wait}]\n"
                    "        wait: [{to: again, conditions: {match: [{expected: true, actual: "
                    "'{wait.hook.data.more}'}]}}]\n"
                    "      hooks:\n"
                    "        go:\n" HOOK(
                        "wait", "want_cycle",
                        "key") "    - subscribes: side\n"
                               "      activities:\n"
                               "        want_side: {type: trigger}\n"
                               "        left: {type: hook}\n"
                               "        right: {type: hook}\n"
                               "      transitions: {want_side: [{to: left}, {to: right}]}\n"
                               "      hooks:\n"
                               "        go:\n" HOOK("left", "want_side", "left")
                                   HOOK("right", "want_side", "right");

static qp *open_graphs(const char *place)
{
    struct qp_deployed deployed;
    struct qp_err err = {0};
    qp *q = rt_open(place);
    int rc = qp_deploy(q, &(struct qp_deploy){.text = str_from(graphs), .activate = true},
                       &deployed, &err);
    if (rc != QP_OK) {
        fail_msg("%s", err.text);
    }
    return q;
}

static void start(qp *q, const char *topic, const char *id, const char *input)
{
    rt_start_with(q, &(struct qp_start){
                         .topic = str_from(topic), .id = str_from(id), .input = str_from(input)});
    rt_poll(q);
}

/* Sends a signal to (go, key) that says which one it is, and lets the engine do what follows. id NULL: none. */
static int say(qp *q, const char *key, const char *id, const char *payload)
{
    struct qp_err err = {0};
    struct qp_signal s = {.topic = QP_STR("go"),
                          .key = str_from(key),
                          .id = id == NULL ? QP_NONE : str_from(id),
                          .payload = str_from(payload)};
    int rc = qp_signal_send(q, &s, &err);
    rt_poll(q);
    return rc;
}

static void close_checked(qp *q, int64_t jobs)
{
    rt_close(q);
    if (rt_place != NULL) {
        rt_check(rt_place, jobs);
    }
}

/* An id that is sent again when it was delivered neither releases the next hook of the job at the same topic and
 * key, nor displaces the signal that is meant for it; and the store is sound. */
static void test_two_hooks_in_a_row(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        qp *q;
        rt_begin_on(kind);
        q = open_graphs(rt_place);
        start(q, "row", "j", "{\"key\":\"k\"}");
        assert_int_equal(say(q, "k", "a", "{\"n\":1}"), QP_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(say(q, "k", "a", "{\"n\":1}"), QP_E_EXISTS);
            rt_expect(q, "j", "waiting", NULL);
        }
        assert_int_equal(say(q, "k", "b", "{\"n\":2}"), QP_OK);
        rt_expect(q, "j", "completed", "{\"first\":1,\"second\":2}");
        assert_int_equal(say(q, "k", "a", "{\"n\":1}"), QP_E_EXISTS);
        assert_int_equal(say(q, "k", "b", "{\"n\":2}"), QP_E_EXISTS);
        start(q, "row", "later", "{\"key\":\"k\"}"); /* nothing is kept for it */
        rt_expect(q, "later", "waiting", NULL);
        close_checked(q, 2);
        rt_end();
    }
}

/* The same in a cycle: each round takes one id, whatever is repeated meanwhile. */
static void test_cycle(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        static const char *const ids[] = {"r0", "r1", "r2", "r3"};
        qp *q;
        rt_begin_on(kind);
        q = open_graphs(rt_place);
        start(q, "cycle", "j", "{\"key\":\"k\"}");
        for (int i = 0; i < 4; i++) {
            char payload[48];
            (void)snprintf(payload, sizeof payload, "{\"n\":%d,\"more\":%s}", i,
                           i < 3 ? "true" : "false");
            rt_expect(q, "j", "waiting", NULL);
            assert_int_equal(say(q, "k", ids[i], payload), QP_OK);
            for (int old = 0; old <= i; old++) {
                assert_int_equal(say(q, "k", ids[old], "{\"n\":9,\"more\":false}"), QP_E_EXISTS);
            }
        }
        rt_expect(q, "j", "completed", "{\"last\":3}");
        close_checked(q, 1);
        rt_end();
    }
}

/* One id at two keys is two signals, also when one job waits for both and takes neither yet; and at two topics, and
 * in two namespaces. */
static void test_id_is_of_its_key(void **state)
{
    struct qp_err err = {0};
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_signal other = {.topic = QP_STR("other"),
                                  .key = QP_STR("k1"),
                                  .payload = QP_STR("1"),
                                  .id = QP_STR("a")};
        qp *q;
        rt_begin_on(kind);
        q = open_graphs(rt_place);
        start(q, "side", "j", "{\"left\":\"k1\",\"right\":\"k2\"}");
        assert_int_equal(qp_job_pause(q, QP_STR("j"), &err), QP_OK);
        assert_int_equal(say(q, "k1", "a", "{}"), QP_OK);
        assert_int_equal(say(q, "k2", "a", "{}"), QP_OK);
        assert_int_equal(say(q, "k1", "a", "{}"), QP_E_EXISTS);
        assert_int_equal(say(q, "k2", "a", "{}"), QP_E_EXISTS);
        assert_int_equal(qp_job_resume(q, QP_STR("j"), &err), QP_OK);
        rt_poll(q);
        rt_expect(q, "j", "completed", NULL);
        assert_int_equal(qp_signal_send(q, &other, &err), QP_OK);
        assert_int_equal(qp_space_create(q, QP_STR("elsewhere"), &err), QP_OK);
        other.topic = QP_STR("go");
        other.ns = QP_STR("elsewhere");
        assert_int_equal(qp_signal_send(q, &other, &err), QP_OK);
        close_checked(q, 1);
        rt_end();
    }
}

/* What was kept for a job that has ended does not release its retry, nor a fork; what is sent afterwards does. A new job
 * takes what is kept. (On a server: test/store/conform_signals.c, whose clock stands still.) */
static void test_retry_takes_nothing_old(void **state)
{
    struct qp_err err = {0};
    (void)state;
    for (int kind = RT_MEMORY; kind <= RT_FILE; kind++) {
        static const enum qp_verb verbs[] = {QP_VERB_RETRY, QP_VERB_FORK};
        qp *q;
        rt_begin(RT_VIRTUAL);
        rt_place = kind == RT_MEMORY ? NULL : rt_path;
        q = open_graphs(rt_place);
        start(q, "row", "j", "{\"key\":\"k\"}");
        assert_int_equal(say(q, "k", NULL, "{\"n\":1}"), QP_OK);
        assert_int_equal(qp_job_cancel(q, QP_STR("j"), "enough", &err), QP_OK);
        rt_poll(q);
        assert_int_equal(say(q, "k", NULL, "{\"n\":8}"), QP_OK); /* kept: the job is over */
        assert_int_equal(say(q, "k", "kept", "{\"n\":9}"), QP_OK);
        testenv_advance_ms(&rt, 1);
        for (size_t i = 0; i < ARRAY_COUNT(verbs); i++) {
            char id[QP_ID_SIZE];
            struct qp_action action = {.id = QP_STR("j"), .verb = verbs[i]};
            assert_int_equal(qp_job_act(q, &action, id, &err), QP_OK);
            rt_poll(q);
            rt_expect(q, id, "waiting", NULL);
            assert_int_equal(say(q, "k", "kept", "{\"n\":9}"), QP_E_EXISTS);
            rt_expect(q, id, "waiting", NULL);
            if (verbs[i] == QP_VERB_RETRY) { /* what its first hook got before is its own */
                assert_int_equal(say(q, "k", NULL, "{\"n\":3}"), QP_OK);
                rt_expect(q, id, "completed", "{\"first\":1,\"second\":3}");
                continue;
            }
            assert_int_equal(say(q, "k", NULL, "{\"n\":2}"), QP_OK);
            assert_int_equal(say(q, "k", NULL, "{\"n\":3}"), QP_OK);
            rt_expect(q, id, "completed", "{\"first\":2,\"second\":3}");
        }
        start(q, "row", "new", "{\"key\":\"k\"}");
        rt_expect(q, "new", "completed", "{\"first\":8,\"second\":9}");
        close_checked(q, 4);
        rt_end();
    }
}

/* A start whose signal was sent before starts its job all the same, and the signal is not sent again. */
static void test_with_start(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_signal signal = {.topic = QP_STR("go"),
                                   .key = QP_STR("k"),
                                   .payload = QP_STR("{\"n\":1}"),
                                   .id = QP_STR("s")};
        struct qp_start with = {
            .topic = QP_STR("row"), .input = QP_STR("{\"key\":\"k\"}"), .signal = &signal};
        qp *q;
        rt_begin_on(kind);
        q = open_graphs(rt_place);
        for (int i = 0; i < 3; i++) {
            static const char *const ids[] = {"one", "two", "three"};
            with.id = str_from(ids[i]);
            rt_start_with(q, &with);
            rt_poll(q);
            rt_expect(q, ids[i], "waiting", NULL);
        }
        assert_int_equal(say(q, "k", "s", "{}"), QP_E_EXISTS);
        assert_int_equal(say(q, "k", NULL, "{\"n\":2}"), QP_OK); /* two waits longest, at first */
        assert_int_equal(say(q, "k", NULL, "{\"n\":3}"), QP_OK);
        rt_start_with(q, &with); /* three is there */
        rt_poll(q);
        rt_expect(q, "one", "completed", "{\"first\":1,\"second\":2}");
        rt_expect(q, "two", "waiting", NULL);
        rt_expect(q, "three", "waiting", NULL);
        close_checked(q, 3);
        rt_end();
    }
}

/* --------------------------------------------------------------------------------------- the answer */

struct sent {
    int code;
    enum qp_sent sent;
};

static void on_sent(void *context, int code, const char *text)
{
    struct sent *s = context;
    (void)text;
    s->code = code;
}

static void assert_sent(qp *q, struct qp_signal s, int rc, enum qp_sent expected)
{
    struct sent later = {.code = 1};
    struct qp_err err = {0};
    enum qp_sent sent = QP_SENT_UNKNOWN;
    s.out_sent = &sent;
    assert_int_equal(qp_signal_send(q, &s, &err), rc);
    assert_int_equal(sent, expected);
    if (str_is_none(s.id) && str_is_none(s.idem_key)) {
        return;
    }
    s.out_sent = &later.sent; /* again, and not waited for */
    s.context = &later;
    s.sent = on_sent;
    assert_int_equal(qp_signal_send_async(q, &s, &err), QP_OK);
    rt_poll(q);
    assert_int_equal(later.code, QP_E_EXISTS);
    assert_int_equal(later.sent, expected);
}

/* The answer says whether the signal was delivered or kept; of a repeated one, what became of the first. */
static void test_delivered_or_kept(void **state)
{
    (void)state;
    for (int kind = 0; kind < rt_kinds(); kind++) {
        struct qp_signal plain = {
            .topic = QP_STR("go"), .key = QP_STR("k"), .payload = QP_STR("{}")};
        struct qp_signal named = plain;
        struct qp_signal keyed = plain;
        qp *q;
        rt_begin_on(kind);
        q = open_graphs(rt_place);
        named.id = QP_STR("a");
        keyed.idem_key = QP_STR("b");
        keyed.idem_body = QP_STR("body");
        assert_sent(q, plain, QP_OK, QP_SENT_KEPT);
        assert_sent(q, named, QP_OK, QP_SENT_KEPT);
        start(q, "row", "one", "{\"key\":\"k\"}"); /* takes both */
        assert_sent(q, named, QP_E_EXISTS, QP_SENT_DELIVERED);
        start(q, "row", "two", "{\"key\":\"k\"}");
        assert_sent(q, plain, QP_OK, QP_SENT_DELIVERED);
        rt_poll(q);
        assert_sent(q, keyed, QP_OK, QP_SENT_DELIVERED);
        rt_poll(q);
        rt_expect(q, "two", "completed", NULL);
        assert_sent(q, keyed, QP_E_EXISTS, QP_SENT_DELIVERED);
        keyed.idem_key = QP_STR("c");
        assert_sent(q, keyed, QP_OK, QP_SENT_KEPT);
        start(q, "row", "three", "{\"key\":\"k\"}");
        assert_sent(q, keyed, QP_E_EXISTS, QP_SENT_KEPT); /* as it was answered then */
        close_checked(q, 3);
        rt_end();
    }
}

/* An id whose signal was kept and expired was not delivered: it may be sent again. */
static void test_expired_id(void **state)
{
    struct qp_signal s = {.topic = QP_STR("go"),
                          .key = QP_STR("k"),
                          .payload = QP_STR("{}"),
                          .id = QP_STR("a"),
                          .ttl_ms = 1000};
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(qp_signal_send(q, &s, &err), QP_OK);
    assert_int_equal(qp_signal_send(q, &s, &err), QP_E_EXISTS);
    testenv_advance_ms(&rt, 1000);
    rt_poll(q);
    assert_int_equal(qp_signal_send(q, &s, &err), QP_OK);
    assert_int_equal(qp_signal_send(q, &s, &err), QP_E_EXISTS);
    rt_close(q);
    rt_end();
}

/* -------------------------------------------------------------------------------------- kills, races */

/* A process that sends the signal and is killed at the point. */
static void killed_at(const char *spec)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct qp_signal s = {.topic = QP_STR("go"),
                              .key = QP_STR("k"),
                              .payload = QP_STR("{\"n\":1}"),
                              .id = QP_STR("a")};
        struct qp_err err = {0};
        qp *q = rt_open(rt_place);
        QP_ASSERT(failpoint_set(spec) == QP_OK);
        QP_ASSERT(qp_signal_send(q, &s, &err) != QP_OK); /* it does not come back */
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Killed before and after the commit that delivers it, a signal that is sent again is delivered once. */
static void test_killed(void **state)
{
    static const char *const specs[] = {"commit.before=kill", "commit.after=kill"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(specs); i++) {
        qp *q;
        rt_begin_on(RT_FILE);
        q = open_graphs(rt_place);
        start(q, "row", "j", "{\"key\":\"k\"}");
        rt_close(q);
        killed_at(specs[i]);
        q = rt_open(rt_place);
        rt_poll(q);
        assert_int_equal(say(q, "k", "a", "{\"n\":1}"), i == 0 ? QP_OK : QP_E_EXISTS);
        assert_int_equal(say(q, "k", "a", "{\"n\":1}"), QP_E_EXISTS);
        rt_expect(q, "j", "waiting", NULL);
        assert_int_equal(say(q, "k", "b", "{\"n\":2}"), QP_OK);
        rt_expect(q, "j", "completed", "{\"first\":1,\"second\":2}");
        close_checked(q, 1);
        rt_end();
    }
}

#define RACES 40
#define RACERS 3

struct race {
    qp *engines[RACERS];
    int delivered[RACERS];
};

static void send_all(void *context, int index)
{
    struct race *r = context;
    for (int i = 0; i < RACES; i++) {
        char key[16];
        struct qp_err err = {0};
        struct qp_signal s = {
            .topic = QP_STR("go"), .id = QP_STR("a"), .payload = QP_STR("{\"n\":1}")};
        int rc;
        (void)snprintf(key, sizeof key, "k%d", i);
        s.key = str_from(key);
        rc = qp_signal_send(r->engines[index], &s, &err);
        QP_ASSERT(rc == QP_OK || rc == QP_E_EXISTS);
        r->delivered[index] += rc == QP_OK;
    }
}

/* Several nodes send the same ids at the same time: each is delivered once. */
static void test_nodes_race(void **state)
{
    struct race r = {0};
    struct qp_err err = {0};
    (void)state;
    if (rt_kinds() <= RT_SERVER) {
        return;
    }
    rt_begin_on(RT_SERVER);
    r.engines[0] = open_graphs(rt_place);
    for (int i = 0; i < RACES; i++) {
        char id[16];
        char input[32];
        (void)snprintf(id, sizeof id, "j%d", i);
        (void)snprintf(input, sizeof input, "{\"key\":\"k%d\"}", i);
        start(r.engines[0], "row", id, input);
    }
    for (int i = 0; i < RACERS; i++) {
        r.engines[i] = i == 0 ? r.engines[0] : rt_open(rt_place);
        assert_int_equal(qp_start_threads(r.engines[i], 1, &err), QP_OK);
    }
    rt_threads(RACERS, send_all, &r);
    assert_int_equal(r.delivered[0] + r.delivered[1] + r.delivered[2], RACES);
    for (int i = 0; i < RACES; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        rt_expect(r.engines[0], id, "waiting", NULL);
    }
    for (int i = 1; i < RACERS; i++) {
        rt_close(r.engines[i]);
    }
    close_checked(r.engines[0], RACES);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hooks_in_a_row), cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_id_is_of_its_key),   cmocka_unit_test(test_retry_takes_nothing_old),
        cmocka_unit_test(test_with_start),         cmocka_unit_test(test_delivered_or_kept),
        cmocka_unit_test(test_expired_id),         cmocka_unit_test(test_killed),
        cmocka_unit_test(test_nodes_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
