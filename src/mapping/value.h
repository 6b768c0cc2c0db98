/* value.h - values as mappings see them: JSON, and "undefined"
 *
 * A value is immutable once it was made and lives in an arena. Two forms of JSON meet in it: VALUE_RAW is the
 * text of a value that was checked at the border (json_check) and has not been looked into: a reference that
 * only passes something on never parses it. value_open turns one into the kind that it is, one level deep: what is
 * inside stays raw.
 *
 * Numbers: an integer that fits int64 is exact (VALUE_INT); everything else is a double. Arithmetic is that of
 * ECMAScript doubles, except that an integer result of exact integers stays exact when it fits.
 *
 * Nothing here recurses deeper than two times LIMIT_JSON_DEPTH: checked JSON is not deeper, and who makes an array or object
 * of values keeps its `depth` within it.
 */
#ifndef QP_MAPPING_VALUE_H
#define QP_MAPPING_VALUE_H

#include "base/mem.h"
#include "mapping/number.h"

enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_REAL, /* NaN and infinities too; written as null */
    VALUE_STRING,
    VALUE_ARRAY,
    VALUE_OBJECT,
    VALUE_DATE, /* milliseconds, in `real`; written as an ISO string */
    VALUE_RAW
};

struct value;
struct room;
struct member {
    qp_str key;
    struct value *value;
};

struct value {
    enum value_kind kind;
    bool truth;
    int64_t integer;
    double real;
    qp_str text; /* of a string, unescaped; of RAW, JSON */
    size_t count;
    struct value **items;   /* of an array */
    struct member *members; /* of an object, in their order */
    int depth;              /* of an array or object that was made here: how many are nested */
    struct room *room;      /* of one that can grow where it is; see value_append */
};

/* Memory of an array or object behind what its values count. A value that counts all that is used may be followed by a
 * longer one in the same memory: those who hold the shorter one see no change. So n appends cost n, and not n squared. */
struct room {
    size_t used;
    size_t capacity;
};

/* JSON that was checked, not looked into. None is undefined. */
struct value value_raw(qp_str json);
/* The value at a path inside of checked JSON, found by going over the bytes; undefined when it is not there. Array
 * items are named by their index. */
struct value value_at(qp_str json, const qp_str *path, size_t path_count);
/* A raw value becomes what it is, one level deep; others stay. QP_E_NOMEM, QP_E_LIMIT. */
int value_open(struct arena *a, struct value *v) QP_MUST_USE;

/* A number as the kind that it is: an integer that a double holds exactly is VALUE_INT. */
struct value value_number(double number);
/* Of VALUE_INT and VALUE_REAL: as JavaScript prints it, integers with all their digits. Returns the length. */
size_t value_number_text(const struct value *v, char out_text[NUMBER_TEXT_SIZE]);
/* How deep the arrays and objects of checked JSON are nested. */
int value_depth(qp_str json);
/* The member of an opened object; NULL: there is none. */
const struct value *value_get(const struct value *object, qp_str key);
/* The value at a path inside of any value; *looked becomes more by what was gone over. */
struct value value_inside(const struct value *v, const qp_str *path, size_t path_count,
                          size_t *looked);

/* As JSON: undefined as a member or an item is left out or null, as JSON.stringify has it. QP_E_TOO_LARGE
 * past the buffer's limit. */
int value_write(struct buf *out, const struct value *v) QP_MUST_USE;

/* As text for a key or an id: a string as it is, a number as JavaScript prints it, a boolean; false: it is something
 * else (null, undefined, an object ...). */
bool value_as_text(struct arena *a, const struct value *v, qp_str *out_text) QP_MUST_USE;
/* A finite number, or a string that is one. */
bool value_as_number(const struct value *v, double *out_number) QP_MUST_USE;
/* Sorts pointers; those that are equal keep their order. `spare` has room for as many. */
void value_sort(const void **items, const void **spare, size_t count,
                int (*compare)(const void *a, const void *b));
/* ===, for what JSON has: objects and arrays are equal when their contents are (deeply). */
int value_same(struct arena *a, const struct value *x, const struct value *y,
               bool *out_same) QP_MUST_USE;
/* The same with at most *left bytes of memory, which become less; QP_E_LIMIT when they are not enough. */
int value_same_within(struct arena *a, size_t *left, const struct value *x, const struct value *y,
                      bool *out_same) QP_MUST_USE;

#endif
