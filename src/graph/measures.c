/* measures.c - counting the jobs of a graph (see measures.h) */
#include "graph/measures.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "graph/program.h"

/* A job that has the key, or a facet. */
struct counted {
    int64_t job;
    size_t segment;
    qp_str jid;
};

struct counting {
    struct arena *arena;
    struct store *store;
    const struct measure_query *query;
    const struct activity *trigger;
    qp_ms granularity_ms;
    qp_ms from; /* of the first segment */
    size_t segment_count;
    struct counted *jobs;
    size_t count;
    size_t room;
    struct qp_err *err;
};

/* What the trigger would make of the data; none: nothing. */
static int text_of(struct counting *c, const struct mapping *m, qp_str *out_text)
{
    struct lone_text data = {.json = c->query->data};
    struct scope scope = {.context = &data,
                          .find = find_in_text,
                          .arena = c->arena,
                          .env = store_env(c->store),
                          .now = c->query->end_at};
    struct value v;
    int rc = mapping_evaluate(m, &scope, &v);
    rc = rc == QP_OK ? value_open(c->arena, &v) : rc;
    *out_text = QP_NONE;
    if (rc == QP_OK && !value_as_text(c->arena, &v, out_text)) {
        *out_text = QP_NONE;
    }
    return rc == QP_E_LIMIT ? QP_OK : rc;
}

/* ------------------------------------------------------------------------------------------- finding jobs */

struct page {
    struct counting *counting;
    struct attr_row last;
    int64_t jobs[LIMIT_PAGE_ROWS];
    size_t count;
};

static int see_attr(void *context, const void *row)
{
    struct page *p = context;
    p->last.started = ((const struct attr_row *)row)->started;
    p->last.job = ((const struct attr_row *)row)->job;
    p->jobs[p->count++] = p->last.job;
    return QP_OK;
}

static int job_add(struct counting *c, const struct job_row *job)
{
    int64_t offset = job->created_at - c->from;
    int64_t segment = offset / c->granularity_ms;
    if (offset < 0 || segment >= (int64_t)c->segment_count ||
        !str_equal(job->workflow, c->query->topic)) {
        return QP_OK;
    }
    if (c->count == LIMIT_MEASURED_JOBS) {
        return err_set(c->err, QP_E_TOO_LARGE,
                       "more than %d jobs are to be counted: ask for less time",
                       LIMIT_MEASURED_JOBS);
    }
    if (c->count == c->room) {
        size_t room = c->room == 0 ? 256 : 2 * c->room;
        struct counted *more = arena_alloc(c->arena, room * sizeof *more);
        if (more == NULL) {
            return QP_E_NOMEM;
        }
        if (c->count > 0) {
            memcpy(more, c->jobs, c->count * sizeof *more);
        }
        c->jobs = more;
        c->room = room;
    }
    c->jobs[c->count] = (struct counted){.job = job->job, .segment = (size_t)segment};
    return arena_copy(c->arena, job->jid, &c->jobs[c->count++].jid) ? QP_OK : QP_E_NOMEM;
}

/* The jobs of a page that are in time. `scratch` is for their rows. */
static int page_read(struct page *p, struct arena *scratch)
{
    struct counting *c = p->counting;
    static const struct job_row none;
    struct job_row *keys = arena_alloc(scratch, p->count * sizeof *keys);
    const void **pointers = arena_alloc(scratch, p->count * sizeof *pointers);
    void **rows = arena_alloc(scratch, p->count * sizeof *rows);
    int rc = keys == NULL || pointers == NULL || rows == NULL ? QP_E_NOMEM : QP_OK;
    for (size_t i = 0; i < p->count && rc == QP_OK; i++) {
        keys[i] = none;
        keys[i].ns = c->query->ns;
        keys[i].job = p->jobs[i];
        pointers[i] = &keys[i];
    }
    rc = rc == QP_OK ? store_get_all(c->store, scratch, TABLE_job, pointers, p->count, rows, c->err)
                     : rc;
    for (size_t i = 0; i < p->count && rc == QP_OK; i++) {
        rc = rows[i] != NULL ? job_add(c, rows[i]) : QP_OK;
    }
    return rc;
}

static int page_add(struct page *p)
{
    struct arena scratch;
    int rc;
    arena_init(&scratch, store_env(p->counting->store), 0);
    rc = page_read(p, &scratch);
    arena_done(&scratch);
    return rc;
}

/* All jobs with an attribute of this value. */
static int find_jobs(struct counting *c, qp_str name, qp_str value)
{
    struct page p = {.counting = c, .last = {.ns = c->query->ns, .name = name, .value = value}};
    struct attr_row prefix = p.last;
    struct scan scan = {.table = TABLE_attr,
                        .index = INDEX_attr_value,
                        .prefix = &prefix,
                        .prefix_count = 3,
                        .limit = LIMIT_PAGE_ROWS};
    int rc = QP_OK;
    c->count = 0;
    do {
        p.count = 0;
        rc = store_scan(c->store, &scan, &p, see_attr, c->err);
        rc = rc == QP_OK && p.count > 0 ? page_add(&p) : rc;
        scan.after = &p.last;
    } while (rc == QP_OK && p.count == LIMIT_PAGE_ROWS);
    return rc;
}

/* ------------------------------------------------------------------------------------------------ measures */

static bool is_number(const struct measure *m)
{
    return m->kind != MEASURE_COUNT && m->kind != MEASURE_INDEX;
}

/* Several measures of one number, or of one facet, are told once: all of it is told anyway. */
static bool was_told(const struct activity *trigger, size_t index)
{
    const struct measure *m = &trigger->measures[index];
    for (const struct measure *b = trigger->measures; b < m; b++) {
        if (str_equal(b->name, m->name) && is_number(b) == is_number(m)) {
            return true;
        }
    }
    return false;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of one measure in one segment, in order; there are no more than `most`. */
static int numbers_of(struct counting *c, const struct measure *m, size_t segment, size_t most,
                      double **out_numbers, size_t *out_count)
{
    double *numbers = arena_alloc(c->arena, most * sizeof *numbers);
    int rc = numbers == NULL ? QP_E_NOMEM : QP_OK;
    *out_count = 0;
    for (size_t i = 0; i < c->count && rc == QP_OK; i++) {
        struct attr_row key = {.ns = c->query->ns, .job = c->jobs[i].job, .name = m->name};
        const void *row = NULL;
        struct value v = {.kind = VALUE_STRING};
        if (c->jobs[i].segment != segment) {
            continue;
        }
        rc = store_get(c->store, c->arena, TABLE_attr, &key, &row, NULL);
        v.text = rc == QP_OK ? ((const struct attr_row *)row)->value : QP_NONE;
        if (rc == QP_OK && value_as_number(&v, &numbers[*out_count])) {
            ++*out_count;
        }
        rc = rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    if (rc == QP_OK && *out_count > 0) {
        qsort(numbers, *out_count, sizeof *numbers, compare_numbers);
    }
    *out_numbers = numbers;
    return rc;
}

static void put_number(struct json_writer *w, const char *name, double number)
{
    json_key(w, str_from(name));
    json_put_real(w, number);
}

static int put_measure(struct counting *c, struct json_writer *w, const struct measure *m,
                       size_t segment, size_t most)
{
    double *numbers = NULL;
    double sum = 0;
    size_t n = 0;
    int rc = numbers_of(c, m, segment, most, &numbers, &n);
    for (size_t i = 0; i < n && rc == QP_OK; i++) {
        sum += numbers[i];
    }
    if (rc == QP_OK && n > 0) {
        json_key(w, m->name);
        json_begin_object(w);
        put_number(w, "sum", sum);
        put_number(w, "avg", sum / (double)n);
        put_number(w, "min", numbers[0]);
        put_number(w, "max", numbers[n - 1]);
        put_number(w, "mdn",
                   n % 2 == 1 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2);
        json_end_object(w);
    }
    return rc;
}

static int put_segment(struct counting *c, struct json_writer *w, size_t segment)
{
    char time[RFC3339_SIZE];
    size_t count = 0;
    int rc = QP_OK;
    for (size_t i = 0; i < c->count; i++) {
        count += c->jobs[i].segment == segment;
    }
    rfc3339_format(c->from + (qp_ms)segment * c->granularity_ms, time);
    json_begin_object(w);
    json_key(w, QP_STR("time"));
    json_put_str(w, str_from(time));
    json_key(w, QP_STR("count"));
    json_put_i64(w, (int64_t)count);
    json_key(w, QP_STR("measures"));
    json_begin_object(w);
    for (size_t i = 0; i < c->trigger->measure_count && rc == QP_OK && count > 0; i++) {
        const struct measure *m = &c->trigger->measures[i];
        rc =
            is_number(m) && !was_told(c->trigger, i) ? put_measure(c, w, m, segment, count) : QP_OK;
    }
    json_end_object(w);
    json_end_object(w);
    return rc;
}

static int put_segments(struct counting *c, struct json_writer *w)
{
    int rc = QP_OK;
    json_key(w, QP_STR("segments"));
    json_begin_array(w);
    for (size_t i = 0; i < c->segment_count && rc == QP_OK; i++) {
        rc = put_segment(c, w, i);
    }
    json_end_array(w);
    return rc;
}

/* -------------------------------------------------------------------------------------------------- facets */

static int put_facet(struct counting *c, struct json_writer *w, const struct measure *m,
                     qp_str value)
{
    char facet[LIMIT_NAME_SIZE + LIMIT_ATTRIBUTE_SIZE + 2];
    int rc = find_jobs(c, m->name, value);
    if (rc != QP_OK) {
        return rc;
    }
    (void)snprintf(facet, sizeof facet, "%.*s:%.*s", STR_ARG(m->name), STR_ARG(value));
    json_begin_object(w);
    json_key(w, QP_STR("facet"));
    json_put_str(w, str_from(facet));
    json_key(w, QP_STR("count"));
    json_put_i64(w, (int64_t)c->count);
    json_key(w, QP_STR("ids"));
    json_begin_array(w);
    for (size_t i = 0; i < c->count && i < LIMIT_LIST_DEFAULT; i++) {
        json_put_str(w, c->jobs[i].jid);
    }
    json_end_array(w);
    json_end_object(w);
    return QP_OK;
}

static int put_facets(struct counting *c, struct json_writer *w)
{
    int rc = QP_OK;
    json_key(w, QP_STR("facets"));
    json_begin_array(w);
    for (size_t i = 0; i < c->trigger->measure_count && rc == QP_OK; i++) {
        const struct measure *m = &c->trigger->measures[i];
        qp_str value = QP_NONE;
        rc = was_told(c->trigger, i) || is_number(m) ? QP_OK : text_of(c, m->target, &value);
        rc = rc == QP_OK && !str_is_none(value) ? put_facet(c, w, m, value) : rc;
    }
    json_end_array(w);
    return rc;
}

/* -------------------------------------------------------------------------------------------------- the whole */

static int put_all(struct counting *c, struct json_writer *w)
{
    qp_str key = QP_NONE;
    int rc = c->trigger->job_key == NULL ? QP_OK : text_of(c, c->trigger->job_key, &key);
    rc = rc == QP_OK && !str_is_none(key) ? find_jobs(c, STATS_KEY, key) : rc;
    json_begin_object(w);
    json_key(w, QP_STR("key"));
    json_put_str(w, key);
    json_key(w, QP_STR("count"));
    json_put_i64(w, (int64_t)c->count);
    rc = rc == QP_OK ? put_segments(c, w) : rc;
    rc = rc == QP_OK ? put_facets(c, w) : rc;
    if (rc == QP_OK) {
        json_end_object(w);
        rc = json_writer_done(w);
    }
    return rc;
}

/* How long a segment is for jobs of these data. */
static int read_granularity(struct counting *c)
{
    qp_str text = QP_NONE;
    if (c->trigger->granularity != NULL) {
        QP_TRY(text_of(c, c->trigger->granularity, &text));
    }
    return (c->trigger->granularity == NULL || !str_is_none(text)) &&
                   granularity_parse(text, &c->granularity_ms)
               ? QP_OK
               : err_set(c->err, QP_E_INVALID,
                         "data: the granularity that the trigger makes of it must be a text like "
                         "5m or infinity, not '%.*s'",
                         STR_ARG(text));
}

static int spans(struct counting *c)
{
    qp_ms g = c->granularity_ms;
    const struct measure_query *q = c->query;
    if (q->range_ms <= 0 || q->range_ms > LIMIT_TIMER_MS || q->range_ms / g >= LIMIT_SEGMENTS) {
        return err_set(c->err, QP_E_INVALID,
                       "range: it is longer than nothing, and has at most %d segments of %lld s",
                       LIMIT_SEGMENTS, (long long)(g / 1000));
    }
    c->from = (q->end_at - q->range_ms) / g * g;
    c->segment_count = (size_t)((q->end_at / g * g - c->from) / g) + 1;
    return QP_OK;
}

/* The graph that the topic means, and its application, pinned; NULL: there is none. */
static int find_graph(struct counting *c, struct library *l, struct names *names,
                      const struct app **out_app, const struct graph **out_graph)
{
    const struct measure_query *query = c->query;
    struct between between = {c->store, c->arena};
    struct row_reader reader = reader_between(&between);
    struct meaning meaning;
    QP_TRY(names_find(names, NULL, c->arena, query->ns, NAME_START, query->topic, &meaning));
    if (meaning.kind != GRAPH_KIND) {
        return QP_OK;
    }
    QP_TRY(library_pin(l, &reader, query->ns, meaning.version, out_app));
    *out_graph = app_graph(*out_app, query->topic);
    return QP_OK;
}

int measures_read(struct arena *a, struct store *s, struct library *l, struct names *names,
                  const struct measure_query *query, struct buf *out, struct qp_err *err)
{
    struct counting c = {.arena = a, .store = s, .query = query, .err = err};
    struct json_writer w;
    const struct app *app = NULL;
    const struct graph *g = NULL;
    int rc = find_graph(&c, l, names, &app, &g);
    if (rc == QP_OK &&
        (g == NULL || (g->trigger->job_key == NULL && g->trigger->measure_count == 0))) {
        rc = err_set(err, QP_E_NOT_FOUND, "no graph at '%.*s' has stats", STR_ARG(query->topic));
    }
    if (rc == QP_OK) {
        c.trigger = g->trigger;
        json_writer_init(&w, out);
        rc = read_granularity(&c);
        rc = rc == QP_OK ? spans(&c) : rc;
        rc = rc == QP_OK ? put_all(&c, &w) : rc;
    }
    if (app != NULL) {
        library_unpin(l, app);
    }
    return rc;
}
