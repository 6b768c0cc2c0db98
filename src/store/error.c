/* error.c - the one shape of an error (see error.h) */
#include "store/error.h"

#include "base/json.h"

qp_str error_cut(qp_str message)
{
    message.n = message.n > LIMIT_ERROR_TEXT_SIZE ? LIMIT_ERROR_TEXT_SIZE : message.n;
    message.n = utf8_valid_prefix(message);
    return message;
}

bool error_has_shape(qp_str text)
{
    static const char front[] = "{\"code\":";
    static const char back[] = "\"address\":";
    return text.n > sizeof front && memcmp(text.p, front, sizeof front - 1) == 0 &&
           memmem(text.p, text.n, back, sizeof back - 1) != NULL;
}

static void put(struct json_writer *w, const char *key, qp_str text)
{
    json_key(w, str_from(key));
    json_put_str(w, text);
}

/* The name of an activity is its address up to the first comma. */
static qp_str activity_of(const struct error *e)
{
    const char *comma = e->addr.n == 0 ? NULL : memchr(e->addr.p, ',', e->addr.n);
    if (!str_is_none(e->activity) || comma == NULL) {
        return str_is_none(e->activity) ? e->addr : e->activity;
    }
    return (qp_str){e->addr.p, (size_t)(comma - e->addr.p)};
}

void error_put(struct json_writer *w, const struct error *e)
{
    json_begin_object(w);
    json_key(w, QP_STR("code"));
    json_put_i64(w, e->code);
    put(w, "message", e->message);
    put(w, "activity", activity_of(e));
    put(w, "address", e->addr);
    if (!str_is_none(e->job)) {
        put(w, "job", e->job);
    }
    json_end_object(w);
}

static int write_fields(struct buf *out, const struct error *e, qp_str message)
{
    struct error cut = *e;
    struct json_writer w;
    cut.message = message;
    json_writer_init(&w, out);
    error_put(&w, &cut);
    return json_writer_done(&w);
}

/* A byte of the message is one to six of the text: what is over is cut off, or half of the message when it has less. */
int error_write(struct arena *a, const struct error *e, qp_str *out_json)
{
    qp_str message =
        error_cut(str_is_none(e->message) ? QP_STR("no reason was given") : e->message);
    struct buf out;
    int rc;
    buf_init(&out, a->env, 0);
    rc = write_fields(&out, e, message);
    while (rc == QP_OK && out.n > LIMIT_ERROR_TEXT_SIZE) {
        size_t over = out.n - LIMIT_ERROR_TEXT_SIZE;
        QP_ASSERT(message.n > 0); /* addresses and ids have limits of their own */
        message.n = message.n > over ? message.n - over : message.n / 2;
        message.n = utf8_valid_prefix(message);
        buf_reset(&out);
        rc = write_fields(&out, e, message);
    }
    if (rc == QP_OK && !arena_copy(a, buf_slice(&out), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

static bool is_own_key(qp_str key)
{
    static const char *const keys[] = {"code", "message", "activity", "address", "job"};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        if (str_equal(key, str_from(keys[i]))) {
            return true;
        }
    }
    return false;
}

static void write_more(struct buf *out, qp_str data)
{
    struct raw_walk w = {.rest = data};
    if (raw_first(data) != '{') {
        buf_text(out, ",\"output\":");
        buf_str(out, data);
        return;
    }
    while (raw_each(&w)) {
        if (!is_own_key(w.key)) {
            buf_text(out, ",\"");
            buf_str(out, w.key);
            buf_text(out, "\":");
            buf_str(out, w.value);
        }
    }
}

int error_write_with(struct arena *a, const struct error *e, qp_str data, qp_str *out_json)
{
    struct buf out;
    int rc;
    QP_TRY(error_write(a, e, out_json));
    if (str_is_none(data) || raw_first(data) == 'n') {
        return QP_OK;
    }
    buf_init(&out, a->env, 0);
    buf_str(&out, (qp_str){out_json->p, out_json->n - 1});
    write_more(&out, data);
    buf_byte(&out, '}');
    rc = buf_rc(&out);
    rc = rc == QP_OK && !arena_copy(a, buf_slice(&out), out_json) ? QP_E_NOMEM : rc;
    buf_done(&out);
    return rc;
}

/* A name or an address, which needs no escapes: what comes from outside may have anything there. */
static bool is_plain(qp_str text, size_t most)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        if (byte <= 0x20 || byte >= 0x7f || byte == '"' || byte == '\\') {
            return false;
        }
    }
    return text.n > 0 && text.n <= most;
}

static void take_code(const struct json *json, int64_t least, struct error *e)
{
    int64_t code;
    if (json_as_i64(json_get(json, QP_STR("code")), &code) && code >= least && code <= LIMIT_CODE) {
        e->code = code;
    }
}

/* False: no memory. */
static bool take_fields(struct arena *a, const struct json *json, struct error *e)
{
    qp_str text = QP_NONE;
    bool taken = true;
    if (json_as_str(json_get(json, QP_STR("activity")), &text) && is_plain(text, LIMIT_NAME_SIZE)) {
        taken = arena_copy(a, text, &e->activity);
    }
    if (json_as_str(json_get(json, QP_STR("address")), &text) &&
        is_plain(text, LIMIT_ADDRESS_SIZE)) {
        taken = taken && arena_copy(a, text, &e->addr);
    }
    if (json_as_str(json_get(json, QP_STR("job")), &text) && id_check(text, "job", NULL) == QP_OK) {
        taken = taken && arena_copy(a, text, &e->job);
    }
    return taken;
}

/* An object that has a message speaks for itself; everything else is a sentence, but a code of an error is believed. */
static int take_text(struct arena *a, qp_str text, struct error *e)
{
    struct json *json = NULL;
    qp_str message = text;
    int rc = text.n > 0 && text.p[0] == '{' ? json_parse(a->env, text, NULL, &json) : QP_E_INVALID;
    bool speaks = rc == QP_OK && json_as_str(json_get(json, QP_STR("message")), &message);
    bool taken = true;
    take_code(json, speaks ? LIMIT_CODE_LEAST : 400, e);
    if (speaks) {
        taken = take_fields(a, json, e);
    }
    if (!str_is_none(message)) {
        taken = taken && arena_copy(a, message, &e->message);
    }
    json_free(json);
    return rc == QP_E_NOMEM || !taken ? QP_E_NOMEM : QP_OK;
}

int error_shape(struct arena *a, qp_str text, const struct error *otherwise, qp_str *out_json)
{
    struct error e = *otherwise;
    int rc = take_text(a, text, &e);
    return rc == QP_OK ? error_write(a, &e, out_json) : rc;
}

int error_read(struct arena *a, qp_str text, struct error *out_error)
{
    *out_error = (struct error){.code = ERROR_CODE};
    return take_text(a, text, out_error);
}
