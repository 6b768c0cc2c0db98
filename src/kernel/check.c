/* check.c - the walk: jobs by key, one loaded at a time, every rule asked; then the whole store
 *
 * Jobs and all that belongs to them are read in pages, by cursors that move along together
 * (check_cursor.h).
 *
 *   I1  a job is loaded from one snapshot: a reader's lasts for a page of jobs, and a handle that writes
 *       is asked between its own commits
 *   I2  so are the rows that a rule about the whole store compares
 *   I3  a job whose retention time is over may be half deleted, and is not asked
 */
#include "kernel/check_cursor.h"
#include "kernel/message.h"

#include <stdio.h>

#define NEXT_DAMAGE                                                                                \
    "keep a copy of the file, restore the latest backup for which quipu fsck finds nothing, and "  \
    "report the evidence"
#define NEXT_LAG "see that an engine works on the file, then run quipu fsck again"
#define NEXT_SWEEP                                                                                 \
    "nothing, if an engine works on the file: it sweeps closed jobs; then run quipu fsck again"

#define REACH_JOB false
#define REACH_STORE true
#define SEVERITY_ERROR QP_SEVERITY_ERROR
#define SEVERITY_WARNING QP_SEVERITY_WARNING

const struct check_rule check_rules[] = {
#define RULE(name, severity, reach, text, next)                                                    \
    {#name, SEVERITY_##severity, REACH_##reach, text, next, rule_##name},
#include "kernel/check_rules.def"
#undef RULE
};
const size_t check_rule_count = ARRAY_COUNT(check_rules);

/* Where the findings go. */
struct teller {
    void *context;
    qp_check_visit visit;
    struct qp_check_result result;
    int64_t limit;
};

static int check_name(struct check *c);
static void check_all(struct check *c, struct teller *t);
static int rules_check(const struct check_options *options, struct qp_err *err);

int check_run(struct store *s, const struct check_options *options, void *context,
              qp_check_visit visit, struct qp_check_result *out_result, struct qp_err *err)
{
    struct check c = {.store = s, .options = options, .err = err};
    struct teller t = {context, visit, {0}, options->limit};
    int rc = rules_check(options, err);
    if (rc != QP_OK || options->limit < 0) {
        return rc != QP_OK ? rc : err_set(err, QP_E_INVALID, "the limit is a positive number");
    }
    t.limit = t.limit == 0 ? LIMIT_CHECK_FINDINGS : t.limit;
    arena_init(&c.arena, store_env(s), 0);
    arena_init(&c.scratch, store_env(s), 0);
    c.rc = check_name(&c);
    if (c.rc == QP_OK) {
        check_all(&c, &t);
    }
    arena_done(&c.arena);
    arena_done(&c.scratch);
    if (c.rc == QP_OK) {
        *out_result = t.result;
    }
    return c.rc;
}

/* ------------------------------------------------------------------------------- which rules */

/* True when the list names the rule or its group. */
static bool rule_is_named(qp_str list, const char *name)
{
    for (size_t from = 0; from <= list.n;) {
        size_t to = from;
        while (to < list.n && list.p[to] != ',') {
            to++;
        }
        if (to > from && to - from <= strlen(name) && memcmp(list.p + from, name, to - from) == 0 &&
            (to - from == 1 || name[to - from] == '\0')) {
            return true;
        }
        from = to + 1;
    }
    return false;
}

static bool rule_is_asked(const struct check *c, const struct check_rule *rule)
{
    return str_is_none(c->options->rules) || rule_is_named(c->options->rules, rule->name);
}

static bool is_face_rule(const struct faces *faces, qp_str name)
{
    for (size_t i = 0; faces != NULL && i < faces->count; i++) {
        const struct face_rule *r = faces->all[i].face->rules;
        for (; r != NULL && r->name != NULL; r++) {
            if (name.n > 0 && rule_is_named(name, r->name)) {
                return true;
            }
        }
    }
    return false;
}

static int rules_check_one(const struct faces *faces, qp_str name, struct qp_err *err)
{
    if (is_face_rule(faces, name)) {
        return QP_OK;
    }
    for (size_t i = 0; i < check_rule_count; i++) {
        if (name.n > 0 && rule_is_named(name, check_rules[i].name)) {
            return QP_OK;
        }
    }
    return err_set(err, QP_E_INVALID, "there is no rule '%.*s'; docs/fsck.md lists them",
                   CHECK_ECHO(name));
}

static int rules_check(const struct check_options *options, struct qp_err *err)
{
    qp_str rules = options->rules;
    int rc = QP_OK;
    for (size_t from = 0; !str_is_none(rules) && rc == QP_OK && from <= rules.n;) {
        size_t to = from;
        while (to < rules.n && rules.p[to] != ',') {
            to++;
        }
        rc = rules_check_one(options->faces, (qp_str){rules.p + from, to - from}, err);
        from = to + 1;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------ findings */

/* Forgets what was found and all that it hangs on. */
static void found_reset(struct check *c)
{
    arena_reset(&c->arena);
    memset(c->rows, 0, sizeof c->rows);
    c->wakes = (struct check_rows){0};
    c->first = NULL;
    c->last = NULL;
    c->job = NULL;
}

static bool teller_is_full(const struct teller *t)
{
    return t->result.errors + t->result.warnings >= t->limit;
}

static void tell_one(struct check *c, struct teller *t, const struct check_found *f)
{
    const struct space_row *space = check_get(c, TABLE_space, &(struct space_row){.ns = f->ns});
    struct qp_finding finding = {.rule = f->rule->name,
                                 .severity = f->rule->severity,
                                 .namespace_name = space != NULL ? space->name : QP_NONE,
                                 .job = f->jid,
                                 .text = f->text,
                                 .evidence = f->evidence,
                                 .next = f->rule->next};
    if (c->rc == QP_OK) {
        int64_t *count =
            f->rule->severity == QP_SEVERITY_ERROR ? &t->result.errors : &t->result.warnings;
        ++*count;
        c->rc = t->visit(t->context, &finding);
    }
}

static void tell(struct check *c, struct teller *t)
{
    for (const struct check_found *f = c->first; f != NULL && c->rc == QP_OK; f = f->next) {
        if (teller_is_full(t)) {
            t->result.truncated = true;
            break;
        }
        tell_one(c, t, f);
    }
    found_reset(c);
}

/* ------------------------------------------------------------------------------------- one job */

/* What is loaded of a job. */
static const struct check_part parts[] = {
    {TABLE_act, -1, "job"},
    {TABLE_guid, -1, "job"},
    {TABLE_sem, -1, "job"},
    {TABLE_move, -1, "job"},
    {TABLE_msg, -1, "job"},
    {TABLE_event, -1, "job"},
    {TABLE_hook_wait, INDEX_hook_wait_job, "job"},
    {TABLE_key_wait, INDEX_key_wait_job, "job"},
    {TABLE_job, INDEX_job_parent, "parent_job"}, /* its children */
};

/* A walk over jobs, and over their parts beside them. */
struct walk {
    struct check_cursor jobs;
    struct check_cursor parts[ARRAY_COUNT(parts)];
};

static void walk_init(struct walk *w, struct check *c, struct job_ref only)
{
    static const struct check_part jobs = {TABLE_job, -1, "job"};
    cursor_init(&w->jobs, c, &jobs, only);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        cursor_init(&w->parts[i], c, &parts[i], only);
    }
}

static void walk_done(struct walk *w)
{
    cursor_done(&w->jobs);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        cursor_done(&w->parts[i]);
    }
}

static void walk_renew(struct walk *w)
{
    cursor_renew(&w->jobs);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        cursor_renew(&w->parts[i]);
    }
}

static void load_part(struct check *c, struct check_cursor *k, struct job_ref ref)
{
    const void *row;
    while ((row = cursor_of_job(k, ref)) != NULL) {
        rows_take(c, &c->rows[k->table], k->table, row);
        cursor_pass(k);
    }
}

static int order_guids(const void *a, const void *b)
{
    const struct guid_row *x = a;
    const struct guid_row *y = b;
    int64_t i = guid_ordinal(x->ledger);
    int64_t j = guid_ordinal(y->ledger);
    int order = str_compare(x->addr, y->addr);
    return order != 0 ? order : (i > j) - (i < j);
}

/* GUIDs that stand on their activity's row are GUIDs like the others; their texts are those of that row. */
static void load_first_guids(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        struct guid_row *first;
        if (str_is_none(act->guid) || c->rc != QP_OK) {
            continue;
        }
        first = ARENA_NEW(&c->arena, struct guid_row);
        if (first == NULL) {
            c->rc = err_set(c->err, QP_E_NOMEM, "check: a job is too large for the memory");
            return;
        }
        (void)act_first_guid(act, first);
        rows_push(c, &c->rows[TABLE_guid], first);
    }
    rows_sort(&c->rows[TABLE_guid], order_guids);
}

static int order_strs(const void *a, const void *b)
{
    return str_compare(*(const qp_str *)a, *(const qp_str *)b);
}

/* Where something will come: a message in any state, but for notices, which answer nothing; a hook, a key, the edge of a scope, a
 * child without its answer. */
static void load_wakes(struct check *c)
{
    EACH_ROW(c, msg, m)
    {
        if (m->kind != MESSAGE_NOTICE) {
            rows_push(c, &c->wakes, &m->addr);
        }
    }
    EACH_ROW(c, hook_wait, w)
    {
        rows_push(c, &c->wakes, &w->addr);
    }
    EACH_ROW(c, key_wait, w)
    {
        rows_push(c, &c->wakes, &w->addr);
    }
    EACH_ROW(c, sem, sem)
    {
        if (str_is_none(sem->closed_by)) {
            rows_push(c, &c->wakes, &sem->owner_addr);
        }
    }
    EACH_ROW(c, job, child)
    {
        if (child->completions == 0) {
            rows_push(c, &c->wakes, &child->parent_addr);
        }
    }
    rows_sort(&c->wakes, order_strs);
}

static void load_job(struct check *c, struct walk *w, const struct job_row *job)
{
    struct check_rows one = {0};
    struct job_ref ref = {job->ns, job->job};
    rows_take(c, &one, TABLE_job, job);
    c->job = one.count > 0 ? one.rows[0] : NULL;
    for (size_t i = 0; i < ARRAY_COUNT(parts) && c->rc == QP_OK; i++) {
        load_part(c, &w->parts[i], ref);
    }
    if (c->rc == QP_OK) {
        rows_sort(&c->rows[TABLE_msg], rows_by_guid);
        load_first_guids(c);
        load_wakes(c);
    }
}

static void ask_rules(struct check *c, bool whole_store)
{
    for (size_t i = 0; i < check_rule_count && c->rc == QP_OK; i++) {
        c->rule = &check_rules[i];
        if (c->rule->whole_store == whole_store && rule_is_asked(c, c->rule)) {
            c->rule->ask(c);
        }
    }
}

static void ask_face_rule(struct check *c, const struct faced *of, const struct face_rule *r)
{
    struct sight sight = {c->store, &c->arena, c->job, c->err};
    struct check_rule *rule = ARENA_NEW(&c->arena, struct check_rule); /* as long as its findings */
    qp_str wrong = QP_NONE;
    if (rule == NULL) {
        c->rc = err_set(c->err, QP_E_NOMEM, "check: out of memory");
        return;
    }
    *rule = (struct check_rule){.name = r->name, .severity = r->severity, .next = r->next};
    c->rule = rule;
    if (!rule_is_asked(c, rule)) {
        return;
    }
    c->rc = r->ask(of->state, &sight, &wrong);
    if (c->rc == QP_OK && !str_is_none(wrong)) {
        found(c, "", "%.*s", CHECK_ECHO(wrong));
    }
}

/* What the job's own kind asks of it. */
static void ask_face(struct check *c)
{
    const struct faces *faces = c->options->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, c->job->kind);
    const struct face_rule *r = of == NULL ? NULL : of->face->rules;
    for (; r != NULL && r->name != NULL && c->rc == QP_OK; r++) {
        ask_face_rule(c, of, r);
    }
}

/* Its retention time is over: rows may be gone already, and its own goes last. */
static bool is_fading(const struct check *c, const struct job_row *job)
{
    return job->completions == 1 && job->expire_at > 0 && job->expire_at <= c->fades_at;
}

static void check_one(struct check *c, struct teller *t, struct walk *w, const struct job_row *job)
{
    found_reset(c);
    if (is_fading(c, job)) {
        return;
    }
    load_job(c, w, job);
    ask_rules(c, false);
    ask_face(c);
    tell(c, t);
    t->result.jobs++;
}

/* ------------------------------------------------------------------------------------- the walk */

/* The first failure is the one to report. */
static void snapshot_end(struct check *c)
{
    int rc = store_snapshot_end(c->store, c->rc == QP_OK ? c->err : NULL);
    c->rc = c->rc == QP_OK ? rc : c->rc;
}

/* The jobs of one snapshot; false when there are no more. */
static bool check_page(struct check *c, struct teller *t, struct walk *w)
{
    const struct job_row *job = NULL;
    walk_renew(w);
    for (size_t i = 0; i < LIMIT_CHECK_PAGE_JOBS && !t->result.truncated; i++) {
        job = cursor_peek(&w->jobs);
        if (job == NULL) {
            break;
        }
        check_one(c, t, w, job);
        cursor_pass(&w->jobs);
    }
    return job != NULL && c->rc == QP_OK;
}

/* A job that is gone is in order. */
static void check_jobs(struct check *c, struct teller *t, struct job_ref only)
{
    struct walk w;
    bool more = true;
    walk_init(&w, c, only);
    while (c->rc == QP_OK && more && !t->result.truncated) {
        c->rc = store_snapshot_begin(c->store, c->err);
        more = c->rc == QP_OK && check_page(c, t, &w);
        snapshot_end(c);
    }
    walk_done(&w);
}

/* Where many write, the head row is behind: their jobs fade by the clock that they share. */
static void load_clock(struct check *c)
{
    const struct head_row *head = check_get(c, TABLE_head, &(struct head_row){.ns = 0});
    struct store_info info;
    store_info(c->store, &info);
    c->now = head == NULL ? 0 : head->clock;
    c->fades_at = info.shared ? store_now(c->store) : c->now;
}

static void check_whole(struct check *c, struct teller *t)
{
    if (c->rc != QP_OK) {
        return;
    }
    c->rc = store_snapshot_begin(c->store, c->err);
    load_clock(c);
    found_reset(c);
    ask_rules(c, true);
    snapshot_end(c);
    tell(c, t);
}

static void check_all(struct check *c, struct teller *t)
{
    struct job_name_row name = {.ns = c->ns, .jid = c->options->job};
    const struct job_name_row *row;
    load_clock(c);
    if (str_is_none(name.jid)) {
        check_jobs(c, t, (struct job_ref){.ns = c->ns});
        if (!t->result.truncated) {
            check_whole(c, t);
        }
        return;
    }
    row = check_get(c, TABLE_job_name, &name);
    if (row != NULL) {
        check_jobs(c, t, (struct job_ref){c->ns, row->job});
    }
    if (row == NULL && c->rc == QP_OK) {
        c->rc = err_set(c->err, QP_E_NOT_FOUND, "there is no job '%.*s'", CHECK_ECHO(name.jid));
    }
}

static int name_row(void *context, const void *row)
{
    *(int64_t *)context = ((const struct space_row *)row)->ns;
    return QP_OK;
}

/* The namespace's number, from its name; a job without one is of the default. */
static int check_name(struct check *c)
{
    struct space_row prefix = {.name = c->options->namespace_name};
    struct scan scan = {.table = TABLE_space,
                        .index = INDEX_space_name,
                        .prefix = &prefix,
                        .prefix_count = 1,
                        .limit = 1};
    int rc = QP_OK;
    if (str_is_none(prefix.name)) {
        c->ns = str_is_none(c->options->job) ? 0 : STORE_NS_DEFAULT;
        return QP_OK;
    }
    rc = store_scan(c->store, &scan, &c->ns, name_row, c->err);
    if (rc == QP_OK && c->ns == 0) {
        rc = err_set(c->err, QP_E_NOT_FOUND, "there is no namespace '%.*s'",
                     CHECK_ECHO(prefix.name));
    }
    return rc;
}
