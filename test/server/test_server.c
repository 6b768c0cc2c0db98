/* test_server.c - a server from its first start to its end: the first token, sockets of others */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "server/http.h"
#include "servertest.h"

/* A first token that could not be written down is not the first: the next start makes another, and nobody is
 * locked out of his store. */
static void first_token_not_written(void **state)
{
    char file[400];
    char inside[420];
    struct qp_err err = {0};
    (void)state;
    st_init(ST_FILE, ST_TOKENS);
    (void)snprintf(file, sizeof file, "%s/admin.token", st.dir);
    (void)snprintf(inside, sizeof inside, "%s/x", file);
    assert_int_equal(mkdir(file, 0700), 0); /* in the way of the file */
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_equal(server_open(&st.options, &st.server, &err), QP_E_IO);
    assert_non_null(strstr(err.text, "admin.token"));
    assert_int_equal(rmdir(inside), 0);
    assert_int_equal(rmdir(file), 0);
    st_open();
    assert_non_null(server_token_file(st.server));
    assert_int_equal(st_call("GET", "/v1/tokens", NULL, NULL), 200);
    st_end();
}

/* In a process of its own: starts the server, and dies at the n-th passing of the point. */
static bool start_dies(const char *point, int n)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char spec[64];
        (void)snprintf(spec, sizeof spec, "%s=kill@%d", point, n);
        QP_ASSERT(failpoint_set(spec) == QP_OK);
        QP_ASSERT(server_open(&st.options, &st.server, NULL) == QP_OK);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* Killed before or after any commit of its first start: the next one lets in whoever has the file. */
static void first_start_is_killed(void **state)
{
    static const char *const points[] = {"commit.before", "commit.after"};
    int kills = 0;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(points); i++) {
        bool dies = true;
        for (int n = 1; dies; n++) {
            assert_true(n < 100);
            st_init(ST_FILE, ST_TOKENS);
            dies = start_dies(points[i], n);
            st_open();
            st_read_token();
            assert_int_equal(st_call("GET", "/v1/tokens", NULL, NULL), 200);
            st_end();
            kills += dies;
        }
    }
    print_message("%d kills\n", kills);
    assert_in_range(kills, 6, 200); /* a node, the key of tasks and the token are commits */
}

/* A socket that the service manager has opened stays where it is when the server ends: the manager listens on,
 * and starts us again when somebody comes. */
static void adopted_socket_stays(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    struct hc c;
    struct hc_answer a;
    struct listener early;
    struct qp_err err = {0};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int given;
    (void)state;
    st_init(ST_FILE, ST_TOKENS);
    assert_true((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%.90s/s", st.dir) ==
                strlen(st.dir) + 2);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listener_adopt(fd, &early, &err), QP_E_INVALID); /* it does not listen yet */
    assert_int_equal(listen(fd, 16), 0);
    given = dup(fd);
    st.options.listen_count = 0;
    st.options.adopted = &given;
    st.options.adopted_count = 1;
    st_open();
    assert_true(hc_open_unix(&c, address.sun_path));
    a = hc_ask(&c, NULL, "GET", "/livez", NULL, NULL);
    assert_int_equal(a.status, 200);
    hc_done(&a);
    hc_close(&c);
    assert_true(server_close(st.server));
    assert_int_equal(stat(address.sun_path, &info), 0);
    given = dup(fd);
    st_open();
    st_end();
    (void)close(fd);
}

/* A token that is over as soon as it is made is a mistake, and not one that is never over. */
static void no_time_at_all(void **state)
{
    char *text;
    (void)state;
    st_begin(ST_FILE, ST_TOKENS);
    text = st_expect("POST", "/v1/tokens", "{\"role\":\"viewer\",\"expires\":\"0s\"}", 400,
                     "errors.0.pointer");
    assert_string_equal(text, "/expires");
    free(text);
    free(st_expect("POST", "/v1/tokens", "{\"role\":\"viewer\",\"expires\":\"1m\"}", 201, "token"));
    free(st_expect("POST", "/v1/tokens", "{\"role\":\"viewer\",\"expires\":null}", 201, "token"));
    st_end();
}

#define LARGE ((size_t)200 * 1024)

/* A start with an input of some size; its status. */
static int start_large(size_t size)
{
    char *body = malloc(size + 64);
    size_t n = (size_t)snprintf(body, 64, "{\"topic\":\"work\",\"input\":\"");
    int status;
    memset(body + n, 'x', size);
    memcpy(body + n + size, "\"}", 3);
    status = st_call("POST", "/v1/jobs", body, NULL);
    free(body);
    return status;
}

/* The first part of a large body, and never all of it. */
static void send_some(struct hc *c, const char *token)
{
    static char some[LARGE];
    char head[400];
    (void)snprintf(head, sizeof head,
                   "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                   "Content-Length: 1000000\r\n\r\n",
                   token);
    assert_true(hc_open(c, st.port));
    assert_true(hc_text(c, head));
    assert_true(hc_send(c, some, sizeof some));
}

/* Two that are known have the room. Not so when another large one was there before what they have sent: then
 * it was they who were refused. */
static bool fill_room(struct hc known[2])
{
    send_some(&known[0], st.token);
    send_some(&known[1], st.token);
    for (int i = 0; i < 20; i++) {
        if (start_large(LARGE) == 503) {
            return true;
        }
    }
    hc_close(&known[0]);
    hc_close(&known[1]);
    return false;
}

/* What is kept of bodies that are not whole yet has a bound; small requests are served all the same, and large
 * ones when there is room again. Of a stranger nothing is kept. */
static void bodies_are_bounded(void **state)
{
    struct hc known[2], strangers[4];
    int tries = 0;
    (void)state;
    st_init(ST_FILE, ST_TOKENS);
    st.options.bodies_size = 2 * LARGE + LARGE / 2; /* one may be there still when the next comes */
    st_open();
    for (size_t i = 0; i < ARRAY_COUNT(strangers); i++) {
        send_some(&strangers[i], "qp_admin_0000_11");
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(start_large(LARGE), 201);
    }
    for (size_t i = 0; i < ARRAY_COUNT(strangers); i++) {
        hc_close(&strangers[i]);
    }
    while (!fill_room(known)) {
        assert_true(++tries < 100);
    }
    assert_int_equal(start_large(1), 201);
    hc_close(&known[0]);
    hc_close(&known[1]);
    tries = 0;
    while (start_large(LARGE) != 201) {
        assert_true(++tries < 1000);
    }
    st_end();
}

/* What we do not have yet is a mistake of the request, and no failure of the server. */
static void no_methods_yet(void **state)
{
    char *text;
    (void)state;
    st_begin(ST_MEMORY, ST_OPEN);
    text = st_expect("POST", "/v1/work",
                     "{\"worker\":\"w\",\"flows\":[{\"name\":\"f\",\"methods\":[\"m\"]}]}", 400,
                     "errors.0.pointer");
    assert_string_equal(text, "/flows/0/methods");
    free(text);
    assert_null(strstr(st_log(), "failed"));
    st_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_token_not_written), cmocka_unit_test(first_start_is_killed),
        cmocka_unit_test(adopted_socket_stays),    cmocka_unit_test(no_time_at_all),
        cmocka_unit_test(bodies_are_bounded),      cmocka_unit_test(no_methods_yet),
    };
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
