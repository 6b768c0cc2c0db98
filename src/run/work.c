/* work.c - a call of a worker elsewhere, from its submission to its answer (see work.h)
 *
 *   I1  a state is in exactly one of: the inbox, the busy list, the parked list, its owner's hands
 *   I2  it is answered only when nothing of it is in the engine, and no round has promised it a task
 *   I3  a parked one is in the heap of deadlines, and nothing else looks at it
 */
#include "run/work.h"

#include <stdio.h>

#include "run/loop.h"
#include "run/presence.h"
#include "run/remote.h"
#include "run/remote_topics.h"
#include "run/remote_workers.h"
#include "run/stats.h"
#include "run/work_check.h"
#include "run/work_token.h"
#include "store/error.h"

/* ------------------------------------------------------------------------------- any thread: in and out */

static void state_free(struct work_poll *s)
{
    const struct qp_env *env = &s->q->env;
    while (s->tasks != NULL) {
        struct work_task *t = s->tasks;
        s->tasks = t->next;
        task_free(env, (struct task *)(void *)t - 1);
    }
    mem_free(env, s->announcements);
    mem_free(env, s->brought);
    mem_free(env, s);
}

static void brought_fill(struct work_poll *s)
{
    struct work_call *c = s->of;
    for (size_t i = 0; i < s->brought_count; i++) {
        struct brought *b = &s->brought[i];
        bool is_result = i < c->result_count;
        struct msg_ref ref;
        b->state = s;
        b->of_result = is_result ? &c->results[i] : NULL;
        b->of_beat = is_result ? NULL : &c->beats[i - c->result_count];
        b->stale = !token_read(&c->caller, is_result ? b->of_result->token : b->of_beat->token,
                               &ref, b->guid) ||
                   ref.ns != s->ns;
        if (!b->stale && is_result) {
            b->result.of.ref = ref;
        } else if (!b->stale) {
            b->beat.ref = ref;
        }
    }
}

static struct work_poll *state_make(qp *q, struct work_call *c, int64_t ns)
{
    size_t brought = c->result_count + c->beat_count;
    size_t waiters = c->want > 0 ? c->topic_count + c->name_count : 0;
    struct work_poll *s = mem_alloc(&q->env, sizeof *s + waiters * sizeof s->waiters[0]);
    if (s == NULL) {
        return NULL;
    }
    s->q = q;
    s->of = c;
    s->ns = ns;
    s->left = c->want;
    s->waiter_count = waiters;
    s->brought = brought > 0 ? mem_alloc(&q->env, brought * sizeof *s->brought) : NULL;
    if (brought > 0 && s->brought == NULL) {
        mem_free(&q->env, s);
        return NULL;
    }
    s->brought_count = brought;
    brought_fill(s);
    return s;
}

static void work_execute(qp *q, struct call *c);
static void work_withdrawn(qp *q, struct call *c);

/* Into the inbox, if there is room for one more call. */
static int work_post(qp *q, struct work_poll *s, struct qp_err *err)
{
    struct remote *w = q->remote;
    int rc = QP_OK;
    (void)pthread_mutex_lock(&q->driver.lock);
    if (w->refusing || q->driver.sealed) {
        rc = QP_E_CLOSED;
    } else if (q->driver.failed != QP_OK) {
        rc = q->driver.failed;
    } else if (w->call_count >= LIMIT_WORK_CALLS) {
        rc = QP_E_LIMIT;
    } else {
        w->call_count++;
        call_post(&q->driver, &s->submission);
    }
    (void)pthread_mutex_unlock(&q->driver.lock);
    switch (rc) {
    case QP_OK:
        return QP_OK;
    case QP_E_CLOSED:
        return err_set(err, rc, "the engine is being closed");
    case QP_E_LIMIT:
        return err_set(err, rc, "%d calls for tasks wait already", LIMIT_WORK_CALLS);
    default:
        return err_set(err, rc, "the engine has stopped: open the store again");
    }
}

int work_submit(qp *q, struct work_call *call, struct qp_err *err)
{
    struct work_poll *s;
    int64_t ns = 0;
    int rc;
    if (q->engine == NULL) {
        return err_set(err, QP_E_READONLY, "the store was opened for reading only");
    }
    QP_TRY(work_check(call, err));
    QP_TRY(space_number(q, call->ns, &ns, err));
    work_check_brought(q, call);
    s = state_make(q, call, ns);
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "work: out of memory");
    }
    s->submission = (struct call){.execute = work_execute, .withdrawn = work_withdrawn, .q = q};
    call->state = s;
    call->tasks = NULL;
    call->task_count = 0;
    call->cancels = NULL;
    call->cancel_count = 0;
    call->refused = NULL;
    rc = work_post(q, s, err);
    if (rc != QP_OK) {
        call->state = NULL;
        state_free(s);
    }
    return rc;
}

static void abort_execute(qp *q, struct call *c)
{
    struct work_poll *s = (struct work_poll *)((char *)c - offsetof(struct work_poll, abort));
    (void)q;
    s->aborted = true;
    waiters_remove(s); /* no round promises it anything from now on */
    remote_wake(s);
}

void work_abort(qp *q, struct work_call *call)
{
    struct work_poll *s = call->state;
    if (s == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&q->driver.lock);
    if (!s->abort_queued) {
        s->abort_queued = true;
        s->abort = (struct call){.execute = abort_execute, .q = q, .local = true};
        call_post(&q->driver, &s->abort);
    }
    (void)pthread_mutex_unlock(&q->driver.lock);
}

static void done_execute(qp *q, struct call *c)
{
    struct work_poll *s = (struct work_poll *)((char *)c - offsetof(struct work_poll, done));
    for (const struct work_task *t = s->tasks; t != NULL && s->given_back; t = t->next) {
        const struct task *task = (const struct task *)(const void *)t - 1;
        hand_drop(q, &task->ref);
        remote_give_back(q, &task->ref, NULL);
    }
    state_free(s);
}

static void cancels_free(qp *q, struct work_call *call)
{
    while (call->cancels != NULL) {
        struct work_cancel *c = call->cancels;
        call->cancels = c->next;
        mem_free(&q->env, c);
    }
}

/* Where the driver has nothing more to do with it, it goes here and now. */
void work_done(qp *q, struct work_call *call, enum work_told end)
{
    struct work_poll *s = call->state;
    bool driver;
    if (s == NULL) {
        return;
    }
    QP_ASSERT(s->stage == POLL_ANSWERED);
    cancels_free(q, call);
    call->state = NULL;
    call->tasks = NULL;
    (void)pthread_mutex_lock(&q->driver.lock);
    s->given_back = end == WORK_GIVEN_BACK && s->tasks != NULL;
    driver = s->given_back || s->abort_queued || s->begin_queued;
    if (driver) {
        s->done = (struct call){.execute = done_execute, .q = q, .local = true};
        call_post(&q->driver, &s->done);
    }
    (void)pthread_mutex_unlock(&q->driver.lock);
    if (!driver) {
        state_free(s);
    }
}

/* ------------------------------------------------------------------------------------ what was brought */

static enum work_status status_of(int rc, bool over)
{
    return rc == QP_OK || rc == QP_E_EXISTS        ? WORK_OK
           : rc == QP_E_STALE || rc == QP_E_CLOSED ? (over ? WORK_CANCELLED : WORK_STALE)
                                                   : WORK_REFUSED;
}

/* Of a pending result the code alone would not say enough. */
static void pending_why(const struct brought *b, int rc, const char *why,
                        char out_why[WORK_WHY_SIZE])
{
    long long index = (long long)b->of_result->pending_index;
    if (b->of_result->kind == WORK_PENDING && rc == QP_E_CONFLICT) {
        (void)snprintf(out_why, WORK_WHY_SIZE,
                       "index: %lld was brought before, with another output", index);
    } else if (b->of_result->kind == WORK_PENDING && rc == QP_E_INVALID) {
        (void)snprintf(out_why, WORK_WHY_SIZE, "index: the next one is %lld, got %lld",
                       (long long)b->result.next_index, index);
    } else {
        (void)snprintf(out_why, WORK_WHY_SIZE, "%s", why);
    }
}

/* The job was parked, or the store could not: then the next refusal tries again. */
static void park_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct brought *b = (struct brought *)c;
    (void)e;
    (void)why;
    if (rc == QP_OK) {
        refusals_forget(b->state->q, &b->result.of.ref);
        hand_drop(b->state->q, &b->result.of.ref);
    }
    b->state->q->driver.unanswered--;
    b->state->unanswered--;
}

/* Too many results of one task were refused: a person must look. True: that is submitted. */
static bool park_refused(struct brought *b, const struct work_result *r)
{
    const char *reason = b->result.parks;
    struct msg_ref ref = b->result.of.ref;
    if (reason == NULL || r->rc != QP_E_SHAPE ||
        refusals_count(b->state->q, &ref) < LIMIT_RESULT_REFUSALS) {
        return false;
    }
    (void)snprintf(b->parking, sizeof b->parking, "%d results were refused; the last at %s: %s",
                   LIMIT_RESULT_REFUSALS, r->pointer[0] == '\0' ? "its beginning" : r->pointer,
                   r->why);
    b->result = (struct request_result){.of = {.ref = ref},
                                        .kind = RESULT_PARK,
                                        .reason = str_from(reason),
                                        .error = str_from(b->parking)};
    request_result(&b->result);
    b->command.answer = park_answered;
    engine_submit(b->state->q->engine, &b->command);
    return true;
}

static void result_refused(const struct brought *b, struct work_result *r, const char *why)
{
    pending_why(b, r->rc, refusal_text(&b->result.refusal, r->rc, why), r->why);
    (void)snprintf(r->pointer, sizeof r->pointer, "%s", refusal_pointer(&b->result.refusal, r->rc));
    r->word = r->rc == b->result.refusal.rc ? b->result.refused_as : NULL;
}

static void result_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct brought *b = (struct brought *)c;
    struct work_result *r = b->of_result;
    (void)e;
    r->rc = rc;
    r->status = status_of(rc, b->result.job_is_over);
    r->seq = rc == QP_OK ? b->result.seq : 0;
    r->behind = rc == QP_OK && b->result.behind;
    if (r->status == WORK_REFUSED) {
        result_refused(b, r, why);
        if (park_refused(b, r)) {
            return;
        }
    } else {
        refusals_forget(b->state->q, &b->result.of.ref);
    }
    if (rc == QP_OK) {
        stats_attempted(b->state->q, &b->result, hand_since(b->state->q, &b->result.of.ref));
    }
    if (r->status != WORK_REFUSED && (rc != QP_OK || r->kind != WORK_PENDING)) {
        hand_drop(b->state->q, &b->result.of.ref);
    }
    b->state->q->driver.unanswered--;
    b->state->unanswered--;
}

static void beat_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct brought *b = (struct brought *)c;
    qp *q = b->state->q;
    (void)e;
    b->of_beat->rc = rc;
    b->of_beat->status = status_of(rc, b->beat.job_is_over);
    (void)snprintf(b->of_beat->why, WORK_WHY_SIZE, "%s", why);
    if (rc == QP_OK) {
        hand_extend(q, &b->beat.ref, b->beat.until);
    } else if (b->of_beat->status != WORK_REFUSED) {
        hand_drop(q, &b->beat.ref);
    }
    q->driver.unanswered--;
    b->state->unanswered--;
}

static void result_fill(const struct work_poll *s, struct brought *b)
{
    const struct work_result *r = b->of_result;
    static const enum result_kind kinds[] = {RESULT_DONE, RESULT_PENDING, RESULT_ERROR,
                                             RESULT_OTHER};
    b->result.of.ref.guid = (qp_str){(const char *)b->guid, sizeof b->guid};
    b->result.kind = kinds[r->kind];
    b->result.pending_index = r->pending_index;
    b->result.output = str_is_none(r->output) ? QP_STR("null") : r->output;
    b->result.code = 200;
    b->result.told = r->kind == WORK_ERROR ? QP_NONE : r->told;
    b->result.said = b->result.kind;
    b->result.said_output = b->result.output;
    b->result.build = s->of->build.n > 0 ? s->of->build : QP_NONE;
    if (r->kind == WORK_SUCCESS && r->code != 0) {
        b->result.code = r->code;
    }
    if (r->once) {
        b->result.keyed.idem = idem_record(s->ns, r->token, r->told, r->token, b->hash);
        b->result.keyed.idem.ttl_ms = LIMIT_RESULT_RECORD_MS;
    }
    if (r->kind == WORK_ERROR) {
        b->result.code = r->code == 0 ? ERROR_CODE : r->code;
        b->result.data = r->output;
        b->result.error =
            r->message.n > 0 ? error_cut(r->message) : QP_STR("the worker gave no reason");
        b->result.worker = s->of->worker;
        b->result.fatal = r->fatal;
    }
}

static void brought_submit(struct work_poll *s, struct brought *b)
{
    bool refused = (b->of_result != NULL ? b->of_result->rc : b->of_beat->rc) != QP_OK;
    if (b->stale && b->of_result != NULL) {
        b->of_result->rc = QP_E_STALE;
        b->of_result->status = WORK_STALE;
        (void)snprintf(b->of_result->pointer, sizeof b->of_result->pointer, "/token");
        return;
    }
    if (b->stale) {
        b->of_beat->rc = QP_E_STALE;
        b->of_beat->status = WORK_STALE;
        return;
    }
    if (refused) {
        return; /* the task is still the worker's */
    }
    if (b->of_result != NULL) {
        result_fill(s, b);
        request_result(&b->result);
        b->command.answer = result_answered;
    } else {
        b->beat.ref.guid = (qp_str){(const char *)b->guid, sizeof b->guid};
        b->beat.lease_ms = b->of_beat->lease_ms > 0 ? b->of_beat->lease_ms : LIMIT_WORK_LEASE_MS;
        b->beat.progress = b->of_beat->progress;
        request_beat(&b->beat);
        b->command.answer = beat_answered;
    }
    s->q->driver.unanswered++;
    s->unanswered++;
    engine_submit(s->q->engine, &b->command);
}

/* -------------------------------------------------------------------------------------- the driver's turn */

/* One call less. A peer that is not there any more was not seen, and one that left has said its last word. */
static void worker_rests(struct work_poll *s)
{
    struct remote *w = s->q->remote;
    struct remote_worker *r = s->worker;
    qp_ms until;
    r->waiting--;
    if (!s->aborted && r->left_at == 0) {
        r->seen_at = store_now(s->q->store);
    }
    until = remote_worker_until(r);
    if (until < INT64_MAX && (w->sweep_at == 0 || until < w->sweep_at)) {
        w->sweep_at = until + 1;
    }
}

static void work_answer(struct work_poll *s, int rc)
{
    qp *q = s->q;
    struct remote *w = q->remote;
    struct work_call *of = s->of;
    waiters_remove(s);
    if (s->worker != NULL) {
        worker_rests(s);
        hand_tell_cancels(s);
    }
    (void)pthread_mutex_lock(&q->driver.lock);
    w->call_count--;
    (void)pthread_mutex_unlock(&q->driver.lock);
    remote_answered(s);
    of->tasks = s->tasks;
    of->task_count = s->task_count;
    of->answer(of->context, of, rc,
               rc == QP_OK           ? ""
               : of->refused != NULL ? of->refused->text
                                     : qp_code_text(rc));
}

/* On any thread: the driver has not taken it in time, and knows nothing of it. */
static void work_withdrawn(qp *q, struct call *c)
{
    struct work_poll *s = (struct work_poll *)c;
    struct work_call *of = s->of;
    (void)pthread_mutex_lock(&q->driver.lock);
    q->remote->call_count--;
    (void)pthread_mutex_unlock(&q->driver.lock);
    remote_withdrawn(s);
    of->answer(of->context, of, QP_E_TIMEOUT, call_late_text());
}

/* What it brought, and its places: its names are known. */
static void work_begin(struct work_poll *s)
{
    struct remote *w = s->q->remote;
    int rc = QP_OK;
    s->begun = true;
    s->worker = remote_worker_of(s);
    rc = s->worker == NULL ? QP_E_LIMIT : QP_OK;
    if (rc == QP_OK) {
        s->worker->waiting++;
    }
    for (size_t i = 0; i < s->brought_count && rc == QP_OK; i++) {
        brought_submit(s, &s->brought[i]);
    }
    if (rc == QP_OK && s->of->leave) {
        remote_worker_leave(s);
    } else if (rc == QP_OK && s->of->want > 0) {
        rc = waiters_add(s);
    }
    if (rc != QP_OK || w->shut) {
        s->aborted = true;
        s->rc = rc;
    }
}

/* ----------------------------------------------------------------------------------------- names */

static void begin_execute(qp *q, struct call *c)
{
    struct work_poll *s = (struct work_poll *)((char *)c - offsetof(struct work_poll, begin));
    (void)pthread_mutex_lock(&q->driver.lock);
    s->begin_queued = false;
    (void)pthread_mutex_unlock(&q->driver.lock);
    if (s->stage == POLL_BUSY && !s->aborted) {
        mem_free(&q->env, s->announcements);
        s->announcements = NULL;
        work_begin(s);
    }
}

/* It goes on in the next turn, before the round: as if it had come then. */
static void begin_post(struct work_poll *s)
{
    struct driver *d = &s->q->driver;
    (void)pthread_mutex_lock(&d->lock);
    s->begin_queued = true;
    s->begin = (struct call){.execute = begin_execute, .q = s->q, .local = true};
    call_post(d, &s->begin);
    (void)pthread_mutex_unlock(&d->lock);
}

static void announced(struct engine *e, struct command *c, int rc, const char *why)
{
    struct announcement *a = (struct announcement *)c;
    struct work_poll *s = a->state;
    struct work_call *of = s->of;
    qp *q = s->q;
    (void)e;
    if (rc != QP_OK && of->refused == NULL) {
        (void)err_set(&a->err, rc, "%s", refusal_text(&a->request.refusal, rc, why));
        (void)err_point(&a->err, rc, "/flows/%zu/name", a->index);
        of->refused = &a->err;
    }
    if (rc == QP_OK && a->request.changed) {
        faces_changed(q->faces, q->store);
    }
    if (rc == QP_OK) {
        struct work_topic *t = topic_need(q, s->ns, of, of->topic_count + a->index);
        if (t != NULL) {
            t->announced = true;
        }
    }
    q->driver.unanswered--;
    s->unanswered--;
    if (s->unanswered == 0 && of->refused == NULL) {
        begin_post(s);
    }
}

/* Those of its names that are not known to be in the store are announced. QP_E_NOMEM; QP_E_LIMIT: too many topics. */
static int names_announce(struct work_poll *s)
{
    const struct work_call *c = s->of;
    qp *q = s->q;
    for (size_t i = 0; i < c->name_count; i++) {
        const struct work_topic *t = topic_need(q, s->ns, c, c->topic_count + i);
        struct announcement *a;
        if (t == NULL) {
            return QP_E_LIMIT;
        }
        if (t->announced) {
            continue;
        }
        if (s->announcements == NULL) {
            s->announcements = mem_alloc(&q->env, c->name_count * sizeof *s->announcements);
        }
        if (s->announcements == NULL) {
            return QP_E_NOMEM;
        }
        a = &s->announcements[i];
        *a = (struct announcement){
            .request = {.ns = s->ns, .name = c->names[i]}, .state = s, .index = i};
        request_announce(&a->request);
        a->request.command.answer = announced;
        q->driver.unanswered++;
        s->unanswered++;
        engine_submit(q->engine, &a->request.command);
    }
    return QP_OK;
}

/* On the driver, from the inbox. */
static void work_execute(qp *q, struct call *c)
{
    struct work_poll *s = (struct work_poll *)c;
    int rc;
    remote_busy(s);
    s->deadline = store_now(q->store) + s->of->wait_ms;
    rc = names_announce(s);
    if (rc != QP_OK) {
        s->aborted = true;
        s->rc = rc;
    } else if (s->unanswered == 0) {
        work_begin(s);
    }
}

static bool is_promised(const struct work_poll *s)
{
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        if (s->promised[i] > 0) {
            return true;
        }
    }
    return false;
}

/* Whether what became of its results is to be told now: not while there is nothing but tasks to wait for. */
static bool has_result_news(const struct work_poll *s)
{
    const struct work_call *c = s->of;
    for (size_t i = 0; i < c->result_count; i++) {
        if (c->results[i].status != WORK_OK) {
            return true;
        }
    }
    return c->result_count > 0 && (c->is_large || s->worker->task_count > 0);
}

/* Whether its owner should hear of it now, tasks or not: a beat that was not taken is news, too. */
static bool has_news(const struct work_poll *s, qp_ms now)
{
    const struct work_call *c = s->of;
    for (size_t i = 0; i < c->beat_count; i++) {
        if (c->beats[i].status != WORK_OK) {
            return true;
        }
    }
    return has_result_news(s) || c->want == 0 || c->leave || now >= s->deadline ||
           s->worker->cancels != NULL;
}

/* Of what a call has brought, whether the store has taken or refused any of it; or else why it could not. */
static int brought_code(const struct work_poll *s)
{
    int rc = QP_OK;
    for (size_t i = 0; i < s->brought_count; i++) {
        const struct brought *b = &s->brought[i];
        int one = b->of_result != NULL ? b->of_result->rc : b->of_beat->rc;
        enum qp_class class = qp_code_class(one);
        if (class != QP_CLASS_RETRY && class != QP_CLASS_FATAL && class != QP_CLASS_UNKNOWN) {
            return QP_OK;
        }
        rc = class == QP_CLASS_UNKNOWN || rc == QP_OK ? one : rc;
    }
    return rc;
}

/* Of a call that gets no tasks. Where there was no room for it, its owner should wait a while and not ask again at
 * once; what it brought was taken all the same, and is told. */
static int abort_code(const struct work_poll *s)
{
    bool taken = s->brought_count > 0 && s->worker != NULL;
    return taken ? brought_code(s) : s->rc == QP_OK ? QP_E_CLOSED : s->rc;
}

/* Why a call cannot get what it asks for: the store has taken nothing of what it brought, or cannot be written. A
 * database that is away may come back while the call waits for tasks. */
static int fault_code(const struct work_poll *s, qp_ms now)
{
    int rc = brought_code(s);
    int store = ready_code(s->q);
    if (rc != QP_OK || s->brought_count > 0) {
        return rc;
    }
    return store != QP_E_BUSY || now >= s->deadline ? store : QP_OK;
}

/* The store will not hand out tasks soon: who waits for some should hear of it. */
static bool is_hopeless(int store)
{
    return store != QP_OK && store != QP_E_BUSY;
}

/* A busy call: answered, parked, or left as it is. */
static void work_look(struct work_poll *s, qp_ms now)
{
    if (s->unanswered > 0 || is_promised(s)) {
        return;
    }
    if (s->aborted) {
        work_answer(s, abort_code(s));
    } else if (s->of->refused != NULL) {
        work_answer(s, s->of->refused->code);
    } else if (!s->begun) {
        return; /* it begins in the next turn */
    } else if (s->task_count > 0) {
        work_answer(s, QP_OK);
    } else if (fault_code(s, now) != QP_OK) {
        work_answer(s, fault_code(s, now));
    } else if (is_hopeless(ready_code(s->q))) {
        work_answer(s, QP_OK); /* what it brought was taken */
    } else if (!waiters_hope(s)) {
        if (has_news(s, now)) {
            work_answer(s, QP_OK);
        } else if (!remote_park(s)) {
            work_answer(s, QP_E_NOMEM);
        }
    }
}

void work_turn(qp *q)
{
    struct remote *w = q->remote;
    qp_ms now = store_now(q->store);
    struct work_poll *next;
    int store = ready_code(q);
    while (w->heap_count > 0 && (w->heap[0]->deadline <= now || is_hopeless(store))) {
        remote_wake(w->heap[0]);
    }
    for (struct work_poll *s = w->busy; s != NULL; s = next) {
        next = s->next;
        work_look(s, now);
    }
    if (w->sweep_at > 0 && now >= w->sweep_at) {
        w->sweep_at = remote_workers_sweep(q, now);
    }
    presence_turn(q, now);
}

qp_ms work_due(const qp *q)
{
    const struct remote *w = q->remote;
    qp_ms at = w->heap_count > 0 ? w->heap[0]->deadline : INT64_MAX;
    at = presence_due(q) < at ? presence_due(q) : at;
    return w->sweep_at > 0 && w->sweep_at < at ? w->sweep_at : at;
}

/* ------------------------------------------------------------------------------------- opening, closing */

int work_init(qp *q)
{
    return remote_init(q);
}

/* On the driver: no call gets a task any more, and all are answered as soon as they can be. */
static void shut(struct remote *w)
{
    w->shut = true;
    while (w->parked != NULL) {
        struct work_poll *s = w->parked;
        s->aborted = true;
        remote_wake(s);
    }
    for (struct work_poll *s = w->busy; s != NULL; s = s->next) {
        s->aborted = true;
    }
}

static void shut_execute(qp *q, struct call *c)
{
    shut(q->remote);
    call_done(&q->driver, c, QP_OK);
}

void work_shut(qp *q)
{
    struct call c = {.execute = shut_execute, .q = q, .local = true};
    if (q->engine == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&q->driver.lock);
    q->remote->refusing = true;
    (void)pthread_mutex_unlock(&q->driver.lock);
    (void)call_do(&q->driver, &c, NULL); /* it cannot fail */
}

bool work_close(qp *q)
{
    struct remote *w = q->remote;
    if (!w->shut) {
        shut(w);
    }
    return w->busy != NULL;
}

/* What the store would not settle is answered all the same. */
void work_end(qp *q, int rc)
{
    struct remote *w = q->remote;
    while (w->parked != NULL) {
        remote_wake(w->parked);
    }
    while (w->busy != NULL) {
        work_answer(w->busy, rc);
    }
}

void work_free(qp *q)
{
    if (q->remote == NULL) {
        return;
    }
    remote_workers_done(q);
    remote_topics_done(q);
    remote_done(q);
}
