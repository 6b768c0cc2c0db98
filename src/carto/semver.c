/* semver.c - the grammar of versions as npm takes it loosely, and their order (see semver.h) */
#include "carto/semver.h"

#define VERSION_SIZE 256 /* npm takes no longer one */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char byte_at(qp_str text, size_t at)
{
    return at < text.n ? text.p[at] : '\0';
}

/* ---------------------------------------------------------------------------------------- reading */

/* Numbers past the limit are kept as one that is past it. */
static uint64_t number_of(qp_str digits)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits.n && number <= SEMVER_NUMBER_MOST; i++) {
        number = number * 10 + (uint64_t)(digits.p[i] - '0');
    }
    return number;
}

/* A number, x, X or *. */
static bool take_part(qp_str text, size_t *at, size_t index, struct semver_parts *out)
{
    size_t from = *at;
    char c = byte_at(text, from);
    if (c == 'x' || c == 'X' || c == '*') {
        (*at)++;
        out->is_missing[index] = false;
        return true;
    }
    while (is_digit(byte_at(text, *at))) {
        (*at)++;
    }
    if (*at == from || *at - from > VERSION_SIZE) {
        return false;
    }
    /* "1.2.34.5" is what npm reads as 1.2.3-4.5: it takes a dot only behind a pre-release */
    if (index == 2 && byte_at(text, *at) == '.' && *at - from > 1) {
        (*at)--;
    }
    out->version.number[index] = number_of((qp_str){text.p + from, *at - from});
    out->is_any[index] = false;
    out->is_missing[index] = false;
    out->is_zero[index] = *at - from == 1 && c == '0';
    return true;
}

/* Words with dots between; false: a word is missing. */
static bool take_words(qp_str text, size_t *at, qp_str *out)
{
    size_t from = *at;
    for (;;) {
        size_t word = *at;
        while (is_word(byte_at(text, *at))) {
            (*at)++;
        }
        if (*at == word) {
            return false;
        }
        if (byte_at(text, *at) != '.') {
            *out = (qp_str){text.p + from, *at - from};
            return true;
        }
        (*at)++;
    }
}

/* [-]pre-release[+build], to the end of the text. */
static bool take_tail(qp_str text, size_t *at, struct semver_parts *out)
{
    qp_str build = QP_NONE;
    if (byte_at(text, *at) == '-' && is_word(byte_at(text, *at + 1))) {
        (*at)++;
    }
    if (is_word(byte_at(text, *at)) && !take_words(text, at, &out->version.pre)) {
        return false;
    }
    if (byte_at(text, *at) != '+') {
        return true;
    }
    (*at)++;
    return take_words(text, at, &build);
}

bool semver_parts_take(qp_str text, struct semver_parts *out)
{
    struct semver_parts parts = {.is_any = {true, true, true}, .is_missing = {true, true, true}};
    size_t at = 0;
    parts.version.pre = QP_STR("");
    while (byte_at(text, at) == 'v' || byte_at(text, at) == '=' || is_blank(byte_at(text, at))) {
        at++;
    }
    for (size_t index = 0; index < 3; index++) {
        if (!take_part(text, &at, index, &parts)) {
            return false;
        }
        if (index == 2 && !take_tail(text, &at, &parts)) {
            return false;
        }
        if (index < 2 && byte_at(text, at) != '.') {
            break;
        }
        at += index < 2 ? 1 : 0;
    }
    *out = parts;
    return at == text.n;
}

bool semver_read(qp_str text, struct semver *out)
{
    struct semver_parts parts;
    if (text.n > VERSION_SIZE) {
        return false;
    }
    while (text.n > 0 && is_blank(text.p[text.n - 1])) {
        text.n--;
    }
    if (!semver_parts_take(text, &parts)) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        if (parts.is_any[i] || parts.version.number[i] > SEMVER_NUMBER_MOST) {
            return false;
        }
    }
    *out = parts.version;
    return true;
}

/* ------------------------------------------------------------------------------------------ order */

/* Takes the first word of a pre-release off. */
static qp_str take_word(qp_str *pre)
{
    const char *dot = memchr(pre->p, '.', pre->n);
    qp_str word = {pre->p, dot == NULL ? pre->n : (size_t)(dot - pre->p)};
    size_t taken = word.n + (dot == NULL ? 0 : 1);
    *pre = (qp_str){pre->p + taken, pre->n - taken};
    return word;
}

static bool is_number(qp_str word)
{
    for (size_t i = 0; i < word.n; i++) {
        if (!is_digit(word.p[i])) {
            return false;
        }
    }
    return true;
}

static qp_str without_zeros(qp_str digits)
{
    while (digits.n > 1 && digits.p[0] == '0') {
        digits = (qp_str){digits.p + 1, digits.n - 1};
    }
    return digits;
}

static int compare_words(qp_str a, qp_str b)
{
    bool is_a_number = is_number(a);
    if (is_a_number != is_number(b)) {
        return is_a_number ? -1 : 1;
    }
    if (!is_a_number) {
        return str_compare(a, b);
    }
    a = without_zeros(a);
    b = without_zeros(b);
    return a.n != b.n ? (a.n < b.n ? -1 : 1) : str_compare(a, b);
}

static int compare_pre(qp_str a, qp_str b)
{
    int order = 0;
    if (a.n == 0 || b.n == 0) { /* a release is behind its pre-releases */
        return (a.n == 0) - (b.n == 0);
    }
    while (order == 0 && a.n > 0 && b.n > 0) {
        order = compare_words(take_word(&a), take_word(&b));
    }
    return order != 0 ? order : (a.n > 0) - (b.n > 0);
}

int semver_compare(const struct semver *a, const struct semver *b)
{
    for (size_t i = 0; i < 3; i++) {
        if (a->number[i] != b->number[i]) {
            return a->number[i] < b->number[i] ? -1 : 1;
        }
    }
    return compare_pre(a->pre, b->pre);
}

/* ---------------------------------------------------------------------------------------- writing */

void semver_write(struct buf *out, const struct semver *version)
{
    qp_str pre = version->pre;
    for (size_t i = 0; i < 3; i++) {
        buf_text(out, i > 0 ? "." : "");
        buf_i64(out, (int64_t)version->number[i]);
    }
    for (const char *mark = "-"; pre.n > 0; mark = ".") {
        qp_str word = take_word(&pre);
        buf_text(out, mark);
        buf_str(out, is_number(word) ? without_zeros(word) : word);
    }
}
