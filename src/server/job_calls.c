/* job_calls.c - calls about jobs: start, list, show, and what is done to them
 *
 * A job is named by its whole id. That the beginning of an id is enough for people is the
 * command line's business, which looks it up in a list: a program that cancels "order-1" must
 * never hit "order-10".
 */
#include <limits.h>
#include <stdio.h>

#include "run/job_view.h"
#include "run/show.h"
#include "run/signals.h"
#include "run/start.h"
#include "server/fields.h"
#include "server/handlers.h"
#include "server/idempotency.h"

/* One more than a job may have, so that the library sees that there are too many. */
#define ATTRIBUTES_READ (LIMIT_START_ATTRIBUTES + 1)

/* ------------------------------------------------------------------------------------- start */

/* What of a start has to live until its answer. The library copies everything else. */
struct start_call {
    struct api_call *call;
    char workflow[LIMIT_NAME_SIZE + 1];
    char ns[LIMIT_NAME_SIZE + 1];
    qp_ms wait_ms;
    int code;
    bool existed;
    bool by_key;
    struct qp_err err;
    char id[QP_ID_SIZE];
};

/* On the carrier's thread. */
static void render_started(struct api_call *c)
{
    const struct start_call *s = c->kept;
    struct json_writer w;
    if (s->code == QP_E_CONFLICT && s->by_key) {
        api_refuse_set(c, PROBLEM_IDEMPOTENCY_OTHER,
                       "the first request with this key had another body");
        return;
    }
    if (s->code != QP_OK) {
        api_fail_set(c, s->code, &s->err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("id"));
    json_put_str(&w, str_from(s->id));
    json_key(&w, QP_STR("namespace"));
    json_put_str(&w, str_from(s->ns));
    json_key(&w, QP_STR("workflow"));
    json_put_str(&w, str_from(s->workflow));
    json_end_object(&w);
    api_json_set(c, &w, s->existed && !s->by_key ? 200 : 201);
}

/* On the crew: the job is there, and its end is waited for. */
static void start_wait(struct api_call *c)
{
    struct start_call *s = c->kept;
    wait_for_job(c, str_from(s->id), s->wait_ms);
}

/* On the engine's thread, after the commit: nothing may wait here. */
static void started(void *context, const struct qp_started *what)
{
    struct start_call *s = context;
    struct api_call *c = s->call;
    s->code = what->code;
    s->existed = what->existed;
    s->by_key = what->by_key;
    c->replayed = what->code == QP_OK && what->by_key;
    (void)snprintf(s->id, sizeof s->id, "%s", what->id); /* of the same size */
    if (what->code != QP_OK) {
        (void)err_set(&s->err, what->code, "%s", what->text != NULL ? what->text : "");
        (void)err_point(&s->err, what->code, "%s", what->pointer);
    }
    if (what->code == QP_OK && s->wait_ms > 0) {
        api_later(c, start_wait);
    } else {
        api_answer_by(c, render_started);
    }
}

static bool read_retry(struct api_call *c, qp_str text, struct qp_retry *out)
{
    struct body_Retry body;
    if (str_is_none(text)) {
        return true;
    }
    if (!BODY_READ(c, Retry, text, "/retry", &body)) {
        return false;
    }
    *out = (struct qp_retry){.attempts = body.attempts,
                             .backoff_ms = body.backoff,
                             .factor = body.factor,
                             .cap_ms = body.cap,
                             .start_timeout_ms = body.start_timeout,
                             .run_timeout_ms = body.timeout,
                             .heartbeat_ms = body.heartbeat};
    return true;
}

/* Names and texts, into `out`, which has room for ATTRIBUTES_READ. */
static bool read_attributes(struct api_call *c, qp_str text, struct qp_attribute *out,
                            size_t *out_count)
{
    struct raw_walk w = {.rest = text};
    *out_count = 0;
    while (!str_is_none(text) && *out_count < ATTRIBUTES_READ && raw_each(&w)) {
        struct qp_attribute *a = &out[*out_count];
        a->name = w.key;
        if (!raw_string(c, w.value, &a->value)) {
            api_refuse(c, PROBLEM_BAD_FIELD, "/attributes", "every value has to be a string");
            return false;
        }
        ++*out_count;
    }
    return true;
}

static bool read_start_signal(struct api_call *c, qp_str text, struct qp_signal *out)
{
    struct body_StartSignal body;
    if (str_is_none(text)) {
        return true;
    }
    if (!BODY_READ(c, StartSignal, text, "/signal", &body)) {
        return false;
    }
    *out = (struct qp_signal){.topic = body.topic,
                              .key = body.key,
                              .payload = str_is_none(body.payload) ? QP_STR("null") : body.payload,
                              .id = body.id};
    return true;
}

static void start_submit(struct api_call *c, struct start_call *s, struct qp_start *start)
{
    struct qp_err err;
    int rc;
    start->context = s;
    start->answered = started;
    start->ns = c->ns;
    start->idem_key = idempotency_text(c);
    start->idem_body = str_is_none(start->idem_key) ? QP_NONE : c->body;
    rc = start_async(api_engine(c->api), start, JSON_CHECKED, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
    }
}

/* A number that an int cannot hold stays out of every range that one can have. */
static int clamp_int(int64_t number)
{
    return number < INT_MIN ? INT_MIN : number > INT_MAX ? INT_MAX : (int)number;
}

/* A start names a workflow, or the topic of a single task. */
static bool names_one(struct api_call *c, const struct body_JobStart *body)
{
    if (str_is_none(body->topic) && str_is_none(body->workflow)) {
        api_refuse(c, PROBLEM_MISSING_FIELD, "/topic", "JobStart needs it, or workflow");
        return false;
    }
    if (!str_is_none(body->topic) && !str_is_none(body->workflow)) {
        api_refuse(c, PROBLEM_BAD_FIELD, "/workflow", "JobStart has topic already: one of them");
        return false;
    }
    return true;
}

void endpoint_job_start(struct api_call *c)
{
    struct body_JobStart body;
    struct qp_attribute attributes[ATTRIBUTES_READ];
    struct qp_signal signal = {0};
    struct qp_start start = {0};
    struct start_call *s = ARENA_NEW(&c->arena, struct start_call);
    if (s == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    if (!BODY_READ(c, JobStart, c->body, "", &body) ||
        !api_duration(c, "wait", LIMIT_WAIT_MS, 0, &s->wait_ms) ||
        !read_retry(c, body.retry, &start.retry) ||
        !read_attributes(c, body.attributes, attributes, &start.attribute_count) ||
        !read_start_signal(c, body.signal, &signal)) {
        return;
    }
    if (!names_one(c, &body)) {
        return;
    }
    s->call = c;
    c->kept = s;
    start.of_workflow = str_is_none(body.topic);
    start.topic = start.of_workflow ? body.workflow : body.topic;
    (void)snprintf(s->workflow, sizeof s->workflow, "%.*s", STR_ARG(start.topic));
    (void)snprintf(s->ns, sizeof s->ns, "%.*s", STR_ARG(c->ns));
    start.id = body.id;
    start.custom_id = body.custom_id;
    start.input = str_is_none(body.input) ? QP_STR("null") : body.input;
    start.priority = clamp_int(body.priority);
    start.timeout_ms = body.timeout;
    start.delay_ms = body.delay;
    start.pending = body.pending;
    start.limit_key = body.limit_key;
    start.attributes = attributes;
    start.signal = str_is_none(body.signal) ? NULL : &signal;
    start_submit(c, s, &start);
}

/* -------------------------------------------------------------------------------------- show */

struct showing {
    struct json_writer w;
    struct api_call *call;
};

static int show_visit(void *context, const struct qp_job_info *job)
{
    struct showing *s = context;
    if (!str_equal(job->id, s->call->parts[0])) {
        return QP_E_NOT_FOUND;
    }
    show_job(&s->w, job);
    return QP_OK;
}

void endpoint_job_show(struct api_call *c)
{
    struct showing s = {.call = c};
    struct qp_err err = {0};
    int rc;
    if (wants_events(c)) {
        follow_job(c, c->parts[0]);
        return;
    }
    api_json(c, &s.w);
    rc = qp_job_show(api_engine(c->api), c->ns, c->parts[0], &s, show_visit, &err);
    if (rc != QP_OK) {
        /* Several that begin so are no more this job than none. */
        api_fail(c, rc == QP_E_CONFLICT ? QP_E_NOT_FOUND : rc, rc == QP_E_CONFLICT ? NULL : &err);
        return;
    }
    api_json_end(c, &s.w, 200);
}

void endpoint_job_result(struct api_call *c)
{
    qp_ms within_ms;
    if (api_duration(c, "wait", LIMIT_WAIT_MS, 0, &within_ms)) {
        wait_for_job(c, c->parts[0], within_ms);
    }
}

/* -------------------------------------------------------------------------------------- lists */

static int list_visit(void *context, const struct qp_job_info *job)
{
    struct json_writer *w = context;
    show_job(w, job);
    return QP_OK;
}

static bool read_order(struct api_call *c, enum qp_order *out_order)
{
    qp_str order = api_parameter(c, "order");
    if (str_is_none(order) || str_equal(order, QP_STR("newest"))) {
        *out_order = QP_NEWEST_FIRST;
        return true;
    }
    *out_order = QP_OLDEST_FIRST;
    if (!str_equal(order, QP_STR("oldest"))) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "order", "it is newest or oldest");
        return false;
    }
    return true;
}

/* "exact" or "estimate"; *out_ask: one was asked for. */
static bool read_count(struct api_call *c, enum qp_count_how *out_how, bool *out_ask)
{
    qp_str count = api_parameter(c, "count");
    *out_ask = !str_is_none(count);
    *out_how = str_equal(count, QP_STR("exact")) ? QP_COUNT_EXACT : QP_COUNT_ESTIMATE;
    if (*out_ask && *out_how == QP_COUNT_ESTIMATE && !str_equal(count, QP_STR("estimate"))) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "count", "it is exact or estimate");
        return false;
    }
    return true;
}

/* The page is begun; what is left is its cursor and, when it was asked for, the number of all. */
static void list_end(struct api_call *c, struct json_writer *w, const char *cursor,
                     const struct qp_count *count)
{
    json_end_array(w);
    if (cursor[0] != '\0') {
        json_key(w, QP_STR("next_cursor"));
        json_put_str(w, str_from(cursor));
    }
    if (count != NULL) {
        json_key(w, QP_STR("count"));
        json_put_i64(w, count->count);
        json_key(w, QP_STR("count_is_exact"));
        json_put_bool(w, count->exact);
    }
    json_end_object(w);
    api_json_end(c, w, 200);
}

static void list_begin(struct api_call *c, struct json_writer *w)
{
    api_json(c, w);
    json_begin_object(w);
    json_key(w, QP_STR("items"));
    json_begin_array(w);
}

void api_list_jobs(struct api_call *c, qp_str where)
{
    struct qp_list list = {.ns = c->ns, .where = where, .cursor = api_parameter(c, "cursor")};
    char cursor[QP_CURSOR_SIZE];
    struct json_writer w;
    struct qp_err err = {0};
    struct qp_count count = {0};
    enum qp_count_how how;
    bool counts;
    int rc = QP_OK;
    if (!read_order(c, &list.order) || !read_count(c, &how, &counts) ||
        !api_number(c, "limit", LIMIT_PAGE_ROWS, 0, &list.limit)) {
        return;
    }
    if (counts) {
        rc = qp_job_count(api_engine(c->api), c->ns, where, how, &count, &err);
    }
    list_begin(c, &w);
    if (rc == QP_OK) {
        rc = qp_job_list(api_engine(c->api), &list, &w, list_visit, cursor, &err);
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    list_end(c, &w, cursor, counts ? &count : NULL);
}

void endpoint_job_list(struct api_call *c)
{
    if (wants_events(c)) {
        follow_jobs(c, api_parameter(c, "where"));
    } else {
        api_list_jobs(c, api_parameter(c, "where"));
    }
}

void endpoint_parked_list(struct api_call *c)
{
    api_list_jobs(c, QP_STR("status=parked"));
}

/* The last item of a page is where the next one begins. */
struct paging {
    struct json_writer w;
    char last[LIMIT_ADDRESS_SIZE + 1];
};

static int activity_visit(void *context, const struct qp_activity *activity)
{
    struct paging *p = context;
    show_activity(&p->w, activity);
    (void)snprintf(p->last, sizeof p->last, "%.*s", STR_ARG(activity->address));
    return QP_OK;
}

void endpoint_job_activities(struct api_call *c)
{
    struct paging p = {.last = ""};
    struct qp_err err = {0};
    qp_str cursor = api_parameter(c, "cursor");
    int64_t limit;
    bool more = false;
    int rc;
    if (!api_number(c, "limit", LIMIT_PAGE_ROWS, 0, &limit)) {
        return;
    }
    list_begin(c, &p.w);
    rc = qp_activity_list(api_engine(c->api), c->ns, c->parts[0], cursor, limit, &p, activity_visit,
                          &more, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    list_end(c, &p.w, more ? p.last : "", NULL);
}

static int event_visit(void *context, const struct qp_event *event)
{
    struct paging *p = context;
    show_event(&p->w, event);
    (void)snprintf(p->last, sizeof p->last, "%lld", (long long)event->seq);
    return QP_OK;
}

void endpoint_job_history(struct api_call *c)
{
    struct paging p = {.last = ""};
    struct qp_err err = {0};
    int64_t limit, after;
    bool more = false;
    int rc;
    if (wants_events(c)) {
        follow_job(c, c->parts[0]);
        return;
    }
    if (!api_number(c, "limit", LIMIT_PAGE_ROWS, 0, &limit) ||
        !api_number(c, "cursor", INT64_MAX, 0, &after)) {
        return;
    }
    list_begin(c, &p.w);
    rc = qp_job_journal(api_engine(c->api), c->ns, c->parts[0], after, limit, &p, event_visit,
                        &more, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    list_end(c, &p.w, more ? p.last : "", NULL);
}

void endpoint_job_events(struct api_call *c)
{
    endpoint_job_history(c);
}

/* The whole id of a job that is there; else the call is answered. */
static bool is_job(struct api_call *c)
{
    char id[QP_ID_SIZE];
    struct qp_err err = {0};
    int rc = qp_job_resolve(api_engine(c->api), c->ns, c->parts[0], id, &err);
    if (rc == QP_E_CONFLICT || (rc == QP_OK && !str_equal(str_from(id), c->parts[0]))) {
        rc = err_set(&err, QP_E_NOT_FOUND, "job '%.*s': not found", STR_ARG(c->parts[0]));
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
    }
    return rc == QP_OK;
}

static int export_write(void *context, qp_str piece)
{
    struct buf *out = context;
    buf_str(out, piece);
    return buf_rc(out);
}

void endpoint_job_export(struct api_call *c)
{
    struct qp_err err = {0};
    int rc;
    if (!is_job(c)) {
        return;
    }
    buf_reset(&c->out);
    rc = qp_job_export(api_engine(c->api), c->ns, c->parts[0], &c->out, export_write, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    c->status = 200;
    c->content_type_out = "application/json";
    api_answer(c);
}

static void answer_view(struct api_call *c, const char *name)
{
    struct job_view view = {.ns = c->ns, .id = c->parts[0], .name = name};
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    api_json(c, &w);
    rc = job_view(api_engine(c->api), &view, &w, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json_end(c, &w, 200);
}

void endpoint_job_decisions(struct api_call *c)
{
    answer_view(c, "decisions");
}

void endpoint_job_properties(struct api_call *c)
{
    answer_view(c, JOB_PROPERTIES);
}

/* ------------------------------------------------------------------------------------ actions */

/* The key is known, and it was not for this. */
static void refuse_other(struct api_call *c)
{
    c->replayed = false;
    api_refuse(c, PROBLEM_IDEMPOTENCY_OTHER, NULL,
               "the first request with this key had another body");
}

static void act(struct api_call *c, struct qp_action *action, int status)
{
    char id[QP_ID_SIZE];
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    action->ns = c->ns;
    action->id = c->parts[0];
    action->idem_key = idempotency_text(c);
    action->idem_body = c->body;
    action->out_by_key = &c->replayed;
    rc = qp_job_act(api_engine(c->api), action, id, &err);
    if (rc == QP_E_CONFLICT && c->replayed) {
        refuse_other(c);
        return;
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("id"));
    json_put_str(&w, str_from(id));
    json_key(&w, QP_STR("action"));
    json_put_str(&w, str_from(qp_verb_word(action->verb)));
    json_end_object(&w);
    api_json_end(c, &w, status);
}

static void act_with_reason(struct api_call *c, enum qp_verb verb)
{
    struct body_Reason body;
    if (BODY_READ(c, Reason, c->body, "", &body)) {
        act(c, &(struct qp_action){.verb = verb, .reason = body.reason, .descend = body.descend},
            200);
    }
}

static void act_plainly(struct api_call *c, enum qp_verb verb)
{
    struct body_Empty body;
    if (BODY_READ(c, Empty, c->body, "", &body)) {
        act(c, &(struct qp_action){.verb = verb}, 200);
    }
}

void endpoint_job_cancel(struct api_call *c)
{
    act_with_reason(c, QP_VERB_CANCEL);
}

void endpoint_job_kill(struct api_call *c)
{
    act_with_reason(c, QP_VERB_KILL);
}

void endpoint_job_pause(struct api_call *c)
{
    act_plainly(c, QP_VERB_PAUSE);
}

void endpoint_job_resume(struct api_call *c)
{
    act_plainly(c, QP_VERB_RESUME);
}

void endpoint_job_retry(struct api_call *c)
{
    struct body_JobRetry body;
    if (BODY_READ(c, JobRetry, c->body, "", &body)) {
        act(c,
            &(struct qp_action){.verb = QP_VERB_RETRY,
                                .input = body.input,
                                .new_id = body.id,
                                .at = body.at,
                                .version = body.version,
                                .work = body.work},
            200);
    }
}

void endpoint_job_fork(struct api_call *c)
{
    struct body_Fork body;
    if (BODY_READ(c, Fork, c->body, "", &body)) {
        act(c,
            &(struct qp_action){.verb = QP_VERB_FORK,
                                .input = body.input,
                                .new_id = body.id,
                                .at = body.at,
                                .version = body.version},
            201);
    }
}

void endpoint_job_delete(struct api_call *c)
{
    act(c, &(struct qp_action){.verb = QP_VERB_DELETE}, 200);
}

/* ------------------------------------------------------------------------------------ signals */

static void send_signal(struct api_call *c, const struct qp_signal *wanted)
{
    struct json_writer w;
    struct qp_err err = {0};
    enum qp_sent sent = QP_SENT_UNKNOWN;
    struct qp_signal signal = *wanted;
    int rc;
    signal.out_sent = &sent;
    signal.ns = c->ns;
    signal.payload = str_is_none(signal.payload) ? QP_STR("null") : signal.payload;
    signal.idem_key = idempotency_text(c);
    signal.idem_body = c->body;
    rc = signal_send(api_engine(c->api), &signal, JSON_CHECKED, &err);
    if (rc == QP_E_CONFLICT && !str_is_none(c->idempotency_key)) {
        refuse_other(c);
        return;
    }
    if (rc != QP_OK && rc != QP_E_EXISTS) {
        api_fail(c, rc, &err);
        return;
    }
    c->replayed = rc == QP_E_EXISTS && !str_is_none(c->idempotency_key);
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("accepted"));
    json_put_bool(&w, true);
    if (sent != QP_SENT_UNKNOWN) {
        json_key(&w, QP_STR("outcome"));
        json_put_str(&w, sent == QP_SENT_DELIVERED ? QP_STR("delivered") : QP_STR("kept"));
    }
    json_key(&w, QP_STR("repeated"));
    json_put_bool(&w, rc == QP_E_EXISTS);
    json_end_object(&w);
    api_json_end(c, &w, 202);
}

void endpoint_job_signal(struct api_call *c)
{
    struct body_JobSignal body;
    if (!BODY_READ(c, JobSignal, c->body, "", &body)) {
        return;
    }
    if (raw_has(c->body, "code") && body.code == 0) {
        body.code = -1; /* 0 is no code: it stands for none, and one was given */
    }
    send_signal(c, &(struct qp_signal){.topic = body.topic,
                                       .job = c->parts[0],
                                       .workflow = body.workflow,
                                       .code = clamp_int(body.code),
                                       .payload = body.payload,
                                       .id = body.id,
                                       .ttl_ms = body.ttl});
}

void endpoint_signal(struct api_call *c)
{
    struct body_Signal body;
    if (!BODY_READ(c, Signal, c->body, "", &body)) {
        return;
    }
    if (raw_has(c->body, "code") && body.code == 0) {
        body.code = -1; /* 0 is no code: it stands for none, and one was given */
    }
    send_signal(c, &(struct qp_signal){.topic = body.topic,
                                       .key = body.key,
                                       .code = clamp_int(body.code),
                                       .payload = body.payload,
                                       .id = body.id,
                                       .ttl_ms = body.ttl});
}
