/* api.c - from a call to its handler: the route, who asks, the body
 *
 * The order of checks is fixed, so that nobody without a token learns more than that there is a
 * route: address, method, token, scope, namespace, query, body. Scopes are checked here and
 * nowhere else.
 */
#include "server/api_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/hash.h"
#include "base/log.h"
#include "server/fields.h"
#include "server/idempotency.h"

/* ---------------------------------------------------------------------------------- open, close */

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

/* What was opened is given back by crew_stop and api_free; the clock is the last. */
static int open_parts(struct api *api, struct qp_err *err)
{
    const struct api_options *o = &api->options;
    if (auth_create(o->engine, o->env, o->token_rate, &api->auth) != QP_OK ||
        idempotency_create(o->env, &api->idempotency) != QP_OK) {
        return err_set(err, QP_E_NOMEM, "out of memory");
    }
    QP_TRY(crew_start(api, err));
    if (pthread_create(&api->clock, NULL, clock_main, api) != 0) {
        return err_set(err, QP_E_LIMIT, "the system refuses another thread");
    }
    return QP_OK;
}

int api_open(const struct api_options *options, struct api **out_api, struct qp_err *err)
{
    struct api *api = mem_alloc(options->env, sizeof *api);
    int rc;
    if (api == NULL) {
        return err_set(err, QP_E_NOMEM, "api: out of memory");
    }
    api->options = *options;
    if (api->options.routes == NULL) {
        api->options.routes = &api_routes;
    }
    api->look_us = INT64_MAX;
    uuid_source_init(&api->uuids);
    (void)pthread_mutex_init(&api->lock, NULL);
    (void)pthread_mutex_init(&api->clock_lock, NULL);
    (void)pthread_cond_init(&api->work, NULL);
    cond_init_monotonic(&api->idle);
    cond_init_monotonic(&api->clock_changed);
    rc = open_parts(api, err);
    if (rc != QP_OK) {
        crew_stop(api);
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
    crew_stop(api);
    (void)pthread_mutex_lock(&api->clock_lock);
    QP_ASSERT(api->times == NULL); /* who keeps a call has answered it */
    api->clock_stop = true;
    (void)pthread_cond_signal(&api->clock_changed);
    (void)pthread_mutex_unlock(&api->clock_lock);
    (void)pthread_join(api->clock, NULL);
    api_free(api);
}

/* ---------------------------------------------------------------------------- the way of a call */

static void call_endpoint(struct api_call *c)
{
    c->route->endpoint(c);
}

static void dispatch(struct api_call *c)
{
    if ((c->route->flags & ROUTE_BLOCKS) != 0) {
        api_later(c, call_endpoint);
    } else {
        c->route->endpoint(c);
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
    struct json_limits limits = {0};
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
    limits.frame = (c->route->flags & ROUTE_PARTS) != 0 ? ROUTE_FRAME : 0;
    rc = json_check(api_env(c->api), c->body, &limits, &err);
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
        if (!is_known(c->route, name) && (c->route->flags & ROUTE_FOREIGN) != 0) {
            continue;
        }
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

/* Of a body that was checked. */
static bool asks_for_dry_run(const struct api_call *c)
{
    struct raw_walk w = {.rest = c->body};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("dry_run")) && str_equal(w.value, QP_STR("true"))) {
            return true;
        }
    }
    return false;
}

static bool has_scope(struct api_call *c, int scope)
{
    if ((c->who.scopes & scope) == 0) {
        api_refuse(c, PROBLEM_FORBIDDEN, NULL, "the token lacks the scope %s", scope_word(scope));
        return false;
    }
    return true;
}

/* What a request with a dry run needs is known by its body, which strangers to both scopes need not send. */
static bool check_scope(struct api_call *c)
{
    bool dry = (c->route->flags & ROUTE_DRY) != 0 && (c->who.scopes & SCOPE_READ) != 0;
    return c->route->scope == SCOPE_OPEN || dry || has_scope(c, c->route->scope);
}

static bool check_dry_scope(struct api_call *c)
{
    return (c->route->flags & ROUTE_DRY) == 0 ||
           has_scope(c, asks_for_dry_run(c) ? SCOPE_READ : c->route->scope);
}

/* False: the call is refused, since its key is malformed or being answered. */
static bool take_key(struct api_call *c)
{
    struct qp_err err;
    int rc = idempotency_begin(c->api->idempotency, c, &err);
    if (rc == QP_E_INVALID || rc == QP_E_TOO_LARGE) {
        api_refuse(c, PROBLEM_BAD_REQUEST, NULL, "%s", err.text);
    } else if (rc == QP_E_BUSY) {
        api_refuse(c, PROBLEM_IDEMPOTENCY_BUSY, NULL, "%s", err.text);
    } else if (rc != QP_OK) {
        api_fail(c, rc, NULL);
    }
    return rc == QP_OK;
}

/* Who asks is known. */
static void authorized(struct api_call *c)
{
    if (!check_scope(c)) {
        return;
    }
    if ((c->route->flags & ROUTE_WHOLE) != 0 && strcmp(c->who.namespaces, "*") != 0) {
        api_refuse(c, PROBLEM_FORBIDDEN, NULL, "the token is not for the whole store");
        return;
    }
    if (!check_query(c) || !check_namespace(c) || !check_body(c) || !check_dry_scope(c)) {
        return;
    }
    if ((c->route->flags & ROUTE_REPEATS) == 0) {
        c->idempotency_key = QP_NONE;
    }
    if (str_is_none(c->idempotency_key) || take_key(c)) {
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

/* A call whose peer has been told that it took too long is not begun any more. */
static void ask_who(struct api_call *c)
{
    int rc = auth_ask(c->api->auth, c->authorization, &c->who);
    found_who(c, api_call_is_late(c) ? QP_E_TIMEOUT : rc);
}

static const struct principal everybody = {
    .token = "local", .role = "admin", .scopes = SCOPE_ALL, .namespaces = "*", .topics = "*"};

/* Nobody else gets here, or the peer has shown who he is otherwise. */
static bool needs_token(const struct api_call *c)
{
    const struct api_options *o = &c->api->options;
    if (o->as != NULL) {
        return o->secret != NULL;
    }
    bool own_user = o->peers && c->peer_uid >= 0 && c->peer_uid == (int64_t)geteuid();
    return !o->open && !c->local && !(own_user && str_is_none(c->authorization));
}

/* What stands behind "Bearer "; none: nothing. */
static qp_str bearer(qp_str authorization)
{
    static const qp_str word = {"Bearer ", 7};
    return authorization.n > word.n && strncasecmp(authorization.p, word.p, word.n) == 0
               ? (qp_str){authorization.p + word.n, authorization.n - word.n}
               : QP_NONE;
}

/* The one token of this listener, whose length is no secret. */
static int secret_known(struct api_call *c)
{
    const struct api_options *o = &c->api->options;
    qp_str secret = str_from(o->secret);
    qp_str sent = bearer(c->authorization);
    if (sent.n != secret.n || !hash_equal(sent.p, secret.p, secret.n)) {
        return QP_E_NOT_FOUND;
    }
    c->who = *o->as;
    return QP_OK;
}

/* QP_E_BUSY: the store has to be asked. */
static int token_known(struct api_call *c)
{
    return c->api->options.secret != NULL ? secret_known(c)
                                          : auth_known(c->api->auth, c->authorization, &c->who);
}

static void authenticate(struct api_call *c)
{
    int rc;
    if (c->route->scope == SCOPE_OPEN || !needs_token(c)) {
        c->who = c->api->options.as != NULL ? *c->api->options.as : everybody;
        authorized(c);
        return;
    }
    rc = c->asked ? c->asked_rc : token_known(c);
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

/* Once per call: before its body, where its carrier asks so early. */
static void find_route(struct api_call *c)
{
    if (!c->routed) {
        c->routed = true;
        c->route = route_find(c->api->options.routes, c->method, c->path, c->parts, &c->allow);
    }
}

bool api_admit(struct api_call *c)
{
    int rc;
    find_route(c);
    c->stranger = needs_token(c);
    if (!c->stranger || c->route == NULL || c->route->scope == SCOPE_OPEN) {
        return true; /* nobody is asked for a token */
    }
    rc = token_known(c);
    if (rc == QP_E_BUSY) {
        return false;
    }
    admitted(c, rc);
    return true;
}

/* Its body is still to come: the time that it takes is the peer's. */
static void admit_end(struct api_call *c, int rc)
{
    due_stop(c);
    c->deadline_us = 0;
    admitted(c, rc);
    c->carrier->wake(c);
}

static void admit_who(struct api_call *c)
{
    admit_end(c, auth_ask(c->api->auth, c->authorization, &c->who));
}

static void admit_not(struct api_call *c)
{
    admit_end(c, QP_E_BUSY);
}

void api_admit_later(struct api_call *c)
{
    c->not_run = admit_not;
    due_start(c);
    if (!crew_call(c, admit_who)) {
        admit_not(c);
    }
}

static void refuse_waiting(struct api_call *c)
{
    api_fail(c, QP_E_TIMEOUT,
             &(struct qp_err){.code = QP_E_TIMEOUT,
                              .text = "no thread was free in time: nothing was "
                                      "done, try again"});
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
    api_identify(c);
    c->stranger = needs_token(c);
    find_route(c);
    if (c->route == NULL && c->allow == NULL) {
        api_refuse(c, PROBLEM_UNKNOWN_ROUTE, NULL, "nothing is at this address");
    } else if (c->route == NULL) {
        api_refuse(c, PROBLEM_METHOD, NULL, "it takes %s", c->allow);
    } else if (api_is_draining(c->api) && c->route->scope != SCOPE_OPEN) {
        c->close_after = true;
        api_refuse(c, PROBLEM_DRAINING, NULL, "the server is shutting down");
    } else if (decode_parts(c)) {
        c->not_run = refuse_waiting;
        if (c->route->scope != SCOPE_OPEN) {
            due_start(c);
        }
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
