/* remote_workers.c - workers elsewhere, and what they have in hand (see remote_workers.h)
 *
 * What is known here is for people, for `leave`, and for cancelling a task early at a worker whose job has ended. The
 * truth is the message's row: its lease, and the token of its claim. So after a crash nothing is missing but such early
 * notice.
 */
#include "run/remote_workers.h"

/* ------------------------------------------------------------------------------------------ workers */

#define WORKER_KEY_SIZE (8 + LIMIT_ID_SIZE + 1 + LIMIT_ID_SIZE)

static void put_number(char *out, int64_t number)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (char)(number >> (56 - 8 * i));
    }
}

/* The caller's id comes first, so that no worker is taken for that of another caller. */
static qp_str worker_key(const struct work_poll *s, char out_key[WORKER_KEY_SIZE])
{
    const struct work_call *c = s->of;
    size_t caller = c->caller.id.n < LIMIT_ID_SIZE ? c->caller.id.n : LIMIT_ID_SIZE;
    put_number(out_key, s->ns);
    if (caller > 0) {
        memcpy(out_key + 8, c->caller.id.p, caller);
    }
    out_key[8 + caller] = '\0';
    memcpy(out_key + 9 + caller, c->worker.p, c->worker.n);
    return (qp_str){out_key, 9 + caller + c->worker.n};
}

static struct remote_worker *worker_make(struct work_poll *s, qp_str key)
{
    qp *q = s->q;
    qp_str ns_name = str_is_none(s->of->ns) ? str_from(q->ns_name) : s->of->ns;
    struct remote_worker *r = mem_alloc(&q->env, sizeof *r + key.n + ns_name.n);
    char *text;
    if (r == NULL || omap_put(&q->remote->workers, key, r, NULL) != QP_OK) {
        mem_free(&q->env, r);
        return NULL;
    }
    text = (char *)(r + 1);
    memcpy(text, key.p, key.n);
    memcpy(text + key.n, ns_name.p, ns_name.n);
    r->key = (qp_str){text, key.n};
    r->ns = s->ns;
    r->ns_name = (qp_str){text + key.n, ns_name.n};
    r->name = (qp_str){text + key.n - s->of->worker.n, s->of->worker.n};
    r->caller = (qp_str){text + 8, key.n - 9 - s->of->worker.n};
    r->since = store_now(q->store);
    remote_changed(q);
    return r;
}

/* What it serves, one behind the other with a NUL each: topics, then names with their mark. */
static size_t write_served(const struct work_call *c, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i < c->topic_count + c->name_count; i++) {
        bool is_topic = i < c->topic_count;
        qp_str name = is_topic ? c->topics[i] : c->names[i - c->topic_count];
        if (out != NULL && !is_topic) {
            out[at] = ANNOUNCED_MARK;
        }
        at += is_topic ? 0 : 1;
        if (out != NULL) {
            memcpy(out + at, name.p, name.n);
        }
        at += name.n + 1;
    }
    return at;
}

/* What it serves, for people: kept as it was told last. Without memory, as it was before. */
static void note_topics(qp *q, struct remote_worker *r, const struct work_call *c)
{
    const struct qp_env *env = &q->env;
    size_t size = write_served(c, NULL);
    char *topics = size == 0 ? NULL : mem_alloc(env, size);
    if (topics == NULL) {
        return;
    }
    (void)write_served(c, topics);
    if (r->topics_size == size && memcmp(r->topics, topics, size) == 0) {
        mem_free(env, topics);
        return;
    }
    mem_free(env, r->topics);
    r->topics = topics;
    r->topics_size = size;
    r->topic_count = c->topic_count + c->name_count;
    remote_changed(q);
}

static void note_build(struct remote_worker *r, const struct work_call *c, const struct qp_env *env)
{
    char *build;
    if (c->build.n == 0 || (r->build != NULL && str_equal(str_from(r->build), c->build))) {
        return;
    }
    build = mem_alloc(env, c->build.n + 1);
    if (build != NULL) {
        memcpy(build, c->build.p, c->build.n);
        mem_free(env, r->build);
        r->build = build;
    }
}

struct remote_worker *remote_worker_of(struct work_poll *s)
{
    struct remote *w = s->q->remote;
    char text[WORKER_KEY_SIZE];
    qp_str key = worker_key(s, text);
    struct remote_worker *r = omap_get(&w->workers, key);
    if (r == NULL && w->workers.count >= LIMIT_WORKERS) {
        (void)remote_workers_sweep(s->q, store_now(s->q->store)); /* what is due next is known */
    }
    if (r == NULL && w->workers.count < LIMIT_WORKERS) {
        r = worker_make(s, key);
    }
    if (r != NULL) {
        r->seen_at = store_now(s->q->store);
        if (r->left_at > 0 && !s->of->leave) {
            r->left_at = 0;
            r->since = r->seen_at;
            remote_changed(s->q);
        }
        note_topics(s->q, r, s->of);
        note_build(r, s->of, &s->q->env);
    }
    return r;
}

/* ------------------------------------------------------------------------------------ tasks in hand */

#define HAND_KEY_SIZE (16 + LIMIT_GUID_SIZE)

static qp_str hand_key(const struct msg_ref *ref, char out_key[HAND_KEY_SIZE])
{
    put_number(out_key, ref->ns);
    put_number(out_key + 8, ref->job);
    memcpy(out_key + 16, ref->guid.p, LIMIT_GUID_SIZE);
    return (qp_str){out_key, HAND_KEY_SIZE};
}

static struct in_hand **list_of(const struct in_hand *h)
{
    return h->cancelled ? &h->worker->cancels : &h->worker->tasks;
}

static void hand_link(struct in_hand *h)
{
    struct in_hand **list = list_of(h);
    h->previous = NULL;
    h->next = *list;
    if (*list != NULL) {
        (*list)->previous = h;
    }
    *list = h;
    h->worker->task_count += !h->cancelled;
}

static void hand_unlink(struct in_hand *h)
{
    if (h->previous != NULL) {
        h->previous->next = h->next;
    } else {
        *list_of(h) = h->next;
    }
    if (h->next != NULL) {
        h->next->previous = h->previous;
    }
    h->worker->task_count -= !h->cancelled;
}

static void hand_free(qp *q, struct in_hand *h)
{
    char key[HAND_KEY_SIZE];
    (void)omap_delete(&q->remote->in_hand, hand_key(&h->ref, key)); /* it is h */
    hand_unlink(h);
    mem_free(&q->env, h);
}

void hand_add(struct work_poll *s, const struct task *task, const char *token, qp_ms lease_until)
{
    qp *q = s->q;
    char key[HAND_KEY_SIZE];
    struct in_hand *h = omap_get(&q->remote->in_hand, hand_key(&task->ref, key));
    if (h != NULL) {
        hand_free(q, h); /* of a claim whose lease is over */
    }
    h = mem_alloc(&q->env, sizeof *h);
    if (h == NULL || omap_put(&q->remote->in_hand, hand_key(&task->ref, key), h, NULL) != QP_OK) {
        mem_free(&q->env, h);
        return;
    }
    h->worker = s->worker;
    h->ref = task->ref;
    memcpy(h->guid, task->guid, sizeof h->guid);
    h->ref.guid = (qp_str){(const char *)h->guid, sizeof h->guid};
    h->since = store_now(q->store);
    h->lease_until = lease_until;
    memcpy(h->token, token, WORK_TOKEN_SIZE);
    hand_link(h);
}

static struct in_hand *hand_find(qp *q, const struct msg_ref *ref)
{
    char key[HAND_KEY_SIZE];
    struct in_hand *h = omap_get(&q->remote->in_hand, hand_key(ref, key));
    return h != NULL && h->ref.token == ref->token ? h : NULL;
}

void hand_drop(qp *q, const struct msg_ref *ref)
{
    struct in_hand *h = hand_find(q, ref);
    if (h != NULL) {
        hand_free(q, h);
    }
}

qp_ms hand_since(qp *q, const struct msg_ref *ref)
{
    const struct in_hand *h = hand_find(q, ref);
    return h == NULL ? 0 : h->since;
}

void hand_extend(qp *q, const struct msg_ref *ref, qp_ms lease_until)
{
    struct in_hand *h = hand_find(q, ref);
    if (h != NULL) {
        h->lease_until = lease_until;
    }
}

/* ---------------------------------------------------------------------------------------- refusals */

/* A task of which results were refused; known to this process alone, as long as it lives. */
struct refused {
    int64_t count;
};

static void refusals_clear(qp *q)
{
    struct omap *refused = &q->remote->refused;
    for (struct omap_node *n = omap_seek(refused, QP_STR("")); n != NULL; n = omap_next(n)) {
        mem_free(&q->env, omap_value(n));
    }
    omap_done(refused);
    omap_init(refused, &q->env);
}

int64_t refusals_count(qp *q, const struct msg_ref *ref)
{
    struct omap *refused = &q->remote->refused;
    char key[HAND_KEY_SIZE];
    struct refused *r = omap_get(refused, hand_key(ref, key));
    if (r == NULL) {
        if (refused->count >= LIMIT_REFUSED_TASKS) {
            refusals_clear(q); /* those of other nodes are never forgotten one by one */
        }
        r = mem_alloc(&q->env, sizeof *r);
        if (r == NULL || omap_put(refused, hand_key(ref, key), r, NULL) != QP_OK) {
            mem_free(&q->env, r);
            return 1;
        }
    }
    return ++r->count;
}

void refusals_forget(qp *q, const struct msg_ref *ref)
{
    char key[HAND_KEY_SIZE];
    struct refused *r =
        q->remote->refused.count == 0 ? NULL : omap_get(&q->remote->refused, hand_key(ref, key));
    if (r != NULL) {
        (void)omap_delete(&q->remote->refused, hand_key(ref, key)); /* it is r */
        mem_free(&q->env, r);
    }
}

void hand_give_back(struct work_poll *s)
{
    while (s->worker->tasks != NULL) {
        struct in_hand *h = s->worker->tasks;
        remote_give_back(s->q, &h->ref, s);
        hand_free(s->q, h);
    }
}

void work_cancel(qp *q, struct job_ref job, qp_str guid)
{
    char key[16];
    struct omap_node *n;
    if (q->remote->in_hand.count == 0) {
        return;
    }
    put_number(key, job.ns);
    put_number(key + 8, job.job);
    n = omap_seek(&q->remote->in_hand, (qp_str){key, sizeof key});
    for (; n != NULL && memcmp(omap_key(n).p, key, sizeof key) == 0; n = omap_next(n)) {
        struct in_hand *h = omap_value(n);
        if (!h->cancelled && (str_is_none(guid) || str_equal(h->ref.guid, guid))) {
            hand_unlink(h);
            h->cancelled = true;
            hand_link(h);
            if (h->worker->parked != NULL) {
                remote_wake(h->worker->parked);
            }
        }
    }
}

void hand_tell_cancels(struct work_poll *s)
{
    qp *q = s->q;
    while (s->worker->cancels != NULL) {
        struct in_hand *h = s->worker->cancels;
        struct work_cancel *told = mem_alloc(&q->env, sizeof *told);
        if (told == NULL) {
            return; /* with the next answer */
        }
        memcpy(told->token, h->token, sizeof told->token);
        told->next = s->of->cancels;
        s->of->cancels = told;
        s->of->cancel_count++;
        hand_free(q, h);
    }
}

/* ---------------------------------------------------------------------------------------- forgetting */

static void worker_free(qp *q, struct remote_worker *r)
{
    while (r->tasks != NULL) {
        hand_free(q, r->tasks);
    }
    while (r->cancels != NULL) {
        hand_free(q, r->cancels);
    }
    mem_free(&q->env, r->build);
    mem_free(&q->env, r->topics);
    mem_free(&q->env, r);
}

qp_ms remote_worker_until(const struct remote_worker *r)
{
    return r->waiting > 0 ? INT64_MAX : r->seen_at + LIMIT_WORK_LEASE_MS;
}

void remote_worker_leave(struct work_poll *s)
{
    hand_give_back(s);
    s->worker->left_at = store_now(s->q->store);
    remote_changed(s->q);
}

static void hands_sweep(qp *q, const struct remote_worker *r, qp_ms now)
{
    struct in_hand *after;
    for (struct in_hand *h = r->tasks; h != NULL; h = after) {
        after = h->next;
        if (h->lease_until < now) {
            hand_free(q, h);
        }
    }
}

/* Tasks whose lease is over, and workers whose own is. One that left is known for as long, so that the other nodes are
 * told. */
qp_ms remote_workers_sweep(qp *q, qp_ms now)
{
    struct remote *w = q->remote;
    struct omap_node *n = omap_seek(&w->workers, QP_STR(""));
    qp_ms next_at = 0;
    while (n != NULL) {
        struct remote_worker *r = omap_value(n);
        struct omap_node *next = omap_next(n);
        qp_ms until = remote_worker_until(r);
        hands_sweep(q, r, now);
        if (until < now) {
            (void)omap_delete(&w->workers, r->key); /* it is r */
            worker_free(q, r);
            remote_changed(q);
        } else if (until < INT64_MAX && (next_at == 0 || until < next_at)) {
            next_at = until + 1;
        }
        n = next;
    }
    return next_at;
}

void remote_workers_done(qp *q)
{
    struct remote *w = q->remote;
    for (struct omap_node *n = omap_seek(&w->workers, QP_STR("")); n != NULL; n = omap_next(n)) {
        worker_free(q, omap_value(n));
    }
    omap_done(&w->workers);
    omap_done(&w->in_hand);
    refusals_clear(q);
    omap_done(&w->refused);
}
