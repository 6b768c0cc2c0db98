/* access.c - records of access tokens, and the audit (see access.h)
 *
 * If we crash before the commit of a record, there is none and nobody was told of one. Lines of audit_put that no
 * commit has taken yet are lost with the process, as is whatever they are about if it was not committed
 * either.
 */
#include "run/access.h"

#include "base/log.h"

#include "kernel/query.h"
#include "run/handle.h"
#include "run/loop.h"

/* ------------------------------------------------------------------------------------------- tokens */

static int token_check(const struct access_token *t, struct qp_err *err)
{
    int rc = name_check(t->id, "token id", err);
    rc = rc == QP_OK ? name_check(t->role, "role", err) : rc;
    rc = rc == QP_OK && !str_is_none(t->name) ? id_check(t->name, "name", err) : rc;
    if (rc == QP_OK && t->hash.n != LIMIT_ACCESS_HASH_SIZE) {
        rc = err_set(err, QP_E_INVALID, "hash: %zu bytes, it has %d", t->hash.n,
                     LIMIT_ACCESS_HASH_SIZE);
    }
    if (rc == QP_OK && (t->scopes.n > LIMIT_PATTERN_SIZE || t->spaces.n > LIMIT_PATTERN_SIZE ||
                        t->topics.n > LIMIT_PATTERN_SIZE)) {
        rc = err_set(err, QP_E_TOO_LARGE, "scopes, namespaces and topics have at most %d bytes",
                     LIMIT_PATTERN_SIZE);
    }
    return rc;
}

/* How long until then; what is over already is refused. */
static int until(qp *q, qp_ms expire_at, int64_t *out_ms, struct qp_err *err)
{
    qp_ms now = q->env.wall_ms(q->env.context);
    *out_ms = expire_at == 0 ? 0 : expire_at - now;
    if (expire_at != 0 && (*out_ms <= 0 || *out_ms > LIMIT_TIMER_MS)) {
        return err_set(err, QP_E_INVALID, "expire_at: it is in the future, at most ten years");
    }
    return QP_OK;
}

int access_create(qp *q, const struct access_token *token, struct qp_err *err)
{
    struct op op = {.kind = OP_access_put,
                    .access_put = {.id = token->id,
                                   .hash = token->hash,
                                   .name = token->name,
                                   .role = token->role,
                                   .scopes = token->scopes,
                                   .spaces = token->spaces,
                                   .topics = token->topics}};
    int rc = token_check(token, err);
    rc = rc == QP_OK ? until(q, token->expire_at, &op.access_put.expire_ms, err) : rc;
    return rc == QP_OK ? op_do(q, &op, "token", err) : err_wrap(err, rc, "token");
}

static int set(qp *q, const struct op_access_set *what, struct qp_err *err)
{
    struct op op = {.kind = OP_access_set, .access_set = *what};
    int rc = name_check(what->id, "token id", err);
    return rc == QP_OK ? op_do(q, &op, "token", err) : err_wrap(err, rc, "token");
}

int access_revoke(qp *q, qp_str id, struct qp_err *err)
{
    return set(q, &(struct op_access_set){.id = id, .revoke = true}, err);
}

int access_used(qp *q, qp_str id, struct qp_err *err)
{
    return set(q, &(struct op_access_set){.id = id, .used = true}, err);
}

struct tokens {
    qp_str id; /* one of them; or */
    qp_str after;
    size_t limit;
    size_t told;
    bool more;
    void *context;
    access_visit visit;
};

static int each_token(void *context, const void *row)
{
    struct tokens *t = context;
    const struct access_row *a = row;
    struct access_token told = {.id = a->id,
                                .hash = a->hash,
                                .name = a->name,
                                .role = a->role,
                                .scopes = a->scopes,
                                .spaces = a->spaces,
                                .topics = a->topics,
                                .created_at = a->created_at,
                                .expire_at = a->expire_at,
                                .revoked_at = a->revoked_at,
                                .used_at = a->used_at};
    if (t->told == t->limit) {
        t->more = true;
        return QP_OK; /* the scan gives no more */
    }
    t->told++;
    return t->visit(t->context, &told);
}

static int read_one(void *context, struct store *s, struct qp_err *err)
{
    struct tokens *t = context;
    struct access_row key = {.id = t->id};
    struct arena arena;
    const void *row = NULL;
    int rc;
    arena_init(&arena, store_env(s), 0);
    rc = store_get(s, &arena, TABLE_access, &key, &row, err);
    if (rc == QP_E_NOT_FOUND) {
        (void)err_set(err, rc, "there is no token '%.*s'", STR_ARG(t->id));
    }
    rc = rc == QP_OK ? each_token(t, row) : rc;
    arena_done(&arena);
    return rc;
}

int access_get(qp *q, qp_str id, void *context, access_visit visit, struct qp_err *err)
{
    struct tokens t = {.id = id, .limit = 1, .context = context, .visit = visit};
    int rc = name_check(id, "token id", err);
    return rc == QP_OK ? reads_do(q, &t, read_one, err) : rc;
}

static int read_tokens(void *context, struct store *s, struct qp_err *err)
{
    struct tokens *t = context;
    struct access_row key = {.id = t->after};
    struct scan scan = {.table = TABLE_access,
                        .index = -1,
                        .prefix = &key,
                        .prefix_count = 1,
                        .after = str_is_none(t->after) ? NULL : &key,
                        .limit = t->limit + 1};
    return store_scan(s, &scan, t, each_token, err);
}

int access_list(qp *q, qp_str after, int64_t limit, void *context, access_visit visit,
                bool *out_more, struct qp_err *err)
{
    struct tokens t = {.after = after, .context = context, .visit = visit};
    int rc = query_limit(limit, &t.limit, err);
    rc = rc == QP_OK ? reads_do(q, &t, read_tokens, err) : rc;
    if (rc == QP_OK) {
        *out_more = t.more;
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------- audit */

static int text_check(qp_str text, const char *what, struct qp_err *err)
{
    if (text.n > LIMIT_ERROR_TEXT_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "%s: %zu bytes, the limit is %d", what, text.n,
                       LIMIT_ERROR_TEXT_SIZE);
    }
    return utf8_valid_prefix(text) == text.n ? QP_OK
                                             : err_set(err, QP_E_INVALID, "%s: not UTF-8", what);
}

static int audit_check(qp *q, const struct audit *a, struct op_audit_add *out_op,
                       struct qp_err *err)
{
    int rc = text_check(a->actor, "actor", err);
    rc = rc == QP_OK ? text_check(a->action, "action", err) : rc;
    rc = rc == QP_OK ? text_check(a->target, "target", err) : rc;
    rc = rc == QP_OK ? text_check(a->outcome, "outcome", err) : rc;
    rc = rc == QP_OK ? text_check(a->detail, "detail", err) : rc;
    *out_op = (struct op_audit_add){.actor = a->actor,
                                    .action = a->action,
                                    .target = a->target,
                                    .outcome = a->outcome,
                                    .detail = a->detail};
    rc = rc == QP_OK && !str_is_none(a->ns) ? space_number(q, a->ns, &out_op->ns, err) : rc;
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "audit");
}

int audit_add(qp *q, const struct audit *audit, struct qp_err *err)
{
    struct op op = {.kind = OP_audit_add};
    int rc = audit_check(q, audit, &op.audit_add, err);
    return rc == QP_OK ? op_do(q, &op, "audit", err) : rc;
}

/* A line on its way: its texts are behind it. */
struct line {
    struct call call;
    struct request_op op;
};

static void line_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    struct line *l = (struct line *)((char *)r - offsetof(struct line, op));
    qp *q = l->call.q;
    (void)e;
    if (rc != QP_OK) {
        log_write(&q->env, QP_LOG_ERROR, LOG_MSG("a line of the audit was not written"),
                  LOG_STR("action", l->op.op.audit_add.action), LOG_TEXT("why", why));
    }
    call_left(&q->driver, &l->call);
    mem_free(&q->env, l);
}

static void line_withdrawn(qp *q, struct call *c)
{
    struct line *l = (struct line *)c;
    line_answered(q->engine, &l->op.command, QP_E_TIMEOUT, call_late_text());
}

static void line_execute(qp *q, struct call *c)
{
    struct line *l = (struct line *)c;
    request_op(&l->op);
    l->op.command.answer = line_answered;
    engine_submit(q->engine, &l->op.command);
}

static void keep(char **place, qp_str *text)
{
    if (text->n > 0) {
        memcpy(*place, text->p, text->n);
        text->p = *place;
        *place += text->n;
    }
}

int audit_put(qp *q, const struct audit *audit, struct qp_err *err)
{
    struct op_audit_add add;
    struct line *l;
    char *place;
    int rc = audit_check(q, audit, &add, err);
    if (rc != QP_OK) {
        return rc;
    }
    l = mem_alloc(&q->env, sizeof *l + add.actor.n + add.action.n + add.target.n + add.outcome.n +
                               add.detail.n + 1);
    if (l == NULL) {
        return err_set(err, QP_E_NOMEM, "audit: out of memory");
    }
    place = (char *)(l + 1);
    keep(&place, &add.actor);
    keep(&place, &add.action);
    keep(&place, &add.target);
    keep(&place, &add.outcome);
    keep(&place, &add.detail);
    l->call = (struct call){.execute = line_execute, .withdrawn = line_withdrawn, .q = q};
    l->op.op = (struct op){.kind = OP_audit_add, .audit_add = add};
    rc = call_queue(&q->driver, &l->call, err);
    if (rc != QP_OK) {
        mem_free(&q->env, l);
    }
    return rc;
}

struct lines {
    int64_t ns;
    qp_str ns_name;
    int64_t before;
    size_t limit;
    size_t told;
    bool more;
    void *context;
    audit_visit visit;
};

static int each_line(void *context, const void *row)
{
    struct lines *l = context;
    const struct audit_row *a = row;
    struct audit_entry told = {.id = a->id,
                               .at = a->at,
                               .audit = {.ns = l->ns_name,
                                         .actor = a->actor,
                                         .action = a->action,
                                         .target = a->target,
                                         .outcome = a->outcome,
                                         .detail = a->detail}};
    if (l->told == l->limit) {
        l->more = true;
        return QP_OK; /* the scan gives no more */
    }
    l->told++;
    return l->visit(l->context, &told);
}

static int read_lines(void *context, struct store *s, struct qp_err *err)
{
    struct lines *l = context;
    struct audit_row key = {.ns = l->ns, .id = l->before};
    struct scan scan = {.table = TABLE_audit,
                        .index = -1,
                        .prefix = &key,
                        .prefix_count = 1,
                        .after = l->before > 0 ? &key : NULL,
                        .limit = l->limit + 1,
                        .backwards = true};
    return store_scan(s, &scan, l, each_line, err);
}

int audit_list(qp *q, qp_str ns, int64_t before, int64_t limit, void *context, audit_visit visit,
               bool *out_more, struct qp_err *err)
{
    struct lines l = {.ns_name = ns, .before = before, .context = context, .visit = visit};
    int rc = query_limit(limit, &l.limit, err);
    rc = rc == QP_OK && !str_is_none(ns) ? space_number(q, ns, &l.ns, err) : rc;
    rc = rc == QP_OK ? reads_do(q, &l, read_lines, err) : rc;
    if (rc == QP_OK) {
        *out_more = l.more;
    }
    return rc;
}
