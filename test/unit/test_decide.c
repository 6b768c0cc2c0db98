/* test_decide.c - an activity that decides: rows at chosen addresses, answers to other activities in the same commit
 *
 * A small program on a real engine, on every provider, stepwise and fused. "flow,0,0" takes answers of its worker as long as
 * its job is open; an answer is a list of words:
 *
 *     @aX   an event of category A at this address: a task of its own
 *     @bX   one of category B: all in Leg1
 *     @lX   one of category B that takes further entries (a loop); "=@lX": the answer `now` to it
 *     end   the flow gives its obligation up
 *     #N    the decision has seen all up to journal sequence N; *N: it wants to be woken after N notifications
 *
 * Every answer to an event notifies the flow. An event at "@au.." is urgent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/deciding.h"
#include "support/enginetest.h"

static struct enginetest x;
static const struct actor no_actors[] = {{0}};

#define FLOW QP_STR("flow,0,0")

static bool is_flow(const struct turn *t)
{
    return str_equal(t->site.addr, FLOW);
}

static bool next_word(qp_str *rest, qp_str *out_word)
{
    const char *blank = rest->n == 0 ? NULL : memchr(rest->p, ' ', rest->n);
    size_t n = blank == NULL ? rest->n : (size_t)(blank - rest->p);
    *out_word = (qp_str){rest->p, n};
    *rest = blank == NULL ? (qp_str){rest->p, 0} : (qp_str){rest->p + n + 1, rest->n - n - 1};
    return n > 0;
}

static int describe(struct turn *t, struct op_act_create *row)
{
    assert_true(is_flow(t)); /* the others have their rows */
    row->category = 'A';
    row->cyclic = CYCLIC_OPEN;
    row->topic = QP_STR("t");
    row->policy = QP_STR("attempts=2,backoff=1000,factor=1,park=1,deliveries=3,never=422");
    return QP_OK;
}

static int enter(struct turn *t)
{
    if (is_flow(t)) {
        return turn_decision(t, FLOW);
    }
    return t->act->category == 'A' ? turn_task(t, QP_STR("t")) : QP_OK;
}

static int work(struct turn *t, struct work *work)
{
    qp_str rest = work->output;
    qp_str word;
    while (is_flow(t) && next_word(&rest, &word)) {
        struct op_act_create row = {.addr = word,
                                    .kind = 1,
                                    .version = 2,
                                    .category = word.p[1] == 'a' ? 'A' : 'B',
                                    .cyclic = word.p[1] == 'l' ? CYCLIC_OPEN : CYCLIC_NO};
        if (word.p[0] == '@') {
            QP_TRY(turn_row(t, &row));
        }
    }
    return QP_OK;
}

static int64_t number_of(qp_str word)
{
    int64_t number = 0;
    for (size_t i = 1; i < word.n; i++) {
        number = number * 10 + (word.p[i] - '0');
    }
    return number;
}

static int flow_spawn(struct turn *t, struct spawn *spawn)
{
    qp_str rest = t->guid.output;
    qp_str word;
    spawn->given = true;
    spawn->notify = (struct op_act_notify){.addr = FLOW, .rests = true};
    while (next_word(&rest, &word)) {
        if (word.p[0] == '#') {
            spawn->notify.seen = number_of(word);
        } else if (word.p[0] == '*') {
            spawn->notify.after = number_of(word);
        } else if (word.p[0] == '@') {
            QP_TRY(turn_child_at(t, word));
        } else if (word.p[0] == '=') {
            struct answer_at at = {.addr = {word.p + 1, word.n - 1},
                                   .purpose = QP_STR("loop"),
                                   .code = 200,
                                   .payload = QP_STR("again"),
                                   .each = true,
                                   .now = true};
            QP_TRY(turn_answer_at(t, &at));
        } else {
            spawn->delta--;
            spawn->notify.addr = QP_NONE; /* it has returned: no decision follows */
        }
    }
    spawn->delta += t->child_count;
    return QP_OK;
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    if (t->act->category == 'D') {
        return turn_child(t, QP_STR("flow"), QP_NONE);
    }
    if (is_flow(t)) {
        return flow_spawn(t, spawn);
    }
    if (t->act->category == 'A') {
        spawn->notify = (struct op_act_notify){.addr = FLOW, .urgent = t->site.addr.p[2] == 'u'};
    }
    if (t->act->cyclic == CYCLIC_OPEN && guid_ordinal(t->guid.ledger) > 0) {
        spawn->given = true; /* a later entry of a loop owes nothing */
    }
    return QP_OK;
}

static void open_program(enum storetest_kind kind, bool stepwise)
{
    enginetest_init(&x, kind, no_actors);
    x.cast.program = (struct program){.kind = CAST_KIND,
                                      .name = "decide",
                                      .describe = describe,
                                      .enter = enter,
                                      .work = work,
                                      .spawn = spawn};
    x.options.stepwise = stepwise;
    enginetest_open(&x);
    (void)enginetest_start(&x, "a");
    enginetest_settle(&x);
}

static void decide(const char *words)
{
    struct task *task = enginetest_task(&x, "a", "flow,0,0");
    assert_non_null(task);
    assert_int_equal(enginetest_result(&x, task, RESULT_DONE, words), QP_OK);
    enginetest_forget(&x, task);
    enginetest_settle(&x);
}

typedef void (*body)(bool stepwise);

static void each(body test)
{
    for (int kind = 0; kind < STORETEST_KINDS; kind++) {
        for (int stepwise = 0; stepwise < 2; stepwise++) {
            open_program((enum storetest_kind)kind, stepwise != 0);
            test(stepwise != 0);
            enginetest_check(&x);
            enginetest_done(&x);
        }
    }
}

static void digits(const char *addr, const char *want)
{
    assert_string_equal(enginetest_digits(&x, addr), want);
}

static void rows_and_entries(bool stepwise)
{
    const struct act_row *event;
    (void)stepwise;
    decide("@a1 @b1 @l1 end");
    digits("flow,0,0", "001100000000001 000011000000001");
    digits("@a1", "001100000000000");
    digits("@b1", "201100000000000 000011000000000");
    digits("@l1", "001100000000000 000011000000000");
    event = enginetest_act(&x, x.job, "@a1");
    assert_int_equal(event->version, 2);
    assert_int_equal(event->kind, 1);
    assert_int_equal(enginetest_job(&x, x.job)->sem, 1);
    (void)enginetest_work(&x);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
}

/* A decision's rows are made in step 1 and entered in step 2, with the digits of any other child; the job ends when the last
 * event does. */
static void test_rows_and_entries(void **state)
{
    (void)state;
    each(rows_and_entries);
}

static void answer_now(bool stepwise)
{
    (void)stepwise;
    decide("@l1 @l2 =@l1 =@l2 end @a1");
    digits("@l1", "001100000000001 000011000000000 000011000000001");
    digits("@l2", "001100000000001 000011000000000 000011000000001");
    (void)enginetest_work(&x);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
}

/* An answer `now` stands with the step that gives it, whether its target has been entered before or not; one purpose
 * answers several. */
static void test_answer_now(void **state)
{
    (void)state;
    each(answer_now);
}

/* The decision in hand, on all that has happened. */
static void decide_on_all(const char *words)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%s #%lld", words, (long long)enginetest_job(&x, x.job)->seq);
    decide(text);
}

static void answer(const char *addr)
{
    struct task *task = enginetest_task(&x, "a", addr);
    assert_non_null(task);
    assert_int_equal(enginetest_result(&x, task, RESULT_DONE, "ok"), QP_OK);
    enginetest_forget(&x, task);
    enginetest_settle(&x);
}

static bool is_out(void)
{
    return enginetest_task(&x, "a", "flow,0,0") != NULL;
}

static void one_decision_at_a_time(bool stepwise)
{
    (void)stepwise;
    assert_int_equal(enginetest_act(&x, x.job, "flow,0,0")->waits, ACT_BUSY);
    decide_on_all("@a1 @a2 @a3");
    assert_false(is_out());
    assert_int_equal(enginetest_act(&x, x.job, "flow,0,0")->waits, ACT_WAITS);
    answer("@a1"); /* puts a decision */
    assert_true(is_out());
    answer("@a2");                                              /* comes while it is out */
    assert_int_equal(enginetest_rows(&x, TABLE_msg, x.job), 2); /* the decision and @a3's task */
    decide("#4"); /* it had not seen the second answer: another decision */
    assert_true(is_out());
    decide_on_all("*1");
    assert_false(is_out());
    answer("@a3");
    decide_on_all("end");
    assert_false(is_out());
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
}

/* At most one decision is out; what happens meanwhile puts the next one with its rest; what it has seen does not. */
static void test_one_decision_at_a_time(void **state)
{
    (void)state;
    each(one_decision_at_a_time);
}

static void woken_after(bool stepwise)
{
    (void)stepwise;
    decide_on_all("@a1 @a2 @a3 @au @a5 *3");
    answer("@a1");
    answer("@a2");
    assert_false(is_out());
    answer("@a3"); /* the third */
    assert_true(is_out());
    decide_on_all("*2");
    answer("@au"); /* urgent: the first is enough */
    assert_true(is_out());
    decide_on_all("end");
    answer("@a5"); /* it has returned: no decision follows */
    assert_false(is_out());
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
}

/* A decision may wait for several notifications; an urgent one does not wait. */
static void test_woken_after(void **state)
{
    (void)state;
    each(woken_after);
}

static int decide_with(struct request_result *r)
{
    struct task *task = enginetest_task(&x, "a", "flow,0,0");
    int rc;
    assert_non_null(task);
    r->task = task;
    request_result(r);
    rc = enginetest_ask(&x, &r->command);
    enginetest_forget(&x, task);
    return rc;
}

static void unpark(void)
{
    static struct request_unpark r;
    r = (struct request_unpark){.ns = STORE_NS_DEFAULT, .jid = QP_STR("a")};
    request_unpark(&r);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    enginetest_settle(&x);
}

static void parked_as(const char *text)
{
    qp_str parked = enginetest_job(&x, x.job)->parked;
    assert_true(str_equal(parked, str_from(text)));
    assert_false(is_out());
    enginetest_check(&x);
}

static void result_that_parks(bool stepwise)
{
    static struct request_result r;
    (void)stepwise;
    r = (struct request_result){
        .kind = RESULT_PARK, .reason = QP_STR("diverged"), .error = QP_STR("{2} is not bar")};
    assert_int_equal(decide_with(&r), QP_OK);
    parked_as("diverged: {2} is not bar");
    digits("flow,0,0", "001100000000000"); /* nothing of the decision */
    unpark();
    assert_true(is_out()); /* the same one again */
    decide_on_all("end");
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
}

/* A result that parks keeps its task for later and writes nothing else; the same decision comes again. */
static void test_result_that_parks(void **state)
{
    (void)state;
    each(result_that_parks);
}

static void fail_once(int64_t code)
{
    static struct request_result r;
    r = (struct request_result){.kind = RESULT_ERROR, .code = code, .error = QP_STR("no")};
    assert_int_equal(decide_with(&r), QP_OK);
}

static void failures_park(bool stepwise)
{
    (void)stepwise;
    fail_once(500);
    enginetest_wait(&x, 1000);
    assert_true(is_out()); /* the second attempt */
    fail_once(500);
    parked_as("decision_failed: no");
    unpark();
    fail_once(500); /* attempts begin again */
    enginetest_wait(&x, 1000);
    decide_on_all("@a1");
    assert_int_equal(enginetest_act(&x, x.job, "flow,0,0")->attempt, 0);
    answer("@a1");
    fail_once(422); /* is never tried again */
    parked_as("decision_failed: no");
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_OK); /* with no worker */
}

/* A decision is tried as often as its policy says, then its job is parked; the failures of one do not count for the next. */
static void test_failures_park(void **state)
{
    (void)state;
    each(failures_park);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_entries),       cmocka_unit_test(test_answer_now),
        cmocka_unit_test(test_one_decision_at_a_time), cmocka_unit_test(test_woken_after),
        cmocka_unit_test(test_result_that_parks),      cmocka_unit_test(test_failures_park),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
