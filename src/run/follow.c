/* follow.c - notifies subscribers of what was committed (see follow.h)
 *
 * If we crash, subscriptions are gone with their subscribers: nothing of them is durable.
 */
#include "run/follow.h"

#include "kernel/query.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"

/* Between two looks of a thread at a job that another process may end. */
#define FOLLOW_LOOK_MS 200
#define SLOTS_FIRST 64

int follow_init(struct follow *f)
{
    *f = (struct follow){.position = -1};
    return pthread_mutex_init(&f->lock, NULL) == 0 ? QP_OK : QP_E_NOMEM;
}

/* ------------------------------------------------------------------------------------------- the table */

static bool is_same(struct job_ref a, struct job_ref b)
{
    return a.ns == b.ns && a.job == b.job;
}

/* The list in which the subscriptions of a job stand; NULL: there is none yet. */
static struct subscription **list_of(struct follow *f, struct job_ref job)
{
    uint64_t mixed = ((uint64_t)job.job * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)job.ns;
    if (job.job == 0) {
        return &f->namespaces;
    }
    return f->slot_count == 0 ? NULL : &f->slots[(size_t)(mixed >> 20) & (f->slot_count - 1)];
}

static void list_add(struct subscription **list, struct subscription *s)
{
    s->next = *list;
    *list = s;
}

/* Twice as many lists when there are as many subscriptions as lists. */
static int slots_grow(struct follow *f, const struct qp_env *env)
{
    struct follow larger = {.slot_count = f->slot_count == 0 ? SLOTS_FIRST : f->slot_count * 2};
    larger.slots = mem_alloc(env, larger.slot_count * sizeof *larger.slots);
    if (larger.slots == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < f->slot_count; i++) {
        while (f->slots[i] != NULL) {
            struct subscription *s = f->slots[i];
            f->slots[i] = s->next;
            list_add(list_of(&larger, s->job), s);
        }
    }
    mem_free(env, f->slots);
    f->slots = larger.slots;
    f->slot_count = larger.slot_count;
    return QP_OK;
}

static void count_add(struct follow *f, const struct subscription *s, int by)
{
    f->job_count += s->job.job != 0 ? (size_t)by : 0;
    atomic_fetch_add(&f->count, (size_t)by);
    atomic_fetch_add(&f->changes, (s->events & FOLLOW_CHANGED) != 0 ? (size_t)by : 0);
}

int follow_add(qp *q, struct subscription *s)
{
    struct follow *f = &q->follow;
    int rc = QP_OK;
    QP_ASSERT(s->events != 0 && s->notify != NULL);
    QP_ASSERT(s->once ? s->drop != NULL && s->job.job != 0 : s->drop == NULL);
    (void)pthread_mutex_lock(&f->lock);
    if (s->job.job != 0 && f->job_count == f->slot_count) {
        rc = slots_grow(f, &q->env);
    }
    if (rc == QP_OK) {
        s->serial = -1;
        list_add(list_of(f, s->job), s);
        count_add(f, s, 1);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return rc;
}

void follow_remove(qp *q, struct subscription *s)
{
    struct follow *f = &q->follow;
    struct subscription **link;
    (void)pthread_mutex_lock(&f->lock);
    link = list_of(f, s->job);
    while (link != NULL && *link != NULL && *link != s) {
        link = &(*link)->next;
    }
    QP_ASSERT(s->once || (link != NULL && *link == s));
    if (link != NULL && *link == s) {
        *link = s->next;
        count_add(f, s, -1);
    }
    (void)pthread_mutex_unlock(&f->lock);
}

void follow_done(qp *q)
{
    struct follow *f = &q->follow;
    for (size_t i = 0; i < f->slot_count; i++) {
        while (f->slots[i] != NULL) {
            struct subscription *s = f->slots[i];
            f->slots[i] = s->next;
            if (s->once) { /* a thread that waits has left, and a follower is its owner's */
                s->drop(s);
            }
        }
    }
    mem_free(&q->env, f->slots);
    (void)pthread_mutex_destroy(&f->lock);
}

/* ------------------------------------------------------------------------------- notifying, on the driver */

/* Under the lock: the lasting subscriptions of one list, once per commit, however many entries it has. */
static void notify_list(struct subscription *first, struct job_ref job, int64_t serial,
                        enum follow_event event, enum job_state state)
{
    for (struct subscription *s = first; s != NULL; s = s->next) {
        bool of_job = s->job.job == 0 ? s->job.ns == job.ns : is_same(s->job, job);
        if (of_job && !s->once && (s->events & event) != 0 && s->serial != serial) {
            s->serial = serial;
            s->notify(s, event, state);
        }
    }
}

static void notify_lasting(struct follow *f, struct job_ref job, int64_t serial,
                           enum follow_event event, enum job_state state)
{
    struct subscription **list = list_of(f, job);
    notify_list(list == NULL ? NULL : *list, job, serial, event, state);
    notify_list(f->namespaces, job, serial, event, state);
}

/* Under the lock: takes out those that are notified once. */
static struct subscription *take_once(struct follow *f, struct job_ref job, enum follow_event event)
{
    struct subscription *taken = NULL;
    struct subscription **link = list_of(f, job);
    while (link != NULL && *link != NULL) {
        struct subscription *s = *link;
        if (is_same(s->job, job) && s->once && (s->events & event) != 0) {
            *link = s->next;
            count_add(f, s, -1);
            list_add(&taken, s);
        } else {
            link = &s->next;
        }
    }
    return taken;
}

static void notify(qp *q, struct job_ref job, int64_t serial, enum follow_event event,
                   enum job_state state)
{
    struct follow *f = &q->follow;
    struct subscription *once;
    if (atomic_load(&f->count) == 0) {
        return;
    }
    (void)pthread_mutex_lock(&f->lock);
    notify_lasting(f, job, serial, event, state);
    once = take_once(f, job, event);
    (void)pthread_mutex_unlock(&f->lock);
    while (once != NULL) {
        struct subscription *s = once;
        once = s->next;
        s->notify(s, event, state);
    }
}

/* What the journal of the same commit notified has another serial. */
static int64_t own_serial(const qp *q)
{
    return -2 - engine_stats(q->engine).commits;
}

void follow_journaled(void *context, const struct feed_entry *entry)
{
    qp *q = context;
    notify(q, (struct job_ref){entry->ns, entry->job}, engine_stats(q->engine).commits,
           FOLLOW_CHANGED, JOB_OPEN);
}

void follow_job_ended(qp *q, struct job_ref job, enum job_state state)
{
    QP_ASSERT(state != JOB_OPEN);
    notify(q, job, own_serial(q), FOLLOW_ENDED, state);
}

void follow_job_parked(void *context, struct job_ref job)
{
    qp *q = context;
    notify(q, job, own_serial(q), FOLLOW_PARKED, JOB_OPEN);
}

/* --------------------------------------------------------------------- what others commit, on the driver */

struct looking {
    qp *q;
    int64_t last;
};

static int see_entry(void *context, const struct feed_entry *entry)
{
    struct looking *l = context;
    notify(l->q, (struct job_ref){entry->ns, entry->job}, INT64_MAX - entry->pos, FOLLOW_CHANGED,
           JOB_OPEN);
    l->last = entry->pos;
    return QP_OK;
}

/* The feed does not go back to our position: it is not known which jobs have changed. */
static void notify_everyone(struct follow *f)
{
    (void)pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i <= f->slot_count; i++) {
        struct subscription *s = i == f->slot_count ? f->namespaces : f->slots[i];
        for (; s != NULL; s = s->next) {
            if ((s->events & FOLLOW_CHANGED) != 0) {
                s->notify(s, FOLLOW_CHANGED, JOB_OPEN);
            }
        }
    }
    (void)pthread_mutex_unlock(&f->lock);
}

/* What others have committed. A failure shows itself in the next round, too. */
static void look(qp *q)
{
    struct follow *f = &q->follow;
    struct looking l = {.q = q, .last = f->position};
    bool behind = false;
    if (f->position > 0 && query_feed_behind(q->store, f->position, &behind, NULL) != QP_OK) {
        return;
    }
    if (f->position < 0 || behind) {
        int64_t position = 0;
        f->position = query_feed_position(q->store, &position, NULL) == QP_OK ? position : -1;
        if (behind) {
            notify_everyone(f);
        }
        return;
    }
    if (store_feed(q->store, f->position, LIMIT_FEED_COMMITS, &l, see_entry, NULL) == QP_OK) {
        f->position = l.last;
    }
}

void follow_turn(qp *q)
{
    struct follow *f = &q->follow;
    bool any = atomic_load(&f->changes) > 0;
    engine_listen(q->engine, any);
    if (!any || !q->shared) {
        f->position = -1;
        f->look_at = 0;
    } else if (store_now(q->store) >= f->look_at) {
        look(q);
        f->look_at = store_now(q->store) + LIMIT_LOOK_MS;
    }
}

qp_ms follow_due(const qp *q)
{
    return q->follow.look_at > 0 ? q->follow.look_at : INT64_MAX;
}

/* ------------------------------------------------------------------------------------ threads that wait */

static void wait_notified(struct subscription *s, enum follow_event event, enum job_state state)
{
    struct follow_wait *w =
        (struct follow_wait *)((char *)s - offsetof(struct follow_wait, subscription));
    (void)event;
    (void)state;
    (void)pthread_mutex_lock(&w->q->driver.lock);
    w->notified = true;
    w->q->driver.answered = true;
    (void)pthread_mutex_unlock(&w->q->driver.lock);
}

int follow_wait_begin(qp *q, struct job_ref job, struct follow_wait *w)
{
    *w = (struct follow_wait){.q = q,
                              .subscription = {.job = job,
                                               .events = FOLLOW_PARKED | FOLLOW_ENDED,
                                               .notify = wait_notified}};
    return follow_add(q, &w->subscription);
}

void follow_wait_end(struct follow_wait *w)
{
    follow_remove(w->q, &w->subscription);
}

int follow_wait_do(struct follow_wait *w, int64_t until_us, struct qp_err *err)
{
    qp *q = w->q;
    int64_t look = q->env.monotonic_us(q->env.context) + FOLLOW_LOOK_MS * INT64_C(1000);
    bool looks = q->shared && (until_us < 0 || look < until_us);
    int rc = loop_wait(&q->driver, &w->notified, looks ? look : until_us, err);
    (void)pthread_mutex_lock(&q->driver.lock);
    w->notified = false; /* a later event than the read that comes now is notified again */
    (void)pthread_mutex_unlock(&q->driver.lock);
    return rc == QP_E_TIMEOUT && looks ? QP_OK : rc;
}

/* ------------------------------------------------------------------------------------------ followers */

struct qp_follower {
    struct subscription subscription;
    void *context;
    void (*changed)(void *context);
};

static void follower_notified(struct subscription *s, enum follow_event event, enum job_state state)
{
    qp_follower *f = (qp_follower *)((char *)s - offsetof(struct qp_follower, subscription));
    (void)event;
    (void)state;
    f->changed(f->context);
}

struct finding_job {
    struct query query;
    qp_str id;
    int64_t job;
};

static int read_job(void *context, struct store *s, struct qp_err *err)
{
    struct finding_job *f = context;
    struct arena arena;
    const struct job_row *job = NULL;
    int rc;
    f->query.store = s;
    arena_init(&arena, store_env(s), 0);
    rc = query_find(&f->query, &arena, f->id, &job, err);
    f->job = rc == QP_OK ? job->job : 0;
    arena_done(&arena);
    return rc;
}

int qp_follow_begin(qp *q, const struct qp_follow *follow, qp_follower **out_follower,
                    struct qp_err *err)
{
    ENTER(q, follow != NULL && follow->changed != NULL && out_follower != NULL, err);
    struct finding_job f = {.id = follow->id};
    qp_follower *new;
    if (q->engine == NULL) {
        return err_set(err, QP_E_READONLY, "the store was opened for reading only");
    }
    QP_TRY(space_number(q, follow->ns, &f.query.ns, err));
    if (!str_is_none(follow->id)) {
        QP_TRY(reads_do(q, &f, read_job, err));
    }
    new = mem_alloc(&q->env, sizeof *new);
    if (new == NULL) {
        return err_set(err, QP_E_NOMEM, "follow: out of memory");
    }
    *new = (qp_follower){.subscription = {.job = {f.query.ns, f.job},
                                          .events = FOLLOW_CHANGED | FOLLOW_ENDED,
                                          .notify = follower_notified},
                         .context = follow->context,
                         .changed = follow->changed};
    if (follow_add(q, &new->subscription) != QP_OK) {
        mem_free(&q->env, new);
        return err_set(err, QP_E_NOMEM, "follow: out of memory");
    }
    driver_wake(&q->driver); /* from now on it listens, and looks where others write */
    *out_follower = new;
    return QP_OK;
}

void qp_follow_end(qp *q, qp_follower *follower)
{
    if (follower == NULL || !handle_is_ours(q)) {
        return;
    }
    follow_remove(q, &follower->subscription);
    mem_free(&q->env, follower);
}
