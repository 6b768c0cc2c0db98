/* rules_selftest.c - violations, seeded one after the other into a small traversal (see rules_selftest.h)
 *
 * One package without relationships: register, gate #a0, its item, gate #a1 with its edge on the way. Every seed gets a
 * world of its own (kernel/check_world.h).
 */
#include "carto/rules_selftest.h"

#include "carto/program.h"
#include "carto/rules.h"
#include "carto/types.h"
#include "kernel/check_world.h"
#include "kernel/message.h"

#define JOB 101
#define GUID QP_STR("world-guid-00001")
#define ITEM "#a0a0"

/* A fact of deb_fact.h: one package of amd64, version 1, without relationships and providers. */
#define FACT                                                                                       \
    QP_STR("\x01\x01\x05"                                                                          \
           "amd64"                                                                                 \
           "\x01"                                                                                  \
           "1"                                                                                     \
           "\0\0\0\0")

#define TEXT(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct seed seeds[] = {
    {"", {{.kind = EDIT_NONE}}}, /* the healthy world: nothing is found */
    SEED("V1", PUT(act, JOB, ITEM, output, TEXT("{\"state\":\"LOST\"}")))
        SEED("V1", PUT(act, JOB, ITEM, input, TEXT("{\"target\":\"none\"}")))
            SEED("V2", PUT(data, JOB, NULL, value, TEXT("{\"items\":2,\"done\":2,\"made\":2}")))
                SEED("V2", PUT(act, JOB, ITEM, output, TEXT("{\"state\":\"DUPLICATE\"}")))
                    SEED("V3", PUT(data, JOB, "g:000000", value, TEXT("00000009\x01")))};

/* What FORMAT would keep of the package (result_kept.h). */
#define KEPT                                                                                       \
    QP_STR("00000018\x01\x01\x01\0\x03"                                                            \
           "deb\x01"                                                                               \
           "a\x01"                                                                                 \
           "1\0\0\0\0")

static int keep_number(void *context, const void *row)
{
    *(int64_t *)context = ((const struct universe_row *)row)->universe;
    return QP_OK;
}

static int put_universe(struct world *w)
{
    struct op open = {
        .kind = OP_universe_open,
        .universe_open = {.ns = STORE_NS_DEFAULT, .type = QP_STR("deb"), .name = QP_STR("u")}};
    struct op ops[] = {
        {.kind = OP_fact_put,
         .fact_put = {.ns = STORE_NS_DEFAULT, .name = QP_STR("a"), .value = FACT}},
        {.kind = OP_universe_seal, .universe_seal = {.ns = STORE_NS_DEFAULT, .facts = 1}},
    };
    struct scan all = {.table = TABLE_universe, .index = -1, .limit = 1};
    int64_t number = 0;
    QP_TRY(world_ops(w, &open, 1));
    QP_TRY(store_scan(w->store, &all, &number, keep_number, w->err));
    ops[0].fact_put.universe = ops[1].universe_seal.universe = number;
    return world_ops(w, ops, ARRAY_COUNT(ops));
}

static int build(struct world *w)
{
    struct msg_ref edge;
    QP_TRY(put_universe(w));
    QP_TRY(world_start(w, &(struct op_job_create){.ref = {STORE_NS_DEFAULT, JOB},
                                                  .jid = QP_STR("w"),
                                                  .kind = CARTO_KIND,
                                                  .workflow = QP_STR(CARTO_NAME),
                                                  .version = QP_STR("deb@u"),
                                                  .owner_guid = GUID,
                                                  .body_hash = GUID}));
    QP_TRY(world_ops(w,
                     &(struct op){.kind = OP_data_put,
                                  .data_put = {.ref = {STORE_NS_DEFAULT, JOB},
                                               .name = QP_STR("g:000000"),
                                               .value = KEPT}},
                     1));
    QP_TRY(world_claim(w, ENGINE_TOPIC, &edge));
    return world_answer(w, &edge, QP_STR("#a0"), QP_NONE);
}

/* All that a check asks of a face. */
static const struct face ruled = {.kind = CARTO_KIND, .name = CARTO_NAME, .rules = carto_rules};

int carto_rules_selftest(const struct qp_env *env, struct qp_err *err)
{
    struct traversals *state = NULL;
    QP_TRY(traversals_open(env, &carto_types, &state));
    struct program program = carto_program(state);
    int rc = world_selftest(env,
                            &(struct world_selftest){.face = &ruled,
                                                     .program = &program,
                                                     .input = QP_STR("{\"roots\":[\"deb:a\"]}"),
                                                     .build = build,
                                                     .seeds = seeds,
                                                     .seed_count = ARRAY_COUNT(seeds)},
                            err);
    traversals_close(state);
    return rc;
}
