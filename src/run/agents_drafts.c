/* agents_drafts.c - decisions in the hands of agents (see agents_drafts.h)
 *
 *   I1  a struct held is in the map, from drafts_hold until it is forgotten; in one of the two lists exactly while no call has it
 *   I2  an arena is there exactly while a decision is HELD_OPEN
 *   I3  lists are in the order of their last calls
 *
 * The map, the lists, `busy`, `stage` and `touched_us` are under the lock; the rest of one is its call's.
 */
#include "run/agents_drafts.h"

#include <stdio.h>

#include "agent/agent.h"
#include "agent/draft_text.h"
#include "agent/face.h"
#include "base/omap.h"
#include "run/handle.h"
#include "run/work_token.h"

#define DECISION_MARK "d-"
#define TASK_MARK "t-"
#define MARK_SIZE 2
/* Of what a script says, in memory: more cannot be applied. */
#define DRAFT_MEMORY_SIZE ((size_t)8 * LIMIT_FLOW_DECISION_SIZE)

static_assert(DRAFT_MEMORY_SIZE < LIMIT_ARENA_SIZE, "a draft that is too large is found so");

struct held_list {
    struct held *first, *last;
    size_t count;
};

struct drafts {
    qp *q;
    unsigned char key[HASH_KEYED_SIZE];
    struct work_caller caller;
    char caller_id[LIMIT_ID_SIZE];
    pthread_mutex_t lock;
    /* under the lock */
    struct omap all; /* by uuid */
    struct held_list idle;
    struct held_list ended;
    size_t open_count; /* new and open ones */
};

static int64_t now_us(const struct drafts *d)
{
    return d->q->env.monotonic_us(d->q->env.context);
}

/* ------------------------------------------------------------------------------------------- lists */

static bool is_over(const struct held *h)
{
    return h->stage == HELD_ENDED || h->stage == HELD_OVER;
}

static struct held_list *list_of(struct held *h)
{
    return is_over(h) ? &h->of->ended : &h->of->idle;
}

static void list_add(struct held *h)
{
    struct held_list *list = list_of(h);
    h->next = NULL;
    h->previous = list->last;
    if (list->last != NULL) {
        list->last->next = h;
    } else {
        list->first = h;
    }
    list->last = h;
    list->count++;
}

static void list_remove(struct held *h)
{
    struct held_list *list = list_of(h);
    if (h->previous != NULL) {
        h->previous->next = h->next;
    } else {
        list->first = h->next;
    }
    if (h->next != NULL) {
        h->next->previous = h->previous;
    } else {
        list->last = h->previous;
    }
    list->count--;
}

/* Under the lock; it is in no list. */
static void forget(struct held *h)
{
    struct drafts *d = h->of;
    d->open_count -= !is_over(h);
    (void)omap_delete(&d->all, str_from(h->uuid)); /* it is h */
    if (h->stage == HELD_OPEN) {
        arena_done(&h->arena);
    }
    mem_free(&d->q->env, h);
}

/* -------------------------------------------------------------------------------------- open, close */

int drafts_open(qp *q, const struct work_caller *caller, struct drafts **out_drafts,
                struct qp_err *err)
{
    struct drafts *d = mem_alloc(&q->env, sizeof *d);
    if (d == NULL) {
        return err_set(err, QP_E_NOMEM, "agents: out of memory");
    }
    QP_ASSERT(caller->key.n == sizeof d->key);
    QP_ASSERT(caller->id.n <= sizeof d->caller_id);
    d->q = q;
    memcpy(d->key, caller->key.p, sizeof d->key);
    memcpy(d->caller_id, caller->id.p, caller->id.n);
    d->caller = (struct work_caller){.id = {d->caller_id, caller->id.n},
                                     .key = {(const char *)d->key, sizeof d->key}};
    (void)pthread_mutex_init(&d->lock, NULL);
    omap_init(&d->all, &q->env);
    *out_drafts = d;
    return QP_OK;
}

void drafts_close(struct drafts *d)
{
    struct omap_node *n;
    if (d == NULL) {
        return;
    }
    while ((n = omap_seek(&d->all, QP_STR(""))) != NULL) {
        struct held *h = omap_value(n);
        QP_ASSERT(!h->busy);
        list_remove(h);
        forget(h);
    }
    omap_done(&d->all);
    (void)pthread_mutex_destroy(&d->lock);
    mem_free(&d->q->env, d);
}

/* ------------------------------------------------------------------------------------------- uuids */

bool drafts_is_decision(const struct work_task *task)
{
    return str_equal(task->address, AGENT_ADDRESS);
}

void drafts_uuid(const struct work_task *task, char out_uuid[DRAFT_UUID_SIZE])
{
    (void)snprintf(out_uuid, DRAFT_UUID_SIZE, "%s%s",
                   drafts_is_decision(task) ? DECISION_MARK : TASK_MARK, task->token);
}

static bool read_uuid(const struct drafts *d, qp_str uuid, const char *mark, qp_str *out_token,
                      struct msg_ref *out_ref, unsigned char out_guid[LIMIT_GUID_SIZE])
{
    if (uuid.n <= MARK_SIZE || memcmp(uuid.p, mark, MARK_SIZE) != 0) {
        return false;
    }
    *out_token = (qp_str){uuid.p + MARK_SIZE, uuid.n - MARK_SIZE};
    return token_read(&d->caller, *out_token, out_ref, out_guid) && out_ref->ns == d->q->ns;
}

bool drafts_task(const struct drafts *d, qp_str uuid, qp_str *out_token, struct msg_ref *out_ref,
                 unsigned char out_guid[LIMIT_GUID_SIZE])
{
    return read_uuid(d, uuid, TASK_MARK, out_token, out_ref, out_guid);
}

/* --------------------------------------------------------------------------------------- handing out */

int drafts_hold(struct drafts *d, const struct work_task *task)
{
    struct held *h = mem_alloc(&d->q->env, sizeof *h);
    qp_str token;
    int rc;
    if (h == NULL) {
        return QP_E_NOMEM;
    }
    h->of = d;
    h->touched_us = now_us(d);
    drafts_uuid(task, h->uuid);
    if (!read_uuid(d, str_from(h->uuid), DECISION_MARK, &token, &h->ref, h->guid)) {
        mem_free(&d->q->env, h);
        return QP_E_INTERNAL;
    }
    (void)pthread_mutex_lock(&d->lock);
    rc = d->open_count >= LIMIT_DECISIONS ? QP_E_LIMIT
                                          : omap_put(&d->all, str_from(h->uuid), h, NULL);
    if (rc == QP_OK) {
        d->open_count++;
        list_add(h);
    }
    (void)pthread_mutex_unlock(&d->lock);
    if (rc != QP_OK) {
        mem_free(&d->q->env, h);
    }
    return rc;
}

void drafts_drop(struct drafts *d, const struct work_task *task)
{
    char uuid[DRAFT_UUID_SIZE];
    struct held *h;
    drafts_uuid(task, uuid);
    (void)pthread_mutex_lock(&d->lock);
    h = omap_get(&d->all, str_from(uuid));
    if (h != NULL && !h->busy) {
        list_remove(h);
        forget(h);
    }
    (void)pthread_mutex_unlock(&d->lock);
}

/* ------------------------------------------------------------------------------------------- calls */

/* Whether the message is still held by that claim, and the instance that its decision is of. */
static int read_decision(void *context, struct store *s, struct qp_err *err)
{
    struct held *h = context;
    struct sight sight = {.store = s, .arena = &h->arena, .err = err};
    struct msg_row key = {.ns = h->ref.ns, .job = h->ref.job, .guid = h->ref.guid};
    const struct msg_row *m;
    const void *row = NULL;
    QP_TRY(store_get(s, &h->arena, TABLE_msg, &key, &row, err));
    m = row;
    if (m->state != MSG_HELD || m->token != h->ref.token) {
        return err_set(err, QP_E_STALE, "the decision was given out again");
    }
    QP_TRY(store_get(s, &h->arena, TABLE_job, &(struct job_row){.ns = key.ns, .job = key.job}, &row,
                     err));
    sight.job = row;
    return agent_decision(&sight, &h->instance);
}

static int read_snapshot(void *context, struct store *s, struct qp_err *err)
{
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    rc = read_decision(context, s, err);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

/* By its call, which has it alone. */
static int open_draft(struct held *h, struct qp_err *err)
{
    int rc;
    arena_init(&h->arena, &h->of->q->env, 0);
    rc = reads_do(h->of->q, h, read_snapshot, err);
    if (rc != QP_OK) {
        arena_done(&h->arena);
        return rc;
    }
    draft_init(&h->draft, &h->arena, &h->instance);
    return QP_OK;
}

/* Under the lock. */
static int find_held(struct drafts *d, qp_str uuid, struct held **out_held, struct qp_err *err)
{
    struct held *h = omap_get(&d->all, uuid);
    unsigned char guid[LIMIT_GUID_SIZE];
    struct msg_ref ref;
    qp_str token;
    if (h == NULL && !read_uuid(d, uuid, DECISION_MARK, &token, &ref, guid)) {
        return err_set(err, QP_E_NOT_FOUND, "there is no decision with this uuid");
    }
    if (h == NULL || h->stage == HELD_OVER) {
        return err_set(err, QP_E_STALE,
                       "the decision is over, or was given back: nothing of it counts; ask for "
                       "the next job");
    }
    if (h->stage == HELD_ENDED) {
        return err_set(err, QP_E_DONE, "the decision has ended, and is applied");
    }
    if (h->busy) {
        return err_set(err, QP_E_BUSY, "another call for this decision is being answered");
    }
    *out_held = h;
    return QP_OK;
}

/* Nothing of it can be read: it is over, or gone. */
static bool is_gone(int rc)
{
    return rc == QP_E_NOT_FOUND || rc == QP_E_STALE || rc == QP_E_CONFLICT;
}

int drafts_enter(struct drafts *d, qp_str uuid, struct held **out_held, struct qp_err *err)
{
    struct held *h = NULL;
    int rc;
    (void)pthread_mutex_lock(&d->lock);
    rc = find_held(d, uuid, &h, err);
    if (rc == QP_OK) {
        list_remove(h);
        h->busy = true;
    }
    (void)pthread_mutex_unlock(&d->lock);
    if (rc == QP_OK && h->stage == HELD_NEW) {
        rc = open_draft(h, err);
        if (rc != QP_OK) {
            drafts_leave(h, is_gone(rc) ? HELD_OVER : HELD_NEW);
            return is_gone(rc) ? QP_E_STALE : rc;
        }
        (void)pthread_mutex_lock(&d->lock);
        h->stage = HELD_OPEN;
        (void)pthread_mutex_unlock(&d->lock);
    }
    if (rc == QP_OK) {
        *out_held = h;
    }
    return rc;
}

/* Under the lock: there is room for one more that has ended. */
static void forget_oldest(struct drafts *d)
{
    if (d->ended.count >= LIMIT_DECISIONS_ENDED) {
        struct held *oldest = d->ended.first;
        list_remove(oldest);
        forget(oldest);
    }
}

void drafts_leave(struct held *held, enum held_stage stage)
{
    struct drafts *d = held->of;
    bool was_open = held->stage == HELD_OPEN;
    (void)pthread_mutex_lock(&d->lock);
    QP_ASSERT(held->busy);
    held->busy = false;
    held->touched_us = now_us(d);
    held->stage = stage;
    if (was_open && stage != HELD_OPEN) {
        arena_done(&held->arena);
    }
    if (is_over(held)) {
        d->open_count--;
        forget_oldest(d);
    }
    list_add(held);
    (void)pthread_mutex_unlock(&d->lock);
}

/* ---------------------------------------------------------------------------------- what it came to */

bool drafts_is_too_large(const struct held *held)
{
    return held->arena.total > DRAFT_MEMORY_SIZE || held->draft.work_count > LIMIT_DECISION_WORKS;
}

int drafts_decided(const struct held *held, struct arena *arena, qp_str *out_told)
{
    static const char head[] = "{\"status\":\"decided\",\"decision\":";
    qp_str text;
    char *told;
    QP_TRY(draft_write(arena, &held->draft, &text));
    if (drafts_is_too_large(held) || text.n + sizeof head > LIMIT_FLOW_DECISION_SIZE) {
        return QP_E_TOO_LARGE;
    }
    told = arena_bytes(arena, text.n + sizeof head);
    if (told == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(told, head, sizeof head - 1);
    memcpy(told + sizeof head - 1, text.p, text.n);
    told[sizeof head - 1 + text.n] = '}';
    *out_told = (qp_str){told, text.n + sizeof head};
    return QP_OK;
}

/* A result that no caller waits for. */
struct telling {
    struct work_call call;
    struct work_result result;
    qp *q;
    char uuid[DRAFT_UUID_SIZE];
};

/* Whatever the answer: what was not taken comes again when this run is over. */
static void told(void *context, struct work_call *call, int rc, const char *why)
{
    struct telling *t = context;
    (void)rc;
    (void)why;
    work_done(t->q, call, WORK_TOLD);
    mem_free(&t->q->env, t);
}

static void tell(struct drafts *d, const char *uuid, qp_str what)
{
    struct telling *t = mem_alloc(&d->q->env, sizeof *t);
    struct qp_err err = {0};
    if (t == NULL) {
        return;
    }
    t->q = d->q;
    (void)snprintf(t->uuid, sizeof t->uuid, "%s", uuid);
    t->result = (struct work_result){
        .token = str_from(t->uuid + MARK_SIZE), .kind = WORK_OTHER, .told = what};
    t->call = (struct work_call){.worker = QP_STR("agent"),
                                 .caller = d->caller,
                                 .results = &t->result,
                                 .result_count = 1,
                                 .context = t,
                                 .answer = told};
    if (work_submit(d->q, &t->call, &err) != QP_OK) {
        mem_free(&d->q->env, t);
    }
}

qp_str drafts_told_large(void)
{
    return QP_STR("{\"status\":\"failed\",\"error\":{\"code\":\"decision_too_large\",\"name\":"
                  "\"decision_too_large\",\"message\":\"the decision is larger than one commit "
                  "takes\"}}");
}

void drafts_park_large(struct held *held)
{
    tell(held->of, held->uuid, drafts_told_large());
}

/* -------------------------------------------------------------------------------------------- time */

/* One whose time is over; NULL: there is none. It is forgotten, and `out_uuid` says whose decision goes back, if it does. */
static bool forget_late(struct drafts *d, char out_uuid[DRAFT_UUID_SIZE])
{
    int64_t now = now_us(d);
    struct held *h = d->idle.first;
    out_uuid[0] = '\0';
    if (h != NULL && now - h->touched_us >= LIMIT_DECISION_MS * INT64_C(1000)) {
        memcpy(out_uuid, h->uuid, sizeof h->uuid);
    } else {
        h = d->ended.first;
        if (h == NULL || now - h->touched_us < LIMIT_DECISION_ENDED_MS * INT64_C(1000)) {
            return false;
        }
    }
    list_remove(h);
    forget(h);
    return true;
}

void drafts_tidy(struct drafts *d)
{
    char uuid[DRAFT_UUID_SIZE];
    bool more;
    do {
        (void)pthread_mutex_lock(&d->lock);
        more = forget_late(d, uuid);
        (void)pthread_mutex_unlock(&d->lock);
        if (uuid[0] != '\0') {
            tell(d, uuid, QP_STR("{\"status\":\"lost\"}"));
        }
    } while (more);
}
