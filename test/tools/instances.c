/* instances.c - instances of an agent workflow on a file, each with a work that has failed
 *
 *     instances FILE COUNT
 *
 * COUNT instances bulk-1, bulk-2, ... of the workflow "bulk", whose work b0/1p0 has failed and whose b0/1p1 has not; and `well`, which
 * has failed in nothing. There is no other way in as long as the kind has no endpoints.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "support/agentstage.h"

static struct agentstage stage;

static bool is_well(qp_str jid)
{
    return str_equal(jid, QP_STR("well"));
}

static bool script(void *context, struct draft *d, const struct branch *branch, qp_str *properties)
{
    struct agent_work works[] = {
        {.name = QP_STR("fails"), .position = QP_STR("1p0"), .sync = true},
        {.name = QP_STR("goes on"), .position = QP_STR("1p1"), .sync = true}};
    struct draft_reply reply;
    (void)context;
    (void)properties;
    if (branch->call.hook != HOOK_HANDLE) {
        return true;
    }
    return draft_execute(d, works, 2, NULL, &reply) != QP_OK || reply.status == REPLY_COMPLETED;
}

static bool is_to_fail(const struct task *task)
{
    int64_t branch = 0;
    int64_t number = 0;
    return agent_work_of(task->addr, &branch, &number) && number == 0 && !is_well(task->jid);
}

/* One work in hand fails, or is forgotten by its worker, so that there is room for another. */
static bool work_one(void)
{
    const struct task *task = stage.run.first;
    while (task != NULL && str_equal(task->addr, AGENT_ADDRESS)) {
        task = task->next;
    }
    if (task != NULL && is_to_fail(task)) {
        agentstage_bring(&stage, task,
                         QP_STR("{\"status\":\"failed\",\"error\":{\"name\":\"Oops\"}}"));
    } else if (task != NULL) {
        graphrun_drop(&stage.run, task);
    }
    return task != NULL;
}

static bool start(const char *id)
{
    struct tracestage on = agentstage_of(&stage);
    (void)snprintf(stage.id, sizeof stage.id, "%s", id);
    return on.start(&stage, 0, QP_STR("bulk"), QP_NONE, QP_NONE) == QP_OK;
}

static bool make(long count)
{
    char id[32];
    bool good = start("well");
    for (long i = 1; i <= count && good; i++) {
        (void)snprintf(id, sizeof id, "bulk-%ld", i);
        good = start(id);
    }
    while (good && (agentstage_decide(&stage, script, NULL) > 0 || work_one())) {}
    return good;
}

int main(int argc, char **argv)
{
    long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    bool good;
    if (count < 1) {
        (void)fprintf(stderr, "usage: instances FILE COUNT\n");
        return 2;
    }
    stage.lives = true;
    stage.run.at = argv[1];
    agentstage_init(&stage, STORETEST_SQLITE, "well");
    good = make(count);
    agentstage_done(&stage);
    return good ? 0 : 1;
}
