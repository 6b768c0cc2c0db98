/* operand.h - what functions do with their operands: ECMAScript's conversions and comparisons
 *
 * All memory that an evaluation makes is taken with scope_room, which counts it: when it says no, scope->rc says why, and
 * that is what a function returns. Values are immutable; what changes one makes another.
 */
#ifndef QP_MAPPING_OPERAND_H
#define QP_MAPPING_OPERAND_H

#include "mapping/mapping.h"

/* Memory, aligned, not zeroed; NULL, with scope->rc, past the limit of one evaluation. */
void *scope_room(struct scope *s, size_t size) QP_MUST_USE;
/* Memory for a string: no string is longer than JSON may have it. */
char *scope_text(struct scope *s, size_t size) QP_MUST_USE;
/* Reaching a limit: returns QP_E_LIMIT. */
int scope_refuse(struct scope *s, const char *limit, int64_t value);
#define SCOPE_REFUSE(scope, limit) scope_refuse((scope), #limit, (int64_t)(limit))
/* Counts bytes that are gone over, beyond what a call's operands are; QP_E_LIMIT. */
int scope_look(struct scope *s, size_t size) QP_MUST_USE;
/* value_open, with what it makes counted. */
int scope_open(struct scope *s, struct value *v) QP_MUST_USE;

/* A text that grows, in the scope's memory. Its first error sticks; build_done tells. */
struct build {
    struct scope *scope;
    char *p;
    size_t n;
    size_t capacity;
    int rc;
};
void build_add(struct build *b, qp_str text);
int build_done(const struct build *b, qp_str *out_text) QP_MUST_USE;

/* String(v), Number(v), Boolean(v). Not for raw values: those have to be opened. Numbers are NaN where there is none. */
int operand_text(struct scope *s, const struct value *v, qp_str *out_text) QP_MUST_USE;
int operand_number(struct scope *s, const struct value *v, double *out_number) QP_MUST_USE;
bool operand_truth(const struct value *v);

/* a === b, a == b, and a < b in all its forms. */
int operand_same(struct scope *s, const struct value *a, const struct value *b,
                 bool *out_same) QP_MUST_USE;
int operand_equal(struct scope *s, const struct value *a, const struct value *b,
                  bool *out_equal) QP_MUST_USE;
enum order { ORDER_NONE, ORDER_LESS, ORDER_EQUAL, ORDER_GREATER };
int operand_order(struct scope *s, const struct value *a, const struct value *b,
                  enum order *out_order) QP_MUST_USE;

/* An array or object with room for `capacity` items or members and none in it. */
int array_begin(struct scope *s, size_t capacity, struct value *out_array) QP_MUST_USE;
int object_begin(struct scope *s, size_t capacity, struct value *out_object) QP_MUST_USE;
/* Another one at its end. *v may become longer in place, which who holds the former *v does not see. QP_E_LIMIT when it
 * would be nested too deep. */
int array_append(struct scope *s, struct value *v, const struct value *item) QP_MUST_USE;
/* A member that is known to be new. */
int object_append(struct scope *s, struct value *v, qp_str key,
                  const struct value *item) QP_MUST_USE;
/* A member, new or in place of the one of that name: then the object is copied. */
int object_put(struct scope *s, struct value *v, qp_str key, const struct value *item) QP_MUST_USE;

#endif
