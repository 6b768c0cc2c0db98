/* properties.c - rows of properties, as texts and as JSON (see properties.h) */
#include "kernel/properties.h"

#include "base/json.h"
#include "store/store.h"

int properties_wrap(struct arena *arena, qp_str values, qp_str *out_row)
{
    char *text = arena_bytes(arena, values.n + 1);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    text[0] = str_is_none(values) ? '-' : '=';
    if (values.n > 0) {
        memcpy(text + 1, values.p, values.n);
    }
    *out_row = (qp_str){text, values.n + 1};
    return QP_OK;
}

int properties_unwrap(struct arena *arena, qp_str row, qp_str *out_values)
{
    if (row.n == 1 && row.p[0] == '-') {
        *out_values = QP_NONE;
        return QP_OK;
    }
    if (row.n == 0 || row.p[0] != '=') {
        return QP_E_CORRUPT;
    }
    return arena_copy(arena, (qp_str){row.p + 1, row.n - 1}, out_values) ? QP_OK : QP_E_NOMEM;
}

/* --------------------------------------------------------------------------------------- reading */

struct newest {
    struct arena *arena;
    qp_str values;
};

static int take_newest(void *context, const void *row)
{
    struct newest *n = context;
    const struct data_row *data = row;
    size_t size = sizeof PROPERTIES_PREFIX - 1;
    return data->name.n > size && memcmp(data->name.p, PROPERTIES_PREFIX, size) == 0
               ? properties_unwrap(n->arena, data->value, &n->values)
               : QP_OK;
}

static bool is_object(const struct qp_env *env, qp_str text)
{
    return raw_first(text) == '{' && json_check(env, text, NULL, NULL) == QP_OK;
}

/* A text that is no object. */
static int as_string(const struct qp_env *env, struct arena *arena, qp_str text, qp_str *out_json)
{
    struct json_writer w;
    struct buf out;
    int rc;
    buf_init(&out, env, 0);
    json_writer_init(&w, &out);
    json_put_str(&w, text);
    rc = json_writer_done(&w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&out), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

int properties_read(struct store *s, struct arena *arena, const struct job_row *job,
                    qp_str *out_json, struct qp_err *err)
{
    /* ';' follows ':', so this name stands behind all of them */
    struct data_row end = {.ns = job->ns, .job = job->job, .name = QP_STR("quipu:value;")};
    struct scan scan = {.table = TABLE_data,
                        .index = -1,
                        .prefix = &end,
                        .prefix_count = 2,
                        .after = &end,
                        .backwards = true,
                        .limit = 1};
    struct newest newest = {.arena = arena, .values = QP_NONE};
    QP_TRY(store_scan(s, &scan, &newest, take_newest, err));
    *out_json = newest.values;
    return str_is_none(newest.values) || is_object(store_env(s), newest.values)
               ? QP_OK
               : as_string(store_env(s), arena, newest.values, out_json);
}

qp_str properties_find(qp_str json, qp_str name)
{
    struct raw_walk w = {.rest = json};
    if (str_is_none(json) || raw_first(json) != '{') {
        return QP_NONE;
    }
    while (raw_each(&w)) {
        if (str_equal(w.key, name)) {
            return str_equal(w.value, QP_STR("null")) ? QP_NONE : w.value;
        }
    }
    return QP_NONE;
}

/* -------------------------------------------------------------------------------------- checking */

int properties_check(qp_str json, struct qp_err *err)
{
    struct raw_walk w = {.rest = json};
    if (raw_first(json) != '{') {
        return err_set(err, QP_E_SHAPE, "properties must be an object: {\"status\":\"paid\"}");
    }
    if (json.n > LIMIT_PROPERTIES_SIZE) {
        return err_set(err, QP_E_TOO_LARGE,
                       "properties have %zu bytes; LIMIT_PROPERTIES_SIZE is %d", json.n,
                       LIMIT_PROPERTIES_SIZE);
    }
    while (raw_each(&w)) {
        if (w.index == LIMIT_PROPERTIES) {
            return err_set(err, QP_E_TOO_LARGE, "a job has at most %d properties",
                           LIMIT_PROPERTIES);
        }
        if (name_check(w.key, "the name of a property", err) != QP_OK) {
            return QP_E_SHAPE;
        }
    }
    return QP_OK;
}
