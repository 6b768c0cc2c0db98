/* watch.c - who waits for the end of which job, or for its being parked: a hash table of the driver's */
#include "run/handle.h"

static size_t slot_of(const struct watches *all, struct job_ref job)
{
    uint64_t mixed = ((uint64_t)job.job * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)job.ns;
    return (size_t)(mixed >> 20) & (all->slot_count - 1);
}

static bool is_same(struct job_ref a, struct job_ref b)
{
    return a.ns == b.ns && a.job == b.job;
}

/* Twice as many lists when there are as many watches as lists. */
static int grow(qp *q)
{
    struct watches *all = &q->watches;
    struct watches larger = {.slot_count = all->slot_count == 0 ? 64 : all->slot_count * 2,
                             .count = all->count};
    larger.slots = mem_alloc(&q->env, larger.slot_count * sizeof(struct watch *));
    if (larger.slots == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < all->slot_count; i++) {
        while (all->slots[i] != NULL) {
            struct watch *w = all->slots[i];
            struct watch **slot = &larger.slots[slot_of(&larger, w->job)];
            all->slots[i] = w->next;
            w->next = *slot;
            *slot = w;
        }
    }
    mem_free(&q->env, all->slots);
    *all = larger;
    return QP_OK;
}

int watch_add(qp *q, struct watch *w)
{
    struct watches *all = &q->watches;
    struct watch **slot;
    if (all->count == all->slot_count && grow(q) != QP_OK) {
        return QP_E_NOMEM;
    }
    slot = &all->slots[slot_of(all, w->job)];
    w->next = *slot;
    *slot = w;
    all->count++;
    return QP_OK;
}

/* Takes out the first watch that `is` says yes to. */
static struct watch *take(struct watches *all, struct job_ref job, const struct watch *only)
{
    struct watch **link = all->slot_count == 0 ? NULL : &all->slots[slot_of(all, job)];
    while (link != NULL && *link != NULL) {
        struct watch *w = *link;
        if (is_same(w->job, job) && (only == NULL || w == only)) {
            *link = w->next;
            all->count--;
            return w;
        }
        link = &w->next;
    }
    return NULL;
}

void watch_remove(qp *q, struct watch *w)
{
    (void)take(&q->watches, w->job, w); /* it may have been told already */
}

void watch_job_ended(void *context, struct job_ref job, enum job_state state)
{
    qp *q = context;
    struct watch *w;
    if (state != JOB_COMPLETED) {
        tasks_cancel(q, job);
        work_cancel(q, job);
    }
    follow_ended(q, job);
    while ((w = take(&q->watches, job, NULL)) != NULL) {
        w->ended(q, w, state);
    }
}

/* Those that want to know are taken out before they are told, as when it ends. */
void watch_job_parked(void *context, struct job_ref job)
{
    qp *q = context;
    struct watches *all = &q->watches;
    struct watch **link = all->slot_count == 0 ? NULL : &all->slots[slot_of(all, job)];
    while (link != NULL && *link != NULL) {
        struct watch *w = *link;
        if (is_same(w->job, job) && w->parked != NULL) {
            *link = w->next;
            all->count--;
            w->parked(q, w);
        } else {
            link = &w->next;
        }
    }
}

void watches_done(qp *q)
{
    for (size_t i = 0; i < q->watches.slot_count; i++) {
        while (q->watches.slots[i] != NULL) {
            struct watch *w = q->watches.slots[i];
            q->watches.slots[i] = w->next;
            QP_ASSERT(w->drop != NULL); /* who waits on its own stack has left */
            w->drop(q, w);
        }
    }
    mem_free(&q->env, q->watches.slots);
    q->watches = (struct watches){0};
}
