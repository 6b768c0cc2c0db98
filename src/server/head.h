/* head.h - the head of an HTTP request, judged
 *
 * The HTTP library takes requests apart; what it lets through and two parsers might read
 * differently is refused here, before a byte of the body counts: two framing headers, lengths
 * that are no lengths, control characters (so a bare CR that the library took for a part of a
 * value), names that are no names, too many or too long ones. Whatever is refused ends the
 * connection.
 *
 * A browser that asks for a page of somebody else says so with Origin: only our own name is taken
 * there, so that no page can make requests in the name of whoever looks at it.
 *
 * Plain functions of texts, so that a fuzzer and a table of cases can try them.
 */
#ifndef QP_SERVER_HEAD_H
#define QP_SERVER_HEAD_H

#include "server/call.h"

/* Names that the server answers to, in lower case and without a port. */
struct head_rules {
    const char *hosts[LIMIT_HOSTS];
    size_t host_count;
    bool any_host; /* a Unix socket has no name */
    bool behind_proxy;
    size_t body_size;
    size_t drop_size; /* so much more of a body that is too large is read and dropped */
};

struct head {
    const struct head_rules *rules;
    bool refused;
    enum api_problem problem;
    char why[LIMIT_LOG_ECHO_SIZE];

    size_t header_count;
    size_t header_size;
    bool has_host;
    qp_str host;
    qp_str origin;
    bool has_length;
    bool has_encoding;
    uint64_t length;
    bool waits; /* for 100 Continue, before it sends a body */
};

/* Whether the body is larger than it may be. Who has begun to send it sees the answer only if it is read: then it is not
 * refused by its head. */
bool head_is_too_large(const struct head *h);

void head_begin(struct head *h, const struct head_rules *rules);
/* The request line. `target` is as it was sent; *out_path and *out_query are its parts. */
void head_line(struct head *h, qp_str version, qp_str target, qp_str *out_path, qp_str *out_query);
/* One header, in the order in which they came. What matters to a call is put into it. */
void head_add(struct head *h, qp_str name, qp_str value, struct api_call *c);
/* All headers were added. False: refused, and `problem` and `why` say why. */
bool head_end(struct head *h);

#endif
