/* check_selftest.c - the check is checked: every rule must find what is seeded for it, and nothing else
 *
 * The world is six jobs of one activity (single.h):
 *
 *   101  its task waits in its topic     104  its task was given back, and waits for its time
 *   102  completed                       105  parked, with a dead letter
 *   103  its task is held, by a lease    106  has a further scope, an event, a hook and a key
 *
 * Every seed (check_seeds.def) gets a world of its own (check_world.h).
 */
#include "kernel/check_internal.h"
#include "kernel/check_world.h"
#include "kernel/single.h"

#define WORLD_FIRST 101
#define WORLD_JOBS 6
#define WORLD_DELAY_MS 3600000
#define SEED_GUID QP_STR("seeded-guid-0000")
#define ONE_MORE(j) SET(job, j, NULL, sem, 2), SET(act, j, "trigger,0", delta, 2)

static int world_build(struct world *w);

int check_selftest(const struct qp_env *env, struct qp_err *err)
{
    const struct seed seeds[] = {
        {"", {{.kind = EDIT_NONE}}}, /* the healthy world: nothing is found */
#include "kernel/check_seeds.def"
    };
    return world_selftest(env,
                          &(struct world_selftest){.program = &single_program,
                                                   .build = world_build,
                                                   .seeds = seeds,
                                                   .seed_count = ARRAY_COUNT(seeds)},
                          err);
}

/* -------------------------------------------------------------------------------------- the jobs */

/* Numbered GUIDs, the same in every world. */
static qp_str world_guid(int64_t number)
{
    static const char guids[][LIMIT_GUID_SIZE + 1] = {
        "world-guid-00001", "world-guid-00002", "world-guid-00003", "world-guid-00004",
        "world-guid-00005", "world-guid-00006", "world-guid-00007", "world-guid-00008"};
    QP_ASSERT(number >= 0 && (size_t)number < ARRAY_COUNT(guids));
    return (qp_str){guids[number], LIMIT_GUID_SIZE};
}

/* A topic per job, so that each task can be claimed alone. */
static qp_str world_topic(int64_t number)
{
    static const char topics[] = "t1t2t3t4t5t6";
    return (qp_str){topics + 2 * number, 2};
}

static struct job_ref world_ref(int64_t number)
{
    return (struct job_ref){STORE_NS_DEFAULT, WORLD_FIRST + number};
}

static int start(struct world *w, int64_t number)
{
    return world_start(w, &(struct op_job_create){.ref = world_ref(number),
                                                  .jid = world_topic(number),
                                                  .kind = SINGLE_KIND,
                                                  .workflow = world_topic(number),
                                                  .owner_guid = world_guid(number),
                                                  .body_hash = world_guid(number)});
}

static int build_completed(struct world *w, int64_t number)
{
    struct msg_ref task;
    QP_TRY(world_claim(w, world_topic(number), &task));
    return world_answer(w, &task, QP_STR(SINGLE_ADDRESS), QP_STR("42"));
}

static int build_held(struct world *w, int64_t number)
{
    struct msg_ref task;
    return world_claim(w, world_topic(number), &task);
}

static int build_timer(struct world *w, int64_t number)
{
    struct op op = {.kind = OP_msg_retry, .msg_retry = {.delay_ms = WORLD_DELAY_MS}};
    int rc = world_claim(w, world_topic(number), &op.msg_retry.ref);
    return rc == QP_OK ? world_ops(w, &op, 1) : rc;
}

static int build_parked(struct world *w, int64_t number)
{
    struct op ops[] = {{.kind = OP_msg_dead_letter, .msg_dead_letter = {.error = QP_STR("no")}},
                       {.kind = OP_job_set,
                        .job_set = {.ref = world_ref(number),
                                    .what = JOB_SET_PARKED,
                                    .parked = QP_STR("dead letter")}}};
    int rc = world_claim(w, world_topic(number), &ops[0].msg_dead_letter.ref);
    return rc == QP_OK ? world_ops(w, ops, ARRAY_COUNT(ops)) : rc;
}

static int build_scope(struct world *w, int64_t number)
{
    struct job_ref ref = world_ref(number);
    qp_str addr = QP_STR(SINGLE_ADDRESS);
    struct op ops[] = {
        {.kind = OP_sem_open,
         .sem_open = {.ref = ref,
                      .scope = 1,
                      .opening = 2,
                      .owner_addr = addr,
                      .guid = world_guid(WORLD_JOBS),
                      .topic = QP_STR("edge")}},
        {.kind = OP_sem_move,
         .sem_move = {.ref = ref,
                      .addr = QP_STR("trigger,0"),
                      .guid = world_guid(number),
                      .scope = 1,
                      .delta = -1}},
        {.kind = OP_event_add, .event_add = {.ref = ref, .kind = 1}},
        {.kind = OP_hook_open,
         .hook_open = {.ref = ref,
                       .topic = QP_STR("h"),
                       .key = QP_STR("k"),
                       .addr = addr,
                       .msg_topic = QP_STR("signal")}},
        {.kind = OP_key_acquire,
         .key_acquire = {.ns = ref.ns,
                         .name = QP_STR("lock"),
                         .capacity = 1,
                         .units = 1,
                         .holder = ref,
                         .addr = addr,
                         .guid = world_guid(WORLD_JOBS + 1),
                         .msg_topic = QP_STR("granted")}},
    };
    return world_ops(w, ops, ARRAY_COUNT(ops));
}

static int build_ready(struct world *w, int64_t number)
{
    (void)w;
    (void)number;
    return QP_OK;
}

static int world_build(struct world *w)
{
    static int (*const builders[WORLD_JOBS])(struct world * w, int64_t number) = {
        build_ready, build_completed, build_held, build_timer, build_parked, build_scope};
    int rc = QP_OK;
    for (int64_t i = 0; i < WORLD_JOBS && rc == QP_OK; i++) {
        rc = start(w, i);
        rc = rc == QP_OK ? builders[i](w, i) : rc;
    }
    return rc;
}
