/* fields.c - reading bodies by their schemas */
#include "server/fields.h"

#include <stdio.h>

#include "base/time.h"
#include "server/api.h"

#define SCHEMA(name, about) static const struct field fields_##name[] = {
#define FIELD(schema, name, kind, need, item, about)                                               \
    {#name, FIELD_##kind, offsetof(struct body_##schema, name), FIELD_##need, item, about},
#define NAMED(schema, name, text, kind, need, item, about)                                         \
    {text, FIELD_##kind, offsetof(struct body_##schema, name), FIELD_##need, item, about},
#define SCHEMA_END(name)                                                                           \
    }                                                                                              \
    ;
#include "server/schemas.def"
#undef SCHEMA
#undef FIELD
#undef NAMED
#undef SCHEMA_END

static const struct body_schema schemas[] = {
#define SCHEMA(name, about)                                                                        \
    {#name, about, fields_##name, ARRAY_COUNT(fields_##name), sizeof(struct body_##name)},
#define FIELD(schema, name, kind, need, item, about)
#define NAMED(schema, name, text, kind, need, item, about)
#define SCHEMA_END(name)
#include "server/schemas.def"
#undef SCHEMA
#undef FIELD
#undef NAMED
#undef SCHEMA_END
};

const struct body_schema *body_schema_at(size_t index)
{
    return index < ARRAY_COUNT(schemas) ? &schemas[index] : NULL;
}

const struct body_schema *body_schema_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(schemas); i++) {
        if (strcmp(schemas[i].name, name) == 0) {
            return &schemas[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------ raw text */

bool raw_string(struct api_call *c, qp_str value, qp_str *out_text)
{
    return raw_text(api_env(c->api), &c->arena, value, out_text);
}

/* --------------------------------------------------------------------------------- one field */

bool raw_integer(struct api_call *c, qp_str value, int64_t *out_number)
{
    struct json *tree = NULL;
    bool good =
        json_parse(api_env(c->api), value, NULL, &tree) == QP_OK && json_as_i64(tree, out_number);
    json_free(tree);
    return good;
}

static bool read_real(struct api_call *c, qp_str value, double *out_number)
{
    struct json *tree = NULL;
    bool good =
        json_parse(api_env(c->api), value, NULL, &tree) == QP_OK && json_as_real(tree, out_number);
    json_free(tree);
    return good;
}

static bool read_bool(qp_str value, bool *out_truth)
{
    *out_truth = value.p[0] == 't';
    return value.p[0] == 't' || value.p[0] == 'f';
}

static bool take_duration(struct api_call *c, qp_str value, qp_ms *out_ms)
{
    qp_str text;
    return raw_string(c, value, &text) && span_parse(text, out_ms, NULL) == QP_OK;
}

static bool all_strings(qp_str value)
{
    struct raw_walk w = {.rest = value};
    bool good = value.p[0] == '[';
    while (good && raw_each(&w)) {
        good = w.value.p[0] == '"';
    }
    return good;
}

/* What the schema's struct gets; false: the value is of another kind. */
static bool read_field(struct api_call *c, const struct field *f, qp_str value, void *out)
{
    void *place = (char *)out + f->offset;
    switch (f->kind) {
    case FIELD_STR:
        return raw_string(c, value, place);
    case FIELD_INT:
        return raw_integer(c, value, place);
    case FIELD_REAL:
        return read_real(c, value, place);
    case FIELD_BOOL:
        return read_bool(value, place);
    case FIELD_DURATION:
        return take_duration(c, value, place);
    case FIELD_TIME:
        return false;
    case FIELD_RAW:
        *(qp_str *)place = value;
        return true;
    case FIELD_OBJECT:
        *(qp_str *)place = value;
        return value.p[0] == '{';
    case FIELD_ARRAY:
        *(qp_str *)place = value;
        return value.p[0] == '[';
    case FIELD_STRS:
        *(qp_str *)place = value;
        return all_strings(value);
    }
    return false;
}

static const char *kind_words(enum field_kind kind)
{
    static const char *const words[] = {
        "a string", "an integer", "a number",  "true or false", "a duration like \"10s\"",
        "a time",   "any value",  "an object", "an array",      "an array of strings"};
    return words[kind];
}

/* ------------------------------------------------------------------------------------ objects */

static const struct field *field_of(const struct body_schema *schema, qp_str key)
{
    for (size_t i = 0; i < schema->count; i++) {
        if (str_equal(key, str_from(schema->fields[i].name))) {
            return &schema->fields[i];
        }
    }
    return NULL;
}

/* The name that is nearest to one that the schema does not have; NULL: it takes any, or has none. */
static const char *nearest_field(const struct body_schema *schema, qp_str key)
{
    const char *nearest = schema->count > 0 ? schema->fields[0].name : NULL;
    for (size_t i = 1; i < schema->count; i++) {
        if (str_distance(key, str_from(schema->fields[i].name)) <
            str_distance(key, str_from(nearest))) {
            nearest = schema->fields[i].name;
        }
    }
    return nearest;
}

#define POINTER_SIZE (LIMIT_LOG_ECHO_SIZE + 64)

/* A JSON pointer to a member, cut when the key is long: ~ and / are written as ~0 and ~1. */
static void pointer_to(const char *parent, qp_str key, char out[POINTER_SIZE])
{
    size_t n = (size_t)snprintf(out, 64, "%s/", parent); /* a parent is of our making, and short */
    n = n < 64 ? n : 63;
    for (size_t i = 0; i < key.n && n < POINTER_SIZE - 3; i++) {
        char c = key.p[i];
        if (c == '~' || c == '/') {
            out[n++] = '~';
            c = c == '~' ? '0' : '1';
        }
        out[n++] = c;
    }
    out[n] = '\0';
}

static bool read_member(struct api_call *c, const struct body_schema *schema, const char *pointer,
                        const struct raw_walk *w, uint64_t *seen, void *out)
{
    const struct field *f = field_of(schema, w->key);
    char where[POINTER_SIZE];
    pointer_to(pointer, w->key, where);
    if (f == NULL) {
        const char *nearest = nearest_field(schema, w->key);
        api_refuse(c, PROBLEM_UNKNOWN_FIELD, where, "%s has no such field%s%s%s", schema->name,
                   nearest == NULL ? "" : " (nearest: ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : ")");
        return false;
    }
    *seen |= UINT64_C(1) << (f - schema->fields);
    if (f->need == FIELD_OPTIONAL && f->kind != FIELD_RAW && str_equal(w->value, QP_STR("null"))) {
        return true;
    }
    if (!read_field(c, f, w->value, out)) {
        api_refuse(c, PROBLEM_BAD_FIELD, where, "it has to be %s", kind_words(f->kind));
        return false;
    }
    return true;
}

bool body_read(struct api_call *c, const struct body_schema *schema, qp_str text,
               const char *pointer, void *out)
{
    struct raw_walk w = {.rest = text};
    uint64_t seen = 0;
    QP_ASSERT(schema != NULL && schema->count <= 64);
    memset(out, 0, schema->size);
    if (raw_first(text) != '{') {
        api_refuse(c, PROBLEM_BAD_FIELD, pointer, "it has to be an object: %s", schema->name);
        return false;
    }
    while (raw_each(&w)) {
        if (!read_member(c, schema, pointer, &w, &seen, out)) {
            return false;
        }
    }
    for (size_t i = 0; i < schema->count; i++) {
        char where[POINTER_SIZE];
        if (schema->fields[i].need == FIELD_REQUIRED && (seen & (UINT64_C(1) << i)) == 0) {
            pointer_to(pointer, str_from(schema->fields[i].name), where);
            api_refuse(c, PROBLEM_MISSING_FIELD, where, "%s needs it", schema->name);
            return false;
        }
    }
    return true;
}
