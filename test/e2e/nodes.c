/* nodes.c - servers as processes of their own (see nodes.h) */
#include "e2e/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/server.h"
#include "support/files.h"

#define SERVE "--serve"

void nap_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

bool nodes_is_serve(int argc, char **argv)
{
    return argc == 5 && strcmp(argv[1], SERVE) == 0;
}

int nodes_serve(char **argv)
{
    struct server *server = NULL;
    struct qp_err err = {0};
    struct qp_env env;
    struct server_options options;
    struct timespec look = {.tv_nsec = 100 * 1000000};
    int fd = (int)strtol(argv[3], NULL, 10);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    qp_env_init(&env);
    options = (struct server_options){.env = &env,
                                      .data = argv[2],
                                      .store = argv[4][0] == '\0' ? NULL : argv[4],
                                      .adopted = &fd,
                                      .adopted_count = 1,
                                      .no_auth = true};
    if (server_open(&options, &server, &err) != QP_OK) {
        (void)fprintf(stderr, "serve: %s\n", err.text);
        return 1;
    }
    while (sigtimedwait(&set, NULL, &look) != SIGTERM) {
        if (!server_alive(server)) {
            (void)server_close(server);
            return 1;
        }
    }
    return server_close(server) ? 0 : 1;
}

void nodes_open(struct nodes *n, int count, const char *url)
{
    *n = (struct nodes){.count = count, .url = url};
    assert_in_range(count, 1, NODES_MOST);
    assert_true(url != NULL || count == 1);
    for (int i = 0; i < count; i++) {
        struct node *node = &n->node[i];
        files_temporary(node->dir, sizeof node->dir, "node");
        assert_int_equal(listener_open("127.0.0.1:0", &node->listener, NULL), QP_OK);
        node->port = (int)strtol(strrchr(node->listener.name, ':') + 1, NULL, 10);
    }
}

/* The program of the child; it does not return. */
static _Noreturn void run(const struct nodes *n, const struct node *node)
{
    char fd[16];
    (void)snprintf(fd, sizeof fd, "%d", node->listener.fd);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)fcntl(node->listener.fd, F_SETFD, 0);
    (void)execl("/proc/self/exe", "node", SERVE, node->dir, fd, n->url == NULL ? "" : n->url,
                (char *)NULL);
    _exit(127);
}

void nodes_start(struct nodes *n, int i)
{
    struct node *node = &n->node[i];
    assert_int_equal(node->pid, 0);
    node->pid = fork();
    if (node->pid == 0) {
        run(n, node);
    }
    assert_true(node->pid > 0);
}

int nodes_tend(struct nodes *n)
{
    int ended = 0;
    for (int i = 0; i < n->count; i++) {
        int status = 0;
        if (n->node[i].pid != 0 && waitpid(n->node[i].pid, &status, WNOHANG) == n->node[i].pid) {
            n->node[i].pid = 0;
            ended++;
            nodes_start(n, i);
        }
    }
    return ended;
}

static int end(struct node *node, int number)
{
    int status = 0;
    assert_int_equal(kill(node->pid, number), 0);
    assert_int_equal(waitpid(node->pid, &status, 0), node->pid);
    node->pid = 0;
    return status;
}

void nodes_kill(struct nodes *n, int i)
{
    (void)end(&n->node[i], SIGKILL); /* how it ended is known */
}

void nodes_end(struct nodes *n, int i)
{
    assert_int_equal(end(&n->node[i], SIGTERM), 0);
}

void nodes_file(const struct nodes *n, char *out, size_t size)
{
    assert_null(n->url);
    (void)snprintf(out, size, "%s/quipu.db", n->node[0].dir);
}

void nodes_close(struct nodes *n)
{
    for (int i = 0; i < n->count; i++) {
        struct node *node = &n->node[i];
        char backups[400];
        if (node->pid != 0) {
            nodes_end(n, i);
        }
        listener_close(&node->listener);
        (void)snprintf(backups, sizeof backups, "%s/backups", node->dir);
        if (access(backups, F_OK) == 0) {
            files_remove(backups);
        }
        files_remove(node->dir);
    }
}
