/* type_worker.c - worker: category A, a function elsewhere
 *
 *   Leg1    input is mapped, its task goes to the topic: activity 001100000000000
 *   Leg2    per reply: entry (+1, GUID with its ordinal), step 1 keeps the reply (+10B), step 2 goes on (+1B, and 100B
 *           if that closed the job), step 3 completes it (+100M); the last reply finalizes: 201100000000001
 *
 * A reply of code 202 keeps Leg2 open: the next one runs in the next dimension. An error is tried again as the policy
 * says before it is a reply at all (kernel/request.c).
 *
 * If we crash before Leg1's commit, nothing was asked of anybody. If we crash after it, the task is in its stream. A worker
 * that dies is replaced when its lease ends, as often as the policy says (kernel/lost.c); what it did not commit is done
 * again, its reply is committed once.
 */
#include "graph/action.h"

static int describe(struct action *s, struct op_act_create *row)
{
    const struct activity *x = s->activity;
    int rc = action_topic(s, x->topic, &row->topic);
    row->category = 'A';
    row->policy = str_is_none(x->policy) ? POLICY_ONCE : x->policy;
    rc = rc == QP_OK ? action_json(s, x->input, &row->input) : rc;
    if (rc == QP_OK && str_is_none(row->input)) {
        row->input = QP_STR("{}");
    }
    return rc;
}

static int enter(struct action *s)
{
    return turn_task(s->turn, s->turn->act->topic);
}

static int work(struct action *s, struct work *work)
{
    return work->code >= 400 ? QP_OK : action_output(s, work->output, &work->output);
}

const struct type type_worker = {
    .word = "worker", .describe = describe, .enter = enter, .work = work, .spawn = advance};
