/* apply_fact.c - facts: what is known of packages, shared by all jobs of a namespace, in universes
 *
 * A fact is (kind, name, value) of one universe. A universe is what belongs together: an import of package lists, whose
 * name is their hash. Jobs pin a universe by its number, so an import while they run changes nothing for them. The
 * reverse index is a kind of fact: the sources of one target, as one value.
 *
 *   I1  facts of a universe change only while it fills or grows: what a job reads of a CURRENT or FORMER one is what it
 *       was when it became current
 *   I2  a universe becomes current when it has as many facts as its import says: whole, or not at all
 *   I3  of a type at most one universe is current, and it is never dropped: universe_seal and universe_drop compare it
 *   I4  a fact has its universe (fsck D3); `facts` is the number of its rows, which universe_seal compares
 *
 *                                                                         universe_seal of another,
 *                universe_open               universe_seal                universe_retire
 *        (none) ---------------> FILLING ----------------> CURRENT ------------------------------> FORMER
 *           |                       |                         ^                                      |  |
 *           | grows                 |                         +------------- universe_seal ----------+  |
 *           v                       |  universe_drop                                                    |
 *        GROWING ----------------------------------------> DROPPED <------------------------------------+
 *                                                             |  the last page: the row goes
 *                                                             v
 *                                                          (none)
 *
 * If we crash within an import, its universe is still FILLING: no job can see it, and the next import of the same name
 * goes on with it, since a fact that is put again replaces itself. If we crash within a drop, the rest is dropped by the
 * next page. Whether a job still needs a universe is for the caller of universe_drop to know.
 */
#include "store/apply.h"

static struct universe_row *universe_edit(struct txn *t, int64_t ns, int64_t universe)
{
    return txn_edit(t, TABLE_universe, &(struct universe_row){.ns = ns, .universe = universe});
}

/* Two that look at an index and find nothing have no row in common: the namespace's row is theirs. */
static int take_turn(struct txn *t, int64_t ns)
{
    return txn_get(t, TABLE_space, &(struct space_row){.ns = ns}) == NULL
               ? apply_missing(t, QP_E_NOT_FOUND)
               : QP_OK;
}

/* The first universe of an index with the same first columns; NULL: there is none. */
static int universe_find(struct txn *t, enum index_id index, const struct universe_row *like,
                         size_t columns, const struct universe_row **out_row)
{
    struct bundle_rows found;
    struct scan scan = {.table = TABLE_universe,
                        .index = (int)index,
                        .prefix = like,
                        .prefix_count = columns,
                        .limit = 1};
    QP_TRY(txn_scan(t, &scan, &found));
    *out_row = found.count > 0 ? found.rows[0] : NULL;
    return QP_OK;
}

static bool name_is_sound(qp_str name)
{
    return name.n > 0 && name.n <= LIMIT_ID_SIZE;
}

static int universe_make(struct txn *t, struct op_universe_open *op, struct universe_row *row)
{
    QP_TRY(txn_number(t, SERIES_ID, 1, &row->universe));
    row->created_at = t->now;
    row->state = op->grows ? UNIVERSE_GROWING : UNIVERSE_FILLING;
    op->out_universe = row->universe;
    op->out_state = row->state;
    return txn_add(t, TABLE_universe, row) == NULL ? t->rc : QP_OK;
}

int apply_universe_open(struct txn *t, struct op_universe_open *op)
{
    struct universe_row row = {.ns = op->ns, .type = op->type, .name = op->name};
    const struct universe_row *there = NULL;
    if (!name_is_sound(op->type) || !name_is_sound(op->name)) {
        return QP_E_INVALID;
    }
    QP_TRY(take_turn(t, op->ns));
    QP_TRY(universe_find(t, INDEX_universe_name, &row, 3, &there));
    if (there == NULL) {
        return universe_make(t, op, &row);
    }
    if (there->state == UNIVERSE_DROPPED || op->grows != (there->state == UNIVERSE_GROWING)) {
        return QP_E_CONFLICT;
    }
    op->out_universe = there->universe;
    op->out_state = there->state;
    return QP_OK;
}

static bool takes_facts(const struct universe_row *u)
{
    return u->state == UNIVERSE_FILLING || u->state == UNIVERSE_GROWING;
}

int apply_fact_put(struct txn *t, struct op_fact_put *op)
{
    struct fact_row row = {.ns = op->ns,
                           .universe = op->universe,
                           .kind = op->fact_kind,
                           .name = op->name,
                           .value = op->value,
                           .expire_at = op->ttl_ms > 0 ? t->now + op->ttl_ms : 0};
    struct universe_row *universe = universe_edit(t, op->ns, op->universe);
    struct fact_row *there;
    if (universe == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (!takes_facts(universe)) {
        return QP_E_CONFLICT;
    }
    if (!name_is_sound(op->name) || op->fact_kind < 0 || op->fact_kind >= FACT_KINDS ||
        op->ttl_ms < 0 || op->ttl_ms > LIMIT_TIMER_MS) {
        return QP_E_INVALID;
    }
    if (op->value.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_TOO_LARGE;
    }
    there = txn_edit(t, TABLE_fact, &row);
    if (there != NULL) {
        there->value = op->value;
        there->expire_at = row.expire_at;
        return QP_OK;
    }
    universe->facts++;
    return t->rc != QP_OK || txn_add(t, TABLE_fact, &row) == NULL ? t->rc : QP_OK;
}

int apply_universe_seal(struct txn *t, struct op_universe_seal *op)
{
    struct universe_row *universe;
    const struct universe_row *was = NULL;
    op->out_was = 0;
    QP_TRY(take_turn(t, op->ns));
    universe = universe_edit(t, op->ns, op->universe);
    if (universe == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (universe->state == UNIVERSE_DROPPED || universe->state == UNIVERSE_GROWING ||
        universe->facts != op->facts) {
        return QP_E_CONFLICT;
    }
    QP_TRY(universe_find(t, INDEX_universe_current, universe, 2, &was));
    op->out_was = was == NULL ? 0 : was->universe;
    if (op->out_was == op->universe) {
        return QP_OK;
    }
    if (was != NULL) {
        struct universe_row *former = universe_edit(t, was->ns, was->universe);
        QP_TRY(t->rc);
        former->state = UNIVERSE_FORMER;
    }
    universe = universe_edit(t, op->ns, op->universe); /* the scan may have written it */
    QP_TRY(t->rc);
    universe->state = UNIVERSE_CURRENT;
    universe->current_at = t->now;
    return QP_OK;
}

int apply_universe_retire(struct txn *t, struct op_universe_retire *op)
{
    struct universe_row *universe;
    QP_TRY(take_turn(t, op->ns));
    universe = universe_edit(t, op->ns, op->universe);
    if (universe == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (universe->state != UNIVERSE_CURRENT && universe->state != UNIVERSE_FORMER) {
        return QP_E_CONFLICT;
    }
    universe->state = UNIVERSE_FORMER;
    return QP_OK;
}

int apply_universe_drop(struct txn *t, struct op_universe_drop *op)
{
    struct fact_row of = {.ns = op->ns, .universe = op->universe};
    struct universe_row *universe;
    struct bundle_rows found;
    struct scan scan = {.table = TABLE_fact, .index = -1, .prefix = &of, .prefix_count = 2};
    op->out_more = false;
    if (op->limit < 1 || op->limit > LIMIT_BUNDLE_OPS) {
        return QP_E_INVALID;
    }
    universe = universe_edit(t, op->ns, op->universe);
    if (universe == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (universe->state == UNIVERSE_CURRENT) {
        return QP_E_CONFLICT;
    }
    scan.limit = (size_t)op->limit;
    QP_TRY(txn_scan(t, &scan, &found));
    for (size_t i = 0; i < found.count; i++) {
        txn_drop(t, TABLE_fact, found.rows[i]);
    }
    universe->state = UNIVERSE_DROPPED;
    universe->facts -= (int64_t)found.count;
    op->out_more = universe->facts > 0;
    if (universe->facts < 0 || (op->out_more && found.count == 0)) {
        return txn_corrupt(t, TABLE_universe, "it counts other facts than it has");
    }
    if (!op->out_more) {
        txn_drop(t, TABLE_universe, universe);
    }
    return t->rc;
}
