/* open.c - opening a PostgreSQL store: the connection, what is refused, the schema
 *
 * Refused, with a sentence, before anything is written: a server that is too old, a standby, one that
 * may lose what it has said it has (fsync, full_page_writes), another encoding than UTF8, a proxy that
 * gives every transaction another session, and a schema that is newer than we are.
 *
 * The schema is made and brought up to date in one transaction under an advisory lock, so that any
 * number of nodes may start at once. If we crash there, nothing of it is there.
 *
 * A copy (store/copy.h) has the lock of the store for as long as it is connected: no other handle
 * commits meanwhile. If it loses the connection, it has lost the lock, and does not go on.
 *
 * A URL may name the schema: postgresql://host/database?schema=name. All else in it is libpq's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "store/postgres/postgres_internal.h"

#define VERSION_MIN 130000
#define SCHEMA_DEFAULT "quipu"
#define LOCK_SCHEMA "5855313490" /* of pg_advisory_xact_lock; housekeeping has the next one */

struct opening {
    struct postgres_provider *p;
    const struct store_options *options;
    struct qp_err *err;
};

static int refuse(const struct opening *o, int code, const char *what)
{
    return err_set(o->err, code, "%s: %s", o->p->place, what);
}

static char *text_copy(const struct qp_env *env, qp_str text)
{
    char *copy = mem_alloc(env, text.n + 1);
    if (copy != NULL && text.n > 0) {
        memcpy(copy, text.p, text.n);
    }
    return copy;
}

/* ----------------------------------------------------------------------------------------- the URL */

static bool is_schema_name(qp_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') {
            return false;
        }
    }
    return name.n > 0 && name.n < 64; /* as long as PostgreSQL takes it */
}

/* Where a URL has "schema=name", from the ? or & on; NULL: it has none. */
static const char *url_schema(const char *url, qp_str *out_name)
{
    const char *at = strstr(url, "?schema=");
    const char *from;
    at = at != NULL ? at : strstr(url, "&schema=");
    from = at == NULL ? SCHEMA_DEFAULT : at + strlen("?schema=");
    *out_name = (qp_str){from, strcspn(from, "&")};
    return at;
}

static int refuse_schema(struct qp_err *err)
{
    return err_set(err, QP_E_INVALID,
                   "the schema's name may have small letters, digits and _ only");
}

/* Takes "schema=name" out of the URL, since libpq does not know it. */
static int url_split(const struct opening *o)
{
    struct postgres_provider *p = o->p;
    const char *url = o->options->path;
    qp_str name;
    const char *at = url_schema(url, &name);
    struct buf rest;
    int rc;
    buf_init(&rest, p->base.env, 0);
    if (at == NULL) {
        buf_text(&rest, url);
    } else {
        const char *end = name.p + name.n;
        buf_add(&rest, url, (size_t)(at - url) + (*end == '&' ? 1 : 0));
        buf_text(&rest, *end == '&' ? end + 1 : end);
    }
    rc = buf_rc(&rest);
    p->url = rc == QP_OK ? text_copy(p->base.env, buf_slice(&rest)) : NULL;
    p->schema = text_copy(p->base.env, name);
    buf_done(&rest);
    if (p->url == NULL || p->schema == NULL) {
        return err_set(o->err, QP_E_NOMEM, "open store: out of memory");
    }
    return is_schema_name(name) ? QP_OK : refuse_schema(o->err);
}

int postgres_dump_sql_of(const char *url, struct buf *out, struct qp_err *err)
{
    char schema[64] = "";
    qp_str name;
    int rc;
    (void)url_schema(url, &name);
    if (!is_schema_name(name)) {
        return refuse_schema(err);
    }
    (void)snprintf(schema, sizeof schema, "%.*s", STR_ARG(name));
    rc = postgres_dump_sql(schema, out);
    return rc == QP_OK ? rc : err_set(err, rc, "dump: out of memory");
}

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (const PQconninfoOption *i = options; i != NULL && i->keyword != NULL; i++) {
        if (strcmp(i->keyword, name) == 0 && i->val != NULL) {
            return i->val;
        }
    }
    return "";
}

/* Where it is, without who asks and by which password. */
static int url_place(const struct opening *o)
{
    struct postgres_provider *p = o->p;
    PQconninfoOption *parsed = PQconninfoParse(p->url, NULL);
    char text[LIMIT_LOG_ECHO_SIZE];
    if (parsed == NULL) {
        return err_set(o->err, QP_E_INVALID,
                       "the URL of the store is not one that PostgreSQL takes: "
                       "postgresql://user@host:port/database");
    }
    (void)snprintf(text, sizeof text, "postgresql://%s%s%s/%s", value_of(parsed, "host"),
                   value_of(parsed, "port")[0] != '\0' ? ":" : "", value_of(parsed, "port"),
                   value_of(parsed, "dbname"));
    PQconninfoFree(parsed);
    p->place = text_copy(p->base.env, str_from(text));
    return p->place == NULL ? err_set(o->err, QP_E_NOMEM, "open store: out of memory") : QP_OK;
}

/* ---------------------------------------------------------------------------------- the connection */

/* Whoever falls silent with a transaction open, stopped or cut off, loses it soon: others wait for its
 * rows. Plans are made while tables are small and kept when they are large: so only those are allowed that
 * stay right. What a stricter setting of the server's says about commits is left alone. */
static int configure(struct postgres_provider *p, struct qp_err *err)
{
    char text[1024];
    int n = snprintf(
        text, sizeof text,
        "SET timezone='UTC'; SET client_min_messages=error; SET standard_conforming_strings=on;"
        "SET statement_timeout=%d; SET lock_timeout=%d;"
        "SET idle_in_transaction_session_timeout=%d; SET jit=off;"
        "SET plan_cache_mode=force_generic_plan; SET enable_seqscan=off; SET enable_hashjoin=off;"
        "SET enable_mergejoin=off; SET bytea_output=hex;"
        "SELECT set_config('synchronous_commit','%s',false)"
        " WHERE %s current_setting('synchronous_commit') IN ('off','local')",
        LIMIT_STATEMENT_MS, LIMIT_LOCK_MS, LIMIT_SILENCE_MS, p->relaxed ? "off" : "on",
        p->relaxed ? "true OR" : "");
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    if (p->base.read_only) {
        int rc = wire_exec(&p->wire, "SET default_transaction_read_only=on", NULL, NULL, err);
        return rc == QP_OK ? wire_exec(&p->wire, text, NULL, NULL, err) : rc;
    }
    return wire_exec(&p->wire, text, NULL, NULL, err);
}

static int take_numbers(void *context, const PGresult *result, struct qp_err *err)
{
    int64_t *out = context;
    (void)err;
    for (int i = 0; i < PQnfields(result) && PQntuples(result) > 0; i++) {
        out[i] = strtoll(PQgetvalue(result, 0, i), NULL, 10);
    }
    return QP_OK;
}

enum { FACT_VERSION, FACT_STANDBY, FACT_FSYNC, FACT_PAGES, FACT_UTF8, FACT_BACKEND, FACTS };

/* Is a session ours for as long as we are connected? A direct connection has the backend that it was
 * told of. Behind a proxy it may have another: then a second connection shows whether the proxy gives
 * it the session that the first one has just used. */
static int check_proxy(const struct opening *o, int64_t backend)
{
    struct wire second;
    int64_t other[1] = {0};
    int rc;
    if (backend == o->p->wire.backend) {
        return QP_OK;
    }
    wire_init(&second, o->p->base.env);
    rc = wire_open(&second, o->p->url, o->err);
    rc = rc == QP_OK
             ? wire_exec(&second, "BEGIN; SELECT pg_backend_pid()", other, take_numbers, o->err)
             : rc;
    wire_done(&second);
    if (rc == QP_OK && other[0] == backend) {
        return refuse(
            o, QP_E_UNSUPPORTED,
            "a proxy stands before it that pools transactions, and a session's prepared "
            "statements and locks get lost there; use the server's own port, or a pool of "
            "sessions");
    }
    return rc;
}

static int check_server(const struct opening *o)
{
    int64_t facts[FACTS] = {0};
    int rc = wire_exec(
        &o->p->wire,
        "SELECT current_setting('server_version_num'), pg_is_in_recovery()::int,"
        " (current_setting('fsync')='on')::int, (current_setting('full_page_writes')='on')::int,"
        " (current_setting('server_encoding')='UTF8')::int, pg_backend_pid()",
        facts, take_numbers, o->err);
    if (rc != QP_OK) {
        return rc;
    }
    if (facts[FACT_VERSION] < VERSION_MIN) {
        return refuse(o, QP_E_UNSUPPORTED,
                      "the server is older than PostgreSQL 13; use 13 or a newer one");
    }
    if (facts[FACT_STANDBY] != 0) {
        return refuse(o, QP_E_UNSUPPORTED,
                      "this is a standby, which takes no writes; name the primary, or add "
                      "target_session_attrs=read-write to the URL");
    }
    if (facts[FACT_FSYNC] == 0 || facts[FACT_PAGES] == 0) {
        return refuse(
            o, QP_E_UNSUPPORTED,
            "the server runs with fsync or full_page_writes off and would lose commits in "
            "a crash; set both to on");
    }
    if (facts[FACT_UTF8] == 0) {
        return refuse(o, QP_E_UNSUPPORTED,
                      "the database is not encoded in UTF8; create one with ENCODING 'UTF8'");
    }
    return check_proxy(o, facts[FACT_BACKEND]);
}

/* ---------------------------------------------------------------------------------------- the schema */

/* -1: there is none. */
static int read_version(struct postgres_provider *p, int64_t *out_version, struct qp_err *err)
{
    char text[256];
    int64_t there[1] = {0};
    int rc;
    (void)snprintf(text, sizeof text, "SELECT (to_regclass('%s.meta') IS NOT NULL)::int",
                   p->schema);
    rc = wire_exec(&p->wire, text, there, take_numbers, err);
    if (rc == QP_OK && there[0] == 0) {
        *out_version = -1;
        return QP_OK;
    }
    (void)snprintf(text, sizeof text, "SELECT version FROM %s.meta", p->schema);
    return rc == QP_OK ? wire_exec(&p->wire, text, out_version, take_numbers, err) : rc;
}

/* A dump that was restored into another cluster: transaction ids begin there again, and positions must
 * not. */
static int raise_positions(struct postgres_provider *p, struct qp_err *err)
{
    struct buf *b = &p->sql;
    buf_reset(b);
    buf_printf(b, "SET LOCAL search_path TO %s;", p->schema);
    buf_text(b, "UPDATE head SET pos=greatest(pos,"
                "(SELECT max(pos) FROM feed),(SELECT max(pos) FROM act),"
                "(SELECT max(guid_pos) FROM act),(SELECT max(pos) FROM guid),"
                "(SELECT max(pos) FROM event)), rev=rev+1"
                " WHERE (SELECT cluster FROM meta)<>"
                "(SELECT system_identifier FROM pg_control_system());"
                "UPDATE meta SET cluster=(SELECT system_identifier FROM pg_control_system())"
                " WHERE cluster<>(SELECT system_identifier FROM pg_control_system())");
    buf_byte(b, '\0');
    return buf_rc(b) != QP_OK ? err_set(err, buf_rc(b), "open store: out of memory")
                              : wire_exec(&p->wire, b->p, NULL, NULL, err);
}

static int migrate(const struct opening *o)
{
    struct postgres_provider *p = o->p;
    int rc = QP_OK;
    if (p->schema_version < postgres_schema_version) {
        buf_reset(&p->sql);
        postgres_migration_text(&p->sql, p->schema, p->schema_version < 0 ? 0 : p->schema_version);
        buf_byte(&p->sql, '\0');
        rc = buf_rc(&p->sql) != QP_OK
                 ? err_set(o->err, buf_rc(&p->sql), "open store: out of memory")
                 : wire_exec(&p->wire, p->sql.p, NULL, NULL, o->err);
        if (rc == QP_E_READONLY) {
            return refuse(o, QP_E_READONLY,
                          "this user may not make the schema; let one who may apply what quipu "
                          "migrate --dump-sql prints, and grant the use of it");
        }
    }
    return rc == QP_OK ? raise_positions(p, o->err) : rc;
}

static int check_version(const struct opening *o)
{
    if (o->p->schema_version > postgres_schema_version) {
        return refuse(o, QP_E_NEWER,
                      "the schema was made by a newer version of quipu; use that version");
    }
    if (o->p->schema_version < 0 && (o->options->must_exist || o->options->read_only)) {
        return refuse(o, QP_E_NOT_FOUND, "there is no store in this database");
    }
    return o->options->read_only && o->p->schema_version < postgres_schema_version
               ? refuse(o, QP_E_UNSUPPORTED, "the schema is older; open it for writing once")
               : QP_OK;
}

/* Which cluster it is in is asked each time: that the version is right does not say that the ids are. */
static int update_schema(const struct opening *o)
{
    struct postgres_provider *p = o->p;
    int rc = read_version(p, &p->schema_version, o->err);
    rc = rc == QP_OK ? check_version(o) : rc;
    if (rc != QP_OK || o->options->read_only) {
        return rc;
    }
    rc = wire_exec(&p->wire, "BEGIN; SELECT pg_advisory_xact_lock(" LOCK_SCHEMA ")", NULL, NULL,
                   o->err);
    rc = rc == QP_OK ? read_version(p, &p->schema_version, o->err) : rc; /* another was faster */
    rc = rc == QP_OK ? check_version(o) : rc;
    rc = rc == QP_OK ? migrate(o) : rc;
    rc = rc == QP_OK ? FP("migrate.before") : rc;
    rc = rc == QP_OK ? wire_exec(&p->wire, "COMMIT", NULL, NULL, o->err) : rc;
    rc = rc == QP_OK ? FP("migrate.after") : rc;
    p->schema_version = postgres_schema_version;
    return rc;
}

/* ------------------------------------------------------------------------------------------- opening */

/* What a connection must be told and asked, whether it is the first or not. */
static int connection_begin(struct postgres_provider *p, struct qp_err *err)
{
    char text[256];
    int64_t found[3] = {0};
    int rc = configure(p, err);
    (void)snprintf(
        text, sizeof text,
        "SELECT pos, floor(extract(epoch FROM clock_timestamp())*1000)::bigint, rev FROM %s.head",
        p->schema);
    rc = rc == QP_OK ? wire_exec(&p->wire, text, found, take_numbers, err) : rc;
    if (rc == QP_OK) {
        p->pos_base = found[0];
        p->head_rev = p->head_rev == 0 ? found[2] : p->head_rev; /* what it was at the first time */
        p->base.server_ms = p->host_clock ? 0 : found[1];
        p->base.server_us = p->base.env->monotonic_us(p->base.env->context);
        rc = wire_enter(&p->wire, err);
    }
    return rc;
}

static int64_t now_us(const struct postgres_provider *p)
{
    return p->base.env->monotonic_us(p->base.env->context);
}

/* Numbers that were taken ahead are forgotten: if it was the server that crashed, it may not know of them
 * any more, and give them to others. */
int postgres_reconnect(struct postgres_provider *p, int within_ms, struct qp_err *err)
{
    int64_t until_us = now_us(p) + within_ms * INT64_C(1000);
    int pause_ms = LIMIT_RECONNECT_MS;
    int rc;
    p->in_snapshot = false;
    if (p->moving) {
        return err_set(err, QP_E_IO, "%s: the connection was lost; begin the move again", p->place);
    }
    memset(p->base.blocks, 0, sizeof p->base.blocks);
    for (;;) {
        rc = wire_open(&p->wire, p->url, err);
        rc = rc == QP_OK ? connection_begin(p, err) : rc;
        p->wire.lost = rc != QP_OK;
        p->base.away = rc != QP_OK;
        if (rc == QP_OK || now_us(p) + pause_ms * INT64_C(1000) >= until_us) {
            break;
        }
        wire_pause(pause_ms);
        pause_ms *= 2;
    }
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "%s", p->place);
}

/* Waits for the commits that are at it; those that come now are refused. */
static int lock_store(const struct opening *o)
{
    struct postgres_provider *p = o->p;
    char text[256];
    int rc;
    (void)snprintf(text, sizeof text,
                   "SET lock_timeout=%d; SELECT pg_advisory_lock(" POSTGRES_STORE_LOCK ")",
                   LIMIT_LOCK_MS, p->schema);
    rc = wire_exec(&p->wire, text, NULL, NULL, o->err);
    return rc == QP_E_BUSY && !p->wire.lost
               ? refuse(o, QP_E_LOCKED, "is at work, or another quipu migrate has it; wait for it")
               : rc;
}

static int open_store(const struct opening *o)
{
    struct postgres_provider *p = o->p;
    int rc = url_split(o);
    rc = rc == QP_OK ? url_place(o) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    rc = wire_open(&p->wire, p->url, o->err);
    if (rc != QP_OK) {
        return err_wrap(o->err, rc, "%s", p->place);
    }
    rc = check_server(o);
    rc = rc == QP_OK ? update_schema(o) : rc;
    rc = rc == QP_OK && p->moving ? lock_store(o) : rc;
    p->wire.answer_ms = LIMIT_ANSWER_MS;
    return rc == QP_OK ? connection_begin(p, o->err) : rc;
}

void postgres_close(struct provider *base)
{
    struct postgres_provider *p = (struct postgres_provider *)base;
    if (p->active) {
        base->calls->rollback(base);
    }
    if (!p->wire.lost && !base->read_only && base->clock_ms > 0) {
        (void)postgres_keep_clock(p, NULL); /* the next one to open it may have an earlier clock */
    }
    postgres_wake_done(&p->wake);
    wire_done(&p->wire);
    wire_params_done(&p->params);
    postgres_statements_done(p);
    buf_done(&p->sql);
    mem_free(base->env, p->locked.jobs);
    mem_free(base->env, p->url);
    mem_free(base->env, p->place);
    mem_free(base->env, p->schema);
    mem_free(base->env, p);
}

int postgres_open(const struct qp_env *env, const struct store_options *options,
                  struct provider **out_provider, struct qp_err *err)
{
    struct postgres_provider *p = mem_alloc(env, sizeof *p);
    struct opening o = {p, options, err};
    int rc;
    if (p == NULL) {
        return err_set(err, QP_E_NOMEM, "open store: out of memory");
    }
    p->base = (struct provider){
        .calls = &postgres_calls, .env = env, .read_only = options->read_only, .shared = true};
    p->relaxed = options->durability == DURABILITY_RELAXED;
    p->host_clock = options->host_clock;
    postgres_wake_init(&p->wake);
    p->moving = options->moving && !options->read_only;
    wire_init(&p->wire, env);
    wire_params_init(&p->params, env);
    buf_init(&p->sql, env, 0);
    rc = open_store(&o);
    if (rc != QP_OK) {
        postgres_close(&p->base);
        return rc;
    }
    p->base.shard = p->wire.backend % LIMIT_COUNTER_SHARDS;
    *out_provider = &p->base;
    return QP_OK;
}
