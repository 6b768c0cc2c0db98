/* sql.c - a person's SELECT as JSON (see sql.h) */
#include "run/sql.h"

#include <math.h>

#include "run/handle.h"
#include "run/show.h"

struct answer {
    struct store_sql question;
    const struct qp_env *env;
    struct json_writer *w;
    struct qp_err *err;
    bool named; /* the columns are */
    bool more;
};

static void put_hex(struct answer *a, qp_str bytes)
{
    static const char digits[] = "0123456789abcdef";
    struct buf text;
    buf_init(&text, a->env, 0);
    buf_text(&text, "");
    for (size_t i = 0; i < bytes.n; i++) {
        buf_byte(&text, digits[(unsigned char)bytes.p[i] >> 4]);
        buf_byte(&text, digits[(unsigned char)bytes.p[i] & 15]);
    }
    json_put_str(a->w, bytes.n == 0 ? QP_STR("") : buf_slice(&text));
    buf_done(&text);
}

/* A text that JSON can carry, and its readers take. */
static bool is_good(qp_str text)
{
    return utf8_valid_prefix(text) == text.n &&
           (text.n == 0 || memchr(text.p, '\0', text.n) == NULL);
}

static void put_cell(struct answer *a, const struct store_cell *cell)
{
    switch (cell->kind) {
    case CELL_NUMBER:
        show_number(a->w, cell->number);
        break;
    case CELL_REAL:
        if (isfinite(cell->real)) {
            json_put_real(a->w, cell->real);
        } else {
            json_put_str(a->w, cell->real > 0 ? QP_STR("Infinity") : QP_STR("-Infinity"));
        }
        break;
    case CELL_TEXT:
        if (is_good(cell->text)) {
            json_put_str(a->w, cell->text);
            break;
        }
        FALLTHROUGH;
    case CELL_BYTES:
        put_hex(a, cell->text);
        break;
    default:
        json_put_null(a->w);
    }
}

/* One row as an array; the first is the names. */
static int put_row(void *context, const struct store_cell *cells, size_t count)
{
    struct answer *a = context;
    json_begin_array(a->w);
    for (size_t i = 0; i < count; i++) {
        if (2 * cells[i].text.n > LIMIT_JSON_STRING_SIZE) {
            return err_set(a->err, QP_E_TOO_LARGE,
                           "a text of more than %d bytes: take a part of it, with substr()",
                           LIMIT_JSON_STRING_SIZE / 2);
        }
        put_cell(a, &cells[i]);
    }
    json_end_array(a->w);
    if (!a->named) {
        a->named = true;
        json_key(a->w, QP_STR("rows"));
        json_begin_array(a->w);
    }
    if (a->w->out->n > LIMIT_SQL_ANSWER_SIZE) {
        return err_set(a->err, QP_E_TOO_LARGE,
                       "the answer has more than %d bytes: ask for fewer rows or columns",
                       LIMIT_SQL_ANSWER_SIZE);
    }
    return buf_rc(a->w->out);
}

static int ask(void *context, struct store *s, struct qp_err *err)
{
    struct answer *a = context;
    a->err = err;
    return store_sql(s, &a->question, a, put_row, &a->more, err);
}

int sql_ask(qp *q, const struct sql_question *question, struct json_writer *w, struct qp_err *err)
{
    struct answer a = {
        .question = {.sql = question->sql,
                     .limit = question->limit == 0 ? LIMIT_SQL_ROWS : question->limit,
                     .within_ms = question->within_ms == 0 ? LIMIT_SQL_MS : question->within_ms},
        .env = &q->env,
        .w = w};
    int rc;
    if (a.question.limit < 1 || a.question.limit > LIMIT_SQL_ROWS_HARD) {
        return err_set(err, QP_E_INVALID, "limit: it is 1 to %d", LIMIT_SQL_ROWS_HARD);
    }
    if (a.question.within_ms < 1 || a.question.within_ms > LIMIT_SQL_HARD_MS) {
        return err_set(err, QP_E_INVALID, "timeout: it is 1ms to %ds", LIMIT_SQL_HARD_MS / 1000);
    }
    json_begin_object(w);
    json_key(w, QP_STR("columns"));
    rc = reads_do(q, &a, ask, err);
    if (rc != QP_OK) {
        return rc;
    }
    json_end_array(w);
    if (a.more) {
        json_key(w, QP_STR("more"));
        json_put_bool(w, true);
    }
    json_end_object(w);
    return QP_OK;
}
