/* check_work.c - what a job of the kernel still has to do (see check_work.h) */
#include "kernel/check_work.h"

#include "kernel/message.h"
#include "kernel/program.h"
#include "store/event.h"

bool job_took_its_turn(const struct check *c)
{
    EACH_ROW(c, event, event)
    {
        if (event_kind(event) == EVENT_JOB_CLOSED) {
            return false; /* job_close has written it; an edge does not */
        }
    }
    return true;
}

static bool leg1_is_done(const struct act_row *act)
{
    return ledger_leg1_is_done(act->ledger);
}

bool act_is_waiting(const struct act_row *act)
{
    return act->category == 'A' && act->cyclic == CYCLIC_NO && act->escalated == 0 &&
           leg1_is_done(act) && ledger_is_open(act->ledger);
}

static int order_by_addr(const void *a, const void *b)
{
    return str_compare(((const struct guid_row *)a)->addr, ((const struct guid_row *)b)->addr);
}

struct range guids_of(const struct check *c, qp_str addr)
{
    const struct check_rows *r = &c->rows[TABLE_guid];
    struct range range;
    range.from = rows_seek(r, &(struct guid_row){.addr = addr}, order_by_addr);
    for (range.to = range.from; range.to < r->count; range.to++) {
        if (!str_equal(((const struct guid_row *)r->rows[range.to])->addr, addr)) {
            break;
        }
    }
    return range;
}

/* What the GUIDs of an activity have taken off its obligations. */
static int64_t consumed(const struct check *c, const struct act_row *act)
{
    struct range range = guids_of(c, act->addr);
    int64_t sum = act->cyclic == CYCLIC_PIVOT ? act->folded_n : 0;
    for (size_t i = range.from; i < range.to; i++) {
        const struct guid_row *guid = c->rows[TABLE_guid].rows[i];
        sum += guid->n >= 0 ? guid->n - guid->delta : 0;
    }
    return sum;
}

static bool has_guids(const struct check *c, qp_str addr)
{
    struct range range = guids_of(c, addr);
    return range.from < range.to;
}

/* Whether the GUID has spawned, wherever it stands. Asked of rows that have not been entered, which are few. */
static bool has_spawned(const struct check *c, qp_str guid)
{
    EACH_ROW(c, guid, row)
    {
        if (str_equal(row->guid, guid)) {
            return guid_has_spawned(row->ledger);
        }
    }
    return false;
}

bool act_is_made(const struct check *c, const struct act_row *act)
{
    return act->ledger == 0 && !has_spawned(c, act->parent_guid);
}

/* What the activity still owes for others that it has made and that owe nothing themselves (CYCLIC_LENT). */
static int64_t lent(const struct check *c, const struct act_row *act)
{
    int64_t count = 0;
    if (act->category != 'A' || act->cyclic != CYCLIC_OPEN) {
        return 0;
    }
    EACH_ROW(c, act, other)
    {
        count += other->cyclic == CYCLIC_LENT && !act_is_made(c, other);
    }
    return count;
}

bool act_owes(const struct check *c, const struct act_row *act)
{
    return act->category == 'A' && act->cyclic != CYCLIC_LENT && act->escalated == 0 &&
           leg1_is_done(act) && ledger_is_open(act->ledger) && consumed(c, act) == lent(c, act);
}

static int64_t obligations_of(const struct check *c, const struct act_row *act)
{
    if (act_is_made(c, act) || act->cyclic == CYCLIC_LENT) {
        return 0;
    }
    switch (act->category) {
    case 'A':
    case 'B':
        return (act->cyclic == CYCLIC_PIVOT && leg1_is_done(act) ? ledger_leg2_entries(act->ledger)
                                                                 : 1) -
               consumed(c, act) + lent(c, act);
    case 'C':
        return has_guids(c, act->addr) ? 1 - consumed(c, act) : !leg1_is_done(act);
    default:
        return 0;
    }
}

/* Activities are loaded in the order of their addresses. */
static int order_acts(const void *a, const void *b)
{
    return str_compare(((const struct act_row *)a)->addr, ((const struct act_row *)b)->addr);
}

const struct act_row *check_act(const struct check *c, qp_str addr)
{
    const struct check_rows *r = &c->rows[TABLE_act];
    size_t at = rows_seek(r, &(struct act_row){.addr = addr}, order_acts);
    const struct act_row *act = at < r->count ? r->rows[at] : NULL;
    return act != NULL && str_equal(act->addr, addr) ? act : NULL;
}

bool has_activity(const struct check *c, qp_str addr)
{
    return check_act(c, addr) != NULL;
}

bool message_is_child(const struct check *c, const struct msg_row *m)
{
    return m->kind == MESSAGE_ENTER && !has_activity(c, m->addr);
}

static bool has_entered(const struct check *c, const struct msg_row *m)
{
    struct range range = guids_of(c, m->addr);
    for (size_t i = range.from; i < range.to; i++) {
        if (str_equal(((const struct guid_row *)c->rows[TABLE_guid].rows[i])->guid, m->guid)) {
            return true;
        }
    }
    return false;
}

int64_t obligations_open(const struct check *c)
{
    int64_t open = 0;
    EACH_ROW(c, act, act)
    {
        open += obligations_of(c, act);
    }
    EACH_ROW(c, msg, m)
    {
        open += message_is_child(c, m) || (m->kind == MESSAGE_CYCLE && !has_entered(c, m));
    }
    return open;
}
