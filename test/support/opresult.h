/* opresult.h - what a commit said, as text, and how often which op succeeded or stopped its bundle,
 * and why
 *
 * The text has everything that the store puts out: the commit's code, each bundle's code and stop,
 * each op's out fields, claimed rows included. Equal texts are equal answers.
 */
#ifndef QP_TEST_OPRESULT_H
#define QP_TEST_OPRESULT_H

#include "store/store.h"

void opresult_print(struct buf *out, const struct commit *c);

#define OPRESULT_CODES 32 /* more than the table of errors has */

struct opcover {
    int64_t commits;
    int64_t bundles;
    int64_t bundles_fine;
    int64_t fine[OP_COUNT];
    int64_t stopped[OP_COUNT][OPRESULT_CODES]; /* by the code without its sign */
};

const char *op_name(enum op_kind kind);

void opcover_add(struct opcover *o, const struct commit *c);
/* How many ops are not covered: every op must have succeeded, every op that compares or checks
 * anything must have stopped a bundle, and none with a code that says that the store is damaged. */
int opcover_missing(const struct opcover *o);
/* Prints the table, and what is missing. */
void opcover_print(const struct opcover *o);

#endif
