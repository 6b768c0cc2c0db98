/* pgserver.c - a private PostgreSQL cluster for a test, and its guardian (see pgserver.h)
 *
 *     test program ---- socket, one byte per command ----> guardian ----> initdb, postgres
 *
 *   I1  the guardian is the parent of all that it runs, and inherits the orphans (subreaper): when
 *       it has no child left, no process of the cluster is left
 *   I2  the end of the socket is the end of the cluster: the guardian then stops the server and
 *       removes the directory
 *   I3  the port belongs to the cluster from the first moment on, also while the server is down: a
 *       socket of ours stays bound to it without listening. Who asks the kernel for a free port
 *       does not get this one; the server may bind it as well, since both allow it (SO_REUSEADDR)
 *   I4  where $QP_TEST_CLUSTER names a directory, the first cluster of all programs is made there, and then every
 *       cluster is a copy of that one, which takes a tenth of the time. No server ever runs on it; `data` is whole from
 *       the moment on that it has its name
 *
 * If the test program dies, I2. If the guardian is killed, the server gets a signal from the kernel
 * and ends; the directory stays.
 */
#include "support/pgserver.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <postgresql/libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "support/files.h"

#define START_LIMIT_MS 60000
#define START_PAUSE_MS 10
#define ARGUMENTS_MAX 16
#define MEMORY_DIRECTORY "/dev/shm"
#define MEMORY_MIN_SIZE (2ULL << 30) /* a cluster takes 60 MB, and its log may grow */
#define GUARDIAN_CHANNEL 3

enum command {
    COMMAND_INIT = 'i',
    COMMAND_START = 's',
    COMMAND_IS_ALIVE = 'a',
    COMMAND_FAST = 'f',
    COMMAND_IMMEDIATE = 'm',
    COMMAND_KILL = 'k'
};

struct database {
    struct database *next;
    char name[64];
    char url[256];
};

struct pgserver {
    char dir[200];
    char data[220];
    char log[220];
    char model[220]; /* I4; "": none */
    char initdb[300];
    char postgres[300];
    uid_t uid; /* of the server's processes */
    gid_t gid;
    int port;
    int port_fd; /* I3 */
    int channel; /* to the guardian */
    pid_t guardian;
    pid_t postmaster; /* in the guardian only; 0: none */
    struct database *databases;
};

/* --------------------------------------------------------------------------------- the guardian */

/* Never returns. What the test has set for itself is not for the server: signals, working
 * directory. */
static _Noreturn void become(const struct pgserver *s, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX] = {NULL};
    sigset_t none;
    int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    for (size_t i = 0; arguments[i] != NULL && i + 1 < ARGUMENTS_MAX; i++) {
        argv[i] = (char *)(uintptr_t)arguments[i];
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
        _exit(126);
    }
    (void)close(GUARDIAN_CHANNEL);
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(s->gid) != 0 || setuid(s->uid) != 0)) {
        _exit(126);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGQUIT); /* after setuid, which resets it */
    (void)execv(argv[0], argv);
    _exit(127);
}

static pid_t run(const struct pgserver *s, const char *const *arguments)
{
    pid_t child = fork();
    if (child == 0) {
        become(s, arguments);
    }
    return child;
}

static bool run_to_end(const struct pgserver *s, const char *const *arguments)
{
    int status = -1;
    pid_t child = run(s, arguments);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool make_cluster(const struct pgserver *s, const char *data)
{
    /* The cluster starts empty and ends with the test: no need to sync what initdb writes. */
    return run_to_end(s, (const char *[]){s->initdb, "--no-sync", "--no-instructions", "-D", data,
                                          "-A", "trust", "-U", "postgres", "-E", "UTF8",
                                          "--locale=C", NULL});
}

/* I4. One program makes it, the others wait for the lock. */
static bool make_model(const struct pgserver *s, const char *data)
{
    char name[260];
    char fresh[260];
    int lock;
    bool made;
    (void)snprintf(name, sizeof name, "%s/lock", s->model);
    (void)snprintf(fresh, sizeof fresh, "%s/fresh", s->model);
    lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0 || flock(lock, LOCK_EX) != 0 || chown(s->model, s->uid, s->gid) != 0) {
        return false;
    }
    made = access(data, F_OK) == 0 || (make_cluster(s, fresh) && rename(fresh, data) == 0);
    (void)close(lock); /* which unlocks it */
    return made;
}

static bool guardian_init(const struct pgserver *s)
{
    char data[260];
    if (s->model[0] == '\0') {
        return make_cluster(s, s->data);
    }
    (void)snprintf(data, sizeof data, "%s/data", s->model);
    return make_model(s, data) &&
           run_to_end(s, (const char *[]){"/bin/cp", "-R", "--preserve=mode", data, s->data, NULL});
}

static bool guardian_start(struct pgserver *s)
{
    s->postmaster = run(s, (const char *[]){s->postgres, "-D", s->data, NULL});
    return s->postmaster > 0;
}

static bool guardian_is_alive(struct pgserver *s)
{
    if (s->postmaster > 0 && waitpid(s->postmaster, NULL, WNOHANG) == s->postmaster) {
        s->postmaster = 0;
    }
    return s->postmaster > 0;
}

static bool guardian_end(struct pgserver *s, int signal)
{
    if (s->postmaster > 0) {
        (void)kill(s->postmaster, signal); /* it may have ended by itself */
    }
    while (waitpid(-1, NULL, 0) > 0) {} /* I1 */
    s->postmaster = 0;
    return true;
}

static bool guardian_obey(struct pgserver *s, char command)
{
    switch ((enum command)command) {
    case COMMAND_INIT:
        return guardian_init(s);
    case COMMAND_START:
        return guardian_start(s);
    case COMMAND_IS_ALIVE:
        return guardian_is_alive(s);
    case COMMAND_FAST:
        return guardian_end(s, SIGINT);
    case COMMAND_IMMEDIATE:
        return guardian_end(s, SIGQUIT);
    case COMMAND_KILL:
        return guardian_end(s, SIGKILL);
    }
    return false;
}

/* A killed server leaves its postmaster.pid, whose seventh line has the key and the number of a
 * piece of System V shared memory, which outlives all processes. The next server would free it;
 * here there is none to come. */
static void guardian_free_memory(const struct pgserver *s)
{
    char line[200] = "";
    char name[300];
    char *number;
    int lines = 0;
    FILE *file;
    (void)snprintf(name, sizeof name, "%s/postmaster.pid", s->data);
    file = fopen(name, "re"); /* the exec to come closes it */
    while (file != NULL && lines < 7 && fgets(line, sizeof line, file) != NULL) {
        lines++;
    }
    if (lines == 7 && strtoul(line, &number, 10) != 0) {
        (void)shmctl((int)strtol(number, NULL, 10), IPC_RMID, NULL);
    }
}

/* Holds no descriptor of the test, so that nobody waits for an end that it keeps open; and is in no
 * process group of the test, so that nobody ends both with one signal. */
static void guardian_detach(int channel)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid();
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        dup2(channel, GUARDIAN_CHANNEL) < 0 || close_range(GUARDIAN_CHANNEL + 1, ~0U, 0) != 0 ||
        chdir("/") != 0) {
        _exit(1);
    }
}

static _Noreturn void guardian_main(struct pgserver *s, int channel)
{
    char command;
    guardian_detach(channel);
    while (read(GUARDIAN_CHANNEL, &command, 1) == 1) {
        char answer = guardian_obey(s, command) ? 'y' : 'n';
        (void)!write(GUARDIAN_CHANNEL, &answer, 1); /* who does not listen is gone: read tells */
    }
    (void)guardian_end(s, SIGQUIT);
    guardian_free_memory(s);
    (void)execl("/bin/rm", "rm", "-rf", s->dir, NULL);
    _exit(1);
}

static void guardian_create(struct pgserver *s)
{
    int ends[2];
    QP_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    (void)fflush(NULL);
    s->guardian = fork();
    QP_ASSERT(s->guardian >= 0);
    if (s->guardian == 0) {
        guardian_main(s, ends[1]);
    }
    (void)close(ends[1]);
    s->channel = ends[0];
}

static bool ask(const struct pgserver *s, enum command command)
{
    char byte = (char)command;
    QP_ASSERT(send(s->channel, &byte, 1, MSG_NOSIGNAL) == 1);
    QP_ASSERT(recv(s->channel, &byte, 1, MSG_WAITALL) == 1);
    return byte == 'y';
}

/* ------------------------------------------------------------------------------ the test's side */

static _Noreturn void give_up(const struct pgserver *s, const char *what)
{
    char line[1000];
    FILE *log = fopen(s->log, "re");
    (void)fprintf(stderr, "pgserver: %s\n", what);
    while (log != NULL && fgets(line, sizeof line, log) != NULL) {
        (void)fprintf(stderr, "    | %s", line);
    }
    abort();
}

/* Debian keeps every version in a directory of its own: the newest one that has a server. */
static void find_programs(struct pgserver *s)
{
    const char *best = NULL;
    glob_t found = {0};
    (void)glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found); /* none: said below */
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (best == NULL || strverscmp(found.gl_pathv[i], best) > 0) {
            best = found.gl_pathv[i];
        }
    }
    if (best == NULL) {
        give_up(s, "no PostgreSQL server is installed; make deps does that");
    }
    QP_ASSERT((size_t)snprintf(s->postgres, sizeof s->postgres, "%s", best) < sizeof s->postgres);
    (void)snprintf(s->initdb, sizeof s->initdb, "%.*sinitdb",
                   (int)(strlen(best) - strlen("postgres")), best);
    globfree(&found);
}

static bool never_copy;

void pgserver_never_copy(void)
{
    never_copy = true;
}

static void find_model(struct pgserver *s)
{
    const char *model = never_copy ? NULL : getenv("QP_TEST_CLUSTER");
    int n = snprintf(s->model, sizeof s->model, "%s", model != NULL ? model : "");
    QP_ASSERT((size_t)n < sizeof s->model);
}

static void find_user(struct pgserver *s)
{
    s->uid = geteuid();
    s->gid = getegid();
    if (s->uid == 0) { /* the server refuses to run as root */
        const struct passwd *user = getpwnam("postgres");
        QP_ASSERT(user != NULL);
        s->uid = user->pw_uid;
        s->gid = user->pw_gid;
    }
}

/* Memory, when there is plenty of it: a cluster is made there in a third of the time. */
static bool is_roomy(const char *dir)
{
    struct statvfs v;
    return access(dir, W_OK | X_OK) == 0 && statvfs(dir, &v) == 0 &&
           (uint64_t)v.f_bavail * v.f_frsize >= MEMORY_MIN_SIZE;
}

static bool on_disk;

void pgserver_on_disk(void)
{
    on_disk = true;
}

static void make_directory(struct pgserver *s)
{
    char dir[sizeof s->dir] = MEMORY_DIRECTORY "/quipu-pg.XXXXXX";
    char *whole;
    if (on_disk || !is_roomy(MEMORY_DIRECTORY) || mkdtemp(dir) == NULL) {
        files_temporary(dir, sizeof dir, "pg");
    }
    whole = realpath(dir, NULL); /* the guardian lives in another directory */
    QP_ASSERT(whole != NULL && strlen(whole) < sizeof s->dir);
    (void)snprintf(s->dir, sizeof s->dir, "%s", whole);
    (void)snprintf(s->data, sizeof s->data, "%s/data", s->dir);
    (void)snprintf(s->log, sizeof s->log, "%s/log", s->dir);
    free(whole);
    QP_ASSERT(chown(s->dir, s->uid, s->gid) == 0);
}

static void reserve_port(struct pgserver *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    s->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    QP_ASSERT(s->port_fd >= 0);
    QP_ASSERT(bind(s->port_fd, (struct sockaddr *)&address, sizeof address) == 0);
    QP_ASSERT(getsockname(s->port_fd, (struct sockaddr *)&address, &size) == 0);
    s->port = ntohs(address.sin_port);
    /* Only now: with it, bind would also give a port that another such socket has. */
    QP_ASSERT(setsockopt(s->port_fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
}

/* Dynamic shared memory goes to files of the cluster: a killed server leaves nothing elsewhere. And
 * recovery first syncs every file there is, which takes a second when it does so one by one. */
static void write_settings(const struct pgserver *s, const char *const *settings)
{
    char name[300];
    FILE *file;
    (void)snprintf(name, sizeof name, "%s/postgresql.conf", s->data);
    file = fopen(name, "ae");
    QP_ASSERT(file != NULL);
    (void)fprintf(file,
                  "listen_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = '%s'\n"
                  "shared_buffers = 64MB\nmax_connections = 100\nfsync = on\n"
                  "dynamic_shared_memory_type = mmap\nrecovery_init_sync_method = syncfs\n",
                  s->port, s->dir);
    for (size_t i = 0; settings[i] != NULL; i++) {
        (void)fprintf(file, "%s\n", settings[i]);
    }
    QP_ASSERT(fclose(file) == 0);
}

struct pgserver *pgserver_start_with(const char *const *settings)
{
    struct pgserver *s = calloc(1, sizeof *s);
    QP_ASSERT(s != NULL);
    find_programs(s);
    find_model(s);
    find_user(s);
    make_directory(s);
    reserve_port(s);
    guardian_create(s);
    if (!ask(s, COMMAND_INIT)) {
        give_up(s, "initdb failed");
    }
    write_settings(s, settings);
    pgserver_resume(s);
    return s;
}

struct pgserver *pgserver_start(void)
{
    return pgserver_start_with((const char *const[]){NULL});
}

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

void pgserver_resume(struct pgserver *s)
{
    char url[100];
    (void)snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/postgres", s->port);
    QP_ASSERT(!ask(s, COMMAND_IS_ALIVE));
    QP_ASSERT(ask(s, COMMAND_START));
    for (int waited_ms = 0; PQping(url) != PQPING_OK; waited_ms += START_PAUSE_MS) {
        if (waited_ms > START_LIMIT_MS || !ask(s, COMMAND_IS_ALIVE)) {
            give_up(s, "the server did not start");
        }
        pause_ms(START_PAUSE_MS);
    }
}

void pgserver_halt(struct pgserver *s, const char *mode)
{
    bool fast = strcmp(mode, "fast") == 0;
    QP_ASSERT(fast || strcmp(mode, "immediate") == 0);
    QP_ASSERT(ask(s, fast ? COMMAND_FAST : COMMAND_IMMEDIATE));
}

void pgserver_kill(struct pgserver *s)
{
    QP_ASSERT(ask(s, COMMAND_KILL));
}

void pgserver_restart(struct pgserver *s, const char *mode)
{
    pgserver_halt(s, mode);
    pgserver_resume(s);
}

void pgserver_stop(struct pgserver *s)
{
    if (s == NULL) {
        return;
    }
    (void)shutdown(s->channel, SHUT_RDWR); /* also for children that have it */
    (void)close(s->channel);
    (void)waitpid(s->guardian, NULL, 0);
    (void)close(s->port_fd);
    while (s->databases != NULL) {
        struct database *d = s->databases;
        s->databases = d->next;
        free(d);
    }
    free(s);
}

int pgserver_port(const struct pgserver *s)
{
    return s->port;
}

const char *pgserver_directory(const struct pgserver *s)
{
    return s->dir;
}

/* ------------------------------------------------------------------------------------ databases */

/* Runs one statement about a database, at the server of a URL without one. Returns
 * the SQLSTATE of a failure, "" when it went well. */
static void about_database(const char *base, const char *before, const char *name,
                           const char *after, char out_state[6])
{
    char text[300];
    const char *state;
    char *quoted;
    PGresult *result;
    PGconn *c;
    (void)snprintf(text, sizeof text, "%s/postgres", base);
    c = PQconnectdb(text);
    if (PQstatus(c) != CONNECTION_OK) {
        (void)fprintf(stderr, "pgserver: %s", PQerrorMessage(c));
        abort();
    }
    quoted = PQescapeIdentifier(c, name, strlen(name));
    QP_ASSERT(quoted != NULL);
    (void)snprintf(text, sizeof text, "%s %s %s", before, quoted, after);
    result = PQexec(c, text);
    state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(out_state, 6, "%s", state != NULL ? state : "");
    PQclear(result);
    PQfreemem(quoted);
    PQfinish(c);
}

static void create_database(const char *base, const char *name)
{
    char state[6];
    about_database(base, "CREATE DATABASE", name, "", state);
    if (state[0] != '\0' && strcmp(state, "42P04") != 0) { /* it is there */
        (void)fprintf(stderr, "pgserver: CREATE DATABASE %s: SQLSTATE %s\n", name, state);
        abort();
    }
}

static struct database *database_add(struct database **list, const char *base, const char *name)
{
    struct database *d = calloc(1, sizeof *d);
    QP_ASSERT(d != NULL && strlen(name) < sizeof d->name);
    create_database(base, name);
    (void)snprintf(d->name, sizeof d->name, "%s", name);
    QP_ASSERT((size_t)snprintf(d->url, sizeof d->url, "%s/%s", base, name) < sizeof d->url);
    d->next = *list;
    *list = d;
    return d;
}

const char *pgserver_url(struct pgserver *s, const char *database)
{
    char base[100];
    for (const struct database *d = s->databases; d != NULL; d = d->next) {
        if (strcmp(d->name, database) == 0) {
            return d->url;
        }
    }
    (void)snprintf(base, sizeof base, "postgresql://postgres@127.0.0.1:%d", s->port);
    return database_add(&s->databases, base, database)->url;
}

/* -------------------------------------------------------------------------- one for the process */

static struct {
    pid_t owner; /* a forked child must not stop what its parent uses */
    struct pgserver *server;
    struct database *databases; /* in the cluster of QP_TEST_PG */
    unsigned count;
} shared;

static void shared_end(void)
{
    char state[6];
    if (getpid() != shared.owner) {
        return;
    }
    pgserver_stop(shared.server);
    while (shared.databases != NULL) {
        struct database *d = shared.databases;
        shared.databases = d->next;
        about_database(getenv("QP_TEST_PG"), "DROP DATABASE IF EXISTS", d->name, "WITH (FORCE)",
                       state);
        free(d);
    }
}

const char *pgserver_shared(void)
{
    const char *base = getenv("QP_TEST_PG");
    char name[64];
    if (shared.owner == 0) {
        shared.owner = getpid();
        shared.server = base == NULL ? pgserver_start() : NULL;
        QP_ASSERT(atexit(shared_end) == 0);
    }
    (void)snprintf(name, sizeof name, "test_%ld_%u", (long)getpid(), ++shared.count);
    return shared.server != NULL ? pgserver_url(shared.server, name)
                                 : database_add(&shared.databases, base, name)->url;
}
