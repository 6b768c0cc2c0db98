/* functions.h - the functions of mappings: {@math.add} and the others, from one table
 *
 * functions.def has them all. A function gets its operands with scalars opened: what is raw is an array or an object, and
 * is opened by who looks into it (args_open), so that passing one on costs nothing. Its result is undefined until it
 * gives one. Where ECMAScript would throw, it stays so.
 */
#ifndef QP_MAPPING_FUNCTIONS_H
#define QP_MAPPING_FUNCTIONS_H

#include "mapping/args.h"

typedef int (*function_body)(struct args *args);

struct function {
    const char *space;
    const char *name;
    function_body body;
};

/* By their place in the table; NULL behind the last. */
const struct function *function_at(size_t index);
/* NULL: there is none. */
const struct function *function_find(qp_str space, qp_str name);
bool function_space_exists(qp_str space);
/* Takes the operands as they are, opens what is scalar, counts a step. QP_OK; QP_E_LIMIT; QP_E_NOMEM. */
int function_call(const struct function *f, struct scope *s, struct value *operands, size_t count,
                  struct value *out_value) QP_MUST_USE;

/* ------------------------------------------------------------------------------ their bodies */

#define FUNCTION(space, name, body, operands, about) int body(struct args *args);
#include "mapping/functions.def"
#undef FUNCTION

#endif
