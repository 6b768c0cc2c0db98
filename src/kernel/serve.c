/* serve.c - tasks for workers: claimed, handed out, suspected
 *
 *          reserve, claim: a place is counted         commit         give
 *   (none) ----------------------------------> promised -----> settled -----> in hand, or back in its stream
 *                                  ^  |
 *                                  +--+ the commit begins again: nothing is promised
 *
 *   I1  a task is handed out after the commit in which it was claimed for us, and once per claim
 *   I2  no more than `room` tasks of a service are in hand
 *   I3  a task that was delivered `max_deliveries` times without an answer becomes a dead letter; its last try is
 *       made alone, so that it is not blamed for what others did
 *   I4  a decision counts places and does no I/O: it may be made again, and an open transaction waits for no peer. The
 *       receiver is chosen after the commit; if there is none, the task goes back as if it had not been claimed
 *   I5  while a stream may have tasks for a service, a newborn task goes there too: the claim at the end of the
 *       round takes the best of all, and none overtakes another of a better priority
 *
 * If we crash after the commit and before the worker has the task, or while it has it, the task's row says
 * that this run holds it; whoever ends the run makes it READY again, with one try more.
 */
#include "base/hash.h"
#include "kernel/engine_internal.h"
#include "kernel/query.h"
#include "kernel/retry.h"

static struct service **slot_of(struct engine *e, qp_str topic)
{
    return &e->slots[hash_bytes(1, topic.p, topic.n) & (SERVICE_SLOTS - 1)];
}

void engine_serve(struct engine *e, struct service *s)
{
    struct service **slot = slot_of(e, s->topic);
    s->wants_messages = true;
    s->pushes = s->places == NULL;
    s->whole = s->room;
    s->bit = topic_bit(s->topic);
    s->next = e->services;
    e->services = s;
    s->next_in_slot = *slot;
    *slot = s;
}

void engine_unserve(struct engine *e, struct service *s)
{
    struct service **link = &e->services;
    struct service **slot = slot_of(e, s->topic);
    while (*link != s) {
        link = &(*link)->next;
    }
    *link = s->next;
    while (*slot != s) {
        slot = &(*slot)->next_in_slot;
    }
    *slot = s->next_in_slot;
}

void serve_settled(struct engine *e, struct round *r)
{
    for (struct service *s = e->services; s != NULL; s = s->next) {
        s->promised[r->place] = 0;
    }
    if (e->options.settled != NULL) {
        e->options.settled(e->options.context, r->place);
    }
}

/* The commit may have begun again since something was promised: then nothing is. */
static void promises_begin(struct engine *e)
{
    struct round *r = e->open;
    if (r->promised_try != r->commit.tries) {
        r->promised_try = r->commit.tries;
        serve_settled(e, r);
    }
}

/* To rounds that are not answered yet. */
static int64_t promised(const struct service *s)
{
    int64_t sum = 0;
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        sum += s->promised[i];
    }
    return sum;
}

/* How many tasks it takes beyond those that it was promised. */
static int64_t places_of(const struct service *s)
{
    return s->places != NULL ? s->places(s->context, LIMIT_CLAIM_MESSAGES) : s->room - promised(s);
}

bool worker_takes(const struct worker_test *test, qp_str build)
{
    return test->of->face->takes(test->of->state, test->note, build, test->now);
}

/* One of its places, for this round; with a test (may be NULL), of a worker that passes it. */
static bool place_promise(struct engine *e, struct service *s, const struct worker_test *test,
                          struct reservation *out_reserved)
{
    struct reservation at = {.lease_ms = s->lease_ms, .program_leases = s->program_leases};
    if (s->promise == NULL) {
        s->promised[e->open->place]++;
    } else {
        at.seat = s->promise(s->context, e->open->place, test, &at.worker);
    }
    if (s->promise != NULL && at.seat == NULL) {
        return false;
    }
    *out_reserved = at;
    return true;
}

/* A place at a worker, for a task that is about to be born. */
void *serve_reserve(void *context, int64_t ns, qp_str topic, struct reservation *out_reserved)
{
    struct engine *e = context;
    promises_begin(e);
    for (struct service *s = *slot_of(e, topic); s != NULL; s = s->next_in_slot) {
        if (str_equal(s->topic, topic) && (s->ns == 0 || s->ns == ns) && !s->wants_messages &&
            places_of(s) > 0 && place_promise(e, s, NULL, out_reserved)) {
            return s;
        }
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------------- claims */

/* The last try of a task is made alone: nothing of its service is in anybody's hands, or will be after
 * this round, and no message that may kill us is still to come. So whoever kills us every time is
 * a dead letter, and not all tasks that were in hand with it. */
static bool may_be_alone(const struct engine *e, const struct service *s)
{
    for (const struct delivery *d = e->batch; d != NULL; d = d->next) {
        if (d->row->tries > 1) {
            return false;
        }
    }
    return e->looked && s->room >= s->whole && promised(s) == 0;
}

/* Back into its stream, as if it had not been claimed. */
static int task_give_back(struct bundle *b, const struct msg_row *m, qp_ms delay_ms)
{
    struct op op = {.kind = OP_msg_retry,
                    .msg_retry = {.ref = {m->ns, m->job, m->guid, m->token},
                                  .delay_ms = delay_ms,
                                  .error = m->error,
                                  .untry = true}};
    return step_op(b, &op);
}

/* A task that went back with a note is for some workers only, if its kind says so. True: it has such a test. */
static bool has_test(struct engine *e, struct bundle *b, const struct msg_row *m,
                     const struct job_row *job, struct worker_test *out_test)
{
    struct faces *faces = e->kernel.faces;
    const struct faced *of =
        str_is_none(m->error) || faces == NULL ? NULL : faces_of(faces, job->kind);
    if (of == NULL || of->face->takes == NULL) {
        return false;
    }
    *out_test = (struct worker_test){of, m->error, bundle_now(b)};
    return true;
}

/* The place that a claimed task goes to, and its worker's name on the task; *out_seat NULL: there is none any more. */
static int place_name(struct engine *e, struct bundle *b, struct service *s,
                      const struct msg_row *m, const struct worker_test *test, void **out_seat)
{
    struct op name = {.kind = OP_msg_fence,
                      .msg_fence = {.ref = {m->ns, m->job, m->guid, m->token}}};
    struct reservation at;
    *out_seat = NULL;
    if (!place_promise(e, s, test, &at)) {
        return QP_OK;
    }
    *out_seat = at.seat;
    return arena_copy(&b->commit->arena, at.worker, &name.msg_fence.worker) ? step_op(b, &name)
                                                                            : QP_E_NOMEM;
}

/* What a delivery before has said of how far it was. The first one, which most tasks end with, asks for nothing. */
static int progress_read(struct bundle *b, const struct msg_row *m, qp_str *out_progress)
{
    struct data_row key = {.ns = m->ns, .job = m->job};
    const void *row = NULL;
    if (m->tries <= 1) {
        return QP_OK;
    }
    QP_TRY(progress_name(&b->commit->arena, m->addr, &key.name));
    QP_TRY(bundle_peek(b, TABLE_data, &key, &row));
    *out_progress = row == NULL ? QP_NONE : ((const struct data_row *)row)->value;
    return QP_OK;
}

/* How often a task is delivered without an answer: its policy may say less than the engine does. Only of one that was
 * delivered before; the first delivery asks nothing. */
static int64_t deliveries_of(const struct engine *e, const struct act_row *act)
{
    struct retry policy = retry_default;
    int rc = retry_parse(act->policy, &policy, NULL);
    return rc == QP_OK && policy.deliveries > 0 ? policy.deliveries : e->options.max_deliveries;
}

/* A claimed task: for its worker, or, after too many deliveries without an answer, for nobody. Where
 * others write, they wait for their job first and for its messages then: whoever has messages in hand
 * does not wait for a job. What is needed of it here does not change while its task waits. */
static int task_take(struct engine *e, struct bundle *b, struct outcome *o, struct service *s,
                     const struct msg_row *m)
{
    int64_t suspicion;
    int64_t most;
    struct handed *h = ARENA_NEW(&b->commit->arena, struct handed);
    const void *act = NULL;
    const void *job = NULL;
    qp_str progress = QP_NONE;
    int rc = h == NULL ? QP_E_NOMEM
                       : bundle_peek(b, TABLE_act,
                                     &(struct act_row){.ns = m->ns, .job = m->job, .addr = m->addr},
                                     &act);
    rc = rc == QP_OK
             ? bundle_peek(b, TABLE_job, &(struct job_row){.ns = m->ns, .job = m->job}, &job)
             : rc;
    if (rc != QP_OK) {
        return rc;
    }
    if (act == NULL || job == NULL) {
        return message_dead_letter(b, m, "its activity is not there", o);
    }
    suspicion = m->tries - 1 - ((const struct act_row *)act)->attempt;
    most = suspicion > 0 ? deliveries_of(e, act) : e->options.max_deliveries;
    if (suspicion > 0 && suspicion == most - 1 && s->pushes &&
        (!may_be_alone(e, s) || o->handed != NULL)) {
        s->holds_back = true;
        return task_give_back(b, m, 0);
    }
    if (suspicion >= most) {
        o->dead_letters++;
        return message_dead_letter(
            b, m, "delivered too often without an answer: it may crash its worker", o);
    }
    if (s->promise != NULL) {
        struct worker_test test;
        bool tested = has_test(e, b, m, job, &test);
        QP_TRY(place_name(e, b, s, m, tested ? &test : NULL, &h->seat));
        if (h->seat == NULL) {
            return task_give_back(b, m, tested ? LIMIT_NEWER_LOOK_MS : 0);
        }
    }
    QP_TRY(progress_read(b, m, &progress));
    *h = (struct handed){.next = o->handed,
                         .place = s,
                         .seat = h->seat,
                         .progress = progress,
                         .message = m,
                         .topic = m->topic,
                         .guid = m->guid,
                         .token = m->token,
                         .tries = m->tries,
                         .priority = m->priority,
                         .until = m->wake_at,
                         .act = act,
                         .jid = ((const struct job_row *)job)->jid,
                         .workflow = ((const struct job_row *)job)->workflow,
                         .kind = ((const struct job_row *)job)->kind};
    o->handed = h;
    return turn_claimed(&e->kernel, b,
                        &(struct task_claim){.kind = h->kind,
                                             .act = act,
                                             .by = {m->ns, m->job, m->guid, m->token},
                                             .priority = m->priority,
                                             .program_leases = s->program_leases});
}

int engine_claim(struct engine *e, struct bundle *b, struct service *s, int64_t room,
                 struct outcome *o)
{
    struct op *op = bundle_op(b, OP_msg_claim);
    int64_t dead_before = o->dead_letters;
    int rc;
    if (op == NULL) {
        return b->commit->rc;
    }
    op->msg_claim =
        (struct op_msg_claim){.ns = s->ns,
                              .topic = s->topic,
                              .want = room < LIMIT_CLAIM_MESSAGES ? room : LIMIT_CLAIM_MESSAGES,
                              .lease_ms = s->lease_ms,
                              .holder = s->lease_ms > 0 ? 0 : e->kernel.epoch};
    rc = bundle_run(b);
    s->drained = rc == QP_OK && (int64_t)op->msg_claim.out_count < op->msg_claim.want &&
                 !op->msg_claim.out_more;
    s->holds_back = false;
    for (size_t i = 0; i < op->msg_claim.out_count && rc == QP_OK; i++) {
        rc = task_take(e, b, o, s, op->msg_claim.out_messages[i]);
    }
    /* A dead letter leaves its place under a limit to another; what was given back is not there for us now. */
    s->drained = (s->drained && o->dead_letters == dead_before) || s->holds_back;
    return rc;
}

static bool wants_tasks(const struct engine *e, const struct service *s)
{
    return (s->wants_messages || (s->held_back && may_be_alone(e, s))) && places_of(s) > 0;
}

int serve_claim(struct engine *e, struct bundle *b, struct outcome *o)
{
    int rc = QP_OK;
    promises_begin(e);
    for (struct service *s = e->services; s != NULL && rc == QP_OK; s = s->next) {
        s->drained = false;
        s->looked[e->open->place] = wants_tasks(e, s);
        if (s->looked[e->open->place]) {
            rc = engine_claim(e, b, s, places_of(s), o);
        }
    }
    return rc;
}

bool serve_is_wanted(const struct engine *e)
{
    for (const struct service *s = e->services; s != NULL; s = s->next) {
        if (wants_tasks(e, s)) {
            return true;
        }
    }
    return false;
}

void serve_look_again(struct engine *e, uint64_t topics)
{
    for (struct service *s = e->services; s != NULL; s = s->next) {
        s->wants_messages = s->wants_messages || (s->bit & topics) != 0;
    }
}

/* -------------------------------------------------------------------------------------- handing out */

void task_free(const struct qp_env *env, struct task *task)
{
    mem_free(env, task);
}

/* Copies a text behind the task. */
static qp_str keep(char **place, qp_str s)
{
    qp_str copy = {s.p == NULL ? NULL : *place, s.n};
    if (s.n > 0) {
        memcpy(*place, s.p, s.n);
        *place += s.n;
    }
    return copy;
}

static struct task *task_new(struct engine *e, const struct handed *h)
{
    size_t size = h->topic.n + h->jid.n + h->workflow.n + h->act->addr.n + h->act->input.n +
                  h->act->policy.n + h->progress.n + 1;
    struct service *service = h->place;
    struct task *task = mem_alloc(&e->env, sizeof *task + service->extra_size + size);
    char *place;
    if (task == NULL) {
        return NULL;
    }
    place = (char *)(task + 1) + service->extra_size;
    task->service = service;
    task->seat = h->seat;
    memcpy(task->guid, h->guid.p, LIMIT_GUID_SIZE);
    task->ref = (struct msg_ref){.ns = h->act->ns,
                                 .job = h->act->job,
                                 .guid = {(const char *)task->guid, LIMIT_GUID_SIZE},
                                 .token = h->token};
    task->topic = keep(&place, h->topic);
    task->jid = keep(&place, h->jid);
    task->workflow = keep(&place, h->workflow);
    task->kind = h->kind;
    task->addr = keep(&place, h->act->addr);
    task->input = keep(&place, h->act->input);
    task->policy = keep(&place, h->act->policy);
    task->progress = keep(&place, h->progress);
    task->tries = h->tries;
    task->failures = h->act->attempt;
    task->priority = h->priority;
    task->until = h->until;
    task->waited_ms = h->message == NULL ? 0 : store_now(e->store) - h->message->at;
    return task;
}

/* The tasks of a list, each to its service. One for which there is no memory is ours and stuck: then
 * this run gives back all that it holds, and a new one begins. */
void serve_hand_out(struct engine *e, const struct handed *h)
{
    for (; h != NULL; h = h->next) {
        struct service *s = h->place;
        struct task *task = task_new(e, h);
        if (task == NULL) {
            e->over = true;
            continue;
        }
        s->room--;
        s->give(s->context, task);
    }
}
