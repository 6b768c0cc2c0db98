/* number.h - numbers as ECMAScript reads and prints them
 *
 * Printing is exact: the shortest digits that read back as the same double, or as many digits as are asked for, of the
 * number's exact value, ties going up. Reading is correctly rounded. Neither knows a locale. Pure and thread-safe.
 */
#ifndef QP_MAPPING_NUMBER_H
#define QP_MAPPING_NUMBER_H

#include "base/base.h"

/* Up to here every integer is a double. */
#define NUMBER_EXACT (INT64_C(1) << 53)

/* As String(number) has it; NaN and the infinities too. Returns the length, nothing is put behind it. */
#define NUMBER_TEXT_SIZE 32
size_t number_format(double number, char out_text[NUMBER_TEXT_SIZE]);

/* toFixed, toPrecision and toExponential; `digits` are 0 to 100, of a precision 1 to 100. The number is finite.
 * number_exponential with -1: as many digits as are needed. */
#define NUMBER_DIGITS 100
#define NUMBER_FIXED_SIZE (NUMBER_DIGITS + 32)
size_t number_fixed(double number, int digits, char out_text[NUMBER_FIXED_SIZE]);
size_t number_precision(double number, int digits, char out_text[NUMBER_FIXED_SIZE]);
size_t number_exponential(double number, int digits, char out_text[NUMBER_FIXED_SIZE]);

/* As Number(text) has it: NaN when the whole of it is no number. */
double number_of(qp_str text);
/* As parseFloat and parseInt have it: the longest beginning that is a number. A radix of 0 is chosen by the text. */
double number_prefix(qp_str text);
double number_integer_prefix(qp_str text, int32_t radix);

#endif
