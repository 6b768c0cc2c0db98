/* operand.c - conversions and comparisons of ECMAScript, arrays and objects that grow (see operand.h) */
#include "mapping/operand.h"

#include <math.h>
#include <stdio.h>

#include "mapping/date.h"
#include "mapping/text.h"

#define ROOM_FIRST 8

static void build_value(struct build *b, const struct value *v);

/* --------------------------------------------------------------------------------------- memory */

int scope_refuse(struct scope *s, const char *limit, int64_t value)
{
    (void)snprintf(s->why, sizeof s->why, "a mapping is over its limit: %s is %lld", limit,
                   (long long)value);
    s->error = s->why;
    s->limit = limit;
    s->rc = QP_E_LIMIT;
    return QP_E_LIMIT;
}

int scope_look(struct scope *s, size_t size)
{
    s->looked += size;
    return s->looked > LIMIT_MAPPING_LOOK_SIZE ? SCOPE_REFUSE(s, LIMIT_MAPPING_LOOK_SIZE) : QP_OK;
}

static bool count_made(struct scope *s, size_t size)
{
    if (size > LIMIT_MAPPING_SIZE - s->made) {
        (void)SCOPE_REFUSE(s, LIMIT_MAPPING_SIZE);
        return false;
    }
    s->made += size;
    return true;
}

void *scope_room(struct scope *s, size_t size)
{
    void *room;

    if (!count_made(s, size)) {
        return NULL;
    }
    room = arena_room(s->arena, size);
    if (room == NULL) {
        s->rc = QP_E_NOMEM;
    }
    return room;
}

char *scope_text(struct scope *s, size_t size)
{
    char *room;

    if (size > LIMIT_JSON_STRING_SIZE) {
        (void)SCOPE_REFUSE(s, LIMIT_JSON_STRING_SIZE);
        return NULL;
    }
    if (!count_made(s, size)) {
        return NULL;
    }
    room = arena_bytes(s->arena, size);
    if (room == NULL) {
        s->rc = QP_E_NOMEM;
    }
    return room;
}

int scope_open(struct scope *s, struct value *v)
{
    qp_str json = v->text;
    bool copied;
    int rc;

    if (v->kind != VALUE_RAW) {
        return QP_OK;
    }
    rc = value_open(s->arena, v);
    if (rc == QP_E_LIMIT) {
        return SCOPE_REFUSE(s, LIMIT_MAPPING_SIZE);
    }
    if (rc != QP_OK) {
        return rc;
    }
    /* A string with escapes was copied; one without stands where it stood. */
    copied = v->kind == VALUE_STRING && (v->text.p < json.p || v->text.p > json.p + json.n);
    return count_made(s, v->count * (sizeof(struct value) + sizeof(struct member)) +
                             (copied ? v->text.n : 0))
               ? QP_OK
               : s->rc;
}

/* ---------------------------------------------------------------------------------------- texts */

void build_add(struct build *b, qp_str text)
{
    if (b->rc == QP_OK && text.n > b->capacity - b->n) {
        size_t need = b->n + text.n;
        size_t most = LIMIT_JSON_STRING_SIZE;
        size_t capacity = need <= most && need > most / 2 ? most : 2 * need;
        char *p = scope_text(b->scope, capacity);

        if (p == NULL) {
            b->rc = b->scope->rc;
            return;
        }
        if (b->n > 0) {
            memcpy(p, b->p, b->n);
        }
        b->p = p;
        b->capacity = capacity;
    }
    if (b->rc == QP_OK && text.n > 0) {
        memcpy(b->p + b->n, text.p, text.n);
        b->n += text.n;
    }
}

int build_done(const struct build *b, qp_str *out_text)
{
    if (b->rc == QP_OK) {
        *out_text = b->n == 0 ? QP_STR("") : (qp_str){b->p, b->n};
    }
    return b->rc;
}

static qp_str date_text(double time, char text[DATE_TEXT_SIZE])
{
    if (isnan(time)) {
        return QP_STR("Invalid Date");
    }
    return (qp_str){text, date_format(time, DATE_FORM_STRING, text)};
}

/* As join(",") has it: null and undefined are empty. */
static void build_items(struct build *b, const struct value *v)
{
    for (size_t i = 0; i < v->count && b->rc == QP_OK; i++) {
        struct value item = *v->items[i];

        if (i > 0) {
            build_add(b, QP_STR(","));
        }
        if (b->rc == QP_OK) {
            b->rc = scope_open(b->scope, &item);
        }
        if (item.kind != VALUE_NULL && item.kind != VALUE_UNDEFINED) {
            build_value(b, &item);
        }
    }
}

/* Recursion is bounded by the depth of the value. */
static void build_value(struct build *b, const struct value *v)
{
    char text[DATE_TEXT_SIZE];

    switch (v->kind) {
    case VALUE_UNDEFINED:
        build_add(b, QP_STR("undefined"));
        break;
    case VALUE_NULL:
        build_add(b, QP_STR("null"));
        break;
    case VALUE_BOOL:
        build_add(b, v->truth ? QP_STR("true") : QP_STR("false"));
        break;
    case VALUE_INT:
    case VALUE_REAL:
        build_add(b, (qp_str){text, value_number_text(v, text)});
        break;
    case VALUE_STRING:
        build_add(b, v->text);
        break;
    case VALUE_ARRAY:
        build_items(b, v);
        break;
    case VALUE_OBJECT:
        build_add(b, QP_STR("[object Object]"));
        break;
    case VALUE_DATE:
        build_add(b, date_text(v->real, text));
        break;
    case VALUE_RAW:
        QP_ASSERT(b->rc != QP_OK); /* it could not be opened */
        break;
    }
}

int operand_text(struct scope *s, const struct value *v, qp_str *out_text)
{
    struct build b = {.scope = s};

    QP_ASSERT(v->kind != VALUE_RAW);
    if (v->kind == VALUE_STRING) {
        *out_text = v->text;
        return QP_OK;
    }
    build_value(&b, v);
    return build_done(&b, out_text);
}

/* -------------------------------------------------------------------------------------- numbers */

int operand_number(struct scope *s, const struct value *v, double *out_number)
{
    qp_str text;
    int rc;

    QP_ASSERT(v->kind != VALUE_RAW);
    switch (v->kind) {
    case VALUE_NULL:
        *out_number = 0;
        return QP_OK;
    case VALUE_BOOL:
        *out_number = v->truth;
        return QP_OK;
    case VALUE_INT:
        *out_number = (double)v->integer;
        return QP_OK;
    case VALUE_REAL:
    case VALUE_DATE:
        *out_number = v->real;
        return QP_OK;
    case VALUE_STRING:
    case VALUE_ARRAY:
        rc = operand_text(s, v, &text);
        rc = rc == QP_OK ? scope_look(s, text.n) : rc;
        if (rc == QP_OK) {
            *out_number = number_of(text);
        }
        return rc;
    case VALUE_UNDEFINED:
    case VALUE_OBJECT:
    case VALUE_RAW:
        break;
    }
    *out_number = NAN;
    return QP_OK;
}

bool operand_truth(const struct value *v)
{
    switch (v->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NULL:
        return false;
    case VALUE_BOOL:
        return v->truth;
    case VALUE_INT:
        return v->integer != 0;
    case VALUE_REAL:
        return v->real != 0 && !isnan(v->real);
    case VALUE_STRING:
        return v->text.n > 0;
    case VALUE_ARRAY:
    case VALUE_OBJECT:
    case VALUE_DATE:
    case VALUE_RAW: /* scalars are opened before a function sees them */
        break;
    }
    return true;
}

/* ----------------------------------------------------------------------------------- comparisons */

static bool is_nullish(const struct value *v)
{
    return v->kind == VALUE_UNDEFINED || v->kind == VALUE_NULL;
}

static bool is_thing(const struct value *v)
{
    return v->kind == VALUE_ARRAY || v->kind == VALUE_OBJECT || v->kind == VALUE_DATE ||
           v->kind == VALUE_RAW;
}

/* An array, object or date as the text that it is when it meets something else; others stay. */
static int primitive(struct scope *s, const struct value *v, struct value *out_value)
{
    int rc;

    *out_value = *v;
    if (!is_thing(v)) {
        return QP_OK;
    }
    rc = scope_open(s, out_value);
    if (rc == QP_OK) {
        rc = operand_text(s, out_value, &out_value->text);
        out_value->kind = VALUE_STRING;
    }
    return rc;
}

int operand_same(struct scope *s, const struct value *a, const struct value *b, bool *out_same)
{
    size_t left = LIMIT_MAPPING_SIZE - s->made;
    int rc = value_same_within(s->arena, &left, a, b, out_same);

    if (rc == QP_E_LIMIT) {
        return SCOPE_REFUSE(s, LIMIT_MAPPING_SIZE);
    }
    s->made = LIMIT_MAPPING_SIZE - left;
    return rc;
}

static int equal_numbers(struct scope *s, const struct value *a, const struct value *b,
                         bool *out_equal)
{
    double x = NAN;
    double y = NAN;
    int rc = operand_number(s, a, &x);

    if (rc == QP_OK) {
        rc = operand_number(s, b, &y);
    }
    if (rc == QP_OK) {
        *out_equal = x == y;
    }
    return rc;
}

int operand_equal(struct scope *s, const struct value *a, const struct value *b, bool *out_equal)
{
    struct value x;
    struct value y;
    int rc;

    if (is_nullish(a) || is_nullish(b)) {
        *out_equal = is_nullish(a) && is_nullish(b);
        return QP_OK;
    }
    if (is_thing(a) == is_thing(b) && (is_thing(a) || a->kind == b->kind)) {
        return operand_same(s, a, b, out_equal);
    }
    rc = primitive(s, a, &x);
    if (rc == QP_OK) {
        rc = primitive(s, b, &y);
    }
    if (rc != QP_OK) {
        return rc;
    }
    return x.kind == VALUE_STRING && y.kind == VALUE_STRING ? operand_same(s, &x, &y, out_equal)
                                                            : equal_numbers(s, &x, &y, out_equal);
}

static enum order order_of(int compared)
{
    return compared < 0 ? ORDER_LESS : compared > 0 ? ORDER_GREATER : ORDER_EQUAL;
}

static enum order order_numbers(double x, double y)
{
    if (isnan(x) || isnan(y)) {
        return ORDER_NONE;
    }
    return order_of((x > y) - (x < y));
}

/* A date is its time here, where equality takes its text. */
static int comparable(struct scope *s, const struct value *v, struct value *out_value)
{
    if (v->kind == VALUE_DATE) {
        *out_value = (struct value){.kind = VALUE_REAL, .real = v->real};
        return QP_OK;
    }
    return primitive(s, v, out_value);
}

int operand_order(struct scope *s, const struct value *a, const struct value *b,
                  enum order *out_order)
{
    struct value x;
    struct value y;
    double these = NAN;
    double those = NAN;
    int rc = comparable(s, a, &x);

    if (rc == QP_OK) {
        rc = comparable(s, b, &y);
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (x.kind == VALUE_STRING && y.kind == VALUE_STRING) {
        *out_order = order_of(text_compare(x.text, y.text));
        return QP_OK;
    }
    if (x.kind == VALUE_INT && y.kind == VALUE_INT) {
        *out_order = order_of((x.integer > y.integer) - (x.integer < y.integer));
        return QP_OK;
    }
    rc = operand_number(s, &x, &these);
    if (rc == QP_OK) {
        rc = operand_number(s, &y, &those);
    }
    if (rc == QP_OK) {
        *out_order = order_numbers(these, those);
    }
    return rc;
}

/* --------------------------------------------------------------------------- arrays and objects */

/* Memory for so many entries of a size; the room's own account stands before them. */
static int begin(struct scope *s, size_t capacity, size_t each, struct room **out_room,
                 void **out_entries)
{
    size_t size;
    struct room *room;

    if (!size_mul(capacity, each, &size) || !size_add(size, sizeof(*room), &size)) {
        return SCOPE_REFUSE(s, LIMIT_MAPPING_SIZE);
    }
    room = scope_room(s, size);
    if (room == NULL) {
        return s->rc;
    }
    *room = (struct room){.used = 0, .capacity = capacity};
    *out_room = room;
    *out_entries = room + 1;
    return QP_OK;
}

int array_begin(struct scope *s, size_t capacity, struct value *out_array)
{
    struct room *room;
    void *items;
    int rc = begin(s, capacity, sizeof(struct value *), &room, &items);

    if (rc == QP_OK) {
        *out_array = (struct value){.kind = VALUE_ARRAY, .items = items, .room = room, .depth = 1};
    }
    return rc;
}

int object_begin(struct scope *s, size_t capacity, struct value *out_object)
{
    struct room *room;
    void *members;
    int rc = begin(s, capacity, sizeof(struct member), &room, &members);

    if (rc == QP_OK) {
        *out_object =
            (struct value){.kind = VALUE_OBJECT, .members = members, .room = room, .depth = 1};
    }
    return rc;
}

static bool can_grow(const struct value *v)
{
    return v->room != NULL && v->room->used == v->count && v->count < v->room->capacity;
}

static int grow_array(struct scope *s, struct value *v)
{
    struct value grown;
    int rc = array_begin(s, v->count * 2 > ROOM_FIRST ? v->count * 2 : ROOM_FIRST, &grown);

    if (rc != QP_OK) {
        return rc;
    }
    if (v->count > 0) {
        memcpy(grown.items, v->items, v->count * sizeof(*v->items));
    }
    grown.count = v->count;
    grown.room->used = v->count;
    grown.depth = v->depth;
    *v = grown;
    return QP_OK;
}

static int grow_object(struct scope *s, struct value *v)
{
    struct value grown;
    int rc = object_begin(s, v->count * 2 > ROOM_FIRST ? v->count * 2 : ROOM_FIRST, &grown);

    if (rc != QP_OK) {
        return rc;
    }
    if (v->count > 0) {
        memcpy(grown.members, v->members, v->count * sizeof(*v->members));
    }
    grown.count = v->count;
    grown.room->used = v->count;
    grown.depth = v->depth;
    *v = grown;
    return QP_OK;
}

/* A copy of an item in the scope's memory; the depth of what it goes into is known with it. */
static int keep(struct scope *s, struct value *into, const struct value *item,
                struct value **out_kept)
{
    struct value *kept;

    if (item->depth + 1 > LIMIT_JSON_DEPTH) {
        return SCOPE_REFUSE(s, LIMIT_JSON_DEPTH);
    }
    kept = scope_room(s, sizeof(*kept));
    if (kept == NULL) {
        return s->rc;
    }
    *kept = *item;
    into->depth = item->depth + 1 > into->depth ? item->depth + 1 : into->depth;
    *out_kept = kept;
    return QP_OK;
}

int array_append(struct scope *s, struct value *v, const struct value *item)
{
    int rc = can_grow(v) ? QP_OK : grow_array(s, v);

    QP_ASSERT(v->kind == VALUE_ARRAY);
    if (rc == QP_OK) {
        rc = keep(s, v, item, &v->items[v->count]);
    }
    if (rc == QP_OK) {
        v->count++;
        v->room->used = v->count;
    }
    return rc;
}

/* Where a key is, or the count; and how many bytes were gone over for that. */
static size_t find_key(const struct value *v, qp_str key, size_t *out_looked)
{
    size_t i = 0;

    *out_looked = v->count * sizeof(struct member);
    while (i < v->count && !str_equal(v->members[i].key, key)) {
        *out_looked += v->members[i].key.n == key.n ? key.n : 0;
        i++;
    }
    return i;
}

int object_append(struct scope *s, struct value *v, qp_str key, const struct value *item)
{
    int rc;

    QP_ASSERT(v->kind == VALUE_OBJECT);
    if (v->count == LIMIT_JSON_KEYS) {
        return SCOPE_REFUSE(s, LIMIT_JSON_KEYS);
    }
    rc = can_grow(v) ? QP_OK : grow_object(s, v);
    if (rc == QP_OK) {
        rc = keep(s, v, item, &v->members[v->count].value);
    }
    if (rc == QP_OK) {
        v->members[v->count++].key = key;
        v->room->used = v->count;
    }
    return rc;
}

int object_put(struct scope *s, struct value *v, qp_str key, const struct value *item)
{
    size_t looked;
    size_t at = find_key(v, key, &looked);
    int rc = scope_look(s, looked);

    QP_ASSERT(v->kind == VALUE_OBJECT);
    if (rc != QP_OK || at == v->count) {
        return rc == QP_OK ? object_append(s, v, key, item) : rc;
    }
    rc = grow_object(s, v);
    return rc == QP_OK ? keep(s, v, item, &v->members[at].value) : rc;
}
