/* format_output.c - text of a format in pieces (see format_output.h) */
#include "carto/format_output.h"

#define PIECE_SIZE (64 * 1024)

void format_output_begin(struct format_output *o, const struct qp_env *env)
{
    QP_ASSERT((o->hash == NULL) != (o->sink == NULL));
    buf_init(&o->text, env, 0);
    json_writer_init(&o->json, &o->text);
    o->rc = QP_OK;
}

static void flush(struct format_output *o)
{
    if (o->rc == QP_OK) {
        o->rc = buf_rc(&o->text);
    }
    if (o->rc == QP_OK && o->hash != NULL) {
        hash_stream_add(o->hash, o->text.p, o->text.n);
    } else if (o->rc == QP_OK && o->text.n > 0) {
        o->rc = o->sink(o->context, o->text.p, o->text.n);
    }
    buf_reset(&o->text);
}

void format_output_full(struct format_output *o)
{
    if (o->text.n >= PIECE_SIZE) {
        flush(o);
    }
}

int format_output_end(struct format_output *o)
{
    flush(o);
    buf_done(&o->text);
    return o->rc;
}

void member_put_text(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

void member_put_some(struct json_writer *w, const char *key, qp_str text)
{
    if (text.n > 0) {
        member_put_text(w, key, text);
    }
}

void member_put_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    json_put_i64(w, number);
}

void member_put_flag(struct json_writer *w, const char *key, bool truth)
{
    json_key(w, str_from(key));
    json_put_bool(w, truth);
}

void member_put_true(struct json_writer *w, const char *key, bool truth)
{
    if (truth) {
        member_put_flag(w, key, true);
    }
}
