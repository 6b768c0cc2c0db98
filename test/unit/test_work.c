/* test_work.c - calls of workers elsewhere, on every kind of store
 *
 *   tasks      come to who waits, in turn, no more than wanted, whatever the topics
 *   results    count once, for who was given the task, before and after a restart
 *   parking    costs nothing, ends with a task, a cancel, its time, or the peer
 *   giving up  tasks that nobody heard of, and those of a worker that leaves, are ready at once
 *   refusals   what is malformed or too much is told with its place
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel/engine_internal.h"
#include "run/handle.h"
#include "run/presence.h"
#include "run/work.h"
#include "support/runtest.h"

/* One call and what came of it. */
struct caller {
    struct work_call call;
    qp_str topics[4];
    struct work_result result;
    struct work_beat beat;
    char token[WORK_TOKEN_SIZE];
    int answers;
    int rc;
    /* of a call that is asked whether its peer is still there */
    qp *q;
    bool gone;
    int asked;
    int asked_inside; /* a transaction */
};

static void on_answer(void *context, struct work_call *call, int rc, const char *why)
{
    struct caller *c = context;
    QP_ASSERT(call == &c->call);
    QP_ASSERT((rc == QP_OK) == (why[0] == '\0'));
    c->answers++;
    c->rc = rc;
}

/* A call of worker `name` for up to `want` tasks of topic "work". */
static void make(struct caller *c, const char *name, int64_t want, qp_ms wait_ms)
{
    *c = (struct caller){.topics = {QP_STR("work")}};
    c->call = (struct work_call){.worker = str_from(name),
                                 .caller = {QP_STR("token-1"), QP_STR("secret")},
                                 .topics = c->topics,
                                 .topic_count = want > 0 ? 1 : 0,
                                 .want = want,
                                 .wait_ms = wait_ms,
                                 .context = c,
                                 .answer = on_answer};
}

static void submit(qp *q, struct caller *c)
{
    struct qp_err err = {0};
    if (work_submit(q, &c->call, &err) != QP_OK) {
        fail_msg("submit: %s", err.text);
    }
}

/* Drives until it is answered. */
static void await(qp *q, struct caller *c)
{
    rt_poll_until(q, &c->answers);
    assert_int_equal(c->answers, 1);
}

static void call(qp *q, struct caller *c)
{
    submit(q, c);
    await(q, c);
    assert_int_equal(c->rc, QP_OK);
}

static void done(qp *q, struct caller *c)
{
    work_done(q, &c->call, WORK_TOLD);
}

/* Takes one task, which must be there, and keeps its token. */
static void take_one(qp *q, struct caller *c, const char *name)
{
    make(c, name, 1, 0);
    call(q, c);
    assert_int_equal(c->call.task_count, 1);
    memcpy(c->token, c->call.tasks->token, sizeof c->token);
}

/* Brings a result of the token; answers what it was told. */
static enum work_status bring(qp *q, const char *name, const char *token, enum work_kind kind,
                              const char *text)
{
    struct caller c;
    make(&c, name, 0, 0);
    c.result = (struct work_result){.token = str_from(token), .kind = kind};
    c.result.output = kind == WORK_ERROR ? QP_NONE : str_from(text);
    c.result.message = kind == WORK_ERROR ? str_from(text) : QP_NONE;
    c.call.results = &c.result;
    c.call.result_count = 1;
    call(q, &c);
    done(q, &c);
    return c.result.status;
}

#define ON_ALL_KINDS                                                                               \
    for (int kind = 0; kind < rt_kinds(); kind++) {                                                \
        qp *q;                                                                                     \
        rt_begin_on(kind);                                                                         \
        q = rt_open(rt_place);
#define END_KIND                                                                                   \
    rt_close(q);                                                                                   \
    rt_end();                                                                                      \
    }

/* Proves the whole way: a task with all that a worker needs, its result, the end of the job; and that the
 * result counts once. */
static void test_task_and_result(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct work_task *t;
    rt_start_with(q, &(struct qp_start){
                         .topic = QP_STR("work"), .id = QP_STR("j"), .input = QP_STR("{\"n\":1}")});
    take_one(q, &c, "w");
    t = c.call.tasks;
    assert_true(str_equal(t->job, QP_STR("j")));
    assert_true(str_equal(t->workflow, QP_STR("work")));
    assert_true(str_equal(t->topic, QP_STR("work")));
    assert_true(str_equal(t->address, QP_STR("run,0,0")));
    assert_true(str_equal(t->input, QP_STR("{\"n\":1}")));
    assert_int_equal(t->attempt, 1);
    assert_int_equal(strlen(t->key), 32);
    assert_true(t->deadline > 0);
    done(q, &c);
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "\"out\""), WORK_OK);
    rt_expect(q, "j", "completed", "\"out\"");
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "\"again\""), WORK_STALE);
    rt_expect(q, "j", "completed", "\"out\"");
    END_KIND
}

/* Proves that a task is born into the hands of who waits, that who waits longest is first, and that as many
 * are woken as there are tasks. */
static void test_parked_in_turn(void **state)
{
    ON_ALL_KINDS
    struct caller c[3];
    struct qp_err err;
    for (int i = 0; i < 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "w%d", i);
        make(&c[i], i == 0 ? "w0" : i == 1 ? "w1" : "w2", 8, 60000);
        submit(q, &c[i]);
        rt_poll(q);
        assert_int_equal(c[i].answers, 0);
    }
    /* Both in one round, if possible; each start is one task. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            qp_job_start_async(
                q, &(struct qp_start){.topic = QP_STR("work"), .input = QP_STR("{}")}, &err),
            QP_OK);
    }
    await(q, &c[0]);
    await(q, &c[1]);
    assert_int_equal(c[0].call.task_count, 1);
    assert_int_equal(c[1].call.task_count, 1);
    assert_int_equal(c[2].answers, 0);
    done(q, &c[0]);
    done(q, &c[1]);
    work_abort(q, &c[2].call);
    await(q, &c[2]);
    assert_int_equal(c[2].rc, QP_E_CLOSED);
    done(q, &c[2]);
    END_KIND
}

static void start_many(qp *q, const char *topic, int count)
{
    for (int i = 0; i < count; i++) {
        rt_start_with(q, &(struct qp_start){.topic = str_from(topic), .input = QP_STR("{}")});
    }
}

static int not_claimed(void *context, const void *row)
{
    const struct msg_row *m = row;
    (void)context;
    assert_true(m->state != MSG_READY || m->token == 0);
    return QP_OK;
}

/* What is READY was never claimed: no more was taken than there were places. */
static void expect_not_claimed(const qp *q)
{
    struct scan all = {.table = TABLE_msg, .index = -1, .limit = 1000};
    struct qp_err err = {0};
    assert_int_equal(store_scan(q->store, &all, NULL, not_claimed, &err), QP_OK);
}

/* Proves that a call for three tasks of two topics gets three, of those that are there and of those that
 * come, and that nothing is held for nobody. */
static void test_want_over_topics(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller rest;
    struct qp_err err;
    start_many(q, "a", 5);
    start_many(q, "b", 5);
    make(&c, "w", 3, 1000);
    c.topics[0] = QP_STR("a");
    c.topics[1] = QP_STR("b");
    c.call.topic_count = 2;
    call(q, &c);
    assert_int_equal(c.call.task_count, 3);
    done(q, &c);
    make(&rest, "w", 100, 1000);
    rest.topics[0] = QP_STR("b");
    rest.topics[1] = QP_STR("a");
    rest.call.topic_count = 2;
    call(q, &rest);
    assert_int_equal(rest.call.task_count, 7);
    done(q, &rest);
    /* and the same for tasks that are born while it waits */
    make(&c, "w", 3, 60000);
    c.topics[0] = QP_STR("a");
    c.topics[1] = QP_STR("b");
    c.call.topic_count = 2;
    submit(q, &c);
    rt_poll(q);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(
            qp_job_start_async(q,
                               &(struct qp_start){.topic = i % 2 == 0 ? QP_STR("a") : QP_STR("b"),
                                                  .input = QP_STR("{}")},
                               &err),
            QP_OK);
    }
    await(q, &c);
    rt_poll(q);
    assert_in_range(c.call.task_count, 1, 3);
    expect_not_claimed(q);
    make(&rest, "w", 100, 1000);
    rest.topics[0] = QP_STR("a");
    rest.topics[1] = QP_STR("b");
    rest.call.topic_count = 2;
    rt_poll(q);
    call(q, &rest);
    assert_int_equal(rest.call.task_count + c.call.task_count, 6);
    done(q, &c);
    done(q, &rest);
    END_KIND
}

/* Proves that a token is good for who was given it, as it was given, and for nobody else. */
static void test_tokens(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller thief;
    char changed[WORK_TOKEN_SIZE];
    rt_start(q, "j");
    take_one(q, &c, "w");
    done(q, &c);
    make(&thief, "w", 0, 0);
    thief.call.caller.key = QP_STR("other");
    thief.result = (struct work_result){.token = str_from(c.token)};
    thief.call.results = &thief.result;
    thief.call.result_count = 1;
    call(q, &thief);
    assert_int_equal(thief.result.status, WORK_STALE);
    done(q, &thief);
    for (size_t i = 0; i < strlen(c.token); i += 7) {
        memcpy(changed, c.token, sizeof changed);
        changed[i] = changed[i] == '1' ? '2' : '1';
        assert_int_equal(bring(q, "w", changed, WORK_SUCCESS, "1"), WORK_STALE);
        changed[i] = '\0'; /* and cut */
        assert_int_equal(bring(q, "w", changed, WORK_SUCCESS, "1"), WORK_STALE);
    }
    rt_expect(q, "j", "running", NULL);
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "1"), WORK_OK);
    END_KIND
}

/* Proves that a token outlives the process that gave it: the lease does, and so does the result. */
static void test_restart(void **state)
{
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        struct caller c;
        qp *q;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        rt_start(q, "j");
        take_one(q, &c, "w");
        done(q, &c);
        rt_close(q);
        q = rt_open(rt_place);
        assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "1"), WORK_OK);
        rt_expect(q, "j", "completed", "1");
        rt_close(q);
        rt_check(rt_place, 1);
        rt_end();
    }
}

/* Proves that where several processes share a store, a task that one of them has started comes to a worker that
 * waits at another, and that its result may be brought to either. */
static void test_two_processes(void **state)
{
    struct caller c;
    qp *q;
    qp *other;
    if (rt_kinds() <= RT_SERVER) {
        skip();
    }
    rt_begin_on(RT_SERVER);
    q = rt_open(rt_place);
    other = rt_open(rt_place);
    make(&c, "w", 1, 60000);
    submit(other, &c);
    rt_poll(other);
    assert_int_equal(c.answers, 0);
    rt_start(q, "j");
    await(other, &c);
    assert_int_equal(c.call.task_count, 1);
    assert_int_equal(bring(q, "w", c.call.tasks->token, WORK_SUCCESS, "1"), WORK_OK);
    assert_int_equal(bring(other, "w", c.call.tasks->token, WORK_SUCCESS, "1"), WORK_STALE);
    done(other, &c);
    rt_expect(other, "j", "completed", "1");
    rt_close(other);
    rt_close(q);
    rt_check(rt_place, 1);
    rt_end();
}

/* Proves that an error is tried again, that a fatal one is not, and that pending outputs leave the task
 * where it is. */
static void test_errors_and_pending(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller fatal;
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("j"),
                                        .input = QP_STR("{}"),
                                        .retry = {.attempts = 3, .backoff_ms = 1}});
    take_one(q, &c, "w");
    done(q, &c);
    assert_int_equal(bring(q, "w", c.token, WORK_PENDING, "1"), WORK_OK);
    assert_int_equal(bring(q, "w", c.token, WORK_PENDING, "2"), WORK_OK);
    assert_int_equal(bring(q, "w", c.token, WORK_ERROR, "no luck"), WORK_OK);
    assert_int_equal(bring(q, "w", c.token, WORK_ERROR, "no luck"), WORK_STALE);
    make(&c, "w", 1, 5000);
    call(q, &c);
    assert_int_equal(c.call.task_count, 1);
    assert_int_equal(c.call.tasks->attempt, 2);
    make(&fatal, "w", 0, 0);
    fatal.result = (struct work_result){.token = str_from(c.call.tasks->token),
                                        .kind = WORK_ERROR,
                                        .code = 422,
                                        .message = QP_STR("bad order"),
                                        .fatal = true};
    fatal.call.results = &fatal.result;
    fatal.call.result_count = 1;
    call(q, &fatal);
    assert_int_equal(fatal.result.status, WORK_OK);
    done(q, &fatal);
    done(q, &c);
    rt_expect(q, "j", "failed", NULL);
    END_KIND
}

/* Proves that tasks that could not be told are ready again at once, as if they had not been claimed. */
static void test_given_back(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    rt_start(q, "j");
    take_one(q, &c, "w");
    work_done(q, &c.call, WORK_GIVEN_BACK);
    rt_poll(q);
    take_one(q, &c, "other");
    assert_int_equal(c.call.tasks->attempt, 1);
    done(q, &c);
    END_KIND
}

static bool is_there(void *context)
{
    struct caller *c = context;
    const struct round *r = c->q->engine->open;
    c->asked++;
    c->asked_inside += r != NULL && r->commit.state == COMMIT_RUNNING;
    return !c->gone;
}

static void park_as(qp *q, struct caller *c, const char *name, bool gone)
{
    make(c, name, 2, 60000);
    c->q = q;
    c->gone = gone;
    c->call.there = is_there;
    submit(q, c);
    rt_poll(q);
    assert_int_equal(c->answers, 0);
}

/* Proves that no peer is asked inside a transaction, that the next call gets the task of one that has gone, and that
 * without a next call the task is ready again as if it had not been claimed. */
static void test_gone_after_the_commit(void **state)
{
    ON_ALL_KINDS
    struct caller c[3];
    park_as(q, &c[0], "gone", true);
    park_as(q, &c[1], "there", false);
    rt_start(q, "a");
    await(q, &c[0]);
    await(q, &c[1]);
    assert_int_equal(c[0].rc, QP_E_CLOSED);
    assert_int_equal(c[1].rc, QP_OK);
    assert_int_equal(c[1].call.task_count, 1);
    assert_int_equal(c[1].call.tasks->attempt, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c[i].asked, 1);
        assert_int_equal(c[i].asked_inside, 0);
        done(q, &c[i]);
    }
    park_as(q, &c[0], "gone", true);
    rt_start(q, "b");
    await(q, &c[0]);
    assert_int_equal(c[0].rc, QP_E_CLOSED);
    assert_int_equal(c[0].asked_inside, 0);
    done(q, &c[0]);
    take_one(q, &c[2], "w");
    assert_true(str_equal(c[2].call.tasks->job, QP_STR("b")));
    assert_int_equal(c[2].call.tasks->attempt, 1);
    done(q, &c[2]);
    END_KIND
}

/* Proves that a worker that leaves gives back what it has, and only that; results that it brings count. */
static void test_leave(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller other;
    rt_start(q, "j1");
    rt_start(q, "j2");
    rt_start(q, "j3");
    make(&c, "w", 2, 0);
    call(q, &c);
    assert_int_equal(c.call.task_count, 2);
    take_one(q, &other, "other");
    done(q, &other);
    make(&other, "w", 0, 0);
    other.call.leave = true;
    other.result =
        (struct work_result){.token = str_from(c.call.tasks->token), .output = QP_STR("1")};
    other.call.results = &other.result;
    other.call.result_count = 1;
    call(q, &other);
    assert_int_equal(other.result.status, WORK_OK);
    done(q, &other);
    done(q, &c);
    make(&c, "third", 9, 0);
    call(q, &c);
    assert_int_equal(c.call.task_count, 1);
    assert_int_equal(c.call.tasks->attempt, 1);
    done(q, &c);
    END_KIND
}

/* Proves that a worker hears at once that its job was cancelled, and that its beats and results say so. */
static void test_cancel(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller parked;
    struct caller beat;
    struct qp_err err;
    rt_start(q, "j");
    take_one(q, &c, "w");
    done(q, &c);
    make(&parked, "w", 1, 60000);
    submit(q, &parked);
    rt_poll(q);
    assert_int_equal(parked.answers, 0);
    assert_int_equal(qp_job_cancel(q, QP_STR("j"), "enough", &err), QP_OK);
    await(q, &parked);
    assert_int_equal(parked.call.task_count, 0);
    assert_int_equal(parked.call.cancel_count, 1);
    assert_string_equal(parked.call.cancels->token, c.token);
    done(q, &parked);
    make(&beat, "w", 0, 0);
    beat.beat = (struct work_beat){.token = str_from(c.token)};
    beat.call.beats = &beat.beat;
    beat.call.beat_count = 1;
    call(q, &beat);
    assert_int_equal(beat.beat.status, WORK_CANCELLED);
    assert_int_equal(beat.call.cancel_count, 0); /* told once */
    done(q, &beat);
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "1"), WORK_CANCELLED);
    rt_expect(q, "j", "cancelled", NULL);
    END_KIND
}

static int see_progress(void *context, const struct qp_activity *a)
{
    if (str_equal(a->address, QP_STR("run,0,0"))) {
        assert_true(str_equal(a->progress, QP_STR("{\"percent\":40}")));
        assert_string_equal(a->task, "held");
        assert_string_equal(a->state, "waiting");
        *(qp_ms *)context = a->wake_at;
    }
    return QP_OK;
}

static int see_story(void *context, const struct qp_event *e)
{
    struct buf *story = context;
    if (e->attempt != 0 || e->delivery != 0) {
        buf_printf(story, "%s %.*s %.*s %lld/%lld %s\n", e->kind, STR_ARG(e->address),
                   STR_ARG(e->worker), (long long)e->attempt, (long long)e->delivery, e->status);
    }
    return QP_OK;
}

/* Proves that the history names the worker of every attempt that failed and of every lease that it let end, whether the
 * task was born for it or claimed. */
static void test_history_names_the_worker(void **state)
{
    struct caller born;
    struct caller c;
    struct qp_err err = {0};
    struct buf story;
    bool more = true;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    make(&born, "early", 1, 60000);
    submit(q, &born);
    rt_poll(q);
    rt_start(q, "j");
    await(q, &born);
    assert_int_equal(born.call.task_count, 1);
    done(q, &born);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS + 1); /* a failed attempt */
    rt_poll(q);
    testenv_advance_ms(&rt, 10 * 1000); /* and its backoff */
    rt_poll(q);
    take_one(q, &c, "late");
    done(q, &c);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS + LIMIT_LOST_MS + 1); /* not its worker's fault */
    rt_poll(q);
    take_one(q, &c, "third");
    done(q, &c);
    assert_int_equal(bring(q, "third", c.token, WORK_ERROR, "no"), WORK_OK);
    buf_init(&story, &rt.env, 0);
    assert_int_equal(qp_job_journal(q, QP_NONE, QP_STR("j"), 0, 0, &story, see_story, &more, &err),
                     QP_OK);
    buf_byte(&story, '\0');
    assert_string_equal(story.p, "failed run,0,0 early 1/0 retrying\n"
                                 "lost run,0,0 late 0/2 retrying\n"
                                 "failed run,0,0 third 2/0 retrying\n");
    buf_done(&story);
    rt_close(q);
    rt_end();
}

/* Proves on every store that a beat renews the lease, by at least what has passed since the claim less what clocks
 * differ by, and that progress can be seen. */
#define PASSED_MS 40
#define CLOCKS_MS 15
static void test_beat(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller beat;
    struct qp_err err;
    qp_ms first = 0;
    bool more = true;
    rt_start(q, "j");
    take_one(q, &c, "w");
    first = c.call.tasks->deadline;
    done(q, &c);
    (void)nanosleep(&(struct timespec){.tv_nsec = PASSED_MS * 1000 * 1000}, NULL);
    make(&beat, "w", 0, 0);
    beat.beat =
        (struct work_beat){.token = str_from(c.token), .progress = QP_STR("{\"percent\":40}")};
    beat.call.beats = &beat.beat;
    beat.call.beat_count = 1;
    call(q, &beat);
    assert_int_equal(beat.beat.status, WORK_OK);
    done(q, &beat);
    {
        qp_ms wake = 0;
        assert_int_equal(
            qp_activity_list(q, QP_NONE, QP_STR("j"), QP_NONE, 0, &wake, see_progress, &more, &err),
            QP_OK);
        assert_false(more);
        assert_true(wake >= first + PASSED_MS - CLOCKS_MS);
    }
    END_KIND
}

/* Proves that a lease which beats renew in time never runs out, and that it runs out when there are no more. */
static void test_beats_keep_the_task(void **state)
{
    struct caller c;
    struct caller other;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS);
    rt_poll(q);
    rt_start(q, "j");
    take_one(q, &c, "w");
    done(q, &c);
    for (int i = 0; i < 5; i++) {
        struct caller beat;
        testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS / 2 + 1);
        rt_poll(q);
        make(&beat, "w", 0, 0);
        beat.beat = (struct work_beat){.token = str_from(c.token)};
        beat.call.beats = &beat.beat;
        beat.call.beat_count = 1;
        call(q, &beat);
        assert_int_equal(beat.beat.status, WORK_OK);
        done(q, &beat);
        make(&other, "other", 1, 0);
        call(q, &other);
        assert_int_equal(other.call.task_count, 0);
        done(q, &other);
    }
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS + 1);
    rt_poll(q);
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "1"), WORK_STALE);
    rt_close(q);
    rt_end();
}

/* Proves that a beat which is accepted when the lease has just run out keeps the task: the loss is not reported any more. */
static void test_beat_at_the_end(void **state)
{
    struct caller c;
    struct caller beat;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    testenv_advance_ms(&rt,
                       LIMIT_WORK_LEASE_MS); /* from here on a lost lease is its worker's fault */
    rt_poll(q);
    rt_start(q, "j");
    take_one(q, &c, "w");
    done(q, &c);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS + 1);
    make(&beat, "w", 0, 0);
    beat.beat = (struct work_beat){.token = str_from(c.token)};
    beat.call.beats = &beat.beat;
    beat.call.beat_count = 1;
    call(q, &beat);
    assert_int_equal(beat.beat.status, WORK_OK);
    done(q, &beat);
    rt_poll(q);
    rt_poll(q);
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "1"), WORK_OK);
    rt_expect(q, "j", "completed", "1");
    rt_close(q);
    rt_end();
}

/* Proves that a beat that was not taken is told at once, and one that was leaves the call waiting. */
static void test_beat_is_news(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller beat;
    rt_start(q, "j");
    take_one(q, &c, "w");
    done(q, &c);
    for (int i = 0; i < 2; i++) {
        make(&beat, "w", 1, 60000);
        beat.beat = (struct work_beat){.token = str_from(c.token)};
        beat.call.beats = &beat.beat;
        beat.call.beat_count = 1;
        submit(q, &beat);
        rt_poll(q);
        assert_int_equal(beat.answers, i);
        work_abort(q, &beat.call);
        await(q, &beat);
        assert_int_equal(beat.beat.status, i == 0 ? WORK_OK : WORK_STALE);
        done(q, &beat);
        if (i == 0) {
            assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "1"), WORK_OK);
        }
    }
    END_KIND
}

/* Proves that a call without tasks is answered when its time is over, and at once when it would not wait. */
static void test_time(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    make(&c, "w", 1, 0);
    call(q, &c);
    assert_int_equal(c.call.task_count, 0);
    done(q, &c);
    make(&c, "w", 1, 60);
    submit(q, &c);
    rt_poll(q);
    assert_int_equal(c.answers, 0);
    await(q, &c);
    assert_int_equal(c.rc, QP_OK);
    assert_int_equal(c.call.task_count, 0);
    done(q, &c);
    END_KIND
}

struct found {
    int count;
    int64_t waiting;
    int64_t in_hand;
};

static int see_worker(void *context, const struct work_worker *w)
{
    struct found *f = context;
    f->count++;
    f->waiting += w->waiting;
    f->in_hand += w->in_hand;
    assert_true(str_equal(w->name, QP_STR("w")));
    assert_true(str_equal(w->ns, QP_STR("default")));
    assert_true(str_equal(w->caller, QP_STR("token-1")));
    assert_int_equal(w->topic_count, 1);
    assert_true(str_equal(w->topics[0], QP_STR("work")));
    return QP_OK;
}

/* Proves that workers can be listed, with what they have in hand. */
static void test_list(void **state)
{
    ON_ALL_KINDS
    struct caller c;
    struct caller parked;
    struct found found = {0};
    struct qp_err err;
    rt_start(q, "j");
    take_one(q, &c, "w");
    done(q, &c);
    make(&parked, "w", 1, 60000);
    submit(q, &parked);
    rt_poll(q);
    assert_int_equal(work_list(q, QP_NONE, &found, see_worker, &err), QP_OK);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.waiting, 1);
    assert_int_equal(found.in_hand, 1);
    assert_int_equal(work_list(q, QP_STR("nowhere"), &found, see_worker, &err), QP_E_NOT_FOUND);
    work_shut(q);
    await(q, &parked);
    assert_int_equal(parked.rc, QP_E_CLOSED);
    done(q, &parked);
    make(&parked, "w", 1, 0);
    assert_int_equal(work_submit(q, &parked.call, &err), QP_E_CLOSED);
    END_KIND
}

/* Proves that a result or a beat that is at fault is refused alone, with its reason, and that its task stays with its
 * worker; what came with it is taken. */
static void test_refused_alone(void **state)
{
    static char large[LIMIT_PAYLOAD_SIZE + 1];
    const struct {
        struct work_result result;
        int rc;
        const char *why;
    } cases[] = {
        {{.output = QP_STR("{")}, QP_E_MALFORMED, "output"},
        {{.output = {large, sizeof large}},
         QP_E_TOO_LARGE,
         "output: 2097153 bytes, the limit is 2097152"},
        {{.kind = (enum work_kind)3}, QP_E_INVALID, "status"},
        {{.kind = WORK_ERROR, .code = 200}, QP_E_INVALID, "code: it is 400 to 599, got 200"},
        {{.kind = WORK_ERROR, .message = QP_STR("\xff")}, QP_E_INVALID, "error"},
        {{.kind = WORK_PENDING, .pending_index = -1}, QP_E_INVALID, "index"},
    };
    memset(large, '1', sizeof large);
    ON_ALL_KINDS
    struct caller bad;
    struct caller good;
    start_many(q, "work", 2);
    take_one(q, &bad, "w");
    take_one(q, &good, "w");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct work_result results[] = {cases[i].result, {.token = str_from(good.token)}};
        struct work_beat beat = {.token = str_from(good.token),
                                 .progress = {large, LIMIT_PROGRESS_SIZE + 1}};
        struct caller c;
        make(&c, "w", 0, 0);
        results[0].token = str_from(bad.token);
        results[1].kind = WORK_PENDING;
        results[1].pending_index = 1;
        c.call.results = results;
        c.call.result_count = 2;
        c.call.beats = &beat;
        c.call.beat_count = 1;
        call(q, &c);
        assert_int_equal(results[0].status, WORK_REFUSED);
        assert_int_equal(results[0].rc, cases[i].rc);
        assert_non_null(strstr(results[0].why, cases[i].why));
        assert_int_equal(results[1].status, WORK_OK);
        assert_int_equal(beat.status, WORK_REFUSED);
        assert_int_equal(beat.rc, QP_E_TOO_LARGE);
        assert_string_equal(beat.why, "progress: 4097 bytes, the limit is 4096");
        done(q, &c);
    }
    assert_int_equal(bring(q, "w", bad.token, WORK_SUCCESS, "1"), WORK_OK);
    assert_int_equal(bring(q, "w", good.token, WORK_SUCCESS, "2"), WORK_OK);
    done(q, &bad);
    done(q, &good);
    END_KIND
}

/* Proves that a sentence that is too long for an error is cut, at a character, and its result taken. */
static void test_long_error(void **state)
{
    static char text[3 * LIMIT_ERROR_TEXT_SIZE + 1];
    for (size_t i = 0; i + 1 < sizeof text; i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 3);
    }
    ON_ALL_KINDS
    struct caller c;
    struct qp_job job = {0};
    struct qp_err err = {0};
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("work"),
                                        .id = QP_STR("j"),
                                        .input = QP_STR("{}"),
                                        .retry = {.attempts = 1}});
    take_one(q, &c, "w");
    done(q, &c);
    assert_int_equal(bring(q, "w", c.token, WORK_ERROR, text), WORK_OK);
    assert_int_equal(qp_job_get(q, QP_STR("j"), &job, &err), QP_OK);
    assert_string_equal(job.status, "failed");
    assert_true(job.error.n <= LIMIT_ERROR_TEXT_SIZE && job.error.n > LIMIT_ERROR_TEXT_SIZE - 4);
    assert_non_null(memmem(job.error.p, job.error.n, "\xe2\x82\xac\",\"activity\":\"run\",", 22));
    qp_job_done(q, &job);
    END_KIND
}

static int bring_pending(qp *q, const char *token, int64_t index, const char *output, char *out_why)
{
    struct caller c;
    make(&c, "w", 0, 0);
    c.result = (struct work_result){.token = str_from(token),
                                    .kind = WORK_PENDING,
                                    .pending_index = index,
                                    .output = str_from(output)};
    c.call.results = &c.result;
    c.call.result_count = 1;
    call(q, &c);
    done(q, &c);
    memcpy(out_why, c.result.why, WORK_WHY_SIZE);
    return c.result.rc;
}

/* Proves that an index is used once: the same result again changes nothing, another one is refused, and so is one that
 * leaves an index out. */
static void test_pending_index(void **state)
{
    ON_ALL_KINDS
    char why[WORK_WHY_SIZE];
    struct caller c;
    start_many(q, "work", 1);
    take_one(q, &c, "w");
    done(q, &c);
    assert_int_equal(bring_pending(q, c.token, 1, "1", why), QP_OK);
    assert_int_equal(bring_pending(q, c.token, 1, "1", why), QP_OK);
    assert_int_equal(bring_pending(q, c.token, 1, "2", why), QP_E_CONFLICT);
    assert_string_equal(why, "index: 1 was brought before, with another output");
    assert_int_equal(bring_pending(q, c.token, 3, "3", why), QP_E_INVALID);
    assert_string_equal(why, "index: the next one is 2, got 3");
    assert_int_equal(bring_pending(q, c.token, 2, "2", why), QP_OK);
    assert_int_equal(bring_pending(q, c.token, 1, "1", why), QP_OK);
    assert_int_equal(bring(q, "w", c.token, WORK_SUCCESS, "4"), WORK_OK);
    END_KIND
}

static void deploy(qp *q, const char *yaml)
{
    struct qp_err err = {0};
    if (qp_deploy(q, &(struct qp_deploy){.text = str_from(yaml), .activate = true}, NULL, &err) !=
        QP_OK) {
        fail_msg("%s", err.text);
    }
}

static int see_failures(void *context, const struct qp_activity *a)
{
    if (str_equal(a->topic, QP_STR("work"))) {
        *(int64_t *)context = a->failures;
    }
    return QP_OK;
}

static int64_t failures_of(qp *q, const char *id)
{
    int64_t failures = -1;
    bool more = false;
    struct qp_err err = {0};
    assert_int_equal(qp_activity_list(q, QP_NONE, str_from(id), QP_NONE, 0, &failures, see_failures,
                                      &more, &err),
                     QP_OK);
    return failures;
}

/* Takes the task that must be there, and is never heard of again. */
static void take_and_die(qp *q, const char *id, int64_t failures, qp_ms backoff_ms)
{
    struct caller c;
    take_one(q, &c, "w");
    done(q, &c);
    testenv_advance_ms(&rt, LIMIT_WORK_LEASE_MS);
    rt_poll(q);
    assert_int_equal(failures_of(q, id), failures);
    testenv_advance_ms(&rt, backoff_ms);
    rt_poll(q);
}

/* Proves that the workers of a graph's activity that die use up its maximumAttempts, and that a transition takes the error
 * 504 then; that an activity without a policy is tried again all the same; and that an error's attempts and those of
 * lost leases are counted together. */
static void test_dying_workers(void **state)
{
    static const char yaml[] =
        "app:\n  id: mortal\n  version: '1'\n  graphs:\n"
        "    - subscribes: mortal.start\n      activities:\n"
        "        t: { type: trigger }\n"
        "        w: { type: worker, topic: work, retry: { maximumAttempts: 3, backoffCoefficient: "
        "1, initialInterval: 1 } }\n"
        "        c: { type: hook, job: { maps: { err: '{w.output.metadata.err}', attempt: "
        "'{w.output.metadata.attempt}' } } }\n"
        "      transitions: { t: [{ to: w }], w: [{ to: c, conditions: { code: 504 } }] }\n"
        "    - subscribes: mortal.usual\n      activities:\n"
        "        t2: { type: trigger }\n"
        "        w2: { type: worker, topic: work }\n"
        "      transitions: { t2: [{ to: w2 }] }\n";
    struct caller c;
    qp *q;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    deploy(q, yaml);
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("mortal.start"),
                                        .id = QP_STR("j"),
                                        .input = QP_STR("{}")});
    rt_poll(q);
    take_and_die(q, "j", 1, 1000);
    take_one(q, &c, "w");
    done(q, &c);
    assert_int_equal(bring(q, "w", c.token, WORK_ERROR, "no luck"), WORK_OK);
    assert_int_equal(failures_of(q, "j"), 2);
    testenv_advance_ms(&rt, 1000);
    rt_poll(q);
    take_and_die(q, "j", 3, 0);
    rt_expect(
        q, "j", "completed",
        "{\"err\":{\"code\":504,\"message\":\"the lease ran out: the worker neither answered nor "
        "sent a beat\",\"activity\":\"w\",\"address\":\"w,0,0\"},\"attempt\":3}");
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("mortal.usual"),
                                        .id = QP_STR("k"),
                                        .input = QP_STR("{}")});
    rt_poll(q);
    for (int64_t i = 1; i < 5; i++) {
        take_and_die(q, "k", i, 8000);
        rt_expect(q, "k", "retrying", NULL);
    }
    take_and_die(q, "k", 5, 0);
    rt_expect(q, "k", "failed", NULL);
    rt_close(q);
    rt_end();
}

/* Proves that a call that is malformed is refused with its place, and nothing is taken. */
static void test_refused(void **state)
{
    struct qp_err err;
    struct caller c;
    qp *q;
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    for (int i = 0; i < 8; i++) {
        static const char *const places[] = {"/worker", "/want",     "/want", "/wait",
                                             "/topics", "/topics/0", "",      "/topics"};
        make(&c, "w", 1, 0);
        switch (i) {
        case 0:
            c.call.worker = QP_STR("");
            break;
        case 1:
            c.call.want = -1;
            break;
        case 2:
            c.call.want = LIMIT_WORK_TASKS + 1;
            break;
        case 3:
            c.call.wait_ms = LIMIT_WORK_WAIT_MS + 1;
            break;
        case 4:
            c.call.topic_count = 0;
            break;
        case 5:
            c.topics[0] = QP_STR("quipu:engine");
            break;
        case 6:
            c.call.ns = QP_STR("nowhere");
            break;
        case 7:
            c.call.topic_count = LIMIT_WORK_TOPICS + 1;
            break;
        }
        if (work_submit(q, &c.call, &err) == QP_OK || strcmp(err.pointer, places[i]) != 0) {
            fail_msg("%d: %s: %s", i, err.pointer, err.text);
        }
        assert_null(c.call.state);
    }
    rt_close(q);
    rt_end();
}

#define PARKED 10000

/* Proves that ten thousand parked calls ask nothing of the store, cost little memory, and that tasks come
 * to the first of them. */
static void test_many_parked(void **state)
{
    struct caller *all = calloc(PARKED, sizeof *all);
    struct engine_stats before;
    struct engine_stats after;
    qp *q;
    assert_non_null(all);
    rt_begin(RT_REAL);
    q = rt_open(rt_path);
    for (int i = 0; i < PARKED; i++) {
        make(&all[i], "w", 1, 60000);
        all[i].topics[1] = QP_STR("more");
        all[i].call.topic_count = 2;
        submit(q, &all[i]);
    }
    rt_poll(q);
    before = engine_stats(q->engine);
    for (int i = 0; i < 100; i++) {
        rt_poll(q);
    }
    after = engine_stats(q->engine);
    assert_int_equal(after.rounds, before.rounds);
    assert_int_equal(after.commits, before.commits);
    start_many(q, "more", 2);
    rt_poll(q);
    assert_int_equal(all[0].answers, 1);
    assert_int_equal(all[1].answers, 1);
    assert_int_equal(all[2].answers, 0);
    assert_int_equal(all[0].call.task_count, 1);
    work_shut(q);
    for (int i = 0; i < PARKED; i++) {
        assert_int_equal(all[i].answers, 1);
        done(q, &all[i]);
    }
    rt_close(q);
    rt_end();
    free(all);
}

/* Proves that no more calls are taken than the limit says. */
static void test_too_many(void **state)
{
    struct caller *all = calloc(LIMIT_WORK_CALLS + 1, sizeof *all);
    struct qp_err err;
    qp *q;
    assert_non_null(all);
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    for (int i = 0; i < LIMIT_WORK_CALLS; i++) {
        make(&all[i], "w", 1, 60000);
        submit(q, &all[i]);
    }
    make(&all[LIMIT_WORK_CALLS], "w", 1, 60000);
    assert_int_equal(work_submit(q, &all[LIMIT_WORK_CALLS].call, &err), QP_E_LIMIT);
    work_shut(q);
    for (int i = 0; i < LIMIT_WORK_CALLS; i++) {
        done(q, &all[i]);
    }
    rt_close(q);
    rt_end();
    free(all);
}

/* ----------------------------------------------------------------------------------------- threads */

#define THREADS 8
#define JOBS 400

struct loop {
    qp *q;
    struct rt_count completed;
    struct rt_count answered[THREADS];
};

struct loop_call {
    struct caller c;
    struct rt_count *answered;
};

static void on_loop_answer(void *context, struct work_call *call, int rc, const char *why)
{
    struct loop_call *l = context;
    (void)call;
    (void)why;
    QP_ASSERT(rc == QP_OK || rc == QP_E_CLOSED); /* it was aborted */
    rt_add(l->answered, 1);
}

/* A worker: brings what it was given last, and asks for more. */
static void loop_worker(void *context, int index)
{
    struct loop *loop = context;
    struct work_result results[8];
    char tokens[8][WORK_TOKEN_SIZE];
    size_t count = 0;
    int64_t turns = 0;
    while (rt_value(&loop->completed) < JOBS) {
        struct loop_call l = {.answered = &loop->answered[index]};
        struct qp_err err;
        char name[16];
        (void)snprintf(name, sizeof name, "w%d", index);
        make(&l.c, name, 8, 20);
        l.c.call.context = &l;
        l.c.call.answer = on_loop_answer;
        l.c.call.results = results;
        l.c.call.result_count = count;
        QP_ASSERT(work_submit(loop->q, &l.c.call, &err) == QP_OK);
        if (turns % 7 == 3) {
            work_abort(loop->q, &l.c.call);
        }
        rt_await(l.answered, ++turns);
        for (size_t i = 0; i < count; i++) {
            rt_add(&loop->completed, results[i].status == WORK_OK);
        }
        count = 0;
        for (struct work_task *t = l.c.call.tasks; t != NULL; t = t->next) {
            memcpy(tokens[count], t->token, WORK_TOKEN_SIZE);
            results[count] =
                (struct work_result){.token = str_from(tokens[count]), .output = QP_STR("1")};
            count++;
        }
        work_done(loop->q, &l.c.call, turns % 5 == 4 ? WORK_GIVEN_BACK : WORK_TOLD);
        count = turns % 5 == 4 ? 0 : count;
    }
}

/* Proves with threads that each of many jobs is completed once, whatever is given back meanwhile. */
static void test_threads(void **state)
{
    for (int kind = RT_MEMORY; kind < rt_kinds(); kind++) {
        struct loop loop = {.completed = RT_COUNT_INIT};
        struct qp_err err;
        struct qp_count count;
        for (int i = 0; i < THREADS; i++) {
            loop.answered[i] = (struct rt_count)RT_COUNT_INIT;
        }
        rt_begin_on(kind);
        loop.q = rt_open(rt_place);
        assert_int_equal(qp_start_threads(loop.q, 0, &err), QP_OK);
        for (int i = 0; i < JOBS; i++) {
            assert_int_equal(qp_job_start_async(
                                 loop.q,
                                 &(struct qp_start){.topic = QP_STR("work"), .input = QP_STR("{}")},
                                 &err),
                             QP_OK);
        }
        rt_threads(THREADS, loop_worker, &loop);
        assert_int_equal(
            qp_job_count(loop.q, QP_NONE, QP_STR("status=completed"), QP_COUNT_EXACT, &count, &err),
            QP_OK);
        assert_int_equal(count.count, JOBS);
        work_shut(loop.q);
        rt_close(loop.q);
        if (rt_place != NULL) {
            rt_check(rt_place, JOBS);
        }
        rt_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_and_result),
        cmocka_unit_test(test_parked_in_turn),
        cmocka_unit_test(test_want_over_topics),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_errors_and_pending),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_given_back),
        cmocka_unit_test(test_gone_after_the_commit),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_history_names_the_worker),
        cmocka_unit_test(test_beat),
        cmocka_unit_test(test_beats_keep_the_task),
        cmocka_unit_test(test_beat_at_the_end),
        cmocka_unit_test(test_beat_is_news),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_refused_alone),
        cmocka_unit_test(test_long_error),
        cmocka_unit_test(test_pending_index),
        cmocka_unit_test(test_dying_workers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_many_parked),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
