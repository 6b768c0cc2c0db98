/* manager.c - starts a command as a service manager does, and tells what the command tells it
 *
 *     manager COMMAND [ARGUMENT]...
 *
 * The command has a listening socket on this machine as its first one (LISTEN_FDS), a place to tell how it goes
 * (NOTIFY_SOCKET, a name in the current directory) and a watchdog that wants to hear of it five times a second. We print
 * `socket HOST:PORT`, then what we are told, line by line, and at last `exit STATUS`. SIGTERM is handed on. All of it ends
 * with the command.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#define PLACE "notify.sock"
#define WATCHDOG_US "200000"
#define SOCKET_FD 3 /* where the protocol has the first one */

static volatile sig_atomic_t child;

static void hand_on(int number)
{
    if (child > 0) {
        (void)kill((pid_t)child, number);
    }
}

static void check(bool good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static int listening(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &size) == 0,
          "socket");
    printf("socket 127.0.0.1:%d\n", ntohs(at.sin_port));
    return fd;
}

static int told_at(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = PLACE};
    struct timeval wait = {.tv_usec = 100 * 1000};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)unlink(PLACE);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0,
          PLACE);
    return fd;
}

static void run(int socket_fd, char **argv)
{
    char pid[32];
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
    if (socket_fd == SOCKET_FD) {
        socket_fd = dup(socket_fd); /* so that the copy below is one that stays open */
    }
    check(dup2(socket_fd, SOCKET_FD) == SOCKET_FD && setenv("LISTEN_PID", pid, 1) == 0 &&
              setenv("LISTEN_FDS", "1", 1) == 0 && setenv("NOTIFY_SOCKET", PLACE, 1) == 0 &&
              setenv("WATCHDOG_USEC", WATCHDOG_US, 1) == 0,
          "setting up");
    (void)execvp(argv[0], argv); /* it returns when it fails */
    check(false, argv[0]);
}

static void print_told(int fd)
{
    char text[1024];
    ssize_t n;
    while ((n = recv(fd, text, sizeof text - 1, 0)) > 0) {
        text[n] = '\0';
        printf("%s\n", text);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int status = 0;
    int socket_fd;
    int told_fd;
    if (argc < 2) {
        (void)fputs("usage: manager COMMAND [ARGUMENT]...\n", stderr);
        return 2;
    }
    (void)signal(SIGTERM, hand_on);
    socket_fd = listening();
    told_fd = told_at();
    (void)fflush(stdout);
    child = (sig_atomic_t)fork();
    check(child >= 0, "fork");
    if (child == 0) {
        run(socket_fd, argv + 1);
    }
    (void)close(socket_fd);
    while (waitpid((pid_t)child, &status, WNOHANG) == 0) {
        print_told(told_fd);
    }
    print_told(told_fd);
    (void)unlink(PLACE);
    printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
