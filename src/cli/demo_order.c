/* demo_order.c - the order of the demo: its steps, and the graph that leads through them
 *
 *   receive - reserve - charge - pack - approve (a signal) - ship
 *
 * A worker does four of them; the approval is a hook, which waits for a signal that names the order. An answer with an error
 * would end the job as failed, since no transition is there for it.
 */
#include "cli/demo.h"

const struct demo_step demo_steps[DEMO_STEPS] = {
    {"reserve", 300},
    {"charge", 300},
    {"pack", 1200},
    {"ship", 300},
};

const char demo_graph[] =
    "app:\n"
    "  id: demo\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: " DEMO_WORKFLOW "\n"
    "      activities:\n"
    "        receive: { type: trigger }\n"
    "        reserve: { type: worker, topic: reserve, input: { maps: { item: '{receive.output.data.item}' } } }\n"
    "        charge: { type: worker, topic: charge, input: { maps: { amount: '{receive.output.data.amount}' } } }\n"
    "        pack: { type: worker, topic: pack, input: { maps: { item: '{receive.output.data.item}' } } }\n"
    "        approve: { type: hook, job: { maps: { approved_by: '{$self.hook.data.by}' } } }\n"
    "        ship: { type: worker, topic: ship, job: { maps: { last: '{$self.output.data.done}' } } }\n"
    "      transitions:\n"
    "        receive: [{ to: reserve }]\n"
    "        reserve: [{ to: charge, conditions: { code: 200 } }]\n"
    "        charge: [{ to: pack, conditions: { code: 200 } }]\n"
    "        pack: [{ to: approve, conditions: { code: 200 } }]\n"
    "        approve: [{ to: ship }]\n"
    "      hooks:\n"
    "        " DEMO_APPROVED ":\n"
    "          - to: " DEMO_APPROVE "\n"
    "            conditions:\n"
    "              match:\n"
    "                - { expected: '{$job.metadata.jid}', actual: '{$self.hook.data.order}' }\n";
