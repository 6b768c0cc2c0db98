/* functions_logic.c - {@conditional...}, {@logical...}, {@unary...}, {@symbol...} and {@json...} */
#include <math.h>

#include "base/json.h"
#include "mapping/date.h"
#include "mapping/functions.h"
#include "mapping/text.h"

/* ---------------------------------------------------------------------------------- conditional */

int conditional_ternary(struct args *args)
{
    return give(args, args_operand(args, operand_truth(args_operand(args, 0)) ? 1 : 2));
}

int conditional_nullish(struct args *args)
{
    size_t i = 0;

    while (i + 1 < args->count &&
           (args->operands[i].kind == VALUE_NULL || args->operands[i].kind == VALUE_UNDEFINED)) {
        i++;
    }
    return give(args, args_operand(args, i));
}

static int give_equality(struct args *args, bool strict, bool wanted)
{
    const struct value *a = args_operand(args, 0);
    const struct value *b = args_operand(args, 1);
    bool equal = false;
    int rc =
        strict ? operand_same(args->scope, a, b, &equal) : operand_equal(args->scope, a, b, &equal);

    return rc == QP_OK ? give_bool(args, equal == wanted) : rc;
}

int conditional_equality(struct args *args)
{
    return give_equality(args, false, true);
}

int conditional_inequality(struct args *args)
{
    return give_equality(args, false, false);
}

int conditional_strict_equality(struct args *args)
{
    return give_equality(args, true, true);
}

int conditional_strict_inequality(struct args *args)
{
    return give_equality(args, true, false);
}

static int give_order(struct args *args, enum order wanted, bool or_equal)
{
    enum order order = ORDER_NONE;
    int rc = operand_order(args->scope, args_operand(args, 0), args_operand(args, 1), &order);

    return rc == QP_OK ? give_bool(args, order == wanted || (or_equal && order == ORDER_EQUAL))
                       : rc;
}

int conditional_greater(struct args *args)
{
    return give_order(args, ORDER_GREATER, false);
}

int conditional_greater_equal(struct args *args)
{
    return give_order(args, ORDER_GREATER, true);
}

int conditional_less(struct args *args)
{
    return give_order(args, ORDER_LESS, false);
}

int conditional_less_equal(struct args *args)
{
    return give_order(args, ORDER_LESS, true);
}

/* The first operand whose truth is `wanted`, or the last one. */
static int give_first(struct args *args, bool wanted)
{
    size_t i = 0;

    while (i + 1 < args->count && operand_truth(&args->operands[i]) != wanted) {
        i++;
    }
    return give(args, args_operand(args, i));
}

int logical_and(struct args *args)
{
    return give_first(args, false);
}

int logical_or(struct args *args)
{
    return give_first(args, true);
}

/* ---------------------------------------------------------------------------------------- unary */

int unary_not(struct args *args)
{
    return give_bool(args, !operand_truth(args_operand(args, 0)));
}

int unary_positive(struct args *args)
{
    double number;
    int rc;

    if (args_operand(args, 0)->kind == VALUE_INT) {
        return give(args, args_operand(args, 0));
    }
    rc = args_number(args, 0, &number);
    return rc == QP_OK ? give_number(args, number) : rc;
}

int unary_negative(struct args *args)
{
    const struct value *v = args_operand(args, 0);
    double number;
    int rc;

    if (v->kind == VALUE_INT && v->integer != 0 && v->integer != INT64_MIN) {
        return give_integer(args, -v->integer);
    }
    rc = args_number(args, 0, &number);
    return rc == QP_OK ? give_number(args, -number) : rc;
}

/* --------------------------------------------------------------------------------------- symbol */

int symbol_null(struct args *args)
{
    return give(args, &(struct value){.kind = VALUE_NULL});
}

int symbol_undefined(struct args *args)
{
    return give_undefined(args);
}

int symbol_whitespace(struct args *args)
{
    return give_string(args, QP_STR(" "));
}

int symbol_object(struct args *args)
{
    return object_begin(args->scope, 0, args->out);
}

int symbol_array(struct args *args)
{
    return array_begin(args->scope, 0, args->out);
}

int symbol_infinity(struct args *args)
{
    return give_number(args, INFINITY);
}

int symbol_negative_infinity(struct args *args)
{
    return give_number(args, -INFINITY);
}

int symbol_nan(struct args *args)
{
    return give_number(args, NAN);
}

int symbol_date(struct args *args)
{
    return give(args, &(struct value){.kind = VALUE_DATE, .real = (double)args->scope->now});
}

/* ----------------------------------------------------------------------------------------- json */

/* The text was checked nowhere yet; what is none is undefined. */
int json_parse_text(struct args *args)
{
    qp_str text;
    int rc = args_text(args, 0, &text);

    if (rc != QP_OK) {
        return rc;
    }
    rc = json_check(args->scope->env, text, NULL, NULL);
    if (rc == QP_E_NOMEM) {
        return rc;
    }
    if (rc == QP_OK) {
        *args->out = value_raw(text);
    }
    return QP_OK;
}

/* JSON with indentation, as JSON.stringify writes it. */
struct stringify {
    struct build b;
    qp_str indentation; /* empty: all on one line */
    int depth;
};

static void put_value(struct stringify *s, const struct value *v);

static void put_line(struct stringify *s)
{
    if (s->indentation.n == 0) {
        return;
    }
    build_add(&s->b, QP_STR("\n"));
    for (int i = 0; i < s->depth && s->b.rc == QP_OK; i++) {
        build_add(&s->b, s->indentation);
    }
}

/* The writer of the border knows how to quote; it is lent a buffer for one string. */
static void put_quoted(struct stringify *s, qp_str text)
{
    struct json_writer w;
    struct buf out;
    int rc;

    buf_init(&out, s->b.scope->env, 0);
    json_writer_init(&w, &out);
    json_put_str(&w, text);
    rc = json_writer_done(&w);
    if (rc == QP_OK) {
        build_add(&s->b, buf_slice(&out));
    } else if (s->b.rc == QP_OK) {
        s->b.rc = rc;
    }
    buf_done(&out);
}

static void put_items(struct stringify *s, const struct value *v)
{
    build_add(&s->b, QP_STR("["));
    s->depth++;
    for (size_t i = 0; i < v->count && s->b.rc == QP_OK; i++) {
        if (i > 0) {
            build_add(&s->b, QP_STR(","));
        }
        put_line(s);
        put_value(s, v->items[i]);
    }
    s->depth--;
    if (v->count > 0) {
        put_line(s);
    }
    build_add(&s->b, QP_STR("]"));
}

static void put_members(struct stringify *s, const struct value *v)
{
    bool any = false;

    build_add(&s->b, QP_STR("{"));
    s->depth++;
    for (size_t i = 0; i < v->count && s->b.rc == QP_OK; i++) {
        if (v->members[i].value->kind != VALUE_UNDEFINED) {
            if (any) {
                build_add(&s->b, QP_STR(","));
            }
            put_line(s);
            put_quoted(s, v->members[i].key);
            build_add(&s->b, s->indentation.n > 0 ? QP_STR(": ") : QP_STR(":"));
            put_value(s, v->members[i].value);
            any = true;
        }
    }
    s->depth--;
    if (any) {
        put_line(s);
    }
    build_add(&s->b, QP_STR("}"));
}

static void put_scalar(struct stringify *s, const struct value *v)
{
    char text[DATE_TEXT_SIZE];

    if (v->kind == VALUE_STRING) {
        put_quoted(s, v->text);
    } else if (v->kind == VALUE_BOOL) {
        build_add(&s->b, v->truth ? QP_STR("true") : QP_STR("false"));
    } else if (v->kind == VALUE_INT || (v->kind == VALUE_REAL && isfinite(v->real))) {
        build_add(&s->b, (qp_str){text, value_number_text(v, text)});
    } else if (v->kind == VALUE_DATE && isfinite(v->real)) {
        put_quoted(s, (qp_str){text, date_iso(v->real, text)});
    } else {
        build_add(&s->b, QP_STR("null"));
    }
}

/* Recursion is bounded by the depth of the value. */
static void put_value(struct stringify *s, const struct value *v)
{
    struct value opened = *v;

    if (s->b.rc == QP_OK) {
        s->b.rc = scope_open(s->b.scope, &opened);
    }
    if (opened.kind == VALUE_ARRAY) {
        put_items(s, &opened);
    } else if (opened.kind == VALUE_OBJECT) {
        put_members(s, &opened);
    } else {
        put_scalar(s, &opened);
    }
}

/* Up to ten spaces, or up to ten units of a string. */
static int take_indentation(struct args *args, size_t index, qp_str *out_text)
{
    const struct value *v = args_operand(args, index);
    double count;
    int rc;

    *out_text = QP_STR("");
    if (v->kind == VALUE_STRING) {
        return args_cut(args, v->text, 0, args_position(10, text_units(v->text)), out_text);
    }
    if (v->kind != VALUE_INT && v->kind != VALUE_REAL) {
        return QP_OK;
    }
    rc = args_integer(args, index, 0, &count);
    count = count < 0 ? 0 : count > 10 ? 10 : count;
    *out_text = (qp_str){"          ", (size_t)count};
    return rc;
}

int json_stringify(struct args *args)
{
    struct stringify s = {.b = {.scope = args->scope}};
    qp_str text;
    int rc = take_indentation(args, 2, &s.indentation);

    if (rc != QP_OK || !args_has(args, 0)) {
        return rc;
    }
    put_value(&s, args_operand(args, 0));
    rc = build_done(&s.b, &text);
    return rc == QP_OK ? give_string(args, text) : rc;
}
