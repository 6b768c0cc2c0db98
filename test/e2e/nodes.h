/* nodes.h - servers as processes of their own, which a test kills, stops and lets go on
 *
 * A node is this program, started again with --serve. Its listening socket belongs to the test, so that the port stays
 * the same whatever happens to the node, and a client that connects meanwhile waits for the next one.
 *
 * All nodes of a test share one store: a file (one node), or a database (several).
 */
#ifndef QP_TEST_E2E_NODES_H
#define QP_TEST_E2E_NODES_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/http.h"

#define NODES_MOST 3

struct node {
    char dir[320];
    struct listener listener;
    int port;
    pid_t pid; /* 0: it is not running */
};

struct nodes {
    struct node node[NODES_MOST];
    int count;
    const char *url; /* of the database; NULL: a file in the directory of the only node */
};

/* In the child: serves until SIGTERM; the exit code of the process. argv as nodes_start made it. */
int nodes_serve(char **argv);
bool nodes_is_serve(int argc, char **argv);

void nodes_open(struct nodes *n, int count, const char *url);
void nodes_start(struct nodes *n, int i);
/* Starts each node that ended by itself; how many there were. */
int nodes_tend(struct nodes *n);
/* SIGKILL, and waits until it is gone. */
void nodes_kill(struct nodes *n, int i);
/* SIGTERM; fails the test unless it ends well. */
void nodes_end(struct nodes *n, int i);
/* The file of the store, when it is one. */
void nodes_file(const struct nodes *n, char *out, size_t size);
/* Ends all that run, and removes their directories. */
void nodes_close(struct nodes *n);

void nap_ms(long ms);

#endif
