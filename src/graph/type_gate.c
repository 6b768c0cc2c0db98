/* type_gate.c - the gate in front of a join: category A, waits until all ways have come or can come no more
 *
 *   Leg1    by the first to arrive; the gate owns the scope that counts the ways: 001100000000000
 *   Leg2    when the scope falls to 0: if anybody brought something, the join is its one child; else all that the join
 *           leads to is skipped
 *
 * If we crash before the commit of an arrival, that way has not come, and its step 2 is done again; if after it, it is counted. The
 * last one's commit holds the message to the gate.
 */
#include "graph/action.h"

static int describe(struct action *s, struct op_act_create *row)
{
    (void)s;
    row->category = 'A';
    return QP_OK; /* its input is who came first, as the kernel has it */
}

/* It waits for other ways of the job: if those wait, the whole job does. */
static int enter(struct action *s)
{
    turn_wait(s->turn);
    return QP_OK;
}

/* The first who came did, or somebody after them. */
static int is_live(struct action *s, bool *out_live)
{
    const struct data_row *row = NULL;
    qp_str addr = s->turn->site.addr;
    qp_str name;
    int rc = address_make(action_arena(s), QP_STR(ARRIVED_LIVE), addr, &name);
    rc = rc == QP_OK ? turn_data(s->turn, name, &row) : rc;
    *out_live = s->turn->act->input.p[0] == 'L' || row != NULL;
    return rc;
}

static int work(struct action *s, struct work *work)
{
    (void)s;
    work->output = QP_NONE;
    return QP_OK;
}

static int spawn(struct action *s, struct spawn *spawn)
{
    bool live = false;
    int rc = is_live(s, &live);
    (void)spawn;
    return rc == QP_OK ? advance_gate(s, live) : rc;
}

const struct type type_gate = {
    .word = "join", .describe = describe, .enter = enter, .work = work, .spawn = spawn};
