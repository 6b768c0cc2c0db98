/* migrate.c - quipu migrate: moves a store into another one, with its jobs in flight
 *
 * The result goes to stdout, in words or, with -o json, as one object; progress goes to stderr.
 * What a crash leaves is told in store/copy.c: the same command again finishes it. With --dump-sql
 * nothing is moved: the statements that make a database's schema are printed, for those who apply
 * them themselves.
 *
 * Exit codes: 0 it was moved, 1 it could not be, 2 usage, 3 there is no such source, 4 source or
 * destination are not fit for it (in use, not empty, moved already), 13 fsck found violations.
 */
#include "cli/cli.h"

#include <quipu.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "kernel/check.h"
#include "store/copy.h"
#include "store/provider.h"

#define REPORT_US 1000000 /* between two lines */

struct migrate {
    const char *from; /* as it was typed */
    const char *to;
    const char *format;
    bool keep_source;
    bool no_check;
    bool accept_loss;
    bool dump_sql;
    /* the work */
    struct qp_env env;
    struct store *source;
    struct store *reader;
    struct store *destination;
    char from_name[LIMIT_STORE_NAME_SIZE];
    char to_name[LIMIT_STORE_NAME_SIZE];
    struct copy_progress progress;
    int64_t violations;
    int64_t reported_us;
    struct qp_err err;
};

static int take(struct migrate *m, const struct cli *c);
static int dump_sql(struct migrate *m);
static int check_places(struct migrate *m);
static int open_all(struct migrate *m);
static int copy(struct migrate *m);
static int close_all(struct migrate *m, int rc);
static int fail(const struct migrate *m, int rc);
static void print_result(const struct migrate *m);

int command_migrate(struct cli *c)
{
    static struct migrate m; /* it has room for long names */
    int status;
    int rc;
    m = (struct migrate){.format = "text"};
    qp_env_init(&m.env);
    env_complete(&m.env);
    status = take(&m, c);
    if (status == EXIT_OK && m.dump_sql) {
        return dump_sql(&m);
    }
    status = status == EXIT_OK ? check_places(&m) : status;
    if (status != EXIT_OK) {
        return status;
    }
    rc = open_all(&m);
    rc = rc == QP_OK ? copy(&m) : rc;
    rc = close_all(&m, rc);
    if (rc != QP_OK) {
        return fail(&m, rc);
    }
    print_result(&m);
    return EXIT_OK;
}

/* ------------------------------------------------------------------------------------ arguments */

static int take(struct migrate *m, const struct cli *c)
{
    int status = cli_expect(c, 0, 0);
    m->from = c->values[OPT_from];
    m->to = c->values[OPT_to];
    m->format = cli_has(c, OPT_output) ? c->values[OPT_output] : "text";
    m->keep_source = cli_has(c, OPT_keep_source);
    m->no_check = cli_has(c, OPT_no_check);
    m->accept_loss = cli_has(c, OPT_accept_loss);
    m->dump_sql = cli_has(c, OPT_dump_sql);
    if (status != EXIT_OK || m->dump_sql) {
        return status;
    }
    if (m->from == NULL || m->to == NULL) {
        return cli_usage("migrate: name the source with --from and the destination with --to; see "
                         "quipu help migrate");
    }
    return strcmp(m->format, "text") == 0 || strcmp(m->format, "json") == 0
               ? EXIT_OK
               : cli_usage(
                     "migrate: --output must be text or json, got '%s'; see quipu help migrate",
                     m->format);
}

/* --------------------------------------------------------------------------------------- places */

static int name_place(const char *place, char out_name[LIMIT_STORE_NAME_SIZE])
{
    const char *path = cli_place_path(place);
    if (path[0] == '\0' || strlen(path) >= LIMIT_STORE_NAME_SIZE) {
        return cli_usage("migrate: a place is a file or a URL, and not %s; see quipu help migrate",
                         path[0] == '\0' ? "empty" : "as long as this");
    }
    if (!cli_place_is_url(place) && strstr(path, "://") != NULL) {
        return cli_usage("migrate: a place is sqlite:FILE, FILE or postgres://..., not '%.16s...'",
                         path);
    }
    cli_place_name(place, out_name, LIMIT_STORE_NAME_SIZE);
    return EXIT_OK;
}

static int check_places(struct migrate *m)
{
    int status = name_place(m->from, m->from_name);
    status = status == EXIT_OK ? name_place(m->to, m->to_name) : status;
    if (status == EXIT_OK && (cli_place_is_url(m->from) ? strcmp(m->from, m->to) == 0
                                                        : strcmp(m->from_name, m->to_name) == 0)) {
        return cli_usage("migrate: source and destination are the same: %s", m->to_name);
    }
    return status;
}

/* ------------------------------------------------------------------------------------- the move */

/* The source first, and for writing: its lock keeps engines away until we are done, and a source
 * that cannot be moved leaves no new destination behind. */
static int open_all(struct migrate *m)
{
    struct store_options source = {.path = cli_place_path(m->from),
                                   .must_exist = true,
                                   .moving = true,
                                   .full_check = !m->no_check,
                                   .accept_loss = m->accept_loss};
    struct store_options reader = {.path = cli_place_path(m->from),
                                   .read_only = true,
                                   .moving = true,
                                   .accept_loss = m->accept_loss};
    struct store_options destination = {
        .path = cli_place_path(m->to), .moving = true, .accept_loss = m->accept_loss};
    int rc = store_open(&m->env, &source, &m->source, &m->err);
    rc = rc == QP_OK ? store_open(&m->env, &reader, &m->reader, &m->err) : rc;
    rc = rc == QP_OK ? copy_allowed(m->source, m->reader, m->to_name, &m->err) : rc;
    return rc == QP_OK ? store_open(&m->env, &destination, &m->destination, &m->err) : rc;
}

static void print_progress(const char *what, const struct copy_progress *p)
{
    (void)fprintf(stderr, "quipu: migrate: %s: %lld rows, %d of %d tables, %.1f MiB\n", what,
                  (long long)p->rows, p->tables, (int)TABLE_COUNT,
                  (double)p->size / (1024 * 1024)); /* talk; main checks what matters */
}

static void report(void *context, const struct copy_progress *progress)
{
    struct migrate *m = context;
    int64_t now_us = m->env.monotonic_us(m->env.context);
    if (now_us - m->reported_us >= REPORT_US) {
        m->reported_us = now_us;
        print_progress("copying", progress);
    }
}

static int visit_nothing(void *context, const struct qp_finding *finding)
{
    (void)context;
    (void)finding;
    return QP_OK;
}

static int check_store(struct migrate *m, struct store *s, const char *which, const char *advice,
                       struct qp_err *err)
{
    struct qp_check_result result = {0};
    int rc = check_run(s, &(struct check_options){0}, NULL, visit_nothing, &result, err);
    (void)fprintf(stderr, "quipu: migrate: checked the %s: %lld jobs, %lld errors\n", which,
                  (long long)result.jobs, (long long)result.errors); /* talk */
    if (rc == QP_OK && result.errors > 0) {
        m->violations = result.errors;
        return err_set(err, QP_E_CORRUPT, "the %s breaks rules of the protocol; %s", which, advice);
    }
    return rc;
}

static int verify(void *context, struct store *from, struct store *to, struct qp_err *err)
{
    struct migrate *m = context;
    int rc =
        check_store(m, from, "source", "quipu fsck says which, --no-check moves it as it is", err);
    return rc == QP_OK
               ? check_store(m, to, "destination",
                             "which the source does not: report it, the source is unharmed", err)
               : rc;
}

static int copy(struct migrate *m)
{
    struct copy_options options = {.from = m->source,
                                   .reader = m->reader,
                                   .to = m->destination,
                                   .to_name = m->to_name,
                                   .keep_source = m->keep_source,
                                   .context = m,
                                   .report = report,
                                   .verify = m->no_check ? NULL : verify};
    int rc;
    m->reported_us = m->env.monotonic_us(m->env.context);
    rc = store_copy(&options, &m->progress, &m->err);
    if (rc == QP_OK) {
        print_progress("copied", &m->progress);
    }
    return rc;
}

/* The first thing that went wrong is what is told. */
static int close_all(struct migrate *m, int rc)
{
    struct qp_err err = {0};
    int closed = store_close(m->destination, &err);
    (void)store_close(m->reader, NULL); /* it has only read */
    if (rc == QP_OK && closed != QP_OK) {
        m->err = err;
        rc = closed;
    }
    closed = store_close(m->source, &err);
    if (rc == QP_OK && closed != QP_OK) {
        m->err = err;
        rc = closed;
    }
    return rc;
}

/* --------------------------------------------------------------------------------------- output */

/* Nobody is asked, so the URL needs no server that answers. */
static int dump_sql(struct migrate *m)
{
    struct buf out;
    int rc;
    if (m->from != NULL || (m->to != NULL && !cli_place_is_url(m->to))) {
        return cli_usage("migrate: --dump-sql is for a database, which --to may name; see quipu "
                         "help migrate");
    }
    buf_init(&out, &m->env, 0);
    rc = postgres_dump_sql_of(m->to != NULL ? m->to : "", &out, &m->err);
    if (rc == QP_OK) {
        (void)fwrite(out.p, 1, out.n, stdout); /* main checks the stream */
    }
    buf_done(&out);
    return rc == QP_OK ? EXIT_OK : fail(m, rc);
}

static int exit_code(const struct migrate *m, int rc)
{
    switch (rc) {
    case QP_E_INVALID:
        return EXIT_USAGE;
    case QP_E_NOT_FOUND:
        return EXIT_NOT_FOUND;
    case QP_E_EXISTS:
    case QP_E_LOCKED:
    case QP_E_READONLY:
    case QP_E_CONFLICT:
    case QP_E_NEWER:
        return EXIT_CONFLICT;
    default:
        return m->violations > 0 ? EXIT_VIOLATIONS : EXIT_ERROR;
    }
}

static int fail(const struct migrate *m, int rc)
{
    cli_error("migrate", &m->err, rc);
    return exit_code(m, rc);
}

static void print_json(const struct migrate *m)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, &m->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("from"));
    json_put_str(&w, str_from(m->from_name));
    json_key(&w, QP_STR("to"));
    json_put_str(&w, str_from(m->to_name));
    json_key(&w, QP_STR("source"));
    json_put_str(&w, m->keep_source ? QP_STR("kept") : QP_STR("moved"));
    json_key(&w, QP_STR("checked"));
    json_put_bool(&w, !m->no_check);
    json_key(&w, QP_STR("rows"));
    json_put_i64(&w, m->progress.rows);
    json_key(&w, QP_STR("bytes"));
    json_put_i64(&w, m->progress.size);
    json_key(&w, QP_STR("tables"));
    json_begin_object(&w);
    for (int i = 0; i < TABLE_COUNT; i++) {
        json_key(&w, str_from(tables[i].name));
        json_put_i64(&w, m->progress.table_rows[i]);
    }
    json_end_object(&w);
    json_end_object(&w);
    buf_byte(&out, '\n');
    (void)fwrite(out.p, 1, out.n, stdout); /* main checks the stream */
    buf_done(&out);
}

static void print_result(const struct migrate *m)
{
    if (strcmp(m->format, "json") == 0) {
        print_json(m);
        return;
    }
    printf("moved %lld rows, %lld jobs among them, to %s\n", (long long)m->progress.rows,
           (long long)m->progress.table_rows[TABLE_job], m->to_name);
    (void)fflush(stdout); /* before the talk; main asks whether it went well */
    if (m->keep_source) {
        (void)fputs("quipu: migrate: the source can still be used: see to it that it is not\n",
                    stderr); /* talk */
    } else {
        (void)fprintf(stderr,
                      "quipu: migrate: %s is for reading only now; remove it when you like\n",
                      m->from_name); /* talk */
    }
}
