/* test_arena.c - memory that is given back all at once */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/mem.h"
#include "support/testenv.h"

#define MIB ((size_t)1024 * 1024)

static struct testenv t;

/* Init and an empty arena cost nothing, and done twice is harmless. */
static void empty_arena_costs_nothing(void **state)
{
    struct arena a;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    arena_reset(&a);
    arena_done(&a);
    arena_done(&a);
    assert_int_equal(t.allocations, 0);
    assert_int_equal(a.limit, LIMIT_ARENA_SIZE);
    testenv_done(&t);
}

/* Random sizes: every piece is zeroed and aligned, none overlap, all keep what was written. */
static void pieces_do_not_overlap(void **state)
{
    enum { COUNT = 3000 };
    static unsigned char *pieces[COUNT];
    static size_t sizes[COUNT];
    uint64_t random = testenv_seed();
    struct arena a;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            bool aligned = testenv_random_below(&random, 2) == 0;

            sizes[i] = (size_t)testenv_random_below(&random, i % 500 == 0 ? MIB : 300);
            pieces[i] =
                aligned ? arena_alloc(&a, sizes[i]) : (unsigned char *)arena_bytes(&a, sizes[i]);
            assert_non_null(pieces[i]);
            for (size_t k = 0; aligned && k < sizes[i]; k++) {
                assert_int_equal(pieces[i][k], 0);
            }
            if (aligned) {
                assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
            }
            memset(pieces[i], (int)(i & 0xFF), sizes[i]);
        }
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(pieces[i][k], i & 0xFF);
            }
        }
        arena_reset(&a);
        assert_int_equal(t.live_blocks, 1 + a.spare_count);
    }
    arena_done(&a);
    testenv_done(&t);
}

/* Blocks double up to one MiB: filling 8 MiB takes a dozen and a half of them, not thousands. */
static void blocks_double(void **state)
{
    struct arena a;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    for (size_t i = 0; i < 8 * MIB / 64; i++) {
        assert_non_null(arena_alloc(&a, 64));
    }
    assert_in_range(t.live_blocks, 8, 18);
    assert_true(a.total < 10 * MIB);
    arena_done(&a);
    testenv_done(&t);
}

/* A second round of the same size asks for no memory; what is kept has a bound. */
static void rounds_reuse_blocks(void **state)
{
    struct arena a;
    long long blocks = 0;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6 * MIB / 64; i++) {
            assert_non_null(arena_alloc(&a, 64));
        }
        assert_true(round < 2 || t.live_blocks == blocks);
        blocks = t.live_blocks;
        arena_reset(&a);
    }
    for (size_t i = 0; i < 40 * MIB / 64; i++) {
        assert_non_null(arena_alloc(&a, 64));
    }
    arena_reset(&a);
    assert_in_range(t.live_blocks, 2, 20);
    arena_done(&a);
    assert_int_equal(t.live_blocks, 0);
    testenv_done(&t);
}

/* A large piece gets a block of its own and does not waste the room left in the current one. */
static void large_pieces_do_not_waste(void **state)
{
    struct arena a;
    char *before;
    char *after;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    before = arena_bytes(&a, 10);
    assert_non_null(arena_alloc(&a, 5 * MIB));
    after = arena_bytes(&a, 10);
    assert_ptr_equal(after, before + 10);
    assert_int_equal(t.live_blocks, 2);
    arena_reset(&a);
    assert_int_equal(a.total, 5 * MIB); /* the largest is kept */
    assert_non_null(arena_alloc(&a, 4 * MIB));
    assert_int_equal(t.live_blocks, 1);
    arena_done(&a);
    testenv_done(&t);
}

/* The limit counts whole blocks, can be used to its last byte, and is never passed. */
static void limit_holds(void **state)
{
    struct arena a;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 10000);
    assert_non_null(arena_bytes(&a, 4096));
    assert_non_null(arena_bytes(&a, 4096));
    assert_null(arena_bytes(&a, 10000));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_non_null(arena_bytes(&a, 10000 - 2 * 4096));
    assert_null(arena_bytes(&a, 1));
    assert_true(a.total <= a.limit);
    arena_reset(&a);
    assert_non_null(arena_bytes(&a, 4096));
    arena_done(&a);
    testenv_done(&t);
}

/* None stays none, empty stays empty, and a copy is independent of its source. */
static void copies_keep_their_kind(void **state)
{
    struct arena a;
    char text[] = "hello";
    qp_str copy;

    (void)state;
    testenv_init(&t, 1);
    arena_init(&a, &t.env, 0);
    assert_true(arena_copy(&a, QP_NONE, &copy));
    assert_true(str_is_none(copy));
    assert_true(arena_copy(&a, QP_STR(""), &copy));
    assert_false(str_is_none(copy));
    assert_int_equal(copy.n, 0);
    assert_true(arena_copy(&a, (qp_str){text, 5}, &copy));
    text[0] = 'j';
    assert_true(str_equal(copy, QP_STR("hello")));
    arena_done(&a);
    testenv_done(&t);
}

/* Whichever allocation fails, the arena answers NULL, keeps what it has and goes on when it can. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    for (int64_t n = 1;; n++) {
        struct arena a;
        qp_str copy = QP_STR("untouched");
        bool done;

        testenv_fail_at(&t, n);
        arena_init(&a, &t.env, 0);
        done = arena_alloc(&a, 100) != NULL && arena_bytes(&a, 2 * MIB) != NULL &&
               arena_copy(&a, (qp_str){"abc", 3}, &copy) && arena_alloc(&a, 8000) != NULL;
        assert_int_equal(done, !testenv_failed(&t));
        assert_non_null(arena_alloc(&a, 10));
        arena_done(&a);
        if (done) {
            break;
        }
    }
    testenv_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_arena_costs_nothing),
        cmocka_unit_test(pieces_do_not_overlap),
        cmocka_unit_test(blocks_double),
        cmocka_unit_test(rounds_reuse_blocks),
        cmocka_unit_test(large_pieces_do_not_waste),
        cmocka_unit_test(limit_holds),
        cmocka_unit_test(copies_keep_their_kind),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
