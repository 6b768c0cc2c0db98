/* log.c - one line of logfmt, built on the stack
 *
 * The unit of everything here is what must not be torn: a character, or an escape that stands for
 * one. A unit is appended whole or not at all, so a cut line is still valid UTF-8 and valid
 * logfmt.
 */
#include "base/log.h"

#include <stdio.h>

#define LINE_MARK "..." /* ends a cut line */
#define UNIT_SIZE 24    /* the longest: a decimal int64 */

struct line {
    char *p;
    size_t n;
    size_t room; /* for units; the mark and a quote or NUL have their own, behind it */
    bool cut;
};

static void put(struct line *line, const char *unit, size_t size);
static void put_field(struct line *line, const struct log_field *field);
static void put_value(struct line *line, qp_str text);
static void put_escaped(struct line *line, qp_str text);
static size_t next_unit(qp_str rest, char out_unit[UNIT_SIZE], size_t *out_size);
static bool is_bare(qp_str text);
static bool misleads(const unsigned char *p, size_t size);
static size_t character_size(qp_str rest);

void log_fields(const struct qp_env *env, enum qp_log_level level, const struct log_field *fields,
                size_t count)
{
    char text[LIMIT_LOG_LINE_SIZE];
    struct line line = {.p = text, .room = sizeof(text) - sizeof(LINE_MARK "\"")};

    QP_ASSERT(count > 0 && strcmp(fields[0].key, "msg") == 0);
    for (size_t i = 0; i < count && !line.cut; i++) {
        if (i > 0) {
            put(&line, " ", 1);
        }
        put_field(&line, &fields[i]);
    }
    env->log(env->context, level, line.p, line.n);
}

size_t log_escape(qp_str text, char *out, size_t size)
{
    struct line line = {.p = out, .room = size - sizeof(LINE_MARK)};

    QP_ASSERT(size >= 8);
    put_escaped(&line, text);
    if (line.cut) {
        memcpy(line.p + line.n, LINE_MARK, strlen(LINE_MARK));
        line.n += strlen(LINE_MARK);
    }
    line.p[line.n] = '\0';
    return line.n;
}

static void put(struct line *line, const char *unit, size_t size)
{
    /* A closing quote may have passed the room by one: so no difference is taken here. */
    if (line->cut || line->n + size > line->room) {
        line->cut = true;
        return;
    }
    memcpy(line->p + line->n, unit, size);
    line->n += size;
}

static void put_field(struct line *line, const struct log_field *field)
{
    char number[UNIT_SIZE];

    put(line, field->key, strlen(field->key));
    put(line, "=", 1);
    if (field->kind == LOG_KIND_STR) {
        put_value(line, field->text);
    } else if (field->kind == LOG_KIND_BOOL) {
        put(line, field->number != 0 ? "true" : "false", field->number != 0 ? 4 : 5);
    } else {
        int n = snprintf(number, sizeof(number), "%lld", (long long)field->number);

        put(line, number, (size_t)n);
    }
    if (line->cut && field->kind != LOG_KIND_STR) {
        memcpy(line->p + line->n, LINE_MARK, strlen(LINE_MARK));
        line->n += strlen(LINE_MARK);
    }
}

/* none: nothing; a plain word: as it is; all else, the empty text too: in quotes. */
static void put_value(struct line *line, qp_str text)
{
    bool quoted = !str_is_none(text) && !is_bare(text);

    if (quoted) {
        put(line, "\"", 1);
    }
    quoted = quoted && !line->cut;
    put_escaped(line, text);
    if (line->cut) {
        memcpy(line->p + line->n, LINE_MARK, strlen(LINE_MARK));
        line->n += strlen(LINE_MARK);
    }
    if (quoted) {
        line->p[line->n++] = '"'; /* its room is kept free */
    }
}

static void put_escaped(struct line *line, qp_str text)
{
    while (text.n > 0 && !line->cut) {
        char unit[UNIT_SIZE];
        size_t size;
        size_t taken = next_unit(text, unit, &size);

        put(line, unit, size);
        text.p += taken;
        text.n -= taken;
    }
}

/* The unit for the first character of rest (which is not empty); returns how many bytes it stands
 * for. */
static size_t next_unit(qp_str rest, char out_unit[UNIT_SIZE], size_t *out_size)
{
    static const char shorts[] = "\"\"\\\\\nn\rr\tt"; /* pairs: byte, letter */
    const unsigned char *p = (const unsigned char *)rest.p;
    size_t size = character_size(rest);

    for (size_t i = 0; size == 1 && i + 1 < sizeof(shorts); i += 2) {
        if (rest.p[0] == shorts[i]) {
            out_unit[0] = '\\';
            out_unit[1] = shorts[i + 1];
            *out_size = 2;
            return 1;
        }
    }
    if (log_misleads(rest) == 0) {
        memcpy(out_unit, rest.p, size);
        *out_size = size;
        return size;
    }
    *out_size = 0;
    size = log_misleads(rest);
    for (size_t i = 0; i < size; i++) {
        *out_size += (size_t)snprintf(out_unit + *out_size, UNIT_SIZE - *out_size, "\\x%02x", p[i]);
    }
    return size;
}

/* Characters that a terminal acts on, or that make a line look like another one: C0, DEL and C1
 * controls, line separators, marks that change the direction of text. */
static bool misleads(const unsigned char *p, size_t size)
{
    if (size == 1) {
        return p[0] < 0x20 || p[0] == 0x7F;
    }
    if (size == 2) {
        return p[0] == 0xC2 && p[1] < 0xA0;
    }
    if (size == 3 && p[0] == 0xE2) {
        return (p[1] == 0x80 && (p[2] == 0x8E || p[2] == 0x8F || (p[2] >= 0xA8 && p[2] <= 0xAE))) ||
               (p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9);
    }
    return false;
}

size_t log_misleads(qp_str rest)
{
    size_t size = character_size(rest);

    if (size == 0) {
        return 1; /* a byte that belongs to no character */
    }
    return misleads((const unsigned char *)rest.p, size) ? size : 0;
}

/* Size of the valid UTF-8 character at the front, or 0. */
static size_t character_size(qp_str rest)
{
    unsigned char lead = (unsigned char)rest.p[0];
    size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

    if (size > rest.n || utf8_valid_prefix((qp_str){rest.p, size}) != size) {
        return 0;
    }
    return size;
}

static bool is_bare(qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        bool word = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                    (byte >= '0' && byte <= '9') ||
                    (byte != 0 && strchr("._~:/@+,-", byte) != NULL);

        if (!word) {
            return false;
        }
    }
    return text.n > 0;
}
