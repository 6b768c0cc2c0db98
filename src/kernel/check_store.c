/* check_store.c - the rules about whole tables: orphans, counters and definitions
 *
 * Rows that have a job are read in the order of their jobs, beside these (check_cursor.h). Names, which
 * have another order, are looked up a page at a time. Counters are compared by a tally: what is
 * found adds, what is recorded subtracts, and what is not 0 in the end is wrong.
 */
#include "base/omap.h"
#include "kernel/check_cursor.h"

static void scan_all(struct check *c, enum table_id table, void *context, store_visit visit)
{
    bool sized = table == TABLE_hook_sig; /* the sizes of payloads are counted */
    struct scan all = {.table = table, .index = -1, .limit = SIZE_MAX, .slim = !sized};
    if (c->rc == QP_OK) {
        int rc = store_scan(c->store, &all, context, visit, c->err);
        c->rc = c->rc == QP_OK ? rc : c->rc;
    }
}

static const struct check_part jobs_part = {TABLE_job, -1, "job"};
static const struct job_ref everybody = {0, 0};

/* -------------------------------------------------------------------------------------- orphans */

#define OWNED_MAX 8

/* Tables whose rows have jobs, and what is said of a job's rows in one of them; `job` NULL: there is no
 * such job. */
struct sweep {
    const struct check_part *parts;
    size_t count;
    void (*judge)(struct check *c, enum table_id table, struct job_ref ref,
                  const struct job_row *job);
};

/* Messages of schedules and of the system have a number there that is no job's. */
static bool is_of_job(enum table_id table, const void *row)
{
    return table != TABLE_msg || ((const struct msg_row *)row)->owner == OWNER_JOB;
}

/* The first job, in order, of which any of the tables has rows left. */
static bool sweep_next(struct check_cursor *cursors, size_t count, struct job_ref *out_ref)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const void *row = cursor_peek(&cursors[i]);
        struct job_ref ref = row != NULL ? cursor_job(&cursors[i], row) : everybody;
        if (row != NULL && (!any || job_ref_compare(ref, *out_ref) < 0)) {
            *out_ref = ref;
            any = true;
        }
    }
    return any;
}

/* Passes the rows of a job; false when there are none that are really its. */
static bool sweep_pass(struct check_cursor *k, struct job_ref ref)
{
    const void *row;
    bool any = false;
    while ((row = cursor_of_job(k, ref)) != NULL) {
        any = any || is_of_job(k->table, row);
        cursor_pass(k);
    }
    return any;
}

static void sweep_run(struct check *c, const struct sweep *s)
{
    struct check_cursor jobs;
    struct check_cursor cursors[OWNED_MAX];
    struct job_ref ref;
    QP_ASSERT(s->count <= OWNED_MAX);
    cursor_init(&jobs, c, &jobs_part, everybody);
    for (size_t i = 0; i < s->count; i++) {
        cursor_init(&cursors[i], c, &s->parts[i], everybody);
    }
    while (sweep_next(cursors, s->count, &ref)) {
        const struct job_row *job = ref.job == 0 ? NULL : cursor_find_job(&jobs, ref);
        for (size_t i = 0; i < s->count; i++) {
            if (sweep_pass(&cursors[i], ref) && ref.job != 0 && c->rc == QP_OK) {
                s->judge(c, s->parts[i].table, ref, job);
            }
        }
    }
    cursor_done(&jobs);
    for (size_t i = 0; i < s->count; i++) {
        cursor_done(&cursors[i]);
    }
}

static void judge_absent(struct check *c, enum table_id table, struct job_ref ref,
                         const struct job_row *job)
{
    if (job == NULL) {
        found_in(c, ref.ns, QP_NONE, "table %s has rows of job number %lld, which is not there",
                 tables[table].name, (long long)ref.job);
    }
}

static void judge_closed(struct check *c, enum table_id table, struct job_ref ref,
                         const struct job_row *job)
{
    if (job != NULL && job->state != JOB_OPEN) {
        found_in(c, ref.ns, job->jid, "table %s still has rows of a closed job",
                 tables[table].name);
    }
}

static const struct check_part waiting[] = {
    {TABLE_hook_wait, INDEX_hook_wait_job, "job"},
    {TABLE_hook_sig, INDEX_hook_sig_job, "job"},
    {TABLE_key_hold, INDEX_key_hold_job, "job"},
    {TABLE_key_wait, INDEX_key_wait_job, "job"},
};

void rule_O1(struct check *c)
{
    static const struct check_part owned[OWNED_MAX] = {
        {TABLE_act, -1, "job"},  {TABLE_guid, -1, "job"}, {TABLE_sem, -1, "job"},
        {TABLE_move, -1, "job"}, {TABLE_msg, -1, "job"},  {TABLE_event, -1, "job"},
        {TABLE_data, -1, "job"}, {TABLE_attr, -1, "job"},
    };
    sweep_run(c, &(struct sweep){owned, ARRAY_COUNT(owned), judge_absent});
}

void rule_O2(struct check *c)
{
    sweep_run(c, &(struct sweep){waiting, ARRAY_COUNT(waiting), judge_absent});
}

void rule_O3(struct check *c)
{
    sweep_run(c, &(struct sweep){waiting, ARRAY_COUNT(waiting), judge_closed});
}

/* ---------------------------------------------------------------------------------------- names */

/* Every row of `from` that has a key leads to a row of `to`, which may be missing (NULL). */
struct lookup {
    enum table_id from;
    enum table_id to;
    bool (*key)(const void *row, void *out_key);
    void (*judge)(struct check *c, const void *row, const void *other);
};

/* What is asked of a page: the rows that lead somewhere, and where to. */
struct question {
    const void *from[LIMIT_CHECK_PAGE_ROWS];
    const void *keys[LIMIT_CHECK_PAGE_ROWS];
    void *to[LIMIT_CHECK_PAGE_ROWS];
    size_t count;
};

static void question_add(struct check *c, struct arena *arena, struct question *q,
                         const struct lookup *l, const void *row)
{
    void *key = arena_alloc(arena, tables[l->to].row_size);
    if (key == NULL) {
        c->rc = err_set(c->err, QP_E_NOMEM, "check: out of memory");
    } else if (l->key(row, key)) {
        q->from[q->count] = row;
        q->keys[q->count++] = key;
    }
}

static void lookup_page(struct check *c, struct arena *arena, const struct lookup *l,
                        const struct check_rows *page)
{
    struct question *q = ARENA_NEW(arena, struct question);
    if (q == NULL) {
        c->rc = err_set(c->err, QP_E_NOMEM, "check: out of memory");
        return;
    }
    for (size_t i = 0; i < page->count && c->rc == QP_OK; i++) {
        question_add(c, arena, q, l, page->rows[i]);
    }
    if (c->rc == QP_OK) {
        arena_reset(&c->scratch);
        c->rc = store_get_all(c->store, &c->scratch, l->to, q->keys, q->count, q->to, c->err);
    }
    for (size_t i = 0; i < q->count && c->rc == QP_OK; i++) {
        l->judge(c, q->from[i], q->to[i]);
    }
}

static void lookup_run(struct check *c, const struct lookup *l)
{
    struct check_part part = {l->from, -1, NULL};
    const struct check_rows *page;
    struct check_cursor k;
    cursor_init(&k, c, &part, everybody);
    while ((page = cursor_page(&k))->count > 0) {
        lookup_page(c, &k.arena, l, page);
    }
    cursor_done(&k);
}

static bool key_of_name(const void *row, void *out_key)
{
    const struct job_name_row *name = row;
    *(struct job_row *)out_key = (struct job_row){.ns = name->ns, .job = name->job};
    return true;
}

static void judge_name(struct check *c, const void *row, const void *other)
{
    const struct job_name_row *name = row;
    const struct job_row *job = other;
    if (job == NULL || !str_equal(job->jid, name->jid)) {
        found_in(c, name->ns, name->jid, "the id leads to job number %lld, which is not its job",
                 (long long)name->job);
    }
}

static bool key_of_named(const void *row, void *out_key)
{
    const struct job_row *job = row;
    *(struct job_name_row *)out_key = (struct job_name_row){.ns = job->ns, .jid = job->jid};
    return true;
}

static void judge_named(struct check *c, const void *row, const void *other)
{
    const struct job_row *job = row;
    if (other == NULL) {
        found_in(c, job->ns, job->jid, "the job cannot be found by its id");
    }
}

void rule_O4(struct check *c)
{
    lookup_run(c, &(struct lookup){TABLE_job_name, TABLE_job, key_of_name, judge_name});
    lookup_run(c, &(struct lookup){TABLE_job, TABLE_job_name, key_of_named, judge_named});
}

static bool key_of_custom(const void *row, void *out_key)
{
    const struct job_custom_row *custom = row;
    *(struct job_row *)out_key = (struct job_row){.ns = custom->ns, .job = custom->job};
    return true;
}

static void judge_custom(struct check *c, const void *row, const void *other)
{
    const struct job_custom_row *custom = row;
    const struct job_row *job = other;
    if (job == NULL || job->state != JOB_OPEN || !str_equal(job->custom_id, custom->custom_id)) {
        found_in(c, custom->ns, job == NULL ? QP_NONE : job->jid,
                 "the custom id '%.*s' is taken by no open job", CHECK_ECHO(custom->custom_id));
    }
}

static bool key_of_customed(const void *row, void *out_key)
{
    const struct job_row *job = row;
    *(struct job_custom_row *)out_key = (struct job_custom_row){
        .ns = job->ns, .workflow = job->workflow, .custom_id = job->custom_id};
    return job->state == JOB_OPEN && !str_is_none(job->custom_id);
}

static void judge_customed(struct check *c, const void *row, const void *other)
{
    const struct job_row *job = row;
    const struct job_custom_row *custom = other;
    if (custom == NULL || custom->job != job->job) {
        found_in(c, job->ns, job->jid, "the job's custom id is not taken by it");
    }
}

void rule_O5(struct check *c)
{
    lookup_run(c, &(struct lookup){TABLE_job_custom, TABLE_job, key_of_custom, judge_custom});
    lookup_run(c, &(struct lookup){TABLE_job, TABLE_job_custom, key_of_customed, judge_customed});
}

/* ----------------------------------------------------------------------------------------- runs */

/* Those of jobs are asked with their jobs: M8. */
static bool key_of_held(const void *row, void *out_key)
{
    const struct msg_row *m = row;
    *(struct node_row *)out_key = (struct node_row){.epoch = m->holder};
    return m->owner != OWNER_JOB && m->state == MSG_HELD && m->holder > 0;
}

static void judge_held(struct check *c, const void *row, const void *other)
{
    const struct msg_row *m = row;
    if (other == NULL) {
        found_in(c, m->ns, QP_NONE,
                 "a message of topic '%.*s' is held by a run that is over: nobody will take it up",
                 CHECK_ECHO(m->topic));
    }
}

void rule_O7(struct check *c)
{
    lookup_run(c, &(struct lookup){TABLE_msg, TABLE_node, key_of_held, judge_held});
}

/* ------------------------------------------------------------------------------------- counters */

/* Two counts under one name, which says in words what is counted. */
struct tally {
    int64_t ns;
    int64_t counts[2];
};

struct count {
    struct check *c;
    struct omap *tallies; /* by name */
    struct buf name;
    void (*add)(struct count *k, const void *row);
};

/* Adds to the tally whose name is in k->name. */
static void tally_add(struct count *k, int64_t ns, int64_t first, int64_t second)
{
    struct tally *tally = omap_get(k->tallies, buf_slice(&k->name));
    if (tally == NULL) {
        tally = ARENA_NEW(&k->c->arena, struct tally);
        if (tally == NULL || buf_rc(&k->name) != QP_OK ||
            omap_put(k->tallies, buf_slice(&k->name), tally, NULL) != QP_OK) {
            k->c->rc = err_set(k->c->err, QP_E_NOMEM, "check: out of memory");
            return;
        }
        tally->ns = ns;
    }
    tally->counts[0] += first;
    tally->counts[1] += second;
}

static void name_job(struct count *k, int64_t ns, qp_str workflow, int64_t status)
{
    buf_printf(&k->name, "namespace %lld: jobs of workflow '%.*s' with status %lld", (long long)ns,
               STR_ARG(workflow), (long long)status);
}

static void name_kept(struct count *k, int64_t ns, int64_t job)
{
    buf_reset(&k->name);
    buf_printf(&k->name, "namespace %lld: signals kept for job number %lld, and their bytes",
               (long long)ns, (long long)job);
}

static void add_job(struct count *k, const void *row)
{
    const struct job_row *r = row;
    name_job(k, r->ns, r->workflow, r->status);
    tally_add(k, r->ns, 1, 0);
    if (r->kept != 0 || r->kept_size != 0) {
        name_kept(k, r->ns, r->job);
        tally_add(k, r->ns, -r->kept, -r->kept_size);
    }
}

static void add_counter(struct count *k, const void *row)
{
    const struct counter_row *r = row;
    name_job(k, r->ns, r->workflow, r->status);
    tally_add(k, r->ns, -r->n, 0);
}

static void name_lane(struct count *k, int64_t ns, qp_str topic, qp_str key)
{
    buf_printf(&k->name, "namespace %lld: ready and held of topic '%.*s', limit key '%.*s'",
               (long long)ns, STR_ARG(topic), STR_ARG(key));
}

static void add_msg(struct count *k, const void *row)
{
    const struct msg_row *r = row;
    name_lane(k, r->ns, r->topic, r->limit_key);
    tally_add(k, r->ns, r->state == MSG_READY, r->state == MSG_HELD);
}

static void add_lane(struct count *k, const void *row)
{
    const struct lane_row *r = row;
    name_lane(k, r->ns, r->topic, r->limit_key);
    tally_add(k, r->ns, -r->ready, -r->held);
}

static void name_hook(struct count *k, int64_t ns, qp_str topic, qp_str key)
{
    buf_printf(&k->name, "namespace %lld: waiters and signals of hook '%.*s', key '%.*s'",
               (long long)ns, STR_ARG(topic), STR_ARG(key));
}

static void add_hook(struct count *k, const void *row)
{
    const struct hook_row *r = row;
    name_hook(k, r->ns, r->topic, r->hkey);
    tally_add(k, r->ns, -r->waiting, -r->pending);
}

static void add_hook_wait(struct count *k, const void *row)
{
    const struct hook_wait_row *r = row;
    name_hook(k, r->ns, r->topic, r->hkey);
    tally_add(k, r->ns, 1, 0);
}

static void add_hook_sig(struct count *k, const void *row)
{
    const struct hook_sig_row *r = row;
    name_hook(k, r->ns, r->topic, r->hkey);
    tally_add(k, r->ns, 0, 1);
    if (r->job > 0) {
        name_kept(k, r->ns, r->job);
        tally_add(k, r->ns, 1, (int64_t)r->payload.n);
    }
}

static void name_key(struct count *k, int64_t ns, int64_t scope, qp_str name)
{
    buf_printf(&k->name, "namespace %lld: units and waiters of key '%.*s', scope %lld",
               (long long)ns, STR_ARG(name), (long long)scope);
}

static void add_key(struct count *k, const void *row)
{
    const struct key_row *r = row;
    name_key(k, r->ns, r->scope, r->name);
    tally_add(k, r->ns, -r->held, -r->waiting);
}

static void add_key_hold(struct count *k, const void *row)
{
    const struct key_hold_row *r = row;
    name_key(k, r->ns, r->scope, r->name);
    tally_add(k, r->ns, r->units, 0);
}

static void add_key_wait(struct count *k, const void *row)
{
    const struct key_wait_row *r = row;
    name_key(k, r->ns, r->scope, r->name);
    tally_add(k, r->ns, 0, 1);
}

static int visit_count(void *context, const void *row)
{
    struct count *k = context;
    buf_reset(&k->name);
    k->add(k, row);
    return k->c->rc;
}

static void found_tallies(struct check *c, const struct omap *tallies)
{
    for (struct omap_node *n = omap_seek(tallies, QP_NONE); n != NULL; n = omap_next(n)) {
        const struct tally *tally = omap_value(n);
        qp_str name = omap_key(n);
        if (tally->counts[0] != 0 || tally->counts[1] != 0) {
            found_in(c, tally->ns, QP_NONE, "%.*s: a recount differs by %lld and %lld",
                     CHECK_ECHO(name), (long long)tally->counts[0], (long long)tally->counts[1]);
        }
    }
}

void rule_X1(struct check *c)
{
    static const struct {
        enum table_id table;
        void (*add)(struct count *k, const void *row);
    } counted[] = {
        {TABLE_job, add_job},   {TABLE_counter, add_counter},     {TABLE_msg, add_msg},
        {TABLE_lane, add_lane}, {TABLE_hook_wait, add_hook_wait}, {TABLE_hook_sig, add_hook_sig},
        {TABLE_hook, add_hook}, {TABLE_key_hold, add_key_hold},   {TABLE_key_wait, add_key_wait},
        {TABLE_key, add_key},
    };
    struct omap tallies;
    struct count k = {.c = c, .tallies = &tallies};
    omap_init(&tallies, store_env(c->store));
    buf_init(&k.name, store_env(c->store), 0);
    for (size_t i = 0; i < ARRAY_COUNT(counted); i++) {
        k.add = counted[i].add;
        scan_all(c, counted[i].table, &k, visit_count);
    }
    if (c->rc == QP_OK) {
        found_tallies(c, &tallies);
    }
    buf_done(&k.name);
    omap_done(&tallies);
}

/* ---------------------------------------------------------------------------------- definitions */

/* The active version that was met last: those of one application follow each other. */
struct active {
    struct check *c;
    struct buf app;
    int64_t ns;
};

static int visit_app(void *context, const void *row)
{
    struct active *a = context;
    const struct app_row *r = row;
    if (r->state != APP_ACTIVE) {
        return QP_OK;
    }
    if (r->ns == a->ns && str_equal(r->app, buf_slice(&a->app))) {
        found_in(a->c, r->ns, QP_NONE, "version '%.*s' of application '%.*s' is active, too",
                 CHECK_ECHO(r->version), CHECK_ECHO(r->app));
    }
    buf_reset(&a->app);
    buf_str(&a->app, r->app);
    a->ns = r->ns;
    return buf_rc(&a->app);
}

void rule_D1(struct check *c)
{
    struct active a = {.c = c};
    buf_init(&a.app, store_env(c->store), 0);
    scan_all(c, TABLE_app, &a, visit_app);
    buf_done(&a.app);
}

static bool key_of_app(const void *row, void *out_key)
{
    const struct app_topic_row *topic = row;
    *(struct app_row *)out_key =
        (struct app_row){.ns = topic->ns, .app = topic->app, .version = topic->version};
    return topic->kind != APP_TOPIC_FLOW;
}

static void judge_topic(struct check *c, const void *row, const void *other)
{
    const struct app_topic_row *topic = row;
    const struct app_row *app = other;
    if (app == NULL || app->state == APP_DELETED) {
        found_in(c, topic->ns, QP_NONE,
                 "topic '%.*s' leads to version '%.*s' of application '%.*s', which %s",
                 CHECK_ECHO(topic->topic), CHECK_ECHO(topic->version), CHECK_ECHO(topic->app),
                 app == NULL ? "is not there" : "was deleted");
    }
}

void rule_D2(struct check *c)
{
    lookup_run(c, &(struct lookup){TABLE_app_topic, TABLE_app, key_of_app, judge_topic});
}

static bool key_of_universe(const void *row, void *out_key)
{
    const struct fact_row *fact = row;
    *(struct universe_row *)out_key =
        (struct universe_row){.ns = fact->ns, .universe = fact->universe};
    return true;
}

static void judge_fact(struct check *c, const void *row, const void *other)
{
    const struct fact_row *fact = row;
    if (other == NULL) {
        found_in(c, fact->ns, QP_NONE, "fact '%.*s' belongs to universe %lld, which is not there",
                 CHECK_ECHO(fact->name), (long long)fact->universe);
    }
}

void rule_D3(struct check *c)
{
    lookup_run(c, &(struct lookup){TABLE_fact, TABLE_universe, key_of_universe, judge_fact});
}
