/* stream.h - a stream of messages that is filled to a size and kept there */
#ifndef QP_BENCH_STREAM_H
#define QP_BENCH_STREAM_H

#include "store/store.h"

struct stream {
    struct store *store;
    struct commit commit;
    int64_t epoch;
    int64_t put; /* so far */
    double seconds;
    int64_t claimed;
};

/* `path` as for store_open: a new store. */
void stream_open(struct stream *s, const char *path, int64_t size);
/* A hundred are claimed in one commit; in the next one they are acked and as many new ones put. */
void stream_round(struct stream *s);
void stream_close(struct stream *s);

#endif
