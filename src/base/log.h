/* log.h - structured log lines, handed to qp_env.log
 *
 *     log_write(env, QP_LOG_INFO, LOG_MSG("lease lost"), LOG_STR("stream", s), LOG_I64("try", 3));
 *
 * gives the line   msg="lease lost" stream=orders try=3
 *
 * The line is logfmt, without time and level: who supplies qp_env.log knows both and adds them
 * (ts=, level=) in the way of its system. Values are foreign text: quotes, controls, line
 * separators, changes of direction and broken UTF-8 are escaped, so no value can forge a line or
 * reach a terminal. A line longer than LIMIT_LOG_LINE_SIZE is cut between characters and ends in
 * "...".
 *
 * Nothing is formatted, and no field evaluated, when there is no log. Thread-safe as far as the
 * env is.
 */
#ifndef QP_BASE_LOG_H
#define QP_BASE_LOG_H

#include "base/base.h"

enum log_kind { LOG_KIND_STR, LOG_KIND_I64, LOG_KIND_BOOL };

struct log_field {
    const char *key; /* of the code, not foreign: letters, digits, '_' */
    enum log_kind kind;
    qp_str text;
    int64_t number;
};

#define LOG_STR(name, slice)                                                                       \
    ((struct log_field){.key = (name), .kind = LOG_KIND_STR, .text = (slice)})
#define LOG_TEXT(name, c_string) LOG_STR(name, str_from(c_string))
#define LOG_I64(name, integer)                                                                     \
    ((struct log_field){.key = (name), .kind = LOG_KIND_I64, .number = (integer)})
#define LOG_BOOL(name, truth)                                                                      \
    ((struct log_field){.key = (name), .kind = LOG_KIND_BOOL, .number = (truth)})
#define LOG_MSG(literal) LOG_STR("msg", QP_STR(literal))

/* The first field is LOG_MSG; `env` is evaluated twice. */
#define log_write(env, level, ...)                                                                 \
    ((env)->log == NULL                                                                            \
         ? (void)0                                                                                 \
         : log_fields((env), (level), (const struct log_field[]){__VA_ARGS__},                     \
                      sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))

void log_fields(const struct qp_env *env, enum qp_log_level level, const struct log_field *fields,
                size_t count);

/* Writes foreign text, escaped as in a log line, and a NUL into out; cut with "..." when `size` is
 * too small. For error sentences that quote their input. size is at least 8. Returns the length. */
size_t log_escape(qp_str text, char *out, size_t size);

/* Of a text that is not empty: how many bytes its first character has, when that is one that a terminal acts on or that
 * makes a line look like another one; 0: it is none. */
size_t log_misleads(qp_str rest);

#endif
