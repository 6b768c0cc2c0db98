/* test_filter.c - filters: what is one, what is none and where, and which jobs they take */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel/filter.h"
#include "support/arenatest.h"

#define NOW INT64_C(1769850487000) /* 2026-01-31T09:08:07Z */

static struct filter compiled(const char *where)
{
    struct filter f;
    struct qp_err err;
    int rc = filter_compile(&at_arena, str_from(where), NOW, &f, &err);
    if (rc != QP_OK) {
        fail_msg("%s: %s", where, err.text);
    }
    return f;
}

static const struct job_row job = {.jid = {"order-17", 8},
                                   .workflow = {"checkout", 8},
                                   .status = STATUS_FAILED,
                                   .created_at = NOW - 3600 * 1000,
                                   .updated_at = NOW - 60 * 1000,
                                   .closed_at = NOW - 60 * 1000};

/* Proves every field with every operator, on one job. */
static void test_takes(void **state)
{
    static const struct {
        const char *where;
        bool takes;
    } cases[] = {
        {"", true},
        {"  ", true},
        {"status=failed", true},
        {"status = failed", true},
        {"status=running", false},
        {"status!=failed", false},
        {"status!=running", true},
        {"workflow=checkout", true},
        {"topic=checkout", true},
        {"workflow=\"checkout\"", true},
        {"workflow='checkout'", true},
        {"id!='it\\'s'", true},
        {"workflow=check", false},
        {"workflow!=check", true},
        {"id=order-17", true},
        {"id=order-1", false},
        {"id^=order-1", true},
        {"id^=rder", false},
        {"id!=\"x\"", true},
        {"started>-2h", true},
        {"started>-30m", false},
        {"started<-30m", true},
        {"started>=2026-01-31T08:08:07Z", true},
        {"started<=2026-01-31T08:08:07Z", true},
        {"started=2026-01-31T08:08:07Z", true},
        {"started>2026-01-31T08:08:07Z", false},
        {"started<2026-01-31T08:08:07Z", false},
        {"started!=2026-01-31T08:08:07Z", false},
        {"updated>-61s", true},
        {"updated>-59s", false},
        {"ended>-61s", true},
        {"ended!=-1d", true},
        {"status=failed and workflow=\"checkout\" and started>-2h", true},
        {"status=failed and workflow=other and started>-2h", false},
        {"status=failed\nand\tworkflow=checkout", true},
        {"status=open", false},
        {"status!=open", true},
        {"status=open or status=failed", true},
        {"status=failed or status=open", true},
        {"status=parked or status=completed", false},
        {"workflow=other and status=failed or id=order-17", true},
        {"id=order-17 or workflow=other and status=failed", true}, /* `and` binds more closely */
        {"id=x or workflow=other and status=failed or started>-30m", false},
        {"workflow=checkout and status=open or workflow=checkout and id=y", false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct filter f = compiled(cases[i].where);
        if (filter_takes(&f, &job) != cases[i].takes) {
            fail_msg("%s: wrong", cases[i].where);
        }
    }
}

/* Proves that of a job that has not ended only != is true. */
static void test_not_ended(void **state)
{
    struct job_row open = job;
    struct filter f = compiled("ended<-1s");
    open.closed_at = 0;
    assert_false(filter_takes(&f, &open));
    f = compiled("ended!=-1s");
    assert_true(filter_takes(&f, &open));
}

/* Proves that properties are compared as numbers where both sides are some, else as texts, that only numbers have an order,
 * and that none is other than any. */
static void test_properties(void **state)
{
    static const struct {
        const char *where;
        const char *json; /* NULL: the job has it not */
        const char *text; /* of a string; NULL: as the JSON */
        bool takes;
    } cases[] = {
        {"properties.status=\"paid\"", "\"paid\"", "paid", true},
        {"properties.status=paid", "\"paid\"", "paid", true},
        {"properties.status=paid", "\"unpaid\"", "unpaid", false},
        {"properties.status!=paid", "\"unpaid\"", "unpaid", true},
        {"properties.status!=paid", NULL, NULL, true},
        {"properties.status=paid", NULL, NULL, false},
        {"properties.status^=pa", "\"paid\"", "paid", true},
        {"properties.status^=pa", NULL, NULL, false},
        {"properties.n=1", "1.0", NULL, true},
        {"properties.n=1", "\"1\"", "1", true},
        {"properties.n!=1", "1e0", NULL, false},
        {"properties.n>9", "10", NULL, true},
        {"properties.n>=10", "10", NULL, true},
        {"properties.n<-0.5", "-1E+0", NULL, true},
        {"properties.n<=-2", "-1", NULL, false},
        {"properties.n<z", "1", NULL, false},
        {"properties.n>1", "\"2\"", "2", false},
        {"properties.n>1", NULL, NULL, false},
        {"properties.n=1e", "1", NULL, false},
        {"properties.b=true", "true", NULL, true},
        {"properties.o=\"[1]\"", "[1]", NULL, true},
        {"properties.a.b-c~d:e=1", "1", NULL, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct filter f = compiled(cases[i].where);
        qp_str json = cases[i].json == NULL ? QP_NONE : str_from(cases[i].json);
        qp_str text = cases[i].text == NULL ? json : str_from(cases[i].text);
        assert_int_equal(f.count, 1);
        assert_int_equal(f.conditions[0].field, FILTER_PROPERTY);
        assert_false(filter_is_counted(&f));
        assert_null(filter_way_in(&f));
        if (filter_takes_property(&f.conditions[0], json, text) != cases[i].takes) {
            fail_msg("%s of %s", cases[i].where, cases[i].json);
        }
    }
}

/* Proves that attributes are compared as texts, escapes included, and that none is other than any. */
static void test_attributes(void **state)
{
    struct filter f = compiled("attr.customer=\"a \\\"b\\\" \\\\c\"");
    assert_int_equal(f.count, 1);
    assert_true(str_equal(f.conditions[0].name, QP_STR("customer")));
    assert_true(filter_takes(&f, &job)); /* that is asked by itself */
    assert_true(filter_takes_attr(&f.conditions[0], QP_STR("a \"b\" \\c")));
    assert_false(filter_takes_attr(&f.conditions[0], QP_STR("a")));
    assert_false(filter_takes_attr(&f.conditions[0], QP_NONE));
    f = compiled("attr.a.b!=\"\" and attr.x^=ab");
    assert_true(filter_takes_attr(&f.conditions[0], QP_NONE));
    assert_false(filter_takes_attr(&f.conditions[0], QP_STR("")));
    assert_true(filter_takes_attr(&f.conditions[1], QP_STR("abc")));
    assert_false(filter_takes_attr(&f.conditions[1], QP_NONE));
}

/* Proves that what is no filter is refused, with its place. */
static void test_refused(void **state)
{
    static const struct {
        const char *where;
        const char *says;
    } cases[] = {
        {"state=failed", "character 1"},
        {"status=failed and size>3", "character 19"},
        {"status", "at its end"},
        {"status failed", "character 8"},
        {"status~failed", "character 1: 'status~failed'"},
        {"status<failed", "character 7"},
        {"status^=failed", "character 7"},
        {"workflow>a", "character 9"},
        {"started^=-1h", "character 8"},
        {"status=", "value is missing at its end"},
        {"status=done", "character 8"},
        {"status=failed xor status=parked", "character 15"},
        {"status=failed or", "at its end"},
        {"or status=failed", "character 1"},
        {"status=failed or and id=x", "character 18"},
        {"id=open or started=open", "character 20"},
        {"status=failed and", "at its end"},
        {"status=failed status=parked", "character 15"},
        {"started>yesterday", "character 9"},
        {"started>-2x", "character 9"},
        {"started>2026-02-30T00:00:00Z", "character 9"},
        {"id=\"x", "character 4"},
        {"id=\"x\\n\"", "character 6"},
        {"id=x'", "character 5"},
        {"attr.=x", "character 1"},
        {"properties.=x", "character 1"},
        {"properties.a~x", "an operator is missing"},
        {"=x", "character 1"},
        {"status==failed", "character 8"},
        {"status=failed and ", "at its end"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct filter f = {.count = 77};
        struct qp_err err;
        int rc = filter_compile(&at_arena, str_from(cases[i].where), NOW, &f, &err);
        if (rc != QP_E_INVALID || strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%s: %d %s", cases[i].where, rc, rc == QP_OK ? "" : err.text);
        }
        assert_int_equal(f.count, 77);
    }
}

/* Proves the limits: of the text, and of conditions. */
static void test_limits(void **state)
{
    static char text[LIMIT_FILTER_SIZE + 2];
    struct filter f;
    struct qp_err err;
    size_t n = 0;
    for (int i = 0; i < LIMIT_FILTER_CONDITIONS; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%sid!=%d", i > 0 ? " and " : "", i);
    }
    f = compiled(text);
    assert_int_equal(f.count, LIMIT_FILTER_CONDITIONS);
    (void)snprintf(text + n, sizeof text - n, " and id!=x");
    assert_int_equal(filter_compile(&at_arena, str_from(text), NOW, &f, &err), QP_E_INVALID);
    assert_non_null(strstr(err.text, "too many"));
    memset(text, ' ', sizeof text);
    assert_int_equal(filter_compile(&at_arena, (qp_str){text, LIMIT_FILTER_SIZE}, NOW, &f, &err),
                     QP_OK);
    assert_int_equal(
        filter_compile(&at_arena, (qp_str){text, LIMIT_FILTER_SIZE + 1}, NOW, &f, &err),
        QP_E_INVALID);
}

/* Proves which condition leads to the fewest rows. */
static void test_way_in(void **state)
{
    struct filter f = compiled("status=failed and attr.a=1 and workflow=w");
    assert_int_equal(filter_way_in(&f)->field, FILTER_ATTR);
    f = compiled("status=failed and id=x");
    assert_int_equal(filter_way_in(&f)->field, FILTER_ID);
    f = compiled("workflow=w and status=parked");
    assert_int_equal(filter_way_in(&f)->field, FILTER_STATUS);
    f = compiled("status=running and attr.a!=1 and id^=x");
    assert_null(filter_way_in(&f));
    f = compiled("status=completed");
    assert_null(filter_way_in(&f));
    f = compiled("status=open");
    assert_null(filter_way_in(&f));
    f = compiled("status=failed or id=x"); /* neither finds what the other one takes */
    assert_null(filter_way_in(&f));
}

/* Proves what counters know, and where a list by time ends. */
static void test_counted_and_past(void **state)
{
    struct counter_row counter = {.workflow = QP_STR("w"), .status = STATUS_FAILED, .n = 3};
    struct job_row old = {.created_at = NOW - 3 * 3600 * 1000};
    struct filter f = compiled("status=failed and workflow!=x");
    assert_true(filter_is_counted(&f));
    assert_true(filter_takes_counter(&f, &counter));
    counter.status = STATUS_RUNNING;
    assert_false(filter_takes_counter(&f, &counter));
    f = compiled("status=failed and started>-2h");
    assert_false(filter_is_counted(&f));
    assert_true(filter_is_past(&f, &old, true));
    assert_false(filter_is_past(&f, &old, false));
    assert_false(filter_is_past(&f, &job, true));
    f = compiled("status=open or status=failed and workflow=w");
    assert_true(filter_is_counted(&f));
    assert_true(filter_takes_counter(&f, &counter));
    counter.status = STATUS_COMPLETED;
    assert_false(filter_takes_counter(&f, &counter));
    f = compiled("started>-2h or started>-1h");
    assert_true(filter_is_past(&f, &old, true));
    f = compiled("started>-2h or status=failed");
    assert_false(filter_is_past(&f, &old, true));
    f = compiled("started<-4h");
    assert_true(filter_is_past(&f, &old, false));
    assert_false(filter_is_past(&f, &old, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_takes, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_not_ended, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_attributes, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_properties, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_refused, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_limits, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_way_in, at_setup, at_teardown),
        cmocka_unit_test_setup_teardown(test_counted_and_past, at_setup, at_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
