/* servertest.h - a server of a test's own: in this process, on a port that the system chose, in
 * a directory of its own
 *
 * Real clocks and real sockets: what is tested here is what a user runs. Only its log goes into
 * memory.
 */
#ifndef QP_TEST_SERVERTEST_H
#define QP_TEST_SERVERTEST_H

#include <cmocka.h>

#include "server/server.h"
#include "support/httpclient.h"

struct st {
    struct server *server;
    struct server_options options;
    struct qp_env env;
    char dir[320];
    int port;
    char token[TOKEN_TEXT_SIZE]; /* of the administrator; empty without tokens */
};

extern struct st st;

enum st_kind { ST_MEMORY, ST_FILE, ST_DATABASE };
enum st_auth { ST_TOKENS, ST_OPEN };

/* Fails the test when it does not start. st_options is for what is not usual, between these two. */
void st_init(enum st_kind kind, enum st_auth auth);
void st_open(void);
void st_begin(enum st_kind kind, enum st_auth auth);
/* Ends the server well, checks the file by the rules of the protocol when there is one, removes
 * everything. */
void st_end(void);
/* The same server again, on what it left. */
void st_reopen(void);

/* The administrator's token from its file, whichever start has made it; st_open does when it was this one. */
void st_read_token(void);

/* All lines of the log so far. */
const char *st_log(void);
/* Until a line with this text is there; false: there is none after that time, of which whole seconds count. */
bool st_await_log(const char *text, int64_t within_ms);

/* A token of a role; namespaces NULL: all. */
void st_token(const char *role, const char *namespaces, char out_token[TOKEN_TEXT_SIZE]);

/* The server does the tasks of traversals, as `quipu serve` does. */
void st_serve_traversals(void);

/* A request as the administrator; the answer's status. The answer may be NULL. */
int st_call(const char *method, const char *path, const char *body, struct hc_answer *out_answer);
/* Fails the test unless the status is this; returns the body's member, to be freed; member may
 * be NULL. */
char *st_expect(const char *method, const char *path, const char *body, int status,
                const char *member);
/* A job of topic "work" with this id is started. */
void st_start(const char *id, const char *input);
/* A worker call; its answer. */
struct hc_answer st_work(const char *body);

#endif
