/* agent_calls.c - what agents ask: the next job, branches of decisions, results of tasks (see agent_port.h)
 *
 *   job        a parked call for one task of the stream (working.h). A decision is held from its answer on (agents_drafts.h)
 *   branch     the draft's next branch; without one the draft is what the decision came to, and is committed before `{}`
 *   execute    works, into the draft; `modified` ends the decision: it is parked before the answer
 *   fail       the decision is parked, and nothing of its draft is applied
 *   tasks      the result of a task, committed before `{}`; the same result again is good, by a record that commits with it
 *
 * If we crash before such a commit, nothing was said: the decision is issued again with another uuid, the task is still at its
 * agent. If we crash behind it and before the answer, the agent asks again: of a task it is answered `{}`, of a decision 409,
 * which says that nothing of it is missing.
 */
#include "server/agent_calls.h"

#include <math.h>
#include <stdio.h>

#include "agent/show.h"
#include "run/work_more.h"
#include "server/fields.h"
#include "server/working.h"

#define AGENT_WORKER QP_STR("agent")

/* ---------------------------------------------------------------------------------------- answers */

/* Clients that we have not written tell apart what they did wrong (400, 404, 409, 413) from what may succeed later. */
static int code_of(int rc)
{
    return rc == QP_E_SHAPE || rc == QP_E_UNSUPPORTED ? QP_E_MALFORMED
           : rc == QP_E_CANCELLED || rc == QP_E_DONE  ? QP_E_STALE
                                                      : rc;
}

static struct qp_err told_as(int rc, const struct qp_err *err)
{
    struct qp_err told = {.code = rc};
    if (err != NULL) {
        memcpy(told.text, err->text, sizeof told.text);
    }
    if (err != NULL && err->pointer[0] != '\0' && err->text[0] != '\0') {
        (void)snprintf(told.text, sizeof told.text, "%.*s: %.*s", 100, err->pointer, 400,
                       err->text);
    }
    return told;
}

void agent_fail_set(struct api_call *c, int rc, const struct qp_err *err)
{
    struct qp_err told = told_as(code_of(rc), err);
    api_fail_set(c, told.code, &told);
}

void agent_fail(struct api_call *c, int rc, const struct qp_err *err)
{
    agent_fail_set(c, rc, err);
    api_answer(c);
}

static void set_empty(struct api_call *c, int status)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_end_object(&w);
    api_json_set(c, &w, status);
}

void agent_answer(struct api_call *c, int status)
{
    set_empty(c, status);
    api_answer(c);
}

/* ----------------------------------------------------------------------------------------- bodies */

bool agent_object(struct api_call *c)
{
    if (raw_first(c->body) != '{') {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "the body must be an object");
        return false;
    }
    return true;
}

qp_str agent_member(qp_str object, const char *key)
{
    struct raw_walk w = {.rest = object};
    while (raw_first(object) == '{' && raw_each(&w)) {
        if (str_equal(w.key, str_from(key))) {
            return w.value;
        }
    }
    return QP_NONE;
}

static bool is_null(qp_str value)
{
    return str_is_none(value) || raw_first(value) == 'n';
}

bool agent_text(struct api_call *c, qp_str object, const char *key, qp_str *out_text)
{
    qp_str value = agent_member(object, key);
    *out_text = QP_NONE;
    if (is_null(value)) {
        return true;
    }
    if (raw_first(value) != '"') {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "%s must be a string or null", key);
        return false;
    }
    if (!raw_string(c, value, out_text)) {
        api_fail(c, QP_E_NOMEM, NULL);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------- jobs */

static void put_job(struct json_writer *w, const struct work_task *task)
{
    char uuid[DRAFT_UUID_SIZE];
    drafts_uuid(task, uuid);
    json_key(w, QP_STR("action"));
    json_put_str(w,
                 drafts_is_decision(task) ? QP_STR("DecisionScheduled") : QP_STR("TaskScheduled"));
    json_key(w, QP_STR("uuid"));
    json_put_str(w, str_from(uuid));
}

static int write_job(struct api_call *c, struct working *k)
{
    const struct work_task *task = k->work.tasks;
    struct json_writer w;
    struct qp_err err = {0};
    int rc = QP_OK;
    api_json(c, &w);
    json_begin_object(&w);
    if (task == NULL) {
        json_key(&w, QP_STR("action"));
        json_put_str(&w, QP_STR("None"));
    } else {
        put_job(&w, task);
        rc = work_more(api_engine(c->api), task, &w, &err);
    }
    if (rc == QP_OK && task != NULL && drafts_is_decision(task)) {
        rc = drafts_hold(agent_context(c)->drafts, task);
    }
    if (rc != QP_OK) {
        agent_fail_set(c, rc, &err);
        return rc;
    }
    json_end_object(&w);
    api_json_set(c, &w, 200);
    return QP_OK;
}

/* On the carrier's thread. A server that ends has no job, which is no error of the agent's. */
static void render_job(struct api_call *c)
{
    struct working *k = c->kept;
    struct qp_err err = {0};
    if (k->rc != QP_OK && k->rc != QP_E_CLOSED) {
        agent_fail_set(c, err_set(&err, k->rc, "%s", k->why), &err);
        return;
    }
    (void)write_job(c, k); /* the answer says it; its task goes back when that says no */
}

/* An answer that no agent has read: the decision is not in its hands. */
static void job_ended(struct working *k, bool given)
{
    const struct work_task *task = k->work.tasks;
    if (!given && task != NULL && drafts_is_decision(task)) {
        drafts_drop(agent_context(k->call)->drafts, task);
    }
}

static bool decode_place(struct api_call *c, struct agents_place *out)
{
    *out = (struct agents_place){.environment = c->parts[0], .language = c->parts[1]};
    return true;
}

void endpoint_agent_job(struct api_call *c)
{
    struct agents_place place;
    struct working *k = working_make(c, sizeof *k, render_job);
    struct qp_err err = {0};
    qp_str *topic;
    int rc;
    if (k == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    topic = ARENA_NEW(&k->kept.arena, qp_str);
    rc = topic == NULL || !decode_place(c, &place) ? QP_E_NOMEM : QP_OK;
    rc = rc == QP_OK ? agents_stream(&k->kept.arena, &place, topic, &err) : rc;
    if (rc != QP_OK) {
        kept_drop(&k->kept);
        agent_fail(c, rc, &err);
        return;
    }
    k->work = (struct work_call){
        .worker = AGENT_WORKER, .topics = topic, .topic_count = 1, .want = 1, .inner = true};
    if (!api_duration(c, "wait", LIMIT_WAIT_MS, 0, &k->work.wait_ms)) {
        kept_drop(&k->kept);
        return;
    }
    k->ended = job_ended;
    working_submit(c, k);
}

/* -------------------------------------------------------------------------------------- decisions */

/* What is said of a decision at its end, committed before the answer. */
struct ending {
    struct working working;
    struct work_result result;
    struct held *held;
    enum held_stage next;
    void (*write)(struct api_call *c); /* the answer when it was taken */
};

/* On the engine's thread. What was not taken for a reason that may pass is said again by the agent's next call; what can never be
 * taken for its size parks the instance. */
static void decision_answered(struct working *k)
{
    struct ending *e = (struct ending *)k;
    int rc = k->rc != QP_OK ? k->rc : e->result.rc;
    enum qp_class class = qp_code_class(rc);
    if (rc == QP_OK) {
        drafts_leave(e->held, e->next);
    } else if (class == QP_CLASS_LIMIT && rc != QP_E_NOMEM) {
        drafts_park_large(e->held);
        drafts_leave(e->held, HELD_OVER);
    } else if (class == QP_CLASS_CONFLICT || class == QP_CLASS_UNKNOWN) {
        drafts_leave(e->held, HELD_OVER);
    } else {
        drafts_leave(e->held, HELD_OPEN);
    }
}

/* Why a result was not taken. */
static void fail_result(struct api_call *c, const struct working *k, const struct work_result *r)
{
    struct qp_err err = {0};
    if (k->rc != QP_OK) {
        agent_fail_set(c, err_set(&err, k->rc, "%s", k->why), &err);
    } else if (r->status == WORK_REFUSED) {
        agent_fail_set(c, err_set(&err, r->rc, "%s", r->why), &err);
    } else {
        (void)err_set(&err, QP_E_STALE,
                      "it is not, or no longer, this agent's: nothing of it counts; ask for the "
                      "next job");
        agent_fail_set(c, QP_E_STALE, &err);
    }
}

static void render_decision(struct api_call *c)
{
    struct ending *e = c->kept;
    if (e->working.rc == QP_OK && e->result.status == WORK_OK) {
        e->write(c);
    } else {
        fail_result(c, &e->working, &e->result);
    }
}

static void write_empty(struct api_call *c)
{
    set_empty(c, 200);
}

static void write_modified(struct api_call *c)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("status"));
    json_put_str(&w, QP_STR("modified"));
    json_end_object(&w);
    api_json_set(c, &w, 200);
}

static void write_large(struct api_call *c)
{
    struct qp_err err = {0};
    (void)err_set(
        &err, QP_E_TOO_LARGE,
        "decision_too_large: it has more than %d bytes or %d works; the instance is parked",
        LIMIT_FLOW_DECISION_SIZE, LIMIT_DECISION_WORKS);
    agent_fail_set(c, QP_E_TOO_LARGE, &err);
}

struct end_of_decision {
    qp_str told;
    enum held_stage next;
    void (*write)(struct api_call *c);
};

/* `told` lives in the call's arena. */
static void end_decision(struct api_call *c, struct held *held, const struct end_of_decision *end)
{
    struct ending *e = working_make(c, sizeof *e, render_decision);
    if (e == NULL) {
        drafts_leave(held, HELD_OPEN);
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    e->held = held;
    e->next = end->next;
    e->write = end->write;
    e->working.answered = decision_answered;
    e->result = (struct work_result){.kind = WORK_OTHER, .told = end->told};
    if (!arena_copy(&e->working.kept.arena, str_from(held->uuid + 2), &e->result.token)) {
        drafts_leave(held, HELD_OPEN);
        kept_drop(&e->working.kept);
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    e->working.work = (struct work_call){
        .worker = AGENT_WORKER, .results = &e->result, .result_count = 1, .inner = true};
    working_submit(c, &e->working);
}

static void end_large(struct api_call *c, struct held *held)
{
    end_decision(c, held, &(struct end_of_decision){drafts_told_large(), HELD_OVER, write_large});
}

/* False: the call is refused. */
static bool enter(struct api_call *c, struct held **out_held)
{
    struct qp_err err = {0};
    int rc = drafts_enter(agent_context(c)->drafts, c->parts[0], out_held, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
    }
    return rc == QP_OK;
}

/* An answer that leaves the decision open. */
static void leave(struct api_call *c, struct held *held, int rc, const struct qp_err *err)
{
    drafts_leave(held, HELD_OPEN);
    if (rc != QP_OK) {
        agent_fail(c, rc, err);
    } else {
        api_answer(c);
    }
}

/* The decision has no branch left. */
static void finish(struct api_call *c, struct held *held)
{
    struct end_of_decision end = {.next = HELD_ENDED, .write = write_empty};
    int rc = drafts_decided(held, &c->arena, &end.told);
    if (rc == QP_E_TOO_LARGE) {
        end_large(c, held);
    } else if (rc != QP_OK) {
        leave(c, held, rc, NULL);
    } else {
        end_decision(c, held, &end);
    }
}

static void put_branch(struct api_call *c, const struct held *held, const struct branch *branch,
                       qp_str properties)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("name"));
    json_put_str(&w, held->instance.workflow_name);
    json_key(&w, QP_STR("pinned"));
    json_put_bool(&w, !held->instance.is_unnamed);
    json_key(&w, QP_STR("id"));
    json_put_str(&w, held->instance.id);
    json_key(&w, QP_STR("branch"));
    show_branch(&w, branch);
    json_key(&w, QP_STR("properties"));
    json_put_str(&w, properties);
    json_end_object(&w);
    api_json_set(c, &w, 200);
}

void endpoint_agent_branch(struct api_call *c)
{
    const struct branch *branch = NULL;
    struct held *held = NULL;
    struct qp_err err = {0};
    qp_str properties;
    int rc = drafts_enter(agent_context(c)->drafts, c->parts[0], &held, &err);
    if (rc == QP_E_DONE) {
        agent_answer(c, 200);
        return;
    }
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
        return;
    }
    rc = draft_branch(&held->draft, &err, &branch, &properties);
    if (rc != QP_OK) {
        leave(c, held, rc, &err);
    } else if (branch == NULL) {
        finish(c, held);
    } else {
        put_branch(c, held, branch, properties);
        leave(c, held, QP_OK, NULL);
    }
}

static void put_reply(struct api_call *c, const struct draft_reply *reply)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("status"));
    json_put_str(&w, reply->status == REPLY_COMPLETED ? QP_STR("completed") : QP_STR("scheduled"));
    if (reply->status == REPLY_COMPLETED) {
        json_key(&w, QP_STR("properties"));
        json_put_str(&w, reply->properties);
        json_key(&w, QP_STR("outputs"));
        json_begin_array(&w);
        for (size_t i = 0; i < reply->output_count; i++) {
            json_put_raw(&w, reply->outputs[i]);
        }
        json_end_array(&w);
    }
    json_end_object(&w);
    api_json_set(c, &w, 200);
}

static int execute(struct api_call *c, struct held *held, const struct json *body,
                   struct draft_reply *out_reply, struct qp_err *err)
{
    const struct agent_work *works = NULL;
    size_t count = 0;
    QP_TRY(work_read_all(&c->arena, body, err, &works, &count));
    return draft_execute(&held->draft, works, count, err, out_reply);
}

void endpoint_agent_execute(struct api_call *c)
{
    struct held *held = NULL;
    struct draft_reply reply;
    struct json *body = NULL;
    struct qp_err err = {0};
    int rc;
    if (!enter(c, &held)) {
        return;
    }
    rc = json_build(api_env(c->api), c->body, &err, &body);
    rc = rc == QP_OK ? execute(c, held, body, &reply, &err) : rc;
    json_free(body);
    if (rc != QP_OK) {
        leave(c, held, rc, &err);
    } else if (reply.status == REPLY_MODIFIED) {
        end_decision(c, held,
                     &(struct end_of_decision){QP_STR("{\"status\":\"modified\"}"), HELD_OVER,
                                               write_modified});
    } else if (drafts_is_too_large(held)) {
        end_large(c, held);
    } else {
        put_reply(c, &reply);
        leave(c, held, QP_OK, NULL);
    }
}

/* The concrete name of the workflow whose script it is, which an unnamed instance is pinned to. */
static int post_name(struct api_call *c, struct held *held, struct qp_err *err)
{
    qp_str given = agent_member(c->body, "name");
    qp_str name = QP_NONE;
    if (is_null(given)) {
        return QP_OK;
    }
    if (!raw_string(c, given, &name)) {
        return err_set(err, QP_E_SHAPE, "name must be a string or null");
    }
    return draft_name(&held->draft, name, err);
}

/* A branch that is left posts the properties that it was handed, or others. */
static int post(struct api_call *c, struct held *held, struct qp_err *err)
{
    qp_str given = agent_member(c->body, "properties");
    qp_str output = agent_member(c->body, "output");
    qp_str properties = QP_NONE;
    qp_str text = QP_NONE;
    bool has_ended = !str_is_none(output);
    if (held->draft.in_hand && str_is_none(given)) {
        properties = draft_handed(&held->draft);
    } else if (!is_null(given) && !raw_string(c, given, &properties)) {
        return err_set(err, QP_E_SHAPE, "properties must be a string or null");
    }
    if (!is_null(output) && !raw_string(c, output, &text)) {
        return err_set(err, QP_E_SHAPE, "output must be a string or null");
    }
    QP_TRY(post_name(c, held, err));
    return draft_post(&held->draft, properties, has_ended ? &text : NULL, err);
}

void endpoint_agent_post(struct api_call *c)
{
    struct held *held = NULL;
    struct qp_err err = {0};
    int rc;
    if (!agent_object(c) || !enter(c, &held)) {
        return;
    }
    rc = post(c, held, &err);
    if (rc == QP_OK && drafts_is_too_large(held)) {
        end_large(c, held);
        return;
    }
    if (rc == QP_OK) {
        set_empty(c, 200);
    }
    leave(c, held, rc, &err);
}

/* What a script or a task says of its error, as it came; none: nothing. False: it is no object, and the call is refused. */
static bool read_error(struct api_call *c, qp_str *out_error)
{
    *out_error = agent_member(c->body, "error");
    if (is_null(*out_error)) {
        *out_error = QP_NONE;
        return true;
    }
    if (raw_first(*out_error) != '{') {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL,
                   "error must be an object with code, name, message and stacktrace");
        return false;
    }
    return true;
}

static int write_failed(struct api_call *c, qp_str error, int64_t again_ms, qp_str *out_told)
{
    struct buf out;
    buf_init(&out, api_env(c->api), 0);
    buf_text(&out, "{\"status\":\"failed\"");
    if (!str_is_none(error)) {
        buf_text(&out, ",\"error\":");
        buf_str(&out, error);
    }
    if (again_ms >= 0) {
        buf_printf(&out, ",\"again\":%lld", (long long)again_ms);
    }
    buf_byte(&out, '}');
    int rc = buf_rc(&out);
    if (rc == QP_OK && !arena_copy(&c->arena, buf_slice(&out), out_told)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

void endpoint_agent_fail(struct api_call *c)
{
    struct end_of_decision end = {.next = HELD_OVER, .write = write_empty};
    struct held *held = NULL;
    qp_str error;
    int rc;
    if (!agent_object(c) || !read_error(c, &error) || !enter(c, &held)) {
        return;
    }
    rc = write_failed(c, error, -1, &end.told);
    if (rc != QP_OK) {
        leave(c, held, rc, NULL);
    } else {
        end_decision(c, held, &end);
    }
}

/* ------------------------------------------------------------------------------------------ tasks */

struct bringing_call {
    struct working working;
    struct work_result result;
    struct work_beat beat;
};

static void render_result(struct api_call *c)
{
    struct bringing_call *b = c->kept;
    if (b->working.rc == QP_OK && b->result.status == WORK_OK) {
        set_empty(c, 200);
    } else {
        fail_result(c, &b->working, &b->result);
    }
}

/* {"status":"completed","output":TEXT}; the text as it came. */
static int write_completed(struct api_call *c, qp_str output, qp_str *out_told)
{
    struct buf out;
    buf_init(&out, api_env(c->api), 0);
    buf_text(&out, "{\"status\":\"completed\"");
    if (!is_null(output)) {
        buf_text(&out, ",\"output\":");
        buf_str(&out, output);
    }
    buf_byte(&out, '}');
    int rc = buf_rc(&out);
    if (rc == QP_OK && !arena_copy(&c->arena, buf_slice(&out), out_told)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

/* When the next attempt is, -1: there is none. What is no number >= 0 fails the task for that reason (`error`). */
static int64_t read_retry(struct api_call *c, qp_str *error)
{
    qp_str delay = agent_member(c->body, "retryDelay");
    double seconds = -1;
    char first = raw_first(delay);
    if (is_null(delay) || first == 'f') {
        return -1;
    }
    if ((first >= '0' && first <= '9') || first == '-') {
        seconds = real_parse(delay);
    }
    if (seconds < 0) {
        *error = QP_STR("{\"code\":\"retry_delay\",\"name\":\"retry_delay\",\"message\":"
                        "\"retryDelay must be a number >= 0\"}");
        return -1;
    }
    return seconds > (double)LIMIT_TIMER_MS / 1000 ? LIMIT_TIMER_MS
                                                   : (int64_t)llround(seconds * 1000);
}

static bool read_told(struct api_call *c, qp_str *out_told)
{
    qp_str status = QP_NONE;
    qp_str output = agent_member(c->body, "output");
    qp_str error;
    int rc;
    if (!agent_object(c) || !agent_text(c, c->body, "status", &status) || !read_error(c, &error)) {
        return false;
    }
    if (str_equal(status, QP_STR("completed"))) {
        if (!is_null(output) && raw_first(output) != '"') {
            api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "output must be a string or null");
            return false;
        }
        rc = write_completed(c, output, out_told);
    } else if (str_equal(status, QP_STR("failed"))) {
        int64_t again = read_retry(c, &error);
        rc = write_failed(c, error, again, out_told);
    } else {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "status must be completed or failed");
        return false;
    }
    if (rc != QP_OK) {
        api_fail(c, rc, NULL);
    }
    return rc == QP_OK;
}

/* The token of a task's uuid, copied to where it outlives the call's texts. False: the call is refused. */
static bool read_task(struct api_call *c, qp_str *out_token, struct msg_ref *out_ref,
                      unsigned char out_guid[LIMIT_GUID_SIZE])
{
    struct qp_err err = {0};
    if (drafts_task(agent_context(c)->drafts, c->parts[0], out_token, out_ref, out_guid)) {
        return true;
    }
    agent_fail(c, err_set(&err, QP_E_NOT_FOUND, "there is no task with this uuid"), &err);
    return false;
}

static struct bringing_call *bringing_make(struct api_call *c, qp_str token,
                                           void (*render)(struct api_call *c))
{
    struct bringing_call *b = working_make(c, sizeof *b, render);
    if (b == NULL || !arena_copy(&b->working.kept.arena, token, &token)) {
        if (b != NULL) {
            kept_drop(&b->working.kept);
        }
        api_fail(c, QP_E_NOMEM, NULL);
        return NULL;
    }
    b->working.work = (struct work_call){.worker = AGENT_WORKER, .inner = true};
    b->result.token = b->beat.token = token;
    return b;
}

void endpoint_agent_task(struct api_call *c)
{
    unsigned char guid[LIMIT_GUID_SIZE];
    struct bringing_call *b;
    struct msg_ref ref;
    qp_str token;
    qp_str told;
    if (!read_task(c, &token, &ref, guid) || !read_told(c, &told)) {
        return;
    }
    b = bringing_make(c, token, render_result);
    if (b == NULL) {
        return;
    }
    b->result.kind = WORK_OTHER;
    b->result.told = told;
    b->result.once = true;
    b->working.work.results = &b->result;
    b->working.work.result_count = 1;
    working_submit(c, &b->working);
}

static void render_beat(struct api_call *c)
{
    struct bringing_call *b = c->kept;
    if (b->working.rc == QP_OK && b->beat.status == WORK_OK) {
        set_empty(c, 200);
        return;
    }
    b->result.status = b->beat.status;
    b->result.rc = b->beat.rc;
    memcpy(b->result.why, b->beat.why, sizeof b->result.why);
    fail_result(c, &b->working, &b->result);
}

void endpoint_agent_beat(struct api_call *c)
{
    unsigned char guid[LIMIT_GUID_SIZE];
    struct bringing_call *b;
    struct qp_err err = {0};
    struct msg_ref ref;
    qp_ms lease_ms = 0;
    qp_str token;
    int rc;
    if (!read_task(c, &token, &ref, guid)) {
        return;
    }
    rc = agents_task_lease(api_engine(c->api), &ref, &lease_ms, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc == QP_E_NOT_FOUND ? QP_E_STALE : rc, &err);
        return;
    }
    b = bringing_make(c, token, render_beat);
    if (b == NULL) {
        return;
    }
    b->beat.lease_ms = lease_ms;
    b->working.work.beats = &b->beat;
    b->working.work.beat_count = 1;
    working_submit(c, &b->working);
}
