/* agent_graphql.c - POST /graphql: what newer client libraries of agent workflows ask (see agent_port.h)
 *
 * {"query":TEXT,"variables":{"input":{..}}}. No parser of GraphQL: the first field of the query says what is asked, and all that it
 * needs is in `input`. Answers {"data":{FIELD:{"id"|"status"}}}; what is refused {"errors":[{"message","type"}]}, with status
 * 200 as this kind of client expects it, unless the request itself is at fault.
 */
#include <stdio.h>

#include "base/uuid.h"
#include "server/agent_calls.h"

struct asked {
    struct api_call *c;
    const char *field;
    qp_str input;
};

/* --------------------------------------------------------------------------------------- answers */

static void answer(struct asked *a, const char *key, qp_str text)
{
    struct json_writer w;
    api_json(a->c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("data"));
    json_begin_object(&w);
    json_key(&w, str_from(a->field));
    json_begin_object(&w);
    json_key(&w, str_from(key));
    json_put_str(&w, text);
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    api_json_end(a->c, &w, 200);
}

/* `field` NULL: none was asked. A client reads the field of the data also of what is not found. */
static void refuse(struct api_call *c, const char *field, const char *type, const char *message)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    if (field != NULL) {
        json_key(&w, QP_STR("data"));
        json_begin_object(&w);
        json_key(&w, str_from(field));
        json_put_null(&w);
        json_end_object(&w);
    }
    json_key(&w, QP_STR("errors"));
    json_begin_array(&w);
    json_begin_object(&w);
    json_key(&w, QP_STR("message"));
    json_put_str(&w, str_from(message));
    json_key(&w, QP_STR("type"));
    json_put_str(&w, str_from(type));
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* "not_found" of the table of errors is NOT_FOUND here. */
static void fail(const struct asked *a, int rc, const struct qp_err *err)
{
    const char *word = qp_code_word(rc);
    char type[48];
    size_t i = 0;
    if (qp_code_http(rc) >= 500) {
        agent_fail(a->c, rc, err);
        return;
    }
    for (; word[i] != '\0' && i + 1 < sizeof type; i++) {
        type[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 'a' + 'A') : word[i];
    }
    type[i] = '\0';
    refuse(a->c, a->field, type, err->text[0] != '\0' ? err->text : qp_code_text(rc));
}

/* -------------------------------------------------------------------------------------- dispatch */

static bool text(const struct asked *a, qp_str object, const char *key, qp_str *out_text)
{
    if (!agent_text(a->c, object, key, out_text)) {
        return false;
    }
    *out_text = out_text->n > 0 ? *out_text : QP_NONE;
    return true;
}

static bool read_place(const struct asked *a, struct agents_place *out)
{
    if (!text(a, a->input, "environment", &out->environment) ||
        !text(a, a->input, "programmingLanguage", &out->language)) {
        return false;
    }
    if (str_is_none(out->environment)) {
        out->environment = str_from(agent_context(a->c)->environment);
    }
    return true;
}

/* The concrete name of a version. False: no memory, and the call is refused. */
static bool versioned(const struct asked *a, qp_str name, qp_str version, qp_str *out_name)
{
    char *p = arena_bytes(&a->c->arena, name.n + version.n + 1);
    if (p == NULL) {
        api_fail(a->c, QP_E_NOMEM, NULL);
        return false;
    }
    memcpy(p, name.p, name.n);
    p[name.n] = '_';
    memcpy(p + name.n + 1, version.p, version.n);
    *out_name = (qp_str){p, name.n + 1 + version.n};
    return true;
}

static void dispatch(struct asked *a, bool is_task)
{
    struct agents_start s = {.is_task = is_task};
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    qp_str version = QP_NONE;
    int rc;
    if (!read_place(a, &s.place) || !text(a, a->input, "name", &s.name) ||
        !agent_text(a->c, a->input, "input", &s.input) || !text(a, a->input, "tag", &s.tag) ||
        !text(a, a->input, "version", &version) || !text(a, a->input, "intentId", &s.key)) {
        return;
    }
    if (str_is_none(s.place.language)) {
        s.place.language = QP_STR("Javascript");
    }
    s.is_unnamed = !is_task && str_is_none(version);
    s.canonical_name = is_task ? QP_NONE : s.name;
    if (!is_task && !str_is_none(version) && !str_is_none(s.name)) {
        if (!versioned(a, s.canonical_name, version, &s.name)) {
            return;
        }
    }
    s.tag = is_task ? QP_NONE : s.tag;
    rc = agents_start(api_engine(a->c->api), &s, id, &err);
    if (rc != QP_OK) {
        fail(a, rc, &err);
    } else {
        answer(a, "id", str_from(id));
    }
}

static void dispatch_workflow(struct asked *a)
{
    dispatch(a, false);
}

static void dispatch_task(struct asked *a)
{
    dispatch(a, true);
}

static void schedule(struct asked *a)
{
    refuse(a->c, a->field, "NOT_IMPLEMENTED",
           "schedules are not supported yet: dispatch it instead");
}

/* ------------------------------------------------------------------------------------- selectors */

struct acting_on {
    enum qp_verb verb;
    struct agents_event event; /* with is_event */
    bool is_event;
};

/* A selector that selects by nothing would be all of them. False: the call is refused. */
static bool read_selector(const struct asked *a, struct agents_who *who)
{
    qp_str selector = agent_member(a->input, "selector");
    if (raw_first(selector) != '{') {
        refuse(a->c, a->field, "BAD_INPUT", "selector must be an object with name, tag or id");
        return false;
    }
    if (!read_place(a, &who->place) || !text(a, selector, "name", &who->name) ||
        !text(a, selector, "tag", &who->tag) || !text(a, selector, "id", &who->id)) {
        return false;
    }
    if (str_is_none(who->name) && str_is_none(who->tag) && str_is_none(who->id)) {
        refuse(a->c, a->field, "BAD_INPUT", "selector must have a name, a tag or an id");
        return false;
    }
    return true;
}

/* A key makes the event of each instance repeatable: it is one of that instance. */
static qp_str key_of(qp_str key, qp_str id, char out_text[UUID_TEXT_SIZE])
{
    unsigned char guid[LIMIT_GUID_SIZE];
    if (str_is_none(key)) {
        return QP_NONE;
    }
    hash_guid(id.p, id.n, key.p, key.n, guid);
    uuid_format(guid, out_text);
    return (qp_str){out_text, UUID_TEXT_SIZE};
}

static int act_on_one(const struct asked *a, const struct acting_on *what, qp_str id,
                      struct qp_err *err)
{
    struct agents_event event = what->event;
    char key[UUID_TEXT_SIZE];
    event.id = id;
    event.key = key_of(event.key, id, key);
    return what->is_event ? agents_event(api_engine(a->c->api), &event, err)
                          : agents_act(api_engine(a->c->api), id, what->verb, err);
}

/* On every running one that fits. One that has ended meanwhile fits no more. */
static void act_on_all(struct asked *a, const struct acting_on *what)
{
    struct agents_who who = {0};
    const struct agents_found *found = NULL;
    struct qp_err err = {0};
    size_t count = 0;
    int rc;
    if (!read_selector(a, &who)) {
        return;
    }
    rc = agents_find(api_engine(a->c->api), &who, true, &a->c->arena, &found, &count, &err);
    for (size_t i = 0; rc == QP_OK && i < count; i++) {
        rc = act_on_one(a, what, found[i].id, &err);
    }
    if (rc == QP_OK && count == 0) {
        rc = err_set(&err, QP_E_NOT_FOUND, "no running workflow fits the selector");
    }
    if (rc != QP_OK) {
        fail(a, rc, &err);
    } else {
        answer(a, "status", QP_STR("success"));
    }
}

static void send_event(struct asked *a)
{
    struct acting_on what = {.is_event = true};
    if (!text(a, a->input, "name", &what.event.name) ||
        !agent_text(a->c, a->input, "data", &what.event.input) ||
        !text(a, a->input, "intentId", &what.event.key)) {
        return;
    }
    act_on_all(a, &what);
}

static void pause_all(struct asked *a)
{
    act_on_all(a, &(struct acting_on){.verb = QP_VERB_PAUSE});
}

static void resume_all(struct asked *a)
{
    act_on_all(a, &(struct acting_on){.verb = QP_VERB_RESUME});
}

static void terminate_all(struct asked *a)
{
    act_on_all(a, &(struct acting_on){.verb = QP_VERB_KILL});
}

/* ------------------------------------------------------------------------------------- the request */

static const struct {
    const char *field;
    void (*answer)(struct asked *a);
} fields[] = {
    {"dispatchWorkflow", dispatch_workflow}, {"dispatchTask", dispatch_task},
    {"sendEventToWorkflows", send_event},    {"pauseWorkflows", pause_all},
    {"resumeWorkflows", resume_all},         {"terminateWorkflows", terminate_all},
    {"scheduleWorkflow", schedule},          {"scheduleTask", schedule},
};

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The first name behind the first brace. */
static qp_str first_field(qp_str query)
{
    size_t i = 0;
    size_t from;
    while (i < query.n && query.p[i] != '{') {
        i++;
    }
    while (i < query.n && !is_name(query.p[i])) {
        i++;
    }
    from = i;
    while (i < query.n && is_name(query.p[i])) {
        i++;
    }
    return (qp_str){query.p + from, i - from};
}

void endpoint_graphql(struct api_call *c)
{
    struct asked a = {.c = c};
    qp_str query = QP_NONE;
    qp_str field;
    if (!agent_object(c) || !agent_text(c, c->body, "query", &query)) {
        return;
    }
    field = first_field(query);
    a.input = agent_member(agent_member(c->body, "variables"), "input");
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        if (str_equal(field, str_from(fields[i].field))) {
            a.field = fields[i].field;
            fields[i].answer(&a);
            return;
        }
    }
    refuse(c, NULL, "UNKNOWN_FIELD",
           "the first field of the query must be dispatchWorkflow, dispatchTask, "
           "sendEventToWorkflows, pauseWorkflows, resumeWorkflows, terminateWorkflows, "
           "scheduleWorkflow or scheduleTask");
}
