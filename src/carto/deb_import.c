/* deb_import.c - the facts of a universe out of lists (see deb_import.h)
 *
 * Reading keeps for each name its packages with their relations, written as they will stand in the fact, and the text
 * of Provides. Finishing walks the names twice: what each package provides is hung on the provided names; then each
 * name is written.
 */
#include "carto/deb_import.h"

#include <stdlib.h>

#include "carto/deb_fact.h"

struct package {
    struct package *next; /* of the same name, by architecture */
    struct deb_package row;
    qp_str provides;
};

struct provider {
    struct provider *next;
    struct deb_provider row;
};

struct known {
    struct package *packages;
    struct provider *providers;
    size_t provider_count;
};

static int take_package(void *context, const struct deb_stanza *stanza, struct qp_err *err);

void deb_import_init(struct deb_import *i, const struct qp_env *env)
{
    *i = (struct deb_import){.env = env};
    arena_init(&i->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
    omap_init(&i->names, env);
    buf_init(&i->text, env, LIMIT_CARTO_FACT_SIZE);
    deb_packages_init(&i->reader, env, i, take_package);
}

void deb_import_done(struct deb_import *i)
{
    deb_packages_done(&i->reader);
    buf_done(&i->text);
    omap_done(&i->names);
    arena_done(&i->memory);
}

int deb_import_feed(struct deb_import *i, qp_str bytes, struct qp_err *err)
{
    return deb_packages_feed(&i->reader, bytes, err);
}

int deb_import_end_list(struct deb_import *i, struct qp_err *err)
{
    QP_TRY(deb_packages_end(&i->reader, err));
    deb_packages_done(&i->reader);
    deb_packages_init(&i->reader, i->env, i, take_package);
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- reading */

static int no_memory(struct qp_err *err)
{
    return err_set(err, QP_E_NOMEM, "out of memory while lists are imported");
}

static int find_name(struct deb_import *i, qp_str name, struct known **out, struct qp_err *err)
{
    struct known *k = omap_get(&i->names, name);
    if (k == NULL) {
        k = ARENA_NEW(&i->memory, struct known);
        if (k == NULL || omap_put(&i->names, name, k, NULL) != QP_OK) {
            return no_memory(err);
        }
    }
    *out = k;
    return QP_OK;
}

static enum deb_multi_arch multi_arch_of(qp_str text)
{
    static const char *const words[] = {"no", "same", "foreign", "allowed"};
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (str_equal(text, str_from(words[i]))) {
            return (enum deb_multi_arch)i;
        }
    }
    return DEB_MULTI_NO;
}

static int bad_field(const struct deb_stanza *s, enum deb_field field, const struct qp_err *inner,
                     struct qp_err *err)
{
    return err_set(err, QP_E_MALFORMED, "line %lld: %s: %s", (long long)s->lines[field],
                   deb_field_name(field), inner->text);
}

/* Appends the relations of one field to the text of the package. */
static int write_field(struct deb_import *i, const struct deb_stanza *s, enum deb_field field,
                       uint64_t *count, struct qp_err *err)
{
    struct deb_reader reader = {.field = s->fields[field]};
    struct deb_relation relation = {.field = field};
    struct qp_err inner = {0};
    bool is_found = false;
    if (!str_equal(s->fields[DEB_ARCHITECTURE], QP_STR("all"))) {
        reader.arch = s->fields[DEB_ARCHITECTURE];
    }
    for (;;) {
        if (deb_reader_next(&reader, &is_found, &relation.atom, &inner) != QP_OK) {
            return bad_field(s, field, &inner, err);
        }
        if (!is_found) {
            return QP_OK;
        }
        if (++*count > LIMIT_CARTO_RELATIONS) {
            return err_set(err, QP_E_TOO_LARGE, "line %lld: a package has at most %d relationships",
                           (long long)s->line, LIMIT_CARTO_RELATIONS);
        }
        deb_write_relation(&i->text, &relation);
    }
}

/* Provides has no alternatives, and of operators only '='. */
static int check_provides(const struct deb_stanza *s, struct qp_err *err)
{
    struct deb_reader reader = {.field = s->fields[DEB_PROVIDES]};
    struct deb_atom atom = {0};
    struct qp_err inner = {0};
    bool is_found = true;
    while (is_found) {
        if (deb_reader_next(&reader, &is_found, &atom, &inner) != QP_OK) {
            return bad_field(s, DEB_PROVIDES, &inner, err);
        }
        if (is_found && (atom.more || (atom.op != DEB_ANY && atom.op != DEB_EXACTLY))) {
            return err_set(err, QP_E_MALFORMED,
                           "line %lld: Provides takes names and (= version), no alternatives",
                           (long long)s->lines[DEB_PROVIDES]);
        }
    }
    return QP_OK;
}

static int read_package(struct deb_import *i, const struct deb_stanza *s, struct package *p,
                        struct qp_err *err)
{
    buf_reset(&i->text);
    for (size_t field = 0; field < DEB_RELATION_FIELDS; field++) {
        QP_TRY(write_field(i, s, (enum deb_field)field, &p->row.relation_count, err));
    }
    QP_TRY(check_provides(s, err));
    if (buf_rc(&i->text) == QP_E_TOO_LARGE) {
        return err_set(err, QP_E_TOO_LARGE, "line %lld: relationships of more than %d bytes",
                       (long long)s->line, LIMIT_CARTO_FACT_SIZE);
    }
    p->row.multi_arch = multi_arch_of(s->fields[DEB_MULTI_ARCH]);
    if (buf_rc(&i->text) != QP_OK ||
        !arena_copy(&i->memory, buf_slice(&i->text), &p->row.relations) ||
        !arena_copy(&i->memory, s->fields[DEB_VERSION], &p->row.version) ||
        !arena_copy(&i->memory, s->fields[DEB_ARCHITECTURE], &p->row.arch) ||
        !arena_copy(&i->memory, s->fields[DEB_PROVIDES], &p->provides)) {
        return no_memory(err);
    }
    return QP_OK;
}

/* The place for a package of this architecture: that of the one that is there, or where it belongs. */
static struct package **place_of(struct known *k, qp_str arch)
{
    struct package **place = &k->packages;
    while (*place != NULL && str_compare((*place)->row.arch, arch) < 0) {
        place = &(*place)->next;
    }
    return place;
}

static int take_package(void *context, const struct deb_stanza *s, struct qp_err *err)
{
    struct deb_import *i = context;
    struct known *k = NULL;
    struct package **place = NULL;
    struct package *p = NULL;
    bool is_known = false;
    QP_TRY(find_name(i, s->fields[DEB_PACKAGE], &k, err));
    place = place_of(k, s->fields[DEB_ARCHITECTURE]);
    is_known = *place != NULL && str_equal((*place)->row.arch, s->fields[DEB_ARCHITECTURE]);
    i->package_count++;
    if (is_known && deb_version_compare((*place)->row.version, s->fields[DEB_VERSION]) >= 0) {
        return QP_OK;
    }
    p = ARENA_NEW(&i->memory, struct package);
    if (p == NULL) {
        return no_memory(err);
    }
    QP_TRY(read_package(i, s, p, err));
    p->next = is_known ? (*place)->next : *place;
    *place = p;
    return QP_OK;
}

/* -------------------------------------------------------------------------------------- providers */

/* The name of an atom as a target: with its architecture, if it has one. */
static int target_of(struct arena *a, const struct deb_atom *atom, qp_str *out)
{
    char *text = NULL;
    if (atom->arch.n == 0) {
        *out = atom->name;
        return QP_OK;
    }
    text = arena_bytes(a, atom->name.n + 1 + atom->arch.n);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(text, atom->name.p, atom->name.n);
    text[atom->name.n] = ':';
    memcpy(text + atom->name.n + 1, atom->arch.p, atom->arch.n);
    *out = (qp_str){text, atom->name.n + 1 + atom->arch.n};
    return QP_OK;
}

static int add_provider(struct deb_import *i, qp_str name, const struct package *p,
                        const struct deb_atom *provided, struct qp_err *err)
{
    struct provider *new = ARENA_NEW(&i->memory, struct provider);
    struct known *k = NULL;
    qp_str target = QP_NONE;
    if (new == NULL || target_of(&i->memory, provided, &target) != QP_OK) {
        return no_memory(err);
    }
    QP_TRY(find_name(i, target, &k, err));
    new->row = (struct deb_provider){name, p->row.arch, provided->version};
    new->next = k->providers;
    k->providers = new;
    k->provider_count++;
    return QP_OK;
}

static int add_provided(struct deb_import *i, qp_str name, const struct package *p,
                        struct qp_err *err)
{
    struct deb_reader reader = {.field = p->provides};
    struct deb_atom atom = {0};
    bool is_found = true;
    if (!str_equal(p->row.arch, QP_STR("all"))) {
        reader.arch = p->row.arch;
    }
    for (;;) {
        QP_TRY(deb_reader_next(&reader, &is_found, &atom, err));
        if (!is_found) {
            return QP_OK;
        }
        QP_TRY(add_provider(i, name, p, &atom, err));
    }
}

static int add_all_provided(struct deb_import *i, struct qp_err *err)
{
    /* Names that come while this walks provide nothing. */
    for (struct omap_node *n = omap_seek(&i->names, QP_STR("")); n != NULL; n = omap_next(n)) {
        const struct known *k = omap_value(n);
        for (const struct package *p = k->packages; p != NULL; p = p->next) {
            QP_TRY(add_provided(i, omap_key(n), p, err));
        }
    }
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- writing */

static int compare_providers(const void *a, const void *b)
{
    const struct deb_provider *x = a;
    const struct deb_provider *y = b;
    int order = str_compare(x->name, y->name);
    if (order == 0) {
        order = str_compare(x->arch, y->arch);
    }
    return order != 0 ? order : str_compare(x->version, y->version);
}

static int write_providers(struct deb_import *i, const struct known *k)
{
    struct deb_provider *rows = NULL;
    size_t count = 0;
    deb_write_number(&i->text, k->provider_count);
    if (k->provider_count == 0) {
        return QP_OK;
    }
    rows = arena_alloc(&i->memory, k->provider_count * sizeof(*rows));
    if (rows == NULL) {
        return QP_E_NOMEM;
    }
    for (const struct provider *p = k->providers; p != NULL; p = p->next) {
        rows[count++] = p->row;
    }
    qsort(rows, count, sizeof(*rows), compare_providers);
    for (size_t at = 0; at < count; at++) {
        deb_write_text(&i->text, rows[at].name);
        deb_write_text(&i->text, rows[at].arch);
        deb_write_text(&i->text, rows[at].version);
    }
    return QP_OK;
}

static void write_package(struct buf *out, const struct deb_package *p)
{
    deb_write_text(out, p->arch);
    deb_write_text(out, p->version);
    buf_byte(out, (char)p->multi_arch);
    deb_write_number(out, p->relation_count);
    deb_write_text(out, p->relations);
}

static int write_fact(struct deb_import *i, const struct known *k)
{
    uint64_t count = 0;
    buf_reset(&i->text);
    for (const struct package *p = k->packages; p != NULL; p = p->next) {
        count++;
    }
    buf_byte(&i->text, DEB_FACT_FORMAT);
    deb_write_number(&i->text, count);
    for (const struct package *p = k->packages; p != NULL; p = p->next) {
        write_package(&i->text, &p->row);
    }
    QP_TRY(write_providers(i, k));
    return buf_rc(&i->text);
}

static int refer(struct deb_import *i, struct facts_table *t, qp_str name, const struct package *p,
                 struct qp_err *err)
{
    qp_str rest = p->row.relations;
    for (uint64_t left = p->row.relation_count; left > 0; left--) {
        struct deb_relation relation;
        qp_str target = QP_NONE;
        QP_TRY(deb_relation_next(&rest, &relation, err));
        if (target_of(&i->memory, &relation.atom, &target) != QP_OK ||
            facts_table_refer(t, target, name) != QP_OK) {
            return no_memory(err);
        }
    }
    return QP_OK;
}

int deb_import_finish(struct deb_import *i, struct facts_table *out, struct qp_err *err)
{
    QP_TRY(add_all_provided(i, err));
    for (struct omap_node *n = omap_seek(&i->names, QP_STR("")); n != NULL; n = omap_next(n)) {
        const struct known *k = omap_value(n);
        int rc = write_fact(i, k);
        if (rc == QP_E_TOO_LARGE) {
            return err_set(err, rc, "the fact of '%.*s' has more than %d bytes",
                           STR_ARG(omap_key(n)), LIMIT_CARTO_FACT_SIZE);
        }
        if (rc != QP_OK || facts_table_add(out, omap_key(n), buf_slice(&i->text)) != QP_OK) {
            return no_memory(err);
        }
        for (const struct package *p = k->packages; p != NULL; p = p->next) {
            QP_TRY(refer(i, out, omap_key(n), p, err));
        }
    }
    facts_table_seal(out);
    return QP_OK;
}
