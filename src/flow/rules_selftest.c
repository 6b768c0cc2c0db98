/* rules_selftest.c - violations, seeded one after the other into the history of a small flow (see rules_selftest.h)
 *
 *   {1} activity a, answered    {2} branch b    {2, 1} run r    {2, 2} sleep, open    its second decision is due
 *
 * Every seed gets a world of its own (kernel/check_world.h).
 */
#include "flow/rules_selftest.h"

#include "flow/flow.h"
#include "flow/program.h"
#include "flow/rules.h"
#include "kernel/check_world.h"
#include "kernel/message.h"

#define JOB 101
#define NAME QP_STR("w")
#define GUID QP_STR("world-guid-00001")
/* The journal of the healthy world gives these numbers. */
#define SEQ_BRANCH 5
#define SEQ_ACTIVITY 4

static const struct seed seeds[] = {
    {"", {{.kind = EDIT_NONE}}}, /* the healthy world: nothing is found */
    SEED("H3", SET(act, JOB, "@a1!", seq, SEQ_BRANCH), SET(act, JOB, "@a2!", seq, SEQ_ACTIVITY))
        SEED("H5", SET(act, JOB, "@a2!a2!", code, 200))
            SEED("H7", SET(act, JOB, "@a1!", kind, HISTORY_TYPES))
                SEED("H7", SET(act, JOB, "@a2!", kind, HISTORY_RUN))
                    SEED("H7", SET(act, JOB, "@a2!a1!", version, 0))
                        SEED("H7", SET(act, JOB, "@a2!", version, 2))
                            SEED("H8", SET(msg, JOB, "flow,0,0", kind, MESSAGE_SWEEP))};

/* The task of a topic is claimed, and answered. */
static int answer(struct world *w, qp_str topic, qp_str addr, qp_str output)
{
    struct msg_ref task;
    QP_TRY(world_claim(w, topic, &task));
    return world_answer(w, &task, addr, output);
}

static int build(struct world *w)
{
    QP_TRY(world_start(w, &(struct op_job_create){.ref = {STORE_NS_DEFAULT, JOB},
                                                  .jid = NAME,
                                                  .kind = FLOW_KIND,
                                                  .workflow = NAME,
                                                  .owner_guid = GUID,
                                                  .body_hash = GUID}));
    QP_TRY(answer(w, QP_STR("@w"), FLOW_ADDRESS,
                  QP_STR("{\"base\":0,\"commands\":["
                         "{\"op\":\"activity\",\"loc\":\"{1}\",\"v\":1,\"name\":\"a\",\"input\":1},"
                         "{\"op\":\"branch\",\"loc\":\"{2}\",\"v\":1,\"name\":\"b\"},"
                         "{\"op\":\"run\",\"loc\":\"{2, 1}\",\"v\":1,\"name\":\"r\",\"ok\":1},"
                         "{\"op\":\"sleep\",\"loc\":\"{2, 2}\",\"v\":1,\"until\":1}]}")));
    return answer(w, QP_STR("a"), QP_STR("@a1!"), QP_STR("2"));
}

/* All that a check asks of a face. */
static const struct face ruled = {.kind = FLOW_KIND, .name = "flow", .rules = flow_rules};

int flow_rules_selftest(const struct qp_env *env, struct qp_err *err)
{
    return world_selftest(env,
                          &(struct world_selftest){.face = &ruled,
                                                   .program = &flow_program,
                                                   .build = build,
                                                   .seeds = seeds,
                                                   .seed_count = ARRAY_COUNT(seeds)},
                          err);
}
