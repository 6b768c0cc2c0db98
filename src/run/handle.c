/* handle.c - opening a handle: its parts are made, and told what the engine tells them (see handle.h)
 *
 * If we crash, nothing here is lost that was answered: a call is answered after its commit. What a process that died
 * held is claimed again by the next one that opens the file (engine_open), or, where several share a database, by
 * another one when the run's lease is over.
 */
#include "run/handle.h"

#include "base/env.h"
#include "run/enter.h"
#include "run/kinds.h"
#include "run/parts.h"
#include "run/presence.h"
#include "run/remote_topics.h"
#include "run/remote_workers.h"
#include "run/stats.h"

void qp_options_init(struct qp_options *options)
{
    if (options != NULL) {
        *options = (struct qp_options){.size = sizeof *options};
    }
}

/* ------------------------------------------------------------------------------------------- open */

static int name_set(qp *q, const char *name, struct qp_err *err)
{
    qp_str text = str_from(name != NULL ? name : "default");
    int rc = name_check(text, "namespace", err);
    if (rc == QP_OK) {
        memcpy(q->ns_name, text.p, text.n);
    }
    return rc;
}

static int enter_namespace(qp *q, const char *name, struct qp_err *err)
{
    struct op create = {.kind = OP_space_create, .space_create = {.name = str_from(name)}};
    int rc;
    q->ns = STORE_NS_DEFAULT;
    rc = name_set(q, name, err);
    if (name == NULL || rc != QP_OK) {
        return rc;
    }
    rc = engine_op(q->engine, &create, err);
    q->ns = create.space_create.out_ns;
    return rc == QP_E_EXISTS ? QP_OK : rc;
}

/* A process that has the store for itself needs no lease: it is over when another opens it. */
static qp_ms run_lease_ms(const qp *q, const struct qp_options *options)
{
    return !q->shared ? 0 : options->lease_ms > 0 ? options->lease_ms : LIMIT_RUN_LEASE_MS;
}

static int store_enter(qp *q, const struct qp_options *options, struct qp_err *err)
{
    struct store_options of_store = {.path = options->path, .accept_loss = options->accept_loss};
    struct store_info info;
    int rc = store_open(&q->env, &of_store, &q->store, err);
    if (rc == QP_OK) {
        store_info(q->store, &info);
        q->shared = info.shared;
    }
    return rc;
}

/* Tasks of a job that was ended are not needed any more. */
static void job_ended(void *context, struct job_ref job, enum job_state state)
{
    qp *q = context;
    if (state != JOB_COMPLETED) {
        tasks_cancel(q, job, QP_NONE);
        work_cancel(q, job, QP_NONE);
    }
    follow_job_ended(q, job, state);
}

/* One task of a job that goes on. */
static void task_told(void *context, struct job_ref job, qp_str guid)
{
    tasks_cancel(context, job, guid);
    work_cancel(context, job, guid);
}

/* A task whose lease or time limit was reported is not its function's any more. */
static void task_lost(void *context, const struct msg_ref *task)
{
    tasks_lost(context, task);
}

static int engine_enter(qp *q, const struct qp_options *options, struct qp_err *err)
{
    struct engine_options of_engine = {.name = "embedded",
                                       .keep_ms = options->keep_ms,
                                       .max_deliveries = options->max_deliveries,
                                       .faces = q->faces,
                                       .context = q,
                                       .ended = job_ended,
                                       .told = task_told,
                                       .parked = follow_job_parked,
                                       .finished = stats_finished,
                                       .settled = work_settled,
                                       .lost = task_lost,
                                       .serving = presence_write,
                                       .journaled = follow_journaled};
    if (work_init(q) != QP_OK || stats_create(q) != QP_OK) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    QP_TRY(store_enter(q, options, err));
    q->lease_ms = run_lease_ms(q, options);
    of_engine.store = q->store;
    of_engine.lease_ms = q->lease_ms;
    QP_TRY(driver_join(&q->driver, q->store, q->shared, err));
    QP_TRY(engine_open(&of_engine, &q->engine, err));
    q->driver.engine = q->engine;
    QP_TRY(names_refresh(q->faces->names, q->store, err));
    return enter_namespace(q, options->namespace_name, err);
}

/* All kinds of jobs that this handle knows. */
static int kinds_enter(qp *q, const struct face *const *more, size_t more_count, bool read_only,
                       struct qp_err *err)
{
    struct face_options options = {.env = &q->env, .read_only = read_only};
    int rc = kinds_open(&options, more, more_count, &q->faces);
    return rc == QP_OK ? QP_OK : err_set(err, rc, "qp_open: %s", qp_code_text(rc));
}

/* What must be there before anything else: the locks and the event. */
static int handle_init(qp *q, struct qp_err *err)
{
    int rc = driver_init(&q->driver, &q->env, q, &handle_parts);
    if (rc == QP_E_LIMIT) {
        return err_set(err, rc, "qp_open: the system refuses another file descriptor");
    }
    if (rc != QP_OK || tasks_init(q) != QP_OK || readers_init(&q->readers) != QP_OK ||
        follow_init(&q->follow) != QP_OK || ready_init(&q->ready) != QP_OK ||
        ids_init(&q->ids) != QP_OK) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    return QP_OK;
}

void handle_free(qp *q)
{
    struct qp_env env = q->env;
    mark_drop(q);
    follow_done(q);
    work_free(q);
    stats_destroy(q);
    faces_close(q->faces);
    mem_free(&env, q->shell);
    readers_done(&q->readers, &env);
    ready_done(&q->ready);
    ids_done(&q->ids);
    tasks_done(q);
    driver_done(&q->driver);
    mem_free(&env, q->path);
    mem_free(&env, q);
}

int qp_open(const struct qp_options *options, qp **out_engine, struct qp_err *err)
{
    return handle_open(options, NULL, 0, out_engine, err);
}

static int out_check(qp **out_engine, struct qp_err *err)
{
    return out_engine != NULL
               ? QP_OK
               : err_set(err, QP_E_INVALID, "qp_open: an argument is NULL, it needs out_engine");
}

static int options_check(const struct qp_options *o, struct qp_err *err)
{
    int rc;
    if (o == NULL) {
        return err_set(err, QP_E_INVALID,
                       "qp_open: options are NULL, it needs those of "
                       "qp_options_init");
    }
    rc = size_check(o->size, sizeof *o, "qp_options", err);
    if (rc == QP_OK && o->env != NULL) {
        rc = size_check(o->env->size, sizeof *o->env, "qp_env", err);
    }
    if (rc != QP_OK) {
        return err_wrap(err, rc, "qp_open");
    }
    if (o->keep_ms < 0 || o->keep_ms > LIMIT_TIMER_MS) {
        return err_set(err, QP_E_INVALID, "qp_open: keep_ms is 0 to ten years");
    }
    if (o->max_deliveries < 0 || o->max_deliveries > INT32_MAX) {
        return err_set(err, QP_E_INVALID, "qp_open: max_deliveries is 0 to %d", INT32_MAX);
    }
    if (o->lease_ms != 0 &&
        (o->lease_ms < LIMIT_RUN_LEASE_LEAST_MS || o->lease_ms > LIMIT_LEASE_MS)) {
        return err_set(err, QP_E_INVALID, "qp_open: lease_ms is 0, or 1 s to a day");
    }
    return QP_OK;
}

static int path_keep(qp *q, const char *path, struct qp_err *err)
{
    size_t n = path == NULL ? 0 : strlen(path) + 1;
    if (path == NULL) {
        return QP_OK;
    }
    q->path = mem_alloc(&q->env, n);
    if (q->path == NULL) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    memcpy(q->path, path, n);
    return QP_OK;
}

/* A handle without an engine. */
static int handle_make(const struct qp_options *options, qp **out_q, struct qp_err *err)
{
    struct qp_env env;
    qp *q;
    int rc = options_check(options, err);
    if (rc != QP_OK) {
        return rc;
    }
    qp_env_init(&env);
    env = options->env != NULL ? *options->env : env;
    env_complete(&env);
    q = mem_alloc(&env, sizeof *q);
    if (q == NULL) {
        return err_set(err, QP_E_NOMEM, "qp_open: out of memory");
    }
    q->env = env;
    mark_make(q);
    q->accept_loss = options->accept_loss;
    rc = handle_init(q, err);
    if (rc != QP_OK) {
        mark_drop(q);
        mem_free(&env, q);
        return rc;
    }
    rc = path_keep(q, options->path, err);
    if (rc != QP_OK) {
        handle_free(q);
        return rc;
    }
    *out_q = q;
    return QP_OK;
}

static int read_names(void *context, struct store *s, struct qp_err *err)
{
    qp *q = context;
    return names_refresh(q->faces->names, s, err);
}

int qp_open_readonly(const struct qp_options *options, qp **out_engine, struct qp_err *err)
{
    qp *q = NULL;
    int rc;
    QP_TRY(out_check(out_engine, err));
    if (options != NULL && options->path == NULL) {
        return err_set(err, QP_E_INVALID, "qp_open_readonly: name the file");
    }
    QP_TRY(handle_make(options, &q, err));
    rc = kinds_enter(q, NULL, 0, true, err);
    rc = rc == QP_OK ? reads_do(q, q, read_names, err) : rc;
    rc = rc == QP_OK ? name_set(q, options->namespace_name, err) : rc;
    rc = rc == QP_OK ? space_number(q, str_from(q->ns_name), &q->ns, err) : rc;
    if (rc != QP_OK) {
        handle_free(q);
        return rc;
    }
    *out_engine = q;
    return QP_OK;
}

int handle_open(const struct qp_options *options, const struct face *const *more, size_t more_count,
                qp **out_engine, struct qp_err *err)
{
    qp *q = NULL;
    int rc;
    QP_TRY(out_check(out_engine, err));
    QP_TRY(handle_make(options, &q, err));
    rc = kinds_enter(q, more, more_count, false, err);
    rc = rc == QP_OK ? engine_enter(q, options, err) : rc;
    if (rc != QP_OK) {
        engine_abandon(q->engine);
        readers_close(&q->readers);
        (void)store_close(q->store, NULL); /* the first failure is the one to report */
        handle_free(q);
        return rc;
    }
    *out_engine = q;
    return QP_OK;
}
