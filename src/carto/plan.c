/* plan.c - bodies of requests, read and checked (see plan.h) */
#include "carto/plan.h"

#include <stdio.h>

#include "carto/format_own.h"
#include "carto/purl.h"
#include "carto/rows.h"

struct reader {
    const struct qp_env *env;
    struct arena *arena;
    const struct plan_types *types;
    const struct json *body;
    struct carto_plan *plan;
    struct qp_err *err;
};

static int refuse(struct reader *r, const char *pointer, const char *sentence)
{
    (void)err_set(r->err, QP_E_SHAPE, "%s", sentence);
    return err_point(r->err, QP_E_SHAPE, "%s", pointer);
}

static int refuse_at(struct reader *r, const char *member, size_t index, const char *sentence,
                     qp_str value)
{
    (void)err_set(r->err, QP_E_SHAPE, "%s, got '%.*s'", sentence, STR_ARG(value));
    return err_point(r->err, QP_E_SHAPE, "/%s/%zu", member, index);
}

/* What is wrong with the request itself is its shape, whatever a type calls it. */
static int as_shape(struct qp_err *err, int rc)
{
    struct qp_err kept;
    if (rc != QP_E_NOT_FOUND && rc != QP_E_INVALID) {
        return rc;
    }
    if (err == NULL) {
        return QP_E_SHAPE;
    }
    kept = *err;
    return err_set(err, QP_E_SHAPE, "%s", kept.text);
}

/* Of a type that the request names. */
static const struct carto_use *use_of(const struct reader *r, qp_str type)
{
    const struct carto_use *use = carto_use_of(&r->plan->request, type);
    if (use != NULL) {
        r->plan->uses[use - r->plan->uses].is_named = true;
        r->plan->is_external = r->plan->is_external || use->type->external != NULL;
    }
    return use;
}

static int refuse_type(struct reader *r, const char *pointer, qp_str type)
{
    qp_str known = QP_NONE;
    QP_TRY(carto_known_types(&r->plan->request, r->arena, &known));
    (void)err_set(r->err, QP_E_SHAPE, "unknown package type '%.*s'; known types: %.*s",
                  STR_ARG(type), STR_ARG(known));
    return err_point(r->err, QP_E_SHAPE, "%s", pointer);
}

/* ------------------------------------------------------------------------------------------- types */

static int read_uses(struct reader *r)
{
    struct carto_use *uses = arena_alloc(r->arena, (r->types->count + 1) * sizeof *uses);
    if (uses == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < r->types->count; i++) {
        uses[i].type = r->types->list[i];
    }
    r->plan->uses = uses;
    r->plan->request.uses = uses;
    r->plan->request.use_count = r->types->count;
    return QP_OK;
}

bool plan_uses(const struct carto_plan *plan, const char *type)
{
    struct carto_id id;
    for (size_t i = 0; i < plan->root_count; i++) {
        if (id_read(plan->roots[i], &id) && str_equal(id.type, str_from(type))) {
            return true;
        }
    }
    for (size_t i = 0; i < plan->request.override_count; i++) {
        if (str_equal(plan->request.overrides[i].package.id.type, str_from(type))) {
            return true;
        }
    }
    return false;
}

bool plan_selects_apart(const struct carto_plan *plan)
{
    bool is_fetched = false;
    for (size_t i = 0; i < plan->request.use_count; i++) {
        is_fetched = is_fetched || plan->uses[i].is_fetched;
    }
    return plan->is_split || plan->is_external || is_fetched;
}

static int read_options(struct reader *r)
{
    for (size_t i = 0; i < r->types->count; i++) {
        const struct carto_type *type = r->types->list[i];
        const struct json *given = json_get(r->body, str_from(type->name));
        if (given != NULL && !json_is(given, JSON_KIND_OBJECT)) {
            (void)err_set(r->err, QP_E_SHAPE, "the options of '%s' must be an object", type->name);
            return err_point(r->err, QP_E_SHAPE, "/%s", type->name);
        }
        QP_TRY(type->options(r->arena, given, /* what a type has no data for, it may refuse */
                             plan_uses(r->plan, type->name) ? r->plan->request.context.scope
                                                            : CARTO_RUNTIME,
                             &r->plan->uses[i].options, r->err));
    }
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------- roots */

bool plan_is_all(qp_str root)
{
    return root.n >= 2 && root.p[root.n - 1] == '*' && root.p[root.n - 2] == ':';
}

/* A package URL as the root that means the same. */
static int root_of_purl(struct reader *r, size_t index, qp_str *text)
{
    struct carto_package p = {0};
    int rc = purl_read(r->arena, *text, &p, r->err);
    if (rc != QP_OK) {
        return err_point(r->err, as_shape(r->err, rc), "/roots/%zu", index);
    }
    return carto_print(r->arena, text, "%.*s:%.*s%s%.*s", STR_ARG(p.id.type), STR_ARG(p.id.name),
                       p.version.n == 0                      ? ""
                       : str_equal(p.id.type, QP_STR("deb")) ? "="
                                                             : "@",
                       STR_ARG(p.version));
}

static int read_root(struct reader *r, const struct json *value, size_t index, qp_str *out_root)
{
    struct carto_id id;
    char pointer[48];
    qp_str text = QP_NONE;
    bool is_text = json_as_str(value, &text);
    if (is_text && purl_is(text)) {
        QP_TRY(root_of_purl(r, index, &text));
    }
    if (!is_text || !id_read(text, &id)) {
        return refuse_at(r, "roots", index,
                         "a root must be a text of the form type:name, or a package URL", text);
    }
    if (use_of(r, id.type) == NULL) {
        (void)snprintf(pointer, sizeof pointer, "/roots/%zu", index);
        return refuse_type(r, pointer, id.type);
    }
    return arena_copy(r->arena, text, out_root) ? QP_OK : QP_E_NOMEM;
}

static int read_roots(struct reader *r)
{
    const struct json *given = json_get(r->body, QP_STR("roots"));
    size_t count;
    qp_str *roots;
    if (given == NULL) {
        given = json_get(r->body, QP_STR("traverse-from"));
    }
    count = json_is(given, JSON_KIND_ARRAY) ? json_count(given) : 0;
    if (count == 0) {
        return refuse(r, "/roots",
                      "roots must name at least one package, for example [\"deb:curl\"]");
    }
    if (count > LIMIT_CARTO_ROOTS) {
        return refuse(r, "/roots",
                      "more than 100000 roots (LIMIT_CARTO_ROOTS); use type:* for all packages");
    }
    roots = arena_alloc(r->arena, count * sizeof *roots);
    if (roots == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        QP_TRY(read_root(r, json_at(given, i), i, &roots[i]));
    }
    r->plan->roots = roots;
    r->plan->root_count = count;
    return QP_OK;
}

/* ------------------------------------------------------------------------- numbers, scope, patterns */

static int read_number(struct reader *r, const char *name, int64_t low, int64_t high,
                       int64_t *out_number)
{
    const struct json *given = json_get(r->body, str_from(name));
    int64_t number = 0;
    if (given == NULL || json_is(given, JSON_KIND_NULL)) {
        return QP_OK;
    }
    if (json_as_i64(given, &number) && number >= low && number <= high) {
        *out_number = number;
        return QP_OK;
    }
    (void)err_set(r->err, QP_E_SHAPE, "%s must be a number between %lld and %lld", name,
                  (long long)low, (long long)high);
    return err_point(r->err, QP_E_SHAPE, "/%s", name);
}

static int read_scope(struct reader *r)
{
    const struct json *given = json_get(r->body, QP_STR("scope"));
    qp_str text = QP_STR("runtime");
    enum carto_scope *scope = &r->plan->request.context.scope;
    if (given != NULL && !json_as_str(given, &text)) {
        text = QP_NONE;
    }
    *scope = str_equal(text, QP_STR("build_time")) ? CARTO_BUILD_TIME : CARTO_RUNTIME;
    return *scope == CARTO_BUILD_TIME || str_equal(text, QP_STR("runtime"))
               ? QP_OK
               : refuse(r, "/scope", "scope must be runtime or build_time");
}

static int read_flag(struct reader *r, const char *name, bool *out_flag)
{
    const struct json *given = json_get(r->body, str_from(name));
    char pointer[32];
    (void)snprintf(pointer, sizeof pointer, "/%s", name);
    return given == NULL || json_as_bool(given, out_flag)
               ? QP_OK
               : refuse(r, pointer, "the value must be true or false");
}

/* "type:pattern", or "*" for everything. */
static int read_exclusion(struct reader *r, const struct json *value, size_t index, qp_str *out)
{
    struct carto_id id = {0};
    char pointer[48];
    qp_str text = QP_NONE;
    const struct carto_use *use = NULL;
    (void)snprintf(pointer, sizeof pointer, "/exclusions/%zu", index);
    if (!json_as_str(value, &text)) {
        return refuse_at(r, "exclusions", index, "an exclusion must be a text", text);
    }
    if (!str_equal(text, QP_STR("*")) && !str_equal(text, QP_STR("*:*"))) {
        if (!id_read(text, &id)) {
            return refuse_at(r, "exclusions", index,
                             "an exclusion must be of the form type:pattern", text);
        }
        use = use_of(r, id.type);
        if (use == NULL) {
            return refuse_type(r, pointer, id.type);
        }
        if (use->type->check_name(id.name, true, r->err) != QP_OK) {
            return err_point(r->err, as_shape(r->err, QP_E_INVALID), "%s", pointer);
        }
    }
    return arena_copy(r->arena, text, out) ? QP_OK : QP_E_NOMEM;
}

static int read_exclusions(struct reader *r)
{
    const struct json *given = json_get(r->body, QP_STR("exclusions"));
    size_t count = json_count(given);
    qp_str *patterns;
    r->plan->request.context.exclusions = QP_STR("");
    if (given == NULL) {
        return QP_OK;
    }
    if (!json_is(given, JSON_KIND_ARRAY) || count > LIMIT_CARTO_EXCLUSIONS) {
        return refuse(
            r, "/exclusions",
            "exclusions must be a list of at most 1000 patterns (LIMIT_CARTO_EXCLUSIONS)");
    }
    patterns = arena_alloc(r->arena, (count + 1) * sizeof *patterns);
    if (patterns == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        QP_TRY(read_exclusion(r, json_at(given, i), i, &patterns[i]));
    }
    return exclusions_make(r->arena, patterns, count, &r->plan->request.context.exclusions);
}

/* ---------------------------------------------------------------------------------------- overrides */

static int refuse_override(struct reader *r, qp_str id, const char *sentence)
{
    (void)err_set(r->err, QP_E_SHAPE, "versions: '%.*s': %s", STR_ARG(id), sentence);
    return err_point(r->err, QP_E_SHAPE, "/versions");
}

static int read_override(struct reader *r, const struct json_walk *w, struct carto_override *out)
{
    const struct carto_use *use;
    qp_str key = QP_NONE;
    qp_str text = QP_NONE;
    if (!arena_copy(r->arena, w->key, &key)) {
        return QP_E_NOMEM;
    }
    if (!id_read(key, &out->id)) {
        return refuse_override(r, w->key, "a package must be of the form type:name");
    }
    use = use_of(r, out->id.type);
    if (use == NULL) {
        return refuse_type(r, "/versions", out->id.type);
    }
    if (!json_as_str(w->value, &text) || text.n == 0) {
        return refuse_override(r, w->key, "its version must be a text that is not empty");
    }
    if (!arena_copy(r->arena, text, &text)) {
        return QP_E_NOMEM;
    }
    /* a version, or another package with a version or without one */
    if (!package_read(text, &out->package) || use_of(r, out->package.id.type) == NULL) {
        out->package = (struct carto_package){out->id, text};
    }
    if (use->type->check_name(out->id.name, false, r->err) != QP_OK) {
        return err_point(r->err, as_shape(r->err, QP_E_INVALID), "/versions");
    }
    return QP_OK;
}

static int read_overrides(struct reader *r)
{
    const struct json *given = json_get(r->body, QP_STR("versions"));
    struct json_walk w = {0};
    struct carto_override *rows;
    size_t count = 0;
    if (given == NULL) {
        return QP_OK;
    }
    if (!json_is(given, JSON_KIND_OBJECT) || json_count(given) > LIMIT_CARTO_OVERRIDES) {
        return refuse(
            r, "/versions",
            "versions must be an object of at most 1000 packages (LIMIT_CARTO_OVERRIDES)");
    }
    rows = arena_alloc(r->arena, (json_count(given) + 1) * sizeof *rows);
    if (rows == NULL) {
        return QP_E_NOMEM;
    }
    while (json_each(given, &w)) {
        QP_TRY(read_override(r, &w, &rows[count]));
        count++;
    }
    r->plan->request.overrides = rows;
    r->plan->request.override_count = count;
    return QP_OK;
}

static int read_format(struct reader *r)
{
    const struct json *given = json_get(r->body, QP_STR("format"));
    return given == NULL ? QP_OK : format_own_read(r->arena, given, &r->plan->own, r->err);
}

/* ----------------------------------------------------------------------------------------- reading */

bool plan_has_member(qp_str name)
{
    static const char *const members[] = {"roots",       "traverse-from", "scope", "depth",
                                          "exclusions",  "versions",      "split", "page",
                                          "workspaceId", "format",        "fresh"};
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        if (str_equal(name, str_from(members[i]))) {
            return true;
        }
    }
    return false;
}

static int read_members(struct reader *r)
{
    struct json_walk w = {0};
    if (!json_is(r->body, JSON_KIND_OBJECT)) {
        return refuse(r, "", "a traversal must be an object with the member roots");
    }
    while (json_each(r->body, &w)) {
        if (!plan_has_member(w.key) && use_of(r, w.key) == NULL) {
            (void)err_set(r->err, QP_E_SHAPE, "a traversal has no member '%.*s'", STR_ARG(w.key));
            return err_point(r->err, QP_E_SHAPE, "%s", "");
        }
    }
    QP_TRY(read_scope(r));
    QP_TRY(read_roots(r));
    QP_TRY(read_number(r, "depth", 0, LIMIT_CARTO_LEVELS, &r->plan->request.depth));
    QP_TRY(read_number(r, "page", 1, LIMIT_LEVEL_ITEMS, &r->plan->page));
    QP_TRY(read_flag(r, "split", &r->plan->is_split));
    QP_TRY(read_flag(r, "fresh", &r->plan->is_fresh));
    QP_TRY(read_exclusions(r));
    QP_TRY(read_format(r));
    QP_TRY(read_overrides(r));
    return read_options(r);
}

int plan_read(const struct qp_env *env, struct arena *a, const struct plan_types *types,
              qp_str body, struct carto_plan *out_plan, struct qp_err *err)
{
    struct carto_plan plan = {.request.depth = CARTO_NO_DEPTH, .page = LIMIT_LEVEL_ITEMS};
    struct reader r = {env, a, types, NULL, &plan, err};
    struct json *tree = NULL;
    int rc = read_uses(&r);
    if (rc == QP_OK) {
        rc = json_parse(env, body, err, &tree);
    }
    if (rc == QP_OK) {
        r.body = tree;
        rc = read_members(&r);
    }
    json_free(tree);
    QP_TRY(rc);
    *out_plan = plan;
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- checking */

static int missing_facts(const struct carto_use *use, struct qp_err *err)
{
    return err_set(err, QP_E_NOT_FOUND,
                   "no lists of '%s' are imported yet: run quipu carto import first",
                   use->type->name);
}

static int check_root(const struct carto_plan *plan, struct arena *a, size_t index,
                      struct qp_err *err)
{
    struct carto_item item;
    struct carto_id id;
    const struct carto_use *use;
    bool is_id = id_read(plan->roots[index], &id);
    QP_ASSERT(is_id);
    use = carto_use_of(&plan->request, id.type);
    QP_ASSERT(use != NULL);
    if (use->type->has_facts && use->facts == NULL) {
        return missing_facts(use, err);
    }
    if (plan_is_all(plan->roots[index]) && use->type->next_root == NULL) {
        return err_set(err, QP_E_SHAPE, "'%s' cannot list all its packages: name the roots",
                       use->type->name);
    }
    return plan_is_all(plan->roots[index])
               ? QP_OK
               : stage_root(&plan->request, a, index, plan->roots[index], &item, err);
}

static int check_override(const struct carto_plan *plan, struct arena *a,
                          const struct carto_override *o, struct qp_err *err)
{
    const struct carto_use *use = carto_use_of(&plan->request, o->package.id.type);
    QP_ASSERT(use != NULL);
    return use->type->has_facts && use->facts == NULL
               ? missing_facts(use, err)
               : use->type->check_override(&plan->request, a, o, err);
}

int plan_check(const struct carto_plan *plan, struct arena *a, struct qp_err *err)
{
    for (size_t i = 0; i < plan->root_count; i++) {
        int rc = check_root(plan, a, i, err);
        if (rc != QP_OK) {
            return err_point(err, as_shape(err, rc), "/roots/%zu", i);
        }
    }
    for (size_t i = 0; i < plan->request.override_count; i++) {
        int rc = check_override(plan, a, &plan->request.overrides[i], err);
        if (rc != QP_OK) {
            return err_point(err, as_shape(err, rc), "/versions");
        }
    }
    return QP_OK;
}
