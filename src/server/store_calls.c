/* store_calls.c - calls about topics, workers, namespaces, tokens, the audit, SQL and backups */
#include <stdio.h>

#include "run/access.h"
#include "run/presence.h"
#include "run/show.h"
#include "run/sql.h"
#include "server/fields.h"
#include "server/handlers.h"

/* A page of something, and where the next one begins. */
struct page {
    struct json_writer w;
    const struct api_call *call;
    char last[LIMIT_ID_SIZE + 1];
};

/* Which page. A handler says what its list is about; the rest is of the query. */
struct page_wish {
    qp_str ns;
    int64_t before; /* the cursor, where cursors are numbers; 0: none */
    qp *engine;
    qp_str cursor;
    int64_t limit; /* 0: as many as usual */
};

/* Visits the items of a page, each of which is written to `p` and noted with page_at. */
typedef int (*page_read)(struct page *p, const struct page_wish *wish, bool *out_more,
                         struct qp_err *err);

static void answer_list(struct api_call *c, struct page_wish wish, page_read read)
{
    struct page p = {.call = c};
    struct qp_err err = {0};
    bool more = false;
    int rc;
    if (!api_number(c, "limit", LIMIT_PAGE_ROWS, 0, &wish.limit)) {
        return;
    }
    wish.engine = api_engine(c->api);
    wish.cursor = api_parameter(c, "cursor");
    api_json(c, &p.w);
    json_begin_object(&p.w);
    json_key(&p.w, QP_STR("items"));
    json_begin_array(&p.w);
    rc = read(&p, &wish, &more, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_array(&p.w);
    show_text(&p.w, "next_cursor", more ? p.last : NULL);
    json_end_object(&p.w);
    api_json_end(c, &p.w, 200);
}

static void page_at(struct page *p, qp_str name)
{
    (void)snprintf(p->last, sizeof p->last, "%.*s", STR_ARG(name)); /* a name fits */
}

/* ---------------------------------------------------------------------------- topics, workers */

static int topic_visit(void *context, const struct qp_topic *topic)
{
    struct page *p = context;
    const struct qp_env *env = api_env(p->call->api);
    show_topic(&p->w, topic, env->wall_ms(env->context));
    page_at(p, topic->name);
    return QP_OK;
}

static int read_topics(struct page *p, const struct page_wish *wish, bool *out_more,
                       struct qp_err *err)
{
    return qp_topic_list(wish->engine, wish->ns, wish->cursor, wish->limit, p, topic_visit,
                         out_more, err);
}

void endpoint_topic_list(struct api_call *c)
{
    answer_list(c, (struct page_wish){.ns = c->ns}, read_topics);
}

static int worker_visit(void *context, const struct work_worker *worker)
{
    struct page *p = context;
    show_worker(&p->w, worker);
    return QP_OK;
}

static int read_workers(struct page *p, const struct page_wish *wish, bool *out_more,
                        struct qp_err *err)
{
    (void)out_more; /* all are told */
    return work_list(wish->engine, wish->ns, p, worker_visit, err);
}

void endpoint_worker_list(struct api_call *c)
{
    answer_list(c, (struct page_wish){.ns = c->ns}, read_workers);
}

/* -------------------------------------------------------------------------------- namespaces */

/* Whoever may not see a namespace does not learn that it is there. */
static int space_visit(void *context, const struct qp_space *space)
{
    struct page *p = context;
    if (glob_match(p->call->who.namespaces, space->name)) {
        show_space(&p->w, space);
    }
    return QP_OK;
}

static int read_spaces(struct page *p, const struct page_wish *wish, bool *out_more,
                       struct qp_err *err)
{
    (void)out_more; /* all are told */
    return qp_space_list(wish->engine, p, space_visit, err);
}

void endpoint_namespace_list(struct api_call *c)
{
    answer_list(c, (struct page_wish){0}, read_spaces);
}

void endpoint_namespace_create(struct api_call *c)
{
    struct body_NamespaceName body;
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, NamespaceName, c->body, "", &body)) {
        return;
    }
    c->target = body.name;
    rc = qp_space_create(api_engine(c->api), body.name, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("name"));
    json_put_str(&w, body.name);
    json_end_object(&w);
    api_json_end(c, &w, 201);
}

/* ------------------------------------------------------------------------------------- tokens */

static int token_visit(void *context, const struct access_token *token)
{
    struct page *p = context;
    if (!str_equal(token->id, QP_STR(AUTH_KEY_ID))) {
        show_access(&p->w, token);
    }
    page_at(p, token->id);
    return QP_OK;
}

static int read_tokens(struct page *p, const struct page_wish *wish, bool *out_more,
                       struct qp_err *err)
{
    return access_list(wish->engine, wish->cursor, wish->limit, p, token_visit, out_more, err);
}

void endpoint_token_list(struct api_call *c)
{
    answer_list(c, (struct page_wish){0}, read_tokens);
}

void endpoint_token_create(struct api_call *c)
{
    struct body_TokenWish body;
    const struct qp_env *env = api_env(c->api);
    char token[TOKEN_TEXT_SIZE];
    char id[LIMIT_TOKEN_ID_SIZE + 1];
    struct token_wish wish;
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, TokenWish, c->body, "", &body)) {
        return;
    }
    if (role_scopes(body.role) == 0) {
        api_refuse(c, PROBLEM_BAD_FIELD, "/role",
                   "it is admin, operator, viewer, worker or trigger");
        return;
    }
    if (raw_has(c->body, "expires") && body.expires == 0) {
        api_refuse(c, PROBLEM_BAD_FIELD, "/expires", "it is longer than nothing; none: never");
        return;
    }
    wish = (struct token_wish){
        .role = body.role,
        .name = body.name,
        .namespaces = body.namespaces,
        .topics = body.topics,
        .expires_at = body.expires > 0 ? env->wall_ms(env->context) + body.expires : 0};
    rc = auth_issue(api_auth(c->api), &wish, token, id, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    if (!arena_copy(&c->arena, str_from(id), &c->target)) {
        c->target = QP_NONE;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("id"));
    json_put_str(&w, str_from(id));
    json_key(&w, QP_STR("token"));
    json_put_str(&w, str_from(token));
    json_end_object(&w);
    explicit_bzero(token, sizeof token);
    api_json_end(c, &w, 201);
}

void endpoint_token_revoke(struct api_call *c)
{
    struct json_writer w;
    struct qp_err err = {0};
    int rc = str_equal(c->parts[0], QP_STR(AUTH_KEY_ID))
                 ? err_set(&err, QP_E_NOT_FOUND, "token: not found")
                 : access_revoke(api_engine(c->api), c->parts[0], &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    auth_forget(api_auth(c->api), c->parts[0]);
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("accepted"));
    json_put_bool(&w, true);
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

void endpoint_whoami(struct api_call *c)
{
    struct json_writer w;
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("token"));
    json_put_str(&w, str_from(c->who.token));
    json_key(&w, QP_STR("role"));
    json_put_str(&w, str_from(c->who.role));
    json_key(&w, QP_STR("scopes"));
    json_begin_array(&w);
    for (int scope = 1; scope < SCOPE_ALL; scope *= 2) {
        if ((c->who.scopes & scope) != 0) {
            json_put_str(&w, str_from(scope_word(scope)));
        }
    }
    json_end_array(&w);
    json_key(&w, QP_STR("namespaces"));
    json_put_str(&w, str_from(c->who.namespaces));
    json_key(&w, QP_STR("topics"));
    json_put_str(&w, str_from(c->who.topics));
    json_end_object(&w);
    api_json_end(c, &w, 200);
}

/* ------------------------------------------------------------------------- audit, SQL, backup */

static int audit_visit_one(void *context, const struct audit_entry *entry)
{
    struct page *p = context;
    show_audit(&p->w, entry);
    (void)snprintf(p->last, sizeof p->last, "%lld", (long long)entry->id);
    return QP_OK;
}

static int read_audit(struct page *p, const struct page_wish *wish, bool *out_more,
                      struct qp_err *err)
{
    return audit_list(wish->engine, wish->ns, wish->before, wish->limit, p, audit_visit_one,
                      out_more, err);
}

void endpoint_audit_list(struct api_call *c)
{
    int64_t store, before;
    if (!api_number(c, "store", 1, 0, &store) || !api_number(c, "cursor", INT64_MAX, 0, &before)) {
        return;
    }
    if (store == 1 && strcmp(c->who.namespaces, "*") != 0) {
        api_refuse(c, PROBLEM_FORBIDDEN, NULL, "the token is not for the whole store");
        return;
    }
    answer_list(c, (struct page_wish){.ns = store == 1 ? QP_NONE : c->ns, .before = before},
                read_audit);
}

void endpoint_sql(struct api_call *c)
{
    struct body_Sql body;
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, Sql, c->body, "", &body)) {
        return;
    }
    api_json(c, &w);
    rc = sql_ask(
        api_engine(c->api),
        &(struct sql_question){.sql = body.sql, .limit = body.limit, .within_ms = body.timeout}, &w,
        &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    api_json_end(c, &w, 200);
}

/* A plain name in the one directory for backups: no caller says where on the disk we write. */
void endpoint_backup(struct api_call *c)
{
    struct body_Backup body;
    const char *directory = api_options(c->api)->backups;
    char path[4096];
    struct json_writer w;
    struct qp_err err = {0};
    int rc;
    if (!BODY_READ(c, Backup, c->body, "", &body)) {
        return;
    }
    if (name_check(body.name, "name", &err) != QP_OK || body.name.p[0] == '.') {
        api_refuse(c, PROBLEM_BAD_FIELD, "/name", "%s",
                   err.text[0] != '\0' ? err.text : "it begins with a dot");
        return;
    }
    c->target = body.name;
    if (directory == NULL) {
        api_fail(c, QP_E_UNSUPPORTED,
                 &(struct qp_err){.text = "there is no directory for backups"});
        return;
    }
    (void)snprintf(path, sizeof path, "%s/%.*s", directory, STR_ARG(body.name));
    rc = qp_backup(api_engine(c->api), path, &err);
    if (rc != QP_OK) {
        /* Where the directory is, is nobody's business. */
        api_fail(c, rc, NULL);
        return;
    }
    api_json(c, &w);
    json_begin_object(&w);
    json_key(&w, QP_STR("name"));
    json_put_str(&w, body.name);
    json_end_object(&w);
    api_json_end(c, &w, 201);
}
