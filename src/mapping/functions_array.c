/* functions_array.c - {@array...}: functions on arrays, none of which is changed */
#include <math.h>

#include "mapping/functions.h"
#include "mapping/text.h"

/* The first operand as an array; false: it is none, and the result stays undefined. */
static bool take_array(struct args *args, const struct value **out_array, int *out_rc)
{
    *out_rc = args_open(args, 0);
    *out_array = args_operand(args, 0);
    return *out_rc == QP_OK && (*out_array)->kind == VALUE_ARRAY;
}

static int give_part(struct args *args, const struct value *array, size_t first, size_t last)
{
    struct value part;
    int rc = array_begin(args->scope, last - first, &part);

    for (size_t i = first; rc == QP_OK && i < last; i++) {
        part.items[i - first] = array->items[i];
    }
    if (rc != QP_OK) {
        return rc;
    }
    part.count = last - first;
    part.room->used = part.count;
    part.depth = array->depth;
    return give(args, &part);
}

int array_get(struct args *args)
{
    double index = 0;
    int rc = args_open(args, 0);
    const struct value *v = args_operand(args, 0);

    if (rc == QP_OK && args_has(args, 1)) {
        rc = args_number(args, 1, &index);
    }
    if (rc != QP_OK || index != trunc(index)) {
        return rc;
    }
    if (v->kind == VALUE_STRING) {
        return index < 0 || index >= (double)text_units(v->text)
                   ? give_undefined(args)
                   : give_cut(args, v->text, (size_t)index, (size_t)index + 1);
    }
    if (v->kind != VALUE_ARRAY || index < 0 || index >= (double)v->count) {
        return QP_OK;
    }
    return give(args, v->items[(size_t)index]);
}

int array_length(struct args *args)
{
    int rc = args_open(args, 0);
    const struct value *v = args_operand(args, 0);

    if (rc != QP_OK) {
        return rc;
    }
    if (v->kind == VALUE_STRING) {
        return give_integer(args, (int64_t)text_units(v->text));
    }
    return v->kind == VALUE_ARRAY ? give_integer(args, (int64_t)v->count) : QP_OK;
}

static int append_all(struct scope *s, struct value *to, const struct value *v)
{
    int rc = QP_OK;

    if (v->kind != VALUE_ARRAY) {
        return array_append(s, to, v);
    }
    for (size_t i = 0; rc == QP_OK && i < v->count; i++) {
        rc = array_append(s, to, v->items[i]);
    }
    return rc;
}

int array_concat(struct args *args)
{
    const struct value *array;
    struct value joined;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    joined = *array;
    for (size_t i = 1; rc == QP_OK && i < args->count; i++) {
        rc = args_open(args, i);
        if (rc == QP_OK) {
            rc = append_all(args->scope, &joined, &args->operands[i]);
        }
    }
    return rc == QP_OK ? give(args, &joined) : rc;
}

int array_push(struct args *args)
{
    const struct value *array;
    struct value longer;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    longer = *array;
    for (size_t i = 1; rc == QP_OK && i < args->count; i++) {
        rc = array_append(args->scope, &longer, &args->operands[i]);
    }
    return rc == QP_OK ? give(args, &longer) : rc;
}

int array_unshift(struct args *args)
{
    const struct value *array;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    return give_integer(args, (int64_t)(array->count + args->count - 1));
}

static int is_item(struct args *args, const struct value *array, size_t index, bool *out_same)
{
    return operand_same(args->scope, array->items[index], args_operand(args, 1), out_same);
}

int array_index_of(struct args *args)
{
    const struct value *array;
    double from = 0;
    bool same = false;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    rc = args_integer(args, 2, 0, &from);
    for (size_t i = args_position(from, array->count); rc == QP_OK && i < array->count; i++) {
        rc = is_item(args, array, i, &same);
        if (rc == QP_OK && same) {
            return give_integer(args, (int64_t)i);
        }
    }
    return rc == QP_OK ? give_integer(args, -1) : rc;
}

int array_last_index_of(struct args *args)
{
    const struct value *array;
    double from = 0;
    bool same = false;
    double i;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    i = (double)array->count - 1;
    if (args->count > 2) { /* also when it is undefined, which is then 0 */
        rc = args_integer(args, 2, 0, &from);
        i = from < 0 ? from + (double)array->count : from < i ? from : i;
    }
    for (; rc == QP_OK && i >= 0; i--) {
        rc = is_item(args, array, (size_t)i, &same);
        if (rc == QP_OK && same) {
            return give_integer(args, (int64_t)i);
        }
    }
    return rc == QP_OK ? give_integer(args, -1) : rc;
}

static void build_item(struct build *b, const struct value *item)
{
    struct value opened = *item;
    qp_str text = QP_STR("");

    if (b->rc == QP_OK) {
        b->rc = scope_open(b->scope, &opened);
    }
    if (b->rc == QP_OK && opened.kind != VALUE_NULL && opened.kind != VALUE_UNDEFINED) {
        b->rc = operand_text(b->scope, &opened, &text);
    }
    build_add(b, text);
}

int array_join(struct args *args)
{
    struct build b = {.scope = args->scope};
    const struct value *array;
    qp_str separator = QP_STR(",");
    qp_str text;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    if (args_has(args, 1)) {
        rc = args_text(args, 1, &separator);
    }
    for (size_t i = 0; rc == QP_OK && i < array->count && b.rc == QP_OK; i++) {
        if (i > 0) {
            build_add(&b, separator);
        }
        build_item(&b, array->items[i]);
    }
    if (rc == QP_OK) {
        rc = build_done(&b, &text);
    }
    return rc == QP_OK ? give_string(args, text) : rc;
}

int array_pop(struct args *args)
{
    const struct value *array;
    int rc;

    if (!take_array(args, &array, &rc) || array->count == 0) {
        return rc;
    }
    return give(args, array->items[array->count - 1]);
}

int array_shift(struct args *args)
{
    const struct value *array;
    int rc;

    if (!take_array(args, &array, &rc) || array->count == 0) {
        return rc;
    }
    return give(args, array->items[0]);
}

int array_reverse(struct args *args)
{
    const struct value *array;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    rc = give_part(args, array, 0, array->count);
    for (size_t i = 0; rc == QP_OK && i < array->count; i++) {
        args->out->items[i] = array->items[array->count - 1 - i];
    }
    return rc;
}

int array_slice(struct args *args)
{
    const struct value *array;
    size_t from;
    size_t to;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    rc = args_range(args, array->count, &from, &to);
    return rc == QP_OK ? give_part(args, array, from, to) : rc;
}

/* What would be removed. Without a count everything behind is; without anything nothing is. */
int array_splice(struct args *args)
{
    const struct value *array;
    double first;
    double count;
    size_t from;
    double left;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    rc = args_integer(args, 1, 0, &first);
    if (rc != QP_OK) {
        return rc;
    }
    from = args_position(first, array->count);
    left = (double)(array->count - from);
    count = args->count < 2 ? 0 : left;
    if (args->count > 2) {
        rc = args_integer(args, 2, 0, &count);
    }
    if (rc != QP_OK) {
        return rc;
    }
    count = count < 0 ? 0 : count > left ? left : count;
    return give_part(args, array, from, from + (size_t)count);
}

/* -------------------------------------------------------------------------------------- sorting */

/* Numbers, then all else as strings, then what is undefined: that stays last in both orders. */
enum rank { RANK_NUMBER, RANK_TEXT, RANK_UNDEFINED };

struct sorted {
    struct value *item;
    enum rank rank;
    double number;
    qp_str text;
};

static enum rank rank_of(const struct value *v, double *out_number)
{
    bool number = v->kind == VALUE_INT || (v->kind == VALUE_REAL && !isnan(v->real));
    *out_number = v->kind == VALUE_INT ? (double)v->integer : number ? v->real : 0;
    return v->kind == VALUE_UNDEFINED ? RANK_UNDEFINED : number ? RANK_NUMBER : RANK_TEXT;
}

static int compare_defined(const struct sorted *x, const struct sorted *y)
{
    if (x->rank != y->rank) {
        return (int)x->rank - (int)y->rank;
    }
    return x->rank == RANK_NUMBER ? (x->number > y->number) - (x->number < y->number)
                                  : text_compare(x->text, y->text);
}

static int compare_ascending(const void *a, const void *b)
{
    const struct sorted *x = a;
    const struct sorted *y = b;

    if (x->rank == RANK_UNDEFINED || y->rank == RANK_UNDEFINED) {
        return (int)(x->rank == RANK_UNDEFINED) - (int)(y->rank == RANK_UNDEFINED);
    }
    return compare_defined(x, y);
}

static int compare_descending(const void *a, const void *b)
{
    const struct sorted *x = a;
    const struct sorted *y = b;

    if (x->rank == RANK_UNDEFINED || y->rank == RANK_UNDEFINED) {
        return (int)(x->rank == RANK_UNDEFINED) - (int)(y->rank == RANK_UNDEFINED);
    }
    return compare_defined(y, x);
}

/* The strings that the items are sorted by. Each is compared as often as their number has bits. */
static int sort_keys(struct scope *s, const struct value *array, struct sorted *keys,
                     const void **list)
{
    size_t rounds = 1;
    int rc = QP_OK;

    while (array->count >> rounds != 0) {
        rounds++;
    }
    for (size_t i = 0; rc == QP_OK && i < array->count; i++) {
        struct value opened = *array->items[i];

        rc = scope_open(s, &opened);
        if (rc == QP_OK) {
            keys[i] = (struct sorted){.item = array->items[i]};
            keys[i].rank = rank_of(&opened, &keys[i].number);
            rc = operand_text(s, &opened, &keys[i].text);
            rc = rc == QP_OK ? scope_look(s, keys[i].text.n * rounds) : rc;
            list[i] = &keys[i];
        }
    }
    return rc;
}

int array_sort(struct args *args)
{
    const struct value *array;
    struct sorted *keys;
    const void **list;
    qp_str order = QP_NONE;
    bool descending;
    int rc;

    if (!take_array(args, &array, &rc)) {
        return rc;
    }
    QP_TRY(args->count > 1 ? args_text(args, 1, &order) : QP_OK);
    descending = str_equal(order, QP_STR("DESCENDING"));
    keys = scope_room(args->scope, array->count * (sizeof(*keys) + 2 * sizeof(*list)));
    if (keys == NULL) {
        return args->scope->rc;
    }
    list = (const void **)(void *)(keys + array->count);
    rc = sort_keys(args->scope, array, keys, list);
    if (rc == QP_OK) {
        value_sort(list, list + array->count, array->count,
                   descending ? compare_descending : compare_ascending);
        rc = give_part(args, array, 0, array->count);
    }
    for (size_t i = 0; rc == QP_OK && i < array->count; i++) {
        args->out->items[i] = ((const struct sorted *)list[i])->item;
    }
    return rc;
}
