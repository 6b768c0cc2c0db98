/* opgen_ops.h - shared by opgen.c and opgen_ops.c: chance, picking from what is there, one maker
 * per op */
#ifndef QP_TEST_OPGEN_OPS_H
#define QP_TEST_OPGEN_OPS_H

#include "support/opgen.h"

#define OPGEN_GUIDS 12

uint64_t opgen_below(struct opgen *g, uint64_t n);
bool opgen_chance(struct opgen *g, unsigned percent);
/* A random row of a table, or NULL; with `like`, a few tries to find one that it likes. */
typedef bool (*opgen_like)(const void *row);
const void *opgen_pick(struct opgen *g, enum table_id table, opgen_like like);

/* Fills in one op of this kind. */
void opgen_make(struct opgen *g, struct op *op, enum op_kind kind);

/* Whole bundles of the engine's kind, in which the ops fit together. */
void opgen_make_start(struct opgen *g, struct opgen_bundle *b);
void opgen_make_answer(struct opgen *g, struct opgen_bundle *b);
void opgen_make_end(struct opgen *g, struct opgen_bundle *b);
void opgen_make_task(struct opgen *g, struct opgen_bundle *b);

#endif
