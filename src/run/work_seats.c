/* work_seats.c - topics that workers elsewhere ask for, and who waits at each (see work.h)
 *
 * A topic is a service of the engine whose places are those of the calls that wait there. A call waits at all its
 * topics with the same places: whichever round promises it a task, at whichever topic, takes one of them.
 *
 *   I1  a seat is listed while its call has a place that is neither used nor promised
 *   I2  lists are in order of waiting; who was promised a task goes to the end of that list (work.h, I4)
 *   I3  what a round has promised is over when it is: used, or free again
 *   I4  a promise is a number in memory. A peer is asked only after the commit, when there is a task for it; if it has
 *       gone, the first call that waits there gets the task; without one, the task goes back with the try that it had
 */
#include "run/stats.h"
#include "run/work_internal.h"

#define KEY_SIZE (8 + LIMIT_NAME_SIZE)

/* ns as eight bytes, then the name. */
static qp_str topic_key(int64_t ns, qp_str name, char out_key[KEY_SIZE])
{
    QP_ASSERT(name.n <= LIMIT_NAME_SIZE);
    for (int i = 0; i < 8; i++) {
        out_key[i] = (char)(ns >> (56 - 8 * i));
    }
    memcpy(out_key + 8, name.p, name.n);
    return (qp_str){out_key, 8 + name.n};
}

struct work_topic *topic_find(const struct desk *w, int64_t ns, qp_str name)
{
    char key[KEY_SIZE];
    return omap_get(&w->topics, topic_key(ns, name, key));
}

/* ------------------------------------------------------------------------------------------- seats */

static void seat_list(struct seat *seat)
{
    struct work_topic *t = seat->topic;
    seat->listed = true;
    seat->next = NULL;
    seat->previous = t->last;
    if (t->last != NULL) {
        t->last->next = seat;
    } else {
        t->first = seat;
    }
    t->last = seat;
}

static void seat_unlist(struct seat *seat)
{
    struct work_topic *t = seat->topic;
    if (!seat->listed) {
        return;
    }
    seat->listed = false;
    if (seat->previous != NULL) {
        seat->previous->next = seat->next;
    } else {
        t->first = seat->next;
    }
    if (seat->next != NULL) {
        seat->next->previous = seat->previous;
    } else {
        t->last = seat->previous;
    }
}

static int64_t free_places(const struct work_state *s)
{
    int64_t count = s->left;
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        count -= s->promised[i];
    }
    return count;
}

/* The call waits at all its topics, or, when it has no place left, at none. */
static void seats_update(struct work_state *s)
{
    bool has = free_places(s) > 0 && !s->aborted && s->phase != PHASE_ANSWERED;
    for (size_t i = 0; i < s->seat_count; i++) {
        struct seat *seat = &s->seats[i];
        if (seat->topic != NULL && has && !seat->listed) {
            seat_list(seat);
        } else if (seat->topic != NULL && !has) {
            seat_unlist(seat);
        }
    }
}

/* ------------------------------------------------------------------------------- places of the engine */

static int64_t places(void *context, int64_t most)
{
    const struct work_topic *t = context;
    int64_t sum = 0;
    for (const struct seat *seat = t->first; seat != NULL && sum < most; seat = seat->next) {
        sum += free_places(seat->state);
    }
    return t->q->work->shut ? 0 : sum < most ? sum : most;
}

/* Who has waited for long may have gone, and nobody would tell us. */
static bool is_there(const struct work_state *s)
{
    return s->phase != PHASE_PARKED || s->of->there == NULL || s->of->there(s->of->context);
}

/* Whether it takes a task now. One that has gone is answered. */
static bool takes(struct work_state *s)
{
    if (s->aborted || free_places(s) <= 0) {
        return false;
    }
    if (!is_there(s)) {
        s->aborted = true;
        seats_update(s);
        work_wake(s);
    }
    return !s->aborted;
}

/* A place of the call that has waited longest; its peer is not asked. */
static void *promise(void *context, int round, qp_str *out_worker)
{
    struct work_topic *t = context;
    struct seat *seat = t->q->work->shut ? NULL : t->first;
    struct work_state *s;
    if (seat == NULL) {
        return NULL;
    }
    s = seat->state;
    if (s->promised[round] == 0) {
        s->next_promised[round] = t->q->work->promised[round];
        t->q->work->promised[round] = s;
    }
    s->promised[round]++;
    seat_unlist(seat);
    seat_list(seat);
    seats_update(s);
    *out_worker = s->of->worker;
    return s;
}

void work_settled(void *context, int round)
{
    qp *q = context;
    struct work_state *s = q->work->promised[round];
    q->work->promised[round] = NULL;
    while (s != NULL) {
        struct work_state *next = s->next_promised[round];
        s->promised[round] = 0;
        seats_update(s);
        s = next;
    }
}

/* After the commit: the call that the place was counted for, or else another one of the same worker, whose name stands
 * on the task. NULL: there is none. The task then goes back, and another worker claims it with its own name. */
static struct work_state *taker_of(struct work_topic *t, struct work_state *counted)
{
    struct work_state *s = counted;
    while (!takes(s)) {
        if (t->q->work->shut || t->first == NULL || t->first->state->worker != counted->worker) {
            return NULL;
        }
        s = t->first->state; /* each look takes one that does not take out of the list */
    }
    return s;
}

static void give(void *context, struct task *task)
{
    struct work_topic *t = context;
    struct work_state *s = taker_of(t, task->seat);
    struct work_task *told = (struct work_task *)(void *)(task + 1);
    qp *q = t->q;
    if (s == NULL) {
        work_give_back(q, &task->ref, task->seat);
        task_free(&q->env, task);
        return;
    }
    told->job = task->jid;
    told->workflow = task->workflow;
    told->ref = (struct job_ref){task->ref.ns, task->ref.job};
    told->of = faces_of(q->faces, task->kind);
    told->topic = task->topic;
    told->address = task->addr;
    told->input = task->input;
    told->progress = task->progress;
    told->attempt = task->tries;
    told->deadline = store_now(q->store) + LIMIT_WORK_LEASE_MS;
    token_write(&s->of->caller, &task->ref, told->token);
    task_key(task, told->key);
    told->next = s->tasks; /* they come the last one first */
    s->tasks = told;
    s->task_count++;
    s->left--;
    seats_update(s);
    hand_add(s, task, told->token, told->deadline);
    stats_handed(q, task);
    work_wake(s);
}

/* ------------------------------------------------------------------------------------------- topics */

/* Makes room: the first one that nobody waits at. */
static void topic_forget_one(qp *q)
{
    struct desk *w = q->work;
    for (struct omap_node *n = omap_seek(&w->topics, QP_STR("")); n != NULL; n = omap_next(n)) {
        struct work_topic *t = omap_value(n);
        if (t->waiting == 0) {
            engine_unserve(q->engine, &t->service);
            (void)omap_delete(&w->topics, omap_key(n)); /* it is t */
            mem_free(&q->env, t);
            return;
        }
    }
}

static struct work_topic *topic_make(qp *q, int64_t ns, qp_str name)
{
    struct desk *w = q->work;
    char key[KEY_SIZE];
    struct work_topic *t;
    if (w->topics.count >= LIMIT_WORK_STREAMS) {
        topic_forget_one(q);
    }
    t = w->topics.count < LIMIT_WORK_STREAMS ? mem_alloc(&q->env, sizeof *t) : NULL;
    if (t == NULL || omap_put(&w->topics, topic_key(ns, name, key), t, NULL) != QP_OK) {
        mem_free(&q->env, t);
        return NULL;
    }
    t->q = q;
    memcpy(t->name, name.p, name.n);
    t->service = (struct service){.ns = ns,
                                  .topic = {t->name, name.n},
                                  .lease_ms = LIMIT_WORK_LEASE_MS,
                                  .context = t,
                                  .give = give,
                                  .places = places,
                                  .promise = promise,
                                  .extra_size = sizeof(struct work_task)};
    engine_serve(q->engine, &t->service);
    return t;
}

/* Whether the call sits at the topic already: a topic that is named twice has its places once. */
static bool sits_at(const struct work_state *s, const struct work_topic *t)
{
    for (size_t i = 0; i < s->seat_count; i++) {
        if (s->seats[i].topic == t) {
            return true;
        }
    }
    return false;
}

int seats_take(struct work_state *s)
{
    const struct work_call *c = s->of;
    for (size_t i = 0; i < s->seat_count; i++) {
        struct work_topic *t = topic_find(s->q->work, s->ns, c->topics[i]);
        t = t != NULL ? t : topic_make(s->q, s->ns, c->topics[i]);
        if (t == NULL) {
            return QP_E_LIMIT;
        }
        if (sits_at(s, t)) {
            continue;
        }
        s->seats[i].state = s;
        s->seats[i].topic = t;
        t->waiting++;
        t->served_at = store_now(s->q->store);
    }
    seats_update(s);
    return QP_OK;
}

void seats_leave(struct work_state *s)
{
    for (size_t i = 0; i < s->seat_count; i++) {
        struct seat *seat = &s->seats[i];
        if (seat->topic != NULL) {
            seat_unlist(seat);
            seat->topic->waiting--;
            seat->topic->served_at = store_now(s->q->store);
            seat->topic = NULL;
        }
    }
}

bool seats_hope(const struct work_state *s)
{
    for (size_t i = 0; i < s->seat_count; i++) {
        if (s->seats[i].listed && s->seats[i].topic->service.hungry) {
            return true;
        }
    }
    return false;
}
