/* turn.c - the protocol, driven by digits: steps, Leg1, Leg2 (see turn.h)
 *
 *   I1  a turn reads the GUID's ledger first: what it says is done is not done again, and what it
 *       says is left is done, whatever the state of the job (H2)
 *   I2  only a GUID that has no row yet is refused by a closed job, and leaves nothing (H2)
 *   I3  a child's GUID follows from its parent's GUID and its address, a task's from its activity's
 *       (H5): a step that runs again publishes nothing that is not recognised
 *   I4  a program's functions are called in the bundle whose digit proves what they did
 */
#include <stdio.h>

#include "base/failpoint.h"
#include "kernel/chores.h"
#include "kernel/deciding.h"
#include "kernel/turn_internal.h"
#include "store/error.h"

const struct program *kernel_program(const struct kernel *k, int64_t kind)
{
    for (size_t i = 0; i < k->program_count; i++) {
        if (k->programs[i]->kind == kind) {
            return k->programs[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------ reads */

int turn_job(struct turn *t)
{
    const void *row = NULL;
    int rc = bundle_get(t->bundle, TABLE_job,
                        &(struct job_row){.ns = t->site.ref.ns, .job = t->site.ref.job}, &row);
    t->job = row;
    return rc;
}

/* What the ledgers say now. */
int turn_ledgers(struct turn *t)
{
    struct guid_row key = {
        .ns = t->site.ref.ns, .job = t->site.ref.job, .addr = t->site.addr, .guid = t->site.guid};
    int rc = turn_act(t, t->site.addr, &t->act);
    if (rc == QP_OK && t->act != NULL) {
        t->site.never_final =
            t->act->cyclic != CYCLIC_NO || t->act->category == 'C' || t->act->category == 'D';
        rc = bundle_guid(t->bundle, &key, &t->guid, &t->has_guid);
    }
    return rc;
}

int turn_init(struct turn *t, struct kernel *k, struct bundle *b, struct outcome *outcome,
              const struct site *site)
{
    int rc;
    *t = (struct turn){.kernel = k,
                       .bundle = b,
                       .outcome = outcome,
                       .site = *site,
                       .at = address_split(site->addr)};
    rc = turn_job(t);
    if (rc != QP_OK || t->job == NULL) {
        return rc != QP_OK ? rc : QP_E_NOT_FOUND;
    }
    t->program = kernel_program(k, t->job->kind);
    return t->program == NULL ? QP_E_UNSUPPORTED : QP_OK;
}

int turn_late(struct turn *t)
{
    t->outcome->late = true;
    return QP_OK;
}

/* Carries out what was added, and reads what it made of the job and the ledgers. */
int turn_settle(struct turn *t)
{
    int rc = bundle_run(t->bundle);
    rc = rc == QP_OK ? turn_job(t) : rc;
    return rc == QP_OK ? turn_ledgers(t) : rc;
}

/* --------------------------------------------------------------------------------------- children */

static bool may_fuse(const struct turn *t)
{
    return !t->stepwise && !t->kernel->stepwise && t->depth < LIMIT_FUSE_DEPTH &&
           t->bundle->op_count < LIMIT_FUSE_OPS && bundle_size(t->bundle) < LIMIT_FUSE_ROWS_SIZE &&
           t->bundle->commit->arena.total < LIMIT_FUSE_SIZE; /* a round has many bundles */
}

static int child_fuse(struct turn *t, const struct child *c, qp_str guid)
{
    struct turn turn;
    struct site site = {.ref = t->site.ref, .addr = c->addr, .guid = guid};
    int rc = turn_init(&turn, t->kernel, t->bundle, t->outcome, &site);
    turn.depth = t->depth + 1;
    turn.parent_guid = t->site.guid;
    turn.payload = c->input;
    return rc == QP_OK ? turn_enter(&turn) : rc;
}

static int child_publish(struct turn *t, const struct child *c)
{
    qp_str guid;
    struct op_msg_put put = {.parent_guid = t->site.guid, .payload = c->input};
    if (c->born != NULL) {
        return turn_op(t, &(struct op){.kind = OP_act_create, .act_create = *c->born});
    }
    QP_TRY(step_guid(t->bundle, t->site.guid, c->addr, &guid));
    return may_fuse(t) ? child_fuse(t, c, guid) : turn_put(t, MESSAGE_ENTER, c->addr, guid, &put);
}

static int children_publish(struct turn *t)
{
    int rc = arrivals_open(t);
    for (const struct child *c = t->children; c != NULL && rc == QP_OK; c = c->next) {
        rc = child_publish(t, c);
    }
    return rc == QP_OK ? arrivals_move(t) : rc;
}

/* --------------------------------------------------------------------------------- answers elsewhere */

static int answer_guid(struct turn *t, const struct answer_at *at, qp_str *out_guid)
{
    QP_TRY(step_guid(t->bundle, t->site.guid, at->purpose, out_guid));
    return at->each ? step_guid(t->bundle, *out_guid, at->addr, out_guid) : QP_OK;
}

/* A turn on another activity of the job, in the same bundle. */
static int turn_beside(struct turn *t, const struct site *site, struct turn *out_turn)
{
    QP_TRY(turn_init(out_turn, t->kernel, t->bundle, t->outcome, site));
    out_turn->depth = t->depth + 1;
    return QP_OK;
}

/* Leg1 that is still to come, by the GUID that its ENTER has: that finds it done. */
static int enter_now(struct turn *t, const struct act_row *act)
{
    struct turn turn;
    struct site site = {.ref = t->site.ref, .addr = act->addr};
    QP_TRY(step_guid(t->bundle, act->parent_guid, act->addr, &site.guid));
    QP_TRY(turn_beside(t, &site, &turn));
    turn.parent_guid = act->parent_guid;
    return turn_enter(&turn);
}

/* The Leg2 entry. Whether the target was over is not this turn's affair. */
static int answer_fuse(struct turn *t, const struct pending_answer *a, qp_str guid)
{
    struct turn turn;
    struct site site = {.ref = t->site.ref, .addr = a->at.addr, .guid = guid, .at = a->at.at};
    QP_TRY(turn_beside(t, &site, &turn));
    turn.parent_guid = t->site.guid;
    turn.code = a->at.code;
    turn.payload = a->at.payload;
    return turn_answer(&turn);
}

static int answer_publish(struct turn *t, const struct pending_answer *a)
{
    struct op_msg_put put = {
        .parent_guid = t->site.guid, .code = a->at.code, .payload = a->at.payload};
    const struct act_row *act = NULL;
    qp_str guid;
    QP_TRY(answer_guid(t, &a->at, &guid));
    QP_TRY(turn_act(t, a->at.addr, &act));
    if (a->at.now && act == NULL) {
        return QP_E_NOT_FOUND;
    }
    if (a->at.now && !ledger_leg1_is_done(act->ledger)) {
        QP_TRY(enter_now(t, act));
        return answer_fuse(t, a, guid);
    }
    if (a->at.now || (may_fuse(t) && act != NULL && ledger_leg1_is_done(act->ledger) &&
                      turn_has_time(t))) { /* a page may follow it */
        return answer_fuse(t, a, guid);
    }
    return turn_put(t, a->kind, a->at.addr, guid, &put);
}

/* An answer whose target is answered in this bundle. */
static int answer_now(struct turn *t, const struct answer_at *at)
{
    struct pending_answer a = {.at = *at, .kind = MESSAGE_ANSWER};
    QP_ASSERT(at->now);
    QP_TRY(bundle_run(t->bundle));
    return answer_publish(t, &a);
}

/* The page and the answers that this step has named, now that its digits and children stand. What they leave in the outcome is this
 * turn's, but for what is said of the message itself. */
int turn_answers(struct turn *t)
{
    const struct pending_answer *a;
    bool late = t->outcome->late;
    bool more = t->outcome->more;
    if (t->answers == NULL && t->level == NULL) {
        return QP_OK;
    }
    if (t->level != NULL) {
        QP_TRY(level_run(t, answer_now));
    }
    a = t->answers;
    t->answers = t->last_answer = NULL;
    for (; a != NULL; a = a->next) {
        QP_TRY(bundle_run(t->bundle));
        QP_TRY(answer_publish(t, a));
    }
    t->outcome->late = late;
    t->outcome->more = more;
    return turn_settle(t);
}

/* ------------------------------------------------------------------------------------------ steps */

/* What has failed before this entry came does not count for the next. */
static int attempts_forget(struct turn *t)
{
    return turn_op(
        t, &(struct op){.kind = OP_act_add, .act_add = {.ref = t->site.ref, .addr = t->site.addr}});
}

/* Step 1, of Leg2 or of a Leg1 with a GUID: there it also completes the leg. */
static int do_work(struct turn *t)
{
    bool answers = ledger_leg1_is_done(t->act->ledger);
    struct work work = {.code = answers ? t->code : 0, .output = t->payload};
    int rc = t->program->work == NULL ? QP_OK : t->program->work(t, &work);
    rc = rc == QP_OK && work.code >= 400 ? turn_failed(t, work.code, work.output) : rc;
    QP_TRY(rc);
    if (answers && cyclic_is_open(t->act->cyclic) && work.code < 400 && t->act->attempt > 0) {
        QP_TRY(attempts_forget(t)); /* each entry has its own */
    }
    return answers ? step_work(t->bundle, &t->site, work.code, work.output)
                   : leg1_work(t->bundle, &t->site, work.code, work.output,
                               t->act->cyclic == CYCLIC_PIVOT);
}

/* What the activity's obligation is about from now on: its row and its job's say so (store/rows.h). */
static int act_waits(struct turn *t, enum act_wait waits)
{
    return turn_op(
        t,
        &(struct op){
            .kind = OP_act_add,
            .act_add = {.ref = t->site.ref, .addr = t->site.addr, .attempt = -1, .waits = waits}});
}

/* It waited, and has a task now. */
static int act_works(struct turn *t)
{
    return turn_op(
        t,
        &(struct op){
            .kind = OP_act_add,
            .act_add = {.ref = t->site.ref, .addr = t->site.addr, .attempt = -1, .works = true}});
}

static bool is_trigger_open(const struct turn *t)
{
    return str_equal(t->site.guid, t->job->owner_guid) && t->act->category == 'D';
}

/* Whatever ends a job, its error has the one shape. Who ends it from outside stands at its trigger, and is no activity of
 * it. A job that was ended without a word has no error; one that failed always has one. */
static int end_error(struct turn *t)
{
    struct error e = {.code = t->guid.code >= 400 ? t->guid.code : ERROR_CODE,
                      .message = QP_STR("failed"),
                      .addr = t->act->category == 'D' ? QP_NONE : t->site.addr};
    return str_is_none(t->end_error) && t->end_state != JOB_FAILED
               ? QP_OK
               : error_shape(turn_arena(t), t->end_error, &e, &t->end_error);
}

int turn_notify(struct turn *t, const struct op_act_notify *notify)
{
    struct op *op = bundle_op(t->bundle, OP_act_notify);
    if (op == NULL) {
        return t->bundle->commit->rc;
    }
    op->act_notify = *notify;
    op->act_notify.ref = t->site.ref;
    QP_TRY(bundle_run(t->bundle));
    return op->act_notify.out_task ? turn_decision(t, notify->addr) : QP_OK;
}

/* After the compound primitive, which gives this GUID its journal entry: the activity that decides can see it. */
static int notify(struct turn *t, const struct spawn *spawn)
{
    return str_is_none(spawn->notify.addr) ? QP_OK : turn_notify(t, &spawn->notify);
}

/* Step 2: what the program wants, the compound primitive, the children. */
static int do_spawn(struct turn *t)
{
    struct spawn spawn = {.close_state = JOB_COMPLETED, .pending = t->guid.code == CODE_PENDING};
    int rc;
    turn_forget(t);
    rc = t->ends                     ? QP_OK
         : t->program->spawn == NULL ? turn_spawn_nothing(t)
                                     : t->program->spawn(t, &spawn);
    if (rc != QP_OK) {
        return rc;
    }
    if (spawn.pending && t->waits) {
        QP_TRY(act_waits(t, ACT_WAITS));
    } else if (spawn.pending && t->works && t->act->waits == ACT_WAITS) {
        QP_TRY(act_works(t));
    }
    spawn.n = t->child_count;
    if (t->ends && t->act->category == 'D') {
        spawn.given = true; /* who ends a job from outside answers for no obligation */
    }
    if (!spawn.given) {
        spawn.delta = spawn.n - (spawn.pending ? 0 : 1);
    }
    spawn.ends = t->ends && !job_is_closed(t);
    if (spawn.ends) {
        rc = end_error(t);
        rc = rc == QP_OK ? job_end(t->bundle, &t->site, t->end_state, t->end_error) : rc;
        rc = rc == QP_OK && t->descends ? children_end(t) : rc;
    }
    if (rc == QP_OK) {
        rc = is_trigger_open(t) ? step_open(t->bundle, &t->site, spawn.n)
                                : step_spawn(t->bundle, &t->site, &spawn);
    }
    QP_TRY(rc);
    QP_TRY(bundle_run(t->bundle));
    QP_TRY(notify(t, &spawn));
    return children_publish(t);
}

/* What the job still waits for goes; what is more than one page has a message of its own. */
static int sweep(struct turn *t)
{
    char number[24];
    struct op *op = bundle_op(t->bundle, OP_job_sweep);
    int rc;
    if (op == NULL) {
        return t->bundle->commit->rc;
    }
    op->job_sweep = (struct op_job_sweep){.ref = t->site.ref, .limit = LIMIT_SWEEP_ROWS};
    rc = bundle_run(t->bundle);
    if (rc == QP_OK && op->job_sweep.out_more) {
        struct op put = {.kind = OP_msg_put,
                         .msg_put = {.ref = {t->site.ref.ns, 0},
                                     .owner = OWNER_SYSTEM,
                                     .kind = MESSAGE_SWEEP,
                                     .topic = ENGINE_TOPIC}};
        qp_str job = {number, 0};
        job.n = (size_t)snprintf(number, sizeof number, "%lld", (long long)t->site.ref.job);
        rc = arena_copy(turn_arena(t), job, &put.msg_put.payload) ? QP_OK : QP_E_NOMEM;
        rc = rc == QP_OK ? turn_guid(t, QP_STR("sweep"), &put.msg_put.guid) : rc;
        rc = rc == QP_OK ? turn_op(t, &put) : rc;
    }
    return rc;
}

/* Step 3, by the GUID that closed the job. */
static int do_complete(struct turn *t)
{
    struct complete complete = {.keep_ms = t->kernel->keep_ms,
                                .clean = t->program->leaves_nothing && t->job->kept == 0};
    int rc = t->program->complete == NULL ? QP_OK : t->program->complete(t, &complete);
    rc = rc == QP_OK ? step_complete(t->bundle, &t->site, &complete) : rc;
    rc = rc == QP_OK ? turn_settle(t) : rc;
    rc = rc == QP_OK ? parent_answer(t) : rc;
    rc = rc == QP_OK ? children_close(t) : rc;
    rc = rc == QP_OK && !(complete.clean && t->job->state == JOB_COMPLETED) ? sweep(t) : rc;
    t->outcome->ended = t->site.ref;
    t->outcome->ended_state = (enum job_state)t->job->state;
    t->outcome->ended_workflow = t->job->workflow;
    t->outcome->ended_since = t->job->created_at;
    return rc;
}

bool act_is_over(const struct turn *t)
{
    return t->act->escalated != 0 || ledger_is_finalized(t->act->ledger);
}

/* Another GUID of the activity has closed the job, and finalizes in its step 3: that is still to come, or it would
 * be final already. */
static int is_closed_here(struct turn *t, bool *out_closed)
{
    struct guid_row key = {.ns = t->site.ref.ns,
                           .job = t->site.ref.job,
                           .addr = t->site.addr,
                           .guid = t->job->closed_by};
    struct guid_row closing;
    *out_closed = false;
    return job_is_closed(t) && !str_equal(key.guid, t->site.guid)
               ? bundle_guid(t->bundle, &key, &closing, out_closed)
               : QP_OK;
}

/* Two that race for one activity (a signal and a timer) may both have entered before one of them ended it. The
 * other one brought nothing: it must not spawn, not move a semaphore that has no obligation of it, and not
 * finalize what the other one is about to. */
static int is_beaten(struct turn *t, bool *out_beaten)
{
    enum step next = step_next(t->guid.ledger);
    *out_beaten = false;
    if (PLANT(dropped_compare) || t->site.never_final ||
        (next != STEP_WORK && next != STEP_SPAWN)) {
        return QP_OK;
    }
    *out_beaten = act_is_over(t);
    return *out_beaten ? QP_OK : is_closed_here(t, out_beaten);
}

/* From what the GUID's ledger says to its end, or one step of it. */
int turn_steps(struct turn *t)
{
    bool done = false;
    bool beaten = false;
    int rc = is_beaten(t, &beaten);
    if (rc == QP_OK && beaten) {
        return turn_late(t);
    }
    while (rc == QP_OK && !done) {
        switch (step_next(t->guid.ledger)) {
        case STEP_WORK:
            rc = do_work(t);
            break;
        case STEP_SPAWN:
            rc = do_spawn(t);
            break;
        case STEP_COMPLETE:
            rc = do_complete(t);
            break;
        case STEP_ACK:
            return QP_OK;
        }
        rc = rc == QP_OK ? turn_settle(t) : rc;
        rc = rc == QP_OK ? turn_answers(t) : rc;
        done = t->stepwise;
    }
    t->outcome->more = rc == QP_OK && step_next(t->guid.ledger) != STEP_ACK;
    return rc;
}

/* ------------------------------------------------------------------------------------------- Leg1 */

/* What an activity is was said when it was first entered, and stands on its row from then on: asked again, after time has
 * passed and others went on, a program may well say something else. */
static int leg1_row(struct turn *t, struct op_act_create *row)
{
    if (t->act == NULL) {
        return t->program->describe(t, row);
    }
    row->category = t->act->category;
    row->cyclic = t->act->cyclic;
    return QP_OK;
}

/* The entry mark; in categories that need one, with the GUID. */
static int leg1_mark(struct turn *t, const struct op_act_create *row, bool with_guid)
{
    int rc = leg1_enter(t->bundle, &t->site, row, t->act != NULL, t->kernel->ceilings);
    rc = rc == QP_OK && with_guid ? guid_seed(t->bundle, &t->site) : rc;
    return rc == QP_OK ? turn_settle(t) : rc;
}

/* The work of Leg1, and whether the activity waits from now on. */
static int leg1_program(struct turn *t)
{
    t->waits = false;
    if (t->program->enter != NULL) {
        QP_TRY(t->program->enter(t));
    }
    return t->waits && t->act->cyclic != CYCLIC_LENT ? act_waits(t, ACT_WAITS) : QP_OK;
}

/* Without a GUID: the work of Leg1 and the digit that proves it. */
static int leg1_do(struct turn *t)
{
    bool preseed = t->act->cyclic == CYCLIC_PIVOT;
    QP_TRY(leg1_program(t));
    QP_TRY(leg1_done(t->bundle, &t->site, preseed));
    QP_TRY(turn_settle(t));
    return turn_answers(t);
}

/* A self-interrupt is of category C and closes the job, so somebody must own the edge (H9). */
static bool needs_guid(const struct op_act_create *row)
{
    return row->category == 'B' || (row->category == 'C' && row->cyclic == CYCLIC_NO);
}

/* A message whose Leg1 is done already: it leaves its mark, and goes (18.1). */
static int leg1_replayed(struct turn *t)
{
    int64_t entries = ledger_leg1_entries(t->act->ledger);
    int rc = entries < t->kernel->ceilings.leg1 && t->act->escalated == 0 && !t->entered
                 ? leg1_enter(t->bundle, &t->site, NULL, true, t->kernel->ceilings)
                 : QP_OK;
    return rc == QP_OK ? turn_late(t) : rc;
}

/* The digits of a whole Leg1 without a GUID: the row is born with them, or, where it was made before (turn_row), gets
 * them. */
static struct op leg1_whole(const struct turn *t, const struct op_act_create *row)
{
    int64_t digits = LEDGER_WAITING + (row->cyclic == CYCLIC_PIVOT ? LEDGER_LEG2_ENTRY : 0);
    struct op op = {.kind = OP_act_create, .act_create = *row};
    if (t->act != NULL) {
        return (struct op){.kind = OP_act_add,
                           .act_add = {.ref = t->site.ref,
                                       .addr = t->site.addr,
                                       .weight = digits,
                                       .guards = {guard_digit(LEDGER_LEG1_DONE, 0),
                                                  {.weight = LEDGER_LEG1_ENTRY, .radix = 100}},
                                       .guard_count = 2,
                                       .attempt = -1}};
    }
    op.act_create.ref = t->site.ref;
    op.act_create.addr = t->site.addr;
    op.act_create.ledger = digits;
    return op;
}

/* The whole Leg1 without a GUID in one. */
static int leg1_fused(struct turn *t, const struct op_act_create *row)
{
    struct op op = leg1_whole(t, row);
    QP_TRY(turn_op(t, &op));
    QP_TRY(bundle_run(t->bundle));
    QP_TRY(turn_act(t, t->site.addr, &t->act));
    QP_TRY(leg1_program(t));
    return turn_answers(t);
}

/* A row that its parent's step 1 has made, and nothing else: as good as none. */
static bool is_entered(const struct turn *t)
{
    return t->act != NULL && t->act->ledger != 0;
}

int turn_enter(struct turn *t)
{
    struct op_act_create row = {.parent_guid = t->parent_guid, .input = t->payload};
    int rc = turn_ledgers(t);
    if (rc == QP_OK && PLANT(job_before_guid) && job_is_closed(t)) {
        return turn_late(t);
    }
    if (rc != QP_OK || t->has_guid) {
        return rc == QP_OK ? turn_steps(t) : rc;
    }
    if (t->act != NULL && ledger_leg1_is_done(t->act->ledger)) {
        return leg1_replayed(t);
    }
    if (job_is_closed(t)) {
        return turn_late(t);
    }
    rc = leg1_row(t, &row);
    if (rc == QP_OK && !is_entered(t) && !t->stepwise && !needs_guid(&row)) {
        return leg1_fused(t, &row);
    }
    if (rc == QP_OK && !t->entered) {
        rc = leg1_mark(t, &row, needs_guid(&row));
        t->outcome->more = t->stepwise;
    }
    if (rc != QP_OK || (t->stepwise && !t->entered)) {
        return rc;
    }
    t->outcome->more = false;
    return t->has_guid ? turn_steps(t) : leg1_do(t);
}

/* ------------------------------------------------------------------------------------------- Leg2 */

/* The entry of an answer; *out_late: it is for nobody any more. */
static int answer_enter(struct turn *t, bool *out_late)
{
    int rc = QP_OK;
    *out_late = (t->act != NULL && act_is_over(t)) || job_is_closed(t);
    if (!*out_late && t->act == NULL) {
        return QP_E_DIGIT; /* Leg1 is still to come: again later, as when it is half done */
    }
    if (!*out_late && t->program->yields != NULL) {
        rc = t->program->yields(t, out_late);
    }
    if (rc != QP_OK || *out_late) {
        return rc;
    }
    rc = leg2_enter(t->bundle, &t->site, t->kernel->ceilings);
    return rc == QP_OK ? turn_settle(t) : rc;
}

int turn_answer(struct turn *t)
{
    int rc = turn_ledgers(t);
    if (rc != QP_OK) {
        return rc;
    }
    if (PLANT(blind_increment) && t->has_guid) {
        rc = turn_op(t, &(struct op){.kind = OP_act_add,
                                     .act_add = {.ref = t->site.ref,
                                                 .addr = t->site.addr,
                                                 .attempt = -1,
                                                 .weight = LEDGER_LEG2_ENTRY}});
    }
    if (!t->has_guid || (PLANT(job_before_guid) && job_is_closed(t))) {
        bool late = false;
        rc = answer_enter(t, &late);
        if (rc == QP_OK && late) {
            return turn_late(t);
        }
        if (rc != QP_OK || t->stepwise) {
            t->outcome->more = rc == QP_OK;
            return rc;
        }
    }
    return turn_steps(t);
}
