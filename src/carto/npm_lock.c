/* npm_lock.c - places of a lock, and what each finds (see npm_lock.h)
 *
 *   {"lockfileVersion": 3, "packages": {
 *      "": {"name": "app", "version": "1.0.0", "dependencies": {"a": "^1"}},
 *      "node_modules/a": {"version": "1.2.0", "dependencies": {"b": "2"}},
 *      "node_modules/a/node_modules/b": {"version": "2.0.0"},
 *      "node_modules/w": {"resolved": "packages/w", "link": true}, "packages/w": {...}}}
 *
 * A package finds what it depends on as node does: in node_modules of its own place, or of a place above it. A requirement
 * gets the version that was found behind it, "^1 (1.2.0)"; the type picks that one. What is not found is left out if it is
 * optional, else it is an error of its item.
 */
#include "carto/npm_lock.h"

#include "carto/npm_spec.h"

#define NOT_FOUND "not in the lock"

/* One entry of "packages". */
struct place {
    qp_str path;
    qp_str text;
    qp_str name;
    qp_str version;
    qp_str target; /* of a link: where it leads; else none */
};

/* A version of a package, whatever number of places it has. */
struct locked {
    qp_str name;
    qp_str version;
    struct buf relations;
    struct omap seen; /* relations that it has */
};

struct lock {
    struct npm_import *import;
    struct arena *arena;
    const struct qp_env *env;
    qp_str packages;
    qp_str name; /* of a root without one */
    struct omap places;
    struct omap versions; /* "NAME@VERSION" to struct locked */
    struct place *root;
    struct qp_err *err;
};

/* ------------------------------------------------------------------------------------------- places */

static int member_text(struct lock *l, qp_str value, qp_str *out)
{
    return raw_first(value) != '"' || raw_text(l->env, l->arena, value, out) ? QP_OK : QP_E_NOMEM;
}

/* What stands behind the last node_modules/; of another place its last part. */
static qp_str name_of_path(qp_str path)
{
    static const char mark[] = "node_modules/";
    const size_t n = sizeof mark - 1;
    const char *slash;
    for (size_t i = path.n; i >= n; i--) {
        if (memcmp(path.p + i - n, mark, n) == 0) {
            return (qp_str){path.p + i, path.n - i};
        }
    }
    slash = path.n > 0 ? memrchr(path.p, '/', path.n) : NULL;
    return slash == NULL ? path : (qp_str){slash + 1, path.n - (size_t)(slash - path.p) - 1};
}

/* A version as the type can name it: a root may have none, or anything. */
static bool is_canonical(const struct qp_env *env, qp_str version)
{
    struct semver v;
    struct buf text;
    bool is_same = false;
    buf_init(&text, env, 0);
    if (semver_read(version, &v)) {
        semver_write(&text, &v);
        is_same = buf_rc(&text) == QP_OK && str_equal(buf_slice(&text), version);
    }
    buf_done(&text);
    return is_same;
}

static int bad_place(struct lock *l, const struct place *p, const char *why)
{
    return err_set(l->err, QP_E_SHAPE, "the lock has at '%.*s' %s", STR_ARG(p->path), why);
}

static int check_place(struct lock *l, struct place *p)
{
    bool is_root = p->path.n == 0;
    if (str_is_none(p->name)) {
        p->name = is_root ? l->name : name_of_path(p->path);
    }
    if (is_root && (str_is_none(p->version) || !is_canonical(l->env, p->version))) {
        p->version = QP_STR("0.0.0");
    }
    if (!str_is_none(p->target)) {
        return QP_OK;
    }
    if (str_is_none(p->version)) {
        p->version = QP_STR("0.0.0"); /* of a workspace */
    }
    if (!npm_name_is_valid(p->name)) {
        return bad_place(l, p, "no name of a package");
    }
    if (p->version.n == 0 || p->version.n > LIMIT_NPM_VERSION_SIZE ||
        memchr(p->version.p, '(', p->version.n) != NULL) {
        return bad_place(l, p, "no version");
    }
    return QP_OK;
}

static int read_place(struct lock *l, qp_str path, qp_str text)
{
    struct place *p = ARENA_NEW(l->arena, struct place);
    struct raw_walk w = {.rest = text};
    bool is_link = false;
    qp_str resolved = QP_NONE;
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    *p = (struct place){.path = path, .text = text};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("name"))) {
            QP_TRY(member_text(l, w.value, &p->name));
        } else if (str_equal(w.key, QP_STR("version"))) {
            QP_TRY(member_text(l, w.value, &p->version));
        } else if (str_equal(w.key, QP_STR("resolved"))) {
            QP_TRY(member_text(l, w.value, &resolved));
        } else if (str_equal(w.key, QP_STR("link"))) {
            is_link = raw_first(w.value) == 't';
        }
    }
    if (is_link && path.n > 0) { /* the root is no link, whatever it says */
        p->target = str_is_none(resolved) ? QP_STR("") : resolved;
    }
    QP_TRY(check_place(l, p));
    l->root = path.n == 0 ? p : l->root;
    return omap_put(&l->places, path, p, NULL);
}

/* Paths with escapes are none that npm writes. */
static int read_places(struct lock *l)
{
    struct raw_walk w = {.rest = l->packages};
    while (raw_each(&w)) {
        if (raw_first(w.value) != '{' || (w.key.n > 0 && memchr(w.key.p, '\\', w.key.n) != NULL)) {
            return err_set(l->err, QP_E_SHAPE, "the lock has a place that is none: '%.*s'",
                           STR_ARG(w.key));
        }
        QP_TRY(read_place(l, w.key.n == 0 ? QP_STR("") : w.key, w.value));
    }
    return l->root != NULL ? QP_OK
                           : err_set(l->err, QP_E_SHAPE, "the lock has no root, the place \"\"");
}

/* ------------------------------------------------------------------------------------------- finding */

/* Where a link leads; NULL: nowhere, or to a link, which npm does not write. */
static const struct place *place_of_link(const struct lock *l, const struct place *p)
{
    const struct place *to = omap_get(&l->places, p->target);
    return to != NULL && str_is_none(to->target) ? to : NULL;
}

static const struct place *place_at(const struct lock *l, qp_str directory, qp_str name,
                                    struct buf *room)
{
    const struct place *p;
    buf_reset(room);
    buf_str(room, directory);
    buf_text(room, directory.n > 0 ? "/node_modules/" : "node_modules/");
    buf_str(room, name);
    p = buf_rc(room) == QP_OK ? omap_get(&l->places, buf_slice(room)) : NULL;
    return p == NULL || str_is_none(p->target) ? p : place_of_link(l, p);
}

/* From a place upwards. NULL: nowhere. */
static const struct place *find(const struct lock *l, qp_str from, qp_str name)
{
    const struct place *p = NULL;
    struct buf room;
    buf_init(&room, l->env, 0);
    p = place_at(l, from, name, &room);
    while (p == NULL && from.n > 0) {
        const char *slash = memrchr(from.p, '/', from.n);
        from.n = slash == NULL ? 0 : (size_t)(slash - from.p);
        p = place_at(l, from, name, &room);
    }
    buf_done(&room);
    return p;
}

/* ----------------------------------------------------------------------------------------- relations */

static int locked_of(struct lock *l, const struct place *p, struct locked **out)
{
    struct locked *v;
    char *key = arena_bytes(l->arena, p->name.n + 1 + p->version.n);
    qp_str id = {key, p->name.n + 1 + p->version.n};
    if (key == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(key, p->name.p, p->name.n);
    key[p->name.n] = '@';
    memcpy(key + p->name.n + 1, p->version.p, p->version.n);
    v = omap_get(&l->versions, id);
    if (v == NULL) {
        v = ARENA_NEW(l->arena, struct locked);
        if (v == NULL) {
            return QP_E_NOMEM;
        }
        *v = (struct locked){.name = p->name, .version = p->version};
        buf_init(&v->relations, l->env, LIMIT_CARTO_FACT_SIZE);
        omap_init(&v->seen, l->env);
        QP_TRY(omap_put(&l->versions, id, v, NULL));
    }
    *out = v;
    return QP_OK;
}

static int locked_spec(struct lock *l, qp_str spec, qp_str version, qp_str *out)
{
    char *text = arena_bytes(l->arena, spec.n + version.n + 3);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(text, spec.p, spec.n);
    memcpy(text + spec.n, " (", 2);
    memcpy(text + spec.n + 2, version.p, version.n);
    text[spec.n + 2 + version.n] = ')';
    *out = (qp_str){text, spec.n + version.n + 3};
    return QP_OK;
}

/* Once each: places of the same version mostly say the same. */
static int add_relation(struct lock *l, struct locked *v, const struct npm_relation *r)
{
    struct buf text;
    int rc;
    buf_init(&text, l->env, 0);
    npm_write_relation(&text, r);
    rc = buf_rc(&text);
    if (rc == QP_OK && omap_get(&v->seen, buf_slice(&text)) == NULL) {
        rc = omap_put(&v->seen, buf_slice(&text), v, NULL);
        if (v->relations.n == 0) {
            npm_write_relations(&v->relations);
        }
        buf_str(&v->relations, buf_slice(&text));
    }
    buf_done(&text);
    return rc;
}

static int lock_relation(struct lock *l, const struct place *from, struct locked *v,
                         const struct npm_relation *asked)
{
    struct npm_relation r = *asked;
    const struct place *to = find(l, from->path, asked->name);
    struct npm_spec spec;
    if (to == NULL && (r.kind == NPM_OPTIONAL || r.kind == NPM_PEER_OPTIONAL)) {
        return QP_OK;
    }
    QP_TRY(npm_spec_read(l->arena, r.spec, &spec));
    if (to != NULL && str_is_none(spec.name)) {
        r.name = to->name;
    }
    r.kind = r.kind == NPM_PEER_OPTIONAL ? NPM_PEER : r.kind;
    QP_TRY(locked_spec(l, r.spec, to == NULL ? QP_STR(NOT_FOUND) : to->version, &r.spec));
    return add_relation(l, v, &r);
}

static int lock_relations(struct lock *l, const struct place *p, struct locked *v, qp_str fact)
{
    struct npm_relation asked;
    qp_str rest = QP_NONE;
    int rc;
    QP_TRY(npm_relations_read(fact, &rest, l->err));
    while ((rc = npm_relation_next(&rest, &asked, l->err)) == QP_OK) {
        QP_TRY(lock_relation(l, p, v, &asked));
    }
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* Workspaces are linked into node_modules of the root, which depends on each. */
static int link_workspaces(struct lock *l, struct locked *v)
{
    for (struct omap_node *n = omap_seek(&l->places, QP_STR("")); n != NULL; n = omap_next(n)) {
        const struct place *p = omap_value(n);
        struct npm_relation r = {.kind = NPM_DEPENDS, .name = name_of_path(p->path)};
        const struct place *to = str_is_none(p->target) ? NULL : place_of_link(l, p);
        if (to == NULL || p->path.n != r.name.n + sizeof "node_modules/" - 1) {
            continue;
        }
        r.name = to->name;
        QP_TRY(locked_spec(l, QP_STR("workspace"), to->version, &r.spec));
        QP_TRY(add_relation(l, v, &r));
    }
    return QP_OK;
}

static int lock_place(struct lock *l, const struct place *p)
{
    struct locked *v = NULL;
    struct buf relations;
    int rc;
    if (!str_is_none(p->target)) {
        return QP_OK;
    }
    QP_TRY(locked_of(l, p, &v));
    buf_init(&relations, l->env, LIMIT_CARTO_FACT_SIZE);
    rc = npm_manifest_relations(l->arena, p->text, &relations, l->err);
    if (rc == QP_OK && relations.n > 0) {
        rc = lock_relations(l, p, v, buf_slice(&relations));
    }
    buf_done(&relations);
    QP_TRY(rc);
    return p == l->root ? link_workspaces(l, v) : QP_OK;
}

static int lock_places(struct lock *l)
{
    for (struct omap_node *n = omap_seek(&l->places, QP_STR("")); n != NULL; n = omap_next(n)) {
        QP_TRY(lock_place(l, omap_value(n)));
    }
    return QP_OK;
}

/* --------------------------------------------------------------------------------------------- facts */

/* The documents: the versions of a name stand beside each other, in the order of their texts. */
static int write_document(struct lock *l, qp_str name, const struct buf *versions)
{
    struct npm_document d = {.tags = QP_STR(""), .versions = buf_slice(versions)};
    struct buf text;
    int rc = buf_rc(versions);
    buf_init(&text, l->env, LIMIT_CARTO_FACT_SIZE);
    npm_write_document(&text, &d);
    rc = rc == QP_OK ? buf_rc(&text) : rc;
    if (rc == QP_OK) {
        rc = npm_import_fact(l->import, 'n', name, buf_slice(&text));
        l->import->package_count++;
    }
    buf_done(&text);
    return rc;
}

static int write_version(struct lock *l, const struct locked *v, struct buf *versions)
{
    struct npm_version row = {
        .version = v->version, .time = NPM_TIME_NONE, .relations = QP_STR("")};
    unsigned char hash[NPM_HASH_SIZE];
    char text[NPM_HASH_TEXT_SIZE];
    QP_TRY(buf_rc(&v->relations));
    if (v->relations.n > 0) {
        npm_hash(buf_slice(&v->relations), hash);
        npm_hash_text(hash, text);
        QP_TRY(npm_import_fact(l->import, 'd', str_from(text), buf_slice(&v->relations)));
        row.relations = (qp_str){(const char *)hash, sizeof hash};
    }
    npm_write_version(versions, &row);
    l->import->version_count++;
    return QP_OK;
}

static int write_facts(struct lock *l, struct buf *versions)
{
    qp_str name = QP_NONE;
    for (struct omap_node *n = omap_seek(&l->versions, QP_STR("")); n != NULL; n = omap_next(n)) {
        const struct locked *v = omap_value(n);
        if (!str_is_none(name) && !str_equal(name, v->name)) {
            QP_TRY(write_document(l, name, versions));
            buf_reset(versions);
        }
        name = v->name;
        QP_TRY(write_version(l, v, versions));
    }
    return write_document(l, name, versions);
}

/* ---------------------------------------------------------------------------------------------- lock */

static int open_lock(struct lock *l, qp_str text)
{
    const struct json_limits limits = {.keys = LIMIT_CARTO_ITEMS};
    struct raw_walk w = {.rest = text};
    int64_t version = 0;
    qp_str name = QP_NONE;
    QP_TRY(json_check(l->env, text, &limits, l->err));
    while (raw_first(text) == '{' && raw_each(&w)) {
        if (str_equal(w.key, QP_STR("lockfileVersion")) && w.value.n == 1) {
            version = w.value.p[0] - '0';
        } else if (str_equal(w.key, QP_STR("packages")) && raw_first(w.value) == '{') {
            l->packages = w.value;
        } else if (str_equal(w.key, QP_STR("name"))) {
            QP_TRY(member_text(l, w.value, &name));
        }
    }
    l->name = !str_is_none(name) && npm_name_is_valid(name) ? name : l->name;
    if ((version == 2 || version == 3) && !str_is_none(l->packages)) {
        return QP_OK;
    }
    return err_set(
        l->err, QP_E_SHAPE,
        "it must be a package-lock.json with lockfileVersion 2 or 3 and 'packages': npm 7 "
        "and later write it with npm install --package-lock-only");
}

static int read_lock(struct lock *l, qp_str text, qp_str *out_root)
{
    struct buf versions;
    struct locked *root = NULL;
    int rc;
    QP_TRY(open_lock(l, text));
    QP_TRY(read_places(l));
    QP_TRY(lock_places(l));
    buf_init(&versions, l->env, LIMIT_CARTO_FACT_SIZE);
    rc = write_facts(l, &versions);
    buf_done(&versions);
    QP_TRY(rc);
    QP_TRY(locked_of(l, l->root, &root));
    for (struct omap_node *n = omap_seek(&l->versions, root->name); n != NULL; n = omap_next(n)) {
        if (omap_value(n) == root) {
            return arena_copy(l->arena, omap_key(n), out_root) ? QP_OK : QP_E_NOMEM;
        }
    }
    return QP_E_CORRUPT;
}

int npm_lock_read(struct npm_import *i, qp_str text, qp_str name, qp_str *out_root,
                  struct qp_err *err)
{
    struct lock l = {.import = i, .arena = &i->memory, .env = i->env, .name = name, .err = err};
    int rc;
    omap_init(&l.places, i->env);
    omap_init(&l.versions, i->env);
    rc = read_lock(&l, text, out_root);
    for (struct omap_node *n = omap_seek(&l.versions, QP_STR("")); n != NULL; n = omap_next(n)) {
        struct locked *v = omap_value(n);
        buf_done(&v->relations);
        omap_done(&v->seen);
    }
    omap_done(&l.versions);
    omap_done(&l.places);
    if (rc == QP_E_TOO_LARGE && (err == NULL || err->text[0] == '\0')) {
        return err_set(err, rc, "a package of the lock has facts of more than %d bytes",
                       LIMIT_CARTO_FACT_SIZE);
    }
    return rc;
}
