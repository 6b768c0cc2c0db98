/* remote.c - the calls of workers elsewhere: where each stands, deadlines, and tasks that go back (see remote.h) */
#include "run/remote.h"

/* ---------------------------------------------------------------------------------- lists of the driver */

static struct work_poll **list_of(struct remote *w, const struct work_poll *s)
{
    return s->stage == POLL_PARKED ? &w->parked : &w->busy;
}

static void list_add(struct remote *w, struct work_poll *s)
{
    struct work_poll **list = list_of(w, s);
    s->previous = NULL;
    s->next = *list;
    if (*list != NULL) {
        (*list)->previous = s;
    }
    *list = s;
}

static void list_remove(struct remote *w, struct work_poll *s)
{
    if (s->previous != NULL) {
        s->previous->next = s->next;
    } else {
        *list_of(w, s) = s->next;
    }
    if (s->next != NULL) {
        s->next->previous = s->previous;
    }
}

static void heap_set(struct remote *w, size_t i, struct work_poll *s)
{
    w->heap[i] = s;
    s->heap_index = i;
}

static void heap_up(struct remote *w, size_t i)
{
    struct work_poll *s = w->heap[i];
    while (i > 0 && w->heap[(i - 1) / 2]->deadline > s->deadline) {
        heap_set(w, i, w->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_set(w, i, s);
}

static void heap_down(struct remote *w, size_t i)
{
    struct work_poll *s = w->heap[i];
    size_t child = 2 * i + 1;
    while (child < w->heap_count) {
        child +=
            child + 1 < w->heap_count && w->heap[child + 1]->deadline < w->heap[child]->deadline;
        if (w->heap[child]->deadline >= s->deadline) {
            break;
        }
        heap_set(w, i, w->heap[child]);
        i = child;
        child = 2 * i + 1;
    }
    heap_set(w, i, s);
}

/* False: no memory. */
static bool heap_add(qp *q, struct work_poll *s)
{
    struct remote *w = q->remote;
    if (w->heap_count == w->heap_capacity) {
        size_t capacity = w->heap_capacity == 0 ? 64 : w->heap_capacity * 2;
        struct work_poll **heap = mem_resize(&q->env, w->heap, capacity * sizeof *heap);
        if (heap == NULL) {
            return false;
        }
        w->heap = heap;
        w->heap_capacity = capacity;
    }
    heap_set(w, w->heap_count++, s);
    heap_up(w, s->heap_index);
    return true;
}

static void heap_remove(struct remote *w, struct work_poll *s)
{
    struct work_poll *last = w->heap[--w->heap_count];
    size_t i = s->heap_index;
    QP_ASSERT(w->heap[i] == s);
    if (last != s) {
        heap_set(w, i, last);
        heap_up(w, i);
        heap_down(w, last->heap_index);
    }
}

/* ------------------------------------------------------------------------------------------- stages */

static bool may_move(enum poll_stage from, enum poll_stage to)
{
    static const bool moves[POLL_STAGES][POLL_STAGES] = {
        [POLL_QUEUED] = {[POLL_BUSY] = true, [POLL_ANSWERED] = true},
        [POLL_BUSY] = {[POLL_PARKED] = true, [POLL_ANSWERED] = true},
        [POLL_PARKED] = {[POLL_BUSY] = true},
    };
    return moves[from][to];
}

static void move(struct work_poll *s, enum poll_stage to)
{
    QP_ASSERT(may_move(s->stage, to));
    s->stage = to;
}

void remote_busy(struct work_poll *s)
{
    move(s, POLL_BUSY);
    list_add(s->q->remote, s);
}

bool remote_park(struct work_poll *s)
{
    struct remote *w = s->q->remote;
    if (!heap_add(s->q, s)) {
        return false;
    }
    list_remove(w, s);
    move(s, POLL_PARKED);
    list_add(w, s);
    s->worker->parked = s;
    return true;
}

void remote_wake(struct work_poll *s)
{
    struct remote *w = s->q->remote;
    if (s->stage != POLL_PARKED) {
        return; /* it is looked at anyway, or was answered */
    }
    list_remove(w, s);
    heap_remove(w, s);
    if (s->worker != NULL && s->worker->parked == s) {
        s->worker->parked = NULL;
    }
    move(s, POLL_BUSY);
    list_add(w, s);
}

void remote_answered(struct work_poll *s)
{
    list_remove(s->q->remote, s);
    move(s, POLL_ANSWERED);
}

void remote_withdrawn(struct work_poll *s)
{
    QP_ASSERT(s->stage == POLL_QUEUED);
    move(s, POLL_ANSWERED);
}

/* ----------------------------------------------------------------------------------- tasks that go back */

struct returning {
    struct request_op op;
    qp *q;
    struct work_poll *state;
    unsigned char guid[LIMIT_GUID_SIZE];
};

/* Whatever the answer: what was not given back is ready when its lease is over. */
static void returned(struct engine *e, struct command *c, int rc, const char *why)
{
    struct returning *r = (struct returning *)c;
    (void)e;
    (void)rc;
    (void)why;
    r->q->driver.unanswered--;
    if (r->state != NULL) {
        r->state->unanswered--;
    }
    mem_free(&r->q->env, r);
}

void remote_give_back(qp *q, const struct msg_ref *ref, struct work_poll *state)
{
    struct returning *r = mem_alloc(&q->env, sizeof *r);
    if (r == NULL) {
        return; /* its lease ends */
    }
    r->q = q;
    r->state = state;
    memcpy(r->guid, ref->guid.p, sizeof r->guid);
    r->op.op = (struct op){.kind = OP_msg_retry, .msg_retry = {.ref = *ref, .untry = true}};
    r->op.op.msg_retry.ref.guid = (qp_str){(const char *)r->guid, sizeof r->guid};
    request_op(&r->op);
    r->op.command.answer = returned;
    q->driver.unanswered++;
    if (state != NULL) {
        state->unanswered++;
    }
    engine_submit(q->engine, &r->op.command);
}

/* ---------------------------------------------------------------------------------------- the whole */

void remote_changed(qp *q)
{
    struct remote *w = q->remote;
    qp_ms next = w->presence_written + LIMIT_PRESENCE_MS;
    if (q->shared && w->presence_at == 0) {
        w->presence_at = next > 1 ? next : 1;
    }
}

int remote_init(qp *q)
{
    struct remote *w = mem_alloc(&q->env, sizeof *w);
    if (w == NULL) {
        return QP_E_NOMEM;
    }
    omap_init(&w->topics, &q->env);
    omap_init(&w->workers, &q->env);
    omap_init(&w->in_hand, &q->env);
    omap_init(&w->refused, &q->env);
    q->remote = w;
    return QP_OK;
}

void remote_done(qp *q)
{
    struct remote *w = q->remote;
    QP_ASSERT(w->heap_count == 0);
    mem_free(&q->env, w->heap);
    mem_free(&q->env, w);
    q->remote = NULL;
}
