/* readers.c - connections for reading, and the numbers of namespaces (see readers.h)
 *
 * If we crash here, nothing has happened: readers write nothing.
 */
#include "run/readers.h"

#include <time.h>

#include "base/cond.h"
#include "kernel/query.h"
#include "run/handle.h"
#include "run/loop.h"

/* ---------------------------------------------------------------------------------------- readers */

int readers_init(struct readers *r)
{
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        return QP_E_NOMEM;
    }
    cond_init_monotonic(&r->changed);
    return QP_OK;
}

void readers_close(struct readers *r)
{
    QP_ASSERT(r->open_count == r->free_count); /* no read runs while the handle closes */
    while (r->free_count > 0) {
        (void)store_close(r->free[--r->free_count], NULL); /* nothing was written */
        r->open_count--;
    }
}

void readers_done(struct readers *r, const struct qp_env *env)
{
    readers_close(r);
    while (r->spaces != NULL) {
        struct known_space *space = r->spaces;
        r->spaces = space->next;
        mem_free(env, space);
    }
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->lock);
}

/* Under the readers' lock, which is released meanwhile: until one is given back, or the time (0: any) is over, which
 * is false. */
static bool reader_await(const qp *q, struct readers *r, int64_t until_us)
{
    struct timespec until;
    int64_t left_us = until_us - q->env.monotonic_us(q->env.context);
    if (until_us == 0) {
        return pthread_cond_wait(&r->changed, &r->lock) == 0;
    }
    if (left_us <= 0) {
        return false;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += left_us % 1000000 * 1000;
    until.tv_sec += left_us / 1000000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&r->changed, &r->lock, &until); /* or less */
    return true;
}

/* A connection that is free, or NULL: another may be opened. */
static int reader_take(qp *q, struct store **out_store, struct qp_err *err)
{
    struct readers *r = &q->readers;
    int64_t until_us = asker_until_us(&q->driver);
    bool in_time = true;
    struct store *s = NULL;
    (void)pthread_mutex_lock(&r->lock);
    while (in_time && r->free_count == 0 && r->open_count == LIMIT_READERS) {
        in_time = reader_await(q, r, until_us);
    }
    if (in_time) {
        s = r->free_count > 0 ? r->free[--r->free_count] : NULL;
        r->open_count += s == NULL;
    }
    (void)pthread_mutex_unlock(&r->lock);
    *out_store = s;
    return in_time ? QP_OK : err_set(err, QP_E_TIMEOUT, "%s", call_late_text());
}

/* Whether a driver that runs has found the database away. Where none runs, only a read can find out that it is back. */
static bool is_away(qp *q)
{
    struct driver *d = &q->driver;
    bool away;
    (void)pthread_mutex_lock(&d->lock);
    away = d->running && d->away;
    (void)pthread_mutex_unlock(&d->lock);
    return away;
}

/* NULL: it is gone, and another may be opened in its place. */
static void reader_give(struct readers *r, struct store *s)
{
    (void)pthread_mutex_lock(&r->lock);
    if (s != NULL) {
        r->free[r->free_count++] = s;
    } else {
        r->open_count--;
    }
    (void)pthread_cond_signal(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
}

/* A database that cannot be connected to is worth another try later. */
static int err_again(struct qp_err *err, int rc)
{
    if (err != NULL) {
        err->code = rc;
    }
    return rc;
}

static int read_here(qp *q, void *context, reads_body body, struct qp_err *err)
{
    struct store_options options = {
        .path = q->path, .read_only = true, .must_exist = true, .accept_loss = q->accept_loss};
    struct store *s = NULL;
    struct store_info info;
    int rc;
    if (is_away(q)) {
        return err_set(err, QP_E_BUSY, "the database is away");
    }
    QP_TRY(reader_take(q, &s, err));
    rc = s == NULL ? store_open(&q->env, &options, &s, err) : QP_OK;
    if (rc != QP_OK) {
        reader_give(&q->readers, NULL);
        return rc == QP_E_IO && q->shared ? err_again(err, QP_E_BUSY) : rc;
    }
    rc = body(context, s, err);
    store_info(s, &info);
    if (info.refusing) {
        (void)store_close(s, NULL); /* nothing was written */
        s = NULL;
    }
    reader_give(&q->readers, s);
    return rc;
}

struct reading_call {
    struct call call;
    void *context;
    reads_body body;
};

static void reading_execute(qp *q, struct call *c)
{
    struct reading_call *r = (struct reading_call *)c;
    call_done(&q->driver, c, r->body(r->context, q->store, c->err));
}

int reads_do(qp *q, void *context, reads_body body, struct qp_err *err)
{
    struct reading_call r = {
        .call = {.execute = reading_execute, .q = q}, .context = context, .body = body};
    if (driver_in_callback(&q->driver)) {
        return err_set(err, QP_E_INVALID,
                       "called from a callback of the engine, where nothing may wait");
    }
    return q->path == NULL ? call_do(&q->driver, &r.call, err) : read_here(q, context, body, err);
}

/* ------------------------------------------------------------------------------------- namespaces */

static bool space_known(struct readers *r, qp_str name, int64_t *out_ns)
{
    const struct known_space *space;
    (void)pthread_mutex_lock(&r->lock);
    space = r->spaces;
    while (space != NULL && !str_equal((qp_str){space->name, space->size}, name)) {
        space = space->next;
    }
    if (space != NULL) {
        *out_ns = space->ns;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return space != NULL;
}

/* Without memory the namespace is read again next time. A name never changes its number, so none is ever wrong. */
static void space_learn(qp *q, qp_str name, int64_t ns)
{
    struct readers *r = &q->readers;
    struct known_space *space = mem_alloc(&q->env, sizeof *space);
    QP_ASSERT(name.n <= sizeof space->name);
    if (space == NULL) {
        return;
    }
    *space = (struct known_space){.ns = ns, .size = name.n};
    memcpy(space->name, name.p, name.n);
    (void)pthread_mutex_lock(&r->lock);
    space->next = r->spaces;
    r->spaces = space;
    (void)pthread_mutex_unlock(&r->lock);
}

struct space_read {
    qp_str name;
    int64_t ns;
};

static int read_space(void *context, struct store *s, struct qp_err *err)
{
    struct space_read *r = context;
    return query_space(s, r->name, &r->ns, err);
}

int space_number(qp *q, qp_str name, int64_t *out_ns, struct qp_err *err)
{
    struct space_read r = {.name = name};
    int rc;
    if (str_is_none(name) || (q->ns != 0 && str_equal(name, str_from(q->ns_name)))) {
        *out_ns = q->ns;
        return QP_OK;
    }
    if (space_known(&q->readers, name, out_ns)) {
        return QP_OK;
    }
    /* In a callback the store is ours, and what was committed can be read. */
    rc = driver_in_callback(&q->driver) ? read_space(&r, q->store, err)
                                        : reads_do(q, &r, read_space, err);
    if (rc != QP_OK) {
        return rc;
    }
    space_learn(q, name, r.ns);
    *out_ns = r.ns;
    return QP_OK;
}
