/* script_values.c - the properties of a run (see script_values.h) */
#include "flow/script_values.h"

#include "flow/script_step.h"

static_assert(LIMIT_PROPERTIES == 100, "a sentence below names it");
static_assert(LIMIT_PROPERTIES_SIZE == 64 * 1024, "a sentence below names it");

/* Where it stands, or would. */
static struct value **link_of(struct values *of, qp_str name)
{
    struct value **link = &of->first;
    while (*link != NULL && !str_equal((*link)->name, name)) {
        link = &(*link)->next;
    }
    return link;
}

#define MARKS 4 /* "":, around a name and its value */

static int check_room(struct script *s, const struct values *of)
{
    if (of->count > LIMIT_PROPERTIES) {
        return script_mistake(
            s, QP_E_TOO_LARGE,
            "qp_set: the flow has more than 100 names of properties, which is the "
            "limit");
    }
    if (of->size + 1 > LIMIT_PROPERTIES_SIZE) {
        return script_mistake(
            s, QP_E_TOO_LARGE,
            "qp_set: the properties of the flow have more than 64 KiB, which is the limit; keep "
            "large values elsewhere, and their names here");
    }
    return QP_OK;
}

/* Of those that were set at the same place the last one counts, so order is that of `fed`. */
static int put(struct script *s, struct values *of, const struct value *value)
{
    struct value **link = link_of(of, value->name);
    struct value *v = *link;
    if (v == NULL) {
        v = ARENA_NEW(s->arena, struct value);
        if (v == NULL) {
            return script_no_memory(s);
        }
        *v = *value;
        *link = v;
        of->count++;
        of->size += v->name.n + v->json.n + MARKS;
        return check_room(s, of);
    }
    if (value->fed >= v->fed) {
        of->size += value->json.n - v->json.n;
        v->json = value->json;
        v->fed = value->fed;
    }
    return check_room(s, of);
}

int values_set(struct frame *f, qp_str name, qp_str value)
{
    struct script *s = f->flow.script;
    struct value own = {.name = name, .json = value};
    struct value seen = {.name = name, .json = value, .fed = f->fed};
    QP_TRY(put(s, &f->values, &own));
    for (struct frame *frame = f; frame != NULL; frame = frame->outer) {
        for (struct scope *scope = frame->top; scope != NULL; scope = scope->outer) {
            if (scope->round != NULL) {
                QP_TRY(put(s, &scope->round->values, &own));
            }
        }
    }
    return put(s, &s->values, &seen);
}

int values_set_all(struct frame *f, qp_str object)
{
    struct raw_walk w = {.rest = object};
    while (!str_is_none(object) && raw_each(&w)) {
        QP_TRY(values_set(f, w.key, w.value));
    }
    return QP_OK;
}

int values_leave(struct frame *f, const struct values *of)
{
    int rc = QP_OK;
    for (const struct value *v = of->first; v != NULL && rc == QP_OK; v = v->next) {
        rc = values_set(f, v->name, v->json);
    }
    return rc;
}

int values_await(struct frame *f, const struct work *work)
{
    struct frame *closure = work->closure;
    frame_feed(f, work);
    if (closure == NULL || closure->awaited) {
        return QP_OK;
    }
    closure->awaited = true;
    return values_leave(f, &closure->values);
}

static bool is_null(qp_str json)
{
    return str_equal(json, QP_STR("null"));
}

void values_write(struct json_writer *w, const struct values *of, bool removed)
{
    json_begin_object(w);
    for (const struct value *v = of->first; v != NULL; v = v->next) {
        if (removed || !is_null(v->json)) {
            json_key(w, v->name);
            json_put_raw(w, v->json);
        }
    }
    json_end_object(w);
}

/* ------------------------------------------------------------------------------------------ calls */

int qp_set(qp_flow *f, const char *name, qp_str value)
{
    qp_str own_name;
    qp_str own_value;
    QP_TRY(script_enter(f, "qp_set"));
    QP_TRY(step_name(f, "qp_set", name, &own_name));
    QP_TRY(step_json_copy(f, "qp_set", "value", value, &own_value));
    return values_set(f->frame, own_name, own_value);
}

int qp_get(qp_flow *f, const char *name, qp_str *out_value)
{
    const struct value *v = NULL;
    QP_TRY(script_enter_any(f, "qp_get"));
    if (name == NULL || out_value == NULL) {
        return script_mistake(f->script, QP_E_INVALID, "qp_get: name or out_value is NULL");
    }
    for (struct frame *frame = f->frame; frame != NULL && v == NULL; frame = frame->outer) {
        v = *link_of(&frame->values, str_from(name));
    }
    *out_value = v == NULL || is_null(v->json) ? QP_NONE : v->json;
    return QP_OK;
}
