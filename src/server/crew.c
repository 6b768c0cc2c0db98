/* crew.c - the threads on which handlers that wait for the store run (see api_internal.h)
 *
 * A queue, first in, first out, and as many threads as were asked for. What a thread asks of the engine has the limit of the
 * request that it works for (run/calls.h).
 */
#include "run/calls.h"
#include "server/api_internal.h"

bool crew_put(struct api *api, struct crew_job *job)
{
    bool room;
    job->next = NULL;
    (void)pthread_mutex_lock(&api->lock);
    room = api->waiting < LIMIT_CREW_CALLS || job->must;
    if (room) {
        if (api->last != NULL) {
            api->last->next = job;
        } else {
            api->first = job;
        }
        api->last = job;
        api->waiting++;
        (void)pthread_cond_signal(&api->work);
    }
    (void)pthread_mutex_unlock(&api->lock);
    return room;
}

static void crew_turn(struct crew_job *job)
{
    struct api_call *c = (struct api_call *)((char *)job - offsetof(struct api_call, job));
    c->run(c);
}

bool crew_call(struct api_call *c, void (*run)(struct api_call *c))
{
    c->run = run;
    c->job.run = crew_turn;
    c->job.until_us = c->deadline_us;
    return crew_put(c->api, &c->job);
}

/* A call that may be answered in its handler's place outlives its carrier's texts. */
static bool keep_texts(struct api_call *c)
{
    qp_str *texts[] = {&c->authorization,   &c->accept,        &c->content_type,
                       &c->idempotency_key, &c->last_event_id, &c->range};
    for (size_t i = 0; i < ARRAY_COUNT(texts) && !c->keeps_texts && c->deadline_us != 0; i++) {
        if (!str_is_none(*texts[i]) && !arena_copy(&c->arena, *texts[i], texts[i])) {
            return false;
        }
    }
    c->keeps_texts = true;
    return true;
}

void api_later(struct api_call *c, void (*run)(struct api_call *c))
{
    if (!keep_texts(c)) {
        api_fail(c, QP_E_NOMEM, NULL);
    } else if (!crew_call(c, run)) {
        api_refuse(c, PROBLEM_BUSY, NULL, "%d requests wait already", LIMIT_CREW_CALLS);
    }
}

bool crew_take_back(struct api *api, struct crew_job *job)
{
    struct crew_job *before = NULL;
    struct crew_job *j;
    (void)pthread_mutex_lock(&api->lock);
    j = api->first;
    while (j != NULL && j != job) {
        before = j;
        j = j->next;
    }
    if (j != NULL) {
        *(before == NULL ? &api->first : &before->next) = j->next;
        api->last = api->last == j ? before : api->last;
        api->waiting--;
    }
    (void)pthread_mutex_unlock(&api->lock);
    return j != NULL;
}

/* What a thread of the crew asks of the engine is answered by the deadline of the request that it works for. */
static void crew_run(struct api *api, struct asker *asker, struct crew_job *job)
{
    int64_t until_us =
        job->until_us != 0 ? job->until_us : api_now_us(api) + LIMIT_CALL_MS * INT64_C(1000);
    atomic_store(&asker->until_us, api->options.limited ? until_us : 0);
    job->run(job); /* with the answer, call and job are gone */
    atomic_store(&asker->until_us, 0);
}

static void *crew_main(void *context)
{
    struct api *api = context;
    struct asker asker = {0};
    asker_add(&api->options.engine->driver, &asker);
    (void)pthread_mutex_lock(&api->lock);
    while (!api->stop || api->first != NULL) {
        struct crew_job *job = api->first;
        if (job == NULL) {
            (void)pthread_cond_wait(&api->work, &api->lock);
            continue;
        }
        api->first = job->next;
        api->last = api->first == NULL ? NULL : api->last;
        api->waiting--;
        api->running++;
        (void)pthread_mutex_unlock(&api->lock);
        crew_run(api, &asker, job);
        (void)pthread_mutex_lock(&api->lock);
        api->running--;
        if (api->running == 0 && api->first == NULL) {
            (void)pthread_cond_broadcast(&api->idle);
        }
    }
    (void)pthread_mutex_unlock(&api->lock);
    asker_remove(&api->options.engine->driver, &asker);
    return NULL;
}

void crew_stop(struct api *api)
{
    (void)pthread_mutex_lock(&api->lock);
    api->stop = true;
    (void)pthread_cond_broadcast(&api->work);
    (void)pthread_mutex_unlock(&api->lock);
    for (int i = 0; i < api->thread_count; i++) {
        (void)pthread_join(api->threads[i], NULL);
    }
}

int crew_start(struct api *api, struct qp_err *err)
{
    int wanted = api->options.threads > 0 ? api->options.threads : LIMIT_CREW_THREADS;
    api->threads = mem_alloc(api->options.env, (size_t)wanted * sizeof(pthread_t));
    if (api->threads == NULL) {
        return err_set(err, QP_E_NOMEM, "out of memory");
    }
    while (api->thread_count < wanted) {
        if (pthread_create(&api->threads[api->thread_count], NULL, crew_main, api) != 0) {
            return err_set(err, QP_E_LIMIT, "the system refuses another thread");
        }
        api->thread_count++;
    }
    return QP_OK;
}
