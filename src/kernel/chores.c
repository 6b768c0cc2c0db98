/* chores.c - fan-out of a signal, sweeping, retention of jobs and of the feed (see chores.h)
 *
 *   I1  a target's GUID follows from the sender's and the target's registration: whoever got the
 *       signal does not get it twice
 *   I2  the page and the message that stands for the rest are one commit
 */
#include "kernel/chores.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernel/turn.h"

/* ---------------------------------------------------------------------------------------- fan-out */

/* "snapshot seq size-of-key\n" key payload */
int fanout_payload(struct arena *a, const struct fanout *f, qp_str *out_payload)
{
    char head[80];
    int n = snprintf(head, sizeof head, "%lld %lld %zu\n", (long long)f->snapshot,
                     (long long)f->seq, f->key.n);
    size_t size = (size_t)n + f->key.n + f->payload.n;
    char *p = size > LIMIT_PAYLOAD_HARD_SIZE ? NULL : arena_bytes(a, size);
    if (p == NULL) {
        return size > LIMIT_PAYLOAD_HARD_SIZE ? QP_E_TOO_LARGE : QP_E_NOMEM;
    }
    memcpy(p, head, (size_t)n);
    if (f->key.n > 0) {
        memcpy(p + n, f->key.p, f->key.n);
    }
    if (f->payload.n > 0) {
        memcpy(p + n + f->key.n, f->payload.p, f->payload.n);
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

int fanout_parse(qp_str payload, struct fanout *out_fanout)
{
    char head[80] = {0};
    const char *place = head;
    const char *end = payload.n > 0 ? memchr(payload.p, '\n', payload.n) : NULL;
    size_t head_size = end == NULL ? sizeof head : (size_t)(end - payload.p) + 1;
    struct fanout f;
    int64_t key_size;
    if (head_size >= sizeof head) {
        return QP_E_CORRUPT;
    }
    memcpy(head, payload.p, head_size);
    if (!head_number(&place, &f.snapshot) || !head_number(&place, &f.seq) ||
        !head_number(&place, &key_size) || (size_t)key_size > payload.n - head_size) {
        return QP_E_CORRUPT;
    }
    f.key = (qp_str){payload.p + head_size, (size_t)key_size};
    f.payload = (qp_str){f.key.p + f.key.n, payload.n - head_size - f.key.n};
    *out_fanout = f;
    return QP_OK;
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
                                    .seq = w->seq}};
    int n = snprintf(target, sizeof target, "%lld/%lld/%.*s", (long long)w->job, (long long)w->seq,
                     STR_ARG(w->hkey));
    int rc = step_guid(b, m->parent_guid, (qp_str){target, (size_t)n}, &op.hook_signal.guid);
    return rc == QP_OK ? step_op(b, &op) : rc;
}

/* The message that stands for the pages that are left. */
static int fanout_next(struct bundle *b, const struct msg_row *m, const struct fanout *rest)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {m->ns, m->job},
                                .owner = m->owner,
                                .kind = m->kind,
                                .topic = m->topic,
                                .addr = m->addr,
                                .parent_guid = m->parent_guid,
                                .code = m->code}};
    int rc = fanout_payload(&b->commit->arena, rest, &op.msg_put.payload);
    rc = rc == QP_OK ? step_guid(b, m->guid, QP_STR("next"), &op.msg_put.guid) : rc;
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
    int rc = fanout_parse(m->payload, &f);
    if (rc != QP_OK) {
        return rc;
    }
    place.hkey = f.key;
    place.seq = f.seq;
    scan.after = f.snapshot > 0 ? &place : NULL;
    f.snapshot = f.snapshot > 0 ? f.snapshot : m->ord;
    rc = bundle_scan(b, &scan, &page);
    for (size_t i = 0; i < page.count && rc == QP_OK; i++) {
        const struct hook_wait_row *w = page.rows[i];
        rc = w->seq <= f.snapshot ? fanout_send(b, m, w, f.payload) : QP_OK;
        f.seq = w->seq;
        f.key = w->hkey;
    }
    if (rc == QP_OK && (page.count == scan.limit || page.cut)) {
        rc = fanout_next(b, m, &f);
    }
    return rc;
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
    struct op next = {.kind = OP_msg_put,
                      .msg_put = {.ref = {m->ns, m->job},
                                  .owner = m->owner,
                                  .kind = m->kind,
                                  .topic = m->topic,
                                  .payload = m->payload}};
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
    if (rc != QP_OK || !sweep->job_sweep.out_more) {
        return rc;
    }
    rc = step_guid(b, m->guid, QP_STR("next"), &next.msg_put.guid);
    return rc == QP_OK ? step_op(b, &next) : rc;
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
