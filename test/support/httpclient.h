/* httpclient.h - a small HTTP client on a raw socket, for tests that say every byte themselves
 *
 * hc_send sends whatever it is given; hc_read reads one answer. hc_call is the usual exchange on
 * a connection of its own. What does not come in time fails: functions that cannot do their part
 * return false, or a status of 0.
 */
#ifndef QP_TEST_HTTPCLIENT_H
#define QP_TEST_HTTPCLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct hc {
    int fd;
    char *in; /* what was read and not used yet */
    size_t size;
    size_t room;
};

struct hc_answer {
    int status;
    char *head; /* the lines of the head, with a NUL */
    char *body; /* with a NUL */
    size_t body_size;
};

/* A port of 127.0.0.1, or the path of a Unix socket. */
bool hc_open(struct hc *c, int port);
bool hc_open_unix(struct hc *c, const char *path);
void hc_close(struct hc *c);

bool hc_send(struct hc *c, const void *bytes, size_t size);
bool hc_text(struct hc *c, const char *text);
/* One answer, with Content-Length, in chunks, or up to the end; status 0 when none comes within
 * the time. To be given back with hc_done. `no_body`: of HEAD. */
struct hc_answer hc_read(struct hc *c, int timeout_ms);
void hc_done(struct hc_answer *a);
/* Whether the peer has closed, within the time; what it sends before is dropped. */
bool hc_closed(struct hc *c, int timeout_ms);
/* At least one more byte into c->in; false at the end or when none comes in time. */
bool hc_more(struct hc *c, int timeout_ms);

/* A whole request on an open connection. `token` and `body` may be NULL; `headers` are further
 * lines, each with its line end, or NULL. */
struct hc_answer hc_ask(struct hc *c, const char *token, const char *method, const char *path,
                        const char *headers, const char *body);
/* The same on a connection of its own. */
struct hc_answer hc_call(int port, const char *token, const char *method, const char *path,
                         const char *body);

/* The value of a header of the answer, or NULL; to be freed. */
char *hc_header(const struct hc_answer *a, const char *name);
/* The text of a string member of the body's object, or NULL; to be freed. A path goes deeper:
 * "errors.0.pointer". */
char *hc_member(const struct hc_answer *a, const char *path);

#endif
