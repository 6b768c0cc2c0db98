/* arenatest.c - a world with an arena in it (see arenatest.h) */
#include "support/arenatest.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct testenv at_world;
struct arena at_arena;

int at_setup(void **state)
{
    (void)state;
    testenv_init(&at_world, 1);
    arena_init(&at_arena, &at_world.env, 0);
    return 0;
}

int at_teardown(void **state)
{
    (void)state;
    arena_done(&at_arena);
    testenv_done(&at_world);
    return 0;
}

const char *at_written(const struct value *v)
{
    struct buf out;
    char *text;
    buf_init(&out, &at_world.env, 0);
    assert_int_equal(value_write(&out, v), QP_OK);
    text = arena_alloc(&at_arena, out.n + 1);
    assert_non_null(text);
    memcpy(text, out.p, out.n);
    buf_done(&out);
    return text;
}
