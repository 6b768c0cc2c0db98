/* bulk_calls.c - an action on all jobs that fit, page by page, and what it did
 *
 * A BATCH is one such action. It has an id, a UUID of version 7, so that it tells when it began. Whoever
 * asks goes from page to page with the same id; each page acts, then leaves lines in the audit:
 *
 *   action   "batch"            target  the filter        actor  who asked
 *   detail   {"batch":ID,"action":"cancel","done":2,"refused":1,"jobs":["a","b"]}
 *
 * A page with more ids than a line can hold has several lines. What a batch did is the sum of its lines: no
 * fact is kept twice, and the audit is kept anyway.
 *
 *   I1  the lines of a page are on disk before the page is answered
 *   I2  a job is in at most one line of a batch per time that it was acted on
 *
 * If we crash after a page has acted and before its lines are written, the jobs themselves tell, in their
 * journals; whoever asks again goes on with the jobs that still fit.
 */
#include <stdio.h>

#include "base/uuid.h"
#include "run/access.h"
#include "run/show.h"
#include "server/fields.h"
#include "server/handlers.h"

#define BULK_SAMPLES 3
/* Of a line, when another id and its end still fit: an id has no control characters. */
#define LINE_SIZE (LIMIT_ERROR_TEXT_SIZE - 2 * LIMIT_ID_SIZE - 128)
#define JOBS_TOLD 1000
#define CLOCK_SLACK_MS (60 * 1000) /* between the clock of who made the id and the store's */

/* ------------------------------------------------------------------------------------ requests */

static bool read_verb(struct api_call *c, qp_str word, enum qp_verb *out_verb)
{
    for (int verb = QP_VERB_CANCEL; verb <= QP_VERB_DELETE; verb++) {
        if (verb != QP_VERB_FORK && str_equal(word, str_from(qp_verb_word((enum qp_verb)verb)))) {
            *out_verb = (enum qp_verb)verb;
            return true;
        }
    }
    api_refuse(c, PROBLEM_BAD_FIELD, "/action",
               "it is cancel, kill, pause, resume, retry or delete");
    return false;
}

/* When the batch began; -1: it is no such id. */
static qp_ms batch_time(qp_str id)
{
    unsigned char uuid[UUID_SIZE];
    qp_ms at = 0;
    if (uuid_parse(id, uuid, NULL) != QP_OK || uuid[6] >> 4 != 7) {
        return -1;
    }
    for (size_t i = 0; i < 6; i++) {
        at = at << 8 | uuid[i];
    }
    return at;
}

/* The id that was given, or a new one. */
static bool settle_batch(struct api_call *c, qp_str given, char out_id[UUID_TEXT_SIZE + 1])
{
    struct uuid_source source;
    unsigned char uuid[UUID_SIZE];
    int rc;
    out_id[UUID_TEXT_SIZE] = '\0';
    if (!str_is_none(given)) {
        if (batch_time(given) < 0) {
            api_refuse(c, PROBLEM_BAD_FIELD, "/batch", "it is a UUID of version 7");
            return false;
        }
        memcpy(out_id, given.p, UUID_TEXT_SIZE);
        return true;
    }
    uuid_source_init(&source);
    rc = uuid_next(&source, api_env(c->api), uuid);
    if (rc != QP_OK) {
        api_fail(c, rc, NULL);
        return false;
    }
    uuid_format(uuid, out_id);
    return true;
}

static int sample_visit(void *context, const struct qp_job_info *job)
{
    struct json_writer *w = context;
    json_put_str(w, job->id);
    return QP_OK;
}

/* How many there are, and some of them. */
static void bulk_dry_run(struct api_call *c, const struct qp_bulk *bulk)
{
    struct qp_list list = {.ns = c->ns,
                           .where = bulk->where,
                           .limit = BULK_SAMPLES,
                           .unretried = bulk->verb == QP_VERB_RETRY};
    int64_t count = 0;
    char cursor[QP_CURSOR_SIZE];
    struct json_writer w;
    struct qp_err err = {0};
    int rc = qp_bulk_count(api_engine(c->api), bulk, &count, &err);
    api_json(c, &w);
    json_begin_object(&w);
    show_count(&w, "count", count);
    json_key(&w, QP_STR("samples"));
    json_begin_array(&w);
    rc = rc == QP_OK ? qp_job_list(api_engine(c->api), &list, &w, sample_visit, cursor, &err) : rc;
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_array(&w);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* --------------------------------------------------------------------------------------- lines */

/* The line that is being written. */
struct lines {
    struct api_call *call;
    const char *batch;
    const char *verb;
    struct buf text;
    struct json_writer w;
    bool open; /* the list of jobs is */
    int64_t done, refused;
    struct qp_err *err;
    int rc;
};

static void line_begin(struct lines *l)
{
    buf_reset(&l->text);
    json_writer_init(&l->w, &l->text);
    json_begin_object(&l->w);
    show_text(&l->w, "batch", l->batch);
    show_text(&l->w, "action", l->verb);
    json_key(&l->w, QP_STR("jobs"));
    json_begin_array(&l->w);
    l->open = true;
    l->done = l->refused = 0;
}

/* The last line of a page is waited for: those before it are then on disk, too. */
static void line_end(struct lines *l, bool last)
{
    struct api_call *c = l->call;
    struct audit line = {.ns = c->ns,
                         .actor = str_from(c->who.token),
                         .action = str_from(c->route->name),
                         .target = c->target,
                         .outcome = QP_STR("ok")};
    json_end_array(&l->w);
    show_count(&l->w, "done", l->done);
    show_count(&l->w, "refused", l->refused);
    json_end_object(&l->w);
    l->open = false;
    l->rc = l->rc == QP_OK ? json_writer_done(&l->w) : l->rc;
    line.detail = buf_slice(&l->text);
    if (l->rc == QP_OK) {
        l->rc = last ? audit_add(api_engine(c->api), &line, l->err)
                     : audit_put(api_engine(c->api), &line, l->err);
    }
}

static void line_job(void *context, qp_str id, int rc)
{
    struct lines *l = context;
    if (l->text.n > LINE_SIZE) {
        line_end(l, false);
    }
    if (!l->open) {
        line_begin(l);
    }
    if (rc == QP_OK) {
        l->done++;
        json_put_str(&l->w, id);
    } else {
        l->refused++;
    }
}

static void bulk_answer(struct api_call *c, const char *batch, const struct qp_bulk_result *result)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    show_text(&w, "batch", batch);
    show_count(&w, "done", result->done);
    show_count(&w, "refused", result->refused);
    show_text(&w, "next_cursor", result->cursor[0] != '\0' ? result->cursor : NULL);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

static void bulk_run(struct api_call *c, const struct qp_bulk *bulk, const char *batch)
{
    struct qp_bulk_result result = {0};
    struct qp_err err = {0};
    struct qp_bulk told = *bulk; /* with somebody who is told */
    struct lines l = {.call = c, .batch = batch, .verb = qp_verb_word(bulk->verb), .err = &err};
    int rc;
    buf_init(&l.text, api_env(c->api), 0);
    line_begin(&l);
    told.context = &l;
    told.acted = line_job;
    rc = qp_job_act_all(api_engine(c->api), &told, &result, &err);
    if (rc == QP_OK) {
        line_end(&l, true);
        rc = l.rc;
        c->audited = rc == QP_OK;
    }
    buf_done(&l.text);
    if (rc == QP_OK) {
        bulk_answer(c, batch, &result);
    } else {
        api_fail(c, rc, &err);
    }
}

void endpoint_batch(struct api_call *c)
{
    struct body_Bulk body;
    struct qp_bulk bulk = {.ns = c->ns};
    char batch[UUID_TEXT_SIZE + 1];
    if (!BODY_READ(c, Bulk, c->body, "", &body) || !read_verb(c, body.action, &bulk.verb) ||
        !settle_batch(c, body.batch, batch)) {
        return;
    }
    if (body.limit < 0 || body.limit > LIMIT_PAGE_ROWS) {
        api_refuse(c, PROBLEM_BAD_FIELD, "/limit", "it is 0 to %d", LIMIT_PAGE_ROWS);
        return;
    }
    /* What takes away jobs is not for everybody who may end them; to count them is. */
    if (bulk.verb == QP_VERB_DELETE && !body.dry_run && (c->who.scopes & SCOPE_ADMIN) == 0) {
        api_refuse(c, PROBLEM_FORBIDDEN, NULL, "the token lacks the scope admin");
        return;
    }
    bulk.where = body.where;
    bulk.reason = body.reason;
    bulk.cursor = body.cursor;
    bulk.limit = body.limit;
    c->target = body.where;
    if (body.dry_run) {
        bulk_dry_run(c, &bulk);
    } else {
        bulk_run(c, &bulk, batch);
    }
}

/* ---------------------------------------------------------------------------- what a batch did */

/* The sum of a batch's lines, which come newest first. */
struct batch {
    struct api_call *call;
    qp_str id;
    qp_ms began; /* no line of it is older */
    int64_t before;
    bool over; /* older lines than the batch were met */
    int64_t lines, done, refused;
    qp_ms first_at, last_at;
    qp_str actor, where, action;
    struct buf jobs; /* ids, as items of a JSON array */
    int64_t told;
};

static void add_jobs(struct batch *b, const struct json *jobs)
{
    for (size_t i = 0; i < json_count(jobs) && b->told < JOBS_TOLD; i++) {
        struct json_writer w;
        json_writer_init(&w, &b->jobs);
        buf_text(&b->jobs, b->told++ > 0 ? "," : "");
        json_write_tree(&w, json_at(jobs, i));
    }
}

static int64_t number_of(const struct json *line, const char *key)
{
    int64_t number = 0;
    return json_as_i64(json_get(line, str_from(key)), &number) ? number : 0;
}

static int add_line(struct batch *b, const struct audit_entry *e, const struct json *line)
{
    struct arena *a = &b->call->arena;
    qp_str action = QP_STR("");
    (void)!json_as_str(json_get(line, QP_STR("action")), &action); /* it was written so */
    b->last_at = b->lines++ == 0 ? e->at : b->last_at;
    b->first_at = e->at;
    b->done += number_of(line, "done");
    b->refused += number_of(line, "refused");
    add_jobs(b, json_get(line, QP_STR("jobs")));
    return b->lines > 1 ||
                   (arena_copy(a, e->audit.actor, &b->actor) &&
                    arena_copy(a, e->audit.target, &b->where) && arena_copy(a, action, &b->action))
               ? QP_OK
               : QP_E_NOMEM;
}

static int each_line(void *context, const struct audit_entry *e)
{
    struct batch *b = context;
    struct json *line = NULL;
    qp_str id;
    int rc = QP_OK;
    b->before = e->id;
    b->over = b->over || e->at + CLOCK_SLACK_MS < b->began;
    if (!b->over && str_equal(e->audit.action, QP_STR("batch")) && e->audit.detail.n > 0 &&
        e->audit.detail.p[0] == '{' &&
        json_parse(api_env(b->call->api), e->audit.detail, NULL, &line) == QP_OK &&
        json_as_str(json_get(line, QP_STR("batch")), &id) && str_equal(id, b->id)) {
        rc = add_line(b, e, line);
    }
    json_free(line);
    return rc;
}

static void batch_answer(struct batch *b)
{
    struct json_writer w;
    api_json(b->call, &w);
    json_begin_object(&w);
    show_str(&w, "id", b->id);
    show_str(&w, "action", b->action);
    show_str(&w, "where", b->where);
    show_str(&w, "actor", b->actor);
    show_time(&w, "started_at", b->first_at);
    show_time(&w, "updated_at", b->last_at);
    show_count(&w, "done", b->done);
    show_count(&w, "refused", b->refused);
    json_key(&w, QP_STR("jobs"));
    buf_byte(&b->jobs, ']');
    json_put_raw(&w, buf_slice(&b->jobs));
    json_end_object(&w);
    api_json_end(b->call, &w, 200);
}

void endpoint_batch_show(struct api_call *c)
{
    struct batch b = {.call = c, .id = c->parts[0], .began = batch_time(c->parts[0])};
    struct qp_err err = {0};
    bool more = true;
    int rc = QP_OK;
    buf_init(&b.jobs, api_env(c->api), 0);
    buf_byte(&b.jobs, '[');
    while (rc == QP_OK && more && !b.over && b.began >= 0) {
        rc = audit_list(api_engine(c->api), c->ns, b.before, LIMIT_PAGE_ROWS, &b, each_line, &more,
                        &err);
    }
    rc = rc == QP_OK ? buf_rc(&b.jobs) : rc;
    if (rc == QP_OK && b.lines == 0) {
        rc = err_set(&err, QP_E_NOT_FOUND, "there is no such batch");
    }
    if (rc == QP_OK) {
        batch_answer(&b);
    } else {
        api_fail(c, rc, &err);
    }
    buf_done(&b.jobs);
}
