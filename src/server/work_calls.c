/* work_calls.c - POST /v1/work: a worker brings results and beats, and asks for tasks
 *
 * The way of such a call through the engine is working.h. One that brings results keeps them until it is answered: it waits
 * for tasks only when its body is small.
 */
#include <stdio.h>

#include "run/handle.h"
#include "run/show.h"
#include "run/work.h"
#include "run/work_more.h"
#include "server/fields.h"
#include "server/handlers.h"
#include "server/working.h"

#define WORK_WAIT_MS (20 * 1000) /* unless the worker says otherwise */

/* -------------------------------------------------------------------------------------- answer */

static const char *ack_word(enum work_status status)
{
    static const char *const words[] = {"ok", "stale", "cancelled", "refused"};
    return words[status];
}

static void ack_begin(struct json_writer *w, qp_str token, enum work_status status)
{
    json_begin_object(w);
    json_key(w, QP_STR("token"));
    json_put_str(w, token);
    json_key(w, QP_STR("status"));
    json_put_str(w, str_from(ack_word(status)));
}

static void put_result_ack(struct json_writer *w, const struct work_result *r)
{
    ack_begin(w, r->token, r->status);
    if (r->status == WORK_OK && r->seq > 0) {
        show_count(w, "seq", r->seq);
    }
    if (r->status == WORK_OK && r->behind) {
        show_text(w, "flow", "behind");
    }
    if (r->status == WORK_REFUSED) {
        show_text(w, "code", r->word != NULL ? r->word : qp_code_word(r->rc));
        show_text(w, "detail", r->why);
    }
    if (r->pointer[0] != '\0') {
        show_text(w, "pointer", r->pointer);
    }
    json_end_object(w);
}

static void put_beat_ack(struct json_writer *w, const struct work_beat *b)
{
    ack_begin(w, b->token, b->status);
    if (b->status == WORK_REFUSED) {
        show_text(w, "code", qp_code_word(b->rc));
        show_text(w, "detail", b->why);
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
        put_result_ack(w, &work->results[i]);
    }
    for (size_t i = 0; i < work->beat_count; i++) {
        put_beat_ack(w, &work->beats[i]);
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
    if (k->work.refused != NULL) {
        api_fail_set(c, k->rc, k->work.refused);
        return;
    }
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

/* ------------------------------------------------------------------------------------- request */

/* The last ones are of decisions, whose kind of job understands them or refuses them. */
static bool read_kind(qp_str word, enum work_kind *out_kind)
{
    static const char *const words[] = {"success", "pending",  "error",
                                        "miss",    "diverged", "latent"};
    for (int i = 0; i < (int)ARRAY_COUNT(words); i++) {
        if (str_equal(word, str_from(words[i]))) {
            *out_kind = i < WORK_OTHER ? (enum work_kind)i : WORK_OTHER;
            return true;
        }
    }
    *out_kind = WORK_SUCCESS;
    return str_is_none(word);
}

/* Whether it has members that not every result has. */
static bool is_told(const struct body_WorkResult *body, enum work_kind kind)
{
    const qp_str own[] = {body->base, body->commands, body->after, body->keep,
                          body->at,   body->history,  body->left,  body->flow};
    for (size_t i = 0; i < ARRAY_COUNT(own); i++) {
        if (!str_is_none(own[i])) {
            return true;
        }
    }
    return kind == WORK_OTHER;
}

/* The code of an error or a success is a number; of a divergence it is what the code has. */
static bool read_code(struct api_call *c, qp_str text, const char *pointer, struct work_result *out)
{
    char where[96];
    int64_t code = 0;
    if (str_is_none(text) || (out->kind != WORK_ERROR && out->kind != WORK_SUCCESS)) {
        return true;
    }
    if (raw_integer(c, text, &code)) {
        out->code = code;
        return true;
    }
    (void)snprintf(where, sizeof where, "%s/code", pointer);
    api_refuse(c, PROBLEM_BAD_FIELD, where, "it has to be an integer");
    return false;
}

/* The message, and where it happened in the lines behind it; without memory the message alone. */
static qp_str with_stack(struct api_call *c, qp_str message, qp_str stack)
{
    char *text = stack.n == 0 ? NULL : arena_bytes(&c->arena, message.n + stack.n + 1);
    if (text == NULL) {
        return message;
    }
    memcpy(text, message.p, message.n);
    text[message.n] = '\n';
    memcpy(text + message.n + 1, stack.p, stack.n);
    return (qp_str){text, message.n + stack.n + 1};
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
    out->message = with_stack(c, body.message, body.stack);
    out->fatal = body.fatal;
    out->code = body.code != 0 ? body.code : out->code;
    return true;
}

/* Without an error of its own, an output that has a message says why. */
static void message_of(struct api_call *c, qp_str output, struct work_result *out)
{
    struct raw_walk w = {.rest = output};
    qp_str message;
    while (raw_first(output) == '{' && raw_each(&w)) {
        if (str_equal(w.key, QP_STR("message")) && raw_string(c, w.value, &message)) {
            out->message = message;
        }
    }
}

static bool read_result(struct api_call *c, qp_str text, const char *pointer,
                        struct work_result *out)
{
    struct body_WorkResult body;
    if (!BODY_READ(c, WorkResult, text, pointer, &body)) {
        return false;
    }
    *out = (struct work_result){
        .token = body.token, .output = body.output, .pending_index = body.index};
    if (!read_kind(body.status, &out->kind)) {
        char where[96];
        (void)snprintf(where, sizeof where, "%s/status", pointer);
        api_refuse(c, PROBLEM_BAD_FIELD, where,
                   "it is success, pending or error; of a decision also miss, diverged or latent");
        return false;
    }
    out->told = is_told(&body, out->kind) ? text : QP_NONE;
    if (!read_code(c, body.code, pointer, out)) {
        return false;
    }
    if (out->kind == WORK_PENDING && raw_has(text, "index") && body.index == 0) {
        out->pending_index = -1; /* 0 is not "the next": without an index it is */
    }
    if (out->kind == WORK_ERROR && str_is_none(body.error)) {
        message_of(c, body.output, out);
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

/* A worker's token may be for some topics only, and for some flows. */
static bool may_serve(struct api_call *c, qp_str topic, const char *pointer)
{
    if (glob_match(c->who.topics, topic)) {
        return true;
    }
    api_refuse(c, PROBLEM_FORBIDDEN, pointer, "the token may not serve this topic");
    return false;
}

/* What a call serves: an array of texts, or of objects with a name. */
enum served { SERVED_TOPICS, SERVED_FLOWS };

/* One of them. False: the call is answered, and perhaps gone. */
static bool read_one(struct api_call *c, enum served what, size_t index, qp_str value,
                     qp_str *out_name)
{
    struct body_WorkFlow body;
    char pointer[64];
    (void)snprintf(pointer, sizeof pointer, what == SERVED_TOPICS ? "/topics/%zu" : "/flows/%zu",
                   index);
    if (what == SERVED_TOPICS) {
        if (!raw_string(c, value, out_name)) {
            api_fail(c, QP_E_NOMEM, NULL); /* it is a string: fields.c has seen to it */
            return false;
        }
    } else {
        if (!BODY_READ(c, WorkFlow, value, pointer, &body)) {
            return false;
        }
        *out_name = body.name;
    }
    return may_serve(c, *out_name, pointer);
}

/* Copied. False: the call is answered, and perhaps gone. */
static bool read_served(struct api_call *c, enum served what, qp_str array, struct arena *arena,
                        const qp_str **out_names)
{
    struct raw_walk w = {.rest = array};
    size_t count = readable(count_items(array), LIMIT_WORK_TOPICS);
    qp_str *names = arena_alloc(arena, count * sizeof *names + 1);
    for (size_t i = 0; names != NULL && i < count && raw_each(&w); i++) {
        qp_str name = QP_NONE;
        if (!read_one(c, what, i, w.value, &name)) {
            return false;
        }
        if (!arena_copy(arena, name, &names[i])) {
            names = NULL;
        }
    }
    if (names == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return false;
    }
    *out_names = names;
    return true;
}

static bool read_all_served(struct api_call *c, const struct body_Work *body, struct working *k)
{
    if (!read_served(c, SERVED_TOPICS, body->topics, &k->kept.arena, &k->work.topics) ||
        !read_served(c, SERVED_FLOWS, body->flows, &k->kept.arena, &k->work.names)) {
        return false;
    }
    k->work.topic_count = count_items(body->topics);
    k->work.name_count = count_items(body->flows);
    return true;
}

/* With copies of all that a parked call needs. NULL: no memory. */
static struct working *make(struct api_call *c, const struct body_Work *body)
{
    struct working *k = working_make(c, sizeof *k, render);
    struct arena *arena;
    if (k == NULL) {
        return NULL;
    }
    arena = &k->kept.arena;
    k->work.leave = body->leave;
    if (!arena_copy(arena, c->ns, &k->work.ns) ||
        !arena_copy(arena, body->worker, &k->work.worker) ||
        !arena_copy(arena, body->build, &k->work.build)) {
        kept_drop(&k->kept);
        return NULL;
    }
    return k;
}

static void read_numbers(struct api_call *c, const struct body_Work *body, struct work_call *work)
{
    bool serves = work->topic_count + work->name_count > 0;
    work->want = raw_has(c->body, "want") ? body->want : serves ? 1 : 0;
    work->wait_ms = raw_has(c->body, "wait") ? body->wait : WORK_WAIT_MS;
    work->wait_ms = work->wait_ms < LIMIT_WAIT_MS ? work->wait_ms : LIMIT_WAIT_MS;
}

void endpoint_work(struct api_call *c)
{
    struct body_Work body;
    struct working *k;
    if (!BODY_READ(c, Work, c->body, "", &body)) {
        return;
    }
    k = make(c, &body);
    if (k == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    if (!read_all_served(c, &body, k) || !read_results(c, body.results, &k->work) ||
        !read_beats(c, body.beats, &k->work)) {
        kept_drop(&k->kept); /* the call is answered, and perhaps gone */
        return;
    }
    read_numbers(c, &body, &k->work);
    k->work.is_large = c->body.n > LIMIT_WORK_WAIT_SIZE;
    working_submit(c, k);
}

/* ---------------------------------------------------------------------------------------- the log */

static bool may_read(void *context, qp_str workflow)
{
    return glob_match(((const struct api_call *)context)->who.topics, workflow);
}

void endpoint_job_log(struct api_call *c)
{
    struct work_log log = {.ns = c->ns,
                           .id = c->parts[0],
                           .cursor = api_parameter(c, "cursor"),
                           .context = c,
                           .may = may_read};
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    api_json(c, &w);
    json_begin_object(&w);
    rc = work_log(api_engine(c->api), &log, &w, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_object(&w);
    api_json_end(c, &w, 200);
}
