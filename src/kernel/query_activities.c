/* query_activities.c - the activities of a job, page by page (see query.h)
 *
 * A page is read in three scans: the addresses, the messages of the job, which say where tasks are and when timers are
 * due, and then each row with what its kind tells of it. Of an activity that waits its registration at a hook is read,
 * too. Nothing of that is written down for people: it follows from the rows, in the same snapshot.
 */
#include "kernel/ledger.h"
#include "kernel/message.h"
#include "kernel/query_parts.h"

/* Where the task of an activity is, and when its timer is due. */
struct task_place {
    int64_t state;
    qp_ms wake_at;
    qp_ms timer_at;
};

struct activities {
    struct parts parts;
    qp_str addresses[LIMIT_PAGE_ROWS];
    struct task_place tasks[LIMIT_PAGE_ROWS];
    size_t count;
    size_t limit;
    bool more;
};

static int each_address(void *context, const void *row)
{
    struct activities *a = context;
    const struct act_row *act = row;
    if (a->count == a->limit) {
        a->more = true;
        return QP_OK; /* it was the last one that the scan may give */
    }
    return arena_copy(&a->parts.arena, act->addr, &a->addresses[a->count++]) ? QP_OK : QP_E_NOMEM;
}

/* The index of an address on the page, or the page's count. */
static size_t place_of(const struct activities *a, qp_str addr)
{
    size_t low = 0;
    size_t high = a->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(a->addresses[middle], addr) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < a->count && str_equal(a->addresses[low], addr) ? low : a->count;
}

static int each_task(void *context, const void *row)
{
    struct activities *a = context;
    const struct msg_row *m = row;
    bool timer = m->kind == MESSAGE_ANSWER && m->state == MSG_DELAYED;
    size_t i = timer || m->kind == MESSAGE_TASK ? place_of(a, m->addr) : a->count;
    if (i < a->count && timer) {
        a->tasks[i].timer_at = m->wake_at;
    } else if (i < a->count) {
        a->tasks[i].state = m->state;
        a->tasks[i].wake_at = m->wake_at;
    }
    return QP_OK;
}

static const char *state_of(const struct act_row *act)
{
    return act->escalated != 0                ? "escalated"
           : ledger_is_finalized(act->ledger) ? "done"
           : act->category == 'D'             ? "done"
           : act->guid.p != NULL              ? "answering"
           : ledger_leg1_is_done(act->ledger) ? "waiting"
                                              : "entered";
}

const char *task_word(int64_t state)
{
    static const char *const words[MSG_STATES] = {"none", "ready", "delayed",
                                                  "held", "aside", "dead"};
    return state > MSG_NONE && state < MSG_STATES ? words[state] : "none";
}

int progress_name(struct arena *arena, qp_str addr, qp_str *out_name)
{
    size_t prefix = sizeof PROGRESS_PREFIX - 1;
    char *name = arena_bytes(arena, prefix + addr.n);
    if (name == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(name, PROGRESS_PREFIX, prefix);
    memcpy(name + prefix, addr.p, addr.n);
    *out_name = (qp_str){name, prefix + addr.n};
    return QP_OK;
}

static int progress_of(struct parts *p, struct arena *arena, qp_str addr, qp_str *out_progress)
{
    struct data_row key = {.ns = p->job->ns, .job = p->job->job};
    const void *row = NULL;
    QP_TRY(progress_name(arena, addr, &key.name));
    QP_TRY(parts_get(p, arena, TABLE_data, &key, &row));
    *out_progress = row == NULL ? QP_NONE : ((const struct data_row *)row)->value;
    return QP_OK;
}

struct wait_seen {
    struct arena *arena;
    struct qp_activity *told;
};

static int see_wait(void *context, const void *row)
{
    const struct wait_seen *seen = context;
    const struct hook_wait_row *w = row;
    return arena_copy(seen->arena, w->topic, &seen->told->signal) &&
                   arena_copy(seen->arena, w->hkey, &seen->told->key)
               ? QP_OK
               : QP_E_NOMEM;
}

/* The signal that an open activity waits for, by its registration. */
static int tell_wait(struct parts *p, struct arena *arena, const struct act_row *act,
                     struct qp_activity *told)
{
    struct wait_seen seen = {arena, told};
    struct hook_wait_row of = {.ns = act->ns, .job = act->job, .addr = act->addr};
    struct scan waits = {.table = TABLE_hook_wait,
                         .index = INDEX_hook_wait_job,
                         .prefix = &of,
                         .prefix_count = 3,
                         .limit = 1};
    return act->waits == 0 ? QP_OK : store_scan(p->q->store, &waits, &seen, see_wait, p->err);
}

/* What the job's kind tells of it. */
static int describe_activity(struct parts *p, struct arena *arena, const struct act_row *act,
                             struct qp_activity *told)
{
    struct sight sight = {p->q->store, arena, p->job, p->err};
    const struct faced *of = query_face(p->q, p->job);
    return of == NULL || of->face->describe_activity == NULL
               ? QP_OK
               : of->face->describe_activity(of->state, &sight, act, told);
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (word != NULL && *words != NULL && strcmp(word, *words) != 0) {
        words++;
    }
    return word != NULL && *words != NULL;
}

/* How an activity stands, for people: one word, whatever its kind. A status that is not known to be one of the end means
 * that it goes on. */
static const char *mark_of(const struct qp_activity *a)
{
    static const char *const failed[] = {"errored", "FAILED", NULL};
    static const char *const done[] = {"completed", "released",     "DONE",
                                       "DUPLICATE", "DEPTH_PRUNED", NULL};
    static const char *const due[] = {"ready", "delayed", NULL};
    bool waits = !str_is_none(a->signal) || a->until != 0 || strcmp(a->task, "none") != 0;
    if (is_one_of(a->status, (const char *const[]){"skipped", NULL})) {
        return "skipped";
    }
    if (is_one_of(a->status, failed) || strcmp(a->state, "escalated") == 0 ||
        strcmp(a->task, "dead") == 0) {
        return "failed";
    }
    if (strcmp(a->task, "held") == 0) {
        return "running";
    }
    if (a->failures > 0 && is_one_of(a->task, due)) {
        return "retrying";
    }
    if (is_one_of(a->status, done) || (a->status == NULL && strcmp(a->state, "done") == 0)) {
        return "done";
    }
    return strcmp(a->state, "done") == 0 && !waits ? "running" : "waiting";
}

static int activity_tell(struct activities *a, size_t i, void *context, qp_activity_visit visit)
{
    struct parts *p = &a->parts;
    struct arena arena;
    struct act_row key = {.ns = p->job->ns, .job = p->job->job, .addr = a->addresses[i]};
    const void *row = NULL;
    qp_str progress = QP_NONE;
    int rc;
    arena_init(&arena, store_env(p->q->store), 0);
    rc = parts_get(p, &arena, TABLE_act, &key, &row);
    rc = rc == QP_OK ? progress_of(p, &arena, a->addresses[i], &progress) : rc;
    if (rc == QP_OK && row != NULL) {
        const struct act_row *act = row;
        struct qp_activity told = {.address = act->addr,
                                   .topic = act->topic,
                                   .category = (char)act->category,
                                   .ledger = act->ledger,
                                   .state = state_of(act),
                                   .task = task_word(a->tasks[i].state),
                                   .failures = act->attempt,
                                   .answers = ledger_leg2_entries(act->ledger),
                                   .code = act->code,
                                   .error = act->error,
                                   .input = act->input,
                                   .output = act->output,
                                   .progress = progress,
                                   .entered_at = act->at,
                                   .answered_at = act->guid_at,
                                   .wake_at = a->tasks[i].wake_at,
                                   .seq = act->seq,
                                   .until = a->tasks[i].timer_at};
        rc = tell_wait(p, &arena, act, &told);
        rc = rc == QP_OK ? describe_activity(p, &arena, act, &told) : rc;
        told.mark = told.mark == NULL ? mark_of(&told) : told.mark;
        rc = rc == QP_OK ? visit(context, &told) : rc;
    }
    arena_done(&arena);
    return rc;
}

static int activities_read(struct activities *a, qp_str after, struct qp_err *err)
{
    const struct job_row *job = a->parts.job;
    struct act_row prefix = {.ns = job->ns, .job = job->job, .addr = after};
    struct msg_row messages = {.ns = job->ns, .job = job->job};
    struct scan acts = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .after = str_is_none(after) ? NULL : &prefix,
                        .limit = a->limit + 1};
    struct scan tasks = {
        .table = TABLE_msg, .index = -1, .prefix = &messages, .prefix_count = 2, .limit = SIZE_MAX};
    int rc = store_scan(a->parts.q->store, &acts, a, each_address, err);
    return rc == QP_OK && a->count > 0 ? store_scan(a->parts.q->store, &tasks, a, each_task, err)
                                       : rc;
}

int query_activities(const struct query *q, qp_str id, qp_str after, int64_t limit, void *context,
                     qp_activity_visit visit, bool *out_more, struct qp_err *err)
{
    struct activities *a = mem_alloc(store_env(q->store), sizeof *a);
    bool more = false;
    int rc = a == NULL ? err_set(err, QP_E_NOMEM, "activities: out of memory") : QP_OK;
    rc = rc == QP_OK ? query_limit(limit, &a->limit, err) : rc;
    if (rc == QP_OK) {
        rc = parts_begin(&a->parts, q, id, err);
        rc = rc == QP_OK ? activities_read(a, after, err) : rc;
        for (size_t i = 0; i < a->count && rc == QP_OK; i++) {
            rc = activity_tell(a, i, context, visit);
        }
        more = a->more;
        rc = parts_end(&a->parts, rc);
    }
    mem_free(store_env(q->store), a);
    if (rc == QP_OK) {
        *out_more = more;
    }
    return rc;
}
