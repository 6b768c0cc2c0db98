/* store.c - a store handle: opening, the clean-shutdown mark, closing, transactions without bundles
 *
 * Commits are in execute.c, reads in reads.c, the clock in clock.c; store_internal.h says what they share.
 *
 * If we crash while a store is open, its head row says IN_USE: the next one that opens it knows.
 */
#include "store/store_internal.h"

#include "base/env.h"

int store_head(struct provider *p, struct head_row *out_head, struct qp_err *err)
{
    struct arena arena;
    void *row = NULL;
    int rc;
    arena_init(&arena, p->env, 0);
    rc = p->calls->load(p, &arena, TABLE_head, &(struct head_row){.ns = 0}, &row, err);
    if (rc == QP_OK && row == NULL) {
        rc = err_set(err, QP_E_CORRUPT, "the head row is missing: the file is damaged");
    }
    if (rc == QP_OK) {
        *out_head = *(const struct head_row *)row;
    }
    arena_done(&arena);
    return rc;
}

void store_heed(struct store *s, const struct head_row *head)
{
    clock_heed(s, head->clock);
    s->marks = s->owns_mark && (head->clean == HEAD_IN_USE || head->clean == HEAD_CLEAN);
}

/* Half of a copy is of no use to anybody, and what has moved on must not go on in two places. A URL is
 * not repeated: it may have a password. */
static int state_check(struct store *s, const struct store_options *options, int64_t state,
                       struct qp_err *err)
{
    bool is_file = options->path != NULL && strstr(options->path, "://") == NULL;
    const char *name = is_file ? options->path : "the store";
    const char *quote = is_file ? "'" : "";
    char target[LIMIT_STORE_NAME_SIZE] = "";
    int rc;
    if (options->moving || (state == HEAD_MOVED && options->read_only)) {
        return QP_OK;
    }
    if (state == HEAD_FILLING) {
        return err_set(err, QP_E_CONFLICT,
                       "%s%s%s: is half of a copy that was cut off; run the same quipu migrate "
                       "again, or remove it",
                       quote, name, quote);
    }
    rc = state == HEAD_MOVED ? store_moved_to(s, target, err) : QP_OK;
    return rc == QP_OK && state == HEAD_MOVED
               ? err_set(err, QP_E_READONLY,
                         "%s%s%s: was moved to %s; work there, this can be read only", quote, name,
                         quote, target)
               : rc;
}

/* Reads the head row: where the clock stands, and whether it is a store to work on. */
static int store_enter(struct store *s, const struct store_options *options, struct qp_err *err)
{
    struct head_row head;
    int rc = store_head(s->provider, &head, err);
    if (rc == QP_OK) {
        clock_begin(s);
        s->owns_mark = s->writable && options->memory == NULL && !s->provider->shared;
        store_heed(s, &head);
        s->provider->opened_unclean =
            s->writable && head.clean == HEAD_IN_USE; /* a reader may have a writer beside it */
        rc = state_check(s, options, head.clean, err);
    }
    return rc;
}

int store_transact(struct store *s, void *context, store_change change, struct qp_err *err)
{
    struct provider *p = s->provider;
    struct arena arena;
    struct txn t;
    int rc;
    store_settle(s);
    rc = store_stopped_by(s) != QP_OK
             ? err_set(err, store_stopped_by(s), "the store has stopped working")
         : !s->writable ? err_set(err, QP_E_READONLY, "the store is opened for reading only")
                        : p->calls->begin(p, err);
    if (rc != QP_OK) {
        return rc;
    }
    arena_init(&arena, &s->env, 0);
    rc = txn_init(&t, s, p, &arena, 0, err);
    t.begun = true;
    if (rc == QP_OK) {
        t.now = store_now(s);
        txn_begin_op(&t);
        rc = change(context, &t);
        rc = rc == QP_OK ? txn_flush(&t) : rc;
    }
    rc = rc == QP_OK ? p->calls->commit(p, err) : rc;
    if (rc != QP_OK) {
        p->calls->rollback(p);
    }
    if (qp_code_class(rc) == QP_CLASS_FATAL || rc == QP_E_UNKNOWN_OUTCOME) {
        s->refusing = rc == QP_E_UNKNOWN_OUTCOME ? QP_E_FSYNC : rc;
    }
    store_forget(s);
    txn_done(&t);
    arena_done(&arena);
    return rc;
}

static bool is_url(const char *path)
{
    return strncmp(path, "postgres://", 11) == 0 || strncmp(path, "postgresql://", 13) == 0;
}

static int mark_head(void *context, struct txn *t)
{
    const enum head_state *state = context;
    struct head_row *head = txn_edit(t, TABLE_head, &(struct head_row){.ns = 0});
    if (head != NULL) {
        head->clean = *state;
        head->clock = t->now;
    }
    return t->rc;
}

/* Marks the file as in use when it is opened, so that a missing mark means a crash. */
static int store_mark(struct store *s, enum head_state state, struct qp_err *err)
{
    return store_transact(s, &state, mark_head, err);
}

static int provider_open(struct store *s, const struct store_options *options, struct qp_err *err)
{
    return options->path == NULL   ? memory_open(&s->env, options, &s->provider, err)
           : is_url(options->path) ? postgres_open(&s->env, options, &s->provider, err)
                                   : sqlite_open(&s->env, options, &s->provider, err);
}

static int cache_open(struct store *s, const struct store_options *options, struct qp_err *err)
{
    if (!s->provider->exclusive && (!s->provider->shared || !s->writable)) {
        return QP_OK;
    }
    s->cache =
        cache_create(&s->env, options->cache_size > 0 ? options->cache_size : LIMIT_CACHE_SIZE);
    return s->cache == NULL ? err_set(err, QP_E_NOMEM, "open store: out of memory") : QP_OK;
}

int store_open(const struct qp_env *env, const struct store_options *options,
               struct store **out_store, struct qp_err *err)
{
    struct store *s = mem_alloc(env, sizeof *s);
    int rc;
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "open store: out of memory");
    }
    s->env = *env;
    s->writable = !options->read_only;
    s->definitions = -1;
    rc = s->env.entropy(s->env.context, &s->hash_seed, sizeof s->hash_seed);
    if (rc != QP_OK) {
        rc = err_set(err, rc, "open store: no entropy");
    }
    rc = rc == QP_OK ? provider_open(s, options, err) : rc;
    rc = rc == QP_OK ? store_enter(s, options, err) : rc;
    rc = rc == QP_OK ? cache_open(s, options, err) : rc;
    if (rc == QP_OK && s->marks) {
        rc = store_mark(s, HEAD_IN_USE, err);
    }
    if (rc != QP_OK) {
        if (s->provider != NULL) {
            s->provider->calls->close(s->provider);
        }
        cache_destroy(s->cache);
        mem_free(env, s);
        return rc;
    }
    *out_store = s;
    return QP_OK;
}

int store_close(struct store *s, struct qp_err *err)
{
    int rc = QP_OK;
    struct qp_env env;
    if (s == NULL) {
        return QP_OK;
    }
    env = s->env;
    store_settle(s);
    if (s->marks && store_stopped_by(s) == QP_OK) {
        rc = store_mark(s, HEAD_CLEAN, err);
    } else if (store_stopped_by(s) != QP_OK) {
        rc = err_set(err, store_stopped_by(s),
                     "close store: it had stopped working, so it is not marked as clean");
    }
    s->provider->calls->close(s->provider);
    cache_destroy(s->cache);
    mem_free(&env, s);
    return rc;
}
