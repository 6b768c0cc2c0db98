/* step.c - the steps of the ledger protocol as ops (see step.h)
 *
 *   I1  every op that moves a digit names the value that the digit must have before
 *   I2  step n of a GUID requires the digit of step n - 1
 *   I3  an activity is finalized by the last step that its GUID runs: in step 2 when there is no
 *       edge, in step 3 when there is one (H4); never a cycle, a trigger, or with a pending reply
 *
 * If we crash between two steps, the ledger says which digit is missing; step_next reads it, and
 * the same function runs again. If we crash within one, its bundle left nothing.
 */
#include "kernel/step.h"

#include "base/hash.h"

enum step step_next(int64_t guid_ledger)
{
    if (!guid_work_is_done(guid_ledger)) {
        return STEP_WORK;
    }
    if (!guid_has_spawned(guid_ledger)) {
        return STEP_SPAWN;
    }
    return guid_owns_edge(guid_ledger) && !guid_is_completed(guid_ledger) ? STEP_COMPLETE
                                                                          : STEP_ACK;
}

int64_t step_dimension(int64_t guid_ledger)
{
    int64_t ordinal = guid_ordinal(guid_ledger);
    QP_ASSERT(guid_ledger >= 0);
    return ordinal > 0 ? ordinal - 1 : 0;
}

bool guid_is_later(const struct guid_row *a, const struct guid_row *b)
{
    int64_t x = guid_ordinal(a->ledger);
    int64_t y = guid_ordinal(b->ledger);
    if (x != y) {
        return x > y;
    }
    return a->seq == 0 || (b->seq != 0 && a->seq > b->seq);
}

int step_op(struct bundle *b, const struct op *op)
{
    struct op *place = bundle_op(b, op->kind);
    if (place == NULL) {
        return b->commit->rc;
    }
    *place = *op;
    return QP_OK;
}

int step_guid(struct bundle *b, qp_str from, qp_str purpose, qp_str *out_guid)
{
    char *bytes = arena_bytes(&b->commit->arena, LIMIT_GUID_SIZE);
    if (bytes == NULL) {
        return QP_E_NOMEM;
    }
    hash_guid(from.p, from.n, purpose.p, purpose.n, (unsigned char *)bytes);
    *out_guid = (qp_str){bytes, LIMIT_GUID_SIZE};
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- trigger */

int job_trigger(struct bundle *b, const struct incept *incept)
{
    struct job_ref ref = incept->job.ref;
    struct op act = {.kind = OP_act_create,
                     .act_create = {.ref = ref,
                                    .addr = incept->addr,
                                    .category = 'D',
                                    .ledger = LEDGER_TRIGGER,
                                    .policy = incept->policy,
                                    .input = incept->input}};
    struct op guid = {
        .kind = OP_guid_enter,
        .guid_enter = {
            .ref = ref, .addr = incept->addr, .guid = incept->job.owner_guid, .ledger = GUID_WORK}};
    int rc = step_op(b, &act);
    return rc == QP_OK ? step_op(b, &guid) : rc;
}

int job_incept(struct bundle *b, const struct incept *incept)
{
    struct op create = {.kind = OP_job_create, .job_create = incept->job};
    int rc = step_op(b, &create);
    return rc == QP_OK ? job_trigger(b, incept) : rc;
}

/* Step 2's op, for the trigger and for everybody else. */
static struct op spawn_op(const struct site *site, const struct spawn *spawn)
{
    return (struct op){
        .kind = OP_sem_move,
        .sem_move = {.ref = site->ref,
                     .addr = site->addr,
                     .guid = site->guid,
                     .delta = spawn->delta,
                     .n = spawn->n,
                     .spawn_weight = GUID_SPAWNED,
                     .edge_weight = GUID_CLOSED,
                     .close_state = spawn->close_state,
                     .guards = {guard_digit(GUID_WORK, 1), guard_digit(GUID_SPAWNED, 0)},
                     .guard_count = 2,
                     .finalize = !site->never_final && !spawn->pending && !spawn->ends,
                     .final_weight = LEDGER_FINALIZED}};
}

int step_open(struct bundle *b, const struct site *site, int64_t n)
{
    struct op op =
        spawn_op(site, &(struct spawn){.n = n, .delta = n, .close_state = JOB_COMPLETED});
    op.sem_move.open = true;
    op.sem_move.finalize = false; /* a trigger is born with its ledger and keeps it */
    return step_op(b, &op);
}

/* ------------------------------------------------------------------------------------------- Leg1 */

int leg1_enter(struct bundle *b, const struct site *site, const struct op_act_create *row,
               bool known, struct ceilings ceilings)
{
    struct op op = {.kind = OP_act_create};
    if (!known) {
        op.act_create = *row;
        op.act_create.ref = site->ref;
        op.act_create.addr = site->addr;
        op.act_create.cyclic = row->cyclic;
        op.act_create.ledger = LEDGER_LEG1_ENTRY;
        return step_op(b, &op);
    }
    op = (struct op){
        .kind = OP_act_add,
        .act_add = {
            .ref = site->ref,
            .addr = site->addr,
            .weight = LEDGER_LEG1_ENTRY,
            .guards = {{.weight = LEDGER_LEG1_ENTRY, .radix = 100, .max = ceilings.leg1 - 1}},
            .guard_count = 1,
            .attempt = -1}};
    return step_op(b, &op);
}

static struct op leg1_done_op(const struct site *site, int64_t weight)
{
    return (struct op){.kind = OP_act_add,
                       .act_add = {.ref = site->ref,
                                   .addr = site->addr,
                                   .weight = weight,
                                   .guards = {guard_digit(LEDGER_LEG1_DONE, 0)},
                                   .guard_count = 1,
                                   .attempt = -1}};
}

int leg1_done(struct bundle *b, const struct site *site, bool preseed)
{
    struct op op = leg1_done_op(site, LEDGER_LEG1_DONE + (preseed ? LEDGER_LEG2_ENTRY : 0));
    return step_op(b, &op);
}

int leg1_escalate(struct bundle *b, const struct site *site, qp_str error)
{
    struct op op = leg1_done_op(site, 0);
    op.act_add.escalate = true;
    op.act_add.error = error;
    return step_op(b, &op);
}

int guid_seed(struct bundle *b, const struct site *site)
{
    struct op op = {.kind = OP_guid_enter,
                    .guid_enter = {.ref = site->ref, .addr = site->addr, .guid = site->guid}};
    return step_op(b, &op);
}

static struct op work_op(const struct site *site, int64_t code, qp_str output)
{
    return (struct op){.kind = OP_guid_add,
                       .guid_add = {.ref = site->ref,
                                    .addr = site->addr,
                                    .guid = site->guid,
                                    .weight = GUID_WORK,
                                    .guards = {guard_digit(GUID_WORK, 0)},
                                    .guard_count = 1,
                                    .code = code,
                                    .output = output}};
}

int leg1_work(struct bundle *b, const struct site *site, int64_t code, qp_str output, bool preseed)
{
    struct op work = work_op(site, code, output);
    int rc = leg1_done(b, site, preseed);
    return rc == QP_OK ? step_op(b, &work) : rc;
}

/* ------------------------------------------------------------------------------------------- Leg2 */

int leg2_enter(struct bundle *b, const struct site *site, struct ceilings ceilings)
{
    struct op op = {.kind = OP_guid_enter,
                    .guid_enter = {.ref = site->ref,
                                   .addr = site->addr,
                                   .guid = site->guid,
                                   .at = site->at,
                                   .ordinal_ceiling = ceilings.leg2,
                                   .guards = {guard_digit(LEDGER_LEG1_DONE, 1),
                                              guard_digit(LEDGER_FINAL_DIGIT, 0)},
                                   .guard_count = 2}};
    return step_op(b, &op);
}

int step_work(struct bundle *b, const struct site *site, int64_t code, qp_str output)
{
    struct op op = work_op(site, code, output);
    return step_op(b, &op);
}

int step_spawn(struct bundle *b, const struct site *site, const struct spawn *spawn)
{
    struct op op = spawn_op(site, spawn);
    return step_op(b, &op);
}

/* The activity's end, when its GUID ran step 3. */
static int finalize(struct bundle *b, const struct site *site)
{
    struct op op = {.kind = OP_act_add,
                    .act_add = {.ref = site->ref,
                                .addr = site->addr,
                                .weight = LEDGER_FINALIZED,
                                .guards = {guard_digit(LEDGER_FINAL_DIGIT, 0)},
                                .guard_count = 1,
                                .attempt = -1}};
    return site->never_final ? QP_OK : step_op(b, &op);
}

int step_complete(struct bundle *b, const struct site *site, const struct complete *complete)
{
    struct op guid = {
        .kind = OP_guid_add,
        .guid_add = {.ref = site->ref,
                     .addr = site->addr,
                     .guid = site->guid,
                     .weight = GUID_COMPLETED,
                     .guards = {guard_digit(GUID_CLOSED, 1), guard_digit(GUID_COMPLETED, 0)},
                     .guard_count = 2}};
    struct op finish = {.kind = OP_job_finish,
                        .job_finish = {.ref = site->ref,
                                       .guid = site->guid,
                                       .output = complete->output,
                                       .keep_ms = complete->keep_ms}};
    int rc = step_op(b, &guid);
    rc = rc == QP_OK ? step_op(b, &finish) : rc;
    return rc == QP_OK ? finalize(b, site) : rc;
}

int job_end(struct bundle *b, const struct site *site, enum job_state state, qp_str error)
{
    struct op close = {
        .kind = OP_job_close,
        .job_close = {.ref = site->ref, .guid = site->guid, .state = state, .error = error}};
    struct op guid = {.kind = OP_guid_add,
                      .guid_add = {.ref = site->ref,
                                   .addr = site->addr,
                                   .guid = site->guid,
                                   .weight = GUID_CLOSED,
                                   .guards = {guard_digit(GUID_CLOSED, 0)},
                                   .guard_count = 1,
                                   .journal = true}};
    QP_TRY(step_op(b, &guid)); /* first: the answer, and then what came of it */
    return step_op(b, &close);
}
