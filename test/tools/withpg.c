/* withpg.c - runs a command beside a private PostgreSQL cluster: for tests that are scripts
 *
 *     withpg COMMAND [ARGUMENT]...
 *
 * The command finds the cluster's URL, without a database, in QP_TEST_PG. Its exit code is ours. The
 * cluster ends with us, however we end (pgserver.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "support/pgserver.h"

static int run(char **argv)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp(argv[0], argv); /* it returns when it fails */
        perror(argv[0]);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("withpg");
        return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    struct pgserver *server;
    char url[128];
    int status;
    if (argc < 2) {
        (void)fputs("usage: withpg COMMAND [ARGUMENT]...\n", stderr);
        return 2;
    }
    server = pgserver_start();
    (void)snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d", pgserver_port(server));
    QP_ASSERT(setenv("QP_TEST_PG", url, 1) == 0);
    status = run(argv + 1);
    pgserver_stop(server);
    return status;
}
