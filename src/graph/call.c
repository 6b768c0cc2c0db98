/* call.c - what the bodies of all functions use (see call.h) */
#include "graph/call.h"

#include <math.h>

#include "graph/text.h"

/* ------------------------------------------------------------------------------------- operands */

const struct value *call_operand(const struct call *c, size_t index)
{
    static const struct value undefined = {.kind = VALUE_UNDEFINED};

    return index < c->count ? &c->operands[index] : &undefined;
}

bool call_has(const struct call *c, size_t index)
{
    return call_operand(c, index)->kind != VALUE_UNDEFINED;
}

int call_open(struct call *c, size_t index)
{
    return index < c->count ? scope_open(c->scope, &c->operands[index]) : QP_OK;
}

int call_text(struct call *c, size_t index, qp_str *out_text)
{
    int rc = call_open(c, index);

    return rc == QP_OK ? operand_text(c->scope, call_operand(c, index), out_text) : rc;
}

int call_number(struct call *c, size_t index, double *out_number)
{
    int rc = call_open(c, index);

    return rc == QP_OK ? operand_number(c->scope, call_operand(c, index), out_number) : rc;
}

int call_integer(struct call *c, size_t index, double fallback, double *out_number)
{
    double number = fallback;
    int rc = call_has(c, index) ? call_number(c, index, &number) : QP_OK;

    if (rc == QP_OK) {
        *out_number = isnan(number) ? 0 : trunc(number);
    }
    return rc;
}

size_t call_position(double position, size_t count)
{
    double most = (double)count;

    if (position < 0) {
        position += most;
    }
    return position <= 0 ? 0 : position >= most ? count : (size_t)position;
}

int call_range(struct call *c, size_t count, size_t *out_from, size_t *out_to)
{
    double first;
    double last;
    int rc = call_integer(c, 1, 0, &first);

    if (rc == QP_OK) {
        rc = call_integer(c, 2, (double)count, &last);
    }
    if (rc == QP_OK) {
        size_t from = call_position(first, count);
        size_t to = call_position(last, count);

        *out_from = from;
        *out_to = to > from ? to : from;
    }
    return rc;
}

/* How many operands there are when those that are arrays are taken apart. */
static int spread_count(struct call *c, size_t *out_count)
{
    size_t count = 0;
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < c->count; i++) {
        rc = call_open(c, i);
        count += c->operands[i].kind == VALUE_ARRAY ? c->operands[i].count : 1;
    }
    *out_count = count;
    return rc;
}

static void spread_into(const struct call *c, struct value *list)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++) {
        const struct value *v = &c->operands[i];

        if (v->kind != VALUE_ARRAY) {
            list[n++] = *v;
            continue;
        }
        for (size_t k = 0; k < v->count; k++) {
            list[n++] = *v->items[k];
        }
    }
}

int call_spread(struct call *c)
{
    struct value *list;
    size_t count;
    bool any = false;
    int rc = spread_count(c, &count);

    for (size_t i = 0; i < c->count; i++) {
        any = any || c->operands[i].kind == VALUE_ARRAY;
    }
    if (rc != QP_OK || !any) {
        return rc;
    }
    if (count > LIMIT_MAPPING_SIZE / sizeof(*list)) {
        return SCOPE_REFUSE(c->scope, LIMIT_MAPPING_SIZE);
    }
    list = scope_room(c->scope, count * sizeof(*list));
    if (list == NULL) {
        return c->scope->rc;
    }
    spread_into(c, list);
    c->operands = list;
    c->count = count;
    return QP_OK;
}

/* --------------------------------------------------------------------------------------- result */

int give(struct call *c, const struct value *v)
{
    *c->out = *v;
    return QP_OK;
}

int give_undefined(struct call *c)
{
    c->out->kind = VALUE_UNDEFINED;
    return QP_OK;
}

int give_bool(struct call *c, bool truth)
{
    *c->out = (struct value){.kind = VALUE_BOOL, .truth = truth};
    return QP_OK;
}

int give_number(struct call *c, double number)
{
    *c->out = value_number(number);
    return QP_OK;
}

int give_integer(struct call *c, int64_t number)
{
    *c->out = (struct value){.kind = VALUE_INT, .integer = number};
    return QP_OK;
}

int give_string(struct call *c, qp_str text)
{
    *c->out = (struct value){.kind = VALUE_STRING, .text = text};
    return QP_OK;
}

int give_copy(struct call *c, const char *text, size_t size)
{
    char *p = scope_text(c->scope, size);

    if (p == NULL) {
        return c->scope->rc;
    }
    memcpy(p, text, size);
    return give_string(c, (qp_str){p, size});
}

int call_cut(struct call *c, qp_str text, size_t first, size_t last, qp_str *out_text)
{
    struct text_piece piece = text_cut(text, first, last);
    char *p;

    if (!piece.before && !piece.behind) {
        *out_text = piece.middle;
        return QP_OK;
    }
    p = scope_text(c->scope, text_piece_size(&piece));
    if (p == NULL) {
        return c->scope->rc;
    }
    *out_text = (qp_str){p, (size_t)(text_piece_put(&piece, p) - p)};
    return QP_OK;
}

int give_cut(struct call *c, qp_str text, size_t first, size_t last)
{
    int rc = call_cut(c, text, first, last, &text);

    return rc == QP_OK ? give_string(c, text) : rc;
}
