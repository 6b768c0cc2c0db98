/* handle.c - the engine handle behind quipu.h: a store, a run of this node, and the calls on them
 *
 * A process that opens a file enters a new run (an epoch). Tasks are held by the run that claimed
 * them, so the first thing a new run does is to declare the former ones dead and take up what they
 * held: the file's lock says that no other process is alive on it. A claim gives the task a higher
 * token, by which a late answer of the dead run would be refused.
 *
 * If we crash during the taking up, the next run does it again: a run is declared dead in the same
 * commit that finds nothing more to take from it.
 */
#include <stdio.h>

#include "base/env.h"
#include "base/json.h"
#include "base/log.h"
#include "base/uuid.h"
#include "kernel/single.h"

struct qp {
    struct qp_env env;
    struct store *store;
    struct commit commit; /* reused, one at a time */
    struct arena answer;  /* texts of the last qp_job_get */
    struct uuid_source uuids;
    int64_t ns;
    int64_t epoch;
    qp_task *tasks;      /* in hand */
    int64_t next_number; /* reserved numbers of jobs */
    int64_t last_number;
};

static void task_free(qp_task *task);

struct qp_task {
    qp *engine;
    qp_task *next;
    struct arena arena;
    struct msg_ref ref;
    qp_str job;
    qp_str input;
    int64_t attempt;
};

void qp_options_init(struct qp_options *options)
{
    *options = (struct qp_options){.size = sizeof *options};
}

/* -------------------------------------------------------------------------------------- commits */

/* One bundle with one op, committed; the op with what it put out. */
static int commit_op(qp *q, struct op *op, struct qp_err *err)
{
    struct bundle *b;
    struct op *place;
    int rc;
    commit_reset(&q->commit);
    b = commit_bundle(&q->commit, "system");
    place = bundle_op(b, op->kind);
    if (place != NULL) {
        *place = *op;
    }
    rc = store_commit(q->store, &q->commit);
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", q->commit.err.text);
    }
    *op = *place;
    return b->rc == QP_OK ? QP_OK : err_set(err, b->rc, "%s", qp_code_text(b->rc));
}

/* What the store said about its last commit, or else what the code means. */
static const char *commit_text(const qp *q, int rc)
{
    return q->commit.err.text[0] != '\0' ? q->commit.err.text : qp_code_text(rc);
}

static int number_next(qp *q, int64_t *out_number, struct qp_err *err)
{
    int rc = QP_OK;
    if (q->next_number > q->last_number) {
        struct op op = {.kind = OP_ids_reserve, .ids_reserve = {.count = LIMIT_IDS_PER_BLOCK}};
        rc = commit_op(q, &op, err);
        if (rc == QP_OK) {
            q->next_number = op.ids_reserve.out_first;
            q->last_number = op.ids_reserve.out_first + LIMIT_IDS_PER_BLOCK - 1;
        }
    }
    if (rc == QP_OK) {
        *out_number = q->next_number++;
    }
    return rc;
}

/* ------------------------------------------------------------------------------- open and close */

static int find_running(void *context, const void *row)
{
    const struct node_row *node = row;
    int64_t *epoch = context;
    if (node->state == NODE_RUNNING && *epoch == 0) {
        *epoch = node->epoch;
    }
    return QP_OK;
}

/* Gives back what a run held, page by page, and then writes how it ended. */
static int end_run(qp *q, int64_t epoch, enum node_state state, struct qp_err *err)
{
    struct op adopt = {.kind = OP_msg_adopt,
                       .msg_adopt = {.epoch = epoch, .limit = LIMIT_CLAIM_MESSAGES}};
    struct op over = {.kind = OP_node_put, .node_put = {.epoch = epoch, .state = state}};
    char guid[LIMIT_GUID_SIZE];
    int rc;
    do {
        rc = commit_op(q, &adopt, err);
        adopt.msg_adopt.after = adopt.msg_adopt.out_after;
        if (rc == QP_OK && adopt.msg_adopt.out_more) {
            /* The commit's memory is about to go. */
            memcpy(guid, adopt.msg_adopt.after.guid.p, sizeof guid);
            adopt.msg_adopt.after.guid.p = guid;
        }
    } while (rc == QP_OK && adopt.msg_adopt.out_more);
    return rc == QP_OK ? commit_op(q, &over, err) : rc;
}

static int bury_former_runs(qp *q, struct qp_err *err)
{
    struct scan nodes = {.table = TABLE_node, .index = -1, .limit = SIZE_MAX};
    int64_t epoch;
    int rc;
    do {
        epoch = 0;
        rc = store_scan(q->store, &nodes, &epoch, find_running, err);
        rc = rc == QP_OK && epoch != 0 ? end_run(q, epoch, NODE_DEAD, err) : rc;
    } while (rc == QP_OK && epoch != 0);
    return rc;
}

static int enter_run(qp *q, struct qp_err *err)
{
    struct op enter = {.kind = OP_node_put,
                       .node_put = {.name = QP_STR("embedded"), .state = NODE_RUNNING}};
    int rc = bury_former_runs(q, err);
    rc = rc == QP_OK ? commit_op(q, &enter, err) : rc;
    q->epoch = enter.node_put.out_epoch;
    return rc;
}

static int enter_namespace(qp *q, const char *name, struct qp_err *err)
{
    struct op create = {.kind = OP_space_create, .space_create = {.name = str_from(name)}};
    int rc;
    q->ns = STORE_NS_DEFAULT;
    if (name == NULL) {
        return QP_OK;
    }
    rc = name_check(str_from(name), "namespace", err);
    rc = rc == QP_OK ? commit_op(q, &create, err) : rc;
    q->ns = create.space_create.out_ns;
    return rc == QP_E_EXISTS ? QP_OK : rc;
}

static int engine_enter(qp *q, const struct qp_options *options, struct qp_err *err)
{
    struct store_options of_store = {.path = options->path};
    int rc = store_open(&q->env, &of_store, &q->store, err);
    if (rc != QP_OK) {
        return rc;
    }
    commit_init(&q->commit, q->store);
    rc = enter_namespace(q, options->namespace_name, err);
    return rc == QP_OK ? enter_run(q, err) : rc;
}

static void engine_free(qp *q)
{
    struct qp_env env = q->env;
    arena_done(&q->answer);
    mem_free(&env, q);
}

int qp_open(const struct qp_options *options, qp **out_engine, struct qp_err *err)
{
    struct qp_env env;
    qp *q;
    int rc;
    if (options->size != sizeof *options) {
        return err_set(err, QP_E_INVALID, "qp_open: options were not set up with qp_options_init");
    }
    qp_env_init(&env);
    env = options->env != NULL ? *options->env : env;
    env_complete(&env);
    q = mem_alloc(&env, sizeof *q);
    if (q == NULL) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    q->env = env;
    arena_init(&q->answer, &q->env, 0);
    uuid_source_init(&q->uuids);
    q->last_number = -1;
    rc = engine_enter(q, options, err);
    if (rc != QP_OK) {
        if (q->store != NULL) {
            commit_done(&q->commit);
            (void)store_close(q->store, NULL); /* the first failure is the one to report */
        }
        engine_free(q);
        return rc;
    }
    *out_engine = q;
    return QP_OK;
}

int qp_close(qp *q, struct qp_err *err)
{
    int rc;
    int closed;
    if (q == NULL) {
        return QP_OK;
    }
    while (q->tasks != NULL) {
        task_free(q->tasks);
    }
    /* What is still in hand goes back first, so that nobody has to find out that we are gone. */
    rc = end_run(q, q->epoch, NODE_LEFT, err);
    commit_done(&q->commit);
    closed = store_close(q->store, rc == QP_OK ? err : NULL);
    engine_free(q);
    return rc != QP_OK ? rc : closed;
}

/* ----------------------------------------------------------------------------------------- jobs */

static int start_check(const qp *q, const struct qp_start *start, struct qp_err *err)
{
    int rc = name_check(start->topic, "topic", err);
    if (rc == QP_OK && !str_is_none(start->id)) {
        rc = id_check(start->id, "job id", err);
    }
    if (rc == QP_OK && start->input.n > LIMIT_PAYLOAD_SIZE) {
        rc = err_set(err, QP_E_TOO_LARGE, "input: %zu bytes, the limit is %d", start->input.n,
                     LIMIT_PAYLOAD_SIZE);
    }
    if (rc == QP_OK) {
        rc = json_check(&q->env, start->input, NULL, err);
        rc = rc == QP_OK ? QP_OK : err_wrap(err, rc, "input");
    }
    return rc;
}

/* The id that was given, or a new one. */
static int start_id(qp *q, const struct qp_start *start, char out_id[QP_ID_SIZE])
{
    unsigned char uuid[UUID_SIZE];
    int rc = QP_OK;
    if (!str_is_none(start->id)) {
        memcpy(out_id, start->id.p, start->id.n);
        out_id[start->id.n] = '\0';
        return QP_OK;
    }
    rc = uuid_next(&q->uuids, &q->env, uuid);
    if (rc == QP_OK) {
        uuid_format(uuid, out_id);
        out_id[UUID_TEXT_SIZE] = '\0';
    }
    return rc;
}

int qp_job_start(qp *q, const struct qp_start *start, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    char id[QP_ID_SIZE];
    unsigned char guid[UUID_SIZE];
    struct single_start s = {.topic = start->topic, .input = start->input, .ref.ns = q->ns};
    struct bundle *b;
    int rc = start_check(q, start, err);
    rc = rc == QP_OK ? start_id(q, start, id) : rc;
    rc = rc == QP_OK ? uuid_next(&q->uuids, &q->env, guid) : rc;
    rc = rc == QP_OK ? number_next(q, &s.ref.job, err) : rc;
    if (rc != QP_OK) {
        return err_wrap(err, rc, "start");
    }
    s.jid = str_from(id);
    s.owner_guid = (qp_str){(const char *)guid, sizeof guid};
    commit_reset(&q->commit);
    b = commit_bundle(&q->commit, "start");
    rc = b == NULL ? q->commit.rc : single_start(b, &s);
    rc = rc == QP_OK ? store_commit(q->store, &q->commit) : rc;
    if (rc != QP_OK) {
        return err_set(err, rc, "start '%s': %s", id, commit_text(q, rc));
    }
    if (b->rc == QP_E_CONFLICT) {
        return err_set(err, b->rc, "start '%s': a job with this id was started with another input",
                       id);
    }
    if (b->rc != QP_OK && b->rc != QP_E_EXISTS) {
        return err_set(err, b->rc, "start '%s': %s", id, qp_code_text(b->rc));
    }
    if (out_id != NULL) {
        memcpy(out_id, id, sizeof id);
    }
    return QP_OK;
}

static const char *status_word(int64_t status)
{
    static const char *const words[STATUS_COUNT] = {"running", "retrying",  "waiting",
                                                    "parked",  "paused",    "completed",
                                                    "failed",  "cancelled", "interrupted"};
    return status >= 0 && status < STATUS_COUNT ? words[status] : "unknown";
}

int qp_job_get(qp *q, qp_str id, struct qp_job *out_job, struct qp_err *err)
{
    const void *row = NULL;
    const struct job_row *job;
    const struct act_row *act;
    struct job_name_row name = {.ns = q->ns, .jid = id};
    struct act_row worker = {.ns = q->ns, .addr = QP_STR(SINGLE_ADDRESS)};
    int rc;
    arena_reset(&q->answer);
    rc = store_get(q->store, &q->answer, TABLE_job_name, &name, &row, err);
    if (rc != QP_OK) {
        char shown[LIMIT_LOG_ECHO_SIZE];
        (void)log_escape(id, shown, sizeof shown); /* its length does not matter */
        return err_set(err, rc, "job '%s': %s", shown, qp_code_text(rc));
    }
    worker.job = ((const struct job_name_row *)row)->job;
    rc = store_get(q->store, &q->answer, TABLE_job,
                   &(struct job_row){.ns = q->ns, .job = worker.job}, &row, err);
    if (rc != QP_OK) {
        return rc;
    }
    job = row;
    rc = store_get(q->store, &q->answer, TABLE_act, &worker, &row, err);
    if (rc != QP_OK) {
        return rc;
    }
    act = row;
    *out_job = (struct qp_job){.status = status_word(job->status),
                               .output = job->state == JOB_COMPLETED ? act->output : QP_NONE,
                               .open = job->sem,
                               .ledger = act->ledger};
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- tasks */

static qp_task *task_new(qp *q)
{
    qp_task *task = mem_alloc(&q->env, sizeof *task);
    if (task != NULL) {
        task->engine = q;
        task->next = q->tasks;
        q->tasks = task;
        arena_init(&task->arena, &q->env, 0);
    }
    return task;
}

static void task_free(qp_task *task)
{
    qp *q = task->engine;
    qp_task **link = &q->tasks;
    while (*link != task) {
        link = &(*link)->next;
    }
    *link = task->next;
    arena_done(&task->arena);
    mem_free(&q->env, task);
}

/* Fills the task from the message, its job and its activity. */
static int task_fill(qp_task *task, const struct msg_row *m, struct qp_err *err)
{
    struct store *s = task->engine->store;
    const void *row = NULL;
    int rc;
    task->ref = (struct msg_ref){.ns = m->ns, .job = m->job, .token = m->token};
    task->attempt = m->tries;
    if (!arena_copy(&task->arena, m->guid, &task->ref.guid)) {
        return err_set(err, QP_E_NOMEM, "claim: out of memory");
    }
    rc = store_get(s, &task->arena, TABLE_job, &(struct job_row){.ns = m->ns, .job = m->job}, &row,
                   err);
    if (rc == QP_OK) {
        task->job = ((const struct job_row *)row)->jid;
        rc = store_get(s, &task->arena, TABLE_act,
                       &(struct act_row){.ns = m->ns, .job = m->job, .addr = m->addr}, &row, err);
    }
    if (rc == QP_OK) {
        task->input = ((const struct act_row *)row)->input;
    }
    return rc;
}

/* The message is ours and cannot be handed out: back with it, as if it had not been claimed. */
static void task_give_back(qp *q, const struct msg_ref *ref)
{
    struct op op = {.kind = OP_msg_retry, .msg_retry = {.ref = *ref, .untry = true}};
    if (ref->guid.n == LIMIT_GUID_SIZE) {
        (void)commit_op(q, &op, NULL); /* if this fails too, it goes back when the engine closes */
    }
}

int qp_task_claim(qp *q, qp_str topic, qp_task **out_task, struct qp_err *err)
{
    struct op wake = {.kind = OP_wake, .wake = {.limit = LIMIT_WAKE_MESSAGES}};
    struct op claim = {.kind = OP_msg_claim,
                       .msg_claim = {.ns = q->ns, .topic = topic, .want = 1, .holder = q->epoch}};
    qp_task *task = task_new(q);
    int rc = task == NULL ? err_set(err, QP_E_NOMEM, "claim: out of memory") : QP_OK;
    rc = rc == QP_OK ? name_check(topic, "topic", err) : rc;
    rc = rc == QP_OK ? commit_op(q, &wake, err) : rc;
    rc = rc == QP_OK ? commit_op(q, &claim, err) : rc;
    if (rc == QP_OK && claim.msg_claim.out_count == 0) {
        rc = err_set(err, QP_E_NOT_FOUND, "no task of topic '%.*s' is ready", STR_ARG(topic));
    }
    if (rc == QP_OK) {
        rc = task_fill(task, claim.msg_claim.out_messages[0], err);
        if (rc != QP_OK) {
            task_give_back(q, &task->ref);
        }
    }
    if (rc == QP_OK) {
        *out_task = task;
    } else if (task != NULL) {
        task_free(task);
    }
    return rc;
}

qp_str qp_task_input(const qp_task *task)
{
    return task->input;
}

qp_str qp_task_job(const qp_task *task)
{
    return task->job;
}

int64_t qp_task_attempt(const qp_task *task)
{
    return task->attempt;
}

/* A task is over when it is committed, or when it was no longer ours; else it stays in hand. */
static int task_end(qp_task *task, int rc)
{
    if (rc == QP_OK || rc == QP_E_STALE) {
        task_free(task);
    }
    return rc;
}

static int output_check(const qp *q, qp_str output, struct qp_err *err)
{
    int rc = output.n > LIMIT_PAYLOAD_SIZE
                 ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d", output.n,
                           LIMIT_PAYLOAD_SIZE)
                 : json_check(&q->env, output, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "complete: output");
}

int qp_task_complete(qp_task *task, qp_str output, struct qp_err *err)
{
    qp *q = task->engine;
    struct bundle *b;
    int rc = output_check(q, output, err);
    if (rc != QP_OK) {
        return rc;
    }
    commit_reset(&q->commit);
    b = commit_bundle(&q->commit, "complete");
    rc = b == NULL ? q->commit.rc : single_complete(b, &task->ref, output);
    rc = rc == QP_OK ? store_commit(q->store, &q->commit) : rc;
    if (rc != QP_OK) {
        (void)err_set(err, rc, "complete '%.*s': %s", STR_ARG(task->job), commit_text(q, rc));
    } else if (b->rc != QP_OK) {
        rc = err_set(err, b->rc, "complete '%.*s': %s", STR_ARG(task->job), qp_code_text(b->rc));
    }
    return task_end(task, rc);
}

int qp_task_retry(qp_task *task, qp_ms delay_ms, struct qp_err *err)
{
    struct op op = {.kind = OP_msg_retry, .msg_retry = {.ref = task->ref, .delay_ms = delay_ms}};
    int rc = commit_op(task->engine, &op, err);
    return task_end(task, rc);
}
