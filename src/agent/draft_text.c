/* draft_text.c - a finished draft as text, and back (see draft_text.h) */
#include "agent/draft_text.h"

#include "agent/members.h"
#include "agent/rows.h"

/* ----------------------------------------------------------------------------------------- writing */

static int write_work(struct json_writer *w, struct arena *arena, const struct draft_work *work)
{
    struct draft_work copy = *work;
    qp_str definition;
    QP_TRY(rows_put_definition(arena, work->status, &definition));
    const struct member members[] = {RAW("work", &definition),
                                     NUMBER("branch", &copy.status->branch_key),
                                     NUMBER("index", &copy.index)};
    json_begin_object(w);
    members_put(w, members, ARRAY_COUNT(members));
    json_end_object(w);
    return QP_OK;
}

static int write_works(struct json_writer *w, struct arena *arena, const struct draft *d)
{
    json_key(w, QP_STR("works"));
    json_begin_array(w);
    for (size_t i = 0; i < d->work_count; i++) {
        QP_TRY(write_work(w, arena, &d->works[i]));
    }
    json_end_array(w);
    return QP_OK;
}

static void write_properties(struct json_writer *w, const struct draft *d)
{
    json_key(w, QP_STR("properties"));
    json_begin_array(w);
    for (size_t i = 0; i < d->property_count; i++) {
        struct property p = d->properties[i];
        const struct member members[] = {NUMBER("key", &p.key), TEXT("values", &p.values)};
        json_begin_object(w);
        members_put(w, members, ARRAY_COUNT(members));
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_outputs(struct json_writer *w, const struct draft *d)
{
    json_key(w, QP_STR("outputs"));
    json_begin_array(w);
    for (size_t i = 0; i < d->output_count; i++) {
        struct draft_output o = d->outputs[i];
        const struct member members[] = {NUMBER("branch", &o.branch_key),
                                         TEXT("output", &o.output)};
        json_begin_object(w);
        members_put(w, members, ARRAY_COUNT(members));
        json_end_object(w);
    }
    json_end_array(w);
}

static int write_all(struct json_writer *w, struct arena *arena, const struct draft *d)
{
    json_begin_object(w);
    QP_TRY(write_works(w, arena, d));
    write_properties(w, d);
    write_outputs(w, d);
    if (!str_is_none(d->name)) {
        json_key(w, QP_STR("name"));
        json_put_str(w, d->name);
    }
    json_end_object(w);
    return json_writer_done(w);
}

int draft_write(struct arena *arena, const struct draft *draft, qp_str *out_text)
{
    struct buf out;
    struct json_writer w;
    QP_ASSERT(draft_is_finished(draft));
    buf_init(&out, arena->env, 0);
    json_writer_init(&w, &out);
    int rc = write_all(&w, arena, draft);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&out), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

/* ----------------------------------------------------------------------------------------- reading */

struct reading {
    struct draft *d;
    struct qp_err *err;
};

static int refuse(const struct reading *r, const char *what)
{
    return err_set(r->err, QP_E_SHAPE, "it does not fit the decision that is out: %s", what);
}

/* Each sort of item stands in an array; what is no array has no items. */
static int each_item(const struct reading *r, qp_str array,
                     int (*take)(const struct reading *r, qp_str item))
{
    struct raw_walk w = {.rest = array};
    if (str_is_none(array) || raw_first(array) != '[') {
        return refuse(r, "works, properties and outputs must be arrays");
    }
    while (raw_each(&w)) {
        QP_TRY(take(r, w.value));
    }
    return QP_OK;
}

static int read_item(const struct reading *r, qp_str text, const struct member *members,
                     size_t count)
{
    int rc = members_read(r->d->arena, text, members, count);
    return rc == QP_E_CORRUPT ? refuse(r, "an item has not the form of its sort") : rc;
}

/* Whether the index is one of the batch, and executes this branch. */
static bool is_executed(const struct instance *s, int64_t index, int64_t branch)
{
    return index >= s->ongoing_index && index < s->execution_count &&
           state_execution(s, index) == branch;
}

static bool is_in_batch(const struct instance *s, int64_t branch)
{
    for (int64_t i = s->ongoing_index; i < s->execution_count; i++) {
        if (state_execution(s, i) == branch) {
            return true;
        }
    }
    return false;
}

static int take_work(const struct reading *r, qp_str item)
{
    struct draft *d = r->d;
    qp_str definition = QP_NONE;
    int64_t index = 0;
    struct status *status = ARENA_NEW(d->arena, struct status);
    if (status == NULL) {
        return QP_E_NOMEM;
    }
    status->attempt = 1;
    status->completion_index = NO_INDEX;
    const struct member members[] = {
        RAW("work", &definition), NUMBER("branch", &status->branch_key), NUMBER("index", &index)};
    QP_TRY(read_item(r, item, members, ARRAY_COUNT(members)));
    if (str_is_none(definition) ||
        rows_get_definition(d->arena, definition, status) == QP_E_CORRUPT) {
        return refuse(r, "a work has no definition");
    }
    if (!is_executed(d->instance, index, status->branch_key)) {
        return refuse(r, "a work is of a branch that it does not execute");
    }
    if (status_find(&d->instance->statuses, status->branch_key, status->work.position) != NULL ||
        status_find(&d->statuses, status->branch_key, status->work.position) != NULL) {
        return refuse(r, "a work has the position of another");
    }
    QP_TRY(STATE_GROW(d->arena, d->works, d->work_count, d->work_room));
    QP_TRY(status_add(d->arena, &d->statuses, status));
    d->works[d->work_count++] = (struct draft_work){.status = status, .index = index};
    return QP_OK;
}

static int take_property(const struct reading *r, qp_str item)
{
    struct draft *d = r->d;
    const struct instance *s = d->instance;
    int64_t last = d->property_count > 0 ? d->properties[d->property_count - 1].key
                                         : s->properties[s->property_count - 1].key;
    QP_TRY(STATE_GROW(d->arena, d->properties, d->property_count, d->property_room));
    struct property *p = &d->properties[d->property_count];
    const struct member members[] = {NUMBER("key", &p->key), TEXT("values", &p->values)};
    QP_TRY(read_item(r, item, members, ARRAY_COUNT(members)));
    if (p->key <= last || p->key <= s->ongoing_index || p->key > s->execution_count) {
        return refuse(r, "properties are those of no execution of it");
    }
    d->property_count++;
    return QP_OK;
}

static int take_output(const struct reading *r, qp_str item)
{
    struct draft *d = r->d;
    QP_TRY(STATE_GROW(d->arena, d->outputs, d->output_count, d->output_room));
    struct draft_output *o = &d->outputs[d->output_count];
    const struct member members[] = {NUMBER("branch", &o->branch_key), TEXT("output", &o->output)};
    QP_TRY(read_item(r, item, members, ARRAY_COUNT(members)));
    if (!is_in_batch(d->instance, o->branch_key)) {
        return refuse(r, "an output is of a branch that it does not execute");
    }
    d->output_count++;
    return QP_OK;
}

int draft_read(struct arena *arena, qp_str text, const struct instance *instance,
               struct qp_err *err, struct draft *out_draft)
{
    struct reading r = {out_draft, err};
    qp_str works = QP_NONE;
    qp_str properties = QP_NONE;
    qp_str outputs = QP_NONE;
    draft_init(out_draft, arena, instance);
    const struct member members[] = {RAW("works", &works), RAW("properties", &properties),
                                     RAW("outputs", &outputs), TEXT("name", &out_draft->name)};
    QP_TRY(read_item(&r, text, members, ARRAY_COUNT(members)));
    QP_TRY(each_item(&r, works, take_work));
    QP_TRY(each_item(&r, properties, take_property));
    QP_TRY(each_item(&r, outputs, take_output));
    if (!str_is_none(out_draft->name) &&
        (out_draft->name.n == 0 || out_draft->name.n > LIMIT_ID_SIZE)) {
        return refuse(&r, "its name is none");
    }
    out_draft->index = instance->execution_count;
    QP_ASSERT(draft_is_finished(out_draft));
    return QP_OK;
}
