/* test_builtin.c - the workers that come with the engine: echo, fail, and programs of the operator's list
 *
 * Echo and fail under a clock that the test moves. Programs need the real one; each is a file that the test writes, so that
 * what it is given, and nothing else, decides what it does.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"
#include "run/handle.h"
#include "support/runtest.h"

static void start(qp *q, const char *topic, const char *id, const char *input)
{
    struct qp_start s = {.topic = str_from(topic), .id = str_from(id), .input = str_from(input)};
    s.retry = (struct qp_retry){.attempts = 3, .backoff_ms = 1000, .factor = 1};
    rt_start_with(q, &s);
}

/* ------------------------------------------------------------------------------------ echo and fail */

static qp *open_plain(void)
{
    qp *q;
    struct qp_err err = {0};
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(qp_builtin_serve(q, &(struct qp_builtin){.shell_count = 0}, &err), QP_OK);
    return q;
}

static void close_plain(qp *q)
{
    rt_close(q);
    rt_end();
}

static void echo_answers_its_input(void **state)
{
    qp *q = open_plain();
    (void)state;
    start(q, "quipu.echo", "j", "{\"a\":[1,\"two\",null]}");
    rt_poll(q);
    rt_expect(q, "j", "completed", "{\"a\":[1,\"two\",null]}");
    close_plain(q);
}

static void fail_fails(void **state)
{
    static const struct {
        const char *input;
        int polls; /* after each a second goes by */
        const char *status;
        const char *text;
    } cases[] = {
        {"{\"times\":0,\"a\":1}", 1, "completed", "{\"times\":0,\"a\":1}"},
        {"{\"times\":2}", 2, "retrying", NULL},
        {"{\"times\":2}", 3, "completed", "{\"times\":2}"},
        {"{\"times\":3}", 3, "failed",
         "{\"code\":500,\"message\":\"it was asked to fail\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"code\":409,\"message\":\"no stock\",\"activity\":\"run\",\"address\":\"run,0,0\"}", 3,
         "failed",
         "{\"code\":409,\"message\":\"no stock\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"null", 3, "failed",
         "{\"code\":500,\"message\":\"it was asked to fail\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp *q = open_plain();
        start(q, "quipu.fail", "j", cases[i].input);
        for (int n = 0; n < cases[i].polls; n++) {
            rt_poll(q);
            testenv_advance_ms(&rt, n + 1 < cases[i].polls ? 1000 : 0);
        }
        rt_expect(q, "j", cases[i].status, cases[i].text);
        close_plain(q);
    }
}

/* Whatever is asked for, nobody serves quipu.shell. */
static void no_list_no_shell(void **state)
{
    qp *q = open_plain();
    (void)state;
    start(q, "quipu.shell", "j", "{\"command\":\"true\"}");
    rt_poll(q);
    rt_expect(q, "j", "running", NULL);
    close_plain(q);
}

static void bad_lists(void **state)
{
    static const char *const bad[] = {"",      "=/bin/true", "true",
                                      "true=", "true=true",  "true=./true"};
    static const char *const gone[] = {"a=/no/such/program", "b=/etc/passwd", "c=/tmp"};
    static char names[LIMIT_SHELL_COMMANDS + 1][32];
    const char *many[LIMIT_SHELL_COMMANDS + 1];
    struct qp_err err = {0};
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct qp_builtin b = {.shell = &bad[i], .shell_count = 1};
        assert_int_equal(qp_builtin_serve(q, &b, &err), QP_E_INVALID);
    }
    for (size_t i = 0; i < ARRAY_COUNT(gone); i++) {
        struct qp_builtin b = {.shell = &gone[i], .shell_count = 1};
        assert_int_equal(qp_builtin_serve(q, &b, &err), QP_E_NOT_FOUND);
        assert_non_null(strstr(err.text, gone[i]));
    }
    for (size_t i = 0; i < ARRAY_COUNT(many); i++) {
        (void)snprintf(names[i], sizeof names[i], "p%zu=/bin/true", i);
        many[i] = names[i];
    }
    assert_int_equal(
        qp_builtin_serve(q, &(struct qp_builtin){.shell = many, .shell_count = ARRAY_COUNT(many)},
                         &err),
        QP_E_TOO_LARGE);
    /* A list that was refused has left nothing behind. */
    assert_int_equal(
        qp_builtin_serve(
            q, &(struct qp_builtin){.shell = many, .shell_count = ARRAY_COUNT(many) - 1}, &err),
        QP_OK);
    assert_int_equal(qp_builtin_serve(q, &(struct qp_builtin){.shell_count = 0}, &err),
                     QP_E_EXISTS);
    close_plain(q);
}

/* --------------------------------------------------------------------------------------------- shell */

/* A program of the list, as a shell script. */
static void write_program(const char *name, const char *text, char out_row[512])
{
    char path[400];
    FILE *file;
    (void)snprintf(path, sizeof path, "%s.%s", rt_path, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("#!/bin/bash\n", file) >= 0 && fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    (void)snprintf(out_row, 512, "%s=%s", name, path);
}

static qp *open_shell(const char *text)
{
    static char row[512];
    static char missing[512];
    const char *list[] = {row, "true=/bin/true", missing};
    struct qp_err err = {0};
    qp *q;
    rt_begin(RT_REAL);
    write_program("program", text, row);
    write_program("missing", "", missing);
    q = rt_open(rt_path);
    assert_int_equal(
        qp_builtin_serve(q, &(struct qp_builtin){.shell = list, .shell_count = 3}, &err), QP_OK);
    assert_int_equal(unlink(strchr(missing, '=') + 1), 0); /* it was there at the start */
    assert_int_equal(qp_start_threads(q, 2, &err), QP_OK);
    return q;
}

static void close_shell(qp *q, int64_t jobs)
{
    rt_close(q);
    rt_check(rt_path, jobs);
    rt_end();
}

/* Runs it once and expects what comes of it. */
static void shell(const char *program, const char *input, const char *status, const char *text)
{
    qp *q = open_shell(program);
    struct qp_start s = {.topic = QP_STR("quipu.shell"),
                         .id = QP_STR("j"),
                         .input = str_from(input),
                         .retry = {.attempts = 1}};
    rt_start_with(q, &s);
    rt_wait(q, "j", status);
    rt_expect(q, "j", status, text);
    close_shell(q, 1);
}

#define ARGUMENTS "for a in \"$0\" \"$@\"; do printf '<%s>' \"${a##*/}\"; done\n"

/* A program that was there at the start. */
static void missing_by_then(void)
{
    qp *q = open_shell("");
    char text[512];
    struct qp_start s = {.topic = QP_STR("quipu.shell"),
                         .id = QP_STR("j"),
                         .input = QP_STR("{\"command\":\"missing\"}"),
                         .retry = {.attempts = 1}};
    (void)snprintf(text, sizeof text,
                   "{\"code\":500,\"message\":\"quipu.shell: '%.200s.missing' cannot be "
                   "started\",\"activity\":\"run\",\"address\":\"run,0,0\"}",
                   rt_path);
    rt_start_with(q, &s);
    rt_wait(q, "j", "failed");
    rt_expect(q, "j", "failed", text);
    close_shell(q, 1);
}

static void programs_of_the_list(void **state)
{
    (void)state;
    shell("cat; echo oops >&2\n", "{\"command\":\"program\",\"stdin\":\"a\\nb\"}", "completed",
          "{\"code\":0,\"stdout\":\"a\\nb\",\"stderr\":\"oops\\n\"}");
    shell(
        "exit 3\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":500,\"message\":\"it ended with 3: \",\"activity\":\"run\",\"address\":\"run,0,0\"}");
    shell(
        "echo first; echo why >&2; exit 1\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":500,\"message\":\"it ended with 1: why\\n\",\"activity\":\"run\",\"address\":\"run,0,0\"}");
    shell(
        "echo first; exit 1\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":500,\"message\":\"it ended with 1: first\\n\",\"activity\":\"run\",\"address\":\"run,0,0\"}");
    shell(
        "kill -9 $$\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":500,\"message\":\"it ended with 137: \",\"activity\":\"run\",\"address\":\"run,0,0\"}");
    shell("exec <&-; exit 0\n", "{\"command\":\"program\",\"stdin\":\"nobody reads this\"}",
          "completed", "{\"code\":0,\"stdout\":\"\",\"stderr\":\"\"}");
    missing_by_then();
}

/* No shell looks at them: blanks, quotes, dollars and semicolons are letters. */
static void arguments_are_not_interpreted(void **state)
{
    (void)state;
    shell(ARGUMENTS,
          "{\"command\":\"program\",\"arguments\":[\"a b\",\"\",\"\\\"q'\",\"$HOME\",\"; "
          "touch x\",\"*\",\"`id`\",\"-x\"]}",
          "completed",
          "{\"code\":0,\"stdout\":\"<x.db.program><a b><><\\\"q'><$HOME><; touch "
          "x><*><`id`><-x>\",\"stderr\":\"\"}");
}

/* Not what the server has in its own, which may be a secret. */
static void environment_is_bare(void **state)
{
    (void)state;
    assert_int_equal(setenv("QUIPU_TOKEN", "secret", 1), 0);
    shell(
        "exec /usr/bin/env -u _ -u PWD -u SHLVL -u OLDPWD\n", "{\"command\":\"program\"}",
        "completed",
        "{\"code\":0,\"stdout\":\"LANG=C.UTF-8\\nPATH=/usr/local/bin:/usr/bin:/bin\\n\",\"stderr\":"
        "\"\"}");
    assert_int_equal(unsetenv("QUIPU_TOKEN"), 0);
}

#define NOT_LISTED                                                                                 \
    "{\"code\":422,\"message\":\"quipu.shell: the command is not on the operator's list; see --shell\",\"activity\":\"run\",\"address\":\"run,0,0\"}"

static void refused(void **state)
{
    static const struct {
        const char *input;
        const char *text;
    } cases[] = {
        {"{\"command\":\"sh\"}", NOT_LISTED},
        {"{\"command\":\"/bin/true\"}", NOT_LISTED},
        {"{\"command\":\"tru\"}", NOT_LISTED},
        {"{}",
         "{\"code\":422,\"message\":\"quipu.shell: name the command: {\\\"command\\\":\\\"...\\\"}\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"null",
         "{\"code\":422,\"message\":\"quipu.shell: name the command: {\\\"command\\\":\\\"...\\\"}\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"arguments\":\"-l\"}",
         "{\"code\":422,\"message\":\"arguments: a list of texts\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"arguments\":{\"a\":\"b\"}}",
         "{\"code\":422,\"message\":\"arguments: a list of texts\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"timeout_ms\":-1}",
         "{\"code\":422,\"message\":\"timeout_ms: a whole number from 1 to 3600000\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"timeout_ms\":0}",
         "{\"code\":422,\"message\":\"timeout_ms: a whole number from 1 to 3600000\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"timeout_ms\":3600001}",
         "{\"code\":422,\"message\":\"timeout_ms: a whole number from 1 to 3600000\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"timeout_ms\":\"5\"}",
         "{\"code\":422,\"message\":\"timeout_ms: a whole number from 1 to 3600000\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"stdin\":1}",
         "{\"code\":422,\"message\":\"stdin: a text\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"args\":[]}",
         "{\"code\":422,\"message\":\"quipu.shell: no field 'args'; there are command, arguments, stdin, timeout_ms\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
        {"{\"command\":\"true\",\"arguments\":[1]}",
         "{\"code\":422,\"message\":\"arguments: they are texts\",\"activity\":\"run\",\"address\":\"run,0,0\"}"},
    };
    char many[1024];
    int n = snprintf(many, sizeof many, "{\"command\":\"true\",\"arguments\":[\"\"");
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        shell("", cases[i].input, "failed", cases[i].text);
    }
    for (int i = 0; i < LIMIT_SHELL_ARGUMENTS; i++) {
        n += snprintf(many + n, sizeof many - (size_t)n, ",\"\"");
    }
    (void)snprintf(many + n, sizeof many - (size_t)n, "]}");
    shell(
        "", many, "failed",
        "{\"code\":422,\"message\":\"arguments: there are more than 64\",\"activity\":\"run\",\"address\":\"run,0,0\"}");
}

/* What is no text is replaced, as everywhere. */
static void output_is_text(void **state)
{
    (void)state;
    shell("printf '\\377'\n", "{\"command\":\"program\"}", "completed",
          "{\"code\":0,\"stdout\":\"\xEF\xBF\xBD\",\"stderr\":\"\"}");
}

static void output_too_large(void **state)
{
    (void)state;
    shell(
        "yes\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":422,\"message\":\"it said more than 256 KiB\",\"activity\":\"run\",\"address\":\"run,0,0\"}");
    shell(
        "head -c 300000 /dev/zero >&2\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":422,\"message\":\"it said more than 256 KiB\",\"activity\":\"run\",\"address\":\"run,0,0\"}");
}

/* The number that the program wrote into a file; 0: not yet. */
static pid_t read_pid(const char *path)
{
    FILE *file = fopen(path, "re");
    long pid = 0;
    if (file != NULL) {
        char line[32] = "";
        pid = fgets(line, sizeof line, file) != NULL && strchr(line, '\n') != NULL
                  ? strtol(line, NULL, 10)
                  : 0;
        (void)fclose(file);
    }
    return (pid_t)pid;
}

static void expect_gone(pid_t pid)
{
    int looks = 0;
    while (kill(pid, 0) == 0 && looks++ < 3000) {
        (void)usleep(10000); /* whoever adopts it has to see its end */
    }
    assert_true(kill(pid, 0) != 0 && errno == ESRCH);
}

/* The program, and what it has started, are ended. So is one that has closed its outputs. */
static void timeout_ends_the_group(void **state)
{
    static const char *const programs[] = {
        "sleep 600 & echo $! > \"$1.part\"; mv \"$1.part\" \"$1\"; wait\n",
        "exec > /dev/null 2>&1; sleep 600 & echo $! > \"$1.part\"; mv \"$1.part\" \"$1\"; wait\n"};
    char input[512], file[400];
    struct qp_start s = {
        .topic = QP_STR("quipu.shell"), .id = QP_STR("j"), .retry = {.attempts = 1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++) {
        qp *q = open_shell(programs[i]);
        (void)snprintf(file, sizeof file, "%s.pid", rt_path);
        (void)snprintf(input, sizeof input,
                       "{\"command\":\"program\",\"arguments\":[\"%s\"],\"timeout_ms\":1500}",
                       file);
        s.input = str_from(input);
        rt_start_with(q, &s);
        rt_wait(q, "j", "failed");
        rt_expect(
            q, "j", "failed",
            "{\"code\":504,\"message\":\"its time was over, or its job\",\"activity\":\"run\",\"address\":\"run,0,0\"}");
        assert_true(read_pid(file) > 0);
        expect_gone(read_pid(file));
        close_shell(q, 1);
    }
}

static void cancelled_job_ends_it(void **state)
{
    qp *q = open_shell("echo $$ > \"$1.part\"; mv \"$1.part\" \"$1\"; exec sleep 600\n");
    char input[512], file[400];
    struct qp_err err = {0};
    int looks = 0;
    (void)state;
    (void)snprintf(file, sizeof file, "%s.pid", rt_path);
    (void)snprintf(input, sizeof input, "{\"command\":\"program\",\"arguments\":[\"%s\"]}", file);
    start(q, "quipu.shell", "j", input);
    while (read_pid(file) == 0 && looks++ < 3000) {
        (void)usleep(10000);
    }
    assert_true(read_pid(file) > 0);
    assert_int_equal(qp_job_cancel(q, QP_STR("j"), "no more", &err), QP_OK);
    expect_gone(read_pid(file));
    rt_expect(q, "j", "cancelled", NULL);
    close_shell(q, 1);
}

/* A program is not deaf to the signals that its server has blocked or ignores. */
static void signals_reach_it(void **state)
{
    sigset_t set, old;
    (void)state;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
    shell(
        "kill -TERM $$\n", "{\"command\":\"program\"}", "failed",
        "{\"code\":500,\"message\":\"it ended with 143: \",\"activity\":\"run\",\"address\":\"run,0,0\"}");
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echo_answers_its_input), cmocka_unit_test(fail_fails),
        cmocka_unit_test(no_list_no_shell),       cmocka_unit_test(bad_lists),
        cmocka_unit_test(programs_of_the_list),   cmocka_unit_test(arguments_are_not_interpreted),
        cmocka_unit_test(environment_is_bare),    cmocka_unit_test(refused),
        cmocka_unit_test(output_is_text),         cmocka_unit_test(output_too_large),
        cmocka_unit_test(timeout_ends_the_group), cmocka_unit_test(cancelled_job_ends_it),
        cmocka_unit_test(signals_reach_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
