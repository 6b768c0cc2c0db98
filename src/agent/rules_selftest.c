/* rules_selftest.c - violations, seeded one after the other into a small instance (see rules_selftest.h)
 *
 *   branch 0 has asked for task A, which has succeeded, and for a wait; executions are [0,1,2,0], and the third decision is out
 *
 * Every seed gets a world of its own (kernel/check_world.h).
 */
#include "agent/rules_selftest.h"

#include "agent/acting.h"
#include "agent/program.h"
#include "agent/rules.h"
#include "kernel/check_world.h"
#include "kernel/message.h"

#define JOB 101
#define NAME QP_STR("w")
#define GUID QP_STR("world-guid-00001")
#define TOPIC QP_STR("quipu:agent:dev:javascript")

#define TEXT_OF(text)                                                                              \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct seed seeds[] = {
    {"", {{.kind = EDIT_NONE}}}, /* the healthy world: nothing is found */
    SEED("B1", PUT(data, JOB, "quipu:chunk:a0", value, TEXT_OF("0,1,2,7")))
        SEED("B1", PUT(data, JOB, "quipu:chunk:a0", value, TEXT_OF("0,1,2")))
            SEED("B2", SET(msg, JOB, "agent,0,0", kind, MESSAGE_SWEEP)) SEED(
                "B2", PUT(data, JOB, "quipu:agent", value,
                          TEXT_OF("{\"v\":1,\"index\":3,\"triggered\":1767225600000,\"attempt\":1,"
                                  "\"branches\":4,\"executions\":5,\"open\":3,\"works\":2,"
                                  "\"last\":1767225600000,\"order\":4,\"waits\":1,"
                                  "\"properties\":1}")))
                SEED("B3", PUT(data, JOB, "quipu:work:a0a1", value,
                               TEXT_OF("{\"state\":0,\"attempt\":1,\"done\":true}")))
                    SEED("B4", PUT(data, JOB, "quipu:work:a0a0", value,
                                   TEXT_OF("{\"state\":1,\"attempt\":1,\"done\":true}")))
                        SEED("B4", PUT(data, JOB, "quipu:work:a0a0", value,
                                       TEXT_OF("{\"attempt\":1,\"completion\":3}")))
                            SEED("B5", ADD(data, JOB, .name = TEXT_OF("quipu:value:a9"),
                                           .value = TEXT_OF("=x")))
                                SEED("B1", PUT(data, JOB, "quipu:value:a0", value, TEXT_OF("x")))};

static int answer(struct world *w, qp_str topic, qp_str addr, qp_str output)
{
    struct msg_ref task;
    QP_TRY(world_claim(w, topic, &task));
    return world_answer(w, &task, addr, output);
}

#define WORK(name, number, type, more)                                                             \
    "{\"work\":{\"name\":\"" name "\",\"position\":\"" number "\",\"sync\":true," type             \
    "\"number\":1,\"hash\":\"1-00000000000000000000000000000000\"}" more "}"

static int build(struct world *w)
{
    QP_TRY(world_start(w, &(struct op_job_create){.ref = {STORE_NS_DEFAULT, JOB},
                                                  .jid = NAME,
                                                  .kind = AGENT_KIND,
                                                  .workflow = NAME,
                                                  .version = NAME,
                                                  .owner_guid = GUID,
                                                  .body_hash = GUID}));
    QP_TRY(answer(w, TOPIC, AGENT_ADDRESS,
                  QP_STR("{\"works\":[" WORK("A", "1", "", "") "," WORK(
                      "W", "2", "\"type\":2,", "") "],\"properties\":[],\"outputs\":[]}")));
    QP_TRY(answer(w, TOPIC, AGENT_ADDRESS, /* onStart of the wait; its task is before that of A */
                  QP_STR("{\"works\":[],\"properties\":[],\"outputs\":[{\"branch\":1}]}")));
    return answer(w, TOPIC, QP_STR("~a0a0"), QP_STR("{\"output\":\"1\"}"));
}

/* All that a check asks of a face. */
static const struct face ruled = {.kind = AGENT_KIND, .name = AGENT_NAME, .rules = agent_rules};

int agent_rules_selftest(const struct qp_env *env, struct qp_err *err)
{
    struct agents agents = {.env = *env};
    struct program program = agent_program(&agents);
    return world_selftest(env,
                          &(struct world_selftest){.face = &ruled,
                                                   .program = &program,
                                                   .build = build,
                                                   .seeds = seeds,
                                                   .seed_count = ARRAY_COUNT(seeds)},
                          err);
}
