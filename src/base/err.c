/* err.c - error codes as words, and the detail that travels with them
 *
 * The table of quipu.h is the only list of errors; everything here is generated from it. A code
 * that is not in the table can only come from a bug, so it is answered as INTERNAL is, never with
 * NULL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

struct code_row {
    const char *word;
    const char *text;
    int http;
    enum qp_class class;
};

static const struct code_row code_rows[] = {
    /* Indexed by the negated code. A number that was given up is a hole, which code_row fills. */
    [0] = {"ok", "no error", 200, QP_CLASS_OK},
#define CODE_ROW(name, number, http, class, word, text)                                            \
    [number] = {word, text, http, QP_CLASS_##class},
    QP_ERROR_TABLE(CODE_ROW)
#undef CODE_ROW
};

static const struct code_row *code_row(int code);
static size_t format_cut(char *out, size_t size, const char *format, va_list args) QP_PRINTF(3, 0);
static size_t whole_characters(const char *text, size_t size);

const char *qp_code_word(int code)
{
    return code_row(code)->word;
}

const char *qp_code_text(int code)
{
    return code_row(code)->text;
}

int qp_code_http(int code)
{
    return code_row(code)->http;
}

enum qp_class qp_code_class(int code)
{
    return code_row(code)->class;
}

int err_set(struct qp_err *err, int code, const char *format, ...)
{
    va_list args;

    QP_ASSERT(code < 0);
    if (err == NULL) {
        return code;
    }
    err->code = code;
    err->pointer[0] = '\0';
    va_start(args, format);
    (void)format_cut(err->text, sizeof(err->text), format, args); /* a cut text is still a text */
    va_end(args);
    return code;
}

int err_wrap(struct qp_err *err, int code, const char *format, ...)
{
    char inner[QP_ERR_TEXT_SIZE];
    va_list args;
    size_t n;

    QP_ASSERT(code < 0);
    if (err == NULL) {
        return code;
    }
    /* A callee that only returned a code left an older detail: it explains another failure. */
    memcpy(inner, err->text, sizeof(inner));
    if (err->code != code || inner[0] == '\0') {
        (void)snprintf(inner, sizeof(inner), "%s", qp_code_text(code));
        err->pointer[0] = '\0';
    }
    inner[sizeof(inner) - 1] = '\0';
    err->code = code;
    va_start(args, format);
    n = format_cut(err->text, sizeof(err->text), format, args);
    va_end(args);
    (void)snprintf(err->text + n, sizeof(err->text) - n, ": %s", inner);
    err->text[whole_characters(err->text, strlen(err->text))] = '\0';
    return code;
}

int err_point(struct qp_err *err, int code, const char *format, ...)
{
    char inner[QP_ERR_POINTER_SIZE];
    va_list args;
    size_t n;

    QP_ASSERT(code < 0);
    if (err == NULL) {
        return code;
    }
    QP_ASSERT(err->code == code);
    memcpy(inner, err->pointer, sizeof(inner));
    va_start(args, format);
    n = format_cut(err->pointer, sizeof(err->pointer), format, args);
    va_end(args);
    (void)snprintf(err->pointer + n, sizeof(err->pointer) - n, "%s", inner);
    err->pointer[whole_characters(err->pointer, strlen(err->pointer))] = '\0';
    return code;
}

/* The one thing the library ever prints: nobody else is left to say why the process ends. */
_Noreturn void assert_failed(const char *condition, const char *file, int line)
{
    char text[512];
    int n =
        snprintf(text, sizeof(text), "quipu: %s:%d: assertion failed: %s\n", file, line, condition);

    if (n > 0) {
        size_t size = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
        ssize_t written = write(STDERR_FILENO, text, size);
        (void)written; /* the abort is the message that cannot get lost */
    }
    abort();
}

static const struct code_row *code_row(int code)
{
    int64_t index = -(int64_t)code;

    if (index < 0 || index >= (int64_t)ARRAY_COUNT(code_rows) || code_rows[index].word == NULL) {
        index = -(int64_t)QP_E_INTERNAL;
    }
    return &code_rows[index];
}

/* vsnprintf that cuts between characters; returns the length of what is there. */
static size_t format_cut(char *out, size_t size, const char *format, va_list args)
{
    int n = vsnprintf(out, size, format, args);

    if (n < 0) {
        out[0] = '\0';
        return 0;
    }
    if ((size_t)n < size) {
        return (size_t)n;
    }
    n = (int)whole_characters(out, size - 1);
    out[n] = '\0';
    return (size_t)n;
}

/* The length of text without a UTF-8 sequence that was cut off at its end. Only the end is looked
 * at: the text may hold foreign bytes, and those are no reason to lose what follows them. */
static size_t whole_characters(const char *text, size_t size)
{
    size_t lead = size;
    size_t need = 1;
    unsigned char byte;

    while (lead > 0 && size - lead < 3 && ((unsigned char)text[lead - 1] & 0xC0) == 0x80) {
        lead--;
    }
    if (lead == 0) {
        return size;
    }
    byte = (unsigned char)text[--lead];
    if (byte >= 0xF0) {
        need = 4;
    } else if (byte >= 0xE0) {
        need = 3;
    } else if (byte >= 0xC0) {
        need = 2;
    }
    return need > size - lead ? lead : size;
}
