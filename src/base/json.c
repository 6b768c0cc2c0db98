/* json.c - a tree of JSON to read from, held by jansson
 *
 * The only file that knows jansson. It sees nothing but text that json_check has passed, so what
 * it could still refuse is an integer that does not fit 64 bits; and it would read -0 as the
 * integer 0. Both are written in another way for it, in a copy that is made only when one of them
 * occurs:
 *
 *     12345678901234567890   becomes the string "\u000012345678901234567890"
 *     -0                     becomes -0.0
 *
 * \u0000 is refused in our texts, so a string that begins with it is a big integer and never
 * anything else. json_kind tells the two apart, and nobody outside of this file sees the mark.
 */
#include "base/json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#if JANSSON_VERSION_HEX < 0x020e00
#error "jansson 2.14 or later is needed"
#endif

#define BIG_MARK "\\u0000"

static json_t *tree_of(const struct json *json);
static int rewrite(qp_str text, struct buf *out, bool *out_changed);
static size_t token_end(qp_str text, size_t at);
static bool is_number(qp_str token);
static bool is_plain_number(qp_str number);
static void put_number(struct buf *out, qp_str number);

int json_parse(const struct qp_env *env, qp_str text, struct qp_err *err, struct json **out_json)
{
    QP_TRY(json_check(env, text, NULL, err));
    return json_build(env, text, err, out_json);
}

int json_build(const struct qp_env *env, qp_str text, struct qp_err *err, struct json **out_json)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *tree = NULL;
    struct buf copy;
    bool changed = false;
    int rc;

    buf_init(&copy, env, 0);
    rc = rewrite(text, &copy, &changed);
    if (rc == QP_OK) {
        qp_str source = changed ? buf_slice(&copy) : text;

        tree = json_loadb(source.p, source.n, flags, NULL);
        rc = tree == NULL ? QP_E_NOMEM : QP_OK;
    }
    buf_done(&copy);
    if (rc != QP_OK) {
        return err_set(err, rc, "json: %s", qp_code_text(rc));
    }
    *out_json = (struct json *)tree;
    return QP_OK;
}

void json_free(struct json *json)
{
    json_decref(tree_of(json));
}

/* -------------------------------------------------------------------------------------- reading */

bool json_is(const struct json *json, enum json_kind kind)
{
    return json != NULL && json_kind(json) == kind;
}

enum json_kind json_kind(const struct json *json)
{
    const json_t *tree = tree_of(json);

    QP_ASSERT(json != NULL);
    switch (json_typeof(tree)) {
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_STRING:
        /* An empty string has a NUL at [0], too: jansson ends them so. */
        return json_string_length(tree) > 0 && json_string_value(tree)[0] == '\0' ? JSON_KIND_BIG
                                                                                  : JSON_KIND_STR;
    case JSON_INTEGER:
        return JSON_KIND_INT;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_NULL:
        break;
    }
    return JSON_KIND_NULL;
}

bool json_as_bool(const struct json *json, bool *out_truth)
{
    if (!json_is(json, JSON_KIND_BOOL)) {
        return false;
    }
    *out_truth = json_is_true(tree_of(json));
    return true;
}

bool json_as_i64(const struct json *json, int64_t *out_number)
{
    if (!json_is(json, JSON_KIND_INT)) {
        return false;
    }
    *out_number = json_integer_value(tree_of(json));
    return true;
}

bool json_as_real(const struct json *json, double *out_number)
{
    const int64_t exact = (int64_t)1 << 53; /* up to here every integer is a double */
    int64_t integer;

    if (json_as_i64(json, &integer) && integer >= -exact && integer <= exact) {
        *out_number = (double)integer;
        return true;
    }
    if (!json_is(json, JSON_KIND_REAL)) {
        return false;
    }
    *out_number = json_real_value(tree_of(json));
    return true;
}

bool json_as_big(const struct json *json, qp_str *out_digits)
{
    const json_t *tree = tree_of(json);

    if (!json_is(json, JSON_KIND_BIG)) {
        return false;
    }
    *out_digits = (qp_str){json_string_value(tree) + 1, json_string_length(tree) - 1};
    return true;
}

bool json_as_str(const struct json *json, qp_str *out_text)
{
    const json_t *tree = tree_of(json);

    if (!json_is(json, JSON_KIND_STR)) {
        return false;
    }
    *out_text = (qp_str){json_string_value(tree), json_string_length(tree)};
    return true;
}

const struct json *json_get(const struct json *object, qp_str key)
{
    if (!json_is(object, JSON_KIND_OBJECT) || str_is_none(key)) {
        return NULL;
    }
    return (const struct json *)json_object_getn(tree_of(object), key.p, key.n);
}

const struct json *json_at(const struct json *array, size_t index)
{
    if (!json_is(array, JSON_KIND_ARRAY)) {
        return NULL;
    }
    return (const struct json *)json_array_get(tree_of(array), index);
}

size_t json_count(const struct json *json)
{
    if (json_is(json, JSON_KIND_ARRAY)) {
        return json_array_size(tree_of(json));
    }
    return json_is(json, JSON_KIND_OBJECT) ? json_object_size(tree_of(json)) : 0;
}

bool json_each(const struct json *object, struct json_walk *walk)
{
    json_t *tree = tree_of(object);

    if (!json_is(object, JSON_KIND_OBJECT)) {
        return false;
    }
    walk->place =
        walk->value == NULL ? json_object_iter(tree) : json_object_iter_next(tree, walk->place);
    if (walk->place == NULL) {
        return false;
    }
    walk->key = (qp_str){json_object_iter_key(walk->place), json_object_iter_key_len(walk->place)};
    walk->value = (const struct json *)json_object_iter_value(walk->place);
    return true;
}

/* struct json has no body: it is another name for json_t. jansson's iterators want a tree that is
 * not const, although they do not change it; nothing here does. */
static json_t *tree_of(const struct json *json)
{
    return (json_t *)(uintptr_t)json;
}

/* ---------------------------------------------------------------------------- what jansson gets */

/* Copies the text with its numbers as jansson can keep them. As long as there is none to write in
 * another way, nothing is copied, and *out_changed stays as it is. */
static int rewrite(qp_str text, struct buf *out, bool *out_changed)
{
    size_t copied = 0; /* what comes before is in `out` */
    size_t at = 0;

    while (at < text.n) {
        size_t end = token_end(text, at);
        qp_str token = {text.p + at, end - at};

        if (is_number(token) && !is_plain_number(token)) {
            buf_add(out, text.p + copied, at - copied);
            put_number(out, token);
            copied = end;
        }
        at = end;
    }
    if (copied > 0) {
        buf_add(out, text.p + copied, text.n - copied);
        *out_changed = true;
    }
    return buf_rc(out);
}

/* Where the string or the number at `at` ends; any other byte is a token by itself. */
static size_t token_end(qp_str text, size_t at)
{
    size_t end = at + 1;

    if (text.p[at] == '"') {
        while (text.p[end] != '"') {
            end += text.p[end] == '\\' ? 2 : 1; /* checked text: an escape is never the last byte */
        }
        return end + 1;
    }
    if (is_number((qp_str){text.p + at, 1})) {
        while (end < text.n && strchr("0123456789+-.eE", text.p[end]) != NULL) {
            end++;
        }
    }
    return end;
}

static bool is_number(qp_str token)
{
    return token.p[0] == '-' || (token.p[0] >= '0' && token.p[0] <= '9');
}

/* Whether jansson keeps it as it is: a real, or an integer of 64 bits that is not -0. */
static bool is_plain_number(qp_str number)
{
    char text[LIMIT_JSON_NUMBER_SIZE + 1];

    if (memchr(number.p, '.', number.n) != NULL || memchr(number.p, 'e', number.n) != NULL ||
        memchr(number.p, 'E', number.n) != NULL) {
        return true;
    }
    if (str_equal(number, QP_STR("-0"))) {
        return false;
    }
    if (number.n <= 18) {
        return true; /* the common case, without a conversion */
    }
    QP_ASSERT(number.n < sizeof(text));
    memcpy(text, number.p, number.n);
    text[number.n] = '\0';
    errno = 0;
    (void)strtoll(text, NULL, 10); /* only the overflow matters */
    return errno != ERANGE;
}

static void put_number(struct buf *out, qp_str number)
{
    if (number.n == 2) {
        buf_text(out, "-0.0");
        return;
    }
    buf_text(out, "\"" BIG_MARK);
    buf_str(out, number);
    buf_byte(out, '"');
}
