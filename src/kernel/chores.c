/* chores.c - fan-out of a signal, ends that go further, sweeping, retention of jobs and of the feed (see chores.h)
 *
 *   I1  a target's GUID follows from the sender's and the target's registration: whoever got the
 *       signal does not get it twice
 *   I2  the page and the message that stands for the rest are one commit
 */
#include "kernel/chores.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernel/face.h"
#include "kernel/message.h"

/* ---------------------------------------------------------------------------------------- fan-out */

#define HEAD_SIZE 160

/* A head of numbers that ends with a line, and the texts behind it, in one. */
static int payload_make(struct arena *a, const char *head, const qp_str *texts, size_t count,
                        qp_str *out_payload)
{
    size_t size = strlen(head);
    size_t at = size;
    char *p;
    for (size_t i = 0; i < count; i++) {
        size += texts[i].n;
    }
    p = size > LIMIT_PAYLOAD_HARD_SIZE ? NULL : arena_bytes(a, size);
    if (p == NULL) {
        return size > LIMIT_PAYLOAD_HARD_SIZE ? QP_E_TOO_LARGE : QP_E_NOMEM;
    }
    memcpy(p, head, at);
    for (size_t i = 0; i < count; i++) {
        if (texts[i].n > 0) {
            memcpy(p + at, texts[i].p, texts[i].n);
        }
        at += texts[i].n;
    }
    *out_payload = (qp_str){p, size};
    return QP_OK;
}

/* The next number of the head; false when there is none. */
static bool head_number(const char **place, int64_t *out_number)
{
    char *end;
    long long number = strtoll(*place, &end, 10);
    if (end == *place || number < 0) {
        return false;
    }
    *place = end;
    *out_number = number;
    return true;
}

/* The head as a text of its own, and what is behind it. */
static int payload_split(qp_str payload, char out_head[HEAD_SIZE], qp_str *out_rest)
{
    const char *end = payload.n > 0 ? memchr(payload.p, '\n', payload.n) : NULL;
    size_t size = end == NULL ? HEAD_SIZE : (size_t)(end - payload.p) + 1;
    if (size >= HEAD_SIZE) {
        return QP_E_CORRUPT;
    }
    memcpy(out_head, payload.p, size);
    out_head[size] = '\0';
    *out_rest = (qp_str){payload.p + size, payload.n - size};
    return QP_OK;
}

/* The first bytes of the rest, as many as the head says next. */
static bool take_text(const char **place, qp_str *rest, qp_str *out_text)
{
    int64_t size;
    if (!head_number(place, &size) || (size_t)size > rest->n) {
        return false;
    }
    *out_text = (qp_str){rest->p, (size_t)size};
    *rest = (qp_str){rest->p + size, rest->n - (size_t)size};
    return true;
}

/* "snapshot seq size-of-key size-of-attribute size-of-value\n" key attribute value payload; what has no filter
 * may lack the last two sizes. */
int fanout_payload(struct arena *a, const struct fanout *f, qp_str *out_payload)
{
    char head[HEAD_SIZE];
    qp_str texts[] = {f->key, f->attribute, f->value, f->payload};
    (void)snprintf(head, sizeof head, "%lld %lld %zu %zu %zu\n", (long long)f->snapshot,
                   (long long)f->seq, f->key.n, f->attribute.n, f->value.n);
    return payload_make(a, head, texts, ARRAY_COUNT(texts), out_payload);
}

/* Messages of an older version say nothing of a filter. */
static bool take_filter(const char **place, struct fanout *f)
{
    return **place == '\n' || (take_text(place, &f->payload, &f->attribute) &&
                               take_text(place, &f->payload, &f->value));
}

int fanout_parse(qp_str payload, struct fanout *out_fanout)
{
    char head[HEAD_SIZE];
    const char *place = head;
    struct fanout f = {0};
    int rc = payload_split(payload, head, &f.payload);
    if (rc == QP_OK && (!head_number(&place, &f.snapshot) || !head_number(&place, &f.seq) ||
                        !take_text(&place, &f.payload, &f.key) || !take_filter(&place, &f))) {
        rc = QP_E_CORRUPT;
    }
    if (rc == QP_OK) {
        *out_fanout = f;
    }
    return rc;
}

/* Whether the waiter's job is one that the signal is for. */
static int fanout_fits(struct bundle *b, const struct fanout *f, const struct hook_wait_row *w,
                       bool *out_fits)
{
    struct attr_row key = {.ns = w->ns, .job = w->job, .name = f->attribute};
    const void *row = NULL;
    int rc = f->attribute.n > 0 ? bundle_get(b, TABLE_attr, &key, &row) : QP_OK;
    *out_fits = f->attribute.n == 0 ||
                (row != NULL && str_equal(((const struct attr_row *)row)->value, f->value));
    return rc;
}

/* The signal to one waiter. */
static int fanout_send(struct bundle *b, const struct msg_row *m, const struct hook_wait_row *w,
                       qp_str payload)
{
    char target[48 + LIMIT_ID_SIZE]; /* two of one job may wait at one key */
    struct op op = {.kind = OP_hook_signal,
                    .hook_signal = {.ns = w->ns,
                                    .topic = w->topic,
                                    .key = w->hkey,
                                    .payload = payload,
                                    .code = m->code,
                                    .seq = w->seq,
                                    .keep = m->code == CODE_PENDING}};
    int n = snprintf(target, sizeof target, "%lld/%lld/%.*s", (long long)w->job, (long long)w->seq,
                     STR_ARG(w->hkey));
    int rc = step_guid(b, m->parent_guid, (qp_str){target, (size_t)n}, &op.hook_signal.guid);
    return rc == QP_OK ? step_op(b, &op) : rc;
}

/* The message that stands for the pages that are left. */
static int put_next(struct bundle *b, const struct msg_row *m, qp_str payload)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {m->ns, m->job},
                                .owner = m->owner,
                                .kind = m->kind,
                                .topic = m->topic,
                                .addr = m->addr,
                                .parent_guid = m->parent_guid,
                                .payload = payload,
                                .code = m->code}};
    int rc = step_guid(b, m->guid, QP_STR("next"), &op.msg_put.guid);
    return rc == QP_OK ? step_op(b, &op) : rc;
}

int fanout_page(struct bundle *b, const struct msg_row *m)
{
    struct fanout f;
    struct hook_wait_row place = {.ns = m->ns, .topic = m->addr};
    struct scan scan = {.table = TABLE_hook_wait,
                        .index = -1,
                        .prefix = &place,
                        .prefix_count = 2,
                        .limit = LIMIT_FANOUT_TARGETS};
    struct bundle_rows page;
    size_t size =
        0; /* of what was sent: a page is a bundle, and everybody gets the whole payload */
    size_t done = 0;
    int rc = fanout_parse(m->payload, &f);
    if (rc != QP_OK) {
        return rc;
    }
    place.hkey = f.key;
    place.seq = f.seq;
    scan.after = f.snapshot > 0 ? &place : NULL;
    f.snapshot = f.snapshot > 0 ? f.snapshot : m->ord;
    rc = bundle_scan(b, &scan, &page);
    for (; done < page.count && size < LIMIT_FANOUT_SIZE && rc == QP_OK; done++) {
        const struct hook_wait_row *w = page.rows[done];
        bool fits = false;
        rc = w->seq <= f.snapshot ? fanout_fits(b, &f, w, &fits) : QP_OK;
        rc = rc == QP_OK && fits ? fanout_send(b, m, w, f.payload) : rc;
        size += fits ? f.payload.n : 0;
        f.seq = w->seq;
        f.key = w->hkey;
    }
    if (rc == QP_OK && (done < page.count || page.count == scan.limit || page.cut)) {
        qp_str rest;
        rc = fanout_payload(&b->commit->arena, &f, &rest);
        rc = rc == QP_OK ? put_next(b, m, rest) : rc;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------ going further */

/* "job after\n" error */
int descent_payload(struct arena *a, const struct descent *d, qp_str *out_payload)
{
    char head[HEAD_SIZE];
    (void)snprintf(head, sizeof head, "%lld %lld\n", (long long)d->job, (long long)d->after);
    return payload_make(a, head, &d->error, 1, out_payload);
}

int descent_parse(qp_str payload, struct descent *out_descent)
{
    char head[HEAD_SIZE];
    const char *place = head;
    struct descent d = {0};
    int rc = payload_split(payload, head, &d.error);
    if (rc == QP_OK && (!head_number(&place, &d.job) || !head_number(&place, &d.after))) {
        rc = QP_E_CORRUPT;
    }
    if (rc == QP_OK) {
        *out_descent = d;
    }
    return rc;
}

/* How a called job ends: as the one that called it did, and with it those that it has called itself; or as its policy says. 0: it
 * goes on. */
static int64_t descend_code(const struct msg_row *m, const struct job_row *job)
{
    return m->code == END_BY_POLICY ? close_code((enum close_policy)job->close)
                                    : end_code((enum job_state)m->code, true);
}

/* The activity that awaited it has its answer, and the job goes on behind that. */
static int has_answered(struct bundle *b, const struct job_row *job, bool *out_answered)
{
    struct guid_row key = {
        .ns = job->ns, .job = job->parent_job, .addr = job->parent_addr, .guid = job->parent_guid};
    struct guid_row found;
    *out_answered = false;
    return str_is_none(key.guid) ? QP_OK : bundle_guid(b, &key, &found, out_answered);
}

static int descend_to(struct bundle *b, const struct msg_row *m, const struct job_row *job,
                      qp_str error)
{
    bool answered = false;
    char number[24];
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {job->ns, job->job},
                                .kind = MESSAGE_END,
                                .topic = ENGINE_TOPIC,
                                .addr = TRIGGER_ADDRESS,
                                .payload = error,
                                .code = descend_code(m, job),
                                .once = true}};
    int n = snprintf(number, sizeof number, "%lld", (long long)job->job);
    int rc;
    if (op.msg_put.code != 0 && m->code == END_BY_POLICY) {
        QP_TRY(has_answered(b, job, &answered));
    }
    if (op.msg_put.code == 0 || answered) {
        return QP_OK;
    }
    rc = step_guid(b, m->parent_guid, (qp_str){number, (size_t)n}, &op.msg_put.guid);
    return rc == QP_OK ? step_op(b, &op) : rc;
}

int descend_page(struct bundle *b, const struct msg_row *m)
{
    struct descent d;
    struct job_row place = {.ns = m->ns};
    struct scan scan = {.table = TABLE_job,
                        .index = INDEX_job_parent,
                        .prefix = &place,
                        .prefix_count = 2,
                        .limit = LIMIT_DESCENT_JOBS};
    struct bundle_rows page = {0};
    qp_str rest;
    int rc = descent_parse(m->payload, &d);
    if (rc == QP_OK) {
        place.parent_job = d.job;
        place.job = d.after;
        scan.after = d.after > 0 ? &place : NULL;
        rc = bundle_scan(b, &scan, &page);
    }
    for (size_t i = 0; i < page.count && rc == QP_OK; i++) {
        const struct job_row *job = page.rows[i];
        rc = job->closed_by.p == NULL ? descend_to(b, m, job, d.error) : QP_OK;
        d.after = job->job;
    }
    if (rc == QP_OK && (page.cut || page.count == scan.limit)) {
        rc = descent_payload(&b->commit->arena, &d, &rest);
        rc = rc == QP_OK ? put_next(b, m, rest) : rc;
    }
    return rc;
}

/* --------------------------------------------------------------------------------------- collecting */

/* "at after\n" version */
int collect_payload(struct arena *a, const struct collect *c, qp_str *out_payload)
{
    char head[HEAD_SIZE];
    (void)snprintf(head, sizeof head, "%lld %lld\n", (long long)c->at, (long long)c->after);
    return payload_make(a, head, &c->version, 1, out_payload);
}

int collect_parse(qp_str payload, struct collect *out_collect)
{
    char head[HEAD_SIZE];
    const char *place = head;
    struct collect c = {0};
    QP_TRY(payload_split(payload, head, &c.version));
    if (!head_number(&place, &c.at) || !head_number(&place, &c.after)) {
        return QP_E_CORRUPT;
    }
    *out_collect = c;
    return QP_OK;
}

static int collect_put(struct bundle *b, int64_t ns, qp_str from, const struct collect *c,
                       qp_ms delay_ms)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {ns, 0},
                                .owner = OWNER_SYSTEM,
                                .kind = MESSAGE_COLLECT,
                                .topic = ENGINE_TOPIC,
                                .delay_ms = delay_ms,
                                .once = true}};
    QP_TRY(collect_payload(&b->commit->arena, c, &op.msg_put.payload));
    QP_TRY(step_guid(b, from, op.msg_put.payload, &op.msg_put.guid));
    return step_op(b, &op);
}

int delete_version(struct bundle *b, const struct op_app_delete *op, qp_str version)
{
    struct collect c = {.version = version};
    struct op *place = bundle_op(b, OP_app_delete);
    if (place == NULL) {
        return b->commit->rc;
    }
    place->app_delete = *op;
    QP_TRY(bundle_run(b));
    c.at = place->app_delete.out_at;
    return collect_put(b, op->ns, QP_STR("collect"), &c, LIMIT_APP_KEEP_MS);
}

/* A page of jobs, until one is open and needs the version. */
struct needing {
    const struct faces *faces;
    qp_str version;
    int64_t last;
    size_t count;
    bool needed;
};

static int see_need(void *context, const void *row)
{
    struct needing *n = context;
    const struct job_row *job = row;
    n->count++;
    n->last = job->job;
    n->needed = n->needed || faces_need(n->faces, job, n->version);
    return QP_OK;
}

/* The row, as long as it is the one that this message is about. */
static int collect_row(struct bundle *b, int64_t ns, const struct collect *c,
                       struct op_app_collect *out_op, bool *out_there)
{
    const char *slash = c->version.n > 0 ? memchr(c->version.p, '/', c->version.n) : NULL;
    size_t n = slash == NULL ? 0 : (size_t)(slash - c->version.p);
    struct app_row key = {.ns = ns};
    const void *row = NULL;
    if (slash == NULL) {
        return QP_E_CORRUPT;
    }
    key.app = (qp_str){c->version.p, n};
    key.version = (qp_str){slash + 1, c->version.n - n - 1};
    QP_TRY(bundle_get(b, TABLE_app, &key, &row));
    *out_there = row != NULL && ((const struct app_row *)row)->state == APP_DELETED &&
                 ((const struct app_row *)row)->activated_at == c->at;
    *out_op = (struct op_app_collect){ns, key.app, key.version, c->at};
    return QP_OK;
}

int collect_page(struct bundle *b, const struct msg_row *m, const struct faces *faces)
{
    struct collect c;
    struct job_row place = {.ns = m->ns};
    struct op op = {.kind = OP_app_collect};
    struct needing need = {.faces = faces};
    struct scan scan = {.table = TABLE_job,
                        .index = -1,
                        .prefix = &place,
                        .prefix_count = 1,
                        .limit = LIMIT_COLLECT_JOBS,
                        .slim = true};
    bool there = false;
    QP_TRY(collect_parse(m->payload, &c));
    QP_TRY(collect_row(b, m->ns, &c, &op.app_collect, &there));
    if (!there) {
        return QP_OK; /* it was deployed again, or is gone */
    }
    place.job = c.after;
    scan.after = c.after > 0 ? &place : NULL;
    need.version = c.version;
    QP_TRY(bundle_each(b, &scan, &need, see_need));
    c.after = need.needed ? 0 : need.last;
    if (need.needed || need.count == scan.limit) {
        return collect_put(b, m->ns, m->guid, &c, need.needed ? LIMIT_APP_KEEP_MS : 0);
    }
    return step_op(b, &op);
}

/* --------------------------------------------------------------------------------- sweep and keep */

/* The job that a SWEEP message is about. */
static int sweep_job(struct bundle *b, const struct msg_row *m, const struct job_row **out_job)
{
    char number[24] = {0};
    const void *row = NULL;
    int rc;
    if (m->payload.n >= sizeof number) {
        return QP_E_CORRUPT;
    }
    memcpy(number, m->payload.p, m->payload.n);
    rc = bundle_get(b, TABLE_job, &(struct job_row){.ns = m->ns, .job = strtoll(number, NULL, 10)},
                    &row);
    *out_job = row;
    return rc;
}

int sweep_page(struct bundle *b, const struct msg_row *m)
{
    const struct job_row *job;
    struct op *sweep;
    int rc = sweep_job(b, m, &job);
    if (rc != QP_OK || job == NULL) {
        return rc; /* retention was faster */
    }
    sweep = bundle_op(b, OP_job_sweep);
    if (sweep == NULL) {
        return b->commit->rc;
    }
    sweep->job_sweep = (struct op_job_sweep){.ref = {job->ns, job->job}, .limit = LIMIT_SWEEP_ROWS};
    rc = bundle_run(b);
    return rc == QP_OK && sweep->job_sweep.out_more ? put_next(b, m, m->payload) : rc;
}

/* The end of an open job comes as a message, once: it is worked on, and counted, as any other. */
static int expire(struct bundle *b, const struct job_row *job)
{
    struct op never = {.kind = OP_job_set,
                       .job_set = {.ref = {job->ns, job->job}, .what = JOB_SET_EXPIRE}};
    struct op end = {.kind = OP_msg_put,
                     .msg_put = {.ref = {job->ns, job->job},
                                 .kind = MESSAGE_END,
                                 .topic = ENGINE_TOPIC,
                                 .addr = TRIGGER_ADDRESS,
                                 .payload = QP_STR("timed out: the job's time is over"),
                                 .code = JOB_FAILED,
                                 .once = true}};
    int rc = step_guid(b, job->owner_guid, QP_STR("expire"), &end.msg_put.guid);
    rc = rc == QP_OK ? step_op(b, &never) : rc;
    return rc == QP_OK ? step_op(b, &end) : rc;
}

static int job_forget(struct bundle *b, const struct job_row *job)
{
    struct op op = {.kind = OP_job_delete,
                    .job_delete = {.ref = {job->ns, job->job}, .limit = LIMIT_SWEEP_ROWS}};
    return step_op(b, &op);
}

int retention_page(struct bundle *b, bool *out_more)
{
    struct scan scan = {.table = TABLE_job,
                        .index = INDEX_job_expire,
                        .prefix = &(struct job_row){0},
                        .limit = LIMIT_RETENTION_JOBS,
                        .skip_locked = true};
    struct bundle_rows due = {0};
    int rc = bundle_scan(b, &scan, &due);
    *out_more = false;
    for (size_t i = 0; i < due.count && rc == QP_OK; i++) {
        const struct job_row *job = due.rows[i];
        if (job->expire_at > bundle_now(b)) {
            return QP_OK;
        }
        rc = job->completions > 0 ? job_forget(b, job) : expire(b, job);
        rc = rc == QP_OK ? bundle_run(b) : rc;
        *out_more = true;
    }
    return rc;
}

/* The last position of a page of the feed that is old enough, and not the newest of all; 0: none. */
static int64_t feed_old(const struct bundle_rows *page, bool whole, qp_ms before)
{
    size_t count = whole && page->count > 0 ? page->count - 1 : page->count;
    int64_t upto = 0;
    for (size_t i = 0; i < count; i++) {
        const struct feed_row *row = page->rows[i];
        if (row->at >= before) {
            break;
        }
        upto = row->pos;
    }
    return upto;
}

int feed_page(struct bundle *b, qp_ms before, bool *out_more)
{
    struct feed_row prefix = {.ns = 0};
    struct scan scan = {
        .table = TABLE_feed, .index = -1, .prefix = &prefix, .prefix_count = 1, .limit = 1};
    struct bundle_rows page;
    struct op *trim;
    int64_t upto;
    int rc = bundle_scan(b, &scan, &page);
    *out_more = false;
    if (rc != QP_OK || feed_old(&page, false, before) == 0) {
        return rc; /* mostly nothing is */
    }
    scan.limit = LIMIT_SWEEP_ROWS;
    rc = bundle_scan(b, &scan, &page);
    upto = rc == QP_OK ? feed_old(&page, page.count < scan.limit && !page.cut, before) : 0;
    if (upto == 0) {
        return rc;
    }
    trim = bundle_op(b, OP_feed_trim);
    if (trim == NULL) {
        return b->commit->rc;
    }
    trim->feed_trim = (struct op_feed_trim){.upto = upto, .limit = LIMIT_SWEEP_ROWS};
    rc = bundle_run(b);
    *out_more = rc == QP_OK && trim->feed_trim.out_more;
    return rc;
}

int housekeeping_page(struct bundle *b, qp_ms feed_before, struct housekeeping *out)
{
    int rc;
    *out = (struct housekeeping){0};
    rc = bundle_tidies(b, &out->ours);
    rc = rc == QP_OK && out->ours ? retention_page(b, &out->more) : rc;
    return rc == QP_OK && out->ours && feed_before > 0 ? feed_page(b, feed_before, &out->feed_more)
                                                       : rc;
}
