/* args.c - what the bodies of all functions use (see args.h) */
#include "mapping/args.h"

#include <math.h>

#include "mapping/text.h"

/* ------------------------------------------------------------------------------------- operands */

const struct value *args_operand(const struct args *args, size_t index)
{
    static const struct value undefined = {.kind = VALUE_UNDEFINED};

    return index < args->count ? &args->operands[index] : &undefined;
}

bool args_has(const struct args *args, size_t index)
{
    return args_operand(args, index)->kind != VALUE_UNDEFINED;
}

int args_open(struct args *args, size_t index)
{
    return index < args->count ? scope_open(args->scope, &args->operands[index]) : QP_OK;
}

int args_text(struct args *args, size_t index, qp_str *out_text)
{
    int rc = args_open(args, index);

    return rc == QP_OK ? operand_text(args->scope, args_operand(args, index), out_text) : rc;
}

int args_number(struct args *args, size_t index, double *out_number)
{
    int rc = args_open(args, index);

    return rc == QP_OK ? operand_number(args->scope, args_operand(args, index), out_number) : rc;
}

int args_integer(struct args *args, size_t index, double fallback, double *out_number)
{
    double number = fallback;
    int rc = args_has(args, index) ? args_number(args, index, &number) : QP_OK;

    if (rc == QP_OK) {
        *out_number = isnan(number) ? 0 : trunc(number);
    }
    return rc;
}

size_t args_position(double position, size_t count)
{
    double most = (double)count;

    if (position < 0) {
        position += most;
    }
    return position <= 0 ? 0 : position >= most ? count : (size_t)position;
}

int args_range(struct args *args, size_t count, size_t *out_from, size_t *out_to)
{
    double first;
    double last;
    int rc = args_integer(args, 1, 0, &first);

    if (rc == QP_OK) {
        rc = args_integer(args, 2, (double)count, &last);
    }
    if (rc == QP_OK) {
        size_t from = args_position(first, count);
        size_t to = args_position(last, count);

        *out_from = from;
        *out_to = to > from ? to : from;
    }
    return rc;
}

/* How many operands there are when those that are arrays are taken apart. */
static int spread_count(struct args *args, size_t *out_count)
{
    size_t count = 0;
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < args->count; i++) {
        rc = args_open(args, i);
        count += args->operands[i].kind == VALUE_ARRAY ? args->operands[i].count : 1;
    }
    *out_count = count;
    return rc;
}

static void spread_into(const struct args *args, struct value *list)
{
    size_t n = 0;

    for (size_t i = 0; i < args->count; i++) {
        const struct value *v = &args->operands[i];

        if (v->kind != VALUE_ARRAY) {
            list[n++] = *v;
            continue;
        }
        for (size_t k = 0; k < v->count; k++) {
            list[n++] = *v->items[k];
        }
    }
}

int args_spread(struct args *args)
{
    struct value *list;
    size_t count;
    bool any = false;
    int rc = spread_count(args, &count);

    for (size_t i = 0; i < args->count; i++) {
        any = any || args->operands[i].kind == VALUE_ARRAY;
    }
    if (rc != QP_OK || !any) {
        return rc;
    }
    if (count > LIMIT_MAPPING_SIZE / sizeof(*list)) {
        return SCOPE_REFUSE(args->scope, LIMIT_MAPPING_SIZE);
    }
    list = scope_room(args->scope, count * sizeof(*list));
    if (list == NULL) {
        return args->scope->rc;
    }
    spread_into(args, list);
    args->operands = list;
    args->count = count;
    return QP_OK;
}

/* --------------------------------------------------------------------------------------- result */

int give(struct args *args, const struct value *v)
{
    *args->out = *v;
    return QP_OK;
}

int give_undefined(struct args *args)
{
    args->out->kind = VALUE_UNDEFINED;
    return QP_OK;
}

int give_bool(struct args *args, bool truth)
{
    *args->out = (struct value){.kind = VALUE_BOOL, .truth = truth};
    return QP_OK;
}

int give_number(struct args *args, double number)
{
    *args->out = value_number(number);
    return QP_OK;
}

int give_integer(struct args *args, int64_t number)
{
    *args->out = (struct value){.kind = VALUE_INT, .integer = number};
    return QP_OK;
}

int give_string(struct args *args, qp_str text)
{
    *args->out = (struct value){.kind = VALUE_STRING, .text = text};
    return QP_OK;
}

int give_copy(struct args *args, const char *text, size_t size)
{
    char *p = scope_text(args->scope, size);

    if (p == NULL) {
        return args->scope->rc;
    }
    memcpy(p, text, size);
    return give_string(args, (qp_str){p, size});
}

int args_cut(struct args *args, qp_str text, size_t first, size_t last, qp_str *out_text)
{
    struct text_piece piece = text_cut(text, first, last);
    char *p;

    if (!piece.before && !piece.behind) {
        *out_text = piece.middle;
        return QP_OK;
    }
    p = scope_text(args->scope, text_piece_size(&piece));
    if (p == NULL) {
        return args->scope->rc;
    }
    *out_text = (qp_str){p, (size_t)(text_piece_put(&piece, p) - p)};
    return QP_OK;
}

int give_cut(struct args *args, qp_str text, size_t first, size_t last)
{
    int rc = args_cut(args, text, first, last, &text);

    return rc == QP_OK ? give_string(args, text) : rc;
}
