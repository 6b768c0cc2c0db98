/* event.c - what journal entries say (see event.h) */
#include "store/event.h"

#include "base/json.h"
#include "store/error.h"

static void put_text(struct json_writer *w, qp_str key, qp_str text)
{
    if (!str_is_none(text)) {
        json_key(w, key);
        json_put_str(w, text);
    }
}

static void put_number(struct json_writer *w, qp_str key, int64_t number)
{
    if (number != 0) {
        json_key(w, key);
        json_put_i64(w, number);
    }
}

static void put_error(struct json_writer *w, const struct event_facts *facts)
{
    if (!str_is_none(facts->error)) {
        json_key(w, QP_STR("error"));
        error_put(w, &(struct error){
                         .code = facts->code, .message = facts->error, .addr = facts->address});
    }
}

int event_write(const struct qp_env *env, struct arena *arena, const struct event_facts *facts,
                qp_str *out_json)
{
    struct json_writer w;
    struct buf text;
    int rc;
    buf_init(&text, env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    put_number(&w, QP_STR("attempt"), facts->attempt);
    put_number(&w, QP_STR("delivery"), facts->delivery);
    put_text(&w, QP_STR("worker"), facts->worker);
    put_text(&w, QP_STR("topic"), facts->topic);
    put_text(&w, QP_STR("key"), facts->key);
    put_text(&w, QP_STR("job"), facts->job);
    put_number(&w, QP_STR("until"), facts->until);
    put_error(&w, facts);
    json_end_object(&w);
    rc = json_writer_done(&w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&text), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&text);
    return rc;
}

/* ------------------------------------------------------------------------------------------- read */

static int64_t number_at(const struct json *object, qp_str key)
{
    int64_t number = 0;
    return json_as_i64(json_get(object, key), &number) ? number : 0;
}

static int text_at(struct arena *arena, const struct json *object, qp_str key, qp_str *out_text)
{
    qp_str text = QP_NONE;
    if (!json_as_str(json_get(object, key), &text)) {
        return QP_OK;
    }
    return arena_copy(arena, text, out_text) ? QP_OK : QP_E_NOMEM;
}

static int error_at(const struct qp_env *env, struct arena *arena, const struct json *object,
                    struct event_facts *facts)
{
    const struct json *error = json_get(object, QP_STR("error"));
    struct json_writer w;
    struct buf text;
    int rc;
    if (error == NULL) {
        return QP_OK;
    }
    facts->code = number_at(error, QP_STR("code"));
    buf_init(&text, env, 0);
    json_writer_init(&w, &text);
    json_write_tree(&w, error);
    rc = json_writer_done(&w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&text), &facts->error)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&text);
    return rc;
}

static int facts_of(const struct qp_env *env, struct arena *arena, const struct json *json,
                    struct event_facts *facts)
{
    facts->attempt = number_at(json, QP_STR("attempt"));
    facts->delivery = number_at(json, QP_STR("delivery"));
    facts->until = number_at(json, QP_STR("until"));
    QP_TRY(text_at(arena, json, QP_STR("worker"), &facts->worker));
    QP_TRY(text_at(arena, json, QP_STR("topic"), &facts->topic));
    QP_TRY(text_at(arena, json, QP_STR("key"), &facts->key));
    QP_TRY(text_at(arena, json, QP_STR("job"), &facts->job));
    return error_at(env, arena, json, facts);
}

int event_read(const struct qp_env *env, struct arena *arena, qp_str json,
               struct event_facts *out_facts)
{
    struct event_facts facts = {0};
    struct json *tree = NULL;
    int rc = json_parse(env, json, NULL, &tree);
    if (rc == QP_OK) {
        rc = facts_of(env, arena, tree, &facts);
    }
    json_free(tree);
    if (rc != QP_OK) {
        return rc == QP_E_NOMEM ? rc : QP_E_CORRUPT;
    }
    *out_facts = facts;
    return QP_OK;
}

int64_t status_of_state(int64_t state)
{
    static const int64_t words[JOB_STATES] = {STATUS_RUNNING, STATUS_COMPLETED, STATUS_FAILED,
                                              STATUS_CANCELLED, STATUS_INTERRUPTED};
    QP_ASSERT(state >= JOB_OPEN && state < JOB_STATES);
    return words[state];
}

/* ----------------------------------------------------------------------------------- publications */

int publication_write(const struct qp_env *env, struct arena *arena, const struct publication *p,
                      qp_str *out_json)
{
    struct json_writer w;
    struct buf text;
    int rc;
    buf_init(&text, env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    put_text(&w, QP_STR("topic"), p->topic);
    put_number(&w, QP_STR("code"), p->code);
    if (!p->at_end && !str_is_none(p->data)) {
        json_key(&w, QP_STR("data"));
        json_put_raw(&w, p->data);
    }
    json_end_object(&w);
    rc = json_writer_done(&w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&text), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&text);
    return rc;
}

int publication_read(const struct qp_env *env, struct arena *arena, qp_str json,
                     struct publication *out_publication)
{
    struct raw_walk w = {.rest = json};
    struct publication p = {.code = 0};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("topic")) && !raw_text(env, arena, w.value, &p.topic)) {
            return QP_E_NOMEM;
        }
        if (str_equal(w.key, QP_STR("code"))) {
            for (size_t i = 0; i < w.value.n; i++) {
                p.code =
                    p.code * 10 + (w.value.p[i] - '0'); /* three digits, as they were written */
            }
        }
        if (str_equal(w.key, QP_STR("data"))) {
            p.data = w.value;
        }
    }
    *out_publication = p;
    return QP_OK;
}
