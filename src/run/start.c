/* start.c - starting jobs, with all that commits with a start
 *
 * A start is checked on the caller's thread, decided and committed on the driver's, and answered after that.
 * If we crash before the commit, there is no job, no record of its idempotency key and no signal; if after
 * it, there is all of it, and a caller that asks again gets the same answer.
 */
#include "run/start.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/json.h"
#include "kernel/retry.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/ids.h"
#include "run/jobs.h"
#include "run/loop.h"
#include "run/signals.h"
#include "run/stats.h"

/* One start, from the check to the answer. A blocking one stands on the caller's stack; an async one
 * in an arena of its own, with copies of its texts. */
struct starting {
    struct call call;
    struct arena arena;    /* of an async one: itself, and its texts */
    struct starting *next; /* of a task: the next that commits with its output */
    struct request_start request;
    struct subscription subscription;
    struct host_tx host;
    struct qp_start start;
    struct op_hook_signal signal;
    int64_t ns;
    bool async;
    bool of_task; /* it commits with a task's output */
    bool derived; /* its id follows from the task's key */
    bool watched;
    unsigned char signal_guid[UUID_SIZE];
    unsigned char idem_hash[LIMIT_GUID_SIZE];
    char id[QP_ID_SIZE];
    char policy[RETRY_TEXT_SIZE];
};

/* What kernel/retry.c reads back. */
#define RETRY_ATTEMPTS_MOST 1000000000

static int limit_check(const char *name, qp_ms ms, struct qp_err *err)
{
    return ms >= 0 && ms <= LIMIT_TIMER_MS
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "retry: %s must be between 0 (no limit) and %lld (ten years), got %lld",
                         name, (long long)LIMIT_TIMER_MS, (long long)ms);
}

static int policy_check(const struct qp_retry *r, struct qp_err *err)
{
    bool good = r->attempts >= 0 && r->attempts <= RETRY_ATTEMPTS_MOST && r->backoff_ms >= 0 &&
                r->backoff_ms <= LIMIT_TIMER_MS && r->cap_ms >= 0 && r->cap_ms <= LIMIT_TIMER_MS &&
                (r->factor == 0 || (r->factor >= 1 && r->factor <= 1000));
    QP_TRY(limit_check("start_timeout_ms", r->start_timeout_ms, err));
    QP_TRY(limit_check("run_timeout_ms", r->run_timeout_ms, err));
    QP_TRY(limit_check("heartbeat_ms", r->heartbeat_ms, err));
    return good ? QP_OK
                : err_set(
                      err, QP_E_INVALID,
                      "retry: attempts are 0 to %d, backoff_ms and cap_ms 0 to ten years, factor "
                      "is 0 or 1 to 1000",
                      RETRY_ATTEMPTS_MOST);
}

static int attribute_check(const struct qp_attribute *a, struct qp_err *err)
{
    QP_TRY(name_check(a->name, "attribute", err));
    if (a->value.n > LIMIT_ATTRIBUTE_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "attribute '%.*s': %zu bytes, the limit is %d",
                       STR_ARG(a->name), a->value.n, LIMIT_ATTRIBUTE_SIZE);
    }
    if (str_is_none(a->value) || utf8_valid_prefix(a->value) < a->value.n) {
        return err_set(err, QP_E_INVALID, "attribute '%.*s': no text in UTF-8", STR_ARG(a->name));
    }
    return QP_OK;
}

static int attributes_check(const struct qp_start *start, struct qp_err *err)
{
    if (start->attribute_count > LIMIT_START_ATTRIBUTES) {
        (void)err_set(err, QP_E_TOO_LARGE, "attributes: more than %d, which is the limit",
                      LIMIT_START_ATTRIBUTES);
        return err_point(err, QP_E_TOO_LARGE, "/attributes");
    }
    for (size_t i = 0; i < start->attribute_count; i++) {
        QP_TRY(attribute_check(&start->attributes[i], err));
    }
    return QP_OK;
}

static int times_check(const struct qp_start *start, struct qp_err *err)
{
    if (start->timeout_ms < 0 || start->timeout_ms > LIMIT_TIMER_MS) {
        return err_set(err, QP_E_INVALID, "timeout_ms: it is 0 to ten years");
    }
    if (start->delay_ms < 0 || start->delay_ms > LIMIT_TIMER_MS) {
        return err_set(err, QP_E_INVALID, "delay_ms: it is 0 to ten years");
    }
    if (start->idem_ms < 0 || start->idem_ms > LIMIT_TIMER_MS) {
        return err_set(err, QP_E_INVALID, "idem_ms: it is 0 to ten years");
    }
    return QP_OK;
}

static int priority_check(int priority, struct qp_err *err)
{
    if (priority >= 0 && priority <= LIMIT_PRIORITY) {
        return QP_OK;
    }
    (void)err_set(err, QP_E_INVALID, "priority must be between 0 and %d, got %d", LIMIT_PRIORITY,
                  priority);
    return err_point(err, QP_E_INVALID, "/priority");
}

/* An id that may be there. */
static int given_id_check(qp_str id, const char *what, struct qp_err *err)
{
    return str_is_none(id) ? QP_OK : id_check(id, what, err);
}

static int ids_check(const struct qp_start *start, struct qp_err *err)
{
    QP_TRY(given_id_check(start->id, "job id", err));
    QP_TRY(given_id_check(start->custom_id, "custom id", err));
    QP_TRY(given_id_check(start->limit_key, "limit key", err));
    if (str_equal(start->limit_key, QP_STR("*"))) {
        return err_set(
            err, QP_E_INVALID,
            "limit key: '*' stands for all keys in qp_limit_set: a job has another, or none");
    }
    return given_id_check(start->idem_key, "idempotency key", err);
}

static int input_check(const qp *q, const struct qp_start *start, enum json_trust trust,
                       struct qp_err *err)
{
    int rc;
    if (start->input.n > LIMIT_PAYLOAD_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "input: %zu bytes, the limit is %d", start->input.n,
                       LIMIT_PAYLOAD_SIZE);
    }
    if (trust == JSON_CHECKED) {
        return QP_OK;
    }
    rc = json_check(&q->env, start->input, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "input");
}

/* The signal that commits with it. */
static int start_signal_check(const qp *q, const struct qp_signal *signal, enum json_trust trust,
                              struct qp_err *err)
{
    QP_TRY(signal_check(q, signal, trust, err));
    return !str_is_none(signal->key)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "signal: key: none, and the signal of a start needs one: only "
                         "qp_signal_send reads it from the payload");
}

static int start_check(const qp *q, const struct qp_start *start, enum json_trust trust,
                       struct qp_err *err)
{
    QP_TRY(topic_check(start->topic, err));
    if (start->topic.p[0] == '.') {
        return err_set(err, QP_E_NOT_FOUND, "topic '%.*s' is private: only other graphs start it",
                       STR_ARG(start->topic));
    }
    QP_TRY(ids_check(start, err));
    QP_TRY(priority_check(start->priority, err));
    QP_TRY(times_check(start, err));
    QP_TRY(policy_check(&start->retry, err));
    QP_TRY(attributes_check(start, err));
    if (start->signal != NULL) {
        QP_TRY(start_signal_check(q, start->signal, trust, err));
    }
    return input_check(q, start, trust, err);
}

/* None, when all of it is the default: then nothing needs to be kept. */
static qp_str start_policy(struct starting *s)
{
    const struct qp_retry *r = &s->start.retry;
    struct retry policy = retry_default;
    if (r->attempts == 0 && r->backoff_ms == 0 && r->factor == 0 && r->cap_ms == 0 &&
        r->start_timeout_ms == 0 && r->run_timeout_ms == 0 && r->heartbeat_ms == 0) {
        return QP_NONE;
    }
    policy.attempts = r->attempts > 0 ? r->attempts : policy.attempts;
    policy.backoff_ms = r->backoff_ms > 0 ? r->backoff_ms : policy.backoff_ms;
    policy.factor = r->factor > 0 ? r->factor : policy.factor;
    policy.cap_ms = r->cap_ms > 0 ? r->cap_ms : policy.cap_ms;
    policy.limits = (struct time_limits){{[TIME_LIMIT_START] = r->start_timeout_ms,
                                          [TIME_LIMIT_RUN] = r->run_timeout_ms,
                                          [TIME_LIMIT_BEAT] = r->heartbeat_ms}};
    return (qp_str){s->policy, retry_format(&policy, s->policy)};
}

static void starting_free(struct starting *s)
{
    struct arena arena = s->arena; /* it stands in there itself */
    arena_done(&arena);
}

static struct starting *starting_of(struct subscription *s)
{
    return (struct starting *)((char *)s - offsetof(struct starting, subscription));
}

/* The job of an async start has ended: its owner is notified, and the start is over. */
static void starting_ended(struct subscription *subscription, enum follow_event event,
                           enum job_state state)
{
    struct starting *s = starting_of(subscription);
    (void)event;
    s->start.ended(s->start.context, state_word(state));
    starting_free(s);
}

/* The engine closes before the job has ended: its owner is not notified. */
static void starting_dropped(struct subscription *subscription)
{
    struct starting *s = starting_of(subscription);
    starting_free(s);
}

/* The job was there: under its own number, and perhaps it has ended already. */
static bool watch_again(qp *q, struct starting *s)
{
    struct arena arena;
    const void *row = NULL;
    struct job_row key = {.ns = s->request.job.ns, .job = s->request.job.job};
    bool watching = false;
    arena_init(&arena, &q->env, 0);
    follow_remove(q, &s->subscription);
    if (store_get(q->store, &arena, TABLE_job, &key, &row, NULL) == QP_OK) {
        const struct job_row *job = row;
        s->subscription.job = s->request.job;
        if (job->completions > 0) {
            s->start.ended(s->start.context, state_word((enum job_state)job->state));
        } else {
            watching = follow_add(q, &s->subscription) == QP_OK;
        }
    }
    arena_done(&arena);
    return watching;
}

/* The id that the answer tells: that of the job that is there, or that its graph gave it. */
static void take_id(struct starting *s)
{
    qp_str jid = s->request.jid;
    if (!str_is_none(jid)) {
        QP_ASSERT(jid.n < sizeof s->id);
        memcpy(s->id, jid.p, jid.n);
        s->id[jid.n] = '\0';
    }
    if (s->request.keyed.taken[0] != '\0') {
        memcpy(s->id, s->request.keyed.taken, sizeof s->id);
    }
}

static void tell_answered(const struct starting *s, bool there, bool other, int rc, const char *why)
{
    struct qp_started what = {.code = there ? QP_OK : rc,
                              .id = s->id,
                              .existed = other,
                              .by_key = s->request.keyed.met,
                              .text = why,
                              .pointer = refusal_pointer(&s->request.refusal, rc)};
    if (s->start.answered != NULL) {
        s->start.answered(s->start.context, &what);
    }
}

static void start_answered_async(qp *q, struct starting *s, int rc, const char *why)
{
    bool there = rc == QP_OK || rc == QP_E_EXISTS;
    bool other = rc == QP_E_EXISTS || s->request.keyed.taken[0] != '\0';
    call_left(&q->driver, &s->call);
    take_id(s);
    if (s->start.started != NULL) {
        s->start.started(s->start.context, there ? QP_OK : rc, s->id);
    }
    tell_answered(s, there, other, rc, why);
    if (s->watched && there && other) {
        s->watched = !s->request.keyed.met && watch_again(q, s);
        if (s->request.keyed.met) {
            follow_remove(q, &s->subscription); /* the record says the id, and no more */
        }
    } else if (s->watched && !there) {
        follow_remove(q, &s->subscription);
        s->watched = false;
    }
    if (!s->watched) {
        starting_free(s);
    }
}

#define WHY_CONFLICT_SIZE (2 * LIMIT_ID_SIZE + 64)

/* It names the job that is there. */
static const char *why_conflict(const struct starting *s, char out_why[WHY_CONFLICT_SIZE])
{
    qp_str taken = str_from(s->request.keyed.taken);
    qp_str id = taken.n > 0                   ? taken
                : str_is_none(s->request.jid) ? str_from(s->id)
                                              : s->request.jid;
    if (s->request.custom_taken) {
        (void)snprintf(out_why, WHY_CONFLICT_SIZE,
                       "the custom id '%.*s' is that of the open job '%.*s'",
                       STR_ARG(s->start.custom_id), STR_ARG(id));
        return out_why;
    }
    if (s->request.keyed.met) {
        return "the idempotency key was used with another body";
    }
    (void)snprintf(out_why, WHY_CONFLICT_SIZE, "the job '%.*s' was started with another input",
                   STR_ARG(id));
    return out_why;
}

static void start_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_start *r = (struct request_start *)c;
    struct starting *s = (struct starting *)((char *)r - offsetof(struct starting, request));
    qp *q = s->call.q;
    char text[HOST_TEXT_SIZE];
    char other[WHY_CONFLICT_SIZE];
    (void)e;
    if (rc == QP_OK && s->request.announced) {
        faces_changed(q->faces, q->store);
    }
    if (rc == QP_OK && s->request.keyed.taken[0] == '\0') {
        stats_started(q, s->start.topic, s->start.input);
    }
    why = refusal_text(&s->request.refusal, rc, why);
    if (rc != QP_OK && rc != QP_E_EXISTS && rc != QP_E_CONFLICT) {
        s->request.jid = QP_NONE; /* it may be that of a decision that was undone */
    }
    why = host_why(&s->host, rc, why, text);
    if (rc == QP_E_CONFLICT) {
        why = why_conflict(s, other);
    }
    if (s->async) {
        start_answered_async(q, s, rc, why);
        return;
    }
    take_id(s);
    tell_answered(s, rc == QP_OK || rc == QP_E_EXISTS,
                  rc == QP_E_EXISTS || s->request.keyed.taken[0] != '\0', rc, why);
    if (rc == QP_E_EXISTS) {
        rc = QP_OK;
    }
    if (rc != QP_OK) {
        (void)job_error(s->call.err, rc, str_from(s->id), "start", why);
        (void)err_point(s->call.err, rc, "%s", refusal_pointer(&s->request.refusal, rc));
    }
    call_done(&q->driver, &s->call, rc);
}

/* The signal that commits with it. */
static void fill_signal(struct starting *s)
{
    const struct qp_signal *signal = s->start.signal;
    if (signal == NULL) {
        return;
    }
    s->signal = (struct op_hook_signal){
        .ns = s->ns,
        .topic = signal->topic,
        .key = signal->key,
        .guid = {(const char *)s->signal_guid, sizeof s->signal_guid},
        .payload = signal->payload,
        .code = 200,
        .has_id = !str_is_none(signal->id),
        .ttl_ms = signal->ttl_ms > 0 ? signal->ttl_ms : LIMIT_SIGNAL_TTL_MS};
    s->request.signal = &s->signal;
    s->request.signal_id = signal->id;
}

/* The record of the idempotency key: its answer is the id. */
static void fill_idem(struct starting *s)
{
    const struct qp_start *start = &s->start;
    struct op_idem_put *idem = &s->request.keyed.idem;
    if (str_is_none(start->idem_key)) {
        return;
    }
    *idem = idem_record(s->ns, start->idem_key, start->idem_body, str_from(s->id), s->idem_hash);
    if (str_is_none(start->idem_body)) {
        hash_guid(start->topic.p, start->topic.n, start->input.p, start->input.n, s->idem_hash);
    }
    idem->ttl_ms = start->idem_ms > 0 ? start->idem_ms : LIMIT_IDEM_MS;
}

static void fill_start(struct starting *s)
{
    const struct qp_start *from = &s->start;
    qp_ms expire_ms = from->timeout_ms > 0 ? from->timeout_ms + from->delay_ms : 0;
    s->request.start = (struct start){
        .job = {.ref.ns = s->ns,
                .jid = str_from(s->id),
                .workflow = from->topic,
                .custom_id = from->custom_id,
                .limit_key = from->limit_key,
                .priority = from->priority,
                .expire_ms = expire_ms < LIMIT_TIMER_MS ? expire_ms : LIMIT_TIMER_MS},
        .input = from->input,
        .policy = start_policy(s),
        .fresh = str_is_none(from->id),
        .derived = s->derived,
        .by_message = s->of_task,
        .delay_ms = from->delay_ms,
        .pending = from->pending};
    s->request.announces = from->of_workflow;
    s->request.attributes = from->attributes;
    s->request.attribute_count = from->attribute_count;
    s->host = (struct host_tx){.tx = from->tx, .context = from->tx_context};
    s->request.host = from->tx == NULL ? NULL : host_call;
    s->request.host_context = &s->host;
    fill_signal(s);
    fill_idem(s);
}

/* On the driver: the request as the kernel has it, the job's number, and who is notified of its end. */
static int start_fill(qp *q, struct starting *s, struct qp_err *err)
{
    struct job_ref *ref = &s->request.start.job.ref;
    int rc;
    fill_start(s);
    rc = engine_number(q->engine, &ref->job, err);
    s->subscription = (struct subscription){.job = *ref,
                                            .events = FOLLOW_ENDED,
                                            .once = true,
                                            .notify = starting_ended,
                                            .drop = starting_dropped};
    if (rc == QP_OK && s->async && s->start.ended != NULL) {
        rc = follow_add(q, &s->subscription);
        s->watched = rc == QP_OK;
    }
    return rc;
}

static void start_execute(qp *q, struct call *c)
{
    struct starting *s = (struct starting *)c;
    struct qp_err err;
    int rc = start_fill(q, s, &err);
    request_start(&s->request);
    s->request.command.answer = start_answered;
    if (rc != QP_OK) {
        start_answered(q->engine, &s->request.command, rc, err.text);
    } else {
        engine_submit(q->engine, &s->request.command);
    }
}

/* An async start that the driver has not taken in time: its owner hears that nothing was done. */
static void start_withdrawn(qp *q, struct call *c)
{
    struct starting *s = (struct starting *)c;
    QP_ASSERT(s->async && !s->watched);
    start_answered_async(q, s, QP_E_TIMEOUT, call_late_text());
}

/* What must be found before it is queued. */
static int start_prepare(qp *q, struct starting *s, struct qp_err *err)
{
    QP_TRY(space_number(q, s->start.ns, &s->ns, err));
    QP_TRY(ids_of_job(q, s->start.id, s->id, err));
    return s->start.signal == NULL ? QP_OK : signal_guid(q, s->start.signal, s->signal_guid, err);
}

static int start_now(qp *q, struct starting *s, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    int rc = start_check(q, &s->start, JSON_UNCHECKED, err);
    if (rc == QP_OK) {
        rc = start_prepare(q, s, err);
    }
    if (rc != QP_OK) {
        return err_wrap(err, rc, "start");
    }
    s->call.execute = start_execute;
    s->call.q = q;
    rc = call_do(&q->driver, &s->call, err);
    if (rc == QP_OK && out_id != NULL) {
        memcpy(out_id, s->id, sizeof s->id);
    }
    return rc;
}

int qp_job_start(qp *q, const struct qp_start *start, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    ENTER(q, start != NULL, err);
    struct starting s = {.start = *start};
    return start_now(q, &s, out_id, err);
}

/* ---------------------------------------------------------------------------------------- copies */

static bool keep_texts(struct arena *arena, qp_str *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!arena_copy(arena, *texts[i], texts[i])) {
            return false;
        }
    }
    return true;
}

static bool keep_attributes(struct starting *s)
{
    size_t count = s->start.attribute_count;
    struct qp_attribute *list = arena_alloc(&s->arena, count * sizeof *list + 1);
    QP_ASSERT(count <= LIMIT_START_ATTRIBUTES);
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (!arena_copy(&s->arena, s->start.attributes[i].name, &list[i].name) ||
            !arena_copy(&s->arena, s->start.attributes[i].value, &list[i].value)) {
            return false;
        }
    }
    s->start.attributes = list;
    return list != NULL;
}

static bool keep_signal(struct starting *s)
{
    struct qp_signal *signal;
    if (s->start.signal == NULL) {
        return true;
    }
    signal = ARENA_NEW(&s->arena, struct qp_signal);
    if (signal == NULL) {
        return false;
    }
    *signal = *s->start.signal;
    s->start.signal = signal;
    return keep_texts(
        &s->arena, (qp_str *const[]){&signal->topic, &signal->key, &signal->payload, &signal->id},
        4);
}

/* A copy with all that it points to, in an arena of its own, in which it stands itself. NULL: no memory. */
static struct starting *starting_copy(qp *q, const struct qp_start *start)
{
    struct arena arena;
    struct starting *s;
    arena_init(&arena, &q->env, 0);
    s = ARENA_NEW(&arena, struct starting);
    if (s == NULL) {
        return NULL;
    }
    s->arena = arena;
    s->start = *start;
    qp_str *const texts[] = {&s->start.topic,     &s->start.input,     &s->start.ns,
                             &s->start.custom_id, &s->start.limit_key, &s->start.idem_key,
                             &s->start.idem_body};
    if (!keep_texts(&s->arena, texts, ARRAY_COUNT(texts)) || !keep_attributes(s) ||
        !keep_signal(s)) {
        starting_free(s);
        return NULL;
    }
    return s;
}

static int start_later(qp *q, const struct qp_start *start, enum json_trust trust,
                       struct qp_err *err)
{
    struct starting *s;
    int rc = start_check(q, start, trust, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "start");
    }
    s = starting_copy(q, start);
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "start: out of memory");
    }
    s->call = (struct call){.execute = start_execute, .withdrawn = start_withdrawn, .q = q};
    s->async = true;
    rc = start_prepare(q, s, err);
    if (rc == QP_OK) {
        rc = call_queue(&q->driver, &s->call, err);
    }
    if (rc != QP_OK) {
        starting_free(s);
        return err_wrap(err, rc, "start");
    }
    return QP_OK;
}

int qp_job_start_async(qp *q, const struct qp_start *start, struct qp_err *err)
{
    ENTER(q, start != NULL, err);
    return start_later(q, start, JSON_UNCHECKED, err);
}

int start_async(qp *q, const struct qp_start *start, enum json_trust trust, struct qp_err *err)
{
    ENTER(q, start != NULL, err);
    return start_later(q, start, trust, err);
}

/* ------------------------------------------------------------------------------- of a task's output */

/* The n-th start of a task that gives no id: the same at every attempt. */
static void derive_id(const qp_task *t, char out_id[QP_ID_SIZE])
{
    char key[QP_TASK_KEY_SIZE];
    task_key(t->task, key);
    (void)snprintf(out_id, QP_ID_SIZE, "%s-%lld", key, (long long)t->start_count + 1);
}

static void task_starts_add(qp_task *t, struct starting *s)
{
    struct starting **end = &t->starts;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = s;
    t->start_count++;
}

int qp_task_start(qp_task *t, const struct qp_start *start, struct qp_err *err)
{
    ENTER(t == NULL ? NULL : t->q, start != NULL, err);
    qp *q = t->q;
    struct starting *s;
    char derived[QP_ID_SIZE];
    int rc;
    if (t->start_count >= LIMIT_TASK_STARTS) {
        return err_set(err, QP_E_LIMIT, "start: a task starts at most %d jobs with its output",
                       LIMIT_TASK_STARTS);
    }
    rc = start_check(q, start, JSON_UNCHECKED, err);
    if (rc != QP_OK) {
        return err_wrap(err, rc, "start");
    }
    s = starting_copy(q, start);
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "start: out of memory");
    }
    s->of_task = true;
    s->derived = str_is_none(start->id);
    if (s->derived) {
        derive_id(t, derived);
        s->start.id = str_from(derived);
    }
    rc = start_prepare(q, s, err);
    if (rc != QP_OK) {
        starting_free(s);
        return err_wrap(err, rc, "start");
    }
    s->start.id = str_from(s->id);
    task_starts_add(t, s);
    return QP_OK;
}

int task_starts_fill(qp_task *t, struct request_result *r, struct qp_err *err)
{
    struct request_start **end = &r->starts;
    *end = NULL;
    for (struct starting *s = t->starts; s != NULL; s = s->next) {
        int64_t number = s->request.start.job.ref.job; /* of a try before */
        if (number == 0) {
            QP_TRY(engine_number(t->q->engine, &number, err));
        }
        s->request = (struct request_start){0};
        fill_start(s);
        s->request.start.job.ref.job = number;
        *end = &s->request;
        end = &s->request.also;
    }
    return QP_OK;
}

void task_starts_done(const qp_task *t)
{
    for (const struct starting *s = t->starts; s != NULL; s = s->next) {
        if (!s->request.existed) {
            stats_started(t->q, s->start.topic, s->start.input);
        }
    }
}

void task_starts_free(qp_task *t)
{
    while (t->starts != NULL) {
        struct starting *s = t->starts;
        t->starts = s->next;
        starting_free(s);
    }
}
