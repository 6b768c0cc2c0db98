/* call.h - one request and its answer, whatever carries them
 *
 * A CALL is made by who has a request (http.c from the network, the command line in process),
 * goes through api_begin (api.h), which finds its route, asks who it is, and runs the route's
 * handler, and comes back with an answer. Handlers know nothing of HTTP's bytes, so what the API
 * does is the same on a server, on a file and in a fuzzer.
 *
 *               api_begin                          api_answer
 *     ASKED ------------------> RUNNING -----------------------------> ANSWERED
 *                                  |  the handler keeps it                ^
 *                                  +-----> PARKED (its peer waits) -------+   carrier->wake
 *
 * A handler answers exactly once: before it returns, or later and from any thread. From then on
 * the call belongs to its carrier again, and the handler does not touch it. While it is kept,
 * the carrier asks nothing of it; who keeps it may ask the carrier whether the peer is still
 * there.
 *
 * A peer does not wait longer than the deadline of its request. When that is over and the handler is still in the
 * store, the API's clock answers in its place, with a text of its own, and the call stays the handler's:
 *
 *                 the clock              the handler answers, which is not told
 *     PARKED -------------------> LATE -----------------------------------------> ANSWERED
 *                                   |  the carrier is done with it     the handler answers
 *                                   +------------------------> LEFT -----------------------> carrier->drop
 *
 * Texts of the request belong to the carrier and live as long as the call, unless
 * api_call_settle gives them back early: a parked call should be small.
 */
#ifndef QP_SERVER_CALL_H
#define QP_SERVER_CALL_H

#include <stdatomic.h>

#include "base/json.h"
#include "base/mem.h"

struct api;
struct api_call;
struct route;

/* A piece of work for the crew (api.h). */
struct crew_job {
    struct crew_job *next;
    void (*run)(struct crew_job *job);
    bool must;        /* be taken, however many wait */
    int64_t until_us; /* when its answer should be there; 0: LIMIT_CALL_MS after it begins */
};

enum api_method { API_GET, API_POST, API_PUT, API_DELETE, API_OTHER };

/* What a token may do: the scopes of security.md. */
enum api_scope {
    SCOPE_READ = 1,
    SCOPE_START = 2,
    SCOPE_SIGNAL = 4,
    SCOPE_WORK = 8,
    SCOPE_DEPLOY = 16,
    SCOPE_ADMIN = 32,
};
#define SCOPE_ALL 63
/* For the column of the route table: nobody is asked for a token. */
#define SCOPE_OPEN 0
/* Likewise: any token will do. */
#define SCOPE_ANY SCOPE_ALL

#define TOKEN_HASH_SIZE 32

/* Who asks. Globs have one kind of wildcard, a star for any text. */
struct principal {
    unsigned char hash[TOKEN_HASH_SIZE]; /* of its secret; zeroes without one */
    char token[LIMIT_TOKEN_ID_SIZE + 1]; /* its id; "local" without one */
    const char *role;                    /* a name that stays */
    int scopes;
    char namespaces[LIMIT_NAME_SIZE + 1]; /* glob */
    char topics[LIMIT_NAME_SIZE + 1];     /* glob, for SCOPE_WORK */
};

/* An answer that goes on: events as they happen. `read` fills in what there is and returns its
 * size; 0: nothing now, and the carrier sleeps until api_stream_wake; -1: it has ended. `close`
 * gives up the rest, once, also after the end. */
struct api_stream {
    struct api_call *call;
    long (*read)(struct api_stream *s, char *out, size_t size);
    void (*close)(struct api_stream *s);
};

/* Who carries calls. Every function may be called from any thread while the call is kept. */
struct api_carrier {
    /* A parked call was answered. Not called when it was answered before api_begin returned. */
    void (*wake)(struct api_call *c);
    /* Is the peer of a kept call still there? NULL: always. */
    bool (*there)(struct api_call *c);
    /* There is something to read in the call's stream. */
    void (*stream_wake)(struct api_call *c);
    /* The handler is done with a call that was LEFT: it goes. NULL: its calls have no deadline. */
    void (*drop)(struct api_call *c);
};

enum call_state { CALL_RUNNING, CALL_PARKED, CALL_ANSWERED, CALL_LATE, CALL_LEFT };

/* A call in the list of those that have a deadline; under the clock's lock of the API. */
struct due {
    struct api_call *next, *previous;
    int64_t at_us;
    int list;  /* 0: in none; else which (api_internal.h) */
    bool kept; /* its handler keeps its time once the engine has it */
};

#define CALL_PARTS 2

struct api_call {
    struct api *api;
    const struct api_carrier *carrier;
    struct crew_job job;
    void (*run)(struct api_call *c);     /* on the crew */
    void (*not_run)(struct api_call *c); /* no thread had time for it: nothing of it was done */

    /* the request */
    enum api_method method;
    qp_str path;  /* as it was sent */
    qp_str query; /* after the question mark, as it was sent */
    struct buf in;
    qp_str body; /* in `in` */
    qp_str authorization;
    qp_str accept;
    qp_str content_type;
    qp_str idempotency_key;
    qp_str last_event_id;
    qp_str range;
    qp_str traceparent;
    qp_str from;      /* the peer's address */
    int64_t peer_uid; /* of a Unix socket; -1: unknown */
    bool local;       /* in process: nobody is asked for a token */
    char request_id[LIMIT_REQUEST_ID_SIZE + 1];

    /* what api_begin has made of it */
    bool routed; /* its route was looked for */
    const struct route *route;
    qp_str parts[CALL_PARTS]; /* what stands at the {places} of the path, decoded */
    struct principal who;
    bool stranger; /* no token of his was looked at and found good */
    bool asked;    /* for who he is, before the body came; `asked_rc` is what auth said */
    int asked_rc;
    qp_str ns;      /* the namespace that is meant */
    qp_str target;  /* for the audit; none: the first part */
    bool audited;   /* the handler has seen to it */
    bool in_flight; /* its Idempotency-Key is taken until the answer */
    unsigned char idempotency_guid[LIMIT_GUID_SIZE];
    struct arena arena;

    /* its deadline */
    struct due due;
    int64_t deadline_us; /* monotonic; 0: none */
    bool keeps_texts;    /* those of its headers are in the arena */
    int late_status;     /* of the answer in the handler's place; 0: there is none */
    struct buf late;     /* and its text */

    /* the answer */
    void (*render)(
        struct api_call *c); /* writes it, on the carrier's thread; NULL: it is written */
    int status;
    const char *content_type_out;
    struct buf out;
    int retry_after_s;
    bool replayed;           /* an answer of before: Idempotency-Replayed */
    bool close_after;        /* nothing more is read from this peer */
    const char *allow;       /* of 405 */
    const char *header_name; /* one more header, of the handler's choice; NULL: none */
    const char *header_value;
    char content_range[64]; /* of 206 and 416; else empty */
    struct api_stream *stream;

    /* who keeps it */
    void *kept_by_carrier;
    void *kept;
    /* The answer was told to the peer, or could not be. On the carrier's thread, once, when it
     * is set. */
    void (*finished)(struct api_call *c, bool told);
    int64_t began_us;
    atomic_int state;
};

void api_call_init(struct api_call *c, struct api *api, const struct api_carrier *carrier);
void api_call_done(struct api_call *c);

/* Gives back body and texts: what the handler still needs, it has copied. */
void api_call_settle(struct api_call *c);

/* The answer is complete: status and body are set. */
void api_answer(struct api_call *c);
/* The same from a thread that has no time to write the answer: `render` sets status and body,
 * and does not answer. */
void api_answer_by(struct api_call *c, void (*render)(struct api_call *c));
/* By the carrier, on its own thread, before it reads the answer. */
void api_render(struct api_call *c);
/* Answers a parked call in its handler's place: 503 for what only reads, since nothing can have happened, else 504. False:
 * it is not parked, or answered. Who calls this makes sure that it is not answered and gone meanwhile. */
bool api_call_late(struct api_call *c);
/* Whether that has happened. */
bool api_call_is_late(const struct api_call *c);
/* By the carrier, when the answer was told: true when it goes on as the handler's own, until carrier->drop. */
bool api_call_leave(struct api_call *c);
/* By the carrier, when api_begin has returned: false when it is answered already, else it is
 * parked. */
bool api_call_park(struct api_call *c);

/* The usual answer: writes one JSON value into the body, between these two. api_json_set is for
 * `render`. */
void api_json(struct api_call *c, struct json_writer *w);
void api_json_end(struct api_call *c, struct json_writer *w, int status);
void api_json_set(struct api_call *c, struct json_writer *w, int status);

/* ------------------------------------------------------------------------------------- problems */

/* What the server itself refuses, beside the errors of quipu.h. X(NAME, status, code, title,
 * hint) */
#define API_PROBLEMS(X)                                                                            \
    X(UNKNOWN_ROUTE, 404, "unknown_route", "there is no such address", "see /openapi.json")        \
    X(METHOD, 405, "method_not_allowed", "the address does not take this method",                  \
      "the header Allow names those it takes")                                                     \
    X(UNAUTHORIZED, 401, "unauthorized", "a valid token is needed",                                \
      "send Authorization: Bearer TOKEN; the first one is in the data directory, in admin.token")  \
    X(FORBIDDEN, 403, "forbidden", "the token does not allow this",                                \
      "ask an administrator for a token with the scope that is named")                             \
    X(MISDIRECTED, 421, "misdirected", "the name in the header Host is not one of this server",    \
      "use its address, or start it with --host NAME")                                             \
    X(BAD_REQUEST, 400, "bad_request", "the request is malformed", "see docs/http-api.md")         \
    X(MEDIA_TYPE, 415, "unsupported_media_type", "the body is not JSON",                           \
      "send Content-Type: application/json")                                                       \
    X(UNKNOWN_FIELD, 400, "unknown_field", "a field is not known",                                 \
      "check its spelling; /openapi.json lists the fields")                                        \
    X(BAD_FIELD, 400, "bad_field", "a field has a wrong value", "/openapi.json has its type")      \
    X(MISSING_FIELD, 400, "missing_field", "a field is missing", "/openapi.json lists the fields") \
    X(BAD_PARAMETER, 400, "bad_parameter", "a parameter of the query is wrong",                    \
      "/openapi.json lists the parameters")                                                        \
    X(RANGE, 416, "range", "the range is outside of the text",                                     \
      "the header Content-Range has its size")                                                     \
    X(BODY_SIZE, 413, "too_large", "the body is larger than the limit",                            \
      "send less, or start the server with a larger --max-body")                                   \
    X(HEADER_SIZE, 431, "headers_too_large", "the headers are larger than the limit",              \
      "send fewer or shorter headers")                                                             \
    X(URI_SIZE, 414, "uri_too_long", "the address is longer than the limit", "send a shorter one") \
    X(IDEMPOTENCY_BUSY, 409, "idempotency_in_flight",                                              \
      "a request with this Idempotency-Key is being answered", "wait, and send it again")          \
    X(IDEMPOTENCY_OTHER, 422, "idempotency_mismatch",                                              \
      "this Idempotency-Key was used with another request", "use a new key for a new request")     \
    X(RATE, 429, "rate_limited", "the token has asked too often",                                  \
      "wait as long as Retry-After says; give programs tokens of their own")                       \
    X(BUSY, 503, "busy", "the server has too much to do", "try again in a moment")                 \
    X(DRAINING, 503, "draining", "the server is shutting down", "try again in a moment")           \
    X(NOT_READY, 503, "not_ready", "the store cannot be written to", "see the server's log")

enum api_problem {
#define API_PROBLEM_NAME(name, status, code, title, hint) PROBLEM_##name,
    API_PROBLEMS(API_PROBLEM_NAME)
#undef API_PROBLEM_NAME
        PROBLEM_COUNT
};

/* Answers with a problem (RFC 9457). `pointer` (a JSON pointer, or the name of a parameter) and
 * `detail` may be NULL. What was in the body before is gone. */
void api_refuse(struct api_call *c, enum api_problem problem, const char *pointer,
                const char *format, ...) QP_PRINTF(4, 5);
void api_refuse_set(struct api_call *c, enum api_problem problem,
                    const char *detail); /* for `render` */
/* Where something is wrong: in the request (`pointer`), or in a text that it brings (line and column). None and 0 are left
 * out. */
struct api_error {
    const char *pointer;
    const char *code;
    int line;
    int column;
    qp_str detail;
    qp_str hint;
};
/* A list of them in an answer, under this name; nothing when there are none. */
void api_put_errors(struct json_writer *w, const char *name, const struct api_error *errors,
                    size_t count);
/* An error of the library, with all places that it is about. */
void api_fail_at(struct api_call *c, int rc, const struct qp_err *err,
                 const struct api_error *errors, size_t count);
void api_fail_at_set(struct api_call *c, int rc, const struct qp_err *err,
                     const struct api_error *errors, size_t count);
/* The same for an error of the library; err may be NULL. With a pointer it is about that field of the body.
 * api_fail_set is for `render`. */
void api_fail(struct api_call *c, int rc, const struct qp_err *err);
void api_fail_set(struct api_call *c, int rc, const struct qp_err *err);
/* The media type of problems, as the API writes them. */
const char *api_problem_type(const struct api_call *c);
/* The words of a problem, for tests and docs. */
const char *api_problem_code(enum api_problem problem);
int api_problem_status(enum api_problem problem);

#endif
