/* working.c - calls of workers elsewhere, kept while the engine has them (see working.h) */
#include "server/working.h"

#include <stdio.h>

#include "run/handle.h"
#include "server/api.h"

void *working_make(struct api_call *c, size_t size, void (*render)(struct api_call *c))
{
    struct working *k = kept_make(c->api, size);
    QP_ASSERT(size >= sizeof *k);
    if (k != NULL) {
        k->call = c;
        k->render = render;
    }
    return k;
}

/* So long after it should be over. */
static qp_ms grace_ms(const struct working *k)
{
    return k->work.wait_ms + LIMIT_CALL_MS + LIMIT_LATE_MS;
}

/* On the clock's thread: the server ends; or the store does not answer, and the call is answered in place of the engine,
 * which gives it back in time. Else the engine has forgotten the time, or is slow. */
static void too_late(struct timing *t)
{
    struct working *k = (struct working *)kept_of_timing(t);
    bool ends = api_is_draining(k->kept.api);
    bool ready = ready_now(api_engine(k->kept.api), NULL) == QP_OK;
    bool open;
    bool again;
    (void)pthread_mutex_lock(&k->kept.lock);
    open = !k->over && !k->done;
    again = open && ready && !ends && !k->reprieved;
    if (again) {
        k->reprieved = true;
        kept_start(&k->kept, LIMIT_WAIT_MS, too_late);
    } else if (open && (ready || ends || !api_call_late(k->call))) {
        work_abort(api_engine(k->kept.api), &k->work);
    }
    (void)pthread_mutex_unlock(&k->kept.lock);
    if (!again) {
        kept_leave(&k->kept);
    }
}

/* Tasks in an answer that was not read are ready for others at once. An answer that says no
 * is none. */
static void finished(struct api_call *c, bool told)
{
    struct working *k = c->kept;
    bool given = told && c->status == 200;
    (void)pthread_mutex_lock(&k->kept.lock);
    k->over = true;
    (void)pthread_mutex_unlock(&k->kept.lock);
    if (k->ended != NULL) {
        k->ended(k, given);
    }
    work_done(api_engine(k->kept.api), &k->work, given ? WORK_TOLD : WORK_GIVEN_BACK);
    kept_stop(&k->kept);
    kept_leave(&k->kept);
}

/* On the engine's thread. */
static void answered(void *context, struct work_call *work, int rc, const char *why)
{
    struct working *k = context;
    (void)work;
    (void)pthread_mutex_lock(
        &k->kept.lock); /* the clock has answered in our place by now, or does not */
    k->done = true;
    (void)pthread_mutex_unlock(&k->kept.lock);
    k->rc = rc;
    (void)snprintf(k->why, sizeof k->why, "%s", why != NULL ? why : qp_code_text(rc));
    if (k->answered != NULL) {
        k->answered(k);
    }
    api_answer_by(k->call, k->render);
}

/* On the engine's thread. */
static bool is_there(void *context)
{
    struct api_call *c = ((struct working *)context)->call;
    return c->carrier->there == NULL || c->carrier->there(c);
}

/* The caller, by its token. Where no call needs one, all are the same. */
static struct work_caller caller_of(const struct api_call *c, struct working *k)
{
    static const unsigned char none[TOKEN_HASH_SIZE];
    bool keyed = memcmp(c->who.hash, none, sizeof none) != 0;
    auth_task_key(api_auth(k->kept.api), &c->who, k->key);
    return (struct work_caller){.id = str_from(c->who.token),
                                .key = keyed ? (qp_str){(const char *)k->key, sizeof k->key}
                                             : QP_NONE};
}

void working_submit(struct api_call *c, struct working *k)
{
    struct qp_err err = {0};
    int rc;
    k->work.context = k;
    k->work.answer = answered;
    k->work.there = is_there;
    k->work.caller = caller_of(c, k);
    c->kept = k;
    c->finished = finished;
    if (k->work.result_count == 0 && k->work.beat_count == 0) {
        api_call_settle(c);
    }
    due_leave(c);
    kept_start(&k->kept, grace_ms(k), too_late);
    rc = work_submit(api_engine(k->kept.api), &k->work, &err);
    if (rc != QP_OK) {
        c->finished = NULL;
        k->rc = rc;
        (void)pthread_mutex_lock(&k->kept.lock);
        k->over = true;
        (void)pthread_mutex_unlock(&k->kept.lock);
        if (k->answered != NULL) {
            k->answered(k);
        }
        kept_stop(&k->kept);
        kept_leave(&k->kept);
        api_fail(c, rc, &err);
    }
}
