/* lanes.h - connections that one thread drives, for benchmarks: whenever an answer is there, the next request goes out */
#ifndef QP_BENCH_LANES_H
#define QP_BENCH_LANES_H

#include <stdbool.h>
#include <stddef.h>

#define LANE_BUFFER (64 * 1024)

/* A connection that one request after the other goes through. */
struct lane {
    int fd;
    size_t size;
    char in[LANE_BUFFER];
};

void lane_open(struct lane *l, int port);
void lane_send(struct lane *l, const char *text, size_t size);
/* Whenever an answer is there, `next` makes the next request, until it says that there are enough. */
void lanes_drive(struct lane *lanes, int count,
                 bool (*next)(struct lane *l, char *body, size_t size));

#endif
