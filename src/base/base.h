/* base.h - what every file uses: errors with detail, assertions, checked arithmetic, slices
 *
 * Nothing here allocates or keeps state. An error's detail is written where it is found (err_set)
 * and wrapped on the way up (err_wrap), so that the text reads from the outside in: "open 'x.db':
 * read header: not a quipu file".
 */
#ifndef QP_BASE_BASE_H
#define QP_BASE_BASE_H

#include <quipu.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"

/* Stays on in release: says where, then aborts. A violated assertion means that going on could
 * write a wrong digit. */
#define QP_ASSERT(condition) ((condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void assert_failed(const char *condition, const char *file, int line);

/* QP_TRY (quipu.h) is the only macro that hides control flow. */

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FALLTHROUGH __attribute__((fallthrough))

/* Writes code and text, cut at a character border when too long; err may be NULL. Returns code, so
 * that `return err_set(err, QP_E_INVALID, "...")` is the way to fail. */
int err_set(struct qp_err *err, int code, const char *format, ...) QP_PRINTF(3, 4);

/* Puts "format: " before the text that is there, keeps the code; returns code (also when err is
 * NULL). */
int err_wrap(struct qp_err *err, int code, const char *format, ...) QP_PRINTF(3, 4);

/* Says where the wrong value stands: puts the text, a JSON pointer, before the pointer that is there.
 * err_set empties it, err_wrap keeps it. Returns code (also when err is NULL). */
int err_point(struct qp_err *err, int code, const char *format, ...) QP_PRINTF(3, 4);

/* Checked arithmetic: false when the result does not fit, *out then untouched. */
bool size_add(size_t a, size_t b, size_t *out_sum);
bool size_mul(size_t a, size_t b, size_t *out_product);
bool i64_add(int64_t a, int64_t b, int64_t *out_sum);

/* Slices. str_from takes a C string (NULL gives QP_NONE). Order is that of bytes, none before
 * empty. */
qp_str str_from(const char *text);
bool str_equal(qp_str a, qp_str b);
int str_compare(qp_str a, qp_str b);
/* Insertions, deletions and replacements that turn one into the other, to guess what was meant. Only the
 * beginnings are compared: more than STR_COMPARED bytes nobody mistypes. */
#define STR_COMPARED 32
size_t str_distance(qp_str a, qp_str b);
static inline bool str_is_none(qp_str s)
{
    return s.p == NULL;
}

/* For printf("%.*s", STR_ARG(s)) */
#define STR_ARG(s) (int)(s).n, (s).p != NULL ? (s).p : ""

/* A name as limits.md has it: 1..LIMIT_NAME_SIZE bytes of [A-Za-z0-9._~:-]. An id: 1..LIMIT_ID_SIZE
 * bytes of valid UTF-8 without control characters, not beginning or ending with white space. `what`
 * names it in the error. */
int name_check(qp_str name, const char *what, struct qp_err *err) QP_MUST_USE;
/* A topic that users may name: those that begin with "quipu:" are the engine's. */
int topic_check(qp_str topic, struct qp_err *err) QP_MUST_USE;
int id_check(qp_str id, const char *what, struct qp_err *err) QP_MUST_USE;

/* Length of the valid UTF-8 prefix of s; equals s.n when all of it is valid (no surrogates, no
 * overlong forms). */
size_t utf8_valid_prefix(qp_str s);

#endif
