/* jobs.c - starting, reading, waiting for and ending jobs; signals */
#include <stdio.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "kernel/filter.h"
#include "kernel/retry.h"
#include "kernel/single.h"
#include "run/handle.h"

#define LOOK_MS 200 /* between two looks at a job that another process may end */

const char *state_word(enum job_state state)
{
    static const char *const words[JOB_STATES] = {"running", "completed", "failed", "cancelled",
                                                  "interrupted"};
    return words[state];
}

static int job_error(struct qp_err *err, int rc, qp_str id, const char *what, const char *why)
{
    char shown[LIMIT_LOG_ECHO_SIZE];
    (void)log_escape(id, shown, sizeof shown); /* its length does not matter */
    return err_set(err, rc, "%s '%s': %s", what, shown, why);
}

/* ------------------------------------------------------------------------------------------ start */

/* One start, from the check to the answer. A blocking one stands on the caller's stack; an async one
 * is a block of memory of its own, with copies of its texts. */
struct starting {
    struct call call;
    struct request_start request;
    struct watch watch;
    struct qp_start start;
    int64_t kind;
    bool async;
    bool watched;
    char id[QP_ID_SIZE];
    char policy[RETRY_TEXT_SIZE];
};

/* What kernel/retry.c reads back. */
#define RETRY_ATTEMPTS_MOST 1000000000

static int policy_check(const struct qp_retry *r, struct qp_err *err)
{
    bool good = r->attempts >= 0 && r->attempts <= RETRY_ATTEMPTS_MOST && r->backoff_ms >= 0 &&
                r->backoff_ms <= LIMIT_TIMER_MS && r->cap_ms >= 0 && r->cap_ms <= LIMIT_TIMER_MS &&
                (r->factor == 0 || (r->factor >= 1 && r->factor <= 1000));
    return good ? QP_OK
                : err_set(
                      err, QP_E_INVALID,
                      "retry: attempts are 0 to %d, backoff_ms and cap_ms 0 to ten years, factor "
                      "is 0 or 1 to 1000",
                      RETRY_ATTEMPTS_MOST);
}

static int start_check(const qp *q, const struct qp_start *start, struct qp_err *err)
{
    int rc = topic_check(start->topic, err);
    if (rc == QP_OK && !str_is_none(start->id)) {
        rc = id_check(start->id, "job id", err);
    }
    if (rc == QP_OK && (start->priority < 0 || start->priority > LIMIT_PRIORITY)) {
        rc = err_set(err, QP_E_INVALID, "priority: %d, it is 0 to %d", start->priority,
                     LIMIT_PRIORITY);
    }
    if (rc == QP_OK && (start->timeout_ms < 0 || start->timeout_ms > LIMIT_TIMER_MS)) {
        rc = err_set(err, QP_E_INVALID, "timeout_ms: it is 0 to ten years");
    }
    rc = rc == QP_OK ? policy_check(&start->retry, err) : rc;
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
static int start_id(qp *q, const struct qp_start *start, char out_id[QP_ID_SIZE],
                    struct qp_err *err)
{
    unsigned char uuid[UUID_SIZE];
    int rc;
    if (!str_is_none(start->id)) {
        memcpy(out_id, start->id.p, start->id.n);
        out_id[start->id.n] = '\0';
        return QP_OK;
    }
    (void)pthread_mutex_lock(&q->lock);
    rc = uuid_next(&q->uuids, &q->env, uuid);
    (void)pthread_mutex_unlock(&q->lock);
    if (rc != QP_OK) {
        return err_set(err, rc, "no id can be made: the source of chance fails");
    }
    uuid_format(uuid, out_id);
    out_id[UUID_TEXT_SIZE] = '\0';
    return QP_OK;
}

/* None, when all of it is the default: then nothing needs to be kept. */
static qp_str start_policy(struct starting *s)
{
    const struct qp_retry *r = &s->start.retry;
    struct retry policy = retry_default;
    if (r->attempts == 0 && r->backoff_ms == 0 && r->factor == 0 && r->cap_ms == 0) {
        return QP_NONE;
    }
    policy.attempts = r->attempts > 0 ? r->attempts : policy.attempts;
    policy.backoff_ms = r->backoff_ms > 0 ? r->backoff_ms : policy.backoff_ms;
    policy.factor = r->factor > 0 ? r->factor : policy.factor;
    policy.cap_ms = r->cap_ms > 0 ? r->cap_ms : policy.cap_ms;
    return (qp_str){s->policy, retry_format(&policy, s->policy)};
}

static void starting_free(qp *q, struct starting *s)
{
    mem_free(&q->env, s);
}

/* The job of an async start has ended: its owner hears of it, and that is all. */
static void starting_ended(qp *q, struct watch *w, enum job_state state)
{
    struct starting *s = (struct starting *)((char *)w - offsetof(struct starting, watch));
    s->start.ended(s->start.context, state_word(state));
    starting_free(q, s);
}

/* The engine closes, and its owner hears no more. */
static void starting_dropped(qp *q, struct watch *w)
{
    starting_free(q, (struct starting *)((char *)w - offsetof(struct starting, watch)));
}

/* The job was there: under its own number, and perhaps it has ended already. */
static bool watch_again(qp *q, struct starting *s)
{
    struct arena arena;
    const void *row = NULL;
    struct job_row key = {.ns = s->request.job.ns, .job = s->request.job.job};
    bool watching = false;
    arena_init(&arena, &q->env, 0);
    watch_remove(q, &s->watch);
    if (store_get(q->store, &arena, TABLE_job, &key, &row, NULL) == QP_OK) {
        const struct job_row *job = row;
        s->watch.job = s->request.job;
        if (job->completions > 0) {
            s->start.ended(s->start.context, state_word((enum job_state)job->state));
        } else {
            watching = watch_add(q, &s->watch) == QP_OK;
        }
    }
    arena_done(&arena);
    return watching;
}

static void start_answered_async(qp *q, struct starting *s, int rc)
{
    bool there = rc == QP_OK || rc == QP_E_EXISTS;
    call_left(q);
    if (s->start.started != NULL) {
        s->start.started(s->start.context, there ? QP_OK : rc, s->id);
    }
    if (s->watched && rc == QP_E_EXISTS) {
        s->watched = watch_again(q, s);
    } else if (s->watched && !there) {
        watch_remove(q, &s->watch);
        s->watched = false;
    }
    if (!s->watched) {
        starting_free(q, s);
    }
}

static void start_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_start *r = (struct request_start *)c;
    struct starting *s = (struct starting *)((char *)r - offsetof(struct starting, request));
    qp *q = s->call.q;
    (void)e;
    if (s->async) {
        start_answered_async(q, s, rc);
        return;
    }
    if (rc == QP_E_CONFLICT) {
        why = "a job with this id was started with another input";
    }
    if (rc == QP_E_EXISTS) {
        rc = QP_OK;
    }
    if (rc != QP_OK) {
        (void)job_error(s->call.err, rc, str_from(s->id), "start", why);
    }
    call_done(q, &s->call, rc);
}

static int start_run_checked(qp *q, struct starting *s, struct qp_err *err)
{
    struct start *start = &s->request.start;
    *start = (struct start){.job = {.ref.ns = q->ns,
                                    .jid = str_from(s->id),
                                    .kind = s->kind,
                                    .workflow = s->start.topic,
                                    .priority = s->start.priority,
                                    .expire_ms = s->start.timeout_ms},
                            .input = s->start.input,
                            .policy = start_policy(s),
                            .fresh = str_is_none(s->start.id)};
    int rc = engine_number(q->engine, &start->job.ref.job, err);
    s->request.host = s->start.tx;
    s->request.host_context = s->start.tx_context;
    s->watch.job = start->job.ref;
    s->watch.ended = starting_ended;
    s->watch.drop = starting_dropped;
    if (rc == QP_OK && s->async && s->start.ended != NULL) {
        rc = watch_add(q, &s->watch);
        s->watched = rc == QP_OK;
    }
    return rc;
}

static void start_run(qp *q, struct call *c)
{
    struct starting *s = (struct starting *)c;
    struct qp_err err;
    int rc = start_run_checked(q, s, &err);
    request_start(&s->request);
    s->request.command.answer = start_answered;
    if (rc != QP_OK) {
        start_answered(q->engine, &s->request.command, rc, err.text);
    } else {
        engine_submit(q->engine, &s->request.command);
    }
}

int qp_job_start(qp *q, const struct qp_start *start, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    struct starting s = {.call = {.run = start_run, .q = q}, .start = *start};
    int rc = start_check(q, start, err);
    rc = rc == QP_OK ? start_id(q, start, s.id, err) : rc;
    if (rc != QP_OK) {
        return err_wrap(err, rc, "start");
    }
    rc = call_do(q, &s.call, err);
    if (rc == QP_OK && out_id != NULL) {
        memcpy(out_id, s.id, sizeof s.id);
    }
    return rc;
}

int qp_job_start_async(qp *q, const struct qp_start *start, struct qp_err *err)
{
    return job_start_async(q, start, SINGLE_KIND, err);
}

int job_start_async(qp *q, const struct qp_start *start, int64_t kind, struct qp_err *err)
{
    struct starting *s;
    char *texts;
    int rc = start_check(q, start, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "start");
    }
    s = mem_alloc(&q->env, sizeof *s + start->topic.n + start->input.n);
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "start: out of memory");
    }
    texts = (char *)(s + 1);
    memcpy(texts, start->topic.p, start->topic.n);
    memcpy(texts + start->topic.n, start->input.p, start->input.n);
    s->call = (struct call){.run = start_run, .q = q};
    s->async = true;
    s->kind = kind;
    s->start = *start;
    s->start.topic.p = texts;
    s->start.input.p = texts + start->topic.n;
    rc = start_id(q, start, s->id, err);
    if (rc == QP_OK) {
        rc = call_put(q, &s->call);
        rc = rc == QP_E_LIMIT ? err_set(err, rc, "%d starts wait already", LIMIT_COMMANDS) : rc;
        rc = rc == QP_E_CLOSED ? err_set(err, rc, "the engine is being closed") : rc;
        rc = rc == QP_E_READONLY ? err_set(err, rc, "the store was opened for reading only") : rc;
    }
    if (rc != QP_OK) {
        starting_free(q, s);
        return err_wrap(err, rc, "start");
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------- read */

struct reading {
    struct call call;
    struct watch watch;
    qp_str id;
    struct qp_job *job;
    bool wait;     /* until it has ended */
    bool watched;  /* it had not, when it was read; the caller's from then on */
    bool watching; /* the driver's */
    bool ended;    /* under the lock */
};

/* One block with the texts. */
static int job_fill(qp *q, const struct job_row *job, const struct act_row *act, qp_str output,
                    struct qp_job *out_job)
{
    qp_str error = job->parked.p != NULL ? job->parked : job->error;
    char *memory = mem_alloc(&q->env, output.n + error.n + 1);
    if (memory == NULL) {
        return QP_E_NOMEM;
    }
    if (output.n > 0) {
        memcpy(memory, output.p, output.n);
    }
    if (error.n > 0) {
        memcpy(memory + output.n, error.p, error.n);
    }
    *out_job = (struct qp_job){.status = status_word(job->status),
                               .output = {output.p == NULL ? NULL : memory, output.n},
                               .error = {error.p == NULL ? NULL : memory + output.n, error.n},
                               .open = job->sem,
                               .ledger = act == NULL ? 0 : act->ledger,
                               .failures = act == NULL ? 0 : act->attempt,
                               .memory = memory};
    return QP_OK;
}

static int job_find(qp *q, struct arena *arena, qp_str id, const struct job_row **out_job,
                    struct qp_err *err)
{
    const void *row = NULL;
    struct job_row key = {.ns = q->ns};
    int rc = store_get(q->store, arena, TABLE_job_name,
                       &(struct job_name_row){.ns = q->ns, .jid = id}, &row, err);
    if (rc == QP_OK) {
        key.job = ((const struct job_name_row *)row)->job;
        rc = store_get(q->store, arena, TABLE_job, &key, &row, err);
    }
    if (rc != QP_OK) {
        return job_error(err, rc, id, "job", qp_code_text(rc));
    }
    *out_job = row;
    return QP_OK;
}

static void reading_ended(qp *q, struct watch *w, enum job_state state)
{
    struct reading *r = (struct reading *)((char *)w - offsetof(struct reading, watch));
    (void)state;
    r->watching = false;
    (void)pthread_mutex_lock(&q->lock);
    r->ended = true;
    q->answered = true;
    (void)pthread_mutex_unlock(&q->lock);
}

/* Of a completed job: its own, or that of the response which closed it. */
static int job_output(qp *q, struct arena *arena, const struct job_row *job, qp_str *out_output)
{
    struct guid_row key = {
        .ns = job->ns, .job = job->job, .addr = QP_STR(SINGLE_ADDRESS), .guid = job->closed_by};
    struct guid_row closing = {0};
    int rc = QP_OK;
    if (job->state == JOB_COMPLETED && job->output.p == NULL && job->closed_by.p != NULL) {
        rc = store_guid(q->store, arena, &key, &closing, NULL);
    }
    if (rc == QP_OK || rc == QP_E_NOT_FOUND) {
        *out_output = job->state != JOB_COMPLETED ? QP_NONE
                      : job->output.p != NULL     ? job->output
                                                  : closing.output;
        rc = QP_OK;
    }
    return rc;
}

/* Reads the job, or, while it has not ended, waits for its end. */
static int read_job(qp *q, struct reading *r)
{
    struct arena arena;
    const struct job_row *job = NULL;
    const void *act = NULL;
    int rc;
    arena_init(&arena, &q->env, 0);
    rc = job_find(q, &arena, r->id, &job, r->call.err);
    if (rc == QP_OK && r->wait && job->completions == 0) {
        r->watch.job = (struct job_ref){job->ns, job->job};
        r->watch.ended = reading_ended;
        rc = watch_add(q, &r->watch);
        r->watched = r->watching = rc == QP_OK;
    } else if (rc == QP_OK) {
        struct act_row key = {.ns = job->ns, .job = job->job, .addr = QP_STR(SINGLE_ADDRESS)};
        qp_str output = QP_NONE;
        rc = store_get(q->store, &arena, TABLE_act, &key, &act, NULL);
        rc = rc == QP_OK || rc == QP_E_NOT_FOUND ? job_output(q, &arena, job, &output) : rc;
        rc = rc == QP_OK ? job_fill(q, job, act, output, r->job) : rc;
    }
    arena_done(&arena);
    return rc;
}

static void reading_run(qp *q, struct call *c)
{
    struct reading *r = (struct reading *)c;
    int rc = read_job(q, r);
    if (rc == QP_E_NOMEM) {
        (void)job_error(c->err, rc, r->id, "job", qp_code_text(rc));
    }
    call_done(q, c, rc);
}

int qp_job_get(qp *q, qp_str id, struct qp_job *out_job, struct qp_err *err)
{
    struct reading r = {.call = {.run = reading_run, .q = q}, .id = id, .job = out_job};
    int rc = id_check(id, "job id", err);
    return rc == QP_OK ? call_do(q, &r.call, err) : rc;
}

void qp_job_done(qp *q, struct qp_job *job)
{
    mem_free(&q->env, job->memory);
    *job = (struct qp_job){0};
}

static void unwatch_run(qp *q, struct call *c)
{
    struct reading *r = (struct reading *)((char *)c - offsetof(struct reading, call));
    if (r->watching) {
        watch_remove(q, &r->watch);
        r->watching = false;
    }
    call_done(q, c, QP_OK);
}

/* The monotonic time of a timeout; one of more than ten years is for ever. */
static int64_t until_us(const qp *q, qp_ms timeout_ms)
{
    return timeout_ms < 0 || timeout_ms > LIMIT_TIMER_MS
               ? -1
               : q->env.monotonic_us(q->env.context) + timeout_ms * INT64_C(1000);
}

/* Where others work, too, nobody tells us that a job has ended: so we look now and then. */
static int64_t look_us(const qp *q, int64_t until)
{
    int64_t look = q->env.monotonic_us(q->env.context) + LOOK_MS * INT64_C(1000);
    return q->shared && (until < 0 || look < until) ? look : until;
}

/* Reads the job, and waits if it has not ended; *out_again: look once more. */
static int wait_for(qp *q, qp_str id, int64_t until, struct qp_job *out_job, bool *out_again,
                    struct qp_err *err)
{
    struct reading r = {
        .call = {.run = reading_run, .q = q}, .id = id, .job = out_job, .wait = true};
    int64_t look = look_us(q, until);
    struct qp_err why;
    int rc = call_do(q, &r.call, err);
    *out_again = false;
    if (rc != QP_OK || !r.watched) {
        return rc;
    }
    rc = wait_until(q, &r.ended, look, &why);
    if (rc != QP_OK) {
        r.call.run = unwatch_run;
        (void)call_do(q, &r.call, NULL); /* it cannot fail */
    }
    *out_again = !r.ended && rc == QP_E_TIMEOUT && look != until;
    return r.ended ? qp_job_get(q, id, out_job, err) : job_error(err, rc, id, "wait for", why.text);
}

int qp_job_wait(qp *q, qp_str id, qp_ms timeout_ms, struct qp_job *out_job, struct qp_err *err)
{
    int64_t until = until_us(q, timeout_ms);
    bool again = true;
    int rc = id_check(id, "job id", err);
    while (rc == QP_OK && again) {
        rc = wait_for(q, id, until, out_job, &again, err);
        rc = again ? QP_OK : rc;
    }
    return rc;
}

/* ------------------------------------------------------------------ ends, pauses, signals, host */

/* One command of any kind, waited for. */
struct asking {
    struct call call;
    union {
        struct command command;
        struct request_end end;
        struct request_unpark unpark;
        struct request_signal signal;
        struct request_op op;
    };
    const char *what;
    qp_str id;
};

static void asking_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct asking *a = (struct asking *)((char *)c - offsetof(struct asking, command));
    (void)e;
    if (rc != QP_OK) {
        (void)job_error(a->call.err, rc, a->id, a->what, why);
    }
    call_done(a->call.q, &a->call, rc);
}

static void asking_run(qp *q, struct call *c)
{
    struct asking *a = (struct asking *)c;
    a->command.answer = asking_answered;
    engine_submit(q->engine, &a->command);
}

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

static int end_job(qp *q, qp_str id, enum job_state state, const char *reason, const char *what,
                   struct qp_err *err)
{
    struct asking a = {.call = {.run = asking_run, .q = q}, .what = what, .id = id};
    int rc = id_check(id, "job id", err);
    a.end.ns = q->ns;
    a.end.jid = id;
    a.end.state = state;
    a.end.error = str_from(reason != NULL ? reason : what);
    rc = rc == QP_OK ? reason_check(a.end.error, err) : rc;
    if (rc != QP_OK) {
        return err_wrap(err, rc, "%s", what);
    }
    request_end(&a.end);
    return call_do(q, &a.call, err);
}

int qp_job_cancel(qp *q, qp_str id, const char *reason, struct qp_err *err)
{
    return end_job(q, id, JOB_CANCELLED, reason, "cancel", err);
}

int qp_job_interrupt(qp *q, qp_str id, const char *reason, struct qp_err *err)
{
    return end_job(q, id, JOB_INTERRUPTED, reason, "interrupt", err);
}

int qp_job_retry(qp *q, qp_str id, struct qp_err *err)
{
    struct asking a = {.call = {.run = asking_run, .q = q}, .what = "retry", .id = id};
    int rc = id_check(id, "job id", err);
    a.unpark.ns = q->ns;
    a.unpark.jid = id;
    request_unpark(&a.unpark);
    return rc == QP_OK ? call_do(q, &a.call, err) : err_wrap(err, rc, "retry");
}

/* Ops on a job by its number: found on the driver, in the turn that asks. */
static void pause_run(qp *q, struct call *c)
{
    struct asking *a = (struct asking *)c;
    struct arena arena;
    const struct job_row *job = NULL;
    int rc;
    arena_init(&arena, &q->env, 0);
    rc = job_find(q, &arena, a->id, &job, c->err);
    if (rc == QP_OK) {
        struct job_ref ref = {job->ns, job->job};
        if (a->op.op.kind == OP_job_pause) {
            a->op.op.job_pause.ref = ref;
        } else {
            a->op.op.job_resume.ref = ref;
        }
    }
    arena_done(&arena);
    if (rc != QP_OK) {
        call_done(q, c, rc);
        return;
    }
    asking_run(q, c);
}

int qp_job_pause(qp *q, qp_str id, struct qp_err *err)
{
    struct asking a = {.call = {.run = pause_run, .q = q}, .what = "pause", .id = id};
    int rc = id_check(id, "job id", err);
    a.op.op = (struct op){.kind = OP_job_pause};
    request_op(&a.op);
    return rc == QP_OK ? call_do(q, &a.call, err) : err_wrap(err, rc, "pause");
}

int qp_job_resume(qp *q, qp_str id, struct qp_err *err)
{
    struct asking a = {.call = {.run = pause_run, .q = q}, .what = "resume", .id = id};
    int rc = id_check(id, "job id", err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "resume");
    }
    do {
        a.op.op = (struct op){.kind = OP_job_resume,
                              .job_resume = {.status = STATUS_RUNNING, .limit = LIMIT_SWEEP_ROWS}};
        request_op(&a.op);
        rc = call_do(q, &a.call, err);
    } while (rc == QP_OK && a.op.op.job_resume.out_more);
    return rc;
}

/* A signal's GUID: from its id, or a new one. */
static int signal_guid(qp *q, const struct qp_signal *signal, unsigned char out_guid[UUID_SIZE],
                       struct qp_err *err)
{
    int rc;
    if (!str_is_none(signal->id)) {
        hash_guid(signal->topic.p, signal->topic.n, signal->id.p, signal->id.n, out_guid);
        return QP_OK;
    }
    (void)pthread_mutex_lock(&q->lock);
    rc = uuid_next(&q->uuids, &q->env, out_guid);
    (void)pthread_mutex_unlock(&q->lock);
    return rc == QP_OK ? QP_OK
                       : err_set(err, rc, "signal: no id can be made: the source of chance fails");
}

static int signal_check(const qp *q, const struct qp_signal *s, struct qp_err *err)
{
    int rc = name_check(s->topic, "topic", err);
    rc = rc == QP_OK ? id_check(s->key, "key", err) : rc;
    rc = rc == QP_OK && !str_is_none(s->id) ? id_check(s->id, "signal id", err) : rc;
    if (rc == QP_OK && (s->ttl_ms < 0 || s->ttl_ms > LIMIT_TIMER_MS)) {
        rc = err_set(err, QP_E_INVALID, "ttl_ms: %lld, it is 0 to %lld (ten years)",
                     (long long)s->ttl_ms, (long long)LIMIT_TIMER_MS);
    }
    if (rc == QP_OK && s->payload.n > LIMIT_PAYLOAD_SIZE) {
        rc = err_set(err, QP_E_TOO_LARGE, "payload: %zu bytes, the limit is %d", s->payload.n,
                     LIMIT_PAYLOAD_SIZE);
    }
    if (rc == QP_OK) {
        rc = json_check(&q->env, s->payload, NULL, err);
        rc = rc == QP_OK ? QP_OK : err_wrap(err, rc, "payload");
    }
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "signal");
}

int qp_signal_send(qp *q, const struct qp_signal *signal, struct qp_err *err)
{
    struct asking a = {.call = {.run = asking_run, .q = q}, .what = "signal", .id = signal->key};
    unsigned char guid[UUID_SIZE];
    int rc = signal_check(q, signal, err);
    rc = rc == QP_OK ? signal_guid(q, signal, guid, err) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    a.signal.signal = (struct op_hook_signal){.ns = q->ns,
                                              .topic = signal->topic,
                                              .key = signal->key,
                                              .guid = {(const char *)guid, sizeof guid},
                                              .payload = signal->payload,
                                              .code = 200,
                                              .ttl_ms = signal->ttl_ms > 0 ? signal->ttl_ms
                                                                           : LIMIT_SIGNAL_TTL_MS};
    request_signal(&a.signal);
    return call_do(q, &a.call, err);
}

int qp_exec(qp *q, qp_tx tx, void *context, struct qp_err *err)
{
    struct asking a = {.call = {.run = asking_run, .q = q}, .what = "exec", .id = QP_STR("host")};
    if (tx == NULL) {
        return err_set(err, QP_E_INVALID, "exec: no function");
    }
    a.op.op = (struct op){.kind = OP_host_call, .host_call = {tx, context}};
    request_op(&a.op);
    return call_do(q, &a.call, err);
}
