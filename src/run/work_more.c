/* work_more.c - what a worker elsewhere gets with a task beside its input, by the kind of its job (see work_more.h)
 *
 * It is read when the answer is written, on the thread that writes it: the engine's thread renders nothing. The claim is
 * committed by then, so what is read is at least what the task was made by.
 */
#include "run/work_more.h"

#include "kernel/query.h"
#include "run/handle.h"

struct adding {
    qp *q;
    const struct work_task *task;
    struct json_writer *w;
};

/* A job that is gone has nothing to say: the result of its task will be stale. */
static int add_members(const struct adding *a, struct sight *sight)
{
    const struct work_task *task = a->task;
    struct job_row key = {.ns = task->ref.ns, .job = task->ref.job};
    const void *row = NULL;
    int rc = store_get(sight->store, sight->arena, TABLE_job, &key, &row, sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    sight->job = row;
    return task->of->face->task(task->of->state, sight, task->address, a->w);
}

static int read_members(void *context, struct store *s, struct qp_err *err)
{
    const struct adding *a = context;
    struct arena arena;
    struct sight sight = {.store = s, .arena = &arena, .err = err};
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    arena_init(&arena, &a->q->env, 0);
    rc = add_members(a, &sight);
    arena_done(&arena);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

int work_more(qp *q, const struct work_task *task, struct json_writer *w, struct qp_err *err)
{
    struct adding a = {q, task, w};
    return task->of == NULL || task->of->face->task == NULL ? QP_OK
                                                            : reads_do(q, &a, read_members, err);
}

/* ---------------------------------------------------------------------------------------- pages */

struct paging {
    qp *q;
    const struct work_log *log;
    struct query query;
    struct json_writer *w;
};

static int page_write(const struct paging *p, struct sight *sight)
{
    const struct work_log *log = p->log;
    const struct faced *of;
    QP_TRY(query_find(&p->query, sight->arena, log->id, &sight->job, sight->err));
    of = faces_of(p->q->faces, sight->job->kind);
    if (!log->may(log->context, sight->job->workflow)) {
        return err_set(sight->err, QP_E_NOT_FOUND, "job '%.*s': there is none for this token",
                       STR_ARG(log->id));
    }
    if (of == NULL || of->face->log == NULL) {
        return err_set(sight->err, QP_E_NOT_FOUND, "job '%.*s' is no flow: it has no log",
                       STR_ARG(log->id));
    }
    return of->face->log(of->state, sight, log->cursor, p->w);
}

static int page_read(void *context, struct store *s, struct qp_err *err)
{
    struct paging *p = context;
    struct arena arena;
    struct sight sight = {.store = s, .arena = &arena, .err = err};
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    p->query.store = s;
    arena_init(&arena, &p->q->env, 0);
    rc = page_write(p, &sight);
    arena_done(&arena);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

int work_log(qp *q, const struct work_log *log, struct json_writer *w, struct qp_err *err)
{
    struct paging p = {.q = q, .log = log, .w = w};
    QP_TRY(space_number(q, log->ns, &p.query.ns, err));
    p.query.ns_name = str_is_none(log->ns) ? str_from(q->ns_name) : log->ns;
    p.query.faces = q->faces;
    return reads_do(q, &p, page_read, err);
}
