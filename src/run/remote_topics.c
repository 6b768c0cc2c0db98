/* remote_topics.c - topics that workers elsewhere ask for, and the calls that wait at each (see remote_topics.h)
 *
 * A topic is a service of the engine whose places are those of the calls that wait there. A call waits at all its
 * topics with the same places: whichever round promises it a task, at whichever topic, takes one of them.
 *
 *   I1  a waiter is listed while its call has a place that is neither used nor promised
 *   I2  lists are in order of waiting; who was promised a task goes to the end of that list (work.h, I4)
 *   I3  what a round has promised is over when it is: used, or free again
 *   I4  a promise is a number in memory. A peer is asked only after the commit, when there is a task for it; if it has
 *       gone, the first call that waits there gets the task; without one, the task goes back with the try that it had
 */
#include "run/remote_topics.h"

#include "run/ids.h"
#include "run/remote_workers.h"
#include "run/stats.h"
#include "run/work_token.h"
#include "store/error.h"

#define KEY_SIZE (8 + TOPIC_TEXT_SIZE)

/* ns as eight bytes, then the name. */
static qp_str topic_key(int64_t ns, qp_str name, char out_key[KEY_SIZE])
{
    QP_ASSERT(name.n <= TOPIC_TEXT_SIZE);
    for (int i = 0; i < 8; i++) {
        out_key[i] = (char)(ns >> (56 - 8 * i));
    }
    memcpy(out_key + 8, name.p, name.n);
    return (qp_str){out_key, 8 + name.n};
}

struct work_topic *topic_find(const struct remote *w, int64_t ns, qp_str name)
{
    char key[KEY_SIZE];
    return omap_get(&w->topics, topic_key(ns, name, key));
}

/* ----------------------------------------------------------------------------------------- waiters */

static void waiter_list(struct waiter *waiter)
{
    struct work_topic *t = waiter->topic;
    waiter->listed = true;
    waiter->next = NULL;
    waiter->previous = t->last;
    if (t->last != NULL) {
        t->last->next = waiter;
    } else {
        t->first = waiter;
    }
    t->last = waiter;
}

static void waiter_unlist(struct waiter *waiter)
{
    struct work_topic *t = waiter->topic;
    if (!waiter->listed) {
        return;
    }
    waiter->listed = false;
    if (waiter->previous != NULL) {
        waiter->previous->next = waiter->next;
    } else {
        t->first = waiter->next;
    }
    if (waiter->next != NULL) {
        waiter->next->previous = waiter->previous;
    } else {
        t->last = waiter->previous;
    }
}

static int64_t free_places(const struct work_poll *s)
{
    int64_t count = s->left;
    for (int i = 0; i < ENGINE_ROUNDS; i++) {
        count -= s->promised[i];
    }
    return count;
}

/* The call waits at all its topics, or, when it has no place left, at none. */
static void waiters_update(struct work_poll *s)
{
    bool has = free_places(s) > 0 && !s->aborted && s->stage != POLL_ANSWERED;
    for (size_t i = 0; i < s->waiter_count; i++) {
        struct waiter *waiter = &s->waiters[i];
        if (waiter->topic != NULL && has && !waiter->listed) {
            waiter_list(waiter);
        } else if (waiter->topic != NULL && !has) {
            waiter_unlist(waiter);
        }
    }
}

/* ------------------------------------------------------------------------------- places of the engine */

static int64_t places(void *context, int64_t most)
{
    const struct work_topic *t = context;
    int64_t sum = 0;
    for (const struct waiter *waiter = t->first; waiter != NULL && sum < most;
         waiter = waiter->next) {
        sum += free_places(waiter->state);
    }
    return t->q->remote->shut ? 0 : sum < most ? sum : most;
}

/* The peer of a call that has waited for long may have gone without a word. */
static bool is_there(const struct work_poll *s)
{
    return s->stage != POLL_PARKED || s->of->there == NULL || s->of->there(s->of->context);
}

/* Whether it takes a task now. One that has gone is answered. */
static bool takes(struct work_poll *s)
{
    if (s->aborted || free_places(s) <= 0) {
        return false;
    }
    if (!is_there(s)) {
        s->aborted = true;
        waiters_update(s);
        remote_wake(s);
    }
    return !s->aborted;
}

/* A place of the call that has waited longest, of a worker that passes the test; its peer is not asked. */
static void *promise(void *context, int round, const struct worker_test *test, qp_str *out_worker)
{
    struct work_topic *t = context;
    struct waiter *waiter = t->q->remote->shut ? NULL : t->first;
    struct work_poll *s;
    while (waiter != NULL && test != NULL && !worker_takes(test, waiter->state->of->build)) {
        waiter = waiter->next;
    }
    if (waiter == NULL) {
        return NULL;
    }
    s = waiter->state;
    if (s->promised[round] == 0) {
        s->next_promised[round] = t->q->remote->promised[round];
        t->q->remote->promised[round] = s;
    }
    s->promised[round]++;
    waiter_unlist(waiter);
    waiter_list(waiter);
    waiters_update(s);
    *out_worker = s->of->worker;
    return s;
}

void work_settled(void *context, int round)
{
    qp *q = context;
    struct work_poll *s = q->remote->promised[round];
    q->remote->promised[round] = NULL;
    while (s != NULL) {
        struct work_poll *next = s->next_promised[round];
        s->promised[round] = 0;
        waiters_update(s);
        s = next;
    }
}

/* After the commit: the call that the place was counted for, or else another one of the same worker, whose name stands
 * on the task. NULL: there is none. The task then goes back, and another worker claims it with its own name. */
static struct work_poll *taker_of(struct work_topic *t, struct work_poll *counted)
{
    struct work_poll *s = counted;
    while (!takes(s)) {
        if (t->q->remote->shut || t->first == NULL || t->first->state->worker != counted->worker) {
            return NULL;
        }
        s = t->first->state; /* each look takes one that does not take out of the list */
    }
    return s;
}

static void give(void *context, struct task *task)
{
    struct work_topic *t = context;
    struct work_poll *s = taker_of(t, task->seat);
    struct work_task *told = (struct work_task *)(void *)(task + 1);
    qp *q = t->q;
    if (s == NULL) {
        remote_give_back(q, &task->ref, task->seat);
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
    told->deadline = task->until;
    token_write(&s->of->caller, &task->ref, told->token);
    task_key(task, told->key);
    told->next = s->tasks; /* they come the last one first */
    s->tasks = told;
    s->task_count++;
    s->left--;
    waiters_update(s);
    hand_add(s, task, told->token, told->deadline);
    stats_handed(q, task);
    remote_wake(s);
}

/* ------------------------------------------------------------------------------------------- topics */

/* Makes room: the first one at which no call waits. */
static void topic_forget_one(qp *q)
{
    struct remote *w = q->remote;
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

static struct work_topic *topic_make(qp *q, int64_t ns, const struct work_call *c, qp_str name)
{
    struct remote *w = q->remote;
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
                                  .lease_ms = c->inner ? 0 : LIMIT_WORK_LEASE_MS,
                                  .program_leases = c->inner,
                                  .context = t,
                                  .give = give,
                                  .places = places,
                                  .promise = promise,
                                  .extra_size = sizeof(struct work_task)};
    engine_serve(q->engine, &t->service);
    return t;
}

/* Whether the call sits at the topic already: a topic that is named twice has its places once. */
static bool sits_at(const struct work_poll *s, const struct work_topic *t)
{
    for (size_t i = 0; i < s->waiter_count; i++) {
        if (s->waiters[i].topic == t) {
            return true;
        }
    }
    return false;
}

/* The topic of the i-th thing that the call serves: its topics, then the names that it announces. */
static qp_str served_topic(const struct work_call *c, size_t i, char text[TOPIC_TEXT_SIZE])
{
    qp_str name;
    if (i < c->topic_count) {
        return c->topics[i];
    }
    name = c->names[i - c->topic_count];
    text[0] = ANNOUNCED_MARK;
    memcpy(text + 1, name.p, name.n);
    return (qp_str){text, name.n + 1};
}

struct work_topic *topic_need(qp *q, int64_t ns, const struct work_call *c, size_t i)
{
    char text[TOPIC_TEXT_SIZE];
    qp_str name = served_topic(c, i, text);
    struct work_topic *t = topic_find(q->remote, ns, name);
    return t != NULL ? t : topic_make(q, ns, c, name);
}

int waiters_add(struct work_poll *s)
{
    for (size_t i = 0; i < s->waiter_count; i++) {
        struct work_topic *t = topic_need(s->q, s->ns, s->of, i);
        if (t == NULL) {
            return QP_E_LIMIT;
        }
        if (sits_at(s, t)) {
            continue;
        }
        s->waiters[i].state = s;
        s->waiters[i].topic = t;
        t->waiting++;
        t->served_at = store_now(s->q->store);
    }
    waiters_update(s);
    return QP_OK;
}

void waiters_remove(struct work_poll *s)
{
    for (size_t i = 0; i < s->waiter_count; i++) {
        struct waiter *waiter = &s->waiters[i];
        if (waiter->topic != NULL) {
            waiter_unlist(waiter);
            waiter->topic->waiting--;
            waiter->topic->served_at = store_now(s->q->store);
            waiter->topic = NULL;
        }
    }
}

bool waiters_hope(const struct work_poll *s)
{
    for (size_t i = 0; i < s->waiter_count; i++) {
        if (s->waiters[i].listed && s->waiters[i].topic->service.wants_messages) {
            return true;
        }
    }
    return false;
}

void remote_topics_done(qp *q)
{
    struct remote *w = q->remote;
    for (struct omap_node *n = omap_seek(&w->topics, QP_STR("")); n != NULL; n = omap_next(n)) {
        mem_free(&q->env, omap_value(n));
    }
    omap_done(&w->topics);
}
