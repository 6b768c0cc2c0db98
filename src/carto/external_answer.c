/* external_answer.c - what workers of external types answer (see external_answer.h) */
#include "carto/external_answer.h"

#include <stdarg.h>
#include <stdio.h>

#include "carto/rows.h"

struct answer {
    struct arena *arena;
    const struct json *json;
    struct carto_outcome *outcome;
};

/* The answer is refused: what it should be, where. QP_OK, since that is something about the item. */
static int refuse(const struct answer *a, const char *format, ...) QP_PRINTF(2, 3);

static int refuse(const struct answer *a, const char *format, ...)
{
    char text[LIMIT_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments); /* cut where it is too long */
    va_end(arguments);
    *a->outcome = (struct carto_outcome){.result = CARTO_FAILED, .failure = CARTO_METADATA_ERROR};
    return carto_print(a->arena, &a->outcome->text, "the answer of the worker cannot be read: %s",
                       text);
}

/* A text that is there; none: it is none. */
static qp_str text_of(const struct json *object, const char *member)
{
    qp_str text = QP_NONE;
    return json_as_str(json_get(object, str_from(member)), &text) ? text : QP_NONE;
}

static bool id_is_good(struct carto_id id, bool is_pattern)
{
    return external_check_name(id.type, NULL) == QP_OK &&
           external_word_is_good(id.name, is_pattern);
}

static const char *unknown_member(const struct json *object, const char *const *members,
                                  size_t count, qp_str *out_key)
{
    struct json_walk w = {0};
    while (json_each(object, &w)) {
        size_t i = 0;
        while (i < count && !str_equal(w.key, str_from(members[i]))) {
            i++;
        }
        if (i == count) {
            *out_key = w.key;
            return "unknown";
        }
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------------- failures */

static bool failure_of(qp_str word, enum carto_failure *out)
{
    static const enum carto_failure allowed[] = {
        CARTO_METADATA_ERROR, CARTO_METADATA_MISSING, CARTO_OVERCONSTRAINED_VERSION,
        CARTO_UNDERCONSTRAINED_VERSION, CARTO_UNSUPPORTED_SPEC};
    for (size_t i = 0; i < ARRAY_COUNT(allowed); i++) {
        if (str_equal(word, str_from(carto_failure_text(allowed[i])))) {
            *out = allowed[i];
            return true;
        }
    }
    return false;
}

static int read_failure(const struct answer *a)
{
    enum carto_failure failure = CARTO_NO_FAILURE;
    qp_str message = text_of(a->json, "message");
    if (!failure_of(text_of(a->json, "failure"), &failure)) {
        return refuse(a,
                      "/failure must be METADATA_ERROR, METADATA_MISSING, OVERCONSTRAINED_VERSION, "
                      "UNDERCONSTRAINED_VERSION or UNSUPPORTED_SPEC, got '%.*s'",
                      STR_ARG(text_of(a->json, "failure")));
    }
    if (message.n == 0) {
        return refuse(a, "/message must be a sentence that says why it failed");
    }
    if (message.n > LIMIT_ERROR_TEXT_SIZE) {
        message.n = utf8_valid_prefix((qp_str){message.p, LIMIT_ERROR_TEXT_SIZE});
    }
    *a->outcome = (struct carto_outcome){.result = CARTO_FAILED, .failure = failure};
    return arena_copy(a->arena, message, &a->outcome->text) ? QP_OK : QP_E_NOMEM;
}

/* --------------------------------------------------------------------------------------- selections */

static int read_selection(const struct answer *a, struct carto_item *item)
{
    static const char *const members[] = {"status", "selected", "virtual"};
    struct carto_package package;
    bool is_virtual = false;
    qp_str text = text_of(a->json, "selected");
    qp_str key = QP_NONE;
    if (unknown_member(a->json, members, ARRAY_COUNT(members), &key) != NULL) {
        return refuse(a,
                      "it has no member '%.*s'; selected, virtual, failure and message are known",
                      STR_ARG(key));
    }
    if (json_get(a->json, QP_STR("virtual")) != NULL &&
        !json_as_bool(json_get(a->json, QP_STR("virtual")), &is_virtual)) {
        return refuse(a, "/virtual must be true or false");
    }
    if (!package_read(text, &package) || !id_is_good(package.id, false)) {
        return refuse(a, "/selected must be of the form type:name@version, got '%.*s'",
                      STR_ARG(text));
    }
    if (is_virtual ? package.version.n > 0 : !external_word_is_good(package.version, false)) {
        return refuse(
            a, "/selected must have a version, or virtual must be true and it has none, got '%.*s'",
            STR_ARG(text));
    }
    if (!arena_copy(a->arena, text, &text) || !package_read(text, &item->selected)) {
        return QP_E_NOMEM;
    }
    item->is_selected = true;
    item->is_virtual = is_virtual;
    a->outcome->result = CARTO_DONE;
    return QP_OK;
}

static int select_read(const struct answer *a, struct carto_item *item)
{
    if (!json_is(a->json, JSON_KIND_OBJECT)) {
        return refuse(a, "it must be an object with the member selected or failure");
    }
    return json_get(a->json, QP_STR("failure")) != NULL ? read_failure(a) : read_selection(a, item);
}

static int sync_read(const struct answer *a, struct carto_item *item, bool *out_known)
{
    qp_str status = text_of(a->json, "status");
    *out_known = true;
    if (json_get(a->json, QP_STR("failure")) != NULL) {
        return read_failure(a);
    }
    if (str_equal(status, QP_STR("UNKNOWN"))) {
        *out_known = false;
        *a->outcome = (struct carto_outcome){.result = CARTO_DONE};
        return QP_OK;
    }
    return str_equal(status, QP_STR("DONE"))
               ? read_selection(a, item)
               : refuse(a, "/status must be UNKNOWN or DONE, got '%.*s'", STR_ARG(status));
}

/* ---------------------------------------------------------------------------------------- relations */

struct relating {
    const struct answer *answer;
    const struct json *json;
    size_t index;
    struct carto_relation *out;
};

static int refuse_at(const struct relating *r, const char *member, const char *sentence,
                     qp_str value)
{
    return refuse(r->answer, "/relations/%zu%s %s, got '%.*s'", r->index, member, sentence,
                  STR_ARG(value));
}

static int copy(const struct relating *r, qp_str text, qp_str *out)
{
    return str_is_none(text) || arena_copy(r->answer->arena, text, out) ? QP_OK : QP_E_NOMEM;
}

static bool scope_of(qp_str word, enum carto_scope *out)
{
    for (enum carto_scope s = CARTO_RUNTIME; s <= CARTO_EXTRA; s++) {
        if (str_equal(word, str_from(carto_scope_text(s)))) {
            *out = s;
            return true;
        }
    }
    return false;
}

static bool pattern_is_good(qp_str text)
{
    struct carto_id id;
    return str_equal(text, QP_STR("*")) || str_equal(text, QP_STR("*:*")) ||
           (id_read(text, &id) && id_is_good(id, true));
}

static int read_exclusions(const struct relating *r)
{
    const struct json *given = json_get(r->json, QP_STR("exclusions"));
    size_t count = json_count(given);
    qp_str *patterns;
    if (given == NULL) {
        return QP_OK;
    }
    if (!json_is(given, JSON_KIND_ARRAY) || count > LIMIT_CARTO_EXCLUSIONS) {
        return refuse_at(r, "/exclusions",
                         "must be a list of at most 1000 patterns (LIMIT_CARTO_EXCLUSIONS)",
                         QP_NONE);
    }
    patterns = arena_alloc(r->answer->arena, (count + 1) * sizeof *patterns);
    if (patterns == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        qp_str text = QP_NONE;
        if (!json_as_str(json_at(given, i), &text) || !pattern_is_good(text)) {
            return refuse_at(r, "/exclusions", "must be patterns of the form type:pattern", text);
        }
        QP_TRY(copy(r, text, &patterns[i]));
    }
    return exclusions_make(r->answer->arena, patterns, count, &r->out->exclusions);
}

static int read_target(const struct relating *r)
{
    qp_str text = text_of(r->json, "target");
    if (!id_read(text, &r->out->target) || !id_is_good(r->out->target, false)) {
        return refuse_at(r, "/target", "must be of the form type:name", text);
    }
    QP_TRY(copy(r, text, &text));
    return id_read(text, &r->out->target) ? QP_OK : QP_E_NOMEM;
}

/* A text that may be left out. */
static int read_text(const struct relating *r, const char *member, size_t most, qp_str *out)
{
    qp_str text = text_of(r->json, member);
    if (json_get(r->json, str_from(member)) != NULL && (str_is_none(text) || text.n > most)) {
        return refuse(r->answer, "/relations/%zu/%s must be a text of at most %zu bytes", r->index,
                      member, most);
    }
    return copy(r, text, out);
}

static int read_words(const struct relating *r)
{
    const struct json *scope = json_get(r->json, QP_STR("scope"));
    const struct json *optional = json_get(r->json, QP_STR("optional"));
    if (scope != NULL && !scope_of(text_of(r->json, "scope"), &r->out->scope)) {
        return refuse_at(r, "/scope", "must be runtime, build_time or extra",
                         text_of(r->json, "scope"));
    }
    if (optional != NULL && !json_as_bool(optional, &r->out->is_optional)) {
        return refuse_at(r, "/optional", "must be true or false", QP_NONE);
    }
    QP_TRY(read_text(r, "advice", LIMIT_CARTO_ADVICE_SIZE, &r->out->advice));
    if (r->answer->outcome->result == CARTO_FAILED) {
        return QP_OK;
    }
    return read_text(r, "kind", LIMIT_CARTO_NAME_SIZE, &r->out->kind);
}

static int read_relation(const struct relating *r)
{
    static const char *const members[] = {"target",   "advice", "scope",
                                          "optional", "kind",   "exclusions"};
    const struct carto_outcome *outcome = r->answer->outcome;
    qp_str key = QP_NONE;
    if (!json_is(r->json, JSON_KIND_OBJECT)) {
        return refuse_at(r, "", "must be an object with the member target", QP_NONE);
    }
    if (unknown_member(r->json, members, ARRAY_COUNT(members), &key) != NULL) {
        return refuse_at(r, "", "has target, advice, scope, optional, kind and exclusions", key);
    }
    *r->out = (struct carto_relation){
        .ordinal = r->index, .kind = QP_STR("depends"), .exclusions = QP_STR("")};
    QP_TRY(read_target(r));
    if (outcome->result != CARTO_FAILED) {
        QP_TRY(read_words(r));
    }
    return outcome->result == CARTO_FAILED ? QP_OK : read_exclusions(r);
}

static int read_relations(const struct answer *a, const struct json *list,
                          struct carto_relations *out)
{
    size_t count = json_count(list);
    if (count > LIMIT_CARTO_RELATIONS) {
        return refuse(
            a, "/relations has %zu relationships, at most 10000 are taken (LIMIT_CARTO_RELATIONS)",
            count);
    }
    out->rows = arena_alloc(a->arena, (count + 1) * sizeof *out->rows);
    if (out->rows == NULL) {
        return QP_E_NOMEM;
    }
    a->outcome->result = CARTO_DONE;
    for (size_t i = 0; i < count && a->outcome->result != CARTO_FAILED; i++) {
        QP_TRY(read_relation(&(struct relating){a, json_at(list, i), i, &out->rows[i]}));
        out->count++;
    }
    return QP_OK;
}

static int resolve_read(const struct answer *a, struct carto_relations *out)
{
    const struct json *list = json_get(a->json, QP_STR("relations"));
    *out = (struct carto_relations){0};
    if (json_get(a->json, QP_STR("failure")) != NULL) {
        return read_failure(a);
    }
    if (!json_is(list, JSON_KIND_ARRAY) || json_count(a->json) != 1) {
        return refuse(a,
                      "it must be an object with the list relations, or with failure and message");
    }
    return read_relations(a, list, out);
}

/* ---------------------------------------------------------------------------------------- entrances */

struct reading {
    struct carto_item *item;
    bool *known;
    struct carto_relations *relations;
};

static int read_answer(const struct answer *a, const struct reading *r)
{
    if (r->relations != NULL) {
        return resolve_read(a, r->relations);
    }
    return r->known != NULL ? sync_read(a, r->item, r->known) : select_read(a, r->item);
}

static int with_json(struct arena *arena, qp_str text, const struct reading *r,
                     struct carto_outcome *outcome)
{
    struct json *json = NULL;
    struct answer a = {arena, NULL, outcome};
    int rc = json_parse(arena->env, text, NULL, &json);
    *outcome = (struct carto_outcome){.result = CARTO_DONE};
    if (rc == QP_E_NOMEM) {
        return rc;
    }
    a.json = json;
    rc = rc == QP_OK ? read_answer(&a, r) : refuse(&a, "it is no JSON");
    json_free(json);
    return rc;
}

int external_synced(struct arena *a, qp_str answer, struct carto_item *item, bool *out_known,
                    struct carto_outcome *outcome)
{
    *out_known = true;
    return with_json(a, answer, &(struct reading){.item = item, .known = out_known}, outcome);
}

int external_selected(struct arena *a, qp_str answer, struct carto_item *item,
                      struct carto_outcome *outcome)
{
    return with_json(a, answer, &(struct reading){.item = item}, outcome);
}

int external_relations(struct arena *a, qp_str answer, struct carto_relations *out,
                       struct carto_outcome *outcome)
{
    return with_json(a, answer, &(struct reading){.relations = out}, outcome);
}
