/* members.c - one table of members, written and read (see members.h) */
#include "agent/members.h"

static void put_member(struct json_writer *w, const struct member *m)
{
    bool is_text = m->kind == MEMBER_TEXT || m->kind == MEMBER_RAW;
    if ((is_text && str_is_none(*m->text)) || (m->kind == MEMBER_NUMBER && *m->number == 0) ||
        (m->kind == MEMBER_FLAG && !*m->flag)) {
        return;
    }
    json_key(w, str_from(m->key));
    if (m->kind == MEMBER_TEXT) {
        json_put_str(w, *m->text);
    } else if (m->kind == MEMBER_RAW) {
        json_put_raw(w, *m->text);
    } else if (m->kind == MEMBER_NUMBER) {
        json_put_i64(w, *m->number);
    } else {
        json_put_bool(w, true);
    }
}

void members_put(struct json_writer *w, const struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_member(w, &members[i]);
    }
}

int members_write(struct arena *arena, const struct member *members, size_t count, qp_str *out_text)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, arena->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    members_put(&w, members, count);
    json_end_object(&w);
    int rc = json_writer_done(&w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&out), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

/* An integer as json_put_i64 writes it. */
bool members_i64(qp_str text, int64_t *out_number)
{
    bool negative = text.n > 0 && text.p[0] == '-';
    uint64_t number = 0;
    for (size_t i = negative; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || number > INT64_MAX / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(text.p[i] - '0');
    }
    if (text.n == negative || number > INT64_MAX) {
        return false;
    }
    *out_number = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool read_member(struct arena *arena, const struct member *m, qp_str value)
{
    switch (m->kind) {
    case MEMBER_TEXT:
        return raw_text(arena->env, arena, value, m->text);
    case MEMBER_NUMBER:
        return members_i64(value, m->number);
    case MEMBER_FLAG:
        *m->flag = str_equal(value, QP_STR("true"));
        return *m->flag;
    case MEMBER_RAW:
        *m->text = value;
        return true;
    }
    return false;
}

int members_read(struct arena *arena, qp_str text, const struct member *members, size_t count)
{
    struct raw_walk w = {.rest = text};
    if (raw_first(text) != '{') {
        return QP_E_CORRUPT;
    }
    while (raw_each(&w)) {
        for (size_t i = 0; i < count; i++) {
            if (str_equal(w.key, str_from(members[i].key)) &&
                !read_member(arena, &members[i], w.value)) {
                return QP_E_CORRUPT;
            }
        }
    }
    return QP_OK;
}
