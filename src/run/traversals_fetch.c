/* traversals_fetch.c - tasks of carto.fetch.npm: a packument becomes facts, and its task says which (see traversals_fetch.h)
 *
 *   look     in one snapshot: the package that the item asks for, the date, and what is kept of it (the fact c:NAME)
 *   ask      the registry, outside of the store
 *   keep     relations and document in pages of the universe CARTO_FETCHED, c:NAME with the last one
 *   answer   {"fact": HASH}, or why there is none
 *
 * If we crash on the way, the task is delivered again. Facts are named by what they are, so pages that come twice change
 * nothing; c:NAME stands behind all that it names.
 */
#include "run/traversals_fetch.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/time.h"
#include "carto/fetch.h"
#include "carto/npm.h"
#include "carto/packument.h"
#include "run/handle.h"
#include "run/traversals.h"
#include "run/traversals_view.h"
#include "run/workers.h"

#define PAGE_SIZE (4 * 1024 * 1024) /* of facts in one commit, about */

static const char type_name[] = "npm";

/* What is kept of a package. */
struct kept {
    char source[REGISTRY_TAG_SIZE];
    char fact[NPM_HASH_TEXT_SIZE]; /* empty: nothing */
    char etag[REGISTRY_TAG_SIZE];
    char last_modified[REGISTRY_TAG_SIZE];
    qp_ms at; /* when the registry was asked last */
    bool has_times;
};

struct fetching {
    qp *q;
    const struct registry *registry;
    struct arena arena;
    int64_t ns;
    qp_str addr; /* of the item */
    qp_str package;
    qp_ms date; /* of the traversal */
    bool needs_times;
    struct kept kept;
    char source[REGISTRY_TAG_SIZE];
    /* a page of facts */
    struct import_fact *facts;
    size_t fact_count;
    size_t size;
    struct registry_reply reply;
    struct packument packument;
    struct carto_pin pin; /* the answer */
};

/* ---------------------------------------------------------------------------------------------- look */

static bool copy_text(char *out, size_t size, qp_str text)
{
    if (text.n >= size) {
        return false;
    }
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
    return true;
}

/* What is not as it was written is nothing kept. */
static void read_kept(const struct qp_env *env, struct arena *a, qp_str text, struct kept *out)
{
    struct raw_walk w = {.rest = text};
    struct kept kept = {0};
    bool is_good = raw_first(text) == '{';
    while (is_good && raw_each(&w)) {
        qp_str value = QP_NONE;
        if (str_equal(w.key, QP_STR("at"))) {
            is_good = number_read(w.value, &kept.at);
        } else if (str_equal(w.key, QP_STR("times"))) {
            kept.has_times = raw_first(w.value) == 't';
        } else if (!raw_text(env, a, w.value, &value)) {
            is_good = false;
        } else if (str_equal(w.key, QP_STR("source"))) {
            is_good = copy_text(kept.source, sizeof kept.source, value);
        } else if (str_equal(w.key, QP_STR("fact"))) {
            is_good = copy_text(kept.fact, sizeof kept.fact, value);
        } else if (str_equal(w.key, QP_STR("etag"))) {
            is_good = copy_text(kept.etag, sizeof kept.etag, value);
        } else if (str_equal(w.key, QP_STR("modified"))) {
            is_good = copy_text(kept.last_modified, sizeof kept.last_modified, value);
        }
    }
    *out = is_good ? kept : (struct kept){0};
}

static int look_kept(struct fetching *f, const struct carto_facts *facts)
{
    qp_str name = QP_NONE;
    qp_str value = QP_NONE;
    int rc;
    QP_TRY(npm_fact_name(&f->arena, 'c', f->package, &name));
    rc = facts->get(facts->context, name, &value);
    if (rc == QP_OK) {
        read_kept(&f->q->env, &f->arena, value, &f->kept);
    }
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int look_in(struct viewing *v, struct qp_err *err)
{
    struct fetching *f = v->context;
    struct carto_plan plan;
    struct carto_item item;
    struct carto_id wanted;
    const struct carto_use *use;
    const struct npm_options *options;
    qp_str input = QP_NONE;
    QP_TRY(traversal_plan(v, &plan, err));
    QP_TRY(traversal_input(v, f->addr, &input, err));
    QP_TRY(item_read(&v->q->env, &v->arena, path_of(f->addr), input, &item));
    QP_TRY(fetch_wants(&plan.request, &v->arena, &item, &wanted));
    use = carto_use_of(&plan.request, str_from(type_name));
    if (wanted.name.n == 0 || use == NULL || !use->is_fetched) {
        return err_set(err, QP_E_INVALID, "the item asks for nothing that is fetched");
    }
    options = use->options;
    f->needs_times = options->has_before;
    QP_TRY(rfc3339_parse(use->facts->universe, &f->date, err));
    QP_TRY(arena_copy(&f->arena, wanted.name, &f->package) ? QP_OK : QP_E_NOMEM);
    return look_kept(f, use->facts);
}

static int look(struct fetching *f, const qp_task *task, struct qp_err *err)
{
    struct viewing v = {
        .q = f->q, .ns = f->ns, .number = task->task->ref.job, .context = f, .body = look_in};
    f->addr = task->task->addr;
    return traversal_view(&v, err);
}

/* ---------------------------------------------------------------------------------------------- keep */

static int send_page(struct fetching *f, struct qp_err *err)
{
    struct traversal_page page = {.ns = QP_NONE,
                                  .type = str_from(type_name),
                                  .universe = CARTO_FETCHED,
                                  .facts = f->facts,
                                  .fact_count = f->fact_count,
                                  .grows = true};
    int rc = f->fact_count == 0 ? QP_OK : traversals_import_in(f->q, f->ns, &page, err);
    f->fact_count = 0;
    f->size = 0;
    return rc;
}

static int add_fact(struct fetching *f, char mark, qp_str name, qp_str value)
{
    struct import_fact *fact = &f->facts[f->fact_count];
    QP_TRY(npm_fact_name(&f->arena, mark, name, &fact->name));
    QP_TRY(arena_copy(&f->arena, value, &fact->value) ? QP_OK : QP_E_NOMEM);
    fact->kind = FACT_VALUE;
    f->fact_count++;
    f->size += fact->name.n + fact->value.n;
    return f->fact_count == LIMIT_CARTO_PAGE_FACTS || f->size > PAGE_SIZE ? send_page(f, NULL)
                                                                          : QP_OK;
}

static int take_fact(void *context, char mark, const char hash[NPM_HASH_TEXT_SIZE], qp_str value)
{
    return add_fact(context, mark, str_from(hash), value);
}

static int keep_what(struct fetching *f, struct qp_err *err)
{
    const struct kept *k = &f->kept;
    struct buf text;
    struct json_writer w;
    int rc;
    buf_init(&text, &f->q->env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    json_key(&w, QP_STR("source"));
    json_put_str(&w, str_from(k->source));
    json_key(&w, QP_STR("fact"));
    json_put_str(&w, str_from(k->fact));
    json_key(&w, QP_STR("etag"));
    json_put_str(&w, str_from(k->etag));
    json_key(&w, QP_STR("modified"));
    json_put_str(&w, str_from(k->last_modified));
    json_key(&w, QP_STR("at"));
    json_put_i64(&w, k->at);
    json_key(&w, QP_STR("times"));
    json_put_bool(&w, k->has_times);
    json_end_object(&w);
    rc = json_writer_done(&w);
    if (rc == QP_OK) {
        rc = add_fact(f, 'c', f->package, buf_slice(&text));
    }
    buf_done(&text);
    return rc == QP_OK ? send_page(f, err) : rc;
}

/* ----------------------------------------------------------------------------------------------- ask */

static int fail(struct fetching *f, enum carto_failure failure, const char *sentence,
                const char *detail)
{
    f->pin = (struct carto_pin){.is_known = true, .failure = failure};
    return carto_print(&f->arena, &f->pin.message, "'npm:%.*s': %s%s", STR_ARG(f->package),
                       sentence, detail);
}

/* A status that asking again does not change; *out_again: it may. */
static int judge_status(struct fetching *f, bool *out_again)
{
    const struct registry_reply *r = &f->reply;
    char number[16];
    (void)snprintf(number, sizeof number, "%d", r->status);
    *out_again = false;
    if (r->is_refused) {
        return fail(f, CARTO_METADATA_ERROR, r->why, "");
    }
    if (r->status == 404 || r->status == 410) {
        return fail(f, CARTO_METADATA_MISSING, "the registry has no such package", "");
    }
    if (r->status == 401 || r->status == 403) {
        return fail(f, CARTO_METADATA_ERROR,
                    "the registry refuses us: look at the token in npmrc, and at npm login; it "
                    "answered ",
                    number);
    }
    if (r->status == 0 || r->status == 408 || r->status == 429 || r->status >= 500) {
        *out_again = true;
        return QP_OK;
    }
    return fail(f, CARTO_METADATA_ERROR, "the registry answered with the unexpected status ",
                number);
}

/* An answer of 200. */
static int read_reply(struct fetching *f)
{
    struct registry_reply *r = &f->reply;
    struct qp_err err = {0};
    int rc;
    if (r->is_html) {
        return fail(f, CARTO_METADATA_ERROR,
                    "the registry answered with a page for people (HTML) in place of a packument: "
                    "look at npm config get registry",
                    "");
    }
    rc = packument_read(&f->arena, buf_slice(&r->body), f, take_fact, &f->packument, &err);
    if (rc == QP_E_MALFORMED || rc == QP_E_SHAPE || rc == QP_E_TOO_LARGE) {
        f->fact_count = 0;
        return fail(f, CARTO_METADATA_ERROR, "the packument cannot be read: ", err.text);
    }
    QP_TRY(rc);
    if (!str_is_none(f->packument.name) && !str_equal(f->packument.name, f->package)) {
        f->fact_count = 0;
        return fail(f, CARTO_METADATA_ERROR, "the registry answered with another package", "");
    }
    f->pin = (struct carto_pin){.is_known = true, .fact = str_from(f->packument.document)};
    f->kept = (struct kept){.has_times = f->packument.has_times};
    (void)copy_text(f->kept.fact, sizeof f->kept.fact, f->pin.fact); /* as large as it is */
    (void)copy_text(f->kept.etag, sizeof f->kept.etag, str_from(r->etag));
    (void)copy_text(f->kept.last_modified, sizeof f->kept.last_modified,
                    str_from(r->last_modified));
    return QP_OK;
}

static int ask(struct fetching *f, bool whole, bool *out_again, struct qp_err *err)
{
    struct registry_question question = {.package = f->package, .whole = whole};
    bool is_kept = f->kept.fact[0] != '\0' && (!whole || f->kept.has_times);
    *out_again = false;
    if (is_kept) {
        memcpy(question.etag, f->kept.etag, sizeof question.etag);
        memcpy(question.last_modified, f->kept.last_modified, sizeof question.last_modified);
    }
    buf_reset(&f->reply.body);
    QP_TRY(f->registry->get(f->registry->context, &question, &f->reply));
    if (f->reply.status == 304 && is_kept) {
        f->pin = (struct carto_pin){.is_known = true, .fact = str_from(f->kept.fact)};
    } else if (f->reply.status == 200) {
        QP_TRY(read_reply(f));
    } else {
        return judge_status(f, out_again);
    }
    if (str_is_none(f->pin.fact)) {
        return QP_OK;
    }
    f->kept.at = f->q->env.wall_ms(f->q->env.context);
    (void)copy_text(f->kept.source, sizeof f->kept.source, str_from(f->source));
    return keep_what(f, err);
}

/* The short form says no times; a package that has changed since the traversal began is asked for as a whole. */
static bool is_too_new(const struct fetching *f)
{
    return f->reply.status == 200 && !str_is_none(f->pin.fact) && !f->packument.has_times &&
           f->packument.modified != NPM_TIME_NONE && f->packument.modified > f->date;
}

static bool is_fresh(const struct fetching *f)
{
    qp_ms now = f->q->env.wall_ms(f->q->env.context);
    return f->kept.fact[0] != '\0' && (!f->needs_times || f->kept.has_times) && f->kept.at <= now &&
           now - f->kept.at < LIMIT_NPM_FRESH_MS;
}

static int fetch(struct fetching *f, bool *out_again, struct qp_err *err)
{
    *out_again = false;
    QP_TRY(f->registry->source(f->registry->context, f->package, f->source, err));
    if (strcmp(f->kept.source, f->source) != 0) {
        f->kept = (struct kept){0};
    }
    if (is_fresh(f)) {
        f->pin = (struct carto_pin){.is_known = true, .fact = str_from(f->kept.fact)};
        return QP_OK;
    }
    QP_TRY(ask(f, f->needs_times, out_again, err));
    return !*out_again && !f->needs_times && is_too_new(f) ? ask(f, true, out_again, err) : QP_OK;
}

/* --------------------------------------------------------------------------------------------- tasks */

static int answer_again(const struct fetching *f, qp_task *task)
{
    char text[QP_ERR_TEXT_SIZE + 300];
    if (f->reply.status == 0) {
        (void)snprintf(text, sizeof text, "'npm:%.*s': the registry was not reached: %s",
                       STR_ARG(f->package), f->reply.why);
    } else {
        (void)snprintf(text, sizeof text, "'npm:%.*s': the registry answered %d%s",
                       STR_ARG(f->package), f->reply.status,
                       f->reply.status == 429 ? ", too many requests" : "");
    }
    return qp_task_fail(
        task, &(struct qp_failure){.message = text,
                                   .code = f->reply.status >= 400 ? f->reply.status : 503});
}

static int run(struct fetching *f, qp_task *task)
{
    struct qp_err err = {0};
    qp_str answer = QP_NONE;
    bool again = false;
    int rc = look(f, task, &err);
    if (rc == QP_OK) {
        rc = fetch(f, &again, &err);
    }
    if (rc == QP_OK && again) {
        return answer_again(f, task);
    }
    if (rc == QP_OK) {
        rc = pin_write(&f->arena, &f->pin, &answer);
    }
    return rc == QP_OK ? qp_task_output(task, answer)
                       : qp_task_fail(task, &(struct qp_failure){.message = err.text[0] != '\0'
                                                                                ? err.text
                                                                                : qp_code_text(rc),
                                                                 .code = 500});
}

static int work_fetch(void *context, qp_task *task)
{
    struct fetching f = {.q = task->q, .registry = context, .ns = task->task->ref.ns};
    int rc;
    arena_init(&f.arena, &task->q->env, 4 * (size_t)LIMIT_NPM_PACKUMENT_SIZE);
    buf_init(&f.reply.body, &task->q->env, LIMIT_NPM_PACKUMENT_SIZE);
    f.facts = arena_alloc(&f.arena, LIMIT_CARTO_PAGE_FACTS * sizeof *f.facts);
    rc = f.facts == NULL
             ? qp_task_fail(task, &(struct qp_failure){.message = "out of memory", .code = 500})
             : run(&f, task);
    buf_done(&f.reply.body);
    arena_done(&f.arena);
    return rc;
}

int traversals_fetch(qp *q, const char *topics, const struct registry *registry, struct qp_err *err)
{
    struct qp_worker worker = {.topic = QP_STR("carto.fetch.npm"),
                               .work = work_fetch,
                               .context = (void *)(uintptr_t)registry, /* it is only read */
                               .in_hand = LIMIT_NPM_FETCHES};
    return registry == NULL || !traversals_serves(topics, worker.topic)
               ? QP_OK
               : qp_worker_add(q, &worker, err);
}
