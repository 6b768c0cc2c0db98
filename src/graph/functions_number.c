/* functions_number.c - {@math...}, {@number...} and {@bitwise...}
 *
 * Numbers are doubles, but integers of 64 bits that were given exactly stay exact through sums, products, powers and
 * whatever only rounds, as long as the result fits; past that they go on as doubles.
 */
#include <math.h>

#include "graph/functions.h"

/* An operand as a number of the kind that it is. */
static int take_number(struct call *c, size_t index, struct value *out_number)
{
    double number;
    int rc;

    if (call_operand(c, index)->kind == VALUE_INT) {
        *out_number = *call_operand(c, index);
        return QP_OK;
    }
    rc = call_number(c, index, &number);
    if (rc == QP_OK) {
        *out_number = value_number(number);
    }
    return rc;
}

static double real_of(const struct value *number)
{
    return number->kind == VALUE_INT ? (double)number->integer : number->real;
}

/* --------------------------------------------------------------------------------------- sums */

typedef struct value (*step)(const struct value *a, const struct value *b);

static struct value integer(int64_t number)
{
    return (struct value){.kind = VALUE_INT, .integer = number};
}

static struct value add(const struct value *a, const struct value *b)
{
    int64_t sum;

    if (a->kind == VALUE_INT && b->kind == VALUE_INT &&
        !__builtin_add_overflow(a->integer, b->integer, &sum)) {
        return integer(sum);
    }
    return value_number(real_of(a) + real_of(b));
}

static struct value subtract(const struct value *a, const struct value *b)
{
    int64_t difference;

    if (a->kind == VALUE_INT && b->kind == VALUE_INT &&
        !__builtin_sub_overflow(a->integer, b->integer, &difference)) {
        return integer(difference);
    }
    return value_number(real_of(a) - real_of(b));
}

/* 0 times a negative number is -0, which no integer is. */
static struct value multiply(const struct value *a, const struct value *b)
{
    int64_t product;

    if (a->kind == VALUE_INT && b->kind == VALUE_INT && a->integer != 0 && b->integer != 0 &&
        !__builtin_mul_overflow(a->integer, b->integer, &product)) {
        return integer(product);
    }
    return value_number(real_of(a) * real_of(b));
}

static struct value divide(const struct value *a, const struct value *b)
{
    if (real_of(b) == 0) {
        return value_number(NAN); /* and no infinity: a ruling */
    }
    if (a->kind == VALUE_INT && b->kind == VALUE_INT && a->integer != 0 && b->integer != -1 &&
        a->integer % b->integer == 0) {
        return integer(a->integer / b->integer);
    }
    return value_number(real_of(a) / real_of(b));
}

/* All operands, one after the other, from `first` on, or from the first of them. */
static int fold(struct call *c, const struct value *first, step next)
{
    struct value result = {.kind = VALUE_REAL, .real = NAN};
    struct value number;
    int rc = call_spread(c);

    if (first != NULL) {
        result = *first;
    }
    for (size_t i = 0; rc == QP_OK && i < c->count; i++) {
        rc = take_number(c, i, &number);
        if (rc == QP_OK) {
            result = first == NULL && i == 0 ? number : next(&result, &number);
        }
    }
    return rc == QP_OK ? give(c, &result) : rc;
}

int math_add(struct call *c)
{
    struct value zero = integer(0);

    return fold(c, &zero, add);
}

int math_subtract(struct call *c)
{
    return fold(c, NULL, subtract);
}

int math_multiply(struct call *c)
{
    struct value one = integer(1);

    return fold(c, &one, multiply);
}

int math_divide(struct call *c)
{
    return fold(c, NULL, divide);
}

/* 0 is larger than -0. */
static bool is_larger(const struct value *a, const struct value *b)
{
    if (a->kind == VALUE_INT && b->kind == VALUE_INT) {
        return a->integer > b->integer;
    }
    if (real_of(a) == 0 && real_of(b) == 0) {
        return !signbit(real_of(a)) && signbit(real_of(b));
    }
    return real_of(a) > real_of(b);
}

static struct value larger(const struct value *a, const struct value *b)
{
    if (isnan(real_of(a)) || isnan(real_of(b))) {
        return value_number(NAN);
    }
    return is_larger(b, a) ? *b : *a;
}

static struct value smaller(const struct value *a, const struct value *b)
{
    if (isnan(real_of(a)) || isnan(real_of(b))) {
        return value_number(NAN);
    }
    return is_larger(a, b) ? *b : *a;
}

int math_max(struct call *c)
{
    struct value first = value_number(-INFINITY);

    return fold(c, &first, larger);
}

int math_min(struct call *c)
{
    struct value first = value_number(INFINITY);

    return fold(c, &first, smaller);
}

/* A long double has room for the square of every double. */
int math_hypot(struct call *c)
{
    long double sum = 0;
    bool infinite = false;
    double number;
    int rc = call_spread(c);

    for (size_t i = 0; rc == QP_OK && i < c->count; i++) {
        rc = call_number(c, i, &number);
        infinite = infinite || (rc == QP_OK && isinf(number));
        sum += rc == QP_OK ? (long double)number * number : 0;
    }
    return rc == QP_OK ? give_number(c, infinite ? INFINITY : (double)sqrtl(sum)) : rc;
}

/* -------------------------------------------------------------------------- functions of one */

/* Of the first operand, whose arrays have been taken apart. */
static int give_applied(struct call *c, double (*function)(double))
{
    double number;
    int rc = call_number(c, 0, &number);

    return rc == QP_OK ? give_number(c, function(number)) : rc;
}

static int apply(struct call *c, double (*function)(double))
{
    int rc = call_spread(c);

    return rc == QP_OK ? give_applied(c, function) : rc;
}

/* What an integer is already. */
static int apply_rounding(struct call *c, double (*function)(double))
{
    int rc = call_spread(c);

    if (rc == QP_OK && call_operand(c, 0)->kind == VALUE_INT) {
        return give(c, call_operand(c, 0));
    }
    return rc == QP_OK ? give_applied(c, function) : rc;
}

#define APPLY(name)                                                                                \
    int math_##name(struct call *c)                                                                \
    {                                                                                              \
        return apply(c, name);                                                                     \
    }
APPLY(acos)
APPLY(asin)
APPLY(atan)
APPLY(cos)
APPLY(exp)
APPLY(log)
APPLY(log10)
APPLY(log2)
APPLY(sin)
APPLY(sqrt)
APPLY(tan)
#undef APPLY

/* Those that the C library has with several units in the last place of error: computed with more digits, then rounded. */
#define APPLY_LONG(name)                                                                           \
    static double name##_rounded(double number)                                                    \
    {                                                                                              \
        return (double)name##l(number);                                                            \
    }                                                                                              \
    int math_##name(struct call *c)                                                                \
    {                                                                                              \
        return apply(c, name##_rounded);                                                           \
    }
APPLY_LONG(acosh)
APPLY_LONG(asinh)
APPLY_LONG(atanh)
APPLY_LONG(cbrt)
APPLY_LONG(cosh)
APPLY_LONG(expm1)
APPLY_LONG(log1p)
APPLY_LONG(sinh)
APPLY_LONG(tanh)
#undef APPLY_LONG

/* Halves go up, which is not away from zero; what is rounded to zero keeps its sign. */
static double round_up(double number)
{
    double whole = floor(number);

    if (number - whole >= 0.5) {
        whole += 1;
    }
    return copysign(whole, number);
}

static double sign_of(double number)
{
    return number > 0 ? 1 : number < 0 ? -1 : number;
}

static double single_of(double number)
{
    if (fabs(number) >= 0x1.ffffffp127) { /* past the largest of 32 bits, rounded */
        return copysign(isnan(number) ? NAN : INFINITY, number);
    }
    return isnan(number) ? number : (float)number;
}

int math_abs(struct call *c)
{
    int rc = call_spread(c);
    const struct value *v = call_operand(c, 0);

    if (rc == QP_OK && v->kind == VALUE_INT && v->integer != INT64_MIN) {
        return give_integer(c, v->integer < 0 ? -v->integer : v->integer);
    }
    return rc == QP_OK ? give_applied(c, fabs) : rc;
}

int math_ceil(struct call *c)
{
    return apply_rounding(c, ceil);
}

int math_floor(struct call *c)
{
    return apply_rounding(c, floor);
}

int math_round(struct call *c)
{
    return apply_rounding(c, round_up);
}

int math_trunc(struct call *c)
{
    return apply_rounding(c, trunc);
}

int math_sign(struct call *c)
{
    return apply(c, sign_of);
}

int math_fround(struct call *c)
{
    return apply(c, single_of);
}

int math_random(struct call *c)
{
    uint64_t bits;
    int rc = c->scope->env->entropy(c->scope->env->context, &bits, sizeof(bits));

    return rc == QP_OK ? give_number(c, (double)(bits >> 11) * 0x1p-53) : rc;
}

/* ------------------------------------------------------------------------------ functions of two */

static int take_two(struct call *c, double *out_a, double *out_b)
{
    int rc = call_spread(c);

    if (rc == QP_OK) {
        rc = call_number(c, 0, out_a);
    }
    return rc == QP_OK ? call_number(c, 1, out_b) : rc;
}

int math_atan2(struct call *c)
{
    double a;
    double b;
    int rc = take_two(c, &a, &b);

    return rc == QP_OK ? give_number(c, atan2(a, b)) : rc;
}

/* A power of integers, if it is one of 64 bits. */
static bool exact_power(int64_t base, int64_t exponent, int64_t *out_power)
{
    int64_t power = 1;

    if (exponent < 0 || (exponent > 63 && (base > 1 || base < -1))) {
        return false;
    }
    if (base >= -1 && base <= 1) {
        *out_power = exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base;
        return true;
    }
    for (int64_t i = 0; i < exponent; i++) {
        if (__builtin_mul_overflow(power, base, &power)) {
            return false;
        }
    }
    *out_power = power;
    return true;
}

/* Where C has 1 for what nobody knows, ECMAScript has NaN. */
static double power(double base, double exponent)
{
    if (isnan(exponent) || (fabs(base) == 1 && isinf(exponent))) {
        return NAN;
    }
    return pow(base, exponent);
}

int math_pow(struct call *c)
{
    struct value a;
    struct value b;
    int64_t exact;
    int rc = call_spread(c);

    if (rc == QP_OK) {
        rc = take_number(c, 0, &a);
    }
    if (rc == QP_OK) {
        rc = take_number(c, 1, &b);
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (a.kind == VALUE_INT && b.kind == VALUE_INT && exact_power(a.integer, b.integer, &exact)) {
        return give_integer(c, exact);
    }
    return give_number(c, power(real_of(&a), real_of(&b)));
}

/* ------------------------------------------------------------------------------------------ bits */

/* ToUint32: what is left modulo 2^32. */
static uint32_t bits_of(const struct value *number)
{
    double real;

    if (number->kind == VALUE_INT) {
        return (uint32_t)(uint64_t)number->integer;
    }
    if (!isfinite(number->real)) {
        return 0;
    }
    real = fmod(trunc(number->real), 0x1p32);
    return (uint32_t)(int64_t)real;
}

static int take_bits(struct call *c, size_t index, uint32_t *out_bits)
{
    struct value number;
    int rc = take_number(c, index, &number);

    if (rc == QP_OK) {
        *out_bits = bits_of(&number);
    }
    return rc;
}

static int take_two_bits(struct call *c, uint32_t *out_a, uint32_t *out_b)
{
    int rc = take_bits(c, 0, out_a);

    return rc == QP_OK ? take_bits(c, 1, out_b) : rc;
}

#define BITWISE(name, result)                                                                      \
    int bitwise_##name(struct call *c)                                                             \
    {                                                                                              \
        uint32_t a = 0;                                                                            \
        uint32_t b = 0;                                                                            \
        int rc = take_two_bits(c, &a, &b);                                                         \
                                                                                                   \
        return rc == QP_OK ? give_integer(c, (result)) : rc;                                       \
    }
BITWISE(and, (int32_t)(a &b))
BITWISE(or, (int32_t)(a | b))
BITWISE(xor, (int32_t)(a ^ b))
BITWISE(left, (int32_t)(a << (b & 31)))
BITWISE(right, (int32_t)a >> (b & 31))
BITWISE(right_unsigned, a >> (b & 31))
#undef BITWISE

int unary_bitwise_not(struct call *c)
{
    uint32_t a;
    int rc = take_bits(c, 0, &a);

    return rc == QP_OK ? give_integer(c, (int32_t)~a) : rc;
}

int math_clz32(struct call *c)
{
    uint32_t a = 0;
    int rc = call_spread(c);

    if (rc == QP_OK) {
        rc = take_bits(c, 0, &a);
    }
    return rc == QP_OK ? give_integer(c, a == 0 ? 32 : __builtin_clz(a)) : rc;
}

int math_imul(struct call *c)
{
    uint32_t a = 0;
    uint32_t b = 0;
    int rc = call_spread(c);

    if (rc == QP_OK) {
        rc = take_two_bits(c, &a, &b);
    }
    return rc == QP_OK ? give_integer(c, (int32_t)(a * b)) : rc;
}

/* --------------------------------------------------------------------------------------- number */

static bool is_number(const struct value *v)
{
    return v->kind == VALUE_INT || v->kind == VALUE_REAL;
}

int number_is_finite(struct call *c)
{
    const struct value *v = call_operand(c, 0);

    return give_bool(c, is_number(v) && isfinite(real_of(v)));
}

int number_is_integer(struct call *c)
{
    const struct value *v = call_operand(c, 0);

    return give_bool(c, is_number(v) && isfinite(real_of(v)) && trunc(real_of(v)) == real_of(v));
}

int number_is_nan(struct call *c)
{
    const struct value *v = call_operand(c, 0);

    return give_bool(c, v->kind == VALUE_REAL && isnan(v->real));
}

/* What is left of a number, an integer, when it is divided by 2; -1: it is no integer. */
static int take_parity(struct call *c, int *out_parity)
{
    struct value number;
    double real;
    int rc = take_number(c, 0, &number);

    if (rc != QP_OK) {
        return rc;
    }
    real = real_of(&number);
    if (number.kind == VALUE_INT) {
        *out_parity = number.integer % 2 != 0;
    } else {
        *out_parity = !isfinite(real) || trunc(real) != real ? -1 : fmod(real, 2) != 0;
    }
    return QP_OK;
}

int number_is_even(struct call *c)
{
    int parity;
    int rc = take_parity(c, &parity);

    return rc == QP_OK ? give_bool(c, parity == 0) : rc;
}

int number_is_odd(struct call *c)
{
    int parity;
    int rc = take_parity(c, &parity);

    return rc == QP_OK ? give_bool(c, parity == 1) : rc;
}

int number_parse_float(struct call *c)
{
    qp_str text;
    int rc = call_text(c, 0, &text);

    return rc == QP_OK ? give_number(c, number_prefix(text)) : rc;
}

int number_parse_int(struct call *c)
{
    uint32_t radix = 0;
    qp_str text;
    int rc = call_text(c, 0, &text);

    if (rc == QP_OK) {
        rc = take_bits(c, 1, &radix);
    }
    return rc == QP_OK ? give_number(c, number_integer_prefix(text, (int32_t)radix)) : rc;
}

/* The number and how many digits, -1 for a count that is not allowed; false: something failed. */
static bool take_digits(struct call *c, double least, double *out_number, int *out_digits,
                        int *out_rc)
{
    double digits = 0;

    *out_rc = call_number(c, 0, out_number);
    if (*out_rc == QP_OK) {
        *out_rc = call_integer(c, 1, 0, &digits);
    }
    *out_digits = digits >= least && digits <= NUMBER_DIGITS ? (int)digits : -1;
    return *out_rc == QP_OK;
}

/* NaN or an infinity, by its name. */
static int give_name(struct call *c, double number)
{
    char text[NUMBER_TEXT_SIZE];

    return give_copy(c, text, number_format(number, text));
}

/* A wrong count is refused before the number is looked at, by this one; by the others behind it. */
int number_to_fixed(struct call *c)
{
    char text[NUMBER_FIXED_SIZE];
    double number;
    int digits;
    int rc;

    if (!take_digits(c, 0, &number, &digits, &rc) || digits < 0) {
        return rc;
    }
    if (!isfinite(number)) {
        return give_name(c, number);
    }
    return give_copy(c, text, number_fixed(number, digits, text));
}

int number_to_exponential(struct call *c)
{
    char text[NUMBER_FIXED_SIZE];
    double number;
    int digits;
    int rc;

    if (!take_digits(c, 0, &number, &digits, &rc)) {
        return rc;
    }
    if (!isfinite(number)) {
        return give_name(c, number);
    }
    if (digits < 0) {
        return QP_OK;
    }
    return give_copy(c, text, number_exponential(number, call_has(c, 1) ? digits : -1, text));
}

int number_to_precision(struct call *c)
{
    char text[NUMBER_FIXED_SIZE];
    double number;
    int digits;
    int rc;

    if (!call_has(c, 1)) {
        rc = call_number(c, 0, &number);
        return rc == QP_OK ? give_name(c, number) : rc;
    }
    if (!take_digits(c, 1, &number, &digits, &rc)) {
        return rc;
    }
    if (!isfinite(number)) {
        return give_name(c, number);
    }
    if (digits < 0) {
        return QP_OK;
    }
    return give_copy(c, text, number_precision(number, digits, text));
}
