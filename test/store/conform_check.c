/* conform_check.c - what holds between the tables of every committed state, whatever led to it
 *
 * Every counter is held against a recount, every order against the rows that it orders. Slow and
 * plain on purpose: it reads all tables and compares all with all.
 */
#include "store/conform.h"

#include <stdio.h>

struct all {
    struct arena arena;
    const void **rows[TABLE_COUNT];
    size_t count[TABLE_COUNT];
    enum table_id table; /* being read */
};

#define EACH(a, table, row)                                                                        \
    for (size_t row##_i = 0; row##_i < (a)->count[TABLE_##table]; row##_i++)                       \
        for (const struct table##_row *row = (a)->rows[TABLE_##table][row##_i]; row != NULL;       \
             row = NULL)

static int keep_row(void *context, const void *row)
{
    struct all *a = context;
    void *copy = row_copy(&a->arena, a->table, row);
    assert_non_null(copy);
    a->rows[a->table][a->count[a->table]++] = copy;
    return QP_OK;
}

/* An activity knows how many of its GUIDs have rows of their own. */
static void check_guid_rows(const struct all *a)
{
    EACH(a, act, act)
    {
        int64_t rows = 0;
        EACH(a, guid, g)
        {
            rows += g->ns == act->ns && g->job == act->job && str_equal(g->addr, act->addr);
        }
        assert_int_equal(act->guid_rows, rows);
    }
}

/* The GUIDs that stand on activities' rows are GUIDs like the others. */
static void add_first_guids(struct all *a)
{
    EACH(a, act, act)
    {
        struct guid_row *first = ARENA_NEW(&a->arena, struct guid_row);
        assert_non_null(first);
        if (act_first_guid(act, first)) {
            a->rows[TABLE_guid][a->count[TABLE_guid]++] = first;
        }
    }
}

static void read_all(struct storetest *f, struct all *a)
{
    struct qp_err err;
    *a = (struct all){.table = 0};
    arena_init(&a->arena, &f->t.env, 0);
    for (int i = 0; i < TABLE_COUNT; i++) {
        struct scan scan = {.table = (enum table_id)i, .index = -1, .limit = SIZE_MAX};
        size_t count = storetest_count(f, scan.table);
        a->table = scan.table;
        a->rows[i] = arena_alloc(&a->arena, (count + a->count[TABLE_act] + 1) * sizeof(void *));
        assert_non_null(a->rows[i]);
        assert_int_equal(store_scan(f->s, &scan, a, keep_row, &err), QP_OK);
        assert_int_equal(a->count[i], count);
    }
    check_guid_rows(a);
    add_first_guids(a);
}

/* --------------------------------------------------------------------------- messages and lanes */

static bool of_lane(const struct msg_row *m, const struct lane_row *lane)
{
    return m->ns == lane->ns && str_equal(m->topic, lane->topic) &&
           str_equal(m->limit_key, lane->limit_key);
}

static void check_lanes(const struct all *a)
{
    int64_t counted = 0;
    int64_t lively = 0;
    EACH(a, lane, lane)
    {
        int64_t ready = 0;
        int64_t held = 0;
        EACH(a, msg, m)
        {
            ready += of_lane(m, lane) && m->state == MSG_READY;
            held += of_lane(m, lane) && m->state == MSG_HELD;
        }
        assert_int_equal(lane->ready, ready);
        assert_int_equal(lane->held, held);
        counted += ready + held;
    }
    EACH(a, msg, m)
    {
        lively += m->state == MSG_READY || m->state == MSG_HELD;
    }
    assert_int_equal(counted, lively); /* none without a lane */
}

static void check_messages(const struct all *a)
{
    EACH(a, msg, m)
    {
        assert_in_range(m->state, MSG_READY, MSG_DEAD);
        bool limited = !str_is_none(m->limits);
        assert_true(m->holder > 0 || m->wake_at > 0 ||
                    (m->state != MSG_HELD && m->state != MSG_DELAYED));
        assert_true(m->wake_at == 0 || m->state == MSG_HELD || m->state == MSG_DELAYED ||
                    (limited && m->state == MSG_READY));
        assert_false(m->holder > 0 && m->wake_at > 0 && !limited);
        assert_true(m->deadline == 0 || (limited && m->state == MSG_HELD));
        assert_true(m->holder == 0 || m->state == MSG_HELD);
        assert_true(m->tries <= m->token);
    }
}

/* ------------------------------------------------------------------------------- hooks and keys */

static void check_hooks(const struct all *a)
{
    int64_t counted = 0;
    EACH(a, hook, hook)
    {
        int64_t waiting = 0;
        int64_t pending = 0;
        EACH(a, hook_wait, w)
        {
            waiting += w->ns == hook->ns && str_equal(w->topic, hook->topic) &&
                       str_equal(w->hkey, hook->hkey);
        }
        EACH(a, hook_sig, s)
        {
            pending += s->ns == hook->ns && str_equal(s->topic, hook->topic) &&
                       str_equal(s->hkey, hook->hkey);
        }
        assert_int_equal(hook->waiting, waiting);
        assert_int_equal(hook->pending, pending);
        assert_true(waiting + pending > 0);
        counted += waiting + pending;
    }
    assert_int_equal(counted, a->count[TABLE_hook_wait] + a->count[TABLE_hook_sig]);
}

/* A job counts the signals that are kept for it. */
static void check_kept(const struct all *a)
{
    EACH(a, job, job)
    {
        int64_t count = 0;
        int64_t size = 0;
        EACH(a, hook_sig, s)
        {
            bool is_its = s->ns == job->ns && s->job == job->job;
            count += is_its;
            size += is_its ? (int64_t)s->payload.n : 0;
        }
        assert_int_equal(job->kept, count);
        assert_int_equal(job->kept_size, size);
    }
}

static void check_keys(const struct all *a)
{
    size_t rows = 0;
    EACH(a, key, key)
    {
        int64_t held = 0;
        int64_t waiting = 0;
        EACH(a, key_hold, h)
        {
            bool ours = h->ns == key->ns && h->scope == key->scope && str_equal(h->name, key->name);
            held += ours ? h->units : 0;
            rows += ours;
        }
        EACH(a, key_wait, w)
        {
            waiting += w->ns == key->ns && w->scope == key->scope && str_equal(w->name, key->name);
        }
        assert_int_equal(key->held, held);
        assert_int_equal(key->waiting, waiting);
        assert_true(held + waiting > 0);
        rows += (size_t)waiting;
    }
    assert_int_equal(rows, a->count[TABLE_key_hold] + a->count[TABLE_key_wait]);
}

/* ----------------------------------------------------------------------------------------- jobs */

static void check_counters(const struct all *a)
{
    EACH(a, counter, c)
    {
        int64_t n = 0;
        EACH(a, job, job)
        {
            n += job->ns == c->ns && job->status == c->status &&
                 str_equal(job->workflow, c->workflow);
        }
        EACH(a, counter, other) /* the value is the sum over shards */
        {
            n -= other->ns == c->ns && other->status == c->status &&
                         str_equal(other->workflow, c->workflow)
                     ? other->n
                     : 0;
        }
        assert_int_equal(n, 0);
    }
}

static void check_names(const struct all *a)
{
    size_t customs = 0;
    EACH(a, job, job)
    {
        size_t names = 0;
        EACH(a, job_name, name)
        {
            names += name->ns == job->ns && name->job == job->job && str_equal(name->jid, job->jid);
        }
        assert_int_equal(names, 1);
        customs += !str_is_none(job->custom_id) && job->state == JOB_OPEN;
        assert_int_equal(str_is_none(job->closed_by), job->state == JOB_OPEN);
        assert_in_range(job->completions, 0, job->state == JOB_OPEN ? 0 : 1);
    }
    assert_int_equal(a->count[TABLE_job_name], a->count[TABLE_job]);
    assert_int_equal(a->count[TABLE_job_custom], customs);
}

/* A row of the journal: position by sequence; every sequence at most once. */
static void note(int64_t *positions, int64_t last, int64_t seq, int64_t pos)
{
    assert_in_range(seq, 1, last);
    assert_int_equal(positions[seq], 0);
    positions[seq] = pos;
}

static void check_journal_of(struct all *a, const struct job_row *job, int64_t head_pos)
{
    int64_t *positions = arena_alloc(&a->arena, (size_t)(job->seq + 1) * sizeof *positions);
    int64_t folded = 0;
    int64_t missing = 0;
    int64_t before = 0;
    assert_non_null(positions);
    EACH(a, act, r)
    {
        if (r->ns == job->ns && r->job == job->job) {
            note(positions, job->seq, r->seq, r->pos);
            folded += r->folded_n;
        }
    }
    EACH(a, guid, r)
    {
        assert_true(r->seq != 0 || r->n < 0); /* its entry comes with step 2 */
        if (r->ns == job->ns && r->job == job->job && r->seq != 0) {
            note(positions, job->seq, r->seq, r->pos);
        }
    }
    EACH(a, event, r)
    {
        if (r->ns == job->ns && r->job == job->job) {
            note(positions, job->seq, r->seq, r->pos);
        }
    }
    for (int64_t seq = 1; seq <= job->seq; seq++) {
        missing += positions[seq] == 0;
        assert_true(positions[seq] == 0 || positions[seq] > before);
        before = positions[seq] != 0 ? positions[seq] : before;
    }
    assert_int_equal(missing, folded);
    assert_true(before <= head_pos);
}

static void check_journal(struct all *a)
{
    int64_t head_pos = ((const struct head_row *)a->rows[TABLE_head][0])->pos;
    EACH(a, job, job)
    {
        check_journal_of(a, job, head_pos);
    }
}

/* -------------------------------------------------------------------------------------- ledgers */

static void check_semaphores(const struct all *a)
{
    EACH(a, job, job)
    {
        int64_t sum = 0;
        EACH(a, guid, g)
        {
            sum += g->ns == job->ns && g->job == job->job ? g->delta : 0;
        }
        EACH(a, act, act)
        {
            sum += act->ns == job->ns && act->job == job->job ? act->folded_delta : 0;
        }
        assert_int_equal(job->sem, sum);
    }
    EACH(a, sem, sem)
    {
        int64_t count = sem->opening;
        EACH(a, move, m)
        {
            bool ours = m->ns == sem->ns && m->job == sem->job && m->scope == sem->scope;
            count += ours ? m->delta : 0;
        }
        assert_int_equal(sem->count, count);
    }
}

static bool same_activity(const struct guid_row *a, const struct guid_row *b)
{
    return a->ns == b->ns && a->job == b->job && str_equal(a->addr, b->addr);
}

/* A GUID has moved the semaphore exactly when its spawn digit says so; ordinals of one activity are
 * unique. */
static void check_guids(const struct all *a)
{
    const int64_t ordinals = LIMIT_LEG2_ENTRIES + 1;
    EACH(a, guid, g)
    {
        assert_in_range(g->ledger, 0, LIMIT_LEDGER);
        assert_int_equal(g->n >= 0, g->ledger / W_SPAWN % 10 != 0);
        EACH(a, guid, other)
        {
            assert_true(g == other || !same_activity(g, other) || g->ledger % ordinals == 0 ||
                        g->ledger % ordinals != other->ledger % ordinals);
        }
    }
    EACH(a, act, act)
    {
        assert_in_range(act->ledger, 0, LIMIT_LEDGER);
        EACH(a, guid, g)
        {
            assert_true(g->ns != act->ns || g->job != act->job || !str_equal(g->addr, act->addr) ||
                        g->ledger % ordinals <= act->ledger % ordinals);
        }
    }
}

void conform_check(struct storetest *f)
{
    static struct all a;
    read_all(f, &a);
    check_lanes(&a);
    check_messages(&a);
    check_hooks(&a);
    check_kept(&a);
    check_keys(&a);
    check_counters(&a);
    check_names(&a);
    check_journal(&a);
    check_semaphores(&a);
    check_guids(&a);
    arena_done(&a.arena);
}
