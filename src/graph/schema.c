/* schema.c - the part of JSON Schema that graphs may use (see schema.h)
 *
 * Compiling and checking both recurse along the schema, never along the value: as deep as LIMIT_YAML_DEPTH lets a
 * schema be written.
 */
#include "graph/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "graph/graph.h"

enum type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64
};

static const struct type_name {
    const char *name;
    const char *words;
    enum type type;
} type_names[] = {
    {"null", "null", TYPE_NULL},
    {"boolean", "a boolean", TYPE_BOOLEAN},
    {"integer", "an integer", TYPE_INTEGER},
    {"number", "a number", TYPE_NUMBER},
    {"string", "a string", TYPE_STRING},
    {"array", "an array", TYPE_ARRAY},
    {"object", "an object", TYPE_OBJECT},
};

struct property {
    qp_str name;
    const struct schema *schema;
};

/* NAN and -1: there is no such limit. */
struct schema {
    const struct qp_env *env;
    unsigned types; /* 0: any */
    bool nullable;
    struct property *properties; /* by name */
    size_t property_count;
    const struct node *required; /* a list of strings */
    bool closed;                 /* additionalProperties: false */
    bool open;                   /* additionalProperties: true or a schema */
    bool patterns;               /* patternProperties: any key may be one of them */
    const struct schema *others; /* of additionalProperties */
    const struct schema *items;
    const struct node *choices; /* enum */
    const struct node *constant;
    double minimum;
    double maximum;
    double above; /* exclusiveMinimum */
    double below;
    int64_t min_length;
    int64_t max_length;
    int64_t min_items;
    int64_t max_items;
};

/* --------------------------------------------------------------------------------------- compiling */

struct maker {
    struct arena *arena;
    struct report *report;
    struct schema *schema;
};

typedef void read_keyword(struct maker *m, const struct node *node);

static void wrong(struct maker *m, const struct node *node, const char *what)
{
    report_add(m->report, "schema_form", node->line, node->column, NULL, "'%.*s' of a schema %s",
               STR_ARG(text_shown(node->key)), what);
}

static void read_words(struct maker *m, const struct node *node)
{
    (void)m;
    (void)node; /* for people */
}

static void add_type(struct maker *m, const struct node *node, const struct node *list)
{
    if (node->kind == NODE_STRING && str_equal(node->text, QP_STR("any"))) {
        m->schema->types = ~0u;
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(type_names); i++) {
        if (node->kind == NODE_STRING && str_equal(node->text, str_from(type_names[i].name))) {
            m->schema->types |= type_names[i].type;
            return;
        }
    }
    report_add(m->report, "schema_type", node->line, node->column,
               "string, number, integer, boolean, object, array, null or any",
               "'%.*s' is no type of JSON",
               STR_ARG(node->first == NULL ? text_shown(node->text) : list->key));
}

static void read_type(struct maker *m, const struct node *node)
{
    if (node->kind == NODE_STRING) {
        add_type(m, node, node);
        return;
    }
    if (node->kind != NODE_LIST || node->count == 0) {
        wrong(m, node, "must be a name or a list of names");
        return;
    }
    for (const struct node *item = node->first; item != NULL; item = item->next) {
        add_type(m, item, node);
    }
}

static void read_nullable(struct maker *m, const struct node *node)
{
    if (node->kind != NODE_BOOL) {
        wrong(m, node, "must be true or false");
    }
    m->schema->nullable = node->truth;
}

static int property_compare(const void *a, const void *b)
{
    return str_compare(((const struct property *)a)->name, ((const struct property *)b)->name);
}

static void read_properties(struct maker *m, const struct node *node)
{
    struct property *list;
    size_t n = 0;
    if (node->kind != NODE_MAP) {
        wrong(m, node, "must be a map of schemas");
        return;
    }
    list = arena_alloc(m->arena, (node->count + 1) * sizeof *list);
    if (list == NULL) {
        m->report->no_memory = true;
        return;
    }
    for (const struct node *entry = node->first; entry != NULL; entry = entry->next) {
        list[n++] = (struct property){entry->key, schema_compile(m->arena, entry, m->report)};
    }
    qsort(list, n, sizeof list[0], property_compare);
    m->schema->properties = list;
    m->schema->property_count = n;
}

static void read_required(struct maker *m, const struct node *node)
{
    bool good = node->kind == NODE_LIST;
    for (const struct node *item = node->first; item != NULL; item = item->next) {
        good = good && item->kind == NODE_STRING;
    }
    if (!good) {
        wrong(m, node, "must be a list of names");
        return;
    }
    m->schema->required = node;
}

/* Accepted, and not checked: so no other key can be one too many. */
static void read_patterns(struct maker *m, const struct node *node)
{
    if (node->kind != NODE_MAP) {
        wrong(m, node, "must be a map of schemas");
        return;
    }
    for (const struct node *entry = node->first; entry != NULL; entry = entry->next) {
        (void)schema_compile(m->arena, entry, m->report); /* only for what is wrong with it */
    }
    m->schema->patterns = true;
    if (!report_noted(m->report, "schema_unchecked")) {
        report_note(m->report, FINDING_NOTE, "schema_unchecked", node->key_line, node->key_column,
                    NULL, "'patternProperties' of schemas is accepted, and not checked");
    }
}

static void read_additional(struct maker *m, const struct node *node)
{
    if (node->kind == NODE_BOOL) {
        m->schema->closed = !node->truth;
        m->schema->open = node->truth;
    } else {
        m->schema->others = schema_compile(m->arena, node, m->report);
        m->schema->open = true;
    }
}

static void read_items(struct maker *m, const struct node *node)
{
    m->schema->items = schema_compile(m->arena, node, m->report);
}

static void read_enum(struct maker *m, const struct node *node)
{
    if (node->kind != NODE_LIST || node->count == 0) {
        wrong(m, node, "must be a list with at least one value");
        return;
    }
    m->schema->choices = node;
}

static void read_const(struct maker *m, const struct node *node)
{
    m->schema->constant = node;
}

static void read_bound(struct maker *m, const struct node *node, double *out_bound)
{
    if (!node_as_real(node, out_bound)) {
        wrong(m, node, "must be a number");
    }
}

static void read_minimum(struct maker *m, const struct node *node)
{
    read_bound(m, node, &m->schema->minimum);
}

static void read_maximum(struct maker *m, const struct node *node)
{
    read_bound(m, node, &m->schema->maximum);
}

static void read_above(struct maker *m, const struct node *node)
{
    read_bound(m, node, &m->schema->above);
}

static void read_below(struct maker *m, const struct node *node)
{
    read_bound(m, node, &m->schema->below);
}

static void read_count(struct maker *m, const struct node *node, int64_t *out_count)
{
    int64_t count = 0;
    if (!node_as_i64(node, &count) || count < 0) {
        wrong(m, node, "must be a whole number, 0 or more");
        return;
    }
    *out_count = count;
}

static void read_min_length(struct maker *m, const struct node *node)
{
    read_count(m, node, &m->schema->min_length);
}

static void read_max_length(struct maker *m, const struct node *node)
{
    read_count(m, node, &m->schema->max_length);
}

static void read_min_items(struct maker *m, const struct node *node)
{
    read_count(m, node, &m->schema->min_items);
}

static void read_max_items(struct maker *m, const struct node *node)
{
    read_count(m, node, &m->schema->max_items);
}

static const struct keyword {
    const char *name;
    read_keyword *read;
} keywords[] = {
    {"type", read_type},
    {"nullable", read_nullable},
    {"properties", read_properties},
    {"required", read_required},
    {"additionalProperties", read_additional},
    {"patternProperties", read_patterns},
    {"items", read_items},
    {"enum", read_enum},
    {"const", read_const},
    {"minimum", read_minimum},
    {"maximum", read_maximum},
    {"exclusiveMinimum", read_above},
    {"exclusiveMaximum", read_below},
    {"minLength", read_min_length},
    {"maxLength", read_max_length},
    {"minItems", read_min_items},
    {"maxItems", read_max_items},
    {"title", read_words},
    {"description", read_words},
    {"default", read_words},
    {"examples", read_words},
};

static const struct keyword *find_keyword(qp_str name)
{
    for (size_t i = 0; i < ARRAY_COUNT(keywords); i++) {
        if (str_equal(name, str_from(keywords[i].name))) {
            return &keywords[i];
        }
    }
    return NULL;
}

static void read_entry(struct maker *m, const struct node *entry)
{
    const struct keyword *keyword = find_keyword(entry->key);
    if (keyword != NULL) {
        keyword->read(m, entry);
        return;
    }
    report_add(m->report, "schema_keyword", entry->key_line, entry->key_column,
               "docs/graphs.md lists the keywords", "the schema keyword '%.*s' is not known here",
               STR_ARG(text_shown(entry->key)));
}

const struct schema *schema_compile(struct arena *a, const struct node *node, struct report *report)
{
    struct maker m = {.arena = a, .report = report, .schema = ARENA_NEW(a, struct schema)};
    if (m.schema == NULL) {
        report->no_memory = true;
        return NULL;
    }
    if (node->kind != NODE_MAP) {
        report_add(report, "schema_form", node->line, node->column, NULL, "a schema must be a map");
        return NULL;
    }
    *m.schema = (struct schema){.env = a->env,
                                .minimum = NAN,
                                .maximum = NAN,
                                .above = NAN,
                                .below = NAN,
                                .min_length = -1,
                                .max_length = -1,
                                .min_items = -1,
                                .max_items = -1};
    for (const struct node *entry = node->first; entry != NULL; entry = entry->next) {
        read_entry(&m, entry);
    }
    if (m.schema->patterns) {
        m.schema->closed = false;
        m.schema->others = NULL;
    }
    return m.schema;
}

static const struct property *find_property(const struct schema *s, qp_str name)
{
    struct property key = {.name = name};
    return s->property_count == 0 ? NULL
                                  : bsearch(&key, s->properties, s->property_count,
                                            sizeof s->properties[0], property_compare);
}

bool schema_declares(const struct schema *s, qp_str key)
{
    return s == NULL || s->open || s->patterns || (s->property_count == 0 && !s->closed) ||
           find_property(s, key) != NULL;
}

/* --------------------------------------------------------------------------------------- checking */

/* The way from the whole value to where we are. */
struct place {
    const struct place *up; /* NULL: the whole */
    qp_str key;             /* none: an item */
    size_t index;
};

static int check_value(const struct schema *s, const struct json *json, const struct place *at,
                       struct qp_err *err);

/* The pointer of RFC 6901, foreign keys escaped for terminals too. */
static void write_pointer(const struct place *at, char *out, size_t size)
{
    const struct place *way[LIMIT_YAML_DEPTH + 1] = {NULL};
    char text[QP_ERR_TEXT_SIZE];
    size_t count = 0;
    size_t n = 0;
    for (; at->up != NULL; at = at->up) {
        QP_ASSERT(count < ARRAY_COUNT(way));
        way[count++] = at;
    }
    while (count-- > 0 && n + 24 < sizeof text) {
        qp_str key = way[count]->key;
        text[n++] = '/';
        if (str_is_none(key)) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%zu", way[count]->index);
        }
        for (size_t i = 0; i < key.n && n + 24 < sizeof text; i++) {
            bool special = key.p[i] == '~' || key.p[i] == '/';
            text[n++] = special ? '~' : key.p[i];
            if (special) {
                text[n++] = key.p[i] == '~' ? '0' : '1';
            }
        }
    }
    (void)log_escape((qp_str){text, n}, out, size); /* cut, when it is very long */
}

static int violated(const struct place *at, struct qp_err *err, const char *format, ...)
    QP_PRINTF(3, 4);

static int violated(const struct place *at, struct qp_err *err, const char *format, ...)
{
    char pointer[LIMIT_LOG_ECHO_SIZE];
    char what[QP_ERR_TEXT_SIZE / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args); /* cut, when it is long */
    va_end(args);
    write_pointer(at, pointer, sizeof pointer);
    (void)err_set(err, QP_E_SHAPE, "'%s': %s", pointer, what);
    return err_point(err, QP_E_SHAPE, "%s", pointer);
}

static bool as_number(const struct json *json, double *out_number)
{
    qp_str digits;
    int64_t integer;
    if (json_as_big(json, &digits)) {
        *out_number = real_parse(digits);
        return true;
    }
    if (json_as_i64(json, &integer)) {
        *out_number = (double)integer;
        return true;
    }
    return json_as_real(json, out_number);
}

static unsigned types_of(const struct json *json)
{
    double real = 0;
    switch (json_kind(json)) {
    case JSON_KIND_NULL:
        return TYPE_NULL;
    case JSON_KIND_BOOL:
        return TYPE_BOOLEAN;
    case JSON_KIND_INT:
    case JSON_KIND_BIG:
        return TYPE_INTEGER | TYPE_NUMBER;
    case JSON_KIND_REAL:
        return json_as_real(json, &real) && floor(real) == real ? TYPE_INTEGER | TYPE_NUMBER
                                                                : TYPE_NUMBER;
    case JSON_KIND_STR:
        return TYPE_STRING;
    case JSON_KIND_ARRAY:
        return TYPE_ARRAY;
    case JSON_KIND_OBJECT:
        break;
    }
    return TYPE_OBJECT;
}

static const char *type_words(unsigned types)
{
    size_t i = 0;
    while ((types & type_names[i].type) == 0) {
        i++;
    }
    return type_names[i].words;
}

static int check_type(const struct schema *s, const struct json *json, const struct place *at,
                      struct qp_err *err)
{
    unsigned types = types_of(json);
    char wanted[QP_ERR_TEXT_SIZE / 4] = "";
    size_t n = 0;
    if (s->types == 0 || (s->types & types) != 0 || (s->nullable && types == TYPE_NULL)) {
        return QP_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(type_names); i++) {
        if ((s->types & type_names[i].type) != 0) {
            n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%s", n == 0 ? "" : " or ",
                                  type_names[i].words);
        }
    }
    QP_ASSERT(n < sizeof wanted);
    return violated(at, err, "must be %s, not %s", wanted, type_words(types));
}

static bool node_is(const struct node *node, const struct json *json);

static bool list_is(const struct node *node, const struct json *json)
{
    const struct node *item = node->first;
    bool same = json_is(json, JSON_KIND_ARRAY) && json_count(json) == node->count;
    for (size_t i = 0; same && item != NULL; i++, item = item->next) {
        same = node_is(item, json_at(json, i));
    }
    return same;
}

static bool map_is(const struct node *node, const struct json *json)
{
    bool same = json_is(json, JSON_KIND_OBJECT) && json_count(json) == node->count;
    for (const struct node *entry = node->first; same && entry != NULL; entry = entry->next) {
        const struct json *value = json_get(json, entry->key);
        same = value != NULL && node_is(entry, value);
    }
    return same;
}

static bool number_is(const struct node *node, const struct json *json)
{
    int64_t x;
    int64_t y;
    double a;
    double b;
    if (node_as_i64(node, &x) && json_as_i64(json, &y)) {
        return x == y;
    }
    return node_as_real(node, &a) && as_number(json, &b) && a == b;
}

/* Whether a value is what stands in the schema; as deep as that was written. */
static bool node_is(const struct node *node, const struct json *json)
{
    bool truth;
    qp_str text;
    switch (node->kind) {
    case NODE_NULL:
        return json_is(json, JSON_KIND_NULL);
    case NODE_BOOL:
        return json_as_bool(json, &truth) && truth == node->truth;
    case NODE_NUMBER:
        return number_is(node, json);
    case NODE_STRING:
        return json_as_str(json, &text) && str_equal(text, node->text);
    case NODE_LIST:
        return list_is(node, json);
    case NODE_MAP:
        break;
    }
    return map_is(node, json);
}

static int check_choice(const struct schema *s, const struct json *json, const struct place *at,
                        struct qp_err *err)
{
    const struct node *choice = s->choices == NULL ? NULL : s->choices->first;
    if (s->constant != NULL && !node_is(s->constant, json)) {
        return violated(at, err, "must be the one value that the schema has");
    }
    while (choice != NULL && !node_is(choice, json)) {
        choice = choice->next;
    }
    if (s->choices != NULL && choice == NULL) {
        return violated(at, err, "must be one of the %zu values that the schema lists",
                        s->choices->count);
    }
    return QP_OK;
}

static int check_number(const struct schema *s, const struct json *json, const struct place *at,
                        struct qp_err *err)
{
    double number = 0;
    if (!as_number(json, &number)) {
        return QP_OK;
    }
    if (number < s->minimum) { /* never, when there is none: that is NAN */
        return violated(at, err, "must be at least %.17g", s->minimum);
    }
    if (number > s->maximum) {
        return violated(at, err, "must be at most %.17g", s->maximum);
    }
    if (number <= s->above) {
        return violated(at, err, "must be more than %.17g", s->above);
    }
    if (number >= s->below) {
        return violated(at, err, "must be less than %.17g", s->below);
    }
    return QP_OK;
}

static int check_string(const struct schema *s, const struct json *json, const struct place *at,
                        struct qp_err *err)
{
    qp_str text;
    int64_t length = 0;
    if (!json_as_str(json, &text)) {
        return QP_OK;
    }
    for (size_t i = 0; i < text.n; i++) {
        length += ((unsigned char)text.p[i] & 0xC0) != 0x80;
    }
    if (length < s->min_length) {
        return violated(at, err, "must have at least %lld characters", (long long)s->min_length);
    }
    if (s->max_length >= 0 && length > s->max_length) {
        return violated(at, err, "must have at most %lld characters", (long long)s->max_length);
    }
    return QP_OK;
}

static int check_array(const struct schema *s, const struct json *json, const struct place *at,
                       struct qp_err *err)
{
    size_t count = json_count(json);
    int rc = QP_OK;
    if (s->min_items >= 0 && count < (size_t)s->min_items) {
        return violated(at, err, "must have at least %lld items", (long long)s->min_items);
    }
    if (s->max_items >= 0 && count > (size_t)s->max_items) {
        return violated(at, err, "must have at most %lld items", (long long)s->max_items);
    }
    for (size_t i = 0; s->items != NULL && i < count && rc == QP_OK; i++) {
        struct place item = {.up = at, .index = i};
        rc = check_value(s->items, json_at(json, i), &item, err);
    }
    return rc;
}

static int check_required(const struct schema *s, const struct json *json, const struct place *at,
                          struct qp_err *err)
{
    const struct node *name = s->required == NULL ? NULL : s->required->first;
    while (name != NULL && json_get(json, name->text) != NULL) {
        name = name->next;
    }
    if (name != NULL) {
        struct place missing = {.up = at, .key = name->text};
        return violated(&missing, err, "is missing");
    }
    return QP_OK;
}

static int check_object(const struct schema *s, const struct json *json, const struct place *at,
                        struct qp_err *err)
{
    struct json_walk walk = {0};
    int rc = check_required(s, json, at, err);
    while (rc == QP_OK && json_each(json, &walk)) {
        const struct property *property = find_property(s, walk.key);
        const struct schema *inner = property != NULL ? property->schema : s->others;
        struct place entry = {.up = at, .key = walk.key};
        if (property == NULL && s->closed) {
            rc = violated(&entry, err, "is no property that the schema has");
        } else if (inner != NULL) {
            rc = check_value(inner, walk.value, &entry, err);
        }
    }
    return rc;
}

static int check_value(const struct schema *s, const struct json *json, const struct place *at,
                       struct qp_err *err)
{
    int rc = check_type(s, json, at, err);
    if (s->nullable && json_is(json, JSON_KIND_NULL)) {
        return rc;
    }
    if (rc == QP_OK) {
        rc = check_choice(s, json, at, err);
    }
    if (rc == QP_OK) {
        rc = check_number(s, json, at, err);
    }
    if (rc == QP_OK) {
        rc = check_string(s, json, at, err);
    }
    if (rc == QP_OK && json_is(json, JSON_KIND_ARRAY)) {
        rc = check_array(s, json, at, err);
    }
    if (rc == QP_OK && json_is(json, JSON_KIND_OBJECT)) {
        rc = check_object(s, json, at, err);
    }
    return rc;
}

int schema_check(const struct schema *schema, qp_str json, enum json_trust trust,
                 struct qp_err *err)
{
    struct place whole = {0};
    struct json *tree = NULL;
    int rc;
    if (trust == JSON_UNCHECKED) {
        QP_TRY(json_check(schema->env, json, NULL, err));
    }
    QP_TRY(json_build(schema->env, json, err, &tree));
    rc = check_value(schema, tree, &whole, err);
    json_free(tree);
    return rc;
}
