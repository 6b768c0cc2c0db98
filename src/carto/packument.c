/* packument.c - reading packuments where they stand (see packument.h) */
#include "carto/packument.h"

#include "base/time.h"
#include "carto/npm_spec.h"

/* ------------------------------------------------------------------------------------------- dates */

bool npm_date_read(qp_str text, qp_ms *out_at)
{
    char whole[RFC3339_SIZE];
    if (text.n == 10) {
        memcpy(whole, text.p, 10);
        memcpy(whole + 10, "T00:00:00.000Z", sizeof "T00:00:00.000Z");
        text = (qp_str){whole, sizeof whole - 1};
    }
    return rfc3339_parse(text, out_at, NULL) == QP_OK && *out_at >= 0;
}

static bool checked_text(const struct qp_env *env, struct arena *a, qp_str value, qp_str *out)
{
    return json_check(env, value, NULL, NULL) == QP_OK && raw_text(env, a, value, out);
}

static qp_ms time_of(const struct qp_env *env, struct arena *a, qp_str value)
{
    qp_str text = QP_NONE;
    qp_ms at = 0;
    bool is_read = checked_text(env, a, value, &text) && npm_date_read(text, &at);
    return is_read ? at : NPM_TIME_BAD;
}

/* --------------------------------------------------------------------------------------- relations */

/* The maps of a manifest, in the order in which their relations are numbered. */
enum map { MAP_DEPENDENCIES, MAP_OPTIONAL, MAP_DEV, MAP_PEER, MAPS };

struct manifest {
    struct arena *arena;
    const struct qp_env *env;
    qp_str maps[MAPS];
    qp_str peer_meta;
    struct omap names; /* of the maps that come before others: to the map */
    struct buf *out;
    size_t count;
    struct qp_err *err;
};

static void *map_mark(enum map map)
{
    static char marks[MAPS];
    return &marks[map];
}

static void find_maps(struct manifest *m, qp_str text)
{
    static const char *const names[MAPS] = {"dependencies", "optionalDependencies",
                                            "devDependencies", "peerDependencies"};
    struct raw_walk w = {.rest = text};
    while (raw_first(text) == '{' && raw_each(&w)) {
        for (size_t i = 0; i < MAPS; i++) {
            if (str_equal(w.key, str_from(names[i])) && raw_first(w.value) == '{') {
                m->maps[i] = w.value;
            }
        }
        if (str_equal(w.key, QP_STR("peerDependenciesMeta")) && raw_first(w.value) == '{') {
            m->peer_meta = w.value;
        }
    }
}

/* A key as it stands in the text, without its quotes, as the text that it is. */
static int key_text(struct manifest *m, qp_str key, qp_str *out)
{
    char *quoted;
    if (key.n == 0 || memchr(key.p, '\\', key.n) == NULL) {
        *out = key;
        return QP_OK;
    }
    quoted = arena_bytes(m->arena, key.n + 2);
    if (quoted == NULL) {
        return QP_E_NOMEM;
    }
    quoted[0] = '"';
    memcpy(quoted + 1, key.p, key.n);
    quoted[key.n + 1] = '"';
    return raw_text(m->env, m->arena, (qp_str){quoted, key.n + 2}, out) ? QP_OK : QP_E_NOMEM;
}

static int check_map(const struct manifest *m, qp_str *map)
{
    int rc = str_is_none(*map) ? QP_OK : json_check(m->env, *map, NULL, m->err);
    if (rc == QP_OK || rc == QP_E_NOMEM) {
        return rc;
    }
    return err_wrap(m->err, rc, "a map of dependencies");
}

static int note_names(struct manifest *m, enum map map)
{
    struct raw_walk w = {.rest = m->maps[map]};
    while (!str_is_none(m->maps[map]) && raw_each(&w)) {
        qp_str name;
        QP_TRY(key_text(m, w.key, &name));
        QP_TRY(omap_put(&m->names, name, map_mark(map), NULL));
    }
    return QP_OK;
}

/* "peerDependenciesMeta": {"x": {"optional": true}} */
static int note_optional_peers(struct manifest *m, struct omap *out)
{
    struct raw_walk w = {.rest = m->peer_meta};
    while (!str_is_none(m->peer_meta) && raw_each(&w)) {
        struct raw_walk inner = {.rest = w.value};
        qp_str name;
        QP_TRY(key_text(m, w.key, &name));
        while (raw_first(w.value) == '{' && raw_each(&inner)) {
            if (str_equal(inner.key, QP_STR("optional")) && raw_first(inner.value) == 't') {
                QP_TRY(omap_put(out, name, map_mark(MAP_PEER), NULL));
            }
        }
    }
    return QP_OK;
}

/* Whether the package stands in a map that comes before this one. */
static bool is_elsewhere(const struct manifest *m, enum map map, qp_str name)
{
    const void *mark = omap_get(&m->names, name);
    return map == MAP_DEPENDENCIES ? mark == map_mark(MAP_OPTIONAL)
                                   : map != MAP_OPTIONAL && mark != NULL;
}

static int write_one(struct manifest *m, enum map map, const struct raw_walk *w,
                     const struct omap *optional_peers)
{
    static const enum npm_kind kinds[MAPS] = {NPM_DEPENDS, NPM_OPTIONAL, NPM_DEV, NPM_PEER};
    struct npm_relation r = {.kind = kinds[map]};
    QP_TRY(key_text(m, w->key, &r.name));
    if (raw_first(w->value) != '"' || is_elsewhere(m, map, r.name)) {
        return QP_OK; /* npm passes over what is no text */
    }
    if (!raw_text(m->env, m->arena, w->value, &r.spec)) {
        return QP_E_NOMEM;
    }
    if (map == MAP_PEER && omap_get(optional_peers, r.name) != NULL) {
        r.kind = NPM_PEER_OPTIONAL;
    }
    if (++m->count > LIMIT_CARTO_RELATIONS) {
        return err_set(m->err, QP_E_TOO_LARGE,
                       "a version has more than %d dependencies (LIMIT_CARTO_RELATIONS)",
                       LIMIT_CARTO_RELATIONS);
    }
    if (m->count == 1) {
        npm_write_relations(m->out);
    }
    npm_write_relation(m->out, &r);
    return QP_OK;
}

static int write_maps(struct manifest *m)
{
    struct omap optional_peers;
    int rc;
    omap_init(&optional_peers, m->env);
    rc = note_optional_peers(m, &optional_peers);
    for (enum map map = 0; rc == QP_OK && map < MAPS; map++) {
        struct raw_walk w = {.rest = m->maps[map]};
        while (rc == QP_OK && !str_is_none(m->maps[map]) && raw_each(&w)) {
            rc = write_one(m, map, &w, &optional_peers);
        }
    }
    omap_done(&optional_peers);
    return rc;
}

static int read_maps(struct manifest *m)
{
    for (enum map map = 0; map < MAPS; map++) {
        QP_TRY(check_map(m, &m->maps[map]));
    }
    QP_TRY(check_map(m, &m->peer_meta));
    QP_TRY(note_names(m, MAP_DEPENDENCIES));
    QP_TRY(note_names(m, MAP_OPTIONAL));
    QP_TRY(write_maps(m));
    return buf_rc(m->out);
}

int npm_manifest_relations(struct arena *a, qp_str manifest, struct buf *out, struct qp_err *err)
{
    struct manifest m = {.arena = a, .env = a->env, .out = out, .err = err};
    int rc;
    omap_init(&m.names, a->env);
    find_maps(&m, manifest);
    rc = read_maps(&m);
    omap_done(&m.names);
    return rc;
}

/* -------------------------------------------------------------------------------------- packuments */

struct reading {
    struct arena *arena;
    const struct qp_env *env;
    qp_str tags;
    qp_str versions;
    qp_str times;
    struct omap time_of; /* of a version: the text of its time */
    struct omap known;   /* hashes of relations that the sink has got */
    struct buf tag_text;
    struct buf version_text;
    struct buf relations;
    void *context;
    npm_sink sink;
    struct packument *out;
    struct qp_err *err;
};

/* A key of the packument: one with escapes is no name of a version or tag, and is passed over. */
static bool is_usable(qp_str key)
{
    return key.n > 0 && key.n <= LIMIT_NPM_VERSION_SIZE && memchr(key.p, '\\', key.n) == NULL;
}

static int find_members(struct reading *r, qp_str text)
{
    struct raw_walk w = {.rest = text};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("name"))) {
            (void)checked_text(r->env, r->arena, w.value, &r->out->name); /* none: it is no text */
        } else if (str_equal(w.key, QP_STR("dist-tags"))) {
            r->tags = w.value;
        } else if (str_equal(w.key, QP_STR("versions"))) {
            r->versions = w.value;
        } else if (str_equal(w.key, QP_STR("time"))) {
            r->times = w.value;
        } else if (str_equal(w.key, QP_STR("modified"))) {
            r->out->modified = time_of(r->env, r->arena, w.value);
        }
    }
    if (raw_first(r->versions) != '{') {
        return err_set(r->err, QP_E_SHAPE,
                       "it is no packument: it has no object 'versions'; look at what the registry "
                       "answers");
    }
    return QP_OK;
}

static int read_tags(struct reading *r)
{
    struct raw_walk w = {.rest = r->tags};
    QP_TRY(raw_first(r->tags) == '{' ? json_check(r->env, r->tags, NULL, r->err) : QP_OK);
    while (raw_first(r->tags) == '{' && raw_each(&w)) {
        qp_str version = QP_NONE;
        if (is_usable(w.key) && raw_first(w.value) == '"') {
            QP_TRY(raw_text(r->env, r->arena, w.value, &version) ? QP_OK : QP_E_NOMEM);
            npm_write_tag(&r->tag_text, w.key, version);
        }
    }
    return QP_OK;
}

static int read_times(struct reading *r)
{
    struct raw_walk w = {.rest = r->times};
    const struct json_limits limits = {.size = LIMIT_NPM_PACKUMENT_SIZE,
                                       .keys = LIMIT_NPM_PACKUMENT_SIZE};
    r->out->has_times = raw_first(r->times) == '{';
    if (!r->out->has_times) {
        return QP_OK;
    }
    QP_TRY(json_check(r->env, r->times, &limits, r->err));
    while (raw_each(&w)) {
        if (is_usable(w.key)) {
            QP_TRY(omap_put(&r->time_of, w.key, (void *)(uintptr_t)w.value.p, NULL));
        }
    }
    return QP_OK;
}

/* The time of a version: the text stands where its slice begins. */
static qp_ms time_of_version(struct reading *r, qp_str version)
{
    const char *begin = omap_get(&r->time_of, version);
    const char *end;
    if (begin == NULL || *begin == 'n') {
        return NPM_TIME_NONE;
    }
    end = memchr(begin + 1, '"', (size_t)(r->times.p + r->times.n - begin) - 1);
    return *begin != '"' || end == NULL
               ? NPM_TIME_BAD
               : time_of(r->env, r->arena, (qp_str){begin, (size_t)(end - begin) + 1});
}

/* What JavaScript takes for true: a text that is not empty, true, a number that is not 0. */
static bool is_deprecated(qp_str manifest)
{
    struct raw_walk w = {.rest = manifest};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("deprecated"))) {
            char first = raw_first(w.value);
            return first == '"' ? w.value.n > 2 : first != 'f' && first != 'n' && first != '0';
        }
    }
    return false;
}

static int give_relations(struct reading *r, unsigned char hash[NPM_HASH_SIZE])
{
    char text[NPM_HASH_TEXT_SIZE];
    npm_hash(buf_slice(&r->relations), hash);
    npm_hash_text(hash, text);
    if (omap_get(&r->known, str_from(text)) != NULL) {
        return QP_OK;
    }
    QP_TRY(omap_put(&r->known, str_from(text), r, NULL));
    return r->sink(r->context, 'd', text, buf_slice(&r->relations));
}

static int read_version(struct reading *r, qp_str version, qp_str manifest)
{
    struct npm_version v = {.version = version, .relations = QP_STR("")};
    unsigned char hash[NPM_HASH_SIZE];
    int rc;
    buf_reset(&r->relations);
    rc = npm_manifest_relations(r->arena, manifest, &r->relations, r->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOMEM ? rc : err_wrap(r->err, rc, "version %.*s", STR_ARG(version));
    }
    if (r->relations.n > 0) {
        QP_TRY(give_relations(r, hash));
        v.relations = (qp_str){(const char *)hash, sizeof hash};
    }
    v.is_deprecated = is_deprecated(manifest);
    v.time = time_of_version(r, version);
    npm_write_version(&r->version_text, &v);
    r->out->versions++;
    return QP_OK;
}

static int read_versions(struct reading *r)
{
    struct raw_walk w = {.rest = r->versions};
    while (raw_each(&w)) {
        if (is_usable(w.key) && raw_first(w.value) == '{') {
            QP_TRY(read_version(r, w.key, w.value));
        }
    }
    return QP_OK;
}

static int give_document(struct reading *r)
{
    struct npm_document d = {.has_times = r->out->has_times,
                             .tags = buf_slice(&r->tag_text),
                             .versions = buf_slice(&r->version_text)};
    unsigned char hash[NPM_HASH_SIZE];
    QP_TRY(buf_rc(&r->tag_text));
    QP_TRY(buf_rc(&r->version_text));
    buf_reset(&r->relations);
    npm_write_document(&r->relations, &d);
    QP_TRY(buf_rc(&r->relations));
    npm_hash(buf_slice(&r->relations), hash);
    npm_hash_text(hash, r->out->document);
    return r->sink(r->context, 'p', r->out->document, buf_slice(&r->relations));
}

static int read_all(struct reading *r, qp_str text)
{
    /* a readme, and most of what a version says, is only passed over; what is read is checked where it is */
    const struct json_limits limits = {.frame = 1,
                                       .size = LIMIT_NPM_PACKUMENT_SIZE,
                                       .keys = LIMIT_NPM_PACKUMENT_SIZE,
                                       .string_size = LIMIT_NPM_PACKUMENT_SIZE};
    QP_TRY(json_check(r->env, text, &limits, r->err));
    if (raw_first(text) != '{') {
        return err_set(r->err, QP_E_SHAPE, "it is no packument: it is no JSON object");
    }
    QP_TRY(find_members(r, text));
    QP_TRY(read_tags(r));
    QP_TRY(read_times(r));
    QP_TRY(read_versions(r));
    return give_document(r);
}

int packument_read(struct arena *a, qp_str text, void *context, npm_sink sink,
                   struct packument *out, struct qp_err *err)
{
    struct reading r = {
        .arena = a, .env = a->env, .context = context, .sink = sink, .out = out, .err = err};
    int rc;
    *out = (struct packument){.name = QP_NONE, .modified = NPM_TIME_NONE};
    omap_init(&r.time_of, a->env);
    omap_init(&r.known, a->env);
    buf_init(&r.tag_text, a->env, LIMIT_CARTO_FACT_SIZE);
    buf_init(&r.version_text, a->env, LIMIT_CARTO_FACT_SIZE);
    buf_init(&r.relations, a->env, LIMIT_CARTO_FACT_SIZE);
    rc = read_all(&r, text);
    buf_done(&r.relations);
    buf_done(&r.version_text);
    buf_done(&r.tag_text);
    omap_done(&r.known);
    omap_done(&r.time_of);
    if (rc == QP_E_TOO_LARGE && (err == NULL || err->text[0] == '\0')) {
        return err_set(err, rc, "what is kept of it has more than %d bytes (LIMIT_CARTO_FACT_SIZE)",
                       LIMIT_CARTO_FACT_SIZE);
    }
    return rc;
}
