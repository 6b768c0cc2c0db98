/* run.c - the run of this node, and what becomes of those that are over
 *
 * A run is a row of `node`. Whoever holds a message for a run has its epoch on the message, and no
 * epoch is used twice. So a run is over in this order: its row says so, and from then on the store refuses
 * every claim in its name; what it held goes back page by page; then its row goes.
 *
 *   (none) --run_enter--> RUNNING --it leaves, or its lease is over--> ENDING --LEFT, DEAD--> (none)
 *                            +---- it leaves, and nobody else works here: LEFT -------------> (none)
 *
 * Where many write, a run may be in the middle of a commit when it is found, and even when it leaves:
 * the answer to a commit was lost, and the server is still at it. That commit has the lock on its row,
 * so ENDING comes after it, and the pages after ENDING see all that it holds.
 *
 * If we crash between two pages of a taking over, the row is still there, and the next one to look
 * goes through all pages again; what was given back already is no longer held by it.
 */
#include <stdio.h>

#include "kernel/engine_internal.h"

/* Pages through the messages of a run, and then writes how it ended. */
int run_end(struct engine *e, int64_t epoch, enum node_state state, struct qp_err *err)
{
    struct op adopt = {.kind = OP_msg_adopt,
                       .msg_adopt = {.epoch = epoch,
                                     .lost_kind = state == NODE_DEAD ? MESSAGE_TASK : 0,
                                     .limit = LIMIT_CLAIM_MESSAGES}};
    struct op ending = {.kind = OP_node_put, .node_put = {.epoch = epoch, .state = NODE_ENDING}};
    struct op over = {.kind = OP_node_put, .node_put = {.epoch = epoch, .state = state}};
    char guid[LIMIT_GUID_SIZE];
    bool alone = e->options.lease_ms == 0;
    int rc = state == NODE_DEAD || !alone ? engine_op(e, &ending, err) : QP_OK;
    if (rc != QP_OK) {
        return rc == QP_E_STALE ? QP_OK : rc; /* somebody else was faster: it is over */
    }
    do {
        rc = engine_op(e, &adopt, err);
        adopt.msg_adopt.after = adopt.msg_adopt.out_after;
        if (rc == QP_OK && adopt.msg_adopt.out_more) {
            /* The commit's memory is about to go. */
            memcpy(guid, adopt.msg_adopt.after.guid.p, sizeof guid);
            adopt.msg_adopt.after.guid.p = guid;
        }
    } while (rc == QP_OK && adopt.msg_adopt.out_more);
    rc = rc == QP_OK ? engine_op(e, &over, err) : rc;
    e->wants_messages = true;
    e->looked = false;
    serve_look_again(e, UINT64_MAX);
    return rc == QP_E_STALE ? QP_OK : rc; /* somebody else was faster: it is over */
}

struct find_over {
    struct engine *engine;
    qp_ms now;
    bool all;
    int64_t epoch;
    char intent[LIMIT_LOG_ECHO_SIZE];
};

static int find_over(void *context, const void *row)
{
    const struct node_row *node = row;
    struct find_over *f = context;
    /* A run without a lease had its store for itself: if others work here now, it came with a copy of
     * that store (store/copy.h), and is over. */
    bool over = f->all || node->lease_until < f->now || node->state == NODE_ENDING;
    if (f->epoch == 0 && over && node->epoch != f->engine->kernel.epoch) {
        f->epoch = node->epoch;
        (void)snprintf(f->intent, sizeof f->intent, "%.*s", STR_ARG(node->intent));
    }
    return QP_OK;
}

int run_end_others(struct engine *e, bool all, struct qp_err *err)
{
    struct scan nodes = {.table = TABLE_node, .index = -1, .limit = SIZE_MAX};
    struct find_over f;
    int rc;
    do {
        f = (struct find_over){.engine = e, .now = store_now(e->store), .all = all};
        rc = store_scan(e->store, &nodes, &f, find_over, err);
        if (rc == QP_OK && f.epoch != 0) {
            log_write(&e->env, QP_LOG_WARN, LOG_MSG("a run is over, its work is taken up"),
                      LOG_I64("epoch", f.epoch), LOG_TEXT("suspect", f.intent));
            rc = run_end(e, f.epoch, NODE_DEAD, err);
            e->stats.runs_ended++;
            lost_blame_later(e);
        }
    } while (rc == QP_OK && f.epoch != 0);
    return rc;
}

int run_enter(struct engine *e, struct qp_err *err)
{
    struct op enter = {.kind = OP_node_put,
                       .node_put = {.name = str_from(e->options.name),
                                    .lease_ms = e->options.lease_ms,
                                    .state = NODE_RUNNING}};
    int rc = engine_op(e, &enter, err);
    if (rc == QP_OK) {
        e->kernel.epoch = enter.node_put.out_epoch;
        e->renew_at =
            e->options.lease_ms > 0 ? store_now(e->store) + e->options.lease_ms / 3 : INT64_MAX;
        e->look_at = e->options.lease_ms > 0 ? 0 : INT64_MAX;
        e->over = false;
        lost_blame_later(e);
    }
    return rc;
}
