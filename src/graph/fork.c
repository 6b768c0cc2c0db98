/* fork.c - what the fork of a graph's job takes over (see fork.h) */
#include "graph/fork.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "graph/program.h"
#include "graph/view.h"
#include "store/error.h"

#define CODE_GONE 410 /* of what was kept in a job that was deleted */

/* What FORK_DATA says: ["JOB","LEFT","SEQ","ADDRESS"]. */
struct taking {
    int64_t job;  /* the number of the one that it was made from */
    int64_t left; /* kept activities that are still to be taken over */
    int64_t seq;  /* where the one at `at` was entered */
    qp_str at;    /* the activity that runs again, with all after it; empty: none does */
};

/* ------------------------------------------------------------------------------------- the data */

static int taking_write(struct turn *t, const struct taking *k)
{
    char text[LIMIT_ADDRESS_SIZE + 80];
    qp_str value;
    int n;
    if (k->left == 0) {
        return turn_data_put(t, FORK_DATA, QP_NONE);
    }
    n = snprintf(text, sizeof text, "[%lld,%lld,%lld,\"%.*s\"]", (long long)k->job,
                 (long long)k->left, (long long)k->seq, STR_ARG(k->at));
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, &value)
               ? turn_data_put(t, FORK_DATA, value)
               : QP_E_NOMEM;
}

/* Ids of activities have no escapes. */
static int taking_read(struct turn *t, struct taking *out_taking, bool *out_found)
{
    const struct data_row *row = NULL;
    struct raw_walk w;
    *out_found = false;
    if (str_is_none(t->job->forked_from)) {
        return QP_OK;
    }
    QP_TRY(turn_data(t, FORK_DATA, &row));
    if (row == NULL) {
        return QP_OK;
    }
    w = (struct raw_walk){.rest = row->value};
    *out_taking = (struct taking){0};
    while (raw_each(&w)) {
        if (w.index == 3) {
            out_taking->at = (qp_str){w.value.p + 1, w.value.n - 2};
        } else {
            int64_t *numbers[] = {&out_taking->job, &out_taking->left, &out_taking->seq};
            *numbers[w.index] = (int64_t)real_parse(w.value);
        }
    }
    *out_found = true;
    return QP_OK;
}

static int taking_count(struct turn *t)
{
    struct taking k;
    bool found = false;
    QP_TRY(taking_read(t, &k, &found));
    if (!found) {
        return QP_OK;
    }
    k.left--;
    return taking_write(t, &k);
}

/* -------------------------------------------------------------------------------- what is kept */

/* Which activities stand behind one, by their index: where ways lead from it, through joins and cycles. */
struct behind {
    const struct graph *graph;
    bool *is;
    const struct activity **open; /* found, and not gone on from yet */
    size_t open_count;
};

static void behind_add(struct behind *b, const struct activity *x)
{
    if (x != NULL && !b->is[x->index]) {
        b->is[x->index] = true;
        b->open[b->open_count++] = x;
    }
}

static int behind_find(struct arena *a, const struct graph *g, const struct activity *from,
                       bool **out_is)
{
    struct behind b = {.graph = g,
                       .is = arena_alloc(a, g->activity_count * sizeof *b.is),
                       .open = arena_alloc(a, g->activity_count * sizeof *b.open)};
    if (b.is == NULL || b.open == NULL) {
        return QP_E_NOMEM;
    }
    memset(b.is, 0, g->activity_count * sizeof *b.is);
    *out_is = b.is;
    if (from == NULL) {
        return QP_OK;
    }
    b.open[b.open_count++] = from;
    while (b.open_count > 0) {
        const struct activity *x = b.open[--b.open_count];
        for (size_t i = 0; i < x->transition_count; i++) {
            behind_add(&b, x->transitions[i].to->gate);
            behind_add(&b, x->transitions[i].to);
        }
        behind_add(&b, x->ancestor);
        behind_add(&b, x->joins);
    }
    return QP_OK;
}

/* It did something outside of the job, or waited for something. */
static bool has_effect(const struct activity *x, int64_t category)
{
    switch (x->type) {
    case ACTIVITY_WORKER:
    case ACTIVITY_AWAIT:
    case ACTIVITY_HOOK:
        return category == 'A';
    case ACTIVITY_SIGNAL:
    case ACTIVITY_INTERRUPT:
        return category == 'B';
    default:
        return false;
    }
}

static bool has_finished(const struct act_row *act)
{
    return act->cyclic == CYCLIC_NO ? ledger_is_finalized(act->ledger)
                                    : guid_has_spawned(act->guid_ledger);
}

static bool is_kept(const struct activity *x, const struct taking *k, const bool *behind,
                    const struct act_row *act)
{
    bool usual = act->kind == ACT_USUAL || act->kind == ACT_KEPT;
    if (!usual || !has_effect(x, act->category) || !has_finished(act)) {
        return false;
    }
    return k->at.n == 0 ||
           (!str_equal(act->addr, k->at) && !(behind[x->index] && act->seq > k->seq));
}

/* ------------------------------------------------------------------------------------- the start */

/* While the job is read that it is made from. */
struct beginning {
    struct arena *arena;
    const struct graph *graph;
    const bool *behind;
    struct taking taking;
    qp_str name; /* the activity that is looked for; none: nothing is */
    int64_t latest;
    int rc;
};

/* The latest run of an activity. */
static int find_latest(void *context, const void *row)
{
    struct beginning *b = context;
    const struct act_row *act = row;
    if (str_equal(address_split(act->addr).name, b->name) && act->seq > b->latest) {
        b->latest = act->seq;
        b->taking.seq = act->seq;
        b->rc = arena_copy(b->arena, act->addr, &b->taking.at) ? b->rc : QP_E_NOMEM;
    }
    return QP_OK;
}

static int count_kept(void *context, const void *row)
{
    struct beginning *b = context;
    const struct act_row *act = row;
    const struct activity *x = view_activity(b->graph, act->addr);
    b->taking.left += x != NULL && is_kept(x, &b->taking, b->behind, act);
    return QP_OK;
}

static int each_activity(struct turn *t, const struct job_row *from, struct beginning *b,
                         int (*visit)(void *context, const void *row))
{
    struct act_row of = {.ns = from->ns, .job = from->job};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &of,
                        .prefix_count = 2,
                        .limit = SIZE_MAX,
                        .slim = true};
    QP_TRY(bundle_each(t->bundle, &scan, b, visit));
    return b->rc;
}

/* The activity of an address, of the job that it is made from. */
static int at_address(struct turn *t, const struct job_row *from, qp_str addr, struct beginning *b)
{
    struct act_row key = {.ns = from->ns, .job = from->job, .addr = addr};
    const void *row = NULL;
    QP_TRY(bundle_get(t->bundle, TABLE_act, &key, &row));
    if (row != NULL) {
        b->taking.at = addr;
        b->taking.seq = ((const struct act_row *)row)->seq;
    }
    return QP_OK;
}

static int refuse_place(const struct fork *fork, struct qp_err *err)
{
    (void)err_set(
        err, QP_E_NOT_FOUND,
        "at: the job has run no activity '%.*s': name one by its id or its address; quipu "
        "show lists them",
        STR_ARG(fork->at));
    return err_point(err, QP_E_NOT_FOUND, "/at");
}

static int at_place(struct turn *t, const struct fork *fork, struct beginning *b,
                    struct qp_err *err)
{
    bool is_trigger = str_equal(fork->at, b->graph->trigger->id);
    QP_TRY(at_address(t, fork->from, is_trigger ? TRIGGER_ADDRESS : fork->at, b));
    if (b->taking.at.n == 0) {
        b->name = fork->at;
        QP_TRY(each_activity(t, fork->from, b, find_latest));
    }
    if (b->taking.at.n == 0 || address_split(b->taking.at).name.n == 0 ||
        address_split(b->taking.at).name.p[0] == GATE_MARK) {
        return refuse_place(fork, err);
    }
    return QP_OK;
}

/* The activity whose error has ended the job. One that was ended from outside has none. */
static int at_failure(struct turn *t, const struct fork *fork, struct beginning *b)
{
    struct error e;
    if (fork->from->state != JOB_FAILED || str_is_none(fork->from->error)) {
        return QP_OK;
    }
    QP_TRY(error_read(b->arena, fork->from->error, &e));
    return str_is_none(e.addr) ? QP_OK : at_address(t, fork->from, e.addr, b);
}

static int find_begin(struct turn *t, const struct fork *fork, struct beginning *b,
                      struct qp_err *err)
{
    if (!str_is_none(fork->at)) {
        return at_place(t, fork, b, err);
    }
    if (fork->from->state == JOB_COMPLETED) {
        return err_set(err, QP_E_CONFLICT,
                       "it has completed, so nothing of it is to be retried; fork it instead");
    }
    return at_failure(t, fork, b);
}

int fork_begin(struct library *l, struct turn *t, const struct fork *fork, struct qp_err *err)
{
    struct row_reader reader = reader_in(t->bundle);
    struct beginning b = {.arena = turn_arena(t), .taking = {.job = fork->from->job}};
    const struct app *app = NULL;
    bool *behind = NULL;
    if (str_is_none(fork->at) && !fork->retries) {
        return QP_OK;
    }
    if (fork->from->kind != GRAPH_KIND) {
        return QP_OK; /* it was no graph's job then: it begins at its first step */
    }
    QP_TRY(library_app(l, &reader, t->job->ns, t->job->version, &app));
    b.graph = app_graph(app, t->job->workflow);
    QP_ASSERT(b.graph != NULL);
    QP_TRY(find_begin(t, fork, &b, err));
    QP_TRY(behind_find(b.arena, b.graph,
                       b.taking.at.n == 0 ? NULL : view_activity(b.graph, b.taking.at), &behind));
    b.behind = behind;
    QP_TRY(each_activity(t, fork->from, &b, count_kept));
    return b.taking.left == 0 ? QP_OK : taking_write(t, &b.taking);
}

/* ------------------------------------------------------------------------------------ taking over */

/* The row of this activity in the job that this one is made from. */
struct source {
    struct taking taking;
    bool taking_over;          /* there is something that is kept */
    bool gone;                 /* the job was deleted */
    const struct act_row *act; /* NULL: it did not run */
    bool *behind;
};

static int source_find(struct action *s, struct source *out)
{
    struct turn *t = s->turn;
    struct act_row key = {.ns = t->job->ns, .addr = t->site.addr};
    struct job_row job = {.ns = t->job->ns};
    const void *row = NULL;
    *out = (struct source){0};
    QP_TRY(taking_read(t, &out->taking, &out->taking_over));
    if (!out->taking_over) {
        return QP_OK;
    }
    key.job = job.job = out->taking.job;
    QP_TRY(bundle_get(t->bundle, TABLE_act, &key, &row));
    out->act = row;
    QP_TRY(bundle_get(t->bundle, TABLE_job, &job, &row));
    out->gone = row == NULL;
    return behind_find(action_arena(s), s->graph,
                       out->taking.at.n == 0 ? NULL : view_activity(s->graph, out->taking.at),
                       &out->behind);
}

int fork_describe(struct action *s, struct op_act_create *row)
{
    const struct activity *x = s->activity;
    struct source from;
    bool keeps;
    if (!has_effect(x, row->category)) {
        return QP_OK;
    }
    QP_TRY(source_find(s, &from));
    if (!from.taking_over) {
        return QP_OK;
    }
    keeps = from.gone ? !from.behind[x->index] && !str_equal(s->turn->site.addr, from.taking.at)
                      : from.act != NULL && from.act->category == row->category &&
                            is_kept(x, &from.taking, from.behind, from.act);
    row->kind = keeps ? ACT_KEPT : row->kind;
    return QP_OK;
}

static int refuse_gone(struct action *s, qp_str *out_error)
{
    return action_error(s, CODE_GONE,
                        "the job that this one was made from was deleted before its results were "
                        "taken over",
                        out_error);
}

static int by_ordinal(const void *a, const void *b)
{
    const struct guid_row *x = *(const struct guid_row *const *)a;
    const struct guid_row *y = *(const struct guid_row *const *)b;
    return (guid_ordinal(x->ledger) > guid_ordinal(y->ledger)) -
           (guid_ordinal(x->ledger) < guid_ordinal(y->ledger));
}

static int answer(struct action *s, size_t index, int64_t code, qp_str output)
{
    char text[32];
    qp_str purpose;
    int n = snprintf(text, sizeof text, "kept %zu", index);
    return arena_copy(action_arena(s), (qp_str){text, (size_t)n}, &purpose)
               ? turn_send(s->turn, s->turn->site.addr, purpose, code, output)
               : QP_E_NOMEM;
}

/* The answers behind the first. Those of a pivot are rounds, which cycles bring again. */
static int answer_rest(struct action *s, const struct act_row *from)
{
    struct guid_row of = {.ns = from->ns, .job = from->job, .addr = from->addr};
    struct scan scan = {.table = TABLE_guid,
                        .index = -1,
                        .prefix = &of,
                        .prefix_count = 3,
                        .limit = LIMIT_BUNDLE_OPS};
    struct bundle_rows rows;
    if (from->guid_rows == 0 || from->cyclic != CYCLIC_NO) {
        return QP_OK;
    }
    QP_TRY(bundle_scan(s->turn->bundle, &scan, &rows));
    qsort(rows.rows, rows.count, sizeof *rows.rows, by_ordinal);
    for (size_t i = 0; i < rows.count; i++) {
        const struct guid_row *g = rows.rows[i];
        if (guid_has_spawned(g->ledger)) {
            QP_TRY(answer(s, i + 2, g->code, g->output));
        }
    }
    return QP_OK;
}

int fork_enter(struct action *s)
{
    struct source from;
    qp_str error;
    QP_TRY(source_find(s, &from));
    QP_TRY(taking_count(s->turn));
    if (from.act == NULL) {
        QP_TRY(refuse_gone(s, &error));
        return turn_send(s->turn, s->turn->site.addr, QP_STR("gone"), CODE_GONE, error);
    }
    QP_TRY(answer(s, 1, from.act->code, from.act->output));
    return answer_rest(s, from.act);
}

int fork_work(struct action *s, struct work *work)
{
    struct source from;
    QP_TRY(source_find(s, &from));
    QP_TRY(taking_count(s->turn));
    if (from.act == NULL) {
        work->code = CODE_GONE;
        return refuse_gone(s, &work->output);
    }
    *work = (struct work){.code = from.act->code, .output = from.act->output};
    return QP_OK;
}
