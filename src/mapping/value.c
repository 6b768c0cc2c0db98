/* value.c - JSON text as values, one level at a time (see value.h)
 *
 * The scanner relies on its text having passed json_check, and does not check again: every string ends, every
 * bracket is closed, every escape is complete. It goes over strings by searching for their quote, which is what makes a
 * reference into a payload cheap.
 */
#include "mapping/value.h"

#include <math.h>
#include <stdio.h>

#include "mapping/text.h"

/* What is left of the text. */
struct scan {
    const char *p;
    const char *end;
};

static struct value raw_item(struct scan *s);
static bool next_item(struct scan *s);
static bool next_key(struct scan *s, qp_str *out_key);
static bool key_is(qp_str quoted, qp_str key);
static int unquote(struct arena *a, qp_str quoted, qp_str *out_text);

/* ------------------------------------------------------------------------------------- scanning */

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) {
        s->p++;
    }
}

/* Most strings are short: of these the quote is found sooner than a call is made. */
#define SHORT_STRING 24

/* Over the rest of a long string. A quote behind an odd number of backslashes is part of it. */
static const char *skip_long_string(const char *first, const char *p, const char *end)
{
    for (;;) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        const char *back = quote;

        QP_ASSERT(quote != NULL);
        while (back > first && back[-1] == '\\') {
            back--;
        }
        p = quote + 1;
        if ((quote - back) % 2 == 0) {
            return p;
        }
    }
}

/* Over the string whose opening quote is at p. */
static inline const char *skip_quoted(const char *p, const char *end)
{
    const char *first = p + 1;
    const char *last = end - first > SHORT_STRING ? first + SHORT_STRING : end;

    for (p = first; p < last && *p != '\\'; p++) {
        if (*p == '"') {
            return p + 1;
        }
    }
    return skip_long_string(first, p, end);
}

static void skip_string(struct scan *s)
{
    s->p = skip_quoted(s->p, s->end);
}

enum mark { MARK_NONE, MARK_QUOTE, MARK_OPEN, MARK_CLOSE };

static const unsigned char marks[256] = {
    ['"'] = MARK_QUOTE, ['{'] = MARK_OPEN,  ['['] = MARK_OPEN,
    ['}'] = MARK_CLOSE, [']'] = MARK_CLOSE,
};

static void skip_container(struct scan *s)
{
    const char *p = s->p;
    int depth = 0;

    do {
        while (marks[(unsigned char)*p] == MARK_NONE) {
            p++;
        }
        if (marks[(unsigned char)*p] == MARK_QUOTE) {
            p = skip_quoted(p, s->end);
            continue;
        }
        depth += marks[(unsigned char)*p] == MARK_OPEN ? 1 : -1;
        p++;
    } while (depth > 0);
    s->p = p;
}

static void skip_word(struct scan *s)
{
    while (s->p < s->end && *s->p != ',' && *s->p != '}' && *s->p != ']' &&
           (unsigned char)*s->p > ' ') {
        s->p++;
    }
}

static qp_str take_value(struct scan *s)
{
    const char *first;

    skip_space(s);
    first = s->p;
    if (*s->p == '"') {
        skip_string(s);
    } else if (*s->p == '{' || *s->p == '[') {
        skip_container(s);
    } else {
        skip_word(s);
    }
    return (qp_str){first, (size_t)(s->p - first)};
}

static struct value raw_item(struct scan *s)
{
    return value_raw(take_value(s));
}

/* Behind an opening bracket or an item: goes to the next item; false at the end. */
static bool next_item(struct scan *s)
{
    skip_space(s);
    if (*s->p == ',') {
        s->p++;
        skip_space(s);
    }
    return *s->p != ']' && *s->p != '}';
}

static bool next_key(struct scan *s, qp_str *out_key)
{
    if (!next_item(s)) {
        return false;
    }
    *out_key = take_value(s);
    skip_space(s);
    s->p++; /* the colon */
    return true;
}

static struct scan scan_of(qp_str json)
{
    struct scan s = {json.p, json.p + json.n};

    skip_space(&s);
    return s;
}

int value_depth(qp_str json)
{
    struct scan s = scan_of(json);
    int depth = 0;
    int most = 0;

    while (s.p < s.end) {
        if (*s.p == '"') {
            skip_string(&s);
            continue;
        }
        if (*s.p == '{' || *s.p == '[') {
            depth++;
            most = depth > most ? depth : most;
        } else if (*s.p == '}' || *s.p == ']') {
            depth--;
        }
        s.p++;
    }
    return most;
}

/* -------------------------------------------------------------------------------------- escapes */

static uint32_t hex_of(const char *p)
{
    uint32_t number = 0;

    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];

        number = number << 4 | (c <= '9' ? (uint32_t)c - '0' : (c | 0x20u) - 'a' + 10);
    }
    return number;
}

static size_t put_character(uint32_t c, char *out)
{
    static const unsigned char heads[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)(heads[size] | c);
    return size;
}

/* The escape at p, which is a backslash. Returns how much of the text it is. */
static size_t take_escape(const char *p, char *out, size_t *out_size)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint32_t c;

    if (p[1] != 'u') {
        out[0] = meanings[strchr(letters, p[1]) - letters];
        *out_size = 1;
        return 2;
    }
    c = hex_of(p + 2);
    if (c < 0xD800 || c > 0xDFFF) {
        *out_size = put_character(c, out);
        return 6;
    }
    c = 0x10000 + ((c - 0xD800) << 10) + (hex_of(p + 8) - 0xDC00);
    *out_size = put_character(c, out);
    return 12;
}

static qp_str inside_of(qp_str quoted)
{
    QP_ASSERT(quoted.n >= 2 && quoted.p[0] == '"');
    return (qp_str){quoted.p + 1, quoted.n - 2};
}

static bool key_is(qp_str quoted, qp_str key)
{
    qp_str text = inside_of(quoted);
    size_t at = 0;
    size_t i = 0;

    if (memchr(text.p, '\\', text.n) == NULL) {
        return text.n == key.n && memcmp(text.p, key.p, key.n) == 0;
    }
    while (i < text.n) {
        char bytes[4] = {text.p[i]};
        size_t size = 1;

        i += text.p[i] == '\\' ? take_escape(text.p + i, bytes, &size) : 1;
        if (size > key.n - at || memcmp(bytes, key.p + at, size) != 0) {
            return false;
        }
        at += size;
    }
    return at == key.n;
}

/* Without its escapes a text is never longer. */
static size_t unescape(qp_str text, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n;) {
        size_t size = 1;

        if (text.p[i] == '\\') {
            i += take_escape(text.p + i, out + n, &size);
        } else {
            out[n] = text.p[i++];
        }
        n += size;
    }
    return n;
}

/* The text of a string: where it stands, when nothing in it is escaped. */
static int unquote(struct arena *a, qp_str quoted, qp_str *out_text)
{
    qp_str text = inside_of(quoted);
    char *bytes;

    if (memchr(text.p, '\\', text.n) == NULL) {
        *out_text = text;
        return QP_OK;
    }
    bytes = arena_bytes(a, text.n);
    if (bytes == NULL) {
        return QP_E_NOMEM;
    }
    *out_text = (qp_str){bytes, unescape(text, bytes)};
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- paths */

struct value value_raw(qp_str json)
{
    if (str_is_none(json) || json.n == 0) {
        return (struct value){.kind = VALUE_UNDEFINED};
    }
    return (struct value){.kind = VALUE_RAW, .text = json};
}

/* An index is digits without a leading zero. */
static bool index_of(qp_str key, size_t *out_index)
{
    size_t index = 0;

    if (key.n == 0 || key.n > 9 || (key.n > 1 && key.p[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < key.n; i++) {
        if (key.p[i] < '0' || key.p[i] > '9') {
            return false;
        }
        index = index * 10 + (size_t)(key.p[i] - '0');
    }
    *out_index = index;
    return true;
}

static struct value item_at(struct scan s, size_t index)
{
    struct value item = {.kind = VALUE_UNDEFINED};

    s.p++;
    for (size_t i = 0; next_item(&s); i++) {
        item = raw_item(&s);
        if (i == index) {
            return item;
        }
    }
    return (struct value){.kind = VALUE_UNDEFINED};
}

static struct value member_at(struct scan s, qp_str key)
{
    qp_str quoted;

    s.p++;
    while (next_key(&s, &quoted)) {
        qp_str text = take_value(&s);

        if (key_is(quoted, key)) {
            return value_raw(text);
        }
    }
    return (struct value){.kind = VALUE_UNDEFINED};
}

struct value value_at(qp_str json, const qp_str *path, size_t path_count)
{
    struct value v = value_raw(json);
    size_t index;

    for (size_t i = 0; i < path_count && v.kind == VALUE_RAW; i++) {
        struct scan s = scan_of(v.text);

        if (*s.p == '{') {
            v = member_at(s, path[i]);
        } else if (*s.p == '[' && index_of(path[i], &index)) {
            v = item_at(s, index);
        } else {
            v = (struct value){.kind = VALUE_UNDEFINED};
        }
    }
    return v;
}

const struct value *value_get(const struct value *object, qp_str key)
{
    for (size_t i = 0; object->kind == VALUE_OBJECT && i < object->count; i++) {
        if (str_equal(object->members[i].key, key)) {
            return object->members[i].value;
        }
    }
    return NULL;
}

struct value value_inside(const struct value *v, const qp_str *path, size_t path_count,
                          size_t *looked)
{
    const struct value *at = v;
    size_t index;

    for (size_t i = 0; i < path_count; i++) {
        *looked += at->kind == VALUE_RAW ? at->text.n : at->count;
        if (at->kind == VALUE_RAW) {
            return value_at(at->text, path + i, path_count - i);
        }
        if (at->kind == VALUE_ARRAY && index_of(path[i], &index) && index < at->count) {
            at = at->items[index];
        } else {
            at = value_get(at, path[i]);
        }
        if (at == NULL) {
            return (struct value){.kind = VALUE_UNDEFINED};
        }
    }
    return *at;
}

/* -------------------------------------------------------------------------------------- opening */

static size_t count_items(struct scan s, bool object)
{
    size_t count = 0;

    s.p++;
    while (next_item(&s)) {
        (void)take_value(&s);
        if (object) {
            skip_space(&s);
            s.p++; /* the colon */
            (void)take_value(&s);
        }
        count++;
    }
    return count;
}

/* Memory for what is in an array or object, the values behind the pointers to them. */
static int take_room(struct arena *a, size_t count, size_t each, void **out_list,
                     struct value **out_values)
{
    size_t size = each + sizeof(struct value);
    char *bytes;

    if (count > LIMIT_MAPPING_SIZE / size) {
        return QP_E_LIMIT;
    }
    bytes = arena_room(a, count * size);
    if (bytes == NULL) {
        return QP_E_NOMEM;
    }
    *out_values = (struct value *)(void *)bytes;
    *out_list = bytes + count * sizeof(struct value);
    return QP_OK;
}

static int open_array(struct arena *a, struct scan s, struct value *v)
{
    size_t count = count_items(s, false);
    struct value *values = NULL;
    void *list = NULL;
    int rc = take_room(a, count, sizeof(struct value *), &list, &values);

    if (rc != QP_OK) {
        return rc;
    }
    *v = (struct value){.kind = VALUE_ARRAY, .count = count, .items = list, .depth = 1};
    s.p++;
    for (size_t i = 0; next_item(&s); i++) {
        values[i] = raw_item(&s);
        v->items[i] = &values[i];
    }
    return QP_OK;
}

static int open_object(struct arena *a, struct scan s, struct value *v)
{
    size_t count = count_items(s, true);
    struct value *values = NULL;
    void *list = NULL;
    qp_str quoted;
    int rc = take_room(a, count, sizeof(struct member), &list, &values);

    if (rc != QP_OK) {
        return rc;
    }
    *v = (struct value){.kind = VALUE_OBJECT, .count = count, .members = list, .depth = 1};
    s.p++;
    for (size_t i = 0; rc == QP_OK && next_key(&s, &quoted); i++) {
        rc = unquote(a, quoted, &v->members[i].key);
        values[i] = raw_item(&s);
        v->members[i].value = &values[i];
    }
    return rc;
}

struct value value_number(double number)
{
    const double exact = (double)NUMBER_EXACT;

    if (number >= -exact && number <= exact && number == trunc(number) &&
        !(number == 0 && signbit(number))) {
        return (struct value){.kind = VALUE_INT, .integer = (int64_t)number};
    }
    return (struct value){.kind = VALUE_REAL, .real = number};
}

/* An integer of 64 bits, exactly; false: it is none, or -0, or has another form. */
static bool integer_of(qp_str text, int64_t *out_integer)
{
    bool negative = text.p[0] == '-';
    int64_t number = 0;

    for (size_t i = negative; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, text.p[i] - '0', &number)) {
            return false;
        }
    }
    if (negative ? number == 0 : number == INT64_MIN) {
        return false;
    }
    *out_integer = negative ? number : -number;
    return true;
}

static struct value number_at(qp_str text)
{
    int64_t integer;

    if (integer_of(text, &integer)) {
        return (struct value){.kind = VALUE_INT, .integer = integer};
    }
    return value_number(number_of(text));
}

int value_open(struct arena *a, struct value *v)
{
    struct value opened = {.kind = VALUE_UNDEFINED};
    struct scan s;
    qp_str text;
    int rc = QP_OK;

    if (v->kind != VALUE_RAW) {
        return QP_OK;
    }
    s = scan_of(v->text);
    switch (*s.p) {
    case '{':
        rc = open_object(a, s, &opened);
        break;
    case '[':
        rc = open_array(a, s, &opened);
        break;
    case '"':
        opened.kind = VALUE_STRING;
        rc = unquote(a, take_value(&s), &opened.text);
        break;
    case 't':
    case 'f':
        opened = (struct value){.kind = VALUE_BOOL, .truth = *s.p == 't'};
        break;
    case 'n':
        opened.kind = VALUE_NULL;
        break;
    default:
        text = take_value(&s);
        opened = number_at(text);
        break;
    }
    if (rc == QP_OK) {
        *v = opened;
    }
    return rc;
}

/* ----------------------------------------------------------------------------- texts and numbers */

size_t value_number_text(const struct value *v, char out_text[NUMBER_TEXT_SIZE])
{
    QP_ASSERT(v->kind == VALUE_INT || v->kind == VALUE_REAL);
    if (v->kind == VALUE_REAL) {
        return number_format(v->real, out_text);
    }
    return (size_t)snprintf(out_text, NUMBER_TEXT_SIZE, "%lld", (long long)v->integer);
}

static bool number_text(struct arena *a, const struct value *v, qp_str *out_text)
{
    char text[NUMBER_TEXT_SIZE];
    size_t n = value_number_text(v, text);

    return arena_copy(a, (qp_str){text, n}, out_text);
}

bool value_as_text(struct arena *a, const struct value *v, qp_str *out_text)
{
    struct value opened = *v;

    if (value_open(a, &opened) != QP_OK) {
        return false;
    }
    switch (opened.kind) {
    case VALUE_STRING:
        *out_text = opened.text;
        return true;
    case VALUE_BOOL:
        *out_text = opened.truth ? QP_STR("true") : QP_STR("false");
        return true;
    case VALUE_INT:
    case VALUE_REAL:
        return number_text(a, &opened, out_text);
    case VALUE_UNDEFINED:
    case VALUE_NULL:
    case VALUE_ARRAY:
    case VALUE_OBJECT:
    case VALUE_DATE:
    case VALUE_RAW:
        break;
    }
    return false;
}

/* Text that is a number as a whole, and not white space. */
static bool text_as_number(qp_str text, double *out_number)
{
    double number = number_of(text);

    if (text_trim(text, true, true).n == 0 || !isfinite(number)) {
        return false;
    }
    *out_number = number;
    return true;
}

/* Of JSON that is a string or a number. Nobody writes a number with more characters than an expression may have. */
static bool raw_as_number(qp_str json, double *out_number)
{
    char bytes[LIMIT_EXPRESSION_SIZE];
    struct scan s = scan_of(json);
    qp_str text = take_value(&s);

    if (text.p[0] != '"') {
        bool digit = text.p[0] == '-' || (text.p[0] >= '0' && text.p[0] <= '9');

        return digit && text_as_number(text, out_number);
    }
    text = inside_of(text);
    if (text.n > sizeof(bytes)) {
        return false;
    }
    return text_as_number((qp_str){bytes, unescape(text, bytes)}, out_number);
}

bool value_as_number(const struct value *v, double *out_number)
{
    switch (v->kind) {
    case VALUE_INT:
        *out_number = (double)v->integer;
        return true;
    case VALUE_REAL:
        if (!isfinite(v->real)) {
            return false;
        }
        *out_number = v->real;
        return true;
    case VALUE_STRING:
        return text_as_number(v->text, out_number);
    case VALUE_RAW:
        return raw_as_number(v->text, out_number);
    case VALUE_UNDEFINED:
    case VALUE_NULL:
    case VALUE_BOOL:
    case VALUE_ARRAY:
    case VALUE_OBJECT:
    case VALUE_DATE:
        break;
    }
    return false;
}
