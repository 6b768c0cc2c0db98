/* json_write.c - JSON text, value by value, into a buffer
 *
 * The writer keeps one bit per level: whether a comma is due. A wrong order of calls cannot
 * produce wrong text, it asserts. The buffer's first error sticks; the writer goes on counting
 * levels regardless, so callers need no check in between.
 */
#include "base/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void before_value(struct json_writer *w);
static void after_value(struct json_writer *w);
static void begin(struct json_writer *w, bool is_object);
static void end(struct json_writer *w, bool is_object);
static void put_quoted(struct buf *out, qp_str text);
static void put_valid(struct buf *out, qp_str text);
static void put_escape(struct buf *out, unsigned char byte);
static size_t without_locale(char *text);
static size_t print_real(double number, int digit_count, char out_text[REAL_TEXT_SIZE]);

void json_writer_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

int json_writer_done(const struct json_writer *w)
{
    QP_ASSERT(w->done && w->depth == 0);
    return buf_rc(w->out);
}

void json_begin_object(struct json_writer *w)
{
    begin(w, true);
}

void json_end_object(struct json_writer *w)
{
    end(w, true);
}

void json_begin_array(struct json_writer *w)
{
    begin(w, false);
}

void json_end_array(struct json_writer *w)
{
    end(w, false);
}

void json_key(struct json_writer *w, qp_str key)
{
    QP_ASSERT(w->depth > 0 && w->in_object[w->depth - 1] && !w->after_key);
    if (w->has_items[w->depth - 1]) {
        buf_byte(w->out, ',');
    }
    w->has_items[w->depth - 1] = true;
    put_quoted(w->out, key);
    buf_byte(w->out, ':');
    w->after_key = true;
}

void json_put_str(struct json_writer *w, qp_str text)
{
    if (str_is_none(text)) {
        json_put_null(w);
        return;
    }
    before_value(w);
    put_quoted(w->out, text);
    after_value(w);
}

void json_put_i64(struct json_writer *w, int64_t number)
{
    before_value(w);
    buf_i64(w->out, number);
    after_value(w);
}

void json_put_real(struct json_writer *w, double number)
{
    char text[REAL_TEXT_SIZE];

    before_value(w);
    if (isfinite(number)) {
        buf_add(w->out, text, real_format(number, text));
    } else if (w->out->rc == QP_OK) {
        w->out->rc = QP_E_INVALID; /* JSON has no word for it, and null would be a lie */
    }
    after_value(w);
}

void json_put_bool(struct json_writer *w, bool truth)
{
    before_value(w);
    buf_text(w->out, truth ? "true" : "false");
    after_value(w);
}

void json_put_null(struct json_writer *w)
{
    before_value(w);
    buf_text(w->out, "null");
    after_value(w);
}

void json_put_raw(struct json_writer *w, qp_str text)
{
    QP_ASSERT(text.n > 0);
    before_value(w);
    buf_str(w->out, text);
    after_value(w);
}

/* Recursion is bounded: no tree is deeper than LIMIT_JSON_DEPTH, and begin() asserts it. */
void json_write_tree(struct json_writer *w, const struct json *json)
{
    struct json_walk walk = {0};
    bool truth = false;
    int64_t integer = 0;
    double real = 0;
    qp_str text = QP_NONE;

    if (json_is(json, JSON_KIND_OBJECT)) {
        json_begin_object(w);
        while (json_each(json, &walk)) {
            json_key(w, walk.key);
            json_write_tree(w, walk.value);
        }
        json_end_object(w);
    } else if (json_is(json, JSON_KIND_ARRAY)) {
        json_begin_array(w);
        for (size_t i = 0; i < json_count(json); i++) {
            json_write_tree(w, json_at(json, i));
        }
        json_end_array(w);
    } else if (json_as_str(json, &text)) {
        json_put_str(w, text);
    } else if (json_as_big(json, &text)) {
        json_put_raw(w, text);
    } else if (json_as_i64(json, &integer)) {
        json_put_i64(w, integer);
    } else if (json_as_real(json, &real)) {
        json_put_real(w, real);
    } else if (json_as_bool(json, &truth)) {
        json_put_bool(w, truth);
    } else {
        json_put_null(w);
    }
}

/* ------------------------------------------------------------------------------------ structure */

static void before_value(struct json_writer *w)
{
    QP_ASSERT(!w->done);
    if (w->depth == 0) {
        return;
    }
    QP_ASSERT(w->in_object[w->depth - 1] == w->after_key);
    if (!w->after_key && w->has_items[w->depth - 1]) {
        buf_byte(w->out, ',');
    }
    w->has_items[w->depth - 1] = true;
    w->after_key = false;
}

static void after_value(struct json_writer *w)
{
    w->done = w->depth == 0;
}

static void begin(struct json_writer *w, bool is_object)
{
    before_value(w);
    QP_ASSERT(w->depth < LIMIT_JSON_DEPTH);
    w->in_object[w->depth] = is_object;
    w->has_items[w->depth] = false;
    w->depth++;
    buf_byte(w->out, is_object ? '{' : '[');
}

static void end(struct json_writer *w, bool is_object)
{
    QP_ASSERT(w->depth > 0 && w->in_object[w->depth - 1] == is_object && !w->after_key);
    w->depth--;
    buf_byte(w->out, is_object ? '}' : ']');
    after_value(w);
}

/* -------------------------------------------------------------------------------------- strings */

/* Each byte that belongs to no character becomes one U+FFFD. */
static void put_quoted(struct buf *out, qp_str text)
{
    buf_byte(out, '"');
    while (text.n > 0) {
        size_t valid = utf8_valid_prefix(text);

        put_valid(out, (qp_str){text.p, valid});
        if (valid < text.n) {
            buf_text(out, "\xEF\xBF\xBD");
            valid++;
        }
        text.p += valid;
        text.n -= valid;
    }
    buf_byte(out, '"');
}

static void put_valid(struct buf *out, qp_str text)
{
    size_t plain = 0; /* begin of the run that needs no escape */

    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];

        if (byte < 0x20 || byte == '"' || byte == '\\') {
            buf_add(out, text.p + plain, i - plain);
            put_escape(out, byte);
            plain = i + 1;
        }
    }
    buf_add(out, text.p + plain, text.n - plain);
}

static void put_escape(struct buf *out, unsigned char byte)
{
    static const char letters[0x60] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n',  ['\r'] = 'r',
        ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\',
    };

    if (letters[byte] != 0) {
        buf_byte(out, '\\');
        buf_byte(out, letters[byte]);
    } else {
        buf_printf(out, "\\u%04x", byte);
    }
}

/* ---------------------------------------------------------------------------------------- reals */

/* A decimal of up to 15 digits survives the way through a normal double, so %.15g finds it if
 * there is one; 17 always do. Denormal numbers have fewer bits, and for them the search begins at
 * one digit. */
size_t real_format(double number, char out_text[REAL_TEXT_SIZE])
{
    int count = number != 0 && fabs(number) < DBL_MIN ? 1 : 15;
    size_t n;

    QP_ASSERT(isfinite(number));
    while (print_real(number, count, out_text) > 0 && count < 17 &&
           strtod(out_text, NULL) != number) {
        count++;
    }
    n = without_locale(out_text);
    if (strpbrk(out_text, ".e") == NULL) {
        memcpy(out_text + n, ".0", 3);
        n += 2;
    }
    return n;
}

/* Puts '.' for the locale's decimal point, which may be a comma, or a character of two bytes. */
static size_t without_locale(char *text)
{
    size_t n = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        if (strchr("0123456789+-e", text[i]) != NULL) {
            text[n++] = text[i];
        } else if (n > 0 && text[n - 1] != '.') {
            text[n++] = '.';
        }
    }
    text[n] = '\0';
    return n;
}

static size_t print_real(double number, int digit_count, char out_text[REAL_TEXT_SIZE])
{
    int n = snprintf(out_text, REAL_TEXT_SIZE, "%.*g", digit_count, number);

    QP_ASSERT(n > 0 && n < REAL_TEXT_SIZE - 2);
    return (size_t)n;
}
