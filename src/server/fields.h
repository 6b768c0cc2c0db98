/* fields.h - JSON bodies, read field by field against a schema
 *
 * schemas.def lists every object of the API once. From it come the C struct that a body is read
 * into, the check of a body (an unknown field is refused with its JSON pointer: typos are the
 * commonest mistake), and the schemas of /openapi.json. Payloads are not taken apart: a field of
 * kind RAW is the text as it came.
 */
#ifndef QP_SERVER_FIELDS_H
#define QP_SERVER_FIELDS_H

#include "server/call.h"

enum field_kind {
    FIELD_STR,      /* qp_str */
    FIELD_INT,      /* int64_t */
    FIELD_REAL,     /* double */
    FIELD_BOOL,     /* bool */
    FIELD_DURATION, /* qp_ms, from "10s" */
    FIELD_TIME,     /* qp_ms, from RFC 3339; only written */
    FIELD_RAW,      /* qp_str: any JSON, as it came */
    FIELD_OBJECT,   /* qp_str: an object, as it came; `item` names its schema when it has one */
    FIELD_ARRAY,    /* qp_str: an array, as it came, of objects of schema `item` */
    FIELD_STRS,     /* qp_str: an array of strings, as it came */
};

#define FIELD_TYPE_STR qp_str
#define FIELD_TYPE_INT int64_t
#define FIELD_TYPE_REAL double
#define FIELD_TYPE_BOOL bool
#define FIELD_TYPE_DURATION qp_ms
#define FIELD_TYPE_TIME qp_ms
#define FIELD_TYPE_RAW qp_str
#define FIELD_TYPE_OBJECT qp_str
#define FIELD_TYPE_ARRAY qp_str
#define FIELD_TYPE_STRS qp_str

enum field_need { FIELD_OPTIONAL, FIELD_REQUIRED };

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    enum field_need need;
    const char *item;
    const char *about;
};

struct body_schema {
    const char *name;
    const char *about;
    const struct field *fields;
    size_t count;
    size_t size; /* of its struct */
};

#define SCHEMA(name, about) struct body_##name {
#define FIELD(schema, name, kind, need, item, about) FIELD_TYPE_##kind name;
#define NAMED(schema, name, text, kind, need, item, about) FIELD_TYPE_##kind name;
#define SCHEMA_END(name)                                                                           \
    }                                                                                              \
    ;
#include "server/schemas.def"
#undef SCHEMA
#undef FIELD
#undef NAMED
#undef SCHEMA_END

const struct body_schema *body_schema_at(size_t index); /* NULL past the end */
const struct body_schema *body_schema_find(const char *name);

/* Reads the call's body, or one of its objects at `pointer`, into `out`, a struct of the schema,
 * whose fields are zero, or none, when they are not there. False: the call is refused. `text`
 * was checked by json_check. Texts are in the call's arena or in `text`. */
bool body_read(struct api_call *c, const struct body_schema *schema, qp_str text,
               const char *pointer, void *out);
#define BODY_READ(c, name, text, pointer, out)                                                     \
    body_read((c), body_schema_find(#name), (text), (pointer),                                     \
              1 ? (out) : (struct body_##name *)NULL)

/* The text of a JSON string, unescaped; false when it is no string, or there is no memory. */
bool raw_string(struct api_call *c, qp_str value, qp_str *out_text) QP_MUST_USE;

/* An integer. */
bool raw_integer(struct api_call *c, qp_str value, int64_t *out_number) QP_MUST_USE;

#endif
