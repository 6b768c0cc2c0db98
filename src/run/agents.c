/* agents.c - instances of agent workflows, as clients start, find and ask them (see agents.h) */
#include "run/agents.h"

#include <stdio.h>

#include "agent/face.h"
#include "agent/rows.h"
#include "agent/start.h"
#include "base/json.h"
#include "kernel/query.h"
#include "run/enter.h"
#include "run/host.h"
#include "run/ids.h"
#include "run/jobs.h"
#include "run/loop.h"
#include "run/stats.h"

/* ----------------------------------------------------------------------------------------- streams */

int agents_stream(struct arena *arena, const struct agents_place *place, qp_str *out_topic,
                  struct qp_err *err)
{
    struct agent_start start = {.environment = place->environment, .language = place->language};
    QP_TRY(id_check(place->environment, "environment", err));
    QP_TRY(id_check(place->language, "programming_language", err));
    if (memchr(place->language.p, ':', place->language.n) != NULL) {
        return err_set(err, QP_E_INVALID, "programming_language: '%.*s' has a colon",
                       STR_ARG(place->language));
    }
    if (place->environment.n + place->language.n > LIMIT_STREAM_NAMES_SIZE) {
        return err_set(err, QP_E_INVALID,
                       "environment and programming_language may have %d bytes together, got %zu",
                       LIMIT_STREAM_NAMES_SIZE, place->environment.n + place->language.n);
    }
    return start_topic(arena, &start, out_topic);
}

static struct agents *state_of(const qp *q)
{
    return faces_state(q->faces, &agent_face);
}

void agents_set_lease(qp *q, qp_ms least_ms)
{
    agents_lease(state_of(q), least_ms);
}

/* ----------------------------------------------------------------------------------------- reading */

/* Something that is read in one snapshot. */
struct looking {
    qp *q;
    struct query query;
    struct arena *arena;
    void *context;
    int (*look)(struct looking *l, struct store *s, struct qp_err *err);
};

static int look_body(void *context, struct store *s, struct qp_err *err)
{
    struct looking *l = context;
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    l->query.store = s;
    rc = l->look(l, s, err);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

static int look(struct looking *l, qp *q, struct qp_err *err)
{
    l->q = q;
    l->query = (struct query){.ns = q->ns, .ns_name = str_from(q->ns_name), .faces = q->faces};
    return reads_do(q, l, look_body, err);
}

struct leasing {
    const struct msg_ref *ref;
    qp_ms *lease_ms;
};

static int look_lease(struct looking *l, struct store *s, struct qp_err *err)
{
    const struct leasing *x = l->context;
    struct act_row act = {.ns = x->ref->ns, .job = x->ref->job};
    const void *row = NULL;
    QP_TRY(store_get(s, l->arena, TABLE_msg,
                     &(struct msg_row){.ns = x->ref->ns, .job = x->ref->job, .guid = x->ref->guid},
                     &row, err));
    act.addr = ((const struct msg_row *)row)->addr;
    QP_TRY(store_get(s, l->arena, TABLE_act, &act, &row, err));
    return agent_lease(state_of(l->q), l->arena, ((const struct act_row *)row)->input, x->lease_ms);
}

int agents_task_lease(qp *q, const struct msg_ref *ref, qp_ms *out_lease_ms, struct qp_err *err)
{
    struct leasing x = {ref, out_lease_ms};
    struct arena arena;
    struct looking l = {.arena = &arena, .context = &x, .look = look_lease};
    arena_init(&arena, &q->env, 0);
    int rc = look(&l, q, err);
    arena_done(&arena);
    return rc;
}

/* ---------------------------------------------------------------------------------------- starting */

struct starting {
    struct call call;
    struct request_start request;
    const struct agents_start *start;
    qp_str input;
    struct qp_attribute attributes[3];
    char id[QP_ID_SIZE];
    unsigned char hash[LIMIT_GUID_SIZE];
};

static int text_check(qp_str text, const char *what, struct qp_err *err)
{
    if (text.n > LIMIT_INSTANCE_TEXT_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "%s must have at most %d bytes, got %zu", what,
                       LIMIT_INSTANCE_TEXT_SIZE, text.n);
    }
    return QP_OK;
}

static int optional_check(qp_str id, const char *what, struct qp_err *err)
{
    return str_is_none(id) ? QP_OK : id_check(id, what, err);
}

static int start_check(struct arena *arena, const struct agents_start *s, struct qp_err *err)
{
    qp_str topic;
    QP_TRY(agents_stream(arena, &s->place, &topic, err));
    QP_TRY(id_check(s->name, "name", err));
    QP_TRY(optional_check(s->canonical_name, "canonical_name", err));
    QP_TRY(optional_check(s->custom_id, "custom_id", err));
    QP_TRY(optional_check(s->tag, "tag", err));
    QP_TRY(optional_check(s->key, "intent_id", err));
    QP_TRY(text_check(s->input, "input", err));
    return text_check(s->properties, "properties", err);
}

/* What the job of a single task begins with. */
static int write_task(struct arena *arena, const struct agents_start *s,
                      struct agent_start *out_start)
{
    struct status status = {.work = {.name = s->name,
                                     .input = s->input,
                                     .position = QP_STR("0"),
                                     .type = WORK_TASK,
                                     .max_processing_ms = s->max_processing_ms}};
    work_hash(&status.work, 0, status.hash);
    out_start->attempt = 1;
    return rows_put_definition(arena, &status, &out_start->task);
}

static int write_input(struct arena *arena, const struct agents_start *s, qp_str *out_text)
{
    struct agent_start start = {.language = s->place.language, .environment = s->place.environment};
    if (s->is_task) {
        QP_TRY(write_task(arena, s, &start));
    } else {
        start.input = s->input;
        start.properties = s->properties;
        start.canonical_name = s->canonical_name;
        start.is_unnamed = s->is_unnamed;
    }
    return start_write(arena, &start, out_text);
}

static qp_str workflow_of(const struct agents_start *s)
{
    return str_is_none(s->canonical_name) ? s->name : s->canonical_name;
}

static void put_attribute(struct starting *s, const char *name, qp_str value)
{
    if (!str_is_none(value)) {
        s->attributes[s->request.attribute_count++] =
            (struct qp_attribute){.name = str_from(name), .value = value};
    }
}

static void fill(struct starting *s)
{
    const struct agents_start *from = s->start;
    qp *q = s->call.q;
    bool renamed = !str_equal(workflow_of(from), from->name);
    s->request.start = (struct start){.job = {.ref.ns = q->ns,
                                              .jid = str_from(s->id),
                                              .kind = AGENT_KIND,
                                              .workflow = workflow_of(from),
                                              .version = from->name,
                                              .custom_id = from->custom_id},
                                      .input = s->input,
                                      .fresh = true};
    s->request.attributes = s->attributes;
    put_attribute(s, AGENTS_ATTR_ID, from->custom_id);
    put_attribute(s, AGENTS_ATTR_TAG, from->tag);
    put_attribute(s, AGENTS_ATTR_NAME, renamed ? from->name : QP_NONE);
    if (!str_is_none(from->key)) {
        s->request.keyed.idem = idem_record(q->ns, from->key, s->input, str_from(s->id), s->hash);
    }
}

/* A start that met the job of its custom id has started nothing; one that met its own key has, before. */
static int start_code(struct starting *s, int rc)
{
    bool repeated = s->request.keyed.met;
    if (rc == QP_E_EXISTS && repeated) {
        memcpy(s->id, s->request.keyed.taken, sizeof s->id);
        return QP_OK;
    }
    return rc == QP_E_CONFLICT && !repeated ? QP_E_EXISTS : rc;
}

static const char *start_why(const struct starting *s, int rc, const char *why)
{
    return rc == QP_E_EXISTS     ? "a running instance of this name has the same custom_id"
           : rc == QP_E_CONFLICT ? "the intent_id was used for another request"
                                 : refusal_text(&s->request.refusal, rc, why);
}

static void started(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_start *r = (struct request_start *)c;
    struct starting *s = (struct starting *)((char *)r - offsetof(struct starting, request));
    (void)e;
    if (rc == QP_OK) {
        stats_started(s->call.q, workflow_of(s->start), s->input);
    }
    rc = start_code(s, rc);
    if (rc != QP_OK) {
        (void)err_set(s->call.err, rc, "%s", start_why(s, rc, why));
    }
    call_done(&s->call.q->driver, &s->call, rc);
}

static void start_execute(qp *q, struct call *c)
{
    struct starting *s = (struct starting *)c;
    int rc;
    fill(s);
    rc = engine_number(q->engine, &s->request.start.job.ref.job, c->err);
    if (rc != QP_OK) {
        call_done(&q->driver, c, rc);
        return;
    }
    request_start(&s->request);
    s->request.command.answer = started;
    engine_submit(q->engine, &s->request.command);
}

static int start_in(qp *q, struct arena *arena, struct starting *s, struct qp_err *err)
{
    QP_TRY(start_check(arena, s->start, err));
    QP_TRY(write_input(arena, s->start, &s->input));
    QP_TRY(ids_of_job(q, QP_NONE, s->id, err));
    return call_do(&q->driver, &s->call, err);
}

int agents_start(qp *q, const struct agents_start *start, char out_id[QP_ID_SIZE],
                 struct qp_err *err)
{
    struct starting s = {.call = {.execute = start_execute, .q = q}, .start = start};
    struct arena arena;
    ENTER(q, start != NULL, err);
    arena_init(&arena, &q->env, 0);
    int rc = start_in(q, &arena, &s, err);
    arena_done(&arena);
    if (rc == QP_OK) {
        memcpy(out_id, s.id, sizeof s.id);
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------- finding */

struct finding {
    const struct agents_who *who;
    bool only_open;
    qp_str where;
    struct agents_found *found;
    size_t count; /* jobs that fit the filter, then those that are meant */
};

/* A value of a filter, in its quotes. */
static void put_value(struct buf *out, qp_str value)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] == '"' || value.p[i] == '\\') {
            buf_byte(out, '\\');
        }
        buf_byte(out, value.p[i]);
    }
    buf_byte(out, '"');
}

static void put_condition(struct buf *out, bool *begun, const char *field, qp_str value)
{
    if (str_is_none(value)) {
        return;
    }
    buf_text(out, *begun ? " and " : "");
    buf_text(out, field);
    buf_byte(out, '=');
    put_value(out, value);
    *begun = true;
}

/* One alternative per way in which the name may be meant. */
static void put_alternative(struct buf *out, const struct finding *f, const char *name_field)
{
    bool begun = false;
    put_condition(out, &begun, "attr." AGENTS_ATTR_ID, f->who->custom_id);
    put_condition(out, &begun, "attr." AGENTS_ATTR_TAG, f->who->tag);
    put_condition(out, &begun, "id", f->who->id);
    put_condition(out, &begun, name_field, f->who->name);
    if (f->only_open) {
        buf_text(out, begun ? " and status=open" : "status=open");
    }
}

static int write_where(struct arena *arena, const struct finding *f, qp_str *out_where)
{
    struct buf out;
    buf_init(&out, arena->env, 0);
    put_alternative(&out, f, "workflow");
    if (!str_is_none(f->who->name)) {
        buf_text(&out, " or ");
        put_alternative(&out, f, "attr." AGENTS_ATTR_NAME);
    }
    int rc = buf_rc(&out);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&out), out_where)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

static int take_job(void *context, const struct qp_job_info *job)
{
    struct looking *l = context;
    struct finding *f = l->context;
    struct agents_found *found = &f->found[f->count];
    found->open = job->closed_at == 0;
    f->count++;
    return arena_copy(l->arena, job->id, &found->id) ? QP_OK : QP_E_NOMEM;
}

static bool same_word(qp_str a, qp_str b)
{
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Other kinds of jobs may have such names and attributes, and other environments such instances. */
static int is_meant(struct looking *l, struct store *s, qp_str id, bool *out_meant,
                    struct qp_err *err)
{
    const struct finding *f = l->context;
    const struct job_row *job = NULL;
    struct act_row key = {.addr = TRIGGER_ADDRESS};
    struct agent_start start;
    const void *row = NULL;
    QP_TRY(query_find(&l->query, l->arena, id, &job, err));
    key.ns = job->ns;
    key.job = job->job;
    *out_meant = false;
    if (job->kind != AGENT_KIND) {
        return QP_OK;
    }
    QP_TRY(store_get(s, l->arena, TABLE_act, &key, &row, err));
    QP_TRY(start_read(l->arena, ((const struct act_row *)row)->input, &start));
    *out_meant =
        str_is_none(start.task) && str_equal(start.environment, f->who->place.environment) &&
        (str_is_none(f->who->place.language) || same_word(start.language, f->who->place.language));
    return QP_OK;
}

static int look_instances(struct looking *l, struct store *s, struct qp_err *err)
{
    struct finding *f = l->context;
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        bool meant = false;
        int rc = is_meant(l, s, f->found[i].id, &meant, err);
        if (rc != QP_OK && rc != QP_E_NOT_FOUND) { /* deleted meanwhile */
            return rc;
        }
        if (meant) {
            f->found[count++] = f->found[i];
        }
    }
    f->count = count;
    return QP_OK;
}

static int list_jobs(qp *q, struct looking *l, struct qp_err *err)
{
    const struct finding *f = l->context;
    struct qp_list list = {.where = f->where};
    char cursor[QP_CURSOR_SIZE] = "";
    char next[QP_CURSOR_SIZE] = "";
    do {
        memcpy(cursor, next, sizeof cursor);
        list.cursor = str_from(cursor);
        list.limit = LIMIT_PAGE_ROWS - (int64_t)f->count;
        QP_TRY(qp_job_list(q, &list, l, take_job, next, err));
    } while (next[0] != '\0' && f->count < LIMIT_PAGE_ROWS);
    return QP_OK;
}

int agents_find(qp *q, const struct agents_who *who, bool only_open, struct arena *arena,
                const struct agents_found **out_found, size_t *out_count, struct qp_err *err)
{
    struct finding f = {.who = who, .only_open = only_open};
    struct looking l = {.arena = arena, .context = &f, .look = look_instances};
    ENTER(q, who != NULL, err);
    QP_TRY(optional_check(who->name, "name", err));
    QP_TRY(optional_check(who->custom_id, "custom_id", err));
    QP_TRY(optional_check(who->tag, "tag", err));
    QP_TRY(optional_check(who->id, "id", err));
    QP_TRY(write_where(arena, &f, &f.where));
    f.found = arena_alloc(arena, LIMIT_PAGE_ROWS * sizeof *f.found);
    if (f.found == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(list_jobs(q, &l, err));
    QP_TRY(look(&l, q, err));
    *out_found = f.found;
    *out_count = f.count;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ asking */

struct asking {
    struct call call;
    struct request_ask request;
    unsigned char hash[LIMIT_GUID_SIZE];
};

/* What was asked before, or of an instance that has ended, changes nothing. */
static int ask_code(const struct request_ask *r, int rc)
{
    return rc == QP_E_CLOSED || (rc == QP_E_EXISTS && r->keyed.met) ? QP_OK : rc;
}

static void asked(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_ask *r = (struct request_ask *)c;
    struct asking *a = (struct asking *)((char *)r - offsetof(struct asking, request));
    (void)e;
    why = rc == QP_E_CONFLICT && r->keyed.met ? "the intent_id was used for another request"
                                              : refusal_text(&r->refusal, rc, why);
    rc = ask_code(r, rc);
    if (rc != QP_OK) {
        (void)err_set(a->call.err, rc, "%s", why);
    }
    call_done(&a->call.q->driver, &a->call, rc);
}

static void ask_execute(qp *q, struct call *c)
{
    struct asking *a = (struct asking *)c;
    request_ask(&a->request);
    a->request.command.answer = asked;
    engine_submit(q->engine, &a->request.command);
}

/* What a key's record compares: the event, whole. */
static int event_body(struct arena *arena, const struct agents_event *event, qp_str *out_body)
{
    size_t input = str_is_none(event->input) ? 0 : event->input.n + 1;
    char *text = arena_bytes(arena, event->id.n + 1 + event->name.n + 1 + input);
    char *p = text;
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(p, event->id.p, event->id.n);
    p += event->id.n;
    *p++ = '\0';
    memcpy(p, event->name.p, event->name.n);
    p += event->name.n;
    *p++ = '\0';
    if (input > 0) {
        *p++ = '=';
        memcpy(p, event->input.p, event->input.n);
        p += event->input.n;
    }
    *out_body = (qp_str){text, (size_t)(p - text)};
    return QP_OK;
}

static int event_in(qp *q, struct arena *arena, const struct agents_event *event,
                    struct qp_err *err)
{
    struct asking a = {
        .call = {.execute = ask_execute, .q = q},
        .request = {.ns = q->ns,
                    .jid = event->id,
                    .question = {.what = AGENT_EVENT, .name = event->name, .text = event->input}}};
    qp_str body;
    if (!str_is_none(event->key)) {
        QP_TRY(event_body(arena, event, &body));
        a.request.keyed.idem = idem_record(q->ns, event->key, body, event->id, a.hash);
    }
    return call_do(&q->driver, &a.call, err);
}

int agents_event(qp *q, const struct agents_event *event, struct qp_err *err)
{
    struct arena arena;
    ENTER(q, event != NULL, err);
    QP_TRY(id_check(event->name, "event_name", err));
    QP_TRY(text_check(event->input, "event_input", err));
    QP_TRY(optional_check(event->key, "intent_id", err));
    arena_init(&arena, &q->env, 0);
    int rc = event_in(q, &arena, event, err);
    arena_done(&arena);
    return rc;
}

int agents_act(qp *q, qp_str id, enum qp_verb verb, struct qp_err *err)
{
    int rc = qp_job_act(q, &(struct qp_action){.id = id, .verb = verb}, NULL, err);
    return rc == QP_E_CLOSED || rc == QP_E_CONFLICT ? QP_OK : rc;
}

/* ----------------------------------------------------------------------------------------- showing */

static void put_text(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

struct showing {
    qp_str id;
    struct json_writer *w;
};

/* One that is still to begin has what it is started with. */
static int read_instance(const struct sight *sight, struct instance *out)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = TRIGGER_ADDRESS};
    struct agent_start start;
    const void *row = NULL;
    int rc = agent_instance(sight, out);
    if (rc != QP_E_NOT_FOUND) {
        return rc;
    }
    QP_TRY(store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err));
    QP_TRY(start_read(sight->arena, ((const struct act_row *)row)->input, &start));
    *out = (struct instance){.id = sight->job->jid,
                             .custom_id = sight->job->custom_id,
                             .workflow_name = sight->job->version,
                             .canonical_name = start.canonical_name,
                             .programming_language = start.language,
                             .environment = start.environment,
                             .properties = ARENA_NEW(sight->arena, struct property)};
    if (out->properties == NULL) {
        return QP_E_NOMEM;
    }
    out->properties[0].values = start.properties;
    out->property_count = 1;
    return QP_OK;
}

static int look_instance(struct looking *l, struct store *s, struct qp_err *err)
{
    const struct showing *x = l->context;
    struct sight sight = {.store = s, .arena = l->arena, .err = err};
    struct instance instance;
    QP_TRY(query_find(&l->query, l->arena, x->id, &sight.job, err));
    QP_TRY(read_instance(&sight, &instance));
    put_text(x->w, "id", instance.id);
    put_text(x->w, "custom_id", instance.custom_id);
    put_text(x->w, "name", instance.workflow_name);
    put_text(x->w, "canonical_name", instance.canonical_name);
    put_text(x->w, "programming_language", instance.programming_language);
    put_text(x->w, "environment", instance.environment);
    put_text(x->w, "status", str_from(status_word(sight.job->status)));
    put_text(x->w, "properties", instance.properties[instance.property_count - 1].values);
    return QP_OK;
}

int agents_show(qp *q, qp_str id, struct json_writer *w, struct qp_err *err)
{
    struct showing x = {id, w};
    struct arena arena;
    struct looking l = {.arena = &arena, .context = &x, .look = look_instance};
    ENTER(q, w != NULL, err);
    arena_init(&arena, &q->env, 0);
    int rc = look(&l, q, err);
    arena_done(&arena);
    return rc;
}
