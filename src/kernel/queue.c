/* queue.c - what waits for the next round of an engine: commands, and messages in hand */
#include "kernel/engine_internal.h"

/* At the end of the queue. */
void commands_add(struct engine *e, struct command *c)
{
    c->next = NULL;
    if (e->last_command == NULL || e->commands == NULL) {
        e->commands = c;
    } else {
        e->last_command->next = c;
    }
    e->last_command = c;
    e->command_count++;
}

void engine_submit(struct engine *e, struct command *c)
{
    c->engine = e;
    c->again = false;
    commands_add(e, c);
}

void batch_add(struct engine *e, struct delivery *d)
{
    d->next = NULL;
    if (e->batch == NULL) {
        e->batch = d;
    } else {
        e->last_delivery->next = d;
    }
    e->last_delivery = d;
}

void batch_put_back(struct engine *e, struct delivery *d)
{
    d->next = e->batch;
    e->last_delivery = e->batch == NULL ? d : e->last_delivery;
    e->batch = d;
}
