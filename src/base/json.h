/* json.h - reading and writing JSON
 *
 * Four parts: json_check says whether bytes are JSON as we take it, without building anything;
 * struct json is a tree to read from; struct raw_walk goes over the text itself; struct json_writer
 * streams text into a buffer.
 *
 * What is taken is RFC 8259 and nothing beside it, and of what the RFC leaves open the strict
 * side: no key twice in one object, no lone surrogate, no \u0000, no byte order mark, no number
 * that overflows a double, and the limits of limits.h. Payloads are kept as the text they came as;
 * a tree is made only to look inside.
 *
 * Numbers in a tree: an integer that fits int64 is exact (JSON_KIND_INT); one that does not keeps
 * its text (JSON_KIND_BIG); everything with a fraction or an exponent, and -0, is a double
 * (JSON_KIND_REAL).
 *
 * Memory: a tree belongs to who parsed it; slices and children are borrowed from it. The tree is
 * held by the jansson library, whose allocator is one per process: it stays the libc's, so the
 * tree is not counted by qp_env. A tree may be read by several threads.
 */
#ifndef QP_BASE_JSON_H
#define QP_BASE_JSON_H

#include "base/mem.h"

/* ------------------------------------------------------------------------------------- checking */

/* Zero means the limit of limits.h. depth and number_size cannot be raised above it.
 *
 * `frame` > 0: only so many levels are checked for all that is said above, but for the size of strings. Values of the
 * innermost of them, and what lies deeper, are JSON that can be taken apart, down to LIMIT_JSON_FRAMED_DEPTH, and no more
 * than that: they have to be checked by themselves before they are used. So one part that is past a limit does not
 * spoil the whole. */
struct json_limits {
    size_t frame;
    size_t size;
    size_t depth;
    size_t keys;        /* per object */
    size_t string_size; /* after unescaping */
    size_t number_size;
};

/* QP_OK; QP_E_MALFORMED: not JSON; QP_E_SHAPE: \u0000; QP_E_TOO_LARGE: a limit; QP_E_NOMEM. The
 * sentence ends in "at byte B, line L:C" (B from 0, L and C from 1, C in characters). `limits` may
 * be NULL. */
int json_check(const struct qp_env *env, qp_str text, const struct json_limits *limits,
               struct qp_err *err) QP_MUST_USE;

/* What a text is known to be: JSON that the border has checked is not checked again. */
enum json_trust { JSON_UNCHECKED, JSON_CHECKED };

/* -------------------------------------------------------------------------------------- reading */

struct json;

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INT,
    JSON_KIND_BIG,
    JSON_KIND_REAL,
    JSON_KIND_STR,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

/* Checks, with the limits of limits.h, then builds. As json_check, and QP_E_NOMEM when jansson has
 * no memory. json_free(NULL) does nothing. */
int json_parse(const struct qp_env *env, qp_str text, struct qp_err *err,
               struct json **out_json) QP_MUST_USE;
/* Builds the tree of a text that json_check has passed. */
int json_build(const struct qp_env *env, qp_str text, struct qp_err *err,
               struct json **out_json) QP_MUST_USE;
void json_free(struct json *json);

/* `json` may be NULL in all of these, as json_get and json_at give it: it has no kind that fits.
 * The typed readers answer false, and leave the output alone, when the kind is another one.
 * json_as_real takes INT too, when the double is exactly that integer. json_as_big gives the
 * digits. */
bool json_is(const struct json *json, enum json_kind kind);
enum json_kind json_kind(const struct json *json); /* not for NULL */
bool json_as_bool(const struct json *json, bool *out_truth) QP_MUST_USE;
bool json_as_i64(const struct json *json, int64_t *out_number) QP_MUST_USE;
bool json_as_real(const struct json *json, double *out_number) QP_MUST_USE;
bool json_as_big(const struct json *json, qp_str *out_digits) QP_MUST_USE;
bool json_as_str(const struct json *json, qp_str *out_text) QP_MUST_USE;

const struct json *json_get(const struct json *object, qp_str key); /* NULL when there is none */
const struct json *json_at(const struct json *array, size_t index);
size_t json_count(const struct json *json); /* items or keys; 0 for all else */

/* Keys in the order of the text:  struct json_walk w = {0};  while (json_each(o, &w)) { w.key,
 * w.value } */
struct json_walk {
    void *place;
    qp_str key;
    const struct json *value;
};
bool json_each(const struct json *object, struct json_walk *walk);

/* ------------------------------------------------------------------------------------ as it came */

/* Walks over JSON that was checked:  struct raw_walk w = {.rest = text};  while (raw_each(&w)) {
 * w.key, w.value }. Of an array the keys are none. Keys are as they stand in the text, with
 * their escapes and without their quotes. */
struct raw_walk {
    qp_str rest;
    qp_str key;
    qp_str value;
    size_t index; /* of this item, from 0 */
    bool object;
    bool begun;
};
bool raw_each(struct raw_walk *w);
/* The first byte of the value, behind white space; 0: there is none. It says what the value is. */
char raw_first(qp_str text);
/* Whether an object has a member of this name: for defaults that are not zero. */
bool raw_has(qp_str object, const char *name);
/* The text of a JSON string, unescaped, in the arena or in `value`; false when it is no string, or there is no memory. */
bool raw_text(const struct qp_env *env, struct arena *arena, qp_str value,
              qp_str *out_text) QP_MUST_USE;

/* -------------------------------------------------------------------------------------- writing */

/* Writes one value. Commas and colons come by themselves; a wrong order of calls is a bug and
 * asserts. Errors stick in the buffer: its rc is asked once, at the end. */
struct json_writer {
    struct buf *out;
    size_t depth;
    bool in_object[LIMIT_JSON_DEPTH];
    bool has_items[LIMIT_JSON_DEPTH];
    bool after_key;
    bool done; /* the one value is complete */
};

void json_writer_init(struct json_writer *w, struct buf *out);
int json_writer_done(const struct json_writer *w)
    QP_MUST_USE; /* asserts completeness; the buffer's rc */

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, qp_str key);
void json_put_str(struct json_writer *w,
                  qp_str text); /* broken UTF-8 becomes U+FFFD; none is null */
void json_put_i64(struct json_writer *w, int64_t number);
void json_put_real(struct json_writer *w,
                   double number); /* not finite: QP_E_INVALID in the buffer */
void json_put_bool(struct json_writer *w, bool truth);
void json_put_null(struct json_writer *w);
void json_put_raw(struct json_writer *w, qp_str text); /* one value that is valid JSON already */
void json_write_tree(struct json_writer *w, const struct json *json);

/* The shortest text that reads back as the same double, with '.' in every locale, always
 * recognisable as no integer: 1.0, 0.1, 1e+21, -0.0. The number is finite. Returns the length; no
 * NUL is counted. */
#define REAL_TEXT_SIZE 32
size_t real_format(double number, char out_text[REAL_TEXT_SIZE]);
/* The way back: the text of a JSON number, of at most LIMIT_JSON_NUMBER_SIZE bytes, as the nearest
 * double; infinite when it overflows. */
double real_parse(qp_str number);

#endif
