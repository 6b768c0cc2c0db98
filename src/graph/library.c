/* library.c - compiled applications and the meaning of topics (see library.h) */
#include "graph/library.h"

#include <pthread.h>

#include "base/failpoint.h"
#include "base/omap.h"

struct volume {
    struct app *app;
    struct volume *next;
    int64_t ns;
    int64_t pins;
    int64_t used;      /* by the count of uses: who was used least lately goes first */
    qp_ms created_at;  /* of its row: another version of the same name has another */
    int64_t confirmed; /* by which look its row was seen last; 0: there was none since it is here */
    bool gone;         /* its row is: nobody gets it any more */
    size_t name_size;
    char name[]; /* "app/version" */
};

struct meaning {
    size_t size;
    char version[]; /* its name */
};

struct library {
    struct qp_env env;
    pthread_mutex_t lock;
    /* under the lock */
    struct volume *volumes;
    size_t volume_count;
    int64_t uses;
    int64_t looks;
    struct omap topics;       /* topic_key -> struct meaning */
    struct definitions known; /* of which these are; number -1: of none */
};

/* ----------------------------------------------------------------------------------------- names */

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

/* --------------------------------------------------------------------------------------- readers */

static int read_between(void *context, enum table_id table, const void *key, const void **out_row)
{
    struct between *b = context;
    int rc = store_get(b->store, b->arena, table, key, out_row, NULL);
    if (rc == QP_E_NOT_FOUND) {
        *out_row = NULL;
        rc = QP_OK;
    }
    return rc;
}

struct row_reader reader_between(struct between *between)
{
    return (struct row_reader){between, read_between, NULL};
}

static int read_in(void *context, enum table_id table, const void *key, const void **out_row)
{
    return bundle_get(context, table, key, out_row);
}

struct row_reader reader_in(struct bundle *bundle)
{
    return (struct row_reader){bundle, read_in, bundle};
}

/* --------------------------------------------------------------------------------------- volumes */

int library_create(const struct qp_env *env, struct library **out_library)
{
    struct library *l = mem_alloc(env, sizeof *l);
    if (l == NULL) {
        return QP_E_NOMEM;
    }
    l->env = *env;
    l->looks = 1;
    l->known.number = -1;
    omap_init(&l->topics, &l->env);
    if (pthread_mutex_init(&l->lock, NULL) != 0) {
        mem_free(env, l);
        return QP_E_NOMEM;
    }
    *out_library = l;
    return QP_OK;
}

static void volume_free(struct library *l, struct volume *v)
{
    app_free(v->app);
    mem_free(&l->env, v);
}

static void topics_clear(struct library *l, struct omap *topics)
{
    for (struct omap_node *n = omap_seek(topics, QP_STR("")); n != NULL; n = omap_next(n)) {
        mem_free(&l->env, omap_value(n));
    }
    omap_done(topics);
}

void library_destroy(struct library *l)
{
    struct qp_env env;
    if (l == NULL) {
        return;
    }
    while (l->volumes != NULL) {
        struct volume *v = l->volumes;
        l->volumes = v->next;
        volume_free(l, v);
    }
    topics_clear(l, &l->topics);
    (void)pthread_mutex_destroy(&l->lock);
    env = l->env;
    mem_free(&env, l);
}

const struct qp_env *library_env(const struct library *l)
{
    return &l->env;
}

static bool is_volume(const struct volume *v, int64_t ns, qp_str name)
{
    return !v->gone && v->ns == ns && str_equal((qp_str){v->name, v->name_size}, name);
}

/* Under the lock. */
static struct volume *volume_find(struct library *l, int64_t ns, qp_str name)
{
    struct volume *v = l->volumes;
    while (v != NULL && !is_volume(v, ns, name)) {
        v = v->next;
    }
    if (v != NULL) {
        v->used = ++l->uses;
    }
    return v;
}

/* Compiled without the lock: two threads may do it at once, and the second one's goes. */
static int volume_make(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                       struct volume **out_volume)
{
    struct app_row key = {.ns = ns};
    const void *row = NULL;
    struct arena arena;
    struct report report;
    struct volume *v = NULL;
    int rc = version_split(name, &key.app, &key.version) ? QP_OK : QP_E_NOT_FOUND;
    rc = rc == QP_OK ? reader->get(reader->context, TABLE_app, &key, &row) : rc;
    if (rc != QP_OK || row == NULL) {
        return rc != QP_OK ? rc : QP_E_NOT_FOUND;
    }
    v = mem_alloc(&l->env, sizeof *v + name.n);
    if (v == NULL) {
        return QP_E_NOMEM;
    }
    v->ns = ns;
    v->created_at = ((const struct app_row *)row)->created_at;
    v->name_size = name.n;
    memcpy(v->name, name.p, name.n);
    arena_init(&arena, &l->env, 0);
    report_init(&report, &arena);
    rc = app_compile(&l->env, ((const struct app_row *)row)->source, &report, &v->app);
    arena_done(&arena);
    if (rc != QP_OK) {
        mem_free(&l->env, v);
        return rc;
    }
    *out_volume = v;
    return QP_OK;
}

/* Under the lock: takes it up, unless another was faster. */
static struct volume *volume_add(struct library *l, struct volume *v)
{
    struct volume *there = volume_find(l, v->ns, (qp_str){v->name, v->name_size});
    if (there != NULL) {
        volume_free(l, v);
        return there;
    }
    v->next = l->volumes;
    v->used = ++l->uses;
    l->volumes = v;
    l->volume_count++;
    return v;
}

static int take(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                int64_t pins, const struct app **out_app)
{
    struct volume *v;
    int rc = QP_OK;
    (void)pthread_mutex_lock(&l->lock);
    v = volume_find(l, ns, name);
    if (v == NULL) {
        (void)pthread_mutex_unlock(&l->lock);
        rc = volume_make(l, reader, ns, name, &v);
        (void)pthread_mutex_lock(&l->lock);
        v = rc == QP_OK ? volume_add(l, v) : NULL;
    }
    if (v != NULL) {
        v->pins += pins;
        *out_app = v->app;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return rc;
}

int library_app(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                const struct app **out_app)
{
    return take(l, reader, ns, name, 0, out_app);
}

int library_pin(struct library *l, const struct row_reader *reader, int64_t ns, qp_str name,
                const struct app **out_app)
{
    return take(l, reader, ns, name, 1, out_app);
}

void library_unpin(struct library *l, const struct app *app)
{
    (void)pthread_mutex_lock(&l->lock);
    for (struct volume *v = l->volumes; v != NULL; v = v->next) {
        v->pins -= v->app == app;
    }
    (void)pthread_mutex_unlock(&l->lock);
}

/* Under the lock: what was deleted and nobody looks at any more. */
static void volumes_sweep(struct library *l)
{
    struct volume **at = &l->volumes;
    while (*at != NULL) {
        struct volume *v = *at;
        if (v->gone && v->pins == 0) {
            *at = v->next;
            l->volume_count--;
            volume_free(l, v);
        } else {
            at = &v->next;
        }
    }
}

/* Under the lock: the one that can go and was used least lately. */
static struct volume **volume_oldest(struct library *l)
{
    struct volume **oldest = NULL;
    for (struct volume **at = &l->volumes; *at != NULL; at = &(*at)->next) {
        if ((*at)->pins == 0 && (oldest == NULL || (*at)->used < (*oldest)->used)) {
            oldest = at;
        }
    }
    return oldest;
}

void library_tidy(struct library *l)
{
    (void)pthread_mutex_lock(&l->lock);
    volumes_sweep(l);
    while (l->volume_count > LIMIT_APPS_KNOWN) {
        struct volume **at = volume_oldest(l);
        struct volume *gone;
        if (at == NULL) {
            break;
        }
        gone = *at;
        *at = gone->next;
        l->volume_count--;
        volume_free(l, gone);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

/* ---------------------------------------------------------------------------------------- topics */

#define TOPIC_KEY_SIZE (32 + LIMIT_NAME_SIZE)

static qp_str topic_key(char text[TOPIC_KEY_SIZE], int64_t ns, enum topic_kind kind, qp_str topic)
{
    size_t n = topic.n < LIMIT_NAME_SIZE ? topic.n : LIMIT_NAME_SIZE;
    memcpy(text, &ns, sizeof ns);
    text[sizeof ns] = (char)kind;
    memcpy(text + sizeof ns + 1, topic.p, n);
    return (qp_str){text, sizeof ns + 1 + n};
}

struct refreshing {
    struct library *library;
    struct omap topics;
    int64_t look; /* of many: which one this is */
};

/* A version that is there, and as it was compiled. */
static int confirm_one(void *context, const void *row)
{
    struct refreshing *f = context;
    const struct app_row *app = row;
    char name[2 * LIMIT_NAME_SIZE + 1];
    size_t size = app->app.n + 1 + app->version.n;
    struct volume *v;
    QP_ASSERT(size <= sizeof name);
    memcpy(name, app->app.p, app->app.n);
    name[app->app.n] = '/';
    memcpy(name + app->app.n + 1, app->version.p, app->version.n);
    (void)pthread_mutex_lock(&f->library->lock);
    v = f->library->volumes;
    while (v != NULL && !is_volume(v, app->ns, (qp_str){name, size})) {
        v = v->next;
    }
    if (v != NULL && v->created_at == app->created_at) {
        v->confirmed = f->look;
    }
    (void)pthread_mutex_unlock(&f->library->lock);
    return QP_OK;
}

/* All rows of a range: of a commit, or between two. */
struct looking {
    struct bundle *bundle;
    struct store *store;
    struct qp_err *err;
};

static int look_at(const struct looking *at, const struct scan *scan, struct refreshing *f,
                   store_visit visit)
{
    return at->bundle != NULL ? bundle_each(at->bundle, scan, f, visit)
                              : store_scan(at->store, scan, f, visit, at->err);
}

/* A version may be deleted, and come again with another text: what was compiled of it is not what jobs begin with then. */
static int confirm_volumes(struct refreshing *f, const struct looking *at)
{
    struct library *l = f->library;
    struct scan scan = {.table = TABLE_app, .index = -1, .limit = SIZE_MAX, .slim = true};
    (void)pthread_mutex_lock(&l->lock);
    f->look = ++l->looks;
    for (struct volume *v = l->volumes; v != NULL; v = v->next) {
        v->confirmed = v->confirmed == 0 ? f->look - 1 : v->confirmed;
    }
    (void)pthread_mutex_unlock(&l->lock);
    QP_TRY(look_at(at, &scan, f, confirm_one));
    (void)pthread_mutex_lock(&l->lock);
    for (struct volume *v = l->volumes; v != NULL; v = v->next) {
        v->gone = v->gone || (v->confirmed != 0 && v->confirmed < f->look);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return QP_OK;
}

static int refresh_one(void *context, const void *row)
{
    struct refreshing *f = context;
    const struct app_topic_row *topic = row;
    char key[TOPIC_KEY_SIZE];
    size_t size = topic->app.n + 1 + topic->version.n;
    struct meaning *m = mem_alloc(&f->library->env, sizeof *m + size);
    int rc;
    if (m == NULL) {
        return QP_E_NOMEM;
    }
    m->size = size;
    memcpy(m->version, topic->app.p, topic->app.n);
    m->version[topic->app.n] = '/';
    memcpy(m->version + topic->app.n + 1, topic->version.p, topic->version.n);
    rc = omap_put(&f->topics, topic_key(key, topic->ns, (enum topic_kind)topic->kind, topic->topic),
                  m, NULL);
    if (rc != QP_OK) {
        mem_free(&f->library->env, m);
    }
    return rc;
}

/* All of them, and only then they are what is known. */
static int refresh(struct library *l, const struct looking *at, struct definitions of)
{
    struct refreshing f = {.library = l};
    struct scan scan = {.table = TABLE_app_topic, .index = -1, .limit = LIMIT_APP_TOPICS};
    int rc;
    omap_init(&f.topics, &l->env);
    rc = look_at(at, &scan, &f, refresh_one);
    if (rc == QP_OK) {
        rc = confirm_volumes(&f, at);
    }
    if (rc == QP_OK) {
        struct omap old;
        (void)pthread_mutex_lock(&l->lock);
        old = l->topics;
        l->topics = f.topics;
        l->known = of;
        f.topics = old;
        (void)pthread_mutex_unlock(&l->lock);
    }
    topics_clear(l, &f.topics);
    return rc;
}

/* The number is read first: what is read later may be newer than it says, and never older. */
int library_refresh(struct library *l, struct store *s, struct qp_err *err)
{
    struct looking at = {.store = s, .err = err};
    struct definitions of = {0};
    struct arena arena;
    const void *row = NULL;
    int rc;
    arena_init(&arena, &l->env, 0);
    rc = store_get(s, &arena, TABLE_definition, &(struct definition_row){.ns = 0}, &row, err);
    if (rc == QP_OK) {
        of.number = ((const struct definition_row *)row)->n;
    }
    arena_done(&arena);
    return rc == QP_OK || rc == QP_E_NOT_FOUND ? refresh(l, &at, of) : rc;
}

/* In a commit: what is known is not less than what the commit has. */
static int look_in(struct library *l, struct bundle *b)
{
    struct looking at = {.bundle = b};
    struct definitions now;
    bool fresh;
    QP_TRY(bundle_definitions(b, &now));
    (void)pthread_mutex_lock(&l->lock);
    fresh = l->known.serial == now.serial && l->known.number >= now.number;
    (void)pthread_mutex_unlock(&l->lock);
    return fresh || PLANT(stale_names) ? QP_OK : refresh(l, &at, now);
}

int library_topic(struct library *l, const struct row_reader *reader, struct arena *a, int64_t ns,
                  enum topic_kind kind, qp_str topic, qp_str *out_name)
{
    char key[TOPIC_KEY_SIZE];
    const struct meaning *m;
    int rc = QP_OK;
    *out_name = QP_NONE;
    if (reader->bundle != NULL) {
        QP_TRY(look_in(l, reader->bundle));
    }
    (void)pthread_mutex_lock(&l->lock);
    m = omap_get(&l->topics, topic_key(key, ns, kind, topic));
    if (m != NULL && !arena_copy(a, (qp_str){m->version, m->size}, out_name)) {
        rc = QP_E_NOMEM;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return rc;
}

int library_is_open(const struct row_reader *reader, int64_t ns, qp_str name, bool *out_open)
{
    struct app_row key = {.ns = ns};
    const void *row = NULL;
    *out_open = false;
    if (!version_split(name, &key.app, &key.version)) {
        return QP_OK;
    }
    QP_TRY(reader->get(reader->context, TABLE_app, &key, &row));
    *out_open = row != NULL && ((const struct app_row *)row)->state != APP_DELETED;
    return QP_OK;
}

int library_has_room(struct library *l, struct bundle *b, size_t topics, bool *out_room)
{
    QP_TRY(look_in(l, b));
    (void)pthread_mutex_lock(&l->lock);
    *out_room = topics <= LIMIT_APP_TOPICS && l->topics.count <= LIMIT_APP_TOPICS - topics;
    (void)pthread_mutex_unlock(&l->lock);
    return QP_OK;
}
