/* value_same.c - whether two values are the same, by what is in them; and the order of things (see value.h)
 *
 * Objects are compared by their keys in order, so that it takes n log n whatever the order of the text.
 */
#include <math.h>

#include "mapping/value.h"

static void merge(const void **from, const void **to, size_t first, size_t middle, size_t last,
                  int (*compare)(const void *a, const void *b))
{
    size_t left = first;
    size_t right = middle;

    for (size_t i = first; i < last; i++) {
        bool take_left = left < middle && (right >= last || compare(from[left], from[right]) <= 0);

        to[i] = take_left ? from[left++] : from[right++];
    }
}

void value_sort(const void **items, const void **spare, size_t count,
                int (*compare)(const void *a, const void *b))
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            size_t middle = first + width < count ? first + width : count;
            size_t last = first + 2 * width < count ? first + 2 * width : count;

            merge(items, spare, first, middle, last, compare);
        }
        memcpy(items, spare, count * sizeof(*items));
    }
}

static bool same_number(const struct value *x, const struct value *y)
{
    if (x->kind == y->kind) {
        return x->kind == VALUE_INT ? x->integer == y->integer : x->real == y->real;
    }
    if (x->kind == VALUE_REAL) {
        return same_number(y, x);
    }
    /* A double of 2^63 would overflow the cast; every smaller one that is an integer does not. */
    return y->real >= -9223372036854775808.0 && y->real < 9223372036854775808.0 &&
           trunc(y->real) == y->real && (int64_t)y->real == x->integer;
}

/* Memory for a comparison, taken off what is left. */
static bool is_enough(size_t *left, size_t count, size_t each)
{
    if (count > *left / each) {
        return false;
    }
    *left -= count * each;
    return true;
}

static int same_items(struct arena *a, size_t *left, const struct value *x, const struct value *y,
                      bool *out_same)
{
    bool same = x->count == y->count;
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && same && i < x->count; i++) {
        rc = value_same_within(a, left, x->items[i], y->items[i], &same);
    }
    *out_same = same;
    return rc;
}

static int compare_keys(const void *a, const void *b)
{
    return str_compare(((const struct member *)a)->key, ((const struct member *)b)->key);
}

/* Pointers to the members, by their keys. */
static int sorted_members(struct arena *a, size_t *left, const struct value *v,
                          const struct member ***out_members)
{
    const void **list;

    if (!is_enough(left, v->count, 2 * sizeof(*list))) {
        return QP_E_LIMIT;
    }
    list = arena_room(a, 2 * v->count * sizeof(*list));
    if (list == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < v->count; i++) {
        list[i] = &v->members[i];
    }
    value_sort(list, list + v->count, v->count, compare_keys);
    *out_members = (const struct member **)list;
    return QP_OK;
}

static int same_members(struct arena *a, size_t *left, const struct value *x, const struct value *y,
                        bool *out_same)
{
    const struct member **these = NULL;
    const struct member **those = NULL;
    bool same = x->count == y->count;
    int rc = QP_OK;

    if (same) {
        rc = sorted_members(a, left, x, &these);
    }
    if (same && rc == QP_OK) {
        rc = sorted_members(a, left, y, &those);
    }
    for (size_t i = 0; rc == QP_OK && same && i < x->count; i++) {
        same = str_equal(these[i]->key, those[i]->key);
        if (same) {
            rc = value_same_within(a, left, these[i]->value, those[i]->value, &same);
        }
    }
    *out_same = same;
    return rc;
}

static bool is_number(const struct value *v)
{
    return v->kind == VALUE_INT || v->kind == VALUE_REAL;
}

int value_same(struct arena *a, const struct value *x, const struct value *y, bool *out_same)
{
    size_t left = LIMIT_MAPPING_SIZE;

    return value_same_within(a, &left, x, y, out_same);
}

static int open_within(struct arena *a, size_t *left, struct value *v)
{
    int rc;

    if (v->kind != VALUE_RAW) {
        return QP_OK;
    }
    rc = value_open(a, v);
    if (rc == QP_OK && !is_enough(left, v->count, sizeof(struct value) + sizeof(struct member))) {
        rc = QP_E_LIMIT;
    }
    return rc;
}

/* Values that were made may hold one and the same array many times, on every level: so what is gone over is counted, and not
 * only what is opened for it. */
static bool may_compare(size_t *left, const struct value *x, const struct value *y)
{
    if (x->kind == VALUE_STRING) {
        return x->text.n != y->text.n || is_enough(left, x->text.n / 64, 1);
    }
    return (x->kind != VALUE_ARRAY && x->kind != VALUE_OBJECT) ||
           is_enough(left, x->count + 1, sizeof(void *));
}

/* Recursion is bounded by the depth of both values. */
int value_same_within(struct arena *a, size_t *left, const struct value *x, const struct value *y,
                      bool *out_same)
{
    struct value one = *x;
    struct value two = *y;
    int rc = open_within(a, left, &one);

    if (rc == QP_OK) {
        rc = open_within(a, left, &two);
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (is_number(&one) && is_number(&two)) {
        *out_same = same_number(&one, &two);
        return QP_OK;
    }
    if (one.kind != two.kind) {
        *out_same = false;
        return QP_OK;
    }
    if (!may_compare(left, &one, &two)) {
        return QP_E_LIMIT;
    }
    switch (one.kind) {
    case VALUE_ARRAY:
        return same_items(a, left, &one, &two, out_same);
    case VALUE_OBJECT:
        return same_members(a, left, &one, &two, out_same);
    case VALUE_STRING:
        *out_same = str_equal(one.text, two.text);
        break;
    case VALUE_BOOL:
        *out_same = one.truth == two.truth;
        break;
    case VALUE_DATE:
        *out_same = one.real == two.real;
        break;
    default: /* undefined and null; numbers and raw ones are none here */
        *out_same = true;
        break;
    }
    return QP_OK;
}
