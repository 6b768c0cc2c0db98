/* served.h - a server as a process of its own, for benchmarks: its memory and its processor time are its own
 *
 * The process is this program, started again: main gives it over with served_is and served_main.
 */
#ifndef QP_BENCH_SERVED_H
#define QP_BENCH_SERVED_H

#include <stdbool.h>
#include <sys/types.h>

#include "place.h"
#include "server/server.h"

struct served {
    struct listener listener;
    int port;
    pid_t pid;
    char dir[320];
};

bool served_is(int argc, char **argv);
int served_main(char **argv);

/* On a file in a directory below `parent`, without tokens. */
void served_start(struct served *s, const char *parent);
/* Fails unless it ends well; removes what it has left. */
void served_end(struct served *s);

/* Ends the program unless it is so. */
void check(bool good, const char *what);
void nap(long ms);

#endif
