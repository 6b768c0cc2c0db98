/* test_routes.c - the route table: what it describes is there, and who may ask for what
 *
 * The matrix of permissions is made from the table, so a route that is added is tried with every
 * role.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/fields.h"
#include "server/handlers.h"
#include "servertest.h"

/* A path with something at its {places}. */
static void path_of(const struct route *r, const char *namespace, char out[256])
{
    size_t n = 0;
    for (const char *p = r->path; *p != '\0'; p++) {
        if (*p == '{') {
            n += (size_t)snprintf(out + n, 256 - n, "nobody");
            p += strcspn(p, "}");
        } else {
            out[n++] = *p;
        }
    }
    out[n] = '\0';
    if (namespace != NULL) {
        (void)snprintf(out + n, 256 - n, "?namespace=%s", namespace);
    }
}

static int ask(const struct route *r, const char *token, const char *namespace,
               struct hc_answer *out)
{
    char path[256];
    path_of(r, namespace, path);
    *out = hc_call(st.port, token, method_word(r->method), path,
                   (r->flags & ROUTE_BODY) != 0 ? "{}" : NULL);
    return out->status;
}

static void expect(const struct route *r, const char *who, const char *token, const char *namespace,
                   int status)
{
    struct hc_answer a;
    int got = ask(r, token, namespace, &a);
    if (got != status) {
        fail_msg("%s %s as %s: %d, not %d: %s", method_word(r->method), r->path, who, got, status,
                 a.body);
    }
    hc_done(&a);
}

static const char *const roles[] = {"admin", "operator", "viewer", "worker", "trigger"};

/* Whoever has the scope is not refused for it; whoever has not is, with 403. */
static void expect_role(const struct route *r, const char *role, const char *token)
{
    bool allowed = r->scope == SCOPE_OPEN || (role_scopes(str_from(role)) & r->scope) != 0;
    struct hc_answer a;
    int status = ask(r, token, NULL, &a);
    if (allowed ? status == 401 || status == 403 || status >= 500 || status == 0 : status != 403) {
        fail_msg("%s %s as %s: %d: %s", method_word(r->method), r->path, role, status, a.body);
    }
    hc_done(&a);
}

/* Without a token 401, with a wrong one 401, without the scope 403, in another's namespace 404;
 * on every route. */
static void matrix(void **state)
{
    char tokens[ARRAY_COUNT(roles)][TOKEN_TEXT_SIZE];
    char confined[TOKEN_TEXT_SIZE];
    char wrong[TOKEN_TEXT_SIZE];
    const struct route *r;
    (void)state;
    st_begin(ST_MEMORY, ST_TOKENS);
    for (size_t i = 0; i < ARRAY_COUNT(roles); i++) {
        st_token(roles[i], NULL, tokens[i]);
    }
    st_token("admin", "tenant-*", confined);
    memcpy(wrong, tokens[0], sizeof wrong);
    wrong[strlen(wrong) - 1] = wrong[strlen(wrong) - 1] == '0' ? '1' : '0';
    for (size_t i = 0; (r = route_at(i)) != NULL; i++) {
        if (r->scope != SCOPE_OPEN) {
            expect(r, "nobody", NULL, NULL, 401);
            expect(r, "a wrong secret", wrong, NULL, 401);
            expect(r, "no token", "qp_admin_x", NULL, 401);
        }
        if (r->scope != SCOPE_OPEN && (r->flags & ROUTE_SPACED) != 0) {
            expect(r, "another namespace", confined, "default", 404);
            expect(r, "another namespace", confined, NULL, 404);
        }
        if ((r->flags & ROUTE_WHOLE) != 0) {
            expect(r, "one of a namespace", confined, NULL, 403);
        }
        for (size_t k = 0; k < ARRAY_COUNT(roles); k++) {
            expect_role(r, roles[k], tokens[k]);
        }
    }
    st_end();
}

/* A revoked token and one whose time is over are none; a worker's token is for its topics. */
static void tokens_end(void **state)
{
    char token[TOKEN_TEXT_SIZE];
    char path[128];
    char *text;
    char *id;
    struct hc_answer a;
    (void)state;
    st_begin(ST_MEMORY, ST_TOKENS);
    st_call("POST", "/v1/tokens", "{\"role\":\"worker\",\"topics\":\"mail.*\",\"expires\":\"1h\"}",
            &a);
    assert_int_equal(a.status, 201);
    text = hc_member(&a, "token");
    id = hc_member(&a, "id");
    assert_non_null(text);
    assert_non_null(id);
    (void)snprintf(token, sizeof token, "%s", text);
    hc_done(&a);
    a = hc_call(st.port, token, "POST", "/v1/work",
                "{\"worker\":\"w\",\"topics\":[\"mail.out\"],\"wait\":\"0s\"}");
    assert_int_equal(a.status, 200);
    hc_done(&a);
    a = hc_call(st.port, token, "POST", "/v1/work",
                "{\"worker\":\"w\",\"topics\":[\"mail.out\",\"pay\"],\"wait\":\"0s\"}");
    assert_int_equal(a.status, 403);
    hc_done(&a);
    (void)snprintf(path, sizeof path, "/v1/tokens/%s", id);
    free(st_expect("DELETE", path, NULL, 200, "accepted"));
    a = hc_call(st.port, token, "POST", "/v1/work", "{\"worker\":\"w\"}");
    assert_int_equal(a.status, 401);
    hc_done(&a);
    free(text);
    free(id);
    st_end();
}

/* What the first start makes is for its owner alone, and works; a second start makes no other. */
static void first_token(void **state)
{
    char *role;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    assert_true(strncmp(st.token, "qp_admin_", 9) == 0);
    role = st_expect("GET", "/v1/whoami", NULL, 200, "scopes.5");
    assert_string_equal(role, "admin");
    free(role);
    st_reopen();
    assert_null(server_token_file(st.server));
    free(st_expect("GET", "/v1/whoami", NULL, 200, "token"));
    st_end();
}

/* Until the last line of the audit is about this action: it is put there when the answer is on its way. */
static void await_audit(const char *action)
{
    for (int i = 0; i < 1000; i++) {
        char *last = st_expect("GET", "/v1/audit", NULL, 200, "items.0.action");
        bool there = strcmp(last, action) == 0;
        free(last);
        if (there) {
            return;
        }
    }
    fail_msg("%s is not in the audit", action);
}

/* What was done to a job, or refused, is in the audit, with who did it. Lines are written with
 * the next commit. */
static void audit(void **state)
{
    struct hc_answer a;
    char *actor, *text;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    st_start("j", "1");
    actor = st_expect("GET", "/v1/whoami", NULL, 200, "token");
    free(st_expect("POST", "/v1/jobs/j/cancel", "{}", 200, "id"));
    assert_int_equal(st_call("POST", "/v1/jobs/none/kill", "{}", NULL), 404);
    st_start("another", "1");
    await_audit("job_kill");
    assert_int_equal(st_call("GET", "/v1/audit", NULL, &a), 200);
    text = hc_member(&a, "items.0.outcome");
    assert_string_equal(text, "404");
    free(text);
    text = hc_member(&a, "items.1.action");
    assert_string_equal(text, "job_cancel");
    free(text);
    text = hc_member(&a, "items.1.actor");
    assert_string_equal(text, actor);
    free(text);
    text = hc_member(&a, "items.1.target");
    assert_string_equal(text, "j");
    free(text);
    hc_done(&a);
    free(actor);
    st_end();
}

/* ------------------------------------------------------------------------------ the description */

static struct json *read_openapi(void)
{
    struct hc_answer a;
    struct json *tree = NULL;
    assert_int_equal(st_call("GET", "/openapi.json", NULL, &a), 200);
    assert_int_equal(json_parse(&st.env, (qp_str){a.body, a.body_size}, NULL, &tree), QP_OK);
    hc_done(&a);
    return tree;
}

/* Every reference leads to a schema. */
static void check_refs(const struct json *at, const struct json *schemas)
{
    struct json_walk w = {0};
    qp_str ref;
    static const size_t prefix = sizeof "#/components/schemas/" - 1;
    if (json_is(at, JSON_KIND_OBJECT)) {
        while (json_each(at, &w)) {
            if (str_equal(w.key, QP_STR("$ref"))) {
                assert_true(json_as_str(w.value, &ref));
                assert_non_null(json_get(schemas, (qp_str){ref.p + prefix, ref.n - prefix}));
            }
            check_refs(w.value, schemas);
        }
    }
    for (size_t i = 0; json_is(at, JSON_KIND_ARRAY) && i < json_count(at); i++) {
        check_refs(json_at(at, i), schemas);
    }
}

/* Table and description have the same operations, with the same names and scopes. */
static void openapi_is_the_table(void **state)
{
    static const char *const methods[] = {"get", "post", "put", "delete"};
    const struct route *r;
    const struct json *paths;
    struct json_walk w = {0};
    struct json *tree;
    size_t operations = 0;
    size_t routes = 0;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    tree = read_openapi();
    paths = json_get(tree, QP_STR("paths"));
    for (; (r = route_at(routes)) != NULL; routes++) {
        const struct json *operation =
            json_get(json_get(paths, str_from(r->path)), str_from(methods[r->method]));
        qp_str text;
        assert_true(json_as_str(json_get(operation, QP_STR("operationId")), &text));
        assert_true(str_equal(text, str_from(r->name)));
        assert_true(json_as_str(json_get(operation, QP_STR("x-scope")), &text));
        assert_true(
            str_equal(text, str_from(r->scope == SCOPE_OPEN ? "none" : scope_word(r->scope))));
    }
    while (json_each(paths, &w)) {
        operations += json_count(w.value);
    }
    assert_int_equal(operations, routes);
    check_refs(tree, json_get(json_get(tree, QP_STR("components")), QP_STR("schemas")));
    json_free(tree);
    st_end();
}

/* An object of an answer has all that its schema requires, and nothing that it does not know. */
static void check_object(const struct json *object, const char *name)
{
    const struct body_schema *s = body_schema_find(name);
    struct json_walk w = {0};
    assert_non_null(s);
    assert_true(json_is(object, JSON_KIND_OBJECT));
    while (json_each(object, &w)) {
        const struct field *f = NULL;
        for (size_t i = 0; i < s->count; i++) {
            f = str_equal(w.key, str_from(s->fields[i].name)) ? &s->fields[i] : f;
        }
        if (f == NULL && strcmp(s->fields[0].name, "any") != 0) {
            fail_msg("%s has a field %.*s that is not described", name, STR_ARG(w.key));
        }
        for (size_t i = 0; f != NULL && f->kind == FIELD_ARRAY && i < json_count(w.value); i++) {
            check_object(json_at(w.value, i), f->item);
        }
    }
    for (size_t i = 0; i < s->count; i++) {
        if (s->fields[i].need == FIELD_REQUIRED &&
            json_get(object, str_from(s->fields[i].name)) == NULL) {
            fail_msg("%s lacks the field %s", name, s->fields[i].name);
        }
    }
}

static void check_answer(const char *method, const char *path, const char *body, int status,
                         const char *schema)
{
    struct hc_answer a;
    struct json *tree = NULL;
    st_call(method, path, body, &a);
    if (a.status != status) {
        fail_msg("%s %s: %d: %s", method, path, a.status, a.body);
    }
    assert_int_equal(json_parse(&st.env, (qp_str){a.body, a.body_size}, NULL, &tree), QP_OK);
    check_object(tree, schema);
    json_free(tree);
    hc_done(&a);
}

/* Answers are what their schemas say, with everything in them that can be there. */
static void answers_are_as_described(void **state)
{
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    check_answer(
        "POST", "/v1/jobs",
        "{\"topic\":\"t\",\"id\":\"j\",\"input\":{\"a\":1},\"priority\":3,\"custom_id\":\"c\",\"limit_key\":\"k\","
        "\"timeout\":\"1h\",\"attributes\":{\"city\":\"Cusco\"},\"retry\":{\"attempts\":2,\"factor\":1.5}}",
        201, "JobStarted");
    check_answer("GET", "/v1/jobs/j", NULL, 200, "Job");
    check_answer("GET", "/v1/jobs?count=exact", NULL, 200, "JobList");
    check_answer("GET", "/v1/jobs/j/activities", NULL, 200, "ActivityList");
    check_answer("GET", "/v1/jobs/j/history", NULL, 200, "EventList");
    check_answer("GET", "/v1/jobs/j/result", NULL, 202, "Job");
    check_answer("GET", "/v1/topics", NULL, 200, "TopicList");
    check_answer("POST", "/v1/work", "{\"worker\":\"w\",\"topics\":[\"t\"],\"want\":1}", 200,
                 "WorkGiven");
    check_answer("POST", "/v1/limits", "{\"topic\":\"t\",\"key\":\"k\",\"max\":2}", 200, "Limit");
    check_answer("POST", "/v1/limits", "{\"topic\":\"t\",\"max\":-1}", 400, "Problem");
    check_answer("GET", "/v1/limits", NULL, 200, "LimitList");
    check_answer("DELETE", "/v1/limits/t?key=k", NULL, 200, "Accepted");
    check_answer("DELETE", "/v1/limits/t?key=k", NULL, 404, "Problem");
    check_answer("GET", "/v1/workers", NULL, 200, "WorkerList");
    check_answer("POST", "/v1/jobs/j/pause", "{}", 200, "JobActed");
    check_answer("POST", "/v1/jobs/j/resume", "{}", 200, "JobActed");
    check_answer("POST", "/v1/jobs/j/cancel", "{\"reason\":\"enough\"}", 200, "JobActed");
    check_answer("GET", "/v1/jobs/j/result?wait=1s", NULL, 200, "Job");
    check_answer("POST", "/v1/jobs/j/fork", "{\"input\":2}", 201, "JobActed");
    check_answer("POST", "/v1/signals", "{\"topic\":\"x\",\"key\":\"y\"}", 202, "SignalSent");
    check_answer(
        "POST", "/v1/workflows?activate=true",
        "{\"text\":\"app: {id: tiny, version: '1', graphs: [{subscribes: tiny, publishes: "
        "done, activities: {t: {type: trigger, stats: {key: k, measures: [{measure: count, "
        "target: '{$self.output.data.c}'}]}}}}]}\"}",
        201, "Deployed");
    check_answer(
        "POST", "/v1/workflows",
        "{\"text\":\"app: {id: tiny, version: '2', graphs: [{subscribes: tiny, activities: "
        "{t: {type: trigger}, u: {type: hook}}, transitions: {t: [{to: u}]}}]}\"}",
        201, "Deployed");
    check_answer("POST", "/v1/workflows", "{\"text\":\"app: 1\"}", 422, "Problem");
    check_answer("GET", "/v1/workflows", NULL, 200, "WorkflowList");
    check_answer("GET", "/v1/workflows/tiny/versions", NULL, 200, "VersionList");
    check_answer("GET", "/v1/workflows/tiny/versions/1", NULL, 200, "WorkflowVersion");
    check_answer("GET", "/v1/workflows/tiny/diff?from=1&to=2", NULL, 200, "WorkflowDiff");
    check_answer("POST", "/v1/jobs?wait=10s",
                 "{\"topic\":\"tiny\",\"id\":\"g\",\"input\":{\"c\":\"red\"}}", 200, "Job");
    check_answer("GET", "/v1/jobs/g/activities", NULL, 200, "ActivityList");
    check_answer("GET", "/v1/stats?topic=tiny&data=%7B%22c%22%3A%22red%22%7D", NULL, 200,
                 "Measures");
    check_answer("POST", "/v1/workflows/tiny/versions/2/activate", "{}", 200, "Deployed");
    check_answer("DELETE", "/v1/workflows/tiny/versions/1?force=true", NULL, 200, "Accepted");
    check_answer("POST", "/v1/traversals/imports",
                 "{\"type\":\"deb\",\"universe\":\"u\",\"facts\":[[\"value\",\"a\","
                 "\"010105616d643634013100000000\"],[\"sources\",\"a\",\"610a\"]],\"complete\":2}",
                 200, "TraversalImported");
    check_answer("POST", "/v1/traversals", "{\"roots\":[\"deb:b\"]}", 422, "Problem");
    check_answer("POST", "/v1/traversals", "{\"roots\":[\"deb:a\"],\"workspaceId\":\"v\"}", 202,
                 "TraversalStarted");
    check_answer("GET", "/v1/traversals/v/status", NULL, 200, "TraversalStatus");
    check_answer("GET", "/v1/traversals/j/status", NULL, 404, "Problem");
    check_answer("GET", "/v1/traversals", NULL, 200, "JobList");
    check_answer("PUT", "/v1/traversals/types/pypi",
                 "{\"mode\":\"ordered\",\"select-sync\":\"carto.select-sync.pypi\"}", 200,
                 "TraversalType");
    check_answer("PUT", "/v1/traversals/types/deb", "{\"mode\":\"pure\"}", 409, "Problem");
    check_answer("PUT", "/v1/traversals/types/roots", "{\"mode\":\"pure\"}", 400, "Problem");
    check_answer("PUT", "/v1/traversals/types/other", "{\"mode\":\"both\"}", 422, "Problem");
    check_answer("GET", "/v1/traversals/types/pypi", NULL, 200, "TraversalType");
    check_answer("GET", "/v1/traversals/types/none", NULL, 404, "Problem");
    check_answer("GET", "/v1/traversals/types", NULL, 200, "TraversalTypes");
    check_answer("POST", "/v1/traversals", "{\"roots\":[\"deb:a\"],\"workspaceId\":\"types\"}", 400,
                 "Problem");
    check_answer("DELETE", "/v1/traversals/types/pypi", NULL, 200, "TraversalTypeDeleted");
    check_answer("DELETE", "/v1/traversals/types/pypi", NULL, 404, "Problem");
    st_serve_traversals();
    check_answer("GET", "/v1/jobs/v/result?wait=60s", NULL, 200, "Job");
    check_answer("GET", "/v1/traversals/v/why?target=deb%3Aa&root=deb%3Aa&paths=2", NULL, 200,
                 "Why");
    check_answer("GET", "/v1/traversals/v/why?target=pkg%3Adeb%2Fdebian%2Fa&paths=x", NULL, 400,
                 "Problem");
    check_answer("GET", "/v1/traversals/v/why", NULL, 400, "Problem");
    check_answer("GET", "/v1/traversals/v/why?target=deb%3Ab", NULL, 404, "Problem");
    check_answer("GET", "/v1/traversals/v/diff?with=v", NULL, 200, "TraversalDiff");
    check_answer("GET", "/v1/traversals/v/diff", NULL, 400, "Problem");
    check_answer("GET", "/v1/traversals/v/diff?with=j", NULL, 404, "Problem");
    check_answer("GET", "/v1/packages/deb%3Aa/dependents", NULL, 200, "Dependents");
    check_answer("DELETE", "/v1/traversals/v", NULL, 200, "JobActed");
    check_answer("POST", "/v1/namespaces", "{\"name\":\"tenant\"}", 201, "Namespace");
    check_answer("GET", "/v1/namespaces", NULL, 200, "NamespaceList");
    check_answer("POST", "/v1/tokens", "{\"role\":\"viewer\",\"name\":\"eyes\"}", 201, "TokenMade");
    check_answer("GET", "/v1/tokens", NULL, 200, "TokenList");
    check_answer("GET", "/v1/audit", NULL, 200, "AuditList");
    check_answer("GET", "/v1/audit?store=1", NULL, 200, "AuditList");
    check_answer("POST", "/v1/batches",
                 "{\"action\":\"cancel\",\"where\":\"status=running\",\"dry_run\":true}", 200,
                 "BulkDone");
    check_answer("POST", "/v1/batches", "{\"action\":\"cancel\",\"where\":\"topic=t\"}", 200,
                 "BulkDone");
    check_answer(
        "POST", "/v1/batches",
        "{\"action\":\"cancel\",\"where\":\"\",\"batch\":\"01980a3e-7c11-7b6e-9d43-0f4f6c1c2a55\"}",
        200, "BulkDone");
    check_answer("GET", "/v1/batches/01980a3e-7c11-7b6e-9d43-0f4f6c1c2a55", NULL, 200, "Batch");
    check_answer("GET", "/v1/batches/01980a3e-7c11-7b6e-9d43-0f4f6c1c2a56", NULL, 404, "Problem");
    check_answer("POST", "/v1/batches", "{\"action\":\"cancel\",\"where\":\"\",\"batch\":\"x\"}",
                 400, "Problem");
    check_answer("POST", "/v1/backup", "{\"name\":\"copy.db\"}", 201, "BackupMade");
    check_answer("POST", "/v1/sql", "{\"sql\":\"SELECT id FROM v_jobs\",\"limit\":1}", 200,
                 "SqlAnswer");
    check_answer("POST", "/v1/sql", "{\"sql\":\"DELETE FROM qp_job\"}", 400, "Problem");
    check_answer("GET", "/v1/parked", NULL, 200, "JobList");
    check_answer("GET", "/v1/whoami", NULL, 200, "Whoami");
    check_answer("GET", "/readyz", NULL, 200, "Health");
    check_answer("GET", "/version", NULL, 200, "Version");
    check_answer("GET", "/nope", NULL, 404, "Problem");
    check_answer("POST", "/v1/jobs", "{\"nope\":1}", 400, "Problem");
    st_end();
}

/* The page for people has a row for every route, and nothing that a browser would fetch or run. */
static void page_is_the_table(void **state)
{
    static const char *const none[] = {"<script", "<link", "<style", "src=", "http:", "https:"};
    const struct route *r;
    struct hc_answer a;
    char *type;
    (void)state;
    st_begin(ST_MEMORY, ST_TOKENS);
    a = hc_call(st.port, NULL, "GET", "/docs", NULL);
    assert_int_equal(a.status, 200);
    type = hc_header(&a, "Content-Type");
    assert_string_equal(type, "text/html; charset=utf-8");
    free(type);
    for (size_t i = 0; (r = route_at(i)) != NULL; i++) {
        char row[300];
        (void)snprintf(row, sizeof row, "<tr id=\"%s\"><td><code>%s %s</code>", r->name,
                       method_word(r->method), r->path);
        if (strstr(a.body, row) == NULL) {
            fail_msg("no row '%s'", row);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        assert_null(strstr(a.body, none[i]));
    }
    hc_done(&a);
    st_end();
}

/* A dry run needs the scope read, and no other, whatever it would do; what it would do needs its own. */
static void dry_runs(void **state)
{
    static const struct {
        const char *role;
        const char *body;
        int status;
    } cases[] = {
        {"viewer", "{\"action\":\"cancel\",\"where\":\"\",\"dry_run\":true}", 200},
        {"viewer", "{\"action\":\"delete\",\"where\":\"\",\"dry_run\":true}", 200},
        {"viewer", "{\"action\":\"cancel\",\"where\":\"\",\"dry_run\":false}", 403},
        {"viewer", "{\"action\":\"cancel\",\"where\":\"\"}", 403},
        {"trigger", "{\"action\":\"cancel\",\"where\":\"\",\"dry_run\":true}", 403},
        {"trigger", "{\"action\":\"cancel\",\"where\":\"\"}", 200},
        {"operator", "{\"action\":\"delete\",\"where\":\"\",\"dry_run\":true}", 200},
        {"operator", "{\"action\":\"delete\",\"where\":\"\"}", 403},
        {"worker", "{\"action\":\"cancel\",\"where\":\"\",\"dry_run\":true}", 403},
    };
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char token[TOKEN_TEXT_SIZE];
        struct hc_answer a;
        st_token(cases[i].role, NULL, token);
        a = hc_call(st.port, token, "POST", "/v1/batches", cases[i].body);
        if (a.status != cases[i].status) {
            fail_msg("%s: %s: %d %s", cases[i].role, cases[i].body, a.status, a.body);
        }
        hc_done(&a);
    }
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dry_runs),
        cmocka_unit_test(openapi_is_the_table),
        cmocka_unit_test(page_is_the_table),
        cmocka_unit_test(matrix),
        cmocka_unit_test(tokens_end),
        cmocka_unit_test(first_token),
        cmocka_unit_test(audit),
        cmocka_unit_test(answers_are_as_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
