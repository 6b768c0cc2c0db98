/* int.c - arithmetic that says when it does not fit
 *
 * Sizes come from input and from files, and a sum that wraps is a short buffer.
 */
#include "base/base.h"

bool size_add(size_t a, size_t b, size_t *out_sum)
{
    size_t sum;

    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out_sum = sum;
    return true;
}

bool size_mul(size_t a, size_t b, size_t *out_product)
{
    size_t product;

    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out_product = product;
    return true;
}

bool i64_add(int64_t a, int64_t b, int64_t *out_sum)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out_sum = sum;
    return true;
}
