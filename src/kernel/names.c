/* names.c - the table of names: loaded from rows, checked once per commit (see names.h)
 *
 *   I1  what a commit finds here is not older than the definitions that it began with
 *   I2  a table that was read inside of a commit which changes definitions is of that commit's serial, so no other
 *       commit takes it for its own
 *   I3  the table is replaced as a whole, after all of it was read
 *
 * If we crash, nothing is lost: the rows are the truth.
 */
#include "kernel/names.h"

#include <pthread.h>

#include "base/failpoint.h"
#include "base/omap.h"
#include "kernel/face.h"

/* What stands behind a key of the table. */
struct entry {
    int64_t kind;
    size_t size;
    char version[]; /* "app/version" */
};

#define NO_FACE (-2) /* entry.kind: the row is of a kind that has no face here */

struct names {
    struct qp_env env;
    const struct faces *faces;
    pthread_mutex_t lock;
    /* under the lock */
    struct omap entries;      /* name_key -> struct entry */
    struct definitions known; /* of which these are; number -1: of none */
};

/* ---------------------------------------------------------------------------------------- versions */

int version_name(struct arena *a, qp_str app, qp_str version, qp_str *out_name)
{
    char *p = arena_bytes(a, app.n + version.n + 1);
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(p, app.p, app.n);
    p[app.n] = '/';
    memcpy(p + app.n + 1, version.p, version.n);
    *out_name = (qp_str){p, app.n + version.n + 1};
    return QP_OK;
}

bool version_split(qp_str name, qp_str *out_app, qp_str *out_version)
{
    const char *slash = name.n > 0 ? memchr(name.p, '/', name.n) : NULL;
    if (slash == NULL) {
        return false;
    }
    *out_app = (qp_str){name.p, (size_t)(slash - name.p)};
    *out_version = (qp_str){slash + 1, name.n - out_app->n - 1};
    return true;
}

/* ----------------------------------------------------------------------------------------- the table */

int look_each(const struct look *at, const struct scan *scan, void *context, store_visit visit)
{
    QP_ASSERT((at->bundle != NULL) != (at->store != NULL));
    return at->bundle != NULL ? bundle_each(at->bundle, scan, context, visit)
                              : store_scan(at->store, scan, context, visit, at->err);
}

int names_create(const struct qp_env *env, const struct faces *faces, struct names **out_names)
{
    struct names *n = mem_alloc(env, sizeof *n);
    if (n == NULL) {
        return QP_E_NOMEM;
    }
    n->env = *env;
    n->faces = faces;
    n->known.number = -1;
    omap_init(&n->entries, &n->env);
    if (pthread_mutex_init(&n->lock, NULL) != 0) {
        mem_free(env, n);
        return QP_E_NOMEM;
    }
    *out_names = n;
    return QP_OK;
}

static void entries_clear(struct names *n, struct omap *entries)
{
    for (struct omap_node *at = omap_seek(entries, QP_STR("")); at != NULL; at = omap_next(at)) {
        mem_free(&n->env, omap_value(at));
    }
    omap_done(entries);
}

void names_destroy(struct names *n)
{
    struct qp_env env;
    if (n == NULL) {
        return;
    }
    entries_clear(n, &n->entries);
    (void)pthread_mutex_destroy(&n->lock);
    env = n->env;
    mem_free(&env, n);
}

#define NAME_KEY_SIZE (32 + LIMIT_NAME_SIZE)

static qp_str name_key(char text[NAME_KEY_SIZE], int64_t ns, enum name_use use, qp_str name)
{
    size_t n = name.n < LIMIT_NAME_SIZE ? name.n : LIMIT_NAME_SIZE;
    memcpy(text, &ns, sizeof ns);
    text[sizeof ns] = (char)use;
    memcpy(text + sizeof ns + 1, name.p, n);
    return (qp_str){text, sizeof ns + 1 + n};
}

/* --------------------------------------------------------------------------------------------- looking */

struct loading {
    struct names *names;
    struct omap entries;
};

/* Whose row it is, and for what. */
static int64_t kind_of_row(const struct faces *faces, int64_t row_kind, enum name_use *out_use)
{
    *out_use = row_kind == APP_TOPIC_HOOK ? NAME_HOOK : NAME_START;
    for (size_t i = 0; i < faces->count; i++) {
        const struct face *face = faces->all[i].face;
        if ((*out_use == NAME_HOOK ? face->hook_kind : face->name_kind) == row_kind) {
            return face->kind;
        }
    }
    return NO_FACE;
}

static int load_one(void *context, const void *row)
{
    struct loading *l = context;
    const struct app_topic_row *topic = row;
    char key[NAME_KEY_SIZE];
    size_t size = topic->app.n + 1 + topic->version.n;
    struct entry *e = mem_alloc(&l->names->env, sizeof *e + size);
    enum name_use use;
    int rc;
    if (e == NULL) {
        return QP_E_NOMEM;
    }
    e->kind = kind_of_row(l->names->faces, topic->kind, &use);
    e->size = size;
    memcpy(e->version, topic->app.p, topic->app.n);
    e->version[topic->app.n] = '/';
    memcpy(e->version + topic->app.n + 1, topic->version.p, topic->version.n);
    rc = omap_put(&l->entries, name_key(key, topic->ns, use, topic->topic), e, NULL);
    if (rc != QP_OK) {
        mem_free(&l->names->env, e);
    }
    return rc;
}

/* Each face drops what it keeps of definitions that are gone. */
static int faces_look(const struct faces *faces, const struct look *at)
{
    for (size_t i = 0; i < faces->count; i++) {
        const struct faced *f = &faces->all[i];
        if (f->face->refresh != NULL) {
            QP_TRY(f->face->refresh(f->state, at));
        }
    }
    return QP_OK;
}

static int load_all(struct loading *l, const struct look *at)
{
    struct scan scan = {.table = TABLE_app_topic, .index = -1, .limit = LIMIT_APP_TOPICS};
    QP_TRY(look_each(at, &scan, l, load_one));
    return faces_look(l->names->faces, at);
}

/* All of them, and only then they are what is known. */
static int look_again(struct names *n, const struct look *at, struct definitions of)
{
    struct loading l = {.names = n};
    int rc;
    omap_init(&l.entries, &n->env);
    rc = load_all(&l, at);
    if (rc == QP_OK) {
        struct omap old;
        (void)pthread_mutex_lock(&n->lock);
        old = n->entries;
        n->entries = l.entries;
        n->known = of;
        l.entries = old;
        (void)pthread_mutex_unlock(&n->lock);
    }
    entries_clear(n, &l.entries);
    return rc;
}

/* The number is read first: what is read later may be newer than it says, and never older. */
int names_refresh(struct names *n, struct store *s, struct qp_err *err)
{
    struct look at = {.store = s, .err = err};
    struct definitions of = {0};
    struct arena arena;
    const void *row = NULL;
    int rc;
    arena_init(&arena, &n->env, 0);
    rc = store_get(s, &arena, TABLE_definition, &(struct definition_row){.ns = 0}, &row, err);
    if (rc == QP_OK) {
        of.number = ((const struct definition_row *)row)->n;
    }
    arena_done(&arena);
    return rc == QP_OK || rc == QP_E_NOT_FOUND ? look_again(n, &at, of) : rc;
}

/* In a commit: what is known is not less than what the commit has. */
static int look_in(struct names *n, struct bundle *b)
{
    struct look at = {.bundle = b};
    struct definitions now;
    bool fresh;
    QP_TRY(bundle_definitions(b, &now));
    (void)pthread_mutex_lock(&n->lock);
    fresh = n->known.serial == now.serial && n->known.number >= now.number;
    (void)pthread_mutex_unlock(&n->lock);
    return fresh || PLANT(stale_names) ? QP_OK : look_again(n, &at, now);
}

/* --------------------------------------------------------------------------------------------- asking */

int names_find(struct names *n, struct bundle *b, struct arena *a, int64_t ns, enum name_use use,
               qp_str name, struct meaning *out_meaning)
{
    struct meaning found = {.kind = MEANS_NOTHING};
    char key[NAME_KEY_SIZE];
    const struct entry *e;
    int rc = QP_OK;
    QP_ASSERT(name.p != NULL);
    if (b != NULL) {
        QP_TRY(look_in(n, b));
    }
    (void)pthread_mutex_lock(&n->lock);
    e = omap_get(&n->entries, name_key(key, ns, use, name));
    if (e != NULL) {
        found.kind = e->kind;
        rc = arena_copy(a, (qp_str){e->version, e->size}, &found.version) ? QP_OK : QP_E_NOMEM;
    }
    (void)pthread_mutex_unlock(&n->lock);
    QP_TRY(rc);
    if (found.kind == NO_FACE) {
        return QP_E_UNSUPPORTED;
    }
    *out_meaning = found;
    return QP_OK;
}

int names_have_room(struct names *n, struct bundle *b, size_t count, bool *out_room)
{
    QP_TRY(look_in(n, b));
    (void)pthread_mutex_lock(&n->lock);
    *out_room = count <= LIMIT_APP_TOPICS && n->entries.count <= LIMIT_APP_TOPICS - count;
    (void)pthread_mutex_unlock(&n->lock);
    return QP_OK;
}
