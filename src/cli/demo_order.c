/* demo_order.c - the order workflow of the demo, as a program of the kernel
 *
 *   trigger - reserve - charge - pack - approve (a signal) - ship
 *
 * Each step is an activity of category A: it waits for its worker, or for the signal (approve, id
 * of the job), and its answer spawns the next one. The output of the last one is that of the job.
 * An answer with an error ends the job as failed.
 */
#include "cli/demo.h"
#include "kernel/turn.h"

#define ORDER_KIND 100

const struct demo_step demo_steps[DEMO_STEPS] = {
    {"reserve", 300},
    {"charge", 300},
    {"pack", 1200},
    {"ship", 300},
};

/* In which order they come. */
static const char *const order[] = {"trigger", "reserve", "charge", "pack", DEMO_APPROVE, "ship"};

static size_t place_of(const struct turn *t)
{
    size_t i = 0;
    while (i < ARRAY_COUNT(order) && !str_equal(str_from(order[i]), t->at.name)) {
        i++;
    }
    QP_ASSERT(i < ARRAY_COUNT(order));
    return i;
}

static bool is_approval(const struct turn *t)
{
    return str_equal(t->at.name, QP_STR(DEMO_APPROVE));
}

static int order_describe(struct turn *t, struct op_act_create *row)
{
    row->category = place_of(t) == 0 ? 'D' : 'A';
    row->topic = is_approval(t) ? QP_NONE : str_from(order[place_of(t)]);
    return QP_OK;
}

static int order_enter(struct turn *t)
{
    return is_approval(t) ? turn_hook(t, QP_STR(DEMO_APPROVE), t->job->jid, false)
                          : turn_task(t, t->act->topic);
}

static int order_spawn(struct turn *t, struct spawn *spawn)
{
    size_t next = place_of(t) + 1;
    (void)spawn;
    if (t->guid.code >= 400 || next == ARRAY_COUNT(order)) {
        return turn_spawn_nothing(t);
    }
    return turn_child(t, str_from(order[next]), t->act->input);
}

static int order_complete(struct turn *t, struct complete *complete)
{
    complete->output = t->guid.output;
    return QP_OK;
}

const struct program order_program = {.kind = ORDER_KIND,
                                      .name = DEMO_WORKFLOW,
                                      .describe = order_describe,
                                      .enter = order_enter,
                                      .spawn = order_spawn,
                                      .complete = order_complete};
