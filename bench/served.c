/* served.c - a server as a process of its own (see served.h) */
#include "served.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void check(bool good, const char *what)
{
    if (!good) {
        die("http", what);
    }
}

void nap(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int serve(const char *dir, int fd)
{
    struct server *server = NULL;
    struct qp_err err = {0};
    struct qp_env env;
    struct rlimit files;
    sigset_t set;
    int number;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    qp_env_init(&env);
    struct server_options options = {
        .env = &env, .data = dir, .adopted = &fd, .adopted_count = 1, .no_auth = true};
    check(server_open(&options, &server, &err) == QP_OK, err.text);
    (void)sigwait(&set, &number);
    return server_close(server) ? 0 : 1;
}

bool served_is(int argc, char **argv)
{
    return argc == 4 && strcmp(argv[1], "--serve") == 0;
}

int served_main(char **argv)
{
    return serve(argv[2], (int)strtol(argv[3], NULL, 10));
}

void served_start(struct served *s, const char *parent)
{
    (void)snprintf(s->dir, sizeof s->dir, "%s/serve", parent);
    check(listener_open("127.0.0.1:0", &s->listener, NULL) == QP_OK, "no port");
    s->port = (int)strtol(strrchr(s->listener.name, ':') + 1, NULL, 10);
    s->pid = fork();
    if (s->pid == 0) {
        char fd[16];
        (void)snprintf(fd, sizeof fd, "%d", s->listener.fd);
        (void)fcntl(s->listener.fd, F_SETFD, 0);
        (void)execl("/proc/self/exe", "served", "--serve", s->dir, fd, (char *)NULL);
        _exit(127);
    }
    (void)close(s->listener.fd);
}

void served_end(struct served *s)
{
    char path[400];
    int status = 0;
    (void)kill(s->pid, SIGTERM);
    check(waitpid(s->pid, &status, 0) == s->pid && status == 0, "the server did not end well");
    (void)snprintf(path, sizeof path, "%s/quipu.db", s->dir);
    file_remove(path);
    (void)snprintf(path, sizeof path, "%s/backups", s->dir);
    (void)rmdir(path);
    (void)rmdir(s->dir);
}
