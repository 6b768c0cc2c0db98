/* api.c - from a call to its handler: the route, who asks, the body; and the threads and times
 * of calls
 *
 * The order of checks is fixed, so that nobody without a token learns more than that there is a
 * route: address, method, token, scope, namespace, query, body. Scopes are checked here and
 * nowhere else.
 *
 * Locks: `lock` guards the queue of the crew, `clock_lock` the list of times. Neither is held
 * while a handler or a `late` runs.
 */
#include "server/api.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/log.h"
#include "base/uuid.h"
#include "server/idempotency.h"

struct api {
    struct api_options options;
    struct auth *auth;
    struct idempotency *idempotency;
    atomic_bool draining;
    atomic_int streams;
    atomic_size_t held; /* of bodies */

    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t idle;
    /* under the lock */
    struct crew_job *first, *last;
    size_t waiting;
    size_t running;
    bool stop;
    struct uuid_source uuids;
    pthread_t *threads;
    int thread_count;

    pthread_mutex_t clock_lock;
    pthread_cond_t clock_changed;
    /* under the clock's lock: sorted, the earliest first */
    struct timing *times, *last_time;
    bool clock_stop;
    pthread_t clock;
};

qp *api_engine(const struct api *api)
{
    return api->options.engine;
}

const struct qp_env *api_env(const struct api *api)
{
    return api->options.env;
}

const struct api_options *api_options(const struct api *api)
{
    return &api->options;
}

struct idempotency *api_idempotency(struct api *api)
{
    return api->idempotency;
}

struct auth *api_auth(struct api *api)
{
    return api->auth;
}

atomic_int *api_streams(struct api *api)
{
    return &api->streams;
}

bool api_hold(struct api *api, size_t size)
{
    size_t most = api->options.bodies_size > 0 ? api->options.bodies_size : LIMIT_BODIES_SIZE;
    bool room = atomic_fetch_add(&api->held, size) + size <= most;
    if (!room) {
        atomic_fetch_sub(&api->held, size);
    }
    return room;
}

void api_let_go(struct api *api, size_t size)
{
    atomic_fetch_sub(&api->held, size);
}

bool api_is_draining(const struct api *api)
{
    return atomic_load(&api->draining);
}

static int64_t now_us(const struct api *api)
{
    return api->options.env->monotonic_us(api->options.env->context);
}

/* ------------------------------------------------------------------------------------- the crew */

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

static void run_later(struct crew_job *job)
{
    struct api_call *c = (struct api_call *)((char *)job - offsetof(struct api_call, job));
    c->run(c);
}

static bool crew_call(struct api_call *c, void (*run)(struct api_call *c))
{
    c->run = run;
    c->job.run = run_later;
    return crew_put(c->api, &c->job);
}

void api_later(struct api_call *c, void (*run)(struct api_call *c))
{
    if (!crew_call(c, run)) {
        api_refuse(c, PROBLEM_BUSY, NULL, "%d requests wait already", LIMIT_CREW_CALLS);
    }
}

static void *crew_main(void *context)
{
    struct api *api = context;
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
        job->run(job); /* with the answer, call and job are gone */
        (void)pthread_mutex_lock(&api->lock);
        api->running--;
        if (api->running == 0 && api->first == NULL) {
            (void)pthread_cond_broadcast(&api->idle);
        }
    }
    (void)pthread_mutex_unlock(&api->lock);
    return NULL;
}

/* ---------------------------------------------------------------------------------------- times */

static void unlink_timing(struct api *api, struct timing *t)
{
    if (t->previous != NULL) {
        t->previous->next = t->next;
    } else {
        api->times = t->next;
    }
    if (t->next != NULL) {
        t->next->previous = t->previous;
    } else {
        api->last_time = t->previous;
    }
    t->next = t->previous = NULL;
    t->armed = false;
}

/* From the end: most wait equally long, so the new one is the last. */
static void link_timing(struct api *api, struct timing *t)
{
    struct timing *after = api->last_time;
    while (after != NULL && after->at_us > t->at_us) {
        after = after->previous;
    }
    t->previous = after;
    t->next = after != NULL ? after->next : api->times;
    if (t->next != NULL) {
        t->next->previous = t;
    } else {
        api->last_time = t;
    }
    if (after != NULL) {
        after->next = t;
    } else {
        api->times = t;
    }
    t->armed = true;
}

void timing_start(struct api *api, struct timing *t, qp_ms within_ms, void (*late)(struct timing *))
{
    t->late = late;
    (void)pthread_mutex_lock(&api->clock_lock);
    t->at_us = api_is_draining(api) ? 0 : now_us(api) + within_ms * 1000;
    link_timing(api, t);
    if (api->times == t) {
        (void)pthread_cond_signal(&api->clock_changed);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
}

bool timing_stop(struct api *api, struct timing *t)
{
    bool stopped;
    (void)pthread_mutex_lock(&api->clock_lock);
    stopped = t->armed;
    if (stopped) {
        unlink_timing(api, t);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
    return stopped;
}

/* Until the first time comes, or the list changes. Under the clock's lock. */
static void clock_sleep(struct api *api)
{
    struct timespec until;
    int64_t left_us;
    if (api->times == NULL) {
        (void)pthread_cond_wait(&api->clock_changed, &api->clock_lock);
        return;
    }
    left_us = api->times->at_us - now_us(api);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_us / 1000000;
    until.tv_nsec += left_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&api->clock_changed, &api->clock_lock, &until);
}

static void *clock_main(void *context)
{
    struct api *api = context;
    (void)pthread_mutex_lock(&api->clock_lock);
    while (!api->clock_stop) {
        struct timing *t = api->times;
        if (t == NULL || (t->at_us > now_us(api) && !api_is_draining(api))) {
            clock_sleep(api);
            continue;
        }
        unlink_timing(api, t);
        (void)pthread_mutex_unlock(&api->clock_lock);
        t->late(t);
        (void)pthread_mutex_lock(&api->clock_lock);
    }
    (void)pthread_mutex_unlock(&api->clock_lock);
    return NULL;
}

/* ---------------------------------------------------------------------------------- open, close */

static void stop_threads(struct api *api)
{
    (void)pthread_mutex_lock(&api->lock);
    api->stop = true;
    (void)pthread_cond_broadcast(&api->work);
    (void)pthread_mutex_unlock(&api->lock);
    for (int i = 0; i < api->thread_count; i++) {
        (void)pthread_join(api->threads[i], NULL);
    }
}

static int start_threads(struct api *api, struct qp_err *err)
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

static void api_free(struct api *api)
{
    idempotency_destroy(api->idempotency);
    auth_destroy(api->auth);
    (void)pthread_mutex_destroy(&api->lock);
    (void)pthread_mutex_destroy(&api->clock_lock);
    (void)pthread_cond_destroy(&api->work);
    (void)pthread_cond_destroy(&api->idle);
    (void)pthread_cond_destroy(&api->clock_changed);
    mem_free(api->options.env, api->threads);
    mem_free(api->options.env, api);
}

int api_open(const struct api_options *options, struct api **out_api, struct qp_err *err)
{
    struct api *api = mem_alloc(options->env, sizeof *api);
    int rc;
    if (api == NULL) {
        return err_set(err, QP_E_NOMEM, "api: out of memory");
    }
    api->options = *options;
    uuid_source_init(&api->uuids);
    (void)pthread_mutex_init(&api->lock, NULL);
    (void)pthread_mutex_init(&api->clock_lock, NULL);
    (void)pthread_cond_init(&api->work, NULL);
    cond_init_monotonic(&api->idle);
    cond_init_monotonic(&api->clock_changed);
    rc = auth_create(options->engine, options->env, options->token_rate, &api->auth);
    rc = rc == QP_OK ? idempotency_create(options->env, &api->idempotency) : rc;
    rc = rc == QP_OK ? start_threads(api, err) : err_set(err, rc, "out of memory");
    if (rc == QP_OK && pthread_create(&api->clock, NULL, clock_main, api) != 0) {
        rc = err_set(err, QP_E_LIMIT, "the system refuses another thread");
    }
    if (rc != QP_OK) {
        stop_threads(api);
        api_free(api);
        return err_wrap(err, rc, "api");
    }
    *out_api = api;
    return QP_OK;
}

void api_drain(struct api *api, qp_ms within_ms)
{
    struct timespec until;
    atomic_store(&api->draining, true);
    (void)pthread_mutex_lock(&api->clock_lock);
    (void)pthread_cond_signal(&api->clock_changed);
    (void)pthread_mutex_unlock(&api->clock_lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += within_ms / 1000 + 1;
    (void)pthread_mutex_lock(&api->lock);
    while (api->running > 0 || api->first != NULL) {
        if (pthread_cond_timedwait(&api->idle, &api->lock, &until) != 0) {
            break;
        }
    }
    (void)pthread_mutex_unlock(&api->lock);
}

void api_close(struct api *api)
{
    if (api == NULL) {
        return;
    }
    stop_threads(api);
    (void)pthread_mutex_lock(&api->clock_lock);
    QP_ASSERT(api->times == NULL); /* who keeps a call has answered it */
    api->clock_stop = true;
    (void)pthread_cond_signal(&api->clock_changed);
    (void)pthread_mutex_unlock(&api->clock_lock);
    (void)pthread_join(api->clock, NULL);
    api_free(api);
}

/* ---------------------------------------------------------------------------- the way of a call */

static void run_handler(struct api_call *c)
{
    c->route->handle(c);
}

static void dispatch(struct api_call *c)
{
    if ((c->route->flags & ROUTE_BLOCKS) != 0) {
        api_later(c, run_handler);
    } else {
        c->route->handle(c);
    }
}

bool api_has_type(const struct api_call *c, const char *name)
{
    qp_str type = c->content_type;
    size_t n = strlen(name);
    return type.n >= n && strncasecmp(type.p, name, n) == 0 &&
           (type.n == n || type.p[n] == ';' || type.p[n] == ' ');
}

static bool is_yaml(const struct api_call *c)
{
    return (c->route->flags & ROUTE_YAML) != 0 && api_has_type(c, "application/yaml");
}

/* An empty body is an empty object: actions have nothing to say most of the time. */
static bool check_body(struct api_call *c)
{
    struct qp_err err;
    int rc;
    if ((c->route->flags & ROUTE_BODY) == 0) {
        return true;
    }
    if (is_yaml(c)) {
        return true;
    }
    if (c->body.n == 0) {
        c->body = QP_STR("{}");
        return true;
    }
    if (!api_has_type(c, "application/json")) {
        api_refuse(c, PROBLEM_MEDIA_TYPE, NULL,
                   "the header Content-Type has to be application/json%s",
                   (c->route->flags & ROUTE_YAML) != 0 ? " or application/yaml" : "");
        return false;
    }
    rc = json_check(api_env(c->api), c->body, NULL, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
    }
    return rc == QP_OK;
}

static bool check_namespace(struct api_call *c)
{
    struct qp_err err;
    qp_str ns = QP_NONE;
    if ((c->route->flags & ROUTE_SPACED) == 0) {
        return true;
    }
    ns = api_parameter(c, "namespace");
    ns = str_is_none(ns) ? QP_STR("default") : ns;
    if (name_check(ns, "namespace", &err) != QP_OK) {
        api_refuse(c, PROBLEM_BAD_PARAMETER, "namespace", "%s", err.text);
        return false;
    }
    /* Whoever may not see it learns no more than that there is none. */
    if (!glob_match(c->who.namespaces, ns)) {
        (void)err_set(&err, QP_E_NOT_FOUND, "namespace '%.*s': not found", STR_ARG(ns));
        api_fail(c, QP_E_NOT_FOUND, &err);
        return false;
    }
    c->ns = ns;
    return true;
}

static bool is_known(const struct route *route, qp_str name)
{
    const char *p = route->parameters;
    if ((route->flags & ROUTE_SPACED) != 0 && str_equal(name, QP_STR("namespace"))) {
        return true;
    }
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (str_equal(name, (qp_str){p, n})) {
            return true;
        }
        p += n;
        p += *p == ' ';
    }
    return false;
}

/* Takes the next name=value off the front of the query, as they were sent. */
static bool next_pair(qp_str *query, qp_str *out_name, qp_str *out_value)
{
    size_t n = 0;
    const char *equals;
    if (query->n == 0) {
        return false;
    }
    while (n < query->n && query->p[n] != '&') {
        n++;
    }
    equals = memchr(query->p, '=', n);
    *out_name = (qp_str){query->p, equals == NULL ? n : (size_t)(equals - query->p)};
    *out_value =
        equals == NULL ? (qp_str){query->p + n, 0} : (qp_str){equals + 1, n - out_name->n - 1};
    query->p += n < query->n ? n + 1 : n;
    query->n -= n < query->n ? n + 1 : n;
    return true;
}

/* Every parameter is known, decodes, and comes once. */
static bool check_query(struct api_call *c)
{
    qp_str rest = c->query;
    qp_str seen[LIMIT_PARAMETERS];
    qp_str name, value, text;
    size_t count = 0;
    while (next_pair(&rest, &name, &value)) {
        char shown[LIMIT_LOG_ECHO_SIZE];
        (void)log_escape(name, shown, sizeof shown);
        if (!is_known(c->route, name)) {
            api_refuse(c, PROBLEM_BAD_PARAMETER, shown, "there is no such parameter here");
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            if (str_equal(seen[i], name)) {
                api_refuse(c, PROBLEM_BAD_PARAMETER, shown, "it comes twice");
                return false;
            }
        }
        if (!percent_decode(&c->arena, value, true, &text)) {
            api_refuse(c, PROBLEM_BAD_PARAMETER, shown, "it is no percent-encoded UTF-8");
            return false;
        }
        QP_ASSERT(count < LIMIT_PARAMETERS); /* more than a route has would not be known */
        seen[count++] = name;
    }
    return true;
}

/* Who asks is known. */
static void authorized(struct api_call *c)
{
    int scope = c->route->scope;
    if (scope != SCOPE_OPEN && (c->who.scopes & scope) == 0) {
        api_refuse(c, PROBLEM_FORBIDDEN, NULL, "the token lacks the scope %s", scope_word(scope));
        return;
    }
    if ((c->route->flags & ROUTE_WHOLE) != 0 && strcmp(c->who.namespaces, "*") != 0) {
        api_refuse(c, PROBLEM_FORBIDDEN, NULL, "the token is not for the whole store");
        return;
    }
    if (!check_query(c) || !check_namespace(c) || !check_body(c)) {
        return;
    }
    if ((c->route->flags & ROUTE_REPEATS) == 0) {
        c->idempotency_key = QP_NONE;
    }
    if (str_is_none(c->idempotency_key) || idempotency_begin(c->api->idempotency, c)) {
        dispatch(c);
    }
}

static void refuse_unknown(struct api_call *c)
{
    api_refuse(c, PROBLEM_UNAUTHORIZED, NULL, "%s",
               str_is_none(c->authorization) ? "there is no header Authorization"
                                             : "the token is unknown, revoked or expired");
}

/* A token that asks too often is a good one. */
static bool is_stranger(int rc)
{
    return rc != QP_OK && rc != QP_E_LIMIT;
}

/* What was found of a token. */
static void found_who(struct api_call *c, int rc)
{
    c->stranger = is_stranger(rc);
    if (rc == QP_OK) {
        authorized(c);
    } else if (rc == QP_E_LIMIT) {
        api_refuse(c, PROBLEM_RATE, NULL, "a token has %lld requests per second",
                   (long long)c->api->options.token_rate);
    } else if (rc == QP_E_NOT_FOUND) {
        refuse_unknown(c);
    } else {
        api_fail(c, rc, NULL); /* a worker that is told 401 would give up */
    }
}

static void ask_who(struct api_call *c)
{
    found_who(c, auth_ask(c->api->auth, c->authorization, &c->who));
}

static const struct principal everybody = {
    .token = "local", .role = "admin", .scopes = SCOPE_ALL, .namespaces = "*", .topics = "*"};

/* Nobody else gets here, or the peer has shown who he is otherwise. */
static bool needs_token(const struct api_call *c)
{
    const struct api_options *o = &c->api->options;
    bool own_user = o->peers && c->peer_uid >= 0 && c->peer_uid == (int64_t)geteuid();
    return !o->open && !c->local && !(own_user && str_is_none(c->authorization));
}

static void authenticate(struct api_call *c)
{
    int rc;
    if (c->route->scope == SCOPE_OPEN || !needs_token(c)) {
        c->who = everybody;
        authorized(c);
        return;
    }
    rc = c->asked ? c->asked_rc : auth_known(c->api->auth, c->authorization, &c->who);
    if (rc == QP_E_BUSY && !c->asked) {
        api_later(c, ask_who);
    } else {
        found_who(c, rc);
    }
}

/* What was found of a token before the body; it is asked for once. */
static void admitted(struct api_call *c, int rc)
{
    c->asked = true;
    c->asked_rc = rc;
    c->stranger = is_stranger(rc);
}

bool api_admit(struct api_call *c)
{
    const char *allow = NULL;
    int rc;
    c->route = route_find(c->method, c->path, c->parts, &allow);
    c->stranger = needs_token(c);
    if (!c->stranger || c->route == NULL || c->route->scope == SCOPE_OPEN) {
        return true; /* nobody is asked for a token */
    }
    rc = auth_known(c->api->auth, c->authorization, &c->who);
    if (rc == QP_E_BUSY) {
        return false;
    }
    admitted(c, rc);
    return true;
}

static void admit_who(struct api_call *c)
{
    admitted(c, auth_ask(c->api->auth, c->authorization, &c->who));
    c->carrier->wake(c);
}

void api_admit_later(struct api_call *c)
{
    if (!crew_call(c, admit_who)) {
        admitted(c, QP_E_BUSY);
        c->carrier->wake(c);
    }
}

/* An id of the caller's when it is a decent one, else a new one. */
void api_identify(struct api_call *c)
{
    struct api *api = c->api;
    unsigned char uuid[UUID_SIZE];
    int rc;
    if (c->request_id[0] != '\0') {
        return;
    }
    (void)pthread_mutex_lock(&api->lock);
    rc = uuid_next(&api->uuids, api->options.env, uuid);
    (void)pthread_mutex_unlock(&api->lock);
    if (rc == QP_OK) {
        uuid_format(uuid, c->request_id);
        c->request_id[UUID_TEXT_SIZE] = '\0';
    }
}

static bool decode_parts(struct api_call *c)
{
    for (size_t i = 0; i < CALL_PARTS; i++) {
        if (!str_is_none(c->parts[i]) &&
            !percent_decode(&c->arena, c->parts[i], false, &c->parts[i])) {
            api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "the address is no percent-encoded UTF-8");
            return false;
        }
    }
    return true;
}

void api_begin(struct api_call *c)
{
    const char *allow = NULL;
    api_identify(c);
    c->stranger = needs_token(c);
    c->route = route_find(c->method, c->path, c->parts, &allow);
    if (c->route == NULL && allow == NULL) {
        api_refuse(c, PROBLEM_UNKNOWN_ROUTE, NULL, "nothing is at this address");
    } else if (c->route == NULL) {
        c->allow = allow;
        api_refuse(c, PROBLEM_METHOD, NULL, "it takes %s", allow);
    } else if (api_is_draining(c->api) && c->route->scope != SCOPE_OPEN) {
        c->close_after = true;
        api_refuse(c, PROBLEM_DRAINING, NULL, "the server is shutting down");
    } else if (decode_parts(c)) {
        authenticate(c);
    }
}

/* ----------------------------------------------------------------------------------- in process */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
};

static void waiter_wake(struct api_call *c)
{
    struct waiter *w = c->kept_by_carrier;
    (void)pthread_mutex_lock(&w->lock);
    w->done = true;
    (void)pthread_cond_signal(&w->answered);
    (void)pthread_mutex_unlock(&w->lock);
}

static const struct api_carrier in_process = {.wake = waiter_wake};

static void await(struct waiter *w)
{
    (void)pthread_mutex_lock(&w->lock);
    while (!w->done) {
        (void)pthread_cond_wait(&w->answered, &w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

void api_do(struct api_call *c)
{
    const struct qp_env *env = api_env(c->api);
    struct waiter *w = mem_alloc(env, sizeof *w);
    if (w == NULL) {
        api_fail(c, QP_E_NOMEM, NULL);
        return;
    }
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->answered, NULL);
    c->carrier = &in_process;
    c->kept_by_carrier = w;
    api_begin(c);
    if (api_call_park(c)) {
        await(w);
    }
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->answered);
    mem_free(env, w);
    api_render(c);
    if (c->finished != NULL) {
        c->finished(c, true);
    }
}
