/* countrows.h - how many rows a store reads and writes, counted where it calls its provider, whichever that is
 *
 * A row that a cache of the handle knows is not read. One store at a time.
 */
#ifndef QP_TEST_COUNTROWS_H
#define QP_TEST_COUNTROWS_H

#include "store/store.h"

struct countrows {
    int64_t read;
    int64_t written;
};

/* From now on, until countrows_end or the handle is closed. */
void countrows_begin(struct store *s);
void countrows_end(struct store *s);
struct countrows countrows_now(void);

#endif
