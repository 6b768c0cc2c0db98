/* npm.c - the package type `npm`: roots, selection and relationships out of documents (see npm.h) */
#include "carto/npm.h"

#include "base/time.h"
#include "carto/npm_pick.h"
#include "carto/packument.h"

static const char type_name[] = "npm";

static const struct carto_use *use_of(const struct carto_request *r)
{
    const struct carto_use *use = carto_use_of(r, str_from(type_name));
    QP_ASSERT(use != NULL && use->options != NULL);
    return use;
}

static const struct npm_options *options_of(const struct carto_request *r)
{
    return use_of(r)->options;
}

static struct carto_id id_of(qp_str name)
{
    return (struct carto_id){str_from(type_name), name};
}

/* ---------------------------------------------------------------------------------------- options */

static int refuse_option(struct qp_err *err, const char *name, const char *sentence)
{
    (void)err_set(err, QP_E_SHAPE, "%s", sentence);
    return err_point(err, QP_E_SHAPE, "/npm/%s", name);
}

static int read_before(const struct json *value, struct npm_options *o, struct qp_err *err)
{
    qp_str text = QP_NONE;
    if (!json_as_str(value, &text) || !npm_date_read(text, &o->before)) {
        return refuse_option(err, "before",
                             "before must be a date such as 2024-01-31 or 2024-01-31T12:00:00Z");
    }
    o->has_before = true;
    return QP_OK;
}

static int manifest_text(struct arena *a, const struct json *value, qp_str *out)
{
    struct buf text;
    struct json_writer w;
    bool is_copied;
    buf_init(&text, a->env, 0);
    json_writer_init(&w, &text);
    json_write_tree(&w, value);
    is_copied = json_writer_done(&w) == QP_OK && arena_copy(a, buf_slice(&text), out);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

static int read_relations(struct arena *a, qp_str manifest, qp_str *out, struct qp_err *err)
{
    struct buf relations;
    int rc;
    buf_init(&relations, a->env, LIMIT_CARTO_FACT_SIZE);
    rc = npm_manifest_relations(a, manifest, &relations, err);
    if (rc == QP_OK) {
        rc = arena_copy(a, relations.n > 0 ? buf_slice(&relations) : QP_STR(""), out) ? QP_OK
                                                                                      : QP_E_NOMEM;
    }
    buf_done(&relations);
    return rc;
}

static int read_manifest(struct arena *a, const struct json *value, struct npm_options *o,
                         struct qp_err *err)
{
    qp_str name = QP_NONE;
    qp_str version = QP_STR("0.0.0");
    qp_str text = QP_NONE;
    const struct json *given = json_get(value, QP_STR("version"));
    if (!json_is(value, JSON_KIND_OBJECT) || !json_as_str(json_get(value, QP_STR("name")), &name) ||
        !npm_name_is_valid(name)) {
        return refuse_option(err, "manifest",
                             "manifest must be the object of a package.json with a name");
    }
    if (given != NULL &&
        (!json_as_str(given, &version) || version.n == 0 || version.n > LIMIT_NPM_VERSION_SIZE)) {
        return refuse_option(err, "manifest", "the version of manifest must be a text");
    }
    if (!arena_copy(a, name, &o->manifest.id.name) ||
        !arena_copy(a, version, &o->manifest.version)) {
        return QP_E_NOMEM;
    }
    o->manifest.id.type = str_from(type_name);
    QP_TRY(manifest_text(a, value, &text));
    return read_relations(a, text, &o->manifest_relations, err);
}

static int read_option(struct arena *a, const struct json_walk *w, struct npm_options *o,
                       struct qp_err *err)
{
    qp_str text = QP_NONE;
    if (str_equal(w->key, QP_STR("before"))) {
        return read_before(w->value, o, err);
    }
    if (str_equal(w->key, QP_STR("peers"))) {
        return json_as_bool(w->value, &o->with_peers)
                   ? QP_OK
                   : refuse_option(err, "peers", "peers must be true or false");
    }
    if (str_equal(w->key, QP_STR("manifest"))) {
        return read_manifest(a, w->value, o, err);
    }
    if (str_equal(w->key, QP_STR("universe"))) {
        return json_as_str(w->value, &text) && text.n == HASH_TEXT_SIZE - 1 &&
                       arena_copy(a, text, &o->universe)
                   ? QP_OK
                   : refuse_option(err, "universe",
                                   "universe must be the 64 digits of an import of npm");
    }
    return err_set(err, QP_E_SHAPE,
                   "npm has no option '%.*s'; it has before, manifest, peers and universe",
                   STR_ARG(w->key));
}

static int npm_read_options(struct arena *a, const struct json *given, enum carto_scope scope,
                            const void **out_options, struct qp_err *err)
{
    struct npm_options *options = ARENA_NEW(a, struct npm_options);
    struct json_walk w = {0};
    (void)scope;
    if (options == NULL) {
        return QP_E_NOMEM;
    }
    while (given != NULL && json_each(given, &w)) {
        QP_TRY(read_option(a, &w, options, err));
    }
    *out_options = options;
    return QP_OK;
}

static int npm_universe(struct arena *a, const void *options, qp_ms now, qp_str *out_name)
{
    const struct npm_options *o = options;
    char date[RFC3339_SIZE];
    if (!str_is_none(o->universe)) {
        *out_name = o->universe;
        return QP_OK;
    }
    rfc3339_format(o->has_before ? o->before : now, date);
    return arena_copy(a, str_from(date), out_name) ? QP_OK : QP_E_NOMEM;
}

static bool npm_is_fetched(qp_str universe)
{
    return universe.n == RFC3339_SIZE - 1;
}

/* Versions that are later than this are not there. */
static qp_ms cutoff_of(const struct carto_request *r)
{
    const struct carto_use *use = use_of(r);
    const struct npm_options *o = use->options;
    qp_ms at = NPM_NO_CUTOFF;
    if (o->has_before) {
        return o->before;
    }
    if (use->is_fetched) {
        int rc = rfc3339_parse(use->facts->universe, &at, NULL);
        QP_ASSERT(rc == QP_OK);
    }
    return at;
}

/* ------------------------------------------------------------------------------------------- names */

static bool is_pattern_valid(qp_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_word && (c == '\0' || strchr("-_.!~'()@/*", c) == NULL)) {
            return false;
        }
    }
    return name.n > 0 && name.n <= LIMIT_NPM_NAME_SIZE;
}

static int npm_check_name(qp_str name, bool is_pattern, struct qp_err *err)
{
    if (is_pattern ? is_pattern_valid(name) : npm_name_is_valid(name)) {
        return QP_OK;
    }
    return err_set(err, QP_E_INVALID,
                   "'%.*s' is not a %s of npm: allowed are NAME and @SCOPE/NAME of letters, digits "
                   "and - _ . ! ~ ' ( )%s, and no part begins with a dot",
                   STR_ARG(name), is_pattern ? "pattern for packages" : "name of a package",
                   is_pattern ? " *" : "");
}

static int check_spec(struct arena *a, qp_str name, qp_str text, struct npm_spec *out,
                      struct qp_err *err)
{
    QP_TRY(npm_spec_read(a, text, out));
    if (out->kind != NPM_SPEC_UNSUPPORTED && str_is_none(out->locked)) {
        return QP_OK;
    }
    return err_set(err, QP_E_INVALID,
                   "'%.*s' for 'npm:%.*s' is neither a version, nor a range, nor a dist-tag of the "
                   "registry: write npm:NAME, npm:NAME@1.2.3, npm:NAME@^1 or npm:NAME@latest",
                   STR_ARG(text), STR_ARG(name));
}

static int root_of_manifest(const struct npm_options *o, struct carto_item *out, struct qp_err *err)
{
    if (o->manifest.id.name.n == 0) {
        return err_set(err, QP_E_INVALID,
                       "the root 'npm:.' needs the option manifest: the object of a package.json");
    }
    out->target = o->manifest.id;
    out->is_selected = true;
    out->selected = o->manifest;
    return QP_OK;
}

static int npm_root(const struct carto_request *r, struct arena *a, qp_str text,
                    struct carto_item *out, struct qp_err *err)
{
    struct npm_spec spec;
    qp_str name;
    qp_str asked;
    if (str_equal(text, QP_STR("."))) {
        return root_of_manifest(options_of(r), out, err);
    }
    npm_split(text, &name, &asked);
    QP_TRY(npm_check_name(name, false, err));
    out->target.name = name;
    if (str_is_none(asked)) {
        return QP_OK;
    }
    QP_TRY(check_spec(a, name, asked, &spec, err));
    out->advice = asked;
    if (!str_is_none(spec.name)) {
        out->target.name = spec.name;
        return carto_print(a, &out->advice, "%.*s@%.*s", STR_ARG(name), STR_ARG(asked));
    }
    return QP_OK;
}

static int npm_check_override(const struct carto_request *r, struct arena *a,
                              const struct carto_override *override, struct qp_err *err)
{
    const struct carto_package *p = &override->package;
    struct npm_spec spec;
    int rc = npm_check_name(p->id.name, false, err);
    (void)r;
    if (rc == QP_OK && p->version.n > 0) {
        rc = check_spec(a, p->id.name, p->version, &spec, err);
    }
    return rc == QP_OK ? rc
                       : err_wrap(err, rc, "override of 'npm:%.*s'", STR_ARG(override->id.name));
}

/* -------------------------------------------------------------------------------------- selection */

/* What an item asks for: its own requirement, or an override. */
struct wish {
    qp_str name;
    struct npm_spec spec;
    struct npm_spec advice;
    bool is_override;
    bool is_foreign; /* of another type: `package` is taken */
    struct carto_package package;
};

/* An override counts for a root only if the root says no version. */
static int wish_of(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                   struct wish *out)
{
    struct carto_package chosen = {0};
    struct wish w = {.name = item->target.name};
    bool is_root = path_level(item->path) == 0;
    QP_TRY(npm_spec_read(a, item->advice.n > 0 ? item->advice : QP_STR("*"), &w.advice));
    if (!is_root || item->advice.n == 0) {
        QP_TRY(carto_chosen(r, item->target, &w.is_override, &chosen));
    }
    w.spec = w.advice;
    w.is_foreign = w.is_override && !str_equal(chosen.id.type, str_from(type_name));
    w.package = chosen;
    if (w.is_override && !w.is_foreign) {
        w.name = chosen.id.name;
        QP_TRY(npm_spec_read(a, chosen.version.n > 0 ? chosen.version : QP_STR("*"), &w.spec));
    }
    *out = w;
    return QP_OK;
}

static int npm_wants(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                     struct carto_id *out_id)
{
    struct wish w;
    *out_id = (struct carto_id){0};
    if (item->is_selected) {
        return QP_OK;
    }
    QP_TRY(wish_of(r, a, item, &w));
    if (!w.is_foreign && w.spec.kind != NPM_SPEC_UNSUPPORTED) {
        *out_id = id_of(w.name);
    }
    return QP_OK;
}

static int fail(struct arena *a, struct carto_outcome *outcome, enum carto_failure failure,
                const char *before, qp_str name, const char *behind)
{
    outcome->result = CARTO_FAILED;
    outcome->failure = failure;
    return carto_print(a, &outcome->text, "%s'%.*s'%s", before, STR_ARG(name), behind);
}

static int fetched_document(const struct carto_request *r, struct arena *a, qp_str name,
                            qp_str *out_value, struct carto_outcome *outcome)
{
    const struct carto_facts *facts = use_of(r)->facts;
    struct carto_pin pin = {0};
    qp_str fact = QP_NONE;
    int rc;
    QP_ASSERT(r->pinned != NULL);
    QP_TRY(r->pinned(r->pinned_context, id_of(name), &pin));
    if (!pin.is_known) {
        *outcome = (struct carto_outcome){.result = CARTO_WANTS, .text = name};
        return QP_OK;
    }
    if (str_is_none(pin.fact)) {
        *outcome = (struct carto_outcome){CARTO_FAILED, pin.failure, pin.message};
        return QP_OK;
    }
    QP_TRY(npm_fact_name(a, 'p', pin.fact, &fact));
    rc = facts->get(facts->context, fact, out_value);
    return rc == QP_E_NOT_FOUND ? QP_E_CORRUPT : rc;
}

/* The document of a package; `outcome` says whether there is one. */
static int document_of(const struct carto_request *r, struct arena *a, qp_str name,
                       struct npm_document *out, struct carto_outcome *outcome, struct qp_err *err)
{
    const struct carto_facts *facts = use_of(r)->facts;
    qp_str value = QP_NONE;
    qp_str fact = QP_NONE;
    int rc;
    outcome->result = CARTO_DONE;
    QP_ASSERT(facts != NULL);
    if (use_of(r)->is_fetched) {
        QP_TRY(fetched_document(r, a, name, &value, outcome));
        return outcome->result == CARTO_DONE ? npm_document_read(value, out, err) : QP_OK;
    }
    QP_TRY(npm_fact_name(a, 'n', name, &fact));
    rc = facts->get(facts->context, fact, &value);
    if (rc == QP_E_NOT_FOUND) {
        return fail(a, outcome, CARTO_METADATA_MISSING, "no packument was imported of ", name, "");
    }
    QP_TRY(rc);
    return npm_document_read(value, out, err);
}

static int fail_pick(const struct carto_request *r, struct arena *a, const struct wish *w,
                     const struct npm_document *d, struct carto_outcome *outcome,
                     struct qp_err *err)
{
    qp_ms cutoff = cutoff_of(r);
    qp_str latest = QP_NONE;
    char date[RFC3339_SIZE] = "";
    if (options_of(r)->has_before) {
        rfc3339_format(cutoff, date);
    }
    QP_TRY(npm_tag_find(d, QP_STR("latest"), &latest, err));
    outcome->result = CARTO_FAILED;
    outcome->failure = CARTO_OVERCONSTRAINED_VERSION;
    return carto_print(
        a, &outcome->text, "no version of 'npm:%.*s' is '%.*s'%s%s; the latest is %.*s",
        STR_ARG(w->name), STR_ARG(w->spec.text), date[0] != '\0' ? " and not later than " : "",
        date, STR_ARG(latest.n > 0 ? latest : QP_STR("not known")));
}

static int pick(const struct carto_request *r, struct arena *a, const struct wish *w,
                const struct npm_document *d, struct carto_selection *out,
                struct carto_outcome *outcome, struct qp_err *err)
{
    qp_str version = QP_NONE;
    int rc;
    if (options_of(r)->has_before && !d->has_times && str_is_none(w->spec.locked)) {
        return fail(
            a, outcome, CARTO_METADATA_ERROR, "the packument of ", w->name,
            " has no times of its versions, which the option before needs: leave it out, or use "
            "a registry that has them");
    }
    rc = npm_pick(d, a, &w->spec, cutoff_of(r), &version, err);
    if (rc == QP_E_NOT_FOUND) {
        return fail_pick(r, a, w, d, outcome, err);
    }
    QP_TRY(rc);
    if (version.n > LIMIT_NPM_VERSION_SIZE) {
        return fail(a, outcome, CARTO_METADATA_ERROR, "a version is too long: of ", w->name, "");
    }
    out->package = (struct carto_package){id_of(w->name), version};
    out->advice_ignored = w->is_override && !npm_spec_admits(&w->advice, version);
    return QP_OK;
}

static int npm_select(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                      struct carto_selection *out, struct carto_outcome *outcome,
                      struct qp_err *err)
{
    struct npm_document d;
    struct wish w;
    QP_TRY(wish_of(r, a, item, &w));
    if (w.is_foreign) {
        *out = (struct carto_selection){.package = w.package, .advice_ignored = true};
        return QP_OK;
    }
    if (w.spec.kind == NPM_SPEC_UNSUPPORTED && str_is_none(w.spec.locked)) {
        return fail(a, outcome, CARTO_UNSUPPORTED_SPEC, "", w.spec.text,
                    " does not name a package of the registry: git, file, URL and workspace "
                    "requirements are not followed");
    }
    QP_TRY(document_of(r, a, w.name, &d, outcome, err));
    return outcome->result == CARTO_DONE ? pick(r, a, &w, &d, out, outcome, err) : QP_OK;
}

/* ------------------------------------------------------------------------------------ relationships */

/* The relationships of one version while they are made. */
struct making {
    const struct carto_request *request;
    struct arena *arena;
    struct carto_relations *out;
    size_t room;
    uint64_t ordinal;
};

static int add_relation(struct making *m, const struct carto_relation *relation)
{
    if (m->out->count == m->room) {
        size_t room = m->room == 0 ? 16 : m->room * 2;
        struct carto_relation *rows = arena_room(m->arena, room * sizeof(*rows));
        if (rows == NULL) {
            return QP_E_NOMEM;
        }
        if (m->out->count > 0) {
            memcpy(rows, m->out->rows, m->out->count * sizeof(*rows));
        }
        m->out->rows = rows;
        m->room = room;
    }
    m->out->rows[m->out->count++] = *relation;
    return QP_OK;
}

static bool is_followed(const struct carto_request *r, enum npm_kind kind)
{
    return kind != NPM_PEER_OPTIONAL && (kind != NPM_PEER || options_of(r)->with_peers);
}

static int make_relation(struct making *m, const struct npm_relation *asked)
{
    struct carto_relation relation = {.ordinal = m->ordinal,
                                      .target = id_of(asked->name),
                                      .advice = asked->spec,
                                      .kind = str_from(npm_kind_text(asked->kind)),
                                      .scope =
                                          asked->kind == NPM_DEV ? CARTO_BUILD_TIME : CARTO_RUNTIME,
                                      .is_optional = asked->kind == NPM_OPTIONAL};
    struct npm_spec spec;
    QP_TRY(npm_spec_read(m->arena, asked->spec, &spec));
    if (!str_is_none(spec.name)) {
        relation.target.name = spec.name;
        QP_TRY(carto_print(m->arena, &relation.advice, "%.*s@%.*s", STR_ARG(asked->name),
                           STR_ARG(asked->spec)));
    } else if (str_is_none(spec.locked)) {
        relation.advice = spec.text;
    }
    return add_relation(m, &relation);
}

static int make_relations(struct making *m, qp_str value, struct carto_outcome *outcome,
                          struct qp_err *err)
{
    struct npm_relation asked;
    qp_str rest = QP_NONE;
    int rc;
    QP_TRY(npm_relations_read(value, &rest, err));
    while ((rc = npm_relation_next(&rest, &asked, err)) == QP_OK) {
        if (!npm_name_is_valid(asked.name)) {
            m->out->count = 0;
            return fail(m->arena, outcome, CARTO_METADATA_ERROR, "it depends on ", asked.name,
                        ", which is not a name of a package");
        }
        if (is_followed(m->request, asked.kind)) {
            QP_TRY(make_relation(m, &asked));
        }
        m->ordinal++;
    }
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* The fact of the relations of a version; empty: there are none. */
static int relations_of(const struct carto_request *r, struct arena *a,
                        const struct carto_item *item, qp_str *out_value,
                        struct carto_outcome *outcome, struct qp_err *err)
{
    const struct carto_facts *facts = use_of(r)->facts;
    struct npm_document d;
    struct npm_version v = {0};
    char hash[NPM_HASH_TEXT_SIZE];
    qp_str fact = QP_NONE;
    int rc;
    *out_value = QP_STR("");
    QP_TRY(document_of(r, a, item->selected.id.name, &d, outcome, err));
    if (outcome->result != CARTO_DONE) {
        return QP_OK;
    }
    rc = npm_version_find(&d, item->selected.version, &v, err);
    if (rc != QP_OK || v.relations.n == 0) {
        return rc == QP_E_NOT_FOUND ? QP_E_CORRUPT : rc;
    }
    npm_hash_text((const unsigned char *)v.relations.p, hash);
    QP_TRY(npm_fact_name(a, 'd', str_from(hash), &fact));
    rc = facts->get(facts->context, fact, out_value);
    return rc == QP_E_NOT_FOUND ? QP_E_CORRUPT : rc;
}

static bool is_manifest(const struct carto_request *r, const struct carto_item *item)
{
    const struct carto_package *m = &options_of(r)->manifest;
    return m->id.name.n > 0 && path_level(item->path) == 0 &&
           str_equal(m->id.name, item->selected.id.name) &&
           str_equal(m->version, item->selected.version);
}

static int npm_resolve(const struct carto_request *r, struct arena *a,
                       const struct carto_item *item, struct carto_relations *out,
                       struct carto_outcome *outcome, struct qp_err *err)
{
    struct making m = {.request = r, .arena = a, .out = out};
    qp_str value = QP_STR("");
    outcome->result = CARTO_DONE;
    *out = (struct carto_relations){0};
    if (is_manifest(r, item)) {
        value = options_of(r)->manifest_relations;
    } else {
        QP_TRY(relations_of(r, a, item, &value, outcome, err));
    }
    return outcome->result == CARTO_DONE && value.n > 0 ? make_relations(&m, value, outcome, err)
                                                        : QP_OK;
}

const struct carto_type npm_type = {
    .name = type_name,
    .mode = CARTO_PURE,
    .universe = npm_universe,
    .is_fetched = npm_is_fetched,
    .wants = npm_wants,
    .options = npm_read_options,
    .check_name = npm_check_name,
    .root = npm_root,
    .check_override = npm_check_override,
    .select = npm_select,
    .resolve = npm_resolve,
};
