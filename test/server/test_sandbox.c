/* test_sandbox.c - what is denied ends the process, and a server does its work without it
 *
 * The sandbox is for good, so every case is a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/sandbox.h"
#include "servertest.h"
#include "support/pgserver.h"

/* Runs it in a child; how that ended. */
static int in_child(void (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void enter(void)
{
    struct qp_err err = {0};
    if (sandbox_enter(&err) != QP_OK) {
        print_error("%s\n", err.text);
        _exit(3);
    }
}

static void nothing(void)
{
    enter();
}

static void starts_a_program(void)
{
    enter();
    (void)execl("/bin/true", "true", (char *)NULL);
}

static void traces(void)
{
    enter();
    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void mounts(void)
{
    enter();
    (void)mount("none", "/nowhere", "tmpfs", 0, NULL);
}

static void becomes_somebody(void)
{
    enter();
    (void)syscall(SYS_setuid, getuid());
}

static atomic_bool entered;

static void *other_thread(void *context)
{
    while (!atomic_load(&entered)) {}
    (void)execl("/bin/true", "true", (char *)NULL);
    return context;
}

/* A thread that was there before. */
static void other_thread_starts(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_thread, NULL) != 0) {
        _exit(4);
    }
    enter();
    atomic_store(&entered, true);
    (void)pthread_join(thread, NULL);
}

static void denied_calls_end_it(void **state)
{
    static void (*const bodies[])(void) = {starts_a_program, traces, mounts, becomes_somebody,
                                           other_thread_starts};
    int status = in_child(nothing);
    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        status = in_child(bodies[i]);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) {
            fail_msg("case %zu: status %x", i, (unsigned)status);
        }
    }
}

static enum st_kind kind;

/* A whole life of a server: jobs, a worker, reads, numbers, another life on the same store. */
static void serves(void)
{
    struct hc_answer a;
    char *token;
    char body[512];
    st_begin(kind, ST_OPEN);
    enter();
    st_start("one", "1");
    a = st_work("{\"worker\":\"w\",\"topics\":[\"work\"],\"wait\":\"5s\"}");
    token = hc_member(&a, "tasks.0.token");
    if (token == NULL) {
        _exit(5);
    }
    (void)snprintf(body, sizeof body, "{\"worker\":\"w\",\"results\":[{\"token\":\"%s\"}]}", token);
    free(token);
    hc_done(&a);
    a = st_work(body);
    hc_done(&a);
    free(st_expect("GET", "/v1/jobs/one/result?wait=10s", NULL, 200, "id"));
    free(st_expect("GET", "/v1/jobs", NULL, 200, NULL));
    free(st_expect("GET", "/metrics", NULL, 200, NULL));
    free(st_expect("GET", "/readyz", NULL, 200, NULL));
    st_reopen();
    free(st_expect("GET", "/v1/jobs/one", NULL, 200, "id"));
    st_end();
}

static void servers_work(void **state)
{
    static const enum st_kind kinds[] = {ST_FILE, ST_DATABASE};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        int status;
        kind = kinds[i];
        if (kind == ST_DATABASE) {
            (void)pgserver_shared(); /* which starts a program */
        }
        status = in_child(serves);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fail_msg("kind %d: status %x", (int)kind, (unsigned)status);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(denied_calls_end_it),
                                       cmocka_unit_test(servers_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
