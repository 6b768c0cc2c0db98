/* library.c - compiled applications (see library.h) */
#include "graph/library.h"

#include <pthread.h>

#include "base/mem.h"

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

struct library {
    struct qp_env env;
    pthread_mutex_t lock;
    /* under the lock */
    struct volume *volumes;
    size_t volume_count;
    int64_t uses;
    int64_t looks;
};

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

/* --------------------------------------------------------------------------------------- confirming */

struct confirming {
    struct library *library;
    int64_t look; /* of many: which one this is */
};

/* A version that is there, and as it was compiled. */
static int confirm_one(void *context, const void *row)
{
    struct confirming *f = context;
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

/* A version may be deleted, and come again with another text: what was compiled of it is not what jobs begin with then. */
int library_confirm(struct library *l, const struct look *at)
{
    struct confirming f = {.library = l};
    struct scan scan = {.table = TABLE_app, .index = -1, .limit = SIZE_MAX, .slim = true};
    (void)pthread_mutex_lock(&l->lock);
    f.look = ++l->looks;
    for (struct volume *v = l->volumes; v != NULL; v = v->next) {
        v->confirmed = v->confirmed == 0 ? f.look - 1 : v->confirmed;
    }
    (void)pthread_mutex_unlock(&l->lock);
    QP_TRY(look_each(at, &scan, &f, confirm_one));
    (void)pthread_mutex_lock(&l->lock);
    for (struct volume *v = l->volumes; v != NULL; v = v->next) {
        v->gone = v->gone || (v->confirmed != 0 && v->confirmed < f.look);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return QP_OK;
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
