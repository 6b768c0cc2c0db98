/* test_sink.c - log lines for people and for programs, and notes for the service manager */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "server/sink.h"

/* What log.h writes comes out as JSON with the same fields and texts, whatever is in them. */
static void lines_as_json(void **state)
{
    static const char *const texts[] = {"plain",       "two words", "a \"quote\"",
                                        "back\\slash", "line\nend", "tab\t",
                                        "é",           "",          "k=v x=y"};
    struct qp_env env;
    struct sink sink = {.format = SINK_JSON, .least = QP_LOG_INFO};
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    qp_env_init(&env);
    sink.fd = ends[1];
    env.log = sink_write;
    env.context = &sink;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char line[2048];
        struct json *tree = NULL;
        qp_str text;
        ssize_t n;
        log_write(&env, QP_LOG_DEBUG, LOG_MSG("not this one"));
        log_write(&env, QP_LOG_WARN, LOG_MSG("something happened"), LOG_TEXT("what", texts[i]),
                  LOG_I64("n", 7));
        n = read(ends[0], line, sizeof line);
        assert_true(n > 1 && line[n - 1] == '\n');
        assert_int_equal(json_parse(&env, (qp_str){line, (size_t)n}, NULL, &tree), QP_OK);
        assert_true(json_as_str(json_get(tree, QP_STR("msg")), &text));
        assert_true(str_equal(text, QP_STR("something happened")));
        assert_true(json_as_str(json_get(tree, QP_STR("what")), &text));
        assert_true(str_equal(text, str_from(texts[i])));
        assert_true(json_as_str(json_get(tree, QP_STR("level")), &text));
        assert_true(str_equal(text, QP_STR("warn")));
        assert_true(json_as_str(json_get(tree, QP_STR("ts")), &text));
        assert_int_equal(text.n, 24);
        assert_non_null(json_get(tree, QP_STR("n")));
        json_free(tree);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* A manager hears what it is told, by a path and by a name that is none; nobody is there:
 * nothing happens. */
static void manager_is_told(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    char heard[64] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    (void)state;
    (void)snprintf(name, sizeof name, "@quipu-test-%d", (int)getpid());
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                     0);
    notify(name, "READY=1");
    assert_int_equal(recv(fd, heard, sizeof heard, 0), 7);
    assert_string_equal(heard, "READY=1");
    notify(NULL, "READY=1");
    notify("", "READY=1");
    notify("/nowhere/at/all", "READY=1");
    assert_true(recv(fd, heard, sizeof heard, MSG_DONTWAIT) < 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_as_json),
        cmocka_unit_test(manager_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
