/* type_cycle.c - cycle: category C, an ancestor runs again in a new dimension
 *
 *   Leg1     input is mapped, the message to the ancestor is put, the leg is complete and its first Leg2 entry is counted,
 *            all in one commit: 001100000000001. Its obligation goes with the message: the semaphore does not move
 *
 * If we crash before it, nothing happened; if after it, the message is in the stream. Its GUID follows from this
 * activity's, so that the ancestor runs once for it.
 */
#include "graph/action.h"

static int describe(struct action *s, struct op_act_create *row)
{
    row->category = 'C';
    row->cyclic = CYCLIC_PIVOT;
    return action_json(s, s->activity->input, &row->input);
}

static int enter(struct action *s)
{
    const struct activity *to = s->activity->ancestor;
    return turn_cycle(s->turn, to->id, to->depth, s->turn->act->input);
}

const struct type type_cycle = {.word = "cycle", .describe = describe, .enter = enter};
