/* servertest.c - a server of a test's own */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "servertest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "run/traversals.h"
#include "support/files.h"
#include "support/pgserver.h"

struct st st;

#define LOG_SIZE (1024 * 1024)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    size_t size;
    char text[LOG_SIZE];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER};

static void keep_log(void *context, enum qp_log_level level, const char *line, size_t size)
{
    (void)context;
    (void)level;
    (void)pthread_mutex_lock(&kept.lock);
    if (kept.size + size + 2 < LOG_SIZE) {
        memcpy(kept.text + kept.size, line, size);
        kept.size += size;
        kept.text[kept.size++] = '\n';
        kept.text[kept.size] = '\0';
        (void)pthread_cond_broadcast(&kept.grown);
    }
    (void)pthread_mutex_unlock(&kept.lock);
}

const char *st_log(void)
{
    return kept.text;
}

bool st_await_log(const char *text, int64_t within_ms)
{
    struct timespec until;
    bool found;
    int rc = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += within_ms / 1000;
    (void)pthread_mutex_lock(&kept.lock);
    while (!(found = strstr(kept.text, text) != NULL) && rc == 0) {
        rc = pthread_cond_clockwait(&kept.grown, &kept.lock, CLOCK_MONOTONIC, &until);
    }
    (void)pthread_mutex_unlock(&kept.lock);
    return found;
}

void st_init(enum st_kind kind, enum st_auth auth)
{
    memset(&st, 0, sizeof st);
    kept.size = 0;
    kept.text[0] = '\0';
    qp_env_init(&st.env);
    st.env.log = keep_log;
    files_temporary(st.dir, sizeof st.dir, "server");
    st.options = (struct server_options){.env = &st.env,
                                         .data = st.dir,
                                         .store = kind == ST_MEMORY     ? "memory"
                                                  : kind == ST_DATABASE ? pgserver_shared()
                                                                        : NULL,
                                         .listen = {"127.0.0.1:0"},
                                         .listen_count = 1,
                                         .no_auth = auth == ST_OPEN,
                                         .drain_ms = 10000};
}

void st_read_token(void)
{
    char file[400];
    size_t size = 0;
    unsigned char *text;
    (void)snprintf(file, sizeof file, "%s/admin.token", st.dir);
    text = files_get(file, &size);
    assert_non_null(text);
    assert_true(size > 1 && size <= sizeof st.token);
    memcpy(st.token, text, size - 1);
    st.token[size - 1] = '\0';
    free(text);
}

void st_open(void)
{
    struct qp_err err = {0};
    int rc = server_open(&st.options, &st.server, &err);
    if (rc != QP_OK) {
        fail_msg("the server does not start: %s", err.text);
    }
    const char *name = server_name(st.server, 0);
    st.port = strncmp(name, "unix:", 5) == 0 ? 0 : (int)strtol(strrchr(name, ':') + 1, NULL, 10);
    if (server_token_file(st.server) != NULL) {
        st_read_token();
    }
}

void st_begin(enum st_kind kind, enum st_auth auth)
{
    st_init(kind, auth);
    st_open();
}

static int count_finding(void *context, const struct qp_finding *finding)
{
    (void)context;
    if (finding->severity == QP_SEVERITY_ERROR) {
        print_error("%s: %s (%s)\n", finding->rule, finding->text, finding->evidence);
    }
    return QP_OK;
}

static void check_file(void)
{
    char path[400];
    struct qp_check_options check;
    struct qp_check_result result = {0};
    struct qp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/quipu.db", st.dir);
    qp_check_options_init(&check);
    check.path = path;
    if (qp_check(&check, NULL, count_finding, &result, &err) != QP_OK) {
        fail_msg("the file cannot be checked: %s", err.text);
    }
    assert_int_equal(result.errors, 0);
}

void st_end(void)
{
    char backups[400];
    assert_true(server_close(st.server));
    if (st.options.store == NULL) {
        check_file();
    }
    (void)snprintf(backups, sizeof backups, "%s/backups", st.dir);
    files_remove(backups);
    files_remove(st.dir);
}

void st_reopen(void)
{
    assert_true(server_close(st.server));
    st_open();
}

int st_call(const char *method, const char *path, const char *body, struct hc_answer *out_answer)
{
    struct hc_answer a =
        hc_call(st.port, st.token[0] != '\0' ? st.token : NULL, method, path, body);
    int status = a.status;
    if (out_answer != NULL) {
        *out_answer = a;
    } else {
        hc_done(&a);
    }
    return status;
}

char *st_expect(const char *method, const char *path, const char *body, int status,
                const char *member)
{
    struct hc_answer a;
    char *text = NULL;
    st_call(method, path, body, &a);
    if (a.status != status) {
        fail_msg("%s %s %s: %d, not %d: %s", method, path, body == NULL ? "" : body, a.status,
                 status, a.body == NULL ? "" : a.body);
    }
    if (member != NULL) {
        text = hc_member(&a, member);
        if (text == NULL) {
            fail_msg("%s %s: no %s in %s", method, path, member, a.body);
        }
    }
    hc_done(&a);
    return text;
}

void st_token(const char *role, const char *namespaces, char out_token[TOKEN_TEXT_SIZE])
{
    char id[LIMIT_TOKEN_ID_SIZE + 1];
    struct token_wish wish = {.role = str_from(role), .namespaces = str_from(namespaces)};
    assert_int_equal(auth_issue(api_auth(server_api(st.server)), &wish, out_token, id, NULL),
                     QP_OK);
}

void st_start(const char *id, const char *input)
{
    char body[1024];
    (void)snprintf(body, sizeof body, "{\"topic\":\"work\",\"id\":\"%s\",\"input\":%s}", id, input);
    free(st_expect("POST", "/v1/jobs", body, 201, "id"));
}

struct hc_answer st_work(const char *body)
{
    struct hc_answer a;
    st_call("POST", "/v1/work", body, &a);
    return a;
}

void st_serve_traversals(void)
{
    struct qp_err err = {0};
    if (traversals_serve(api_engine(server_api(st.server)), NULL, &err) != QP_OK) {
        fail_msg("%s", err.text);
    }
}
