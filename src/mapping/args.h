/* args.h - what a function of mappings is called with, and how it gives its result
 *
 * For the bodies of functions (functions_*.c). Operands belong to the evaluation, and so does what is given; texts live as
 * long as its arena. One thread.
 */
#ifndef QP_MAPPING_ARGS_H
#define QP_MAPPING_ARGS_H

#include "mapping/operand.h"

struct args {
    struct scope *scope;
    struct value *operands;
    size_t count;
    struct value *out;
};

/* undefined when it was not given. */
const struct value *args_operand(const struct args *args, size_t index);
bool args_has(const struct args *args, size_t index); /* it is there, and not undefined */
int args_open(struct args *args, size_t index) QP_MUST_USE;
int args_text(struct args *args, size_t index, qp_str *out_text) QP_MUST_USE;
int args_number(struct args *args, size_t index, double *out_number) QP_MUST_USE;
/* Without its fraction, NaN being 0, infinities staying; undefined is `fallback`. */
int args_integer(struct args *args, size_t index, double fallback, double *out_number) QP_MUST_USE;
/* A position counted from the end where it is negative, then cut to 0 .. count. */
size_t args_position(double position, size_t count);
/* Operands 1 and 2 as two such positions, all of it where they are undefined; the second is not before the first. */
int args_range(struct args *args, size_t count, size_t *out_from, size_t *out_to) QP_MUST_USE;
/* Arrays among the operands become operands themselves. */
int args_spread(struct args *args) QP_MUST_USE;

/* The result. All return QP_OK, but for who needs memory. */
int give(struct args *args, const struct value *v);
int give_undefined(struct args *args);
int give_bool(struct args *args, bool truth);
int give_number(struct args *args, double number);
int give_integer(struct args *args, int64_t number);
int give_string(struct args *args, qp_str text); /* which lives as long as the evaluation */
int give_copy(struct args *args, const char *text, size_t size) QP_MUST_USE;
/* Some units of a string: half of a pair is a character of its own, and then a copy. */
int args_cut(struct args *args, qp_str text, size_t first, size_t last,
             qp_str *out_text) QP_MUST_USE;
int give_cut(struct args *args, qp_str text, size_t first, size_t last) QP_MUST_USE;

#endif
