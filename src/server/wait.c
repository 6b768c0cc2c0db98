/* wait.c - calls that wait for the end of a job
 *
 * Nobody sleeps here: a kept call follows its job (qp_follow). Whenever that has changed, the crew asks whether it has
 * ended, and nothing else; the job is read once, for the answer, when it has or the call's time is over.
 *
 *   I1  at most one look is queued or going on; a change meanwhile makes it look again
 *   I2  the struct goes when neither the call nor its timing needs it any more
 */
#include <pthread.h>
#include <stdio.h>

#include "run/show.h"
#include "server/handlers.h"

struct waiting {
    struct crew_job job;
    struct timing timing;
    struct api *api;
    struct api_call *call;
    qp_follower *follower;
    pthread_mutex_t lock;
    /* under the lock */
    bool queued;
    bool again;
    bool late;
    bool over;
    int users;
    char ns[LIMIT_NAME_SIZE + 1];
    char id[QP_ID_SIZE];
};

static void look(struct crew_job *job);

static void waiting_free(struct waiting *w)
{
    (void)pthread_mutex_destroy(&w->lock);
    mem_free(api_env(w->api), w);
}

/* One user less. */
static void leave(struct waiting *w)
{
    bool last;
    (void)pthread_mutex_lock(&w->lock);
    last = --w->users == 0;
    (void)pthread_mutex_unlock(&w->lock);
    if (last) {
        waiting_free(w);
    }
}

/* Somebody should look. */
static void poke(struct waiting *w, bool late)
{
    bool put = false;
    (void)pthread_mutex_lock(&w->lock);
    w->late = w->late || late;
    w->again = true;
    if (!w->queued && !w->over) {
        w->queued = put = true;
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (put) {
        w->job = (struct crew_job){.run = look, .must = true};
        QP_ASSERT(crew_put(w->api, &w->job));
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
    struct waiting *w = (struct waiting *)((char *)t - offsetof(struct waiting, timing));
    poke(w, true);
    leave(w);
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
    (void)pthread_mutex_lock(&w->lock);
    w->over = true;
    (void)pthread_mutex_unlock(&w->lock);
    qp_follow_end(api_engine(w->api), w->follower);
    if (timing_stop(w->api, &w->timing)) {
        leave(w);
    }
}

/* Not yet: it is looked at again when it has changed, as it may have meanwhile. */
static void keep_waiting(struct waiting *w)
{
    bool put;
    (void)pthread_mutex_lock(&w->lock);
    put = w->queued = w->again;
    (void)pthread_mutex_unlock(&w->lock);
    if (put) {
        QP_ASSERT(crew_put(w->api, &w->job));
    }
}

/* On the crew. */
static void look(struct crew_job *job)
{
    struct waiting *w = (struct waiting *)((char *)job - offsetof(struct waiting, job));
    struct qp_err err = {0};
    bool ended = false;
    bool late;
    int rc;
    (void)pthread_mutex_lock(&w->lock);
    w->again = false;
    late = w->late;
    (void)pthread_mutex_unlock(&w->lock);
    rc = qp_job_ended(api_engine(w->api), str_from(w->ns), str_from(w->id), &ended, &err);
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
    leave(w);
}

static struct waiting *waiting_make(struct api_call *c, qp_str id)
{
    struct waiting *w = mem_alloc(api_env(c->api), sizeof *w);
    if (w != NULL) {
        w->api = c->api;
        w->call = c;
        w->users = 2; /* the call, and its timing */
        w->queued = true;
        w->job = (struct crew_job){.run = look, .must = true};
        (void)pthread_mutex_init(&w->lock, NULL);
        (void)snprintf(w->ns, sizeof w->ns, "%.*s", STR_ARG(c->ns));
        (void)snprintf(w->id, sizeof w->id, "%.*s", STR_ARG(id));
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
        waiting_free(w);
        api_fail(c, rc, &err);
        return;
    }
    due_stop(c); /* what it waits for from here on is the job */
    api_call_settle(c);
    timing_start(c->api, &w->timing, within_ms, too_late);
    look(&w->job); /* it may have ended before we followed it */
}
