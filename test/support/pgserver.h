/* pgserver.h - a private PostgreSQL cluster on a free port of the loopback, for a test
 *
 * The cluster lives in a directory of /dev/shm, or below $TMPDIR where that has not room enough, and ends with the program, however the program
 * ends: a guardian process runs the server, takes it down and its directory away when the test's
 * end of a socket is closed, which is so also when the test is killed. Children that the test forks
 * hold that end, too.
 *
 * With QP_TEST_CLUSTER, the path of a directory, clusters are copies of one that the first program makes there
 * (tools/runtests sets it).
 *
 * Started by root, the server runs as the user postgres, who must be able to get to the directory.
 *
 * What does not work says so on stderr, with the server's log, and aborts. Calls of one server come
 * from one thread at a time.
 */
#ifndef QP_TEST_PGSERVER_H
#define QP_TEST_PGSERVER_H

struct pgserver;

/* From now on clusters are made in $TMPDIR in any case: for who measures what a disk takes. */
void pgserver_on_disk(void);
/* From now on clusters are not copies: each has an identity of its own, which copies share. */
void pgserver_never_copy(void);
/* A new cluster that is up. Encoding UTF8, locale C, the superuser postgres, no passwords. */
struct pgserver *pgserver_start(void);
/* The same with further lines of postgresql.conf, ended by NULL: "max_connections = 5". */
struct pgserver *pgserver_start_with(const char *const *settings);
/* Ends it and removes its directory; NULL is fine. */
void pgserver_stop(struct pgserver *s);

/* The URL of a database, which is created when it is missing. It lives as long as s. */
const char *pgserver_url(struct pgserver *s, const char *database);
int pgserver_port(const struct pgserver *s);
const char *pgserver_directory(const struct pgserver *s);

/* Ends the server: "fast" tells everybody and writes a checkpoint, "immediate" leaves the rest to
 * recovery. Returns when all its processes are gone. The port stays reserved, and nobody answers on
 * it. */
void pgserver_halt(struct pgserver *s, const char *mode);
/* SIGKILL to the main process: the others notice and end by themselves. Returns when they have. */
void pgserver_kill(struct pgserver *s);
/* Starts a server that was ended by one of the two. */
void pgserver_resume(struct pgserver *s);
/* Halts and resumes. */
void pgserver_restart(struct pgserver *s, const char *mode);

/* The URL of a fresh database, for tests that are content with any server: in the cluster that
 * QP_TEST_PG names (a URL without a database: postgresql://postgres@127.0.0.1:5432), else in one
 * that this process starts at the first call and stops at its exit. The string lives until then,
 * and so does the database. */
const char *pgserver_shared(void);

#endif
