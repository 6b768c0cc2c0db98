/* wait.c - calls that wait for the end of a job
 *
 * Nobody sleeps here: a kept call follows its job (qp_follow). Whenever that has changed, the crew asks whether it has
 * ended, and nothing else; the job is read once, for the answer, when it has or the call's time is over.
 *
 * A look is a turn of what is kept (kept.h): at most one is queued or going on, and a change meanwhile makes it look again.
 */
#include "run/show.h"
#include "server/handlers.h"
#include "server/kept.h"

struct waiting {
    struct kept kept;
    struct api_call *call;
    qp_follower *follower;
    const char *ns;
    const char *id;
    /* under the lock */
    bool late;
    bool over;
};

static void look(struct crew_job *turn);

/* Somebody should look. */
static void poke(struct waiting *w, bool late)
{
    bool put = false;
    (void)pthread_mutex_lock(&w->kept.lock);
    w->late = w->late || late;
    if (!w->over) {
        put = kept_claim(&w->kept);
    }
    (void)pthread_mutex_unlock(&w->kept.lock);
    if (put) {
        kept_put(&w->kept, look);
    }
}

/* On the engine's thread. */
static void changed(void *context)
{
    poke(context, false);
}

/* On the clock's thread. */
static void too_late(struct timing *t)
{
    struct waiting *w = (struct waiting *)kept_of_timing(t);
    poke(w, true);
    kept_leave(&w->kept);
}

struct reading {
    struct json_writer w;
    qp_str id;
    bool ended;
};

static int read_visit(void *context, const struct qp_job_info *job)
{
    struct reading *r = context;
    if (!str_equal(job->id, r->id)) {
        return QP_E_NOT_FOUND;
    }
    r->ended = job->closed_at != 0;
    show_job(&r->w, job);
    return QP_OK;
}

/* The job as it is: 200 when it has ended, else 202. */
static void answer_job(struct api_call *c, qp_str ns, qp_str id)
{
    struct reading r = {.id = id};
    struct qp_err err = {0};
    int rc;
    api_json(c, &r.w);
    rc = qp_job_show(api_engine(c->api), ns, id, &r, read_visit, &err);
    if (rc != QP_OK) {
        api_fail(c, rc == QP_E_CONFLICT ? QP_E_NOT_FOUND : rc, rc == QP_E_CONFLICT ? NULL : &err);
        return;
    }
    c->retry_after_s = r.ended ? 0 : 1;
    api_json_end(c, &r.w, r.ended ? 200 : 202);
}

static void stop(struct waiting *w)
{
    (void)pthread_mutex_lock(&w->kept.lock);
    w->over = true;
    (void)pthread_mutex_unlock(&w->kept.lock);
    qp_follow_end(api_engine(w->kept.api), w->follower);
    kept_stop(&w->kept);
}

/* Not yet: it is looked at again when it has changed, as it may have meanwhile. */
static void keep_waiting(struct waiting *w)
{
    bool put;
    (void)pthread_mutex_lock(&w->kept.lock);
    put = w->kept.queued = w->kept.again;
    (void)pthread_mutex_unlock(&w->kept.lock);
    if (put) {
        kept_put(&w->kept, look);
    }
}

/* On the crew. */
static void look(struct crew_job *turn)
{
    struct waiting *w = (struct waiting *)kept_of_turn(turn);
    struct qp_err err = {0};
    bool ended = false;
    bool late;
    int rc;
    (void)pthread_mutex_lock(&w->kept.lock);
    QP_ASSERT(w->kept.queued && !w->over);
    w->kept.again = false;
    late = w->late;
    (void)pthread_mutex_unlock(&w->kept.lock);
    rc = qp_job_ended(api_engine(w->kept.api), str_from(w->ns), str_from(w->id), &ended, &err);
    if (rc == QP_OK && !ended && !late) {
        keep_waiting(w);
        return;
    }
    stop(w);
    if (rc == QP_OK) {
        answer_job(w->call, str_from(w->ns), str_from(w->id));
    } else {
        api_fail(w->call, rc, &err);
    }
    kept_leave(&w->kept);
}

/* NULL: no memory. */
static struct waiting *waiting_make(struct api_call *c, qp_str id)
{
    struct waiting *w = kept_make(c->api, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    w->call = c;
    w->kept.queued = true; /* the first look */
    w->ns = kept_text(&w->kept, c->ns);
    w->id = kept_text(&w->kept, id);
    if (w->ns == NULL || w->id == NULL) {
        kept_drop(&w->kept);
        return NULL;
    }
    return w;
}

void wait_for_job(struct api_call *c, qp_str id, qp_ms within_ms)
{
    struct waiting *w;
    struct qp_err err = {0};
    bool now = within_ms == 0;
    int rc = now ? QP_OK : qp_job_ended(api_engine(c->api), c->ns, id, &now, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    if (now) {
        answer_job(c, c->ns, id);
        return;
    }
    w = waiting_make(c, id);
    if (w == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    rc = qp_follow_begin(
        api_engine(c->api),
        &(struct qp_follow){str_from(w->ns), str_from(w->id), .context = w, .changed = changed},
        &w->follower, &err);
    if (rc != QP_OK) {
        kept_drop(&w->kept);
        api_fail(c, rc, &err);
        return;
    }
    due_stop(c); /* what it waits for from here on is the job */
    api_call_settle(c);
    kept_start(&w->kept, within_ms, too_late);
    look(&w->kept.turn); /* it may have ended before we followed it */
}
