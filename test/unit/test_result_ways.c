/* test_result_ways.c - the shortest ways through a result are those that a search of all ways finds, in their order
 *
 * Generated graphs are small enough for every way to be walked. Prints its seed; QP_SEED repeats it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/result_ways.h"
#include "support/testenv.h"

#define NODES 9
#define WAYS_MOST 20000

static struct testenv t;

/* Every way without a node twice that ends at the first target. */
struct all_ways {
    uint32_t nodes[WAYS_MOST][NODES];
    size_t counts[WAYS_MOST];
    size_t count;
};
static struct all_ways all;

struct graph {
    struct result_graph g;
    bool edges[NODES][NODES]; /* by index */
    bool is_source[NODES];
    bool is_target[NODES];
};

static void make(struct graph *m, bool edges[NODES][NODES])
{
    struct result_node *nodes[NODES];
    *m = (struct graph){.g = {.env = NULL}};
    result_graph_init(&m->g, &t.env);
    for (int i = 0; i < NODES; i++) {
        char name[8];
        struct carto_package p;
        (void)snprintf(name, sizeof name, "n%d", i);
        p = (struct carto_package){.id = {QP_STR("deb"), str_from(name)}, .version = QP_STR("1")};
        assert_int_equal(result_graph_node(&m->g, &p, 0, &nodes[i]), QP_OK);
    }
    nodes[0]->root = 1;
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < NODES; j++) {
            struct result_edge e = {.from = nodes[i], .to = nodes[j], .kind = QP_STR("depends")};
            if (edges[i][j]) {
                assert_int_equal(result_graph_add_edge(&m->g, &e), QP_OK);
                e.requirement = QP_STR("twice"); /* two relationships are one step of a way */
                assert_int_equal(result_graph_add_edge(&m->g, &e), QP_OK);
            }
        }
    }
    assert_int_equal(result_graph_sort(&m->g), QP_OK);
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < NODES; j++) {
            m->edges[nodes[i]->index][nodes[j]->index] = edges[i][j];
        }
    }
}

static void walk(const struct graph *m, uint32_t way[NODES], size_t count)
{
    uint32_t last = way[count - 1];
    if (m->is_target[last]) {
        assert_true(all.count < WAYS_MOST);
        memcpy(all.nodes[all.count], way, count * sizeof *way);
        all.counts[all.count++] = count;
        return;
    }
    for (uint32_t next = 0; next < NODES; next++) {
        bool is_new = m->edges[last][next];
        for (size_t i = 0; i < count; i++) {
            is_new = is_new && way[i] != next;
        }
        if (is_new) {
            way[count] = next;
            walk(m, way, count + 1);
        }
    }
}

static int compare_ways(const void *a, const void *b)
{
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    if (all.counts[x] != all.counts[y]) {
        return all.counts[x] < all.counts[y] ? -1 : 1;
    }
    for (size_t i = 0; i < all.counts[x]; i++) {
        if (all.nodes[x][i] != all.nodes[y][i]) {
            return all.nodes[x][i] < all.nodes[y][i] ? -1 : 1;
        }
    }
    return 0;
}

static struct way_ends ends_of(const bool is_end[NODES], uint32_t room[NODES])
{
    struct way_ends ends = {room, 0};
    for (uint32_t i = 0; i < NODES; i++) {
        if (is_end[i]) {
            room[ends.count++] = i;
        }
    }
    return ends;
}

static void check(const struct graph *m, size_t limit)
{
    static size_t order[WAYS_MOST];
    uint32_t rooms[2][NODES];
    struct ways_question q = {.graph = &m->g,
                              .sources = ends_of(m->is_source, rooms[0]),
                              .targets = ends_of(m->is_target, rooms[1]),
                              .limit = limit};
    struct ways ways;
    struct arena arena;
    all.count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t way[NODES] = {i};
        if (m->is_source[i]) {
            walk(m, way, 1);
        }
    }
    for (size_t i = 0; i < all.count; i++) {
        order[i] = i;
    }
    qsort(order, all.count, sizeof *order, compare_ways);
    arena_init(&arena, &t.env, 0);
    assert_int_equal(ways_find(&arena, &q, &ways), QP_OK);
    assert_int_equal(ways.count, all.count < limit ? all.count : limit);
    assert_int_equal(ways.has_more, all.count > limit);
    for (size_t i = 0; i < ways.count; i++) {
        assert_int_equal(ways.rows[i].count, all.counts[order[i]]);
        assert_memory_equal(ways.rows[i].nodes, all.nodes[order[i]],
                            ways.rows[i].count * sizeof(uint32_t));
    }
    arena_done(&arena);
}

static void test_random(void **state)
{
    uint64_t random = testenv_seed();
    (void)state;
    for (int round = 0; round < 300; round++) {
        bool edges[NODES][NODES] = {0};
        struct graph m;
        uint64_t density = 1 + testenv_random_below(&random, 5);
        for (int i = 0; i < NODES * NODES; i++) {
            edges[i / NODES][i % NODES] = testenv_random_below(&random, 10) < density;
        }
        make(&m, edges);
        for (int i = 0; i < NODES; i++) {
            m.is_source[i] = i == 0 || testenv_random_below(&random, 8) == 0;
            m.is_target[i] = i == NODES - 1 || testenv_random_below(&random, 8) == 0;
        }
        check(&m, 1 + testenv_random_below(&random, LIMIT_CARTO_WAYS));
        result_graph_close(&m.g);
    }
}

/* A cycle off the way, a node that only leads back, a source that is a target, and no way at all. */
static void test_shapes(void **state)
{
    bool edges[NODES][NODES] = {0};
    struct graph m;
    (void)state;
    edges[0][1] = edges[1][2] = edges[2][1] = edges[2][3] = edges[3][0] = edges[4][0] = true;
    make(&m, edges);
    m.is_source[0] = m.is_target[3] = true;
    check(&m, 3);
    m.is_target[0] = true;
    check(&m, 1);
    check(&m, LIMIT_CARTO_WAYS);
    m.is_target[0] = m.is_target[3] = false;
    m.is_target[8] = true;
    check(&m, 3);
    result_graph_close(&m.g);
}

/* Of a graph with a great number of ways the first ones are found at once: 2^30 lead through thirty diamonds. */
static void test_many_ways(void **state)
{
    struct result_graph g;
    struct result_node *nodes[91];
    uint32_t source;
    uint32_t target;
    struct ways ways;
    struct arena arena;
    (void)state;
    result_graph_init(&g, &t.env);
    for (int i = 0; i < 91; i++) {
        char name[8];
        struct carto_package p;
        (void)snprintf(name, sizeof name, "n%02d", i);
        p = (struct carto_package){.id = {QP_STR("deb"), str_from(name)}};
        assert_int_equal(result_graph_node(&g, &p, 0, &nodes[i]), QP_OK);
    }
    for (int i = 0; i < 30; i++) {
        for (int side = 1; side <= 2; side++) {
            struct result_edge in = {.from = nodes[3 * i], .to = nodes[3 * i + side]};
            struct result_edge out = {.from = nodes[3 * i + side], .to = nodes[3 * i + 3]};
            assert_int_equal(result_graph_add_edge(&g, &in), QP_OK);
            assert_int_equal(result_graph_add_edge(&g, &out), QP_OK);
        }
    }
    assert_int_equal(result_graph_sort(&g), QP_OK);
    source = (uint32_t)nodes[0]->index;
    target = (uint32_t)nodes[90]->index;
    arena_init(&arena, &t.env, 0);
    assert_int_equal(ways_find(&arena,
                               &(struct ways_question){.graph = &g,
                                                       .sources = {&source, 1},
                                                       .targets = {&target, 1},
                                                       .limit = LIMIT_CARTO_WAYS},
                               &ways),
                     QP_OK);
    assert_int_equal(ways.count, LIMIT_CARTO_WAYS);
    assert_true(ways.has_more);
    assert_int_equal(ways.rows[LIMIT_CARTO_WAYS - 1].count, 61);
    arena_done(&arena);
    result_graph_close(&g);
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_many_ways),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
