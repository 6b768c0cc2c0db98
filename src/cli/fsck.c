/* fsck.c - quipu fsck: checks a store against the rules of the protocol, and says what it found
 *
 * Findings go to stdout, one line each or, with -o json, as one object; the summary goes to stderr.
 * Exit codes: 0 nothing is broken (there may be warnings), 1 it could not be checked, 2 usage, 13
 * violations.
 */
#include "cli/cli.h"

#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "kernel/check.h"
#include "run/kinds.h"

#define DEFAULT_FILE "quipu-data/quipu.db"
#define OTHER_FILE "quipu.db"

struct fsck {
    struct qp_check_options check;
    const char *format; /* text or json */
    const char *limit;
    const char *max_tries;
    bool selftest;
    struct qp_env env;
    struct buf out;
    struct json_writer json; /* of `out` */
};

static int take(struct fsck *f, struct cli *c);
static int fsck_selftest(struct fsck *f);
static int fsck_check(struct fsck *f);

int command_fsck(struct cli *c)
{
    struct fsck f = {.format = "text"};
    int status;
    qp_env_init(&f.env);
    qp_check_options_init(&f.check);
    f.check.env = &f.env;
    status = take(&f, c);
    if (status != EXIT_OK) {
        return status;
    }
    return f.selftest ? fsck_selftest(&f) : fsck_check(&f);
}

/* ------------------------------------------------------------------------------------ arguments */

/* A positive number, or 0 when there is none in the text. */
static int64_t positive(const char *text)
{
    char *end = NULL;
    long long number = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && number > 0 ? number : 0;
}

static int parse_numbers(struct fsck *f)
{
    f->check.limit = f->limit == NULL ? 0 : positive(f->limit);
    f->check.max_tries = f->max_tries == NULL ? 0 : positive(f->max_tries);
    if (f->limit != NULL && f->check.limit == 0) {
        return cli_usage("fsck: --limit must be at least 1, got '%s'; see quipu help fsck",
                         f->limit);
    }
    if (f->max_tries != NULL && f->check.max_tries == 0) {
        return cli_usage("fsck: --max-tries must be at least 1, got '%s'; see quipu help fsck",
                         f->max_tries);
    }
    return EXIT_OK;
}

static int take(struct fsck *f, struct cli *c)
{
    const char *place;
    int status = cli_expect(c, 0, cli_has(c, OPT_db) ? 0 : 1);
    status = status == EXIT_OK && c->argument_count == 0 ? cli_settings(c) : status;
    if (status != EXIT_OK) {
        return status;
    }
    place = c->argument_count > 0 ? c->arguments[0] : c->values[OPT_db];
    f->check.path = place != NULL                     ? cli_place_path(place)
                    : access(DEFAULT_FILE, F_OK) == 0 ? DEFAULT_FILE
                                                      : OTHER_FILE;
    f->check.namespace_name = c->values[OPT_ns];
    f->check.job = c->values[OPT_job];
    f->check.rules = c->values[OPT_rule];
    f->check.accept_loss = cli_has(c, OPT_accept_loss);
    f->limit = c->values[OPT_limit];
    f->max_tries = c->values[OPT_max_tries];
    f->selftest = cli_has(c, OPT_selftest);
    f->format = cli_has(c, OPT_output) ? c->values[OPT_output] : "text";
    if (strcmp(f->format, "text") != 0 && strcmp(f->format, "json") != 0) {
        return cli_usage("fsck: --output must be text or json, got '%s'; see quipu help fsck",
                         f->format);
    }
    return parse_numbers(f);
}

/* --------------------------------------------------------------------------------------- output */

static bool is_json(const struct fsck *f)
{
    return strcmp(f->format, "json") == 0;
}

static const char *severity_word(enum qp_severity severity)
{
    return severity == QP_SEVERITY_ERROR ? "error" : "warning";
}

/* Foreign text on a terminal: bytes that could control it are shown as \xNN. */
static void print_safe(struct buf *out, qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        if (byte < 0x20 || byte >= 0x7f) {
            buf_printf(out, "\\x%02x", byte);
        } else {
            buf_byte(out, (char)byte);
        }
    }
}

static void print_text(struct buf *out, const struct qp_finding *finding)
{
    buf_printf(out, "%s %s", finding->rule, severity_word(finding->severity));
    if (finding->namespace_name.p != NULL) {
        buf_text(out, " namespace ");
        print_safe(out, finding->namespace_name);
    }
    if (finding->job.p != NULL) {
        buf_text(out, " job ");
        print_safe(out, finding->job);
    }
    buf_text(out, ": ");
    print_safe(out, str_from(finding->text));
    if (finding->evidence[0] != '\0') {
        buf_text(out, " (");
        print_safe(out, str_from(finding->evidence));
        buf_byte(out, ')');
    }
    buf_printf(out, "; next: %s\n", finding->next);
}

static void print_json(struct json_writer *w, const struct qp_finding *finding)
{
    const struct {
        qp_str key;
        qp_str value;
    } members[] = {
        {QP_STR("rule"), str_from(finding->rule)},
        {QP_STR("severity"), str_from(severity_word(finding->severity))},
        {QP_STR("namespace"), finding->namespace_name},
        {QP_STR("job"), finding->job},
        {QP_STR("text"), str_from(finding->text)},
        {QP_STR("evidence"), str_from(finding->evidence)},
        {QP_STR("next"), str_from(finding->next)},
    };
    json_begin_object(w);
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        json_key(w, members[i].key);
        json_put_str(w, members[i].value);
    }
    json_end_object(w);
}

static int visit(void *context, const struct qp_finding *finding)
{
    struct fsck *f = context;
    if (is_json(f)) {
        print_json(&f->json, finding);
    } else {
        print_text(&f->out, finding);
    }
    return buf_rc(&f->out);
}

/* The rest of the object: the result stands after the findings that it counts. */
static int finish_json(struct fsck *f, const struct qp_check_result *result)
{
    struct json_writer *w = &f->json;
    json_end_array(w);
    json_key(w, QP_STR("ok"));
    json_put_bool(w, result->errors == 0);
    json_key(w, QP_STR("jobs"));
    json_put_i64(w, result->jobs);
    json_key(w, QP_STR("errors"));
    json_put_i64(w, result->errors);
    json_key(w, QP_STR("warnings"));
    json_put_i64(w, result->warnings);
    json_key(w, QP_STR("truncated"));
    json_put_bool(w, result->truncated);
    json_end_object(w);
    buf_byte(&f->out, '\n');
    return json_writer_done(w);
}

static void print_summary(const struct qp_check_result *result)
{
    (void)fflush(stdout); /* findings stand before their number; main asks whether it went well */
    (void)fprintf(stderr, "quipu: fsck: %lld jobs, %lld errors, %lld warnings\n",
                  (long long)result->jobs, (long long)result->errors,
                  (long long)result->warnings); /* talk; main checks what matters */
    if (result->truncated) {
        (void)fputs("quipu: fsck: there may be more; run it again with a higher --limit\n", stderr);
    }
}

/* -------------------------------------------------------------------------------------- running */

/* A rule that is not there is a mistake of whoever typed it. */
static int fail(const struct qp_err *err, int rc)
{
    cli_error("fsck", err, rc);
    return rc == QP_E_INVALID ? EXIT_USAGE : rc == QP_E_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_ERROR;
}

static int fsck_selftest(struct fsck *f)
{
    struct qp_err err = {0};
    int rc = kinds_selftest(&f->env, &err);
    if (rc != QP_OK) {
        return fail(&err, rc);
    }
    (void)puts(is_json(f) ? "{\"ok\":true}"
                          : "selftest: every rule finds its seeds"); /* main checks */
    return EXIT_OK;
}

static int fsck_check(struct fsck *f)
{
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    int rc;
    buf_init(&f->out, &f->env, 0);
    json_writer_init(&f->json, &f->out);
    if (is_json(f)) {
        json_begin_object(&f->json);
        json_key(&f->json, QP_STR("findings"));
        json_begin_array(&f->json);
    }
    rc = qp_check(&f->check, f, visit, &result, &err);
    rc = rc == QP_OK && is_json(f) ? finish_json(f, &result) : rc;
    if (rc == QP_OK) {
        if (f->out.n > 0) {
            (void)fwrite(f->out.p, 1, f->out.n, stdout); /* main checks the stream */
        }
        print_summary(&result);
    }
    buf_done(&f->out);
    if (rc != QP_OK) {
        return fail(&err, rc);
    }
    return result.errors > 0 ? EXIT_VIOLATIONS : EXIT_OK;
}
