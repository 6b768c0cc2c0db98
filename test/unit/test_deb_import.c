/* test_deb_import.c - lists become facts: packages, providers, references; broken lists are refused with their line */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "carto/deb_fact.h"
#include "carto/deb_import.h"
#include "support/testenv.h"

static struct testenv t;

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

#define STANZA(name, version, rest)                                                                \
    "Package: " name "\nVersion: " version "\nArchitecture: amd64\n" rest "\n"

/* Imports lists in pieces of `piece` bytes. The table is initialized here and the caller's to free. */
static int import(const char *const *lists, size_t count, size_t piece, struct facts_table *table,
                  struct qp_err *err)
{
    struct deb_import i;
    int rc = QP_OK;
    deb_import_init(&i, &t.env);
    facts_table_init(table, &t.env);
    for (size_t l = 0; rc == QP_OK && l < count; l++) {
        size_t size = strlen(lists[l]);
        for (size_t at = 0; rc == QP_OK && at < size; at += piece) {
            rc = deb_import_feed(&i, (qp_str){lists[l] + at, size - at < piece ? size - at : piece},
                                 err);
        }
        if (rc == QP_OK) {
            rc = deb_import_end_list(&i, err);
        }
    }
    if (rc == QP_OK) {
        rc = deb_import_finish(&i, table, err);
    }
    deb_import_done(&i);
    return rc;
}

static const char *const good[] = {
    STANZA("a", "1", "Depends: b (>= 2) | c,\n d:any\nPre-Depends: e\nProvides: v (= 3), w\n")
        STANZA("b", "2", "Multi-Arch: allowed\nConflicts: a\n"),
    STANZA("a", "1.1", "Depends: b\nProvides: v (= 4)\nTag: x::y,\n z\n") STANZA("a", "0.9", ""),
};

/* The highest version wins with all it provides; the pieces and the order of the lists do not matter. */
static void test_universe(void **state)
{
    const char *const turned[] = {good[1], good[0]};
    char universe[HASH_TEXT_SIZE] = "";
    (void)state;
    for (size_t piece = 1; piece < 200; piece += 7) {
        struct facts_table table;
        struct qp_err err = {0};
        if (import(piece % 2 == 0 ? good : turned, 2, piece, &table, &err) != QP_OK) {
            fail_msg("%s", err.text);
        }
        assert_int_equal(table.fact_count, 3); /* a, b, v */
        if (universe[0] != '\0') {
            assert_string_equal(table.universe, universe);
        }
        memcpy(universe, table.universe, sizeof(universe));
        facts_table_done(&table);
    }
}

/* What a fact says: the package, its relations in order, who provides a name; and the reverse index. */
static void test_facts(void **state)
{
    struct facts_table table;
    struct qp_err err = {0};
    struct carto_facts facts;
    struct deb_fact f;
    struct deb_package package;
    struct deb_relation relation;
    struct deb_provider provider;
    qp_str value = QP_NONE;
    qp_str source = QP_NONE;
    bool is_found = false;
    (void)state;
    assert_int_equal(import(good, 1, 1000, &table, &err), QP_OK);
    facts = facts_table_reader(&table);
    assert_int_equal(facts.get(facts.context, QP_STR("a"), &value), QP_OK);
    assert_int_equal(deb_fact_packages(&f, value, &err), QP_OK);
    assert_int_equal(deb_fact_package(&f, &is_found, &package, &err), QP_OK);
    assert_true(is_found && str_equal(package.version, QP_STR("1")) && package.relation_count == 4);
    assert_int_equal(deb_relation_next(&package.relations, &relation, &err), QP_OK);
    assert_true(relation.field == DEB_PRE_DEPENDS && str_equal(relation.atom.name, QP_STR("e")));
    assert_int_equal(deb_relation_next(&package.relations, &relation, &err), QP_OK);
    assert_true(relation.field == DEB_DEPENDS && relation.atom.more &&
                relation.atom.op == DEB_AT_LEAST && str_equal(relation.atom.version, QP_STR("2")));
    assert_int_equal(facts.get(facts.context, QP_STR("v"), &value), QP_OK);
    assert_int_equal(deb_fact_packages(&f, value, &err), QP_OK);
    assert_int_equal(deb_fact_providers(&f, &err), QP_OK);
    assert_int_equal(deb_fact_provider(&f, &is_found, &provider, &err), QP_OK);
    assert_true(is_found && str_equal(provider.name, QP_STR("a")) &&
                str_equal(provider.version, QP_STR("3")));
    assert_int_equal(facts.get(facts.context, QP_STR("e"), &value), QP_E_NOT_FOUND);
    assert_int_equal(facts.source(facts.context, QP_STR("d:any"), QP_NONE, &source), QP_OK);
    assert_true(str_equal(source, QP_STR("a")));
    assert_int_equal(facts.source(facts.context, QP_STR("d:any"), source, &source), QP_E_NOT_FOUND);
    facts_table_done(&table);
}

/* Every broken list is refused with the line and a sentence. */
static void test_broken(void **state)
{
    static const struct {
        const char *list;
        const char *sentence;
    } cases[] = {
        {STANZA("a", "1", "") "rubbish\n\n", "line 5: expected 'Field: value'"},
        {" Package: a\n\n", "line 1: expected 'Field: value'"},
        {"Package: a\nPackage: b\n\n", "line 2: Package stands twice"},
        {"Package: a\nVersion: 1\n\n", "line 1: the stanza has no Architecture"},
        {"\n\nVersion: 1\nArchitecture: all\n\n", "line 3: the stanza has no Package"},
        {STANZA("a", "1_0", ""), "line 2: bad version"},
        {STANZA("a b", "1", ""), "line 1: Package is not a name"},
        {STANZA("a", "1", "Section: x\nDepends: b (>> )\n"), "line 5: Depends: bad relationship"},
        {STANZA("a", "1", "Provides: b | c\n"), "line 4: Provides takes"},
        {"Package: a\nVersion: 1\nArchitecture: all\n", "line 4: the list is truncated"},
        {"Package: a\nVersion: 1\nArchite", "line 3: the list is truncated"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct facts_table table;
        struct qp_err err = {0};
        assert_int_equal(import(&cases[i].list, 1, 5, &table, &err), QP_E_MALFORMED);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("%s\n%s", cases[i].list, err.text);
        }
        facts_table_done(&table);
    }
}

/* A value that was cut anywhere is refused or ends early; it is never read beyond its end. */
static void test_damaged(void **state)
{
    struct facts_table table;
    struct qp_err err = {0};
    (void)state;
    assert_int_equal(import(good, 2, 1000, &table, &err), QP_OK);
    for (size_t i = 0; i < table.fact_count; i++) {
        for (size_t size = 0; size < table.facts[i].value.n; size++) {
            struct deb_fact f;
            struct deb_provider provider;
            bool is_found = true;
            int rc = deb_fact_packages(&f, (qp_str){table.facts[i].value.p, size}, &err);
            if (rc == QP_OK) {
                rc = deb_fact_providers(&f, &err);
            }
            while (rc == QP_OK && is_found) {
                rc = deb_fact_provider(&f, &is_found, &provider, &err);
            }
            assert_int_equal(rc, QP_E_CORRUPT);
        }
    }
    facts_table_done(&table);
}

/* Every allocation may fail: the import says so, and nothing is left behind. */
static void test_memory(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        struct facts_table table;
        struct qp_err err = {0};
        int rc = QP_OK;
        testenv_fail_at(&t, n);
        rc = import(good, 2, 1000, &table, &err);
        facts_table_done(&table);
        if (!testenv_failed(&t)) {
            assert_int_equal(rc, QP_OK);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
    }
    testenv_fail_at(&t, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_universe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_facts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
