/* fuzz_mapping.c - any text is a mapping or is refused with its place; what compiles is evaluated within its limits
 *
 * An input that begins with "!" is a call instead: a function's name (of one that is none, its bytes choose), then
 * operands, one a line, which are JSON or else strings. What comes of either can be written, and what is written is JSON
 * that the border takes.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/json.h"
#include "mapping/functions.h"
#include "mapping/mapping.h"

#define OPERANDS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char world[] =
    "{\"x\":\"he\\u006clo\",\"n\":5,\"list\":[3,1,[2]],\"deep\":{\"k\":[{\"v\":"
    "7}]},\"null\":null,\"big\":12345678901234567890,\"e\":\"\"}";

static struct qp_env env;
static struct arena arena;

static int find(void *context, const struct reference *r, struct value *out_value)
{
    (void)context;
    *out_value = value_at((qp_str){world, sizeof(world) - 1}, r->path, r->path_count);
    return QP_OK;
}

static struct scope scope_new(void)
{
    return (struct scope){.find = find, .arena = &arena, .env = &env, .now = 1769850487123};
}

static void check_result(const struct scope *s, int rc, const struct value *v)
{
    struct buf out;

    QP_ASSERT(rc == QP_OK || (rc == QP_E_LIMIT && s->error != NULL));
    QP_ASSERT(s->made <= LIMIT_MAPPING_SIZE);
    if (rc != QP_OK) {
        return;
    }
    buf_init(&out, &env, 0);
    rc = value_write(&out, v);
    QP_ASSERT(rc == QP_OK || rc == QP_E_TOO_LARGE);
    QP_ASSERT(rc != QP_OK || json_check(&env, buf_slice(&out), NULL, NULL) == QP_OK);
    buf_done(&out);
}

static void map(qp_str text)
{
    struct report report;
    struct node *node;
    struct mapping *m = NULL;
    struct scope s = scope_new();
    struct value v;
    int rc;

    report_init(&report, &arena);
    if (tree_read(&arena, text, &report, &node) != QP_OK || node == NULL) {
        return;
    }
    m = mapping_compile(&arena, node, &report);
    QP_ASSERT((m == NULL) == (report.count > 0));
    if (m == NULL) {
        QP_ASSERT(report.first->line >= 1 && report.first->message.n > 0);
        return;
    }
    rc = mapping_evaluate(m, &s, &v);
    check_result(&s, rc, &v);
}

/* The text up to the next line, taken off the front. */
static qp_str take_line(qp_str *rest)
{
    const char *end = rest->n > 0 ? memchr(rest->p, '\n', rest->n) : NULL;
    qp_str line = {rest->p, end == NULL ? rest->n : (size_t)(end - rest->p)};
    size_t used = end == NULL ? rest->n : line.n + 1;

    *rest = (qp_str){rest->p + used, rest->n - used};
    return line;
}

static const struct function *function_by(qp_str name)
{
    const char *dot = name.n > 0 ? memchr(name.p, '.', name.n) : NULL;
    const struct function *f = NULL;
    size_t index = 0;

    if (dot != NULL) {
        f = function_find((qp_str){name.p, (size_t)(dot - name.p)},
                          (qp_str){dot + 1, name.n - (size_t)(dot + 1 - name.p)});
    }
    for (size_t i = 0; i < name.n; i++) {
        index += (unsigned char)name.p[i];
    }
    while (f == NULL) {
        f = function_at(index);
        index /= 2;
    }
    return f;
}

static struct value operand_of(qp_str line)
{
    if (json_check(&env, line, NULL, NULL) == QP_OK) {
        return value_raw(line);
    }
    return (struct value){.kind = VALUE_STRING, .text = {line.p, utf8_valid_prefix(line)}};
}

static void call(qp_str text)
{
    const struct function *f = function_by(take_line(&text));
    struct value operands[OPERANDS];
    struct scope s = scope_new();
    struct value v;
    size_t count = 0;
    int rc;

    while (text.n > 0 && count < OPERANDS) {
        operands[count++] = operand_of(take_line(&text));
    }
    for (size_t i = 0; i < count; i++) {
        if (operands[i].kind == VALUE_STRING &&
            memchr(operands[i].text.p, '\0', operands[i].text.n)) {
            return; /* no string of ours has a NUL in it */
        }
    }
    rc = function_call(f, &s, operands, count, &v);
    check_result(&s, rc, &v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str text = {(const char *)data, size};

    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    if (size > 0 && data[0] == '!') {
        call((qp_str){text.p + 1, text.n - 1});
    } else {
        map(text);
    }
    arena_done(&arena);
    return 0;
}
