/* query.c - namespaces, and one job (see query.h) */
#include "kernel/query.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "kernel/message.h"
#include "kernel/properties.h"
#include "store/error.h"

#define ATTRIBUTES_MOST 256 /* that are told of one job */
#define IDS_SHOWN 3         /* of those that begin alike */

/* ------------------------------------------------------------------------------------- namespaces */

static int found_space(void *context, const void *row)
{
    *(int64_t *)context = ((const struct space_row *)row)->ns;
    return QP_OK;
}

int query_space(struct store *s, qp_str name, int64_t *out_ns, struct qp_err *err)
{
    struct space_row key = {.name = name};
    struct scan scan = {.table = TABLE_space,
                        .index = INDEX_space_name,
                        .prefix = &key,
                        .prefix_count = 1,
                        .limit = 1};
    int64_t ns = 0;
    int rc = name_check(name, "namespace", err);
    rc = rc == QP_OK ? store_scan(s, &scan, &ns, found_space, err) : rc;
    if (rc == QP_OK && ns == 0) {
        rc = err_set(err, QP_E_NOT_FOUND, "there is no namespace '%.*s'", STR_ARG(name));
    }
    if (rc == QP_OK) {
        *out_ns = ns;
    }
    return rc;
}

struct spaces {
    void *context;
    qp_space_visit visit;
};

static int each_space(void *context, const void *row)
{
    struct spaces *all = context;
    const struct space_row *space = row;
    struct qp_space told = {.name = space->name, .created_at = space->created_at};
    return all->visit(all->context, &told);
}

int query_spaces(struct store *s, void *context, qp_space_visit visit, struct qp_err *err)
{
    struct spaces all = {context, visit};
    struct scan scan = {.table = TABLE_space, .index = -1, .limit = SIZE_MAX};
    return store_scan(s, &scan, &all, each_space, err);
}

/* ---------------------------------------------------------------------------------------- one job */

int query_limit(int64_t limit, size_t *out_limit, struct qp_err *err)
{
    if (limit < 0 || limit > LIMIT_PAGE_ROWS) {
        return err_set(err, QP_E_INVALID, "limit: %lld, it is 1 to %d", (long long)limit,
                       LIMIT_PAGE_ROWS);
    }
    *out_limit = limit == 0 ? LIMIT_LIST_DEFAULT : (size_t)limit;
    return QP_OK;
}

static int no_job(struct qp_err *err, int rc, qp_str id)
{
    char shown[LIMIT_LOG_ECHO_SIZE];
    (void)log_escape(id, shown, sizeof shown); /* its length does not matter */
    return err_set(err, rc, "job '%s': %s", shown, qp_code_text(rc));
}

/* The one look-up of an id: the number of its job. */
static int job_number(const struct query *q, struct arena *arena, qp_str id, int64_t *out_job,
                      struct qp_err *err)
{
    const void *row = NULL;
    struct job_name_row name = {.ns = q->ns, .jid = id};
    int rc = store_get(q->store, arena, TABLE_job_name, &name, &row, err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? no_job(err, rc, id) : rc;
    }
    *out_job = ((const struct job_name_row *)row)->job;
    return QP_OK;
}

int query_find(const struct query *q, struct arena *arena, qp_str id,
               const struct job_row **out_job, struct qp_err *err)
{
    const void *row = NULL;
    struct job_row key = {.ns = q->ns};
    int rc;
    QP_TRY(id_check(id, "job id", err));
    QP_TRY(job_number(q, arena, id, &key.job, err));
    rc = store_get(q->store, arena, TABLE_job, &key, &row, err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? no_job(err, rc, id) : rc;
    }
    *out_job = row;
    return QP_OK;
}

/* In `arena`, of which its caller has one. */
static int ended(const struct query *q, struct arena *arena, qp_str id, bool *out_ended,
                 struct qp_err *err)
{
    struct job_row key = {.ns = q->ns};
    const void *pointer = &key;
    void *found = NULL;
    QP_TRY(job_number(q, arena, id, &key.job, err));
    QP_TRY(store_get_all(q->store, arena, TABLE_job, &pointer, 1, &found, err));
    if (found == NULL) {
        return no_job(err, QP_E_NOT_FOUND, id);
    }
    *out_ended = ((const struct job_row *)found)->closed_at != 0;
    return QP_OK;
}

int query_ended(const struct query *q, qp_str id, bool *out_ended, struct qp_err *err)
{
    struct arena arena;
    int rc = id_check(id, "job id", err);
    if (rc == QP_OK) {
        arena_init(&arena, store_env(q->store), 0);
        rc = ended(q, &arena, id, out_ended, err);
        arena_done(&arena);
    }
    return rc;
}

/* The ids that begin alike. */
struct alike {
    qp_str prefix;
    size_t count;
    char ids[IDS_SHOWN][QP_ID_SIZE];
};

static int each_alike(void *context, const void *row)
{
    struct alike *a = context;
    qp_str id = ((const struct job_name_row *)row)->jid;
    if (id.n < a->prefix.n || memcmp(id.p, a->prefix.p, a->prefix.n) != 0) {
        return QP_OK;
    }
    memcpy(a->ids[a->count], id.p, id.n);
    a->ids[a->count++][id.n] = '\0';
    return QP_OK;
}

static int only_one(const struct alike *a, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    char shown[LIMIT_LOG_ECHO_SIZE];
    (void)log_escape(a->prefix, shown, sizeof shown); /* its length does not matter */
    if (a->count == 0) {
        return err_set(err, QP_E_NOT_FOUND, "no job has the id '%s', or one that begins so", shown);
    }
    if (a->count > 1) {
        return err_set(err, QP_E_CONFLICT, "several ids begin with '%s': %.100s, %.100s%s", shown,
                       a->ids[0], a->ids[1], a->count > 2 ? ", ..." : "");
    }
    memcpy(out_id, a->ids[0], QP_ID_SIZE);
    return QP_OK;
}

int query_resolve(const struct query *q, qp_str id_or_prefix, char out_id[QP_ID_SIZE],
                  struct qp_err *err)
{
    struct arena arena;
    struct alike alike = {.prefix = id_or_prefix};
    struct job_name_row key = {.ns = q->ns, .jid = id_or_prefix};
    struct scan scan = {.table = TABLE_job_name,
                        .index = -1,
                        .prefix = &key,
                        .prefix_count = 1,
                        .after = &key,
                        .limit = IDS_SHOWN};
    int64_t job = 0;
    int rc;
    QP_TRY(id_check(id_or_prefix, "job id", err));
    arena_init(&arena, store_env(q->store), 0);
    rc = job_number(q, &arena, id_or_prefix, &job, err);
    arena_done(&arena);
    if (rc == QP_OK) {
        memcpy(out_id, id_or_prefix.p, id_or_prefix.n);
        out_id[id_or_prefix.n] = '\0';
    }
    if (rc != QP_E_NOT_FOUND) {
        return rc;
    }
    QP_TRY(store_scan(q->store, &scan, &alike, each_alike, err));
    return only_one(&alike, out_id, err);
}

struct qp_job_info query_info(const struct query *q, const struct job_row *job)
{
    return (struct qp_job_info){.ns = q->ns_name,
                                .id = job->jid,
                                .workflow = job->workflow,
                                .version = job->version,
                                .custom_id = job->custom_id,
                                .forked_from = job->forked_from,
                                .status = status_word(job->status),
                                .parked = job->parked,
                                .error = job->error,
                                .limit_key = job->limit_key,
                                .priority = job->priority,
                                .created_at = job->created_at,
                                .updated_at = job->updated_at,
                                .closed_at = job->closed_at,
                                .expire_at = job->expire_at,
                                .open = job->sem,
                                .seq = job->seq};
}

/* ------------------------------------------------------------------------------ what became of a job */

/* In the one shape, also where the row has a sentence: why it was parked, or what an older version wrote. */
static int job_error(struct arena *arena, const struct job_row *job, qp_str *out_error,
                     struct qp_err *err)
{
    qp_str text = job->parked.p != NULL ? job->parked : job->error;
    *out_error = text;
    if (str_is_none(text) || error_has_shape(text)) {
        return QP_OK;
    }
    return error_shape(arena, text, &(struct error){.code = ERROR_CODE}, out_error) == QP_OK
               ? QP_OK
               : err_set(err, QP_E_NOMEM, "job: out of memory");
}

/* What the row says, or the job's kind knows better. */
static int job_output(const struct query *q, struct arena *arena, struct query_outcome *o,
                      struct qp_err *err)
{
    struct sight sight = {q->store, arena, o->job, err};
    const struct faced *of = query_face(q, o->job);
    o->output = o->job->state == JOB_COMPLETED ? o->job->output : QP_NONE;
    return of == NULL || of->face->outcome == NULL
               ? QP_OK
               : of->face->outcome(of->state, &sight, &o->output, &o->ledger);
}

static int add_failures(void *context, const void *row)
{
    *(int64_t *)context += ((const struct act_row *)row)->attempt;
    return QP_OK;
}

static int job_failures(const struct query *q, const struct job_row *job, int64_t *out_failures,
                        struct qp_err *err)
{
    struct act_row key = {.ns = job->ns, .job = job->job};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &key,
                        .prefix_count = 2,
                        .limit = SIZE_MAX,
                        .slim = true};
    *out_failures = 0;
    return store_scan(q->store, &scan, out_failures, add_failures, err);
}

static int outcome(const struct query *q, struct arena *arena, qp_str id, struct query_outcome *o,
                   struct qp_err *err)
{
    QP_TRY(query_find(q, arena, id, &o->job, err));
    QP_TRY(job_output(q, arena, o, err));
    QP_TRY(job_error(arena, o->job, &o->error, err));
    return job_failures(q, o->job, &o->failures, err);
}

int query_outcome(const struct query *q, struct arena *arena, qp_str id,
                  struct query_outcome *out_outcome, struct qp_err *err)
{
    struct query_outcome o = {0};
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(q->store, err));
    rc = outcome(q, arena, id, &o, err);
    end = store_snapshot_end(q->store, rc == QP_OK ? err : NULL);
    if (rc != QP_OK || end != QP_OK) {
        return rc != QP_OK ? rc : end;
    }
    *out_outcome = o;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------ all of a job */

struct showing {
    const struct query *q;
    struct arena arena;
    const struct job_row *job;
    struct qp_job_info info;
    struct qp_attribute attributes[ATTRIBUTES_MOST];
    int rc; /* of memory */
};

/* A row that may be missing. */
static int may_get(struct showing *s, enum table_id table, const void *key, const void **out_row,
                   struct qp_err *err)
{
    int rc = store_get(s->q->store, &s->arena, table, key, out_row, err);
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* What the job was started with: on its trigger, or, when it has not begun, in the message that will. */
static int show_input(struct showing *s, struct qp_err *err)
{
    const struct job_row *job = s->job;
    struct act_row trigger = {.ns = job->ns, .job = job->job, .addr = TRIGGER_ADDRESS};
    struct msg_row start = {.ns = job->ns, .job = job->job, .guid = job->owner_guid};
    const void *row = NULL;
    int rc = may_get(s, TABLE_act, &trigger, &row, err);
    if (rc != QP_OK || row != NULL) {
        s->info.input = row == NULL ? QP_NONE : ((const struct act_row *)row)->input;
        return rc;
    }
    rc = may_get(s, TABLE_msg, &start, &row, err);
    if (rc == QP_OK && row != NULL) {
        const struct msg_row *message = row;
        s->info.input = message->payload;
        s->info.begin_at = message->state == MSG_DELAYED ? message->wake_at : 0;
    }
    return rc;
}

static int show_parent(struct showing *s, struct qp_err *err)
{
    struct job_row key = {.ns = s->job->ns, .job = s->job->parent_job};
    const void *row = NULL;
    int rc = key.job == 0 ? QP_OK : may_get(s, TABLE_job, &key, &row, err);
    s->info.parent = row == NULL ? QP_NONE : ((const struct job_row *)row)->jid;
    return rc;
}

static int each_attribute(void *context, const void *row)
{
    struct showing *s = context;
    const struct attr_row *attr = row_copy(&s->arena, TABLE_attr, row);
    if (attr == NULL) {
        return QP_E_NOMEM;
    }
    if (str_equal(attr->name, RETRIED_AS)) {
        s->info.retried_as = attr->value;
        return QP_OK;
    }
    s->attributes[s->info.attribute_count++] =
        (struct qp_attribute){.name = attr->name, .value = attr->value};
    return QP_OK;
}

static int show_attributes(struct showing *s, struct qp_err *err)
{
    struct attr_row prefix = {.ns = s->job->ns, .job = s->job->job};
    struct scan scan = {.table = TABLE_attr,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = ATTRIBUTES_MOST};
    int rc = store_scan(s->q->store, &scan, s, each_attribute, err);
    s->info.attributes = s->attributes;
    return rc;
}

/* What the kind has noted on a task that went back. */
static int show_note(struct showing *s, const struct msg_row *m)
{
    const struct faced *of = query_face(s->q, s->job);
    qp_str text = of == NULL || of->face->describe_note == NULL
                      ? QP_NONE
                      : of->face->describe_note(of->state, m->error);
    return str_is_none(text) || arena_copy(&s->arena, text, &s->info.awaits) ? QP_OK : QP_E_NOMEM;
}

/* The first task that waits in its stream. */
static int each_message(void *context, const void *row)
{
    struct showing *s = context;
    const struct msg_row *m = row;
    if (m->kind == MESSAGE_TASK && !str_is_none(m->error)) {
        QP_TRY(show_note(s, m));
    }
    if (m->kind == MESSAGE_TASK && m->state == MSG_READY && str_is_none(s->info.unserved_topic) &&
        !arena_copy(&s->arena, m->topic, &s->info.unserved_topic)) {
        return QP_E_NOMEM;
    }
    return QP_OK;
}

static int show_waiting(struct showing *s, struct qp_err *err)
{
    struct msg_row prefix = {.ns = s->job->ns, .job = s->job->job};
    struct scan scan = {.table = TABLE_msg,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = LIMIT_PAGE_ROWS};
    return s->job->state == JOB_OPEN ? store_scan(s->q->store, &scan, s, each_message, err) : QP_OK;
}

/* What the job's kind tells beside its rows. */
static int show_kind(struct showing *s, struct qp_err *err)
{
    struct sight sight = {s->q->store, &s->arena, s->job, err};
    const struct faced *of = query_face(s->q, s->job);
    return of == NULL || of->face->describe_job == NULL
               ? QP_OK
               : of->face->describe_job(of->state, &sight, &s->info);
}

static int show_properties(struct showing *s, struct qp_err *err)
{
    return properties_read(s->q->store, &s->arena, s->job, &s->info.properties, err);
}

static int show(struct showing *s, qp_str id, struct qp_err *err)
{
    int rc = query_find(s->q, &s->arena, id, &s->job, err);
    if (rc != QP_OK) {
        return rc;
    }
    s->info = query_info(s->q, s->job);
    s->info.output = s->job->state == JOB_COMPLETED ? s->job->output : QP_NONE;
    QP_TRY(show_input(s, err));
    QP_TRY(show_parent(s, err));
    QP_TRY(show_attributes(s, err));
    QP_TRY(show_waiting(s, err));
    QP_TRY(show_properties(s, err));
    return show_kind(s, err);
}

/* All that is told of a job was true at one moment. */
static int show_at_once(struct showing *s, qp_str id, struct qp_err *err)
{
    int rc = FP("query.show");
    int end;
    rc = rc == QP_OK ? store_snapshot_begin(s->q->store, err)
                     : err_set(err, rc, "job: %s", qp_code_text(rc));
    if (rc != QP_OK) {
        return rc;
    }
    rc = show(s, id, err);
    end = store_snapshot_end(s->q->store, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

int query_show(const struct query *q, qp_str id_or_prefix, void *context, qp_job_visit visit,
               struct qp_err *err)
{
    struct showing *s = mem_alloc(store_env(q->store), sizeof *s);
    char id[QP_ID_SIZE];
    int rc = s == NULL ? err_set(err, QP_E_NOMEM, "job: out of memory")
                       : query_resolve(q, id_or_prefix, id, err);
    if (rc == QP_OK) {
        s->q = q;
        arena_init(&s->arena, store_env(q->store), 0);
        rc = show_at_once(s, str_from(id), err);
        rc = rc == QP_OK ? visit(context, &s->info) : rc;
        arena_done(&s->arena);
    }
    mem_free(store_env(q->store), s);
    return rc;
}
