/* views.c - what people see of a graph's job beside its rows (see views.h) */
#include "run/views.h"

#include "graph/action.h"
#include "graph/draw.h"
#include "graph/nest.h"
#include "graph/program.h"

/* A job's graph, while it is looked at. */
struct seen {
    struct library *library;
    const struct app *app;     /* pinned */
    const struct graph *graph; /* NULL: it is no graph's job, or its version cannot be had */
};

static int see(struct seen *seen, qp *q, struct store *s, struct arena *arena,
               const struct job_row *job)
{
    struct between between = {s, arena};
    struct row_reader reader = reader_between(&between);
    int rc;
    *seen = (struct seen){.library = q->apps.library};
    if (job->kind != GRAPH_KIND) {
        return QP_OK;
    }
    rc = library_pin(seen->library, &reader, job->ns, job->version, &seen->app);
    if (rc == QP_OK) {
        seen->graph = app_graph(seen->app, job->workflow);
    }
    return rc == QP_E_NOT_FOUND || rc == QP_E_INVALID ? QP_OK : rc;
}

/* Where there is no engine, nobody else tidies; and nobody has anything that is not pinned. */
static void see_no_more(struct seen *seen, const qp *q)
{
    if (seen->app != NULL) {
        library_unpin(seen->library, seen->app);
        if (q->engine == NULL) {
            library_tidy(seen->library);
        }
    }
}

/* Step 3 makes the data the output, however the job ended. */
static int data_of(struct seen *seen, struct store *s, struct arena *arena,
                   const struct job_row *job, qp_str *out_data)
{
    struct between between = {s, arena};
    struct row_reader reader = reader_between(&between);
    if (job->completions > 0) {
        *out_data = job->output;
        return QP_OK;
    }
    return job_data(arena, &reader, seen->graph, job, out_data);
}

static int add_job(struct seen *seen, struct store *s, struct arena *arena,
                   const struct job_row *job, struct qp_job_info *info, struct qp_err *err)
{
    qp_str digits = QP_NONE;
    int rc = view_digits(arena, s, seen->graph, job, &digits, err);
    rc = rc == QP_OK ? view_key(arena, digits, &info->state) : rc;
    rc = rc == QP_OK ? view_composition(arena, s, seen->library, job, &info->compositional, err)
                     : rc;
    return rc == QP_OK ? data_of(seen, s, arena, job, &info->data) : rc;
}

static int see_job(const struct query *q, struct arena *arena, const struct job_row *job,
                   struct qp_job_info *info, struct qp_err *err)
{
    struct seen seen;
    int rc = see(&seen, q->view_context, q->store, arena, job);
    rc = rc == QP_OK && seen.graph != NULL ? add_job(&seen, q->store, arena, job, info, err) : rc;
    see_no_more(&seen, q->view_context);
    return rc == QP_E_NOMEM ? err_set(err, rc, "job: out of memory") : rc;
}

static int add_activity(const struct graph *g, struct store *s, struct arena *arena,
                        const struct act_row *act, struct qp_activity *told, struct qp_err *err)
{
    const struct activity *x = view_activity(g, act->addr);
    int rc = x == NULL ? QP_OK : view_digit_read(arena, s, x, act, &told->digit, err);
    if (rc != QP_OK || x == NULL) {
        return rc;
    }
    told->type = activity_type_name(x->type);
    told->status = digit_word(told->digit);
    if (x->type == ACTIVITY_GATE) {
        told->input = QP_NONE; /* who came first: the kernel's own note */
    }
    return QP_OK;
}

static int see_activity(const struct query *q, struct arena *arena, const struct job_row *job,
                        const struct act_row *act, struct qp_activity *told, struct qp_err *err)
{
    struct seen seen;
    int rc = see(&seen, q->view_context, q->store, arena, job);
    rc = rc == QP_OK && seen.graph != NULL
             ? add_activity(seen.graph, q->store, arena, act, told, err)
             : rc;
    see_no_more(&seen, q->view_context);
    return rc == QP_E_NOMEM ? err_set(err, rc, "activity: out of memory") : rc;
}

const struct query_view graph_view = {.job = see_job, .activity = see_activity};

/* --------------------------------------------------------------------------------------------- export */

static int write_parts(struct seen *seen, struct store *s, struct arena *arena,
                       const struct job_row *job, struct buf *out, struct qp_err *err)
{
    qp_str data = QP_NONE;
    int rc = data_of(seen, s, arena, job, &data);
    if (rc == QP_OK && !str_is_none(data)) {
        buf_text(out, ",\"data\":");
        buf_str(out, data);
    }
    buf_text(out, ",\"tree\":");
    rc = rc == QP_OK ? nest_write(arena, s, seen->graph, job, out, err) : rc;
    return rc == QP_OK ? buf_rc(out) : rc;
}

int views_export(qp *q, struct store *s, int64_t ns, qp_str id, struct buf *out, bool *out_is_graph,
                 struct qp_err *err)
{
    struct query query = {.store = s, .ns = ns};
    const struct job_row *job = NULL;
    struct arena arena;
    struct seen seen = {0};
    int end;
    int rc = store_snapshot_begin(s, err);
    if (rc != QP_OK) {
        return rc;
    }
    arena_init(&arena, &q->env, 0);
    rc = query_find(&query, &arena, id, &job, err);
    rc = rc == QP_OK ? see(&seen, q, s, &arena, job) : rc;
    rc = rc == QP_OK && seen.graph != NULL ? write_parts(&seen, s, &arena, job, out, err) : rc;
    *out_is_graph = seen.graph != NULL;
    see_no_more(&seen, q);
    arena_done(&arena);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}
