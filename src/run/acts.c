/* acts.c - what is done with jobs that are there: cancel, kill, pause, resume, retry, fork, delete; in bulk
 *
 * Each is a command of the engine, or a few of them one after the other: a job with many messages is resumed
 * or deleted in pages. If we crash in between, what was committed stands, and doing it again does the rest.
 * A fork is a start like any other, of a job that says where it came from; what it takes over is its kind's to say (face.h).
 * A graph's job begins with the version of that one, or with another that was asked for; any other is what its name means by
 * now. The retry of a job that has ended is a fork, too.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "kernel/query.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/ids.h"
#include "run/jobs.h"
#include "run/loop.h"

const char *qp_verb_word(enum qp_verb verb)
{
    static const char *const words[] = {"cancel", "kill", "pause", "resume",
                                        "retry",  "fork", "delete"};
    return (unsigned)verb < ARRAY_COUNT(words) ? words[verb] : "unknown";
}

/* One action, from the check to the answer. */
struct acting {
    struct call call;
    struct qp_action action;
    int64_t ns;
    const char *what; /* the word of its errors */
    void (*ended)(struct acting *a, int rc, const char *why);
    struct arena arena; /* of what a fork is made of */
    struct qp_attribute attributes[LIMIT_START_ATTRIBUTES + 1];
    char id[QP_ID_SIZE]; /* that the answer tells */
    bool forks;          /* it has come to a new job */
    const char *why;     /* it was refused before it was decided; NULL: its code says it */
    unsigned char idem_hash[LIMIT_GUID_SIZE];
    union {
        struct command command;
        struct request_end end;
        struct request_unpark unpark;
        struct request_change change;
        struct request_start start;
    };
};

/* ------------------------------------------------------------------------------------------ checks */

static int reason_check(qp_str reason, struct qp_err *err)
{
    if (reason.n > LIMIT_ERROR_TEXT_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "reason: %zu bytes, the limit is %d", reason.n,
                       LIMIT_ERROR_TEXT_SIZE);
    }
    if (utf8_valid_prefix(reason) < reason.n) {
        return err_set(err, QP_E_INVALID, "reason: not valid UTF-8 at offset %zu",
                       utf8_valid_prefix(reason));
    }
    return QP_OK;
}

static int input_check(const qp *q, qp_str input, struct qp_err *err)
{
    int rc;
    if (str_is_none(input)) {
        return QP_OK;
    }
    rc = input.n > LIMIT_PAYLOAD_SIZE ? err_set(err, QP_E_TOO_LARGE, "%zu bytes, the limit is %d",
                                                input.n, LIMIT_PAYLOAD_SIZE)
                                      : json_check(&q->env, input, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "input");
}

static int given_check(qp_str id, const char *what, struct qp_err *err)
{
    return str_is_none(id) ? QP_OK : id_check(id, what, err);
}

/* Where a fork begins, and with which version. */
static int place_check(const struct qp_action *a, struct qp_err *err)
{
    if (!str_is_none(a->at) && (a->at.n == 0 || a->at.n > LIMIT_ADDRESS_SIZE)) {
        (void)err_set(err, QP_E_INVALID, "at: a location or an activity has 1 to %d bytes, got %zu",
                      LIMIT_ADDRESS_SIZE, a->at.n);
        return err_point(err, QP_E_INVALID, "/at");
    }
    if (!str_is_none(a->version) && name_check(a->version, "version", err) != QP_OK) {
        return err_point(err, QP_E_INVALID, "/version");
    }
    return QP_OK;
}

static int action_check(qp *q, const struct qp_action *a, struct qp_err *err)
{
    QP_TRY(id_check(a->id, "job id", err));
    QP_TRY(reason_check(a->reason, err));
    QP_TRY(input_check(q, a->input, err));
    QP_TRY(given_check(a->new_id, "new id", err));
    QP_TRY(given_check(a->idem_key, "idempotency key", err));
    QP_TRY(place_check(a, err));
    return (unsigned)a->verb > QP_VERB_DELETE ? err_set(err, QP_E_INVALID, "there is no such verb")
                                              : QP_OK;
}

/* A new id, if it may come to a new job. */
static int new_id(qp *q, struct acting *a, struct qp_err *err)
{
    bool forks = a->action.verb == QP_VERB_FORK || a->action.verb == QP_VERB_RETRY;
    return forks ? ids_of_job(q, a->action.new_id, a->id, err) : QP_OK;
}

static int acting_prepare(qp *q, struct acting *a, struct qp_err *err)
{
    int rc = space_number(q, a->action.ns, &a->ns, err);
    arena_init(&a->arena, &q->env, 0);
    return rc == QP_OK ? new_id(q, a, err) : rc;
}

/* --------------------------------------------------------------------------------------- on the driver */

static void acting_answered(struct engine *e, struct command *c, int rc, const char *why);

static void acting_end(struct acting *a, int rc, const char *why)
{
    arena_done(&a->arena);
    a->ended(a, rc, why);
}

static void acting_submit(struct acting *a)
{
    a->command.answer = acting_answered;
    engine_submit(a->call.q->engine, &a->command);
}

static void acting_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct acting *a = (struct acting *)((char *)c - offsetof(struct acting, command));
    bool changes = a->action.verb == QP_VERB_RESUME || a->action.verb == QP_VERB_DELETE;
    (void)e;
    if (rc == QP_OK && changes && a->change.more) {
        acting_submit(a);
        return;
    }
    acting_end(a, rc, why);
}

/* What the job was started with, and its policy. */
static int fork_source(qp *q, struct acting *a, const struct job_row *job, qp_str *out_input,
                       qp_str *out_policy)
{
    struct act_row key = {.ns = job->ns, .job = job->job, .addr = TRIGGER_ADDRESS};
    struct msg_row start = {.ns = job->ns, .job = job->job, .guid = job->owner_guid};
    const void *row = NULL;
    int rc = store_get(q->store, &a->arena, TABLE_act, &key, &row, NULL);
    if (rc == QP_OK) {
        *out_input = ((const struct act_row *)row)->input;
        *out_policy = ((const struct act_row *)row)->policy;
        return QP_OK;
    }
    rc = rc == QP_E_NOT_FOUND ? store_get(q->store, &a->arena, TABLE_msg, &start, &row, NULL) : rc;
    if (rc == QP_OK) {
        *out_input = ((const struct msg_row *)row)->payload; /* it has not begun */
        *out_policy = QP_NONE;
    }
    return rc;
}

static int each_attribute(void *context, const void *row)
{
    struct acting *a = context;
    const struct attr_row *attr = row_copy(&a->arena, TABLE_attr, row);
    if (attr == NULL) {
        return QP_E_NOMEM;
    }
    if (str_equal(attr->name, RETRIED_AS)) {
        return QP_OK; /* that one was, not this one */
    }
    a->attributes[a->start.attribute_count++] =
        (struct qp_attribute){.name = attr->name, .value = attr->value};
    return QP_OK;
}

static int fork_attributes(qp *q, struct acting *a, const struct job_row *job)
{
    struct attr_row prefix = {.ns = job->ns, .job = job->job};
    struct scan scan = {.table = TABLE_attr,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = LIMIT_START_ATTRIBUTES + 1};
    a->start.attributes = a->attributes;
    return store_scan(q->store, &scan, a, each_attribute, NULL);
}

/* The record of the action's key, if it has one: its answer is the id. */
static struct request_keyed acting_keyed(struct acting *a)
{
    const struct qp_action *what = &a->action;
    struct request_keyed keyed = {0};
    if (!str_is_none(what->idem_key)) {
        keyed.idem =
            idem_record(a->ns, what->idem_key, what->idem_body, str_from(a->id), a->idem_hash);
    }
    return keyed;
}

/* A new job from this one. A custom id goes to the job that takes its place. */
static int acting_fork(qp *q, struct acting *a, const struct job_row *job)
{
    qp_str input = QP_NONE;
    qp_str policy = QP_NONE;
    bool retry = a->action.verb == QP_VERB_RETRY;
    QP_TRY(fork_source(q, a, job, &input, &policy));
    a->start = (struct request_start){
        .start = {.job = {.ref.ns = a->ns,
                          .jid = str_from(a->id),
                          .kind = job->kind,
                          .workflow = job->workflow,
                          .version = job->version,
                          .custom_id = retry ? job->custom_id : QP_NONE,
                          .forked_from = job->jid,
                          .limit_key = job->limit_key,
                          .priority = job->priority},
                  .input = str_is_none(a->action.input) ? input : a->action.input,
                  .policy = policy,
                  .fresh = str_is_none(a->action.new_id),
                  .salt = a->action.at},
        .version = a->action.version,
        .at = a->action.at,
        .retries = retry,
        .keyed = acting_keyed(a)};
    a->forks = true;
    request_start(&a->start);
    QP_TRY(fork_attributes(q, a, job));
    return engine_number(q->engine, &a->start.start.job.ref.job, NULL);
}

/* Goes on where it stands, or, when it has ended, begins again. */
static int acting_retry(qp *q, struct acting *a, const struct job_row *job)
{
    if (job->completions > 0) {
        return str_is_none(a->action.work) ? acting_fork(q, a, job) : QP_E_CLOSED;
    }
    if (!str_is_none(a->action.at) || !str_is_none(a->action.version) ||
        !str_is_none(a->action.input) || !str_is_none(a->action.new_id)) {
        a->why = "it has not ended: when it is parked, a retry lets it go on where it stands; to "
                 "begin elsewhere, fork it";
        return QP_E_CONFLICT;
    }
    memcpy(a->id, job->jid.p, job->jid.n);
    a->id[job->jid.n] = '\0';
    a->unpark = (struct request_unpark){
        .ns = a->ns, .jid = a->action.id, .part = a->action.work, .keyed = acting_keyed(a)};
    request_unpark(&a->unpark);
    return QP_OK;
}

static int acting_from_job(qp *q, struct acting *a)
{
    const struct job_row *job = NULL;
    struct query query = {.store = q->store, .ns = a->ns};
    QP_TRY(query_find(&query, &a->arena, a->action.id, &job, NULL));
    return a->action.verb == QP_VERB_FORK ? acting_fork(q, a, job) : acting_retry(q, a, job);
}

static void acting_change(struct acting *a, enum job_change change)
{
    a->change = (struct request_change){.ns = a->ns, .jid = a->action.id, .change = change};
    request_change(&a->change);
}

static void acting_close(struct acting *a, enum job_state state)
{
    qp_str reason = a->action.reason;
    a->end = (struct request_end){.ns = a->ns,
                                  .jid = a->action.id,
                                  .state = state,
                                  .error = str_is_none(reason) ? str_from(a->what) : reason,
                                  .descend = a->action.descend};
    request_end(&a->end);
}

static int acting_fill(qp *q, struct acting *a)
{
    switch (a->action.verb) {
    case QP_VERB_CANCEL:
        acting_close(a, JOB_CANCELLED);
        break;
    case QP_VERB_KILL:
        acting_close(a, JOB_INTERRUPTED);
        break;
    case QP_VERB_PAUSE:
        acting_change(a, JOB_CHANGE_PAUSE);
        break;
    case QP_VERB_RESUME:
        acting_change(a, JOB_CHANGE_RESUME);
        break;
    case QP_VERB_DELETE:
        acting_change(a, JOB_CHANGE_DELETE);
        break;
    case QP_VERB_RETRY:
    case QP_VERB_FORK:
        return acting_from_job(q, a);
    }
    return QP_OK;
}

static void acting_execute(qp *q, struct call *c)
{
    struct acting *a = (struct acting *)c;
    int rc = acting_fill(q, a);
    if (rc != QP_OK) {
        acting_end(a, rc, a->why != NULL ? a->why : qp_code_text(rc));
    } else {
        acting_submit(a);
    }
}

/* --------------------------------------------------------------------------------------- one action */

/* What is known of the key, once it was decided. */
static const struct request_keyed *keyed_of(const struct acting *a)
{
    return a->forks ? &a->start.keyed : a->action.verb == QP_VERB_RETRY ? &a->unpark.keyed : NULL;
}

/* Why a kind has refused it, once it was decided; NULL: no kind was asked. */
static const struct refusal *refusal_of(const struct acting *a)
{
    return a->forks                          ? &a->start.refusal
           : a->action.verb == QP_VERB_RETRY ? &a->unpark.refusal
                                             : NULL;
}

/* What the answer says: of a repeated action, what was said before. */
static int outcome(struct acting *a, int rc, const char **why)
{
    const struct request_keyed *keyed = keyed_of(a);
    bool met = keyed != NULL && keyed->met;
    if (keyed != NULL && keyed->taken[0] != '\0') {
        memcpy(a->id, keyed->taken, sizeof a->id);
    }
    if (a->action.out_by_key != NULL) {
        *a->action.out_by_key = met;
    }
    if (refusal_of(a) != NULL) {
        *why = refusal_text(refusal_of(a), rc, *why);
    }
    if (met && rc == QP_E_CONFLICT) {
        *why = "the idempotency key was used with another body";
    }
    return rc == QP_E_EXISTS ? QP_OK : rc; /* the new id is that of the same fork */
}

static void ended_here(struct acting *a, int rc, const char *why)
{
    rc = outcome(a, rc, &why);
    if (rc != QP_OK) {
        (void)job_error(a->call.err, rc, a->action.id, a->what, why);
        (void)err_point(a->call.err, rc, "%s",
                        refusal_of(a) == NULL ? "" : refusal_pointer(refusal_of(a), rc));
    }
    call_done(&a->call.q->driver, &a->call, rc);
}

/* The id of the answer: that of the new job, or of the job itself. */
static void answer_id(const struct acting *a, char out_id[QP_ID_SIZE])
{
    if (a->id[0] != '\0') {
        memcpy(out_id, a->id, QP_ID_SIZE);
    } else {
        memcpy(out_id, a->action.id.p, a->action.id.n);
        out_id[a->action.id.n] = '\0';
    }
}

static int act_do(qp *q, const struct qp_action *action, const char *what, char out_id[QP_ID_SIZE],
                  struct qp_err *err)
{
    struct acting a = {.call = {.execute = acting_execute, .q = q},
                       .action = *action,
                       .what = what,
                       .ended = ended_here};
    int rc = action_check(q, action, err);
    rc = rc == QP_OK ? acting_prepare(q, &a, err) : rc;
    if (rc != QP_OK) {
        return err_wrap(err, rc, "%s", what);
    }
    rc = call_do(&q->driver, &a.call, err);
    if (rc == QP_OK && out_id != NULL) {
        answer_id(&a, out_id);
    }
    return rc;
}

int qp_job_act(qp *q, const struct qp_action *action, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    ENTER(q, action != NULL, err);
    return act_do(q, action, qp_verb_word(action->verb), out_id, err);
}

int qp_job_cancel(qp *q, qp_str id, const char *reason, struct qp_err *err)
{
    ENTER(q, true, err);
    struct qp_action action = {.id = id, .verb = QP_VERB_CANCEL, .reason = str_from(reason)};
    return act_do(q, &action, "cancel", NULL, err);
}

int qp_job_interrupt(qp *q, qp_str id, const char *reason, struct qp_err *err)
{
    ENTER(q, true, err);
    struct qp_action action = {.id = id, .verb = QP_VERB_KILL, .reason = str_from(reason)};
    return act_do(q, &action, "interrupt", NULL, err);
}

int qp_job_pause(qp *q, qp_str id, struct qp_err *err)
{
    ENTER(q, true, err);
    return act_do(q, &(struct qp_action){.id = id, .verb = QP_VERB_PAUSE}, "pause", NULL, err);
}

int qp_job_resume(qp *q, qp_str id, struct qp_err *err)
{
    ENTER(q, true, err);
    return act_do(q, &(struct qp_action){.id = id, .verb = QP_VERB_RESUME}, "resume", NULL, err);
}

static void unpark_execute(qp *q, struct call *c)
{
    struct acting *a = (struct acting *)c;
    (void)q;
    a->unpark = (struct request_unpark){.ns = a->ns, .jid = a->action.id};
    request_unpark(&a->unpark);
    acting_submit(a);
}

/* Of a parked job alone: its caller does not expect another job. */
int qp_job_retry(qp *q, qp_str id, struct qp_err *err)
{
    ENTER(q, true, err);
    struct acting a = {.call = {.execute = unpark_execute, .q = q},
                       .action = {.id = id, .verb = QP_VERB_RETRY},
                       .ns = q->ns,
                       .what = "retry",
                       .ended = ended_here};
    int rc = id_check(id, "job id", err);
    arena_init(&a.arena, &q->env, 0);
    return rc == QP_OK ? call_do(&q->driver, &a.call, err) : err_wrap(err, rc, "retry");
}

/* ------------------------------------------------------------------------------------------- async */

static void ended_async(struct acting *a, int rc, const char *why)
{
    qp *q = a->call.q;
    char id[QP_ID_SIZE];
    rc = outcome(a, rc, &why);
    call_left(&q->driver, &a->call);
    answer_id(a, id);
    if (a->action.done != NULL) {
        a->action.done(a->action.context, rc, id, rc == QP_OK ? "" : why);
    }
    mem_free(&q->env, a);
}

static qp_str keep(char **place, qp_str text)
{
    qp_str copy = {text.p == NULL ? NULL : *place, text.n};
    if (text.n > 0) {
        memcpy(*place, text.p, text.n);
        *place += text.n;
    }
    return copy;
}

static void acting_withdrawn(qp *q, struct call *c)
{
    (void)q;
    acting_end((struct acting *)c, QP_E_TIMEOUT, call_late_text());
}

/* A copy with its texts behind it. */
static struct acting *acting_copy(qp *q, const struct qp_action *action)
{
    size_t size = action->ns.n + action->id.n + action->reason.n + action->input.n +
                  action->new_id.n + action->idem_key.n + action->idem_body.n + action->at.n +
                  action->version.n + 1;
    struct acting *a = mem_alloc(&q->env, sizeof *a + size);
    char *place;
    if (a == NULL) {
        return NULL;
    }
    place = (char *)(a + 1);
    a->call = (struct call){.execute = acting_execute, .withdrawn = acting_withdrawn, .q = q};
    a->action = *action;
    a->action.ns = keep(&place, action->ns);
    a->action.id = keep(&place, action->id);
    a->action.reason = keep(&place, action->reason);
    a->action.input = keep(&place, action->input);
    a->action.new_id = keep(&place, action->new_id);
    a->action.idem_key = keep(&place, action->idem_key);
    a->action.idem_body = keep(&place, action->idem_body);
    a->action.at = keep(&place, action->at);
    a->action.version = keep(&place, action->version);
    a->what = qp_verb_word(action->verb);
    a->ended = ended_async;
    return a;
}

int qp_job_act_async(qp *q, const struct qp_action *action, struct qp_err *err)
{
    ENTER(q, action != NULL, err);
    struct acting *a;
    int rc = action_check(q, action, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "%s", qp_verb_word(action->verb));
    }
    a = acting_copy(q, action);
    if (a == NULL) {
        return err_set(err, QP_E_NOMEM, "%s: out of memory", qp_verb_word(action->verb));
    }
    rc = acting_prepare(q, a, err);
    rc = rc == QP_OK ? call_queue(&q->driver, &a->call, err) : rc;
    if (rc != QP_OK) {
        mem_free(&q->env, a);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------- bulk */

/* A page of jobs, acted on together so that they share commits. */
struct bulk {
    struct call call;
    const struct qp_bulk *what;
    int64_t ns;
    char (*ids)[QP_ID_SIZE];
    struct acting *acts;
    size_t count;
    size_t capacity;
    size_t left; /* not answered yet */
    struct qp_bulk_result result;
};

static int bulk_take(void *context, const struct qp_job_info *job)
{
    struct bulk *b = context;
    QP_ASSERT(b->count < b->capacity && job->id.n < QP_ID_SIZE);
    memcpy(b->ids[b->count], job->id.p, job->id.n);
    b->ids[b->count++][job->id.n] = '\0';
    return QP_OK;
}

static void bulk_ended(struct acting *a, int rc, const char *why)
{
    struct bulk *b = a->action.context;
    (void)why;
    a->call.rc = rc;
    b->result.done += rc == QP_OK;
    b->result.refused += rc != QP_OK;
    if (rc != QP_OK && qp_code_class(rc) != QP_CLASS_CALLER &&
        qp_code_class(rc) != QP_CLASS_CONFLICT) {
        b->call.rc = rc; /* of the store: the page is not as it should be */
    }
    if (--b->left == 0) {
        if (b->call.rc != QP_OK) {
            (void)err_set(b->call.err, b->call.rc, "%s", qp_code_text(b->call.rc));
        }
        call_done(&b->call.q->driver, &b->call, b->call.rc);
    }
}

static void bulk_execute(qp *q, struct call *c)
{
    struct bulk *b = (struct bulk *)c;
    b->left = b->count;
    b->call.rc = QP_OK;
    for (size_t i = 0, count = b->count; i < count; i++) {
        acting_execute(q, &b->acts[i].call);
    }
}

static int bulk_prepare(qp *q, struct bulk *b, struct qp_err *err)
{
    int rc = QP_OK;
    for (size_t i = 0; i < b->count && rc == QP_OK; i++) {
        b->acts[i] = (struct acting){.call = {.q = q},
                                     .action = {.ns = b->what->ns,
                                                .id = str_from(b->ids[i]),
                                                .verb = b->what->verb,
                                                .reason = b->what->reason,
                                                .context = b},
                                     .what = qp_verb_word(b->what->verb),
                                     .ended = bulk_ended};
        rc = acting_prepare(q, &b->acts[i], err);
    }
    return rc;
}

static int bulk_page(qp *q, struct bulk *b, struct qp_err *err)
{
    struct qp_list list = {.ns = b->what->ns,
                           .where = b->what->where,
                           .cursor = b->what->cursor,
                           .limit = (int64_t)b->capacity,
                           .unretried = b->what->verb == QP_VERB_RETRY};
    int rc = qp_job_list(q, &list, b, bulk_take, b->result.cursor, err);
    rc = rc == QP_OK ? bulk_prepare(q, b, err) : rc;
    rc = rc == QP_OK && b->count > 0 ? call_do(&q->driver, &b->call, err) : rc;
    for (size_t i = 0; i < b->count && rc == QP_OK && b->what->acted != NULL; i++) {
        b->what->acted(b->what->context, str_from(b->ids[i]), b->acts[i].call.rc);
    }
    return rc;
}

static int bulk_check(const struct qp_bulk *bulk, struct qp_err *err)
{
    if (bulk->limit < 0 || bulk->limit > LIMIT_PAGE_ROWS) {
        return err_set(err, QP_E_INVALID, "limit: %lld, it is 1 to %d", (long long)bulk->limit,
                       LIMIT_PAGE_ROWS);
    }
    if ((unsigned)bulk->verb > QP_VERB_DELETE || bulk->verb == QP_VERB_FORK) {
        return err_set(err, QP_E_INVALID, "there is no such verb for many jobs");
    }
    return reason_check(bulk->reason, err);
}

int qp_job_act_all(qp *q, const struct qp_bulk *bulk, struct qp_bulk_result *out_result,
                   struct qp_err *err)
{
    ENTER(q, bulk != NULL && out_result != NULL, err);
    struct bulk b = {.call = {.execute = bulk_execute, .q = q},
                     .what = bulk,
                     .capacity = (size_t)(bulk->limit > 0 ? bulk->limit : LIMIT_LIST_DEFAULT)};
    int rc = bulk_check(bulk, err);
    if (rc != QP_OK) {
        return rc;
    }
    b.ids = mem_alloc(&q->env, b.capacity * sizeof *b.ids);
    b.acts = mem_alloc(&q->env, b.capacity * sizeof *b.acts);
    rc = b.ids == NULL || b.acts == NULL ? err_set(err, QP_E_NOMEM, "bulk: out of memory")
                                         : bulk_page(q, &b, err);
    mem_free(&q->env, b.acts);
    mem_free(&q->env, b.ids);
    if (rc == QP_OK) {
        *out_result = b.result;
    }
    return rc;
}

/* ---------------------------------------------------------------------------------------- namespaces */

int qp_space_create(qp *q, qp_str name, struct qp_err *err)
{
    ENTER(q, true, err);
    struct op op = {.kind = OP_space_create, .space_create = {.name = name}};
    int rc = name_check(name, "namespace", err);
    rc = rc == QP_OK ? op_do(q, &op, "namespace", err) : rc;
    return rc == QP_E_EXISTS
               ? err_set(err, rc, "namespace '%.*s': it is there already", STR_ARG(name))
               : rc;
}
