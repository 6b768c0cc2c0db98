/* meet.c - where programs wait for signals, and send them (see program.h)
 *
 *   I1  a signal's GUID follows from its sender, its topic and its key: a step that runs again sends nothing
 *       that is not recognised
 *   I2  whoever will not take a signal any more is gone from the hook in the commit that says so: no signal is
 *       given to somebody who has left (H13)
 *
 * If we crash before the commit of a step, nobody waits, and nothing was sent; after it, whoever waited has the
 * signal as a message, or it is kept.
 */
#include "kernel/chores.h"
#include "kernel/outside.h"
#include "kernel/signal_job.h"
#include "kernel/turn_internal.h"

int turn_hook(struct turn *t, qp_str topic, qp_str key, bool keep)
{
    struct op op = {.kind = OP_hook_open,
                    .hook_open = {.ref = t->site.ref,
                                  .topic = topic,
                                  .key = key,
                                  .addr = t->site.addr,
                                  .parent_guid = t->site.guid,
                                  .msg_topic = ENGINE_TOPIC,
                                  .keep = keep}};
    turn_wait(t);
    return turn_op(t, &op);
}

int turn_listen(struct turn *t, const struct turn_listen *listen)
{
    qp_str *topics = arena_alloc(turn_arena(t), listen->name_count * sizeof *topics);
    struct op op = {.kind = OP_hook_open,
                    .hook_open = {.ref = t->site.ref,
                                  .key = t->job->jid,
                                  .addr = t->site.addr,
                                  .parent_guid = t->site.guid,
                                  .msg_topic = ENGINE_TOPIC,
                                  .names = topics,
                                  .name_count = listen->name_count,
                                  .limit = listen->limit}};
    QP_ASSERT(t->program->takes_signals && listen->name_count > 0);
    if (topics == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < listen->name_count; i++) {
        QP_TRY(signal_name_topic(turn_arena(t), listen->names[i], &topics[i]));
    }
    turn_wait(t);
    return turn_op(t, &op);
}

/* All rows of an index that begins with the job and an address, and are about this activity, until one is enough
 * (*out_found). */
static int rows_here(struct turn *t, struct scan *scan,
                     int (*visit)(struct turn *t, const void *row, bool *out_found), bool goes_on,
                     bool *out_found)
{
    struct bundle_rows page = {0};
    int rc = bundle_run(t->bundle);
    *out_found = false;
    scan->prefix_count = 3; /* ns, job, addr */
    scan->limit = LIMIT_SWEEP_ROWS;
    do {
        scan->after = page.count > 0 ? page.rows[page.count - 1] : NULL;
        rc = rc == QP_OK ? bundle_scan(t->bundle, scan, &page) : rc;
        for (size_t i = 0; i < page.count && rc == QP_OK && (goes_on || !*out_found); i++) {
            rc = visit(t, page.rows[i], out_found);
        }
    } while (rc == QP_OK && (goes_on || !*out_found) && (page.count == scan->limit || page.cut));
    return rc == QP_OK ? bundle_run(t->bundle) : rc;
}

static int is_another(struct turn *t, const void *row, bool *out_found)
{
    const struct msg_row *m = row;
    *out_found = !str_equal(m->guid, t->site.guid);
    return QP_OK;
}

int turn_hook_pending(struct turn *t, bool *out_pending)
{
    struct msg_row of = {.ns = t->site.ref.ns, .job = t->site.ref.job, .addr = t->site.addr};
    struct scan scan = {.table = TABLE_msg, .index = INDEX_msg_pending, .prefix = &of};
    return rows_here(t, &scan, is_another, false, out_pending);
}

static int close_wait(struct turn *t, const void *row, bool *out_found)
{
    const struct hook_wait_row *w = row;
    struct op op = {.kind = OP_hook_close,
                    .hook_close = {.ns = w->ns, .topic = w->topic, .key = w->hkey, .seq = w->seq}};
    *out_found = true;
    return turn_op(t, &op);
}

int turn_hook_close(struct turn *t, bool *out_waited)
{
    struct hook_wait_row of = {.ns = t->site.ref.ns, .job = t->site.ref.job, .addr = t->site.addr};
    struct scan scan = {.table = TABLE_hook_wait, .index = INDEX_hook_wait_job, .prefix = &of};
    return rows_here(t, &scan, close_wait, true, out_waited);
}

/* One per (topic, key): one activity may signal the same key at several topics. */
static int signal_guid(struct turn *t, qp_str topic, qp_str key, qp_str *out_guid)
{
    int rc = turn_guid(t, topic, out_guid);
    return rc == QP_OK ? step_guid(t->bundle, *out_guid, key, out_guid) : rc;
}

/* Asked before it is sent: an op that is refused ends its bundle, and who sends is to hear of it. */
static int signal_room(struct turn *t, struct turn_signal *s)
{
    struct hook_row key = {.ns = t->site.ref.ns, .topic = s->topic, .hkey = s->key};
    const void *row = NULL;
    const struct hook_row *hook = &key; /* as good as none: nobody waits, nothing is kept */
    int rc = bundle_run(t->bundle);
    rc = rc == QP_OK ? bundle_get(t->bundle, TABLE_hook, &key, &row) : rc;
    hook = row != NULL ? row : hook;
    s->out_full = s->ttl_ms > 0 && hook->waiting == 0 &&
                  (hook->pending >= LIMIT_SIGNALS_PENDING_PER_KEY ||
                   hook->pending_size + (int64_t)s->payload.n > LIMIT_SIGNALS_PENDING_SIZE);
    return rc;
}

int turn_signal(struct turn *t, struct turn_signal *s)
{
    struct op *op;
    int rc = signal_room(t, s);
    if (rc != QP_OK || s->out_full) {
        return rc;
    }
    op = bundle_op(t->bundle, OP_hook_signal);
    if (op == NULL) {
        return t->bundle->commit->rc;
    }
    op->hook_signal = (struct op_hook_signal){.ns = t->site.ref.ns,
                                              .topic = s->topic,
                                              .key = s->key,
                                              .payload = s->payload,
                                              .code = s->code > 0 ? s->code : 200,
                                              .ttl_ms = s->ttl_ms,
                                              .keep = s->code == CODE_PENDING};
    rc = signal_guid(t, s->topic, s->key, &op->hook_signal.guid);
    rc = rc == QP_OK ? bundle_run(t->bundle) : rc;
    if (rc == QP_OK) {
        s->out_delivered = op->hook_signal.out_delivered;
        s->out_kept = op->hook_signal.out_kept;
    }
    return rc;
}

int turn_signal_job(struct turn *t, const struct turn_signal_job *s)
{
    struct outside_to to = {.sender = t->site.ref.job,
                            .address = t->site.addr,
                            .workflow = s->workflow,
                            .id = s->job,
                            .payload = s->payload};
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {t->site.ref.ns, 0},
                                .owner = OWNER_SYSTEM,
                                .kind = MESSAGE_SIGNAL,
                                .topic = ENGINE_TOPIC,
                                .code = 200,
                                .once = true}};
    QP_TRY(signal_name_topic(turn_arena(t), s->name, &op.msg_put.addr));
    QP_TRY(signal_guid(t, op.msg_put.addr, s->job, &op.msg_put.guid));
    QP_TRY(outside_to_payload(turn_arena(t), &to, &op.msg_put.payload));
    return turn_op(t, &op);
}

int turn_signal_all(struct turn *t, const struct turn_signal_all *s)
{
    struct op op = {.kind = OP_msg_put,
                    .msg_put = {.ref = {t->site.ref.ns, 0},
                                .owner = OWNER_SYSTEM,
                                .kind = MESSAGE_FANOUT,
                                .topic = ENGINE_TOPIC,
                                .addr = s->topic,
                                .code = s->code > 0 ? s->code : 200}};
    struct fanout first = {.payload = s->payload, .attribute = s->attribute, .value = s->value};
    int rc = fanout_payload(turn_arena(t), &first, &op.msg_put.payload);
    rc = rc == QP_OK ? turn_guid(t, s->topic, &op.msg_put.guid) : rc;
    op.msg_put.parent_guid =
        op.msg_put.guid; /* what the signals' GUIDs follow from, on all pages */
    return rc == QP_OK ? turn_op(t, &op) : rc;
}
