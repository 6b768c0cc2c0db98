/* check_store.c - the rules about whole tables: orphans and counters
 *
 * Each rule scans its tables once, in the order of their keys, and looks up what a row points to.
 * The rows that lie together have the same job, so that it is looked up once. Counters are compared
 * by a tally: what is found adds, what is recorded subtracts, and what is not 0 in the end is
 * wrong.
 */
#include "base/omap.h"
#include "kernel/check_internal.h"

/* A scan of a whole table, with what its visitor needs. */
struct sweep {
    struct check *c;
    enum table_id table;
    size_t job_column;
    struct job_ref last; /* the job that was looked up last */
};

static void scan_all(struct check *c, enum table_id table, void *context, store_visit visit)
{
    struct scan all = {.table = table, .index = -1, .limit = SIZE_MAX};
    if (c->rc == QP_OK) {
        int rc = store_scan(c->store, &all, context, visit, c->err);
        c->rc = c->rc == QP_OK ? rc : c->rc;
    }
}

static size_t column_of(enum table_id table, const char *name)
{
    size_t i = 0;
    while (strcmp(tables[table].columns[i].name, name) != 0) {
        i++;
        QP_ASSERT(i < tables[table].column_count);
    }
    return i;
}

static void sweep_tables(struct check *c, const enum table_id *list, size_t count,
                         store_visit visit)
{
    for (size_t i = 0; i < count; i++) {
        struct sweep s = {.c = c, .table = list[i], .job_column = column_of(list[i], "job")};
        scan_all(c, list[i], &s, visit);
    }
}

/* The job of a row; false when it is nobody's, or the same as that of the row before. */
static bool next_job(struct sweep *s, const void *row, struct job_ref *out_ref)
{
    const struct column *columns = tables[s->table].columns;
    struct job_ref ref = {row_i64(&columns[0], row), row_i64(&columns[s->job_column], row)};
    bool is_job = s->table != TABLE_msg || ((const struct msg_row *)row)->owner == OWNER_JOB;
    if (!is_job || ref.job == 0 || (ref.ns == s->last.ns && ref.job == s->last.job)) {
        return false;
    }
    s->last = ref;
    *out_ref = ref;
    return true;
}

static const struct job_row *get_job(struct check *c, int64_t ns, int64_t job)
{
    return check_get(c, TABLE_job, &(struct job_row){.ns = ns, .job = job});
}

/* -------------------------------------------------------------------------------------- orphans */

static int visit_absent(void *context, const void *row)
{
    struct sweep *s = context;
    struct job_ref ref;
    if (next_job(s, row, &ref) && get_job(s->c, ref.ns, ref.job) == NULL) {
        found_in(s->c, ref.ns, QP_NONE, "table %s has rows of job number %lld, which is not there",
                 tables[s->table].name, (long long)ref.job);
    }
    return s->c->rc;
}

static int visit_closed(void *context, const void *row)
{
    struct sweep *s = context;
    struct job_ref ref;
    const struct job_row *job = next_job(s, row, &ref) ? get_job(s->c, ref.ns, ref.job) : NULL;
    if (job != NULL && job->state != JOB_OPEN) {
        found_in(s->c, ref.ns, job->jid, "table %s still has rows of a closed job",
                 tables[s->table].name);
    }
    return s->c->rc;
}

static const enum table_id waiting[] = {TABLE_hook_wait, TABLE_key_hold, TABLE_key_wait};

void rule_O1(struct check *c)
{
    static const enum table_id owned[] = {TABLE_act, TABLE_guid,  TABLE_sem,  TABLE_move,
                                          TABLE_msg, TABLE_event, TABLE_data, TABLE_attr};
    sweep_tables(c, owned, ARRAY_COUNT(owned), visit_absent);
}

void rule_O2(struct check *c)
{
    sweep_tables(c, waiting, ARRAY_COUNT(waiting), visit_absent);
}

void rule_O3(struct check *c)
{
    sweep_tables(c, waiting, ARRAY_COUNT(waiting), visit_closed);
}

static int visit_name(void *context, const void *row)
{
    struct check *c = context;
    const struct job_name_row *name = row;
    const struct job_row *job = get_job(c, name->ns, name->job);
    if (job == NULL || !str_equal(job->jid, name->jid)) {
        found_in(c, name->ns, name->jid, "the id leads to job number %lld, which is not its job",
                 (long long)name->job);
    }
    return c->rc;
}

static int visit_named(void *context, const void *row)
{
    struct check *c = context;
    const struct job_row *job = row;
    const struct job_name_row *name =
        check_get(c, TABLE_job_name, &(struct job_name_row){.ns = job->ns, .jid = job->jid});
    if (name == NULL) {
        found_in(c, job->ns, job->jid, "the job cannot be found by its id");
    }
    return c->rc;
}

void rule_O4(struct check *c)
{
    scan_all(c, TABLE_job_name, c, visit_name);
    scan_all(c, TABLE_job, c, visit_named);
}

static int visit_custom(void *context, const void *row)
{
    struct check *c = context;
    const struct job_custom_row *custom = row;
    const struct job_row *job = get_job(c, custom->ns, custom->job);
    if (job == NULL || job->state != JOB_OPEN || !str_equal(job->custom_id, custom->custom_id)) {
        found_in(c, custom->ns, job == NULL ? QP_NONE : job->jid,
                 "the custom id '%.*s' is taken by no open job", CHECK_ECHO(custom->custom_id));
    }
    return c->rc;
}

static int visit_customed(void *context, const void *row)
{
    struct check *c = context;
    const struct job_row *job = row;
    struct job_custom_row key = {
        .ns = job->ns, .workflow = job->workflow, .custom_id = job->custom_id};
    const struct job_custom_row *custom;
    if (job->state != JOB_OPEN || str_is_none(job->custom_id)) {
        return c->rc;
    }
    custom = check_get(c, TABLE_job_custom, &key);
    if (custom == NULL || custom->job != job->job) {
        found_in(c, job->ns, job->jid, "the job's custom id is not taken by it");
    }
    return c->rc;
}

void rule_O5(struct check *c)
{
    scan_all(c, TABLE_job_custom, c, visit_custom);
    scan_all(c, TABLE_job, c, visit_customed);
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

static void add_job(struct count *k, const void *row)
{
    const struct job_row *r = row;
    name_job(k, r->ns, r->workflow, r->status);
    tally_add(k, r->ns, 1, 0);
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
