/* api.h - what can be asked of an engine, as calls
 *
 * An API stands on one engine handle and answers calls (call.h) by the routes of routes.def. It
 * owns the CREW, the threads on which handlers that wait for the store run, so that carriers'
 * threads never wait; and the TIMES of calls that are kept until something happens (?wait=, long
 * polls).
 *
 * Threads: api_begin from any thread; handlers as their route says. Between api_open and api_close.
 */
#ifndef QP_SERVER_API_H
#define QP_SERVER_API_H

#include "base/metrics.h"
#include "server/auth.h"
#include "server/call.h"
#include "server/route.h"

struct api_options {
    qp *engine;
    const struct qp_env *env; /* outlives the API */
    struct metrics *metrics;  /* NULL: nothing is counted */
    int threads;              /* of the crew; 0: the default */
    bool limited;             /* calls have a deadline: there is a server, and peers wait */
    bool open;                /* --no-auth: nobody is asked for a token */
    bool peers;               /* calls of our own user over a Unix socket need no token: not where
                                 that user may be a proxy, who asks for others */
    size_t bodies_size;       /* of all requests at a time; 0: LIMIT_BODIES_SIZE */
    int64_t token_rate;       /* requests per second of one token; 0: any */
    const char *backups;      /* directory for POST /v1/backup; NULL: there is none */
    /* Of a listener that has addresses of its own. */
    const struct route_table *routes; /* NULL: api_routes */
    void *context;                    /* for their handlers */
    const struct principal
        *as;            /* the caller of every call that is let in; NULL: as its token says */
    const char *secret; /* with `as`: the one token that calls need; NULL: they need none */
    /* Writes the JSON of a problem; NULL: RFC 9457. */
    void (*problem)(const struct api_call *c, const char *code, const char *detail,
                    struct json_writer *w);
};

int api_open(const struct api_options *options, struct api **out_api,
             struct qp_err *err) QP_MUST_USE;
/* All kept calls are answered, no more are taken: 503. Returns when the handlers have returned,
 * or after `within_ms`. */
void api_drain(struct api *api, qp_ms within_ms);
void api_close(struct api *api);

/* Routes, authenticates and handles the call; it is answered when this returns, or later. */
void api_begin(struct api_call *c);

/* Gives the call an id, unless it has one; for carriers that refuse one before it begins. */
void api_identify(struct api_call *c);

/* Whose body is to come, for carriers that read one only then: whether it is a `stranger`. False:
 * the store has to be asked, with api_admit_later, which may answer from any thread with a wake of
 * the carrier. Then api_begin, without the body of a stranger. */
bool api_admit(struct api_call *c) QP_MUST_USE;
void api_admit_later(struct api_call *c);

/* A call in process, answered when this returns. The caller has filled in method, path, query,
 * body (with its content_type) and, for whoever has the file in his hands anyway, `local`; he
 * reads status and out, and ends it with api_finished and api_call_done. There are no streams in
 * process. */
void api_do(struct api_call *c);

const struct api_options *api_options(const struct api *api);
struct idempotency *api_idempotency(struct api *api);
qp *api_engine(const struct api *api);
const struct qp_env *api_env(const struct api *api);
struct auth *api_auth(struct api *api);
atomic_int *api_streams(struct api *api); /* how many are open */
/* Carriers ask for room before they keep more of a body than LIMIT_BODY_SMALL_SIZE, and give it back: else
 * whoever opens enough connections, with a token or without, has all of our memory. */
bool api_hold(struct api *api, size_t size) QP_MUST_USE;
void api_let_go(struct api *api, size_t size);
bool api_is_draining(const struct api *api);

/* ------------------------------------------------------------------------------ for handlers */

/* Work for a thread of the crew. False: there is no room, which cannot be when it `must`: then
 * its number is bounded by something else. It belongs to the crew until it runs. */
bool crew_put(struct api *api, struct crew_job *job) QP_MUST_USE;
/* Runs `run` on a thread of the crew, or answers with 503. */
void api_later(struct api_call *c, void (*run)(struct api_call *c));

/* A call has a deadline, LIMIT_CALL_MS from here, if its carrier can do with an answer in the handler's place. What waits for
 * a thread of the crew by then, or in the engine's inbox, is not executed and answered with 503; what the store has in hand
 * is answered a little later with 504, if the store does not answer: else it is waited for. Kept calls that wait for
 * something else than the store stop it; those that keep their own time once the engine has them leave it: they are only
 * withdrawn from its inbox. */
void due_start(struct api_call *c);
void due_stop(struct api_call *c);
void due_leave(struct api_call *c);

/* A kept call and its time. `late` runs once, on the API's clock thread, unless timing_stop came
 * before, which tells whether it did. `late` takes no lock that is held around timing_stop. A
 * drain makes every time come at once. */
struct timing {
    struct timing *next, *previous;
    int64_t at_us;
    bool armed;
    void (*late)(struct timing *t);
};
void timing_start(struct api *api, struct timing *t, qp_ms within_ms,
                  void (*late)(struct timing *t));
bool timing_stop(struct api *api, struct timing *t);

/* A parameter of the query; none when it is not there. Decoded, in the call's arena; api_begin
 * has seen to it that all are known and none comes twice. */
qp_str api_parameter(struct api_call *c, const char *name);
/* A duration of the query, cut to `most`; `otherwise` when there is none. False: the call is
 * refused. */
bool api_duration(struct api_call *c, const char *name, qp_ms most, qp_ms otherwise, qp_ms *out_ms);
/* A time, or one before now (moment_parse); without the parameter it is now. */
bool api_moment(struct api_call *c, const char *name, qp_ms *out_at);
/* A number of the query, cut to `most`. */
bool api_number(struct api_call *c, const char *name, int64_t most, int64_t otherwise,
                int64_t *out_number);

/* Whether the body is said to be of this media type. */
bool api_has_type(const struct api_call *c, const char *name);

/* Counts the answer, and puts what has to be remembered into the audit. By carriers, before the
 * call is gone. */
void api_finished(struct api_call *c);

#endif
