/* agent_clients.c - what client libraries of agent workflows ask: instances, events, tasks (see agent_port.h)
 *
 * Each call is one commit, before its answer. Members that are not known are passed over. In units of these clients:
 * durations in seconds.
 */
#include <math.h>
#include <stdio.h>

#include "run/job_view.h"
#include "server/agent_calls.h"

#define NO_LANGUAGE QP_STR("Javascript")

/* ------------------------------------------------------------------------------------- the request */

static qp_str environment_of(struct api_call *c)
{
    qp_str environment = api_parameter(c, "app_env");
    return environment.n > 0 ? environment : str_from(agent_context(c)->environment);
}

static qp_str or_none(qp_str text)
{
    return text.n > 0 ? text : QP_NONE;
}

/* The first of the members that has a text. False: the call is refused. */
static bool either_text(struct api_call *c, const char *key, const char *other, qp_str *out_text)
{
    if (!agent_text(c, c->body, key, out_text)) {
        return false;
    }
    return !str_is_none(*out_text) || agent_text(c, c->body, other, out_text);
}

static bool read_language(struct api_call *c, qp_str *out_language)
{
    if (!agent_text(c, c->body, "programming_language", out_language)) {
        return false;
    }
    *out_language = or_none(*out_language);
    return true;
}

/* `data` is both what handle gets and the initial properties; each may be said by itself. False: the call is refused. */
static bool read_data(struct api_call *c, struct agents_start *s)
{
    bool has_input = !str_is_none(agent_member(c->body, "input"));
    bool has_properties = !str_is_none(agent_member(c->body, "properties"));
    return agent_text(c, c->body, has_input ? "input" : "data", &s->input) &&
           agent_text(c, c->body, has_properties ? "properties" : "data", &s->properties);
}

/* Of a start: where it lives, its name, its data. */
static bool read_start(struct api_call *c, struct agents_start *s)
{
    *s = (struct agents_start){.place.environment = environment_of(c)};
    if (!agent_object(c) || !read_language(c, &s->place.language) ||
        !agent_text(c, c->body, "name", &s->name) ||
        !agent_text(c, c->body, "canonical_name", &s->canonical_name) || !read_data(c, s) ||
        !agent_text(c, c->body, "custom_id", &s->custom_id) ||
        !agent_text(c, c->body, "intent_id", &s->key)) {
        return false;
    }
    if (str_is_none(s->place.language)) {
        s->place.language = NO_LANGUAGE;
    }
    s->canonical_name = or_none(s->canonical_name);
    s->custom_id = or_none(s->custom_id);
    s->key = or_none(s->key);
    s->name = str_is_none(s->name) ? s->canonical_name : s->name;
    return true;
}

static void answer_id(struct api_call *c, const char *id)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("id"));
    json_put_str(&w, str_from(id));
    json_end_object(&w);
    api_json_end(c, &w, 201);
}

static void start(struct api_call *c, const struct agents_start *s)
{
    char id[QP_ID_SIZE];
    struct qp_err err = {0};
    int rc = agents_start(api_engine(c->api), s, id, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
    } else {
        answer_id(c, id);
    }
}

void endpoint_instance_start(struct api_call *c)
{
    struct agents_start s;
    if (read_start(c, &s)) {
        start(c, &s);
    }
}

void endpoint_task_start(struct api_call *c)
{
    struct agents_start s;
    qp_str limit;
    double seconds;
    if (!read_start(c, &s)) {
        return;
    }
    limit = agent_member(c->body, "maxProcessingTime");
    seconds = raw_first(limit) >= '0' && raw_first(limit) <= '9' ? real_parse(limit) : 0;
    s.is_task = true;
    s.canonical_name = s.custom_id = QP_NONE;
    s.max_processing_ms =
        seconds * 1000 > (double)LIMIT_TIMER_MS ? LIMIT_TIMER_MS : (int64_t)llround(seconds * 1000);
    start(c, &s);
}

/* ---------------------------------------------------------------------------------- what is there */

static void refuse_unknown(struct api_call *c, qp_str id)
{
    struct qp_err err = {0};
    (void)err_set(&err, QP_E_NOT_FOUND, "No workflow instance found with the id : %.*s",
                  STR_ARG(id));
    agent_fail(c, QP_E_NOT_FOUND, &err);
}

/* The running one; without one the latest that has ended. False: the call is refused. */
static bool find_one(struct api_call *c, const struct agents_who *who, struct agents_found *out)
{
    const struct agents_found *found = NULL;
    struct qp_err err = {0};
    qp_str id = str_is_none(who->custom_id) ? who->id : who->custom_id;
    size_t count = 0;
    int rc;
    if (str_is_none(id)) {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "custom_id is missing");
        return false;
    }
    rc = agents_find(api_engine(c->api), who, false, &c->arena, &found, &count, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
        return false;
    }
    if (count == 0) {
        refuse_unknown(c, id);
        return false;
    }
    *out = found[0];
    for (size_t i = 0; i < count && !out->open; i++) {
        *out = found[i].open ? found[i] : *out;
    }
    return true;
}

void endpoint_instance_find(struct api_call *c)
{
    struct agents_who who = {
        .place = {.environment = environment_of(c),
                  .language = or_none(api_parameter(c, "programming_language"))},
        .name = or_none(api_parameter(c, "name")),
        .custom_id = or_none(api_parameter(c, "custom_id"))};
    struct agents_found found;
    struct qp_err err = {0};
    struct json_writer w;
    int rc;
    if (!find_one(c, &who, &found)) {
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("data"));
    json_begin_object(&w);
    rc = agents_show(api_engine(c->api), found.id, &w, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
        return;
    }
    json_end_object(&w);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* By the id that a start has answered. */
static bool find_by_id(struct api_call *c, struct agents_found *out)
{
    const struct agents_who who = {.place.environment = environment_of(c), .id = c->parts[0]};
    return find_one(c, &who, out);
}

void endpoint_instance_decisions(struct api_call *c)
{
    struct job_view view = {.name = "decisions"};
    struct agents_found found;
    struct qp_err err = {0};
    struct json_writer w;
    int rc;
    if (!find_by_id(c, &found)) {
        return;
    }
    view.id = found.id;
    api_json(c, &w);
    rc = job_view(api_engine(c->api), &view, &w, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
    } else {
        api_json_end(c, &w, 200);
    }
}

void endpoint_instance_retry(struct api_call *c)
{
    struct agents_found found;
    struct qp_err err = {0};
    struct qp_action action = {.verb = QP_VERB_RETRY};
    int rc;
    if (!agent_object(c) || !agent_text(c, c->body, "work", &action.work) ||
        !find_by_id(c, &found)) {
        return;
    }
    action.id = found.id;
    rc = found.open ? qp_job_act(api_engine(c->api), &action, NULL, &err)
                    : err_set(&err, QP_E_CLOSED, "the instance has ended");
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
    } else {
        agent_answer(c, 200);
    }
}

static bool read_who(struct api_call *c, struct agents_who *who)
{
    *who = (struct agents_who){.place.environment = environment_of(c),
                               .custom_id = or_none(api_parameter(c, "custom_id"))};
    if (!agent_object(c) || !read_language(c, &who->place.language) ||
        !agent_text(c, c->body, "name", &who->name) ||
        !agent_text(c, c->body, "instance_id", &who->id)) {
        return false;
    }
    who->name = or_none(who->name);
    who->id = or_none(who->id);
    return !str_is_none(who->custom_id) || agent_text(c, c->body, "custom_id", &who->custom_id);
}

void endpoint_instance_mode(struct api_call *c)
{
    static const struct {
        const char *word;
        enum qp_verb verb;
    } modes[] = {{"kill", QP_VERB_KILL}, {"pause", QP_VERB_PAUSE}, {"run", QP_VERB_RESUME}};
    struct agents_who who;
    struct agents_found found;
    struct qp_err err = {0};
    size_t i = 0;
    qp_str mode;
    int rc;
    if (!read_who(c, &who) || !agent_text(c, c->body, "mode", &mode)) {
        return;
    }
    while (i < ARRAY_COUNT(modes) && !str_equal(mode, str_from(modes[i].word))) {
        i++;
    }
    if (i == ARRAY_COUNT(modes)) {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "mode must be kill, pause or run");
        return;
    }
    if (!find_one(c, &who, &found)) {
        return;
    }
    c->target = found.id;
    rc = found.open ? agents_act(api_engine(c->api), found.id, modes[i].verb, &err) : QP_OK;
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
    } else {
        agent_answer(c, 200);
    }
}

void endpoint_instance_event(struct api_call *c)
{
    struct agents_who who;
    struct agents_found found;
    struct agents_event event = {0};
    struct qp_err err = {0};
    int rc;
    if (!read_who(c, &who) || !agent_text(c, c->body, "event_name", &event.name) ||
        !either_text(c, "event_input", "event_data", &event.input) ||
        !agent_text(c, c->body, "intent_id", &event.key) || !find_one(c, &who, &found)) {
        return;
    }
    event.id = found.id;
    event.key = or_none(event.key);
    rc = agents_event(api_engine(c->api), &event, &err);
    if (rc != QP_OK) {
        agent_fail(c, rc, &err);
    } else {
        agent_answer(c, 200);
    }
}
