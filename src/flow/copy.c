/* copy.c - the history of another job, copied (see copy.h) */
#include "flow/copy.h"

#include <stdio.h>

#include "flow/copy_plan.h"
#include "flow/flow.h"
#include "flow/history.h"
#include "store/error.h"

#define COPY_DATA QP_STR("quipu:copy")
#define COPY_BEGINS "{\"copy\":["
#define CODE_GONE 410 /* the other job was deleted before it was copied */

static const struct qp_env *env_of(struct turn *t)
{
    return store_env(t->bundle->commit->store);
}

static int keep_text(struct turn *t, const struct buf *text, qp_str *out_text)
{
    QP_TRY(buf_rc(text));
    return arena_copy(turn_arena(t), buf_slice(text), out_text) ? QP_OK : QP_E_NOMEM;
}

static int page_name(struct turn *t, int64_t page, qp_str *out_name)
{
    char name[40];
    int n = snprintf(name, sizeof name, "quipu:copy:%06lld", (long long)page);
    QP_ASSERT(n > 0 && (size_t)n < sizeof name);
    return arena_copy(turn_arena(t), (qp_str){name, (size_t)n}, out_name) ? QP_OK : QP_E_NOMEM;
}

/* ------------------------------------------------------------------------------------- the plan */

static int put_page(struct turn *t, int64_t page, struct buf *text)
{
    qp_str name;
    qp_str value;
    buf_byte(text, ']');
    QP_TRY(keep_text(t, text, &value));
    QP_TRY(page_name(t, page, &name));
    buf_reset(text);
    return turn_data_put(t, name, value);
}

static int put_pages(struct turn *t, const struct plan *plan, struct buf *text)
{
    int64_t page = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_step *step = &plan->steps[i];
        buf_printf(text, "%c\"%c%.*s\"", text->n == 0 ? '[' : ',', step->mark, STR_ARG(step->addr));
        if (text->n > LIMIT_FLOW_COPY_PLAN || i + 1 == plan->count) {
            QP_TRY(put_page(t, page++, text));
        }
    }
    return QP_OK;
}

static int put_plan(struct turn *t, const struct plan *plan)
{
    struct buf text;
    int rc;
    buf_init(&text, env_of(t), 0);
    rc = put_pages(t, plan, &text);
    buf_done(&text);
    return rc;
}

/* What flow,0,0 takes over: the seed, and when the first of these jobs began. */
static int put_head(struct turn *t, const struct job_row *from, const struct act_row *flow)
{
    qp_str started = flow_member(flow->input, "started_at");
    char text[160];
    qp_str value;
    int n =
        snprintf(text, sizeof text, "{\"job\":%lld,\"seed\":\"%016llx\",\"started_at\":%lld}",
                 (long long)from->job, (unsigned long long)flow_seed(flow->input),
                 (long long)(str_is_none(started) ? from->created_at : (qp_ms)real_parse(started)));
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, &value)
               ? turn_data_put(t, COPY_DATA, value)
               : QP_E_NOMEM;
}

int flow_fork(void *state, struct turn *t, const struct fork *fork, struct qp_err *err)
{
    struct act_row key = {.ns = fork->from->ns, .job = fork->from->job, .addr = FLOW_ADDRESS};
    const void *flow = NULL;
    struct plan plan;
    (void)state;
    if ((str_is_none(fork->at) && !fork->retries) || fork->from->kind != FLOW_KIND) {
        return QP_OK;
    }
    QP_TRY(plan_make(t, fork, &plan, err));
    QP_TRY(bundle_get(t->bundle, TABLE_act, &key, &flow));
    if (flow == NULL) {
        return QP_OK; /* it has not begun: nothing is there to be taken over */
    }
    QP_TRY(put_head(t, fork->from, flow));
    return put_plan(t, &plan);
}

/* ---------------------------------------------------------------------------------------- Leg1 */

static int head_of(struct turn *t, qp_str *out_head)
{
    const struct data_row *row = NULL;
    *out_head = QP_NONE;
    if (str_is_none(t->job->forked_from)) {
        return QP_OK;
    }
    QP_TRY(turn_data(t, COPY_DATA, &row));
    *out_head = row == NULL ? QP_NONE : row->value;
    return QP_OK;
}

int flow_copy_is_on(struct turn *t, bool *out_copying)
{
    qp_str head;
    QP_TRY(head_of(t, &head));
    *out_copying = !str_is_none(head);
    return QP_OK;
}

int flow_copy_input(struct turn *t, qp_str *out_input)
{
    char text[128];
    qp_str head;
    int n;
    *out_input = QP_NONE;
    QP_TRY(head_of(t, &head));
    if (str_is_none(head)) {
        return QP_OK;
    }
    n = snprintf(text, sizeof text, "{\"seed\":%.*s,\"started_at\":%.*s}",
                 STR_ARG(flow_member(head, "seed")), STR_ARG(flow_member(head, "started_at")));
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, out_input) ? QP_OK : QP_E_NOMEM;
}

static int send_next(struct turn *t, int64_t page, int64_t index)
{
    char text[80];
    qp_str payload;
    int n =
        snprintf(text, sizeof text, COPY_BEGINS "%lld,%lld]}", (long long)page, (long long)index);
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, &payload)
               ? turn_send(t, FLOW_ADDRESS, QP_STR("copy"), 200, payload)
               : QP_E_NOMEM;
}

int flow_copy_enter(struct turn *t)
{
    return send_next(t, 0, 0);
}

/* ------------------------------------------------------------------------- a copying decision */

bool flow_copy_was(qp_str kept)
{
    const qp_str begin = QP_STR(COPY_BEGINS);
    return kept.n > begin.n && memcmp(kept.p, begin.p, begin.n) == 0;
}

/* A run of the plan: steps [index, end) of a page. */
struct run {
    int64_t numbers[3]; /* page, index, end */
    qp_str steps;       /* the page; none: the plan is through */
    int64_t job;        /* the other one */
};

enum { RUN_PAGE, RUN_INDEX, RUN_END };

static int run_read(struct turn *t, qp_str text, struct run *out_run)
{
    struct raw_walk w = {.rest = flow_member(text, "copy")};
    const struct data_row *row = NULL;
    qp_str head;
    qp_str name;
    *out_run = (struct run){0};
    while (raw_each(&w)) {
        QP_ASSERT(w.index < ARRAY_COUNT(out_run->numbers));
        out_run->numbers[w.index] = (int64_t)real_parse(w.value);
    }
    QP_TRY(head_of(t, &head));
    QP_ASSERT(!str_is_none(head));
    out_run->job = (int64_t)real_parse(flow_member(head, "job"));
    QP_TRY(page_name(t, out_run->numbers[RUN_PAGE], &name));
    QP_TRY(turn_data(t, name, &row));
    out_run->steps = row == NULL ? QP_NONE : row->value;
    return QP_OK;
}

/* The steps of a run: while (run_each(..)) */
struct run_walk {
    struct raw_walk raw;
    char mark;
    qp_str addr;
};

static bool run_each(const struct run *r, struct run_walk *w)
{
    while (raw_each(&w->raw)) {
        int64_t index = (int64_t)w->raw.index;
        if (index >= r->numbers[RUN_INDEX] &&
            (r->numbers[RUN_END] == 0 || index < r->numbers[RUN_END])) {
            w->mark = w->raw.value.p[1];
            w->addr = (qp_str){w->raw.value.p + 2, w->raw.value.n - 3};
            return true;
        }
    }
    return false;
}

/* The other job's row of an event; NULL: it is gone. */
static int source_of(struct turn *t, const struct run *r, qp_str addr,
                     const struct act_row **out_act)
{
    struct act_row key = {.ns = t->site.ref.ns, .job = r->job, .addr = addr};
    const void *row = NULL;
    QP_TRY(bundle_get(t->bundle, TABLE_act, &key, &row));
    *out_act = row;
    return QP_OK;
}

/* What a loop keeps: at its birth nothing of how it ended, at its end all of it, with the place in this journal. */
static int copy_loop(struct turn *t, const struct run *r, qp_str addr, bool ended)
{
    struct data_row key = {.ns = t->site.ref.ns, .job = r->job};
    const void *row = NULL;
    struct buf text;
    qp_str properties;
    qp_str value;
    qp_str name;
    int rc;
    QP_TRY(flow_loop_name(turn_arena(t), addr, &key.name));
    QP_TRY(bundle_get(t->bundle, TABLE_data, &key, &row));
    name = key.name;
    if (row == NULL || !ended) {
        return turn_data_put(t, name, QP_STR("{\"iteration\":0,\"state\":null}"));
    }
    value = ((const struct data_row *)row)->value;
    properties = flow_member(value, "properties");
    buf_init(&text, env_of(t), LIMIT_PAYLOAD_HARD_SIZE);
    buf_printf(&text, "{\"iteration\":%.*s,\"state\":%.*s,\"seen\":%lld,\"output\":%.*s",
               STR_ARG(flow_member(value, "iteration")), STR_ARG(flow_member(value, "state")),
               (long long)t->job->seq, STR_ARG(flow_member(value, "output")));
    if (!str_is_none(properties)) {
        buf_printf(&text, ",\"properties\":%.*s", STR_ARG(properties));
    }
    buf_byte(&text, '}');
    rc = keep_text(t, &text, &value);
    buf_done(&text);
    return rc == QP_OK ? turn_data_put(t, name, value) : rc;
}

static int copy_event(struct turn *t, const struct run *r, const struct act_row *from)
{
    struct op_act_create row = {.addr = from->addr,
                                .kind = from->kind,
                                .category = from->category,
                                .cyclic = from->cyclic,
                                .version = from->version,
                                .topic = from->topic,
                                .policy = from->policy,
                                .input = from->input,
                                .at = from->at};
    QP_TRY(turn_row(t, &row));
    return from->kind == HISTORY_LOOP ? copy_loop(t, r, from->addr, false) : QP_OK;
}

/* While a run is made by step 1. */
struct making {
    struct run run;
    struct buf open; /* addresses of events that begin again */
    bool answers;    /* the run has an answer: what is made next is the next run's */
    int64_t count;
    size_t size;
    bool gone;
};

/* Ends a run: an event behind an answer, or enough of them. */
static bool is_full(const struct making *m, char mark)
{
    return (m->answers && mark != 'e') || m->count == LIMIT_FLOW_COPY_EVENTS ||
           (m->count > 0 && m->size > LIMIT_FLOW_COPY_SIZE);
}

static int make_step(struct turn *t, struct making *m, char mark, qp_str addr)
{
    const struct act_row *from = NULL;
    m->count++;
    if (mark == 'l') {
        return copy_loop(t, &m->run, addr, true);
    }
    QP_TRY(source_of(t, &m->run, addr, &from));
    m->gone = from == NULL;
    if (m->gone) {
        return QP_OK;
    }
    m->answers = m->answers || mark == 'e';
    m->size += mark == 'e' ? from->output.n : from->input.n;
    if (mark == 'o') {
        buf_printf(&m->open, "%s\"%.*s\"", m->open.n > 0 ? "," : "", STR_ARG(addr));
    }
    return mark == 'e' ? QP_OK : copy_event(t, &m->run, from);
}

static int make_run(struct turn *t, struct making *m)
{
    struct run_walk w = {.raw = {.rest = m->run.steps}};
    int64_t end = m->run.numbers[RUN_INDEX];
    while (!str_is_none(m->run.steps) && !m->gone && run_each(&m->run, &w)) {
        if (is_full(m, w.mark)) {
            break;
        }
        QP_TRY(make_step(t, m, w.mark, w.addr));
        end = (int64_t)w.raw.index + 1;
    }
    m->run.numbers[RUN_END] = end;
    return QP_OK;
}

static int gone_error(struct turn *t, qp_str *out_error)
{
    struct error e = {.code = CODE_GONE,
                      .message =
                          QP_STR("the job that this one was made from was deleted before its "
                                 "history was copied"),
                      .addr = FLOW_ADDRESS};
    return error_write(turn_arena(t), &e, out_error);
}

/* What step 1 keeps. */
static int kept_text(struct turn *t, const struct making *m, qp_str *out_text)
{
    struct buf text;
    int rc;
    buf_init(&text, env_of(t), 0);
    buf_printf(&text, COPY_BEGINS "%lld,%lld,%lld],\"open\":[%.*s]}",
               (long long)m->run.numbers[RUN_PAGE], (long long)m->run.numbers[RUN_INDEX],
               (long long)m->run.numbers[RUN_END], STR_ARG(buf_slice(&m->open)));
    rc = keep_text(t, &text, out_text);
    buf_done(&text);
    return rc;
}

int flow_copy_work(struct turn *t, struct work *work)
{
    struct making m = {0};
    int rc;
    QP_TRY(run_read(t, work->output, &m.run));
    buf_init(&m.open, env_of(t), 0);
    rc = make_run(t, &m);
    if (rc == QP_OK) {
        work->code = m.gone ? CODE_GONE : 200;
        rc = m.gone ? gone_error(t, &work->output) : kept_text(t, &m, &work->output);
    }
    buf_done(&m.open);
    return rc;
}

static int spawn_step(struct turn *t, const struct run *r, char mark, qp_str addr, bool *out_gone)
{
    struct answer_at answer = {
        .addr = addr, .purpose = QP_STR("copied"), .each = true, .now = true};
    const struct act_row *from = NULL;
    if (mark == 'b' || mark == 'o') {
        return turn_child_at(t, addr);
    }
    if (mark == 'l') {
        return QP_OK;
    }
    QP_TRY(source_of(t, r, addr, &from));
    *out_gone = from == NULL; /* since step 1, where that was another commit */
    if (*out_gone) {
        return QP_OK;
    }
    answer.code = from->code;
    answer.payload = from->output;
    answer.at = from->guid_at;
    return turn_answer_at(t, &answer);
}

/* Behind the last page: the first decision for a worker. */
static int spawn_last(struct turn *t, struct spawn *spawn)
{
    spawn->given = true;
    spawn->notify = (struct op_act_notify){.addr = FLOW_ADDRESS, .rests = true, .urgent = true};
    return turn_data_put(t, COPY_DATA, QP_NONE);
}

int flow_copy_spawn(struct turn *t, struct spawn *spawn)
{
    struct run r;
    struct run_walk w = {0};
    bool more = false;
    bool gone = false;
    qp_str name;
    QP_TRY(run_read(t, t->guid.output, &r));
    if (str_is_none(r.steps)) {
        return spawn_last(t, spawn);
    }
    w.raw.rest = r.steps;
    while (!gone && run_each(&r, &w)) {
        QP_TRY(spawn_step(t, &r, w.mark, w.addr, &gone));
    }
    if (gone) {
        turn_forget(t);
        QP_TRY(gone_error(t, &name));
        turn_fail(t, JOB_FAILED, name);
        return QP_OK;
    }
    spawn->given = true;
    spawn->delta = t->child_count;
    more = (int64_t)w.raw.index + 1 > r.numbers[RUN_END];
    if (more) {
        return send_next(t, r.numbers[RUN_PAGE], r.numbers[RUN_END]);
    }
    QP_TRY(page_name(t, r.numbers[RUN_PAGE], &name));
    QP_TRY(turn_data_put(t, name, QP_NONE));
    return send_next(t, r.numbers[RUN_PAGE] + 1, 0);
}

/* ------------------------------------------------------------------------------------- its events */

int flow_copy_keeps(struct turn *t, bool *out_copy, bool *out_answered)
{
    struct guid_row key = {.ns = t->site.ref.ns,
                           .job = t->site.ref.job,
                           .addr = FLOW_ADDRESS,
                           .guid = t->act->parent_guid};
    struct guid_row maker;
    bool found = false;
    struct raw_walk w;
    *out_copy = *out_answered = false;
    if (str_is_none(t->job->forked_from)) {
        return QP_OK;
    }
    QP_TRY(bundle_guid(t->bundle, &key, &maker, &found));
    if (!found || !flow_copy_was(maker.output)) {
        return QP_OK;
    }
    *out_copy = *out_answered = true;
    w = (struct raw_walk){.rest = flow_member(maker.output, "open")};
    while (raw_each(&w)) {
        qp_str addr = {w.value.p + 1, w.value.n - 2};
        *out_answered = *out_answered && !str_equal(addr, t->site.addr);
    }
    return QP_OK;
}
