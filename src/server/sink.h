/* sink.h - where a server's log lines go, and what systemd is told
 *
 * On a terminal lines are logfmt, for people; elsewhere each is one JSON object, for programs.
 * Both have ts and level, and the fields that base/log.h put there. Whole lines in one write
 * each, so that lines of several threads do not mix.
 */
#ifndef QP_SERVER_SINK_H
#define QP_SERVER_SINK_H

#include "base/mem.h"

enum sink_format { SINK_LOGFMT, SINK_JSON };

struct sink {
    int fd;
    enum sink_format format;
    enum qp_log_level least;
};

/* For qp_env.log; context is a struct sink. */
void sink_write(void *context, enum qp_log_level level, const char *line, size_t size);

/* The same line as one JSON object without its end: ts, level, and the fields of the logfmt
 * line. For tests. */
void sink_json(struct buf *out, qp_ms at, enum qp_log_level level, qp_str line);

/* Tells the service manager ("READY=1"), by the socket that it has named; does nothing when
 * there is none. */
void notify(const char *socket_name, const char *text);

#endif
