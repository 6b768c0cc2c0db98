/* ask.h - asking a server, or a store itself, in the same words
 *
 * A QUESTION is a call of the HTTP API (server/routes.def). A server gets it over HTTP or a Unix
 * socket (ask_server.c); of a store the same handlers answer it in this process (ask_file.c). So
 * both give the same answers, byte by byte. A command that does not write opens a store for
 * reading only, also while an engine works on it.
 */
#ifndef QP_CLI_ASK_H
#define QP_CLI_ASK_H

#include "cli/cli.h"
#include "server/route.h"

struct question {
    enum api_method method;
    const char *path;  /* percent-encoded: cli_encode */
    const char *query; /* likewise; NULL: none. The namespace is added where a route takes one */
    qp_str body;       /* JSON; none: no body */
    bool text; /* the body, or else the answer, is the text of an application, and no JSON */
    const char
        *key; /* Idempotency-Key; NULL: none. A store is asked once, and needs no record of it */
    /* How long to try again while a server cannot be reached. Only for what may be asked twice. (What was refused
     * because we ask too often is always asked again for a while: nothing came of it.) */
    qp_ms patience_ms;
};

struct reply {
    int status;
    struct buf body;
};
void reply_done(struct reply *r);

/* EXIT_OK: it was answered, in whatever way. Else it was said why not. */
int ask(struct cli *c, const struct question *q, struct reply *out_reply);
/* The same, and what is no success is said, too, with the exit code that fits. The reply is empty
 * then. */
int ask_well(struct cli *c, const struct question *q, struct reply *out_reply);
/* A body that is being written: begin, members by `w`, send. */
struct ask_body {
    struct buf text;
    struct json_writer w;
};
void ask_body_begin(struct cli *c, struct ask_body *b);
/* A member that is a text; NULL: it is left out. */
void ask_body_text(struct ask_body *b, const char *key, const char *text);
/* Ends it and sends it as `q` says, or, when `status` is not EXIT_OK, only gives it up. As ask_well. */
int ask_body_send(struct cli *c, struct ask_body *b, int status, struct question *q,
                  struct reply *out_reply);
/* Says what a refusal says. */
int ask_refused(struct cli *c, const struct reply *r);

/* The events of a job after a sequence, as they come, until it has ended, the visit returns false,
 * or `deadline_us` (monotonic; 0: none) has come: EXIT_TIMEOUT. `event` is the JSON of one; none:
 * some time has passed, perhaps with progress to show. */
typedef bool (*follow_visit)(void *context, qp_str event);
int ask_follow(struct cli *c, const char *job, int64_t after, int64_t deadline_us, void *context,
               follow_visit visit);

/* Opens what the settings name, if it is not open; any question does. */
int ask_open(struct cli *c);
void ask_close(struct cli *c);
/* The place that it asks, for people. */
const char *ask_whom(struct cli *c);
bool ask_is_file(const struct cli *c);
/* The store that will be asked itself, by the settings; NULL: a server will be. After
 * cli_settings. */
const char *ask_file_place(struct cli *c);

/* Percent-encoded, in the arena. */
const char *cli_encode(struct cli *c, const char *text);
int64_t cli_now_us(const struct cli *c);
void cli_sleep_ms(qp_ms ms);

/* ----------------------------------------------------------------- for ask_file.c, ask_server.c */

struct ask {
    int (*ask)(struct cli *c, const struct question *q, struct reply *out_reply);
    int (*follow)(struct cli *c, const char *job, int64_t after, int64_t deadline_us, void *context,
                  follow_visit visit);
    void (*close)(struct cli *c);
    const char *whom;
    bool is_file;
};
int ask_file_open(struct cli *c, const char *place);
int ask_server_open(struct cli *c, const char *server, const char *token);
/* Path and query of a question with the namespace, in the arena. */
const char *ask_target(struct cli *c, const struct question *q);

/* The one line of a file that only its owner may read, a token. */
int ask_token_file(struct cli *c, const char *path, const char **out_token) QP_MUST_USE;

#endif
