/* functions_object.c - {@object...}: functions on objects, none of which is changed */
#include <math.h>
#include <stdio.h>

#include "mapping/functions.h"
#include "mapping/text.h"

/* The first operand opened; false: it is null or undefined, of which there is nothing to ask. */
static bool take_thing(struct args *args, const struct value **out_value, int *out_rc)
{
    *out_rc = args_open(args, 0);
    *out_value = args_operand(args, 0);
    return *out_rc == QP_OK && (*out_value)->kind != VALUE_UNDEFINED &&
           (*out_value)->kind != VALUE_NULL;
}

static int take_index_key(struct scope *s, size_t index, qp_str *out_key)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%zu", index);
    char *p = scope_text(s, (size_t)n);

    if (p == NULL) {
        return s->rc;
    }
    memcpy(p, text, (size_t)n);
    *out_key = (qp_str){p, (size_t)n};
    return QP_OK;
}

static int add_member(struct scope *s, struct value *object, size_t index, const struct value *item)
{
    qp_str key;
    int rc = take_index_key(s, index, &key);

    return rc == QP_OK ? object_append(s, object, key, item) : rc;
}

static int fields_of_items(struct scope *s, const struct value *array, struct value *object)
{
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < array->count; i++) {
        rc = add_member(s, object, i, array->items[i]);
    }
    return rc;
}

static int fields_of_units(struct scope *s, qp_str text, struct value *object)
{
    size_t unit = 0;
    int rc = QP_OK;

    while (rc == QP_OK && text.n > 0) {
        size_t size = text_size(text);
        qp_str shown = size < 4 ? (qp_str){text.p, size} : QP_STR(TEXT_REPLACEMENT);
        struct value item = {.kind = VALUE_STRING, .text = shown};

        rc = add_member(s, object, unit++, &item);
        if (rc == QP_OK && size == 4) { /* two units, and neither is a character */
            rc = add_member(s, object, unit++, &item);
        }
        text = (qp_str){text.p + size, text.n - size};
    }
    return rc;
}

/* What a value has of its own, as an object: the items of an array and the units of a string by their indices. */
static int own_members(struct scope *s, const struct value *v, struct value *out_object)
{
    int rc;

    if (v->kind == VALUE_OBJECT) {
        *out_object = *v;
        return QP_OK;
    }
    rc = object_begin(s, 0, out_object);
    if (rc == QP_OK && v->kind == VALUE_ARRAY) {
        rc = fields_of_items(s, v, out_object);
    } else if (rc == QP_OK && v->kind == VALUE_STRING) {
        rc = fields_of_units(s, v->text, out_object);
    }
    return rc;
}

/* The length that arrays and strings have. */
static bool has_length(const struct value *v, int64_t *out_length)
{
    if (v->kind == VALUE_STRING) {
        *out_length = (int64_t)text_units(v->text);
    } else if (v->kind == VALUE_ARRAY) {
        *out_length = (int64_t)v->count;
    }
    return v->kind == VALUE_STRING || v->kind == VALUE_ARRAY;
}

/* The operand's value of a key; *out_found says whether there is one. */
static int find_member(struct args *args, const struct value *v, size_t key_index,
                       struct value *out_value, bool *out_found)
{
    struct value members;
    const struct value *found;
    int64_t length = 0;
    qp_str key;
    int rc = args_text(args, key_index, &key);

    *out_found = false;
    if (rc == QP_OK && str_equal(key, QP_STR("length")) && has_length(v, &length)) {
        *out_value = (struct value){.kind = VALUE_INT, .integer = length};
        *out_found = true;
        return QP_OK;
    }
    if (rc == QP_OK) {
        rc = own_members(args->scope, v, &members);
    }
    if (rc != QP_OK) {
        return rc;
    }
    found = value_get(&members, key);
    *out_found = found != NULL;
    if (found != NULL) {
        *out_value = *found;
    }
    return QP_OK;
}

/* An object that has not been looked into is searched, not opened. */
int object_get(struct args *args)
{
    const struct value *v = args_operand(args, 0);
    struct value found = {.kind = VALUE_UNDEFINED};
    qp_str key;
    bool any;
    int rc = v->kind == VALUE_RAW ? args_text(args, 1, &key) : QP_OK;

    if (rc == QP_OK && v->kind == VALUE_RAW) {
        found = value_inside(v, &key, 1, &args->scope->looked);
    }
    if (rc != QP_OK || found.kind != VALUE_UNDEFINED) {
        return rc == QP_OK ? give(args, &found) : rc;
    }
    if (!take_thing(args, &v, &rc)) {
        return rc;
    }
    rc = find_member(args, v, 1, &found, &any);
    return rc == QP_OK && any ? give(args, &found) : rc;
}

int object_set(struct args *args)
{
    const struct value *v;
    struct value longer;
    qp_str key;
    int rc;

    if (!take_thing(args, &v, &rc) || v->kind != VALUE_OBJECT) {
        return rc;
    }
    longer = *v;
    rc = args_text(args, 1, &key);
    if (rc == QP_OK) {
        rc = object_put(args->scope, &longer, key, args_operand(args, 2));
    }
    return rc == QP_OK ? give(args, &longer) : rc;
}

int object_create(struct args *args)
{
    struct value made;
    qp_str key;
    int rc = object_begin(args->scope, args->count / 2, &made);

    for (size_t i = 0; rc == QP_OK && i < args->count; i += 2) {
        rc = args_text(args, i, &key);
        if (rc == QP_OK) {
            rc = object_put(args->scope, &made, key, args_operand(args, i + 1));
        }
    }
    return rc == QP_OK ? give(args, &made) : rc;
}

int object_assign(struct args *args)
{
    const struct value *v;
    struct value made;
    struct value members;
    int rc;

    if (!take_thing(args, &v, &rc) || v->kind != VALUE_OBJECT) {
        return rc;
    }
    made = *v;
    for (size_t i = 1; rc == QP_OK && i < args->count; i++) {
        rc = args_open(args, i);
        if (rc == QP_OK) {
            rc = own_members(args->scope, &args->operands[i], &members);
        }
        for (size_t k = 0; rc == QP_OK && k < members.count; k++) {
            rc = object_put(args->scope, &made, members.members[k].key, members.members[k].value);
        }
    }
    return rc == QP_OK ? give(args, &made) : rc;
}

/* ---------------------------------------------------------------------------------------- lists */

static int make_pair(struct scope *s, const struct value *key, const struct value *item,
                     struct value *out_pair)
{
    int rc = array_begin(s, 2, out_pair);

    if (rc == QP_OK) {
        rc = array_append(s, out_pair, key);
    }
    return rc == QP_OK ? array_append(s, out_pair, item) : rc;
}

enum listed { LIST_KEYS, LIST_VALUES, LIST_ENTRIES };

static int append_listed(struct scope *s, struct value *list, const struct member *f,
                         enum listed listed)
{
    struct value key = {.kind = VALUE_STRING, .text = f->key};
    struct value pair;
    int rc;

    if (listed == LIST_ENTRIES) {
        rc = make_pair(s, &key, f->value, &pair);
        return rc == QP_OK ? array_append(s, list, &pair) : rc;
    }
    return array_append(s, list, listed == LIST_KEYS ? &key : f->value);
}

static int give_list(struct args *args, enum listed listed)
{
    const struct value *v;
    struct value members;
    struct value list;
    int rc;

    if (!take_thing(args, &v, &rc)) {
        return rc;
    }
    rc = own_members(args->scope, v, &members);
    if (rc == QP_OK) {
        rc = array_begin(args->scope, members.count, &list);
    }
    for (size_t i = 0; rc == QP_OK && i < members.count; i++) {
        rc = append_listed(args->scope, &list, &members.members[i], listed);
    }
    return rc == QP_OK ? give(args, &list) : rc;
}

int object_keys(struct args *args)
{
    return give_list(args, LIST_KEYS);
}

int object_values(struct args *args)
{
    return give_list(args, LIST_VALUES);
}

int object_entries(struct args *args)
{
    return give_list(args, LIST_ENTRIES);
}

int object_names(struct args *args)
{
    struct value length = {.kind = VALUE_STRING, .text = QP_STR("length")};
    int64_t unused;
    int rc = give_list(args, LIST_KEYS);

    if (rc == QP_OK && has_length(args_operand(args, 0), &unused)) {
        rc = array_append(args->scope, args->out, &length);
    }
    return rc;
}

int object_symbols(struct args *args)
{
    const struct value *v;
    int rc;

    return take_thing(args, &v, &rc) ? array_begin(args->scope, 0, args->out) : rc;
}

static int put_pair(struct scope *s, struct value *object, const struct value *item)
{
    struct value pair = *item;
    struct value key = {.kind = VALUE_UNDEFINED};
    struct value undefined = {.kind = VALUE_UNDEFINED};
    qp_str text;
    int rc = scope_open(s, &pair);

    if (rc == QP_OK && pair.kind == VALUE_ARRAY && pair.count > 0) {
        key = *pair.items[0];
        rc = scope_open(s, &key);
    }
    if (rc == QP_OK) {
        rc = operand_text(s, &key, &text);
    }
    if (rc != QP_OK) {
        return rc;
    }
    return object_put(s, object, text,
                      pair.kind == VALUE_ARRAY && pair.count > 1 ? pair.items[1] : &undefined);
}

static bool is_pair(const struct value *item)
{
    return item->kind == VALUE_ARRAY || item->kind == VALUE_RAW;
}

int object_from_entries(struct args *args)
{
    const struct value *v;
    struct value made;
    int rc;

    if (!take_thing(args, &v, &rc) || v->kind != VALUE_ARRAY) {
        return rc;
    }
    rc = object_begin(args->scope, v->count, &made);
    for (size_t i = 0; rc == QP_OK && i < v->count; i++) {
        struct value pair = *v->items[i];

        rc = scope_open(args->scope, &pair);
        if (rc == QP_OK && !is_pair(&pair)) {
            return QP_OK; /* where ECMAScript throws */
        }
        rc = rc == QP_OK ? put_pair(args->scope, &made, &pair) : rc;
    }
    return rc == QP_OK ? give(args, &made) : rc;
}

/* ----------------------------------------------------------------------------------- properties */

static bool is_thing(const struct value *v)
{
    return v->kind == VALUE_OBJECT || v->kind == VALUE_ARRAY || v->kind == VALUE_DATE ||
           v->kind == VALUE_RAW;
}

static int put_truth(struct scope *s, struct value *object, const char *key)
{
    return object_put(s, object, str_from(key), &(struct value){.kind = VALUE_BOOL, .truth = true});
}

int object_descriptor(struct args *args)
{
    const struct value *v;
    struct value found;
    struct value made;
    bool any = false;
    int rc;

    if (!take_thing(args, &v, &rc)) {
        return rc;
    }
    rc = find_member(args, v, 1, &found, &any);
    if (rc != QP_OK || !any) {
        return rc;
    }
    rc = object_begin(args->scope, 4, &made);
    if (rc == QP_OK) {
        rc = object_put(args->scope, &made, QP_STR("value"), &found);
    }
    rc = rc == QP_OK ? put_truth(args->scope, &made, "writable") : rc;
    rc = rc == QP_OK ? put_truth(args->scope, &made, "enumerable") : rc;
    rc = rc == QP_OK ? put_truth(args->scope, &made, "configurable") : rc;
    return rc == QP_OK ? give(args, &made) : rc;
}

int object_define(struct args *args)
{
    static const qp_str path[] = {{"value", 5}};
    const struct value *v;
    struct value made;
    struct value item;
    qp_str key;
    int rc;

    if (!take_thing(args, &v, &rc) || v->kind != VALUE_OBJECT || !is_thing(args_operand(args, 2))) {
        return rc;
    }
    made = *v;
    item = value_inside(args_operand(args, 2), path, 1, &args->scope->looked);
    rc = args_text(args, 1, &key);
    if (rc == QP_OK) {
        rc = object_put(args->scope, &made, key, &item);
    }
    return rc == QP_OK ? give(args, &made) : rc;
}

static bool is_negative_zero(const struct value *v)
{
    return v->kind == VALUE_REAL && v->real == 0 && signbit(v->real);
}

static bool is_nan(const struct value *v)
{
    return v->kind == VALUE_REAL && isnan(v->real);
}

int object_is(struct args *args)
{
    const struct value *a = args_operand(args, 0);
    const struct value *b = args_operand(args, 1);
    bool same = false;
    int rc;

    if (is_nan(a) && is_nan(b)) {
        return give_bool(args, true);
    }
    rc = operand_same(args->scope, a, b, &same);
    return rc == QP_OK ? give_bool(args, same && is_negative_zero(a) == is_negative_zero(b)) : rc;
}

int object_same(struct args *args)
{
    return give(args, args_operand(args, 0));
}

int object_is_fixed(struct args *args)
{
    return give_bool(args, !is_thing(args_operand(args, 0)));
}

int object_is_extensible(struct args *args)
{
    return give_bool(args, is_thing(args_operand(args, 0)));
}

int object_has(struct args *args)
{
    const struct value *v;
    struct value found;
    bool any = false;
    int rc;

    if (!take_thing(args, &v, &rc)) {
        return rc;
    }
    rc = find_member(args, v, 1, &found, &any);
    return rc == QP_OK ? give_bool(args, any) : rc;
}

int object_is_enumerable(struct args *args)
{
    int64_t unused;
    qp_str key;
    int rc = args_text(args, 1, &key);

    if (rc != QP_OK) {
        return rc;
    }
    rc = object_has(args);
    if (rc == QP_OK && str_equal(key, QP_STR("length")) &&
        has_length(args_operand(args, 0), &unused)) {
        return give_bool(args, false);
    }
    return rc;
}

int object_is_prototype(struct args *args)
{
    return give_bool(args, false);
}
