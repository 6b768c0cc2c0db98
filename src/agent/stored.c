/* stored.c - windows of an instance's rows, and what a turn has changed of them (see stored.h) */
#include "agent/stored.h"

#include <stdlib.h>

#include "kernel/properties.h"

/* While a window is being filled. */
struct loading {
    const struct row_source *source;
    struct arena *arena;
    struct instance *s;
};

static int get_row(const struct loading *l, enum agent_row row, int64_t first, int64_t second,
                   qp_str *out_text)
{
    qp_str name;
    QP_TRY(agent_row_name(l->arena, row, first, second, &name));
    return l->source->get(l->source->context, l->arena, false, name, out_text);
}

/* The number behind a prefix of one letter and digits; rows are the engine's own. */
static int64_t number_behind(qp_str name, size_t prefix)
{
    int64_t number = 0;
    for (size_t i = prefix + 1; i < name.n; i++) {
        number = number * 10 + (name.p[i] - '0');
    }
    return number;
}

static int each_row(const struct loading *l, enum agent_row row, int64_t count, void *visitor,
                    int (*visit)(void *visitor, qp_str name, qp_str value))
{
    struct row_range range = {
        .arena = l->arena, .after = agent_prefix(row), .limit = (size_t)count};
    return count == 0 ? QP_OK : l->source->each(l->source->context, &range, visitor, visit);
}

static int load_head(const struct loading *l, struct row_counts *out_counts)
{
    qp_str text;
    *l->s = (struct instance){.arena = l->arena, .ongoing_index = NO_INDEX};
    QP_TRY(get_row(l, AGENT_HEAD, 0, 0, &text));
    return str_is_none(text) ? QP_E_NOT_FOUND : rows_get_head(l->arena, text, l->s, out_counts);
}

/* ------------------------------------------------------------------------------------------ works */

static int add_status(const struct loading *l, qp_str definition, qp_str state, int64_t branch,
                      struct status **out_status)
{
    struct status *status = ARENA_NEW(l->arena, struct status);
    if (status == NULL) {
        return QP_E_NOMEM;
    }
    status->branch_key = branch;
    QP_TRY(rows_get_definition(l->arena, definition, status));
    struct status *known = status_find(&l->s->statuses, branch, status->work.position);
    if (known != NULL) {
        *out_status = known;
        return QP_OK;
    }
    QP_TRY(rows_get_work(l->arena, state, status));
    QP_TRY(status_add(l->arena, &l->s->statuses, status));
    *out_status = status;
    return QP_OK;
}

static int load_work(const struct loading *l, int64_t branch, int64_t number,
                     struct status **out_status)
{
    qp_str address;
    qp_str definition;
    qp_str state;
    *out_status = NULL;
    QP_TRY(agent_work_address(l->arena, branch, number, &address));
    QP_TRY(l->source->get(l->source->context, l->arena, true, address, &definition));
    QP_TRY(get_row(l, AGENT_WORK, branch, number, &state));
    if (str_is_none(definition) && str_is_none(state)) {
        return QP_OK;
    }
    if (str_is_none(definition) || str_is_none(state)) {
        return QP_E_CORRUPT;
    }
    return add_status(l, definition, state, branch, out_status);
}

int stored_work(const struct row_source *source, struct instance *s, int64_t branch, int64_t number,
                struct status **out_status)
{
    struct loading l = {source, s->arena, s};
    return load_work(&l, branch, number, out_status);
}

static int need_work(const struct loading *l, struct row_work work, struct status **out_status)
{
    QP_TRY(load_work(l, work.branch, work.number, out_status));
    return *out_status == NULL ? QP_E_CORRUPT : QP_OK;
}

/* The definitions of works, and what became of them, stand in the same order in two places. */
struct pairing {
    const struct loading *l;
    qp_str *definitions;
    qp_str *addresses;
    size_t count;
    size_t met;
    struct status **statuses;
};

static int take_definition(void *visitor, qp_str name, qp_str value)
{
    struct pairing *p = visitor;
    p->addresses[p->count] = name;
    p->definitions[p->count++] = value;
    return QP_OK;
}

static int take_state(void *visitor, qp_str name, qp_str value)
{
    struct pairing *p = visitor;
    int64_t branch = 0;
    int64_t number = 0;
    size_t prefix = agent_prefix(AGENT_WORK).n;
    if (p->met == p->count || !agent_work_of(p->addresses[p->met], &branch, &number) ||
        name.n < prefix || name.n - prefix != p->addresses[p->met].n - 1 ||
        memcmp(name.p + prefix, p->addresses[p->met].p + 1, name.n - prefix) != 0) {
        return QP_E_CORRUPT;
    }
    QP_TRY(add_status(p->l, p->definitions[p->met], value, branch, &p->statuses[p->met]));
    p->met++;
    return QP_OK;
}

/* `count` works behind a name and an address, which differ in what they begin with. */
static int load_works(const struct loading *l, qp_str name, qp_str address, int64_t count)
{
    struct pairing p = {.l = l};
    struct row_range acts = {
        .arena = l->arena, .works = true, .after = address, .limit = (size_t)count};
    struct row_range data = {.arena = l->arena, .after = name, .limit = (size_t)count};
    if (count == 0) {
        return QP_OK;
    }
    p.definitions = arena_alloc(l->arena, (size_t)count * sizeof(*p.definitions));
    p.addresses = arena_alloc(l->arena, (size_t)count * sizeof(*p.addresses));
    p.statuses = arena_alloc(l->arena, (size_t)count * sizeof(struct status *));
    if (p.definitions == NULL || p.addresses == NULL || p.statuses == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(l->source->each(l->source->context, &acts, &p, take_definition));
    QP_TRY(l->source->each(l->source->context, &data, &p, take_state));
    return p.met == (size_t)count ? QP_OK : QP_E_CORRUPT;
}

static int load_works_of(const struct loading *l, const struct branch *branch)
{
    qp_str name;
    qp_str address;
    QP_TRY(agent_row_name(l->arena, AGENT_WORK, branch->key, 0, &name));
    QP_TRY(agent_work_address(l->arena, branch->key, 0, &address));
    name.n -= 2; /* "a0": all works of the branch come behind what is left */
    address.n -= 2;
    return load_works(l, name, address, branch->work_count);
}

static int by_number(const void *a, const void *b)
{
    const struct status *x = *(struct status *const *)a;
    const struct status *y = *(struct status *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Every work, and `statuses` in the order in which they were asked for. */
static int load_all_works(const struct loading *l)
{
    struct status_table found;
    static const char mark[] = {AGENT_WORK_MARK};
    QP_TRY(load_works(l, agent_prefix(AGENT_WORK), (qp_str){mark, 1}, l->s->work_count));
    found = l->s->statuses;
    if (found.count == 0) {
        return QP_OK;
    }
    qsort(found.items, found.count, sizeof(struct status *), by_number);
    l->s->statuses = (struct status_table){0};
    for (size_t i = 0; i < found.count; i++) {
        QP_TRY(status_add(l->arena, &l->s->statuses, found.items[i]));
    }
    return QP_OK;
}

/* -------------------------------------------------------------------------- waits, buffer, properties */

static int take_wait(void *visitor, qp_str name, qp_str value)
{
    const struct loading *l = visitor;
    struct instance *s = l->s;
    struct row_work work;
    QP_TRY(STATE_GROW(l->arena, s->waits, s->wait_count, s->wait_room));
    struct wait *wait = &s->waits[s->wait_count++];
    QP_TRY(rows_get_wait(l->arena, value, &work, &wait->end_ms));
    work.number = number_behind(name, agent_prefix(AGENT_WAIT).n);
    /* its work is read when the scan is over */
    wait->status = ARENA_NEW(l->arena, struct status);
    if (wait->status == NULL) {
        return QP_E_NOMEM;
    }
    wait->status->branch_key = work.branch;
    wait->status->number = work.number;
    return QP_OK;
}

static int load_waits(struct loading *l, int64_t count)
{
    QP_TRY(each_row(l, AGENT_WAIT, count, l, take_wait));
    for (size_t i = 0; i < l->s->wait_count; i++) {
        struct status *named = l->s->waits[i].status;
        QP_TRY(need_work(l, (struct row_work){named->branch_key, named->number},
                         &l->s->waits[i].status));
    }
    return l->s->wait_count == (size_t)count ? QP_OK : QP_E_CORRUPT;
}

static int take_action(void *visitor, qp_str name, qp_str value)
{
    const struct loading *l = visitor;
    struct instance *s = l->s;
    struct row_work work;
    QP_TRY(STATE_GROW(l->arena, s->buffer, s->buffer_count, s->buffer_room));
    struct action *action = &s->buffer[s->buffer_count++];
    QP_TRY(rows_get_action(l->arena, value, action, &work));
    action->order = number_behind(name, agent_prefix(AGENT_ACTION).n);
    if (work.branch == NO_INDEX) {
        return QP_OK;
    }
    action->status = ARENA_NEW(l->arena, struct status);
    if (action->status == NULL) {
        return QP_E_NOMEM;
    }
    action->status->branch_key = work.branch;
    action->status->number = work.number;
    return QP_OK;
}

static int load_buffer(struct loading *l, int64_t count)
{
    QP_TRY(each_row(l, AGENT_ACTION, count, l, take_action));
    for (size_t i = 0; i < l->s->buffer_count; i++) {
        struct status *named = l->s->buffer[i].status;
        if (named != NULL) {
            QP_TRY(need_work(l, (struct row_work){named->branch_key, named->number},
                             &l->s->buffer[i].status));
        }
    }
    return l->s->buffer_count == (size_t)count ? QP_OK : QP_E_CORRUPT;
}

static int take_property(void *visitor, qp_str name, qp_str value)
{
    const struct loading *l = visitor;
    struct instance *s = l->s;
    qp_str prefix = agent_prefix(AGENT_PROPERTY);
    if (name.n <= prefix.n || memcmp(name.p, prefix.p, prefix.n) != 0) {
        return QP_E_CORRUPT; /* a row beside them: one is missing */
    }
    QP_TRY(STATE_GROW(l->arena, s->properties, s->property_count, s->property_room));
    struct property *property = &s->properties[s->property_count++];
    property->key = number_behind(name, prefix.n);
    return properties_unwrap(l->arena, value, &property->values);
}

/* The last key alone: that is what new ones have to be behind. */
static int mark_property(const struct loading *l, const struct row_counts *counts)
{
    struct instance *s = l->s;
    QP_TRY(STATE_GROW(l->arena, s->properties, s->property_count, s->property_room));
    s->properties[s->property_count++].key = counts->last_property;
    return QP_OK;
}

/* ---------------------------------------------------------------------------- branches and executions */

static int take_branch(const struct loading *l, int64_t key, qp_str text)
{
    struct instance *s = l->s;
    QP_TRY(STATE_GROW(l->arena, s->branches, s->branches_held, s->branches_room));
    struct branch *branch = &s->branches[s->branches_held++];
    branch->key = key;
    return rows_get_branch(l->arena, text, branch);
}

static int visit_branch(void *visitor, qp_str name, qp_str value)
{
    const struct loading *l = visitor;
    return take_branch(l, number_behind(name, agent_prefix(AGENT_BRANCH).n), value);
}

/* The executions from `first` on. */
static int load_executions(struct loading *l, int64_t first)
{
    struct instance *s = l->s;
    int64_t keys[AGENT_CHUNK];
    s->executions_first = first - first % AGENT_CHUNK;
    for (int64_t i = s->executions_first; i < s->execution_count; i += AGENT_CHUNK) {
        int64_t left = s->execution_count - i;
        size_t count = 0;
        qp_str text;
        QP_TRY(get_row(l, AGENT_EXECUTIONS, i / AGENT_CHUNK, 0, &text));
        QP_TRY(str_is_none(text) ? QP_E_CORRUPT : rows_get_chunk(text, keys, &count));
        if (count != (size_t)(left < AGENT_CHUNK ? left : AGENT_CHUNK)) {
            return QP_E_CORRUPT;
        }
        for (size_t k = 0; k < count; k++) {
            size_t held = (size_t)(i - s->executions_first) + k;
            QP_TRY(STATE_GROW(l->arena, s->executions, held, s->executions_room));
            s->executions[held] = keys[k];
        }
    }
    return QP_OK;
}

static int by_key(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The branches that the ongoing decision executes, each once, in the order of their keys, with their works. */
static int load_batch(struct loading *l)
{
    struct instance *s = l->s;
    int64_t first = s->ongoing_index == NO_INDEX ? s->execution_count : s->ongoing_index;
    QP_TRY(load_executions(l, first));
    size_t count = (size_t)(s->execution_count - first);
    int64_t *keys = arena_alloc(l->arena, (count + 1) * sizeof(*keys));
    if (keys == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        keys[i] = state_execution(s, first + (int64_t)i);
    }
    qsort(keys, count, sizeof(*keys), by_key);
    for (size_t i = 0; i < count; i++) {
        qp_str text;
        if (i > 0 && keys[i] == keys[i - 1]) {
            continue;
        }
        QP_TRY(get_row(l, AGENT_BRANCH, keys[i], 0, &text));
        QP_TRY(str_is_none(text) ? QP_E_CORRUPT : take_branch(l, keys[i], text));
        QP_TRY(load_works_of(l, &s->branches[s->branches_held - 1]));
    }
    return QP_OK;
}

/* ----------------------------------------------------------------------------------- what a draft reads */

/* The row of properties(index): the last one whose key is at most index. */
static int load_properties_at(struct loading *l, int64_t index)
{
    struct instance *s = l->s;
    struct row_range range = {.arena = l->arena, .limit = 1, .backwards = true};
    size_t before = s->property_count;
    QP_TRY(agent_row_name(l->arena, AGENT_PROPERTY, index + 1, 0, &range.after));
    QP_TRY(l->source->each(l->source->context, &range, l, take_property));
    if (s->property_count == before) {
        return QP_E_CORRUPT;
    }
    return s->properties[before].key <= index ? QP_OK : QP_E_CORRUPT;
}

/* The indexes at which the scripts of the batch may be handed properties, in order. */
static int property_indexes(const struct loading *l, int64_t **out_indexes, size_t *out_count)
{
    const struct instance *s = l->s;
    size_t count = 0;
    int64_t *indexes =
        arena_alloc(l->arena, (1 + s->branches_held + s->statuses.count) * sizeof(*indexes));
    if (indexes == NULL) {
        return QP_E_NOMEM;
    }
    indexes[count++] = s->ongoing_index;
    for (size_t i = 0; i < s->branches_held; i++) {
        indexes[count++] = s->branches[i].start_index;
    }
    for (size_t i = 0; i < s->statuses.count; i++) {
        if (s->statuses.items[i]->completion_index != NO_INDEX) {
            indexes[count++] = s->statuses.items[i]->completion_index;
        }
    }
    qsort(indexes, count, sizeof(*indexes), by_key);
    *out_indexes = indexes;
    *out_count = count;
    return QP_OK;
}

static void turn_around(struct property *properties, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct property first = properties[i];
        properties[i] = properties[count - 1 - i];
        properties[count - 1 - i] = first;
    }
}

/* From the last index to the first: a row whose key is at most the next index, too, is the row of that one. */
static int load_properties_of_batch(struct loading *l)
{
    struct instance *s = l->s;
    int64_t *indexes = NULL;
    size_t count = 0;
    QP_TRY(property_indexes(l, &indexes, &count));
    for (size_t i = count; i > 0; i--) {
        if (s->property_count == 0 || s->properties[s->property_count - 1].key > indexes[i - 1]) {
            QP_TRY(load_properties_at(l, indexes[i - 1]));
        }
    }
    turn_around(s->properties, s->property_count);
    return QP_OK;
}

int stored_load_draft(const struct row_source *source, struct arena *arena,
                      struct instance *out_instance)
{
    struct loading l = {source, arena, out_instance};
    struct row_counts counts;
    QP_TRY(load_head(&l, &counts));
    if (!out_instance->decision_ongoing) {
        return QP_OK; /* there is no batch */
    }
    QP_TRY(load_batch(&l));
    return load_properties_of_batch(&l);
}

/* ------------------------------------------------------------------------------------------- windows */

static void mark_stored(const struct loading *l, struct stored *stored)
{
    stored->source = *l->source;
    stored->execution_count = l->s->execution_count;
    stored->next_order = l->s->next_order;
    stored->work_count = l->s->work_count;
    stored->property_count = l->s->property_count;
}

void stored_begin(const struct row_source *source, struct stored *out_stored)
{
    *out_stored = (struct stored){.source = *source};
}

int stored_load(const struct row_source *source, struct arena *arena, unsigned windows,
                struct instance *out_instance, struct stored *out_stored)
{
    struct loading l = {source, arena, out_instance};
    *out_stored = (struct stored){0};
    QP_TRY(load_head(&l, &out_stored->counts));
    if ((windows & WINDOW_WORKS) != 0) {
        QP_TRY(load_all_works(&l));
    }
    if ((windows & WINDOW_BATCH) != 0) {
        QP_TRY(load_batch(&l));
    } else if (windows != 0) {
        /* the last chunk goes on growing */
        QP_TRY(load_executions(&l, out_instance->execution_count));
    }
    if ((windows & WINDOW_WAITS) != 0) {
        QP_TRY(load_waits(&l, out_stored->counts.waits));
    }
    if ((windows & WINDOW_BUFFER) != 0) {
        QP_TRY(load_buffer(&l, out_stored->counts.actions));
    } else {
        out_instance->buffer_absent = out_stored->counts.actions;
    }
    QP_TRY(mark_property(&l, &out_stored->counts));
    mark_stored(&l, out_stored);
    return QP_OK;
}

int stored_load_whole(const struct row_source *source, struct arena *arena,
                      struct instance *out_instance)
{
    struct loading l = {source, arena, out_instance};
    struct row_counts counts;
    QP_TRY(load_head(&l, &counts));
    QP_TRY(load_all_works(&l));
    QP_TRY(load_executions(&l, 0));
    QP_TRY(each_row(&l, AGENT_BRANCH, out_instance->branch_count, &l, visit_branch));
    QP_TRY(load_waits(&l, counts.waits));
    QP_TRY(load_buffer(&l, counts.actions));
    QP_TRY(each_row(&l, AGENT_PROPERTY, counts.properties, &l, take_property));
    if (out_instance->branches_held != (size_t)out_instance->branch_count ||
        out_instance->property_count != (size_t)counts.properties ||
        out_instance->property_count == 0) {
        return QP_E_CORRUPT;
    }
    return QP_OK;
}

/* -------------------------------------------------------------------------------------------- saving */

struct saving {
    const struct stored *before;
    const struct row_sink *sink;
    const struct instance *s;
    struct row_counts counts;
};

static int put_row(const struct saving *v, enum agent_row row, int64_t first, int64_t second,
                   qp_str text)
{
    qp_str name;
    QP_TRY(agent_row_name(v->s->arena, row, first, second, &name));
    return v->sink->put(v->sink->context, name, text);
}

static int save_branches(const struct saving *v)
{
    for (size_t i = 0; i < v->s->branches_held; i++) {
        const struct branch *branch = &v->s->branches[i];
        qp_str text;
        if (branch->changed) {
            QP_TRY(rows_put_branch(v->s->arena, branch, &text));
            QP_TRY(put_row(v, AGENT_BRANCH, branch->key, 0, text));
        }
    }
    return QP_OK;
}

/* From the chunk that the first new execution stands in. */
static int save_executions(const struct saving *v)
{
    const struct instance *s = v->s;
    int64_t i = v->before->execution_count - v->before->execution_count % AGENT_CHUNK;
    if (s->execution_count == v->before->execution_count) {
        return QP_OK;
    }
    for (; i < s->execution_count; i += AGENT_CHUNK) {
        int64_t left = s->execution_count - i;
        size_t count = (size_t)(left < AGENT_CHUNK ? left : AGENT_CHUNK);
        qp_str text;
        QP_ASSERT(i >= s->executions_first);
        QP_TRY(rows_put_chunk(s->arena, s->executions + (i - s->executions_first), count, &text));
        QP_TRY(put_row(v, AGENT_EXECUTIONS, i / AGENT_CHUNK, 0, text));
    }
    return QP_OK;
}

static int save_new_work(const struct saving *v, const struct status *status)
{
    qp_str address;
    qp_str definition;
    QP_TRY(agent_work_address(v->s->arena, status->branch_key, status->number, &address));
    QP_TRY(rows_put_definition(v->s->arena, status, &definition));
    return v->sink->work(v->sink->context, address, status, definition);
}

static int save_works(const struct saving *v)
{
    for (size_t i = 0; i < v->s->statuses.count; i++) {
        const struct status *status = v->s->statuses.items[i];
        qp_str text;
        if (!status->changed) {
            continue;
        }
        if (status->number >= v->before->work_count) {
            QP_TRY(save_new_work(v, status));
        }
        QP_TRY(rows_put_work(v->s->arena, status, &text));
        QP_TRY(put_row(v, AGENT_WORK, status->branch_key, status->number, text));
    }
    return QP_OK;
}

/* Waits begin and end by effects. One may do both in a turn. */
static int save_waits(struct saving *v)
{
    for (size_t i = 0; i < v->s->effect_count; i++) {
        const struct effect *effect = &v->s->effects[i];
        struct wait wait = {.status = effect->status, .end_ms = effect->end_ms};
        qp_str text = QP_NONE;
        if (effect->kind != EFFECT_WAIT && effect->kind != EFFECT_WAIT_END) {
            continue;
        }
        if (effect->kind == EFFECT_WAIT) {
            QP_TRY(rows_put_wait(v->s->arena, &wait, &text));
        }
        v->counts.waits += effect->kind == EFFECT_WAIT ? 1 : -1;
        QP_TRY(put_row(v, AGENT_WAIT, effect->status->number, 0, text));
    }
    QP_ASSERT(v->counts.waits >= 0);
    return QP_OK;
}

static int save_properties(struct saving *v)
{
    for (size_t i = v->before->property_count; i < v->s->property_count; i++) {
        const struct property *property = &v->s->properties[i];
        qp_str text;
        QP_ASSERT(property->changed);
        QP_TRY(properties_wrap(v->s->arena, property->values, &text));
        QP_TRY(put_row(v, AGENT_PROPERTY, property->key, 0, text));
        v->counts.properties++;
        v->counts.last_property = property->key;
    }
    return QP_OK;
}

/* An action that came and was prepared in one turn never was a row. */
static int save_buffer(struct saving *v)
{
    for (size_t i = 0; i < v->s->effect_count; i++) {
        const struct effect *effect = &v->s->effects[i];
        if (effect->kind == EFFECT_TAKE && effect->order < v->before->next_order) {
            QP_TRY(put_row(v, AGENT_ACTION, effect->order, 0, QP_NONE));
            v->counts.actions--;
        }
    }
    for (size_t i = 0; i < v->s->buffer_count; i++) {
        const struct action *action = &v->s->buffer[i];
        qp_str text;
        if (action->order >= v->before->next_order) {
            QP_TRY(rows_put_action(v->s->arena, action, &text));
            QP_TRY(put_row(v, AGENT_ACTION, action->order, 0, text));
            v->counts.actions++;
        }
    }
    QP_ASSERT(v->counts.actions == (int64_t)v->s->buffer_count + v->s->buffer_absent);
    return QP_OK;
}

int stored_save(struct stored *stored, const struct row_sink *sink, const struct instance *s)
{
    struct saving v = {.before = stored, .sink = sink, .s = s, .counts = stored->counts};
    qp_str head;
    QP_TRY(save_branches(&v));
    QP_TRY(save_executions(&v));
    QP_TRY(save_works(&v));
    QP_TRY(save_waits(&v));
    QP_TRY(save_properties(&v));
    QP_TRY(save_buffer(&v));
    QP_TRY(rows_put_head(s->arena, s, &v.counts, &head));
    stored->counts = v.counts;
    return put_row(&v, AGENT_HEAD, 0, 0, head);
}
