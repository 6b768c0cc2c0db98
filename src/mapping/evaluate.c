/* evaluate.c - compiled mappings evaluated (see mapping.h)
 *
 * All that happens is a walk over the compiled mapping, whose depth was bounded when it was compiled. A step is a cell that
 * is resolved or a function that is called; memory is counted where it is taken (operand.h). A reference hands on what
 * the scope finds as it is, without looking into it.
 */
#include "mapping/mapping.h"

#include "mapping/mapping_internal.h"

/* What $item and the others mean in the body of a @reduce. */
struct frame {
    struct value item;
    struct value key;
    struct value index;
    struct value input;
    struct value output;
};

/* What a reference has found. In the body of a @reduce it is asked again for every item, and finds the same: so that a
 * large payload is searched once, and not as often as there are items, it is kept. */
struct memo {
    struct memo *next;
    const struct reference *reference;
    struct value value;
};

struct evaluation {
    struct scope *scope;
    const struct frame *frame; /* of the innermost @reduce; NULL outside of any */
    struct memo **memos;
};

/* The values of a row, or of the sub-pipes behind it. */
struct values {
    struct value *at;
    size_t count;
};

static int evaluate(struct evaluation *e, const struct mapping *m, struct value *out_value);
static int evaluate_pipe(struct evaluation *e, const struct mapping *m, const struct values *seed,
                         struct value *out_value);

int find_in_text(void *context, const struct reference *r, struct value *out_value)
{
    const struct lone_text *lone = context;
    bool there = lone->is_payload ? r->root == ROOT_SELF && r->part == PART_HOOK_DATA
                                  : r->root == ROOT_ACTIVITY || r->root == ROOT_SELF;

    *out_value = there ? value_at(lone->json, r->path, r->path_count)
                       : (struct value){.kind = VALUE_UNDEFINED};
    return QP_OK;
}

static int begin(const struct mapping *m, struct scope *scope, const struct frame *frame,
                 struct value *out_value)
{
    struct memo *memos = NULL;
    struct evaluation e = {.scope = scope, .frame = frame, .memos = &memos};
    struct value result;
    int rc;

    scope->steps = 0;
    scope->made = 0;
    scope->looked = 0;
    scope->rc = QP_OK;
    scope->error = NULL;
    scope->limit = NULL;
    rc = evaluate(&e, m, &result);
    if (rc == QP_OK) {
        *out_value = result;
    }
    return rc;
}

int mapping_evaluate(const struct mapping *m, struct scope *scope, struct value *out_value)
{
    return begin(m, scope, NULL, out_value);
}

int mapping_evaluate_item(const struct mapping *m, struct scope *scope,
                          const struct mapping_item *item, struct value *out_value)
{
    struct frame frame = {.item = item->item, .index = {.kind = VALUE_INT, .integer = item->index}};
    return begin(m, scope, &frame, out_value);
}

/* ----------------------------------------------------------------------------------- references */

static const struct value *frame_value(const struct frame *f, enum reference_root root)
{
    switch (root) {
    case ROOT_ITEM:
        return &f->item;
    case ROOT_KEY:
        return &f->key;
    case ROOT_INDEX:
        return &f->index;
    case ROOT_INPUT:
        return &f->input;
    case ROOT_OUTPUT:
        return &f->output;
    case ROOT_ACTIVITY:
    case ROOT_SELF:
    case ROOT_JOB:
        break;
    }
    QP_ASSERT(false); /* the compiler takes no other root in a reducer, and none of these outside */
    return NULL;
}

static int find_outside(struct evaluation *e, const struct reference *r, struct value *out_value)
{
    *out_value = (struct value){.kind = VALUE_UNDEFINED};
    return e->scope->find(e->scope->context, r, out_value);
}

static int find_once(struct evaluation *e, const struct reference *r, struct value *out_value)
{
    struct memo *m = *e->memos;
    int rc;

    while (m != NULL && m->reference != r) {
        m = m->next;
    }
    if (m != NULL) {
        *out_value = m->value;
        return QP_OK;
    }
    m = scope_room(e->scope, sizeof(*m));
    if (m == NULL) {
        return e->scope->rc;
    }
    rc = find_outside(e, r, out_value);
    if (rc == QP_OK) {
        *m = (struct memo){.next = *e->memos, .reference = r, .value = *out_value};
        *e->memos = m;
    }
    return rc;
}

static int find(struct evaluation *e, const struct reference *r, struct value *out_value)
{
    const struct value *from;

    if (r->root < ROOT_ITEM) {
        return e->frame == NULL ? find_outside(e, r, out_value) : find_once(e, r, out_value);
    }
    QP_ASSERT(e->frame != NULL);
    from = frame_value(e->frame, r->root);
    *out_value = value_inside(from, r->path, r->path_count, &e->scope->looked);
    return scope_look(e->scope, 0);
}

/* --------------------------------------------------------------------------------- maps and lists */

/* Room for the values of so many entries. */
static int take_values(struct evaluation *e, size_t count, struct values *out_values)
{
    out_values->count = count;
    out_values->at = scope_room(e->scope, count * sizeof(struct value));
    return out_values->at == NULL ? e->scope->rc : QP_OK;
}

static int set_depth(struct scope *s, struct value *of, const struct value *inside)
{
    if (inside->depth >= of->depth) {
        of->depth = inside->depth + 1;
    }
    return of->depth > LIMIT_JSON_DEPTH ? SCOPE_REFUSE(s, LIMIT_JSON_DEPTH) : QP_OK;
}

static int evaluate_map(struct evaluation *e, const struct mapping *m, struct value *out_value)
{
    struct values v;
    struct value object;
    int rc = object_begin(e->scope, m->count, &object);

    if (rc == QP_OK) {
        rc = take_values(e, m->count, &v);
    }
    for (size_t i = 0; rc == QP_OK && i < m->count; i++) {
        rc = evaluate(e, m->entries[i].mapping, &v.at[i]);
        if (rc == QP_OK && v.at[i].kind != VALUE_UNDEFINED) {
            object.members[object.count++] = (struct member){m->entries[i].key, &v.at[i]};
            rc = set_depth(e->scope, &object, &v.at[i]);
        }
    }
    if (rc == QP_OK) {
        object.room->used = object.count;
        *out_value = object;
    }
    return rc;
}

static int evaluate_list(struct evaluation *e, const struct mapping *m, struct value *out_value)
{
    struct values v;
    struct value array;
    int rc = array_begin(e->scope, m->count, &array);

    if (rc == QP_OK) {
        rc = take_values(e, m->count, &v);
    }
    for (size_t i = 0; rc == QP_OK && i < m->count; i++) {
        rc = evaluate(e, m->entries[i].mapping, &v.at[i]);
        if (rc == QP_OK) {
            array.items[array.count++] = &v.at[i];
            rc = set_depth(e->scope, &array, &v.at[i]);
        }
    }
    if (rc == QP_OK) {
        array.room->used = array.count;
        *out_value = array;
    }
    return rc;
}

static int evaluate(struct evaluation *e, const struct mapping *m, struct value *out_value)
{
    e->scope->steps++;
    if (e->scope->steps > LIMIT_MAPPING_STEPS) {
        return SCOPE_REFUSE(e->scope, LIMIT_MAPPING_STEPS);
    }
    if (m->constant) {
        *out_value = m->literal;
        return QP_OK;
    }
    switch (m->kind) {
    case MAPPING_REFERENCE:
        return find(e, m->reference, out_value);
    case MAPPING_CALL:
        return function_call(m->function, e->scope, NULL, 0, out_value);
    case MAPPING_PIPE:
        return evaluate_pipe(e, m, NULL, out_value);
    case MAPPING_MAP:
        return evaluate_map(e, m, out_value);
    case MAPPING_LIST:
        return evaluate_list(e, m, out_value);
    case MAPPING_LITERAL:
        break;
    }
    QP_ASSERT(false); /* a literal is constant */
    return QP_E_INTERNAL;
}

/* ---------------------------------------------------------------------------------------- rows */

/* A row's values: the function's result, when it has one, then its cells. */
static int evaluate_cells(struct evaluation *e, const struct row *row, const struct values *before,
                          struct values *out_values)
{
    size_t first = row->function != NULL;
    struct values v;
    int rc = take_values(e, row->cell_count + first, &v);

    if (rc == QP_OK && row->function != NULL) {
        rc = function_call(row->function, e->scope, before->at, before->count, &v.at[0]);
    }
    for (size_t i = 0; rc == QP_OK && i < row->cell_count; i++) {
        rc = evaluate(e, row->cells[i], &v.at[first + i]);
    }
    if (rc == QP_OK) {
        *out_values = v;
    }
    return rc;
}

/* The body for one item: its value is the next $output. */
static int reduce_item(struct evaluation *e, const struct row *row, struct frame *f)
{
    struct evaluation inner = {.scope = e->scope, .frame = f, .memos = e->memos};
    struct value seed = f->output;
    struct value result;
    int rc = evaluate_pipe(&inner, row->pipe, &(struct values){&seed, 1}, &result);

    if (rc == QP_OK) {
        f->output = result;
    }
    return rc;
}

static void frame_move(struct frame *f, size_t index)
{
    f->index = (struct value){.kind = VALUE_INT, .integer = (int64_t)index};
    if (f->input.kind == VALUE_OBJECT) {
        f->key = (struct value){.kind = VALUE_STRING, .text = f->input.members[index].key};
        f->item = *f->input.members[index].value;
    } else {
        f->key = f->index;
        f->item = *f->input.items[index];
    }
}

/* What is no collection has no items: the first value is the result. */
static int evaluate_reduce(struct evaluation *e, const struct row *row, const struct values *before,
                           struct values *out_values)
{
    struct frame f = {.input = before->at[0]};
    struct values v;
    int rc = take_values(e, 1, &v);

    if (before->count > 1) {
        f.output = before->at[1];
    }
    if (rc == QP_OK) {
        rc = scope_open(e->scope, &f.input);
    }
    if (f.input.kind != VALUE_ARRAY && f.input.kind != VALUE_OBJECT) {
        f.input.count = 0;
    }
    for (size_t i = 0; rc == QP_OK && i < f.input.count; i++) {
        frame_move(&f, i);
        rc = reduce_item(e, row, &f);
    }
    if (rc == QP_OK) {
        v.at[0] = f.output;
        *out_values = v;
    }
    return rc;
}

/* Where the results of sub-pipes wait for the next row. */
static int queue_begin(struct evaluation *e, const struct mapping *m, struct values *out_queue)
{
    size_t count = 0;
    int rc;

    for (size_t i = 0; i < m->count; i++) {
        count += m->rows[i].kind == ROW_PIPE;
    }
    rc = count > 0 ? take_values(e, count, out_queue) : QP_OK;
    out_queue->count = 0;
    return rc;
}

static int evaluate_row(struct evaluation *e, const struct row *row, struct values *queue,
                        struct values *before)
{
    const struct values *from = queue->count > 0 ? queue : before;
    int rc;

    if (row->kind == ROW_PIPE) {
        rc = evaluate(e, row->pipe, &queue->at[queue->count]);
        queue->count += rc == QP_OK;
        return rc;
    }
    rc = row->kind == ROW_CELLS ? evaluate_cells(e, row, from, before)
                                : evaluate_reduce(e, row, from, before);
    queue->count = 0;
    return rc;
}

/* The value is the first of the last row. */
static int evaluate_pipe(struct evaluation *e, const struct mapping *m, const struct values *seed,
                         struct value *out_value)
{
    struct values before = {0};
    struct values queue = {0};
    int rc = queue_begin(e, m, &queue);

    if (seed != NULL) {
        before = *seed;
    }
    for (size_t i = 0; rc == QP_OK && i < m->count; i++) {
        rc = evaluate_row(e, &m->rows[i], &queue, &before);
    }
    if (rc == QP_OK) {
        *out_value = before.at[0];
    }
    return rc;
}
