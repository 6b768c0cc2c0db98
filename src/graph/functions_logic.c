/* functions_logic.c - {@conditional...}, {@logical...}, {@unary...}, {@symbol...} and {@json...} */
#include <math.h>

#include "base/json.h"
#include "graph/date.h"
#include "graph/functions.h"
#include "graph/text.h"

/* ---------------------------------------------------------------------------------- conditional */

int conditional_ternary(struct call *c)
{
    return give(c, call_operand(c, operand_truth(call_operand(c, 0)) ? 1 : 2));
}

int conditional_nullish(struct call *c)
{
    size_t i = 0;

    while (i + 1 < c->count &&
           (c->operands[i].kind == VALUE_NULL || c->operands[i].kind == VALUE_UNDEFINED)) {
        i++;
    }
    return give(c, call_operand(c, i));
}

static int give_equality(struct call *c, bool strict, bool wanted)
{
    const struct value *a = call_operand(c, 0);
    const struct value *b = call_operand(c, 1);
    bool equal = false;
    int rc = strict ? operand_same(c->scope, a, b, &equal) : operand_equal(c->scope, a, b, &equal);

    return rc == QP_OK ? give_bool(c, equal == wanted) : rc;
}

int conditional_equality(struct call *c)
{
    return give_equality(c, false, true);
}

int conditional_inequality(struct call *c)
{
    return give_equality(c, false, false);
}

int conditional_strict_equality(struct call *c)
{
    return give_equality(c, true, true);
}

int conditional_strict_inequality(struct call *c)
{
    return give_equality(c, true, false);
}

static int give_order(struct call *c, enum order wanted, bool or_equal)
{
    enum order order = ORDER_NONE;
    int rc = operand_order(c->scope, call_operand(c, 0), call_operand(c, 1), &order);

    return rc == QP_OK ? give_bool(c, order == wanted || (or_equal && order == ORDER_EQUAL)) : rc;
}

int conditional_greater(struct call *c)
{
    return give_order(c, ORDER_GREATER, false);
}

int conditional_greater_equal(struct call *c)
{
    return give_order(c, ORDER_GREATER, true);
}

int conditional_less(struct call *c)
{
    return give_order(c, ORDER_LESS, false);
}

int conditional_less_equal(struct call *c)
{
    return give_order(c, ORDER_LESS, true);
}

/* The first operand whose truth is `wanted`, or the last one. */
static int give_first(struct call *c, bool wanted)
{
    size_t i = 0;

    while (i + 1 < c->count && operand_truth(&c->operands[i]) != wanted) {
        i++;
    }
    return give(c, call_operand(c, i));
}

int logical_and(struct call *c)
{
    return give_first(c, false);
}

int logical_or(struct call *c)
{
    return give_first(c, true);
}

/* ---------------------------------------------------------------------------------------- unary */

int unary_not(struct call *c)
{
    return give_bool(c, !operand_truth(call_operand(c, 0)));
}

int unary_positive(struct call *c)
{
    double number;
    int rc;

    if (call_operand(c, 0)->kind == VALUE_INT) {
        return give(c, call_operand(c, 0));
    }
    rc = call_number(c, 0, &number);
    return rc == QP_OK ? give_number(c, number) : rc;
}

int unary_negative(struct call *c)
{
    const struct value *v = call_operand(c, 0);
    double number;
    int rc;

    if (v->kind == VALUE_INT && v->integer != 0 && v->integer != INT64_MIN) {
        return give_integer(c, -v->integer);
    }
    rc = call_number(c, 0, &number);
    return rc == QP_OK ? give_number(c, -number) : rc;
}

/* --------------------------------------------------------------------------------------- symbol */

int symbol_null(struct call *c)
{
    return give(c, &(struct value){.kind = VALUE_NULL});
}

int symbol_undefined(struct call *c)
{
    return give_undefined(c);
}

int symbol_whitespace(struct call *c)
{
    return give_string(c, QP_STR(" "));
}

int symbol_object(struct call *c)
{
    return object_begin(c->scope, 0, c->out);
}

int symbol_array(struct call *c)
{
    return array_begin(c->scope, 0, c->out);
}

int symbol_infinity(struct call *c)
{
    return give_number(c, INFINITY);
}

int symbol_negative_infinity(struct call *c)
{
    return give_number(c, -INFINITY);
}

int symbol_nan(struct call *c)
{
    return give_number(c, NAN);
}

int symbol_date(struct call *c)
{
    return give(c, &(struct value){.kind = VALUE_DATE, .real = (double)c->scope->now});
}

/* ----------------------------------------------------------------------------------------- json */

/* The text was checked nowhere yet; what is none is undefined. */
int json_parse_text(struct call *c)
{
    qp_str text;
    int rc = call_text(c, 0, &text);

    if (rc != QP_OK) {
        return rc;
    }
    rc = json_check(c->scope->env, text, NULL, NULL);
    if (rc == QP_E_NOMEM) {
        return rc;
    }
    if (rc == QP_OK) {
        *c->out = value_raw(text);
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

static void put_fields(struct stringify *s, const struct value *v)
{
    bool any = false;

    build_add(&s->b, QP_STR("{"));
    s->depth++;
    for (size_t i = 0; i < v->count && s->b.rc == QP_OK; i++) {
        if (v->fields[i].value->kind != VALUE_UNDEFINED) {
            if (any) {
                build_add(&s->b, QP_STR(","));
            }
            put_line(s);
            put_quoted(s, v->fields[i].key);
            build_add(&s->b, s->indentation.n > 0 ? QP_STR(": ") : QP_STR(":"));
            put_value(s, v->fields[i].value);
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
        put_fields(s, &opened);
    } else {
        put_scalar(s, &opened);
    }
}

/* Up to ten spaces, or up to ten units of a string. */
static int take_indentation(struct call *c, size_t index, qp_str *out_text)
{
    const struct value *v = call_operand(c, index);
    double count;
    int rc;

    *out_text = QP_STR("");
    if (v->kind == VALUE_STRING) {
        return call_cut(c, v->text, 0, call_position(10, text_units(v->text)), out_text);
    }
    if (v->kind != VALUE_INT && v->kind != VALUE_REAL) {
        return QP_OK;
    }
    rc = call_integer(c, index, 0, &count);
    count = count < 0 ? 0 : count > 10 ? 10 : count;
    *out_text = (qp_str){"          ", (size_t)count};
    return rc;
}

int json_stringify(struct call *c)
{
    struct stringify s = {.b = {.scope = c->scope}};
    qp_str text;
    int rc = take_indentation(c, 2, &s.indentation);

    if (rc != QP_OK || !call_has(c, 0)) {
        return rc;
    }
    put_value(&s, call_operand(c, 0));
    rc = build_done(&s.b, &text);
    return rc == QP_OK ? give_string(c, text) : rc;
}
