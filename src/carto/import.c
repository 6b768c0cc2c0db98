/* import.c - pages of facts, and universes that go (see import.h; the states of a universe: store/apply_fact.c) */
#include "carto/import.h"

#include "carto/rows.h"
#include "kernel/step.h"

/* ------------------------------------------------------------------------------------------- import */

static int refuse_count(const struct request_import *r, struct qp_err *err)
{
    return err_set(err, QP_E_CONFLICT,
                   "the import '%.*s' of '%.*s' is not complete: it does not have %lld facts; "
                   "import the lists again",
                   STR_ARG(r->universe), STR_ARG(r->type), (long long)r->complete);
}

static int open_universe(const struct request_import *r, struct bundle *b, int64_t *out_universe,
                         bool *out_fills)
{
    struct op *op = bundle_op(b, OP_universe_open);
    if (op == NULL) {
        return b->commit->rc;
    }
    op->universe_open = (struct op_universe_open){
        .ns = r->ns, .type = r->type, .name = r->universe, .grows = r->grows};
    QP_TRY(bundle_run(b));
    *out_universe = op->universe_open.out_universe;
    *out_fills = op->universe_open.out_state == UNIVERSE_FILLING || r->grows;
    return QP_OK;
}

static int put_facts(const struct request_import *r, struct bundle *b, int64_t universe)
{
    for (size_t i = 0; i < r->fact_count; i++) {
        const struct import_fact *f = &r->facts[i];
        struct op op = {.kind = OP_fact_put,
                        .fact_put = {.ns = r->ns,
                                     .universe = universe,
                                     .fact_kind = f->kind,
                                     .name = f->name,
                                     .value = f->value}};
        QP_TRY(step_op(b, &op));
    }
    return bundle_run(b);
}

static int seal_universe(struct request_import *r, struct bundle *b, int64_t universe,
                         int64_t count)
{
    struct op op = {.kind = OP_universe_seal,
                    .universe_seal = {.ns = r->ns, .universe = universe, .facts = count}};
    QP_TRY(step_op(b, &op));
    QP_TRY(bundle_run(b));
    r->is_current = true;
    return QP_OK;
}

/* How many facts the universe has as it stands. */
static int count_facts(const struct request_import *r, struct bundle *b, int64_t universe,
                       int64_t *out_count)
{
    struct universe_row key = {.ns = r->ns, .universe = universe};
    const void *row = NULL;
    QP_TRY(bundle_get(b, TABLE_universe, &key, &row));
    *out_count = row == NULL ? -1 : ((const struct universe_row *)row)->facts;
    return QP_OK;
}

static int import_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_import *r = (struct request_import *)c;
    struct qp_err err = {0};
    int64_t universe = 0;
    int64_t count = 0;
    bool fills = false;
    (void)e;
    r->is_current = false;
    QP_ASSERT(r->fact_count <= LIMIT_CARTO_PAGE_FACTS);
    QP_TRY(open_universe(r, b, &universe, &fills));
    if (fills) {
        QP_TRY(put_facts(r, b, universe));
    }
    if (r->grows) {
        return QP_OK;
    }
    QP_TRY(count_facts(r, b, universe, &count));
    if (r->complete > 0 && count != r->complete) {
        return refusal_keep(&r->refusal, b, refuse_count(r, &err), &err);
    }
    /* one that was current before is whole: it is current again at once */
    return !fills || r->complete > 0 ? seal_universe(r, b, universe, count) : QP_OK;
}

void request_import(struct request_import *r)
{
    r->command.label = "import";
    r->command.decide = import_decide;
}

/* --------------------------------------------------------------------------------------------- tidy */

/* Traversals that have not ended: counted by status, in every shard. */
static int count_open(void *context, const void *row)
{
    const struct counter_row *counter = row;
    *(int64_t *)context += counter->status < STATUS_COMPLETED ? counter->n : 0;
    return QP_OK;
}

static int open_traversals(struct bundle *b, int64_t ns, int64_t *out_count)
{
    struct counter_row of = {.ns = ns, .workflow = QP_STR(CARTO_NAME)};
    struct scan scan = {.table = TABLE_counter,
                        .index = -1,
                        .prefix = &of,
                        .prefix_count = 2,
                        .limit = LIMIT_SWEEP_ROWS};
    *out_count = 0;
    return bundle_each(b, &scan, out_count, count_open);
}

/* The first universe that may go, and when the last import was. */
struct former {
    int64_t universe;
    qp_ms current_at;
};

static int look_at_universe(void *context, const void *row)
{
    struct former *f = context;
    const struct universe_row *u = row;
    bool is_over = u->state == UNIVERSE_FORMER || u->state == UNIVERSE_DROPPED ||
                   (u->state == UNIVERSE_GROWING && u->facts > LIMIT_CARTO_GROWN_FACTS);
    f->universe = is_over && f->universe == 0 ? u->universe : f->universe;
    f->current_at = u->current_at > f->current_at ? u->current_at : f->current_at;
    return QP_OK;
}

/* A start that was decided before the last import may still be on its way: what that import has replaced stays for a
 * while. */
static int tidy_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_tidy *r = (struct request_tidy *)c;
    struct universe_row of = {.ns = r->ns};
    struct scan scan = {
        .table = TABLE_universe, .index = -1, .prefix = &of, .prefix_count = 1, .limit = SIZE_MAX};
    struct former f = {0};
    struct op *op;
    int64_t open = 0;
    (void)e;
    r->more = false;
    QP_TRY(bundle_each(b, &scan, &f, look_at_universe));
    QP_TRY(open_traversals(b, r->ns, &open));
    if (f.universe == 0 || open > 0 || bundle_now(b) < f.current_at + LIMIT_CARTO_FORMER_MS) {
        return QP_OK;
    }
    op = bundle_op(b, OP_universe_drop);
    if (op == NULL) {
        return b->commit->rc;
    }
    op->universe_drop = (struct op_universe_drop){
        .ns = r->ns, .universe = f.universe, .limit = LIMIT_CARTO_PAGE_FACTS};
    r->more = true;
    return bundle_run(b);
}

void request_universes_tidy(struct request_tidy *r)
{
    r->command.label = "tidy universes";
    r->command.decide = tidy_decide;
}
