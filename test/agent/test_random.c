/* test_random.c - generated programs and inputs: the engine agrees, array by array, with a naive second model
 *
 * The model is the document and its rulings in one struct of plain arrays, scanned from the beginning each time. A program is a
 * function of seed, branch and step, so that it replays. QP_SEED gives the seed of a run.
 *
 * One program in ten is run over rows: each turn loads the window that it may ask for, and saves what it has changed.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/instance.h"
#include "support/agentrows.h"
#include "support/testenv.h"

#define ROOM 4000

struct naive_work {
    int64_t branch, step, item, state, attempt, completion, end;
    int event; /* 0: none */
    bool sync, is_wait, completed, failing, started, waiting;
};

struct naive_action {
    int64_t time;
    enum hook hook;
    int event, work; /* work -1: none */
    int64_t attempt;
};

struct naive_branch {
    struct naive_action action;
    int64_t start;
    bool ended;
};

static struct model {
    struct naive_branch branches[ROOM];
    int64_t executions[ROOM];
    struct naive_work works[ROOM];
    struct naive_action buffer[ROOM];
    int waits[ROOM];
    int64_t keys[ROOM], values[ROOM];
    int branch_count, execution_count, work_count, buffer_count, wait_count, property_count;
    int64_t ongoing, triggered;
    bool out, over;
} m;

static struct testenv t;
static struct arena arena;
static struct instance s;
static uint64_t program;
static bool over_rows;
static struct agentrows rows;
static struct stored stored;

static uint64_t mix(int64_t a, int64_t b, int64_t c)
{
    int64_t numbers[] = {a, b, c};
    return hash_bytes(program, numbers, sizeof(numbers));
}

/* -------------------------------------------------------------------------------------- the rows */

static void load(unsigned windows)
{
    struct row_source source = agentrows_source(&rows);
    if (over_rows) {
        assert_int_equal(stored_load(&source, &arena, windows, &s, &stored), QP_OK);
    }
}

static void load_whole(void)
{
    struct row_source source = agentrows_source(&rows);
    if (over_rows) {
        assert_int_equal(stored_load_whole(&source, &arena, &s), QP_OK);
    }
}

static void load_draft(void)
{
    struct row_source source = agentrows_source(&rows);
    if (over_rows) {
        assert_int_equal(stored_load_draft(&source, &arena, &s), QP_OK);
    }
}

static void save(void)
{
    struct row_sink sink = agentrows_sink(&rows);
    if (over_rows) {
        assert_int_equal(stored_save(&stored, &sink, &s), QP_OK);
    }
}

/* ------------------------------------------------------------------------------------- the model */

static void m_push(struct naive_action a)
{
    assert_true(m.buffer_count < ROOM);
    m.buffer[m.buffer_count++] = a;
}

static void m_end_wait(int w, int64_t time)
{
    m.works[w].completed = true;
    m.works[w].waiting = false;
    m_push((struct naive_action){.time = time, .hook = HOOK_SUCCESS, .work = w});
    for (int i = 0; i < m.wait_count; i++) {
        if (m.waits[i] == w) {
            memmove(&m.waits[i], &m.waits[i + 1], (size_t)(m.wait_count - i - 1) * sizeof(int));
            m.wait_count--;
        }
    }
}

static void m_end_until(int64_t last)
{
    for (;;) {
        int first = -1;
        for (int i = 0; i < m.wait_count; i++) {
            int64_t at = m.works[m.waits[i]].end;
            if (at <= last && (first < 0 || at < m.works[first].end)) {
                first = m.waits[i];
            }
        }
        if (first < 0) {
            return;
        }
        m_end_wait(first, m.works[first].end);
    }
}

static void m_trigger(int64_t now)
{
    if (m.out || m.buffer_count == 0) {
        return;
    }
    m.ongoing = m.execution_count;
    while (m.buffer_count > 0) {
        int first = 0;
        for (int i = 1; i < m.buffer_count; i++) {
            first = m.buffer[i].time < m.buffer[first].time ? i : first;
        }
        struct naive_action a = m.buffer[first];
        memmove(&m.buffer[first], &m.buffer[first + 1],
                (size_t)(m.buffer_count - first - 1) * sizeof(a));
        m.buffer_count--;
        m.branches[m.branch_count] = (struct naive_branch){.action = a, .start = m.execution_count};
        m.executions[m.execution_count++] = m.branch_count++;
        assert_true(m.execution_count < ROOM - 2);
        struct naive_work *w = &m.works[a.work < 0 ? 0 : a.work];
        if (a.hook == HOOK_SUCCESS) {
            w->state = WORK_SUCCESSFUL;
            w->completion = w->sync ? m.execution_count : m.execution_count - 1;
            if (w->sync) {
                m.executions[m.execution_count++] = w->branch;
            }
        } else if (a.hook == HOOK_FAILURE && a.attempt == w->attempt) {
            w->state = WORK_FAILED;
            w->failing = false;
        }
    }
    m.out = true;
    m.triggered = now;
}

static int64_t m_properties(int64_t index)
{
    int64_t value = 0;
    for (int i = 0; i < m.property_count; i++) {
        value = m.keys[i] <= index ? m.values[i] : value;
    }
    return value;
}

static int m_find(int64_t branch, int64_t step, int64_t item)
{
    for (int i = 0; i < m.work_count; i++) {
        if (m.works[i].branch == branch && m.works[i].step == step && m.works[i].item == item) {
            return i;
        }
    }
    return -1;
}

/* The ends of a wait that is new: event, time, or none yet. `from`: behind the execution that scheduled it. */
static void m_schedule_wait(int w, int64_t from, int64_t now)
{
    int64_t by_event = INT64_MAX;
    int64_t by_time = m.works[w].end > m.triggered ? m.works[w].end : m.triggered;
    m_push((struct naive_action){.time = m.triggered, .hook = HOOK_START, .work = w});
    for (int64_t i = from + 1; i < m.execution_count && by_event == INT64_MAX; i++) {
        const struct naive_branch *b = &m.branches[m.executions[i]];
        if (b->start == i && b->action.hook == HOOK_EVENT && m.works[w].event == b->action.event) {
            by_event = m.triggered;
        }
    }
    for (int i = 0; i < m.buffer_count && by_event != m.triggered; i++) {
        const struct naive_action *a = &m.buffer[i];
        if (a->hook == HOOK_EVENT && a->event == m.works[w].event && a->time < by_event) {
            by_event = a->time > m.triggered ? a->time : m.triggered;
        }
    }
    if (by_event != INT64_MAX && by_event <= by_time) {
        m_end_wait(w, by_event);
    } else if (m.works[w].end < now) {
        m_end_wait(w, by_time);
    } else {
        m.works[w].waiting = true;
        m.waits[m.wait_count++] = w;
    }
}

/* ---------------------------------------------------------------------------------- the programs */

static int64_t step_count(int64_t branch)
{
    return branch == 0 ? 1 + (int64_t)(mix(0, 1, 2) % 5) : mix(branch, 1, 2) % 5 == 0 ? 1 : 0;
}

static struct agent_work make_work(int64_t branch, int64_t step, int64_t item, char *position)
{
    uint64_t r = mix(branch, step, 10 + item);
    int n = snprintf(position, 32, "%" PRId64 "p%" PRId64, step, item);
    struct agent_work w = {.name = QP_STR("w"), .position = {position, (size_t)n}};
    w.sync = mix(branch, step, 3) % 4 != 0;
    if (r % 3 == 0) {
        w.type = WORK_WAIT;
        w.event = r % 2 == 0 ? QP_STR("E1") : r % 5 == 0 ? QP_STR("E2") : QP_NONE;
        w.end = WORK_END_AFTER;
        w.end_ms = (int64_t)(r / 7 % 40);
    }
    return w;
}

static void m_schedule(const struct agent_work *w, int64_t branch, int64_t step, int64_t item)
{
    assert_true(m.work_count < ROOM);
    m.works[m.work_count++] = (struct naive_work){
        .branch = branch,
        .step = step,
        .item = item,
        .attempt = 1,
        .completion = -1,
        .sync = w->sync,
        .is_wait = w->type == WORK_WAIT,
        .event = str_is_none(w->event) ? 0 : w->event.p[1] - '0',
        .end = m.triggered + w->end_ms,
    };
}

static void check_value(qp_str text, int64_t value)
{
    char expected[32];
    (void)snprintf(expected, sizeof(expected), "%" PRId64, value);
    assert_true(str_equal(text, str_from(expected)));
}

/* One group of works, asked of both; false: the branch is left. */
static bool both_execute(struct draft *d, int64_t branch, int64_t step, int64_t index,
                         int64_t *base, int64_t scheduled_at[ROOM])
{
    static char positions[3][32];
    struct agent_work works[3];
    struct draft_reply reply;
    size_t count = 1 + mix(branch, step, 4) % 3;
    bool all = true;
    int64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        works[i] = make_work(branch, step, (int64_t)i, positions[i]);
        int w = m_find(branch, step, (int64_t)i);
        if (w < 0) {
            scheduled_at[m.work_count] = index;
            m_schedule(&works[i], branch, step, (int64_t)i);
            all = false;
        } else if (m.works[w].completion < 0 || m.works[w].completion > index) {
            all = false;
        } else {
            last = m.works[w].completion > last ? m.works[w].completion : last;
        }
    }
    assert_int_equal(draft_execute(d, works, count, NULL, &reply), QP_OK);
    assert_int_equal(reply.status, all ? REPLY_COMPLETED : REPLY_SCHEDULED);
    if (all) {
        check_value(reply.properties, m_properties(last));
        *base = works[0].sync ? last : *base;
    }
    return all || !works[0].sync;
}

static void both_run(struct draft *d, int64_t index, int64_t scheduled_at[ROOM])
{
    const struct branch *branch = NULL;
    qp_str given;
    qp_str output = QP_NONE;
    char text[32];
    int64_t key = m.executions[index];
    int64_t base = m.branches[key].start;
    bool goes_on = true;
    assert_int_equal(draft_branch(d, NULL, &branch, &given), QP_OK);
    assert_int_equal(branch->key, key);
    check_value(given, m_properties(base));
    for (int64_t step = 0; step < step_count(key) && goes_on; step++) {
        goes_on = both_execute(d, key, step, index, &base, scheduled_at);
    }
    int64_t value = m_properties(base) + (mix(key, index, 5) % 3 == 0 ? 1 + index : 0);
    if (base == index && value != m_properties(index)) {
        m.keys[m.property_count] = index + 1;
        m.values[m.property_count++] = value;
    }
    m.branches[key].ended |= goes_on;
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    assert_int_equal(draft_post(d, str_from(text), goes_on ? &output : NULL, NULL), QP_OK);
}

static void both_decide(int64_t now)
{
    static int64_t scheduled_at[ROOM];
    struct draft d;
    int known = m.work_count;
    bool all_ended = true;
    static struct instance seen; /* by the script, while the rows go on */
    load_draft();
    seen = s;
    draft_init(&d, &arena, over_rows ? &seen : &s);
    for (int64_t i = m.ongoing; i < m.execution_count; i++) {
        both_run(&d, i, scheduled_at);
    }
    m_end_until(now - 1);
    for (int w = known; w < m.work_count; w++) {
        if (m.works[w].is_wait) {
            m_schedule_wait(w, scheduled_at[w], now);
        }
    }
    m.out = false;
    for (int i = 0; i < m.branch_count; i++) {
        all_ended &= m.branches[i].ended;
    }
    m.over = all_ended && m.buffer_count == 0;
    m.wait_count = m.over ? 0 : m.wait_count;
    m_trigger(now);
    load(WINDOW_WAITS | WINDOW_BUFFER | WINDOW_BATCH);
    assert_int_equal(instance_decided(&s, now, &d, NULL), QP_OK);
    save();
}

/* ---------------------------------------------------------------------------------------- inputs */

static void both_event(int64_t now, int event)
{
    m_end_until(now - 1);
    m_push((struct naive_action){.time = now, .hook = HOOK_EVENT, .event = event, .work = -1});
    for (int w = 0; w < m.work_count; w++) {
        if (m.works[w].waiting && m.works[w].event == event) {
            m_end_wait(w, now);
        }
    }
    m_trigger(now);
    load(WINDOW_WAITS);
    assert_int_equal(
        instance_event(&s, now, event == 1 ? QP_STR("E1") : QP_STR("E2"), QP_NONE, NULL), QP_OK);
    save();
}

static void both_report(int64_t now, int work, enum hook hook)
{
    struct naive_work *w = &m.works[work];
    char position[32];
    struct instance_report r = {.hook = hook, .branch_key = w->branch};
    bool has_failed = w->failing || w->state == WORK_FAILED;
    bool is_ignored = w->is_wait || w->completed || (hook != HOOK_SUCCESS && has_failed) ||
                      (hook == HOOK_START && w->started);
    int n = snprintf(position, sizeof(position), "%" PRId64 "p%" PRId64, w->step, w->item);
    r.position = (qp_str){position, (size_t)n};
    if (!is_ignored) {
        m_end_until(now - 1);
        w->started |= hook == HOOK_START;
        w->failing |= hook == HOOK_FAILURE;
        w->completed |= hook == HOOK_SUCCESS;
        m_push(
            (struct naive_action){.time = now, .hook = hook, .work = work, .attempt = w->attempt});
        m_trigger(now);
    }
    load(WINDOW_WAITS);
    if (over_rows) {
        struct row_source source = agentrows_source(&rows);
        struct status *status = NULL;
        assert_int_equal(stored_work(&source, &s, w->branch, work, &status), QP_OK);
        assert_non_null(status);
    }
    assert_int_equal(instance_report(&s, now, &r), QP_OK);
    assert_int_equal(s.ignored, is_ignored);
    save();
}

static void both_retry(int64_t now)
{
    for (int i = 0; i < m.work_count; i++) {
        struct naive_work *w = &m.works[i];
        if (!w->completed && (w->failing || w->state == WORK_FAILED)) {
            w->attempt++;
            w->failing = w->started = false;
            w->state = WORK_SCHEDULED;
        }
    }
    load(WINDOW_WORKS);
    assert_int_equal(instance_retry(&s, now, NULL), QP_OK);
    save();
}

static void both_timers(int64_t now)
{
    m_end_until(now);
    m_trigger(now);
    load(WINDOW_WAITS);
    assert_int_equal(instance_timers(&s, now), QP_OK);
    save();
}

static void check_counts(void)
{
    int64_t open = 0;
    int64_t tasks = 0;
    int64_t failed = 0;
    for (int i = 0; i < m.branch_count; i++) {
        open += !m.branches[i].ended;
    }
    for (int i = 0; i < m.work_count; i++) {
        tasks += m.works[i].sync && !m.works[i].is_wait && m.works[i].state == WORK_SCHEDULED;
        failed += m.works[i].state == WORK_FAILED;
    }
    assert_int_equal(s.open_count, open);
    assert_int_equal(s.open_task_count, tasks);
    assert_int_equal(s.failed_count, failed);
}

static void check_agree(void)
{
    load_whole();
    check_counts();
    assert_int_equal(s.completed, m.over);
    assert_int_equal(s.decision_ongoing, m.out);
    assert_int_equal(s.ongoing_index, m.ongoing);
    assert_int_equal(s.branch_count, m.branch_count);
    assert_int_equal(s.execution_count, m.execution_count);
    assert_memory_equal(s.executions, m.executions, (size_t)m.execution_count * sizeof(int64_t));
    for (int i = 0; i < m.branch_count; i++) {
        assert_int_equal(s.branches[i].call.hook, m.branches[i].action.hook);
        assert_int_equal(s.branches[i].timestamp_ms, m.branches[i].action.time);
        assert_int_equal(s.branches[i].ended, m.branches[i].ended);
    }
    assert_int_equal(s.statuses.count, m.work_count);
    for (int i = 0; i < m.work_count; i++) {
        assert_int_equal(s.statuses.items[i]->state, m.works[i].state);
        assert_int_equal(s.statuses.items[i]->attempt, m.works[i].attempt);
        assert_int_equal(s.statuses.items[i]->completion_index, m.works[i].completion);
    }
    assert_int_equal(s.wait_count, m.wait_count);
    for (int i = 0; i < m.wait_count; i++) {
        assert_int_equal(s.waits[i].end_ms, m.works[m.waits[i]].end);
    }
    assert_int_equal(s.buffer_count, m.buffer_count);
    for (int i = 0; i < m.buffer_count; i++) {
        assert_int_equal(s.buffer[i].call.hook, m.buffer[i].hook);
        assert_int_equal(s.buffer[i].timestamp_ms, m.buffer[i].time);
    }
    assert_int_equal(s.property_count, m.property_count);
    for (int i = 0; i < m.property_count; i++) {
        assert_int_equal(s.properties[i].key, m.keys[i]);
        check_value(s.properties[i].values, m.values[i]);
    }
}

static void one_input(uint64_t *random, int64_t now)
{
    static const enum hook hooks[] = {HOOK_START, HOOK_SUCCESS, HOOK_SUCCESS, HOOK_FAILURE};
    uint64_t choice = testenv_random_below(random, 12);
    if (choice < 4 && m.out) {
        both_decide(now);
    } else if (choice < 9 && m.work_count > 0) {
        both_report(now, (int)testenv_random_below(random, (uint64_t)m.work_count),
                    hooks[testenv_random_below(random, 4)]);
    } else if (choice == 9) {
        both_event(now, 1 + (int)testenv_random_below(random, 2));
    } else if (choice == 10) {
        both_retry(now);
    } else {
        both_timers(now);
    }
}

static void one_program(uint64_t seed)
{
    uint64_t random = seed;
    int64_t now = 0;
    program = testenv_random(&random);
    memset(&m, 0, sizeof(m));
    arena_init(&arena, &t.env, 0);
    instance_init(&s, &arena, QP_STR("i"), QP_STR("flow"));
    over_rows = seed % 10 == 0;
    agentrows_init(&rows, &t.env);
    struct row_source source = agentrows_source(&rows);
    stored_begin(&source, &stored);
    m.property_count = 1;
    m_push((struct naive_action){.hook = HOOK_HANDLE, .work = -1});
    m_trigger(0);
    assert_int_equal(instance_start(&s, 0, QP_NONE, QP_STR("0")), QP_OK);
    save();
    for (int i = 0; i < 80 && !m.over; i++) {
        now += (int64_t)testenv_random_below(&random, 6);
        one_input(&random, now);
        check_agree();
    }
    agentrows_done(&rows);
    arena_done(&arena);
}

static void test_programs(void **state)
{
    uint64_t seed = testenv_seed();
    int count = testenv_is_torture() ? 200000 : 4000;
    testenv_init(&t, seed);
    for (int i = 0; i < count; i++) {
        one_program(seed + (uint64_t)i);
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
