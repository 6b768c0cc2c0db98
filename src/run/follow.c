/* follow.c - who wants to hear that there is something new, of one job or of a namespace
 *
 * Every commit of this process tells which jobs it journaled; whoever follows one of them is told, on the thread
 * that drives the engine, and reads when it likes. So following costs the store nothing. What other processes
 * commit to a shared store is read from the feed, once in LIMIT_LOOK_MS for all followers together, from a
 * position that never skips a later commit.
 *
 * The table has a lock of its own, which is held while followers are told: when qp_follow_end returns, nobody is
 * told any more.
 */
#include "kernel/query.h"
#include "run/handle.h"

struct qp_follower {
    qp_follower *next; /* in its slot */
    int64_t ns;
    int64_t job;    /* 0: all of the namespace */
    int64_t serial; /* of the commit that it was told of last */
    void *context;
    void (*changed)(void *context);
};

/* Those of a whole namespace have a slot of their own, the last one. */
static qp_follower **slot_of(struct followers *f, int64_t job)
{
    uint64_t mixed = (uint64_t)job * UINT64_C(0x9e3779b97f4a7c15);
    return job == 0 ? &f->slots[FOLLOW_SLOTS]
                    : &f->slots[(size_t)(mixed >> 32) & (FOLLOW_SLOTS - 1)];
}

int followers_init(struct followers *f)
{
    return pthread_mutex_init(&f->lock, NULL) == 0 ? QP_OK : QP_E_NOMEM;
}

void followers_done(struct followers *f)
{
    (void)pthread_mutex_destroy(&f->lock);
}

/* ---------------------------------------------------------------------------------------- any thread */

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
    qp_follower **slot;
    int rc = q->engine == NULL
                 ? err_set(err, QP_E_READONLY, "the store was opened for reading only")
                 : space_number(q, follow->ns, &f.query.ns, err);
    rc = rc == QP_OK && !str_is_none(follow->id) ? reads_do(q, &f, read_job, err) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    new = mem_alloc(&q->env, sizeof *new);
    if (new == NULL) {
        return err_set(err, QP_E_NOMEM, "follow: out of memory");
    }
    *new = (qp_follower){.ns = f.query.ns,
                         .job = f.job,
                         .serial = -1,
                         .context = follow->context,
                         .changed = follow->changed};
    (void)pthread_mutex_lock(&q->followers.lock);
    slot = slot_of(&q->followers, new->job);
    new->next = *slot;
    *slot = new;
    atomic_fetch_add(&q->followers.count, 1);
    (void)pthread_mutex_unlock(&q->followers.lock);
    (void)pthread_mutex_lock(&q->lock);
    kick(q); /* on a shared store somebody has to look from now on */
    (void)pthread_mutex_unlock(&q->lock);
    *out_follower = new;
    return QP_OK;
}

void qp_follow_end(qp *q, qp_follower *follower)
{
    qp_follower **link;
    if (follower == NULL || !handle_is_ours(q)) {
        return;
    }
    (void)pthread_mutex_lock(&q->followers.lock);
    link = slot_of(&q->followers, follower->job);
    while (*link != follower) {
        link = &(*link)->next;
    }
    *link = follower->next;
    atomic_fetch_sub(&q->followers.count, 1);
    (void)pthread_mutex_unlock(&q->followers.lock);
    mem_free(&q->env, follower);
}

/* ---------------------------------------------------------------------------------------- the driver */

/* Once per commit, however many entries it has. */
static void tell_slot(qp_follower *first, struct job_ref job, int64_t serial)
{
    for (qp_follower *f = first; f != NULL; f = f->next) {
        if (f->ns == job.ns && (f->job == 0 || f->job == job.job) && f->serial != serial) {
            f->serial = serial;
            f->changed(f->context);
        }
    }
}

static void tell(qp *q, struct job_ref job, int64_t serial)
{
    struct followers *f = &q->followers;
    (void)pthread_mutex_lock(&f->lock);
    tell_slot(*slot_of(f, job.job), job, serial);
    tell_slot(f->slots[FOLLOW_SLOTS], job, serial);
    (void)pthread_mutex_unlock(&f->lock);
}

void follow_journaled(void *context, const struct feed_entry *entry)
{
    qp *q = context;
    tell(q, (struct job_ref){entry->ns, entry->job}, engine_stats(q->engine).commits);
}

void follow_ended(qp *q, struct job_ref job)
{
    if (atomic_load(&q->followers.count) > 0) {
        tell(q, job, -1 - engine_stats(q->engine).commits); /* besides what the journal told */
    }
}

static void tell_all(qp *q)
{
    struct followers *f = &q->followers;
    (void)pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i <= FOLLOW_SLOTS; i++) {
        for (qp_follower *one = f->slots[i]; one != NULL; one = one->next) {
            one->changed(one->context);
        }
    }
    (void)pthread_mutex_unlock(&f->lock);
}

struct looking {
    qp *q;
    int64_t last;
};

static int see_entry(void *context, const struct feed_entry *entry)
{
    struct looking *l = context;
    tell(l->q, (struct job_ref){entry->ns, entry->job}, INT64_MAX - entry->pos);
    l->last = entry->pos;
    return QP_OK;
}

/* What others have committed. A failure shows itself in the next round, too. */
static void look(qp *q)
{
    struct followers *f = &q->followers;
    struct looking l = {.q = q, .last = f->position};
    bool behind = false;
    if (f->position > 0 && query_feed_behind(q->store, f->position, &behind, NULL) != QP_OK) {
        return;
    }
    if (f->position < 0 || behind) {
        int64_t position = 0;
        f->position = query_feed_position(q->store, &position, NULL) == QP_OK ? position : -1;
        if (behind) {
            tell_all(q); /* of what is not there any more: nobody knows whom it was about */
        }
        return;
    }
    if (store_feed(q->store, f->position, LIMIT_FEED_COMMITS, &l, see_entry, NULL) == QP_OK) {
        f->position = l.last;
    }
}

void follow_turn(qp *q)
{
    struct followers *f = &q->followers;
    bool any = atomic_load(&f->count) > 0;
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
    return q->followers.look_at > 0 ? q->followers.look_at : INT64_MAX;
}
