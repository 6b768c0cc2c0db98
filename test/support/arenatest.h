/* arenatest.h - what tests of functions over an arena share: a world, and an arena in it
 *
 * at_setup and at_teardown are for cmocka, around one test or a group of them. The second fails it when memory leaked.
 */
#ifndef QP_TEST_ARENATEST_H
#define QP_TEST_ARENATEST_H

#include "base/mem.h"
#include "mapping/value.h"
#include "support/testenv.h"

extern struct testenv at_world;
extern struct arena at_arena;

int at_setup(void **state);
int at_teardown(void **state);

/* What a value is as JSON, in the arena. */
const char *at_written(const struct value *v);

#endif
