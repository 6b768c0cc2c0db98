/* functions.c - the table of functions, and how one is called (see functions.h) */
#include "mapping/functions.h"

static const struct function functions[] = {
#define FUNCTION(space, name, body, operands, about) {#space, #name, body},
#include "mapping/functions.def"
#undef FUNCTION
};

const struct function *function_at(size_t index)
{
    return index < ARRAY_COUNT(functions) ? &functions[index] : NULL;
}

const struct function *function_find(qp_str space, qp_str name)
{
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        if (str_equal(space, str_from(functions[i].space)) &&
            str_equal(name, str_from(functions[i].name))) {
            return &functions[i];
        }
    }
    return NULL;
}

bool function_space_exists(qp_str space)
{
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        if (str_equal(space, str_from(functions[i].space))) {
            return true;
        }
    }
    return false;
}

static bool is_container(const struct value *v)
{
    size_t i = 0;

    while (i < v->text.n && (unsigned char)v->text.p[i] <= ' ') {
        i++;
    }
    return v->text.p[i] == '{' || v->text.p[i] == '[';
}

/* Opens what is scalar, and counts what there is to look at. */
static int prepare(struct scope *s, struct value *operands, size_t count)
{
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < count; i++) {
        struct value *v = &operands[i];

        s->looked += v->text.n + v->count * sizeof(struct value);
        if (v->kind == VALUE_RAW && !is_container(v)) {
            rc = scope_open(s, v);
        }
    }
    if (rc == QP_OK && s->looked > LIMIT_MAPPING_LOOK_SIZE) {
        rc = SCOPE_REFUSE(s, LIMIT_MAPPING_LOOK_SIZE);
    }
    return rc;
}

int function_call(const struct function *f, struct scope *s, struct value *operands, size_t count,
                  struct value *out_value)
{
    struct value result = {.kind = VALUE_UNDEFINED};
    struct args args = {.scope = s, .operands = operands, .count = count, .out = &result};
    int rc;

    s->steps++;
    if (s->steps > LIMIT_MAPPING_STEPS) {
        return SCOPE_REFUSE(s, LIMIT_MAPPING_STEPS);
    }
    rc = prepare(s, operands, count);
    if (rc == QP_OK) {
        rc = f->body(&args);
    }
    if (rc == QP_OK) {
        *out_value = result;
    }
    return rc;
}
