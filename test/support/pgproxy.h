/* pgproxy.h - a proxy before a PostgreSQL server that delays, stalls, swallows and cuts
 *
 * It runs in one thread of the test program, listens on a free port of the loopback and passes
 * bytes both ways, each connection for itself. It follows the framing of the protocol as far as it
 * needs to see a COMMIT: the server's CommandComplete with this tag. Requests for encryption it
 * refuses itself.
 *
 * One fault at a time is armed. Two of them happen once, after which everything passes again: the
 * reset and the lost reply. The others stay until something else is armed.
 *
 * All calls may come from any thread, pgproxy_stop last.
 */
#ifndef QP_TEST_PGPROXY_H
#define QP_TEST_PGPROXY_H

#include <stdint.h>

struct pgproxy;

enum pgproxy_kind {
    PGPROXY_NONE,
    PGPROXY_DELAY,       /* what comes is held for delay_ms, both ways */
    PGPROXY_SLOW,        /* one byte every delay_ms, both ways */
    PGPROXY_STALL,       /* nothing moves; it goes on when something else is armed */
    PGPROXY_DEAF,        /* what the client says is swallowed, for good */
    PGPROXY_MUTE,        /* what the server says is swallowed, for good */
    PGPROXY_RESET,       /* both ends get a reset; once */
    PGPROXY_CUT_OFF,     /* likewise, and connections to come stall */
    PGPROXY_DROP_COMMIT, /* the reply to a COMMIT and all after it vanish, then a reset: the server
                            has applied it, the client never hears of it; once */
    PGPROXY_KINDS
};

/* after_commits: so many COMMITs pass first, on whatever connections, and the one that had the last
 * of them is struck, when the bytes that came with its reply are through. 0: all connections are
 * struck, those there are and (but by a reset) those to come. PGPROXY_DROP_COMMIT strikes the one
 * that has the next COMMIT after them, in either case. */
struct pgproxy_fault {
    enum pgproxy_kind kind;
    int64_t after_commits;
    int64_t delay_ms;
};

struct pgproxy *pgproxy_start(int server_port);
/* Closes all connections; NULL is fine. */
void pgproxy_stop(struct pgproxy *x);

int pgproxy_port(const struct pgproxy *x);
/* The URL of a database by way of the proxy. It lives until the next call. */
const char *pgproxy_url(struct pgproxy *x, const char *database);

/* In place of what was armed before, in force when it returns. */
void pgproxy_arm(struct pgproxy *x, const struct pgproxy_fault *fault);
int64_t pgproxy_hits(struct pgproxy *x);    /* connections struck since pgproxy_arm */
int64_t pgproxy_commits(struct pgproxy *x); /* COMMITs the server has told of since the start */

#endif
