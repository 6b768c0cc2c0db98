/* deb.c - the package type `deb`: roots, selection and relationships out of facts (see deb.h) */
#include "carto/deb.h"

static const char type_name[] = "deb";

static const struct deb_options *options_of(const struct carto_request *r)
{
    const struct carto_use *use = carto_use_of(r, str_from(type_name));
    QP_ASSERT(use != NULL && use->options != NULL);
    return use->options;
}

static const struct carto_facts *facts_of(const struct carto_request *r)
{
    const struct carto_use *use = carto_use_of(r, str_from(type_name));
    QP_ASSERT(use != NULL && use->facts != NULL);
    return use->facts;
}

/* ---------------------------------------------------------------------------------- reading facts */

/* A name as it stands in an atom or an item: libc6, perl:any, gcc:i386. */
static struct deb_atom atom_of(qp_str target)
{
    struct deb_atom atom = {.name = target};
    const char *colon = target.n > 0 ? memchr(target.p, ':', target.n) : NULL;
    if (colon != NULL) {
        atom.name = (qp_str){target.p, (size_t)(colon - target.p)};
        atom.arch = (qp_str){colon + 1, target.n - atom.name.n - 1};
    }
    return atom;
}

static bool is_any(const struct deb_atom *atom)
{
    return str_equal(atom->arch, QP_STR("any"));
}

/* Whether a package of this architecture is seen by a request for `wanted`. */
static bool is_seen(qp_str arch, qp_str wanted)
{
    return str_equal(arch, wanted) || str_equal(arch, QP_STR("all"));
}

static bool fits(const struct deb_package *p, const struct deb_atom *atom, qp_str native)
{
    if (atom->arch.n == 0 || str_equal(atom->arch, native)) {
        return is_seen(p->arch, native);
    }
    return str_equal(p->arch, atom->arch);
}

/* The package of a name: the highest version of those that the request sees; none of `name:any`, which only packages
 * that allow it provide. */
static int find_package(const struct carto_facts *facts, const struct deb_atom *atom, qp_str native,
                        bool *out_found, struct deb_package *out, struct qp_err *err)
{
    qp_str value = QP_NONE;
    struct deb_fact f;
    struct deb_package p;
    bool is_more = true;
    int rc = is_any(atom) ? QP_E_NOT_FOUND : facts->get(facts->context, atom->name, &value);
    *out_found = false;
    if (rc == QP_E_NOT_FOUND) {
        return QP_OK;
    }
    QP_TRY(rc);
    QP_TRY(deb_fact_packages(&f, value, err));
    for (;;) {
        QP_TRY(deb_fact_package(&f, &is_more, &p, err));
        if (!is_more) {
            return QP_OK;
        }
        if (fits(&p, atom, native) &&
            (!*out_found || deb_version_compare(out->version, p.version) < 0)) {
            *out_found = true;
            *out = p;
        }
    }
}

/* The providers of a name that satisfy an atom, in the order of their names, each once. */
struct providers {
    const struct deb_atom *atom;
    qp_str native;
    bool is_any;   /* the one that allows it is still to be asked */
    bool has_fact; /* explicit ones */
    struct deb_fact fact;
    qp_str last;
};

static int find_allowed(const struct carto_facts *facts, struct providers *p, bool *out_found,
                        struct qp_err *err)
{
    struct deb_atom plain = {.name = p->atom->name};
    struct deb_package package;
    QP_TRY(find_package(facts, &plain, p->native, out_found, &package, err));
    *out_found = *out_found && package.multi_arch == DEB_MULTI_ALLOWED &&
                 deb_version_satisfies(package.version, p->atom->op, p->atom->version);
    return QP_OK;
}

static int providers_begin(const struct carto_facts *facts, struct providers *p,
                           const struct deb_atom *atom, qp_str target, qp_str native,
                           struct qp_err *err)
{
    qp_str value = QP_NONE;
    int rc = facts->get(facts->context, target, &value);
    *p = (struct providers){.atom = atom, .native = native, .is_any = is_any(atom)};
    if (rc == QP_E_NOT_FOUND) {
        return QP_OK;
    }
    QP_TRY(rc);
    p->has_fact = true;
    QP_TRY(deb_fact_packages(&p->fact, value, err));
    return deb_fact_providers(&p->fact, err);
}

static int providers_next(const struct carto_facts *facts, struct providers *p, bool *out_found,
                          qp_str *out_name, struct qp_err *err)
{
    struct deb_provider row;
    if (p->is_any) {
        p->is_any = false;
        QP_TRY(find_allowed(facts, p, out_found, err));
        if (*out_found) {
            p->last = p->atom->name;
            *out_name = p->last;
            return QP_OK;
        }
    }
    for (*out_found = p->has_fact; *out_found;) {
        QP_TRY(deb_fact_provider(&p->fact, out_found, &row, err));
        if (*out_found && is_seen(row.arch, p->native) && !str_equal(row.name, p->last) &&
            deb_version_satisfies(row.version, p->atom->op, p->atom->version)) {
            p->last = row.name;
            *out_name = row.name;
            return QP_OK;
        }
    }
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- requests */

bool deb_closure_parse(qp_str text, enum deb_closure *out)
{
    static const char *const names[] = {"A", "F", "FR", "R", "S"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (str_equal(text, str_from(names[i]))) {
            *out = (enum deb_closure)i;
            return true;
        }
    }
    return false;
}

static int read_option(struct arena *a, const struct json_walk *w, struct deb_options *options,
                       struct qp_err *err)
{
    qp_str text = QP_NONE;
    bool is_text = json_as_str(w->value, &text);
    if (str_equal(w->key, QP_STR("closure"))) {
        if (!is_text || !deb_closure_parse(text, &options->closure)) {
            (void)err_set(err, QP_E_SHAPE, "closure must be one of A, F, FR, R, S");
            return err_point(err, QP_E_SHAPE, "/closure");
        }
        return QP_OK;
    }
    if (str_equal(w->key, QP_STR("arch"))) {
        if (!is_text || !deb_arch_is_valid(text)) {
            (void)err_set(err, QP_E_SHAPE, "arch must be an architecture such as amd64");
            return err_point(err, QP_E_SHAPE, "/arch");
        }
        return arena_copy(a, text, &options->arch) ? QP_OK : QP_E_NOMEM;
    }
    return err_set(err, QP_E_SHAPE, "deb has no option '%.*s'; it has closure and arch",
                   STR_ARG(w->key));
}

static int deb_read_options(struct arena *a, const struct json *given, enum carto_scope scope,
                            const void **out_options, struct qp_err *err)
{
    struct deb_options *options = ARENA_NEW(a, struct deb_options);
    struct json_walk w = {0};
    if (options == NULL) {
        return QP_E_NOMEM;
    }
    if (scope == CARTO_BUILD_TIME) {
        return err_set(err, QP_E_SHAPE,
                       "scope build_time needs lists of source packages, which deb does not "
                       "import; use scope runtime");
    }
    *options = (struct deb_options){DEB_CLOSURE_S, QP_STR("amd64")};
    while (given != NULL && json_each(given, &w)) {
        QP_TRY(read_option(a, &w, options, err));
    }
    *out_options = options;
    return QP_OK;
}

static bool is_pattern_valid(qp_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool is_part = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_part && (c == '\0' || strchr("+.-_:*", c) == NULL)) {
            return false;
        }
    }
    return name.n > 0 && name.n <= LIMIT_DEB_NAME_SIZE;
}

static int deb_check_name(qp_str name, bool is_pattern, struct qp_err *err)
{
    struct deb_atom atom = atom_of(name);
    if (is_pattern && is_pattern_valid(name)) {
        return QP_OK;
    }
    if (!is_pattern && deb_name_is_valid(atom.name) &&
        (str_is_none(atom.arch) || deb_arch_is_valid(atom.arch))) {
        return QP_OK;
    }
    return err_set(err, QP_E_INVALID,
                   "'%.*s' is not a %s of Debian: allowed are letters, digits and + . - _%s",
                   STR_ARG(name), is_pattern ? "pattern for packages" : "name of a package",
                   is_pattern ? " : and *" : ", and :architecture behind it");
}

/* Whether the universe knows the name as a package or as something that packages provide. */
static int is_known(const struct carto_facts *facts, const struct deb_atom *atom, qp_str target,
                    qp_str native, bool *out_known, struct qp_err *err)
{
    struct deb_package package;
    struct providers p;
    qp_str name = QP_NONE;
    struct deb_atom any = *atom;
    any.op = DEB_ANY;
    QP_TRY(find_package(facts, &any, native, out_known, &package, err));
    if (*out_known) {
        return QP_OK;
    }
    QP_TRY(providers_begin(facts, &p, &any, target, native, err));
    return providers_next(facts, &p, out_known, &name, err);
}

static int unknown_root(const struct carto_request *r, struct arena *a, qp_str name,
                        struct qp_err *err)
{
    qp_str nearest = QP_NONE;
    QP_TRY(facts_nearest(facts_of(r), a, name, &nearest));
    if (str_is_none(nearest)) {
        return err_set(err, QP_E_NOT_FOUND, "no package 'deb:%.*s' in the imported lists",
                       STR_ARG(name));
    }
    return err_set(err, QP_E_NOT_FOUND,
                   "no package 'deb:%.*s' in the imported lists; the nearest names are %.*s",
                   STR_ARG(name), STR_ARG(nearest));
}

static int wrong_version(qp_str name, qp_str wanted, qp_str known, struct qp_err *err)
{
    return err_set(err, QP_E_NOT_FOUND,
                   "no version '%.*s' of 'deb:%.*s' in the imported lists; they have %.*s",
                   STR_ARG(wanted), STR_ARG(name), STR_ARG(known.n > 0 ? known : QP_STR("none")));
}

/* NAME or NAME=VERSION. */
static int deb_root(const struct carto_request *r, struct arena *a, qp_str text,
                    struct carto_item *out, struct qp_err *err)
{
    const char *equals = text.n > 0 ? memchr(text.p, '=', text.n) : NULL;
    qp_str name = equals != NULL ? (qp_str){text.p, (size_t)(equals - text.p)} : text;
    qp_str version = equals != NULL ? (qp_str){equals + 1, text.n - name.n - 1} : QP_NONE;
    struct deb_atom atom = atom_of(name);
    struct deb_package package = {0};
    bool is_there = false;
    QP_TRY(deb_check_name(name, false, err));
    QP_TRY(is_known(facts_of(r), &atom, name, options_of(r)->arch, &is_there, err));
    if (!is_there) {
        return unknown_root(r, a, name, err);
    }
    out->target.name = name;
    if (equals == NULL) {
        return QP_OK;
    }
    QP_TRY(deb_version_check(version, err));
    QP_TRY(find_package(facts_of(r), &atom, options_of(r)->arch, &is_there, &package, err));
    if (!is_there || deb_version_compare(package.version, version) != 0) {
        return wrong_version(name, version, package.version, err);
    }
    out->is_selected = true;
    out->selected = (struct carto_package){out->target, package.version};
    return QP_OK;
}

/* Names that packages only provide are no roots of deb:*. */
static int deb_next_root(const struct carto_request *r, qp_str after, bool *out_found,
                         qp_str *out_name, struct qp_err *err)
{
    const struct carto_facts *facts = facts_of(r);
    struct deb_package package;
    for (*out_found = false; !*out_found;) {
        struct deb_atom atom = {0};
        int rc = facts->next(facts->context, after, &atom.name);
        if (rc == QP_E_NOT_FOUND) {
            return QP_OK;
        }
        QP_TRY(rc);
        QP_TRY(find_package(facts, &atom, options_of(r)->arch, out_found, &package, err));
        after = atom.name;
    }
    *out_name = after;
    return QP_OK;
}

static int deb_check_override(const struct carto_request *r, struct arena *a,
                              const struct carto_override *override, struct qp_err *err)
{
    const struct carto_package *p = &override->package;
    struct deb_atom atom = atom_of(p->id.name);
    struct deb_package package = {0};
    bool is_there = false;
    (void)a;
    QP_TRY(deb_check_name(p->id.name, false, err));
    QP_TRY(find_package(facts_of(r), &atom, options_of(r)->arch, &is_there, &package, err));
    if (is_there && (p->version.n == 0 || deb_version_compare(package.version, p->version) == 0)) {
        return QP_OK;
    }
    (void)wrong_version(p->id.name, p->version.n > 0 ? p->version : QP_STR("any"), package.version,
                        err);
    return err_wrap(err, QP_E_NOT_FOUND, "override of 'deb:%.*s'", STR_ARG(override->id.name));
}

/* ---------------------------------------------------------------------------------------- selection */

static struct carto_id id_of(qp_str name)
{
    return (struct carto_id){str_from(type_name), name};
}

/* The package that an override names, with the version that the universe has. */
static int select_chosen(const struct carto_request *r, const struct carto_package *chosen,
                         const struct deb_atom *advice, struct carto_selection *out,
                         struct qp_err *err)
{
    struct deb_atom atom = atom_of(chosen->id.name);
    struct deb_package package = {0};
    bool is_there = false;
    QP_TRY(find_package(facts_of(r), &atom, options_of(r)->arch, &is_there, &package, err));
    *out = (struct carto_selection){.package = *chosen, .is_virtual = !is_there};
    out->package.version = is_there ? package.version : QP_NONE;
    out->advice_ignored = !str_equal(chosen->id.name, advice->name) ||
                          !deb_version_satisfies(package.version, advice->op, advice->version);
    return QP_OK;
}

/* The text of an atom's name with its architecture: the beginning of its advice, or of the item's target. */
static int target_text(struct arena *a, const struct deb_atom *atom, qp_str *out)
{
    if (atom->arch.n == 0) {
        *out = atom->name;
        return QP_OK;
    }
    return carto_print(a, out, "%.*s:%.*s", STR_ARG(atom->name), STR_ARG(atom->arch));
}

/* The first atom of an item's advice; an item without advice is a root. */
static int advice_of(const struct carto_item *item, struct deb_atom *out, struct qp_err *err)
{
    struct deb_reader reader = {.field = item->advice};
    bool is_found = false;
    QP_TRY(deb_reader_next(&reader, &is_found, out, err));
    if (!is_found) {
        *out = atom_of(item->target.name);
    }
    return QP_OK;
}

/* A, F, FR, R: the name is the node. A provider (via) stands for another name, whose advice is no concern of it. */
static int select_name(const struct carto_request *r, struct arena *a,
                       const struct carto_item *item, struct carto_selection *out,
                       struct carto_outcome *outcome, struct qp_err *err)
{
    qp_str native = options_of(r)->arch;
    qp_str target = item->target.name;
    struct deb_atom name = atom_of(target);
    struct deb_atom advice = {0};
    struct deb_package package = {0};
    bool is_there = false;
    *out = (struct carto_selection){.package.id = item->target};
    QP_TRY(find_package(facts_of(r), &name, native, &is_there, &package, err));
    if (is_there) {
        QP_TRY(advice_of(item, &advice, err));
        out->package.version = package.version;
        out->advice_ignored =
            item->via.n == 0 && !deb_version_satisfies(package.version, advice.op, advice.version);
        return QP_OK;
    }
    out->is_virtual = true;
    QP_TRY(is_known(facts_of(r), &name, target, native, &is_there, err));
    if (is_there || item->is_optional) {
        return QP_OK;
    }
    outcome->result = CARTO_FAILED;
    outcome->failure = CARTO_METADATA_MISSING;
    return carto_print(a, &outcome->text,
                       "'%.*s' is neither a package of the imported lists nor provided by one",
                       STR_ARG(target));
}

/* The package that satisfies one alternative: the real one, else the first provider. */
static int satisfy(const struct carto_request *r, struct arena *a, const struct deb_atom *atom,
                   bool *out_found, struct carto_selection *out, struct qp_err *err)
{
    const struct carto_facts *facts = facts_of(r);
    qp_str native = options_of(r)->arch;
    qp_str target = QP_NONE;
    qp_str name = QP_NONE;
    struct deb_package package = {0};
    struct providers providers;
    struct deb_atom plain = {0};
    QP_TRY(target_text(a, atom, &target));
    QP_TRY(find_package(facts, atom, native, out_found, &package, err));
    if (*out_found && deb_version_satisfies(package.version, atom->op, atom->version)) {
        *out = (struct carto_selection){.package = {id_of(target), package.version}};
        return QP_OK;
    }
    QP_TRY(providers_begin(facts, &providers, atom, target, native, err));
    QP_TRY(providers_next(facts, &providers, out_found, &name, err));
    if (!*out_found) {
        return QP_OK;
    }
    plain = atom_of(name);
    QP_TRY(find_package(facts, &plain, native, out_found, &package, err));
    *out = (struct carto_selection){.package = {id_of(name), package.version}};
    return QP_OK;
}

static int overconstrained(struct arena *a, const struct carto_item *item, bool is_any_known,
                           struct carto_outcome *outcome)
{
    outcome->result = CARTO_FAILED;
    outcome->failure = is_any_known ? CARTO_OVERCONSTRAINED_VERSION : CARTO_METADATA_MISSING;
    return carto_print(a, &outcome->text,
                       is_any_known ? "no version in the imported lists satisfies '%.*s'"
                                    : "nothing in the imported lists is or provides '%.*s'",
                       STR_ARG(item->advice.n > 0 ? item->advice : item->target.name));
}

/* S: the first alternative that can be satisfied. */
static int select_group(const struct carto_request *r, struct arena *a,
                        const struct carto_item *item, struct carto_selection *out,
                        struct carto_outcome *outcome, struct qp_err *err)
{
    struct deb_reader reader = {.field = item->advice.n > 0 ? item->advice : item->target.name};
    bool is_any_known = false;
    for (;;) {
        struct deb_atom atom = {0};
        struct carto_package chosen = {0};
        bool is_found = false;
        qp_str target = QP_NONE;
        QP_TRY(deb_reader_next(&reader, &is_found, &atom, err));
        if (!is_found) {
            return overconstrained(a, item, is_any_known, outcome);
        }
        QP_TRY(target_text(a, &atom, &target));
        QP_TRY(carto_chosen(r, id_of(target), &is_found, &chosen));
        if (is_found) {
            return select_chosen(r, &chosen, &atom, out, err);
        }
        QP_TRY(satisfy(r, a, &atom, &is_found, out, err));
        if (is_found) {
            return QP_OK;
        }
        if (!is_any_known) {
            QP_TRY(is_known(facts_of(r), &atom, target, options_of(r)->arch, &is_any_known, err));
        }
    }
}

static int deb_select(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                      struct carto_selection *out, struct carto_outcome *outcome,
                      struct qp_err *err)
{
    struct carto_package chosen = {0};
    struct deb_atom advice = {0};
    bool is_chosen = false;
    if (options_of(r)->closure == DEB_CLOSURE_S) {
        return select_group(r, a, item, out, outcome, err);
    }
    QP_TRY(carto_chosen(r, item->target, &is_chosen, &chosen));
    if (is_chosen) {
        QP_TRY(advice_of(item, &advice, err));
        return select_chosen(r, &chosen, &advice, out, err);
    }
    return select_name(r, a, item, out, outcome, err);
}

/* ------------------------------------------------------------------------------------ relationships */

static const char *kind_of(enum deb_field field)
{
    switch (field) {
    case DEB_PRE_DEPENDS:
        return "pre-depends";
    case DEB_DEPENDS:
        return "depends";
    default:
        QP_ASSERT(field == DEB_RECOMMENDS);
        return "recommends";
    }
}

/* The relationships of one package while they are made. */
struct making {
    const struct carto_request *request;
    struct arena *arena;
    const struct deb_options *options;
    struct carto_relations *out;
    size_t room;
    uint64_t ordinal;
};

static int add_relation(struct making *m, const struct carto_relation *relation)
{
    if (m->out->count == m->room) {
        size_t room = m->room == 0 ? 32 : m->room * 2;
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
    m->out->rows[m->out->count] = *relation;
    m->out->rows[m->out->count++].ordinal = m->ordinal++;
    return QP_OK;
}

/* "libc6 (>= 2.34)" */
static int atom_text(struct arena *a, const struct deb_atom *atom, qp_str target, qp_str *out)
{
    if (atom->op == DEB_ANY) {
        *out = target;
        return QP_OK;
    }
    return carto_print(a, out, "%.*s (%s %.*s)", STR_ARG(target), deb_op_text(atom->op),
                       STR_ARG(atom->version));
}

static int add_providers(struct making *m, const struct deb_atom *atom,
                         const struct carto_relation *named, struct qp_err *err)
{
    const struct carto_facts *facts = facts_of(m->request);
    struct providers p;
    struct carto_relation relation = *named;
    bool is_found = true;
    relation.kind = QP_STR("provides");
    relation.via = named->target.name;
    relation.is_optional = true;
    QP_TRY(providers_begin(facts, &p, atom, named->target.name, m->options->arch, err));
    for (;;) {
        qp_str name = QP_NONE;
        QP_TRY(providers_next(facts, &p, &is_found, &name, err));
        if (!is_found) {
            return QP_OK;
        }
        relation.target = id_of(name);
        if (!str_equal(name, named->target.name)) {
            QP_TRY(add_relation(m, &relation));
        }
    }
}

/* A, F, FR, R: one relationship per atom, and one per provider of it. `is_sole`: the group has no other atom. */
static int add_atom(struct making *m, const struct deb_relation *r, bool is_sole,
                    struct qp_err *err)
{
    struct carto_relation relation = {.scope = CARTO_RUNTIME, .kind = str_from(kind_of(r->field))};
    struct deb_atom atom = r->atom;
    bool is_literal = m->options->closure == DEB_CLOSURE_R;
    if (is_literal && !is_any(&atom)) {
        atom.arch = QP_NONE;
    }
    relation.is_optional = !is_sole || r->field == DEB_RECOMMENDS || (is_literal && is_any(&atom));
    QP_TRY(target_text(m->arena, &atom, &relation.target.name));
    relation.target = id_of(relation.target.name);
    QP_TRY(atom_text(m->arena, &atom, relation.target.name, &relation.advice));
    QP_TRY(add_relation(m, &relation));
    return is_literal ? QP_OK : add_providers(m, &atom, &relation, err);
}

/* S: one relationship per group, whose target is its first alternative and whose advice is all of it. */
static int add_group(struct making *m, const struct deb_relation *first, qp_str advice)
{
    struct carto_relation relation = {
        .scope = CARTO_RUNTIME, .kind = str_from(kind_of(first->field)), .advice = advice};
    QP_TRY(target_text(m->arena, &first->atom, &relation.target.name));
    relation.target = id_of(relation.target.name);
    return add_relation(m, &relation);
}

static bool is_wanted(enum deb_closure closure, enum deb_field field)
{
    return field == DEB_PRE_DEPENDS || field == DEB_DEPENDS ||
           (closure == DEB_CLOSURE_FR && field == DEB_RECOMMENDS);
}

/* The text of a group so far, one more atom of it, and its separator. */
static int extend_advice(struct making *m, const struct deb_atom *atom, qp_str *advice)
{
    qp_str target = QP_NONE;
    qp_str text = QP_NONE;
    QP_TRY(target_text(m->arena, atom, &target));
    QP_TRY(atom_text(m->arena, atom, target, &text));
    if (advice->n == 0) {
        *advice = text;
        return QP_OK;
    }
    return carto_print(m->arena, advice, "%.*s | %.*s", STR_ARG(*advice), STR_ARG(text));
}

static int add_relations(struct making *m, const struct deb_package *package, struct qp_err *err)
{
    enum deb_closure closure = m->options->closure;
    bool is_first_only = closure == DEB_CLOSURE_F || closure == DEB_CLOSURE_FR;
    struct deb_relation first = {0};
    qp_str advice = QP_NONE;
    qp_str rest = package->relations;
    bool is_begin = true; /* of a group */
    for (uint64_t left = package->relation_count; left > 0; left--) {
        struct deb_relation r;
        QP_TRY(deb_relation_next(&rest, &r, err));
        if (!is_wanted(closure, r.field)) {
            continue;
        }
        if (is_begin) {
            first = r;
            advice = QP_NONE;
        }
        if (closure == DEB_CLOSURE_S) {
            QP_TRY(extend_advice(m, &r.atom, &advice));
            QP_TRY(r.atom.more ? QP_OK : add_group(m, &first, advice));
        } else if (is_begin || !is_first_only) {
            QP_TRY(add_atom(m, &r, is_begin && !r.atom.more, err));
        }
        is_begin = !r.atom.more;
    }
    return QP_OK;
}

static int deb_resolve(const struct carto_request *r, struct arena *a,
                       const struct carto_item *item, struct carto_relations *out,
                       struct carto_outcome *outcome, struct qp_err *err)
{
    struct making m = {.request = r, .arena = a, .options = options_of(r), .out = out};
    struct deb_atom atom = atom_of(item->selected.id.name);
    struct deb_package package = {0};
    bool is_there = false;
    QP_TRY(find_package(facts_of(r), &atom, m.options->arch, &is_there, &package, err));
    outcome->result = CARTO_DONE;
    *out = (struct carto_relations){0};
    return is_there ? add_relations(&m, &package, err) : QP_OK;
}

/* ------------------------------------------------------------------------------ reverse dependencies */

static int names_target(const struct deb_package *package, const struct deb_atom *target,
                        unsigned fields, bool *out_named, struct qp_err *err)
{
    qp_str rest = package->relations;
    *out_named = false;
    for (uint64_t left = package->relation_count; left > 0 && !*out_named; left--) {
        struct deb_relation r;
        QP_TRY(deb_relation_next(&rest, &r, err));
        *out_named = (fields & 1u << r.field) != 0 && str_equal(r.atom.name, target->name) &&
                     str_equal(r.atom.arch, target->arch);
    }
    return QP_OK;
}

int deb_dependent(const struct carto_facts *facts, const struct deb_options *options, qp_str target,
                  unsigned fields, qp_str after, qp_str *out_name, struct qp_err *err)
{
    struct deb_atom wanted = atom_of(target);
    qp_str source = after;
    for (;;) {
        struct deb_atom name = {0};
        struct deb_package package;
        bool is_named = false;
        QP_TRY(facts->source(facts->context, target, source, &source));
        name.name = source;
        QP_TRY(find_package(facts, &name, options->arch, &is_named, &package, err));
        if (is_named) {
            QP_TRY(names_target(&package, &wanted, fields, &is_named, err));
        }
        if (is_named) {
            *out_name = source;
            return QP_OK;
        }
    }
}

const struct carto_type deb_type = {
    .name = type_name,
    .mode = CARTO_PURE,
    .has_facts = true,
    .options = deb_read_options,
    .check_name = deb_check_name,
    .root = deb_root,
    .next_root = deb_next_root,
    .check_override = deb_check_override,
    .select = deb_select,
    .resolve = deb_resolve,
};
