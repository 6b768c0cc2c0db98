/* test_limits.c - how tasks reach workers, functions and calls, on every kind of store
 *
 *   limits     of one key no more are worked on than allowed, born or claimed; and whenever a place under a limit comes
 *              free, the next one is handed out
 *   results    are committed when their function has returned, whatever else its thread has to do
 *   order      of what waits in memory and in the stream, the best priority is first
 *
 * Functions count how many are inside. They leave when the test lets them, so nothing depends on time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/base.h"
#include "run/work.h"
#include "support/runtest.h"

#define KEYS_MAX 100
#define ORDER_MAX 128
#define WAIT_S 60
#define FREELY (INT64_C(1) << 40)

/* Where functions are inside. A task's input is the number of its key. */
struct room {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t max; /* of one key */
    int64_t inside;
    int64_t of_key[KEYS_MAX];
    int64_t entered_of[KEYS_MAX];
    int64_t exceeded; /* how often more were inside than allowed */
    int64_t entered;
    int64_t may_leave;
    int64_t order[ORDER_MAX]; /* the keys of the first ones, as they came */
};

static void room_init(struct room *r, int64_t max)
{
    *r = (struct room){.max = max};
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
}

static int visit(void *context, qp_task *task)
{
    struct room *r = context;
    long key = strtol(qp_task_input(task).p, NULL, 10);
    QP_ASSERT(key >= 0 && key < KEYS_MAX);
    (void)pthread_mutex_lock(&r->lock);
    if (r->entered < ORDER_MAX) {
        r->order[r->entered] = key;
    }
    r->entered++;
    r->entered_of[key]++;
    r->inside++;
    r->exceeded += ++r->of_key[key] > r->max;
    (void)pthread_cond_broadcast(&r->changed);
    while (r->may_leave == 0) {
        (void)pthread_cond_wait(&r->changed, &r->lock);
    }
    r->may_leave--;
    r->of_key[key]--;
    r->inside--;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    return qp_task_output(task, QP_STR("1"));
}

static void let_leave(struct room *r, int64_t count)
{
    (void)pthread_mutex_lock(&r->lock);
    r->may_leave += count;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
}

/* Until `count` have entered, those that left among them. */
static void await_entered(struct room *r, int64_t count)
{
    struct timespec until;
    int rc = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    (void)pthread_mutex_lock(&r->lock);
    while (r->entered < count && rc == 0) {
        rc = pthread_cond_timedwait(&r->changed, &r->lock, &until);
    }
    if (r->entered < count) {
        r->may_leave = FREELY; /* so that the engine can be closed */
        (void)pthread_cond_broadcast(&r->changed);
    }
    rc = r->entered < count;
    (void)pthread_mutex_unlock(&r->lock);
    if (rc != 0) {
        fail_msg("only %lld of %lld have entered: a place is free, and work is ready",
                 (long long)r->entered, (long long)count);
    }
}

static void set_limit(qp *q, int64_t max)
{
    struct qp_err err = {0};
    assert_int_equal(
        qp_limit_set(q, &(struct qp_limit){.topic = QP_STR("work"), .key = QP_STR("*"), .max = max},
                     &err),
        QP_OK);
}

static void start_threads(qp *q, int count)
{
    struct qp_err err = {0};
    if (qp_start_threads(q, count, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static void on_ended(void *context, const char *status)
{
    QP_ASSERT(strcmp(status, "completed") == 0);
    rt_add(context, 1);
}

/* Async, so that many share a commit. `ended` may be NULL. */
static void start_keyed(qp *q, int key, int priority, struct rt_count *ended)
{
    struct qp_err err = {0};
    char input[8];
    char name[8];
    struct qp_start start = {.topic = QP_STR("work"),
                             .priority = priority,
                             .context = ended,
                             .ended = ended == NULL ? NULL : on_ended};
    (void)snprintf(input, sizeof input, "%d", key);
    (void)snprintf(name, sizeof name, "k%d", key);
    start.input = str_from(input);
    start.limit_key = str_from(name);
    if (qp_job_start_async(q, &start, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

#define ON_ALL_KINDS                                                                               \
    for (int kind = 0; kind < rt_kinds(); kind++) {                                                \
        qp *q;                                                                                     \
        (void)state;                                                                               \
        rt_begin_on(kind);                                                                         \
        q = rt_open(rt_place);
#define END_KIND                                                                                   \
    rt_close(q);                                                                                   \
    rt_end();                                                                                      \
    }

/* ------------------------------------------------------------------------------------------ limits */

/* Proves that a backlog of one key is worked off to its end, though the worker takes more than the key may have. */
static void test_backlog_of_a_key(void **state)
{
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct room r;
    room_init(&r, 2);
    set_limit(q, 2);
    for (int i = 0; i < 20; i++) {
        start_keyed(q, 0, 0, &ended);
    }
    rt_poll(q);
    let_leave(&r, FREELY);
    rt_worker(q, "work", visit, &r);
    start_threads(q, 4);
    rt_await(&ended, 20);
    assert_int_equal(r.exceeded, 0);
    END_KIND
}

/* Proves that a task that is born into a worker's hands obeys the limit: with eight threads and a limit of two, two are
 * inside when all have been handed out that may be, as the end of a later job of another key shows. */
static void test_limit_at_birth(void **state)
{
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct rt_count other = RT_COUNT_INIT;
    struct room r;
    struct room free_room;
    room_init(&r, 2);
    room_init(&free_room, 2);
    let_leave(&free_room, FREELY);
    set_limit(q, 2);
    rt_worker(q, "work", visit, &r);
    rt_worker(q, "other", visit, &free_room);
    start_threads(q, 8);
    for (int i = 0; i < 20; i++) {
        start_keyed(q, 0, 0, &ended);
    }
    await_entered(&r, 2);
    for (int i = 0; i < 3; i++) {
        struct qp_err err = {0};
        assert_int_equal(qp_job_start_async(q,
                                            &(struct qp_start){.topic = QP_STR("other"),
                                                               .input = QP_STR("1"),
                                                               .context = &other,
                                                               .ended = on_ended},
                                            &err),
                         QP_OK);
        rt_await(&other, i + 1);
    }
    assert_int_equal(r.exceeded, 0);
    assert_int_equal(r.entered, 2);
    let_leave(&r, FREELY);
    rt_await(&ended, 20);
    assert_int_equal(r.exceeded, 0);
    END_KIND
}

/* How many are inside when no thread is idle that could work: one on each thread, or fewer when all that has not entered
 * yet is of keys that have all they may. Under the lock. */
static int64_t most_inside(const struct room *r, int64_t threads, int64_t jobs_of_key)
{
    int64_t most = 0;
    for (int i = 0; i < KEYS_MAX; i++) {
        int64_t open = r->of_key[i] + jobs_of_key - r->entered_of[i];
        most += open < r->max ? open : r->max;
    }
    return most < threads ? most : threads;
}

/* Until those that may leave have left, and no thread is idle that could work. Returns how many are inside. */
static int64_t await_no_idle(struct room *r, int64_t threads, int64_t jobs_of_key)
{
    struct timespec until;
    int64_t inside;
    int64_t most;
    int rc = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    (void)pthread_mutex_lock(&r->lock);
    while ((r->may_leave > 0 || r->inside < most_inside(r, threads, jobs_of_key)) && rc == 0) {
        rc = pthread_cond_timedwait(&r->changed, &r->lock, &until);
    }
    inside = r->inside;
    most = most_inside(r, threads, jobs_of_key);
    if (rc != 0) {
        r->may_leave = FREELY; /* so that the engine can be closed */
        (void)pthread_cond_broadcast(&r->changed);
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (rc != 0) {
        fail_msg("%lld are inside and %lld could be: work is ready, and a thread is idle",
                 (long long)inside, (long long)most);
    }
    return inside;
}

/* Proves both at once, counted in the functions: 10,000 jobs with 100 keys, two of each at once, on eight threads.
 *
 *   never more    of no key more than two are ever inside
 *   never idle    whenever functions have returned (one to eight of them, by turns, over the whole run), others begin
 *                 without a further return, until all eight threads are inside, or every job that has not begun is of
 *                 a key with two inside */
static void test_ten_thousand(void **state)
{
    enum { JOBS = 10000, THREADS = 8 };
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct room r;
    room_init(&r, 2);
    set_limit(q, 2);
    rt_worker(q, "work", visit, &r);
    start_threads(q, THREADS);
    for (int i = 0; i < JOBS; i++) {
        start_keyed(q, i % KEYS_MAX, 0, &ended);
    }
    for (int64_t inside = 1, turn = 0; inside > 0; turn++) {
        inside = await_no_idle(&r, THREADS, JOBS / KEYS_MAX);
        let_leave(&r, turn % THREADS < inside ? turn % THREADS + 1 : inside);
    }
    rt_await(&ended, JOBS);
    assert_int_equal(r.exceeded, 0);
    assert_int_equal(r.entered, JOBS);
    END_KIND
}

/* Proves that two processes on one database keep a limit together, and that neither leaves a place of it unused. */
static void test_limit_of_two(void **state)
{
    enum { JOBS = 300, KEYS = 5, THREADS = KEYS };
    struct qp_err err = {0};
    struct qp_count count;
    struct room r;
    qp *q[2];
    (void)state;
    if (rt_kinds() <= RT_SERVER) {
        skip();
    }
    rt_begin_on(RT_SERVER);
    room_init(&r, 1);
    for (int i = 0; i < 2; i++) {
        q[i] = rt_open(rt_place);
        rt_worker(q[i], "work", visit, &r);
    }
    set_limit(q[0], 1);
    start_threads(q[0], THREADS);
    start_threads(q[1], THREADS);
    for (int i = 0; i < JOBS; i++) {
        start_keyed(q[i % 2], i % KEYS, 0, NULL);
    }
    for (int i = 0; i < 20; i++) {
        await_entered(&r, KEYS + i); /* one of each key, wherever */
        let_leave(&r, 1);
    }
    let_leave(&r, FREELY);
    await_entered(&r, JOBS);
    rt_close(q[0]);
    rt_close(q[1]);
    assert_int_equal(r.exceeded, 0);
    q[0] = rt_open(rt_place);
    assert_int_equal(
        qp_job_count(q[0], QP_NONE, QP_STR("status=completed"), QP_COUNT_EXACT, &count, &err),
        QP_OK);
    assert_int_equal(count.count, JOBS);
    rt_close(q[0]);
    rt_check(rt_place, JOBS);
    rt_end();
}

/* Proves that a limit that is raised or taken away counts at once for its own key, and for others with the next result:
 * no task stays ready. */
static void test_limit_is_raised(void **state)
{
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct qp_err err = {0};
    struct room r;
    room_init(&r, 8);
    set_limit(q, 1);
    rt_worker(q, "work", visit, &r);
    start_threads(q, 8);
    for (int i = 0; i < 10; i++) {
        start_keyed(q, 0, 0, &ended);
        start_keyed(q, 1, 0, &ended);
    }
    await_entered(&r, 2);
    assert_int_equal(
        qp_limit_set(q, &(struct qp_limit){.topic = QP_STR("work"), .key = QP_STR("k0"), .max = 7},
                     &err),
        QP_OK);
    await_entered(&r, 8);
    set_limit(q, 0);
    let_leave(&r, 20 - 7); /* both keys, one by one, until seven are left, whichever they are */
    rt_await(&ended, 13);
    await_entered(&r, 20);
    let_leave(&r, FREELY);
    rt_await(&ended, 20);
    END_KIND
}

/* ----------------------------------------------------------------------------------------- results */

/* Proves that the result of a function is committed while its thread is in the next one. */
static void test_result_at_once(void **state)
{
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct room r;
    room_init(&r, 40);
    for (int i = 0; i < 40; i++) {
        start_keyed(q, 0, 0, &ended);
    }
    rt_poll(q);
    rt_worker(q, "work", visit, &r);
    start_threads(q, 1);
    for (int i = 0; i < 3; i++) {
        await_entered(&r, i + 1);
        let_leave(&r, 1);
        rt_await(&ended, i + 1); /* the next one is inside, or about to be, and does not leave */
    }
    let_leave(&r, FREELY);
    rt_await(&ended, 40);
    END_KIND
}

/* Proves that no task waits behind a slow one while a thread is idle. */
static void test_short_beside_long(void **state)
{
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct rt_count slow = RT_COUNT_INIT;
    struct qp_err err = {0};
    struct room r;
    struct room long_room;
    room_init(&r, 40);
    room_init(&long_room, 1);
    let_leave(&r, FREELY);
    assert_int_equal(qp_job_start_async(q,
                                        &(struct qp_start){.topic = QP_STR("long"),
                                                           .input = QP_STR("0"),
                                                           .context = &slow,
                                                           .ended = on_ended},
                                        &err),
                     QP_OK);
    for (int i = 0; i < 30; i++) {
        start_keyed(q, 0, 1, &ended); /* behind it */
    }
    rt_poll(q);
    rt_worker(q, "long", visit, &long_room);
    rt_worker(q, "work", visit, &r);
    start_threads(q, 2);
    await_entered(&long_room, 1);
    rt_await(&ended, 30);
    assert_int_equal(rt_value(&slow), 0);
    let_leave(&long_room, 1);
    rt_await(&slow, 1);
    END_KIND
}

/* ------------------------------------------------------------------------------------------- order */

/* Proves that a task of priority 0 overtakes fifty of priority 9 that are in the engine's hands. */
static void test_priority_in_hand(void **state)
{
    ON_ALL_KINDS
    struct rt_count ended = RT_COUNT_INIT;
    struct room r;
    room_init(&r, 60);
    rt_worker(q, "work", visit, &r);
    start_threads(q, 1);
    start_keyed(q, 7, 9, &ended);
    await_entered(&r, 1); /* the one thread has something to do */
    for (int i = 0; i < 50; i++) {
        start_keyed(q, 9, 9, &ended);
    }
    for (int priority = 3; priority >= 0; priority -= 3) {
        start_keyed(q, priority, priority, &ended);
    }
    rt_start_with(q, &(struct qp_start){.topic = QP_STR("unserved"), .input = QP_STR("1")});
    let_leave(&r,
              FREELY); /* the start of the last is committed, so those before it are handed out */
    rt_await(&ended, 53);
    assert_int_equal(r.order[0], 7);
    assert_int_equal(r.order[1], 0);
    assert_int_equal(r.order[2], 3);
    assert_int_equal(r.order[3], 9);
    END_KIND
}

/* ------------------------------------------------------------------------------- workers elsewhere */

struct caller {
    struct work_call call;
    qp_str topic;
    struct work_result result;
    char token[WORK_TOKEN_SIZE];
    int answers;
};

static void on_answer(void *context, struct work_call *call, int rc, const char *why)
{
    struct caller *c = context;
    (void)call;
    (void)why;
    QP_ASSERT(rc == QP_OK || rc == QP_E_CLOSED);
    c->answers++;
}

/* A call for `want` tasks; with a token, one that brings its result. */
static void call_make(qp *q, struct caller *c, int64_t want, const char *token)
{
    struct qp_err err = {0};
    *c = (struct caller){.topic = QP_STR("work")};
    c->call = (struct work_call){.worker = QP_STR("w"),
                                 .caller = {QP_STR("token-1"), QP_STR("secret")},
                                 .topics = &c->topic,
                                 .topic_count = want > 0 ? 1 : 0,
                                 .want = want,
                                 .wait_ms = want > 0 ? 60000 : 0,
                                 .context = c,
                                 .answer = on_answer};
    if (token != NULL) {
        c->result = (struct work_result){
            .token = str_from(token), .kind = WORK_SUCCESS, .output = QP_STR("1")};
        c->call.results = &c->result;
        c->call.result_count = 1;
    }
    if (work_submit(q, &c->call, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

static void await_answer(qp *q, struct caller *c)
{
    rt_poll_until(q, &c->answers);
    assert_int_equal(c->answers, 1);
}

static void bring(qp *q, const char *token)
{
    struct caller c;
    call_make(q, &c, 0, token);
    await_answer(q, &c);
    assert_int_equal(c.result.status, WORK_OK);
    work_done(q, &c.call, WORK_TOLD);
}

static void abort_all(qp *q, struct caller *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].answers == 0) {
            work_abort(q, &calls[i].call);
            await_answer(q, &calls[i]);
        }
        work_done(q, &calls[i].call, WORK_TOLD);
    }
}

/* How many of the calls have tasks, when nothing more happens by itself. */
static int answered(qp *q, const struct caller *calls, size_t count, int expected)
{
    int sum = 0;
    for (int i = 0; i < 50 && sum != expected; i++) {
        rt_poll(q);
        sum = 0;
        for (size_t j = 0; j < count; j++) {
            sum += calls[j].answers > 0;
        }
    }
    rt_poll(q);
    return sum;
}

/* With six calls that wait for a task each, two of the key's twenty are out at any time, whether the tasks are there
 * first, or the calls. */
static void work_off(qp *q, bool calls_first)
{
    struct caller calls[6];
    struct rt_count ended = RT_COUNT_INIT;
    int left = 20;
    set_limit(q, 2);
    for (size_t i = 0; calls_first && i < ARRAY_COUNT(calls); i++) {
        call_make(q, &calls[i], 1, NULL);
        rt_poll(q);
    }
    for (int i = 0; i < left; i++) {
        start_keyed(q, 0, 0, &ended);
    }
    rt_poll(q);
    for (size_t i = 0; !calls_first && i < ARRAY_COUNT(calls); i++) {
        call_make(q, &calls[i], 1, NULL);
    }
    while (left > 0) {
        int out = left < 2 ? left : 2;
        assert_int_equal(answered(q, calls, ARRAY_COUNT(calls), out), out);
        for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
            if (calls[i].answers > 0) {
                char token[WORK_TOKEN_SIZE];
                assert_int_equal(calls[i].call.task_count, 1);
                assert_int_equal(calls[i].call.tasks->attempt, 1);
                memcpy(token, calls[i].call.tasks->token, sizeof token);
                work_done(q, &calls[i].call, WORK_TOLD);
                call_make(q, &calls[i], 1, NULL);
                bring(q, token);
                left--;
                break;
            }
        }
        assert_int_equal(rt_value(&ended), 20 - left); /* each with its own result */
    }
    abort_all(q, calls, ARRAY_COUNT(calls));
}

static void test_elsewhere(void **state)
{
    for (int calls_first = 0; calls_first < 2; calls_first++) {
        ON_ALL_KINDS
        work_off(q, calls_first != 0);
        END_KIND
    }
}

/* Its input is its priority. */
static void start_unkeyed(qp *q, int priority)
{
    struct qp_err err = {0};
    char input[8];
    (void)snprintf(input, sizeof input, "%d", priority);
    if (qp_job_start_async(q,
                           &(struct qp_start){.topic = QP_STR("work"),
                                              .input = str_from(input),
                                              .priority = priority},
                           &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}

/* Proves that a task that is born does not overtake one of a better priority that is ready, and that of those that are
 * ready the best is handed out. */
static void test_priority_elsewhere(void **state)
{
    ON_ALL_KINDS
    static const int64_t expected[] = {0, 5, 9};
    start_unkeyed(q, 5);
    rt_poll(q);
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        struct caller c;
        call_make(q, &c, 1, NULL); /* in one round with what is started here */
        if (i == 0) {
            start_unkeyed(q, 9);
            start_unkeyed(q, 0);
        }
        await_answer(q, &c);
        assert_int_equal(c.call.task_count, 1);
        assert_int_equal(strtol(c.call.tasks->input.p, NULL, 10), expected[i]);
        work_done(q, &c.call, WORK_TOLD);
    }
    END_KIND
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backlog_of_a_key),  cmocka_unit_test(test_limit_at_birth),
        cmocka_unit_test(test_limit_of_two),      cmocka_unit_test(test_ten_thousand),
        cmocka_unit_test(test_limit_is_raised),   cmocka_unit_test(test_result_at_once),
        cmocka_unit_test(test_short_beside_long), cmocka_unit_test(test_priority_in_hand),
        cmocka_unit_test(test_elsewhere),         cmocka_unit_test(test_priority_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
