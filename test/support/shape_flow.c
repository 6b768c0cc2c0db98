/* shape_flow.c - a program like code that decides (see shapes.h)
 *
 * The activity "flow" takes events for ever: signals ("s0", "x"), the ends of works ("w0"), and the
 * answer of a decision ("d w0 w3 close"). What it knows stands in data rows of the job:
 *
 *   buffer           events that no decision has seen
 *   deciding         1 while a decision is in hand; then events only go to the buffer
 *   signals, works   that decisions have seen; events: all of them
 *   closed           1 from the close on; an event that comes then is late
 *
 * Step 1 of an event puts it into the buffer; step 2, in one transaction, looks at the buffer and
 * either begins a decision or leaves it to the one in hand. A close looks at the buffer in the
 * same transaction that closes: what is in it by then gets another decision, what comes later
 * finds `closed`. With the close goes one work more, "tail", so that the job outlives its flow.
 */
#include "support/shapes.h"

#include <stdio.h>
#include <stdlib.h>

#define FLOW_ADDRESS QP_STR("flow,0,0")

static bool is_flow(const struct turn *t)
{
    return str_equal(t->at.name, QP_STR("flow"));
}

static int flow_describe(struct turn *t, struct op_act_create *row)
{
    row->category = 'A';
    row->cyclic = is_flow(t) ? CYCLIC_OPEN : CYCLIC_NO;
    row->topic = is_flow(t)                       ? QP_NONE
                 : shape_is(t->at.name, "decide") ? QP_STR("decide")
                                                  : QP_STR("work");
    return QP_OK;
}

static int flow_enter(struct turn *t)
{
    return is_flow(t) ? turn_hook(t, FLOW_TOPIC, t->job->jid, true) : turn_task(t, t->act->topic);
}

static int read_buffer(struct turn *t, qp_str *out_buffer)
{
    const struct data_row *row = NULL;
    int rc = turn_data(t, QP_STR("buffer"), &row);
    *out_buffer = rc == QP_OK && row != NULL ? row->value : QP_NONE;
    return rc;
}

/* Step 1 of an event. */
static int flow_take(struct turn *t, qp_str event)
{
    int64_t closed = 0;
    qp_str buffer;
    qp_str longer;
    int rc = shape_read(t, "closed", &closed);
    rc = rc == QP_OK ? read_buffer(t, &buffer) : rc;
    if (rc != QP_OK || closed != 0) {
        return rc != QP_OK ? rc : shape_add(t, "late", 1);
    }
    rc = shape_print(t, &longer, "%.*s %.*s", STR_ARG(buffer), STR_ARG(event));
    return rc == QP_OK ? turn_data_put(t, QP_STR("buffer"), longer) : rc;
}

static int flow_work(struct turn *t, struct work *work)
{
    if (is_flow(t)) {
        return shape_is(work->output, "d") ? QP_OK : flow_take(t, work->output);
    }
    return shape_is(t->at.name, "decide") ? QP_OK : shape_add(t, "sum", shape_number(work->output));
}

static int64_t count_events(qp_str buffer, char kind)
{
    int64_t count = 0;
    for (size_t i = 1; i < buffer.n; i++) {
        count += buffer.p[i - 1] == ' ' && (kind == 0 || buffer.p[i] == kind);
    }
    return count;
}

/* A decision on all that is in the buffer. */
static int decision_begin(struct turn *t, qp_str buffer)
{
    int64_t signals = 0;
    int64_t works = 0;
    qp_str input;
    int rc = shape_read(t, "signals", &signals);
    rc = rc == QP_OK ? shape_read(t, "works", &works) : rc;
    signals += count_events(buffer, 's');
    works += count_events(buffer, 'w');
    rc = rc == QP_OK ? shape_print(t, &input, "%lld %lld%.*s", (long long)signals, (long long)works,
                                   STR_ARG(buffer))
                     : rc;
    rc = rc == QP_OK ? shape_add(t, "signals", count_events(buffer, 's')) : rc;
    rc = rc == QP_OK ? shape_add(t, "works", count_events(buffer, 'w')) : rc;
    rc = rc == QP_OK ? shape_add(t, "events", count_events(buffer, 0)) : rc;
    rc = rc == QP_OK ? shape_add(t, "extras", count_events(buffer, 'x')) : rc;
    rc = rc == QP_OK ? turn_data_put(t, QP_STR("deciding"), QP_STR("1")) : rc;
    rc = rc == QP_OK ? turn_data_put(t, QP_STR("buffer"), QP_NONE) : rc;
    return rc == QP_OK ? turn_child(t, QP_STR("decide"), input) : rc;
}

static int spawn_works(struct turn *t, qp_str decision, bool *out_close)
{
    int rc = QP_OK;
    for (size_t i = 2; i < decision.n && rc == QP_OK; i++) {
        qp_str word = {decision.p + i, 0};
        while (i < decision.n && decision.p[i] != ' ') {
            i++;
            word.n++;
        }
        if (str_equal(word, QP_STR("close"))) {
            *out_close = true;
        } else if (word.n > 0) {
            rc = turn_child(t, word, QP_NONE);
        }
    }
    return rc;
}

/* Step 2 of a decision's answer: its works, and then the close, the next decision, or rest. */
static int decision_end(struct turn *t, struct spawn *spawn, qp_str buffer)
{
    bool close = false;
    int rc = spawn_works(t, t->guid.output, &close);
    if (rc == QP_OK && buffer.n > 0) {
        rc = decision_begin(t, buffer);
    } else if (rc == QP_OK) {
        rc = turn_data_put(t, QP_STR("deciding"), QP_NONE);
        if (rc == QP_OK && close) {
            rc = turn_data_put(t, QP_STR("closed"), QP_STR("1"));
            rc = rc == QP_OK ? turn_child(t, QP_STR("tail"), QP_NONE) : rc;
            spawn->delta = -1;
        }
    }
    return rc;
}

static int flow_step(struct turn *t, struct spawn *spawn)
{
    int64_t deciding = 0;
    qp_str buffer;
    int rc = shape_read(t, "deciding", &deciding);
    rc = rc == QP_OK ? read_buffer(t, &buffer) : rc;
    if (rc == QP_OK && shape_is(t->guid.output, "d")) {
        rc = decision_end(t, spawn, buffer);
    } else if (rc == QP_OK && deciding == 0 && buffer.n > 0) {
        rc = decision_begin(t, buffer);
    }
    spawn->given = true; /* it goes on: only a close gives its own obligation up */
    spawn->delta += t->child_count;
    return rc;
}

static int flow_spawn(struct turn *t, struct spawn *spawn)
{
    if (t->act->category == 'D') {
        return turn_child(t, QP_STR("flow"), t->act->input);
    }
    if (is_flow(t)) {
        return flow_step(t, spawn);
    }
    if (shape_is(t->at.name, "tail")) {
        return QP_OK;
    }
    return turn_send(t, FLOW_ADDRESS, QP_STR("event"), 200,
                     shape_is(t->at.name, "decide") ? t->guid.output : t->at.name);
}

static int flow_complete(struct turn *t, struct complete *complete)
{
    int64_t sum = 0;
    int64_t events = 0;
    int64_t extras = 0;
    int rc = shape_read(t, "sum", &sum);
    rc = rc == QP_OK ? shape_read(t, "events", &events) : rc;
    rc = rc == QP_OK ? shape_read(t, "extras", &extras) : rc;
    return rc == QP_OK ? shape_print(t, &complete->output, "sum %lld events %lld extras %lld",
                                     (long long)sum, (long long)events, (long long)extras)
                       : rc;
}

static const struct program flow_program = {.kind = 102,
                                            .name = "flow",
                                            .describe = flow_describe,
                                            .enter = flow_enter,
                                            .work = flow_work,
                                            .spawn = flow_spawn,
                                            .complete = flow_complete};

/* The decision: a work for every signal; the end, when all have come and all works are done. */
static void decide(qp_str input, char *out_text)
{
    char text[SHAPE_TEXT_SIZE] = {0};
    char *rest = NULL;
    int64_t signals;
    int64_t works;
    size_t used = 1;
    memcpy(text, input.p, input.n);
    signals = strtoll(text, &rest, 10);
    works = strtoll(rest, NULL, 10);
    out_text[0] = 'd';
    out_text[1] = '\0';
    for (const char *p = strchr(text, 's'); p != NULL; p = strchr(p + 1, 's')) {
        used += (size_t)snprintf(out_text + used, SHAPE_TEXT_SIZE - used, " w%c", p[1]);
    }
    if (signals == FLOW_SIGNALS && works == FLOW_SIGNALS) {
        (void)snprintf(out_text + used, SHAPE_TEXT_SIZE - used, " close");
    }
}

static void flow_execute(qp_str addr, qp_str input, char out_text[SHAPE_TEXT_SIZE])
{
    qp_str name = address_split(addr).name;
    if (shape_is(name, "decide")) {
        decide(input, out_text);
    } else {
        /* By its name: where a work stands depends on how many events came before. */
        (void)snprintf(out_text, SHAPE_TEXT_SIZE, "%lld", (long long)shape_value(name));
    }
}

/* Without the extra event. */
static void flow_expect(int64_t input, char out_text[SHAPE_TEXT_SIZE])
{
    int64_t sum = shape_value(QP_STR("tail"));
    (void)input;
    for (int i = 0; i < FLOW_SIGNALS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%d", i);
        sum += shape_value(str_from(name));
    }
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "sum %lld events %d extras 0", (long long)sum,
                   2 * FLOW_SIGNALS);
}

static int64_t flow_tasks(int64_t input)
{
    (void)input;
    return -1; /* how many decisions there are depends on how events fall together */
}

const struct shape shape_flow = {.program = &flow_program,
                                 .topics = {"decide", "work"},
                                 .input = "0",
                                 .signals = FLOW_SIGNALS,
                                 .execute = flow_execute,
                                 .expect = flow_expect,
                                 .task_count = flow_tasks};
