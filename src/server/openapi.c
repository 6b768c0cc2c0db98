/* openapi.c - /openapi.json, written from the route table and the schemas
 *
 * Nothing is described twice: a route or a field that is there is described, and one that is
 * described is there.
 */
#include <stdio.h>

#include "server/fields.h"
#include "server/handlers.h"

static const struct {
    const char *name;
    const char *type;
    const char *about;
} parameters[] = {
    {"namespace", "string", "The namespace; default: default."},
    {"wait", "string", "How long to wait for the job's end, like 30s; at most 60s."},
    {"where", "string",
     "A filter: conditions joined by and and or, like status=open and started>-2h."},
    {"order", "string", "newest (default) or oldest first."},
    {"key", "string",
     "The limit key of jobs; * for all keys that have no limit of their own. None: jobs without a key."},
    {"limit", "integer", "Items in a page: default 100, at most 1000; more is cut."},
    {"cursor", "string", "next_cursor of the page before."},
    {"count", "string", "exact or estimate: how many there are."},
    {"activate", "string", "true: new jobs begin with it from now on."},
    {"force", "string", "true: also when jobs that are kept need it."},
    {"from", "string", "The earlier version."},
    {"to", "string", "The later version."},
    {"topic", "string", "The topic that starts a graph."},
    {"range", "string", "How far back, like 1h (default)."},
    {"end", "string",
     "From when, like 2026-01-31T09:00:00Z, or -2h for one before now; default: now."},
    {"data", "string",
     "JSON, as the input of a start: the trigger's key and facets are made of it."},
    {"arch", "string", "An architecture; default amd64."},
    {"fields", "string", "depends (default), or all: whatever names the package."},
    {"recursive", "string", "true: also those that depend on them, and so on."},
    {"format", "string", "json (default), jsonl, tree, dot, mermaid, cyclonedx or spdx."},
    {"target", "string", "The package: type:name, type:name@version, or a package URL."},
    {"root", "string", "Where paths begin, likewise; default: at the roots of the traversal."},
    {"paths", "integer", "Paths at most, the shortest first: default 3, at most 100."},
    {"with", "string", "The id of the later traversal."},
    {"store", "integer", "1: what is about the whole store, not about a namespace."},
};

static void put(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(text));
}

static void begin(struct json_writer *w, const char *key)
{
    json_key(w, str_from(key));
    json_begin_object(w);
}

static void put_ref(struct json_writer *w, const char *schema)
{
    char ref[96];
    (void)snprintf(ref, sizeof ref, "#/components/schemas/%s", schema);
    put(w, "$ref", ref);
}

/* ------------------------------------------------------------------------------------ schemas */

static void put_items(struct json_writer *w, const struct field *f)
{
    begin(w, "items");
    if (f->item != NULL) {
        put_ref(w, f->item);
    } else {
        put(w, "type", "string");
    }
    json_end_object(w);
}

static void put_type(struct json_writer *w, const struct field *f)
{
    static const char *const types[] = {"string", "integer", "number", "boolean", "string",
                                        "string", NULL,      "object", "array",   "array"};
    if (f->kind == FIELD_OBJECT && f->item != NULL) {
        put_ref(w, f->item);
        return;
    }
    if (types[f->kind] != NULL) {
        put(w, "type", types[f->kind]);
    }
    if (f->kind == FIELD_TIME) {
        put(w, "format", "date-time");
    }
    if (f->kind == FIELD_ARRAY || f->kind == FIELD_STRS) {
        put_items(w, f);
    }
}

static void put_required(struct json_writer *w, const struct body_schema *s)
{
    json_key(w, QP_STR("required"));
    json_begin_array(w);
    for (size_t i = 0; i < s->count; i++) {
        if (s->fields[i].need == FIELD_REQUIRED) {
            json_put_str(w, str_from(s->fields[i].name));
        }
    }
    json_end_array(w);
}

/* A schema of one field `any` is a map: its names are the user's. */
static void put_schema(struct json_writer *w, const struct body_schema *s)
{
    bool map = s->count == 1 && strcmp(s->fields[0].name, "any") == 0;
    begin(w, s->name);
    put(w, "description", s->about);
    put(w, "type", "object");
    if (map) {
        begin(w, "additionalProperties");
        put_type(w, &s->fields[0]);
        json_end_object(w);
        json_end_object(w);
        return;
    }
    begin(w, "properties");
    for (size_t i = 0; i < s->count; i++) {
        begin(w, s->fields[i].name);
        put_type(w, &s->fields[i]);
        put(w, "description", s->fields[i].about);
        json_end_object(w);
    }
    json_end_object(w);
    put_required(w, s);
    json_end_object(w);
}

/* ------------------------------------------------------------------------------------- routes */

static void put_parameter(struct json_writer *w, const char *in, qp_str name, const char *type,
                          const char *about)
{
    json_begin_object(w);
    json_key(w, QP_STR("name"));
    json_put_str(w, name);
    put(w, "in", in);
    json_key(w, QP_STR("required"));
    json_put_bool(w, strcmp(in, "path") == 0);
    put(w, "description", about);
    begin(w, "schema");
    put(w, "type", type);
    json_end_object(w);
    json_end_object(w);
}

static void put_query(struct json_writer *w, qp_str name)
{
    for (size_t i = 0; i < ARRAY_COUNT(parameters); i++) {
        if (str_equal(name, str_from(parameters[i].name))) {
            put_parameter(w, "query", name, parameters[i].type, parameters[i].about);
            return;
        }
    }
    QP_ASSERT(false); /* a parameter of routes.def is described here */
}

static void put_parameters(struct json_writer *w, const struct route *r)
{
    const char *p = strchr(r->path, '{');
    json_key(w, QP_STR("parameters"));
    json_begin_array(w);
    while (p != NULL) {
        put_parameter(w, "path", (qp_str){p + 1, strcspn(p + 1, "}")}, "string", "Its id.");
        p = strchr(p + 1, '{');
    }
    if ((r->flags & ROUTE_SPACED) != 0) {
        put_query(w, QP_STR("namespace"));
    }
    for (p = r->parameters; *p != '\0';
         p += p[strcspn(p, " ")] == ' ' ? strcspn(p, " ") + 1 : strcspn(p, " ")) {
        put_query(w, (qp_str){p, strcspn(p, " ")});
    }
    if ((r->flags & ROUTE_REPEATS) != 0) {
        put_parameter(w, "header", QP_STR("Idempotency-Key"), "string",
                      "Makes sending it again harmless.");
    }
    json_end_array(w);
}

static void put_content(struct json_writer *w, const char *type, const char *schema)
{
    begin(w, "content");
    begin(w, type);
    begin(w, "schema");
    if (schema != NULL) {
        put_ref(w, schema);
    }
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static void put_body(struct json_writer *w, const struct route *r)
{
    begin(w, "content");
    begin(w, "application/json");
    begin(w, "schema");
    put_ref(w, r->body);
    json_end_object(w);
    json_end_object(w);
    if ((r->flags & ROUTE_YAML) != 0) {
        begin(w, "application/yaml");
        begin(w, "schema");
        put(w, "type", "string");
        json_end_object(w);
        json_end_object(w);
    }
    json_end_object(w);
}

static void put_responses(struct json_writer *w, const struct route *r)
{
    char status[16];
    (void)snprintf(status, sizeof status, "%d", r->status);
    begin(w, "responses");
    begin(w, status);
    put(w, "description", "Done.");
    put_content(w, strcmp(r->name, "metrics") == 0 ? "text/plain" : "application/json", r->answer);
    json_end_object(w);
    begin(w, "default");
    put(w, "description", "Refused.");
    put_content(w, "application/problem+json", "Problem");
    json_end_object(w);
    json_end_object(w);
}

/* The scope stands beside the kind of security, since a bearer token has none that OpenAPI could
 * name. */
static void put_security(struct json_writer *w, const struct route *r)
{
    json_key(w, QP_STR("security"));
    json_begin_array(w);
    if (r->scope != SCOPE_OPEN) {
        json_begin_object(w);
        json_key(w, QP_STR("token"));
        json_begin_array(w);
        json_end_array(w);
        json_end_object(w);
    }
    json_end_array(w);
    put(w, "x-scope", r->scope == SCOPE_OPEN ? "none" : scope_word(r->scope));
}

static void put_operation(struct json_writer *w, const struct route *r)
{
    static const char *const methods[] = {"get", "post", "put", "delete"};
    begin(w, methods[r->method]);
    put(w, "operationId", r->name);
    put(w, "summary", r->summary);
    put_security(w, r);
    put_parameters(w, r);
    if (r->body != NULL) {
        begin(w, "requestBody");
        put_body(w, r);
        json_end_object(w);
    }
    put_responses(w, r);
    json_end_object(w);
}

/* All methods of a path stand together, where the table has it first. */
static bool is_first(const struct route *r)
{
    for (size_t i = 0; route_at(i) != r; i++) {
        if (strcmp(route_at(i)->path, r->path) == 0) {
            return false;
        }
    }
    return true;
}

static void put_paths(struct json_writer *w)
{
    const struct route *r;
    const struct route *other;
    begin(w, "paths");
    for (size_t i = 0; (r = route_at(i)) != NULL; i++) {
        if (!is_first(r)) {
            continue;
        }
        begin(w, r->path);
        for (size_t j = i; (other = route_at(j)) != NULL; j++) {
            if (strcmp(other->path, r->path) == 0) {
                put_operation(w, other);
            }
        }
        json_end_object(w);
    }
    json_end_object(w);
}

static void put_components(struct json_writer *w)
{
    const struct body_schema *s;
    begin(w, "components");
    begin(w, "securitySchemes");
    begin(w, "token");
    put(w, "type", "http");
    put(w, "scheme", "bearer");
    json_end_object(w);
    json_end_object(w);
    begin(w, "schemas");
    for (size_t i = 0; (s = body_schema_at(i)) != NULL; i++) {
        put_schema(w, s);
    }
    json_end_object(w);
    json_end_object(w);
}

void openapi_write(struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    put(&w, "openapi", "3.1.0");
    begin(&w, "info");
    put(&w, "title", "Quipu");
    put(&w, "version", qp_version());
    json_end_object(&w);
    put_paths(&w);
    put_components(&w);
    json_end_object(&w);
    QP_ASSERT(json_writer_done(&w) == buf_rc(out)); /* which the caller asks */
}
