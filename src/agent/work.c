/* work.c - reads works, hashes them, computes the end of a wait */
#include "agent/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const type_names[] = {
    [WORK_TASK] = "task", [WORK_WORKFLOW] = "workflow", [WORK_WAIT] = "wait"};

const char *work_type_name(enum work_type type)
{
    QP_ASSERT((size_t)type < ARRAY_COUNT(type_names));
    return type_names[type];
}

/* ------------------------------------------------------------------------------------- reading */

static bool is_absent(const struct json *value)
{
    return value == NULL || json_is(value, JSON_KIND_NULL);
}

static int read_text(const struct json *object, const char *key, struct qp_err *err,
                     qp_str *out_text)
{
    const struct json *value = json_get(object, str_from(key));
    *out_text = QP_NONE;
    if (is_absent(value)) {
        return QP_OK;
    }
    if (!json_as_str(value, out_text)) {
        return err_point(err, err_set(err, QP_E_SHAPE, "%s must be a string or null", key), "/%s",
                         key);
    }
    if (out_text->n > LIMIT_INSTANCE_TEXT_SIZE) {
        return err_point(err,
                         err_set(err, QP_E_TOO_LARGE, "%s must have at most %d bytes, got %zu", key,
                                 LIMIT_INSTANCE_TEXT_SIZE, out_text->n),
                         "/%s", key);
    }
    return QP_OK;
}

static int read_needed(const struct json *object, const char *key, struct qp_err *err,
                       qp_str *out_text)
{
    QP_TRY(read_text(object, key, err, out_text));
    if (out_text->n == 0 || out_text->n > LIMIT_ID_SIZE) {
        return err_point(err,
                         err_set(err, QP_E_SHAPE, "%s must be a string of 1 to %d bytes, got %zu",
                                 key, LIMIT_ID_SIZE, out_text->n),
                         "/%s", key);
    }
    return QP_OK;
}

static int read_type(const struct json *object, struct qp_err *err, enum work_type *out_type)
{
    qp_str name;
    *out_type = WORK_TASK;
    QP_TRY(read_text(object, "type", err, &name));
    if (str_is_none(name)) {
        return QP_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(type_names); i++) {
        if (str_equal(name, str_from(type_names[i]))) {
            *out_type = (enum work_type)i;
            return QP_OK;
        }
    }
    return err_point(
        err,
        err_set(err, QP_E_SHAPE, "type must be task, workflow or wait, got '%.*s'", STR_ARG(name)),
        "/type");
}

static int read_sync(const struct json *object, struct qp_err *err, bool *out_sync)
{
    const struct json *value = json_get(object, QP_STR("sync"));
    *out_sync = true;
    if (is_absent(value) || json_as_bool(value, out_sync)) {
        return QP_OK;
    }
    return err_point(err, err_set(err, QP_E_SHAPE, "sync must be true or false"), "/sync");
}

/* Seconds as milliseconds; what is further away than any wait may last is WORK_NO_END. */
static int read_seconds(const struct json *object, const char *key, struct qp_err *err,
                        bool *out_given, int64_t *out_ms)
{
    const struct json *value = json_get(object, str_from(key));
    double seconds = 0;
    *out_given = !is_absent(value);
    if (!*out_given) {
        return QP_OK;
    }
    if (!json_as_real(value, &seconds)) {
        if (!json_is(value, JSON_KIND_BIG)) {
            return err_point(err, err_set(err, QP_E_SHAPE, "%s must be a number of seconds", key),
                             "/%s", key);
        }
        seconds = INFINITY;
    }
    *out_ms = seconds > 1e12    ? WORK_NO_END
              : seconds < -1e12 ? -(int64_t)1e15
                                : (int64_t)llround(seconds * 1000);
    return QP_OK;
}

static int read_not_negative(const struct json *object, const char *key, struct qp_err *err,
                             bool *out_given, int64_t *out_ms)
{
    QP_TRY(read_seconds(object, key, err, out_given, out_ms));
    if (*out_given && *out_ms < 0) {
        return err_point(err, err_set(err, QP_E_SHAPE, "%s must not be negative", key), "/%s", key);
    }
    return QP_OK;
}

static int read_wait_end(const struct json *object, struct qp_err *err, struct agent_work *out)
{
    bool given = false;
    out->end = WORK_END_AFTER;
    QP_TRY(read_not_negative(object, "duration", err, &given, &out->end_ms));
    if (given && is_absent(json_get(object, QP_STR("timestamp")))) {
        return QP_OK;
    }
    out->end = WORK_END_AT;
    QP_TRY(read_seconds(object, "timestamp", err, &given, &out->end_ms));
    if (given) {
        return QP_OK;
    }
    QP_TRY(read_seconds(object, "timeout", err, &given, &out->end_ms));
    if (!given) {
        out->end = WORK_END_NONE;
    }
    return QP_OK;
}

static int read_limit(const struct json *object, struct qp_err *err, struct agent_work *out)
{
    bool given = false;
    QP_TRY(read_not_negative(object, "maxProcessingTime", err, &given, &out->max_processing_ms));
    if (given) {
        return QP_OK;
    }
    return read_not_negative(object, "timeout", err, &given, &out->max_processing_ms);
}

static int read_one(const struct json *object, struct qp_err *err, struct agent_work *out)
{
    if (!json_is(object, JSON_KIND_OBJECT)) {
        return err_point(err, err_set(err, QP_E_SHAPE, "a work must be an object"), "%s", "");
    }
    QP_TRY(read_needed(object, "name", err, &out->name));
    QP_TRY(read_needed(object, "position", err, &out->position));
    QP_TRY(read_text(object, "input", err, &out->input));
    QP_TRY(read_text(object, "event", err, &out->event));
    QP_TRY(read_type(object, err, &out->type));
    QP_TRY(read_sync(object, err, &out->sync));
    if (out->type == WORK_WAIT) {
        return read_wait_end(object, err, out);
    }
    return read_limit(object, err, out);
}

static int by_position(const void *a, const void *b)
{
    return str_compare(*(const qp_str *)a, *(const qp_str *)b);
}

static int check_positions(struct arena *arena, const struct agent_work *works, size_t count,
                           struct qp_err *err)
{
    qp_str *positions = arena_alloc(arena, count * sizeof(*positions));
    if (positions == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        positions[i] = works[i].position;
    }
    qsort(positions, count, sizeof(*positions), by_position);
    for (size_t i = 1; i < count; i++) {
        if (str_equal(positions[i - 1], positions[i])) {
            return err_set(err, QP_E_SHAPE, "position '%.*s' must stand once in one execute",
                           STR_ARG(positions[i]));
        }
    }
    return QP_OK;
}

int work_read_all(struct arena *arena, const struct json *body, struct qp_err *err,
                  const struct agent_work **out_works, size_t *out_count)
{
    size_t count = json_count(body);
    if (!json_is(body, JSON_KIND_ARRAY) || count == 0 || count > LIMIT_INSTANCE_WORKS) {
        return err_set(err, QP_E_SHAPE, "works must be an array of 1 to %d works, got %zu",
                       LIMIT_INSTANCE_WORKS, count);
    }
    struct agent_work *works = arena_alloc(arena, count * sizeof(*works));
    if (works == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        int rc = read_one(json_at(body, i), err, &works[i]);
        if (rc != QP_OK) {
            return err_point(err, rc, "/%zu", i);
        }
        if (works[i].sync != works[0].sync) {
            (void)err_set(err, QP_E_SHAPE, "the works of one execute must all be sync, or none");
            return err_point(err, QP_E_SHAPE, "/%zu/sync", i);
        }
    }
    QP_TRY(check_positions(arena, works, count, err));
    *out_works = works;
    *out_count = count;
    return QP_OK;
}

/* ------------------------------------------------------------------------------- hash and end */

/* None and empty differ: the size of none is -1. */
static void add_text(struct hash_stream *h, qp_str text)
{
    int64_t size = str_is_none(text) ? -1 : (int64_t)text.n;
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)((uint64_t)size >> (8 * i));
    }
    hash_stream_add(h, bytes, sizeof(bytes));
    if (size > 0) {
        hash_stream_add(h, text.p, text.n);
    }
}

void work_hash(const struct agent_work *work, int64_t branch_key, char out_hash[WORK_HASH_SIZE])
{
    struct hash_stream h;
    char text[HASH_TEXT_SIZE];
    char branch[24];
    static_assert(WORK_HASH_VERSION < 10, "one digit");
    int n = snprintf(branch, sizeof(branch), "%lld", (long long)branch_key);
    QP_ASSERT(n > 0 && (size_t)n < sizeof(branch));
    hash_stream_init(&h);
    add_text(&h, str_from(work_type_name(work->type)));
    add_text(&h, work->name);
    add_text(&h, work->input);
    add_text(&h, work->event);
    add_text(&h, (qp_str){branch, (size_t)n});
    add_text(&h, work->position);
    add_text(&h, work->sync ? QP_STR("sync") : QP_STR("async"));
    hash_stream_end(&h, text);
    out_hash[0] = '0' + WORK_HASH_VERSION;
    out_hash[1] = '-';
    memcpy(out_hash + 2, text, WORK_HASH_SIZE - 2);
}

int64_t work_end_ms(const struct agent_work *work, int64_t begin_ms)
{
    int64_t end_ms = work->end_ms;
    QP_ASSERT(work->type == WORK_WAIT);
    if (work->end == WORK_END_NONE) {
        return WORK_NO_END;
    }
    if (work->end == WORK_END_AFTER && !i64_add(begin_ms, work->end_ms, &end_ms)) {
        return WORK_NO_END;
    }
    return end_ms > begin_ms && end_ms - begin_ms > LIMIT_INSTANCE_WAIT_MS ? WORK_NO_END : end_ms;
}
