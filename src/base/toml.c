/* toml.c - the part of TOML that settings need (see toml.h) */
#include "base/toml.h"

struct toml_seen {
    struct toml_seen *next;
    qp_str table[2];
    qp_str key; /* none: the table itself */
};

void toml_init(struct toml *t, struct arena *arena, qp_str text)
{
    *t = (struct toml){.arena = arena, .text = text, .line = 1};
}

/* ----------------------------------------------------------------------------------- characters */

/* The byte that comes next; -1 at the end. */
static int peek(const struct toml *t)
{
    return t->at < t->text.n ? (unsigned char)t->text.p[t->at] : -1;
}

static size_t column_of(const struct toml *t)
{
    size_t column = 1;
    for (size_t i = t->line_at; i < t->at; i++) {
        column += ((unsigned char)t->text.p[i] & 0xc0) != 0x80;
    }
    return column;
}

static int bad(const struct toml *t, struct qp_err *err, const char *why)
{
    return err_set(err, QP_E_MALFORMED, "%zu:%zu: %s", t->line, column_of(t), why);
}

static void skip_blanks(struct toml *t)
{
    while (peek(t) == ' ' || peek(t) == '\t') {
        t->at++;
    }
}

static bool is_control(int byte)
{
    return (byte >= 0 && byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* The rest of a line: blanks, a comment, and its end. */
static int end_line(struct toml *t, struct qp_err *err)
{
    skip_blanks(t);
    if (peek(t) == '#') {
        while (peek(t) >= 0 && !is_control(peek(t))) {
            t->at++;
        }
    }
    if (peek(t) == '\r' && t->at + 1 < t->text.n && t->text.p[t->at + 1] == '\n') {
        t->at++;
    }
    if (is_control(peek(t)) && peek(t) != '\n') {
        return bad(t, err, "a control character");
    }
    if (peek(t) >= 0 && peek(t) != '\n') {
        return bad(t, err, "nothing more belongs on this line but a comment");
    }
    t->at += t->at < t->text.n;
    t->line++;
    t->line_at = t->at;
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- texts */

static bool put_utf8(struct buf *out, uint32_t code)
{
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        return false;
    }
    if (code < 0x80) {
        buf_byte(out, (char)code);
    } else if (code < 0x800) {
        buf_byte(out, (char)(0xc0 | code >> 6));
    } else if (code < 0x10000) {
        buf_byte(out, (char)(0xe0 | code >> 12));
        buf_byte(out, (char)(0x80 | (code >> 6 & 0x3f)));
    } else {
        buf_byte(out, (char)(0xf0 | code >> 18));
        buf_byte(out, (char)(0x80 | (code >> 12 & 0x3f)));
        buf_byte(out, (char)(0x80 | (code >> 6 & 0x3f)));
    }
    if (code >= 0x80) {
        buf_byte(out, (char)(0x80 | (code & 0x3f)));
    }
    return true;
}

static int hex_digit(int byte)
{
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

/* What stands behind a backslash. */
static int escape(struct toml *t, struct buf *out, struct qp_err *err)
{
    static const char letters[] = "btnfr\"\\";
    static const char meant[] = "\b\t\n\f\r\"\\";
    int letter = peek(t);
    const char *plain = letter > 0 ? strchr(letters, letter) : NULL;
    size_t digits = letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (plain != NULL) {
        buf_byte(out, meant[plain - letters]);
        t->at++;
        return QP_OK;
    }
    for (size_t i = 0; i < digits; i++) {
        t->at++;
        if (hex_digit(peek(t)) < 0) {
            return bad(t, err, "a hexadecimal digit is missing");
        }
        code = code << 4 | (uint32_t)hex_digit(peek(t));
    }
    if (digits == 0 || !put_utf8(out, code)) {
        return bad(t, err, "there is no such escape");
    }
    t->at++;
    return QP_OK;
}

/* The inside of quotes, up to the closing one. Nothing is an escape between single quotes. */
static int quoted_part(struct toml *t, int quote, struct buf *out, struct qp_err *err)
{
    int rc = QP_OK;
    while (rc == QP_OK && peek(t) != quote) {
        int byte = peek(t);
        if (byte < 0 || is_control(byte)) {
            return bad(t, err, "the text does not end on its line");
        }
        t->at++;
        if (byte == '\\' && quote == '"') {
            rc = escape(t, out, err);
        } else {
            buf_byte(out, (char)byte);
        }
    }
    t->at++;
    return rc;
}

static int quoted(struct toml *t, qp_str *out_text, struct qp_err *err)
{
    int quote = peek(t);
    struct buf b;
    int rc;
    buf_init(&b, t->arena->env, LIMIT_CONFIG_SIZE);
    buf_add(&b, "", 0); /* an empty text is one, too */
    t->at++;
    rc = quoted_part(t, quote, &b, err);
    rc = rc == QP_OK ? buf_rc(&b) : rc;
    if (rc == QP_OK && !arena_copy(t->arena, b.n == 0 ? QP_STR("") : buf_slice(&b), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&b);
    return rc;
}

static bool is_bare(int byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z') || byte == '_' || byte == '-';
}

static qp_str bare_word(struct toml *t)
{
    size_t from = t->at;
    while (is_bare(peek(t))) {
        t->at++;
    }
    return (qp_str){t->text.p + from, t->at - from};
}

/* A key, or a name of a table. */
static int name(struct toml *t, qp_str *out_name, struct qp_err *err)
{
    qp_str word;
    if (peek(t) == '"' || peek(t) == '\'') {
        return quoted(t, out_name, err);
    }
    word = bare_word(t);
    if (word.n == 0) {
        return bad(t, err, "a name is missing: letters, digits, _ and -, or a text in quotes");
    }
    *out_name = word;
    return QP_OK;
}

/* --------------------------------------------------------------------------------------- values */

/* A whole number: no leading zero, and an underscore only between digits. */
static int number(struct toml *t, struct toml_entry *e, struct qp_err *err)
{
    bool negative = peek(t) == '-';
    size_t digits = 0;
    int64_t value = 0;
    t->at += peek(t) == '-' || peek(t) == '+';
    for (;; t->at++) {
        int byte = peek(t);
        bool more =
            t->at + 1 < t->text.n && t->text.p[t->at + 1] >= '0' && t->text.p[t->at + 1] <= '9';
        if (byte == '_' && digits > 0 && more) {
            continue;
        }
        if (byte < '0' || byte > '9') {
            break;
        }
        if ((digits++ == 1 && value == 0) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, byte - '0', &value)) {
            return bad(t, err, "the number has a leading zero, or is too large");
        }
    }
    if (digits == 0 || is_bare(peek(t)) || peek(t) == '.' || peek(t) == ':' ||
        (!negative && value == INT64_MIN)) {
        return bad(t, err, "it is no whole number");
    }
    e->kind = TOML_NUMBER;
    e->number = negative ? value : -value;
    return QP_OK;
}

static int value(struct toml *t, struct toml_entry *e, struct qp_err *err)
{
    size_t from = t->at;
    qp_str word;
    if (peek(t) == '"' || peek(t) == '\'') {
        e->kind = TOML_TEXT;
        return quoted(t, &e->text, err);
    }
    if (peek(t) == '+' || peek(t) == '-' || (peek(t) >= '0' && peek(t) <= '9')) {
        return number(t, e, err);
    }
    word = bare_word(t);
    e->kind = TOML_TRUTH;
    e->truth = str_equal(word, QP_STR("true"));
    if (e->truth || str_equal(word, QP_STR("false"))) {
        return QP_OK;
    }
    t->at = from;
    return bad(t, err, "a value is a text in quotes, a whole number, true or false");
}

/* -------------------------------------------------------------------------------------- entries */

static bool is_same(const struct toml_seen *s, const struct toml_entry *e)
{
    return str_equal(s->table[0], e->table[0]) && str_equal(s->table[1], e->table[1]) &&
           str_equal(s->key, e->key);
}

/* Is it the first with this name? */
static int keep(struct toml *t, const struct toml_entry *e, struct qp_err *err)
{
    struct toml_seen *seen;
    for (const struct toml_seen *s = t->seen; s != NULL; s = s->next) {
        if (is_same(s, e)) {
            return err_set(err, QP_E_MALFORMED, "%zu:%zu: it comes a second time", e->line,
                           e->column);
        }
    }
    seen = ++t->count > LIMIT_CONFIG_ENTRIES ? NULL : ARENA_NEW(t->arena, struct toml_seen);
    if (seen == NULL) {
        return t->count > LIMIT_CONFIG_ENTRIES
                   ? err_set(err, QP_E_TOO_LARGE, "%zu:%zu: there are more than %d settings",
                             e->line, e->column, LIMIT_CONFIG_ENTRIES)
                   : QP_E_NOMEM;
    }
    *seen = (struct toml_seen){t->seen, {e->table[0], e->table[1]}, e->key};
    t->seen = seen;
    return QP_OK;
}

/* [NAME] or [NAME.NAME] */
static int table(struct toml *t, struct toml_entry *e, struct qp_err *err)
{
    size_t count = 0;
    int rc;
    e->table[0] = e->table[1] = QP_NONE;
    do {
        t->at++; /* the bracket, or the dot */
        skip_blanks(t);
        rc = count < ARRAY_COUNT(e->table) ? name(t, &e->table[count++], err)
                                           : bad(t, err, "a table has one name or two");
        skip_blanks(t);
    } while (rc == QP_OK && peek(t) == '.');
    if (rc == QP_OK && peek(t) != ']') {
        rc = bad(t, err, "a ] is missing");
    }
    if (rc == QP_OK) {
        t->at++;
        t->table[0] = e->table[0];
        t->table[1] = e->table[1];
        e->kind = TOML_TABLE;
    }
    return rc;
}

/* NAME = VALUE */
static int setting(struct toml *t, struct toml_entry *e, struct qp_err *err)
{
    int rc = name(t, &e->key, err);
    skip_blanks(t);
    if (rc == QP_OK && peek(t) != '=') {
        rc = bad(t, err, "a = is missing");
    }
    if (rc != QP_OK) {
        return rc;
    }
    t->at++;
    skip_blanks(t);
    return value(t, e, err);
}

/* Once, at the beginning: what the rest may take for granted. */
static int check_text(struct toml *t, struct qp_err *err)
{
    size_t good = utf8_valid_prefix(t->text);
    if (t->text.n > LIMIT_CONFIG_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "1:1: the file has more than %d bytes",
                       LIMIT_CONFIG_SIZE);
    }
    if (good == t->text.n) {
        return QP_OK;
    }
    for (size_t i = 0; i < good; i++) {
        if (t->text.p[i] == '\n') {
            t->line++;
            t->line_at = i + 1;
        }
    }
    t->at = good;
    return bad(t, err, "this is not UTF-8");
}

int toml_next(struct toml *t, struct toml_entry *out_entry, struct qp_err *err)
{
    struct toml_entry e = {.table = {t->table[0], t->table[1]}};
    int rc = t->at == 0 ? check_text(t, err) : QP_OK;
    skip_blanks(t);
    while (rc == QP_OK && (peek(t) == '#' || peek(t) == '\n' || peek(t) == '\r')) {
        rc = end_line(t, err);
        skip_blanks(t);
    }
    if (rc == QP_OK && peek(t) < 0) {
        return QP_E_NOT_FOUND;
    }
    e.line = t->line;
    e.column = column_of(t);
    if (rc == QP_OK) {
        rc = peek(t) == '[' ? table(t, &e, err) : setting(t, &e, err);
    }
    rc = rc == QP_OK ? end_line(t, err) : rc;
    rc = rc == QP_OK ? keep(t, &e, err) : rc;
    if (rc == QP_OK) {
        *out_entry = e;
    }
    return rc == QP_E_NOMEM ? err_set(err, rc, "%zu:1: no memory", t->line) : rc;
}
