/* mapping.c - mappings compiled from the text of a graph (see mapping.h)
 *
 * What a node becomes:
 *
 *   "{a.output.data.x}"      a reference: the whole string, an activity or one that begins with $, a part of it, a path
 *   "{@date.now}"            a call without operands
 *   {'@pipe': [row, ...]}    a pipe
 *   any other map or list    one of mappings
 *   any other scalar         itself
 *
 * Of a pipe's rows the first resolves its cells. In a later one the first cell names the function that gets all values of
 * the row before, or of the sub-pipes that stand between. A string in braces that could not be a reference, such as
 * '{"a": 1}', is itself.
 *
 * Nothing here is trusted: nesting is counted, since nodes may be made by others than the reader of YAML, and so is
 * the text of a pipe.
 */
#include "mapping/mapping.h"

#include <stdio.h>

#include "mapping/mapping_internal.h"

struct compiler {
    struct arena *arena;
    struct report *report;
    struct reference *references;
    int depth;
    int reducing;       /* bodies of @reduce around this place */
    int piping;         /* pipes around it */
    size_t pipe_size;   /* text of the outermost of them so far */
    size_t found_count; /* in the report, at the beginning */
};

static const struct mapping *compile(struct compiler *k, const struct node *node);
static const struct mapping *compile_string(struct compiler *k, const struct node *node);
static const struct mapping *compile_rows(struct compiler *k, const struct node *list, bool body);

static struct mapping *compile_all(struct compiler *k, const struct node *node)
{
    struct arena *a = k->arena;
    struct report *report = k->report;
    const struct mapping *inner = compile(k, node);
    struct mapping *m = ARENA_NEW(a, struct mapping);

    if (m == NULL) {
        report->no_memory = true;
    }
    if (inner == NULL || m == NULL || report->count > k->found_count) {
        return NULL;
    }
    *m = *inner;
    m->all = k->references;
    return m;
}

struct mapping *mapping_compile(struct arena *a, const struct node *node, struct report *report)
{
    struct compiler k = {.arena = a, .report = report, .found_count = report->count};
    return compile_all(&k, node);
}

struct mapping *mapping_compile_item(struct arena *a, const struct node *node,
                                     struct report *report)
{
    struct compiler k = {.arena = a, .report = report, .found_count = report->count, .reducing = 1};
    struct mapping *m = compile_all(&k, node);
    bool is_good = true;
    for (const struct reference *r = m == NULL ? NULL : m->all; r != NULL; r = r->next) {
        if (r->root < ROOT_ITEM) {
            report_add(report, "bad_reference", r->line, r->column, "Write {$item...} or {$index}.",
                       "there is nothing but the item to refer to");
            is_good = false;
        }
    }
    return is_good ? m : NULL;
}

struct reference *mapping_references(const struct mapping *m)
{
    return m->all;
}

const struct value *mapping_literal(const struct mapping *m)
{
    return m->constant ? &m->literal : NULL;
}

size_t mapping_count(const struct mapping *m)
{
    return m->kind == MAPPING_MAP ? m->count : 0;
}

qp_str mapping_key(const struct mapping *m, size_t index)
{
    QP_ASSERT(index < mapping_count(m));
    return m->entries[index].key;
}

const struct mapping *mapping_entry(const struct mapping *m, size_t index)
{
    QP_ASSERT(index < mapping_count(m));
    return m->entries[index].mapping;
}

size_t mapping_steps(const struct mapping *m)
{
    return m->steps;
}

bool mapping_is_map(const struct mapping *m)
{
    return m->kind == MAPPING_MAP;
}

bool mapping_is_reference(const struct mapping *m)
{
    return m->kind == MAPPING_REFERENCE;
}

/* --------------------------------------------------------------------------------------- memory */

static void *room(struct compiler *k, size_t count, size_t each)
{
    size_t size;
    void *p = size_mul(count, each, &size) ? arena_alloc(k->arena, size) : NULL;

    if (p == NULL) {
        k->report->no_memory = true;
    }
    return p;
}

static struct mapping *mapping_new(struct compiler *k, enum mapping_kind kind)
{
    struct mapping *m = room(k, 1, sizeof(*m));

    if (m != NULL) {
        m->kind = kind;
        m->steps = kind == MAPPING_CALL ? 2 : 1; /* itself, and the call */
    }
    return m;
}

static const struct mapping *literal(struct compiler *k, struct value v)
{
    struct mapping *m = mapping_new(k, MAPPING_LITERAL);

    if (m != NULL) {
        m->constant = true;
        m->literal = v;
    }
    return m;
}

/* --------------------------------------------------------------------------------- maps and lists */

/* The values of a map or list in which all are literals are known now. */
static bool all_constant(const struct mapping *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (!m->entries[i].mapping->constant) {
            return false;
        }
    }
    return true;
}

/* What is made here lives as long as the graph, and has no room to grow: nobody may write to it. */
static bool fold_map(struct compiler *k, struct mapping *m)
{
    struct value *values = room(k, m->count, sizeof(*values));
    struct member *members = room(k, m->count, sizeof(*members));

    if (values == NULL || members == NULL) {
        return false;
    }
    m->literal = (struct value){.kind = VALUE_OBJECT, .members = members, .count = m->count};
    for (size_t i = 0; i < m->count; i++) {
        values[i] = m->entries[i].mapping->literal;
        members[i] = (struct member){m->entries[i].key, &values[i]};
        m->literal.depth = values[i].depth > m->literal.depth ? values[i].depth : m->literal.depth;
    }
    m->literal.depth++;
    m->constant = true;
    return true;
}

static bool fold_list(struct compiler *k, struct mapping *m)
{
    struct value *values = room(k, m->count, sizeof(*values));
    struct value **items = room(k, m->count, sizeof(*items));

    if (values == NULL || items == NULL) {
        return false;
    }
    m->literal = (struct value){.kind = VALUE_ARRAY, .items = items, .count = m->count};
    for (size_t i = 0; i < m->count; i++) {
        values[i] = m->entries[i].mapping->literal;
        items[i] = &values[i];
        m->literal.depth = values[i].depth > m->literal.depth ? values[i].depth : m->literal.depth;
    }
    m->literal.depth++;
    m->constant = true;
    return true;
}

static const struct mapping *compile_entries(struct compiler *k, const struct node *node)
{
    bool map = node->kind == NODE_MAP;
    struct mapping *m = mapping_new(k, map ? MAPPING_MAP : MAPPING_LIST);
    struct entry *entries = room(k, node->count, sizeof(*entries));
    bool whole = m != NULL && entries != NULL;
    size_t i = 0;

    for (const struct node *n = node->first; n != NULL && entries != NULL; n = n->next) {
        entries[i] = (struct entry){n->key, compile(k, n)};
        whole = whole && entries[i].mapping != NULL;
        if (whole) {
            m->steps += entries[i].mapping->steps;
        }
        i++;
    }
    if (map && node->count > LIMIT_JSON_KEYS) {
        report_add(k->report, "map_limit", node->line, node->column,
                   "Put what belongs together into maps of its own.",
                   "this map has %zu keys, the limit is %d", node->count, LIMIT_JSON_KEYS);
        return NULL;
    }
    if (!whole) {
        return NULL;
    }
    m->entries = entries;
    m->count = node->count;
    if (all_constant(m)) {
        m->steps = 1;
        return (map ? fold_map(k, m) : fold_list(k, m)) ? m : NULL;
    }
    return m;
}

static const struct mapping *compile_pipe(struct compiler *k, const struct node *node)
{
    const struct mapping *m;

    if (node->count > 1) {
        report_add(k->report, "bad_pipe", node->line, node->column,
                   "Put the other keys into a map of their own.",
                   "@pipe stands alone in its map; here are %zu keys", node->count);
        return NULL;
    }
    if (k->piping == 0) {
        k->pipe_size = 0;
    }
    k->piping++;
    m = compile_rows(k, node->first, false);
    k->piping--;
    if (k->piping == 0 && k->pipe_size > LIMIT_EXPRESSION_SIZE) {
        report_add(k->report, "expression_too_large", node->line, node->column,
                   "Compute it in several activities, or in a worker.",
                   "this @pipe has %zu bytes of text, the limit is %d", k->pipe_size,
                   LIMIT_EXPRESSION_SIZE);
        return NULL;
    }
    return m;
}

static const struct mapping *compile_map(struct compiler *k, const struct node *node)
{
    if (node_get(node, "@pipe") != NULL) {
        return compile_pipe(k, node);
    }
    if (node_get(node, "@reduce") != NULL) {
        report_add(k->report, "bad_reduce", node->line, node->column,
                   "Put it behind a row of a @pipe that has the collection and the first value.",
                   "@reduce is a row of a @pipe, and stands nowhere else");
        return NULL;
    }
    return compile_entries(k, node);
}

/* -------------------------------------------------------------------------------------- scalars */

static const struct mapping *compile_number(struct compiler *k, const struct node *node)
{
    struct value v = {.kind = VALUE_INT};
    double real;

    if (node_as_i64(node, &v.integer) && !(v.integer == 0 && node->text.p[0] == '-')) {
        return literal(k, v); /* -0 is a double, as in a payload */
    }
    return literal(k, value_number(node_as_real(node, &real) ? real : number_of(node->text)));
}

static const struct mapping *compile_kind(struct compiler *k, const struct node *node)
{
    switch (node->kind) {
    case NODE_NULL:
        return literal(k, (struct value){.kind = VALUE_NULL});
    case NODE_BOOL:
        return literal(k, (struct value){.kind = VALUE_BOOL, .truth = node->truth});
    case NODE_NUMBER:
        return compile_number(k, node);
    case NODE_STRING:
        return compile_string(k, node);
    case NODE_LIST:
        return compile_entries(k, node);
    case NODE_MAP:
        return compile_map(k, node);
    }
    return NULL;
}

/* Recursion is bounded by the limit that is checked here. */
static const struct mapping *compile(struct compiler *k, const struct node *node)
{
    const struct mapping *m = NULL;

    k->pipe_size += 1 + node->text.n + node->key.n;
    k->depth++;
    if (k->depth > LIMIT_EXPRESSION_DEPTH) {
        report_add(k->report, "expression_too_deep", node->line, node->column,
                   "Compute it in several activities, or in a worker.",
                   "more than %d pipes, maps and lists inside of each other",
                   LIMIT_EXPRESSION_DEPTH);
    } else {
        m = compile_kind(k, node);
    }
    k->depth--;
    return m;
}

/* ----------------------------------------------------------------------------------- references */

static bool is_name_byte(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '~' || c == ':' || c == '-';
}

/* What stands in the braces, when the string could be a reference or a function: it begins with a name, a $ or a @. */
static bool braced(qp_str text, qp_str *out_inside)
{
    size_t name = 0;

    if (text.n < 3 || text.p[0] != '{' || text.p[text.n - 1] != '}') {
        return false;
    }
    *out_inside = (qp_str){text.p + 1, text.n - 2};
    if (out_inside->p[0] == '$' || out_inside->p[0] == '@') {
        name = 1;
    }
    if (memchr(out_inside->p, '{', out_inside->n) != NULL ||
        memchr(out_inside->p, '}', out_inside->n) != NULL) {
        return false;
    }
    while (name < out_inside->n && is_name_byte(out_inside->p[name])) {
        name++;
    }
    return name > 0 && (name == out_inside->n || out_inside->p[name] == '.');
}

/* The name that is nearest to an unknown one, for the hint. */
static const struct function *nearest(qp_str space, qp_str name)
{
    const struct function *best = NULL;
    const struct function *f;
    size_t least = 4;

    for (size_t i = 0; (f = function_at(i)) != NULL; i++) {
        size_t distance =
            str_distance(space, str_from(f->space)) + str_distance(name, str_from(f->name));

        if (distance < least) {
            least = distance;
            best = f;
        }
    }
    return best;
}

static void report_function(struct compiler *k, const struct node *node, qp_str space, qp_str name)
{
    const struct function *near = nearest(space, name);
    char hint[128];

    if (near != NULL) {
        (void)snprintf(hint, sizeof(hint), "Did you mean {@%s.%s}?", near->space, near->name);
    } else {
        (void)snprintf(hint, sizeof(hint), "docs/mapping.md lists all functions.");
    }
    report_add(k->report, "unknown_function", node->line, node->column, hint,
               "there is no function %.*s.%.*s", STR_ARG(text_shown(space)),
               STR_ARG(text_shown(name)));
}

/* Whether a cell is a string that names a function, known or not. */
static bool names_function(const struct node *node, qp_str *out_inside)
{
    return node->kind == NODE_STRING && braced(node->text, out_inside) && out_inside->p[0] == '@';
}

/* The function that is named by what stands in the braces: @space.name. NULL: there is none, which was reported. */
static const struct function *function_of(struct compiler *k, const struct node *node,
                                          qp_str inside)
{
    const struct function *f;
    const char *dot = memchr(inside.p, '.', inside.n);
    qp_str space;
    qp_str name;

    space = (qp_str){inside.p + 1, (dot == NULL ? inside.n : (size_t)(dot - inside.p)) - 1};
    name = dot == NULL ? QP_STR("") : (qp_str){dot + 1, inside.n - (size_t)(dot + 1 - inside.p)};
    f = function_find(space, name);
    if (f == NULL) {
        report_function(k, node, space, name);
    }
    return f;
}

/* The parts of a path, between its points. */
struct parts {
    qp_str *at;
    size_t count;
};

static bool split(struct compiler *k, qp_str text, struct parts *out_parts)
{
    size_t count = 1;

    for (size_t i = 0; i < text.n; i++) {
        count += text.p[i] == '.';
    }
    out_parts->at = room(k, count, sizeof(qp_str));
    out_parts->count = 0;
    for (size_t i = 0, first = 0; out_parts->at != NULL && i <= text.n; i++) {
        if (i == text.n || text.p[i] == '.') {
            out_parts->at[out_parts->count++] = (qp_str){text.p + first, i - first};
            first = i + 1;
        }
    }
    return out_parts->at != NULL;
}

static bool is_word(const struct parts *p, size_t index, const char *word)
{
    return index < p->count && str_equal(p->at[index], str_from(word));
}

/* The part of an activity that is named at an index; PART_NONE: it is none. */
static enum reference_part part_at(const struct parts *p, size_t index)
{
    static const struct {
        const char *side;
        const char *what;
        enum reference_part part;
    } table[] = {
        {"input", "data", PART_INPUT_DATA},
        {"output", "data", PART_OUTPUT_DATA},
        {"output", "metadata", PART_OUTPUT_METADATA},
        {"hook", "data", PART_HOOK_DATA},
    };

    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        if (is_word(p, index, table[i].side) && is_word(p, index + 1, table[i].what)) {
            return table[i].part;
        }
    }
    return PART_NONE;
}

/* Names may have points in them: what is before the first two words that name a part is the name. */
static size_t name_end(const struct parts *p)
{
    size_t i = 1;

    while (i < p->count && part_at(p, i) == PART_NONE) {
        i++;
    }
    return i;
}

static bool is_reducer_root(const struct parts *p, enum reference_root *out_root)
{
    static const struct {
        const char *name;
        enum reference_root root;
    } table[] = {
        {"$item", ROOT_ITEM},   {"$key", ROOT_KEY},       {"$index", ROOT_INDEX},
        {"$input", ROOT_INPUT}, {"$output", ROOT_OUTPUT},
    };

    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        if (is_word(p, 0, table[i].name)) {
            *out_root = table[i].root;
            return true;
        }
    }
    return false;
}

/* Root, part and how many parts of the path those are; 0: it is no reference that we know. */
static size_t find_root(const struct parts *p, struct reference *r)
{
    size_t end;

    r->part = PART_NONE;
    if (is_reducer_root(p, &r->root)) {
        return 1;
    }
    if (is_word(p, 0, "$job")) {
        r->root = ROOT_JOB;
        r->part = is_word(p, 1, "data")       ? PART_JOB_DATA
                  : is_word(p, 1, "metadata") ? PART_JOB_METADATA
                                              : PART_NONE;
        return r->part == PART_NONE ? 0 : 2;
    }
    end = name_end(p);
    r->part = part_at(p, end);
    r->root = is_word(p, 0, "$self") && end == 1 ? ROOT_SELF : ROOT_ACTIVITY;
    if (r->part == PART_NONE || (r->root == ROOT_ACTIVITY && p->at[0].p[0] == '$')) {
        return 0;
    }
    r->name = (qp_str){p->at[0].p, (size_t)(p->at[end - 1].p + p->at[end - 1].n - p->at[0].p)};
    return end + 2;
}

static bool reference_is_right(struct compiler *k, const struct node *node,
                               const struct reference *r, size_t used)
{
    if (used == 0) {
        report_add(k->report, "bad_reference", node->line, node->column,
                   "Write {activity.output.data.x}, input.data, hook.data or output.metadata, or "
                   "{$self...} alike, {$job.data.x} or {$job.metadata.x}.",
                   "%.*s says nothing that can be looked up", STR_ARG(text_shown(node->text)));
        return false;
    }
    if (r->root >= ROOT_ITEM && k->reducing == 0) {
        report_add(k->report, "bad_reference", node->line, node->column,
                   "$item, $key, $index, $input and $output exist in the body of @reduce only.",
                   "%.*s stands outside of a @reduce", STR_ARG(text_shown(node->text)));
        return false;
    }
    if ((r->part == PART_OUTPUT_METADATA || r->part == PART_JOB_METADATA) && r->path_count == 0) {
        report_add(k->report, "bad_reference", node->line, node->column,
                   "Name what it is about, such as metadata.code or metadata.jid.",
                   "%.*s does not say which", STR_ARG(text_shown(node->text)));
        return false;
    }
    for (size_t i = 0; i < r->path_count; i++) {
        if (r->path[i].n == 0) {
            report_add(k->report, "bad_reference", node->line, node->column,
                       "Put a name between any two points.", "%.*s has an empty part",
                       STR_ARG(text_shown(node->text)));
            return false;
        }
    }
    return true;
}

static const struct mapping *compile_reference(struct compiler *k, const struct node *node,
                                               qp_str inside)
{
    struct mapping *m = mapping_new(k, MAPPING_REFERENCE);
    struct reference *r = room(k, 1, sizeof(*r));
    struct parts parts;
    size_t used;

    if (m == NULL || r == NULL || !split(k, inside, &parts)) {
        return NULL;
    }
    used = find_root(&parts, r);
    r->path = parts.at + used;
    r->path_count = parts.count - used;
    r->line = node->line;
    r->column = node->column;
    if (!reference_is_right(k, node, r, used)) {
        return NULL;
    }
    if (r->root != ROOT_ACTIVITY) {
        r->name = QP_NONE;
    }
    r->next = k->references;
    k->references = r;
    m->reference = r;
    return m;
}

static const struct mapping *compile_string(struct compiler *k, const struct node *node)
{
    struct mapping *m;
    qp_str inside;

    if (!braced(node->text, &inside)) {
        return literal(k, (struct value){.kind = VALUE_STRING, .text = node->text});
    }
    if (inside.p[0] != '@') {
        return compile_reference(k, node, inside);
    }
    m = mapping_new(k, MAPPING_CALL);
    if (m != NULL) {
        m->function = function_of(k, node, inside);
    }
    return m == NULL || m->function == NULL ? NULL : m;
}

/* ---------------------------------------------------------------------------------------- rows */

static bool refuse_row(struct compiler *k, const struct node *node, const char *message)
{
    report_add(k->report, "bad_pipe", node->line, node->column,
               "A row is a list, {'@pipe': [...]} or {'@reduce': [...]}; in every list but the "
               "first the first cell is a function, such as '{@math.add}'.",
               "%s", message);
    return false;
}

/* A list. In a first row all cells are cells; `fed` says that there is something for a function. */
static bool compile_cells(struct compiler *k, const struct node *node, bool fed, struct row *row)
{
    const struct node *cell = node->first;
    qp_str inside;
    size_t n = 0;
    bool right = true;

    row->kind = ROW_CELLS;
    if (fed && !names_function(cell, &inside)) {
        return refuse_row(k, cell, "the first cell of this row has to name a function");
    }
    if (fed) {
        row->function = function_of(k, cell, inside);
        right = row->function != NULL;
        cell = cell->next;
    }
    row->steps = fed;
    row->cell_count = node->count - fed;
    row->cells = room(k, row->cell_count, sizeof(*row->cells));
    for (; cell != NULL && row->cells != NULL; cell = cell->next) {
        row->cells[n] = compile(k, cell);
        right = right && row->cells[n] != NULL;
        row->steps += row->cells[n] != NULL ? row->cells[n]->steps : 0;
        n++;
    }
    return right && row->cells != NULL;
}

static bool compile_reduce(struct compiler *k, const struct node *node, struct row *row)
{
    row->kind = ROW_REDUCE;
    k->reducing++;
    row->pipe = compile_rows(k, node->first, true);
    k->reducing--;
    return row->pipe != NULL;
}

static bool compile_row(struct compiler *k, const struct node *node, bool fed, struct row *row)
{
    bool reduces;

    if (node->kind == NODE_LIST && node->count > 0) {
        return compile_cells(k, node, fed, row);
    }
    if (node->kind != NODE_MAP || node->count != 1) {
        return refuse_row(k, node, "this is no row of a pipe");
    }
    if (node_get(node, "@pipe") != NULL) {
        row->kind = ROW_PIPE;
        row->pipe = compile(k, node);
        row->steps = row->pipe != NULL ? row->pipe->steps : 0;
        return row->pipe != NULL;
    }
    reduces = node_get(node, "@reduce") != NULL;
    if (reduces && !fed) {
        return refuse_row(k, node, "before @reduce there has to be a row: collection, first value");
    }
    return reduces ? compile_reduce(k, node, row) : refuse_row(k, node, "this is no row of a pipe");
}

/* In the body of @reduce a first row that begins with a function gets $output. */
static bool is_fed_first(const struct node *first)
{
    qp_str inside;

    return first->kind == NODE_LIST && first->count > 0 && names_function(first->first, &inside);
}

static const struct mapping *compile_rows(struct compiler *k, const struct node *list, bool body)
{
    struct mapping *m = mapping_new(k, MAPPING_PIPE);
    struct row *rows;
    bool right = m != NULL;
    bool fed;
    size_t i = 0;

    if (list->kind != NODE_LIST || list->count == 0) {
        (void)refuse_row(k, list, "this has to be a list of rows");
        return NULL;
    }
    rows = room(k, list->count, sizeof(*rows));
    fed = body && is_fed_first(list->first);
    for (const struct node *n = list->first; n != NULL && rows != NULL; n = n->next) {
        right = compile_row(k, n, fed, &rows[i]) && right;
        if (right) {
            m->steps += rows[i].steps;
        }
        fed = true;
        i++;
    }
    if (!right || rows == NULL) {
        return NULL;
    }
    if (rows[list->count - 1].kind == ROW_PIPE) {
        (void)refuse_row(k, list, "behind a sub-pipe there has to be a row that takes its result");
        return NULL;
    }
    m->rows = rows;
    m->count = list->count;
    return m;
}
