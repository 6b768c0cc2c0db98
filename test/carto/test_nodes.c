/* test_nodes.c - workers of traversals: any number of threads, and nodes that serve some of the steps, give the same bytes
 *
 * The list is generated: packages that need each other, with a cycle and a name that is not there. The bytes to compare with are
 * those of the same request without `split`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/deb_import.h"
#include "carto/import.h"
#include "run/traversals.h"
#include "support/runtest.h"
#include "support/storetest.h"

#define PACKAGES 24
#define REQUEST                                                                                    \
    "{\"roots\":[\"deb:p0\"],\"deb\":{\"closure\":\"A\"},\"format\":{\"node\":[\"{$index}\",\"{$item.purl}\"]}"
#define FUSED REQUEST "}"
#define SPLIT REQUEST ",\"split\":true}"

static void must(int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        print_error("%s\n", err->text);
        fail();
    }
}

static void write_list(struct buf *text)
{
    for (int i = 0; i < PACKAGES; i++) {
        buf_printf(text,
                   "Package: p%d\nVersion: 1.%d\nArchitecture: amd64\n"
                   "Depends: p%d, p%d | q, p%d (>= 1)\n\n",
                   i, i, (i + 1) % PACKAGES, (i * 7 + 3) % PACKAGES, (i * 3) % PACKAGES);
    }
}

static void import_list(qp *q)
{
    static struct import_fact rows[4 * PACKAGES];
    struct traversal_page page = {.type = QP_STR("deb"), .facts = rows};
    struct facts_table table;
    struct deb_import import;
    struct buf text;
    struct qp_err err = {0};
    buf_init(&text, &rt.env, 0);
    write_list(&text);
    deb_import_init(&import, &rt.env);
    facts_table_init(&table, &rt.env);
    must(deb_import_feed(&import, buf_slice(&text), &err), &err);
    must(deb_import_end_list(&import, &err), &err);
    must(deb_import_finish(&import, &table, &err), &err);
    assert_true(table.fact_count <= ARRAY_COUNT(rows));
    for (size_t i = 0; i < table.fact_count; i++) {
        rows[i] = (struct import_fact){FACT_VALUE, table.facts[i].name, table.facts[i].value};
    }
    page.universe = str_from(table.universe);
    page.fact_count = table.fact_count;
    page.complete = (int64_t)table.fact_count;
    must(traversals_import(q, &page, &err), &err);
    assert_true(page.out_current);
    facts_table_done(&table);
    deb_import_done(&import);
    buf_done(&text);
}

static int keep(void *context, const char *bytes, size_t size)
{
    buf_add(context, bytes, size);
    return buf_rc(context);
}

/* Runs a request to its end, and adds its bytes. */
static void traverse(qp *q, const char *id, const char *body, struct buf *out)
{
    struct qp_err err = {0};
    rt_start_with(q, &(struct qp_start){
                         .topic = QP_STR("carto"), .id = str_from(id), .input = str_from(body)});
    rt_wait(q, id, "completed");
    for (enum carto_format f = CARTO_JSON; f < CARTO_FORMATS; f++) {
        must(traversals_result(q, QP_NONE, str_from(id), f, out, keep, &err), &err);
    }
}

static void expect_same(qp *q, const char *id, const struct buf *expected)
{
    struct buf got;
    buf_init(&got, &rt.env, 0);
    traverse(q, id, SPLIT, &got);
    assert_true(expected->n > 1000);
    assert_int_equal(got.n, expected->n);
    assert_memory_equal(got.p, expected->p, got.n);
    buf_done(&got);
}

static qp *open_node(const char *topics, int threads)
{
    struct qp_err err = {0};
    qp *q = rt_open(rt_place);
    must(traversals_serve(q, topics, &err), &err);
    must(qp_start_threads(q, threads, &err), &err);
    return q;
}

/* One, four and sixteen threads take the tasks of the steps. */
static void test_threads(void **state)
{
    static const int threads[] = {1, 4, 16};
    (void)state;
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        struct buf expected;
        rt_begin_on(kind);
        buf_init(&expected, &rt.env, 0);
        for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
            char id[16];
            qp *q = open_node(NULL, threads[i]);
            if (i == 0) {
                import_list(q);
                traverse(q, "fused", FUSED, &expected);
            }
            (void)snprintf(id, sizeof id, "split%d", threads[i]);
            expect_same(q, id, &expected);
            rt_close(q);
        }
        buf_done(&expected);
        rt_check(rt_place, 1 + ARRAY_COUNT(threads));
        rt_end();
    }
}

/* Two nodes share a database: one works on RESOLVE alone, and the other one on all else. Neither could end the traversal by itself. */
static void test_nodes(void **state)
{
    struct buf expected;
    qp *resolves;
    qp *others;
    (void)state;
    if (rt_kinds() <= RT_SERVER) {
        return;
    }
    rt_begin_on(RT_SERVER);
    buf_init(&expected, &rt.env, 0);
    resolves = open_node("carto.resolve.deb", 2);
    others = open_node("carto.select.deb,carto.traverse.deb,carto.format", 2);
    import_list(others);
    traverse(others, "fused", FUSED, &expected);
    expect_same(others, "split", &expected);
    expect_same(resolves, "split2", &expected);
    rt_close(resolves);
    rt_close(others);
    buf_done(&expected);
    rt_check(rt_place, 3);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
