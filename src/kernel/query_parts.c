/* query_parts.c - what a job is made of: journal and data; and the feed (see query.h)
 *
 * The journal of a job has no table: each entry is the row that it tells of, with a sequence that is dense
 * per job. So the entries after a sequence are exactly the next numbers, and each row that is met goes to
 * its place on the page at once. Entries whose rows are gone (GUIDs that were folded) are left out.
 *
 * An entry never changes, although its row may: only what the commit of the entry wrote is told.
 *
 *   entered    the ledger is that of the entry mark, 001000000000000, and of a trigger 101100000000001
 *   answered   steps 1 and 2 of its GUID, the edge if it was one, the ordinal, and the code of step 1. That its step
 *              3 came later does not show.
 *   others     have rows that never change
 *   status     a row of its own has it. Of entered and answered: what the last such row before it says, running if
 *              there is none; of the answer that closed the job: how the job ended.
 */
#include "kernel/query_parts.h"
#include "kernel/ledger.h"
#include "kernel/message.h"
#include "store/event.h"

int parts_begin(struct parts *p, const struct query *q, qp_str id, struct qp_err *err)
{
    int rc;
    p->q = q;
    p->err = err;
    arena_init(&p->arena, store_env(q->store), 0);
    rc = store_snapshot_begin(q->store, err);
    return rc == QP_OK ? query_find(q, &p->arena, id, &p->job, err) : rc;
}

int parts_end(struct parts *p, int rc)
{
    int end = store_snapshot_end(p->q->store, rc == QP_OK ? p->err : NULL);
    arena_done(&p->arena);
    return rc == QP_OK ? end : rc;
}

int parts_get(struct parts *p, struct arena *arena, enum table_id table, const void *key,
              const void **out_row)
{
    int rc = store_get(p->q->store, arena, table, key, out_row, p->err);
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* ---------------------------------------------------------------------------------------- entries */

static const char *event_word(int64_t kind)
{
    switch (kind) {
    case EVENT_JOB_SET:
        return "changed";
    case EVENT_JOB_CLOSED:
        return "closed";
    case EVENT_JOB_PAUSED:
        return "paused";
    case EVENT_JOB_RESUMED:
        return "resumed";
    case EVENT_LOST:
        return "lost";
    case EVENT_JOB_ASKED:
        return "asked";
    case EVENT_FAILED:
        return "failed";
    case EVENT_WAITS:
        return "waits";
    case EVENT_CALLED:
        return "called";
    case EVENT_FORKED:
        return "forked";
    case EVENT_REFUSED:
        return "refused";
    case EVENT_PUBLISHED:
        return "published";
    default:
        return "noted";
    }
}

static bool has_facts(int64_t kind)
{
    return kind == EVENT_LOST || (kind >= EVENT_FAILED && kind <= EVENT_REFUSED);
}

static int last_status(void *context, const void *row)
{
    *(int64_t *)context = event_status(row);
    return QP_OK;
}

/* What the job's status was before an entry: what the last row of its own before it says. */
static int status_before(struct parts *p, const struct feed_entry *entry)
{
    struct event_row here = {.ns = entry->ns, .job = entry->job, .seq = entry->seq};
    struct scan scan = {.table = TABLE_event,
                        .index = -1,
                        .prefix = &here,
                        .prefix_count = 2,
                        .after = &here,
                        .limit = 1,
                        .backwards = true};
    if (p->told_job == entry->job && p->told_seq + 1 == entry->seq) {
        return QP_OK;
    }
    p->status = STATUS_RUNNING;
    return store_scan(p->q->store, &scan, &p->status, last_status, p->err);
}

static const char *word_of(int64_t status)
{
    return status < 0 ? NULL : status_word(status);
}

/* An activity that is entered or answered moves: what the job waited for before is said by the lines before. */
static int64_t moving(int64_t status)
{
    return status == STATUS_WAITING || status == STATUS_RETRYING ? STATUS_RUNNING : status;
}

static int fill_answered(struct parts *p, struct arena *arena, const struct feed_entry *entry,
                         struct qp_event *event, bool *out_found)
{
    struct guid_row key = {
        .ns = entry->ns, .job = entry->job, .addr = entry->addr, .guid = entry->guid};
    struct guid_row guid = {0};
    int rc = store_guid(p->q->store, arena, &key, &guid, p->err);
    *out_found = rc == QP_OK;
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    event->kind = "answered";
    event->ledger = guid_without_completion(guid.ledger);
    event->code = guid.code;
    event->at = guid.at;
    event->pos = guid.pos;
    if (guid_owns_edge(guid.ledger)) {
        event->status = word_of(status_of_state(p->job->state));
    }
    return QP_OK;
}

static int fill_entered(struct parts *p, struct arena *arena, const struct feed_entry *entry,
                        struct qp_event *event, bool *out_found)
{
    struct act_row key = {.ns = entry->ns, .job = entry->job, .addr = entry->addr};
    const void *row = NULL;
    const struct act_row *act;
    QP_TRY(parts_get(p, arena, TABLE_act, &key, &row));
    *out_found = row != NULL;
    if (row == NULL) {
        return QP_OK;
    }
    act = row;
    event->kind = "entered";
    event->ledger = act->category == 'D' ? LEDGER_TRIGGER : LEDGER_LEG1_ENTRY;
    event->at = act->at;
    event->pos = act->pos;
    return QP_OK;
}

static int fill_facts(struct parts *p, struct arena *arena, qp_str detail, struct qp_event *event)
{
    struct event_facts facts = {0};
    QP_TRY(event_read(store_env(p->q->store), arena, detail, &facts));
    event->attempt = facts.attempt;
    event->delivery = facts.delivery;
    event->worker = facts.worker;
    event->topic = facts.topic;
    event->key = facts.key;
    event->other = facts.job;
    event->until = facts.until;
    event->code = facts.code;
    event->error = facts.error;
    return QP_OK;
}

/* The data of a job that has ended are its output, and its error is its own. */
static int fill_publication(struct parts *p, struct arena *arena, qp_str detail,
                            struct qp_event *event)
{
    struct publication told;
    QP_TRY(publication_read(store_env(p->q->store), arena, detail, &told));
    event->topic = told.topic;
    event->code = told.code;
    event->detail = told.code == CODE_PENDING ? told.data : p->job->output;
    event->error = told.code >= 400 ? p->job->error : QP_NONE;
    return QP_OK;
}

/* What the job's kind tells of an entry. */
static int describe_entry(struct parts *p, struct arena *arena, struct qp_event *event)
{
    struct sight sight = {p->q->store, arena, p->job, p->err};
    const struct faced *of = query_face(p->q, p->job);
    return of == NULL || of->face->describe_history == NULL
               ? QP_OK
               : of->face->describe_history(of->state, &sight, p->kind, event);
}

static int fill_event(struct parts *p, struct arena *arena, const struct feed_entry *entry,
                      struct qp_event *event, bool *out_found)
{
    struct event_row key = {.ns = entry->ns, .job = entry->job, .seq = entry->seq};
    const void *row = NULL;
    const struct event_row *e;
    QP_TRY(parts_get(p, arena, TABLE_event, &key, &row));
    *out_found = row != NULL;
    if (row == NULL) {
        return QP_OK;
    }
    e = row;
    p->kind = event_kind(e);
    p->status = event_status(e);
    event->kind = event_word(p->kind);
    event->status = word_of(p->status);
    event->address = e->addr;
    event->at = e->at;
    event->pos = e->pos;
    if (has_facts(p->kind)) {
        return fill_facts(p, arena, e->detail, event);
    }
    if (p->kind == EVENT_PUBLISHED) {
        return fill_publication(p, arena, e->detail, event);
    }
    event->detail = e->detail;
    return QP_OK;
}

/* What the row of an entry says. *out_found false: the row is gone. */
static int entry_fill(struct parts *p, struct arena *arena, const struct feed_entry *entry,
                      struct qp_event *event, bool *out_found)
{
    QP_TRY(status_before(p, entry));
    event->status = word_of(moving(p->status));
    p->kind = EVENT_NONE;
    p->told_job = entry->job;
    p->told_seq = entry->seq;
    return !str_is_none(entry->guid)   ? fill_answered(p, arena, entry, event, out_found)
           : !str_is_none(entry->addr) ? fill_entered(p, arena, entry, event, out_found)
                                       : fill_event(p, arena, entry, event, out_found);
}

static int entry_tell(struct parts *p, const struct feed_entry *entry, void *context,
                      qp_event_visit visit)
{
    struct qp_event event = {
        .ns = p->q->ns_name, .job = p->job->jid, .seq = entry->seq, .address = entry->addr};
    struct arena arena;
    bool found = false;
    int rc;
    arena_init(&arena, store_env(p->q->store), 0);
    rc = entry_fill(p, &arena, entry, &event, &found);
    if (rc == QP_OK && found) {
        rc = describe_entry(p, &arena, &event);
    }
    if (rc == QP_OK && found) {
        rc = visit(context, &event);
    }
    arena_done(&arena);
    return rc;
}

/* ---------------------------------------------------------------------------------------- journal */

struct journal_page {
    struct parts parts;
    int64_t after;
    size_t limit;
    struct feed_entry entries[LIMIT_PAGE_ROWS]; /* seq 0: none yet */
};

/* An entry goes to its place, if it is on this page. */
static int place_entry(struct journal_page *j, int64_t seq, qp_str addr, qp_str guid)
{
    const struct job_row *job = j->parts.job;
    struct feed_entry entry = {.ns = job->ns, .job = job->job, .seq = seq};
    if (seq <= j->after || seq - j->after > (int64_t)j->limit) {
        return QP_OK;
    }
    if (!arena_copy(&j->parts.arena, addr, &entry.addr) ||
        !arena_copy(&j->parts.arena, guid, &entry.guid)) {
        return QP_E_NOMEM;
    }
    j->entries[seq - j->after - 1] = entry;
    return QP_OK;
}

static int each_act(void *context, const void *row)
{
    struct journal_page *j = context;
    const struct act_row *act = row;
    QP_TRY(place_entry(j, act->seq, act->addr, QP_NONE));
    return act->guid.p == NULL ? QP_OK : place_entry(j, act->guid_seq, act->addr, act->guid);
}

static int each_guid(void *context, const void *row)
{
    const struct guid_row *guid = row;
    return place_entry(context, guid->seq, guid->addr, guid->guid);
}

static int each_event(void *context, const void *row)
{
    return place_entry(context, ((const struct event_row *)row)->seq, QP_NONE, QP_NONE);
}

static int journal_gather(struct journal_page *j, struct qp_err *err)
{
    const struct job_row *job = j->parts.job;
    struct event_row after = {.ns = job->ns, .job = job->job, .seq = j->after};
    struct act_row act = {.ns = job->ns, .job = job->job};
    struct guid_row guid = {.ns = job->ns, .job = job->job};
    struct scan events = {.table = TABLE_event,
                          .index = -1,
                          .prefix = &after,
                          .prefix_count = 2,
                          .after = &after,
                          .limit = j->limit};
    struct scan acts = {
        .table = TABLE_act, .index = -1, .prefix = &act, .prefix_count = 2, .limit = SIZE_MAX};
    struct scan guids = {
        .table = TABLE_guid, .index = -1, .prefix = &guid, .prefix_count = 2, .limit = SIZE_MAX};
    struct store *s = j->parts.q->store;
    int rc = store_scan(s, &acts, j, each_act, err);
    rc = rc == QP_OK ? store_scan(s, &guids, j, each_guid, err) : rc;
    return rc == QP_OK ? store_scan(s, &events, j, each_event, err) : rc;
}

int query_journal(const struct query *q, qp_str id, int64_t after, int64_t limit, void *context,
                  qp_event_visit visit, bool *out_more, struct qp_err *err)
{
    struct journal_page *j = mem_alloc(store_env(q->store), sizeof *j);
    bool more = false;
    int rc = j == NULL ? err_set(err, QP_E_NOMEM, "journal: out of memory") : QP_OK;
    rc = rc == QP_OK ? query_limit(limit, &j->limit, err) : rc;
    if (rc == QP_OK && after < 0) {
        rc = err_set(err, QP_E_INVALID, "journal: a sequence is not negative");
    }
    if (rc == QP_OK) {
        j->after = after;
        rc = parts_begin(&j->parts, q, id, err);
        if (rc == QP_OK && j->parts.job->seq > after) {
            more = j->parts.job->seq - after > (int64_t)j->limit;
            rc = journal_gather(j, err);
        }
        for (size_t i = 0; i < j->limit && rc == QP_OK; i++) {
            rc = j->entries[i].seq > 0 ? entry_tell(&j->parts, &j->entries[i], context, visit)
                                       : QP_OK;
        }
        rc = parts_end(&j->parts, rc);
    }
    mem_free(store_env(q->store), j);
    if (rc == QP_OK) {
        *out_more = more;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------------- feed */

struct feed_page {
    struct parts parts;
    struct filter filter;
    int64_t only; /* this job; 0: all */
    qp_str topic; /* only publications on it; none: all entries */
    int64_t last; /* position that was looked at last */
    size_t looked;
    size_t limit;
    size_t count;
    struct feed_entry entries[LIMIT_PAGE_ROWS];
};

#define FEED_FULL QP_E_LIMIT /* ends the reading */

static int each_entry(void *context, const struct feed_entry *entry)
{
    struct feed_page *f = context;
    struct feed_entry *place = &f->entries[f->count];
    if (f->count == f->limit) {
        return FEED_FULL;
    }
    f->last = entry->pos;
    f->looked++;
    if (entry->ns != f->parts.q->ns || (f->only != 0 && entry->job != f->only) ||
        (!str_is_none(f->topic) && !str_is_none(entry->addr))) {
        return QP_OK; /* publications have rows of their own, and are no entries of activities */
    }
    *place = *entry;
    if (!arena_copy(&f->parts.arena, entry->addr, &place->addr) ||
        !arena_copy(&f->parts.arena, entry->guid, &place->guid)) {
        return QP_E_NOMEM;
    }
    f->count++;
    return QP_OK;
}

struct topic_visit {
    qp_str topic;
    void *context;
    qp_event_visit visit;
};

static int visit_published(void *context, const struct qp_event *event)
{
    const struct topic_visit *v = context;
    return strcmp(event->kind, "published") == 0 && str_equal(event->topic, v->topic)
               ? v->visit(v->context, event)
               : QP_OK;
}

/* The entries of a page, each with its job; those of one job mostly come together. */
static int feed_tell(struct feed_page *f, void *context, qp_event_visit visit)
{
    struct parts *p = &f->parts;
    int64_t known = 0;
    bool fits = false;
    int rc = QP_OK;
    for (size_t i = 0; i < f->count && rc == QP_OK; i++) {
        const struct feed_entry *entry = &f->entries[i];
        if (entry->job != known) {
            struct job_row key = {.ns = entry->ns, .job = entry->job};
            const void *row = NULL;
            rc = parts_get(p, &p->arena, TABLE_job, &key, &row);
            p->job = row;
            known = entry->job;
            fits = false;
            if (rc == QP_OK && row != NULL) {
                rc = query_fits(p->q, &p->arena, &f->filter, row, &fits, p->err);
            }
        }
        rc = rc == QP_OK && fits ? entry_tell(p, entry, context, visit) : rc;
    }
    return rc;
}

static int feed_begin(struct feed_page *f, const struct qp_feed *feed, struct qp_err *err)
{
    const struct query *q = f->parts.q;
    int rc = query_limit(feed->limit, &f->limit, err);
    rc = rc == QP_OK
             ? filter_compile(&f->parts.arena, feed->where, store_now(q->store), &f->filter, err)
             : rc;
    if (rc == QP_OK && feed->after < 0) {
        rc = err_set(err, QP_E_INVALID, "feed: a position is not negative");
    }
    if (rc == QP_OK && !str_is_none(feed->id)) {
        rc = query_find(q, &f->parts.arena, feed->id, &f->parts.job, err);
        f->only = rc == QP_OK ? f->parts.job->job : 0;
    }
    f->last = feed->after;
    f->topic = feed->topic;
    return rc;
}

static int first_row(void *context, const void *row)
{
    *(int64_t *)context = ((const struct feed_row *)row)->first;
    return QP_OK;
}

int query_feed_behind(struct store *s, int64_t after, bool *out_behind, struct qp_err *err)
{
    struct scan oldest = {.table = TABLE_feed, .index = -1, .limit = 1};
    int64_t first = 0;
    int rc = after == 0 ? QP_OK : store_scan(s, &oldest, &first, first_row, err);
    if (rc == QP_OK) {
        *out_behind = after < first - 1;
    }
    return rc;
}

/* In the snapshot in which it is read, so that nothing goes in between. */
static int feed_reaches(const struct query *q, int64_t after, struct qp_err *err)
{
    bool behind = false;
    int rc = query_feed_behind(q->store, after, &behind, err);
    if (rc == QP_OK && behind) {
        rc = err_set(err, QP_E_NOT_FOUND,
                     "feed: what came after position %lld is not kept any more; read lists again, "
                     "and go on from the position before that",
                     (long long)after);
    }
    return rc;
}

int query_feed(const struct query *q, const struct qp_feed *feed, void *context,
               qp_event_visit visit, int64_t *out_after, bool *out_more, struct qp_err *err)
{
    struct feed_page *f = mem_alloc(store_env(q->store), sizeof *f);
    int64_t last = feed->after;
    bool more = false;
    int rc;
    if (f == NULL) {
        return err_set(err, QP_E_NOMEM, "feed: out of memory");
    }
    f->parts.q = q;
    f->parts.err = err;
    arena_init(&f->parts.arena, store_env(q->store), 0);
    rc = feed_begin(f, feed, err);
    rc = rc == QP_OK ? store_snapshot_begin(q->store, err) : rc;
    if (rc == QP_OK) {
        rc = feed_reaches(q, feed->after, err);
        rc = rc == QP_OK ? store_feed(q->store, feed->after, LIMIT_FEED_COMMITS, f, each_entry, err)
                         : rc;
        more = rc == FEED_FULL || (rc == QP_OK && f->looked >= LIMIT_FEED_COMMITS);
        rc = rc == FEED_FULL ? QP_OK : rc;
        if (rc == QP_OK) {
            rc = str_is_none(f->topic)
                     ? feed_tell(f, context, visit)
                     : feed_tell(f, &(struct topic_visit){f->topic, context, visit},
                                 visit_published);
        }
        last = f->last;
        rc = parts_end(&f->parts, rc);
    } else {
        arena_done(&f->parts.arena);
    }
    mem_free(store_env(q->store), f);
    if (rc == QP_OK) {
        *out_after = last;
        *out_more = more;
    }
    return rc;
}

static int last_row(void *context, const void *row)
{
    *(int64_t *)context = ((const struct feed_row *)row)->pos;
    return QP_OK;
}

int query_feed_position(struct store *s, int64_t *out_position, struct qp_err *err)
{
    struct scan last = {.table = TABLE_feed, .index = -1, .limit = 1, .backwards = true};
    int64_t position = 0;
    int rc = store_scan(s, &last, &position, last_row, err);
    if (rc == QP_OK) {
        *out_position = position;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------------- data */

struct data_call {
    void *context;
    query_data_visit visit;
};

static int each_data(void *context, const void *row)
{
    struct data_call *call = context;
    const struct data_row *data = row;
    return call->visit(call->context, data->name, data->value);
}

int query_data(const struct query *q, qp_str id, void *context, query_data_visit visit,
               struct qp_err *err)
{
    struct parts p;
    struct data_call call = {context, visit};
    int rc = parts_begin(&p, q, id, err);
    if (rc == QP_OK) {
        struct data_row prefix = {.ns = p.job->ns, .job = p.job->job};
        struct scan scan = {.table = TABLE_data,
                            .index = -1,
                            .prefix = &prefix,
                            .prefix_count = 2,
                            .limit = SIZE_MAX};
        rc = store_scan(q->store, &scan, &call, each_data, err);
    }
    return parts_end(&p, rc);
}
