/* engine.c - an engine, and its rounds (see engine.h)
 *
 *   engine_round:  lease -> collect -> decide, commit -> answer
 *                           (collect.c)                  (answer.c)
 *
 *   I1  nobody hears of anything before its commit has returned
 *   I2  a suspect is alone in its commit: if it kills us, nothing else is suspect because of it
 *   I3  the claims of a round come last in its commit, so they see what the round has put
 *   I4  what a round took and could not commit is still there: commands are answered with the
 *       failure, deliveries stay in the batch
 */
#include "base/failpoint.h"
#include "kernel/engine_internal.h"
#include "kernel/face.h"

/* Small commits are over before another thread has begun with them. */
#define ELSEWHERE_MIN 128

/* ------------------------------------------------------------------------------- open and close */

/* Those of the options, then those of the faces. */
static size_t programs_take(struct engine *e, const struct engine_options *o)
{
    size_t count = 0;
    for (size_t i = 0; i < o->program_count; i++) {
        e->programs[count++] = o->programs[i];
    }
    for (size_t i = 0; o->faces != NULL && i < o->faces->count; i++) {
        QP_ASSERT(count < ARRAY_COUNT(e->programs));
        e->programs[count++] = &o->faces->all[i].program;
    }
    return count;
}

static void engine_setup(struct engine *e, const struct engine_options *o)
{
    e->env = *store_env(o->store);
    e->store = o->store;
    e->options = *o;
    e->options.max_deliveries = o->max_deliveries > 0 ? o->max_deliveries : LIMIT_DELIVERIES;
    e->options.batch = o->batch > 0 ? o->batch : LIMIT_ROUND_MESSAGES;
    e->options.feed_ms = o->feed_ms > 0 ? o->feed_ms : LIMIT_FEED_MS;
    e->feed_at = store_now(o->store) + LIMIT_FEED_LOOK_MS;
    e->options.elsewhere = o->elsewhere > 0 ? o->elsewhere : ELSEWHERE_MIN;
    e->last_number = -1;
    e->commands_us = INT64_MIN / 2;
    e->wants_messages = true;
    e->kernel = (struct kernel){.programs = e->programs,
                                .program_count = programs_take(e, o),
                                .faces = o->faces,
                                .ceilings = o->ceilings.leg1 > 0 ? o->ceilings : CEILINGS_DEFAULT,
                                .stepwise = o->stepwise,
                                .keep_ms = o->keep_ms,
                                .context = e,
                                .reserve = serve_reserve};
    commit_init(&e->commit, e->store);
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        e->rounds[i] = (struct round){.engine = e, .place = i};
        commit_init(&e->rounds[i].commit, e->store);
    }
}

int engine_open(const struct engine_options *options, struct engine **out_engine,
                struct qp_err *err)
{
    const struct qp_env *env = store_env(options->store);
    struct engine *e = mem_alloc(env, sizeof *e);
    int rc;
    QP_ASSERT(options->program_count <= LIMIT_PROGRAMS);
    if (e == NULL) {
        return err_set(err, QP_E_NOMEM, "engine: out of memory");
    }
    engine_setup(e, options);
    rc = run_end_others(e, options->lease_ms == 0, err);
    rc = rc == QP_OK ? run_enter(e, err) : rc;
    if (rc != QP_OK) {
        engine_abandon(e);
        return rc;
    }
    *out_engine = e;
    return QP_OK;
}

void engine_abandon(struct engine *e)
{
    struct qp_env env;
    if (e == NULL) {
        return;
    }
    env = e->env;
    while (e->batch != NULL) {
        struct delivery *d = e->batch;
        e->batch = d->next;
        delivery_free(d);
    }
    losses_done(e);
    commit_done(&e->commit);
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        commit_done(&e->rounds[i].commit);
    }
    mem_free(&env, e);
}

int engine_close(struct engine *e, struct qp_err *err)
{
    int rc;
    if (e == NULL) {
        return QP_OK;
    }
    commands_fail(e, e->commands, QP_E_CLOSED, "the engine was closed");
    e->commands = NULL;
    rc = e->failed != QP_OK || e->over ? QP_OK : run_end(e, e->kernel.epoch, NODE_LEFT, err);
    engine_abandon(e);
    return rc;
}

void engine_listen(struct engine *e, bool listens)
{
    e->listens = listens;
}

struct kernel *engine_kernel(struct engine *e)
{
    return &e->kernel;
}

struct store *engine_store(struct engine *e)
{
    return e->store;
}

struct engine_stats engine_stats(const struct engine *e)
{
    return e->stats;
}

/* ------------------------------------------------------------------------------------------- round */

/* Whoever was declared dead begins again: what it had in hand is no longer its own. */
static int run_again(struct engine *e, struct qp_err *err)
{
    int rc;
    while (e->batch != NULL) {
        struct delivery *d = e->batch;
        e->batch = d->next;
        delivery_free(d);
    }
    log_write(&e->env, QP_LOG_WARN, LOG_MSG("this run is over, another one begins"),
              LOG_I64("epoch", e->kernel.epoch));
    rc = run_end(e, e->kernel.epoch, NODE_LEFT, err);
    return rc == QP_OK ? run_enter(e, err) : rc;
}

static bool has_work(const struct engine *e, qp_ms now)
{
    return e->commands != NULL || e->batch != NULL || e->wants_messages || now >= e->wake_at ||
           now >= e->renew_at || serve_is_wanted(e);
}

/* What others left behind, and our own lease. Whether an op of this has happened may be unknown: all of
 * them may be done again. */
static int look_after_runs(struct engine *e, qp_ms now, struct qp_err *err)
{
    int rc = now >= e->renew_at ? run_end_others(e, false, err) : QP_OK;
    rc = rc == QP_OK && e->over ? run_again(e, err) : rc;
    return rc == QP_E_UNKNOWN_OUTCOME ? err_wrap(err, QP_E_BUSY, "run") : rc;
}

/* Others put messages, tasks and timers without our hearing of it. What is due is asked for, and not worked
 * on at once: mostly there is nothing, and to ask takes no locks. */
static int look_around(struct engine *e, qp_ms now, struct qp_err *err)
{
    int rc;
    if (now < e->look_at) {
        return QP_OK;
    }
    rc = store_due(e->store, &e->wake_at, err);
    if (rc == QP_OK) {
        e->wants_messages = true;
        serve_look_again(e, UINT64_MAX);
        e->look_at = engine_is_alone(e) ? INT64_MAX : now + LIMIT_LOOK_MS;
    }
    return rc;
}

void engine_look_again(struct engine *e)
{
    e->look_at = 0;
}

/* After a failure of the store for good: nobody waits for nothing. Of a commit that was lost the outcome is unknown; what
 * comes after it was certainly not done. */
static int engine_refuse(struct engine *e, struct qp_err *err)
{
    static const char why[] = "the engine has stopped: open the store again";
    struct command *all = e->commands;
    e->commands = NULL;
    commands_fail(e, all, e->failed == QP_E_UNKNOWN_OUTCOME ? QP_E_FSYNC : e->failed, why);
    return err_set(err, e->failed, "%s", why);
}

/* A round whose commit is done, one way or the other. */
static int round_end(struct round *r, struct qp_err *err)
{
    struct engine *e = r->engine;
    int rc = r->commit.rc;
    e->open = e->open == r ? NULL : e->open;
    e->writing = e->writing == r ? NULL : e->writing;
    serve_settled(e, r); /* the workers have what they were promised now, or not at all */
    rc = rc == QP_OK ? FP("engine.committed") : rc;
    return rc == QP_OK ? round_answer(r, err) : round_failed(r, rc, err);
}

/* The round that is being written, if there is one. */
static int writing_end(struct engine *e, struct qp_err *err)
{
    if (e->writing == NULL) {
        return QP_OK;
    }
    if (e->writing->commit.state == COMMIT_RUNNING) {
        store_settle(e->store);
    }
    return round_end(e->writing, err);
}

/* What is done is answered, in order. */
static int rounds_end(struct engine *e, struct qp_err *err)
{
    int rc = e->writing != NULL && !store_is_writing(e->store) ? writing_end(e, err) : QP_OK;
    if (rc == QP_OK && e->open != NULL && e->open->commit.state == COMMIT_DONE) {
        rc = round_end(e->open, err);
    }
    return rc;
}

static void round_open(struct engine *e, qp_ms now)
{
    struct round *r = &e->rounds[e->writing == &e->rounds[0] ? 1 : 0];
    struct commit commit;
    commit_reset(&r->commit);
    commit = r->commit;
    *r = (struct round){.engine = e,
                        .place = r->place,
                        .now = now,
                        .began_us = e->env.monotonic_us(e->env.context)};
    r->commit = commit;
    e->open = r;
    e->stats.rounds++;
}

/* Claims, and what is due, go by what is stored, and a suspect must not draw others into its fall. */
static bool must_be_alone(const struct engine *e, qp_ms now)
{
    return e->batch != NULL || e->wants_messages || now >= e->wake_at || now >= e->feed_at ||
           now >= e->renew_at || serve_is_wanted(e);
}

/* Everything in one commit, which is done on return. */
static int round_alone(struct engine *e, qp_ms now, struct qp_err *err)
{
    struct round *r;
    int rc;
    round_open(e, now);
    r = e->open;
    round_collect(r);
    if (!(r->batch != NULL && r->batch->suspect && r->batch->state == DELIVERY_WORK)) {
        round_claim(r);
    }
    rc = FP("engine.collected");
    if (rc == QP_OK) {
        (void)store_commit(e->store, &r->commit); /* the commit says it */
    } else {
        r->commit.rc = rc;
    }
    slice_end(r);
    return round_end(r, err);
}

/* Many are enough: who came first has waited long. */
#define OPEN_MOST LIMIT_ROUND_COMMANDS
/* So many at a time: should the writer be done meanwhile, it does not wait for all that has come. So the rounds
 * become as large as they must be for both to have something to do. */
#define AHEAD_COMMANDS 128

/* What has come joins the open round; it goes to the writer when that has nothing else to do. */
static int round_ahead(struct engine *e, qp_ms now, struct qp_err *err)
{
    struct round *before;
    struct round *r;
    bool here;
    int rc;
    if (e->open == NULL) {
        round_open(e, now);
    }
    r = e->open;
    round_join(r, AHEAD_COMMANDS);
    rc = FP("engine.collected");
    if (rc != QP_OK) {
        store_give_up(e->store, &r->commit, rc);
    } else {
        rc = store_decide(e->store, &r->commit);
    }
    if (rc != QP_OK) {
        (void)writing_end(e, err); /* in order; what it says is said of this one, too */
        return round_end(r, err);
    }
    here = store_has_reached(&r->commit) || (int64_t)r->commit.bundle_count < e->options.elsewhere;
    if (store_is_writing(e->store) && r->commit.bundle_count < OPEN_MOST &&
        !store_has_reached(&r->commit)) {
        if (e->commands == NULL) {
            store_prepare(e->store, &r->commit);
        }
        return QP_OK;
    }
    store_write(e->store, &r->commit, !here);
    before = e->writing;
    e->open = NULL;
    e->writing = r;
    rc = before != NULL ? round_end(before, err) : QP_OK;
    if (r->commit.state == COMMIT_DONE) {
        int own = round_end(r, err);
        return rc != QP_OK ? rc : own;
    }
    return rc;
}

/* With a writer: what can be decided by what is known goes ahead, everything else waits for the rounds
 * before it. */
static int round_overlapping(struct engine *e, qp_ms now, struct qp_err *err)
{
    int rc;
    if (!must_be_alone(e, now) && (e->open != NULL || e->commands != NULL)) {
        return round_ahead(e, now, err);
    }
    rounds_commit(e);
    rc = rounds_end(e, err);
    return rc == QP_OK ? round_alone(e, now, err) : rc;
}

int engine_round(struct engine *e, bool *out_busy, struct qp_err *err)
{
    qp_ms now = store_now(e->store);
    int rc = rounds_end(e, err);
    *out_busy = false;
    if (rc == QP_OK && e->failed != QP_OK) {
        rc = engine_refuse(e, err);
    }
    rc = rc == QP_OK ? look_after_runs(e, now, err) : rc;
    rc = rc == QP_OK ? look_around(e, now, err) : rc;
    rc = rc == QP_OK ? rounds_end(e, err) : rc;
    if (rc != QP_OK || (e->open == NULL && !has_work(e, now))) {
        return rc;
    }
    rc = e->overlaps ? round_overlapping(e, now, err) : round_alone(e, now, err);
    *out_busy = rc == QP_OK && (has_work(e, now) || e->over);
    return rc;
}

void engine_use_writer(struct engine *e, const struct store_writer *writer)
{
    QP_ASSERT(!engine_is_writing(e));
    e->overlaps = store_use_writer(e->store, writer);
}

bool engine_is_writing(const struct engine *e)
{
    return e->open != NULL || e->writing != NULL;
}

int engine_rest(struct engine *e, struct qp_err *err)
{
    int rc;
    rounds_commit(e);
    rc = rounds_end(e, err);
    while (engine_is_writing(e)) { /* the second fails with the first, and says so too */
        struct qp_err ignored;
        (void)rounds_end(e, &ignored);
    }
    return rc;
}

int engine_settle(struct engine *e, struct qp_err *err)
{
    bool busy = true;
    int rc = QP_OK;
    while (rc == QP_OK && busy) {
        rc = engine_round(e, &busy, err);
    }
    return rc;
}

void engine_renew(struct engine *e)
{
    if (e->options.lease_ms > 0) {
        e->renew_at = 0;
    }
}

qp_ms engine_deadline(const struct engine *e)
{
    qp_ms at = e->wake_at < e->renew_at ? e->wake_at : e->renew_at;
    return at < e->look_at ? at : e->look_at;
}
