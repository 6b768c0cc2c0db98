/* test_metrics.c - counters, gauges, histograms and their text */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "base/metrics.h"
#include "support/testenv.h"

static struct testenv t;
static struct metrics *m;

static const struct metric_spec requests = {
    .name = "requests_total", .help = "Requests.", .kind = METRIC_COUNTER};
static const struct metric_spec depth = {.name = "depth", .help = "Queue.", .kind = METRIC_GAUGE};
static const double bounds[] = {0.1, 1, 2.5};
static const struct metric_spec latency = {.name = "latency_seconds",
                                           .help = "How long\nand \\ why.",
                                           .kind = METRIC_HISTOGRAM,
                                           .bounds = bounds,
                                           .bound_count = ARRAY_COUNT(bounds)};

static int start(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    return metrics_create(&t.env, &m);
}

static int finish(void **state)
{
    (void)state;
    metrics_destroy(m);
    testenv_done(&t);
    return 0;
}

static struct metric *opened(const struct metric_spec *spec, const qp_str *labels, size_t count)
{
    struct metric *metric = NULL;
    struct qp_err err = {0};

    if (metrics_open(m, spec, labels, count, &err, &metric) != QP_OK) {
        fail_msg("%s", err.text);
    }
    return metric;
}

static void assert_text(const char *expected)
{
    struct buf b;

    buf_init(&b, &t.env, 0);
    metrics_text(m, &b);
    buf_byte(&b, '\0');
    assert_int_equal(buf_rc(&b), QP_OK);
    assert_string_equal(b.p, expected);
    buf_done(&b);
}

/* The whole text format, byte for byte: order, HELP, TYPE, escapes, buckets. */
static void text_format(void **state)
{
    const qp_str post[] = {QP_STR("method"), QP_STR("POST"), QP_STR("path"), QP_STR("/a\"b\\c\nd")};
    const qp_str get[] = {QP_STR("method"), QP_STR("GET"), QP_STR("path"), QP_STR("\xFF")};
    const qp_str stream[] = {QP_STR("stream"), QP_STR("x")};
    static const double values[] = {0.05, 0.1, 0.5, 2.5, 100, NAN};

    (void)state;
    metric_add(opened(&requests, post, 4), 2);
    metric_add(opened(&requests, get, 4), 1);
    metric_add(opened(&requests, post, 4), 3);
    metric_set(opened(&depth, NULL, 0), 7);
    metric_add(opened(&depth, NULL, 0), -10);
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        metric_observe(opened(&latency, NULL, 0), values[i]);
    }
    metric_observe(opened(&latency, stream, 2), 1);
    assert_text("# HELP depth Queue.\n"
                "# TYPE depth gauge\n"
                "depth -3\n"
                "# HELP latency_seconds How long\\nand \\\\ why.\n"
                "# TYPE latency_seconds histogram\n"
                "latency_seconds_bucket{le=\"0.1\"} 2\n"
                "latency_seconds_bucket{le=\"1.0\"} 3\n"
                "latency_seconds_bucket{le=\"2.5\"} 4\n"
                "latency_seconds_bucket{le=\"+Inf\"} 5\n"
                "latency_seconds_sum 103.15\n"
                "latency_seconds_count 5\n"
                "latency_seconds_bucket{stream=\"x\",le=\"0.1\"} 0\n"
                "latency_seconds_bucket{stream=\"x\",le=\"1.0\"} 1\n"
                "latency_seconds_bucket{stream=\"x\",le=\"2.5\"} 1\n"
                "latency_seconds_bucket{stream=\"x\",le=\"+Inf\"} 1\n"
                "latency_seconds_sum{stream=\"x\"} 1.0\n"
                "latency_seconds_count{stream=\"x\"} 1\n"
                "# HELP requests_total Requests.\n"
                "# TYPE requests_total counter\n"
                "requests_total{method=\"GET\",path=\"\xEF\xBF\xBD\"} 1\n"
                "requests_total{method=\"POST\",path=\"/a\\\"b\\\\c\\nd\"} 5\n");
}

/* Sums that are not finite are still text that Prometheus reads. */
static void infinite_sums(void **state)
{
    const struct metric_spec spec = {.name = "h", .help = "", .kind = METRIC_HISTOGRAM};

    (void)state;
    metric_observe(opened(&spec, NULL, 0), INFINITY);
    assert_text("# HELP h \n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum +Inf\nh_count 1\n");
    metric_observe(opened(&spec, NULL, 0), -INFINITY);
    assert_text("# HELP h \n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum NaN\nh_count 2\n");
}

/* The same name and labels are the same series; another kind is a conflict. */
static void same_labels_same_series(void **state)
{
    const qp_str a[] = {QP_STR("k"), QP_STR("a")};
    const qp_str b[] = {QP_STR("k"), QP_STR("b")};
    struct metric_spec gauge = requests;
    struct metric *metric = NULL;
    struct qp_err err = {0};

    (void)state;
    assert_ptr_equal(opened(&requests, a, 2), opened(&requests, a, 2));
    assert_ptr_not_equal(opened(&requests, a, 2), opened(&requests, b, 2));
    gauge.kind = METRIC_GAUGE;
    assert_int_equal(metrics_open(m, &gauge, a, 2, &err, &metric), QP_E_CONFLICT);
    assert_string_equal(err.text, "metric requests_total: registered as another kind");
    assert_null(metric);
}

/* Names, keys, lists and bounds that the format does not allow. */
static void bad_specs_are_refused(void **state)
{
    static const char *const names[] = {"", "1a", "a-b", "a b", "\xC3\xA9"};
    static const char *const keys[] = {"", "1a", "a:b", "le", "a\n"};
    static const double falling[] = {1, 1};
    static const double endless[] = {1, INFINITY};
    const struct metric_spec bad[] = {
        {"h", "", METRIC_HISTOGRAM, falling, 2},
        {"h", "", METRIC_HISTOGRAM, endless, 2},
        {"h", "", METRIC_HISTOGRAM, falling, 1000},
        {"h", "", METRIC_COUNTER, falling, 1},
    };
    struct metric *metric = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const struct metric_spec spec = {.name = names[i], .help = ""};

        assert_int_equal(metrics_open(m, &spec, NULL, 0, NULL, &metric), QP_E_INVALID);
    }
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        const qp_str labels[] = {str_from(keys[i]), QP_STR("v")};

        assert_int_equal(metrics_open(m, &requests, labels, 2, NULL, &metric), QP_E_INVALID);
        assert_int_equal(metrics_open(m, &requests, labels, 1, NULL, &metric), QP_E_INVALID);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(metrics_open(m, &bad[i], NULL, 0, NULL, &metric), QP_E_INVALID);
    }
    assert_text("");
}

/* Beyond the limit of series all further ones are counted together, and the sum is right. */
static void too_many_series_are_other(void **state)
{
    enum { COUNT = LIMIT_METRIC_SERIES + 100 };
    struct metric *other = NULL;
    char value[16];
    struct buf b;

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            qp_str labels[] = {QP_STR("job"), {value, 0}};
            struct metric *metric;

            labels[1].n = (size_t)snprintf(value, sizeof(value), "%d", i);
            metric = opened(&requests, labels, 2);
            metric_add(metric, 1);
            other = i == LIMIT_METRIC_SERIES ? metric : other;
            assert_true(i < LIMIT_METRIC_SERIES || metric == other);
        }
    }
    buf_init(&b, &t.env, 0);
    metrics_text(m, &b);
    buf_byte(&b, '\0');
    assert_non_null(strstr(b.p, "requests_total{job=\"other\"} 200\n"));
    assert_non_null(strstr(b.p, "requests_total{job=\"499\"} 2\n"));
    assert_null(strstr(b.p, "job=\"500\""));
    buf_done(&b);
}

/* Families have a limit, too; those that are there go on working. */
static void too_many_families_are_refused(void **state)
{
    struct metric *metric = NULL;
    struct qp_err err = {0};
    char name[16];
    struct metric_spec spec = {.name = name, .help = "", .kind = METRIC_COUNTER};

    (void)state;
    for (int i = 0; i < LIMIT_METRICS; i++) {
        (void)snprintf(name, sizeof(name), "m%d", i);
        (void)opened(&spec, NULL, 0);
    }
    (void)snprintf(name, sizeof(name), "one_more");
    assert_int_equal(metrics_open(m, &spec, NULL, 0, &err, &metric), QP_E_LIMIT);
    assert_string_equal(err.text, "metric one_more: more than 256 metrics");
    (void)snprintf(name, sizeof(name), "m7");
    assert_non_null(opened(&spec, NULL, 0));
}

/* A label value of any length is cut between characters. */
static void long_values_are_cut(void **state)
{
    static char value[1000];
    qp_str labels[] = {QP_STR("k"), {value, sizeof(value)}};
    struct buf b;

    (void)state;
    for (size_t i = 0; i < sizeof(value); i++) {
        value[i] = "\xF0\x9F\xA7\xB6"[i % 4];
    }
    metric_add(opened(&requests, labels, 2), 1);
    buf_init(&b, &t.env, 0);
    metrics_text(m, &b);
    assert_true(b.n < 400);
    assert_int_equal(utf8_valid_prefix(buf_slice(&b)), b.n);
    buf_byte(&b, '\0');
    assert_null(strstr(b.p, "\xEF\xBF\xBD"));
    buf_done(&b);
}

static void *update_many(void *context)
{
    struct metric **metrics = context;

    for (int i = 0; i < 20000; i++) {
        const qp_str labels[] = {QP_STR("n"), QP_STR("shared")};
        struct metric *shared = NULL;

        metric_add(metrics[0], 1);
        metric_observe(metrics[1], 1);
        if (i % 100 == 0 && metrics_open(m, &requests, labels, 2, NULL, &shared) == QP_OK) {
            metric_add(shared, 1);
        }
    }
    return NULL;
}

/* Threads that update and register at once lose nothing, while another one prints. */
static void threads_lose_nothing(void **state)
{
    enum { THREADS = 4 };
    struct metric *metrics[] = {opened(&requests, NULL, 0), opened(&latency, NULL, 0)};
    pthread_t threads[THREADS];
    struct buf b;

    (void)state;
    buf_init(&b, &t.env, 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, update_many, metrics), 0);
    }
    for (int i = 0; i < 50; i++) {
        buf_reset(&b);
        metrics_text(m, &b);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    buf_reset(&b);
    metrics_text(m, &b);
    buf_byte(&b, '\0');
    assert_non_null(strstr(b.p, "\nrequests_total 80000\n"));
    assert_non_null(strstr(b.p, "\nrequests_total{n=\"shared\"} 800\n"));
    assert_non_null(strstr(b.p, "\nlatency_seconds_sum 80000.0\n"));
    assert_non_null(strstr(b.p, "\nlatency_seconds_count 80000\n"));
    buf_done(&b);
}

/* Whichever allocation fails, the answer is NOMEM, and the registry goes on. */
static void every_allocation_may_fail(void **state)
{
    const qp_str labels[] = {QP_STR("k"), QP_STR("v")};

    (void)state;
    for (int64_t n = 1;; n++) {
        struct metrics *other = NULL;
        struct metric *metric = NULL;
        struct qp_err err = {0};
        bool failed;
        int rc;

        testenv_fail_at(&t, n);
        rc = metrics_create(&t.env, &other);
        if (rc == QP_OK) {
            rc = metrics_open(other, &latency, labels, 2, &err, &metric);
        }
        failed = testenv_failed(&t);
        testenv_fail_at(&t, 0);
        assert_int_equal(rc, failed ? QP_E_NOMEM : QP_OK);
        assert_int_equal(metric != NULL, !failed);
        if (other != NULL) {
            assert_int_equal(metrics_open(other, &latency, labels, 2, &err, &metric), QP_OK);
        }
        metrics_destroy(other);
        if (!failed) {
            break;
        }
    }
    metrics_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_format, start, finish),
        cmocka_unit_test_setup_teardown(infinite_sums, start, finish),
        cmocka_unit_test_setup_teardown(same_labels_same_series, start, finish),
        cmocka_unit_test_setup_teardown(bad_specs_are_refused, start, finish),
        cmocka_unit_test_setup_teardown(too_many_series_are_other, start, finish),
        cmocka_unit_test_setup_teardown(too_many_families_are_refused, start, finish),
        cmocka_unit_test_setup_teardown(long_values_are_cut, start, finish),
        cmocka_unit_test_setup_teardown(threads_lose_nothing, start, finish),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
