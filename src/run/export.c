/* export.c - qp_job_export: all of a job as one JSON object, in pieces
 *
 *   {"job":{...},"activities":[...],"journal":[...],"data":{name:value,...}}
 *
 * Of a kind of job that says it itself (face.h, export_data), `data` and what else it keeps are written in one go.
 *
 * One page after the other is read, and written when the reading is over, so that neither a large job needs
 * much memory nor a slow writer keeps a connection. What changes meanwhile may be seen in a later part and not in
 * an earlier one. Values of data that are not JSON are
 * written as text.
 */
#include "kernel/query.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/show.h"

struct exporting {
    qp *q;
    qp_str ns;
    int64_t number; /* of ns */
    char id[QP_ID_SIZE];
    struct buf text;
    struct buf after; /* the address of the last activity */
    int64_t seq;
    bool first; /* of its array */
    bool done;  /* the job's kind has written what it keeps */
    void *context;
    qp_write write;
};

static int flush(struct exporting *x)
{
    int rc = buf_rc(&x->text);
    rc = rc == QP_OK && x->text.n > 0 ? x->write(x->context, buf_slice(&x->text)) : rc;
    buf_reset(&x->text);
    return rc;
}

/* One item of an array: `show` writes it. */
static struct json_writer item_begin(struct exporting *x)
{
    struct json_writer w;
    if (!x->first) {
        buf_byte(&x->text, ',');
    }
    x->first = false;
    json_writer_init(&w, &x->text);
    return w;
}

static int see_job(void *context, const struct qp_job_info *job)
{
    struct exporting *x = context;
    struct json_writer w;
    QP_ASSERT(job->id.n < QP_ID_SIZE);
    memcpy(x->id, job->id.p, job->id.n);
    json_writer_init(&w, &x->text);
    show_job(&w, job);
    return json_writer_done(&w);
}

static int see_activity(void *context, const struct qp_activity *activity)
{
    struct exporting *x = context;
    struct json_writer w = item_begin(x);
    int rc;
    show_activity(&w, activity);
    rc = json_writer_done(&w);
    buf_reset(&x->after);
    buf_str(&x->after, activity->address);
    return rc == QP_OK ? buf_rc(&x->after) : rc;
}

static int see_event(void *context, const struct qp_event *event)
{
    struct exporting *x = context;
    struct json_writer w = item_begin(x);
    int rc;
    show_event(&w, event);
    rc = json_writer_done(&w);
    x->seq = event->seq;
    return rc;
}

static int see_data(void *context, qp_str name, qp_str value)
{
    struct exporting *x = context;
    struct json_writer w = item_begin(x);
    int rc;
    json_put_str(&w, name);
    rc = json_writer_done(&w);
    buf_byte(&x->text, ':');
    json_writer_init(&w, &x->text);
    if (json_check(&x->q->env, value, NULL, NULL) == QP_OK) {
        json_put_raw(&w, value);
    } else {
        json_put_str(&w, value);
    }
    rc = rc == QP_OK ? json_writer_done(&w) : rc;
    return rc == QP_OK ? flush(x) : rc;
}

/* As many at a time that their payloads fit into a buffer. */
#define ACTIVITIES_PER_PAGE 8

static int export_activities(struct exporting *x, struct qp_err *err)
{
    char last[LIMIT_ADDRESS_SIZE]; /* the visits write x->after while it is read */
    bool more = true;
    int rc = QP_OK;
    buf_text(&x->text, ",\"activities\":[");
    x->first = true;
    while (rc == QP_OK && more) {
        qp_str after = x->first ? QP_NONE : (qp_str){last, x->after.n};
        if (x->after.n > 0) {
            memcpy(last, x->after.p, x->after.n);
        }
        rc = qp_activity_list(x->q, x->ns, str_from(x->id), after, ACTIVITIES_PER_PAGE, x,
                              see_activity, &more, err);
        rc = rc == QP_OK ? flush(x) : rc;
    }
    return rc;
}

static int export_journal(struct exporting *x, struct qp_err *err)
{
    bool more = true;
    int rc = QP_OK;
    buf_text(&x->text, "],\"journal\":[");
    x->first = true;
    while (rc == QP_OK && more) {
        int64_t before = x->seq;
        rc = qp_job_journal(x->q, x->ns, str_from(x->id), x->seq, LIMIT_PAGE_ROWS, x, see_event,
                            &more, err);
        rc = rc == QP_OK ? flush(x) : rc;
        /* A page may be all of entries that are gone. */
        x->seq = x->seq == before ? before + LIMIT_PAGE_ROWS : x->seq;
    }
    return rc;
}

static int read_data(void *context, struct store *s, struct qp_err *err)
{
    struct exporting *x = context;
    struct query query = {.store = s, .ns = x->number};
    return query_data(&query, str_from(x->id), x, see_data, err);
}

/* What the job's kind says that it keeps, if it does. */
static int write_kept(struct exporting *x, struct store *s, struct arena *arena, struct qp_err *err)
{
    struct query query = {.store = s, .ns = x->number, .faces = x->q->faces};
    struct sight sight = {.store = s, .arena = arena, .err = err};
    const struct faced *of;
    QP_TRY(query_find(&query, arena, str_from(x->id), &sight.job, err));
    of = query_face(&query, sight.job);
    return of == NULL || of->face->export_data == NULL
               ? QP_OK
               : of->face->export_data(of->state, &sight, &x->text, &x->done);
}

static int read_kept(void *context, struct store *s, struct qp_err *err)
{
    struct exporting *x = context;
    struct arena arena;
    int end;
    int rc;
    QP_TRY(store_snapshot_begin(s, err));
    arena_init(&arena, &x->q->env, 0);
    rc = write_kept(x, s, &arena, err);
    arena_done(&arena);
    end = store_snapshot_end(s, rc == QP_OK ? err : NULL);
    return rc == QP_OK ? end : rc;
}

/* What the job itself keeps. */
static int export_data(struct exporting *x, struct qp_err *err)
{
    buf_byte(&x->text, ']');
    QP_TRY(reads_do(x->q, x, read_kept, err));
    if (x->done) {
        return QP_OK;
    }
    buf_text(&x->text, ",\"data\":{");
    x->first = true;
    QP_TRY(reads_do(x->q, x, read_data, err));
    buf_byte(&x->text, '}');
    return QP_OK;
}

static int export_all(struct exporting *x, qp_str id, struct qp_err *err)
{
    buf_text(&x->text, "{\"job\":");
    QP_TRY(space_number(x->q, x->ns, &x->number, err));
    QP_TRY(qp_job_show(x->q, x->ns, id, x, see_job, err));
    QP_TRY(export_activities(x, err));
    QP_TRY(export_journal(x, err));
    QP_TRY(export_data(x, err));
    buf_byte(&x->text, '}');
    return flush(x);
}

int qp_job_export(qp *q, qp_str ns, qp_str id, void *context, qp_write write, struct qp_err *err)
{
    ENTER(q, write != NULL, err);
    struct exporting x = {.q = q, .ns = ns, .context = context, .write = write};
    int rc;
    buf_init(&x.text, &q->env, 0);
    buf_init(&x.after, &q->env, LIMIT_ADDRESS_SIZE);
    rc = export_all(&x, id, err);
    if (rc == QP_E_NOMEM) {
        (void)err_set(err, rc, "export: out of memory");
    }
    buf_done(&x.after);
    buf_done(&x.text);
    return rc;
}
