/* number.c - decimal digits of doubles, and doubles of decimal digits (see number.h)
 *
 * The C library converts exactly in both directions, but with the decimal point of the locale and with ties to even. So
 * it is asked for digits in the form d.ddde+x, of which only the digits and the exponent are read, and it is given
 * digits in the form ddde+x, which has no point. What is between them, a struct decimal, is ours.
 */
#include "mapping/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mapping/text.h"

/* No double has more significant digits than 767; what is read needs as many, and one that says whether more follow. */
#define DECIMAL_DIGITS 780

/* digits[0] . digits[1] digits[2] ... times ten to the exponent; no digits: zero. */
struct decimal {
    int count;
    int exponent;
    char digits[DECIMAL_DIGITS + 2];
};

static void decimal_print(struct decimal *d, double number, int digits);
static void decimal_shortest(struct decimal *d, double number);
static void decimal_round(struct decimal *d, int keep);
static double decimal_value(const struct decimal *d);
static size_t put_fixed(const struct decimal *d, int fraction, char *out);
static size_t put_exponential(const struct decimal *d, int digits, char *out);
static bool take_decimal(qp_str text, double *out_number, size_t *out_used);

/* ------------------------------------------------------------------------------------- printing */

static size_t put_text(char *out, const char *text)
{
    size_t n = strlen(text);

    memcpy(out, text, n);
    return n;
}

size_t number_format(double number, char out_text[NUMBER_TEXT_SIZE])
{
    struct decimal d;
    size_t n = 0;

    if (isnan(number)) {
        return put_text(out_text, "NaN");
    }
    if (number < 0) {
        out_text[n++] = '-';
        number = -number;
    }
    if (isinf(number)) {
        return n + put_text(out_text + n, "Infinity");
    }
    decimal_shortest(&d, number);
    if (d.count == 0 || (d.exponent >= -6 && d.exponent <= 20)) {
        int fraction = d.count - 1 - d.exponent;

        return n + put_fixed(&d, d.count > 0 && fraction > 0 ? fraction : 0, out_text + n);
    }
    return n + put_exponential(&d, d.count, out_text + n);
}

size_t number_fixed(double number, int digits, char out_text[NUMBER_FIXED_SIZE])
{
    struct decimal d;
    size_t n = 0;

    QP_ASSERT(isfinite(number) && digits >= 0 && digits <= NUMBER_DIGITS);
    if (fabs(number) >= 1e21) {
        return number_format(number, out_text);
    }
    if (number < 0) {
        out_text[n++] = '-';
    }
    decimal_print(&d, fabs(number), DECIMAL_DIGITS);
    decimal_round(&d, d.exponent + 1 + digits);
    return n + put_fixed(&d, digits, out_text + n);
}

size_t number_precision(double number, int digits, char out_text[NUMBER_FIXED_SIZE])
{
    struct decimal d;
    size_t n = 0;

    QP_ASSERT(isfinite(number) && digits >= 1 && digits <= NUMBER_DIGITS);
    if (number < 0) {
        out_text[n++] = '-';
    }
    decimal_print(&d, fabs(number), DECIMAL_DIGITS);
    decimal_round(&d, digits);
    if (d.exponent < -6 || d.exponent >= digits) {
        return n + put_exponential(&d, digits, out_text + n);
    }
    return n + put_fixed(&d, digits - 1 - d.exponent, out_text + n);
}

size_t number_exponential(double number, int digits, char out_text[NUMBER_FIXED_SIZE])
{
    struct decimal d;
    size_t n = 0;

    QP_ASSERT(isfinite(number) && digits >= -1 && digits <= NUMBER_DIGITS);
    if (number < 0) {
        out_text[n++] = '-';
    }
    if (digits < 0) {
        decimal_shortest(&d, fabs(number));
        digits = d.count > 0 ? d.count - 1 : 0;
    } else {
        decimal_print(&d, fabs(number), DECIMAL_DIGITS);
        decimal_round(&d, digits + 1);
    }
    return n + put_exponential(&d, digits + 1, out_text + n);
}

/* The digit that stands for ten to the power of `place`. */
static char digit_at(const struct decimal *d, int place)
{
    int index = d->exponent - place;

    return index >= 0 && index < d->count ? d->digits[index] : '0';
}

static size_t put_fixed(const struct decimal *d, int fraction, char *out)
{
    size_t n = 0;

    for (int place = d->exponent > 0 ? d->exponent : 0; place >= 0; place--) {
        out[n++] = digit_at(d, place);
    }
    if (fraction > 0) {
        out[n++] = '.';
    }
    for (int place = -1; place >= -fraction; place--) {
        out[n++] = digit_at(d, place);
    }
    return n;
}

static size_t put_exponential(const struct decimal *d, int digits, char *out)
{
    size_t n = 0;

    for (int i = 0; i < digits; i++) {
        out[n++] = digit_at(d, d->exponent - i);
        if (i == 0 && digits > 1) {
            out[n++] = '.';
        }
    }
    return n + (size_t)snprintf(out + n, 8, "e%+d", d->exponent);
}

/* --------------------------------------------------------------------------------------- digits */

/* The number, which is not negative, rounded by the C library to so many digits; exact when there are enough. */
static void decimal_print(struct decimal *d, double number, int digits)
{
    char text[DECIMAL_DIGITS + 32];
    const char *p = text;

    d->count = 0;
    d->exponent = 0;
    if (number == 0) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*e", digits - 1, number);
    for (; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') { /* and not the locale's decimal point */
            d->digits[d->count++] = *p;
        }
    }
    d->exponent = (int)strtol(p + 1, NULL, 10);
    while (d->count > 0 && d->digits[d->count - 1] == '0') {
        d->count--;
    }
}

/* One more in the last digit. */
static void decimal_increment(struct decimal *d)
{
    int last = d->count - 1;

    while (last >= 0 && d->digits[last] == '9') {
        last--;
    }
    if (last < 0) {
        d->digits[0] = '1';
        d->count = 1;
        d->exponent++;
        return;
    }
    d->digits[last]++;
    d->count = last + 1;
}

/* Keeps so many digits; half of a unit goes up. */
static void decimal_round(struct decimal *d, int keep)
{
    bool up;

    if (keep >= d->count) {
        return;
    }
    up = keep >= 0 && d->digits[keep] >= '5';
    d->count = keep > 0 ? keep : 0;
    if (up) {
        decimal_increment(d);
    }
    while (d->count > 0 && d->digits[d->count - 1] == '0') {
        d->count--;
    }
    if (d->count == 0) {
        d->exponent = 0;
    }
}

static double decimal_value(const struct decimal *d)
{
    char text[DECIMAL_DIGITS + 32];

    if (d->count == 0) {
        return 0;
    }
    (void)snprintf(text, sizeof(text), "%.*se%d", d->count, d->digits,
                   d->exponent - (d->count - 1));
    return strtod(text, NULL);
}

/* Whether the number has a name of so many digits. The nearest one is not always inside of the number's interval, which
 * at a power of two reaches further up than down: then the next one above may be. */
static bool has_digits(struct decimal *d, double number, int digits)
{
    decimal_print(d, number, digits);
    if (decimal_value(d) == number) {
        return true;
    }
    if (d->count == digits) {
        decimal_increment(d);
    }
    return decimal_value(d) == number;
}

/* A decimal of up to 15 digits survives the way through a normal double; 17 always do. Denormal numbers have fewer bits:
 * for them the search begins at one digit. */
static void decimal_shortest(struct decimal *d, double number)
{
    int digits = number < DBL_MIN ? 1 : 15;

    while (digits < 17 && !has_digits(d, number, digits)) {
        digits++;
    }
    if (digits == 17) {
        decimal_print(d, number, 17);
    }
}

/* -------------------------------------------------------------------------------------- reading */

static qp_str after(qp_str text, size_t count)
{
    return (qp_str){text.p + count, text.n - count};
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 36;
}

/* Digits of a radix. Those of ten are correctly rounded; others are exact up to 2^53, and very near behind it. */
static double take_radix(qp_str text, int radix, size_t *out_used)
{
    long double sum = 0;
    double number = 0;
    size_t n = 0;

    while (n < text.n && digit_value(text.p[n]) < radix) {
        sum = sum * radix + digit_value(text.p[n]);
        n++;
    }
    *out_used = n;
    if (radix == 10 && n > 0) {
        (void)take_decimal((qp_str){text.p, n}, &number, &(size_t){0});
        return number;
    }
    return (double)sum;
}

/* 16, 8 or 2 for 0x, 0o, 0b; 0 for none. */
static int radix_of(qp_str text)
{
    if (text.n < 2 || text.p[0] != '0') {
        return 0;
    }
    switch (text.p[1]) {
    case 'x':
    case 'X':
        return 16;
    case 'o':
    case 'O':
        return 8;
    case 'b':
    case 'B':
        return 2;
    default:
        return 0;
    }
}

double number_of(qp_str text)
{
    qp_str s = text_trim(text, true, true);
    int radix = radix_of(s);
    double number = 0;
    size_t used = 0;

    if (s.n == 0) {
        return 0;
    }
    if (radix != 0) {
        s = after(s, 2);
        number = take_radix(s, radix, &used);
        return used > 0 && used == s.n ? number : NAN;
    }
    return take_decimal(s, &number, &used) && used == s.n ? number : NAN;
}

double number_prefix(qp_str text)
{
    double number = 0;
    size_t used = 0;

    return take_decimal(text_trim(text, true, false), &number, &used) ? number : NAN;
}

double number_integer_prefix(qp_str text, int32_t radix)
{
    qp_str s = text_trim(text, true, false);
    bool negative = s.n > 0 && s.p[0] == '-';
    double number;
    size_t used;

    if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+')) {
        s = after(s, 1);
    }
    if (radix != 0 && (radix < 2 || radix > 36)) {
        return NAN;
    }
    if ((radix == 0 || radix == 16) && radix_of(s) == 16) {
        s = after(s, 2);
        radix = 16;
    }
    number = take_radix(s, radix == 0 ? 10 : radix, &used);
    if (used == 0) {
        return NAN;
    }
    return negative ? -number : number;
}

/* What has been read of the digits of a number. */
struct reader {
    struct decimal d;
    int64_t
        whole; /* digits before the point, without leading zeros; less than 0: zeros behind it */
    bool point;
    bool any;
    bool more; /* what did not fit was not all zeros */
};

static void read_digit(struct reader *r, char digit)
{
    r->any = true;
    if (r->d.count == 0 && digit == '0') {
        r->whole -= r->point;
        return;
    }
    r->whole += !r->point;
    if (r->d.count < DECIMAL_DIGITS) {
        r->d.digits[r->d.count++] = digit;
    } else {
        r->more = r->more || digit != '0';
    }
}

static size_t read_digits(struct reader *r, qp_str s)
{
    size_t n = 0;

    while (n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || (s.p[n] == '.' && !r->point))) {
        if (s.p[n] == '.') {
            r->point = true;
        } else {
            read_digit(r, s.p[n]);
        }
        n++;
    }
    return n;
}

/* The exponent behind the digits, when there is one. More than any double has is as good as all of it. */
static size_t read_exponent(qp_str s, int64_t *out_exponent)
{
    bool negative = s.n > 1 && s.p[1] == '-';
    size_t n = s.n > 1 && (s.p[1] == '-' || s.p[1] == '+') ? 2 : 1;
    size_t first = n;
    int64_t exponent = 0;

    if (s.n == 0 || (s.p[0] != 'e' && s.p[0] != 'E')) {
        return 0;
    }
    for (; n < s.n && s.p[n] >= '0' && s.p[n] <= '9'; n++) {
        exponent = exponent < INT32_MAX ? exponent * 10 + (s.p[n] - '0') : exponent;
    }
    if (n == first) {
        return 0;
    }
    *out_exponent = negative ? -exponent : exponent;
    return n;
}

static double read_value(struct reader *r, int64_t exponent)
{
    int64_t power = exponent + r->whole - 1;

    if (r->more) {
        r->d.digits[r->d.count++] = '1';
    }
    if (r->d.count > 0 && power > 400) {
        return INFINITY;
    }
    if (power < -400) {
        return 0;
    }
    r->d.exponent = (int)power;
    return decimal_value(&r->d);
}

/* A decimal number, with sign and exponent, at the beginning of the text. */
static bool take_decimal(qp_str text, double *out_number, size_t *out_used)
{
    struct reader r = {.whole = 0};
    bool negative = text.n > 0 && text.p[0] == '-';
    size_t sign = text.n > 0 && (text.p[0] == '-' || text.p[0] == '+');
    qp_str s = after(text, sign);
    int64_t exponent = 0;
    double number;
    size_t n;

    if (s.n >= 8 && memcmp(s.p, "Infinity", 8) == 0) {
        n = 8;
        number = INFINITY;
    } else {
        n = read_digits(&r, s);
        if (!r.any) {
            return false;
        }
        n += read_exponent(after(s, n), &exponent);
        number = read_value(&r, exponent);
    }
    *out_number = negative ? -number : number;
    *out_used = sign + n;
    return true;
}
