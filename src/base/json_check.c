/* json_check.c - is this JSON, as we take it?
 *
 * One pass over the bytes, no tree, no recursion: a small machine that knows what may come next
 * and a stack of the open arrays and objects.
 *
 *     VALUE         a scalar: the value is complete;  '[': ITEM_OR_END;  '{': KEY_OR_END
 *     ITEM_OR_END   as VALUE, or ']'                  KEY_OR_END   as KEY, or '}'
 *     KEY           a string and ':', then VALUE
 *     COMMA_OR_END  ',': VALUE in an array, KEY in an object;  the bracket that fits: complete
 *     NOTHING       white space, up to the end
 *
 * A complete value, be it a scalar or a container that was closed, is followed by COMMA_OR_END
 * inside of a container and by NOTHING outside.
 *
 * The keys of all open objects lie on one stack: an inner object's keys are pushed after and gone
 * before the outer one's next, so each object's keys are together when it closes. Then they are
 * sorted, by hash first and by bytes among equal hashes, and a key that is there twice is next to
 * itself. Nothing depends on the hash being hard to guess: equal hashes cost a comparison, not a
 * quadratic loop.
 */
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum want {
    WANT_VALUE,
    WANT_ITEM_OR_END,
    WANT_KEY_OR_END,
    WANT_KEY,
    WANT_COMMA_OR_END,
    WANT_NOTHING
};

/* A key of an open object. Its name is a piece of the text or, with escapes, of checker.names. */
struct entry {
    uint64_t hash;
    size_t at; /* of the key's quote in the text */
    size_t name_at;
    size_t name_size;
    bool unescaped;
};

struct level {
    bool is_object;
    size_t first_entry;
    size_t names_size; /* of checker.names, when it was opened */
};

struct checker {
    const struct qp_env *env;
    qp_str text;
    struct json_limits limits;
    struct qp_err *err;
    size_t at;
    enum want want;
    size_t depth;
    struct level *levels; /* room for LIMIT_JSON_FRAMED_DEPTH; those that are open are set */
    struct entry *entries;
    size_t entry_count;
    size_t entry_capacity;
    struct buf names;
};

/* A string of the text, quotes not counted. */
struct span {
    size_t from;
    size_t to;
    size_t size; /* after unescaping */
    bool escaped;
};

static struct json_limits whole_limits(const struct json_limits *limits);
static int fail(struct checker *c, int code, size_t at, const char *format, ...) QP_PRINTF(4, 5);
static int fail_unexpected(struct checker *c, const char *wanted);
static int check_before(struct checker *c);
static int check_step(struct checker *c);
static int check_value(struct checker *c);
static int check_key(struct checker *c);
static int check_comma_or_end(struct checker *c);
static int check_literal(struct checker *c, const char *word);
static int check_number(struct checker *c);
static int check_string(struct checker *c, struct span *out_span);
static int check_escape(struct checker *c, size_t *size);
static int check_unicode(struct checker *c, size_t *size);
static int container_open(struct checker *c, bool is_object);
static int container_close(struct checker *c);
static int entry_push(struct checker *c, size_t at, const struct span *span);
static int entry_grow(struct checker *c);
static int check_twice(struct checker *c, struct entry *entries, size_t count);
static int entry_compare(const struct checker *c, const struct entry *a, const struct entry *b);
static qp_str entry_name(const struct checker *c, const struct entry *entry);
static void sort_entries(const struct checker *c, struct entry *entries, size_t count);
static void sift_down(const struct checker *c, struct entry *entries, size_t root, size_t count);
static void unescape(struct buf *out, qp_str text);
static size_t put_utf8(uint32_t code, char out[4]);
static bool read_hex(const char *p, size_t n, uint32_t *out_code);

int json_check(const struct qp_env *env, qp_str text, const struct json_limits *limits,
               struct qp_err *err)
{
    struct level levels[LIMIT_JSON_FRAMED_DEPTH];
    struct checker c = {
        .env = env, .text = text, .limits = whole_limits(limits), .levels = levels, .err = err};
    int rc;

    buf_init(&c.names, env, LIMIT_BUFFER_SIZE);
    rc = check_before(&c);
    while (rc == QP_OK && !(c.want == WANT_NOTHING && c.at == text.n)) {
        rc = check_step(&c);
    }
    mem_free(env, c.entries);
    buf_done(&c.names);
    return rc;
}

static struct json_limits whole_limits(const struct json_limits *limits)
{
    struct json_limits l = limits == NULL ? (struct json_limits){0} : *limits;

    l.size = l.size == 0 ? LIMIT_JSON_SIZE : l.size;
    l.keys = l.keys == 0 ? LIMIT_JSON_KEYS : l.keys;
    l.string_size = l.frame > 0          ? l.size
                    : l.string_size == 0 ? LIMIT_JSON_STRING_SIZE
                                         : l.string_size;
    if (l.depth == 0 || l.depth > LIMIT_JSON_DEPTH) {
        l.depth = LIMIT_JSON_DEPTH;
    }
    l.depth = l.frame > 0 ? LIMIT_JSON_FRAMED_DEPTH : l.depth;
    if (l.number_size == 0 || l.number_size > LIMIT_JSON_NUMBER_SIZE) {
        l.number_size = LIMIT_JSON_NUMBER_SIZE;
    }
    return l;
}

/* --------------------------------------------------------------------------------------- errors */

/* The line is counted only now: no good text pays for it. */
static int fail(struct checker *c, int code, size_t at, const char *format, ...)
{
    char what[QP_ERR_TEXT_SIZE];
    size_t line = 1;
    size_t column = 1;
    va_list args;

    if (c->err == NULL) {
        return code;
    }
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args); /* all formats here are short */
    va_end(args);
    for (size_t i = 0; i < at; i++) {
        if (c->text.p[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)c->text.p[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    return err_set(c->err, code, "json: %s at byte %zu, line %zu:%zu", what, at, line, column);
}

/* "expected X, found Y": Y is the word or the character at hand. */
static int fail_unexpected(struct checker *c, const char *wanted)
{
    char found[40];
    size_t end = c->at;

    if (c->at == c->text.n) {
        return fail(c, QP_E_MALFORMED, c->at, "expected %s, found the end of the text", wanted);
    }
    while (end < c->text.n && strchr(" \t\r\n,:[]{}\"", c->text.p[end]) == NULL) {
        end++;
    }
    end = end == c->at ? end + 1 : end;
    (void)log_escape((qp_str){c->text.p + c->at, end - c->at}, found,
                     sizeof(found)); /* may be cut */
    return fail(c, QP_E_MALFORMED, c->at, "expected %s, found '%s'", wanted, found);
}

/* ---------------------------------------------------------------------------------- the machine */

/* What can be said of the text as a whole; from here on it is known to be UTF-8. */
static int check_before(struct checker *c)
{
    size_t valid;

    if (c->text.n > c->limits.size) {
        return fail(c, QP_E_TOO_LARGE, 0, "text of %zu bytes, the limit is %zu,", c->text.n,
                    c->limits.size);
    }
    if (c->text.n >= 3 && memcmp(c->text.p, "\xEF\xBB\xBF", 3) == 0) {
        return fail(c, QP_E_MALFORMED, 0, "byte order mark");
    }
    valid = utf8_valid_prefix(c->text);
    if (valid < c->text.n) {
        return fail(c, QP_E_MALFORMED, valid, "invalid UTF-8 (byte 0x%02x)",
                    (unsigned char)c->text.p[valid]);
    }
    return QP_OK;
}

/* What lies deeper than the frame, or is a value of its innermost level, is taken apart, and checked by itself later. */
static bool is_part(const struct checker *c)
{
    bool is_value = c->want == WANT_VALUE || c->want == WANT_ITEM_OR_END;
    return c->limits.frame > 0 &&
           (c->depth > c->limits.frame || (is_value && c->depth == c->limits.frame));
}

/* The byte at hand; NUL at the end, which no step expects. */
static char peek(const struct checker *c)
{
    return c->at < c->text.n ? c->text.p[c->at] : '\0';
}

static void skip_space(struct checker *c)
{
    while (c->at < c->text.n && (c->text.p[c->at] == ' ' || c->text.p[c->at] == '\n' ||
                                 c->text.p[c->at] == '\r' || c->text.p[c->at] == '\t')) {
        c->at++;
    }
}

static int check_step(struct checker *c)
{
    skip_space(c);
    switch (c->want) {
    case WANT_VALUE:
        return check_value(c);
    case WANT_ITEM_OR_END:
        return peek(c) == ']' ? container_close(c) : check_value(c);
    case WANT_KEY_OR_END:
        return peek(c) == '}' ? container_close(c) : check_key(c);
    case WANT_KEY:
        return check_key(c);
    case WANT_COMMA_OR_END:
        return check_comma_or_end(c);
    case WANT_NOTHING:
        break;
    }
    return c->at == c->text.n ? QP_OK : fail_unexpected(c, "nothing after the value");
}

static void after_value(struct checker *c)
{
    c->want = c->depth == 0 ? WANT_NOTHING : WANT_COMMA_OR_END;
}

static int check_value(struct checker *c)
{
    struct span span;
    int rc;

    switch (peek(c)) {
    case '{':
        return container_open(c, true);
    case '[':
        return container_open(c, false);
    case '"':
        rc = check_string(c, &span);
        break;
    case 't':
        rc = check_literal(c, "true");
        break;
    case 'f':
        rc = check_literal(c, "false");
        break;
    case 'n':
        rc = check_literal(c, "null");
        break;
    default:
        rc = check_number(c);
        break;
    }
    after_value(c);
    return rc;
}

static int check_key(struct checker *c)
{
    size_t at = c->at;
    struct span span;
    int rc;

    if (peek(c) != '"') {
        return fail_unexpected(c, c->want == WANT_KEY ? "a key" : "a key or '}'");
    }
    rc = check_string(c, &span);
    if (rc == QP_OK && !is_part(c)) {
        rc = entry_push(c, at, &span);
    }
    if (rc != QP_OK) {
        return rc;
    }
    skip_space(c);
    if (peek(c) != ':') {
        return fail_unexpected(c, "':'");
    }
    c->at++;
    c->want = WANT_VALUE;
    return QP_OK;
}

static int check_comma_or_end(struct checker *c)
{
    bool is_object = c->levels[c->depth - 1].is_object;

    if (peek(c) == ',') {
        c->at++;
        c->want = is_object ? WANT_KEY : WANT_VALUE;
        return QP_OK;
    }
    if (peek(c) == (is_object ? '}' : ']')) {
        return container_close(c);
    }
    return fail_unexpected(c, is_object ? "',' or '}'" : "',' or ']'");
}

static int container_open(struct checker *c, bool is_object)
{
    if (c->depth == c->limits.depth) {
        return fail(c, QP_E_TOO_LARGE, c->at, "nested deeper than the limit of %zu",
                    c->limits.depth);
    }
    c->levels[c->depth++] = (struct level){is_object, c->entry_count, c->names.n};
    c->at++;
    c->want = is_object ? WANT_KEY_OR_END : WANT_ITEM_OR_END;
    return QP_OK;
}

static int container_close(struct checker *c)
{
    struct level *level = &c->levels[c->depth - 1];
    int rc = QP_OK;

    if (level->is_object) {
        if (c->entry_count - level->first_entry > 1) {
            rc = check_twice(c, c->entries + level->first_entry,
                             c->entry_count - level->first_entry);
        }
        c->entry_count = level->first_entry;
        c->names.n = level->names_size;
    }
    c->depth--;
    c->at++;
    after_value(c);
    return rc;
}

/* -------------------------------------------------------------------------------------- scalars */

static int check_literal(struct checker *c, const char *word)
{
    size_t size = strlen(word);

    if (c->text.n - c->at < size || memcmp(c->text.p + c->at, word, size) != 0) {
        return fail_unexpected(c, "a value");
    }
    c->at += size; /* what is glued to it, as in "nullx", is refused by the next step */
    return QP_OK;
}

static size_t skip_digits(struct checker *c)
{
    size_t from = c->at;

    while (peek(c) >= '0' && peek(c) <= '9') {
        c->at++;
    }
    return c->at - from;
}

static int check_number(struct checker *c)
{
    size_t from = c->at;
    bool is_real = false;

    c->at += peek(c) == '-';
    if (peek(c) == '0') {
        c->at++;
    } else if (skip_digits(c) == 0) {
        if (c->at == from) {
            return fail_unexpected(c, "a value");
        }
        return fail_unexpected(c, "a digit after '-'");
    }
    if (peek(c) == '.') {
        c->at++;
        is_real = true;
        if (skip_digits(c) == 0) {
            return fail_unexpected(c, "a digit after '.'");
        }
    }
    if (peek(c) == 'e' || peek(c) == 'E') {
        c->at++;
        is_real = true;
        c->at += peek(c) == '+' || peek(c) == '-';
        if (skip_digits(c) == 0) {
            return fail_unexpected(c, "a digit of the exponent");
        }
    }
    if (is_part(c)) {
        return QP_OK;
    }
    if (c->at - from > c->limits.number_size) {
        return fail(c, QP_E_TOO_LARGE, from, "number of %zu characters, the limit is %zu,",
                    c->at - from, c->limits.number_size);
    }
    if (is_real && isinf(real_parse((qp_str){c->text.p + from, c->at - from})) != 0) {
        return fail(c, QP_E_MALFORMED, from, "number too large for a double");
    }
    return QP_OK;
}

/* strtod reads the decimal point of the locale, which JSON does not have. So it is given the same
 * number without one: 12.5e3 as 125e2. The text fits: it is at most LIMIT_JSON_NUMBER_SIZE long. */
double real_parse(qp_str number)
{
    char text[LIMIT_JSON_NUMBER_SIZE + 16];
    size_t n = 0;
    size_t i = 0;
    long exponent = 0;
    bool fraction = false;

    QP_ASSERT(number.n <= LIMIT_JSON_NUMBER_SIZE);
    for (; i < number.n && number.p[i] != 'e' && number.p[i] != 'E'; i++) {
        if (number.p[i] == '.') {
            fraction = true;
        } else {
            text[n++] = number.p[i];
            exponent -= fraction;
        }
    }
    if (i < number.n) {
        char digits[LIMIT_JSON_NUMBER_SIZE + 1];
        long given;

        memcpy(digits, number.p + i + 1, number.n - i - 1);
        digits[number.n - i - 1] = '\0';
        given = strtol(digits, NULL, 10); /* at its ends when it overflows itself */
        exponent += given > 100000 ? 100000 : given < -100000 ? -100000 : given;
    }
    (void)snprintf(text + n, sizeof(text) - n, "e%ld", exponent);
    return strtod(text, NULL);
}

static int check_string(struct checker *c, struct span *out_span)
{
    size_t quote = c->at++;
    struct span span = {.from = c->at};
    int rc = QP_OK;

    while (rc == QP_OK && c->at < c->text.n && c->text.p[c->at] != '"') {
        unsigned char byte = (unsigned char)c->text.p[c->at];

        if (byte == '\\') {
            span.escaped = true;
            rc = check_escape(c, &span.size);
        } else if (byte < 0x20) {
            rc = fail(c, QP_E_MALFORMED, c->at, "control character 0x%02x in a string", byte);
        } else {
            span.size++;
            c->at++;
        }
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (c->at == c->text.n) {
        return fail(c, QP_E_MALFORMED, c->at, "string from offset %zu on has no end", quote);
    }
    span.to = c->at++;
    if (span.size > c->limits.string_size) {
        return fail(c, QP_E_TOO_LARGE, quote, "string of %zu bytes, the limit is %zu,", span.size,
                    c->limits.string_size);
    }
    *out_span = span;
    return QP_OK;
}

/* At a backslash; adds to *size what the escape stands for. */
static int check_escape(struct checker *c, size_t *size)
{
    char letter = c->at + 1 < c->text.n ? c->text.p[c->at + 1] : '\0';

    if (letter == 'u') {
        return check_unicode(c, size);
    }
    if (letter == '\0' || strchr("\"\\/bfnrt", letter) == NULL) {
        return fail(c, QP_E_MALFORMED, c->at, "unknown escape in a string");
    }
    *size += 1;
    c->at += 2;
    return QP_OK;
}

static int check_unicode(struct checker *c, size_t *size)
{
    const char *p = c->text.p + c->at;
    size_t left = c->text.n - c->at;
    uint32_t code;
    uint32_t low;
    char utf8[4];

    if (left < 6 || !read_hex(p + 2, 4, &code)) {
        return fail(c, QP_E_MALFORMED, c->at, "\\u without four hexadecimal digits");
    }
    if (is_part(c)) {
        c->at += 6;
        return QP_OK;
    }
    if (code == 0) {
        return fail(c, QP_E_SHAPE, c->at, "\\u0000 in a string");
    }
    if (code < 0xD800 || code > 0xDFFF) {
        *size += put_utf8(code, utf8);
        c->at += 6;
        return QP_OK;
    }
    if (code >= 0xDC00 || left < 12 || p[6] != '\\' || p[7] != 'u' || !read_hex(p + 8, 4, &low) ||
        low < 0xDC00 || low > 0xDFFF) {
        return fail(c, QP_E_MALFORMED, c->at, "half of a surrogate pair (\\u%.4s)", p + 2);
    }
    *size += 4;
    c->at += 12;
    return QP_OK;
}

/* ----------------------------------------------------------------------------------- equal keys */

static int entry_push(struct checker *c, size_t at, const struct span *span)
{
    struct entry entry = {.at = at, .name_at = span->from, .name_size = span->to - span->from};
    size_t count = c->entry_count - c->levels[c->depth - 1].first_entry;
    qp_str name;

    if (count == c->limits.keys) {
        return fail(c, QP_E_TOO_LARGE, at, "object of more keys than the limit of %zu",
                    c->limits.keys);
    }
    if (c->entry_count == c->entry_capacity && entry_grow(c) != QP_OK) {
        return fail(c, QP_E_NOMEM, at, "out of memory");
    }
    if (span->escaped) {
        entry.unescaped = true;
        entry.name_at = c->names.n;
        unescape(&c->names, (qp_str){c->text.p + span->from, span->to - span->from});
        entry.name_size = c->names.n - entry.name_at;
    }
    if (buf_rc(&c->names) != QP_OK) {
        return fail(c, buf_rc(&c->names), at, "no room for the keys");
    }
    name = entry_name(c, &entry);
    entry.hash = hash_bytes(0, name.p, name.n);
    c->entries[c->entry_count++] = entry;
    return QP_OK;
}

static int entry_grow(struct checker *c)
{
    size_t capacity = c->entry_capacity == 0 ? 32 : c->entry_capacity * 2;
    struct entry *entries;
    size_t size;

    if (!size_mul(capacity, sizeof(*entries), &size)) {
        return QP_E_NOMEM;
    }
    entries = mem_resize(c->env, c->entries, size);
    if (entries == NULL) {
        return QP_E_NOMEM;
    }
    c->entries = entries;
    c->entry_capacity = capacity;
    return QP_OK;
}

/* Reports the first key of the text that repeats one before it. */
static int check_twice(struct checker *c, struct entry *entries, size_t count)
{
    const struct entry *first = NULL;
    char name[LIMIT_LOG_ECHO_SIZE];

    sort_entries(c, entries, count);
    for (size_t i = 1; i < count; i++) {
        if (entries[i].hash == entries[i - 1].hash &&
            str_equal(entry_name(c, &entries[i]), entry_name(c, &entries[i - 1])) &&
            (first == NULL || entries[i].at < first->at)) {
            first = &entries[i];
        }
    }
    if (first == NULL) {
        return QP_OK;
    }
    (void)log_escape(entry_name(c, first), name, sizeof(name)); /* cut when it is long */
    return fail(c, QP_E_MALFORMED, first->at, "key \"%s\" twice in one object", name);
}

/* By hash, then by name, then by place, so that of equal keys the later one comes second. */
static int entry_compare(const struct checker *c, const struct entry *a, const struct entry *b)
{
    int order = (a->hash > b->hash) - (a->hash < b->hash);

    if (order == 0) {
        order = str_compare(entry_name(c, a), entry_name(c, b));
    }
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

static qp_str entry_name(const struct checker *c, const struct entry *entry)
{
    const char *base = entry->unescaped ? c->names.p : c->text.p;

    return (qp_str){base + entry->name_at, entry->name_size};
}

/* Heap sort: in place and O(n log n) for every input, which qsort does not promise. */
static void sort_entries(const struct checker *c, struct entry *entries, size_t count)
{
    for (size_t root = count / 2; root-- > 0;) {
        sift_down(c, entries, root, count);
    }
    for (size_t end = count; end-- > 1;) {
        struct entry largest = entries[0];

        entries[0] = entries[end];
        entries[end] = largest;
        sift_down(c, entries, 0, end);
    }
}

static void sift_down(const struct checker *c, struct entry *entries, size_t root, size_t count)
{
    struct entry moved = entries[root];

    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && entry_compare(c, &entries[child], &entries[child + 1]) < 0) {
            child++;
        }
        if (entry_compare(c, &moved, &entries[child]) >= 0) {
            break;
        }
        entries[root] = entries[child];
        root = child;
    }
    entries[root] = moved;
}

/* -------------------------------------------------------------------------------------- escapes */

/* The text was checked: every escape is whole, every high surrogate has its low one. */
static void unescape(struct buf *out, qp_str text)
{
    static const char shorts[] = "b\bf\fn\nr\rt\t"; /* pairs: letter, byte */
    size_t i = 0;

    while (i < text.n) {
        uint32_t code = (unsigned char)text.p[i];
        uint32_t low = 0;
        char utf8[4];

        if (code != '\\') {
            buf_byte(out, text.p[i++]);
        } else if (text.p[i + 1] != 'u') {
            const char *pair = strchr(shorts, text.p[i + 1]);

            buf_byte(out, pair != NULL ? pair[1] : text.p[i + 1]);
            i += 2;
        } else {
            bool whole = read_hex(text.p + i + 2, 4, &code);

            i += 6;
            if (code >= 0xD800 && code <= 0xDBFF) {
                whole = whole && read_hex(text.p + i + 2, 4, &low);
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                i += 6;
            }
            QP_ASSERT(whole);
            buf_add(out, utf8, put_utf8(code, utf8));
        }
    }
}

static bool read_hex(const char *p, size_t n, uint32_t *out_code)
{
    uint32_t code = 0;

    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        uint32_t digit;

        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a' + 10);
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A' + 10);
        } else {
            return false;
        }
        code = code << 4 | digit;
    }
    *out_code = code;
    return true;
}

static size_t put_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}
