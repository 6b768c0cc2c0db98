/* test_decide.c - an activity that decides: rows at chosen addresses, answers to other activities in the same commit
 *
 * A small program on a real engine, on every provider, stepwise and fused. "flow,0,0" takes answers of its worker as long as
 * its job is open; an answer is a list of words:
 *
 *     @aX   an event of category A at this address: a task of its own
 *     @bX   one of category B: all in Leg1
 *     @lX   one of category B that takes further entries (a loop); "=@lX": the answer `now` to it
 *     end   the flow gives its obligation up
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
    return QP_OK;
}

static int enter(struct turn *t)
{
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

static int flow_spawn(struct turn *t, struct spawn *spawn)
{
    qp_str rest = t->guid.output;
    qp_str word;
    spawn->given = true;
    while (next_word(&rest, &word)) {
        if (word.p[0] == '@') {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_entries),
        cmocka_unit_test(test_answer_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
