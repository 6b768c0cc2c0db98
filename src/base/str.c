/* str.c - slices, and three questions for foreign text: is it UTF-8, is it a name, is it an id
 *
 * The checks run once, at the border; inside, a name is known to be one. Their errors give the
 * offset and the byte instead of the text: what was refused may be terminal control codes, and
 * must not travel on into a log.
 */
#include "base/base.h"

static size_t ascii_run(const unsigned char *p, size_t n);
static size_t sequence_size(const unsigned char *p, size_t n);
static bool is_continuation(unsigned char byte, unsigned char low, unsigned char high);
static bool is_name_byte(unsigned char byte);
static size_t control_offset(qp_str s);
static bool begins_with_space(qp_str s);
static bool ends_with_space(qp_str s);
static int size_check(qp_str s, size_t limit, const char *what, struct qp_err *err);

qp_str str_from(const char *text)
{
    return text == NULL ? QP_NONE : (qp_str){text, strlen(text)};
}

bool qp_str_is(qp_str s, const char *text)
{
    return s.p != NULL && text != NULL && str_equal(s, str_from(text));
}

bool str_equal(qp_str a, qp_str b)
{
    if (a.n != b.n || str_is_none(a) != str_is_none(b)) {
        return false;
    }
    return a.n == 0 || memcmp(a.p, b.p, a.n) == 0;
}

int str_compare(qp_str a, qp_str b)
{
    size_t shared = a.n < b.n ? a.n : b.n;
    int order;

    if (str_is_none(a) || str_is_none(b)) {
        return (int)str_is_none(b) - (int)str_is_none(a);
    }
    order = shared == 0 ? 0 : memcmp(a.p, b.p, shared);
    if (order == 0) {
        order = (a.n > b.n) - (a.n < b.n);
    }
    return order;
}

size_t str_distance(qp_str a, qp_str b)
{
    size_t row[STR_COMPARED + 1];
    size_t a_size = a.n < STR_COMPARED ? a.n : STR_COMPARED;
    size_t b_size = b.n < STR_COMPARED ? b.n : STR_COMPARED;

    for (size_t j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a.p[i - 1] == b.p[j - 1] ? 0 : 1);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b_size];
}

size_t utf8_valid_prefix(qp_str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t at = 0;

    while (at < s.n) {
        size_t size = ascii_run(p + at, s.n - at);

        if (size == 0) {
            size = sequence_size(p + at, s.n - at);
        }
        if (size == 0) {
            break;
        }
        at += size;
    }
    return at;
}

int name_check(qp_str name, const char *what, struct qp_err *err)
{
    int rc = size_check(name, LIMIT_NAME_SIZE, what, err);

    for (size_t i = 0; rc == QP_OK && i < name.n; i++) {
        unsigned char byte = (unsigned char)name.p[i];

        if (!is_name_byte(byte)) {
            rc = err_set(err, QP_E_INVALID,
                         "%s: byte 0x%02x at offset %zu is none of A-Z a-z 0-9 . _ ~ : -", what,
                         byte, i);
        }
    }
    return rc;
}

int topic_check(qp_str topic, struct qp_err *err)
{
    int rc = name_check(topic, "topic", err);
    if (rc == QP_OK && topic.n >= 6 && memcmp(topic.p, "quipu:", 6) == 0) {
        rc = err_set(err, QP_E_INVALID, "topic: names that begin with quipu: are the engine's own");
    }
    return rc;
}

int id_check(qp_str id, const char *what, struct qp_err *err)
{
    int rc = size_check(id, LIMIT_ID_SIZE, what, err);
    size_t valid;
    size_t control;

    if (rc != QP_OK) {
        return rc;
    }
    valid = utf8_valid_prefix(id);
    if (valid < id.n) {
        return err_set(err, QP_E_INVALID, "%s: not valid UTF-8 at offset %zu", what, valid);
    }
    control = control_offset(id);
    if (control < id.n) {
        return err_set(err, QP_E_INVALID, "%s: control character at offset %zu", what, control);
    }
    if (begins_with_space(id) || ends_with_space(id)) {
        return err_set(err, QP_E_INVALID, "%s: begins or ends with white space", what);
    }
    return QP_OK;
}

static int size_check(qp_str s, size_t limit, const char *what, struct qp_err *err)
{
    if (str_is_none(s) || s.n == 0) {
        return err_set(err, QP_E_INVALID, "%s: is empty", what);
    }
    if (s.n > limit) {
        return err_set(err, QP_E_TOO_LARGE, "%s: %zu bytes, the limit is %zu", what, s.n, limit);
    }
    return QP_OK;
}

/* How many bytes of ASCII come first, in whole words: most text is nothing else. */
static size_t ascii_run(const unsigned char *p, size_t n)
{
    size_t size = 0;
    uint64_t word;

    while (n - size >= sizeof(word)) {
        memcpy(&word, p + size, sizeof(word));
        if ((word & 0x8080808080808080u) != 0) {
            break;
        }
        size += sizeof(word);
    }
    return size;
}

/* Size of the UTF-8 sequence at p, 0 when there is no valid one. The second byte's range depends
 * on the first: that is what keeps out overlong forms (E0, F0), surrogates (ED) and everything
 * beyond U+10FFFF (F4). */
static size_t sequence_size(const unsigned char *p, size_t n)
{
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    size_t size;

    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] < 0xC2 || p[0] > 0xF4) {
        return 0;
    }
    size = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] == 0xE0) {
        low = 0xA0;
    } else if (p[0] == 0xED) {
        high = 0x9F;
    } else if (p[0] == 0xF0) {
        low = 0x90;
    } else if (p[0] == 0xF4) {
        high = 0x8F;
    }
    if (n < size || !is_continuation(p[1], low, high)) {
        return 0;
    }
    for (size_t i = 2; i < size; i++) {
        if (!is_continuation(p[i], 0x80, 0xBF)) {
            return 0;
        }
    }
    return size;
}

static bool is_continuation(unsigned char byte, unsigned char low, unsigned char high)
{
    return byte >= low && byte <= high;
}

static bool is_name_byte(unsigned char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '~' ||
           byte == ':' || byte == '-';
}

/* Offset of the first control character (C0, DEL, C1) of valid UTF-8, or s.n. */
static size_t control_offset(qp_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char byte = (unsigned char)s.p[i];

        if (byte < 0x20 || byte == 0x7F) {
            return i;
        }
        /* U+0080..U+009F is C2 80..C2 9F, and C2 is never a continuation byte. */
        if (byte == 0xC2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xA0) {
            return i;
        }
    }
    return s.n;
}

/* What Unicode calls White_Space, without the control characters, which are refused anyway. */
static const char *const spaces[] = {
    "\x20",         "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80",
};

static bool begins_with_space(qp_str s)
{
    for (size_t i = 0; i < ARRAY_COUNT(spaces); i++) {
        size_t n = strlen(spaces[i]);

        if (s.n >= n && memcmp(s.p, spaces[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static bool ends_with_space(qp_str s)
{
    for (size_t i = 0; i < ARRAY_COUNT(spaces); i++) {
        size_t n = strlen(spaces[i]);

        if (s.n >= n && memcmp(s.p + s.n - n, spaces[i], n) == 0) {
            return true;
        }
    }
    return false;
}
