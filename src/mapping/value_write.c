/* value_write.c - values as JSON text (see value.h)
 *
 * What is written is JSON that the border takes: numbers that are none become null, and what is nested too deep is refused,
 * also when it is so only together with a raw text inside of it. One array may stand in a value many times, on every
 * level: what does not fit is left as soon as it does not.
 */
#include <math.h>

#include "base/json.h"
#include "mapping/date.h"
#include "mapping/value.h"

static int write_value(struct json_writer *w, const struct value *v);

int value_write(struct buf *out, const struct value *v)
{
    struct json_writer w;
    int rc;

    json_writer_init(&w, out);
    rc = write_value(&w, v);
    return rc == QP_OK ? json_writer_done(&w) : rc;
}

static int write_array(struct json_writer *w, const struct value *v)
{
    int rc = QP_OK;

    json_begin_array(w);
    for (size_t i = 0; rc == QP_OK && i < v->count; i++) {
        rc = write_value(w, v->items[i]);
        rc = rc == QP_OK ? buf_rc(w->out) : rc;
    }
    if (rc == QP_OK) {
        json_end_array(w);
    }
    return rc;
}

static int write_object(struct json_writer *w, const struct value *v)
{
    int rc = QP_OK;

    json_begin_object(w);
    for (size_t i = 0; rc == QP_OK && i < v->count; i++) {
        if (v->members[i].value->kind != VALUE_UNDEFINED) {
            json_key(w, v->members[i].key);
            rc = write_value(w, v->members[i].value);
            rc = rc == QP_OK ? buf_rc(w->out) : rc;
        }
    }
    if (rc == QP_OK) {
        json_end_object(w);
    }
    return rc;
}

static void write_real(struct json_writer *w, double number)
{
    char text[NUMBER_TEXT_SIZE];

    if (isfinite(number)) {
        json_put_raw(w, (qp_str){text, number_format(number, text)});
    } else {
        json_put_null(w);
    }
}

/* As it came, if it is not nested too deep where it stands now. */
static int write_raw(struct json_writer *w, qp_str text)
{
    if (w->depth + text.n / 2 > LIMIT_JSON_DEPTH &&
        w->depth + (size_t)value_depth(text) > LIMIT_JSON_DEPTH) {
        return QP_E_TOO_LARGE;
    }
    json_put_raw(w, text);
    return QP_OK;
}

static void write_date(struct json_writer *w, double ms)
{
    char text[DATE_ISO_SIZE];

    if (isfinite(ms)) {
        json_put_str(w, (qp_str){text, date_iso(ms, text)});
    } else {
        json_put_null(w);
    }
}

/* Recursion is bounded by the depth of the writer. */
static int write_value(struct json_writer *w, const struct value *v)
{
    if ((v->kind == VALUE_ARRAY || v->kind == VALUE_OBJECT) && w->depth >= LIMIT_JSON_DEPTH) {
        return QP_E_TOO_LARGE;
    }
    switch (v->kind) {
    case VALUE_ARRAY:
        return write_array(w, v);
    case VALUE_OBJECT:
        return write_object(w, v);
    case VALUE_RAW:
        return write_raw(w, v->text);
    case VALUE_STRING:
        json_put_str(w, v->text);
        break;
    case VALUE_BOOL:
        json_put_bool(w, v->truth);
        break;
    case VALUE_INT:
        json_put_i64(w, v->integer);
        break;
    case VALUE_REAL:
        write_real(w, v->real);
        break;
    case VALUE_DATE:
        write_date(w, v->real);
        break;
    case VALUE_UNDEFINED:
    case VALUE_NULL:
        json_put_null(w);
        break;
    }
    return QP_OK;
}
