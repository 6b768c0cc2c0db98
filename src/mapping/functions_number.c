/* functions_number.c - {@math...}, {@number...} and {@bitwise...}
 *
 * Numbers are doubles, but integers of 64 bits that were given exactly stay exact through sums, products, powers and
 * whatever only rounds, as long as the result fits; past that they go on as doubles.
 */
#include <math.h>

#include "mapping/functions.h"

/* An operand as a number of the kind that it is. */
static int take_number(struct args *args, size_t index, struct value *out_number)
{
    double number;
    int rc;

    if (args_operand(args, index)->kind == VALUE_INT) {
        *out_number = *args_operand(args, index);
        return QP_OK;
    }
    rc = args_number(args, index, &number);
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
static int fold(struct args *args, const struct value *first, step next)
{
    struct value result = {.kind = VALUE_REAL, .real = NAN};
    struct value number;
    int rc = args_spread(args);

    if (first != NULL) {
        result = *first;
    }
    for (size_t i = 0; rc == QP_OK && i < args->count; i++) {
        rc = take_number(args, i, &number);
        if (rc == QP_OK) {
            result = first == NULL && i == 0 ? number : next(&result, &number);
        }
    }
    return rc == QP_OK ? give(args, &result) : rc;
}

int math_add(struct args *args)
{
    struct value zero = integer(0);

    return fold(args, &zero, add);
}

int math_subtract(struct args *args)
{
    return fold(args, NULL, subtract);
}

int math_multiply(struct args *args)
{
    struct value one = integer(1);

    return fold(args, &one, multiply);
}

int math_divide(struct args *args)
{
    return fold(args, NULL, divide);
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

int math_max(struct args *args)
{
    struct value first = value_number(-INFINITY);

    return fold(args, &first, larger);
}

int math_min(struct args *args)
{
    struct value first = value_number(INFINITY);

    return fold(args, &first, smaller);
}

/* A long double has room for the square of every double. */
int math_hypot(struct args *args)
{
    long double sum = 0;
    bool infinite = false;
    double number;
    int rc = args_spread(args);

    for (size_t i = 0; rc == QP_OK && i < args->count; i++) {
        rc = args_number(args, i, &number);
        infinite = infinite || (rc == QP_OK && isinf(number));
        sum += rc == QP_OK ? (long double)number * number : 0;
    }
    return rc == QP_OK ? give_number(args, infinite ? INFINITY : (double)sqrtl(sum)) : rc;
}

/* -------------------------------------------------------------------------- functions of one */

/* Of the first operand, whose arrays have been taken apart. */
static int give_applied(struct args *args, double (*function)(double))
{
    double number;
    int rc = args_number(args, 0, &number);

    return rc == QP_OK ? give_number(args, function(number)) : rc;
}

static int apply(struct args *args, double (*function)(double))
{
    int rc = args_spread(args);

    return rc == QP_OK ? give_applied(args, function) : rc;
}

/* What an integer is already. */
static int apply_rounding(struct args *args, double (*function)(double))
{
    int rc = args_spread(args);

    if (rc == QP_OK && args_operand(args, 0)->kind == VALUE_INT) {
        return give(args, args_operand(args, 0));
    }
    return rc == QP_OK ? give_applied(args, function) : rc;
}

#define APPLY(name)                                                                                \
    int math_##name(struct args *args)                                                             \
    {                                                                                              \
        return apply(args, name);                                                                  \
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
    int math_##name(struct args *args)                                                             \
    {                                                                                              \
        return apply(args, name##_rounded);                                                        \
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

int math_abs(struct args *args)
{
    int rc = args_spread(args);
    const struct value *v = args_operand(args, 0);

    if (rc == QP_OK && v->kind == VALUE_INT && v->integer != INT64_MIN) {
        return give_integer(args, v->integer < 0 ? -v->integer : v->integer);
    }
    return rc == QP_OK ? give_applied(args, fabs) : rc;
}

int math_ceil(struct args *args)
{
    return apply_rounding(args, ceil);
}

int math_floor(struct args *args)
{
    return apply_rounding(args, floor);
}

int math_round(struct args *args)
{
    return apply_rounding(args, round_up);
}

int math_trunc(struct args *args)
{
    return apply_rounding(args, trunc);
}

int math_sign(struct args *args)
{
    return apply(args, sign_of);
}

int math_fround(struct args *args)
{
    return apply(args, single_of);
}

int math_random(struct args *args)
{
    uint64_t bits;
    int rc = args->scope->env->entropy(args->scope->env->context, &bits, sizeof(bits));

    return rc == QP_OK ? give_number(args, (double)(bits >> 11) * 0x1p-53) : rc;
}

/* ------------------------------------------------------------------------------ functions of two */

static int take_two(struct args *args, double *out_a, double *out_b)
{
    int rc = args_spread(args);

    if (rc == QP_OK) {
        rc = args_number(args, 0, out_a);
    }
    return rc == QP_OK ? args_number(args, 1, out_b) : rc;
}

int math_atan2(struct args *args)
{
    double a;
    double b;
    int rc = take_two(args, &a, &b);

    return rc == QP_OK ? give_number(args, atan2(a, b)) : rc;
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

int math_pow(struct args *args)
{
    struct value a;
    struct value b;
    int64_t exact;
    int rc = args_spread(args);

    if (rc == QP_OK) {
        rc = take_number(args, 0, &a);
    }
    if (rc == QP_OK) {
        rc = take_number(args, 1, &b);
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (a.kind == VALUE_INT && b.kind == VALUE_INT && exact_power(a.integer, b.integer, &exact)) {
        return give_integer(args, exact);
    }
    return give_number(args, power(real_of(&a), real_of(&b)));
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

static int take_bits(struct args *args, size_t index, uint32_t *out_bits)
{
    struct value number;
    int rc = take_number(args, index, &number);

    if (rc == QP_OK) {
        *out_bits = bits_of(&number);
    }
    return rc;
}

static int take_two_bits(struct args *args, uint32_t *out_a, uint32_t *out_b)
{
    int rc = take_bits(args, 0, out_a);

    return rc == QP_OK ? take_bits(args, 1, out_b) : rc;
}

#define BITWISE(name, result)                                                                      \
    int bitwise_##name(struct args *args)                                                          \
    {                                                                                              \
        uint32_t a = 0;                                                                            \
        uint32_t b = 0;                                                                            \
        int rc = take_two_bits(args, &a, &b);                                                      \
                                                                                                   \
        return rc == QP_OK ? give_integer(args, (result)) : rc;                                    \
    }
BITWISE(and, (int32_t)(a &b))
BITWISE(or, (int32_t)(a | b))
BITWISE(xor, (int32_t)(a ^ b))
BITWISE(left, (int32_t)(a << (b & 31)))
BITWISE(right, (int32_t)a >> (b & 31))
BITWISE(right_unsigned, a >> (b & 31))
#undef BITWISE

int unary_bitwise_not(struct args *args)
{
    uint32_t a;
    int rc = take_bits(args, 0, &a);

    return rc == QP_OK ? give_integer(args, (int32_t)~a) : rc;
}

int math_clz32(struct args *args)
{
    uint32_t a = 0;
    int rc = args_spread(args);

    if (rc == QP_OK) {
        rc = take_bits(args, 0, &a);
    }
    return rc == QP_OK ? give_integer(args, a == 0 ? 32 : __builtin_clz(a)) : rc;
}

int math_imul(struct args *args)
{
    uint32_t a = 0;
    uint32_t b = 0;
    int rc = args_spread(args);

    if (rc == QP_OK) {
        rc = take_two_bits(args, &a, &b);
    }
    return rc == QP_OK ? give_integer(args, (int32_t)(a * b)) : rc;
}

/* --------------------------------------------------------------------------------------- number */

static bool is_number(const struct value *v)
{
    return v->kind == VALUE_INT || v->kind == VALUE_REAL;
}

int number_is_finite(struct args *args)
{
    const struct value *v = args_operand(args, 0);

    return give_bool(args, is_number(v) && isfinite(real_of(v)));
}

int number_is_integer(struct args *args)
{
    const struct value *v = args_operand(args, 0);

    return give_bool(args, is_number(v) && isfinite(real_of(v)) && trunc(real_of(v)) == real_of(v));
}

int number_is_nan(struct args *args)
{
    const struct value *v = args_operand(args, 0);

    return give_bool(args, v->kind == VALUE_REAL && isnan(v->real));
}

/* What is left of a number, an integer, when it is divided by 2; -1: it is no integer. */
static int take_parity(struct args *args, int *out_parity)
{
    struct value number;
    double real;
    int rc = take_number(args, 0, &number);

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

int number_is_even(struct args *args)
{
    int parity;
    int rc = take_parity(args, &parity);

    return rc == QP_OK ? give_bool(args, parity == 0) : rc;
}

int number_is_odd(struct args *args)
{
    int parity;
    int rc = take_parity(args, &parity);

    return rc == QP_OK ? give_bool(args, parity == 1) : rc;
}

int number_parse_float(struct args *args)
{
    qp_str text;
    int rc = args_text(args, 0, &text);

    return rc == QP_OK ? give_number(args, number_prefix(text)) : rc;
}

int number_parse_int(struct args *args)
{
    uint32_t radix = 0;
    qp_str text;
    int rc = args_text(args, 0, &text);

    if (rc == QP_OK) {
        rc = take_bits(args, 1, &radix);
    }
    return rc == QP_OK ? give_number(args, number_integer_prefix(text, (int32_t)radix)) : rc;
}

/* The number and how many digits, -1 for a count that is not allowed; false: something failed. */
static bool take_digits(struct args *args, double least, double *out_number, int *out_digits,
                        int *out_rc)
{
    double digits = 0;

    *out_rc = args_number(args, 0, out_number);
    if (*out_rc == QP_OK) {
        *out_rc = args_integer(args, 1, 0, &digits);
    }
    *out_digits = digits >= least && digits <= NUMBER_DIGITS ? (int)digits : -1;
    return *out_rc == QP_OK;
}

/* NaN or an infinity, by its name. */
static int give_name(struct args *args, double number)
{
    char text[NUMBER_TEXT_SIZE];

    return give_copy(args, text, number_format(number, text));
}

/* A wrong count is refused before the number is looked at, by this one; by the others behind it. */
int number_to_fixed(struct args *args)
{
    char text[NUMBER_FIXED_SIZE];
    double number;
    int digits;
    int rc;

    if (!take_digits(args, 0, &number, &digits, &rc) || digits < 0) {
        return rc;
    }
    if (!isfinite(number)) {
        return give_name(args, number);
    }
    return give_copy(args, text, number_fixed(number, digits, text));
}

int number_to_exponential(struct args *args)
{
    char text[NUMBER_FIXED_SIZE];
    double number;
    int digits;
    int rc;

    if (!take_digits(args, 0, &number, &digits, &rc)) {
        return rc;
    }
    if (!isfinite(number)) {
        return give_name(args, number);
    }
    if (digits < 0) {
        return QP_OK;
    }
    return give_copy(args, text, number_exponential(number, args_has(args, 1) ? digits : -1, text));
}

int number_to_precision(struct args *args)
{
    char text[NUMBER_FIXED_SIZE];
    double number;
    int digits;
    int rc;

    if (!args_has(args, 1)) {
        rc = args_number(args, 0, &number);
        return rc == QP_OK ? give_name(args, number) : rc;
    }
    if (!take_digits(args, 1, &number, &digits, &rc)) {
        return rc;
    }
    if (!isfinite(number)) {
        return give_name(args, number);
    }
    if (digits < 0) {
        return QP_OK;
    }
    return give_copy(args, text, number_precision(number, digits, text));
}
