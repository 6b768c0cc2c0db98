/* traversal_calls.c - calls about traversals of dependency graphs: start, state, result, logs, imports, dependents
 *
 * A traversal is a job (run/traversals.h): what is not here, jobs have. Its states for people are TRAVERSING, FORMATTING,
 * SUCCESS and ERROR.
 */
#include <stdio.h>

#include "carto/deb.h"
#include "run/show.h"
#include "run/traversals.h"
#include "run/traversals_ask.h"
#include "server/fields.h"
#include "server/handlers.h"

/* -------------------------------------------------------------------------------------------- states */

static const char *word_of(const struct job_row *job, const struct result_state *state)
{
    if (job->state == JOB_OPEN) {
        return state->has_ended ? "FORMATTING" : "TRAVERSING";
    }
    return job->state == JOB_COMPLETED ? "SUCCESS" : "ERROR";
}

static void put_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    json_put_i64(w, number);
}

static void put_text(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

static void put_counts(struct json_writer *w, const struct carto_sums *sums)
{
    const struct carto_counts *c = &sums->counts;
    json_key(w, QP_STR("counts"));
    json_begin_object(w);
    put_number(w, "made", sums->made);
    put_number(w, "items", c->items);
    put_number(w, "done", c->done);
    put_number(w, "duplicate", c->duplicate);
    put_number(w, "pruned", c->pruned);
    put_number(w, "failed", c->failed);
    put_number(w, "optional", c->optional);
    put_number(w, "excluded", c->excluded);
    put_number(w, "cut", c->cut);
    json_end_object(w);
}

/* The headers of END-DETECT (document 003). */
static void put_end(struct json_writer *w, const struct result_state *state)
{
    json_key(w, QP_STR("end"));
    json_begin_object(w);
    put_text(w, "end-detect-result", state->has_ended ? QP_STR("DONE") : QP_STR("IN_PROGRESS"));
    if (state->has_ended) {
        put_text(w, "end-detect-reason", str_from(state->head.reason));
    }
    json_end_object(w);
}

static int show_state(void *context, const struct job_row *job, const struct result_state *state)
{
    struct json_writer *w = context;
    json_begin_object(w);
    put_text(w, "id", job->jid);
    put_text(w, "status", str_from(word_of(job, state)));
    put_end(w, state);
    put_number(w, "level", (int64_t)state->level);
    put_number(w, "open", state->sums.made - state->sums.counts.items);
    put_number(w, "waiting", state->waiting);
    put_counts(w, &state->sums);
    put_text(w, "universe", state->head.universe);
    if (!str_is_none(state->hash)) {
        put_text(w, "hash", state->hash);
    }
    if (!str_is_none(state->formatted)) {
        json_key(w, QP_STR("result"));
        json_put_raw(w, state->formatted);
    }
    if (!str_is_none(job->parked)) {
        put_text(w, "parked", job->parked);
    }
    if (!str_is_none(job->error)) {
        json_key(w, QP_STR("error"));
        json_put_raw(w, job->error);
    }
    json_end_object(w);
    return QP_OK;
}

void endpoint_traversal_list(struct api_call *c)
{
    api_list_jobs(c, QP_STR("workflow=carto"));
}

void endpoint_traversal_status(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    api_json(c, &w);
    rc = traversals_state(api_engine(c->api), c->ns, c->parts[0], &w, show_state, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json_end(c, &w, 200);
}

/* ---------------------------------------------------------------------------------------------- start */

static void put_link(struct json_writer *w, const char *name, const char *id, const char *part)
{
    char path[QP_ID_SIZE + 64];
    (void)snprintf(path, sizeof path, "/v1/traversals/%s%s", id, part);
    put_text(w, name, str_from(path));
}

static void note_started(void *context, const struct qp_started *started)
{
    *(bool *)context = started->existed;
}

static void answer_started(struct api_call *c, const char *id, bool is_cached)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    put_text(&w, "id", str_from(id));
    json_key(&w, QP_STR("cached"));
    json_put_bool(&w, is_cached);
    json_key(&w, QP_STR("links"));
    json_begin_object(&w);
    put_link(&w, "status", id, "/status");
    put_link(&w, "logs", id, "/logs");
    put_link(&w, "result", id, "");
    json_end_object(&w);
    json_end_object(&w);
    api_json_end(c, &w, 202);
}

void endpoint_traversal_start(struct api_call *c)
{
    struct raw_walk w = {.rest = c->body};
    bool is_cached = false;
    struct qp_start start = {.ns = c->ns,
                             .topic = QP_STR(CARTO_NAME),
                             .input = c->body,
                             .context = &is_cached,
                             .answered = note_started};
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    int rc;
    while (raw_first(c->body) == '{' && raw_each(&w)) {
        if (str_equal(w.key, QP_STR("workspaceId")) && !raw_string(c, w.value, &start.id)) {
            api_refuse(c, PROBLEM_BAD_FIELD, "/workspaceId", "workspaceId must be a text");
            return;
        }
    }
    if (str_equal(start.id, QP_STR("types"))) { /* GET /v1/traversals/types is the registry */
        api_refuse(c, PROBLEM_BAD_FIELD, "/workspaceId", "no traversal can have the id 'types'");
        return;
    }
    start.idem_key = c->idempotency_key;
    rc = qp_job_start(api_engine(c->api), &start, id, &err);
    if (rc != QP_OK && rc != QP_E_EXISTS) {
        api_fail(c, rc, &err);
        return;
    }
    answer_started(c, id, is_cached);
}

/* ---------------------------------------------------------------------------------------------- result */

static int write_piece(void *context, const char *bytes, size_t size)
{
    struct buf *out = context;
    buf_add(out, bytes, size);
    return buf_rc(out);
}

struct looking {
    const char *word;
    bool is_open;
};

static int look_state(void *context, const struct job_row *job, const struct result_state *state)
{
    struct looking *l = context;
    l->word = word_of(job, state);
    l->is_open = job->state == JOB_OPEN;
    return QP_OK;
}

void endpoint_traversal_result(struct api_call *c)
{
    qp_str word = api_parameter(c, "format");
    enum carto_format format = CARTO_JSON;
    struct looking looking = {0};
    struct qp_err err = {0};
    int rc;
    if (!str_is_none(word) && !format_read(word, &format)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "format", "format must be " CARTO_FORMAT_WORDS);
        return;
    }
    rc = traversals_state(api_engine(c->api), c->ns, c->parts[0], &looking, look_state, &err);
    buf_reset(&c->out);
    if (rc == QP_OK && !looking.is_open) {
        rc = traversals_result(api_engine(c->api), c->ns, c->parts[0], format, &c->out, write_piece,
                               &err);
    }
    if (rc != QP_OK) {
        api_fail(c, rc == QP_E_BUSY ? QP_E_CONFLICT : rc, &err);
        return;
    }
    c->header_name = "Traverse-State";
    c->header_value = looking.word;
    c->status = looking.is_open ? 204 : 200;
    c->content_type_out = format_media_type(format);
    api_answer(c);
}

/* ------------------------------------------------------------------------------------------- questions */

#define WHY_PATHS 3 /* unless the call says how many */

static void answer_question(struct api_call *c, struct json_writer *w, int rc,
                            const struct qp_err *err)
{
    if (rc != QP_OK) {
        api_fail(c, rc == QP_E_BUSY ? QP_E_CONFLICT : rc, err);
        return;
    }
    api_json_end(c, w, 200);
}

void endpoint_traversal_why(struct api_call *c)
{
    struct why_question question = {.from = api_parameter(c, "root"),
                                    .to = api_parameter(c, "target")};
    struct json_writer w;
    struct qp_err err = {0};
    int64_t paths = 0;
    int rc;
    if (str_is_none(question.to)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "target", "it is missing: name a package");
        return;
    }
    if (!api_number(c, "paths", LIMIT_CARTO_WAYS, WHY_PATHS, &paths)) {
        return;
    }
    question.limit = paths < 1 ? 1 : (size_t)paths;
    api_json(c, &w);
    rc = traversals_why(api_engine(c->api), c->ns, c->parts[0], &question, &w, &err);
    answer_question(c, &w, rc, &err);
}

void endpoint_traversal_diff(struct api_call *c)
{
    qp_str with = api_parameter(c, "with");
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (str_is_none(with)) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "with", "it is missing: name a traversal");
        return;
    }
    api_json(c, &w);
    rc = traversals_diff(api_engine(c->api), c->ns, c->parts[0], with, &w, &err);
    answer_question(c, &w, rc, &err);
}

/* ------------------------------------------------------------------------------------------------ logs */

/* "bytes=FROM-", "bytes=FROM-TO", "bytes=-LAST" of a text of this size; false: it is none of these, and ignored. */
static bool read_range(qp_str text, size_t size, size_t *out_from, size_t *out_to)
{
    static const char unit[] = "bytes=";
    const char *dash;
    int64_t from = 0;
    int64_t to = (int64_t)size - 1;
    qp_str left;
    qp_str right;
    if (text.n < sizeof unit || memcmp(text.p, unit, sizeof unit - 1) != 0) {
        return false;
    }
    text = (qp_str){text.p + sizeof unit - 1, text.n - sizeof unit + 1};
    dash = memchr(text.p, '-', text.n);
    if (dash == NULL) {
        return false;
    }
    left = (qp_str){text.p, (size_t)(dash - text.p)};
    right = (qp_str){dash + 1, text.n - left.n - 1};
    if ((left.n > 0 && !number_read(left, &from)) || (right.n > 0 && !number_read(right, &to)) ||
        (left.n == 0 && right.n == 0)) {
        return false;
    }
    if (left.n == 0) {
        from = to < (int64_t)size ? (int64_t)size - to : 0;
        to = (int64_t)size - 1;
    }
    *out_from = (size_t)from;
    *out_to = to < (int64_t)size ? (size_t)to : size - 1;
    return left.n == 0 || right.n == 0 || from <= to;
}

/* What was asked for of the text that is in `out`. */
static void answer_range(struct api_call *c)
{
    size_t size = c->out.n;
    size_t from = 0;
    size_t to = 0;
    c->content_type_out = "text/plain; charset=utf-8";
    if (str_is_none(c->range) || !read_range(c->range, size, &from, &to)) {
        c->status = 200;
        api_answer(c);
        return;
    }
    if (from >= size) {
        (void)snprintf(c->content_range, sizeof c->content_range, "bytes */%zu", size);
        api_refuse(c, PROBLEM_RANGE, NULL, "the text has %zu bytes so far", size);
        return;
    }
    (void)snprintf(c->content_range, sizeof c->content_range, "bytes %zu-%zu/%zu", from, to, size);
    memmove(c->out.p, c->out.p + from, to - from + 1);
    c->out.n = to - from + 1;
    c->status = 206;
    api_answer(c);
}

void endpoint_traversal_logs(struct api_call *c)
{
    struct qp_err err = {0};
    int rc;
    buf_reset(&c->out);
    rc = traversals_log(api_engine(c->api), c->ns, c->parts[0], &c->out, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    answer_range(c);
}

/* ---------------------------------------------------------------------------------------------- delete */

/* One that runs is ended first. */
void endpoint_traversal_delete(struct api_call *c)
{
    struct looking looking = {0};
    struct qp_action action = {.ns = c->ns, .id = c->parts[0], .verb = QP_VERB_KILL};
    struct json_writer w;
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    int rc = traversals_state(api_engine(c->api), c->ns, c->parts[0], &looking, look_state, &err);
    if (rc == QP_OK && looking.is_open) {
        rc = qp_job_act(api_engine(c->api), &action, id, &err);
        rc = rc == QP_E_CLOSED ? QP_OK : rc;
    }
    action.verb = QP_VERB_DELETE;
    if (rc == QP_OK) {
        rc = qp_job_act(api_engine(c->api), &action, id, &err);
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    put_text(&w, "id", str_from(id));
    put_text(&w, "action", str_from(qp_verb_word(QP_VERB_DELETE)));
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* ------------------------------------------------------------------------------------------- dependents */

static int show_dependent(void *context, qp_str on, qp_str name)
{
    struct json_writer *w = context;
    json_begin_object(w);
    put_text(w, "package", name);
    put_text(w, "on", on);
    json_end_object(w);
    return QP_OK;
}

/* The package of the path is "type:name". */
void endpoint_package_dependents(struct api_call *c)
{
    struct traversal_rdepends of = {.ns = c->ns, .fields = DEB_FIELDS_NEEDED};
    qp_str fields = api_parameter(c, "fields");
    qp_str recursive = api_parameter(c, "recursive");
    struct json_writer w;
    struct qp_err err = {0};
    struct carto_id id;
    int rc;
    if (!id_read(c->parts[0], &id) || !str_equal(id.type, QP_STR("deb"))) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "id", "a package must be of the form deb:name");
        return;
    }
    if (!str_is_none(fields) && !str_equal(fields, QP_STR("depends"))) {
        of.fields = DEB_FIELDS_ALL;
    }
    of.name = id.name;
    of.arch = api_parameter(c, "arch");
    of.is_recursive = str_equal(recursive, QP_STR("true"));
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("items"));
    json_begin_array(&w);
    rc = traversals_rdepends(api_engine(c->api), &of, &w, show_dependent, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_array(&w);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* ---------------------------------------------------------------------------------------------- imports */

static bool hex_digit(char c, unsigned *out)
{
    if (c >= '0' && c <= '9') {
        *out = (unsigned)(c - '0');
        return true;
    }
    *out = (unsigned)(c - 'a') + 10;
    return c >= 'a' && c <= 'f';
}

static bool hex_read(struct arena *a, qp_str text, qp_str *out)
{
    char *bytes = arena_bytes(a, text.n / 2 + 1);
    if (bytes == NULL || text.n % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < text.n / 2; i++) {
        unsigned high;
        unsigned low;
        if (!hex_digit(text.p[2 * i], &high) || !hex_digit(text.p[2 * i + 1], &low)) {
            return false;
        }
        bytes[i] = (char)(unsigned char)(high << 4 | low);
    }
    *out = (qp_str){bytes, text.n / 2};
    return true;
}

/* ["value" or "sources", name, hex] */
static bool read_fact(struct api_call *c, qp_str text, struct import_fact *out)
{
    struct raw_walk w = {.rest = text};
    qp_str parts[3] = {QP_NONE, QP_NONE, QP_NONE};
    size_t count = 0;
    if (raw_first(text) != '[') {
        return false;
    }
    while (raw_each(&w)) {
        if (count == 3 || !raw_string(c, w.value, &parts[count++])) {
            return false;
        }
    }
    out->kind = str_equal(parts[0], QP_STR("sources")) ? FACT_SOURCES : FACT_VALUE;
    out->name = parts[1];
    return count == 3 && (out->kind == FACT_SOURCES || str_equal(parts[0], QP_STR("value"))) &&
           hex_read(&c->arena, parts[2], &out->value);
}

static bool read_facts(struct api_call *c, qp_str text, struct traversal_page *page)
{
    struct raw_walk w = {.rest = text};
    struct import_fact *facts =
        arena_alloc(&c->arena, LIMIT_CARTO_PAGE_FACTS * sizeof(struct import_fact));
    if (facts == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return false;
    }
    while (!str_is_none(text) && raw_each(&w)) {
        if (page->fact_count == LIMIT_CARTO_PAGE_FACTS) {
            api_refuse(c, PROBLEM_BAD_FIELD, "/facts", "at most 5000 facts in one page");
            return false;
        }
        if (!read_fact(c, w.value, &facts[page->fact_count++])) {
            api_refuse(c, PROBLEM_BAD_FIELD, "/facts",
                       "a fact must be [\"value\" or \"sources\", name, bytes in hex]");
            return false;
        }
    }
    page->facts = facts;
    return true;
}

void endpoint_traversal_import(struct api_call *c)
{
    struct body_TraversalImport body;
    struct json_writer w;
    struct qp_err err = {0};
    struct traversal_page page = {.ns = c->ns};
    int rc;
    if (!BODY_READ(c, TraversalImport, c->body, "", &body) || !read_facts(c, body.facts, &page)) {
        return;
    }
    page.type = body.type;
    page.universe = body.universe;
    page.complete = body.complete;
    rc = traversals_import(api_engine(c->api), &page, &err);
    if (rc == QP_OK && page.complete > 0) {
        rc = traversals_tidy(api_engine(c->api), c->ns, &err);
    }
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    put_text(&w, "universe", page.universe);
    json_key(&w, QP_STR("current"));
    json_put_bool(&w, page.out_current);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}
