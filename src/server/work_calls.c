/* work_calls.c - POST /v1/work: a worker brings results and beats, and asks for tasks
 *
 *   request --> work_submit --> (parked in the engine) --> answered on its thread
 *           --> rendered on the carrier's --> told, or given back
 *
 * A call that brings nothing may be parked for long, and there may be very many: it is one small
 * arena (kept.h), and gives back body and texts. One that brings results keeps them until they are
 * committed, which is soon.
 */
#include <stdio.h>

#include "run/handle.h"
#include "run/show.h"
#include "run/work.h"
#include "run/work_more.h"
#include "server/fields.h"
#include "server/handlers.h"
#include "server/kept.h"

#define WORK_WAIT_MS (20 * 1000) /* unless the worker says otherwise */

/* A call of a worker. Its time is for the end of the server, and for a store that does not answer: else the engine keeps
 * the time of the call. What it brings is in the call's arena. */
struct working {
    struct kept kept;
    struct work_call work;
    struct api_call *call;
    int rc;
    char why[LIMIT_LOG_ECHO_SIZE];
    unsigned char key[HASH_KEYED_SIZE]; /* of the caller */
    /* under the lock */
    bool over;      /* work_done comes */
    bool answered;  /* by the engine */
    bool reprieved; /* it was late once, and the store is at work */
};

/* -------------------------------------------------------------------------------------- answer */

static const char *ack_word(enum work_status status)
{
    static const char *const words[] = {"ok", "stale", "cancelled", "refused"};
    return words[status];
}

static void put_ack(struct json_writer *w, qp_str token, enum work_status status, int rc,
                    const char *why, const char *pointer)
{
    json_begin_object(w);
    json_key(w, QP_STR("token"));
    json_put_str(w, token);
    json_key(w, QP_STR("status"));
    json_put_str(w, str_from(ack_word(status)));
    if (status == WORK_REFUSED) {
        json_key(w, QP_STR("code"));
        json_put_str(w, str_from(qp_code_word(rc)));
        show_text(w, "detail", why);
        show_text(w, "pointer", pointer[0] == '\0' ? NULL : pointer);
    }
    json_end_object(w);
}

static int put_tasks(struct json_writer *w, const struct working *k, struct qp_err *err)
{
    json_key(w, QP_STR("tasks"));
    json_begin_array(w);
    for (const struct work_task *t = k->work.tasks; t != NULL; t = t->next) {
        json_begin_object(w);
        show_task(w, t);
        QP_TRY(work_more(api_engine(k->kept.api), t, w, err));
        json_end_object(w);
    }
    json_end_array(w);
    return QP_OK;
}

static void put_acks(struct json_writer *w, const struct work_call *work)
{
    json_key(w, QP_STR("acks"));
    json_begin_array(w);
    for (size_t i = 0; i < work->result_count; i++) {
        const struct work_result *r = &work->results[i];
        put_ack(w, r->token, r->status, r->rc, r->why, r->pointer);
    }
    for (size_t i = 0; i < work->beat_count; i++) {
        const struct work_beat *b = &work->beats[i];
        put_ack(w, b->token, b->status, b->rc, b->why, "");
    }
    json_end_array(w);
}

static void put_cancels(struct json_writer *w, const struct work_call *work)
{
    json_key(w, QP_STR("cancel"));
    json_begin_array(w);
    for (const struct work_cancel *x = work->cancels; x != NULL; x = x->next) {
        json_put_str(w, str_from(x->token));
    }
    json_end_array(w);
}

/* On the carrier's thread. A store that closes has nothing to give, which is no error of the
 * worker's, unless it has brought something. */
static void render(struct api_call *c)
{
    struct working *k = c->kept;
    struct json_writer w;
    struct qp_err err = {0};
    bool brought = k->work.result_count + k->work.beat_count > 0;
    int rc;
    if (k->rc != QP_OK && (k->rc != QP_E_CLOSED || brought)) {
        api_fail_set(c, err_set(&err, k->rc, "%s", k->why), &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    rc = put_tasks(&w, k, &err);
    if (rc != QP_OK) {
        api_fail_set(c, rc, &err); /* its tasks go back: the answer says no */
        return;
    }
    put_acks(&w, &k->work);
    put_cancels(&w, &k->work);
    json_end_object(&w);
    api_json_set(c, &w, 200);
}

/* So long after it should be over: a call that brings something is answered when that is committed. */
static qp_ms grace_ms(const struct working *k)
{
    bool brings = k->work.result_count + k->work.beat_count > 0;
    return (brings ? 0 : k->work.wait_ms) + LIMIT_CALL_MS + LIMIT_LATE_MS;
}

/* On the clock's thread: the server ends; or the store does not answer, and the call is answered in place of the engine,
 * which gives it back in time. Else the engine has forgotten the time, or is slow. */
static void too_late(struct timing *t)
{
    struct working *k = (struct working *)kept_of_timing(t);
    bool ends = api_is_draining(k->kept.api);
    bool ready = ready_now(api_engine(k->kept.api), NULL) == QP_OK;
    bool open;
    bool again;
    (void)pthread_mutex_lock(&k->kept.lock);
    open = !k->over && !k->answered;
    again = open && ready && !ends && !k->reprieved;
    if (again) {
        k->reprieved = true;
        kept_start(&k->kept, LIMIT_WAIT_MS, too_late);
    } else if (open && (ready || ends || !api_call_late(k->call))) {
        work_abort(api_engine(k->kept.api), &k->work);
    }
    (void)pthread_mutex_unlock(&k->kept.lock);
    if (!again) {
        kept_leave(&k->kept);
    }
}

/* Tasks in an answer that nobody has read are ready for others at once. An answer that says no
 * is none. */
static void finished(struct api_call *c, bool told)
{
    struct working *k = c->kept;
    bool given = told && c->status == 200;
    (void)pthread_mutex_lock(&k->kept.lock);
    k->over = true;
    (void)pthread_mutex_unlock(&k->kept.lock);
    work_done(api_engine(k->kept.api), &k->work, given ? WORK_TOLD : WORK_GIVEN_BACK);
    kept_stop(&k->kept);
    kept_leave(&k->kept);
}

/* On the engine's thread. */
static void answered(void *context, struct work_call *work, int rc, const char *why)
{
    struct working *k = context;
    (void)work;
    (void)pthread_mutex_lock(
        &k->kept.lock); /* whoever answers in our place has done so, or does not */
    k->answered = true;
    (void)pthread_mutex_unlock(&k->kept.lock);
    k->rc = rc;
    (void)snprintf(k->why, sizeof k->why, "%s", why != NULL ? why : qp_code_text(rc));
    api_answer_by(k->call, render);
}

/* On the engine's thread. */
static bool is_there(void *context)
{
    struct api_call *c = ((struct working *)context)->call;
    return c->carrier->there == NULL || c->carrier->there(c);
}

/* ------------------------------------------------------------------------------------- request */

static bool read_kind(qp_str word, enum work_kind *out_kind)
{
    static const char *const words[] = {"success", "pending", "error"};
    for (int i = 0; i < (int)ARRAY_COUNT(words); i++) {
        if (str_equal(word, str_from(words[i]))) {
            *out_kind = (enum work_kind)i;
            return true;
        }
    }
    *out_kind = WORK_SUCCESS;
    return str_is_none(word);
}

/* A sentence, or an object that says more. An error that cannot be read is an error all the same: its task failed. */
static bool read_error(struct api_call *c, qp_str text, const char *pointer,
                       struct work_result *out)
{
    struct body_WorkError body;
    char where[96];
    if (str_is_none(text) || raw_string(c, text, &out->message)) {
        return true;
    }
    if (json_check(api_env(c->api), text, NULL, NULL) != QP_OK) {
        out->message = QP_STR(
            "the worker's error is larger than JSON may be, or has a character that may not be there");
        return true;
    }
    (void)snprintf(where, sizeof where, "%s/error", pointer);
    if (!BODY_READ(c, WorkError, text, where, &body)) {
        return false;
    }
    out->message = body.message;
    out->fatal = body.fatal;
    out->code = body.code != 0 ? body.code : out->code;
    return true;
}

static bool read_result(struct api_call *c, qp_str text, const char *pointer,
                        struct work_result *out)
{
    struct body_WorkResult body;
    if (!BODY_READ(c, WorkResult, text, pointer, &body)) {
        return false;
    }
    *out = (struct work_result){
        .token = body.token, .code = body.code, .output = body.output, .pending_index = body.index};
    if (!read_kind(body.status, &out->kind)) {
        char where[96];
        (void)snprintf(where, sizeof where, "%s/status", pointer);
        api_refuse(c, PROBLEM_BAD_FIELD, where, "it is success, pending or error");
        return false;
    }
    if (out->kind == WORK_PENDING && raw_has(text, "index") && body.index == 0) {
        out->pending_index = -1; /* 0 is not "the next": without an index it is */
    }
    return out->kind != WORK_ERROR || read_error(c, body.error, pointer, out);
}

static bool read_beat(struct api_call *c, qp_str text, const char *pointer, struct work_beat *out)
{
    struct body_WorkBeat body;
    if (!BODY_READ(c, WorkBeat, text, pointer, &body)) {
        return false;
    }
    *out = (struct work_beat){.token = body.token, .progress = body.progress};
    return true;
}

static size_t count_items(qp_str array)
{
    struct raw_walk w = {.rest = array};
    size_t count = 0;
    while (!str_is_none(array) && raw_each(&w)) {
        count++;
    }
    return count;
}

/* How many of `count` items are read: the engine refuses a call that brings more than `most`, by its count alone. */
static size_t readable(size_t count, size_t most)
{
    return count < most ? count : most;
}

static bool read_results(struct api_call *c, qp_str array, struct work_call *work)
{
    struct raw_walk w = {.rest = array};
    size_t count = readable(count_items(array), LIMIT_WORK_RESULTS);
    work->result_count = count_items(array);
    work->results = arena_alloc(&c->arena, count * sizeof *work->results + 1);
    if (work->results == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return false;
    }
    for (size_t i = 0; i < count && raw_each(&w); i++) {
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/results/%zu", i);
        if (!read_result(c, w.value, pointer, &work->results[i])) {
            return false;
        }
    }
    return true;
}

static bool read_beats(struct api_call *c, qp_str array, struct work_call *work)
{
    struct raw_walk w = {.rest = array};
    size_t count = readable(count_items(array), LIMIT_WORK_RESULTS);
    work->beat_count = count_items(array);
    work->beats = arena_alloc(&c->arena, count * sizeof *work->beats + 1);
    if (work->beats == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return false;
    }
    for (size_t i = 0; i < count && raw_each(&w); i++) {
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/beats/%zu", i);
        if (!read_beat(c, w.value, pointer, &work->beats[i])) {
            return false;
        }
    }
    return true;
}

/* A worker's token may be for some topics only. */
static bool may_serve(struct api_call *c, qp_str topic, size_t index)
{
    char pointer[64];
    if (glob_match(c->who.topics, topic)) {
        return true;
    }
    (void)snprintf(pointer, sizeof pointer, "/topics/%zu", index);
    api_refuse(c, PROBLEM_FORBIDDEN, pointer, "the token may not serve this topic");
    return false;
}

/* The topics, copied. False: the call is answered, and perhaps gone. */
static bool read_topics(struct api_call *c, qp_str array, struct working *k)
{
    struct raw_walk w = {.rest = array};
    size_t count = readable(count_items(array), LIMIT_WORK_TOPICS);
    qp_str *topics = arena_alloc(&k->kept.arena, count * sizeof *topics + 1);
    bool room = topics != NULL;
    for (size_t i = 0; room && i < count && raw_each(&w); i++) {
        qp_str topic = QP_NONE;
        if (!raw_string(c, w.value, &topic)) {
            room = false; /* it is a string: fields.c has seen to it */
        } else if (!may_serve(c, topic, i)) {
            return false;
        } else {
            room = arena_copy(&k->kept.arena, topic, &topics[i]);
        }
    }
    if (!room) {
        api_fail(c, QP_E_NOMEM, NULL);
        return false;
    }
    k->work.topics = topics;
    k->work.topic_count = count_items(array);
    return true;
}

/* With copies of all that a parked call needs. NULL: no memory. */
static struct working *working_make(struct api_call *c, const struct body_Work *body)
{
    struct working *k = kept_make(c->api, sizeof *k);
    struct arena *arena;
    if (k == NULL) {
        return NULL;
    }
    arena = &k->kept.arena;
    k->call = c;
    k->work = (struct work_call){
        .leave = body->leave, .context = k, .answer = answered, .there = is_there};
    if (!arena_copy(arena, c->ns, &k->work.ns) ||
        !arena_copy(arena, body->worker, &k->work.worker) ||
        !arena_copy(arena, body->build, &k->work.build)) {
        kept_drop(&k->kept);
        return NULL;
    }
    return k;
}

/* Who calls: by its token. Where nobody needs one, everybody is the same. */
static struct work_caller caller_of(const struct api_call *c, struct working *k)
{
    static const unsigned char none[TOKEN_HASH_SIZE];
    bool keyed = memcmp(c->who.hash, none, sizeof none) != 0;
    auth_task_key(api_auth(k->kept.api), &c->who, k->key);
    return (struct work_caller){.id = str_from(c->who.token),
                                .key = keyed ? (qp_str){(const char *)k->key, sizeof k->key}
                                             : QP_NONE};
}

static void read_numbers(struct api_call *c, const struct body_Work *body, struct work_call *work)
{
    work->want = raw_has(c->body, "want") ? body->want : work->topic_count > 0 ? 1 : 0;
    work->wait_ms = raw_has(c->body, "wait") ? body->wait : WORK_WAIT_MS;
    work->wait_ms = work->wait_ms < LIMIT_WAIT_MS ? work->wait_ms : LIMIT_WAIT_MS;
}

static void submit(struct api_call *c, struct working *k)
{
    struct qp_err err = {0};
    int rc;
    k->work.caller = caller_of(c, k);
    c->kept = k;
    c->finished = finished;
    if (k->work.result_count == 0 && k->work.beat_count == 0) {
        api_call_settle(c);
    }
    due_leave(c);
    kept_start(&k->kept, grace_ms(k), too_late);
    rc = work_submit(api_engine(k->kept.api), &k->work, &err);
    if (rc != QP_OK) {
        c->finished = NULL;
        (void)pthread_mutex_lock(&k->kept.lock);
        k->over = true;
        (void)pthread_mutex_unlock(&k->kept.lock);
        kept_stop(&k->kept);
        kept_leave(&k->kept);
        api_fail(c, rc, &err);
    }
}

void endpoint_work(struct api_call *c)
{
    struct body_Work body;
    struct working *k;
    if (!BODY_READ(c, Work, c->body, "", &body)) {
        return;
    }
    if (count_items(body.flows) > 0) {
        api_refuse(c, PROBLEM_BAD_FIELD, "/flows", "there are none yet");
        return;
    }
    k = working_make(c, &body);
    if (k == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    if (!read_topics(c, body.topics, k) || !read_results(c, body.results, &k->work) ||
        !read_beats(c, body.beats, &k->work)) {
        kept_drop(&k->kept); /* the call is answered, and perhaps gone */
        return;
    }
    read_numbers(c, &body, &k->work);
    submit(c, k);
}
