/* level.c - a gate runs what waits for it: activities behind its address, in their order, a page per commit
 *
 * A traversal's items are activities that are born waiting (turn_born): Leg1 is done, and nothing but their gate wakes
 * them. The gate's address is the beginning of theirs (address.h), so they are one range of rows. turn_level answers
 * them in the order of their addresses.
 *
 *   I1  an item is answered in the commit of its page's step 2, and all its steps are: a page is committed with all that
 *       its items did, or not at all
 *   I2  the same commit puts the gate's next entry: CODE_PENDING and the last address while there may be more, 200 when
 *       the range is through. So an open gate has a message, an unfinished GUID, or a scope that will send one  (fsck M3)
 *   I3  which items are on a page has no influence on what they do: a page may end anywhere. It ends after `limit` items,
 *       when its bundle has LIMIT_LEVEL_OPS ops or is large, or when its slice of time is over
 *   I4  an item that is over is passed by: a second run over the same range answers only what is open
 *
 *            edge of its scope          page: PENDING            the last page: 200
 *     WAITS -------------------> RUNS -------------------> RUNS --------------------> what the program says: another
 *                                      (a commit each)                                 phase, or the gate ends
 *
 * If we crash before a page's commit, the gate's message is delivered again and finds the same rows as before. If we
 * crash after it, the page's GUID says that step 2 is done, and the next entry is in the stream or has run in the same
 * commit. A page that kills the engine is suspect: it is still one commit, and after `max_deliveries` its job is parked.
 */
#include "kernel/turn_internal.h"

#include <stdio.h>

#define LEVEL_READ 32 /* rows that a page reads at once */

static_assert(LIMIT_LEVEL_OPS + LIMIT_CHILDREN_BORN < LIMIT_BUNDLE_OPS,
              "the last item of a page has room for its children");

/* ------------------------------------------------------------------------------------------ reads */

static bool begins_with(qp_str addr, qp_str with)
{
    return addr.n >= with.n && memcmp(addr.p, with.p, with.n) == 0;
}

int turn_range(struct turn *t, qp_str below, qp_str after, size_t limit,
               struct bundle_rows *out_acts)
{
    struct act_row from = {
        .ns = t->site.ref.ns, .job = t->site.ref.job, .addr = str_is_none(after) ? below : after};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &from,
                        .prefix_count = 2,
                        .after = &from,
                        .limit = limit};
    size_t count = 0;
    QP_ASSERT(below.n > 0 && limit > 0 && limit <= LIMIT_LEVEL_ITEMS);
    QP_TRY(bundle_run(t->bundle));
    QP_TRY(bundle_scan(t->bundle, &scan, out_acts));
    while (count < out_acts->count &&
           begins_with(((const struct act_row *)out_acts->rows[count])->addr, below)) {
        count++;
    }
    out_acts->cut = out_acts->cut && count == out_acts->count;
    out_acts->count = count;
    return QP_OK;
}

int turn_is_edge(struct turn *t, qp_str purpose, bool *out_is)
{
    qp_str guid;
    QP_TRY(scope_guid(t, t->site.addr, purpose, &guid));
    *out_is = str_equal(guid, t->site.guid);
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------- births */

int turn_born(struct turn *t, const struct op_act_create *row)
{
    struct op_act_create *born = ARENA_NEW(turn_arena(t), struct op_act_create);
    if (born == NULL) {
        return QP_E_NOMEM;
    }
    QP_ASSERT(row->category == 'A' && row->cyclic == CYCLIC_NO);
    QP_ASSERT(!str_is_none(address_gate(row->addr)));
    if (t->child_count >= LIMIT_CHILDREN_BORN) {
        return QP_E_LIMIT;
    }
    *born = *row;
    born->ref = t->site.ref;
    born->parent_guid = t->site.guid;
    born->ledger = LEDGER_WAITING;
    born->waits = ACT_WAITS;
    QP_TRY(child_add(t, row->addr, QP_NONE));
    t->last_child->born = born;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ pages */

int turn_level(struct turn *t, const struct level_page *page)
{
    struct level_page *kept = ARENA_NEW(turn_arena(t), struct level_page);
    if (kept == NULL) {
        return QP_E_NOMEM;
    }
    QP_ASSERT(page->limit > 0 && page->limit <= LIMIT_LEVEL_ITEMS);
    QP_ASSERT(str_equal(address_gate(t->site.addr), t->site.addr));
    QP_ASSERT(str_is_none(page->after) || begins_with(page->after, t->site.addr));
    *kept = *page;
    t->level = kept;
    return QP_OK;
}

/* Whether the bundle takes one item more. */
static bool has_room(struct turn *t)
{
    return t->bundle->op_count < LIMIT_LEVEL_OPS && bundle_size(t->bundle) < LIMIT_FUSE_ROWS_SIZE &&
           t->bundle->commit->arena.total < LIMIT_FUSE_SIZE && turn_has_time(t);
}

static bool is_open(const struct act_row *act)
{
    return act->escalated == 0 && ledger_is_open(act->ledger) && ledger_leg1_is_done(act->ledger);
}

static struct answer_at item_answer(const struct level_page *page, const struct act_row *act)
{
    return (struct answer_at){.addr = act->addr,
                              .purpose = page->phase,
                              .code = 200,
                              .payload = page->phase,
                              .each = true,
                              .now = true};
}

/* The gate's own next entry. */
static int gate_again(struct turn *t, const struct level_page *page, qp_str after, bool more)
{
    static const char form[] = "{\"phase\":\"%.*s\",\"after\":\"%.*s\"}";
    size_t room = sizeof form + page->phase.n + after.n;
    char *text = arena_bytes(turn_arena(t), room);
    int n;
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    n = snprintf(text, room, form, STR_ARG(page->phase), STR_ARG(after));
    QP_ASSERT(n > 0 && (size_t)n < room);
    return turn_answer_at(t, &(struct answer_at){.addr = t->site.addr,
                                                 .purpose = QP_STR("level"),
                                                 .code = more ? CODE_PENDING : 200,
                                                 .payload = {text, (size_t)n}});
}

/* How far a page has come. */
struct walk {
    qp_str after;
    size_t passed;
    bool more; /* there may be rows behind `after` */
};

/* The rows that are read at once: not many more than the page has time for. */
static int walk_on(struct turn *t, const struct level_page *page, turn_answer_now answer,
                   struct walk *w)
{
    size_t left = page->limit - w->passed;
    size_t limit = left < LEVEL_READ ? left : LEVEL_READ;
    struct bundle_rows items;
    size_t i = 0;
    QP_TRY(turn_range(t, t->site.addr, w->after, limit, &items));
    for (; i < items.count && (w->passed == 0 || has_room(t)); i++) {
        const struct act_row *act = items.rows[i];
        w->after = act->addr;
        w->passed++;
        if (is_open(act)) {
            struct answer_at at = item_answer(page, act);
            QP_TRY(answer(t, &at));
        }
    }
    w->more = i < items.count || items.count == limit || items.cut;
    return QP_OK;
}

int level_run(struct turn *t, turn_answer_now answer)
{
    const struct level_page *page = t->level;
    struct walk w = {.after = str_is_none(page->after) ? t->site.addr : page->after, .more = true};
    t->level = NULL;
    while (w.more && w.passed < page->limit && (w.passed == 0 || has_room(t))) {
        QP_TRY(walk_on(t, page, answer, &w));
    }
    return gate_again(t, page, w.after, w.more);
}
