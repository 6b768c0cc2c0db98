/* test_upgrade.c - the code of many flows changes while they are at random points of it
 *
 *   right   the code gains steps (in the flow, in a closure, in a loop), loses one and asks for the version: all flows finish,
 *           none is parked, and every step has run as often as the point says at which its flow stood
 *   wrong   a step is exchanged without a mark: exactly the flows that have recorded it are parked, with the location and both
 *           sides; with the code as it was before, a retry finishes them
 *
 * The torture lane has 10,000 flows on a file. The seed is printed, and QP_SEED chooses it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/runtest.h"

#define FLOWS_MOST 10000
#define IN_HAND 4096 /* more than stand at one activity */

/* Where a flow can stand. A worker never answers at an activity's point, and the signal of a listen's is sent later. */
enum point {
    AT_A,
    AT_B,
    AT_FIRST_LISTEN,
    AT_C,
    AT_D, /* in the closure */
    AT_ROUND_1,
    AT_ROUND_2,
    AT_SECOND_LISTEN,
    AT_F,
    POINTS,
    NOWHERE = POINTS
};

enum edition { FIRST, EDITED, WRONG };

/* Names of activities, as counters have them. */
static const char *const names[] = {"a", "b", "c", "d", "e", "f", "x", "y", "z", "c2", "cc"};
#define NAMES ARRAY_COUNT(names)

static struct {
    size_t count;
    enum edition edition;
    enum point point[FLOWS_MOST];
    uint8_t done[FLOWS_MOST][NAMES]; /* results by name */
    bool parked[FLOWS_MOST];
} drill;

/* ------------------------------------------------------------------------------------------ the code */

/* The flow, as the loop and the closure see it. */
struct here {
    size_t index;
};

/* An activity at a point where its flow may stand. */
static int step(qp_flow *flow, const struct here *here, const char *name, enum point point)
{
    char input[64];
    int n = snprintf(input, sizeof input, "[%zu,%d]", here->index, (int)point);
    return qp_activity(flow, name, (qp_str){input, (size_t)n}, NULL, NULL);
}

static int part(qp_flow *flow, void *context)
{
    QP_TRY(step(flow, context, "d", AT_D));
    return drill.edition == EDITED ? step(qp_v(flow, 2), context, "y", NOWHERE) : QP_OK;
}

static int rounds(qp_flow *flow, const struct here *here)
{
    struct qp_loop loop = {.name = "rounds", .state = QP_STR("0")};
    while (qp_loop_next(flow, &loop)) {
        bool last = qp_str_is(loop.state, "1");
        if (drill.edition == EDITED) {
            QP_TRY(step(qp_v(flow, 2), here, "z", NOWHERE));
        }
        QP_TRY(step(flow, here, "e", last ? AT_ROUND_2 : AT_ROUND_1));
        if (last) {
            qp_loop_break(flow, &loop, QP_STR("null"));
        } else {
            qp_loop_state(flow, &loop, QP_STR("1"));
        }
    }
    return loop.rc;
}

/* The step that becomes another one: rightly, or wrongly. */
static int third(qp_flow *flow, const struct here *here, int64_t *out_version)
{
    *out_version = 1;
    if (drill.edition == EDITED) {
        QP_TRY(qp_check_version(flow, 2, out_version));
    }
    return *out_version == 2 ? step(qp_v(flow, 2), here, "c2", NOWHERE)
                             : step(flow, here, drill.edition == WRONG ? "cc" : "c", AT_C);
}

static int upgraded(qp_flow *flow, qp_str input, void *context)
{
    char number[16] = "";
    struct here here;
    int64_t version;
    (void)context;
    memcpy(number, input.p, input.n < sizeof number - 1 ? input.n : sizeof number - 1);
    here.index = strtoul(number, NULL, 10);
    QP_TRY(step(flow, &here, "a", AT_A));
    if (drill.edition == EDITED) {
        QP_TRY(step(qp_v(flow, 2), &here, "x", NOWHERE));
        QP_TRY(qp_removed(flow, QP_EVENT_ACTIVITY, "b"));
    } else {
        QP_TRY(step(flow, &here, "b", AT_B));
    }
    QP_TRY(qp_listen(flow, "go", NULL, NULL));
    QP_TRY(third(flow, &here, &version));
    QP_TRY(qp_closure(flow, "part", part, &here, NULL));
    QP_TRY(rounds(flow, &here));
    QP_TRY(qp_listen(flow, "go", NULL, NULL));
    QP_TRY(step(flow, &here, "f", AT_F));
    return qp_return(flow, version == 2 ? QP_STR("2") : QP_STR("1"));
}

/* --------------------------------------------------------------------------------------- the world */

/* Answers, but not at the point where the flow is to stand: what is detached stays in hand until the engine closes. */
static int work(void *context, qp_task *task)
{
    bool stops = *(const bool *)context;
    qp_str topic = qp_task_topic(task);
    char text[64] = "";
    char *comma;
    unsigned long index;
    unsigned long point;
    qp_str input = qp_task_input(task);
    QP_ASSERT(input.n < sizeof text);
    memcpy(text, input.p, input.n);
    index = strtoul(text + 1, &comma, 10);
    QP_ASSERT(*comma == ',');
    point = strtoul(comma + 1, NULL, 10);
    if (stops && point == drill.point[index]) {
        return qp_task_detach(task, NULL);
    }
    for (size_t i = 0; i < NAMES; i++) {
        drill.done[index][i] += str_equal(topic, str_from(names[i]));
    }
    return qp_task_output(task, QP_STR("null"));
}

/* The process with this edition of the code. */
static qp *open_with(enum edition edition, const bool *stops)
{
    struct qp_err err = {0};
    qp *q = rt_open(rt_place);
    bool *context;
    drill.edition = edition;
    memcpy(&context, &stops, sizeof stops); /* it is only read */
    for (size_t i = 0; i < NAMES; i++) {
        struct qp_worker worker = {
            .topic = str_from(names[i]), .work = work, .context = context, .in_hand = IN_HAND};
        assert_int_equal(qp_worker_add(q, &worker, &err), QP_OK);
    }
    if (qp_flow_add(q, &(struct qp_flow_kind){.name = QP_STR("drill"), .function = upgraded},
                    &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    return q;
}

static const char *id_of(size_t index, char out_id[24])
{
    (void)snprintf(out_id, 24, "u%zu", index);
    return out_id;
}

static void send(qp *q, size_t index, int times)
{
    char id[24];
    struct qp_err err = {0};
    for (int i = 0; i < times; i++) {
        if (qp_signal_send(q,
                           &(struct qp_signal){.job = str_from(id_of(index, id)),
                                               .topic = QP_STR("go"),
                                               .payload = QP_STR("1")},
                           &err) != QP_OK) {
            fail_msg("%s", err.text);
        }
    }
}

/* Signals that a flow gets before it stands at its point: of two. */
static int early(enum point point)
{
    return point == AT_FIRST_LISTEN ? 0 : point == AT_SECOND_LISTEN ? 1 : 2;
}

/* All flows run the first edition up to their points, and the process ends. */
static void begin(int kind, uint64_t *random)
{
    static const bool stops = true;
    char id[24];
    char input[24];
    qp *q;
    bool torture = testenv_is_torture() && !testenv_is_sanitized();
    drill.count = !torture ? 3 * POINTS : kind == RT_FILE ? FLOWS_MOST : 1000;
    memset(drill.done, 0, sizeof drill.done);
    memset(drill.parked, 0, sizeof drill.parked);
    rt_begin_on(kind);
    q = open_with(FIRST, &stops);
    for (size_t i = 0; i < drill.count; i++) {
        int n = snprintf(input, sizeof input, "%zu", i);
        drill.point[i] =
            i < POINTS ? (enum point)i : (enum point)testenv_random_below(random, POINTS);
        rt_start_with(q, &(struct qp_start){.topic = QP_STR("drill"),
                                            .id = str_from(id_of(i, id)),
                                            .input = {input, (size_t)n}});
        send(q, i, early(drill.point[i]));
    }
    rt_poll(q);
    rt_close(q);
}

/* What is missing to the end; then all that can be done is done. */
static void send_rest(qp *q)
{
    for (size_t i = 0; i < drill.count; i++) {
        send(q, i, 2 - early(drill.point[i]));
    }
    rt_poll(q);
}

static void expect_count(qp *q, const char *where, size_t count)
{
    struct qp_count counted;
    struct qp_err err = {0};
    if (qp_job_count(q, QP_NONE, str_from(where), QP_COUNT_EXACT, &counted, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(counted.count, (int64_t)count);
}

static void end(qp *q)
{
    rt_close(q);
    rt_check(rt_place, (int64_t)drill.count);
    rt_end();
}

/* ------------------------------------------------------------------------------------------- right */

static void expect_done(size_t index, const char *name, int times)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (strcmp(names[i], name) == 0 && drill.done[index][i] != times) {
            fail_msg("flow %zu, which stood at %d: '%s' has run %d times, not %d", index,
                     (int)drill.point[index], name, drill.done[index][i], times);
        }
    }
}

/* What a flow that stood at its point has done in the end. */
static void expect_finished(qp *q, size_t index)
{
    char id[24];
    enum point point = drill.point[index];
    bool old = point >= AT_C; /* the step is recorded: its flow keeps the old way */
    rt_wait(q, id_of(index, id), "completed");
    rt_expect(q, id, "completed", old ? "1" : "2");
    expect_done(index, "a", 1);
    expect_done(index, "x", 1);
    expect_done(index, "b", point >= AT_B ? 1 : 0);
    expect_done(index, "c", old ? 1 : 0);
    expect_done(index, "c2", old ? 0 : 1);
    expect_done(index, "d", 1);
    expect_done(index, "y", 1);
    expect_done(index, "z",
                point > AT_ROUND_2 ? 0 : 2); /* a loop that has ended is not entered again */
    expect_done(index, "e", 2);
    expect_done(index, "f", 1);
}

static void test_right_edits(void **state)
{
    static const bool goes_on = false;
    uint64_t random = testenv_seed();
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        qp *q;
        begin(kind, &random);
        q = open_with(EDITED, &goes_on);
        send_rest(q);
        for (size_t i = 0; i < drill.count; i++) {
            expect_finished(q, i);
        }
        expect_count(q, "status=completed", drill.count);
        end(q);
    }
}

/* ------------------------------------------------------------------------------------------- wrong */

#define BOTH_SIDES                                                                                 \
    "history and code differ at {4}: history has activity 'c' v1, the code has activity 'cc' v1"

/* Parked when it has recorded the step that was exchanged, else finished with the other one. */
static void expect_parked(qp *q, size_t index)
{
    char id[24];
    struct qp_err err = {0};
    struct qp_job job;
    bool breaks = drill.point[index] >= AT_C;
    int rc = qp_job_wait(q, str_from(id_of(index, id)), 60000, &job, &err);
    if (rc == QP_OK) {
        qp_job_done(q, &job);
    }
    assert_int_equal(rc, breaks ? QP_E_PARKED : QP_OK);
    assert_int_equal(qp_job_get(q, str_from(id), &job, &err), QP_OK);
    assert_string_equal(job.status, breaks ? "parked" : "completed");
    if (breaks && memmem(job.error.p, job.error.n, BOTH_SIDES, strlen(BOTH_SIDES)) == NULL) {
        fail_msg("'" BOTH_SIDES "' is not in: %.*s", STR_ARG(job.error));
    }
    qp_job_done(q, &job);
    expect_done(index, "cc", breaks ? 0 : 1);
    drill.parked[index] = breaks;
}

static size_t parked_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < drill.count; i++) {
        count += drill.parked[i];
    }
    return count;
}

/* With the code as it was. */
static void revert(qp *q)
{
    for (size_t i = 0; i < drill.count; i++) {
        struct qp_err err = {0};
        char id[24];
        if (drill.parked[i] && qp_job_retry(q, str_from(id_of(i, id)), &err) != QP_OK) {
            fail_msg("%s", err.text);
        }
    }
    rt_poll(q);
    for (size_t i = 0; i < drill.count; i++) {
        char id[24];
        rt_wait(q, id_of(i, id), "completed");
        expect_done(i, "c", drill.parked[i] ? 1 : 0);
        expect_done(i, "f", 1);
    }
}

static void test_a_wrong_edit(void **state)
{
    static const bool goes_on = false;
    uint64_t random = testenv_seed();
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        qp *q;
        begin(kind, &random);
        q = open_with(WRONG, &goes_on);
        send_rest(q);
        for (size_t i = 0; i < drill.count; i++) {
            expect_parked(q, i);
        }
        assert_true(parked_count() > 0 && parked_count() < drill.count);
        expect_count(q, "status=parked", parked_count());
        expect_count(q, "status=completed", drill.count - parked_count());
        rt_close(q);
        q = open_with(FIRST, &goes_on);
        revert(q);
        expect_count(q, "status=completed", drill.count);
        end(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_edits),
        cmocka_unit_test(test_a_wrong_edit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
