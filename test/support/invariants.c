/* invariants.c - the rules of invariants.h, over a copy of all rows: plain loops, nothing clever */
#include "support/invariants.h"

#include <stdio.h>
#include <stdlib.h>

struct check {
    struct invariants *v;
    const struct invariants_state *now;
    const struct invariants_state *former; /* NULL at first */
    bool failed;
};

/* Each row of a table, as a pointer of its own type. */
#define EACH(c, table, var)                                                                        \
    for (size_t var##_i = 0; var##_i < (c)->now->tables[TABLE_##table].count && !(c)->failed;      \
         var##_i++)                                                                                \
        for (const struct table##_row *var = (c)->now->tables[TABLE_##table].rows[var##_i];        \
             var != NULL; var = NULL)

static const struct head_row *head_of(const struct invariants_state *s)
{
    return s->tables[TABLE_head].rows[0];
}

/* The first violation is kept, with the row that it was found on. */
static void violated(struct check *c, const char *rule, enum table_id table, const void *row)
{
    struct buf text;
    if (c->failed) {
        return;
    }
    c->failed = true;
    buf_init(&text, c->now->arena.env, 0);
    row_print(&text, table, row);
    (void)snprintf(c->v->text, sizeof c->v->text, "%s: %.*s", rule, STR_ARG(buf_slice(&text)));
    buf_done(&text);
}

#define RULE(c, condition, rule, table, row)                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            violated((c), rule " (" #condition ")", TABLE_##table, (row));                         \
        }                                                                                          \
    } while (0)

/* --------------------------------------------------------------------------------- finding rows */

static int key_compare(enum table_id table, const void *a, const void *b)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; i < t->key_count; i++) {
        const struct column *col = &t->columns[i];
        int64_t x = col->kind == KIND_I64 ? row_i64(col, a) : 0;
        int64_t y = col->kind == KIND_I64 ? row_i64(col, b) : 0;
        int order = col->kind == KIND_I64 ? (x > y) - (x < y)
                                          : str_compare(row_str(col, a), row_str(col, b));
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

/* Rows come in the order of their key. */
static const void *find(const struct invariants_state *s, enum table_id table, const void *key)
{
    const struct invariants_rows *r = &s->tables[table];
    size_t low = 0;
    size_t high = r->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = key_compare(table, r->rows[middle], key);
        if (order == 0) {
            return r->rows[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------- messages */

static void check_lanes(struct check *c)
{
    EACH(c, lane, lane)
    {
        int64_t ready = 0;
        int64_t held = 0;
        EACH(c, msg, m)
        {
            if (m->ns == lane->ns && str_equal(m->topic, lane->topic) &&
                str_equal(m->limit_key, lane->limit_key)) {
                ready += m->state == MSG_READY;
                held += m->state == MSG_HELD;
            }
        }
        RULE(c, lane->ready == ready && lane->held == held, "lane", lane, lane);
    }
    EACH(c, msg, m)
    {
        struct lane_row key = {.ns = m->ns, .topic = m->topic, .limit_key = m->limit_key};
        bool counted = m->state == MSG_READY || m->state == MSG_HELD;
        RULE(c, !counted || find(c->now, TABLE_lane, &key) != NULL, "lane", msg, m);
    }
}

static int order_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* True when no number stands twice; sorts them. */
static bool are_unique(int64_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, order_i64);
    for (size_t i = 1; i < count; i++) {
        if (numbers[i] == numbers[i - 1]) {
            return false;
        }
    }
    return true;
}

static void check_messages(struct check *c)
{
    size_t count = 0;
    int64_t *ords = malloc((c->now->tables[TABLE_msg].count + 1) * sizeof *ords);
    QP_ASSERT(ords != NULL);
    EACH(c, msg, m)
    {
        bool leased = m->wake_at > 0;
        bool owned = m->holder > 0;
        bool limited = !str_is_none(m->limits);
        RULE(c, m->state > MSG_NONE && m->state < MSG_STATES, "msg", msg, m);
        RULE(c, m->state != MSG_HELD || (limited ? leased || owned : leased != owned), "msg", msg,
             m);
        RULE(c, m->state != MSG_DELAYED || (leased && !owned), "msg", msg, m);
        RULE(c,
             m->state == MSG_HELD || m->state == MSG_DELAYED ||
                 ((!leased || (limited && m->state == MSG_READY)) && !owned),
             "msg", msg, m);
        RULE(c, m->deadline == 0 || (limited && m->state == MSG_HELD), "msg", msg, m);
        RULE(c, m->ord > 0 && m->ord <= head_of(c->now)->ord, "msg", msg, m);
        RULE(c, m->state != MSG_HELD || m->token > 0, "msg", msg, m);
        RULE(c, m->tries >= 0 && m->tries <= m->token, "msg", msg, m);
        ords[count++] = m->ord;
    }
    RULE(c, are_unique(ords, count), "msg: ord given twice", head, head_of(c->now));
    free(ords);
}

/* ---------------------------------------------------------------------------------- hooks, keys */

static void check_hooks(struct check *c)
{
    EACH(c, hook, hook)
    {
        int64_t waiting = 0;
        int64_t pending = 0;
        EACH(c, hook_wait, w)
        {
            waiting += w->ns == hook->ns && str_equal(w->topic, hook->topic) &&
                       str_equal(w->hkey, hook->hkey);
        }
        EACH(c, hook_sig, sig)
        {
            pending += sig->ns == hook->ns && str_equal(sig->topic, hook->topic) &&
                       str_equal(sig->hkey, hook->hkey);
        }
        RULE(c, hook->waiting == waiting && hook->pending == pending, "hook", hook, hook);
        RULE(c, waiting > 0 || pending > 0, "hook", hook, hook);
    }
    EACH(c, hook_wait, w)
    {
        struct hook_row key = {.ns = w->ns, .topic = w->topic, .hkey = w->hkey};
        struct job_row job = {.ns = w->ns, .job = w->job};
        RULE(c, find(c->now, TABLE_hook, &key) != NULL, "hook", hook_wait, w);
        RULE(c, find(c->now, TABLE_job, &job) != NULL, "hook", hook_wait, w);
    }
    EACH(c, hook_sig, sig)
    {
        struct hook_row key = {.ns = sig->ns, .topic = sig->topic, .hkey = sig->hkey};
        RULE(c, find(c->now, TABLE_hook, &key) != NULL, "hook", hook_sig, sig);
        RULE(c, (sig->job > 0) == (sig->expire_at == 0), "hook", hook_sig, sig);
    }
}

/* A job counts the signals that are kept for it. No activity listens for a name of which one is kept. */
static void check_kept(struct check *c)
{
    EACH(c, job, job)
    {
        int64_t count = 0;
        int64_t size = 0;
        EACH(c, hook_sig, sig)
        {
            bool is_its = sig->ns == job->ns && sig->job == job->job;
            count += is_its;
            size += is_its ? (int64_t)sig->payload.n : 0;
        }
        RULE(c, job->kept == count && job->kept_size == size, "kept signals", job, job);
    }
    EACH(c, hook_sig, sig)
    {
        struct hook_row key = {.ns = sig->ns, .topic = sig->topic, .hkey = sig->hkey};
        const struct hook_row *hook = find(c->now, TABLE_hook, &key);
        RULE(c, sig->job == 0 || (hook != NULL && hook->waiting == 0), "kept signals", hook_sig,
             sig);
    }
}

static void check_key(struct check *c, const struct key_row *key)
{
    int64_t held = 0;
    int64_t waiting = 0;
    const struct key_wait_row *first = NULL;
    EACH(c, key_hold, h)
    {
        if (h->ns == key->ns && h->scope == key->scope && str_equal(h->name, key->name)) {
            held += h->units;
        }
    }
    EACH(c, key_wait, w)
    {
        if (w->ns == key->ns && w->scope == key->scope && str_equal(w->name, key->name)) {
            waiting++;
            first = first == NULL ? w : first;
        }
    }
    RULE(c, key->held == held && key->waiting == waiting, "key", key, key);
    RULE(c, held > 0 || waiting > 0, "key", key, key);
    RULE(c, first == NULL || first->units > key->capacity - held, "key: forgotten waiter", key,
         key);
}

static void check_keys(struct check *c)
{
    EACH(c, key, key)
    {
        check_key(c, key);
    }
    EACH(c, key_hold, h)
    {
        struct key_row key = {.ns = h->ns, .scope = h->scope, .name = h->name};
        RULE(c, find(c->now, TABLE_key, &key) != NULL, "key", key_hold, h);
        RULE(c, h->token > 0 && h->token <= head_of(c->now)->ord, "key", key_hold, h);
        RULE(c, h->units > 0, "key", key_hold, h);
    }
    EACH(c, key_wait, w)
    {
        struct key_row key = {.ns = w->ns, .scope = w->scope, .name = w->name};
        RULE(c, find(c->now, TABLE_key, &key) != NULL, "key", key_wait, w);
    }
}

/* ----------------------------------------------------------------------------------------- jobs */

static void check_counters(struct check *c)
{
    EACH(c, counter, counter)
    {
        int64_t jobs = 0;
        int64_t shards = 0;
        EACH(c, job, job)
        {
            jobs += job->ns == counter->ns && job->status == counter->status &&
                    str_equal(job->workflow, counter->workflow);
        }
        EACH(c, counter, other)
        {
            if (other->ns == counter->ns && other->status == counter->status &&
                str_equal(other->workflow, counter->workflow)) {
                shards += other->n;
            }
        }
        RULE(c, jobs == shards, "counter", counter, counter);
    }
    EACH(c, job, job)
    {
        struct counter_row key = {.ns = job->ns, .workflow = job->workflow, .status = job->status};
        RULE(c, find(c->now, TABLE_counter, &key) != NULL, "counter", job, job);
    }
}

static void check_jobs(struct check *c)
{
    static const int64_t words[JOB_STATES] = {STATUS_RUNNING, STATUS_COMPLETED, STATUS_FAILED,
                                              STATUS_CANCELLED, STATUS_INTERRUPTED};
    EACH(c, job, job)
    {
        const struct job_name_row *name =
            find(c->now, TABLE_job_name, &(struct job_name_row){.ns = job->ns, .jid = job->jid});
        RULE(c, name != NULL && name->job == job->job, "job", job, job);
        RULE(c, job->job < head_of(c->now)->next_id, "job", job, job);
        RULE(c, (job->state == JOB_OPEN) == str_is_none(job->closed_by), "job", job, job);
        RULE(c, job->state >= JOB_OPEN && job->state < JOB_STATES, "job", job, job);
        RULE(c, job->state == JOB_OPEN || job->status == words[job->state], "job", job, job);
        RULE(c, job->completions == 0 || (job->completions == 1 && job->state != JOB_OPEN), "job",
             job, job);
        RULE(c, job->sem >= 0, "sem", job, job);
    }
    RULE(c, c->now->tables[TABLE_job_name].count == c->now->tables[TABLE_job].count,
         "job: an id without a job", head, head_of(c->now));
}

static void check_custom_ids(struct check *c)
{
    size_t open = 0;
    EACH(c, job, job)
    {
        struct job_custom_row key = {
            .ns = job->ns, .workflow = job->workflow, .custom_id = job->custom_id};
        const struct job_custom_row *row =
            str_is_none(job->custom_id) ? NULL : find(c->now, TABLE_job_custom, &key);
        bool has = row != NULL && row->job == job->job;
        bool should = !str_is_none(job->custom_id) && job->state == JOB_OPEN;
        RULE(c, has == should, "custom", job, job);
        open += should;
    }
    RULE(c, c->failed || c->now->tables[TABLE_job_custom].count == open, "custom: left behind",
         head, head_of(c->now));
}

/* -------------------------------------------------------------------------------------- journal */

struct entry {
    int64_t ns;
    int64_t job;
    int64_t seq;
    int64_t pos;
};

static int order_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int order = (x->ns > y->ns) - (x->ns < y->ns);
    order = order != 0 ? order : (x->job > y->job) - (x->job < y->job);
    return order != 0 ? order : (x->seq > y->seq) - (x->seq < y->seq);
}

/* Every journal row, in order of job and sequence. */
static struct entry *entries_of(struct check *c, size_t *out_count)
{
    const struct invariants_rows *t = c->now->tables;
    size_t count = t[TABLE_act].count + t[TABLE_guid].count + t[TABLE_event].count;
    struct entry *e = malloc((count + 1) * sizeof *e);
    size_t n = 0;
    QP_ASSERT(e != NULL);
    EACH(c, act, r)
    {
        e[n++] = (struct entry){r->ns, r->job, r->seq, r->pos};
    }
    EACH(c, guid, r)
    {
        if (r->seq != 0 || r->n >= 0) { /* its entry comes with step 2 */
            e[n++] = (struct entry){r->ns, r->job, r->seq, r->pos};
        }
    }
    EACH(c, event, r)
    {
        e[n++] = (struct entry){r->ns, r->job, r->seq, r->pos};
    }
    qsort(e, n, sizeof *e, order_entries);
    *out_count = n;
    return e;
}

static int64_t folded_of(struct check *c, const struct job_row *job, int64_t *out_delta)
{
    int64_t n = 0;
    *out_delta = 0;
    EACH(c, act, act)
    {
        if (act->ns == job->ns && act->job == job->job) {
            n += act->folded_n;
            *out_delta += act->folded_delta;
        }
    }
    return n;
}

static void check_job_journal(struct check *c, const struct job_row *job, const struct entry *e,
                              size_t count)
{
    int64_t delta;
    int64_t folded = folded_of(c, job, &delta);
    for (size_t i = 0; i < count && !c->failed; i++) {
        RULE(c, e[i].seq >= 1 && e[i].seq <= job->seq, "journal", job, job);
        RULE(c, e[i].pos >= 1 && e[i].pos <= head_of(c->now)->pos, "journal", job, job);
        RULE(c, i == 0 || (e[i].seq > e[i - 1].seq && e[i].pos > e[i - 1].pos), "journal", job,
             job);
    }
    RULE(c, (int64_t)count + folded <= job->seq, "journal", job, job);
    RULE(c, job->completions != 0 || (int64_t)count + folded == job->seq, "journal", job, job);
}

static void check_journal(struct check *c)
{
    size_t count;
    struct entry *e = entries_of(c, &count);
    int64_t *positions = malloc((count + 1) * sizeof *positions);
    size_t seen = 0;
    QP_ASSERT(positions != NULL);
    for (size_t i = 0; i < count; i++) {
        positions[i] = e[i].pos;
    }
    RULE(c, are_unique(positions, count), "journal: position given twice", head, head_of(c->now));
    EACH(c, job, job)
    {
        size_t from = 0;
        size_t to;
        while (from < count && (e[from].ns != job->ns || e[from].job != job->job)) {
            from++;
        }
        to = from;
        while (to < count && e[to].ns == job->ns && e[to].job == job->job) {
            to++;
        }
        check_job_journal(c, job, e + from, to - from);
        seen += to - from;
    }
    RULE(c, c->failed || seen == count, "journal: entries without a job", head, head_of(c->now));
    free(positions);
    free(e);
}

/* -------------------------------------------------------------------------- ledgers, semaphores */

static void check_semaphores(struct check *c)
{
    EACH(c, job, job)
    {
        int64_t sum;
        (void)folded_of(c, job, &sum); /* wanted is the delta */
        EACH(c, guid, guid)
        {
            if (guid->ns == job->ns && guid->job == job->job) {
                sum += guid->delta;
            }
        }
        RULE(c, job->completions != 0 || job->sem == sum, "sem", job, job);
        RULE(c, job->opened != 0 || job->sem == 0, "sem", job, job);
    }
    EACH(c, sem, sem)
    {
        const struct job_row *job =
            find(c->now, TABLE_job, &(struct job_row){.ns = sem->ns, .job = sem->job});
        int64_t sum = sem->opening;
        EACH(c, move, move)
        {
            if (move->ns == sem->ns && move->job == sem->job && move->scope == sem->scope) {
                sum += move->delta;
            }
        }
        RULE(c, sem->count >= 0, "sem", sem, sem);
        RULE(c, job != NULL && (job->completions != 0 || sem->count == sum), "sem", sem, sem);
    }
}

static void check_ledgers(struct check *c)
{
    EACH(c, act, act)
    {
        RULE(c, act->ledger >= 0 && act->ledger <= LIMIT_LEDGER, "ledger", act, act);
    }
    EACH(c, guid, guid)
    {
        RULE(c, guid->ledger >= 0 && guid->ledger <= LIMIT_LEDGER, "ledger", guid, guid);
        RULE(c, guid->n >= 0 || guid->delta == 0, "ledger", guid, guid);
    }
}

/* --------------------------------------------------------------------- against the state before */

static void check_growth(struct check *c)
{
    const struct head_row *now = head_of(c->now);
    const struct head_row *former = head_of(c->former);
    RULE(c, now->pos >= former->pos && now->ord >= former->ord, "grows", head, now);
    RULE(c, now->clock >= former->clock && now->next_id >= former->next_id, "grows", head, now);
    EACH(c, act, act)
    {
        const struct act_row *was = find(c->former, TABLE_act, act);
        RULE(c, was == NULL || was->pos != act->pos || was->ledger <= act->ledger, "grows", act,
             act);
        RULE(c, (was != NULL && was->pos == act->pos) || act->pos > former->pos, "once", act, act);
    }
    EACH(c, guid, guid)
    {
        const struct guid_row *was = find(c->former, TABLE_guid, guid);
        bool same = was != NULL && (was->pos == guid->pos || was->pos == 0);
        RULE(c, !same || was->ledger <= guid->ledger, "grows", guid, guid);
        RULE(c, !same || was->n < 0 || (was->n == guid->n && was->delta == guid->delta), "once",
             guid, guid);
        RULE(c, (same && was->pos != 0) || guid->pos == 0 || guid->pos > former->pos, "once", guid,
             guid);
        RULE(c, (guid->pos == 0) == (guid->seq == 0), "once", guid, guid);
    }
    EACH(c, event, event)
    {
        const struct event_row *was = find(c->former, TABLE_event, event);
        RULE(c, was == NULL ? event->pos > former->pos : was->pos == event->pos, "once", event,
             event);
    }
    EACH(c, msg, m)
    {
        const struct msg_row *was = find(c->former, TABLE_msg, m);
        bool same = was != NULL && was->ord == m->ord;
        RULE(c, !same || was->token <= m->token, "grows", msg, m);
        RULE(c, same || m->ord > former->ord, "grows", msg, m);
    }
}

static void check_closing(struct check *c)
{
    EACH(c, job, job)
    {
        const struct job_row *was = find(c->former, TABLE_job, job);
        bool closed = was != NULL && !str_is_none(was->closed_by);
        RULE(c, !closed || str_equal(was->closed_by, job->closed_by), "once", job, job);
        RULE(c, !closed || was->state == job->state, "once", job, job);
        RULE(c, was == NULL || was->completions <= job->completions, "grows", job, job);
        RULE(c, was == NULL || was->seq <= job->seq, "grows", job, job);
    }
    EACH(c, sem, sem)
    {
        const struct sem_row *was = find(c->former, TABLE_sem, sem);
        bool closed = was != NULL && !str_is_none(was->closed_by);
        RULE(c, !closed || str_equal(was->closed_by, sem->closed_by), "once", sem, sem);
    }
}

/* ------------------------------------------------------------------------------------ the whole */

struct taking {
    struct invariants_state *state;
    enum table_id table;
};

static int take_row(void *context, const void *row)
{
    struct taking *t = context;
    struct invariants_rows *r = &t->state->tables[t->table];
    if (r->count == r->capacity) {
        r->capacity = r->capacity * 2 + 64;
        r->rows = realloc(r->rows, r->capacity * sizeof *r->rows);
        QP_ASSERT(r->rows != NULL);
    }
    r->rows[r->count] = row_copy(&t->state->arena, t->table, row);
    QP_ASSERT(r->rows[r->count] != NULL);
    r->count++;
    return QP_OK;
}

static int order_guids(const void *a, const void *b)
{
    return key_compare(TABLE_guid, *(void *const *)a, *(void *const *)b);
}

/* GUIDs that stand on their activity's row are GUIDs like the others, and come in the same
 * order. */
static void take_first_guids(struct invariants_state *state)
{
    struct taking t = {state, TABLE_guid};
    struct invariants_rows *guids = &state->tables[TABLE_guid];
    for (size_t i = 0; i < state->tables[TABLE_act].count; i++) {
        struct guid_row first;
        if (act_first_guid(state->tables[TABLE_act].rows[i], &first)) {
            (void)take_row(&t, &first); /* always QP_OK */
        }
    }
    if (guids->count > 0) {
        qsort(guids->rows, guids->count, sizeof *guids->rows, order_guids);
    }
}

static void take(struct invariants_state *state, struct store *s)
{
    struct qp_err err = {0};
    arena_reset(&state->arena);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct taking t = {state, (enum table_id)table};
        struct scan all = {.table = t.table, .index = -1, .limit = SIZE_MAX};
        int rc;
        state->tables[table].count = 0;
        rc = store_scan(s, &all, &t, take_row, &err);
        QP_ASSERT(rc == QP_OK);
    }
    QP_ASSERT(state->tables[TABLE_head].count == 1);
    take_first_guids(state);
}

void invariants_init(struct invariants *v, const struct qp_env *env)
{
    *v = (struct invariants){0};
    arena_init(&v->states[0].arena, env, 0);
    arena_init(&v->states[1].arena, env, 0);
}

void invariants_done(struct invariants *v)
{
    for (int i = 0; i < 2; i++) {
        for (int table = 0; table < TABLE_COUNT; table++) {
            free(v->states[i].tables[table].rows);
        }
        arena_done(&v->states[i].arena);
    }
}

void invariants_reset(struct invariants *v)
{
    v->has_former = false;
}

const char *invariants_check(struct invariants *v, struct store *s)
{
    static void (*const checks[])(struct check * c) = {
        check_lanes,   check_messages,   check_hooks,   check_kept,
        check_keys,    check_counters,   check_jobs,    check_custom_ids,
        check_journal, check_semaphores, check_ledgers,
    };
    struct check c = {.v = v};
    v->now = 1 - v->now;
    take(&v->states[v->now], s);
    c.now = &v->states[v->now];
    c.former = v->has_former ? &v->states[1 - v->now] : NULL;
    for (size_t i = 0; i < ARRAY_COUNT(checks); i++) {
        checks[i](&c);
    }
    if (c.former != NULL) {
        check_growth(&c);
        check_closing(&c);
    }
    v->has_former = true;
    return c.failed ? v->text : NULL;
}
