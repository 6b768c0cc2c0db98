/* conform_facts.c - facts and their universes: imports that are seen whole or not at all */
#include "store/conform.h"

#define DEB QP_STR("deb")

static char large[LIMIT_PAYLOAD_HARD_SIZE + 1];

static struct op_universe_open opened(struct storetest *f, const char *name)
{
    return RUN(f, universe_open, .ns = NS, .type = DEB, .name = str_from(name));
}

static struct op fact(int64_t universe, const char *name, const char *value)
{
    return OP(fact_put, .ns = NS, .universe = universe, .name = str_from(name),
              .value = str_from(value));
}

static struct op seal(int64_t universe, int64_t facts)
{
    return OP(universe_seal, .ns = NS, .universe = universe, .facts = facts);
}

static const struct universe_row *universe_row(struct storetest *f, int64_t universe)
{
    return storetest_row(f, TABLE_universe, &(struct universe_row){.ns = NS, .universe = universe});
}

static const struct fact_row *fact_row(struct storetest *f, int64_t universe, const char *name)
{
    return storetest_row(
        f, TABLE_fact, &(struct fact_row){.ns = NS, .universe = universe, .name = str_from(name)});
}

/* Proves that a universe is found by its type and name, and that an import that was cut off goes on: facts that are put
 * again replace themselves and are counted once. */
static void test_import(void **state)
{
    struct storetest *f = *state;
    int64_t u = opened(f, "one").out_universe;
    assert_true(u > 0);
    assert_int_equal(universe_row(f, u)->state, UNIVERSE_FILLING);
    DO(f, fact(u, "curl", "1"), fact(u, "libc6", "2"));
    storetest_reopen(f);
    assert_int_equal(opened(f, "one").out_universe, u);
    DO(f, fact(u, "curl", "3"),
       OP(fact_put, .ns = NS, .universe = u, .fact_kind = FACT_SOURCES, .name = QP_STR("curl"),
          .value = QP_STR("libc6"), .ttl_ms = 5));
    assert_int_equal(universe_row(f, u)->facts, 3);
    assert_str(fact_row(f, u, "curl")->value, QP_STR("3"));
    assert_int_equal(fact_row(f, u, "curl")->expire_at, 0);
    assert_true(opened(f, "two").out_universe != u);
    (void)REFUSED(f, QP_E_CONFLICT,
                  OP(universe_open, .ns = NS, .type = DEB, .name = QP_STR("one"), .grows = true));
    (void)REFUSED(f, QP_E_INVALID, OP(universe_open, .ns = NS, .type = DEB));
    (void)REFUSED(f, QP_E_INVALID, OP(universe_open, .ns = NS, .name = DEB));
    (void)REFUSED(f, QP_E_NOT_FOUND,
                  OP(universe_open, .ns = NS + 7, .type = DEB, .name = QP_STR("one")));
}

/* Proves that a universe becomes current only when it is whole, takes nothing after that, and that the one before it
 * stays as it was. */
static void test_seal(void **state)
{
    struct storetest *f = *state;
    int64_t one = opened(f, "one").out_universe;
    int64_t two = opened(f, "two").out_universe;
    DO(f, fact(one, "curl", "1"), fact(two, "curl", "2"));
    (void)REFUSED(f, QP_E_CONFLICT, seal(one, 2));
    (void)REFUSED(f, QP_E_NOT_FOUND, seal(one + two, 1));
    assert_int_equal(conform_run(f, seal(one, 1), __FILE__, __LINE__).universe_seal.out_was, 0);
    assert_int_equal(conform_run(f, seal(one, 1), __FILE__, __LINE__).universe_seal.out_was, one);
    assert_int_equal(universe_row(f, one)->state, UNIVERSE_CURRENT);
    assert_int_equal(universe_row(f, one)->current_at, store_now(f->s));
    (void)REFUSED(f, QP_E_CONFLICT, fact(one, "curl", "9"));
    assert_int_equal(conform_run(f, seal(two, 1), __FILE__, __LINE__).universe_seal.out_was, one);
    assert_int_equal(universe_row(f, one)->state, UNIVERSE_FORMER);
    assert_str(fact_row(f, one, "curl")->value, QP_STR("1"));
    (void)REFUSED(f, QP_E_CONFLICT, fact(one, "curl", "9"));
    assert_int_equal(conform_run(f, seal(one, 1), __FILE__, __LINE__).universe_seal.out_was, two);
    assert_int_equal(opened(f, "one").out_state, UNIVERSE_CURRENT);
}

/* Proves that one that grows takes facts as long as it is there, with an end of their time, and is never current. */
static void test_grows(void **state)
{
    struct storetest *f = *state;
    int64_t u = RUN(f, universe_open, .ns = NS, .type = DEB, .name = QP_STR("n"), .grows = true)
                    .out_universe;
    DO(f, OP(fact_put, .ns = NS, .universe = u, .name = QP_STR("left-pad"), .ttl_ms = 5));
    assert_int_equal(fact_row(f, u, "left-pad")->expire_at, store_now(f->s) + 5);
    DO(f, fact(u, "left-pad", "1.3.0"));
    assert_int_equal(fact_row(f, u, "left-pad")->expire_at, 0);
    assert_int_equal(universe_row(f, u)->facts, 1);
    (void)REFUSED(f, QP_E_CONFLICT, seal(u, 1));
}

/* Proves what is refused of a fact. */
static void test_fact_refused(void **state)
{
    struct storetest *f = *state;
    int64_t u = opened(f, "one").out_universe;
    struct op too_large = fact(u, "curl", "");
    struct op bad = fact(u, "curl", "");
    too_large.fact_put.value = (qp_str){large, sizeof large};
    (void)REFUSED(f, QP_E_TOO_LARGE, too_large);
    bad.fact_put.fact_kind = FACT_KINDS;
    (void)REFUSED(f, QP_E_INVALID, bad);
    bad.fact_put.fact_kind = -1;
    (void)REFUSED(f, QP_E_INVALID, bad);
    (void)REFUSED(f, QP_E_INVALID, fact(u, "", ""));
    (void)REFUSED(f, QP_E_NOT_FOUND, fact(u + 1, "curl", ""));
    assert_int_equal(universe_row(f, u)->facts, 0);
}

/* Proves that a universe goes in pages, takes nothing from the first of them on, and that the current one stays. */
static void test_drop(void **state)
{
    struct storetest *f = *state;
    int64_t u = opened(f, "one").out_universe;
    int64_t other = opened(f, "two").out_universe;
    struct op page = OP(universe_drop, .ns = NS, .universe = u, .limit = 2);
    DO(f, fact(u, "a", "1"), fact(u, "b", "1"), fact(u, "c", "1"), fact(other, "a", "2"));
    DO(f, seal(u, 3));
    (void)REFUSED(f, QP_E_CONFLICT, page);
    DO(f, seal(other, 1));
    assert_true(conform_run(f, page, __FILE__, __LINE__).universe_drop.out_more);
    assert_null(fact_row(f, u, "b"));
    assert_non_null(fact_row(f, u, "c"));
    (void)REFUSED(f, QP_E_CONFLICT, fact(u, "a", "1"));
    (void)REFUSED(f, QP_E_CONFLICT, seal(u, 1));
    (void)REFUSED(f, QP_E_CONFLICT,
                  OP(universe_open, .ns = NS, .type = DEB, .name = QP_STR("one")));
    assert_false(conform_run(f, page, __FILE__, __LINE__).universe_drop.out_more);
    assert_null(universe_row(f, u));
    (void)REFUSED(f, QP_E_NOT_FOUND, page);
    assert_str(fact_row(f, other, "a")->value, QP_STR("2"));
    page.universe_drop.limit = 0;
    (void)REFUSED(f, QP_E_INVALID, page);
}

/* Proves that a universe can cease to be current without another one in its place, and come back. */
static void test_retire(void **state)
{
    struct storetest *f = *state;
    int64_t u = opened(f, "one").out_universe;
    struct op retire = OP(universe_retire, .ns = NS, .universe = u);
    DO(f, fact(u, "a", "1"));
    (void)REFUSED(f, QP_E_CONFLICT, retire);
    DO(f, seal(u, 1));
    DO(f, retire);
    assert_int_equal(universe_row(f, u)->state, UNIVERSE_FORMER);
    DO(f, retire);
    DO(f, seal(u, 1));
    assert_int_equal(universe_row(f, u)->state, UNIVERSE_CURRENT);
    assert_str(fact_row(f, u, "a")->value, QP_STR("1"));
    retire.universe_retire.universe = u + 1;
    (void)REFUSED(f, QP_E_NOT_FOUND, retire);
}

static const struct CMUnitTest tests[] = {
    CONFORM(test_import),       CONFORM(test_seal), CONFORM(test_grows),
    CONFORM(test_fact_refused), CONFORM(test_drop), CONFORM(test_retire),
};
CONFORM_TOPIC(facts);
