/* metrics.c - a registry of families and their series
 *
 *   I1  a family and a series, once made, stay where they are until the registry is destroyed
 *   I2  `families` and every family's `series` change only under the mutex
 *   I3  a family has at most LIMIT_METRIC_SERIES series, and perhaps "other" besides
 *
 * A series is found by its label text as it will be printed, key="value",..., escaped; so printing
 * is copying, and the order of the output is the order of the map. A histogram counts every value
 * in one bucket only and adds up when it is printed: one atomic step per value, and _count always
 * equals the +Inf bucket, also while others count on.
 */
#include "base/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "base/omap.h"

#define LIMIT_LABELS 16 /* slices: eight pairs */
#define LIMIT_BOUNDS 64

struct family {
    struct omap series; /* label text -> struct metric */
    enum metric_kind kind;
    char *help;
    size_t bound_count;
    double bounds[]; /* bound_count */
};

struct metric {
    const struct family *family;
    atomic_llong value;            /* counter, gauge */
    _Atomic uint64_t sum;          /* histogram: the bits of a double */
    atomic_ullong bucket_counts[]; /* histogram: bound_count + 1, the last one is +Inf */
};

struct metrics {
    const struct qp_env *env;
    pthread_mutex_t mutex;
    struct omap families; /* name -> struct family; under mutex */
};

static int check_spec(const struct metric_spec *spec, struct qp_err *err);
static int check_labels(const qp_str *labels, size_t count, struct qp_err *err);
static bool is_metric_name(qp_str name, bool colon_allowed);
static int family_find(struct metrics *m, const struct metric_spec *spec, struct qp_err *err,
                       struct family **out_family);
static int family_create(struct metrics *m, const struct metric_spec *spec,
                         struct family **out_family);
static void family_destroy(struct metrics *m, struct family *family);
static int series_find(struct metrics *m, struct family *family, const qp_str *labels, size_t count,
                       struct metric **out_metric);
static int series_create(struct metrics *m, struct family *family, qp_str text,
                         struct metric **out_metric);
static void put_labels(struct buf *out, const qp_str *labels, size_t count, bool as_other);
static void put_label_value(struct buf *out, qp_str value);
static void put_family(struct buf *out, qp_str name, const struct family *family);
static void put_histogram(struct buf *out, qp_str name, qp_str labels, const struct metric *metric);
static void put_bucket(struct buf *out, qp_str name, qp_str labels, qp_str bound, uint64_t count);
static void put_sample(struct buf *out, qp_str name, const char *suffix, qp_str labels);
static void put_number(struct buf *out, double number);

int metrics_create(const struct qp_env *env, struct metrics **out_metrics)
{
    struct metrics *m = mem_alloc(env, sizeof(*m));

    if (m == NULL) {
        return QP_E_NOMEM;
    }
    m->env = env;
    omap_init(&m->families, env);
    if (pthread_mutex_init(&m->mutex, NULL) != 0) {
        mem_free(env, m);
        return QP_E_NOMEM;
    }
    *out_metrics = m;
    return QP_OK;
}

void metrics_destroy(struct metrics *m)
{
    if (m == NULL) {
        return;
    }
    for (struct omap_node *node = omap_seek(&m->families, QP_STR("")); node != NULL;
         node = omap_next(node)) {
        family_destroy(m, omap_value(node));
    }
    omap_done(&m->families);
    (void)pthread_mutex_destroy(&m->mutex); /* nobody holds it: cannot fail */
    mem_free(m->env, m);
}

int metrics_open(struct metrics *m, const struct metric_spec *spec, const qp_str *labels,
                 size_t label_count, struct qp_err *err, struct metric **out_metric)
{
    struct family *family = NULL;
    int rc = check_spec(spec, err);

    if (rc == QP_OK) {
        rc = check_labels(labels, label_count, err);
    }
    if (rc != QP_OK) {
        return err_wrap(err, rc, "metric");
    }
    (void)pthread_mutex_lock(&m->mutex); /* a valid mutex, not held by this thread: cannot fail */
    rc = family_find(m, spec, err, &family);
    if (rc == QP_OK) {
        rc = series_find(m, family, labels, label_count, out_metric);
        if (rc != QP_OK) {
            (void)err_set(err, rc, "%s", qp_code_text(rc));
        }
    }
    (void)pthread_mutex_unlock(&m->mutex);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "metric %s", spec->name);
}

/* -------------------------------------------------------------------------------------- updates */

void metric_add(struct metric *metric, int64_t n)
{
    QP_ASSERT(metric->family->kind != METRIC_HISTOGRAM);
    QP_ASSERT(metric->family->kind == METRIC_GAUGE || n >= 0);
    (void)atomic_fetch_add_explicit(&metric->value, n, memory_order_relaxed);
}

void metric_set(struct metric *metric, int64_t n)
{
    QP_ASSERT(metric->family->kind == METRIC_GAUGE);
    atomic_store_explicit(&metric->value, n, memory_order_relaxed);
}

void metric_observe(struct metric *metric, double value)
{
    const struct family *family = metric->family;
    uint64_t before = atomic_load_explicit(&metric->sum, memory_order_relaxed);
    uint64_t after;
    size_t bucket = 0;

    QP_ASSERT(family->kind == METRIC_HISTOGRAM);
    if (isnan(value)) {
        return; /* one would spoil the sum for good */
    }
    while (bucket < family->bound_count && value > family->bounds[bucket]) {
        bucket++;
    }
    (void)atomic_fetch_add_explicit(&metric->bucket_counts[bucket], 1, memory_order_relaxed);
    do {
        double sum;

        memcpy(&sum, &before, sizeof(sum));
        sum += value;
        memcpy(&after, &sum, sizeof(after));
    } while (!atomic_compare_exchange_weak_explicit(&metric->sum, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
}

/* --------------------------------------------------------------------------------------- checks */

static int check_spec(const struct metric_spec *spec, struct qp_err *err)
{
    if (!is_metric_name(str_from(spec->name), true)) {
        return err_set(err, QP_E_INVALID, "bad name");
    }
    if (spec->bound_count > (spec->kind == METRIC_HISTOGRAM ? LIMIT_BOUNDS : 0)) {
        return err_set(err, QP_E_INVALID, "%s: too many bounds", spec->name);
    }
    for (size_t i = 0; i < spec->bound_count; i++) {
        if (!isfinite(spec->bounds[i]) || (i > 0 && spec->bounds[i] <= spec->bounds[i - 1])) {
            return err_set(err, QP_E_INVALID, "%s: bounds do not ascend", spec->name);
        }
    }
    return QP_OK;
}

static int check_labels(const qp_str *labels, size_t count, struct qp_err *err)
{
    if (count % 2 != 0 || count > LIMIT_LABELS) {
        return err_set(err, QP_E_INVALID, "%zu slices of labels, want pairs, at most %d", count,
                       LIMIT_LABELS);
    }
    for (size_t i = 0; i < count; i += 2) {
        if (!is_metric_name(labels[i], false) || str_equal(labels[i], QP_STR("le"))) {
            return err_set(err, QP_E_INVALID, "bad label key at %zu", i);
        }
    }
    return QP_OK;
}

static bool is_metric_name(qp_str name, bool colon_allowed)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                      (c == ':' && colon_allowed);

        if (!letter && !(c >= '0' && c <= '9' && i > 0)) {
            return false;
        }
    }
    return name.n > 0 && name.n <= LIMIT_NAME_SIZE;
}

/* -------------------------------------------------------------------------- families and series */

static int family_find(struct metrics *m, const struct metric_spec *spec, struct qp_err *err,
                       struct family **out_family)
{
    struct family *family = omap_get(&m->families, str_from(spec->name));
    int rc = QP_OK;

    if (family != NULL && family->kind != spec->kind) {
        return err_set(err, QP_E_CONFLICT, "registered as another kind");
    }
    if (family == NULL && m->families.count == LIMIT_METRICS) {
        return err_set(err, QP_E_LIMIT, "more than %d metrics", LIMIT_METRICS);
    }
    if (family == NULL) {
        rc = family_create(m, spec, &family);
    }
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", qp_code_text(rc));
    }
    *out_family = family;
    return QP_OK;
}

static int family_create(struct metrics *m, const struct metric_spec *spec,
                         struct family **out_family)
{
    size_t bounds_size = spec->bound_count * sizeof(double); /* at most LIMIT_BOUNDS of them */
    size_t help_size = strlen(spec->help) + 1;
    struct family *family = mem_alloc(m->env, sizeof(*family) + bounds_size);
    int rc;

    if (family == NULL) {
        return QP_E_NOMEM;
    }
    omap_init(&family->series, m->env);
    family->kind = spec->kind;
    family->bound_count = spec->bound_count;
    if (bounds_size > 0) {
        memcpy(family->bounds, spec->bounds, bounds_size);
    }
    family->help = mem_alloc(m->env, help_size);
    if (family->help == NULL) {
        rc = QP_E_NOMEM;
        goto out;
    }
    memcpy(family->help, spec->help, help_size);
    rc = omap_put(&m->families, str_from(spec->name), family, NULL);
out:
    if (rc == QP_OK) {
        *out_family = family;
    } else {
        family_destroy(m, family);
    }
    return rc;
}

static void family_destroy(struct metrics *m, struct family *family)
{
    for (struct omap_node *node = omap_seek(&family->series, QP_STR("")); node != NULL;
         node = omap_next(node)) {
        mem_free(m->env, omap_value(node));
    }
    omap_done(&family->series);
    mem_free(m->env, family->help);
    mem_free(m->env, family);
}

static int series_find(struct metrics *m, struct family *family, const qp_str *labels, size_t count,
                       struct metric **out_metric)
{
    struct metric *metric = NULL;
    struct buf text;
    int rc;

    buf_init(&text, m->env, 0);
    put_labels(&text, labels, count, false);
    metric = omap_get(&family->series, buf_slice(&text));
    if (metric == NULL && family->series.count >= LIMIT_METRIC_SERIES) {
        buf_reset(&text);
        put_labels(&text, labels, count, true);
        metric = omap_get(&family->series, buf_slice(&text));
    }
    rc = buf_rc(&text);
    if (rc == QP_OK && metric == NULL) {
        rc = series_create(m, family, buf_slice(&text), &metric);
    }
    buf_done(&text);
    if (rc == QP_OK) {
        *out_metric = metric;
    }
    return rc;
}

static int series_create(struct metrics *m, struct family *family, qp_str text,
                         struct metric **out_metric)
{
    size_t bucket_count = family->kind == METRIC_HISTOGRAM ? family->bound_count + 1 : 0;
    struct metric *metric;
    int rc;

    metric = mem_alloc(m->env, sizeof(*metric) + bucket_count * sizeof(metric->bucket_counts[0]));
    if (metric == NULL) {
        return QP_E_NOMEM;
    }
    metric->family =
        family; /* zeroed memory is an atomic 0, and the double 0.0, on every platform we know */
    rc = omap_put(&family->series, text, metric, NULL);
    if (rc != QP_OK) {
        mem_free(m->env, metric);
        return rc;
    }
    *out_metric = metric;
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------- text */

void metrics_text(struct metrics *m, struct buf *out)
{
    (void)pthread_mutex_lock(&m->mutex); /* cannot fail, as above */
    for (struct omap_node *node = omap_seek(&m->families, QP_STR("")); node != NULL;
         node = omap_next(node)) {
        put_family(out, omap_key(node), omap_value(node));
    }
    (void)pthread_mutex_unlock(&m->mutex);
}

static void put_family(struct buf *out, qp_str name, const struct family *family)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};

    buf_printf(out, "# HELP %.*s ", STR_ARG(name));
    for (const char *p = family->help; *p != '\0'; p++) {
        buf_text(out, *p == '\n' ? "\\n" : *p == '\\' ? "\\\\" : (char[]){*p, '\0'});
    }
    buf_printf(out, "\n# TYPE %.*s %s\n", STR_ARG(name), kinds[family->kind]);
    for (struct omap_node *node = omap_seek(&family->series, QP_STR("")); node != NULL;
         node = omap_next(node)) {
        const struct metric *metric = omap_value(node);

        if (family->kind == METRIC_HISTOGRAM) {
            put_histogram(out, name, omap_key(node), metric);
        } else {
            put_sample(out, name, "", omap_key(node));
            buf_printf(out, "%lld\n", atomic_load_explicit(&metric->value, memory_order_relaxed));
        }
    }
}

static void put_histogram(struct buf *out, qp_str name, qp_str labels, const struct metric *metric)
{
    const struct family *family = metric->family;
    uint64_t sum_bits = atomic_load_explicit(&metric->sum, memory_order_relaxed);
    uint64_t count = 0;
    double sum;

    for (size_t i = 0; i <= family->bound_count; i++) {
        char text[REAL_TEXT_SIZE];
        qp_str bound = QP_STR("+Inf");

        count += atomic_load_explicit(&metric->bucket_counts[i], memory_order_relaxed);
        if (i < family->bound_count) {
            bound = (qp_str){text, real_format(family->bounds[i], text)};
        }
        put_bucket(out, name, labels, bound, count);
    }
    memcpy(&sum, &sum_bits, sizeof(sum));
    put_sample(out, name, "_sum", labels);
    put_number(out, sum);
    put_sample(out, name, "_count", labels);
    buf_printf(out, "%llu\n", (unsigned long long)count);
}

static void put_bucket(struct buf *out, qp_str name, qp_str labels, qp_str bound, uint64_t count)
{
    buf_printf(out, "%.*s_bucket{%.*s%sle=\"%.*s\"} %llu\n", STR_ARG(name), STR_ARG(labels),
               labels.n > 0 ? "," : "", STR_ARG(bound), (unsigned long long)count);
}

/* name_suffix{labels} and a space; the number follows. */
static void put_sample(struct buf *out, qp_str name, const char *suffix, qp_str labels)
{
    buf_str(out, name);
    buf_text(out, suffix);
    if (labels.n > 0) {
        buf_byte(out, '{');
        buf_str(out, labels);
        buf_byte(out, '}');
    }
    buf_byte(out, ' ');
}

static void put_number(struct buf *out, double number)
{
    char text[REAL_TEXT_SIZE];

    if (isfinite(number)) {
        buf_add(out, text, real_format(number, text));
    } else if (isnan(number)) {
        buf_text(out, "NaN"); /* +Inf and -Inf were both observed */
    } else {
        buf_text(out, number > 0 ? "+Inf" : "-Inf");
    }
    buf_byte(out, '\n');
}

static void put_labels(struct buf *out, const qp_str *labels, size_t count, bool as_other)
{
    for (size_t i = 0; i < count; i += 2) {
        if (i > 0) {
            buf_byte(out, ',');
        }
        buf_str(out, labels[i]);
        buf_text(out, "=\"");
        put_label_value(out, as_other ? QP_STR("other") : labels[i + 1]);
        buf_byte(out, '"');
    }
}

/* Escapes as the format asks for; broken UTF-8 becomes U+FFFD, for one bad value spoils a whole
 * scrape. */
static void put_label_value(struct buf *out, qp_str value)
{
    size_t limit = value.n > LIMIT_ID_SIZE ? LIMIT_ID_SIZE : value.n;

    if (limit < value.n) {
        while (limit > 0 && ((unsigned char)value.p[limit] & 0xC0) == 0x80) {
            limit--; /* not inside of a character */
        }
        value.n = limit;
    }
    while (value.n > 0) {
        size_t valid = utf8_valid_prefix(value);

        for (size_t i = 0; i < valid; i++) {
            char c = value.p[i];

            if (c == '\\' || c == '"' || c == '\n') {
                buf_byte(out, '\\');
            }
            buf_byte(out, c == '\n' ? 'n' : c);
        }
        if (valid < value.n) {
            buf_text(out, "\xEF\xBF\xBD");
            valid++;
        }
        value.p += valid;
        value.n -= valid;
    }
}
