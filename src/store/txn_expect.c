/* txn_expect.c - the jobs that a commit is about, on a provider that many write to: locked, and read in one go (see txn.h)
 *
 * A job whose row is the one that the cache knows needs nothing more: all its rows are as the cache has them. The rows
 * of other jobs come with the same question, as far as they are few.
 */
#include "store/txn_entry.h"

#include <stdlib.h>

/* The jobs of a commit on a shared provider; see txn_expect. */
struct expecting {
    struct txn *t;
    struct job_list stale; /* the cache knew something else of them */
};

/* What the cache has of a job's other rows is so, if it has the job as it is now. */
static void job_recognise(struct expecting *x, struct txn_entry *e)
{
    struct txn *t = x->t;
    struct cache_key key = {TABLE_job, e->hash, e->key};
    const struct job_row *job = e->stored;
    bool old;
    const struct job_row *cached = t->cache == NULL ? NULL : cache_find(t->cache, &key, &old);
    bool whole = t->cache != NULL && cache_is_whole(t->cache, &key);
    e->known = whole && cached != NULL && cached->rev == job->rev;
    e->whole = e->known;
    e->fetched = !whole && job->seq <= LIMIT_FETCH_SEQ;
    if (whole && !e->known) {
        x->stale.jobs[x->stale.count++] = (struct job_ref){job->ns, job->job};
    }
    t->last[TABLE_job] = e;
}

/* A row of a job that the commit is about. */
static int fetch_row(void *context, enum table_id table, const void *row)
{
    struct expecting *x = context;
    struct txn *t = x->t;
    uint64_t hash;
    const struct txn_slot *slot = txn_slot_of(t, table, row, &hash);
    struct txn_entry *e =
        slot == NULL || slot->entry != NULL ? NULL : txn_entry_new(t, table, hash);
    if (e == NULL) {
        return t->rc;
    }
    e->stored = row_copy(t->arena, table, row);
    e->current = e->stored;
    e->keep = true;
    txn_list_news(t, e);
    if (e->stored == NULL) {
        (void)txn_fail_memory(t); /* rc carries it */
    } else if (table == TABLE_job) {
        job_recognise(x, e);
    }
    return t->rc;
}

static int job_compare(const void *a, const void *b)
{
    const struct job_ref *x = a;
    const struct job_ref *y = b;
    return x->job != y->job ? (x->job > y->job) - (x->job < y->job)
                            : (x->ns > y->ns) - (x->ns < y->ns);
}

/* In order, each once. */
static void list_tidy(struct job_list *list)
{
    size_t kept = 0;
    if (list->count > 0) {
        qsort(list->jobs, list->count, sizeof *list->jobs, job_compare);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (kept == 0 || job_compare(&list->jobs[kept - 1], &list->jobs[i]) != 0) {
            list->jobs[kept++] = list->jobs[i];
        }
    }
    list->count = kept;
}

/* Some rows were too large to come with the others: what is not there is not known any more. */
static void forget_absence(struct txn *t)
{
    for (struct txn_entry *e = t->first; e != NULL; e = e->next) {
        e->fetched = false;
    }
}

static bool is_whole(struct txn *t, const struct job_ref *ref)
{
    struct job_row job = {.ns = ref->ns, .job = ref->job};
    uint64_t hash;
    if (t->cache == NULL || txn_place(t, &t->job_key, TABLE_job, &job, &hash) == NULL) {
        return false;
    }
    return cache_is_whole(t->cache, &(struct cache_key){TABLE_job, hash, buf_slice(&t->job_key)});
}

/* The rest of the jobs that others have changed since: they are locked already. */
static int fetch_stale(struct txn *t, struct expecting *x, bool *out_left)
{
    struct job_list none = {NULL, 0};
    struct job_list stale = x->stale;
    if (stale.count == 0 || t->rc != QP_OK) {
        return t->rc;
    }
    t->rc = t->provider->calls->expect(t->provider, &none, &stale, x, fetch_row, out_left, t->err);
    for (size_t i = 0; i < stale.count && t->rc == QP_OK; i++) {
        struct job_row key = {.ns = stale.jobs[i].ns, .job = stale.jobs[i].job};
        struct txn_entry *e = txn_entry_load(t, TABLE_job, &key);
        if (e != NULL && e->stored != NULL) {
            e->fetched = ((const struct job_row *)e->stored)->seq <= LIMIT_FETCH_SEQ;
        }
    }
    return t->rc;
}

int txn_expect(struct txn *t, struct job_ref *jobs, size_t count)
{
    struct job_list locked = {jobs, count};
    struct job_list fetched = {NULL, 0};
    struct expecting x = {.t = t};
    bool left = false;
    bool left_later = false;
    if (t->provider->calls->expect == NULL) {
        return QP_OK;
    }
    list_tidy(&locked);
    fetched.jobs = arena_room(t->arena, (locked.count + 1) * sizeof *fetched.jobs);
    x.stale.jobs = arena_room(t->arena, (locked.count + 1) * sizeof *x.stale.jobs);
    if (fetched.jobs == NULL || x.stale.jobs == NULL) {
        return txn_fail_memory(t) == NULL ? t->rc : QP_OK;
    }
    for (size_t i = 0; i < locked.count; i++) {
        if (!is_whole(t, &locked.jobs[i])) {
            fetched.jobs[fetched.count++] = locked.jobs[i];
        }
    }
    t->rc =
        t->provider->calls->expect(t->provider, &locked, &fetched, &x, fetch_row, &left, t->err);
    (void)fetch_stale(t, &x, &left_later); /* rc carries it */
    if (left || left_later) {
        forget_absence(t);
    }
    return t->rc;
}
