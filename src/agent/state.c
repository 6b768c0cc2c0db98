/* state.c - the items of an instance: growing, finding, and the texts that are made of others */
#include "agent/state.h"

const char *hook_name(enum hook hook)
{
    static const char *const names[] = {
        [HOOK_HANDLE] = "handle",     [HOOK_EVENT] = "onEvent",     [HOOK_START] = "onStart",
        [HOOK_SUCCESS] = "onSuccess", [HOOK_FAILURE] = "onFailure", [HOOK_TIMEOUT] = "onTimeout"};
    QP_ASSERT((size_t)hook < ARRAY_COUNT(names));
    return names[hook];
}

int state_grow(struct arena *arena, void **items, size_t count, size_t *room, size_t size)
{
    size_t bytes = 0;
    QP_ASSERT(count <= *room);
    if (count < *room) {
        memset((char *)*items + count * size, 0, size);
        return QP_OK;
    }
    size_t more = *room == 0 ? 8 : *room * 2;
    void *grown = size_mul(more, size, &bytes) ? arena_alloc(arena, bytes) : NULL;
    if (grown == NULL) {
        return QP_E_NOMEM;
    }
    if (count > 0) {
        memcpy(grown, *items, count * size);
    }
    *items = grown;
    *room = more;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------ statuses */

/* Positions come from outside, but the table is probed by few: an even spread is enough. */
static size_t slot_of(const struct status_table *table, int64_t branch_key, qp_str position)
{
    return (size_t)hash_bytes((uint64_t)branch_key, position.p, position.n) &
           (table->slot_count - 1);
}

struct status *status_find(const struct status_table *table, int64_t branch_key, qp_str position)
{
    if (table->slot_count == 0) {
        return NULL;
    }
    for (size_t slot = slot_of(table, branch_key, position); table->slots[slot] != 0;
         slot = (slot + 1) & (table->slot_count - 1)) {
        struct status *status = table->items[table->slots[slot] - 1];
        if (status->branch_key == branch_key && str_equal(status->work.position, position)) {
            return status;
        }
    }
    return NULL;
}

static void put_slot(struct status_table *table, size_t index)
{
    const struct status *status = table->items[index];
    size_t slot = slot_of(table, status->branch_key, status->work.position);
    while (table->slots[slot] != 0) {
        slot = (slot + 1) & (table->slot_count - 1);
    }
    table->slots[slot] = (uint32_t)(index + 1);
}

static int widen(struct arena *arena, struct status_table *table)
{
    size_t slot_count = table->slot_count == 0 ? 16 : table->slot_count * 2;
    uint32_t *slots = arena_alloc(arena, slot_count * sizeof(*slots));
    if (slots == NULL) {
        return QP_E_NOMEM;
    }
    table->slots = slots;
    table->slot_count = slot_count;
    for (size_t i = 0; i < table->count; i++) {
        put_slot(table, i);
    }
    return QP_OK;
}

int status_add(struct arena *arena, struct status_table *table, struct status *status)
{
    QP_ASSERT(status_find(table, status->branch_key, status->work.position) == NULL);
    QP_ASSERT(table->count < UINT32_MAX - 1);
    QP_TRY(STATE_GROW(arena, table->items, table->count, table->room));
    if ((table->count + 1) * 2 > table->slot_count) {
        QP_TRY(widen(arena, table));
    }
    table->items[table->count] = status;
    put_slot(table, table->count);
    table->count++;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- lookups */

bool state_is_over(const struct instance *s)
{
    return s->completed || s->mode == MODE_KILL;
}

bool state_has_task(const struct status *status)
{
    return status->work.type == WORK_TASK && status->work.sync;
}

struct branch *state_branch(const struct instance *s, int64_t key)
{
    size_t low = 0;
    size_t high = s->branches_held;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->branches[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    QP_ASSERT(low < s->branches_held);
    QP_ASSERT(s->branches[low].key == key);
    return &s->branches[low];
}

int64_t state_execution(const struct instance *s, int64_t index)
{
    QP_ASSERT(index >= s->executions_first);
    QP_ASSERT(index < s->execution_count);
    return s->executions[index - s->executions_first];
}

qp_str state_properties(const struct property *properties, size_t count, int64_t index)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (properties[middle].key <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    QP_ASSERT(low > 0);
    return properties[low - 1].values;
}

/* --------------------------------------------------------------------------------------- texts */

static int finish(struct arena *arena, const struct json_writer *w, struct buf *out,
                  qp_str *out_json)
{
    int rc = json_writer_done(w);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(out), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(out);
    return rc;
}

int state_text(struct arena *arena, qp_str text, qp_str *out_json)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, arena->env, 0);
    json_writer_init(&w, &out);
    json_put_str(&w, text);
    return finish(arena, &w, &out, out_json);
}

int state_event(struct arena *arena, qp_str name, qp_str data, qp_str *out_json)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, arena->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("name"));
    json_put_str(&w, name);
    json_key(&w, QP_STR("data"));
    json_put_str(&w, data);
    json_end_object(&w);
    return finish(arena, &w, &out, out_json);
}

/* The members of an error in their order. */
static const char *const members[] = {"code", "name", "message", "stacktrace"};

static int write_error(struct arena *arena, const struct json *values[ARRAY_COUNT(members)],
                       const qp_str texts[ARRAY_COUNT(members)], bool with_name, qp_str *out_json)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, arena->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        if (i == 1 && !with_name) {
            continue;
        }
        json_key(&w, str_from(members[i]));
        if (values[i] != NULL) {
            json_write_tree(&w, values[i]);
        } else {
            json_put_str(&w, texts[i]);
        }
    }
    json_end_object(&w);
    return finish(arena, &w, &out, out_json);
}

int state_error(struct arena *arena, const struct json *error, struct qp_err *err,
                struct state_error *out_error)
{
    const struct json *values[ARRAY_COUNT(members)];
    const qp_str texts[ARRAY_COUNT(members)] = {QP_NONE, QP_NONE, QP_NONE, QP_NONE};
    qp_str name = QP_NONE;
    if (!json_is(error, JSON_KIND_OBJECT)) {
        return err_set(err, QP_E_SHAPE,
                       "error must be an object {code, name, message, stacktrace}");
    }
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        values[i] = json_get(error, str_from(members[i]));
    }
    if (values[1] != NULL && !json_is(values[1], JSON_KIND_NULL) &&
        !json_as_str(values[1], &name)) {
        return err_point(err, err_set(err, QP_E_SHAPE, "name must be a string or null"), "/name");
    }
    if (!arena_copy(arena, name, &out_error->name)) {
        return QP_E_NOMEM;
    }
    QP_TRY(write_error(arena, values, texts, true, &out_error->json));
    return write_error(arena, values, texts, false, &out_error->rest);
}

int state_error_make(struct arena *arena, qp_str code, qp_str name, qp_str message,
                     struct state_error *out_error)
{
    const struct json *values[ARRAY_COUNT(members)] = {NULL};
    const qp_str texts[ARRAY_COUNT(members)] = {code, name, message, QP_NONE};
    if (!arena_copy(arena, name, &out_error->name)) {
        return QP_E_NOMEM;
    }
    QP_TRY(write_error(arena, values, texts, true, &out_error->json));
    return write_error(arena, values, texts, false, &out_error->rest);
}
