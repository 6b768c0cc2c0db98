/* test_measures.c - how many jobs began when, with what: the parcels of C15, and numbers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"
#include "graph/measures.h"
#include "support/graphrun.h"

static struct graphrun run;

#define HOUR_MS (60 * 60 * 1000)
#define MANY 4000

static void no_work(struct graphcall *c)
{
    (void)c;
}

static size_t most; /* memory that an answer may take; 0: the usual */

static int ask(const char *topic, const char *data, qp_ms range_ms, struct buf *out)
{
    struct arena arena;
    struct qp_err err = {0};
    struct measure_query query = {.ns = STORE_NS_DEFAULT,
                                  .topic = str_from(topic),
                                  .data = str_from(data),
                                  .range_ms = range_ms,
                                  .end_at = run.f.t.now_ms};
    int rc;
    arena_init(&arena, &run.f.t.env, most);
    rc = measures_read(&arena, run.f.s, run.library, run.faces->names, &query, out, &err);
    arena_done(&arena);
    return rc;
}

static struct json *answer(const char *topic, const char *data, qp_ms range_ms)
{
    struct buf out;
    struct json *json = NULL;
    buf_init(&out, &run.f.t.env, 0);
    assert_int_equal(ask(topic, data, range_ms, &out), QP_OK);
    assert_int_equal(json_parse(&run.f.t.env, buf_slice(&out), NULL, &json), QP_OK);
    buf_done(&out);
    return json;
}

static int64_t count_of(const struct json *json)
{
    int64_t count = -1;
    assert_true(json_as_i64(json_get(json, QP_STR("count")), &count));
    return count;
}

static void expect_facet(const struct json *facets, size_t index, const char *name, int64_t count,
                         size_t ids)
{
    const struct json *facet = json_at(facets, index);
    qp_str text = QP_NONE;
    assert_true(json_as_str(json_get(facet, QP_STR("facet")), &text));
    assert_true(str_equal(text, str_from(name)));
    assert_int_equal(count_of(facet), count);
    assert_int_equal(json_count(json_get(facet, QP_STR("ids"))), ids);
}

/* C15: 81 parcels of three sizes, ranks and colours; an hour of five minutes has thirteen segments, both ends included. */
static void parcels_on(enum storetest_kind kind)
{
    static const char *const sizes[] = {"sm", "md", "lg"};
    static const char *const ranks[] = {"primary", "secondary", "tertiary"};
    static const char *const colors[] = {"red", "yellow", "blue"};
    struct json *json;
    const struct json *segments;
    int64_t sum = 0;
    graphrun_init(&run, kind, "do", no_work);
    graphrun_deploy_vector(&run, "c15");
    for (int i = 0; i < 81; i++) {
        char input[256];
        (void)snprintf(input, sizeof input,
                       "{\"id\":\"p_%d\",\"size\":\"%s\",\"rank\":\"%s\",\"color\":\"%s\"}",
                       1001 + i, sizes[i % 3], ranks[i / 3 % 3], colors[i / 9 % 3]);
        assert_int_equal(graphrun_start(&run, "parcel.start", NULL, input), QP_OK);
        if (i == 40) { /* two of the three that are asked for came in another segment */
            graphrun_wait(&run, 10 * 60 * 1000);
        }
    }
    graphrun_settle(&run);
    json =
        answer("parcel.start", "{\"color\":\"red\",\"rank\":\"primary\",\"size\":\"lg\"}", HOUR_MS);
    segments = json_get(json, QP_STR("segments"));
    assert_int_equal(json_count(segments), 13);
    assert_int_equal(count_of(json), 3);
    for (size_t i = 0; i < 13; i++) {
        sum += count_of(json_at(segments, i));
    }
    assert_int_equal(sum, 3);
    assert_int_equal(count_of(json_at(segments, 12)), 1);
    assert_int_equal(json_count(json_get(json, QP_STR("facets"))), 2);
    expect_facet(json_get(json, QP_STR("facets")), 0, "color:red", 27, 27);
    expect_facet(json_get(json, QP_STR("facets")), 1, "rank:primary", 27, 27);
    json_free(json);
    /* Less time: those of before are not counted. */
    json = answer("parcel.start", "{\"color\":\"red\",\"rank\":\"primary\",\"size\":\"lg\"}",
                  60 * 1000);
    assert_int_equal(count_of(json), 1);
    json_free(json);
    json = answer("parcel.start", "{\"color\":\"green\",\"rank\":\"primary\",\"size\":\"lg\"}",
                  HOUR_MS);
    assert_int_equal(count_of(json), 0);
    expect_facet(json_get(json, QP_STR("facets")), 0, "color:green", 0, 0);
    json_free(json);
    graphrun_done(&run);
}

static void test_parcels(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        print_message("%s\n", storetest_name((enum storetest_kind)kind));
        parcels_on((enum storetest_kind)kind);
    }
}

#define SALES                                                                                      \
    "app: {id: sales, version: '1', graphs: [{subscribes: sale, activities: {t: {type: trigger, "  \
    "stats: {key: all, granularity: 1h, measures: [{measure: sum, target: "                        \
    "'{$self.output.data.price}'}]}}}}, {subscribes: plain, activities: {u: {type: trigger}}}]}"

/* Numbers: their sum, mean, ends and middle, of an even and an odd number of jobs. */
static void test_numbers(void **state)
{
    static const char *const wanted[] = {
        "\"price\":{\"sum\":9.0,\"avg\":3.0,\"min\":1.0,\"max\":6.0,\"mdn\":2.0}",
        "\"price\":{\"sum\":19.0,\"avg\":4.75,\"min\":1.0,\"max\":10.0,\"mdn\":4.0}"};
    static const int prices[] = {6, 1, 2, 10};
    struct buf out;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    graphrun_deploy(&run, SALES);
    for (size_t i = 0; i < 4; i++) {
        char input[64];
        (void)snprintf(input, sizeof input, "{\"price\":%d}", prices[i]);
        assert_int_equal(graphrun_start(&run, "sale",
                                        i < 2   ? i < 1 ? "a" : "b"
                                        : i < 3 ? "c"
                                                : "d",
                                        input),
                         QP_OK);
        graphrun_settle(&run);
        if (i >= 2) {
            buf_init(&out, &run.f.t.env, 0);
            assert_int_equal(ask("sale", "{}", HOUR_MS, &out), QP_OK);
            buf_byte(&out, '\0');
            if (strstr(out.p, wanted[i - 2]) == NULL) {
                fail_msg("no %s in %s", wanted[i - 2], out.p);
            }
            buf_done(&out);
        }
    }
    graphrun_done(&run);
}

/* What is remembered of a job is little, and nothing of those that are too old: however many there are. */
static void test_many(void **state)
{
    struct buf out;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    graphrun_deploy(&run, SALES);
    for (int i = 0; i < MANY; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", i);
        assert_int_equal(graphrun_start(&run, "sale", id, "{\"price\":1}"), QP_OK);
        if (i % (MANY / 20) == 0) {
            graphrun_wait(&run, HOUR_MS);
        }
    }
    buf_init(&out, &run.f.t.env, 0);
    most = (size_t)MANY * 160;
    assert_int_equal(ask("sale", "{}", 10 * HOUR_MS, &out), QP_OK);
    most = 0;
    buf_done(&out);
    graphrun_done(&run);
}

static void test_refused(void **state)
{
    struct buf out;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    graphrun_deploy(&run, SALES);
    buf_init(&out, &run.f.t.env, 0);
    assert_int_equal(ask("plain", "{}", HOUR_MS, &out), QP_E_NOT_FOUND);
    assert_int_equal(ask("nobody", "{}", HOUR_MS, &out), QP_E_NOT_FOUND);
    assert_int_equal(ask("sale", "{}", 0, &out), QP_E_INVALID);
    assert_int_equal(ask("sale", "{}", -1, &out), QP_E_INVALID);
    assert_int_equal(ask("sale", "{}", (qp_ms)LIMIT_SEGMENTS * HOUR_MS, &out), QP_E_INVALID);
    buf_done(&out);
    graphrun_done(&run);
}

static void test_memory(void **state)
{
    bool done = false;
    (void)state;
    graphrun_init(&run, STORETEST_MEMORY, "do", no_work);
    graphrun_deploy(&run, SALES);
    assert_int_equal(graphrun_start(&run, "sale", "a", "{\"price\":1}"), QP_OK);
    graphrun_settle(&run);
    for (int64_t n = 1; !done; n++) {
        struct buf out;
        int rc;
        assert_true(n < 1000);
        testenv_fail_at(&run.f.t, n);
        buf_init(&out, &run.f.t.env, 0);
        rc = ask("sale", "{}", HOUR_MS, &out);
        done = !testenv_failed(&run.f.t);
        testenv_fail_at(&run.f.t, 0);
        assert_int_equal(rc, done ? QP_OK : QP_E_NOMEM);
        buf_done(&out);
    }
    graphrun_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parcels), cmocka_unit_test(test_numbers), cmocka_unit_test(test_many),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
